//! `Acrobot-v1`: swing the tip of a two-link pendulum above a line with a torque on the middle joint.
//!
//! Source: Sutton (1996) and Sutton & Barto's book, as in Gymnasium 1.x. State: θ₁ (rad, 0 hanging), θ₂
//! (relative to the first link) and their speeds; one RK4 step of `dt` with constant torque. With
//! c₂ = cos θ₂, s₂ = sin θ₂ and `cos(x − π/2) = sin x`:
//!
//! ```text
//! d₁ = m₁ lc₁² + m₂ (l₁² + lc₂² + 2 l₁ lc₂ c₂) + 2 I          d₂ = m₂ (lc₂² + l₁ lc₂ c₂) + I
//! φ₂ = m₂ lc₂ g sin(θ₁ + θ₂)
//! φ₁ = −m₂ l₁ lc₂ ω₂ (ω₂ + 2 ω₁) s₂ + (m₁ lc₁ + m₂ l₁) g sin θ₁ + φ₂
//! ω̇₂ = (τ + d₂/d₁ φ₁ − m₂ l₁ lc₂ ω₁² s₂ − φ₂) / (m₂ lc₂² + I − d₂²/d₁)
//! ω̇₁ = −(d₂ ω̇₂ + φ₁) / d₁
//! ```
//!
//! The task ends when −cos θ₁ − cos(θ₁ + θ₂) > 1. Every step costs 1 but the last.

use std::f64::consts::{FRAC_PI_2, PI, TAU};
use std::hint::black_box;

use phalanx_core::env::{Discrete, LaneEnv, Step, check_order};
use phalanx_core::lanes::Real;
use phalanx_core::rng::Draws;
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace, OptionInfo};
use phalanx_core::{lane_params, lane_struct};

/// The environment and its options.
#[derive(Clone, Debug, Default)]
pub struct Acrobot {
    /// The equations of the 1996 paper, which lack the ω₁² term.
    nips: bool,
}

lane_struct! {
    /// The two links.
    pub struct State<R> {
        theta1: R,
        theta2: R,
        theta1_dot: R,
        theta2_dot: R,
    }
}

lane_params! {
    /// Constants of the two links.
    pub struct Params {
        link_length_1 = 1.0, 1e-3 => 1e3, "length of the first link, m";
        link_length_2 = 1.0, 1e-3 => 1e3, "length of the second link, m (no equation uses it)";
        link_mass_1 = 1.0, 1e-3 => 1e3, "mass of the first link, kg";
        link_mass_2 = 1.0, 1e-3 => 1e3, "mass of the second link, kg";
        link_com_pos_1 = 0.5, 1e-3 => 1e3, "distance of the first link's centre of mass from its joint, m";
        link_com_pos_2 = 0.5, 1e-3 => 1e3, "distance of the second link's centre of mass from its joint, m";
        link_moi = 1.0, 1e-3 => 1e3, "moment of inertia of each link, kg m²";
        max_vel_1 = 4.0 * PI, 0.0 => 1e4, "limit of the first joint's speed, rad/s";
        max_vel_2 = 9.0 * PI, 0.0 => 1e4, "limit of the second joint's speed, rad/s";
        gravity = 9.8, 0.0 => 1e3, "gravitational acceleration, m/s²";
        dt = 0.2, 1e-6 => 1.0, "time between two steps, s";
        torque = 1.0, 0.0 => 1e4, "torque of actions 0 (minus) and 2 (plus), N m";
        low = -0.1, -1e3 => 1e3, "lower bound of each start coordinate";
        high = 0.1, -1e3 => 1e3, "upper bound of each start coordinate";
    }
}

impl<R: Real> State<R> {
    /// `self + h * rate`.
    #[inline(always)]
    fn moved(&self, rate: &Self, h: R) -> Self {
        State {
            theta1: rate.theta1.mul_add(h, self.theta1),
            theta2: rate.theta2.mul_add(h, self.theta2),
            theta1_dot: rate.theta1_dot.mul_add(h, self.theta1_dot),
            theta2_dot: rate.theta2_dot.mul_add(h, self.theta2_dot),
        }
    }
}

impl Acrobot {
    /// The state's rate of change under a torque.
    #[inline(always)]
    fn rate<R: Real>(&self, p: &Params<R>, state: &State<R>, torque: R) -> State<R> {
        if R::PARITY {
            return self.rate_as_gymnasium(p, state, torque);
        }
        let (m1, m2, l1, lc1, lc2) =
            (p.link_mass_1, p.link_mass_2, p.link_length_1, p.link_com_pos_1, p.link_com_pos_2);
        let two = R::splat(2.0);
        let coupling = m2 * l1 * lc2;
        let second = m2 * lc2 * lc2 + p.link_moi;
        let first = m1 * lc1 * lc1 + m2 * l1 * l1 + p.link_moi + second;

        let (w1, w2) = (state.theta1_dot, state.theta2_dot);
        let (sin1, cos1) = state.theta1.sin_cos();
        let (sin2, cos2) = state.theta2.sin_cos();
        let sin12 = sin1.mul_add(cos2, cos1 * sin2);

        let d1 = (two * coupling).mul_add(cos2, first);
        let d2 = coupling.mul_add(cos2, second);
        let phi2 = m2 * lc2 * p.gravity * sin12;
        let phi1 = -(coupling * w2 * (w2 + two * w1) * sin2) + (m1 * lc1 + m2 * l1) * p.gravity * sin1 + phi2;
        let ratio = d2 / d1;
        let centrifugal = if self.nips { R::splat(0.0) } else { coupling * w1 * w1 * sin2 };
        let a2 = (torque + ratio * phi1 - centrifugal - phi2) / (second - d2 * ratio);
        let a1 = -(d2 * a2 + phi1) / d1;
        State { theta1: w1, theta2: w2, theta1_dot: a1, theta2_dot: a2 }
    }

