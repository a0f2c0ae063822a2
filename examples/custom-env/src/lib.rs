//! An environment of one's own for Phalanx, registered beside the built-in ones, in a Python module of its own.

mod room_heating;

use phalanx_core::Result;
use phalanx_envs::draw;
use phalanx_envs::registry::{self, Entry};

pub use room_heating::RoomHeating;

/// Makes everything that finds environments by name find ours too. Call it once.
pub fn register() -> Result<()> {
    registry::register(Entry::lane::<RoomHeating>(
        &["room-heating"],
        // Any environment with named observations can be drawn so; a picture of its own is a function as well.
        draw::chart_of_observations,
        "minus the distance from the target in kelvin, minus the price of heating; ends where it is far too cold or hot",
    ))
}

/// `room_heating._room_heating`: all that `phalanx._phalanx` has, and our environment in its registry.
#[cfg(feature = "python")]
// Free-threaded builds have not been tested yet, so they run this module with the lock.
#[pyo3::pymodule(gil_used = true)]
fn _room_heating(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
    register().map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?;
    _phalanx::populate(module)
}
