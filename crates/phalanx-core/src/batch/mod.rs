//! Batches: many environments behind one object-safe interface.
//!
//! [`Batch`] is all that Python, learners, the lab and the command line know of environments. One
//! engine implements it over two kinds of kernel: environments in lanes
//! ([`LaneEnv`](crate::env::LaneEnv)) and environments that vectorise inside one copy
//! ([`SoloEnv`](crate::solo::SoloEnv)).

mod config;
mod delegate;
mod element;
mod engine;
mod kernel;
mod lane_kernel;
mod params;
mod repeat;
mod row_wise;
mod slowdown;
mod solo_kernel;

pub use config::{BatchConfig, LaneWidth, build, build_solo};
pub(crate) use config::{Configured, configure, configure_solo};
pub use element::{ObsElement, ObsMut};
pub(crate) use kernel::STEP_TILE;
pub(crate) use lane_kernel::{check_lane_state, check_state};
pub(crate) use row_wise::TileScratch;

use crate::apart;
use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::rollout::Rollout;
use crate::space::{ActionSpace, EnvSpec};
use crate::stats::EpisodeStats;

/// Actions for all environments, row-major.
#[derive(Clone, Copy, Debug)]
pub enum Actions<'a> {
    /// As many whole numbers for each environment as its discrete space has components.
    Discrete(&'a [i32]),
    /// As many values for each environment as the box has components.
    Continuous(&'a [f32]),
}

/// Actions to be filled in, row-major.
#[derive(Debug)]
pub enum ActionsMut<'a> {
    /// As many whole numbers for each environment as its discrete space has components.
    Discrete(&'a mut [i32]),
    /// As many values for each environment as the box has components.
    Continuous(&'a mut [f32]),
}

impl ActionsMut<'_> {
    /// Checks that this is room for actions of `spec` for `num_envs` environments.
    fn check(&self, spec: &EnvSpec, num_envs: usize) -> Result<()> {
        let (actual, len) = match self {
            Self::Discrete(indices) => (Actions::Discrete(&[]).kind(), indices.len()),
            Self::Continuous(values) => (Actions::Continuous(&[]).kind(), values.len()),
        };
        if actual != spec.action.kind() {
            return Err(Error::ActionKind { env: spec.name.to_owned(), expected: spec.action.kind(), actual });
        }
        check_len("the action array", len, num_envs * spec.action.components())
    }

    /// Puts `actions`, which are of the same kind, at `start`.
    fn write(&mut self, start: usize, actions: Actions<'_>) {
        match (self, actions) {
            (Self::Discrete(to), Actions::Discrete(from)) => to[start..start + from.len()].copy_from_slice(from),
            (Self::Continuous(to), Actions::Continuous(from)) => to[start..start + from.len()].copy_from_slice(from),
            _ => unreachable!("the kinds are equal"),
        }
    }
}

impl<'a> Actions<'a> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Discrete(_) => "discrete",
            Self::Continuous(_) => "continuous",
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Discrete(indices) => indices.len(),
            Self::Continuous(values) => values.len(),
        }
    }

    /// `len` elements from `start` on.
    #[inline(always)]
    fn slice(&self, start: usize, len: usize) -> Self {
        match self {
            Self::Discrete(indices) => Self::Discrete(&indices[start..start + len]),
            Self::Continuous(values) => Self::Continuous(&values[start..start + len]),
        }
    }

    /// Checks that these are actions of `spec` for `num_envs` environments, as every step does first.
    #[inline]
    pub fn check(&self, spec: &EnvSpec, num_envs: usize) -> Result<()> {
        let same_kind = matches!(self, Self::Discrete(_)) == spec.action.is_discrete();
        if !same_kind {
            return Err(Error::ActionKind {
                env: spec.name.to_owned(),
                expected: spec.action.kind(),
                actual: self.kind(),
            });
        }
        let components = spec.action.components();
        check_len("the action array", self.len(), num_envs * components)?;
        match (self, &spec.action) {
            (Self::Discrete(indices), ActionSpace::Discrete { n }) => {
                // The fold has no early exit, so it runs in lanes; only bad input pays for the search.
                let bad = |index: i32| index as u32 >= *n;
                if indices.iter().fold(false, |any, &index| any | bad(index)) {
                    let at = indices.iter().position(|&index| bad(index)).expect("one is bad");
                    let what = format!("the action of environment {at}");
                    return Err(Error::out_of_range(what, indices[at], format!("a whole number from 0 to {}", n - 1)));
                }
            }
            (Self::Discrete(indices), ActionSpace::MultiDiscrete { sizes }) => {
                let bad = |(row, k): (&[i32], usize)| row[k] as u32 >= sizes[k];
                for (env, row) in indices.chunks_exact(components).enumerate() {
                    if let Some(k) = (0..components).find(|&k| bad((row, k))) {
                        let what = format!("component {k} of the action of environment {env}");
                        let allowed = format!("a whole number from 0 to {}", sizes[k] - 1);
                        return Err(Error::out_of_range(what, row[k], allowed));
                    }
                }
            }
            (Self::Continuous(values), _) => {
                if values.iter().fold(false, |any, value| any | !value.is_finite()) {
                    let at = values.iter().position(|value| !value.is_finite()).expect("one is not finite");
                    let what =
                        format!("component {} of the action of environment {}", at % components, at / components);
                    return Err(Error::out_of_range(what, values[at], "a finite number"));
                }
            }
            (Self::Discrete(_), ActionSpace::Box { .. }) => unreachable!("the kinds are equal"),
        }
        Ok(())
    }
}

