//! The agents by name, and the settings of those that learn with tables or not at all; networks' settings stand with
//! their agents. The defaults are those of the reference (CleanRL's where it names them).

use std::fmt;

use phalanx_core::policy::POLICIES;

use super::config::RunConfig;
use super::settings::{Passed, Section};
pub use crate::agents::dqn::DqnConfig;
pub use crate::agents::ppo::PpoConfig;
pub use crate::agents::pqn::PqnConfig;
use crate::error::Result;
use crate::learner::Length;
use crate::tabular::update::Algorithm;
use crate::tabular::{self, Schedule};
use crate::world::Sight;

/// A control law of the engine, which does not learn; the engine checks its arguments.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ClassicalConfig {
    /// The policy, as the engine calls it.
    pub policy: String,
    /// Its arguments.
    pub arguments: Passed,
}

/// An agent with its settings.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AgentConfig {
    /// Proximal policy optimisation.
    Ppo(PpoConfig),
    /// Deep Q-learning.
    Dqn(DqnConfig),
    /// Parallelised Q-networks.
    Pqn(PqnConfig),
    /// Tabular learning.
    QLearning(tabular::Settings),
    /// A control law.
    Classical(ClassicalConfig),
}

/// The agents that learn, those that are one of them with a setting after it.
pub const LEARNERS: [&str; 8] =
    ["ppo", "dqn", "pqn", "q_learning", "sarsa", "expected_sarsa", "double_q", "tabular-fast"];

/// What every run logs, besides [what it logs of evaluations](EVALUATION_TAGS).
const TRAINING_TAGS: [&str; 8] = [
    "charts/episodic_return",
    "rollout/ep_rew_mean",
    "charts/episodic_length",
    "rollout/ep_len_mean",
    "charts/episodic_cost",
    "charts/SPS",
    "time/fps",
    "steps/env",
];

/// What evaluations log; costs only where there are constraints.
const EVALUATION_TAGS: [&str; 11] = [
    "eval/return/mean",
    "eval/return/std",
    "eval/return/min",
    "eval/return/max",
    "eval/return/best",
    "eval/length/mean",
    "eval/length/std",
    "eval/length/min",
    "eval/length/max",
    "eval/termination_rate",
    "eval/cost/mean",
];

impl AgentConfig {
    /// The agent of a name, with its defaults. `tabular-fast` is tabular learning with a high constant learning rate and
    /// an exploration that soon falls: dist_classicrl's advice for a first result.
    pub fn new(name: &str) -> Result<Self> {
        let classical = |policy: &str| POLICIES.iter().any(|(known, ..)| *known == policy);
        Ok(match name {
            "ppo" => Self::Ppo(PpoConfig::default()),
            "dqn" => Self::Dqn(DqnConfig::default()),
            "pqn" => Self::Pqn(PqnConfig::default()),
            "q_learning" | "sarsa" | "expected_sarsa" | "double_q" => Self::QLearning(tabular::Settings {
                algorithm: algorithm_of(name).unwrap_or(Algorithm::QLearning),
                ..tabular::Settings::default()
            }),
            "tabular-fast" => Self::QLearning(tabular::Settings {
                learning_rate: Schedule::Constant(0.3),
                epsilon: Schedule::Exponential { start: 1.0, rate: 0.999, min: 0.05 },
                ..tabular::Settings::default()
            }),
            "bang_bang" => Self::new("bangbang")?,
            policy if classical(policy) => {
                Self::Classical(ClassicalConfig { policy: policy.to_owned(), arguments: Passed::new() })
            }
            _ => {
                let known = LEARNERS.into_iter().chain(POLICIES.iter().map(|(name, ..)| *name));
                return Err(phalanx_core::error::Error::unknown("agent", name, None, known).into());
            }
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Ppo(_) => "ppo",
            Self::Dqn(_) => "dqn",
            Self::Pqn(_) => "pqn",
            Self::QLearning(_) => "q_learning",
            Self::Classical(config) => &config.policy,
        }
    }

    /// Its settings, if they are known here.
    pub(crate) fn section(&self) -> Option<&dyn Section> {
        match self {
            Self::Ppo(config) => Some(config),
            Self::Dqn(config) => Some(config),
            Self::Pqn(config) => Some(config),
            Self::QLearning(config) => Some(config),
            Self::Classical(_) => None,
        }
    }

    pub(crate) fn section_mut(&mut self) -> Option<&mut dyn Section> {
        match self {
            Self::Ppo(config) => Some(config),
            Self::Dqn(config) => Some(config),
            Self::Pqn(config) => Some(config),
            Self::QLearning(config) => Some(config),
            Self::Classical(_) => None,
        }
    }

    /// Steps of each environment in a roll-out, if it learns from such.
    pub fn rollout_steps(&self) -> Option<usize> {
        match self {
            Self::Ppo(config) => Some(config.rollout_steps),
            Self::Pqn(config) => Some(config.rollout_steps),
            _ => None,
        }
    }

    /// Every tag that a run with it can log, the most usual first.
    pub(crate) fn tags(&self) -> Vec<&'static str> {
        let own: &[&str] = match self {
            Self::Ppo(_) => &[
                "charts/learning_rate",
                "losses/loss",
                "losses/value_loss",
                "losses/policy_loss",
                "losses/entropy",
                "losses/old_approx_kl",
                "losses/approx_kl",
                "losses/clipfrac",
                "losses/explained_variance",
            ],
            Self::Dqn(_) | Self::Pqn(_) => {
                &["charts/epsilon", "charts/learning_rate", "losses/td_loss", "losses/q_values"]
            }
            Self::QLearning(config) if config.learns_in_one_table() => {
                &["charts/epsilon", "charts/learning_rate", "charts/staleness", "charts/staleness_max"]
            }
            Self::QLearning(_) => &["charts/epsilon", "charts/learning_rate"],
            Self::Classical(_) => &[],
        };
        [&EVALUATION_TAGS, &TRAINING_TAGS[..], own].concat()
    }

