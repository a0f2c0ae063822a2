//! PQN: Q-learning on parallel environments, without replay and without a target network.
//!
//! Source: Gallici et al., "Simplifying deep temporal difference learning" (2024); details as in CleanRL's `pqn.py`,
//! but for the ends of episodes. One unit of work is a roll-out of `rollout_steps` steps in all environments with
//! ε-greedy actions and the same weights; its λ-returns; and `num_epochs` passes over its transitions in random order,
//!
//! ```text
//! loss = mean of (Q(s, a) - G)² / 2,    G = λ-return with V(s') = max of Q(s', a') over legal a'.
//! ```
//!
//! V comes from the weights before the update. Where an episode was cut off it is the value of the true last
//! observation, over what was legal there.

use std::sync::Arc;

use phalanx_core::pool::Pool;

use super::choices::{Initialiser, OptimizerKind};
use super::limits::{Rollouts, one_of};
use super::q_network::{Best, Explorer, Loss, Plan, TileScratch};
use crate::error::Result;
use crate::learner::{Greedy, Learner, Length, Report};
use crate::memory::Bytes;
use crate::nn::{Layer, Schedule};
use crate::returns::Steps;
use crate::run::settings::{
    Section, any, at_least_one, check_keys, epochs, not_negative, optional, part, positive, section, share,
};
use crate::stages::Stage;
use crate::state::State;
use crate::world::World;

section! {
    /// Settings of parallelised Q-networks. Defaults: the CartPole recipe of the reference.
    PqnConfig in "agent" {
        /// The learning rate at the start. 1e-4.
        learning_rate: f64 = 1e-4, positive;
        /// Share of the run in which the learning rate falls to 0; with neither this nor steps it is constant. 1.
        lr_decay_fraction: Option<f64> = Some(1.0), optional(part);
        /// Gradient steps in which the learning rate falls to 0, instead of a share. None.
        lr_decay_steps: Option<u64> = None, optional(at_least_one);
        /// The discount. 0.99.
        gamma: f64 = 0.99, share;
        /// λ of the returns. 0.95.
        lambda: f64 = 0.95, share;
        /// Exploration at the start. 1.
        epsilon_start: f64 = 1.0, share;
        /// Exploration at the end. 0.2.
        epsilon_end: f64 = 0.2, share;
        /// Share of the run in which exploration falls. 0.2.
        epsilon_decay_fraction: Option<f64> = Some(0.2), optional(part);
        /// Steps of each environment in which exploration falls, instead of a share. None.
        epsilon_decay_steps: Option<u64> = None, optional(at_least_one);
        /// Steps of each environment in a roll-out. 64.
        rollout_steps in "run": usize = 64, at_least_one;
        /// Times a roll-out is learnt from. 4.
        num_epochs: usize = 4, epochs;
        /// Parts a roll-out is cut into for the updates of an epoch. 16.
        num_minibatches: usize = 16, at_least_one;
        /// Largest norm of a gradient. 10.
        max_grad_norm: f64 = 10.0, positive;
        /// What rewards are multiplied by before learning. 0.1.
        reward_scale: f64 = 0.1, positive;
        /// Size of each hidden layer. 256.
        hidden_size: usize = 256, at_least_one;
        /// Hidden layers. 2.
        num_layers: usize = 2, at_least_one;
        /// How weights start. `orthogonal`.
        initialiser: Initialiser = Initialiser::Orthogonal, any;
        /// How gradients become steps. `radam`.
        optimizer: OptimizerKind = OptimizerKind::RAdam, any;
        /// Part of a weight that `adamw` takes away per unit of learning rate. None: 0.01.
        weight_decay: Option<f64> = None, optional(not_negative);
        /// Observations that are stacked, the newest last; 0 and 1 are no stack. 0.
        frame_stack_n: usize = 0, any;
        /// Whether each observation comes with the action that led to it. False.
        frame_actions: bool = false, any;
    }
}

impl PqnConfig {
    /// Refuses settings that cannot work for a run of this length.
    pub fn check(&self, length: Length) -> Result<()> {
        check_keys(self)?;
        self.optimizer.rule(self.weight_decay)?;
        one_of(
            ("epsilon_decay_fraction", self.epsilon_decay_fraction),
            ("epsilon_decay_steps", self.epsilon_decay_steps),
        )?;
        one_of(("lr_decay_fraction", self.lr_decay_fraction), ("lr_decay_steps", self.lr_decay_steps))?;
        self.rollouts(length).map(drop)
    }

