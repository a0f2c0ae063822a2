//! The environments of Phalanx, one file each.
//!
//! [`registry`] finds them by name; everything else of this crate is written against
//! [`phalanx_core::env::LaneEnv`] only. `CONTRIBUTING.md` shows how to add one.
//!
//! ```
//! use phalanx_core::batch::{Actions, BatchConfig, StepBuffers};
//! use phalanx_envs::registry;
//!
//! # fn main() -> phalanx_core::Result<()> {
//! let config = BatchConfig { num_envs: 1_000, seed: 7, ..BatchConfig::default() };
//! let mut batch = registry::find("CartPole-v1")?.batch(&config)?;
//! let mut buffers = StepBuffers::new(1_000, batch.spec().observation.dim());
//! let push_right = vec![1; 1_000];
//! for _ in 0..20 {
//!     batch.step_into(Actions::Discrete(&push_right), buffers.out())?;
//! }
//! // Pushing in one direction tips the pole over after eight to eleven steps.
//! assert!(batch.stats().lengths().unwrap().mean < 12.0);
//! # Ok(())
//! # }
//! ```

mod acrobot;
mod cartpole;
mod gene_circuits;
#[cfg(test)]
mod golden;
mod mountain_car;
mod mountain_car_continuous;
mod pendulum;
mod pendulum_control;
pub mod reaction;
pub mod registry;

pub use acrobot::Acrobot;
pub use cartpole::CartPole;
pub use gene_circuits::{Ccasr, CcasrGfpControl, CcasrGfpSysid, OptoHill, OptoHillSysid};
pub use mountain_car::MountainCar;
pub use mountain_car_continuous::MountainCarContinuous;
pub use pendulum::Pendulum;
pub use pendulum_control::PendulumControl;
