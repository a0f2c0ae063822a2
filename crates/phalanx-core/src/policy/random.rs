//! Uniform random actions: as many steps as possible from each random word.

use super::{LanePolicy, Moment};
use crate::env::broadcast;
use crate::lanes::{Real, Uint};
use crate::rng::{self, Stream};
use crate::space::ActionSpace;

/// Uniform over the action space.
///
/// The policy reads an endless sequence of random words, the same for every way of running: an index of a
/// power-of-two space takes a few bits, any other index a word, a vector of choices a word if there are at most
/// 2^26 of them, any other vector one for each component. Where states forbid actions it is uniform over the
/// legal ones, component by component.
#[derive(Clone, Debug)]
pub struct Random {
    pub(super) space: ActionSpace,
    pub(super) masked: bool,
    /// How all components come from one word, if they do.
    digits: Option<Digits>,
}

/// A vector of choices as the digits of a fraction.
#[derive(Clone, Debug)]
struct Digits {
    /// Number of vectors.
    vectors: u32,
    /// For each component the product of the sizes before it.
    before: Vec<u32>,
}

/// The most vectors that share a word: of more, too many words would have to be drawn again.
const MOST_VECTORS: u32 = 1 << 26;

impl Digits {
    fn of(space: &ActionSpace) -> Option<Self> {
        let ActionSpace::MultiDiscrete { sizes } = space else { return None };
        let mut vectors = 1_u32;
        let mut before = Vec::with_capacity(sizes.len());
        for size in sizes {
            before.push(vectors);
            vectors = vectors.checked_mul(*size).filter(|vectors| *vectors <= MOST_VECTORS)?;
        }
        Some(Self { vectors, before })
    }
}

/// Words kept at hand: enough for 512 steps of two actions, or 16 of three.
const WORDS: usize = 16;

/// Components of a box that come from the sequence; one step of these always fits the words at hand.
/// Further components have draws of their own.
const SEQUENCED: usize = 12;

/// A stretch of the sequence.
#[derive(Clone, Copy, Debug)]
pub struct WordCache<R: Real> {
    /// Place of the first word; a multiple of four, because words come in blocks of four.
    first: u64,
    /// Random words; for an index that takes a whole word, the indices themselves; for a vector that takes one,
    /// fair ones; with masks of a few actions, numbers below [`rng::FAIR`].
    words: [R::Uint; WORDS],
    /// Bits of the sequence that an index takes, and what to keep of a word shifted to them.
    bits: u64,
    mask: u32,
}

impl<R: Real> Default for WordCache<R> {
    fn default() -> Self {
        Self { first: 0, words: [R::Uint::splat(0); WORDS], bits: 0, mask: 0 }
    }
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
    pub(super) fn new(space: ActionSpace) -> Self {
        Self { digits: Digits::of(&space), space, masked: false }
    }

    /// Uniform over the legal actions of each state.
    pub(super) fn masked(space: ActionSpace) -> Self {
        Self { space, masked: true, digits: None }
    }

    /// What each word is reduced to a number below, if to any.
    fn modulus(&self) -> Option<u32> {
        match self.space {
            ActionSpace::Discrete { n } if self.masked => (n <= rng::FAIR_CHOICES).then_some(rng::FAIR),
            ActionSpace::Discrete { n } if self.bits_per_step() == 32 => Some(n),
            _ => None,
        }
    }

    /// Bits of the sequence that a step takes.
    fn bits_per_step(&self) -> u64 {
        match &self.space {
            ActionSpace::Discrete { n } if !self.masked && n.is_power_of_two() && *n <= 1 << 16 => {
                u64::from(n.ilog2().max(1).next_power_of_two())
            }
            _ if self.digits.is_some() => 32,
            space => 32 * space.components().min(SEQUENCED) as u64,
        }
    }
}

impl Random {
    /// The random word of component `k`.
    #[inline(always)]
    fn word_of<R: Real>(&self, k: usize, moment: &Moment<'_, R>, cache: &WordCache<R>) -> R::Uint {
        if k < SEQUENCED {
            cache.word(moment.tick * (cache.bits / 32) + k as u64)
        } else {
            moment.stream.policy_extra(moment.tick, (k - SEQUENCED) as u32)
        }
    }

    /// A number below `n` for component `k`.
    #[inline(always)]
    fn below<R: Real>(&self, n: u32, k: usize, moment: &Moment<'_, R>, cache: &WordCache<R>) -> R::Uint {
        let word = self.word_of(k, moment, cache);
        // A redraw's place cannot collide with that of another component.
        let place = moment.tick * self.space.components() as u64 + k as u64;
        rng::below(n, word, |attempt| moment.stream.policy_redraw(place, attempt))
    }