    fn rollouts(&self, length: Length) -> Result<Rollouts> {
        Rollouts::new(length, self.rollout_steps, self.num_minibatches)
    }

    /// The probability of a random action, by steps of each environment.
    pub fn epsilon(&self, length: Length) -> Schedule {
        let (steps, share) = (self.epsilon_decay_steps, self.epsilon_decay_fraction);
        Schedule::line(self.epsilon_start, self.epsilon_end, steps, share, length.steps_per_env as f64)
    }

    /// The learning rate, by gradient steps.
    pub fn learning_rate(&self, length: Length) -> Schedule {
        let rollouts = length.steps_per_env as f64 / self.rollout_steps as f64;
        let whole = rollouts * self.num_minibatches as f64 * self.num_epochs as f64;
        Schedule::line(self.learning_rate, 0.0, self.lr_decay_steps, self.lr_decay_fraction, whole)
    }
}

/// A roll-out: steps one after the other, each with all environments.
#[derive(Debug)]
struct Rollout {
    obs: Vec<f32>,
    actions: Vec<i32>,
    rewards: Vec<f32>,
    next_values: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    returns: Vec<f32>,
    /// In which order its transitions are learnt from.
    order: Vec<u32>,
}

impl Rollout {
    fn new(rows: usize, dim: usize) -> Self {
        Self {
            obs: vec![0.0; rows * dim],
            actions: vec![0; rows],
            rewards: vec![0.0; rows],
            next_values: vec![0.0; rows],
            terminated: vec![false; rows],
            truncated: vec![false; rows],
            returns: vec![0.0; rows],
            order: vec![0; rows],
        }
    }

    fn bytes(rows: usize, dim: usize) -> Bytes {
        Bytes::of::<f32>(&[rows, dim]).and(Bytes::of::<f32>(&[rows, 5])).and(Bytes::of::<bool>(&[rows, 2]))
    }
}

/// PQN in training.
#[derive(Debug)]
pub struct Pqn {
    config: PqnConfig,
    explorer: Explorer,
    epsilon: Schedule,
    learning_rate: Schedule,
    rollout: Rollout,
    cut: Cut,
}

/// The last observations of episodes that a step has cut off, one after the other, what was legal there, and the best
/// actions.
#[derive(Debug)]
struct Cut {
    obs: Vec<f32>,
    masks: Vec<bool>,
    best: Vec<Best>,
}

impl Pqn {
    /// A learner with first weights of this seed on these environments, for a run of so many steps of each. The
    /// pool's threads share the work.
    pub fn new(config: PqnConfig, world: World, steps_per_env: u64, seed: u64, pool: Arc<Pool>) -> Result<Self> {
        let (num_envs, dim, flags) = (world.num_envs(), world.obs_dim(), world.end_mask(0).len());
        let length = Length { num_envs, steps_per_env };
        config.check(length)?;
        let Rollouts { rows, minibatch, .. } = config.rollouts(length)?;
        let what = format!("a roll-out of run.num_envs = {num_envs} environments");
        Rollout::bytes(rows, dim).require("run.rollout_steps", config.rollout_steps, &what)?;
        let hidden = Bytes::of::<Layer>(&[config.num_layers, 3]);
        hidden.require("agent.num_layers", config.num_layers, "the network")?;
        let plan = Plan {
            hidden: &[Layer::Dense(config.hidden_size), Layer::Norm, Layer::Relu].repeat(config.num_layers),
            source: (
                "agent.hidden_size",
                format!("{} with agent.num_layers = {}", config.hidden_size, config.num_layers),
            ),
            dueling: false,
            init: (config.initialiser.init(2_f64.sqrt()), config.initialiser.init(1.0)),
            rule: config.optimizer.rule(config.weight_decay)?,
            rows: minibatch,
        };
        Ok(Self {
            explorer: Explorer::new(plan, world, seed, pool)?,
            epsilon: config.epsilon(length),
            learning_rate: config.learning_rate(length),
            rollout: Rollout::new(rows, dim),
            cut: Cut {
                obs: vec![0.0; num_envs * dim],
                masks: vec![true; flags * num_envs],
                best: vec![Best::default(); num_envs],
            },
            config,
        })
    }

