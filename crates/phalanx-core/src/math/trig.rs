//! Sine and cosine: the hottest function of the crate, so every operation has to earn its place.

use std::f64::consts::FRAC_2_PI;

use crate::lanes::{Lanes, Mask, Uint};

/// Adding 1.5 · 2^23 leaves a real rounded to an integer in the low bits of the sum, as two's complement.
const ROUNDER: f64 = 12_582_912.0;

/// Up to here (an `f32` just below π/4) the nearest multiple of π/2 is 0.
const NO_REDUCTION: f64 = 0.785_398_1;

/// π/2 as the sum of three `f32`. For |x| <= 10^6 the product with the first part cancels exactly
/// under a fused multiply-add, the second part rounds once, and the third only matters right beside a
/// multiple of π/2.
const HALF_PI: [f64; 3] = [
    1.570_796_370_506_286_6,
    -4.371_138_828_673_792_9e-8,
    -1.715_124_510_005_881_9e-15,
];

/// Sine and cosine of an angle in radians, within 2 ulp for |x| <= 10^4.
///
/// Every finite angle gives a finite result in [-1, 1]; it loses its meaning gradually beyond 10^6.
/// NaN and the infinities give NaN.
#[inline(always)]
pub fn sin_cos<R: Lanes>(x: R) -> (R, R) {
    // The short way gives the bits of the long one with quotient 0: lanes never see their neighbours.
    if x.abs().le(R::splat(NO_REDUCTION)).all() {
        near_zero(x)
    } else {
        reduced(x)
    }
}

/// Any angle: subtract the nearest multiple of π/2, then put the pair back into its quadrant.
#[inline(always)]
fn reduced<R: Lanes>(x: R) -> (R, R) {
    let rounder = R::splat(ROUNDER);
    let shifted = x.mul_add(R::splat(FRAC_2_PI), rounder);
    // A zero quotient is +0 here, never -0, which keeps the sign of x = -0 below.
    let quotient = shifted - rounder;
    let rest = HALF_PI
        .iter()
        .fold(x, |rest, &part| quotient.mul_add(R::splat(-part), rest));
    // Huge angles leave a rest of any size. The constants on the left side let NaN through.
    let rest = R::splat(-1.0).max(R::splat(1.0).min(rest));
    let (sin, cos) = near_zero(rest);

    let quadrant = shifted.to_bits();
    let one = R::Uint::splat(1);
    let odd = (quadrant & one).eq(one);
    let sign = R::splat(-0.0).to_bits();
    let sin_sign = quadrant.shl(30) & sign;
    let cos_sign = (quadrant + one).shl(30) & sign;
    (
        R::from_bits(R::select(odd, cos, sin).to_bits() ^ sin_sign),
        R::from_bits(R::select(odd, sin, cos).to_bits() ^ cos_sign),
    )
}

/// Both polynomials on [-π/4, π/4].
///
/// Minimax by linear programming on Chebyshev points, each coefficient rounded to `f32` in turn and the
/// rest fitted again. Sine: relative error 3.7e-9 with the factor of x fixed at 1. Cosine: absolute
/// error 3.3e-8 with only the constant 1 fixed; freeing the factor of x² (-1/2 in the series) is what
/// saves a term.
#[inline(always)]
fn near_zero<R: Lanes>(x: R) -> (R, R) {
    let square = x * x;
    let sin = R::splat(-1.951_860_5e-4)
        .mul_add(square, R::splat(8.332_191e-3))
        .mul_add(square, R::splat(-0.166_666_55))
        .mul_add(square * x, x);
    let cos = R::splat(-1.359_822_3e-3)
        .mul_add(square, R::splat(4.165_633_4e-2))
        .mul_add(square, R::splat(-0.499_998_96))
        .mul_add(square, R::splat(1.0));
    (sin, cos)
}
