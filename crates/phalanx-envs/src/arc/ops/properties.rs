//! Properties on random grids, on every size class, against a plain implementation cell by cell.

use std::collections::VecDeque;

use super::*;
use crate::arc::grid::Clipboard;
use crate::arc::testing::{desk, random_canvas, random_selection, random_words};

fn at<const N: usize, const W: usize>(grid: &mut Canvas<N, W>, row: usize, column: usize) -> &mut i8 {
    &mut bytes_mut(&mut grid.cells)[row * 8 * W + column]
}

/// The table of operations read word for word: one cell at a time, no masks, no rows.
fn plainly<const N: usize, const W: usize>(
    op: u8,
    grid: &mut Canvas<N, W>,
    clipboard: &mut Vec<(usize, usize, i8)>,
    input: &Canvas<N, W>,
    raw: &Selection<N>,
) {
    let old = *grid;
    let (height, width) = (usize::from(grid.size.height), usize::from(grid.size.width));
    let every = |chosen: &dyn Fn(usize, usize) -> bool| -> Vec<(usize, usize)> {
        (0..N).flat_map(|r| (0..N).map(move |c| (r, c))).filter(|(r, c)| chosen(*r, *c)).collect()
    };
    let active = every(&|r, c| r < height && c < width);
    let selected: Vec<_> = active.iter().copied().filter(|(r, c)| raw.contains(*r, *c)).collect();
    let area = if selected.is_empty() { &active } else { &selected };
    let (top, bottom) = (area.iter().map(|c| c.0).min().unwrap(), area.iter().map(|c| c.0).max().unwrap());
    let (left, right) = (area.iter().map(|c| c.1).min().unwrap(), area.iter().map(|c| c.1).max().unwrap());
    let (rows, columns) = (bottom - top + 1, right - left + 1);
    let mut rearrange = |source: &dyn Fn(usize, usize) -> (usize, usize)| {
        for r in 0..rows {
            for c in 0..columns {
                let (from_r, from_c) = source(r, c);
                *at(grid, top + r, left + c) = old.get(top + from_r, left + from_c);
            }
        }
    };
    match op {
        0..=9 => selected.iter().for_each(|(r, c)| *at(grid, *r, *c) = op as i8),
        10..=19 => {
            if let [(r, c)] = selected[..] {
                let mut queue = VecDeque::from([(r, c)]);
                let mut seen = vec![(r, c)];
                while let Some((r, c)) = queue.pop_front() {
                    *at(grid, r, c) = op as i8 - 10;
                    let around = [(r.wrapping_sub(1), c), (r + 1, c), (r, c.wrapping_sub(1)), (r, c + 1)];
                    for (nr, nc) in around.into_iter().filter(|(nr, nc)| *nr < height && *nc < width) {
                        if old.get(nr, nc) == old.get(r, c) && !seen.contains(&(nr, nc)) {
                            seen.push((nr, nc));
                            queue.push_back((nr, nc));
                        }
                    }
                }
            }
        }
        20 => rearrange(&|r, c| ((r + 1) % rows, c)),
        21 => rearrange(&|r, c| ((r + rows - 1) % rows, c)),
        22 => rearrange(&|r, c| (r, (c + 1) % columns)),
        23 => rearrange(&|r, c| (r, (c + columns - 1) % columns)),
        24 if rows == columns => rearrange(&|r, c| (rows - 1 - c, r)),
        25 if rows == columns => rearrange(&|r, c| (c, rows - 1 - r)),
        26 => rearrange(&|r, c| (r, columns - 1 - c)),
        27 => rearrange(&|r, c| (rows - 1 - r, c)),
        28 | 30 => {
            *clipboard = selected.iter().map(|(r, c)| (*r, *c, old.get(*r, *c))).collect();
            if op == 30 {
                selected.iter().for_each(|(r, c)| *at(grid, *r, *c) = 0);
            }
        }
        29 if !clipboard.is_empty() && !selected.is_empty() => {
            let from_top = clipboard.iter().map(|c| c.0).min().unwrap();
            let from_left = clipboard.iter().map(|c| c.1).min().unwrap();
            for (r, c) in &selected {
                let copied =
                    clipboard.iter().find(|(fr, fc, _)| (fr - from_top, fc - from_left) == (r - top, c - left));
                *at(grid, *r, *c) = copied.map_or(0, |(_, _, colour)| *colour);
            }
        }
        31 => area.iter().for_each(|(r, c)| *at(grid, *r, *c) = 0),
        32 => *grid = *input,
        33 => {
            if let Some((last_r, last_c)) = every(&|r, c| raw.contains(r, c)).pop() {
                *grid = Canvas::from_fn(last_r + 1, last_c + 1, |r, c| old.get(r, c).max(0));
            }
        }
        _ => {}
    }
}

