//! Which kinds of measurement go together with which agents.

use phalanx_lab::case::LEARNERS;
use phalanx_lab::record::Kind;

use crate::error::{Error, Result};

/// Whether a kind can be measured, and with this agent: the one place that knows which go together.
pub fn check_kind(kind: Kind, agent: &str) -> Result<()> {
    let learner = LEARNERS.contains(&agent);
    let (fits, needs) = match kind {
        Kind::EngineKernel | Kind::PopulationTraining => {
            return Err(Error::input(format!("the kind {kind} cannot be measured: it is known in records only")));
        }
        Kind::FusedRandomRollout | Kind::HostApiRandom => (agent == "random", "has random actions".to_owned()),
        Kind::PolicyRollout => (agent != "random" && !learner, "needs an agent that only acts, such as pid".to_owned()),
        Kind::Training | Kind::PolicyForward | Kind::GradientUpdate | Kind::TimeToSolve => {
            (learner, format!("needs an agent that learns ({})", LEARNERS.join(", ")))
        }
    };
    if fits { Ok(()) } else { Err(Error::input(format!("the kind {kind} {needs}, but the agent is {agent}"))) }
}
