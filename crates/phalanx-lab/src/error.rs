//! What can go wrong in the lab, as values with data; the message is one sentence for the user.

use std::io;
use std::path::{Path, PathBuf};

use crate::baseline_file::MAX_TAG;
use crate::format::{excerpt, format_bytes};

/// An error of the lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or a folder cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file or a folder cannot be written.
    #[error("cannot write {}: {}", .path.display(), explain(.error))]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file where a folder should be.
    #[error("{} is not a folder", .path.display())]
    NotAFolder {
        /// Which.
        path: PathBuf,
    },
    /// A folder that cannot be made or written to.
    #[error("cannot use the folder {}: {}", .path.display(), explain(.error))]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A value that JSON cannot carry, such as a number that is not finite.
    #[error("cannot record this {what}: {error}")]
    NotRecordable {
        /// What should have been written.
        what: &'static str,
        /// Why it would not be read again.
        error: serde_json::Error,
    },
    /// A tag that could not be part of a file name.
    #[error("the tag is '{}', but must be 1 to {MAX_TAG} of A-Z, a-z, 0-9, '.', '_' and '-'", excerpt(.tag))]
    Tag {
        /// What the user wrote.
        tag: String,
    },
    /// A time that has no name in our calendar.
    #[error("the time is {unix_seconds} s after 1970 began, but must be in the years 1970 to 9999")]
    Time {
        /// When.
        unix_seconds: f64,
    },
    /// Text that is not a table of comma-separated values.
    #[error("line {line}: {why}")]
    Csv {
        /// Where, from 1.
        line: usize,
        /// What is wrong there.
        why: String,
    },
    /// A process that should have measured something.
    #[error("{} as a worker: {reason}", .binary.display())]
    Worker {
        /// Which binary.
        binary: PathBuf,
        /// What it said.
        reason: String,
    },
    /// A binary that is something else.
    #[error(
        "{} does not answer as a phalanx binary of this version would: it is another program, or too old or too new",
        .binary.display()
    )]
    NotAWorker {
        /// Which binary.
        binary: PathBuf,
    },
    /// Two sides of a comparison that computed different things.
    #[error("{case}: the checksums differ ({a} and {b}), so the two sides did not compute the same")]
    ChecksumMismatch {
        /// The case.
        case: String,
        /// The checksum of A.
        a: String,
        /// The checksum of B.
        b: String,
    },
    /// A file that cannot be used.
    #[error("cannot use {}: {reason}", .path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file that holds no results of the lab.
    #[error(
        "{} holds no results: there is neither a rate nor memory nor a library among {}",
        .path.display(), excerpt(&.columns.join(", "))
    )]
    UnknownTable {
        /// Which.
        path: PathBuf,
        /// What it holds.
        columns: Vec<String>,
    },
    /// A column that a table does not have.
    #[error("the table has no column '{column}', only {}", excerpt(&.known.join(", ")))]
    UnknownColumn {
        /// What was asked for.
        column: String,
        /// What exists.
        known: Vec<String>,
    },
    /// Memory that the system does not have.
    #[error("the system has no {} of memory", format_bytes(*.bytes))]
    OutOfMemory {
        /// How much was asked for.
        bytes: f64,
    },
    /// Every chunk size needs more memory than there is.
    #[error(
        "No valid chunk_size: {num_envs} environments of {env} under {agent} need {}, but the memory budget is {}; \
         lower num_envs{}, take a lighter agent (random, pid){} or a machine with more memory",
        format_bytes(*.needed_bytes),
        format_bytes(*.budget_bytes),
        if *.most_envs > 0 { format!(" (at most {most_envs} fit)") } else { String::new() },
        if *.buffer_size > 0 { format!(", a buffer_size below {buffer_size}") } else { String::new() },
    )]
    NoValidChunkSize {
        /// Environments.
        num_envs: usize,
        /// Of which kind.
        env: String,
        /// The agent.
        agent: String,
        /// Transitions in its replay buffer.
        buffer_size: u64,
        /// What the smallest chunk size needs.
        needed_bytes: f64,
        /// What may be taken.
        budget_bytes: f64,
        /// Environments that would fit.
        most_envs: usize,
    },
    /// No number of environments fits into memory.
    #[error(
        "No valid num_envs: {num_envs} environment{} of {env} under {agent} need{} at least {}{}, but the memory budget \
         is {}; raise the memory budget, or take {}a lighter agent (random, pid) or a machine with more memory",
        if *.num_envs == 1 { "" } else { "s" },
        if *.num_envs == 1 { "s" } else { "" },
        format_bytes(*.needed_bytes),
        if *.buffer_size > 0 {
            format!(", of which {} are for a replay buffer of {buffer_size} transitions", format_bytes(*.buffer_bytes))
        } else {
            String::new()
        },
        format_bytes(*.budget_bytes),
        if *.buffer_size > 0 { format!("a buffer_size below {buffer_size}, ") } else { String::new() },
    )]
    NoValidNumEnvs {
        /// The fewest environments that were thought of.
        num_envs: usize,
        /// Of which kind.
        env: String,
        /// The agent.
        agent: String,
        /// Transitions in its replay buffer.
        buffer_size: u64,
        /// What these take.
        buffer_bytes: f64,
        /// What all of it needs.
        needed_bytes: f64,
        /// What may be taken.
        budget_bytes: f64,
    },
    /// What is measured could not go on.
    #[error("{0}")]
    Subject(String),
    /// A profile that could not be taken.
    #[error("cannot take a CPU profile: {0}")]
    Profile(String),
    /// Signals that cannot be listened to.
    #[error("cannot listen for an interrupt: {0}")]
    Interrupt(io::Error),
}

/// The result of the lab's file calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the system says: of a disk that takes no more in the words of `phalanx_learn`, which stands beside the lab, and
/// without the path that temporary files add, which is nobody's.
fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full; what was written before is kept".to_owned()
        }
        io::ErrorKind::FileTooLarge => "the system allows no larger file; what was written before is kept".to_owned(),
        _ => {
            let text = error.to_string();
            text.split_once(" at path \"").map_or(text.as_str(), |(said, _)| said).to_owned()
        }
    }
}

impl Error {
    /// For `map_err` on reading `path`.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |error| Self::Read { path: path.to_owned(), error }
    }

    /// For `map_err` on writing `path`.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |error| Self::Write { path: path.to_owned(), error }
    }
}
