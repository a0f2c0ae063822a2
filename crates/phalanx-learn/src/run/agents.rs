//! The settings of each agent; the defaults are those of the reference (CleanRL's where it names them).

use std::fmt;

use phalanx_core::policy::POLICIES;

use super::config::RunConfig;
use super::settings::{
    Passed, Section, any, at_least_one, choice, layers, not_negative, optional, part, positive, section, share,
};
use crate::error::{Error, Result};
use crate::nn::Schedule;
use crate::tabular;

section! {
    /// Settings of proximal policy optimisation. Defaults: CleanRL's `ppo.py`.
    PpoConfig in "agent" {
        /// Adam's learning rate at the start. 2.5e-4.
        learning_rate: f64 = 2.5e-4, positive;
        /// Whether the learning rate falls linearly to 0, by update. True.
        anneal_lr: bool = true, any;
        /// Adam's ε. 1e-5.
        adam_eps: f64 = 1e-5, positive;
        /// The discount. 0.99.
        gamma: f64 = 0.99, share;
        /// λ of the generalised advantages. 0.95.
        gae_lambda: f64 = 0.95, share;
        /// Steps of each environment in a roll-out. 128.
        rollout_steps in "run": usize = 128, at_least_one;
        /// Parts a roll-out is cut into for the updates of an epoch. 4.
        num_minibatches: usize = 4, at_least_one;
        /// Times a roll-out is learnt from. 4.
        num_epochs: usize = 4, at_least_one;
        /// How far the ratio of probabilities counts, and a value may move if `clip_vloss`. 0.2.
        clip_coef: f64 = 0.2, positive;
        /// Whether `clip_coef` falls linearly to 0, by update. False.
        anneal_clip: bool = false, any;
        /// Whether advantages are normalised in each minibatch. True.
        norm_adv: bool = true, any;
        /// Whether the value loss is clipped. True.
        clip_vloss: bool = true, any;
        /// Weight of the entropy. 0.01.
        ent_coef: f64 = 0.01, not_negative;
        /// Weight of the value loss. 0.5.
        vf_coef: f64 = 0.5, not_negative;
        /// Largest norm of a gradient. 0.5.
        max_grad_norm: f64 = 0.5, positive;
        /// Divergence beyond which the epochs of an update stop. None.
        target_kl: Option<f64> = None, optional(positive);
        /// Sizes of the hidden tanh layers, of actor and critic each. [64, 64].
        hidden: Vec<usize> = vec![64, 64], layers;
        /// Logarithm of the standard deviation of continuous actions at the start. 0.
        log_std_init: f64 = 0.0, any;
        /// Whether continuous actions are brought into their bounds by tanh instead of by clipping. False.
        squash: bool = false, any;
        /// Observations that are stacked, the newest last; 0 and 1 are no stack. 0.
        frame_stack_n: usize = 0, any;
        /// What rewards are multiplied by before learning. 1.
        reward_scale: f64 = 1.0, positive;
        /// Whether observations are normalised by their running mean and variance. False.
        norm_obs: bool = false, any;
        /// Whether rewards are divided by the running deviation of discounted returns. False.
        norm_reward: bool = false, any;
    }
}

choice! {
    /// The loss of a temporal difference.
    TdLoss {
        /// The square of the difference.
        Mse = "mse",
        /// The square near 0, a straight line beyond 1.
        Huber = "huber",
    }
}

choice! {
    /// How the weights of a Q-network start.
    Initialiser {
        /// Normal with variance 1 / inputs.
        LecunNormal = "lecun_normal",
        /// Uniform within ±1/√inputs.
        Uniform = "uniform",
    }
}

