//! The compact canvas, 5 x 5, in registers: a grid is 32 bytes, a set of cells 25 bits.
//!
//! Which operation comes next cannot be predicted, and on 25 cells a wrong guess costs more than the operation.
//! So nearly all of them are one: the cells of a region are taken from places in a source. What they are is
//! [planned](plan) in lanes, for one environment or for a [block]; then each shuffles its bytes. What remains for
//! branches is rare: flood fill of a single cell, and the operations that replace the whole grid.
//!
//! The operations themselves are defined in [`ops`](super::ops), which the tests compare these with.

mod block;
mod plan;
mod routes;

use std::hint::select_unpredictable;

use bytemuck::{Pod, Zeroable, cast};
use phalanx_core::lanes::{BLOCK, Line, i8x32, u8x32, u32x8, u32x16};

use super::board::Board;
use super::env::compare;
use super::grid::{Bounds, COLOURS, Canvas, Cells, Chosen, Corner, PADDING, Selection, Size, bytes, bytes_mut, spread};
use super::ops::{OPERATIONS, RESIZE, SUBMIT};
use super::similarity::Similarity;
use super::state::{Head, State, words};
use super::task::PooledPair;
use plan::{CLIPBOARD, GRID, Plan, RECIPES, row_of};
use routes::{COLUMNS, ROWS};

pub use block::step_block;

/// Rows and columns.
pub const SIDE: usize = 5;

/// Cells of the canvas.
pub const CELLS: usize = SIDE * SIDE;

/// The first column, a bit for each row; times a row of bits it repeats that row.
const COLUMN: u32 = 0b00001_00001_00001_00001_00001;

/// The same state in the layout of all canvases.
pub type Unpacked = State<SIDE, 1, { words(SIDE, 1) }>;

/// A state: cells row by row in the first [`CELLS`] bytes, padding in the others.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Packed {
    /// The working grid, padding outside of the active area.
    grid: i8x32,
    /// The clipboard, padding where nothing was copied.
    clipboard: i8x32,
    /// The last effective selection, cell by cell.
    selection: u32,
    /// The rest.
    head: Head,
}

/// A pair in the same layout.
#[derive(Clone, Copy, Debug)]
pub struct PackedPair {
    input: i8x32,
    target: i8x32,
    /// The cells of the target.
    target_area: u32,
    /// All bits set if there is one.
    known: u32,
    input_size: Size,
}

/// The first of the operations that replace the whole grid.
const COPY_INPUT: u8 = 32;

/// Registers of one colour, as many as a mask of bits can tell apart.
static PLAIN: [i8x32; 16] = {
    let mut plain = [i8x32::splat(0); 16];
    let mut colour = 0;
    while colour < COLOURS as usize {
        plain[colour] = i8x32::splat(colour as i8);
        colour += 1;
    }
    plain
};

impl PackedPair {
    /// From the layout of all canvases.
    pub fn new(pair: &PooledPair<SIDE, 1>) -> Self {
        Self {
            input: packed(&pair.input.cells),
            target: packed(&pair.target.cells),
            target_area: cells_of(&Chosen::Cells(pair.target.size.selection())),
            known: if pair.has_target { u32::MAX } else { 0 },
            input_size: pair.input.size,
        }
    }

    fn has_target(&self) -> bool {
        self.known != 0
    }
}

impl Packed {
    /// The start of an episode with a pair, which has a number, and a grid.
    #[inline]
    pub fn start(number: u32, pair: &PackedPair, grid: &Canvas<SIDE, 1>) -> Self {
        let head = Head::start(number, grid.size);
        let mut state = Self { grid: packed(&grid.cells), clipboard: i8x32::splat(PADDING), selection: 0, head };
        compare(&mut state, pair);
        state
    }

    /// From the layout of all canvases.
    pub fn new(state: &Unpacked) -> Self {
        let view = state.view();
        let selection = cells_of(&Chosen::Cells(*view.selection));
        Self { grid: packed(view.grid), clipboard: packed(view.clipboard), selection, head: *view.head }
    }

    /// In the layout of all canvases.
    pub fn unpacked(&self) -> Unpacked {
        let mut state = Unpacked::zeroed();
        let view = state.view_mut();
        (*view.grid, *view.clipboard) = (unpacked(self.grid), unpacked(self.clipboard));
        *view.selection = Selection::from_fn(|r, c| self.selection >> (r * SIDE + c) & 1 == 1);
        *view.head = self.head;
        state
    }

    /// Size and corner as one word.
    #[inline(always)]
    fn extent(&self) -> u32 {
        let Head { size, corner, .. } = self.head;
        u32::from_le_bytes([size.height, size.width, corner.top, corner.left])
    }

    /// The cells of the active area.
    #[inline(always)]
    fn area(&self) -> u32 {
        plan::area(self.extent())
    }

    /// The cells that are as in the target, padding included.
    #[inline(always)]
    fn agreement(&self, pair: &PackedPair) -> u32 {
        self.grid.simd_eq(pair.target).to_bitmask()
    }

    /// The working grid, row by row.
    #[inline(always)]
    pub fn grid(&self) -> &[i8; CELLS] {
        self.grid.as_array().first_chunk().expect("32 bytes")
    }

