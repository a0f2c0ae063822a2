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

/// Whether a slope is that of a loss, by the difference between two points `2h` apart: to a millionth of it.
///
/// Differences have errors of their own, which count where a slope is next to nothing: losses are rounded (ε of them, over
/// h), and are no parabolas (h² of their third derivative, which is as large as they are). Ten times that is let pass.
#[cfg(test)]
pub(crate) fn is_slope(slope: f64, difference: f64, h: f64, loss: f64) -> bool {
    let floor = 10.0 * (f64::EPSILON / h + h * h) * loss.abs();
    (difference - slope).abs() <= 1e-6 * difference.abs() + floor
}
