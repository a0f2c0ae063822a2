//! `pendulum-control`: Myriad's pendulum with its documentation's meaning of the angle.
//!
//! State: angle θ (rad, 0 hanging, π upright, not wrapped) and its speed. The reward looks at the state
//! after the step:
//!
//! ```text
//! θ̈  = −3g/(2l) sin θ + 3/(m l²) u                      u = clip(a, ±max_torque)
//! θ̇' = clip(θ̇ + θ̈ dt, ±max_speed)       θ' = θ + θ̇' dt
//! r  = −(wrap(θ' − π)² + 0.1 θ̇'² + 0.001 u²)
//! ```
//!
//! Deviations from the published code, which are faults there: its gravity has the opposite sign, so
//! upright is the stable rest point; it charges for the unclipped action; it moves with the unclipped
//! speed.

use std::f64::consts::PI;

use phalanx_core::env::{LaneEnv, Step};
use phalanx_core::lanes::{Mask, Real};
use phalanx_core::rng::Draws;
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace};
use phalanx_core::{lane_params, lane_struct};

use crate::pendulum::{OBSERVATION_NAMES, cost};

/// The environment.
#[derive(Clone, Debug, Default)]
pub struct PendulumControl;

lane_struct! {
    /// The pendulum.
    pub struct State<R> {
        theta: R,
        theta_dot: R,
    }
}

lane_params! {
    /// Constants of the pendulum.
    pub struct Params {
        g = 9.8, -1e3 => 1e3, "gravitational acceleration, m/s²";
        m = 1.0, 1e-3 => 1e3, "mass, kg";
        l = 1.0, 1e-3 => 1e3, "length, m";
        dt = 0.05, 1e-6 => 1.0, "time between two steps, s";
        max_torque = 2.0, 0.0 => 1e4, "limit of the torque, N m";
        max_speed = 8.0, 0.0 => 1e4, "limit of the speed, rad/s";
        x_init = PI, 0.0 => 1e3, "start angles lie within ± this, rad";
        y_init = 1.0, 0.0 => 1e3, "start speeds lie within ± this, rad/s";
    }
}

impl PendulumControl {
    /// A step from a state whose angle has the sine `sin`.
    #[inline(always)]
    fn swing<R: Real>(params: &Params<R>, state: &State<R>, sin: R, action: R) -> Step<State<R>, R> {
        let torque = action.clamp(-params.max_torque, params.max_torque);
        let gravity = R::splat(-1.5) * params.g / params.l;
        let leverage = R::splat(3.0) / (params.m * params.l * params.l);
        let acceleration = gravity.mul_add(sin, leverage * torque);
        let theta_dot = acceleration.mul_add(params.dt, state.theta_dot).clamp(-params.max_speed, params.max_speed);
        let theta = theta_dot.mul_add(params.dt, state.theta);

        let cost = cost(theta - R::splat(PI), theta_dot, torque);
        Step { state: State { theta, theta_dot }, reward: -cost, terminated: R::Mask::splat(false) }
    }
}

impl LaneEnv for PendulumControl {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = [R; 1];
    type Obs<R: Real> = [R; 3];

    const LONG_EPISODES: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            dt: Some(0.05),
            dt_param: Some("dt"),
            ..EnvSpec::of::<Self>(
                "pendulum-control",
                "swing a hanging pendulum up to theta = pi and hold it there with a limited torque",
                ObservationSpace::symmetric(OBSERVATION_NAMES, &[1.0, 1.0, 8.0]),
                ActionSpace::Box { low: vec![-2.0], high: vec![2.0] },
                200,
            )
        }
    }

    #[inline(always)]
    fn reset<R: Real>(&self, params: &Params<R>, draws: &mut Draws<R>) -> State<R> {
        State {
            theta: draws.uniform(-params.x_init, params.x_init),
            theta_dot: draws.uniform(-params.y_init, params.y_init),
        }
    }

    #[inline(always)]
    fn step<R: Real>(
        &self,
        params: &Params<R>,
        state: &State<R>,
        [action]: [R; 1],
        _: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        Self::swing(params, state, state.theta.sin(), action)
    }

    #[inline(always)]
    fn step_seen<R: Real>(
        &self,
        params: &Params<R>,
        state: &State<R>,
        &[_, sin, _]: &[R; 3],
        [action]: [R; 1],
        _: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        Self::swing(params, state, sin, action)
    }

    #[inline(always)]
    fn observe<R: Real>(&self, _: &Params<R>, state: &State<R>) -> [R; 3] {
        let (sin, cos) = state.theta.sin_cos();
        [cos, sin, state.theta_dot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pendulum;
    use crate::golden::{close, exact};

    #[test]
    fn equals_pendulum_with_the_angle_measured_from_below() {
        let (mut control, mut upright) = (exact(PendulumControl, &[]), exact(Pendulum, &[("g", "9.8")]));
        control.set_state(&[2.0, -0.5]).unwrap();
        upright.set_state(&[2.0 - PI, -0.5]).unwrap();
        for i in 0..200 {
            let torque = [2.5 * f64::from(i % 7 - 3) / 3.0];
            control.step(&torque).unwrap();
            upright.step(&torque).unwrap();
            let [theta, speed] = control.state()[..] else { unreachable!("two fields") };
            close(&[theta - PI, speed], &upright.state(), 1e-9, i as usize);
        }
    }

    /// Small free oscillations about hanging have ω² = 3g/(2l) = 14.7.
    #[test]
    fn swings_freely_at_the_right_frequency() {
        let mut probe = exact(PendulumControl, &[("dt", "0.0005"), ("max_steps", "100000")]);
        probe.set_state(&[0.01, 0.0]).unwrap();
        let mut crossings = Vec::new();
        let mut before = 0.01;
        for step in 1..40_000 {
            probe.step(&[0.0]).unwrap();
            let theta = probe.state()[0];
            if (theta < 0.0) != (before < 0.0) {
                crossings.push(f64::from(step) * 0.0005);
            }
            before = theta;
        }
        let period = 2.0 * (crossings[crossings.len() - 1] - crossings[0]) / (crossings.len() - 1) as f64;
        assert!((period - 2.0 * PI / 14.7_f64.sqrt()).abs() < 1e-3, "period {period}");
    }

    #[test]
    fn upright_is_unstable() {
        let mut probe = exact(PendulumControl, &[]);
        probe.set_state(&[PI - 0.01, 0.0]).unwrap();
        for _ in 0..20 {
            probe.step(&[0.0]).unwrap();
        }
        assert!(probe.state()[0] < PI - 0.1);
    }

    #[test]
    fn the_reward_looks_at_the_new_state_and_the_clipped_torque() {
        let mut probe = exact(PendulumControl, &[]);
        probe.set_state(&[1.0, 0.5]).unwrap();
        let reward = probe.step(&[3.0]).unwrap().reward;
        let [theta, speed] = probe.state()[..] else { unreachable!("two fields") };
        let expected = -((theta - PI).powi(2) + 0.1 * speed * speed + 0.001 * 4.0);
        assert!((reward - expected).abs() < 1e-12);
    }
}
