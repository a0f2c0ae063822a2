//! `ccasr-gfp-sysid`: learn the parameters of a cell from how its fluorescence answers to light.
//!
//! Source: the task of that name in Myriad. Physics and actions are those of `ccasr-gfp-control`; the
//! observation is F / F_obs_normalizer, the reward always 0. The unknown parameters belong to the
//! environment and stay over all its episodes.

use phalanx_core::env::{Discrete, LaneEnv, Step};
use phalanx_core::lanes::{Mask, Real};
use phalanx_core::rng::Draws;
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace};
use phalanx_core::{lane_params, lane_struct};

use super::ccasr::circuit;
use super::ccasr_gfp_control::interval;
use super::{COUNTERS, ClockOptions, check_counts};
use crate::reaction::Clock;

/// The environment and its options.
#[derive(Clone, Debug, Default)]
pub struct CcasrGfpSysid {
    clock: ClockOptions,
}

lane_struct! {
    /// The cell and its clock.
    pub struct State<R> {
        H: R,
        F: R,
        U: R,
        wait: R,
        total: R,
        fired: R::Uint,
        reactions: R::Uint,
        capped: R::Uint,
    }
}

lane_params! {
    /// Constants of the circuit.
    pub struct Params {
        nu = 0.01, 0.0 => 1e3, "loss rate of H and F, 1/min";
        Kh = 90.0, 1e-3 => 1e6, "count of H at which it makes F at half the largest rate";
        nh = 3.6, 1e-2 => 1e2, "Hill exponent of H";
        Kf = 30.0, 1e-3 => 1e6, "count of F at which it makes F at half the largest rate";
        nf = 3.6, 1e-2 => 1e2, "Hill exponent of F";
        eta = 1.0, 0.0 => 1e3, "rate at which light makes H, 1/min";
        a = 1.0, 0.0 => 1e3, "strength of H in making F";
        F_obs_normalizer = 80.0, 1e-3 => 1e6, "what observed F is divided by";
        timestep_minutes = 5.0, 1e-6 => 1e4, "time between two steps, min";
    }
}

impl LaneEnv for CcasrGfpSysid {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = Discrete<R>;
    type Obs<R: Real> = [R; 1];

    const LONG_EPISODES: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            options: self.clock.info().to_vec(),
            dt: Some(5.0),
            dt_param: Some("timestep_minutes"),
            counters: COUNTERS,
            ..EnvSpec::of::<Self>(
                "ccasr-gfp-sysid",
                "learn a cell's parameters from its fluorescence F under a light, off (0) or on (1)",
                ObservationSpace::vector(&["F_normalized"], vec![0.0], vec![f32::INFINITY]),
                ActionSpace::Discrete { n: 2 },
                288,
            )
        }
    }

    fn set_option(&mut self, name: &str, value: &str) {
        self.clock.set(name, value);
    }

    fn check_state(&self, state: &State<f64>) -> Result<(), String> {
        check_counts(&[("H", state.H), ("F", state.F)])
    }

    #[inline(always)]
    fn reset<R: Real>(&self, _: &Params<R>, _: &mut Draws<R>) -> State<R> {
        let zero = R::splat(0.0);
        let Clock { wait, total, fired, reactions, capped } = Clock::new();
        State { H: zero, F: zero, U: zero, wait, total, fired, reactions, capped }
    }

    #[inline(always)]
    fn step<R: Real>(
        &self,
        params: &Params<R>,
        state: &State<R>,
        action: Discrete<R>,
        draws: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        let State { H, F, U: previous, wait, total, fired, reactions, capped } = *state;
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
        Step {
            state: State { H, F, U, wait, total, fired, reactions, capped },
            reward: R::splat(0.0),
            terminated: R::Mask::splat(false),
        }
    }

    #[inline(always)]
    fn observe<R: Real>(&self, params: &Params<R>, state: &State<R>) -> [R; 1] {
        [state.F / params.F_obs_normalizer]
    }

    const COUNTS: bool = true;

    #[inline(always)]
    fn counts<R: Real>(&self, state: &State<R>) -> [R::Uint; 2] {
        [state.reactions, state.capped]
    }
}
