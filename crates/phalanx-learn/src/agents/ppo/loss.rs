//! The loss of one transition, and its slopes.

use crate::nn::Scalar;

/// What all rows of a minibatch share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coefficients<T> {
    /// Taken off the advantages.
    pub(super) mean: T,
    /// Then they are multiplied by this.
    pub(super) per_spread: T,
    /// How far the ratio of probabilities may be from 1 for a gain to count.
    pub(super) clip: T,
    /// Whether values, too, count only near the old ones.
    pub(super) clip_values: bool,
    /// Weight of the entropy.
    pub(super) entropy: T,
    /// Weight of the value loss.
    pub(super) value: T,
    /// The part of one row in the mean.
    pub(super) per_row: T,
}

/// Mean of advantages, and the reciprocal of their spread.
pub(super) fn normaliser(advantages: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = advantages.clone().count() as f64;
    let mean = advantages.clone().sum::<f64>() / count;
    let squares = advantages.map(|x| (x - mean) * (x - mean)).sum::<f64>();
    // The unbiased spread; a single row has none.
    let spread = (squares / (count - 1.0).max(1.0)).sqrt();
    (mean, (spread + 1e-8).recip())
}

/// The clipped objective of a transition.
#[derive(Clone, Copy, Debug)]
pub struct Objective<T> {
    /// To be made small.
    pub loss: T,
    /// Its slope, by the logarithm of the action's probability.
    pub by_log_prob: T,
}

/// `max(-A ratio, -A clip(ratio))`: a gain counts only as long as the new policy is near the old one. `ratio` is the
/// probability of the action by that of the policy which has chosen it.
pub fn clipped_objective<T: Scalar>(ratio: T, advantage: T, clip: T) -> Objective<T> {
    let free = -advantage * ratio;
    let clipped = -advantage * ratio.max(T::one() - clip).min(T::one() + clip);
    // Written so that what is no number goes through.
    let (loss, by_log_prob) = if clipped > free { (clipped, T::zero()) } else { (free, free) };
    Objective { loss, by_log_prob }
}

/// Half the squared error of a value and its slope. With `clip`, the error after a move of at most that far from the
/// old value counts where it is larger.
pub fn value_loss<T: Scalar>(value: T, old: T, target: T, clip: Option<T>) -> (T, T) {
    let half = T::of(0.5);
    let error = value - target;
    let free = (half * error * error, error);
    let Some(clip) = clip else { return free };
    let moved = old + (value - old).max(-clip).min(clip) - target;
    let clipped = half * moved * moved;
    // Where nothing was cut off both are the same, slopes included.
    if clipped > free.0 && (value - old).abs() > clip { (clipped, T::zero()) } else { free }
}

/// Sums over rows of what is reported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) policy: f64,
    pub(super) value: f64,
    pub(super) entropy: f64,
    pub(super) old_kl: f64,
    pub(super) kl: f64,
    pub(super) clipped: f64,
}

impl Sums {
    pub(super) fn add(&mut self, other: &Self) {
        self.policy += other.policy;
        self.value += other.value;
        self.entropy += other.entropy;
        self.old_kl += other.old_kl;
        self.kl += other.kl;
        self.clipped += other.clipped;
    }

    /// Means, for metrics.
    pub(super) fn per(&self, rows: f64) -> Self {
        Self {
            policy: self.policy / rows,
            value: self.value / rows,
            entropy: self.entropy / rows,
            old_kl: self.old_kl / rows,
            kl: self.kl / rows,
            clipped: self.clipped / rows,
        }
    }
}

/// `1 - Var(returns - values) / Var(returns)`, which is no number if the returns do not vary.
pub(super) fn explained_variance(values: &[f32], returns: &[f32]) -> f64 {
    let variance = |of: &dyn Fn(usize) -> f64| {
        let count = returns.len() as f64;
        let mean = (0..returns.len()).map(of).sum::<f64>() / count;
        (0..returns.len()).map(|i| (of(i) - mean).powi(2)).sum::<f64>() / count
    };
    let total = variance(&|i| f64::from(returns[i]));
    let left = variance(&|i| f64::from(returns[i]) - f64::from(values[i]));
    if total == 0.0 { f64::NAN } else { 1.0 - left / total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found} instead of {expected}");
    }

    #[test]
    fn gains_are_clipped_and_losses_are_not() {
        for (ratio, advantage, loss, slope) in [
            (1.5_f64, 1.0, -1.2, 0.0),
            (1.5, -1.0, 1.5, 1.5),
            (0.5, 1.0, -0.5, -0.5),
            (0.5, -1.0, 0.8, 0.0),
            (1.1, 1.0, -1.1, -1.1),
        ] {
            let found = clipped_objective(ratio, advantage, 0.2);
            near(found.loss, loss);
            near(found.by_log_prob, slope);
        }
        assert!(clipped_objective(f64::NAN, 1.0, 0.2).loss.is_nan());
    }

    #[test]
    fn values_move_by_no_more_than_the_clip() {
        assert_eq!(value_loss(2.0, 1.0, 3.0, None), (0.5, -1.0));
        let (loss, slope) = value_loss(2.0, 1.0, 3.0, Some(0.2));
        near(loss, 1.62);
        assert_eq!(slope, 0.0);
        assert_eq!(value_loss(1.1, 1.0, 3.0, Some(0.2)), value_loss(1.1, 1.0, 3.0, None));
        assert_eq!(value_loss(2.0, 1.0, 0.0, Some(0.2)), (2.0, 2.0), "the larger error counts");
        assert!(value_loss(f64::NAN, 1.0, 3.0, Some(0.2)).0.is_nan());
    }

    #[test]
    fn advantages_have_mean_zero_and_unbiased_spread_one() {
        let advantages = [1.0, 2.0, 3.0, 4.0];
        let (mean, factor) = normaliser(advantages.into_iter());
        for (advantage, expected) in advantages.into_iter().zip([-1.161_895, -0.387_298, 0.387_298, 1.161_895]) {
            near((advantage - mean) * factor, expected);
        }
        assert_eq!(normaliser([7.0].into_iter()).0, 7.0);
    }

    #[test]
    fn what_values_explain_of_returns() {
        assert_eq!(explained_variance(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), 1.0);
        assert_eq!(explained_variance(&[2.0; 3], &[1.0, 2.0, 3.0]), 0.0);
        assert!(explained_variance(&[1.0, 2.0], &[5.0, 5.0]).is_nan());
    }
}
