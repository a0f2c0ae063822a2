//! The two ways of the engine agree: an environment in lanes and its one-at-a-time twin, a policy in
//! lanes and its twin over tiles, give the same bits.

use std::sync::Arc;

use phalanx_core::batch::{Actions, ActionsMut, Autoreset, Batch, BatchConfig, Reset, StepBuffers, build, build_solo};
use phalanx_core::env::{Discrete, LaneEnv, Step};
use phalanx_core::lanes::{Mask, Real};
use phalanx_core::policy::{Policy, Tile, TilePolicy};
use phalanx_core::pool::Pool;
use phalanx_core::rng::Draws;
use phalanx_core::rollout::Rollout;
use phalanx_core::solo::{Outcome, SoloAction, SoloEnv};
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace};
use phalanx_core::{Error, Result, lane_params, lane_struct};

/// A drunkard between two walls: pushed by two actions, kicked by noise, home beyond ±1.
#[derive(Clone, Debug)]
struct Walk;

lane_struct! {
    /// Where the drunkard is, and how often it was kicked to the right.
    pub struct State<R> { position: R, kicks: R::Uint }
}

lane_params! {
    /// The drunkard's constants.
    pub struct Params {
        kick = 0.125, 0.0 => 1.0, "size of a kick";
    }
}

fn spec() -> EnvSpec {
    EnvSpec::of::<Walk>(
        "Walk-v0",
        "a drunkard between two walls",
        ObservationSpace::symmetric(&["position", "kicks"], &[2.0, f32::INFINITY]),
        ActionSpace::Box { low: vec![-0.1, -0.2], high: vec![0.1, 0.2] },
        20,
    )
}

impl LaneEnv for Walk {
    type State<R: Real> = State<R>;
    type Params<R: Real> = Params<R>;
    type Action<R: Real> = [R; 2];
    type Obs<R: Real> = [R; 2];

    fn spec(&self) -> EnvSpec {
        spec()
    }

    fn reset<R: Real>(&self, _: &Params<R>, draws: &mut Draws<R>) -> State<R> {
        State { position: draws.uniform(R::splat(-0.5), R::splat(0.5)), kicks: draws.below(3) }
    }

    fn step<R: Real>(
        &self,
        params: &Params<R>,
        state: &State<R>,
        [a, b]: [R; 2],
        draws: &mut Draws<R>,
    ) -> Step<State<R>, R> {
        use phalanx_core::lanes::Uint;
        let right = draws.bernoulli(R::splat(0.5));
        let kick = R::select(right, params.kick, -params.kick);
        let position = state.position + a + b + kick * draws.unit();
        let kicks = state.kicks.wrapping_add(R::Uint::masked(right, 1));
        Step { state: State { position, kicks }, reward: -position.abs(), terminated: position.abs().gt(R::splat(1.0)) }
    }

    fn observe<R: Real>(&self, _: &Params<R>, state: &State<R>) -> [R; 2] {
        [state.position, R::from_uint(state.kicks)]
    }
}

/// The same drunkard, one at a time.
#[derive(Clone, Debug)]
struct SoloWalk;

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct SoloState {
    position: f32,
    kicks: u32,
}

impl SoloEnv for SoloWalk {
    type State = SoloState;
    type Elem = f32;

    fn spec(&self) -> EnvSpec {
        EnvSpec { params: vec![], ..spec() }
    }

    fn reset(&self, state: &mut SoloState, draws: &mut Draws<f32>) {
        *state = SoloState { position: draws.uniform(-0.5, 0.5), kicks: draws.below(3) };
    }

    fn step(&self, state: &mut SoloState, action: SoloAction<'_>, draws: &mut Draws<f32>) -> Outcome {
        let SoloAction::Continuous(&[a, b]) = action else { panic!("two components") };
        let right = draws.bernoulli(0.5);
        let kick = if right { 0.125 } else { -0.125 };
        state.position = state.position + a + b + kick * draws.unit();
        state.kicks += u32::from(right);
        Outcome { reward: -state.position.abs(), terminated: state.position.abs() > 1.0 }
    }

    fn observe(&self, state: &SoloState, obs: &mut [f32]) {
        obs.copy_from_slice(&[state.position, state.kicks as f32]);
    }

    fn state_values(&self, state: &SoloState) -> Vec<f64> {
        vec![f64::from(state.position), f64::from(state.kicks)]
    }

    fn set_state_values(&self, state: &mut SoloState, values: &[f64]) -> Result<()> {
        *state = SoloState { position: values[0] as f32, kicks: values[1] as u32 };
        Ok(())
    }
}

