//! What can go wrong where the parts meet.

/// An error of one of the parts, or of putting them together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Parts that do not go together.
    #[error("{0}")]
    Input(String),
    /// The engine refused something.
    #[error(transparent)]
    Engine(#[from] phalanx_core::Error),
    /// The lab refused something or could not do it.
    #[error(transparent)]
    Lab(#[from] phalanx_lab::Error),
    /// Training or evaluation refused something or could not go on.
    #[error(transparent)]
    Learn(#[from] phalanx_learn::Error),
}

/// The result of putting parts together.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Work that cannot go on, as the lab hears of it.
pub fn stopped(error: impl std::fmt::Display) -> phalanx_lab::Error {
    phalanx_lab::Error::Subject(error.to_string())
}

impl Error {
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::Input(message.into())
    }
}
