//! Records: what a run leaves behind, one JSON object per line, with the field `type`.
//!
//! Times and steps are integers, checksums 16 hex digits. Fields that this version does not know are kept as they are,
//! so that reading and writing again loses nothing. `docs/schema/lab-record-v1.schema.json` describes the lines.

mod journal;
mod run_id;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use journal::{Journal, Records, read, read_folder};
pub use run_id::new_run_id;

use crate::build_info::{BuildInfo, Git};
use crate::guards::Readings;
use crate::machine::Machine;

/// The version of the records that are written.
pub const SCHEMA_VERSION: u64 = 1;

/// One line of a file of records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// The first line: what ran, where.
    Run(Box<Run>),
    /// A benchmark with fixed parameters.
    Case(Case),
    /// One timed repetition.
    Sample(Sample),
    /// What the samples of one arm of a case amount to.
    Summary(Summary),
    /// What follows from a comparison.
    Verdict(Verdict),
}

/// A run of the lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The version of the records that follow.
    pub schema_version: u64,
    /// See [`new_run_id`].
    pub run_id: String,
    /// When it began, in UTC as RFC 3339.
    pub started_at: String,
    /// The commit that ran.
    pub git: Git,
    /// What the user calls the run.
    pub tags: Vec<String>,
    /// Where it ran.
    pub machine: Machine,
    /// The binary that ran.
    pub build: BuildInfo,
    /// What the guards found.
    pub guards: Readings,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A benchmark with fixed parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The run that it belongs to.
    pub run_id: String,
    /// Its name, such as `cartpole/host_api_random/n4096/t2`.
    pub case_id: String,
    /// A hash of all that changes what is computed; a series over commits breaks where it changes.
    pub case_version: String,
    /// The suite that it belongs to.
    pub suite: String,
    /// The environment with its version, such as `CartPole-v1`.
    pub env: String,
    /// The agent, where one acts.
    pub agent: Option<String>,
    /// What the timed region contains.
    pub kind: Kind,
    /// What is counted as a step.
    pub unit: Unit,
    /// Counted units per step of an environment.
    pub multiplier: f64,
    /// `n_envs`, `threads`, `chunk` and whatever else was chosen.
    pub params: Map<String, Value>,
    /// What a step means.
    pub semantics: Semantics,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What the timed region of a case contains. Different kinds are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Physics only: actions are supplied and nothing leaves the engine.
    EngineKernel,
    /// Physics, sampling of actions and resets in one compiled loop.
    FusedRandomRollout,
    /// The host language calls `step(actions)` and receives arrays.
    HostApiRandom,
    /// Either rollout with a network that chooses the actions.
    PolicyRollout,
    /// A policy rollout with learning.
    Training,
    /// The decisions of a policy alone; a step is one observation.
    PolicyForward,
    /// Updates of a learner alone; a step is one transition that a gradient was taken of.
    GradientUpdate,
    /// Training from the first weights until evaluations reach what counts as solved; a step is one such run.
    TimeToSolve,
    /// Training summed over independent agents.
    PopulationTraining,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::EngineKernel,
        Self::FusedRandomRollout,
        Self::HostApiRandom,
        Self::PolicyRollout,
        Self::Training,
        Self::PolicyForward,
        Self::GradientUpdate,
        Self::TimeToSolve,
        Self::PopulationTraining,
    ];

    /// Its name in records and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::EngineKernel => "engine_kernel",
            Self::FusedRandomRollout => "fused_random_rollout",
            Self::HostApiRandom => "host_api_random",
            Self::PolicyRollout => "policy_rollout",
            Self::Training => "training",
            Self::PolicyForward => "policy_forward",
            Self::GradientUpdate => "gradient_update",
            Self::TimeToSolve => "time_to_solve",
            Self::PopulationTraining => "population_training",
        }
    }

    /// Whether an agent that learns takes part.
    pub fn learns(self) -> bool {
        matches!(
            self,
            Self::Training | Self::PolicyForward | Self::GradientUpdate | Self::TimeToSolve | Self::PopulationTraining
        )
    }

    /// What is counted as a step.
    pub fn unit(self) -> Unit {
        match self {
            Self::PolicyForward => Unit::Observation,
            Self::GradientUpdate => Unit::Transition,
            Self::TimeToSolve => Unit::Run,
            _ => Unit::EnvStep,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is counted as a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A step of one environment.
    EnvStep,
    /// A frame: several per step with frame-skip.
    Frame,
    /// A step of one agent: several per step of an environment with several agents.
    AgentStep,
    /// An observation that a policy has decided on.
    Observation,
    /// A transition that a gradient was taken of.
    Transition,
    /// A whole run.
    Run,
}

impl Unit {
    /// Several of them, for people.
    pub fn plural(self) -> &'static str {
        match self {
            Self::EnvStep | Self::AgentStep => "steps",
            Self::Frame => "frames",
            Self::Observation => "observations",
            Self::Transition => "transitions",
            Self::Run => "runs",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EnvStep => "env_step",
            Self::Frame => "frame",
            Self::AgentStep => "agent_step",
            Self::Observation => "observation",
            Self::Transition => "transition",
            Self::Run => "run",
        })
    }
}

