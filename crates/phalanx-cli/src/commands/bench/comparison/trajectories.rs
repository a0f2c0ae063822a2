//! Whether another library computes the same as we do: same start states, same actions, every observation compared.

use phalanx_core::batch::BatchConfig;
use phalanx_core::probe::Precision;
use phalanx_core::space::ActionSpace;
use phalanx_envs::registry;
use phalanx_lab::stats::random::Stream;

use super::libraries::{Description, Episode};
use crate::failure::Failure;

/// Start states.
const EPISODES: usize = 16;
/// Steps from each, unless the episode ends before.
const STEPS: usize = 60;
/// What observations may differ by. Ours are in double precision; others compute in single precision, or tell their
/// start only so precisely, and an unstable pole multiplies that by about a thousand in the time it takes to fall.
const TOLERANCE: f64 = 1e-3;

/// Start states and actions for an environment with one number of choices.
#[derive(Debug, Default)]
pub(super) struct Start {
    pub(super) states: Vec<Vec<f64>>,
    pub(super) actions: Vec<Vec<u32>>,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Check {
    /// All steps agree.
    Equal { steps: usize, largest: f64 },
    /// They do not; why.
    Different(String),
    /// There is nothing to compare; why.
    Undefined(String),
}

/// Where the checks begin; none for environments whose actions are not one of a few.
pub(super) fn start(env: &str) -> Result<Start, Failure> {
    let mut random = Stream::new(4, 4);
    let entry = registry::find(env)?;
    let mut start = Start::default();
    for seed in 0..EPISODES as u64 {
        let probe = entry.probe(&BatchConfig { seed, ..BatchConfig::default() }, Precision::F64)?;
        let ActionSpace::Discrete { n } = probe.spec().action else { return Ok(Start::default()) };
        start.states.push(probe.state());
        start.actions.push((0..STEPS).map(|_| random.below(n as usize) as u32).collect());
    }
    Ok(start)
}

/// Compares what a library did with what we do from the same states.
pub(super) fn check(env: &str, start: &Start, description: &Description) -> Result<Check, Failure> {
    let Some(episodes) = &description.trajectory else {
        let why = description.unchecked.clone().unwrap_or("the library gives no trajectory".to_owned());
        return Ok(Check::Undefined(why));
    };
    let mut probe = registry::find(env)?.probe(&BatchConfig::default(), Precision::F64)?;
    let (mut steps, mut largest) = (0, 0.0_f64);
    for (Episode { start: state, steps: theirs }, actions) in episodes.iter().zip(&start.actions) {
        if probe.set_state(state).is_err() {
            return Ok(Check::Undefined(format!("its state has {} numbers", state.len())));
        }
        for ((observation, reward, terminated), action) in theirs.iter().zip(actions) {
            let step = probe.step(&[f64::from(*action)])?;
            let ours = probe.observation();
            steps += 1;
            let apart = ours.iter().zip(observation).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
            largest = largest.max(apart);
            let same = ours.len() == observation.len() && apart <= TOLERANCE;
            if !same || step.terminated != *terminated || (step.reward - reward).abs() > TOLERANCE {
                return Ok(Check::Different(format!(
                    "step {steps}: ours {ours:?}, reward {}, terminated {}; theirs {observation:?}, {reward}, {terminated}",
                    step.reward, step.terminated
                )));
            }
            if step.terminated || step.truncated {
                break;
            }
        }
    }
    if steps == 0 {
        return Ok(Check::Undefined("no step was compared".to_owned()));
    }
    Ok(Check::Equal { steps, largest })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an equal library would answer.
    fn ourselves(start: &Start) -> Vec<Episode> {
        let mut probe = registry::find("CartPole-v1").unwrap().probe(&BatchConfig::default(), Precision::F32).unwrap();
        let play = |(state, actions): (&Vec<f64>, &Vec<u32>)| {
            probe.set_state(state).unwrap();
            let mut steps = Vec::new();
            for action in actions {
                let step = probe.step(&[f64::from(*action)]).unwrap();
                let observation = probe.observation().into_iter().map(f64::from).collect();
                steps.push((observation, step.reward, step.terminated));
                if step.terminated {
                    break;
                }
            }
            Episode { start: state.clone(), steps }
        };
        start.states.iter().zip(&start.actions).map(play).collect()
    }

    #[test]
    fn equal_physics_pass_and_others_do_not() {
        let start = start("CartPole-v1").unwrap();
        let described = |trajectory| Description { trajectory: Some(trajectory), ..Description::default() };
        let mut found = described(ourselves(&start));
        let Check::Equal { steps, largest } = check("CartPole-v1", &start, &found).unwrap() else { panic!() };
        assert!(steps > 100 && largest < 1e-4, "{steps} {largest}");
        // A pole of another mass, a late end, another reward: each must be seen.
        let episodes = found.trajectory.as_mut().unwrap();
        episodes[3].steps[5].0[3] += 0.01;
        assert!(matches!(check("CartPole-v1", &start, &found).unwrap(), Check::Different(_)));
        let mut late = ourselves(&start);
        late[0].steps.last_mut().unwrap().2 ^= true;
        assert!(matches!(check("CartPole-v1", &start, &described(late)).unwrap(), Check::Different(_)));
        let mut reward = ourselves(&start);
        reward[0].steps[0].1 = 0.0;
        assert!(matches!(check("CartPole-v1", &start, &described(reward)).unwrap(), Check::Different(_)));
        let nothing = check("CartPole-v1", &start, &Description::default()).unwrap();
        assert!(matches!(nothing, Check::Undefined(_)));
    }
}
