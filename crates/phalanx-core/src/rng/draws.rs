//! Distributions over a place's random words.

use super::philox::philox4x32_straight;
use super::{Purpose, ROUNDS, key_of_seed, philox4x32};
use crate::lanes::{LaneValue, Mask, Real, Uint};

/// The generator of each lane's environment: its key and its number.
#[derive(Clone, Copy, Debug)]
pub struct Stream<R: Real> {
    key: [R::Uint; 2],
    env: R::Uint,
}

impl<R: Real> Stream<R> {
    /// A stream per lane from keys and environment numbers.
    #[inline(always)]
    pub fn new(key: [R::Uint; 2], env: R::Uint) -> Self {
        Self { key, env }
    }

    /// Consecutive environments from `first_env` on, all under one seed.
    pub fn of_seed(seed: u64, first_env: u32) -> Self {
        let key = key_of_seed(seed).map(R::Uint::splat);
        Self::new(key, R::Uint::splat(first_env).wrapping_add(R::Uint::iota()))
    }

    /// The draws of one place: a purpose, an episode and a step.
    #[inline(always)]
    pub fn draws(&self, purpose: Purpose, episode: R::Uint, step: R::Uint) -> Draws<R> {
        Draws { stream: *self, purpose, episode, step, buffer: [R::Uint::splat(0); 4], used: 0 }
    }

    /// The `place`-th part of the endless sequence that a policy draws from.
    #[inline(always)]
    pub fn policy_draws(&self, place: u64) -> Draws<R> {
        self.draws(Purpose::Policy, R::Uint::splat((place >> 32) as u32), R::Uint::splat(place as u32))
    }

    /// The `index`-th of the words that a policy draws at a place beside the sequence.
    #[inline(always)]
    pub fn policy_extra(&self, place: u64, index: u32) -> R::Uint {
        self.policy_draws(place).block(1 + index / 4, 0)[index as usize % 4]
    }

    /// A word that replaces a policy's rejected one; `attempt` counts from 1.
    #[inline(always)]
    pub fn policy_redraw(&self, place: u64, attempt: u32) -> R::Uint {
        self.policy_draws(place).block(0, attempt)[0]
    }
}

/// Random numbers of one place, in a fixed order.
///
/// ```
/// use phalanx_core::rng::{Purpose, Stream};
/// let stream = Stream::<f32>::of_seed(42, 0);
/// let mut draws = stream.draws(Purpose::Reset, 0, 0);
/// let x = draws.uniform(-0.05, 0.05);
/// assert!((-0.05..0.05).contains(&x));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Draws<R: Real> {
    stream: Stream<R>,
    purpose: Purpose,
    episode: R::Uint,
    step: R::Uint,
    buffer: [R::Uint; 4],
    used: u32,
}

impl<R: Real> Draws<R> {
    /// The counter of a block of four words.
    #[inline(always)]
    fn counter(&self, block: u32, attempt: u32) -> [R::Uint; 4] {
        debug_assert!(block < 1 << 16 && attempt < 1 << 8, "the counter's fields must not run over");
        let place = (self.purpose as u32) << 24 | attempt << 16 | block;
        [R::Uint::splat(place), self.step, self.episode, self.stream.env]
    }

    #[inline(always)]
    fn block(&self, block: u32, attempt: u32) -> [R::Uint; 4] {
        philox4x32::<ROUNDS, _>(self.counter(block, attempt), self.stream.key)
    }

    /// The four words of the `number`-th group of events in this episode, whatever the step.
    ///
    /// For environments in which things happen at times of their own: what an event draws then depends
    /// on how many came before it, not on where a step ends. Other draws are not disturbed.
    #[inline(always)]
    pub fn event_words(&self, number: R::Uint) -> [R::Uint; 4] {
        let counter = Self { purpose: Purpose::Event, step: number, ..*self }.counter(0, 0);
        philox4x32_straight(counter, self.stream.key)
    }

    /// 32 random bits.
    #[inline(always)]
    pub fn word(&mut self) -> R::Uint {
        let (block, place) = (self.used / 4, self.used % 4);
        if place == 0 {
            self.buffer = self.block(block, 0);
        }
        self.used += 1;
        self.buffer[place as usize]
    }

    /// Four words at once: 128 random bits.
    #[inline(always)]
    pub fn words(&mut self) -> [R::Uint; 4] {
        self.used = self.used.next_multiple_of(4) + 4;
        self.block(self.used / 4 - 1, 0)
    }