/// What a step means, beyond the environment itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Semantics {
    /// How episodes restart, such as `next_step`.
    pub autoreset: String,
    /// Whether every observation was written where the caller can read it.
    pub obs_materialised: bool,
    /// The type of the numbers, such as `f32`.
    pub precision: String,
    /// Where actions came from.
    pub action_source: String,
    /// Every how many steps the checksum was taken.
    pub checksum_stride: u64,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// One timed repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The run that it belongs to.
    pub run_id: String,
    /// The case that was timed.
    pub case_id: String,
    /// The side of a comparison; `A` without one.
    pub arm: Arm,
    /// The process that it was taken in, from 0.
    pub process: u64,
    /// The pair that the process belongs to, in a comparison.
    pub pair: Option<u64>,
    /// The order inside the pair.
    pub order: Option<Order>,
    /// Its number inside the process, from 0.
    pub index: u64,
    /// Wall time.
    pub wall_ns: u64,
    /// CPU time of all threads, where the system tells.
    pub cpu_ns: Option<u64>,
    /// Steps, in the unit of the case.
    pub steps: u64,
    /// Proof that the outputs were produced.
    pub checksum: Checksum,
    /// The share of the machine's CPU time stolen meanwhile, where the system tells and the sample was long enough for it:
    /// it counts in steps of 10 ms.
    pub steal: Option<f64>,
    /// Whether it belongs to the steady state.
    pub steady: bool,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Arm {
    /// The base.
    A,
    /// What is compared with it.
    B,
}

/// Which side of a pair ran first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Order {
    /// A, then B.
    Ab,
    /// B, then A.
    Ba,
}

/// 64 bits as 16 hex digits: JSON numbers would lose some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Checksum(pub u64);

/// Text that is not a checksum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no checksum of 16 lower-case hex digits")]
pub struct NoChecksum(pub String);

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Checksum {
    type Err = NoChecksum;

    fn from_str(text: &str) -> Result<Self, NoChecksum> {
        let checksum = u64::from_str_radix(text, 16).map(Self).ok();
        // Only what would be written again: no sign, no capitals, no missing zeros.
        checksum.filter(|checksum| checksum.to_string() == text).ok_or_else(|| NoChecksum(text.to_owned()))
    }
}

impl From<Checksum> for String {
    fn from(checksum: Checksum) -> Self {
        checksum.to_string()
    }
}

impl TryFrom<String> for Checksum {
    type Error = NoChecksum;

    fn try_from(text: String) -> Result<Self, NoChecksum> {
        text.parse()
    }
}

/// What the samples of one arm of a case amount to. Times are in nanoseconds per step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The run that it belongs to; without it, the run above in the same file.
    pub run_id: Option<String>,
    /// The case.
    pub case_id: String,
    /// The side of a comparison; `A` without one.
    pub arm: Arm,
    /// Processes that were measured.
    pub n_processes: u64,
    /// Samples in the steady state.
    pub n_samples: u64,
    /// Samples before it.
    pub discarded: u64,
    /// How the steady state was reached, such as `flat` or `warms_up`.
    pub warmup_class: String,
    /// The median.
    pub t_median: f64,
    /// Total time / total steps.
    pub t_mean: f64,
    /// The 95 % interval around the median, where there are enough samples for one.
    pub ci95: Option<[f64; 2]>,
    /// The standard deviation between processes.
    pub sigma_b: Option<f64>,
    /// The standard deviation within processes.
    pub sigma_w: Option<f64>,
    /// Samples that would tell as much if they were independent.
    pub n_eff: Option<f64>,
    /// Samples far from the others: labelled, never dropped.
    pub outliers: Outliers,
    /// Memory figures by name, in bytes.
    pub memory: Map<String, Value>,
    /// False while more processes are to follow: a later summary of the same case and arm takes its place, unless the
    /// run was ended early. Not there once all have been measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<bool>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Summary {
    /// What the guards had found by the end of what it sums up; older records do not tell.
    pub fn guards(&self) -> Option<Readings> {
        self.extra.get("guards").and_then(|guards| Readings::deserialize(guards).ok())
    }

    /// Units in a second; `None` where the time of one is none, as of a case without samples.
    pub fn rate(&self) -> Option<f64> {
        (self.t_median > 0.0).then(|| 1e9 / self.t_median).filter(|rate| rate.is_finite() && *rate > 0.0)
    }
}

