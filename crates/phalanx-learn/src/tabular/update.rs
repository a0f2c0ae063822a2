//! The update rule, for single transitions and for batches of them.
//!
//! v = 0 where the episode terminated, else the value of the next state; Q(s, a) += rate · (r + γ v − Q(s, a)).
//! Truncation does not cut the future: the next state is then the last one of the episode.

use phalanx_core::apart;

use super::explore::{all_legal, best_legal, max_legal};
use super::table::{Store, Value};
use crate::run::settings::choice;

choice! {
    /// Which value the next state has.
    Algorithm {
        /// That of its best action.
        QLearning = "q_learning",
        /// That of the action taken next.
        Sarsa = "sarsa",
        /// The mean over the actions that the ε-greedy policy may take next.
        ExpectedSarsa = "expected_sarsa",
        /// That which a second table gives to the first one's best action; a coin decides which is which.
        DoubleQ = "double_q",
    }
}

impl Algorithm {
    /// Tables that share a row.
    pub fn tables(self) -> usize {
        if self == Self::DoubleQ { 2 } else { 1 }
    }
}

choice! {
    /// What later transitions of a batch see of earlier ones.
    BatchUpdate {
        /// Everything: they are applied one after the other.
        Sequential = "sequential",
        /// Nothing; the mean error of each state and action is applied once.
        UniqueMean = "unique_mean",
        /// Nothing; all errors are applied, so that duplicates multiply the rate. For comparison.
        Accumulate = "accumulate",
        /// Nothing; the last error of each state and action is applied. For comparison.
        LastWins = "last_wins",
    }
}

/// A step of one agent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transition {
    /// Where it was.
    pub state: u32,
    /// What it did.
    pub action: u32,
    /// What it got.
    pub reward: f32,
    /// Where it came to; of a truncated episode the last state.
    pub next_state: u32,
    /// What is legal there, a bit each; 0 if there is no future.
    pub next_legal: u32,
    /// What it does there, if that is decided; only [`Algorithm::Sarsa`] asks.
    pub next_action: Option<u32>,
    /// Which of two tables learns; only [`Algorithm::DoubleQ`] asks.
    pub second: bool,
}

impl Transition {
    /// A step to a state where all of `actions` actions are legal.
    pub fn to(state: u32, action: u32, reward: f32, next_state: u32, actions: usize) -> Self {
        Self { state, action, reward, next_state, next_legal: all_legal(actions), ..Self::default() }
    }

    /// A step that terminates the episode.
    pub fn end(state: u32, action: u32, reward: f32) -> Self {
        Self { state, action, reward, ..Self::default() }
    }
}

/// How far a value moves towards its target.
#[derive(Clone, Copy, Debug)]
pub enum Rate {
    /// By this fraction.
    Fixed(f64),
    /// By N^-power on its N-th update.
    Visits {
        /// The power.
        power: f64,
    },
}

/// An error to be applied to a value: its place, its rank in the batch, and how wrong it was.
type Correction<T> = (u32, u32, u32, T);

/// The rule, with the memory it needs.
#[derive(Clone, Debug)]
pub struct Updater<T> {
    algorithm: Algorithm,
    batch: BatchUpdate,
    gamma: T,
    scratch: Vec<T>,
    corrections: Vec<Correction<T>>,
    /// The last target or error that was no finite number.
    fault: Option<T>,
}

impl<T: Value> Updater<T> {
    /// The rule for `actions` actions. A negative γ is for two players who take turns: what the other expects is
    /// what this one loses.
    pub fn new(algorithm: Algorithm, batch: BatchUpdate, gamma: f64, actions: usize) -> Self {
        let scratch = apart::filled(T::zero(), actions * algorithm.tables());
        Self { algorithm, batch, gamma: T::of(gamma), scratch, corrections: Vec::new(), fault: None }
    }

    /// The last target or error that was no finite number, once: whatever it was added to is none either.
    pub fn take_fault(&mut self) -> Option<T> {
        self.fault.take()
    }

    #[inline(always)]
    fn check(&mut self, number: T) {
        if !number.is_finite() {
            self.fault = Some(number);
        }
    }

