//! Proximal policy optimisation (Schulman et al. 2017) with the conventions of CleanRL, and with true ends: a time
//! limit is bootstrapped from the value of the observation it cut off.
//!
//! A unit of work is a roll-out of `rollout_steps` steps in all environments, then `num_epochs` passes over it in
//! minibatches, each a step of Adam on actor and critic together.
//!
//! | module | owns |
//! |---|---|
//! | `loss` | the loss of a transition and its slopes |
//! | `policy` | actor and critic, how they act, the gradient over a tile of rows |
//! | `normalize` | running means and variances |

pub mod loss;
mod normalize;
mod policy;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use phalanx_core::batch::{Actions, ActionsMut};
use phalanx_core::pool::{Pool, Rows};

use self::loss::{Coefficients, Sums, explained_variance, normaliser};
use self::normalize::{Moments, RewardScale};
use self::policy::{Acted, Head, Judged, Policy, Samples, Scratch, record_len};
use super::choices::{Initialiser, OptimizerKind};
use super::limits::{Rollouts, network_bytes};
use crate::error::{Error, Result};
use crate::learner::{Greedy, Learner, Length, Report};
use crate::memory::Bytes;
use crate::nn::parallel::{Shares, TILE};
use crate::nn::{Optimizer, Schedule, clip_norm};
use crate::random::{Purpose, Random};
use crate::returns::Steps;
use crate::run::settings::{
    Complaint, Section, any, at_least_one, check_keys, epochs, layers, not_negative, optional, positive, section, share,
};
use crate::stages::Stage;
use crate::state::State;
use crate::world::World;

section! {
    /// Settings of proximal policy optimisation. Defaults: CleanRL's `ppo.py`.
    PpoConfig in "agent" {
        /// The learning rate at the start. 2.5e-4.
        learning_rate: f64 = 2.5e-4, positive;
        /// Whether the learning rate falls linearly to 0, by update. True.
        anneal_lr: bool = true, any;
        /// The optimiser's ε. 1e-5.
        adam_eps: f64 = 1e-5, positive;
        /// The discount. 0.99.
        gamma: f64 = 0.99, share;
        /// λ of the generalised advantages. 0.95.
        gae_lambda: f64 = 0.95, share;
        /// Steps of each environment in a roll-out. 128.
        rollout_steps in "run": usize = 128, at_least_one;
        /// Parts a roll-out is cut into for the updates of an epoch. 4.
        num_minibatches: usize = 4, at_least_one;
        /// Times a roll-out is learnt from. 4.
        num_epochs: usize = 4, epochs;
        /// How far the ratio of probabilities counts, and a value may move if `clip_vloss`. 0.2.
        clip_coef: f64 = 0.2, positive;
        /// Whether `clip_coef` falls linearly to 0, by update. False.
        anneal_clip: bool = false, any;
        /// Whether advantages are normalised in each minibatch. True.
        norm_adv: bool = true, any;
        /// Whether the value loss is clipped. True.
        clip_vloss: bool = true, any;
        /// Weight of the entropy. 0.01.
        ent_coef: f64 = 0.01, not_negative;
        /// Weight of the value loss. 0.5.
        vf_coef: f64 = 0.5, not_negative;
        /// Largest norm of a gradient. 0.5.
        max_grad_norm: f64 = 0.5, positive;
        /// Divergence beyond which the epochs of an update stop. None.
        target_kl: Option<f64> = None, optional(positive);
        /// Sizes of the hidden tanh layers, of actor and critic each. [64, 64].
        hidden: Vec<usize> = vec![64, 64], layers;
        /// How weights start. `orthogonal`; the actor's last layer then begins a hundredth as large as the critic's.
        initialiser: Initialiser = Initialiser::Orthogonal, any;
        /// How gradients become steps. `adam`.
        optimizer: OptimizerKind = OptimizerKind::Adam, any;
        /// Part of a weight that `adamw` takes away per unit of learning rate. None: 0.01.
        weight_decay: Option<f64> = None, optional(not_negative);
        /// Logarithm of the standard deviation of continuous actions at the start. 0.
        log_std_init: f64 = 0.0, log_deviation;
        /// Whether continuous actions are brought into their bounds by tanh instead of by clipping. False.
        squash: bool = false, any;
        /// Observations that are stacked, the newest last; 0 and 1 are no stack. 0.
        frame_stack_n: usize = 0, any;
        /// Whether each observation comes with the action that led to it. False.
        frame_actions: bool = false, any;
        /// What rewards are multiplied by before learning. 1.
        reward_scale: f64 = 1.0, positive;
        /// Whether observations are normalised by their running mean and variance. False.
        norm_obs: bool = false, any;
        /// Whether rewards are divided by the running deviation of discounted returns. False.
        norm_reward: bool = false, any;
    }
}

