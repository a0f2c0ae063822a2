//! Twelve tasks of our own, so that the environment runs without any download.
//!
//! Each is a rule that makes pairs from random numbers: three demonstrations and a test. The numbers
//! depend on [`SEED`] and the limit of the size only, so the tasks are the same everywhere. With each
//! pair comes a script of operations that solves it, so that every task is known to be solvable.

use phalanx_core::rng::{Draws, Purpose, Stream};

use super::action::Action;
use super::grid::Selection;
use super::ops::{RESIZE, SUBMIT};
use super::task::{Grid, Pair, Task};

/// The seed of all sample tasks.
pub const SEED: u64 = 1_112;

/// The largest side of a grid of the data set `Sample`.
pub const LIMIT: usize = 10;

/// An operation with the cells it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptStep {
    /// The operation.
    pub op: u8,
    /// Row and column of each selected cell.
    pub cells: Vec<(usize, usize)>,
}

impl ScriptStep {
    /// The step as an action on a canvas.
    pub fn action<const N: usize>(&self) -> Action<N> {
        Action { op: self.op, chosen: Selection::cells(&self.cells).into() }
    }
}

/// Operations that turn a pair's input into its output and submit.
pub type Script = Vec<ScriptStep>;

/// A task with a solution of each pair.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The task.
    pub task: Task,
    /// What its rule is.
    pub rule: &'static str,
    /// A script for each training pair, then for each test pair.
    pub scripts: Vec<Script>,
}

/// Draws a pair whose grids have sides up to a limit.
type Generator = fn(&mut Dice<'_>) -> (Grid, Grid, Script);

const RULES: [(&str, &str, Generator); 12] = [
    ("mirror", "the grid, left and right exchanged", mirror),
    ("recolour", "every cell of the most frequent colour becomes 5", recolour),
    ("frame", "an empty square gets a border of colour 3", frame),
    ("holes", "the inside of each closed rectangle becomes 4", holes),
    ("gravity", "coloured cells fall to the bottom of their column", gravity),
    ("crop", "the bounding box of the only object", crop),
    ("turn", "a square pattern turned clockwise by a quarter", turn),
    ("ray", "a single coloured cell extends to the right edge", ray),
    ("double", "each cell becomes a block of 2 x 2", double),
    ("count", "k separate dots give a bar of k cells", count),
    ("sort", "vertical bars ordered by height", sort),
    ("connect", "two equal dots in one row are joined", connect),
];

/// The twelve tasks with sides up to `limit`; [`LIMIT`] gives the data set `Sample`.
///
/// # Panics
///
/// If the limit is not from 5 to 30.
#[track_caller]
pub fn samples(limit: usize) -> Vec<Sample> {
    assert!((5..=30).contains(&limit), "sample tasks of up to {limit} rows and columns; 5 to 30 are possible");
    RULES
        .iter()
        .enumerate()
        .map(|(number, (name, rule, generate))| sample(number, name, rule, *generate, limit))
        .collect()
}

fn sample(number: usize, name: &str, rule: &'static str, generate: Generator, limit: usize) -> Sample {
    let stream = Stream::<f32>::of_seed(SEED, number as u32);
    let mut pairs: Vec<Pair> = vec![];
    let mut scripts = vec![];
    for attempt in 0.. {
        let mut draws = stream.draws(Purpose::Params, limit as u32, attempt);
        let (input, output, mut script) = generate(&mut Dice { draws: &mut draws, limit });
        // A pair that shows nothing, or nothing new, is drawn again.
        if input == output || pairs.iter().any(|pair| pair.input == input) {
            continue;
        }
        script.push(step(SUBMIT, []));
        pairs.push(Pair { input, output: Some(output) });
        scripts.push(script);
        if pairs.len() == 4 {
            break;
        }
    }
    let test = pairs.split_off(3);
    Sample { task: Task { id: format!("{:02}-{name}", number + 1), train: pairs, test }, rule, scripts }
}

/// Random choices within a limit of the size.
struct Dice<'a> {
    draws: &'a mut Draws<f32>,
    limit: usize,
}

impl Dice<'_> {
    /// From `low` to `high`, both included.
    fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.draws.below((high - low + 1) as u32) as usize
    }

    /// A side of a grid: from half of the limit, at least 3, up to the limit.
    fn side(&mut self) -> usize {
        self.between((self.limit / 2).max(3), self.limit)
    }

    /// Any colour but black.
    fn colour(&mut self) -> i8 {
        self.between(1, 9) as i8
    }

    /// Any colour but black and those listed.
    fn colour_but(&mut self, others: &[i8]) -> i8 {
        loop {
            let colour = self.colour();
            if !others.contains(&colour) {
                return colour;
            }
        }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.draws.below(100) < percent
    }

    /// A grid in which about half of the cells are coloured.
    fn pattern(&mut self, height: usize, width: usize) -> Grid {
        Grid::from_fn(height, width, |_, _| if self.chance(55) { self.colour() } else { 0 })
    }
}

