//! Curves of runs, which of them belong together, and their mean with its interval.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;
use phalanx_lab::stats::bootstrap::{percentile_interval, resampled_mean};
use phalanx_lab::stats::descriptive::mean;
use phalanx_lab::stats::interval::{CONFIDENCE, Interval, mean_interval};
use phalanx_lab::stats::random::Stream;
use phalanx_learn::run::config::Config;
use phalanx_render::plot::Datum;
use serde::Serialize;

/// Points of a line whose runs were not logged at the same places.
const GRID: usize = 200;
const RESAMPLES: usize = 10_000;

/// One run.
pub(super) struct Curve {
    pub(super) run: PathBuf,
    pub(super) config: Config,
    /// In the order of x; at least one.
    pub(super) points: Vec<(f64, f64)>,
}

/// Runs that differ in their seed only.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) curves: Vec<Curve>,
}

/// How the interval of a mean is found.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum IntervalKind {
    /// Student's
    T,
    /// Percentiles of means of draws with replacement
    Bootstrap,
}

impl IntervalKind {
    fn of(self, values: &[f64]) -> Option<(f64, f64)> {
        let Interval { low, high } = match self {
            Self::T => mean_interval(values, CONFIDENCE)?,
            Self::Bootstrap if values.len() < 2 => return None,
            Self::Bootstrap => {
                let mut stream = Stream::new(0, 0);
                let mut means: Vec<f64> = (0..RESAMPLES).map(|_| resampled_mean(values, 1, &mut stream)).collect();
                percentile_interval(&mut means, CONFIDENCE)
            }
        };
        Some((low, high))
    }
}

/// Keys and values, in order.
type Settings = BTreeMap<String, String>;

/// What makes a run another one: neither its seed nor what changes no result.
fn settings(config: &Config) -> Settings {
    let mut settings = config.that_matters();
    settings.remove("run.seed");
    settings
}

/// Curves by their settings, in the order of their first appearance, with names that tell them apart.
pub(super) fn groups(curves: Vec<Curve>) -> Vec<Group> {
    let mut groups: Vec<(Settings, Vec<Curve>)> = Vec::new();
    for curve in curves {
        let settings = settings(&curve.config);
        match groups.iter_mut().find(|(known, _)| *known == settings) {
            Some((_, curves)) => curves.push(curve),
            None => groups.push((settings, vec![curve])),
        }
    }
    let of = |curves: &[Curve]| (curves[0].config.env.name.clone(), curves[0].config.agent.name().to_owned());
    let kinds: Vec<_> = groups.iter().map(|(_, curves)| of(curves)).collect();
    let names: Vec<String> = (0..groups.len())
        .map(|this| {
            let (env, agent) = &kinds[this];
            let mut parts = Vec::new();
            if kinds.iter().any(|(other, _)| other != env) {
                parts.push(env.clone());
            }
            if kinds.iter().any(|(_, other)| other != agent) {
                parts.push(agent.clone());
            }
            // Agents have settings of their own: only those of the same kind are compared.
            let alike = || (0..groups.len()).filter(|other| kinds[*other] == kinds[this]).map(|other| &groups[other].0);
            for (key, value) in &groups[this].0 {
                let same = |other: &Settings| other.get(key) == Some(value);
                if !alike().all(same) {
                    let short = key.rsplit('.').next().unwrap_or(key);
                    parts.push(format!("{short} {value}"));
                }
            }
            if parts.is_empty() { agent.clone() } else { parts.join(", ") }
        })
        .collect();
    groups.into_iter().zip(names).map(|((_, curves), name)| Group { name, curves }).collect()
}

/// What all groups have in common.
pub(super) fn title<'a>(groups: impl Iterator<Item = &'a Group>) -> String {
    let (mut envs, mut agents): (Vec<&str>, Vec<&str>) =
        groups.map(|group| (group.curves[0].config.env.name.as_str(), group.curves[0].config.agent.name())).unzip();
    envs.dedup();
    agents.dedup();
    match (envs.as_slice(), agents.as_slice()) {
        ([env], [agent]) => format!("{agent} on {env}"),
        ([env], _) => (*env).to_owned(),
        (_, [agent]) => (*agent).to_owned(),
        _ => "Learning curves".to_owned(),
    }
}

