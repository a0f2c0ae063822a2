//! Worst errors against the `f64` functions of the standard library, over dense samples.
//!
//! `cargo test --release -- --nocapture accuracy` prints them. The table in [`super`] was measured the
//! same way with stride 1 (every `f32`) and 4·10^8 random pairs.

use std::f64::consts::FRAC_PI_2;

use super::*;

/// Debug builds are slow and look at fewer points.
const THINNING: usize = if cfg!(debug_assertions) { 32 } else { 1 };

/// The worst error of one function: how far the result is from the `f64` reference, in units of the
/// `f32` spacing at the reference.
struct Worst {
    name: &'static str,
    ulps: f64,
    at: Vec<f32>,
}

impl Worst {
    fn of(name: &'static str) -> Self {
        Self { name, ulps: 0.0, at: Vec::new() }
    }

    fn see(&mut self, at: &[f32], got: f32, reference: f64) {
        let error = (f64::from(got) - reference).abs() / spacing(reference);
        if error.is_nan() || error > self.ulps {
            self.ulps = error;
            self.at = at.to_vec();
        }
    }

    fn at_most(self, limit: f64) {
        println!("{}: worst {:.3} ulp at {:?}", self.name, self.ulps, self.at);
        assert!(self.ulps <= limit, "{} is off by {} ulp at {:?}", self.name, self.ulps, self.at);
    }
}

/// The distance between neighbouring `f32` around a real.
fn spacing(reference: f64) -> f64 {
    let exponent = (reference.abs().to_bits() >> 52) as i32 - 1023;
    2f64.powi(exponent.max(-126) - 23)
}

/// The floats from `low` to `high` (same sign, in order of magnitude), every `stride`-th.
fn floats(low: f32, high: f32, stride: usize) -> impl Iterator<Item = f32> {
    (low.to_bits()..=high.to_bits()).step_by(stride * THINNING).map(f32::from_bits)
}

/// `x` and the three floats on each side.
fn around(x: f32) -> impl Iterator<Item = f32> {
    (0..7).map(move |i| f32::from_bits(x.to_bits() + i - 3))
}

#[test]
fn sin_cos_within_two_ulp() {
    let (mut sin, mut cos) = (Worst::of("sin"), Worst::of("cos"));
    let beside_multiples = (1..=6366).flat_map(|k| around((f64::from(k) * FRAC_PI_2) as f32));
    for x in floats(0.0, 1e4, 193).chain(floats(1e-2, 2.0, 17)).chain(beside_multiples) {
        for x in [x, -x] {
            let (s, c) = sin_cos(x);
            let (s64, c64) = f64::from(x).sin_cos();
            sin.see(&[x], s, s64);
            cos.see(&[x], c, c64);
        }
    }
    sin.at_most(2.0);
    cos.at_most(2.0);
}

/// The first `count` draws of a small generator (splitmix64), as pairs of 32 bits.
fn draws(count: u64) -> impl Iterator<Item = (u32, u32)> {
    (1..=count / THINNING as u64).map(|i| {
        let mut z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z as u32, (z >> 32) as u32)
    })
}

#[test]
fn exp_within_two_ulp() {
    let mut exp = Worst::of("exp");
    let falling = floats(-0.0, -103.9, 101);
    for x in floats(0.0, 88.72, 101).chain(falling) {
        exp.see(&[x], super::exp(x), f64::from(x).exp());
    }
    exp.at_most(2.0);
}

#[test]
fn ln_within_two_ulp() {
    let mut ln = Worst::of("ln");
    for x in floats(f32::from_bits(1), f32::MAX, 211).chain(floats(0.4, 2.5, 3)) {
        ln.see(&[x], super::ln(x), f64::from(x).ln());
    }
    ln.at_most(2.0);
}

#[test]
fn pow_within_four_ulp() {
    let mut pow = Worst::of("pow");
    for (i, (a, b)) in draws(4_000_000).enumerate() {
        // Any base, bases in [0.5, 2), bases beside 1, bases beside √2 and √½ (the end of the series).
        let base = f32::from_bits(match i % 5 {
            0 => a % f32::INFINITY.to_bits(),
            1 => 0x3f00_0000 + a % 0x0100_0000,
            2 => 0x3f7f_f000 + a % 0x3000,
            3 => 0x3fb5_0000 + a % 0x1000,
            _ => 0x3f35_0000 + a % 0x1000,
        });
        // Exponents that cover the normal results evenly, or mostly their ends.
        let unit = f64::from(b) / 2f64.powi(32);
        let log2 = if i % 2 == 0 { 254.0 * unit - 126.0 } else { 128.0 - unit };
        let exponent = (log2 / f64::from(base).log2()) as f32;
        let reference = f64::from(base).powf(f64::from(exponent));
        if reference >= f64::from(f32::MIN_POSITIVE) && reference < f64::from(f32::MAX) {
            pow.see(&[base, exponent], super::pow(base, exponent), reference);
        }
    }
    pow.at_most(4.0);
}

#[test]
fn atan2_within_four_ulp() {
    let mut atan2 = Worst::of("atan2");
    for (i, (a, b)) in draws(3_000_000).enumerate() {
        let y = f32::from_bits(a);
        let x = f32::from_bits(match i % 2 {
            0 => b,
            // Of about the size of y.
            _ => (b & 0x807f_ffff) | (a & 0x7f80_0000),
        });
        if y.is_finite() && x.is_finite() {
            atan2.see(&[y, x], super::atan2(y, x), f64::from(y).atan2(f64::from(x)));
        }
    }
    atan2.at_most(4.0);
}
