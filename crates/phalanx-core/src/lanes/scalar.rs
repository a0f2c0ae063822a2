//! One lane: `f32` (the engine's scalar twin of the lane types) and `f64` (parity mode).

use super::{LaneValue, Lanes, Line, Mask, Real, Stored, Uint};
use crate::math;

impl Mask for bool {
    #[inline(always)]
    fn splat(value: bool) -> Self {
        value
    }
    #[inline(always)]
    fn any(self) -> bool {
        self
    }
    #[inline(always)]
    fn all(self) -> bool {
        self
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self as u32
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        bits & 1 == 1
    }
}

macro_rules! one_lane {
    ($type:ty) => {
        impl LaneValue for $type {
            type Mask = bool;
            const LANES: usize = 1;
            #[inline(always)]
            fn select(mask: bool, if_true: Self, if_false: Self) -> Self {
                if mask { if_true } else { if_false }
            }
            #[inline(always)]
            fn keep(self, mask: bool) -> Self {
                if mask { self } else { 0 as $type }
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn from_lanes(mut element: impl FnMut(usize) -> f64) -> Self {
                element(0) as $type
            }
            #[inline(always)]
            fn lane_f64(self, _lane: usize) -> f64 {
                f64::from(self)
            }
        }
    };
}
one_lane!(u32);
one_lane!(f32);
one_lane!(f64);

impl Uint for u32 {
    #[inline(always)]
    fn splat(value: u32) -> Self {
        value
    }
    #[inline(always)]
    fn iota() -> Self {
        0
    }
    #[inline(always)]
    fn wrapping_add(self, rhs: Self) -> Self {
        self.wrapping_add(rhs)
    }
    #[inline(always)]
    fn wrapping_sub(self, rhs: Self) -> Self {
        self.wrapping_sub(rhs)
    }
    #[inline(always)]
    fn mul_low(self, rhs: Self) -> Self {
        self.wrapping_mul(rhs)
    }
    #[inline(always)]
    fn mul_wide(self, rhs: Self) -> (Self, Self) {
        let product = u64::from(self) * u64::from(rhs);
        (product as u32, (product >> 32) as u32)
    }
    #[inline(always)]
    fn shl(self, by: u32) -> Self {
        self << by
    }
    #[inline(always)]
    fn shr(self, by: u32) -> Self {
        self >> by
    }
    #[inline(always)]
    fn bit(self) -> Self {
        1_u32.unbounded_shl(self)
    }
    #[inline(always)]
    fn eq(self, rhs: Self) -> bool {
        self == rhs
    }
    #[inline(always)]
    fn lt(self, rhs: Self) -> bool {
        self < rhs
    }
    #[inline(always)]
    fn masked(mask: bool, if_true: u32) -> Self {
        if mask { if_true } else { 0 }
    }
    #[inline(always)]
    fn lane(self, _lane: usize) -> u32 {
        self
    }
}

/// What `f32` and `f64` share; the elementary functions differ.
macro_rules! scalar_arithmetic {
    () => {
        type Uint = u32;
        // Not `f32::min`: the lane instruction answers its right operand for NaN, so this must.
        #[inline(always)]
        fn min(self, rhs: Self) -> Self {
            if self < rhs { self } else { rhs }
        }
        #[inline(always)]
        fn max(self, rhs: Self) -> Self {
            if self > rhs { self } else { rhs }
        }
        #[inline(always)]
        fn abs(self) -> Self {
            self.abs()
        }
        #[inline(always)]
        fn floor(self) -> Self {
            self.floor()
        }
        #[inline(always)]
        fn round(self) -> Self {
            self.round_ties_even()
        }
        #[inline(always)]
        fn sqrt(self) -> Self {
            self.sqrt()
        }
        #[inline(always)]
        fn lt(self, rhs: Self) -> bool {
            self < rhs
        }
        #[inline(always)]
        fn le(self, rhs: Self) -> bool {
            self <= rhs
        }
        #[inline(always)]
        fn eq(self, rhs: Self) -> bool {
            self == rhs
        }
        #[inline(always)]
        fn from_uint(value: u32) -> Self {
            // Through i32, as the lane conversion does.
            value as i32 as Self
        }
        #[inline(always)]
        fn to_uint(self) -> u32 {
            self as i32 as u32
        }
    };
}

impl Real for f32 {
    scalar_arithmetic!();
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        self.mul_add(factor, addend)
    }
    #[inline(always)]
    fn sin_cos(self) -> (Self, Self) {
        math::sin_cos(self)
    }
    #[inline(always)]
    fn exp(self) -> Self {
        math::exp(self)
    }
    #[inline(always)]
    fn ln(self) -> Self {
        math::ln(self)
    }
    #[inline(always)]
    fn ln_normal(self) -> Self {
        math::ln_normal(self)
    }
    #[inline(always)]
    fn pow(self, exponent: Self) -> Self {
        math::pow(self, exponent)
    }
    #[inline(always)]
    fn pow_normal(self, exponent: Self) -> Self {
        math::pow_normal(self, exponent)
    }
    #[inline(always)]
    fn atan2(self, x: Self) -> Self {
        math::atan2(self, x)
    }
}

impl Real for f64 {
    const PARITY: bool = true;
    scalar_arithmetic!();
    // Python fuses nothing.
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        self * factor + addend
    }
    #[inline(always)]
    fn to_single(self) -> Self {
        f64::from(self as f32)
    }
    #[inline(always)]
    fn sin_cos(self) -> (Self, Self) {
        self.sin_cos()
    }
    #[inline(always)]
    fn exp(self) -> Self {
        self.exp()
    }
    #[inline(always)]
    fn ln(self) -> Self {
        self.ln()
    }
    #[inline(always)]
    fn pow(self, exponent: Self) -> Self {
        if self < 0.0 { f64::NAN } else { self.powf(exponent) }
    }
    #[inline(always)]
    fn atan2(self, x: Self) -> Self {
        self.atan2(x)
    }
}

impl Stored for f32 {
    #[inline(always)]
    fn load(line: &Line, lane: usize) -> Self {
        f32::from_bits(line.0[lane])
    }
    #[inline(always)]
    fn store(self, line: &mut Line, lane: usize) {
        line.0[lane] = self.to_bits();
    }
}

impl Stored for u32 {
    #[inline(always)]
    fn load(line: &Line, lane: usize) -> Self {
        line.0[lane]
    }
    #[inline(always)]
    fn store(self, line: &mut Line, lane: usize) {
        line.0[lane] = self;
    }
}

impl Lanes for f32 {
    type ForSteps = f32;
    #[inline(always)]
    fn to_bits(self) -> u32 {
        self.to_bits()
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        f32::from_bits(bits)
    }
    #[inline(always)]
    fn from_slice(values: &[f32]) -> Self {
        values[0]
    }
    #[inline(always)]
    fn write_to(self, out: &mut [f32]) {
        out[0] = self;
    }
}
