//! What can go wrong, as values with data; the message is one sentence for the user.

use std::fmt::Display;

/// An error of the engine or of an environment's configuration.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name is not in a list of names.
    #[error("unknown {kind} '{name}'{}; {}", .context.as_deref().map(|c| format!(" for {c}")).unwrap_or_default(), suggestion(.name, .known))]
    UnknownName {
        /// What was looked up: `environment`, `policy`, `parameter`, ...
        kind: &'static str,
        /// What the user wrote.
        name: String,
        /// For what it was looked up, if that helps.
        context: Option<String>,
        /// What exists.
        known: Vec<String>,
    },
    /// A value is outside of what is allowed.
    #[error("{what} is {value}, but must be {allowed}")]
    OutOfRange {
        /// What has the value.
        what: String,
        /// The value, as the user would write it.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// Parameters that do not go together.
    #[error("the parameters of {env} do not go together: {why}")]
    Inconsistent {
        /// The environment.
        env: String,
        /// Which, and why.
        why: String,
    },
    /// A state that cannot come about.
    #[error("the state of {env} is impossible: {why}")]
    ImpossibleState {
        /// The environment.
        env: String,
        /// What is wrong with it.
        why: String,
    },
    /// A slice has the wrong length.
    #[error("{what} has {actual} elements, but {expected} are needed")]
    Length {
        /// The slice.
        what: String,
        /// Elements it has.
        actual: usize,
        /// Elements it should have.
        expected: usize,
    },
    /// Actions of the wrong kind for the action space.
    #[error("{env} takes {expected} actions, but {actual} ones were given")]
    ActionKind {
        /// The environment.
        env: String,
        /// The kind its action space has.
        expected: &'static str,
        /// The kind that was given.
        actual: &'static str,
    },
    /// An environment whose episode has ended was stepped with autoreset disabled.
    #[error("environment {env} has ended its episode and autoreset is disabled: reset it first")]
    ResetNeeded {
        /// The first such environment.
        env: usize,
    },
    /// An environment that cannot be set up as asked; the environment says why.
    #[error("{0}")]
    Setup(String),
    /// A file or folder that is not there.
    #[error("{0}")]
    NotFound(String),
    /// What the system does not give: threads, for instance.
    #[error("{0}")]
    System(String),
    /// Bytes that are no snapshot, or one of something else.
    #[error("snapshot {0}")]
    Snapshot(String),
}

/// The result of engine calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A name that is not among the known ones.
    pub fn unknown<S: ToString>(
        kind: &'static str,
        name: &str,
        context: Option<&str>,
        known: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::UnknownName {
            kind,
            name: name.to_owned(),
            context: context.map(str::to_owned),
            known: known.into_iter().map(|k| k.to_string()).collect(),
        }
    }

    /// A value outside of what is allowed.
    pub fn out_of_range(what: impl Into<String>, value: impl Display, allowed: impl Into<String>) -> Self {
        Self::OutOfRange { what: what.into(), value: value.to_string(), allowed: allowed.into() }
    }
}

/// "did you mean ...?" for a near miss, else the list of names.
fn suggestion(name: &str, known: &[String]) -> String {
    if known.is_empty() {
        return "there are none".to_owned();
    }
    let all = format!("known: {}", quoted(known).join(", "));
    match did_you_mean(name, known) {
        None => all,
        Some(question) => format!("{question} ({all})"),
    }
}

fn quoted<S: AsRef<str>>(names: &[S]) -> Vec<String> {
    names.iter().map(|name| format!("'{}'", name.as_ref())).collect()
}

/// `did you mean 'this' or 'that'?`, for a name that is like some that are known.
pub fn did_you_mean<S: AsRef<str>>(name: &str, known: &[S]) -> Option<String> {
    let lower = name.to_lowercase();
    // Short names with two letters exchanged have little in common by that measure, and are near all the same.
    let similarity = |known: String| match strsim::osa_distance(&lower, &known) {
        1 if known.len() > 2 => 1.0,
        _ => strsim::jaro_winkler(&lower, &known),
    };
    let scored = known.iter().map(|known| (similarity(known.as_ref().to_lowercase()), known.as_ref()));
    let mut near: Vec<(f64, &str)> = scored.filter(|(score, _)| *score > 0.75).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let best: Vec<&str> = near.iter().take(3).map(|(_, name)| *name).collect();
    (!best.is_empty()).then(|| format!("did you mean {}?", quoted(&best).join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn an_unknown_name_comes_with_the_nearest_ones() {
        let message = Error::unknown("environment", "cartpol", None, ["CartPole-v1", "Acrobot-v1"]).to_string();
        assert!(message.starts_with("unknown environment 'cartpol'; did you mean 'CartPole-v1'?"), "{message}");
        let message = Error::unknown("policy", "zzz", Some("CartPole-v1"), ["random", "pid"]).to_string();
        assert_eq!(message, "unknown policy 'zzz' for CartPole-v1; known: 'random', 'pid'");
        let message = Error::unknown("policy", "pdi", None, ["random", "pid"]).to_string();
        assert!(message.starts_with("unknown policy 'pdi'; did you mean 'pid'?"), "{message}");
    }
}
