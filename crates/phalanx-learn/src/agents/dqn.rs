//! DQN: Q-learning from a buffer of transitions, towards a copy of the network that follows slowly.
//!
//! Source: Mnih et al., "Human-level control through deep reinforcement learning" (2015); defaults of CleanRL's `dqn.py`.
//!
//! ```text
//! loss = mean of (Q(s, a) - y)²,    y = r + γ (1 - terminated) max of Q_target(s', a') over legal a'
//! ```
//!
//! Options: double (van Hasselt et al.: the network chooses a', the target network says what it is worth), dueling
//! (Wang et al.), several steps in r, and the Huber loss. Where an episode was cut off, s' is its true last observation.
//! (Which actions were legal there is not known any more when the next episode has begun: all count.)
//!
//! Updates are counted in steps of environments: one at every multiple of `train_frequency` beyond `learning_starts`,
//! and the target follows at every multiple of `target_network_frequency`, so that what is learnt depends on how many
//! transitions there are and not on how many environments they come from.

use std::sync::Arc;

use phalanx_core::batch::{Actions, Batch};
use phalanx_core::pool::Pool;
use serde::{Deserialize, Serialize};

use super::q_network::{
    Best, GreedyQ, Judge, Learning, Loss, QNetwork, TileScratch, best, check_finite, duration, explore, require,
    require_positive, require_some, require_units,
};
use super::replay::{Replay, Shape};
use crate::error::{Error, Result};
use crate::learner::{Greedy, Learner, Report};
use crate::nn::init::Init;
use crate::nn::{Layer, Optimizer, Rule, Schedule};
use crate::random::{Purpose, Random};
use crate::state::{Data, State};
use crate::world::World;

/// Steps of all environments in a call of [`Dqn::advance`], about.
const UNIT: usize = 1024;

/// The settings of DQN; the defaults are CleanRL's, which solve CartPole-v1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Environments; default 1.
    pub num_envs: usize,
    /// Steps of all environments in the whole run, which the schedule refers to; default 500,000.
    pub total_timesteps: u64,
    /// The learning rate of Adam; default 2.5e-4.
    pub learning_rate: f64,
    /// Outputs of the hidden layers; default 120 and 84.
    pub hidden: Vec<usize>,
    /// How weights are drawn; default uniform.
    pub init: Init,
    /// The most transitions that are kept; default 10,000.
    pub buffer_size: usize,
    /// Transitions of an update; default 128.
    pub batch_size: usize,
    /// The discount factor; default 0.99.
    pub gamma: f64,
    /// How much of the network the target takes over when it follows; default 1.
    pub tau: f64,
    /// Steps of all environments from one such moment to the next; default 500.
    pub target_network_frequency: u64,
    /// The first probability of a random action; default 1.
    pub start_e: f64,
    /// The last probability of a random action; default 0.05.
    pub end_e: f64,
    /// The part of the run in which that probability falls; default 0.5, unless `exploration_steps` is given.
    pub exploration_fraction: Option<f64>,
    /// The steps of all environments in which it falls; default none.
    pub exploration_steps: Option<u64>,
    /// Steps of all environments before the first update; default 10,000.
    pub learning_starts: u64,
    /// Steps of all environments from one update to the next; default 10.
    pub train_frequency: u64,
    /// Whether the network chooses the next action whose value the target network gives; default false.
    pub double_q: bool,
    /// Whether the network has a value for states and advantages for actions; default false.
    pub dueling: bool,
    /// The rewards that are summed up before a value is used; default 1.
    pub n_step: usize,
    /// Whether errors beyond 1 count in proportion instead of squared; default false.
    pub huber_loss: bool,
    /// The longest gradient; default none.
    pub max_grad_norm: Option<f64>,
    /// What rewards are multiplied by before anything is learnt from them; default 1.
    pub reward_scale: f64,
    /// Observations that are seen together, where 0 and 1 both mean the last one alone; default 0.
    pub frame_stack_n: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            num_envs: 1,
            total_timesteps: 500_000,
            learning_rate: 2.5e-4,
            hidden: vec![120, 84],
            init: Init::Uniform,
            buffer_size: 10_000,
            batch_size: 128,
            gamma: 0.99,
            tau: 1.0,
            target_network_frequency: 500,
            start_e: 1.0,
            end_e: 0.05,
            exploration_fraction: None,
            exploration_steps: None,
            learning_starts: 10_000,
            train_frequency: 10,
            double_q: false,
            dueling: false,
            n_step: 1,
            huber_loss: false,
            max_grad_norm: None,
            reward_scale: 1.0,
            frame_stack_n: 0,
        }
    }
}

