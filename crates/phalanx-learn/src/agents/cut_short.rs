//! Test environments with known values, and batches that lie about the ends of episodes as wrong agents would see them.

use phalanx_core::batch::{self, Actions, Autoreset, Batch, BatchConfig, ObsMut, StepOut};
use phalanx_core::env::{Discrete, LaneEnv, Step};
use phalanx_core::lane_struct;
use phalanx_core::lanes::Real;
use phalanx_core::rng::Draws;
use phalanx_core::rollout::Rollout;
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace};

use super::q_network::{QNetwork, best};
use crate::learner::{Learner, Report};
use crate::state::State as Saved;

/// Two states, cut off every 10 steps. The first step of an episode costs 9 and leads to the second state, which pays 1
/// for ever: with γ = 0.9 it is worth 10, and the first is worth 0. Actions do not matter.
#[derive(Clone, Debug, Default)]
struct CutShort;

lane_struct! {
    /// Whether the first step was made.
    pub(crate) struct State<R> {
        later: R,
    }
}

impl LaneEnv for CutShort {
    type State<R: Real> = State<R>;
    type Params<R: Real> = ();
    type Action<R: Real> = Discrete<R>;
    type Obs<R: Real> = [R; 2];

    fn spec(&self) -> EnvSpec {
        let observation = ObservationSpace::vector(&["first", "later"], vec![0.0; 2], vec![1.0; 2]);
        EnvSpec::of::<Self>("CutShort", "pays for ever, if it lasts", observation, ActionSpace::Discrete { n: 2 }, 10)
    }

    fn reset<R: Real>(&self, _: &(), _: &mut Draws<R>) -> State<R> {
        State { later: R::splat(0.0) }
    }

    fn step<R: Real>(&self, _: &(), state: &State<R>, _: Discrete<R>, _: &mut Draws<R>) -> Step<State<R>, R> {
        let one = R::splat(1.0);
        let reward = R::splat(10.0) * state.later - R::splat(9.0);
        Step { state: State { later: one }, reward, terminated: one.le(R::splat(0.0)) }
    }

    fn observe<R: Real>(&self, _: &(), state: &State<R>) -> [R; 2] {
        [R::splat(1.0) - state.later, state.later]
    }
}

/// What a batch claims about ends, so that a right agent does what a wrong one does with the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    None,
    /// The time limit is the end.
    LimitIsTheEnd,
    /// The next episode's first observation is what the last episode led to.
    NextEpisodeFollows,
    /// Nothing has ended: rewards of the next episode count as those of this one.
    EpisodesRunOn,
}

pub(crate) fn batch(num_envs: usize, lie: Lie) -> Box<dyn Batch> {
    lying(batch::build(CutShort, &config(num_envs)).unwrap(), lie)
}

/// The same environments, but with a lie about ends.
pub(crate) fn lying(inner: Box<dyn Batch>, lie: Lie) -> Box<dyn Batch> {
    Box::new(Lying { inner, lie })
}

/// The value of the state that pays 1 for ever.
pub(crate) fn value(network: &QNetwork, parameters: &[f32]) -> f32 {
    best(network.values(parameters, &[0.0, 1.0], &mut network.tape(1)), &[]).value
}

/// The same check for every agent: the truth leads to the right value, and each lie far from it.
#[track_caller]
pub(crate) fn check(learnt: impl Fn(Lie) -> f32) {
    let is_right = |value: f32| (value - 10.0).abs() <= 0.2;
    let found = [Lie::None, Lie::LimitIsTheEnd, Lie::NextEpisodeFollows, Lie::EpisodesRunOn].map(learnt);
    assert_eq!(found.map(is_right), [true, false, false, false], "{found:?}");
}

fn config(num_envs: usize) -> BatchConfig {
    BatchConfig { num_envs, seed: 5, autoreset: Autoreset::SameStep, ..BatchConfig::default() }
}

pub(crate) fn cart_pole(num_envs: usize) -> Box<dyn Batch> {
    phalanx_envs::registry::find("CartPole-v1").unwrap().batch(&config(num_envs)).unwrap()
}

/// Games that are cut off after three moves of the agent, by which time some are over.
pub(crate) fn tic_tac_toe(num_envs: usize) -> Box<dyn Batch> {
    let settings = vec![("max_steps".to_owned(), "3".to_owned())];
    let config = BatchConfig { autoreset: Autoreset::Disabled, settings, ..config(num_envs) };
    phalanx_envs::registry::find("TicTacToe-v0").unwrap().batch(&config).unwrap()
}

/// Learns on until so many steps were made, and answers what is kept then.
pub(crate) fn learnt_after(learner: &mut impl Learner, steps: u64) -> Saved {
    while learner.global_step() < steps {
        learner.advance(steps, &mut Report::default()).unwrap();
    }
    assert_eq!(learner.global_step(), steps);
    learner.save()
}

struct Lying {
    inner: Box<dyn Batch>,
    lie: Lie,
}

impl Batch for Lying {
    fn spec(&self) -> &EnvSpec {
        self.inner.spec()
    }

    fn step_into(&mut self, actions: Actions<'_>, out: StepOut<'_>) -> phalanx_core::Result<()> {
        let StepOut { obs: ObsMut::F32(obs), final_obs: ObsMut::F32(final_obs), .. } = out else {
            panic!("observations are reals")
        };
        let terminated = out.terminated;
        let truncated = out.truncated;
        let told = StepOut {
            obs: ObsMut::F32(&mut *obs),
            final_obs: ObsMut::F32(&mut *final_obs),
            terminated: &mut *terminated,
            truncated: &mut *truncated,
            rewards: out.rewards,
            violations: out.violations,
            final_returns: out.final_returns,
            final_lengths: out.final_lengths,
            final_costs: out.final_costs,
        };
        self.inner.step_into(actions, told)?;
        match self.lie {
            Lie::None => {}
            Lie::LimitIsTheEnd => terminated.copy_from_slice(truncated),
            Lie::NextEpisodeFollows => final_obs.copy_from_slice(obs),
            Lie::EpisodesRunOn => truncated.fill(false),
        }
        Ok(())
    }

    fn advance(&mut self, rollout: &mut Rollout, steps: usize) -> phalanx_core::Result<()> {
        self.inner.advance(rollout, steps)
    }

    fn autoreset(&self) -> Autoreset {
        self.inner.autoreset()
    }

    phalanx_core::delegate_batch!(inner);
}
