//! `ccasr-gfp-control`: hold the fluorescence of a cell at a target by switching a light.
//!
//! Source: the task of that name in Myriad; the circuit is that of `ccasr.rs`. The state has the counts
//! of H (hidden) and F and the light U of the last step. The target is constant or
//!
//! ```text
//! target(t) = vshift + amplitude sin(2π t dt / period + phase)
//! observation = [F, target(t), ..., target(t + n_horizon)] / F_obs_normalizer,    reward = −|F − target(t)|
//! ```
//!
//! where t counts steps and everything is taken after the step. The default target, 25, lies where the
//! rate equation has no stable state.
//!
//! Deviations from the published code, all of them repairs: after a change of the light the clock starts
//! anew at the step's beginning, not at the last reaction; the reward looks at the target of the same
//! instant, not of the one before; an unknown `target_type` is an error; `sinewave_random_phase` works;
//! an interval with too many reactions is counted instead of passed over.

use std::f64::consts::TAU;

use phalanx_core::batch::{self, Batch, BatchConfig};
use phalanx_core::env::{Discrete, LaneEnv, Step};
use phalanx_core::lanes::{Mask, Real};
use phalanx_core::probe::{self, Precision, Probe};
use phalanx_core::rng::Draws;
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace, OptionInfo};
use phalanx_core::{Result, lane_params, lane_struct};

use super::ccasr::circuit;
use super::{COUNTERS, Ccasr, ClockOptions, check_counts};
use crate::reaction::{Clock, ClockRule};

/// The environment and its options; observations have `OBS` = `n_horizon` + 2 components.
#[derive(Clone, Debug, Default)]
pub struct CcasrGfpControl<const OBS: usize> {
    sinewave: bool,
    random_phase: bool,
    clock: ClockOptions,
}

lane_struct! {
    /// The cell, its clock and its target.
    pub struct State<R> {
        H: R,
        F: R,
        U: R,
        F_target: R,
        /// Steps made.
        t: R,
        /// Of the sine, in turns.
        phase: R,
        wait: R,
        total: R,
        fired: R::Uint,
        reactions: R::Uint,
        capped: R::Uint,
    }
}

lane_params! {
    /// Constants of the circuit and of the task.
    pub struct Params {
        nu = 0.01, 0.0 => 1e3, "loss rate of H and F, 1/min";
        Kh = 90.0, 1e-3 => 1e6, "count of H at which it makes F at half the largest rate";
        nh = 3.6, 1e-2 => 1e2, "Hill exponent of H";
        Kf = 30.0, 1e-3 => 1e6, "count of F at which it makes F at half the largest rate";
        nf = 3.6, 1e-2 => 1e2, "Hill exponent of F";
        eta = 1.0, 0.0 => 1e3, "rate at which light makes H, 1/min";
        a = 1.0, 0.0 => 1e3, "strength of H in making F";
        F_target_constant = 25.0, 0.0 => 1e6, "constant target of F";
        sinewave_period_minutes = 600.0, 1e-3 => 1e9, "period of a sine target, min";
        sinewave_amplitude = 20.0, 0.0 => 1e6, "amplitude of a sine target";
        sinewave_vshift = 30.0, -1e6 => 1e6, "mean of a sine target";
        F_obs_normalizer = 80.0, 1e-3 => 1e6, "what observed F and targets are divided by";
        timestep_minutes = 5.0, 1e-6 => 1e4, "time between two steps, min";
    }
}

/// Names of what is seen, for the largest horizon.
const OBSERVATION_NAMES: &[&str] =
    &["F_normalized", "F_target", "F_target_1", "F_target_2", "F_target_3", "F_target_4"];
/// The horizons there are. Each is a type of its own, which takes its time to compile, so they are few.
const HORIZONS: &[&str] = &["0", "1", "4"];

impl<const OBS: usize> CcasrGfpControl<OBS> {
    const HORIZON: &'static str = match OBS {
        2 => HORIZONS[0],
        3 => HORIZONS[1],
        6 => HORIZONS[2],
        _ => panic!("no such horizon"),
    };

    #[inline(always)]
    fn target<R: Real>(&self, params: &Params<R>, t: R, phase: R) -> R {
        if !self.sinewave {
            return params.F_target_constant;
        }
        let turns = t * params.timestep_minutes / params.sinewave_period_minutes + phase;
        // Whole turns off first: the angle then has the precision of a fraction.
        let angle = (turns - turns.floor()) * R::splat(TAU);
        params.sinewave_amplitude.mul_add(angle.sin(), params.sinewave_vshift)
    }
}

impl<const OBS: usize> LaneEnv for CcasrGfpControl<OBS> {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = Discrete<R>;
    type Obs<R: Real> = [R; OBS];

    const LONG_EPISODES: bool = true;

