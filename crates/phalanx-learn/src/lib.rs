//! Agents that learn on the Phalanx engine.
//!
//! | module | owns |
//! |---|---|
//! | [`learner`] | what the trainer knows of an agent |
//! | [`nn`] | small networks: layers, gradients, initialisation, optimisers, schedules, action distributions |
//! | [`random`] | streams of random numbers by purpose, each with a position that can be stored |
//! | [`returns`] | generalised advantages and λ-returns, with the right ends |
//! | [`run`] | what a training run is but its agent: settings, folder, logs, checkpoints, episodes |
//! | [`state`] | named arrays and values: what a run needs to go on |

mod error;
pub mod learner;
pub mod nn;
pub mod random;
pub mod returns;
pub mod run;
pub mod state;

pub use error::{Error, Result};
