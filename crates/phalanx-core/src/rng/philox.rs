//! Philox4x32 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11).

use crate::lanes::Uint;

/// Rounds the engine uses: seven is the fewest that pass BigCrush according to the paper.
pub const ROUNDS: usize = 7;

const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// Four random words for a counter and a key, lane by lane.
///
/// ```
/// use phalanx_core::rng::philox4x32;
/// let words = philox4x32::<10, u32>([0; 4], [0; 2]);
/// assert_eq!(words, [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
/// ```
#[inline(always)]
pub fn philox4x32<const N: usize, U: Uint>(counter: [U; 4], key: [U; 2]) -> [U; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    for round in 0..N {
        if round > 0 {
            k0 = k0.wrapping_add(U::splat(WEYL[0]));
            k1 = k1.wrapping_add(U::splat(WEYL[1]));
        }
        [c0, c1, c2, c3] = one_round([c0, c1, c2, c3], [k0, k1]);
    }
    [c0, c1, c2, c3]
}

#[inline(always)]
fn one_round<U: Uint>([c0, c1, c2, c3]: [U; 4], [k0, k1]: [U; 2]) -> [U; 4] {
    let (low0, high0) = c0.mul_wide(U::splat(MULTIPLIERS[0]));
    let (low1, high1) = c2.mul_wide(U::splat(MULTIPLIERS[1]));
    [high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0]
}

/// [`philox4x32`] of [`ROUNDS`] rounds in one straight line, for loops that have other work to do meanwhile.
///
/// The compiler leaves the loop over the rounds a loop, which it cannot mix with what is around it. For
/// reactions the gain was a few per cent between builds on a busy machine, close to the noise.
#[inline(always)]
pub(super) fn philox4x32_straight<U: Uint>(counter: [U; 4], key: [U; 2]) -> [U; 4] {
    let next = |[k0, k1]: [U; 2]| [k0.wrapping_add(U::splat(WEYL[0])), k1.wrapping_add(U::splat(WEYL[1]))];
    let step = |(words, key): ([U; 4], [U; 2])| (one_round(words, key), next(key));
    const { assert!(ROUNDS == 7) };
    step(step(step(step(step(step(step((counter, key)))))))).0
}

#[cfg(test)]
mod tests {
    use super::{philox4x32, philox4x32_straight};
    use crate::lanes::{Uint, u32x8, u32x16};

    const PI_COUNTER: [u32; 4] = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
    const PI_KEY: [u32; 2] = [0xa409_3822, 0x299f_31d0];

    /// The known-answer vectors published with Random123 (`kat_vectors`).
    #[test]
    fn matches_the_published_vectors() {
        assert_eq!(philox4x32::<7, u32>([0; 4], [0; 2]), [0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48]);
        assert_eq!(
            philox4x32::<7, u32>([u32::MAX; 4], [u32::MAX; 2]),
            [0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662]
        );
        assert_eq!(philox4x32::<7, u32>(PI_COUNTER, PI_KEY), [0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a]);
        assert_eq!(philox4x32::<10, u32>([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(
            philox4x32::<10, u32>([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]
        );
        assert_eq!(philox4x32::<10, u32>(PI_COUNTER, PI_KEY), [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]);
    }

    fn lanes_equal_scalars<U: Uint>() {
        for start in [0, 7, u32::MAX - 3] {
            let counter = [U::splat(start).wrapping_add(U::iota()), U::splat(start ^ 5), U::iota(), U::splat(start)];
            let key = [U::iota().mul_low(U::splat(0x1234_5677)), U::splat(99)];
            let wide = philox4x32::<7, U>(counter, key);
            let straight = philox4x32_straight(counter, key);
            for lane in 0..U::LANES {
                let scalar = philox4x32::<7, u32>(counter.map(|w| w.lane(lane)), key.map(|w| w.lane(lane)));
                assert_eq!(wide.map(|w| w.lane(lane)), scalar, "lane {lane} of {}", U::LANES);
                assert_eq!(straight.map(|w| w.lane(lane)), scalar, "lane {lane} of {}", U::LANES);
            }
        }
    }

    #[test]
    fn lanes_and_scalars_give_the_same_bits() {
        lanes_equal_scalars::<u32x8>();
        lanes_equal_scalars::<u32x16>();
    }
}
