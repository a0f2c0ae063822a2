//! Agents that learn on the Phalanx engine.
//!
//! | module | owns |
//! |---|---|
//! | [`agents`] | what learns with networks |
//! | [`classical`] | random, PID, bang-bang and periodic policies as agents |
//! | [`evaluation`] | how good an agent is: whole episodes with its best actions |
//! | [`learner`] | what the trainer knows of an agent |
//! | [`nn`] | small networks: layers, gradients, initialisation, optimisers, schedules, action distributions |
//! | [`random`] | streams of random numbers by purpose, each with a position that can be stored |
//! | [`returns`] | generalised advantages and λ-returns, with the right ends |
//! | [`run`] | settings of a run, and everything it leaves on disk |
//! | [`sweep`] | which runs a sweep consists of |
//! | [`state`] | named arrays and values: what a run needs to go on |
//! | [`tabular`] | what learns with tables |
//! | [`trainer`] | a run from its configuration to its results |
//! | [`world`] | the environments an agent learns on, as it sees them |

pub mod agents;
pub mod classical;
mod error;
pub mod evaluation;
pub mod learner;
pub mod nn;
pub mod random;
pub mod returns;
pub mod run;
pub mod state;
pub mod sweep;
pub mod tabular;
pub mod trainer;
pub mod world;

pub use error::{Error, Result};
