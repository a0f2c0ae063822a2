//! How good an agent is: whole episodes with its best actions, apart from everything that it learns with.

use phalanx_core::batch::{Actions, ActionsMut, Autoreset, Batch, ObsMut, Reset, StepBuffers};
use phalanx_core::space::{ActionMask, ActionSpace};

use crate::error::{Error, Result};
use crate::learner::{Greedy, Report};
use crate::run::episodes::{self, Episode};
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
    /// Whether there are constraints that could be violated.
    pub constrained: bool,
    /// Whether the task itself ended the episode.
    pub terminated: Vec<bool>,
    /// Whether a limit ended the episode, the environment's or the evaluation's.
    pub truncated: Vec<bool>,
    /// What was seen and done, if that was asked for.
    pub episodes: Option<Vec<Episode>>,
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

    /// Of the costs; `None` without constraints.
    pub fn cost_summary(&self) -> Option<Summary> {
        Summary::of(self.costs.iter().map(|cost| f64::from(*cost))).filter(|_| self.constrained)
    }

    /// The part of the episodes that the task itself ended.
    pub fn termination_rate(&self) -> f64 {
        self.terminated.iter().filter(|terminated| **terminated).count() as f64 / self.terminated.len().max(1) as f64
    }
}

/// Room for actions of the kind that an environment takes.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Whole numbers.
    Discrete(Vec<i32>),
    /// Real numbers.
    Continuous(Vec<f32>),
}

impl Choice {
    /// For so many environments.
    pub fn of(action: &ActionSpace, num_envs: usize) -> Self {
        let len = num_envs * action.components();
        if action.is_discrete() { Self::Discrete(vec![0; len]) } else { Self::Continuous(vec![0.0; len]) }
    }

    /// Chooses what was chosen at a step of a record.
    fn set(&mut self, at: usize, record: &episodes::Actions, step: usize) {
        use episodes::Actions::{Continuous, Discrete, MultiDiscrete};
        match (self, record) {
            (Self::Discrete(indices), Discrete(actions)) => indices[at] = actions[step] as i32,
            (Self::Discrete(indices), MultiDiscrete { size, choices }) => {
                let row = &choices[step * size..][..*size];
                indices[at..].iter_mut().zip(row).for_each(|(index, choice)| *index = *choice as i32);
            }
            (Self::Continuous(all), Continuous { size, values }) => {
                all[at..][..*size].copy_from_slice(&values[step * size..][..*size]);
            }
            _ => unreachable!("an environment has one kind of actions"),
        }
    }

    /// Chooses whatever is legal; without flags everything is.
    fn set_any(&mut self, at: usize, action: &ActionSpace, flags: &[bool]) {
        match (self, action) {
            (Self::Continuous(all), ActionSpace::Box { low, high }) => {
                let middle = low.iter().zip(high).map(|(low, high)| 0.0_f32.clamp(*low, *high));
                all[at..].iter_mut().zip(middle).for_each(|(value, middle)| *value = middle);
            }
            (Self::Discrete(indices), action) => {
                let mut from = 0;
                for (k, index) in indices[at..][..action.components()].iter_mut().enumerate() {
                    let to = flags.len().min(from + action.choices(k).unwrap_or(0) as usize);
                    *index = flags[from..to].iter().position(|legal| *legal).unwrap_or(0) as i32;
                    from = to;
                }
            }
            _ => unreachable!("an environment has one kind of actions"),
        }
    }

    /// To be filled in.
    pub fn out(&mut self) -> ActionsMut<'_> {
        match self {
            Self::Discrete(indices) => ActionsMut::Discrete(indices),
            Self::Continuous(values) => ActionsMut::Continuous(values),
        }
    }

    /// To be acted by.
    pub fn actions(&self) -> Actions<'_> {
        match self {
            Self::Discrete(indices) => Actions::Discrete(indices),
            Self::Continuous(values) => Actions::Continuous(values),
        }
    }

    /// Nothing yet, of the kind that is stored.
    fn record(action: &ActionSpace) -> episodes::Actions {
        match action {
            ActionSpace::Discrete { .. } => episodes::Actions::Discrete(Vec::new()),
            ActionSpace::MultiDiscrete { sizes } => {
                episodes::Actions::MultiDiscrete { size: sizes.len(), choices: Vec::new() }
            }
            ActionSpace::Box { low, .. } => episodes::Actions::Continuous { size: low.len(), values: Vec::new() },
        }
    }

    /// Adds the action of an environment to what is stored.
    fn add_to(&self, record: &mut episodes::Actions, env: usize) {
        use episodes::Actions::{Continuous, Discrete, MultiDiscrete};
        match (self, record) {
            (Self::Discrete(indices), Discrete(actions)) => actions.push(i64::from(indices[env])),
            (Self::Discrete(indices), MultiDiscrete { size, choices }) => {
                choices.extend(indices[env * *size..][..*size].iter().map(|choice| i64::from(*choice)));
            }
            (Self::Continuous(all), Continuous { size, values }) => {
                values.extend_from_slice(&all[env * *size..][..*size]);
            }
            _ => unreachable!("an environment has one kind of actions"),
        }
    }
}

