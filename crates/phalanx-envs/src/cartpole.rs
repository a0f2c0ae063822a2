//! `CartPole-v1`: balance a pole on a cart by pushing the cart left or right.
//!
//! Source: Barto, Sutton, Anderson (1983), as in Gymnasium 1.x. State: cart position x (m), its speed,
//! pole angle θ (rad, 0 upright), its speed.
//!
//! ```text
//! temp = (F + mₚ l θ̇² sin θ) / M                       M = m_c + mₚ
//! θ̈    = (g sin θ − cos θ temp) / (l (4/3 − mₚ cos² θ / M))
//! ẍ    = temp − mₚ l θ̈ cos θ / M
//! ```
//!
//! Deviations: the equations are rearranged (multiplied by M), which changes results by rounding only.

use phalanx_core::env::{Discrete, LaneEnv, LaneStruct, Step, check_order};
use phalanx_core::lanes::Real;
use phalanx_core::rng::Draws;
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace, OptionInfo};
use phalanx_core::{lane_params, lane_struct};

/// The environment and its options.
#[derive(Clone, Debug, Default)]
pub struct CartPole {
    sutton_barto_reward: bool,
    semi_implicit: bool,
}

lane_struct! {
    /// Cart and pole.
    pub struct State<R> {
        x: R,
        x_dot: R,
        theta: R,
        theta_dot: R,
    }
}

lane_params! {
    /// Constants of cart and pole.
    pub struct Params {
        gravity = 9.8, 0.0 => 1e3, "gravitational acceleration, m/s²";
        masscart = 1.0, 1e-3 => 1e3, "mass of the cart, kg";
        masspole = 0.1, 1e-3 => 1e3, "mass of the pole, kg";
        length = 0.5, 1e-3 => 1e3, "half the length of the pole, m";
        force_mag = 10.0, 0.0 => 1e4, "force of a push, N";
        tau = 0.02, 1e-6 => 1.0, "time between two steps, s";
        theta_threshold_radians = 0.209_439_510_239_319_53, 0.0 => 1e3, "pole angle beyond which the task ends, rad";
        x_threshold = 2.4, 0.0 => 1e6, "cart position beyond which the task ends, m";
        low = -0.05, -1e3 => 1e3, "lower bound of each start coordinate";
        high = 0.05, -1e3 => 1e3, "upper bound of each start coordinate";
    }
}