    /// How much of the past it sees.
    pub fn sight(&self) -> Sight {
        let (frames, actions) = match self {
            Self::Ppo(config) => (config.frame_stack_n, config.frame_actions),
            Self::Dqn(config) => (config.frame_stack_n, config.frame_actions),
            Self::Pqn(config) => (config.frame_stack_n, config.frame_actions),
            _ => return Sight::PRESENT,
        };
        Sight { frames: frames.max(1), actions }
    }

    /// Checks settings that only make sense together.
    pub(crate) fn check(&self, run: &RunConfig) -> Result<()> {
        let length = Length { num_envs: run.num_envs, steps_per_env: run.steps_per_env };
        match self {
            Self::Ppo(config) => config.check(length),
            Self::Dqn(config) => config.check(length),
            Self::Pqn(config) => config.check(length),
            Self::QLearning(config) => config.check(),
            _ => Ok(()),
        }
    }

    /// What is allowed but hardly meant, as a sentence.
    pub(crate) fn warning(&self, run: &RunConfig) -> Option<String> {
        let steps = self.rollout_steps()? as u64;
        (run.steps_per_env < steps).then(|| {
            format!(
                "run.steps_per_env = {} is less than run.rollout_steps = {steps}, which are made",
                run.steps_per_env
            )
        })
    }
}

/// The algorithm that a name of tabular learning says.
pub(crate) fn algorithm_of(name: &str) -> Option<Algorithm> {
    match name {
        "sarsa" => Some(Algorithm::Sarsa),
        "expected_sarsa" => Some(Algorithm::ExpectedSarsa),
        "double_q" => Some(Algorithm::DoubleQ),
        _ => None,
    }
}

impl fmt::Display for AgentConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(num_envs: usize, steps_per_env: u64) -> RunConfig {
        RunConfig { num_envs, steps_per_env, ..RunConfig::default() }
    }

    #[test]
    fn a_run_shorter_than_a_roll_out_is_told_of() {
        let ppo = AgentConfig::new("ppo").unwrap();
        assert_eq!(
            ppo.warning(&run(4, 100)).unwrap(),
            "run.steps_per_env = 100 is less than run.rollout_steps = 128, which are made"
        );
        assert_eq!(ppo.warning(&run(4, 128)), None);
        assert_eq!(AgentConfig::new("dqn").unwrap().warning(&run(4, 1)), None);
    }

    #[test]
    fn an_unknown_agent_comes_with_the_nearest() {
        let message = AgentConfig::new("ppoo").unwrap_err().to_string();
        assert!(message.starts_with("unknown agent 'ppoo'; did you mean 'ppo'"), "{message}");
        assert_eq!(AgentConfig::new("bang_bang").unwrap().name(), "bangbang");
        let AgentConfig::QLearning(table) = AgentConfig::new("sarsa").unwrap() else { panic!("not tabular") };
        assert_eq!(table.algorithm, Algorithm::Sarsa);
    }
}
