//! `VanDeVusse-v0`: hold the intermediate product of a chain of reactions with feed and cooling.
//!
//! The reactor of Klatt and Engell and of Chen, Kremling and Allgöwer: A -> B -> C and 2 A -> D in a stirred
//! tank with a cooling jacket. Concentrations in mol/L, temperatures in °C, time in hours; inputs are the
//! feed per volume `F` [1/h] and the heat taken from the jacket `Q` [kJ/h].
//!
//! ```text
//! k1 = beta k2    k2 = 1.287e12 exp(-9758.3/(TR + 273.15))    k3 = 9.043e9 exp(-alpha 8560/(TR + 273.15))
//! CA' = F (CA0 - CA) - k1 CA - k3 CA²                         CB' = -F CB + k1 CA - k2 CB
//! TR' = -(4.2 k1 CA - 11.0 k2 CB - 41.85 k3 CA²)/(rho Cp) + F (Tin - TR) + Kw A (TK - TR)/(rho Cp V)
//! TK' = (Q + Kw A (TR - TK))/(mK CpK)
//! ```
//!
//! The yield of B has a maximum over `F`, where the gain changes its sign, and answers a change of `F` in
//! the wrong direction first. A step of 0.005 h is four RK4 sub-steps: one would do for constant inputs, but
//! after a jump of the feed, which excites modes as fast as the step, it is off by 8e-3, four by less than
//! 1e-4. The actions in [-1, 1] set `F` from 5 to 100 and `Q` from -8500 to 0. The set-point of `CB` is drawn from `setpoint_low` to
//! `setpoint_high` at the start, by default 0.6; the literature's range is 0.5 to 1.0.
//!
//! The reward of a step is `0.6 quality + 0.2 throughput + 0.2 economy` of the new state:
//!
//! ```text
//! quality = 1 - min(1, |CB - sp|/0.1)   throughput = clip(F CB/10, 0, 1)
//! economy = 1 - 0.5 Q/-8500 - 0.25 mean|a - a_previous|     (before the start: F 20, Q -5000)
//! ```
//!
//! A throughput of 10 mol/(L h) is about one and a half times what the plant gives at `CB` = 0.6. Penalties
//! and termination are the engine's safety layer's; a lane stands still from the first sub-step whose TR ends
//! the episode.

use phalanx_core::env::{LaneEnv, Step, check_order};
use phalanx_core::lanes::{Mask, Real, Uint};
use phalanx_core::rng::Draws;
use phalanx_core::safety::{Constraint, SafetyMode};
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace, OptionInfo};
use phalanx_core::{lane_params, lane_struct};

use crate::limits::{normalized, normalized_constraints, safe_range, scaled};
use crate::rk4::rk4;

/// Sub-steps of a step.
const SUB_STEPS: usize = 4;
/// 0 °C in K.
const ZERO_CELSIUS: f64 = 273.15;
/// Arrhenius exponents are taken relative to this temperature, °C.
const REFERENCE_TEMPERATURE: f64 = 130.0;
/// The temperature above which the reactor is shut down, °C.
const TEMPERATURE_TRIP: f64 = 150.0;
/// Feed and cooling before the first step.
const START_INPUTS: [f64; 2] = [20.0, -5000.0];

/// What is seen, in order.
const OBSERVATION_NAMES: &[&str] = &["CA", "CB", "TR", "TK", "F", "Q", "setpoint", "setpoint_error", "remaining"];
/// What each of them is divided into by `normalize_obs`: the range that becomes [-1, 1].
const NORMAL_RANGE: [[f64; 2]; 9] = [
    [0.1, 2.0],
    [0.1, 2.0],
    [50.0, 150.0],
    [50.0, 140.0],
    [5.0, 100.0],
    [-8500.0, 0.0],
    [0.5, 1.0],
    [-0.5, 0.5],
    [0.0, 1.0],
];

/// The environment and its options.
#[derive(Clone, Debug)]
pub struct VanDeVusse {
    normalize_obs: bool,
    /// Temperatures TR within which a step goes on to its end.
    trip: [f64; 2],
}

