//! What tables must learn, judged exactly, on one thread and on many.

use std::collections::HashMap;

use phalanx_core::batch::{Actions, ActionsMut, Autoreset, Batch, BatchConfig, StepBuffers, build};
use phalanx_core::env::{Discrete, LaneEnv, Step};
use phalanx_core::lane_struct;
use phalanx_core::lanes::Real;
use phalanx_core::rng::Draws;
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace};
use phalanx_envs::registry;

use super::parallel::{Mode, ParallelSettings, parallel};
use super::self_play::self_play;
use super::single::{Single, single};
use super::table::{Dense, Legal, Table};
use super::*;
use crate::learner::{Learner, Report};
use crate::state::State;

fn config(num_envs: usize, seed: u64, settings: &[(&str, &str)]) -> BatchConfig {
    let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    BatchConfig { num_envs, seed, autoreset: Autoreset::SameStep, settings, ..BatchConfig::default() }
}

fn batch(name: &str, num_envs: usize, settings: &[(&str, &str)]) -> Box<dyn Batch> {
    registry::find(name).unwrap().batch(&config(num_envs, 0, settings)).unwrap()
}

fn games(num_envs: usize) -> Box<dyn Batch> {
    batch("TicTacToe-v0", num_envs, &[])
}

fn train(learner: &mut dyn Learner, transitions: u64) -> Report {
    let mut report = Report::default();
    while learner.global_step() < transitions {
        learner.advance(transitions, &mut report).unwrap();
    }
    report
}

fn table_of(state: &State, states: usize, actions: usize) -> Dense<f32> {
    Dense::load(states, actions, &state.state("table")).unwrap()
}

const LINES: [u32; 8] = [0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124];
const FULL: u32 = 0o777;

fn wins(marks: u32) -> bool {
    LINES.iter().any(|line| marks & line == *line)
}

fn index(x: u32, o: u32) -> usize {
    (0..9).fold(0, |index, cell| 3 * index + (x >> cell & 1) as usize + 2 * (o >> cell & 1) as usize)
}

/// A greedy player, judged by playing against everything that can happen.
struct Judge<'a> {
    table: &'a Dense<f32>,
    known: HashMap<(u32, u32), f64>,
}

impl Judge<'_> {
    /// The player's marks after its move.
    fn moved(&self, own: u32, other: u32) -> u32 {
        let x_moves = own.count_ones() == other.count_ones();
        let state = if x_moves { index(own, other) } else { index(other, own) };
        own | 1 << self.table.argmax(state, Legal::Bits(!(own | other) & FULL)).unwrap()
    }

    /// What the player gets from here, the opponent's replies joined in one way or another.
    fn value(&mut self, own: u32, other: u32, join: fn(&[f64]) -> f64) -> f64 {
        if let Some(value) = self.known.get(&(own, other)) {
            return *value;
        }
        let after = self.moved(own, other);
        let value = match (wins(after), after | other == FULL) {
            (true, _) => 1.0,
            (_, true) => 0.0,
            _ => {
                let free = (0..9).filter(|cell| (after | other) >> cell & 1 == 0);
                let values: Vec<f64> = free
                    .map(|cell| match other | 1 << cell {
                        reply if wins(reply) => -1.0,
                        reply if after | reply == FULL => 0.0,
                        reply => self.value(after, reply, join),
                    })
                    .collect();
                join(&values)
            }
        };
        self.known.insert((own, other), value);
        value
    }

    /// The value of moving first, and those of answering each opening.
    fn first_and_second(&mut self, join: fn(&[f64]) -> f64) -> (f64, Vec<f64>) {
        (self.value(0, 0, join), (0..9).map(|cell| self.value(0, 1 << cell, join)).collect())
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(1.0, f64::min)
}

/// The exact mean reward against the random opponent.
fn mean_reward(learner: &dyn Learner) -> f64 {
    let table = table_of(&learner.save(), 19_683, 9);
    let (first, second) = Judge { table: &table, known: HashMap::new() }.first_and_second(mean);
    (first + mean(&second)) / 2.0
}

const OPTIMUM: f64 = 0.959_829_8;

#[test]
fn tic_tac_toe_is_learnt_in_a_million_transitions() {
    for seed in 0..4 {
        let mut learner = single(Settings::tic_tac_toe(1_000_000), seed, games(64)).unwrap();
        train(&mut *learner, 1_000_000);
        let reward = mean_reward(&*learner);
        println!("seed {seed}: {reward}");
        assert!((0.95..=OPTIMUM).contains(&reward), "seed {seed}: {reward}");
    }
}

