//! Repeated actions: a step of a repeating batch is several steps of a plain one.

mod common;

use std::sync::Arc;

use common::{batch, config};
use phalanx_core::batch::{Actions, Autoreset, Batch, BatchConfig, StepBuffers};
use phalanx_core::pool::Pool;
use phalanx_core::space::ActionSpace;
use phalanx_envs::registry;

const TIMES: u32 = 3;

fn repeating(env: &str, num_envs: usize, threads: usize, settings: &[(&str, &str)]) -> Box<dyn Batch> {
    let settings = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let pool = Arc::new(Pool::new(threads));
    batch(env, &BatchConfig { action_repeat: TIMES, settings, pool, ..config(num_envs, 3, Autoreset::SameStep) })
}

/// The same actions for all kinds of action spaces, some of them again and again so that episodes end.
fn with_actions<T>(space: &ActionSpace, num_envs: usize, step: u32, work: impl FnOnce(Actions<'_>) -> T) -> T {
    match space {
        ActionSpace::Discrete { n } => {
            work(Actions::Discrete(&(0..num_envs as u32).map(|env| ((env + step / 4) % n) as i32).collect::<Vec<_>>()))
        }
        ActionSpace::Box { low, .. } => work(Actions::Continuous(&vec![0.1 * (step % 5) as f32; num_envs * low.len()])),
        ActionSpace::MultiDiscrete { .. } => unreachable!("no environment of this test has such actions"),
    }
}

/// The plain batch is put where the repeating one is, and steps on from there until its episode ends.
#[test]
fn a_step_is_several_of_a_plain_batch() {
    for env in ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1", "MountainCarContinuous-v0"] {
        let mut repeating = repeating(env, 5, 1, &[]);
        let mut ends = 0;
        let space = repeating.spec().action.clone();
        let dim = repeating.spec().observation.dim();
        let mut out = StepBuffers::new(5, dim);
        for step in 0..60 {
            let states: Vec<_> = (0..5).map(|env| repeating.state(env).unwrap()).collect();
            with_actions(&space, 5, step, |actions| repeating.step_into(actions, out.out())).unwrap();
            // A batch for each, because one that has ended must not disturb the others.
            for (i, state) in states.iter().enumerate() {
                let mut plain = batch(env, &config(5, 3, Autoreset::Disabled));
                plain.set_state(i, state).unwrap();
                let mut single = StepBuffers::new(5, dim);
                let mut reward = 0.0;
                let mut is_over = false;
                for _ in 0..TIMES {
                    with_actions(&space, 5, step, |actions| plain.step_into(actions, single.out())).unwrap();
                    reward += single.rewards[i];
                    is_over = single.terminated[i];
                    if is_over {
                        break;
                    }
                }
                assert_eq!((out.rewards[i], out.terminated[i]), (reward, is_over), "{env}, step {step}");
                let seen = if is_over { &out.final_obs } else { &out.obs };
                assert_eq!(seen[i * dim..][..dim], single.obs[i * dim..][..dim], "{env}, step {step}");
                ends += u32::from(is_over);
                if is_over {
                    assert_ne!(out.obs[i * dim..][..dim], out.final_obs[i * dim..][..dim]);
                }
            }
        }
        assert!(ends > 0 || !matches!(env, "CartPole-v1"), "{env}");
    }
}

/// Ten steps are four decisions, the last of which has one step only.
#[test]
fn limits_and_lengths_count_decisions() {
    let mut batch = repeating("MountainCar-v0", 2, 1, &[("max_steps", "10")]);
    assert_eq!(batch.spec().max_steps, 4);
    let mut out = StepBuffers::new(2, 2);
    for decision in 1..=8 {
        batch.step_into(Actions::Discrete(&[1; 2]), out.out()).unwrap();
        let is_last = decision % 4 == 0;
        assert_eq!(out.truncated, [is_last; 2]);
        assert_eq!(out.rewards, [if is_last { -1.0 } else { -3.0 }; 2]);
        if is_last {
            assert_eq!((out.final_lengths[0], out.final_returns[0]), (4, -10.0));
        }
    }
}

#[test]
fn threads_and_snapshots_do_not_matter() {
    let run = |threads: usize, interrupted: bool| {
        let mut batch = repeating("CartPole-v1", 5_000, threads, &[]);
        let mut out = StepBuffers::new(5_000, 4);
        for step in 0..30 {
            if interrupted && step == 13 {
                let snapshot = batch.snapshot();
                batch = repeating("CartPole-v1", 5_000, threads, &[]);
                batch.restore(&snapshot).unwrap();
            }
            with_actions(&ActionSpace::Discrete { n: 2 }, 5_000, step, |actions| batch.step_into(actions, out.out()))
                .unwrap();
        }
        (out.obs, out.rewards)
    };
    let expected = run(1, false);
    assert_eq!(run(2, false), expected);
    assert_eq!(run(1, true), expected);
}

#[test]
fn what_cannot_be_repeated_is_refused() {
    let refused = |env: &str, autoreset| {
        let config = BatchConfig { action_repeat: 2, ..config(2, 0, autoreset) };
        registry::find(env).unwrap().batch(&config).err().expect("refused").to_string()
    };
    assert!(refused("TicTacToe-v0", Autoreset::SameStep).contains("may not be legal again"));
    assert!(refused("ARC-v0", Autoreset::SameStep).contains("cannot repeat actions"));
    assert!(refused("CartPole-v1", Autoreset::NextStep).contains("start in the same step"));
    let mut batch = repeating("CartPole-v1", 2, 1, &[]);
    let before = batch.snapshot();
    let mut out = StepBuffers::new(2, 4);
    assert!(batch.step_into(Actions::Discrete(&[0, 2]), out.out()).is_err());
    let mut short = StepBuffers::new(1, 4);
    assert!(batch.step_into(Actions::Discrete(&[0, 1]), short.out()).is_err());
    assert_eq!(batch.snapshot(), before);
}
