//! The choice of actions: ε-greedy, with two random words for every choice, whatever becomes of them.
//!
//! Because the words are drawn whether they are needed or not, and in the same order, all kinds of tables make the
//! same choices from the same seed.

use phalanx_core::apart;
use phalanx_core::lanes::{BLOCK, Line, Stored, Uint, u32x16};
use phalanx_core::rng::{ROUNDS, key_of_seed, philox4x32, ranked_bit};

use super::table::Value;
use crate::random::Purpose;

/// The most actions that can have a mask, a bit each.
pub const MASKED_ACTIONS: usize = 32;

/// What happens among equally good actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// Each is as likely: how an agent learns.
    Random,
    /// The first is taken: how an agent is judged.
    First,
}

/// All of `actions` actions. Beyond [`MASKED_ACTIONS`] there are no masks: 0 means none, anything else all.
pub const fn all_legal(actions: usize) -> u32 {
    if actions >= MASKED_ACTIONS { u32::MAX } else { (1 << actions) - 1 }
}

#[inline(always)]
fn larger<T: Value>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// Calls `$work` with a row, compiled for rows of nine actions, too: where the length is known the loops over a row
/// vanish, and nine is what boards have. It made learning tic-tac-toe 1.11 and 1.19 times as fast (two interleaved rounds).
macro_rules! of_known_length {
    ($row:ident, $work:expr) => {
        match <&[T; 9]>::try_from($row) {
            Ok($row) => $work,
            Err(_) => $work,
        }
    };
}

/// The largest value of a row among the legal actions; minus infinity if there is none.
#[inline(always)]
pub fn max_legal<T: Value>(row: &[T], legal: u32) -> T {
    of_known_length!(row, max_among(row, legal))
}

#[inline(always)]
fn max_among<T: Value>(row: &[T], mut legal: u32) -> T {
    let mut max = T::neg_infinity();
    if row.len() > MASKED_ACTIONS {
        return row.iter().copied().fold(max, larger);
    }
    let (eights, rest) = row.as_chunks();
    for values in eights {
        max = larger(max, T::max_of_eight(values, legal));
        legal >>= 8;
    }
    for value in rest {
        max = larger(max, value.if_legal(legal));
        legal >>= 1;
    }
    max
}

/// The legal actions with the largest value, a bit each.
#[inline(always)]
pub fn best_legal<T: Value>(row: &[T], legal: u32) -> u32 {
    of_known_length!(row, best_among(row, legal))
}

#[inline(always)]
fn best_among<T: Value>(row: &[T], legal: u32) -> u32 {
    let max = max_among(row, legal);
    let (eights, rest) = row.as_chunks();
    let (mut best, mut first) = (0, 0);
    for values in eights {
        best |= T::equal_of_eight(values, max) << first;
        first += 8;
    }
    for value in rest {
        best |= u32::from(*value == max) << first;
        first += 1;
    }
    // None is the best of values that are no numbers.
    if best & legal == 0 { legal } else { best & legal }
}

/// A probability as the number of words that are below it.
pub fn words_below(probability: f64) -> u64 {
    (probability * (1_u64 << 32) as f64).round() as u64
}

/// A number below `count` from a word; no number is more than 2^-32 likelier than another.
#[inline(always)]
fn scale(word: u32, count: u32) -> u32 {
    ((u64::from(word) * u64::from(count)) >> 32) as u32
}

/// One of the set bits, each as likely; which one for which word has no meaning.
#[inline(always)]
fn pick(bits: u32, word: u32, width: usize) -> usize {
    let rank = scale(word, bits.count_ones());
    if width <= 9 {
        // Without branches, which here nobody could predict.
        return ranked_bit(bits, rank, 9) as usize;
    }
    (0..rank).fold(bits, |left, _| left & left.wrapping_sub(1)).trailing_zeros() as usize
}

