//! What every agent that learns has in common, whatever it learns with: the trainer knows no more than this.

use std::borrow::Cow;

use phalanx_core::batch::ActionsMut;

use crate::error::{Error, Result};
use crate::stages::Stages;
use crate::state::State;
use crate::stop::Stop;

/// How long a run is, which settings that are shares of it refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Environments.
    pub num_envs: usize,
    /// Steps of each.
    pub steps_per_env: u64,
}

impl Length {
    /// Steps of all environments.
    pub fn total(&self) -> u64 {
        self.steps_per_env.saturating_mul(self.num_envs as u64)
    }
}

/// An agent in training on its own batch of environments.
///
/// What it learns depends on its settings and its seed only: not on the number of threads, and not on how the steps
/// are cut into calls of [`advance`](Self::advance).
pub trait Learner: Send {
    /// Steps of all environments so far.
    fn global_step(&self) -> u64;

    /// Steps of all environments that it cannot learn from less than, such as those of a roll-out: a run has a whole
    /// number of units, one at least.
    fn unit(&self) -> u64 {
        1
    }

    /// Learns on for one unit of its work (a roll-out with its updates, a block of steps), but not beyond
    /// `last_step` steps of all environments unless a unit does not fit; what happened is added to `report`.
    ///
    /// A unit that may take long fails with [`Error::Interrupted`] soon after the report's `stop` wants it to; what was
    /// learnt by then is of no use but to be restored to an earlier state.
    fn advance(&mut self, last_step: u64, report: &mut Report) -> Result<()>;

    /// Learns once more from what it has kept (the last roll-out, the buffer) without a step, so that updates can be
    /// measured alone. Answers the transitions that it took gradients of; 0 for an agent that keeps none.
    fn relearn(&mut self, _report: &mut Report) -> Result<u64> {
        Ok(0)
    }

    /// How it acts when it is judged.
    fn greedy(&self) -> Box<dyn Greedy>;

    /// What it has learnt as a file that other programs read, with its name, if that is wanted.
    fn exported(&self) -> Option<(&'static str, Vec<u8>)> {
        None
    }

    /// Everything it needs to go on from here, to the same bits: weights, moments, counters, positions of random
    /// streams, environments, and buffers.
    fn save(&self) -> State;

    /// Goes back to a state that a learner with the same settings has saved.
    fn restore(&mut self, state: &State) -> Result<()>;

    /// Takes of a saved state what [`greedy`](Self::greedy) acts by; agents need neither buffers nor environments for
    /// that.
    fn restore_policy(&mut self, state: &State) -> Result<()> {
        self.restore(state)
    }
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
    /// Tags are borrowed but where a checkpoint brought them.
    metrics: Vec<(Cow<'static, str>, Mean)>,
    /// Returns, lengths and costs of the episodes that ended.
    pub episodes: Vec<EndedEpisode>,
    /// Who may want a unit to end in its midst.
    pub stop: Stop,
    /// Where the time went, of the whole run and not of an interval.
    pub stages: Stages,
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
            self.metrics.push((tag.into(), Mean::default()));
            self.metrics.len() - 1
        });
        let mean = &mut self.metrics[place].1;
        mean.sum += value;
        mean.count += 1;
    }

    /// The mean of each metric, in the order in which they came.
    pub fn means(&self) -> impl Iterator<Item = (&str, f64)> {
        self.metrics.iter().map(|(tag, mean)| (tag.as_ref(), mean.sum / mean.count as f64))
    }

    /// The open interval, for a run that goes on from here. Sums are arrays, in which any number survives.
    pub fn save(&self) -> State {
        fn column<T, U>(items: &[T], of: impl Fn(&T) -> U) -> Vec<U> {
            items.iter().map(of).collect()
        }
        let (metrics, episodes) = ([self.metrics.len()], [self.episodes.len()]);
        let mut state = State::default();
        state.put_value("tags", &column(&self.metrics, |(tag, _)| tag.clone()));
        state.put("sums", &metrics, &column(&self.metrics, |(_, mean)| mean.sum));
        state.put("counts", &metrics, &column(&self.metrics, |(_, mean)| mean.count));
        state.put("returns", &episodes, &column(&self.episodes, |episode| episode.episode_return));
        state.put("lengths", &episodes, &column(&self.episodes, |episode| episode.length));
        state.put("costs", &episodes, &column(&self.episodes, |episode| episode.cost));
        state
    }

    /// An interval that was open when it was saved.
    pub fn load(state: &State) -> Result<Self> {
        let tags: Vec<String> = state.value("tags")?;
        let (sums, counts) = (state.get("sums", &[tags.len()])?, state.get("counts", &[tags.len()])?);
        if counts.contains(&0) {
            return Err(Error::Value { name: "counts".to_owned(), why: "a mean is of nothing".to_owned() });
        }
        let means = sums.iter().zip(counts).map(|(sum, count)| Mean { sum: *sum, count: *count });
        let metrics = tags.into_iter().map(Cow::Owned).zip(means).collect();
        let returns = state.get_all::<f32>("returns")?;
        let (lengths, costs) = (state.get("lengths", &[returns.len()])?, state.get("costs", &[returns.len()])?);
        let episodes = returns.iter().zip(lengths).zip(costs);
        let episodes = episodes.map(|((episode_return, length), cost)| EndedEpisode {
            episode_return: *episode_return,
            length: *length,
            cost: *cost,
        });
        Ok(Self { metrics, episodes: episodes.collect(), stop: Stop::default(), stages: Stages::default() })
    }

    /// Starts a new interval; the time by stages goes on.
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

    #[test]
    fn an_open_interval_goes_on_where_it_was() {
        let mut report = Report::default();
        report.add("loss", 1.0);
        report.add("variance", f64::NAN);
        report.episodes.push(EndedEpisode { episode_return: f32::INFINITY, length: 7, cost: 2 });
        let mut resumed = Report::load(&report.save()).unwrap();
        resumed.add("loss", 2.0);
        assert_eq!(resumed.means().next(), Some(("loss", 1.5)));
        assert!(resumed.means().nth(1).unwrap().1.is_nan());
        assert_eq!(resumed.episodes, report.episodes);
    }
}