fn step(op: u8, cells: impl IntoIterator<Item = (usize, usize)>) -> ScriptStep {
    ScriptStep { op, cells: cells.into_iter().collect() }
}

fn rectangle(height: usize, width: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..height).flat_map(move |r| (0..width).map(move |c| (r, c)))
}

fn blank(height: usize, width: usize) -> Grid {
    Grid::from_fn(height, width, |_, _| 0)
}

/// A fill for each colour that has to be changed.
fn paint(from: &Grid, to: &Grid) -> Script {
    (0..10)
        .map(|colour| {
            let wrong = |&(r, c): &(usize, usize)| to.get(r, c) == colour && from.get(r, c) != colour;
            step(colour as u8, rectangle(to.height, to.width).filter(wrong))
        })
        .filter(|step| !step.cells.is_empty())
        .collect()
}

fn mirror(dice: &mut Dice<'_>) -> (Grid, Grid, Script) {
    let (height, width) = (dice.side(), dice.side());
    let input = dice.pattern(height, width);
    let output = Grid::from_fn(height, width, |r, c| input.get(r, width - 1 - c));
    (input, output, vec![step(26, [])])
}

fn recolour(dice: &mut Dice<'_>) -> (Grid, Grid, Script) {
    let (height, width) = (dice.side(), dice.side());
    let main = dice.colour_but(&[5]);
    let other = dice.colour_but(&[5, main]);
    let mut input = Grid::from_fn(height, width, |_, _| match dice.draws.below(10) {
        0..5 => main,
        5..7 => other,
        _ => 0,
    });
    // Small grids may have too few of one: two columns settle it.
    for r in 0..height {
        (input.cells[r * width], input.cells[r * width + 1]) = (main, if r == 0 { other } else { main });
    }
    let output = Grid::from_fn(height, width, |r, c| if input.get(r, c) == main { 5 } else { input.get(r, c) });
    let script = paint(&input, &output);
    (input, output, script)
}

fn frame(dice: &mut Dice<'_>) -> (Grid, Grid, Script) {
    // From 2 on, so that even the smallest limit has four squares to show.
    let side = dice.between(2, dice.limit);
    let input = blank(side, side);
    let output = Grid::from_fn(side, side, |r, c| if r.min(c) == 0 || r.max(c) == side - 1 { 3 } else { 0 });
    let script = paint(&input, &output);
    (input, output, script)
}

fn holes(dice: &mut Dice<'_>) -> (Grid, Grid, Script) {
    let (height, width) = (dice.side(), dice.side());
    let mut input = blank(height, width);
    let mut seeds = vec![];
    // One rectangle, or one in each half.
    let halves = if width >= 7 { vec![(0, width / 2 - 1), (width / 2, width - 1)] } else { vec![(0, width - 1)] };
    for (first, last) in halves {
        let (rows, columns) = (dice.between(3, height), dice.between(3, last - first + 1));
        let (top, left) = (dice.between(0, height - rows), dice.between(first, last + 1 - columns));
        for (r, c) in rectangle(rows, columns) {
            if r == 0 || c == 0 || r == rows - 1 || c == columns - 1 {
                input.cells[(top + r) * width + left + c] = 2;
            }
        }
        seeds.push(((top + 1, left + 1), (rows - 2, columns - 2)));
    }
    let mut output = input.clone();
    for ((top, left), (rows, columns)) in &seeds {
        rectangle(*rows, *columns).for_each(|(r, c)| output.cells[(top + r) * width + left + c] = 4);
    }
    (input, output, seeds.into_iter().map(|(corner, _)| step(14, [corner])).collect())
}

fn gravity(dice: &mut Dice<'_>) -> (Grid, Grid, Script) {
    let (height, width) = (dice.side(), dice.side());
    let input = Grid::from_fn(height, width, |_, _| if dice.chance(30) { dice.colour() } else { 0 });
    let mut output = blank(height, width);
    for c in 0..width {
        let fallen: Vec<i8> = (0..height).map(|r| input.get(r, c)).filter(|colour| *colour > 0).collect();
        for (i, colour) in fallen.iter().rev().enumerate() {
            output.cells[(height - 1 - i) * width + c] = *colour;
        }
    }
    let script = paint(&input, &output);
    (input, output, script)
}