fn log_deviation(value: &f64) -> Complaint {
    (value.abs() > 20.0).then_some("from -20 to 20")
}

impl PpoConfig {
    /// Refuses settings that cannot work for a run of this length.
    pub fn check(&self, length: Length) -> Result<()> {
        check_keys(self)?;
        self.optimizer.rule(self.weight_decay)?;
        let minibatch = self.rollouts(length)?.minibatch;
        if minibatch == 1 && self.norm_adv {
            let why = format!(
                "is {}, but must be smaller: the normalised advantage of a single transition is 0 (or \
                 agent.norm_adv = false)",
                self.num_minibatches
            );
            return Err(Error::setting("agent.num_minibatches", why));
        }
        Ok(())
    }

    fn rollouts(&self, length: Length) -> Result<Rollouts> {
        Rollouts::new(length, self.rollout_steps, self.num_minibatches)
    }
}

/// What happened in a roll-out: a row for each step of each environment, step after step.
#[derive(Debug)]
struct Rollout {
    /// Observations as the networks see them.
    obs: Vec<f32>,
    masks: Vec<bool>,
    actions: Vec<f32>,
    log_probs: Vec<f32>,
    values: Vec<f32>,
    rewards: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    next_values: Vec<f32>,
    advantages: Vec<f32>,
    returns: Vec<f32>,
    /// All that an update needs of a row, together; see [`Samples`].
    records: Vec<f32>,
}

impl Rollout {
    fn new(rows: usize, dim: usize, flags: usize, components: usize) -> Self {
        Self {
            obs: vec![0.0; rows * dim],
            masks: vec![true; rows * flags],
            actions: vec![0.0; rows * components],
            log_probs: vec![0.0; rows],
            values: vec![0.0; rows],
            rewards: vec![0.0; rows],
            terminated: vec![false; rows],
            truncated: vec![false; rows],
            next_values: vec![0.0; rows],
            advantages: vec![0.0; rows],
            returns: vec![0.0; rows],
            records: vec![0.0; rows * record_len(dim, components)],
        }
    }

    /// What it takes, and the order of its rows.
    fn bytes(rows: usize, dim: usize, flags: usize, components: usize) -> Bytes {
        let reals = [dim, components, 6, record_len(dim, components)];
        let bytes = Bytes::of::<u32>(&[rows]).and(Bytes::of::<bool>(&[rows, flags + 2]));
        reals.into_iter().fold(bytes, |bytes, width| bytes.and(Bytes::of::<f32>(&[rows, width])))
    }
}

/// PPO in training.
#[derive(Debug)]
pub struct Ppo {
    config: PpoConfig,
    /// By updates, as is the clip.
    learning_rate: Schedule,
    clip: Schedule,
    policy: Policy,
    parameters: Vec<f32>,
    gradients: Vec<f32>,
    optimizer: Optimizer<f32>,
    world: World,
    pool: Arc<Pool>,
    exploration: Random,
    batches: Random,
    obs_moments: Option<Moments>,
    reward_scale: Option<RewardScale>,
    rollout: Rollout,
    shares: Shares<f32, Scratch<f32>>,
    /// One for each thread that acts.
    actors: Vec<Scratch<f32>>,
    /// Actions as the environments take them.
    choices: Vec<i32>,
    bounded: Vec<f32>,
    /// Observations that the critic alone is asked about, and its answers.
    ends: Vec<f32>,
    end_values: Vec<f32>,
    /// Rows of the roll-out in the order in which they are learnt from.
    order: Vec<u32>,
    global_step: u64,
    updates: u64,
}

