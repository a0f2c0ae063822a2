//! `phalanx bench tabular`: Q-learning by variant of the table, threads, agents and workers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use phalanx_core::batch::BatchConfig;
use phalanx_envs::registry;
use phalanx_lab::campaign::{Measured, Process, shuffled};
use phalanx_lab::case::CaseSpec;
use phalanx_lab::figures::Files;
use phalanx_lab::files::{check_folder, make_folder, write_atomically};
use phalanx_lab::format::format_number;
use phalanx_lab::guards::Readings;
use phalanx_lab::session::Session;
use phalanx_lab::stats::descriptive::median;
use phalanx_lab::stats::random::Stream;
use phalanx_lab::tabular::{
    CELL_VERSION, Cell, Repetitions, Runtime, Scaled, Variant, figures, scaled, summary, variants,
};
use phalanx_lab::throughput::MEGABYTE;
use phalanx_lab::timestamp::Timestamp;
use phalanx_lab::worker::Worker;
use phalanx_learn::{Stop, trainer};
use phalanx_workbench::learning;
use serde::Serialize;

use super::options::{AboutArgs, RESULTS_DIR, own_binary, print_noise};
use crate::args::{OutputArgs, count, whole};
use crate::commands::{print, print_json};
use crate::failure::Failure;
use crate::machine;
use crate::monitoring::ProcessMonitorArgs;
use crate::text::columns;

/// The suite that records of these cases belong to.
const SUITE: &str = "tabular";
/// Calls before anything is timed.
const WARM_UP_CALLS: usize = 10;
/// How tables are kept, the plain one first.
const TABLES: [&str; 4] = ["list", "dense", OPTIMAL, "sparse"];
/// The default.
const OPTIMAL: &str = "optimal";
/// Agents of the tables of variants and of threads.
const AGENTS: usize = 64;

#[derive(Debug, Args)]
#[command(
    after_help = "Without --runtime and --compare two tables are measured: variants of the table on one thread, and \
                        threads on one table."
)]
pub(crate) struct TabularArgs {
    /// Environment whose observation is a state
    #[arg(long, value_name = "E", default_value = "TicTacToe-v0")]
    env: String,
    /// Sweep these runtimes over --agents and --processes instead, with a file for each cell and plots
    #[arg(long, value_name = "R", value_delimiter = ',', num_args = 1.., conflicts_with = "compare")]
    runtime: Vec<RuntimeName>,
    /// Compare these instead: single, parallel-2, parallel-4 and so on
    #[arg(long, value_name = "R", value_delimiter = ',', num_args = 1..)]
    compare: Vec<String>,
    /// Agents that share the table [default: 64, or 1,2,4 to 128 in a sweep]
    #[arg(long, value_name = "A,...", value_delimiter = ',', num_args = 1.., value_parser = count)]
    agents: Vec<usize>,
    /// Workers [default: 1,2,4 and so on as far as there are cores]
    #[arg(long, value_name = "P,...", value_delimiter = ',', num_args = 1.., value_parser = count)]
    processes: Vec<usize>,
    /// Transitions that times are told for [default: 1M, and 10M for threads]
    #[arg(long, value_name = "N", value_parser = count)]
    steps: Option<usize>,
    /// Fresh processes of each row
    #[arg(long, value_name = "N", default_value = "5", value_parser = whole::<u16>(1..=1000))]
    repeats: u16,
    /// Least time of a repetition, in milliseconds
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=600_000))]
    sample_ms: u32,
    /// Folder for the files and plots of a sweep [default: a new one in the folder of the results]
    #[arg(long, value_name = "DIR", requires = "runtime")]
    output_dir: Option<PathBuf>,
    /// Folder for the records
    #[arg(long, value_name = "DIR", default_value = RESULTS_DIR)]
    results_dir: PathBuf,
    #[command(flatten)]
    about: AboutArgs,
    #[command(flatten)]
    monitor: ProcessMonitorArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum RuntimeName {
    SingleThread,
    Parallel,
    Distributed,
}

/// What a row is measured with.
#[derive(Clone, Debug)]
enum How {
    /// One thread, with a kind of table.
    Single(&'static str),
    /// Threads that execute shards, with the same result for any number of them.
    Deterministic(usize),
    /// Workers on one table of atomics.
    Asynchronous(usize),
}

const DETERMINISTIC: &str = "deterministic";
const ASYNCHRONOUS: &str = "asynchronous";

impl How {
    /// How threads share the table, and how many there are.
    fn mode(&self) -> Option<(&'static str, usize)> {
        match self {
            Self::Single(_) => None,
            Self::Deterministic(threads) => Some((DETERMINISTIC, *threads)),
            Self::Asynchronous(workers) => Some((ASYNCHRONOUS, *workers)),
        }
    }

