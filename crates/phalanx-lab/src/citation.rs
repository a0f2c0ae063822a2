//! How to cite a result: throughput, hardware, configuration, environment, versions, from a stored file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::baseline_file::{Baseline, BatchOutcome};
use crate::csv::Table;
use crate::format::{format_bytes, format_number};
use crate::guards::Readings;
use crate::history::NO_HISTORY;
use crate::machine::Machine;
use crate::record::{self, Case, Kind, Record, Run, Summary};
use crate::{Error, Result, files, json};

/// A citation. What the file does not tell is `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Citation {
    /// Steps per second, or whatever else the kind counts.
    pub steps_per_second: f64,
    /// What is counted: `steps`, `observations`, `transitions` or `runs`.
    pub unit: &'static str,
    /// What was timed, such as `fused_random_rollout`.
    pub kind: Option<String>,
    /// The CPU's model.
    pub cpu: Option<String>,
    /// Main memory, in bytes.
    pub memory_bytes: Option<f64>,
    /// Number of environments.
    pub num_envs: u64,
    /// Steps that a block of environments makes before the next is touched.
    pub scan_chunk_size: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// The environment.
    pub env: Option<String>,
    /// The version of Phalanx.
    pub version: Option<String>,
    /// The commit.
    pub commit: Option<String>,
    /// The compiler.
    pub toolchain: Option<String>,
    /// Whether the run was ended before all processes had measured.
    pub interrupted: bool,
    /// The guards that refused the machine as it was, so that the figure should not be quoted; none is known of a table
    /// alone.
    pub disturbed_by: Vec<String>,
}

impl fmt::Display for Citation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "not recorded in this file".to_owned());
        let hardware = self.cpu.clone().map(|cpu| match self.memory_bytes {
            Some(bytes) => format!("{cpu}, {} of memory", format_bytes(bytes)),
            None => cpu,
        });
        let kind = self.kind.as_ref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        let mut config = format!("num_envs {}", self.num_envs);
        for (name, value) in [("scan_chunk_size", self.scan_chunk_size), ("threads", self.threads)] {
            if let Some(value) = value {
                config += &format!(", {name} {value}");
            }
        }
        let version = self.version.clone().map(|version| match &self.commit {
            Some(commit) => format!("{version} ({})", commit.get(..12).unwrap_or(commit)),
            None => version,
        });
        let interrupted = if self.interrupted { ", of a run that was ended early" } else { "" };
        let (rate, unit) = (format_number(self.steps_per_second), self.unit);
        writeln!(f, "Throughput:      {rate} {unit}/s{kind}{interrupted}")?;
        if !self.disturbed_by.is_empty() {
            writeln!(f, "Do not quote it: the machine was disturbed by {}", self.disturbed_by.join(", "))?;
        }
        writeln!(f, "Hardware:        {}", or_unknown(hardware))?;
        writeln!(f, "Config:          {config}")?;
        writeln!(f, "Environment:     {}", or_unknown(self.env.clone()))?;
        writeln!(f, "Phalanx version: {}", or_unknown(version))?;
        writeln!(f, "Toolchain:       {}", or_unknown(self.toolchain.clone()))
    }
}

impl Citation {
    /// With what the run's own record knows.
    fn with_run(self, run: &Run) -> Self {
        let Machine { cpu, mem, .. } = &run.machine;
        Self {
            cpu: self.cpu.or(cpu.clone()),
            memory_bytes: mem.total_bytes.map(|bytes| bytes as f64).or(self.memory_bytes),
            version: self.version.or(Some(run.build.version.clone())),
            commit: self.commit.or(run.git.sha.clone()),
            toolchain: run.build.rustc.clone(),
            disturbed_by: refusing(&run.guards),
            ..self
        }
    }
}

/// The citations of a file of `bench throughput` (.csv), of any run (.jsonl) or of `bench baseline` (.json), fastest
/// first; at least one.
pub fn of_file(path: &Path) -> Result<Vec<Citation>> {
    let mut found = match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => of_table(path)?,
        Some("jsonl") => of_records(path)?,
        Some("json") => of_baseline(path)?,
        _ => return Err(unusable(path, "a file to cite ends in .csv, .jsonl or .json")),
    };
    if found.is_empty() {
        return Err(unusable(path, "it holds no throughput"));
    }
    found.sort_by(|a, b| b.steps_per_second.total_cmp(&a.steps_per_second));
    Ok(found)
}

