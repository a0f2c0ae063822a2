//! The three autoreset modes, masked resets and what happens at the end of an episode.

mod common;

use common::{ActionTable, Buffers, all_envs, batch, config};
use phalanx_core::batch::{Actions, ActionsMut, Autoreset, Batch, BatchConfig, Reset, StepBuffers};
use phalanx_core::{Error, Result};

/// Short episodes, so that every mode meets many ends.
fn short(env: &str, num_envs: usize, autoreset: Autoreset) -> Box<dyn Batch> {
    let settings = vec![("max_steps".to_owned(), "9".to_owned())];
    batch(env, &BatchConfig { settings, ..config(num_envs, 5, autoreset) })
}

/// One environment's transitions: observation, reward, terminated, truncated, in the order of real steps.
type Transition = (Vec<f32>, f32, bool, bool);

/// Steps `env` for `steps` real steps with actions that depend only on how many real steps were made.
fn transitions(env: &str, mode: Autoreset, steps: usize) -> (Vec<Transition>, Vec<Vec<f32>>) {
    let mut batch = short(env, 1, mode);
    let mut buffers = Buffers::new(1, batch.spec());
    let mut starts = vec![batch_observation(batch.as_ref())];
    let mut made = Vec::new();
    let mut ended = false;
    while made.len() < steps {
        if ended && mode == Autoreset::Disabled {
            batch.reset_into(Reset::Mask(&[true]), buffers.obs()).unwrap();
            starts.push(buffers.all_obs());
            ended = false;
        }
        let table = ActionTable::for_batch(batch.as_ref(), made.len());
        batch.step_into(table.actions(), buffers.out()).unwrap();
        let (reward, terminated, truncated) = (buffers.rewards()[0], buffers.terminated()[0], buffers.truncated()[0]);
        if ended && mode == Autoreset::NextStep {
            assert_eq!((reward, terminated, truncated), (0.0, false, false));
            starts.push(buffers.all_obs());
            ended = false;
            continue;
        }
        let done = terminated || truncated;
        let obs = if done { buffers.final_obs() } else { buffers.all_obs() };
        made.push((obs, reward, terminated, truncated));
        if done && mode == Autoreset::SameStep {
            starts.push(buffers.all_obs());
        } else {
            ended = done;
        }
    }
    (made, starts)
}

fn batch_observation(batch: &dyn Batch) -> Vec<f32> {
    let mut buffers = Buffers::new(batch.num_envs(), batch.spec());
    batch.observe_into(buffers.obs()).unwrap();
    buffers.all_obs()
}

#[test]
fn the_modes_agree_after_alignment() {
    for env in all_envs() {
        let (same, same_starts) = transitions(env, Autoreset::SameStep, 500);
        for mode in [Autoreset::NextStep, Autoreset::Disabled] {
            let (other, starts) = transitions(env, mode, 500);
            assert_eq!(other, same, "{env} {mode:?}");
            let n = starts.len().min(same_starts.len());
            assert!(n > 40 && starts[..n] == same_starts[..n], "{env} {mode:?}");
        }
    }
}

#[test]
fn lengths_and_returns_are_those_of_the_real_steps() {
    for mode in [Autoreset::NextStep, Autoreset::SameStep] {
        let mut batch = short("CartPole-v1", 37, mode);
        let mut buffers = StepBuffers::new(37, 4);
        let mut running = vec![(0_u32, false); 37];
        let mut ends = 0;
        for call in 0..200 {
            let table = ActionTable::new(&batch.spec().action, 37, call);
            batch.step_into(table.actions(), buffers.out()).unwrap();
            for (env, (length, ended)) in running.iter_mut().enumerate() {
                if std::mem::take(ended) && mode == Autoreset::NextStep {
                    continue;
                }
                *length += 1;
                if buffers.terminated[env] || buffers.truncated[env] {
                    assert_eq!(buffers.final_lengths[env], *length);
                    assert_eq!(buffers.final_returns[env], *length as f32);
                    assert_eq!(buffers.truncated[env], *length == 9);
                    (*length, *ended, ends) = (0, true, ends + 1);
                }
            }
        }
        assert_eq!(batch.stats().episodes(), ends);
        assert!(ends > 500);
    }
}

#[test]
fn both_flags_are_true_when_both_happen() {
    let mut batch = batch(
        "CartPole-v1",
        &BatchConfig { settings: vec![("max_steps".into(), "1".into())], ..config(2, 0, Autoreset::SameStep) },
    );
    batch.set_state(0, &[2.399, 5.0, 0.0, 0.0]).unwrap();
    let mut buffers = StepBuffers::new(2, 4);
    batch.step_into(Actions::Discrete(&[1, 1]), buffers.out()).unwrap();
    assert_eq!(buffers.terminated, [true, false]);
    assert_eq!(buffers.truncated, [true, true]);
    assert!(buffers.final_obs[0] > 2.4 && buffers.obs[0].abs() <= 0.05);
}

