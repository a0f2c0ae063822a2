//! `phalanx train`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use clap::Args;
use phalanx_core::batch::BatchConfig;
use phalanx_envs::registry;
use phalanx_learn::run::checkpoint::Checkpoint;
use phalanx_learn::run::config::Config;
use phalanx_learn::run::directory::{Metadata, RunDirectory, Status, load_run};
use phalanx_learn::trainer::{Trained, train};
use serde::Serialize;

use crate::commands::{autotune, print_json};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::text;

#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    /// Settings: env=E agent=A, then run.num_envs=N, agent.gamma=G, env.max_steps=M and so on; a key without its
    /// section is enough where only one section knows it
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// TOML file with settings, which those of the command line go before
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Go on with this run from its last complete checkpoint
    #[arg(long, value_name = "RUN", conflicts_with_all = ["config", "settings"])]
    pub(crate) resume: Option<PathBuf>,
    /// Find the chunk size and the threads that are fastest here first; remembered for the next time
    #[arg(long, conflicts_with = "resume")]
    pub(crate) auto_tune: bool,
    /// Folder that the run's own folder is made in
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) root: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    env: &'a str,
    agent: &'a str,
    run_dir: &'a Path,
    complete: bool,
    #[serde(flatten)]
    summary: &'a phalanx_learn::run::directory::Summary,
    training_seconds: f64,
    wall_seconds: f64,
    steps_per_second: f64,
}

/// What is trained, and from where on.
struct Task {
    config: Config,
    /// The folder of a run that goes on; a new one gets its own when nothing is left to be refused.
    directory: Option<RunDirectory>,
    checkpoint: Option<Checkpoint>,
}

impl Task {
    fn new(args: &TrainArgs) -> Result<Self, Failure> {
        if let Some(path) = &args.resume {
            let run = load_run(path)?;
            let Some((_, checkpoint)) = run.last_checkpoint()? else {
                let why = format!("{} has no checkpoint to go on from (see run.checkpoint_frequency)", path.display());
                return Err(Failure::input(why));
            };
            return Ok(Self { config: run.config, directory: Some(run.directory), checkpoint: Some(checkpoint) });
        }
        let mut config = Config::load(args.config.as_deref(), args.settings.iter().map(String::as_str))?;
        // Who trains from the command line wants the agent afterwards, unless he says otherwise.
        if !mentions(args, "save_agent_checkpoint")? {
            config.run.save_agent_checkpoint = true;
        }
        Ok(Self { config, directory: None, checkpoint: None })
    }
}

/// Whether the user has given a key, anywhere.
fn mentions(args: &TrainArgs, key: &str) -> Result<bool, Failure> {
    let text = match &args.config {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failure::input(format!("{} cannot be read: {error}", path.display())))?,
        None => String::new(),
    };
    Ok(text.contains(key) || args.settings.iter().any(|setting| setting.contains(key)))
}

/// By the flag, the setting, or `PHALANX_AUTO_TUNE`.
fn tuning_is_wanted(args: &TrainArgs, config: &Config) -> Result<bool, Failure> {
    Ok(args.auto_tune || config.run.auto_tune || autotune::is_wanted(false, None)?)
}

pub(crate) fn run(args: &TrainArgs, start: Instant) -> Result<(), Failure> {
    let now = SystemTime::now();
    let Task { config, directory: mut earlier, checkpoint } = Task::new(args)?;
    let entry = registry::find(&config.env.name)?;
    let config = match checkpoint.is_none() && tuning_is_wanted(args, &config)? {
        true => autotune::for_training(config, args.quiet)?,
        false => config,
    };
    config.warnings().iter().for_each(|warning| say!("warning: {warning}"));
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::Write { what: "a handler of Ctrl-C".to_owned(), error })?;
    }
    let threads = config.run.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mut metadata = Metadata::new("train", &config, now, threads);

    let what = format!("{} on {}", config.agent.name(), config.env.name);
    let mut progress = Progress::new(what, config.run.total_timesteps(), args.quiet);
    let mut done = 0;
    let make = |batch: &BatchConfig| entry.batch(batch);
    let mut directory = None;
    let mut folder = || {
        let run = match earlier.take() {
            Some(run) => run,
            None => RunDirectory::create(&args.root, &config, now)?,
        };
        run.write_metadata(&metadata)?;
        Ok(directory.insert(run).clone().into())
    };
    let trained = train(&config, &make, &mut folder, checkpoint.as_ref(), &mut |now| {
        progress.tell(&told(now));
        progress.advance(now.global_step.saturating_sub(std::mem::replace(&mut done, now.global_step)));
        !stop.load(Ordering::Relaxed)
    });
    drop(progress);
    // Without a folder it was refused before it began.
    let Some(directory) = directory else { return Err(trained.err().map_or(Failure::Verdict(1), Failure::from)) };
    let wall_seconds = start.elapsed().as_secs_f64();
    metadata.duration_seconds = wall_seconds;
    metadata.status = match &trained {
        Ok(trained) if trained.complete => Status::Ok,
        Ok(_) => Status::Interrupted,
        Err(_) => Status::Error,
    };
    metadata.error = trained.as_ref().err().map(ToString::to_string);
    directory.write_metadata(&metadata)?;
    let trained = trained?;
    report(args, &config, &directory, &trained, wall_seconds)?;
    if trained.complete {
        return Ok(());
    }
    say!("interrupted; `phalanx train --resume {}` goes on", directory.path().display());
    Err(Failure::Verdict(130))
}

/// The live part of the progress line.
fn told(now: &phalanx_learn::trainer::Progress) -> String {
    let part = |name: &str, value: Option<f64>| value.map(|value| format!("{name} {value:.4}  ")).unwrap_or_default();
    format!("{}{}{}", part("return", now.eval_return.or(now.episode_return)), part("loss", now.loss), "")
        .trim_end()
        .to_owned()
}

fn report(
    args: &TrainArgs,
    config: &Config,
    directory: &RunDirectory,
    trained: &Trained,
    wall_seconds: f64,
) -> Result<(), Failure> {
    let summary = &trained.results.summary;
    let steps_per_second = summary.training_global_steps as f64 / trained.training_seconds.max(1e-9);
    if args.json {
        return print_json(&Document {
            env: &config.env.name,
            agent: config.agent.name(),
            run_dir: directory.path(),
            complete: trained.complete,
            summary,
            training_seconds: trained.training_seconds,
            wall_seconds,
            steps_per_second,
        });
    }
    let returns = match (summary.final_eval_return_mean, summary.final_eval_return_std) {
        (Some(mean), Some(std)) => format!("{mean:.2} ± {std:.2} ({} episodes)", config.run.eval_rollouts),
        _ => "not evaluated".to_owned(),
    };
    crate::commands::print(&format!(
        "return  {returns}\nsteps   {} in {:.2} s, {} steps/s\nrun     {}\n",
        text::grouped(summary.training_global_steps),
        trained.training_seconds,
        text::short(steps_per_second),
        directory.path().display(),
    ))
}
