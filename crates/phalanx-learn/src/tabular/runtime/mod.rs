//! How blocks of environments learn on a table.
//!
//! | runtime | who learns where |
//! |---|---|
//! | `Single` | one block on the table itself |
//! | `Sharded` | every block on a private copy of what it touches; copies are merged now and then |
//! | `Shared` | every block on one table of atomics: nothing waits, and the result depends on who was first |
//!
//! A merge is Q += Σ n d / Σ n over the blocks' changes d, weighted by their numbers of updates n, in order of the
//! blocks. Threads merely execute blocks, so the result of `Sharded` depends on seed, number of blocks and
//! `steps_per_sync` only: deterministic learning has as many blocks as `shards`, private tables as many as workers.

pub mod balance;
mod merge;
mod sharded;
mod shared;
mod single;

use std::sync::Mutex;

use phalanx_core::pool::{Pool, Rows};
pub(super) use sharded::Sharded;
pub(super) use shared::Shared;
pub(super) use single::Single;

use super::block::Block;
use super::settings::Course;
use super::table::{Table, Value};
use super::{Settings, Space};
use crate::error::Result;
use crate::state::State;

/// How blocks learn on a table.
pub(super) trait Runtime<T: Value>: Send + Sized {
    /// The kind of the table.
    type Table: Table<T>;

    fn new(settings: &Settings, space: &Space, num_envs: usize, parts: usize, pool: Pool) -> Self;

    /// Learns for at most so many transitions after the first `start`, or for the least that is possible; answers how
    /// many they were.
    fn run(&mut self, blocks: &mut [Block<T>], course: &Course, start: u64, at_most: u64) -> Result<u64>;

    /// What was learnt so far.
    fn learnt(&self) -> Self::Table;

    /// How stale what workers went by was in the last [`run`](Self::run); `None` where that follows from the settings:
    /// a shard knows nothing of what the others do between two merges.
    fn lag(&self) -> Option<Lag> {
        None
    }

    /// The threads that work on the blocks.
    fn threads(&self) -> usize {
        1
    }

    fn memory_bytes(&self) -> usize;

    fn save(&self, state: &mut State);

    fn restore(&mut self, state: &State) -> Result<()>;
}

/// How many transitions the others had made when a worker looked at the schedules again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lag {
    pub(super) sum: u64,
    pub(super) max: u64,
    pub(super) looks: u64,
}

impl Lag {
    fn note(&mut self, transitions: u64) {
        self.sum += transitions;
        self.max = self.max.max(transitions);
        self.looks += 1;
    }

    fn merge(self, other: Self) -> Self {
        Self { sum: self.sum + other.sum, max: self.max.max(other.max), looks: self.looks + other.looks }
    }

    pub(super) fn mean(self) -> f64 {
        self.sum as f64 / self.looks as f64
    }
}

/// The most transitions of one call, so that a run can be ended soon.
const UNIT: u64 = 1 << 20;

/// A table and, if rates go by them, its visits.
#[derive(Clone)]
pub(super) struct Tables<B> {
    pub(super) values: B,
    pub(super) visits: Option<B>,
}

impl<B> Tables<B> {
    fn new<T: Value>(settings: &Settings, space: &Space) -> Self
    where
        B: Table<T>,
    {
        let values = B::sized(space.states, space.actions * settings.algorithm.tables(), settings.dense_threshold);
        let visits = settings.by_visits().then(|| values.clone());
        Self { values, visits }
    }

    fn memory_bytes<T: Value>(&self) -> usize
    where
        B: Table<T>,
    {
        self.values.memory_bytes() + self.visits.as_ref().map_or(0, B::memory_bytes)
    }

    fn save<T: Value>(&self, state: &mut State)
    where
        B: Table<T>,
    {
        state.put_state("table", self.values.save());
        if let Some(visits) = &self.visits {
            state.put_state("visits", visits.save());
        }
    }

    fn restore<T: Value>(&mut self, state: &State) -> Result<()>
    where
        B: Table<T>,
    {
        let values = self.values.empty().filled(&state.state("table"))?;
        if let Some(visits) = &mut self.visits {
            *visits = visits.empty().filled(&state.state("visits"))?;
        }
        self.values = values;
        Ok(())
    }
}

/// Calls `work` with every block and what its runtime keeps for it, on all threads of the pool.
fn for_each_block<T: Send, P: Send>(
    pool: &Pool,
    blocks: &mut [Block<T>],
    own: &mut [P],
    work: impl Fn(&mut Block<T>, &mut P) -> Result<()> + Sync,
) -> Result<()> {
    let failure = Mutex::new(Ok(()));
    pool.for_each(blocks.len(), 1, (Rows::new(blocks, 1), Rows::new(own, 1)), |_, (blocks, own)| {
        for (block, own) in blocks.iter_mut().zip(own) {
            let result = work(block, own);
            if result.is_err() {
                *failure.lock().expect("nobody panics with this lock") = result;
            }
        }
    });
    failure.into_inner().expect("nobody panics with this lock")
}
