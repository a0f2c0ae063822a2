//! Key figures with a target and an alert limit: met, between the two, alarming, or not shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stats::interval::Interval;
use crate::stats::verdict::{Better, KpiVerdict, judge_kpi};

/// The limits of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// What it should be better than.
    pub target: f64,
    /// What it must not be worse than.
    pub alert: f64,
    /// Which values are better.
    pub better: Better,
}

/// The limits of all figures by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Targets(pub BTreeMap<String, Limits>);

impl Default for Targets {
    /// The figures of an industrial environment and its learner.
    fn default() -> Self {
        let lower = |target, alert| Limits { target, alert, better: Better::Lower };
        let limits = [
            ("environment_step_time_ms", lower(1.0, 5.0)),
            ("policy_inference_time_ms", lower(0.1, 1.0)),
            ("safety_validation_overhead_percent", lower(10.0, 25.0)),
            ("memory_usage_per_episode_mb", lower(100.0, 500.0)),
            ("compilation_time_s", lower(5.0, 30.0)),
            ("training_throughput_steps_per_sec", Limits { target: 1000.0, alert: 100.0, better: Better::Higher }),
        ];
        Self(limits.into_iter().map(|(name, limits)| (name.to_owned(), limits)).collect())
    }
}

/// What was measured of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The value and its interval; nothing if it was not measured.
    pub measured: Option<(f64, Interval)>,
    /// Of what it is, or why there is nothing.
    pub source: String,
}

/// A figure held against its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kpi {
    /// The figure.
    pub name: String,
    /// Its value, if measured.
    pub value: Option<f64>,
    /// Its interval, if measured.
    pub interval: Option<Interval>,
    /// What it should be better than.
    pub target: f64,
    /// What it must not be worse than.
    pub alert: f64,
    /// Which values are better.
    pub better: Better,
    /// What follows.
    pub verdict: KpiVerdict,
    /// Of what it is, or why it is not shown.
    pub source: String,
}

/// Holds every figure that has limits against them, in the order of names.
pub fn check(figures: &BTreeMap<String, Figure>, targets: &Targets) -> Vec<Kpi> {
    let kpi = |(name, limits): (&String, &Limits)| {
        let figure = figures.get(name);
        let (value, interval) = figure.and_then(|figure| figure.measured).unzip();
        Kpi {
            name: name.clone(),
            value,
            interval,
            target: limits.target,
            alert: limits.alert,
            better: limits.better,
            verdict: judge_kpi(interval, limits.target, limits.alert, limits.better),
            source: figure.map_or_else(|| "not measured".to_owned(), |figure| figure.source.clone()),
        }
    };
    targets.0.iter().map(kpi).collect()
}

/// The figures among these that miss their target: between target and alert limit, or beyond that.
pub fn check_performance_targets(kpis: &[Kpi]) -> Vec<&Kpi> {
    kpis.iter().filter(|kpi| matches!(kpi.verdict, KpiVerdict::Warn | KpiVerdict::Alert)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(low: f64, high: f64) -> Figure {
        Figure { measured: Some((0.5 * (low + high), Interval { low, high })), source: "test".to_owned() }
    }

    #[test]
    fn figures_are_held_against_their_limits() {
        let figures = BTreeMap::from([
            ("environment_step_time_ms".to_owned(), figure(0.1, 0.2)),
            ("compilation_time_s".to_owned(), figure(6.0, 8.0)),
            ("memory_usage_per_episode_mb".to_owned(), figure(90.0, 110.0)),
            ("training_throughput_steps_per_sec".to_owned(), figure(20.0, 30.0)),
            ("of_no_interest".to_owned(), figure(0.0, 1.0)),
        ]);
        let kpis = check(&figures, &Targets::default());
        let verdicts: Vec<_> = kpis.iter().map(|kpi| (kpi.name.as_str(), kpi.verdict)).collect();
        assert_eq!(
            verdicts,
            [
                ("compilation_time_s", KpiVerdict::Warn),
                ("environment_step_time_ms", KpiVerdict::Met),
                ("memory_usage_per_episode_mb", KpiVerdict::NotShown),
                ("policy_inference_time_ms", KpiVerdict::NotShown),
                ("safety_validation_overhead_percent", KpiVerdict::NotShown),
                ("training_throughput_steps_per_sec", KpiVerdict::Alert),
            ]
        );
        let violations: Vec<_> = check_performance_targets(&kpis).into_iter().map(|kpi| kpi.name.as_str()).collect();
        assert_eq!(violations, ["compilation_time_s", "training_throughput_steps_per_sec"]);
        assert_eq!(kpis[3].source, "not measured");
    }
}
