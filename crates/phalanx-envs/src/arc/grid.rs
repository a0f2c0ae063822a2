//! The canvas, the selection and the clipboard: plain data of a fixed size.
//!
//! A canvas has N x N cells in rows of W words, eight cells to a word. With W = 4 a row is one AVX2
//! register, with W = 1 a general one; row operations are written over words, so both get the
//! instructions they should and the small canvas pays nothing for the large one. A selection is one bit
//! mask per row. Rows and columns count from 0; the active area is always the top-left h x w rectangle
//! and everything else is [`PADDING`].
//!
//! Cells and size are separate, because plain data of a generic size can only be derived for arrays:
//! [`State`](super::state::State) keeps the cells as arrays and the sizes in a header.

use std::hint::select_unpredictable;

use bytemuck::{Pod, Zeroable, cast};
use phalanx_core::lanes::{i8x32, u32x8};

/// What lies outside of the active area.
pub const PADDING: i8 = -1;

/// Number of colours.
pub const COLOURS: u8 = 10;

/// Colours 0..=9 inside of the active area, [`PADDING`] outside, a byte each, the first column in the
/// lowest byte; columns from N to 8 W are always padding.
pub type Cells<const N: usize, const W: usize> = [Row<W>; N];

/// One row of cells.
pub type Row<const W: usize> = [u64; W];

/// A row of padding.
pub const fn padding<const W: usize>() -> Row<W> {
    [u64::MAX; W]
}

/// The bytes of all rows; row r begins at 8 W r.
#[inline(always)]
pub fn bytes<const N: usize, const W: usize>(cells: &Cells<N, W>) -> &[i8] {
    bytemuck::cast_slice(cells.as_flattened())
}

/// The bytes of all rows, to change them.
#[inline(always)]
pub fn bytes_mut<const N: usize, const W: usize>(cells: &mut Cells<N, W>) -> &mut [i8] {
    bytemuck::cast_slice_mut(cells.as_flattened_mut())
}

/// The size of an active area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Size {
    /// Rows.
    pub height: u8,
    /// Columns.
    pub width: u8,
}

/// A grid with its size, padded to N x N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canvas<const N: usize, const W: usize> {
    /// The colours.
    pub cells: Cells<N, W>,
    /// The active area.
    pub size: Size,
}

/// Cells of a canvas: bit c of word r is row r, column c.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Selection<const N: usize>(pub [u32; N]);

/// Cells that an agent chose, inside of the active area or not.
#[derive(Clone, Copy, Debug)]
pub enum Chosen<const N: usize> {
    /// All cells of a rectangle: what can be said of them takes no look at each row.
    Rectangle(Bounds),
    /// Any cells.
    Cells(Selection<N>),
}

/// Chosen cells inside of an active area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effective<const N: usize> {
    /// The cells.
    pub cells: Selection<N>,
    /// Whether there is none.
    pub is_empty: bool,
    /// The smallest rectangle around them; without a meaning if there is none. (Not an `Option`: whether
    /// there are cells cannot be predicted, so nothing should branch on it that need not.)
    pub bounds: Bounds,
}

/// An inclusive rectangle of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// First row.
    pub top: usize,
    /// First column.
    pub left: usize,
    /// Last row.
    pub bottom: usize,
    /// Last column.
    pub right: usize,
}

/// Where the copied cells of a clipboard begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Corner {
    /// First row that has a cell; `u8::MAX` when the clipboard is empty.
    pub top: u8,
    /// First column that has a cell.
    pub left: u8,
}

/// Copied cells in their original places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clipboard<const N: usize, const W: usize> {
    /// Colours, [`PADDING`] where nothing was copied: the mask is implied.
    pub cells: Cells<N, W>,
    /// Where they begin.
    pub corner: Corner,
}

impl Size {
    /// Number of cells.
    #[inline(always)]
    pub fn area(self) -> u32 {
        u32::from(self.height) * u32::from(self.width)
    }

    /// The active area as a rectangle; its first cell if it is empty.
    #[inline(always)]
    pub fn bounds(self) -> Bounds {
        let last = |count: u8| usize::from(count.saturating_sub(1));
        Bounds { top: 0, left: 0, bottom: last(self.height), right: last(self.width) }
    }

    /// The cells of the active area.
    #[inline(always)]
    pub fn selection<const N: usize>(self) -> Selection<N> {
        Selection([u32::MAX; N]).within(self)
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.height, self.width)
    }
}