    /// Learns from transitions; `visits` counts the updates of each value and is needed for [`Rate::Visits`].
    pub fn apply<S: Store<T>>(
        &mut self,
        store: &mut S,
        mut visits: Option<&mut S>,
        transitions: &[Transition],
        rate: Rate,
        epsilon: f64,
    ) {
        let epsilon = T::of(epsilon);
        if self.batch == BatchUpdate::Sequential {
            let fixed = if let Rate::Fixed(rate) = rate { T::of(rate) } else { T::zero() };
            for transition in transitions {
                let target = self.target(store, transition, epsilon);
                self.check(target);
                let (state, cell) = self.place(transition);
                let rate = match (rate, visits.as_deref_mut()) {
                    (Rate::Visits { power }, Some(visits)) => by_visits(visits, state, cell, power, &mut self.scratch),
                    _ => fixed,
                };
                store.update(state, cell, |value| value + rate * (target - value));
            }
            return;
        }
        self.corrections.clear();
        for (rank, transition) in transitions.iter().enumerate() {
            let target = self.target(store, transition, epsilon);
            let (state, cell) = self.place(transition);
            let value = store.row(state, &mut self.scratch)[cell];
            self.check(target - value);
            self.corrections.push((state as u32, cell as u32, rank as u32, target - value));
        }
        apart::make_room(&mut self.corrections);
        // By place, then by rank, so that sums do not depend on how the sort works.
        self.corrections.sort_unstable_by_key(|(state, cell, rank, _)| (*state, *cell, *rank));
        for same in self.corrections.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (state, cell, _, last) = same[same.len() - 1];
            let (state, cell) = (state as usize, cell as usize);
            let sum: T = same.iter().map(|(.., error)| *error).sum();
            let error = match self.batch {
                BatchUpdate::UniqueMean => sum / T::of(same.len() as f64),
                BatchUpdate::LastWins => last,
                BatchUpdate::Accumulate | BatchUpdate::Sequential => sum,
            };
            let rate = match (rate, visits.as_deref_mut()) {
                (Rate::Visits { power }, Some(visits)) => by_visits(visits, state, cell, power, &mut self.scratch),
                (Rate::Fixed(rate), _) => T::of(rate),
                (Rate::Visits { .. }, None) => T::zero(),
            };
            store.update(state, cell, |value| value + rate * error);
        }
    }

    /// The value that a transition speaks for.
    #[inline(always)]
    fn target<S: Store<T>>(&mut self, store: &S, transition: &Transition, epsilon: T) -> T {
        let reward = T::of(f64::from(transition.reward));
        let legal = transition.next_legal;
        if legal == 0 && self.algorithm != Algorithm::QLearning {
            return reward;
        }
        let row = store.row(transition.next_state as usize, &mut self.scratch);
        let future = match self.algorithm {
            // Ends come as a surprise to the processor too, so the maximum is found whether there is a future or not.
            Algorithm::QLearning => {
                let max = max_legal(row, legal);
                if legal == 0 { T::zero() } else { max }
            }
            Algorithm::Sarsa => match transition.next_action {
                Some(action) => row[action as usize],
                // A truncated episode has no next action; the mean over all that it might be is as right.
                None => expected(row, legal, epsilon),
            },
            Algorithm::ExpectedSarsa => expected(row, legal, epsilon),
            Algorithm::DoubleQ => {
                let (first, second) = row.split_at(row.len() / 2);
                let (own, other) = if transition.second { (second, first) } else { (first, second) };
                other[best_legal(own, legal).trailing_zeros() as usize]
            }
        };
        reward + self.gamma * future
    }

    /// The state, and the value of its row, that a transition changes.
    #[inline(always)]
    fn place(&self, transition: &Transition) -> (usize, usize) {
        let second = if transition.second && self.algorithm == Algorithm::DoubleQ { self.scratch.len() / 2 } else { 0 };
        (transition.state as usize, transition.action as usize + second)
    }
}

/// The mean of what an ε-greedy policy gets.
fn expected<T: Value>(row: &[T], legal: u32, epsilon: T) -> T {
    let is_legal = |action: usize| row.len() > 32 || legal >> action & 1 == 1;
    let (mut sum, mut count) = (T::zero(), T::zero());
    for (_, value) in row.iter().enumerate().filter(|(action, _)| is_legal(*action)) {
        sum += *value;
        count += T::one();
    }
    let best = max_legal(row, legal);
    best + epsilon * (sum / count - best)
}