fn crop(dice: &mut Dice<'_>) -> (Grid, Grid, Script) {
    let (height, width) = (dice.side(), dice.side());
    let (rows, columns) = (dice.between(1, height - 1), dice.between(1, width - 1));
    let (top, left) = (dice.between(0, height - rows), dice.between(0, width - columns));
    let output = Grid::from_fn(rows, columns, |_, _| dice.colour());
    let mut input = blank(height, width);
    let object: Vec<_> = rectangle(rows, columns).map(|(r, c)| (top + r, left + c)).collect();
    for ((r, c), colour) in object.iter().zip(&output.cells) {
        input.cells[r * width + c] = *colour;
    }
    let script = vec![step(28, object), step(29, rectangle(rows, columns)), step(RESIZE, [(rows - 1, columns - 1)])];
    (input, output, script)
}

fn turn(dice: &mut Dice<'_>) -> (Grid, Grid, Script) {
    let side = dice.side();
    let input = dice.pattern(side, side);
    let output = Grid::from_fn(side, side, |r, c| input.get(side - 1 - c, r));
    (input, output, vec![step(24, [])])
}

fn ray(dice: &mut Dice<'_>) -> (Grid, Grid, Script) {
    let (height, width) = (dice.side(), dice.side());
    let (row, column, colour) = (dice.between(0, height - 1), dice.between(0, width - 2), dice.colour());
    let mut input = blank(height, width);
    input.cells[row * width + column] = colour;
    let mut output = input.clone();
    output.cells[row * width + column..(row + 1) * width].fill(colour);
    (input, output, vec![step(colour as u8, (column..width).map(|c| (row, c)))])
}

fn double(dice: &mut Dice<'_>) -> (Grid, Grid, Script) {
    let (height, width) = (dice.between(1, dice.limit / 2), dice.between(1, dice.limit / 2));
    let input = Grid::from_fn(height, width, |_, _| dice.colour());
    let output = Grid::from_fn(2 * height, 2 * width, |r, c| input.get(r / 2, c / 2));
    let resized =
        Grid::from_fn(2 * height, 2 * width, |r, c| if r < height && c < width { input.get(r, c) } else { 0 });
    let mut script = vec![step(RESIZE, [(2 * height - 1, 2 * width - 1)])];
    script.extend(paint(&resized, &output));
    (input, output, script)
}

fn count(dice: &mut Dice<'_>) -> (Grid, Grid, Script) {
    let (height, width, colour) = (dice.side(), dice.side(), dice.colour());
    // Dots in even rows and columns do not touch.
    let mut places: Vec<_> = rectangle(height.div_ceil(2), width.div_ceil(2)).map(|(r, c)| (2 * r, 2 * c)).collect();
    let dots = dice.between(1, places.len().min(dice.limit));
    let mut input = blank(height, width);
    for _ in 0..dots {
        let (r, c) = places.swap_remove(dice.between(0, places.len() - 1));
        input.cells[r * width + c] = colour;
    }
    let output = Grid::from_fn(1, dots, |_, _| colour);
    (input, output, vec![step(RESIZE, [(0, dots - 1)]), step(colour as u8, rectangle(1, dots))])
}

fn sort(dice: &mut Dice<'_>) -> (Grid, Grid, Script) {
    let side = dice.side();
    let mut bars: Vec<(usize, i8)> = (1..=side).map(|height| (height, dice.colour())).collect();
    let draw =
        |bars: &[(usize, i8)]| Grid::from_fn(side, side, |r, c| if side - r <= bars[c].0 { bars[c].1 } else { 0 });
    let output = draw(&bars);
    for i in (1..side).rev() {
        bars.swap(i, dice.between(0, i));
    }
    let input = draw(&bars);
    let script = paint(&input, &output);
    (input, output, script)
}

