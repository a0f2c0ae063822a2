//! What every agent that learns has in common, whatever it learns with: the trainer knows no more than this.

use phalanx_core::batch::ActionsMut;

use crate::error::Result;
use crate::state::State;

/// An agent in training on its own batch of environments.
///
/// What it learns depends on its settings and its seed only: not on the number of threads, and not on how the steps
/// are cut into calls of [`advance`](Self::advance).
pub trait Learner: Send {
    /// Steps of all environments so far.
    fn global_step(&self) -> u64;

    /// Learns on for one unit of its work (a roll-out with its updates, a block of steps), but not beyond
    /// `last_step` steps of all environments unless a unit does not fit; what happened is added to `report`.
    fn advance(&mut self, last_step: u64, report: &mut Report) -> Result<()>;

    /// Learns once more from what it has kept (the last roll-out, the buffer) without a step, so that updates can be
    /// measured alone. Answers the transitions that it took gradients of; 0 for an agent that keeps none.
    fn relearn(&mut self, _report: &mut Report) -> Result<u64> {
        Ok(0)
    }

    /// How it acts when it is judged.
    fn greedy(&self) -> Box<dyn Greedy>;

    /// Everything it needs to go on from here, to the same bits: weights, moments, counters, positions of random
    /// streams, environments, and buffers.
    fn save(&self) -> State;

    /// Goes back to a state that a learner with the same settings has saved.
    fn restore(&mut self, state: &State) -> Result<()>;
}

/// An agent that does not learn: its best actions for observations.
pub trait Greedy: Send {
    /// Chooses for each row of `obs`; `masks` has a row of flags for each (see
    /// [`Batch::action_masks_into`](phalanx_core::batch::Batch::action_masks_into)) or is empty if all is legal.
    fn act(&mut self, obs: &[f32], masks: &[bool], actions: ActionsMut<'_>);

    /// Forgets the past of environments that have just started: what of earlier observations it kept.
    fn forget(&mut self, _started: &[bool]) {}
}

/// What happened while an agent learnt.
#[derive(Clone, Debug, Default)]
pub struct Report {
    metrics: Vec<(&'static str, Mean)>,
    /// Returns, lengths and costs of the episodes that ended.
    pub episodes: Vec<EndedEpisode>,
}

/// An episode that ended in training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EndedEpisode {
    /// The sum of its rewards.
    pub episode_return: f32,
    /// Its steps.
    pub length: u32,
    /// The constraints it violated, summed over its steps.
    pub cost: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Report {
    /// Adds a value of a metric (`losses/value_loss`); the report keeps means.
    pub fn add(&mut self, tag: &'static str, value: f64) {
        let place = self.metrics.iter().position(|(name, _)| *name == tag).unwrap_or_else(|| {
            self.metrics.push((tag, Mean::default()));
            self.metrics.len() - 1
        });
        let mean = &mut self.metrics[place].1;
        mean.sum += value;
        mean.count += 1;
    }

    /// The mean of each metric, in the order in which they came.
    pub fn means(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.metrics.iter().map(|(tag, mean)| (*tag, mean.sum / mean.count as f64))
    }

    /// Starts a new interval.
    pub fn clear(&mut self) {
        self.metrics.clear();
        self.episodes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_keeps_means_in_order() {
        let mut report = Report::default();
        report.add("b", 1.0);
        report.add("a", 5.0);
        report.add("b", 2.0);
        assert_eq!(report.means().collect::<Vec<_>>(), [("b", 1.5), ("a", 5.0)]);
        report.clear();
        assert_eq!(report.means().count(), 0);
    }
}
