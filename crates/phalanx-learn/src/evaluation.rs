//! How good an agent is: whole episodes with its best actions, apart from everything that it learns with.

use phalanx_core::batch::{Actions, ActionsMut};

use crate::error::Result;
use crate::learner::{Greedy, Report};
use crate::world::World;

/// The episodes of an evaluation, one of each environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Sums of rewards.
    pub returns: Vec<f64>,
    /// Numbers of steps.
    pub lengths: Vec<u32>,
    /// Violated constraints, summed over the steps.
    pub costs: Vec<u32>,
    /// Whether the task itself ended the episode.
    pub terminated: Vec<bool>,
    /// What was seen and done, if that was asked for.
    pub episodes: Option<Vec<Episode>>,
}

/// One episode, step by step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Episode {
    /// Rows of observations, the last one included: one more than there are steps.
    pub observations: Vec<f32>,
    /// Rows of actions; indices of discrete ones.
    pub actions: Vec<f32>,
    /// A reward for each step.
    pub rewards: Vec<f32>,
    /// Whether the task itself ended it.
    pub terminated: bool,
    /// Whether the step limit ended it.
    pub truncated: bool,
}

/// Mean, spread and range of something.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of these numbers, not an estimate for others.
    pub std: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of some numbers; `None` of none.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let count = values.clone().count() as f64;
        if count == 0.0 {
            return None;
        }
        let mean = values.clone().sum::<f64>() / count;
        let variance = values.clone().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
        let (min, max) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        Some(Self { mean, std: variance.sqrt(), min, max })
    }
}

impl Evaluation {
    /// Of the returns.
    pub fn return_summary(&self) -> Option<Summary> {
        Summary::of(self.returns.iter().copied())
    }

    /// Of the lengths.
    pub fn length_summary(&self) -> Option<Summary> {
        Summary::of(self.lengths.iter().map(|length| f64::from(*length)))
    }

    /// Of the costs.
    pub fn cost_summary(&self) -> Option<Summary> {
        Summary::of(self.costs.iter().map(|cost| f64::from(*cost)))
    }

    /// The part of the episodes that the task itself ended.
    pub fn termination_rate(&self) -> f64 {
        self.terminated.iter().filter(|terminated| **terminated).count() as f64 / self.terminated.len().max(1) as f64
    }
}

/// Actions of the kind that an environment takes.
enum Choice {
    Discrete(Vec<i32>),
    Continuous(Vec<f32>),
}

impl Choice {
    fn for_world(world: &World) -> Self {
        let len = world.num_envs() * world.spec().action.components();
        if world.spec().action.is_discrete() { Self::Discrete(vec![0; len]) } else { Self::Continuous(vec![0.0; len]) }
    }

    fn out(&mut self) -> ActionsMut<'_> {
        match self {
            Self::Discrete(indices) => ActionsMut::Discrete(indices),
            Self::Continuous(values) => ActionsMut::Continuous(values),
        }
    }

    fn actions(&self) -> Actions<'_> {
        match self {
            Self::Discrete(indices) => Actions::Discrete(indices),
            Self::Continuous(values) => Actions::Continuous(values),
        }
    }

    fn row(&self, env: usize, components: usize) -> impl Iterator<Item = f32> + '_ {
        let range = env * components..(env + 1) * components;
        range.map(move |at| match self {
            Self::Discrete(indices) => indices[at] as f32,
            Self::Continuous(values) => values[at],
        })
    }
}

