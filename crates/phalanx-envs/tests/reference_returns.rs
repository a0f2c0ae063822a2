//! Mean returns of simple policies against independent simulations.
//!
//! The reference values (mean, standard deviation of one episode, number of episodes) were obtained by
//! direct simulation of the published equations with independent seeds. A measured mean over m
//! episodes must agree within four standard errors: |mean - ref| <= 4 sd sqrt(1/m + 1/n).

mod common;

use std::f32::consts::PI;
use std::sync::Arc;

use phalanx_core::batch::{ActionsMut, Autoreset};
use phalanx_core::policy::{Policy, Tile, TilePolicy};
use phalanx_core::rollout::Rollout;
use phalanx_core::space::EnvSpec;

const ENVS: usize = 2_000;

/// Mean, standard deviation of one episode (0 if exactly known), episodes of the reference.
struct Reference(f64, f64, f64);

/// A policy that looks at one observation.
struct Rule<F>(F);

impl<F: Fn(&[f32]) -> f32 + Send + Sync> TilePolicy for Rule<F> {
    fn act(&self, tile: Tile, obs: &[f32], actions: ActionsMut<'_>) {
        let rows = obs.chunks_exact(obs.len() / tile.envs);
        match actions {
            ActionsMut::Discrete(indices) => {
                indices.iter_mut().zip(rows).for_each(|(index, row)| *index = (self.0)(row) as i32)
            }
            ActionsMut::Continuous(values) => {
                values.iter_mut().zip(rows).for_each(|(value, row)| *value = (self.0)(row))
            }
        }
    }
}

fn rule(decide: impl Fn(&[f32]) -> f32 + Send + Sync + 'static) -> impl FnOnce(&EnvSpec) -> Policy {
    move |_| Policy::Tile(Arc::new(Rule(decide)))
}

fn named(name: &'static str, arguments: &'static [(&str, &str)]) -> impl FnOnce(&EnvSpec) -> Policy {
    move |spec| Policy::parse(name, arguments, spec).unwrap()
}

#[track_caller]
fn check(env: &str, policy: impl FnOnce(&EnvSpec) -> Policy, Reference(mean, sd, n): Reference) {
    let mut batch = common::batch(env, &common::config(ENVS, 2_024, Autoreset::SameStep));
    // Episodes cut off at the end of the run are the long ones; after twenty limits they do not count.
    let steps = 20 * batch.spec().max_steps as usize;
    let mut rollout = Rollout::new(policy(batch.spec()), batch.as_ref());
    rollout.run(batch.as_mut(), steps, 256, |_| true).unwrap();
    let (found, m) = (rollout.stats().returns().unwrap(), rollout.stats().episodes() as f64);
    let allowed = 4.0 * sd * (1.0 / m + 1.0 / n).sqrt();
    let off = (found.mean - mean).abs();
    assert!(
        off <= allowed + 1e-9,
        "{env}: {:.3} ± {:.3} over {m} episodes instead of {mean} ± {allowed:.3}",
        found.mean,
        found.std
    );
    // The spread has a standard error of about sd / sqrt(2n) for a normal distribution; none of these is
    // heavy-tailed enough to need more than this.
    if sd > 0.0 {
        assert!((found.std / sd - 1.0).abs() < 0.15, "{env}: spread {} instead of {sd}", found.std);
    }
}

#[test]
fn cartpole() {
    let env = "CartPole-v1";
    check(env, named("random", &[]), Reference(22.14, 11.80, 1e4));
    check(env, named("constant", &[("action", "1")]), Reference(9.35, 0.75, 1e4));
    check(env, named("constant", &[]), Reference(9.35, 0.75, 1e4));
    check(env, named("open_loop", &[("schedule", "1:0")]), Reference(37.5, 15.2, 1e4));
    check(env, named("periodic", &[("pulse_width", "1")]), Reference(37.5, 15.2, 1e4));
    check(env, named("bangbang", &[]), Reference(41.99, 8.81, 1e4));
    check(env, named("bangbang", &[("obs_field", "theta_dot")]), Reference(198.8, 41.1, 1e4));
    check(env, rule(|o| f32::from(o[2] + o[3] > 0.0)), Reference(484.2, 48.8, 1e4));
    check(env, rule(|o| f32::from(o[2] + 0.25 * o[3] > 0.0)), Reference(500.0, 0.0, 1e4));
}

#[test]
fn cartpole_pid_holds_the_pole_in_every_episode() {
    let pid = named("pid", &[("kp", "-1"), ("kd", "-0.25"), ("control_low", "-1"), ("control_high", "1")]);
    let mut batch = common::batch("CartPole-v1", &common::config(ENVS, 7, Autoreset::SameStep));
    let mut rollout = Rollout::new(pid(batch.spec()), batch.as_ref());
    rollout.run(batch.as_mut(), 2_000, 256, |_| true).unwrap();
    let returns = rollout.stats().returns().unwrap();
    assert!(returns.mean > 499.9 && returns.std < 0.5, "{returns:?}");
}

#[test]
fn pendulum() {
    let env = "Pendulum-v1";
    check(env, named("random", &[]), Reference(-1226.6, 287.6, 5e3));
    check(env, named("constant", &[]), Reference(-1213.9, 357.7, 5e3));
    check(env, rule(|o| -o[2]), Reference(-1865.1, 83.2, 5e3));
    check(env, named("bangbang", &[("obs_field", "theta_dot")]), Reference(-1617.4, 47.5, 5e3));
    check(env, rule(|o| swing_up(o[1].atan2(o[0]), o[2], 10.0)), Reference(-148.6, 91.2, 5e3));
}

