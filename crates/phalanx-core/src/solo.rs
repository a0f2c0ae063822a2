//! Environments that vectorise inside one copy.
//!
//! A grid world whose row fits one register gains nothing from eight copies side by side. Such an
//! environment implements [`SoloEnv`]: one copy, stepped in place. The engine runs it behind the same
//! [`Batch`](crate::batch::Batch) interface, with the same randomness, autoreset and snapshots.

use crate::error::Result;
use crate::rng::Draws;
use crate::space::EnvSpec;

/// An action for one environment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SoloAction<'a> {
    /// An index.
    Discrete(u32),
    /// A value for each component.
    Continuous(&'a [f32]),
}

/// What a step of one environment gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The reward of the step.
    pub reward: f32,
    /// Whether the task itself ended.
    pub terminated: bool,
}

/// An environment stepped one copy at a time.
pub trait SoloEnv: Clone + Send + Sync + 'static {
    /// What changes from step to step; plain data, so that a snapshot is a copy.
    type State: bytemuck::Pod + Send + Sync;

    /// Names, spaces and limits.
    fn spec(&self) -> EnvSpec;

    /// Makes a batch-wide choice; `name` and `value` are already known to be in [`EnvSpec::options`].
    fn set_option(&mut self, name: &str, value: &str) {
        unreachable!("no option {name} = {value} in the spec");
    }

    /// Turns `state` into a start state.
    fn reset(&self, state: &mut Self::State, draws: &mut Draws<f32>);

    /// One step, in place.
    fn step(&self, state: &mut Self::State, action: SoloAction<'_>, draws: &mut Draws<f32>) -> Outcome;

    /// Writes what a policy sees of a state.
    fn observe(&self, state: &Self::State, obs: &mut [f32]);

    /// The state as numbers, in the order of [`EnvSpec::state_names`].
    fn state_values(&self, state: &Self::State) -> Vec<f64>;

    /// Sets the state from numbers; their count and finiteness are already checked.
    fn set_state_values(&self, state: &mut Self::State, values: &[f64]) -> Result<()>;
}
