//! Training and evaluation: what `phalanx.training` and `phalanx.results` are made of.

use std::path::{Path, PathBuf};
use std::time::Instant;

use numpy::{IntoPyArray, PyArray2, PyArrayMethods};
use phalanx_lab::build_info::Git;
use phalanx_lab::machine::Machine;
use phalanx_learn::api::environments_of;
use phalanx_learn::run::checkpoint::{Checkpoint, FINAL, path_of, step_name};
use phalanx_learn::run::directory::load_run;
use phalanx_learn::run::episodes::{Actions, Episode};
use phalanx_learn::stages::Stages;
use phalanx_learn::state::{Array, Data, State};
use phalanx_learn::trainer::{self, Progress};
use phalanx_learn::{
    Config, Error, EvalOptions, Host, Observer, Stop, TrainOptions, TrainingResults, create_eval_config, evaluate,
    resume, train_and_evaluate,
};
use phalanx_workbench::Registered;
use phalanx_workbench::tuning::is_wanted_by_variable;
use pyo3::exceptions::{
    PyArithmeticError, PyFileNotFoundError, PyNotImplementedError, PyOSError, PyRuntimeError, PyUserWarning,
    PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::signals::{LOOK, Signals};
use crate::{autotune, error};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyConfig>()?;
    module.add_class::<AgentState>()?;
    module.add_class::<Trained>()?;
    module.add_function(wrap_pyfunction!(train, module)?)?;
    module.add_function(wrap_pyfunction!(resume_run, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate_agent, module)?)?;
    module.add_function(wrap_pyfunction!(read_run, module)?)?;
    module.add_function(wrap_pyfunction!(read_checkpoint, module)?)?;
    module.add_function(wrap_pyfunction!(read_results, module)?)?;
    Ok(())
}

/// The exception that tells of an error of learning.
pub(crate) fn raised(error: Error) -> PyErr {
    let message = error.to_string();
    match error {
        // A name in a configuration is a value like others; only environments have an exception of their own.
        Error::Engine(phalanx_core::Error::UnknownName { kind, .. }) if kind != "environment" => {
            PyValueError::new_err(message)
        }
        Error::Engine(error) => error::to_python(error),
        Error::Read { ref path, .. } if !Path::new(path).exists() => PyFileNotFoundError::new_err(message),
        Error::Read { .. } | Error::Write { .. } => PyOSError::new_err(message),
        Error::Busy { .. } => PyRuntimeError::new_err(message),
        Error::NotFinite { .. } => PyArithmeticError::new_err(message),
        Error::Picture { .. } => PyNotImplementedError::new_err(message),
        _ => PyValueError::new_err(message),
    }
}