    /// [`Acrobot::rate`] in Gymnasium's order of operations. The system is chaotic: a sum in another order
    /// differs by 1e-16, and some episodes have made 1e-4 of that before they end.
    fn rate_as_gymnasium<R: Real>(&self, p: &Params<R>, state: &State<R>, torque: R) -> State<R> {
        let (m1, m2, l1, lc1, lc2) =
            (p.link_mass_1, p.link_mass_2, p.link_length_1, p.link_com_pos_1, p.link_com_pos_2);
        let (moi, g, w1, w2) = (p.link_moi, p.gravity, state.theta1_dot, state.theta2_dot);
        let (two, quarter_turn) = (R::splat(2.0), R::splat(FRAC_PI_2));
        // Python calls the C library's `pow`, whose last bit can differ from that of x * x. The black box
        // keeps the compiler from replacing one by the other.
        let square = |x: R| x.abs().pow(black_box(two));
        let (sin2, cos2) = state.theta2.sin_cos();

        let d1 = m1 * square(lc1) + m2 * (square(l1) + square(lc2) + two * l1 * lc2 * cos2) + moi + moi;
        let d2 = m2 * (square(lc2) + l1 * lc2 * cos2) + moi;
        let phi2 = m2 * lc2 * g * (state.theta1 + state.theta2 - quarter_turn).cos();
        let phi1 = -m2 * l1 * lc2 * square(w2) * sin2 - two * m2 * l1 * lc2 * w2 * w1 * sin2
            + (m1 * lc1 + m2 * l1) * g * (state.theta1 - quarter_turn).cos()
            + phi2;
        let centrifugal = if self.nips { R::splat(0.0) } else { m2 * l1 * lc2 * square(w1) * sin2 };
        let a2 = (torque + d2 / d1 * phi1 - centrifugal - phi2) / (m2 * square(lc2) + moi - square(d2) / d1);
        let a1 = -(d2 * a2 + phi1) / d1;
        State { theta1: w1, theta2: w2, theta1_dot: a1, theta2_dot: a2 }
    }
}

/// The angle in [-π, π].
#[inline(always)]
fn wrap<R: Real>(angle: R) -> R {
    let turns = (angle * R::splat(1.0 / TAU)).round();
    (-turns).mul_add(R::splat(TAU), angle)
}

impl LaneEnv for Acrobot {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = Discrete<R>;
    type Obs<R: Real> = [R; 6];

    const LONG_EPISODES: bool = true;

    fn spec(&self) -> EnvSpec {
        const NAMES: &[&str] = &["cos_theta1", "sin_theta1", "cos_theta2", "sin_theta2", "theta1_dot", "theta2_dot"];
        let (w1, w2) = (4.0 * std::f32::consts::PI, 9.0 * std::f32::consts::PI);
        EnvSpec {
            options: vec![OptionInfo::choice(
                "book_or_nips",
                if self.nips { "nips" } else { "book" },
                &["book", "nips"],
                "the equations of Sutton & Barto's book, or those of the 1996 paper",
            )],
            dt: Some(0.2),
            dt_param: Some("dt"),
            reward_threshold: Some(-100.0),
            ..EnvSpec::of::<Self>(
                "Acrobot-v1",
                "swing the tip of a two-link pendulum up with torque -1 (0), 0 (1) or +1 (2) on the middle joint",
                ObservationSpace::symmetric(NAMES, &[1.0, 1.0, 1.0, 1.0, w1, w2]),
                ActionSpace::Discrete { n: 3 },
                500,
            )
        }
    }

    fn set_option(&mut self, _name: &str, value: &str) {
        self.nips = value == "nips";
    }

    fn check_params(&self, params: &Params<f64>) -> Result<(), String> {
        check_order("low", params.low, "high", params.high)
    }

    #[inline(always)]
    fn reset<R: Real>(&self, params: &Params<R>, draws: &mut Draws<R>) -> State<R> {
        let mut coordinate = || draws.uniform(params.low, params.high);
        State { theta1: coordinate(), theta2: coordinate(), theta1_dot: coordinate(), theta2_dot: coordinate() }
    }