impl Config {
    /// Refuses settings that cannot work.
    pub fn validate(&self) -> Result<()> {
        require_some(&[
            ("num_envs", self.num_envs),
            ("total_timesteps", self.total_timesteps as usize),
            ("buffer_size", self.buffer_size),
            ("batch_size", self.batch_size),
            ("target_network_frequency", self.target_network_frequency as usize),
            ("train_frequency", self.train_frequency as usize),
            ("n_step", self.n_step),
        ])?;
        require(self.hidden.iter().all(|size| *size > 0), "hidden", &self.hidden, "sizes of at least 1")?;
        require_units(&[("gamma", self.gamma), ("tau", self.tau), ("start_e", self.start_e), ("end_e", self.end_e)])?;
        require_positive(&[
            ("learning_rate", self.learning_rate),
            ("reward_scale", self.reward_scale),
            ("max_grad_norm", self.max_grad_norm.unwrap_or(1.0)),
        ])?;
        require(self.buffer_size <= u32::MAX as usize, "buffer_size", self.buffer_size, "below 2^32")?;
        if self.num_envs > self.buffer_size {
            let why = format!(
                "is {}, but agent.buffer_size is {}: the buffer must hold one step of all environments",
                self.num_envs, self.buffer_size
            );
            return Err(Error::setting("agent.num_envs", why));
        }
        self.epsilon().map(|_| ())
    }

    /// The probability of a random action, by steps of all environments.
    pub fn epsilon(&self) -> Result<Schedule> {
        let fraction = ("exploration_fraction", self.exploration_fraction, 0.5);
        let steps = ("exploration_steps", self.exploration_steps);
        let duration = duration(fraction, steps, self.total_timesteps as f64)?;
        Ok(Schedule::Linear { start: self.start_e, end: self.end_e, duration })
    }

    /// The network for observations of so many reals and so many actions.
    pub fn network(&self, inputs: usize, choices: usize) -> QNetwork {
        let hidden: Vec<_> = self.hidden.iter().flat_map(|size| [Layer::Dense(*size), Layer::Relu]).collect();
        QNetwork::new(inputs, &hidden, choices, self.dueling)
    }

    /// The shape of the buffer for observations of so many reals and masks of so many flags, which tells its memory.
    pub fn replay(&self, obs_dim: usize, flags: usize) -> Shape {
        let Self { buffer_size, num_envs, n_step, gamma, .. } = *self;
        Shape { capacity: buffer_size, num_envs, obs_dim, flags, n_step, gamma }
    }
}

/// DQN in training.
pub struct Dqn {
    config: Config,
    world: World,
    pool: Arc<Pool>,
    learning: Learning,
    /// The parameters of the target network.
    target: Vec<f32>,
    replay: Replay,
    epsilon: Schedule,
    exploration: Random,
    batches: Random,
    global_step: u64,
    judge: Judge,
    /// What is best to do now, in each environment, and what is done.
    best: Vec<Best>,
    actions: Vec<i32>,
    /// Which transitions an update learns from.
    places: Vec<u32>,
}

impl std::fmt::Debug for Dqn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dqn").field("world", &self.world).field("global_step", &self.global_step).finish()
    }
}

