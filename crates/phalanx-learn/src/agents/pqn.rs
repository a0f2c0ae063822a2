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
//! observation. (Which actions were legal there is not known any more when the next episode has begun: all count.)

use std::sync::Arc;

use phalanx_core::batch::{Actions, Batch};
use phalanx_core::pool::Pool;
use serde::{Deserialize, Serialize};

use super::q_network::{
    Best, GreedyQ, Judge, Learning, Loss, QNetwork, TileScratch, check_finite, duration, explore, require,
    require_positive, require_some, require_units,
};
use crate::error::{Error, Result};
use crate::learner::{Greedy, Learner, Report};
use crate::nn::init::Init;
use crate::nn::{Layer, Optimizer, Rule, Schedule};
use crate::random::{Purpose, Random};
use crate::returns::Steps;
use crate::state::State;
use crate::world::World;

/// The settings of PQN; the defaults are a known recipe for CartPole-v1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Environments; default 32.
    pub num_envs: usize,
    /// Steps of each environment between updates; default 64.
    pub rollout_steps: usize,
    /// Steps of each environment in the whole run, which the schedules refer to; default 15,616 (244 roll-outs).
    pub steps_per_env: u64,
    /// The first learning rate; default 1e-4.
    pub learning_rate: f64,
    /// Whether the learning rate falls to 0, in a straight line; default true.
    pub anneal_lr: bool,
    /// The part of the run in which it falls; default 1, unless `lr_decay_steps` is given.
    pub lr_decay_fraction: Option<f64>,
    /// The gradient steps in which it falls; default none.
    pub lr_decay_steps: Option<u64>,
    /// The discount factor; default 0.99.
    pub gamma: f64,
    /// How much later steps count in a return; default 0.95.
    pub lambda: f64,
    /// The first probability of a random action; default 1.
    pub start_e: f64,
    /// The last probability of a random action; default 0.2.
    pub end_e: f64,
    /// The part of the run in which that probability falls; default 0.2, unless `epsilon_decay_steps` is given.
    pub epsilon_decay_fraction: Option<f64>,
    /// The steps of each environment in which it falls; default none.
    pub epsilon_decay_steps: Option<u64>,
    /// Passes over a roll-out; default 4.
    pub num_epochs: usize,
    /// Gradient steps in a pass; default 16.
    pub num_minibatches: usize,
    /// The longest gradient; default 10.
    pub max_grad_norm: f64,
    /// What rewards are multiplied by before anything is learnt from them; default 0.1.
    pub reward_scale: f64,
    /// Outputs of a hidden layer; default 256.
    pub hidden_size: usize,
    /// Hidden layers; default 2.
    pub num_layers: usize,
    /// Observations that are seen together, where 0 and 1 both mean the last one alone; default 0.
    pub frame_stack_n: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            num_envs: 32,
            rollout_steps: 64,
            steps_per_env: 15_616,
            learning_rate: 1e-4,
            anneal_lr: true,
            lr_decay_fraction: None,
            lr_decay_steps: None,
            gamma: 0.99,
            lambda: 0.95,
            start_e: 1.0,
            end_e: 0.2,
            epsilon_decay_fraction: None,
            epsilon_decay_steps: None,
            num_epochs: 4,
            num_minibatches: 16,
            max_grad_norm: 10.0,
            reward_scale: 0.1,
            hidden_size: 256,
            num_layers: 2,
            frame_stack_n: 0,
        }
    }
}

