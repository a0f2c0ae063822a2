//! Agents that learn on the Phalanx engine.
//!
//! ```
//! use phalanx_core::batch::BatchConfig;
//! use phalanx_learn::{EvalOptions, TrainOptions, create_config, evaluate, train_and_evaluate};
//!
//! // A preset lies under these settings; keys without a section are enough where only one section knows them.
//! let settings = [("num_envs", "8"), ("total_timesteps", "8192"), ("learning_rate", "1e-3")];
//! let config = create_config("CartPole-v1", "ppo", &settings)?;
//! let cart_pole = phalanx_envs::registry::find("CartPole-v1")?;
//! let environments = |batch: &BatchConfig| cart_pole.batch(batch);
//!
//! let trained = train_and_evaluate(&config, &environments, TrainOptions::default())?;
//! let last = trained.summary().final_eval_return_mean;
//!
//! // The same start states and the same agent: the last evaluation again.
//! let agent_state = Some(trained.agent_state);
//! let found = evaluate(&config, &environments, EvalOptions { agent_state, ..EvalOptions::default() })?;
//! assert_eq!(Some(found.summary().mean_return), last);
//! # Ok::<(), phalanx_learn::Error>(())
//! ```
//!
//! | module | owns |
//! |---|---|
//! | [`agents`] | what learns with networks |
//! | [`api`] | training and evaluation in one call each |
//! | [`classical`] | random, PID, bang-bang and periodic policies as agents |
//! | [`environments`] | where environments come from |
//! | [`evaluation`] | how good an agent is: whole episodes with its best actions |
//! | [`learner`] | what the trainer knows of an agent |
//! | `memory` | what arrays will take, before they are made |
//! | [`nn`] | small networks: layers, gradients, initialisation, optimisers, schedules, action distributions |
//! | [`random`] | streams of random numbers by purpose, each with a position that can be stored |
//! | [`returns`] | generalised advantages and λ-returns, with the right ends |
//! | [`run`] | settings of a run, and everything it leaves on disk |
//! | [`stages`] | where the time of a run goes |
//! | `stop` | who wants work to end in its midst |
//! | [`sweep`] | which runs a sweep consists of |
//! | [`state`] | named arrays and values: what a run needs to go on |
//! | [`tabular`] | what learns with tables |
//! | [`trainer`] | a run from its configuration to its results |
//! | [`world`] | the environments an agent learns on, as it sees them |

#![deny(unsafe_code)]

pub mod agents;
pub mod api;
pub mod classical;
pub mod environments;
mod error;
pub mod evaluation;
pub mod learner;
mod memory;
pub mod nn;
pub mod random;
pub mod returns;
pub mod run;
pub mod stages;
pub mod state;
mod stop;
pub mod sweep;
pub mod tabular;
pub mod trainer;
pub mod world;

pub use api::{
    Drawn, EvalOptions, EvaluationResults, EvaluationSummary, Host, Observer, TrainOptions, TrainingResults, evaluate,
    resume, train_and_evaluate,
};
pub use environments::Environments;
pub use error::{Error, Result, explain};
pub use run::config::{Config, create_config, create_eval_config};
pub use run::directory::load_run;
pub use stop::Stop;