    /// Threads, and settings of the agent.
    fn settings(&self) -> (usize, Vec<(String, String)>) {
        let (threads, settings) = match self {
            Self::Single(table) => (1, vec![("shards", "1".to_owned()), ("table", (*table).to_owned())]),
            Self::Deterministic(threads) => (*threads, Vec::new()),
            Self::Asynchronous(workers) => {
                (*workers, vec![("deterministic", "false".to_owned()), ("num_workers", workers.to_string())])
            }
        };
        (threads, settings.into_iter().map(|(key, value)| (format!("agent.{key}"), value)).collect())
    }
}

/// Transitions of a chunk at most: a sample ends with a chunk, and is not to take much longer than it was asked to.
const LONGEST_CHUNK: u64 = 1_000_000;

/// What is measured in one row.
struct Row {
    how: How,
    agents: usize,
    /// Transitions that times are told for.
    steps: u64,
}

impl Row {
    /// Cut into chunks as a run of as many transitions is: from one event of its log to the next.
    fn case(&self, env: &str) -> CaseSpec {
        let (threads, settings) = self.how.settings();
        let chunk = trainer::log_interval(self.steps).min(LONGEST_CHUNK) as usize;
        let scan_chunk_size = (chunk / self.agents).max(1);
        CaseSpec { threads, settings, scan_chunk_size, ..CaseSpec::training(env, "q_learning", self.agents) }
    }
}

/// What the processes of a row showed.
struct Found {
    processes: Vec<Process>,
    /// Bytes that were allocated in the end, of each.
    live: Vec<f64>,
    rss_peak: Option<u64>,
}

impl Found {
    /// Nanoseconds for each transition, of each process.
    fn step_ns(&self) -> Vec<f64> {
        self.processes.iter().flat_map(Process::times).collect()
    }

    fn throughput(&self) -> f64 {
        1e9 / median(&self.step_ns())
    }

    fn memory_mb(&self) -> Option<f64> {
        (!self.live.is_empty()).then(|| median(&self.live) / MEGABYTE)
    }
}

#[derive(Serialize)]
struct Threads {
    mode: &'static str,
    rows: Vec<Scaled>,
}

/// A runtime in a comparison.
#[derive(Serialize)]
struct Compared {
    runtime: String,
    throughput: f64,
    memory_mb: Option<f64>,
}

#[derive(Serialize)]
struct Document {
    run_id: String,
    records: Option<PathBuf>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    variants: Vec<Variant>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    threads: Vec<Threads>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    compared: Vec<Compared>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cells: Vec<Cell>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<PathBuf>,
    guards: Readings,
}

pub(crate) fn run(args: &TabularArgs) -> Result<(), Failure> {
    let env = registry::find(&args.env)?.spec().name;
    if args.runtime.contains(&RuntimeName::Distributed) {
        return Err(Failure::input(
            "--runtime is distributed, which this version does not have; choose of single_thread and parallel",
        ));
    }
    args.output_dir.as_deref().map_or(Ok(()), check_output)?;
    let plan = Rows::of(args, env)?;
    for row in &plan.rows {
        // What cannot be made is refused before anything is measured.
        learning::of(&row.case(env))?;
    }
    let mut session = Session::start(SUITE, plan.most_threads(), args.about.about(), Some(&args.results_dir))?;
    let found = measure(args, &mut session, &plan)?;
    session.finish();
    let guards = session.guards();
    print_noise(&guards);
    let mut document = Document {
        run_id: session.run.run_id.clone(),
        records: session.path(),
        variants: Vec::new(),
        threads: Vec::new(),
        compared: Vec::new(),
        cells: Vec::new(),
        files: Vec::new(),
        guards,
    };
    let text = match plan.purpose {
        Purpose::Tables => tables(&plan, &found, &mut document),
        Purpose::Comparison => compared(args, &plan, &found, &mut document),
        Purpose::Sweep => sweep(args, &session, &plan, &found, &mut document)?,
    };
    if args.output.json { print_json(&document) } else { print(&text) }
}

#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    Tables,
    Comparison,
    Sweep,
}

/// What is measured.
struct Rows {
    purpose: Purpose,
    env: &'static str,
    rows: Vec<Row>,
}

