//! One choice among several, by logits: probabilities, draws, and gradients of what losses are made of.

use super::Scalar;

/// Turns a row of logits into logarithms of probabilities. Choices that are not legal get minus infinity, whatever
/// their logit.
///
/// # Panics
///
/// If no choice is legal.
pub fn log_probabilities<T: Scalar>(logits: &mut [T], is_legal: impl Fn(usize) -> bool) {
    let mut largest = T::neg_infinity();
    for (i, logit) in logits.iter_mut().enumerate() {
        if !is_legal(i) {
            *logit = T::neg_infinity();
        } else if *logit > largest || logit.is_nan() {
            // What is no number stays, and shows.
            largest = *logit;
        }
    }
    assert!(largest != T::neg_infinity(), "some choice is legal");
    let sum = logits.iter().map(|logit| (*logit - largest).exp()).sum::<T>();
    let shift = largest + sum.ln();
    logits.iter_mut().for_each(|logit| *logit -= shift);
}

/// The choice that a number from [0, 1) draws; never one of probability 0.
pub fn draw<T: Scalar>(log_probabilities: &[T], unit: T) -> usize {
    let mut left = unit;
    let mut chosen = 0;
    for (i, log_p) in log_probabilities.iter().enumerate() {
        let p = log_p.exp();
        if p > T::zero() {
            chosen = i;
            left -= p;
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
pub fn entropy<T: Scalar>(log_probabilities: &[T]) -> T {
    -log_probabilities.iter().map(|log_p| weighted(*log_p)).sum::<T>()
}

/// Writes the gradient with respect to the logits of
/// `by_choice * ln p(choice) + by_entropy * entropy`; answers the entropy.
pub fn gradient<T: Scalar>(log_probabilities: &[T], choice: usize, by_choice: T, by_entropy: T, out: &mut [T]) -> T {
    // Each exponential is taken once: probabilities wait in `out`.
    let mut entropy = T::zero();
    for (out, log_p) in out.iter_mut().zip(log_probabilities) {
        *out = log_p.exp();
        entropy -= if *out == T::zero() { T::zero() } else { *out * *log_p };
    }
    for (i, (out, log_p)) in out.iter_mut().zip(log_probabilities).enumerate() {
        let p = *out;
        let chosen = if i == choice { T::one() } else { T::zero() };
        let surprise = if p == T::zero() { T::zero() } else { p * (*log_p + entropy) };
        *out = by_choice * (chosen - p) - by_entropy * surprise;
    }
    entropy
}

/// `p ln p`, which is 0 where p is.
fn weighted<T: Scalar>(log_p: T) -> T {
    let p = log_p.exp();
    if p == T::zero() { T::zero() } else { p * log_p }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    const LOGITS: [f64; 4] = [0.3, -1.2, 2.0, 0.1];

    fn logs(logits: &[f64], legal: [bool; 4]) -> Vec<f64> {
        let mut logs = logits.to_vec();
        log_probabilities(&mut logs, |i| legal[i]);
        logs
    }

    #[test]
    fn probabilities_of_legal_choices_sum_to_one() {
        for legal in [[true; 4], [true, false, true, false], [false, false, false, true]] {
            for shift in [0.0, 1e4, -1e4] {
                let p: Vec<f64> = logs(&LOGITS.map(|x| x + shift), legal).iter().map(|log| log.exp()).collect();
                assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                assert!(p.iter().zip(legal).all(|(p, legal)| (*p > 0.0) == legal), "{p:?}");
            }
        }
        assert!(logs(&[f64::NAN, 0.0, 0.0, 0.0], [true; 4]).iter().all(|log| log.is_nan()), "it shows");
        assert!(logs(&[0.0, f64::NAN, 0.0, 0.0], [true; 4]).iter().all(|log| log.is_nan()), "wherever it is");
    }

    #[test]
    #[should_panic(expected = "some choice is legal")]
    fn something_must_be_legal() {
        log_probabilities(&mut [0.0, 1.0], |_| false);
    }

    #[test]
    fn draws_have_their_probabilities() {
        let logs = logs(&LOGITS, [true, true, false, true]);
        let mut random = Random::new(9, Purpose::Exploration);
        let n = 100_000;
        let mut counts = [0.0; 4];
        (0..n).for_each(|_| counts[draw(&logs, random.unit())] += 1.0);
        for (count, log) in counts.iter().zip(&logs) {
            let p = log.exp();
            assert!((count / f64::from(n) - p).abs() <= 4.0 * (p * (1.0 - p) / f64::from(n)).sqrt(), "{counts:?}");
        }
        assert_eq!(draw(&logs, 1.0 - 1e-16), 3, "rounding leads to no illegal choice");
        assert_eq!(mode(&logs), 0);
        assert_eq!(mode(&[-1.0, -0.5, -0.5]), 1, "the first of equals");
    }

    #[test]
    fn entropies_are_known() {
        assert!((entropy(&logs(&[1.0; 4], [true; 4])) - 4_f64.ln()).abs() < 1e-12);
        assert!((entropy(&logs(&[1.0; 4], [true, true, false, false])) - 2_f64.ln()).abs() < 1e-12);
        assert_eq!(entropy(&logs(&[1.0; 4], [true, false, false, false])), 0.0);
    }

    #[test]
    fn gradients_are_limits_of_differences() {
        for legal in [[true; 4], [true, false, true, true]] {
            let value = |logits: &[f64]| {
                let logs = logs(logits, legal);
                0.7 * logs[2] - 0.3 * entropy(&logs)
            };
            let mut found = [f64::NAN; 4];
            gradient(&logs(&LOGITS, legal), 2, 0.7, -0.3, &mut found);
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
