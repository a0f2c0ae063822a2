//! `ARC-v0`: the Abstraction and Reasoning Corpus as an environment that edits a grid.
//!
//! Source: our reference document, which is JaxARC with its faults removed; each module names the ones
//! it removes. `README.md` in this folder shows how the modules fit together.

pub mod action;
pub mod board;
pub mod compact;
pub mod env;
pub mod flood;
pub mod grid;
pub mod metrics;
pub mod observe;
pub mod ops;
mod options;
pub mod reader;
pub mod reward;
pub mod sample;
pub mod similarity;
pub mod solo;
pub mod start;
pub mod state;
pub mod task;
#[cfg(test)]
mod testing;
