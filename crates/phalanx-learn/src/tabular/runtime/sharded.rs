//! Blocks that learn apart and merge in order.

use phalanx_core::pool::{Pool, Rows};

use super::super::block::Block;
use super::super::settings::Course;
use super::super::table::{Table, Value};
use super::super::{Settings, Space};
use super::merge::{Joining, Merge, Overlay, Private};
use super::{Runtime, Tables, UNIT, for_each_block};
use crate::error::{Error, Result};
use crate::state::State;

/// What a block has changed since the last merge.
struct Changes<T> {
    values: Private<T>,
    visits: Option<Private<T>>,
}

/// Blocks on private copies of one table.
pub(in super::super) struct Sharded<T, B> {
    tables: Tables<B>,
    changes: Vec<Changes<T>>,
    /// One for each thread.
    merges: Vec<Merge<T>>,
    /// Steps of all environments between merges.
    steps_per_merge: u64,
    /// Those since the last one.
    made: u64,
    pool: Pool,
}

impl<T: Value, B: Table<T>> Sharded<T, B> {
    /// Merges what the blocks have changed. A state is one thread's, so how many there are makes no difference.
    fn merge(&mut self) {
        let Self { tables: Tables { values, visits }, changes, merges, pool, .. } = self;
        let threads = merges.len() as u32;
        let mut merge = |table: &mut B, joining: Joining, of: fn(&Changes<T>) -> Option<&Private<T>>| {
            let base = &*table;
            pool.for_each(merges.len(), 1, Rows::new(merges, 1), |range, merges| {
                for (part, merge) in range.zip(merges) {
                    let mine = |state: u32| state % threads == part as u32;
                    merge.join(base, changes.iter().filter_map(of), mine, joining);
                }
            });
            merges.iter().for_each(|merge| merge.apply(table, joining));
        };
        merge(values, Joining::Mean, |changes| Some(&changes.values));
        if let Some(visits) = visits {
            merge(visits, Joining::Sum, |changes| changes.visits.as_ref());
        }
        for changes in changes {
            changes.values.clear();
            changes.visits.iter_mut().for_each(Private::clear);
        }
    }
}

impl<T: Value, B: Table<T>> Runtime<T> for Sharded<T, B> {
    type Table = B;

    fn new(settings: &Settings, space: &Space, num_envs: usize, parts: usize, pool: Pool) -> Self {
        let tables = Tables::<B>::new(settings, space);
        let private = || Private::new(space.states, tables.values.actions());
        let changes = || Changes { values: private(), visits: settings.by_visits().then(private) };
        Self {
            changes: (0..parts).map(|_| changes()).collect(),
            merges: (0..pool.threads()).map(|_| Merge::new(space.states)).collect(),
            steps_per_merge: settings.steps_per_sync.div_ceil(num_envs.div_ceil(parts) as u64),
            made: 0,
            tables,
            pool,
        }
    }

    fn run(&mut self, blocks: &mut [Block<T>], course: &Course, start: u64, at_most: u64) -> Result<u64> {
        let num_envs: u64 = blocks.iter().map(|block| block.agents() as u64).sum();
        let steps = (at_most.min(UNIT) / num_envs).clamp(1, self.steps_per_merge - self.made);
        let Tables { values, visits } = &self.tables;
        for_each_block(&self.pool, blocks, &mut self.changes, |block, changes| {
            let mut store = Overlay { base: values, private: &mut changes.values };
            let mut visits =
                visits.as_ref().zip(changes.visits.as_mut()).map(|(base, private)| Overlay { base, private });
            for step in 0..steps {
                // Where all blocks together are by now, if they go at the same speed.
                block.step(&mut store, visits.as_mut(), course.at(start + step * num_envs))?;
            }
            Ok(())
        })?;
        self.made += steps;
        if self.made == self.steps_per_merge {
            self.merge();
            self.made = 0;
        }
        Ok(steps * num_envs)
    }

    /// As if there were a merge now.
    fn learnt(&self) -> B {
        let mut table = self.tables.values.clone();
        if self.made > 0 {
            let mut merge = Merge::new(table.states());
            merge.join(&table, self.changes.iter().map(|changes| &changes.values), |_| true, Joining::Mean);
            merge.apply(&mut table, Joining::Mean);
        }
        table
    }

    fn memory_bytes(&self) -> usize {
        let changes = |changes: &Changes<T>| {
            changes.values.memory_bytes() + changes.visits.as_ref().map_or(0, Private::memory_bytes)
        };
        self.tables.memory_bytes()
            + self.changes.iter().map(changes).sum::<usize>()
            + self.merges.iter().map(Merge::memory_bytes).sum::<usize>()
    }

    fn save(&self, state: &mut State) {
        self.tables.save(state);
        state.put_value("made", &self.made);
        for (i, changes) in self.changes.iter().enumerate() {
            state.put_state(&format!("changes{i}"), changes.values.save());
            if let Some(visits) = &changes.visits {
                state.put_state(&format!("new_visits{i}"), visits.save());
            }
        }
    }

    fn restore_tables(&mut self, state: &State) -> Result<()> {
        self.tables.restore(state)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.restore_tables(state)?;
        self.made = state.value("made")?;
        if self.made >= self.steps_per_merge {
            let why = format!("{} steps are not fewer than the {} between merges", self.made, self.steps_per_merge);
            return Err(Error::Value { name: "made".into(), why });
        }
        for (i, changes) in self.changes.iter_mut().enumerate() {
            changes.values.restore(&state.state(&format!("changes{i}")))?;
            if let Some(visits) = &mut changes.visits {
                visits.restore(&state.state(&format!("new_visits{i}")))?;
            }
        }
        Ok(())
    }
}
