//! `phalanx bench memory`: memory by number of environments and by chunk size, one process per size.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use phalanx_lab::budget::{MemoryBudget, largest_num_envs};
use phalanx_lab::campaign::Process;
use phalanx_lab::case::{CaseSpec, rule_of_thumb};
use phalanx_lab::format::{format_bytes, format_number};
use phalanx_lab::function::write_csv;
use phalanx_lab::guards::Readings;
use phalanx_lab::memory;
use phalanx_lab::memory_profile::{self as lab, Predicted, Row};
use phalanx_lab::record::Record;
use phalanx_lab::session::Session;
use phalanx_lab::stats::descriptive::median;
use phalanx_lab::stats::growth::{MemoryGrowth, MemoryShape};
use phalanx_lab::stats::random::Stream;
use phalanx_lab::throughput::{MEGABYTE, best_chunk};
use phalanx_lab::worker::{Allocations, Ready, Worker};
use phalanx_lab::workload::Timing;
use serde::Serialize;
use serde_json::json;

use super::options::{CaseArgs, ResultsArgs, own_binary, print_noise};
use crate::args::{OutputArgs, count, memory_budget, whole};
use crate::commands::{self, print, print_json};
use crate::device::DeviceArgs;
use crate::failure::Failure;
use crate::monitoring::{ProcessMonitorArgs, ProcessMonitoring};
use crate::tally::Tally;
use crate::text::columns;
use crate::workloads;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct MemoryArgs {
    /// What grows: the number of environments, the chunk size, or one after the other
    #[arg(long, value_name = "P", default_value = "both")]
    profile: Profile,
    /// Environment, by name or alias
    #[arg(long, value_name = "E", default_value = "cartpole")]
    env: String,
    /// Number of environments; may be given several times [default: 1024 to 1 048 576 by fours; for the chunk
    /// sizes 10 000]
    #[arg(long, value_name = "N", value_parser = count)]
    num_envs: Vec<usize>,
    /// Chunk size; may be given several times [default: 8 to 512 by twos; for the numbers of environments 8]
    #[arg(long, value_name = "K", value_parser = count)]
    scan_chunk_size: Vec<usize>,
    /// Threads that share the work
    #[arg(long, value_name = "J", default_value = "1", value_parser = whole::<u16>(1..=1024))]
    threads: u16,
    /// Processes of each size
    #[arg(long, value_name = "R", default_value = "3", value_parser = whole::<u16>(1..=100))]
    repeats: u16,
    /// Memory that may be used: a share of what is available, or an amount such as 12G
    #[arg(long, value_name = "M", default_value = "0.8", value_parser = memory_budget)]
    memory_budget: MemoryBudget,
    #[command(flatten)]
    monitor: ProcessMonitorArgs,
    #[command(flatten)]
    case: CaseArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    results: ResultsArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profile {
    Envs,
    Scan,
    Both,
}

/// The chunk size at which numbers of environments are compared: long enough to touch everything.
const CHUNK: usize = 8;
/// The number of environments at which chunk sizes are compared.
const ENVS: usize = 10_000;
/// Samples for the speed of a chunk size in each process, and their least time.
const SAMPLES: usize = 5;
const SAMPLE: Duration = Duration::from_millis(50);
/// Iterations in which a steady state must allocate nothing.
const STEADY_ITERATIONS: u64 = 2;
/// Amounts of memory for which the number of environments that fit is shown, in GiB.
const CAPACITIES: [u64; 5] = [4, 8, 16, 24, 64];

#[derive(Serialize)]
struct Report {
    machine: String,
    budget_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    envs: Option<EnvsReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scan: Option<ScanReport>,
}

#[derive(Serialize)]
struct EnvsReport {
    run_id: String,
    guards: Readings,
    table: PathBuf,
    records: Option<PathBuf>,
    rows: Vec<Row>,
    /// Of the peak memory of the processes; none with fewer than two sizes.
    growth: Option<MemoryGrowth>,
    largest_num_envs: Option<u64>,
    /// What the allocator counted at each number of environments.
    allocator: Vec<(usize, Allocations)>,
    /// GiB, and the number of environments that fit.
    capacities: Vec<(u64, u64)>,
}

#[derive(Serialize)]
struct ScanReport {
    run_id: String,
    guards: Readings,
    table: PathBuf,
    records: Option<PathBuf>,
    rows: Vec<Row>,
    /// Chunk size and steps per second.
    rates: Vec<(usize, f64)>,
    recommended_chunk: Option<usize>,
}

pub(crate) fn run(args: &MemoryArgs) -> Result<(), Failure> {
    let device = args.device.resolve()?;
    if args.profile == Profile::Both && args.results.names_a_file() {
        return Err(Failure::input(
            "--output names one file, but --profile both writes two: choose --profile envs or --profile scan",
        ));
    }
    // Wrong names are refused before anything is written.
    let base = args.case.case(&args.env, 1, usize::from(args.threads))?;
    workloads::predicted(&base)?;
    let budget = args.memory_budget.bytes();
    check_sizes(args, &base)?;
    let mut monitor = args.monitor.start()?;
    let mut report = None;
    let mut profile = |name: &str| -> Result<(), Failure> {
        let target = args.results.target(&format!("memory_{name}_{device}"))?;
        let mut session =
            Session::start(&target.prefix, base.threads, args.results.about.about(), Some(&target.folder))?;
        let records = session.path();
        let table = target.table(records.as_deref().unwrap_or(&target.folder));
        let report: &mut Report = report.get_or_insert_with(|| Report {
            machine: session.run.machine.name.clone(),
            budget_bytes: budget,
            envs: None,
            scan: None,
        });
        let rows = if name == "envs" {
            let envs = envs(args, &base, budget, &mut monitor)?;
            let (run_id, guards) = (session.run.run_id.clone(), session.guards());
            report.envs = Some(EnvsReport { run_id, guards, table: table.clone(), records, ..envs });
            &report.envs.as_ref().expect("just set").rows
        } else {
            let scan = scan(args, &base, budget, &mut monitor)?;
            let (run_id, guards) = (session.run.run_id.clone(), session.guards());
            // Only what is timed can be disturbed.
            print_noise(&guards);
            report.scan = Some(ScanReport { run_id, guards, table: table.clone(), records, ..scan });
            &report.scan.as_ref().expect("just set").rows
        };
        write_csv(&table, rows)?;
        for row in rows {
            let mut case = of_row(&base, row).record(&session.run.run_id, "memory");
            case.extra.insert("memory".to_owned(), json!(row));
            session.record(&Record::Case(case))?;
        }
        session.finish();
        Ok(())
    };
    if args.profile != Profile::Scan {
        profile("envs")?;
    }
    if args.profile != Profile::Envs {
        profile("scan")?;
    }
    monitor.close()?;
    let report = report.expect("one profile at least");
    let envs = report.envs.iter().flat_map(|envs| &envs.rows);
    let measured = envs.chain(report.scan.iter().flat_map(|scan| &scan.rows)).any(|row| row.success);
    let printed = if args.output.json { print_json(&report) } else { print(&text(&report)) };
    // A size that is left out is a row; a run that measured nothing at all has failed.
    commands::concluded(printed, if measured { 0 } else { 1 })
}

/// Refuses numbers of environments of which not even the smallest fits into the machine: nothing could be measured, whatever
/// the budget is.
fn check_sizes(args: &MemoryArgs, base: &CaseSpec) -> Result<(), Failure> {
    let Some(&num_envs) = args.num_envs.iter().min() else { return Ok(()) };
    let needed = workloads::predicted(&CaseSpec { num_envs, ..base.clone() })?.total();
    match memory::available_bytes().filter(|available| needed > *available as f64) {
        Some(available) => Err(Failure::input(format!(
            "--num-envs is {num_envs}, which needs {} of memory, but {} are available",
            format_bytes(needed),
            format_bytes(available as f64)
        ))),
        None => Ok(()),
    }
}

fn of_row(base: &CaseSpec, row: &Row) -> CaseSpec {
    CaseSpec { num_envs: row.num_envs, scan_chunk_size: row.scan_chunk_size, ..base.clone() }
}

/// What one size came to: what its processes said, or why there are none.
type Outcome = Result<Vec<Ready>, String>;

/// Looks at each case in `repeats` processes in random order; `more` takes what else it wants from each, and answers
/// the samples that it took.
fn probe(
    args: &MemoryArgs,
    cases: &[(CaseSpec, Predicted)],
    budget: Option<u64>,
    monitor: &mut ProcessMonitoring,
    mut more: impl FnMut(usize, &mut Worker) -> phalanx_lab::Result<Vec<Timing>>,
) -> Result<Vec<Outcome>, Failure> {
    let binary = own_binary()?;
    let mut outcomes: Vec<Outcome> =
        cases.iter().map(|(_, predicted)| workloads::fits(predicted, budget).map(|()| Vec::new())).collect();
    let open = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let mut tally = Tally::new("processes", open * usize::from(args.repeats), args.output.quiet);
    let mut random = Stream::new(0, 0);
    for _ in 0..args.repeats {
        let mut open: Vec<usize> = (0..cases.len()).filter(|at| outcomes[*at].is_ok()).collect();
        while !open.is_empty() {
            let at = open.swap_remove(random.below(open.len()));
            let case = &cases[at].0;
            let process = Worker::start(&binary, case).and_then(|mut worker| {
                let timings = more(at, &mut worker)?;
                Ok(Process::new(worker.ready().clone(), timings))
            });
            tally.advance(&case.id());
            match (process, &mut outcomes[at]) {
                (Ok(process), Ok(processes)) => {
                    monitor.heard(case, &process, |line| tally.line(line));
                    processes.push(process.ready);
                }
                (Ok(_), Err(_)) => {}
                (Err(error), outcome) => *outcome = Err(error.to_string()),
            }
        }
    }
    Ok(outcomes)
}

fn row((case, predicted): &(CaseSpec, Predicted), outcome: &Outcome) -> Row {
    match outcome {
        Ok(processes) => Row::profiled(case, *predicted, processes),
        Err(reason) => Row::failed(case, *predicted, reason),
    }
}

fn predicted(case: CaseSpec) -> Result<(CaseSpec, Predicted), Failure> {
    let predicted = workloads::predicted(&case)?;
    Ok((case, predicted))
}

fn envs(
    args: &MemoryArgs,
    base: &CaseSpec,
    budget: Option<u64>,
    monitor: &mut ProcessMonitoring,
) -> Result<EnvsReport, Failure> {
    let sizes = if args.num_envs.is_empty() { &lab::DEFAULT_SIZES[..] } else { &args.num_envs };
    let scan_chunk_size = args.scan_chunk_size.first().copied().unwrap_or(CHUNK);
    let cases =
        sizes.iter().map(|num_envs| predicted(CaseSpec { num_envs: *num_envs, scan_chunk_size, ..base.clone() }));
    let cases = cases.collect::<Result<Vec<_>, _>>()?;
    let mut allocator = BTreeMap::new();
    let outcomes = probe(args, &cases, budget, monitor, |at, worker| {
        if let Some(allocations) = worker.allocations(STEADY_ITERATIONS)? {
            allocator.insert(cases[at].0.num_envs, allocations);
        }
        Ok(Vec::new())
    })?;
    let points = cases.iter().zip(&outcomes).filter_map(|((case, _), outcome)| Some((case, outcome.as_ref().ok()?)));
    let points: Vec<(usize, Ready)> =
        points.flat_map(|(case, ready)| ready.iter().map(|ready| (case.num_envs, ready.clone()))).collect();
    let growth = lab::growth(&points);
    let fit = |bytes| growth.as_ref().and_then(|growth| largest_num_envs(growth, bytes));
    Ok(EnvsReport {
        run_id: String::new(),
        guards: Readings::default(),
        table: PathBuf::new(),
        records: None,
        rows: cases.iter().zip(&outcomes).map(|(case, outcome)| row(case, outcome)).collect(),
        largest_num_envs: budget.and_then(fit),
        allocator: allocator.into_iter().collect(),
        capacities: CAPACITIES.iter().filter_map(|gib| Some((*gib, fit(gib << 30)?))).collect(),
        growth,
    })
}

fn scan(
    args: &MemoryArgs,
    base: &CaseSpec,
    budget: Option<u64>,
    monitor: &mut ProcessMonitoring,
) -> Result<ScanReport, Failure> {
    let chunks = if args.scan_chunk_size.is_empty() { &lab::DEFAULT_CHUNKS[..] } else { &args.scan_chunk_size };
    let num_envs = args.num_envs.first().copied().unwrap_or(ENVS);
    let cases = chunks.iter().map(|chunk| predicted(CaseSpec { num_envs, scan_chunk_size: *chunk, ..base.clone() }));
    let cases = cases.collect::<Result<Vec<_>, _>>()?;
    let mut medians = vec![Vec::new(); cases.len()];
    let outcomes = probe(args, &cases, budget, monitor, |at, worker| {
        let iterations = worker.calibrate(SAMPLE.as_nanos() as u64)?;
        let timings = (0..SAMPLES).map(|_| worker.sample(iterations)).collect::<phalanx_lab::Result<Vec<_>>>()?;
        medians[at].push(median(&timings.iter().map(Timing::time_per_step).collect::<Vec<_>>()));
        Ok(timings)
    })?;
    let rates: Vec<(usize, f64)> = cases
        .iter()
        .zip(&medians)
        .filter(|(_, medians)| !medians.is_empty())
        .map(|((case, _), medians)| (case.scan_chunk_size, 1e9 / median(medians)))
        .collect();
    Ok(ScanReport {
        run_id: String::new(),
        guards: Readings::default(),
        table: PathBuf::new(),
        records: None,
        rows: cases.iter().zip(&outcomes).map(|(case, outcome)| row(case, outcome)).collect(),
        recommended_chunk: best_chunk(&rates),
        rates,
    })
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    if let Some(envs) = &report.envs {
        text += &table(&envs.rows, &[]);
        if let Some(growth) = &envs.growth {
            let shape = match growth.shape {
                MemoryShape::Linear => "linear".to_owned(),
                MemoryShape::Piecewise => {
                    format!("in steps of up to {}", format_bytes(growth.largest_residual_bytes))
                }
            };
            text += &format!(
                "\n{:.1} bytes per environment [{:.1}, {:.1}], {} whatever their number, {shape}\n",
                growth.bytes_per_env,
                growth.interval.low,
                growth.interval.high,
                format_bytes(growth.fixed_bytes),
            );
        }
        if let (Some(budget), Some(largest)) = (report.budget_bytes, envs.largest_num_envs) {
            let budget = format_bytes(budget as f64);
            text += &format!("largest num_envs under the budget of {budget}: {}\n", format_number(largest as f64));
        }
        if let Some((num_envs, last)) = envs.allocator.last() {
            let most = envs.allocator.iter().map(|(_, counted)| counted.steady_allocations).max().unwrap_or(0);
            text += &format!(
                "allocator's peak with {num_envs} environments: {}; allocations in the steady state: {most}\n",
                format_bytes(last.peak_bytes as f64)
            );
        }
        if !envs.capacities.is_empty() {
            let each: Vec<_> = envs
                .capacities
                .iter()
                .map(|(gib, envs)| format!("{gib} GiB {}", format_number(*envs as f64)))
                .collect();
            text += &format!("environments that fit: {}\n", each.join(", "));
        }
        text += &format!("table    {}\n", envs.table.display());
    }
    if let Some(scan) = &report.scan {
        if report.envs.is_some() {
            text.push('\n');
        }
        text += &table(&scan.rows, &scan.rates);
        if let Some(chunk) = scan.recommended_chunk {
            let thumb = scan.rows.first().map(|row| rule_of_thumb(row.num_envs)).unwrap_or(chunk);
            text += &format!(
                "\nrecommended scan_chunk_size: {chunk} (the smallest within 2 % of the fastest; untuned it is {thumb})\n"
            );
        }
        text += &format!("table    {}\n", scan.table.display());
    }
    text
}

fn table(rows: &[Row], rates: &[(usize, f64)]) -> String {
    let header = ["environment", "envs", "chunk", "before", "after", "peak", "arrays", "predicted", "steps/s"];
    let amount = |megabytes: Option<f64>| megabytes.map(|mb| format_bytes(mb * MEGABYTE)).unwrap_or_default();
    let lines: Vec<_> = rows
        .iter()
        .map(|row| {
            let rate = rates.iter().find(|(chunk, _)| *chunk == row.scan_chunk_size);
            [
                row.env_name.clone(),
                row.num_envs.to_string(),
                row.scan_chunk_size.to_string(),
                amount(row.baseline_cpu_mb),
                amount(row.post_compile_cpu_mb),
                amount(row.peak_rss_mb),
                amount(row.pytree_total_mb),
                amount(row.predicted_mb),
                rate.map(|(_, rate)| format_number(*rate)).unwrap_or_default(),
            ]
        })
        .collect();
    let mut text = columns(&header, &lines);
    for row in rows.iter().filter(|row| !row.success) {
        text += &format!("{} x {}: {}\n", row.env_name, row.num_envs, row.error.as_deref().unwrap_or_default());
    }
    text
}
