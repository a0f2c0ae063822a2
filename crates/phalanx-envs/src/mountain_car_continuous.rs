//! `MountainCarContinuous-v0`: the mountain car with a continuous, costly throttle.
//!
//! Source: Gymnasium 1.x. The valley is that of [`MountainCar`](crate::MountainCar); the engine gives
//! `clip(a, ±1) power`. The reward is 100 on reaching the goal, minus 0.1 a² with the action as given,
//! not as clipped.

use phalanx_core::env::{LaneEnv, Step};
use phalanx_core::lanes::Real;
use phalanx_core::rng::Draws;
use phalanx_core::space::{ActionSpace, EnvSpec};
use phalanx_core::{lane_params, lane_struct};

use crate::mountain_car::{Valley, observation_space};

/// The environment.
#[derive(Clone, Debug, Default)]
pub struct MountainCarContinuous;

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
        power = 0.0015, 0.0 => 1.0, "acceleration by the engine at full throttle, per step²";
        gravity = 0.0025, 0.0 => 1.0, "acceleration by gravity, per step²";
        max_speed = 0.07, 0.0 => 10.0, "limit of the speed, per step";
        min_position = -1.2, -1e3 => 1e3, "position of the left wall";
        max_position = 0.6, -1e3 => 1e3, "rightmost position";
        goal_position = 0.45, -1e3 => 1e3, "position from which the task ends";
        goal_velocity = 0.0, -10.0 => 10.0, "velocity from which the task ends";
        low = -0.6, -1e3 => 1e3, "lower bound of the start position";
        high = -0.4, -1e3 => 1e3, "upper bound of the start position";
    }
}

impl LaneEnv for MountainCarContinuous {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = [R; 1];
    type Obs<R: Real> = [R; 2];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            reward_threshold: Some(90.0),
            ..EnvSpec::of::<Self>(
                "MountainCarContinuous-v0",
                "swing a weak car out of a valley with a throttle that costs energy",
                observation_space(),
                ActionSpace::Box { low: vec![-1.0], high: vec![1.0] },
                999,
            )
        }
    }

    fn check_params(&self, params: &Params<f64>) -> Result<(), String> {
        crate::registry::check_order("low", params.low, "high", params.high)?;
        crate::registry::check_order("min_position", params.min_position, "max_position", params.max_position)
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
        [action]: [R; 1],
        _: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        let push = action.clamp(R::splat(-1.0), R::splat(1.0)) * params.power;
        let valley = Valley {
            gravity: params.gravity,
            max_speed: params.max_speed,
            min_position: params.min_position,
            max_position: params.max_position,
        };
        let (position, velocity) = valley.roll(state.position, state.velocity, push);
        let terminated = position.ge(params.goal_position) & velocity.ge(params.goal_velocity);
        let prize = R::select(terminated, R::splat(100.0), R::splat(0.0));
        let reward = prize - R::splat(0.1) * action * action;
        Step { state: State { position, velocity }, reward, terminated }
    }

    #[inline(always)]
    fn observe<R: Real>(&self, _: &Params<R>, state: &State<R>) -> [R; 2] {
        [state.position, state.velocity]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{exact, follow};

    #[test]
    fn golden_states_and_rewards_of_gymnasium() {
        let mut probe = exact(MountainCarContinuous, &[]);
        let steps = [
            (1.0, [-0.4986768364906311, 0.0013231569901108742]),
            (0.5, [-0.49679040908813477, 0.0018864166922867298]),
            (-1.0, [-0.4966048300266266, 0.00018557056318968534]),
            (2.0, [-0.49512147903442383, 0.0014833372551947832]),
            (0.0, [-0.4938514530658722, 0.0012700172374024987]),
        ];
        // Gymnasium keeps this state in single precision, hence 1e-7.
        let taken = follow(probe.as_mut(), [-0.5, 0.0], &steps, 1e-7);
        for (step, reward) in taken.iter().zip([-0.1, -0.025, -0.1, -0.4, 0.0]) {
            assert!((step.reward - reward).abs() < 1e-7 && !step.terminated, "{step:?} instead of {reward}");
        }
        let goal = follow(probe.as_mut(), [0.44, 0.03], &[(1.0, [0.47087955474853516, 0.030879560858011246])], 1e-7);
        assert!(goal[0].terminated && (goal[0].reward - 99.9).abs() < 1e-7);
    }
}
