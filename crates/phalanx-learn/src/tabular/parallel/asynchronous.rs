//! The asynchronous mode: workers that change one table of atomics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use phalanx_core::pool::{Pool, Rows};

use super::super::balance::Rates;
use super::super::block::{Block, GreedyTable, Masks};
use super::super::table::{Dense, Store, Table, Value};
use super::super::{Settings, Space};
use super::{MakeBatch, Mode, ParallelSettings, check, same_space, seed_of};
use crate::error::Result;
use crate::learner::{Greedy, Learner, Report};
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
        let dense = Dense::<T>::load(self.values.len() / self.actions, self.actions, saved)?;
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

struct Worker<T> {
    block: Block<T>,
    /// Steps of all its environments in this unit.
    share: u64,
    seconds: f64,
    result: Result<()>,
}

/// The asynchronous mode.
pub(super) struct Asynchronous<T: Value> {
    settings: Settings,
    sharing: ParallelSettings,
    workers: Vec<Worker<T>>,
    rates: Rates,
    table: SharedTable<T>,
    visits: Option<SharedTable<T>>,
    pool: Pool,
    global_step: u64,
}

/// Looks at the schedules of each worker in a unit of work.
const SYNCS_PER_UNIT: u64 = 16;

impl<T: Value> Asynchronous<T> {
    pub(super) fn new(settings: Settings, sharing: ParallelSettings, seed: u64, make: MakeBatch<'_>) -> Result<Self> {
        let pool = check(&settings, &sharing)?;
        let mut masks = None;
        let workers = (0..sharing.threads).map(|worker| {
            let seed = seed_of(seed, worker);
            let batch = make(seed)?;
            let space = Space::of(batch.spec())?;
            // All workers know what one of them has found out.
            let masks = Arc::clone(masks.get_or_insert_with(|| Masks::new(&space)));
            let block = Block::new(batch, &settings, settings.gamma, (seed, 0), (masks, None))?;
            Ok(Worker { block, share: 0, seconds: 0.0, result: Ok(()) })
        });
        let workers = workers.collect::<Result<Vec<_>>>()?;
        let space = same_space(workers.iter().map(|worker| &worker.block))?;
        let table = || SharedTable::new(space.states, space.actions * settings.algorithm.tables());
        let visits = settings.by_visits().then(table);
        let (table, rates) = (table(), Rates::new(workers.len()));
        Ok(Self { settings, sharing, workers, rates, table, visits, pool, global_step: 0 })
    }
}

impl<T: Value> Learner for Asynchronous<T> {
    fn global_step(&self) -> u64 {
        self.global_step
    }

    fn advance(&mut self, last_step: u64, report: &mut Report) -> Result<()> {
        let agents = self.workers[0].block.agents() as u64;
        let chunk = (self.sharing.steps_per_sync as u64).div_ceil(agents);
        let workers = self.workers.len() as u64;
        let left = last_step.saturating_sub(self.global_step) / agents;
        let shares = self.rates.shares(left.clamp(1, chunk * workers * SYNCS_PER_UNIT));
        self.workers.iter_mut().zip(shares).for_each(|(worker, share)| worker.share = share);
        let (settings, racy) = (&self.settings, self.sharing.mode == Mode::Racy);
        let (table, visits) = (&self.table, &self.visits);
        let done = AtomicU64::new(self.global_step);
        let run = |worker: &mut Worker<T>| -> Result<()> {
            let mut store = Hold { table, racy };
            let mut visits = visits.as_ref().map(|table| Hold { table, racy });
            let mut left = worker.share;
            while left > 0 {
                let n = done.load(Ordering::Relaxed);
                let (rate, epsilon) = (settings.rate(n), settings.epsilon.at(n));
                let steps = left.min(chunk);
                for _ in 0..steps {
                    worker.block.step(&mut store, visits.as_mut(), rate, epsilon)?;
                }
                done.fetch_add(steps * agents, Ordering::Relaxed);
                left -= steps;
            }
            Ok(())
        };
        self.pool.for_each(self.workers.len(), 1, Rows::new(&mut self.workers, 1), |_, part| {
            for worker in part {
                let start = Instant::now();
                worker.result = run(worker);
                worker.seconds = start.elapsed().as_secs_f64();
            }
        });
        self.global_step = done.into_inner();
        for (i, worker) in self.workers.iter_mut().enumerate() {
            worker.result.clone()?;
            if worker.share > 0 {
                self.rates.measure(i, worker.share, worker.seconds);
            }
            report.episodes.append(&mut worker.block.ended);
        }
        report.add("charts/epsilon", self.settings.epsilon.at(self.global_step));
        Ok(())
    }

    fn greedy(&self) -> Box<dyn Greedy> {
        Box::new(GreedyTable::<T, Dense<T>>::new(self.workers[0].block.space(), self.table.to_dense()))
    }

    fn save(&self) -> State {
        let mut state = State::default();
        state.put_value("global_step", &self.global_step);
        state.put_state("table", self.table.to_dense().save());
        if let Some(visits) = &self.visits {
            state.put_state("visits", visits.to_dense().save());
        }
        for (i, worker) in self.workers.iter().enumerate() {
            state.put_state(&format!("block{i}"), worker.block.save());
        }
        state
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.table.load(&state.state("table"))?;
        if let Some(visits) = &mut self.visits {
            visits.load(&state.state("visits"))?;
        }
        for (i, worker) in self.workers.iter_mut().enumerate() {
            worker.block.restore(&state.state(&format!("block{i}")))?;
        }
        self.global_step = state.value("global_step")?;
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