/// The exception that tells of an error where parts meet.
pub(crate) fn raised_by_workbench(error: phalanx_workbench::Error) -> PyErr {
    match error {
        phalanx_workbench::Error::Engine(error) => raised(error.into()),
        phalanx_workbench::Error::Learn(error) => raised(error),
        phalanx_workbench::Error::Lab(error) => crate::lab::raised(error),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// A strict, complete configuration of a run.
#[pyclass(frozen, eq, name = "Config", module = "phalanx._phalanx")]
#[derive(Clone, PartialEq)]
pub(crate) struct PyConfig(pub(crate) Config);

impl PyConfig {
    /// The settings of something that was made before, perhaps with environments or files that are not here.
    fn of_text(text: &str) -> PyResult<Self> {
        Config::from_toml(text).map(Self).map_err(raised)
    }
}

/// Refuses an environment that is not there or cannot be made as the settings say: better now than when the run begins.
fn checked(config: phalanx_learn::Result<Config>) -> PyResult<PyConfig> {
    let config = config.map_err(raised)?;
    let environments = Registered::find(&config.env.name).map_err(raised_by_workbench)?;
    trainer::check_env(&config, &environments).map_err(raised)?;
    Ok(PyConfig(config))
}

/// Pairs of keys and texts as learning takes them.
fn borrowed(settings: &[(String, String)]) -> Vec<(&str, &str)> {
    settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

#[pymethods]
impl PyConfig {
    /// The preset of an environment and an agent, `defaults` over it, and `settings` over both. Without a preset a run
    /// makes 1000 steps in each environment.
    #[staticmethod]
    fn create(
        env: &str,
        agent: &str,
        defaults: Vec<(String, String)>,
        settings: Vec<(String, String)>,
    ) -> PyResult<Self> {
        const LENGTH: (&str, &str) = ("run.steps_per_env", "1000");
        let names = [("env.name", env), ("agent.name", agent)];
        let texts: Vec<String> =
            names.iter().copied().chain(borrowed(&settings)).map(|(key, value)| format!("{key}={value}")).collect();
        let load = |defaults: &[(&str, &str)]| Config::load_over(defaults, None, texts.iter().map(String::as_str));
        let defaults = borrowed(&defaults);
        let made = load(&defaults).or_else(|error| match &error {
            Error::Setting { key, why } if key == LENGTH.0 && why.starts_with("is missing") => {
                load(&[&defaults[..], &[LENGTH]].concat())
            }
            _ => Err(error),
        });
        checked(made)
    }

    #[staticmethod]
    fn for_evaluation(env: &str, agent: &str, settings: Vec<(String, String)>) -> PyResult<Self> {
        checked(create_eval_config(env, agent, &borrowed(&settings)))
    }

    #[staticmethod]
    fn from_toml(text: &str) -> PyResult<Self> {
        checked(Config::from_toml(text))
    }

    /// What `to_toml` of a configuration wrote, which is not checked again: what it speaks of may not be here.
    #[staticmethod]
    fn unpickled(text: &str) -> PyResult<Self> {
        Self::of_text(text)
    }

    #[staticmethod]
    fn load(path: PathBuf, settings: Vec<(String, String)>) -> PyResult<Self> {
        let texts: Vec<String> = settings.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        checked(Config::load(Some(&path), texts.iter().map(String::as_str)))
    }

    /// The same with other settings.
    fn replaced(&self, settings: Vec<(String, String)>) -> PyResult<Self> {
        checked(self.0.with(borrowed(&settings)))
    }

    fn to_toml(&self) -> String {
        self.0.to_toml()
    }

    fn to_json(&self) -> String {
        serde_json::to_string(&self.0.table()).expect("settings are plain data")
    }

    #[getter]
    fn total_timesteps(&self) -> u64 {
        self.0.run.total_timesteps()
    }

    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }
}

/// A moment of an agent's life: all that it needs to act and to learn on.
#[pyclass(frozen, eq, module = "phalanx._phalanx")]
#[derive(Clone, PartialEq)]
pub(crate) struct AgentState(Checkpoint);

#[pymethods]
impl AgentState {
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| Checkpoint::read(&path)).map(Self).map_err(raised)
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.0.write(&path)).map_err(raised)
    }

    #[getter]
    fn agent(&self) -> &str {
        &self.0.agent
    }

    #[getter]
    fn global_step(&self) -> u64 {
        self.0.global_step
    }

    #[getter]
    fn best_score(&self) -> Option<f64> {
        self.0.best_score
    }

    #[getter]
    fn config(&self) -> PyResult<PyConfig> {
        PyConfig::of_text(&self.0.config)
    }

    /// All of it, for pickles.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.to_bytes()))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: Vec<u8>) -> PyResult<Self> {
        py.detach(|| Checkpoint::from_bytes(bytes)).map(Self).map_err(raised)
    }

    /// Its arrays by name: weights, optimiser, buffers, environments.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        arrays(py, &self.0.state)
    }

    fn __repr__(&self) -> String {
        format!("<AgentState of {} after {} steps>", self.0.agent, self.0.global_step)
    }
}

