//! Why the program ends without success.

use std::io;
use std::process::ExitCode;

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
    /// Writing failed.
    #[error("cannot write {what}: {error}")]
    Write { what: String, error: io::Error },
    /// Whoever read our output has gone.
    #[error("the reader of the output has gone")]
    ClosedPipe,
    /// Help or the version was asked for.
    #[error("{0}")]
    Help(clap::Error),
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
        match self {
            Self::ClosedPipe => ExitCode::SUCCESS,
            Self::Help(error) => {
                // Printing help can only fail for want of a reader.
                let _ = error.print();
                ExitCode::SUCCESS
            }
            Self::Write { .. } => {
                eprintln!("error: {self}");
                ExitCode::from(1)
            }
            Self::Input(_) | Self::Engine(_) | Self::File { .. } => {
                eprintln!("error: {self}");
                ExitCode::from(2)
            }
        }
    }
}
