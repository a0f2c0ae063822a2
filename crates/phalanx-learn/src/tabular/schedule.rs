//! Learning rates and exploration in the course of a run, by the number of transitions of all workers together.

use std::fmt;
use std::str::FromStr;

use toml::Value;

use crate::run::settings::{Complaint, Setting, part, share};

/// A value that changes in the course of a run: `0.1`, `linear(0.3, 0.01, 100%)`, `exponential(1, 0.995, 0.01)`,
/// `half_life(1, 10000, 0.01)` or `visit(0.8)`.
///
/// ```
/// use phalanx_learn::tabular::{Horizon, Schedule};
/// let epsilon = Schedule::Linear { start: 1.0, end: 0.1, horizon: Horizon::Percent(50.0) };
/// assert_eq!(epsilon.at(250_000, 1_000_000), 0.55);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// The same value always.
    Constant(f64),
    /// A straight line to `end`, which is then kept.
    Linear {
        /// The value of transition 0.
        start: f64,
        /// The last value.
        end: f64,
        /// When the last value is reached.
        horizon: Horizon,
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

/// A number of transitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Horizon {
    /// So many.
    Transitions(u64),
    /// A share of all transitions of the run, in percent.
    Percent(f64),
}

impl Horizon {
    /// Its transitions in a run of `total`; at least one.
    fn transitions(self, total: u64) -> u64 {
        match self {
            Self::Transitions(count) => count,
            Self::Percent(percent) => ((percent / 100.0 * total as f64) as u64).max(1),
        }
    }
}

impl Schedule {
    /// The value after `n` of `total` transitions; of a [`Schedule::Visit`] that of a first visit.
    pub fn at(&self, n: u64, total: u64) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Linear { start, end, horizon } => {
                let horizon = horizon.transitions(total);
                if n >= horizon { end } else { start + (end - start) * (n as f64 / horizon as f64) }
            }
            Self::Exponential { start, rate, min } => (start * libm::pow(rate, n as f64)).max(min),
            Self::HalfLife { start, half_life, min } => (start * libm::exp2(-(n as f64) / half_life)).max(min),
            Self::Visit { .. } => 1.0,
        }
    }

    /// A rate: from 0 to 1, or by visits.
    pub(super) fn rate(&self) -> Complaint {
        let values = match *self {
            Self::Constant(value) => [value; 2],
            Self::Linear { start, end, .. } => [start, end],
            Self::Exponential { start, min, .. } | Self::HalfLife { start, min, .. } => [start, min],
            Self::Visit { .. } => [0.0; 2],
        };
        values.iter().find_map(share)
    }

    /// A probability: a rate that does not go by visits.
    pub(super) fn probability(&self) -> Complaint {
        match self {
            Self::Visit { .. } => Some("a number or a linear, exponential or half_life course"),
            course => course.rate(),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(value) => write!(f, "{value}"),
            Self::Linear { start, end, horizon: Horizon::Transitions(count) } => {
                write!(f, "linear({start}, {end}, {count})")
            }
            Self::Linear { start, end, horizon: Horizon::Percent(percent) } => {
                write!(f, "linear({start}, {end}, {percent}%)")
            }
            Self::Exponential { start, rate, min } => write!(f, "exponential({start}, {rate}, {min})"),
            Self::HalfLife { start, half_life, min } => write!(f, "half_life({start}, {half_life}, {min})"),
            Self::Visit { power } => write!(f, "visit({power})"),
        }
    }
}

