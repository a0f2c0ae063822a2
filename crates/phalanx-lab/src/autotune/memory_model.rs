//! What a run will take, known before anything large is allocated.

use serde::{Deserialize, Serialize};

/// What memory depends on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MemoryModel {
    /// State, observations and flags of an environment, with what the agent keeps for it.
    pub bytes_per_env: f64,
    /// Weights, with what the optimiser adds to them.
    pub weight_bytes: u64,
    /// A transition in a replay buffer: two observations, action, reward and flags.
    pub transition_bytes: u64,
    /// What a step of a chunk adds, over all threads. Roll-outs consume outputs in place, so theirs is 0.
    pub bytes_per_chunk_step: u64,
}

impl MemoryModel {
    /// Bytes of a run.
    pub fn bytes(&self, num_envs: usize, buffer_size: u64, chunk: usize) -> f64 {
        self.bytes_per_env * num_envs as f64 + self.fixed(buffer_size, chunk)
    }

    /// The most environments that fit into `budget` bytes.
    pub fn most_envs(&self, budget: f64, buffer_size: u64, chunk: usize) -> usize {
        // Conversion saturates: nothing left is 0.
        ((budget - self.fixed(buffer_size, chunk)) / self.bytes_per_env.max(f64::MIN_POSITIVE)) as usize
    }

    fn fixed(&self, buffer_size: u64, chunk: usize) -> f64 {
        self.weight_bytes as f64
            + self.transition_bytes as f64 * buffer_size as f64
            + self.bytes_per_chunk_step as f64 * chunk as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_add_up_and_lead_back_to_the_number_of_environments() {
        let model =
            MemoryModel { bytes_per_env: 64.0, weight_bytes: 1000, transition_bytes: 50, bytes_per_chunk_step: 10 };
        assert_eq!(model.bytes(100, 20, 8), 6400.0 + 1000.0 + 1000.0 + 80.0);
        assert_eq!(model.most_envs(8480.0, 20, 8), 100);
        assert_eq!(model.most_envs(8479.0, 20, 8), 99);
        assert_eq!(model.most_envs(10.0, 20, 8), 0);
    }
}
