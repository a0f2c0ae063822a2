//! Intervals of confidence from Student's and the beta distribution, t-tests, and what a design can detect.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF, StudentsT};
use statrs::function::beta::beta_reg;

use super::descriptive::Moments;

/// The confidence of every interval unless a plan says otherwise.
pub const CONFIDENCE: f64 = 0.95;

/// All numbers between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// The interval of one number, for values known exactly.
    pub fn point(value: f64) -> Self {
        Self { low: value, high: value }
    }

    /// The interval `centre ± half_width`.
    pub fn around(centre: f64, half_width: f64) -> Self {
        Self { low: centre - half_width, high: centre + half_width }
    }

    /// Distance between the ends.
    pub fn width(self) -> f64 {
        self.high - self.low
    }

    /// Whether the number lies inside; the ends do.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Both ends under an increasing function.
    pub fn map(self, increasing: impl Fn(f64) -> f64) -> Self {
        Self { low: increasing(self.low), high: increasing(self.high) }
    }
}

/// Quantile of Student's distribution.
pub fn student_quantile(probability: f64, degrees_of_freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees_of_freedom).map_or(f64::NAN, |student| student.inverse_cdf(probability))
}

/// Probability of a distance from 0 of at least |t| under Student's distribution.
pub fn two_sided_p(t: f64, degrees_of_freedom: f64) -> f64 {
    match t * t {
        squared if squared.is_finite() => {
            beta_reg(0.5 * degrees_of_freedom, 0.5, degrees_of_freedom / (degrees_of_freedom + squared))
        }
        squared if squared.is_nan() => f64::NAN,
        _ => 0.0,
    }
}

/// A difference judged by Student's distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TTest {
    /// The difference: a mean, or the first mean less the second.
    pub difference: f64,
    /// Standard error of the difference.
    pub standard_error: f64,
    /// Degrees of freedom.
    pub degrees_of_freedom: f64,
    /// Probability of a difference this large without a cause, two-sided.
    pub p: f64,
}

impl TTest {
    fn new(difference: f64, standard_error: f64, degrees_of_freedom: f64) -> Self {
        // Values without any spread leave no doubt: they differ or they do not.
        let p = match standard_error {
            0.0 => f64::from(u8::from(difference == 0.0)),
            _ => two_sided_p(difference / standard_error, degrees_of_freedom),
        };
        Self { difference, standard_error, degrees_of_freedom, p }
    }

    /// The difference in standard errors.
    pub fn t(&self) -> f64 {
        self.difference / self.standard_error
    }

    /// The interval of the difference.
    pub fn interval(&self, confidence: f64) -> Interval {
        let quantile = student_quantile(0.5 + 0.5 * confidence, self.degrees_of_freedom);
        Interval::around(self.difference, quantile * self.standard_error)
    }
}

/// Tests whether a mean is 0; `None` below two values.
pub fn one_sample_t_test(values: &Moments) -> Option<TTest> {
    let variance = values.sample_variance()?;
    let n = values.count as f64;
    Some(TTest::new(values.mean, (variance / n).sqrt(), n - 1.0))
}

/// Student's interval of a mean; `None` below two values.
pub fn mean_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    one_sample_t_test(&Moments::of(values)).map(|test| test.interval(confidence))
}

/// Tests whether two means differ, given equal variances; `None` if a side is empty or both have one value.
pub fn pooled_t_test(x: &Moments, y: &Moments) -> Option<TTest> {
    let (n, m) = (x.count as f64, y.count as f64);
    (x.count >= 1 && y.count >= 1 && x.count + y.count >= 3).then(|| {
        let degrees_of_freedom = n + m - 2.0;
        let variance = (x.squares + y.squares) / degrees_of_freedom;
        TTest::new(x.mean - y.mean, (variance * (1.0 / n + 1.0 / m)).sqrt(), degrees_of_freedom)
    })
}

/// The interval of a probability after `successes` of `trials` (Clopper and Pearson). All of [0, 1] without trials.
pub fn clopper_pearson(successes: u64, trials: u64, confidence: f64) -> Interval {
    let tail = 0.5 - 0.5 * confidence;
    let (k, n) = (successes as f64, trials as f64);
    let quantile = |a, b, q| Beta::new(a, b).map_or(f64::NAN, |beta| beta.inverse_cdf(q));
    Interval {
        low: if successes == 0 { 0.0 } else { quantile(k, n - k + 1.0, tail) },
        high: if successes >= trials { 1.0 } else { quantile(k + 1.0, n - k, 1.0 - tail) },
    }
}

/// The smallest log ratio that `pairs` pairs with this spread find in four of five campaigns, if they are judged with
/// this confidence; `None` below two pairs.
pub fn minimum_detectable_effect(sd: f64, pairs: usize, confidence: f64) -> Option<f64> {
    let degrees_of_freedom = pairs.checked_sub(1).filter(|&degrees| degrees > 0)? as f64;
    let quantiles =
        student_quantile(0.5 + 0.5 * confidence, degrees_of_freedom) + student_quantile(0.80, degrees_of_freedom);
    Some(quantiles * sd / (pairs as f64).sqrt())
}

