//! `phalanx._phalanx`: what the Python package has in Rust.
//!
//! Python sees a thin layer of classes (`python/phalanx`) over this module; everything that touches many
//! environments happens here, without the interpreter's lock.
//!
//! No state is shared between environments: each has its batch, its arrays and its threads behind a mutex of its own, and
//! its random numbers are functions of its seed. What a process has once, for all of them:
//!
//! - the counts of the allocator (`lab`), atomic, which only tests and the lab's memory figures read;
//! - tables that are computed when they are first needed and never change (the perfect moves of tic-tac-toe);
//! - the list of environments, behind a lock: a crate with environments of its own adds to it when its module is loaded, and
//!   an entry never changes;
//! - per thread, whether a thread is at work in a pool, so that pools do not wait for each other;
//! - the lab's open logs, of which a process of Python has none unless it asks for one;
//! - the module's classes and interned names, and NumPy's table of functions, which PyO3 and `numpy` fill once under
//!   their own locks.

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
mod signals;

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