/// The random policy asked row by row from outside: same draws, other way.
struct Brake;

impl TilePolicy for Brake {
    fn act(&self, tile: Tile, obs: &[f32], actions: ActionsMut<'_>) {
        let ActionsMut::Continuous(values) = actions else { panic!("continuous") };
        assert_eq!((values.len(), obs.len()), (tile.envs * 2, tile.envs * 2));
        for (row, action) in obs.chunks_exact(2).zip(values.chunks_exact_mut(2)) {
            // What the PID below does: both components get -position, limited to their bounds.
            let signal = -row[0];
            action.copy_from_slice(&[signal.clamp(-0.1, 0.1), signal.clamp(-0.2, 0.2)]);
        }
    }
}

fn config(num_envs: usize, threads: usize, autoreset: Autoreset) -> BatchConfig {
    BatchConfig { num_envs, seed: 3, autoreset, pool: Arc::new(Pool::new(threads)), ..BatchConfig::default() }
}

fn run(mut batch: Box<dyn Batch>, policy: Policy, chunk: usize) -> (u64, phalanx_core::stats::EpisodeStats) {
    let mut rollout = Rollout::new(policy, batch.as_ref());
    rollout.run(batch.as_mut(), 500, chunk, |_| true).unwrap();
    (rollout.checksum(), *rollout.stats())
}

#[test]
fn an_environment_in_lanes_equals_its_one_at_a_time_twin() {
    for num_envs in [1, 5, 16, 300] {
        for (name, arguments) in [
            ("random", vec![]),
            ("pid", vec![("obs_field", "position"), ("ki", "0.1"), ("dt", "0.5")]),
            ("periodic", vec![("pulse_width", "2")]),
        ] {
            let policy = || Policy::parse(name, &arguments, &spec()).unwrap();
            let reference = run(build(Walk, &config(num_envs, 1, Autoreset::SameStep)).unwrap(), policy(), 500);
            assert!(reference.1.episodes() >= num_envs as u64 * 20);
            for (threads, chunk) in [(1, 500), (2, 7), (3, 1)] {
                let solo = run(
                    build_solo(SoloWalk, &config(num_envs, threads, Autoreset::SameStep)).unwrap(),
                    policy(),
                    chunk,
                );
                assert_eq!(solo, reference, "{name}, {num_envs} environments, {threads} threads, chunk {chunk}");
            }
        }
    }
}

#[test]
fn a_policy_over_tiles_equals_its_twin_in_lanes() {
    for num_envs in [1, 17, 1_000] {
        let pid = Policy::parse("pid", &[("obs_field", "position")], &spec()).unwrap();
        let reference = run(build(Walk, &config(num_envs, 1, Autoreset::SameStep)).unwrap(), pid, 100);
        for (threads, chunk) in [(1, 500), (2, 9)] {
            let tiles = || Policy::Tile(Arc::new(Brake));
            assert_eq!(
                run(build(Walk, &config(num_envs, threads, Autoreset::SameStep)).unwrap(), tiles(), chunk),
                reference
            );
            assert_eq!(
                run(build_solo(SoloWalk, &config(num_envs, threads, Autoreset::SameStep)).unwrap(), tiles(), chunk),
                reference
            );
        }
    }
}

