//! Rules by which a run has regressed against a stored baseline of the same machine and kind.
//!
//! The percentages are the smallest effects worth reporting. A rule applies only if the whole interval of the change
//! lies beyond it, and beyond three times the noise of identical runs, so that identical binaries raise nothing.

use serde::{Deserialize, Serialize};

use super::interval::Interval;

/// Loss of throughput that is a regression.
const THROUGHPUT_LOSS: f64 = 10.0;

/// Loss of throughput that is a severe one.
const SEVERE_THROUGHPUT_LOSS: f64 = 20.0;

/// Growth of peak memory that is a regression.
const MEMORY_GROWTH: f64 = 20.0;

/// Change of throughput that quick suites print.
const NOTABLE_CHANGE: f64 = 5.0;

/// Noise that a change must exceed, as a multiple of the relative standard deviation of identical runs.
const NOISE_MULTIPLE: f64 = 3.0;

/// A change from the baseline in %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The change.
    pub percent: f64,
    /// Its interval.
    pub interval: Interval,
}

impl Change {
    /// The change between two numbers known exactly; `None` from 0, where per cent mean nothing.
    pub fn between(baseline: f64, current: f64) -> Option<Self> {
        (baseline != 0.0).then(|| {
            let percent = 100.0 * (current - baseline) / baseline;
            Self { percent, interval: Interval::point(percent) }
        })
    }

    /// The change of throughput that a log ratio ln(t_before / t_after) means.
    pub fn of_throughput(log_ratio: f64, interval: Interval) -> Self {
        let percent = |log_ratio: f64| 100.0 * log_ratio.exp_m1();
        Self { percent: percent(log_ratio), interval: interval.map(percent) }
    }

    fn is_loss(&self, threshold: f64) -> bool {
        self.interval.high < -threshold
    }

    fn is_gain(&self, threshold: f64) -> bool {
        self.interval.low > threshold
    }
}

/// How bad a regression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Beyond the rule.
    Medium,
    /// Far beyond it.
    High,
}

/// Growth of memory that does not count: the pages of a binary that happen to be in memory. Of processes of 10 MB, some
/// took 2 MB more than others on a busy machine.
const PAGING_MB: f64 = 4.0;

/// The change that counts: a rule, or three times the noise if that is more.
pub fn effective_threshold(rule_percent: f64, noise_percent: f64) -> f64 {
    rule_percent.max(NOISE_MULTIPLE * noise_percent)
}

/// Whether throughput has regressed.
pub fn throughput_regression(change: &Change, noise_percent: f64) -> Option<Severity> {
    let severity = if change.percent < -SEVERE_THROUGHPUT_LOSS { Severity::High } else { Severity::Medium };
    change.is_loss(effective_threshold(THROUGHPUT_LOSS, noise_percent)).then_some(severity)
}

/// Whether peak memory has regressed.
pub fn memory_regression(change: &Change, noise_percent: f64) -> Option<Severity> {
    change.is_gain(effective_threshold(MEMORY_GROWTH, noise_percent)).then_some(Severity::Medium)
}

/// The line that a quick suite prints about a benchmark, if its throughput changed notably.
pub fn notable_line(name: &str, change: &Change, noise_percent: f64) -> Option<String> {
    let threshold = effective_threshold(NOTABLE_CHANGE, noise_percent);
    let percent = change.percent.abs();
    match change {
        change if change.is_loss(threshold) => Some(format!("REGRESSION: {name} {percent:.1} % slower")),
        change if change.is_gain(threshold) => Some(format!("IMPROVEMENT: {name} {percent:.1} % faster")),
        _ => None,
    }
}

/// A benchmark against its baseline, as reports hold it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BaselineComparison {
    /// Change of throughput.
    pub throughput_change_percent: f64,
    /// Change of peak memory; `None` where the baseline used none.
    pub memory_change_percent: Option<f64>,
    /// Whether memory is used where the baseline used none.
    pub new_memory_use: bool,
    /// Whether throughput has regressed.
    pub performance_regression: bool,
    /// Whether peak memory has regressed, by more than the system's paging can explain.
    pub memory_regression: bool,
    /// The worse of both severities.
    pub severity: Option<Severity>,
    /// Relative standard deviation of identical runs.
    pub noise_percent: f64,
}