/// Other algorithms, other rates, other ways to treat batches: none is so fast, all get there.
#[test]
fn every_variant_learns_tic_tac_toe() {
    let recipe = Settings::tic_tac_toe(2_000_000);
    let by_visits = Settings { gamma: 1.0, learning_rate: Schedule::Visit { power: 0.8 }, ..recipe };
    let variants = [
        Settings { algorithm: Algorithm::ExpectedSarsa, ..recipe },
        Settings { batch_update: BatchUpdate::UniqueMean, ..recipe },
        Settings { table: Kind::Sparse, ..recipe },
        by_visits,
    ];
    for settings in variants {
        let mut learner = single(settings, 0, games(64)).unwrap();
        train(&mut *learner, 2_000_000);
        let reward = mean_reward(&*learner);
        println!("{settings:?}: {reward}");
        assert!((0.95..=OPTIMUM).contains(&reward), "{settings:?}: {reward}");
    }
    // The value of SARSA is that of a policy that still errs in one move of ten.
    let mut learner = single(Settings { algorithm: Algorithm::Sarsa, ..recipe }, 0, games(64)).unwrap();
    train(&mut *learner, 2_000_000);
    assert!((0.94..=OPTIMUM).contains(&mean_reward(&*learner)), "SARSA: {}", mean_reward(&*learner));
}

#[test]
fn double_q_learning_learns_tic_tac_toe() {
    let settings = Settings { algorithm: Algorithm::DoubleQ, ..Settings::tic_tac_toe(2_000_000) };
    let mut learner = Single::<f32, Dense<f32>>::new(settings, 0, games(64)).unwrap();
    train(&mut learner, 2_000_000);
    // Both tables together choose.
    let mut table = Dense::new(19_683, 9);
    for state in 0..19_683 {
        let both = learner.table().stored(state).unwrap();
        table.row_mut(state).iter_mut().zip(0..9).for_each(|(sum, action)| *sum = both[action] + both[action + 9]);
    }
    let (first, second) = Judge { table: &table, known: HashMap::new() }.first_and_second(mean);
    let reward = (first + mean(&second)) / 2.0;
    assert!((0.95..=OPTIMUM).contains(&reward), "{reward}");
    // And so they do when they are judged.
    let mut greedy = learner.greedy();
    let mut action = [0];
    let obs: Vec<f32> = (0..10).map(|i| if i == 9 { 6_561.0 } else { 0.0 }).collect();
    let masks: Vec<bool> = (0..9).map(|cell| cell != 0).collect();
    greedy.act(&obs, &masks, ActionsMut::Discrete(&mut action));
    assert_eq!(Some(action[0] as usize), table.argmax(6_561, Legal::Flags(&masks)));
}

/// All kinds of tables, both precisions apart, learn the same bits.
#[test]
fn all_kinds_of_tables_learn_the_same() {
    for precision in [Precision::F32, Precision::F64] {
        for algorithm in [Algorithm::QLearning, Algorithm::Sarsa, Algorithm::ExpectedSarsa, Algorithm::DoubleQ] {
            let learnt = |table| {
                let settings = Settings { table, precision, algorithm, ..Settings::tic_tac_toe(60_000) };
                let mut learner = single(settings, 5, games(37)).unwrap();
                train(&mut *learner, 60_000);
                learner.save()
            };
            let reference = learnt(Kind::List);
            for kind in [Kind::Dense, Kind::Sparse, Kind::Auto] {
                assert!(learnt(kind) == reference, "{kind:?} {precision:?} {algorithm:?}");
            }
        }
    }
}

/// An agent that only explores, over more than a million games: by symmetry it wins as often as it loses.
#[test]
fn a_random_agent_gets_nothing() {
    let settings = Settings { epsilon: Schedule::Constant(1.0), ..Settings::default() };
    let mut learner = single(settings, 2, games(256)).unwrap();
    let (mut report, mut returns, mut lengths, mut count) = (Report::default(), 0.0, 0.0, 0.0);
    while learner.global_step() < 4_000_000 {
        learner.advance(u64::MAX, &mut report).unwrap();
        count += report.episodes.len() as f64;
        returns += report.episodes.iter().map(|episode| f64::from(episode.episode_return)).sum::<f64>();
        lengths += report.episodes.iter().map(|episode| f64::from(episode.length)).sum::<f64>();
        report.clear();
    }
    assert!(count > 1e6 && (returns / count).abs() < 0.004, "{returns} in {count} games");
    assert!((lengths / count - (4.169_048 + 3.457_143) / 2.0).abs() < 0.005, "{}", lengths / count);
}

