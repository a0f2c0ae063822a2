//! The `phalanx` command: argument parsing and printing, nothing else.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done (also when the reader of a pipe has gone) |
//! | 1 | something outside of the input failed, such as writing a file |
//! | 2 | the input is wrong; one sentence on stderr says what, where and what is allowed |
//! | 10 | regressed, a leak, or a key figure in alarm |
//! | 11 | inconclusive, where a clear answer was asked for |
//! | 12 | too noisy to tell |
//! | 13 | nothing can be compared with the baseline |
//! | 14 | the sides of a comparison computed different things |
//! | 130 | Ctrl-C ended a measurement, a training or an evaluation; one line on stderr says where the part is that was done |
//! | 143, 129 | the same, by SIGTERM or SIGHUP, of a training or an evaluation |

/// Tells the user something on standard error, if anyone listens: other than by `eprintln!`, one who has hung up ends
/// nothing.
macro_rules! say {
    ($($words:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($words)*)));
    }};
}

mod args;
mod commands;
mod config_file;
mod device;
mod failure;
mod files;
mod machine;
mod monitoring;
mod progress;
mod tally;
mod text;
mod workloads;

use std::process::ExitCode;
use std::time::Instant;

use args::{Cli, Command, DemoCommand};
use failure::Failure;
use phalanx_lab::memory::CountingAllocator;

/// Counts what the lab wants to know; a step in the steady state allocates nothing and so pays nothing.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

fn main() -> ExitCode {
    let start = Instant::now();
    ALLOCATOR.register();
    fail_instead_of_dying();
    phalanx_lab::child::heed_parent();
    let done = args::parse().and_then(|(cli, origin)| run(cli, start).map_err(|failure| failure.attributed(&origin)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Lets a write beyond the limit on the size of files fail, as on a full disk, instead of ending the program. Workers
/// are `phalanx`, too, and do the same.
fn fail_instead_of_dying() {
    #[cfg(unix)]
    {
        // Nobody asks whether it has come: a handler of any kind is enough. Without one all is as it was before.
        let unasked = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, unasked);
    }
}

/// Whether a command computes much and has no `--device` of its own, so that the variables alone say what with.
fn computes(command: &Command) -> bool {
    match command {
        Command::Rollout(_) | Command::Train(_) | Command::Evaluate(_) | Command::Sweep(_) => true,
        Command::Demo(args) => args.command.is_none(),
        Command::Autotune(args) => args.measures(),
        Command::Bench(args) => args.computes(),
        _ => false,
    }
}

fn run(cli: Cli, start: Instant) -> Result<(), Failure> {
    if computes(&cli.command) {
        device::of_variables()?;
    }
    match cli.command {
        Command::Envs(args) => commands::envs::run(&args),
        Command::Rollout(args) => commands::rollout::run(&args, start),
        Command::Trace(args) => commands::trace::run(&args),
        Command::Tasks(args) => commands::tasks::run(&args),
        Command::Render(args) => commands::render::run(&args),
        Command::Demo(args) => match args.command {
            Some(DemoCommand::Performance(args)) => commands::demo_performance::run(&args, start),
            None => commands::demo::run(&args),
        },
        Command::Train(args) => commands::train::run(&args, start),
        Command::Evaluate(args) => commands::evaluate::run(&args),
        Command::Sweep(args) => commands::sweep::run(&args),
        Command::Plot(args) => commands::plot::run(&args),
        Command::Bench(args) => commands::bench::run(&args, start),
        Command::Compare(args) => commands::bench::compare(&args),
        Command::Devices(args) => commands::devices::run(&args),
        Command::Autotune(args) => commands::autotune::run(&args),
        Command::Cache(args) => commands::cache::run(&args),
        Command::Report(args) => commands::bench::report::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
    }
}
