//! DQN: Q-learning from a buffer of transitions, towards a copy of the network that follows slowly.
//!
//! Source: Mnih et al., "Human-level control through deep reinforcement learning" (2015); defaults of CleanRL's `dqn.py`.
//!
//! ```text
//! loss = mean of (Q(s, a) - y)²,    y = r + γ (1 - terminated) max of Q_target(s', a') over legal a'
//! ```
//!
//! Options: double (van Hasselt et al.: the network chooses a', the target network says what it is worth), dueling
//! (Wang et al.), several steps in r, and the Huber loss. Where an episode was cut off, s' is its true last observation,
//! and what is legal is what was legal there.
//!
//! Updates are counted in steps of environments: one at every multiple of `train_frequency` beyond `learning_starts`,
//! and the target follows at every multiple of `target_network_frequency`, so that what is learnt depends on how many
//! transitions there are and not on how many environments they come from.

use std::sync::Arc;

use phalanx_core::pool::Pool;

use super::choices::{Initialiser, OptimizerKind};
use super::limits::one_of;
use super::q_network::{Explorer, Loss, Plan, TileScratch, best};
use super::replay::{Replay, Shape};
use crate::error::{Error, Result};
use crate::learner::{Greedy, Learner, Length, Report};
use crate::nn::{Layer, Schedule};
use crate::run::settings::{
    Section, any, at_least_one, check_keys, choice, layers, not_negative, optional, part, positive, rows_of_batch,
    section, share, steps_of_return,
};
use crate::stages::Stage;
use crate::state::{Data, State};
use crate::world::World;

/// Steps of all environments in a call of [`Dqn::advance`], about.
const UNIT: usize = 1024;

choice! {
    /// The loss of a temporal difference.
    TdLoss {
        /// The square of the difference.
        Mse = "mse",
        /// The square near 0, a straight line beyond 1.
        Huber = "huber",
    }
}

impl TdLoss {
    fn loss(self) -> Loss {
        match self {
            Self::Mse => Loss::Square,
            Self::Huber => Loss::Huber,
        }
    }
}

section! {
    /// Settings of deep Q-learning. Defaults: CleanRL's `dqn.py`; cadences count steps of all environments.
    DqnConfig in "agent" {
        /// The learning rate. 2.5e-4.
        learning_rate: f64 = 2.5e-4, positive;
        /// The discount. 0.99.
        gamma: f64 = 0.99, share;
        /// Transitions the buffer holds. 10,000.
        buffer_size in "run": usize = 10_000, at_least_one;
        /// Whether checkpoints hold the buffer. True: without it a run that goes on fills it anew before it learns, and
        /// comes to other bits, but its checkpoints are small.
        save_buffer in "run": bool = true, any;
        /// Transitions of an update. 128.
        batch_size in "run": usize = 128, rows_of_batch;
        /// Share of the online weights in a target update. 1.
        tau: f64 = 1.0, part;
        /// Steps between target updates. 500.
        target_network_frequency: u64 = 500, at_least_one;
        /// Exploration at the start. 1.
        start_e: f64 = 1.0, share;
        /// Exploration at the end. 0.05.
        end_e: f64 = 0.05, share;
        /// Share of the run in which exploration falls. 0.5.
        exploration_fraction: Option<f64> = Some(0.5), optional(part);
        /// Steps in which exploration falls, instead of a share. None.
        exploration_steps: Option<u64> = None, optional(at_least_one);
        /// Steps before the first update. 10,000.
        learning_starts: u64 = 10_000, any;
        /// Steps for each update. 10.
        train_frequency: u64 = 10, at_least_one;
        /// The loss. `mse`.
        loss: TdLoss = TdLoss::Mse, any;
        /// Whether the online network chooses the action that the target network values. False.
        double: bool = false, any;
        /// Whether values and advantages have heads of their own. False.
        dueling: bool = false, any;
        /// Rewards of a target before it bootstraps. 1.
        n_step: usize = 1, steps_of_return;
        /// Largest norm of a gradient. None.
        max_grad_norm: Option<f64> = None, optional(positive);
        /// Sizes of the hidden ReLU layers. [120, 84].
        hidden: Vec<usize> = vec![120, 84], layers;
        /// How weights start. `uniform`, as PyTorch's.
        initialiser: Initialiser = Initialiser::Uniform, any;
        /// How gradients become steps. `adam`.
        optimizer: OptimizerKind = OptimizerKind::Adam, any;
        /// Part of a weight that `adamw` takes away per unit of learning rate. None: 0.01.
        weight_decay: Option<f64> = None, optional(not_negative);
        /// Observations that are stacked, the newest last; 0 and 1 are no stack. 0.
        frame_stack_n: usize = 0, any;
        /// Whether each observation comes with the action that led to it. False.
        frame_actions: bool = false, any;
        /// What rewards are multiplied by before learning. 1.
        reward_scale: f64 = 1.0, positive;
    }
}

