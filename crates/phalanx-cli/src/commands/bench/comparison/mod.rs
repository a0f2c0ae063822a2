//! `phalanx bench comparison`: other libraries beside ours, in the same run, in turns.

mod libraries;
mod trajectories;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use phalanx_envs::registry;
use phalanx_lab::budget::MemoryBudget;
use phalanx_lab::campaign::{Plan, Process};
use phalanx_lab::case::CaseSpec;
use phalanx_lab::figures::times;
use phalanx_lab::format::{format_number, format_seconds};
use phalanx_lab::function::write_csv;
use phalanx_lab::record::Kind;
use phalanx_lab::session::Session;
use phalanx_lab::stats::descriptive::{mean, median, population_sd};
use phalanx_lab::stats::interval::Interval;
use phalanx_lab::throughput::rate_of;
use phalanx_lab::turns::{self, Contestant};
use serde::Serialize;
use serde_json::json;

use self::libraries::{Entry, Library, Question, Setup};
use self::trajectories::Check;
use super::options::{ResultsArgs, own_binary};
use crate::args::{OutputArgs, count, memory_budget, whole};
use crate::commands::{print, print_json};
use crate::failure::Failure;
use crate::monitoring::ProcessMonitorArgs;
use crate::{machine, workloads};

#[derive(Debug, Args)]
pub(crate) struct ComparisonArgs {
    /// Library to measure, or all; may be given several times
    #[arg(long, value_name = "L", default_value = "all")]
    library: Vec<Choice>,
    /// Environment
    #[arg(long, value_name = "E", default_value = "CartPole-v1")]
    env: String,
    /// Number of environments
    #[arg(long, value_name = "N", default_value = "1000", value_parser = count)]
    num_envs: usize,
    /// Steps of each environment that times are stated for
    #[arg(long, value_name = "T", default_value = "5000", value_parser = count)]
    steps_per_env: usize,
    /// Python with the other libraries
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// Make a virtual environment there with the libraries, by pip, and use it
    #[arg(long, value_name = "DIR")]
    make_venv: Option<PathBuf>,
    /// Sets of processes that take turns
    #[arg(long, value_name = "P", default_value = "5", value_parser = whole::<u16>(1..=1000))]
    processes: u16,
    /// Samples of each process; from 24 on the steady state is looked for
    #[arg(long, value_name = "N", default_value = "24", value_parser = whole::<u16>(2..=10_000))]
    samples: u16,
    /// Least time of a sample, in milliseconds
    #[arg(long, value_name = "MS", default_value = "100", value_parser = whole::<u32>(1..=60_000))]
    sample_ms: u32,
    /// Refuse a number of environments that needs more: a share of what is available, or an amount such as 12G
    #[arg(long, value_name = "M", default_value = "0.8", value_parser = memory_budget)]
    memory_budget: MemoryBudget,
    #[command(flatten)]
    monitor: ProcessMonitorArgs,
    #[command(flatten)]
    results: ResultsArgs,
    #[command(flatten)]
    print: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Choice {
    All,
    Phalanx,
    Gymnasium,
    Gymnax,
    Envpool,
}

impl Choice {
    fn covers(self, library: Library) -> bool {
        self == Self::All || self.to_possible_value().is_some_and(|value| value.get_name() == library.name())
    }
}

/// A row of the table. The fields are the columns; times are those of `steps_per_env` steps of all environments.
#[derive(Debug, Clone, Serialize)]
struct Row {
    library: &'static str,
    library_version: String,
    mode: String,
    kind: Kind,
    env_name: String,
    device: &'static str,
    num_envs: usize,
    steps_per_env: usize,
    total_steps: usize,
    success: bool,
    error: String,
    compile_time_s: Option<f64>,
    runtime_mean_s: Option<f64>,
    runtime_std_s: Option<f64>,
    total_time_s: Option<f64>,
    throughput_steps_per_s: Option<f64>,
    throughput_ci_low: Option<f64>,
    throughput_ci_high: Option<f64>,
    /// CPU time by wall time: how many cores it kept busy.
    cores_busy: Option<f64>,
    speedup_vs_slowest: Option<f64>,
    /// Ours divided by this, of the same kind.
    phalanx_speedup: Option<f64>,
    phalanx_speedup_ci_low: Option<f64>,
    phalanx_speedup_ci_high: Option<f64>,
    same_physics: String,
    /// The guards that refuse the whole comparison; empty if none does.
    noisy: String,
}

#[derive(Serialize)]
struct Report<'a> {
    table: PathBuf,
    records: Option<PathBuf>,
    rows: &'a [Row],
    fairness: &'a [String],
    guards: &'a phalanx_lab::guards::Readings,
}

