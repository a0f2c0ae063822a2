//! An agent from its settings.

use std::sync::Arc;

use phalanx_core::batch::{Autoreset, BatchConfig};
use phalanx_core::policy::Policy;
use phalanx_core::pool::Pool;
use serde::de::DeserializeOwned;

use super::MakeBatch;
use crate::agents::{dqn, ppo, pqn};
use crate::classical::Classical;
use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::run::agents::{AgentConfig, DqnConfig, PpoConfig, PqnConfig, QLearningConfig, TdLoss};
use crate::run::config::Config;
use crate::run::settings::{Course, Horizon};
use crate::tabular::parallel::{Mode, ParallelSettings, parallel};
use crate::tabular::single::single;
use crate::tabular::{Schedule, Settings};
use crate::world::World;

/// The environment's own settings, as the engine takes them.
pub(super) fn settings(config: &Config) -> Vec<(String, String)> {
    config.env.settings.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Observations that the agent is shown together; DQN and PQN stack them themselves.
pub(super) fn frames(config: &Config) -> usize {
    match &config.agent {
        AgentConfig::Ppo(agent) => agent.frame_stack_n.max(1),
        _ => 1,
    }
}

/// Refuses what would be accepted in silence and not done.
fn check(config: &Config) -> Result<()> {
    if config.env.settings.get("opponent").is_some_and(|opponent| opponent == "self_play") {
        let why = "is self_play, where both sides share one agent, but must be random or minimax to train from here";
        return Err(Error::setting("env.opponent", why));
    }
    let run = &config.run;
    if run.auto_tune {
        let why = "is true, but has to be settled before training, as `phalanx train` does: give run.scan_chunk_size \
                   and run.threads instead";
        return Err(Error::setting("run.auto_tune", why));
    }
    let unused = [("run.eval_render_videos", run.eval_render_videos)];
    match unused.iter().find(|(_, given)| *given) {
        Some((key, _)) => Err(Error::setting(*key, "has no effect in training yet: leave it out")),
        None => Ok(()),
    }
}

/// The agent of a configuration on its environments, untrained.
pub(super) fn learner(config: &Config, make: &MakeBatch<'_>, pool: &Arc<Pool>) -> Result<Box<dyn Learner>> {
    check(config)?;
    let seed = config.run.seed;
    let batch = |num_envs: usize, seed: u64, pool: &Arc<Pool>| {
        make(&BatchConfig {
            num_envs,
            seed,
            autoreset: Autoreset::SameStep,
            pool: Arc::clone(pool),
            settings: settings(config),
            ..BatchConfig::default()
        })
    };
    let own = || batch(config.run.num_envs, seed, pool);
    let pool = || Arc::clone(pool);
    Ok(match &config.agent {
        AgentConfig::Ppo(agent) => {
            let world = World::new(own()?, frames(config))?;
            Box::new(ppo::Ppo::new(of_ppo(agent, config), world, seed, pool())?)
        }
        AgentConfig::Dqn(agent) => Box::new(dqn::Dqn::new(&of_dqn(agent, config), own()?, seed, pool())?),
        AgentConfig::Pqn(agent) => Box::new(pqn::Pqn::new(&of_pqn(agent, config), own()?, seed, pool())?),
        AgentConfig::QLearning(agent) => {
            let sharing = ParallelSettings {
                mode: if agent.deterministic { Mode::Deterministic } else { Mode::Asynchronous },
                // The number of asynchronous workers decides what is learnt, which that of threads must not.
                threads: agent
                    .num_workers
                    .or(config.run.threads.filter(|_| agent.deterministic))
                    .unwrap_or(ParallelSettings::default().threads),
                shards: agent.shards,
                steps_per_sync: agent.steps_per_sync as usize,
            };
            let alone = Arc::new(Pool::new(1));
            if agent.deterministic && agent.shards == 1 {
                // The same bits as one shard, without a copy to merge.
                return single(of_table(agent, config), seed, batch(config.run.num_envs, seed, &alone)?);
            }
            // Each part has its share of the environments.
            let parts = if agent.deterministic { sharing.shards } else { sharing.threads };
            let mut make = |seed: u64| batch((config.run.num_envs / parts).max(1), seed, &alone);
            parallel(of_table(agent, config), sharing, seed, &mut make)?
        }
        AgentConfig::Classical(agent) => {
            let world = World::new(own()?, 1)?;
            let arguments: Vec<_> = agent.arguments.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            let policy = Policy::parse(&agent.policy, &arguments, world.spec())?;
            Box::new(Classical::new(policy, world, seed)?)
        }
    })
}

fn of_ppo(agent: &PpoConfig, config: &Config) -> ppo::Config {
    ppo::Config {
        total_timesteps: config.run.total_timesteps(),
        learning_rate: agent.learning_rate,
        anneal_lr: agent.anneal_lr,
        gamma: agent.gamma,
        gae_lambda: agent.gae_lambda,
        rollout_steps: agent.rollout_steps,
        num_minibatches: agent.num_minibatches,
        num_epochs: agent.num_epochs,
        clip_coef: agent.clip_coef,
        anneal_clip: agent.anneal_clip,
        norm_adv: agent.norm_adv,
        clip_vloss: agent.clip_vloss,
        ent_coef: agent.ent_coef,
        vf_coef: agent.vf_coef,
        max_grad_norm: agent.max_grad_norm,
        target_kl: agent.target_kl,
        hidden: agent.hidden.clone(),
        adam_eps: agent.adam_eps,
        reward_scale: agent.reward_scale,
        normalize_observations: agent.norm_obs,
        normalize_rewards: agent.norm_reward,
        log_std_init: agent.log_std_init,
        squash: agent.squash,
    }
}

fn of_dqn(agent: &DqnConfig, config: &Config) -> dqn::Config {
    dqn::Config {
        num_envs: config.run.num_envs,
        total_timesteps: config.run.total_timesteps(),
        learning_rate: agent.learning_rate,
        hidden: agent.hidden.clone(),
        init: same_name(agent.initialiser.name()),
        buffer_size: agent.buffer_size,
        batch_size: agent.batch_size,
        gamma: agent.gamma,
        tau: agent.tau,
        target_network_frequency: agent.target_network_frequency,
        start_e: agent.start_e,
        end_e: agent.end_e,
        exploration_fraction: agent.exploration_fraction,
        exploration_steps: agent.exploration_steps,
        learning_starts: agent.learning_starts,
        train_frequency: agent.train_frequency,
        double_q: agent.double,
        dueling: agent.dueling,
        n_step: agent.n_step,
        huber_loss: agent.loss == TdLoss::Huber,
        max_grad_norm: agent.max_grad_norm,
        reward_scale: agent.reward_scale,
        frame_stack_n: agent.frame_stack_n,
    }
}

fn of_pqn(agent: &PqnConfig, config: &Config) -> pqn::Config {
    pqn::Config {
        num_envs: config.run.num_envs,
        rollout_steps: agent.rollout_steps,
        steps_per_env: config.run.steps_per_env,
        learning_rate: agent.learning_rate,
        anneal_lr: agent.lr_decay_fraction.is_some() || agent.lr_decay_steps.is_some(),
        lr_decay_fraction: agent.lr_decay_fraction,
        lr_decay_steps: agent.lr_decay_steps,
        gamma: agent.gamma,
        lambda: agent.lambda,
        start_e: agent.epsilon_start,
        end_e: agent.epsilon_end,
        epsilon_decay_fraction: agent.epsilon_decay_fraction,
        epsilon_decay_steps: agent.epsilon_decay_steps,
        num_epochs: agent.num_epochs,
        num_minibatches: agent.num_minibatches,
        max_grad_norm: agent.max_grad_norm,
        reward_scale: agent.reward_scale,
        hidden_size: agent.hidden_size,
        num_layers: agent.num_layers,
        frame_stack_n: agent.frame_stack_n,
    }
}

fn of_table(agent: &QLearningConfig, config: &Config) -> Settings {
    let total = config.run.total_timesteps();
    Settings {
        table: same_name(agent.table.name()),
        precision: same_name(agent.precision.name()),
        algorithm: same_name(agent.algorithm.name()),
        batch_update: same_name(agent.batch_update.name()),
        gamma: agent.gamma,
        learning_rate: of_course(&agent.learning_rate, total),
        epsilon: of_course(&agent.epsilon, total),
    }
}

fn of_course(course: &Course, total: u64) -> Schedule {
    match *course {
        Course::Constant(value) => Schedule::Constant(value),
        Course::Linear { start, end, horizon } => {
            let horizon = match horizon {
                Horizon::Transitions(count) => count,
                Horizon::Percent(percent) => ((percent / 100.0 * total as f64) as u64).max(1),
            };
            Schedule::Linear { start, end, horizon }
        }
        Course::Exponential { start, rate, min } => Schedule::Exponential { start, rate, min },
        Course::HalfLife { start, half_life, min } => Schedule::HalfLife { start, half_life, min },
        Course::Visit { power } => Schedule::Visit { power },
    }
}

/// The choice that has the same name where it is used.
fn same_name<T: DeserializeOwned>(name: &str) -> T {
    serde_json::from_value(name.into()).expect("choices have one name everywhere")
}
