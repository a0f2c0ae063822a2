//! Exponential and natural logarithm, and the pieces of them that [`super::pow`] is made of.

use std::f64::consts::{LOG2_E, SQRT_2};

use crate::lanes::{Lanes, Uint};

use super::parts::{ROUNDER, polynomial, polynomial8};

/// ln 2 as the sum of two `f32`.
const LN_2: [f64; 2] = [0.693_147_182_464_599_6, -1.904_654_212_125_933_6e-9];

/// e to the power of `x`, within 2 ulp.
///
/// Underflow is gradual (subnormal results, then 0), overflow is infinite, NaN stays NaN.
#[inline(always)]
pub fn exp<R: Lanes>(x: R) -> R {
    // Beyond these the result is 0 or infinite anyway. Constants on the left let NaN through.
    let x = R::splat(-104.0).max(R::splat(89.0).min(x));
    let rounder = R::splat(ROUNDER);
    let shifted = x.mul_add(R::splat(LOG2_E), rounder);
    let quotient = shifted - rounder;
    // The first product cancels exactly, the second rounds once.
    let rest = quotient.mul_add(R::splat(-LN_2[0]), x);
    let rest = quotient.mul_add(R::splat(-LN_2[1]), rest);
    exp_of_parts(shifted, rest)
}

/// 2^`k` · e^`rest` where `k`, in -252..=256, comes as an integer added to [`ROUNDER`] and |`rest`| is at
/// most ln 2 / 2.
#[inline(always)]
pub(super) fn exp_of_parts<R: Lanes>(shifted: R, rest: R) -> R {
    // Minimax (linear programming on Chebyshev points, then rounded to `f32` coefficient by
    // coefficient) for (e^r - 1 - r) / r², so that e^0 is exactly 1; relative error of e^r 3.1e-9.
    let tail = polynomial(rest, [0.499_999_94, 0.166_665_21, 4.166_826_2e-2, 8.368_675e-3, 1.382_105_5e-3]);
    let fraction = tail.mul_add(rest * rest, rest) + R::splat(1.0);

    // Two factors reach where one power of two cannot: 2^128 and the subnormals.
    let bias = R::splat(ROUNDER).to_bits().wrapping_sub(R::Uint::splat(2 * 127));
    let exponent = shifted.to_bits().wrapping_sub(bias);
    let half = exponent.shr(1);
    fraction * R::from_bits(half.shl(23)) * R::from_bits(exponent.wrapping_sub(half).shl(23))
}

/// Natural logarithm, within 2 ulp for every positive `x`, subnormal or not.
///
/// ln 0 is negative infinity (of either zero), ln of a negative number is NaN, infinity and NaN stay.
#[inline(always)]
pub fn ln<R: Lanes>(x: R) -> R {
    let (exponent, mantissa) = split(x);
    let ln = ln_of_parts(exponent, mantissa);

    let zero = R::splat(0.0);
    let infinity = R::splat(f64::INFINITY);
    let ln = R::select(x.lt(infinity), ln, x); // NaN is not less either
    let ln = R::select(x.lt(zero), R::splat(f64::NAN), ln);
    R::select(x.eq(zero), -infinity, ln)
}

/// [`ln`] without its edges: the same bits for a positive, normal, finite `x` at two thirds of the cost,
/// and some finite number without meaning for anything else.
#[inline(always)]
pub fn ln_normal<R: Lanes>(x: R) -> R {
    let (biased, mantissa) = split_normal(x);
    ln_of_parts(biased - R::splat(127.0), mantissa)
}

/// ln(2^`exponent` · `mantissa`) for a mantissa in [√½, √2).
#[inline(always)]
fn ln_of_parts<R: Lanes>(exponent: R, mantissa: R) -> R {
    let ln_mantissa = ln_of_mantissa(mantissa);
    let low = exponent.mul_add(R::splat(LN_2[1]), ln_mantissa);
    exponent.mul_add(R::splat(LN_2[0]), low)
}

