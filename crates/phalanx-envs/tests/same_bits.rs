//! The tested promise: the same seed gives the same bits whatever the lanes, threads, chunks, tiles, batch size
//! and interruptions.

mod common;

use common::variants::{Variant, variants};
use common::{ActionTable, Buffers, batch, batch_on, config, rollout};
use phalanx_core::batch::{Autoreset, Batch, BatchConfig, LaneWidth, Reset};
use phalanx_core::policy::Policy;
use phalanx_core::probe::PolicyMemory;
use phalanx_core::rollout::{MAX_TILE, Rollout, TILE};
use phalanx_core::safety::SafetyMode;
use phalanx_core::space::{ActionMask, EnvSpec};
use phalanx_core::stats::EpisodeStats;

/// Enough for the ends of the longest episodes.
const STEPS: usize = 1_000;
const LANES: [LaneWidth; 3] = [LaneWidth::One, LaneWidth::Eight, LaneWidth::Sixteen];

/// CartPoles that differ, each with a length of its own.
const LENGTHS: Variant =
    Variant { env: "CartPole-v1", settings: &[("length", "0.4..0.6")], mode: SafetyMode::Enforce, constraints: &[] };

/// Checksum and statistics of a roll-out.
fn run(
    variant: &Variant,
    lanes: LaneWidth,
    threads: usize,
    (chunk, tile): (usize, usize),
    policy: (&str, &[(&str, &str)]),
) -> (u64, EpisodeStats) {
    // Several tiles of either kind of kernel, the last one not full; settings are many, so they get fewer.
    let num_envs = if variant.is_plain() { 531 } else { 150 };
    let mut batch = variant.batch_on(num_envs, lanes, threads);
    let mut rollout = rollout(batch.as_ref(), policy.0, policy.1);
    rollout.set_tile(tile).unwrap();
    rollout.run(batch.as_mut(), STEPS, chunk, |_| true).unwrap();
    (rollout.checksum(), *rollout.stats())
}

/// Policies with and without memory, with and without randomness.
fn policies(spec: &EnvSpec) -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    let mut policies = vec![("random", vec![])];
    // Controllers do not see masks, and have nothing to look at in an array.
    if spec.action_mask == ActionMask::None && !spec.observation.names.is_empty() {
        let field = ("obs_field", *spec.observation.names.last().unwrap());
        let range = [("control_low", "-2"), ("control_high", "2")];
        policies.push(("periodic", vec![("pulse_width", "3")]));
        policies.push(("bangbang", vec![field]));
        policies.push(("pid", [vec![field, ("ki", "0.3"), ("kd", "0.2")], range.to_vec()].concat()));
    }
    policies
}

#[test]
fn lanes_threads_chunks_and_tiles_do_not_matter() {
    for variant in variants().into_iter().chain([LENGTHS]) {
        for (policy, arguments) in policies(variant.batch_on(1, LaneWidth::Auto, 1).spec()) {
            let reference = run(&variant, LaneWidth::One, 1, (STEPS, TILE), (policy, &arguments));
            assert!(reference.1.episodes() > 0, "{variant}: something has to happen");
            let violations = &reference.1.violations()[..variant.constraints.len()];
            assert!(policy != "random" || violations.iter().all(|often| *often > 0), "{variant}: {violations:?}");
            let ways = [
                (LaneWidth::One, 2, 7, 16),
                (LaneWidth::Eight, 1, 1, 48),
                (LaneWidth::Eight, 2, 128, TILE),
                (LaneWidth::Sixteen, 1, 7, MAX_TILE),
                (LaneWidth::Sixteen, 2, 1, 32),
                (LaneWidth::Sixteen, 3, STEPS, 64),
            ];
            for (lanes, threads, chunk, tile) in ways {
                let found = run(&variant, lanes, threads, (chunk, tile), (policy, &arguments));
                let way = format!("{lanes:?} threads {threads} chunk {chunk} tile {tile}");
                assert_eq!(found, reference, "{variant} {policy} {way}");
            }
        }
    }
}

