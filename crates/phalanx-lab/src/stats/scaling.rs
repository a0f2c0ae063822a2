//! Throughput by number of threads: Amdahl's law and the universal scalability law, measured and fitted.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::bootstrap::{RESAMPLES, block_length, percentile_interval, resampled_mean};
use super::descriptive::{Moments, mean};
use super::interval::Interval;
use super::line::Point;
use super::random::Stream;

/// Different numbers of threads without which no law can be told from another.
const LEAST_THREAD_COUNTS: usize = 4;

/// Relative standard errors are not believed below this: a few samples may agree by chance.
const LEAST_RELATIVE_ERROR: f64 = 0.005;

/// Steps of the refinement; a handful is usual.
const MOST_STEPS: usize = 100;

/// Halvings of a step after which it is no step at all.
const MOST_HALVINGS: i32 = 40;

/// Throughput per unit (environment, thread) as a share of that at the smallest size.
pub fn efficiency((n, rate): (f64, f64), (smallest_n, smallest_rate): (f64, f64)) -> f64 {
    (rate / n) / (smallest_rate / smallest_n)
}

/// Throughput of each size as a share of the best. Unlike [`efficiency`], it can stay near 1 on busy cores.
pub fn retention(rates: &[f64]) -> Vec<f64> {
    let best = rates.iter().copied().fold(f64::MIN, f64::max);
    rates.iter().map(|rate| rate / best).collect()
}

/// Too few measurements for a fit: measured ratios can still be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error(
    "not identifiable from {points} measurements at {thread_counts} thread counts: \
     needs {points_needed} at {LEAST_THREAD_COUNTS} different counts"
)]
pub struct NotIdentifiable {
    /// Measurements that there are.
    pub points: usize,
    /// Different numbers of threads that there are.
    pub thread_counts: usize,
    /// Measurements that the law needs.
    pub points_needed: usize,
}

/// The universal scalability law; Amdahl's is the one without coherence cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingLaw {
    /// Throughput of one thread (λ).
    pub single: f64,
    /// Share of work that waits for its turn (σ).
    pub contention: f64,
    /// Cost of keeping each pair of threads in agreement (κ).
    pub coherence: f64,
}

impl ScalingLaw {
    /// Throughput on `threads` threads.
    pub fn rate(&self, threads: f64) -> f64 {
        self.single * threads / slow_down([self.contention, self.coherence], threads)
    }

    /// Number of threads with the highest throughput; `None` if more are always better.
    pub fn peak_threads(&self) -> Option<f64> {
        (self.coherence > 0.0).then(|| ((1.0 - self.contention).max(0.0) / self.coherence).sqrt())
    }

    /// Fits Amdahl's law to (threads, throughput, weight); weights are inverse variances of ln throughput.
    pub fn fit_amdahl(points: &[Point]) -> Result<Self, NotIdentifiable> {
        Self::fit(points, &[[true, false], [false, false]], 2)
    }

    /// Fits the universal scalability law to (threads, throughput, weight); weights are inverse variances of
    /// ln throughput.
    pub fn fit_universal(points: &[Point]) -> Result<Self, NotIdentifiable> {
        Self::fit(points, &[[true, true], [true, false], [false, true], [false, false]], 3)
    }

    /// The best fit without negative costs. It is the best of one face of the quadrant of costs, where the costs
    /// that are not free are 0; so each face is fitted without bounds, and the best permitted result is taken.
    fn fit(points: &[Point], faces: &[[bool; 2]], parameters: usize) -> Result<Self, NotIdentifiable> {
        let mut threads: Vec<f64> = points.iter().map(|point| point.x).collect();
        threads.sort_by(f64::total_cmp);
        threads.dedup();
        let refusal =
            NotIdentifiable { points: points.len(), thread_counts: threads.len(), points_needed: parameters + 2 };
        if refusal.thread_counts < LEAST_THREAD_COUNTS || refusal.points < refusal.points_needed {
            return Err(refusal);
        }
        let start = linear_start(points);
        let fits = faces.iter().filter_map(|&free| refine(points, start, free));
        let permitted = fits.filter(|fit| fit.costs.iter().all(|&cost| cost >= 0.0));
        let best = permitted.min_by(|a, b| a.squares.total_cmp(&b.squares)).ok_or(refusal)?;
        let [contention, coherence] = best.costs;
        Ok(Self { single: best.log_single.exp(), contention, coherence })
    }
}