/// ln of a number in [√½, √2).
#[inline(always)]
pub(super) fn ln_of_mantissa<R: Lanes>(mantissa: R) -> R {
    let f = mantissa - R::splat(1.0); // exact
    // Minimax for (ln(1 + f) - f) / f² on [√½ - 1, √2 - 1]: relative error of ln(1 + f) 3.1e-8.
    let tail = polynomial8(
        f,
        [
            -0.499_999_9,
            0.333_339_45,
            -0.250_017_76,
            0.199_622_38,
            -0.165_703_12,
            0.149_163_81,
            -0.143_077_58,
            8.738_752e-2,
        ],
    );
    tail.mul_add(f * f, f)
}

/// The integer `e` and the number `m` in [√½, √2) with `x` = 2^e · m, for a positive finite `x`.
///
/// Everything else gives some finite pair without meaning.
#[inline(always)]
pub(super) fn split<R: Lanes>(x: R) -> (R, R) {
    let subnormal = x.lt(R::splat(f64::from(f32::MIN_POSITIVE)));
    let normal = R::select(subnormal, x * R::splat(8_388_608.0), x); // 2^23
    let bias = R::select(subnormal, R::splat(127.0 + 23.0), R::splat(127.0));
    let (biased, mantissa) = split_normal(normal);
    (biased - bias, mantissa)
}

/// As [`split`], for a normal `x`, with 127 added to the exponent.
#[inline(always)]
pub(super) fn split_normal<R: Lanes>(x: R) -> (R, R) {
    // Moving √½ to where 1 was makes the exponent field step at √½ · 2^e instead of at 2^e.
    let root = R::splat(0.5 * SQRT_2).to_bits();
    let moved = x.to_bits().wrapping_add(R::splat(1.0).to_bits().wrapping_sub(root));
    let mantissa = (moved & R::Uint::splat(0x007f_ffff)).wrapping_add(root);
    (R::from_uint(moved.shr(23)), R::from_bits(mantissa))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_exp() {
        assert_eq!(exp(0.0f32), 1.0);
        assert_eq!(exp(-0.0f32), 1.0);
        let last = exp(88.722_83f32); // just below ln(f32::MAX)
        assert!(last > 3.4e38 && last < f32::INFINITY);
        for x in [88.722_84, 1e3, f32::MAX, f32::INFINITY] {
            assert_eq!(exp(x), f32::INFINITY, "at {x}");
        }
        for x in [-104.0, -1e3, f32::MIN, f32::NEG_INFINITY] {
            assert_eq!(exp(x), 0.0, "at {x}");
        }
        assert_eq!(exp(-103.9f32), f32::from_bits(1)); // gradual underflow
        assert!(exp(f32::NAN).is_nan() && exp(-f32::NAN).is_nan());
    }

    #[test]
    fn ln_normal_has_the_bits_of_ln() {
        for bits in (f32::MIN_POSITIVE.to_bits()..f32::INFINITY.to_bits()).step_by(10_007) {
            let x = f32::from_bits(bits);
            assert_eq!(ln_normal(x).to_bits(), ln(x).to_bits(), "at {x}");
        }
        for x in [0.0, -1.0, f32::from_bits(1), f32::INFINITY, f32::NAN] {
            assert!(ln_normal(x).is_finite(), "at {x}");
        }
    }

    #[test]
    fn edges_of_ln() {
        assert_eq!(ln(1.0f32).to_bits(), 0);
        assert_eq!(ln(0.0f32), f32::NEG_INFINITY);
        assert_eq!(ln(-0.0f32), f32::NEG_INFINITY);
        assert_eq!(ln(f32::INFINITY), f32::INFINITY);
        for x in [-1e-45, -1.0, f32::NEG_INFINITY, f32::NAN, -f32::NAN] {
            assert!(ln(x).is_nan(), "at {x}");
        }
    }
}
