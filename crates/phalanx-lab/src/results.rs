//! Stored results of all commands, read back: what figures and reports are made of.
//!
//! Tables are told apart by their columns, records by their `type`, JSON files by their fields, so that a file may
//! have any name. Columns that are missing or empty are unknown. What cannot be read is reported and skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::baseline_file::{self, BatchOutcome};
use crate::csv::Table;
use crate::files::{self, Damage};
use crate::format::excerpt;
use crate::guards::Readings;
use crate::history::{self, NO_HISTORY, Series};
use crate::record::{self, Arm, Case, Kind, Record, Run, Summary, Verdict};
use crate::timestamp::Timestamp;
use crate::{Error, Result, json};

/// Everything that was found.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// Measured rates.
    pub rates: Vec<Rate>,
    /// Measured memory.
    pub memory: Vec<MemoryUse>,
    /// Rates of other libraries beside ours.
    pub peers: Vec<Peer>,
    /// The runs, in the order of the files.
    pub runs: Vec<Run>,
    /// What the guards had found by the last summary of each run: the run's own record knows only what was before.
    pub guards: BTreeMap<String, Readings>,
    /// What comparisons found, with the run they belong to.
    pub verdicts: Vec<Verdict>,
    /// Reports of `bench suite`, oldest first, as they are.
    pub suites: Vec<Stamped<Value>>,
    /// The histories of all cases that have records.
    pub series: Vec<Series>,
    /// Runs that were ended before all processes of a case had measured.
    pub interrupted: BTreeSet<String>,
    /// What had to be skipped.
    pub damaged: Vec<Damage>,
    /// Files of records.
    pub(crate) records: Vec<PathBuf>,
    /// Runs and cases whose rates are known.
    pub(crate) known: BTreeSet<(String, String)>,
    /// Rates of tables and of baselines, which count only where there are no records of the same run.
    pub(crate) tables: Vec<(PathBuf, Vec<Rate>)>,
    pub(crate) baselines: Vec<baseline_file::Baseline>,
}

/// Something with the time it was made, as `20260722_130501`, which sorts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stamped<T> {
    /// When.
    pub time: String,
    /// What.
    pub value: T,
}

/// A measured rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rate {
    /// The run, if it has records.
    pub run_id: Option<String>,
    /// When, as `20260722_130501`; empty if unknown.
    pub time: String,
    /// The machine's fingerprint or CPU; empty if unknown.
    pub machine: String,
    /// `cpu` or `gpu`.
    pub device: String,
    /// The environment.
    pub env: String,
    /// What acts.
    pub agent: String,
    /// What was timed.
    pub kind: Option<Kind>,
    /// Whatever else was chosen, such as `safety=off`; empty if unknown.
    pub settings: Vec<String>,
    /// Number of environments.
    pub num_envs: f64,
    /// Threads.
    pub threads: f64,
    /// Steps of a block before the next; 0 if unknown.
    pub chunk: f64,
    /// Steps per second over all environments.
    pub steps_per_second: f64,
    /// What is known of its spread.
    pub spread: Option<Spread>,
    /// Time to the first step.
    pub startup_s: Option<f64>,
    /// The guards that refused the machine meanwhile; none is known of a table alone.
    pub disturbed_by: Vec<String>,
}

/// How far a rate may be off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// The 95 % interval.
    Interval(f64, f64),
    /// The least and the greatest of all samples.
    Range(f64, f64),
}

impl Spread {
    /// Its ends.
    pub fn ends(self) -> (f64, f64) {
        match self {
            Self::Interval(low, high) | Self::Range(low, high) => (low, high),
        }
    }
}

impl Rate {
    /// What the points of one line of a figure share.
    pub fn series(&self) -> SeriesKey {
        (self.env.clone(), self.agent.clone(), self.kind, self.threads as u64, self.settings.clone())
    }
}

/// Environment, agent, kind, threads and settings.
pub type SeriesKey = (String, String, Option<Kind>, u64, Vec<String>);

/// Measured memory. The columns' megabyte has [`MEGABYTE`](crate::throughput::MEGABYTE) bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)] // the columns of the table
pub struct MemoryUse {
    pub time: String,
    /// The fingerprint that the records beside the table name; empty if there are none.
    pub machine: String,
    pub device: String,
    pub env: String,
    pub num_envs: f64,
    pub chunk: f64,
    pub arrays_mb: Option<f64>,
    pub predicted_mb: Option<f64>,
    pub peak_rss_mb: Option<f64>,
}