/// 1 + σ(p−1) + κp(p−1).
fn slow_down(costs: [f64; 2], threads: f64) -> f64 {
    let [contention, coherence] = terms(threads);
    1.0 + costs[0] * contention + costs[1] * coherence
}

/// What one unit of each cost adds to the slow-down.
fn terms(threads: f64) -> [f64; 2] {
    [threads - 1.0, threads * (threads - 1.0)]
}

/// Costs from the linear form λp/X − 1 = σ(p−1) + κp(p−1), with λ from the fewest threads; negative ones are cut.
fn linear_start(points: &[Point]) -> [f64; 2] {
    let fewest = points.iter().min_by(|a, b| a.x.total_cmp(&b.x)).map_or(f64::NAN, |point| point.y / point.x);
    let rows = points.iter().map(|point| (1.0, terms(point.x), fewest * point.x / point.y - 1.0));
    least_squares(rows, [true; 2]).unwrap_or_default().map(|cost| cost.max(0.0))
}

/// Two coefficients of a weighted linear fit from rows (weight, terms, value); those not free are 0.
fn least_squares(rows: impl Iterator<Item = (f64, [f64; 2], f64)>, free: [bool; 2]) -> Option<[f64; 2]> {
    // The normal equations; a coefficient that is not free has the equation "itself is 0".
    let [free_0, free_1] = free.map(|it| f64::from(u8::from(it)));
    let (mut a, mut b, mut c, mut right) = (1.0 - free_0, 0.0, 1.0 - free_1, [0.0; 2]);
    for (weight, [x, y], value) in rows {
        let (x, y) = (free_0 * x, free_1 * y);
        (a, b, c) = (a + weight * x * x, b + weight * x * y, c + weight * y * y);
        right = [right[0] + weight * x * value, right[1] + weight * y * value];
    }
    let determinant = a * c - b * b;
    let solvable = determinant > 1e-12 * a * c;
    solvable.then(|| [(c * right[0] - b * right[1]) / determinant, (a * right[1] - b * right[0]) / determinant])
}

/// A law under refinement, and its weighted squared distances from the points in ln X.
struct Fit {
    costs: [f64; 2],
    log_single: f64,
    squares: f64,
}

impl Fit {
    /// The fit with given costs; ln λ only shifts ln X, so its best value is a mean. `None` where the law has none.
    fn with(points: &[Point], costs: [f64; 2]) -> Option<Self> {
        let log_single = weighted_mean(points, |point| log_single(point, costs));
        let mut fit = Self { costs, log_single, squares: 0.0 };
        fit.squares = points.iter().map(|point| point.weight * fit.distance(point).powi(2)).sum();
        fit.squares.is_finite().then_some(fit)
    }

    fn distance(&self, point: &Point) -> f64 {
        log_single(point, self.costs) - self.log_single
    }
}

/// The ln λ that explains one point.
fn log_single(point: &Point, costs: [f64; 2]) -> f64 {
    (point.y / point.x).ln() + slow_down(costs, point.x).ln()
}

fn weighted_mean(points: &[Point], value: impl Fn(&Point) -> f64) -> f64 {
    let weights: f64 = points.iter().map(|point| point.weight).sum();
    points.iter().map(|point| point.weight * value(point)).sum::<f64>() / weights
}

/// Weighted Gauss-Newton on ln X, halving steps that do not improve. `None` if the points do not determine the costs.
fn refine(points: &[Point], start: [f64; 2], free: [bool; 2]) -> Option<Fit> {
    let mut fit = Fit::with(points, [0, 1].map(|i| if free[i] { start[i] } else { 0.0 }))?;
    for _ in 0..MOST_STEPS {
        // Distances are from a mean, so their derivatives are too.
        let derivative = |point: &Point, i: usize| terms(point.x)[i] / slow_down(fit.costs, point.x);
        let centre = [0, 1].map(|i| weighted_mean(points, |point| derivative(point, i)));
        let rows = points
            .iter()
            .map(|point| (point.weight, [0, 1].map(|i| derivative(point, i) - centre[i]), -fit.distance(point)));
        let step = least_squares(rows, free)?;
        let better = (0..MOST_HALVINGS).find_map(|halvings| {
            let share = 0.5_f64.powi(halvings);
            let next = Fit::with(points, [0, 1].map(|i| fit.costs[i] + share * step[i]));
            next.filter(|next| next.squares < fit.squares)
        });
        match better {
            Some(next) => fit = next,
            None => break,
        }
    }
    Some(fit)
}

