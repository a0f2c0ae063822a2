//! What can go wrong while learning, as values with data; the message is one sentence for the user.

/// An error of training, evaluation or of their files.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the engine or of an environment's configuration.
    #[error(transparent)]
    Engine(#[from] phalanx_core::error::Error),
    /// A checkpoint lacks something.
    #[error("the checkpoint has no '{name}'")]
    Missing {
        /// What it lacks.
        name: String,
    },
    /// An array of a checkpoint is not what the agent needs.
    #[error("'{name}' of the checkpoint is {found}, but {expected} is needed")]
    Shape {
        /// The array.
        name: String,
        /// Its type and shape.
        found: String,
        /// Those that are needed.
        expected: String,
    },
    /// A value of a checkpoint is not what the agent needs.
    #[error("'{name}' of the checkpoint cannot be read: {why}")]
    Value {
        /// The value.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A setting that is not allowed, or not with the others.
    #[error("{key} {why}")]
    Setting {
        /// The key, dotted.
        key: String,
        /// What is wrong and what is allowed: `is 7, but must be ...`.
        why: String,
    },
    /// A state in which nothing can be done.
    #[error("state {state} has no legal action")]
    NoLegalAction {
        /// The state.
        state: u64,
    },
    /// A loss or a weight is no longer a number.
    #[error("{what} became {value} at step {global_step}: training cannot go on")]
    NotFinite {
        /// Which.
        what: String,
        /// What it became.
        value: f64,
        /// After how many steps of all environments.
        global_step: u64,
    },
}

/// A result of learning.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A setting that is not allowed.
    pub fn setting(key: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Setting { key: key.into(), why: why.into() }
    }
}