impl Default for VanDeVusse {
    fn default() -> Self {
        Self { normalize_obs: false, trip: [f64::NEG_INFINITY, f64::INFINITY] }
    }
}

lane_struct! {
    /// The reactor and its task.
    pub struct State<R> {
        /// mol/L
        ca: R,
        /// mol/L
        cb: R,
        /// Temperature of the reactor, °C
        tr: R,
        /// Temperature of the jacket, °C
        tk: R,
        /// Feed of the last step, 1/h
        feed: R,
        /// Heat flow of the last step, kJ/h
        cooling: R,
        /// Set-point of CB, mol/L
        setpoint: R,
        /// Steps since the start
        step: R::Uint,
    }
}

lane_params! {
    /// Constants of the plant and of the task.
    pub struct Params {
        alpha = 1.0, 0.9 => 1.1, "uncertain factor of the side reaction's activation";
        beta = 1.0, 0.1 => 10.0, "uncertain factor of the first reaction's rate";
        k0_chain = 1.287e12, 1.0 => 1e13, "frequency factor of A -> B and B -> C, 1/h";
        activation_chain = 9758.3, 9e3 => 2e4, "their activation temperature, K";
        k0_side = 9.043e9, 1.0 => 1e11, "frequency factor of 2 A -> D, L/(mol h)";
        activation_side = 8560.0, 7.5e3 => 2e4, "its activation temperature, K";
        heat_ab = 4.2, -20.0 => 1e3, "heat taken up by A -> B, kJ/mol";
        heat_bc = -11.0, -30.0 => 1e3, "heat taken up by B -> C, kJ/mol";
        heat_ad = -41.85, -1e3 => 1e3, "heat taken up by 2 A -> D, kJ/mol of A²";
        density = 0.9342, 0.3 => 1e3, "density, kg/L";
        heat_capacity = 3.01, 1.0 => 1e3, "heat capacity of the liquid, kJ/(kg K)";
        jacket_heat_capacity = 2.0, 0.5 => 1e3, "heat capacity of the coolant, kJ/(kg K)";
        jacket_mass = 5.0, 1.0 => 1e5, "mass of the coolant, kg";
        heat_transfer = 4032.0, 0.0 => 2e4, "heat transfer coefficient Kw, kJ/(h m² K)";
        area = 0.215, 0.0 => 1.0, "area of the heat transfer, m²";
        volume = 10.0, 1.0 => 1e5, "volume of the liquid, L";
        feed_concentration = 5.1, 0.0 => 15.0, "concentration of A in the feed, mol/L";
        feed_temperature = 130.0, 0.0 => 170.0, "temperature of the feed, °C";
        feed_min = 5.0, 0.0 => 1e3, "feed of action -1, 1/h";
        feed_max = 100.0, 0.0 => 1e3, "feed of action 1, 1/h";
        cooling_min = -8500.0, -1e5 => 0.0, "heat flow of action -1, kJ/h";
        cooling_max = 0.0, -1e5 => 1e5, "heat flow of action 1, kJ/h";
        setpoint_low = 0.6, 0.0 => 10.0, "lower bound of the set-point of CB, mol/L";
        setpoint_high = 0.6, 0.0 => 10.0, "upper bound of it, mol/L";
        quality_scale = 0.1, 1e-6 => 10.0, "deviation from the set-point at which the quality is 0, mol/L";
        throughput_scale = 10.0, 1e-6 => 1e6, "product F CB at which the throughput goal is 1, mol/(L h)";
        horizon = 200.0, 1.0 => 1e6, "steps after which the observed remaining time is 0";
        start_spread = 0.1, 0.0 => 1.0, "starts lie within ± this part of 0.8 and 0.5 mol/L, and ten times this of 134.14 and 130 °C in K";
        dt = 0.005, 1e-6 => 0.01, "time between two steps, h; four RK4 sub-steps";
    }
}

/// What the rates of one step share; the inputs are constant.
struct Core<R> {
    /// Rate constant of the chain and of the side reaction at the reference temperature.
    k: [R; 2],
    /// Their exponents are `slope (TR - reference)/(TR + 273.15)`.
    slope: [R; 2],
    beta: R,
    /// Warming by each reaction, K L/mol.
    heat_rise: [R; 3],
    feed: R,
    feed_concentration: R,
    feed_temperature: R,
    /// Heat transfer per heat capacity of reactor and jacket, 1/h.
    exchange: [R; 2],
    /// Warming of the jacket by the cooling, K/h.
    cooling: R,
}