/// The arrays of a state, copied.
fn arrays<'py>(py: Python<'py>, state: &State) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    for (name, array) in state.arrays() {
        let Array { shape, data } = array.as_ref();
        let array = match data {
            Data::F32(data) => data.clone().into_pyarray(py).reshape(shape.clone())?.into_any(),
            Data::F64(data) => data.clone().into_pyarray(py).reshape(shape.clone())?.into_any(),
            Data::U8(data) => data.clone().into_pyarray(py).reshape(shape.clone())?.into_any(),
            Data::U32(data) => data.clone().into_pyarray(py).reshape(shape.clone())?.into_any(),
            Data::U64(data) => data.clone().into_pyarray(py).reshape(shape.clone())?.into_any(),
        };
        found.set_item(name, array)?;
    }
    Ok(found)
}

/// What came out of training.
#[pyclass(frozen, module = "phalanx._phalanx")]
pub(crate) struct Trained(TrainingResults);

#[pymethods]
impl Trained {
    #[staticmethod]
    fn load(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        py.detach(|| TrainingResults::load(&folder)).map(Self).map_err(raised)
    }

    /// What was measured, for pickles.
    fn metrics(&self) -> String {
        serde_json::to_string(&(&self.0.training_metrics, &self.0.eval_metrics)).expect("plain data")
    }

    /// Puts together what a pickle holds.
    #[staticmethod]
    fn unpickled(
        agent_state: &AgentState,
        config: &PyConfig,
        metrics: &str,
        run_dir: Option<PathBuf>,
        flags: (bool, bool),
        training_seconds: f64,
    ) -> PyResult<Self> {
        let metrics = serde_json::from_str(metrics).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let ((training_metrics, eval_metrics), (complete, stored)) = (metrics, flags);
        Ok(Self(TrainingResults {
            final_env_state: environments_of(&agent_state.0),
            agent_state: agent_state.0.clone(),
            training_metrics,
            eval_metrics,
            config: config.0.clone(),
            run_dir,
            complete,
            stored,
            training_seconds,
            stages: Stages::default(),
        }))
    }

    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        py.detach(|| self.0.save(&folder)).map_err(raised)
    }

    #[getter]
    fn agent_state(&self) -> AgentState {
        AgentState(self.0.agent_state.clone())
    }

    #[getter]
    fn config(&self) -> PyConfig {
        PyConfig(self.0.config.clone())
    }

    #[getter]
    fn run_dir(&self) -> Option<PathBuf> {
        self.0.run_dir.clone()
    }

    #[getter]
    fn complete(&self) -> bool {
        self.0.complete
    }

    #[getter]
    fn stored(&self) -> bool {
        self.0.stored
    }

    #[getter]
    fn training_seconds(&self) -> f64 {
        self.0.training_seconds
    }

    fn training_metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metrics = &self.0.training_metrics;
        let agent_metrics = PyDict::new(py);
        for (name, values) in &metrics.agent_metrics {
            agent_metrics.set_item(name, values.clone().into_pyarray(py))?;
        }
        let found = PyDict::new(py);
        found.set_item("global_steps", steps(py, &metrics.global_steps))?;
        found.set_item("steps_per_env", steps(py, &metrics.steps_per_env))?;
        found.set_item("loss", metrics.loss.clone().into_pyarray(py))?;
        found.set_item("reward", metrics.reward.clone().into_pyarray(py))?;
        found.set_item("agent_metrics", agent_metrics)?;
        Ok(found)
    }

    fn eval_metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metrics = &self.0.eval_metrics;
        let lengths: Vec<Vec<i64>> =
            metrics.episode_lengths.iter().map(|all| all.iter().map(|length| *length as i64).collect()).collect();
        let found = PyDict::new(py);
        found.set_item("global_steps", steps(py, &metrics.global_steps))?;
        found.set_item("steps_per_env", steps(py, &metrics.steps_per_env))?;
        found.set_item("episode_returns", PyArray2::from_vec2(py, &metrics.episode_returns)?)?;
        found.set_item("episode_lengths", PyArray2::from_vec2(py, &lengths)?)?;
        found.set_item("mean_return", metrics.mean_return.clone().into_pyarray(py))?;
        found.set_item("std_return", metrics.std_return.clone().into_pyarray(py))?;
        found.set_item("mean_length", metrics.mean_length.clone().into_pyarray(py))?;
        Ok(found)
    }

    fn final_env_state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        arrays(py, &self.0.final_env_state)
    }

    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let summary = self.0.summary();
        let found = PyDict::new(py);
        found.set_item("final_eval_return_mean", summary.final_eval_return_mean)?;
        found.set_item("final_eval_return_std", summary.final_eval_return_std)?;
        found.set_item("training_steps_per_env", summary.training_steps_per_env)?;
        found.set_item("training_global_steps", summary.training_global_steps)?;
        found.set_item("num_eval_checkpoints", summary.num_eval_checkpoints)?;
        Ok(found)
    }
}