#[test]
fn a_tile_may_change_on_the_way_and_must_be_whole_blocks() {
    let variant = Variant { env: "ARC-v0", settings: &[], mode: SafetyMode::Enforce, constraints: &[] };
    let run = |tiles: [usize; 3]| {
        let mut batch = variant.batch_on(300, LaneWidth::Auto, 2);
        let mut rollout = rollout(batch.as_ref(), "random", &[]);
        for tile in tiles {
            rollout.set_tile(tile).unwrap();
            rollout.run(batch.as_mut(), 40, 8, |_| true).unwrap();
            for wrong in [0, 8, 100, MAX_TILE + 16] {
                let refused = rollout.set_tile(wrong).unwrap_err().to_string();
                assert!(refused.contains("a multiple of 16 up to 512"), "{refused}");
            }
            assert_eq!(rollout.tile(), tile);
        }
        rollout.checksum()
    };
    assert_eq!(run([512, 16, 64]), run([TILE; 3]));
}

#[test]
fn every_batch_size_works_and_a_prefix_of_a_batch_is_a_smaller_batch() {
    for variant in variants().into_iter().chain([LENGTHS]) {
        let observations = |num_envs: usize, lanes| {
            let mut batch = variant.batch_on(num_envs, lanes, 2);
            let mut rollout = rollout(batch.as_ref(), "random", &[]);
            rollout.run(batch.as_mut(), 300, 64, |_| true).unwrap();
            let mut buffers = Buffers::new(num_envs, batch.spec());
            batch.observe_into(buffers.obs()).unwrap();
            buffers.all_obs()
        };
        let whole = observations(100, LaneWidth::Sixteen);
        let dim = whole.len() / 100;
        for num_envs in [1, 2, 7, 8, 9, 15, 16, 17, 33] {
            for lanes in LANES {
                assert_eq!(
                    observations(num_envs, lanes),
                    whole[..num_envs * dim],
                    "{variant} with {num_envs} environments, {lanes:?}"
                );
            }
        }
    }
}

#[test]
fn a_restored_snapshot_goes_on_to_the_same_bits() {
    for variant in variants().into_iter().chain([LENGTHS]) {
        let fresh = |lanes| {
            let mut config = BatchConfig { lanes, ..variant.config(100, 11) };
            config.settings.push(("max_steps".to_owned(), "77".to_owned()));
            let batch = variant.batch(&config);
            let rollout = rollout(batch.as_ref(), "random", &[]);
            (batch, rollout)
        };
        let (mut batch, mut straight) = fresh(LaneWidth::Sixteen);
        straight.run(batch.as_mut(), 400, 50, |_| true).unwrap();

        let (mut first, mut interrupted) = fresh(LaneWidth::Eight);
        interrupted.run(first.as_mut(), 123, 50, |_| true).unwrap();
        let saved = (first.snapshot(), interrupted.snapshot());
        let (mut second, mut resumed) = fresh(LaneWidth::One);
        // Whatever the second batch did before must not show.
        resumed.run(second.as_mut(), 5, 5, |_| true).unwrap();
        second.restore(&saved.0).unwrap();
        resumed.restore(&saved.1).unwrap();
        resumed.run(second.as_mut(), 277, 50, |_| true).unwrap();
        assert_eq!((resumed.checksum(), resumed.stats()), (straight.checksum(), straight.stats()), "{variant}");
        assert!(second.snapshot() == batch.snapshot(), "{variant}: snapshots do not depend on the lanes");
    }
}

#[test]
fn a_snapshot_of_something_else_is_refused_and_changes_nothing() {
    let original = batch_on("CartPole-v1", 40, LaneWidth::Auto, 1, &[]);
    let snapshot = original.snapshot();
    let others = [
        ("Acrobot-v1", 40, vec![]),
        ("CartPole-v1", 41, vec![]),
        ("CartPole-v1", 40, vec![("max_steps", "7")]),
        ("CartPole-v1", 40, vec![("kinematics_integrator", "semi_implicit")]),
    ];
    for (env, num_envs, settings) in others {
        let mut other = batch_on(env, num_envs, LaneWidth::Auto, 1, &settings);
        let before = other.snapshot();
        let error = other.restore(&snapshot).unwrap_err().to_string();
        assert!(error.starts_with("snapshot "), "{error}");
        assert!(other.snapshot() == before, "{env} {num_envs} {settings:?}");
    }
}

