//! Auto-tuning: what `phalanx.autotune` is made of.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use phalanx_core::batch::BatchConfig;
use phalanx_lab::autotune::cache::CacheFile;
use phalanx_lab::autotune::memory_model::MemoryModel;
use phalanx_lab::autotune::{AgentTimes, Event, Loop, Request, Subject, Tuned, tune};
use phalanx_lab::workload::Work;
use phalanx_learn::Config;
use phalanx_workbench::tuning::{self, Tunable};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::signals::Signals;
use crate::{lab, learn};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(suggest, module)?)?;
    module.add_function(wrap_pyfunction!(cache_path, module)?)?;
    module.add_function(wrap_pyfunction!(clear_cache, module)?)?;
    Ok(())
}

/// How often a search says how far it is.
const TELL: Duration = Duration::from_secs(2);

/// A subject whose loops look at Python's signals, so that Ctrl-C ends a search.
struct Interruptible<'a> {
    subject: &'a dyn Subject,
    signals: Signals,
}

impl Subject for Interruptible<'_> {
    fn env(&self) -> &str {
        self.subject.env()
    }

    fn env_hash(&self) -> String {
        self.subject.env_hash()
    }

    fn agent(&self) -> &str {
        self.subject.agent()
    }

    fn dtype(&self) -> &str {
        self.subject.dtype()
    }

    fn memory(&self) -> MemoryModel {
        self.subject.memory()
    }

    fn profile_envs(&self) -> usize {
        self.subject.profile_envs()
    }

    fn tiles(&self) -> &[usize] {
        self.subject.tiles()
    }

    fn agent_times(&self) -> phalanx_lab::Result<AgentTimes> {
        self.subject.agent_times()
    }

    fn start(&self, num_envs: usize, threads: usize) -> phalanx_lab::Result<Box<dyn Loop>> {
        let inner = self.subject.start(num_envs, threads)?;
        Ok(Box::new(Watched { inner, signals: self.signals.clone() }))
    }
}

/// A loop between whose samples signals are looked at: a look takes no part of a sample's time worth telling.
struct Watched {
    inner: Box<dyn Loop>,
    signals: Signals,
}

impl Loop for Watched {
    fn advance(&mut self, steps: usize, chunk: usize) -> phalanx_lab::Result<Work> {
        if self.signals.heard() {
            return Err(phalanx_lab::Error::Subject("the search was interrupted".to_owned()));
        }
        self.inner.advance(steps, chunk)
    }

    fn set_tile(&mut self, envs: usize) {
        self.inner.set_tile(envs);
    }
}

/// A text for whoever asked to be told.
fn say(tell: Option<&Py<PyAny>>, text: &str) -> PyResult<()> {
    let Some(tell) = tell else { return Ok(()) };
    Python::attach(|py| tell.bind(py).call1((text,)).map(drop))
}

/// Tunes with the user's cache, without Python's lock; tells of the cache and of the search.
fn tuned(request: &Request<'_>, signals: &Signals, tell: Option<&Py<PyAny>>) -> PyResult<Tuned> {
    let subject = Interruptible { subject: request.subject, signals: signals.clone() };
    let mut last = Instant::now();
    let mut observer = |Event::Round { what, round, left }: Event| {
        if last.elapsed() < TELL {
            return;
        }
        last = Instant::now();
        let candidates = if left == 1 { "candidate" } else { "candidates" };
        if let Err(error) = say(tell, &format!("autotune: {what}, round {round}, {left} {candidates} left\n")) {
            signals.raise(error);
        }
    };
    let found = tune(&Request { subject: &subject, ..*request }, CacheFile::of_user().as_ref(), &mut observer);
    if let Some(error) = signals.take() {
        return Err(error);
    }
    let found = found.map_err(lab::raised)?;
    found.warnings.iter().try_for_each(|warning| say(tell, &format!("warning: {warning}\n")))?;
    Ok(found)
}

/// The same run with the chunk size and the threads that are fastest here.
pub(crate) fn for_training(py: Python<'_>, config: Config, tell: Option<Py<PyAny>>) -> PyResult<Config> {
    py.detach(|| {
        let signals = Signals::new();
        let tunable = tuning::of_run(&config).map_err(learn::raised_by_workbench)?.stopped_by(signals.stop());
        let request = Request { threads: config.run.threads, ..tunable.request(config.run.num_envs, None) };
        let tuned = tuned(&request, &signals, tell.as_ref())?;
        say(tell.as_ref(), &format!("{}{tuned}", tunable.memory_line(&request)))?;
        Ok(tuning::tuned_run(config, &tuned))
    })
}

/// All that is known of the chunk size for an environment with an agent, as JSON.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // Python's half has the names
fn suggest(
    py: Python<'_>,
    num_envs: usize,
    env: String,
    agent: String,
    buffer_size: Option<usize>,
    force: bool,
    threads: Option<usize>,
    time_budget: Option<f64>,
    params: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    tell: Option<Py<PyAny>>,
) -> PyResult<String> {
    let time_budget = time_budget.map(Duration::try_from_secs_f64).transpose();
    let time_budget = time_budget.map_err(|error| PyValueError::new_err(format!("time_budget is no time: {error}")))?;
    py.detach(|| {
        let signals = Signals::new();
        let config = BatchConfig { settings: params, ..BatchConfig::default() };
        let tunable = Tunable::new(&env, &config, &agent, &settings, num_envs, buffer_size)
            .map_err(learn::raised_by_workbench)?
            .stopped_by(signals.stop());
        let request = Request { force, threads, time_budget, ..tunable.request(num_envs, buffer_size) };
        let tuned = tuned(&request, &signals, tell.as_ref())?;
        say(tell.as_ref(), &format!("{}{tuned}", tunable.memory_line(&request)))?;
        Ok(serde_json::to_string(&tuned).expect("plain data"))
    })
}

/// Where the profiles of this machine are remembered; nowhere without a home folder.
#[pyfunction]
fn cache_path() -> Option<PathBuf> {
    CacheFile::of_user().map(|cache| cache.path().to_owned())
}

/// Forgets them; answers the files that are gone.
#[pyfunction]
fn clear_cache() -> PyResult<Vec<PathBuf>> {
    CacheFile::of_user().map_or(Ok(Vec::new()), |cache| cache.clear()).map_err(lab::raised)
}