impl<const N: usize, const W: usize> Canvas<N, W> {
    const SHAPE_IS_SOUND: () =
        assert!(N >= 1 && N <= 31 && N <= 8 * W && W <= 4, "at most 31 cells in at most 4 words");

    /// No active area at all: what stands for a target that is not known.
    pub const EMPTY: Self = {
        let () = Self::SHAPE_IS_SOUND;
        Self { cells: [padding(); N], size: Size { height: 0, width: 0 } }
    };

    /// One colour on `height` x `width`.
    pub fn filled(height: usize, width: usize, colour: i8) -> Self {
        Self::from_fn(height, width, |_, _| colour)
    }

    /// Each cell of `height` x `width` from its row and column.
    ///
    /// # Panics
    ///
    /// If the size does not fit on the canvas.
    #[track_caller]
    pub fn from_fn(height: usize, width: usize, mut colour: impl FnMut(usize, usize) -> i8) -> Self {
        assert!(height <= N && width <= N, "{height} x {width} cells on a canvas of {N} x {N}");
        let size = Size { height: height as u8, width: width as u8 };
        let mut canvas = Self { size, ..Self::EMPTY };
        for (r, row) in bytes_mut(&mut canvas.cells).chunks_exact_mut(8 * W).enumerate().take(height) {
            for (c, cell) in row.iter_mut().enumerate().take(width) {
                *cell = colour(r, c);
            }
        }
        canvas
    }

    /// The colour of a cell, or [`PADDING`].
    pub fn get(&self, row: usize, column: usize) -> i8 {
        bytes(&self.cells)[row * 8 * W + column]
    }

    /// Whether colours are inside and padding outside; every operation keeps this true.
    pub fn is_sound(&self) -> bool {
        let (height, width) = (usize::from(self.size.height), usize::from(self.size.width));
        height <= N
            && width <= N
            && bytes(&self.cells).chunks_exact(8 * W).enumerate().all(|(r, row)| {
                row.iter().enumerate().all(|(c, cell)| match r < height && c < width {
                    true => (0..COLOURS as i8).contains(cell),
                    false => *cell == PADDING,
                })
            })
    }
}

impl<const N: usize> Selection<N> {
    /// No cell.
    pub const EMPTY: Self = Self([0; N]);

    /// One cell; coordinates beyond the canvas mean its last row or column.
    #[inline(always)]
    pub fn point(row: usize, column: usize) -> Self {
        let mut rows = [0; N];
        rows[row.min(N - 1)] = 1 << column.min(N - 1);
        Self(rows)
    }

    /// An inclusive rectangle between two corners in any order, clipped to the canvas.
    #[inline(always)]
    pub fn rectangle((r1, c1): (usize, usize), (r2, c2): (usize, usize)) -> Self {
        Bounds::between((r1.min(N - 1), c1.min(N - 1)), (r2.min(N - 1), c2.min(N - 1))).selection()
    }

    /// The cells for which `chosen` says so.
    pub fn from_fn(mut chosen: impl FnMut(usize, usize) -> bool) -> Self {
        Self(std::array::from_fn(|r| (0..N).fold(0, |row, c| row | u32::from(chosen(r, c)) << c)))
    }

    /// The cells listed.
    pub fn cells(cells: &[(usize, usize)]) -> Self {
        Self::from_fn(|r, c| cells.contains(&(r, c)))
    }

    /// Whether a cell is selected.
    pub fn contains(&self, row: usize, column: usize) -> bool {
        self.0[row] >> column & 1 == 1
    }

    /// Number of cells.
    #[inline(always)]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|row| row.count_ones()).sum()
    }

    /// The part inside of an active area.
    #[inline(always)]
    pub fn within(&self, size: Size) -> Self {
        let (height, columns) = (u32::from(size.height), (1_u32 << size.width) - 1);
        let mut rows = self.0;
        for (r, row) in rows.iter_mut().enumerate() {
            *row &= if (r as u32) < height { columns } else { 0 };
        }
        Self(rows)
    }

    /// The smallest rectangle around the selection; `None` if it is empty.
    #[inline(always)]
    pub fn bounds(&self) -> Option<Bounds> {
        let (mut rows, mut columns) = (0_u32, 0_u32);
        for (r, row) in self.0.iter().enumerate() {
            rows |= u32::from(*row != 0) << r;
            columns |= row;
        }
        (rows != 0).then(|| Bounds {
            top: rows.trailing_zeros() as usize,
            left: columns.trailing_zeros() as usize,
            bottom: rows.ilog2() as usize,
            right: columns.ilog2() as usize,
        })
    }

    /// The last cell in row-major order.
    #[inline(always)]
    pub fn last(&self) -> Option<(usize, usize)> {
        let row = self.0.iter().rposition(|row| *row != 0)?;
        Some((row, self.0[row].ilog2() as usize))
    }
}

