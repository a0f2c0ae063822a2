//! `TwoArmedBandit-v0`: one state, two arms, and arm 1 always pays.
//!
//! The reward of a step is the number of the arm. An episode terminates (it is not truncated) after
//! `episode_len` steps, so that its last step has no future: the smallest test of a learner's handling of
//! ends.

use phalanx_core::env::{Discrete, LaneEnv, Step};
use phalanx_core::lanes::Real;
use phalanx_core::rng::Draws;
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace};
use phalanx_core::{lane_params, lane_struct};

/// The environment.
#[derive(Clone, Debug, Default)]
pub struct TwoArmedBandit;

lane_struct! {
    /// How far the episode is.
    pub struct State<R> {
        pulls: R,
    }
}

lane_params! {
    /// The rules.
    pub struct Params {
        episode_len = 10.0, 1.0 => 1e6, "steps in an episode";
    }
}

impl LaneEnv for TwoArmedBandit {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = Discrete<R>;
    type Obs<R: Real> = [R; 1];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            reward_threshold: Some(10.0),
            ..EnvSpec::of::<Self>(
                "TwoArmedBandit-v0",
                "pull arm 0, which pays nothing, or arm 1, which always pays 1",
                ObservationSpace::vector(&["state"], vec![0.0], vec![0.0]),
                ActionSpace::Discrete { n: 2 },
                // The rules end every episode.
                EnvSpec::NO_LIMIT,
            )
        }
    }

    #[inline(always)]
    fn reset<R: Real>(&self, _: &Params<R>, _: &mut Draws<R>) -> State<R> {
        State { pulls: R::splat(0.0) }
    }

    #[inline(always)]
    fn step<R: Real>(
        &self,
        params: &Params<R>,
        state: &State<R>,
        arm: Discrete<R>,
        _: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        let pulls = state.pulls + R::splat(1.0);
        Step { state: State { pulls }, reward: arm.to_real(), terminated: params.episode_len.le(pulls) }
    }

    #[inline(always)]
    fn observe<R: Real>(&self, _: &Params<R>, _: &State<R>) -> [R; 1] {
        [R::splat(0.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::exact;

    #[test]
    fn five_pulls_of_arm_one_pay_five_and_end() {
        let mut probe = exact(TwoArmedBandit, &[("episode_len", "5")]);
        let steps: Vec<_> = (0..5).map(|_| probe.step(&[1.0]).unwrap()).collect();
        assert_eq!(steps.iter().map(|step| step.reward).sum::<f64>(), 5.0);
        let ends: Vec<_> = steps.iter().map(|step| (step.terminated, step.truncated)).collect();
        assert_eq!(ends, [(false, false), (false, false), (false, false), (false, false), (true, false)]);
        probe.next_episode();
        assert_eq!(probe.step(&[0.0]).unwrap().reward, 0.0);
    }
}
