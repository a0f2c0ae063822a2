//! Baseline files: one JSON file per `bench baseline`, and the table that compares them over time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::files::{self, Damage};
use crate::guards::Readings;
use crate::record::Kind;
use crate::timestamp::Timestamp;
use crate::{Error, Result, json};

const EXTENSION: &str = "json";
/// How the names of baseline files begin; the folder holds other results too.
const PREFIX: &str = "benchmark_";
/// Characters of a label in the comparison table.
const LABEL_CHARACTERS: usize = 28;

/// Batch sizes that are measured unless the user says otherwise.
pub const DEFAULT_BATCH_SIZES: [u64; 9] = [1, 10, 50, 100, 500, 1000, 2000, 5000, 10_000];

/// The version of the files that are written.
pub const SCHEMA_VERSION: u64 = 1;

fn first_version() -> u64 {
    1
}

fn known_version<'de, D: Deserializer<'de>>(value: D) -> std::result::Result<u64, D::Error> {
    let version = u64::deserialize(value)?;
    let unknown = || format!("schema_version is {version}, but this program reads {SCHEMA_VERSION}");
    if version == SCHEMA_VERSION { Ok(version) } else { Err(serde::de::Error::custom(unknown())) }
}

/// A baseline run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// The version of the file. Those that do not say it, of ours or of other programs, are of the first.
    #[serde(default = "first_version", deserialize_with = "known_version")]
    pub schema_version: u64,
    /// When it began, in seconds since 1970.
    pub timestamp: f64,
    /// What the user says of it.
    pub description: String,
    /// What the user calls it; null or empty for none.
    #[serde(default)]
    pub tag: Option<String>,
    /// The environment; only runs of the same one are compared.
    #[serde(default)]
    pub env: Option<String>,
    /// What was timed; only runs of the same kind are compared.
    #[serde(default)]
    pub kind: Option<Kind>,
    /// A hash of all parameters of its single environment, threads among them; only runs of the same are compared. Older
    /// files, and those of other programs, have none.
    #[serde(default)]
    pub case_version: Option<String>,
    /// Where it ran.
    pub system_info: SystemInfo,
    /// How the environment was configured.
    pub config_summary: ConfigSummary,
    /// How much was measured.
    pub benchmark_params: BenchmarkParams,
    /// One environment.
    pub single_environment: SingleResult,
    /// Many environments, by batch size.
    pub batch_scaling: BTreeMap<u64, BatchOutcome>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The machine of a baseline run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemInfo {
    /// The operating system.
    pub platform: String,
    /// Null where no Python took part.
    pub python_version: Option<String>,
    /// The version of the library.
    #[serde(default)]
    pub version: Option<String>,
    /// What computed.
    pub devices: Devices,
    /// CPUs as the system counts them.
    pub cpu_count: Option<u64>,
    /// The CPU's model.
    pub cpu_model: Option<String>,
    /// The architecture.
    pub architecture: Option<String>,
    /// Main memory.
    pub memory_gb: Option<f64>,
    /// The fingerprint of [`crate::machine::Machine`]; files of other programs have none.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What computed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// How many.
    pub count: u64,
    /// What they are.
    pub types: Vec<String>,
    /// `cpu` or `gpu`.
    pub platform: String,
}