pub(crate) fn run(args: &ComparisonArgs) -> Result<(), Failure> {
    let env = registry::find(&args.env)?.batch(&Default::default())?.spec().name.to_owned();
    let chosen = |library: &Library| args.library.iter().any(|choice| choice.covers(*library));
    let libraries: Vec<Library> = Library::ALL.into_iter().filter(chosen).collect();
    if !libraries.contains(&Library::Phalanx) && !libraries::SHARED.contains(&env.as_str()) {
        let others: Vec<&str> = libraries.iter().map(|library| library.name()).collect();
        return Err(Failure::input(format!(
            "--env is {env}, which {} cannot make: choose one of {}, or add --library phalanx",
            others.join(" or "),
            libraries::SHARED.join(", ")
        )));
    }
    let quiet = args.print.quiet;
    let target = args.results.target("comparison_cpu")?;
    let mut monitor = args.monitor.start()?;
    // Those of ours; what other libraries need is not known, and is more.
    let case = CaseSpec::host_api(&env, args.num_envs);
    if let Err(why) = workloads::fits(&workloads::predicted(&case)?, args.memory_budget.bytes()) {
        return Err(Failure::input(format!("--num-envs is {}, which {why}", args.num_envs)));
    }
    let python = match &args.make_venv {
        Some(folder) => libraries::make_venv(&args.python, folder, &libraries, quiet)?,
        None => args.python.clone(),
    };
    let setup = Setup { env, num_envs: args.num_envs, python, this_binary: own_binary()?, cores: machine::cores() };
    let prepared = prepare(args, &setup, &libraries)?;
    // Only now, so that a Python that does not run, or without any library, leaves no empty records behind.
    require_one(&prepared, |entry| (entry.contestant.is_some(), &entry.row))?;
    let mut session = Session::start(&target.prefix, setup.cores, args.results.about.about(), Some(&target.folder))?;
    let plan = Plan::of(args.processes, args.samples, args.sample_ms);
    let runs = prepared.iter().filter_map(|entry| entry.contestant.clone().map(|runs| (entry.case_id(&runs), runs)));
    let (names, contestants): (Vec<String>, Vec<Contestant>) = runs.unzip();
    let processes = turns::take_turns(&contestants, &plan, |set, last| {
        if !quiet {
            say!("set {} of {}: {} programs took {} turns", set + 1, plan.processes, contestants.len(), plan.samples);
        }
        for ((name, contestant), process) in names.iter().zip(&contestants).zip(last) {
            if let Some(process) = process {
                let num_envs = contestant.case.num_envs;
                monitor.heard_as((name.clone(), None), num_envs, process, |line| say!("{line}"));
            }
        }
    });
    monitor.close()?;
    let mut measured = processes.into_iter();
    let all: Vec<(Prepared, Option<Vec<Process>>)> = prepared
        .into_iter()
        .map(|mut entry| match entry.contestant.as_ref().and_then(|_| measured.next()) {
            Some(Ok(processes)) => (entry, Some(processes)),
            Some(Err(error)) => {
                entry.row.error = reason(error);
                (entry, None)
            }
            None => (entry, None),
        })
        .collect();
    require_one(&all, |(entry, processes)| (processes.is_some(), &entry.row))?;
    for (entry, processes) in &all {
        if let (Some(processes), Some(contestant)) = (processes, &entry.contestant) {
            let mut case = contestant.case.record(&session.run.run_id, "comparison");
            case.case_id = entry.case_id(contestant);
            if entry.row.library != "phalanx" {
                case.extra.insert("library".to_owned(), json!(entry.row.library));
            }
            case.extra.insert("library_version".to_owned(), json!(entry.row.library_version));
            case.extra.insert("mode".to_owned(), json!(entry.row.mode));
            session.record_described(case, processes)?;
        }
    }
    let mut rows = rows(&all, args);
    let guards = session.guards();
    let noisy = guards.refusing().collect::<Vec<_>>().join(", ");
    rows.iter_mut().for_each(|row| row.noisy.clone_from(&noisy));
    let fairness = fairness(&rows, &plan, &guards, &setup);
    let records = session.path();
    let table = target.table(records.as_deref().unwrap_or(&target.folder));
    write_csv(&table, &rows)?;
    session.finish();
    let report = Report { table, records, rows: &rows, fairness: &fairness, guards: &guards };
    if args.print.json {
        return print_json(&report);
    }
    let written = format!("table: {}\n", report.table.display());
    print(&format!("{}\n{}{written}", table_text(&rows), fairness.iter().map(|l| format!("{l}\n")).collect::<String>()))
}