/// An ε-greedy choice: random if the first word is below `explore`, else the best; the second decides which of those.
/// `None` if no action is legal.
#[inline(always)]
pub fn choose<T: Value>(row: &[T], legal: u32, explore: u64, words: [u32; 2], ties: Ties) -> Option<usize> {
    of_known_length!(row, choose_among(row, legal, explore, words, ties))
}

#[inline(always)]
fn choose_among<T: Value>(row: &[T], legal: u32, explore: u64, words: [u32; 2], ties: Ties) -> Option<usize> {
    if legal == 0 {
        return None;
    }
    let explores = u64::from(words[0]) < explore;
    if row.len() > MASKED_ACTIONS {
        return Some(choose_of_many(row, explores, words[1], ties));
    }
    // The best are found even if nobody asks: whether somebody does, no processor could predict.
    let candidates = best_among(row, legal) | legal & u32::from(explores).wrapping_neg();
    Some(match ties {
        Ties::First if !explores => candidates.trailing_zeros() as usize,
        _ => pick(candidates, words[1], row.len()),
    })
}

fn choose_of_many<T: Value>(row: &[T], explores: bool, word: u32, ties: Ties) -> usize {
    if explores {
        return scale(word, row.len() as u32) as usize;
    }
    let max = max_legal(row, u32::MAX);
    let best = || (0..row.len()).filter(|action| row[*action] == max);
    let rank = if ties == Ties::First { 0 } else { scale(word, best().count() as u32) };
    best().nth(rank as usize).unwrap_or(0)
}

/// The random words of many agents' choices: a pure function of (seed, number of the choice, agent).
#[derive(Clone, Debug)]
pub struct Draws {
    key: [u32; 2],
    /// Whether to explore, for each agent.
    pub explore: Vec<u32>,
    /// Which action, for each agent.
    pub pick: Vec<u32>,
}

/// Agents that the four words of sixteen blocks suffice for.
const GROUP: usize = 2 * BLOCK;

impl Draws {
    /// The words for some agents; seeds share nothing.
    pub fn new(seed: u64, agents: usize) -> Self {
        let words = || apart::filled(0, agents.next_multiple_of(GROUP));
        Self { key: key_of_seed(seed), explore: words(), pick: words() }
    }