/// A library in a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)] // the columns of the table
pub struct Peer {
    pub time: String,
    pub library: String,
    pub library_version: String,
    pub mode: String,
    pub env: String,
    pub kind: String,
    pub num_envs: f64,
    pub steps_per_second: Option<f64>,
    pub interval: Option<(f64, f64)>,
    /// Ours divided by theirs, of the same kind, with its interval.
    pub phalanx_speedup: Option<(f64, f64, f64)>,
    pub startup_s: Option<f64>,
    pub error: String,
    /// The guards that refused the whole comparison.
    pub noisy: String,
}

impl Results {
    /// Reads files: tables (`.csv`), records (`.jsonl`) or JSON documents. One that cannot be used is an error.
    pub fn read_files(&mut self, paths: &[PathBuf]) -> Result<()> {
        paths.iter().try_for_each(|path| self.add_file(path))?;
        self.settle();
        Ok(())
    }

    /// Reads all results of some folders; none of one that does not exist. Files that are no results are passed over,
    /// damaged ones are reported and skipped.
    pub fn read_folders(&mut self, folders: &[PathBuf]) -> Result<()> {
        for (folder, extension) in folders.iter().flat_map(|folder| ["csv", "jsonl", "json"].map(|e| (folder, e))) {
            for path in files::list(folder, extension)? {
                match self.add_file(&path) {
                    Ok(()) | Err(Error::UnknownTable { .. }) => {}
                    Err(error) => self.damaged.push(Damage { path, line: None, reason: error.to_string() }),
                }
            }
        }
        self.settle();
        Ok(())
    }

    /// Adds the rates of tables and baselines whose runs have no records, and puts all in the order of time.
    fn settle(&mut self) {
        for (path, rates) in std::mem::take(&mut self.tables) {
            if !self.records.iter().any(|records| is_table_of(&path, records)) {
                self.rates.extend(rates);
            }
        }
        for baseline in std::mem::take(&mut self.baselines) {
            let run_id = baseline.extra.get("run_id").and_then(Value::as_str);
            if !self.runs.iter().any(|run| Some(run.run_id.as_str()) == run_id) {
                self.add_baseline(&baseline);
            }
        }
        self.series = history::merged(std::mem::take(&mut self.series));
        self.suites.sort_by(|a, b| a.time.cmp(&b.time));
        self.rates.sort_by(|a, b| a.time.cmp(&b.time));
    }

