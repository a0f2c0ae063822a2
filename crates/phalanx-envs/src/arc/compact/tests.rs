//! Every operation against its definition in [`ops`](super::super::ops), state by state.

use std::sync::Arc;

use phalanx_core::lanes::Stored;
use phalanx_core::solo::Outcome;

use super::*;
use crate::arc::action::{Action, Encoding, Format, InvalidOperation, OperationSet};
use crate::arc::env::{ArcEnv, Config};
use crate::arc::reward::{Mode, Preset, Reward};
use crate::arc::task::{Grid, Pair, Task, TaskPool};
use crate::arc::testing::{random_canvas, random_selection, random_words};

type Env = ArcEnv<SIDE, 1, { words(SIDE, 1) }>;

/// A grid with few colours, so that floods spread, or with all of them.
fn grid(word: &mut impl FnMut() -> u32) -> Canvas<SIDE, 1> {
    let colours = [2, 3, 10][word() as usize % 3];
    random_canvas(word, colours)
}

/// Pairs of all sizes, some without an answer, some whose answer is the input.
fn pool(word: &mut impl FnMut() -> u32) -> Arc<TaskPool<SIDE, 1>> {
    let tasks: Vec<Task> = (0..20)
        .map(|number| {
            let mut pair = |has_output: bool| {
                let file = |canvas: Canvas<SIDE, 1>| {
                    Grid::from_fn(canvas.size.height.into(), canvas.size.width.into(), |r, c| canvas.get(r, c))
                };
                let input = file(grid(word));
                let output = if word().is_multiple_of(4) { input.clone() } else { file(grid(word)) };
                Pair { input, output: has_output.then_some(output) }
            };
            Task { id: number.to_string(), train: vec![pair(true), pair(true)], test: vec![pair(true), pair(false)] }
        })
        .collect();
    Arc::new(TaskPool::new(&tasks).unwrap())
}

/// Every policy for operations that are not allowed, both modes, one attempt and several.
fn configs() -> Vec<Config> {
    use InvalidOperation::{Clip, PassThrough, Penalize, Reject};
    let mut configs = vec![];
    for invalid_operation in [Clip, Reject, PassThrough, Penalize] {
        for (mode, reward, max_attempts) in [
            (Mode::Train, Reward::default(), 1),
            (Mode::Test, Preset::Training.settings().0, 2),
            (Mode::Train, Preset::Evaluation.settings().0, 3),
        ] {
            for operations in [OperationSet::FULL, OperationSet::STANDARD, OperationSet(0)] {
                let config = Config { invalid_operation, mode, reward, max_attempts, operations, ..Config::default() };
                configs.push(config);
            }
        }
    }
    configs
}

/// A state that play can reach or a user set: any grid, any clipboard, any flags.
fn state(env: &Env, word: &mut impl FnMut() -> u32) -> Unpacked {
    let mut state = Unpacked::zeroed();
    env.begin(&mut state, word() % env.pool().pairs.len() as u32, &grid(word));
    let copied = grid(word);
    let cells = random_selection::<SIDE>(word).within(copied.size);
    let view = state.view_mut();
    for (r, row) in bytes_mut(view.clipboard).chunks_exact_mut(8).enumerate() {
        for (c, cell) in row.iter_mut().enumerate().take(SIDE).filter(|(c, _)| cells.contains(r, *c)) {
            *cell = copied.get(r, c);
        }
    }
    *view.selection = random_selection(word);
    view.head.corner = cells.bounds().map_or(Corner::NONE, |at| Corner { top: at.top as u8, left: at.left as u8 });
    (view.head.attempts, view.head.steps) = ((word() % 3) as u8, [0, 7, u32::MAX][word() as usize % 3]);
    if word().is_multiple_of(4) {
        view.head.set_allowed(u64::from(word()) << 32 | u64::from(word()));
    }
    state
}

/// One step both ways, from the same state.
fn check(env: &Env, pairs: &[PackedPair], before: &Unpacked, action: &Action<SIDE>) {
    let (mut plain, mut packed) = (*before, Packed::new(before));
    let expected = env.step(&mut plain, action);
    let found = env.step_on(&mut packed, pairs, action);
    assert_eq!(found.reward.to_bits(), expected.reward.to_bits(), "{action:?} on {:?}", before.view());
    assert_eq!(found.terminated, expected.terminated);
    assert!(
        packed.unpacked() == plain,
        "{action:?} on {:?}\ngave {:?}\nnot  {:?}",
        before.view(),
        packed.unpacked().view(),
        plain.view()
    );
    // Nothing is left in the bytes that no cell has.
    assert_eq!(packed, Packed::new(&plain));

    let mut block = [Packed::new(before)];
    let mut outcome = [Outcome::default()];
    let mut ops = Line::default();
    ops.0[0] = action.op.into();
    let mut chosen = Line::default();
    chosen.0[0] = cells_of(&action.chosen);
    match step_block(env, pairs, &mut block, (&ops, u32x16::load(&chosen, 0)), &mut outcome) {
        0 => {
            assert_eq!((block[0], outcome[0]), (packed, expected), "{action:?} on {:?}", before.view());
            assert!(action.op < COPY_INPUT);
        }
        _ => {
            assert_eq!(block[0], Packed::new(before), "nothing has happened");
            let is_allowed = env.allowed(before.view().head).contains(action.op.min(OPERATIONS - 1));
            assert!(action.op >= COPY_INPUT || !is_allowed);
        }
    }
}

