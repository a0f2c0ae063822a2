//! The 35 operations.
//!
//! Source: the reference's table, which is JaxARC's with its faults removed (moves went the opposite
//! way, rotations used the whole canvas, flood fill stopped early, the clipboard took black for empty,
//! resize only shrank). S is the selection inside of the active area, B its bounding box or, if S is
//! empty, the whole active area. No operation but copy-input and resize writes outside of the active
//! area; all keep colours inside and padding outside.

use super::flood;
use super::grid::{
    Bounds, Canvas, Cells, Chosen, Corner, Effective, HIGHS, ONES, Row, Selection, Size, blend, bytes, bytes_mut,
    lanes, padding,
};

/// Number of operations.
pub const OPERATIONS: u8 = 35;

/// The operation that ends an attempt.
pub const SUBMIT: u8 = 34;

/// The operation that changes the size; it alone sees the selection outside of the active area.
pub const RESIZE: u8 = 33;

/// What each operation is called.
pub const NAMES: [&str; OPERATIONS as usize] = [
    "fill 0",
    "fill 1",
    "fill 2",
    "fill 3",
    "fill 4",
    "fill 5",
    "fill 6",
    "fill 7",
    "fill 8",
    "fill 9",
    "flood fill 0",
    "flood fill 1",
    "flood fill 2",
    "flood fill 3",
    "flood fill 4",
    "flood fill 5",
    "flood fill 6",
    "flood fill 7",
    "flood fill 8",
    "flood fill 9",
    "move up",
    "move down",
    "move left",
    "move right",
    "rotate clockwise",
    "rotate counter-clockwise",
    "flip horizontal",
    "flip vertical",
    "copy",
    "paste",
    "cut",
    "clear",
    "copy input",
    "resize",
    "submit",
];

/// A family of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// 0-9: colour the selection.
    Fill,
    /// 10-19: colour a connected region.
    FloodFill,
    /// 20-23: shift by a cell, cyclic.
    Movement,
    /// 24-27: rotate and flip.
    Transformation,
    /// 28-31: copy, paste, cut, clear.
    Editing,
    /// 32-34: copy input, resize, submit.
    Special,
}

impl Category {
    /// The family of an operation.
    pub fn of(op: u8) -> Self {
        match op {
            0..=9 => Self::Fill,
            10..=19 => Self::FloodFill,
            20..=23 => Self::Movement,
            24..=27 => Self::Transformation,
            28..=31 => Self::Editing,
            _ => Self::Special,
        }
    }
}

/// What operations work on.
#[derive(Debug)]
pub struct Desk<'a, const N: usize, const W: usize> {
    /// The working grid.
    pub grid: &'a mut Cells<N, W>,
    /// Its size.
    pub size: &'a mut Size,
    /// The clipboard.
    pub clipboard: &'a mut Cells<N, W>,
    /// Where its cells begin.
    pub corner: &'a mut Corner,
    /// The input that "copy input" copies.
    pub input: &'a Canvas<N, W>,
}