impl Config {
    /// Refuses settings that cannot work.
    pub fn validate(&self) -> Result<()> {
        require_some(&[
            ("num_envs", self.num_envs),
            ("rollout_steps", self.rollout_steps),
            ("steps_per_env", self.steps_per_env as usize),
            ("num_epochs", self.num_epochs),
            ("num_minibatches", self.num_minibatches),
            ("hidden_size", self.hidden_size),
            ("num_layers", self.num_layers),
        ])?;
        require_units(&[
            ("gamma", self.gamma),
            ("lambda", self.lambda),
            ("start_e", self.start_e),
            ("end_e", self.end_e),
        ])?;
        require_positive(&[
            ("learning_rate", self.learning_rate),
            ("max_grad_norm", self.max_grad_norm),
            ("reward_scale", self.reward_scale),
        ])?;
        let rows = self.rows_of_rollout();
        require(
            rows <= u32::MAX as usize,
            "rollout_steps",
            self.rollout_steps,
            "fewer, for a roll-out of fewer than 2^32 transitions",
        )?;
        if !rows.is_multiple_of(self.num_minibatches) {
            let why = format!(
                "is {}, which does not divide the {rows} transitions of a roll-out (agent.rollout_steps {} times \
                 agent.num_envs {}) into equal minibatches of at least 1",
                self.num_minibatches, self.rollout_steps, self.num_envs
            );
            return Err(Error::setting("agent.num_minibatches", why));
        }
        self.epsilon()?;
        self.learning_rate()?;
        Ok(())
    }

    fn rows_of_rollout(&self) -> usize {
        self.num_envs.saturating_mul(self.rollout_steps)
    }

    /// The probability of a random action, by steps of each environment.
    pub fn epsilon(&self) -> Result<Schedule> {
        let fraction = ("epsilon_decay_fraction", self.epsilon_decay_fraction, 0.2);
        let steps = ("epsilon_decay_steps", self.epsilon_decay_steps);
        let duration = duration(fraction, steps, self.steps_per_env as f64)?;
        Ok(Schedule::Linear { start: self.start_e, end: self.end_e, duration })
    }

    /// The learning rate, by gradient steps.
    pub fn learning_rate(&self) -> Result<Schedule> {
        let rollouts = self.steps_per_env as f64 / self.rollout_steps as f64;
        let all = rollouts * self.num_minibatches as f64 * self.num_epochs as f64;
        let fraction = ("lr_decay_fraction", self.lr_decay_fraction, 1.0);
        let duration = duration(fraction, ("lr_decay_steps", self.lr_decay_steps), all)?;
        Ok(match self.anneal_lr {
            true => Schedule::Linear { start: self.learning_rate, end: 0.0, duration },
            false => Schedule::Constant(self.learning_rate),
        })
    }

    /// The network for observations of so many reals and so many actions.
    pub fn network(&self, inputs: usize, choices: usize) -> QNetwork {
        let hidden = [Layer::Dense(self.hidden_size), Layer::Norm, Layer::Relu].repeat(self.num_layers);
        QNetwork::new(inputs, &hidden, choices, false)
    }
}

/// A roll-out: steps one after the other, each with all environments.
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

/// PQN in training.
pub struct Pqn {
    config: Config,
    world: World,
    pool: Arc<Pool>,
    learning: Learning,
    epsilon: Schedule,
    learning_rate: Schedule,
    exploration: Random,
    batches: Random,
    global_step: u64,
    judge: Judge,
    /// What is best to do now, in each environment.
    best: Vec<Best>,
    rollout: Rollout,
    /// The last observations of episodes that a step has cut off, one after the other, and the best actions there.
    cut_obs: Vec<f32>,
    cut_best: Vec<Best>,
}

impl std::fmt::Debug for Pqn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pqn").field("world", &self.world).field("global_step", &self.global_step).finish()
    }
}