    /// The components of an action of one environment, each chosen among its legal choices by
    /// `choose(k, below)`, where `below(n)` draws a number below `n`.
    pub(crate) fn legal_action(
        &self,
        stream: &Stream<f32>,
        tick: u64,
        choose: impl Fn(usize, &dyn Fn(u32) -> u32) -> u32,
    ) -> impl Iterator<Item = u32> {
        let mut cache = self.scratch::<f32>();
        self.replenish(stream, tick, 1, &mut cache);
        let draw = move |k: usize, n: u32| {
            let moment = Moment { stream, tick, step: 0 };
            match self.modulus() {
                Some(_) => rng::rank_of(self.word_of(k, &moment, &cache), n),
                None => self.below(n, k, &moment, &cache),
            }
        };
        (0..self.space.components()).map(move |k| choose(k, &|n| draw(k, n)))
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
        WordCache { bits: self.bits_per_step(), mask, ..WordCache::default() }
    }

    #[inline(never)]
    fn replenish<R: Real>(&self, stream: &Stream<R>, tick: u64, wanted: usize, cache: &mut WordCache<R>) -> usize {
        let bits = self.bits_per_step();
        let first_bit = tick * bits;
        cache.first = first_bit / 128 * 4;
        let end_bit = (first_bit + wanted as u64 * bits).min((cache.first + WORDS as u64) * 32);
        let blocks = (end_bit - cache.first * 32).div_ceil(128);
        // Plain loops: the closures of iterator chains would not be inlined into each other here.
        let first_block = cache.first / 4;
        for block in 0..blocks as usize % (WORDS / 4 + 1) {
            let words = stream.policy_draws(first_block + block as u64).words();
            cache.words[block * 4..block * 4 + 4].copy_from_slice(&words);
        }
        if let Some(n) = self.modulus() {
            for i in 0..blocks as usize * 4 {
                let place = cache.first + i as u64;
                cache.words[i] = rng::below(n, cache.words[i], |attempt| stream.policy_redraw(place, attempt));
            }
        }
        if let Some(digits) = &self.digits {
            for i in 0..blocks as usize * 4 {
                let place = cache.first + i as u64;
                let redraw = |attempt| stream.policy_redraw(place, attempt);
                cache.words[i] = rng::fair_word(digits.vectors, cache.words[i], redraw);
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
    fn index_among<R: Real>(&self, moment: &Moment<'_, R>, legal: R::Uint, cache: &mut WordCache<R>) -> R::Uint {
        let ActionSpace::Discrete { n } = self.space else { unreachable!("an index of a discrete space") };
        let width = n.min(32);
        let (word, count) = (cache.word(moment.tick), rng::count_bits(legal, width));
        let rank = if n <= rng::FAIR_CHOICES {
            rng::rank_of(word, count)
        } else {
            // Biased by less than one part in 2^27, which no run can show.
            word.mul_wide(count).1
        };
        rng::ranked_bit(legal, rank, width)
    }

    #[inline(always)]
    fn choice<R: Real>(&self, k: usize, moment: &Moment<'_, R>, cache: &mut WordCache<R>) -> R::Uint {
        let ActionSpace::MultiDiscrete { sizes } = &self.space else { unreachable!("a vector of choices") };
        match &self.digits {
            Some(digits) => {
                // What the digits before leave of the fraction, and its first digit.
                let rest = cache.word(moment.tick).mul_low(R::Uint::splat(digits.before[k]));
                rest.mul_wide(R::Uint::splat(sizes[k])).1
            }
            None => self.below(sizes[k], k, moment, cache),
        }
    }

    #[inline(always)]
    fn component<R: Real>(&self, k: usize, moment: &Moment<'_, R>, cache: &mut WordCache<R>) -> R {
        let ActionSpace::Box { low, high } = &self.space else { unreachable!("a component of a box") };
        let word = self.word_of(k, moment, cache);
        let (low, high) = (broadcast::<R>(low[k]), broadcast::<R>(high[k]));
        rng::unit_of_word::<R>(word).mul_add(high - low, low)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::policy::Decision;

    /// The actions of steps `first..first + steps`, replenished at most `at_once` steps ahead.
    fn actions(space: &ActionSpace, first: u64, steps: u64, at_once: usize) -> Vec<Vec<f64>> {
        let policy = Random::new(space.clone());
        let stream = Stream::<f64>::of_seed(3, 5);
        let mut cache = policy.scratch();
        let mut ready = first;
        (first..first + steps)
            .map(|tick| {
                if tick == ready {
                    let served = policy.replenish(&stream, tick, at_once, &mut cache);
                    assert!((1..=at_once).contains(&served), "{space}: {served}");
                    ready += served as u64;
                }
                let moment = Moment { stream: &stream, tick, step: 0 };
                let mut decision = Decision::new(&policy, moment, &[], &mut (), &mut cache);
                match space {
                    ActionSpace::Discrete { .. } => vec![f64::from(decision.index())],
                    ActionSpace::MultiDiscrete { sizes } => {
                        (0..sizes.len()).map(|k| f64::from(decision.choice(k))).collect()
                    }
                    ActionSpace::Box { low, .. } => (0..low.len()).map(|k| decision.component(k)).collect(),
                }
            })
            .collect()
    }

    fn unit_box(components: usize) -> ActionSpace {
        ActionSpace::Box { low: vec![0.0; components], high: vec![1.0; components] }
    }

    /// What a step draws depends on its number alone, not on where a stretch began or how long it was.
    #[test]
    fn stretches_do_not_matter() {
        let discrete = [1, 2, 3, 4, 7, 16, 17, 1 << 16, 1 << 17].map(|n| ActionSpace::Discrete { n });
        let boxes = [1, 2, 3, 5, 11, 12, 13, 16, 20, 40].map(unit_box);
        let vectors = [vec![3, 5, 5, 5, 5], vec![35, 30, 30, 30, 30], vec![2; 28]]
            .map(|sizes| ActionSpace::MultiDiscrete { sizes });
        for space in discrete.into_iter().chain(boxes).chain(vectors) {
            for first in [0, (1 << 32) - 300] {
                let whole = actions(&space, first, 600, 600);
                for (skip, at_once) in [(0, 1), (0, 7), (1, 600), (5, 3), (33, 129), (127, 600)] {
                    let part = actions(&space, first + skip, 600 - skip, at_once);
                    assert_eq!(part, whole[skip as usize..], "{space} from {first} + {skip}, {at_once} at once");
                }
            }
        }
    }

    #[test]
    fn legal_actions_are_uniform() {
        for (n, legal) in [(9, 0b1_0110_0101_u32), (9, 0b1_1111_1111), (2, 0b10), (10, 0b11_1000_0001), (17, 0x1_a0f0)]
        {
            let policy = Random::masked(ActionSpace::Discrete { n });
            let mut counts = vec![0.0; n as usize];
            let draws = 120_000;
            for env in 0..draws / 16 {
                let stream = Stream::<f32>::of_seed(9, env);
                let mut cache = policy.scratch();
                policy.replenish(&stream, 0, 16, &mut cache);
                for tick in 0..16 {
                    let moment = Moment { stream: &stream, tick, step: 0 };
                    let decision = Decision::new(&policy, moment, &[], &mut (), &mut cache);
                    counts[decision.among(legal).index() as usize] += 1.0;
                }
            }
            let expected = f64::from(draws) / f64::from(legal.count_ones());
            let chi_square: f64 = (0..n)
                .map(|action| {
                    let count: f64 = counts[action as usize];
                    if legal >> action & 1 == 0 {
                        assert_eq!(count, 0.0);
                        0.0
                    } else {
                        (count - expected).powi(2) / expected
                    }
                })
                .sum();
            // The 1e-5 quantile for up to nine degrees of freedom is 39.3.
            assert!(chi_square < 39.3, "{n} {legal:b}: {counts:?}");
        }
    }

    #[test]
    fn actions_are_uniform_and_components_are_independent() {
        for n in [2, 3, 4, 7] {
            let mut counts = vec![0.0; n as usize];
            actions(&ActionSpace::Discrete { n }, 0, 40_000, 100).iter().for_each(|a| counts[a[0] as usize] += 1.0);
            let expected = 40_000.0 / f64::from(n);
            // Five standard deviations of a binomial count.
            let off = counts.iter().map(|c: &f64| (c - expected).abs()).fold(0.0, f64::max);
            assert!(off < 5.0 * expected.sqrt(), "{n}: {counts:?}");
        }
        // All vectors alike, whether they share a word or not.
        for sizes in [vec![3, 5, 2], vec![3, 5, 1 << 30]] {
            let space = ActionSpace::MultiDiscrete { sizes };
            let mut counts = [0.0; 30];
            for action in actions(&space, 0, 60_000, 100) {
                counts[action[0] as usize * 10 + action[1] as usize * 2 + action[2] as usize % 2] += 1.0;
            }
            // The 0.9999 quantile of chi-square with 29 degrees of freedom is 66.
            let square: f64 = counts.iter().map(|count| (count - 2_000.0_f64).powi(2) / 2_000.0).sum();
            assert!(square < 66.0, "{space}: {square}");
        }
        let rows = actions(&unit_box(20), 0, 1_000, 100);
        let distinct: HashSet<_> = rows.iter().flatten().map(|value| value.to_bits()).collect();
        // 20 000 of 2^24 values: about twelve repeats by chance.
        assert!(distinct.len() > 19_950, "{}", distinct.len());
        let mean = rows.iter().flatten().sum::<f64>() / 20_000.0;
        assert!((mean - 0.5).abs() < 5.0 * (1.0_f64 / 12.0 / 20_000.0).sqrt(), "{mean}");
    }
}
