//! The `phalanx` command: argument parsing and printing, nothing else.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done (also when the reader of a pipe has gone) |
//! | 1 | something outside of the input failed, such as writing a file |
//! | 2 | the input is wrong; one sentence on stderr says what, where and what is allowed |

mod args;
mod commands;
mod config_file;
mod failure;
mod files;
mod machine;
mod progress;
mod text;

use std::process::ExitCode;
use std::time::Instant;

use args::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let start = Instant::now();
    let done = args::parse().and_then(|(cli, origin)| run(cli, start).map_err(|failure| failure.attributed(&origin)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli, start: Instant) -> Result<(), Failure> {
    match cli.command {
        Command::Envs(args) => commands::envs::run(&args),
        Command::Rollout(args) => commands::rollout::run(&args, start),
        Command::Trace(args) => commands::trace::run(&args),
        Command::Tasks(args) => commands::tasks::run(&args),
        Command::Render(args) => commands::render::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
    }
}
