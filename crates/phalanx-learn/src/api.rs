//! Training and evaluation in one call each: sections 8 to 10 of the reference, for programs and for the commands.
//!
//! Nothing is written unless a folder is given for it.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use serde::Serialize;

use crate::environments::Environments;
use crate::error::{Error, Result};
use crate::evaluation::{Summary as Spread, Watch};
use crate::run::checkpoint::{self, Checkpoint};
use crate::run::config::Config;
use crate::run::directory::{
    EvalMetrics, Lock, Metadata, Results, RunDirectory, Status, Summary, TrainingMetrics, load_run,
};
use crate::run::episodes::{Episode, Origin};
use crate::run::metrics::MetricsLog;
use crate::stages::Stages;
use crate::state::State;
use crate::stop::Stop;
use crate::trainer::{self, Progress};

/// What only the program knows of itself and its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The commit that it was built from.
    pub git_hash: Option<String>,
    /// Physical cores.
    pub cores: Option<usize>,
}

/// How a run is trained, beside what its configuration says.
#[derive(Default)]
pub struct TrainOptions<'a> {
    /// The folder that the run's own folder is made in; without it nothing is written.
    pub root: Option<&'a Path>,
    /// The run's own folder, which must not be there yet, if not one named after the time below `root`.
    pub run_dir: Option<&'a Path>,
    /// What another run with the same settings came to, to go on from there.
    pub resume_from: Option<&'a Checkpoint>,
    /// Steps of each environment that a run is to have in all when it goes on, if more than its settings say. From there on
    /// it is a run of that length: rates that fall with its length rise again, so that it comes to other bits than one
    /// that was so long from the start. Only [`resume`] asks.
    pub steps_per_env: Option<u64>,
    /// Threads if the configuration does not say how many; they are not stored, since results do not depend on them.
    pub threads: Option<usize>,
    /// The chunk size, likewise.
    pub scan_chunk_size: Option<usize>,
    /// Whether the stages of the run are timed.
    pub profile: bool,
    /// For the run's metadata.
    pub host: Host,
    /// Who watches the run.
    pub observer: Option<&'a mut dyn Observer>,
}

/// Is told what happens to a run. A closure that is told how far it is will do.
pub trait Observer {
    /// How far the run is; `false` ends it early.
    fn progress(&mut self, _: &Progress) -> bool {
        true
    }

    /// The run has a folder now.
    fn started(&mut self, _run_dir: &Path) {}

    /// Something is not as it should be, but the run goes on.
    fn warning(&mut self, _: &str) {}

    /// Who may want the run to end where it would not be asked for long: in the midst of a roll-out, of its updates, of an
    /// evaluation. What is cut short is undone, and [`progress`](Self::progress) is to answer `false` afterwards.
    fn stop(&self) -> Stop {
        Stop::default()
    }
}

impl<F: FnMut(&Progress) -> bool> Observer for F {
    fn progress(&mut self, progress: &Progress) -> bool {
        self(progress)
    }
}

impl std::fmt::Debug for TrainOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { root, resume_from, host, .. } = self;
        let from = resume_from.map(|checkpoint| checkpoint.global_step);
        f.debug_struct("TrainOptions").field("root", root).field("from", &from).field("host", host).finish()
    }
}

/// What came out of training.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingResults {
    /// The agent with all that it needs to learn on.
    pub agent_state: Checkpoint,
    /// Means over the intervals of the log.
    pub training_metrics: TrainingMetrics,
    /// One item for each evaluation.
    pub eval_metrics: EvalMetrics,
    /// The run's settings.
    pub config: Config,
    /// The run's folder, if it has one.
    pub run_dir: Option<PathBuf>,
    /// Where the environments are now.
    pub final_env_state: State,
    /// Whether the run came to its end; it did unless it was watched and stopped.
    pub complete: bool,
    /// Whether the run's folder has a checkpoint to go on from.
    pub stored: bool,
    /// Seconds of training, evaluations and files not counted.
    pub training_seconds: f64,
    /// Where the time of the last session went, if that was asked for.
    pub stages: Stages,
}

impl TrainingResults {
    /// The figures most ask for.
    pub fn summary(&self) -> Summary {
        Summary::new(&self.eval_metrics, self.agent_state.global_step, self.config.run.num_envs)
    }

