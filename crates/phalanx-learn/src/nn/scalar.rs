//! The numbers that networks compute with, one at a time and sixteen together.

use bytemuck::Pod;
use num_traits::{Float, NumAssign};
use phalanx_core::lanes::{LaneValue, Lanes, Real, Uint, f32x8, f32x16};

/// Numbers that are computed together: a register of AVX-512, two of AVX2.
pub(super) const LANES: usize = 16;

/// The side of a square block that [`Scalar::turn`] turns around.
pub(super) const SIDE: usize = 8;

/// `f32` to learn, `f64` to check.
pub trait Scalar: Float + NumAssign + Default + Send + Sync + std::fmt::Debug + std::iter::Sum + Pod {
    /// Sixteen of them.
    type Wide: Wide<Self>;

    /// The nearest number of this type.
    fn of(value: f64) -> Self {
        Self::from(value).expect("every f64 has a nearest number")
    }

    /// e to the power of this. In single precision it is the engine's own: the same bits on every machine, and inlined,
    /// where the C library's, which serves for double precision, is neither.
    fn natural_exp(self) -> Self;

    /// The natural logarithm, likewise.
    fn natural_log(self) -> Self;

    /// Writes the columns of a square block of [`SIDE`] as rows. Rows are as far apart as the numbers say.
    fn turn(block: &[Self], stride: usize, out: &mut [Self], out_stride: usize) {
        for (i, row) in out.chunks_mut(out_stride).take(SIDE).enumerate() {
            row.iter_mut().zip(block[i..].iter().step_by(stride)).take(SIDE).for_each(|(x, value)| *x = *value);
        }
    }
}

/// Sixteen numbers that are computed together. What each of them becomes does not depend on the machine.
pub trait Wide<T>: Pod + Send + Sync + std::fmt::Debug {
    /// The same number sixteen times.
    fn splat(value: T) -> Self;
    /// Reads sixteen numbers.
    fn load(values: &[T]) -> Self;
    /// Writes sixteen numbers.
    fn store(self, out: &mut [T]);
    /// `self * factor + addend`, rounded once.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// Their sum, always in the same order.
    fn sum(self) -> T;
    /// [`Scalar::natural_exp`] of each.
    fn exp(self) -> Self;
    /// [`Scalar::natural_log`] of each.
    fn log(self) -> Self;
    /// The hyperbolic tangents; what is no number stays none.
    fn tanh(self) -> Self;
    /// A gradient before the hyperbolic tangents `y`, from the one behind them.
    fn through_tanh(self, y: Self) -> Self;
    /// `max(0, x)`; what is no number stays none.
    fn relu(self) -> Self;
    /// A gradient before [`Wide::relu`] gave `y`, from the one behind it.
    fn through_relu(self, y: Self) -> Self;
}

impl Scalar for f64 {
    type Wide = [f64; LANES];

    fn natural_exp(self) -> Self {
        self.exp()
    }

    fn natural_log(self) -> Self {
        self.ln()
    }
}

impl Wide<f64> for [f64; LANES] {
    fn splat(value: f64) -> Self {
        [value; LANES]
    }
    fn load(values: &[f64]) -> Self {
        values[..LANES].try_into().expect("sixteen numbers")
    }
    fn store(self, out: &mut [f64]) {
        out[..LANES].copy_from_slice(&self);
    }
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        std::array::from_fn(|i| self[i].mul_add(factor[i], addend[i]))
    }
    fn sum(self) -> f64 {
        self.iter().sum()
    }
    fn exp(self) -> Self {
        self.map(f64::exp)
    }
    fn log(self) -> Self {
        self.map(f64::ln)
    }
    fn tanh(self) -> Self {
        self.map(f64::tanh)
    }
    fn through_tanh(self, y: Self) -> Self {
        std::array::from_fn(|i| self[i] * (1.0 - y[i] * y[i]))
    }
    fn relu(self) -> Self {
        self.map(|x| if x < 0.0 { 0.0 } else { x })
    }
    fn through_relu(self, y: Self) -> Self {
        std::array::from_fn(|i| if y[i] > 0.0 { self[i] } else { 0.0 })
    }
}

impl Scalar for f32 {
    type Wide = f32x16;

    #[inline(always)]
    fn natural_exp(self) -> Self {
        Real::exp(self)
    }

    #[inline(always)]
    fn natural_log(self) -> Self {
        Real::ln(self)
    }

    #[inline(always)]
    fn turn(block: &[Self], stride: usize, out: &mut [Self], out_stride: usize) {
        let mut rows = [f32x8::ZERO; SIDE];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = Lanes::from_slice(&block[i * stride..]);
        }
        for (i, row) in f32x8::transpose(rows).into_iter().enumerate() {
            row.write_to(&mut out[i * out_stride..]);
        }
    }
}

