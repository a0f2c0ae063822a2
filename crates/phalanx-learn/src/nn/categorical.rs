//! One choice among several, by logits: probabilities, draws, and gradients of what losses are made of.
//!
//! Rows are taken together, so that exponentials and logarithms are computed in lanes.

use super::Scalar;
use super::scalar::{exp_all, log_all};

/// Turns rows of logits into logarithms of probabilities, and writes the probabilities. Choices that are not legal get
/// minus infinity and 0, whatever their logit; `is_legal` is asked by row and choice.
///
/// # Panics
///
/// If no choice of a row is legal.
pub fn probabilities<T: Scalar>(
    logits: &mut [T],
    choices: usize,
    is_legal: impl Fn(usize, usize) -> bool,
    probabilities: &mut [T],
) {
    for (i, row) in logits.chunks_exact_mut(choices).enumerate() {
        let (mut largest, mut any_legal) = (T::neg_infinity(), false);
        for (k, logit) in row.iter_mut().enumerate() {
            let legal = is_legal(i, k);
            any_legal |= legal;
            *logit = if legal { *logit } else { T::neg_infinity() };
            // Which is larger cannot be predicted, so there is no branch. What is no number shows in the sum.
            largest = largest.max(*logit);
        }
        assert!(any_legal, "some choice is legal");
        row.iter_mut().for_each(|logit| *logit -= largest);
    }
    probabilities.copy_from_slice(logits);
    exp_all(probabilities);
    // Some rows at a time, whose sums stay in registers.
    let mut sums = [T::one(); ROWS];
    for (logits, probabilities) in logits.chunks_mut(ROWS * choices).zip(probabilities.chunks_mut(ROWS * choices)) {
        for (sum, row) in sums.iter_mut().zip(probabilities.chunks_exact_mut(choices)) {
            *sum = row.iter().copied().sum();
            let per_sum = sum.recip();
            row.iter_mut().for_each(|p| *p *= per_sum);
        }
        log_all(&mut sums);
        for (row, log_sum) in logits.chunks_exact_mut(choices).zip(sums) {
            row.iter_mut().for_each(|logit| *logit -= log_sum);
        }
    }
}

/// Rows whose sums are taken together.
const ROWS: usize = 16;

/// The choice that a number from [0, 1) draws; never one of probability 0.
pub fn draw<T: Scalar>(probabilities: &[T], unit: T) -> usize {
    let mut left = unit;
    let mut chosen = 0;
    for (i, p) in probabilities.iter().enumerate() {
        if *p > T::zero() {
            chosen = i;
            left -= *p;
        }
        if left < T::zero() {
            break;
        }
    }
    chosen
}

/// The most probable choice, the first of equals.
pub fn mode<T: Scalar>(log_probabilities: &[T]) -> usize {
    let mut best = 0;
    for (i, log_p) in log_probabilities.iter().enumerate() {
        if *log_p > log_probabilities[best] {
            best = i;
        }
    }
    best
}

/// The entropy in nats.
pub fn entropy<T: Scalar>(log_probabilities: &[T], probabilities: &[T]) -> T {
    -log_probabilities.iter().zip(probabilities).map(|(log_p, p)| weighted(*p, *log_p)).sum::<T>()
}

/// Writes the gradient with respect to the logits of
/// `by_choice * ln p(choice) + by_entropy * entropy`; answers the entropy.
pub fn gradient<T: Scalar>(
    log_probabilities: &[T],
    probabilities: &[T],
    choice: usize,
    by_choice: T,
    by_entropy: T,
    out: &mut [T],
) -> T {
    let entropy = entropy(log_probabilities, probabilities);
    let rows = out.iter_mut().zip(log_probabilities.iter().zip(probabilities));
    for (i, (out, (log_p, p))) in rows.enumerate() {
        let chosen = if i == choice { T::one() } else { T::zero() };
        *out = by_choice * (chosen - *p) - by_entropy * weighted(*p, *log_p + entropy);
    }
    entropy
}

