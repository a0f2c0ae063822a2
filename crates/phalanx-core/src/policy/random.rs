//! Uniform random actions: as many steps as possible from each block of random words.

use super::{LanePolicy, Moment};
use crate::env::broadcast;
use crate::lanes::{Real, Uint};
use crate::rng::{self, Stream};
use crate::space::ActionSpace;

/// Uniform over the action space.
#[derive(Clone, Debug)]
pub struct Random {
    pub(super) space: ActionSpace,
    /// Bits set aside for an index if the number of actions is a power of two: a power of two as well,
    /// so that no index straddles two words. One word then serves many steps.
    index_bits: Option<u32>,
}

/// The random words in use.
#[derive(Clone, Copy, Debug)]
pub struct WordCache<R: Real> {
    /// Number of the block of four words, or none.
    block: u64,
    words: [R::Uint; 4],
    /// The rest of a word that serves several steps, and how many it still serves.
    rest: R::Uint,
    serves: u32,
}

const NO_BLOCK: u64 = u64::MAX;

impl<R: Real> WordCache<R> {
    /// The `place`-th word of a policy's endless sequence.
    #[inline(always)]
    fn word(&mut self, place: u64, moment: &Moment<'_, R>) -> R::Uint {
        let block = place / 4;
        if block != self.block {
            self.block = block;
            self.words = draw_block(moment.stream, block);
        }
        self.words[(place % 4) as usize]
    }

    /// The next `bits` bits of the sequence, which are those of step `tick`.
    #[inline(always)]
    fn bits(&mut self, bits: u32, moment: &Moment<'_, R>) -> R::Uint {
        if self.serves == 0 {
            let first_bit = moment.tick * u64::from(bits);
            let used = (first_bit % 32) as u32;
            self.rest = self.word(first_bit / 32, moment).shr(used);
            self.serves = (32 - used) / bits;
        }
        let now = self.rest;
        self.serves -= 1;
        self.rest = now.shr(bits);
        now
    }
}

/// Out of line: it is rare, and the loop around it needs the registers.
#[inline(never)]
fn draw_block<R: Real>(stream: &Stream<R>, block: u64) -> [R::Uint; 4] {
    stream.policy_draws(block).words()
}

impl Random {
    /// Uniform over `space`.
    pub fn new(space: ActionSpace) -> Self {
        let index_bits = match space {
            ActionSpace::Discrete { n } if n.is_power_of_two() && n.ilog2() <= 16 => {
                Some(n.ilog2().max(1).next_power_of_two())
            }
            _ => None,
        };
        Self { space, index_bits }
    }
}

impl LanePolicy for Random {
    type Memory<R: Real> = ();
    type Scratch<R: Real> = WordCache<R>;

    #[inline(always)]
    fn scratch<R: Real>(&self) -> WordCache<R> {
        WordCache {
            block: NO_BLOCK,
            words: [R::Uint::splat(0); 4],
            rest: R::Uint::splat(0),
            serves: 0,
        }
    }

    #[inline(always)]
    fn prepare<R: Real>(&self, _: &Moment<'_, R>, _: &[R], (): &mut (), _: &mut WordCache<R>) {}

    #[inline(always)]
    fn index<R: Real>(&self, moment: &Moment<'_, R>, cache: &mut WordCache<R>) -> R::Uint {
        let ActionSpace::Discrete { n } = self.space else {
            unreachable!("an index of a discrete space")
        };
        match self.index_bits {
            Some(bits) => cache.bits(bits, moment) & R::Uint::splat(n - 1),
            None => {
                let word = cache.word(moment.tick, moment);
                rng::below(n, word, |attempt| {
                    moment.stream.policy_redraw(moment.tick, attempt)
                })
            }
        }
    }

    #[inline(always)]
    fn component<R: Real>(&self, k: usize, moment: &Moment<'_, R>, cache: &mut WordCache<R>) -> R {
        let ActionSpace::Box { low, high } = &self.space else {
            unreachable!("a component of a box")
        };
        let word = cache.word(moment.tick * low.len() as u64 + k as u64, moment);
        let (low, high) = (broadcast::<R>(low[k]), broadcast::<R>(high[k]));
        rng::unit_of_word::<R>(word).mul_add(high - low, low)
    }
}
