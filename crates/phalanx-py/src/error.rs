//! The one mapping from errors of the engine to exceptions of Python.

use phalanx_core::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyAttributeError, PyFileNotFoundError, PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The exception that tells of an error of the engine.
pub(crate) fn to_python(error: Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::UnknownName { kind: "environment", .. } => gymnasium("NameNotFound", message),
        // Keywords of a constructor; names elsewhere are values like others.
        Error::UnknownName { kind: "parameter" | "option", .. } => PyTypeError::new_err(message),
        Error::ActionKind { .. } => PyTypeError::new_err(message),
        Error::NotFound(_) => PyFileNotFoundError::new_err(message),
        Error::System(_) => PyOSError::new_err(message),
        Error::ResetNeeded { .. } => gymnasium("ResetNeeded", message),
        _ => PyValueError::new_err(message),
    }
}

/// The exception where a name is asked of an environment as one of its attributes.
pub(crate) fn no_attribute(error: Error) -> PyErr {
    match error {
        Error::UnknownName { .. } => PyAttributeError::new_err(error.to_string()),
        other => to_python(other),
    }
}

/// An exception of `gymnasium.error`.
pub(crate) fn gymnasium(class: &str, message: impl Into<String>) -> PyErr {
    let message = message.into();
    Python::attach(|py| {
        let class = py.import("gymnasium.error").and_then(|module| module.getattr(class));
        match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
            Ok(class) => PyErr::from_type(class, message),
            Err(error) => error,
        }
    })
}