    /// Changes cells by a plan.
    #[inline(always)]
    fn carry_out(&mut self, plan: &Plan<u32>) {
        // Looked up, not branched on.
        let colour = &PLAIN[plan.source as usize % PLAIN.len()];
        let source = select_unpredictable(plan.source == GRID, &self.grid, colour);
        let source = select_unpredictable(plan.source == CLIPBOARD, &self.clipboard, source);
        let places = ROWS[plan.rows as usize] + COLUMNS[plan.columns as usize] + u8x32::splat(plan.begin as u8);
        // Selected cells without a copied one turn 0; other sources have no padding.
        let taken = source.shuffle_zeroing(places).max(i8x32::splat(0));
        let inside = spread(plan.region);
        let copies: i8x32 = cast(u32x8::splat(plan.copies));
        self.clipboard = copies.bitselect(self.grid | !inside, self.clipboard);
        self.grid = inside.bitselect(taken, self.grid);
    }

    /// Replaces the whole grid: copy-input and resize; a submission does nothing.
    fn replace(&mut self, op: u8, raw: u32, pair: &PackedPair) {
        self.selection = raw & self.area();
        match op {
            COPY_INPUT => (self.grid, self.head.size) = (pair.input, pair.input_size),
            RESIZE => {
                if let Some(last) = raw.checked_ilog2() {
                    let row = row_of(last);
                    self.head.size = Size { height: row as u8 + 1, width: (last - SIDE as u32 * row) as u8 + 1 };
                    // Padding of the old area becomes 0 inside of the new one.
                    self.grid = self.grid.max(i8x32::splat(0)) | !spread(self.area());
                }
                self.selection = raw;
            }
            SUBMIT => {}
            _ => unreachable!("operation {op} of {OPERATIONS}"),
        }
    }

    /// The 4-connected region of equal colour around a cell of the active area.
    fn flooded(&self, cell: u32) -> u32 {
        let colour = self.grid.as_array()[cell.trailing_zeros() as usize];
        let same = self.grid.simd_eq(i8x32::splat(colour)).to_bitmask() & self.area();
        let mut region = cell;
        loop {
            let sideways = (region & !(COLUMN << (SIDE - 1))) << 1 | (region & !COLUMN) >> 1;
            let grown = region | (region << SIDE | region >> SIDE | sideways) & same;
            if grown == region {
                return region;
            }
            region = grown;
        }
    }
}

impl Board<SIDE> for Packed {
    type Pair = PackedPair;

    #[inline(always)]
    fn head(&self) -> &Head {
        &self.head
    }

    #[inline(always)]
    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }

    fn apply(&mut self, op: u8, chosen: &Chosen<SIDE>, pair: &PackedPair) {
        let chosen = cells_of(chosen);
        let Some(recipe) = RECIPES.get(usize::from(op)) else {
            return self.replace(op, chosen, pair);
        };
        let mut plan = plan::plan::<f32>(*recipe, chosen, self.extent());
        if plan.flooded != 0 {
            plan.region |= self.flooded(plan.flooded);
        }
        self.carry_out(&plan);
        self.selection = plan.selected;
        let [_, _, top, left] = plan.extent.to_le_bytes();
        self.head.corner = Corner { top, left };
    }

    #[inline(always)]
    fn select_nothing(&mut self) {
        self.selection = 0;
    }

    #[inline(always)]
    fn similarity(&self, pair: &PackedPair) -> Option<Similarity> {
        let matches = (self.agreement(pair) & self.area()).count_ones();
        pair.has_target().then(|| Similarity { matches, union: (self.area() | pair.target_area).count_ones() })
    }
}

/// The operations and chosen cells of a block's actions, each of which begins with an operation and two corners.
#[inline(always)]
pub fn columns(actions: &[u32x8; BLOCK]) -> (Line, u32x16) {
    let (low, high) = actions.split_at(BLOCK / 2);
    let halves = [low, high].map(|half| u32x8::transpose(half.try_into().expect("eight rows")));
    let column = |k: usize| cast::<_, u32x16>([halves[0][k], halves[1][k]]);
    // No row or column is beyond the last, whatever the caller was given.
    let place = |k: usize| column(k).min(u32x16::splat(SIDE as u32 - 1));
    (Line(column(0).to_array()), plan::rectangle([place(1), place(2), place(3), place(4)]))
}

/// The cells that an agent chose.
#[inline(always)]
pub fn cells_of(chosen: &Chosen<SIDE>) -> u32 {
    match chosen {
        Chosen::Rectangle(Bounds { top, left, bottom, right }) => {
            plan::rectangle([top, left, bottom, right].map(|place| *place as u32))
        }
        Chosen::Cells(Selection(rows)) => {
            rows.iter().enumerate().fold(0, |cells, (r, row)| cells | (row & 0b11111) << (SIDE * r))
        }
    }
}

/// Cells row by row.
#[inline(always)]
fn packed(cells: &Cells<SIDE, 1>) -> i8x32 {
    let mut packed = [PADDING; 32];
    for (to, from) in packed.chunks_exact_mut(SIDE).zip(bytes(cells).chunks_exact(8)) {
        to.copy_from_slice(&from[..SIDE]);
    }
    i8x32::new(packed)
}

/// Cells in rows of a word each.
fn unpacked(cells: i8x32) -> Cells<SIDE, 1> {
    let mut rows = Canvas::<SIDE, 1>::EMPTY.cells;
    for (to, from) in bytes_mut(&mut rows).chunks_exact_mut(8).zip(cells.as_array().chunks_exact(SIDE)) {
        to[..SIDE].copy_from_slice(from);
    }
    rows
}

#[cfg(test)]
mod tests;