    /// Writes a run's folder, which must not be there yet: settings, results and the agent.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let directory = RunDirectory::create_at(folder.to_owned(), &self.config)?;
        directory.write_checkpoint(checkpoint::FINAL, &self.agent_state)?;
        let (training_metrics, eval_metrics) = (self.training_metrics.clone(), self.eval_metrics.clone());
        directory.write_results(&Results { summary: self.summary(), training_metrics, eval_metrics })
    }

    /// Reads the folder of a run that came to its end and stored its agent.
    pub fn load(folder: &Path) -> Result<Self> {
        let mut run = load_run(folder)?;
        let Some(results) = run.results.take() else {
            let why = run.warnings.into_iter().next().unwrap_or_else(|| "it did not come to its end".to_owned());
            return Err(Error::damaged(folder, "run", why));
        };
        let agent_state = run.load_checkpoint(checkpoint::FINAL)?;
        Ok(Self {
            training_metrics: results.training_metrics,
            eval_metrics: results.eval_metrics,
            config: run.config,
            run_dir: Some(folder.to_owned()),
            final_env_state: environments_of(&agent_state),
            complete: true,
            stored: true,
            training_seconds: agent_state.state.value(trainer::TRAINING_SECONDS)?,
            stages: Stages::default(),
            agent_state,
        })
    }

    /// Writes the agent alone.
    pub fn save_agent(&self, path: &Path) -> Result<()> {
        self.agent_state.write(path)
    }

    /// Reads an agent that [`save_agent`](Self::save_agent) or a run has written.
    pub fn load_agent(path: &Path) -> Result<Checkpoint> {
        Checkpoint::read(path)
    }
}

/// The snapshots of environments in what an agent has saved.
pub fn environments_of(checkpoint: &Checkpoint) -> State {
    let mut state = State::default();
    for (name, array) in checkpoint.state.arrays() {
        if matches!(name.rsplit('.').next(), Some("environments" | "env")) {
            state.put_array(name.clone(), array.clone());
        }
    }
    state
}

/// Where the files of a session go.
enum Place<'a> {
    Nowhere,
    /// Into a new folder below this one.
    Below(&'a Path),
    /// Into this folder, which is not there yet.
    At(&'a Path),
    /// Into the folder of a run that goes on.
    Again {
        directory: RunDirectory,
        lock: Lock,
        metadata: Option<Box<Metadata>>,
        /// The checkpoint that it goes on from, if it is to be longer than it was.
        longer_from: Option<PathBuf>,
    },
}

/// How a run is carried out, which changes nothing of what comes out of it.
struct Manner {
    threads: Option<usize>,
    scan_chunk_size: Option<usize>,
    stages: Stages,
}

impl TrainOptions<'_> {
    fn manner(&self) -> Manner {
        let stages = if self.profile { Stages::on() } else { Stages::default() };
        Manner { threads: self.threads, scan_chunk_size: self.scan_chunk_size, stages }
    }
}

/// The folder of a session while it lasts.
struct Open {
    directory: RunDirectory,
    metadata: Metadata,
    _lock: Lock,
}

/// Trains and evaluates as a configuration says.
///
/// ```
/// use phalanx_core::batch::BatchConfig;
/// use phalanx_learn::{TrainOptions, create_config, train_and_evaluate};
///
/// let config = create_config("CartPole-v1", "ppo", &[("num_envs", "8"), ("total_timesteps", "4096")])?;
/// let cart_pole = phalanx_envs::registry::find("CartPole-v1")?;
/// let environments = |batch: &BatchConfig| cart_pole.batch(batch);
/// let trained = train_and_evaluate(&config, &environments, TrainOptions::default())?;
/// assert_eq!(trained.summary().training_global_steps, 4096);
/// assert!(trained.run_dir.is_none(), "nothing is written unless a folder is given");
/// # Ok::<(), phalanx_learn::Error>(())
/// ```
pub fn train_and_evaluate(
    config: &Config,
    environments: &dyn Environments,
    options: TrainOptions<'_>,
) -> Result<TrainingResults> {
    if let Some(checkpoint) = options.resume_from {
        check_settings(config, false, checkpoint, Path::new("the agent"))?;
    }
    let below = || options.root.map_or(Place::Nowhere, Place::Below);
    let place = options.run_dir.map_or_else(below, Place::At);
    let manner = options.manner();
    let from = options.resume_from.map(Cow::Borrowed);
    session(config, environments, place, from, manner, options.host, observer_of(options.observer))
}

