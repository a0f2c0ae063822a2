//! Warm-up and steady state of one process.

use serde::{Deserialize, Serialize};

use super::change_points::{Settings, detect};
use super::descriptive::{mean, median, theil_sen_slope};

/// Least number of samples that can be classified.
pub const MIN_SAMPLES: usize = 24;

/// Segments that differ by less are one (0.5 %, as a logarithm).
const MIN_CHANGE: f64 = 0.005;

/// Drift over the steady samples that is too much, as a share of their median.
const MAX_DRIFT: f64 = 0.01;

/// How the samples of a process settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmupClass {
    /// One level from the first sample on.
    Flat,
    /// The last level is the fastest.
    WarmsUp,
    /// The last level is slower than an earlier one.
    SlowsDown,
    /// The last level is too short to be called steady.
    NoSteadyState,
}

/// Which samples of a process are steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteadyState {
    /// How the process settled.
    pub class: WarmupClass,
    /// Samples before the last level; the rest are steady.
    pub discarded: usize,
    /// Whether the last level still moves by more than 1 % of its median.
    pub drifting: bool,
}

impl SteadyState {
    /// Classifies the times of one process, from its first sample; `None` below [`MIN_SAMPLES`].
    pub fn of(times: &[f64]) -> Option<Self> {
        if times.len() < MIN_SAMPLES {
            return None;
        }
        let logs: Vec<f64> = times.iter().map(|time| time.ln()).collect();
        let detection = detect(&logs, &Settings::whole(logs.len(), MIN_CHANGE));
        let segments = detection.segments(logs.len());
        let levels: Vec<f64> = segments.iter().map(|segment| mean(&logs[segment.clone()])).collect();
        let (discarded, level) = (segments[segments.len() - 1].start, levels[levels.len() - 1]);
        let steady = &times[discarded..];
        let class = match discarded {
            0 => WarmupClass::Flat,
            _ if steady.len() < 8.max(times.len().div_ceil(3)) => WarmupClass::NoSteadyState,
            _ if levels.iter().any(|&earlier| earlier < level) => WarmupClass::SlowsDown,
            _ => WarmupClass::WarmsUp,
        };
        let drift = theil_sen_slope(steady) * steady.len() as f64;
        Some(Self { class, discarded, drifting: drift.abs() > MAX_DRIFT * median(steady) })
    }

    /// Whether the last level may be used.
    ///
    /// Drift is a label and does not count: over n samples of relative spread s, noise alone drifts by about
    /// s·√(12/n), which is more than 1 % on many machines.
    pub fn is_steady(&self) -> bool {
        self.class != WarmupClass::NoSteadyState
    }
}

/// Whether a campaign is noisy: more than one process in ten lacks a steady state.
pub fn is_noisy(processes: &[SteadyState]) -> bool {
    10 * processes.iter().filter(|process| !process.is_steady()).count() > processes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warming() -> Vec<f64> {
        let mut times = vec![12.1, 12.0, 11.9, 12.0, 12.1, 11.9];
        times.extend([10.0, 10.1, 9.9].repeat(6));
        times
    }

    fn class(times: &[f64]) -> (WarmupClass, usize, bool) {
        let SteadyState { class, discarded, drifting } = SteadyState::of(times).unwrap();
        (class, discarded, drifting)
    }

    #[test]
    fn warming_up_is_discarded() {
        assert_eq!(class(&warming()), (WarmupClass::WarmsUp, 6, false));
    }

    #[test]
    fn levels_are_classified() {
        let flat = [10.0, 10.1, 9.9].repeat(8);
        assert_eq!(class(&flat), (WarmupClass::Flat, 0, false));
        let mut reversed = warming();
        reversed.reverse();
        assert_eq!(class(&reversed), (WarmupClass::NoSteadyState, 18, true));
        let slower = [[10.0, 10.1, 9.9].repeat(5), [12.1, 12.0, 11.9].repeat(4)].concat();
        assert_eq!(class(&slower), (WarmupClass::SlowsDown, 15, false));
        let small_step = [[10.00, 10.01, 9.99].repeat(4), [10.03, 10.04, 10.02].repeat(4)].concat();
        assert_eq!(class(&small_step), (WarmupClass::Flat, 0, false));
        assert_eq!(SteadyState::of(&flat[1..]), None);
    }

    #[test]
    fn drift_is_labelled() {
        // 2 % over the series between alternating samples that are 6 % apart: no level stands out, the slope does.
        let times: Vec<f64> = (0..60).map(|i| 10.0 + 0.6 * f64::from(i % 2) + 0.2 * f64::from(i) / 60.0).collect();
        assert_eq!(class(&times), (WarmupClass::Flat, 0, true));
    }

    #[test]
    fn one_in_ten_may_be_unsteady() {
        let steady = SteadyState { class: WarmupClass::Flat, discarded: 0, drifting: false };
        let unsteady = SteadyState { class: WarmupClass::NoSteadyState, ..steady };
        let mut processes = vec![steady; 9];
        processes.push(unsteady);
        assert!(!is_noisy(&processes));
        processes.push(unsteady);
        assert!(is_noisy(&processes));
    }
}