impl Ppo {
    /// A learner with first weights of this seed on these environments, for a run of so many steps of each. The
    /// pool's threads share the work.
    pub fn new(config: PpoConfig, world: World, steps_per_env: u64, seed: u64, pool: Arc<Pool>) -> Result<Self> {
        let num_envs = world.num_envs();
        let length = Length { num_envs, steps_per_env };
        config.check(length)?;
        let Rollouts { rows, minibatch, count } = config.rollouts(length)?;
        let head = match world.bounds() {
            Some((low, high)) => Head::gaussian(low, high, config.squash)?,
            None => Head::Discrete(world.choices()?),
        };
        let dim = world.obs_dim();
        let widths = |outputs: usize| [&[dim], config.hidden.as_slice(), &[outputs]].concat();
        let networks = network_bytes(widths(head.outputs())).and(network_bytes(widths(1)));
        networks.require("agent.hidden", format!("{:?}", config.hidden), "the networks")?;
        let what = format!("a roll-out of run.num_envs = {num_envs} environments");
        let (flags, components) = (world.masks().len() / num_envs, head.components());
        Rollout::bytes(rows, dim, flags, components).require("run.rollout_steps", config.rollout_steps, &what)?;
        let policy = Policy::new(dim, &config.hidden, head);
        let parameters = policy.draw(config.initialiser, config.log_std_init, &mut Random::new(seed, Purpose::Weights));
        let rollout = Rollout::new(rows, dim, flags, components);
        let falling = |start: f64, falls: bool| match falls {
            true => Schedule::Linear { start, end: 0.0, duration: count },
            false => Schedule::Constant(start),
        };
        let is_discrete = matches!(policy.head, Head::Discrete(_));
        let scratch = || Scratch::new(&policy, TILE);
        Ok(Self {
            gradients: vec![0.0; parameters.len()],
            optimizer: Optimizer::new(config.optimizer.rule(config.weight_decay)?, config.adam_eps, parameters.len()),
            exploration: Random::new(seed, Purpose::Exploration),
            batches: Random::new(seed, Purpose::Batches),
            learning_rate: falling(config.learning_rate, config.anneal_lr),
            clip: falling(config.clip_coef, config.anneal_clip),
            obs_moments: config.norm_obs.then(|| {
                let mut moments = Moments::new(dim);
                moments.update(world.obs());
                moments
            }),
            reward_scale: config.norm_reward.then(|| RewardScale::new(num_envs, config.gamma)),
            rollout,
            shares: Shares::new(minibatch, parameters.len(), scratch),
            actors: (0..pool.threads().min(num_envs.div_ceil(TILE))).map(|_| scratch()).collect(),
            choices: vec![0; if is_discrete { num_envs } else { 0 }],
            bounded: vec![0.0; if is_discrete { 0 } else { num_envs * components }],
            ends: vec![0.0; num_envs * dim],
            end_values: vec![0.0; num_envs],
            order: (0..rows as u32).collect(),
            global_step: 0,
            updates: 0,
            config,
            policy,
            parameters,
            world,
            pool,
        })
    }

    /// What the critic thinks of observations (rows as the environments give them).
    pub fn values(&self, obs: &[f32]) -> Vec<f32> {
        let dim = self.world.obs_dim();
        let mut scratch = Scratch::new(&self.policy, TILE);
        let mut seen = obs.to_vec();
        if let Some(moments) = &self.obs_moments {
            moments.apply(obs, &mut seen);
        }
        let mut values = vec![0.0; obs.len() / dim];
        for (rows, values) in seen.chunks(TILE * dim).zip(values.chunks_mut(TILE)) {
            self.policy.values(&self.parameters, rows, &mut scratch, values);
        }
        values
    }

