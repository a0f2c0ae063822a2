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

/// The number of set bits among the lowest `width`.
#[inline(always)]
pub fn count_bits<U: Uint>(bits: U, width: u32) -> U {
    (0..width).fold(U::splat(0), |count, place| count.wrapping_add(bits.shr(place) & U::splat(1)))
}

/// The place of the set bit that has `rank` others below it; `width` if there is none.
#[inline(always)]
pub fn nth_bit<U: Uint>(bits: U, rank: U, width: u32) -> U {
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
    fn bits_are_found_by_rank() {
        for bits in 0..1_u32 << 9 {
            let set: Vec<u32> = (0..9).filter(|place| bits >> place & 1 == 1).collect();
            assert_eq!(count_bits(bits, 9) as usize, set.len());
            for rank in 0..10 {
                assert_eq!(nth_bit(bits, rank, 9), set.get(rank as usize).copied().unwrap_or(9), "{bits:b} {rank}");
            }
        }
    }
}
