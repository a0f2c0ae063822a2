//! What is tuned for whom, and a run with what was found.

use phalanx_core::batch::BatchConfig;
use phalanx_core::policy::POLICIES;
use phalanx_lab::autotune::candidates::Schedule;
use phalanx_lab::autotune::{Request, Subject, Tuned};
use phalanx_lab::case::LEARNERS;
use phalanx_lab::format::format_bytes;
use phalanx_learn::Stop;
use phalanx_learn::run::config::Config;

use crate::error::{Error, Result};
use crate::learner_subject::LearnerSubject;
use crate::learning;
use crate::rollout_subject::RolloutSubject;

/// What can be tuned.
#[derive(Debug)]
pub enum Tunable {
    /// Roll-outs under a built-in policy.
    Rollout(Box<RolloutSubject>),
    /// The training of an agent.
    Training(Box<LearnerSubject>),
}

/// The agent of that name, if it learns.
pub fn learner(agent: &str) -> Option<&'static str> {
    LEARNERS.into_iter().find(|name| name.eq_ignore_ascii_case(agent))
}

/// The engine's name of a policy, which papers write in two words.
pub fn policy_name(name: &str) -> &str {
    if name == "bang-bang" { "bangbang" } else { name }
}

impl Tunable {
    /// An environment and an agent, by name: one that learns with `arguments` over its preset, else a policy with them.
    /// Only what learns from a buffer takes its size as a setting.
    pub fn new(
        env: &str,
        config: &BatchConfig,
        agent: &str,
        arguments: &[(String, String)],
        num_envs: usize,
        buffer_size: Option<usize>,
    ) -> Result<Self> {
        /// Steps of all environments that schedules refer to: a number that no preset lacks.
        const SCHEDULED: usize = 1_000_000;
        let Some(name) = learner(agent) else {
            let policies = POLICIES.map(|(name, ..)| name);
            if !policies.contains(&policy_name(agent)) {
                let known = policies.into_iter().chain(LEARNERS);
                return Err(phalanx_core::Error::unknown("agent", agent, None, known).into());
            }
            let subject = RolloutSubject::new(env, config, policy_name(agent), arguments)?;
            return Ok(Self::Rollout(Box::new(subject)));
        };
        let mut all: Vec<_> = learning::of_env(&config.settings).collect();
        let run = [("num_envs", num_envs), ("total_timesteps", SCHEDULED.max(num_envs))];
        all.extend(run.map(|(key, value)| (format!("run.{key}"), value.to_string())));
        match buffer_size {
            Some(size) if name == "dqn" => all.push(("run.buffer_size".to_owned(), size.to_string())),
            Some(size) => {
                return Err(Error::input(format!("the buffer size is {size}, but {agent} has no replay buffer")));
            }
            None => (),
        }
        all.extend(arguments.iter().cloned());
        Self::training(learning::settings(env, name, &all)?)
    }

    /// The training of a run; its chunk size, threads and seed do not matter.
    pub fn training(config: Config) -> Result<Self> {
        Ok(Self::Training(Box::new(LearnerSubject::new(config)?)))
    }

    /// The same, but a search fails soon after `stop` wants it to, also in the midst of a long roll-out of a learner.
    pub fn stopped_by(self, stop: Stop) -> Self {
        match self {
            Self::Training(subject) => Self::Training(Box::new(subject.stopped_by(stop))),
            rollout @ Self::Rollout(_) => rollout,
        }
    }

    /// As the tuner sees it.
    pub fn subject(&self) -> &dyn Subject {
        match self {
            Self::Rollout(subject) => subject.as_ref(),
            Self::Training(subject) => subject.as_ref(),
        }
    }

    /// Steps that its loops have made so far, all environments together.
    pub fn steps_made(&self) -> u64 {
        match self {
            Self::Rollout(subject) => subject.steps_made(),
            Self::Training(subject) => subject.steps_made(),
        }
    }

    /// The usual request for it; `buffer_size` sets memory aside beside a roll-out, training knows its own.
    pub fn request(&self, num_envs: usize, buffer_size: Option<usize>) -> Request<'_> {
        let (buffer_size, schedule) = match self {
            Self::Rollout(_) => (buffer_size.map(|size| size as u64), Schedule::default()),
            Self::Training(subject) => (subject.buffer_size(), subject.schedule()),
        };
        Request { buffer_size, schedule, ..Request::new(self.subject(), num_envs) }
    }

    /// What a run is expected to take, for people; nothing of roll-outs, which keep nothing.
    pub fn memory_line(&self, request: &Request<'_>) -> String {
        let Self::Training(subject) = self else { return String::new() };
        let (model, buffer) = (subject.memory(), request.buffer_size.unwrap_or(0));
        let all = format_bytes(model.bytes(request.num_envs, buffer, 1));
        let of_buffer = match buffer {
            0 => String::new(),
            _ => {
                let bytes = model.bytes(0, buffer, 1) - model.bytes(0, 0, 1);
                format!(", {} of them for the replay buffer", format_bytes(bytes))
            }
        };
        format!("memory        {all} predicted{of_buffer}\n")
    }
}

/// What is tuned before a run that asks for it.
pub fn of_run(config: &Config) -> Result<Tunable> {
    if let Some(chunk) = config.run.scan_chunk_size {
        return Err(Error::input(format!(
            "run.scan_chunk_size is {chunk}, but --auto-tune, run.auto_tune or {VARIABLE} asks to tune it: leave out one of \
             them"
        )));
    }
    Tunable::training(config.clone())
}

/// The same run with the chunk size and the threads that were found.
pub fn tuned_run(mut config: Config, tuned: &Tuned) -> Config {
    config.run.scan_chunk_size = Some(tuned.scan_chunk_size);
    config.run.threads = Some(tuned.threads);
    // What was chosen is part of the run from here on, also when it goes on later.
    config.run.auto_tune = false;
    config
}

/// Whether `PHALANX_AUTO_TUNE` asks to tune.
pub fn is_wanted_by_variable() -> Result<bool> {
    let value = std::env::var(VARIABLE).unwrap_or_default();
    match value.to_lowercase().as_str() {
        "" | "0" | "false" | "off" | "no" => Ok(false),
        "1" | "true" | "on" | "yes" => Ok(true),
        _ => Err(Error::input(format!("{VARIABLE} is '{value}', but must be 1 or 0"))),
    }
}

/// The variable that asks to tune.
pub const VARIABLE: &str = "PHALANX_AUTO_TUNE";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_knows_every_agent_that_learns() {
        assert_eq!(LEARNERS, phalanx_learn::run::agents::LEARNERS);
        assert_eq!(learner("SARSA"), Some("sarsa"));
    }
}