impl Dqn {
    /// Starts to learn on the environments of a batch; updates are shared out to the threads of the pool.
    pub fn new(config: &Config, batch: Box<dyn Batch>, seed: u64, pool: Arc<Pool>) -> Result<Self> {
        config.validate()?;
        let config = config.clone();
        let num_envs = batch.num_envs();
        require(num_envs == config.num_envs, "num_envs", config.num_envs, &format!("{num_envs}, as in the batch"))?;
        let world = World::new(batch, config.frame_stack_n.max(1))?;
        let (dim, choices) = (world.obs_dim(), world.choices()?);
        let flags = world.masks().len() / num_envs;
        let network = config.network(dim, choices);
        let parameters = network.draw(config.init, config.init, &mut Random::new(seed, Purpose::Weights));
        let optimizer = Optimizer::new(Rule::Adam, 1e-8, network.parameters());
        Ok(Self {
            replay: Replay::new(config.replay(dim, flags))?,
            judge: Judge::new(&network, num_envs),
            target: parameters.clone(),
            learning: Learning::new(network, parameters, optimizer, config.batch_size),
            epsilon: config.epsilon()?,
            exploration: Random::new(seed, Purpose::Exploration),
            batches: Random::new(seed, Purpose::Batches),
            global_step: 0,
            best: vec![Best::default(); num_envs],
            actions: vec![0; num_envs],
            places: vec![0; config.batch_size],
            config,
            world,
            pool,
        })
    }

    /// Makes a step in all environments, and the updates that are due by then.
    fn step(&mut self, report: &mut Report) -> Result<()> {
        let epsilon = self.epsilon.at(self.global_step);
        report.add("charts/epsilon", epsilon);
        let Learning { network, parameters, .. } = &self.learning;
        let (obs, masks) = (self.world.obs(), self.world.masks());
        self.judge.best_into(&self.pool, network, parameters, obs, masks, &mut self.best);
        explore(&self.best, masks, network.choices(), epsilon, &mut self.exploration, &mut self.actions);
        self.replay.begin(obs, &self.actions);
        self.world.step(Actions::Discrete(&self.actions), report)?;
        self.replay.push(&self.world, self.config.reward_scale as f32);
        let before = self.global_step;
        self.global_step += self.world.num_envs() as u64;
        for step in before + 1..=self.global_step {
            let is_due = step > self.config.learning_starts && step.is_multiple_of(self.config.train_frequency);
            // With several steps to a transition the first ones end without any.
            if is_due && !self.replay.is_empty() {
                self.update(report)?;
            }
            if step.is_multiple_of(self.config.target_network_frequency) {
                self.follow();
            }
        }
        Ok(())
    }

    /// Learns from some transitions.
    fn update(&mut self, report: &mut Report) -> Result<()> {
        self.replay.sample(&mut self.batches, &mut self.places);
        let (replay, places, target) = (&self.replay, &self.places, &self.target);
        let loss = if self.config.huber_loss { Loss::Huber } else { Loss::Square };
        let means = self.learning.gradient(&self.pool, places.len(), loss, |tile, scratch, network, parameters| {
            let TileScratch { tape, rows, actions, targets, .. } = scratch;
            let (places, dim, choices) = (&places[tile], network.inputs(), network.choices());
            let rows = &mut rows[..places.len() * dim];
            for (row, place) in rows.chunks_exact_mut(dim).zip(places) {
                row.copy_from_slice(replay.next_obs(*place));
            }
            if self.config.double_q {
                let values = network.values(parameters, rows, tape).chunks_exact(choices);
                for ((values, place), action) in values.zip(places).zip(actions.iter_mut()) {
                    *action = best(values, replay.next_mask(*place)).action;
                }
            }
            let values = network.values(target, rows, tape).chunks_exact(choices);
            for (i, (values, place)) in values.zip(places).enumerate() {
                let next = match self.config.double_q {
                    true => values[actions[i] as usize],
                    false => best(values, replay.next_mask(*place)).value,
                };
                targets[i] = replay.reward(*place) + replay.discount(*place) * next;
            }
            for ((row, place), action) in rows.chunks_exact_mut(dim).zip(places).zip(actions) {
                row.copy_from_slice(replay.obs(*place));
                *action = replay.action(*place);
            }
        });
        check_finite("losses/td_loss", means.loss, self.global_step)?;
        let longest = self.config.max_grad_norm.unwrap_or(f64::INFINITY);
        self.learning.descend(longest, self.config.learning_rate, self.global_step)?;
        report.add("losses/td_loss", means.loss);
        report.add("losses/q_values", means.values);
        report.add("charts/learning_rate", self.config.learning_rate);
        Ok(())
    }

