//! Where environments come from: the registry by name, or a user's own. Learning knows no environment itself.

use phalanx_core::batch::{Batch, BatchConfig};

use crate::error::Result;
use crate::run::episodes::Episode;

/// Makes the environments of a run.
///
/// A closure is enough: `|config: &BatchConfig| entry.batch(config)`. Who can also draw them implements
/// [`film`](Self::film).
pub trait Environments {
    /// Environments as configured.
    fn batch(&self, config: &BatchConfig) -> phalanx_core::error::Result<Box<dyn Batch>>;

    /// What draws their episodes; `None` if nothing does.
    fn film(&self) -> Option<&Draw<'_>> {
        None
    }
}

/// Draws an episode: the bytes of an animated GIF.
pub type Draw<'a> = dyn Fn(&Film<'_>) -> Result<Vec<u8>> + 'a;

/// An episode to be drawn.
#[derive(Debug)]
pub struct Film<'a> {
    /// The environments it was played in.
    pub config: &'a BatchConfig,
    /// What was seen and done.
    pub episode: &'a Episode,
    /// The state at the start and after each step.
    pub states: &'a [Vec<f64>],
    /// Pictures in a second.
    pub fps: u32,
}

impl<F: Fn(&BatchConfig) -> phalanx_core::error::Result<Box<dyn Batch>>> Environments for F {
    fn batch(&self, config: &BatchConfig) -> phalanx_core::error::Result<Box<dyn Batch>> {
        self(config)
    }
}
