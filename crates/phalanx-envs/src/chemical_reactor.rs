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
//! The state holds `T - 350 K` and `Tc - 300 K`, sub-steps the change since the start of the step: a
//! single-precision temperature has a resolution of 3e-5 K, and a passage along the ignition fold multiplies a
//! difference by hundreds.
//!
//! Penalties and termination are the engine's safety layer's. Where violations end the episode, a lane stands
//! still from the first sub-step that breaks a hard limit of temperature or pressure, so that the state which ends an episode is the one
//! that broke it.

use phalanx_core::env::{LaneEnv, Step, check_order};
use phalanx_core::lanes::{Mask, Real, Uint};
use phalanx_core::rng::Draws;
use phalanx_core::safety::{Constraint, SafetyMode};
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace, OptionInfo};
use phalanx_core::{lane_params, lane_struct};

use crate::limits::{normalized_constraints, safe_range, scaled};
use crate::rk4::{along, six_rates};

/// Sub-steps of a step.
const SUB_STEPS: usize = 10;
/// The temperature is kept as a difference to this one, K.
const REFERENCE_TEMPERATURE: f64 = 350.0;
/// That of the jacket to this one, K.
const REFERENCE_JACKET: f64 = 300.0;
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
    /// Temperatures and pressures within which a step goes on to its end.
    trips: Option<Trips>,
}

/// What ends an episode, in K and bar.
#[derive(Clone, Copy, Debug)]
struct Trips {
    temperature: [f64; 2],
    pressure: [f64; 2],
}

impl Default for ChemicalReactor {
    fn default() -> Self {
        Self { disturbances: true, normalize_obs: false, trips: None }
    }
}