    fn add_file(&mut self, path: &Path) -> Result<()> {
        let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("csv") => self.read_table(path),
            Some("jsonl") => {
                let record::Records { records, damaged } = record::read(path)?;
                self.damaged.extend(damaged);
                self.records.push(path.to_owned());
                self.add_records(records);
                Ok(())
            }
            Some("json") => self.read_json(path),
            _ => Err(unusable(path, "its name ends neither in .csv nor .jsonl nor .json".to_owned())),
        }
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
            && self.memory.is_empty()
            && self.peers.is_empty()
            && self.runs.is_empty()
            && self.suites.is_empty()
    }

    /// Key figures, as an array: those of the last suite, and of what it did not measure the last value that an earlier suite
    /// on the same machine has; its source then says when. Null without any.
    pub fn kpis(&self) -> Value {
        let Some((last, earlier)) = self.suites.split_last() else { return Value::Null };
        let machine = |suite: &Stamped<Value>| suite.value["system_info"]["fingerprint"].clone();
        let mut kpis: Vec<Value> = last.value["kpis"].as_array().cloned().unwrap_or_default();
        for suite in earlier.iter().rev().filter(|suite| machine(suite) == machine(last)) {
            for kpi in suite.value["kpis"].as_array().into_iter().flatten().filter(|kpi| !kpi["value"].is_null()) {
                let known = kpis.iter().position(|other| other["name"] == kpi["name"]);
                if known.is_some_and(|at| !kpis[at]["value"].is_null()) {
                    continue;
                }
                let mut kpi = kpi.clone();
                let guards: Option<Readings> = serde_json::from_value(suite.value["guards"].clone()).ok();
                let noisy = guards.is_some_and(|guards| guards.refusing().next().is_some());
                let source = kpi["source"].as_str().filter(|source| !source.is_empty()).unwrap_or("a suite");
                let when = readable_time(&suite.time);
                kpi["source"] = format!("{source}, on {when}{}", if noisy { ", noisy" } else { "" }).into();
                match known {
                    Some(at) => kpis[at] = kpi,
                    None => kpis.push(kpi),
                }
            }
        }
        if kpis.is_empty() { last.value["kpis"].clone() } else { Value::Array(kpis) }
    }

    fn read_table(&mut self, path: &Path) -> Result<()> {
        let text = files::read_text(path).map_err(Error::read(path))?;
        let table = Table::parse(&text).map_err(|error| unusable(path, error.to_string()))?;
        let has = |column: &str| table.columns().iter().any(|name| name == column);
        let is_memory = has("pytree_total_mb") || has("peak_rss_mb");
        let (time, machine) = match time_of_name(path) {
            // What else the records beside it tell is only of use where the table does not.
            time if !time.is_empty() && !is_memory => (time, String::new()),
            _ => origin(path),
        };
        let mut rows = Vec::new();
        for (at, cells) in table.rows().iter().enumerate() {
            let row = Row { columns: table.columns(), cells };
            match row.wrong_number() {
                // The first line names the columns.
                Some(reason) => self.damaged.push(Damage { path: path.to_owned(), line: Some(at + 2), reason }),
                None => rows.push(row),
            }
        }
        let rows = rows.into_iter();
        if has("total_throughput_steps_per_s") {
            self.tables.push((path.to_owned(), rows.filter_map(|row| rate_of(&row, &time)).collect()));
        } else if has("library") && has("throughput_steps_per_s") {
            self.peers.extend(rows.map(|row| peer_of(&row, &time)));
        } else if is_memory {
            self.memory.extend(rows.filter_map(|row| memory_of(&row, &time, &machine)));
        } else {
            return Err(Error::UnknownTable { path: path.to_owned(), columns: table.columns().to_vec() });
        }
        Ok(())
    }

    fn read_json(&mut self, path: &Path) -> Result<()> {
        let bytes = files::read_regular(path).map_err(Error::read(path))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| unusable(path, json::reason(&error)))?;
        if value.get("batch_scaling").is_some() {
            let run = serde_json::from_value(value).map_err(|error| unusable(path, json::reason(&error)))?;
            self.baselines.push(run);
        } else if ["results", "system_info", "run_id"].iter().all(|field| value.get(field).is_some()) {
            // Of `bench suite`; what a Python suite of a user's own has saved has no run.
            let time = value["timestamp"].as_str().map_or_else(|| time_of_name(path), digits);
            self.suites.push(Stamped { time, value });
        } else {
            let columns = value.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default();
            return Err(Error::UnknownTable { path: path.to_owned(), columns });
        }
        Ok(())
    }

    fn add_baseline(&mut self, run: &baseline_file::Baseline) {
        let info = &run.system_info;
        let machine = info.fingerprint.clone().or_else(|| info.cpu_model.clone()).unwrap_or_default();
        let base = Rate {
            run_id: None,
            time: run.time().map(|time| time.compact()).unwrap_or_default(),
            machine,
            device: info.devices.platform.clone(),
            env: run.env.clone().unwrap_or_default(),
            agent: "random".to_owned(),
            kind: run.kind,
            settings: Vec::new(),
            num_envs: 1.0,
            threads: 0.0,
            chunk: 0.0,
            steps_per_second: run.single_environment.steps_per_second,
            spread: None,
            startup_s: None,
            disturbed_by: run.guards().iter().flat_map(Readings::refusing).map(str::to_owned).collect(),
        };
        for (size, outcome) in &run.batch_scaling {
            if let BatchOutcome::Measured(batch) = outcome {
                self.rates.push(Rate {
                    num_envs: *size as f64,
                    steps_per_second: batch.steps_per_second,
                    ..base.clone()
                });
            }
        }
        // The single environment is also the batch of one, if that was asked for.
        if !matches!(run.batch_scaling.get(&1), Some(BatchOutcome::Measured(_))) {
            self.rates.push(base);
        }
    }

    /// Rates as [`crate::history::series`] takes them: where a run compared two sides, the judged one (B) counts, and
    /// comparisons of any two builds or modes are no part of a history.
    fn add_records(&mut self, records: Vec<Record>) {
        self.series.extend(history::series(&records));
        let mut cases: BTreeMap<String, Case> = BTreeMap::new();
        // The rate of each case of the run, and of which side it is.
        let mut rates: BTreeMap<String, (Arm, Rate)> = BTreeMap::new();
        // Sides of cases whose last summary so far is none of all processes.
        let mut unfinished: BTreeSet<(String, Arm)> = BTreeSet::new();
        for record in records {
            if let Record::Case(case) = &record {
                unfinished.retain(|(of, _)| *of != case.case_id);
            }
            match record {
                Record::Run(run) => {
                    cases.clear();
                    self.end_run(std::mem::take(&mut rates), &std::mem::take(&mut unfinished));
                    self.runs.push(*run);
                }
                Record::Case(case) if NO_HISTORY.contains(&case.suite.as_str()) => _ = cases.remove(&case.case_id),
                Record::Case(case) => {
                    // What is measured anew, such as alone because pairs failed, takes the place of what there was.
                    rates.remove(&case.case_id);
                    cases.insert(case.case_id.clone(), case);
                }
                Record::Summary(summary) => {
                    let side = (summary.case_id.clone(), summary.arm);
                    match summary.complete {
                        Some(false) => _ = unfinished.insert(side),
                        _ => _ = unfinished.remove(&side),
                    }
                    if let Some((run, guards)) = self.runs.last().zip(summary.guards()) {
                        self.guards.insert(run.run_id.clone(), guards);
                    }
                    let case = cases.get(&summary.case_id);
                    let rate = case.and_then(|case| rate_of_summary(case, &summary, self.runs.last()));
                    let known = rates.get(&summary.case_id).map(|(arm, _)| *arm);
                    if let Some(rate) = rate.filter(|_| known.is_none_or(|known| summary.arm >= known)) {
                        rates.insert(summary.case_id, (summary.arm, rate));
                    }
                }
                Record::Verdict(mut verdict) => {
                    verdict.run_id = verdict.run_id.or_else(|| self.runs.last().map(|run| run.run_id.clone()));
                    self.verdicts.push(verdict);
                }
                Record::Sample(_) => {}
            }
        }
        self.end_run(rates, &unfinished);
    }

    /// Adds the rates of the last run by case, and whether it was ended early. A run that is in two files, such as a copy,
    /// counts once.
    fn end_run(&mut self, rates: BTreeMap<String, (Arm, Rate)>, unfinished: &BTreeSet<(String, Arm)>) {
        if !unfinished.is_empty() {
            self.interrupted.extend(self.runs.last().map(|run| run.run_id.clone()));
        }
        for (case_id, (_, rate)) in rates {
            if rate.run_id.clone().is_none_or(|run_id| self.known.insert((run_id, case_id))) {
                self.rates.push(rate);
            }
        }
    }
}