#[test]
fn solo_environments_keep_every_promise_of_a_batch() {
    for mode in [Autoreset::NextStep, Autoreset::SameStep, Autoreset::Disabled] {
        let n = 21;
        let mut lanes = build(Walk, &config(n, 1, mode)).unwrap();
        let mut solo = build_solo(SoloWalk, &config(n, 2, mode)).unwrap();
        let (mut expected, mut found) = (StepBuffers::new(n, 2), StepBuffers::new(n, 2));
        let mut saved = None;
        for call in 0..200 {
            let actions: Vec<f32> = (0..2 * n).map(|i| ((call * 7 + i * 3) % 11) as f32 / 50.0 - 0.1).collect();
            let results = [
                lanes.step_into(Actions::Continuous(&actions), expected.out()),
                solo.step_into(Actions::Continuous(&actions), found.out()),
            ];
            assert_eq!(results[0], results[1]);
            if let Err(Error::ResetNeeded { env }) = results[0] {
                let mut mask = vec![false; n];
                mask[env] = true;
                lanes.reset_into(Reset::Mask(&mask), (&mut expected.obs).into()).unwrap();
                solo.reset_into(Reset::Mask(&mask), (&mut found.obs).into()).unwrap();
            }
            assert_eq!(found.obs, expected.obs, "{mode:?} call {call}");
            assert_eq!(
                (&found.rewards, &found.terminated, &found.truncated),
                (&expected.rewards, &expected.terminated, &expected.truncated)
            );
            for env in (0..n).filter(|env| expected.terminated[*env] || expected.truncated[*env]) {
                let rows = env * 2..env * 2 + 2;
                assert_eq!(found.final_obs[rows.clone()], expected.final_obs[rows]);
                assert_eq!(found.final_returns[env], expected.final_returns[env]);
                assert_eq!(found.final_lengths[env], expected.final_lengths[env]);
            }
            if call == 100 {
                saved = Some((solo.snapshot(), found.obs.clone()));
            }
        }
        assert_eq!(solo.stats(), lanes.stats());
        let (snapshot, obs) = saved.unwrap();
        solo.restore(&snapshot).unwrap();
        solo.observe_into((&mut found.obs).into()).unwrap();
        assert_eq!(found.obs, obs);
        assert!(lanes.restore(&snapshot).is_err(), "the two kinds store different things");
        solo.set_state(20, &[0.25, 2.0]).unwrap();
        assert_eq!(solo.state(20).unwrap(), [0.25, 2.0]);
        assert!(solo.set_param("kick", &[0.5]).unwrap_err().to_string().contains("there are none"));
    }
}

#[test]
fn a_rollout_of_another_size_or_action_space_is_refused() {
    let mut batch = build(Walk, &config(5, 1, Autoreset::SameStep)).unwrap();
    let other = build(Walk, &config(6, 1, Autoreset::SameStep)).unwrap();
    let policy = Policy::parse("random", &[], &spec()).unwrap();
    assert!(batch.advance(&mut Rollout::new(policy, other.as_ref()), 1).is_err());
    let discrete = EnvSpec { action: ActionSpace::Discrete { n: 2 }, ..spec() };
    let policy = Policy::parse("random", &[], &discrete).unwrap();
    let error = batch.advance(&mut Rollout::new(policy, batch.as_ref()), 1).unwrap_err().to_string();
    assert!(error.contains("Discrete(2)"), "{error}");
}

/// An environment without state: two arms, one of which pays.
#[derive(Clone, Debug)]
struct Bandit;

impl LaneEnv for Bandit {
    type State<R: Real> = ();
    type Params<R: Real> = ();
    type Action<R: Real> = Discrete<R>;
    type Obs<R: Real> = [R; 1];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            observation: ObservationSpace::symmetric(&["nothing"], &[1.0]),
            action: ActionSpace::Discrete { n: 2 },
            state_names: &[],
            params: vec![],
            max_steps: 3,
            ..spec()
        }
    }

    fn reset<R: Real>(&self, (): &(), _: &mut Draws<R>) {}

    fn step<R: Real>(&self, (): &(), (): &(), arm: Discrete<R>, draws: &mut Draws<R>) -> Step<(), R> {
        let paid = draws.bernoulli(R::splat(0.75)) & arm.is(1);
        Step { state: (), reward: R::select(paid, R::splat(1.0), R::splat(0.0)), terminated: Mask::splat(false) }
    }

    fn observe<R: Real>(&self, (): &(), (): &()) -> [R; 1] {
        [R::splat(0.0)]
    }
}

#[test]
fn an_environment_needs_no_state() {
    for num_envs in [1, 40] {
        let mut batch = build(Bandit, &config(num_envs, 1, Autoreset::NextStep)).unwrap();
        let mut buffers = StepBuffers::new(num_envs, 1);
        let arms = vec![1; num_envs];
        for _ in 0..400 {
            batch.step_into(Actions::Discrete(&arms), buffers.out()).unwrap();
        }
        let snapshot = batch.snapshot();
        batch.restore(&snapshot).unwrap();
        assert_eq!(batch.stats().episodes(), 100 * num_envs as u64);
        let mean = batch.stats().returns().unwrap().mean / 3.0;
        let error = (0.75_f64 * 0.25 / (300.0 * num_envs as f64)).sqrt();
        assert!((mean - 0.75).abs() < 5.0 * error, "{mean}");
        assert_eq!(batch.state(0).unwrap(), [0.0; 0]);
        let random = Policy::parse("random", &[], batch.spec()).unwrap();
        let mut rollout = Rollout::new(random, batch.as_ref());
        rollout.run(batch.as_mut(), 300, 50, |_| true).unwrap();
        assert!(rollout.stats().episodes() >= 99 * num_envs as u64);
    }
}
