//! Threads on one table.
//!
//! *Deterministic*: the work is cut into logical shards, each with its own environments and random streams, which
//! learn on a private copy of what they touch. After `steps_per_sync` transitions of each, the copies are merged in
//! order of the shards: Q += Σ n d / Σ n over the shards' changes d, weighted by their numbers of updates n. Threads
//! merely execute shards, so the result depends on seed, shards and `steps_per_sync` only.
//!
//! *Asynchronous*: every worker learns on the shared table itself, whose values are atomics; nothing waits for
//! anything, and what comes out depends on who was first.

mod asynchronous;
mod merge;
mod sharded;

use asynchronous::Asynchronous;
use phalanx_core::batch::Batch;
use phalanx_core::pool::Pool;
use phalanx_core::rng::key_of_seed;
use serde::{Deserialize, Serialize};
use sharded::Sharded;

use super::block::Block;
use super::table::{Dense, Hybrid, List, Sparse, Value};
use super::{Kind, Precision, Settings, Space};
use crate::error::{Error, Result};
use crate::learner::Learner;

/// How threads share a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Logical shards and merges: the same bits for any number of threads.
    #[default]
    Deterministic,
    /// One table of atomics; an update that meets another is repeated, so that none is lost.
    Asynchronous,
    /// One table of atomics; an update that meets another may undo it.
    Racy,
}

/// How the work is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ParallelSettings {
    /// How threads share the table; default `deterministic`.
    pub mode: Mode,
    /// Threads that work; default those of the machine, but at most 4.
    pub threads: usize,
    /// Logical shards of the deterministic mode, which decide the result as a seed does; default 16.
    pub shards: usize,
    /// Transitions of a shard between merges, or of a worker between looks at the schedules; default 1000.
    pub steps_per_sync: usize,
}

impl Default for ParallelSettings {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        Self { mode: Mode::default(), threads, shards: 16, steps_per_sync: 1_000 }
    }
}

/// Makes the environments of a shard or a worker, from a seed of their own: the same kind and number each time, on one
/// thread, since the shards share out the threads.
pub type MakeBatch<'a> = &'a mut dyn FnMut(u64) -> phalanx_core::Result<Box<dyn Batch>>;

/// A learner on several threads; `make` is called once for each shard or worker.
pub fn parallel(
    settings: Settings,
    sharing: ParallelSettings,
    seed: u64,
    make: MakeBatch<'_>,
) -> Result<Box<dyn Learner>> {
    fn of<T: Value>(
        settings: Settings,
        sharing: ParallelSettings,
        seed: u64,
        make: MakeBatch<'_>,
    ) -> Result<Box<dyn Learner>> {
        Ok(match (sharing.mode, settings.table) {
            (Mode::Asynchronous | Mode::Racy, _) => Box::new(Asynchronous::<T>::new(settings, sharing, seed, make)?),
            (_, Kind::Dense) => Box::new(Sharded::<T, Dense<T>>::new(settings, sharing, seed, make)?),
            (_, Kind::List) => Box::new(Sharded::<T, List<T>>::new(settings, sharing, seed, make)?),
            (_, Kind::Sparse) => Box::new(Sharded::<T, Sparse<T>>::new(settings, sharing, seed, make)?),
            (_, Kind::Auto) => Box::new(Sharded::<T, Hybrid<T>>::new(settings, sharing, seed, make)?),
        })
    }
    match settings.precision {
        Precision::F32 => of::<f32>(settings, sharing, seed, make),
        Precision::F64 => of::<f64>(settings, sharing, seed, make),
    }
}

/// The seed of a shard; the first has that of the run, so that one shard is the single-thread runtime.
fn seed_of(seed: u64, shard: usize) -> u64 {
    if shard == 0 {
        return seed;
    }
    let [low, high] = key_of_seed(seed);
    (u64::from(high) << 32 | u64::from(low)).wrapping_add(shard as u64)
}

fn check(settings: &Settings, sharing: &ParallelSettings) -> Result<Pool> {
    settings.check()?;
    let ParallelSettings { threads, shards, steps_per_sync, .. } = *sharing;
    for (key, value) in [("threads", threads), ("shards", shards), ("steps_per_sync", steps_per_sync)] {
        if value == 0 {
            return Err(Error::setting(key, "is 0, but must be at least 1"));
        }
    }
    Pool::try_new(threads).map_err(|error| Error::setting("threads", format!("is {threads}, but {error}")))
}

/// The states and actions of all blocks, and a refusal if they differ.
fn same_space<'a, T: Value>(blocks: impl Iterator<Item = &'a Block<T>>) -> Result<Space> {
    let mut first = None;
    for block in blocks {
        let here = (block.space(), block.agents());
        if *first.get_or_insert(here) != here {
            return Err(Error::setting("env", "must be the same, and as many, for all threads"));
        }
    }
    Ok(first.expect("there is a block").0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_of_shards_differ_and_the_first_is_that_of_the_run() {
        let seeds: std::collections::HashSet<u64> =
            (0..50).flat_map(|seed| (0..16).map(move |shard| seed_of(seed, shard))).collect();
        assert_eq!(seeds.len(), 50 * 16);
        assert_eq!(seed_of(7, 0), 7);
    }
}
