//! Histories: one case over the runs of one machine, its change points and its direction.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::calibrations;
use crate::files;
use crate::record::{Arm, Case, Kind, Record, Run, Unit};
use crate::stats::change_points::{ChangePoint, Settings, detect};
use crate::stats::descriptive::sample_sd;
use crate::stats::fence::Fence;
use crate::stats::trend::{Direction, Trend};
use crate::stats::verdict::{Finding, Tier, Verdict, judge};

/// What must agree for two runs to belong to one series. A series is never continued across a difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeriesKey {
    /// The case.
    pub case_id: String,
    /// A hash of all its parameters.
    pub case_version: String,
    /// The machine.
    pub fingerprint: String,
    /// What was timed.
    pub kind: String,
    /// What was counted.
    pub unit: String,
    /// What it was measured for: other suites take other samples.
    pub suite: String,
    /// Whether it took turns with another binary, which shares caches with it.
    pub paired: bool,
}

impl SeriesKey {
    /// What was counted, if this version knows it.
    pub fn unit(&self) -> Option<Unit> {
        Unit::deserialize(serde_json::Value::from(self.unit.as_str())).ok()
    }

    fn of(run: &Run, case: &Case, paired: bool) -> Self {
        let Case { case_id, case_version, kind, unit, suite, .. } = case;
        Self {
            case_id: case_id.clone(),
            case_version: case_version.clone(),
            fingerprint: run.machine.fingerprint.clone(),
            kind: Kind::name(*kind).to_owned(),
            unit: Unit::to_string(unit),
            suite: suite.clone(),
            paired,
        }
    }
}

/// One run of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The run.
    pub run_id: String,
    /// When it began.
    pub started_at: String,
    /// The commit that ran, if known.
    pub commit: Option<String>,
    /// Median time of a step, in ns.
    pub time_ns: f64,
    /// Steps in a second.
    pub throughput: f64,
    /// Whether the run was ended before all processes of the case had measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// A case over the runs of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What it is of.
    pub key: SeriesKey,
    /// The runs, oldest first.
    pub entries: Vec<Entry>,
}

impl Series {
    /// How much its runs usually differ from one to the next; those that were ended early do not count. `None` means
    /// insufficient history.
    pub fn fence(&self) -> Option<Fence> {
        let whole: Vec<f64> =
            self.entries.iter().filter(|entry| !entry.interrupted).map(|entry| entry.time_ns.ln()).collect();
        let steps: Vec<f64> = whole.windows(2).map(|two| 100.0 * (two[1] - two[0]).abs()).collect();
        Fence::of(&steps, FENCE_FLOOR_PERCENT)
    }
}

/// A change in a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Where and how large.
    #[serde(flatten)]
    pub point: ChangePoint,
    /// The last run before it.
    pub last_before: Entry,
    /// The first run after it.
    pub first_after: Entry,
}

/// What a series shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesTrend {
    /// The series.
    #[serde(flatten)]
    pub series: Series,
    /// Its direction: the last three runs against all earlier ones.
    #[serde(flatten)]
    pub direction: Trend,
    /// Differences below this count as none, in %.
    pub noise_percent: f64,
    /// Its changes, oldest first.
    pub changes: Vec<Change>,
    /// What the last change, or that there is none, amounts to: the weakest of all evidence (tier 3).
    pub finding: Finding,
}

/// The suite of processes that only had to start: their one sample says nothing of speed.
pub const STARTS: &str = "starts";

/// The suite of comparisons of two builds.
pub const AB: &str = "ab";

/// The suite of comparisons of one mode with another.
pub const OVERHEADS: &str = "safety";

/// Suites whose runs compare arbitrary builds, or a mode with another, or time no steps: no part of a history.
pub(crate) const NO_HISTORY: [&str; 4] = [AB, "doctor", OVERHEADS, STARTS];

/// The least that a fence keeps out, in %: as much as the floor of a calibration.
const FENCE_FLOOR_PERCENT: f64 = 0.5;

/// Changes below this count as none where nothing says more, in %.
const NOISE_PERCENT: f64 = 2.0;

/// What a case measured in each run, by the run's start and id.
type RunsInOrder = BTreeMap<(String, String), (Arm, Entry)>;

