//! Training as the auto-tuner sees it, and what its memory depends on.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use phalanx_envs::registry;
use phalanx_lab::autotune::candidates::Schedule;
use phalanx_lab::autotune::memory_model::MemoryModel;
use phalanx_lab::autotune::{AgentTimes, Loop, Subject};
use phalanx_lab::workload::Work;
use phalanx_lab::{Error as LabError, hash};
use phalanx_learn::Stop;
use phalanx_learn::learner::{Learner, Report};
use phalanx_learn::run::agents::AgentConfig;
use phalanx_learn::run::config::{Config, create_config};
use phalanx_learn::trainer::advance_chunk;

use crate::error::{Error, Result, stopped};
use crate::learning::{Decisions, begin, kept, learner};

/// An environment with an agent that learns.
pub struct LearnerSubject {
    config: Config,
    env: &'static str,
    agent: String,
    env_hash: String,
    model: MemoryModel,
    steps_made: Rc<Cell<u64>>,
    stop: Stop,
}

/// Environments of a profile, at most.
const PROFILE_ENVS: usize = 1000;

impl LearnerSubject {
    /// Of a run with these settings; its chunk size, threads and seed do not matter.
    pub fn new(mut config: Config) -> Result<Self> {
        let env = registry::find(&config.env.name)?.spec().name;
        // What is timed is training that goes on, not what comes before.
        if let AgentConfig::Dqn(agent) = &mut config.agent {
            agent.learning_starts = 0;
        }
        config.run.auto_tune = false;
        let env_hash = hash::of_value(&(env, &config.env.settings)).expect("settings are plain data");
        let agent = agent_name(&config);
        let model = memory_model(&config)?;
        Ok(Self { config, env, agent, env_hash, model, steps_made: Rc::default(), stop: Stop::default() })
    }

