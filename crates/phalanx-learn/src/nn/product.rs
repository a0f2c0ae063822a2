//! Products with tiles.
//!
//! A tile has a line for each feature, in which the rows of a batch stand side by side: lanes go over rows, whatever the
//! number of features, and neither a layer nor the gradient of its inputs needs a transposed copy of the weights. Lines are
//! `stride` apart and padded, so that the loops know whole registers only. The gradient of the weights sums over rows:
//! there the inputs are turned around ([`turn`]), so that lanes go over features and no register has to be summed up.
//!
//! Every sum of [`map`] goes through its terms in order, however many are in a block. So does one of [`add_outer`], or
//! through sixteen sums of every sixteenth term, by the shape of the layer alone.
//!
//! Why not the `gemm` crate: what it computes depends on the machine, it allocates, and it wants its operands packed. Nor
//! is it faster: README has a 4-64-64-2 network at 1.3 times its rate (Zen 5, one thread). `cargo run --release -p
//! phalanx-learn --example network_rate` prints both rates at the same shapes.

use super::Scalar;
use super::scalar::{LANES, SIDE, Wide};

/// Lines of a block, and registers of each. Together they are most of the registers that there are: the rest is for what
/// is loaded. More lines than six are more pointers than a core has registers for.
const LINES: usize = 6;
const REGISTERS: usize = if cfg!(target_feature = "avx512f") { 4 } else { 1 };

/// Terms of the sums in a round of the loop.
const UNROLLED: usize = 4;

/// Lines of either side of a block of [`dots`].
const DOTS: usize = if cfg!(target_feature = "avx512f") { 4 } else { 2 };

/// The stride of lines of so many rows: an odd number of cache lines, or the blocks of a column would share few sets of
/// the cache.
pub(super) fn stride(rows: usize) -> usize {
    rows.next_multiple_of(2 * LANES) + LANES
}

/// Rows up to the end of the last register.
pub(super) fn padded(rows: usize) -> usize {
    rows.next_multiple_of(LANES)
}

/// Memory for tiles. It starts on a cache line: a register that lies on two is loaded half as fast.
#[derive(Clone, Debug)]
pub(super) struct Memory<T: Scalar>(Vec<T::Wide>);

impl<T: Scalar> Memory<T> {
    pub(super) fn new(len: usize) -> Self {
        Self(vec![T::Wide::splat(T::zero()); len.div_ceil(LANES)])
    }
}

impl<T: Scalar> std::ops::Deref for Memory<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.0)
    }
}

impl<T: Scalar> std::ops::DerefMut for Memory<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

/// A matrix whose rows are in memory one after the other, perhaps seen as its transpose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<'a, T, const TRANSPOSED: bool> {
    values: &'a [T],
    rows: usize,
    columns: usize,
    /// From one row in memory to the next.
    stride: usize,
}

impl<'a, T: Scalar> Matrix<'a, T, false> {
    pub(super) fn new(values: &'a [T], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "a matrix of {rows} x {columns}");
        Self { values, rows, columns, stride: columns }
    }

    pub(super) fn transposed(self) -> Matrix<'a, T, true> {
        Matrix { values: self.values, rows: self.columns, columns: self.rows, stride: self.stride }
    }
}

/// Writes `finish(starts + matrix * x)` for the first `count` columns of `x`; without `starts` they are 0. `finish` is told
/// where in `y` its result goes. Lines of `x` and `y` are as far apart as the second numbers say.
pub(super) fn map<T: Scalar, const TRANSPOSED: bool>(
    matrix: Matrix<'_, T, TRANSPOSED>,
    starts: Option<&[T]>,
    x: (&[T], usize),
    y: (&mut [T], usize),
    count: usize,
    finish: impl Fn(T::Wide, usize) -> T::Wide + Copy,
) {
    let mut column = 0;
    while column < count {
        let place = |line| Place { line, column };
        let mut line = 0;
        // One kind of block for each number of registers, and as few numbers as do.
        macro_rules! lines {
            ($registers:expr, $most:expr) => {
                while line < matrix.rows {
                    let y = (&mut *y.0, y.1);
                    line += match matrix.rows - line {
                        $most.. => {
                            block::<T, TRANSPOSED, { $most }, { $registers }>(matrix, starts, x, y, place(line), finish)
                        }
                        4.. => block::<T, TRANSPOSED, 4, { $registers }>(matrix, starts, x, y, place(line), finish),
                        2.. => block::<T, TRANSPOSED, 2, { $registers }>(matrix, starts, x, y, place(line), finish),
                        _ => block::<T, TRANSPOSED, 1, { $registers }>(matrix, starts, x, y, place(line), finish),
                    };
                }
            };
        }
        let registers = match (count - column).div_ceil(LANES) {
            REGISTERS.. => {
                lines!(REGISTERS, LINES);
                REGISTERS
            }
            2.. => {
                lines!(2, LINES);
                2
            }
            _ => {
                lines!(1, 8);
                1
            }
        };
        column += registers * LANES;
    }
}