impl<R: Real> Core<R> {
    /// The rates of `CA`, `CB`, `TR` and `TK`.
    #[inline(always)]
    fn rate(&self, [ca, cb, tr, tk]: [R; 4]) -> [R; 4] {
        let ratio = (tr - R::splat(REFERENCE_TEMPERATURE)) / (tr + R::splat(ZERO_CELSIUS));
        let k2 = self.k[0] * (self.slope[0] * ratio).exp();
        let k3 = self.k[1] * (self.slope[1] * ratio).exp();
        let (ab, bc, ad) = (self.beta * k2 * ca, k2 * cb, k3 * ca * ca);
        let warming = self.heat_rise[0] * ab + self.heat_rise[1] * bc + self.heat_rise[2] * ad;
        let to_jacket = tr - tk;
        [
            self.feed.mul_add(self.feed_concentration - ca, -ab) - ad,
            ab - bc - self.feed * cb,
            self.feed.mul_add(self.feed_temperature - tr, warming) - self.exchange[0] * to_jacket,
            self.exchange[1].mul_add(to_jacket, self.cooling),
        ]
    }
}

impl VanDeVusse {
    /// What the observation must satisfy for safe operation.
    fn constraints(&self) -> Vec<Constraint> {
        let constraints = vec![
            Constraint::hard("temperature_trip", "TR", f64::NEG_INFINITY, TEMPERATURE_TRIP),
            Constraint::soft("temperature_alarm", "TR", f64::NEG_INFINITY, 140.0),
            Constraint::soft("concentration_a", "CA", 0.1, 2.0),
            Constraint::soft("concentration_b", "CB", 0.1, 2.0),
            Constraint::soft("jacket_temperature", "TK", 50.0, 140.0),
        ];
        if self.normalize_obs {
            return normalized_constraints(constraints, OBSERVATION_NAMES, &NORMAL_RANGE);
        }
        constraints
    }
}

impl LaneEnv for VanDeVusse {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = [R; 2];
    type Obs<R: Real> = [R; 9];
    const LONG_EPISODES: bool = true;

    fn spec(&self) -> EnvSpec {
        let inf = f32::INFINITY;
        // Of whatever parameters are allowed: those of a batch may differ.
        let low = [0.0, 0.0, -273.15, -273.15, 0.0, -1e5, 0.0, -inf, 0.0];
        let high = [inf, inf, inf, inf, 1e3, 1e5, 10.0, inf, 1.0];
        let bounds = |bounds: [f32; 9]| match self.normalize_obs {
            true => bounds.iter().zip(NORMAL_RANGE).map(|(x, range)| scaled(f64::from(*x), range) as f32).collect(),
            false => bounds.to_vec(),
        };
        EnvSpec {
            options: vec![OptionInfo::flag(
                "normalize_obs",
                self.normalize_obs,
                "observations (and the signals of constraints) scaled to about [-1, 1] instead of mol/L, °C, 1/h, kJ/h",
            )],
            dt: Some(0.005),
            dt_param: Some("dt"),
            constraints: self.constraints(),
            ..EnvSpec::of::<Self>(
                "VanDeVusse-v0",
                "hold the intermediate product of the van de Vusse reactor at its set-point with feed and cooling",
                ObservationSpace::vector(OBSERVATION_NAMES, bounds(low), bounds(high)),
                ActionSpace::Box { low: vec![-1.0; 2], high: vec![1.0; 2] },
                200,
            )
        }
    }

    fn set_safety(&mut self, mode: SafetyMode, constraints: &[Constraint]) {
        self.trip = safe_range(mode, constraints, "TR", self.normalize_obs.then_some(NORMAL_RANGE[2]));
    }

    fn set_option(&mut self, name: &str, value: &str) {
        debug_assert_eq!(name, "normalize_obs");
        self.normalize_obs = value == "true";
    }

