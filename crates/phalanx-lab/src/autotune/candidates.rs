//! The chunk sizes that are tried.

/// The usual ones, the smallest first.
pub const CHUNKS: [usize; 7] = [8, 16, 32, 64, 128, 256, 512];

/// When control has to return to the driver in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Steps between evaluations.
    pub eval_frequency: Option<usize>,
    /// Steps of an on-policy agent between updates: other chunks would be cut there.
    pub rollout_steps: Option<usize>,
}

/// The candidates, the smallest first; there is always one.
pub fn candidates(schedule: Schedule) -> Vec<usize> {
    let mut all = schedule.rollout_steps.map(between_updates).unwrap_or_default();
    if all.is_empty() {
        // Of a long roll-out that nothing divides the last chunk is cut, whatever its size.
        all = CHUNKS.to_vec();
    }
    if let Some(every) = schedule.eval_frequency {
        all.extend(CHUNKS.iter().filter_map(|&chunk| nearest_divisor(every, chunk)));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Chunks that fit between updates which are so many steps apart.
fn between_updates(steps: usize) -> Vec<usize> {
    let largest = CHUNKS[CHUNKS.len() - 1];
    let multiples =
        (0..).map_while(|power| steps.checked_mul(1 << power)).take_while(|all| (1..=largest).contains(all));
    CHUNKS.iter().filter_map(|&chunk| nearest_divisor(steps, chunk)).chain(multiples).collect()
}

/// The divisor of `whole` nearest to `chunk`, as a factor, and not further than a factor of √2: there are candidates
/// beyond. Of all divisors there can be too many to time.
fn nearest_divisor(whole: usize, chunk: usize) -> Option<usize> {
    let distance = |divisor: &usize| (*divisor as f64 / chunk as f64).ln().abs();
    let divisors = (1..=2 * chunk).filter(|divisor| whole.is_multiple_of(*divisor) && whole > 0);
    let nearest = divisors.min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    (distance(&nearest) <= 2f64.sqrt().ln() + 1e-9 || whole < CHUNKS[0]).then_some(nearest)
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
    fn on_policy_agents_are_cut_at_their_updates() {
        let of = |steps| candidates(Schedule { eval_frequency: None, rollout_steps: Some(steps) });
        assert_eq!(of(128), [8, 16, 32, 64, 128, 256, 512]);
        assert_eq!(of(100), [10, 20, 25, 50, 100, 200, 400]);
        assert_eq!(of(5), [5, 10, 20, 40, 80, 160, 320]);
        assert_eq!(of(0), CHUNKS, "no steps are no schedule");
        assert_eq!(of(7919), CHUNKS, "a prime that is longer than any chunk");
        assert!(!of(usize::MAX).is_empty());
        for (steps, chunk) in [100, 5, 24].into_iter().flat_map(|steps| of(steps).into_iter().map(move |c| (steps, c)))
        {
            assert!(steps % chunk == 0 || chunk % steps == 0);
        }
    }
}
