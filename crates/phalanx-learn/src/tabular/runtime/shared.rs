//! Workers that change one table of atomics.
//!
//! Each has its own environments. How many steps it makes in a call follows from how fast it was before, so that all
//! come to their end together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use phalanx_core::pool::Pool;

use super::super::block::Block;
use super::super::settings::Course;
use super::super::table::{Dense, Store, Table, Value};
use super::super::{Settings, Space};
use super::balance::Rates;
use super::{Lag, Runtime, UNIT, for_each_block};
use crate::error::Result;
use crate::state::State;

/// A dense table that several threads change at once.
#[derive(Debug)]
struct SharedTable<T: Value> {
    actions: usize,
    values: Vec<T::Shared>,
}

impl<T: Value> SharedTable<T> {
    fn new(states: usize, actions: usize) -> Self {
        Self { actions, values: (0..states * actions).map(|_| T::Shared::default()).collect() }
    }

    /// What it holds now.
    fn to_dense(&self) -> Dense<T> {
        let mut dense = Dense::new(self.values.len() / self.actions, self.actions);
        for (state, row) in self.values.chunks_exact(self.actions).enumerate() {
            dense.row_mut(state).iter_mut().zip(row).for_each(|(value, shared)| *value = T::load(shared));
        }
        dense
    }

    fn load(&mut self, saved: &State) -> Result<()> {
        let dense = Dense::<T>::new(self.values.len() / self.actions, self.actions).filled(saved)?;
        let rows = self.values.chunks_exact(self.actions).enumerate();
        rows.for_each(|(state, row)| row.iter().enumerate().for_each(|(a, shared)| dense.get(state, a).store(shared)));
        Ok(())
    }
}

/// A worker's hold on the shared table.
struct Hold<'a, T: Value> {
    table: &'a SharedTable<T>,
    racy: bool,
}

impl<T: Value> Store<T> for Hold<'_, T> {
    #[inline(always)]
    fn actions(&self) -> usize {
        self.table.actions
    }

    #[inline(always)]
    fn row<'a>(&'a self, state: usize, scratch: &'a mut [T]) -> &'a [T] {
        let row = &self.table.values[state * self.table.actions..][..self.table.actions];
        scratch.iter_mut().zip(row).for_each(|(value, shared)| *value = T::load(shared));
        scratch
    }

    #[inline(always)]
    fn update(&mut self, state: usize, action: usize, new: impl Fn(T) -> T) {
        let shared = &self.table.values[state * self.table.actions + action];
        if self.racy { new(T::load(shared)).store(shared) } else { T::modify(shared, new) }
    }
}

/// How far a worker is.
#[derive(Clone, Debug, Default)]
struct Pace {
    /// Steps of its environments in this call.
    share: u64,
    seconds: f64,
    /// The transitions of all workers when it last looked at the schedules.
    seen: u64,
    /// Steps until it looks again.
    left: u64,
    /// What it found in this call when it looked.
    lag: Lag,
}

/// Workers on one table.
pub(in super::super) struct Shared<T: Value> {
    values: SharedTable<T>,
    visits: Option<SharedTable<T>>,
    racy: bool,
    steps_per_sync: u64,
    paces: Vec<Pace>,
    rates: Rates,
    pool: Pool,
}

impl<T: Value> Runtime<T> for Shared<T> {
    type Table = Dense<T>;

    fn new(settings: &Settings, space: &Space, _: usize, parts: usize, pool: Pool) -> Self {
        let table = || SharedTable::new(space.states, space.actions * settings.algorithm.tables());
        Self {
            values: table(),
            visits: settings.by_visits().then(table),
            racy: settings.racy,
            steps_per_sync: settings.steps_per_sync,
            paces: vec![Pace::default(); parts],
            rates: Rates::new(parts),
            pool,
        }
    }

