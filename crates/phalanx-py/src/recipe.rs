//! How the batch of an environment is built, and built again in a process that was forked.

use std::sync::Arc;

use phalanx_core::batch::{Autoreset, Batch, BatchConfig};
use phalanx_core::pool::Pool;
use phalanx_core::probe::Precision;
use phalanx_core::safety::{Constraint, SafetyConfig, SafetyMode};
use phalanx_core::space::EnvSpec;
use phalanx_core::{Error, Result};
use phalanx_envs::registry::{self, Entry};

/// Environments for which a single step is worth a second thread.
const ENVS_WORTH_A_THREAD: usize = 2_048;

/// The most threads that make sense to ask for.
const MAX_THREADS: usize = 1024;

/// An environment, its settings and the threads it may use.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) entry: &'static Entry,
    config: BatchConfig,
    threads: usize,
}

/// The environment of a name, which may have the prefix under which Gymnasium knows it.
pub(crate) fn find(id: &str) -> Result<&'static Entry> {
    registry::find(id.strip_prefix("phalanx/").unwrap_or(id))
}

/// Threads that can run at once here: what the system, its control groups and the affinity of the process allow.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What a user chose by name.
pub(crate) struct Choices<'a> {
    pub(crate) num_envs: usize,
    pub(crate) seed: u64,
    pub(crate) autoreset: Autoreset,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) safety: &'a str,
    pub(crate) constraints: &'a [String],
    pub(crate) threads: Option<usize>,
    pub(crate) time_limit: bool,
}

impl Recipe {
    /// Checks what can be checked before anything is built.
    pub(crate) fn new(id: &str, choices: Choices<'_>) -> Result<Self> {
        let entry = find(id)?;
        let modes = SafetyMode::NAMES;
        let mode = modes.iter().find(|(name, _)| *name == choices.safety).map(|(_, mode)| *mode);
        let mode =
            mode.ok_or_else(|| Error::unknown("safety mode", choices.safety, None, modes.map(|(name, _)| name)))?;
        let constraints = choices.constraints.iter().map(|text| Constraint::parse(text)).collect::<Result<_>>()?;
        let threads =
            choices.threads.unwrap_or_else(|| if choices.num_envs < ENVS_WORTH_A_THREAD { 1 } else { cores() });
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(Error::out_of_range("the number of threads", threads, format!("from 1 to {MAX_THREADS}")));
        }
        let config = BatchConfig {
            num_envs: choices.num_envs,
            seed: choices.seed,
            autoreset: choices.autoreset,
            settings: choices.settings,
            safety: SafetyConfig { mode, constraints },
            time_limit: choices.time_limit,
            ..BatchConfig::default()
        };
        Ok(Self { entry, config, threads })
    }

    /// The same environments with another way of going on after an end.
    pub(crate) fn with_autoreset(mut self, autoreset: Autoreset) -> Self {
        self.config.autoreset = autoreset;
        self
    }

    /// What the environments are like, with the options in force, before there are any.
    pub(crate) fn spec(&self) -> Result<EnvSpec> {
        let default = self.entry.spec();
        if self.config.settings.iter().any(|(name, _)| default.options.iter().any(|option| option.name == name)) {
            return Ok(self.entry.probe(&self.config, Precision::F32)?.spec().clone());
        }
        Ok(default)
    }

    pub(crate) fn build(&self) -> Result<Box<dyn Batch>> {
        let pool = Pool::try_new(self.threads).map_err(|error| {
            Error::System(format!("cannot start {} threads for {}: {error}", self.threads, self.entry.spec().name))
        })?;
        self.entry.batch(&BatchConfig { pool: Arc::new(pool), ..self.config.clone() })
    }
}