#[test]
fn a_bandit_is_learnt_exactly() {
    for mode in [None, Some(Mode::Deterministic), Some(Mode::Asynchronous), Some(Mode::Racy)] {
        let settings = Settings { gamma: 0.0, epsilon: Schedule::Constant(0.3), ..Settings::default() };
        let bandit = || batch("TwoArmedBandit-v0", 8, &[("episode_len", "5")]);
        let mut learner = match mode {
            None => single(settings, 1, bandit()).unwrap(),
            Some(mode) => {
                let sharing = ParallelSettings { mode, threads: 2, shards: 3, steps_per_sync: 40 };
                parallel(settings, sharing, 1, &mut |_| Ok(bandit())).unwrap()
            }
        };
        let report = train(&mut *learner, 20_000);
        assert!(report.episodes.iter().all(|episode| episode.length == 5 && episode.episode_return <= 5.0));
        assert!(report.episodes.len() >= 20_000 / 5 - 8 * 3);
        let table = table_of(&learner.save(), 1, 2);
        // Arm 0 never pays; the value of arm 1 has reached 1 up to rounding.
        assert_eq!(table.get(0, 0), 0.0);
        assert!((table.get(0, 1) - 1.0).abs() < 1e-5, "{mode:?}: {}", table.get(0, 1));
    }
}

lane_struct! {
    /// Where the walker is: 0 at the start, 1 for ever after.
    struct Place<R> {
        at: R,
    }
}

/// Two states: from the first every action leads to the second, from there nowhere; a step from there pays 1.
#[derive(Clone, Debug)]
struct Walk;

impl LaneEnv for Walk {
    type State<R: Real> = Place<R>;
    type Params<R: Real> = ();
    type Action<R: Real> = Discrete<R>;
    type Obs<R: Real> = [R; 1];

    fn spec(&self) -> EnvSpec {
        let seen = ObservationSpace::vector(&["place"], vec![0.0], vec![1.0]);
        EnvSpec::of::<Self>("Walk-v0", "a walk of two steps that is cut off", seen, ActionSpace::Discrete { n: 2 }, 2)
    }

    fn reset<R: Real>(&self, (): &(), _: &mut Draws<R>) -> Place<R> {
        Place { at: R::splat(0.0) }
    }

    fn step<R: Real>(&self, (): &(), state: &Place<R>, _: Discrete<R>, _: &mut Draws<R>) -> Step<Place<R>, R> {
        Step { state: Place { at: R::splat(1.0) }, reward: state.at, terminated: state.at.lt(R::splat(0.0)) }
    }

    fn observe<R: Real>(&self, (): &(), state: &Place<R>) -> [R; 1] {
        [state.at]
    }
}

/// With γ = 1/2 the second state is worth 1 + 1/2 + 1/4 + ... = 2 and the first 1. Cut at truncation the second would
/// be worth 1; with the first observation of the next episode in place of the last, 1 / (1 - γ²) = 4/3.
#[test]
fn truncation_does_not_cut_the_future() {
    let walks = || build(Walk, &config(8, 0, &[])).unwrap();
    for algorithm in [Algorithm::QLearning, Algorithm::Sarsa, Algorithm::ExpectedSarsa, Algorithm::DoubleQ] {
        for mode in [None, Some(Mode::Deterministic), Some(Mode::Asynchronous)] {
            let (learning_rate, epsilon) = (Schedule::Constant(0.2), Schedule::Constant(0.5));
            let settings = Settings { algorithm, gamma: 0.5, learning_rate, epsilon, ..Settings::default() };
            let mut learner = match mode {
                None => single(settings, 0, walks()).unwrap(),
                Some(mode) => {
                    let sharing = ParallelSettings { mode, threads: 2, shards: 2, steps_per_sync: 100 };
                    parallel(settings, sharing, 0, &mut |_| Ok(walks())).unwrap()
                }
            };
            train(&mut *learner, 20_000);
            let actions = 2 * algorithm.tables();
            let table = table_of(&learner.save(), 2, actions);
            for action in 0..actions {
                let (first, second) = (table.get(0, action), table.get(1, action));
                assert!((first - 1.0).abs() < 1e-3 && (second - 2.0).abs() < 1e-3, "{algorithm:?} {mode:?}: {table:?}");
            }
        }
    }
}