fn observer_of(observer: Option<&mut dyn Observer>) -> &mut dyn Observer {
    /// Who does not look.
    struct Nobody;
    impl Observer for Nobody {}
    // It has no size, so nothing is allocated.
    observer.unwrap_or_else(|| Box::leak(Box::new(Nobody)))
}

/// Goes on with a run from its last complete checkpoint, to the same bits as if it had not stopped.
///
/// `options` have neither root nor state: both are those of the run.
///
/// ```
/// use phalanx_core::batch::BatchConfig;
/// use phalanx_learn::{TrainOptions, create_config, resume, train_and_evaluate};
///
/// let settings = [("num_envs", "8"), ("total_timesteps", "4096"), ("save_agent_checkpoint", "true")];
/// let config = create_config("CartPole-v1", "ppo", &settings)?;
/// let cart_pole = phalanx_envs::registry::find("CartPole-v1")?;
/// let environments = |batch: &BatchConfig| cart_pole.batch(batch);
/// let root = tempfile::tempdir().unwrap();
/// let stop = &mut |progress: &phalanx_learn::trainer::Progress| progress.global_step < 2048;
/// let options = TrainOptions { root: Some(root.path()), observer: Some(stop), ..TrainOptions::default() };
/// let begun = train_and_evaluate(&config, &environments, options)?;
/// assert!(!begun.complete);
///
/// let ended = resume(&begun.run_dir.unwrap(), &environments, TrainOptions::default())?;
/// assert_eq!(ended.summary().training_global_steps, 4096);
/// # Ok::<(), phalanx_learn::Error>(())
/// ```
pub fn resume(run: &Path, environments: &dyn Environments, options: TrainOptions<'_>) -> Result<TrainingResults> {
    let manner = options.manner();
    let observer = observer_of(options.observer);
    let lock = load_run(run)?.directory.lock()?;
    // Read again, now that nobody else writes.
    let mut found = load_run(run)?;
    found.warnings.iter().for_each(|warning| observer.warning(&format!("{warning}; it will be written anew")));
    let longer = options.steps_per_env.map(|steps| made_longer(&found.config, steps)).transpose()?.flatten();
    let is_over = found.results.is_some() && found.metadata.as_ref().is_some_and(|it| it.status == Status::Ok);
    let end = checkpoint::path_of(&found.directory.checkpoints(), checkpoint::FINAL);
    let end_is_gone = is_over && !end.exists();
    if is_over && longer.is_none() {
        if end_is_gone && !found.config.run.save_agent_checkpoint {
            let why = "it has come to its end, and its agent was not stored (see run.save_agent_checkpoint)";
            return Err(Error::damaged(run, "run", why));
        }
        match TrainingResults::load(run) {
            // An earlier checkpoint leads to the same end.
            Err(Error::Damaged { .. }) => {}
            Err(_) if end_is_gone => {}
            loaded => return loaded,
        }
    }
    found.directory.remove_unfinished(&lock)?;
    let Some(last) = found.last_checkpoint()? else {
        let why = if end_is_gone && found.config.run.save_agent_checkpoint {
            "it has come to its end, but its final checkpoint is gone, and there is no other to go on from"
        } else {
            "it has no checkpoint to go on from (see run.checkpoint_frequency and run.save_agent_checkpoint)"
        };
        return Err(Error::damaged(run, "run", why));
    };
    if end_is_gone && found.config.run.save_agent_checkpoint {
        observer.warning(&format!("{} is gone; going on from {}", end.display(), last.path.display()));
    }
    last.passed_over.iter().for_each(|why| observer.warning(&format!("{why}; going on from the one before")));
    check_settings(longer.as_ref().unwrap_or(&found.config), true, &last.checkpoint, &last.path)?;
    let is_longer = longer.is_some();
    found.config = longer.unwrap_or(found.config);
    if let Some(step) = last_logged(&last.checkpoint) {
        let log = &found.config.log;
        let missing = MetricsLog::missing(found.directory.path(), log.csv, log.jsonl, step);
        missing.iter().for_each(|warning| observer.warning(warning));
    }
    let place = Place::Again {
        directory: found.directory,
        lock,
        metadata: found.metadata.map(Box::new),
        longer_from: is_longer.then_some(last.path),
    };
    session(&found.config, environments, place, Some(Cow::Owned(last.checkpoint)), manner, options.host, observer)
}

