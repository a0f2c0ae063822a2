//! `phalanx evaluate`.

use std::path::{Path, PathBuf};

use clap::Args;
use phalanx_learn::trainer::{batch_config, check_env};
use phalanx_learn::{Environments, EvalOptions, EvaluationSummary, evaluate, load_run};
use phalanx_workbench::Registered;
use serde::Serialize;

use crate::commands::{print, print_json, train};
use crate::failure::Failure;
use crate::monitoring::MonitorArgs;
use crate::progress::Progress;

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
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) episodes: u32,
    /// Seed of the start states [default: those of the run's own evaluations]
    #[arg(long, value_name = "S")]
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

pub(crate) fn run(args: &EvaluateArgs) -> Result<(), Failure> {
    let run = load_run(&args.run)?;
    run.warnings.iter().for_each(|warning| say!("warning: {warning}"));
    let agent_state = match &args.checkpoint {
        Some(name) => run.load_checkpoint(name)?,
        None => {
            let last = run.last_checkpoint()?;
            let none = || Failure::input(format!("{} has no checkpoint to evaluate", args.run.display()));
            let last = last.ok_or_else(none)?;
            last.passed_over.iter().for_each(|why| say!("warning: {why}; evaluating the one before"));
            last.checkpoint
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
    let global_step = agent_state.global_step;
    let mut monitoring = args.monitor.start(config.run.eval_rollouts)?;
    // All episodes step together; nobody knows when the longest will end, but it is no longer than this.
    let episodes = u64::from(args.episodes);
    check_env(&config, &environments)?;
    let sample = environments.batch(&batch_config(&config)?)?;
    let longest = config.run.eval_max_steps.unwrap_or(u64::MAX).min(sample.spec().max_steps.into());
    let mut progress = Progress::new("evaluate", longest.saturating_mul(episodes), args.quiet);
    monitoring.begin();
    let mut watch = || {
        progress.advance(episodes);
        monitoring.follow(1, episodes, &progress);
        true
    };
    let options = EvalOptions {
        agent_state: Some(agent_state),
        save_episodes: (args.save_episodes || args.render_videos).then_some(&args.root),
        host: train::host(),
        watch: Some(&mut watch),
        ..EvalOptions::default()
    };
    let found = evaluate(&config, &environments, options)?;
    let monitored = monitoring.close(&progress);
    drop(progress);
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
        "{} on {} after {global_step} steps, {} episodes\nreturn  {:.2} ± {:.2}, from {:.2} to {:.2}\nlength  {:.1}\n",
        config.agent.name(),
        config.env.name,
        found.num_episodes,
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