impl Group {
    /// The mean over the runs wherever all of them were logged; where their places differ, between the last of the
    /// first places and the first of the last ones.
    pub(super) fn line(&self, kind: IntervalKind) -> Vec<Datum> {
        let places = |curve: &Curve| curve.points.iter().map(|point| point.0).collect::<Vec<_>>();
        let first = places(&self.curves[0]);
        let places = if self.curves.iter().all(|curve| places(curve) == first) {
            first
        } else {
            let ends = |of: fn(&Curve) -> f64| self.curves.iter().map(of);
            let low = ends(|curve| curve.points[0].0).fold(f64::NEG_INFINITY, f64::max);
            let high = ends(|curve| curve.points[curve.points.len() - 1].0).fold(f64::INFINITY, f64::min);
            let share = |i: usize| i as f64 / (GRID - 1) as f64;
            if low < high { (0..GRID).map(|i| low + share(i) * (high - low)).collect() } else { vec![high] }
        };
        let at = |x: f64| {
            let values: Vec<f64> = self.curves.iter().map(|curve| interpolated(&curve.points, x)).collect();
            Datum::new(x, mean(&values)).interval(kind.of(&values))
        };
        places.into_iter().map(at).collect()
    }
}

/// The value on the straight line between the points around `x`; beyond the ends, that of the end.
fn interpolated(points: &[(f64, f64)], x: f64) -> f64 {
    let after = points.partition_point(|point| point.0 < x);
    match (after.checked_sub(1).map(|before| points[before]), points.get(after)) {
        (None, Some(next)) => next.1,
        (Some(last), None) => last.1,
        (Some(before), Some(next)) => before.1 + (next.1 - before.1) * (x - before.0) / (next.0 - before.0),
        (None, None) => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use phalanx_learn::run::config::create_config;

    use super::*;

    fn curve(agent: &str, settings: &[(&str, &str)], points: &[(f64, f64)]) -> Curve {
        let config = create_config("CartPole-v1", agent, settings).unwrap();
        Curve { run: PathBuf::new(), config, points: points.to_vec() }
    }

    #[test]
    fn runs_that_differ_in_their_seed_belong_together() {
        let points = [(1.0, 1.0)];
        let found = groups(vec![
            curve("ppo", &[("seed", "1"), ("gamma", "0.9")], &points),
            curve("ppo", &[("seed", "1"), ("threads", "2")], &points),
            curve("ppo", &[("seed", "2"), ("gamma", "0.9")], &points),
            curve("pqn", &[], &points),
        ]);
        let names: Vec<_> = found.iter().map(|group| (group.name.as_str(), group.curves.len())).collect();
        assert_eq!(names, [("ppo, gamma 0.9", 2), ("ppo, gamma 0.99", 1), ("pqn", 1)]);
        assert_eq!(title(found.iter()), "CartPole-v1");
        assert_eq!(title(found[..2].iter()), "ppo on CartPole-v1");
    }

    #[test]
    fn the_mean_has_an_interval_from_two_seeds_on() {
        let one = curve("ppo", &[("seed", "1")], &[(0.0, 1.0), (10.0, 2.0)]);
        let two = curve("ppo", &[("seed", "2")], &[(0.0, 3.0), (10.0, 2.0)]);
        let group = Group { name: String::new(), curves: vec![one, two] };
        let line = group.line(IntervalKind::T);
        assert_eq!(line.iter().map(|datum| (datum.x, datum.y)).collect::<Vec<_>>(), [(0.0, 2.0), (10.0, 2.0)]);
        // 12.706 is the quantile of Student's distribution with one degree of freedom; the standard error is 1.
        let (low, high) = line[0].interval.unwrap();
        assert!((low - (2.0 - 12.706)).abs() < 1e-3 && (high - (2.0 + 12.706)).abs() < 1e-3, "{low} {high}");
        assert_eq!(group.line(IntervalKind::Bootstrap)[0].interval, Some((1.0, 3.0)), "only 1, 2 and 3 can be drawn");
        let alone = Group { curves: vec![curve("ppo", &[], &[(0.0, 1.0)])], ..group };
        assert_eq!(alone.line(IntervalKind::T)[0].interval, None);
        assert_eq!(alone.line(IntervalKind::Bootstrap)[0].interval, None);
    }

    #[test]
    fn curves_of_different_places_meet_where_all_are_known() {
        let one = curve("ppo", &[("seed", "1")], &[(0.0, 0.0), (10.0, 10.0)]);
        let two = curve("ppo", &[("seed", "2")], &[(2.0, 2.0), (4.0, 4.0), (20.0, 20.0)]);
        let line = Group { name: String::new(), curves: vec![one, two] }.line(IntervalKind::T);
        assert_eq!((line.len(), line[0].x, line[GRID - 1].x), (GRID, 2.0, 10.0));
        assert!(line.iter().all(|datum| (datum.y - datum.x).abs() < 1e-9), "both lie on the diagonal");
    }
}
