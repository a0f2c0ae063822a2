//! Elementary functions, one generic source for `f32` and its lanes.
use crate::lanes::{Lanes};
mod trig;
pub use trig::sin_cos;
pub(crate) fn exp<R: Lanes>(x: R) -> R { x }
pub(crate) fn ln<R: Lanes>(x: R) -> R { R::from_lanes(|l| x.lane_f64(l).ln()) }
pub(crate) fn pow<R: Lanes>(x: R, _y: R) -> R { x }
pub(crate) fn atan2<R: Lanes>(y: R, _x: R) -> R { y }
