//! Cases: what is measured, with every parameter that changes what is computed or how fast.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::hash;
use crate::record::{self, Kind, Semantics};

/// A benchmark with fixed parameters, as a worker process receives it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CaseSpec {
    /// The environment's name.
    pub env: String,
    /// Parameters and options of the environment.
    pub settings: Vec<(String, String)>,
    /// What acts: `random`, another policy, or an agent that learns.
    pub agent: String,
    /// Arguments of the policy. Settings of an agent that learns are among those of the environment, with their section
    /// (`agent.hidden`), so that the name of a case tells all of them apart.
    pub agent_args: Vec<(String, String)>,
    /// What the timed region contains.
    pub kind: Kind,
    /// Number of environments.
    pub num_envs: usize,
    /// Threads that share the work.
    pub threads: usize,
    /// Steps that a block of environments makes before the next is touched.
    pub scan_chunk_size: usize,
    /// Environments side by side in one instruction; 0 lets the engine choose.
    pub lanes: usize,
    /// Environments that go through a chunk together where steps go by rows; 0 lets the engine choose.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tile: usize,
    /// What follows when a constraint is violated.
    pub safety: String,
    /// How episodes restart.
    pub autoreset: Autoreset,
    /// Seed of all randomness.
    pub seed: u64,
}

/// A case that cannot be read, and the part of it that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// A part that means nothing.
    #[error(
        "the case '{case}' has the part '{part}', but a case is an environment, then a kind, nENVS, tTHREADS, kCHUNK, eTILE, \
         safety-MODE, key=value or a policy, such as CartPole-v1/fused_random_rollout/n4096/t1"
    )]
    Part {
        /// Which.
        part: String,
        /// All of it.
        case: String,
    },
    /// A part that is nearly a kind.
    #[error("the case '{case}' has the unknown kind '{part}'; did you mean '{nearest}'?")]
    Kind {
        /// What the user wrote.
        part: String,
        /// All of it.
        case: String,
        /// What the user may have meant.
        nearest: Kind,
    },
    /// A part of which there is one already.
    #[error("the case '{case}' has the part '{part}' after another of its kind: leave out one of them")]
    Twice {
        /// The second.
        part: String,
        /// All of it.
        case: String,
    },
    /// A number of environments, threads or steps that is none.
    #[error("the case '{case}' has the part '{part}', but the number after '{letter}' must be at least 1 and whole")]
    Size {
        /// What the user wrote.
        part: String,
        /// All of it.
        case: String,
        /// What it begins with.
        letter: char,
    },
}

/// How episodes restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Autoreset {
    /// In the step that ends an episode.
    SameStep,
    /// In the step after, which counts for nothing else.
    NextStep,
}

/// Agents that learn, which cases of other kinds are about: those of `phalanx-learn`, which the lab does not know. Whoever
/// knows both tests that they are the same.
pub const LEARNERS: [&str; 8] =
    ["ppo", "dqn", "pqn", "q_learning", "sarsa", "expected_sarsa", "double_q", "tabular-fast"];

/// Every how many steps a host-API case takes its checksum; roll-outs take it every step.
pub const HOST_API_STRIDE: u64 = 64;

impl CaseSpec {
    /// A random roll-out of `num_envs` environments on one thread; the rest as the rule of thumb says.
    pub fn rollout(env: &str, num_envs: usize) -> Self {
        Self {
            env: env.to_owned(),
            settings: Vec::new(),
            agent: "random".to_owned(),
            agent_args: Vec::new(),
            kind: Kind::FusedRandomRollout,
            num_envs,
            threads: 1,
            scan_chunk_size: rule_of_thumb(num_envs),
            lanes: 0,
            tile: 0,
            safety: "enforce".to_owned(),
            autoreset: Autoreset::SameStep,
            seed: 0,
        }
    }

    /// Steps of a host program that calls `step` with random actions.
    pub fn host_api(env: &str, num_envs: usize) -> Self {
        Self { kind: Kind::HostApiRandom, autoreset: Autoreset::NextStep, ..Self::rollout(env, num_envs) }
    }

    /// Training with an agent that learns; its settings are those of its preset.
    pub fn training(env: &str, agent: &str, num_envs: usize) -> Self {
        Self { kind: Kind::Training, agent: agent.to_owned(), ..Self::rollout(env, num_envs) }
    }