/// Counts an update and gives its rate. Counts are exact up to the mantissa's size and stay there.
fn by_visits<T: Value, S: Store<T>>(visits: &mut S, state: usize, cell: usize, power: f64, scratch: &mut [T]) -> T {
    visits.update(state, cell, |count| count + T::one());
    let count = visits.row(state, scratch)[cell].to_f64().expect("every count is a f64");
    T::of(libm::pow(count, -power))
}

/// Learns in portions: transitions wait until there are enough of them, and are then applied in order.
#[derive(Clone, Debug)]
pub struct Buffered<T> {
    updater: Updater<T>,
    waiting: Vec<Transition>,
    size: usize,
}

impl<T: Value> Buffered<T> {
    /// Portions of the usual size.
    pub const SIZE: usize = 32;

    /// Applies `size` transitions at a time.
    pub fn new(updater: Updater<T>, size: usize) -> Self {
        Self { updater, waiting: Vec::with_capacity(size), size }
    }

    /// Takes a transition, and learns if there are enough.
    pub fn push<S: Store<T>>(&mut self, store: &mut S, transition: Transition, rate: f64, epsilon: f64) {
        self.waiting.push(transition);
        if self.waiting.len() >= self.size {
            self.flush(store, rate, epsilon);
        }
    }

    /// Learns from what waits.
    pub fn flush<S: Store<T>>(&mut self, store: &mut S, rate: f64, epsilon: f64) {
        self.updater.apply(store, None, &self.waiting, Rate::Fixed(rate), epsilon);
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{Dense, Sparse, Table};
    use super::*;

    fn learnt(batch: BatchUpdate, gamma: f64, rate: f64, transitions: &[Transition]) -> Dense<f64> {
        let mut table = Dense::new(4, 2);
        Updater::new(Algorithm::QLearning, batch, gamma, 2).apply(
            &mut table,
            None,
            transitions,
            Rate::Fixed(rate),
            0.0,
        );
        table
    }

    #[test]
    fn duplicates_in_a_batch() {
        let copies = [Transition::end(2, 1, 1.0); 64];
        let value = |batch| learnt(batch, 0.9, 0.5, &copies).get(2, 1);
        assert_eq!(value(BatchUpdate::Sequential), 1.0 - 0.5_f64.powi(64));
        assert_eq!(value(BatchUpdate::UniqueMean), 0.5);
        assert_eq!(value(BatchUpdate::Accumulate), 32.0);
        assert_eq!(value(BatchUpdate::LastWins), 0.5);
    }

    #[test]
    fn a_chain_is_learnt_backwards() {
        let chain = [Transition::to(0, 0, 0.0, 1, 2), Transition::end(1, 0, 1.0), Transition::to(0, 0, 0.0, 1, 2)];
        let before = learnt(BatchUpdate::Sequential, 0.9, 0.5, &chain[..2]);
        assert_eq!((before.get(0, 0), before.get(1, 0)), (0.0, 0.5));
        let after = learnt(BatchUpdate::Sequential, 0.9, 0.5, &chain);
        assert_eq!((after.get(0, 0), after.get(1, 0)), (0.5 * (0.9 * 0.5), 0.5));
        // With the old table nothing of the end has reached the start.
        assert_eq!(learnt(BatchUpdate::UniqueMean, 0.9, 0.5, &chain).get(0, 0), 0.0);
    }

    #[test]
    fn a_bandit_has_the_published_values() {
        let mut values = Vec::new();
        for gamma in [1.0, 0.9] {
            let mut table = Dense::<f64>::new(1, 2);
            let mut updater = Updater::new(Algorithm::QLearning, BatchUpdate::Sequential, gamma, 2);
            for pull in 0..5 {
                let last = pull == 4;
                let step = if last { Transition::end(0, 1, 1.0) } else { Transition::to(0, 1, 1.0, 0, 2) };
                updater.apply(&mut table, None, &[step], Rate::Fixed(1.0), 0.0);
                values.push(table.get(0, 1));
            }
        }
        let expected = [1.0, 2.0, 3.0, 4.0, 1.0, 1.0, 1.9, 2.71, 3.439, 1.0];
        assert!(values.iter().zip(expected).all(|(value, expected)| (value - expected).abs() < 1e-12), "{values:?}");
        assert_eq!((values[4], values[9]), (1.0, 1.0));
    }

    #[test]
    fn the_future_is_that_of_the_algorithm() {
        // The next state's values are 1, 3, -2 and an illegal 9.
        let future = |algorithm: Algorithm, next_action, epsilon| {
            let mut table = Dense::<f64>::new(2, 4 * algorithm.tables());
            table.row_mut(1)[..4].copy_from_slice(&[1.0, 3.0, -2.0, 9.0]);
            if algorithm == Algorithm::DoubleQ {
                table.row_mut(1)[4..].copy_from_slice(&[5.0, 4.0, 6.0, 7.0]);
            }
            let step = Transition { next_state: 1, next_legal: 0b0111, next_action, ..Transition::default() };
            let mut updater = Updater::new(algorithm, BatchUpdate::Sequential, 1.0, 4);
            updater.apply(&mut table, None, &[step], Rate::Fixed(1.0), epsilon);
            let second = Transition { second: true, ..step };
            updater.apply(&mut table, None, &[second], Rate::Fixed(1.0), epsilon);
            (table.get(0, 0), if algorithm == Algorithm::DoubleQ { table.get(0, 4) } else { f64::NAN })
        };
        assert_eq!(future(Algorithm::QLearning, None, 0.5).0, 3.0);
        assert_eq!(future(Algorithm::Sarsa, Some(2), 0.5).0, -2.0);
        let mean = 2.0 / 3.0;
        assert!((future(Algorithm::ExpectedSarsa, None, 0.3).0 - (0.7 * 3.0 + 0.3 * mean)).abs() < 1e-12);
        assert!((future(Algorithm::Sarsa, None, 0.3).0 - (0.7 * 3.0 + 0.3 * mean)).abs() < 1e-12);
        // The first table's best action is 1, to which the second gives 4; the second's is 2, worth -2 to the first.
        assert_eq!(future(Algorithm::DoubleQ, None, 0.0), (4.0, -2.0));
    }

    #[test]
    fn rates_by_visits_fall_with_every_update() {
        let (mut table, mut visits) = (Sparse::<f64>::new(3, 2), Sparse::new(3, 2));
        let mut updater = Updater::new(Algorithm::QLearning, BatchUpdate::Sequential, 1.0, 2);
        let rewards = [1.0, 0.0, 1.0, 1.0];
        // With power 1 a value is the mean of its targets.
        for (n, reward) in rewards.into_iter().enumerate() {
            let step = [Transition::end(1, 1, reward)];
            updater.apply(&mut table, Some(&mut visits), &step, Rate::Visits { power: 1.0 }, 0.0);
            let mean = rewards[..=n].iter().map(|r| f64::from(*r)).sum::<f64>() / (n + 1) as f64;
            assert!((table.get(1, 1) - mean).abs() < 1e-12);
        }
        assert_eq!((visits.get(1, 1), visits.get(1, 0)), (4.0, 0.0));
    }

    #[test]
    fn a_buffer_is_sequential_with_a_delay() {
        let chain: Vec<_> = (0..100).map(|n| Transition::to(n % 4, n % 2, n as f32, (n + 1) % 4, 2)).collect();
        let updater = Updater::new(Algorithm::QLearning, BatchUpdate::Sequential, 0.9, 2);
        let (mut delayed, mut buffered) = (Dense::<f64>::new(4, 2), Buffered::new(updater, Buffered::<f64>::SIZE));
        for (n, step) in chain.iter().enumerate() {
            buffered.push(&mut delayed, *step, 0.5, 0.0);
            assert_eq!(delayed, learnt(BatchUpdate::Sequential, 0.9, 0.5, &chain[..(n + 1) / 32 * 32]));
        }
        buffered.flush(&mut delayed, 0.5, 0.0);
        assert_eq!(delayed, learnt(BatchUpdate::Sequential, 0.9, 0.5, &chain));
    }
}
