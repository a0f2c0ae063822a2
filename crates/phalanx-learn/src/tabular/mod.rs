//! Tabular Q-learning: an action value for every state and action, and nothing between them.
//!
//! | module | owns |
//! |---|---|
//! | `settings` | how a table learns and how the work is shared out: [`Settings`] |
//! | `schedule` | learning rates and exploration by number of transitions: [`Schedule`] |
//! | [`table`] | dense, sparse and hybrid tables with equal results |
//! | [`update`] | the update rule: Q-learning, SARSA, expected SARSA, double Q-learning; batches of transitions |
//! | [`explore`] | ε-greedy choice with masks, and its random words |
//! | `block` | environments whose observation is a state, stepped and learnt from: what all runtimes share |
//! | [`runtime`] | one thread; deterministic shards or private tables that are merged; one table without locks |
//! | `learner` | a table in training, whatever runs it: [`learner()`] |
//!
//! An environment with `opponent=self_play` lets the agent move for both sides in turn and rewards the side that has
//! just moved. A table then holds, for every position, what the side to move can expect. The next position is the other
//! side's, and what that one can expect this one loses: v = −max Q(s', a'). So self-play is learning with the discount
//! −γ, and nothing else.

mod block;
pub mod explore;
mod learner;
pub mod runtime;
mod schedule;
mod settings;
pub mod table;
#[cfg(test)]
mod tests;
pub mod update;

pub use block::Space;
pub use learner::{MakeBatch, TableLearner, learner};
pub use schedule::{Horizon, Schedule};
pub use settings::{Precision, Settings};
pub use table::{Kind, Table};
pub use update::{Algorithm, BatchUpdate};
