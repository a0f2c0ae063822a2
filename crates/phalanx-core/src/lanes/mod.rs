//! Numbers in lanes: what an environment's arithmetic is written against.
//!
//! An environment is generic over [`Real`]. The same source then runs as `f64` (parity with a
//! reference implementation), as `f32` (one environment at a time), and as `f32x8` or `f32x16`
//! (eight or sixteen environments per instruction). Data never decides a branch: a comparison gives a
//! [`Mask`], and [`LaneValue::select`] picks lane by lane.
//!
//! Scalar `f32` and the lane types agree **bit for bit** on every operation here. That rests on three
//! rules: basic arithmetic is IEEE-exact everywhere, a fused multiply-add is fused everywhere (on a
//! CPU without the instruction it is emulated, slowly), and the elementary functions of [`crate::math`]
//! are one generic source built from these operations only.

#[cfg(test)]
mod identity;
mod scalar;
mod wide;

use std::fmt::Debug;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

pub use ::wide::{f32x8, f32x16, i8x32, u8x32, u32x8, u32x16};
pub use wide::{Mask8, Mask16};

/// Environments in one storage block, whatever the lane width in use.
pub const BLOCK: usize = 16;

/// One 32-bit word for each environment of a block: a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub struct Line(pub [u32; BLOCK]);

/// A truth value per lane.
pub trait Mask:
    Copy
    + Debug
    + Send
    + Sync
    + 'static
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
{
    /// The same truth value in every lane.
    fn splat(value: bool) -> Self;
    /// Whether any lane is true.
    fn any(self) -> bool;
    /// Whether all lanes are true.
    fn all(self) -> bool;
    /// Lane `i` as bit `i`.
    fn bits(self) -> u32;
    /// The inverse of [`Mask::bits`]; bits beyond the lanes are ignored.
    fn from_bits(bits: u32) -> Self;
}

/// A value with one element per lane, real or integer.
pub trait LaneValue: Copy + Debug + Send + Sync + 'static {
    /// The mask that comparisons of this type give.
    type Mask: Mask;
    /// Number of lanes.
    const LANES: usize;
    /// `if_true` where the mask holds, `if_false` elsewhere.
    fn select(mask: Self::Mask, if_true: Self, if_false: Self) -> Self;
    /// `self` where the mask holds, zero elsewhere.
    fn keep(self, mask: Self::Mask) -> Self;
    /// `value`, rounded to this type, in every lane.
    fn from_f64(value: f64) -> Self;
    /// `element(lane)`, rounded to this type, in each lane.
    fn from_lanes(element: impl FnMut(usize) -> f64) -> Self;
    /// The element of one lane.
    fn lane_f64(self, lane: usize) -> f64;
}

/// Unsigned 32-bit integers in lanes; arithmetic wraps, in every build profile.
pub trait Uint: LaneValue + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> {
    /// The same integer in every lane.
    fn splat(value: u32) -> Self;
    /// 0, 1, 2, ... over the lanes.
    fn iota() -> Self;
    /// The sum modulo 2^32.
    fn wrapping_add(self, rhs: Self) -> Self;
    /// The difference modulo 2^32.
    fn wrapping_sub(self, rhs: Self) -> Self;
    /// The low half of the product.
    fn mul_low(self, rhs: Self) -> Self;
    /// The low and the high half of the product.
    fn mul_wide(self, rhs: Self) -> (Self, Self);
    /// Shift left by less than 32.
    fn shl(self, by: u32) -> Self;
    /// Shift right by less than 32.
    fn shr(self, by: u32) -> Self;
    /// The word in which only this bit is set; 0 from 32 on.
    fn bit(self) -> Self;
    /// Equal.
    fn eq(self, rhs: Self) -> Self::Mask;
    /// Less, unsigned.
    fn lt(self, rhs: Self) -> Self::Mask;
    /// The mask as integers: `if_true` where it holds, 0 elsewhere.
    fn masked(mask: Self::Mask, if_true: u32) -> Self;
    /// The element of one lane.
    fn lane(self, lane: usize) -> u32;

    /// Greater or equal, unsigned.
    #[inline(always)]
    fn ge(self, rhs: Self) -> Self::Mask {
        !self.lt(rhs)
    }

    /// Rotate left by 1 to 31.
    #[inline(always)]
    fn rotate_left(self, by: u32) -> Self {
        self.shl(by) | self.shr(32 - by)
    }
}

