//! `phalanx completions`.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::args::{self, Cli, CompletionsArgs};
use crate::commands::print;
use crate::failure::Failure;

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let shell = match args.shell {
        args::Shell::Bash => Shell::Bash,
        args::Shell::Zsh => Shell::Zsh,
        args::Shell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "phalanx", &mut script);
    print(&String::from_utf8_lossy(&script))
}