section! {
    /// Settings of deep Q-learning. Defaults: CleanRL's `dqn.py`; cadences count steps of all environments.
    DqnConfig in "agent" {
        /// Adam's learning rate. 2.5e-4.
        learning_rate: f64 = 2.5e-4, positive;
        /// The discount. 0.99.
        gamma: f64 = 0.99, share;
        /// Transitions the buffer holds. 10,000.
        buffer_size in "run": usize = 10_000, at_least_one;
        /// Transitions of an update. 128.
        batch_size in "run": usize = 128, at_least_one;
        /// Share of the online weights in a target update. 1.
        tau: f64 = 1.0, part;
        /// Steps between target updates. 500.
        target_network_frequency: u64 = 500, at_least_one;
        /// Exploration at the start. 1.
        start_e: f64 = 1.0, share;
        /// Exploration at the end. 0.05.
        end_e: f64 = 0.05, share;
        /// Share of the run in which exploration falls. 0.5.
        exploration_fraction: Option<f64> = Some(0.5), optional(part);
        /// Steps in which exploration falls, instead of a share. None.
        exploration_steps: Option<u64> = None, optional(at_least_one);
        /// Steps before the first update. 10,000.
        learning_starts: u64 = 10_000, any;
        /// Steps for each update. 10.
        train_frequency: u64 = 10, at_least_one;
        /// The loss. `mse`.
        loss: TdLoss = TdLoss::Mse, any;
        /// Whether the online network chooses the action that the target network values. False.
        double: bool = false, any;
        /// Whether values and advantages have heads of their own. False.
        dueling: bool = false, any;
        /// Rewards of a target before it bootstraps. 1.
        n_step: usize = 1, at_least_one;
        /// Largest norm of a gradient. None.
        max_grad_norm: Option<f64> = None, optional(positive);
        /// Sizes of the hidden ReLU layers. [120, 84].
        hidden: Vec<usize> = vec![120, 84], layers;
        /// How weights start. `uniform`, as PyTorch's.
        initialiser: Initialiser = Initialiser::Uniform, any;
        /// Observations that are stacked, the newest last; 0 and 1 are no stack. 0.
        frame_stack_n: usize = 0, any;
        /// What rewards are multiplied by before learning. 1.
        reward_scale: f64 = 1.0, positive;
    }
}

impl DqnConfig {
    /// Exploration by steps of all environments.
    pub fn epsilon(&self, run: &RunConfig) -> Schedule {
        let duration = duration(self.exploration_steps, self.exploration_fraction, run.total_timesteps() as f64);
        falling(self.start_e, self.end_e, duration)
    }
}

section! {
    /// Settings of parallelised Q-networks. Defaults: the CartPole recipe of the reference.
    PqnConfig in "agent" {
        /// RAdam's learning rate at the start. 1e-4.
        learning_rate: f64 = 1e-4, positive;
        /// Share of the run in which the learning rate falls to 0; with neither this nor steps it is constant. 1.
        lr_decay_fraction: Option<f64> = Some(1.0), optional(part);
        /// Gradient steps in which the learning rate falls to 0, instead of a share. None.
        lr_decay_steps: Option<u64> = None, optional(at_least_one);
        /// The discount. 0.99.
        gamma: f64 = 0.99, share;
        /// λ of the returns. 0.95.
        lambda: f64 = 0.95, share;
        /// Exploration at the start. 1.
        epsilon_start: f64 = 1.0, share;
        /// Exploration at the end. 0.2.
        epsilon_end: f64 = 0.2, share;
        /// Share of the run in which exploration falls. 0.2.
        epsilon_decay_fraction: Option<f64> = Some(0.2), optional(part);
        /// Steps of each environment in which exploration falls, instead of a share. None.
        epsilon_decay_steps: Option<u64> = None, optional(at_least_one);
        /// Steps of each environment in a roll-out. 64.
        rollout_steps in "run": usize = 64, at_least_one;
        /// Times a roll-out is learnt from. 4.
        num_epochs: usize = 4, at_least_one;
        /// Parts a roll-out is cut into for the updates of an epoch. 16.
        num_minibatches: usize = 16, at_least_one;
        /// Largest norm of a gradient. 10.
        max_grad_norm: f64 = 10.0, positive;
        /// What rewards are multiplied by before learning. 0.1.
        reward_scale: f64 = 0.1, positive;
        /// Size of each hidden layer. 256.
        hidden_size: usize = 256, at_least_one;
        /// Hidden layers. 2.
        num_layers: usize = 2, at_least_one;
        /// Observations that are stacked, the newest last; 0 and 1 are no stack. 0.
        frame_stack_n: usize = 0, any;
    }
}

impl PqnConfig {
    /// Exploration by steps of each environment.
    pub fn epsilon(&self, run: &RunConfig) -> Schedule {
        let duration = duration(self.epsilon_decay_steps, self.epsilon_decay_fraction, run.steps_per_env as f64);
        falling(self.epsilon_start, self.epsilon_end, duration)
    }

    /// The learning rate by gradient steps.
    pub fn learning_rate(&self, run: &RunConfig) -> Schedule {
        let updates = (self.num_minibatches * self.num_epochs) as f64;
        let gradient_steps = run.steps_per_env as f64 / self.rollout_steps as f64 * updates;
        falling(self.learning_rate, 0.0, duration(self.lr_decay_steps, self.lr_decay_fraction, gradient_steps))
    }
}