fn unusable(path: &Path, why: impl Into<String>) -> Error {
    Error::Unusable { path: path.to_owned(), reason: why.into() }
}

fn read(path: &Path) -> Result<String> {
    files::read_text(path).map_err(Error::read(path))
}

fn of_table(path: &Path) -> Result<Vec<Citation>> {
    let wrong = |error: Error| unusable(path, error.to_string());
    let table = Table::parse(&read(path)?).map_err(wrong)?;
    let column = |name: &str| -> Result<Vec<&str>> { Ok(table.column(name).map_err(wrong)?.collect()) };
    let (rates, envs) = (column("total_throughput_steps_per_s")?, column("num_envs")?);
    let text = |name: &str, row: usize| -> Option<String> {
        let cell = table.column(name).ok()?.nth(row)?;
        (!cell.is_empty()).then(|| cell.to_owned())
    };
    let number = |name: &str, row: usize| text(name, row).and_then(|cell| cell.parse().ok());
    let run = run_beside(path);
    let citations = rates.iter().zip(envs).enumerate().filter_map(|(row, (rate, envs))| {
        let kind = text("kind", row);
        let citation = Citation {
            steps_per_second: rate.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0)?,
            unit: unit_of(kind.as_deref()),
            kind,
            cpu: text("cpu_model", row),
            memory_bytes: None,
            num_envs: envs.parse().ok()?,
            scan_chunk_size: number("scan_chunk_size", row),
            threads: number("threads", row),
            env: text("env_name", row),
            version: text("version", row),
            commit: text("git_hash", row),
            toolchain: None,
            // The table is only written when all is measured.
            interrupted: false,
            disturbed_by: Vec::new(),
        };
        Some(match &run {
            Some(run) => citation.with_run(run),
            None => citation,
        })
    });
    Ok(citations.collect())
}

/// The run whose records lie beside a table: their file begins with the same name, and the newest counts.
fn run_beside(table: &Path) -> Option<Run> {
    let stem = table.file_stem()?.to_str()?;
    let folder = table.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let paths = files::list(folder, "jsonl").ok()?;
    let named = |path: &&std::path::PathBuf| {
        let rest = path.file_stem().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(stem));
        rest.is_some_and(|rest| rest.chars().all(|c| c == '_' || c.is_ascii_digit()))
    };
    let records = record::read(paths.iter().rfind(named)?).ok()?.records;
    // The run's own record only knows what the guards found before it.
    let guards = records.iter().rev().find_map(|record| match record {
        Record::Summary(summary) => summary.guards(),
        _ => None,
    });
    let run = records.into_iter().find_map(|record| match record {
        Record::Run(run) => Some(*run),
        _ => None,
    })?;
    Some(Run { guards: guards.unwrap_or_else(|| run.guards.clone()), ..run })
}

/// What is counted by a kind of this name.
fn unit_of(kind: Option<&str>) -> &'static str {
    let known = Kind::ALL.into_iter().find(|known| Some(known.name()) == kind);
    known.map_or("steps", |kind| kind.unit().plural())
}

/// Whether the run that recorded a case can speak for it: neither of another library, nor of any two builds or modes, whose
/// sides the run's own commit says nothing of.
fn is_citable(case: &Case) -> bool {
    !case.extra.contains_key("library") && !NO_HISTORY.contains(&case.suite.as_str())
}

fn of_records(path: &Path) -> Result<Vec<Citation>> {
    let (mut run, mut cases, mut found) = (None, BTreeMap::new(), BTreeMap::new());
    let mut left_out = false;
    for record in record::read(path)?.records {
        match record {
            Record::Run(new) => {
                run = Some(new);
                cases.clear();
            }
            Record::Case(case) if is_citable(&case) => _ = cases.insert(case.case_id.clone(), case),
            Record::Case(case) => {
                left_out = true;
                cases.remove(&case.case_id);
            }
            Record::Summary(summary) => {
                let (Some(run), Some(case)) = (&run, cases.get(&summary.case_id)) else { continue };
                let Some(citation) = of_summary(run, case, &summary) else { continue };
                // A later summary takes the place of one that was made before all was measured, and the judged side (B) that
                // of the baseline's binary, which is another build.
                let place = (run.run_id.clone(), summary.case_id);
                if found.get(&place).is_none_or(|(arm, _)| summary.arm >= *arm) {
                    found.insert(place, (summary.arm, citation));
                }
            }
            Record::Sample(_) | Record::Verdict(_) => {}
        }
    }
    if found.is_empty() && left_out {
        return Err(unusable(
            path,
            "it compares builds, modes or other libraries, or times starts, and its run's commit speaks for none of them: \
             cite a run of bench throughput, baseline or suite",
        ));
    }
    Ok(found.into_values().map(|(_, citation)| citation).collect())
}