/// The series in some records, by case. Where a run compared two sides, the judged one (B) counts.
pub fn series(records: &[Record]) -> Vec<Series> {
    let mut all: BTreeMap<SeriesKey, RunsInOrder> = BTreeMap::new();
    let mut run: Option<&Run> = None;
    let mut cases: BTreeMap<&str, &Case> = BTreeMap::new();
    // Cases that have samples of pairs since they were described.
    let mut paired: BTreeSet<&str> = BTreeSet::new();
    for record in records {
        if let Record::Case(case) = record {
            paired.remove(case.case_id.as_str());
        }
        match record {
            Record::Run(next) => {
                run = Some(next);
                cases.clear();
                paired.clear();
            }
            Record::Case(case) if NO_HISTORY.contains(&case.suite.as_str()) => {
                cases.remove(case.case_id.as_str());
            }
            Record::Case(case) => {
                cases.insert(&case.case_id, case);
            }
            Record::Summary(summary) => {
                let known = run.zip(cases.get(summary.case_id.as_str()));
                let Some(((run, case), throughput)) = known.zip(summary.rate()) else { continue };
                let entry = Entry {
                    run_id: run.run_id.clone(),
                    started_at: run.started_at.clone(),
                    commit: run.git.sha.clone(),
                    time_ns: summary.t_median,
                    throughput,
                    interrupted: summary.complete == Some(false),
                };
                let key = SeriesKey::of(run, case, paired.contains(summary.case_id.as_str()));
                let runs = all.entry(key).or_default();
                let place = (run.started_at.clone(), run.run_id.clone());
                if runs.get(&place).is_none_or(|(arm, _)| summary.arm >= *arm) {
                    runs.insert(place, (summary.arm, entry));
                }
            }
            Record::Sample(sample) if sample.pair.is_some() => {
                paired.insert(&sample.case_id);
            }
            Record::Sample(_) | Record::Verdict(_) => {}
        }
    }
    let series = |(key, runs): (_, BTreeMap<_, (_, Entry)>)| Series {
        key,
        entries: runs.into_values().map(|(_, entry)| entry).collect(),
    };
    all.into_iter().map(series).collect()
}

/// The series of several files together. A run that is in two of them counts once.
pub fn merged(all: impl IntoIterator<Item = Series>) -> Vec<Series> {
    let mut by_key: BTreeMap<SeriesKey, BTreeMap<(String, String), Entry>> = BTreeMap::new();
    for Series { key, entries } in all {
        let place = |entry: Entry| ((entry.started_at.clone(), entry.run_id.clone()), entry);
        by_key.entry(key).or_default().extend(entries.into_iter().map(place));
    }
    by_key.into_iter().map(|(key, runs)| Series { key, entries: runs.into_values().collect() }).collect()
}

/// Changes below this count as none, in %: what identical code has shown on the machine of a series (`bench doctor`),
/// whatever the plan was, and at least 2.
fn calibrated_percent(key: &SeriesKey) -> f64 {
    let stored = files::cache_folder()
        .and_then(|folder| calibrations::load_version(&folder, &key.fingerprint, &key.case_version).ok());
    let threshold = stored.flatten().map(|stored| 100.0 * stored.calibration.threshold.exp_m1());
    threshold.map_or(NOISE_PERCENT, |percent| percent.max(NOISE_PERCENT))
}

/// What throughputs, oldest first, differ by from one run to the next, in %, and at least 2. Changes are few among the
/// steps between neighbours; the others are noise.
pub fn noise_percent(throughputs: &[f64]) -> f64 {
    let steps: Vec<f64> = throughputs.windows(2).map(|pair| (pair[1] / pair[0]).ln()).collect();
    let spread = 100.0 * sample_sd(&steps).unwrap_or(0.0) / std::f64::consts::SQRT_2;
    spread.max(NOISE_PERCENT)
}

impl SeriesTrend {
    /// Looks for a direction and for changes. What counts as noise is found out unless it is given: for a change, which
    /// has many runs on both sides, what identical code shows; for the direction also what runs differ by.
    pub fn of(series: Series, noise: Option<f64>) -> Self {
        let rates: Vec<f64> = series.entries.iter().map(|entry| entry.throughput).collect();
        let least = noise.unwrap_or_else(|| calibrated_percent(&series.key));
        let noise_percent = noise.unwrap_or_else(|| least.max(noise_percent(&rates)));
        let logs: Vec<f64> = series.entries.iter().map(|entry| entry.time_ns.ln()).collect();
        let settings = Settings { min_change: (least / 100.0).ln_1p(), ..Settings::default() };
        let change = |point: ChangePoint| Change {
            point,
            last_before: series.entries[point.at - 1].clone(),
            first_after: series.entries[point.at].clone(),
        };
        let changes: Vec<Change> = detect(&logs, &settings).points.into_iter().map(change).collect();
        let direction = Trend::of(&rates, noise_percent);
        let finding = finding(&direction, changes.last(), rates.len(), settings.min_change);
        Self { direction, series, noise_percent, changes, finding }
    }
}

