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
    /// The episodes that ended.
    pub episodes: Episodes,
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

/// How many episodes ended, and what they came to together: a run of any length keeps no more of them than this.
///
/// All sums are whole numbers, which are the same in whatever order and in whatever portions they are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Episodes {
    count: u64,
    /// In units of 2^-24, which is as fine as single precision is at 1.
    returns: i128,
    lengths: u64,
    costs: u64,
}

/// The unit of summed returns.
const PER_UNIT: f64 = (1 << 24) as f64;

impl Episodes {
    /// Adds an episode. A return beyond ±5·10¹¹ counts as that, and one that is no number as 0.
    #[inline(always)]
    pub fn add(&mut self, episode: EndedEpisode) {
        self.count += 1;
        self.returns += i128::from((f64::from(episode.episode_return) * PER_UNIT) as i64);
        self.lengths += u64::from(episode.length);
        self.costs += u64::from(episode.cost);
    }

    /// Adds those that somebody else has counted, who then begins anew.
    pub fn take(&mut self, other: &mut Self) {
        let Self { count, returns, lengths, costs } = std::mem::take(other);
        self.count += count;
        self.returns += returns;
        self.lengths += lengths;
        self.costs += costs;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean return; nothing without any.
    pub fn mean_return(&self) -> Option<f64> {
        self.mean(self.returns as f64 / PER_UNIT)
    }

    /// Their mean length; nothing without any.
    pub fn mean_length(&self) -> Option<f64> {
        self.mean(self.lengths as f64)
    }

    /// Their mean cost; nothing without any.
    pub fn mean_cost(&self) -> Option<f64> {
        self.mean(self.costs as f64)
    }

    fn mean(&self, sum: f64) -> Option<f64> {
        (self.count > 0).then(|| sum / self.count as f64)
    }

    fn to_words(self) -> [u64; 5] {
        [self.count, self.lengths, self.costs, self.returns as u64, (self.returns >> 64) as u64]
    }

    fn of_words(words: &[u64; 5]) -> Self {
        let [count, lengths, costs, low, high] = *words;
        Self { count, returns: i128::from(high as i64) << 64 | i128::from(low), lengths, costs }
    }
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
        let metrics = [self.metrics.len()];
        let mut state = State::default();
        state.put_value("tags", &column(&self.metrics, |(tag, _)| tag.clone()));
        state.put("sums", &metrics, &column(&self.metrics, |(_, mean)| mean.sum));
        state.put("counts", &metrics, &column(&self.metrics, |(_, mean)| mean.count));
        let episodes = self.episodes.to_words();
        state.put("episodes", &[episodes.len()], &episodes);
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
        let episodes = match state.get("episodes", &[5]) {
            Ok(words) => Episodes::of_words(words.try_into().expect("of that length")),
            Err(_) => one_by_one(state)?,
        };
        Ok(Self { metrics, episodes, stop: Stop::default(), stages: Stages::default() })
    }

    /// Starts a new interval; the time by stages goes on.
    pub fn clear(&mut self) {
        self.metrics.clear();
        self.episodes = Episodes::default();
    }
}

/// The episodes of a checkpoint from when each of them was kept.
fn one_by_one(state: &State) -> Result<Episodes> {
    let returns = state.get_all::<f32>("returns")?;
    let (lengths, costs) = (state.get("lengths", &[returns.len()])?, state.get("costs", &[returns.len()])?);
    let mut episodes = Episodes::default();
    for ((&episode_return, &length), &cost) in returns.iter().zip(lengths).zip(costs) {
        episodes.add(EndedEpisode { episode_return, length, cost });
    }
    Ok(episodes)
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
        report.episodes.add(EndedEpisode { episode_return: -2.5, length: 7, cost: 2 });
        let mut resumed = Report::load(&report.save()).unwrap();
        resumed.add("loss", 2.0);
        assert_eq!(resumed.means().next(), Some(("loss", 1.5)));
        assert!(resumed.means().nth(1).unwrap().1.is_nan());
        assert_eq!(resumed.episodes, report.episodes);
        assert_eq!(resumed.episodes.mean_return(), Some(-2.5));
        let mut old = State::default();
        old.put_value("tags", &Vec::<String>::new());
        old.put("sums", &[0], &[0.0; 0]);
        old.put("counts", &[0], &[0_u64; 0]);
        old.put("returns", &[1], &[-2.5_f32]);
        old.put("lengths", &[1], &[7_u32]);
        old.put("costs", &[1], &[2_u32]);
        assert_eq!(Report::load(&old).unwrap().episodes, report.episodes);
    }

    /// Numbers whose sum in floating point depends on the order.
    #[test]
    fn episodes_add_up_to_the_same_in_any_order_and_in_any_portions() {
        let episode = |i: u32| EndedEpisode { episode_return: 1e7 / (i as f32 - 500.3), length: i, cost: i % 3 };
        let of = |numbers: &mut dyn Iterator<Item = u32>| {
            let mut episodes = Episodes::default();
            numbers.for_each(|i| episodes.add(episode(i)));
            episodes
        };
        let whole = of(&mut (0..1000));
        assert_eq!(of(&mut (0..1000).rev()), whole);
        let mut parts = of(&mut (700..1000));
        parts.take(&mut of(&mut (0..700)));
        assert_eq!(parts, whole);
        let mean = (0..1000).map(|i| f64::from(episode(i).episode_return)).sum::<f64>() / 1000.0;
        assert!((whole.mean_return().unwrap() - mean).abs() < 1e-7, "{whole:?}, {mean}");
        assert_eq!((whole.count(), whole.mean_length()), (1000, Some(499.5)));
        assert_eq!(Episodes::default().mean_cost(), None);
    }
}
