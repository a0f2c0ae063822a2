//! `phalanx train`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use clap::Args;
use phalanx_lab::build_info::Git;
use phalanx_lab::machine::Machine;
use phalanx_lab::memory;
use phalanx_lab::throughput::MEGABYTE;
use phalanx_learn::run::directory::Summary;
use phalanx_learn::stages::StageTime;
use phalanx_learn::{
    Config, Host, Observer, TrainOptions, TrainingResults, load_run, resume, train_and_evaluate, trainer,
};
use phalanx_workbench::Registered;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::args::count;
use crate::commands::{autotune, print_json};
use crate::failure::Failure;
use crate::monitoring::{MonitorArgs, Monitoring};
use crate::progress::{Printer, Progress};
use crate::text;

#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    /// Settings: env=E agent=A, then run.num_envs=N, agent.gamma=G, env.max_steps=M and so on; a key without its
    /// section is enough where only one section knows it. Tables (agent=q_learning) take agent.algorithm=q_learning,
    /// sarsa, expected_sarsa or double_q (also as the agent's name) and agent.table=auto, dense, sparse or list
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// TOML file with settings, which those of the command line go before
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Go on with this run from its last complete checkpoint, with its own settings; run.total_timesteps=N or
    /// run.steps_per_env=N makes it longer
    #[arg(long, value_name = "RUN", conflicts_with = "config")]
    pub(crate) resume: Option<PathBuf>,
    /// Find the chunk size and the threads that are fastest here first; remembered for the next time
    #[arg(long, conflicts_with = "resume")]
    pub(crate) auto_tune: bool,
    /// Folder that the run's own folder is made in
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) root: PathBuf,
    /// Time the stages of the run (act, step, store, learn, eval, files) and tell at the end where the time went
    #[arg(long)]
    profile: bool,
    /// Every N episodes, tell the memory in use and its peak on standard error; if many end in a chunk, once for all
    #[arg(long, value_name = "N", value_parser = count, num_args = 0..=1, default_missing_value = "100")]
    memory_every: Option<usize>,
    #[command(flatten)]
    monitor: MonitorArgs,
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
    run_dir: Option<&'a Path>,
    complete: bool,
    #[serde(flatten)]
    summary: Summary,
    training_seconds: f64,
    wall_seconds: f64,
    steps_per_second: f64,
    /// The longest stage first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    profile: Vec<StageTime>,
}

/// Signals that end a training where it is: the first soon, with a checkpoint, the second at once.
pub(crate) struct Stop(Arc<AtomicUsize>);

impl Stop {
    pub(crate) fn on_signals() -> Result<Self, Failure> {
        let (stop, again) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        // A terminal that is closed hangs up.
        let hang_up = Some(SIGHUP).filter(|signal| !is_ignored(*signal));
        for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
            // In this order: the first signal finds `again` unset, and sets it.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&again))
                .and_then(|_| flag::register(signal, Arc::clone(&again)))
                .and_then(|_| flag::register_usize(signal, Arc::clone(&stop), signal as usize))
                .map_err(|error| Failure::Write { what: "a handler of Ctrl-C".to_owned(), error })?;
        }
        Ok(Self(stop))
    }

    /// The same, as who works in the midst of something asks for it.
    pub(crate) fn asked(&self) -> phalanx_learn::Stop {
        let signal = Arc::clone(&self.0);
        phalanx_learn::Stop::when(move || signal.load(Ordering::Relaxed) > 0)
    }

    /// The signal that has come, if any.
    pub(crate) fn signal(&self) -> Option<u8> {
        Some(self.0.load(Ordering::Relaxed) as u8).filter(|signal| *signal > 0)
    }
}

/// Whether this program was started to live on after a signal, as `nohup` does; where nobody can tell it was.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}

/// What this program knows of itself and its machine.
pub(crate) fn host() -> Host {
    Host { git_hash: Git::of_this_binary().sha, cores: Machine::detect().cores }
}

/// Shows how a run goes on, and ends it when a signal comes.
struct Live {
    bar: Progress,
    stop: Stop,
    monitoring: Monitoring,
    /// Episodes between two lines about memory.
    memory_every: Option<u64>,
    num_envs: u64,
    last: Option<trainer::Progress>,
    run_dir: Option<PathBuf>,
    /// What is to be said once nothing is left to be refused: before a refusal it would only distract.
    warnings: Vec<String>,
    /// Whether the first signal is answered.
    answers: Arc<Answer>,
}

/// Answers the first signal with a line, wherever it is noticed: the end may be a second away.
struct Answer {
    wanted: bool,
    given: AtomicBool,
    printer: Printer,
}