/// How the environment was configured; null where an environment has no such setting.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigSummary {
    /// Rows of the largest grid.
    pub max_grid_height: Option<u64>,
    /// Columns of the largest grid.
    pub max_grid_width: Option<u64>,
    /// Examples per task.
    pub max_train_pairs: Option<u64>,
    /// How cells are selected.
    pub selection_format: Option<String>,
    /// Whether anything was logged meanwhile.
    pub logging_enabled: Option<bool>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// How much was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchmarkParams {
    /// Steps of the single environment.
    pub single_steps: u64,
    /// Steps of each batch.
    pub batch_steps: u64,
    /// The batch sizes that the user chose, if any.
    pub custom_batch_sizes: Option<Vec<u64>>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The result of one environment. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SingleResult {
    /// Steps per second.
    pub steps_per_second: f64,
    /// Time of all steps.
    pub total_time: f64,
    /// Time of a reset.
    pub avg_reset_time: f64,
    /// Steps that were taken.
    pub num_steps: u64,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The result of a batch size, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BatchOutcome {
    /// It ran.
    Measured(BatchResult),
    /// It did not.
    Failed {
        /// Why.
        error: String,
    },
}

impl BatchOutcome {
    fn steps_per_second(&self) -> Option<f64> {
        match self {
            Self::Measured(result) => Some(result.steps_per_second),
            Self::Failed { .. } => None,
        }
    }
}

/// The result of a batch. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchResult {
    /// Environments.
    pub batch_size: u64,
    /// Steps per second over all environments.
    pub steps_per_second: f64,
    /// Time of all steps.
    pub total_time: f64,
    /// Time to reset the batch.
    pub batch_reset_time: f64,
    /// Steps over all environments.
    pub total_env_steps: u64,
    /// Steps of the batch.
    pub num_steps: u64,
    /// Memory of the batch.
    pub memory_mb: Option<f64>,
    /// See [`efficiency_percent`].
    pub efficiency_percent: Option<f64>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A batch's share of what as many single environments would do: 100·SPS(B) / (SPS(single)·B).
pub fn efficiency_percent(batch_steps_per_second: f64, single_steps_per_second: f64, batch_size: u64) -> Option<f64> {
    let perfect = single_steps_per_second * batch_size as f64;
    (perfect > 0.0).then(|| 100.0 * batch_steps_per_second / perfect)
}

/// The longest tag: file systems take names of 255 bytes, of which the rest of a baseline's name and a suffix need some.
pub const MAX_TAG: usize = 200;

/// A tag that may be part of a file name.
pub fn check_tag(tag: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if tag.is_empty() || tag.len() > MAX_TAG || !tag.chars().all(allowed) {
        return Err(Error::Tag { tag: tag.to_owned() });
    }
    Ok(())
}

impl Baseline {
    /// Writes `benchmark_[TAG_]YYYYMMDD_HHMMSS.json` in `folder`; a name that is taken gets a suffix.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        if let Some(tag) = &self.tag {
            check_tag(tag)?;
        }
        let time = self.time().ok_or(Error::Time { unix_seconds: self.timestamp })?.compact();
        let text = json::pretty("baseline", self)?;
        let tag = self.tag.as_ref().map(|tag| format!("{tag}_")).unwrap_or_default();
        files::write_new(folder, &format!("{PREFIX}{tag}{time}"), EXTENSION, text.as_bytes())
    }

    /// When it began; `None` if the file states no time of our calendar.
    pub fn time(&self) -> Option<Timestamp> {
        Timestamp::from_unix_seconds(self.timestamp)
    }

    /// What the guards had found in the end; older files do not tell.
    pub fn guards(&self) -> Option<Readings> {
        self.extra.get("guards").and_then(|guards| Readings::deserialize(guards).ok())
    }

    /// Whether the two differ in nothing but the code: same machine, environment, kind and parameters.
    pub fn same_series(&self, other: &Self) -> bool {
        self.env == other.env
            && self.kind == other.kind
            && self.case_version == other.case_version
            && self.system_info.same_machine(&other.system_info)
    }

    /// `[tag] description`, cut to the width of its column.
    fn label(&self) -> String {
        let tag = self.tag.as_ref().filter(|tag| !tag.is_empty()).map(|tag| format!("[{tag}] ")).unwrap_or_default();
        format!("{tag}{}", self.description).chars().take(LABEL_CHARACTERS).collect()
    }
}

impl SystemInfo {
    /// By fingerprint, or by all that files without one tell. A machine that does not name its CPU is no other's twin.
    fn same_machine(&self, other: &Self) -> bool {
        if let (Some(a), Some(b)) = (&self.fingerprint, &other.fingerprint) {
            return a == b;
        }
        let gigabytes = |info: &Self| info.memory_gb.map(f64::round);
        self.cpu_model.is_some()
            && self.cpu_model == other.cpu_model
            && self.cpu_count == other.cpu_count
            && self.architecture == other.architecture
            && gigabytes(self) == gigabytes(other)
    }
}

