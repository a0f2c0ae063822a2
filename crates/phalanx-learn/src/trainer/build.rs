//! An agent from its settings.

use std::sync::Arc;

use phalanx_core::batch::{Autoreset, Batch, BatchConfig};
use phalanx_core::policy::Policy;
use phalanx_core::pool::Pool;
use phalanx_core::safety::{Constraint, SafetyMode};
use phalanx_core::space::ActionMask;

use super::MakeBatch;
use crate::agents::dqn::Dqn;
use crate::agents::ppo::Ppo;
use crate::agents::pqn::Pqn;
use crate::classical::Classical;
use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::memory::Bytes;
use crate::run::agents::AgentConfig;
use crate::run::config::Config;
use crate::tabular;
use crate::world::World;

/// The environments of a configuration, as the engine takes them: their own settings, and what follows from constraints
/// (`env.safety` is a mode, `env.constraints` are separated by semicolons), each action `env.action_repeat` times.
pub fn batch_config(config: &Config) -> Result<BatchConfig> {
    // As nearly all of a run need it, and as repeated actions do.
    let mut batch = BatchConfig { autoreset: Autoreset::SameStep, ..BatchConfig::default() };
    for (name, value) in &config.env.settings {
        let refuse = |error: phalanx_core::Error| Error::setting(format!("env.{name}"), format!("is wrong: {error}"));
        match name.as_str() {
            "safety" => batch.safety.mode = SafetyMode::parse(value).map_err(refuse)?,
            "constraints" => {
                let texts = value.split(';').map(str::trim).filter(|text| !text.is_empty());
                batch.safety.constraints =
                    texts.map(Constraint::parse).collect::<phalanx_core::Result<_>>().map_err(refuse)?;
            }
            "action_repeat" => {
                let times = value.parse().ok().filter(|times| (1..=10_000).contains(times));
                batch.action_repeat = times.ok_or_else(|| {
                    Error::setting("env.action_repeat", format!("is {value}, but must be from 1 to 10000"))
                })?;
            }
            _ => batch.settings.push((name.clone(), value.clone())),
        }
    }
    if batch.action_repeat > 1 && config.run.eval_render_videos {
        let why = "is true, but episodes of repeated actions are not drawn: give env.action_repeat=1";
        return Err(Error::setting("run.eval_render_videos", why));
    }
    Ok(batch)
}

/// Of an unknown setting, what else it may have been meant for: a run knows keys that its environment does not.
fn with_keys_of_runs(mut error: phalanx_core::Error) -> phalanx_core::Error {
    if let phalanx_core::Error::UnknownName { kind: "parameter", known, .. } = &mut error {
        known.extend(["safety", "constraints", "action_repeat"].map(str::to_owned));
    }
    error
}

/// Refuses agents that cannot learn what the environment asks for.
pub(super) fn check_opponent(config: &Config) -> Result<()> {
    let plays_itself = config.env.settings.get("opponent").is_some_and(|opponent| opponent == "self_play");
    if plays_itself && matches!(config.agent, AgentConfig::Ppo(_) | AgentConfig::Dqn(_) | AgentConfig::Pqn(_)) {
        let why = "is self_play, where one side's gain is the other's loss: only q_learning knows that";
        return Err(Error::setting("env.opponent", why));
    }
    Ok(())
}

/// Refuses what would be accepted in silence and not done.
fn check(config: &Config) -> Result<()> {
    check_opponent(config)?;
    if config.run.auto_tune {
        let why = "is true, but has to be settled before training, as `phalanx train` does: give run.scan_chunk_size \
                   and run.threads instead";
        return Err(Error::setting("run.auto_tune", why));
    }
    Ok(())
}

/// A few of the environments of a configuration.
pub(super) fn sample(config: &Config, make: &MakeBatch<'_>, num_envs: usize) -> Result<Box<dyn Batch>> {
    Ok(make(&BatchConfig { num_envs, seed: config.run.seed, ..batch_config(config)? }).map_err(with_keys_of_runs)?)
}