    /// Moves the target towards the network.
    fn follow(&mut self) {
        if self.config.tau == 1.0 {
            return self.target.copy_from_slice(&self.learning.parameters);
        }
        let tau = self.config.tau as f32;
        for (target, parameter) in self.target.iter_mut().zip(&self.learning.parameters) {
            *target = tau * parameter + (1.0 - tau) * *target;
        }
    }
}

impl Learner for Dqn {
    fn global_step(&self) -> u64 {
        self.global_step
    }

    fn advance(&mut self, last_step: u64, report: &mut Report) -> Result<()> {
        let num_envs = self.world.num_envs();
        for made in 0..UNIT.div_ceil(num_envs) {
            if made > 0 && self.global_step + num_envs as u64 > last_step {
                break;
            }
            self.step(report)?;
        }
        self.learning.check_weights(self.global_step)
    }

    fn relearn(&mut self, report: &mut Report) -> Result<u64> {
        if self.replay.is_empty() {
            return Ok(0);
        }
        self.update(report)?;
        Ok(self.places.len() as u64)
    }

    fn greedy(&self) -> Box<dyn Greedy> {
        let Learning { network, parameters, .. } = &self.learning;
        let frames = self.config.frame_stack_n.max(1);
        Box::new(GreedyQ::new(network.clone(), parameters.clone(), frames, Arc::clone(&self.pool)))
    }

    fn save(&self) -> State {
        let mut state = State::default();
        self.learning.save(&mut state);
        self.learning.network.save("target", &self.target, &mut state);
        state.put_value("global_step", &self.global_step);
        state.put_value("random.exploration", &self.exploration.position());
        state.put_value("random.batches", &self.batches.position());
        state.put_state("world", self.world.save());
        state.put_state("replay", self.replay.save());
        state
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        let global_step = state.value("global_step")?;
        let (exploration, batches) = (state.value("random.exploration")?, state.value("random.batches")?);
        let target = self.learning.network.restore("target", state)?;
        let replay = state.state("replay");
        for name in ["actions", "windows.actions"] {
            check_actions(&replay, name, self.learning.network.choices())?;
        }
        self.replay.restore(&replay)?;
        self.world.restore(&state.state("world"))?;
        self.learning.restore(state)?;
        self.target = target;
        self.exploration = self.exploration.clone().at(exploration);
        self.batches = self.batches.clone().at(batches);
        self.global_step = global_step;
        Ok(())
    }
}

