//! What several tests share.
#![allow(dead_code, unreachable_pub)] // each test uses a part

use std::sync::Arc;

use phalanx_core::batch::{Actions, Autoreset, Batch, BatchConfig, LaneWidth};
use phalanx_core::policy::Policy;
use phalanx_core::pool::Pool;
use phalanx_core::rollout::Rollout;
use phalanx_core::space::ActionSpace;
use phalanx_envs::registry;

/// Every environment's name.
pub fn all_envs() -> Vec<&'static str> {
    registry::ENTRIES.iter().map(|entry| entry.spec().name).collect()
}

pub fn config(num_envs: usize, seed: u64, autoreset: Autoreset) -> BatchConfig {
    BatchConfig { num_envs, seed, autoreset, ..BatchConfig::default() }
}

pub fn batch(env: &str, config: &BatchConfig) -> Box<dyn Batch> {
    registry::find(env).unwrap().batch(config).unwrap()
}

/// A batch that may use any lanes and threads.
pub fn batch_on(
    env: &str,
    num_envs: usize,
    lanes: LaneWidth,
    threads: usize,
    settings: &[(&str, &str)],
) -> Box<dyn Batch> {
    let settings = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let config = BatchConfig {
        num_envs,
        seed: 11,
        autoreset: Autoreset::SameStep,
        lanes,
        pool: Arc::new(Pool::new(threads)),
        settings,
    };
    batch(env, &config)
}

pub fn rollout(batch: &dyn Batch, policy: &str, arguments: &[(&str, &str)]) -> Rollout {
    Rollout::new(Policy::parse(policy, arguments, batch.spec()).unwrap(), batch)
}

/// Arbitrary but fixed actions for one call of `step_into`.
pub struct ActionTable {
    indices: Vec<i32>,
    values: Vec<f32>,
    discrete: bool,
}

impl ActionTable {
    pub fn new(space: &ActionSpace, num_envs: usize, call: usize) -> Self {
        let word = |i: usize| ((call * 1_000_003 + i + 1) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        match space {
            ActionSpace::Discrete { n } => {
                let indices = (0..num_envs).map(|i| (word(i) % u64::from(*n)) as i32).collect();
                Self { indices, values: vec![], discrete: true }
            }
            ActionSpace::Box { low, high } => {
                let k = low.len();
                // Half as far again as the bounds, so that clipping is part of the game.
                let value = |i: usize| {
                    let unit = word(i) as f32 / (1_u64 << 24) as f32 * 2.0 - 1.0;
                    1.5 * unit * (high[i % k] - low[i % k]) / 2.0
                };
                Self { indices: vec![], values: (0..num_envs * k).map(value).collect(), discrete: false }
            }
        }
    }

    pub fn actions(&self) -> Actions<'_> {
        if self.discrete { Actions::Discrete(&self.indices) } else { Actions::Continuous(&self.values) }
    }

    /// The action of one environment, as a probe takes it.
    pub fn of_env(&self, env: usize, components: usize) -> Vec<f64> {
        if self.discrete {
            vec![f64::from(self.indices[env])]
        } else {
            self.values[env * components..(env + 1) * components].iter().map(|v| f64::from(*v)).collect()
        }
    }
}
