//! The benchmarking lab: measurements, statistics, records, verdicts.
//!
//! Time per step is the base quantity, analysed as its logarithm; rates are for display only.

pub mod baseline_file;
pub mod build_info;
pub mod calibrations;
pub mod campaign;
pub mod case;
pub mod clock;
pub mod csv;
mod error;
pub mod files;
pub mod format;
pub mod guards;
pub mod hash;
pub mod history;
mod json;
pub mod judgement;
pub mod kpi;
mod linux;
pub mod machine;
pub mod memory;
pub mod record;
pub mod session;
pub mod stats;
pub mod suite;
pub mod surroundings;
pub mod timestamp;
pub mod worker;
pub mod workload;

pub use error::{Error, Result};