#[test]
fn pendulum_control() {
    let env = "pendulum-control";
    check(env, named("random", &[]), Reference(-1224.6, 283.6, 5e3));
    check(env, named("constant", &[]), Reference(-1222.2, 354.8, 5e3));
    check(env, rule(|o| -o[2]), Reference(-1870.8, 83.3, 5e3));
    check(env, named("bangbang", &[("obs_field", "theta_dot")]), Reference(-1638.9, 51.9, 5e3));
    check(env, rule(|o| swing_up(o[1].atan2(o[0]) - PI, o[2], 9.8)), Reference(-145.7, 89.7, 5e3));
}

/// Energy swing-up far from upright, proportional-derivative control near it; `phi` is the angle from
/// upright.
fn swing_up(phi: f32, speed: f32, gravity: f32) -> f32 {
    let phi = (phi + PI).rem_euclid(2.0 * PI) - PI;
    if phi.abs() < 0.5 {
        return -10.0 * phi - 2.0 * speed;
    }
    let energy = speed * speed / 6.0 + gravity / 2.0 * phi.cos();
    if speed == 0.0 { 2.0 } else { speed.signum() * (10.0 * (gravity / 2.0 - energy)).clamp(-2.0, 2.0) }
}

#[test]
fn mountain_car() {
    let env = "MountainCar-v0";
    check(env, named("random", &[]), Reference(-200.0, 0.0, 5e3));
    check(env, named("constant", &[("action", "1")]), Reference(-200.0, 0.0, 5e3));
    check(env, rule(|o| if o[1] < 0.0 { 0.0 } else { 2.0 }), Reference(-119.4, 3.7, 5e3));
}

/// Apart from the rest: a few unlucky starts never get going, so the spread is no guide.
#[test]
fn mountain_car_bang_bang_solves_nearly_always() {
    let mut batch = common::batch("MountainCar-v0", &common::config(ENVS, 3, Autoreset::SameStep));
    let mut rollout = common::rollout(batch.as_ref(), "bangbang", &[("obs_field", "velocity")]);
    rollout.run(batch.as_mut(), 4_000, 256, |_| true).unwrap();
    let (returns, m) = (rollout.stats().returns().unwrap(), rollout.stats().episodes() as f64);
    assert!((returns.mean - -129.8).abs() <= 4.0 * 32.8 * (1.0 / m + 1.0 / 5e3_f64).sqrt(), "{returns:?}");
}

#[test]
fn mountain_car_continuous() {
    let env = "MountainCarContinuous-v0";
    check(env, rule(|o| if o[1] < 0.0 { -1.0 } else { 1.0 }), Reference(89.35, 0.15, 2e3));
    check(env, named("bangbang", &[("obs_field", "velocity")]), Reference(92.05, 0.21, 2e3));
    check(env, rule(|o| if o[1] < 0.0 { -0.5 } else { 0.5 }), Reference(95.87, 0.89, 2e3));
    check(env, named("constant", &[]), Reference(0.0, 0.0, 2e3));
    // Under random actions one episode in a thousand reaches the goal for +100, so the spread of the
    // reference's 2 000 episodes is itself uncertain: only the mean is compared.
    let mut batch = common::batch(env, &common::config(ENVS, 5, Autoreset::SameStep));
    let mut rollout = common::rollout(batch.as_ref(), "random", &[]);
    rollout.run(batch.as_mut(), 20 * 999, 256, |_| true).unwrap();
    let returns = rollout.stats().returns().unwrap();
    assert!((returns.mean - -33.16).abs() <= 4.0 * 3.70 * (1.0 / 4e4 + 1.0 / 2e3_f64).sqrt(), "{returns:?}");
}

#[test]
fn acrobot() {
    let env = "Acrobot-v1";
    check(env, named("constant", &[("action", "1")]), Reference(-500.0, 0.0, 1e3));
    check(env, rule(|o| if o[4] > 0.0 { 0.0 } else { 2.0 }), Reference(-83.8, 19.3, 1e3));
    check(env, named("bangbang", &[("obs_field", "theta1_dot"), ("invert", "true")]), Reference(-83.8, 19.3, 1e3));
    // Heavy-tailed: compare the means only.
    for (policy, mean, sd) in [("random", -498.5, 13.5), ("along", -90.1, 40.9)] {
        let mut batch = common::batch(env, &common::config(ENVS, 5, Autoreset::SameStep));
        let policy = match policy {
            "random" => named("random", &[])(batch.spec()),
            _ => rule(|o| if o[5] > 0.0 { 2.0 } else { 0.0 })(batch.spec()),
        };
        let mut rollout = Rollout::new(policy, batch.as_ref());
        rollout.run(batch.as_mut(), 10_000, 256, |_| true).unwrap();
        let (returns, m) = (rollout.stats().returns().unwrap(), rollout.stats().episodes() as f64);
        assert!((returns.mean - mean).abs() <= 4.0 * sd * (1.0 / m + 1.0 / 1e3_f64).sqrt(), "{returns:?}");
    }
}
