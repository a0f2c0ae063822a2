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
//! Deviations: products and quotients of constants are formed once instead of in every step, which
//! changes results by rounding only.

use phalanx_core::env::{Discrete, LaneEnv, LaneParams, LaneStruct, Step};
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
            name: "CartPole-v1",
            description: "balance a pole on a cart that is pushed left (0) or right (1)",
            observation: ObservationSpace::symmetric(
                State::<f32>::NAMES,
                &[4.8, f32::INFINITY, 0.418_879_03, f32::INFINITY],
            ),
            action: ActionSpace::Discrete { n: 2 },
            state_names: State::<f32>::NAMES,
            params: Params::<f32>::INFO.to_vec(),
            options: vec![
                OptionInfo {
                    name: "sutton_barto_reward",
                    value: if self.sutton_barto_reward {
                        "true"
                    } else {
                        "false"
                    },
                    choices: &["false", "true"],
                    description: "reward 0 for each step and -1 for the last instead of 1 for every step",
                },
                OptionInfo {
                    name: "kinematics_integrator",
                    value: if self.semi_implicit {
                        "semi_implicit"
                    } else {
                        "euler"
                    },
                    choices: &["euler", "semi_implicit"],
                    description: "whether positions move with the old or with the new speeds",
                },
            ],
            max_steps: 500,
            dt: Some(0.02),
            reward_threshold: Some(475.0),
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
        crate::registry::check_order("low", params.low, "high", params.high)
    }

    #[inline(always)]
    fn reset<R: Real>(&self, params: &Params<R>, draws: &mut Draws<R>) -> State<R> {
        let mut coordinate = || draws.uniform(params.low, params.high);
        State {
            x: coordinate(),
            x_dot: coordinate(),
            theta: coordinate(),
            theta_dot: coordinate(),
        }
    }

    #[inline(always)]
    fn step<R: Real>(
        &self,
        params: &Params<R>,
        state: &State<R>,
        action: Discrete<R>,
        _: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        // Constant during a roll-out: the compiler moves these out of the loop.
        let per_mass = R::splat(1.0) / (params.masscart + params.masspole);
        let push = params.force_mag * per_mass;
        let pole = params.masspole * params.length * per_mass;
        let inertia = params.length * R::splat(4.0 / 3.0);

        let (sin, cos) = state.theta.sin_cos();
        let push = R::select(action.is(1), push, -push);
        let temp = (pole * state.theta_dot * state.theta_dot).mul_add(sin, push);
        let theta_acc = (params.gravity * sin - cos * temp) / (-(pole * cos)).mul_add(cos, inertia);
        let x_acc = (-(pole * cos)).mul_add(theta_acc, temp);

        let x_dot = x_acc.mul_add(params.tau, state.x_dot);
        let theta_dot = theta_acc.mul_add(params.tau, state.theta_dot);
        let (x_speed, theta_speed) = if self.semi_implicit {
            (x_dot, theta_dot)
        } else {
            (state.x_dot, state.theta_dot)
        };
        let x = x_speed.mul_add(params.tau, state.x);
        let theta = theta_speed.mul_add(params.tau, state.theta);

        let terminated =
            x.abs().gt(params.x_threshold) | theta.abs().gt(params.theta_threshold_radians);
        let reward = if self.sutton_barto_reward {
            R::select(terminated, R::splat(-1.0), R::splat(0.0))
        } else {
            R::splat(1.0)
        };
        Step {
            state: State {
                x,
                x_dot,
                theta,
                theta_dot,
            },
            reward,
            terminated,
        }
    }

    #[inline(always)]
    fn observe<R: Real>(&self, _: &Params<R>, state: &State<R>) -> [R; 4] {
        [state.x, state.x_dot, state.theta, state.theta_dot]
    }
}
