//! `Pendulum-v1`: swing a pendulum up and hold it there with a limited torque.
//!
//! Source: Gymnasium 1.x. State: angle θ (rad, 0 upright, not wrapped) and its speed. The reward looks at
//! the state before the step and at the clipped torque u:
//!
//! ```text
//! r  = −(wrap(θ)² + 0.1 θ̇² + 0.001 u²)
//! θ̇' = clip(θ̇ + (3g/(2l) sin θ + 3/(m l²) u) dt, ±max_speed)
//! θ' = θ + θ̇' dt
//! ```

use std::f64::consts::TAU;

use phalanx_core::env::{LaneEnv, Step};
use phalanx_core::lanes::{Mask, Real};
use phalanx_core::rng::Draws;
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace};
use phalanx_core::{lane_params, lane_struct};

/// The environment.
#[derive(Clone, Debug, Default)]
pub struct Pendulum;

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
        g = 10.0, -1e3 => 1e3, "gravitational acceleration, m/s²";
        m = 1.0, 1e-3 => 1e3, "mass, kg";
        l = 1.0, 1e-3 => 1e3, "length, m";
        dt = 0.05, 1e-6 => 1.0, "time between two steps, s";
        max_torque = 2.0, 0.0 => 1e4, "limit of the torque, N m";
        max_speed = 8.0, 0.0 => 1e4, "limit of the speed, rad/s";
        x_init = std::f64::consts::PI, 0.0 => 1e3, "start angles lie within ± this, rad";
        y_init = 1.0, 0.0 => 1e3, "start speeds lie within ± this, rad/s";
    }
}

/// The names of what is seen of a pendulum.
pub(crate) const OBSERVATION_NAMES: &[&str] = &["cos_theta", "sin_theta", "theta_dot"];

/// The angle in [-π, π], wrapped by whole turns.
///
/// A product instead of a quotient: an angle right beside ±π may come out on the other side, where the
/// cost, which squares it, is the same.
#[inline(always)]
fn wrap<R: Real>(angle: R) -> R {
    let turns = angle.mul_add(R::splat(1.0 / TAU), R::splat(0.5)).floor();
    (-turns).mul_add(R::splat(TAU), angle)
}

/// What a state and a torque cost; `angle` is that from upright.
#[inline(always)]
pub(crate) fn cost<R: Real>(angle: R, speed: R, torque: R) -> R {
    let angle = wrap(angle);
    let effort = R::splat(0.001) * torque * torque;
    angle.mul_add(angle, (R::splat(0.1) * speed).mul_add(speed, effort))
}

/// The torque's part of the acceleration, with the roundings of Gymnasium: an action of its action space is in
/// single precision, and numpy then limits and multiplies it in single precision.
fn push_as_gymnasium<R: Real>(params: &Params<R>, action: R) -> R {
    let round = |x: R| R::select(action.eq(action.to_single()), x.to_single(), x);
    let limit = round(params.max_torque);
    let leverage = R::splat(3.0) / (params.m * (params.l * params.l));
    round(round(leverage) * action.clamp(-limit, limit))
}

impl Pendulum {
    /// A step from a state whose angle has the sine `sin`.
    #[inline(always)]
    fn swing<R: Real>(params: &Params<R>, state: &State<R>, sin: R, action: R) -> Step<State<R>, R> {
        let torque = action.clamp(-params.max_torque, params.max_torque);
        let cost = cost(state.theta, state.theta_dot, torque);

        let gravity = R::splat(1.5) * params.g / params.l;
        let push = if R::PARITY {
            push_as_gymnasium(params, action)
        } else {
            R::splat(3.0) / (params.m * params.l * params.l) * torque
        };
        let acceleration = gravity.mul_add(sin, push);
        let theta_dot = acceleration.mul_add(params.dt, state.theta_dot).clamp(-params.max_speed, params.max_speed);
        let theta = theta_dot.mul_add(params.dt, state.theta);
        Step { state: State { theta, theta_dot }, reward: -cost, terminated: R::Mask::splat(false) }
    }
}

impl LaneEnv for Pendulum {
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
                "Pendulum-v1",
                "swing a pendulum up (theta = 0) and hold it there with a limited torque",
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
    use crate::golden::{exact, follow};

    #[test]
    fn golden_states_and_rewards_of_gymnasium() {
        let mut probe = exact(Pendulum, &[]);
        let steps = [
            (2.0, [1.071555161930296, 1.4311032386059224]),
            (-2.0, [1.1610333031404467, 1.7895628242030117]),
            (0.5, [1.288657016527316, 2.5524742677373844]),
            (3.0, [1.4672980560046727, 3.5728207895471336]),
            (0.0, [1.6832384267304503, 4.318807414515552]),
        ];
        let taken = follow(probe.as_mut(), [1.0, 0.5], &steps, 1e-12);
        let rewards = [-1.029, -1.3570361130142985, -1.6685018411781625, -2.3161493949912333, -3.429468424577111];
        for (step, reward) in taken.iter().zip(rewards) {
            assert!((step.reward - reward).abs() <= 1e-12 && !step.terminated, "{step:?} instead of {reward}");
        }
        let clipped = follow(probe.as_mut(), [3.0, 7.9], &[(2.0, [3.4, 8.0])], 1e-12);
        assert!((clipped[0].reward - -15.245).abs() <= 1e-12);
    }

    #[test]
    fn wrap_takes_off_whole_turns() {
        use std::f64::consts::PI;
        for (angle, wrapped) in [(0.0, 0.0), (1.0, 1.0), (4.0, 4.0 - TAU), (-4.0, TAU - 4.0), (20.0, 20.0 - 3.0 * TAU)]
        {
            assert!((wrap(angle) - wrapped).abs() < 1e-12, "{angle}: {}", wrap(angle));
        }
        // At the seam either side is right.
        for angle in [PI, -PI, 3.0 * PI] {
            assert!((wrap::<f64>(angle).abs() - PI).abs() < 1e-12, "{angle}: {}", wrap(angle));
        }
    }
}