    /// Makes a roll-out: the first half of a unit, by itself for measurements.
    pub fn roll_out(&mut self, report: &mut Report) -> Result<()> {
        let num_envs = self.world.num_envs();
        for step in 0..self.config.rollout_steps {
            report.stop.check()?;
            let rows = step * num_envs..(step + 1) * num_envs;
            let mut lap = report.stages.begin();
            self.act(rows.clone());
            report.stages.lap(Stage::Act, &mut lap);
            let components = self.policy.head.components();
            let drawn = &self.rollout.actions[rows.start * components..rows.end * components];
            if self.choices.is_empty() {
                self.policy.head.within_bounds(drawn, &mut self.bounded);
                self.world.step(Actions::Continuous(&self.bounded), report)?;
            } else {
                self.choices.iter_mut().zip(drawn).for_each(|(choice, drawn)| *choice = *drawn as i32);
                self.world.step(Actions::Discrete(&self.choices), report)?;
            }
            report.stages.lap(Stage::Step, &mut lap);
            self.global_step += num_envs as u64;
            self.take_in(rows);
            report.stages.lap(Stage::Store, &mut lap);
        }
        let mut lap = report.stages.begin();
        self.fill_next_values();
        self.judge();
        report.stages.lap(Stage::Learn, &mut lap);
        Ok(())
    }

    /// Sees the observations of all environments, and draws actions for the rows of a step.
    fn act(&mut self, rows: std::ops::Range<usize>) {
        let Self { policy, parameters, world, rollout, .. } = self;
        let (num_envs, dim, components) = (rows.len(), world.obs_dim(), policy.head.components());
        let obs = &mut rollout.obs[rows.start * dim..rows.end * dim];
        match &self.obs_moments {
            Some(moments) => moments.apply(world.obs(), obs),
            None => obs.copy_from_slice(world.obs()),
        }
        let flags = world.masks().len() / num_envs;
        rollout.masks[rows.start * flags..rows.end * flags].copy_from_slice(world.masks());
        let (obs, masks) = (&*obs, world.masks());
        let words = policy.head.words();
        let stream = &self.exploration;
        let first_word = stream.position();
        let (groups, share) = shares_of(num_envs, self.actors.len());
        let outputs = (
            Rows::new(&mut rollout.actions[rows.start * components..rows.end * components], share * components),
            Rows::new(&mut rollout.log_probs[rows.clone()], share),
            Rows::new(&mut rollout.values[rows], share),
        );
        // Tiles of rows and their random numbers do not depend on how many threads there are.
        self.pool.for_each(groups, 1, (Rows::new(&mut self.actors, 1), outputs), |group, (scratch, outputs)| {
            let (actions, log_probs, values) = outputs;
            let tiles = actions.chunks_mut(TILE * components).zip(log_probs.chunks_mut(TILE));
            for (i, ((actions, log_probs), values)) in tiles.zip(values.chunks_mut(TILE)).enumerate() {
                let first = group.start * share + i * TILE;
                let count = values.len();
                policy.act(
                    parameters,
                    &obs[first * dim..][..count * dim],
                    &masks[first * flags..][..count * flags],
                    &mut stream.clone().at(first_word + first as u64 * words),
                    &mut scratch[0],
                    Acted { actions, log_probs, values },
                );
            }
        });
        let position = first_word + num_envs as u64 * words;
        self.exploration = self.exploration.clone().at(position);
    }

    /// Keeps what a step gave.
    fn take_in(&mut self, rows: std::ops::Range<usize>) {
        let Self { world, rollout, .. } = self;
        rollout.terminated[rows.clone()].copy_from_slice(world.terminated());
        rollout.truncated[rows.clone()].copy_from_slice(world.truncated());
        let rewards = &mut rollout.rewards[rows.clone()];
        let scale = self.config.reward_scale as f32;
        rewards.iter_mut().zip(world.rewards()).for_each(|(reward, given)| *reward = scale * given);
        if let Some(scale) = &mut self.reward_scale {
            scale.apply(rewards, |env| world.terminated()[env] | world.truncated()[env]);
        }
        if let Some(moments) = &mut self.obs_moments {
            moments.update(world.obs());
        }
        // What would have followed where the limit cut an episode off.
        let dim = world.obs_dim();
        let mut count = 0;
        for env in (0..rows.len()).filter(is_cut_in(world)) {
            let row = &mut self.ends[count * dim..][..dim];
            match &self.obs_moments {
                Some(moments) => moments.apply(world.end_obs(env), row),
                None => row.copy_from_slice(world.end_obs(env)),
            }
            count += 1;
        }
        if count > 0 {
            self.value_ends(count);
            for (env, value) in (0..rows.len()).filter(is_cut_in(&self.world)).zip(&self.end_values) {
                self.rollout.next_values[rows.start + env] = *value;
            }
        }
    }

