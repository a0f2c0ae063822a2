//! Episodes step by step.

use bytemuck::Zeroable;
use phalanx_core::rng::{Purpose, Stream};

use super::*;
use crate::arc::grid::bytes;
use crate::arc::ops::RESIZE;
use crate::arc::state::words;
use crate::arc::task::{Grid, Pair, Task};
use crate::arc::testing::{canvas, random_selection, random_words};

type Env = ArcEnv<5, 1, { words(5, 1) }>;
type Small = State<5, 1, { words(5, 1) }>;

fn grid(text: &str) -> Grid {
    let padded = canvas::<5, 1>(text);
    Grid::from_fn(padded.size.height.into(), padded.size.width.into(), |r, c| padded.get(r, c))
}

fn pair(input: &str, output: &str) -> Pair {
    Pair { input: grid(input), output: (!output.is_empty()).then(|| grid(output)) }
}

fn env(config: Config) -> Env {
    let task = Task {
        id: "one".into(),
        train: vec![pair("1 0 / 3 4", "1 2 / 3 4"), pair("5 5", "6 6"), pair("7", "8")],
        test: vec![pair("2 0 / 3 4", "2 2 / 3 4"), pair("9 9", "")],
    };
    ArcEnv::new(Arc::new(TaskPool::new([&task]).unwrap()), config).unwrap()
}

fn begin(env: &Env, pair: u32) -> Small {
    let mut state = Small::zeroed();
    env.begin(&mut state, pair, &env.pool().pairs[pair as usize].input);
    state
}

fn act(op: u8, cells: &[(usize, usize)]) -> Action<5> {
    Action { op, chosen: Selection::cells(cells).into() }
}

#[track_caller]
fn gives(outcome: Outcome, reward: f32, terminated: bool) {
    assert!((outcome.reward - reward).abs() < 1e-6, "reward {} instead of {reward}", outcome.reward);
    assert_eq!(outcome.terminated, terminated);
}

#[test]
fn the_example_of_the_reference() {
    let env = env(Config::default());
    let mut state = begin(&env, 0);
    assert_eq!(env.info(&state).similarity, 0.75);
    assert_eq!(env.info(&state).operation, -1);
    gives(env.step(&mut state, &act(2, &[(0, 1)])), 0.24, false);
    assert!(env.info(&state).solved);
    gives(env.step(&mut state, &act(34, &[])), 9.99, true);
    let info = env.info(&state);
    assert_eq!((info.task, info.pair, info.attempts, info.steps, info.operation), ("one", 0, 1, 2, 34));
}

#[test]
fn an_unsolved_submission_costs_and_ends_when_attempts_are_used_up() {
    let reward = Reward { unsolved_submission_penalty: -1.0, ..Reward::default() };
    let once = env(Config { reward, ..Config::default() });
    gives(once.step(&mut begin(&once, 0), &act(34, &[])), -1.01, true);
    let thrice = env(Config { reward, max_attempts: 3, ..Config::default() });
    let mut state = begin(&thrice, 0);
    gives(thrice.step(&mut state, &act(34, &[])), -1.01, false);
    gives(thrice.step(&mut state, &act(34, &[])), -1.01, false);
    let mut other = state;
    gives(thrice.step(&mut other, &act(34, &[])), -1.01, true);
    gives(thrice.step(&mut state, &act(2, &[(0, 1)])), 0.24, false);
    gives(thrice.step(&mut state, &act(34, &[])), 9.99, true);
}

#[test]
fn test_mode_scores_the_hidden_output_without_shaping() {
    let env = env(Config { mode: Mode::Test, ..Config::default() });
    let mut state = begin(&env, 3);
    gives(env.step(&mut state, &act(2, &[(0, 1)])), -0.01, false);
    gives(env.step(&mut state, &act(34, &[])), 9.99, true);
    // Without an output there is neither similarity nor bonus, even for a grid that is all padding.
    let mut state = begin(&env, 4);
    assert_eq!((env.info(&state).similarity, env.info(&state).solved), (0.0, false));
    gives(env.step(&mut state, &act(34, &[])), -0.01, true);
}

#[test]
fn an_oversized_grid_is_not_solved() {
    let env = env(Config::default());
    let mut state = begin(&env, 2);
    gives(env.step(&mut state, &act(8, &[(0, 0)])), 0.99, false);
    gives(env.step(&mut state, &act(RESIZE, &[(0, 1)])), -0.51, false);
    assert!(!env.info(&state).solved);
    gives(env.step(&mut state, &act(34, &[])), -0.01, true);
}

