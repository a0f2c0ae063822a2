//! What an environment looks like from outside: spaces, parameters, limits.

use std::borrow::Cow;

use serde::Serialize;

use crate::env::{LaneEnv, LaneParams, LaneStruct};
use crate::safety::Constraint;

/// The actions an environment takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ActionSpace {
    /// One of `n` choices, numbered from 0.
    Discrete {
        /// Number of choices.
        n: u32,
    },
    /// A vector of choices, component `k` from 0 to `sizes[k] - 1`.
    MultiDiscrete {
        /// Number of choices of each component.
        sizes: Vec<u32>,
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
            Self::MultiDiscrete { sizes } => sizes.len(),
            Self::Box { low, .. } => low.len(),
        }
    }

    /// Choices of component `k`; none for a continuous one.
    pub fn choices(&self, k: usize) -> Option<u32> {
        match self {
            Self::Discrete { n } => Some(*n),
            Self::MultiDiscrete { sizes } => Some(sizes[k]),
            Self::Box { .. } => None,
        }
    }

    /// Flags of an action mask: one for each choice of each component; none for a continuous space.
    pub fn mask_len(&self) -> Option<usize> {
        (0..self.components()).map(|k| self.choices(k).map(|n| n as usize)).sum()
    }

    /// Whether actions are whole numbers.
    pub fn is_discrete(&self) -> bool {
        !matches!(self, Self::Box { .. })
    }

    /// `discrete` or `continuous`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Discrete { .. } | Self::MultiDiscrete { .. } => "discrete",
            Self::Box { .. } => "continuous",
        }
    }
}

impl std::fmt::Display for ActionSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Discrete { n } => write!(f, "Discrete({n})"),
            Self::MultiDiscrete { sizes } => write!(f, "MultiDiscrete({})", runs(sizes)),
            Self::Box { low, high } => write_box(f, low, high),
        }
    }
}

/// The type of an observation's components.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    /// Single precision.
    F32,
    /// A signed byte.
    I8,
}

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::I8 => "i8",
        })
    }
}

/// The observations an environment gives: a named vector of reals, or an array of small integers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObservationSpace {
    /// Name of each component, by which controllers and constraints pick one; an array has none.
    pub names: &'static [&'static str],
    /// Lower bound of each component.
    #[serde(serialize_with = "finite_or_text")]
    pub low: Vec<f32>,
    /// Upper bound of each component.
    #[serde(serialize_with = "finite_or_text")]
    pub high: Vec<f32>,
    /// Its axes; a row of a batch's observations is this array in row-major order.
    pub shape: Vec<usize>,
    /// The type of the components.
    pub element: Element,
}

impl ObservationSpace {
    /// A named vector within bounds.
    pub fn vector(names: &'static [&'static str], low: Vec<f32>, high: Vec<f32>) -> Self {
        Self { names, shape: vec![low.len()], low, high, element: Element::F32 }
    }

    /// A named vector within ±`bound`.
    pub fn symmetric(names: &'static [&'static str], bound: &[f32]) -> Self {
        Self::vector(names, bound.iter().map(|b| -b).collect(), bound.to_vec())
    }

    /// An array of bytes, all within the same bounds.
    pub fn bytes(shape: Vec<usize>, low: i8, high: i8) -> Self {
        let cells = shape.iter().product();
        let (low, high) = (vec![f32::from(low); cells], vec![f32::from(high); cells]);
        Self { names: &[], low, high, shape, element: Element::I8 }
    }

    /// Number of components.
    pub fn dim(&self) -> usize {
        self.low.len()
    }
}

impl std::fmt::Display for ObservationSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.names.is_empty() {
            let (low, high) = (self.low.first(), self.high.first());
            return write!(
                f,
                "Box({}..{}, {:?}, {})",
                low.unwrap_or(&0.0),
                high.unwrap_or(&0.0),
                self.shape,
                self.element
            );
        }
        write_box(f, &self.low, &self.high)
    }
}

/// A list with runs of equal values written once, such as `35, 2 x 25`.
fn runs(values: &[u32]) -> String {
    let runs: Vec<_> = values
        .chunk_by(|a, b| a == b)
        .map(|run| if run.len() == 1 { run[0].to_string() } else { format!("{} x {}", run.len(), run[0]) })
        .collect();
    runs.join(", ")
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
    pub value: Cow<'static, str>,
    /// What can be chosen; empty for free text.
    pub choices: &'static [&'static str],
    /// What it changes.
    pub description: &'static str,
}

impl OptionInfo {
    /// Yes or no.
    pub fn flag(name: &'static str, value: bool, description: &'static str) -> Self {
        Self::choice(name, if value { "true" } else { "false" }, &["false", "true"], description)
    }

    /// One of `choices`.
    pub fn choice(
        name: &'static str,
        value: &'static str,
        choices: &'static [&'static str],
        description: &'static str,
    ) -> Self {
        Self { name, value: value.into(), choices, description }
    }

    /// Any text, such as the name of a file.
    pub fn text(name: &'static str, value: impl Into<Cow<'static, str>>, description: &'static str) -> Self {
        Self { name, value: value.into(), choices: &[], description }
    }
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
    /// Which actions a state allows.
    pub action_mask: ActionMask,
    /// What must hold after every step.
    pub constraints: Vec<Constraint>,
    /// What a user should know about how it was set up, such as files that were passed over.
    pub notes: Vec<String>,
    /// Names of what [`LaneEnv::counts`] counts in every step, two at most.
    pub counters: &'static [&'static str],
    /// Names of what [`SoloEnv::scores`](crate::solo::SoloEnv::scores) says of finished episodes, two at most.
    pub scores: &'static [&'static str],
}

/// Whether a state allows some actions only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ActionMask {
    /// Every action is allowed always.
    #[default]
    None,
    /// A mask says which actions are legal; the environment takes an illegal one in its own way.
    Advisory,
    /// A mask says which actions are legal; an illegal one is an error.
    Binding,
}

impl EnvSpec {
    /// The step limit of an environment whose rules end every episode; the longest there is.
    pub const NO_LIMIT: u32 = (1 << 31) - 1;

    /// An environment without parameters, options, masks or constraints.
    pub fn new(
        name: &'static str,
        description: &'static str,
        observation: ObservationSpace,
        action: ActionSpace,
        max_steps: u32,
    ) -> Self {
        Self {
            name,
            description,
            observation,
            action,
            state_names: &[],
            params: Vec::new(),
            options: Vec::new(),
            max_steps,
            dt: None,
            dt_param: None,
            reward_threshold: None,
            action_mask: ActionMask::None,
            constraints: Vec::new(),
            counters: &[],
            scores: &[],
            notes: Vec::new(),
        }
    }

    /// [`EnvSpec::new`] with the names of an environment's state and its parameters.
    pub fn of<E: LaneEnv>(
        name: &'static str,
        description: &'static str,
        observation: ObservationSpace,
        action: ActionSpace,
        max_steps: u32,
    ) -> Self {
        Self {
            state_names: E::State::<f32>::NAMES,
            params: E::Params::<f32>::INFO.to_vec(),
            ..Self::new(name, description, observation, action, max_steps)
        }
    }
}
