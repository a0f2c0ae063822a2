//! The checksum of a roll-out: proof of what was computed, equal for every way of computing it.
//!
//! Each environment folds every observation, reward and flag into a word of its own, in the order of
//! its steps; the words are then combined with the environment's number, so neither the order of
//! environments in time nor their grouping into lanes, blocks and threads matters.

use wide::u32x8;

use crate::lanes::{Lanes, Uint};

/// Odd, so that multiplication loses nothing; one for each place within a step, by position.
const FACTORS: [u32; 8] =
    [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1, 0xd3a2_646d, 0xfd70_46c5, 0xb55a_4f09];

/// From the factor of one group of bytes to that of the next.
const GROUP_STEP: u32 = 0x85eb_ca76;

/// The factor of eight bytes at once.
const WORD_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the flags add.
const TERMINATED: u32 = 0x7feb_352d;
const TRUNCATED: u32 = 0x846c_a68b;
/// What tells a first observation from a later one.
const START: u32 = 0x68e3_1da5;

#[inline(always)]
fn factor(place: usize) -> u32 {
    FACTORS[place % FACTORS.len()].wrapping_add(2 * (place / FACTORS.len()) as u32)
}

/// The weighted sum of an observation's bit patterns.
#[inline(always)]
pub(crate) fn weigh<R: Lanes>(obs: &[R]) -> R::Uint {
    obs.iter().enumerate().fold(R::Uint::splat(0), |sum, (place, value)| {
        let mut bits = value.to_bits();
        if place > 0 {
            // An odd factor leaves the sign bit where it is, so two signs would cancel: fold each to a
            // place of its own first. (x ^ x >> s is a bijection, like the product.)
            bits = bits ^ bits.shr(1 + (5 * place as u32) % 23);
        }
        sum.wrapping_add(bits.mul_low(R::Uint::splat(factor(place + 1))))
    })
}

/// The same for bytes: groups of 32 in lanes, then the lanes and the rest eight bytes at a time. Each group has
/// a factor of its own and each word is mixed with those before, so that every byte counts by its place.
#[inline(always)]
pub(crate) fn weigh_bytes(row: &[i8]) -> u32 {
    match row.as_array::<25>() {
        // The compact canvas of ARC: a length that is known leaves no loop.
        Some(row) => weigh_bytes_of_any_length(row),
        None => weigh_bytes_of_any_length(row),
    }
}