#[test]
fn disabled_refuses_to_step_on_and_changes_nothing() {
    let mut batch = short("MountainCar-v0", 20, Autoreset::Disabled);
    let mut buffers = StepBuffers::new(20, 2);
    let actions = [1; 20];
    for _ in 0..9 {
        batch.step_into(Actions::Discrete(&actions), buffers.out()).unwrap();
    }
    let before = batch.snapshot();
    let refused = batch.step_into(Actions::Discrete(&actions), buffers.out());
    assert_eq!(refused, Err(Error::ResetNeeded { env: 0 }));
    assert!(batch.snapshot() == before);

    let mut mask = [true; 20];
    mask[13] = false;
    let mut obs = vec![0.0; 40];
    let old = batch_observation(batch.as_ref());
    batch.reset_into(Reset::Mask(&mask), (&mut obs).into()).unwrap();
    assert_eq!(obs[26..28], old[26..28], "an environment outside of the mask keeps its state");
    assert_ne!(obs[24..26], old[24..26]);
    assert_eq!(batch.step_into(Actions::Discrete(&actions), buffers.out()), Err(Error::ResetNeeded { env: 13 }));
}

#[test]
fn some_environments_can_have_new_seeds_while_others_go_on() {
    let mut batch = short("MountainCar-v0", 20, Autoreset::Disabled);
    let (mut obs, seeds) = (vec![0.0; 40], [7; 20]);
    let none = batch.reset_into(Reset::Reseed { mask: &[true; 20], seeds: &[Some(1); 20] }, (&mut obs).into());
    assert!(none.is_err(), "one seed for all has no streams for single environments");
    batch.reset_into(Reset::Seeds(&seeds), (&mut obs).into()).unwrap();
    let first = obs.clone();
    batch.reset_into(Reset::All, (&mut obs).into()).unwrap();
    let second = obs.clone();
    batch.reset_into(Reset::Seeds(&seeds), (&mut obs).into()).unwrap();
    // Environment 2 begins anew, 3 goes on, 4 is not chosen.
    let (mut mask, mut new) = ([false; 20], [None; 20]);
    (mask[2], mask[3]) = (true, true);
    (new[2], new[4]) = (Some(7), Some(8));
    batch.step_into(Actions::Discrete(&[1; 20]), StepBuffers::new(20, 2).out()).unwrap();
    let stepped = batch_observation(batch.as_ref());
    batch.reset_into(Reset::Reseed { mask: &mask, seeds: &new }, (&mut obs).into()).unwrap();
    assert_eq!(obs[4..6], first[4..6]);
    assert_eq!(obs[6..8], second[6..8]);
    assert_eq!(obs[8..10], stepped[8..10]);
}

#[test]
fn some_environments_can_go_back_while_others_stay() {
    for env in all_envs() {
        let mut batch = short(env, 20, Autoreset::SameStep);
        let mut buffers = Buffers::new(20, batch.spec());
        batch.reset_into(Reset::Seeds(&[3; 20]), buffers.obs()).unwrap();
        let name = batch.spec().params.first().map(|param| param.name);
        let earlier = batch.snapshot();
        let states = |batch: &dyn Batch| (0..20).map(|env| batch.state(env).unwrap()).collect::<Vec<_>>();
        let first = states(batch.as_ref());
        batch.reset_into(Reset::Seeds(&[4; 20]), buffers.obs()).unwrap();
        let value = name.map(|name| batch.param(name, 0).unwrap() * 1.001);
        if let (Some(name), Some(value)) = (name, value)
            && batch.set_param(name, &[value]).is_err()
        {
            continue;
        }
        let second = states(batch.as_ref());
        let mask: Vec<bool> = (0..20).map(|env| env % 3 == 0).collect();
        batch.restore_some(&earlier, &mask).unwrap();
        let now = states(batch.as_ref());
        for i in 0..20 {
            assert_eq!(now[i], if mask[i] { first[i].clone() } else { second[i].clone() }, "{env} {i}");
            if let Some(name) = name {
                assert_eq!(batch.param(name, i).unwrap() == batch.param(name, 0).unwrap(), mask[i], "{env} {i}");
            }
        }
        assert!(batch.restore_some(&earlier, &[true; 3]).is_err());
    }
}

