//! Values that change in the course of a run.

use serde::{Deserialize, Serialize};

/// A value by number of steps.
///
/// ```
/// use phalanx_learn::nn::Schedule;
/// let epsilon = Schedule::Linear { start: 1.0, end: 0.05, duration: 250_000 };
/// assert_eq!(epsilon.at(125_000), 0.525);
/// assert_eq!(epsilon.at(1_000_000), 0.05);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// The same value always.
    Constant(f64),
    /// A straight line to `end`, which is reached after `duration` steps and kept.
    Linear {
        /// The value of step 0.
        start: f64,
        /// The value from `duration` on.
        end: f64,
        /// Steps until `end` is reached.
        duration: u64,
    },
    /// Multiplied by the same factor in every step, down (or up) to `end`.
    Exponential {
        /// The value of step 0.
        start: f64,
        /// The value that is not passed.
        end: f64,
        /// The factor of a step.
        factor: f64,
    },
}

impl Schedule {
    /// A straight line over so many steps, or over a share of the `whole` in full steps; with neither, no change at all.
    pub fn line(start: f64, end: f64, steps: Option<u64>, share: Option<f64>, whole: f64) -> Self {
        let duration = steps.or_else(|| share.map(|share| ((share * whole) as u64).max(1)));
        duration.map_or(Self::Constant(start), |duration| Self::Linear { start, end, duration })
    }

    /// The value after `step` steps.
    pub fn at(&self, step: u64) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Linear { end, duration, .. } if step >= duration => end,
            Self::Linear { start, end, duration } => start + (end - start) * (step as f64 / duration as f64),
            Self::Exponential { start, end, factor } => {
                let value = start * libm::pow(factor, step as f64);
                if factor < 1.0 { value.max(end) } else { value.min(end) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_in_full_steps() {
        let line = |steps, share, whole| Schedule::line(1.0, 0.0, steps, share, whole);
        let lasts = |duration| Schedule::Linear { start: 1.0, end: 0.0, duration };
        assert_eq!(line(None, Some(0.602), 80_640.0), lasts(48_545));
        assert_eq!(line(None, Some(1e-9), 5_040.0), lasts(1));
        assert_eq!(line(Some(7), None, 5_040.0), lasts(7));
        assert_eq!(line(None, None, 5_040.0), Schedule::Constant(1.0));
    }

    #[test]
    fn schedules_start_and_end_where_they_should() {
        assert_eq!(Schedule::Constant(0.3).at(9), 0.3);
        let none = Schedule::Linear { start: 1.0, end: 0.0, duration: 0 };
        assert_eq!(none.at(0), 0.0);
        let falling = Schedule::Exponential { start: 1.0, end: 0.1, factor: 0.5 };
        assert_eq!([0, 1, 3, 4].map(|step| falling.at(step)), [1.0, 0.5, 0.125, 0.1]);
        let rising = Schedule::Exponential { start: 1.0, end: 5.0, factor: 2.0 };
        assert_eq!([0, 2, 3].map(|step| rising.at(step)), [1.0, 4.0, 5.0]);
    }
}