    /// Values of the next states, which the next step has found out, except where an episode was cut off.
    fn fill_next_values(&mut self) {
        let num_envs = self.world.num_envs();
        match &self.obs_moments {
            Some(moments) => moments.apply(self.world.obs(), &mut self.ends),
            None => self.ends.copy_from_slice(self.world.obs()),
        }
        self.value_ends(num_envs);
        let Rollout { values, truncated, next_values, .. } = &mut self.rollout;
        let following = values[num_envs..].iter().chain(&self.end_values);
        for ((next, truncated), following) in next_values.iter_mut().zip(truncated).zip(following) {
            *next = if *truncated { *next } else { *following };
        }
    }

    /// Asks the critic about the first `count` rows of `ends`.
    fn value_ends(&mut self, count: usize) {
        let Self { policy, parameters, ends, end_values, .. } = self;
        let dim = self.world.obs_dim();
        let (groups, share) = shares_of(count, self.actors.len());
        let parts = (Rows::new(&mut self.actors, 1), Rows::new(&mut end_values[..count], share));
        self.pool.for_each(groups, 1, parts, |group, (scratch, values)| {
            for (i, values) in values.chunks_mut(TILE).enumerate() {
                let first = group.start * share + i * TILE;
                policy.values(parameters, &ends[first * dim..][..values.len() * dim], &mut scratch[0], values);
            }
        });
    }

    /// Finds out what the actions of the roll-out were worth.
    fn judge(&mut self) {
        let Rollout { values, rewards, terminated, truncated, next_values, advantages, returns, .. } =
            &mut self.rollout;
        let steps = Steps {
            num_envs: self.world.num_envs(),
            rewards,
            next_values,
            terminated,
            truncated,
            gamma: self.config.gamma as f32,
            lambda: self.config.gae_lambda as f32,
        };
        steps.advantages(values, advantages);
        for ((returns, advantage), value) in returns.iter_mut().zip(&*advantages).zip(&*values) {
            *returns = advantage + value;
        }
        self.record();
    }

    fn record(&mut self) {
        let Rollout { obs, actions, log_probs, values, advantages, returns, records, .. } = &mut self.rollout;
        let (policy, dim, components) = (&self.policy, self.world.obs_dim(), self.policy.head.components());
        let len = policy.record_len();
        self.pool.for_each(log_probs.len(), RECORDS, Rows::new(records, len), |rows, records: &mut [f32]| {
            for (i, record) in rows.zip(records.chunks_exact_mut(len)) {
                let judged =
                    Judged { log_prob: log_probs[i], value: values[i], advantage: advantages[i], returns: returns[i] };
                let (obs, action) = (&obs[i * dim..][..dim], &actions[i * components..][..components]);
                policy.write_record(obs, action, judged, record);
            }
        });
    }