/// Where a block of lines and columns is.
#[derive(Clone, Copy)]
struct Place {
    line: usize,
    column: usize,
}

/// `N` lines of `P` registers of columns; answers the number of lines. By itself, so that the compiler finds registers for
/// each kind of block.
#[allow(unsafe_code)] // measured, see below
#[inline(never)]
fn block<T: Scalar, const TRANSPOSED: bool, const N: usize, const P: usize>(
    Matrix { values, columns, stride, .. }: Matrix<'_, T, TRANSPOSED>,
    starts: Option<&[T]>,
    (x, x_stride): (&[T], usize),
    (y, y_stride): (&mut [T], usize),
    Place { line, column }: Place,
    finish: impl Fn(T::Wide, usize) -> T::Wide,
) -> usize {
    let mut sums = [[T::Wide::splat(T::zero()); P]; N];
    if let Some(starts) = starts {
        for (sums, start) in sums.iter_mut().zip(&starts[line..line + N]) {
            *sums = [T::Wide::splat(*start); P];
        }
    }
    assert!(columns > 0 && x.len() >= (columns - 1) * x_stride + column + P * LANES, "lines on the right");
    let last = if TRANSPOSED { (columns - 1) * stride + line + N } else { (line + N - 1) * stride + columns };
    assert!(values.len() >= last, "a matrix on the left");
    let mut add = |k: usize| {
        // SAFETY: k is below `columns`, and the last place of either was checked above. Without the checks in here there is
        // no branch between the products, and the loop is unrolled: branches on the wrong addresses keep the code from the
        // cache of decoded instructions, as it seems: 145 GFLOP/s became 105 to 117 by a change somewhere else.
        let x: [T::Wide; P] = std::array::from_fn(|p| unsafe {
            T::Wide::load(x.get_unchecked(k * x_stride + column + p * LANES..k * x_stride + column + (p + 1) * LANES))
        });
        // Weights are loaded one by one: N of them together would push sums out of their registers.
        for (i, sums) in sums.iter_mut().enumerate() {
            let at = if TRANSPOSED { k * stride + line + i } else { (line + i) * stride + k };
            // SAFETY: as above.
            let weight = T::Wide::splat(unsafe { *values.get_unchecked(at) });
            for (sum, x) in sums.iter_mut().zip(x) {
                *sum = weight.mul_add(x, *sum);
            }
        }
    };
    let unrolled = columns / UNROLLED * UNROLLED;
    for k in (0..unrolled).step_by(UNROLLED) {
        (0..UNROLLED).for_each(|i| add(k + i));
    }
    (unrolled..columns).for_each(add);
    for (i, sums) in sums.into_iter().enumerate() {
        let first = (line + i) * y_stride + column;
        for (p, sum) in sums.into_iter().enumerate() {
            let at = first + p * LANES;
            finish(sum, at).store(&mut y[at..at + LANES]);
        }
    }
    N
}

/// Turns a tile around: `rows` gets a row of `width` numbers for each of the first `count` rows, and some more up to the
/// end of a block.
fn turn<T: Scalar>(tile: &[T], stride: usize, width: usize, rows: &mut [T], row_stride: usize, count: usize) {
    for first in (0..width).step_by(SIDE) {
        for row in (0..count).step_by(SIDE) {
            let (tile, rows) = (&tile[first * stride + row..], &mut rows[row * row_stride + first..]);
            if first + SIDE <= width {
                T::turn(tile, stride, rows, row_stride);
                continue;
            }
            for (i, line) in tile.chunks(stride).take(width - first).enumerate() {
                rows[i..].iter_mut().step_by(row_stride).zip(&line[..SIDE]).for_each(|(x, value)| *x = *value);
            }
        }
    }
}

/// Memory that [`add_outer`] needs for lines of so many rows: `lines` on the left, `columns` on the right.
pub(super) fn outer_memory(lines: usize, columns: usize, rows: usize) -> usize {
    (rows.next_multiple_of(SIDE) + lines) * padded(columns)
}

