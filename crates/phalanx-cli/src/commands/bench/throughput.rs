//! `phalanx bench throughput`: steps per second by number of environments, chunk size and threads.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use phalanx_core::Error;
use phalanx_lab::budget::MemoryBudget;
use phalanx_lab::campaign::{Measured, Process};
use phalanx_lab::case::{CaseSpec, rule_of_thumb};
use phalanx_lab::format::{format_number, format_seconds};
use phalanx_lab::function::write_csv;
use phalanx_lab::guards::Readings;
use phalanx_lab::precision;
use phalanx_lab::record::{Checksum, Kind};
use phalanx_lab::session::Session;
use phalanx_lab::stats::growth::Regime;
use phalanx_lab::stats::interval::{CONFIDENCE, Interval};
use phalanx_lab::stats::scaling::{ScalingIntervals, ThreadTimes, efficiency};
use phalanx_lab::stats::verdict::{Better, Verdict, judge_target};
use phalanx_lab::suite::GOOD_RETENTION;
use phalanx_lab::throughput::{self as lab, CallScaling, Facts, Job, Row, ScalingPoint, Size};
use serde::Serialize;

use super::options::{CaseArgs, PlanArgs, ResultsArgs, own_binary, print_noise};
use crate::args::{OutputArgs, TuneArgs, count, memory_budget, whole};
use crate::commands::{self, print, print_json};
use crate::device::DeviceArgs;
use crate::failure::Failure;
use crate::monitoring::{ProcessMonitorArgs, ProcessMonitoring};
use crate::tally::Tally;
use crate::text::columns;
use crate::{machine, workloads};

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct ThroughputArgs {
    /// Measure every size of the matrix, up to 5 million environments, instead of the three smallest; CartPole
    /// and the gene circuit unless --env says otherwise
    #[arg(long, conflicts_with = "num_envs")]
    full: bool,
    /// Measure chunk sizes from 8 to 512 (8 to 256 for gene circuits) at one number of environments
    #[arg(long, conflicts_with_all = ["full", "scan_chunk_size", "auto_tune"])]
    scan_chunks: bool,
    /// Environment, by name or alias; may be given several times [default: CartPole-v1]
    #[arg(long = "env", value_name = "E")]
    envs: Vec<String>,
    /// Number of environments; may be given several times [default: sizes of the matrix]
    #[arg(long, value_name = "N", value_parser = count)]
    num_envs: Vec<usize>,
    /// Steps a block of environments makes before the next is touched; may be given several times [default: as
    /// the matrix has it, else 256 below 10 000 environments, 128 up to 1 000 000, 32 beyond]
    #[arg(long, value_name = "K", value_parser = count)]
    scan_chunk_size: Vec<usize>,
    /// Threads that share the work; may be given several times [default: all cores; tuned with --auto-tune]
    #[arg(long, value_name = "J", value_parser = whole::<u16>(1..=1024))]
    threads: Vec<u16>,
    /// Steps of a run, for which times are stated [default: as the matrix has it, else 1000]
    #[arg(long, value_name = "T", value_parser = count)]
    num_steps: Option<usize>,
    /// Sizes that need more memory are skipped: a share of what is available, or an amount such as 12G
    #[arg(long, value_name = "M", default_value = "0.8", value_parser = memory_budget)]
    memory_budget: MemoryBudget,
    #[command(flatten)]
    tune: TuneArgs,
    #[command(flatten)]
    monitor: ProcessMonitorArgs,
    #[command(flatten)]
    case: CaseArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    results: ResultsArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The sizes of environments that cost like a gene circuit, and of all others.
const HEAVY: [&str; 2] = ["ccasr-gfp-control", "ccasr-gfp-sysid"];
/// What records call the suite.
const SUITE: &str = "throughput";
/// Steps of a run at a size that is not in the matrix.
const DEFAULT_STEPS: usize = 1000;
/// Steps of a run over all environments: minutes at the speed of one core. More is a mistake.
const MAX_TOTAL_STEPS: u128 = 100_000_000_000;
/// Rows of the matrix that are measured unless the user asks for more.
const SMALLEST: usize = 3;

#[derive(Serialize)]
struct Report<'a> {
    run_id: &'a str,
    machine: &'a str,
    records: Option<PathBuf>,
    table: PathBuf,
    rows: &'a [ReportRow],
    scaling: &'a [ScalingPoint],
    /// How the time of a step of all environments grows with their number.
    call_scaling: &'a [CallScaling],
    thread_scaling: &'a [ThreadScaling],
    /// The chunk size to use at each number of environments where several were measured.
    best_chunks: &'a [BestChunk],
    guards: Readings,
}

