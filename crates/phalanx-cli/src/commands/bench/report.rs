//! `phalanx bench report`, also `phalanx report`: what stored results amount to.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use phalanx_lab::report::Report;
use phalanx_lab::timestamp::Timestamp;

use super::options::{HistoryArgs, listed};
use super::plot;
use crate::args::OutputArgs;
use crate::commands::{print, print_json};
use crate::failure::Failure;
use crate::files;

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Write one self-contained HTML page there
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    history: HistoryArgs,
    /// File with results instead of a folder; may be given several times
    #[arg(long, value_name = "FILE", conflicts_with = "history")]
    input: Vec<PathBuf>,
    /// What to print
    #[arg(long, value_name = "F", default_value = "text")]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

/// How stored results are told.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
    Html,
}

pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let target = args.html.as_deref().map(|path| files::check_target(path, files::Kind::Html)).transpose()?;
    let folders = if args.input.is_empty() { args.history.existing()? } else { args.history.folders() };
    let results = plot::read(&args.input, &folders)?;
    if results.is_empty() {
        return Err(Failure::input(format!(
            "there are no results in {}: measure first (bench throughput, memory, comparison, baseline or suite) or name \
             another folder with --history",
            listed(if args.input.is_empty() { &folders } else { &args.input })
        )));
    }
    let report = Report::of(&results, Timestamp::now());
    if let Some(target) = &target {
        files::write_atomically(target, report.html().as_bytes())?;
    }
    match args.format {
        _ if args.output.json => print_json(&report),
        Format::Json => print_json(&report),
        // A page was asked for, and is there; --quiet says nothing of files, but a report without one is the result.
        _ if target.is_some() && args.output.quiet => Ok(()),
        _ if target.is_some() => {
            print(&args.html.iter().map(|path| format!("{}\n", path.display())).collect::<String>())
        }
        Format::Html => print(&report.html()),
        Format::Text => print(&report.text()),
    }
}
