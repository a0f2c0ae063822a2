//! `opto-hill-1d-sysid`: learn the parameters of a gene that a light of any strength switches.
//!
//! Source: the task of that name in Myriad. One species X, light U in [0, 1]:
//!
//! ```text
//! made with propensity k_prod hill(U, K, n),   lost with propensity k_deg X      (1/min)
//! ```
//!
//! The observation is X / X_obs_normalizer, the reward always 0. Deviations from the published code: the
//! action is a vector of one component, and is clipped to its bounds.

use phalanx_core::env::{LaneEnv, Step};
use phalanx_core::lanes::{Mask, Real};
use phalanx_core::rng::Draws;
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace};
use phalanx_core::{lane_params, lane_struct};

use super::{COUNTERS, ClockOptions, check_counts};
use crate::reaction::{Clock, ClockRule, Network};

/// The environment and its options.
#[derive(Clone, Debug, Default)]
pub struct OptoHillSysid {
    clock: ClockOptions,
}

lane_struct! {
    /// The cell and its clock.
    pub struct State<R> {
        X: R,
        U: R,
        wait: R,
        total: R,
        fired: R::Uint,
        reactions: R::Uint,
        capped: R::Uint,
    }
}

lane_params! {
    /// Constants of the gene.
    pub struct Params {
        k_prod = 5.0, 0.0 => 1e4, "largest rate at which X is made, 1/min";
        K = 0.5, 1e-3 => 1e3, "light at which X is made at half this rate";
        n = 2.0, 1e-2 => 1e2, "Hill exponent of the light";
        k_deg = 0.05, 0.0 => 1e3, "loss rate of X, 1/min";
        X_obs_normalizer = 100.0, 1e-3 => 1e6, "what observed X is divided by";
        timestep_minutes = 5.0, 1e-6 => 1e4, "time between two steps, min";
    }
}

/// The gene under one light.
#[derive(Clone, Copy, Debug)]
pub struct OptoHill<R: Real> {
    /// Rate at which X is made.
    pub made: R,
    /// Loss rate of X.
    pub k_deg: R,
}

impl<R: Real> Network<R, 1, 2> for OptoHill<R> {
    const CHANGES: [[i32; 1]; 2] = [[1], [-1]];

    #[inline(always)]
    fn propensities(&self, [x]: &[R; 1]) -> [R; 2] {
        [self.made, self.k_deg * *x]
    }
}

impl LaneEnv for OptoHillSysid {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = [R; 1];
    type Obs<R: Real> = [R; 1];

    const LONG_EPISODES: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            options: self.clock.info().to_vec(),
            dt: Some(5.0),
            dt_param: Some("timestep_minutes"),
            counters: COUNTERS,
            ..EnvSpec::of::<Self>(
                "opto-hill-1d-sysid",
                "learn a gene's parameters from how its product X answers to light of any strength",
                ObservationSpace::vector(&["X_normalized"], vec![0.0], vec![f32::INFINITY]),
                ActionSpace::Box { low: vec![0.0], high: vec![1.0] },
                288,
            )
        }
    }

    fn set_option(&mut self, name: &str, value: &str) {
        self.clock.set(name, value);
    }

    fn check_state(&self, state: &State<f64>) -> Result<(), String> {
        check_counts(&[("X", state.X)])
    }

    #[inline(always)]
    fn reset<R: Real>(&self, _: &Params<R>, _: &mut Draws<R>) -> State<R> {
        let zero = R::splat(0.0);
        let Clock { wait, total, fired, reactions, capped } = Clock::new();
        State { X: zero, U: zero, wait, total, fired, reactions, capped }
    }

    #[inline(always)]
    fn step<R: Real>(
        &self,
        params: &Params<R>,
        state: &State<R>,
        [action]: [R; 1],
        draws: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        let State { X, U: previous, wait, total, fired, reactions, capped } = *state;
        let U = action.clamp(R::splat(0.0), R::splat(1.0));
        let ([X], clock) = interval(
            OptoHill { made: made(params, U), k_deg: params.k_deg },
            [X],
            Clock { wait, total, fired, reactions, capped },
            !U.eq(previous),
            params.timestep_minutes,
            self.clock.0,
            *draws,
        );
        let Clock { wait, total, fired, reactions, capped } = clock;
        Step {
            state: State { X, U, wait, total, fired, reactions, capped },
            reward: R::splat(0.0),
            terminated: R::Mask::splat(false),
        }
    }

    #[inline(always)]
    fn observe<R: Real>(&self, params: &Params<R>, state: &State<R>) -> [R; 1] {
        [state.X / params.X_obs_normalizer]
    }

    const COUNTS: bool = true;

    #[inline(always)]
    fn counts<R: Real>(&self, state: &State<R>) -> [R::Uint; 2] {
        [state.reactions, state.capped]
    }
}

/// The rate at which a light makes X. The light may be any number above 0, however small, so this is not
/// the Hill function of counts; it is needed once for each step.
#[inline(always)]
fn made<R: Real>(params: &Params<R>, light: R) -> R {
    let ratio = (params.K / light).pow(params.n);
    (params.k_prod / (R::splat(1.0) + ratio)).keep(light.gt(R::splat(0.0)))
}

/// One control interval of the gene; out of line for the same reasons as that of the other circuit.
#[inline(never)]
fn interval<R: Real>(
    gene: OptoHill<R>,
    counts: [R; 1],
    clock: Clock<R>,
    changed: R::Mask,
    duration: R,
    rule: ClockRule,
    draws: Draws<R>,
) -> ([R; 1], Clock<R>) {
    clock.run(&gene, counts, changed, duration, rule, draws)
}

#[cfg(test)]
mod tests {
    use phalanx_core::env::{LaneParams, LaneStruct};

    use super::*;

    #[test]
    fn golden_rates_and_tiny_lights() {
        let params = Params::<f32>::from_values(|field, _| Params::<f32>::INFO[field].default);
        for (light, expected) in [(1.0, 4.0), (0.5, 2.5), (0.25, 1.0), (0.0, 0.0)] {
            assert!((made(&params, light) - expected).abs() < 1e-6, "{light}");
        }
        for light in [f32::from_bits(1), 1e-38, 1e-20] {
            assert!((0.0..1e-30).contains(&made(&params, light)), "{light}");
        }
    }
}