#[inline(always)]
fn weigh_bytes_of_any_length(row: &[i8]) -> u32 {
    let bytes: &[u8] = bytemuck::cast_slice(row);
    let (groups, tail) = bytes.as_chunks::<32>();
    let (words, rest) = tail.as_chunks::<8>();
    let mix = |sum: u64, word: u64| (sum.rotate_left(29) ^ word).wrapping_mul(WORD_FACTOR);
    let mut sum = 0;
    if !groups.is_empty() {
        let mut lanes = u32x8::splat(0);
        for (place, group) in groups.iter().enumerate() {
            let group = u32x8::new(bytemuck::cast(*group));
            // Folded first, or the highest byte would meet only the lowest byte of the factor.
            let folded = group ^ (group >> 15_u32);
            lanes += folded.mul_low(u32x8::splat(FACTORS[0].wrapping_add(GROUP_STEP.wrapping_mul(place as u32))));
        }
        sum = bytemuck::cast::<_, [u64; 4]>(lanes.to_array()).into_iter().fold(sum, mix);
    }
    sum = words.iter().fold(sum, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    if !rest.is_empty() {
        let last = match bytes.last_chunk() {
            // One load, without what is counted already, instead of a copy byte by byte.
            Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        sum = mix(sum, last);
    }
    (sum ^ sum >> 32) as u32
}

/// What the first observation of an episode adds to each lane's word. It is added to the step that ended
/// the previous episode, so it is weighted differently.
#[inline(always)]
pub(crate) fn start_word<R: Lanes>(obs: &[R]) -> R::Uint {
    start_weight(weigh(obs))
}

/// [`start_word`] of an observation that is already weighed.
#[inline(always)]
pub(crate) fn start_weight<U: Uint>(weight: U) -> U {
    weight.mul_low(U::splat(START))
}

/// Folds a transition into each lane's word.
#[inline(always)]
pub(crate) fn fold_transition<R: Lanes>(
    word: R::Uint,
    obs: &[R],
    reward: R,
    terminated: R::Mask,
    truncated: R::Mask,
) -> R::Uint {
    fold_weight(word, weigh(obs), reward, terminated, truncated)
}

/// [`fold_transition`] of an observation that is already weighed.
#[inline(always)]
pub(crate) fn fold_weight<R: Lanes>(
    word: R::Uint,
    weight: R::Uint,
    reward: R,
    terminated: R::Mask,
    truncated: R::Mask,
) -> R::Uint {
    let reward = reward.to_bits().mul_low(R::Uint::splat(factor(0)));
    let flags = R::Uint::masked(terminated, TERMINATED).wrapping_add(R::Uint::masked(truncated, TRUNCATED));
    word.rotate_left(5).wrapping_add(weight).wrapping_add(reward).wrapping_add(flags)
}

/// Combines the words of all environments.
pub(crate) fn combine(words: impl Iterator<Item = u32>) -> u64 {
    words.enumerate().fold(0, |sum, (i, word)| {
        let mut z = (i as u64) << 32 | u64::from(word);
        z = (z ^ (z >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        z = (z ^ (z >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        sum.wrapping_add(z ^ (z >> 33))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_every_place_counts() {
        let obs = [1.5_f32, -2.25, 0.0, 3.0];
        let base = fold_transition(7, &obs, 1.0, false, false);
        let mut all = vec![
            base,
            fold_transition(8, &obs, 1.0, false, false),
            fold_transition(7, &obs, 1.0, true, false),
            fold_transition(7, &obs, 1.0, false, true),
            fold_transition(7, &obs, 1.0, true, true),
        ];
        for bit in 0..32 {
            all.push(fold_transition(7, &obs, f32::from_bits(1.0_f32.to_bits() ^ 1 << bit), false, false));
            for place in 0..4 {
                let mut changed = obs;
                changed[place] = f32::from_bits(changed[place].to_bits() ^ 1 << bit);
                all.push(fold_transition(7, &changed, 1.0, false, false));
            }
        }
        assert_eq!(all.iter().filter(|&&w| w == base).count(), 1);
    }

    /// Mirrored trajectories flip several signs at once; these must not cancel.
    #[test]
    fn pairs_of_flipped_bits_count() {
        let obs = [1.5_f32, -2.25, 0.5, 3.0, -0.125, 7.0];
        let base = fold_transition(7, &obs, 1.0, false, false);
        for signs in 1..1 << obs.len() {
            let mut mirrored = obs;
            mirrored
                .iter_mut()
                .enumerate()
                .filter(|(i, _)| signs >> i & 1 == 1)
                .for_each(|(_, value)| *value = -*value);
            assert_ne!(fold_transition(7, &mirrored, 1.0, false, false), base, "signs {signs:06b}");
            assert_ne!(start_word(&mirrored), start_word(&obs), "signs {signs:06b}");
        }
        let mut same = 0;
        for (one, other) in (0..192).flat_map(|one| (0..one).map(move |other| (one, other))) {
            let mut changed = obs;
            for bit in [one, other] {
                changed[bit / 32] = f32::from_bits(changed[bit / 32].to_bits() ^ 1 << (bit % 32));
            }
            same += u32::from(fold_transition(7, &changed, 1.0, false, false) == base);
        }
        assert_eq!(same, 0, "of 18 336 pairs");
    }

    #[test]
    fn every_byte_counts_by_its_place() {
        for len in [1, 25, 32, 33, 900] {
            let row: Vec<i8> = (0..len).map(|i| (i % 11) as i8 - 1).collect();
            let mut seen = std::collections::HashSet::from([weigh_bytes(&row)]);
            for place in 0..len {
                for change in [1, 2, 3, 8] {
                    let mut changed = row.clone();
                    changed[place] ^= change;
                    assert!(seen.insert(weigh_bytes(&changed)), "byte {place} of {len}");
                }
            }
        }
        assert_ne!(weigh_bytes(&[1, 2]), weigh_bytes(&[2, 1]));
    }

    #[test]
    fn environments_cannot_swap_their_words() {
        assert_ne!(combine([1, 2].into_iter()), combine([2, 1].into_iter()));
        assert_ne!(combine([1, 0].into_iter()), combine([1].into_iter()));
    }
}
