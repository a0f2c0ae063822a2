//! An agent from its settings.

use std::sync::Arc;

use phalanx_core::batch::{Autoreset, BatchConfig};
use phalanx_core::policy::Policy;
use phalanx_core::pool::Pool;
use serde::de::DeserializeOwned;

use super::MakeBatch;
use crate::agents::dqn::Dqn;
use crate::agents::ppo::Ppo;
use crate::agents::pqn::Pqn;
use crate::classical::Classical;
use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::run::agents::{AgentConfig, QLearningConfig};
use crate::run::config::Config;
use crate::run::settings::{Course, Horizon};
use crate::tabular::parallel::{Mode, ParallelSettings, parallel};
use crate::tabular::{Schedule, Settings};
use crate::world::World;

/// The environment's own settings, as the engine takes them.
pub(super) fn settings(config: &Config) -> Vec<(String, String)> {
    config.env.settings.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Refuses what would be accepted in silence and not done.
fn check(config: &Config) -> Result<()> {
    if config.env.settings.get("opponent").is_some_and(|opponent| opponent == "self_play") {
        let why = "is self_play, where both sides share one agent, but must be random or minimax to train from here";
        return Err(Error::setting("env.opponent", why));
    }
    let run = &config.run;
    let unused = [
        ("run.auto_tune", run.auto_tune),
        ("run.scan_chunk_size", run.scan_chunk_size.is_some()),
        ("run.eval_render_videos", run.eval_render_videos),
    ];
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
    let world = || World::new(batch(config.run.num_envs, seed, pool)?, config.agent.frames());
    let (steps, pool) = (config.run.steps_per_env, || Arc::clone(pool));
    Ok(match &config.agent {
        AgentConfig::Ppo(agent) => Box::new(Ppo::new(agent.clone(), world()?, steps, seed, pool())?),
        AgentConfig::Dqn(agent) => Box::new(Dqn::new(agent.clone(), world()?, steps, seed, pool())?),
        AgentConfig::Pqn(agent) => Box::new(Pqn::new(agent.clone(), world()?, steps, seed, pool())?),
        AgentConfig::QLearning(agent) => {
            let sharing = ParallelSettings {
                mode: if agent.deterministic { Mode::Deterministic } else { Mode::Asynchronous },
                threads: agent.num_workers.unwrap_or(ParallelSettings::default().threads),
                shards: agent.shards,
                steps_per_sync: agent.steps_per_sync as usize,
            };
            let alone = Arc::new(Pool::new(1));
            // Each part has its share of the environments.
            let parts = if agent.deterministic { sharing.shards } else { sharing.threads };
            let mut make = |seed: u64| batch((config.run.num_envs / parts).max(1), seed, &alone);
            parallel(of_table(agent, config), sharing, seed, &mut make)?
        }
        AgentConfig::Classical(agent) => {
            let world = world()?;
            let arguments: Vec<_> = agent.arguments.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            let policy = Policy::parse(&agent.policy, &arguments, world.spec())?;
            Box::new(Classical::new(policy, world, seed)?)
        }
    })
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
