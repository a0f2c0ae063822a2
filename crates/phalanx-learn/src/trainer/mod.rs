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
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_core::batch::{Autoreset, BatchConfig};
use phalanx_core::pool::Pool;

pub use self::build::batch_config;
use self::chunk::Chunks;
pub use self::chunk::advance_chunk;
use self::journal::Journal;
use crate::environments::{Environments, Film};
use crate::error::{Error, Result};
use crate::evaluation::{self, Evaluation, Summary, evaluate_watched, replay};
use crate::learner::{Greedy, Learner, Report};
use crate::run::checkpoint::{self, Checkpoint};
use crate::run::config::Config;
use crate::run::directory::{self, EvalMetrics, Results, RunDirectory, TrainingMetrics};
use crate::run::episodes::{Episode, Origin};
use crate::stages::{Stage, Stages};
use crate::state::State;
use crate::stop::Stop;
use crate::world::World;

/// Makes environments: those of the registry by name, or a user's own.
pub type MakeBatch<'a> = dyn Fn(&BatchConfig) -> phalanx_core::error::Result<Box<dyn phalanx_core::batch::Batch>> + 'a;

/// The events of a log on the way, beside those of evaluations.
const LOG_EVENTS: u64 = 200;

/// A run whose agent is to be stored has a checkpoint that is not older, so that a kill costs no more than that.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(30);

/// Keeping the last good state takes no more than this part of the time. In tests it is kept whenever it can be, so that
/// nothing depends on the clock.
const GOOD_SHARE: u32 = if cfg!(test) { 0 } else { 100 };

/// A state of more bytes is not kept: a buffer in memory would be there twice.
const GOOD_BYTES: usize = 64 << 20;

/// Where a checkpoint keeps how long training took.
pub(crate) const TRAINING_SECONDS: &str = "trainer.training_seconds";

/// Where it keeps the evaluations.
const EVAL_METRICS: &str = "trainer.eval_metrics";

/// The other x axis of every event.
const STEPS_PER_ENV: &str = "steps/env";

/// How far a run is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Steps of all environments so far.
    pub global_step: u64,
    /// Steps of all environments where this session began: 0 unless it goes on with a run.
    pub first_step: u64,
    /// Steps of all environments in the whole run.
    pub total: u64,
    /// Steps of all environments in a second of training, evaluations not counted; all sessions together.
    pub steps_per_second: f64,
    /// The mean loss of the last interval.
    pub loss: Option<f64>,
    /// The mean return of episodes that ended in the last interval.
    pub episode_return: Option<f64>,
    /// The mean return of the last evaluation.
    pub eval_return: Option<f64>,
    /// Steps of all environments at the last checkpoint.
    pub stored: Option<u64>,
    /// Episodes that have ended in this session.
    pub episodes: u64,
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
    /// All that is needed to go on from here.
    pub checkpoint: Checkpoint,
    /// Whether it came to its end.
    pub complete: bool,
    /// Whether there is a checkpoint on disk to go on from.
    pub stored: bool,
    /// Seconds of training, evaluations and files not counted; all sessions together.
    pub training_seconds: f64,
    /// Where the time of this session went, if that was asked for.
    pub stages: Stages,
}

impl std::fmt::Debug for dyn Learner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Learner after {} steps", self.global_step())
    }
}

/// What is kept of an evaluation.
#[derive(Clone, Copy)]
struct Keep {
    episodes: bool,
    videos: bool,
}

/// A run in progress.
struct Trainer<'a> {
    config: &'a Config,
    environments: &'a dyn Environments,
    pool: Arc<Pool>,
    learner: Box<dyn Learner>,
    /// Whether the environments have constraints, so that costs say something.
    constrained: bool,
    results: Results,
    best: Option<f64>,
    /// The open interval of the log.
    report: Report,
    journal: Option<Journal>,
    training_seconds: f64,
    progress: Progress,
    last_stored: Instant,
    /// Step of a checkpoint that is there only until the next one is.
    superseded: Option<u64>,
    /// A state to be stored if the run cannot go on, whatever its settings say of checkpoints.
    last_good: Option<Checkpoint>,
    /// When the next such state is kept; `None` once they are too large.
    next_good: Option<Instant>,
    stop: Stop,
}