/// Plays one episode in each environment of a world that has just started.
///
/// An episode that lasts longer than `max_steps` is cut there.
pub fn evaluate(world: &mut World, agent: &mut dyn Greedy, max_steps: u32, keep_episodes: bool) -> Result<Evaluation> {
    evaluate_watched(world, agent, max_steps, keep_episodes, &mut || true)
}

/// Who hears of each step that an evaluation makes in all its environments, and may end it early (`false`).
pub type Watch<'a> = dyn FnMut() -> bool + 'a;

/// [`evaluate`], but ends with [`Error::Interrupted`] when `watch` says so.
pub(crate) fn evaluate_watched(
    world: &mut World,
    agent: &mut dyn Greedy,
    max_steps: u32,
    keep_episodes: bool,
    watch: &mut Watch<'_>,
) -> Result<Evaluation> {
    let (num_envs, dim) = (world.num_envs(), world.obs_dim());
    let mut choice = Choice::of(&world.spec().action, world.num_envs());
    let mut open = vec![true; num_envs];
    let start = |env: usize| Episode {
        observation_size: dim,
        newest: world.newest(),
        observations: world.obs()[env * dim..][..dim].to_vec(),
        actions: Choice::record(&world.spec().action),
        rewards: Vec::new(),
        terminated: false,
        truncated: false,
    };
    let mut result = Evaluation {
        returns: vec![0.0; num_envs],
        lengths: vec![0; num_envs],
        costs: vec![0; num_envs],
        constrained: !world.spec().constraints.is_empty(),
        terminated: vec![false; num_envs],
        truncated: vec![false; num_envs],
        episodes: keep_episodes.then(|| (0..num_envs).map(start).collect()),
    };
    agent.forget(&open);
    let mut report = Report::default();
    let mut ended = vec![false; num_envs];
    for _ in 0..max_steps {
        agent.act(world.obs(), world.masks(), choice.out());
        world.step(choice.actions(), &mut report)?;
        report.clear();
        if !watch() {
            return Err(Error::Interrupted);
        }
        for env in 0..num_envs {
            ended[env] = world.terminated()[env] | world.truncated()[env];
            if !open[env] {
                continue;
            }
            result.returns[env] += f64::from(world.rewards()[env]);
            result.lengths[env] += 1;
            // Of an episode that is not over only decisions are known, of which several steps may be one.
            result.costs[env] =
                if ended[env] { world.end_cost(env) } else { result.costs[env] + world.violations()[env].count_ones() };
            (result.terminated[env], result.truncated[env]) = (world.terminated()[env], world.truncated()[env]);
            if let Some(episodes) = &mut result.episodes {
                let episode = &mut episodes[env];
                let next = if ended[env] { world.end_obs(env) } else { &world.obs()[env * dim..][..dim] };
                episode.observations.extend_from_slice(next);
                choice.add_to(&mut episode.actions, env);
                episode.rewards.push(world.rewards()[env]);
            }
            open[env] = !ended[env];
        }
        if !open.contains(&true) {
            break;
        }
        agent.forget(&ended);
    }
    // Those that are still open have reached the limit of the evaluation.
    result.truncated.iter_mut().zip(open).for_each(|(truncated, open)| *truncated |= open);
    for (env, episode) in result.episodes.iter_mut().flatten().enumerate() {
        (episode.terminated, episode.truncated) = (result.terminated[env], result.truncated[env]);
    }
    Ok(result)
}