/// Where a step writes its results: caller-owned arrays, row-major.
///
/// The `final_*` arrays have a meaning only for environments whose episode ended on this step. Two arrays
/// are for environments with constraints and may be empty without any.
#[derive(Debug)]
pub struct StepOut<'a, Obs = ObsMut<'a>> {
    /// Observations, `num_envs` rows.
    pub obs: Obs,
    /// Rewards.
    pub rewards: &'a mut [f32],
    /// Where the task itself ended.
    pub terminated: &'a mut [bool],
    /// Where the step limit was reached; the task may have ended at the same step.
    pub truncated: &'a mut [bool],
    /// The constraints that each environment violated, a bit each. The cost of the step is their number.
    pub violations: &'a mut [u32],
    /// The last observations of finished episodes, `num_envs` rows.
    pub final_obs: Obs,
    /// The returns of finished episodes.
    pub final_returns: &'a mut [f32],
    /// The lengths of finished episodes.
    pub final_lengths: &'a mut [u32],
    /// The costs of finished episodes.
    pub final_costs: &'a mut [u32],
}

/// Arrays that fit [`StepOut`], for callers that have none of their own.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // the fields are those of `StepOut`
pub struct StepBuffers<T = f32> {
    pub obs: Vec<T>,
    pub rewards: Vec<f32>,
    pub terminated: Vec<bool>,
    pub truncated: Vec<bool>,
    pub violations: Vec<u32>,
    pub final_obs: Vec<T>,
    pub final_returns: Vec<f32>,
    pub final_lengths: Vec<u32>,
    pub final_costs: Vec<u32>,
}

impl StepBuffers {
    /// Arrays for `num_envs` environments with observations of `obs_dim` reals.
    pub fn new(num_envs: usize, obs_dim: usize) -> Self {
        Self::of(num_envs, obs_dim)
    }
}

impl<T: ObsElement> StepBuffers<T> {
    /// Arrays for `num_envs` environments with observations of `obs_dim` components of type `T`.
    pub fn of(num_envs: usize, obs_dim: usize) -> Self {
        Self {
            obs: apart::filled(T::default(), num_envs * obs_dim),
            rewards: apart::filled(0.0, num_envs),
            terminated: apart::filled(false, num_envs),
            truncated: apart::filled(false, num_envs),
            violations: apart::filled(0, num_envs),
            final_obs: apart::filled(T::default(), num_envs * obs_dim),
            final_returns: apart::filled(0.0, num_envs),
            final_lengths: apart::filled(0, num_envs),
            final_costs: apart::filled(0, num_envs),
        }
    }

    /// The arrays as the target of a step.
    pub fn out(&mut self) -> StepOut<'_> {
        let out = self.typed_out();
        StepOut {
            obs: T::wrap(out.obs),
            final_obs: T::wrap(out.final_obs),
            rewards: out.rewards,
            terminated: out.terminated,
            truncated: out.truncated,
            violations: out.violations,
            final_returns: out.final_returns,
            final_lengths: out.final_lengths,
            final_costs: out.final_costs,
        }
    }

    fn typed_out(&mut self) -> StepOut<'_, &mut [T]> {
        StepOut {
            obs: &mut self.obs,
            rewards: &mut self.rewards,
            terminated: &mut self.terminated,
            truncated: &mut self.truncated,
            violations: &mut self.violations,
            final_obs: &mut self.final_obs,
            final_returns: &mut self.final_returns,
            final_lengths: &mut self.final_lengths,
            final_costs: &mut self.final_costs,
        }
    }
}

/// What happens after an episode has ended; the modes and their names are Gymnasium's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Autoreset {
    /// The next call ignores the action, starts a new episode and returns its first observation with
    /// reward 0 and both flags false. That call is not an environment step.
    #[default]
    NextStep,
    /// The same call starts a new episode and returns its first observation.
    SameStep,
    /// Nothing: stepping on is an error until the environment has been reset.
    Disabled,
}

