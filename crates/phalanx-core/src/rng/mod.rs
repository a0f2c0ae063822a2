//! Counter-based randomness: a number is a pure function of where it is used.
//!
//! Nothing here has a hidden state. A draw is [`philox4x32`] of a counter and a key, and the counter
//! spells out the draw's place in the run:
//!
//! | word | bits | meaning |
//! |---|---|---|
//! | 0 | 31..24 | [`Purpose`] |
//! | 0 | 23..16 | attempt (only rejection sampling uses more than attempt 0) |
//! | 0 | 15..0 | block of four draws within one place |
//! | 1 | 32 | step of the episode (for events: their number in the episode; for a policy: low half of its place in an endless sequence) |
//! | 2 | 32 | episode of the environment (for a policy: high half of that place) |
//! | 3 | 32 | environment (0 when every environment has a seed of its own) |
//!
//! The key is the mixed seed. Two different places therefore never share a counter, and neither chunk
//! size, thread count nor lane width can change what an environment draws.

mod choice;
mod draws;
mod philox;

pub use choice::{FAIR, FAIR_CHOICES, count_bits, fan_out, rank_of, ranked_bit};
pub use draws::{Draws, Stream, positive_unit_of_word};
pub(crate) use draws::{below, fair_word, unit_of_word};
pub use philox::{ROUNDS, philox4x32};

/// What a random number is for; streams of different purposes are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// The start state of an episode.
    Reset = 0,
    /// Noise inside a step.
    Step = 1,
    /// A policy's choices.
    Policy = 2,
    /// Per-environment parameters drawn from a range.
    Params = 3,
    /// Events that an environment counts itself, whatever step they happen in.
    Event = 4,
}

/// Mixes a seed into a generator key, so that neighbouring seeds share nothing.
///
/// This is the finaliser of SplitMix64, a bijection: different seeds give different keys.
pub fn key_of_seed(seed: u64) -> [u32; 2] {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    [z as u32, (z >> 32) as u32]
}