    /// Makes a roll-out, and computes its returns.
    fn roll_out(&mut self, report: &mut Report) -> Result<()> {
        let Self { config, explorer, rollout, .. } = self;
        let (num_envs, dim) = (explorer.world.num_envs(), explorer.world.obs_dim());
        let reward_scale = config.reward_scale as f32;
        let mut lap = report.stages.begin();
        explorer.look();
        for step in 0..config.rollout_steps {
            report.stop.check()?;
            let now = step * num_envs..(step + 1) * num_envs;
            let epsilon = self.epsilon.at(explorer.global_step / num_envs as u64);
            report.add("charts/epsilon", epsilon);
            rollout.obs[now.start * dim..now.end * dim].copy_from_slice(explorer.world.obs());
            let actions = &mut rollout.actions[now.clone()];
            explorer.choose(epsilon, actions);
            report.stages.lap(Stage::Act, &mut lap);
            explorer.step(actions, report)?;
            report.stages.lap(Stage::Step, &mut lap);
            let world = &explorer.world;
            for (scaled, reward) in rollout.rewards[now.clone()].iter_mut().zip(world.rewards()) {
                *scaled = reward_scale * reward;
            }
            rollout.terminated[now.clone()].copy_from_slice(world.terminated());
            rollout.truncated[now.clone()].copy_from_slice(world.truncated());
            report.stages.lap(Stage::Store, &mut lap);
            explorer.look();
            value_next(explorer, &mut rollout.next_values[now], &mut self.cut);
        }
        // The look at what the last step led to.
        report.stages.lap(Stage::Act, &mut lap);
        let Rollout { rewards, next_values, terminated, truncated, returns, .. } = rollout;
        let (gamma, lambda) = (config.gamma as f32, config.lambda as f32);
        Steps { num_envs, rewards, next_values, terminated, truncated, gamma, lambda }.lambda_returns(returns);
        report.stages.lap(Stage::Learn, &mut lap);
        Ok(())
    }

    /// Learns from the roll-out.
    fn update(&mut self, report: &mut Report) -> Result<()> {
        let Self { config, explorer, rollout, .. } = self;
        let dim = explorer.world.obs_dim();
        let rows = rollout.order.len() / config.num_minibatches;
        // Not from the order of the last roll-out, which a checkpoint would have to keep.
        rollout.order.iter_mut().zip(0..).for_each(|(place, i)| *place = i);
        for _ in 0..config.num_epochs {
            explorer.batches.shuffle(&mut rollout.order);
            let Rollout { obs, actions, returns, order, .. } = &*rollout;
            for minibatch in order.chunks_exact(rows) {
                report.stop.check()?;
                let Explorer { learning, pool, .. } = &mut *explorer;
                let means = learning.gradient(pool, rows, Loss::HalfSquare, |tile, scratch, _, _| {
                    let TileScratch { rows, actions: taken, targets, .. } = scratch;
                    for (i, from) in minibatch[tile].iter().map(|from| *from as usize).enumerate() {
                        rows[i * dim..][..dim].copy_from_slice(&obs[from * dim..][..dim]);
                        taken[i] = actions[from];
                        targets[i] = returns[from];
                    }
                });
                let learning_rate = self.learning_rate.at(learning.optimizer.steps);
                explorer.descend(means, config.max_grad_norm, learning_rate, report)?;
            }
        }
        explorer.check_weights()
    }
}

/// Writes the values of what the last step led to: of the present, or of the last observation before a new episode.
fn value_next(explorer: &mut Explorer, next_values: &mut [f32], cut: &mut Cut) {
    let Explorer { world, best, .. } = &*explorer;
    let (dim, flags) = (world.obs_dim(), world.end_mask(0).len());
    let was_cut = |world: &World, env: usize| world.truncated()[env] && !world.terminated()[env];
    let mut cuts = 0;
    for (env, value) in next_values.iter_mut().enumerate() {
        if was_cut(world, env) {
            cut.obs[cuts * dim..][..dim].copy_from_slice(world.end_obs(env));
            cut.masks[cuts * flags..][..flags].copy_from_slice(world.end_mask(env));
            cuts += 1;
        }
        *value = if world.terminated()[env] { 0.0 } else { best[env].value };
    }
    if cuts > 0 {
        explorer.judge(&cut.obs[..cuts * dim], &cut.masks[..cuts * flags], &mut cut.best[..cuts]);
        let ends = (0..next_values.len()).filter(|env| was_cut(&explorer.world, *env));
        for (env, best) in ends.zip(&cut.best) {
            next_values[env] = best.value;
        }
    }
}

