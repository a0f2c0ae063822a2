//! `phalanx bench plot`: the figures of stored results, as PNG and SVG.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use phalanx_lab::figures::{self, FIGURES, Figure, Files};
use phalanx_lab::files::make_folder;
use phalanx_lab::results::Results;
use serde::Serialize;

use super::options::{HistoryArgs, listed};
use crate::args::OutputArgs;
use crate::commands::{print, print_json};
use crate::failure::Failure;
use crate::files::{Kind, check_target, write_atomically};

#[derive(Debug, Args)]
pub(crate) struct PlotArgs {
    /// File with results: .csv of throughput, memory or comparison, .jsonl records, .json of a baseline; may be given
    /// several times [default: all files of --history]
    #[arg(long, value_name = "FILE", conflicts_with = "history")]
    input: Vec<PathBuf>,
    #[command(flatten)]
    history: HistoryArgs,
    /// Which figure
    #[arg(long, value_name = "TYPE", default_value = "all")]
    plot_type: PlotType,
    /// Folder for the pictures [default: plots in the folder of the results]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Write a picture that says "No data" where there is none
    #[arg(long)]
    show_empty: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum PlotType {
    Throughput,
    Efficiency,
    Memory,
    Chunk,
    Comparison,
    Trends,
    All,
}

impl PlotType {
    fn covers(self, figure: &Figure) -> bool {
        self == Self::All || self.to_possible_value().is_some_and(|value| value.get_name() == figure.plot_type)
    }
}

#[derive(Serialize)]
struct Report {
    files: Vec<PathBuf>,
    without_data: Vec<&'static str>,
    skipped: Vec<String>,
    /// Runs that ended early.
    interrupted: BTreeSet<String>,
}

pub(crate) fn run(args: &PlotArgs) -> Result<(), Failure> {
    let folders = if args.input.is_empty() { args.history.existing()? } else { args.history.folders() };
    let results = read(&args.input, &folders)?;
    let folder = args.output_dir.clone().unwrap_or_else(|| beside(&args.input, &folders[0]).join("plots"));
    let mut drawn = Vec::new();
    let mut without_data = Vec::new();
    for figure in FIGURES.iter().filter(|figure| args.plot_type.covers(figure)) {
        match (figure.draw)(&results) {
            Some(scene) => drawn.push((figure.name, Files::of(&scene).map_err(Failure::picture)?)),
            None if args.show_empty => {
                drawn.push((figure.name, Files::of(&figures::no_data(figure)).map_err(Failure::picture)?));
            }
            None => without_data.push(figure),
        }
    }
    if drawn.is_empty() {
        return Err(Failure::input(format!(
            "there is too little data in {}: {}; measure first or choose other files with --input",
            listed(if args.input.is_empty() { &folders } else { &args.input }),
            without_data
                .iter()
                .map(|figure| format!("{} needs {}", figure.name, figure.needs))
                .collect::<Vec<_>>()
                .join(", ")
        )));
    }
    let without_data: Vec<&'static str> = without_data.into_iter().map(|figure| figure.name).collect();
    make_folder(&folder)?;
    let mut files = Vec::new();
    for (name, Files { png, svg }) in drawn {
        for (extension, kind, bytes) in [("png", Kind::Png, png), ("svg", Kind::Svg, svg)] {
            let path = folder.join(name).with_extension(extension);
            write_atomically(&check_target(&path, kind)?, &bytes)?;
            files.push(path);
        }
    }
    let skipped: Vec<String> = results.damaged.iter().map(ToString::to_string).collect();
    if args.output.json {
        return print_json(&Report { files, without_data, skipped, interrupted: results.interrupted });
    }
    if args.output.quiet {
        return Ok(());
    }
    let written: String = files.iter().map(|path| format!("{}\n", path.display())).collect();
    let none = if without_data.is_empty() { String::new() } else { format!("no data: {}\n", without_data.join(", ")) };
    let early = match results.interrupted.len() {
        0 => String::new(),
        runs => format!("{runs} of the runs ended early, with fewer processes than planned\n"),
    };
    print(&format!("{written}{none}{early}"))
}

/// The results of the given files, or of folders; what is damaged is told on stderr.
pub(crate) fn read(input: &[PathBuf], folders: &[PathBuf]) -> Result<Results, Failure> {
    let mut results = Results::default();
    if input.is_empty() {
        results.read_folders(folders)?;
    } else {
        results.read_files(input)?;
    }
    results.damaged.iter().for_each(|damage| say!("warning: {damage}"));
    Ok(results)
}

fn beside<'a>(input: &'a [PathBuf], folder: &'a Path) -> &'a Path {
    match input.first() {
        Some(first) => first.parent().unwrap_or(Path::new("")),
        None => folder,
    }
}