    /// Learns from the last roll-out, which can be learnt from again: the second half of a unit, by itself for
    /// measurements. Answers how many rows were learnt from, a row once for each epoch.
    pub fn learn(&mut self, report: &mut Report) -> Result<u64> {
        let (learning_rate, clip) = (self.learning_rate.at(self.updates), self.clip.at(self.updates));
        let size = self.order.len() / self.config.num_minibatches;
        let (mut sums, mut rows) = (Sums::default(), 0);
        // From the same order in each update, which so need not be saved.
        self.order.iter_mut().zip(0..).for_each(|(row, i)| *row = i);
        for _ in 0..self.config.num_epochs {
            self.batches.shuffle(&mut self.order);
            let mut kl = 0.0;
            for start in (0..self.order.len()).step_by(size) {
                report.stop.check()?;
                let found = self.descend(start..start + size, learning_rate, clip)?;
                kl = found.kl / size as f64;
                sums.add(&found);
                rows += size;
            }
            if self.config.target_kl.is_some_and(|target| kl > target) {
                break;
            }
        }
        Error::check_weights(&self.parameters, self.global_step)?;
        self.updates += 1;
        let means = sums.per(rows as f64);
        report.add("charts/learning_rate", learning_rate);
        report.add(
            "losses/loss",
            means.policy - self.config.ent_coef * means.entropy + self.config.vf_coef * means.value,
        );
        report.add("losses/value_loss", means.value);
        report.add("losses/policy_loss", means.policy);
        report.add("losses/entropy", means.entropy);
        report.add("losses/old_approx_kl", means.old_kl);
        report.add("losses/approx_kl", means.kl);
        report.add("losses/clipfrac", means.clipped);
        report.add("losses/explained_variance", explained_variance(&self.rollout.values, &self.rollout.returns));
        Ok(rows as u64)
    }

    /// One step of the optimiser for a part of the order; answers sums over its rows.
    fn descend(&mut self, part: std::ops::Range<usize>, learning_rate: f64, clip: f64) -> Result<Sums> {
        let Self { policy, parameters, rollout, order, .. } = self;
        let (config, picked) = (&self.config, &order[part]);
        let advantages = picked.iter().map(|&i| f64::from(rollout.advantages[i as usize]));
        let (mean, per_spread) = if config.norm_adv { normaliser(advantages) } else { (0.0, 1.0) };
        let coefficients = Coefficients {
            mean: mean as f32,
            per_spread: per_spread as f32,
            clip: clip as f32,
            clip_values: config.clip_vloss,
            entropy: config.ent_coef as f32,
            value: config.vf_coef as f32,
            per_row: (1.0 / picked.len() as f64) as f32,
        };
        let samples = Samples { records: &rollout.records, masks: &rollout.masks };
        let mut sums = Sums::default();
        self.shares.gradient(
            &self.pool,
            picked.len(),
            &mut self.gradients,
            |tile, share| {
                let gradients = &mut share.gradients;
                policy.add_gradient(parameters, &samples, &picked[tile], &coefficients, &mut share.scratch, gradients);
            },
            |scratch| sums.add(&std::mem::take(&mut scratch.sums)),
        );
        let global_step = self.global_step;
        let finite = |what: &str, value: f64| Error::check_finite(what, value, global_step);
        let rows = picked.len() as f64;
        finite("the policy loss", sums.policy / rows)?;
        finite("the value loss", sums.value / rows)?;
        finite("the entropy", sums.entropy / rows)?;
        // If any gradient is no number, neither is their length: the weights are not touched.
        finite("the gradient's length", clip_norm(&mut self.gradients, config.max_grad_norm))?;
        self.optimizer.update(parameters, &self.gradients, learning_rate);
        Ok(sums)
    }
}

/// Records that a thread writes at a time.
const RECORDS: usize = 4096;

/// Where the last step cut off an episode.
fn is_cut_in(world: &World) -> impl Fn(&usize) -> bool {
    |env| world.truncated()[*env] & !world.terminated()[*env]
}

/// How many threads get rows, and how many each: whole tiles.
fn shares_of(rows: usize, threads: usize) -> (usize, usize) {
    let share = rows.div_ceil(TILE).div_ceil(threads) * TILE;
    (rows.div_ceil(share), share)
}

impl Learner for Ppo {
    fn global_step(&self) -> u64 {
        self.global_step
    }

    fn unit(&self) -> u64 {
        self.order.len() as u64
    }

    fn advance(&mut self, _last_step: u64, report: &mut Report) -> Result<()> {
        self.roll_out(report)?;
        let mut lap = report.stages.begin();
        self.learn(report)?;
        report.stages.lap(Stage::Learn, &mut lap);
        Ok(())
    }

    fn relearn(&mut self, report: &mut Report) -> Result<u64> {
        self.learn(report)
    }

