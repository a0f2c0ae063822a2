//! Blocks that learn apart and merge in order.

use phalanx_core::pool::Pool;

use super::super::block::Block;
use super::super::settings::Course;
use super::super::table::{Table, Value};
use super::super::{Settings, Space};
use super::merge::{Agreed, Joining, Overlay, Private};
use super::{Runtime, Tables, UNIT, for_each_block};
use crate::error::{Error, Result};
use crate::state::State;

/// A block's rows of the values and, if rates go by them, of the visits.
// On lines of its own, in pairs as they are fetched: each is one thread's to write, its neighbours another's.
#[repr(align(128))]
#[derive(Clone)]
struct Copies<T>(Vec<Private<T>>);

/// The names of a block's copies in a checkpoint.
const NAMES: [&str; 2] = ["changes", "new_visits"];

/// Blocks on private copies of one table.
pub(in super::super) struct Sharded<T, B> {
    /// What was known before anything was merged; of other states `agreed` knows better.
    tables: Tables<B>,
    /// What the last merge has made of the values, and of the visits.
    agreed: Vec<Agreed<T>>,
    copies: Vec<Copies<T>>,
    /// Steps of all environments between merges.
    steps_per_merge: u64,
    /// Those since the last one.
    made: u64,
    pool: Pool,
}

impl<T: Value, B: Table<T>> Sharded<T, B> {
    /// Merges what the blocks have changed. How many threads there are makes no difference.
    fn merge(&self, agreed: &mut [Agreed<T>], copies: &mut [Copies<T>]) {
        let bases = std::iter::once(&self.tables.values).chain(&self.tables.visits);
        for (at, (agreed, base)) in agreed.iter_mut().zip(bases).enumerate() {
            let joining = if at == 0 { Joining::Mean } else { Joining::Sum };
            agreed.merge(base, copies, |copies| &copies.0[at], |copies| &mut copies.0[at], joining, &self.pool);
        }
    }

    /// The tables as they were at the last merge.
    fn merged(&self) -> Tables<B> {
        let Tables { mut values, mut visits } = self.tables.clone();
        for (table, agreed) in std::iter::once(&mut values).chain(&mut visits).zip(&self.agreed) {
            agreed.write_to(table);
        }
        Tables { values, visits }
    }

    /// Forgets what blocks have found out since the table was made or restored.
    fn forget(&mut self) {
        let Tables { values, visits } = &self.tables;
        let (states, width, tables) = (values.states(), values.actions(), 1 + usize::from(visits.is_some()));
        // Each made for itself: a clone would not keep the room behind its arrays.
        self.agreed = (0..tables).map(|_| Agreed::new(states, width)).collect();
        for copies in &mut self.copies {
            copies.0 = (0..tables).map(|_| Private::new(states, width)).collect();
        }
        self.made = 0;
    }
}

impl<T: Value, B: Table<T>> Runtime<T> for Sharded<T, B> {
    type Table = B;

    fn new(settings: &Settings, space: &Space, num_envs: usize, parts: usize, pool: Pool) -> Self {
        let steps_per_merge = settings.steps_per_sync.div_ceil(num_envs.div_ceil(parts) as u64);
        let (tables, copies) = (Tables::new(settings, space), vec![Copies(Vec::new()); parts]);
        let mut new = Self { tables, agreed: Vec::new(), copies, steps_per_merge, made: 0, pool };
        new.forget();
        new
    }

    fn run(&mut self, blocks: &mut [Block<T>], course: &Course, start: u64, at_most: u64) -> Result<u64> {
        let num_envs: u64 = blocks.iter().map(|block| block.agents() as u64).sum();
        let steps = (at_most.min(UNIT) / num_envs).clamp(1, self.steps_per_merge - self.made);
        let Tables { values, visits } = &self.tables;
        for_each_block(&self.pool, blocks, &mut self.copies, |block, Copies(copies)| {
            let mut overlays =
                std::iter::once(values).chain(visits).zip(copies).map(|(base, private)| Overlay { base, private });
            let mut store = overlays.next().expect("there are values");
            let mut visits = overlays.next();
            for step in 0..steps {
                // Where all blocks together are by now, if they go at the same speed.
                block.step(&mut store, visits.as_mut(), course.at(start + step * num_envs))?;
            }
            Ok(())
        })?;
        self.made += steps;
        if self.made == self.steps_per_merge {
            let (mut agreed, mut copies) = (std::mem::take(&mut self.agreed), std::mem::take(&mut self.copies));
            self.merge(&mut agreed, &mut copies);
            (self.agreed, self.copies, self.made) = (agreed, copies, 0);
        }
        Ok(steps * num_envs)
    }

    /// As if there were a merge now.
    fn learnt(&self) -> B {
        if self.made == 0 {
            return self.merged().values;
        }
        let (mut agreed, mut copies) = (self.agreed.clone(), self.copies.clone());
        self.merge(&mut agreed, &mut copies);
        let mut table = self.tables.values.clone();
        agreed[0].write_to(&mut table);
        table
    }

    fn threads(&self) -> usize {
        self.pool.threads()
    }

    fn memory_bytes(&self) -> usize {
        let copies = self.copies.iter().flat_map(|copies| &copies.0).map(Private::memory_bytes).sum::<usize>();
        self.tables.memory_bytes() + copies + self.agreed.iter().map(Agreed::memory_bytes).sum::<usize>()
    }

    fn save(&self, state: &mut State) {
        self.merged().save(state);
        state.put_value("made", &self.made);
        for (i, copies) in self.copies.iter().enumerate() {
            for (name, private) in NAMES.iter().zip(&copies.0) {
                state.put_state(&format!("{name}{i}"), private.save());
            }
        }
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.tables.restore(state)?;
        self.forget();
        let made = state.value("made")?;
        if made >= self.steps_per_merge {
            let why = format!("{made} steps are not fewer than the {} between merges", self.steps_per_merge);
            return Err(Error::Value { name: "made".into(), why });
        }
        for (i, copies) in self.copies.iter_mut().enumerate() {
            for (name, private) in NAMES.iter().zip(&mut copies.0) {
                private.restore(&state.state(&format!("{name}{i}")))?;
            }
        }
        self.made = made;
        Ok(())
    }
}
