//! Environments as Python sees them.

use phalanx_envs::registry;
use pyo3::prelude::*;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(env_ids, module)?)?;
    Ok(())
}

/// The names of all environments.
#[pyfunction]
fn env_ids() -> Vec<&'static str> {
    registry::ENTRIES.iter().map(|entry| entry.spec().name).collect()
}