impl<const N: usize> Chosen<N> {
    /// The cells.
    #[inline(always)]
    pub fn selection(&self) -> Selection<N> {
        match self {
            Self::Rectangle(bounds) => bounds.selection(),
            Self::Cells(cells) => *cells,
        }
    }

    /// The last cell in row-major order.
    #[inline(always)]
    pub fn last(&self) -> Option<(usize, usize)> {
        match self {
            Self::Rectangle(bounds) => Some((bounds.bottom, bounds.right)),
            Self::Cells(cells) => cells.last(),
        }
    }

    /// The part inside of an active area.
    #[inline(always)]
    pub fn within(&self, size: Size) -> Effective<N> {
        match self {
            Self::Rectangle(chosen) => {
                let (height, width, area) = (usize::from(size.height), usize::from(size.width), size.bounds());
                let is_empty = (chosen.top >= height) | (chosen.left >= width);
                let (bottom, right) = (chosen.bottom.min(area.bottom), chosen.right.min(area.right));
                let bounds = Bounds { bottom, right, ..*chosen };
                let all = if is_empty { 0 } else { u32::MAX };
                // Nothing may be shifted by a negative width.
                let columns = columns(bounds.left, right.max(bounds.left)) & all;
                Effective { cells: rows_of(bounds.top, bottom, columns), is_empty, bounds }
            }
            Self::Cells(cells) => {
                let cells = cells.within(size);
                let bounds = cells.bounds();
                Effective { cells, is_empty: bounds.is_none(), bounds: bounds.unwrap_or(size.bounds()) }
            }
        }
    }
}

impl<const N: usize> From<Selection<N>> for Chosen<N> {
    fn from(cells: Selection<N>) -> Self {
        Self::Cells(cells)
    }
}

impl<const N: usize> PartialEq for Chosen<N> {
    fn eq(&self, other: &Self) -> bool {
        self.selection() == other.selection()
    }
}

impl<const N: usize> Eq for Chosen<N> {}

impl Bounds {
    /// The rectangle between two corners in any order.
    #[inline(always)]
    pub fn between((r1, c1): (usize, usize), (r2, c2): (usize, usize)) -> Self {
        Self { top: r1.min(r2), left: c1.min(c2), bottom: r1.max(r2), right: c1.max(c2) }
    }

    /// One of two, without a branch.
    #[inline(always)]
    pub fn select(first: bool, a: Self, b: Self) -> Self {
        let pick = |a, b| select_unpredictable(first, a, b);
        Self {
            top: pick(a.top, b.top),
            left: pick(a.left, b.left),
            bottom: pick(a.bottom, b.bottom),
            right: pick(a.right, b.right),
        }
    }

    /// Whether it is a single cell.
    #[inline(always)]
    pub fn is_cell(&self) -> bool {
        (self.top == self.bottom) & (self.left == self.right)
    }

    /// Its cells.
    #[inline(always)]
    pub fn selection<const N: usize>(&self) -> Selection<N> {
        rows_of(self.top, self.bottom, columns(self.left, self.right))
    }

    /// Its number of rows and of columns.
    pub fn extent(&self) -> (usize, usize) {
        (self.bottom - self.top + 1, self.right - self.left + 1)
    }
}

impl Corner {
    /// The corner of an empty clipboard.
    pub const NONE: Self = Self { top: u8::MAX, left: 0 };
}

impl<const N: usize, const W: usize> Clipboard<N, W> {
    /// Nothing copied.
    pub const EMPTY: Self = Self { cells: [padding(); N], corner: Corner::NONE };
}

/// The same columns in rows `top..=bottom`; without any columns the rows may be in any order.
#[inline(always)]
fn rows_of<const N: usize>(top: usize, bottom: usize, columns: u32) -> Selection<N> {
    // A bit for each row, then no comparison and no branch for any.
    let bits = (2_u32 << bottom).wrapping_sub(1 << top);
    let mut rows = [0; N];
    for (r, row) in rows.iter_mut().enumerate() {
        *row = columns & (bits >> r & 1).wrapping_neg();
    }
    Selection(rows)
}

/// The bits of columns `left..=right`, which are below 31.
#[inline(always)]
fn columns(left: usize, right: usize) -> u32 {
    (2_u32 << right) - (1 << left)
}

