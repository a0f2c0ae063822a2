//! Eight and sixteen lanes on the `wide` crate.
//!
//! Sixteen lanes are two AVX registers (one with AVX-512): two independent chains of arithmetic hide
//! the latency of each other, which measured faster than eight lanes and than thirty-two.

use std::ops::{BitAnd, BitOr, BitXor, Not};

use bytemuck::cast;
use wide::{f32x8, f32x16, i32x8, i32x16, u32x8, u32x16};

use super::{BLOCK, LaneValue, Lanes, Line, Mask, Real, Stored, Uint};
use crate::math;

macro_rules! wide_lanes {
    ($lanes:literal, $mask:ident, $real:ident, $uint:ident, $int:ident, $from_int:path) => {
        #[doc = concat!("The mask of ", stringify!($lanes), " lanes: all bits set where true.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $mask($uint);

        impl BitAnd for $mask {
            type Output = Self;
            #[inline(always)]
            fn bitand(self, rhs: Self) -> Self {
                Self(self.0 & rhs.0)
            }
        }
        impl BitOr for $mask {
            type Output = Self;
            #[inline(always)]
            fn bitor(self, rhs: Self) -> Self {
                Self(self.0 | rhs.0)
            }
        }
        impl BitXor for $mask {
            type Output = Self;
            #[inline(always)]
            fn bitxor(self, rhs: Self) -> Self {
                Self(self.0 ^ rhs.0)
            }
        }
        impl Not for $mask {
            type Output = Self;
            #[inline(always)]
            fn not(self) -> Self {
                Self(!self.0)
            }
        }

        impl Mask for $mask {
            #[inline(always)]
            fn splat(value: bool) -> Self {
                Self($uint::splat(if value { u32::MAX } else { 0 }))
            }
            #[inline(always)]
            fn any(self) -> bool {
                self.0.any()
            }
            #[inline(always)]
            fn all(self) -> bool {
                self.0.all()
            }
            #[inline(always)]
            fn bits(self) -> u32 {
                self.0.to_bitmask()
            }
            #[inline(always)]
            fn from_bits(bits: u32) -> Self {
                let one_bit: $uint = cast(std::array::from_fn::<u32, $lanes, _>(|i| 1 << i));
                Self(($uint::splat(bits) & one_bit).simd_eq(one_bit))
            }
        }

        impl LaneValue for $real {
            type Mask = $mask;
            const LANES: usize = $lanes;
            #[inline(always)]
            fn select(mask: $mask, if_true: Self, if_false: Self) -> Self {
                cast::<$uint, $real>(mask.0).select(if_true, if_false)
            }
            #[inline(always)]
            fn keep(self, mask: $mask) -> Self {
                cast(cast::<$real, $uint>(self) & mask.0)
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                $real::splat(value as f32)
            }
            #[inline(always)]
            fn from_lanes(mut element: impl FnMut(usize) -> f64) -> Self {
                cast(std::array::from_fn::<f32, $lanes, _>(|lane| element(lane) as f32))
            }
            #[inline(always)]
            fn lane_f64(self, lane: usize) -> f64 {
                f64::from(self.to_array()[lane])
            }
        }

        impl LaneValue for $uint {
            type Mask = $mask;
            const LANES: usize = $lanes;
            #[inline(always)]
            fn select(mask: $mask, if_true: Self, if_false: Self) -> Self {
                mask.0.select(if_true, if_false)
            }
            #[inline(always)]
            fn keep(self, mask: $mask) -> Self {
                self & mask.0
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                $uint::splat(value as u32)
            }
            #[inline(always)]
            fn from_lanes(mut element: impl FnMut(usize) -> f64) -> Self {
                cast(std::array::from_fn::<u32, $lanes, _>(|lane| element(lane) as u32))
            }
            #[inline(always)]
            fn lane_f64(self, lane: usize) -> f64 {
                f64::from(self.to_array()[lane])
            }
        }

        impl Uint for $uint {
            #[inline(always)]
            fn splat(value: u32) -> Self {
                $uint::splat(value)
            }
            #[inline(always)]
            fn iota() -> Self {
                cast(std::array::from_fn::<u32, $lanes, _>(|i| i as u32))
            }
            #[inline(always)]
            fn wrapping_add(self, rhs: Self) -> Self {
                self + rhs
            }
            #[inline(always)]
            fn wrapping_sub(self, rhs: Self) -> Self {
                self - rhs
            }
            #[inline(always)]
            fn mul_low(self, rhs: Self) -> Self {
                self * rhs
            }
            #[inline(always)]
            fn mul_wide(self, rhs: Self) -> (Self, Self) {
                self.mul_keep_low_high(rhs)
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
                $uint::splat(1).unbounded_shl(self)
            }
            #[inline(always)]
            fn eq(self, rhs: Self) -> $mask {
                $mask(self.simd_eq(rhs))
            }
            #[inline(always)]
            fn lt(self, rhs: Self) -> $mask {
                $mask(self.simd_lt(rhs))
            }
            #[inline(always)]
            fn masked(mask: $mask, if_true: u32) -> Self {
                mask.0 & $uint::splat(if_true)
            }
            #[inline(always)]
            fn lane(self, lane: usize) -> u32 {
                self.to_array()[lane]
            }
        }

        impl Real for $real {
            type Uint = $uint;
            #[inline(always)]
            fn mul_add(self, factor: Self, addend: Self) -> Self {
                if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
                    $real::mul_add(self, factor, addend)
                } else {
                    // `wide` would round twice here; the scalar twin rounds once.
                    let (a, b, c) = (self.to_array(), factor.to_array(), addend.to_array());
                    $real::new(std::array::from_fn(|i| a[i].mul_add(b[i], c[i])))
                }
            }
            #[inline(always)]
            fn min(self, rhs: Self) -> Self {
                if cfg!(target_arch = "x86_64") {
                    self.fast_min(rhs)
                } else {
                    // Other instructions pass NaN on; x86's answers its right operand, as the scalar does.
                    LaneValue::select(Real::lt(self, rhs), self, rhs)
                }
            }
            #[inline(always)]
            fn max(self, rhs: Self) -> Self {
                if cfg!(target_arch = "x86_64") {
                    self.fast_max(rhs)
                } else {
                    // Other instructions pass NaN on; x86's answers its right operand, as the scalar does.
                    LaneValue::select(Real::gt(self, rhs), self, rhs)
                }
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $real::abs(self)
            }
            #[inline(always)]
            fn floor(self) -> Self {
                $real::floor(self)
            }
            #[inline(always)]
            fn round(self) -> Self {
                if cfg!(any(target_feature = "sse4.1", not(target_arch = "x86_64"))) {
                    self.round_ties_even()
                } else {
                    // `wide` loses the sign of zero here; the scalar twin keeps it.
                    $real::new(self.to_array().map(f32::round_ties_even))
                }
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $real::sqrt(self)
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
            #[inline(always)]
            fn lt(self, rhs: Self) -> $mask {
                $mask(cast(self.simd_lt(rhs)))
            }
            #[inline(always)]
            fn le(self, rhs: Self) -> $mask {
                $mask(cast(self.simd_le(rhs)))
            }
            #[inline(always)]
            fn eq(self, rhs: Self) -> $mask {
                $mask(cast(self.simd_eq(rhs)))
            }
            #[inline(always)]
            fn from_uint(value: $uint) -> Self {
                $from_int(cast::<$uint, $int>(value))
            }
            #[inline(always)]
            fn to_uint(self) -> $uint {
                cast(self.fast_trunc_int())
            }
        }

        impl Stored for $real {
            #[inline(always)]
            fn load(line: &Line, lane: usize) -> Self {
                cast($uint::load(line, lane))
            }
            #[inline(always)]
            fn store(self, line: &mut Line, lane: usize) {
                cast::<$real, $uint>(self).store(line, lane);
            }
        }

        impl Stored for $uint {
            #[inline(always)]
            fn load(line: &Line, lane: usize) -> Self {
                debug_assert!(lane % $lanes == 0 && lane < BLOCK);
                let words: [u32; $lanes] = line.0[lane..lane + $lanes].try_into().expect("whole lanes");
                cast(words)
            }
            #[inline(always)]
            fn store(self, line: &mut Line, lane: usize) {
                line.0[lane..lane + $lanes].copy_from_slice(&self.to_array());
            }
        }

        impl Lanes for $real {
            type ForSteps = f32x8;
            #[inline(always)]
            fn to_bits(self) -> $uint {
                cast(self)
            }
            #[inline(always)]
            fn from_bits(bits: $uint) -> Self {
                cast(bits)
            }
            #[inline(always)]
            fn from_slice(values: &[f32]) -> Self {
                let values: [f32; $lanes] = values[..$lanes].try_into().expect("whole lanes");
                cast(values)
            }
            #[inline(always)]
            fn write_to(self, out: &mut [f32]) {
                out[..$lanes].copy_from_slice(&self.to_array());
            }
        }
    };
}

wide_lanes!(8, Mask8, f32x8, u32x8, i32x8, f32x8::from_i32x8);
wide_lanes!(16, Mask16, f32x16, u32x16, i32x16, f32x16::from_i32x16);
