//! A table in training: environments in blocks, and a runtime that lets them learn.

use std::sync::Arc;

use phalanx_core::batch::Batch;
use phalanx_core::pool::Pool;
use phalanx_core::rng::key_of_seed;

use super::block::{Block, GreedyTable, Masks};
use super::runtime::{Runtime, Sharded, Shared, Single};
use super::settings::Course;
use super::table::{Dense, Hybrid, List, Sparse, Table, Value};
use super::update::Rate;
use super::{Kind, Precision, Settings, Space};
use crate::error::{Error, Result};
use crate::learner::{Greedy, Learner, Report};
use crate::memory::Bytes;
use crate::run::config::RunConfig;
use crate::stages::Stages;
use crate::state::State;

/// Makes a number of environments from a seed, always of the same kind, on one thread, since the blocks share out the
/// threads, and with new episodes that start in the same step.
pub type MakeBatch<'a> = &'a mut dyn FnMut(usize, u64) -> phalanx_core::Result<Box<dyn Batch>>;

/// A learner whose memory is a table.
pub trait TableLearner: Learner {
    /// Bytes of the table, with everything that is kept for each state or each visit.
    fn memory_bytes(&self) -> usize;

    /// What was learnt so far, as [`Table::save`] has it.
    fn table(&self) -> State;
}

/// The learner that the settings describe; of the run it takes seed, length, and number of environments and threads.
pub fn learner(settings: &Settings, run: &RunConfig, make: MakeBatch<'_>) -> Result<Box<dyn TableLearner>> {
    fn of_value<T: Value>(settings: &Settings, run: &RunConfig, make: MakeBatch<'_>) -> Result<Box<dyn TableLearner>> {
        match settings.table {
            _ if settings.learns_in_one_table() => Ok(Box::new(Tabular::<T, Shared<T>>::new(settings, run, make)?)),
            Kind::Dense => of_table::<T, Dense<T>>(settings, run, make),
            Kind::List => of_table::<T, List<T>>(settings, run, make),
            Kind::Sparse => of_table::<T, Sparse<T>>(settings, run, make),
            Kind::Auto => of_table::<T, Hybrid<T>>(settings, run, make),
        }
    }
    fn of_table<T: Value, B: Table<T>>(
        settings: &Settings,
        run: &RunConfig,
        make: MakeBatch<'_>,
    ) -> Result<Box<dyn TableLearner>> {
        // Nothing to merge: the same bits without a copy.
        if settings.parts(run) == 1 {
            return Ok(Box::new(Tabular::<T, Single<B>>::new(settings, run, make)?));
        }
        Ok(Box::new(Tabular::<T, Sharded<T, B>>::new(settings, run, make)?))
    }
    settings.check()?;
    match settings.precision {
        Precision::F32 => of_value::<f32>(settings, run, make),
        Precision::F64 => of_value::<f64>(settings, run, make),
    }
}

/// A table that learns in some runtime.
pub(super) struct Tabular<T, R> {
    course: Course,
    space: Space,
    blocks: Vec<Block<T>>,
    masks: Arc<Masks>,
    pub(super) runtime: R,
    global_step: u64,
    save_npy: bool,
}

impl<T: Value, R: Runtime<T>> Tabular<T, R> {
    pub(super) fn new(settings: &Settings, run: &RunConfig, make: MakeBatch<'_>) -> Result<Self> {
        let parts = settings.parts(run);
        let mut common: Option<(Space, Arc<Masks>)> = None;
        let mut blocks = Vec::new();
        for part in 0..parts {
            let agents = run.num_envs / parts + usize::from(part < run.num_envs % parts);
            let seed = seed_of(run.seed, part);
            let batch = make(agents, seed)?;
            let space = Space::of(batch.spec())?;
            let (first, masks) = match &common {
                Some(common) => common,
                None => {
                    check_room::<T>(settings, &space, parts)?;
                    common.insert((space, Masks::new(&space)))
                }
            };
            if *first != space {
                return Err(Error::setting("env", "must be the same in all blocks"));
            }
            blocks.push(Block::new(batch, settings, seed, Arc::clone(masks))?);
        }
        let (space, masks) = common.ok_or_else(|| Error::setting("run.num_envs", "is 0, but must be at least 1"))?;
        let threads = settings.threads(run);
        let pool = Pool::try_new(threads)
            .map_err(|error| Error::setting("run.threads", format!("is {threads}, but the system says: {error}")))?;
        let runtime = R::new(settings, &space, run.num_envs, parts, pool);
        let (course, save_npy) = (Course::new(settings, run.total_timesteps()), settings.save_npy);
        Ok(Self { course, space, blocks, masks, runtime, global_step: 0, save_npy })
    }
}

/// The seed of a part; the first has that of the run, so that one part is the single-thread runtime.
fn seed_of(seed: u64, part: usize) -> u64 {
    if part == 0 {
        return seed;
    }
    let [low, high] = key_of_seed(seed);
    (u64::from(high) << 32 | u64::from(low)).wrapping_add(part as u64)
}