/// The step of the last event in the log of a run that has come to a checkpoint.
fn last_logged(checkpoint: &Checkpoint) -> Option<u64> {
    let training: TrainingMetrics = checkpoint.state.value("trainer.training_metrics").ok()?;
    let evaluations: EvalMetrics = checkpoint.state.value("trainer.eval_metrics").ok()?;
    training.global_steps.last().max(evaluations.global_steps.last()).copied()
}

/// The settings of a run that is to have so many steps of each environment, if those are more than it has.
fn made_longer(config: &Config, steps_per_env: u64) -> Result<Option<Config>> {
    match steps_per_env.cmp(&config.run.steps_per_env) {
        Ordering::Equal => Ok(None),
        Ordering::Greater => config.with([("run.steps_per_env", steps_per_env.to_string().as_str())]).map(Some),
        Ordering::Less => {
            let (envs, now) = (config.run.num_envs as u64, config.run.steps_per_env);
            let why = format!(
                "is {steps_per_env} ({} of all environments), but the run has {now} ({}): when it goes on it can be made \
                 longer only",
                steps_per_env.saturating_mul(envs),
                config.run.total_timesteps()
            );
            Err(Error::setting("run.steps_per_env", why))
        }
    }
}

/// Refuses to go on with other settings than those that led here, except for more steps if it may be longer.
fn check_settings(config: &Config, may_be_longer: bool, checkpoint: &Checkpoint, path: &Path) -> Result<()> {
    let mut then = Config::from_toml(&checkpoint.config)?;
    if may_be_longer && then.run.steps_per_env < config.run.steps_per_env {
        then.run.steps_per_env = config.run.steps_per_env;
    }
    config.difference(&then).map_or(Ok(()), |(key, then, now)| {
        Err(Error::OtherSettings { path: path.display().to_string(), key, then, now })
    })
}

/// Trains from a moment on until the end or an interruption, and keeps the run's metadata while it does.
fn session(
    config: &Config,
    environments: &dyn Environments,
    place: Place<'_>,
    resume_from: Option<Cow<'_, Checkpoint>>,
    manner: Manner,
    host: Host,
    observer: &mut dyn Observer,
) -> Result<TrainingResults> {
    let mut executed = config.clone();
    executed.run.threads = config.run.threads.or(manner.threads);
    executed.run.scan_chunk_size = config.run.scan_chunk_size.or(manner.scan_chunk_size);
    let observer = RefCell::new(observer);
    let (start, now) = (Instant::now(), SystemTime::now());
    let step = Cell::new(resume_from.as_ref().map_or(0, |checkpoint| checkpoint.global_step));
    let new_metadata = || Metadata {
        git_hash: host.git_hash.clone(),
        cores: host.cores,
        ..Metadata::new("training", config, now, trainer::threads(&executed))
    };
    let (mut place, open) = (Some(place), RefCell::new(None));
    let mut folder = || {
        let mut is_new = false;
        let (directory, lock, metadata) = match place.take() {
            None | Some(Place::Nowhere) => return Ok(None),
            Some(new @ (Place::Below(path) | Place::At(path))) => {
                let directory = match new {
                    Place::At(_) => RunDirectory::create_at(path.to_owned(), config)?,
                    _ => RunDirectory::create(path, config, now)?,
                };
                is_new = true;
                let lock = directory.lock().inspect_err(|_| directory.remove())?;
                (directory, lock, None)
            }
            Some(Place::Again { directory, lock, metadata, longer_from }) => {
                if let Some(from) = longer_from {
                    directory.make_longer(config, &from, step.get(), &lock)?;
                }
                (directory, lock, metadata.map(|metadata| *metadata))
            }
        };
        let here = new_metadata();
        let machine = here.machine();
        let mut metadata = metadata.unwrap_or(here);
        metadata.begin(now, step.get(), machine);
        // A run that could not even begin is of no use to anybody.
        directory.write_metadata(&metadata).inspect_err(|_| {
            if is_new {
                directory.remove()
            }
        })?;
        observer.borrow_mut().started(directory.path());
        *open.borrow_mut() = Some(Open { directory: directory.clone(), metadata, _lock: lock });
        Ok(Some(directory))
    };
    let mut stored = None;
    let mut told = |progress: &Progress| {
        step.set(progress.global_step);
        // With every checkpoint, so that a kill loses no more of the time than of the work.
        if std::mem::replace(&mut stored, progress.stored) != progress.stored
            && let Some(Open { directory, metadata, .. }) = &mut *open.borrow_mut()
        {
            metadata.update(start.elapsed().as_secs_f64(), step.get(), Status::Running);
            // That it cannot be written will be said at the end.
            let _ = directory.write_metadata(metadata);
        }
        observer.borrow_mut().progress(progress)
    };
    let stop = observer.borrow().stop();
    let trained =
        trainer::train_timed(&executed, environments, &mut folder, resume_from, &mut told, stop, manner.stages);

    let mut run_dir = None;
    let mut noted = Ok(());
    if let Some(Open { directory, mut metadata, .. }) = open.into_inner() {
        let status = match &trained {
            Ok(trained) if trained.complete => Status::Ok,
            Ok(_) => Status::Interrupted,
            Err(_) => Status::Error,
        };
        metadata.update(start.elapsed().as_secs_f64(), step.get(), status);
        metadata.error = trained.as_ref().err().map(ToString::to_string);
        noted = directory.write_metadata(&metadata);
        run_dir = Some(directory.path().to_owned());
    }
    // What ended the training is said rather than that it could not be noted.
    let trained = trained?;
    noted?;
    Ok(TrainingResults {
        final_env_state: environments_of(&trained.checkpoint),
        agent_state: trained.checkpoint,
        training_metrics: trained.results.training_metrics,
        eval_metrics: trained.results.eval_metrics,
        config: config.clone(),
        run_dir,
        complete: trained.complete,
        stored: trained.stored,
        training_seconds: trained.training_seconds,
        stages: trained.stages,
    })
}