/// The baseline runs of a folder.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Baselines {
    /// The runs, sorted by time.
    pub runs: Vec<Baseline>,
    /// Files that had to be skipped.
    pub damaged: Vec<Damage>,
}

/// Reads all baseline files of a folder; none if there is no such folder.
pub fn read_folder(folder: &Path) -> Result<Baselines> {
    let mut all = Baselines::default();
    for path in files::list(folder, EXTENSION)? {
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)) {
            continue;
        }
        let parsed = files::read_regular(&path)
            .map_err(|error| error.to_string())
            .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).map_err(|error| json::reason(&error)))
            .map(|value| value.get("batch_scaling").is_some().then_some(value))
            .and_then(|value| value.map(Baseline::deserialize).transpose().map_err(|error| json::reason(&error)));
        match parsed {
            Ok(Some(run)) => all.runs.push(run),
            // A report of a suite has such a name too.
            Ok(None) => {}
            Err(reason) => all.damaged.push(Damage { path, line: None, reason }),
        }
    }
    all.runs.sort_by(|a, b| a.timestamp.total_cmp(&b.timestamp));
    Ok(all)
}

/// A line of the comparison over time. A change is in per cent of the previous run of the same machine; `None` is N/A.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparisonRow {
    /// When the run began.
    pub time: Option<Timestamp>,
    /// What was measured.
    pub env: Option<String>,
    /// What the user calls it.
    pub tag: Option<String>,
    /// The machine's CPU.
    pub machine: Option<String>,
    /// The guards that refused the machine as it was.
    pub disturbed_by: Vec<String>,
    /// `[tag] description`, cut to 28 characters.
    pub label: String,
    /// Steps per second of one environment.
    pub single: f64,
    /// Its change.
    pub single_change_percent: Option<f64>,
    /// Steps per second of the chosen batch size, if it was measured.
    pub batch: Option<f64>,
    /// Its change.
    pub batch_change_percent: Option<f64>,
}

/// A line of the scaling table.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalingRow {
    /// Environments.
    pub batch_size: u64,
    /// What was measured, or why nothing was.
    pub outcome: BatchOutcome,
    /// See [`efficiency_percent`]; computed anew.
    pub efficiency_percent: Option<f64>,
}

/// Compares runs that are sorted by time, for one environment and for one batch size.
pub fn compare(runs: &[Baseline], batch_size: u64) -> Vec<ComparisonRow> {
    let single = |run: &Baseline| run.single_environment.steps_per_second;
    let batch = |run: &Baseline| run.batch_scaling.get(&batch_size).and_then(BatchOutcome::steps_per_second);
    runs.iter()
        .enumerate()
        .map(|(i, run)| {
            let previous = runs[..i].iter().rev().find(|earlier| earlier.same_series(run));
            ComparisonRow {
                time: run.time(),
                env: run.env.clone(),
                tag: run.tag.clone(),
                machine: run.system_info.cpu_model.clone().or_else(|| run.system_info.fingerprint.clone()),
                disturbed_by: run.guards().iter().flat_map(Readings::refusing).map(str::to_owned).collect(),
                label: run.label(),
                single: single(run),
                single_change_percent: change_percent(previous.map(single), Some(single(run))),
                batch: batch(run),
                batch_change_percent: change_percent(previous.and_then(batch), batch(run)),
            }
        })
        .collect()
}

/// How one run scales with the batch size.
pub fn scaling(run: &Baseline) -> Vec<ScalingRow> {
    let single = run.single_environment.steps_per_second;
    let rows = run.batch_scaling.iter().map(|(batch_size, outcome)| ScalingRow {
        batch_size: *batch_size,
        outcome: outcome.clone(),
        efficiency_percent: outcome
            .steps_per_second()
            .and_then(|steps_per_second| efficiency_percent(steps_per_second, single, *batch_size)),
    });
    rows.collect()
}