/// What wrong treatments of truncation would give, so that the test above is known to tell them apart.
#[test]
fn wrong_treatments_of_truncation_give_other_values() {
    use super::update::{Rate, Transition, Updater};
    let value = |last: Transition| {
        let mut table = Dense::<f64>::new(2, 2);
        let mut updater = Updater::new(Algorithm::QLearning, BatchUpdate::Sequential, 0.5, 2);
        for _ in 0..1_000 {
            updater.apply(&mut table, None, &[Transition::to(0, 0, 0.0, 1, 2), last], Rate::Fixed(0.2), 0.0);
        }
        table.get(1, 0)
    };
    assert!((value(Transition::to(1, 0, 1.0, 1, 2)) - 2.0).abs() < 1e-9);
    assert!((value(Transition::end(1, 0, 1.0)) - 1.0).abs() < 1e-9);
    assert!((value(Transition::to(1, 0, 1.0, 0, 2)) - 4.0 / 3.0).abs() < 1e-9);
}

/// Games cut off after two moves: the future of a cut is that of the legal actions only.
#[test]
fn masks_hold_beyond_a_truncation() {
    let cut = || batch("TicTacToe-v0", 64, &[("max_steps", "2")]);
    let settings = Settings::tic_tac_toe(300_000);
    let mut alone = single(settings, 0, cut()).unwrap();
    train(&mut *alone, 300_000);
    let sharing = ParallelSettings { threads: 2, shards: 4, ..ParallelSettings::default() };
    let mut shared = parallel(settings, sharing, 0, &mut |_| Ok(cut())).unwrap();
    train(&mut *shared, 300_000);
    for learner in [alone, shared] {
        // Nothing illegal was ever learnt.
        table_of(&learner.save(), 19_683, 9).for_each_visited(|state, row| {
            for (cell, value) in row.iter().enumerate() {
                assert!(*value == 0.0 || (state / 3_usize.pow(8 - cell as u32)).is_multiple_of(3), "{state} {cell}");
            }
        });
    }
}

fn sharded(settings: Settings, threads: usize, shards: usize, agents: usize, seed: u64) -> Box<dyn Learner> {
    let sharing = ParallelSettings { threads, shards, ..ParallelSettings::default() };
    parallel(settings, sharing, seed, &mut |_| Ok(games(agents))).unwrap()
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let recipe = Settings::tic_tac_toe(200_000);
    for settings in [recipe, Settings { learning_rate: Schedule::Visit { power: 0.8 }, table: Kind::Sparse, ..recipe }]
    {
        let learnt = |threads| {
            let mut learner = sharded(settings, threads, 16, 20, 3);
            let report = train(&mut *learner, 200_000);
            (learner.save(), report.episodes)
        };
        let one = learnt(1);
        assert!(learnt(2) == one);
        assert!(learnt(4) == one);
    }
}

#[test]
fn one_shard_is_the_single_thread() {
    let recipe = Settings::tic_tac_toe(100_000);
    for settings in [
        recipe,
        Settings { algorithm: Algorithm::Sarsa, ..recipe },
        Settings { algorithm: Algorithm::DoubleQ, precision: Precision::F64, ..recipe },
        Settings { learning_rate: Schedule::Visit { power: 0.8 }, ..recipe },
    ] {
        let mut alone = single(settings, 9, games(50)).unwrap();
        let mut shared = sharded(settings, 2, 1, 50, 9);
        train(&mut *alone, 100_000);
        train(&mut *shared, 100_000);
        assert_eq!(alone.save().state("table"), shared.save().state("table"));
        assert_eq!(alone.global_step(), shared.global_step());
    }
}

#[test]
fn threads_learn_tic_tac_toe() {
    for (mode, threads) in [
        (Mode::Deterministic, 2),
        (Mode::Asynchronous, 1),
        (Mode::Asynchronous, 2),
        (Mode::Asynchronous, 4),
        (Mode::Racy, 2),
    ] {
        let sharing = ParallelSettings { mode, threads, ..ParallelSettings::default() };
        let settings = Settings::tic_tac_toe(2_000_000);
        let mut learner = parallel(settings, sharing, 0, &mut |_| Ok(games(64))).unwrap();
        train(&mut *learner, 2_000_000);
        let reward = mean_reward(&*learner);
        println!("{mode:?} {threads}: {reward}");
        assert!((0.95..=OPTIMUM).contains(&reward), "{mode:?} {threads}: {reward}");
    }
}