    /// The same, but its loops fail soon after `stop` wants them to.
    pub fn stopped_by(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// Steps that its loops have made so far, all environments together.
    pub fn steps_made(&self) -> u64 {
        self.steps_made.get()
    }

    /// Transitions in its replay buffer, if it has one.
    pub fn buffer_size(&self) -> Option<u64> {
        buffer_size(&self.config)
    }

    /// When control returns to the driver in any case. Evaluations end a chunk of agents that can stop anywhere.
    pub fn schedule(&self) -> Schedule {
        let rollout_steps = self.config.agent.rollout_steps();
        let every = usize::try_from(self.config.run.eval_frequency).ok();
        let eval_frequency = every.filter(|every| *every > 0 && rollout_steps.is_none());
        Schedule { eval_frequency, rollout_steps }
    }

    /// The most environments that fit into a budget. A buffer grows with them where it would not hold a step of all.
    pub fn most_envs(&self, budget: f64) -> usize {
        let (model, buffer) = (self.model, self.buffer_size().unwrap_or(0));
        let most = model.most_envs(budget, buffer, 1);
        let most = match self.buffer_size() {
            Some(size) if most as u64 > size => {
                let together =
                    MemoryModel { bytes_per_env: model.bytes_per_env + model.transition_bytes as f64, ..model };
                together.most_envs(budget, 0, 1).max(size as usize)
            }
            _ => most,
        };
        most - most % minibatches(&self.config).max(1)
    }

    fn learner(&self, num_envs: usize, threads: usize) -> phalanx_lab::Result<Box<dyn Learner>> {
        learner(&sized(&self.config, num_envs, threads)).map_err(|error| match error {
            Error::Learn(phalanx_learn::Error::Setting { key, .. }) if key == "run.buffer_size" => {
                LabError::OutOfMemory { bytes: self.model.bytes(num_envs, buffer_size(&self.config).unwrap_or(0), 1) }
            }
            other => stopped(other),
        })
    }
}

/// The name of an agent; settings that are not those of its preset make another agent, of which the hash is enough.
fn agent_name(config: &Config) -> String {
    let name = config.agent.name();
    let own = |agent: &AgentConfig| {
        let mut agent = agent.clone();
        if let AgentConfig::Dqn(agent) = &mut agent {
            // The one has a place of its own in the key of the cache, the other is not timed.
            (agent.buffer_size, agent.learning_starts) = (0, 0);
        }
        agent
    };
    let usual = create_config(&config.env.name, name, &[("run.total_timesteps", "1000000000")]);
    let own_settings = own(&config.agent);
    match usual.is_ok_and(|usual| own(&usual.agent) == own_settings) {
        true => name.to_owned(),
        false => {
            let hash = hash::of_value(&format!("{own_settings:?}")).expect("a text is plain data");
            format!("{name}@{}", &hash[..8])
        }
    }
}

/// The same run with another number of environments and threads; a buffer holds a step of all at least.
fn sized(config: &Config, num_envs: usize, threads: usize) -> Config {
    let mut config = config.clone();
    config.run.num_envs = num_envs;
    config.run.threads = Some(threads);
    if let AgentConfig::Dqn(agent) = &mut config.agent {
        agent.buffer_size = agent.buffer_size.max(num_envs);
    }
    config
}

/// Transitions in the replay buffer of an agent that has one.
pub(crate) fn buffer_size(config: &Config) -> Option<u64> {
    match &config.agent {
        AgentConfig::Dqn(agent) => Some(agent.buffer_size as u64),
        _ => None,
    }
}

/// The parts that a roll-out is cut into, which must divide it.
fn minibatches(config: &Config) -> usize {
    match &config.agent {
        AgentConfig::Ppo(agent) => agent.num_minibatches,
        AgentConfig::Pqn(agent) => agent.num_minibatches,
        _ => 1,
    }
}

/// What the memory of a run depends on, found by small runs: all that an agent keeps grows in proportion to the
/// environments and to the buffer, apart from a part that does not grow. (A table that grows with what it has seen is
/// counted as it begins.)
pub(crate) fn memory_model(config: &Config) -> Result<MemoryModel> {
    /// Transitions of a minibatch from which on gradients need no more room.
    const MOST_ROWS: usize = 2048;
    let parts = minibatches(config);
    // Every thread has arrays of its own.
    let threads = config.run.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let least = (MOST_ROWS * parts).div_ceil(config.agent.rollout_steps().unwrap_or(MOST_ROWS).max(1));
    let num_envs = least.next_multiple_of(parts.max(1)).max(64);
    let bytes = |num_envs: usize, buffer: usize| {
        let mut config = sized(config, num_envs, threads);
        if let AgentConfig::Dqn(agent) = &mut config.agent {
            agent.buffer_size = buffer;
        }
        let (learner, bytes) = kept(|| learner(&config))?;
        drop(learner);
        let unknown = || Error::input("the allocator does not tell what an agent takes");
        bytes.map(|bytes| bytes as f64).ok_or_else(unknown)
    };
    let buffer = 2 * num_envs;
    let one = bytes(num_envs, buffer)?;
    let bytes_per_env = (bytes(2 * num_envs, buffer)? - one) / num_envs as f64;
    let transition = match buffer_size(config) {
        Some(_) => (bytes(num_envs, 2 * buffer)? - one) / buffer as f64,
        None => 0.0,
    };
    let fixed = one - bytes_per_env * num_envs as f64 - transition * buffer as f64;
    // A checkpoint holds the buffer once more, be it the one that a run ends with.
    let copies = if matches!(&config.agent, AgentConfig::Dqn(agent) if agent.save_buffer) { 2.0 } else { 1.0 };
    Ok(MemoryModel {
        bytes_per_env: bytes_per_env.max(0.0),
        weight_bytes: fixed.max(0.0) as u64,
        transition_bytes: (copies * transition).round() as u64,
        bytes_per_chunk_step: 0,
    })
}

impl std::fmt::Debug for LearnerSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LearnerSubject({} under {})", self.env, self.agent)
    }
}

impl Subject for LearnerSubject {
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