    /// Uniform in [0, 1), a multiple of 2^-24.
    #[inline(always)]
    pub fn unit(&mut self) -> R {
        unit_of_word(self.word())
    }

    /// Uniform in (0, 1]: safe to take the logarithm of.
    #[inline(always)]
    pub fn unit_above_zero(&mut self) -> R {
        R::from_uint(self.word().shr(8).wrapping_add(R::Uint::splat(1))) * R::splat(UNIT_STEP)
    }

    /// Uniform between `low` and `high`.
    #[inline(always)]
    pub fn uniform(&mut self, low: R, high: R) -> R {
        self.unit().mul_add(high - low, low)
    }

    /// Standard normal (Box-Muller; two words).
    #[inline(always)]
    pub fn normal(&mut self) -> R {
        let radius = (R::splat(-2.0) * self.unit_above_zero().ln()).sqrt();
        radius * (self.unit() * R::splat(std::f64::consts::TAU)).cos()
    }

    /// Exponential with mean 1.
    #[inline(always)]
    pub fn exponential(&mut self) -> R {
        -self.unit_above_zero().ln()
    }

    /// True with probability `p`.
    #[inline(always)]
    pub fn bernoulli(&mut self, p: R) -> R::Mask {
        self.unit().lt(p)
    }

    /// An integer below `n` > 0, every one equally likely.
    #[inline(always)]
    pub fn below(&mut self, n: u32) -> R::Uint {
        let word = self.word();
        let place = self.used - 1;
        below(n, word, |attempt| self.block(place / 4, attempt)[place as usize % 4])
    }
}

/// The distance between neighbouring values of [`Draws::unit`].
const UNIT_STEP: f64 = 1.0 / 16_777_216.0;

/// Uniform in [0, 1) from the upper 24 bits of a word.
#[inline(always)]
pub(crate) fn unit_of_word<R: Real>(word: R::Uint) -> R {
    R::from_uint(word.shr(8)) * R::splat(UNIT_STEP)
}

/// Uniform in (0, 1] from the upper 31 bits of a word: never 0, and as fine as the type allows towards 0.
///
/// The values are odd multiples of 2^-31 (rounded), so that their mean is 1/2.
#[inline(always)]
pub fn positive_unit_of_word<R: Real>(word: R::Uint) -> R {
    R::from_uint(word.shr(1) | R::Uint::splat(1)) * R::splat(1.0 / 2_147_483_648.0)
}

/// An integer below `n` from a random word (Lemire, "Fast random integer generation in an interval").
///
/// `word * n / 2^32` favours some values by one part in 2^32/n; the words that cause it are rejected
/// and drawn anew at the next attempt. Each lane counts its own attempts, so lanes stay independent.
#[inline(always)]
pub(crate) fn below<U: Uint>(n: u32, word: U, redraw: impl FnMut(u32) -> U) -> U {
    fairly(n, word, redraw, |_, high| high)
}

/// The word itself, or the first redrawn one that is not rejected: a fraction whose digits in any mixed radix
/// with the product `n` are uniform.
#[inline(always)]
pub(crate) fn fair_word<U: Uint>(n: u32, word: U, redraw: impl FnMut(u32) -> U) -> U {
    fairly(n, word, redraw, |word, _| word)
}

