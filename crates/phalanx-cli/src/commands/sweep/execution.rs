//! The runs of a sweep, several at a time.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use phalanx_learn::run::config::Config;
use phalanx_learn::run::directory::{Lock, Status, load_run};
use phalanx_learn::run::log::Log;
use phalanx_learn::sweep::Plan;
use phalanx_learn::trainer::Progress;
use phalanx_learn::{Error, TrainOptions, train_and_evaluate};
use phalanx_workbench::Registered;

use crate::commands::train::{Stop, host};
use crate::failure::Failure;
use crate::monitoring::Monitoring;
use crate::progress;

/// What a run was worth, or why it came to nothing.
pub(super) type Outcome = Result<f64, String>;

/// A run of a sweep.
pub(super) struct Task {
    pub(super) configuration: usize,
    pub(super) seed: u64,
    /// Where it is, from the sweep's folder.
    pub(super) name: String,
    folder: PathBuf,
    /// As it is stored: nothing of it depends on how many runs there are at a time, or on what is fast here.
    pub(super) config: Config,
    /// What the tuner has chosen.
    pub(super) scan_chunk_size: Option<usize>,
}

impl Task {
    pub(super) fn new(plan: &Plan, sweep: &Path, (configuration, seed): (usize, u64)) -> Self {
        let name = format!("runs/c{configuration:04}-s{seed}");
        let config = plan.configurations[configuration].run(seed);
        Self { configuration, seed, folder: sweep.join(&name), name, config, scan_chunk_size: None }
    }
}

/// What came out of a run that has come to its end before; what is left of one that has not is removed.
pub(super) fn earlier_outcome(task: &Task, metric: &str) -> Result<Option<Outcome>, Failure> {
    if !task.folder.exists() {
        return Ok(None);
    }
    // One that was killed in its first moments has not even a configuration. Any other that cannot be read may be worth
    // something all the same.
    if task.folder.join("config.toml").exists() {
        let run = load_run(&task.folder)?;
        if run.config != task.config {
            let folder = task.folder.display();
            return Err(Failure::input(format!("{folder} is a run with other settings than its sweep now has")));
        }
        if run.results.is_some() && run.metadata.is_some_and(|metadata| metadata.status == Status::Ok) {
            return Ok(Some(judged(&task.folder, metric).map_err(|error| error.to_string())));
        }
    }
    // Somebody may have gone on with it by itself.
    let _lock = Lock::of(&task.folder)?;
    fs::remove_dir_all(&task.folder)
        .map(|()| None)
        .map_err(|error| Failure::Write { what: task.folder.display().to_string(), error })
}

/// What the workers tell.
enum Event {
    /// So many of each of so many environments.
    Steps(u64, u64),
    Done(usize, Outcome),
}

/// Runs the `open` ones of the tasks. Answers with what came out of those that were not interrupted, and whether the
/// monitor could tell of all.
///
/// There are `jobs` at a time, with so many `threads` each.
pub(super) fn execute(
    plan: &Plan,
    tasks: &[Task],
    open: &[usize],
    (jobs, threads): (usize, usize),
    stop: &Stop,
    mut monitoring: Monitoring,
    quiet: bool,
) -> (Vec<(usize, Outcome)>, Result<(), Failure>) {
    let steps = open.iter().map(|index| tasks[*index].config.run.total_timesteps());
    let total = steps.fold(0, u64::saturating_add);
    let mut progress = progress::Progress::new("sweep", total, quiet);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = channel();
    let mut outcomes = Vec::with_capacity(open.len());
    monitoring.begin();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(index) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if stop.signal().is_some() {
                        return;
                    }
                    let outcome = attempt(&tasks[*index], &plan.metric, threads, stop, &sender);
                    if let Some(outcome) = outcome {
                        // Nobody to be told means that the program ends.
                        let _ = sender.send(Event::Done(*index, outcome));
                    }
                }
            });
        }
        drop(sender);
        for event in receiver {
            match event {
                Event::Steps(steps, num_envs) => {
                    progress.advance(steps * num_envs);
                    monitoring.follow(steps, num_envs, &progress);
                }
                Event::Done(index, outcome) => {
                    if let (Err(reason), false) = (&outcome, quiet) {
                        progress.line(&format!("{} failed: {reason}", tasks[index].name));
                    }
                    outcomes.push((index, outcome));
                    progress.tell(&format!("{} of {} runs", outcomes.len(), open.len()));
                }
            }
        }
    });
    (outcomes, monitoring.close(&progress))
}

/// Runs one; `None` if it was interrupted. Whatever goes wrong with it is no reason to end the others.
fn attempt(task: &Task, metric: &str, threads: usize, stop: &Stop, events: &Sender<Event>) -> Option<Outcome> {
    let run = AssertUnwindSafe(|| run(task, threads, stop, events));
    match catch_unwind(run) {
        Ok(Ok(true)) => Some(judged(&task.folder, metric).map_err(|error| error.to_string())),
        Ok(Ok(false)) => None,
        Ok(Err(error)) => Some(Err(error.to_string())),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Some(Err(format!("a defect of phalanx: {}", said.unwrap_or("a panic"))))
        }
    }
}

/// Answers whether it came to its end.
fn run(task: &Task, threads: usize, stop: &Stop, events: &Sender<Event>) -> Result<bool, Failure> {
    let environments = Registered::find(&task.config.env.name)?;
    let (mut done, num_envs) = (0, task.config.run.num_envs as u64);
    let mut watch = |now: &Progress| {
        let steps = now.global_step.saturating_sub(std::mem::replace(&mut done, now.global_step));
        // Nobody to be told means that the program ends.
        let _ = events.send(Event::Steps(steps / num_envs, num_envs));
        stop.signal().is_none()
    };
    let options = TrainOptions {
        run_dir: Some(&task.folder),
        threads: Some(threads),
        scan_chunk_size: task.scan_chunk_size,
        host: host(),
        observer: Some(&mut watch),
        ..TrainOptions::default()
    };
    Ok(train_and_evaluate(&task.config, &environments, options)?.complete)
}

/// The last value of the metric.
fn judged(run: &Path, metric: &str) -> Result<f64, Error> {
    let log = Log::read(run)?;
    let last = log.points(metric)?.last().map(|point| point.value);
    last.ok_or_else(|| Error::Value { name: metric.to_owned(), why: "it was never a number".to_owned() })
}
