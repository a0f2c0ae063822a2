//! Finds the fastest of a few variants that take turns, leaving out the slow ones as soon as they are known to be.
//!
//! Every round times each variant that is left once, in random order. Variants are compared within rounds, so that
//! what disturbs the machine for longer than a round hits all of them alike, and by medians, so that what disturbs it
//! for less moves little.

use std::time::{Duration, Instant};

use crate::Result;
use crate::campaign::shuffled;
use crate::stats::descriptive::{median, sorted};
use crate::stats::interval::{CONFIDENCE, Interval};
use crate::stats::random::Stream;

/// Less than this is no difference.
pub const TIE: f64 = 0.02;
/// A variant that is slower than this is not taken for an equal one, however unsure the figures are. A choice may be
/// 5 % behind the best, and a median of a few rounds is off by a per cent or two.
const UNSURE_TIE: f64 = 0.03;
/// Rounds before any variant is left out, unless all of them agree that it is far behind.
const ROUNDS_TO_JUDGE: usize = 6;
/// Far behind: left out after [`MIN_ROUNDS`].
const FAR_BEHIND: f64 = 0.15;
/// The least number of rounds of a result.
pub const MIN_ROUNDS: usize = 3;
/// More rounds than this tell nothing new.
const MAX_ROUNDS: usize = 60;

/// What a search found; variants are numbered as given, the preferred ones of equals first.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The first of those that are as fast as the fastest.
    pub chosen: usize,
    /// All of those.
    pub equal: Vec<usize>,
    /// The one with the highest median.
    pub fastest: usize,
    /// Whether all are equally fast.
    pub no_difference: bool,
    /// Whether the time ran out before the question was settled.
    pub out_of_time: bool,
    /// Nanoseconds for each step, of each variant in each of its rounds.
    pub times: Vec<Vec<f64>>,
}

/// Compares `variants` variants until `deadline`. `sample` answers the time of a step of one of them; `after` hears of every round that is
/// done, with the number of variants left.
pub fn search(
    variants: usize,
    deadline: Instant,
    mut sample: impl FnMut(usize) -> Result<f64>,
    mut after: impl FnMut(usize, usize),
) -> Result<Found> {
    assert!(variants > 0, "there must be something to choose from");
    let mut random = Stream::new(variants as u64, 2);
    let mut times = vec![Vec::new(); variants];
    let mut left: Vec<usize> = (0..variants).collect();
    let (mut rounds, mut settled, mut longest) = (0, false, Duration::ZERO);
    while !settled && rounds < MAX_ROUNDS {
        let start = Instant::now();
        if rounds >= MIN_ROUNDS && start + longest > deadline {
            break;
        }
        for at in shuffled(left.len(), &mut random) {
            times[left[at]].push(sample(left[at])?);
        }
        longest = longest.max(start.elapsed());
        rounds += 1;
        after(rounds, left.len());
        if rounds >= MIN_ROUNDS {
            let limit = if rounds >= ROUNDS_TO_JUDGE { TIE } else { FAR_BEHIND };
            let fastest = fastest_of(&times);
            left.retain(|&i| i == fastest || slowdown(&times[i], &times[fastest], CONFIDENCE).interval.low <= limit);
            settled = rounds >= ROUNDS_TO_JUDGE && left.iter().all(|&i| is_settled(&times[i], &times[fastest]));
        }
    }
    let fastest = fastest_of(&times);
    let equal: Vec<usize> = (0..variants).filter(|&i| is_equal(&times[i], &times[fastest])).collect();
    Ok(Found {
        chosen: equal[0],
        fastest,
        no_difference: variants > 1 && equal.len() == variants,
        out_of_time: !settled && rounds < MAX_ROUNDS && variants > 1,
        equal,
        times,
    })
}

/// By how much one variant is slower than another, as the logarithm of the ratio of their times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slowdown {
    pub(super) median: f64,
    pub(super) interval: Interval,
}

/// Of the rounds that both took part in.
pub(super) fn slowdown(times: &[f64], reference: &[f64], confidence: f64) -> Slowdown {
    let logs: Vec<f64> = times.iter().zip(reference).map(|(a, b)| (a / b).ln()).collect();
    Slowdown { median: median(&logs), interval: median_interval(&logs, confidence) }
}

fn is_equal(times: &[f64], fastest: &[f64]) -> bool {
    let Slowdown { median, interval } = slowdown(times, fastest, CONFIDENCE);
    median <= TIE || (interval.low <= 0.0 && median <= UNSURE_TIE)
}