/// Records of other libraries carry the name of the library; they are in the table of the comparison.
fn rate_of_summary(case: &Case, summary: &Summary, run: Option<&Run>) -> Option<Rate> {
    if case.extra.contains_key("library") {
        return None;
    }
    let steps_per_second = summary.rate()?;
    let number = |name: &str| case.params.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let rate = |ns_per_step: f64| 1e9 / ns_per_step;
    Some(Rate {
        run_id: run.map(|run| run.run_id.clone()),
        time: run.map(|run| digits(&run.started_at)).unwrap_or_default(),
        machine: run.map(|run| run.machine.fingerprint.clone()).unwrap_or_default(),
        device: "cpu".to_owned(),
        env: case.env.clone(),
        agent: case.agent.clone().unwrap_or_default(),
        kind: Some(case.kind),
        settings: settings_of(case),
        num_envs: number("n_envs"),
        threads: number("threads"),
        chunk: number("chunk"),
        steps_per_second,
        spread: summary.ci95.map(|[low, high]| Spread::Interval(rate(high), rate(low))),
        startup_s: None,
        disturbed_by: summary.guards().iter().flat_map(Readings::refusing).map(str::to_owned).collect(),
    })
}

/// All parameters of a case that have no field of their own in [`Rate`].
fn settings_of(case: &Case) -> Vec<String> {
    let others = case.params.iter().filter(|(name, _)| !["n_envs", "threads", "chunk"].contains(&name.as_str()));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    others.map(|(name, value)| format!("{name}={}", text(value))).collect()
}

/// Whether a table is of the run that a file of records is of: they have one name, or the records' has a time after it.
fn is_table_of(table: &Path, records: &Path) -> bool {
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let (table_stem, records_stem) = (stem(table), stem(records));
    let more = records_stem.strip_prefix(&table_stem);
    let same = more.is_some_and(|more| more.is_empty() || more.strip_prefix('_') == Some(&time_of_name(records)));
    same && files::folder_of(table) == files::folder_of(records)
}