impl Learner for Pqn {
    fn global_step(&self) -> u64 {
        self.explorer.global_step
    }

    fn unit(&self) -> u64 {
        self.rollout.order.len() as u64
    }

    fn advance(&mut self, _last_step: u64, report: &mut Report) -> Result<()> {
        self.roll_out(report)?;
        let mut lap = report.stages.begin();
        self.update(report)?;
        report.stages.lap(Stage::Learn, &mut lap);
        Ok(())
    }

    fn relearn(&mut self, report: &mut Report) -> Result<u64> {
        self.update(report)?;
        Ok((self.rollout.order.len() * self.config.num_epochs) as u64)
    }

    fn greedy(&self) -> Box<dyn Greedy> {
        self.explorer.greedy()
    }

    fn save(&self) -> State {
        self.explorer.save()
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.explorer.restore(state)
    }

    fn restore_policy(&mut self, state: &State) -> Result<()> {
        self.explorer.learning.restore_policy(state)
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::batch::Batch;

    use super::*;
    use crate::agents::cut_short::{self, Lie, cart_pole, learnt_after, tic_tac_toe};
    use crate::agents::q_network::Learning;
    use crate::error::Error;
    use crate::world::Sight;

    fn small() -> PqnConfig {
        PqnConfig { rollout_steps: 20, num_minibatches: 2, num_epochs: 2, hidden_size: 16, ..PqnConfig::default() }
    }

    fn on(config: &PqnConfig, batch: Box<dyn Batch>, steps_per_env: u64, threads: usize) -> Pqn {
        let world = World::new(batch, Sight { frames: config.frame_stack_n.max(1), ..Sight::PRESENT }).unwrap();
        Pqn::new(config.clone(), world, steps_per_env, 3, Arc::new(Pool::new(threads))).unwrap()
    }

    fn learner(config: &PqnConfig, num_envs: usize, threads: usize) -> Pqn {
        on(config, cart_pole(num_envs), 400, threads)
    }

    #[test]
    fn the_published_gene_circuit_schedules() {
        let config = PqnConfig {
            rollout_steps: 4,
            num_epochs: 8,
            num_minibatches: 8,
            lr_decay_fraction: Some(0.602),
            epsilon_decay_fraction: Some(0.237),
            ..PqnConfig::default()
        };
        let length = Length { num_envs: 1024, steps_per_env: 5_040 };
        // int(0.602 * 5040 / 4 * 8 * 8) and int(0.237 * 5040)
        assert_eq!(config.learning_rate(length), Schedule::Linear { start: 1e-4, end: 0.0, duration: 48_545 });
        assert_eq!(config.epsilon(length), Schedule::Linear { start: 1.0, end: 0.2, duration: 1_194 });
        let constant = PqnConfig { lr_decay_fraction: None, ..config };
        assert_eq!(constant.learning_rate(length), Schedule::Constant(1e-4));
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
        let default = PqnConfig::default;
        let message =
            |config: PqnConfig| config.check(Length { num_envs: 1, steps_per_env: 10 }).unwrap_err().to_string();
        assert_eq!(
            message(PqnConfig { lr_decay_steps: Some(10), ..default() }),
            "agent.lr_decay_fraction and agent.lr_decay_steps are both given: give one of them"
        );
        assert_eq!(message(PqnConfig { gamma: 1.5, ..default() }), "agent.gamma is 1.5, but must be from 0 to 1");
        assert!(message(PqnConfig { rollout_steps: 2, ..default() }).starts_with("agent.num_minibatches is 16, but"));
        assert!(message(PqnConfig { reward_scale: f64::NAN, ..default() }).starts_with("agent.reward_scale is nan"));
        let refused = |config: PqnConfig| {
            let world = World::new(cart_pole(1), Sight::PRESENT).unwrap();
            Pqn::new(config, world, 1, 3, Arc::new(Pool::new(1))).unwrap_err().to_string()
        };
        for (config, key) in [
            (PqnConfig { hidden_size: usize::MAX, ..default() }, "agent.hidden_size"),
            (PqnConfig { num_layers: usize::MAX, ..default() }, "agent.num_layers"),
            (PqnConfig { rollout_steps: (1 << 32) - 16, frame_stack_n: 0, ..default() }, "run.rollout_steps"),
        ] {
            let found = refused(config);
            assert!(found.starts_with(key) && found.contains("would take"), "{found}");
        }
    }

    #[test]
    fn any_number_of_threads_learns_the_same_bits() {
        // Minibatches of several tiles.
        let learnt = |threads| learnt_after(&mut learner(&small(), 64, threads), 2_560);
        let alone = learnt(1);
        assert!([2, 3].iter().all(|threads| learnt(*threads) == alone));
    }

    #[test]
    fn restored_equals_uninterrupted() {
        let config = PqnConfig { frame_stack_n: 3, ..small() };
        let mut whole = learner(&config, 8, 1);
        let half = learnt_after(&mut whole, 480);
        let end = learnt_after(&mut whole, 960);
        let mut other = learner(&config, 8, 2);
        other.restore(&half).unwrap();
        assert_eq!(other.global_step(), 480);
        assert_eq!(learnt_after(&mut other, 960), end);
        let mut narrow = learner(&PqnConfig { hidden_size: 8, ..config }, 8, 1);
        assert!(narrow.restore(&half).unwrap_err().to_string().contains("network.0.weight"));
    }

    #[test]
    fn a_time_limit_is_not_the_end() {
        let value = |lie: Lie| {
            let config = PqnConfig {
                rollout_steps: 20,
                num_minibatches: 2,
                num_epochs: 2,
                hidden_size: 16,
                num_layers: 1,
                learning_rate: 3e-3,
                gamma: 0.9,
                lambda: 0.5,
                reward_scale: 1.0,
                ..PqnConfig::default()
            };
            let mut learner = on(&config, cut_short::batch(4, lie), 24_000, 1);
            learnt_after(&mut learner, 4 * 24_000);
            let Learning { network, parameters, .. } = &learner.explorer.learning;
            cut_short::value(network, parameters)
        };
        cut_short::check(value);
    }

    #[test]
    fn only_legal_actions_are_taken() {
        let mut learner = on(&small(), tic_tac_toe(6), 400, 1);
        // An illegal move would be an error of the environment.
        learnt_after(&mut learner, 1_920);
    }

    /// Cells are worth their numbers, so a game that was cut off is worth the last cell that was free then.
    #[test]
    fn the_value_behind_a_cut_is_that_of_a_legal_action() {
        let mut learner = on(&small(), tic_tac_toe(6), 400, 1);
        let parameters = &mut learner.explorer.learning.parameters;
        let biases = parameters.len() - 9;
        let last_layer = biases - 9 * 16;
        parameters[last_layer..].iter_mut().enumerate().for_each(|(i, weight)| {
            *weight = (i + last_layer).checked_sub(biases).map_or(0.0, |cell| cell as f32);
        });
        let (mut actions, mut values, mut cuts) = ([0; 6], [0.0; 6], 0);
        for _ in 0..30 {
            learner.explorer.look();
            learner.explorer.choose(1.0, &mut actions);
            learner.explorer.step(&actions, &mut Report::default()).unwrap();
            learner.explorer.look();
            value_next(&mut learner.explorer, &mut values, &mut learner.cut);
            let world = &learner.explorer.world;
            for (env, value) in values.iter().enumerate() {
                let is_cut = world.truncated()[env] && !world.terminated()[env];
                let seen = if is_cut { world.end_obs(env) } else { &world.obs()[env * world.obs_dim()..] };
                let last = (0..9).rev().find(|cell| seen[*cell] == 0.0).unwrap() as f32;
                assert_eq!(*value, if world.terminated()[env] { 0.0 } else { last });
                cuts += usize::from(is_cut);
            }
        }
        assert!(cuts > 10, "{cuts}");
    }

    #[test]
    fn a_loss_that_is_no_number_stops_before_it_is_kept() {
        let mut learner = learner(&small(), 8, 1);
        learner.explorer.learning.parameters[0] = f32::NAN;
        let before = learner.explorer.learning.optimizer.clone();
        let error = learner.advance(160, &mut Report::default()).unwrap_err();
        assert!(matches!(error, Error::NotFinite { global_step: 160, .. }), "{error}");
        assert_eq!(learner.explorer.learning.optimizer.first, before.first);
        assert_eq!(learner.explorer.learning.optimizer.steps, 0);
    }
}
