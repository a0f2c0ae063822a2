//! `phalanx evaluate`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use phalanx_core::batch::BatchConfig;
use phalanx_core::pool::Pool;
use phalanx_envs::registry;
use phalanx_learn::evaluation::Summary;
use phalanx_learn::run::directory::load_run;
use phalanx_learn::trainer::{evaluate_agent, restored};
use serde::Serialize;

use crate::commands::print_json;
use crate::failure::Failure;

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
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    env: &'a str,
    agent: &'a str,
    num_episodes: usize,
    seed: u64,
    global_step: u64,
    mean_return: f64,
    std_return: f64,
    min_return: f64,
    max_return: f64,
    mean_length: f64,
    termination_rate: f64,
    mean_cost: f64,
    episode_returns: &'a [f64],
    episode_lengths: &'a [u32],
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
    let mut run = load_run(&args.run)?;
    let checkpoint = match &args.checkpoint {
        Some(name) => run.load_checkpoint(name)?,
        None => run
            .last_checkpoint()?
            .map(|(_, checkpoint)| checkpoint)
            .ok_or_else(|| Failure::input(format!("{} has no checkpoint to evaluate", args.run.display())))?,
    };
    let entry = registry::find(&run.config.env.name)?;
    let make = |batch: &BatchConfig| entry.batch(batch);
    let learner = restored(&run, &checkpoint, &make)?;
    for setting in &args.settings {
        let (key, value) = of_environment(setting)?;
        run.config.env.settings.insert(key, value);
    }
    run.config.run.eval_rollouts = args.episodes as usize;
    run.config.run.seed = args.seed.unwrap_or(run.config.run.seed);
    let pool = Arc::new(Pool::new(std::thread::available_parallelism().map_or(1, usize::from)));
    let found = evaluate_agent(&run.config, &make, &pool, learner.greedy().as_mut(), 0, false)?;
    let (Some(returns), Some(lengths)) = (found.return_summary(), found.length_summary()) else {
        return Err(Failure::input("no episode was played"));
    };
    let cost = found.cost_summary().map_or(0.0, |costs: Summary| costs.mean);
    if args.json {
        return print_json(&Document {
            env: &run.config.env.name,
            agent: run.config.agent.name(),
            num_episodes: found.returns.len(),
            seed: run.config.run.seed,
            global_step: checkpoint.global_step,
            mean_return: returns.mean,
            std_return: returns.std,
            min_return: returns.min,
            max_return: returns.max,
            mean_length: lengths.mean,
            termination_rate: found.termination_rate(),
            mean_cost: cost,
            episode_returns: &found.returns,
            episode_lengths: &found.lengths,
        });
    }
    crate::commands::print(&format!(
        "{} on {} after {} steps, {} episodes\nreturn  {:.2} ± {:.2}, from {:.2} to {:.2}\nlength  {:.1}\n",
        run.config.agent.name(),
        run.config.env.name,
        checkpoint.global_step,
        found.returns.len(),
        returns.mean,
        returns.std,
        returns.min,
        returns.max,
        lengths.mean,
    ))?;
    if cost > 0.0 { crate::commands::print(&format!("cost    {cost:.2}\n")) } else { Ok(()) }
}
