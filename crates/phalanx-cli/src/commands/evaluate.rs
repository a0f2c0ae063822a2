//! `phalanx evaluate`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use clap::Args;
use phalanx_learn::run::checkpoint;
use phalanx_learn::trainer::{batch_config, check_env};
use phalanx_learn::{Config, Environments, Error, EvalOptions, EvaluationSummary, evaluate, load_run};
use phalanx_workbench::Registered;
use serde::Serialize;
use signal_hook::consts::SIGINT;

use crate::args;
use crate::commands::{print, print_json, train};
use crate::failure::Failure;
use crate::monitoring::MonitorArgs;
use crate::progress::Progress;
use crate::text;

#[derive(Debug, Args)]
pub(crate) struct EvaluateArgs {
    /// Folder of a run that `phalanx train` has made
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Settings of the environment that differ from those of the run, such as env.opponent=perfect
    #[arg(value_name = "env.KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Checkpoint: final or step_00001000 [default: the one that went furthest]
    #[arg(long, value_name = "NAME")]
    pub(crate) checkpoint: Option<String>,
    /// Episodes
    #[arg(long, value_name = "N", default_value = "100", value_parser = args::episodes, allow_negative_numbers = true)]
    pub(crate) episodes: u32,
    /// Seed of the start states [default: those of the run's own evaluations]
    #[arg(long, value_name = "S", value_parser = args::seed, allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Store the episodes in a new folder
    #[arg(long)]
    pub(crate) save_episodes: bool,
    /// Store the episodes in a new folder, and draw them as GIFs
    #[arg(long)]
    pub(crate) render_videos: bool,
    /// Folder that such a folder is made in
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) root: PathBuf,
    #[command(flatten)]
    monitor: MonitorArgs,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    env: &'a str,
    agent: &'a str,
    seed: u64,
    global_step: u64,
    #[serde(flatten)]
    summary: EvaluationSummary,
    /// Without constraints there is none.
    mean_cost: Option<f64>,
    episode_returns: &'a [f64],
    episode_lengths: &'a [u32],
    run_dir: Option<&'a Path>,
}

/// The key and the value of a setting of the environment; the agent is what it was trained to be.
fn of_environment(setting: &str) -> Result<(String, String), Failure> {
    let key = |key: &str| key.strip_prefix("env.").filter(|key| *key != "name" && !key.is_empty()).map(str::to_owned);
    let found = setting.split_once('=').and_then(|(name, value)| Some((key(name)?, value.to_owned())));
    found.ok_or_else(|| {
        Failure::input(format!(
            "'{setting}' cannot be changed for an evaluation: only env.KEY=VALUE can, except env.name"
        ))
    })
}

/// An agent that does not fit the run any more, or an evaluation that was asked for by a flag, in words that name what
/// the user has changed or given.
fn explained(error: Error, args: &EvaluateArgs, config: &Config, (path, stored): (&Path, &str)) -> Failure {
    match error {
        Error::Setting { key, why } if key == "run.eval_render_videos" && args.render_videos => {
            let why = why.strip_prefix("is true, but ").unwrap_or(&why);
            Failure::input(format!("--render-videos is given, but {why}"))
        }
        Error::Shape { .. } | Error::Missing { .. } | Error::Value { .. } => {
            // All else may differ: it is not what the agent was stored with that does not fit.
            let other = Config::from_toml(stored).ok().and_then(|then| {
                let now = Config { agent: config.agent.clone(), env: config.env.clone(), ..then.clone() };
                now.difference(&then)
            });
            let path = path.display().to_string();
            match other {
                Some((key, then, now)) => Error::OtherSettings { path, key, then, now }.into(),
                None => Failure::input(format!("{path}: {error}")),
            }
        }
        error => error.into(),
    }
}

