//! Matrix products, row by row in memory.

use super::Scalar;

/// A matrix whose rows follow each other in memory, perhaps seen as its transpose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<'a, T> {
    values: &'a [T],
    rows: usize,
    columns: usize,
    /// Distances in memory from one row to the next, and from one column to the next.
    strides: (usize, usize),
}

impl<'a, T> Matrix<'a, T> {
    pub(super) fn new(values: &'a [T], rows: usize, columns: usize) -> Self {
        assert!(values.len() >= rows * columns, "a matrix of {rows} x {columns} in {} values", values.len());
        Self { values, rows, columns, strides: (columns, 1) }
    }

    pub(super) fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, strides: (self.strides.1, self.strides.0), ..self }
    }
}

/// `out += left * right`, where `out` has as many rows as `left` and as many columns as `right`.
pub(super) fn add_product<T: Scalar>(out: &mut [T], left: Matrix<'_, T>, right: Matrix<'_, T>) {
    multiply(out, left, right, true);
}

/// `out = left * right`.
pub(super) fn set_product<T: Scalar>(out: &mut [T], left: Matrix<'_, T>, right: Matrix<'_, T>) {
    multiply(out, left, right, false);
}

fn multiply<T: Scalar>(out: &mut [T], left: Matrix<'_, T>, right: Matrix<'_, T>, add: bool) {
    let (rows, inner, columns) = (left.rows, left.columns, right.columns);
    assert_eq!(inner, right.rows, "a product of {rows} x {inner} and {} x {columns}", right.rows);
    assert!(out.len() >= rows * columns);
    let stride = |stride: usize| stride as isize;
    // SAFETY: both matrices and `out` hold all the elements that their sizes and strides reach: `Matrix::new`
    // and the assertion above checked it. `out` is exclusive, so it overlaps neither.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            out.as_mut_ptr(),
            1,
            stride(columns),
            add,
            left.values.as_ptr(),
            stride(left.strides.1),
            stride(left.strides.0),
            right.values.as_ptr(),
            stride(right.strides.1),
            stride(right.strides.0),
            T::one(),
            T::one(),
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_sums_of_products() {
        let value = |i: usize| (i * 7 % 11) as f64 - 5.0;
        for (rows, inner, columns) in [(1, 1, 1), (3, 4, 5), (17, 64, 2), (5, 0, 3), (0, 4, 2)] {
            let left: Vec<f64> = (0..rows * inner).map(value).collect();
            let right: Vec<f64> = (0..inner * columns).map(|i| value(i + 3)).collect();
            let flipped: Vec<f64> = (0..columns * inner).map(|i| right[i % inner * columns + i / inner]).collect();
            let plain: Vec<f64> = (0..rows * columns)
                .map(|i| (0..inner).map(|k| left[i / columns * inner + k] * right[k * columns + i % columns]).sum())
                .collect();
            let mut out = vec![f64::NAN; rows * columns];
            set_product(&mut out, Matrix::new(&left, rows, inner), Matrix::new(&right, inner, columns));
            assert_eq!(out, plain);
            add_product(&mut out, Matrix::new(&left, rows, inner), Matrix::new(&flipped, columns, inner).transposed());
            assert!(out.iter().zip(&plain).all(|(twice, once)| *twice == 2.0 * once));
        }
    }
}
