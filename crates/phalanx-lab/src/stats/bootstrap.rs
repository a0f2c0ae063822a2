//! Bootstrap: intervals from resampling, in blocks where neighbouring samples may depend on each other.

use serde::{Deserialize, Serialize};

use super::descriptive::{autocorrelation, quantile_of_sorted};
use super::interval::Interval;
use super::random::Stream;

/// Resamples drawn unless all can be enumerated.
pub const RESAMPLES: u64 = 10_000;

/// The most values whose resamples are enumerated: 6^6 are 46,656.
const MOST_ENUMERATED: usize = 6;

/// A bootstrapped mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// Its percentile interval.
    pub interval: Interval,
    /// How many resamples the interval rests on.
    pub resamples: usize,
    /// Whether these are all that exist.
    pub enumerated: bool,
}

/// Bootstraps the mean of independent values, such as the log ratios of pairs; `None` without values.
pub fn of_mean(values: &[f64], confidence: f64, seed: u64) -> Option<Bootstrap> {
    if values.is_empty() {
        return None;
    }
    let enumerated = values.len() <= MOST_ENUMERATED;
    let mut distribution = match enumerated {
        true => {
            let mean = |chosen: &[usize]| chosen.iter().map(|&at| values[at]).sum::<f64>() / values.len() as f64;
            enumerate_resamples(values.len(), mean)
        }
        false => (0..RESAMPLES).map(|resample| resampled_mean(values, 1, &mut Stream::new(seed, resample))).collect(),
    };
    let interval = percentile_interval(&mut distribution, confidence);
    Some(Bootstrap { interval, resamples: distribution.len(), enumerated })
}

/// The interval between two quantiles of a distribution, which is left sorted.
pub fn percentile_interval(distribution: &mut [f64], confidence: f64) -> Interval {
    distribution.sort_by(f64::total_cmp);
    let tail = 0.5 - 0.5 * confidence;
    Interval { low: quantile_of_sorted(distribution, tail), high: quantile_of_sorted(distribution, 1.0 - tail) }
}

/// Block length that keeps the dependence between neighbours: the cube root of the number of samples rounded up,
/// doubled where neighbours correlate by more than 0.3, and never more than there are samples.
pub fn block_length(samples: &[f64]) -> usize {
    let root = (0..=samples.len()).find(|root| root.pow(3) >= samples.len()).unwrap_or(0);
    let factor = if autocorrelation(samples, 1) > 0.3 { 2 } else { 1 };
    samples.len().min(factor * root)
}

/// The mean of as many samples as there are, drawn in blocks that continue at the first sample after the last.
///
/// # Panics
/// Without samples, or for a block length of 0.
pub fn resampled_mean(samples: &[f64], block: usize, random: &mut Stream) -> f64 {
    let n = samples.len();
    let (mut sum, mut drawn) = (0.0, 0);
    while drawn < n {
        let length = block.min(n - drawn);
        let start = random.below(n);
        sum += (start..start + length).map(|i| samples[i % n]).sum::<f64>();
        drawn += length;
    }
    sum / n as f64
}

/// A statistic of all n^n choices of n from n with replacement.
fn enumerate_resamples(n: usize, mut statistic: impl FnMut(&[usize]) -> f64) -> Vec<f64> {
    let mut chosen = vec![0; n];
    let resamples = (0..n.pow(n as u32)).map(|mut number| {
        for choice in &mut chosen {
            *choice = number % n;
            number /= n;
        }
        statistic(&chosen)
    });
    resamples.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::descriptive::{mean, population_sd};
    use crate::stats::interval::CONFIDENCE;
    use crate::stats::testing::{assert_close, share};

    #[test]
    fn all_resamples_of_a_mean() {
        let values = [1.0, 2.0, 6.0];
        let means = enumerate_resamples(3, |chosen| chosen.iter().map(|&i| values[i]).sum::<f64>() / 3.0);
        assert_eq!(means.len(), 27);
        assert_close(mean(&means), 3.0);
        assert_close(population_sd(&means), 1.247_219_1);
        let bootstrap = of_mean(&values, CONFIDENCE, 0).unwrap();
        assert!(bootstrap.enumerated && bootstrap.resamples == 27);
        assert_close(bootstrap.interval.low, 1.216_666_7);
        assert_close(bootstrap.interval.high, 5.133_333_3);
    }

    #[test]
    fn all_resamples_of_a_ratio_of_totals() {
        let (a, b) = ([10.0, 12.0, 11.0], [8.0, 10.0, 10.0]);
        let ratio = |chosen: &[usize]| {
            let total = |of: &[f64]| chosen.iter().map(|&i| of[i]).sum::<f64>();
            total(&a) / total(&b)
        };
        assert_close(ratio(&[0, 1, 2]), 1.178_571_4);
        let mut ratios = enumerate_resamples(3, ratio);
        let interval = percentile_interval(&mut ratios, CONFIDENCE);
        assert_close(ratios[0], 1.1);
        assert_close(ratios[26], 1.25);
        assert_close(interval.low, 1.121_666_7);
        assert_close(interval.high, 1.237_5);
    }

    #[test]
    fn blocks_have_the_cube_root_of_the_length() {
        let alternating = |n: usize| (0..n).map(|i| (i % 2) as f64).collect::<Vec<f64>>();
        for (n, length) in [(1, 1), (2, 2), (3, 2), (8, 2), (9, 3), (27, 3), (28, 4), (64, 4), (1000, 10)] {
            assert_eq!(block_length(&alternating(n)), length, "{n}");
        }
        let rising: Vec<f64> = (0..27).map(f64::from).collect();
        assert_eq!(block_length(&rising), 6);
    }

    #[test]
    fn reports_repeat() {
        let mut random = Stream::new(2, 0);
        let values: Vec<f64> = (0..7).map(|_| random.normal()).collect();
        let bootstrap = of_mean(&values, CONFIDENCE, 1).unwrap();
        assert_eq!(of_mean(&values, CONFIDENCE, 1).unwrap(), bootstrap);
        assert_ne!(of_mean(&values, CONFIDENCE, 2).unwrap(), bootstrap);
        assert!(bootstrap.interval.contains(mean(&values)) && !bootstrap.enumerated);
        assert_eq!(of_mean(&[], CONFIDENCE, 1), None);
    }

    #[test]
    fn blocks_cover_what_single_samples_would_not() {
        // Correlated samples: the interval of the mean needs blocks to be wide enough.
        let covered = |block: fn(&[f64]) -> usize| {
            share(5, 400, |random| {
                let samples = random.autocorrelated(0.6, 60);
                let block = block(&samples);
                let mut means: Vec<f64> = (0..400).map(|_| resampled_mean(&samples, block, random)).collect();
                percentile_interval(&mut means, CONFIDENCE).contains(0.0)
            })
        };
        let (blocks, single) = (covered(block_length), covered(|_| 1));
        assert!(single < 0.75 && (0.8..0.97).contains(&blocks), "{single} {blocks}");
    }
}