/// Refuses as many environments as there is no memory for; `key` is the setting that asks for them.
pub(super) fn require_room(config: &Config, make: &MakeBatch<'_>, key: &str, num_envs: usize) -> Result<()> {
    // Whole blocks: one environment alone takes the room of sixteen.
    let few = sample(config, make, num_envs.min(64))?;
    let dim = few.spec().observation.dim();
    // What a step gives: observations and last observations, four words of figures and two flags.
    let state = Bytes::of::<u8>(&[few.bytes_per_env().ceil() as usize]);
    let step = Bytes::of::<f32>(&[2 * dim + 5]).and(Bytes::of::<bool>(&[2]));
    state.and(step).times(num_envs).require(key, num_envs, "the environments")
}

/// The agent of a configuration on its environments, untrained.
pub(super) fn learner(config: &Config, make: &MakeBatch<'_>, pool: &Arc<Pool>) -> Result<Box<dyn Learner>> {
    check(config)?;
    require_room(config, make, "run.num_envs", config.run.num_envs)?;
    let (seed, common) = (config.run.seed, batch_config(config)?);
    let batch = |num_envs: usize, seed: u64, pool: &Arc<Pool>, autoreset: Autoreset| {
        let pool = Arc::clone(pool);
        make(&BatchConfig { num_envs, seed, autoreset, pool, ..common.clone() })
    };
    let world_of = |autoreset| World::new(batch(config.run.num_envs, seed, pool, autoreset)?, config.agent.sight());
    let world = || world_of(Autoreset::SameStep);
    let world_with_end_masks = || world_of(World::with_end_masks(sample(config, make, 1)?.spec()));
    let (steps, pool) = (config.run.steps_per_env, || Arc::clone(pool));
    Ok(match &config.agent {
        AgentConfig::Ppo(agent) => Box::new(Ppo::new(agent.clone(), world()?, steps, seed, pool())?),
        AgentConfig::Dqn(agent) => Box::new(Dqn::new(agent.clone(), world_with_end_masks()?, steps, seed, pool())?),
        AgentConfig::Pqn(agent) => Box::new(Pqn::new(agent.clone(), world_with_end_masks()?, steps, seed, pool())?),
        AgentConfig::QLearning(agent) => {
            // The blocks share out the threads.
            let alone = Arc::new(Pool::new(1));
            tabular::learner(agent, &config.run, &mut |num_envs, seed| {
                batch(num_envs, seed, &alone, Autoreset::SameStep)
            })?
        }
        AgentConfig::Classical(agent) => {
            let world = world()?;
            let spec = world.spec();
            if spec.action_mask != ActionMask::None && matches!(agent.policy.as_str(), "pid" | "bangbang" | "periodic")
            {
                let why = format!(
                    "is {}, which cannot play {}: it knows a high and a low action, not which ones are legal; take random or \
                     an agent that learns",
                    agent.policy, spec.name
                );
                return Err(Error::setting("agent.name", why));
            }
            let arguments: Vec<_> = agent.arguments.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            let policy = Policy::parse(&agent.policy, &arguments, world.spec()).map_err(|error| match error {
                // Nobody has written the name that is unknown: it is the controller's default.
                phalanx_core::Error::UnknownName { kind: "observation field", known, .. }
                    if !known.is_empty() && !agent.arguments.contains_key("obs_field") =>
                {
                    let why = format!("must be given for {}: one of {}", config.env.name, known.join(", "));
                    Error::setting("agent.obs_field", why)
                }
                error => error.into(),
            })?;
            Box::new(Classical::new(policy, world, seed)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::config::{RunConfig, create_config};

    #[test]
    fn repeated_actions_reach_the_environments() {
        let config = |times: &str| create_config("MountainCar-v0", "ppo", &[("env.action_repeat", times)]).unwrap();
        let entry = phalanx_envs::registry::find("MountainCar-v0").unwrap();
        let make = |batch: &BatchConfig| entry.batch(batch);
        assert_eq!(sample(&config("4"), &make, 1).unwrap().spec().max_steps, 50);
        for wrong in ["0", "-1", "1.5", "often", "10001"] {
            let error = batch_config(&config(wrong)).unwrap_err().to_string();
            assert_eq!(error, format!("env.action_repeat is {wrong}, but must be from 1 to 10000"));
        }
        let drawn = Config { run: RunConfig { eval_render_videos: true, ..config("4").run }, ..config("4") };
        assert!(batch_config(&drawn).unwrap_err().to_string().contains("are not drawn"));
    }
}