    fn spec(&self) -> EnvSpec {
        let unbounded = [f32::INFINITY; OBS];
        let mut low = unbounded.map(|bound| -bound);
        low[0] = 0.0;
        let mut options = vec![
            OptionInfo::choice(
                "target_type",
                if self.sinewave { "sinewave" } else { "constant" },
                &["constant", "sinewave"],
                "whether the target of F is constant or a sine in time",
            ),
            OptionInfo::flag(
                "sinewave_random_phase",
                self.random_phase,
                "every episode draws the phase of the sine instead of starting with 0",
            ),
            OptionInfo::choice("n_horizon", Self::HORIZON, HORIZONS, "how many future targets are observed"),
        ];
        options.extend(self.clock.info());
        EnvSpec {
            options,
            dt: Some(5.0),
            dt_param: Some("timestep_minutes"),
            counters: COUNTERS,
            ..EnvSpec::of::<Self>(
                "ccasr-gfp-control",
                "hold the fluorescence F of a cell at a target by switching a light off (0) or on (1)",
                ObservationSpace::vector(&OBSERVATION_NAMES[..OBS], low.to_vec(), unbounded.to_vec()),
                ActionSpace::Discrete { n: 2 },
                288,
            )
        }
    }

    fn set_option(&mut self, name: &str, value: &str) {
        match name {
            "target_type" => self.sinewave = value == "sinewave",
            "sinewave_random_phase" => self.random_phase = value == "true",
            "n_horizon" => assert_eq!(value, Self::HORIZON, "the horizon is part of the type"),
            _ => self.clock.set(name, value),
        }
    }

    fn check_state(&self, state: &State<f64>) -> Result<(), String> {
        check_counts(&[("H", state.H), ("F", state.F)])
    }

    #[inline(always)]
    fn reset<R: Real>(&self, params: &Params<R>, draws: &mut Draws<R>) -> State<R> {
        let zero = R::splat(0.0);
        let phase = if self.random_phase { draws.unit() } else { zero };
        let Clock { wait, total, fired, reactions, capped } = Clock::new();
        let F_target = self.target(params, zero, phase);
        State { H: zero, F: zero, U: zero, F_target, t: zero, phase, wait, total, fired, reactions, capped }
    }

    #[inline(always)]
    fn step<R: Real>(
        &self,
        params: &Params<R>,
        state: &State<R>,
        action: Discrete<R>,
        draws: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        let State { H, F, U: previous, phase, wait, total, fired, reactions, capped, .. } = *state;
        let U = action.to_real();
        let ([H, F], clock) = interval(
            circuit!(params, U),
            [H, F],
            Clock { wait, total, fired, reactions, capped },
            !U.eq(previous),
            params.timestep_minutes,
            self.clock.0,
            *draws,
        );
        let Clock { wait, total, fired, reactions, capped } = clock;
        let t = state.t + R::splat(1.0);
        let F_target = self.target(params, t, phase);
        Step {
            state: State { H, F, U, F_target, t, phase, wait, total, fired, reactions, capped },
            reward: -(F - F_target).abs(),
            terminated: R::Mask::splat(false),
        }
    }

    #[inline(always)]
    fn observe<R: Real>(&self, params: &Params<R>, state: &State<R>) -> [R; OBS] {
        let scale = params.F_obs_normalizer;
        std::array::from_fn(|i| match i {
            0 => state.F / scale,
            1 => state.F_target / scale,
            _ => self.target(params, state.t + R::splat((i - 1) as f64), state.phase) / scale,
        })
    }

    const COUNTS: bool = true;

    #[inline(always)]
    fn counts<R: Real>(&self, state: &State<R>) -> [R::Uint; 2] {
        [state.reactions, state.capped]
    }
}

/// One control interval of the circuit. Out of line and by value: it takes a hundred times as long as a
/// call, and every kind of roll-out and every horizon can share it.
#[inline(never)]
pub(super) fn interval<R: Real>(
    circuit: Ccasr<R>,
    counts: [R; 2],
    clock: Clock<R>,
    changed: R::Mask,
    duration: R,
    rule: ClockRule,
    draws: Draws<R>,
) -> ([R; 2], Clock<R>) {
    clock.run(&circuit, counts, changed, duration, rule, draws)
}

/// Calls `$make` with the environment whose type has the horizon that the settings ask for.
macro_rules! with_horizon {
    ($settings:expr, $make:expr) => {{
        let asked = $settings.iter().find(|(name, _)| name == "n_horizon").map(|(_, value)| value.as_str());
        match asked {
            Some("0") => $make(CcasrGfpControl::<2>::default()),
            Some("4") => $make(CcasrGfpControl::<6>::default()),
            // The default, and whatever is not a horizon and will be refused.
            _ => $make(CcasrGfpControl::<3>::default()),
        }
    }};
}

/// A batch, with the horizon of its settings.
#[cfg_attr(test, allow(dead_code, reason = "the unit tests have no registry"))]
pub(crate) fn batch(config: &BatchConfig) -> Result<Box<dyn Batch>> {
    with_horizon!(config.settings, |env| batch::build(env, config))
}

/// A probe, with the horizon of its settings.
#[cfg_attr(test, allow(dead_code, reason = "the unit tests have no registry"))]
pub(crate) fn probe(config: &BatchConfig, precision: Precision) -> Result<Box<dyn Probe>> {
    with_horizon!(config.settings, |env| probe::probe(env, config, precision))
}
