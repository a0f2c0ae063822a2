//! `MountainCarContinuous-v0`: the mountain car with a continuous, costly throttle.
//!
//! Source: Gymnasium 1.x. The valley is that of [`MountainCar`](crate::MountainCar); the engine gives
//! `clip(a, ±1) power`. The reward is 100 on reaching the goal, minus 0.1 a² with the action as given,
//! not as clipped.
//!
//! Gymnasium keeps this state in single precision after the first step, and numpy rounds accordingly in
//! between. In double precision we round where it does, so that the trajectories are the same.

use phalanx_core::env::{LaneEnv, Step, check_order};
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

/// [`Valley::roll`] with the roundings of Gymnasium, where an operation of numpy is in single precision if
/// none of its operands is a double of numpy; Python's own floats, such as a parameter, do not count.
fn roll_as_gymnasium<R: Real>(valley: &Valley<R>, state: &State<R>, power: R, action: R) -> (R, R) {
    let is_single = |x: R| x.eq(x.to_single());
    let single_if = |mask: R::Mask, x: R| R::select(mask, x.to_single(), x);
    let (one, zero) = (R::splat(1.0), R::splat(0.0));
    // Only the state of a reset is in double precision: it has more digits, or is at rest off the wall.
    let at_rest = state.velocity.eq(zero) & !state.position.eq(valley.min_position.to_single());
    let stored = is_single(state.position) & is_single(state.velocity) & !at_rest;
    // A clipped action is a float of Python.
    let unclipped = action.abs().le(one);
    let single_action = unclipped & is_single(action);
    let double_action = unclipped & !is_single(action);

    let push = action.clamp(-one, one) * single_if(single_action, power);
    let slope = valley.gravity * single_if(stored, R::splat(3.0) * state.position).cos();
    let thrust = single_if(single_action, push) - single_if(single_action, slope);
    let thrust = single_if(single_action, thrust);

    let round = |x: R| single_if(stored & !double_action, x);
    let max_speed = round(valley.max_speed);
    let velocity = round(state.velocity + round(thrust)).clamp(-max_speed, max_speed);
    let (min_position, max_position) = (round(valley.min_position), round(valley.max_position));
    let position = round(state.position + velocity).clamp(min_position, max_position);
    let at_wall = position.eq(min_position) & velocity.lt(zero);
    (position.to_single(), R::select(at_wall, zero, velocity.to_single()))
}

impl LaneEnv for MountainCarContinuous {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = [R; 1];
    type Obs<R: Real> = [R; 2];

    const LONG_EPISODES: bool = true;

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
        [action]: [R; 1],
        _: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        let valley = Valley {
            gravity: params.gravity,
            max_speed: params.max_speed,
            min_position: params.min_position,
            max_position: params.max_position,
        };
        let (position, velocity) = if R::PARITY {
            roll_as_gymnasium(&valley, state, params.power, action)
        } else {
            let push = action.clamp(R::splat(-1.0), R::splat(1.0)) * params.power;
            valley.roll(state.position, state.velocity, push)
        };
        let at_goal = position.ge(params.goal_position.to_single());
        let terminated = at_goal & velocity.ge(params.goal_velocity.to_single());
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
        let taken = follow(probe.as_mut(), [-0.5, 0.0], &steps, 0.0);
        for (step, reward) in taken.iter().zip([-0.1, -0.025, -0.1, -0.4, 0.0]) {
            assert!((step.reward - reward).abs() < 1e-15 && !step.terminated, "{step:?} instead of {reward}");
        }
        let goal = follow(probe.as_mut(), [0.44, 0.03], &[(1.0, [0.47087955474853516, 0.030879560858011246])], 0.0);
        assert!(goal[0].terminated && (goal[0].reward - 99.9).abs() < 1e-12);
    }
}
