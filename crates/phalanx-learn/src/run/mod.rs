//! What a training run is but its agent: its settings, and everything it leaves on disk.
//!
//! | module | owns |
//! |---|---|
//! | [`agents`] | the settings of each agent, with the reference's defaults |
//! | [`checkpoint`] | a [`State`](crate::state::State) as a safetensors file that is complete or refused |
//! | [`config`] | settings: sections, keys, presets, files, overrides |
//! | [`directory`] | the folder of a run: its names, metadata, results, and reading it back |
//! | [`episodes`] | episodes as `.npz` files |
//! | [`events`] | TensorBoard's event files |
//! | [`log`] | the values of a tag, read back |
//! | [`metrics`] | `metrics.csv` and `metrics.jsonl` |
//! | [`settings`] | the types and ranges of settings |
//!
//! Nothing here knows an environment or a random number, and no file of a run depends on the time of day except where
//! a caller hands one in.

pub mod agents;
pub mod checkpoint;
pub mod config;
mod crc;
pub mod directory;
pub mod episodes;
pub mod events;
mod files;
pub mod log;
pub mod metrics;
mod presets;
pub mod settings;
