//! Uniform random actions: as many steps as possible from each block of random words.

use super::{LanePolicy, Moment};
use crate::env::broadcast;
use crate::lanes::{Real, Uint};
use crate::rng;
use crate::space::ActionSpace;

/// Uniform over the action space.
#[derive(Clone, Debug)]
pub struct Random {
    pub(super) space: ActionSpace,
    /// Bits an index takes if the number of actions is a power of two: then one word serves many steps.
    index_bits: Option<u32>,
}

/// The block of random words in use.
#[derive(Clone, Copy, Debug)]
pub struct WordCache<R: Real> {
    /// Number of the block, or none.
    block: u64,
    words: [R::Uint; 4],
}

const NO_BLOCK: u64 = u64::MAX;

impl<R: Real> WordCache<R> {
    /// The `place`-th word of a policy's endless sequence.
    #[inline(always)]
    fn word(&mut self, place: u64, moment: &Moment<'_, R>) -> R::Uint {
        let block = place / 4;
        if block != self.block {
            self.block = block;
            self.words = moment.stream.policy_draws(block).words();
        }
        // Not `self.words[place % 4]`: a computed index would push the words out of the registers.
        match place % 4 {
            0 => self.words[0],
            1 => self.words[1],
            2 => self.words[2],
            _ => self.words[3],
        }
    }
}

impl Random {
    /// Uniform over `space`.
    pub fn new(space: ActionSpace) -> Self {
        let index_bits = match space {
            ActionSpace::Discrete { n } if n.is_power_of_two() && n.ilog2() <= 16 => Some(n.ilog2().max(1).next_power_of_two()),
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
        WordCache { block: NO_BLOCK, words: [R::Uint::splat(0); 4] }
    }

    #[inline(always)]
    fn prepare<R: Real>(&self, _: &Moment<'_, R>, _: &[R], (): &mut (), _: &mut WordCache<R>) {}

    #[inline(always)]
    fn index<R: Real>(&self, moment: &Moment<'_, R>, cache: &mut WordCache<R>) -> R::Uint {
        let ActionSpace::Discrete { n } = self.space else { unreachable!("an index of a discrete space") };
        match self.index_bits {
            Some(bits) => {
                // `bits` is a power of two, so an index never straddles two words.
                let first_bit = moment.tick * u64::from(bits);
                let word = cache.word(first_bit / 32, moment);
                word.shr((first_bit % 32) as u32) & R::Uint::splat(n - 1)
            }
            None => {
                let word = cache.word(moment.tick, moment);
                rng::below(n, word, |attempt| moment.stream.policy_redraw(moment.tick, attempt))
            }
        }
    }

    #[inline(always)]
    fn component<R: Real>(&self, k: usize, moment: &Moment<'_, R>, cache: &mut WordCache<R>) -> R {
        let ActionSpace::Box { low, high } = &self.space else { unreachable!("a component of a box") };
        let word = cache.word(moment.tick * low.len() as u64 + k as u64, moment);
        let (low, high) = (broadcast::<R>(low[k]), broadcast::<R>(high[k]));
        rng::unit_of_word::<R>(word).mul_add(high - low, low)
    }
}