/// The states of recorded episodes, at the start and after each step.
///
/// `batch` is as the one they were played in, except that its environments wait where an episode has ended: it takes
/// the first of them through the same actions.
pub fn replay(batch: &mut dyn Batch, episodes: &[Episode]) -> Result<Vec<Vec<Vec<f64>>>> {
    assert_eq!(batch.autoreset(), Autoreset::NextStep, "the last state is still to be seen after the last step");
    let spec = batch.spec().clone();
    let (num_envs, components) = (batch.num_envs(), spec.action.components());
    let mut buffers = StepBuffers::new(num_envs, spec.observation.dim());
    batch.reset_into(Reset::All, ObsMut::F32(&mut buffers.obs))?;
    let flags = spec.action.mask_len().filter(|_| spec.action_mask != ActionMask::None).unwrap_or(0);
    let mut masks = vec![true; num_envs * flags];
    let mut choice = Choice::of(&spec.action, num_envs);
    let first = |env: usize, batch: &dyn Batch| Ok(vec![batch.state(env)?]);
    let mut states = (0..episodes.len()).map(|env| first(env, batch)).collect::<Result<Vec<_>>>()?;
    for step in 0..episodes.iter().map(Episode::length).max().unwrap_or(0) {
        if flags > 0 {
            batch.action_masks_into(&mut masks)?;
        }
        for env in 0..num_envs {
            match episodes.get(env).filter(|episode| step < episode.length()) {
                Some(episode) => choice.set(env * components, &episode.actions, step),
                None => choice.set_any(env * components, &spec.action, &masks[env * flags..][..flags]),
            }
        }
        batch.step_into(choice.actions(), buffers.out())?;
        for (env, states) in states.iter_mut().enumerate() {
            if step < episodes[env].length() {
                states.push(batch.state(env)?);
            }
        }
    }
    Ok(states)
}

#[cfg(test)]
mod tests {
    use phalanx_core::batch::{Autoreset, BatchConfig};

    use super::*;
    use crate::world::Sight;

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
        World::new(phalanx_envs::registry::find(env).unwrap().batch(&config).unwrap(), Sight::PRESENT).unwrap()
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
        assert_eq!(cut.truncated, [true; 2], "the evaluation's limit is one");
    }

    #[test]
    fn episodes_are_stored_with_the_actions_of_their_kind_and_how_they_ended() {
        let cut = evaluate(&mut world("CartPole-v1", 2), &mut Always(1), 5, true).unwrap();
        let episode = &cut.episodes.unwrap()[0];
        assert_eq!(episode.actions, episodes::Actions::Discrete(vec![1; 5]));
        assert!(episode.truncated && !episode.terminated);
    }

    /// The first legal action.
    struct FirstLegal;

    impl Greedy for FirstLegal {
        fn act(&mut self, _obs: &[f32], masks: &[bool], actions: ActionsMut<'_>) {
            let ActionsMut::Discrete(actions) = actions else { panic!("discrete actions") };
            let rows = masks.chunks_exact(masks.len() / actions.len());
            actions.iter_mut().zip(rows).for_each(|(a, row)| *a = row.iter().position(|legal| *legal).unwrap() as i32);
        }
    }

    /// States that are what was seen, of environments that end at different times; with an opponent who draws lots.
    #[test]
    fn a_replay_goes_through_the_same_states() {
        let batch = |env: &str| {
            let config = BatchConfig { num_envs: 5, seed: 3, ..BatchConfig::default() };
            phalanx_envs::registry::find(env).unwrap().batch(&config).unwrap()
        };
        let found = evaluate(&mut world("CartPole-v1", 5), &mut Always(1), 500, true).unwrap();
        let episodes = &found.episodes.unwrap()[..3];
        let states = replay(batch("CartPole-v1").as_mut(), episodes).unwrap();
        for (states, episode) in states.iter().zip(episodes) {
            let seen: Vec<f64> = episode.observations.iter().map(|value| f64::from(*value)).collect();
            assert_eq!(states.concat(), seen);
        }
        let found = evaluate(&mut world("TicTacToe-v0", 5), &mut FirstLegal, 9, true).unwrap();
        assert!(found.lengths.iter().any(|length| *length != found.lengths[0]), "they end at different times");
        let states = replay(batch("TicTacToe-v0").as_mut(), &found.episodes.unwrap()).unwrap();
        assert!(states.iter().zip(found.lengths).all(|(states, length)| states.len() == length as usize + 1));
    }

    #[test]
    fn the_spread_is_that_of_the_numbers_themselves() {
        let found = Summary::of([1.0, 2.0, 3.0, 4.0].into_iter()).unwrap();
        assert_eq!(found, Summary { mean: 2.5, std: 1.25_f64.sqrt(), min: 1.0, max: 4.0 });
        assert_eq!(Summary::of([].into_iter()), None);
    }
}