impl<const N: usize, const W: usize> Desk<'_, N, W> {
    /// Executes an operation with the selection as the agent gave it, and returns the effective one.
    ///
    /// # Panics
    ///
    /// If `op` is not below [`OPERATIONS`].
    #[inline]
    pub fn apply(&mut self, op: u8, raw: &Chosen<N>) -> Selection<N> {
        if op == RESIZE {
            if let Some((row, column)) = raw.last() {
                resize(self.grid, row + 1, column + 1);
                *self.size = Size { height: row as u8 + 1, width: column as u8 + 1 };
            }
            return raw.selection();
        }
        let selected = raw.within(*self.size);
        let area = Bounds::select(selected.is_empty, self.size.bounds(), selected.bounds);
        match op {
            // One arm for both kinds of fill: which of them comes next cannot be predicted.
            0..=19 => paint(self.grid, op, &selected),
            20 => move_rows(self.grid, area, |r| if r == area.bottom { area.top } else { r + 1 }),
            21 => move_rows(self.grid, area, |r| if r == area.top { area.bottom } else { r.wrapping_sub(1) }),
            22 => {
                let edge = lanes(1 << area.right);
                change(self.grid, &area.selection(), area, |_, row| {
                    blend(&edge, &[byte(row, area.left) * ONES; W], &towards_left(row))
                });
            }
            23 => {
                let edge = lanes(1 << area.left);
                change(self.grid, &area.selection(), area, |_, row| {
                    blend(&edge, &[byte(row, area.right) * ONES; W], &towards_right(row))
                });
            }
            24 | 25 => rotate(self.grid, op == 24, area),
            26 => {
                change(self.grid, &area.selection(), area, |_, row| mirrored(row, area.left + area.right));
            }
            27 => move_rows(self.grid, area, |r| (area.top + area.bottom).wrapping_sub(r)),
            28 => self.copy(&selected),
            29 => paste(self.grid, self.clipboard, *self.corner, &selected),
            30 => {
                self.copy(&selected);
                fill(self.grid, &selected, 0);
            }
            31 if selected.is_empty => change(self.grid, &self.size.selection(), area, |_, _| [0; W]),
            31 => fill(self.grid, &selected, 0),
            32 => (*self.grid, *self.size) = (self.input.cells, self.input.size),
            SUBMIT => {}
            _ => unreachable!("operation {op} of {OPERATIONS}"),
        }
        selected.cells
    }

    /// Takes the selected cells to the clipboard; no cells empty it.
    #[inline(always)]
    fn copy(&mut self, selected: &Effective<N>) {
        for (r, row) in self.clipboard.iter_mut().enumerate() {
            *row = blend(&lanes(selected.cells.0[r]), &self.grid[r], &padding());
        }
        let Bounds { top, left, .. } = selected.bounds;
        *self.corner = if selected.is_empty { Corner::NONE } else { Corner { top: top as u8, left: left as u8 } };
    }
}

/// Replaces the selected cells, which lie within `bounds`, by those of a new row for each row.
///
/// A small canvas goes through all of its rows: a few more of them cost less than one wrong guess of where
/// they end.
#[inline(always)]
fn change<const N: usize, const W: usize>(
    cells: &mut Cells<N, W>,
    selected: &Selection<N>,
    bounds: Bounds,
    new: impl Fn(usize, &Row<W>) -> Row<W>,
) {
    let rows = if W == 1 { 0..N } else { bounds.top..bounds.bottom + 1 };
    for r in rows {
        cells[r] = blend(&lanes(selected.0[r]), &new(r, &cells[r]), &cells[r]);
    }
}

/// Replaces the content of each row of a rectangle by that of another.
#[inline(always)]
fn move_rows<const N: usize, const W: usize>(cells: &mut Cells<N, W>, area: Bounds, source: impl Fn(usize) -> usize) {
    let old = *cells;
    // The limit is for rows outside of the rectangle, whose sources are of no meaning.
    change(cells, &area.selection(), area, |r, _| old[source(r).min(N - 1)]);
}

/// Colours the selection.
#[inline(always)]
fn fill<const N: usize, const W: usize>(grid: &mut Cells<N, W>, selected: &Effective<N>, colour: u8) {
    // On a small canvas nothing is filled all the same: that costs less than a wrong guess.
    if W == 1 || !selected.is_empty {
        change(grid, &selected.cells, selected.bounds, |_, _| [ONES * u64::from(colour); W]);
    }
}

/// Colours the selection, or from operation 10 on the region around the only selected cell.
#[inline(always)]
fn paint<const N: usize, const W: usize>(grid: &mut Cells<N, W>, op: u8, selected: &Effective<N>) {
    let flood = op >= 10;
    if flood & !selected.is_empty & selected.bounds.is_cell() {
        return flood_fill(grid, selected.bounds, op - 10);
    }
    // A region of several cells is none; it is filled all the same, without its cells.
    let wanted = if flood { 0 } else { u32::MAX };
    fill(grid, &Effective { cells: Selection(selected.cells.0.map(|row| row & wanted)), ..*selected }, op);
}

/// Colours the region around a cell.
fn flood_fill<const N: usize, const W: usize>(grid: &mut Cells<N, W>, cell: Bounds, colour: u8) {
    let region = flood::region(grid, cell.top, cell.left);
    let bounds = region.bounds().expect("a region has the cell that it began with");
    change(grid, &region, bounds, |_, _| [ONES * u64::from(colour); W]);
}

