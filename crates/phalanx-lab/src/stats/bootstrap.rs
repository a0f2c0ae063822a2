//! Block bootstrap: intervals from resampling, where neighbouring samples may depend on each other.

use serde::{Deserialize, Serialize};

use super::descriptive::{autocorrelation, mean, quantile_of_sorted};
use super::interval::Interval;
use super::random::Stream;

/// Resamples drawn unless all can be enumerated.
pub const RESAMPLES: u64 = 10_000;

/// The most pairs whose resamples are enumerated: 6^6 are 46,656.
const MOST_ENUMERATED_PAIRS: usize = 6;

/// The steady samples (times per step) of one process of A and one of B.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Times of A.
    pub a: Vec<f64>,
    /// Times of B.
    pub b: Vec<f64>,
    /// Whether samples of A and B alternated in time, so that both saw the same disturbances.
    pub interleaved: bool,
}

/// A bootstrapped log ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// ln(Σt_A / Σt_B) of the samples themselves.
    pub log_ratio: f64,
    /// Its percentile interval.
    pub interval: Interval,
    /// How many resamples the interval rests on.
    pub resamples: usize,
    /// Whether these are all that exist.
    pub enumerated: bool,
}

/// Bootstraps ln(Σt_A / Σt_B): resamples pairs, and inside each pair circular blocks of samples.
///
/// Each process counts by the mean of its samples, so that processes of unequal length weigh the same. `None`
/// without pairs, or if a process has no samples.
pub fn log_ratio(pairs: &[Pair], confidence: f64, seed: u64) -> Option<Bootstrap> {
    if pairs.is_empty() || pairs.iter().any(|pair| pair.a.is_empty() || pair.b.is_empty()) {
        return None;
    }
    let means: Vec<[f64; 2]> = pairs.iter().map(|pair| [mean(&pair.a), mean(&pair.b)]).collect();
    let blocks: Vec<[usize; 2]> = pairs.iter().map(|pair| [block_length(&pair.a), block_length(&pair.b)]).collect();
    // A circular block of full length is a rotation: the mean of the process stays.
    let whole_blocks = pairs.iter().zip(&blocks).all(|(pair, block)| *block == [pair.a.len(), pair.b.len()]);
    let enumerated = pairs.len() <= MOST_ENUMERATED_PAIRS && whole_blocks;
    let mut distribution = match enumerated {
        true => enumerate_resamples(pairs.len(), |chosen| ratio_of_sums(chosen.iter().map(|&pair| means[pair])).ln()),
        false => (0..RESAMPLES)
            .map(|resample| {
                let mut random = Stream::new(seed, resample);
                let drawn = (0..pairs.len()).map(|_| {
                    let pair = random.below(pairs.len());
                    pairs[pair].resampled_means(blocks[pair], &mut random)
                });
                ratio_of_sums(drawn).ln()
            })
            .collect(),
    };
    Some(Bootstrap {
        log_ratio: ratio_of_sums(means.iter().copied()).ln(),
        interval: percentile_interval(&mut distribution, confidence),
        resamples: distribution.len(),
        enumerated,
    })
}

impl Pair {
    fn resampled_means(&self, [block_a, block_b]: [usize; 2], random: &mut Stream) -> [f64; 2] {
        if self.interleaved && self.a.len() == self.b.len() {
            let (mut same, block) = (random.clone(), block_a.max(block_b));
            [resampled_mean(&self.a, block, &mut same), resampled_mean(&self.b, block, random)]
        } else {
            [resampled_mean(&self.a, block_a, random), resampled_mean(&self.b, block_b, random)]
        }
    }
}

fn ratio_of_sums(means: impl Iterator<Item = [f64; 2]>) -> f64 {
    let [a, b] = means.fold([0.0; 2], |[a, b], [of_a, of_b]| [a + of_a, b + of_b]);
    a / b
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
pub fn enumerate_resamples(n: usize, mut statistic: impl FnMut(&[usize]) -> f64) -> Vec<f64> {
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
    use crate::stats::descriptive::population_sd;
    use crate::stats::interval::CONFIDENCE;
    use crate::stats::testing::{assert_close, assert_near, share};

    fn single(a: f64, b: f64) -> Pair {
        Pair { a: vec![a], b: vec![b], interleaved: false }
    }

    #[test]
    fn all_resamples_of_a_mean() {
        let values = [1.0, 2.0, 6.0];
        let mut means = enumerate_resamples(3, |chosen| chosen.iter().map(|&i| values[i]).sum::<f64>() / 3.0);
        assert_eq!(means.len(), 27);
        assert_close(mean(&means), 3.0);
        assert_close(population_sd(&means), 1.247_219_1);
        let interval = percentile_interval(&mut means, CONFIDENCE);
        assert_close(interval.low, 1.216_666_7);
        assert_close(interval.high, 5.133_333_3);
    }

    #[test]
    fn all_resamples_of_a_ratio() {
        let pairs = [single(10.0, 8.0), single(12.0, 10.0), single(11.0, 10.0)];
        // The check values interpolate between ratios; the log ratio interpolates between logarithms.
        let pair = |&i: &usize| [pairs[i].a[0], pairs[i].b[0]];
        let mut ratios = enumerate_resamples(3, |chosen| ratio_of_sums(chosen.iter().map(pair)));
        let interval = percentile_interval(&mut ratios, CONFIDENCE);
        assert_close(interval.low, 1.121_666_7);
        assert_close(interval.high, 1.2375);
        assert_close(ratios[0], 1.1);
        assert_close(ratios[26], 1.25);

        let bootstrap = log_ratio(&pairs, CONFIDENCE, 0).unwrap();
        assert!(bootstrap.enumerated && bootstrap.resamples == 27);
        assert_close(bootstrap.log_ratio.exp(), 1.178_571_4);
        assert_near(bootstrap.interval.low.exp(), 1.121_666_7, 2e-4);
        assert_near(bootstrap.interval.high.exp(), 1.2375, 2e-4);
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
        let pair = |_| Pair {
            a: random.autocorrelated(0.2, 30).iter().map(|noise| 11.0 + noise).collect(),
            b: random.autocorrelated(0.5, 28).iter().map(|noise| 10.0 + noise).collect(),
            interleaved: false,
        };
        let pairs: Vec<Pair> = (0..7).map(pair).collect();
        let bootstrap = log_ratio(&pairs, CONFIDENCE, 1).unwrap();
        assert_eq!(log_ratio(&pairs, CONFIDENCE, 1).unwrap(), bootstrap);
        assert_ne!(log_ratio(&pairs, CONFIDENCE, 2).unwrap(), bootstrap);
        assert!(bootstrap.interval.contains(bootstrap.log_ratio) && !bootstrap.enumerated);
        assert_eq!(log_ratio(&[], CONFIDENCE, 1), None);
    }

    #[test]
    fn interleaved_disturbances_cancel() {
        let disturbances = Stream::new(6, 0).autocorrelated(0.5, 40);
        let disturbed = |scale: f64| disturbances.iter().map(|noise| scale * (10.0 + noise)).collect::<Vec<f64>>();
        let pairs = |interleaved| vec![Pair { a: disturbed(1.1), b: disturbed(1.0), interleaved }; 7];
        let [apart, together] = [false, true].map(|it| log_ratio(&pairs(it), CONFIDENCE, 3).unwrap().interval);
        assert!(together.width() < 1e-9 && apart.width() > 0.01, "{together:?} {apart:?}");
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
