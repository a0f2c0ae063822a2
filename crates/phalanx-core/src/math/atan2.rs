//! The angle of a point.

use std::f64::consts::{FRAC_PI_2, PI};

use crate::lanes::{Lanes, Uint};

use super::parts::polynomial8;

/// The angle of the point (`x`, `y`) in [-π, π], within 4 ulp.
///
/// Zeros keep their signs and infinities their quadrants, as in `f32::atan2`; NaN on either side gives
/// NaN.
#[inline(always)]
pub fn atan2<R: Lanes>(y: R, x: R) -> R {
    let (width, height) = (x.abs(), y.abs());
    // In this order a NaN among the two stays in the ratio.
    let small = width.min(height);
    let large = height.max(width);
    // 0 / 0 counts as 0, infinity / infinity as 1.
    let (zero, one) = (R::splat(0.0), R::splat(1.0));
    let if_equal = R::select(large.eq(zero), zero, one);
    let ratio = R::select(small.eq(large), if_equal, small / large);

    // Minimax for (atan q - q) / q³ in q² on [0, 1]: relative error of atan q 1.7e-8.
    let square = ratio * ratio;
    let tail = polynomial8(
        square,
        [
            -0.333_331_53,
            0.199_937_67,
            -0.142_110_02,
            0.106_657_69,
            -7.551_661e-2,
            4.320_476_6e-2,
            -1.636_324e-2,
            2.919_445_3e-3,
        ],
    );
    let angle = tail.mul_add(square * ratio, ratio);

    // Unfold the octant: mirror at the diagonal, at the y axis (-0 is left of it), at the x axis.
    let angle = R::select(height.gt(width), R::splat(FRAC_PI_2) - angle, angle);
    let sign = R::splat(-0.0).to_bits();
    let left = (x.to_bits() & sign).eq(sign);
    let angle = R::select(left, R::splat(PI) - angle, angle);
    R::from_bits(angle.to_bits() | (y.to_bits() & sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zeros, axes, diagonals, infinities, each with every sign.
    #[test]
    fn edges() {
        let sizes = [0.0, 1e-45, 1e-30, 1.0, 1e30, f32::MAX, f32::INFINITY];
        let values = || sizes.into_iter().flat_map(|v| [v, -v]);
        for y in values() {
            for x in values() {
                let angle = atan2(y, x);
                let expected = y.atan2(x);
                assert_eq!(angle.is_sign_negative(), expected.is_sign_negative(), "({x}, {y})");
                let apart = angle.to_bits().abs_diff(expected.to_bits());
                assert!(apart <= 1, "({x}, {y}): {angle}, not {expected}");
            }
            assert!(atan2(y, f32::NAN).is_nan() && atan2(f32::NAN, y).is_nan());
        }
        assert!(atan2(f32::NAN, f32::NAN).is_nan());
    }
}