/// Whether more rounds would hardly change which side of a tie this is on.
fn is_settled(times: &[f64], fastest: &[f64]) -> bool {
    let Slowdown { interval, .. } = slowdown(times, fastest, CONFIDENCE);
    interval.high <= TIE || interval.low > TIE
}

/// The variant with the smallest time, compared in the rounds that it shares with the others that are left.
fn fastest_of(times: &[Vec<f64>]) -> usize {
    let most = times.iter().map(Vec::len).max().unwrap_or(0);
    let left = (0..times.len()).filter(|&i| times[i].len() == most);
    left.min_by(|&a, &b| median(&times[a]).total_cmp(&median(&times[b]))).expect("at least one is left")
}

/// The interval of a median between two of the sorted values, such that it holds the true one with at least this
/// confidence; from the smallest to the largest value if there are too few for that (for 95 % fewer than six).
pub(super) fn median_interval(values: &[f64], confidence: f64) -> Interval {
    let sorted = sorted(values);
    let n = sorted.len();
    // P(fewer than k of n fair coins show heads), summed while the outside of [k, n-1-k] stays below the error.
    let mut outside = 0.0;
    let mut term = 0.5f64.powi(n as i32);
    let mut k = 0;
    while 2.0 * (outside + term) <= 1.0 - confidence && k + 1 < n.div_ceil(2) {
        outside += term;
        term *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    let first = k.saturating_sub(1);
    Interval { low: sorted[first], high: sorted[n - 1 - first] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Variants of these true times under noise of 1 %, and every tenth sample twice as slow.
    fn found(times: &[f64], noise: f64) -> Found {
        let mut random = Stream::new(5, 0);
        let deadline = Instant::now() + Duration::from_secs(3600);
        let sample = |i: usize| {
            let spike = if random.below(10) == 0 { 2.0 } else { 1.0 };
            Ok(times[i] * spike * (1.0 + noise * (random.unit() - 0.5)))
        };
        search(times.len(), deadline, sample, |_, _| {}).unwrap()
    }

    #[test]
    fn the_fastest_is_found_through_noise_and_slow_ones_are_left_early() {
        let found = found(&[15.0, 12.0, 10.5, 10.0, 11.0], 0.02);
        assert_eq!((found.chosen, found.fastest, found.no_difference, found.out_of_time), (3, 3, false, false));
        assert!(found.times[0].len() < found.times[3].len() || found.times[3].len() <= ROUNDS_TO_JUDGE);
    }

    #[test]
    fn equals_go_to_the_first() {
        let close = found(&[12.0, 10.1, 10.0, 10.05], 0.01);
        assert_eq!((close.chosen, close.no_difference), (1, false));
        let same = found(&[10.0, 10.0, 10.0], 0.02);
        assert_eq!((same.chosen, same.no_difference), (0, true));
        let only = found(&[10.0], 0.02);
        assert_eq!((only.chosen, only.no_difference, only.out_of_time), (0, false, false));
    }

    #[test]
    fn the_deadline_leaves_the_least_number_of_rounds() {
        let found = search(2, Instant::now(), |i| Ok([10.0, 10.2][i]), |_, _| {}).unwrap();
        assert_eq!(found.times[0].len(), MIN_ROUNDS);
        assert!(found.out_of_time);
        assert_eq!(found.chosen, 0);
    }

    #[test]
    fn intervals_of_medians_are_those_of_the_sign_test() {
        let of = |n: usize| {
            let interval = median_interval(&(1..=n).map(|i| i as f64).collect::<Vec<_>>(), CONFIDENCE);
            (interval.low, interval.high)
        };
        // Tables of the sign test at 95 %.
        assert_eq!([of(1), of(3), of(5), of(6)], [(1.0, 1.0), (1.0, 3.0), (1.0, 5.0), (1.0, 6.0)]);
        assert_eq!([of(8), of(9), of(15), of(20)], [(1.0, 8.0), (2.0, 8.0), (4.0, 12.0), (6.0, 15.0)]);
    }

    #[test]
    fn what_is_four_per_cent_slower_is_no_equal_however_unsure() {
        let fastest = [10.0; 9];
        let unsure = |median: f64| [9.0, 9.5, 9.8, median, median, median, 11.0, 11.5, 12.0];
        assert!(is_equal(&unsure(10.25), &fastest));
        assert!(!is_equal(&unsure(10.4), &fastest));
    }
}
