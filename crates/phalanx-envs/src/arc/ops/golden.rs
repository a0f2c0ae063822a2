//! The golden vectors of the reference.

use super::*;
use crate::arc::grid::Clipboard;
use crate::arc::testing::{canvas, desk};

const G: &str = "1 2 3 / 4 5 6 / 7 8 9";

/// A desk of its own.
struct Sheet<const N: usize, const W: usize> {
    grid: Canvas<N, W>,
    clipboard: Clipboard<N, W>,
    input: Canvas<N, W>,
}

impl<const N: usize, const W: usize> Sheet<N, W> {
    fn new(grid: &str) -> Self {
        Self { grid: canvas(grid), clipboard: Clipboard::EMPTY, input: Canvas::EMPTY }
    }

    fn apply(&mut self, op: u8, selection: Selection<N>) -> &mut Self {
        desk(&mut self.grid, &mut self.clipboard, &self.input).apply(op, &selection.into());
        assert!(self.grid.is_sound(), "after operation {op}");
        self
    }

    #[track_caller]
    fn gives(&self, grid: &str) {
        assert_eq!(self.grid, canvas(grid));
    }
}

fn sheet(grid: &str) -> Sheet<3, 1> {
    Sheet::new(grid)
}

#[test]
fn transformations_of_the_whole_grid() {
    for (op, expected) in [
        (20, "4 5 6 / 7 8 9 / 1 2 3"),
        (21, "7 8 9 / 1 2 3 / 4 5 6"),
        (22, "2 3 1 / 5 6 4 / 8 9 7"),
        (23, "3 1 2 / 6 4 5 / 9 7 8"),
        (24, "7 4 1 / 8 5 2 / 9 6 3"),
        (25, "3 6 9 / 2 5 8 / 1 4 7"),
        (26, "3 2 1 / 6 5 4 / 9 8 7"),
        (27, "7 8 9 / 4 5 6 / 1 2 3"),
    ] {
        sheet(G).apply(op, Selection::EMPTY).gives(expected);
    }
}

#[test]
fn transformations_of_a_box() {
    for (op, expected) in [
        (20, "4 5 3 / 1 2 6 / 7 8 9"),
        (22, "2 1 3 / 5 4 6 / 7 8 9"),
        (24, "4 1 3 / 5 2 6 / 7 8 9"),
        (25, "2 5 3 / 1 4 6 / 7 8 9"),
    ] {
        sheet(G).apply(op, Selection::rectangle((0, 0), (1, 1))).gives(expected);
    }
}

#[test]
fn fill_stays_in_the_active_area() {
    sheet(G).apply(5, Selection::cells(&[(0, 0), (2, 2)])).gives("5 2 3 / 4 5 6 / 7 8 5");
    sheet(G).apply(5, Selection::EMPTY).gives(G);
    Sheet::<5, 1>::new(G).apply(5, Selection::cells(&[(0, 0), (4, 4)])).gives("5 2 3 / 4 5 6 / 7 8 9");
}

#[test]
fn flood_fill_needs_one_cell_and_follows_edges() {
    let maze = "0 0 1 / 1 0 1 / 1 0 0";
    sheet(maze).apply(17, Selection::point(0, 0)).gives("7 7 1 / 1 7 1 / 1 7 7");
    sheet(maze).apply(17, Selection::cells(&[(0, 0), (0, 1)])).gives(maze);
    let diagonal = "0 1 0 / 1 0 1 / 0 1 0";
    sheet(diagonal).apply(13, Selection::point(1, 1)).gives("0 1 0 / 1 3 1 / 0 1 0");
}

#[test]
fn flood_fill_goes_through_a_serpentine() {
    let gap = |r: usize| if r % 4 == 1 { 14 } else { 0 };
    let mut sheet = Sheet::<15, 2>::new("0");
    sheet.grid = Canvas::from_fn(15, 15, |r, c| i8::from(r % 2 == 1 && c != gap(r)));
    sheet.apply(14, Selection::point(0, 0));
    let count = |colour| bytes(&sheet.grid.cells).iter().filter(|cell| **cell == colour).count();
    assert_eq!((count(4), count(0)), (127, 0));
}

#[test]
fn clipboard() {
    let pair = Selection::cells(&[(0, 0), (0, 1)]);
    sheet(G).apply(30, pair).apply(29, Selection::cells(&[(2, 1), (2, 2)])).gives("0 0 3 / 4 5 6 / 7 1 2");
    sheet(G).apply(28, pair).apply(29, Selection::rectangle((1, 0), (2, 2))).gives("1 2 3 / 1 2 0 / 0 0 0");
    sheet("0 2 0 / 3 0 0 / 0 0 0")
        .apply(28, Selection::rectangle((0, 0), (1, 1)))
        .apply(29, Selection::rectangle((1, 1), (2, 2)))
        .gives("0 2 0 / 3 0 2 / 0 3 0");
    // Copying nothing empties the clipboard, and then paste does nothing.
    sheet(G).apply(28, pair).apply(28, Selection::EMPTY).apply(29, Selection::point(2, 2)).gives(G);
    sheet(G).apply(28, pair).apply(29, Selection::EMPTY).gives(G);
}

#[test]
fn clear_keeps_the_padding() {
    sheet(G).apply(31, Selection::point(1, 1)).gives("1 2 3 / 4 0 6 / 7 8 9");
    let mut larger = Sheet::<4, 1>::new(G);
    larger.apply(31, Selection::EMPTY).gives("0 0 0 . / 0 0 0 . / 0 0 0 . / . . . .");
    assert_eq!(larger.grid.cells[3], padding());
}

#[test]
fn resize_cuts_and_grows() {
    sheet(G).apply(33, Selection::point(1, 0)).gives("1 . . / 4 . . / . . .");
    Sheet::<5, 1>::new(G)
        .apply(33, Selection::point(3, 4))
        .gives("1 2 3 0 0 / 4 5 6 0 0 / 7 8 9 0 0 / 0 0 0 0 0 / . . . . .");
    sheet(G).apply(33, Selection::EMPTY).gives(G);
}

#[test]
fn copy_input_brings_its_size() {
    let mut sheet = Sheet::<4, 1>::new(G);
    sheet.input = canvas("1 1 1 1 / 2 2 2 2");
    sheet.apply(32, Selection::EMPTY).gives("1 1 1 1 / 2 2 2 2");
    assert_eq!(sheet.grid.size, Size { height: 2, width: 4 });
}

#[test]
fn only_squares_rotate() {
    sheet("1 2 3 / 4 5 6").apply(24, Selection::EMPTY).gives("1 2 3 / 4 5 6");
    sheet(G).apply(25, Selection::rectangle((0, 0), (0, 1))).gives(G);
}

#[test]
fn submit_changes_nothing() {
    sheet(G).apply(34, Selection::rectangle((0, 0), (1, 1))).gives(G);
}