#[derive(Serialize)]
struct ReportRow {
    #[serde(flatten)]
    row: Row,
    /// The 95 % interval of the steps per second.
    throughput_ci95: Option<[f64; 2]>,
    cpu_percent: Option<f64>,
    processes: usize,
    /// Why it is noisy, if it is: then it shows nothing.
    noisy: Option<String>,
    /// Nanoseconds for each step, of the steady samples.
    #[serde(skip)]
    times: Vec<f64>,
}

#[derive(Serialize)]
struct ThreadScaling {
    env_name: String,
    num_envs: usize,
    /// Threads, steps per second, and the share of what as many single threads would do.
    points: Vec<(usize, f64, f64)>,
    /// The universal scalability law, if it can be told.
    law: Option<ScalingIntervals>,
    /// Why it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_law: Option<String>,
}

#[derive(Serialize)]
struct BestChunk {
    env_name: String,
    num_envs: usize,
    threads: usize,
    scan_chunk_size: usize,
}

pub(crate) fn run(args: &ThroughputArgs) -> Result<(), Failure> {
    let device = args.device.resolve()?;
    let jobs = tuned(jobs(args)?, args)?;
    let monitor = args.monitor.start()?;
    let predicted = jobs.iter().map(|job| workloads::predicted(&job.case)).collect::<Result<Vec<_>, _>>()?;
    let target = args.results.target(&format!("throughput_{device}"))?;
    let threads = jobs.iter().map(|job| job.case.threads).max().unwrap_or(1);
    let mut session = Session::start(&target.prefix, threads, args.results.about.about(), Some(&target.folder))?;

    // What fits, with the checksum of a run; what does not is left out with a reason.
    let budget = args.memory_budget.bytes();
    let mut refused: Vec<_> = predicted.iter().map(|predicted| workloads::fits(predicted, budget).err()).collect();
    let mut facts = Vec::new();
    let mut tally = Tally::new("checksums", jobs.len(), args.output.quiet);
    for ((job, predicted), refused) in jobs.iter().zip(&predicted).zip(&refused) {
        let checksum =
            if refused.is_none() { Some(workloads::checksum_of_run(&job.case, job.num_steps)?) } else { None };
        tally.advance(&job.case.id());
        facts.push(Facts {
            state_bytes: Some(predicted.state_bytes),
            agent_bytes: Some(predicted.agent_bytes),
            checksum: checksum.map(Checksum),
        });
    }
    drop(tally);
    // Before anything is measured: rates of different computations are worth nothing.
    let planned = jobs.iter().zip(&facts).map(|(job, facts)| Row::failed(job, &session.run, *facts, ""));
    lab::check_same_results(&planned.collect::<Vec<_>>())?;

    let open: Vec<usize> = (0..jobs.len()).filter(|at| refused[*at].is_none()).collect();
    let cases: Vec<_> = open.iter().map(|at| jobs[*at].case.clone()).collect();
    let outcomes = measure(&mut session, SUITE, &cases, &args.plan, monitor, args.output.quiet)?;

    let guards = session.guards();
    let mut outcomes: Vec<_> = open.into_iter().zip(outcomes).collect();
    let mut rows = Vec::new();
    for (at, (job, facts)) in jobs.iter().zip(facts).enumerate() {
        let outcome = outcomes.iter().position(|(of, _)| *of == at).map(|position| outcomes.swap_remove(position).1);
        rows.push(match outcome {
            Some(Ok(measured)) => {
                session.record_complete(&measured)?;
                ReportRow {
                    row: Row::measured(job, &session.run, facts, &measured),
                    throughput_ci95: lab::rate(&measured).1,
                    cpu_percent: lab::cpu_percent(&measured),
                    processes: measured.processes.len(),
                    noisy: lab::noise(&measured.processes, &guards),
                    times: measured.processes.iter().flat_map(Process::times).collect(),
                }
            }
            other => {
                let reason = match other {
                    Some(Err(error)) => error.to_string(),
                    _ => refused[at].take().unwrap_or_default(),
                };
                let row = Row::failed(job, &session.run, facts, reason);
                ReportRow {
                    row,
                    throughput_ci95: None,
                    cpu_percent: None,
                    processes: 0,
                    noisy: None,
                    times: Vec::new(),
                }
            }
        });
    }

    let plain: Vec<Row> = rows.iter().map(|row| row.row.clone()).collect();
    let records = session.path();
    let table = target.table(records.as_deref().unwrap_or(&target.folder));
    write_csv(&table, &plain)?;
    session.finish();
    let (scaling, thread_scaling, best_chunks) = (lab::scaling(&plain), thread_scaling(&rows), best_chunks(&plain));
    print_noise(&guards);
    let printed = if args.output.json {
        print_json(&Report {
            run_id: &session.run.run_id,
            machine: &session.run.machine.name,
            records,
            table,
            rows: &rows,
            scaling: &scaling,
            call_scaling: &lab::call_scaling(&scaling),
            thread_scaling: &thread_scaling,
            best_chunks: &best_chunks,
            guards,
        })
    } else {
        let records = records.map(|path| format!("records  {}\n", path.display())).unwrap_or_default();
        let text = text(&rows, &scaling, &thread_scaling, &best_chunks);
        print(&format!("{text}\ntable    {}\n{records}", table.display()))
    };
    // A size that is left out is a row; a run that measured nothing at all has failed.
    commands::concluded(printed, if plain.iter().any(|row| row.success) { 0 } else { 1 })
}

