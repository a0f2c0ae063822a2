//! Environments that vectorise inside one copy.
//!
//! A grid world whose row fits one register gains nothing from eight copies side by side. Such an
//! environment implements [`SoloEnv`]: one copy, stepped in place. The engine runs it behind the same
//! [`Batch`](crate::batch::Batch) interface, with the same randomness, autoreset and snapshots.

use crate::batch::{Actions, ObsElement};
use crate::env::COUNTERS;
use crate::error::Result;
use crate::rng::{self, Draws};
use crate::space::EnvSpec;

/// An action for one environment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SoloAction<'a> {
    /// An index.
    Discrete(u32),
    /// An index for each component.
    Multi(&'a [i32]),
    /// A value for each component.
    Continuous(&'a [f32]),
}

impl SoloAction<'_> {
    /// One component as a real number.
    pub fn component(&self, k: usize) -> f32 {
        match self {
            Self::Discrete(index) => *index as f32,
            Self::Multi(indices) => indices[k] as f32,
            Self::Continuous(values) => values[k],
        }
    }
}

/// What a step of one environment gives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
    /// What observations are made of: `f32` or `i8`.
    type Elem: ObsElement;

    /// Names, spaces and limits.
    fn spec(&self) -> EnvSpec;

    /// Makes a batch-wide choice; `name` is already known to be in [`EnvSpec::options`], and `value` to be
    /// one of its choices if it has any.
    fn set_option(&mut self, name: &str, value: &str) -> Result<()> {
        unreachable!("no option {name} = {value} in the spec");
    }

    /// Checks the options against each other and does what follows from all of them, such as reading files.
    /// Called once, after the last [`SoloEnv::set_option`].
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Turns `state` into a start state.
    fn reset(&self, state: &mut Self::State, draws: &mut Draws<f32>);

    /// One step, in place.
    fn step(&self, state: &mut Self::State, action: SoloAction<'_>, draws: &mut Draws<f32>) -> Outcome;

    /// Steps up to [`BLOCK`](crate::lanes::BLOCK) environments with an action each, and answers whether it did; if
    /// not, it has left them as they were, and each is stepped by itself. For environments that are faster together and draw nothing. The results must be
    /// those of [`SoloEnv::step`]. A state whose episode has ended may be among them; what becomes of it does not
    /// matter, because it is reset next.
    fn step_block(&self, _states: &mut [Self::State], _actions: Actions<'_>, _outcomes: &mut [Outcome]) -> bool {
        false
    }

    /// Writes what a policy sees of a state.
    fn observe(&self, state: &Self::State, obs: &mut [Self::Elem]);

    /// Whether a choice of component `k` of a discrete action is legal; asked where
    /// [`EnvSpec::action_mask`] says that some are not. Components are judged one by one, as in the masks of
    /// Gymnasium's `MultiDiscrete`.
    fn is_legal(&self, _state: &Self::State, _k: usize, _choice: u32) -> bool {
        true
    }

    /// Chooses among the legal ones of the `n` choices of component `k`, by a call of `below(m)`, which draws a
    /// number from 0 to `m - 1`; 0 where none is legal. An environment with many choices may know a way that
    /// does not ask for each.
    ///
    /// An environment in lanes with the same masks draws the same actions; beyond ten of them, but for one draw
    /// in 2^27.
    fn choose_legal(&self, state: &Self::State, k: usize, n: u32, below: &dyn Fn(u32) -> u32) -> u32 {
        let legal = || (0..n).filter(|choice| self.is_legal(state, k, *choice));
        match legal().count() as u32 {
            0 => 0,
            // Lanes have an order of their own for a word of choices.
            count if n <= u32::BITS => {
                rng::ranked_bit(legal().fold(0, |bits, choice| bits | 1 << choice), below(count), n)
            }
            count => legal().nth(below(count) as usize).expect("a rank below their number"),
        }
    }

    /// How a finished episode went, from its last state: what [`EnvSpec::scores`] names, in numbers that are not
    /// negative; `None` if there is nothing to score it by. A run shows the means over scored episodes.
    fn scores(&self, _state: &Self::State) -> Option<[f32; COUNTERS]> {
        None
    }

    /// A field of the state as a number, by its place in [`EnvSpec::state_names`].
    fn state_value(&self, state: &Self::State, field: usize) -> f64;

    /// Sets the state from numbers; their count and finiteness are already checked.
    fn set_state_values(&self, state: &mut Self::State, values: &[f64]) -> Result<()>;
}