/// A row of a table whose columns may be missing.
struct Row<'a> {
    columns: &'a [String],
    cells: &'a [String],
}

impl Row<'_> {
    fn text(&self, column: &str) -> String {
        let position = self.columns.iter().position(|name| name == column);
        position.map(|i| self.cells[i].clone()).unwrap_or_default()
    }

    fn number(&self, column: &str) -> Option<f64> {
        self.text(column).trim().parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Which of the columns that figures are made of has no number where there must be one; an empty cell is unknown, and a
    /// row without success has none.
    fn wrong_number(&self) -> Option<String> {
        const NUMBERS: [&str; 7] = [
            "num_envs",
            "threads",
            "scan_chunk_size",
            "total_throughput_steps_per_s",
            "throughput_steps_per_s",
            "pytree_total_mb",
            "peak_rss_mb",
        ];
        NUMBERS.into_iter().filter(|_| self.success()).find_map(|column| {
            let text = self.text(column);
            let is_good = text.trim().is_empty() || self.number(column).is_some_and(|number| number >= 0.0);
            (!is_good).then(|| format!("the column {column} has '{}', which is no number from 0 on", excerpt(&text)))
        })
    }

    /// Python writes `True`.
    fn success(&self) -> bool {
        !self.text("success").eq_ignore_ascii_case("false")
    }
}

fn rate_of(row: &Row<'_>, time: &str) -> Option<Rate> {
    let steps_per_second = row.number("total_throughput_steps_per_s").filter(|rate| row.success() && *rate > 0.0)?;
    let kind = row.text("kind");
    let total = row.number("num_steps").zip(row.number("num_envs")).map(|(steps, envs)| steps * envs);
    let range = total.zip(row.number("time_min_s").zip(row.number("time_max_s")));
    let range = range.filter(|(_, (fastest, slowest))| *fastest > 0.0 && slowest >= fastest);
    Some(Rate {
        run_id: None,
        time: time.to_owned(),
        machine: row.text("cpu_model"),
        device: Some(row.text("device")).filter(|device| !device.is_empty()).unwrap_or("cpu".to_owned()),
        env: row.text("env_name"),
        agent: row.text("agent"),
        kind: Kind::ALL.into_iter().find(|known| known.name() == kind),
        settings: Vec::new(),
        num_envs: row.number("num_envs")?,
        threads: row.number("threads").unwrap_or(0.0),
        chunk: row.number("scan_chunk_size").unwrap_or(0.0),
        steps_per_second,
        spread: range.map(|(total, (fastest, slowest))| Spread::Range(total / slowest, total / fastest)),
        startup_s: row.number("startup_s"),
        disturbed_by: Vec::new(),
    })
}

fn memory_of(row: &Row<'_>, time: &str, machine: &str) -> Option<MemoryUse> {
    Some(MemoryUse {
        time: time.to_owned(),
        machine: machine.to_owned(),
        device: Some(row.text("device")).filter(|device| !device.is_empty()).unwrap_or("cpu".to_owned()),
        env: row.text("env_name"),
        num_envs: row.number("num_envs").filter(|_| row.success())?,
        chunk: row.number("scan_chunk_size").unwrap_or(0.0),
        arrays_mb: row.number("pytree_total_mb"),
        predicted_mb: row.number("predicted_mb"),
        peak_rss_mb: row.number("peak_rss_mb"),
    })
}

fn peer_of(row: &Row<'_>, time: &str) -> Peer {
    let pair = |low: &str, high: &str| row.number(low).zip(row.number(high));
    Peer {
        time: time.to_owned(),
        library: row.text("library"),
        library_version: row.text("library_version"),
        mode: row.text("mode"),
        env: row.text("env_name"),
        kind: row.text("kind"),
        num_envs: row.number("num_envs").unwrap_or(0.0),
        steps_per_second: row.number("throughput_steps_per_s").filter(|_| row.success()),
        interval: pair("throughput_ci_low", "throughput_ci_high"),
        phalanx_speedup: row
            .number("phalanx_speedup")
            .zip(pair("phalanx_speedup_ci_low", "phalanx_speedup_ci_high"))
            .map(|(ratio, (low, high))| (ratio, low, high)),
        startup_s: row.number("compile_time_s"),
        error: row.text("error"),
        noisy: row.text("noisy"),
    }
}

