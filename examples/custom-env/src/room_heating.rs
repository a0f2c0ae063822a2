//! `RoomHeating-v0`: keep a room at its temperature by switching a heater.
//!
//! Newton's law of cooling with a heater of constant power. The heater does not change during a step, so the step is
//! exact:
//!
//! ```text
//! dT/dt = (outside − T) / tau + power a                      a = 0 off, 1 on; minutes and °C
//! T'    = E + (T − E) exp(−dt / tau),  E = outside + tau power a
//! reward = −|T' − target| − price a
//! ```
//!
//! The task ends where `|T' − target| > limit`.

use phalanx_core::env::{Discrete, LaneEnv, Step, check_order};
use phalanx_core::lanes::Real;
use phalanx_core::rng::Draws;
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace};
use phalanx_core::{lane_params, lane_struct};

/// The environment.
#[derive(Clone, Debug, Default)]
pub struct RoomHeating;

lane_struct! {
    /// The room.
    pub struct State<R> {
        temperature: R,
    }
}

lane_params! {
    /// Constants of house and heater; each room of a batch may have its own.
    pub struct Params {
        outside = 0.0, -50.0 => 50.0, "temperature outside, °C";
        target = 20.0, -50.0 => 80.0, "temperature that is wanted, °C";
        tau = 120.0, 1.0 => 1e5, "time in which the room cools by a factor e, min";
        power = 0.5, 0.0 => 100.0, "heating by the heater, K/min";
        price = 0.1, 0.0 => 100.0, "what a step of heating costs, K";
        limit = 15.0, 0.1 => 1e3, "distance from the target at which the task ends, K";
        dt = 5.0, 1e-3 => 1e3, "time between two steps, min";
        low = 15.0, -50.0 => 80.0, "lower bound of the start temperature, °C";
        high = 25.0, -50.0 => 80.0, "upper bound of the start temperature, °C";
    }
}

impl LaneEnv for RoomHeating {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = Discrete<R>;
    type Obs<R: Real> = [R; 2];

    fn spec(&self) -> EnvSpec {
        EnvSpec::of::<Self>(
            "RoomHeating-v0",
            "keep a room at its temperature: heater off (0) or on (1)",
            ObservationSpace::vector(&["temperature", "error"], vec![f32::NEG_INFINITY; 2], vec![f32::INFINITY; 2]),
            ActionSpace::Discrete { n: 2 },
            288,
        )
    }

    fn check_params(&self, params: &Params<f64>) -> Result<(), String> {
        check_order("low", params.low, "high", params.high)
    }

    #[inline(always)]
    fn reset<R: Real>(&self, params: &Params<R>, draws: &mut Draws<R>) -> State<R> {
        State { temperature: draws.uniform(params.low, params.high) }
    }

    #[inline(always)]
    fn step<R: Real>(
        &self,
        params: &Params<R>,
        state: &State<R>,
        action: Discrete<R>,
        _: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        let heating = action.to_real();
        let end = params.outside + params.tau * params.power * heating;
        let left = (R::splat(0.0) - params.dt / params.tau).exp();
        let temperature = end + (state.temperature - end) * left;
        let error = (temperature - params.target).abs();
        let reward = R::splat(0.0) - error - params.price * heating;
        Step { state: State { temperature }, reward, terminated: error.gt(params.limit) }
    }

    #[inline(always)]
    fn observe<R: Real>(&self, params: &Params<R>, state: &State<R>) -> [R; 2] {
        [state.temperature, state.temperature - params.target]
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::batch::BatchConfig;
    use phalanx_core::probe::{Precision, probe};

    use super::*;

    #[test]
    fn a_room_follows_the_closed_form() {
        for action in [0.0, 1.0] {
            let mut room = probe(RoomHeating, &BatchConfig::default(), Precision::F64).unwrap();
            room.set_state(&[20.0]).unwrap();
            let end = 120.0 * 0.5 * action;
            for step in 1..=10 {
                let stepped = room.step(&[action]).unwrap();
                let expected = end + (20.0 - end) * (-5.0 * f64::from(step) / 120.0).exp();
                assert!((room.state()[0] - expected).abs() < 1e-12, "{action} {step}");
                assert!((stepped.reward + (expected - 20.0).abs() + 0.1 * action).abs() < 1e-12);
                assert_eq!(stepped.terminated, (expected - 20.0).abs() > 15.0);
            }
        }
    }

    #[test]
    fn it_is_found_by_name_in_every_lane_width() {
        use phalanx_core::batch::LaneWidth;
        use phalanx_core::policy::Policy;
        use phalanx_core::rollout::Rollout;

        crate::register().unwrap();
        let entry = phalanx_envs::registry::find("room-heating").unwrap();
        let checksums = [LaneWidth::One, LaneWidth::Eight, LaneWidth::Sixteen].map(|lanes| {
            let config = BatchConfig { num_envs: 100, lanes, ..BatchConfig::default() };
            let mut batch = entry.batch(&config).unwrap();
            let policy = Policy::parse("random", &[], batch.spec()).unwrap();
            let mut rollout = Rollout::new(policy, batch.as_ref());
            rollout.run(batch.as_mut(), 500, 50, |_| true).unwrap();
            rollout.checksum()
        });
        assert!(checksums.iter().all(|checksum| *checksum == checksums[0]), "{checksums:?}");
    }
}
