//! A run from its configuration to its results: training with evaluations, logs and checkpoints on the way.
//!
//! The trainer knows agents only as [`Learner`]s. Evaluations have environments and random streams of their own, so
//! that how often they happen changes nothing that is learnt. What a checkpoint holds is enough to go on to the same
//! bits, the figures of the results included.
//!
//! | module | owns |
//! |---|---|
//! | `build` | an agent from its settings |
//! | `chunk` | how far an agent learns before its driver has a look |
//! | `journal` | what a run writes while it goes on |

mod build;
mod chunk;
mod journal;

use std::sync::Arc;
use std::time::Instant;

use phalanx_core::batch::{Autoreset, Batch, BatchConfig};
use phalanx_core::pool::Pool;

pub use self::chunk::advance_chunk;
use self::journal::Journal;
use crate::error::Result;
use crate::evaluation::{Evaluation, Summary, evaluate};
use crate::learner::{Greedy, Learner, Report};
use crate::run::checkpoint::{self, Checkpoint};
use crate::run::config::Config;
use crate::run::directory::{EvalMetrics, Results, Run, RunDirectory, TrainingMetrics};
use crate::state::State;
use crate::world::World;

/// Makes environments: those of the registry by name, or a user's own.
pub type MakeBatch<'a> = dyn Fn(&BatchConfig) -> phalanx_core::error::Result<Box<dyn Batch>> + 'a;

/// The events of a log on the way, beside those of evaluations.
const LOG_EVENTS: u64 = 200;

/// How far a run is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Steps of all environments so far.
    pub global_step: u64,
    /// Steps of all environments in the whole run.
    pub total: u64,
    /// Steps of all environments in a second of training, evaluations not counted.
    pub steps_per_second: f64,
    /// The mean loss of the last interval.
    pub loss: Option<f64>,
    /// The mean return of episodes that ended in the last interval.
    pub episode_return: Option<f64>,
    /// The mean return of the last evaluation.
    pub eval_return: Option<f64>,
}

/// Who is told how far a run is, and may end it early (`false`).
pub type Watch<'a> = dyn FnMut(&Progress) -> bool + 'a;

/// How a run ended.
#[derive(Debug)]
pub struct Trained {
    /// What came out of it.
    pub results: Results,
    /// The agent as it is now.
    pub learner: Box<dyn Learner>,
    /// Whether it came to its end.
    pub complete: bool,
    /// Seconds of training, evaluations and files not counted.
    pub training_seconds: f64,
}

impl std::fmt::Debug for dyn Learner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Learner after {} steps", self.global_step())
    }
}

/// A run in progress.
struct Trainer<'a> {
    config: &'a Config,
    make: &'a MakeBatch<'a>,
    pool: Arc<Pool>,
    learner: Box<dyn Learner>,
    results: Results,
    best: Option<f64>,
    report: Report,
    journal: Option<Journal>,
    training_seconds: f64,
    progress: Progress,
}

/// Trains and evaluates as the configuration says.
///
/// Files are written if `folder` makes a place for them, which it is asked for when nothing is left to be refused. From
/// a checkpoint training goes on; the configuration is then that of its run.
pub fn train(
    config: &Config,
    make: &MakeBatch<'_>,
    folder: &mut dyn FnMut() -> Result<Option<RunDirectory>>,
    resume: Option<&Checkpoint>,
    watch: &mut Watch<'_>,
) -> Result<Trained> {
    let pool = Arc::new(Pool::new(config.run.threads.unwrap_or_else(cores)));
    let mut learner = build::learner(config, make, &pool)?;
    let (mut results, mut best) = (Results::default(), None);
    if let Some(checkpoint) = resume {
        learner.restore(&checkpoint.state.state("agent"))?;
        results.training_metrics = checkpoint.state.value("trainer.training_metrics")?;
        results.eval_metrics = checkpoint.state.value("trainer.eval_metrics")?;
        best = checkpoint.best_score;
    }
    let journal = folder()?.map(|directory| Journal::open(directory, config, learner.global_step())).transpose()?;
    let progress = Progress { total: config.run.total_timesteps(), ..Progress::default() };
    let report = Report::default();
    let mut trainer =
        Trainer { config, make, pool, learner, results, best, report, journal, training_seconds: 0.0, progress };
    let complete = trainer.run(watch)?;
    trainer.summarise();
    if let Some(journal) = &trainer.journal {
        if complete {
            journal.results(&trainer.results)?;
        }
        if config.run.save_agent_checkpoint {
            journal.checkpoint(checkpoint::FINAL, &trainer.checkpoint())?;
        }
    }
    let Trainer { results, learner, training_seconds, .. } = trainer;
    Ok(Trained { results, learner, complete, training_seconds })
}