impl Pqn {
    /// Starts to learn on the environments of a batch; updates are shared out to the threads of the pool.
    pub fn new(config: &Config, batch: Box<dyn Batch>, seed: u64, pool: Arc<Pool>) -> Result<Self> {
        config.validate()?;
        let config = config.clone();
        let num_envs = batch.num_envs();
        require(num_envs == config.num_envs, "num_envs", config.num_envs, &format!("{num_envs}, as in the batch"))?;
        let world = World::new(batch, config.frame_stack_n.max(1))?;
        let (dim, choices, rows) = (world.obs_dim(), world.choices()?, config.rows_of_rollout());
        let network = config.network(dim, choices);
        let gain = |gain| Init::Orthogonal { gain };
        let parameters = network.draw(gain(2_f64.sqrt()), gain(1.0), &mut Random::new(seed, Purpose::Weights));
        let optimizer = Optimizer::new(Rule::RAdam, 1e-8, network.parameters());
        Ok(Self {
            judge: Judge::new(&network, num_envs),
            learning: Learning::new(network, parameters, optimizer, rows / config.num_minibatches),
            epsilon: config.epsilon()?,
            learning_rate: config.learning_rate()?,
            exploration: Random::new(seed, Purpose::Exploration),
            batches: Random::new(seed, Purpose::Batches),
            global_step: 0,
            best: vec![Best::default(); num_envs],
            rollout: Rollout {
                obs: vec![0.0; rows * dim],
                actions: vec![0; rows],
                rewards: vec![0.0; rows],
                next_values: vec![0.0; rows],
                terminated: vec![false; rows],
                truncated: vec![false; rows],
                returns: vec![0.0; rows],
                order: vec![0; rows],
            },
            cut_obs: vec![0.0; num_envs * dim],
            cut_best: vec![Best::default(); num_envs],
            config,
            world,
            pool,
        })
    }

    /// Makes a roll-out, and computes its returns.
    fn roll_out(&mut self, report: &mut Report) -> Result<()> {
        let (num_envs, dim) = (self.world.num_envs(), self.world.obs_dim());
        let reward_scale = self.config.reward_scale as f32;
        self.look();
        for step in 0..self.config.rollout_steps {
            let now = step * num_envs..(step + 1) * num_envs;
            let epsilon = self.epsilon.at(self.global_step / num_envs as u64);
            report.add("charts/epsilon", epsilon);
            let rollout = &mut self.rollout;
            rollout.obs[now.start * dim..now.end * dim].copy_from_slice(self.world.obs());
            let actions = &mut rollout.actions[now.clone()];
            let choices = self.learning.network.choices();
            explore(&self.best, self.world.masks(), choices, epsilon, &mut self.exploration, actions);
            self.world.step(Actions::Discrete(actions), report)?;
            self.global_step += num_envs as u64;
            for (scaled, reward) in rollout.rewards[now.clone()].iter_mut().zip(self.world.rewards()) {
                *scaled = reward_scale * reward;
            }
            rollout.terminated[now.clone()].copy_from_slice(self.world.terminated());
            rollout.truncated[now.clone()].copy_from_slice(self.world.truncated());
            self.look();
            self.value_next(now.start);
        }
        let Rollout { rewards, next_values, terminated, truncated, returns, .. } = &mut self.rollout;
        let (gamma, lambda) = (self.config.gamma as f32, self.config.lambda as f32);
        Steps { num_envs, rewards, next_values, terminated, truncated, gamma, lambda }.lambda_returns(returns);
        Ok(())
    }

    /// Finds what is best to do now.
    fn look(&mut self) {
        let Learning { network, parameters, .. } = &self.learning;
        self.judge.best_into(&self.pool, network, parameters, self.world.obs(), self.world.masks(), &mut self.best);
    }

    /// Writes the values of what the last step led to: of the present, or of the last observation before a new episode.
    fn value_next(&mut self, first: usize) {
        let (world, dim) = (&self.world, self.world.obs_dim());
        let next_values = &mut self.rollout.next_values[first..first + world.num_envs()];
        let was_cut = |env: &usize| world.truncated()[*env] && !world.terminated()[*env];
        let mut cuts = 0;
        for (env, value) in next_values.iter_mut().enumerate() {
            if was_cut(&env) {
                self.cut_obs[cuts * dim..][..dim].copy_from_slice(world.end_obs(env));
                cuts += 1;
            }
            *value = if world.terminated()[env] { 0.0 } else { self.best[env].value };
        }
        if cuts > 0 {
            let Learning { network, parameters, .. } = &self.learning;
            let (rows, best) = (&self.cut_obs[..cuts * dim], &mut self.cut_best[..cuts]);
            self.judge.best_into(&self.pool, network, parameters, rows, &[], best);
            for (env, best) in (0..world.num_envs()).filter(was_cut).zip(best) {
                next_values[env] = best.value;
            }
        }
    }

