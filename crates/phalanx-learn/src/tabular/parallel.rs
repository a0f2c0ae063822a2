//! Threads on one table.
//!
//! *Deterministic*: the work is cut into logical shards, each with its own environments and random streams, which
//! learn on a private copy of what they touch. After `steps_per_sync` transitions of each, the copies are merged in
//! order of the shards: Q += Σ n d / Σ n over the shards' changes d, weighted by their numbers of updates n. Threads
//! merely execute shards, so the result depends on seed, shards and `steps_per_sync` only.
//!
//! *Asynchronous*: every worker learns on the shared table itself, whose values are atomics; nothing waits for
//! anything, and what comes out depends on who was first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use phalanx_core::batch::Batch;
use phalanx_core::pool::{Pool, Rows};
use phalanx_core::rng::key_of_seed;
use serde::{Deserialize, Serialize};

use super::balance::Rates;
use super::block::{Block, GreedyTable, Masks};
use super::table::{Dense, Hybrid, List, Sparse, Store, Table, Value};
use super::{Kind, Precision, Settings, Space};
use crate::error::{Error, Result};
use crate::learner::{Greedy, Learner, Report};
use crate::state::State;

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

/// Where rows are, by state: an array, most of whose pages are never touched.
#[derive(Debug)]
struct Places(Vec<u32>);

impl Places {
    fn new(states: usize) -> Self {
        Self(vec![0; states])
    }

    #[inline(always)]
    fn get(&self, state: usize) -> Option<usize> {
        (self.0[state] as usize).checked_sub(1)
    }

    fn set(&mut self, state: usize, place: usize) {
        self.0[state] = place as u32 + 1;
    }

    fn clear(&mut self, states: &mut Vec<u32>) {
        states.drain(..).for_each(|state| self.0[state as usize] = 0);
    }
}

/// What a shard has changed since the last merge: rows copied when they were first changed.
#[derive(Debug)]
struct Private<T> {
    places: Places,
    states: Vec<u32>,
    values: Vec<T>,
    /// How often each value was updated.
    updates: Vec<u32>,
}

impl<T> Private<T> {
    fn new(states: usize) -> Self {
        Self { places: Places::new(states), states: Vec::new(), values: Vec::new(), updates: Vec::new() }
    }

    fn clear(&mut self) {
        self.places.clear(&mut self.states);
        self.values.clear();
        self.updates.clear();
    }
}

/// A table as a shard sees it: its own changes, and below them what all agreed on.
struct Overlay<'a, T, B> {
    base: &'a B,
    private: &'a mut Private<T>,
}

impl<T: Value, B: Table<T>> Store<T> for Overlay<'_, T, B> {
    #[inline(always)]
    fn actions(&self) -> usize {
        self.base.actions()
    }

    #[inline(always)]
    fn row<'a>(&'a self, state: usize, scratch: &'a mut [T]) -> &'a [T] {
        match self.private.places.get(state) {
            Some(place) => &self.private.values[place * self.actions()..][..self.actions()],
            None => self.base.row(state, scratch),
        }
    }

    #[inline(always)]
    fn update(&mut self, state: usize, action: usize, new: impl Fn(T) -> T) {
        let width = self.actions();
        let Private { places, states, values, updates } = &mut *self.private;
        let start = match places.get(state) {
            Some(place) => place * width,
            None => {
                let start = values.len();
                places.set(state, states.len());
                states.push(state as u32);
                updates.resize(start + width, 0);
                match self.base.stored(state) {
                    Some(row) => values.extend_from_slice(row),
                    None => values.resize(start + width, T::zero()),
                }
                start
            }
        };
        updates[start + action] += 1;
        values[start + action] = new(values[start + action]);
    }
}

/// What becomes of a value that several shards have changed.
#[derive(Clone, Copy, PartialEq)]
enum Joining {
    /// The changes' mean, weighted by the numbers of updates.
    Mean,
    /// The changes' sum: of counts.
    Sum,
}

/// The changes of one value by all shards.
#[derive(Clone, Copy, Debug, Default)]
struct Joint<T> {
    shards: u32,
    change: f64,
    weight: f64,
    /// What the last of them made of it.
    value: T,
}

/// The changes of those states that are one thread's to merge.
#[derive(Debug)]
struct Merge<T> {
    places: Places,
    states: Vec<u32>,
    joints: Vec<Joint<T>>,
}

impl<T: Value> Merge<T> {
    fn new(states: usize) -> Self {
        Self { places: Places::new(states), states: Vec::new(), joints: Vec::new() }
    }