/// How an agent is evaluated, beside what the configuration says.
#[derive(Default)]
pub struct EvalOptions<'a> {
    /// The trained agent; without it, the agent as it begins.
    pub agent_state: Option<Checkpoint>,
    /// Whether the episodes come back with the results.
    pub return_episodes: bool,
    /// The folder that a folder with the episodes is made in; without it nothing is written.
    pub save_episodes: Option<&'a Path>,
    /// For the metadata of that folder.
    pub host: Host,
    /// Hears of each step of all environments; `false` ends the evaluation with [`Error::Interrupted`].
    pub watch: Option<&'a mut Watch<'a>>,
    /// Hears how many of how many episodes are drawn, before the first and after each.
    pub drawn: Option<&'a mut Drawn<'a>>,
    /// Who may want it to end while episodes are stored or drawn, too: then the new folder is removed.
    pub stop: Stop,
}

/// Who hears how many of how many episodes are drawn.
pub type Drawn<'a> = dyn FnMut(usize, usize) + 'a;

impl std::fmt::Debug for EvalOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { agent_state, return_episodes, save_episodes, host, stop, .. } = self;
        let of = agent_state.as_ref().map(|checkpoint| checkpoint.global_step);
        let mut told = f.debug_struct("EvalOptions");
        told.field("of", &of).field("return_episodes", return_episodes).field("save_episodes", save_episodes);
        told.field("host", host).field("stop", stop).finish()
    }
}

/// What came out of an evaluation. Deviations are those of the numbers themselves.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the fields are named after what they hold
pub struct EvaluationResults {
    pub mean_return: f64,
    pub std_return: f64,
    pub min_return: f64,
    pub max_return: f64,
    pub mean_length: f64,
    pub std_length: f64,
    pub min_length: f64,
    pub max_length: f64,
    /// Violated constraints of an episode, summed over its steps; `None` without constraints.
    pub mean_cost: Option<f64>,
    /// The part of the episodes that the task itself ended.
    pub termination_rate: f64,
    pub episode_returns: Vec<f64>,
    pub episode_lengths: Vec<u32>,
    pub num_episodes: usize,
    pub seed: u64,
    pub config: Config,
    /// Where the episodes were saved.
    pub run_dir: Option<PathBuf>,
    /// What was seen and done, if that was asked for.
    pub episodes: Option<Vec<Episode>>,
    /// The agent that was given.
    pub agent_state: Option<Checkpoint>,
}

/// The figures most ask for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // as in [`EvaluationResults`]
pub struct EvaluationSummary {
    pub mean_return: f64,
    pub std_return: f64,
    pub min_return: f64,
    pub max_return: f64,
    pub mean_length: f64,
    pub num_episodes: usize,
    pub termination_rate: f64,
}

impl EvaluationResults {
    /// The figures most ask for.
    pub fn summary(&self) -> EvaluationSummary {
        let &Self {
            mean_return, std_return, min_return, max_return, mean_length, num_episodes, termination_rate, ..
        } = self;
        EvaluationSummary {
            mean_return,
            std_return,
            min_return,
            max_return,
            mean_length,
            num_episodes,
            termination_rate,
        }
    }
}

