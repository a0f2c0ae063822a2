//! What a run writes while it goes on: metrics, events, checkpoints, episodes.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::Result;
use crate::evaluation::Evaluation;
use crate::run::checkpoint::Checkpoint;
use crate::run::config::Config;
use crate::run::directory::{Results, RunDirectory};
use crate::run::episodes::{Actions, Episode};
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
        if let Some(events) = events.as_mut().filter(|_| global_step == 0) {
            events.text(0, now(), "hyperparameters", &events::hyperparameters(&config.flat()))?;
        }
        Ok(Self { directory, metrics, events })
    }

    pub(super) fn scalars(&mut self, global_step: u64, values: &[(&str, f64)]) -> Result<()> {
        let time = now();
        self.metrics.log(global_step, time, values)?;
        self.events.as_mut().map_or(Ok(()), |events| events.scalars(global_step, time, values))
    }

    pub(super) fn checkpoint(&self, name: &str, checkpoint: &Checkpoint) -> Result<()> {
        self.directory.write_checkpoint(name, checkpoint).map(drop)
    }

    pub(super) fn results(&self, results: &Results) -> Result<()> {
        self.directory.write_results(results)
    }

    /// Whether the episodes of the next evaluation are stored.
    pub(super) fn keeps_episodes(&self, config: &Config, results: &Results) -> bool {
        let every = config.run.eval_episode_save_frequency;
        every > 0 && (results.eval_metrics.global_steps.len() as u64).is_multiple_of(every)
    }

    /// Stores the episodes of an evaluation, if it kept them.
    pub(super) fn episodes(&self, global_step: u64, config: &Config, found: &Evaluation) -> Result<()> {
        let Some(episodes) = &found.episodes else { return Ok(()) };
        let count = config.run.eval_episode_save_count.unwrap_or(episodes.len());
        let folder = self.directory.episodes(global_step);
        for (number, episode) in episodes.iter().take(count).enumerate() {
            let steps = episode.rewards.len();
            let flags = |at_the_end: bool| (1..=steps).map(|step| at_the_end && step == steps).collect();
            let stored = Episode {
                observation_size: episode.observations.len() / (steps + 1),
                observations: episode.observations.clone(),
                actions: Actions::Continuous {
                    size: episode.actions.len() / steps.max(1),
                    values: episode.actions.clone(),
                },
                rewards: episode.rewards.clone(),
                terminated: flags(episode.terminated),
                truncated: flags(episode.truncated),
                global_step,
                seed: config.run.seed,
            };
            stored.write(&folder, number)?;
        }
        Ok(())
    }
}
