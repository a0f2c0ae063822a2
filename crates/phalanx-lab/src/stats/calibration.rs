//! Calibration on identical code: what the machine and the tests show where nothing differs.

use serde::{Deserialize, Serialize};

use super::descriptive::quantile;
use super::interval::{CONFIDENCE, Interval, clopper_pearson};

/// The least threshold: no machine is trusted below half a per cent.
const FLOOR: f64 = 0.005;

/// The share of false alarms that intervals of 95 % promise.
const NOMINAL: f64 = 0.05;

/// One comparison of a binary with itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Identical {
    /// Mean log ratio.
    pub log_ratio: f64,
    /// Its deciding interval.
    pub interval: Interval,
}

/// What comparisons of identical code show.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Number of comparisons; below 200 they say little about false alarms.
    pub comparisons: usize,
    /// Comparisons whose interval excludes 0.
    pub false_alarms: usize,
    /// Interval of the probability of a false alarm.
    pub false_alarm_rate: Interval,
    /// Log ratios up to this mean nothing (θ): 95 % of identical code stays below it.
    pub threshold: f64,
    /// Whether false alarms are certainly too frequent; verdicts are then noisy.
    pub miscalibrated: bool,
}

impl Calibration {
    /// Summarises comparisons of identical code; `None` without any.
    pub fn of(comparisons: &[Identical]) -> Option<Self> {
        if comparisons.is_empty() {
            return None;
        }
        let false_alarms = comparisons.iter().filter(|comparison| !comparison.interval.contains(0.0)).count();
        let false_alarm_rate = clopper_pearson(false_alarms as u64, comparisons.len() as u64, CONFIDENCE);
        let sizes: Vec<f64> = comparisons.iter().map(|comparison| comparison.log_ratio.abs()).collect();
        Some(Self {
            comparisons: comparisons.len(),
            false_alarms,
            false_alarm_rate,
            threshold: quantile(&sizes, 0.95).max(FLOOR),
            miscalibrated: false_alarm_rate.low > NOMINAL,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::{assert_close, assert_near};

    fn identical(log_ratio: f64) -> Identical {
        Identical { log_ratio, interval: Interval::around(log_ratio, 0.02) }
    }

    #[test]
    fn sixty_comparisons() {
        let calibration = Calibration::of(&[vec![identical(0.006); 57], vec![identical(-0.03); 3]].concat()).unwrap();
        assert_eq!((calibration.comparisons, calibration.false_alarms), (60, 3));
        assert_near(calibration.false_alarm_rate.high, 0.139_24, 1e-5);
        // Rank 59·0.95 = 56.05 of the sizes lies between the last 0.006 and the first 0.03.
        assert_close(calibration.threshold, 0.006 + 0.05 * 0.024);
        assert!(!calibration.miscalibrated);
    }

    #[test]
    fn too_many_false_alarms_and_the_floor() {
        let calibration = Calibration::of(&[vec![identical(0.001); 80], vec![identical(0.03); 20]].concat()).unwrap();
        assert!(calibration.miscalibrated);
        assert_eq!(Calibration::of(&[identical(0.001)]).unwrap().threshold, FLOOR);
        assert_eq!(Calibration::of(&[]), None);
    }
}
