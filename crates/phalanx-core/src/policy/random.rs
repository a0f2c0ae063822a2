//! Uniform random actions: as many steps as possible from each random word.

use super::{LanePolicy, Moment};
use crate::env::broadcast;
use crate::lanes::{Real, Uint};
use crate::rng::{self, Stream};
use crate::space::ActionSpace;

/// Uniform over the action space.
///
/// The policy reads an endless sequence of random words, the same for every way of running: an index of a
/// power-of-two space takes a few bits, any other index a word, a box one word for each component.
#[derive(Clone, Debug)]
pub struct Random {
    pub(super) space: ActionSpace,
}

/// Words kept at hand: enough for 512 steps of two actions, or 16 of three.
const WORDS: usize = 16;

/// A stretch of the sequence.
#[derive(Clone, Copy, Debug)]
pub struct WordCache<R: Real> {
    /// Place of the first word; a multiple of four, because words come in blocks of four.
    first: u64,
    /// Random words; for an index that takes a whole word, the indices themselves.
    words: [R::Uint; WORDS],
    /// Bits of the sequence that an index takes, and what to keep of a word shifted to them.
    bits: u64,
    mask: u32,
}

impl<R: Real> WordCache<R> {
    /// The word at `place`.
    #[inline(always)]
    fn word(&self, place: u64) -> R::Uint {
        // The remainder proves the index to the compiler; `replenish` has made it superfluous.
        self.words[(place - self.first) as usize % WORDS]
    }
}

impl Random {
    /// Uniform over `space`.
    pub fn new(space: ActionSpace) -> Self {
        Self { space }
    }

    /// Bits of the sequence that a step takes.
    fn bits_per_step(&self) -> u64 {
        match &self.space {
            ActionSpace::Discrete { n } if n.is_power_of_two() && *n <= 1 << 16 => {
                u64::from(n.ilog2().max(1).next_power_of_two())
            }
            space => 32 * space.components() as u64,
        }
    }
}

impl LanePolicy for Random {
    type Memory<R: Real> = ();
    type Scratch<R: Real> = WordCache<R>;

    #[inline(always)]
    fn scratch<R: Real>(&self) -> WordCache<R> {
        let mask = match self.space {
            ActionSpace::Discrete { n } if self.bits_per_step() < 32 => n - 1,
            _ => u32::MAX,
        };
        WordCache { first: 0, words: [R::Uint::splat(0); WORDS], bits: self.bits_per_step(), mask }
    }

    #[inline(never)]
    fn replenish<R: Real>(&self, stream: &Stream<R>, tick: u64, wanted: usize, cache: &mut WordCache<R>) -> usize {
        let bits = self.bits_per_step();
        let first_bit = tick * bits;
        cache.first = first_bit / 128 * 4;
        let end_bit = (first_bit + wanted as u64 * bits).min((cache.first + WORDS as u64) * 32);
        let blocks = (end_bit - cache.first * 32).div_ceil(128);
        for (block, words) in (cache.first / 4..).zip(cache.words.chunks_exact_mut(4)).take(blocks as usize) {
            words.copy_from_slice(&stream.policy_draws(block).words());
        }
        if let ActionSpace::Discrete { n } = self.space
            && bits == 32
        {
            for (place, word) in (cache.first..).zip(&mut cache.words).take(blocks as usize * 4) {
                *word = rng::below(n, *word, |attempt| stream.policy_redraw(place, attempt));
            }
        }
        ((end_bit - first_bit) / bits) as usize
    }

    #[inline(always)]
    fn prepare<R: Real>(&self, _: &Moment<'_, R>, _: &[R], (): &mut (), _: &mut WordCache<R>) {}

    #[inline(always)]
    fn index<R: Real>(&self, moment: &Moment<'_, R>, cache: &mut WordCache<R>) -> R::Uint {
        let first_bit = moment.tick * cache.bits;
        cache.word(first_bit / 32).shr((first_bit % 32) as u32) & R::Uint::splat(cache.mask)
    }

    #[inline(always)]
    fn component<R: Real>(&self, k: usize, moment: &Moment<'_, R>, cache: &mut WordCache<R>) -> R {
        let ActionSpace::Box { low, high } = &self.space else { unreachable!("a component of a box") };
        let word = cache.word(moment.tick * low.len() as u64 + k as u64);
        let (low, high) = (broadcast::<R>(low[k]), broadcast::<R>(high[k]));
        rng::unit_of_word::<R>(word).mul_add(high - low, low)
    }
}