    fn run(&mut self, blocks: &mut [Block<T>], course: &Course, start: u64, at_most: u64) -> Result<u64> {
        let most = blocks.iter().map(|block| block.agents() as u64).max().expect("there is a block");
        let shares = self.rates.shares((at_most.min(UNIT) / most).max(1));
        self.paces.iter_mut().zip(shares).for_each(|(pace, share)| pace.share = share);
        let Self { values, visits, racy, steps_per_sync, paces, .. } = self;
        let hold = |table| Hold { table, racy: *racy };
        // What workers have told of their transitions: relaxed, because nothing else is published with it.
        let told = AtomicU64::new(start);
        for_each_block(&self.pool, blocks, paces, |block, pace| {
            let clock = Instant::now();
            let (mut values, mut visits) = (hold(values), visits.as_ref().map(hold));
            let (agents, mut untold) = (block.agents() as u64, 0);
            let interval = steps_per_sync.div_ceil(agents);
            pace.lag = Lag::default();
            for _ in 0..pace.share {
                if pace.left == 0 {
                    let now = told.fetch_add(untold, Ordering::Relaxed) + untold;
                    // Of what was made since it looked last an interval is its own.
                    pace.lag.note((now - pace.seen).saturating_sub(interval * agents));
                    (pace.seen, pace.left) = (now, interval);
                    untold = 0;
                }
                block.step(&mut values, visits.as_mut(), course.at(pace.seen))?;
                pace.left -= 1;
                untold += agents;
            }
            told.fetch_add(untold, Ordering::Relaxed);
            pace.seconds = clock.elapsed().as_secs_f64();
            Ok(())
        })?;
        for (worker, pace) in self.paces.iter().enumerate().filter(|(_, pace)| pace.share > 0) {
            self.rates.measure(worker, pace.share, pace.seconds);
        }
        Ok(told.into_inner() - start)
    }

    fn lag(&self) -> Option<Lag> {
        Some(self.paces.iter().map(|pace| pace.lag).fold(Lag::default(), Lag::merge))
    }

    fn learnt(&self) -> Dense<T> {
        self.values.to_dense()
    }

    fn threads(&self) -> usize {
        self.pool.threads()
    }

    fn memory_bytes(&self) -> usize {
        let bytes = |table: &SharedTable<T>| size_of_val(&table.values[..]);
        bytes(&self.values) + self.visits.as_ref().map_or(0, bytes)
    }

    fn save(&self, state: &mut State) {
        state.put_state("table", self.values.to_dense().save());
        if let Some(visits) = &self.visits {
            state.put_state("visits", visits.to_dense().save());
        }
        let column = |of: fn(&Pace) -> u64| self.paces.iter().map(of).collect::<Vec<_>>();
        state.put("seen", &[self.paces.len()], &column(|pace| pace.seen));
        state.put("left", &[self.paces.len()], &column(|pace| pace.left));
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        let workers = [self.paces.len()];
        let (seen, left) = (state.get::<u64>("seen", &workers)?, state.get::<u64>("left", &workers)?);
        self.values.load(&state.state("table"))?;
        if let Some(visits) = &mut self.visits {
            visits.load(&state.state("visits"))?;
        }
        for (pace, (&seen, &left)) in self.paces.iter_mut().zip(seen.iter().zip(left)) {
            *pace = Pace { seen, left, ..Pace::default() };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a race both ways to change a shared value do the same.
    #[test]
    fn shared_values_change_as_others_do() {
        for racy in [false, true] {
            let table = SharedTable::<f32>::new(3, 2);
            let mut hold = Hold { table: &table, racy };
            hold.update(2, 1, |value| value + 0.5);
            hold.update(2, 1, |value| value * 3.0);
            assert_eq!(hold.row(2, &mut [0.0; 2]), [0.0, 1.5]);
            assert_eq!(table.to_dense().get(2, 1), 1.5);
        }
    }

    #[test]
    fn no_update_is_lost_between_threads() {
        let table = SharedTable::<f32>::new(1, 1);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50_000).for_each(|_| Hold { table: &table, racy: false }.update(0, 0, |n| n + 1.0)));
            }
        });
        assert_eq!(table.to_dense().get(0, 0), 200_000.0);
    }
}
