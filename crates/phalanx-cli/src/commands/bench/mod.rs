//! `phalanx bench`: the lab from the command line.

mod ab;
mod all;
mod baseline;
mod cite;
mod compare;
mod comparison;
mod doctor;
mod items;
mod kpi;
mod memory;
mod options;
mod paired;
mod plot;
mod profile;
pub(crate) mod report;
mod safety;
mod suite;
mod tabular;
mod throughput;
mod trend;
mod worker;

use std::time::Instant;

use clap::{Args, Subcommand};

use crate::failure::Failure;

pub(crate) use compare::{CompareArgs, run as compare};

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Compare two builds in pairs of processes that take turns
    Ab(ab::AbArgs),
    /// Run the benchmarks one after the other; fails if any of them does
    All(all::AllArgs),
    /// Measure one environment and batches of growing size, and keep the figures under a description and a tag
    Baseline(baseline::BaselineArgs),
    /// Print how to cite a stored result
    Cite(cite::CiteArgs),
    /// Show all runs of `bench baseline` side by side
    Compare(CompareArgs),
    /// Measure memory by number of environments and by chunk size
    Memory(memory::MemoryArgs),
    /// Measure steps per second by number of environments, chunk size and threads
    Throughput(throughput::ThroughputArgs),
    /// Find where the CPU time of a case goes, with a flame graph
    Profile(profile::ProfileArgs),
    /// Measure other libraries beside ours, in turns
    Comparison(comparison::ComparisonArgs),
    /// Draw stored results as PNG and SVG
    Plot(plot::PlotArgs),
    /// Tell what stored results amount to, as text, JSON or an HTML page
    Report(report::ReportArgs),
    /// Compare this binary with itself, to know what differences mean nothing on this machine
    #[command(after_help = "The calibration itself goes to PHALANX_CACHE_DIR or ~/.phalanx.")]
    Doctor(doctor::DoctorArgs),
    /// Run the whole suite: categories, key figures, comparison with a baseline
    Suite(suite::SuiteArgs),
    /// Measure tabular Q-learning by table, threads, agents and workers
    Tabular(tabular::TabularArgs),
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

impl BenchArgs {
    /// Whether it measures something and has no `--device`.
    pub(crate) fn computes(&self) -> bool {
        match &self.command {
            // What they measure with is in their flags, or in those of the commands that they start.
            BenchCommand::Throughput(_) | BenchCommand::Memory(_) | BenchCommand::Baseline(_) => false,
            BenchCommand::All(_) | BenchCommand::Worker => false,
            BenchCommand::Cite(_) | BenchCommand::Compare(_) | BenchCommand::Plot(_) => false,
            BenchCommand::Report(_) | BenchCommand::Trend(_) => false,
            BenchCommand::Kpi(args) => args.measures(),
            _ => true,
        }
    }
}

pub(crate) fn run(args: &BenchArgs, start: Instant) -> Result<(), Failure> {
    match &args.command {
        BenchCommand::Ab(args) => ab::run(args),
        BenchCommand::All(args) => all::run(args),
        BenchCommand::Baseline(args) => baseline::run(args),
        BenchCommand::Cite(args) => cite::run(args),
        BenchCommand::Compare(args) => compare::run(args),
        BenchCommand::Memory(args) => memory::run(args),
        BenchCommand::Throughput(args) => throughput::run(args),
        BenchCommand::Profile(args) => profile::run(args),
        BenchCommand::Comparison(args) => comparison::run(args),
        BenchCommand::Plot(args) => plot::run(args),
        BenchCommand::Report(args) => report::run(args),
        BenchCommand::Doctor(args) => doctor::run(args),
        BenchCommand::Suite(args) => suite::run(args),
        BenchCommand::Tabular(args) => tabular::run(args),
        BenchCommand::Kpi(args) => kpi::run(args),
        BenchCommand::Safety(args) => safety::run(args),
        BenchCommand::Trend(args) => trend::run(args),
        BenchCommand::Worker => worker::run(start),
    }
}