fn connect(dice: &mut Dice<'_>) -> (Grid, Grid, Script) {
    let (height, width) = (dice.side(), dice.side());
    let (row, colour) = (dice.between(0, height - 1), dice.colour());
    let left = dice.between(0, width - 3);
    let right = dice.between(left + 2, width - 1);
    let mut input = blank(height, width);
    (input.cells[row * width + left], input.cells[row * width + right]) = (colour, colour);
    let mut output = input.clone();
    output.cells[row * width + left..=row * width + right].fill(colour);
    (input, output, vec![step(colour as u8, (left + 1..right).map(|c| (row, c)))])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytemuck::Zeroable;

    use super::*;
    use crate::arc::env::{ArcEnv, Config};
    use crate::arc::reward::Mode;
    use crate::arc::state::{State, words};
    use crate::arc::task::TaskPool;

    fn scripts_solve<const N: usize, const W: usize, const WORDS: usize>(limit: usize) {
        let samples = samples(limit);
        assert_eq!(samples.len(), 12);
        let pool = Arc::new(TaskPool::<N, W>::new(samples.iter().map(|s| &s.task)).unwrap());
        for mode in [Mode::Train, Mode::Test] {
            let env = ArcEnv::<N, W, WORDS>::new(Arc::clone(&pool), Config { mode, ..Config::default() }).unwrap();
            for (number, sample) in samples.iter().enumerate() {
                for (i, script) in sample.scripts.iter().enumerate() {
                    let pair = (number * 4 + i) as u32;
                    let mut state = State::zeroed();
                    env.begin(&mut state, pair, &pool.pairs[pair as usize].input);
                    assert!(!env.info(&state).solved, "{} pair {i} shows nothing", sample.task.id);
                    assert!(script.len() <= 100, "{} pair {i}: {} steps", sample.task.id, script.len());
                    let (last, before) = script.split_last().unwrap();
                    for step in before {
                        assert!(!env.step(&mut state, &step.action()).terminated);
                    }
                    assert_eq!(env.info(&state).similarity, 1.0, "{} pair {i}, limit {limit}", sample.task.id);
                    let outcome = env.step(&mut state, &last.action());
                    assert!(outcome.terminated && (outcome.reward - 9.99).abs() < 1e-5, "{}", sample.task.id);
                }
            }
        }
    }

    #[test]
    fn every_script_solves_its_pair_with_similarity_one_and_the_bonus() {
        scripts_solve::<5, 1, { words(5, 1) }>(5);
        scripts_solve::<10, 2, { words(10, 2) }>(LIMIT);
        scripts_solve::<30, 4, { words(30, 4) }>(30);
        for limit in [6, 7, 8, 13, 21, 29] {
            scripts_solve::<30, 4, { words(30, 4) }>(limit);
        }
    }

    #[test]
    fn the_sample_tasks_are_the_same_everywhere() {
        // FNV-1a over every cell and size: changes only if a rule, the seed or the generator changes.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for sample in samples(LIMIT) {
            for grid in sample.task.grids() {
                for value in [grid.height as i8, grid.width as i8].iter().chain(&grid.cells) {
                    hash = (hash ^ *value as u64).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
        assert_eq!(hash, 16_827_047_345_159_671_930);
    }

    /// The cells of each column, from the top.
    fn columns(grid: &Grid) -> impl Iterator<Item = Vec<i8>> + '_ {
        (0..grid.width).map(|c| (0..grid.height).map(|r| grid.get(r, c)).collect())
    }

    fn from_columns(columns: &[Vec<i8>]) -> Grid {
        Grid::from_fn(columns[0].len(), columns.len(), |r, c| columns[c][r])
    }

    #[test]
    fn the_rules_of_the_reference_hold() {
        let samples = samples(LIMIT);
        let of = |number: usize| samples[number - 1].task.train.iter().chain(&samples[number - 1].task.test);
        // Rules that say every cell of the output by the input, written down a second time.
        type Rule = fn(&Grid) -> Grid;
        let rules: [(usize, Rule); 5] = [
            (1, |input| Grid::from_fn(input.height, input.width, |r, c| input.get(r, input.width - 1 - c))),
            (3, |input| {
                let inside = |i: usize| 0 < i && i + 1 < input.height;
                Grid::from_fn(input.height, input.height, |r, c| if inside(r) && inside(c) { 0 } else { 3 })
            }),
            (5, |input| {
                let columns = columns(input).map(|mut column| {
                    column.sort_by_key(|cell| *cell != 0); // stable
                    column
                });
                from_columns(&columns.collect::<Vec<_>>())
            }),
            (9, |input| Grid::from_fn(2 * input.height, 2 * input.width, |r, c| input.get(r / 2, c / 2))),
            (11, |input| {
                let mut columns: Vec<_> = columns(input).collect();
                columns.sort_by_key(|column| column.iter().filter(|cell| **cell > 0).count());
                from_columns(&columns)
            }),
        ];
        for (number, rule) in rules {
            for pair in of(number) {
                assert_eq!(pair.output.as_ref().unwrap(), &rule(&pair.input), "task {number}, {pair:?}");
            }
        }
        assert!(of(3).all(|pair| pair.input.height == pair.input.width && pair.input.cells.iter().all(|c| *c == 0)));
        for pair in of(2) {
            let count = |colour| pair.input.cells.iter().filter(|cell| **cell == colour).count();
            let main = (1..10).max_by_key(|colour| count(*colour)).unwrap();
            assert!((1..10).all(|colour| colour == main || count(colour) < count(main)), "one is the most frequent");
            let expected: Vec<i8> = pair.input.cells.iter().map(|c| if *c == main { 5 } else { *c }).collect();
            assert_eq!(pair.output.as_ref().unwrap().cells, expected);
        }
        for pair in of(10) {
            let output = pair.output.as_ref().unwrap();
            let dots: Vec<_> = pair.input.cells.iter().copied().filter(|cell| *cell > 0).collect();
            assert_eq!((output.height, &output.cells), (1, &dots));
        }
    }
}