    #[inline(always)]
    fn step<R: Real>(
        &self,
        params: &Params<R>,
        state: &State<R>,
        action: Discrete<R>,
        _: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        let torque = (action.to_real() - R::splat(1.0)) * params.torque;
        let (whole, half) = (params.dt, params.dt * R::splat(0.5));
        let k1 = self.rate(params, state, torque);
        let k2 = self.rate(params, &state.moved(&k1, half), torque);
        let k3 = self.rate(params, &state.moved(&k2, half), torque);
        let k4 = self.rate(params, &state.moved(&k3, whole), torque);
        // k1 + 2 k2 + 2 k3 + k4, times dt/6.
        let sum = k1.moved(&k2, R::splat(2.0)).moved(&k3, R::splat(2.0)).moved(&k4, R::splat(1.0));
        let sixth = if R::PARITY { params.dt / R::splat(6.0) } else { params.dt * R::splat(1.0 / 6.0) };
        let moved = state.moved(&sum, sixth);

        let state = State {
            theta1: wrap(moved.theta1),
            theta2: wrap(moved.theta2),
            theta1_dot: moved.theta1_dot.clamp(-params.max_vel_1, params.max_vel_1),
            theta2_dot: moved.theta2_dot.clamp(-params.max_vel_2, params.max_vel_2),
        };
        let (sin1, cos1) = state.theta1.sin_cos();
        let (sin2, cos2) = state.theta2.sin_cos();
        let height = -cos1 - (cos1 * cos2 - sin1 * sin2);
        let terminated = height.gt(R::splat(1.0));
        let reward = R::select(terminated, R::splat(0.0), R::splat(-1.0));
        Step { state, reward, terminated }
    }

    #[inline(always)]
    fn observe<R: Real>(&self, _: &Params<R>, state: &State<R>) -> [R; 6] {
        let (sin1, cos1) = state.theta1.sin_cos();
        let (sin2, cos2) = state.theta2.sin_cos();
        [cos1, sin1, cos2, sin2, state.theta1_dot, state.theta2_dot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{exact, follow};

    #[test]
    fn golden_states_of_gymnasium() {
        let mut probe = exact(Acrobot::default(), &[]);
        let steps = [
            (2.0, [0.07757165579337588, 0.004515209387585137, -0.23773391900562166, 0.5017548079364877]),
            (2.0, [0.010080984821611072, 0.14068891650000936, -0.41876811870253955, 0.8250103566118698]),
            (0.0, [-0.05462834060488776, 0.24955684204020578, -0.2128612266548592, 0.23721681473967215]),
            (1.0, [-0.0841268858046873, 0.263755446100288, -0.07593241540123527, -0.10159651263987007]),
            (2.0, [-0.09699751264073943, 0.24310537921824887, -0.0508266868642884, -0.10332676588288918]),
        ];
        let taken = follow(probe.as_mut(), [0.1, -0.05, 0.02, 0.03], &steps, 0.0);
        assert!(taken.iter().all(|step| step.reward == -1.0 && !step.terminated));
        let wrapped = [-1.0072926418473465, 1.0208695309191782, 12.354114698682428, -28.274333882308138];
        follow(probe.as_mut(), [3.0, 0.1, 12.0, -28.0], &[(2.0, wrapped)], 0.0);
    }

    /// Without torque and with a hundredth of the step the energy is constant.
    #[test]
    fn conserves_energy() {
        let mut probe = exact(Acrobot::default(), &[("dt", "0.002"), ("max_steps", "1000000")]);
        let energy = |state: &[f64]| {
            let (t1, t2, w1, w2) = (state[0], state[1], state[2], state[3]);
            let (l1, lc, inertia, g) = (1.0, 0.5, 1.0, 9.8);
            let speed1 = (lc * w1).powi(2);
            let speed2 = (l1 * w1).powi(2) + (lc * (w1 + w2)).powi(2) + 2.0 * l1 * lc * w1 * (w1 + w2) * t2.cos();
            let kinetic = 0.5 * (speed1 + speed2 + inertia * w1 * w1 + inertia * (w1 + w2).powi(2));
            kinetic - g * (lc * t1.cos() + l1 * t1.cos() + lc * (t1 + t2).cos())
        };
        probe.set_state(&[1.2, -0.7, 0.3, 0.4]).unwrap();
        let first = energy(&probe.state());
        for step in 0..5_000 {
            probe.step(&[1.0]).unwrap();
            let now = energy(&probe.state());
            assert!((now / first - 1.0).abs() < 1e-6, "step {step}: {now} instead of {first}");
        }
    }

    #[test]
    fn the_last_step_is_free() {
        let mut probe = exact(Acrobot::default(), &[]);
        probe.set_state(&[PI - 0.1, 0.0, 0.0, 0.0]).unwrap();
        let step = probe.step(&[1.0]).unwrap();
        assert!(step.terminated && step.reward == 0.0);
    }

    #[test]
    fn the_paper_form_lacks_the_centrifugal_term() {
        let start = [0.1, 0.8, 1.5, 0.3];
        let after = ["book", "nips"].map(|form| {
            let mut probe = exact(Acrobot::default(), &[("book_or_nips", form)]);
            probe.set_state(&start).unwrap();
            probe.step(&[1.0]).unwrap();
            probe.state()
        });
        assert!((after[0][3] - after[1][3]).abs() > 1e-2, "{after:?}");
    }
}