/// The agent of a configuration on its environments, untrained, as a run would begin with it.
pub fn learner(config: &Config, make: &MakeBatch<'_>) -> Result<Box<dyn Learner>> {
    build::learner(config, make, &Arc::new(Pool::new(config.run.threads.unwrap_or_else(cores))))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Where `step` comes to after the next multiple of `interval` (never for 0), but no further than `total`.
fn next_multiple(step: u64, interval: u64, total: u64) -> u64 {
    let passed = step.checked_div(interval);
    passed.map_or(total, |passed| (passed + 1).saturating_mul(interval).min(total))
}

impl Trainer<'_> {
    /// Answers whether the run came to its end.
    fn run(&mut self, watch: &mut Watch<'_>) -> Result<bool> {
        let run = &self.config.run;
        let (total, num_envs) = (run.total_timesteps(), run.num_envs as u64);
        let log_interval = (total / LOG_EVENTS).max(1);
        let [eval_interval, checkpoint_interval] =
            [run.eval_frequency, run.checkpoint_frequency].map(|steps| steps.saturating_mul(num_envs));
        let mut step = self.learner.global_step();
        while step < total {
            let goal = [log_interval, eval_interval, checkpoint_interval]
                .map(|interval| next_multiple(step, interval, total))
                .into_iter()
                .min()
                .expect("three intervals");
            let start = Instant::now();
            let chunk = run.scan_chunk_size.map(|steps| (steps as u64).saturating_mul(num_envs));
            advance_chunk(self.learner.as_mut(), chunk, goal, &mut self.report)?;
            self.training_seconds += start.elapsed().as_secs_f64();
            let before = std::mem::replace(&mut step, self.learner.global_step());
            let passed = |interval: u64| interval > 0 && step / interval > before / interval || step >= total;
            self.progress.global_step = step;
            self.progress.steps_per_second = step as f64 / self.training_seconds.max(1e-9);
            if passed(eval_interval) {
                let found = self.evaluate()?;
                self.note_evaluation(&found)?;
            }
            // Before a checkpoint, too: a run that goes on from it has the same intervals then.
            if [log_interval, eval_interval, checkpoint_interval].into_iter().any(passed) {
                self.log()?;
            }
            if checkpoint_interval > 0
                && passed(checkpoint_interval)
                && step < total
                && let Some(journal) = &self.journal
            {
                journal.checkpoint(&checkpoint::step_name(step), &self.checkpoint())?;
            }
            if !watch(&self.progress) && step < total {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn evaluate(&mut self) -> Result<Evaluation> {
        let round = if self.config.run.eval_fresh_starts { self.results.eval_metrics.global_steps.len() } else { 0 };
        let mut agent = self.learner.greedy();
        let keep = self.journal.as_ref().is_some_and(|journal| journal.keeps_episodes(self.config, &self.results));
        evaluate_agent(self.config, self.make, &self.pool, agent.as_mut(), round as u64, keep)
    }

    fn note_evaluation(&mut self, found: &Evaluation) -> Result<()> {
        let (returns, lengths) = (found.return_summary(), found.length_summary());
        let (Some(returns), Some(lengths)) = (returns, lengths) else { return Ok(()) };
        self.progress.eval_return = Some(returns.mean);
        let best = self.best.map_or(returns.mean, |best: f64| best.max(returns.mean));
        self.best = Some(best);
        let step = self.learner.global_step();
        let metrics: &mut EvalMetrics = &mut self.results.eval_metrics;
        metrics.global_steps.push(step);
        metrics.steps_per_env.push(step / self.config.run.num_envs as u64);
        metrics.episode_returns.push(found.returns.clone());
        metrics.episode_lengths.push(found.lengths.iter().map(|length| u64::from(*length)).collect());
        metrics.mean_return.push(returns.mean);
        metrics.std_return.push(returns.std);
        metrics.mean_length.push(lengths.mean);
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let mut values = vec![("eval/return/best", best), ("eval/termination_rate", found.termination_rate())];
        let mut put = |tags: [&'static str; 4], of: Summary| {
            values.extend(tags.into_iter().zip([of.mean, of.std, of.min, of.max]));
        };
        put(["eval/return/mean", "eval/return/std", "eval/return/min", "eval/return/max"], returns);
        put(["eval/length/mean", "eval/length/std", "eval/length/min", "eval/length/max"], lengths);
        if let Some(costs) = found.cost_summary().filter(|costs| costs.max > 0.0) {
            values.push(("eval/cost/mean", costs.mean));
        }
        journal.scalars(step, &values)?;
        journal.episodes(step, self.config, found)
    }

    /// What happened since the last event of the log.
    fn log(&mut self) -> Result<()> {
        let step = self.learner.global_step();
        let of_episodes = |of: &dyn Fn(&crate::learner::EndedEpisode) -> f64| {
            Summary::of(self.report.episodes.iter().map(of)).map(|summary| summary.mean)
        };
        let episode_return = of_episodes(&|episode| f64::from(episode.episode_return));
        let length = of_episodes(&|episode| f64::from(episode.length));
        let cost = of_episodes(&|episode| f64::from(episode.cost)).filter(|cost| *cost > 0.0);
        let mut values: Vec<(&str, f64)> = self.report.means().collect();
        let loss = values.iter().find(|(tag, _)| matches!(*tag, "losses/td_loss" | "losses/policy_loss"));
        let loss = loss.map(|(_, value)| *value);
        self.progress.loss = loss.or(self.progress.loss);
        self.progress.episode_return = episode_return.or(self.progress.episode_return);

        let metrics: &mut TrainingMetrics = &mut self.results.training_metrics;
        let rows = metrics.global_steps.len();
        metrics.global_steps.push(step);
        metrics.steps_per_env.push(step / self.config.run.num_envs as u64);
        metrics.loss.push(loss.unwrap_or(f64::NAN));
        metrics.reward.push(episode_return.unwrap_or(f64::NAN));
        for (tag, value) in &values {
            let column = metrics.agent_metrics.entry((*tag).to_owned()).or_default();
            column.resize(rows, f64::NAN);
            column.push(*value);
        }
        if let Some(journal) = &mut self.journal {
            let mut add = |tags: &[&'static str], value: Option<f64>| {
                values.extend(tags.iter().zip(value.into_iter().cycle()).map(|(tag, value)| (*tag, value)));
            };
            add(&["charts/episodic_return", "rollout/ep_rew_mean"], episode_return);
            add(&["charts/episodic_length", "rollout/ep_len_mean"], length);
            add(&["charts/episodic_cost"], cost);
            add(&["charts/SPS", "time/fps"], Some(self.progress.steps_per_second));
            journal.scalars(step, &values)?;
        }
        self.report.clear();
        Ok(())
    }

    fn checkpoint(&self) -> Checkpoint {
        let mut state = State::default();
        state.put_state("agent", self.learner.save());
        state.put_value("trainer.training_metrics", &self.results.training_metrics);
        state.put_value("trainer.eval_metrics", &self.results.eval_metrics);
        Checkpoint {
            agent: self.config.agent.name().to_owned(),
            config: self.config.to_toml(),
            global_step: self.learner.global_step(),
            best_score: self.best,
            state,
        }
    }

    fn summarise(&mut self) {
        let step = self.learner.global_step();
        let metrics = &self.results.eval_metrics;
        let summary = &mut self.results.summary;
        summary.final_eval_return_mean = metrics.mean_return.last().copied();
        summary.final_eval_return_std = metrics.std_return.last().copied();
        summary.training_global_steps = step;
        summary.training_steps_per_env = step / self.config.run.num_envs as u64;
        summary.num_eval_checkpoints = metrics.global_steps.len();
    }
}

/// Judges an agent by whole episodes in fresh environments. `round` 0 has the same start states always.
pub fn evaluate_agent(
    config: &Config,
    make: &MakeBatch<'_>,
    pool: &Arc<Pool>,
    agent: &mut dyn Greedy,
    round: u64,
    keep_episodes: bool,
) -> Result<Evaluation> {
    let batch = make(&BatchConfig {
        num_envs: config.run.eval_rollouts,
        seed: evaluation_seed(config.run.seed, round),
        autoreset: Autoreset::SameStep,
        pool: Arc::clone(pool),
        settings: build::settings(config),
        ..BatchConfig::default()
    })?;
    let max_steps = config.run.eval_max_steps.unwrap_or(u64::from(batch.spec().max_steps));
    let mut world = World::new(batch, build::frames(config))?;
    evaluate(&mut world, agent, max_steps.try_into().unwrap_or(u32::MAX), keep_episodes)
}

/// The agent of a stored run, as it acts when it is judged.
pub fn restored(run: &Run, checkpoint: &Checkpoint, make: &MakeBatch<'_>) -> Result<Box<dyn Learner>> {
    let pool = Arc::new(Pool::new(1));
    let mut learner = build::learner(&run.config, make, &pool)?;
    learner.restore(&checkpoint.state.state("agent"))?;
    Ok(learner)
}

/// Evaluations share no random number with training: their environments have another seed.
fn evaluation_seed(seed: u64, round: u64) -> u64 {
    let [low, high] = phalanx_core::rng::key_of_seed(seed ^ u64::from_le_bytes(*b"evaluate"));
    (u64::from(high) << 32 | u64::from(low)).wrapping_add(round)
}