    fn greedy(&self) -> Box<dyn Greedy> {
        Box::new(Best {
            scratch: Scratch::new(&self.policy, TILE),
            policy: self.policy.clone(),
            parameters: self.parameters.clone(),
            obs_moments: self.obs_moments.clone(),
            obs: vec![0.0; TILE * self.world.obs_dim()],
            drawn: vec![0.0; TILE * self.policy.head.components()],
        })
    }

    fn save(&self) -> State {
        let mut state = self.policy.save(&self.parameters);
        state.put_state("adam.first", self.policy.save(&self.optimizer.first));
        state.put_state("adam.second", self.policy.save(&self.optimizer.second));
        state.put_value("adam.steps", &self.optimizer.steps);
        state.put_value("global_step", &self.global_step);
        state.put_value("updates", &self.updates);
        state.put_value("exploration", &self.exploration.position());
        state.put_value("batches", &self.batches.position());
        if let Some(moments) = &self.obs_moments {
            state.put_state("observations", moments.save());
        }
        if let Some(scale) = &self.reward_scale {
            state.put_state("rewards", scale.save());
        }
        state.put_state("world", self.world.save());
        state
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        let parameters = self.policy.restore(state)?;
        let first = self.policy.restore(&state.state("adam.first"))?;
        let second = self.policy.restore(&state.state("adam.second"))?;
        let steps = state.value("adam.steps")?;
        let (global_step, updates) = (state.value("global_step")?, state.value("updates")?);
        let (exploration, batches) = (state.value("exploration")?, state.value("batches")?);
        if let Some(moments) = &mut self.obs_moments {
            moments.restore(&state.state("observations"))?;
        }
        if let Some(scale) = &mut self.reward_scale {
            scale.restore(&state.state("rewards"))?;
        }
        self.world.restore(&state.state("world"))?;
        self.parameters = parameters;
        self.optimizer = Optimizer { first, second, steps, ..self.optimizer.clone() };
        (self.global_step, self.updates) = (global_step, updates);
        self.exploration = self.exploration.clone().at(exploration);
        self.batches = self.batches.clone().at(batches);
        Ok(())
    }

    fn restore_policy(&mut self, state: &State) -> Result<()> {
        let parameters = self.policy.restore(state)?;
        if let Some(moments) = &mut self.obs_moments {
            moments.restore(&state.state("observations"))?;
        }
        self.parameters = parameters;
        Ok(())
    }
}

/// The most probable choices, or the means.
#[derive(Debug)]
struct Best {
    policy: Policy,
    parameters: Vec<f32>,
    obs_moments: Option<Moments>,
    scratch: Scratch<f32>,
    obs: Vec<f32>,
    drawn: Vec<f32>,
}

impl Best {
    /// Calls `take` with the best actions of each tile of rows.
    fn tiles(&mut self, obs: &[f32], masks: &[bool], mut take: impl FnMut(std::ops::Range<usize>, &Head, &[f32])) {
        let components = self.policy.head.components();
        let dim = self.obs.len() / TILE;
        let flags = masks.len() / (obs.len() / dim).max(1);
        for (i, seen) in obs.chunks(TILE * dim).enumerate() {
            let (first, count) = (i * TILE, seen.len() / dim);
            let rows = match &self.obs_moments {
                Some(moments) => {
                    moments.apply(seen, &mut self.obs[..seen.len()]);
                    &self.obs[..seen.len()]
                }
                None => seen,
            };
            let masks = &masks[first * flags..][..count * flags];
            let drawn = &mut self.drawn[..count * components];
            self.policy.best(&self.parameters, rows, masks, &mut self.scratch, drawn);
            take(first * components..(first + count) * components, &self.policy.head, drawn);
        }
    }
}

impl Greedy for Best {
    fn act(&mut self, obs: &[f32], masks: &[bool], actions: ActionsMut<'_>) {
        match actions {
            ActionsMut::Discrete(choices) => self.tiles(obs, masks, |place, _, drawn| {
                choices[place].iter_mut().zip(drawn).for_each(|(choice, drawn)| *choice = *drawn as i32);
            }),
            ActionsMut::Continuous(values) => self.tiles(obs, masks, |place, head, drawn| {
                head.within_bounds(drawn, &mut values[place]);
            }),
        }
    }
}
