//! Where environments, learners and the lab meet: what the `phalanx` command and the Python package share.
//!
//! | module | owns |
//! |---|---|
//! | [`environments`] | environments of the registry as learning takes them: made, and drawn |
//! | [`kinds`] | which kinds of measurement go together with which agents |
//! | [`learning`] | cases of the lab in which an agent learns |
//! | [`learner_subject`], [`rollout_subject`] | training and roll-outs as the auto-tuner sees them |
//! | [`tuning`] | what is tuned for whom, and a run with what was found |

pub mod environments;
mod error;
pub mod kinds;
pub mod learner_subject;
pub mod learning;
pub mod rollout_subject;
pub mod tuning;

pub use environments::Registered;
pub use error::{Error, Result, stopped};
