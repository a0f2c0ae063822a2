//! Chunks: how far an agent learns before control returns to whoever drives it.
//!
//! The driver looks for Ctrl-C, shows how far a run is, and logs, evaluates and stores what is due. Between two looks an
//! agent learns for `scan_chunk_size` steps of each environment, or to the next log, evaluation or checkpoint if that
//! is nearer. A roll-out with the updates that follow it is never cut: a chunk that is shorter is one of these.

use crate::error::Result;
use crate::learner::{Learner, Report};

/// Learns on for `chunk` steps of all environments, or for one unit of the agent's own if there is none, and not beyond
/// `goal` except where a unit does not fit. How a run is cut into chunks changes nothing that is learnt.
pub fn advance_chunk(learner: &mut dyn Learner, chunk: Option<u64>, goal: u64, report: &mut Report) -> Result<()> {
    let Some(chunk) = chunk else { return learner.advance(goal, report) };
    let end = learner.global_step().saturating_add(chunk).min(goal);
    loop {
        learner.advance(end, report)?;
        if learner.global_step() >= end {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::batch::BatchConfig;

    use super::super::train;
    use super::advance_chunk;
    use crate::learner::Report;
    use crate::run::config::create_config;
    use crate::run::directory::EvalMetrics;

    /// What a run learns (as text, in which a missing number is like another), what its evaluations find, and when it
    /// logs.
    type Found = (String, EvalMetrics, Vec<u64>);

    /// What a run learns and finds out, and how often its driver had a look.
    fn trained(agent: &str, env: &str, more: &[(&str, &str)]) -> (Found, usize) {
        let usual = [("run.num_envs", "4"), ("run.eval_frequency", "100"), ("run.eval_rollouts", "3")];
        let config = create_config(env, agent, &[&usual[..], more].concat()).unwrap();
        let entry = phalanx_envs::registry::find(env).unwrap();
        let make = |batch: &BatchConfig| entry.batch(batch);
        let mut looks = 0;
        let watch = &mut |_: &_| {
            looks += 1;
            true
        };
        let trained = train(&config, &make, &mut || Ok(None), None, watch).unwrap();
        let learned = format!("{:?}", trained.learner.save());
        ((learned, trained.results.eval_metrics, trained.results.training_metrics.global_steps), looks)
    }

    /// Where a unit is longer than the way to the next log, only this shows that chunks are what they should be.
    #[test]
    fn a_chunk_is_whole_roll_outs() {
        let entry = phalanx_envs::registry::find("CartPole-v1").unwrap();
        let make = |batch: &BatchConfig| entry.batch(batch);
        for agent in ["ppo", "pqn"] {
            let settings = [("num_envs", "4"), ("steps_per_env", "288"), ("rollout_steps", "16")];
            let config = create_config("CartPole-v1", agent, &settings).unwrap();
            let learnt = |chunk: Option<u64>| {
                let mut learner = super::super::learner(&config, &make).unwrap();
                let mut calls = 0;
                while learner.global_step() < 1152 {
                    advance_chunk(learner.as_mut(), chunk, 1152, &mut Report::default()).unwrap();
                    calls += 1;
                }
                (format!("{:?}", learner.save()), calls)
            };
            let (plain, calls) = learnt(None);
            assert_eq!(calls, 18, "{agent}: a roll-out each");
            for (chunk, calls) in [(1, 18), (64, 18), (256, 5), (1_000_000, 1)] {
                assert!(learnt(Some(chunk)) == (plain.clone(), calls), "{agent} with chunks of {chunk}");
            }
        }
    }

    #[test]
    fn a_chunk_changes_how_often_the_driver_looks_and_nothing_else() {
        let small = [("run.steps_per_env", "300"), ("run.rollout_steps", "16")];
        let dqn = [("run.steps_per_env", "300"), ("agent.learning_starts", "40"), ("run.buffer_size", "200")];
        let table = [("run.steps_per_env", "1200"), ("agent.steps_per_sync", "50"), ("agent.shards", "2")];
        for (agent, env, settings) in [
            ("ppo", "CartPole-v1", &small[..]),
            ("pqn", "CartPole-v1", &small),
            ("dqn", "CartPole-v1", &dqn),
            ("q_learning", "TicTacToe-v0", &table),
            ("random", "CartPole-v1", &small[..1]),
        ] {
            let (plain, _) = trained(agent, env, settings);
            let mut all_looks = Vec::new();
            for chunk in ["1", "7", "64", "100000"] {
                let (found, looks) = trained(agent, env, &[settings, &[("run.scan_chunk_size", chunk)]].concat());
                assert_eq!(found.2, plain.2, "log of {agent} with chunks of {chunk}");
                assert_eq!(found.1, plain.1, "evaluations of {agent} with chunks of {chunk}");
                assert!(found.0 == plain.0, "{agent} with chunks of {chunk}");
                all_looks.push(looks);
            }
            assert!(all_looks.is_sorted_by(|a, b| a >= b), "{agent}: {all_looks:?}");
        }
    }
}