#[test]
fn step_into_equals_a_probe_step_by_step() {
    for variant in variants() {
        for lanes in LANES {
            let num_envs = 21;
            let mut batch = variant.batch_on(num_envs, lanes, 1);
            let (dim, components) = (batch.spec().observation.dim(), batch.spec().action.components());
            let mut probe = variant.probe();
            let mut buffers = Buffers::new(num_envs, batch.spec());
            batch.observe_into(buffers.obs()).unwrap();
            assert_eq!(buffers.all_obs()[..dim], probe.observation(), "{variant}");
            for call in 0..1_200 {
                let table = ActionTable::for_batch(batch.as_ref(), call);
                batch.step_into(table.actions(), buffers.out()).unwrap();
                let step = probe.step(&table.of_env(0, components)).unwrap();
                assert_eq!(f64::from(buffers.rewards()[0]), step.reward, "{variant} call {call}");
                assert_eq!(
                    (buffers.terminated()[0], buffers.truncated()[0], buffers.violations()[0]),
                    (step.terminated, step.truncated, step.violated),
                    "{variant} call {call}"
                );
                if step.terminated || step.truncated {
                    assert_eq!(buffers.final_obs()[..dim], probe.observation(), "{variant} call {call}");
                    probe.next_episode();
                }
                assert_eq!(buffers.all_obs()[..dim], probe.observation(), "{variant} call {call}");
                assert_eq!(batch.state(0).unwrap(), probe.state(), "{variant} call {call}");
            }
        }
    }
}

#[test]
fn random_rollouts_take_the_actions_that_a_probe_takes() {
    for variant in variants() {
        let mut batch = variant.batch_on(3, LaneWidth::Sixteen, 1);
        let mut rollout = rollout(batch.as_ref(), "random", &[]);
        let mut probe = variant.probe();
        let (policy, mut memory) = (Policy::parse("random", &[], probe.spec()).unwrap(), PolicyMemory::default());
        for tick in 0..700 {
            batch.advance(&mut rollout, 1).unwrap();
            let action = probe.decide(&policy, tick, &mut memory).unwrap();
            let step = probe.step(&action).unwrap();
            if step.terminated || step.truncated {
                probe.next_episode();
            }
            assert_eq!(batch.state(0).unwrap(), probe.state(), "{variant} tick {tick}");
        }
    }
}

#[test]
fn a_roll_out_that_begins_later_draws_what_comes_then() {
    const FIRST: u64 = 1000;
    for variant in variants() {
        let mut batch = variant.batch_on(3, LaneWidth::Sixteen, 1);
        let begun = |batch: &dyn Batch| {
            let policy = Policy::parse("random", &[], batch.spec()).unwrap();
            Rollout::from_tick(policy, batch, FIRST)
        };
        let (mut rollout, start) = (begun(batch.as_ref()), batch.snapshot());
        let mut probe = variant.probe();
        let (policy, mut memory) = (Policy::parse("random", &[], probe.spec()).unwrap(), PolicyMemory::default());
        for tick in FIRST..FIRST + 50 {
            batch.advance(&mut rollout, 1).unwrap();
            let action = probe.decide(&policy, tick, &mut memory).unwrap();
            let step = probe.step(&action).unwrap();
            if step.terminated || step.truncated {
                probe.next_episode();
            }
            assert_eq!(batch.state(0).unwrap(), probe.state(), "{variant} tick {tick}");
        }
        assert_eq!((rollout.steps(), rollout.tick()), (50, FIRST + 50));
        // The first observations count once, wherever the stretches are cut, a snapshot between them included.
        batch.restore(&start).unwrap();
        let mut again = begun(batch.as_ref());
        batch.advance(&mut again, 20).unwrap();
        let saved = again.snapshot();
        let mut again = begun(batch.as_ref());
        again.restore(&saved).unwrap();
        batch.advance(&mut again, 30).unwrap();
        assert_eq!((again.checksum(), again.stats()), (rollout.checksum(), rollout.stats()), "{variant}");
    }
}

