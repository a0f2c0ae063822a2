//! Powers: e^(y ln x) would lose up to seven bits, so the logarithm is carried in two `f32`.

use std::f64::consts::{LN_2, LOG2_E};

use crate::lanes::{Lanes, Uint};

use super::exp_ln::{exp_of_parts, ln_of_mantissa, split, split_normal};
use super::parts::{ROUNDER, polynomial};

/// 2 / ln 2 as the sum of two `f32`.
const TWO_BY_LN_2: [f64; 2] = [2.885_390_043_258_667, 3.851_926_067_000_022e-8];

/// `base` to the power of `exponent`, within 4 ulp; underflow is gradual, overflow infinite.
///
/// A negative base gives NaN, whatever the exponent, and so does NaN on either side. Otherwise as IEEE
/// 754 has it: x^0 = 1 and 1^y = 1 (infinities included); 0 (of either sign) and infinity to a positive
/// power stay, to a negative power they swap.
#[inline(always)]
pub fn pow<R: Lanes>(base: R, exponent: R) -> R {
    let (high, low) = log2(base);
    // |log2 x| >= 2^-24 unless it is 0: a larger exponent saturates all the same, an infinite one
    // would not multiply. Constants on the left let NaN through, here and below.
    let limit = R::splat(4_294_967_296.0); // 2^32
    let y = (-limit).max(limit.min(exponent));
    let product = y * high;
    let error = y.mul_add(low, y.mul_add(high, -product));

    // Saturate (to 0, to infinity) with a rest that stays in the domain of the polynomial.
    let product = R::splat(-152.0).max(R::splat(130.0).min(product));
    let error = R::splat(-0.01).max(R::splat(0.01).min(error));
    let shifted = product + R::splat(ROUNDER);
    let rest = (product - (shifted - R::splat(ROUNDER))) + error;
    let power = exp_of_parts(shifted, rest * R::splat(LN_2));

    let (zero, infinity) = (R::splat(0.0), R::splat(f64::INFINITY));
    let falling = exponent.lt(zero);
    let edge = (base.eq(zero) | base.eq(infinity)) & (falling | exponent.gt(zero));
    let at_edge = R::select(base.eq(zero) ^ falling, zero, infinity);
    let power = R::select(edge, at_edge, power);
    R::select(base.ge(zero), power, R::splat(f64::NAN))
}

/// [`pow`] at a third of the cost, for a positive, normal, finite `base` and a finite `exponent`; anything
/// else gives some number without meaning.
///
/// The logarithm is carried in one `f32` only: the relative error is below 2^-23 (1 + |log2 of the result|).
/// Results are limited to 2^-126 and 2^126.
#[inline(always)]
pub fn pow_normal<R: Lanes>(base: R, exponent: R) -> R {
    let (biased, mantissa) = split_normal(base);
    let log2 = ln_of_mantissa(mantissa).mul_add(R::splat(LOG2_E), biased - R::splat(127.0));
    let product = R::splat(-126.0).max(R::splat(126.0).min(exponent * log2));
    let shifted = product + R::splat(ROUNDER);
    let rest = product - (shifted - R::splat(ROUNDER)); // exact
    // Minimax for (2^r - 1) / r on [-1/2, 1/2]: relative error of 2^r 2e-9.
    let c = [LN_2, 0.240_226_48, 5.550_332_4e-2, 9.618_437e-3, 1.339_887_5e-3, 1.535_336e-4];
    // By Estrin: this is on the way from one reaction to the next.
    let pair = |i: usize| R::splat(c[i + 1]).mul_add(rest, R::splat(c[i]));
    let square = rest * rest;
    let slope = pair(4).mul_add(square, pair(2)).mul_add(square, pair(0));
    let fraction = slope.mul_add(rest, R::splat(1.0));
    // The integer in the low bits of the sum, moved to where exponents are; what is above it falls off.
    R::from_bits(fraction.to_bits().wrapping_add(shifted.to_bits().shl(23)))
}

