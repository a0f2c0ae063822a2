//! Chunks: how far an agent learns before control returns to whoever drives it.
//!
//! The driver looks for Ctrl-C, shows how far a run is, and logs, evaluates and stores what is due. Between two looks an
//! agent learns for `scan_chunk_size` steps of each environment, or to the next log, evaluation or checkpoint if that
//! is nearer. A chunk has whole roll-outs with the updates that follow them, one at least. Whoever wants a run to end in the
//! midst of one gets it undone.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::learner::{Learner, Report};
use crate::stop::Stop;

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

/// A unit that takes as long can be given up in its midst: nobody should have to wait for its end. In tests every unit,
/// so that nothing depends on the clock.
const LONG: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 200 });

/// The chunks of a run that somebody may want to end.
pub(super) struct Chunks {
    stop: Stop,
    /// The time of the last unit.
    last: Option<Duration>,
}

impl Chunks {
    pub(super) fn new(stop: Stop) -> Self {
        Self { stop, last: None }
    }

    /// As [`advance_chunk`], but ends soon after `stop` wants it to. Then fewer units were made, and none in part.
    pub(super) fn advance(
        &mut self,
        learner: &mut dyn Learner,
        chunk: Option<u64>,
        goal: u64,
        report: &mut Report,
    ) -> Result<()> {
        let end = chunk.map_or(goal, |chunk| learner.global_step().saturating_add(chunk).min(goal));
        loop {
            self.unit(learner, end, report)?;
            if chunk.is_none() || learner.global_step() >= end || self.stop.is_wanted() {
                return Ok(());
            }
        }
    }

    /// Makes a unit. One that may be long is undone where it is stopped; the others do not pay for that.
    fn unit(&mut self, learner: &mut dyn Learner, last_step: u64, report: &mut Report) -> Result<()> {
        let may_be_long = self.stop.may_be_wanted() && self.last.is_none_or(|last| last >= LONG);
        let before = may_be_long.then(|| (learner.save(), report.clone()));
        report.stop = if may_be_long { self.stop.clone() } else { Stop::default() };
        let start = Instant::now();
        let made = learner.advance(last_step, report);
        self.last = Some(start.elapsed());
        match (made, before) {
            (Err(Error::Interrupted), Some((state, told))) => {
                *report = told;
                learner.restore(&state)
            }
            (made, _) => made,
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::batch::BatchConfig;

    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;

    use super::super::train;
    use super::{Chunks, advance_chunk};
    use crate::learner::Report;
    use crate::run::config::create_config;
    use crate::run::directory::EvalMetrics;
    use crate::stop::Stop;

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
        let trained = train(&config, &make, &mut || Ok(None), None, watch, Stop::default()).unwrap();
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

    /// A unit that is stopped anywhere leaves no trace: the same is learnt afterwards.
    #[test]
    fn a_unit_that_is_given_up_is_undone() {
        let entry = phalanx_envs::registry::find("CartPole-v1").unwrap();
        let make = |batch: &BatchConfig| entry.batch(batch);
        let rollouts = [("run.rollout_steps", "16"), ("agent.num_minibatches", "4")];
        let normalised = [&rollouts[..], &[("agent.norm_obs", "true"), ("agent.norm_reward", "true")]].concat();
        let buffer = [("agent.learning_starts", "40"), ("run.buffer_size", "200")];
        for (agent, settings) in [("ppo", &rollouts[..]), ("ppo", &normalised), ("pqn", &rollouts), ("dqn", &buffer)] {
            let settings = [&[("num_envs", "4"), ("steps_per_env", "1024")], settings].concat();
            let config = create_config("CartPole-v1", agent, &settings).unwrap();
            // Whoever wants to be asked is asked in the midst of the second unit, or after it.
            let learnt = |patience: u64| {
                let mut learner = super::super::learner(&config, &make).unwrap();
                let mut report = Report::default();
                learner.advance(u64::MAX, &mut report).unwrap();
                let (start, asked) = (learner.global_step(), Arc::new(AtomicU64::new(0)));
                let counted = Arc::clone(&asked);
                let stop = Stop::when(move || counted.fetch_add(1, Relaxed) >= patience);
                Chunks::new(stop).advance(learner.as_mut(), None, u64::MAX, &mut report).unwrap();
                let given_up = learner.global_step() == start;
                if given_up {
                    report.stop = Stop::default();
                    learner.advance(u64::MAX, &mut report).unwrap();
                }
                let found = (format!("{:?}", learner.save()), format!("{:?}", report.save()));
                (found, given_up, asked.load(Relaxed))
            };
            let (whole, given_up, questions) = learnt(u64::MAX);
            assert!(!given_up && questions >= 8, "{agent} asks {questions} times in a unit");
            for patience in [0, 1, questions / 2, questions - 1] {
                let (found, given_up, _) = learnt(patience);
                assert!(given_up, "{agent} at question {patience}");
                assert!(found == whole, "{agent} at question {patience}");
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
