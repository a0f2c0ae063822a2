//! Agents that learn on the Phalanx engine.
//!
//! | module | owns |
//! |---|---|
//! | [`learner`] | what the trainer knows of an agent |
//! | [`nn`] | small networks: layers, gradients, initialisation, optimisers, schedules, action distributions |
//! | [`random`] | streams of random numbers by purpose, each with a position that can be stored |
//! | [`returns`] | generalised advantages and λ-returns, with the right ends |
//! | [`state`] | named arrays and values: what a run needs to go on |
//! | [`tabular`] | tables of action values: Q-learning and its kin, on one thread, on many, against itself |

mod error;
pub mod learner;
pub mod nn;
pub mod random;
pub mod returns;
pub mod state;
pub mod tabular;

pub use error::{Error, Result};