/// Measures cases and records each process when it ends, so that an interrupt costs the one at work and no other. Whoever
/// calls this records that a case is complete.
pub(super) fn measure(
    session: &mut Session,
    suite: &str,
    cases: &[CaseSpec],
    plan: &PlanArgs,
    mut monitor: ProcessMonitoring,
    quiet: bool,
) -> Result<Vec<phalanx_lab::Result<Measured>>, Failure> {
    let (binary, patience, plan) = (own_binary()?, plan.patience(), plan.plan());
    let mut tally = Tally::new("processes", cases.len() * plan.processes, quiet);
    let mut kept = Ok(());
    let outcomes = precision::measure(&binary, cases, &plan, patience, |case, so_far| {
        tally.advance(&case.id());
        // One that failed says so elsewhere.
        let so_far = so_far.unwrap_or_default();
        if kept.is_ok() {
            kept = session.record_progress(case, suite, so_far);
        }
        if let Some(process) = so_far.last() {
            monitor.heard(case, process, |line| tally.line(line));
        }
    });
    drop(tally);
    kept?;
    monitor.close()?;
    Ok(outcomes)
}

/// What the flags ask for, in the order of the table.
fn jobs(args: &ThroughputArgs) -> Result<Vec<Job>, Failure> {
    let default = if args.full || args.scan_chunks { &["cartpole", "gene-circuit"][..] } else { &["cartpole"] };
    let envs: Vec<&str> =
        if args.envs.is_empty() { default.to_vec() } else { args.envs.iter().map(String::as_str).collect() };
    let threads: Vec<usize> = match args.threads.as_slice() {
        [] => vec![machine::cores()],
        some => some.iter().map(|threads| usize::from(*threads)).collect(),
    };
    let mut jobs: Vec<Job> = Vec::new();
    // Chunks that the user named and runs that are shorter.
    let mut cut: BTreeSet<(usize, usize)> = BTreeSet::new();
    for env in envs {
        for &threads in &threads {
            let case = args.case.case(env, 1, threads)?;
            for size in sizes(args, HEAVY.contains(&case.env.as_str())) {
                let Size { num_envs, scan_chunk_size, num_steps } = size;
                if num_envs as u128 * num_steps as u128 > MAX_TOTAL_STEPS {
                    let most = MAX_TOTAL_STEPS / num_envs as u128;
                    if most == 0 {
                        let allowed = format!("from 1 to {MAX_TOTAL_STEPS}");
                        return Err(Error::out_of_range("--num-envs", num_envs, allowed).into());
                    }
                    let allowed = format!("from 1 to {most} with {num_envs} environments");
                    return Err(Error::out_of_range("--num-steps", num_steps, allowed).into());
                }
                if num_steps < scan_chunk_size && args.scan_chunk_size.contains(&scan_chunk_size) {
                    cut.insert((scan_chunk_size, num_steps));
                }
                let mut case = case.clone();
                (case.num_envs, case.scan_chunk_size) = (num_envs, scan_chunk_size);
                let job = Job::new(case, num_steps);
                // Chunks longer than a run are the same job.
                if !jobs.contains(&job) {
                    jobs.push(job);
                }
            }
        }
    }
    for (chunk, steps) in cut {
        say!("warning: --scan-chunk-size {chunk} is longer than a run of {steps} steps: {steps} is measured instead");
    }
    Ok(jobs)
}

