//! The scaling of `normalize_obs`, of observations and of the constraints that look at them.

use phalanx_core::lanes::Real;
use phalanx_core::safety::{Bound, Constraint};

/// The same constraints on normalised observations, which are called `names`.
pub(crate) fn normalized_constraints(
    constraints: Vec<Constraint>,
    names: &[&str],
    ranges: &[[f64; 2]],
) -> Vec<Constraint> {
    let normalized = |constraint: Constraint| {
        let place = names.iter().position(|name| *name == constraint.signal).expect("a constraint on an observation");
        let scale =
            |bound: Option<Bound>| bound.map(|bound| Bound { value: scaled(bound.value, ranges[place]), ..bound });
        Constraint { low: scale(constraint.low), high: scale(constraint.high), ..constraint }
    };
    constraints.into_iter().map(normalized).collect()
}

/// `range` mapped to [-1, 1].
pub(crate) fn scaled(x: f64, [low, high]: [f64; 2]) -> f64 {
    (x - 0.5 * (low + high)) * (2.0 / (high - low))
}

/// Each range mapped to [-1, 1].
#[inline(always)]
pub(crate) fn normalized<R: Real, const N: usize>(obs: [R; N], ranges: &[[f64; 2]; N]) -> [R; N] {
    std::array::from_fn(|i| {
        let [low, high] = ranges[i];
        (obs[i] - R::splat(0.5 * (low + high))) * R::splat(2.0 / (high - low))
    })
}