/// How many pairs find this log ratio in four of five campaigns; `None` beyond a million, or for no effect at all.
pub fn pairs_needed(sd: f64, effect: f64, confidence: f64) -> Option<usize> {
    let smallest = |pairs: usize| minimum_detectable_effect(sd, pairs, confidence);
    let finds = |pairs: usize| smallest(pairs).is_some_and(|smallest| smallest <= effect.abs());
    let enough = (1..=20).map(|power| 1_usize << power).find(|&pairs| effect != 0.0 && finds(pairs))?;
    // The detectable effect shrinks with every pair, so the least number lies in the last doubling.
    let (mut too_few, mut enough) = (enough / 2, enough);
    while enough - too_few > 1 {
        let middle = usize::midpoint(too_few, enough);
        *(if finds(middle) { &mut enough } else { &mut too_few }) = middle;
    }
    Some(enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::{assert_close, assert_near, share};

    #[test]
    fn quantiles_and_tails_of_students_distribution() {
        assert_close(student_quantile(0.975, 9.0), 2.262_157_2);
        assert_close(student_quantile(0.80, 9.0), 0.883_403_9);
        assert_close(student_quantile(0.025, 9.0), -2.262_157_2);
        assert_close(two_sided_p(2.262_157_162_740_992, 9.0), 0.05);
        assert_eq!(two_sided_p(f64::INFINITY, 5.0), 0.0);
    }

    #[test]
    fn pooled_test_of_two_levels() {
        let test = pooled_t_test(&Moments::of(&[1.0, 2.0, 1.0, 2.0]), &Moments::of(&[11.0, 12.0, 11.0, 12.0])).unwrap();
        assert_close(test.t(), -24.494_897);
        assert_eq!(test.degrees_of_freedom, 6.0);
        assert_close(test.p, 3.044_423_1e-7);
    }

    #[test]
    fn values_without_spread_leave_no_doubt() {
        let (ones, twos) = (Moments::of(&[1.0; 3]), Moments::of(&[2.0; 3]));
        assert_eq!(pooled_t_test(&ones, &twos).unwrap().p, 0.0);
        assert_eq!(pooled_t_test(&ones, &ones).unwrap().p, 1.0);
        assert_eq!(mean_interval(&[2.0; 3], CONFIDENCE), Some(Interval::point(2.0)));
        assert_eq!(mean_interval(&[2.0], CONFIDENCE), None);
        assert_eq!(pooled_t_test(&ones, &Moments::of(&[])), None);
        assert!(pooled_t_test(&ones, &Moments::of(&[1.0, f64::NAN])).unwrap().p.is_nan());
    }

    #[test]
    fn clopper_pearson_of_false_positives() {
        for (successes, trials, low, high) in
            [(3, 60, 0.010_43, 0.139_24), (10, 200, 0.024_23, 0.090_03), (1, 20, 0.001_27, 0.248_7)]
        {
            let interval = clopper_pearson(successes, trials, CONFIDENCE);
            assert_near(interval.low, low, 0.6e-5);
            assert_near(interval.high, high, if trials == 20 { 0.6e-4 } else { 0.6e-5 });
        }
        // The rule of three, and its mirror image.
        assert_near(clopper_pearson(0, 100, CONFIDENCE).high, 0.036_216_7, 1e-6);
        assert_near(clopper_pearson(100, 100, CONFIDENCE).low, 1.0 - 0.036_216_7, 1e-6);
        assert_eq!(clopper_pearson(0, 0, CONFIDENCE), Interval { low: 0.0, high: 1.0 });
    }

    #[test]
    fn detectable_effects() {
        assert_near(minimum_detectable_effect(0.012, 10, CONFIDENCE).unwrap(), 0.011_936_6, 1e-7);
        for (pairs, multiplier) in [(5, 1.662_48), (10, 0.994_71), (20, 0.660_53), (40, 0.454_36)] {
            assert_near(minimum_detectable_effect(1.0, pairs, CONFIDENCE).unwrap(), multiplier, 1e-5);
            assert_eq!(pairs_needed(1.0, multiplier + 1e-5, CONFIDENCE), Some(pairs));
            assert_eq!(pairs_needed(1.0, 1e-5 - multiplier, CONFIDENCE), Some(pairs + 1));
        }
        assert_eq!(pairs_needed(0.0, 0.01, CONFIDENCE), Some(2));
        assert_eq!(pairs_needed(0.1, 0.0, CONFIDENCE), None);
        assert_eq!(minimum_detectable_effect(0.1, 1, CONFIDENCE), None);
        // A plan of more looks or cases has less error for each, and needs more pairs for the same effect.
        assert_near(minimum_detectable_effect(1.0, 10, 0.99).unwrap(), (3.249_836 + 0.883_404) / 10_f64.sqrt(), 1e-5);
        assert!(pairs_needed(1.0, 0.5, 0.99) > pairs_needed(1.0, 0.5, CONFIDENCE));
    }

    /// Four of five campaigns find the smallest detectable effect, few find a third of it, and chance finds nothing.
    #[test]
    fn the_detectable_effect_is_found_in_four_of_five_campaigns() {
        for pairs in [5, 10, 20] {
            let effect = minimum_detectable_effect(1.0, pairs, CONFIDENCE).unwrap();
            let found = |part: f64| {
                share(17, 4000, |random| {
                    let logs: Vec<f64> = (0..pairs).map(|_| part * effect + random.normal()).collect();
                    !mean_interval(&logs, CONFIDENCE).unwrap().contains(0.0)
                })
            };
            // The standard deviation of a share of 4000 at 0.8 is 0.006.
            assert_near(found(1.0), 0.80, 0.02);
            assert!(found(1.0 / 3.0) < 0.25, "{pairs} pairs");
            assert_near(found(0.0), 0.05, 0.012);
        }
    }

    #[test]
    fn student_intervals_cover_the_mean() {
        for n in [3, 10] {
            let covered = share(11, 4000, |random| {
                let values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
                mean_interval(&values, CONFIDENCE).unwrap().contains(0.0)
            });
            assert_near(covered, 0.95, 0.015);
        }
    }
}