impl DqnConfig {
    /// Refuses settings that cannot work for a run of this length.
    pub fn check(&self, length: Length) -> Result<()> {
        check_keys(self)?;
        self.optimizer.rule(self.weight_decay)?;
        let steps = ("exploration_steps", self.exploration_steps);
        one_of(("exploration_fraction", self.exploration_fraction), steps)?;
        if u32::try_from(self.buffer_size).is_err() {
            return Err(Error::setting("run.buffer_size", format!("is {}, but must be below 2^32", self.buffer_size)));
        }
        if length.num_envs > self.buffer_size {
            let why = format!("is {}, but must be at most run.buffer_size = {}", length.num_envs, self.buffer_size);
            return Err(Error::setting("run.num_envs", why));
        }
        Ok(())
    }

    /// The probability of a random action, by steps of all environments.
    pub fn epsilon(&self, length: Length) -> Schedule {
        let (steps, share) = (self.exploration_steps, self.exploration_fraction);
        Schedule::line(self.start_e, self.end_e, steps, share, length.total() as f64)
    }
}

/// DQN in training.
#[derive(Debug)]
pub struct Dqn {
    config: DqnConfig,
    explorer: Explorer,
    /// The parameters of the target network.
    target: Vec<f32>,
    replay: Replay,
    epsilon: Schedule,
    /// What is done in each environment.
    actions: Vec<i32>,
    /// Which transitions an update learns from.
    places: Vec<u32>,
    /// Transitions that there must be before any is learnt from.
    enough: usize,
}

impl Dqn {
    /// A learner with first weights of this seed on these environments, for a run of so many steps of each. The
    /// pool's threads share the work.
    pub fn new(config: DqnConfig, world: World, steps_per_env: u64, seed: u64, pool: Arc<Pool>) -> Result<Self> {
        let num_envs = world.num_envs();
        let length = Length { num_envs, steps_per_env };
        config.check(length)?;
        let shape = Shape {
            capacity: config.buffer_size,
            num_envs,
            obs_dim: world.obs_dim(),
            flags: world.masks().len() / num_envs,
            n_step: config.n_step,
            gamma: config.gamma,
        };
        if config.save_buffer {
            // A checkpoint holds all of it once more, on its way to a file or back.
            let what = "the replay buffer with its copy in a checkpoint (see run.save_buffer)";
            shape.counted().times(2).require("run.buffer_size", config.buffer_size, what)?;
        }
        let replay = Replay::new(shape)?;
        let init = config.initialiser.init(2_f64.sqrt());
        let plan = Plan {
            hidden: &config.hidden.iter().flat_map(|size| [Layer::Dense(*size), Layer::Relu]).collect::<Vec<_>>(),
            source: ("agent.hidden", format!("{:?}", config.hidden)),
            dueling: config.dueling,
            init: (init, init),
            rule: config.optimizer.rule(config.weight_decay)?,
            rows: config.batch_size,
        };
        let explorer = Explorer::new(plan, world, seed, pool)?;
        Ok(Self {
            target: explorer.learning.parameters.clone(),
            explorer,
            replay,
            epsilon: config.epsilon(length),
            actions: vec![0; num_envs],
            places: vec![0; config.batch_size],
            // With several steps to a transition the first ones end without any.
            enough: 1,
            config,
        })
    }

