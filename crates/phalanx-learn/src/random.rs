//! Streams of random numbers for learning.
//!
//! As in the engine a number is a pure function of its place, so a stream is a seed, a purpose and a position: it
//! can be stored, compared and continued, and no stream disturbs another.

use phalanx_core::rng::{ROUNDS, key_of_seed, philox4x32};

/// What the numbers of a stream are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    // The engine's own purposes are below 128.
    /// The first weights of a network.
    Weights = 128,
    /// An agent's choices while it learns.
    Exploration = 129,
    /// Which transitions are learnt from, in which order.
    Batches = 130,
    /// The settings that a sweep tries.
    Hyperparameters = 160,
}

/// A stream of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    key: [u32; 2],
    purpose: Purpose,
    /// Words drawn so far.
    position: u64,
    /// The words of the block that the next word is in, unless that is its first.
    block: [u32; 4],
}

impl Random {
    /// The stream of a seed and a purpose, from its start.
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        Self { key: key_of_seed(seed), purpose, position: 0, block: [0; 4] }
    }

    /// How many words were drawn.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The same stream where `position` words were drawn.
    pub fn at(mut self, position: u64) -> Self {
        self.position = position;
        self.block = self.words(position / 4);
        self
    }

    fn words(&self, block: u64) -> [u32; 4] {
        philox4x32::<ROUNDS, u32>([(self.purpose as u32) << 24, block as u32, (block >> 32) as u32, 0], self.key)
    }

    /// 32 random bits.
    pub fn word(&mut self) -> u32 {
        let within = (self.position % 4) as usize;
        if within == 0 {
            self.block = self.words(self.position / 4);
        }
        self.position += 1;
        self.block[within]
    }

    /// A number in [0, 1), of 53 bits.
    pub fn unit(&mut self) -> f64 {
        let bits = u64::from(self.word()) << 32 | u64::from(self.word());
        (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// An integer below `n`, each with the same probability.
    ///
    /// # Panics
    ///
    /// If `n` is 0.
    pub fn below(&mut self, n: u32) -> u32 {
        assert!(n > 0, "there is no number below 0");
        loop {
            let product = u64::from(self.word()) * u64::from(n);
            // Lemire's method: the few words that would favour some numbers are drawn again.
            if product as u32 >= n.wrapping_neg() % n {
                return (product >> 32) as u32;
            }
        }
    }

    /// A standard normal number.
    pub fn normal(&mut self) -> f64 {
        // Not the C library's functions, which are others on other systems.
        let radius = (-2.0 * libm::log(1.0 - self.unit())).sqrt();
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Puts a slice into random order.
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for i in (1..slice.len()).rev() {
            slice.swap(i, self.below(i as u32 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_continues_from_any_position() {
        let mut stream = Random::new(7, Purpose::Weights);
        let words: Vec<u32> = (0..23).map(|_| stream.word()).collect();
        for position in 0..23 {
            let mut later = Random::new(7, Purpose::Weights).at(position);
            let rest: Vec<u32> = (position..23).map(|_| later.word()).collect();
            assert_eq!(rest, words[position as usize..]);
            assert_eq!(later.position(), 23);
        }
    }

    #[test]
    fn purposes_and_seeds_share_nothing() {
        let first = |seed, purpose| Random::new(seed, purpose).word();
        assert_ne!(first(1, Purpose::Weights), first(1, Purpose::Batches));
        assert_ne!(first(1, Purpose::Weights), first(2, Purpose::Weights));
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut stream = Random::new(3, Purpose::Exploration);
        let n = 200_000;
        let mean = |values: &[f64], power: i32| values.iter().map(|x| x.powi(power)).sum::<f64>() / n as f64;
        let normal: Vec<f64> = (0..n).map(|_| stream.normal()).collect();
        // Standard errors times four: 1, sqrt(2), sqrt(96) over sqrt(n).
        let error = 4.0 / (n as f64).sqrt();
        assert!(mean(&normal, 1).abs() < error);
        assert!((mean(&normal, 2) - 1.0).abs() < 2_f64.sqrt() * error);
        assert!((mean(&normal, 4) - 3.0).abs() < 96_f64.sqrt() * error);
        let die: Vec<f64> = (0..n).map(|_| f64::from(stream.below(6))).collect();
        assert!((mean(&die, 1) - 2.5).abs() < (35.0_f64 / 12.0).sqrt() * error);
    }

    #[test]
    fn a_shuffle_keeps_everything_and_favours_nothing() {
        let mut stream = Random::new(5, Purpose::Batches);
        let mut firsts = [0; 5];
        for _ in 0..50_000 {
            let mut items = [0, 1, 2, 3, 4];
            stream.shuffle(&mut items);
            firsts[items[0]] += 1;
            items.sort_unstable();
            assert_eq!(items, [0, 1, 2, 3, 4]);
        }
        assert!(firsts.iter().all(|&count| (count - 10_000_i32).abs() < 4 * 90), "{firsts:?}");
    }
}
