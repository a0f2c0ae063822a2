//! What is tuned, as far as the tuner has to know it.

use crate::Result;
use crate::workload::Work;

use super::memory_model::MemoryModel;

/// An environment with an agent.
pub trait Subject {
    /// The environment's name.
    fn env(&self) -> &str;

    /// A hash of everything that makes this environment differ from others of its name.
    fn env_hash(&self) -> String;

    /// The agent's name.
    fn agent(&self) -> &str;

    /// The precision of the arithmetic.
    fn dtype(&self) -> &str {
        "f32"
    }

    /// What memory depends on, known without taking it.
    fn memory(&self) -> MemoryModel;

    /// Environments of its profile; other numbers may not go together with the agent's settings.
    fn profile_envs(&self) -> usize {
        1000
    }

    /// Numbers of environments that may go through a chunk together, the usual one first; none where there is nothing to
    /// choose.
    fn tiles(&self) -> &[usize] {
        &[]
    }

    /// Measures the agent alone.
    fn agent_times(&self) -> Result<AgentTimes>;

    /// The real loop: so many environments on so many threads, ready to go on.
    ///
    /// # Errors
    ///
    /// [`crate::Error::OutOfMemory`] if the system has no such memory: only that counts as too large.
    fn start(&self, num_envs: usize, threads: usize) -> Result<Box<dyn Loop>>;
}

/// A loop that can go on with any chunk size.
pub trait Loop {
    /// Makes `steps` steps in each environment, `chunk` at a time.
    fn advance(&mut self, steps: usize, chunk: usize) -> Result<Work>;

    /// From now on so many environments go through a chunk together: one of [`Subject::tiles`].
    fn set_tile(&mut self, _envs: usize) {}
}

/// How long an agent takes; unknown where it cannot be told from the environment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AgentTimes {
    /// One decision for one environment.
    pub forward_us: Option<f64>,
    /// One update; 0 if it does not learn.
    pub update_us: Option<f64>,
}
