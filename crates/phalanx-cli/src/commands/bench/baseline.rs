//! `phalanx bench baseline`: one environment and batches of growing size, kept under a description and a tag.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use phalanx_core::space::EnvSpec;
use phalanx_envs::registry;
use phalanx_lab::baseline_file::{
    self, Baseline, BatchOutcome, BatchResult, BenchmarkParams, ConfigSummary, DEFAULT_BATCH_SIZES, Devices,
    SCHEMA_VERSION, SingleResult, SystemInfo,
};
use phalanx_lab::budget::MemoryBudget;
use phalanx_lab::campaign::Measured;
use phalanx_lab::case::{Autoreset, CaseSpec};
use phalanx_lab::format::{format_number, format_seconds};
use phalanx_lab::record::{Kind, Run};
use phalanx_lab::session::{About, Session};
use phalanx_lab::stats::descriptive::median;
use phalanx_lab::throughput::{MEGABYTE, rate};
use phalanx_lab::timestamp::Timestamp;
use phalanx_lab::workload;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::options::{PlanArgs, RESULTS_DIR, print_noise};
use super::throughput::measure;
use crate::args::{OutputArgs, count, key_value, memory_budget, whole};
use crate::commands::{print, print_json};
use crate::device::DeviceArgs;
use crate::failure::Failure;
use crate::monitoring::ProcessMonitorArgs;
use crate::text::columns;
use crate::workloads;

#[derive(Debug, Args)]
pub(crate) struct BaselineArgs {
    /// What this run is about
    #[arg(long, short, value_name = "TEXT", default_value = "")]
    description: String,
    /// What to call it, such as baseline, phase1, phase2 or phase3; part of the file's name
    #[arg(long, short, value_name = "TAG")]
    tag: Option<String>,
    /// Batch sizes, such as 1,100,10k [default: 1, 10, 50, 100, 500, 1000, 2000, 5000, 10 000]
    #[arg(long, short, value_name = "B,...", value_delimiter = ',', value_parser = count, num_args = 1..)]
    batch_sizes: Vec<usize>,
    /// Leave out smaller batches
    #[arg(long, value_name = "B", value_parser = count)]
    min_batch: Option<usize>,
    /// Leave out larger batches
    #[arg(long, value_name = "B", value_parser = count)]
    max_batch: Option<usize>,
    /// Steps of the one environment, for which its time is stated
    #[arg(long, value_name = "T", default_value = "1000", value_parser = count)]
    single_steps: usize,
    /// Steps of each batch, for which its time is stated
    #[arg(long, value_name = "T", default_value = "50", value_parser = count)]
    batch_steps: usize,
    /// Environment, by name or alias
    #[arg(long, value_name = "E", default_value = "ARC-v0")]
    env: String,
    /// Parameter or option of the environment, such as canvas=30; may be given several times
    #[arg(long = "param", value_name = "K=V", value_parser = key_value, allow_hyphen_values = true)]
    settings: Vec<(String, String)>,
    /// Threads that share the work
    #[arg(long, value_name = "J", default_value = "1", value_parser = whole::<u16>(1..=1024))]
    threads: u16,
    /// Batches that need more memory are left out: a share of what is available, or an amount such as 12G
    #[arg(long, value_name = "M", default_value = "0.8", value_parser = memory_budget)]
    memory_budget: MemoryBudget,
    /// Folder of the results
    #[arg(long, value_name = "DIR", default_value = RESULTS_DIR)]
    results_dir: PathBuf,
    #[command(flatten)]
    monitor: ProcessMonitorArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Report<'a> {
    file: &'a PathBuf,
    records: Option<PathBuf>,
    #[serde(flatten)]
    baseline: &'a Baseline,
}

/// What records call the suite.
const SUITE: &str = "baseline";
/// Samples of a reset, and the least time of each.
const RESET_SAMPLES: usize = 5;
const RESET_SAMPLE_NS: u64 = 10_000_000;

