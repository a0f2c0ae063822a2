//! Tabular Q-learning: an action value for every state and action, and nothing between them.
//!
//! | module | owns |
//! |---|---|
//! | [`table`] | dense, sparse and hybrid tables with equal results |
//! | [`update`] | the update rule: Q-learning, SARSA, expected SARSA, double Q-learning; batches of transitions |
//! | [`explore`] | ε-greedy choice with masks, and its random words |
//! | `schedule` | learning rates and exploration by number of transitions: [`Schedule`] |
//! | `block` | environments whose observation is a state, stepped and learnt from: what all runtimes share |
//! | [`single`] | one thread |
//! | [`parallel`] | threads on one table: deterministic shards, or without locks |
//! | [`balance`] | work shared out by measured speed |
//! | [`self_play`] | one table that plays both sides |

pub mod balance;
mod block;
pub mod explore;
pub mod parallel;
mod schedule;
pub mod self_play;
pub mod single;
pub mod table;
#[cfg(test)]
mod tests;
pub mod update;

use serde::{Deserialize, Serialize};

pub use block::Space;
pub use schedule::Schedule;
pub use table::{Kind, Table};
pub use update::{Algorithm, BatchUpdate};

use crate::error::{Error, Result};

/// The numbers of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // named after the types
pub enum Precision {
    #[default]
    F32,
    F64,
}

/// How a table learns, whatever runs it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How values are stored; default `auto`, which does not change results.
    pub table: Kind,
    /// The numbers of the table; default `f32`, the faster.
    pub precision: Precision,
    /// Which value the next state has; default `q_learning`.
    pub algorithm: Algorithm,
    /// What transitions of one step of all environments see of each other; default `sequential`.
    pub batch_update: BatchUpdate,
    /// The discount; default 0.97.
    pub gamma: f64,
    /// How far a value moves towards its target; default 0.1.
    pub learning_rate: Schedule,
    /// The probability of a random action; default 0.1.
    pub epsilon: Schedule,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            table: Kind::default(),
            precision: Precision::default(),
            algorithm: Algorithm::default(),
            batch_update: BatchUpdate::default(),
            gamma: 0.97,
            learning_rate: Schedule::Constant(0.1),
            epsilon: Schedule::Constant(0.1),
        }
    }
}

impl Settings {
    /// The recipe for tic-tac-toe: γ 0.99, rate 0.3 to 0.01 over the run, ε 1 to 0.1 over its first half.
    pub fn tic_tac_toe(transitions: u64) -> Self {
        Self {
            gamma: 0.99,
            learning_rate: Schedule::Linear { start: 0.3, end: 0.01, horizon: transitions },
            epsilon: Schedule::Linear { start: 1.0, end: 0.1, horizon: transitions / 2 },
            ..Self::default()
        }
    }

    /// Checks everything that does not depend on the environment.
    pub fn check(&self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.gamma) {
            return Err(Error::setting("agent.gamma", format!("is {}, but must be from 0 to 1", self.gamma)));
        }
        self.learning_rate.check("agent.learning_rate", true)?;
        self.epsilon.check("agent.epsilon", false)
    }

    fn rate(&self, transitions: u64) -> update::Rate {
        match self.learning_rate {
            Schedule::Visit { power } => update::Rate::Visits { power },
            schedule => update::Rate::Fixed(schedule.at(transitions)),
        }
    }

    fn by_visits(&self) -> bool {
        matches!(self.learning_rate, Schedule::Visit { .. })
    }
}