/// The samples (times per step) of one number of threads.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadTimes {
    /// Number of threads.
    pub threads: f64,
    /// Times per step.
    pub times: Vec<f64>,
}

/// A fitted law with the block bootstrap's intervals of its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingIntervals {
    /// The law of all samples.
    pub law: ScalingLaw,
    /// Amdahl's law of the same samples, for its one share of serial work.
    pub amdahl: ScalingLaw,
    /// Number of threads with the highest throughput by the law; nothing if more are always better.
    pub peak_threads: Option<f64>,
    /// Interval of λ.
    pub single: Interval,
    /// Interval of σ.
    pub contention: Interval,
    /// Interval of κ.
    pub coherence: Interval,
}

impl ScalingIntervals {
    /// Fits the universal scalability law to samples, one group per number of threads.
    pub fn fit(groups: &[ThreadTimes], confidence: f64, seed: u64) -> Result<Self, NotIdentifiable> {
        let groups: Vec<&ThreadTimes> = groups.iter().filter(|group| !group.times.is_empty()).collect();
        let weights: Vec<f64> = groups.iter().map(|group| weight(&group.times)).collect();
        let point = |i: usize, time: f64| Point { x: groups[i].threads, y: time.recip(), weight: weights[i] };
        let points: Vec<Point> = (0..groups.len()).map(|i| point(i, mean(&groups[i].times))).collect();
        let (law, amdahl) = (ScalingLaw::fit_universal(&points)?, ScalingLaw::fit_amdahl(&points)?);
        let blocks: Vec<usize> = groups.iter().map(|group| block_length(&group.times)).collect();
        let resampled = (0..RESAMPLES).filter_map(|resample| {
            let mut random = Stream::new(seed, resample);
            let time = |i: usize| resampled_mean(&groups[i].times, blocks[i], &mut random);
            let points: Vec<Point> = (0..groups.len()).map(time).enumerate().map(|(i, time)| point(i, time)).collect();
            ScalingLaw::fit_universal(&points).ok()
        });
        let laws: Vec<ScalingLaw> = resampled.collect();
        let interval = |parameter: fn(&ScalingLaw) -> f64| {
            percentile_interval(&mut laws.iter().map(parameter).collect::<Vec<f64>>(), confidence)
        };
        Ok(Self {
            law,
            amdahl,
            peak_threads: law.peak_threads(),
            single: interval(|law| law.single),
            contention: interval(|law| law.contention),
            coherence: interval(|law| law.coherence),
        })
    }
}

