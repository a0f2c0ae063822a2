//! What can go wrong while learning, as values with data; the message is one sentence for the user.

use std::io;
use std::path::Path;

/// An error of training, evaluation or of their files.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody asked to stop.
    #[error("it was interrupted")]
    Interrupted,
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
    /// A file or a folder that cannot be read.
    #[error("cannot read {path}: {why}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        why: String,
    },
    /// A file or a folder that cannot be written; what was there before is still there.
    #[error("cannot write {path}: {why}")]
    Write {
        /// The file.
        path: String,
        /// What the system says.
        why: String,
    },
    /// A folder of a new run that cannot be made where the user wants it.
    #[error("cannot make the folder {path}: {why}")]
    Place {
        /// The folder.
        path: String,
        /// What the system says.
        why: String,
    },
    /// A file that is not what its name says, or no longer.
    #[error("{path} is no usable {kind}: {why}")]
    Damaged {
        /// The file.
        path: String,
        /// What it should be: `checkpoint`, `configuration`, ...
        kind: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A run or a sweep that another process works on at this moment.
    #[error("{path} is being worked on by another process: wait for it or stop it")]
    Busy {
        /// Its folder.
        path: String,
    },
    /// A checkpoint of other settings than those it should go on with.
    #[error("{path} was made with {key} = {then}, but the run now has {now}")]
    OtherSettings {
        /// The checkpoint.
        path: String,
        /// The first key that differs.
        key: String,
        /// Its value in the checkpoint.
        then: String,
        /// Its value now.
        now: String,
    },
    /// An episode that cannot be drawn.
    #[error("the episode cannot be drawn: {why}")]
    Picture {
        /// What is wrong.
        why: String,
    },
    /// A state in which nothing can be done.
    #[error("state {state} has no legal action")]
    NoLegalAction {
        /// The state.
        state: u64,
    },
    /// A loss or a weight is no longer a number.
    #[error("{what} became {value} at step {global_step}: training cannot go on{}", last_good(.kept))]
    NotFinite {
        /// Which.
        what: String,
        /// What it became.
        value: f64,
        /// After how many steps of all environments.
        global_step: u64,
        /// The step of the last checkpoint in the run's folder, when all was still well.
        kept: Option<u64>,
    },
}

fn last_good(kept: &Option<u64>) -> String {
    kept.map_or(String::new(), |step| format!("; the last good checkpoint, of step {step}, is kept"))
}

/// What the system says, in words of ours where they help more.
pub fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full; what was written before is kept".to_owned()
        }
        io::ErrorKind::FileTooLarge => "the system allows no larger file; what was written before is kept".to_owned(),
        io::ErrorKind::PermissionDenied => "permission is denied".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the disk can only be read".to_owned(),
        io::ErrorKind::NotADirectory => "a part of its path is no folder".to_owned(),
        // Temporary files add their path, which is nobody's.
        _ => {
            let text = error.to_string();
            text.split_once(" at path \"").map_or(text.as_str(), |(said, _)| said).to_owned()
        }
    }
}

/// A result of learning.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A setting that is not allowed.
    pub fn setting(key: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Setting { key: key.into(), why: why.into() }
    }

    /// Refuses a loss, a norm or a weight that is no number.
    pub(crate) fn check_finite(what: &str, value: f64, global_step: u64) -> Result<()> {
        if value.is_finite() {
            return Ok(());
        }
        Err(Self::NotFinite { what: what.to_owned(), value, global_step, kept: None })
    }

    /// Refuses weights of which one is no number.
    pub(crate) fn check_weights(weights: &[f32], global_step: u64) -> Result<()> {
        let wrong = weights.iter().find(|weight| !weight.is_finite());
        wrong.map_or(Ok(()), |weight| Self::check_finite("a weight", f64::from(*weight), global_step))
    }

    /// A file that cannot be read.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Read { path: path.display().to_string(), why: explain(&error) }
    }

    /// A file that cannot be written.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Write { path: path.display().to_string(), why: explain(&error) }
    }

    /// A new folder that cannot be made. A full disk is no fault of the place.
    pub(crate) fn place(folder: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::write(folder)(error),
            _ => Self::Place { path: folder.display().to_string(), why: explain(&error) },
        }
    }

    /// A file that is not what it should be.
    pub(crate) fn damaged(path: &Path, kind: &'static str, why: impl Into<String>) -> Self {
        Self::Damaged { path: path.display().to_string(), kind, why: why.into() }
    }
}