/// Trains and evaluates as the configuration says.
///
/// Files are written if `folder` makes a place for them, which it is asked for when nothing is left to be refused. From
/// a checkpoint training goes on; the configuration is then that of its run. `stop` may end it between two calls of `watch`.
pub fn train(
    config: &Config,
    environments: &dyn Environments,
    folder: &mut dyn FnMut() -> Result<Option<RunDirectory>>,
    resume: Option<Cow<'_, Checkpoint>>,
    watch: &mut Watch<'_>,
    stop: Stop,
) -> Result<Trained> {
    train_timed(config, environments, folder, resume, watch, stop, Stages::default())
}

/// [`train`] with a stopwatch for its stages, which comes back with the rest.
pub(crate) fn train_timed(
    config: &Config,
    environments: &dyn Environments,
    folder: &mut dyn FnMut() -> Result<Option<RunDirectory>>,
    resume: Option<Cow<'_, Checkpoint>>,
    watch: &mut Watch<'_>,
    stop: Stop,
    stages: Stages,
) -> Result<Trained> {
    let begun = Instant::now();
    let mut trainer = Trainer::new(config, environments, resume, stop)?;
    trainer.report.stages = stages;
    let step = trainer.learner.global_step();
    trainer.journal = folder()?.map(|directory| Journal::open(directory, config, step)).transpose()?;
    let complete = trainer.run(watch)?;
    let mut trained = trainer.finish(complete)?;
    trained.stages.end(begun.elapsed());
    Ok(trained)
}

/// The agent of a configuration on its environments, untrained, as a run would begin with it.
pub fn learner(config: &Config, environments: &dyn Environments) -> Result<Box<dyn Learner>> {
    build::learner(config, &|batch| environments.batch(batch), &pool(config)?)
}

/// Refuses settings of the environment that [`train`] would refuse, as far as the first of them shows it: it makes no more
/// than one.
pub fn check_env(config: &Config, environments: &dyn Environments) -> Result<()> {
    build::check_opponent(config)?;
    build::sample(config, &|batch| environments.batch(batch), 1).map(drop)
}

/// Refuses what [`train`] would refuse before it begins.
pub fn check(config: &Config, environments: &dyn Environments) -> Result<()> {
    build::learner(config, &|batch| environments.batch(batch), &Arc::new(Pool::new(1))).map(drop)
}

/// The threads of a run.
pub(crate) fn pool(config: &Config) -> Result<Arc<Pool>> {
    let threads = threads(config);
    Pool::try_new(threads).map(Arc::new).map_err(|error| {
        Error::setting("run.threads", format!("is {threads}, but the system cannot start so many threads: {error}"))
    })
}