    fn check_params(&self, p: &Params<f64>) -> Result<(), String> {
        let check = check_order;
        check("setpoint_low", p.setpoint_low, "setpoint_high", p.setpoint_high)?;
        check("feed_min", p.feed_min, "feed_max", p.feed_max)?;
        check("cooling_min", p.cooling_min, "cooling_max", p.cooling_max)
    }

    #[inline(always)]
    fn reset<R: Real>(&self, p: &Params<R>, draws: &mut Draws<R>) -> State<R> {
        let spread = p.start_spread;
        let mut deviation = || draws.uniform(-spread, spread);
        State {
            ca: deviation().mul_add(R::splat(0.8), R::splat(0.8)),
            cb: deviation().mul_add(R::splat(0.5), R::splat(0.5)),
            tr: deviation().mul_add(R::splat(10.0), R::splat(134.14)),
            tk: deviation().mul_add(R::splat(10.0), R::splat(130.0)),
            feed: R::splat(START_INPUTS[0]),
            cooling: R::splat(START_INPUTS[1]),
            setpoint: draws.uniform(p.setpoint_low, p.setpoint_high),
            step: R::Uint::splat(0),
        }
    }

    #[inline(always)]
    fn step<R: Real>(&self, p: &Params<R>, state: &State<R>, action: [R; 2], _: &mut Draws<R>) -> Step<State<R>, R> {
        let (zero, one, half) = (R::splat(0.0), R::splat(1.0), R::splat(0.5));
        let [feed_way, cooling_way] = action.map(|a| a.clamp(-one, one).mul_add(half, half));
        let feed = feed_way.mul_add(p.feed_max - p.feed_min, p.feed_min);
        let cooling = cooling_way.mul_add(p.cooling_max - p.cooling_min, p.cooling_min);

        let per_reference = R::splat(1.0 / (REFERENCE_TEMPERATURE + ZERO_CELSIUS));
        let slope = [p.activation_chain, p.alpha * p.activation_side].map(|activation| activation * per_reference);
        let per_heat = one / (p.density * p.heat_capacity);
        let per_jacket = one / (p.jacket_mass * p.jacket_heat_capacity);
        let transfer = p.heat_transfer * p.area;
        let core = Core {
            k: [p.k0_chain * (-slope[0]).exp(), p.k0_side * (-slope[1]).exp()],
            slope,
            beta: p.beta,
            heat_rise: [p.heat_ab, p.heat_bc, p.heat_ad].map(|heat| -heat * per_heat),
            feed,
            feed_concentration: p.feed_concentration,
            feed_temperature: p.feed_temperature,
            exchange: [transfer * per_heat / p.volume, transfer * per_jacket],
            cooling: cooling * per_jacket,
        };
        let sub_step = p.dt * R::splat(1.0 / SUB_STEPS as f64);
        let mut running = R::Mask::splat(true);
        let mut x = [state.ca, state.cb, state.tr, state.tk];
        for _ in 0..SUB_STEPS {
            // A lane that stands still takes steps of no length.
            x = rk4(x, sub_step.keep(running), |_, x| core.rate(x));
            let [low, high] = self.trip.map(R::splat);
            running = running & x[2].ge(low) & x[2].le(high);
        }
        let [ca, cb, tr, tk] = x;

        let quality = one - ((cb - state.setpoint).abs() / p.quality_scale).min(one);
        let throughput = (feed * cb / p.throughput_scale).clamp(zero, one);
        // A range of no width has no change; the small number keeps the quotient defined.
        let change = |now: R, before: R, range: R| (now - before).abs() / (half * range).max(R::splat(1e-30));
        let changes = change(feed, state.feed, p.feed_max - p.feed_min)
            + change(cooling, state.cooling, p.cooling_max - p.cooling_min);
        let effort = one - cooling_way;
        let economy = (one - half * effort - R::splat(0.125) * changes).clamp(zero, one);
        let reward = R::splat(0.6) * quality + R::splat(0.2) * throughput + R::splat(0.2) * economy;

        let step = state.step.wrapping_add(R::Uint::splat(1));
        let state = State { ca, cb, tr, tk, feed, cooling, setpoint: state.setpoint, step };
        Step { state, reward, terminated: R::Mask::splat(false) }
    }

