//! Counting steps and turning steps and times into rates.

/// Slots of next-step autoreset that only reset: an environment that is done on one call resets on the next,
/// if there is a next one. `done_on` lists the call (from 1) of each end of an episode.
pub fn reset_only_slots(calls: u64, done_on: impl IntoIterator<Item = u64>) -> u64 {
    done_on.into_iter().filter(|&call| call < calls).count() as u64
}

/// Environment steps in `calls` calls of `envs` environments, without the slots that only reset.
pub fn env_steps(calls: u64, envs: u64, reset_only: u64) -> u64 {
    calls * envs - reset_only
}

/// A run of consecutive samples reported as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Steps taken.
    pub steps: u64,
    /// Time they took.
    pub wall_ns: u64,
}

/// Time per step over several blocks in ns: total time by total steps, because a mean of rates favours short
/// blocks. `None` without a step.
pub fn time_per_step_ns(blocks: &[Block]) -> Option<f64> {
    let steps: u64 = blocks.iter().map(|block| block.steps).sum();
    let wall_ns: u64 = blocks.iter().map(|block| block.wall_ns).sum();
    (steps > 0).then(|| wall_ns as f64 / steps as f64)
}

/// Steps per second over several blocks; `None` if nothing was measured.
pub fn steps_per_second(blocks: &[Block]) -> Option<f64> {
    time_per_step_ns(blocks).filter(|&time| time > 0.0).map(|time| 1e9 / time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_only_reset_are_no_steps() {
        let steps = |done_on: [u64; 2]| env_steps(5, 3, reset_only_slots(5, done_on));
        assert_eq!(steps([2, 3]), 13);
        assert_eq!(steps([2, 5]), 14);
    }

    #[test]
    fn rates_are_totals() {
        let blocks = [10_000_000, 30_000_000].map(|wall_ns| Block { steps: 1_000_000, wall_ns });
        assert_eq!(steps_per_second(&blocks), Some(50e6));
        assert_eq!(steps_per_second(&[]), None);
        assert_eq!(steps_per_second(&[Block { steps: 1, wall_ns: 0 }]), None);
    }
}