#[test]
fn ends_are_known() {
    for (mode, known) in [(Autoreset::NextStep, true), (Autoreset::SameStep, false), (Autoreset::Disabled, true)] {
        let mut batch = short("MountainCar-v0", 20, mode);
        let mut ended = [true; 20];
        for steps in 1..=9 {
            batch.step_into(Actions::Discrete(&[1; 20]), StepBuffers::new(20, 2).out()).unwrap();
            batch.ended_into(&mut ended).unwrap();
            assert_eq!(ended, [known && steps == 9; 20]);
        }
    }
}

/// Decisions that a caller sees are those that a roll-out makes unseen.
#[test]
fn decisions_one_by_one_are_those_of_a_rollout() {
    for (env, policy, arguments) in [
        ("CartPole-v1", "random", &[][..]),
        ("Pendulum-v1", "random", &[]),
        ("TicTacToe-v0", "random", &[]),
        ("CartPole-v1", "bangbang", &[]),
        ("Pendulum-v1", "pid", &[("obs_field", "sin_theta")]),
    ] {
        let config = config(300, 5, Autoreset::SameStep);
        let (mut unseen, mut seen) = (batch(env, &config), batch(env, &config));
        let mut rollout = common::rollout(unseen.as_ref(), policy, arguments);
        unseen.advance(&mut rollout, 40).unwrap();
        let mut rollout = common::rollout(seen.as_ref(), policy, arguments);
        let spec = seen.spec().clone();
        let mut buffers = StepBuffers::new(300, spec.observation.dim());
        for _ in 0..40 {
            let (mut indices, mut values) = (vec![0; 300], vec![0.0; 300]);
            if spec.action.is_discrete() {
                seen.decide_into(&mut rollout, ActionsMut::Discrete(&mut indices)).unwrap();
                seen.step_into(Actions::Discrete(&indices), buffers.out()).unwrap();
            } else {
                seen.decide_into(&mut rollout, ActionsMut::Continuous(&mut values)).unwrap();
                seen.step_into(Actions::Continuous(&values), buffers.out()).unwrap();
            }
        }
        for i in 0..300 {
            assert_eq!(seen.state(i), unseen.state(i), "{env} {policy}");
        }
    }
}

#[test]
fn a_rollout_starts_where_next_step_left_an_ended_episode() {
    let mut batch = short("Pendulum-v1", 5, Autoreset::NextStep);
    let mut buffers = StepBuffers::new(5, 3);
    for _ in 0..9 {
        batch.step_into(Actions::Continuous(&[0.0; 5]), buffers.out()).unwrap();
    }
    assert_eq!(buffers.truncated, [true; 5]);
    let mut rollout = common::rollout(batch.as_ref(), "constant", &[]);
    batch.advance(&mut rollout, 9).unwrap();
    assert_eq!(rollout.stats().episodes(), 5);
    assert_eq!(rollout.stats().lengths().unwrap().mean, 9.0);
}