impl Wide<f32> for f32x16 {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self::splat(value)
    }
    #[inline(always)]
    fn load(values: &[f32]) -> Self {
        <Self as Lanes>::from_slice(values)
    }
    #[inline(always)]
    fn store(self, out: &mut [f32]) {
        Lanes::write_to(self, out);
    }
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Real::mul_add(self, factor, addend)
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        let [low, high]: [f32x8; 2] = bytemuck::cast(self);
        let [a, b, c, d, e, f, g, h] = (low + high).to_array();
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }
    #[inline(always)]
    fn exp(self) -> Self {
        Real::exp(self)
    }
    #[inline(always)]
    fn log(self) -> Self {
        Real::ln(self)
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        tanh(self)
    }
    #[inline(always)]
    fn through_tanh(self, y: Self) -> Self {
        self * Real::mul_add(-y, y, Self::splat(1.0))
    }
    #[inline(always)]
    fn relu(self) -> Self {
        // With the constant on the left, what is no number goes through.
        Real::max(Self::splat(0.0), self)
    }
    #[inline(always)]
    fn through_relu(self, y: Self) -> Self {
        self.keep(y.gt(Self::splat(0.0)))
    }
}

/// e to the power of each.
#[inline(always)]
pub(crate) fn exp_all<T: Scalar>(values: &mut [T]) {
    map_all(values, T::Wide::exp, T::natural_exp);
}

/// The natural logarithm of each.
#[inline(always)]
pub(super) fn log_all<T: Scalar>(values: &mut [T]) {
    map_all(values, T::Wide::log, T::natural_log);
}

/// In lanes as far as there are enough; the rest one by one, which gives the same bits.
#[inline(always)]
fn map_all<T: Scalar>(values: &mut [T], wide: impl Fn(T::Wide) -> T::Wide, single: impl Fn(T) -> T) {
    let (groups, rest) = values.as_chunks_mut::<LANES>();
    groups.iter_mut().for_each(|group| wide(T::Wide::load(group)).store(group));
    rest.iter_mut().for_each(|value| *value = single(*value));
}

/// The hyperbolic tangent as a quotient of polynomials (the minimax approximation of Eigen).
#[inline(always)]
fn tanh<R: Lanes>(x: R) -> R {
    // Beyond this the quotient is as near to 1 as it gets. Constants on the left let NaN through, so that a network
    // that has gone wrong shows it.
    let largest = R::splat(7.998_812);
    let x = (-largest).max(largest.min(x));
    let square = x * x;
    let upper = [2.000_188e-13, -8.604_672e-11, 5.122_297e-8, 1.485_722_3e-5, 6.372_619e-4, 4.893_524_6e-3];
    let lower = [-1.185_347_1e-4, -2.268_434_6e-3, -4.893_525e-3];
    let horner = |first: f64, rest: &[f64]| {
        rest.iter().fold(R::splat(first), |sum, factor| sum.mul_add(square, R::splat(*factor)))
    };
    quotient(x * horner(-2.760_768_5e-16, &upper), horner(-1.198_258_4e-6, &lower))
}

/// `upper / -minus_lower` to a unit in the last place, for a `lower` far from the ends of the range. A division
/// should keep the divider of a core busy for as long as twenty of these products take (by its tables, not measured).
#[inline(always)]
fn quotient<R: Lanes>(upper: R, minus_lower: R) -> R {
    // Exponents subtract: right to 1/20, then to 2e-4 (the cube), and at last the remainder is divided, too.
    let guess = R::from_bits(R::Uint::splat(0xFEF3_11C3).wrapping_sub(minus_lower.to_bits()));
    let error = minus_lower.mul_add(guess, R::splat(1.0));
    let per_lower = error.mul_add(error, error).mul_add(guess, guess);
    let quotient = upper * per_lower;
    minus_lower.mul_add(quotient, upper).mul_add(per_lower, quotient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanh_is_right_to_a_few_units_in_the_last_place() {
        let mut worst = 0.0_f64;
        for i in -200_000..=200_000 {
            let x = i as f32 * 1e-4;
            let exact = f64::from(x).tanh();
            let error = (f64::from(tanh(x)) - exact).abs() / exact.abs().max(1e-30);
            worst = if x == 0.0 { worst } else { worst.max(error) };
        }
        assert!(worst < 6e-7, "{worst}");
        assert_eq!(tanh(0.0_f32), 0.0);
        assert_eq!((tanh(1e30_f32), tanh(-1e30_f32)), (tanh(8.0_f32), -tanh(8.0_f32)));
        assert!(tanh(f32::NAN).is_nan());
    }

    #[test]
    fn sixteen_are_as_one() {
        let values = [-9.0, -1.5, -0.1, 0.0, 0.3, 2.0, f32::NAN, f32::INFINITY].repeat(2);
        let wide: f32x16 = Wide::load(&values);
        let (mut tanhs, mut relus) = ([0.0; LANES], [0.0; LANES]);
        Wide::tanh(wide).store(&mut tanhs);
        Wide::relu(wide).store(&mut relus);
        let same = |found: f32, expected: f32| found == expected || found.is_nan() && expected.is_nan();
        assert!(tanhs.iter().zip(&values).all(|(found, x)| same(*found, tanh(*x))), "{tanhs:?}");
        let expected = [0.0, 0.0, 0.0, 0.0, 0.3, 2.0, f32::NAN, f32::INFINITY].repeat(2);
        assert!(relus.iter().zip(&expected).all(|(found, x)| same(*found, *x)), "{relus:?}");
        assert_eq!(<f32x16 as Wide<f32>>::load(&[[1.0; 8], [2.0; 8]].concat()).sum(), 24.0);
    }
}