    /// Learns from the roll-out.
    fn update(&mut self, report: &mut Report) -> Result<()> {
        let dim = self.world.obs_dim();
        let rows = self.config.rows_of_rollout() / self.config.num_minibatches;
        // Not from the order of the last roll-out, which a checkpoint would have to keep.
        self.rollout.order.iter_mut().zip(0..).for_each(|(place, i)| *place = i);
        for _ in 0..self.config.num_epochs {
            self.batches.shuffle(&mut self.rollout.order);
            let Rollout { obs, actions, returns, order, .. } = &self.rollout;
            for minibatch in order.chunks_exact(rows) {
                let means = self.learning.gradient(&self.pool, rows, Loss::HalfSquare, |tile, scratch, _, _| {
                    let TileScratch { rows, actions: taken, targets, .. } = scratch;
                    for (i, from) in minibatch[tile].iter().map(|from| *from as usize).enumerate() {
                        rows[i * dim..][..dim].copy_from_slice(&obs[from * dim..][..dim]);
                        taken[i] = actions[from];
                        targets[i] = returns[from];
                    }
                });
                check_finite("losses/td_loss", means.loss, self.global_step)?;
                let learning_rate = self.learning_rate.at(self.learning.optimizer.steps);
                self.learning.descend(self.config.max_grad_norm, learning_rate, self.global_step)?;
                report.add("losses/td_loss", means.loss);
                report.add("losses/q_values", means.values);
                report.add("charts/learning_rate", learning_rate);
            }
        }
        self.learning.check_weights(self.global_step)
    }
}

impl Learner for Pqn {
    fn global_step(&self) -> u64 {
        self.global_step
    }

    fn advance(&mut self, _last_step: u64, report: &mut Report) -> Result<()> {
        self.roll_out(report)?;
        self.update(report)
    }

    fn relearn(&mut self, report: &mut Report) -> Result<u64> {
        self.update(report)?;
        Ok((self.rollout.order.len() * self.config.num_epochs) as u64)
    }

    fn greedy(&self) -> Box<dyn Greedy> {
        let Learning { network, parameters, .. } = &self.learning;
        let frames = self.config.frame_stack_n.max(1);
        Box::new(GreedyQ::new(network.clone(), parameters.clone(), frames, Arc::clone(&self.pool)))
    }

