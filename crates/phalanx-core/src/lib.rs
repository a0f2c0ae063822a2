//! The Phalanx engine.
//!
//! An environment is a pure function over number lanes ([`env::LaneEnv`]); the engine steps many of them
//! in lockstep ([`batch::Batch`]), in SIMD lanes and on several threads, with counter-based randomness
//! ([`rng`]). **The same seed gives the same bits** whatever the chunk size, thread count or lane width,
//! and a snapshot continues to the same bits in another process.
//!
//! This crate knows no concrete environment, no files and no clock.

#![deny(unsafe_code)]

pub mod apart;
pub mod batch;
mod checksum;
pub mod env;
pub mod error;
pub mod lanes;
pub mod math;
pub mod policy;
pub mod pool;
pub mod probe;
pub mod rng;
pub mod rollout;
pub mod safety;
pub mod snapshot;
pub mod solo;
pub mod space;
pub mod stats;

pub use error::{Error, Result};