    /// Its name in records: environment, kind, and what is not as [`CaseSpec::rollout`] has it.
    pub fn id(&self) -> String {
        let mut id = format!("{}/{}/n{}/t{}", self.env, self.kind, self.num_envs, self.threads);
        if self.scan_chunk_size != rule_of_thumb(self.num_envs) {
            id += &format!("/k{}", self.scan_chunk_size);
        }
        if self.tile != 0 {
            id += &format!("/e{}", self.tile);
        }
        if self.agent != "random" {
            id += &format!("/{}", self.agent);
        }
        if self.safety != "enforce" {
            id += &format!("/safety-{}", self.safety);
        }
        let pairs = self.settings.iter().chain(&self.agent_args);
        pairs.fold(id, |id, (key, value)| format!("{id}/{key}={value}"))
    }

    /// The case of an id: an environment, then any of a kind, `n`, `t`, `k` and `e` with a number (environments, threads,
    /// chunk, tile), `safety-` with a mode, `key=value` for a setting, and a policy.
    ///
    /// # Errors
    ///
    /// [`CaseError`] with the first part that is wrong; whether environment and policy exist is not known here.
    pub fn parse(text: &str) -> Result<Self, CaseError> {
        let wrong = |part: &str| CaseError::Part { part: part.to_owned(), case: text.to_owned() };
        let mut parts = text.split('/');
        let env = parts.next().filter(|env| !env.is_empty()).ok_or_else(|| wrong(text))?;
        let mut case = Self::rollout(env, 4096);
        let mut chunk = None;
        let mut said = BTreeSet::new();
        let mut once = |what: &'static str, part: &str| match said.insert(what) {
            true => Ok(()),
            false => Err(CaseError::Twice { part: part.to_owned(), case: text.to_owned() }),
        };
        for part in parts {
            if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == part) {
                once("kind", part)?;
                case.kind = kind;
                if kind == Kind::HostApiRandom {
                    case.autoreset = Autoreset::NextStep;
                }
            } else if let Some((letter, digits)) = size(part) {
                let number = digits.parse().ok().filter(|number: &usize| *number > 0);
                let error = || CaseError::Size { part: part.to_owned(), case: text.to_owned(), letter };
                let number = number.ok_or_else(error)?;
                let (name, field) = match letter {
                    'n' => ("envs", &mut case.num_envs),
                    't' => ("threads", &mut case.threads),
                    'e' => ("tile", &mut case.tile),
                    _ => ("chunk", chunk.insert(number)),
                };
                once(name, part)?;
                *field = number;
            } else if let Some(mode) = part.strip_prefix("safety-") {
                once("safety", part)?;
                case.safety = mode.to_owned();
            } else if let Some((key, value)) = part.split_once('=') {
                case.settings.push((key.to_owned(), value.to_owned()));
            } else if let Some(nearest) = nearest_kind(part) {
                return Err(CaseError::Kind { part: part.to_owned(), case: text.to_owned(), nearest });
            } else if part.starts_with(|c: char| c.is_ascii_alphabetic()) {
                once("agent", part)?;
                case.agent = part.to_owned();
                if case.kind == Kind::FusedRandomRollout && part != "random" {
                    case.kind = if LEARNERS.contains(&part) { Kind::Training } else { Kind::PolicyRollout };
                }
            } else {
                return Err(wrong(part));
            }
        }
        case.scan_chunk_size = chunk.unwrap_or_else(|| rule_of_thumb(case.num_envs));
        Ok(case)
    }

    /// A hash of everything above; a series breaks where it changes.
    pub fn version(&self) -> String {
        hash::of_value(self).expect("a case is plain data")
    }

    /// Its record.
    pub fn record(&self, run_id: &str, suite: &str) -> record::Case {
        let Value::Object(mut params) = json!({
            "n_envs": self.num_envs,
            "threads": self.threads,
            "chunk": self.scan_chunk_size,
            "lanes": self.lanes,
            "safety": self.safety,
            "seed": self.seed,
        }) else {
            unreachable!("an object")
        };
        if !is_zero(&self.tile) {
            params.insert("tile".to_owned(), json!(self.tile));
        }
        params.extend(self.settings.iter().chain(&self.agent_args).map(|(key, value)| (key.clone(), json!(value))));
        let host_api = self.kind == Kind::HostApiRandom;
        let mut checksum_kind = Map::new();
        checksum_kind.insert(
            "checksum_kind".to_owned(),
            json!(if host_api || self.kind.learns() { "mix64" } else { "lanes32" }),
        );
        record::Case {
            run_id: run_id.to_owned(),
            case_id: self.id(),
            case_version: self.version(),
            suite: suite.to_owned(),
            env: self.env.clone(),
            agent: Some(self.agent.clone()),
            kind: self.kind,
            unit: self.kind.unit(),
            multiplier: 1.0,
            params,
            semantics: Semantics {
                autoreset: match self.autoreset {
                    Autoreset::SameStep => "same_step",
                    Autoreset::NextStep => "next_step",
                }
                .to_owned(),
                obs_materialised: host_api,
                precision: "f32".to_owned(),
                action_source: if host_api { "caller" } else { &self.agent }.to_owned(),
                checksum_stride: if host_api { HOST_API_STRIDE } else { 1 },
                extra: checksum_kind,
            },
            extra: Map::new(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The letter and what follows, if the part of a case is meant for a number: no policy begins like this.
fn size(part: &str) -> Option<(char, &str)> {
    let letter = part.chars().next().filter(|letter| "ntke".contains(*letter))?;
    let digits = &part[1..];
    digits
        .chars()
        .next()
        .is_none_or(|first| first.is_ascii_digit() || "+-.".contains(first))
        .then_some((letter, digits))
}

/// The kind that a name is nearly; policies are far from all of them.
fn nearest_kind(name: &str) -> Option<Kind> {
    const NEAR: f64 = 0.8;
    let likeness = |kind: &Kind| strsim::jaro_winkler(&name.to_lowercase(), kind.name());
    let nearest = Kind::ALL.into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&nearest) > NEAR).then_some(nearest)
}

/// A chunk size for those who have not tuned it. Ours stay large for longer than Myriad's: a block's state and
/// outputs do not grow with the chunk, so a large one costs no memory.
pub fn rule_of_thumb(num_envs: usize) -> usize {
    match num_envs {
        0..10_000 => 256,
        10_000..=1_100_000 => 128,
        _ => 32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_what_is_unusual() {
        let case = CaseSpec::rollout("CartPole-v1", 4096);
        assert_eq!(case.id(), "CartPole-v1/fused_random_rollout/n4096/t1");
        let case = CaseSpec {
            scan_chunk_size: 8,
            agent: "pid".to_owned(),
            settings: vec![("gravity".to_owned(), "9".to_owned())],
            ..CaseSpec::host_api("CartPole-v1", 4096)
        };
        assert_eq!(case.id(), "CartPole-v1/host_api_random/n4096/t1/k8/pid/gravity=9");
    }

    #[test]
    fn ids_are_read_back() {
        for id in [
            "CartPole-v1/fused_random_rollout/n4096/t1",
            "Pendulum-v1/host_api_random/n100/t2/k7/g=9.5",
            "ChemicalReactor-v0/policy_rollout/n64/t1/pid/safety-off",
            "CartPole-v1/training/n2048/t2/k16/ppo/run.rollout_steps=16",
            "ARC-v0/fused_random_rollout/n4096/t1/e512/canvas=5",
        ] {
            assert_eq!(CaseSpec::parse(id).unwrap().id(), id);
        }
        assert_eq!(CaseSpec::parse("CartPole-v1/n8/dqn").unwrap(), CaseSpec::training("CartPole-v1", "dqn", 8));
        assert_eq!(CaseSpec::parse("CartPole-v1").unwrap(), CaseSpec::rollout("CartPole-v1", 4096));
        for wrong in ["", "CartPole-v1/", "CartPole-v1/7", "CartPole-v1/n4096/-"] {
            assert!(CaseSpec::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mistyped_kinds_and_sizes_are_no_policies() {
        let error = |case: &str| CaseSpec::parse(case).unwrap_err().to_string();
        for (wrong, meant) in [
            ("fused_random_rolout", "fused_random_rollout"),
            ("random_rollout", "fused_random_rollout"),
            ("Host_API_random", "host_api_random"),
            ("policy-rollout", "policy_rollout"),
        ] {
            let said = error(&format!("CartPole-v1/{wrong}/n4096/t1"));
            assert!(said.contains(&format!("unknown kind '{wrong}'; did you mean '{meant}'?")), "{said}");
        }
        for wrong in ["n0", "t0", "k0", "n-4", "n4o96", "n", "t1.5", "n99999999999999999999"] {
            let said = error(&format!("CartPole-v1/{wrong}"));
            assert!(said.contains(&format!("the part '{wrong}', but the number after")), "{said}");
        }
        for policy in ["random", "constant", "open_loop", "periodic", "bangbang", "pid", "tabular", "none"] {
            assert_eq!(CaseSpec::parse(&format!("CartPole-v1/{policy}")).unwrap().agent, policy);
        }
    }

    #[test]
    fn versions_differ_where_cases_do() {
        let case = CaseSpec::rollout("CartPole-v1", 4096);
        assert_eq!(case.version(), case.clone().version());
        assert_ne!(case.version(), CaseSpec { seed: 1, ..case.clone() }.version());
        assert_ne!(case.version(), CaseSpec { threads: 2, ..case.clone() }.version());
    }
}
