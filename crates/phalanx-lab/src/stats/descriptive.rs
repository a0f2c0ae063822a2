//! Describing one set of numbers: centre, spread, outliers, dependence between neighbours, drift.

use serde::{Deserialize, Serialize};

/// Count, mean and spread of some numbers: all that t-tests need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// How many numbers there are.
    pub count: usize,
    /// Their mean; NaN if there are none.
    pub mean: f64,
    /// Sum of squared distances from the mean.
    pub squares: f64,
}

impl Moments {
    /// The moments of some numbers, in two passes: one pass over squares would lose the small spread of timings.
    pub fn of(values: &[f64]) -> Self {
        // Summing distances from the first value makes the mean of equal numbers exact, and their spread exactly 0.
        let first = values.first().copied().unwrap_or(f64::NAN);
        let mean = first + values.iter().map(|value| value - first).sum::<f64>() / values.len() as f64;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { count: values.len(), mean, squares }
    }

    /// Sample variance (divisor n−1); `None` below two values.
    pub fn sample_variance(&self) -> Option<f64> {
        (self.count >= 2).then(|| self.squares / (self.count - 1) as f64)
    }
}

/// The mean; NaN if there are no values.
pub fn mean(values: &[f64]) -> f64 {
    Moments::of(values).mean
}

/// Standard deviation of the values themselves (divisor n); NaN if there are none.
pub fn population_sd(values: &[f64]) -> f64 {
    (Moments::of(values).squares / values.len() as f64).sqrt()
}

/// Standard deviation of what the values are a sample of (divisor n−1); `None` below two values.
pub fn sample_sd(values: &[f64]) -> Option<f64> {
    Moments::of(values).sample_variance().map(f64::sqrt)
}

/// Sample standard deviation as a share of the mean; `None` below two values or around a mean of 0.
pub fn relative_sd(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    sample_sd(values).filter(|_| mean != 0.0).map(|sd| sd / mean.abs())
}

/// Quantile `q` by linear interpolation: rank (m−1)q of m sorted values. NaN if there are no values.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    quantile_of_sorted(&sorted(values), q)
}

/// [`quantile`] of values in ascending order.
pub fn quantile_of_sorted(ascending: &[f64], q: f64) -> f64 {
    let Some(last) = ascending.len().checked_sub(1) else { return f64::NAN };
    let rank = last as f64 * q.clamp(0.0, 1.0);
    let below = rank as usize;
    let above = (below + 1).min(last);
    ascending[below] + (rank - below as f64) * (ascending[above] - ascending[below])
}

/// The median; NaN if there are no values.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut ascending = values.to_vec();
    ascending.sort_by(f64::total_cmp);
    ascending
}

/// How far a value lies outside the middle half of its sample (Tukey).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outlier {
    /// Within 1.5 interquartile ranges of the quartiles.
    No,
    /// Beyond 1.5 interquartile ranges.
    Mild,
    /// Beyond 3 interquartile ranges.
    Severe,
}

/// Labels each value. Outliers are labelled and never dropped: slow samples happened too.
pub fn outliers(values: &[f64]) -> Vec<Outlier> {
    let ascending = sorted(values);
    let (q1, q3) = (quantile_of_sorted(&ascending, 0.25), quantile_of_sorted(&ascending, 0.75));
    let beyond = |value: f64, ranges: f64| value < q1 - ranges * (q3 - q1) || value > q3 + ranges * (q3 - q1);
    let label = |&value: &f64| match value {
        value if beyond(value, 3.0) => Outlier::Severe,
        value if beyond(value, 1.5) => Outlier::Mild,
        _ => Outlier::No,
    };
    values.iter().map(label).collect()
}

