//! Products with tiles.
//!
//! A tile has a line for each feature, in which the rows of a batch stand side by side: lanes go over rows, whatever the
//! number of features, and neither a layer nor its gradient needs a transposed copy of the weights. Lines are `stride`
//! apart and padded, so that the loops know whole blocks of rows only.
//!
//! Why not the `gemm` crate: what it computes depends on the machine, it allocates, and it wants its operands packed.
//! Forward and backward of 4-64-64-2 ran at 52 and 58 % of its rate at 128x64x64 (`--example network_rate`, busy machine);
//! in training neither has been shown to be faster.

use super::Scalar;
use super::scalar::{LANES, Wide};

/// Lines of a block: with two registers each, and those of `x` and a weight beside them, they fill sixteen registers.
/// Where there are thirty-two, eight lines (and four by four in [`add_outer`]) made training slower: 171 to 181 k steps/s
/// against 235 to 284 k (PPO, 2 048 environments, one thread, in turns).
const LINES: usize = 6;

/// The stride of lines of so many rows: some cache lines more than a power of two, or the blocks of a column would share
/// few sets of the cache.
pub(super) fn stride(rows: usize) -> usize {
    rows.next_multiple_of(2 * LANES) + 2 * LANES
}

/// Rows up to the end of the last register.
pub(super) fn padded(rows: usize) -> usize {
    rows.next_multiple_of(LANES)
}

/// A matrix whose rows follow each other in memory, perhaps seen as its transpose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<'a, T, const TRANSPOSED: bool> {
    values: &'a [T],
    rows: usize,
    columns: usize,
}

impl<'a, T: Scalar> Matrix<'a, T, false> {
    pub(super) fn new(values: &'a [T], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "a matrix of {rows} x {columns}");
        Self { values, rows, columns }
    }

    pub(super) fn transposed(self) -> Matrix<'a, T, true> {
        Matrix { values: self.values, rows: self.columns, columns: self.rows }
    }
}

/// Writes `finish(starts + matrix * x)` for the first `rows` rows of a tile; without `starts` they are 0.
pub(super) fn map<T: Scalar, const TRANSPOSED: bool>(
    matrix: Matrix<'_, T, TRANSPOSED>,
    starts: Option<&[T]>,
    (x, y): (&[T], &mut [T]),
    stride: usize,
    rows: usize,
    finish: impl Fn(T::Wide) -> T::Wide + Copy,
) {
    assert!(x.len() >= matrix.columns * stride && y.len() >= matrix.rows * stride && padded(rows) <= stride);
    for row in (0..rows).step_by(2 * LANES) {
        let mut line = 0;
        while line < matrix.rows {
            let place = Place { line, row, stride };
            line += match (rows - row > LANES, matrix.rows - line) {
                (true, LINES..) => block::<T, TRANSPOSED, LINES, 2>(matrix, starts, x, y, place, finish),
                (true, 4..) => block::<T, TRANSPOSED, 4, 2>(matrix, starts, x, y, place, finish),
                (true, 2..) => block::<T, TRANSPOSED, 2, 2>(matrix, starts, x, y, place, finish),
                (true, _) => block::<T, TRANSPOSED, 1, 2>(matrix, starts, x, y, place, finish),
                (false, 8..) => block::<T, TRANSPOSED, 8, 1>(matrix, starts, x, y, place, finish),
                (false, 2..) => block::<T, TRANSPOSED, 2, 1>(matrix, starts, x, y, place, finish),
                (false, _) => block::<T, TRANSPOSED, 1, 1>(matrix, starts, x, y, place, finish),
            };
        }
    }
}

/// Where a block of lines and rows is.
#[derive(Clone, Copy)]
struct Place {
    line: usize,
    row: usize,
    stride: usize,
}

/// `N` lines of `P` registers of rows; answers the number of lines.
#[inline(always)]
fn block<T: Scalar, const TRANSPOSED: bool, const N: usize, const P: usize>(
    matrix: Matrix<'_, T, TRANSPOSED>,
    starts: Option<&[T]>,
    x: &[T],
    y: &mut [T],
    Place { line, row, stride }: Place,
    finish: impl Fn(T::Wide) -> T::Wide,
) -> usize {
    let mut sums: [[T::Wide; P]; N] =
        std::array::from_fn(|i| [T::Wide::splat(starts.map_or(T::zero(), |starts| starts[line + i])); P]);
    let Matrix { values, rows, columns } = matrix;
    // Of equal length, which spares a check for each weight.
    let lines: [&[T]; N] =
        std::array::from_fn(|i| if TRANSPOSED { values } else { &values[(line + i) * columns..][..columns] });
    for k in 0..columns {
        let x = &x[k * stride + row..][..P * LANES];
        let x: [T::Wide; P] = std::array::from_fn(|p| T::Wide::load(&x[p * LANES..]));
        let weights: [T; N] = match TRANSPOSED {
            true => values[k * rows + line..][..N].try_into().expect("as many as lines"),
            false => std::array::from_fn(|i| lines[i][k]),
        };
        for i in 0..N {
            let weight = T::Wide::splat(weights[i]);
            for p in 0..P {
                sums[i][p] = weight.mul_add(x[p], sums[i][p]);
            }
        }
    }
    for (i, sums) in sums.into_iter().enumerate() {
        let y = &mut y[(line + i) * stride + row..][..P * LANES];
        y.chunks_exact_mut(LANES).zip(sums).for_each(|(y, sum)| finish(sum).store(y));
    }
    N
}