impl Rows {
    fn of(args: &TabularArgs, env: &'static str) -> Result<Self, Failure> {
        let one = || match args.agents.as_slice() {
            [] => Ok(AGENTS),
            [agents] => Ok(*agents),
            _ => Err(Failure::input("--agents names several numbers, which only a sweep (--runtime) can have")),
        };
        let workers = if args.processes.is_empty() { powers(machine::cores()) } else { args.processes.clone() };
        if let Some(none) = args.agents.iter().chain(&args.processes).find(|number| **number == 0) {
            return Err(Failure::input(format!("--agents or --processes is {none}, but must be at least 1")));
        }
        let row = |how, agents| {
            let long = args.compare.is_empty() && args.runtime.is_empty() && !matches!(how, How::Single(_));
            let steps = args.steps.map_or(if long { 10_000_000 } else { 1_000_000 }, |steps| steps as u64);
            Row { how, agents, steps }
        };
        let (purpose, rows) = if !args.compare.is_empty() {
            let agents = one()?;
            let rows = args.compare.iter().map(|name| Ok(row(runtime(name)?, agents)));
            (Purpose::Comparison, rows.collect::<Result<_, Failure>>()?)
        } else if args.runtime.is_empty() {
            let agents = one()?;
            let tables = TABLES.map(How::Single).into_iter();
            let modes: [fn(usize) -> How; 2] = [How::Deterministic, How::Asynchronous];
            let threads = modes.into_iter().flat_map(|mode| workers.iter().map(move |count| mode(*count)));
            (Purpose::Tables, tables.chain(threads).map(|how| row(how, agents)).collect())
        } else {
            let agents = if args.agents.is_empty() { powers(128) } else { args.agents.clone() };
            let mut rows = Vec::new();
            if args.runtime.contains(&RuntimeName::SingleThread) {
                rows.extend(agents.iter().map(|agents| row(How::Single(OPTIMAL), *agents)));
            }
            if args.runtime.contains(&RuntimeName::Parallel) {
                // Each worker has an agent of its own at least.
                let both = agents.iter().flat_map(|agents| workers.iter().map(move |workers| (*agents, *workers)));
                let fitting = both.filter(|(agents, workers)| agents >= workers);
                rows.extend(fitting.map(|(agents, workers)| row(How::Asynchronous(workers), agents)));
            }
            if rows.is_empty() {
                return Err(Failure::input("no cell is left: --agents must be at least as many as --processes"));
            }
            (Purpose::Sweep, rows)
        };
        Ok(Self { purpose, env, rows })
    }

    fn most_threads(&self) -> usize {
        self.rows.iter().map(|row| row.how.settings().0).max().unwrap_or(1)
    }
}

/// 1, 2, 4 and so on up to a number.
fn powers(most: usize) -> Vec<usize> {
    (0..usize::BITS).map(|power| 1 << power).take_while(|count| *count <= most.max(1)).collect()
}

/// The runtime of a name such as `parallel-4`.
fn runtime(name: &str) -> Result<How, Failure> {
    let workers = |digits: &str| digits.parse().ok().filter(|count: &usize| *count > 0);
    match name.split_once('-') {
        None if name == "single" => Some(How::Single(OPTIMAL)),
        Some(("parallel", digits)) => workers(digits).map(How::Asynchronous),
        _ => None,
    }
    .ok_or_else(|| {
        Failure::input(format!("--compare is '{name}', but must be single, or parallel- with a number of workers"))
    })
}

/// Measures all rows, in a new random order each time.
fn measure(args: &TabularArgs, session: &mut Session, plan: &Rows) -> Result<Vec<Found>, Failure> {
    let binary = own_binary()?;
    let sample_ns = Duration::from_millis(args.sample_ms.into()).as_nanos() as u64;
    let cases: Vec<CaseSpec> = plan.rows.iter().map(|row| row.case(plan.env)).collect();
    let mut all: Vec<Found> =
        cases.iter().map(|_| Found { processes: Vec::new(), live: Vec::new(), rss_peak: None }).collect();
    let mut monitor = args.monitor.start()?;
    let total = cases.len() * usize::from(args.repeats);
    let mut watch = monitor.watch("tabular", "processes", total, args.output.quiet);
    let mut random = Stream::new(0, 0);
    for _ in 0..args.repeats {
        for at in shuffled(cases.len(), &mut random) {
            let mut worker = Worker::start(&binary, &cases[at])?;
            for _ in 0..WARM_UP_CALLS {
                worker.sample(1)?;
            }
            let iterations = worker.calibrate(sample_ns)?;
            let process = Process::new(worker.ready().clone(), vec![worker.sample(iterations)?]);
            // In the end, when a table has grown as far as it does.
            let allocations = worker.allocations(1)?;
            watch.process(&cases[at], &process);
            let found = &mut all[at];
            found.live.extend(allocations.map(|counted| counted.live_bytes as f64));
            found.rss_peak = found.rss_peak.max(allocations.and_then(|counted| counted.rss_peak));
            found.processes.push(process);
            session.record_progress(&cases[at], SUITE, &found.processes)?;
        }
    }
    drop(watch);
    monitor.close()?;
    for (case, found) in cases.into_iter().zip(&all) {
        session.record_complete(&Measured { case, processes: found.processes.clone() })?;
    }
    Ok(all)
}