#[test]
fn wrong_arrays_are_refused_before_anything_changes() {
    let mut discrete = batch("CartPole-v1", &config(3, 0, Autoreset::NextStep));
    let mut continuous = batch("Pendulum-v1", &config(3, 0, Autoreset::NextStep));
    let before = (discrete.snapshot(), continuous.snapshot());
    let step = |batch: &mut dyn Batch, actions: Actions<'_>, envs: usize, dim: usize| -> Result<()> {
        batch.step_into(actions, StepBuffers::new(envs, dim).out())
    };
    let messages = [
        step(discrete.as_mut(), Actions::Discrete(&[0, 1, 2]), 3, 4),
        step(discrete.as_mut(), Actions::Discrete(&[0, -1, 1]), 3, 4),
        step(discrete.as_mut(), Actions::Discrete(&[0, 1]), 3, 4),
        step(discrete.as_mut(), Actions::Continuous(&[0.0; 3]), 3, 4),
        step(discrete.as_mut(), Actions::Discrete(&[0; 3]), 2, 4),
        step(discrete.as_mut(), Actions::Discrete(&[0; 3]), 3, 3),
        step(continuous.as_mut(), Actions::Continuous(&[0.0, f32::NAN, 0.0]), 3, 3),
        step(continuous.as_mut(), Actions::Discrete(&[0; 3]), 3, 3),
        discrete.reset_into(Reset::Mask(&[true; 2]), [0.0; 12].as_mut_slice().into()),
        discrete.reset_into(Reset::Seeds(&[1, 2]), [0.0; 12].as_mut_slice().into()),
        discrete.reset_into(Reset::All, [0.0; 11].as_mut_slice().into()),
        discrete.set_state(0, &[0.0; 3]),
        discrete.set_state(0, &[0.0, f64::NAN, 0.0, 0.0]),
        discrete.set_state(3, &[0.0; 4]),
        discrete.set_param("gravity", &[1.0, 2.0]),
        discrete.set_param("gravity", &[-1.0]),
        discrete.set_param("gravitas", &[1.0]),
        discrete.set_param("low", &[1.0]),
    ]
    .map(|result| result.unwrap_err().to_string());
    let expected = [
        "the action of environment 2 is 2, but must be a whole number from 0 to 1",
        "the action of environment 1 is -1, but must be a whole number from 0 to 1",
        "the action array has 2 elements, but 3 are needed",
        "CartPole-v1 takes discrete actions, but continuous ones were given",
        "the observation array has 8 elements, but 12 are needed",
        "the observation array has 9 elements, but 12 are needed",
        "component 0 of the action of environment 1 is NaN, but must be a finite number",
        "Pendulum-v1 takes continuous actions, but discrete ones were given",
        "the reset mask has 2 elements, but 3 are needed",
        "the list of seeds has 2 elements, but 3 are needed",
        "the observation array has 11 elements, but 12 are needed",
        "the state (x, x_dot, theta, theta_dot) has 3 elements, but 4 are needed",
        "x_dot of the state is NaN, but must be a finite number of at most 3.4028235e38",
        "the number of an environment is 3, but must be from 0 to 2",
        "parameter gravity of CartPole-v1 (one value, or one for each environment) has 2 elements, but 3 are needed",
        "parameter gravity of CartPole-v1 is -1, but must be from 0 to 1000",
    ];
    assert_eq!(messages[..16], expected);
    assert!((discrete.snapshot(), continuous.snapshot()) == before);
}

#[test]
fn parameters_per_environment() {
    let num_envs = 20;
    let mut many = batch("Pendulum-v1", &config(num_envs, 3, Autoreset::SameStep));
    let gravities: Vec<f64> = (0..num_envs).map(|i| 5.0 + i as f64).collect();
    many.set_param("g", &gravities).unwrap();
    many.set_param("m", &[1.5]).unwrap();
    for (env, gravity) in gravities.iter().enumerate() {
        assert_eq!(
            (many.param("g", env).unwrap(), many.param("m", env).unwrap(), many.param("l", env).unwrap()),
            (*gravity, 1.5, 1.0)
        );
    }
    for env in 0..num_envs {
        many.set_state(env, &[1.0, 0.5]).unwrap();
    }
    let mut buffers = StepBuffers::new(num_envs, 3);
    many.step_into(Actions::Continuous(&[0.7; 20]), buffers.out()).unwrap();
    for (gravity, found) in gravities.iter().zip(buffers.obs.chunks(3)) {
        let settings = vec![("g".to_owned(), gravity.to_string()), ("m".to_owned(), "1.5".to_owned())];
        let mut one = batch("Pendulum-v1", &BatchConfig { settings, ..config(1, 3, Autoreset::SameStep) });
        one.set_state(0, &[1.0, 0.5]).unwrap();
        let mut single = StepBuffers::new(1, 3);
        one.step_into(Actions::Continuous(&[0.7]), single.out()).unwrap();
        assert_eq!(single.obs, found, "gravity {gravity}");
    }
}

#[test]
fn a_snapshot_of_another_autoreset_mode_is_refused() {
    let snapshot = short("Pendulum-v1", 5, Autoreset::NextStep).snapshot();
    let error = short("Pendulum-v1", 5, Autoreset::SameStep).restore(&snapshot).unwrap_err().to_string();
    assert_eq!(error, "snapshot has autoreset NextStep, but autoreset SameStep is in use here");
}

#[test]
fn a_policy_for_another_environment_is_refused() {
    let acrobot = batch("Acrobot-v1", &config(2, 0, Autoreset::SameStep));
    let mut mountain_car = batch("MountainCar-v0", &config(2, 0, Autoreset::SameStep));
    let mut rollout = common::rollout(acrobot.as_ref(), "bangbang", &[("obs_field", "theta2_dot")]);
    let error = mountain_car.advance(&mut rollout, 1).unwrap_err().to_string();
    assert!(error.starts_with("what the policy observes is cos_theta1"), "{error}");
}

#[test]
fn controllers_know_the_time_step_in_force() {
    let settings = vec![("dt".to_owned(), "0.01".to_owned())];
    let batch = batch("Pendulum-v1", &BatchConfig { settings, ..config(1, 0, Autoreset::SameStep) });
    assert_eq!(batch.spec().dt, Some(0.01));
}
