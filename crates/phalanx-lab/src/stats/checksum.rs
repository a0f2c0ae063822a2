//! Proof of work: a checksum over everything that timed environments produced.
//!
//! Each environment hashes its own outputs in the order of time; the total is a wrapping sum over environments,
//! hence independent of threads and chunks.

/// The finaliser of SplitMix64, a bijection of 64 bits.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A value that can be hashed as one word of 64 bits.
pub trait Word: Copy {
    /// The word: equal values have equal words.
    fn word(self) -> u64;
}

impl Word for f32 {
    #[inline]
    fn word(self) -> u64 {
        // Adding +0 turns −0 into +0; the payload and the sign of a NaN depend on the machine.
        u64::from(if self.is_nan() { 0x7fc0_0000 } else { (self + 0.0).to_bits() })
    }
}

impl Word for f64 {
    #[inline]
    fn word(self) -> u64 {
        if self.is_nan() { 0x7ff8_0000_0000_0000 } else { (self + 0.0).to_bits() }
    }
}

impl Word for i8 {
    #[inline]
    fn word(self) -> u64 {
        i64::from(self).word()
    }
}

impl Word for i64 {
    #[inline]
    fn word(self) -> u64 {
        self as u64
    }
}

/// The running checksum of one environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum(u64);

impl Checksum {
    /// The checksum of environment `index` before its first step.
    pub fn new(index: u64) -> Self {
        Self(mix(index.wrapping_add(1)))
    }

    /// Adds one step: the elements of the observation in order, the reward, the flags.
    #[inline]
    pub fn step<O: Word, R: Word>(&mut self, observation: &[O], reward: R, terminated: bool, truncated: bool) {
        observation.iter().for_each(|element| self.word(element.word()));
        self.word(reward.word());
        self.word(u64::from(terminated) + 2 * u64::from(truncated));
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }

    /// The checksum so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// The checksum of many environments.
pub fn total(checksums: impl IntoIterator<Item = Checksum>) -> u64 {
    checksums.into_iter().fold(0, |sum, checksum| sum.wrapping_add(checksum.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Step = ([f32; 2], f32, bool, bool);

    fn checksum(index: u64, steps: &[Step]) -> Checksum {
        let mut checksum = Checksum::new(index);
        for (observation, reward, terminated, truncated) in steps {
            checksum.step(observation, *reward, *terminated, *truncated);
        }
        checksum
    }

    #[test]
    fn mix_has_its_known_values() {
        assert_eq!(mix(1), 0x5692_161d_100b_05e5);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn two_environments() {
        let first = [([0.5, -0.25], 1.0, false, false), ([0.0, 2.0], 1.0, true, false)];
        let second = [([1.0, 1.0], 0.0, false, false), ([3.0, -1.5], -1.0, false, true)];
        let (a, b) = (checksum(0, &first), checksum(1, &second));
        assert_eq!(a.value(), 0x65b1_da4a_b8bf_4e48);
        assert_eq!(b.value(), 0x823f_4c4c_388a_b4de);
        assert_eq!(total([a, b]), 0xe7f1_2696_f14a_0326);
        assert_eq!(total([b, a]), total([a, b]));
        assert_eq!(total([checksum(0, &[first[1], first[0]]), b]), 0x6aec_4194_9c42_b602);
    }

    #[test]
    fn words_identify_what_must_be_equal() {
        assert_eq!((-0.0_f32).word(), 0.0_f32.word());
        assert_eq!((-0.0_f64).word(), 0.0_f64.word());
        assert_eq!((-f32::NAN).word(), 0x7fc0_0000);
        assert_eq!(f64::from_bits(0xfff0_0000_0000_0001).word(), 0x7ff8_0000_0000_0000);
        assert_eq!((-1_i64).word(), u64::MAX);
        assert_eq!((-0.25_f32).word(), 0xbe80_0000);
    }
}