/// Numbers of samples beyond Tukey's fences.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outliers {
    /// Beyond 1.5 interquartile ranges.
    pub mild: u64,
    /// Beyond 3.
    pub severe: u64,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What follows from a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The run that it belongs to; without it, the run above in the same file.
    pub run_id: Option<String>,
    /// The case.
    pub case_id: String,
    /// The strength of the evidence: 1 paired, 2 stored baseline, 3 history.
    pub tier: u64,
    /// The run that was compared with, if it is another one.
    pub baseline_run: Option<String>,
    /// The speed-up: above 1 is faster.
    pub ratio: Option<f64>,
    /// The lower end of its deciding interval.
    pub lo: Option<f64>,
    /// The upper end of its deciding interval.
    pub hi: Option<f64>,
    /// How the interval was found.
    pub method: String,
    /// The margin, in units of the logarithm.
    pub theta: Option<f64>,
    /// The smallest effect that could have been found.
    pub mde: Option<f64>,
    /// The p-value, where the method has one.
    pub p: Option<f64>,
    /// Its name, such as `improved`.
    pub verdict: String,
    /// Why, in a few words.
    pub reason: String,
    /// The exit code that it stands for.
    pub exit_code: u8,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kinds_are_those_of_the_records() {
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert!(serde_json::from_str::<Kind>("\"scaled_frames\"").is_err(), "never stored as a rate");
        for unit in [Unit::EnvStep, Unit::Frame, Unit::AgentStep, Unit::Observation, Unit::Transition, Unit::Run] {
            assert_eq!(serde_json::to_value(unit).unwrap(), unit.to_string());
        }
    }

    #[test]
    fn checksums_keep_all_their_bits() {
        let checksum = Checksum(0x0000_2696_f14a_0326);
        assert_eq!(serde_json::to_string(&checksum).unwrap(), "\"00002696f14a0326\"");
        assert_eq!("00002696f14a0326".parse(), Ok(checksum));
        for text in ["2696f14a0326", "E7F12696F14A0326", "+0002696f14a0326", "e7f12696f14a03261", ""] {
            assert_eq!(text.parse::<Checksum>(), Err(NoChecksum(text.to_owned())));
        }
    }

    #[test]
    fn the_example_of_the_method_is_read_and_written_alike() {
        let line = [
            r#"{"type":"sample","run_id":"01J","case_id":"cartpole/host_api_random/n4096/t2","arm":"B","process":3,"#,
            r#""pair":3,"order":"BA","index":7,"wall_ns":101873344,"cpu_ns":203101220,"steps":29360128,"#,
            r#""checksum":"e7f12696f14a0326","steal":0.002,"steady":true}"#,
        ]
        .concat();
        let record: Record = serde_json::from_str(&line).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), line);
    }

    #[test]
    fn unknown_fields_survive() {
        let line = r#"{"type":"verdict","case_id":"c","tier":1,"ratio":1.0285,"lo":1.0183,"hi":1.0389,
            "method":"student","theta":0.01,"mde":0.0119,"verdict":"improved","reason":"interval above margin",
            "exit_code":0,"rebuilds":[3,18446744073709551615]}"#;
        let record: Record = serde_json::from_str(line).unwrap();
        let Record::Verdict(verdict) = &record else { panic!("a verdict") };
        assert_eq!((verdict.p, verdict.baseline_run.as_ref()), (None, None), "fields may be missing");
        let again = serde_json::to_value(&record).unwrap();
        assert_eq!(again["rebuilds"], serde_json::json!([3, u64::MAX]));
    }
}
