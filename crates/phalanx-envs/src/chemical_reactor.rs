//! `ChemicalReactor-v0`: hold the concentration of a stirred tank reactor where it would run away by itself.
//!
//! The core is the exothermic CSTR of Seborg, Edgar and Mellichamp, A -> B at constant volume, with jacket
//! temperature `Tc`. Around it, of representative size: the product `CB`, gas `n` in a head space that is
//! vented to the atmosphere, and first-order actuators. Time is in minutes, volume in litres, `f = q/V`:
//!
//! ```text
//! k   = k0 exp(-E/(R T))
//! CA' = f (CAf - CA) - k CA                                            CB' = -f CB + k CA
//! T'  = f (Tf - T) + dH/(rho Cp) k CA + UA/(V rho Cp) (Tc - T)
//! n'  = yield k CA V - valve v max(P - 1.01325, 0)                     P [bar] = n 0.0831446 T / headspace
//! Tc' = (300 + 15 a0 - Tc)/lag      q' = (100 + 20 a1 - q)/lag      v' = (0.5 + 0.5 a2 - v)/lag
//! ```
//!
//! A step is `dt` = 0.1 min: the actions are clipped to [-1, 1], then `CA`, `T` and `n` take ten RK4
//! sub-steps (how: [`Core`]). What is linear is not approximated: the actuators approach their commands
//! exponentially, and `CA + CB` approaches `CAf` with the integral of `f`. After the step the feed moves
//! (AR(1)), so an observation shows the feed that the next step will use.
//!
//! The set-point of `CA` is 0.70 for the first 250 steps and a draw from U(0.6, 0.8) for the rest; both are
//! at or beyond the fold where the reactor ignites, so that it must be held by feedback. The reward of a
//! step is `0.6 quality + 0.2 throughput + 0.2 economy` of the new state and the set-point of that step:
//!
//! ```text
//! quality = 1 - min(1, |CA - sp|/0.1)   throughput = clip(q CB/40, 0, 1)
//! economy = 1 - 0.5 v - 0.25 mean|a - a_previous|           (a_previous = 0 at the start)
//! ```
//!
//! Limits are data ([`ChemicalReactor::limits`]); penalties and termination are the engine's. With
//! `stop_at_trip` a lane stands still from the first sub-step that breaks a hard limit, so that the state
//! which ends an episode is the one that broke it.

use phalanx_core::env::{LaneEnv, LaneParams, LaneStruct, Step};
use phalanx_core::lanes::{Mask, Real, Uint};
use phalanx_core::rng::Draws;
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace, OptionInfo};
use phalanx_core::{lane_params, lane_struct};

use crate::limits::{Limit, scaled};
use crate::rk4::rk4;

/// Sub-steps of a step.
const SUB_STEPS: usize = 10;
/// Temperatures are followed as differences to this one, K.
const REFERENCE_TEMPERATURE: f64 = 350.0;
/// L bar/(mol K)
const GAS_CONSTANT: f64 = 0.083_144_6;
/// bar
const ATMOSPHERE: f64 = 1.013_25;

/// Temperatures outside of which the reactor is shut down, K.
const TEMPERATURE_TRIP: [f64; 2] = [273.15, 373.15];
/// Pressures outside of which the reactor is shut down, bar.
const PRESSURE_TRIP: [f64; 2] = [0.0, 10.0];

/// What is seen, in order.
const OBSERVATION_NAMES: &[&str] =
    &["temperature", "pressure", "CA", "CB", "Tc", "q", "v", "Tf", "CAf", "setpoint", "setpoint_error", "remaining"];
/// What each of them is divided into by `normalize_obs`: the range that becomes [-1, 1].
const NORMAL_RANGE: [[f64; 2]; 12] = [
    TEMPERATURE_TRIP,
    PRESSURE_TRIP,
    [0.0, 1.0],
    [0.0, 1.0],
    [285.0, 315.0],
    [80.0, 120.0],
    [0.0, 1.0],
    [345.0, 355.0],
    [0.95, 1.05],
    [0.6, 0.8],
    [-0.2, 0.2],
    [0.0, 1.0],
];

/// The environment and its options.
#[derive(Clone, Debug)]
pub struct ChemicalReactor {
    disturbances: bool,
    normalize_obs: bool,
    stop_at_trip: bool,
}

impl Default for ChemicalReactor {
    fn default() -> Self {
        Self { disturbances: true, normalize_obs: false, stop_at_trip: true }
    }
}

lane_struct! {
    /// The reactor, its feed and its task.
    pub struct State<R> {
        /// mol/L
        ca: R,
        /// mol/L
        cb: R,
        /// K
        temperature: R,
        /// mol of gas in the head space
        gas: R,
        /// Jacket temperature, K
        tc: R,
        /// Feed, L/min
        q: R,
        /// Opening of the vent, 0 to 1
        v: R,
        /// Temperature of the feed, K
        tf: R,
        /// Concentration of the feed, mol/L
        caf: R,
        /// The set-point of the second half, mol/L
        late_setpoint: R,
        /// The last action's first component
        last_a0: R,
        last_a1: R,
        last_a2: R,
        /// Steps since the start
        step: R::Uint,
    }
}

