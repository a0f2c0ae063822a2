//! `phalanx cache`: what is remembered between runs.

use clap::{Args, Subcommand};

use crate::commands::autotune::{self, ClearArgs};
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    command: CacheCommand,
}

#[derive(Debug, Subcommand)]
enum CacheCommand {
    /// Forget everything that runs have remembered: the profiles and chunk sizes of `phalanx autotune`
    Clear(ClearArgs),
}

pub(crate) fn run(args: &CacheArgs) -> Result<(), Failure> {
    let CacheCommand::Clear(args) = &args.command;
    autotune::clear_cache(args)
}