#[test]
fn a_step_is_the_step_of_all_canvases() {
    let mut word = random_words(1);
    let pool = pool(&mut word);
    let pairs: Vec<_> = pool.pairs.iter().map(PackedPair::new).collect();
    for config in configs() {
        let env = Env::new(pool.clone(), config).unwrap();
        for op in 0..=OPERATIONS {
            for _ in 0..200 {
                let before = state(&env, &mut word);
                check(&env, &pairs, &before, &Action { op, chosen: random_selection(&mut word).into() });
            }
        }
    }
}

/// All boxes of all areas, with every operation: 35 x 25 x 225.
#[test]
fn every_box_of_every_area() {
    let mut word = random_words(2);
    let pool = pool(&mut word);
    let pairs: Vec<_> = pool.pairs.iter().map(PackedPair::new).collect();
    let env = Env::new(pool, Config::default()).unwrap();
    let bbox = Encoding::<SIDE>::new(Format::Bbox, None);
    for op in 0..i32::from(OPERATIONS) {
        for size in 0..CELLS {
            for corners in 0..CELLS * CELLS {
                let (first, second) = ((corners / CELLS) as i32, (corners % CELLS) as i32);
                let (r1, c1, r2, c2) = (first / 5, first % 5, second / 5, second % 5);
                if r1 > r2 || c1 > c2 {
                    continue;
                }
                let mut before = state(&env, &mut word);
                let (clipboard, head) = (*before.view().clipboard, *before.view().head);
                let area = Canvas::from_fn(size / 5 + 1, size % 5 + 1, |_, _| (word() % 10) as i8);
                env.begin(&mut before, head.pair, &area);
                let view = before.view_mut();
                (*view.clipboard, view.head.corner) = (clipboard, head.corner);
                check(&env, &pairs, &before, &bbox.decode(&[op, r1, c1, r2, c2]));
            }
        }
    }
}

/// Whole episodes in every format, from a start that the environment draws.
#[test]
fn episodes_in_every_format() {
    let mut word = random_words(3);
    let pool = pool(&mut word);
    let pairs: Vec<_> = pool.pairs.iter().map(PackedPair::new).collect();
    for format in [Format::Mask, Format::Point, Format::Bbox] {
        let env = Env::new(pool.clone(), Config { format, max_attempts: 3, ..Config::default() }).unwrap();
        let sizes = env.encoding().sizes();
        for _ in 0..100 {
            let number = word() % pool.pairs.len() as u32;
            let grid = grid(&mut word);
            let mut plain = Unpacked::zeroed();
            env.begin(&mut plain, number, &grid);
            let mut packed = Packed::start(number, &pairs[number as usize], &grid);
            for _ in 0..100 {
                assert_eq!(packed, Packed::new(&plain));
                assert!(packed.unpacked() == plain);
                assert!(
                    packed.grid().iter().copied().eq((0..CELLS).map(|i| bytes(plain.view().grid)[i / 5 * 8 + i % 5]))
                );
                let components: Vec<i32> = sizes.iter().map(|n| (word() % n) as i32).collect();
                let action = env.encoding().decode(&components);
                assert_eq!(env.step_on(&mut packed, &pairs, &action), env.step(&mut plain, &action));
            }
        }
    }
}

#[test]
fn the_first_cell_of_no_area_is_nothing_to_stumble_over() {
    let task = Task {
        id: "none".into(),
        train: vec![Pair { input: Grid::from_fn(0, 0, |_, _| 0), output: Some(Grid::from_fn(0, 0, |_, _| 0)) }],
        test: vec![],
    };
    let pool = Arc::new(TaskPool::new([&task]).unwrap());
    let pairs: Vec<_> = pool.pairs.iter().map(PackedPair::new).collect();
    let env = Env::new(pool, Config::default()).unwrap();
    let mut before = Unpacked::zeroed();
    env.begin(&mut before, 0, &Canvas::EMPTY);
    let mut word = random_words(4);
    for op in 0..OPERATIONS {
        for _ in 0..20 {
            check(&env, &pairs, &before, &Action { op, chosen: random_selection(&mut word).into() });
        }
    }
}

#[test]
fn a_packed_state_is_three_quarters_of_a_plain_one() {
    assert_eq!((size_of::<Packed>(), size_of::<Unpacked>()), (96, 128));
    for cell in 0..CELLS as u32 {
        assert_eq!(row_of(cell), cell / SIDE as u32);
        assert_eq!(spread(1 << cell).to_bitmask(), 1 << cell);
    }
}