lane_params! {
    /// Constants of the plant and of the task.
    pub struct Params {
        volume = 100.0, 1.0 => 1e5, "volume of the liquid, L";
        density = 1000.0, 1.0 => 1e5, "density of the liquid, g/L";
        heat_capacity = 0.239, 1e-3 => 1e2, "heat capacity of the liquid, J/(g K)";
        reaction_heat = 5e4, 0.0 => 1e6, "heat set free by the reaction, J/mol";
        activation = 8750.0, 0.0 => 2e4, "activation temperature E/R, K";
        k0 = 7.2e10, 1e-3 => 1e20, "frequency factor of the reaction, 1/min";
        heat_transfer = 5e4, 0.0 => 1e7, "heat transfer to the jacket UA, J/(min K)";
        feed_temperature = 350.0, 200.0 => 500.0, "mean temperature of the feed, K";
        feed_concentration = 1.0, 0.0 => 100.0, "mean concentration of the feed, mol/L";
        gas_yield = 0.1, 0.0 => 10.0, "gas set free by the reaction, mol/mol";
        valve = 2.0, 0.0 => 1e3, "flow through the open vent, mol/(min bar)";
        headspace = 50.0, 1.0 => 1e5, "volume of the gas, L";
        lag = 0.1, 1e-3 => 1e3, "time constant of the actuators, min";
        coolant_centre = 300.0, 200.0 => 400.0, "jacket temperature of action 0, K";
        coolant_range = 15.0, 0.0 => 100.0, "change of the jacket temperature for action 1, K";
        flow_centre = 100.0, 0.0 => 1e5, "feed of action 0, L/min";
        flow_range = 20.0, 0.0 => 1e5, "change of the feed for action 1, L/min";
        disturbance_memory = 0.99, 0.0 => 1.0, "part of the feed's deviation that is left after a step";
        disturbance_temperature = 0.2, 0.0 => 10.0, "standard deviation of a step's change of the feed temperature, K";
        disturbance_concentration = 0.002, 0.0 => 0.1, "the same of the feed concentration, mol/L";
        setpoint = 0.7, 0.0 => 100.0, "set-point of CA in the first part, mol/L";
        setpoint_low = 0.6, 0.0 => 100.0, "lower bound of the set-point drawn for the second part, mol/L";
        setpoint_high = 0.8, 0.0 => 100.0, "upper bound of it, mol/L";
        setpoint_step = 250.0, 0.0 => 1e6, "steps of the first part";
        quality_scale = 0.1, 1e-6 => 100.0, "deviation from the set-point at which the quality is 0, mol/L";
        throughput_scale = 40.0, 1e-6 => 1e6, "product at which the throughput goal is 1, mol/min";
        horizon = 500.0, 1.0 => 1e6, "steps after which the observed remaining time is 0";
        start_ca = 0.877, 0.0 => 100.0, "mean concentration at the start, mol/L";
        start_ca_spread = 0.02, 0.0 => 10.0, "largest deviation from it, mol/L";
        start_temperature = 324.5, 200.0 => 500.0, "mean temperature at the start, K";
        start_temperature_spread = 2.0, 0.0 => 100.0, "largest deviation from it, K";
        start_pressure = 3.0, 0.0 => 100.0, "pressure at the start, bar";
        dt = 0.1, 1e-6 => 0.1, "time between two steps, min; ten RK4 sub-steps";
    }
}

/// What the sub-steps of one step share, and their rates of change.
///
/// The sub-steps integrate five quantities: `CA`, `theta = T - 350 K`, `n`, and with them
///
/// ```text
/// v = -1/T        v' = v² T'                  kappa = k^(1/4)        kappa' = E/(4R) kappa v² T'
/// ```
///
/// so that a rate is a polynomial. With an exponential and a quotient in each of the forty rates of a step,
/// each waiting for the one before, a step takes twice the time. `v` and `kappa` start each step from their
/// exact values. The fourth root grows slowly enough that RK4 follows it well: up to a trip the error is
/// below 1e-5 of the value.
///
/// The difference to 350 K is for single precision, where a temperature has a resolution of 3e-5 K, which a
/// passage along the ignition fold multiplies by hundreds.
struct Core<R> {
    /// E/(4R), K
    quarter_activation: R,
    /// K L/mol
    heat_rise: R,
    /// 1/min
    cooling: R,
    /// No more than all of A can react in a sub-step. Without this limit, which matters above 429 K, RK4
    /// leaves all bounds when a reactor that nobody stops has ignited; with it CA stays positive.
    fastest: R,
    caf: R,
    /// mol/mol times L
    gas_yield: R,
    /// bar/(mol K)
    gas_factor: R,
    // The actuators at the node with `decay`, the part of their way still to go, are `x_0 + x_1 decay`:
    /// q/V, 1/min
    dilution: [R; 2],
    /// q/V (Tf - 350 K) + cooling (Tc - 350 K), K/min
    heating: [R; 2],
    /// Flow through the vent, negative, mol/(min bar)
    vent: [R; 2],
}

/// The actuators at one moment, as the rates need them.
#[derive(Clone, Copy)]
struct Node<R> {
    dilution: R,
    heating: R,
    /// Heat lost per kelvin to feed and jacket, negative, 1/min
    loss: R,
    vent: R,
}

impl<R: Real> Core<R> {
    #[inline(always)]
    fn node(&self, decay: R) -> Node<R> {
        let at = |[target, way]: [R; 2]| way.mul_add(decay, target);
        let dilution = at(self.dilution);
        Node { dilution, heating: at(self.heating), loss: -self.cooling - dilution, vent: at(self.vent) }
    }

    #[inline(always)]
    fn temperature(theta: R) -> R {
        theta + R::splat(REFERENCE_TEMPERATURE)
    }

    /// The rates of `CA`, `theta`, `n`, `v` and `kappa`.
    #[inline(always)]
    fn rate(&self, node: Node<R>, [ca, theta, gas, v, kappa]: [R; 5]) -> [R; 5] {
        let root = kappa * kappa;
        let reaction = (root * root).min(self.fastest) * ca;
        let warming = self.heat_rise.mul_add(reaction, node.loss.mul_add(theta, node.heating));
        let turning = v * v * warming;
        let pressure_per_mol = Self::temperature(theta) * self.gas_factor;
        let overpressure = pressure_per_mol.mul_add(gas, R::splat(-ATMOSPHERE)).max(R::splat(0.0));
        [
            node.dilution.mul_add(self.caf - ca, -reaction),
            warming,
            node.vent.mul_add(overpressure, self.gas_yield * reaction),
            turning,
            self.quarter_activation * kappa * turning,
        ]
    }

