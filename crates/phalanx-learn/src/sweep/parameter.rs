//! One parameter of a sweep: the values it may have, their points on a grid, and draws from them.

use phalanx_core::error::Error as EngineError;
use toml::Value;

use crate::error::{Error, Result};
use crate::random::Random;
use crate::run::config::SECTIONS;
use crate::run::settings::Setting;

/// A setting that a sweep changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parameter {
    /// As the file has it, dotted or not.
    pub(super) name: String,
    domain: Domain,
    /// How many values of a range a grid has.
    points: Option<usize>,
}

/// What values there are.
#[derive(Clone, Debug, PartialEq)]
enum Domain {
    Choice(Vec<Value>),
    Uniform(f64, f64),
    LogUniform(f64, f64),
    Integer(i64, i64),
}

const KINDS: [&str; 4] = ["choice", "uniform", "log_uniform", "integer"];
const ALLOWED: &str = "a list of values, or a range such as { uniform = [0, 1] }, { log_uniform = [1e-5, 1e-2] } or \
                       { integer = [1, 8] }";

impl Parameter {
    /// The parameters of `[sweep.parameters]`, whose names may be dotted or in sections.
    pub(super) fn read_all(value: Value) -> Result<Vec<Self>> {
        let Value::Table(table) = value else {
            return Err(Error::setting("sweep.parameters", "must be a section: write [sweep.parameters]"));
        };
        let mut parameters = Vec::new();
        for (name, value) in table {
            match value {
                Value::Table(keys) if SECTIONS.contains(&name.as_str()) => {
                    for (key, value) in keys {
                        parameters.push(Self::read(format!("{name}.{key}"), value)?);
                    }
                }
                value => parameters.push(Self::read(name, value)?),
            }
        }
        Ok(parameters)
    }

    fn read(name: String, value: Value) -> Result<Self> {
        let key = format!("sweep.parameters.{name}");
        let refuse = |why: String| Err(Error::setting(key.clone(), why));
        let (kind, value, points) = match value {
            Value::Array(_) => ("choice", value, None),
            Value::Table(mut range) => {
                let points = range.remove("points");
                let points = match &points {
                    Some(value) => match usize::read(value).filter(|points| *points >= 2) {
                        Some(points) => Some(points),
                        None => return refuse(format!("has points = {value}, but there must be at least 2")),
                    },
                    None => None,
                };
                if let Some(unknown) = range.keys().find(|kind| !KINDS.contains(&kind.as_str())) {
                    let known = KINDS.into_iter().chain(["points"]);
                    return Err(EngineError::unknown("key", unknown, Some(&key), known).into());
                }
                let mut kinds = range.into_iter();
                match (kinds.next(), kinds.next()) {
                    (Some((kind, value)), None) => {
                        (KINDS.into_iter().find(|known| *known == kind).expect("a known kind"), value, points)
                    }
                    _ => return refuse(format!("must have one of {}", KINDS.join(", "))),
                }
            }
            value => return refuse(format!("is {value}, but must be {ALLOWED}")),
        };
        let domain = match Domain::read(kind, &value) {
            Ok(domain) => domain,
            Err(why) => return refuse(why),
        };
        if points.is_some() && matches!(domain, Domain::Choice(_)) {
            return refuse("has points, but a list is tried as it is".to_owned());
        }
        Ok(Self { name, domain, points })
    }

    /// How many values a grid has of it, at most.
    pub(super) fn count(&self) -> usize {
        match (&self.domain, self.points) {
            (Domain::Choice(values), _) => values.len(),
            (_, Some(points)) => points,
            (Domain::Integer(low, high), None) => usize::try_from(high - low + 1).unwrap_or(usize::MAX),
            // To be refused.
            (Domain::Uniform(..) | Domain::LogUniform(..), None) => 1,
        }
    }

    /// The values that a grid has of it.
    pub(super) fn points(&self) -> Result<Vec<Value>> {
        let steps = |points: usize| (0..points).map(move |i| i as f64 / (points - 1) as f64);
        Ok(match (&self.domain, self.points) {
            (Domain::Choice(values), _) => values.clone(),
            (Domain::Integer(low, high), None) => (*low..=*high).map(Value::Integer).collect(),
            (Domain::Integer(low, high), Some(points)) => {
                let width = (high - low) as f64;
                let mut values: Vec<_> = steps(points).map(|share| low + (share * width).round() as i64).collect();
                values.dedup();
                values.into_iter().map(Value::Integer).collect()
            }
            (Domain::Uniform(..) | Domain::LogUniform(..), Some(points)) => {
                steps(points).map(|share| self.domain.at(share)).collect()
            }
            (Domain::Uniform(..) | Domain::LogUniform(..), None) => {
                let why = "is a range, of which a grid needs a number of values: add points = 5, or take method = \
                           \"random\"";
                return Err(Error::setting(format!("sweep.parameters.{}", self.name), why));
            }
        })
    }

    /// Refuses what draws do not heed.
    pub(super) fn check_random(&self) -> Result<()> {
        match self.points {
            Some(_) => Err(Error::setting(
                format!("sweep.parameters.{}", self.name),
                "has points, but points has no effect on random draws: leave it out",
            )),
            None => Ok(()),
        }
    }

    /// A value, from one random number.
    pub(super) fn draw(&self, stream: &mut Random) -> Value {
        self.domain.at(stream.unit())
    }
}

impl Domain {
    fn read(kind: &str, value: &Value) -> Result<Self, String> {
        let Value::Array(values) = value else { return Err(format!("has {kind} = {value}, but must be {ALLOWED}")) };
        if kind == "choice" {
            if values.is_empty() {
                return Err("is an empty list".to_owned());
            }
            if let Some(twice) = values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)) {
                return Err(format!("lists {} twice", twice.1));
            }
            return Ok(Self::Choice(values.clone()));
        }
        let ends = match values.as_slice() {
            [low, high] => f64::read(low).zip(f64::read(high)).filter(|(low, high)| low < high),
            _ => None,
        };
        let Some((low, high)) = ends else {
            return Err(format!("has {kind} = {value}, but must have two numbers, the first smaller"));
        };
        match kind {
            "log_uniform" if low <= 0.0 => Err(format!("has log_uniform = {value}, but both ends must be above 0")),
            "log_uniform" => Ok(Self::LogUniform(low, high)),
            "uniform" => Ok(Self::Uniform(low, high)),
            _ if low.fract() != 0.0 || high.fract() != 0.0 || low.abs().max(high.abs()) > 1e15 => {
                Err(format!("has integer = {value}, but must have whole numbers"))
            }
            _ => Ok(Self::Integer(low as i64, high as i64)),
        }
    }

    /// The value at a share of the way through.
    fn at(&self, share: f64) -> Value {
        let among = |count: f64| (share * count).floor().min(count - 1.0);
        match self {
            Self::Choice(values) => values[among(values.len() as f64) as usize].clone(),
            Self::Integer(low, high) => Value::Integer(low + among((high - low) as f64 + 1.0) as i64),
            Self::Uniform(low, high) => Value::Float(readable(low + share * (high - low)).clamp(*low, *high)),
            Self::LogUniform(low, high) => {
                Value::Float(readable(low * (share * (high / low).ln()).exp()).clamp(*low, *high))
            }
        }
    }
}

/// Four significant digits: what a table shows is what was run.
fn readable(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
