//! What a run writes while it goes on: metrics, events, checkpoints, episodes.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::Result;
use crate::evaluation::Evaluation;
use crate::run::checkpoint::Checkpoint;
use crate::run::config::Config;
use crate::run::directory::{Results, RunDirectory};
use crate::run::episodes::Origin;
use crate::run::events::{self, EventFile};
use crate::run::metrics::MetricsLog;

/// The open files of a run.
pub(super) struct Journal {
    directory: RunDirectory,
    metrics: MetricsLog,
    events: Option<EventFile>,
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

impl Journal {
    /// Opens the files of a run that is at `global_step`; what they have of later steps is dropped.
    pub(super) fn open(directory: RunDirectory, config: &Config, global_step: u64) -> Result<Self> {
        let folder = directory.path();
        let metrics = MetricsLog::open(folder, config.log.csv, config.log.jsonl, global_step)?;
        let mut events = config.log.tensorboard.then(|| EventFile::create(folder, now(), global_step)).transpose()?;
        if let Some(events) = events.as_mut().filter(|events| events.is_first()) {
            events.text(0, now(), "hyperparameters", &events::hyperparameters(&config.flat()))?;
        }
        Ok(Self { directory, metrics, events })
    }

    pub(super) fn scalars(&mut self, global_step: u64, values: &[(&str, f64)]) -> Result<()> {
        let time = now();
        self.metrics.log(global_step, time, values)?;
        let written = self.events.as_mut().map_or(Ok(()), |events| events.scalars(global_step, time, values));
        if written.is_err() {
            self.metrics.take_back();
        }
        written
    }

    pub(super) fn checkpoint(&self, name: &str, checkpoint: &Checkpoint) -> Result<()> {
        self.directory.write_checkpoint(name, checkpoint).map(drop)
    }

    /// Removes a checkpoint that a later one has made superfluous; one that stays does no harm.
    pub(super) fn remove_checkpoint(&self, name: &str) {
        self.directory.remove_checkpoint(name);
    }

    /// Stores what was learnt in a form that other programs read.
    pub(super) fn export(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.directory.write_export(name, bytes)
    }

    pub(super) fn results(&self, results: &Results) -> Result<()> {
        self.directory.write_results(results)
    }

    /// Stores the episodes of an evaluation.
    pub(super) fn episodes(&self, found: &Evaluation, origin: Origin, count: usize) -> Result<()> {
        let folder = self.directory.episodes(origin.global_step);
        let mut episodes = found.episodes.iter().flatten().take(count).enumerate();
        episodes.try_for_each(|(number, episode)| episode.write(&folder, number, origin).map(drop))
    }

    /// Stores the video of an episode of an evaluation.
    pub(super) fn video(&self, global_step: u64, number: usize, gif: &[u8]) -> Result<()> {
        self.directory.write_video(global_step, number, gif)
    }
}
