//! `phalanx bench`: the lab from the command line.

mod ab;
mod comparison;
mod plot;
pub(crate) mod report;
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
    /// Measure other libraries beside ours, in turns
    Comparison(comparison::ComparisonArgs),
    /// Draw stored results as PNG and SVG
    Plot(plot::PlotArgs),
    /// Tell what stored results amount to, as text, JSON or an HTML page
    Report(report::ReportArgs),
    /// Measure what standard input asks for (the lab's own processes)
    #[command(hide = true)]
    Worker,
}

pub(crate) fn run(args: &BenchArgs, start: Instant) -> Result<(), Failure> {
    match &args.command {
        BenchCommand::Ab(args) => ab::run(args),
        BenchCommand::Comparison(args) => comparison::run(args),
        BenchCommand::Plot(args) => plot::run(args),
        BenchCommand::Report(args) => report::run(args),
        BenchCommand::Worker => worker::run(start),
    }
}
