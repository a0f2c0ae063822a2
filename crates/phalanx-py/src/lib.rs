//! `phalanx._phalanx`: what the Python package has in Rust.
//!
//! Python sees a thin layer of classes (`python/phalanx`) over this module; everything that touches many
//! environments happens here, without the interpreter's lock.

// The functions of the module are documented where Python users look: in the stubs and the Python classes.
#![allow(missing_docs)]

mod actions;
mod autotune;
mod engine;
mod error;
mod frame;
mod info;
mod lab;
mod learn;
mod memory;
mod recipe;
mod render;
mod rollout;

use pyo3::prelude::*;

/// The native half of the `phalanx` package.
// Free-threaded builds have not been tested yet, so they run this module with the lock.
#[pymodule(gil_used = true)]
fn _phalanx(module: &Bound<'_, PyModule>) -> PyResult<()> {
    populate(module)
}

/// Puts all of it into a module, which may be one of somebody else: with environments of their own in the registry, their
/// crate has the same classes for them (`examples/custom-env`).
pub fn populate(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    engine::register(module)?;
    autotune::register(module)?;
    lab::register(module)?;
    learn::register(module)?;
    Ok(())
}
