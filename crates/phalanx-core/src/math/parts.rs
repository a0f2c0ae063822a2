//! What the elementary functions share: rounding by addition and polynomials.

use crate::lanes::Lanes;

/// Added to a real of magnitude below 2^22, it leaves the nearest integer in the low bits of the sum, as
/// two's complement; subtracted again, it leaves that integer as a real (and zero as +0). Cheaper than
/// rounding and converting.
pub(super) const ROUNDER: f64 = 12_582_912.0; // 1.5 * 2^23

/// The polynomial with these coefficients, the constant one first, by Horner: fewest operations.
#[inline(always)]
pub(super) fn polynomial<R: Lanes, const N: usize>(x: R, coefficients: [f64; N]) -> R {
    let (last, rest) = coefficients.split_last().expect("at least one coefficient");
    let highest = R::splat(*last);
    rest.iter().rfold(highest, |sum, &coefficient| sum.mul_add(x, R::splat(coefficient)))
}

/// Eight terms by Estrin: two more products than Horner, but a chain of three steps instead of seven.
#[inline(always)]
pub(super) fn polynomial8<R: Lanes>(x: R, c: [f64; 8]) -> R {
    let pair = |low: f64, high: f64| R::splat(high).mul_add(x, R::splat(low));
    let x2 = x * x;
    let low = pair(c[2], c[3]).mul_add(x2, pair(c[0], c[1]));
    let high = pair(c[6], c[7]).mul_add(x2, pair(c[4], c[5]));
    high.mul_add(x2 * x2, low)
}
