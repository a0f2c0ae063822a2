//! One thread: choose, step and learn, for all agents of a batch on one table.

use std::marker::PhantomData;

use phalanx_core::batch::Batch;

use super::block::{Block, GreedyTable, Masks};
use super::table::{Dense, Hybrid, List, Sparse, Table, Value};
use super::{Kind, Precision, Settings, Space};
use crate::error::Result;
use crate::learner::{Greedy, Learner, Report};
use crate::state::State;

/// Steps of all environments in one unit of work: enough to forget what a call costs.
const STEPS_PER_UNIT: u64 = 64;

/// A table that learns on one thread.
pub struct Single<T: Value, B: Table<T>> {
    settings: Settings,
    block: Block<T>,
    table: B,
    visits: Option<B>,
    global_step: u64,
    value: PhantomData<T>,
}

impl<T: Value, B: Table<T>> std::fmt::Debug for Single<T, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { settings, global_step, .. } = self;
        f.debug_struct("Single").field("settings", settings).field("global_step", global_step).finish_non_exhaustive()
    }
}

/// A learner for a batch that starts new episodes in the same step; the seed decides everything.
pub fn single(settings: Settings, seed: u64, batch: Box<dyn Batch>) -> Result<Box<dyn Learner>> {
    fn of<T: Value>(settings: Settings, seed: u64, batch: Box<dyn Batch>) -> Result<Box<dyn Learner>> {
        Ok(match settings.table {
            Kind::Dense => Box::new(Single::<T, Dense<T>>::new(settings, seed, batch)?),
            Kind::List => Box::new(Single::<T, List<T>>::new(settings, seed, batch)?),
            Kind::Sparse => Box::new(Single::<T, Sparse<T>>::new(settings, seed, batch)?),
            Kind::Auto => Box::new(Single::<T, Hybrid<T>>::new(settings, seed, batch)?),
        })
    }
    match settings.precision {
        Precision::F32 => of::<f32>(settings, seed, batch),
        Precision::F64 => of::<f64>(settings, seed, batch),
    }
}

impl<T: Value, B: Table<T>> Single<T, B> {
    /// A learner for a batch that starts new episodes in the same step; the seed decides everything.
    pub fn new(settings: Settings, seed: u64, batch: Box<dyn Batch>) -> Result<Self> {
        Self::with_gamma(settings, settings.gamma, seed, batch)
    }

    /// As [`Single::new`], with another discount than the settings allow.
    pub(super) fn with_gamma(settings: Settings, gamma: f64, seed: u64, batch: Box<dyn Batch>) -> Result<Self> {
        settings.check()?;
        let space = Space::of(batch.spec())?;
        let block = Block::new(batch, &settings, gamma, (seed, 0), (Masks::new(&space), None))?;
        let table = B::new(space.states, space.actions * settings.algorithm.tables());
        let visits = settings.by_visits().then(|| table.clone());
        Ok(Self { settings, block, table, visits, global_step: 0, value: PhantomData })
    }

    /// What was learnt.
    pub fn table(&self) -> &B {
        &self.table
    }
}

impl<T: Value, B: Table<T>> Learner for Single<T, B> {
    fn global_step(&self) -> u64 {
        self.global_step
    }

    fn advance(&mut self, last_step: u64, report: &mut Report) -> Result<()> {
        let agents = self.block.agents() as u64;
        let steps = (last_step.saturating_sub(self.global_step) / agents).clamp(1, STEPS_PER_UNIT);
        for _ in 0..steps {
            let (rate, epsilon) = (self.settings.rate(self.global_step), self.settings.epsilon.at(self.global_step));
            self.block.step(&mut self.table, self.visits.as_mut(), rate, epsilon)?;
            self.global_step += agents;
        }
        report.add("charts/epsilon", self.settings.epsilon.at(self.global_step));
        report.episodes.append(&mut self.block.ended);
        Ok(())
    }

    fn greedy(&self) -> Box<dyn Greedy> {
        Box::new(GreedyTable::<T, B>::new(self.block.space(), self.table.clone()))
    }

    fn save(&self) -> State {
        let mut state = State::default();
        state.put_value("global_step", &self.global_step);
        state.put_state("table", self.table.save());
        if let Some(visits) = &self.visits {
            state.put_state("visits", visits.save());
        }
        state.put_state("block", self.block.save());
        state
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        let (states, actions) = (self.table.states(), self.table.actions());
        let table = B::load(states, actions, &state.state("table"))?;
        if let Some(visits) = &mut self.visits {
            *visits = B::load(states, actions, &state.state("visits"))?;
        }
        self.block.restore(&state.state("block"))?;
        self.table = table;
        self.global_step = state.value("global_step")?;
        Ok(())
    }
}