/// Fails if not one row is good: a table without a single figure is no result.
fn require_one<T>(all: &[T], row: impl Fn(&T) -> (bool, &Row)) -> Result<(), Failure> {
    if all.iter().any(|one| row(one).0) {
        return Ok(());
    }
    let mut reasons: Vec<String> =
        all.iter().map(|one| format!("{}: {}", row(one).1.library, row(one).1.error)).collect();
    reasons.dedup();
    Err(phalanx_lab::Error::Subject(format!("nothing could be measured ({})", reasons.join("; "))).into())
}

/// A row before it is measured, and what will be; nothing if it cannot be.
struct Prepared {
    row: Row,
    contestant: Option<Contestant>,
}

impl Prepared {
    /// What records call it: a case of another library is none of ours.
    fn case_id(&self, contestant: &Contestant) -> String {
        let id = contestant.case.id();
        match self.row.library {
            "phalanx" => id,
            other => format!("{other}/{}/{id}", self.row.mode),
        }
    }
}

/// Finds what is installed, checks that it computes the same, and chooses the fastest configuration of each row.
fn prepare(args: &ComparisonArgs, setup: &Setup, libraries: &[Library]) -> Result<Vec<Prepared>, Failure> {
    let start = trajectories::start(&setup.env)?;
    let question = Question { env: &setup.env, starts: &start.states, actions: &start.actions };
    // All are asked before any is timed: a Python that does not run is heard of at once.
    let ask = |library: &Library| libraries::describe(*library, &setup.python, &question);
    let descriptions = libraries.iter().map(ask).collect::<Result<Vec<_>, Failure>>()?;
    let mut prepared = Vec::new();
    for (library, description) in libraries.iter().zip(descriptions) {
        let say = |text: String| {
            if !args.print.quiet {
                say!("{}: {text}", library.name());
            }
        };

        let check = match library {
            Library::Phalanx => Check::Undefined("this is the one that others are compared with".to_owned()),
            _ => trajectories::check(&setup.env, &start, &description)?,
        };
        let physics = match &check {
            Check::Equal { steps, largest: 0.0 } => format!("equal in every bit over {steps} steps"),
            Check::Equal { steps, largest } => format!("equal within {largest:.0e} over {steps} steps"),
            Check::Different(why) => format!("different: {why}"),
            Check::Undefined(why) => format!("not checked: {why}"),
        };
        say(match &description.missing {
            Some(why) => format!("not installed ({why})"),
            None if description.python.is_empty() => format!("version {}", description.version),
            None => format!("version {} in Python {}, physics {physics}", description.version, description.python),
        });
        for entry in library.entries(setup) {
            let mut row = empty_row(&entry, args, &setup.env);
            row.library_version = description.version.clone();
            row.same_physics = physics.clone();
            let refused = match (&description.missing, &check) {
                (Some(why), _) => Some(format!("not installed: pip install {} ({why})", library.packages().join(" "))),
                (None, Check::Different(why)) => Some(format!("it computes something else: {why}")),
                _ => None,
            };
            let contestant = match refused {
                Some(why) => {
                    row.error = why;
                    None
                }
                None => fastest(entry, &mut row, args, &say),
            };
            prepared.push(Prepared { row, contestant });
        }
    }
    Ok(prepared)
}