/// A quarter turn of a square; other rectangles stay as they are.
fn rotate<const N: usize, const W: usize>(cells: &mut Cells<N, W>, clockwise: bool, bounds: Bounds) {
    let (side, width) = bounds.extent();
    if side != width {
        return;
    }
    let old = *cells;
    let (old, cells) = (bytes(&old), bytes_mut(cells));
    let place = |r: usize, c: usize| (bounds.top + r) * 8 * W + bounds.left + c;
    for r in 0..side {
        for c in 0..side {
            let source = if clockwise { place(side - 1 - c, r) } else { place(c, side - 1 - r) };
            cells[place(r, c)] = old[source];
        }
    }
}

/// A cell of a row.
#[inline(always)]
fn byte<const W: usize>(row: &Row<W>, column: usize) -> u64 {
    row[column / 8] >> (8 * (column % 8)) & 0xff
}

/// Every cell one column to the left; what comes in at the right is of no meaning.
#[inline(always)]
fn towards_left<const W: usize>(row: &Row<W>) -> Row<W> {
    std::array::from_fn(|k| row[k] >> 8 | row[(k + 1) % W] << 56)
}

/// Every cell one column to the right; what comes in at the left is of no meaning.
#[inline(always)]
fn towards_right<const W: usize>(row: &Row<W>) -> Row<W> {
    std::array::from_fn(|k| row[k] << 8 | row[(k + W - 1) % W] >> 56)
}

/// Column c from column `sum` - c, where that is on the canvas.
#[inline(always)]
fn mirrored<const W: usize>(row: &Row<W>, sum: usize) -> Row<W> {
    // Column c of the reversed row is column 8 W - 1 - c.
    let reversed = std::array::from_fn(|k| row[W - 1 - k].swap_bytes());
    shifted(&reversed, 8 * W as isize - 1 - sum as isize)
}

/// Column c from column c + `by`; what comes from beyond the row is 0.
#[inline(always)]
fn shifted<const W: usize>(row: &Row<W>, by: isize) -> Row<W> {
    let (words, bits) = (by.div_euclid(8), 8 * by.rem_euclid(8) as u32);
    let word = |k: isize| row.get(k as usize).copied().unwrap_or(0);
    std::array::from_fn(|k| {
        let first = k as isize + words;
        // Two shifts, because one by all 64 bits is not allowed.
        word(first) >> bits | word(first + 1) << 1 << (63 - bits)
    })
}

/// Puts the clipboard's box to the corner of the selection's; selected cells without a copied one turn 0.
fn paste<const N: usize, const W: usize>(
    grid: &mut Cells<N, W>,
    clipboard: &Cells<N, W>,
    corner: Corner,
    selected: &Effective<N>,
) {
    if selected.is_empty || corner == Corner::NONE {
        return;
    }
    let bounds = selected.bounds;
    let sideways = corner.left as isize - bounds.left as isize;
    let targets = grid[bounds.top..=bounds.bottom].iter_mut().zip(&selected.cells.0[bounds.top..]);
    for (i, (row, bits)) in targets.enumerate() {
        let source = clipboard.get(usize::from(corner.top) + i);
        let moved = source.map_or([0; W], |source| shifted(&source.map(padding_to_zero), sideways));
        *row = blend(&lanes(*bits), &moved, row);
    }
}

/// Padding becomes colour 0.
#[inline(always)]
fn padding_to_zero(word: u64) -> u64 {
    let highs = word & HIGHS;
    // 255 in every byte that has its highest bit.
    word & !((highs << 1).wrapping_sub(highs >> 7))
}

/// Cuts or extends the active area: the overlap stays, new cells are 0.
#[inline(always)]
fn resize<const N: usize, const W: usize>(grid: &mut Cells<N, W>, height: usize, width: usize) {
    let mask = lanes((1 << width) - 1);
    for (r, row) in grid.iter_mut().enumerate() {
        // Outside of the old area there is padding, which becomes 0 inside of the new one.
        let inside = row.map(padding_to_zero);
        *row = if r < height { blend(&mask, &inside, &padding()) } else { padding() };
    }
}

#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;