    /// Where temperature and pressure are within the hard limits.
    #[inline(always)]
    fn within_trips(&self, theta: R, gas: R) -> R::Mask {
        let temperature = Self::temperature(theta);
        let pressure = (temperature * self.gas_factor) * gas;
        let inside = |x: R, [low, high]: [f64; 2]| x.ge(R::splat(low)) & x.le(R::splat(high));
        inside(temperature, TEMPERATURE_TRIP) & inside(pressure, PRESSURE_TRIP)
    }
}

impl<R: Real> Params<R> {
    /// P/(n T), bar/(mol K).
    #[inline(always)]
    fn gas_factor(&self) -> R {
        R::splat(GAS_CONSTANT) / self.headspace
    }
}

impl<R: Real> State<R> {
    /// The set-point of the step that begins in this state.
    #[inline(always)]
    fn setpoint(&self, params: &Params<R>) -> R {
        R::select(R::from_uint(self.step).lt(params.setpoint_step), params.setpoint, self.late_setpoint)
    }
}

impl ChemicalReactor {
    /// Whether a lane stands still from the first sub-step on that breaks a hard limit (the default), or
    /// goes on as if nothing had happened.
    pub fn set_safety(&mut self, enforce: bool) {
        self.stop_at_trip = enforce;
    }

    /// The limits of safe operation.
    pub fn limits(&self) -> Vec<Limit> {
        let limits = [
            Limit {
                name: "temperature_trip",
                signal: "temperature",
                low: Some(TEMPERATURE_TRIP[0]),
                high: Some(TEMPERATURE_TRIP[1]),
                hard: true,
            },
            Limit {
                name: "pressure_trip",
                signal: "pressure",
                low: Some(PRESSURE_TRIP[0]),
                high: Some(PRESSURE_TRIP[1]),
                hard: true,
            },
            Limit { name: "temperature_alarm", signal: "temperature", low: None, high: Some(365.0), hard: false },
            Limit { name: "pressure_alarm", signal: "pressure", low: None, high: Some(8.0), hard: false },
        ];
        let scale = |limit: Limit| limit.scaled(OBSERVATION_NAMES, &NORMAL_RANGE);
        limits.into_iter().map(|limit| if self.normalize_obs { scale(limit) } else { limit }).collect()
    }
}

impl LaneEnv for ChemicalReactor {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = [R; 3];
    type Obs<R: Real> = [R; 12];

    fn spec(&self) -> EnvSpec {
        let inf = f32::INFINITY;
        let low = [0.0, 0.0, 0.0, 0.0, 285.0, 80.0, 0.0, 0.0, -inf, 0.0, -inf, 0.0];
        let high = [inf, inf, inf, inf, 315.0, 120.0, 1.0, inf, inf, inf, inf, 1.0];
        let bounds = |bounds: [f32; 12]| match self.normalize_obs {
            true => bounds.iter().zip(NORMAL_RANGE).map(|(x, range)| scaled(f64::from(*x), range) as f32).collect(),
            false => bounds.to_vec(),
        };
        let switch = |on: bool| if on { "true" } else { "false" };
        EnvSpec {
            name: "ChemicalReactor-v0",
            description: "hold the concentration of an exothermic stirred tank reactor, CSTR, near its ignition with \
                          jacket temperature, feed and vent",
            observation: ObservationSpace { names: OBSERVATION_NAMES, low: bounds(low), high: bounds(high) },
            action: ActionSpace::Box { low: vec![-1.0; 3], high: vec![1.0; 3] },
            state_names: State::<f32>::NAMES,
            params: Params::<f32>::INFO.to_vec(),
            options: vec![
                OptionInfo {
                    name: "disturbances",
                    value: switch(self.disturbances),
                    choices: &["true", "false"],
                    description: "whether temperature and concentration of the feed drift",
                },
                OptionInfo {
                    name: "normalize_obs",
                    value: switch(self.normalize_obs),
                    choices: &["true", "false"],
                    description: "observations scaled to about [-1, 1] instead of K, bar, mol/L",
                },
            ],
            max_steps: 500,
            dt: Some(0.1),
            dt_param: Some("dt"),
            reward_threshold: None,
        }
    }

    fn set_option(&mut self, name: &str, value: &str) {
        let chosen = value == "true";
        match name {
            "disturbances" => self.disturbances = chosen,
            _ => self.normalize_obs = chosen,
        }
    }

    fn check_params(&self, params: &Params<f64>) -> Result<(), String> {
        crate::registry::check_order("setpoint_low", params.setpoint_low, "setpoint_high", params.setpoint_high)
    }

    #[inline(always)]
    fn reset<R: Real>(&self, p: &Params<R>, draws: &mut Draws<R>) -> State<R> {
        let mut around = |centre: R, spread: R| draws.uniform(centre - spread, centre + spread);
        let ca = around(p.start_ca, p.start_ca_spread);
        let temperature = around(p.start_temperature, p.start_temperature_spread);
        let zero = R::splat(0.0);
        State {
            ca,
            cb: (p.feed_concentration - ca).max(zero),
            temperature,
            gas: p.start_pressure / (temperature * p.gas_factor()),
            tc: p.coolant_centre,
            q: p.flow_centre,
            v: R::splat(0.5),
            tf: p.feed_temperature,
            caf: p.feed_concentration,
            late_setpoint: draws.uniform(p.setpoint_low, p.setpoint_high),
            last_a0: zero,
            last_a1: zero,
            last_a2: zero,
            step: R::Uint::splat(0),
        }
    }