/// Counts as the signed numbers that NumPy computes with.
fn steps<'py>(py: Python<'py>, counts: &[u64]) -> Bound<'py, PyAny> {
    counts.iter().map(|count| *count as i64).collect::<Vec<_>>().into_pyarray(py).into_any()
}

/// Lets Python see how a run goes on, and ends it when a signal handler raises or the callback wants it to.
struct Watcher {
    callback: Option<Py<PyAny>>,
    last: Option<Instant>,
    run_dir: Option<PathBuf>,
    /// What was raised meanwhile, to be raised again after the run has stored what it has.
    signals: Signals,
}

impl Watcher {
    fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { callback, last: None, run_dir: None, signals: Signals::new() }
    }

    fn look(&self, now: &Progress) -> PyResult<bool> {
        Python::attach(|py| {
            let Some(callback) = &self.callback else { return Ok(true) };
            let told = PyDict::new(py);
            told.set_item("global_step", now.global_step)?;
            told.set_item("first_step", now.first_step)?;
            told.set_item("total", now.total)?;
            told.set_item("steps_per_second", now.steps_per_second)?;
            told.set_item("loss", now.loss)?;
            told.set_item("episode_return", now.episode_return)?;
            told.set_item("eval_return", now.eval_return)?;
            told.set_item("checkpoint", now.stored.map(step_name))?;
            told.set_item("run_dir", self.run_dir.as_ref())?;
            // Only `False` ends a run, be it Python's or NumPy's: most callbacks return nothing, some by chance a 0.
            let answer = callback.bind(py).call1((told,))?;
            Ok(answer.extract::<bool>().unwrap_or(true))
        })
    }
}

impl Observer for Watcher {
    fn progress(&mut self, now: &Progress) -> bool {
        if self.signals.heard() {
            return false;
        }
        let is_over = now.global_step >= now.total;
        if !is_over && self.last.is_some_and(|last| last.elapsed() < LOOK) {
            return true;
        }
        let answer = self.look(now);
        self.last = Some(Instant::now());
        answer.unwrap_or_else(|error| {
            self.signals.raise(error);
            false
        })
    }

    fn started(&mut self, run_dir: &Path) {
        self.run_dir = Some(run_dir.to_owned());
    }

    fn warning(&mut self, warning: &str) {
        if let Err(error) = Python::attach(|py| warn(py, warning)) {
            self.signals.raise(error);
        }
    }

    fn stop(&self) -> Stop {
        self.signals.stop()
    }
}

fn warn(py: Python<'_>, warning: &str) -> PyResult<()> {
    py.import("warnings")?.call_method1("warn", (warning, py.get_type::<PyUserWarning>(), 2)).map(drop)
}

/// What this program knows of itself and its machine.
fn host() -> Host {
    Host { git_hash: Git::of_this_binary().sha, cores: Machine::detect().cores }
}

/// What training came to, and what was raised meanwhile.
type Ended = (Trained, Option<Py<PyAny>>);