fn change_percent(previous: Option<f64>, current: Option<f64>) -> Option<f64> {
    let previous = previous.filter(|previous| *previous > 0.0)?;
    Some(100.0 * (current? / previous - 1.0))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn run(timestamp: f64, single: f64, batch: f64) -> Baseline {
        let json = serde_json::json!({
            "timestamp": timestamp, "description": "before the rewrite", "tag": "phase1",
            "system_info": {
                "platform": "linux", "python_version": null, "version": "0.1.0",
                "devices": {"count": 1, "types": ["cpu"], "platform": "cpu"},
                "cpu_count": 2, "cpu_model": "AMD EPYC", "architecture": "x86_64", "memory_gb": 23.6,
            },
            "config_summary": {
                "max_grid_height": 30, "max_grid_width": 30, "max_train_pairs": 4,
                "selection_format": "mask", "logging_enabled": false,
            },
            "benchmark_params": {"single_steps": 1000, "batch_steps": 50, "custom_batch_sizes": null},
            "single_environment": {
                "steps_per_second": single, "total_time": 1.0, "avg_reset_time": 0.001, "num_steps": 1000,
            },
            "batch_scaling": {
                "1000": {
                    "batch_size": 1000, "steps_per_second": batch, "total_time": 1.0, "batch_reset_time": 0.1,
                    "total_env_steps": 50_000, "num_steps": 50, "memory_mb": 1.5, "efficiency_percent": 1.0,
                },
                "50": {"error": "out of memory"},
            },
            "notes": {"kept": true},
        });
        serde_json::from_value(json).unwrap()
    }

    fn on(cpu: &str, run: Baseline) -> Baseline {
        let system_info = SystemInfo { cpu_model: Some(cpu.to_owned()), ..run.system_info.clone() };
        Baseline { system_info, ..run }
    }

    fn changes(runs: &[Baseline]) -> Vec<Option<f64>> {
        compare(runs, 1000).into_iter().map(|row| row.single_change_percent).collect()
    }

    #[test]
    fn files_are_named_by_tag_and_time_and_read_in_order_of_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = Baseline { tag: None, ..run(1e9, 100.0, 1000.0) };
        for (run, name) in [
            (run(1e9 + 1.0, 200.0, 1.0), "benchmark_phase1_20010909_014641.json"),
            (first.clone(), "benchmark_20010909_014640.json"),
            (first.clone(), "benchmark_20010909_014640_1.json"),
        ] {
            assert_eq!(run.write(folder.path()).unwrap(), folder.path().join(name));
        }
        fs::write(folder.path().join("benchmark_damaged.json"), "{\"timestamp\": 1").unwrap();
        let newer = serde_json::to_string(&Baseline { schema_version: 2, ..first.clone() }).unwrap();
        fs::write(folder.path().join("benchmark_newer.json"), newer).unwrap();
        fs::write(folder.path().join("other.json"), "{}").unwrap();
        fs::write(folder.path().join("benchmark_results_20010909_014640.json"), "{\"results\": []}").unwrap();
        let all = read_folder(folder.path()).unwrap();
        assert_eq!(all.runs, [first.clone(), first, run(1e9 + 1.0, 200.0, 1.0)], "unknown fields included");
        assert_eq!(all.damaged.len(), 2);
        assert!(all.damaged[1].to_string().contains("schema_version is 2, but this program reads 1"));
        assert!(all.damaged[0].to_string().contains("benchmark_damaged.json: skipped, EOF"), "{}", all.damaged[0]);
    }

    #[test]
    fn tags_are_safe_in_file_names() {
        for tag in ["baseline", "phase-1.2_b"] {
            check_tag(tag).unwrap();
        }
        let longest = Baseline { tag: Some("a".repeat(MAX_TAG)), ..run(1e9, 1.0, 1.0) };
        let somewhere = tempfile::tempdir().unwrap();
        assert!(longest.write(somewhere.path()).is_ok() && longest.write(somewhere.path()).is_ok());
        for tag in ["", "a/b", "a b", "ä", "a\0", &"a".repeat(MAX_TAG + 1)] {
            assert!(matches!(check_tag(tag), Err(Error::Tag { .. })), "{tag}");
        }
        let folder = tempfile::tempdir().unwrap();
        let bad = Baseline { tag: Some("../up".to_owned()), ..run(1e9, 1.0, 1.0) };
        assert!(bad.write(folder.path()).is_err());
    }

    #[test]
    fn what_is_not_finite_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = run(1e9, 1.0, 1.0);
        run.single_environment.steps_per_second = f64::INFINITY;
        assert!(matches!(run.write(folder.path()), Err(Error::NotRecordable { .. })));
        run.timestamp = -1.0;
        assert!(matches!(run.write(folder.path()), Err(Error::Time { unix_seconds: -1.0 })));
    }

    #[test]
    fn changes_are_against_the_previous_run_of_the_same_machine() {
        let runs = [run(1.0, 100.0, 1000.0), on("Other", run(2.0, 500.0, 1.0)), run(3.0, 110.0, 900.0)];
        assert_eq!(changes(&runs)[..2], [None, None]);
        let last = &compare(&runs, 1000)[2];
        assert!((last.single_change_percent.unwrap() - 10.0).abs() < 1e-9);
        assert!((last.batch_change_percent.unwrap() + 10.0).abs() < 1e-9);
        assert_eq!(last.label, "[phase1] before the rewrite");
    }

    #[test]
    fn what_cannot_be_compared_is_not_applicable() {
        assert_eq!(changes(&[run(1.0, 0.0, 1.0), run(2.0, 100.0, 1.0)]), [None, None], "previous is 0");
        let other_env = Baseline { env: Some("CartPole-v1".to_owned()), ..run(2.0, 100.0, 1.0) };
        assert_eq!(changes(&[run(1.0, 100.0, 1.0), other_env]), [None, None]);
        let version = |version: &str| Baseline { case_version: Some(version.to_owned()), ..run(1.0, 100.0, 1.0) };
        assert_eq!(changes(&[version("a"), version("b"), version("a")]), [None, None, Some(0.0)], "other threads");
        assert_eq!(changes(&[run(1.0, 100.0, 1.0), version("a")]), [None, None], "which threads it had is unknown");
        assert_eq!(compare(&[run(1.0, 1.0, 1.0), run(2.0, 1.0, 1.0)], 50)[1].batch_change_percent, None, "it failed");
        let mut nameless = run(1.0, 100.0, 1.0);
        nameless.system_info.cpu_model = None;
        assert_eq!(changes(&[nameless.clone(), nameless]), [None, None]);
    }

    #[test]
    fn a_fingerprint_decides_where_both_have_one() {
        let with = |fingerprint: &str| {
            let run = run(1.0, 100.0, 1.0);
            let system_info = SystemInfo { fingerprint: Some(fingerprint.to_owned()), ..run.system_info.clone() };
            Baseline { system_info, ..run }
        };
        assert_eq!(changes(&[with("a"), on("Renamed", with("a"))]), [None, Some(0.0)]);
        assert_eq!(changes(&[with("a"), with("b")]), [None, None]);
    }

    #[test]
    fn efficiency_is_the_share_of_perfect_scaling() {
        let rows = scaling(&run(1.0, 100.0, 50_000.0));
        assert_eq!(rows.iter().map(|row| row.batch_size).collect::<Vec<_>>(), [50, 1000]);
        assert_eq!(rows[0].efficiency_percent, None);
        assert_eq!(rows[1].efficiency_percent, Some(50.0));
        assert_eq!(efficiency_percent(1.0, 0.0, 10), None);
    }

    #[test]
    fn long_labels_are_cut_by_characters() {
        let long = Baseline { tag: None, description: "ä".repeat(40), ..run(1.0, 1.0, 1.0) };
        assert_eq!(long.label(), "ä".repeat(28));
    }
}
