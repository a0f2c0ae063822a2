//! Elementary functions, one generic source for `f32` and its lanes.
//!
//! Every function is straight arithmetic on [`Lanes`](crate::lanes::Lanes), without tables and without
//! branches on data (but one in [`sin_cos`], which cannot change a bit). Scalar and lanes therefore give
//! the same bits, on every machine: the standard library's functions, which differ between platforms,
//! are only the reference in the tests.
//!
//! Worst errors against `f64`, in units of the `f32` spacing at the exact result:
//!
//! | function    | domain                          | limit | measured | over                   |
//! |-------------|---------------------------------|-------|----------|------------------------|
//! | [`sin_cos`] | abs(x) <= 10^4                  | 2 ulp | 1.69 sin | every `f32`            |
//! |             |                                 | 2 ulp | 1.72 cos | every `f32`            |
//! | [`exp`]     | all results, subnormal included | 2 ulp | 1.02     | every `f32`            |
//! | [`ln`]      | x > 0, subnormal included       | 2 ulp | 1.29     | every `f32`            |
//! | [`pow`]     | base >= 0, normal results       | 4 ulp | 2.57     | 4·10^8 random pairs    |
//! | [`atan2`]   | all                             | 4 ulp | 2.13     | 4·10^8 random pairs    |
//!
//! [`ln_normal`] and [`pow_normal`] are cheaper twins for loops that know their arguments.
//!
//! What happens outside a domain, and at zeros, infinities and NaN, is said at each function.

#[cfg(test)]
mod accuracy;
mod atan2;
mod exp_ln;
mod parts;
mod pow;
mod trig;

pub use atan2::atan2;
pub use exp_ln::{exp, ln, ln_normal};
pub use pow::{pow, pow_normal};
pub use trig::sin_cos;