    #[inline(always)]
    fn step<R: Real>(
        &self,
        p: &Params<R>,
        state: &State<R>,
        action: [R; 3],
        draws: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        let (zero, one) = (R::splat(0.0), R::splat(1.0));
        let reference = R::splat(REFERENCE_TEMPERATURE);
        let [a0, a1, a2] = action.map(|a| a.clamp(-one, one));
        let tc_command = p.coolant_range.mul_add(a0, p.coolant_centre);
        let q_command = p.flow_range.mul_add(a1, p.flow_centre);
        let v_command = a2.mul_add(R::splat(0.5), R::splat(0.5));

        // How far the actuators are from their commands; it shrinks by the same factor for all.
        let (tc_way, q_way, v_way) = (state.tc - tc_command, state.q - q_command, state.v - v_command);
        let per_volume = one / p.volume;
        let per_heat = one / (p.density * p.heat_capacity);
        let cooling = p.heat_transfer * per_volume * per_heat;
        let dilution = [q_command * per_volume, q_way * per_volume];
        let feed_heat = state.tf - reference;
        let sub_step = p.dt * R::splat(1.0 / SUB_STEPS as f64);
        let fastest = R::splat(SUB_STEPS as f64) / p.dt;
        let core = Core {
            quarter_activation: p.activation * R::splat(0.25),
            heat_rise: p.reaction_heat * per_heat,
            cooling,
            fastest,
            caf: state.caf,
            gas_yield: p.gas_yield * p.volume,
            gas_factor: p.gas_factor(),
            dilution,
            heating: [
                dilution[0].mul_add(feed_heat, cooling * (tc_command - reference)),
                dilution[1].mul_add(feed_heat, cooling * tc_way),
            ],
            vent: [v_command, v_way].map(|v| -p.valve * v),
        };

        // k at 350 K times the rest: a difference of two large logarithms would lose six bits.
        let theta = state.temperature - reference;
        let exponent = p.activation * R::splat(1.0 / REFERENCE_TEMPERATURE);
        let v = -one / state.temperature;
        let kappa_reference = (p.k0 * (-exponent).exp()).sqrt().sqrt();
        let kappa = kappa_reference * (R::splat(-0.25) * exponent * theta * v).exp();
        let mut x = [state.ca, theta, state.gas, v, kappa];

        let half_decay = (R::splat(-0.5) * sub_step / p.lag).exp();
        let mut running = R::Mask::splat(true);
        let (mut elapsed, mut decay) = (zero, one);
        let mut node = core.node(decay);
        for _ in 0..SUB_STEPS {
            // A lane that stands still takes steps of no length.
            let (h, factor) = if self.stop_at_trip {
                (sub_step.keep(running), R::select(running, half_decay, one))
            } else {
                (sub_step, half_decay)
            };
            let middle = core.node(decay * factor);
            decay = decay * factor * factor;
            let end = core.node(decay);
            let nodes = [node, middle, end];
            x = rk4(x, h, |half, x| core.rate(nodes[half], x));
            node = end;
            elapsed = elapsed + h;
            if self.stop_at_trip {
                running = running & core.within_trips(x[1], x[2]);
            }
        }
        let [ca, theta, gas, ..] = x;

        // CA + CB approaches CAf as water in a stirred tank would.
        let exchanged = dilution[0].mul_add(elapsed, dilution[1] * p.lag * (one - decay));
        let missing = (state.caf - state.ca - state.cb) * (-exchanged).exp();
        let cb = state.caf - missing - ca;
        let tc = tc_way.mul_add(decay, tc_command);
        let q = q_way.mul_add(decay, q_command);
        let v = v_way.mul_add(decay, v_command);

        let quality = one - ((ca - state.setpoint(p)).abs() / p.quality_scale).min(one);
        let throughput = (q * cb / p.throughput_scale).clamp(zero, one);
        let changes = (a0 - state.last_a0).abs() + (a1 - state.last_a1).abs() + (a2 - state.last_a2).abs();
        let economy = changes.mul_add(R::splat(-0.25 / 3.0), v.mul_add(R::splat(-0.5), one));
        let reward = R::splat(0.6) * quality + R::splat(0.2) * throughput + R::splat(0.2) * economy;

        let (mut tf, mut caf) = (state.tf, state.caf);
        if self.disturbances {
            let (first, second) = normal_pair(draws);
            let drift = |value: R, mean: R| p.disturbance_memory.mul_add(value - mean, mean);
            tf = p.disturbance_temperature.mul_add(first, drift(tf, p.feed_temperature));
            caf = p.disturbance_concentration.mul_add(second, drift(caf, p.feed_concentration));
        }
        let state = State {
            ca,
            cb,
            temperature: Core::temperature(theta),
            gas,
            tc,
            q,
            v,
            tf,
            caf,
            late_setpoint: state.late_setpoint,
            last_a0: a0,
            last_a1: a1,
            last_a2: a2,
            step: state.step.wrapping_add(R::Uint::splat(1)),
        };
        Step { state, reward, terminated: R::Mask::splat(false) }
    }

    #[inline(always)]
    fn observe<R: Real>(&self, p: &Params<R>, state: &State<R>) -> [R; 12] {
        let setpoint = state.setpoint(p);
        let remaining = (R::splat(1.0) - R::from_uint(state.step) / p.horizon).max(R::splat(0.0));
        let obs = [
            state.temperature,
            (state.temperature * p.gas_factor()) * state.gas,
            state.ca,
            state.cb,
            state.tc,
            state.q,
            state.v,
            state.tf,
            state.caf,
            setpoint,
            setpoint - state.ca,
            remaining,
        ];
        if self.normalize_obs { crate::limits::normalized(obs, &NORMAL_RANGE) } else { obs }
    }
}

/// Two independent standard normal numbers: both halves of Box and Muller's pair.
#[inline(always)]
fn normal_pair<R: Real>(draws: &mut Draws<R>) -> (R, R) {
    let radius = (R::splat(-2.0) * draws.unit_above_zero().ln()).sqrt();
    let (sin, cos) = (draws.unit() * R::splat(std::f64::consts::TAU)).sin_cos();
    (radius * cos, radius * sin)
}