/// Correlation of a series with itself `lag` positions later; 0 if the series is constant or too short.
pub fn autocorrelation(values: &[f64], lag: usize) -> f64 {
    let Moments { mean, squares, .. } = Moments::of(values);
    let products = values.iter().zip(values.iter().skip(lag)).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// How many independent values would say as much about the mean as this series.
///
/// Never more than there are values, although alternating series would allow it.
pub fn effective_size(values: &[f64]) -> f64 {
    effective_size_from(values.len(), |lag| autocorrelation(values, lag))
}

/// n / (1 + 2Σρ_k), summed while two neighbouring correlations are positive together: beyond that they are noise.
fn effective_size_from(n: usize, correlation: impl Fn(usize) -> f64) -> f64 {
    let mut sum = 0.0;
    let mut here = correlation(1);
    for lag in 2..=n {
        let next = correlation(lag);
        if here + next <= 0.0 {
            break;
        }
        sum += here;
        here = next;
    }
    n as f64 / (1.0 + 2.0 * sum).max(1.0)
}

/// Slope per position by Theil and Sen: the median of the slopes between all pairs. 0 below two values.
pub fn theil_sen_slope(values: &[f64]) -> f64 {
    let from = |i: usize| (i + 1..values.len()).map(move |j| (values[j] - values[i]) / (j - i) as f64);
    let slopes: Vec<f64> = (0..values.len()).flat_map(from).collect();
    if slopes.is_empty() { 0.0 } else { median(&slopes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Stream;
    use crate::stats::testing::{assert_close, assert_near};

    #[test]
    fn centre_and_spread() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_close(mean(&values), 5.0);
        assert_close(population_sd(&values), 2.0);
        assert_close(sample_sd(&values).unwrap(), (32.0_f64 / 7.0).sqrt());
        assert_close(relative_sd(&values).unwrap(), (32.0_f64 / 7.0).sqrt() / 5.0);
        assert_eq!(Moments::of(&[0.1; 10]), Moments { count: 10, mean: 0.1, squares: 0.0 });
    }

    #[test]
    fn quantiles_interpolate() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&values), 2.5);
        assert_eq!(quantile(&values, 0.0), 1.0);
        assert_eq!(quantile(&values, 0.25), 1.75);
        assert_eq!(quantile(&values, 1.0), 4.0);
        assert_eq!(quantile(&[7.0], 0.3), 7.0);
    }

    #[test]
    fn too_few_values_have_no_numbers() {
        assert!(mean(&[]).is_nan() && median(&[]).is_nan() && population_sd(&[]).is_nan());
        assert_eq!((sample_sd(&[1.0]), relative_sd(&[]), relative_sd(&[-1.0, 1.0])), (None, None, None));
        assert_eq!((theil_sen_slope(&[3.0]), autocorrelation(&[3.0], 1), effective_size(&[])), (0.0, 0.0, 0.0));
        assert!(outliers(&[]).is_empty());
    }

    #[test]
    fn outliers_are_labelled() {
        // Quartiles 2 and 4: mild below −1 and above 7, severe below −4 and above 10.
        let mut values = vec![1.0, 2.0, 3.0, 4.0, 5.0];
        assert!(outliers(&values).iter().all(|&label| label == Outlier::No));
        values = vec![2.0, 2.0, 2.0, 3.0, 4.0, 4.0, 4.0, 7.5, -5.0];
        let labels = outliers(&values);
        assert_eq!(labels[7..], [Outlier::Mild, Outlier::Severe]);
        assert!(labels[..7].iter().all(|&label| label == Outlier::No));
    }

    #[test]
    fn effective_size_of_an_autocorrelated_series() {
        assert_close(effective_size_from(300, |lag| 0.5_f64.powi(lag as i32)), 100.0);
        let series = Stream::new(1, 0).autocorrelated(0.5, 20_000);
        assert_near(autocorrelation(&series, 1), 0.5, 0.03);
        assert_near(effective_size(&series) / 20_000.0, 1.0 / 3.0, 0.05);
        assert_eq!(effective_size(&[1.0, -1.0, 1.0, -1.0]), 4.0);
        assert_eq!(effective_size(&[3.0; 5]), 5.0);
    }

    #[test]
    fn theil_sen_ignores_an_outlier() {
        assert_close(theil_sen_slope(&[1.0, 3.0, 5.0, 100.0, 9.0, 11.0]), 2.0);
    }
}
