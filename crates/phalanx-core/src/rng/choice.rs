//! A fair choice among the set bits of a word, which differ from lane to lane.

use crate::lanes::Uint;

/// A multiple of every number from 1 to [`FAIR_CHOICES`]: a number below it shared out among that many
/// bits gives each the same share.
pub const FAIR: u32 = 2_520;
/// The most bits among which [`rank_of`] chooses without bias.
pub const FAIR_CHOICES: u32 = 10;

/// `number * count / FAIR`: turns a number that is uniform below [`FAIR`] into one that is uniform below
/// `count`, at most [`FAIR_CHOICES`].
#[inline(always)]
pub fn rank_of<U: Uint>(number: U, count: U) -> U {
    // `x / 2520` for all `x` below 25 200.
    number.mul_low(count).mul_low(U::splat(53_262)).shr(27)
}

/// Bits that fit [`fan_out`].
const NINE: u32 = 9;
const ONES: u32 = 0x1111_1111;

/// Bit 4i mod 9 of nine at bit 4i, for i from 0 to 7; bit 5 is left out.
///
/// Four copies side by side have every bit at four places, one of which is a multiple of four.
#[inline(always)]
pub fn fan_out<U: Uint>(bits: U) -> U {
    bits.mul_low(U::splat(0o1_001_001_001)) & U::splat(ONES)
}

#[inline(always)]
fn lowest<U: Uint>(bits: U, width: u32) -> U {
    bits & U::splat(u32::MAX >> (32 - width))
}

/// The number of set bits among the lowest `width`.
#[inline(always)]
pub fn count_bits<U: Uint>(bits: U, width: u32) -> U {
    if width <= NINE {
        let bits = lowest(bits, width);
        // The uppermost of four bits' sum is that of all eight.
        return fan_out(bits).mul_low(U::splat(ONES)).shr(28).wrapping_add(bits.shr(5) & U::splat(1));
    }
    (0..width).fold(U::splat(0), |count, place| count.wrapping_add(bits.shr(place) & U::splat(1)))
}

/// The place of one of the set bits among the lowest `width`: another for every `rank` below their number,
/// in no particular order. Without meaning for other ranks.
#[inline(always)]
pub fn ranked_bit<U: Uint>(bits: U, rank: U, width: u32) -> U {
    if width <= NINE {
        // Four bits for each of eight places: how many are set up to there, plus 7, less the rank. The
        // uppermost of the four is set from the sought place on; nowhere if that is the one left out.
        let sums = fan_out(lowest(bits, width)).wrapping_add(U::splat(7)).wrapping_sub(rank).mul_low(U::splat(ONES));
        let beyond = sums & U::splat(8 * ONES);
        let sought = (beyond ^ beyond.shl(4)).shr(3);
        // 4i mod 9 for i from 0 to 7 from the left, each ^ 5, so that none gives 5.
        return sought.mul_low(U::splat(0x51d6_2734)).shr(28) ^ U::splat(5);
    }
    // That bit lies as high as there are places up to which `rank` or fewer are set.
    let (mut seen, mut place) = (U::splat(0), U::splat(0));
    let enough = rank.wrapping_add(U::splat(1));
    for i in 0..width {
        seen = seen.wrapping_add(bits.shr(i) & U::splat(1));
        place = place.wrapping_add(U::masked(seen.lt(enough), 1));
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_has_the_same_share() {
        for count in 1..=FAIR_CHOICES {
            let mut shares = vec![0; count as usize];
            (0..FAIR).for_each(|number| shares[rank_of(number, count) as usize] += 1);
            assert!(shares.iter().all(|share| *share == FAIR / count), "{count}: {shares:?}");
        }
    }

    #[test]
    fn every_rank_has_a_set_bit_of_its_own() {
        for width in [1, 2, 5, 6, 8, 9, 10, 12] {
            for bits in 0..1_u32 << 12 {
                let set: u32 = bits & ((1 << width) - 1);
                let count = count_bits(bits, width);
                assert_eq!(count, set.count_ones());
                let found = (0..count).fold(0_u32, |found, rank| found | 1 << ranked_bit(bits, rank, width));
                assert_eq!(found, set, "{bits:b}, {width}");
            }
        }
    }
}
