//! Continuous actions: independent normal numbers, with standard deviations that do not depend on the state.
//!
//! An action is what was drawn. Where a space has bounds, the environment is sent the nearest action inside of them
//! ([`clipped`]), and the probability stays that of what was drawn; or what was drawn is squashed into them by a
//! hyperbolic tangent ([`squashed`]). What that takes off the logarithm of the density depends on nothing but the action,
//! so that it is the same before and after an update and drops out of the ratio of PPO. It does not drop out of the
//! entropy: the bonus of PPO is that of the normal numbers before they are squashed or clipped, as usual, and goes on
//! growing with the deviation where that of the squashed actions falls.

use super::Scalar;

/// The logarithm of the density of an action.
pub fn log_density<T: Scalar>(action: &[T], means: &[T], log_deviations: &[T]) -> T {
    let half_log_tau = T::of(0.5 * std::f64::consts::TAU.ln());
    let parts = action.iter().zip(means).zip(log_deviations).map(|((action, mean), log_deviation)| {
        let distance = (*action - *mean) * (-*log_deviation).natural_exp();
        -T::of(0.5) * distance * distance - *log_deviation - half_log_tau
    });
    parts.sum()
}

/// The entropy in nats.
pub fn entropy<T: Scalar>(log_deviations: &[T]) -> T {
    let of_unit = T::of(0.5 * (1.0 + std::f64::consts::TAU.ln()));
    log_deviations.iter().map(|log_deviation| *log_deviation + of_unit).sum()
}

/// Writes the gradient of `by_density * log_density` with respect to the means, and adds that with respect to the
/// logarithms of the deviations.
pub fn gradient<T: Scalar>(
    action: &[T],
    means: &[T],
    log_deviations: &[T],
    by_density: T,
    by_mean: &mut [T],
    by_log_deviation: &mut [T],
) {
    let seen = action.iter().zip(means).zip(log_deviations);
    for ((((action, mean), log_deviation), by_mean), by_log_deviation) in
        seen.zip(by_mean).zip(by_log_deviation.iter_mut())
    {
        let per_deviation = (-*log_deviation).natural_exp();
        let distance = (*action - *mean) * per_deviation;
        *by_mean = by_density * distance * per_deviation;
        *by_log_deviation += by_density * (distance * distance - T::one());
    }
}

/// The nearest action within bounds.
pub fn clipped<T: Scalar>(action: T, low: T, high: T) -> T {
    if action < low {
        low
    } else if action > high {
        high
    } else {
        action
    }
}

/// An action within bounds, from one without.
pub fn squashed<T: Scalar>(action: T, low: T, high: T) -> T {
    let half = T::of(0.5);
    let tanh = T::of(libm::tanh(action.to_f64().expect("every action is a f64")));
    clipped((low + high) * half + (high - low) * half * tanh, low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTION: [f64; 2] = [0.3, -1.1];
    const MEANS: [f64; 2] = [0.1, 0.4];
    const LOGS: [f64; 2] = [-0.5, 0.2];

    #[test]
    fn densities_integrate_to_one() {
        let h = 1e-3;
        let density = |x: f64| log_density(&[x], &[0.4], &[0.2]).exp();
        let total: f64 = (-12_000..12_000).map(|i| density(f64::from(i) * h) * h).sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
        let expected: f64 = (-12_000..12_000).map(|i| density(f64::from(i) * h) * h).map(|p| -p * (p / h).ln()).sum();
        assert!((entropy(&[0.2]) - expected).abs() < 1e-9);
        let sum = log_density(&ACTION[..1], &MEANS, &LOGS) + log_density(&ACTION[1..], &MEANS[1..], &LOGS[1..]);
        assert!((log_density(&ACTION, &MEANS, &LOGS) - sum).abs() < 1e-12, "components are independent");
    }

    #[test]
    fn gradients_are_limits_of_differences() {
        let (mut by_mean, mut by_log) = ([f64::NAN; 2], [10.0; 2]);
        gradient(&ACTION, &MEANS, &LOGS, 0.7, &mut by_mean, &mut by_log);
        for i in 0..2 {
            let at = |mean: f64, log: f64| {
                let (mut means, mut logs) = (MEANS, LOGS);
                means[i] += mean;
                logs[i] += log;
                0.7 * log_density(&ACTION, &means, &logs)
            };
            assert!(((at(1e-5, 0.0) - at(-1e-5, 0.0)) / 2e-5 - by_mean[i]).abs() < 1e-8);
            assert!(((at(0.0, 1e-5) - at(0.0, -1e-5)) / 2e-5 - (by_log[i] - 10.0)).abs() < 1e-8, "added");
        }
    }

    #[test]
    fn squashing_keeps_bounds_and_order() {
        let all = [-50.0, -3.0, -0.1, 0.0, 1.5, 50.0_f64].map(|x| squashed(x, -2.0, 6.0));
        assert!(all.is_sorted() && all[0] == -2.0 && all[3] == 2.0 && all[5] == 6.0, "{all:?}");
        assert_eq!([-3.0, 0.5, 9.0].map(|x| clipped(x, -1.0, 1.0)), [-1.0, 0.5, 1.0]);
        assert!(clipped(f64::NAN, -1.0, 1.0).is_nan());
    }
}