fn unusable(path: &Path, reason: String) -> Error {
    Error::Unusable { path: path.to_owned(), reason }
}

/// When a table was made, and the machine if the records beside it name one: by its name, else by these, else by the file
/// itself.
fn origin(table: &Path) -> (String, String) {
    let beside = files::list(files::folder_of(table), "jsonl").unwrap_or_default();
    let records = beside.iter().rfind(|records| is_table_of(table, records));
    let run = records.and_then(|records| record::read(records).ok()).and_then(|read| {
        read.records.into_iter().find_map(|record| match record {
            Record::Run(run) => Some(*run),
            _ => None,
        })
    });
    let changed = || {
        let time = std::fs::metadata(table).ok()?.modified().ok()?;
        let seconds = time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64();
        Some(Timestamp::from_unix_seconds(seconds)?.compact())
    };
    let named = Some(time_of_name(table)).filter(|time| !time.is_empty());
    let time = named.or_else(|| run.as_ref().map(|run| digits(&run.started_at))).or_else(changed);
    (time.unwrap_or_default(), run.map(|run| run.machine.fingerprint).unwrap_or_default())
}

/// `20260722_130501` of a name that ends in it; empty without one.
fn time_of_name(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let parts: Vec<&str> = stem.split('_').collect();
    let is_number = |text: &str, digits: usize| text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    let found = parts.windows(2).rev().find(|pair| is_number(pair[0], 8) && is_number(pair[1], 6));
    found.map(|pair| pair.join("_")).unwrap_or_default()
}

/// `20260722_130501` of a time such as `2026-07-22T13:05:01Z`.
fn digits(time: &str) -> String {
    let digits: String = time.chars().filter(char::is_ascii_digit).take(14).collect();
    if digits.len() < 14 { digits } else { format!("{}_{}", &digits[..8], &digits[8..]) }
}