fn ended(py: Python<'_>, trained: phalanx_learn::Result<TrainingResults>, watcher: Watcher) -> PyResult<Ended> {
    let trained = Trained(trained.map_err(raised)?);
    Ok((trained, watcher.signals.take().map(|error| error.into_value(py).into_any())))
}

/// Trains and evaluates, with neither Python's lock nor its help; looks at signals all the while.
#[pyfunction]
#[pyo3(signature = (config, root, run_dir, resume_from, threads, callback, tell))]
#[allow(clippy::too_many_arguments)] // Python's half has the names
fn train(
    py: Python<'_>,
    config: &PyConfig,
    root: Option<PathBuf>,
    run_dir: Option<PathBuf>,
    resume_from: Option<&AgentState>,
    threads: Option<usize>,
    callback: Option<Py<PyAny>>,
    tell: Option<Py<PyAny>>,
) -> PyResult<Ended> {
    let mut config = config.0.clone();
    for warning in config.warnings() {
        warn(py, &warning)?;
    }
    if config.run.auto_tune || is_wanted_by_variable().map_err(raised_by_workbench)? {
        config = autotune::for_training(py, config, tell)?;
    }
    let environments = || {
        Registered::find(&config.env.name).map_err(|error| match error {
            phalanx_workbench::Error::Learn(error) => error,
            phalanx_workbench::Error::Engine(error) => error.into(),
            other => Error::Setting { key: "env.name".to_owned(), why: other.to_string() },
        })
    };
    let mut watcher = Watcher::new(callback);
    let trained = py.detach(|| {
        let options = TrainOptions {
            root: root.as_deref(),
            run_dir: run_dir.as_deref(),
            resume_from: resume_from.map(|state| &state.0),
            steps_per_env: None,
            threads,
            host: host(),
            observer: Some(&mut watcher),
            ..TrainOptions::default()
        };
        train_and_evaluate(&config, &environments()?, options)
    });
    ended(py, trained, watcher)
}

/// Goes on with a run from its last complete checkpoint.
#[pyfunction]
fn resume_run(
    py: Python<'_>,
    run: PathBuf,
    steps_per_env: Option<u64>,
    threads: Option<usize>,
    callback: Option<Py<PyAny>>,
) -> PyResult<Ended> {
    let mut watcher = Watcher::new(callback);
    let name = load_run(&run).map_err(raised)?.config.env.name;
    Registered::find(&name).map_err(raised_by_workbench)?;
    let trained = py.detach(|| {
        let environments = Registered::find(&name).expect("it was found");
        let options = TrainOptions {
            steps_per_env,
            threads,
            host: host(),
            observer: Some(&mut watcher),
            ..TrainOptions::default()
        };
        resume(&run, &environments, options)
    });
    ended(py, trained, watcher)
}

/// Plays whole episodes with an agent's best actions.
#[pyfunction]
fn evaluate_agent<'py>(
    py: Python<'py>,
    config: &PyConfig,
    agent_state: Option<&AgentState>,
    return_episodes: bool,
    save_episodes: Option<PathBuf>,
) -> PyResult<Bound<'py, PyDict>> {
    Registered::find(&config.0.env.name).map_err(raised_by_workbench)?;
    let (signals, agent_state) = (Signals::new(), agent_state.map(|state| state.0.clone()));
    let found = py.detach(|| {
        let environments = Registered::find(&config.0.env.name).expect("it was found");
        let (save_episodes, stop) = (save_episodes.as_deref(), signals.stop());
        let options =
            EvalOptions { agent_state, return_episodes, save_episodes, host: host(), stop, ..EvalOptions::default() };
        evaluate(&config.0, &environments, options)
    });
    if let Some(interrupt) = signals.take() {
        return Err(interrupt);
    }
    let found = found.map_err(raised)?;
    let told = PyDict::new(py);
    for (name, value) in [
        ("mean_return", found.mean_return),
        ("std_return", found.std_return),
        ("min_return", found.min_return),
        ("max_return", found.max_return),
        ("mean_length", found.mean_length),
        ("std_length", found.std_length),
        ("min_length", found.min_length),
        ("max_length", found.max_length),
        ("termination_rate", found.termination_rate),
    ] {
        told.set_item(name, value)?;
    }
    let lengths: Vec<i64> = found.episode_lengths.iter().map(|length| i64::from(*length)).collect();
    told.set_item("mean_cost", found.mean_cost)?;
    told.set_item("episode_returns", found.episode_returns.into_pyarray(py))?;
    told.set_item("episode_lengths", lengths.into_pyarray(py))?;
    told.set_item("num_episodes", found.num_episodes)?;
    told.set_item("seed", found.seed)?;
    told.set_item("run_dir", found.run_dir)?;
    let episodes = found.episodes.map(|all| all.into_iter().map(|one| episode(py, one)).collect::<PyResult<Vec<_>>>());
    told.set_item("episodes", episodes.transpose()?)?;
    Ok(told)
}

