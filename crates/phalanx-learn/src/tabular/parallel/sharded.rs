//! The deterministic mode: logical shards that learn apart and merge in order.

use std::sync::Arc;

use phalanx_core::pool::{Pool, Rows};

use super::super::block::{Block, GreedyTable, Masks};
use super::super::table::{Table, Value};
use super::super::{Settings, Space};
use super::merge::{Joining, Merge, Overlay, Private};
use super::{MakeBatch, ParallelSettings, check, same_space, seed_of};
use crate::error::Result;
use crate::learner::{Greedy, Learner, Report};
use crate::state::State;

/// A part of the work that does not depend on who does it.
struct Shard<T> {
    block: Block<T>,
    values: Private<T>,
    visits: Private<T>,
    result: Result<()>,
}

/// The deterministic mode.
pub(super) struct Sharded<T: Value, B: Table<T>> {
    settings: Settings,
    shards: Vec<Shard<T>>,
    /// Steps of all environments of a shard between merges.
    steps: u64,
    table: B,
    visits: Option<B>,
    merged: Arc<Masks>,
    /// One for each thread.
    merges: Vec<Merge<T>>,
    pool: Pool,
    global_step: u64,
}

impl<T: Value, B: Table<T>> Sharded<T, B> {
    pub(super) fn new(settings: Settings, sharing: ParallelSettings, seed: u64, make: MakeBatch<'_>) -> Result<Self> {
        let pool = check(&settings, &sharing)?;
        let mut merged = None;
        let shards = (0..sharing.shards).map(|shard| {
            let seed = seed_of(seed, shard);
            let batch = make(seed)?;
            let space = Space::of(batch.spec())?;
            let merged = Arc::clone(merged.get_or_insert_with(|| Masks::new(&space)));
            let masks = (Masks::new(&space), Some(merged));
            let block = Block::new(batch, &settings, settings.gamma, (seed, 0), masks)?;
            let private = || Private::new(space.states);
            Ok(Shard { block, values: private(), visits: private(), result: Ok(()) })
        });
        let shards = shards.collect::<Result<Vec<_>>>()?;
        let space = same_space(shards.iter().map(|shard| &shard.block))?;
        let steps = sharing.steps_per_sync.div_ceil(shards[0].block.agents()) as u64;
        let table = B::new(space.states, space.actions * settings.algorithm.tables());
        let visits = settings.by_visits().then(|| table.clone());
        let merged = merged.expect("there is a shard");
        let merges = (0..sharing.threads).map(|_| Merge::new(space.states)).collect();
        Ok(Self { settings, shards, steps, table, visits, merged, merges, pool, global_step: 0 })
    }

    /// Merges what the shards have changed. A state is one thread's, so how many there are makes no difference.
    fn merge(&mut self) {
        let Self { table, visits, merges, shards, merged, pool, .. } = self;
        let threads = merges.len() as u32;
        let mine = |part: usize| move |state: u32| state % threads == part as u32;
        let base = &*table;
        let changes: Vec<_> = shards.iter().map(|shard| (&shard.values, shard.block.masks())).collect();
        pool.for_each(merges.len(), 1, Rows::new(merges, 1), |range, merges| {
            for (part, merge) in range.zip(merges) {
                for (private, masks) in &changes {
                    let states = private.states.iter().filter(|state| mine(part)(**state));
                    states.for_each(|state| merged.learn(*state, masks));
                }
                merge.join(base, changes.iter().map(|(private, _)| *private), mine(part), Joining::Mean);
            }
        });
        merges.iter().for_each(|merge| merge.apply(table, Joining::Mean));
        if let Some(visits) = visits {
            for (part, merge) in merges.iter_mut().enumerate() {
                merge.join(visits, shards.iter().map(|shard| &shard.visits), mine(part), Joining::Sum);
                merge.apply(visits, Joining::Sum);
            }
        }
    }

    /// Transitions between two merges.
    fn round(&self) -> u64 {
        self.steps * self.shards.iter().map(|shard| shard.block.agents() as u64).sum::<u64>()
    }
}

impl<T: Value, B: Table<T>> Learner for Sharded<T, B> {
    fn global_step(&self) -> u64 {
        self.global_step
    }

    fn advance(&mut self, _: u64, report: &mut Report) -> Result<()> {
        let (start, shares) = (self.global_step, self.shards.len() as u64);
        let Self { settings, table, visits, steps, shards, pool, .. } = &mut *self;
        let (settings, table, visits) = (&*settings, &*table, &*visits);
        let run = |shard: &mut Shard<T>| -> Result<()> {
            let Shard { block, values, visits: private_visits, .. } = shard;
            values.clear();
            private_visits.clear();
            let mut store = Overlay { base: table, private: values };
            let mut visits = visits.as_ref().map(|base| Overlay { base, private: private_visits });
            for step in 0..*steps {
                // Where all shards together are by now, if they go at the same speed.
                let n = start + step * block.agents() as u64 * shares;
                block.step(&mut store, visits.as_mut(), settings.rate(n), settings.epsilon.at(n))?;
            }
            Ok(())
        };
        pool.for_each(shards.len(), 1, Rows::new(shards, 1), |_, part| {
            part.iter_mut().for_each(|shard| shard.result = run(shard));
        });
        for shard in &mut self.shards {
            shard.result.clone()?;
            report.episodes.append(&mut shard.block.ended);
        }
        self.merge();
        self.global_step += self.round();
        report.add("charts/epsilon", self.settings.epsilon.at(self.global_step));
        Ok(())
    }

    fn greedy(&self) -> Box<dyn Greedy> {
        Box::new(GreedyTable::<T, B>::new(self.shards[0].block.space(), self.table.clone()))
    }

    fn save(&self) -> State {
        let mut state = State::default();
        state.put_value("global_step", &self.global_step);
        state.put_state("table", self.table.save());
        if let Some(visits) = &self.visits {
            state.put_state("visits", visits.save());
        }
        state.put_state("masks", self.merged.save());
        for (i, shard) in self.shards.iter().enumerate() {
            state.put_state(&format!("block{i}"), shard.block.save());
        }
        state
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        let (states, actions) = (self.table.states(), self.table.actions());
        let table = B::load(states, actions, &state.state("table"))?;
        if let Some(visits) = &mut self.visits {
            *visits = B::load(states, actions, &state.state("visits"))?;
        }
        self.merged.restore(&state.state("masks"))?;
        for (i, shard) in self.shards.iter_mut().enumerate() {
            shard.block.restore(&state.state(&format!("block{i}")))?;
        }
        self.table = table;
        self.global_step = state.value("global_step")?;
        Ok(())
    }
}