/// `2026-07-22 13:05` of `20260722_130501`, for people; other texts stay as they are.
pub fn readable_time(time: &str) -> String {
    if time.len() != 15 || !time.is_ascii() {
        return time.to_owned();
    }
    format!("{}-{}-{} {}:{}", &time[..4], &time[4..6], &time[6..8], &time[9..11], &time[11..13])
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::case::CaseSpec;

    fn read(name: &str, text: &str) -> Result<Results> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let mut results = Results::default();
        results.read_files(&[path]).map(|()| results)
    }

    #[test]
    fn a_table_of_rates_is_read_by_its_columns() {
        let text = "env_name,num_envs,num_steps,scan_chunk_size,success,time_max_s,time_min_s,\
                    total_throughput_steps_per_s,kind,threads,error\n\
                    CartPole-v1,1000,100,256,true,0.02,0.01,8000000,fused_random_rollout,2,\n\
                    CartPole-v1,1000000,100,32,false,,,,fused_random_rollout,2,out of memory\n";
        let results = read("throughput_cpu_20260722_130501.csv", text).unwrap();
        let [rate] = &results.rates[..] else { panic!("{results:?}") };
        assert_eq!((rate.num_envs, rate.chunk, rate.threads, rate.steps_per_second), (1e3, 256.0, 2.0, 8e6));
        assert_eq!(rate.spread, Some(Spread::Range(5e6, 1e7)));
        assert_eq!((rate.kind, rate.device.as_str()), (Some(Kind::FusedRandomRollout), "cpu"));
        assert_eq!(readable_time(&rate.time), "2026-07-22 13:05");
    }

    #[test]
    fn a_cell_that_is_no_number_is_told_by_row_and_column() {
        let text = "env_name,num_envs,success,total_throughput_steps_per_s\nA,10,true,1000\nA,NaN,true,1000\n\
                    A,-5,true,1000\nA,10,true,abc\nA,10,false,nan\nA,10,true,\n";
        let results = read("t.csv", text).unwrap();
        assert_eq!(results.rates.len(), 1);
        let told: Vec<String> = results.damaged.iter().map(|damage| damage.to_string()).collect();
        let wanted = [
            "t.csv:3: skipped, the column num_envs has 'NaN'",
            "t.csv:4: skipped, the column num_envs has '-5'",
            "t.csv:5: skipped, the column total_throughput_steps_per_s has 'abc'",
        ];
        assert_eq!(told.len(), wanted.len(), "{told:?}");
        told.iter().zip(wanted).for_each(|(told, wanted)| assert!(told.contains(wanted), "{told}"));
    }

    #[test]
    fn memory_and_peers_are_told_apart() {
        let memory = read("m.csv", "env_name,num_envs,pytree_total_mb,success\nCartPole-v1,1024,0.05,True\n").unwrap();
        assert_eq!((memory.memory.len(), memory.memory[0].arrays_mb), (1, Some(0.05)));
        let peers = "library,kind,throughput_steps_per_s,success,error\n\
                     gymnax,fused_random_rollout,6100000,true,\n\
                     envpool,host_api_random,,false,pip install envpool\n";
        let peers = read("c.csv", peers).unwrap().peers;
        assert_eq!(peers[0].time.len(), 15, "that of the file, where neither its name nor records tell");
        assert_eq!((peers[0].steps_per_second, peers[1].steps_per_second), (Some(6.1e6), None));
        assert_eq!(peers[1].error, "pip install envpool");
    }

    #[test]
    fn what_is_no_result_is_refused_alone_and_skipped_in_a_folder() {
        assert!(matches!(read("x.csv", "a,b\n1,2\n"), Err(Error::UnknownTable { .. })));
        assert!(matches!(read("x.txt", ""), Err(Error::Unusable { .. })));
        assert!(matches!(read("x.json", "{"), Err(Error::Unusable { .. })));
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a.csv", "a,b\n1,2\n"), ("b.csv", "a,a\n"), ("c.json", "{"), ("d.json", "{}")] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let mut results = Results::default();
        results.read_folders(&[folder.path().to_owned()]).unwrap();
        assert!(results.is_empty());
        assert_eq!(results.damaged.len(), 2, "{:?}", results.damaged);
    }

    #[test]
    fn a_figure_has_its_newest_value_whichever_suite_measured_it() {
        let suite = |time: &str, machine: &str, kpis: Value| Stamped {
            time: time.to_owned(),
            value: serde_json::json!({"system_info": {"fingerprint": machine}, "kpis": kpis}),
        };
        let kpi = |name: &str, value: Option<f64>| serde_json::json!({"name": name, "value": value, "source": "case"});
        let results = Results {
            suites: vec![
                suite("20260701_100000", "here", Value::from(vec![kpi("a", Some(1.0)), kpi("b", Some(2.0))])),
                suite("20260702_100000", "elsewhere", Value::from(vec![kpi("b", Some(3.0))])),
                suite(
                    "20260703_100000",
                    "here",
                    Value::from(vec![kpi("a", Some(4.0)), kpi("b", None), kpi("c", None)]),
                ),
            ],
            ..Results::default()
        };
        let kpis = results.kpis();
        let of = |name: &str| kpis.as_array().unwrap().iter().find(|kpi| kpi["name"] == name).unwrap();
        assert_eq!((&of("a")["value"], &of("a")["source"]), (&Value::from(4.0), &Value::from("case")));
        let older = Value::from("case, on 2026-07-01 10:00");
        assert_eq!((&of("b")["value"], &of("b")["source"]), (&Value::from(2.0), &older));
        assert!(of("c")["value"].is_null());
        assert!(Results::default().kpis().is_null());
    }

    #[test]
    fn the_golden_records_have_rates_and_verdicts() {
        let mut results = Results::default();
        results.read_files(&[Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/records_v1.jsonl")]).unwrap();
        assert!(!results.runs.is_empty() && !results.rates.is_empty() && !results.verdicts.is_empty());
        assert!(results.rates[0].steps_per_second > 0.0);
    }

    /// A run as a line of records.
    fn session(folder: &Path, prefix: &str) -> crate::session::Session {
        crate::session::Session::start(prefix, 1, Vec::new(), Some(folder)).unwrap()
    }

    fn summary(case: &CaseSpec, arm: Arm, time: f64) -> Record {
        let mut summary = crate::campaign::summary("r", &case.id(), arm, &[]);
        (summary.t_median, summary.t_mean) = (time, time);
        Record::Summary(summary)
    }

    #[test]
    fn the_judged_side_counts_and_settings_stay_apart() {
        let folder = tempfile::tempdir().unwrap();
        let case = CaseSpec::rollout("CartPole-v1", 64);
        let off = CaseSpec { safety: "off".to_owned(), ..case.clone() };
        let mut suite = session(folder.path(), "suite");
        let mut record = |record: Record| suite.record(&record).unwrap();
        record(Record::Case(case.record("r", "suite")));
        record(Record::Case(off.record("r", "suite")));
        record(summary(&case, Arm::B, 10.0));
        record(summary(&case, Arm::A, 5.0));
        record(summary(&off, Arm::A, 8.0));
        let mut ab = session(folder.path(), "ab");
        ab.record(&Record::Case(case.record("r", "ab"))).unwrap();
        ab.record(&summary(&case, Arm::A, 1.0)).unwrap();
        let mut results = Results::default();
        results.read_folders(&[folder.path().to_owned()]).unwrap();
        let mut rates: Vec<f64> = results.rates.iter().map(|rate| rate.steps_per_second).collect();
        rates.sort_by(f64::total_cmp);
        assert_eq!(rates, [1e8, 1.25e8], "neither the old side nor a comparison of any builds");
        assert_ne!(results.rates[0].series(), results.rates[1].series());
        let text = crate::report::Report::of(&results, Timestamp::now()).text();
        assert_eq!(text.matches("safety=off").count(), 1, "the report tells their rows apart: {text}");
    }

    #[test]
    fn a_run_that_was_ended_early_is_known_and_one_that_started_a_case_anew_is_not_one() {
        let unfinished = |case: &CaseSpec, arm, time| {
            let Record::Summary(summary) = summary(case, arm, time) else { unreachable!("a summary") };
            Record::Summary(Summary { complete: Some(false), ..summary })
        };
        let folder = tempfile::tempdir().unwrap();
        let case = CaseSpec::rollout("CartPole-v1", 64);
        let described = || Record::Case(case.record("r", "suite"));
        let mut cut = session(folder.path(), "cut");
        for record in [described(), unfinished(&case, Arm::A, 10.0)] {
            cut.record(&record).unwrap();
        }
        let mut whole = session(folder.path(), "whole");
        // Pairs that failed, then the case alone.
        let pairs = [unfinished(&case, Arm::A, 9.0), unfinished(&case, Arm::B, 8.0)];
        for record in [described()].into_iter().chain(pairs).chain([described(), summary(&case, Arm::A, 5.0)]) {
            whole.record(&record).unwrap();
        }
        let mut results = Results::default();
        results.read_folders(&[folder.path().to_owned()]).unwrap();
        assert_eq!(results.interrupted, BTreeSet::from([cut.run.run_id.clone()]));
        let rates: Vec<f64> = results.rates.iter().map(|rate| rate.steps_per_second).collect();
        assert_eq!(rates, [1e8, 2e8]);
        let report = crate::report::Report::of(&results, crate::timestamp::Timestamp::now());
        assert_eq!(report.summary.interrupted_runs, 1);
        let text = report.text();
        let line = text.lines().find(|line| line.starts_with("runs that were ended early")).unwrap();
        assert!(line.ends_with('1'), "{line}");
    }

    #[test]
    fn a_table_of_any_name_is_as_old_as_the_records_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let session = session(folder.path(), "mine");
        let table = folder.path().join("mine.csv");
        fs::write(&table, "env_name,num_envs,pytree_total_mb\nCartPole-v1,64,0.1\n").unwrap();
        let mut results = Results::default();
        results.read_files(&[table]).unwrap();
        let MemoryUse { time, machine, .. } = &results.memory[0];
        assert_eq!((time, machine), (&digits(&session.run.started_at), &session.run.machine.fingerprint));
    }

    #[test]
    fn a_run_that_has_records_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let case = CaseSpec::rollout("CartPole-v1", 64);
        let mut session = session(folder.path(), "throughput_cpu");
        session.record(&Record::Case(case.record("r", "throughput"))).unwrap();
        session.record(&summary(&case, Arm::A, 10.0)).unwrap();
        let table = "env_name,num_envs,total_throughput_steps_per_s\nCartPole-v1,64,100000000\n";
        let records = session.path().unwrap();
        fs::write(records.with_extension("csv"), table).unwrap();
        fs::write(folder.path().join("throughput_cpu.csv"), table).unwrap();
        let mut results = Results::default();
        results.read_folders(&[folder.path().to_owned()]).unwrap();
        assert_eq!(results.rates.len(), 1);
        fs::write(folder.path().join("throughput.csv"), table).unwrap();
        let mut results = Results::default();
        results.read_folders(&[folder.path().to_owned()]).unwrap();
        assert_eq!(results.rates.len(), 2, "a table of another run");
    }
}