/// The jobs with the chunk sizes that are fastest here, if that is wanted, and with the threads unless those are given.
/// Where chunk sizes are compared, and where the host steps, there is nothing to tune.
fn tuned(jobs: Vec<Job>, args: &ThroughputArgs) -> Result<Vec<Job>, Failure> {
    if !args.tune.is_wanted(args.scan_chunk_size.first().copied())? || args.scan_chunks {
        return Ok(jobs);
    }
    let tune = |mut job: Job| {
        if job.case.kind != Kind::HostApiRandom {
            let threads = (!args.threads.is_empty()).then_some(job.case.threads);
            job.case = workloads::tuned(job.case, threads, args.output.quiet)?;
        }
        Ok(Job::new(job.case, job.num_steps))
    };
    jobs.into_iter().map(tune).collect()
}

fn sizes(args: &ThroughputArgs, heavy: bool) -> Vec<Size> {
    let (matrix, chunks) = match heavy {
        true => (&lab::HEAVY_SIZES[..], &lab::HEAVY_CHUNKS[..]),
        false => (&lab::LIGHT_SIZES[..], &lab::LIGHT_CHUNKS[..]),
    };
    let named = |num_envs: &usize| {
        let known = matrix.iter().find(|size| size.num_envs == *num_envs).copied();
        let (num_envs, scan_chunk_size) = (*num_envs, rule_of_thumb(*num_envs));
        known.unwrap_or(Size { num_envs, scan_chunk_size, num_steps: DEFAULT_STEPS })
    };
    let base: Vec<Size> = match (args.num_envs.as_slice(), args.scan_chunks) {
        ([], true) => chunks.to_vec(),
        (some, true) => {
            some.iter().flat_map(|num_envs| chunks.iter().map(|size| Size { num_envs: *num_envs, ..*size })).collect()
        }
        ([], false) if args.full => matrix.to_vec(),
        ([], false) => matrix[..SMALLEST].to_vec(),
        (some, false) => some.iter().map(named).collect(),
    };
    let with_chunks = base.into_iter().flat_map(|size| match args.scan_chunk_size.as_slice() {
        [] => vec![size],
        some => some.iter().map(|chunk| Size { scan_chunk_size: *chunk, ..size }).collect(),
    });
    with_chunks.map(|size| Size { num_steps: args.num_steps.unwrap_or(size.num_steps), ..size }).collect()
}

/// How throughput grows with threads, wherever a size was measured with several.
fn thread_scaling(rows: &[ReportRow]) -> Vec<ThreadScaling> {
    let of = |row: &Row| (row.env_name.clone(), row.agent.clone(), row.num_envs, row.scan_chunk_size, row.num_steps);
    let mut found: Vec<ThreadScaling> = Vec::new();
    let mut seen = Vec::new();
    for first in rows {
        let name = of(&first.row);
        if seen.contains(&name) {
            continue;
        }
        let mut same: Vec<&ReportRow> =
            rows.iter().filter(|row| of(&row.row) == name && !row.times.is_empty()).collect();
        same.sort_by_key(|row| row.row.threads);
        seen.push(name);
        let rate = |row: &ReportRow| row.row.total_throughput_steps_per_s.unwrap_or(0.0);
        let [base, _, ..] = same[..] else { continue };
        let groups: Vec<_> =
            same.iter().map(|row| ThreadTimes { threads: row.row.threads as f64, times: row.times.clone() }).collect();
        let share = |row: &ReportRow| {
            let of = |row: &ReportRow| (row.row.threads as f64, rate(row));
            efficiency(of(row), of(base))
        };
        let (law, no_law) = match ScalingIntervals::fit(&groups, CONFIDENCE, 0) {
            Ok(law) => (Some(law), None),
            Err(error) => (None, Some(error.to_string())),
        };
        found.push(ThreadScaling {
            env_name: first.row.env_name.clone(),
            num_envs: first.row.num_envs,
            law,
            no_law,
            points: same.iter().map(|row| (row.row.threads, rate(row), share(row))).collect(),
        });
    }
    found
}

