//! Roll-outs as the auto-tuner sees them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use phalanx_core::batch::{Autoreset, Batch, BatchConfig};
use phalanx_core::lanes::BLOCK;
use phalanx_core::policy::Policy;
use phalanx_core::pool::Pool;
use phalanx_core::probe::{PolicyMemory, Precision};
use phalanx_core::rollout::{Rollout, TILE};
use phalanx_core::space::Element;
use phalanx_envs::registry::{self, Entry};
use phalanx_lab::autotune::memory_model::MemoryModel;
use phalanx_lab::autotune::{AgentTimes, Loop, Subject};
use phalanx_lab::workload::Work;
use phalanx_lab::{Error, hash};

use crate::error::{self, stopped};

/// An environment under one of the built-in policies.
pub struct RolloutSubject {
    entry: &'static Entry,
    config: BatchConfig,
    policy: Policy,
    env: &'static str,
    agent: String,
    env_hash: String,
    model: MemoryModel,
    goes_by_rows: bool,
    steps_made: Rc<Cell<u64>>,
}

/// The tiles that are compared, where steps go by rows.
const TILES: [usize; 3] = [TILE, TILE / 4, 4 * TILE];
/// Decisions that are timed for an agent's profile.
const DECISIONS: u64 = 10_000;
/// Reward and both flags of a transition.
const REWARD_AND_FLAGS: u64 = 4 + 2;

impl RolloutSubject {
    /// Of an environment under a policy with arguments, both by name. The size, pool and seed of `config` do not matter.
    pub fn new(env: &str, config: &BatchConfig, policy: &str, arguments: &[(String, String)]) -> error::Result<Self> {
        let entry = registry::find(env)?;
        let config = BatchConfig { autoreset: Autoreset::SameStep, ..config.clone() };
        // A whole block shows what an environment takes; building it checks the parameters and the policy.
        let sample = entry.batch(&BatchConfig { num_envs: BLOCK, ..config.clone() })?;
        let spec = sample.spec();
        let named: Vec<_> = arguments.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let name = policy;
        let policy = Policy::parse(name, &named, spec)?;
        let rollout = Rollout::new(policy.clone(), sample.as_ref());
        let goes_by_rows = sample.goes_by_rows(&policy);
        let observation = spec.observation.dim() as u64
            * match spec.observation.element {
                Element::F32 => 4,
                Element::I8 => 1,
            };
        let model = MemoryModel {
            bytes_per_env: sample.bytes_per_env() + rollout.bytes_per_env(),
            weight_bytes: 0,
            transition_bytes: 2 * observation + 4 * spec.action.components() as u64 + REWARD_AND_FLAGS,
            bytes_per_chunk_step: 0,
        };
        let safety = (config.safety.mode, &config.safety.constraints);
        let env_hash = hash::of_value(&(spec.name, &config.settings, safety)).expect("settings are plain data");
        // Arguments make another agent, of which the hash is enough.
        let agent = match arguments {
            [] => name.to_owned(),
            arguments => {
                let hash = hash::of_value(&arguments).expect("arguments are plain data");
                format!("{name}@{}", &hash[..8])
            }
        };
        let (env, steps_made) = (entry.spec().name, Rc::default());
        Ok(Self { entry, config, policy, env, agent, env_hash, model, goes_by_rows, steps_made })
    }

    /// Steps that its loops have made so far, all environments together.
    pub fn steps_made(&self) -> u64 {
        self.steps_made.get()
    }
}

impl std::fmt::Debug for RolloutSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RolloutSubject({} under {})", self.env, self.agent)
    }
}

impl Subject for RolloutSubject {
    fn env(&self) -> &str {
        self.env
    }

    fn env_hash(&self) -> String {
        self.env_hash.clone()
    }

    fn agent(&self) -> &str {
        &self.agent
    }

    fn memory(&self) -> MemoryModel {
        self.model
    }

    fn tiles(&self) -> &[usize] {
        if self.goes_by_rows { &TILES } else { &[] }
    }

    fn agent_times(&self) -> phalanx_lab::Result<AgentTimes> {
        let probe = self.entry.probe(&self.config, Precision::F32).map_err(stopped)?;
        let mut memory = PolicyMemory::default();
        let start = Instant::now();
        for tick in 0..DECISIONS {
            std::hint::black_box(probe.decide(&self.policy, tick, &mut memory).map_err(stopped)?);
        }
        let forward_us = start.elapsed().as_secs_f64() * 1e6 / DECISIONS as f64;
        Ok(AgentTimes { forward_us: Some(forward_us), update_us: Some(0.0) })
    }

    fn start(&self, num_envs: usize, threads: usize) -> phalanx_lab::Result<Box<dyn Loop>> {
        let pool = Pool::try_new(threads);
        let pool = pool.map_err(|error| Error::Subject(format!("cannot start {threads} threads: {error}")))?;
        let config = BatchConfig { num_envs, pool: Arc::new(pool), ..self.config.clone() };
        let batch = self.entry.batch(&config).map_err(|error| match error {
            phalanx_core::Error::OutOfRange { ref what, .. } if what.starts_with("the memory") => {
                Error::OutOfMemory { bytes: self.model.bytes(num_envs, 0, 1) }
            }
            other => stopped(other),
        })?;
        let rollout = Rollout::new(self.policy.clone(), batch.as_ref());
        Ok(Box::new(Running { batch, rollout, steps_made: self.steps_made.clone() }))
    }
}

struct Running {
    batch: Box<dyn Batch>,
    rollout: Rollout,
    steps_made: Rc<Cell<u64>>,
}

impl Loop for Running {
    fn advance(&mut self, steps: usize, chunk: usize) -> phalanx_lab::Result<Work> {
        self.rollout.run(self.batch.as_mut(), steps, chunk, |_| true).map_err(stopped)?;
        let steps = (steps * self.batch.num_envs()) as u64;
        self.steps_made.set(self.steps_made.get() + steps);
        Ok(Work { steps, checksum: self.rollout.checksum() })
    }

    fn set_tile(&mut self, envs: usize) {
        self.rollout.set_tile(envs).expect("one of those that are compared");
    }
}