/// Refuses actions that there are not: they would be looked up in a row of values.
fn check_actions(replay: &State, name: &str, choices: usize) -> Result<()> {
    let array = replay.arrays().get(name).ok_or_else(|| Error::Missing { name: format!("replay.{name}") })?;
    let bad = match &array.data {
        Data::U32(actions) => actions.iter().find(|action| **action as usize >= choices),
        _ => None,
    };
    bad.map_or(Ok(()), |action| {
        let why = format!("there is an action {action}, but only {choices} actions");
        Err(Error::Value { name: format!("replay.{name}"), why })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::cut_short::{self, Lie, cart_pole, learnt_after, tic_tac_toe};

    fn small() -> Config {
        Config {
            num_envs: 4,
            total_timesteps: 4_000,
            hidden: vec![16],
            buffer_size: 300,
            batch_size: 200,
            learning_starts: 100,
            target_network_frequency: 90,
            ..Config::default()
        }
    }

    fn learner(config: &Config, threads: usize) -> Dqn {
        Dqn::new(config, cart_pole(config.num_envs), 3, Arc::new(Pool::new(threads))).unwrap()
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
        let message = |config: Config| config.validate().unwrap_err().to_string();
        assert_eq!(
            message(Config { num_envs: 20, buffer_size: 10, ..Config::default() }),
            "agent.num_envs is 20, but agent.buffer_size is 10: the buffer must hold one step of all environments"
        );
        let both = Config { exploration_fraction: Some(0.5), exploration_steps: Some(10), ..Config::default() };
        assert!(message(both).contains("agent.exploration_fraction is given together with agent.exploration_steps"));
        assert!(message(Config { batch_size: 0, ..Config::default() }).contains("agent.batch_size is 0"));
        assert!(message(Config { hidden: vec![3, 0], ..Config::default() }).contains("agent.hidden is [3, 0]"));
        assert!(message(Config { tau: -0.5, ..Config::default() }).contains("agent.tau"));
        assert!(serde_json::from_str::<Config>(r#"{"batchsize": 5}"#).unwrap_err().to_string().contains("batchsize"));
        Config::default().validate().unwrap();
        let Schedule::Linear { duration, .. } = Config::default().epsilon().unwrap() else { panic!("a straight line") };
        assert_eq!(duration, 250_000);
    }

    #[test]
    fn updates_follow_transitions_and_not_environments() {
        for (num_envs, train_frequency) in [(1, 10), (4, 10), (25, 10), (100, 10), (100, 7), (4, 1)] {
            let config = Config { num_envs, train_frequency, ..small() };
            let mut learner = learner(&config, 1);
            learnt_after(&mut learner, 100);
            assert_eq!(learner.learning.optimizer.steps, 0, "nothing before learning starts");
            learnt_after(&mut learner, 500);
            let expected = 500 / train_frequency - 100 / train_frequency;
            assert_eq!(learner.learning.optimizer.steps, expected, "{num_envs} environments");
        }
    }

    #[test]
    fn the_target_follows_when_it_should() {
        let config = Config { num_envs: 1, tau: 0.25, ..small() };
        let mut learner = learner(&config, 1);
        let first = learner.target.clone();
        learnt_after(&mut learner, 179);
        assert_ne!(learner.learning.parameters, first);
        assert!(learner.target.iter().zip(&first).all(|(a, b)| (a - b).abs() < 1e-6));
        learnt_after(&mut learner, 180);
        // 180 is a multiple of both frequencies: first the update, then the target.
        for ((target, parameter), first) in learner.target.iter().zip(&learner.learning.parameters).zip(&first) {
            assert!((target - (0.25 * parameter + 0.75 * first)).abs() < 1e-6);
        }
    }

    #[test]
    fn any_number_of_threads_learns_the_same_bits() {
        let config = Config { double_q: true, dueling: true, n_step: 3, huber_loss: true, ..small() };
        let learnt = |threads| learnt_after(&mut learner(&config, threads), 1_200);
        let alone = learnt(1);
        assert!([2, 3].iter().all(|threads| learnt(*threads) == alone));
    }

    #[test]
    fn restored_equals_uninterrupted() {
        for n_step in [1, 3] {
            let config = Config { n_step, frame_stack_n: 2, ..small() };
            let mut whole = learner(&config, 1);
            // Before the buffer is full, and after.
            for half in [200, 800] {
                let half = learnt_after(&mut whole, half);
                let mut other = learner(&config, 2);
                other.restore(&half).unwrap();
                let steps = other.global_step() + 300;
                assert_eq!(learnt_after(&mut other, steps), learnt_after(&mut whole, steps));
            }
            let state = whole.save();
            let mut smaller = learner(&Config { buffer_size: 299, ..config.clone() }, 1);
            assert!(smaller.restore(&state).is_err());
            let mut damaged = state.clone();
            damaged.put("replay.windows.actions", &[4, n_step], &vec![2_u32; 4 * n_step]);
            let error = whole.restore(&damaged).unwrap_err().to_string();
            assert!(error.contains("'replay.windows.actions'") && error.contains("an action 2"), "{error}");
            whole.restore(&state).unwrap();
        }
    }

    #[test]
    fn steps_may_be_cut_into_calls_anyhow() {
        let (mut one, mut other) = (learner(&small(), 1), learner(&small(), 1));
        let at_once = learnt_after(&mut one, 400);
        for steps in (4..=400).step_by(4) {
            learnt_after(&mut other, steps);
        }
        assert_eq!(other.save(), at_once);
    }

    #[test]
    fn a_time_limit_is_not_the_end() {
        for (n_step, double_q, dueling) in [(1, false, false), (3, true, true)] {
            let value = |lie: Lie| {
                let config = Config {
                    num_envs: 4,
                    total_timesteps: 40_000,
                    learning_rate: 2e-3,
                    hidden: vec![16],
                    buffer_size: 1_000,
                    batch_size: 32,
                    gamma: 0.9,
                    target_network_frequency: 50,
                    learning_starts: 200,
                    train_frequency: 4,
                    n_step,
                    double_q,
                    dueling,
                    ..Config::default()
                };
                let mut learner = Dqn::new(&config, cut_short::batch(4, lie), 1, Arc::new(Pool::new(1))).unwrap();
                learnt_after(&mut learner, config.total_timesteps);
                cut_short::value(&learner.learning.network, &learner.learning.parameters)
            };
            cut_short::check(value);
        }
    }

    #[test]
    fn only_legal_actions_are_taken() {
        let config = Config { num_envs: 6, n_step: 2, ..small() };
        let mut learner = Dqn::new(&config, tic_tac_toe(6), 1, Arc::new(Pool::new(1))).unwrap();
        // An illegal move would be an error of the environment.
        learnt_after(&mut learner, 1_200);
        // And what is legal next are the free cells, but where nothing follows.
        let replay = &learner.replay;
        let goes_on = (0..replay.len() as u32).filter(|place| replay.discount(*place) > 0.0);
        for place in goes_on.clone() {
            let free: Vec<bool> = replay.next_obs(place)[..9].iter().map(|cell| *cell == 0.0).collect();
            assert_eq!(replay.next_mask(place), free);
        }
        assert!(goes_on.count() > 50);
    }

    /// Of two actions the better one is not legal next: its value must not count, neither with one network nor with two.
    #[test]
    fn the_best_next_action_is_a_legal_one() {
        for double_q in [false, true] {
            let config = Config { double_q, hidden: Vec::new(), learning_starts: 0, ..small() };
            let mut learner = Dqn::new(&config, tic_tac_toe(4), 1, Arc::new(Pool::new(1))).unwrap();
            learnt_after(&mut learner, 8);
            // Values are biases alone: a cell is worth its number, 8 for the last one.
            let biases = learner.target.len() - 9;
            let number = |i: usize| if i < biases { 0.0 } else { (i - biases) as f32 };
            learner.target.iter_mut().enumerate().for_each(|(i, weight)| *weight = number(i));
            learner.learning.parameters.copy_from_slice(&learner.target);
            let mut report = Report::default();
            learner.update(&mut report).unwrap();
            // The mean loss by hand.
            let loss = |place: u32| {
                let mask = learner.replay.next_mask(place);
                let next = (0..9).rev().find(|cell| mask[*cell]).unwrap() as f32;
                let target = learner.replay.reward(place) + learner.replay.discount(place) * next;
                f64::from(learner.replay.action(place) as f32 - target).powi(2)
            };
            let mean = learner.places.iter().map(|place| loss(*place)).sum::<f64>() / learner.places.len() as f64;
            let (tag, found) = report.means().next().unwrap();
            assert_eq!(tag, "losses/td_loss");
            assert!((found - mean).abs() < 1e-4 * mean, "{found} and {mean}");
        }
    }

    #[test]
    fn a_loss_that_is_no_number_stops_before_it_is_kept() {
        let mut learner = learner(&small(), 1);
        learnt_after(&mut learner, 100);
        learner.learning.parameters[0] = f32::NAN;
        let error = learner.advance(200, &mut Report::default()).unwrap_err();
        assert!(matches!(error, Error::NotFinite { .. }), "{error}");
        assert_eq!(learner.learning.optimizer.steps, 0);
        assert!(learner.learning.optimizer.first.iter().all(|moment| *moment == 0.0));
    }
}
