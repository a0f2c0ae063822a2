//! `phalanx._phalanx`: what the Python package has in Rust.
//!
//! Python sees a thin layer of classes (`python/phalanx`) over this module; everything that touches many
//! environments happens here, without the interpreter's lock.

// The functions of the module are documented where Python users look: in the stubs and the Python classes.
#![allow(missing_docs)]

mod actions;
mod engine;
mod error;
mod frame;
mod info;
mod memory;
mod recipe;
mod render;
mod rollout;

use pyo3::prelude::*;

/// The native half of the `phalanx` package.
#[pymodule]
fn _phalanx(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    engine::register(module)?;
    Ok(())
}