fn operations_equal_the_plain_ones<const N: usize, const W: usize>(seed: u64, episodes: usize) {
    let mut word = random_words(seed);
    let mut rectangles = 0;
    for _ in 0..episodes {
        let colours = 2 + word() % 9;
        let input: Canvas<N, W> = random_canvas(&mut word, colours);
        let (mut grid, mut clipboard) = (random_canvas::<N, W>(&mut word, colours), Clipboard::EMPTY);
        let (mut plain_grid, mut plain_clipboard) = (grid, vec![]);
        for _ in 0..60 {
            let (op, selection) = ((word() % 35) as u8, random_selection(&mut word));
            let rectangle = selection.bounds().filter(|bounds| bounds.selection() == selection);
            // A rectangle can be given in two ways.
            let chosen = match rectangle.filter(|_| word().is_multiple_of(2)) {
                Some(bounds) => Chosen::Rectangle(bounds),
                None => selection.into(),
            };
            rectangles += u32::from(matches!(chosen, Chosen::Rectangle(_)));
            let effective = desk(&mut grid, &mut clipboard, &input).apply(op, &chosen);
            assert_eq!(effective, if op == RESIZE { selection } else { selection.within(plain_grid.size) });
            plainly(op, &mut plain_grid, &mut plain_clipboard, &input, &selection);
            assert!(grid.is_sound(), "operation {op} ({})", NAMES[op as usize]);
            assert_eq!(grid, plain_grid, "operation {op} ({}) with {selection:?}", NAMES[op as usize]);
            assert_eq!(clipboard.corner == Corner::NONE, plain_clipboard.is_empty());
        }
    }
    assert!(rectangles as usize > 10 * episodes, "{rectangles} rectangles");
}

#[test]
fn every_operation_equals_its_plain_twin() {
    operations_equal_the_plain_ones::<1, 1>(1, 20);
    operations_equal_the_plain_ones::<5, 1>(2, 400);
    operations_equal_the_plain_ones::<8, 1>(3, 100);
    operations_equal_the_plain_ones::<10, 2>(4, 200);
    operations_equal_the_plain_ones::<30, 4>(5, 60);
}

fn inverses<const N: usize, const W: usize>() {
    let mut word = random_words(7);
    for _ in 0..300 {
        let start = random_canvas::<N, W>(&mut word, 10);
        let selection = Chosen::from(random_selection(&mut word));
        let run = |ops: &[u8]| {
            let (mut grid, mut clipboard) = (start, Clipboard::EMPTY);
            for op in ops {
                desk(&mut grid, &mut clipboard, &start).apply(*op, &selection);
            }
            grid
        };
        for ops in [[20, 21], [21, 20], [22, 23], [23, 22], [24, 25], [25, 24], [26, 26], [27, 27], [28, 29], [30, 29]]
        {
            assert_eq!(run(&ops), start, "{ops:?} with {selection:?}");
        }
        assert_eq!(run(&[24; 4]), start);
        assert_eq!(run(&[25; 3]), run(&[24]));
        assert_eq!(run(&[24, 24]), if run(&[24]) == start { run(&[24]) } else { run(&[26, 27]) });
    }
}

#[test]
fn what_is_undone_leaves_no_trace() {
    inverses::<5, 1>();
    inverses::<10, 2>();
    inverses::<30, 4>();
}

#[test]
fn every_operation_has_a_name_and_a_family() {
    let names: std::collections::HashSet<_> = NAMES.iter().collect();
    assert_eq!(names.len(), 35);
    let count = |category| (0..OPERATIONS).filter(|op| Category::of(*op) == category).count();
    use Category::*;
    assert_eq!([Fill, FloodFill, Movement, Transformation, Editing, Special].map(count), [10, 10, 4, 4, 4, 3]);
}