fn seconds(value: f64) -> String {
    format!("{value:.3}")
}

fn megabytes(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |mb| format!("{mb:.2}"))
}

/// The tables of variants and of threads.
fn tables(plan: &Rows, found: &[Found], document: &mut Document) -> String {
    let steps = |row: Option<&Row>| row.map_or(0, |row| row.steps);
    let (variant_steps, thread_steps) = (steps(plan.rows.first()), steps(plan.rows.last()));
    let rows = || plan.rows.iter().zip(found);
    let of_tables = rows().filter_map(|(row, found)| match &row.how {
        How::Single(table) => Some((*table, found.throughput(), found.memory_mb())),
        _ => None,
    });
    document.variants = variants(variant_steps, of_tables);
    let threads = |mode: &'static str| {
        let of_mode = rows().filter_map(move |(row, found)| {
            let (_, threads) = row.how.mode().filter(|(name, _)| *name == mode)?;
            Some((threads, found.throughput()))
        });
        Threads { mode, rows: scaled(thread_steps, of_mode) }
    };
    document.threads = vec![threads(DETERMINISTIC), threads(ASYNCHRONOUS)];
    let agents = plan.rows.first().map_or(AGENTS, |row| row.agents);
    let variant_rows: Vec<_> = document
        .variants
        .iter()
        .map(|row| {
            [
                row.implementation.clone(),
                seconds(row.time_s),
                megabytes(row.memory_mb),
                format_number(row.throughput),
                format!("{:.2}x", row.relative),
            ]
        })
        .collect();
    let thread_rows: Vec<_> = document
        .threads
        .iter()
        .flat_map(|mode| mode.rows.iter().map(move |row| (mode.mode, row)))
        .map(|(mode, row)| {
            [
                mode.to_owned(),
                row.threads.to_string(),
                seconds(row.time_s),
                format!("{:.2}", row.speed_up),
                format!("{:.1} %", 100.0 * row.efficiency),
                format_number(row.throughput),
            ]
        })
        .collect();
    let (env, number) = (plan.env, |steps: u64| format_number(steps as f64));
    format!(
        "Tables on one thread: {env}, {agents} agents, {} transitions\n{}\nThreads on one table: {env}, {agents} agents, {} \
         transitions\n{}",
        number(variant_steps),
        columns(&["implementation", "time s", "memory MB", "transitions/s", "relative"], &variant_rows),
        number(thread_steps),
        columns(&["mode", "threads", "time s", "speed-up", "efficiency", "transitions/s"], &thread_rows),
    )
}

fn compared(args: &TabularArgs, plan: &Rows, found: &[Found], document: &mut Document) -> String {
    let row = |(name, found): (&String, &Found)| Compared {
        runtime: name.clone(),
        throughput: found.throughput(),
        memory_mb: found.memory_mb(),
    };
    document.compared = args.compare.iter().zip(found).map(row).collect();
    let agents = plan.rows.first().map_or(AGENTS, |row| row.agents);
    let rows: Vec<_> = document
        .compared
        .iter()
        .map(|row| [row.runtime.clone(), format_number(row.throughput), megabytes(row.memory_mb)])
        .collect();
    format!("{}, {agents} agents\n{}", plan.env, columns(&["runtime", "transitions/s", "memory MB"], &rows))
}

