//! The benchmarking lab: measurements, statistics, records, verdicts.
//!
//! Time per step is the base quantity, analysed as its logarithm; rates are for display only.

pub mod stats;
