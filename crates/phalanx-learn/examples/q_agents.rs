//! Trains PQN or DQN on any environment with one discrete action, and judges it by 100 greedy episodes.
//!
//! ```text
//! cargo run --release -p phalanx-learn --example q_agents -- preset=pqn.CartPole-v1 seeds=10
//! cargo run --release -p phalanx-learn --example q_agents -- agent=dqn env=Acrobot-v1 total_timesteps=200000 env.max_steps=200
//! ```
//!
//! Keys: `preset` (a table of `q_presets.toml`), `agent`, `env`, `seed` (the first), `seeds` (how many), `threads`,
//! `episodes` (of the evaluation), `log` (a line for each so many steps, 0 for none), `env.KEY` for the environment,
//! and every other key for the agent.

use std::sync::Arc;
use std::time::Instant;

use phalanx_core::batch::{Actions, ActionsMut, Autoreset, Batch, BatchConfig, ObsMut, Reset, StepBuffers};
use phalanx_core::pool::Pool;
use phalanx_core::space::ActionMask;
use phalanx_envs::registry;
use phalanx_learn::agents::{Q_PRESETS, dqn, pqn};
use phalanx_learn::learner::{Greedy, Learner, Report};
use serde_json::{Map, Value};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Task {
    agent: String,
    env: String,
    seed: u64,
    seeds: u64,
    threads: usize,
    episodes: usize,
    log: u64,
    settings: Vec<(String, String)>,
    config: Map<String, Value>,
}

fn main() -> Result<()> {
    let task = Task::parse(std::env::args().skip(1))?;
    let mut returns = Vec::new();
    for seed in task.seed..task.seed + task.seeds {
        let mean = match task.agent.as_str() {
            "pqn" => {
                let config: pqn::Config = serde_json::from_value(Value::Object(task.config.clone()))?;
                let total = config.steps_per_env * config.num_envs as u64;
                let make = |batch, pool| pqn::Pqn::new(&config, batch, seed, pool);
                task.run(seed, config.num_envs, total, make)?
            }
            "dqn" => {
                let config: dqn::Config = serde_json::from_value(Value::Object(task.config.clone()))?;
                let make = |batch, pool| dqn::Dqn::new(&config, batch, seed, pool);
                task.run(seed, config.num_envs, config.total_timesteps, make)?
            }
            other => return Err(format!("there is no agent '{other}': pqn or dqn").into()),
        };
        returns.push(mean);
    }
    returns.sort_by(f64::total_cmp);
    let mean = returns.iter().sum::<f64>() / returns.len() as f64;
    println!("{} {}: {} seeds, mean {mean:.2}, each {returns:.2?}", task.agent, task.env, returns.len());
    Ok(())
}

