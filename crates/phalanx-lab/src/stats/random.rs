//! Random numbers for resampling: a function of (seed, stream, position), so that a report can be repeated.

use super::checksum::mix;

/// The odd number nearest to 2^64 divided by the golden ratio, the step of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// One stream of random numbers.
///
/// Position `k` of a stream is `mix(key + k·STEP)`, which is SplitMix64 started at the key. The key mixes seed
/// and stream number, so resample 17 has the same numbers whoever computes it, and whenever.
#[derive(Clone, Debug)]
pub struct Stream {
    state: u64,
}

impl Stream {
    /// The stream of this number under a seed, at its first position.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { state: mix(mix(seed.wrapping_add(STEP)) ^ mix(stream.wrapping_mul(STEP).wrapping_add(1))) }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// The next number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The next index below `n`; its bias is below n / 2^64.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let take = |seed, stream| {
            let mut random = Stream::new(seed, stream);
            [random.bits(), random.bits(), random.bits()]
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(2, 1));
        assert_ne!(take(1, 2), take(1, 3));
        assert_ne!(take(0, 0), take(0, 1));
    }

    #[test]
    fn indices_are_uniform() {
        let mut random = Stream::new(7, 0);
        let mut counts = [0_u32; 5];
        (0..50_000).for_each(|_| counts[random.below(5)] += 1);
        // Five standard deviations of a count of 10,000 at probability 1/5.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 450), "{counts:?}");
    }
}
