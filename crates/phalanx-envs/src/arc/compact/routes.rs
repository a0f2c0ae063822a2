//! Where each cell of the canvas comes from, as tables.
//!
//! A place is 5 row + column. Every move, flip and turn of a box gives it as a sum of two parts, one that depends on
//! the target's row and the box's rows, one that depends on columns. So there is a register of parts for each
//! [`Route`] and each span of rows, and the same for columns: 11 kB, of which three fifths are ever read.

use phalanx_core::lanes::u8x32;

use super::SIDE;

/// What an operation does along one axis. For the turns, in a square, source row and column change places:
/// row r, column c of the square is taken from row last - c, column r (clockwise).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// From the same place.
    Stay,
    /// From the next one, the last from the first.
    Next,
    /// From the one before, the first from the last.
    Previous,
    /// From the other end.
    Mirrored,
    /// A quarter turn.
    Clockwise,
    /// A quarter turn the other way.
    CounterClockwise,
    /// From the distance to the first; where that is counted from is added by the caller.
    FromCorner,
}

const ALL: [Route; 7] = [
    Route::Stay,
    Route::Next,
    Route::Previous,
    Route::Mirrored,
    Route::Clockwise,
    Route::CounterClockwise,
    Route::FromCorner,
];

/// First and last row or column of a box, counted as 5 first + last.
pub(super) const SPANS: u32 = (SIDE * SIDE) as u32;

/// A register for each route and, within it, for each span.
pub(super) type Parts = [u8x32; ALL.len() * SPANS as usize];

/// The part of the rows.
pub(super) static ROWS: Parts = parts(true);

/// The part of the columns.
pub(super) static COLUMNS: Parts = parts(false);

/// The part that row or column `at` has in the place its cell is taken from; bytes wrap, only the sum has a meaning.
const fn part(route: Route, of_rows: bool, span: usize, at: usize) -> u8 {
    let (first, last, at) = ((span / SIDE) as i32, (span % SIDE) as i32, at as i32);
    // What a step along this axis counts in a place, and a step along the other one.
    let (own, other) = if of_rows { (SIDE as i32, 1) } else { (1, SIDE as i32) };
    let part = match route {
        Route::Stay => own * at,
        Route::Next => own * if at == last { first } else { at + 1 },
        Route::Previous => own * if at == first { last } else { at - 1 },
        Route::Mirrored => own * (first + last - at),
        // Rows: place last, counted by rows, and this row as a column. Columns: the first column, and this one as a row.
        Route::Clockwise if of_rows => own * last + other * (at - first),
        Route::Clockwise => own * first - other * (at - first),
        Route::CounterClockwise if of_rows => own * first - other * (at - first),
        Route::CounterClockwise => own * last + other * (at - first),
        Route::FromCorner => own * (at - first),
    };
    part as u8
}

const fn parts(of_rows: bool) -> Parts {
    let mut parts = [u8x32::splat(0); ALL.len() * SPANS as usize];
    let mut index = 0;
    while index < parts.len() {
        let (route, span) = (ALL[index / SPANS as usize], index % SPANS as usize);
        let mut register = [0; 32];
        let mut cell = 0;
        while cell < SIDE * SIDE {
            register[cell] = part(route, of_rows, span, if of_rows { cell / SIDE } else { cell % SIDE });
            cell += 1;
        }
        parts[index] = u8x32::new(register);
        index += 1;
    }
    parts
}