#[cfg(test)]
mod tests {
    use phalanx_core::probe::{Precision, Probe};

    use super::*;
    use crate::golden::{exact, seeded, single};

    const CALM: (&str, &str) = ("disturbances", "false");

    /// The plant without the shut-down.
    fn free() -> ChemicalReactor {
        ChemicalReactor { stop_at_trip: false, ..ChemicalReactor::default() }
    }

    /// A state at 3 bar with the actuators at rest and the jacket at `tc`.
    fn at(ca: f64, temperature: f64, tc: f64) -> Vec<f64> {
        let gas = 3.0 * 50.0 / (GAS_CONSTANT * temperature);
        vec![ca, 1.0 - ca, temperature, gas, tc, 100.0, 0.5, 350.0, 1.0, 0.7, 0.0, 0.0, 0.0, 0.0]
    }

    fn hold(tc: f64) -> [f64; 3] {
        [(tc - 300.0) / 15.0, 0.0, 0.0]
    }

    /// `CA` and `T` after `steps` with the jacket at `tc` from the start.
    fn run(probe: &mut dyn Probe, [ca, temperature]: [f64; 2], tc: f64, steps: usize) -> [f64; 2] {
        probe.set_state(&at(ca, temperature, tc)).unwrap();
        for _ in 0..steps {
            probe.step(&hold(tc)).unwrap();
        }
        let state = probe.state();
        [state[0], state[2]]
    }

    fn pressure(probe: &dyn Probe) -> f64 {
        let state = probe.state();
        state[3] * GAS_CONSTANT * state[2] / 50.0
    }