/// The binary logarithm of a positive finite `x` as a sum of two `f32` with relative error about 2^-29.
///
/// With x = 2^e m and s = (m - 1) / (m + 1): log2 x = e + (2 / ln 2) (s + s³/3 + s⁵/5 + ...), where the
/// first term of the series needs double length and the others, at most 1 % of it, do not.
#[inline(always)]
fn log2<R: Lanes>(x: R) -> (R, R) {
    let (exponent, mantissa) = split(x);
    let one = R::splat(1.0);
    let numerator = mantissa - one; // exact
    let denominator = mantissa + one;
    let denominator_error = mantissa - (denominator - one); // exact
    let inverse = one / denominator;
    let s = numerator * inverse;
    let remainder = (-s).mul_add(denominator, numerator);
    let s_error = (-s).mul_add(denominator_error, remainder) * inverse;

    // Minimax for (log2 m - (2 / ln 2) s) / s³ in s², |s| <= 0.1716: relative error of log2 m 1.1e-11.
    let square = s * s;
    let tail = polynomial(square, [0.961_796_7, 0.577_078_9, 0.411_921_38, 0.336_628_62]);
    let [c, c_error] = TWO_BY_LN_2.map(R::splat);
    let first = c * s;
    let low = c.mul_add(s, -first);
    let low = c_error.mul_add(s, low);
    // The error of s enters by the derivative of the whole series, (2 / ln 2) / (1 - s²).
    let low = c.mul_add(square, c).mul_add(s_error, low);
    let low = tail.mul_add(square * s, low);

    // The exponent is 0 or outweighs `first`: three operations give the sum and its exact error.
    let (sum, error) = fast_two_sum(exponent, first);
    fast_two_sum(sum, error + low)
}

/// The rounded sum and its exact error, if |`a`| >= |`b`| or `a` is 0.
#[inline(always)]
fn fast_two_sum<R: Lanes>(a: R, b: R) -> (R, R) {
    let sum = a + b;
    (sum, b - (sum - a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pow_normal_is_as_exact_as_it_says() {
        for i in 1..=3_000 {
            let base = i as f32 / 97.0;
            for exponent in [3.6_f32, -3.6, 0.5, -1.0, 7.3, 20.0, 0.0] {
                let exact = f64::from(base).powf(f64::from(exponent));
                if exact.log2().abs() < 125.0 {
                    let limit = 2_f64.powi(-23) * (1.0 + exact.log2().abs());
                    let error = (f64::from(pow_normal(base, exponent)) / exact - 1.0).abs();
                    assert!(error <= limit, "{base}^{exponent}: {error:e} instead of {limit:e}");
                }
            }
        }
        assert_eq!(pow_normal(1e30_f32, 100.0), 2_f32.powi(126));
        assert_eq!(pow_normal(1e30_f32, -100.0), 2_f32.powi(-126));
    }

    const VALUES: [f32; 19] = [
        0.0,
        1e-45,
        1e-40,
        f32::MIN_POSITIVE,
        1e-20,
        0.5,
        0.999_999_94,
        1.0,
        1.000_000_1,
        2.0,
        3.0,
        127.0,
        128.0,
        150.0,
        1e9,
        1e20,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
    ];

    /// Everywhere but for a NaN or a negative base, `f64::powf` says what is right.
    #[test]
    fn edges() {
        for base in VALUES {
            for exponent in VALUES.into_iter().flat_map(|y| [y, -y]) {
                let power = pow(base, exponent);
                assert!(pow(-1.0 - base, exponent).is_nan());
                if base.is_nan() || exponent.is_nan() {
                    assert!(power.is_nan(), "{base}^{exponent} = {power}");
                    continue;
                }
                let expected = f64::from(base).powf(f64::from(exponent));
                let close = (f64::from(power) / expected - 1.0).abs() < 3e-7;
                // A subnormal, zero or infinite result.
                let rounded = (power - expected as f32).abs() <= f32::from_bits(1);
                let same = power == expected as f32 || close || rounded;
                assert!(same, "{base}^{exponent} = {power}, not {expected}");
            }
        }
    }

    #[test]
    fn zero_and_one_are_exact() {
        for x in VALUES.into_iter().filter(|x| !x.is_nan()) {
            assert_eq!(pow(x, 0.0), 1.0, "{x}^0");
            assert_eq!(pow(x, -0.0), 1.0, "{x}^-0");
            assert_eq!(pow(1.0, x), 1.0, "1^{x}");
        }
        assert_eq!(pow(-0.0f32, 3.0).to_bits(), 0);
        assert_eq!(pow(-0.0f32, -3.0), f32::INFINITY);
    }
}
