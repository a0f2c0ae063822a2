//! The chunk sizes that are tried.

/// The usual ones, the smallest first.
pub const CHUNKS: [usize; 7] = [8, 16, 32, 64, 128, 256, 512];

/// When control has to return to the driver in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Steps between evaluations.
    pub eval_frequency: Option<usize>,
    /// Steps of an on-policy agent between updates, which are made in one go: shorter chunks would be the same.
    pub rollout_steps: Option<usize>,
}

/// The candidates, the smallest first; there is always one.
pub fn candidates(schedule: Schedule) -> Vec<usize> {
    let mut all = schedule.rollout_steps.map(of_rollouts).unwrap_or_default();
    if all.is_empty() {
        all = CHUNKS.to_vec();
    }
    if let Some(every) = schedule.eval_frequency {
        all.extend(CHUNKS.iter().filter_map(|&chunk| nearest_divisor(every, chunk)));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Chunks of whole roll-outs: one, or several while they are no longer than the largest of the usual.
fn of_rollouts(steps: usize) -> Vec<usize> {
    let largest = CHUNKS[CHUNKS.len() - 1];
    let more = (1..).map_while(|power| steps.checked_mul(1 << power)).take_while(|all| (1..=largest).contains(all));
    std::iter::once(steps).chain(more).filter(|steps| *steps > 0).collect()
}

/// The divisor of `whole` nearest to `chunk`, as a factor, and not further than a factor of √2: there are candidates
/// beyond. Of all divisors there can be too many to time.
fn nearest_divisor(whole: usize, chunk: usize) -> Option<usize> {
    let distance = |divisor: &usize| (*divisor as f64 / chunk as f64).ln().abs();
    let divisors = (1..=2 * chunk).filter(|divisor| whole.is_multiple_of(*divisor) && whole > 0);
    let nearest = divisors.min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    (distance(&nearest) <= 2f64.sqrt().ln() + 1e-9 || whole < CHUNKS[0]).then_some(nearest)
}

/// Those of the sorted `fitting` that can be measured within so many seconds, the smallest first: that of the rule of
/// thumb (`usual`) before others, because a choice has to beat it, then the nearest to it.
pub fn affordable(fitting: &[usize], usual: usize, cost: impl Fn(usize) -> f64, seconds: f64) -> Vec<usize> {
    let distance = |chunk: &usize| (*chunk as f64 / usual as f64).ln().abs();
    let mut chunks = fitting.to_vec();
    chunks.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
    let mut left = seconds;
    // The first must leave time for a rival: alone it would show nothing.
    let mut reserved = if let [cheapest, _, ..] = fitting { cost(*cheapest) } else { 0.0 };
    chunks.retain(|&chunk| {
        let fits = cost(chunk) + reserved <= left;
        if fits {
            left -= cost(chunk);
            reserved = 0.0;
        }
        fits
    });
    chunks.sort_unstable();
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluations_add_their_divisors() {
        assert_eq!(candidates(Schedule::default()), CHUNKS);
        let with = candidates(Schedule { eval_frequency: Some(1000), rollout_steps: None });
        assert_eq!(with, [8, 16, 20, 32, 40, 50, 64, 125, 128, 250, 256, 500, 512]);
        assert_eq!(candidates(Schedule { eval_frequency: Some(997), rollout_steps: None }), CHUNKS, "a prime");
    }

    #[test]
    fn a_short_time_is_for_the_rule_of_thumb_and_its_neighbours() {
        let quick = |seconds| affordable(&CHUNKS, 256, |_| 0.2, seconds);
        assert_eq!(quick(2.0), CHUNKS);
        assert_eq!(quick(0.85), [64, 128, 256, 512]);
        assert_eq!(quick(0.45), [128, 256]);
        assert!(quick(0.35).is_empty(), "nothing to compare with");
        assert_eq!(affordable(&[8], 8, |_| 0.2, 0.3), [8], "there is nothing else");
        // Long chunks cost by their size.
        let slow = |seconds| affordable(&CHUNKS, 128, |chunk| 0.1 * chunk as f64, seconds);
        assert_eq!(slow(30.0), [8, 16, 32, 64, 128]);
        assert_eq!(slow(14.0), [8, 128]);
        assert_eq!(slow(12.5), [8, 16, 32, 64]);
        assert_eq!(slow(1.0), Vec::<usize>::new());
    }

    #[test]
    fn on_policy_agents_make_whole_roll_outs() {
        let of = |steps| candidates(Schedule { eval_frequency: None, rollout_steps: Some(steps) });
        assert_eq!(of(128), [128, 256, 512]);
        assert_eq!(of(100), [100, 200, 400]);
        assert_eq!(of(5), [5, 10, 20, 40, 80, 160, 320]);
        assert_eq!(of(0), CHUNKS, "no steps are no schedule");
        assert_eq!(of(7919), [7919], "longer than any usual chunk");
        assert_eq!(of(usize::MAX), [usize::MAX]);
    }
}