/// `p x`, which is 0 where p is.
fn weighted<T: Scalar>(p: T, x: T) -> T {
    if p == T::zero() { T::zero() } else { p * x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    const LOGITS: [f64; 4] = [0.3, -1.2, 2.0, 0.1];

    /// Logarithms of probabilities, and probabilities.
    fn both(logits: &[f64], legal: [bool; 4]) -> [Vec<f64>; 2] {
        let (mut logs, mut p) = (logits.to_vec(), vec![f64::NAN; logits.len()]);
        probabilities(&mut logs, 4, |_, i| legal[i], &mut p);
        [logs, p]
    }

    fn logs(logits: &[f64], legal: [bool; 4]) -> Vec<f64> {
        let [logs, _] = both(logits, legal);
        logs
    }

    /// More rows than are taken together, in both precisions: each is as if it were alone.
    fn rows_do_not_mix<T: Scalar>() {
        let mut random = Random::new(3, Purpose::Exploration);
        let logits: Vec<T> = (0..37 * 3).map(|_| T::of(4.0 * random.normal())).collect();
        let legal = |row: usize, k: usize| k == row % 3 || !(row + k).is_multiple_of(4);
        let (mut logs, mut all) = (logits.clone(), vec![T::zero(); logits.len()]);
        probabilities(&mut logs, 3, legal, &mut all);
        for (row, logits) in logits.chunks_exact(3).enumerate() {
            let (mut alone, mut p) = (logits.to_vec(), vec![T::zero(); 3]);
            probabilities(&mut alone, 3, |_, k| legal(row, k), &mut p);
            assert_eq!((&logs[row * 3..][..3], &all[row * 3..][..3]), (&alone[..], &p[..]));
            assert!((0..3).all(|k| legal(row, k) == (p[k] > T::zero())), "what is illegal is never drawn: {p:?}");
        }
    }

    #[test]
    fn rows_are_as_if_alone() {
        rows_do_not_mix::<f32>();
        rows_do_not_mix::<f64>();
    }

    #[test]
    fn probabilities_of_legal_choices_sum_to_one() {
        for legal in [[true; 4], [true, false, true, false], [false, false, false, true]] {
            for shift in [0.0, 1e4, -1e4] {
                let [logs, p] = both(&LOGITS.map(|x| x + shift), legal);
                assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                assert!(logs.iter().zip(&p).all(|(log, p)| (log.exp() - p).abs() < 1e-12));
                assert!(p.iter().zip(legal).all(|(p, legal)| (*p > 0.0) == legal), "{p:?}");
            }
        }
        assert!(logs(&[f64::NAN, 0.0, 0.0, 0.0], [true; 4]).iter().all(|log| log.is_nan()), "it shows");
        assert!(logs(&[0.0, f64::NAN, 0.0, 0.0], [true; 4]).iter().all(|log| log.is_nan()), "wherever it is");
    }

    #[test]
    #[should_panic(expected = "some choice is legal")]
    fn something_must_be_legal() {
        probabilities(&mut [0.0, 1.0], 2, |_, _| false, &mut [0.0; 2]);
    }

    #[test]
    fn draws_have_their_probabilities() {
        let [logs, p] = both(&LOGITS, [true, true, false, true]);
        let mut random = Random::new(9, Purpose::Exploration);
        let n = 100_000;
        let mut counts = [0.0; 4];
        (0..n).for_each(|_| counts[draw(&p, random.unit())] += 1.0);
        for (count, p) in counts.iter().zip(&p) {
            assert!((count / f64::from(n) - p).abs() <= 4.0 * (p * (1.0 - p) / f64::from(n)).sqrt(), "{counts:?}");
        }
        assert_eq!(draw(&p, 1.0 - 1e-16), 3, "rounding leads to no illegal choice");
        assert_eq!(mode(&logs), 0);
        assert_eq!(mode(&[-1.0, -0.5, -0.5]), 1, "the first of equals");
    }

    #[test]
    fn entropies_are_known() {
        let of = |legal: [bool; 4]| {
            let [logs, p] = both(&[1.0; 4], legal);
            entropy(&logs, &p)
        };
        assert!((of([true; 4]) - 4_f64.ln()).abs() < 1e-12);
        assert!((of([true, true, false, false]) - 2_f64.ln()).abs() < 1e-12);
        assert_eq!(of([true, false, false, false]), 0.0);
    }

    #[test]
    fn gradients_are_limits_of_differences() {
        for legal in [[true; 4], [true, false, true, true]] {
            let value = |logits: &[f64]| {
                let [logs, p] = both(logits, legal);
                0.7 * logs[2] - 0.3 * entropy(&logs, &p)
            };
            let mut found = [f64::NAN; 4];
            let [logs, p] = both(&LOGITS, legal);
            gradient(&logs, &p, 2, 0.7, -0.3, &mut found);
            for i in 0..4 {
                let at = |change: f64| {
                    let mut moved = LOGITS;
                    moved[i] += change;
                    value(&moved)
                };
                let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((difference - found[i]).abs() < 1e-8, "{i}: {} and {difference}", found[i]);
            }
        }
    }
}