/// Section 7 of the reference: a fraction counts in whole steps, at least one.
fn duration(steps: Option<u64>, fraction: Option<f64>, whole: f64) -> Option<u64> {
    steps.or_else(|| fraction.map(|fraction| ((fraction * whole) as u64).max(1)))
}

fn falling(start: f64, end: f64, duration: Option<u64>) -> Schedule {
    duration.map_or(Schedule::Constant(start), |duration| Schedule::Linear { start, end, duration })
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
    QLearning(tabular::Settings),
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
            "q_learning" => Self::QLearning(tabular::Settings::default()),
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

    /// Checks settings that only make sense together.
    pub(crate) fn check(&self, run: &RunConfig) -> Result<()> {
        let minibatches = |rollout_steps: usize, parts: usize| {
            let rows = rollout_steps.saturating_mul(run.num_envs);
            if rows.is_multiple_of(parts) {
                return Ok(());
            }
            let why = format!(
                "is {parts}, but must divide run.num_envs * run.rollout_steps = {} * {rollout_steps} = {rows}",
                run.num_envs
            );
            Err(Error::setting("agent.num_minibatches", why))
        };
        match self {
            Self::Ppo(config) => minibatches(config.rollout_steps, config.num_minibatches),
            Self::Pqn(config) => minibatches(config.rollout_steps, config.num_minibatches),
            Self::Dqn(config) if run.num_envs > config.buffer_size => Err(Error::setting(
                "run.num_envs",
                format!("is {}, but must be at most run.buffer_size = {}", run.num_envs, config.buffer_size),
            )),
            Self::QLearning(config) => config.check(),
            _ => Ok(()),
        }
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
    fn fractions_count_in_whole_steps() {
        // The gene circuit's recipe: 0.602 of 5,040 / 4 roll-outs of 8 x 8 gradient steps.
        let pqn = PqnConfig {
            rollout_steps: 4,
            num_epochs: 8,
            num_minibatches: 8,
            lr_decay_fraction: Some(0.602),
            epsilon_decay_fraction: Some(0.237),
            ..PqnConfig::default()
        };
        let run = run(1024, 5_040);
        assert_eq!(pqn.learning_rate(&run), Schedule::Linear { start: 1e-4, end: 0.0, duration: 48_545 });
        assert_eq!(pqn.epsilon(&run), Schedule::Linear { start: 1.0, end: 0.2, duration: 1_194 });
        let tiny = PqnConfig { epsilon_decay_fraction: Some(1e-9), ..pqn.clone() };
        assert_eq!(tiny.epsilon(&run), Schedule::Linear { start: 1.0, end: 0.2, duration: 1 });
        let constant = PqnConfig { lr_decay_fraction: None, ..pqn };
        assert_eq!(constant.learning_rate(&run), Schedule::Constant(1e-4));
    }

    #[test]
    fn exploration_of_dqn_counts_all_environments() {
        let epsilon = DqnConfig::default().epsilon(&run(5, 100_000));
        assert_eq!(epsilon, Schedule::Linear { start: 1.0, end: 0.05, duration: 250_000 });
        assert_eq!(epsilon.at(125_000), 0.525);
    }

    #[test]
    fn settings_must_fit_each_other() {
        let ppo = AgentConfig::new("ppo").unwrap();
        ppo.check(&run(4, 1)).unwrap();
        let AgentConfig::Ppo(mut config) = ppo else { panic!("not PPO") };
        config.num_minibatches = 7;
        assert_eq!(
            AgentConfig::Ppo(config).check(&run(4, 1)).unwrap_err().to_string(),
            "agent.num_minibatches is 7, but must divide run.num_envs * run.rollout_steps = 4 * 128 = 512"
        );
        assert_eq!(
            AgentConfig::new("dqn").unwrap().check(&run(20_000, 1)).unwrap_err().to_string(),
            "run.num_envs is 20000, but must be at most run.buffer_size = 10000"
        );
    }

    #[test]
    fn an_unknown_agent_comes_with_the_nearest() {
        let message = AgentConfig::new("ppoo").unwrap_err().to_string();
        assert!(message.starts_with("unknown agent 'ppoo'; did you mean 'ppo'"), "{message}");
        assert_eq!(AgentConfig::new("bang_bang").unwrap().name(), "bangbang");
    }
}
