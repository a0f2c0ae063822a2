//! `MountainCar-v0`: drive a weak car out of a valley by swinging back and forth.
//!
//! Source: Moore (1990), as in Gymnasium 1.x. State: position p and velocity v.
//!
//! ```text
//! v' = clip(v + (a − 1) force − gravity cos 3p, ±max_speed)       a = 0 left, 1 none, 2 right
//! p' = clip(p + v', min_position, max_position);  v' = 0 at the left wall
//! ```
//!
//! The task ends at `p' >= goal_position` with `v' >= goal_velocity`; every step, the last included,
//! costs 1.

use phalanx_core::env::{Discrete, LaneEnv, LaneStruct, Step, check_order};
use phalanx_core::lanes::Real;
use phalanx_core::rng::Draws;
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace};
use phalanx_core::{lane_params, lane_struct};

/// The environment.
#[derive(Clone, Debug, Default)]
pub struct MountainCar;

lane_struct! {
    /// The car.
    pub struct State<R> {
        position: R,
        velocity: R,
    }
}

lane_params! {
    /// Constants of car and valley.
    pub struct Params {
        force = 0.001, 0.0 => 1.0, "acceleration by the engine, per step²";
        gravity = 0.0025, 0.0 => 1.0, "acceleration by gravity, per step²";
        max_speed = 0.07, 0.0 => 10.0, "limit of the speed, per step";
        min_position = -1.2, -1e3 => 1e3, "position of the left wall";
        max_position = 0.6, -1e3 => 1e3, "rightmost position";
        goal_position = 0.5, -1e3 => 1e3, "position from which the task ends";
        goal_velocity = 0.0, -10.0 => 10.0, "velocity from which the task ends";
        low = -0.6, -1e3 => 1e3, "lower bound of the start position";
        high = -0.4, -1e3 => 1e3, "upper bound of the start position";
    }
}

impl LaneEnv for MountainCar {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = Discrete<R>;
    type Obs<R: Real> = [R; 2];

    const LONG_EPISODES: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            reward_threshold: Some(-110.0),
            ..EnvSpec::of::<Self>(
                "MountainCar-v0",
                "swing a weak car out of a valley: push left (0), none (1) or right (2)",
                observation_space(),
                ActionSpace::Discrete { n: 3 },
                200,
            )
        }
    }

    fn check_params(&self, params: &Params<f64>) -> Result<(), String> {
        check_order("low", params.low, "high", params.high)?;
        check_order("min_position", params.min_position, "max_position", params.max_position)
    }

    #[inline(always)]
    fn reset<R: Real>(&self, params: &Params<R>, draws: &mut Draws<R>) -> State<R> {
        State { position: draws.uniform(params.low, params.high), velocity: R::splat(0.0) }
    }

    #[inline(always)]
    fn step<R: Real>(
        &self,
        params: &Params<R>,
        state: &State<R>,
        action: Discrete<R>,
        _: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        let push = (action.to_real() - R::splat(1.0)) * params.force;
        let valley = Valley {
            gravity: params.gravity,
            max_speed: params.max_speed,
            min_position: params.min_position,
            max_position: params.max_position,
        };
        let (position, velocity) = valley.roll(state.position, state.velocity, push);
        let terminated = position.ge(params.goal_position) & velocity.ge(params.goal_velocity);
        Step { state: State { position, velocity }, reward: R::splat(-1.0), terminated }
    }

    #[inline(always)]
    fn observe<R: Real>(&self, _: &Params<R>, state: &State<R>) -> [R; 2] {
        [state.position, state.velocity]
    }
}

/// What both mountain cars see.
pub(crate) fn observation_space() -> ObservationSpace {
    ObservationSpace::vector(State::<f32>::NAMES, vec![-1.2, -0.07], vec![0.6, 0.07])
}

/// The valley that both mountain cars drive in.
pub(crate) struct Valley<R> {
    pub(crate) gravity: R,
    pub(crate) max_speed: R,
    pub(crate) min_position: R,
    pub(crate) max_position: R,
}

impl<R: Real> Valley<R> {
    /// Position and velocity after a step with an acceleration of `push`.
    ///
    /// Written without fused operations: Gymnasium's continuous car keeps its state in single precision,
    /// and this rounds where it rounds.
    #[inline(always)]
    pub(crate) fn roll(&self, position: R, velocity: R, push: R) -> (R, R) {
        let slope = self.gravity * (R::splat(3.0) * position).cos();
        let velocity = (velocity + (push - slope)).clamp(-self.max_speed, self.max_speed);
        let position = (position + velocity).clamp(self.min_position, self.max_position);
        let at_wall = position.eq(self.min_position) & velocity.lt(R::splat(0.0));
        (position, R::select(at_wall, R::splat(0.0), velocity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{exact, follow};

    #[test]
    fn golden_states_of_gymnasium() {
        let mut probe = exact(MountainCar, &[]);
        let steps = [
            (2.0, [-0.49917684300416926, 0.0008231569958307428]),
            (2.0, [-0.49753668667935325, 0.0016401563248160246]),
            (0.0, [-0.4970917969323474, 0.00044488974700586273]),
            (1.0, [-0.49684550006784745, 0.0002462968644999427]),
            (2.0, [-0.4957996374204934, 0.0010458626473540712]),
        ];
        let taken = follow(probe.as_mut(), [-0.5, 0.0], &steps, 1e-12);
        assert!(taken.iter().all(|step| step.reward == -1.0 && !step.terminated));
        follow(probe.as_mut(), [-1.19, -0.05], &[(0.0, [-1.2, 0.0])], 1e-12);
        let goal = follow(probe.as_mut(), [0.49, 0.03], &[(2.0, [0.5207484356665326, 0.03074843566653267])], 1e-12);
        assert!(goal[0].terminated && goal[0].reward == -1.0);
    }
}
