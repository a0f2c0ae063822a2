//! `phalanx bench compare`, also `phalanx compare`: all runs of `bench baseline` side by side.

use std::path::PathBuf;

use clap::Args;
use phalanx_core::Error;
use phalanx_lab::baseline_file::{self, Baseline, BatchOutcome, ComparisonRow, ScalingRow};
use phalanx_lab::format::format_number;
use serde::Serialize;

use super::baseline::scaling_table;
use super::options::RESULTS_DIR;
use crate::args::{OutputArgs, count};
use crate::commands::{print, print_json};
use crate::failure::Failure;
use crate::text::columns;

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Folder of the results
    #[arg(long, value_name = "DIR", default_value = RESULTS_DIR)]
    results_dir: PathBuf,
    /// The batch size to compare
    #[arg(long, value_name = "B", default_value = "1000", value_parser = count)]
    batch_size: usize,
    /// Show only how the latest run scales with the batch size
    #[arg(long)]
    scaling_only: bool,
    /// Only runs with this tag
    #[arg(long, short, value_name = "TAG")]
    tag: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Report {
    batch_size: u64,
    runs: Vec<RunLine>,
    latest_scaling: Vec<ScalingLine>,
    /// By how much the batch's memory is smaller than in the first run tagged `baseline`; below 1 it is larger.
    memory_ratio: Option<f64>,
    damaged: Vec<String>,
}

#[derive(Serialize)]
struct RunLine {
    date: Option<String>,
    env: Option<String>,
    tag: Option<String>,
    machine: Option<String>,
    label: String,
    single_steps_per_second: f64,
    single_change_percent: Option<f64>,
    batch_steps_per_second: Option<f64>,
    batch_change_percent: Option<f64>,
    /// The guards that refused the machine as it was.
    disturbed_by: Vec<String>,
}

#[derive(Serialize)]
struct ScalingLine {
    #[serde(flatten)]
    outcome: BatchOutcome,
    /// Computed anew; the file's own is in `efficiency_percent`.
    efficiency: Option<f64>,
}

pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let found = baseline_file::read_folder(&args.results_dir)?;
    let damaged: Vec<String> = found.damaged.iter().map(ToString::to_string).collect();
    damaged.iter().for_each(|damage| say!("warning: {damage}"));
    let of_tag = |run: &&Baseline| args.tag.is_none() || run.tag == args.tag;
    let runs: Vec<Baseline> = found.runs.iter().filter(of_tag).cloned().collect();
    let Some(latest) = runs.last() else {
        let folder = args.results_dir.display().to_string();
        return Err(match &args.tag {
            Some(tag) if !found.runs.is_empty() => {
                let mut known: Vec<&String> = found.runs.iter().filter_map(|run| run.tag.as_ref()).collect();
                known.sort_unstable();
                known.dedup();
                Error::unknown("tag", tag, Some(&format!("the runs in {folder}")), known).into()
            }
            _ => Failure::input(format!("{folder} holds no run of 'phalanx bench baseline'")),
        });
    };
    let batch_size = args.batch_size as u64;
    let rows = baseline_file::compare(&runs, batch_size);
    // Of all runs: the one tagged baseline has another tag than the one asked for.
    let memory_ratio = memory_ratio(&found.runs, latest, batch_size);
    if args.output.json {
        let line = |row: ScalingRow| ScalingLine { outcome: row.outcome, efficiency: row.efficiency_percent };
        return print_json(&Report {
            batch_size,
            runs: if args.scaling_only { Vec::new() } else { rows.into_iter().map(run_line).collect() },
            latest_scaling: baseline_file::scaling(latest).into_iter().map(line).collect(),
            memory_ratio,
            damaged,
        });
    }
    let mut text = String::new();
    if !args.scaling_only {
        text += &comparison(&rows, batch_size);
        if let Some(ratio) = memory_ratio {
            let than = match ratio {
                ratio if ratio > 1.005 => format!("{ratio:.2} times less than"),
                ratio if ratio < 0.995 => format!("{:.2} times as much as", 1.0 / ratio),
                _ => "as much as".to_owned(),
            };
            text += &format!("memory of a batch of {batch_size}: {than} in the run tagged baseline\n");
        }
        text += &targets(latest);
        text.push('\n');
    }
    let of = latest.env.as_ref().map(|env| format!(" of {env}")).unwrap_or_default();
    text += &format!("Scaling{of} in the latest run\n{}", scaling_table(latest));
    print(&text)
}