/// Inverse variance of the logarithm of a mean time.
fn weight(times: &[f64]) -> f64 {
    let moments = Moments::of(times);
    let error = moments.sample_variance().map_or(0.0, |variance| (variance / times.len() as f64).sqrt() / moments.mean);
    error.max(LEAST_RELATIVE_ERROR).powi(-2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::interval::CONFIDENCE;
    use crate::stats::testing::{assert_close, assert_near};

    const LAW: ScalingLaw = ScalingLaw { single: 100.0, contention: 0.05, coherence: 0.01 };

    fn measured(law: ScalingLaw, threads: &[f64]) -> Vec<Point> {
        threads.iter().map(|&threads| Point { x: threads, y: law.rate(threads), weight: 1.0 }).collect()
    }

    #[test]
    fn the_universal_law() {
        for (threads, rate) in [
            (1.0, 100.0),
            (2.0, 186.915_89),
            (4.0, 314.960_63),
            (8.0, 418.848_17),
            (10.0, 425.531_91),
            (16.0, 385.542_17),
        ] {
            assert_close(LAW.rate(threads), rate);
        }
        assert_near(LAW.peak_threads().unwrap(), 9.7468, 5e-5);
    }

    #[test]
    fn a_fit_recovers_the_law() {
        let fitted = ScalingLaw::fit_universal(&measured(LAW, &[1.0, 2.0, 4.0, 8.0, 10.0, 16.0])).unwrap();
        assert_close(fitted.single, 100.0);
        assert_close(fitted.contention, 0.05);
        assert_close(fitted.coherence, 0.01);
        // Without a measurement on one thread too.
        let fitted = ScalingLaw::fit_universal(&measured(LAW, &[2.0, 4.0, 8.0, 12.0, 32.0])).unwrap();
        assert_close(fitted.coherence, 0.01);
    }

    #[test]
    fn amdahls_law() {
        let of_one = |contention| ScalingLaw { single: 1.0, contention, coherence: 0.0 };
        assert_close(of_one(0.1).rate(4.0), 3.076_923_1);
        assert_close(of_one(0.083_333_3).rate(4.0), 3.2);
        let amdahl = ScalingLaw { coherence: 0.0, ..LAW };
        let fitted = ScalingLaw::fit_amdahl(&measured(amdahl, &[1.0, 2.0, 4.0, 8.0])).unwrap();
        assert_close(fitted.contention, 0.05);
        assert_eq!((fitted.coherence, fitted.peak_threads()), (0.0, None));
    }

    #[test]
    fn costs_are_never_negative() {
        // Better than linear: both costs would have to be negative.
        let superlinear: Vec<Point> =
            [1.0, 2.0, 4.0, 8.0, 16.0_f64].map(|p| Point { x: p, y: p.powf(1.1), weight: 1.0 }).to_vec();
        let fitted = ScalingLaw::fit_universal(&superlinear).unwrap();
        assert_eq!((fitted.contention, fitted.coherence), (0.0, 0.0));
        // A negative contention cost would fit best: the coherence cost alone remains.
        let mixed = measured(ScalingLaw { contention: -0.02, ..LAW }, &[1.0, 2.0, 4.0, 8.0, 16.0]);
        let fitted = ScalingLaw::fit_universal(&mixed).unwrap();
        assert!(fitted.contention == 0.0 && (0.005..0.01).contains(&fitted.coherence), "{fitted:?}");
    }

    #[test]
    fn few_points_identify_nothing() {
        let refusal = ScalingLaw::fit_universal(&measured(LAW, &[1.0, 2.0])).unwrap_err();
        assert_eq!(refusal, NotIdentifiable { points: 2, thread_counts: 2, points_needed: 5 });
        assert!(refusal.to_string().starts_with("not identifiable from 2 measurements at 2 thread counts"));
        assert!(ScalingLaw::fit_universal(&measured(LAW, &[1.0, 1.0, 2.0, 2.0, 4.0, 4.0])).is_err());
        assert!(ScalingLaw::fit_universal(&measured(LAW, &[1.0, 2.0, 4.0, 8.0])).is_err());
    }

    #[test]
    fn intervals_hold_the_law() {
        let mut random = Stream::new(29, 0);
        let group = |threads: f64| ThreadTimes {
            threads,
            times: (0..20).map(|_| (0.01 * random.normal()).exp() / LAW.rate(threads)).collect(),
        };
        let groups: Vec<ThreadTimes> = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0].map(group).to_vec();
        let fitted = ScalingIntervals::fit(&groups, CONFIDENCE, 1).unwrap();
        assert!(fitted.single.contains(100.0) && fitted.single.width() < 4.0, "{fitted:?}");
        assert!(fitted.contention.contains(0.05) && fitted.contention.width() < 0.02, "{fitted:?}");
        assert!(fitted.coherence.contains(0.01) && fitted.coherence.width() < 0.002, "{fitted:?}");
        assert_near(fitted.peak_threads.unwrap(), 9.7, 0.5);
        assert!(fitted.amdahl.contention > fitted.law.contention && fitted.amdahl.coherence == 0.0, "{fitted:?}");
    }

    #[test]
    fn efficiency_and_retention() {
        assert_close(efficiency((100.0, 500.0), (10.0, 100.0)), 0.5);
        assert_eq!(retention(&[100.0, 200.0, 180.0]), [0.5, 1.0, 0.9]);
    }
}
