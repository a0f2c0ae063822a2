//! The promise of this module, tested: scalar `f32` and the lanes give the same bits.

use super::*;

/// Every operation that gives a real. Results that are NaN only have to be NaN on both sides.
fn reals<R: Lanes>(a: R, b: R, c: R) -> Vec<(&'static str, R)> {
    let (sin, cos) = a.sin_cos();
    vec![
        ("add", a + b),
        ("sub", a - b),
        ("mul", a * b),
        ("div", a / b),
        ("neg", -a),
        ("mul_add", a.mul_add(b, c)),
        ("min", a.min(b)),
        ("max", a.max(b)),
        ("abs", a.abs()),
        ("floor", a.floor()),
        ("round", a.round()),
        ("sqrt", a.sqrt()),
        ("clamp", a.clamp(b, c)),
        ("rem_euclid", a.rem_euclid(b.abs())),
        ("select", R::select(a.lt(b), b, c)),
        ("from_uint", R::from_uint(a.to_bits())),
        ("sin_cos, sine", sin),
        ("sin_cos, cosine", cos),
        ("sin", a.sin()),
        ("cos", a.cos()),
        ("exp", a.exp()),
        ("ln", a.ln()),
        ("pow", a.pow(b)),
        ("pow of a magnitude", a.abs().pow(b)),
        ("atan2", a.atan2(b)),
    ]
}

/// Every operation that gives an integer or a mask.
fn words<R: Lanes>(a: R, b: R, c: R) -> Vec<(&'static str, R::Uint)> {
    let (u, v, w) = (a.to_bits(), b.to_bits(), c.to_bits());
    let (low, high) = u.mul_wide(v);
    let in_domain = a.abs().clamp(R::splat(0.0), R::splat(2_147_483_520.0));
    let word = |mask| R::Uint::masked(mask, 0x8000_0001);
    let (less, equal) = (a.lt(b), a.eq(c));
    vec![
        ("real lt", word(less)),
        ("real le", word(a.le(b))),
        ("real gt", word(a.gt(b))),
        ("real ge", word(a.ge(b))),
        ("real eq", word(equal)),
        ("real eq to itself", word(a.eq(a))),
        ("mask and", word(less & equal)),
        ("mask or", word(less | equal)),
        ("mask xor", word(less ^ equal)),
        ("mask not", word(!less)),
        ("mask splat", word(R::Mask::splat(true))),
        ("mask bits", word(R::Mask::from_bits(less.bits()))),
        ("to_uint", in_domain.to_uint()),
        ("uint add", u.wrapping_add(v)),
        ("uint sub", u.wrapping_sub(v)),
        ("uint and", u & v),
        ("uint or", u | v),
        ("uint xor", u ^ v),
        ("mul_low", u.mul_low(v)),
        ("mul_wide, low", low),
        ("mul_wide, high", high),
        ("shl 0", u.shl(0)),
        ("shl 7", u.shl(7)),
        ("shl 31", u.shl(31)),
        ("shr 0", u.shr(0)),
        ("shr 7", u.shr(7)),
        ("shr 31", u.shr(31)),
        ("bit", u.bit()),
        ("bit of a place", (u & R::Uint::splat(63)).bit()),
        ("rotate_left 1", u.rotate_left(1)),
        ("rotate_left 13", u.rotate_left(13)),
        ("rotate_left 31", u.rotate_left(31)),
        ("uint eq", word(u.eq(v))),
        ("uint lt", word(u.lt(v))),
        ("uint ge", word(u.ge(v))),
        ("uint select", R::Uint::select(u.lt(v), v, w)),
    ]
}

/// Compares `R` with `f32` on one block of operands, lane by lane.
fn compare<R: Lanes>(operands: [&[f32; BLOCK]; 3]) {
    for start in (0..BLOCK).step_by(R::LANES) {
        let [a, b, c] = operands.map(|values| R::from_slice(&values[start..]));
        let (real_lanes, word_lanes) = (reals(a, b, c), words(a, b, c));
        for lane in 0..R::LANES {
            let [a, b, c] = operands.map(|values| values[start + lane]);
            for ((name, got), (_, expected)) in real_lanes.iter().zip(reals(a, b, c)) {
                let got = f32::from_bits(got.to_bits().lane(lane));
                let same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
                assert!(same, "{name} of {a:?}, {b:?}, {c:?}: {got:?} in lanes, {expected:?} alone");
            }
            for ((name, got), (_, expected)) in word_lanes.iter().zip(words(a, b, c)) {
                let got = got.lane(lane);
                assert_eq!(got, expected, "{name} of {a:?}, {b:?}, {c:?}: in lanes, alone");
            }
        }
    }
}