#[test]
fn operations_that_are_not_allowed_follow_the_policy() {
    let run = |invalid_operation| {
        let env = env(Config { operations: OperationSet::RAW, invalid_operation, ..Config::default() });
        let mut state = begin(&env, 0);
        let outcome = env.step(&mut state, &act(12, &[(0, 1)]));
        (outcome, env.info(&state).operation, env.info(&state).rejected, *state.view().grid)
    };
    let start = canvas::<5, 1>("1 0 / 3 4").cells;
    let (outcome, operation, rejected, grid) = run(InvalidOperation::Clip);
    gives(outcome, -0.01, false);
    assert_eq!((operation, rejected, grid), (9, false, canvas::<5, 1>("1 9 / 3 4").cells));
    let (outcome, operation, rejected, grid) = run(InvalidOperation::Reject);
    gives(outcome, -0.01, false);
    assert_eq!((operation, rejected, grid), (12, true, start));
    let (outcome, operation, rejected, grid) = run(InvalidOperation::Penalize);
    gives(outcome, -0.11, false);
    assert_eq!((operation, rejected, grid), (12, true, start));
    let (outcome, operation, rejected, grid) = run(InvalidOperation::PassThrough);
    gives(outcome, 0.24, false);
    assert_eq!((operation, rejected, grid), (12, false, canvas::<5, 1>("1 2 / 3 4").cells));
}

#[test]
fn a_state_may_allow_less_than_the_configuration() {
    let env = env(Config { invalid_operation: InvalidOperation::Reject, ..Config::default() });
    let mut state = begin(&env, 0);
    state.view_mut().head.set_allowed(1 << SUBMIT);
    assert_eq!(env.allowed(state.view().head), OperationSet::of(&[34]));
    env.step(&mut state, &act(2, &[(0, 1)]));
    assert!(env.info(&state).rejected);
    assert!(env.step(&mut state, &act(34, &[])).terminated);
}

#[test]
fn resets_draw_every_pair_of_the_mode_and_no_other() {
    for (mode, pairs) in [(Mode::Train, 0..3), (Mode::Test, 3..5)] {
        let env = env(Config { mode, ..Config::default() });
        let stream = Stream::<f32>::of_seed(1, 0);
        let mut counts = [0_usize; 5];
        for episode in 0..3_000 {
            let mut state = Small::zeroed();
            env.reset(&mut state, &mut stream.draws(Purpose::Reset, episode, 0));
            counts[state.view().head.pair as usize] += 1;
            assert_eq!(*state.view().grid, env.pool().pairs[state.view().head.pair as usize].input.cells);
        }
        let expected = 3_000 / pairs.len();
        for (pair, count) in counts.iter().enumerate() {
            let wanted = if pairs.contains(&pair) { expected } else { 0 };
            assert!(count.abs_diff(wanted) < 150, "{mode:?}: {counts:?}");
        }
    }
}

