//! Why the program ends without success.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use phalanx_lab::Error as Lab;
use phalanx_lab::stats::verdict::Verdict;
use phalanx_learn::explain;

use crate::config_file::Origin;

/// A reason to stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The input is wrong.
    #[error("{0}")]
    Input(String),
    /// The engine refused the input.
    #[error(transparent)]
    Engine(#[from] phalanx_core::Error),
    /// The engine refused something that a file holds.
    #[error("{path}: {error}")]
    File { path: String, error: phalanx_core::Error },
    /// The lab refused something or could not do it.
    #[error(transparent)]
    Lab(#[from] phalanx_lab::Error),
    /// Training or evaluation refused something or could not go on.
    #[error(transparent)]
    Learn(#[from] phalanx_learn::Error),
    /// A training that had begun could not go on.
    #[error("{error}; {} has {kept}", run.display())]
    Training { error: Box<phalanx_learn::Error>, run: PathBuf, kept: String },
    /// Done, but the answer is one that a gate should hear of; it has been printed.
    #[error("exit code {0}")]
    Verdict(u8),
    /// Writing failed.
    #[error("cannot write {what}: {}", explain(.error))]
    Write { what: String, error: io::Error },
    /// Whoever read our output has gone.
    #[error("the reader of the output has gone")]
    ClosedPipe,
    /// Help or the version was asked for.
    #[error("{0}")]
    Help(clap::Error),
}

impl From<phalanx_workbench::Error> for Failure {
    fn from(error: phalanx_workbench::Error) -> Self {
        match error {
            phalanx_workbench::Error::Engine(error) => error.into(),
            phalanx_workbench::Error::Lab(error) => error.into(),
            phalanx_workbench::Error::Learn(error) => error.into(),
            other => Self::Input(other.to_string()),
        }
    }
}

impl Failure {
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::Input(message.into())
    }

    /// A picture that cannot be drawn, such as one too large for its format.
    pub(crate) fn picture(error: phalanx_render::Error) -> Self {
        Self::Input(error.to_string())
    }

    /// Says in which file a name stands that the engine does not know, if it comes from one.
    pub(crate) fn attributed(self, origin: &Origin) -> Self {
        let Self::Engine(error) = self else { return self };
        let path = match &error {
            phalanx_core::Error::UnknownName { name, .. } => origin.of(name),
            _ => None,
        };
        match path {
            Some(path) => Self::File { path: path.to_owned(), error },
            None => Self::Engine(error),
        }
    }

    /// A failed write to standard output; a closed pipe is not a failure.
    pub(crate) fn stdout(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::ClosedPipe;
        }
        Self::Write { what: "to standard output".to_owned(), error }
    }

    pub(crate) fn report(self) -> ExitCode {
        let code = self.exit_code();
        match self {
            Self::ClosedPipe | Self::Verdict(_) => {}
            Self::Help(error) => {
                // Printing help can only fail for want of a reader.
                let _ = error.print();
            }
            _ => say!("error: {self}"),
        }
        ExitCode::from(code)
    }

    /// What the table in `main.rs` says.
    fn exit_code(&self) -> u8 {
        match self {
            Self::ClosedPipe | Self::Help(_) => 0,
            Self::Verdict(code) => *code,
            Self::Write { .. } => 1,
            Self::Learn(phalanx_learn::Error::Write { .. } | phalanx_learn::Error::NotFinite { .. }) => 1,
            Self::Training { .. } => 1,
            Self::Lab(Lab::ChecksumMismatch { .. }) => Verdict::ChecksumMismatch.exit_code(true),
            // The user asked for something sensible, and it went wrong on the way.
            Self::Lab(
                Lab::Write { .. }
                | Lab::Worker { .. }
                | Lab::Profile(_)
                | Lab::Interrupt(_)
                | Lab::Subject(_)
                | Lab::OutOfMemory { .. },
            ) => 1,
            Self::Input(_) | Self::Engine(_) | Self::Lab(_) | Self::Learn(_) | Self::File { .. } => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_outside_of_the_input_is_told_apart() {
        let worker = Lab::Worker { binary: "phalanx".into(), reason: "it was killed".to_owned() };
        for (failure, code) in [
            (Failure::from(worker), 1),
            (Lab::OutOfMemory { bytes: 1e12 }.into(), 1),
            (Lab::Profile("no timer".to_owned()).into(), 1),
            (Lab::Tag { tag: "a/b".to_owned() }.into(), 2),
            (Failure::input("wrong"), 2),
            (Lab::ChecksumMismatch { case: String::new(), a: String::new(), b: String::new() }.into(), 14),
            (Failure::ClosedPipe, 0),
        ] {
            assert_eq!(failure.exit_code(), code, "{failure}");
        }
    }
}
