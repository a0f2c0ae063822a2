//! `phalanx bench cite`: how to cite a stored result.

use std::path::PathBuf;

use clap::Args;
use phalanx_lab::citation;

use crate::args::{OutputArgs, count};
use crate::commands::{print, print_json};
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct CiteArgs {
    /// A table of `bench throughput` (.csv), records of any run (.jsonl) or a file of `bench baseline` (.json)
    file: PathBuf,
    /// Cite the result with this number of environments [default: the fastest]
    #[arg(long, value_name = "N", value_parser = count)]
    num_envs: Option<usize>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &CiteArgs) -> Result<(), Failure> {
    let all = citation::of_file(&args.file)?;
    let wanted = |num_envs: u64| args.num_envs.is_none_or(|wanted| wanted as u64 == num_envs);
    let Some(chosen) = all.iter().find(|citation| wanted(citation.num_envs)) else {
        let mut sizes: Vec<u64> = all.iter().map(|citation| citation.num_envs).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let sizes: Vec<_> = sizes.iter().map(u64::to_string).collect();
        return Err(Failure::input(format!(
            "--num-envs is {}, but {} has results with {} only",
            args.num_envs.unwrap_or_default(),
            args.file.display(),
            sizes.join(", ")
        )));
    };
    if args.output.json { print_json(chosen) } else { print(&chosen.to_string()) }
}