/// Refuses what would take more memory than there is.
fn check_room<T>(settings: &Settings, space: &Space, parts: usize) -> Result<()> {
    let tables = if settings.by_visits() { 2 } else { 1 };
    let what = format!("what is learnt of {} states", space.states);
    // What grows with the visits cannot be known before.
    if settings.learns_in_one_table() || matches!(settings.table, Kind::Dense | Kind::List) {
        let values = Bytes::of::<T>(&[space.states, space.actions, settings.algorithm.tables(), tables]);
        values.require("agent.table", settings.table.name(), &what)?;
    }
    if parts > 1 && !settings.learns_in_one_table() {
        let places = Bytes::of::<u32>(&[space.states, tables, parts]);
        places.require("agent.shards", parts, &what)?;
    }
    Ok(())
}

impl<T: Value, R: Runtime<T>> Learner for Tabular<T, R> {
    fn global_step(&self) -> u64 {
        self.global_step
    }

    fn advance(&mut self, last_step: u64, report: &mut Report) -> Result<()> {
        let at_most = last_step.saturating_sub(self.global_step);
        let begun = report.stages.begin();
        if report.stages.is_on() {
            self.blocks.iter_mut().for_each(|block| block.stages = Stages::on());
        }
        self.global_step += self.runtime.run(&mut self.blocks, &self.course, self.global_step, at_most)?;
        if let Some(value) = self.blocks.iter_mut().filter_map(Block::take_fault).last() {
            Error::check_finite("a value of the table", value, self.global_step)?;
        }
        self.blocks.iter_mut().for_each(|block| report.episodes.take(&mut block.ended));
        report.stages.take_mean(begun, self.runtime.threads(), self.blocks.iter_mut().map(|block| &mut block.stages));
        let (rate, epsilon) = self.course.at(self.global_step);
        report.add("charts/epsilon", epsilon);
        if let Some(lag) = self.runtime.lag().filter(|lag| lag.looks > 0) {
            report.add("charts/staleness", lag.mean());
            report.add("charts/staleness_max", lag.max as f64);
        }
        // By visits every value has a rate of its own.
        if let Rate::Fixed(rate) = rate {
            report.add("charts/learning_rate", rate);
        }
        Ok(())
    }

    fn greedy(&self) -> Box<dyn Greedy> {
        Box::new(GreedyTable::<T, R::Table>::new(self.space, self.runtime.learnt()))
    }

    fn exported(&self) -> Option<(&'static str, Vec<u8>)> {
        self.save_npy.then(|| ("table.npy", self.runtime.learnt().to_npy()))
    }

    fn save(&self) -> State {
        let mut state = State::default();
        state.put_value("global_step", &self.global_step);
        self.runtime.save(&mut state);
        state.put_state("masks", self.masks.save());
        for (i, block) in self.blocks.iter().enumerate() {
            state.put_state(&format!("block{i}"), block.save());
        }
        state
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.runtime.restore(state)?;
        self.masks.restore(&state.state("masks"))?;
        for (i, block) in self.blocks.iter_mut().enumerate() {
            block.restore(&state.state(&format!("block{i}")))?;
        }
        self.global_step = state.value("global_step")?;
        Ok(())
    }

    /// What was learnt since the last merge included.
    fn restore_policy(&mut self, state: &State) -> Result<()> {
        self.runtime.restore(state)
    }
}

impl<T: Value, R: Runtime<T>> TableLearner for Tabular<T, R> {
    fn memory_bytes(&self) -> usize {
        self.runtime.memory_bytes() + self.masks.memory_bytes()
    }

    fn table(&self) -> State {
        self.runtime.learnt().save()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counted as everything else is: what the system would promise and not have is refused, too.
    #[test]
    fn tables_that_do_not_fit_into_memory_are_refused() {
        let games = phalanx_envs::registry::find("TicTacToe-v0").unwrap();
        let mut spec = games.batch(&phalanx_core::batch::BatchConfig::default()).unwrap().spec().clone();
        *spec.observation.high.last_mut().unwrap() = 16_777_215.0;
        let space = Space::of(&spec).unwrap();
        let message = |settings, parts| check_room::<f64>(&settings, &space, parts).unwrap_err().to_string();
        let found = message(Settings::default(), 65_536);
        let expected = "agent.shards is 65536, but what is learnt of 16777216 states would take 4.0 TiB of memory";
        assert!(found.starts_with(expected), "{found}");
        let room = check_room::<f32>(&Settings { table: Kind::Dense, ..Settings::default() }, &space, 1);
        assert!(room.is_ok(), "{room:?}");
    }

    #[test]
    fn seeds_of_parts_differ_and_the_first_is_that_of_the_run() {
        let seeds: std::collections::HashSet<u64> =
            (0..50).flat_map(|seed| (0..16).map(move |part| seed_of(seed, part))).collect();
        assert_eq!(seeds.len(), 50 * 16);
        assert_eq!(seed_of(7, 0), 7);
    }
}
