//! `phalanx sweep`: many runs of one file, and which configuration was best.
//!
//! ```text
//! sweeps/<name of the file>[-k]/
//!     sweep.toml                  the file as it was given
//!     runs/c<configuration>-s<seed>/   a folder of a run each, as `phalanx train` makes them
//!     results.csv  results.json   a row for each run; the configurations, the best first
//! ```
//!
//! The folders of the runs are all that a sweep remembers: it goes on with those that did not come to their end.

mod execution;
mod results;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use phalanx_learn::run::directory::Lock;
use phalanx_learn::sweep::{Plan, plain};
use phalanx_learn::{explain, trainer};
use phalanx_workbench::{Registered, tuning};
use serde::Serialize;

use self::execution::{Outcome, Task, earlier_outcome, execute};
use self::results::Report;
use crate::args::count;
use crate::commands::train::Stop;
use crate::commands::{autotune, concluded, print, print_json};
use crate::failure::Failure;
use crate::files::write_atomically;
use crate::monitoring::MonitorArgs;
use crate::text;

/// The file in a sweep's folder.
const FILE: &str = "sweep.toml";

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// TOML file: settings as of `phalanx train --config`, with a section [sweep] (method, samples, seed, seeds, jobs,
    /// metric, goal) and a section [sweep.parameters] with lists of values or ranges. Agents are stored, for `phalanx
    /// evaluate`, only with save_agent_checkpoint = true in its section [run]
    #[arg(value_name = "FILE", required_unless_present = "resume")]
    file: Option<PathBuf>,
    /// Go on with the sweep in this folder: finished runs stay, all others are run
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["file", "root"])]
    resume: Option<PathBuf>,
    /// Folder that the sweep's own folder is made in, below sweeps
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// Runs at the same time; never changes results [default: what the file says, else one for each core]
    #[arg(long, value_name = "N", value_parser = count)]
    jobs: Option<usize>,
    /// List the runs, and neither run nor write anything
    #[arg(long)]
    dry_run: bool,
    /// Find the chunk size that is fastest here first, once for each environment, agent and size; so does
    /// run.auto_tune = true in the file
    #[arg(long)]
    auto_tune: bool,
    #[command(flatten)]
    monitor: MonitorArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Serialize)]
struct Planned<'a> {
    metric: &'a str,
    goal: &'static str,
    seeds: &'a [u64],
    runs: usize,
    total_timesteps: u64,
    configurations: Vec<results::Parameters>,
}

