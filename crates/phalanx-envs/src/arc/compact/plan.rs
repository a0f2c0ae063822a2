//! What an operation is going to change: in lanes, for one environment or for sixteen.
//!
//! A [`Recipe`] is an operation as data. A plan applies it to a selection and an active area: the cells to change and
//! the registers of places ([`routes`](super::routes)) that they are taken from.

use phalanx_core::lanes::{LaneValue, Lanes, Uint};

use super::routes::{Route, SPANS};
use super::{COLUMN, COPY_INPUT, SIDE};
use crate::arc::grid::COLOURS;

/// An operation as data: one word, so that lanes can hold it. 0 changes nothing.
#[derive(Clone, Copy, Debug)]
struct Recipe {
    /// The cells that change.
    region: Region,
    /// What they take their colours from: a colour, [`GRID`] or [`CLIPBOARD`].
    source: u32,
    /// From which rows.
    rows: Route,
    /// From which columns.
    columns: Route,
    /// Whether the region goes to the clipboard first.
    copies: bool,
}

/// Which cells change, a bit each. S is the selection inside of the active area, B its bounding box or, if S is
/// empty, the whole active area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Region {
    /// S.
    Selected = 1,
    /// S, or the active area if S is empty.
    SelectedOrAll = 1 << 1,
    /// B.
    Box = 1 << 2,
    /// B if it is a square.
    Square = 1 << 3,
    /// S if something was copied.
    Pasted = 1 << 4,
    /// The region around S if that is a single cell.
    Flood = 1 << 5,
}

/// Bit of a recipe that copies.
const COPIES: u32 = 1 << 6;
/// Where a recipe has its source and its routes.
const SOURCE: u32 = 8;
const ROWS: u32 = 16;
const COLUMNS: u32 = 24;

/// The source that is the working grid.
pub(super) const GRID: u32 = COLOURS as u32;
/// The source that is the clipboard.
pub(super) const CLIPBOARD: u32 = COLOURS as u32 + 1;

/// The recipes of the operations below [`COPY_INPUT`].
pub(super) static RECIPES: [u32; COPY_INPUT as usize] = {
    let mut recipes = [0; COPY_INPUT as usize];
    let mut colour = 0;
    while colour < COLOURS {
        recipes[colour as usize] = Recipe::paint(Region::Selected, colour).word();
        recipes[(COLOURS + colour) as usize] = Recipe::paint(Region::Flood, colour).word();
        colour += 1;
    }
    recipes[20] = Recipe::moved(Region::Box, Route::Next, Route::Stay).word();
    recipes[21] = Recipe::moved(Region::Box, Route::Previous, Route::Stay).word();
    recipes[22] = Recipe::moved(Region::Box, Route::Stay, Route::Next).word();
    recipes[23] = Recipe::moved(Region::Box, Route::Stay, Route::Previous).word();
    recipes[24] = Recipe::moved(Region::Square, Route::Clockwise, Route::Clockwise).word();
    recipes[25] = Recipe::moved(Region::Square, Route::CounterClockwise, Route::CounterClockwise).word();
    recipes[26] = Recipe::moved(Region::Box, Route::Stay, Route::Mirrored).word();
    recipes[27] = Recipe::moved(Region::Box, Route::Mirrored, Route::Stay).word();
    recipes[28] = Recipe { copies: true, ..Recipe::moved(Region::Selected, Route::Stay, Route::Stay) }.word();
    let paste = Recipe::moved(Region::Pasted, Route::FromCorner, Route::FromCorner);
    recipes[29] = Recipe { source: CLIPBOARD, ..paste }.word();
    recipes[30] = Recipe { copies: true, ..Recipe::paint(Region::Selected, 0) }.word();
    recipes[31] = Recipe::paint(Region::SelectedOrAll, 0).word();
    recipes
};

impl Recipe {
    const fn paint(region: Region, colour: u8) -> Self {
        Self { region, source: colour as u32, rows: Route::Stay, columns: Route::Stay, copies: false }
    }

