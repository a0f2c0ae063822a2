//! Auto-tuning: the chunk size at which the real loop is fastest on this machine, measured once and remembered.
//!
//! First the components that take part are profiled, once each: the machine, the environment, the agent. Then the
//! candidates that fit into memory take turns in the real loop ([`search`]); candidates within 2 % of the fastest, or
//! within 3 % and not surely slower, are equal to it, and the smallest of the equals is chosen. Everything is kept in one file
//! ([`cache`]), which may be copied between identical machines.
//!
//! A [`Subject`] is what is tuned; [`suggest_scan_chunk_size`] is the short way, [`tune`] the one that tells all.

pub mod cache;
pub mod candidates;
pub mod max_envs;
pub mod memory_model;
pub mod search;
mod subject;
pub mod sweep;
mod tuning;

pub use subject::{AgentTimes, Loop, Subject};
pub use tuning::{Event, Request, Source, Stage, Tuned, tune};

use crate::Result;

/// The chunk size for `num_envs` environments of `subject`: from the user's cache, or measured now and remembered.
///
/// `buffer_size` reserves memory for a replay buffer; `force_revalidate` measures in any case; `verbose` tells on
/// standard error what is going on.
pub fn suggest_scan_chunk_size(
    num_envs: usize,
    subject: &dyn Subject,
    buffer_size: Option<u64>,
    force_revalidate: bool,
    verbose: bool,
) -> Result<usize> {
    let request = Request { buffer_size, force: force_revalidate, ..Request::new(subject, num_envs) };
    let tuned = tune(&request, cache::CacheFile::of_user().as_ref(), &mut |_| {})?;
    if verbose {
        eprint!("{tuned}");
    }
    Ok(tuned.scan_chunk_size)
}