    fn profile_envs(&self) -> usize {
        let parts = minibatches(&self.config);
        let most = self.config.run.num_envs.min(PROFILE_ENVS);
        if most < PROFILE_ENVS || most < parts { self.config.run.num_envs } else { most / parts * parts }
    }

    fn agent_times(&self) -> phalanx_lab::Result<AgentTimes> {
        const DECISIONS: usize = 1000;
        let mut learner = self.learner(self.profile_envs(), 1)?;
        let alone = sized(&self.config, 1, 1);
        let mut decisions = Decisions::new(&alone, learner.as_ref()).map_err(stopped)?;
        let start = Instant::now();
        std::hint::black_box((0..DECISIONS).fold(0, |hash, _| hash ^ decisions.decide()));
        let forward = start.elapsed().as_secs_f64() * 1e6 / DECISIONS as f64;
        begin(learner.as_mut()).map_err(stopped)?;
        let start = Instant::now();
        let rows = learner.relearn(&mut Report::default()).map_err(stopped)?;
        let update = start.elapsed().as_secs_f64() * 1e6;
        Ok(AgentTimes { forward_us: Some(forward), update_us: (rows > 0).then_some(update) })
    }

    fn start(&self, num_envs: usize, threads: usize) -> phalanx_lab::Result<Box<dyn Loop>> {
        let learner = self.learner(num_envs, threads)?;
        let (num_envs, steps_made) = (num_envs as u64, self.steps_made.clone());
        Ok(Box::new(Running { learner, num_envs, steps_made, stop: self.stop.clone() }))
    }
}

struct Running {
    learner: Box<dyn Learner>,
    num_envs: u64,
    steps_made: Rc<Cell<u64>>,
    stop: Stop,
}

impl Loop for Running {
    fn advance(&mut self, steps: usize, chunk: usize) -> phalanx_lab::Result<Work> {
        let start = self.learner.global_step();
        let goal = start + steps as u64 * self.num_envs;
        let mut report = Report::default();
        report.stop = self.stop.clone();
        while self.learner.global_step() < goal {
            let chunk = Some(chunk as u64 * self.num_envs);
            advance_chunk(self.learner.as_mut(), chunk, goal, &mut report).map_err(stopped)?;
            report.clear();
        }
        let made = self.learner.global_step();
        self.steps_made.set(self.steps_made.get() + made - start);
        Ok(Work { steps: made - start, checksum: made })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: phalanx_lab::memory::CountingAllocator = phalanx_lab::memory::CountingAllocator::new();

    #[test]
    fn a_buffer_and_its_copy_are_predicted_and_refused() {
        ALLOCATOR.register();
        let settings = [("num_envs", "8"), ("steps_per_env", "1000"), ("agent.hidden", "[2]")];
        let config = |more: &[(&str, &str)]| create_config("CartPole-v1", "dqn", &[&settings, more].concat()).unwrap();
        // The allocator counts for the whole process: what other tests take meanwhile, too. Not all the time, though.
        let transition = |save| {
            let predicted = || memory_model(&config(&[("save_buffer", save)])).unwrap().transition_bytes;
            let mut predicted: [_; 9] = std::array::from_fn(|_| predicted());
            predicted.sort_unstable();
            predicted[4]
        };
        // A run needs a copy for the checkpoint that it ends with.
        let (with, without) = (transition("true"), transition("false"));
        assert!(with.abs_diff(2 * without) <= 2 && without >= 45, "{with} {without}");
        // Observations so wide that no machine of these days has the room.
        let wide = config(&[("buffer_size", "4294967295"), ("agent.frame_stack_n", "4096")]);
        let small = wide.with([("run.buffer_size", "1000")]).unwrap();
        let subject = LearnerSubject { config: wide, ..LearnerSubject::new(small).unwrap() };
        let error = subject.learner(8, 1).map(drop).unwrap_err();
        assert!(matches!(error, LabError::OutOfMemory { bytes } if bytes > 1e12), "{error}");
    }
}
