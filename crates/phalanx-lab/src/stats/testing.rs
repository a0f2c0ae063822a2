//! What the tests of the statistics share: comparing numbers, and series of known kinds.

use super::random::Stream;

/// Asserts equality within 1e-6 of the expected value.
#[track_caller]
pub(crate) fn assert_close(actual: f64, expected: f64) {
    assert_near(actual, expected, 1e-6 * expected.abs());
}

/// Asserts equality within a tolerance, for expected values that were rounded.
#[track_caller]
pub(crate) fn assert_near(actual: f64, expected: f64, tolerance: f64) {
    assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected} ± {tolerance:e}");
}

impl Stream {
    /// The next draw from the standard normal distribution (Box-Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.unit(), self.unit());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    /// A stationary series in which neighbours correlate by `rho`, with mean 0 and variance 1; white noise at 0.
    pub(crate) fn autocorrelated(&mut self, rho: f64, length: usize) -> Vec<f64> {
        let mut last = self.normal();
        let innovation = (1.0 - rho * rho).sqrt();
        let mut series = vec![last];
        series.resize_with(length, || {
            last = rho * last + innovation * self.normal();
            last
        });
        series
    }
}

/// The share of `trials` for which a trial with its own random numbers answers yes.
pub(crate) fn share(seed: u64, trials: u64, mut trial: impl FnMut(&mut Stream) -> bool) -> f64 {
    let successes = (0..trials).filter(|&k| trial(&mut Stream::new(seed, k))).count();
    successes as f64 / trials as f64
}