/// A bit in the lowest place of every byte.
pub(super) const ONES: u64 = 0x0101_0101_0101_0101;

/// The highest bit of every byte: no colour has it, padding does.
pub(super) const HIGHS: u64 = ONES << 7;

/// Bits spread to bytes: all bits set where one is set, 0 elsewhere.
#[inline(always)]
pub(super) fn spread(cells: u32) -> i8x32 {
    // A shuffle within each half is enough, because the word is in all eight places.
    const BYTE: i8x32 = i8x32::new({
        let mut byte = [0; 32];
        let mut i = 0;
        while i < 32 {
            byte[i] = (i / 8) as i8;
            i += 1;
        }
        byte
    });
    const BIT: i8x32 = i8x32::new({
        let mut bit = [0; 32];
        let mut i = 0;
        while i < 32 {
            bit[i] = (1_u8 << (i % 8)) as i8;
            i += 1;
        }
        bit
    });
    let words: i8x32 = cast(u32x8::splat(cells.to_le()));
    (words.swizzle_half_relaxed(BYTE) & BIT).simd_eq(BIT)
}

/// [`spread`], as far as a row goes.
#[inline(always)]
pub(super) fn lanes<const W: usize>(bits: u32) -> Row<W> {
    if W == 4 {
        let words: [u64; 4] = cast(spread(bits));
        return std::array::from_fn(|k| words[k]);
    }
    // One or two words stay in general registers. (Four were gathered from the table with AVX-512, which is slow.)
    std::array::from_fn(|k| SPREAD[(bits >> (8 * k)) as u8 as usize])
}

/// Each byte spread to eight; the arithmetic for it needs a broadcast that general registers do not have.
static SPREAD: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte] |= 0xff << (8 * bit);
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// `new` where the mask has 255, `old` where it has 0.
#[inline(always)]
pub(super) fn blend<const W: usize>(mask: &Row<W>, new: &Row<W>, old: &Row<W>) -> Row<W> {
    std::array::from_fn(|k| (new[k] & mask[k]) | (old[k] & !mask[k]))
}

/// The highest bit of each byte in which `a` and `b` are equal.
#[inline(always)]
pub(super) fn equal_bytes(a: u64, b: u64) -> u64 {
    let differ = a ^ b;
    // The sum carries into the highest bit of a byte unless its lower bits are 0.
    !(((differ & !HIGHS) + !HIGHS) | differ) & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_are_clipped_ordered_and_measured() {
        let all = Selection::<5>::rectangle((9, 4), (0, 0));
        assert_eq!(all, Selection::from_fn(|_, _| true));
        assert_eq!(all.count(), 25);
        let some = Selection::<5>::rectangle((3, 3), (4, 0));
        assert_eq!(some.bounds(), Some(Bounds { top: 3, left: 0, bottom: 4, right: 3 }));
        assert_eq!(some.last(), Some((4, 3)));
        assert_eq!(Selection::<5>::point(7, 2), Selection::cells(&[(4, 2)]));
        assert_eq!(Selection::<5>::EMPTY.bounds(), None);
        assert_eq!(Selection::<5>::EMPTY.last(), None);
        let canvas = Canvas::<5, 1>::filled(2, 3, 0);
        assert_eq!(canvas.size.selection(), Selection::<5>::rectangle((0, 0), (1, 2)));
        assert_eq!(some.within(canvas.size), Selection::EMPTY);
        assert_eq!(Selection::<30>::rectangle((0, 0), (29, 29)).count(), 900);
    }

    #[test]
    fn lanes_spread_every_bit_to_its_byte() {
        for bits in [0, 1, 0x8000_0001, 0x1234_5678, u32::MAX] {
            let spread: Vec<i8> = (0..32).map(|c| -((bits >> c & 1) as i8)).collect();
            assert_eq!(bytemuck::cast_slice::<_, i8>(&lanes::<4>(bits)), spread);
            assert_eq!(bytemuck::cast_slice::<_, i8>(&lanes::<1>(bits)), &spread[..8]);
        }
    }

    #[test]
    fn equal_bytes_are_found_exactly() {
        for a in 0..=255_u64 {
            for b in 0..=255_u64 {
                let found = equal_bytes(a | 7 << 8 | a << 56, b | 7 << 8 | b << 56);
                let expected = if a == b { HIGHS } else { HIGHS & 0x00ff_ffff_ffff_ff00 };
                assert_eq!(found, expected, "{a} {b}");
            }
        }
    }
}