impl Task {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut task = Self {
            agent: "pqn".to_owned(),
            env: "CartPole-v1".to_owned(),
            seed: 1,
            seeds: 1,
            threads: std::thread::available_parallelism()?.get(),
            episodes: 100,
            log: 0,
            settings: Vec::new(),
            config: Map::new(),
        };
        for argument in arguments {
            let (key, value) = argument.split_once('=').ok_or(format!("'{argument}' is not key=value"))?;
            match key {
                "preset" => task.take_preset(value)?,
                "agent" => task.agent = value.to_owned(),
                "env" => task.env = value.to_owned(),
                "seed" => task.seed = value.parse()?,
                "seeds" => task.seeds = value.parse()?,
                "threads" => task.threads = value.parse()?,
                "episodes" => task.episodes = value.parse()?,
                "log" => task.log = value.parse()?,
                _ => match key.strip_prefix("env.") {
                    Some(key) => task.settings.push((key.to_owned(), value.to_owned())),
                    None => {
                        task.config.insert(key.to_owned(), serde_json::from_str(value).unwrap_or(value.into()));
                    }
                },
            }
        }
        Ok(task)
    }

    /// Takes the settings of the preset `AGENT.ENV`.
    fn take_preset(&mut self, name: &str) -> Result<()> {
        let presets: Value = toml::from_str(Q_PRESETS)?;
        let (agent, env) = name.split_once('.').ok_or("a preset is called AGENT.ENV")?;
        let preset = presets[agent][env].as_object().ok_or(format!("there is no preset '{name}'"))?;
        (self.agent, self.env) = (agent.to_owned(), env.to_owned());
        self.config.extend(preset.clone());
        Ok(())
    }

    fn batch(&self, num_envs: usize, seed: u64, pool: &Arc<Pool>) -> Result<Box<dyn Batch>> {
        let config = BatchConfig {
            num_envs,
            seed,
            autoreset: Autoreset::SameStep,
            pool: Arc::clone(pool),
            settings: self.settings.clone(),
            ..BatchConfig::default()
        };
        Ok(registry::find(&self.env)?.batch(&config)?)
    }

    /// Trains, and answers the mean return of the evaluation.
    fn run<L: Learner>(
        &self,
        seed: u64,
        num_envs: usize,
        total: u64,
        make: impl Fn(Box<dyn Batch>, Arc<Pool>) -> phalanx_learn::Result<L>,
    ) -> Result<f64> {
        let pool = Arc::new(Pool::new(self.threads));
        let mut learner = make(self.batch(num_envs, seed, &pool)?, Arc::clone(&pool))?;
        let start = Instant::now();
        let mut report = Report::default();
        let mut logged = 0;
        while learner.global_step() < total {
            learner.advance(total, &mut report)?;
            if self.log > 0 && learner.global_step() / self.log > logged {
                logged = learner.global_step() / self.log;
                self.log_line(&learner, &report, &pool)?;
                report.clear();
            }
        }
        let (seconds, steps) = (start.elapsed().as_secs_f64(), learner.global_step());
        let (mean, least) = self.evaluate(&mut *learner.greedy(), &pool)?;
        println!(
            "{} {} seed {seed}: mean return {mean:.2}, least {least:.2} ({} episodes); {steps} steps in {seconds:.2} s, {:.0} steps/s",
            self.agent,
            self.env,
            self.episodes,
            steps as f64 / seconds
        );
        Ok(mean)
    }

    fn log_line(&self, learner: &impl Learner, report: &Report, pool: &Arc<Pool>) -> Result<()> {
        let returns = report.episodes.iter().map(|episode| f64::from(episode.episode_return));
        let trained = returns.sum::<f64>() / report.episodes.len() as f64;
        let (mean, least) = self.evaluate(&mut *learner.greedy(), pool)?;
        let metrics: Vec<_> = report.means().map(|(tag, mean)| format!("{tag} {mean:.4}")).collect();
        println!(
            "  {:>9}: greedy {mean:.2} (least {least:.2}), training {trained:.2}, {}",
            learner.global_step(),
            metrics.join(", ")
        );
        Ok(())
    }

    /// Mean and least return of the first episode of each environment; the seeds are not those of training.
    fn evaluate(&self, policy: &mut dyn Greedy, pool: &Arc<Pool>) -> Result<(f64, f64)> {
        let mut batch = self.batch(self.episodes, 1_000_000, pool)?;
        let mut out = StepBuffers::new(self.episodes, batch.spec().observation.dim());
        let flags = batch.spec().action.mask_len().filter(|_| batch.spec().action_mask != ActionMask::None);
        let mut masks = vec![true; self.episodes * flags.unwrap_or(0)];
        let mut actions = vec![0; self.episodes];
        let mut returns: Vec<Option<f64>> = vec![None; self.episodes];
        batch.reset_into(Reset::All, ObsMut::F32(&mut out.obs))?;
        while returns.iter().any(Option::is_none) {
            if !masks.is_empty() {
                batch.action_masks_into(&mut masks)?;
            }
            policy.act(&out.obs, &masks, ActionsMut::Discrete(&mut actions));
            batch.step_into(Actions::Discrete(&actions), out.out())?;
            let ended: Vec<bool> = out.terminated.iter().zip(&out.truncated).map(|(a, b)| *a || *b).collect();
            for env in (0..self.episodes).filter(|env| ended[*env]) {
                returns[env].get_or_insert(f64::from(out.final_returns[env]));
            }
            policy.forget(&ended);
        }
        let returns = || returns.iter().flatten().copied();
        Ok((returns().sum::<f64>() / self.episodes as f64, returns().fold(f64::INFINITY, f64::min)))
    }
}