/// A file for each cell, the summary and the plots.
fn sweep(
    args: &TabularArgs,
    session: &Session,
    plan: &Rows,
    found: &[Found],
    document: &mut Document,
) -> Result<String, Failure> {
    let now = Timestamp::now();
    let folder = args.output_dir.clone().unwrap_or_else(|| args.results_dir.join(format!("tabular_{}", now.compact())));
    for (row, found) in plan.rows.iter().zip(found) {
        let case = row.case(plan.env);
        let empty = Cell {
            schema_version: CELL_VERSION,
            runtime: if matches!(row.how, How::Single(_)) { Runtime::SingleThread } else { Runtime::Parallel },
            total_steps: 0,
            effective_steps: 0,
            elapsed_time: 0.0,
            throughput: 0.0,
            step_multiplier: 0,
            timestamp: now.rfc3339(),
            num_agents: row.agents,
            num_processes: case.threads,
            mpi_rank: 0,
            mpi_size: 1,
            machine: session.run.machine.name.clone(),
            git: session.run.git.sha.clone(),
            runs: Vec::new(),
            median: 0.0,
            min: 0.0,
            max: 0.0,
            warmup_s: 0.0,
            learn_metric: learn_metric(&case)?,
            peak_rss_mb: None,
            case: case.id(),
        };
        let repetitions = Repetitions {
            step_ns: found.step_ns(),
            warmup_s: found.processes.iter().map(|process| process.ready.startup_ns as f64 / 1e9).collect(),
            peak_rss_mb: found.rss_peak.map(|bytes| bytes as f64 / MEGABYTE),
        };
        document.cells.push(empty.measured(row.steps, &repetitions));
    }
    make_folder(&folder)?;
    let mut write = |name: String, bytes: &[u8]| -> Result<(), Failure> {
        let path = folder.join(name);
        write_atomically(&path, bytes)?;
        document.files.push(path);
        Ok(())
    };
    for cell in &document.cells {
        let text = serde_json::to_string_pretty(cell).expect("a cell is plain data") + "\n";
        write(format!("{}.json", cell.stem()), text.as_bytes())?;
    }
    let told = summary(&document.cells);
    write("benchmark_summary.txt".to_owned(), told.as_bytes())?;
    for (name, scene) in figures(&document.cells) {
        let Files { png, svg } = Files::of(&scene).map_err(Failure::picture)?;
        write(format!("{name}.png"), &png)?;
        write(format!("{name}.svg"), &svg)?;
    }
    let rows: Vec<_> = document
        .cells
        .iter()
        .map(|cell| {
            [
                cell.runtime.name().to_owned(),
                cell.num_agents.to_string(),
                cell.num_processes.to_string(),
                seconds(cell.elapsed_time),
                format_number(cell.throughput),
                cell.learn_metric.map_or("-".to_owned(), |mean| format!("{mean:.3}")),
            ]
        })
        .collect();
    let header = ["runtime", "agents", "processes", "time s", "transitions/s", "mean return"];
    Ok(format!("{}\n{told}\nfiles    {}\n", columns(&header, &rows), folder.display()))
}

/// The mean return of what a run of the case learns.
fn learn_metric(case: &CaseSpec) -> Result<Option<f64>, Failure> {
    let entry = registry::find(&case.env)?;
    let mut config = learning::config(case)?;
    config.run.eval_frequency = 0;
    let make = |batch: &BatchConfig| entry.batch(batch);
    let trained = trainer::train(&config, &make, &mut || Ok(None), None, &mut |_| true, Stop::default())?;
    Ok(trained.results.summary.final_eval_return_mean)
}

/// Refuses a folder that holds files of another sweep.
fn check_output(folder: &Path) -> Result<(), Failure> {
    check_folder(folder)?;
    let is_taken = |name: &str| folder.join(name).exists();
    match is_taken("benchmark_summary.txt") {
        true => Err(Failure::input(format!(
            "--output-dir is {}, which holds a sweep already: choose another folder",
            folder.display()
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_have_names() {
        let threads = |name: &str| runtime(name).map(|how| how.settings().0).ok();
        assert_eq!(["single", "parallel-2", "parallel-16"].map(threads), [Some(1), Some(2), Some(16)]);
        assert_eq!(["parallel", "parallel-0", "single-2", "mpi-2"].map(threads), [None; 4]);
        assert_eq!(powers(5), [1, 2, 4]);
    }

    /// A row is told of 200 times, as a run is: 5,000 transitions of a million are 78 steps of 64 agents.
    #[test]
    fn control_returns_as_often_as_in_a_run() {
        let chunk =
            |agents, steps| Row { how: How::Single(OPTIMAL), agents, steps }.case("TicTacToe-v0").scan_chunk_size;
        let rows = [(64, 1_000_000), (64, 10_000_000), (128, 10), (100, u64::MAX)];
        assert_eq!(rows.map(|(agents, steps)| chunk(agents, steps)), [78, 781, 1, 10_000]);
    }
}
