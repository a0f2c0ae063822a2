//! What an environment looks like from outside: spaces, parameters, limits.

use serde::Serialize;

/// The actions an environment takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ActionSpace {
    /// One of `n` choices, numbered from 0.
    Discrete {
        /// Number of choices.
        n: u32,
    },
    /// A vector of reals within bounds.
    Box {
        /// Lower bound of each component.
        low: Vec<f32>,
        /// Upper bound of each component.
        high: Vec<f32>,
    },
}

impl ActionSpace {
    /// Columns an array of actions has: 1 for a discrete space.
    pub fn components(&self) -> usize {
        match self {
            Self::Discrete { .. } => 1,
            Self::Box { low, .. } => low.len(),
        }
    }

    /// `discrete` or `continuous`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Discrete { .. } => "discrete",
            Self::Box { .. } => "continuous",
        }
    }
}

impl std::fmt::Display for ActionSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Discrete { n } => write!(f, "Discrete({n})"),
            Self::Box { low, high } => write_box(f, low, high),
        }
    }
}

/// The observations an environment gives: a named vector of reals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObservationSpace {
    /// Name of each component; controllers pick one by it.
    pub names: &'static [&'static str],
    /// Lower bound of each component.
    #[serde(serialize_with = "finite_or_text")]
    pub low: Vec<f32>,
    /// Upper bound of each component.
    #[serde(serialize_with = "finite_or_text")]
    pub high: Vec<f32>,
}

impl ObservationSpace {
    /// Bounds ±`bound`.
    pub fn symmetric(names: &'static [&'static str], bound: &[f32]) -> Self {
        Self { names, low: bound.iter().map(|b| -b).collect(), high: bound.to_vec() }
    }

    /// Number of components.
    pub fn dim(&self) -> usize {
        self.low.len()
    }
}

impl std::fmt::Display for ObservationSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_box(f, &self.low, &self.high)
    }
}

fn write_box(f: &mut std::fmt::Formatter<'_>, low: &[f32], high: &[f32]) -> std::fmt::Result {
    let list = |values: &[f32]| values.iter().map(f32::to_string).collect::<Vec<_>>().join(", ");
    if low.iter().zip(high).all(|(l, h)| *l == -h) {
        write!(f, "Box(±[{}])", list(high))
    } else {
        write!(f, "Box([{}], [{}])", list(low), list(high))
    }
}

/// JSON has no infinity; an unbounded component is the text `"inf"` or `"-inf"`.
fn finite_or_text<S: serde::Serializer>(values: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        values
            .iter()
            .map(|v| if v.is_finite() { serde_json::Value::from(*v) } else { serde_json::Value::from(v.to_string()) }),
    )
}

/// A physical constant that each environment of a batch may have its own value of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ParamInfo {
    /// Its name on the command line and in Python.
    pub name: &'static str,
    /// Its value unless set.
    pub default: f64,
    /// Smallest allowed value.
    pub min: f64,
    /// Largest allowed value.
    pub max: f64,
    /// What it is, with its unit.
    pub description: &'static str,
}

/// A choice that holds for a whole batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OptionInfo {
    /// Its name on the command line and in Python.
    pub name: &'static str,
    /// The choice made.
    pub value: &'static str,
    /// What can be chosen.
    pub choices: &'static [&'static str],
    /// What it changes.
    pub description: &'static str,
}

/// Everything the outside needs to know about an environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnvSpec {
    /// Exact name.
    pub name: &'static str,
    /// One line.
    pub description: &'static str,
    /// What it shows.
    pub observation: ObservationSpace,
    /// What it takes.
    pub action: ActionSpace,
    /// Names of the state's fields, in the order of [`crate::lane_struct!`].
    pub state_names: &'static [&'static str],
    /// Physical constants.
    pub params: Vec<ParamInfo>,
    /// Batch-wide choices.
    pub options: Vec<OptionInfo>,
    /// Steps after which an episode is truncated.
    pub max_steps: u32,
    /// Time between two steps that controllers assume, in the environment's unit.
    pub dt: Option<f64>,
    /// The parameter that sets this time; the spec of a batch or a probe has its value in `dt`.
    pub dt_param: Option<&'static str>,
    /// Mean return from which the task counts as solved.
    pub reward_threshold: Option<f64>,
}