    #[inline(always)]
    fn observe<R: Real>(&self, p: &Params<R>, state: &State<R>) -> [R; 9] {
        let remaining = (R::splat(1.0) - R::from_uint(state.step) / p.horizon).max(R::splat(0.0));
        let obs = [
            state.ca,
            state.cb,
            state.tr,
            state.tk,
            state.feed,
            state.cooling,
            state.setpoint,
            state.setpoint - state.cb,
            remaining,
        ];
        if self.normalize_obs { normalized(obs, &NORMAL_RANGE) } else { obs }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::probe::Precision;

    use super::*;
    use crate::golden::{close, exact, single, unguarded};

    /// The start of the golden trajectory, with inputs, set-point and step count of no influence.
    const START: [f64; 8] = [0.8, 0.5, 134.14, 130.0, 20.0, -5000.0, 0.6, 0.0];

    fn action(feed: f64, cooling: f64) -> [f64; 2] {
        [(feed - 52.5) / 47.5, (cooling + 4250.0) / 4250.0]
    }

    /// The state after so many steps with constant inputs.
    fn after(settings: &[(&str, &str)], start: [f64; 4], inputs: [f64; 2], steps: usize) -> [f64; 4] {
        let mut probe = exact(VanDeVusse::default(), settings);
        let [ca, cb, tr, tk] = start;
        probe.set_state(&[ca, cb, tr, tk, 20.0, -5000.0, 0.6, 0.0]).unwrap();
        for _ in 0..steps {
            probe.step(&action(inputs[0], inputs[1])).unwrap();
        }
        probe.state()[..4].try_into().unwrap()
    }

    /// The literature's steady state, reached from elsewhere.
    #[test]
    fn the_steady_state_of_the_literature() {
        let tin = [("feed_temperature", "104.9")];
        let found = after(&tin, [2.0, 1.0, 110.0, 110.0], [14.19, -1113.5], 400);
        close(&found[..2], &[2.140211, 1.090304], 1e-6, 400);
        close(&found[2..], &[114.1911, 112.9066], 1e-4, 400);
        // It does not depend on the step, as RK4 does not move a state without rates.
        let slow = [tin[0], ("dt", "0.001")];
        close(&after(&slow, found, [14.19, -1113.5], 10), &found, 1e-9, 10);
    }

    /// Powers of the one-step map around the steady state decay with the eigenvalues of the plant.
    #[test]
    fn the_slowest_mode_decays_as_its_eigenvalue_says() {
        let tin = [("feed_temperature", "104.9")];
        let steady = after(&tin, [2.0, 1.0, 110.0, 110.0], [14.19, -1113.5], 400);
        let distance = |steps| {
            let start = [steady[0], steady[1], steady[2] + 0.01, steady[3] + 0.01];
            after(&tin, start, [14.19, -1113.5], steps)[2] - steady[2]
        };
        // After 1 h the next mode (-20.5) is gone; 20 steps are 0.1 h.
        let rate = (distance(220) / distance(200)).ln() / 0.1;
        assert!((rate - -13.66).abs() < 0.03, "{rate}");
    }

    #[test]
    fn the_gain_changes_its_sign() {
        let steady = |feed| after(&[("feed_temperature", "104.9")], [2.0, 1.0, 110.0, 110.0], [feed, -1113.5], 600)[1];
        for (feed, cb) in [(10.0, 1.0598), (14.19, 1.0903), (18.0, 1.0806), (25.0, 1.0161)] {
            assert!((steady(feed) - cb).abs() <= 5e-5, "F {feed}: {} instead of {cb}", steady(feed));
        }
    }

    #[test]
    fn the_answer_to_more_feed_begins_in_the_wrong_direction() {
        let tin = [("feed_temperature", "104.9")];
        let steady = after(&tin, [2.0, 1.0, 110.0, 110.0], [14.19, -1113.5], 400);
        // Fine steps, to see where the minimum is.
        let fine = [tin[0], ("dt", "0.0005")];
        let mut probe = exact(VanDeVusse::default(), &fine);
        probe.set_state(&[steady[0], steady[1], steady[2], steady[3], 14.19, -1113.5, 0.6, 0.0]).unwrap();
        let course: Vec<f64> = (0..2_000)
            .map(|_| {
                probe.step(&action(20.0, -1113.5)).unwrap();
                probe.state()[1]
            })
            .collect();
        let (at, dip) = course.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
        assert!((dip - 1.01736).abs() < 1e-5, "{dip}");
        assert!(((at + 1) as f64 * 0.0005 - 0.033).abs() <= 0.001, "{at}");
        assert!((course.last().unwrap() - 1.066536).abs() < 1e-6);
    }

    #[test]
    fn golden_samples() {
        let samples =
            [(1, [0.9721424, 0.5411033, 133.666640, 129.334390]), (20, [1.3369658, 0.9437952, 133.236593, 127.377579])];
        for (steps, expected) in samples {
            let found = after(&[], [0.8, 0.5, 134.14, 130.0], [20.0, -5000.0], steps);
            close(&found, &expected, 1e-6, steps);
        }
    }

    #[test]
    fn single_precision_follows_double_over_an_episode() {
        let (mut double, mut lanes) = (exact(VanDeVusse::default(), &[]), single(VanDeVusse::default(), &[]));
        double.set_state(&START).unwrap();
        lanes.set_state(&START).unwrap();
        for step in 0..200 {
            let action = if step / 20 % 2 == 0 { [-0.8, 0.3] } else { [0.1, -0.6] };
            double.step(&action).unwrap();
            lanes.step(&action).unwrap();
            for (a, b) in lanes.state().iter().zip(double.state()) {
                assert!((a - b).abs() <= 1e-5 * b.abs(), "step {step}: {a} instead of {b}");
            }
        }
    }

    #[test]
    fn a_lane_stands_still_from_the_sub_step_that_breaks_the_hard_limit() {
        let temperature = |enforce: bool| {
            // A feed this hot makes a reactor that rises by several degrees in a step.
            let settings = [("feed_temperature", "170")];
            let env = VanDeVusse::default();
            let mut probe = if enforce { exact(env, &settings) } else { unguarded(env, &settings, Precision::F64) };
            probe.set_state(&[2.0, 0.5, 149.0, 149.0, 20.0, 0.0, 0.6, 0.0]).unwrap();
            probe.step(&[1.0, 1.0]).unwrap();
            probe.state()[2]
        };
        let (stopped, free) = (temperature(true), temperature(false));
        assert!(150.0 < stopped && stopped + 1.0 < free, "{stopped} and {free}");
    }

    #[test]
    fn reward_observation_and_normalisation() {
        let mut probe = exact(VanDeVusse::default(), &[]);
        probe.set_state(&START).unwrap();
        let step = probe.step(&[-1.0, 3.0]).unwrap();
        let state = probe.state();
        assert_eq!((state[4], state[5], state[7]), (5.0, 0.0, 1.0));
        let quality = 1.0 - ((state[1] - 0.6).abs() / 0.1).min(1.0);
        let economy = 1.0 - 0.125 * (15.0 / 47.5 + 5000.0 / 4250.0);
        let expected = 0.6 * quality + 0.2 * (5.0 * state[1] / 10.0) + 0.2 * economy;
        assert!((step.reward - expected).abs() < 1e-12 && !step.terminated, "{step:?} instead of {expected}");
        let obs = probe.observation();
        assert_eq!((obs[6], obs[8]), (0.6, 1.0 - 1.0 / 200.0));
        assert!((f64::from(obs[7]) - (0.6 - state[1])).abs() < 1e-7);

        let mut scaled = exact(VanDeVusse::default(), &[("normalize_obs", "true")]);
        scaled.set_state(&[2.0, 0.1, 100.0, 95.0, 5.0, 0.0, 0.5, 100.0]).unwrap();
        assert_eq!(scaled.observation()[..7], [1.0, -1.0, 0.0, 0.0, -1.0, 1.0, -1.0]);
        let high = |env: VanDeVusse| env.constraints()[0].high.unwrap().value;
        assert_eq!(high(VanDeVusse { normalize_obs: true, ..VanDeVusse::default() }), 1.0);
        assert_eq!(high(VanDeVusse::default()), 150.0);
    }
}