fn episode<'py>(py: Python<'py>, episode: Episode) -> PyResult<Bound<'py, PyDict>> {
    let length = episode.length();
    let at_the_end = |flag: bool| (1..=length).map(|step| flag && step == length).collect::<Vec<_>>().into_pyarray(py);
    let told = PyDict::new(py);
    told.set_item("terminated", at_the_end(episode.terminated))?;
    told.set_item("truncated", at_the_end(episode.truncated))?;
    told.set_item("rewards", episode.rewards.into_pyarray(py))?;
    let rows = [length + 1, episode.observation_size];
    told.set_item("observations", episode.observations.into_pyarray(py).reshape(rows)?)?;
    let actions = match episode.actions {
        Actions::Discrete(actions) => actions.into_pyarray(py).into_any(),
        Actions::MultiDiscrete { size, choices } => choices.into_pyarray(py).reshape([length, size])?.into_any(),
        Actions::Continuous { size, values } => values.into_pyarray(py).reshape([length, size])?.into_any(),
    };
    told.set_item("actions", actions)?;
    Ok(told)
}

/// A run's settings and its metadata as JSON.
#[pyfunction]
fn read_run(py: Python<'_>, run: PathBuf) -> PyResult<(PyConfig, Option<String>)> {
    let found = py.detach(|| load_run(&run)).map_err(raised)?;
    found.warnings.iter().try_for_each(|warning| warn(py, warning))?;
    let metadata = found.metadata.as_ref().map(|metadata| serde_json::to_string(metadata).expect("plain data"));
    Ok((PyConfig(found.config), metadata))
}

/// A checkpoint of a run: the furthest if none is named.
#[pyfunction]
fn read_checkpoint(py: Python<'_>, run: PathBuf, name: Option<&str>) -> PyResult<Option<AgentState>> {
    let read = || {
        let found = load_run(&run)?;
        let mut warnings = found.warnings.clone();
        let state = match name {
            Some(name) => Some(found.load_checkpoint(name)?),
            None => found.last_checkpoint()?.map(|last| {
                warnings.extend(last.passed_over.iter().map(|why| format!("{why}; taking the one before")));
                last.checkpoint
            }),
        };
        Ok((state, warnings))
    };
    let (state, warnings) = py.detach(read).map_err(raised)?;
    warnings.iter().try_for_each(|warning| warn(py, warning))?;
    Ok(state.map(AgentState))
}

/// What came out of a run; none if it did not come to its end or stored no agent.
#[pyfunction]
fn read_results(py: Python<'_>, run: PathBuf) -> PyResult<Option<Trained>> {
    let read = || {
        let found = load_run(&run)?;
        // What is damaged counts as missing there, with a warning; here it is to be told apart.
        let is_over = found.results.is_some() || !found.warnings.is_empty();
        let has_agent = path_of(&found.directory.checkpoints(), FINAL).exists();
        (is_over && has_agent).then(|| TrainingResults::load(&run)).transpose()
    };
    Ok(py.detach(read).map_err(raised)?.map(Trained))
}