impl LaneEnv for CartPole {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = Discrete<R>;
    type Obs<R: Real> = [R; 4];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            options: vec![
                OptionInfo::flag(
                    "sutton_barto_reward",
                    self.sutton_barto_reward,
                    "reward 0 for each step and -1 for the last instead of 1 for every step",
                ),
                OptionInfo::choice(
                    "kinematics_integrator",
                    if self.semi_implicit { "semi_implicit" } else { "euler" },
                    &["euler", "semi_implicit"],
                    "whether positions move with the old or with the new speeds",
                ),
            ],
            dt: Some(0.02),
            dt_param: Some("tau"),
            reward_threshold: Some(475.0),
            ..EnvSpec::of::<Self>(
                "CartPole-v1",
                "balance a pole on a cart that is pushed left (0) or right (1)",
                ObservationSpace::symmetric(State::<f32>::NAMES, &[4.8, f32::INFINITY, 0.418_879_03, f32::INFINITY]),
                ActionSpace::Discrete { n: 2 },
                500,
            )
        }
    }

    fn set_option(&mut self, name: &str, value: &str) {
        match name {
            "sutton_barto_reward" => self.sutton_barto_reward = value == "true",
            "kinematics_integrator" => self.semi_implicit = value == "semi_implicit",
            _ => unreachable!("no option {name} in the spec"),
        }
    }

    fn check_params(&self, params: &Params<f64>) -> Result<(), String> {
        check_order("low", params.low, "high", params.high)
    }

    #[inline(always)]
    fn reset<R: Real>(&self, params: &Params<R>, draws: &mut Draws<R>) -> State<R> {
        let mut coordinate = || draws.uniform(params.low, params.high);
        State { x: coordinate(), x_dot: coordinate(), theta: coordinate(), theta_dot: coordinate() }
    }

    #[inline(always)]
    fn step<R: Real>(
        &self,
        params: &Params<R>,
        state: &State<R>,
        action: Discrete<R>,
        _: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        // Constant during a roll-out: the compiler moves these out of the loop. The equations are
        // multiplied by M, so that the way to θ̈ has a single division.
        let mass = params.masscart + params.masspole;
        let per_mass = R::splat(1.0) / mass;
        let weight = params.gravity * mass;
        let pole = params.masspole * params.length;
        let inertia = params.length * mass * R::splat(4.0 / 3.0);

        let (sin, cos) = state.theta.sin_cos();
        let push = R::select(action.is(1), params.force_mag, -params.force_mag);
        let force = (pole * state.theta_dot * state.theta_dot).mul_add(sin, push);
        let lever = -(pole * cos);
        let theta_acc = (weight * sin - cos * force) / lever.mul_add(cos, inertia);
        let x_acc = lever.mul_add(theta_acc, force) * per_mass;

        let x_dot = x_acc.mul_add(params.tau, state.x_dot);
        let theta_dot = theta_acc.mul_add(params.tau, state.theta_dot);
        let (x_speed, theta_speed) =
            if self.semi_implicit { (x_dot, theta_dot) } else { (state.x_dot, state.theta_dot) };
        let x = x_speed.mul_add(params.tau, state.x);
        let theta = theta_speed.mul_add(params.tau, state.theta);

        let terminated = x.abs().gt(params.x_threshold) | theta.abs().gt(params.theta_threshold_radians);
        let reward =
            if self.sutton_barto_reward { R::select(terminated, R::splat(-1.0), R::splat(0.0)) } else { R::splat(1.0) };
        Step { state: State { x, x_dot, theta, theta_dot }, reward, terminated }
    }

    #[inline(always)]
    fn observe<R: Real>(&self, _: &Params<R>, state: &State<R>) -> [R; 4] {
        [state.x, state.x_dot, state.theta, state.theta_dot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{close, exact, follow};

    #[test]
    fn golden_states_of_gymnasium() {
        let mut probe = exact(CartPole::default(), &[]);
        let start = [0.01, -0.02, 0.03, -0.04];
        let steps = [
            (1.0, [0.009600000000000001, 0.17467919574755525, 0.0292, -0.3230687179600081]),
            (1.0, [0.013093583914951107, 0.36937344399176103, 0.02273862564079984, -0.6064020159998607]),
            (0.0, [0.020481052794786327, 0.17394104931769996, 0.010610585320802625, -0.3066446263789625]),
            (1.0, [0.023959873781140326, 0.3689102079328361, 0.004477692793223374, -0.5959624480242942]),
            (0.0, [0.031338077939797045, 0.17372587880180418, -0.00744155616726251, -0.30187245208590807]),
        ];
        let taken = follow(probe.as_mut(), start, &steps, 1e-12);
        assert!(taken.iter().all(|step| step.reward == 1.0 && !step.terminated && !step.truncated));
        for action in [0.0, 1.0, 0.0, 1.0, 1.0] {
            probe.step(&[action]).unwrap();
        }
        let tenth = [0.040939284166852885, 0.36990562038101304, -0.026661611227023277, -0.6180202741438212];
        close(&probe.state(), &tenth, 1e-12, 10);
    }

    #[test]
    fn a_constant_push_ends_the_task_at_step_nine() {
        let mut probe = exact(CartPole::default(), &[]);
        follow(probe.as_mut(), [0.0; 4], &[(1.0, [0.0, 0.1951219512195122, 0.0, -0.2926829268292683])], 1e-12);
        let flags: Vec<_> = (2..=9).map(|_| probe.step(&[1.0]).unwrap().terminated).collect();
        assert_eq!(flags, [false, false, false, false, false, false, false, true]);
        let last = [0.14065097203306187, 1.7603811257683097, -0.21518604988500967, -2.777886494012814];
        close(&probe.state(), &last, 1e-12, 9);
    }

    #[test]
    fn sutton_barto_reward_is_minus_one_at_the_end_only() {
        let mut probe = exact(CartPole::default(), &[("sutton_barto_reward", "true")]);
        probe.set_state(&[0.0; 4]).unwrap();
        let rewards: Vec<_> = (1..=9).map(|_| probe.step(&[1.0]).unwrap().reward).collect();
        assert_eq!(rewards, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0]);
    }

    #[test]
    fn limits_are_strict() {
        for (x, ends) in [(2.4, false), (2.4000001, true), (-2.4, false), (-2.4000001, true)] {
            let mut probe = exact(CartPole::default(), &[]);
            probe.set_state(&[x, 0.0, 0.0, 0.0]).unwrap();
            assert_eq!(probe.step(&[1.0]).unwrap().terminated, ends, "x = {x}");
        }
    }

    /// Single precision stays within the measured distance of double precision under equal actions.
    #[test]
    fn single_precision_stays_close_to_double() {
        use phalanx_core::batch::BatchConfig;
        use phalanx_core::probe::{Precision, probe};
        let (mut worst_10, mut worst_50) = (0.0_f64, 0.0_f64);
        for seed in 0..2_000 {
            let config = BatchConfig { seed, ..BatchConfig::default() };
            let pair = [Precision::F32, Precision::F64]
                .map(|precision| probe(CartPole::default(), &config, precision).unwrap());
            let [mut single, mut double] = pair;
            double.set_state(&single.state()).unwrap();
            for tick in 0..50 {
                // Alternating pushes keep the pole up for fifty steps in many episodes.
                let action = [f64::from(u8::from((tick + seed) % 2 == 0))];
                let ends = [single.step(&action).unwrap(), double.step(&action).unwrap()].map(|step| step.terminated);
                assert_eq!(ends[0], ends[1], "seed {seed}, step {tick}");
                let distance =
                    single.state().iter().zip(double.state()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                worst_50 = worst_50.max(distance);
                if tick < 10 {
                    worst_10 = worst_10.max(distance);
                }
                if ends[0] {
                    break;
                }
            }
        }
        assert!(worst_10 <= 1e-6 && worst_50 <= 1e-5, "{worst_10:e} after 10 steps, {worst_50:e} after 50");
    }
}