pub(crate) fn run(args: &SweepArgs) -> Result<(), Failure> {
    let (source, text) = match (&args.file, &args.resume) {
        (_, Some(folder)) => {
            let file = folder.join(FILE);
            if !file.is_file() {
                return Err(Failure::input(format!("{} is no sweep: it has no {FILE}", folder.display())));
            }
            read(file)?
        }
        (Some(file), None) => read(file.clone())?,
        (None, None) => unreachable!("clap asks for one of them"),
    };
    let mut plan = Plan::parse(&source, &text)?;
    let tunes = settle_tuning(args, &mut plan)?;
    check(&plan, &source, &tunes)?;
    if args.dry_run {
        return print_plan(args, &plan);
    }
    let folder = match &args.resume {
        Some(folder) => folder.clone(),
        None => {
            let folder = make_folder(&args.root, &source)?;
            // A folder without its file is of no use to anybody; it is removed only if nothing else is in it.
            let written = write_atomically(&folder.join(FILE), text.as_bytes());
            written.inspect_err(|_| drop(fs::remove_dir(&folder)))?;
            folder
        }
    };

    // Each run counts its own environments.
    let monitoring = args.monitor.start_uninterrupted(0)?;
    // Until the end: what is left of unfinished runs is removed, which must not be another process's work.
    let _lock = Lock::of(&folder)?;
    let mut tasks: Vec<Task> = plan.runs().map(|run| Task::new(&plan, &folder, run)).collect();
    let mut outcomes = Vec::with_capacity(tasks.len());
    for task in &tasks {
        outcomes.push(earlier_outcome(task, &plan.metric)?);
    }
    let open: Vec<usize> = (0..tasks.len()).filter(|index| outcomes[*index].is_none()).collect();
    let jobs = args.jobs.or(plan.jobs).unwrap_or_else(cores).min(open.len()).max(1);
    let threads = (cores() / jobs).max(1);
    tune(&mut tasks, &open, &tunes, threads, args.quiet)?;
    // Until here Ctrl-C ends it at once.
    let stop = Stop::on_signals()?;
    let (done, monitored) = execute(&plan, &tasks, &open, (jobs, threads), &stop, monitoring, args.quiet);
    for (index, outcome) in done {
        outcomes[index] = Some(outcome);
    }
    if let Some(signal) = stop.signal().filter(|_| outcomes.iter().any(Option::is_none)) {
        say!("interrupted; `phalanx sweep --resume {}` goes on", folder.display());
        return Err(Failure::Verdict(128 + signal));
    }

    let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    let report = Report::new(&plan, &tasks, &outcomes, &folder);
    write_atomically(&folder.join("results.csv"), report.csv()?.as_bytes())?;
    write_atomically(&folder.join("results.json"), report.json().as_bytes())?;
    let printed = if args.json {
        print_json(&report.located())
    } else {
        print(&format!("{}sweep  {}\n", report.table(), folder.display()))
    };
    // A sweep with a run that failed has done what it could, but not all that it should.
    concluded(printed.and(monitored), u8::from(outcomes.iter().any(Result::is_err)))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn read(file: PathBuf) -> Result<(PathBuf, String), Failure> {
    let text = fs::read_to_string(&file)
        .map_err(|error| Failure::input(format!("cannot read {}: {}", file.display(), explain(&error))))?;
    Ok((file, text))
}

/// Refuses, before anything is run, what a run would be refused for.
fn check(plan: &Plan, source: &Path, tunes: &[bool]) -> Result<(), Failure> {
    let mut warned = Vec::new();
    for (configuration, tunes) in plan.configurations.iter().zip(tunes) {
        let config = configuration.run(plan.seeds[0]);
        let tried = Registered::find(&config.env.name)
            .and_then(|environments| Ok(trainer::check(&config, &environments)?))
            .and_then(|()| if *tunes { tuning::of_run(&config).map(drop) } else { Ok(()) });
        tried.map_err(|error| {
            let values = plan.parameters.iter().zip(configuration.values.iter().map(plain));
            let values: Vec<_> = values.map(|(name, value)| format!("{name} = {value}")).collect();
            let with = if values.is_empty() { String::new() } else { format!(" with {}", values.join(", ")) };
            Failure::input(format!("{}{with}: {error}", source.display()))
        })?;
        warned.extend(config.warnings());
    }
    warned.sort();
    warned.dedup();
    warned.iter().for_each(|warning| say!("warning: {warning}"));
    Ok(())
}

/// Which configurations are tuned: all by the flag or `PHALANX_AUTO_TUNE`, or as the file says. From here on the plan
/// does not say it any more, because what is stored must not depend on what is fast here.
fn settle_tuning(args: &SweepArgs, plan: &mut Plan) -> Result<Vec<bool>, Failure> {
    let all = autotune::is_wanted(args.auto_tune, None)?;
    Ok(plan.configurations.iter_mut().map(|configuration| configuration.take_auto_tune() || all).collect())
}

/// Finds the chunk sizes of the open runs that are to be tuned, for the threads that each will have.
fn tune(tasks: &mut [Task], open: &[usize], tunes: &[bool], threads: usize, quiet: bool) -> Result<(), Failure> {
    let mut found = Vec::new();
    for index in open {
        let task = &mut tasks[*index];
        if !tunes[task.configuration] {
            continue;
        }
        let mut config = task.config.clone();
        config.run.threads = config.run.threads.or(Some(threads));
        // What else there is, such as a learning rate, hardly makes another chunk the fastest.
        let (agent, rollout) = (config.agent.name().to_owned(), config.agent.rollout_steps());
        let kind = (config.env.clone(), agent, rollout, config.run.num_envs, config.run.threads);
        let known = found.iter().find(|(known, _)| *known == kind).map(|(_, chunk)| *chunk);
        let chunk = match known {
            Some(chunk) => chunk,
            None => {
                let chunk = autotune::for_training(config, quiet)?.run.scan_chunk_size;
                found.push((kind, chunk));
                chunk
            }
        };
        task.scan_chunk_size = chunk;
    }
    Ok(())
}

/// A new folder, named after the file.
fn make_folder(root: &Path, file: &Path) -> Result<PathBuf, Failure> {
    let sweeps = root.join("sweeps");
    let refuse = |folder: &Path, error: io::Error| {
        match error.kind() {
            // No fault of the place.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Failure::Write { what: folder.display().to_string(), error }
            }
            _ => Failure::input(format!("cannot make the folder {}: {}", folder.display(), explain(&error))),
        }
    };
    fs::create_dir_all(&sweeps).map_err(|error| refuse(&sweeps, error))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    for k in 0_u32.. {
        let folder = sweeps.join(if k == 0 { name.to_string() } else { format!("{name}-{k}") });
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refuse(&folder, error)),
        }
    }
    unreachable!("the names do not end")
}

fn print_plan(args: &SweepArgs, plan: &Plan) -> Result<(), Failure> {
    let seeds = &plan.seeds;
    let steps = |seeds: u64| -> u64 {
        plan.configurations
            .iter()
            .map(|c| seeds.saturating_mul(c.run(0).run.total_timesteps()))
            .fold(0, u64::saturating_add)
    };
    let (runs, total_timesteps) = (plan.runs().count(), steps(seeds.len() as u64));
    if args.json {
        let configurations = plan.configurations.iter().map(|c| results::parameters(plan, c)).collect();
        let (metric, goal) = (plan.metric.as_str(), plan.goal.name());
        return print_json(&Planned { metric, goal, seeds, runs, total_timesteps, configurations });
    }
    let mut header = vec!["configuration"];
    header.extend(plan.parameters.iter().map(String::as_str));
    header.push("steps");
    let rows: Vec<Vec<String>> = (plan.configurations.iter().enumerate())
        .map(|(number, configuration)| {
            let steps = configuration.run(0).run.total_timesteps();
            let values = configuration.values.iter().map(plain);
            std::iter::once(number.to_string()).chain(values).chain([text::grouped(steps)]).collect()
        })
        .collect();
    let named: Vec<_> = seeds.iter().map(u64::to_string).collect();
    print(&format!(
        "{}{runs} runs: {} configurations, seeds {}; {} steps\n",
        text::columns(&header, &rows),
        plan.configurations.len(),
        named.join(" "),
        text::grouped(total_timesteps),
    ))
}
