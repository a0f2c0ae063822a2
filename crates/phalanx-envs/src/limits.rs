//! Limits of plants: where a step must stop, and the scaling of `normalize_obs`.

use phalanx_core::lanes::Real;
use phalanx_core::safety::{Bound, Constraint, SafetyMode};

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

/// The values of an observation that do not end the episode: what the constraints in force leave over.
/// `range` is the one that normalisation has mapped to [-1, 1], if it has.
pub(crate) fn safe_range(
    mode: SafetyMode,
    constraints: &[Constraint],
    signal: &str,
    range: Option<[f64; 2]>,
) -> [f64; 2] {
    let plain = |bound: f64| range.map_or(bound, |[low, high]| 0.5 * (low + high) + bound * 0.5 * (high - low));
    let ending = constraints.iter().filter(|c| mode == SafetyMode::Enforce && c.terminates && c.signal == signal);
    ending.fold([f64::NEG_INFINITY, f64::INFINITY], |[low, high], c| {
        let bound = |bound: Option<Bound>, none: f64| bound.map_or(none, |b| plain(b.value));
        [low.max(bound(c.low, f64::NEG_INFINITY)), high.min(bound(c.high, f64::INFINITY))]
    })
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