impl BaselineComparison {
    /// Changes of throughput up to this do not count.
    pub fn threshold_percent(&self) -> f64 {
        effective_threshold(THROUGHPUT_LOSS, self.noise_percent)
    }

    /// Whether the noise would hide even a severe loss: then nothing is known to be as it was.
    pub fn is_blind(&self) -> bool {
        self.threshold_percent() > SEVERE_THROUGHPUT_LOSS
    }

    /// Applies the rules to a change of throughput and to peak memory in MB (baseline, current). A process needs what it
    /// needs; only how much of its binary is in memory is the system's choice, so that growth by up to 4 MB does not count.
    pub fn of(throughput: &Change, (baseline_memory, current_memory): (f64, f64), noise_percent: f64) -> Self {
        let memory = Change::between(baseline_memory, current_memory);
        let performance = throughput_regression(throughput, noise_percent);
        let grown = memory.filter(|_| current_memory - baseline_memory > PAGING_MB);
        let more_memory = grown.and_then(|change| memory_regression(&change, 0.0));
        Self {
            throughput_change_percent: throughput.percent,
            memory_change_percent: memory.map(|change| change.percent),
            new_memory_use: baseline_memory == 0.0 && current_memory > 0.0,
            performance_regression: performance.is_some(),
            memory_regression: more_memory.is_some(),
            severity: performance.max(more_memory),
            noise_percent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::assert_close;

    fn from_100(current: f64) -> Change {
        Change::between(100.0, current).unwrap()
    }

    #[test]
    fn golden_changes() {
        for (current, percent, severity) in
            [(89.0, -11.0, Some(Severity::Medium)), (79.0, -21.0, Some(Severity::High)), (91.0, -9.0, None)]
        {
            assert_close(from_100(current).percent, percent);
            assert_eq!(throughput_regression(&from_100(current), 0.0), severity, "{current}");
        }
        assert_eq!(notable_line("q_table", &from_100(91.0), 0.0).unwrap(), "REGRESSION: q_table 9.0 % slower");
        assert_eq!(notable_line("q_table", &from_100(106.0), 0.0).unwrap(), "IMPROVEMENT: q_table 6.0 % faster");
        assert_eq!(notable_line("q_table", &from_100(96.0), 0.0), None);
        assert_eq!(memory_regression(&from_100(121.0), 0.0), Some(Severity::Medium));
        assert_eq!(memory_regression(&from_100(119.0), 0.0), None);
    }

    #[test]
    fn the_whole_interval_and_three_times_the_noise_decide() {
        let uncertain = Change { percent: -15.0, interval: Interval { low: -22.0, high: -8.0 } };
        assert_eq!(throughput_regression(&uncertain, 0.0), None);
        assert_eq!(throughput_regression(&from_100(85.0), 4.0), Some(Severity::Medium));
        assert_eq!(throughput_regression(&from_100(85.0), 6.0), None);
        assert_eq!(notable_line("q_table", &from_100(91.0), 3.5), None);
    }

    #[test]
    fn log_ratios_are_changes_of_throughput() {
        let change = Change::of_throughput(0.5_f64.ln(), Interval::around(0.5_f64.ln(), 0.01));
        assert_close(change.percent, -50.0);
        assert_eq!(throughput_regression(&change, 1.0), Some(Severity::High));
    }

    #[test]
    fn a_report_holds_both_rules() {
        let report = BaselineComparison::of(&from_100(79.0), (100.0, 121.0), 1.0);
        assert!(report.performance_regression && report.memory_regression && !report.new_memory_use);
        assert_eq!(report.severity, Some(Severity::High));
        let paging = BaselineComparison::of(&from_100(100.0), (8.5, 10.5), 1.0);
        assert!(!paging.memory_regression && paging.memory_change_percent.is_some_and(|percent| percent > 20.0));
        let new_memory = BaselineComparison::of(&from_100(100.0), (0.0, 5.0), 1.0);
        assert!(new_memory.new_memory_use && !new_memory.memory_regression);
        assert_eq!((new_memory.severity, new_memory.memory_change_percent), (None, None));
    }
}
