//! Paired comparison of two binaries that took turns on one machine.

use serde::{Deserialize, Serialize};

use super::bootstrap::{self, Bootstrap};
use super::descriptive::Moments;
use super::interval::{Interval, TTest, one_sample_t_test};

/// How an interval was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Student's interval of the mean log ratio of pairs.
    Student,
    /// The bootstrap over pairs.
    Bootstrap,
}

/// A against B in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Number of pairs.
    pub pairs: usize,
    /// Mean of ln(t_A / t_B) and its test; positive if B is faster.
    pub test: TTest,
    /// Standard deviation of the log ratios.
    pub sd: f64,
    /// Student's interval of the mean log ratio.
    pub student: Interval,
    /// The bootstrapped mean log ratio.
    pub bootstrap: Bootstrap,
    /// The wider interval, which decides: the percentile bootstrap is too narrow for few pairs.
    pub deciding: Interval,
    /// Which of the two that is.
    pub method: Method,
}

impl Comparison {
    /// Compares A with B by the log ratio ln(t_A / t_B) of each pair; `None` below two pairs. What happens inside a pair
    /// is in its ratio already: samples that resemble their neighbours cannot make an interval too narrow.
    ///
    /// `confidence` is 0.95 for one look at the pairs; a plan of two looks takes half the error for each (0.975).
    pub fn of(log_ratios: &[f64], confidence: f64, seed: u64) -> Option<Self> {
        let bootstrap = bootstrap::of_mean(log_ratios, confidence, seed)?;
        let moments = Moments::of(log_ratios);
        let test = one_sample_t_test(&moments)?;
        let student = test.interval(confidence);
        let (deciding, method) = match bootstrap.interval.width() > student.width() {
            true => (bootstrap.interval, Method::Bootstrap),
            false => (student, Method::Student),
        };
        let sd = moments.sample_variance()?.sqrt();
        Some(Self { pairs: log_ratios.len(), test, sd, student, bootstrap, deciding, method })
    }

    /// How many times B is faster than A.
    pub fn speed_up(&self) -> f64 {
        self.test.difference.exp()
    }

    /// The deciding interval of the speed-up.
    pub fn speed_up_interval(&self) -> Interval {
        self.deciding.map(f64::exp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::interval::CONFIDENCE;
    use crate::stats::testing::{assert_close, assert_near, share};

    #[test]
    fn six_pairs() {
        let a = [10.20, 10.05, 10.40, 10.10, 10.30, 10.15];
        let b = [9.90, 9.85, 10.00, 9.95, 9.92, 9.88];
        let logs: Vec<f64> = a.into_iter().zip(b).map(|(a, b): (f64, f64)| (a / b).ln()).collect();
        let comparison = Comparison::of(&logs, CONFIDENCE, 0).unwrap();
        assert_close(comparison.test.difference, 0.028_114_98);
        assert_close(comparison.sd, 0.009_536_06);
        assert_close(comparison.student.low, 0.018_107_50);
        assert_close(comparison.student.high, 0.038_122_47);
        assert_near(comparison.test.t(), 7.2218, 5e-5);
        assert_near(comparison.test.p, 0.000_793_89, 5e-9);
        assert!(comparison.method == Method::Student && comparison.bootstrap.enumerated);
        assert_near(comparison.speed_up(), 1.0285, 5e-5);
        assert_near(comparison.speed_up_interval().low, 1.0183, 5e-5);
        assert_near(comparison.speed_up_interval().high, 1.0389, 5e-5);
    }

    #[test]
    fn the_wider_interval_decides() {
        // Two values only: the quantiles of their means lie on a grid, and here on its far side.
        let coins = [1.0, -1.0].repeat(50);
        let comparison = Comparison::of(&coins, CONFIDENCE, 1).unwrap();
        assert_eq!((comparison.method, comparison.deciding), (Method::Bootstrap, comparison.bootstrap.interval));
        assert_eq!(Comparison::of(&coins[..1], CONFIDENCE, 1), None);
    }

    #[test]
    fn the_deciding_interval_covers_the_ratio() {
        // No difference: an interval without 0 is a false alarm.
        let covered = share(9, 150, |random| {
            let logs: Vec<f64> = (0..7).map(|_| 0.01 * random.normal()).collect();
            Comparison::of(&logs, CONFIDENCE, 4).unwrap().deciding.contains(0.0)
        });
        assert!((0.9..=0.99).contains(&covered), "{covered}");
    }
}