    const fn moved(region: Region, rows: Route, columns: Route) -> Self {
        Self { region, source: GRID, rows, columns, copies: false }
    }

    const fn word(self) -> u32 {
        self.region as u32
            | if self.copies { COPIES } else { 0 }
            | self.source << SOURCE
            | (self.rows as u32) << ROWS
            | (self.columns as u32) << COLUMNS
    }
}

/// An operation on a certain state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<U> {
    /// The chosen cells inside of the active area.
    pub(super) selected: U,
    /// The cells to change.
    pub(super) region: U,
    /// The cell whose surroundings are to change; 0 if there is none.
    pub(super) flooded: U,
    /// The source.
    pub(super) source: U,
    /// The register of the rows' part of places.
    pub(super) rows: U,
    /// The register of the columns' part.
    pub(super) columns: U,
    /// What is added to places: where the clipboard's cells begin, for a paste.
    pub(super) begin: U,
    /// All bits set if the region goes to the clipboard first.
    pub(super) copies: U,
    /// Size and corner afterwards.
    pub(super) extent: U,
}

impl<U: Copy> Plan<U> {
    /// The same with other words.
    #[inline(always)]
    pub(super) fn map<V>(&self, word: impl Fn(&U) -> V) -> Plan<V> {
        Plan {
            selected: word(&self.selected),
            region: word(&self.region),
            flooded: word(&self.flooded),
            source: word(&self.source),
            rows: word(&self.rows),
            columns: word(&self.columns),
            begin: word(&self.begin),
            copies: word(&self.copies),
            extent: word(&self.extent),
        }
    }
}

/// Plans the operation of a recipe with the chosen cells. `extent` has height and width of the active area, then top
/// and left of the clipboard, a byte each, as [`Head`](crate::arc::state::Head) keeps them.
#[inline(always)]
pub(super) fn plan<R: Lanes>(recipe: R::Uint, chosen: R::Uint, extent: R::Uint) -> Plan<R::Uint> {
    let word = R::Uint::splat;
    let none = |cells: R::Uint| cells.eq(word(0));
    let wanted = |bit: u32| !none(recipe & word(bit));
    let area = area(extent);
    let selected = chosen & area;
    let meant = R::Uint::select(none(selected), area, selected);
    // The first cell stands for an area without any; it is not changed, because no area has it.
    let around = meant | R::Uint::masked(none(meant), 1);
    let rows = span::<R>(touched_rows(around));
    let columns = span::<R>(touched_columns(around));
    // Rows are counted by their first cell so far.
    let five = word(SIDE as u32);
    let boxed = area
        & (rows.last.wrapping_add(five).bit().wrapping_sub(rows.first.bit()))
        & repeated(columns.last.wrapping_add(word(1)).bit().wrapping_sub(columns.first.bit()));
    let extent_of = |span: &Span<R::Uint>| span.last.wrapping_sub(span.first);
    let is_square = extent_of(&rows).eq(extent_of(&columns).mul_low(five));
    let corner = extent.shr(16);
    let has_copy = !corner.eq(word(NO_CORNER));
    let region = selected.keep(wanted(Region::Selected as u32) | wanted(Region::Pasted as u32) & has_copy)
        | meant.keep(wanted(Region::SelectedOrAll as u32))
        | boxed.keep(wanted(Region::Box as u32) | wanted(Region::Square as u32) & is_square);
    let is_cell = none(selected & selected.wrapping_sub(word(1)));
    let copies = wanted(COPIES);
    let first = row_of(rows.first) | columns.first.shl(8);
    let copied = R::Uint::select(none(selected), word(NO_CORNER), first);
    let source = recipe.shr(SOURCE) & word(0xff);
    let begin = (corner & word(0xff)).mul_low(five).wrapping_add(corner.shr(8));
    let register = |at: u32, span: R::Uint| (recipe.shr(at) & word(0xff)).mul_low(word(SPANS)).wrapping_add(span);
    Plan {
        selected,
        region,
        flooded: selected.keep(wanted(Region::Flood as u32) & is_cell),
        source,
        rows: register(ROWS, rows.first.wrapping_add(row_of(rows.last))),
        columns: register(COLUMNS, columns.first.mul_low(five).wrapping_add(columns.last)),
        begin: begin.keep(source.eq(word(CLIPBOARD))),
        copies: R::Uint::masked(copies, u32::MAX),
        extent: R::Uint::select(copies, (extent & word(0xffff)) | copied.shl(16), extent),
    }
}