/// What a history says: its last change, if there is one, else that there is none.
fn finding(direction: &Trend, last: Option<&Change>, runs: usize, theta: f64) -> Finding {
    let of = |verdict, reason| Finding { verdict, tier: Tier::History, ratio: None, interval: None, reason };
    match last {
        Some(Change { point, first_after, .. }) => Finding {
            ratio: Some(point.ratio),
            interval: Some(point.interval),
            ..of(judge(point.interval.map(f64::ln), theta), format!("changed in the run of {}", first_after.started_at))
        },
        None if direction.trend == Direction::InsufficientHistory => {
            of(Verdict::InsufficientHistory, "four runs are needed".to_owned())
        }
        None => of(Verdict::Equivalent, format!("no change in {runs} runs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build_info::{BuildInfo, Git};
    use crate::case::CaseSpec;
    use crate::guards::Readings;
    use crate::machine::Machine;
    use crate::record::{Outliers, SCHEMA_VERSION, Sample, Summary};
    use crate::stats::trend::Direction;
    use serde_json::Map;

    fn run(number: usize) -> Record {
        Record::Run(Box::new(Run {
            schema_version: SCHEMA_VERSION,
            run_id: format!("r{number:03}"),
            started_at: format!("2026-01-01T00:{number:02}:00Z"),
            git: Git { sha: Some(format!("{number:040}")), ..Git::default() },
            tags: Vec::new(),
            machine: Machine::detect(),
            build: BuildInfo::of_this_binary(),
            guards: Readings::default(),
            extra: Map::new(),
        }))
    }

    fn summary(case: &CaseSpec, arm: Arm, time: f64) -> Record {
        Record::Summary(Summary {
            run_id: None,
            case_id: case.id(),
            arm,
            n_processes: 1,
            n_samples: 1,
            discarded: 0,
            warmup_class: "flat".to_owned(),
            t_median: time,
            t_mean: time,
            ci95: None,
            sigma_b: None,
            sigma_w: None,
            n_eff: None,
            outliers: Outliers::default(),
            memory: Map::new(),
            complete: None,
            extra: Map::new(),
        })
    }

    /// Runs of one case with these times.
    fn records(times: &[f64]) -> Vec<Record> {
        let case = CaseSpec::rollout("some", 4);
        let of_run = |(number, &time): (usize, &f64)| {
            [run(number), Record::Case(case.record("r", "suite")), summary(&case, Arm::A, time)]
        };
        times.iter().enumerate().flat_map(of_run).collect()
    }

    #[test]
    fn a_step_in_a_history_is_found_and_named() {
        let mut times: Vec<f64> = (0..12).map(|i| 10.0 + 0.02 * f64::from(i * 5 % 7)).collect();
        times.extend((0..8).map(|i| 11.0 + 0.02 * f64::from(i * 5 % 7)));
        let mut records = records(&times);
        // Files are read by name, which need not be the order of time.
        records.rotate_left(3 * 7);
        let [series] = &series(&records)[..] else { panic!("one series") };
        let trend = SeriesTrend::of(series.clone(), Some(1.0));
        let [change] = &trend.changes[..] else { panic!("{:?}", trend.changes) };
        assert_eq!((change.last_before.run_id.as_str(), change.first_after.run_id.as_str()), ("r011", "r012"));
        assert!((change.point.ratio - 10.0 / 11.0).abs() < 0.01 && !change.point.provisional);
        assert_eq!(trend.direction.trend, Direction::Declining);
        assert_eq!(SeriesTrend::of(series.clone(), Some(20.0)).changes, [], "less than the noise");
    }

    #[test]
    fn a_fence_needs_nine_whole_runs() {
        let times: Vec<f64> = (0..9).map(|i| if i % 2 == 0 { 10.0 } else { 10.0 * 0.05_f64.exp() }).collect();
        let [series] = &series(&records(&times))[..] else { panic!("one series") };
        assert!((series.fence().unwrap().percent - 5.0).abs() < 1e-9);
        let mut cut = series.clone();
        cut.entries[4].interrupted = true;
        assert_eq!(cut.fence(), None);
    }

    #[test]
    fn a_few_runs_are_no_history() {
        let found = series(&records(&[10.0, 10.0, 10.0]));
        assert_eq!(SeriesTrend::of(found[0].clone(), Some(1.0)).direction.trend, Direction::InsufficientHistory);
    }

    #[test]
    fn the_judged_side_counts_and_comparisons_of_any_builds_do_not() {
        let case = CaseSpec::rollout("some", 4);
        let compared = |suite: &str| {
            let sides = [summary(&case, Arm::A, 10.0), summary(&case, Arm::B, 5.0)];
            [run(1), Record::Case(case.record("r", suite))].into_iter().chain(sides).collect::<Vec<_>>()
        };
        assert_eq!(series(&compared("ab")), []);
        let found = series(&compared("suite"));
        assert_eq!(found[0].entries.iter().map(|entry| entry.time_ns).collect::<Vec<_>>(), [5.0]);
        let other = CaseSpec { seed: 7, ..case.clone() };
        let mut two = compared("suite");
        two.extend([run(2), Record::Case(other.record("r", "suite")), summary(&other, Arm::A, 9.0)]);
        assert_eq!(series(&two).len(), 2, "other parameters are another series");
    }

    #[test]
    fn starts_other_suites_and_pairs_do_not_replace_a_speed() {
        let case = CaseSpec::rollout("some", 4);
        let of = |suite: &str, time| [Record::Case(case.record("r", suite)), summary(&case, Arm::A, time)];
        let mut records = vec![run(1)];
        records.extend([of("suite", 10.0), of(STARTS, 99.0), of(OVERHEADS, 98.0), of("throughput", 11.0)].concat());
        let [described, paired] = of("suite", 12.0);
        let sample = r#"{"type":"sample","run_id":"r","case_id":"","arm":"A","process":0,"pair":0,"order":"AB","index":0,
            "wall_ns":1,"cpu_ns":1,"steps":1,"checksum":"0000000000000001","steal":null,"steady":true}"#;
        let Ok(Record::Sample(sample)) = serde_json::from_str(sample) else { panic!("a sample") };
        records.extend([described, Record::Sample(Sample { case_id: case.id(), ..sample }), paired]);
        let found = series(&records);
        let times = |one: &Series| one.entries.iter().map(|entry| entry.time_ns).collect::<Vec<_>>();
        let all: Vec<_> = found.iter().map(|one| (one.key.suite.as_str(), one.key.paired, times(one))).collect();
        let expected = [("suite", false, vec![10.0]), ("suite", true, vec![12.0]), ("throughput", false, vec![11.0])];
        assert_eq!(all, expected);
    }

    #[test]
    fn what_runs_differ_by_is_noise() {
        assert_eq!(noise_percent(&[100.0; 6]), NOISE_PERCENT);
        let restless = [100.0, 110.0, 100.0, 110.0, 100.0, 108.0, 99.0];
        assert!(noise_percent(&restless) > 5.0);
        let entry = |(i, rate): (usize, &f64)| Entry {
            run_id: format!("r{i}"),
            started_at: format!("2026-01-01T00:0{i}:00Z"),
            commit: None,
            time_ns: 1e9 / rate,
            throughput: *rate,
            interrupted: false,
        };
        let key = SeriesKey {
            case_id: "case".to_owned(),
            case_version: "a version without calibration".to_owned(),
            fingerprint: "a machine without calibration".to_owned(),
            kind: String::new(),
            unit: String::new(),
            suite: String::new(),
            paired: false,
        };
        let series = Series { key, entries: restless.iter().enumerate().map(entry).collect() };
        assert_eq!(merged([series.clone(), series.clone()]), std::slice::from_ref(&series), "a run counts once");
        let trend = SeriesTrend::of(series.clone(), None);
        assert_eq!((trend.direction.trend, trend.noise_percent), (Direction::Stable, noise_percent(&restless)));
        assert_eq!(SeriesTrend::of(series, Some(1.0)).direction.trend, Direction::Declining);
    }
}