    /// Draws the words of choice `number`.
    pub fn fill(&mut self, number: u64) {
        let groups = self.explore.len() / GROUP;
        let key = self.key.map(u32x16::splat);
        for (group, (explore, pick)) in
            self.explore.chunks_exact_mut(GROUP).zip(self.pick.chunks_exact_mut(GROUP)).enumerate()
        {
            // A multiple of sixteen, so that adding the lane does not carry.
            let first = (number * groups as u64 + group as u64) * BLOCK as u64;
            let counter = [
                u32x16::splat((Purpose::Exploration as u32) << 24),
                u32x16::splat(first as u32) | u32x16::iota(),
                u32x16::splat((first >> 32) as u32),
                u32x16::splat(0),
            ];
            let words = philox4x32::<ROUNDS, u32x16>(counter, key);
            let halves = explore.chunks_exact_mut(BLOCK).chain(pick.chunks_exact_mut(BLOCK));
            for (half, words) in halves.zip(words) {
                let mut line = Line::default();
                words.store(&mut line, 0);
                half.copy_from_slice(&line.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// A million choices from each: none that is illegal, and all that are legal equally often.
    #[test]
    fn masks_are_respected_and_choices_are_uniform() {
        let mut draws = Draws::new(1, 1_000);
        // The 99.9 % quantiles of chi-square with 2, 4 and 8 degrees of freedom.
        for (actions, legal, quantile) in
            [(9, 0b1_0001_0010_u32, 13.8), (9, 0b1_1111_1111, 26.1), (20, 1 << 19 | 0b1_0110_1000, 18.5)]
        {
            // Exploration, and greedy choice among equal values, with a larger one that is illegal.
            for explore in [words_below(1.0), 0] {
                let row: Vec<f32> = (0..actions).map(|a| if legal >> a & 1 == 1 { -1.0 } else { 5.0 }).collect();
                let mut counts = vec![0_u32; actions];
                for number in 0..1_000 {
                    draws.fill(number);
                    for (&first, &second) in draws.explore[..1_000].iter().zip(&draws.pick) {
                        counts[choose(&row, legal, explore, [first, second], Ties::Random).unwrap()] += 1;
                    }
                }
                let expected = 1e6 / f64::from(legal.count_ones());
                let (allowed, others): (Vec<usize>, Vec<usize>) = (0..actions).partition(|a| legal >> a & 1 == 1);
                assert!(others.iter().all(|a| counts[*a] == 0), "{counts:?}");
                let chi_square: f64 =
                    allowed.iter().map(|a| (f64::from(counts[*a]) - expected).powi(2) / expected).sum();
                assert!(chi_square < quantile, "{counts:?}: {chi_square}");
            }
        }
    }

    /// The values side by side, and one after the other.
    #[test]
    fn the_best_are_found_in_rows_of_any_length() {
        let mut random = Random::new(1, Purpose::Batches);
        for width in 1..=MASKED_ACTIONS {
            for _ in 0..300 {
                let row: Vec<f32> = (0..width).map(|_| random.below(4) as f32 - 2.0).collect();
                let legal = (random.word() & all_legal(width)) | 1 << random.below(width as u32);
                let values = || (0..width).filter(|action| legal >> action & 1 == 1).map(|action| row[action]);
                let max = values().fold(f32::NEG_INFINITY, f32::max);
                assert_eq!(max_legal(&row, legal), max);
                let best = (0..width).filter(|action| legal >> action & 1 == 1 && row[*action] == max);
                assert_eq!(best_legal(&row, legal), best.fold(0, |bits, action| bits | 1 << action));
            }
        }
    }

    #[test]
    fn exploration_has_its_probability() {
        let mut draws = Draws::new(2, 1_000);
        let row = [0.0_f64, 1.0];
        let mut explored = 0;
        for number in 0..1_000 {
            draws.fill(number);
            let pairs = draws.explore[..1_000].iter().zip(&draws.pick);
            let choices = pairs.map(|(a, b)| choose(&row, 3, words_below(0.2), [*a, *b], Ties::First));
            explored += choices.filter(|choice| *choice == Some(0)).count();
        }
        // Half of the explorations; the standard deviation is 300.
        assert!((explored as i64 - 100_000).abs() < 1_200, "{explored}");
    }

    #[test]
    fn ties_go_to_the_first_when_judged() {
        let first = |row: &[f32], legal| choose(row, legal, 0, [0, u32::MAX], Ties::First);
        assert_eq!(first(&[1.0, 2.0, 2.0], 0b111), Some(1));
        assert_eq!(first(&[1.0, 2.0, 2.0], 0b101), Some(2));
        assert_eq!(first(&[-1.0, -2.0, 0.0], 0b011), Some(0));
        assert_eq!(first(&[f32::NAN; 3], 0b110), Some(1));
        assert_eq!(first(&[1.0; 3], 0), None);
        let many: Vec<f32> = (0..40).map(|a| if a % 13 == 12 { 1.0 } else { 0.0 }).collect();
        assert_eq!(first(&many, u32::MAX), Some(12));
        let random = |word| choose(&many, u32::MAX, 0, [0, word], Ties::Random);
        assert_eq!([0, 1 << 31, u32::MAX].map(random), [Some(12), Some(25), Some(38)]);
    }

    #[test]
    fn draws_depend_on_their_place_only() {
        let (mut one, mut other) = (Draws::new(5, 100), Draws::new(5, 100));
        one.fill(7);
        for number in [0, 9, 7] {
            other.fill(number);
        }
        assert_eq!((&one.explore, &one.pick), (&other.explore, &other.pick));
        other.fill(8);
        assert_ne!(one.explore, other.explore);
        let mut stranger = Draws::new(6, 100);
        stranger.fill(7);
        assert_ne!(one.explore, stranger.explore);
    }
}