#[test]
fn a_seed_per_environment_makes_each_a_batch_of_its_own() {
    let seeds: Vec<u64> = (40..57).collect();
    for variant in variants() {
        let mut many = variant.batch(&variant.config(seeds.len(), 0));
        let dim = many.spec().observation.dim();
        let mut all = Buffers::new(seeds.len(), many.spec());
        many.reset_into(Reset::Seeds(&seeds), all.obs()).unwrap();
        let obs = all.all_obs();
        let mut run_many = rollout(many.as_ref(), "random", &[]);
        run_many.run(many.as_mut(), 600, 100, |_| true).unwrap();
        for (i, seed) in seeds.iter().enumerate() {
            let mut one = variant.batch(&variant.config(1, 0));
            let mut first = Buffers::new(1, one.spec());
            one.reset_into(Reset::Seeds(&[*seed]), first.obs()).unwrap();
            assert_eq!(first.all_obs(), obs[i * dim..(i + 1) * dim], "{variant} seed {seed}");
            let mut run_one = rollout(one.as_ref(), "random", &[]);
            run_one.run(one.as_mut(), 600, 100, |_| true).unwrap();
            assert_eq!(one.state(0).unwrap(), many.state(i).unwrap(), "{variant} seed {seed}");
        }
    }
}

#[test]
fn seeds_and_episodes_differ() {
    let starts = |seed, episodes: usize| {
        let mut batch = batch("CartPole-v1", &config(50, seed, Autoreset::Disabled));
        let mut obs = vec![0.0; 200];
        for _ in 0..episodes {
            batch.reset_into(Reset::All, (&mut obs).into()).unwrap();
        }
        batch.observe_into((&mut obs).into()).unwrap();
        obs
    };
    let all: Vec<_> = [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)]
        .into_iter()
        .flat_map(|(seed, n)| starts(seed, n))
        .map(f32::to_bits)
        .collect();
    let distinct: std::collections::HashSet<_> = all.iter().collect();
    // 1000 numbers of about 2^24: a repeat by chance has a probability of 3 %, two of 0.05 %.
    assert!(distinct.len() >= all.len() - 1, "{} of {}", distinct.len(), all.len());
}

#[test]
fn a_snapshot_brings_its_parameters() {
    let settings = [("gravity", "9.0..10.0"), ("length", "0.7")];
    let mut original = batch_on("CartPole-v1", 40, LaneWidth::Auto, 1, &settings);
    let mut straight = rollout(original.as_ref(), "random", &[]);
    let snapshot = original.snapshot();
    straight.run(original.as_mut(), 300, 100, |_| true).unwrap();
    let mut other = batch_on("CartPole-v1", 40, LaneWidth::Auto, 1, &[("masscart", "3")]);
    other.restore(&snapshot).unwrap();
    assert_eq!(other.param("gravity", 17).unwrap(), original.param("gravity", 17).unwrap());
    assert_eq!(other.param("masscart", 17).unwrap(), 1.0);
    let mut again = rollout(other.as_ref(), "random", &[]);
    again.run(other.as_mut(), 300, 100, |_| true).unwrap();
    assert_eq!(again.checksum(), straight.checksum());
}

#[test]
fn no_steps_change_nothing() {
    let mut batch = batch_on("CartPole-v1", 20, LaneWidth::Auto, 1, &[]);
    let mut with = rollout(batch.as_ref(), "random", &[]);
    batch.advance(&mut with, 0).unwrap();
    batch.advance(&mut with, 50).unwrap();
    let mut batch = batch_on("CartPole-v1", 20, LaneWidth::Auto, 1, &[]);
    let mut without = rollout(batch.as_ref(), "random", &[]);
    batch.advance(&mut without, 50).unwrap();
    assert_eq!(with.checksum(), without.checksum());
}

/// Mirror images are told apart: all observations of one run are the negatives of the other's.
#[test]
fn mirrored_runs_have_different_checksums() {
    let checksums = [(1.0, "1"), (-1.0, "0")].map(|(sign, action)| {
        let mut batch = batch_on("CartPole-v1", 1, LaneWidth::Auto, 1, &[]);
        batch.set_state(0, &[0.01, -0.02, 0.03, -0.04].map(|value| sign * value)).unwrap();
        let mut rollout = rollout(batch.as_ref(), "constant", &[("action", action)]);
        rollout.run(batch.as_mut(), 5, 5, |_| true).unwrap();
        rollout.checksum()
    });
    assert_ne!(checksums[0], checksums[1]);
}