/// Plays one episode in each environment of a world that has just started.
///
/// An episode that lasts longer than `max_steps` is cut there.
pub fn evaluate(world: &mut World, agent: &mut dyn Greedy, max_steps: u32, keep_episodes: bool) -> Result<Evaluation> {
    let (num_envs, dim) = (world.num_envs(), world.obs_dim());
    let components = world.spec().action.components();
    let mut choice = Choice::for_world(world);
    let mut open = vec![true; num_envs];
    let mut result = Evaluation {
        returns: vec![0.0; num_envs],
        lengths: vec![0; num_envs],
        costs: vec![0; num_envs],
        terminated: vec![false; num_envs],
        episodes: keep_episodes.then(|| vec![Episode::default(); num_envs]),
    };
    for (env, episode) in result.episodes.iter_mut().flatten().enumerate() {
        episode.observations.extend_from_slice(&world.obs()[env * dim..][..dim]);
    }
    agent.forget(&open);
    let mut report = Report::default();
    let mut ended = vec![false; num_envs];
    for _ in 0..max_steps {
        agent.act(world.obs(), world.masks(), choice.out());
        world.step(choice.actions(), &mut report)?;
        report.clear();
        for env in 0..num_envs {
            ended[env] = world.terminated()[env] | world.truncated()[env];
            if !open[env] {
                continue;
            }
            result.returns[env] += f64::from(world.rewards()[env]);
            result.lengths[env] += 1;
            result.costs[env] += world.violations()[env].count_ones();
            result.terminated[env] = world.terminated()[env];
            if let Some(episodes) = &mut result.episodes {
                let episode = &mut episodes[env];
                let next = if ended[env] { world.end_obs(env) } else { &world.obs()[env * dim..][..dim] };
                episode.observations.extend_from_slice(next);
                episode.actions.extend(choice.row(env, components));
                episode.rewards.push(world.rewards()[env]);
                (episode.terminated, episode.truncated) = (world.terminated()[env], world.truncated()[env]);
            }
            open[env] = !ended[env];
        }
        if !open.contains(&true) {
            break;
        }
        agent.forget(&ended);
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use phalanx_core::batch::{Autoreset, BatchConfig};

    use super::*;

    /// Always the same action.
    struct Always(i32);

    impl Greedy for Always {
        fn act(&mut self, _obs: &[f32], _masks: &[bool], actions: ActionsMut<'_>) {
            let ActionsMut::Discrete(actions) = actions else { panic!("discrete actions") };
            actions.fill(self.0);
        }
    }

    fn world(env: &str, num_envs: usize) -> World {
        let config = BatchConfig { num_envs, seed: 3, autoreset: Autoreset::SameStep, ..BatchConfig::default() };
        World::new(phalanx_envs::registry::find(env).unwrap().batch(&config).unwrap(), 1).unwrap()
    }

    #[test]
    fn each_environment_counts_until_its_first_end() {
        let found = evaluate(&mut world("CartPole-v1", 64), &mut Always(1), 500, true).unwrap();
        // A pole that is always pushed falls after eight to eleven steps, each worth 1.
        let lengths = found.length_summary().unwrap();
        assert!(lengths.min >= 8.0 && lengths.max <= 11.0, "{lengths:?}");
        assert!(found.returns.iter().zip(&found.lengths).all(|(sum, length)| *sum == f64::from(*length)));
        assert_eq!(found.termination_rate(), 1.0);
        for (episode, length) in found.episodes.unwrap().iter().zip(found.lengths) {
            assert_eq!(episode.rewards.len(), length as usize);
            assert_eq!(episode.observations.len(), 4 * (length as usize + 1));
            let angle = episode.observations[episode.observations.len() - 2];
            assert!(episode.terminated && angle.abs() > 0.2095, "the last observation is the one that ended it");
        }
    }

    #[test]
    fn episodes_are_cut_at_the_limit_and_bandits_pay_what_they_promise() {
        let found = evaluate(&mut world("TwoArmedBandit-v0", 2), &mut Always(1), 100, false).unwrap();
        assert_eq!((found.returns, found.lengths), (vec![10.0; 2], vec![10; 2]));
        let cut = evaluate(&mut world("TwoArmedBandit-v0", 2), &mut Always(1), 4, false).unwrap();
        assert_eq!((cut.returns, cut.lengths, cut.terminated), (vec![4.0; 2], vec![4; 2], vec![false; 2]));
    }

    #[test]
    fn the_spread_is_that_of_the_numbers_themselves() {
        let found = Summary::of([1.0, 2.0, 3.0, 4.0].into_iter()).unwrap();
        assert_eq!(found, Summary { mean: 2.5, std: 1.25_f64.sqrt(), min: 1.0, max: 4.0 });
        assert_eq!(Summary::of([].into_iter()), None);
    }
}