#[test]
fn channels_are_in_their_order() {
    let everything = Channels {
        one_hot: false,
        active: true,
        clipboard: true,
        input: true,
        selection: true,
        target: true,
        context: 3,
        steps: true,
    };
    for mode in [Mode::Train, Mode::Test] {
        let env = env(Config { mode, channels: everything, max_steps: 8, ..Config::default() });
        let mut state = begin(&env, if mode == Mode::Train { 0 } else { 3 });
        env.step(&mut state, &act(28, &[(1, 0)]));
        env.step(&mut state, &act(2, &[(0, 1)]));
        let names: Vec<String> = everything.describe().into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names.len(), everything.count());
        let mut out = vec![99_i8; env.observation_len()];
        env.observe(&state, &mut out);
        let mut floats = vec![99.0_f32; out.len()];
        env.observe(&state, &mut floats);
        assert!(out.iter().zip(&floats).all(|(byte, float)| f32::from(*byte) == *float));
        let plane = |name: &str| {
            let k = names.iter().position(|n| n == name).unwrap();
            out.chunks_exact(names.len()).map(|cell| cell[k]).collect::<Vec<_>>()
        };
        let flat = |text: &str| {
            let grid = canvas::<5, 1>(text);
            (0..25).map(|i| grid.get(i / 5, i % 5)).collect::<Vec<_>>()
        };
        let nothing = vec![-1; 25];
        let marked = |cells: &[usize]| (0..25).map(|i| i8::from(cells.contains(&i))).collect::<Vec<_>>();
        assert_eq!(plane("active"), marked(&[0, 1, 5, 6]));
        assert_eq!(plane("selection"), marked(&[1]));
        assert_eq!(plane("steps"), vec![25; 25]);
        assert_eq!(plane("clipboard").iter().filter(|cell| **cell >= 0).collect::<Vec<_>>(), [&3]);
        assert_eq!(plane("clipboard")[5], 3);
        if mode == Mode::Train {
            assert_eq!(plane("grid"), flat("1 2 / 3 4"));
            assert_eq!(plane("input"), flat("1 0 / 3 4"));
            assert_eq!(plane("target"), flat("1 2 / 3 4"));
            // The pair that is being solved is not among its own demonstrations.
            assert_eq!((plane("context_in_0"), plane("context_out_0")), (flat("5 5"), flat("6 6")));
            assert_eq!((plane("context_in_1"), plane("context_out_1")), (flat("7"), flat("8")));
            assert_eq!((plane("context_in_2"), plane("context_out_2")), (nothing.clone(), nothing));
        } else {
            assert_eq!(plane("target"), nothing, "a test never shows its answer");
            assert_eq!((plane("context_in_0"), plane("context_out_0")), (flat("1 0 / 3 4"), flat("1 2 / 3 4")));
            assert_eq!(plane("context_out_2"), flat("8"));
        }
    }
}

#[test]
fn one_hot_planes_name_each_cell_once() {
    let env = env(Config { channels: Channels { one_hot: true, ..Channels::default() }, ..Config::default() });
    let state = begin(&env, 0);
    let mut out = vec![9_i8; env.observation_len()];
    assert_eq!(out.len(), 275);
    env.observe(&state, &mut out);
    for (i, cell) in out.chunks_exact(11).enumerate() {
        let colour = bytes(state.view().grid)[i / 5 * 8 + i % 5];
        assert!(cell.iter().enumerate().all(|(k, value)| *value == i8::from(k as i8 == colour + 1)));
    }
}

/// What a step reports is what counting from scratch gives, for thousands of random steps.
#[test]
fn random_episodes_stay_sound() {
    let env = env(Config { max_attempts: 3, ..Config::default() });
    let mut word = random_words(11);
    for episode in 0..200 {
        let mut state = begin(&env, episode % 3);
        let mut total = 0.0;
        let start = env.info(&state).similarity;
        for step in 1..=100 {
            let (op, selection) = ((word() % 40) as u8, random_selection(&mut word));
            let outcome = env.step(&mut state, &Action { op, chosen: selection.into() });
            let view = state.view();
            let grid = Canvas { cells: *view.grid, size: view.head.size };
            let target = &env.pool().pairs[view.head.pair as usize].target;
            assert!(grid.is_sound());
            let info = env.info(&state);
            assert_eq!(info.solved, grid == *target);
            assert_eq!(info.solved, info.similarity == 1.0);
            assert_eq!((info.steps, info.operation), (step, op.min(34) as i8));
            total += outcome.reward + 0.01 - if outcome.terminated && info.solved { 10.0 } else { 0.0 };
            if outcome.terminated {
                break;
            }
        }
        // Shaping telescopes: what was gained is where it ended minus where it began.
        assert!((total - (env.info(&state).similarity - start)).abs() < 1e-4);
    }
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    let mut env = env(Config::default());
    let message = env.configure(|config| config.max_attempts = 4).unwrap_err().to_string();
    assert_eq!(message, "max_attempts is 4, but must be from 1 to 3");
    assert!(env.configure(|config| config.max_steps = 0).is_err());
    assert!(env.configure(|config| config.subset = vec![1]).is_err());
    let nothing = |config: &mut Config| {
        (config.operations, config.dynamic_action_filtering) = (OperationSet(0), true);
    };
    assert!(env.configure(nothing).is_err(), "an action space without actions");
    assert_eq!(*env.config(), Config::default());
    env.configure(|config| {
        (config.operations, config.dynamic_action_filtering) = (OperationSet::RAW, true);
    })
    .unwrap();
    assert_eq!(env.encoding().flat_size(), Some(12 * 625));
}
