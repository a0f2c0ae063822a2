//! `phalanx bench all`: the benchmarks one after the other, each in this binary's own process.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::{Args, CommandFactory};
use phalanx_lab::files::check_folder;
use phalanx_lab::format::format_seconds;
use serde::Serialize;

use super::options::{AboutArgs, RESULTS_DIR, own_binary};
use crate::args::{Cli, OutputArgs, count};
use crate::commands::{self, print, print_json};
use crate::failure::Failure;
use crate::text::columns;

#[derive(Debug, Args)]
pub(crate) struct AllArgs {
    /// The smallest sizes only, to see that everything works
    #[arg(long)]
    quick: bool,
    /// Draw no plots
    #[arg(long)]
    skip_plots: bool,
    /// Folder of the results
    #[arg(long, value_name = "DIR", default_value = RESULTS_DIR)]
    results_dir: PathBuf,
    /// Have each benchmark tell, every N of its processes, steps per second, CPU and memory of the last one, on
    /// standard error
    #[arg(long, value_name = "N", value_parser = count, num_args = 0..=1, default_missing_value = "1")]
    monitor: Option<usize>,
    #[command(flatten)]
    about: AboutArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What to run: a command and its arguments.
type Line = &'static [&'static str];

const ALL: &[Line] = &[
    &["bench", "throughput", "--full"],
    &["bench", "throughput", "--scan-chunks"],
    &["bench", "memory", "--profile", "both", "--env", "cartpole"],
    &["bench", "memory", "--profile", "both", "--env", "gene-circuit"],
    &["bench", "comparison", "--library", "all"],
    &["demo", "performance"],
];

const QUICK: &[Line] = &[
    &["bench", "throughput", "--num-envs", "100", "--num-steps", "10", "--samples", "6", "--time-budget", "0"],
    &["bench", "memory", "--env", "cartpole", "--num-envs", "1k", "--num-envs", "16k", "--scan-chunk-size", "32"],
    &["bench", "comparison", "--library", "phalanx", "--num-envs", "100", "--steps-per-env", "100"],
    &["demo", "performance", "--num-envs", "500", "--num-steps", "10"],
];

const PLOTS: &[Line] = &[&["bench", "plot"]];

#[derive(Serialize)]
struct Done {
    command: String,
    seconds: f64,
    /// Null if a signal ended it.
    exit_code: Option<i32>,
}

pub(crate) fn run(args: &AllArgs) -> Result<(), Failure> {
    check_folder(&args.results_dir)?;
    let binary = own_binary()?;
    let lines = if args.quick { QUICK } else { ALL };
    let plots = if args.skip_plots { &[] } else { PLOTS };
    let mut done = Vec::new();
    for line in lines.iter().chain(plots) {
        let arguments = arguments(line, args);
        let command = format!("phalanx {}", arguments.join(" "));
        if !args.output.quiet {
            say!("== {command}");
        }
        let start = Instant::now();
        // One JSON document is all that may go to standard output.
        let stdout = if args.output.json { Stdio::null() } else { Stdio::inherit() };
        let status = phalanx_lab::child::tie(&mut Command::new(&binary))
            .args(&arguments)
            .stdout(stdout)
            .status()
            .map_err(|error| Failure::input(format!("cannot start {}: {error}", binary.display())))?;
        done.push(Done { command, seconds: start.elapsed().as_secs_f64(), exit_code: status.code() });
    }
    let printed = if args.output.json {
        print_json(&done)
    } else {
        let rows: Vec<_> = done
            .iter()
            .map(|done| {
                let outcome = match done.exit_code {
                    Some(0) => "ok".to_owned(),
                    Some(code) => format!("failed, exit code {code}"),
                    None => "ended by a signal".to_owned(),
                };
                [done.command.clone(), format_seconds(done.seconds), outcome]
            })
            .collect();
        print(&format!("\n{}", columns(&["command", "time", "outcome"], &rows)))
    };
    commands::concluded(printed, if done.iter().all(|done| done.exit_code == Some(0)) { 0 } else { 1 })
}

/// The arguments of a command with what all of them share.
fn arguments(line: Line, args: &AllArgs) -> Vec<String> {
    let mut command = &Cli::command();
    for name in line.iter().take(2) {
        command = command.find_subcommand(name).expect("a command of this binary");
    }
    let named = |argument: &clap::Arg, flag: &str| {
        argument.get_long() == Some(flag) || argument.get_all_aliases().is_some_and(|aliases| aliases.contains(&flag))
    };
    let has = |flag: &str| command.get_arguments().any(|argument| named(argument, flag));
    let mut arguments: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
    if has("results-dir") {
        arguments.extend(["--results-dir".to_owned(), args.results_dir.display().to_string()]);
    }
    if has("tag") && has("description") {
        arguments.extend(args.about.words());
    }
    // The demo has no processes to count: it counts its steps.
    if let Some(every) = args.monitor.filter(|_| line[0] == "bench" && has("monitor")) {
        arguments.extend(["--monitor".to_owned(), every.to_string()]);
    }
    if args.output.quiet && has("quiet") {
        arguments.push("--quiet".to_owned());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn every_command_takes_its_arguments_and_the_folder() {
        let args = AllArgs {
            quick: false,
            skip_plots: false,
            results_dir: PathBuf::from("r"),
            monitor: Some(7),
            about: AboutArgs { tags: vec!["-t".to_owned()], description: Some("some words".to_owned()) },
            output: OutputArgs { json: false, quiet: true },
        };
        for line in [ALL, QUICK, PLOTS].concat() {
            let arguments = arguments(line, &args);
            assert!(line[0] == "demo" || arguments.contains(&"--results-dir".to_owned()), "{arguments:?}");
            assert_eq!(line[0] == "bench" && line[1] != "plot", arguments.contains(&"7".to_owned()), "{arguments:?}");
            let tagged = arguments.contains(&"--tag=-t".to_owned());
            assert_eq!(line[0] == "bench" && line[1] != "plot", tagged, "{arguments:?}");
            let words = std::iter::once("phalanx".to_owned()).chain(arguments.clone());
            Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        }
    }
}
