//! The benchmarking lab: measurements, statistics, records, verdicts.
//!
//! Time per step is the base quantity, analysed as its logarithm; rates are for display only.

pub mod autotune;
pub mod baseline_file;
pub mod budget;
pub mod build_info;
pub mod calibrations;
pub mod campaign;
pub mod case;
pub mod child;
pub mod citation;
pub mod clock;
pub mod csv;
mod error;
pub mod figures;
pub mod files;
pub mod format;
pub mod function;
pub mod guards;
pub mod hash;
pub mod history;
pub mod interrupt;
pub mod json;
pub mod judgement;
pub mod kpi;
mod linux;
pub mod log;
pub mod machine;
pub mod memory;
pub mod memory_profile;
pub mod monitor;
pub mod precision;
pub mod profile;
pub mod record;
pub mod report;
pub mod results;
pub mod session;
pub mod stats;
pub mod suite;
pub mod surroundings;
pub mod tabular;
pub mod throughput;
pub mod timestamp;
pub mod turns;
pub mod worker;
pub mod workload;

pub use error::{Error, Result};