impl Answer {
    fn give(&self) {
        if self.wanted && !self.given.swap(true, Ordering::Relaxed) {
            self.printer.line("stopping where it is, with a checkpoint if one is wanted; a second signal ends at once");
        }
    }
}

impl Observer for Live {
    fn progress(&mut self, now: &trainer::Progress) -> bool {
        let episodes = self.last.map_or(0, |last| last.episodes);
        if self.memory_every.is_some_and(|every| now.episodes / every > episodes / every) {
            self.bar.line(&memory_line(now.episodes));
        }
        let before = self.last.replace(*now).map(|last| last.global_step);
        if before.is_none() && now.first_step > 0 {
            self.bar.go_on_from(now.first_step);
        }
        // Only whole roll-outs are made, and a run that is good enough ends before.
        self.bar.resize(now.total);
        self.bar.tell(&told(now));
        let made = now.global_step - before.unwrap_or(now.first_step);
        self.bar.advance(made);
        self.monitoring.follow(made / self.num_envs, self.num_envs, &self.bar);
        let stops = self.stop.signal().is_some();
        if stops {
            self.answers.give();
        }
        !stops
    }

    fn started(&mut self, run_dir: &Path) {
        self.warnings.drain(..).for_each(|warning| say!("warning: {warning}"));
        self.monitoring.begin();
        self.run_dir = Some(run_dir.to_owned());
    }

    fn warning(&mut self, warning: &str) {
        say!("warning: {warning}");
    }

    fn stop(&self) -> phalanx_learn::Stop {
        let (signal, answers) = (Arc::clone(&self.stop.0), Arc::clone(&self.answers));
        phalanx_learn::Stop::when(move || {
            let stops = signal.load(Ordering::Relaxed) > 0;
            if stops {
                answers.give();
            }
            stops
        })
    }
}

/// By the flag, the setting, or `PHALANX_AUTO_TUNE`.
fn tuning_is_wanted(args: &TrainArgs, config: &Config) -> Result<bool, Failure> {
    Ok(args.auto_tune || config.run.auto_tune || autotune::is_wanted(false, None)?)
}

/// The configuration of a run that goes on, which can be made longer, but not otherwise.
fn lengthened(config: Config, settings: &[String]) -> Result<Config, Failure> {
    const LENGTHS: [&str; 4] = ["run.total_timesteps", "total_timesteps", "run.steps_per_env", "steps_per_env"];
    let length = |setting: &'_ String| {
        let length = setting.split_once('=').filter(|(key, _)| LENGTHS.contains(key));
        length.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| {
            Failure::input(format!(
                "'{setting}' cannot be changed when a run goes on: only run.total_timesteps and run.steps_per_env can"
            ))
        })
    };
    let lengths = settings.iter().map(length).collect::<Result<Vec<_>, _>>()?;
    Ok(config.with(lengths.iter().map(|(key, value)| (key.as_str(), value.as_str())))?)
}

pub(crate) fn run(args: &TrainArgs, start: Instant) -> Result<(), Failure> {
    let earlier = args.resume.as_deref().map(load_run).transpose()?;
    let config = match &earlier {
        Some(run) => lengthened(run.config.clone(), &args.settings)?,
        None => {
            // Who trains from the command line wants the agent afterwards, unless he says otherwise.
            let defaults = [("run.save_agent_checkpoint", "true")];
            let settings = args.settings.iter().map(String::as_str);
            let config = Config::load_over(&defaults, args.config.as_deref(), settings)?;
            if tuning_is_wanted(args, &config)? { autotune::for_training(config, args.quiet)? } else { config }
        }
    };
    let environments = Registered::find(&config.env.name)?;
    let what = format!("{} on {}", config.agent.name(), config.env.name);
    let bar = Progress::new(what, config.run.total_timesteps(), args.quiet);
    let printer = bar.printer();
    let mut live = Live {
        bar,
        monitoring: args.monitor.start_uninterrupted(config.run.num_envs)?,
        memory_every: args.memory_every.map(|episodes| episodes as u64),
        num_envs: config.run.num_envs as u64,
        stop: Stop::on_signals()?,
        last: None,
        run_dir: None,
        warnings: config.warnings(),
        answers: Arc::new(Answer { wanted: !args.quiet, given: AtomicBool::new(false), printer }),
    };
    let root = earlier.is_none().then_some(args.root.as_path());
    let options = TrainOptions {
        root,
        steps_per_env: Some(config.run.steps_per_env),
        host: host(),
        profile: args.profile,
        observer: Some(&mut live),
        ..TrainOptions::default()
    };
    let trained = match &earlier {
        Some(run) => resume(run.directory.path(), &environments, options),
        None => train_and_evaluate(&config, &environments, options),
    };
    let Live { bar, monitoring, stop, last, run_dir, .. } = live;
    let monitored = monitoring.close(&bar);
    drop(bar);
    let trained = trained.map_err(|error| match run_dir {
        // It had begun: there is something to come back to, or to throw away.
        Some(run) => {
            let kept = kept_in(&run);
            Failure::Training { error: Box::new(error), run, kept }
        }
        None => error.into(),
    })?;
    if earlier.is_some() && last.is_none() {
        say!("nothing is left to do: the run has come to its end already");
    }
    report(args, &trained, start.elapsed().as_secs_f64())?;
    monitored?;
    if trained.complete {
        return Ok(());
    }
    match trained.run_dir.as_deref().filter(|_| trained.stored) {
        Some(run) => say!("interrupted; `phalanx train --resume {}` goes on", run.display()),
        None => say!("interrupted; nothing was stored to go on from (see run.save_agent_checkpoint)"),
    }
    Err(Failure::Verdict(128 + stop.signal().unwrap_or(SIGINT as u8)))
}