/// Adds `left * rightᵀ`, summed over the first `rows` rows of two tiles, to `out`, which has a row for each line of `left`
/// and a column for each of `right`. From there to the end of the last register
/// `left` must be 0 and `right` finite.
pub(super) fn add_outer<T: Scalar>(
    out: &mut [T],
    columns: usize,
    (left, right): (&[T], &[T]),
    stride: usize,
    rows: usize,
    memory: &mut [T],
) {
    let lines = out.len() / columns;
    if lines >= SIDE && columns >= LANES {
        let width = padded(columns);
        let (turned, sums) = memory.split_at_mut(rows.next_multiple_of(SIDE) * width);
        turn(right, stride, columns, turned, width, rows);
        let left = Matrix::<T, false> { values: left, rows: lines, columns: rows, stride };
        map(left, None, (turned, width), (sums, width), columns, |sum, _| sum);
        for (out, sums) in out.chunks_exact_mut(columns).zip(sums.chunks_exact(width)) {
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out += *sum);
        }
        return;
    }
    // With few lines on a side, turning the other around would take longer than the product.
    let sizes = Sizes { columns, stride, rows: padded(rows) };
    let mut column = 0;
    while column < columns {
        let wide = columns - column >= DOTS;
        let mut line = 0;
        while line < lines {
            let place = (line, column);
            line += match (lines - line >= DOTS, wide) {
                (true, true) => dots::<T, DOTS, DOTS>(out, place, left, right, sizes),
                (true, false) => dots::<T, DOTS, 1>(out, place, left, right, sizes),
                (false, true) => dots::<T, 1, DOTS>(out, place, left, right, sizes),
                (false, false) => dots::<T, 1, 1>(out, place, left, right, sizes),
            };
        }
        column += if wide { DOTS } else { 1 };
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

    /// A tile of whole numbers, of which sums are exact, with one and the same beyond its rows.
    fn tile<T: Scalar>(features: usize, rows: usize, seed: usize, beyond: f64) -> Vec<T> {
        let mut tile = vec![T::of(beyond); features * stride(rows)];
        for (f, line) in tile.chunks_mut(stride(rows)).enumerate() {
            let whole = |r: usize| T::of(((f * 31 + r * 7 + seed) % 11) as f64 - 5.0);
            line[..rows].iter_mut().enumerate().for_each(|(r, x)| *x = whole(r));
        }
        tile
    }

    fn sums_of_products<T: Scalar>() {
        for (outputs, inputs, rows) in
            [(1, 1, 1), (3, 4, 5), (17, 64, 33), (64, 4, 128), (64, 64, 100), (8, 5, 16), (2, 7, 40), (9, 20, 70)]
        {
            let stride = stride(rows);
            // What stands beyond the rows of a layer's inputs came from its biases.
            let (x, dy) = (tile::<T>(inputs, rows, 1, 3.0), tile::<T>(outputs, rows, 2, 0.0));
            let weights: Vec<T> = (0..outputs * inputs).map(|i| T::of((i * 5 % 13) as f64 - 6.0)).collect();
            let starts: Vec<T> = (0..outputs).map(|i| T::of(i as f64)).collect();
            let matrix = Matrix::new(&weights, outputs, inputs);
            let (nan, two) = (T::of(f64::NAN), T::Wide::splat(T::of(2.0)));
            let mut y = vec![nan; outputs * stride];
            let twice = |y: T::Wide, _| y.mul_add(two, T::Wide::splat(T::zero()));
            map(matrix, Some(&starts), (&x, stride), (&mut y, stride), rows, twice);
            let mut dx = vec![nan; inputs * stride];
            map(matrix.transposed(), None, (&dy, stride), (&mut dx, stride), rows, |dx, _| dx);
            let mut dw = vec![T::one(); outputs * inputs];
            let mut memory = vec![nan; outer_memory(outputs, inputs, rows)];
            add_outer(&mut dw, inputs, (&dy, &x), stride, rows, &mut memory);
            let mut sums = vec![T::one(); outputs];
            add_sums(&mut sums, &dy, stride, rows);
            add_sums(&mut sums, &dy, stride, rows);
            for r in 0..rows {
                for o in 0..outputs {
                    let sum: T = (0..inputs).map(|i| weights[o * inputs + i] * x[i * stride + r]).sum();
                    assert_eq!(y[o * stride + r], T::of(2.0) * (starts[o] + sum));
                }
                for i in 0..inputs {
                    let sum: T = (0..outputs).map(|o| weights[o * inputs + i] * dy[o * stride + r]).sum();
                    assert_eq!(dx[i * stride + r], sum);
                }
            }
            for o in 0..outputs {
                for i in 0..inputs {
                    let sum: T = (0..rows).map(|r| dy[o * stride + r] * x[i * stride + r]).sum();
                    assert_eq!(dw[o * inputs + i], T::one() + sum);
                }
                assert_eq!(sums[o], T::one() + T::of(2.0) * dy[o * stride..][..rows].iter().copied().sum::<T>());
            }
        }
    }

    #[test]
    fn products_are_sums_of_products() {
        sums_of_products::<f32>();
        sums_of_products::<f64>();
    }
}
