//! Whether a choice was good: every candidate takes turns, and none is left out; then the choice and the best one
//! take turns alone. The second part is what counts, because the best of many is partly the luckiest.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::search::slowdown;
use super::subject::Subject;
use super::tuning::{timed, whole_chunks};
use crate::Result;
use crate::campaign::shuffled;
use crate::stats::descriptive::median;
use crate::stats::interval::Interval;
use crate::stats::random::Stream;

/// What every candidate amounts to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sweep {
    /// The choice that is judged.
    pub chosen: usize,
    /// The candidate with the highest median.
    pub best: usize,
    /// How much slower the choice is than the best when they take turns alone: the median, as a share.
    pub shortfall: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// Turns that each of the two took.
    pub turns: usize,
    /// The median speed of each candidate, in steps a second.
    pub speeds: Vec<(usize, f64)>,
}

impl Sweep {
    /// Whether the choice is at most `allowed` slower than the best; `None` if that is not known.
    pub fn is_within(&self, allowed: f64) -> Option<bool> {
        match self.interval {
            Interval { high, .. } if high <= allowed => Some(true),
            Interval { low, .. } if low > allowed => Some(false),
            _ => None,
        }
    }
}

/// How long a comparison goes on.
#[derive(Debug, Clone, Copy)]
pub struct SweepPlan {
    /// Rounds of all candidates.
    pub rounds: usize,
    /// The least time of a sample.
    pub sample: Duration,
    /// The choice and the best take turns until it is known whether they differ by more than this share ...
    pub allowed: f64,
    /// ... or until this has passed.
    pub most: Duration,
}

/// Turns of the choice and the best before the first look; an interval of fewer is the whole range.
const FIRST_LOOK: usize = 12;

/// Times the `chosen` chunk size and all `candidates`; `after` hears of each round and each turn.
pub fn sweep(
    subject: &dyn Subject,
    (num_envs, threads): (usize, usize),
    chosen: usize,
    candidates: &[usize],
    plan: SweepPlan,
    mut after: impl FnMut(&'static str, usize),
) -> Result<Sweep> {
    let mut chunks: Vec<usize> = candidates.iter().copied().chain([chosen]).collect();
    chunks.sort_unstable();
    chunks.dedup();
    let mut running = subject.start(num_envs, threads)?;
    let mut steps = Vec::new();
    for &chunk in &chunks {
        timed(running.as_mut(), threads, chunk, chunk)?;
        steps.push(whole_chunks(plan.sample, timed(running.as_mut(), threads, chunk, chunk)?, chunk));
    }
    let mut random = Stream::new(num_envs as u64, 3);
    let mut times = vec![Vec::new(); chunks.len()];
    for round in 0..plan.rounds.max(1) {
        for at in shuffled(chunks.len(), &mut random) {
            times[at].push(timed(running.as_mut(), threads, steps[at], chunks[at])?.step_ns);
        }
        after("all candidates", round + 1);
    }
    let medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
    let best = (0..chunks.len()).min_by(|&a, &b| medians[a].total_cmp(&medians[b])).expect("at least the choice");
    let own = chunks.iter().position(|&chunk| chunk == chosen).expect("it is among them");
    let mut found = Sweep {
        chosen,
        best: chunks[best],
        shortfall: 0.0,
        interval: Interval { low: 0.0, high: 0.0 },
        turns: 0,
        speeds: chunks.iter().copied().zip(medians.iter().map(|time| 1e9 / time)).collect(),
    };
    let (mut turns, start) = ([Vec::new(), Vec::new()], Instant::now());
    while own != best {
        for side in shuffled(2, &mut random) {
            let at = [own, best][side];
            turns[side].push(timed(running.as_mut(), threads, steps[at], chunks[at])?.step_ns);
        }
        found.turns += 1;
        after("the choice and the best", found.turns);
        if found.turns >= FIRST_LOOK {
            let behind = slowdown(&turns[0], &turns[1]);
            (found.shortfall, found.interval) = (behind.median.exp_m1(), behind.interval.map(f64::exp_m1));
            if found.is_within(plan.allowed).is_some() || start.elapsed() >= plan.most {
                break;
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_good_only_if_its_whole_interval_is() {
        let of = |low, high| {
            let (interval, speeds) = (Interval { low, high }, vec![]);
            Sweep { chosen: 1, best: 2, shortfall: 0.01, interval, turns: 12, speeds }.is_within(0.05)
        };
        assert_eq!(
            [of(-0.01, 0.05), of(0.0, 0.051), of(0.05, 0.2), of(0.06, 0.2)],
            [Some(true), None, None, Some(false)]
        );
    }
}