/// [`Corner::NONE`](crate::arc::grid::Corner::NONE) as it is kept.
const NO_CORNER: u32 = 0xff;

/// The cells of an active area; height and width are in the lowest bytes.
#[inline(always)]
pub(super) fn area<U: Uint>(extent: U) -> U {
    let (height, width) = (extent & U::splat(0xff), extent.shr(8) & U::splat(0xff));
    let below = |count: U| count.bit().wrapping_sub(U::splat(1));
    below(height.mul_low(U::splat(SIDE as u32))) & repeated(below(width))
}

/// The cells of the inclusive rectangle between two corners, each row and column below 5, in any order.
#[inline(always)]
pub(super) fn rectangle<U: Uint>([r1, c1, r2, c2]: [U; 4]) -> U {
    let sorted = |a: U, b: U| (U::select(a.lt(b), a, b), U::select(a.lt(b), b, a));
    let ((top, bottom), (left, right)) = (sorted(r1, r2), sorted(c1, c2));
    let five = U::splat(SIDE as u32);
    let rows = bottom.mul_low(five).wrapping_add(five).bit().wrapping_sub(top.mul_low(five).bit());
    rows & repeated(right.wrapping_add(U::splat(1)).bit().wrapping_sub(left.bit()))
}

/// The number of cells.
#[inline(always)]
pub(super) fn count<U: Uint>(cells: U) -> U {
    let twos = cells.wrapping_sub(cells.shr(1) & U::splat(0x5555_5555));
    let fours = (twos & U::splat(0x3333_3333)).wrapping_add(twos.shr(2) & U::splat(0x3333_3333));
    let eights = fours.wrapping_add(fours.shr(4)) & U::splat(0x0f0f_0f0f);
    eights.mul_low(U::splat(0x0101_0101)).shr(24)
}

/// A row of bits in every row.
#[inline(always)]
fn repeated<U: Uint>(row: U) -> U {
    row.mul_low(U::splat(COLUMN))
}

/// The row of a cell, exact for every cell and without a division.
#[inline(always)]
pub(super) fn row_of<U: Uint>(cell: U) -> U {
    cell.mul_low(U::splat(13)).shr(6)
}

/// The first cell of each row that has one of the cells.
#[inline(always)]
fn touched_rows<U: Uint>(cells: U) -> U {
    let pairs = cells | cells.shr(1);
    (pairs | pairs.shr(2) | cells.shr(4)) & U::splat(COLUMN)
}

/// The columns that have one of the cells.
#[inline(always)]
fn touched_columns<U: Uint>(cells: U) -> U {
    let pairs = cells | cells.shr(5);
    (pairs | pairs.shr(10) | cells.shr(20)) & U::splat((1 << SIDE) - 1)
}

/// Places of the lowest and of the highest bit.
struct Span<U> {
    first: U,
    last: U,
}

/// Of a word that is not 0 and below 2^24.
#[inline(always)]
fn span<R: Lanes>(bits: R::Uint) -> Span<R::Uint> {
    // The exponent of a number is the place of its highest bit.
    let highest = |bits: R::Uint| R::from_uint(bits).to_bits().shr(23).wrapping_sub(R::Uint::splat(127));
    let lowest_bit = bits & R::Uint::splat(0).wrapping_sub(bits);
    Span { first: highest(lowest_bit), last: highest(bits) }
}
