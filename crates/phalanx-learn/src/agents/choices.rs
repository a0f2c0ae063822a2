//! Choices that agents with networks share: how weights start, and how they go downhill.

use crate::error::{Error, Result};
use crate::nn::Rule;
use crate::nn::init::Init;
use crate::run::settings::choice;

choice! {
    /// How the weights of a network start.
    Initialiser {
        /// Rows at right angles to each other, as long as suits the layer.
        Orthogonal = "orthogonal",
        /// Normal with variance 2 / inputs.
        HeNormal = "he_normal",
        /// Normal with variance 1 / inputs.
        LecunNormal = "lecun_normal",
        /// Uniform within ±1/√inputs.
        Uniform = "uniform",
    }
}

impl Initialiser {
    /// For a layer whose rows have this length if they are orthogonal.
    pub(super) fn init(self, gain: f64) -> Init {
        match self {
            Self::Orthogonal => Init::Orthogonal { gain },
            Self::HeNormal => Init::HeNormal,
            Self::LecunNormal => Init::LecunNormal,
            Self::Uniform => Init::Uniform,
        }
    }
}

choice! {
    /// How gradients become steps.
    OptimizerKind {
        /// Kingma and Ba.
        Adam = "adam",
        /// Adam with weights that decay.
        AdamW = "adamw",
        /// Adam that is careful at the start.
        RAdam = "radam",
    }
}

/// PyTorch's.
const USUAL_DECAY: f64 = 0.01;

impl OptimizerKind {
    /// The rule; only of one kind do weights decay.
    pub(super) fn rule(self, weight_decay: Option<f64>) -> Result<Rule> {
        match (self, weight_decay) {
            (Self::AdamW, decay) => Ok(Rule::AdamW { weight_decay: decay.unwrap_or(USUAL_DECAY) }),
            (_, Some(decay)) => {
                let why = format!("is {decay}, but agent.optimizer is {}: only adamw has one", self.name());
                Err(Error::setting("agent.weight_decay", why))
            }
            (Self::Adam, None) => Ok(Rule::Adam),
            (Self::RAdam, None) => Ok(Rule::RAdam),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::config::create_config;
    use crate::trainer::learner;
    use phalanx_core::batch::BatchConfig;

    #[test]
    fn only_adamw_has_a_weight_decay() {
        assert_eq!(OptimizerKind::AdamW.rule(None).unwrap(), Rule::AdamW { weight_decay: 0.01 });
        assert_eq!(OptimizerKind::AdamW.rule(Some(0.5)).unwrap(), Rule::AdamW { weight_decay: 0.5 });
        let error = create_config("CartPole-v1", "dqn", &[("agent.weight_decay", "0.1")]).unwrap_err().to_string();
        assert_eq!(error, "agent.weight_decay is 0.1, but agent.optimizer is adam: only adamw has one");
    }

    /// Every choice is learnt with, and each makes a difference; the first of each agent is its default.
    #[test]
    fn every_choice_makes_other_weights() {
        let entry = phalanx_envs::registry::find("CartPole-v1").unwrap();
        for agent in ["ppo", "pqn", "dqn"] {
            let learnt = |setting: (&str, &str)| {
                let usual = [("num_envs", "8"), ("steps_per_env", "512"), ("run.seed", "3")];
                let more = if agent == "dqn" { ("learning_starts", "0") } else { ("run.rollout_steps", "64") };
                let config = create_config("CartPole-v1", agent, &[&usual[..], &[more, setting]].concat()).unwrap();
                let mut learner = learner(&config, &|batch: &BatchConfig| entry.batch(batch)).unwrap();
                let mut report = crate::learner::Report::default();
                // Rules that differ at the start only need some steps.
                (0..8).for_each(|_| learner.advance(u64::MAX, &mut report).unwrap());
                format!("{:?}", learner.save().arrays())
            };
            let (start, rule) = match agent {
                "dqn" => ("uniform", "adam"),
                "pqn" => ("orthogonal", "radam"),
                _ => ("orthogonal", "adam"),
            };
            let usual = learnt(("run.threads", "1"));
            let starts = ["orthogonal", "he_normal", "lecun_normal", "uniform"].map(|name| ("agent.initialiser", name));
            let rules = ["adam", "adamw", "radam"].map(|name| ("agent.optimizer", name));
            for (key, name) in starts.into_iter().chain(rules) {
                assert_eq!(learnt((key, name)) == usual, [start, rule].contains(&name), "{agent}: {name}");
            }
        }
    }
}