/// What can be come back to. The folder knows: a session that fails at once has told of no checkpoint, but an earlier one
/// may have left some.
fn kept_in(run: &Path) -> String {
    let last = load_run(run).and_then(|run| run.last_checkpoint());
    let last = last.ok().flatten().and_then(|last| Some(last.path.file_stem()?.to_string_lossy().into_owned()));
    last.map_or("no checkpoint".to_owned(), |name| format!("checkpoint {name}"))
}

/// `episodes=200 memory=14.2 MB peak=14.9 MB`.
fn memory_line(episodes: u64) -> String {
    let megabytes =
        |bytes: Option<u64>| bytes.map_or("?".to_owned(), |bytes| format!("{:.1}", bytes as f64 / MEGABYTE));
    let (now, peak) = (megabytes(memory::rss_bytes()), megabytes(memory::peak_rss_bytes()));
    format!("episodes={episodes} memory={now} MB peak={peak} MB")
}

/// The live part of the progress line.
fn told(now: &trainer::Progress) -> String {
    let parts = [("loss", now.loss), ("train_return", now.episode_return), ("eval_return", now.eval_return)];
    let parts = parts.iter().filter_map(|(name, value)| value.map(|value| format!("{name}={value:.4}")));
    parts.collect::<Vec<_>>().join(" | ")
}

fn report(args: &TrainArgs, trained: &TrainingResults, wall_seconds: f64) -> Result<(), Failure> {
    let (summary, config) = (trained.summary(), &trained.config);
    let steps_per_second = summary.training_global_steps as f64 / trained.training_seconds.max(1e-9);
    if args.json {
        return print_json(&Document {
            env: &config.env.name,
            agent: config.agent.name(),
            run_dir: trained.run_dir.as_deref(),
            complete: trained.complete,
            summary,
            training_seconds: trained.training_seconds,
            wall_seconds,
            steps_per_second,
            profile: trained.stages.times(),
        });
    }
    let returns = match (summary.final_eval_return_mean, summary.final_eval_return_std) {
        (Some(mean), Some(std)) => {
            let episodes = text::counted(config.run.eval_rollouts as u64, "episode");
            format!("{mean:.2} ± {std:.2} ({episodes})")
        }
        _ => "not evaluated".to_owned(),
    };
    let run = trained.run_dir.as_deref().unwrap_or(Path::new("not stored"));
    crate::commands::print(&format!(
        "{}return  {returns}\nsteps   {} in {:.2} s, {} steps/s\nrun     {}\n",
        stages(&trained.stages.times()),
        text::grouped(summary.training_global_steps),
        trained.training_seconds,
        text::short(steps_per_second),
        run.display(),
    ))
}

/// A table of where the time went; nothing of a run that was not profiled.
fn stages(times: &[StageTime]) -> String {
    if times.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = (times.iter())
        .map(|time| {
            let (seconds, share) = (format!("{:.3} s", time.seconds), format!("{:.1} %", time.share_percent));
            [time.stage.to_owned(), seconds, share, text::grouped(time.calls)]
        })
        .collect();
    format!("{}\n", text::columns(&["stage", "time", "share", "calls"], &rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_and_a_loss_are_told_as_soon_as_they_are_known() {
        let mut now = trainer::Progress::default();
        assert_eq!(told(&now), "");
        now.episode_return = Some(20.25);
        assert_eq!(told(&now), "train_return=20.2500");
        now.loss = Some(0.5);
        // Evaluations are not mistaken for episodes in which the agent explores.
        now.eval_return = Some(500.0);
        assert_eq!(told(&now), "loss=0.5000 | train_return=20.2500 | eval_return=500.0000");
    }
}