/// Plays `run.eval_rollouts` whole episodes with an agent's best actions, from the start states that evaluations have
/// while training; under `run.eval_fresh_starts` those of the agent's own evaluation, or else of the next.
///
/// ```
/// use phalanx_core::batch::BatchConfig;
/// use phalanx_learn::{EvalOptions, create_eval_config, evaluate};
///
/// let config = create_eval_config("CartPole-v1", "random", &[("eval_rollouts", "100")])?;
/// let cart_pole = phalanx_envs::registry::find("CartPole-v1")?;
/// let environments = |batch: &BatchConfig| cart_pole.batch(batch);
/// let found = evaluate(&config, &environments, EvalOptions { return_episodes: true, ..EvalOptions::default() })?;
/// assert!((15.0..30.0).contains(&found.summary().mean_return));
/// assert_eq!(found.episodes.unwrap()[0].length(), found.episode_lengths[0] as usize);
/// # Ok::<(), phalanx_learn::Error>(())
/// ```
pub fn evaluate(
    config: &Config,
    environments: &dyn Environments,
    options: EvalOptions<'_>,
) -> Result<EvaluationResults> {
    let EvalOptions { agent_state, return_episodes, save_episodes, host, watch, drawn, stop } = options;
    let (start, now) = (Instant::now(), SystemTime::now());
    let pool = trainer::pool(config)?;
    let mut agent = trainer::policy(config, environments, agent_state.as_ref())?;
    let keep = return_episodes || save_episodes.is_some();
    let mut nobody = || true;
    let watch = watch.unwrap_or(&mut nobody);
    let mut watch = || watch() && !stop.is_wanted();
    let round = trainer::round(config, agent_state.as_ref())?;
    let found = trainer::evaluate_agent(config, environments, &pool, agent.as_mut(), round, keep, &mut watch)?;
    let mut run_dir = None;
    if let (Some(root), Some(episodes)) = (save_episodes, &found.episodes) {
        let directory = RunDirectory::create(root, config, now)?;
        let global_step = agent_state.as_ref().map_or(0, |agent| agent.global_step);
        let origin = Origin { global_step, seed: trainer::evaluation_seed(config.run.seed, round) };
        let mut nobody = |_: usize, _: usize| {};
        let drawn = drawn.unwrap_or(&mut nobody);
        let store = || {
            for (number, episode) in episodes.iter().enumerate() {
                stop.check()?;
                episode.write(&directory.episodes(global_step), number, origin)?;
            }
            if config.run.eval_render_videos {
                stop.check()?;
                drawn(0, episodes.len());
                let mut store = |number: usize, gif: &[u8]| {
                    stop.check()?;
                    directory.write_video(global_step, number, gif)?;
                    drawn(number + 1, episodes.len());
                    Ok(())
                };
                trainer::draw(config, environments, round, episodes, &mut store)?;
            }
            stop.check()?;
            let mut metadata = Metadata::new("evaluation", config, now, pool.threads());
            (metadata.git_hash, metadata.cores) = (host.git_hash, host.cores);
            let machine = metadata.machine();
            metadata.begin(now, global_step, machine);
            metadata.update(start.elapsed().as_secs_f64(), global_step, Status::Ok);
            directory.write_metadata(&metadata)
        };
        // Half of the episodes would be taken for all of them, and they can be played again.
        store().inspect_err(|_| directory.remove())?;
        run_dir = Some(directory.path().to_owned());
    }
    let [returns, lengths] = [found.return_summary(), found.length_summary()].map(|spread| {
        let none = Spread { mean: f64::NAN, std: f64::NAN, min: f64::NAN, max: f64::NAN };
        spread.unwrap_or(none)
    });
    Ok(EvaluationResults {
        mean_return: returns.mean,
        std_return: returns.std,
        min_return: returns.min,
        max_return: returns.max,
        mean_length: lengths.mean,
        std_length: lengths.std,
        min_length: lengths.min,
        max_length: lengths.max,
        mean_cost: found.cost_summary().map(|costs| costs.mean),
        termination_rate: found.termination_rate(),
        num_episodes: found.returns.len(),
        seed: config.run.seed,
        config: config.clone(),
        run_dir,
        episodes: found.episodes.filter(|_| return_episodes),
        episode_returns: found.returns,
        episode_lengths: found.lengths,
        agent_state,
    })
}