    /// Joins the changes of all states that `mine` picks, in order of the shards.
    fn join<'a, B: Table<T>>(
        &mut self,
        table: &B,
        privates: impl Iterator<Item = &'a Private<T>>,
        mine: impl Fn(u32) -> bool,
        joining: Joining,
    ) {
        let width = table.actions();
        let Self { places, states, joints } = self;
        places.clear(states);
        joints.clear();
        for private in privates {
            let rows = private.values.chunks_exact(width).zip(private.updates.chunks_exact(width));
            for (&state, (values, updates)) in private.states.iter().zip(rows).filter(|(state, _)| mine(**state)) {
                let place = places.get(state as usize).unwrap_or_else(|| {
                    places.set(state as usize, states.len());
                    states.push(state);
                    joints.resize(joints.len() + width, Joint::default());
                    states.len() - 1
                });
                let old = table.stored(state as usize);
                let changes = joints[place * width..][..width].iter_mut().zip(values.iter().zip(updates)).enumerate();
                for (cell, (joint, (&value, &updates))) in changes.filter(|(_, (_, (_, updates)))| **updates > 0) {
                    let change = wide(value) - old.map_or(0.0, |row| wide(row[cell]));
                    let weight = if joining == Joining::Mean { f64::from(updates) } else { 1.0 };
                    joint.shards += 1;
                    joint.change += weight * change;
                    joint.weight += weight;
                    joint.value = value;
                }
            }
        }
    }

    /// Writes what was joined into the table.
    fn apply<B: Table<T>>(&self, table: &mut B, joining: Joining) {
        for (&state, joints) in self.states.iter().zip(self.joints.chunks_exact(table.actions())) {
            for (value, joint) in table.row_mut(state as usize).iter_mut().zip(joints) {
                let divisor = if joining == Joining::Mean { joint.weight } else { 1.0 };
                match joint.shards {
                    0 => {}
                    // The mean of one change is that change, and taken as it is it has no rounding error either.
                    1 => *value = joint.value,
                    _ => *value = T::of(wide(*value) + joint.change / divisor),
                }
            }
        }
    }
}

fn wide<T: Value>(value: T) -> f64 {
    value.to_f64().expect("every value is a f64")
}

/// A part of the work that does not depend on who does it.
struct Shard<T> {
    block: Block<T>,
    values: Private<T>,
    visits: Private<T>,
    result: Result<()>,
}

/// The deterministic mode.
struct Sharded<T: Value, B: Table<T>> {
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
    fn new(settings: Settings, sharing: ParallelSettings, seed: u64, make: MakeBatch<'_>) -> Result<Self> {
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
struct Asynchronous<T: Value> {
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
    fn new(settings: Settings, sharing: ParallelSettings, seed: u64, make: MakeBatch<'_>) -> Result<Self> {
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

    fn changed(base: &Dense<f64>, changes: &[(usize, usize, f64)]) -> Private<f64> {
        let mut private = Private::new(base.states());
        let mut store = Overlay { base, private: &mut private };
        changes.iter().for_each(|(state, action, value)| store.update(*state, *action, |_| *value));
        private
    }

    /// Three updates to 2 and one to 6 of a value that was 1: 1 + (3 · 1 + 1 · 5) / 4.
    #[test]
    fn a_merge_is_the_mean_of_changes_by_visits() {
        let mut table = Dense::<f64>::new(10, 2);
        (0..10).for_each(|state| table.set(state, 0, 1.0));
        let often = changed(&table, &[(4, 0, 9.0), (4, 0, 7.0), (4, 0, 2.0), (5, 1, 0.3)]);
        let once = changed(&table, &[(4, 0, 6.0), (7, 0, -1.0)]);
        for (joining, shared) in [(Joining::Mean, 3.0), (Joining::Sum, 7.0)] {
            let mut merged = table.clone();
            let mut merge = Merge::new(10);
            for part in 0..2 {
                merge.join(&table, [&often, &once].into_iter(), |state| state % 2 == part, joining);
                merge.apply(&mut merged, joining);
            }
            let mut expected = table.clone();
            for (state, action, value) in [(4, 0, shared), (5, 1, 0.3), (7, 0, -1.0)] {
                expected.set(state, action, value);
            }
            assert_eq!(merged, expected);
        }
    }

    #[test]
    fn seeds_of_shards_differ_and_the_first_is_that_of_the_run() {
        let seeds: std::collections::HashSet<u64> =
            (0..50).flat_map(|seed| (0..16).map(move |shard| seed_of(seed, shard))).collect();
        assert_eq!(seeds.len(), 50 * 16);
        assert_eq!(seed_of(7, 0), 7);
    }

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