/// What a run should reach, for the environment that this is known of.
fn targets(latest: &Baseline) -> String {
    if latest.env.as_deref() != Some("ARC-v0") {
        return String::new();
    }
    let batch = match latest.batch_scaling.get(&TARGET_BATCH) {
        Some(BatchOutcome::Measured(result)) => Some(result.steps_per_second),
        _ => None,
    };
    let line = |what: &str, rate: Option<f64>, [low, high]: [f64; 2]| {
        let found = match rate {
            Some(rate) if rate >= low => format!("met with {}", format_number(rate)),
            Some(rate) => format!("missed with {}", format_number(rate)),
            None => "not measured".to_owned(),
        };
        format!("target of {what}: {} to {} steps/s, {found}\n", format_number(low), format_number(high))
    };
    let single = Some(latest.single_environment.steps_per_second);
    line("one environment", single, SINGLE_TARGET) + &line("a batch of 1000", batch, BATCH_TARGET)
}

/// Steps per second that one ARC environment and a batch of them should reach.
const SINGLE_TARGET: [f64; 2] = [50e3, 100e3];
const BATCH_TARGET: [f64; 2] = [1e6, 5e6];
const TARGET_BATCH: u64 = 1000;

fn run_line(row: ComparisonRow) -> RunLine {
    RunLine {
        date: row.time.map(|time| time.rfc3339()),
        env: row.env,
        tag: row.tag,
        machine: row.machine,
        disturbed_by: row.disturbed_by,
        label: row.label,
        single_steps_per_second: row.single,
        single_change_percent: row.single_change_percent,
        batch_steps_per_second: row.batch,
        batch_change_percent: row.batch_change_percent,
    }
}

fn comparison(rows: &[ComparisonRow], batch_size: u64) -> String {
    let change = |percent: Option<f64>| percent.map_or("N/A".to_owned(), |percent| format!("{percent:+.1} %"));
    let lines: Vec<_> = rows
        .iter()
        .map(|row| {
            [
                row.time.map_or("unknown".to_owned(), |time| time.readable()),
                format!("{:<28}", row.label),
                row.env.clone().unwrap_or_default(),
                format_number(row.single),
                change(row.single_change_percent),
                row.batch.map_or("N/A".to_owned(), format_number),
                change(row.batch_change_percent),
                if row.disturbed_by.is_empty() { String::new() } else { "noisy".to_owned() },
            ]
        })
        .collect();
    let batch = format!("batch {batch_size} SPS");
    let header =
        ["Date", "[tag] description           ", "environment", "single SPS", "change", &batch, "change", "guards"];
    columns(&header, &lines)
}

/// How many times less memory the latest run's batch takes than that of the first run tagged `baseline` that differs from
/// it in nothing but the code.
fn memory_ratio(runs: &[Baseline], latest: &Baseline, batch_size: u64) -> Option<f64> {
    let memory = |run: &Baseline| match run.batch_scaling.get(&batch_size)? {
        BatchOutcome::Measured(result) => result.memory_mb.filter(|mb| *mb > 0.0),
        BatchOutcome::Failed { .. } => None,
    };
    let first = runs.iter().find(|run| run.tag.as_deref() == Some("baseline") && run.same_series(latest))?;
    (first != latest).then_some(())?;
    Some(memory(first)? / memory(latest)?)
}