pub(crate) fn run(args: &EvaluateArgs) -> Result<(), Failure> {
    let stop = train::Stop::on_signals()?;
    let run = load_run(&args.run)?;
    run.warnings.iter().for_each(|warning| say!("warning: {warning}"));
    let (path, agent_state) = match &args.checkpoint {
        Some(name) => (checkpoint::path_of(&run.directory.checkpoints(), name), run.load_checkpoint(name)?),
        None => {
            let last = run.last_checkpoint()?;
            let none = || {
                Failure::input(format!(
                    "{} has no checkpoint to evaluate (see run.save_agent_checkpoint)",
                    args.run.display()
                ))
            };
            let last = last.ok_or_else(none)?;
            last.passed_over.iter().for_each(|why| say!("warning: {why}; evaluating the one before"));
            (last.path, last.checkpoint)
        }
    };
    let mut config = run.config;
    for setting in &args.settings {
        let (key, value) = of_environment(setting)?;
        config.env.settings.insert(key, value);
    }
    let environments = Registered::find(&config.env.name)?;
    config.run.eval_rollouts = args.episodes as usize;
    config.run.seed = args.seed.unwrap_or(config.run.seed);
    config.run.eval_render_videos = args.render_videos;
    let (global_step, stored) = (agent_state.global_step, agent_state.config.clone());
    let mut monitoring = args.monitor.start_uninterrupted(config.run.eval_rollouts)?;
    // All episodes step together; nobody knows when the longest will end, but it is no longer than this.
    let episodes = u64::from(args.episodes);
    let explained = |error| explained(error, args, &config, (&path, &stored));
    check_env(&config, &environments).map_err(explained)?;
    let sample = environments.batch(&batch_config(&config).map_err(explained)?)?;
    let longest = config.run.eval_max_steps.unwrap_or(u64::MAX).min(sample.spec().max_steps.into());
    let progress = RefCell::new(Progress::new("evaluate", longest.saturating_mul(episodes), args.quiet));
    monitoring.begin();
    let mut watch = || {
        progress.borrow_mut().advance(episodes);
        monitoring.follow(1, episodes, &progress.borrow());
        true
    };
    let mut drawn = |gifs: usize, of: usize| {
        if gifs == 0 {
            progress.replace(Progress::new("drawing", of as u64, args.quiet).counting("GIFs"));
        }
        progress.borrow_mut().advance(u64::from(gifs > 0));
    };
    let options = EvalOptions {
        agent_state: Some(agent_state),
        save_episodes: (args.save_episodes || args.render_videos).then_some(&args.root),
        host: train::host(),
        watch: Some(&mut watch),
        drawn: Some(&mut drawn),
        stop: stop.asked(),
        ..EvalOptions::default()
    };
    let found = evaluate(&config, &environments, options);
    let progress = progress.into_inner();
    let monitored = monitoring.close(&progress);
    drop(progress);
    let found = match (found, stop.signal()) {
        (Err(Error::Interrupted), signal) => {
            say!("interrupted; nothing was stored");
            return Err(Failure::Verdict(128 + signal.unwrap_or(SIGINT as u8)));
        }
        (found, _) => found.map_err(explained)?,
    };
    if args.json {
        let printed = print_json(&Document {
            env: &config.env.name,
            agent: config.agent.name(),
            seed: found.seed,
            global_step,
            summary: found.summary(),
            mean_cost: found.mean_cost,
            episode_returns: &found.episode_returns,
            episode_lengths: &found.episode_lengths,
            run_dir: found.run_dir.as_deref(),
        });
        return printed.and(monitored);
    }
    let mut text = format!(
        "{} on {} after {global_step} steps, {}\nreturn  {:.2} ± {:.2}, from {:.2} to {:.2}\nlength  {:.1}\n",
        config.agent.name(),
        config.env.name,
        text::counted(found.num_episodes as u64, "episode"),
        found.mean_return,
        found.std_return,
        found.min_return,
        found.max_return,
        found.mean_length,
    );
    text.extend(found.mean_cost.map(|cost| format!("cost    {cost:.2}\n")));
    text.extend(found.run_dir.map(|folder| format!("stored  {}\n", folder.display())));
    print(&text).and(monitored)
}