/// Operands of different kinds, from a small generator (splitmix64).
struct Operands(u64);

impl Operands {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 32) as u32
    }

    fn uniform(&mut self, limit: f32) -> f32 {
        (self.bits() as f32 / 2f32.powi(31) - 1.0) * limit
    }

    fn special(&mut self) -> f32 {
        const SPECIAL: [f32; 14] = [
            0.0,
            1.0,
            0.5,
            1.5,
            2.0,
            std::f32::consts::FRAC_PI_4,
            std::f32::consts::PI,
            1e-45,
            f32::MIN_POSITIVE,
            8_388_608.5,
            16_777_216.0,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
        ];
        let value = SPECIAL[self.bits() as usize % SPECIAL.len()];
        if self.bits() & 1 == 0 { value } else { -value }
    }

    fn of_kind(&mut self, kind: u32) -> f32 {
        match kind {
            0 => f32::from_bits(self.bits()),
            1 => self.uniform(0.785),
            2 => self.uniform(10.0),
            3 => self.uniform(1e4).round(),
            _ => self.special(),
        }
    }

    /// One kind in all lanes (angles that need no reduction, for one), or a mixture.
    fn block(&mut self) -> [f32; BLOCK] {
        let kind = self.bits() % 8;
        std::array::from_fn(|_| {
            let mixed = self.bits() % 5;
            self.of_kind(if kind < 5 { kind } else { mixed })
        })
    }
}

#[test]
fn lanes_give_the_bits_of_scalars() {
    let mut operands = Operands(0);
    for _ in 0..10_000 {
        let (a, b, c) = (operands.block(), operands.block(), operands.block());
        compare::<f32x8>([&a, &b, &c]);
        compare::<f32x16>([&a, &b, &c]);
    }
}

/// A lane's sine and cosine must not depend on whether another lane needs the long way.
#[test]
fn lanes_do_not_see_their_neighbours() {
    let mut operands = Operands(1);
    for _ in 0..10_000 {
        let short: [f32; BLOCK] = std::array::from_fn(|_| operands.of_kind(1));
        let mut long = short;
        let lane = operands.bits() as usize % BLOCK;
        long[lane] = operands.uniform(100.0);
        let (short_sin, short_cos) = f32x16::from_slice(&short).sin_cos();
        let (long_sin, long_cos) = f32x16::from_slice(&long).sin_cos();
        for i in (0..BLOCK).filter(|&i| i != lane) {
            let bits = |value: f32x16| value.to_bits().lane(i);
            assert_eq!(bits(short_sin), bits(long_sin), "sine of {}", short[i]);
            assert_eq!(bits(short_cos), bits(long_cos), "cosine of {}", short[i]);
        }
    }
}

fn masks_count_lanes<R: Lanes>() {
    let every = ((1u64 << R::LANES) - 1) as u32;
    let mut operands = Operands(2);
    for i in 0..1000 {
        let bits = match i {
            0 => 0,
            1 => every,
            _ => operands.bits(),
        };
        let mask = R::Mask::from_bits(bits);
        assert_eq!(mask.bits(), bits & every);
        assert_eq!(mask.any(), bits & every != 0);
        assert_eq!(mask.all(), bits & every == every);
    }
    assert_eq!(R::Mask::splat(true).bits(), every);
    assert_eq!(R::Mask::splat(false).bits(), 0);
    for lane in 0..R::LANES {
        assert_eq!(R::Uint::iota().lane(lane), lane as u32);
    }
}

#[test]
fn masks_and_lane_numbers() {
    masks_count_lanes::<f32>();
    masks_count_lanes::<f32x8>();
    masks_count_lanes::<f32x16>();
}