/// The fastest configuration of an entry, by a short trial in turns; none if none runs, and the row says why.
fn fastest(entry: Entry, row: &mut Row, args: &ComparisonArgs, say: &dyn Fn(String)) -> Option<Contestant> {
    let contestants: Vec<Contestant> = entry.candidates.iter().map(|c| c.contestant.clone()).collect();
    let sample = Duration::from_millis(args.sample_ms.into());
    let mut best: Option<(f64, Contestant)> = None;
    let several = entry.candidates.len() > 1;
    for (candidate, time) in entry.candidates.into_iter().zip(turns::trials(&contestants, sample)) {
        match time {
            Ok(time) => {
                if several {
                    say(format!("{}: {} steps/s in a trial", candidate.mode, format_number(1e9 / time)));
                }
                if best.as_ref().is_none_or(|(least, _)| time < *least) {
                    (row.mode, row.error) = (candidate.mode, String::new());
                    best = Some((time, candidate.contestant));
                }
            }
            Err(error) => {
                let why = reason(error);
                say(format!("{}: {why}", candidate.mode));
                if best.is_none() {
                    (row.mode, row.error) = (candidate.mode, why);
                }
            }
        }
    }
    best.map(|(_, contestant)| contestant)
}

/// Why a program did not run; the row names it already.
fn reason(error: phalanx_lab::Error) -> String {
    match error {
        phalanx_lab::Error::Worker { reason, .. } => reason,
        other => other.to_string(),
    }
}

fn empty_row(entry: &Entry, args: &ComparisonArgs, env: &str) -> Row {
    Row {
        library: entry.library.name(),
        library_version: String::new(),
        mode: entry.candidates.first().map(|candidate| candidate.mode.clone()).unwrap_or_default(),
        kind: entry.kind,
        env_name: env.to_owned(),
        device: "cpu",
        num_envs: entry.num_envs,
        steps_per_env: args.steps_per_env,
        total_steps: args.steps_per_env.saturating_mul(entry.num_envs),
        success: false,
        error: String::new(),
        compile_time_s: None,
        runtime_mean_s: None,
        runtime_std_s: None,
        total_time_s: None,
        throughput_steps_per_s: None,
        throughput_ci_low: None,
        throughput_ci_high: None,
        cores_busy: None,
        speedup_vs_slowest: None,
        phalanx_speedup: None,
        phalanx_speedup_ci_low: None,
        phalanx_speedup_ci_high: None,
        same_physics: String::new(),
        noisy: String::new(),
    }
}

/// The rows with what was measured; ratios within a kind only.
fn rows(all: &[(Prepared, Option<Vec<Process>>)], args: &ComparisonArgs) -> Vec<Row> {
    let of_kind = |kind: Kind| all.iter().filter(move |(entry, _)| entry.row.kind == kind);
    let ours = |kind: Kind| {
        of_kind(kind).find(|(entry, _)| entry.row.library == "phalanx").and_then(|(_, processes)| processes.as_deref())
    };
    let mut rows: Vec<Row> = all
        .iter()
        .map(|(entry, processes)| match processes {
            Some(processes) => measured_row(&entry.row, processes, ours(entry.row.kind), args),
            None => entry.row.clone(),
        })
        .collect();
    for kind in Kind::ALL {
        let rates = rows.iter().filter(|row| row.kind == kind).filter_map(|row| row.throughput_steps_per_s);
        let slowest = rates.fold(f64::INFINITY, f64::min);
        for row in rows.iter_mut().filter(|row| row.kind == kind) {
            row.speedup_vs_slowest = row.throughput_steps_per_s.map(|rate| rate / slowest);
        }
    }
    rows
}

fn measured_row(row: &Row, processes: &[Process], ours: Option<&[Process]>, args: &ComparisonArgs) -> Row {
    let times = processes.iter().flat_map(Process::times);
    let seconds: Vec<f64> = times.map(|ns| ns * row.total_steps as f64 / 1e9).collect();
    let startup = median(&processes.iter().map(|process| process.ready.startup_ns as f64 / 1e9).collect::<Vec<_>>());
    let (rate, interval) = rate_of(processes);
    let (cpu, wall) = processes.iter().flat_map(Process::steady_timings).fold((Some(0), 0), |(cpu, wall), timing| {
        (cpu.zip(timing.cpu_ns).map(|(sum, ns)| sum + ns), wall + timing.wall_ns)
    });
    let seed = u64::from(args.processes);
    let ratio = ours.filter(|_| row.library != "phalanx").and_then(|ours| turns::ratio(processes, ours, seed));
    let ratio_interval = ratio.map(|ratio| ratio.speed_up_interval());
    let low = |interval: Option<Interval>| interval.map(|interval| interval.low);
    let high = |interval: Option<Interval>| interval.map(|interval| interval.high);
    Row {
        success: true,
        compile_time_s: Some(startup),
        runtime_mean_s: Some(mean(&seconds)),
        runtime_std_s: Some(population_sd(&seconds)),
        total_time_s: Some(startup + mean(&seconds)),
        throughput_steps_per_s: Some(rate),
        throughput_ci_low: interval.map(|[low, _]| low),
        throughput_ci_high: interval.map(|[_, high]| high),
        cores_busy: cpu.filter(|_| wall > 0).map(|cpu| cpu as f64 / wall as f64),
        phalanx_speedup: ratio.map(|ratio| ratio.speed_up()),
        phalanx_speedup_ci_low: low(ratio_interval),
        phalanx_speedup_ci_high: high(ratio_interval),
        ..row.clone()
    }
}