impl FromStr for Schedule {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite()).ok_or(());
        let Some((name, arguments)) = text.trim().strip_suffix(')').and_then(|text| text.split_once('(')) else {
            return number(text).map(Self::Constant);
        };
        let arguments: Vec<&str> = arguments.split(',').map(str::trim).collect();
        match (name.trim(), arguments.as_slice()) {
            ("constant", [value]) => number(value).map(Self::Constant),
            ("linear", [start, end, horizon]) => {
                let horizon = match horizon.strip_suffix('%') {
                    Some(percent) => Horizon::Percent(number(percent)?),
                    None => Horizon::Transitions(u64::read(&Value::Float(number(horizon)?)).ok_or(())?),
                };
                let positive = match horizon {
                    Horizon::Transitions(count) => count > 0,
                    Horizon::Percent(percent) => part(&(percent / 100.0)).is_none(),
                };
                let course = Self::Linear { start: number(start)?, end: number(end)?, horizon };
                positive.then_some(course).ok_or(())
            }
            ("exponential", [start, rate, min]) => {
                let rate = Some(number(rate)?).filter(|rate| part(rate).is_none()).ok_or(())?;
                Ok(Self::Exponential { start: number(start)?, rate, min: number(min)? })
            }
            ("half_life", [start, half_life, min]) => {
                let half_life = Some(number(half_life)?).filter(|count| *count > 0.0).ok_or(())?;
                Ok(Self::HalfLife { start: number(start)?, half_life, min: number(min)? })
            }
            ("visit", [power]) => {
                let power = Some(number(power)?).filter(|power| *power > 0.0).ok_or(())?;
                Ok(Self::Visit { power })
            }
            _ => Err(()),
        }
    }
}

impl Setting for Schedule {
    fn kind() -> String {
        "a number or a course such as linear(0.3, 0.01, 50%), exponential(1, 0.995, 0.01), half_life(1, 10000, 0.01) \
         or visit(0.8)"
            .to_owned()
    }
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => text.parse().ok(),
            value => f64::read(value).map(Self::Constant),
        }
    }
    fn write(&self) -> Value {
        match self {
            Self::Constant(value) => Value::Float(*value),
            course => Value::String(course.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first number of transitions from which the value is `floor`.
    fn floor_at(schedule: &str, floor: f64) -> u64 {
        let schedule: Schedule = schedule.parse().unwrap();
        (0..).find(|n| schedule.at(*n, 9) == floor).expect("the floor is reached")
    }

    #[test]
    fn exponentials_reach_their_floor_when_they_should() {
        assert_eq!(floor_at("exponential(1, 0.995, 0.01)", 0.01), 919);
        assert_eq!(floor_at("exponential(0.1, 0.995, 1e-5)", 1e-5), 1_838);
    }

    #[test]
    fn values_are_those_of_the_formulas() {
        let at = |schedule: &str, n| schedule.parse::<Schedule>().unwrap().at(n, 2_000);
        for half in ["linear(0.3, 0.01, 1000)", "linear(0.3, 0.01, 50%)"] {
            assert_eq!([0, 500, 1_000, 2_000].map(|n| at(half, n)), [0.3, 0.155, 0.01, 0.01]);
        }
        assert_eq!([0, 1].map(|n| at("linear(1, 0, 0.0001%)", n)), [1.0, 0.0]);
        assert_eq!([0, 10, 20, 30].map(|n| at("half_life(0.8, 10, 0.15)", n)), [0.8, 0.4, 0.2, 0.15]);
        assert_eq!(at("0.1", u64::MAX), 0.1);
    }

    #[test]
    fn schedules_read_back() {
        for text in [
            "0.1",
            "linear(1, 0.1, 50%)",
            "linear(0.3, 0.01, 1000)",
            "exponential(1, 0.995, 0.01)",
            "half_life(1, 100, 0)",
            "visit(0.8)",
        ] {
            let course: Schedule = text.parse().unwrap();
            assert_eq!(course.to_string(), text);
            assert_eq!(Schedule::read(&course.write()), Some(course));
        }
        for wrong in
            ["", "linear(1, 0)", "linear(1, 0, 0%)", "linear(1, 0, 101%)", "exponential(1, 2, 0)", "cosine(1)", "nan"]
        {
            assert_eq!(wrong.parse::<Schedule>(), Err(()), "{wrong}");
        }
    }
}
