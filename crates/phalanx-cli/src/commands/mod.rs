//! One module for each command.

pub(crate) mod autotune;
pub(crate) mod bench;
pub(crate) mod cache;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod demo_performance;
pub(crate) mod devices;
pub(crate) mod envs;
pub(crate) mod play;
pub(crate) mod render;
pub(crate) mod rollout;
pub(crate) mod tasks;
pub(crate) mod trace;

use std::io::Write;

use phalanx_core::space::EnvSpec;
use serde::Serialize;

use crate::failure::Failure;

/// Prints one JSON document on standard output.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document).expect("documents are plain data");
    print(&format!("{text}\n"))
}

/// Tells what a user should know about how an environment was set up.
pub(crate) fn print_notes(spec: &EnvSpec) {
    spec.notes.iter().for_each(|note| eprintln!("warning: {note}"));
}

/// Prints on standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::stdout)
}