/// Trains, saves, goes on in a new learner, and compares with one that was never interrupted.
fn resumes(make: &dyn Fn() -> Box<dyn Learner>, half: u64) {
    let mut whole = make();
    train(&mut *whole, half);
    let saved = whole.save();
    train(&mut *whole, 2 * half);
    let mut resumed = make();
    train(&mut *resumed, half / 3);
    resumed.restore(&saved).unwrap();
    assert!(resumed.save() == saved);
    train(&mut *resumed, 2 * half);
    assert!(resumed.save() == whole.save());
}

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    let recipe = Settings::tic_tac_toe(64_000);
    for settings in [
        recipe,
        Settings { algorithm: Algorithm::Sarsa, ..recipe },
        Settings { algorithm: Algorithm::DoubleQ, table: Kind::Sparse, ..recipe },
        Settings { learning_rate: Schedule::Visit { power: 0.8 }, ..recipe },
    ] {
        resumes(&|| single(settings, 4, games(32)).unwrap(), 32_000);
        resumes(&|| sharded(settings, 2, 4, 20, 4), 32_000);
    }
    let sharing = ParallelSettings { mode: Mode::Asynchronous, threads: 1, ..ParallelSettings::default() };
    resumes(&|| parallel(recipe, sharing, 4, &mut |_| Ok(games(20))).unwrap(), 32_000);
}

/// However the steps are cut into calls, the result is the same.
#[test]
fn calls_do_not_matter() {
    let settings = Settings::tic_tac_toe(50_000);
    let mut whole = single(settings, 4, games(32)).unwrap();
    train(&mut *whole, 50_000);
    let mut parts = single(settings, 4, games(32)).unwrap();
    for end in [31, 32, 1_000, 7_777, 30_000, 50_000] {
        train(&mut *parts, end);
    }
    // The first parts overshoot by a step that did not fit.
    train(&mut *whole, parts.global_step());
    train(&mut *parts, whole.global_step());
    assert!(parts.save() == whole.save());
}

#[test]
fn self_play_ends_in_draws_and_never_loses() {
    let itself = || batch("TicTacToe-v0", 64, &[("opponent", "self_play")]);
    for seed in 0..3 {
        let mut learner = self_play(self_play::settings(), seed, itself()).unwrap();
        train(&mut *learner, 1_000_000);
        let table = table_of(&learner.save(), 19_683, 9);
        let mut judge = Judge { table: &table, known: HashMap::new() };
        // Against everything that anybody could play, the perfect opponent included.
        let (first, second) = judge.first_and_second(worst);
        assert!(first >= 0.0 && worst(&second) >= 0.0, "{first} {second:?}");
        // Against itself.
        let (mut own, mut other) = (0, 0);
        while !wins(own) && !wins(other) && own | other != FULL {
            (own, other) = (other, judge.moved(own, other));
        }
        assert!(!wins(own) && !wins(other));
        // Against the environment's perfect opponent.
        let mut perfect = batch("TicTacToe-v0", 32, &[("opponent", "perfect")]);
        let (mut out, mut masks, mut actions) = (StepBuffers::new(32, 10), vec![true; 32 * 9], vec![0; 32]);
        let mut greedy = learner.greedy();
        perfect.observe_into((&mut out.obs).into()).unwrap();
        for _ in 0..100 {
            perfect.action_masks_into(&mut masks).unwrap();
            greedy.act(&out.obs, &masks, ActionsMut::Discrete(&mut actions));
            perfect.step_into(Actions::Discrete(&actions), out.out()).unwrap();
            assert!(out.rewards.iter().all(|reward| *reward == 0.0));
        }
    }
    let message = self_play(self_play::settings(), 0, games(8)).map(|_| ()).unwrap_err().to_string();
    assert_eq!(message, "env is TicTacToe-v0, but self-play needs an environment with opponent=self_play");
}

#[test]
fn what_no_table_can_learn_is_refused() {
    let refused = |settings: Settings, batch| single(settings, 0, batch).map(|_| ()).unwrap_err().to_string();
    let settings = Settings::default();
    let message = refused(settings, batch("CartPole-v1", 2, &[]));
    assert!(
        message.starts_with("env is CartPole-v1, but a table needs an observation that is one whole number"),
        "{message}"
    );
    let message = refused(settings, batch("Pendulum-v1", 2, &[]));
    assert!(message.contains("actions of one discrete choice"), "{message}");
    let next_step = BatchConfig { autoreset: Autoreset::NextStep, ..config(2, 0, &[]) };
    let message = refused(settings, registry::find("TicTacToe-v0").unwrap().batch(&next_step).unwrap());
    assert!(message.contains("same step"), "{message}");
    assert_eq!(refused(Settings { gamma: 1.5, ..settings }, games(1)), "agent.gamma is 1.5, but must be from 0 to 1");
    let none = ParallelSettings { steps_per_sync: 0, ..ParallelSettings::default() };
    let message = parallel(settings, none, 0, &mut |_| Ok(games(1))).map(|_| ()).unwrap_err().to_string();
    assert_eq!(message, "steps_per_sync is 0, but must be at least 1");
}
