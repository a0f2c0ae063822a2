//! Limits of safe operation as data, and the scaling that `normalize_obs` applies to what they look at.

use phalanx_core::lanes::Real;

/// A limit on one observed quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// What it is called in reports.
    pub name: &'static str,
    /// The name of the observation that is limited.
    pub signal: &'static str,
    /// The smallest safe value.
    pub low: Option<f64>,
    /// The largest safe value.
    pub high: Option<f64>,
    /// Whether breaking it ends the episode.
    pub hard: bool,
}

impl Limit {
    /// The same limit on a normalised observation.
    pub(crate) fn scaled(self, names: &[&str], ranges: &[[f64; 2]]) -> Self {
        let place = names.iter().position(|name| *name == self.signal).expect("a limit is on an observation");
        let scale = |bound: Option<f64>| bound.map(|bound| scaled(bound, ranges[place]));
        Self { low: scale(self.low), high: scale(self.high), ..self }
    }
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
