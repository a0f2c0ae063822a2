//! The numbers that networks compute with.

use num_traits::{Float, NumAssign};

/// `f32` to learn, `f64` to check.
pub trait Scalar: Float + NumAssign + Default + Send + Sync + std::fmt::Debug + std::iter::Sum + 'static {
    /// The nearest number of this type.
    fn of(value: f64) -> Self {
        Self::from(value).expect("every f64 has a nearest number")
    }

    /// Replaces each value by its hyperbolic tangent.
    fn tanh_all(values: &mut [Self]) {
        values.iter_mut().for_each(|value| *value = value.tanh());
    }
}

impl Scalar for f64 {}

impl Scalar for f32 {
    fn tanh_all(values: &mut [Self]) {
        values.iter_mut().for_each(|value| *value = tanh(*value));
    }
}

/// The hyperbolic tangent as a quotient of polynomials (the minimax approximation of Eigen), which compiles to
/// lanes; the standard library's function is a call for each value.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    // Beyond this the quotient is as near to 1 as it gets. `clamp` keeps NaN, so that a network that has gone wrong shows it.
    let x = x.clamp(-7.998_812, 7.998_812);
    let square = x * x;
    let upper = [2.000_188e-13, -8.604_672e-11, 5.122_297e-8, 1.485_722_3e-5, 6.372_619e-4, 4.893_524_6e-3];
    let lower = [1.198_258_4e-6, 1.185_347_1e-4, 2.268_434_6e-3, 4.893_525e-3];
    let horner = |first: f32, rest: &[f32]| rest.iter().fold(first, |sum, factor| sum.mul_add(square, *factor));
    x * horner(-2.760_768_5e-16, &upper) / horner(lower[0], &lower[1..])
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
        assert_eq!(tanh(0.0), 0.0);
        assert_eq!((tanh(1e30), tanh(-1e30)), (tanh(8.0), -tanh(8.0)));
        assert!(tanh(f32::NAN).is_nan());
    }
}
