//! The environments of Phalanx, one file each.
//!
//! [`registry`] finds them by name; everything else of this crate is written against
//! [`phalanx_core::env::LaneEnv`] only. `CONTRIBUTING.md` shows how to add one.

mod acrobot;
mod cartpole;
#[cfg(test)]
mod golden;
mod mountain_car;
mod mountain_car_continuous;
mod pendulum;
mod pendulum_control;
pub mod registry;

pub use acrobot::Acrobot;
pub use cartpole::CartPole;
pub use mountain_car::MountainCar;
pub use mountain_car_continuous::MountainCarContinuous;
pub use pendulum::Pendulum;
pub use pendulum_control::PendulumControl;
