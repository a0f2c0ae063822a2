//! The two ways of the engine agree: an environment in lanes and its one-at-a-time twin, a policy in
//! lanes and its twin over tiles, give the same bits.

use std::sync::Arc;

use phalanx_core::batch::{
    Actions, ActionsMut, Autoreset, Batch, BatchConfig, LaneWidth, Reset, StepBuffers, build, build_solo,
};
use phalanx_core::env::{Discrete, LaneEnv, Step};
use phalanx_core::lanes::{Mask, Real, Uint};
use phalanx_core::policy::{Policy, Tile, TilePolicy};
use phalanx_core::pool::Pool;
use phalanx_core::probe::{Precision, probe, probe_solo};
use phalanx_core::rng::Draws;
use phalanx_core::rollout::{MAX_TILE, Rollout, TILE};
use phalanx_core::safety::{Constraint, SafetyConfig, SafetyMode};
use phalanx_core::solo::{Outcome, SoloAction, SoloEnv};
use phalanx_core::space::{ActionMask, ActionSpace, EnvSpec, ObservationSpace};
use phalanx_core::stats::EpisodeStats;
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

    fn state_value(&self, state: &SoloState, field: usize) -> f64 {
        [f64::from(state.position), f64::from(state.kicks)][field]
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

fn run(batch: Box<dyn Batch>, policy: Policy, chunk: usize) -> (u64, EpisodeStats) {
    run_by(batch, policy, chunk, TILE)
}

fn run_by(mut batch: Box<dyn Batch>, policy: Policy, chunk: usize, tile: usize) -> (u64, EpisodeStats) {
    let mut rollout = Rollout::new(policy, batch.as_ref());
    rollout.set_tile(tile).unwrap();
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
        for (threads, chunk, tile) in [(1, 500, TILE), (2, 9, 16), (1, 9, MAX_TILE), (3, 500, 80)] {
            let tiles = || Policy::Tile(Arc::new(Brake));
            let config = config(num_envs, threads, Autoreset::SameStep);
            assert_eq!(run_by(build(Walk, &config).unwrap(), tiles(), chunk, tile), reference);
            assert_eq!(run_by(build_solo(SoloWalk, &config).unwrap(), tiles(), chunk, tile), reference);
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

/// The first three look at the first signals of the observation only, which has code of its own.
const RULES: [&str; 4] = [
    "position<=0.5:soft:penalty=-0.25:name=right",
    "-0.9<position<0.9:hard:penalty=-7:name=edge",
    "kicks<=6:soft:terminate=true:name=kicked",
    "action.1<0.15:soft:name=pushed",
];

fn guarded(num_envs: usize, lanes: LaneWidth, mode: SafetyMode, rules: usize) -> BatchConfig {
    let constraints = RULES[..rules].iter().map(|text| Constraint::parse(text).unwrap()).collect();
    BatchConfig { lanes, safety: SafetyConfig { mode, constraints }, ..config(num_envs, 1, Autoreset::SameStep) }
}

/// Lanes, one at a time and the probe agree on costs, violations, rewards and ends; and these are right.
#[test]
fn constraints_hold_the_same_way_everywhere() {
    use SafetyMode::{Enforce, Monitor, Off, Penalize};
    for (mode, rules) in [Enforce, Penalize, Monitor, Off].into_iter().flat_map(|mode| [(mode, 3), (mode, 4)]) {
        let n = 37;
        let mut batches: Vec<_> = [LaneWidth::One, LaneWidth::Eight, LaneWidth::Sixteen]
            .map(|lanes| build(Walk, &guarded(n, lanes, mode, rules)).unwrap())
            .into();
        batches.push(build_solo(SoloWalk, &guarded(n, LaneWidth::Auto, mode, rules)).unwrap());
        let mut probe = probe(Walk, &guarded(1, LaneWidth::Auto, mode, rules), Precision::F32).unwrap();
        let mut all: Vec<_> = batches.iter().map(|_| StepBuffers::new(n, 2)).collect();
        let (mut costs, mut terminations) = (vec![0; n], 0);
        let (mut ended_cost, mut violations) = (0, [0; 4]);
        for call in 0..500_usize {
            let unit = |i: usize| (((call * 2 * n + i) * 40_503) % 65_536) as f32 / 32_768.0 - 1.0;
            let actions: Vec<f32> = (0..2 * n).map(|i| unit(i) * [0.1, 0.2][i % 2]).collect();
            for (batch, buffers) in batches.iter_mut().zip(&mut all) {
                batch.step_into(Actions::Continuous(&actions), buffers.out()).unwrap();
            }
            let buffers = &all[0];
            for other in &all[1..] {
                assert_eq!((&other.rewards, &other.violations), (&buffers.rewards, &buffers.violations), "{mode}");
                assert_eq!((&other.terminated, &other.obs), (&buffers.terminated, &buffers.obs), "{mode}");
            }
            let step = probe.step(&[f64::from(actions[0]), f64::from(actions[1])]).unwrap();
            assert_eq!((step.violated, step.terminated), (buffers.violations[0], buffers.terminated[0]));
            assert_eq!(step.reward, f64::from(buffers.rewards[0]));
            if step.terminated || step.truncated {
                probe.next_episode();
            }
            for env in 0..n {
                let done = buffers.terminated[env] || buffers.truncated[env];
                let row = if done { &buffers.final_obs } else { &buffers.obs };
                let (position, kicks, violated) = (row[2 * env], row[2 * env + 1], buffers.violations[env]);
                let pushed = actions[2 * env + 1] >= 0.15 && rules == 4;
                let broken = [position > 0.5, position.abs() >= 0.9, kicks > 6.0, pushed];
                let expected = (0..4).filter(|i| broken[*i] && mode != Off).fold(0, |bits, i| bits | 1 << i);
                assert_eq!(violated, expected);
                (0..4).for_each(|i| violations[i] += u64::from(violated >> i & 1));
                let home = position.abs() > 1.0;
                let plain = -position.abs();
                let soft = [-0.25, 0.0, -1.0, -1.0].iter().zip(broken).map(|(p, b)| if b { *p } else { 0.0 });
                let penalized = if broken[1] { -7.0 } else { plain + soft.sum::<f32>() };
                let (reward, ends) = match mode {
                    Enforce => (penalized, home || broken[1] || broken[2]),
                    Penalize => (penalized, home),
                    Monitor | Off => (plain, home),
                };
                assert!((buffers.rewards[env] - reward).abs() < 1e-6 && buffers.terminated[env] == ends, "{mode}");
                terminations += u64::from(ends);
                costs[env] += violated.count_ones();
                if done {
                    assert!(mode == Off || buffers.final_costs[env] == costs[env]);
                    ended_cost += u64::from(std::mem::take(&mut costs[env]));
                }
            }
        }
        assert!(
            terminations > 20 && (mode == Off || violations[..rules].iter().all(|v| *v > 20)),
            "{mode}: {violations:?}"
        );
        for batch in &batches {
            let stats = batch.stats();
            assert_eq!(stats.violations()[..4], violations);
            let mean = stats.costs().unwrap().mean;
            assert!((mean - ended_cost as f64 / stats.episodes() as f64).abs() < 1e-9);
        }
    }
}

/// Roll-outs count the same costs in lanes as one at a time, and a snapshot of other constraints is refused.
#[test]
fn rollouts_count_costs() {
    let roll = |mut batch: Box<dyn Batch>, chunk| {
        let mut rollout = Rollout::new(Policy::parse("random", &[], batch.spec()).unwrap(), batch.as_ref());
        rollout.run(batch.as_mut(), 400, chunk, |_| true).unwrap();
        (rollout.checksum(), *rollout.stats())
    };
    let run = |lanes, mode, rules, chunk| roll(build(Walk, &guarded(45, lanes, mode, rules)).unwrap(), chunk);
    for mode in [SafetyMode::Enforce, SafetyMode::Penalize, SafetyMode::Monitor] {
        for rules in [3, 4] {
            let solo = build_solo(SoloWalk, &guarded(45, LaneWidth::Auto, mode, rules)).unwrap();
            let reference = roll(solo, 400);
            assert!(reference.1.costs().unwrap().mean > 0.1);
            let chunks = [1, 7, 400];
            for lanes in [LaneWidth::One, LaneWidth::Eight, LaneWidth::Sixteen] {
                for chunk in chunks {
                    assert_eq!(run(lanes, mode, rules, chunk), reference, "{mode} {lanes:?} {rules} {chunk}");
                }
            }
        }
    }
    let off = run(LaneWidth::Sixteen, SafetyMode::Off, 4, 50);
    let (monitored, _) = run(LaneWidth::Sixteen, SafetyMode::Monitor, 4, 50);
    assert_eq!(off.0, monitored, "watching changes nothing");
    assert_eq!(off.1.violations(), &[0; 32]);
    let enforced = build(Walk, &guarded(45, LaneWidth::Auto, SafetyMode::Enforce, 4)).unwrap().snapshot();
    let mut other = build(Walk, &guarded(45, LaneWidth::Auto, SafetyMode::Monitor, 4)).unwrap();
    assert!(other.restore(&enforced).unwrap_err().to_string().starts_with("snapshot "));
}

/// Log-normal priors have the moments they promise; an environment keeps its draw.
#[test]
fn priors_are_log_normal() {
    let n = 100_000;
    let settings = [("kick_scale", "0.2"), ("kick_loc", "-2.0")].map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
    let batch = build(Walk, &BatchConfig { settings, ..config(n, 1, Autoreset::SameStep) }).unwrap();
    let logs: Vec<f64> = (0..n).map(|env| batch.param("kick", env).unwrap().ln()).collect();
    let mean = logs.iter().sum::<f64>() / n as f64;
    let std = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
    assert!((mean + 2.0).abs() < 4.0 * 0.2 / (n as f64).sqrt() && (std - 0.2).abs() < 0.002, "{mean} {std}");
    let exact = |settings: &[(&str, &str)]| {
        let settings = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        build(Walk, &BatchConfig { settings, ..config(3, 1, Autoreset::SameStep) })
    };
    assert_eq!(exact(&[("kick_scale", "0")]).unwrap().param("kick", 1).unwrap(), 0.125);
    let draws_too_much = exact(&[("kick_scale", "9")]).err().unwrap().to_string();
    assert!(draws_too_much.starts_with("parameter kick of Walk-v0, as its prior draws it for environment "));
    assert!(draws_too_much.ends_with(", but must be from 0 to 1"), "{draws_too_much}");
    for wrong in [("kick_scale", "-1"), ("kick_scale", "x"), ("kik_scale", "1"), ("kick_loc", "9")] {
        assert!(exact(&[wrong]).is_err(), "{wrong:?}");
    }
    assert!(exact(&[("kick", "0.1..0.2"), ("kick_scale", "0.1")]).is_err());
}

/// A combination lock whose first wheel may turn up only, while its second is free.
#[derive(Clone, Debug)]
struct Lock;

impl SoloEnv for Lock {
    type State = u32;
    type Elem = f32;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            observation: ObservationSpace::symmetric(&["wheel"], &[50.0]),
            action: ActionSpace::MultiDiscrete { sizes: vec![50, 3] },
            action_mask: ActionMask::Binding,
            state_names: &["wheel"],
            params: vec![],
            ..spec()
        }
    }

    fn reset(&self, state: &mut u32, draws: &mut Draws<f32>) {
        *state = draws.below(20);
    }

    fn step(&self, state: &mut u32, action: SoloAction<'_>, _: &mut Draws<f32>) -> Outcome {
        let SoloAction::Multi(&[wheel, _]) = action else { panic!("two wheels") };
        assert!(wheel as u32 > *state, "an illegal action does not come this far");
        *state = wheel as u32;
        Outcome { reward: 1.0, terminated: wheel == 49 }
    }

    fn observe(&self, state: &u32, obs: &mut [f32]) {
        obs[0] = *state as f32;
    }

    fn is_legal(&self, state: &u32, k: usize, choice: u32) -> bool {
        k == 1 || choice > *state
    }

    fn state_value(&self, state: &u32, _field: usize) -> f64 {
        f64::from(*state)
    }

    fn set_state_values(&self, state: &mut u32, values: &[f64]) -> Result<()> {
        *state = values[0] as u32;
        Ok(())
    }
}

/// Masks of a vector of choices: written as one row, bound to, and drawn among without favour.
#[test]
fn vectors_of_choices_have_masks() {
    let n = 40;
    let mut batch = build_solo(Lock, &config(n, 1, Autoreset::SameStep)).unwrap();
    (0..n).for_each(|env| batch.set_state(env, &[19.0]).unwrap());
    let mut masks = vec![false; n * 53];
    batch.action_masks_into(&mut masks).unwrap();
    assert!(masks.chunks_exact(53).all(|mask| (0..53).all(|i| mask[i] == (i > 19))));
    let mut actions = [30, 2].repeat(n);
    actions[2 * 33] = 19;
    let mut buffers = StepBuffers::new(n, 1);
    let error = batch.step_into(Actions::Discrete(&actions), buffers.out()).unwrap_err().to_string();
    assert_eq!(error, "the action of environment 33 is 19, 2, but must be one that its action mask allows");
    let mut probe = probe_solo(Lock, &config(1, 1, Autoreset::SameStep)).unwrap();
    probe.set_state(&[46.0]).unwrap();
    let error = probe.step(&[46.0, 1.0]).unwrap_err().to_string();
    assert_eq!(error, "component 0 of the action is 46, but must be legal in this state: 47, 48, 49");
    for (wheel, legal) in [(30.0, "31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, ..."), (49.0, "none")] {
        probe.set_state(&[wheel]).unwrap();
        let error = probe.step(&[3.0, 1.0]).unwrap_err().to_string();
        assert_eq!(error, format!("component 0 of the action is 3, but must be legal in this state: {legal}"));
    }
    let policy = || Policy::parse("random", &[], batch.spec()).unwrap();
    let (one, two) = (
        run(build_solo(Lock, &config(n, 1, Autoreset::SameStep)).unwrap(), policy(), 500),
        run(build_solo(Lock, &config(n, 3, Autoreset::SameStep)).unwrap(), policy(), 7),
    );
    assert_eq!(one, two);
    // From 19 the wheel goes to each of the 30 choices above alike.
    let (mut counts, mut rollout) = (vec![0.0; 50], Rollout::new(policy(), batch.as_ref()));
    for _ in 0..1_000 {
        (0..n).for_each(|env| batch.set_state(env, &[19.0]).unwrap());
        batch.advance(&mut rollout, 1).unwrap();
        (0..n).for_each(|env| counts[batch.state(env).unwrap()[0] as usize] += 1.0);
    }
    let expected = 40_000.0 / 30.0;
    // Beyond 48 an episode ends and the next state is a start.
    assert!(counts[20..49].iter().all(|count: &f64| (count - expected).abs() < 5.0 * expected.sqrt()), "{counts:?}");
}

/// A row of cells, each to be taken once; which are taken is the state, a bit each.
#[derive(Clone, Debug)]
struct Cells {
    number: u32,
    mask: ActionMask,
}

lane_struct! {
    /// The taken cells.
    pub struct Taken<R> { taken: R::Uint }
}

impl Cells {
    fn new(number: u32) -> Self {
        Self { number, mask: ActionMask::Binding }
    }

    fn row(&self) -> EnvSpec {
        EnvSpec {
            observation: ObservationSpace::symmetric(&["taken"], &[f32::INFINITY]),
            action: ActionSpace::Discrete { n: self.number },
            action_mask: self.mask,
            state_names: &["taken"],
            params: vec![],
            ..spec()
        }
    }

    fn all(&self) -> u32 {
        (1 << self.number) - 1
    }
}

impl LaneEnv for Cells {
    type State<R: Real> = Taken<R>;
    type Params<R: Real> = ();
    type Action<R: Real> = Discrete<R>;
    type Obs<R: Real> = [R; 1];

    fn spec(&self) -> EnvSpec {
        self.row()
    }

    fn reset<R: Real>(&self, (): &(), draws: &mut Draws<R>) -> Taken<R> {
        Taken { taken: draws.below(self.all()) }
    }

    fn step<R: Real>(&self, (): &(), state: &Taken<R>, cell: Discrete<R>, _: &mut Draws<R>) -> Step<Taken<R>, R> {
        let taken = state.taken | cell.0.bit();
        Step { state: Taken { taken }, reward: cell.to_real(), terminated: taken.eq(R::Uint::splat(self.all())) }
    }

    fn observe<R: Real>(&self, (): &(), state: &Taken<R>) -> [R; 1] {
        [R::from_uint(state.taken)]
    }

    const MASKED: bool = true;

    fn legal<R: Real>(&self, (): &(), state: &Taken<R>) -> R::Uint {
        state.taken ^ R::Uint::splat(self.all())
    }
}

/// The same cells, one row at a time.
#[derive(Clone, Debug)]
struct SoloCells(Cells);

impl SoloEnv for SoloCells {
    type State = u32;
    type Elem = f32;

    fn spec(&self) -> EnvSpec {
        self.0.row()
    }

    fn reset(&self, state: &mut u32, draws: &mut Draws<f32>) {
        *state = draws.below(self.0.all());
    }

    fn step(&self, state: &mut u32, action: SoloAction<'_>, _: &mut Draws<f32>) -> Outcome {
        let SoloAction::Discrete(cell) = action else { panic!("a cell") };
        *state |= 1 << cell;
        Outcome { reward: cell as f32, terminated: *state == self.0.all() }
    }

    fn observe(&self, state: &u32, obs: &mut [f32]) {
        obs[0] = *state as f32;
    }

    fn is_legal(&self, state: &u32, _k: usize, choice: u32) -> bool {
        *state >> choice & 1 == 0
    }

    fn state_value(&self, state: &u32, _field: usize) -> f64 {
        f64::from(*state)
    }

    fn set_state_values(&self, state: &mut u32, values: &[f64]) -> Result<()> {
        *state = values[0] as u32;
        Ok(())
    }
}

/// In lanes, one at a time and under the microscope the random policy takes the same cells, none more often.
#[test]
fn masked_choices_are_the_same_everywhere_and_fair() {
    // As many as share fair numbers, in either order of the lanes, and more.
    for cells in [2, 9, 10, 17].map(Cells::new) {
        let (n, all) = (45, cells.all());
        let solo = || build_solo(SoloCells(cells.clone()), &config(n, 2, Autoreset::SameStep)).unwrap();
        let policy = || Policy::parse("random", &[], solo().spec()).unwrap();
        let lanes = build(cells.clone(), &config(n, 1, Autoreset::SameStep)).unwrap();
        assert_eq!(run(solo(), policy(), 7), run(lanes, policy(), 500), "{cells:?}");

        // All free but for every third cell.
        let taken = f64::from(all & 0o11_111_111);
        let free = cells.number - (taken as u32).count_ones();
        let (mut batch, mut counts) = (solo(), vec![0.0; cells.number as usize]);
        let mut probe = probe_solo(SoloCells(cells.clone()), &config(1, 1, Autoreset::SameStep)).unwrap();
        let mut rollout = Rollout::new(policy(), batch.as_ref());
        for tick in 0..1_000 {
            (0..n).for_each(|env| batch.set_state(env, &[taken]).unwrap());
            probe.set_state(&[taken]).unwrap();
            let decided = probe.decide(&policy(), tick, &mut Default::default()).unwrap()[0];
            batch.advance(&mut rollout, 1).unwrap();
            if free == 1 {
                // The only free cell ends the episode, and the next state is a start.
                assert_eq!(decided, 1.0);
                continue;
            }
            let cell = |env: usize| (batch.state(env).unwrap()[0] - taken).log2();
            assert_eq!(cell(0), decided, "{cells:?}");
            (0..n).for_each(|env| counts[cell(env) as usize] += 1.0);
        }
        let expected = 1_000.0 * n as f64 / f64::from(free);
        let fair = |(i, count): (usize, &f64)| match taken as u32 >> i & 1 {
            0 => (count - expected).abs() < 5.0 * expected.sqrt(),
            _ => *count == 0.0,
        };
        assert!(free == 1 || counts.iter().enumerate().all(fair), "{counts:?}");
    }
}

/// Masks are asked for where there are any: else every action is legal, whatever the environment's functions say.
#[test]
fn an_environment_without_masks_allows_everything() {
    let free = Cells { mask: ActionMask::None, ..Cells::new(9) };
    let config = config(20, 1, Autoreset::SameStep);
    for mut batch in [build(free.clone(), &config).unwrap(), build_solo(SoloCells(free), &config).unwrap()] {
        (0..20).for_each(|env| batch.set_state(env, &[7.0]).unwrap());
        let mut masks = vec![false; 20 * 9];
        batch.action_masks_into(&mut masks).unwrap();
        assert!(masks.iter().all(|legal| *legal));
        batch.step_into(Actions::Discrete(&[0; 20]), StepBuffers::new(20, 1).out()).unwrap();
    }
}

/// The numbers of a state are stored in single precision; what is infinite there is refused.
#[test]
fn a_state_must_fit_single_precision() {
    let mut batch = build(Walk, &config(1, 1, Autoreset::SameStep)).unwrap();
    let mut solo = build_solo(SoloWalk, &config(1, 1, Autoreset::SameStep)).unwrap();
    let mut probe = probe(Walk, &config(1, 1, Autoreset::SameStep), Precision::F64).unwrap();
    for large in [1e39, f64::INFINITY, f64::NAN] {
        let errors =
            [batch.set_state(0, &[large, 0.0]), solo.set_state(0, &[large, 0.0]), probe.set_state(&[large, 0.0])];
        for error in errors {
            let message = error.unwrap_err().to_string();
            assert!(message.starts_with("position of the state is ") && message.contains("3.4028235e38"), "{message}");
        }
    }
    batch.set_state(0, &[1e38, 0.0]).unwrap();
}