    #[track_caller]
    fn near(found: &[f64], expected: &[f64], relative: f64) {
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() <= relative * b.abs(), "{found:?} instead of {expected:?}");
        }
    }

    /// The derivatives of a map of the plane.
    fn jacobian(f: &mut impl FnMut([f64; 2]) -> [f64; 2], [x, y]: [f64; 2]) -> [[f64; 2]; 2] {
        let (dx, dy) = (1e-5 * x.abs(), 1e-5 * y.abs());
        let [right, left, up, down] = [f([x + dx, y]), f([x - dx, y]), f([x, y + dy]), f([x, y - dy])];
        [0, 1].map(|i| [(right[i] - left[i]) / (2.0 * dx), (up[i] - down[i]) / (2.0 * dy)])
    }

    /// Newton's method for a zero in the plane.
    fn root(mut f: impl FnMut([f64; 2]) -> [f64; 2], mut x: [f64; 2]) -> [f64; 2] {
        for _ in 0..30 {
            let [[a, b], [c, d]] = jacobian(&mut f, x);
            let [u, v] = f(x);
            let determinant = a * d - b * c;
            x = [x[0] - (d * u - b * v) / determinant, x[1] - (a * v - c * u) / determinant];
        }
        x
    }

    /// The steady state near a guess, stable or not: a fixed point of a step.
    fn steady(probe: &mut dyn Probe, tc: f64, guess: [f64; 2]) -> [f64; 2] {
        root(
            |x| {
                let [ca, temperature] = run(probe, x, tc, 1);
                [ca - x[0], temperature - x[1]]
            },
            guess,
        )
    }

    #[test]
    fn steady_states_and_their_eigenvalues() {
        let mut probe = exact(free(), &[CALM]);
        // Real parts or real eigenvalues, then the imaginary part, 1/min.
        let table = [
            (295.0, [0.92677, 317.742], None),
            (300.0, [0.87725, 324.475], Some((-1.049, -1.049, 0.539))),
            (300.0, [0.49992, 350.006], Some((2.834, -0.454, 0.0))),
            (300.0, [0.20876, 369.705], Some((1.357, 1.357, 1.540))),
            (302.0, [0.83479, 328.702], None),
            (305.0, [0.13520, 378.065], None),
        ];
        for (tc, expected, eigenvalues) in table {
            let found = steady(probe.as_mut(), tc, expected);
            assert!((found[0] - expected[0]).abs() < 1e-5 && (found[1] - expected[1]).abs() < 1e-3, "{tc}: {found:?}");
            let [[a, b], [c, d]] = jacobian(&mut |x| run(probe.as_mut(), x, tc, 1), found);
            // The eigenvalues of a step are e to the power of 0.1 min times those of the plant.
            let (half_trace, determinant) = (0.5 * (a + d), a * d - b * c);
            let square = half_trace * half_trace - determinant;
            let found = if square < 0.0 {
                let real = 0.5 * determinant.ln() / 0.1;
                (real, real, (-square).sqrt().atan2(half_trace) / 0.1)
            } else {
                ((half_trace + square.sqrt()).ln() / 0.1, (half_trace - square.sqrt()).ln() / 0.1, 0.0)
            };
            if let Some(expected) = eigenvalues {
                let off = [found.0 - expected.0, found.1 - expected.1, found.2 - expected.2];
                assert!(off.iter().all(|off| off.abs() < 1e-3), "{tc}: {found:?} instead of {expected:?}");
            } else {
                assert_eq!(found.0 < 0.0, tc < 303.0, "{tc}: {found:?}");
            }
        }
    }

    /// The jacket temperature that holds the reactor at a temperature has a maximum, where it ignites, and a
    /// minimum, where it goes out.
    #[test]
    fn ignition_and_extinction() {
        let mut probe = exact(free(), &[CALM]);
        let mut holding = |temperature: f64| {
            let rest = |[ca, tc]: [f64; 2]| {
                let [after, warmed] = run(probe.as_mut(), [ca, temperature], tc, 1);
                [after - ca, warmed - temperature]
            };
            root(rest, [0.6, 300.0])
        };
        for (sign, [mut low, mut high], expected) in
            [(1.0, [330.0, 345.0], [0.7443, 303.229, 335.654]), (-1.0, [350.0, 370.0], [0.3255, 298.080, 360.511])]
        {
            for _ in 0..60 {
                let third = (high - low) / 3.0;
                let [left, right] = [low + third, high - third].map(|t| sign * holding(t)[1]);
                if left < right { low += third } else { high -= third }
            }
            let [ca, tc] = holding(low);
            let off = [ca - expected[0], tc - expected[1], low - expected[2]];
            assert!(off[0].abs() < 1e-4 && off[1].abs() < 1e-3 && off[2].abs() < 2e-3, "{ca} {tc} {low}");
        }
    }

    #[test]
    fn open_loop_steps_of_the_jacket() {
        let mut probe = exact(free(), &[CALM]);
        let lower = steady(probe.as_mut(), 300.0, [0.877, 324.5]);
        // With a step of 0.002 min both the moment and the peak can be seen.
        let mut probe = exact(free(), &[CALM, ("dt", "0.002"), ("max_steps", "100000")]);
        let table =
            [(302.0, None, 328.84), (304.0, Some(3.62), 469.6), (305.0, Some(2.46), 476.3), (310.0, Some(1.14), 492.3)];
        for (tc, trip, peak) in table {
            probe.set_state(&at(lower[0], lower[1], tc)).unwrap();
            let course: Vec<f64> = (0..3_000)
                .map(|_| {
                    probe.step(&hold(tc)).unwrap();
                    probe.state()[2]
                })
                .collect();
            let found = course.iter().copied().fold(0.0, f64::max);
            assert!((found - peak).abs() < 0.06, "{tc}: {found} instead of {peak}");
            let passed = course.iter().position(|t| *t > 373.15).map(|i| (i + 1) as f64 * 0.002);
            assert_eq!(passed.is_some(), trip.is_some());
            assert!((passed.unwrap_or(0.0) - trip.unwrap_or(0.0)).abs() < 0.006, "{tc}: {passed:?}");
        }
    }

    /// RK4 with a sub-step of 0.005 min.
    #[test]
    fn golden_trajectories() {
        let mut probe = exact(free(), &[CALM, ("dt", "0.05")]);
        let table = [
            ([0.8, 330.0], 300.0, 2, [0.80267341, 329.412916]),
            ([0.8, 330.0], 300.0, 10, [0.81661145, 327.386565]),
            ([0.8, 330.0], 300.0, 20, [0.83533894, 325.724021]),
            ([0.5, 350.0], 295.0, 2, [0.50197091, 348.714293]),
            ([0.5, 350.0], 295.0, 20, [0.66660576, 326.189859]),
        ];
        for (start, tc, steps, expected) in table {
            near(&run(probe.as_mut(), start, tc, steps), &expected, 1e-6);
        }
    }

    #[test]
    fn golden_episode_with_actuators_and_gas() {
        for (mut probe, tolerance) in
            [(exact(ChemicalReactor::default(), &[CALM]), 1e-6), (single(ChemicalReactor::default(), &[CALM]), 1e-5)]
        {
            probe.set_state(&at(0.877, 324.5, 300.0)).unwrap();
            let mut seen = vec![];
            for _ in 0..10 {
                probe.step(&[1.0 / 3.0, 0.0, 0.0]).unwrap();
                let state = probe.state();
                seen.push([state[0], state[2], pressure(probe.as_ref()), state[3], state[4]]);
            }
            near(&seen[0], &[0.87687012, 324.869146, 2.964260, 5.48711084, 303.160603], tolerance);
            near(&seen[4][..3], &[0.86953679, 328.046193, 2.891725], tolerance);
            near(&seen[9][..3], &[0.84620767, 331.681180, 2.922029], tolerance);
        }
    }

    #[test]
    fn the_pressure_settles_where_gas_comes_and_goes_alike() {
        let mut probe = exact(ChemicalReactor::default(), &[CALM]);
        probe.set_state(&at(0.877, 324.5, 300.0)).unwrap();
        for _ in 0..3_000 {
            probe.step(&[0.0; 3]).unwrap();
        }
        let ca = probe.state()[0];
        assert!((ca - 0.8772529).abs() < 1e-7, "{ca}");
        let closed_form = 1.01325 + 0.1 * 100.0 * (1.0 - ca) / (2.0 * 0.5);
        near(&[pressure(probe.as_ref()), closed_form], &[2.240721, 2.240721], 1e-6);
    }

    /// What comes in as A is inside as A or B or has gone out, also while the feed changes.
    #[test]
    fn the_sum_of_the_concentrations_follows_the_feed() {
        let mut probe = exact(ChemicalReactor::default(), &[CALM]);
        let mut state = at(0.6, 330.0, 300.0);
        (state[1], state[8]) = (0.1, 1.2);
        probe.set_state(&state).unwrap();
        // The same with a thousand small steps of (CA + CB)' = q/V (CAf - CA - CB).
        let (mut sum, mut q) = (0.7, 100.0);
        for a1 in [1.0, -1.0, 0.3] {
            probe.step(&[-1.0, a1, 0.0]).unwrap();
            for _ in 0..10_000 {
                let middle = q + (100.0 + 20.0 * a1 - q) * 0.5e-4;
                sum += middle / 100.0 * (1.2 - sum) * 1e-5;
                q += (100.0 + 20.0 * a1 - q) * 1e-4;
            }
            let state = probe.state();
            assert!((state[0] + state[1] - sum).abs() < 2e-5, "{} instead of {sum}", state[0] + state[1]);
        }
    }

    #[test]
    fn a_lane_stands_still_from_the_sub_step_that_breaks_a_hard_limit() {
        // With a tenth of the step, the first step that ends beyond the limit.
        let mut fine = exact(free(), &[CALM, ("dt", "0.01")]);
        let mut stopping = exact(ChemicalReactor::default(), &[CALM]);
        let start = at(0.85, 340.0, 310.0);
        fine.set_state(&start).unwrap();
        stopping.set_state(&start).unwrap();
        while fine.state()[2] <= 373.15 {
            fine.step(&hold(310.0)).unwrap();
        }
        while stopping.state()[2] <= 373.15 {
            assert!(!stopping.step(&hold(310.0)).unwrap().terminated);
        }
        near(&stopping.state()[..7], &fine.state()[..7], 2e-5);
        assert!(stopping.state()[2] < 385.0);

        let mut vented = exact(ChemicalReactor::default(), &[CALM]);
        vented.set_state(&start).unwrap();
        let mut state = start;
        state[3] *= 9.99 / 3.0;
        state[6] = 0.0;
        vented.set_state(&state).unwrap();
        vented.step(&[-1.0, 0.0, -1.0]).unwrap();
        let stopped = pressure(vented.as_ref());
        assert!((10.0..10.2).contains(&stopped), "{stopped}");
    }

    /// A reactor that nobody stops burns, cools and burns again, and all numbers stay numbers.
    #[test]
    fn an_ignited_reactor_stays_within_the_laws_of_conservation() {
        for mut probe in [exact(free(), &[CALM]), single(free(), &[CALM])] {
            let mut ignitions = 0;
            probe.set_state(&at(0.8773, 324.475, 305.0)).unwrap();
            let mut before = 0.0;
            for _ in 0..500 {
                probe.step(&hold(305.0)).unwrap();
                let state = probe.state();
                ignitions += u32::from(before <= 373.15 && state[2] > 373.15);
                before = state[2];
                assert!((0.0..=1.0).contains(&state[0]) && (0.0..=1.0).contains(&state[1]), "{state:?}");
                // 350 K feed plus all the heat of reaction.
                assert!((300.0..560.0).contains(&state[2]), "{state:?}");
            }
            assert!((18..=24).contains(&ignitions), "{ignitions}");
        }
    }

    /// Along the fold, where the least difference grows, up to the limit.
    #[test]
    fn single_precision_follows_double_through_an_ignition() {
        for tc in [302.0, 303.3, 304.0, 305.0, 310.0, 315.0] {
            let mut double = exact(ChemicalReactor::default(), &[CALM]);
            let mut lanes = single(ChemicalReactor::default(), &[CALM]);
            let start = at(0.877253, 324.475, 300.0);
            double.set_state(&start).unwrap();
            lanes.set_state(&start).unwrap();
            let mut largest = 0.0_f64;
            for _ in 0..500 {
                double.step(&hold(tc)).unwrap();
                lanes.step(&hold(tc)).unwrap();
                for (a, b) in lanes.state().iter().zip(&double.state()[..7]) {
                    largest = largest.max((a / b - 1.0).abs());
                }
                if double.state()[2] > 373.15 {
                    break;
                }
            }
            assert!(largest < 5e-5, "{tc}: {largest:e}");
        }
    }

    #[test]
    fn reward_observation_and_set_points() {
        let mut probe = exact(ChemicalReactor::default(), &[CALM]);
        let mut start = at(0.75, 335.0, 300.0);
        (start[9], start[13]) = (0.65, 249.0);
        probe.set_state(&start).unwrap();
        assert_eq!((probe.observation()[9], probe.observation()[11]), (0.7, 1.0 - 249.0 / 500.0));
        let step = probe.step(&[0.5, -2.0, 0.2]).unwrap();
        let state = probe.state();
        let quality = 1.0 - (state[0] - 0.7).abs() / 0.1;
        let throughput = state[5] * state[1] / 40.0;
        let economy = 1.0 - 0.5 * state[6] - 0.25 * (0.5 + 1.0 + 0.2) / 3.0;
        let expected = 0.6 * quality + 0.2 * throughput + 0.2 * economy;
        assert!((step.reward - expected).abs() < 1e-12, "{step:?} instead of {expected}");
        assert_eq!(state[10..], [0.5, -1.0, 0.2, 250.0]);

        // The set-point has changed; the observation is K, bar, mol/L.
        let obs = probe.observation();
        let expected = [state[2], pressure(probe.as_ref()), state[0], state[1], state[4], state[5], state[6]];
        for (a, b) in obs.iter().zip(expected) {
            assert!((f64::from(*a) - b).abs() <= 1e-6 * b, "{obs:?} instead of {expected:?}");
        }
        assert_eq!((obs[7], obs[8], obs[9], obs[11]), (350.0, 1.0, 0.65, 0.5));
        assert!((f64::from(obs[10]) - (0.65 - state[0])).abs() < 1e-7);
    }

    #[test]
    fn normalised_observations_and_limits() {
        let mut probe = exact(ChemicalReactor::default(), &[CALM, ("normalize_obs", "true")]);
        let mut state = at(0.5, 373.15, 285.0);
        state[5] = 120.0;
        probe.set_state(&state).unwrap();
        let obs = probe.observation();
        assert_eq!((obs[0], obs[2], obs[4], obs[5], obs[6]), (1.0, 0.0, -1.0, 1.0, 0.0));
        assert!((obs[1] - -0.4).abs() < 1e-6);
        let scaled = ChemicalReactor { normalize_obs: true, ..ChemicalReactor::default() };
        assert_eq!((scaled.limits()[0].low, scaled.limits()[1].high), (Some(-1.0), Some(1.0)));
        assert_eq!(ChemicalReactor::default().limits()[0].high, Some(373.15));
    }

    /// Stationary moments of the feed: AR(1) with memory 0.99 has a variance of sd²/(1 - 0.99²).
    #[test]
    fn the_feed_drifts() {
        let (mut sums, mut count) = ([0.0; 5], 0.0);
        for seed in 0..400 {
            let mut probe = seeded(ChemicalReactor::default(), &[("max_steps", "2000")], seed, Precision::F32);
            for step in 0..1_200 {
                probe.step(&[-1.0, 0.0, 1.0]).unwrap();
                if step >= 600 && step % 300 == 0 {
                    let state = probe.state();
                    let (t, c) = ((state[7] - 350.0) / 0.2, (state[8] - 1.0) / 0.002);
                    for (sum, value) in sums.iter_mut().zip([t, t * t, c, c * c, t * c]) {
                        *sum += value;
                    }
                    count += 1.0;
                }
            }
        }
        let variance = 1.0 / (1.0 - 0.99_f64 * 0.99);
        let means = sums.map(|sum| sum / count);
        let error = 5.0 * variance / f64::sqrt(count);
        let off = [means[1] - variance, means[3] - variance].map(|off| off.abs() / f64::sqrt(2.0));
        assert!(off.iter().chain([&means[4].abs()]).all(|off| *off < error), "{means:?}");
        assert!(means[0].abs().max(means[2].abs()) < 5.0 * (variance / count).sqrt(), "{means:?}");
    }

    /// What the reference says of seven policies, with its penalties: returns, and how many were shut down.
    #[test]
    fn reference_returns() {
        const EPISODES: u64 = 300;
        type Law = fn(&mut [f64; 2], usize, &[f32]) -> [f64; 3];
        /// The temperature at which CA would rest at the set-point.
        fn target(obs: &[f64]) -> f64 {
            let (dilution, caf, setpoint) = (obs[5] / 100.0, obs[8], obs[9]);
            8750.0 / (7.2e10 / (dilution * (caf - setpoint) / setpoint)).ln()
        }
        fn wide(obs: &[f32]) -> Vec<f64> {
            obs.iter().map(|x| f64::from(*x)).collect()
        }
        fn vent(obs: &[f64]) -> f64 {
            0.3 * (obs[1] - 4.0)
        }
        let proportional: Law = |_, _, obs| {
            let obs = wide(obs);
            [(target(&obs) - obs[0]) / 15.0, 0.0, vent(&obs)]
        };
        let with_integral: Law = |memory, _, obs| {
            let obs = wide(obs);
            let error = target(&obs) - obs[0];
            memory[0] += 0.1 * error;
            [(3.0 * error + 0.5 * memory[0]) / 15.0, 0.0, vent(&obs)]
        };
        let expert: Law = |memory, step, obs| {
            let obs = wide(obs);
            let (dilution, tf, caf, setpoint) = (obs[5] / 100.0, obs[7], obs[8], obs[9]);
            let wanted = target(&obs);
            let from = if step == 0 { obs[0] } else { memory[0] };
            memory[0] = from + (wanted - from).clamp(-0.5, 0.5);
            let reference = memory[0];
            let heat = dilution * (tf - reference) + 209.205 * dilution * (caf - setpoint);
            let steady = reference - heat / 2.09205;
            [(steady - 300.0 + 3.0 * (reference - obs[0])) / 15.0, 0.0, vent(&obs)]
        };
        // Mean, standard deviation and share of shut-downs by temperature and by pressure.
        let table: [(&str, Option<Law>, f64, f64, f64, f64); 7] = [
            ("random", None, 23.0, 81.0, 0.53, 0.0),
            ("zero", Some(|_, _, _| [0.0; 3]), 108.3, 8.7, 0.0, 0.0),
            ("hot", Some(|_, _, _| [1.0, 0.0, 0.0]), -97.7, 0.4, 1.0, 0.0),
            ("closed", Some(|_, _, _| [0.0, 0.0, -1.0]), -102.3, 1.6, 0.0, 1.0),
            ("proportional", Some(proportional), 288.0, 51.0, 0.05, 0.0),
            ("with integral", Some(with_integral), 420.0, 64.0, 0.04, 0.0),
            ("expert", Some(expert), 427.9, 6.6, 0.0, 0.0),
        ];
        let mut faults = vec![];
        for (name, law, mean, sd, hot, burst) in table {
            let (mut sum, mut squares, mut trips) = (0.0, 0.0, [0.0; 2]);
            for seed in 0..EPISODES {
                let mut probe = seeded(ChemicalReactor::default(), &[], seed, Precision::F32);
                let (mut memory, mut total) = ([0.0; 2], 0.0);
                for step in 0..500 {
                    let action = match law {
                        Some(law) => law(&mut memory, step, &probe.observation()).to_vec(),
                        None => probe.random_action(step as u64),
                    };
                    let reward = probe.step(&action).unwrap().reward;
                    let obs = probe.observation();
                    let broken = [obs[0] > 373.15, obs[1] > 10.0];
                    if broken.contains(&true) {
                        total -= 100.0;
                        trips[0] += f64::from(u8::from(broken[0]));
                        trips[1] += f64::from(u8::from(broken[1]));
                        break;
                    }
                    total += reward - f64::from(u8::from(obs[0] > 365.0)) - f64::from(u8::from(obs[1] > 8.0));
                }
                sum += total;
                squares += total * total;
            }
            let episodes = EPISODES as f64;
            let (found, shares) = (sum / episodes, trips.map(|count| count / episodes));
            let found_sd = (squares / episodes - found * found).sqrt();
            // Both sides are samples of 300 episodes, and the reference is rounded.
            let allowed = 4.0 * sd * (2.0 / episodes).sqrt() + 0.5;
            let share = |p: f64| 4.0 * (p * (1.0 - p) * 2.0 / episodes).sqrt() + 0.005;
            let line = format!(
                "{name}: {found:.1} ± {found_sd:.1}, trips {shares:?} instead of {mean} ± {sd}, {hot}, {burst}"
            );
            println!("{line}");
            if (found - mean).abs() > allowed
                || (shares[0] - hot).abs() > share(hot)
                || (shares[1] - burst).abs() > share(burst)
            {
                faults.push(line);
            }
        }
        assert!(faults.is_empty(), "{faults:#?}");
    }
}
