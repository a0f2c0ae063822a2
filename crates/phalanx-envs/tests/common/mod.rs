//! What several tests share.
#![allow(dead_code, unreachable_pub)] // each test uses a part

pub mod variants;

use std::sync::Arc;

use phalanx_core::batch::{Actions, Autoreset, Batch, BatchConfig, LaneWidth, ObsMut, StepBuffers, StepOut};
use phalanx_core::policy::Policy;
use phalanx_core::pool::Pool;
use phalanx_core::rollout::Rollout;
use phalanx_core::space::{ActionMask, ActionSpace, Element, EnvSpec};
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
        ..BatchConfig::default()
    };
    batch(env, &config)
}

pub fn rollout(batch: &dyn Batch, policy: &str, arguments: &[(&str, &str)]) -> Rollout {
    Rollout::new(Policy::parse(policy, arguments, batch.spec()).unwrap(), batch)
}

/// The arrays of a step for whatever an environment's observations are made of.
pub enum Buffers {
    Reals(StepBuffers<f32>),
    Bytes(StepBuffers<i8>),
}

/// Calls something on the arrays of either kind.
macro_rules! either {
    ($buffers:expr, $name:ident => $value:expr) => {
        match $buffers {
            Buffers::Reals($name) => $value,
            Buffers::Bytes($name) => $value,
        }
    };
}

impl Buffers {
    pub fn new(num_envs: usize, spec: &EnvSpec) -> Self {
        let dim = spec.observation.dim();
        match spec.observation.element {
            Element::F32 => Self::Reals(StepBuffers::of(num_envs, dim)),
            Element::I8 => Self::Bytes(StepBuffers::of(num_envs, dim)),
        }
    }

    pub fn out(&mut self) -> StepOut<'_> {
        either!(self, b => b.out())
    }

    pub fn obs(&mut self) -> ObsMut<'_> {
        either!(self, b => (&mut b.obs).into())
    }

    /// All observations, as reals.
    pub fn all_obs(&self) -> Vec<f32> {
        either!(self, b => reals(&b.obs))
    }

    /// The last observations of finished episodes, as reals.
    pub fn final_obs(&self) -> Vec<f32> {
        either!(self, b => reals(&b.final_obs))
    }

    pub fn rewards(&self) -> &[f32] {
        either!(self, b => &b.rewards)
    }

    pub fn terminated(&self) -> &[bool] {
        either!(self, b => &b.terminated)
    }

    pub fn truncated(&self) -> &[bool] {
        either!(self, b => &b.truncated)
    }

    pub fn violations(&self) -> &[u32] {
        either!(self, b => &b.violations)
    }
}

fn reals<T: phalanx_core::batch::ObsElement>(obs: &[T]) -> Vec<f32> {
    obs.iter().map(|value| value.to_real()).collect()
}

/// Arbitrary but fixed actions for one call of `step_into`.
pub struct ActionTable {
    indices: Vec<i32>,
    values: Vec<f32>,
    /// Choices of each component; none if actions are continuous.
    sizes: Vec<u32>,
}

impl ActionTable {
    /// Actions that the batch accepts in its present states.
    pub fn for_batch(batch: &dyn Batch, call: usize) -> Self {
        let mut table = Self::new(&batch.spec().action, batch.num_envs(), call);
        if batch.spec().action_mask != ActionMask::None {
            let mut masks = vec![false; batch.num_envs() * batch.spec().action.mask_len().unwrap()];
            batch.action_masks_into(&mut masks).unwrap();
            table.make_legal(&masks);
        }
        table
    }

    /// Puts a legal choice in the place of each, without allocating.
    pub fn make_legal(&mut self, masks: &[bool]) {
        let mut rest = masks;
        for (i, index) in self.indices.iter_mut().enumerate() {
            let mask;
            (mask, rest) = rest.split_at(self.sizes[i % self.sizes.len()] as usize);
            let legal = || (0..).zip(mask).filter(|(_, legal)| **legal).map(|(choice, _)| choice);
            // None is legal where an episode has ended and its next call starts another.
            let rank = *index as usize % legal().count().max(1);
            *index = legal().nth(rank).unwrap_or(*index);
        }
    }

    pub fn new(space: &ActionSpace, num_envs: usize, call: usize) -> Self {
        let word = |i: usize| ((call * 1_000_003 + i + 1) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        match space {
            ActionSpace::Discrete { n } => {
                let indices = (0..num_envs).map(|i| (word(i) % u64::from(*n)) as i32).collect();
                Self { indices, values: vec![], sizes: vec![*n] }
            }
            ActionSpace::MultiDiscrete { sizes } => {
                let k = sizes.len();
                let indices = (0..num_envs * k).map(|i| (word(i) % u64::from(sizes[i % k])) as i32).collect();
                Self { indices, values: vec![], sizes: sizes.clone() }
            }
            ActionSpace::Box { low, high } => {
                let k = low.len();
                // Half as far again as the bounds, so that clipping is part of the game.
                let value = |i: usize| {
                    let unit = word(i) as f32 / (1_u64 << 24) as f32 * 2.0 - 1.0;
                    1.5 * unit * (high[i % k] - low[i % k]) / 2.0
                };
                Self { indices: vec![], values: (0..num_envs * k).map(value).collect(), sizes: vec![] }
            }
        }
    }

    fn is_discrete(&self) -> bool {
        !self.sizes.is_empty()
    }

    pub fn actions(&self) -> Actions<'_> {
        if self.is_discrete() { Actions::Discrete(&self.indices) } else { Actions::Continuous(&self.values) }
    }

    /// The action of one environment, as a probe takes it.
    pub fn of_env(&self, env: usize, components: usize) -> Vec<f64> {
        let own = env * components..(env + 1) * components;
        if self.is_discrete() {
            self.indices[own].iter().map(|v| f64::from(*v)).collect()
        } else {
            self.values[own].iter().map(|v| f64::from(*v)).collect()
        }
    }
}
