//! The environments of Phalanx, one file each.
//!
//! [`registry`] finds them by name; everything else of this crate is written against
//! [`phalanx_core::env::LaneEnv`] only, except [`arc`], whose grids fill a register by themselves.
//! `CONTRIBUTING.md` shows how to add one.
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
pub mod arc;
mod cartpole;
mod chemical_reactor;
pub mod draw;
mod gene_circuits;
#[cfg(test)]
mod golden;
mod limits;
mod mountain_car;
mod mountain_car_continuous;
mod pendulum;
mod pendulum_control;
pub mod reaction;
// The unit tests use probes only; without the batches of every environment they build in half the time.
#[cfg(not(test))]
pub mod registry;
mod rk4;
mod tic_tac_toe;
mod two_armed_bandit;
mod van_de_vusse;

pub use acrobot::Acrobot;
pub use cartpole::CartPole;
pub use chemical_reactor::ChemicalReactor;
pub use gene_circuits::{Ccasr, CcasrGfpControl, CcasrGfpSysid, OptoHill, OptoHillSysid};
pub use mountain_car::MountainCar;
pub use mountain_car_continuous::MountainCarContinuous;
pub use pendulum::Pendulum;
pub use pendulum_control::PendulumControl;
pub use tic_tac_toe::TicTacToe;
pub use two_armed_bandit::TwoArmedBandit;
pub use van_de_vusse::VanDeVusse;