pub(crate) fn threads(config: &Config) -> usize {
    config.run.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Steps between two events of the log of a run of `total` steps, all environments together.
pub fn log_interval(total: u64) -> u64 {
    (total / LOG_EVENTS).max(1)
}

/// Where `step` comes to after the next multiple of `interval` (never for 0), but no further than `total`.
fn next_multiple(step: u64, interval: u64, total: u64) -> u64 {
    let passed = step.checked_div(interval);
    passed.map_or(total, |passed| (passed + 1).saturating_mul(interval).min(total))
}

/// Whether a multiple of `interval` (none for 0) lies behind `before` and not behind `now`.
fn passes(interval: u64, before: u64, now: u64) -> bool {
    interval > 0 && now / interval > before / interval
}

impl<'a> Trainer<'a> {
    fn new(
        config: &'a Config,
        environments: &'a dyn Environments,
        resume: Option<Cow<'_, Checkpoint>>,
        stop: Stop,
    ) -> Result<Self> {
        if config.run.eval_render_videos && environments.film().is_none() {
            return Err(Error::setting("run.eval_render_videos", "is true, but nothing draws these environments"));
        }
        let pool = pool(config)?;
        let make = |batch: &BatchConfig| environments.batch(batch);
        build::require_room(config, &make, "run.eval_rollouts", config.run.eval_rollouts)?;
        let learner = build::learner(config, &make, &pool)?;
        // Only whole units: of part of one nothing can be learnt.
        let unit = learner.unit();
        let total = (config.run.total_timesteps() / unit).max(1) * unit;
        let one = environments.batch(&build::batch_config(config)?)?;
        let mut trainer = Self {
            config,
            environments,
            pool,
            learner,
            constrained: !one.spec().constraints.is_empty(),
            results: Results::default(),
            best: None,
            report: Report::default(),
            journal: None,
            training_seconds: 0.0,
            progress: Progress { total, ..Progress::default() },
            last_stored: Instant::now(),
            superseded: None,
            last_good: None,
            next_good: Some(Instant::now()),
            stop,
        };
        // One that is ours is gone when it has been read: its buffer need not be there twice for the whole run.
        if let Some(checkpoint) = resume {
            trainer.restore(&checkpoint)?;
        }
        Ok(trainer)
    }

    /// Goes back to what [`Trainer::checkpoint`] kept.
    fn restore(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let state = &checkpoint.state;
        self.learner.restore(&state.state("agent"))?;
        self.results.training_metrics = state.value("trainer.training_metrics")?;
        self.results.eval_metrics = state.value(EVAL_METRICS)?;
        self.report = Report::load(&state.state("trainer.report"))?;
        self.training_seconds = state.value(TRAINING_SECONDS)?;
        self.best = checkpoint.best_score;
        let step = self.learner.global_step();
        (self.progress.global_step, self.progress.first_step) = (step, step);
        self.measure_speed();
        self.progress.eval_return = self.results.eval_metrics.mean_return.last().copied();
        self.progress.stored = Some(step);
        // It may have been good enough already, and been killed before its results were written.
        if self.results.eval_metrics.global_steps.last() == Some(&step) {
            self.end_if_good_enough();
        }
        Ok(())
    }

    fn checkpoint(&self) -> Checkpoint {
        let mut state = State::default();
        state.put_state("agent", self.learner.save());
        state.put_value("trainer.training_metrics", &self.results.training_metrics);
        state.put_value(EVAL_METRICS, &self.results.eval_metrics);
        state.put_state("trainer.report", self.report.save());
        state.put_value(TRAINING_SECONDS, &self.training_seconds);
        Checkpoint {
            agent: self.config.agent.name().to_owned(),
            config: self.config.to_toml(),
            global_step: self.learner.global_step(),
            best_score: self.best,
            state,
        }
    }

    /// Answers whether the run came to its end.
    fn run(&mut self, watch: &mut Watch<'_>) -> Result<bool> {
        let run = &self.config.run;
        let (mut total, num_envs) = (self.progress.total, run.num_envs as u64);
        let log_interval = log_interval(total);
        let [eval_interval, checkpoint_interval] =
            [run.eval_frequency, run.checkpoint_frequency].map(|steps| steps.saturating_mul(num_envs));
        let mut step = self.learner.global_step();
        // A run goes on from a step whose evaluation or log had failed or was interrupted.
        let (evaluated, logged) = (self.evaluated(), self.logged());
        let owed = [passes(eval_interval, evaluated, step), passes(log_interval, logged, step)];
        if owed.contains(&true) || step >= total {
            let told = self.tell([owed[0], owed[1], false]);
            if self.interrupted(told)? {
                return Ok(false);
            }
            total = self.progress.total;
        }
        self.keep_good();
        let mut chunks = Chunks::new(self.stop.clone());
        while step < total {
            let goal = [log_interval, eval_interval, checkpoint_interval]
                .map(|interval| next_multiple(step, interval, total))
                .into_iter()
                .min()
                .expect("three intervals");
            let start = Instant::now();
            let chunk = run.scan_chunk_size.map(|steps| (steps as u64).saturating_mul(num_envs));
            let known = self.report.episodes.count();
            let made = chunks.advance(self.learner.as_mut(), chunk, goal, &mut self.report);
            made.map_err(|error| self.store_good(error))?;
            self.progress.episodes += self.report.episodes.count() - known;
            self.training_seconds += start.elapsed().as_secs_f64();
            let before = std::mem::replace(&mut step, self.learner.global_step());
            self.progress.global_step = step;
            self.measure_speed();
            let due = |interval| passes(interval, before, step);
            let told = self.tell([due(eval_interval), due(log_interval), due(checkpoint_interval)]);
            if self.interrupted(told)? {
                return Ok(false);
            }
            total = self.progress.total;
            let goes_on = watch(&self.progress);
            if step < total && (!goes_on || self.stop.is_wanted()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the evaluation that was due was interrupted: whoever goes on with the run makes it first.
    fn interrupted(&mut self, told: Result<()>) -> Result<bool> {
        match told {
            Err(Error::Interrupted) => Ok(true),
            // What was learnt is worth more than the file or the evaluation that failed.
            Err(error) => {
                self.rescue();
                Err(error)
            }
            Ok(()) => Ok(false),
        }
    }

    fn measure_speed(&mut self) {
        self.progress.steps_per_second = self.progress.global_step as f64 / self.training_seconds.max(1e-9);
    }

    /// The step of the last evaluation; 0 if there was none.
    fn evaluated(&self) -> u64 {
        self.results.eval_metrics.global_steps.last().copied().unwrap_or(0)
    }

    /// The step of the last event of the log; 0 if there was none.
    fn logged(&self) -> u64 {
        self.results.training_metrics.global_steps.last().copied().unwrap_or(0)
    }

    /// Evaluates, logs and stores what is due; at the end what has not been by then.
    fn tell(&mut self, [evaluation, log, checkpoint]: [bool; 3]) -> Result<()> {
        let step = self.learner.global_step();
        let mut lap = self.report.stages.begin();
        if evaluation || self.is_over() && self.evaluated() != step {
            self.evaluate()?;
            self.report.stages.lap(Stage::Evaluate, &mut lap);
        }
        if log || self.is_over() && self.logged() != step {
            self.log()?;
            self.report.stages.lap(Stage::Log, &mut lap);
            self.keep_good();
            self.report.stages.lap(Stage::Checkpoint, &mut lap);
        }
        let old = self.config.run.save_agent_checkpoint && self.last_stored.elapsed() >= CHECKPOINT_INTERVAL;
        if (checkpoint || old) && !self.is_over() {
            self.store(&checkpoint::step_name(step), &self.checkpoint())?;
            if let (Some(journal), Some(before)) = (&self.journal, self.superseded.take()) {
                journal.remove_checkpoint(&checkpoint::step_name(before));
            }
            self.superseded = Some(step).filter(|_| !checkpoint);
        }
        Ok(())
    }

    /// Stores the agent, if that was wanted, of a run that cannot go on. That this fails, too, is no news.
    fn rescue(&mut self) {
        let (run, step) = (&self.config.run, self.learner.global_step());
        if (run.save_agent_checkpoint || run.checkpoint_frequency > 0) && self.progress.stored != Some(step) {
            let _ = self.store(&checkpoint::step_name(step), &self.checkpoint());
        }
    }

    /// Keeps where the run is now, for the case that what it learns next is no number.
    fn keep_good(&mut self) {
        let begun = Instant::now();
        if self.journal.is_none() || self.is_over() || self.next_good.is_none_or(|next| begun < next) {
            return;
        }
        // A state that has become too large stays so, and the one kept before would be older every minute.
        self.last_good = Some(self.checkpoint()).filter(|checkpoint| checkpoint.state.bytes() <= GOOD_BYTES);
        self.next_good = self.last_good.as_ref().map(|_| Instant::now() + GOOD_SHARE * begun.elapsed());
    }

    /// Stores the last state in which all was well, if there is no later one on disk, of a run that cannot go on; the
    /// error says which it is.
    fn store_good(&mut self, error: Error) -> Error {
        let is_newer = |good: &Checkpoint| self.progress.stored.is_none_or(|stored| stored < good.global_step);
        if let Some(good) = self.last_good.take().filter(is_newer) {
            // That this fails, too, is no news.
            let _ = self.store(&checkpoint::step_name(good.global_step), &good);
        }
        match error {
            Error::NotFinite { what, value, global_step, .. } => {
                Error::NotFinite { what, value, global_step, kept: self.progress.stored }
            }
            other => other,
        }
    }

    fn store(&mut self, name: &str, checkpoint: &Checkpoint) -> Result<()> {
        let mut lap = self.report.stages.begin();
        if let Some(journal) = &self.journal {
            journal.checkpoint(name, checkpoint)?;
            self.progress.stored = Some(checkpoint.global_step);
            self.last_stored = Instant::now();
        }
        self.report.stages.lap(Stage::Checkpoint, &mut lap);
        Ok(())
    }

    /// Leaves what is to be found afterwards. The results come last: a run that has them has all.
    fn finish(mut self, complete: bool) -> Result<Trained> {
        let run = &self.config.run;
        self.results.summary =
            directory::Summary::new(&self.results.eval_metrics, self.learner.global_step(), run.num_envs);
        let checkpoint = self.checkpoint();
        let step = checkpoint.global_step;
        if complete {
            if run.save_agent_checkpoint {
                self.store(checkpoint::FINAL, &checkpoint)?;
            }
            if let Some(journal) = &self.journal {
                if let Some((name, bytes)) = self.learner.exported() {
                    journal.export(name, &bytes)?;
                }
                journal.results(&self.results)?;
            }
        } else if (run.save_agent_checkpoint || run.checkpoint_frequency > 0) && self.progress.stored != Some(step) {
            self.store(&checkpoint::step_name(step), &checkpoint)?;
        }
        let stored = self.progress.stored.is_some();
        let Self { results, learner, training_seconds, report: Report { stages, .. }, .. } = self;
        Ok(Trained { results, learner, checkpoint, complete, stored, training_seconds, stages })
    }

    fn evaluate(&mut self) -> Result<()> {
        let evaluations = &self.results.eval_metrics.global_steps;
        let round = if self.config.run.eval_fresh_starts { evaluations.len() as u64 } else { 0 };
        let before = evaluations.last().copied().unwrap_or(0);
        let mut agent = self.learner.greedy();
        let may_be_last = self.is_over() || self.config.run.eval_stop_return.is_some();
        let Keep { episodes, videos } = self.keep(before, may_be_last);
        let keep_any = episodes || videos;
        let (config, environments) = (self.config, self.environments);
        let watch = &mut || !self.stop.is_wanted();
        let found = evaluate_agent(config, environments, &self.pool, agent.as_mut(), round, keep_any, watch)?;
        self.note_evaluation(&found)?;
        self.end_if_good_enough();
        self.keep_episodes(&found, round, self.keep(before, self.is_over()))
    }

    /// Makes this step the last one if the run was to go on only until an evaluation is as good as the last one was.
    fn end_if_good_enough(&mut self) {
        if let (Some(goal), Some(found)) = (self.config.run.eval_stop_return, self.progress.eval_return)
            && found >= goal
        {
            self.progress.total = self.learner.global_step();
        }
    }

    fn is_over(&self) -> bool {
        self.learner.global_step() >= self.progress.total
    }

    /// What is kept of the evaluation at this step, if the one before was at `before`. The last one of a run always
    /// counts.
    fn keep(&self, before: u64, last: bool) -> Keep {
        let run = &self.config.run;
        let (step, interval) = (self.learner.global_step(), run.eval_episode_save_frequency);
        let due = interval > 0 && (last || passes(interval.saturating_mul(run.num_envs as u64), before, step));
        let has_place = self.journal.is_some();
        Keep {
            episodes: has_place && due,
            videos: has_place && run.eval_render_videos && (due || interval == 0 && last),
        }
    }

    fn keep_episodes(&self, found: &Evaluation, round: u64, keep: Keep) -> Result<()> {
        let (Some(journal), Some(episodes)) = (&self.journal, &found.episodes) else { return Ok(()) };
        let run = &self.config.run;
        let count = run.eval_episode_save_count.unwrap_or(episodes.len()).min(episodes.len());
        let global_step = self.learner.global_step();
        if keep.episodes {
            journal.episodes(found, Origin { global_step, seed: evaluation_seed(run.seed, round) }, count)?;
        }
        if keep.videos {
            let mut store = |number: usize, gif: &[u8]| journal.video(global_step, number, gif);
            draw(self.config, self.environments, round, &episodes[..count], &mut store)?;
        }
        Ok(())
    }

    fn note_evaluation(&mut self, found: &Evaluation) -> Result<()> {
        let (returns, lengths) = (found.return_summary(), found.length_summary());
        let (Some(returns), Some(lengths)) = (returns, lengths) else { return Ok(()) };
        let best = self.best.map_or(returns.mean, |best: f64| best.max(returns.mean));
        let (step, per_env) = (self.learner.global_step(), self.steps_per_env());
        if let Some(journal) = &mut self.journal {
            let mut values = vec![("eval/return/best", best), ("eval/termination_rate", found.termination_rate())];
            let mut put = |tags: [&'static str; 4], of: Summary| {
                values.extend(tags.into_iter().zip([of.mean, of.std, of.min, of.max]));
            };
            put(["eval/return/mean", "eval/return/std", "eval/return/min", "eval/return/max"], returns);
            put(["eval/length/mean", "eval/length/std", "eval/length/min", "eval/length/max"], lengths);
            values.extend(found.cost_summary().map(|costs| ("eval/cost/mean", costs.mean)));
            values.push((STEPS_PER_ENV, per_env as f64));
            journal.scalars(step, &values)?;
        }
        // What could not be written has not been: whoever goes on from here makes up for it.
        self.progress.eval_return = Some(returns.mean);
        self.best = Some(best);
        let metrics: &mut EvalMetrics = &mut self.results.eval_metrics;
        metrics.global_steps.push(step);
        metrics.steps_per_env.push(per_env);
        metrics.episode_returns.push(found.returns.clone());
        metrics.episode_lengths.push(found.lengths.iter().map(|length| u64::from(*length)).collect());
        metrics.mean_return.push(returns.mean);
        metrics.std_return.push(returns.std);
        metrics.mean_length.push(lengths.mean);
        Ok(())
    }

    /// What happened since the last event of the log.
    fn log(&mut self) -> Result<()> {
        let (step, per_env) = (self.learner.global_step(), self.steps_per_env());
        let episodes = self.report.episodes;
        let episode_return = episodes.mean_return();
        let values: Vec<(&str, f64)> = self.report.means().collect();
        if let Some(journal) = &mut self.journal {
            let mut values = values.clone();
            let mut add = |tags: &[&'static str], value: Option<f64>| {
                values.extend(tags.iter().zip(value.into_iter().cycle()).map(|(tag, value)| (*tag, value)));
            };
            add(&["charts/episodic_return", "rollout/ep_rew_mean"], episode_return);
            add(&["charts/episodic_length", "rollout/ep_len_mean"], episodes.mean_length());
            add(&["charts/episodic_cost"], episodes.mean_cost().filter(|_| self.constrained));
            add(&["charts/SPS", "time/fps"], Some(self.progress.steps_per_second));
            values.push((STEPS_PER_ENV, per_env as f64));
            journal.scalars(step, &values)?;
        }
        // The row and the end of its interval are one: an interval that could not be written stays open.
        let loss = values.iter().find(|(tag, _)| matches!(*tag, "losses/td_loss" | "losses/loss"));
        let loss = loss.map(|(_, value)| *value);
        self.progress.loss = loss.or(self.progress.loss);
        self.progress.episode_return = episode_return.or(self.progress.episode_return);
        let metrics: &mut TrainingMetrics = &mut self.results.training_metrics;
        metrics.global_steps.push(step);
        metrics.steps_per_env.push(per_env);
        metrics.loss.push(loss.unwrap_or(f64::NAN));
        metrics.reward.push(episode_return.unwrap_or(f64::NAN));
        let rows = metrics.global_steps.len();
        for (tag, value) in values {
            let column = metrics.agent_metrics.entry(tag.to_owned()).or_default();
            column.resize(rows - 1, f64::NAN);
            column.push(value);
        }
        // What the agent did not report in this interval has a row all the same.
        metrics.agent_metrics.values_mut().for_each(|column| column.resize(rows, f64::NAN));
        self.report.clear();
        Ok(())
    }

    fn steps_per_env(&self) -> u64 {
        self.learner.global_step() / self.config.run.num_envs as u64
    }
}

/// The environments of an evaluation; those of round 0 have the same start states always.
fn evaluation_batch(config: &Config, round: u64, pool: &Arc<Pool>) -> Result<BatchConfig> {
    Ok(BatchConfig {
        num_envs: config.run.eval_rollouts,
        seed: evaluation_seed(config.run.seed, round),
        autoreset: Autoreset::SameStep,
        pool: Arc::clone(pool),
        ..build::batch_config(config)?
    })
}

/// Judges an agent by whole episodes in fresh environments, unless `watch` wants it to end before: then it fails with
/// [`Error::Interrupted`](crate::Error::Interrupted). `round` 0 has the same start states always.
pub(crate) fn evaluate_agent(
    config: &Config,
    environments: &dyn Environments,
    pool: &Arc<Pool>,
    agent: &mut dyn Greedy,
    round: u64,
    keep_episodes: bool,
    watch: &mut evaluation::Watch<'_>,
) -> Result<Evaluation> {
    let batch = environments.batch(&evaluation_batch(config, round, pool)?)?;
    let max_steps = config.run.eval_max_steps.unwrap_or(u64::from(batch.spec().max_steps));
    let mut world = World::new(batch, config.agent.sight())?;
    evaluate_watched(&mut world, agent, max_steps.try_into().unwrap_or(u32::MAX), keep_episodes, watch)
}

/// Draws the first episodes of an evaluation, if anything draws these environments, and hands the videos out one by one.
pub(crate) fn draw(
    config: &Config,
    environments: &dyn Environments,
    round: u64,
    episodes: &[Episode],
    take: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let Some(film) = environments.film() else { return Ok(()) };
    // Where an episode has ended they wait, so that the last state can be seen.
    let pool = Arc::new(Pool::new(1));
    let batch = BatchConfig { autoreset: Autoreset::NextStep, ..evaluation_batch(config, round, &pool)? };
    let states = replay(environments.batch(&batch)?.as_mut(), episodes)?;
    for (number, (episode, states)) in episodes.iter().zip(&states).enumerate() {
        take(number, &film(&Film { config: &batch, episode, states, fps: config.run.eval_video_fps })?)?;
    }
    Ok(())
}

/// The agent of a configuration as it acts: trained as a checkpoint says, or as it begins.
pub(crate) fn policy(
    config: &Config,
    environments: &dyn Environments,
    checkpoint: Option<&Checkpoint>,
) -> Result<Box<dyn Greedy>> {
    let alone = Arc::new(Pool::new(1));
    let config = &config.acting_alone();
    let mut learner = build::learner(config, &|batch| environments.batch(batch), &alone)?;
    if let Some(checkpoint) = checkpoint {
        learner.restore_policy(&checkpoint.state.state("agent"))?;
    }
    Ok(learner.greedy())
}

/// Which evaluation of its run a stored agent has had last, if that was at its step, or else has next; 0 where all have
/// the same start states.
pub(crate) fn round(config: &Config, agent: Option<&Checkpoint>) -> Result<u64> {
    let Some(agent) = agent.filter(|_| config.run.eval_fresh_starts) else { return Ok(0) };
    let evaluations: EvalMetrics = agent.state.value(EVAL_METRICS)?;
    let had = evaluations.global_steps.last() == Some(&agent.global_step);
    Ok(evaluations.global_steps.len() as u64 - u64::from(had))
}

/// Evaluations share no random number with training: their environments have another seed.
pub(crate) fn evaluation_seed(seed: u64, round: u64) -> u64 {
    let [low, high] = phalanx_core::rng::key_of_seed(seed ^ u64::from_le_bytes(*b"evaluate"));
    (u64::from(high) << 32 | u64::from(low)).wrapping_add(round)
}
