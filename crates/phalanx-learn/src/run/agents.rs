//! The agents by name, and the settings of those that learn with tables or not at all; networks' settings stand with
//! their agents. The defaults are those of the reference (CleanRL's where it names them).

use std::fmt;

use phalanx_core::policy::POLICIES;

use super::config::RunConfig;
use super::settings::{Course, Horizon, Passed, Section, any, at_least_one, choice, optional, section, share};
pub use crate::agents::dqn::DqnConfig;
pub use crate::agents::ppo::PpoConfig;
pub use crate::agents::pqn::PqnConfig;
use crate::error::Result;
use crate::learner::Length;

choice! {
    /// What tabular learning bootstraps from.
    Algorithm {
        /// The best next action.
        QLearning = "q_learning",
        /// The next action that is taken.
        Sarsa = "sarsa",
        /// The mean over the next actions that could be taken.
        ExpectedSarsa = "expected_sarsa",
        /// The best action of one table, as the other values it.
        DoubleQ = "double_q",
    }
}

choice! {
    /// How a table keeps its values.
    TableKind {
        /// Sparse at first, dense once that is better.
        Auto = "auto" | "optimal",
        /// A row for every state.
        Dense = "dense",
        /// Nested rows, the plain implementation.
        List = "list",
        /// A row for every state that was met.
        Sparse = "sparse",
    }
}

choice! {
    /// How a batch of transitions is applied.
    BatchUpdate {
        /// In order; later ones see earlier ones.
        Sequential = "sequential",
        /// The mean error of each distinct entry, once.
        UniqueMean = "unique_mean",
        /// Every error, all from the old table.
        Accumulate = "accumulate",
        /// The last of each distinct entry.
        LastWins = "last_wins",
    }
}

choice! {
    /// The type of a table's values.
    Precision {
        /// Single, for throughput.
        F32 = "f32",
        /// Double, for exact tests.
        F64 = "f64",
    }
}

section! {
    /// Settings of tabular learning; all counts are transitions.
    QLearningConfig in "agent" {
        /// What values are bootstrapped from. `q_learning`.
        algorithm: Algorithm = Algorithm::QLearning, any;
        /// The discount. 0.97.
        gamma: f64 = 0.97, share;
        /// The learning rate. `linear(0.3, 0.01, 100%)`, recipe A of the reference.
        learning_rate: Course = Course::Linear { start: 0.3, end: 0.01, horizon: Horizon::Percent(100.0) },
            Course::rate;
        /// Exploration. `linear(1, 0.1, 50%)`, recipe A of the reference.
        epsilon: Course = Course::Linear { start: 1.0, end: 0.1, horizon: Horizon::Percent(50.0) },
            Course::probability;
        /// How the table keeps its values. `auto`.
        table: TableKind = TableKind::Auto, any;
        /// Share of visited states from which an `auto` table is dense. 0.25.
        dense_threshold: f64 = 0.25, share;
        /// The type of the values. `f32`.
        precision: Precision = Precision::F32, any;
        /// How a batch is applied. `sequential`.
        batch_update: BatchUpdate = BatchUpdate::Sequential, any;
        /// Threads. None: as many as there are physical cores, at most 4.
        num_workers: Option<usize> = None, optional(at_least_one);
        /// Whether the result is the same for any number of threads. True.
        deterministic: bool = true, any;
        /// Logical shares of the work in deterministic mode. 16.
        shards: usize = 16, at_least_one;
        /// Whether threads that are not deterministic learn in one table. True.
        shared: bool = true, any;
        /// Transitions of a worker between synchronisations. 1,000.
        steps_per_sync: u64 = 1_000, at_least_one;
    }
}

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
    QLearning(QLearningConfig),
    /// A control law.
    Classical(ClassicalConfig),
}

/// The agents that learn.
const LEARNERS: [&str; 4] = ["ppo", "dqn", "pqn", "q_learning"];

impl AgentConfig {
    /// The agent of a name, with its defaults.
    pub fn new(name: &str) -> Result<Self> {
        let classical = |policy: &str| POLICIES.iter().any(|(known, ..)| *known == policy);
        Ok(match name {
            "ppo" => Self::Ppo(PpoConfig::default()),
            "dqn" => Self::Dqn(DqnConfig::default()),
            "pqn" => Self::Pqn(PqnConfig::default()),
            "q_learning" => Self::QLearning(QLearningConfig::default()),
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

    /// Observations that are stacked for it, 1 if none but the present one.
    pub fn frames(&self) -> usize {
        let stacked = match self {
            Self::Ppo(config) => config.frame_stack_n,
            Self::Dqn(config) => config.frame_stack_n,
            Self::Pqn(config) => config.frame_stack_n,
            _ => 1,
        };
        stacked.max(1)
    }

    /// Checks settings that only make sense together.
    pub(crate) fn check(&self, run: &RunConfig) -> Result<()> {
        let length = Length { num_envs: run.num_envs, steps_per_env: run.steps_per_env };
        match self {
            Self::Ppo(config) => config.check(length),
            Self::Dqn(config) => config.check(length),
            Self::Pqn(config) => config.check(length),
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
    }
}
