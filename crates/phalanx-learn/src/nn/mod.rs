//! Small networks on a CPU: 64 by 64 weights live in the first-level cache, and so do some rows of activations.
//!
//! A [`Network`] is a list of layers over one flat vector of parameters. It has no weights of its own: parameters,
//! gradients and an optimiser's moments are plain slices of equal length, which makes an update one loop, a
//! checkpoint one copy and a sum over threads one addition. Rows go through the layers in tiles
//! ([`Tape`]), sixteen rows to a register; [`parallel`] shares tiles out to threads so that the sum of their gradients has
//! the same bits for any number of threads.
//!
//! Everything is generic over [`Scalar`]: agents compute in `f32`, and the tests compare every gradient with
//! differences in `f64`.

pub mod categorical;
pub mod gaussian;
pub mod init;
mod network;
mod optimizer;
pub mod parallel;
mod product;
mod scalar;
mod schedule;

pub use network::{Layer, Network, Tape};
pub use optimizer::{Optimizer, Rule, clip_norm};
pub(crate) use scalar::exp_all;
pub use scalar::{Scalar, Wide};
pub use schedule::Schedule;
