//! What a run will take, known before anything large is allocated.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::memory;

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

/// How much memory a run may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MemoryBudget {
    /// A share of what is available when asked.
    Share(f64),
    /// So many bytes.
    Bytes(u64),
}

impl Default for MemoryBudget {
    /// 0.8 of what is available: the rest of the machine goes on meanwhile.
    fn default() -> Self {
        Self::Share(0.8)
    }
}

impl MemoryBudget {
    /// The budget now; infinite where the system does not tell what is available.
    pub fn bytes(self) -> f64 {
        match self {
            Self::Share(share) => memory::available_bytes().map_or(f64::INFINITY, |bytes| share * bytes as f64),
            Self::Bytes(bytes) => bytes as f64,
        }
    }
}

impl FromStr for MemoryBudget {
    type Err = String;

    /// `0.8` of what is available, or `500M`, `12G` bytes.
    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) = match text.char_indices().last() {
            Some((at, 'k' | 'K')) => (&text[..at], Some(10)),
            Some((at, 'm' | 'M')) => (&text[..at], Some(20)),
            Some((at, 'g' | 'G')) => (&text[..at], Some(30)),
            Some((at, 't' | 'T')) => (&text[..at], Some(40)),
            _ => (text, None),
        };
        let number = digits.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
        match (number, unit) {
            (Some(share), None) if share <= 1.0 => Ok(Self::Share(share)),
            (Some(number), Some(unit)) => Ok(Self::Bytes((number * f64::from(unit).exp2()) as u64)),
            _ => {
                Err("a share of the available memory such as 0.8 or an amount such as 500M or 12G is needed".to_owned())
            }
        }
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

    #[test]
    fn budgets_are_shares_or_amounts() {
        assert_eq!("0.5".parse(), Ok(MemoryBudget::Share(0.5)));
        assert_eq!("12G".parse(), Ok(MemoryBudget::Bytes(12 << 30)));
        assert_eq!("1.5k".parse(), Ok(MemoryBudget::Bytes(1536)));
        for wrong in ["", "0", "-1", "2", "nan", "inf", "G", "0.5é"] {
            assert!(wrong.parse::<MemoryBudget>().is_err(), "{wrong}");
        }
    }
}
