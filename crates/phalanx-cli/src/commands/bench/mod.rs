//! `phalanx bench`: the lab from the command line.

mod ab;
mod doctor;
mod items;
mod kpi;
mod paired;
mod safety;
mod suite;
mod trend;
mod worker;

use std::time::Instant;

use clap::{Args, Subcommand};

use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Compare two builds in pairs of processes that take turns
    Ab(ab::AbArgs),
    /// Compare this binary with itself, to know what differences mean nothing on this machine
    Doctor(doctor::DoctorArgs),
    /// Run the whole suite: categories, key figures, comparison with a baseline
    Suite(suite::SuiteArgs),
    /// Hold key figures against their targets and alert limits
    Kpi(kpi::KpiArgs),
    /// Measure what watching constraints costs
    Safety(safety::SafetyArgs),
    /// Show where the history of each case leads, and where it changed
    Trend(trend::TrendArgs),
    /// Measure what standard input asks for (the lab's own processes)
    #[command(hide = true)]
    Worker,
}

pub(crate) fn run(args: &BenchArgs, start: Instant) -> Result<(), Failure> {
    match &args.command {
        BenchCommand::Ab(args) => ab::run(args),
        BenchCommand::Doctor(args) => doctor::run(args),
        BenchCommand::Suite(args) => suite::run(args),
        BenchCommand::Kpi(args) => kpi::run(args),
        BenchCommand::Safety(args) => safety::run(args),
        BenchCommand::Trend(args) => trend::run(args),
        BenchCommand::Worker => worker::run(start),
    }
}