fn of_summary(run: &Run, case: &Case, summary: &Summary) -> Option<Citation> {
    let number = |name: &str| case.params.get(name).and_then(|value| value.as_u64());
    let citation = Citation {
        steps_per_second: summary.rate()?,
        unit: case.kind.unit().plural(),
        kind: Some(case.kind.to_string()),
        cpu: None,
        memory_bytes: None,
        num_envs: number("n_envs").unwrap_or(1),
        scan_chunk_size: number("chunk"),
        threads: number("threads"),
        env: Some(case.env.clone()),
        version: None,
        commit: None,
        toolchain: None,
        interrupted: summary.complete == Some(false),
        disturbed_by: Vec::new(),
    };
    let citation = citation.with_run(run);
    Some(match summary.guards() {
        Some(guards) => Citation { disturbed_by: refusing(&guards), ..citation },
        None => citation,
    })
}

fn refusing(guards: &Readings) -> Vec<String> {
    guards.refusing().map(str::to_owned).collect()
}

fn of_baseline(path: &Path) -> Result<Vec<Citation>> {
    let run: Baseline = serde_json::from_str(&read(path)?)
        .map_err(|error| unusable(path, format!("it is no file of 'bench baseline': {}", json::reason(&error))))?;
    let text = |name: &str| run.system_info.extra.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    let disturbed_by = run.guards().map(|guards| refusing(&guards)).unwrap_or_default();
    let citation = |num_envs, steps_per_second| Citation {
        steps_per_second,
        unit: run.kind.map_or("steps", |kind| kind.unit().plural()),
        kind: run.kind.map(|kind| kind.to_string()),
        cpu: run.system_info.cpu_model.clone(),
        memory_bytes: run.system_info.memory_gb.map(|gigabytes| gigabytes * 1024f64.powi(3)),
        num_envs,
        scan_chunk_size: None,
        threads: None,
        env: run.env.clone(),
        version: run.system_info.version.clone(),
        commit: text("git_hash"),
        toolchain: text("toolchain"),
        interrupted: false,
        disturbed_by: disturbed_by.clone(),
    };
    let mut found = vec![citation(1, run.single_environment.steps_per_second)];
    found.extend(run.batch_scaling.values().filter_map(|outcome| match outcome {
        BatchOutcome::Measured(result) => Some(citation(result.batch_size, result.steps_per_second)),
        BatchOutcome::Failed { .. } => None,
    }));
    found.retain(|citation| citation.steps_per_second.is_finite() && citation.steps_per_second > 0.0);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::case::CaseSpec;
    use crate::record::Arm;
    use crate::session::Session;

    #[test]
    fn a_table_is_cited_with_the_records_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let session = Session::start("throughput_cpu", 1, Vec::new(), Some(folder.path())).unwrap();
        let path = session.path().unwrap().with_extension("csv");
        let text = "cpu_model,env_name,git_hash,kind,num_envs,scan_chunk_size,threads,total_throughput_steps_per_s,version\n\
            Some CPU,CartPole-v1,0123456789abcdef,fused_random_rollout,100,256,2,12300000,0.1.0\n\
            Some CPU,CartPole-v1,0123456789abcdef,fused_random_rollout,1000,256,2,,0.1.0\n\
            Some CPU,CartPole-v1,0123456789abcdef,fused_random_rollout,5000,128,2,350000000,0.1.0\n";
        fs::write(&path, text).unwrap();
        let found = of_file(&path).unwrap();
        assert_eq!(found.iter().map(|citation| citation.num_envs).collect::<Vec<_>>(), [5000, 100]);
        assert_eq!(found[0].toolchain, session.run.build.rustc);
        let printed = found[0].to_string();
        for line in [
            "Throughput:      350M steps/s (fused_random_rollout)",
            "Hardware:        Some CPU",
            "Config:          num_envs 5000, scan_chunk_size 128, threads 2",
            "Environment:     CartPole-v1",
            "Phalanx version: 0.1.0 (0123456789ab)",
        ] {
            assert!(printed.contains(line), "{line} in {printed}");
        }
        let alone = folder.path().join("alone.csv");
        fs::write(&alone, text).unwrap();
        assert!(of_file(&alone).unwrap()[0].to_string().contains("Toolchain:       not recorded in this file"));
    }

    fn summary(id: &str, arm: Arm, time: f64, guards: serde_json::Value) -> Record {
        let mut summary = crate::campaign::summary("r", id, arm, &[]);
        (summary.t_median, summary.t_mean) = (time, time);
        summary.extra.insert("guards".to_owned(), guards);
        Record::Summary(summary)
    }

    #[test]
    fn neither_other_libraries_nor_other_builds_are_cited() {
        let folder = tempfile::tempdir().unwrap();
        let calm = || serde_json::json!({});
        let case = CaseSpec::rollout("CartPole-v1", 64);
        let of = |suite: &str, records: Vec<(Option<&str>, Arm, f64)>| {
            let mut session = Session::start(suite, 1, Vec::new(), Some(folder.path())).unwrap();
            for (library, arm, time) in records {
                let mut described = case.record("r", suite);
                if let Some(library) = library {
                    described.case_id = format!("{library}/{}", described.case_id);
                    described.extra.insert("library".to_owned(), library.into());
                }
                let id = described.case_id.clone();
                session.record(&Record::Case(described)).unwrap();
                session.record(&summary(&id, arm, time, calm())).unwrap();
            }
            of_file(&session.path().unwrap())
                .map(|found| found.iter().map(|citation| citation.steps_per_second).collect::<Vec<_>>())
        };
        assert_eq!(of("comparison", vec![(None, Arm::A, 10.0), (Some("gymnasium"), Arm::A, 1.0)]).unwrap(), [1e8]);
        assert_eq!(of("suite", vec![(None, Arm::A, 5.0), (None, Arm::B, 10.0)]).unwrap(), [1e8], "the judged side");
        for (suite, library) in [("ab", None), ("doctor", None), ("safety", None), ("comparison", Some("envpool"))] {
            let refused = of(suite, vec![(library, Arm::A, 10.0), (library, Arm::B, 10.0)]).unwrap_err().to_string();
            assert!(refused.contains("its run's commit speaks for none of them"), "{refused}");
        }
        for time in [0.0, -1.0] {
            let found = of("suite", vec![(None, Arm::A, time)]);
            assert!(
                found.as_ref().is_err_and(|error| error.to_string().contains("no throughput")),
                "{time}: {found:?}"
            );
        }
    }

    #[test]
    fn the_unit_is_that_of_the_kind_and_the_guards_are_those_of_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = Session::start("suite", 1, Vec::new(), Some(folder.path())).unwrap();
        let case = CaseSpec { kind: Kind::TimeToSolve, ..CaseSpec::training("CartPole-v1", "ppo", 32) };
        session.record(&Record::Case(case.record("r", "suite"))).unwrap();
        let guards = serde_json::json!({"steal": {"value": 0.2, "status": "refuse"}});
        session.record(&summary(&case.id(), Arm::A, 2e8, guards)).unwrap();
        let found = of_file(&session.path().unwrap()).unwrap();
        assert_eq!((found[0].unit, found[0].steps_per_second), ("runs", 5.0));
        assert_eq!(found[0].disturbed_by, ["steal"]);
        let printed = found[0].to_string();
        assert!(printed.contains("runs/s (time_to_solve)") && printed.contains("disturbed by steal"), "{printed}");
    }

    #[test]
    fn what_cannot_be_cited_is_refused_in_one_sentence() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text, part) in [
            ("a.txt", "", "ends in .csv, .jsonl or .json"),
            ("a.csv", "a,b\n1,2\n", "no column 'total_throughput_steps_per_s'"),
            ("b.csv", "num_envs,total_throughput_steps_per_s\n1,\n", "it holds no throughput"),
            ("a.json", "{}", "it is no file of 'bench baseline'"),
            ("a.jsonl", "", "it holds no throughput"),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            let error = of_file(&path).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(name), "{error}");
        }
    }
}