/// Real numbers in lanes.
pub trait Real:
    LaneValue + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// Integers in as many lanes.
    type Uint: Uint<Mask = Self::Mask>;
    /// Whether this is double precision, which serves comparison with a reference implementation. Where
    /// rounding grows, an environment then follows the reference's own order of operations.
    const PARITY: bool = false;

    /// A constant: `value`, rounded to this type, in every lane.
    #[inline(always)]
    fn splat(value: f64) -> Self {
        Self::from_f64(value)
    }
    /// `self * factor + addend` with one rounding; with two in double precision, as references round.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// The smaller; `rhs` if either is NaN.
    fn min(self, rhs: Self) -> Self;
    /// The larger; `rhs` if either is NaN.
    fn max(self, rhs: Self) -> Self;
    /// Magnitude.
    fn abs(self) -> Self;
    /// Largest integer not above.
    fn floor(self) -> Self;
    /// Nearest integer, ties to even.
    fn round(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Sine and cosine of an angle in radians.
    fn sin_cos(self) -> (Self, Self);
    /// e to the power of this.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// [`Real::ln`] of a positive, normal, finite number: the same bits for less, and no meaning for
    /// anything else.
    #[inline(always)]
    fn ln_normal(self) -> Self {
        self.ln()
    }
    /// This to the power of `exponent`; NaN for a negative base.
    fn pow(self, exponent: Self) -> Self;
    /// [`Real::pow`] of a positive, normal, finite number, for less and a little less exact (see
    /// [`crate::math::pow_normal`]); no meaning for anything else.
    #[inline(always)]
    fn pow_normal(self, exponent: Self) -> Self {
        self.pow(exponent)
    }
    /// The angle of the point (`x`, `self`), in [-π, π].
    fn atan2(self, x: Self) -> Self;
    /// Less.
    fn lt(self, rhs: Self) -> Self::Mask;
    /// Less or equal.
    fn le(self, rhs: Self) -> Self::Mask;
    /// Equal.
    fn eq(self, rhs: Self) -> Self::Mask;
    /// The integers as reals, exact below 2^24.
    fn from_uint(value: Self::Uint) -> Self;
    /// Rounded towards zero; only for values in [0, 2^31).
    fn to_uint(self) -> Self::Uint;
    /// The nearest number of single precision.
    #[inline(always)]
    fn to_single(self) -> Self {
        self
    }

    /// Greater.
    #[inline(always)]
    fn gt(self, rhs: Self) -> Self::Mask {
        rhs.lt(self)
    }
    /// Greater or equal.
    #[inline(always)]
    fn ge(self, rhs: Self) -> Self::Mask {
        rhs.le(self)
    }
    /// Limited to [`low`, `high`]; NaN becomes `high`.
    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        // NaN: `max` answers its right side, then `min` does; a NaN action cannot poison a state.
        self.max(low).min(high)
    }
    /// Sine.
    #[inline(always)]
    fn sin(self) -> Self {
        self.sin_cos().0
    }
    /// Cosine.
    #[inline(always)]
    fn cos(self) -> Self {
        self.sin_cos().1
    }
    /// `self` modulo `modulus` > 0, in [0, `modulus`].
    ///
    /// The result equals `modulus` only when rounding forces it (a tiny negative `self`).
    #[inline(always)]
    fn rem_euclid(self, modulus: Self) -> Self {
        let quotient = (self / modulus).floor();
        (-quotient).mul_add(modulus, self)
    }
}

/// A lane value that can rest in a [`Line`].
pub trait Stored: LaneValue {
    /// Reads `LANES` elements from `lane` on.
    fn load(line: &Line, lane: usize) -> Self;
    /// Writes `LANES` elements from `lane` on.
    fn store(self, line: &mut Line, lane: usize);
}

/// Reals the engine can run on: 32 bits a lane, storable, hashable.
pub trait Lanes: Real<Uint: Stored> + Stored {
    /// The lanes for single steps whose results go to memory at once. A long stretch in registers gains
    /// from two chains of sixteen lanes; a single step only suffers from their spills.
    type ForSteps: Lanes;
    /// The bit pattern of each lane.
    fn to_bits(self) -> Self::Uint;
    /// The inverse of [`Lanes::to_bits`].
    fn from_bits(bits: Self::Uint) -> Self;
    /// Reads `LANES` elements from a slice.
    fn from_slice(values: &[f32]) -> Self;
    /// Writes `LANES` elements to a slice.
    fn write_to(self, out: &mut [f32]);
}
