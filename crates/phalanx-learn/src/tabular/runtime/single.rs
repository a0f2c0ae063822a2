//! One thread: choose, step and learn, for all agents of a block on one table.

use phalanx_core::pool::Pool;

use super::super::block::Block;
use super::super::settings::Course;
use super::super::table::{Table, Value};
use super::super::{Settings, Space};
use super::{Runtime, Tables, UNIT};
use crate::error::Result;
use crate::state::State;

/// One block on one table.
pub(in super::super) struct Single<B> {
    tables: Tables<B>,
}

impl<T: Value, B: Table<T>> Runtime<T> for Single<B> {
    type Table = B;

    fn new(settings: &Settings, space: &Space, _: usize, _: usize, _: Pool) -> Self {
        Self { tables: Tables::new(settings, space) }
    }

    fn run(&mut self, blocks: &mut [Block<T>], course: &Course, start: u64, at_most: u64) -> Result<u64> {
        let [block] = blocks else { unreachable!("one thread has one block") };
        let agents = block.agents() as u64;
        let steps = (at_most.min(UNIT) / agents).max(1);
        let Tables { values, visits } = &mut self.tables;
        for step in 0..steps {
            block.step(values, visits.as_mut(), course.at(start + step * agents))?;
        }
        Ok(steps * agents)
    }

    fn learnt(&self) -> B {
        self.tables.values.clone()
    }

    fn memory_bytes(&self) -> usize {
        self.tables.memory_bytes()
    }

    fn save(&self, state: &mut State) {
        self.tables.save(state);
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.tables.restore(state)
    }
}