pub(crate) fn run(args: &BaselineArgs) -> Result<(), Failure> {
    let device = args.device.resolve()?;
    if let Some(tag) = &args.tag {
        baseline_file::check_tag(tag)?;
    }
    let sizes = batch_sizes(args)?;
    let entry = registry::find(&args.env)?;
    let base = CaseSpec {
        settings: args.settings.clone(),
        threads: usize::from(args.threads),
        autoreset: Autoreset::NextStep,
        ..CaseSpec::host_api(entry.spec().name, 1)
    };
    workloads::predicted(&base)?;
    let spec = workloads::spec(&base)?;
    let monitor = args.monitor.start()?;
    let began = Timestamp::now();
    let about = About {
        tags: args.tag.iter().cloned().collect(),
        description: Some(args.description.clone()).filter(|text| !text.is_empty()),
        ..About::default()
    };
    let mut session = Session::start(&format!("baseline_{device}"), base.threads, about, Some(&args.results_dir))?;

    // One environment is a batch of one: it is measured once.
    let mut counts = vec![1];
    counts.extend(sizes.iter().copied().filter(|size| *size != 1));
    let cases: Vec<_> = counts.iter().map(|num_envs| CaseSpec { num_envs: *num_envs, ..base.clone() }).collect();
    let mut batches = BTreeMap::new();
    let mut open = Vec::new();
    for case in cases {
        match workloads::fits(&workloads::predicted(&case)?, args.memory_budget.bytes()) {
            Ok(()) => open.push(case),
            Err(error) => _ = batches.insert(case.num_envs as u64, BatchOutcome::Failed { error }),
        }
    }
    if open.first().is_none_or(|case| case.num_envs != 1) {
        return Err(Failure::input("not even one environment fits into --memory-budget"));
    }
    let outcomes = measure(&mut session, SUITE, &open, &args.plan, monitor, args.output.quiet)?;

    let mut outcomes = outcomes.into_iter();
    // Without the single environment there is nothing to compare a batch with.
    let single = outcomes.next().expect("the first case is the single environment")?;
    session.record_complete(&single)?;
    let (single_rate, _) = rate(&single);
    if sizes.contains(&1) {
        batches.insert(1, BatchOutcome::Measured(batch_result(&single, args, single_rate)?));
    }
    for (case, outcome) in open[1..].iter().zip(outcomes) {
        let outcome = match outcome {
            Ok(measured) => {
                session.record_complete(&measured)?;
                BatchOutcome::Measured(batch_result(&measured, args, single_rate)?)
            }
            Err(error) => BatchOutcome::Failed { error: error.to_string() },
        };
        batches.insert(case.num_envs as u64, outcome);
    }
    let mut extra = Map::new();
    extra.insert("run_id".to_owned(), json!(session.run.run_id));
    let guards = session.guards();
    extra.insert("guards".to_owned(), json!(guards));
    let baseline = Baseline {
        schema_version: SCHEMA_VERSION,
        timestamp: began.unix_seconds(),
        description: args.description.clone(),
        tag: args.tag.clone(),
        env: Some(base.env.clone()),
        kind: Some(Kind::HostApiRandom),
        case_version: Some(base.version()),
        system_info: system_info(&session.run, device),
        config_summary: config_summary(&spec),
        benchmark_params: BenchmarkParams {
            single_steps: args.single_steps as u64,
            batch_steps: args.batch_steps as u64,
            custom_batch_sizes: custom(args, &sizes),
            extra: Map::new(),
        },
        single_environment: SingleResult {
            steps_per_second: single_rate,
            total_time: args.single_steps as f64 / single_rate,
            avg_reset_time: reset_seconds(&single.case)?,
            num_steps: args.single_steps as u64,
            extra: interval(&single),
        },
        batch_scaling: batches,
        extra,
    };
    let file = baseline.write(&args.results_dir)?;
    session.finish();
    print_noise(&guards);
    if args.output.json {
        return print_json(&Report { file: &file, records: session.path(), baseline: &baseline });
    }
    print(&summary(&baseline))?;
    print(&format!("\nfile     {}\n", file.display()))
}

/// The sizes that are measured, ascending.
fn batch_sizes(args: &BaselineArgs) -> Result<Vec<usize>, Failure> {
    let mut sizes = match args.batch_sizes.as_slice() {
        [] => DEFAULT_BATCH_SIZES.map(|size| size as usize).to_vec(),
        some => some.to_vec(),
    };
    let (low, high) = (args.min_batch.unwrap_or(1), args.max_batch.unwrap_or(usize::MAX));
    sizes.retain(|size| (low..=high).contains(size));
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() {
        return Err(Failure::input(format!(
            "no batch size is left from --min-batch {low} to --max-batch {}: widen them or give --batch-sizes",
            args.max_batch.map_or("any".to_owned(), |high| high.to_string())
        )));
    }
    Ok(sizes)
}

fn custom(args: &BaselineArgs, sizes: &[usize]) -> Option<Vec<u64>> {
    let chosen = !args.batch_sizes.is_empty() || args.min_batch.is_some() || args.max_batch.is_some();
    chosen.then(|| sizes.iter().map(|size| *size as u64).collect())
}