    /// Makes a step in all environments, and the updates that are due by then.
    fn step(&mut self, report: &mut Report) -> Result<()> {
        let before = self.explorer.global_step;
        let epsilon = self.epsilon.at(before);
        report.add("charts/epsilon", epsilon);
        let mut lap = report.stages.begin();
        self.explorer.look();
        self.explorer.choose(epsilon, &mut self.actions);
        report.stages.lap(Stage::Act, &mut lap);
        self.replay.begin(self.explorer.world.obs(), &self.actions);
        report.stages.lap(Stage::Store, &mut lap);
        self.explorer.step(&self.actions, report)?;
        report.stages.lap(Stage::Step, &mut lap);
        self.replay.push(&self.explorer.world, self.config.reward_scale as f32);
        report.stages.lap(Stage::Store, &mut lap);
        for step in before + 1..=self.explorer.global_step {
            let is_due = step > self.config.learning_starts && step.is_multiple_of(self.config.train_frequency);
            if is_due && self.replay.len() >= self.enough {
                report.stop.check()?;
                self.update(report)?;
            }
            if step.is_multiple_of(self.config.target_network_frequency) {
                self.follow();
            }
        }
        report.stages.lap(Stage::Learn, &mut lap);
        Ok(())
    }

    /// Learns from some transitions.
    fn update(&mut self, report: &mut Report) -> Result<()> {
        let Explorer { learning, pool, batches, .. } = &mut self.explorer;
        self.replay.sample(batches, &mut self.places);
        let (replay, places, target) = (&self.replay, &self.places, &self.target);
        let (loss, double) = (self.config.loss.loss(), self.config.double);
        let means = learning.gradient(pool, places.len(), loss, |tile, scratch, network, parameters| {
            let TileScratch { tape, rows, actions, targets, .. } = scratch;
            let (places, dim, choices) = (&places[tile], network.inputs(), network.choices());
            let rows = &mut rows[..places.len() * dim];
            for (row, place) in rows.chunks_exact_mut(dim).zip(places) {
                row.copy_from_slice(replay.next_obs(*place));
            }
            if double {
                let values = network.values(parameters, rows, tape).chunks_exact(choices);
                for ((values, place), action) in values.zip(places).zip(actions.iter_mut()) {
                    *action = best(values, replay.next_mask(*place)).action;
                }
            }
            let values = network.values(target, rows, tape).chunks_exact(choices);
            for (i, (values, place)) in values.zip(places).enumerate() {
                let next = match double {
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
        let longest = self.config.max_grad_norm.unwrap_or(f64::INFINITY);
        self.explorer.descend(means, longest, self.config.learning_rate, report)
    }

    /// Moves the target towards the network.
    fn follow(&mut self) {
        let parameters = &self.explorer.learning.parameters;
        if self.config.tau == 1.0 {
            return self.target.copy_from_slice(parameters);
        }
        let tau = self.config.tau as f32;
        for (target, parameter) in self.target.iter_mut().zip(parameters) {
            *target = tau * parameter + (1.0 - tau) * *target;
        }
    }
}

impl Learner for Dqn {
    fn global_step(&self) -> u64 {
        self.explorer.global_step
    }

    fn advance(&mut self, last_step: u64, report: &mut Report) -> Result<()> {
        let num_envs = self.actions.len();
        for made in 0..UNIT.div_ceil(num_envs) {
            if made > 0 && self.global_step() + num_envs as u64 > last_step {
                break;
            }
            self.step(report)?;
        }
        self.explorer.check_weights()
    }

    fn relearn(&mut self, report: &mut Report) -> Result<u64> {
        if self.replay.is_empty() {
            return Ok(0);
        }
        self.update(report)?;
        Ok(self.places.len() as u64)
    }

    fn greedy(&self) -> Box<dyn Greedy> {
        self.explorer.greedy()
    }

    fn save(&self) -> State {
        let mut state = self.explorer.save();
        self.explorer.learning.network.save("target", &self.target, &mut state);
        if self.config.save_buffer {
            state.put_state("replay", self.replay.save());
        }
        state
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        let network = &self.explorer.learning.network;
        let target = network.restore("target", state)?;
        let replay = state.state("replay");
        if self.config.save_buffer {
            for name in ["actions", "windows.actions"] {
                check_actions(&replay, name, network.choices())?;
            }
            self.replay.restore(&replay)?;
        } else {
            self.replay.clear();
            // As at the start: a few transitions over and over would be learnt by heart.
            self.enough = (self.config.learning_starts as usize).clamp(1, self.config.buffer_size);
        }
        self.explorer.restore(state)?;
        self.target = target;
        Ok(())
    }

    fn restore_policy(&mut self, state: &State) -> Result<()> {
        self.explorer.learning.restore_policy(state)
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
    use phalanx_core::batch::Batch;

    use super::*;
    use crate::agents::cut_short::{self, Lie, cart_pole, learnt_after, tic_tac_toe};
    use crate::agents::q_network::Learning;
    use crate::world::Sight;

    fn small() -> DqnConfig {
        DqnConfig {
            hidden: vec![16],
            buffer_size: 300,
            batch_size: 200,
            learning_starts: 100,
            target_network_frequency: 90,
            ..DqnConfig::default()
        }
    }

    fn on(config: &DqnConfig, batch: Box<dyn Batch>, threads: usize) -> Dqn {
        let world = World::new(batch, Sight { frames: config.frame_stack_n.max(1), ..Sight::PRESENT }).unwrap();
        Dqn::new(config.clone(), world, 1_000, 3, Arc::new(Pool::new(threads))).unwrap()
    }

    fn learner(config: &DqnConfig, num_envs: usize, threads: usize) -> Dqn {
        on(config, cart_pole(num_envs), threads)
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
        let message =
            |config: DqnConfig| config.check(Length { num_envs: 20, steps_per_env: 1 }).unwrap_err().to_string();
        let default = DqnConfig::default;
        assert_eq!(
            message(DqnConfig { buffer_size: 10, ..default() }),
            "run.num_envs is 20, but must be at most run.buffer_size = 10"
        );
        assert_eq!(
            message(DqnConfig { exploration_steps: Some(10), ..default() }),
            "agent.exploration_fraction and agent.exploration_steps are both given: give one of them"
        );
        assert_eq!(
            message(DqnConfig { batch_size: 0, ..default() }),
            "run.batch_size is 0, but must be from 1 to 1000000"
        );
        assert!(message(DqnConfig { hidden: vec![3, 0], ..default() }).starts_with("agent.hidden is [3, 0], but must"));
        assert_eq!(message(DqnConfig { tau: f64::NAN, ..default() }), "agent.tau is nan, but must be a finite number");
        assert!(message(DqnConfig { buffer_size: 1 << 32, ..default() }).starts_with("run.buffer_size is 4294967296,"));
    }

    #[test]
    fn what_does_not_fit_into_memory_is_refused() {
        let message = |config: DqnConfig| {
            let world = World::new(cart_pole(2), Sight::PRESENT).unwrap();
            Dqn::new(config, world, 1, 3, Arc::new(Pool::new(1))).unwrap_err().to_string()
        };
        let begins = |config: DqnConfig, expected: &str| {
            let found = message(config);
            assert!(found.starts_with(expected) && found.contains("would take"), "{found}");
        };
        begins(DqnConfig { hidden: vec![1 << 40, 1 << 40], ..small() }, "agent.hidden is [1099511627776,");
        assert_eq!(
            message(DqnConfig { batch_size: 1_000_001, ..small() }),
            "run.batch_size is 1000001, but must be from 1 to 1000000"
        );
        assert_eq!(
            message(DqnConfig { n_step: 1_000_001, ..small() }),
            "agent.n_step is 1000001, but must be from 1 to 1000000"
        );
    }

    #[test]
    fn exploration_counts_all_environments() {
        let epsilon = DqnConfig::default().epsilon(Length { num_envs: 5, steps_per_env: 100_000 });
        assert_eq!(epsilon, Schedule::Linear { start: 1.0, end: 0.05, duration: 250_000 });
        assert_eq!(epsilon.at(125_000), 0.525);
    }

    #[test]
    fn updates_follow_transitions_and_not_environments() {
        for (num_envs, train_frequency) in [(1, 10), (4, 10), (25, 10), (100, 10), (100, 7), (4, 1)] {
            let config = DqnConfig { train_frequency, ..small() };
            let mut learner = learner(&config, num_envs, 1);
            learnt_after(&mut learner, 100);
            assert_eq!(learner.explorer.learning.optimizer.steps, 0, "nothing before learning starts");
            learnt_after(&mut learner, 500);
            let expected = 500 / train_frequency - 100 / train_frequency;
            assert_eq!(learner.explorer.learning.optimizer.steps, expected, "{num_envs} environments");
        }
    }

    #[test]
    fn the_target_follows_when_it_should() {
        let config = DqnConfig { tau: 0.25, ..small() };
        let mut learner = learner(&config, 1, 1);
        let first = learner.target.clone();
        learnt_after(&mut learner, 179);
        assert_ne!(learner.explorer.learning.parameters, first);
        assert!(learner.target.iter().zip(&first).all(|(a, b)| (a - b).abs() < 1e-6));
        learnt_after(&mut learner, 180);
        // 180 is a multiple of both frequencies: first the update, then the target.
        for ((target, parameter), first) in learner.target.iter().zip(&learner.explorer.learning.parameters).zip(&first)
        {
            assert!((target - (0.25 * parameter + 0.75 * first)).abs() < 1e-6);
        }
    }

    #[test]
    fn any_number_of_threads_learns_the_same_bits() {
        let config = DqnConfig { double: true, dueling: true, n_step: 3, loss: TdLoss::Huber, ..small() };
        let learnt = |threads| learnt_after(&mut learner(&config, 4, threads), 1_200);
        let alone = learnt(1);
        assert!([2, 3].iter().all(|threads| learnt(*threads) == alone));
    }

    #[test]
    fn restored_equals_uninterrupted() {
        for n_step in [1, 3] {
            let config = DqnConfig { n_step, frame_stack_n: 2, ..small() };
            let mut whole = learner(&config, 4, 1);
            // Before the buffer is full, and after.
            for half in [200, 800] {
                let half = learnt_after(&mut whole, half);
                let mut other = learner(&config, 4, 2);
                other.restore(&half).unwrap();
                let steps = other.global_step() + 300;
                assert_eq!(learnt_after(&mut other, steps), learnt_after(&mut whole, steps));
            }
            let state = whole.save();
            let mut smaller = learner(&DqnConfig { buffer_size: 299, ..config.clone() }, 4, 1);
            assert!(smaller.restore(&state).is_err());
            let mut damaged = state.clone();
            damaged.put("replay.windows.actions", &[4, n_step], &vec![2_u32; 4 * n_step]);
            let error = whole.restore(&damaged).unwrap_err().to_string();
            assert!(error.contains("'replay.windows.actions'") && error.contains("an action 2"), "{error}");
            whole.restore(&state).unwrap();
        }
    }

    /// What is left out of a checkpoint is filled anew before anything is learnt from it.
    #[test]
    fn a_checkpoint_need_not_hold_the_buffer() {
        let config = DqnConfig { save_buffer: false, ..small() };
        let mut whole = learner(&config, 4, 1);
        let half = learnt_after(&mut whole, 400);
        assert!(half.state("replay").arrays().is_empty());
        // The setting changes nothing that is learnt.
        assert!(
            learnt_after(&mut learner(&small(), 4, 1), 400).state("network").arrays() == half.state("network").arrays()
        );
        let mut other = learner(&config, 4, 1);
        other.restore(&half).unwrap();
        assert_eq!((other.global_step(), other.replay.len()), (400, 0));
        let updates = other.explorer.learning.optimizer.steps;
        learnt_after(&mut other, 400 + 96);
        assert_eq!(other.explorer.learning.optimizer.steps, updates, "too few transitions to learn from");
        learnt_after(&mut other, 400 + 120);
        assert!(other.explorer.learning.optimizer.steps > updates);
        // Who wants the buffer back cannot have it.
        assert!(learner(&small(), 4, 1).restore(&half).is_err());
    }

    #[test]
    fn steps_may_be_cut_into_calls_anyhow() {
        let (mut one, mut other) = (learner(&small(), 4, 1), learner(&small(), 4, 1));
        let at_once = learnt_after(&mut one, 400);
        for steps in (4..=400).step_by(4) {
            learnt_after(&mut other, steps);
        }
        assert_eq!(other.save(), at_once);
    }

    #[test]
    fn a_time_limit_is_not_the_end() {
        for (n_step, double, dueling) in [(1, false, false), (3, true, true)] {
            let value = |lie: Lie| {
                let config = DqnConfig {
                    learning_rate: 2e-3,
                    hidden: vec![16],
                    buffer_size: 1_000,
                    batch_size: 32,
                    gamma: 0.9,
                    target_network_frequency: 50,
                    learning_starts: 200,
                    train_frequency: 4,
                    n_step,
                    double,
                    dueling,
                    ..DqnConfig::default()
                };
                let world = World::new(cut_short::batch(4, lie), Sight::PRESENT).unwrap();
                let mut learner = Dqn::new(config, world, 10_000, 1, Arc::new(Pool::new(1))).unwrap();
                learnt_after(&mut learner, 40_000);
                let Learning { network, parameters, .. } = &learner.explorer.learning;
                cut_short::value(network, parameters)
            };
            cut_short::check(value);
        }
    }

    #[test]
    fn only_legal_actions_are_taken() {
        let mut learner = on(&DqnConfig { n_step: 2, ..small() }, tic_tac_toe(6), 1);
        // An illegal move would be an error of the environment.
        learnt_after(&mut learner, 1_200);
        // And what is legal next are the free cells, also where a game was cut off, but where nothing follows.
        let replay = &learner.replay;
        let goes_on = (0..replay.len() as u32).filter(|place| replay.discount(*place) > 0.0);
        for place in goes_on.clone() {
            let free: Vec<bool> = replay.next_obs(place)[..9].iter().map(|cell| *cell == 0.0).collect();
            assert_eq!(replay.next_mask(place), free);
        }
        assert!(goes_on.count() > 50 && replay.truncated_share() > 0.1);
    }

    /// Of two actions the better one is not legal next: its value must not count, neither with one network nor with two.
    #[test]
    fn the_best_next_action_is_a_legal_one() {
        for double in [false, true] {
            let config = DqnConfig { double, hidden: Vec::new(), learning_starts: 0, ..small() };
            let mut learner = on(&config, tic_tac_toe(4), 1);
            learnt_after(&mut learner, 8);
            // Values are biases alone: a cell is worth its number, 8 for the last one.
            let biases = learner.target.len() - 9;
            let number = |i: usize| if i < biases { 0.0 } else { (i - biases) as f32 };
            learner.target.iter_mut().enumerate().for_each(|(i, weight)| *weight = number(i));
            learner.explorer.learning.parameters.copy_from_slice(&learner.target);
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
        let mut learner = learner(&small(), 4, 1);
        learnt_after(&mut learner, 100);
        learner.explorer.learning.parameters[0] = f32::NAN;
        let error = learner.advance(200, &mut Report::default()).unwrap_err();
        assert!(matches!(error, Error::NotFinite { .. }), "{error}");
        assert_eq!(learner.explorer.learning.optimizer.steps, 0);
        assert!(learner.explorer.learning.optimizer.first.iter().all(|moment| *moment == 0.0));
    }
}
