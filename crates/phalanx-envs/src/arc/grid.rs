//! The canvas, the selection and the clipboard: plain data of a fixed size.
//!
//! A canvas has N x N cells in rows of S bytes. With S = 32 a row is one AVX2 register, with S = 8 one
//! word, so a loop over a row compiles to a few vector instructions and the small canvas pays nothing
//! for the large one. A selection is one bit mask per row. Rows and columns count from 0; the active
//! area is always the top-left h x w rectangle and everything else is [`PADDING`].
//!
//! Cells and size are separate, because plain data of a generic size can only be derived for arrays:
//! [`State`](super::state::State) keeps the cells as arrays and the sizes in a header.

use bytemuck::{Pod, Zeroable};

/// What lies outside of the active area.
pub const PADDING: i8 = -1;

/// Number of colours.
pub const COLOURS: u8 = 10;

/// Colours 0..=9 inside of the active area, [`PADDING`] outside; columns from N to S are always padding.
pub type Cells<const N: usize, const S: usize> = [[i8; S]; N];

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
pub struct Canvas<const N: usize, const S: usize> {
    /// The colours.
    pub cells: Cells<N, S>,
    /// The active area.
    pub size: Size,
}

/// Cells of a canvas: bit c of word r is row r, column c.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Selection<const N: usize>(pub [u32; N]);

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
pub struct Clipboard<const N: usize, const S: usize> {
    /// Colours, [`PADDING`] where nothing was copied: the mask is implied.
    pub cells: Cells<N, S>,
    /// Where they begin.
    pub corner: Corner,
}

impl Size {
    /// Number of cells.
    #[inline(always)]
    pub fn area(self) -> u32 {
        u32::from(self.height) * u32::from(self.width)
    }

    /// The active area as a rectangle; `None` if it is empty.
    #[inline(always)]
    pub fn bounds(self) -> Option<Bounds> {
        let (height, width) = (usize::from(self.height), usize::from(self.width));
        (height > 0 && width > 0).then(|| Bounds { top: 0, left: 0, bottom: height - 1, right: width - 1 })
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

impl<const N: usize, const S: usize> Canvas<N, S> {
    const SHAPE_IS_SOUND: () = assert!(
        N >= 1 && N <= 31 && N <= S && S <= 32 && S.is_multiple_of(8),
        "rows of 8 to 32 bytes, at most 31 cells"
    );

    /// No active area at all: what stands for a target that is not known.
    pub const EMPTY: Self = {
        let () = Self::SHAPE_IS_SOUND;
        Self { cells: [[PADDING; S]; N], size: Size { height: 0, width: 0 } }
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
        for (r, row) in canvas.cells.iter_mut().enumerate().take(height) {
            for (c, cell) in row.iter_mut().enumerate().take(width) {
                *cell = colour(r, c);
            }
        }
        canvas
    }

    /// The colour of a cell, or [`PADDING`].
    pub fn get(&self, row: usize, column: usize) -> i8 {
        self.cells[row][column]
    }

    /// Whether colours are inside and padding outside; every operation keeps this true.
    pub fn is_sound(&self) -> bool {
        let (height, width) = (usize::from(self.size.height), usize::from(self.size.width));
        height <= N
            && width <= N
            && self.cells.iter().enumerate().all(|(r, row)| {
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
        let (r1, c1, r2, c2) = (r1.min(N - 1), c1.min(N - 1), r2.min(N - 1), c2.min(N - 1));
        let columns = columns(c1.min(c2), c1.max(c2));
        let (top, height) = (r1.min(r2), r1.abs_diff(r2));
        // A subtraction that wraps makes one comparison of two, and no branch.
        Self(std::array::from_fn(|r| if r.wrapping_sub(top) <= height { columns } else { 0 }))
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
        Self(std::array::from_fn(|r| if (r as u32) < height { self.0[r] & columns } else { 0 }))
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

impl Bounds {
    /// Its columns as bits.
    #[inline(always)]
    pub fn columns(&self) -> u32 {
        columns(self.left, self.right)
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

impl<const N: usize, const S: usize> Clipboard<N, S> {
    /// Nothing copied.
    pub const EMPTY: Self = Self { cells: [[PADDING; S]; N], corner: Corner::NONE };
}

/// The bits of columns `left..=right`, which are below 31.
#[inline(always)]
fn columns(left: usize, right: usize) -> u32 {
    (2_u32 << right) - (1 << left)
}

/// Bits spread to bytes: -1 where a bit is set, 0 elsewhere.
#[inline(always)]
pub(super) fn lanes<const S: usize>(bits: u32) -> [i8; S] {
    let mut bytes = [0; S];
    for (k, eight) in bytes.chunks_exact_mut(8).enumerate() {
        eight.copy_from_slice(&SPREAD[(bits >> (8 * k)) as u8 as usize]);
    }
    bytes
}

/// Each byte spread to eight lanes.
static SPREAD: [[i8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            table[byte][bit] = -((byte >> bit & 1) as i8);
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// `new` where the mask's bytes are -1, `old` where they are 0.
#[inline(always)]
pub(super) fn blend<const S: usize>(mask: &[i8; S], new: &[i8; S], old: &[i8; S]) -> [i8; S] {
    std::array::from_fn(|c| (new[c] & mask[c]) | (old[c] & !mask[c]))
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
        let canvas = Canvas::<5, 8>::filled(2, 3, 0);
        assert_eq!(canvas.size.selection(), Selection::<5>::rectangle((0, 0), (1, 2)));
        assert_eq!(some.within(canvas.size), Selection::EMPTY);
        assert_eq!(Selection::<30>::rectangle((0, 0), (29, 29)).count(), 900);
    }

    #[test]
    fn lanes_spread_every_bit_to_its_byte() {
        for bits in [0, 1, 0x8000_0001, 0x1234_5678, u32::MAX] {
            assert_eq!(lanes::<32>(bits), std::array::from_fn(|c| -((bits >> c & 1) as i8)));
            assert_eq!(lanes::<8>(bits), std::array::from_fn(|c| -((bits >> c & 1) as i8)));
        }
    }
}