/// What `pick` takes of an accepted word and of its `word * n / 2^32`.
#[inline(always)]
fn fairly<U: Uint>(n: u32, word: U, mut redraw: impl FnMut(u32) -> U, pick: impl Fn(U, U) -> U) -> U {
    let (low, high) = word.mul_wide(U::splat(n));
    let mut picked = pick(word, high);
    let mut rejected = low.lt(U::splat(n));
    // The surplus is less than `n`, so it hardly ever matters and is not worth a division before that.
    if rejected.any() {
        let surplus = U::splat(n.wrapping_neg() % n);
        rejected = low.lt(surplus);
        let mut attempt = 0;
        while rejected.any() && attempt < 255 {
            attempt += 1;
            let word = redraw(attempt);
            let (low, high) = word.mul_wide(U::splat(n));
            picked = <U as LaneValue>::select(rejected, pick(word, high), picked);
            rejected = rejected & low.lt(surplus);
        }
    }
    picked
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::lanes::{f32x8, f32x16};

    fn draws(seed: u64, env: u32, purpose: Purpose, episode: u32, step: u32) -> Draws<f32> {
        Stream::<f32>::of_seed(seed, env).draws(purpose, episode, step)
    }

    /// Every place has a counter of its own: the counter spells the place out, so this cannot merge two.
    #[test]
    fn no_two_places_share_a_counter() {
        let mut seen = HashSet::new();
        let edges = [0, 1, 2, 255, 256, 65_535, 65_536, 1 << 24, u32::MAX - 1, u32::MAX];
        for purpose in [Purpose::Reset, Purpose::Step, Purpose::Policy, Purpose::Params, Purpose::Event] {
            for env in edges {
                for episode in edges {
                    for step in edges {
                        for (block, attempt) in [(0, 0), (1, 0), (65_535, 0), (0, 1), (0, 255), (65_535, 255)] {
                            let counter = draws(0, env, purpose, episode, step).counter(block, attempt);
                            assert!(seen.insert(counter), "{purpose:?} {env} {episode} {step} {block} {attempt}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn seeds_have_different_keys_and_neighbours_share_no_draws() {
        let keys: HashSet<_> = (0..10_000).map(key_of_seed).collect();
        assert_eq!(keys.len(), 10_000);
        let first_words: HashSet<_> = (0..100)
            .flat_map(|seed| (0..100).map(move |env| (seed, env)))
            .map(|(s, e)| draws(s, e, Purpose::Reset, 0, 0).words())
            .collect();
        assert_eq!(first_words.len(), 10_000);
    }

    /// Upper 1e-6 quantile of chi-square with `k` degrees of freedom (Wilson-Hilferty).
    fn chi_square_limit(k: f64) -> f64 {
        let z = 4.7534;
        k * (1.0 - 2.0 / (9.0 * k) + z * (2.0 / (9.0 * k)).sqrt()).powi(3)
    }

    fn chi_square(counts: &[u64], expected: f64) -> f64 {
        counts.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum()
    }

    /// Uniformity and serial correlation along each of the four directions a run moves in.
    #[test]
    fn streams_are_uniform_and_uncorrelated() {
        const N: u32 = 200_000;
        type Place = fn(u32) -> Draws<f32>;
        let directions: [(&str, Place); 4] = [
            ("environment", |i| draws(1, i, Purpose::Reset, 0, 0)),
            ("episode", |i| draws(1, 0, Purpose::Reset, i, 0)),
            ("step", |i| draws(1, 0, Purpose::Step, 3, i)),
            ("seed", |i| draws(u64::from(i), 0, Purpose::Reset, 0, 0)),
        ];
        for (name, place) in directions {
            let values: Vec<f64> = (0..N).map(|i| f64::from(place(i).unit())).collect();
            let mut counts = [0_u64; 256];
            values.iter().for_each(|v| counts[(v * 256.0) as usize] += 1);
            let statistic = chi_square(&counts, f64::from(N) / 256.0);
            assert!(statistic < chi_square_limit(255.0), "{name}: chi-square {statistic}");
            // Under independence the lag-1 correlation is normal with standard deviation 1/sqrt(N).
            let centred: Vec<f64> = values.iter().map(|v| (v - 0.5) * 12_f64.sqrt()).collect();
            let correlation = centred.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / f64::from(N);
            assert!(correlation.abs() < 5.0 / f64::from(N).sqrt(), "{name}: serial correlation {correlation}");
        }
    }

    #[test]
    fn events_have_words_of_their_own_in_every_step() {
        let of_step = |step| draws(5, 3, Purpose::Step, 2, step);
        assert_eq!(of_step(0).event_words(7), of_step(9).event_words(7));
        assert_ne!(of_step(0).event_words(7), of_step(0).event_words(8));
        assert_ne!(of_step(7).words(), of_step(7).event_words(7));
    }

    #[test]
    fn positive_units_are_above_zero_and_reach_one() {
        assert_eq!(positive_unit_of_word::<f32>(0), 2_f32.powi(-31));
        assert_eq!(positive_unit_of_word::<f32>(u32::MAX), 1.0);
        assert!(positive_unit_of_word::<f64>(u32::MAX) < 1.0);
        assert_eq!(positive_unit_of_word::<f64>(0) + positive_unit_of_word::<f64>(u32::MAX), 1.0);
    }

    #[test]
    fn distributions_have_their_moments() {
        const N: u32 = 400_000;
        let mut sums = [0.0_f64; 7];
        for i in 0..N {
            let mut d = draws(7, i, Purpose::Step, 0, 0);
            let (normal, exponential) = (f64::from(d.normal()), f64::from(d.exponential()));
            let uniform = f64::from(d.uniform(-2.0, 6.0));
            assert!((-2.0..=6.0).contains(&uniform) && exponential >= 0.0 && exponential.is_finite());
            let coin = f64::from(u32::from(d.bernoulli(0.3)));
            for (sum, value) in sums.iter_mut().zip([
                normal,
                normal * normal,
                normal.powi(4),
                exponential,
                exponential * exponential,
                uniform,
                coin,
            ]) {
                *sum += value;
            }
        }
        // (expected mean, standard deviation of one sample)
        let expected = [
            (0.0, 1.0),
            (1.0, 2_f64.sqrt()),
            (3.0, 96_f64.sqrt()),
            (1.0, 1.0),
            (2.0, 20_f64.sqrt()),
            (2.0, 8.0 / 12_f64.sqrt()),
            (0.3, (0.3_f64 * 0.7).sqrt()),
        ];
        for (sum, (mean, sd)) in sums.iter().zip(expected) {
            let z = (sum / f64::from(N) - mean) / (sd / f64::from(N).sqrt());
            assert!(z.abs() < 5.0, "mean {} instead of {mean}, z = {z}", sum / f64::from(N));
        }
    }

    #[test]
    fn below_is_uniform_and_rejects_exactly_the_surplus() {
        for n in [1, 2, 3, 7, 10, 100] {
            let mut counts = vec![0_u64; n as usize];
            let total = 100_000 * u64::from(n).min(4);
            for i in 0..total {
                counts[draws(3, i as u32, Purpose::Step, 0, 0).below(n) as usize] += 1;
            }
            let statistic = chi_square(&counts, total as f64 / f64::from(n));
            assert!(statistic <= chi_square_limit(f64::from(n).max(2.0) - 1.0), "n = {n}: {statistic}");
        }
        // Of 2^32 words, 2^32 mod 3 = 1 is surplus: word 0. It must be redrawn, word 1 must not.
        assert_eq!(below(3, 0_u32, |attempt| u32::MAX - attempt), 2);
        assert_eq!(below(3, 1_u32, |_| unreachable!()), 0);
        // With n = 2^31 + 1 almost half of all words are surplus: rejection is the rule, bias would show.
        let n = (1 << 31) + 1;
        let upper = (0..100_000).filter(|&i| draws(3, i, Purpose::Step, 0, 0).below(n) >= n / 2).count();
        assert!((upper as f64 - 50_000.0).abs() < 5.0 * 158.2, "{upper}");
    }

    fn lanes_equal_scalars<R: Real>() {
        for first in [0, 1000] {
            let wide = Stream::<R>::of_seed(9, first);
            let mut wide = wide.draws(Purpose::Step, R::Uint::iota(), R::Uint::splat(17));
            let got: Vec<Vec<f64>> = {
                let values =
                    [wide.unit(), wide.normal(), wide.exponential(), wide.uniform(R::splat(-3.0), R::splat(1.0))];
                let integers = [wide.below(3), wide.below((1 << 31) + 1), wide.words()[3]];
                (0..R::LANES)
                    .map(|l| {
                        values.iter().map(|v| v.lane_f64(l)).chain(integers.iter().map(|v| v.lane_f64(l))).collect()
                    })
                    .collect()
            };
            for (lane, got) in got.iter().enumerate() {
                let mut d = draws(9, first + lane as u32, Purpose::Step, lane as u32, 17);
                let mut expected = vec![
                    f64::from(d.unit()),
                    f64::from(d.normal()),
                    f64::from(d.exponential()),
                    f64::from(d.uniform(-3.0, 1.0)),
                ];
                expected.extend([d.below(3), d.below((1 << 31) + 1), d.words()[3]].map(f64::from));
                assert_eq!(got, &expected, "lane {lane} of {}", R::LANES);
            }
        }
    }

    #[test]
    fn lanes_and_scalars_draw_the_same_bits() {
        lanes_equal_scalars::<f32x8>();
        lanes_equal_scalars::<f32x16>();
    }
}