lane_struct! {
    /// The reactor, its feed and its task.
    pub struct State<R> {
        /// mol/L
        ca: R,
        /// mol/L
        cb: R,
        /// T - 350 K
        theta: R,
        /// mol of gas in the head space
        gas: R,
        /// Jacket temperature Tc - 300 K
        jacket: R,
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
        volume = 100.0, 10.0 => 1e5, "volume of the liquid, L";
        density = 1000.0, 50.0 => 1e5, "density of the liquid, g/L";
        heat_capacity = 0.239, 0.01 => 1e2, "heat capacity of the liquid, J/(g K)";
        reaction_heat = 5e4, 0.0 => 1e6, "heat set free by the reaction, J/mol";
        activation = 8750.0, 0.0 => 2e4, "activation temperature E/R, K";
        k0 = 7.2e10, 1e-3 => 1e20, "frequency factor of the reaction, 1/min";
        heat_transfer = 5e4, 0.0 => 1e6, "heat transfer to the jacket UA, J/(min K)";
        feed_temperature = 350.0, 200.0 => 500.0, "mean temperature of the feed, K";
        feed_concentration = 1.0, 0.0 => 100.0, "mean concentration of the feed, mol/L";
        gas_yield = 0.1, 0.0 => 10.0, "gas set free by the reaction, mol/mol";
        valve = 2.0, 0.0 => 1e3, "flow through the open vent, mol/(min bar)";
        headspace = 50.0, 1.0 => 1e5, "volume of the gas, L";
        lag = 0.1, 1e-3 => 1e3, "time constant of the actuators, min";
        coolant_centre = 300.0, 200.0 => 400.0, "jacket temperature of action 0, K";
        coolant_range = 15.0, 0.0 => 100.0, "change of the jacket temperature for action 1, K";
        flow_centre = 100.0, 0.0 => 5e3, "feed of action 0, L/min";
        flow_range = 20.0, 0.0 => 5e3, "change of the feed for action 1, L/min";
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
/// RK4 integrates `CA`, the change `w` of `tau = T/(E/2R)` since the start of the step, which single precision
/// resolves better than the value, and the root of the reaction's speed,
///
/// ```text
/// kappa = k^(1/2)        kappa' = kappa tau'/tau²
/// ```
///
/// so that a rate is a polynomial; `kappa` starts each step from its exact value. The root grows slowly enough
/// that RK4 follows it well. `1/tau²`, which changes by some per cent in the fastest sub-step, is taken from
/// its tangent in the middle of a sub-step. With an exponential and a quotient in each of the forty rates of a
/// step, each waiting for the one before, a step takes twice the time.
///
/// The gas, which the others do not depend on, needs minutes to leave: its outflow in a sub-step is that of the
/// middle, its inflow what RK4 says has reacted. Up to a trip the error of all this is below 2e-5 of the value.
struct Core<R> {
    /// L/mol
    heat_rise: R,
    /// 1/min
    cooling: R,
    /// No more than all of A can react in a sub-step. Without this limit, which matters above 429 K, RK4
    /// leaves all bounds when a reactor that nobody stops has ignited; with it CA stays positive.
    fastest: R,
    /// tau at the start of the step
    start_tau: R,
    /// At the start of the step, bar/mol
    start_pressure_per_mol: R,
    caf: R,
    /// mol/mol times L
    gas_yield: R,
    /// bar/mol
    gas_factor: R,
    // The actuators at the node with `decay`, the part of their way still to go, are `x_0 + x_1 decay`:
    /// q/V, 1/min
    dilution: [R; 2],
    /// q/V (Tf - T) + cooling (Tc - T) for T at the start of the step, 1/min
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
}

/// The line `y_0 + y_1 x` at `x`.
#[inline(always)]
fn on_line<R: Real>([start, slope]: [R; 2], x: R) -> R {
    slope.mul_add(x, start)
}

impl<R: Real> Core<R> {
    #[inline(always)]
    fn node(&self, decay: R) -> Node<R> {
        let dilution = on_line(self.dilution, decay);
        Node { dilution, heating: on_line(self.heating, decay), loss: -self.cooling - dilution }
    }

    /// The pressure above that of the atmosphere.
    #[inline(always)]
    fn overpressure(&self, warmer: R, gas: R) -> R {
        let pressure_per_mol = self.gas_factor.mul_add(warmer, self.start_pressure_per_mol);
        pressure_per_mol.mul_add(gas, R::splat(-ATMOSPHERE))
    }

    /// The tangent of `1/tau²` at `warmer`, as a function of `w`.
    #[inline(always)]
    fn per_tau_squared(&self, warmer: R) -> [R; 2] {
        let per_tau = R::splat(1.0) / (self.start_tau + warmer);
        let value = per_tau * per_tau;
        let slope = R::splat(-2.0) * value * per_tau;
        [(-slope).mul_add(warmer, value), slope]
    }

    /// The rates of `CA`, `tau`, `kappa`, and of what has reacted.
    #[inline(always)]
    fn rate(&self, node: Node<R>, per_tau_squared: [R; 2], [ca, warmer, kappa, _]: [R; 4]) -> [R; 4] {
        let reaction = (kappa * kappa).min(self.fastest) * ca;
        // From one kappa to the next leads the longest chain of operations, each waiting for the one before:
        // what can be multiplied beside it is.
        let kappa_per_tau = kappa * on_line(per_tau_squared, warmer);
        let warming = self.heat_rise.mul_add(reaction, node.loss.mul_add(warmer, node.heating));
        [node.dilution.mul_add(self.caf - ca, -reaction), warming, kappa_per_tau * warming, reaction]
    }
}

/// Bounds on temperature and pressure.
struct Window<R> {
    temperature: [R; 2],
    pressure: [R; 2],
}

impl<R: Real> Window<R> {
    /// Where both are within the bounds.
    #[inline(always)]
    fn contain(&self, temperature: R, pressure: R) -> R::Mask {
        let inside = |x: R, [low, high]: [R; 2]| x.ge(low) & x.le(high);
        inside(temperature, self.temperature) & inside(pressure, self.pressure)
    }
}

impl Trips {
    /// Where what is seen does not end the episode.
    #[inline(always)]
    fn contain<R: Real>(&self, temperature: R, pressure: R) -> R::Mask {
        let window = Window { temperature: self.temperature.map(R::splat), pressure: self.pressure.map(R::splat) };
        window.contain(temperature, pressure)
    }

    /// Changes of `tau` since a step began at `theta`, and pressures above the atmosphere's, that are so far
    /// from ending the episode that no rounding matters.
    #[inline(always)]
    fn clear<R: Real>(&self, theta: R, per_unit: R) -> Window<R> {
        // Some dozen roundings of 6e-8 of the value.
        let margin = |bound: f64| if bound.is_finite() { 1e-5 * bound.abs().max(1.0) } else { 0.0 };
        let narrowed = |[low, high]: [f64; 2]| [low + margin(low), high - margin(high)];
        let change = |bound: f64| (R::splat(bound - REFERENCE_TEMPERATURE) - theta) * per_unit;
        Window {
            temperature: narrowed(self.temperature).map(change),
            pressure: narrowed(self.pressure).map(|bound| R::splat(bound - ATMOSPHERE)),
        }
    }
}

impl<R: Real> Params<R> {
    /// P/(n T), bar/(mol K).
    #[inline(always)]
    fn gas_factor(&self) -> R {
        R::splat(GAS_CONSTANT) / self.headspace
    }

    /// Temperature in K and pressure in bar, as they are seen.
    #[inline(always)]
    fn conditions(&self, theta: R, gas: R) -> (R, R) {
        let temperature = theta + R::splat(REFERENCE_TEMPERATURE);
        (temperature, (temperature * self.gas_factor()) * gas)
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
    /// What the observation must satisfy for safe operation.
    fn constraints(&self) -> Vec<Constraint> {
        let ([cold, hot], [vacuum, burst]) = (TEMPERATURE_TRIP, PRESSURE_TRIP);
        let constraints = vec![
            Constraint::hard("temperature_trip", "temperature", cold, hot),
            Constraint::hard("pressure_trip", "pressure", vacuum, burst),
            Constraint::soft("temperature_alarm", "temperature", f64::NEG_INFINITY, 365.0),
            Constraint::soft("pressure_alarm", "pressure", f64::NEG_INFINITY, 8.0),
        ];
        if self.normalize_obs {
            return normalized_constraints(constraints, OBSERVATION_NAMES, &NORMAL_RANGE);
        }
        constraints
    }
}

impl LaneEnv for ChemicalReactor {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = [R; 3];
    type Obs<R: Real> = [R; 12];
    const LONG_EPISODES: bool = true;

    fn spec(&self) -> EnvSpec {
        let inf = f32::INFINITY;
        // Of whatever parameters are allowed: those of a batch may differ.
        let low = [0.0, 0.0, 0.0, 0.0, 100.0, 0.0, 0.0, 0.0, -inf, 0.0, -inf, 0.0];
        let high = [inf, inf, inf, inf, 500.0, 1e4, 1.0, inf, inf, inf, inf, 1.0];
        let bounds = |bounds: [f32; 12]| match self.normalize_obs {
            true => bounds.iter().zip(NORMAL_RANGE).map(|(x, range)| scaled(f64::from(*x), range) as f32).collect(),
            false => bounds.to_vec(),
        };
        EnvSpec {
            options: vec![
                OptionInfo::flag(
                    "disturbances",
                    self.disturbances,
                    "whether temperature and concentration of the feed drift",
                ),
                OptionInfo::flag(
                    "normalize_obs",
                    self.normalize_obs,
                    "observations (and the signals of constraints) scaled to about [-1, 1] instead of K, bar, mol/L",
                ),
            ],
            dt: Some(0.1),
            dt_param: Some("dt"),
            constraints: self.constraints(),
            ..EnvSpec::of::<Self>(
                "ChemicalReactor-v0",
                "hold the concentration of an exothermic stirred tank reactor, CSTR, near its ignition with jacket \
                 temperature, feed and vent",
                ObservationSpace::vector(OBSERVATION_NAMES, bounds(low), bounds(high)),
                ActionSpace::Box { low: vec![-1.0; 3], high: vec![1.0; 3] },
                500,
            )
        }
    }

    fn set_safety(&mut self, mode: SafetyMode, constraints: &[Constraint]) {
        let within = |signal, range| safe_range(mode, constraints, signal, self.normalize_obs.then_some(range));
        self.trips = (mode == SafetyMode::Enforce).then(|| Trips {
            temperature: within("temperature", NORMAL_RANGE[0]),
            pressure: within("pressure", NORMAL_RANGE[1]),
        });
    }

    fn set_option(&mut self, name: &str, value: &str) {
        let chosen = value == "true";
        match name {
            "disturbances" => self.disturbances = chosen,
            "normalize_obs" => self.normalize_obs = chosen,
            _ => unreachable!("no option {name} in the spec"),
        }
    }

    fn check_params(&self, params: &Params<f64>) -> Result<(), String> {
        check_order("setpoint_low", params.setpoint_low, "setpoint_high", params.setpoint_high)?;
        // A feed cannot flow backwards.
        check_order("flow_range", params.flow_range, "flow_centre", params.flow_centre)
    }

    #[inline(always)]
    fn reset<R: Real>(&self, p: &Params<R>, draws: &mut Draws<R>) -> State<R> {
        let mut around = |centre: R, spread: R| draws.uniform(centre - spread, centre + spread);
        let ca = around(p.start_ca, p.start_ca_spread);
        let theta = around(p.start_temperature - R::splat(REFERENCE_TEMPERATURE), p.start_temperature_spread);
        let zero = R::splat(0.0);
        State {
            ca,
            cb: (p.feed_concentration - ca).max(zero),
            theta,
            gas: p.start_pressure / p.conditions(theta, R::splat(1.0)).1,
            jacket: p.coolant_centre - R::splat(REFERENCE_JACKET),
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
        let [a0, a1, a2] = action.map(|a| a.clamp(-one, one));
        let jacket_command = p.coolant_range.mul_add(a0, p.coolant_centre - R::splat(REFERENCE_JACKET));
        let q_command = p.flow_range.mul_add(a1, p.flow_centre);
        let v_command = a2.mul_add(R::splat(0.5), R::splat(0.5));

        // How far the actuators are from their commands; it shrinks by the same factor for all.
        let (jacket_way, q_way, v_way) = (state.jacket - jacket_command, state.q - q_command, state.v - v_command);
        let sub_step = p.dt * R::splat(1.0 / SUB_STEPS as f64);
        let per_volume = one / p.volume;
        let per_heat = one / (p.density * p.heat_capacity);
        let cooling = p.heat_transfer * per_volume * per_heat;
        let dilution = [q_command * per_volume, q_way * per_volume];
        let feed_heat = state.tf - R::splat(REFERENCE_TEMPERATURE) - state.theta;
        let jacket_heat = jacket_command - R::splat(REFERENCE_TEMPERATURE - REFERENCE_JACKET) - state.theta;
        // A reaction that does not depend on temperature has no such unit: then one in which it hardly does.
        let unit = (p.activation * R::splat(0.5)).max(R::splat(1e-3));
        let per_unit = one / unit;
        let (temperature_before, start_pressure_per_mol) = p.conditions(state.theta, one);
        let core = Core {
            heat_rise: p.reaction_heat * per_heat * per_unit,
            cooling,
            fastest: one / sub_step,
            start_tau: temperature_before * per_unit,
            start_pressure_per_mol,
            caf: state.caf,
            gas_yield: p.gas_yield * p.volume,
            gas_factor: p.gas_factor() * unit,
            dilution,
            heating: [
                dilution[0].mul_add(feed_heat, cooling * jacket_heat) * per_unit,
                dilution[1].mul_add(feed_heat, cooling * jacket_way) * per_unit,
            ],
            vent: [v_command, v_way].map(|v| -p.valve * v),
        };

        // k at 350 K times the rest: a difference of two large logarithms would lose six bits.
        let exponent = p.activation * R::splat(1.0 / REFERENCE_TEMPERATURE);
        let k = p.k0 * (-exponent).exp() * (exponent * state.theta / temperature_before).exp();
        let half = sub_step * R::splat(0.5);
        let half_decay = (-half / p.lag).exp();
        let clear = self.trips.map(|trips| trips.clear(state.theta, per_unit));

        let mut x = [state.ca, zero, k.sqrt(), zero];
        let mut gas = state.gas;
        let mut overpressure = core.overpressure(zero, gas);
        // Added up by itself: a sum of changes is rounded less than a value that changes.
        let mut ca_change = zero;
        let mut running = R::Mask::splat(true);
        let mut all_run = true;
        let (mut elapsed, mut decay) = (zero, one);
        let mut node = core.node(decay);
        let [_, warming, _, mut reaction] = core.rate(node, [zero; 2], x);
        let mut middle_warmth = warming * half;
        for _ in 0..SUB_STEPS {
            // A lane that stands still takes steps of no length. A branch, because it is rare.
            let (h, factor) = if all_run {
                (sub_step, half_decay)
            } else {
                (sub_step.keep(running), R::select(running, half_decay, one))
            };
            let middle_decay = decay * factor;
            decay = middle_decay * factor;
            let end = core.node(decay);
            let nodes = [node, core.node(middle_decay), end];
            let half = h * R::splat(0.5);
            let sixth = h * R::splat(1.0 / 6.0);

            let per_tau_squared = core.per_tau_squared(middle_warmth);
            let (rates, last) = six_rates(x, h, |half, x| core.rate(nodes[half], per_tau_squared, x));
            x = along(x, sixth, rates);
            ca_change = rates[0].mul_add(sixth, ca_change);

            let vent = on_line(core.vent, middle_decay);
            // What has come after half of the time: between the inflow at the start and the mean one.
            let inflow = core.gas_yield * rates[3];
            let early = core.gas_yield.mul_add(reaction, inflow * R::splat(1.0 / 6.0)) * R::splat(0.5);
            let half_way = vent.mul_add(overpressure.max(zero), early).mul_add(half, gas);
            let outflow = vent * core.overpressure(middle_warmth, half_way).max(zero);
            gas = outflow.mul_add(h, inflow.mul_add(sixth, gas));
            overpressure = core.overpressure(x[1], gas);
            middle_warmth = last[1].mul_add(half, x[1]);
            reaction = last[3];
            node = end;
            elapsed = elapsed + h;
            // The exact question only where a quick one leaves doubt: it is about what will be seen, to the bit.
            if let (Some(trips), Some(clear)) = (&self.trips, &clear)
                && !clear.contain(x[1], overpressure).all()
            {
                let (temperature, pressure) = p.conditions(unit.mul_add(x[1], state.theta), gas);
                running = running & trips.contain(temperature, pressure);
                all_run = running.all();
            }
        }
        let warmer = x[1];
        let (ca, theta) = (state.ca + ca_change, unit.mul_add(warmer, state.theta));

        // CA + CB approaches CAf as water in a stirred tank would.
        let exchanged = dilution[0].mul_add(elapsed, dilution[1] * p.lag * (one - decay));
        let missing = (state.caf - state.ca - state.cb) * (-exchanged).exp();
        let cb = state.caf - missing - ca;
        let jacket = jacket_way.mul_add(decay, jacket_command);
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
            theta,
            gas,
            jacket,
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
        let (temperature, pressure) = p.conditions(state.theta, state.gas);
        let obs = [
            temperature,
            pressure,
            state.ca,
            state.cb,
            state.jacket + R::splat(REFERENCE_JACKET),
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
    let radius = (R::splat(-2.0) * draws.unit_above_zero().ln_normal()).sqrt();
    let (sin, cos) = (draws.unit() * R::splat(std::f64::consts::TAU)).sin_cos();
    (radius * cos, radius * sin)
}

#[cfg(test)]
mod tests;