/// Which environments to reset, and from which random streams.
#[derive(Clone, Copy, Debug)]
pub enum Reset<'a> {
    /// All, with streams from one seed for the whole batch: the native way.
    Seed(u64),
    /// All, with one seed for each environment. Environment `i` behaves like a batch of one with seed
    /// `seeds[i]` given this way; Gymnasium's rule for an integer `s` is the list `s, s + 1, ...`.
    Seeds(&'a [u64]),
    /// All; the streams go on with the next episode.
    All,
    /// Those where the mask is true; their streams go on with the next episode.
    Mask(&'a [bool]),
    /// Those where the mask is true: where there is a seed, with the stream of that seed as in [`Reset::Seeds`],
    /// elsewhere with the next episode. Needs streams of their own: a batch that was last seeded as a whole is refused.
    Reseed {
        /// Which environments to reset.
        mask: &'a [bool],
        /// Their seeds; those of others are passed over.
        seeds: &'a [Option<u64>],
    },
}

/// Many environments of one kind, stepped in lockstep.
pub trait Batch: Send {
    /// Names, spaces and limits, with the options and the step limit in force.
    fn spec(&self) -> &EnvSpec;
    /// Number of environments.
    fn num_envs(&self) -> usize;
    /// Starts episodes and writes the observations of all environments.
    fn reset_into(&mut self, reset: Reset<'_>, obs: ObsMut<'_>) -> Result<()>;
    /// Steps all environments. Wrong actions are refused before anything changes.
    fn step_into(&mut self, actions: Actions<'_>, out: StepOut<'_>) -> Result<()>;
    /// Writes the observations of all environments.
    fn observe_into(&self, obs: ObsMut<'_>) -> Result<()>;
    /// Writes which actions are legal now, for environments with discrete actions: for each environment a row
    /// with a flag for each choice, of all components one after the other (Gymnasium's convention for
    /// `MultiDiscrete`), [`ActionSpace::mask_len`] in all. All are true unless [`EnvSpec::action_mask`] says
    /// otherwise.
    fn action_masks_into(&self, masks: &mut [bool]) -> Result<()>;
    /// Advances all environments by `steps` steps under the roll-out's policy, new episodes starting in
    /// the same step, while a tile's state stays in registers or L1.
    fn advance(&mut self, rollout: &mut Rollout, steps: usize) -> Result<()>;
    /// Writes the actions that the roll-out's policy chooses now, and goes on to its next decision. For callers that
    /// want to see each action: with [`Batch::step_into`] after each call, new episodes starting in the same step, the
    /// steps are those of [`Batch::advance`]; the roll-out then has neither statistics nor a checksum of them.
    fn decide_into(&mut self, rollout: &mut Rollout, actions: ActionsMut<'_>) -> Result<()>;
    /// Writes where an episode has ended and no new one has started yet.
    fn ended_into(&self, ended: &mut [bool]) -> Result<()>;
    /// What happens after an episode has ended.
    fn autoreset(&self) -> Autoreset;
    /// Statistics of the episodes finished in [`Batch::step_into`] since the last reset of all.
    fn stats(&self) -> &EpisodeStats;
    /// The state of one environment, in the order of [`EnvSpec::state_names`].
    fn state(&self, env: usize) -> Result<Vec<f64>>;
    /// Sets the state of one environment; its step count and return start anew. The last state of an episode can be
    /// refused as impossible, because here it would be the first: only a [snapshot](Batch::snapshot) keeps ends.
    fn set_state(&mut self, env: usize, state: &[f64]) -> Result<()>;
    /// The value of a parameter in one environment.
    fn param(&self, name: &str, env: usize) -> Result<f64>;
    /// Sets a parameter: one value for all environments, or one for each.
    fn set_param(&mut self, name: &str, values: &[f64]) -> Result<()>;
    /// Everything needed to go on from here, as bytes.
    fn snapshot(&self) -> Vec<u8>;
    /// Goes back to a snapshot of a batch of the same shape; anything else is refused unchanged.
    fn restore(&mut self, snapshot: &[u8]) -> Result<()>;
    /// Takes some environments back to a snapshot, those where the mask is true, with their parameters and random
    /// streams; the others and the statistics stay as they are.
    fn restore_some(&mut self, snapshot: &[u8], mask: &[bool]) -> Result<()>;
    /// Memory the batch takes for each environment.
    fn bytes_per_env(&self) -> f64;
    /// Lanes the kernel runs in.
    fn lanes(&self) -> usize;
    /// Whether roll-outs under a policy go by rows, a [tile](Rollout::set_tile) at a time, and not in registers.
    fn goes_by_rows(&self, policy: &Policy) -> bool;
    /// Threads that share the work.
    fn threads(&self) -> usize;
}

// Inline, because an error is large and a step checks a dozen lengths.
#[inline(always)]
pub(crate) fn check_len(what: &str, actual: usize, expected: usize) -> Result<()> {
    if actual == expected { Ok(()) } else { wrong_len(what, actual, expected) }
}

#[cold]
fn wrong_len(what: &str, actual: usize, expected: usize) -> Result<()> {
    Err(Error::Length { what: what.to_owned(), actual, expected })
}