fn best_chunks(rows: &[Row]) -> Vec<BestChunk> {
    let of = |row: &Row| (row.env_name.clone(), row.agent.clone(), row.kind, row.num_envs, row.threads);
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for first in rows {
        let name = of(first);
        if seen.contains(&name) {
            continue;
        }
        let rates: Vec<(usize, f64)> = rows
            .iter()
            .filter(|row| of(row) == name)
            .filter_map(|row| Some((row.scan_chunk_size, row.total_throughput_steps_per_s?)))
            .collect();
        seen.push(name);
        if let Some(scan_chunk_size) = lab::best_chunk(&rates).filter(|_| rates.len() > 1) {
            found.push(BestChunk {
                env_name: first.env_name.clone(),
                num_envs: first.num_envs,
                threads: first.threads,
                scan_chunk_size,
            });
        }
    }
    found
}

fn text(rows: &[ReportRow], scaling: &[ScalingPoint], threads: &[ThreadScaling], chunks: &[BestChunk]) -> String {
    let lines: Vec<_> = rows.iter().map(line).collect();
    let header = [
        "environment",
        "envs",
        "chunk",
        "threads",
        "steps/s",
        "95 % interval",
        "efficiency",
        "retention",
        "startup",
        "verdict",
    ];
    let with_scaling = lines.into_iter().zip(rows).map(|(line, row)| {
        let point = scaling.iter().find(|point| is_of(row, point));
        let share = |value: Option<f64>| match value {
            Some(small) if small < 0.01 => format!("{small:.1e}"),
            Some(value) => format!("{value:.3}"),
            None => String::new(),
        };
        let [env, envs, chunk, threads, rate, interval, startup] = line;
        let (efficiency, retention) = (point.map(|point| point.efficiency), point.map(|point| point.retention));
        let verdict = if row.noisy.is_some() { Verdict::Noisy.name() } else { "" };
        [env, envs, chunk, threads, rate, interval, share(efficiency), share(retention), startup, verdict.to_owned()]
    });
    let mut text = columns(&header, &with_scaling.collect::<Vec<_>>());
    for row in rows.iter().filter(|row| !row.row.success) {
        let Row { env_name, num_envs, error, .. } = &row.row;
        text += &format!("{env_name} x {num_envs}: {}\n", error.as_deref().unwrap_or_default());
    }
    let noises: BTreeSet<&str> = rows.iter().filter_map(|row| row.noisy.as_deref()).collect();
    for reason in noises {
        text += &format!("noisy: {reason}; do not quote these figures\n");
    }
    for point in scaling.iter().filter(|point| point.num_envs == GOAL_ENVS) {
        let ScalingPoint { env_name, steps_per_second, retention, .. } = point;
        let row = rows.iter().find(|row| is_of(row, point) && row.noisy.is_none());
        let interval = row.and_then(|row| row.throughput_ci95).map(|[low, high]| Interval { low, high });
        // A share of the best of all sizes has no interval of its own.
        let retained = row.map(|_| Interval::point(*retention));
        text += &format!(
            "{env_name} at 100K environments: {} steps/s (goal 1M: {}), retention {retention:.2} (goal 0.8: {})\n",
            format_number(*steps_per_second),
            judge_target(interval, GOAL_RATE, Better::Higher).name(),
            judge_target(retained, GOOD_RETENTION, Better::Higher).name()
        );
    }
    for CallScaling { env_name, threads, regimes, .. } in lab::call_scaling(scaling) {
        // A fixed time that is lost in the noise may come out below 0, and then there is no knee.
        for Regime { smallest_envs, largest_envs, model } in regimes.iter().filter(|regime| regime.model.has_knee()) {
            text += &format!(
                "{env_name} on {threads} threads, {smallest_envs} to {largest_envs} environments: {} for a step of all \
                 and {:.2} ns for each, half of {} steps/s at {:.0} environments\n",
                format_seconds(model.call_ns / 1e9),
                model.env_ns,
                format_number(model.limit_steps_per_second()),
                model.half_speed_envs()
            );
        }
    }
    for ThreadScaling { env_name, num_envs, points, law, .. } in threads {
        let shares: Vec<_> = points
            .iter()
            .map(|(threads, rate, share)| format!("{threads}: {} ({share:.2})", format_number(*rate)))
            .collect();
        text += &format!("{env_name} x {num_envs} by threads (steps/s, efficiency): {}\n", shares.join(", "));
        if let Some(law) = law {
            let peak = law.peak_threads.map(|threads| format!(", fastest on {threads:.1} threads")).unwrap_or_default();
            let ScalingIntervals { law, amdahl, .. } = law;
            text += &format!(
                "  contention {:.4}, coherence {:.6}{peak}; by Amdahl's law alone {:.4} is serial\n",
                law.contention, law.coherence, amdahl.contention
            );
        }
    }
    for BestChunk { env_name, num_envs, scan_chunk_size, .. } in chunks {
        text += &format!("{env_name} x {num_envs}: use scan_chunk_size {scan_chunk_size}\n");
    }
    text
}

