//! Learning rates and exploration in the course of a run, by the number of transitions of all workers together.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A value by number of transitions.
///
/// ```
/// use phalanx_learn::tabular::Schedule;
/// let epsilon = Schedule::Linear { start: 1.0, end: 0.1, horizon: 500_000 };
/// assert_eq!(epsilon.at(250_000), 0.55);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// The same value always.
    Constant(f64),
    /// A straight line to `end`, which is reached after `horizon` transitions and kept.
    Linear {
        /// The value of transition 0.
        start: f64,
        /// The value from `horizon` on.
        end: f64,
        /// Transitions until `end` is reached.
        horizon: u64,
    },
    /// Multiplied by the same factor in every transition, down to `min`.
    Exponential {
        /// The value of transition 0.
        start: f64,
        /// The factor of a transition.
        rate: f64,
        /// The value that is not passed.
        min: f64,
    },
    /// Halved every `half_life` transitions, down to `min`.
    HalfLife {
        /// The value of transition 0.
        start: f64,
        /// Transitions in which it halves.
        half_life: f64,
        /// The value that is not passed.
        min: f64,
    },
    /// N^-power, where N counts the updates of the same state and action; for learning rates only.
    Visit {
        /// 0.8 unless there is a reason: above 0.5 it converges, below 1 it forgets.
        power: f64,
    },
}

impl Schedule {
    /// The value after `n` transitions; of a [`Schedule::Visit`] that of a first visit.
    pub fn at(&self, n: u64) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Linear { end, horizon, .. } if n >= horizon => end,
            Self::Linear { start, end, horizon } => start + (end - start) * (n as f64 / horizon as f64),
            Self::Exponential { start, rate, min } => (start * rate.powf(n as f64)).max(min),
            Self::HalfLife { start, half_life, min } => (start * (-(n as f64) / half_life).exp2()).max(min),
            Self::Visit { .. } => 1.0,
        }
    }

    /// Checks that all its values are between 0 and 1.
    pub(super) fn check(&self, key: &str, by_visits: bool) -> Result<()> {
        let unit = |name: &str, value: f64| {
            let why = || format!("is {value}, but must be from 0 to 1");
            if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(Error::setting(format!("{key}{name}"), why())) }
        };
        match *self {
            Self::Constant(value) => unit("", value),
            Self::Linear { start, end, .. } => unit(".start", start).and(unit(".end", end)),
            Self::Exponential { start, rate, min } => {
                unit(".start", start).and(unit(".rate", rate)).and(unit(".min", min))
            }
            Self::HalfLife { half_life, .. } if half_life.is_nan() || half_life <= 0.0 => {
                Err(Error::setting(format!("{key}.half_life"), format!("is {half_life}, but must be above 0")))
            }
            Self::HalfLife { start, min, .. } => unit(".start", start).and(unit(".min", min)),
            Self::Visit { power } if by_visits => unit(".power", power),
            Self::Visit { .. } => Err(Error::setting(key, "cannot go by visits: those are of states and actions")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first number of transitions from which the value is `floor`.
    fn floor_at(schedule: Schedule, floor: f64) -> u64 {
        (0..).find(|n| schedule.at(*n) == floor).expect("the floor is reached")
    }

    #[test]
    fn exponentials_reach_their_floor_when_they_should() {
        let fast = |start, min| Schedule::Exponential { start, rate: 0.995, min };
        assert_eq!(floor_at(fast(1.0, 0.01), 0.01), 919);
        assert_eq!(floor_at(fast(0.1, 1e-5), 1e-5), 1_838);
    }

    #[test]
    fn values_are_those_of_the_formulas() {
        let linear = Schedule::Linear { start: 0.3, end: 0.01, horizon: 1_000 };
        assert_eq!([0, 500, 1_000, 2_000].map(|n| linear.at(n)), [0.3, 0.155, 0.01, 0.01]);
        let half = Schedule::HalfLife { start: 0.8, half_life: 10.0, min: 0.15 };
        assert_eq!([0, 10, 20, 30].map(|n| half.at(n)), [0.8, 0.4, 0.2, 0.15]);
        assert_eq!(Schedule::Constant(0.1).at(u64::MAX), 0.1);
    }

    #[test]
    fn impossible_schedules_are_refused() {
        let message = |schedule: Schedule| schedule.check("agent.epsilon", false).unwrap_err().to_string();
        let linear = Schedule::Linear { start: 0.3, end: -0.1, horizon: 1_000 };
        assert_eq!(message(linear), "agent.epsilon.end is -0.1, but must be from 0 to 1");
        assert!(message(Schedule::Visit { power: 0.8 }).contains("cannot go by visits"));
        assert!(message(Schedule::HalfLife { start: 0.3, half_life: 0.0, min: 0.0 }).contains("above 0"));
        assert!(Schedule::Visit { power: 0.8 }.check("agent.learning_rate", true).is_ok());
    }
}