fn interval(measured: &Measured) -> Map<String, Value> {
    Map::from_iter([("steps_per_second_ci95".to_owned(), json!(rate(measured).1))])
}

fn batch_result(measured: &Measured, args: &BaselineArgs, single: f64) -> Result<BatchResult, Failure> {
    let (size, (rate, _)) = (measured.case.num_envs as u64, rate(measured));
    let total_env_steps = size * args.batch_steps as u64;
    let bytes = measured.processes.first().and_then(|process| process.ready.workload.array_bytes);
    Ok(BatchResult {
        batch_size: size,
        steps_per_second: rate,
        total_time: total_env_steps as f64 / rate,
        batch_reset_time: reset_seconds(&measured.case)?,
        total_env_steps,
        num_steps: args.batch_steps as u64,
        memory_mb: bytes.map(|bytes| bytes as f64 / MEGABYTE),
        efficiency_percent: baseline_file::efficiency_percent(rate, single, size),
        extra: interval(measured),
    })
}

/// The time to reset the whole batch of a case.
fn reset_seconds(case: &CaseSpec) -> Result<f64, Failure> {
    let mut resets = workloads::resets(case)?;
    let iterations = workload::calibrate(resets.as_mut(), RESET_SAMPLE_NS)?;
    let mut sample = || Ok(workload::time(resets.as_mut(), iterations)?.time_per_step());
    let samples = (0..RESET_SAMPLES).map(|_| sample()).collect::<phalanx_lab::Result<Vec<_>>>()?;
    Ok(median(&samples) / 1e9)
}

fn system_info(run: &Run, device: &str) -> SystemInfo {
    let machine = &run.machine;
    SystemInfo {
        platform: machine.os.clone(),
        python_version: None,
        version: Some(run.build.version.clone()),
        devices: Devices { count: 1, types: vec![machine.name.clone()], platform: device.to_owned() },
        cpu_count: machine.threads.map(|threads| threads as u64),
        cpu_model: machine.cpu.clone(),
        architecture: Some(machine.architecture.clone()),
        memory_gb: machine.mem.total_bytes.map(|bytes| bytes as f64 / 1024f64.powi(3)),
        fingerprint: Some(machine.fingerprint.clone()),
        extra: Map::from_iter([
            ("git_hash".to_owned(), json!(run.git.sha)),
            ("toolchain".to_owned(), json!(run.build.rustc)),
        ]),
    }
}

/// What of the environment's set-up the file has fields for, and its options under their own names.
fn config_summary(spec: &EnvSpec) -> ConfigSummary {
    let option =
        |name: &str| spec.options.iter().find(|option| option.name == name).map(|option| option.value.to_string());
    let grid = match spec.observation.shape.as_slice() {
        [height, width, ..] if spec.name == "ARC-v0" => Some((*height as u64, *width as u64)),
        _ => None,
    };
    ConfigSummary {
        max_grid_height: grid.map(|(height, _)| height),
        max_grid_width: grid.map(|(_, width)| width),
        max_train_pairs: None,
        selection_format: option("action").filter(|_| grid.is_some()),
        logging_enabled: Some(false),
        extra: spec.options.iter().map(|option| (option.name.to_string(), json!(option.value.to_string()))).collect(),
    }
}

fn summary(baseline: &Baseline) -> String {
    let SingleResult { steps_per_second, avg_reset_time, .. } = &baseline.single_environment;
    let mut text = format!(
        "{}: one environment {} steps/s, reset {}\n\n",
        baseline.env.as_deref().unwrap_or_default(),
        format_number(*steps_per_second),
        format_seconds(*avg_reset_time),
    );
    text += &scaling_table(baseline);
    text
}

/// How the latest run scales with the batch size.
pub(super) fn scaling_table(baseline: &Baseline) -> String {
    let rows: Vec<_> = baseline_file::scaling(baseline)
        .into_iter()
        .map(|row| match row.outcome {
            BatchOutcome::Measured(result) => [
                row.batch_size.to_string(),
                format_number(result.steps_per_second),
                row.efficiency_percent.map(|percent| format!("{percent:.2} %")).unwrap_or_default(),
                format_seconds(result.batch_reset_time),
                result.memory_mb.map(|mb| format!("{mb:.3} MB")).unwrap_or_default(),
            ],
            BatchOutcome::Failed { error } => {
                [row.batch_size.to_string(), "failed".to_owned(), error, String::new(), String::new()]
            }
        })
        .collect();
    columns(&["batch", "steps/s", "efficiency", "reset", "memory"], &rows)
}
