//! Sine and cosine: the hottest function of the crate, so every operation has to earn its place.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_4};

use crate::lanes::{Lanes, Mask, Uint};

use super::parts::{ROUNDER, polynomial};

/// π/2 as the sum of three `f32`. For |x| <= 10^6 the product with the first part cancels exactly
/// under a fused multiply-add, the second part rounds once, and the third only matters right beside a
/// multiple of π/2.
const HALF_PI: [f64; 3] = [1.570_796_370_506_286_6, -4.371_138_828_673_793e-8, -1.715_124_510_005_881_9e-15];

/// Sine and cosine of an angle in radians, within 2 ulp for |x| <= 10^4.
///
/// Every finite angle gives a finite result in [-1, 1]; it loses its meaning gradually beyond 10^6.
/// NaN and the infinities give NaN; both zeros give the sine +0.
#[inline(always)]
pub fn sin_cos<R: Lanes>(x: R) -> (R, R) {
    // The short way gives the bits of the long one, whose quotient would be 0: lanes never see their
    // neighbours.
    if x.abs().le(R::splat(FRAC_PI_4)).all() {
        near_zero(x)
    } else {
        std::hint::cold_path();
        reduced(x)
    }
}

/// Any angle: subtract the nearest multiple of π/2, then put the pair back into its quadrant.
#[inline(always)]
fn reduced<R: Lanes>(x: R) -> (R, R) {
    let rounder = R::splat(ROUNDER);
    let shifted = x.mul_add(R::splat(FRAC_2_PI), rounder);
    let quotient = shifted - rounder;
    let rest = HALF_PI.iter().fold(x, |rest, &part| quotient.mul_add(R::splat(-part), rest));
    // Huge angles leave a rest of any size. The constants on the left side let NaN through.
    let rest = R::splat(-1.0).max(R::splat(1.0).min(rest));
    let (sin, cos) = near_zero(rest);

    let quadrant = shifted.to_bits();
    let one = R::Uint::splat(1);
    let odd = (quadrant & one).eq(one);
    let sign = R::splat(-0.0).to_bits();
    let sin_sign = quadrant.shl(30) & sign;
    let cos_sign = sin_sign ^ quadrant.shl(31);
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
    let sin = polynomial(square, [-0.166_666_55, 8.332_191e-3, -1.951_860_5e-4]);
    let sin = sin.mul_add(square * x, x);
    let cos = polynomial(square, [1.0, -0.499_998_96, 4.165_633_4e-2, -1.359_822_3e-3]);
    (sin, cos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes share one branch, so both ways have to agree wherever the short one may be taken.
    #[test]
    fn the_short_way_gives_the_bits_of_the_long_one() {
        let last = (FRAC_PI_4 as f32).to_bits();
        for bits in (0..last).step_by(499).chain([1, last]) {
            for x in [f32::from_bits(bits), -f32::from_bits(bits)] {
                let short = near_zero(x);
                let long = reduced(x);
                assert_eq!(short.0.to_bits(), long.0.to_bits(), "sine of {x}");
                assert_eq!(short.1.to_bits(), long.1.to_bits(), "cosine of {x}");
            }
        }
    }

    #[test]
    fn every_finite_angle_stays_in_range() {
        for bits in (0..f32::INFINITY.to_bits()).step_by(997) {
            let (sin, cos) = sin_cos(f32::from_bits(bits));
            assert!(sin.abs() <= 1.0 && cos.abs() <= 1.0, "at {}", f32::from_bits(bits));
        }
    }

    #[test]
    fn edges() {
        for zero in [0.0f32, -0.0] {
            let (sin, cos) = sin_cos(zero);
            assert!(sin.to_bits() == 0 && cos == 1.0);
        }
        for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let (sin, cos) = sin_cos(x);
            assert!(sin.is_nan() && cos.is_nan(), "at {x}");
        }
    }
}
