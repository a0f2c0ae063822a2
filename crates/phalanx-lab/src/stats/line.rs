//! A straight line through points, by weighted least squares.

use serde::{Deserialize, Serialize};

use super::interval::{Interval, student_quantile};

/// One measured point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Where it was measured.
    pub x: f64,
    /// What was measured.
    pub y: f64,
    /// Its weight: the inverse of its variance, up to a common factor.
    pub weight: f64,
}

/// A fitted line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Value at 0.
    pub intercept: f64,
    /// Growth per unit of x.
    pub slope: f64,
    /// Standard error of the slope; 0 for two points, which leave no residual to judge by.
    pub slope_error: f64,
    /// Points less two parameters.
    pub degrees_of_freedom: usize,
}

impl Line {
    /// Fits a line; `None` without two different x of positive weight.
    pub fn fit(points: &[Point]) -> Option<Self> {
        let sum = |term: &dyn Fn(&Point) -> f64| points.iter().map(|point| point.weight * term(point)).sum::<f64>();
        let total = sum(&|_| 1.0);
        let (x_mean, y_mean) = (sum(&|point| point.x) / total, sum(&|point| point.y) / total);
        let xx = sum(&|point| (point.x - x_mean).powi(2));
        if points.len() < 2 || !xx.is_normal() {
            return None;
        }
        let slope = sum(&|point| (point.x - x_mean) * (point.y - y_mean)) / xx;
        let mut line =
            Self { intercept: y_mean - slope * x_mean, slope, slope_error: 0.0, degrees_of_freedom: points.len() - 2 };
        if line.degrees_of_freedom > 0 {
            let squares = sum(&|point| (point.y - line.at(point.x)).powi(2));
            line.slope_error = (squares / line.degrees_of_freedom as f64 / xx).sqrt();
        }
        Some(line)
    }

    /// The value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }

    /// Student's interval of the slope; `None` for two points.
    pub fn slope_interval(&self, confidence: f64) -> Option<Interval> {
        let quantile = student_quantile(0.5 + 0.5 * confidence, self.degrees_of_freedom as f64);
        (self.degrees_of_freedom > 0).then(|| Interval::around(self.slope, quantile * self.slope_error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::assert_close;

    fn point((x, y, weight): (f64, f64, f64)) -> Point {
        Point { x, y, weight }
    }

    #[test]
    fn a_weight_counts_like_repetition() {
        let weighted = Line::fit(&[(0.0, 1.0, 1.0), (1.0, 2.0, 1.0), (2.0, 5.0, 2.0)].map(point)).unwrap();
        let repeated =
            Line::fit(&[(0.0, 1.0, 1.0), (1.0, 2.0, 1.0), (2.0, 5.0, 1.0), (2.0, 5.0, 1.0)].map(point)).unwrap();
        assert_close(weighted.slope, repeated.slope);
        assert_close(weighted.intercept, repeated.intercept);
    }

    #[test]
    fn what_is_no_line() {
        assert_eq!(Line::fit(&[]), None);
        assert_eq!(Line::fit(&[(1.0, 1.0, 1.0), (1.0, 2.0, 1.0)].map(point)), None);
        let exact = Line::fit(&[(1.0, 1.0, 1.0), (2.0, 3.0, 1.0)].map(point)).unwrap();
        assert_eq!((exact.slope, exact.at(3.0), exact.slope_interval(0.95)), (2.0, 5.0, None));
    }
}