/// Whether a point of the scaling is that of a row.
fn is_of(ReportRow { row, .. }: &ReportRow, point: &ScalingPoint) -> bool {
    (&point.env_name, &point.agent, point.kind, point.threads, point.num_envs, point.scan_chunk_size)
        == (&row.env_name, &row.agent, row.kind, row.threads, row.num_envs, row.scan_chunk_size)
}

/// The size at which the goals are stated, and the goals.
const GOAL_ENVS: usize = 100_000;
const GOAL_RATE: f64 = 1e6;

fn line(row: &ReportRow) -> [String; 7] {
    let Row { env_name, num_envs, scan_chunk_size, threads, total_throughput_steps_per_s: rate, startup_s, .. } =
        &row.row;
    let rate = rate.map_or_else(|| "skipped".to_owned(), format_number);
    let interval = row.throughput_ci95.map(|ends| ends.map(format_number).join(" to "));
    [
        env_name.clone(),
        num_envs.to_string(),
        scan_chunk_size.to_string(),
        threads.to_string(),
        rate,
        interval.unwrap_or_default(),
        startup_s.map(format_seconds).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ThroughputArgs,
    }

    /// Environment, number of environments, chunk, steps.
    fn asked(words: &[&str]) -> Vec<(String, usize, usize, usize)> {
        let line = Line::try_parse_from([&["throughput"], words].concat()).unwrap();
        let of = |job: Job| (job.case.env, job.case.num_envs, job.case.scan_chunk_size, job.num_steps);
        jobs(&line.args).unwrap_or_else(|error| panic!("{words:?}: {error}")).into_iter().map(of).collect()
    }

    fn cartpole(sizes: &[(usize, usize, usize)]) -> Vec<(String, usize, usize, usize)> {
        sizes.iter().map(|(envs, chunk, steps)| ("CartPole-v1".to_owned(), *envs, *chunk, *steps)).collect()
    }

    #[test]
    fn without_flags_the_three_smallest_sizes() {
        assert_eq!(asked(&[]), cartpole(&[(100, 256, 1000), (1_000, 256, 1000), (10_000, 256, 500)]));
        let gene: Vec<_> = asked(&["--env", "gene-circuit"]).into_iter().map(|job| (job.1, job.2, job.3)).collect();
        assert_eq!(gene, [(100, 256, 500), (1_000, 200, 200), (5_000, 100, 100)], "a chunk is no longer than a run");
    }

    #[test]
    fn full_goes_to_a_million_and_beyond_with_both_environments() {
        let all = asked(&["--full"]);
        assert_eq!(all.len(), 12);
        for wanted in [(100_000, 100, 100), (1_000_000, 32, 50), (5_000_000, 8, 50)] {
            assert!(all.contains(&cartpole(&[wanted])[0]), "{wanted:?}");
        }
        assert_eq!(all[11], ("ccasr-gfp-control".to_owned(), 100_000, 50, 50));
        assert_eq!(asked(&["--full", "--env", "pendulum"]).len(), 8);
    }

    #[test]
    fn flags_are_combined() {
        let both = ["--num-envs", "7", "--num-envs", "1M", "--scan-chunk-size", "8", "--scan-chunk-size", "64"];
        assert_eq!(
            asked(&both),
            cartpole(&[(7, 8, 1000), (7, 64, 1000), (1_000_000, 8, 50), (1_000_000, 50, 50)]),
            "a chunk is no longer than a run"
        );
        assert_eq!(asked(&["--num-envs", "7", "--num-steps", "10", "--threads", "1", "--threads", "2"]).len(), 2);
        assert_eq!(asked(&["--num-envs", "20k"]), cartpole(&[(20_000, 128, 1000)]));
    }

    #[test]
    fn chunks_are_scanned_at_one_size() {
        let chunks: Vec<_> = asked(&["--scan-chunks", "--env", "cartpole"]).into_iter().map(|job| job.2).collect();
        assert_eq!(chunks, [8, 16, 32, 64, 128, 256, 500]);
        assert_eq!(asked(&["--scan-chunks"]).len(), 13);
        assert!(asked(&["--scan-chunks", "--num-envs", "64"]).iter().all(|job| job.1 == 64));
    }
}