fn table_text(rows: &[Row]) -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        let mut of_kind: Vec<&Row> = rows.iter().filter(|row| row.kind == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        of_kind.sort_by(|a, b| {
            b.throughput_steps_per_s.unwrap_or(0.0).total_cmp(&a.throughput_steps_per_s.unwrap_or(0.0))
        });
        text += &format!(
            "{kind}\n  {:<11}{:<27}{:>9}{:>10}  {:<19}{:>8}{:>7}  phalanx is faster by\n",
            "library", "mode", "envs", "steps/s", "95 % interval", "startup", "cores"
        );
        for row in of_kind {
            let Some(rate) = row.throughput_steps_per_s else {
                text += &format!("  {:<11}{:<27}{:>9}  {}\n", row.library, row.mode, row.num_envs, row.error);
                continue;
            };
            let interval = row.throughput_ci_low.zip(row.throughput_ci_high);
            let interval = interval.map(|(low, high)| format!("[{}, {}]", format_number(low), format_number(high)));
            let ratio = row.phalanx_speedup.zip(row.phalanx_speedup_ci_low.zip(row.phalanx_speedup_ci_high));
            let ratio = ratio.map(|(ratio, (l, h))| format!("{}x [{}, {}]", times(ratio), times(l), times(h)));
            text += &format!(
                "  {:<11}{:<27}{:>9}{:>10}  {:<19}{:>8}{:>7}  {}\n",
                row.library,
                row.mode,
                row.num_envs,
                format_number(rate),
                interval.unwrap_or_default(),
                row.compile_time_s.map(format_seconds).unwrap_or_default(),
                row.cores_busy.map(|cores| format!("{cores:.1}")).unwrap_or_default(),
                ratio.unwrap_or_default(),
            );
        }
        text += "\n";
    }
    text
}

/// What a reader must know to believe the table, and what still is not equal.
fn fairness(rows: &[Row], plan: &Plan, guards: &phalanx_lab::guards::Readings, setup: &Setup) -> Vec<String> {
    let mut lines = vec![
        "fairness".to_owned(),
        format!("  machine       {} cores; all programs live at once and take turns, in random order", setup.cores),
        format!(
            "  samples       {} sets of processes x {} samples of at least {} ms each; warm-up is left out for all",
            plan.processes,
            plan.samples,
            plan.sample.as_millis()
        ),
        "  configuration the fastest of those tried, for every library, ours included".to_owned(),
        "  kinds         ratios are taken within a kind only; steps that only reset do not count".to_owned(),
        "  actions       fused: drawn in the loop by each; host API: drawn beforehand, 64 rows that repeat".to_owned(),
        "  outputs       fused: into a checksum each step; host API: arrays with each call, a checksum each 64th"
            .to_owned(),
        "  precision     state: gymnasium and envpool double, phalanx and gymnax single; observations single"
            .to_owned(),
        "  startup       from the start of the process (Python's included) to the first outputs".to_owned(),
    ];
    let mut seen = Vec::new();
    for row in rows.iter().filter(|row| row.library != "phalanx" && !row.same_physics.is_empty()) {
        if !seen.contains(&row.library) {
            seen.push(row.library);
            lines.push(format!("  physics       {} {}: {}", row.library, row.library_version, row.same_physics));
        }
    }
    let noisy: Vec<&str> = guards.refusing().collect();
    if !noisy.is_empty() {
        lines.push(format!("  NOISY         the guards refuse: {}; do not quote these figures", noisy.join(", ")));
    }
    lines
}