    fn save(&self) -> State {
        let mut state = State::default();
        self.learning.save(&mut state);
        state.put_value("global_step", &self.global_step);
        state.put_value("random.exploration", &self.exploration.position());
        state.put_value("random.batches", &self.batches.position());
        state.put_state("world", self.world.save());
        state
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        let global_step = state.value("global_step")?;
        let (exploration, batches) = (state.value("random.exploration")?, state.value("random.batches")?);
        self.world.restore(&state.state("world"))?;
        self.learning.restore(state)?;
        self.exploration = self.exploration.clone().at(exploration);
        self.batches = self.batches.clone().at(batches);
        self.global_step = global_step;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::cut_short::{self, Lie, cart_pole, learnt_after, tic_tac_toe};

    fn small() -> Config {
        Config {
            num_envs: 8,
            rollout_steps: 20,
            num_minibatches: 2,
            num_epochs: 2,
            hidden_size: 16,
            steps_per_env: 400,
            ..Config::default()
        }
    }

    fn learner(config: &Config, threads: usize) -> Pqn {
        Pqn::new(config, cart_pole(config.num_envs), 3, Arc::new(Pool::new(threads))).unwrap()
    }

    #[test]
    fn the_published_gene_circuit_schedules() {
        let config = Config {
            num_envs: 1024,
            rollout_steps: 4,
            steps_per_env: 5040,
            num_epochs: 8,
            num_minibatches: 8,
            lr_decay_fraction: Some(0.602),
            epsilon_decay_fraction: Some(0.237),
            ..Config::default()
        };
        // int(0.602 * 5040 / 4 * 8 * 8) and int(0.237 * 5040)
        let lasts = |schedule| match schedule {
            Schedule::Linear { duration, .. } => duration,
            other => panic!("{other:?}"),
        };
        assert_eq!(lasts(config.learning_rate().unwrap()), 48_545);
        assert_eq!(lasts(config.epsilon().unwrap()), 1_194);
        assert_eq!(lasts(Config::default().learning_rate().unwrap()), 15_616);
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
        let message = |config: Config| config.validate().unwrap_err().to_string();
        // The published default, whose minibatches are empty.
        let empty = Config { num_envs: 1, rollout_steps: 2, num_minibatches: 4, ..Config::default() };
        let found = message(empty);
        for key in ["agent.num_minibatches is 4", "agent.rollout_steps 2", "agent.num_envs 1"] {
            assert!(found.contains(key), "{found}");
        }
        let both = Config { lr_decay_fraction: Some(0.5), lr_decay_steps: Some(10), ..Config::default() };
        assert_eq!(
            message(both),
            "agent.lr_decay_fraction is given together with agent.lr_decay_steps, but only one of them can be"
        );
        assert_eq!(message(Config { gamma: 1.5, ..Config::default() }), "agent.gamma is 1.5, but must be from 0 to 1");
        assert!(message(Config { num_envs: 0, ..Config::default() }).contains("agent.num_envs is 0"));
        assert!(message(Config { reward_scale: f64::NAN, ..Config::default() }).contains("agent.reward_scale"));
        assert!(serde_json::from_str::<Config>(r#"{"lamda": 0.5}"#).unwrap_err().to_string().contains("lamda"));
        Config::default().validate().unwrap();
    }

    #[test]
    fn any_number_of_threads_learns_the_same_bits() {
        // Minibatches of several tiles.
        let config = Config { num_envs: 64, ..small() };
        let learnt = |threads| learnt_after(&mut learner(&config, threads), 2_560);
        let alone = learnt(1);
        assert!([2, 3].iter().all(|threads| learnt(*threads) == alone));
    }

    #[test]
    fn restored_equals_uninterrupted() {
        let config = Config { frame_stack_n: 3, ..small() };
        let mut whole = learner(&config, 1);
        let half = learnt_after(&mut whole, 480);
        let end = learnt_after(&mut whole, 960);
        let mut other = learner(&config, 2);
        other.restore(&half).unwrap();
        assert_eq!(other.global_step(), 480);
        assert_eq!(learnt_after(&mut other, 960), end);
        let mut narrow = learner(&Config { hidden_size: 8, ..config }, 1);
        assert!(narrow.restore(&half).unwrap_err().to_string().contains("network.0.weight"));
    }

    #[test]
    fn a_time_limit_is_not_the_end() {
        let value = |lie: Lie| {
            let config = Config {
                num_envs: 4,
                rollout_steps: 20,
                steps_per_env: 24_000,
                num_minibatches: 2,
                num_epochs: 2,
                hidden_size: 16,
                num_layers: 1,
                learning_rate: 3e-3,
                gamma: 0.9,
                lambda: 0.5,
                reward_scale: 1.0,
                ..Config::default()
            };
            let mut learner = Pqn::new(&config, cut_short::batch(4, lie), 1, Arc::new(Pool::new(1))).unwrap();
            learnt_after(&mut learner, 4 * 24_000);
            let Learning { network, parameters, .. } = &learner.learning;
            cut_short::value(network, parameters)
        };
        cut_short::check(value);
    }

    #[test]
    fn only_legal_actions_are_taken() {
        let config = Config { num_envs: 6, ..small() };
        let mut learner = Pqn::new(&config, tic_tac_toe(6), 1, Arc::new(Pool::new(1))).unwrap();
        // An illegal move would be an error of the environment.
        learnt_after(&mut learner, 1_920);
    }

    #[test]
    fn a_loss_that_is_no_number_stops_before_it_is_kept() {
        let mut learner = learner(&small(), 1);
        learner.learning.parameters[0] = f32::NAN;
        let before = learner.learning.optimizer.clone();
        let error = learner.advance(160, &mut Report::default()).unwrap_err();
        assert!(matches!(error, Error::NotFinite { global_step: 160, .. }), "{error}");
        assert_eq!(learner.learning.optimizer.first, before.first);
        assert_eq!(learner.learning.optimizer.steps, 0);
    }
}