/// Adds `left * rightᵀ`, summed over the first `rows` rows of two tiles, to `out`, which has a row for each line of `left`
/// and a column for each of `right`. From there to the end of the last register both must be 0.
pub(super) fn add_outer<T: Scalar>(
    out: &mut [T],
    columns: usize,
    (left, right): (&[T], &[T]),
    stride: usize,
    rows: usize,
) {
    let lines = out.len() / columns;
    let sizes = Sizes { columns, stride, rows: padded(rows) };
    // The lines of `left` that stay in the first-level cache while all of `right` passes.
    const NEAR: usize = 24;
    for first in (0..lines).step_by(NEAR) {
        let end = lines.min(first + NEAR);
        let mut column = 0;
        while column < columns {
            let wide = columns - column >= 4;
            let mut line = first;
            while line < end {
                let place = (line, column);
                line += match (end - line >= 3, wide) {
                    (true, true) => dots::<T, 3, 4>(out, place, left, right, sizes),
                    (true, false) => dots::<T, 3, 1>(out, place, left, right, sizes),
                    (false, true) => dots::<T, 1, 4>(out, place, left, right, sizes),
                    (false, false) => dots::<T, 1, 1>(out, place, left, right, sizes),
                };
            }
            column += if wide { 4 } else { 1 };
        }
    }
}

#[derive(Clone, Copy)]
struct Sizes {
    columns: usize,
    stride: usize,
    rows: usize,
}

/// The products of `A` lines with `B`, summed over rows; answers `A`.
#[inline(always)]
fn dots<T: Scalar, const A: usize, const B: usize>(
    out: &mut [T],
    (line, column): (usize, usize),
    left: &[T],
    right: &[T],
    Sizes { columns, stride, rows }: Sizes,
) -> usize {
    let left: [&[T]; A] = std::array::from_fn(|i| &left[(line + i) * stride..][..rows]);
    let right: [&[T]; B] = std::array::from_fn(|i| &right[(column + i) * stride..][..rows]);
    let mut sums = [[T::Wide::splat(T::zero()); B]; A];
    for row in (0..rows).step_by(LANES) {
        // The fewer lines stay in registers: with the sums and one of the others they are sixteen.
        let left: [T::Wide; A] = std::array::from_fn(|i| T::Wide::load(&left[i][row..row + LANES]));
        for j in 0..B {
            let right = T::Wide::load(&right[j][row..row + LANES]);
            for i in 0..A {
                sums[i][j] = left[i].mul_add(right, sums[i][j]);
            }
        }
    }
    for (i, sums) in sums.into_iter().enumerate() {
        let out = &mut out[(line + i) * columns + column..][..B];
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out += sum.sum());
    }
    A
}

/// Adds the sum over rows of each line; beyond the rows they must be 0.
pub(super) fn add_sums<T: Scalar>(sums: &mut [T], tile: &[T], stride: usize, rows: usize) {
    let one = T::Wide::splat(T::one());
    for (total, line) in sums.iter_mut().zip(tile.chunks(stride)) {
        let registers = line[..padded(rows)].chunks_exact(LANES).map(T::Wide::load);
        *total += registers.fold(T::Wide::splat(T::zero()), |sum, x| x.mul_add(one, sum)).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tile of whole numbers, of which sums are exact, with zeros beyond its rows.
    fn tile(features: usize, rows: usize, seed: usize) -> Vec<f64> {
        let mut tile = vec![0.0; features * stride(rows)];
        for (f, line) in tile.chunks_mut(stride(rows)).enumerate() {
            line[..rows].iter_mut().enumerate().for_each(|(r, x)| *x = ((f * 31 + r * 7 + seed) % 11) as f64 - 5.0);
        }
        tile
    }

    #[test]
    fn products_are_sums_of_products() {
        for (outputs, inputs, rows) in [(1, 1, 1), (3, 4, 5), (17, 64, 33), (64, 4, 128), (8, 5, 16), (2, 7, 40)] {
            let stride = stride(rows);
            let (x, dy) = (tile(inputs, rows, 1), tile(outputs, rows, 2));
            let weights: Vec<f64> = (0..outputs * inputs).map(|i| (i * 5 % 13) as f64 - 6.0).collect();
            let starts: Vec<f64> = (0..outputs).map(|i| i as f64).collect();
            let matrix = Matrix::new(&weights, outputs, inputs);
            let mut y = vec![f64::NAN; outputs * stride];
            map(matrix, Some(&starts), (&x, &mut y), stride, rows, |y| y.map(|y| 2.0 * y));
            let mut dx = vec![f64::NAN; inputs * stride];
            map(matrix.transposed(), None, (&dy, &mut dx), stride, rows, |dx| dx);
            let mut dw = vec![1.0; outputs * inputs];
            add_outer(&mut dw, inputs, (&dy, &x), stride, rows);
            let mut sums = vec![1.0; outputs];
            add_sums(&mut sums, &dy, stride, rows);
            for r in 0..rows {
                for o in 0..outputs {
                    let sum: f64 = (0..inputs).map(|i| weights[o * inputs + i] * x[i * stride + r]).sum();
                    assert_eq!(y[o * stride + r], 2.0 * (starts[o] + sum));
                }
                for i in 0..inputs {
                    let sum: f64 = (0..outputs).map(|o| weights[o * inputs + i] * dy[o * stride + r]).sum();
                    assert_eq!(dx[i * stride + r], sum);
                }
            }
            for o in 0..outputs {
                for i in 0..inputs {
                    let sum: f64 = (0..rows).map(|r| dy[o * stride + r] * x[i * stride + r]).sum();
                    assert_eq!(dw[o * inputs + i], 1.0 + sum);
                }
                assert_eq!(sums[o], 1.0 + dy[o * stride..][..rows].iter().sum::<f64>());
            }
        }
    }
}
