//! How a table learns, and how the work is shared out.

use super::schedule::{Horizon, Schedule};
use super::table::Kind;
use super::update::{Algorithm, BatchUpdate, Rate};
use crate::error::{Error, Result};
use crate::run::config::RunConfig;
use crate::run::settings::{Complaint, Section, any, check_keys, choice, optional, section, share, thread_count};

choice! {
    /// The type of a table's values.
    Precision {
        /// Single, for throughput.
        F32 = "f32",
        /// Double, for exact tests.
        F64 = "f64",
    }
}

section! {
    /// Settings of tabular learning; all counts are transitions.
    Settings in "agent" {
        /// What values are bootstrapped from. `q_learning`.
        algorithm: Algorithm = Algorithm::QLearning, any;
        /// The discount. 0.97.
        gamma: f64 = 0.97, share;
        /// The learning rate. `linear(0.3, 0.01, 100%)`, recipe A of the reference.
        learning_rate: Schedule = Schedule::Linear { start: 0.3, end: 0.01, horizon: Horizon::Percent(100.0) },
            Schedule::rate;
        /// Exploration. `linear(1, 0.1, 50%)`, recipe A of the reference.
        epsilon: Schedule = Schedule::Linear { start: 1.0, end: 0.1, horizon: Horizon::Percent(50.0) },
            Schedule::probability;
        /// How the table keeps its values. `optimal` (also `auto`).
        table: Kind = Kind::Auto, any;
        /// Share of visited states from which an `optimal` table is dense. None: 0.25, and from the first one on if the
        /// table fits a core's caches.
        dense_threshold: Option<f64> = None, optional(share);
        /// The type of the values. `f32`.
        precision: Precision = Precision::F32, any;
        /// Whether a run that has come to its end leaves the whole table as `table.npy`, a row of action values for each
        /// state (of double Q-learning two), for NumPy. False.
        save_npy: bool = false, any;
        /// How a batch is applied. `sequential`.
        batch_update: BatchUpdate = BatchUpdate::Sequential, any;
        /// Workers: of deterministic learning the threads, else blocks of environments with streams of their own as
        /// well. None: `run.threads`, or as many as there are cores, at most 4.
        num_workers: Option<usize> = None, optional(thread_count);
        /// Whether the result is the same for any number of threads: logical shards learn on private copies, which are
        /// merged in order. True.
        deterministic: bool = true, any;
        /// Logical shares of the work in deterministic mode, at most one for each environment. None: one for every 32
        /// environments, at most 16.
        shards: Option<usize> = None, optional(shards);
        /// Whether workers that are not deterministic learn in one table, rather than in private ones that are merged.
        /// True.
        shared: bool = true, any;
        /// Whether an update of one table may undo another that meets it, which is faster than repeating it. False.
        racy: bool = false, any;
        /// Transitions of a shard or a private table between merges, and of a worker on one table between looks at the
        /// schedules. 30,000.
        steps_per_sync: u64 = STEPS_PER_SYNC, interval;
    }
}

/// A merge moves every row from core to core, which costs more the farther these are apart. Two threads learnt 1.47, 1.72 and
/// 1.78 times as fast as one with 10,000, 30,000 and 100,000 transitions between merges on two cores of a Zen 5 in a bad
/// hour, and 1.97 times with 10,000 in a good one (`examples/table_rate`, tic-tac-toe). How well they play after 1 M transitions is the
/// same with the first two (0.953 to 0.960 and 0.953 to 0.958, ten seeds, 20,000 games each), and a little less with the third
/// (0.951 to 0.959).
const STEPS_PER_SYNC: u64 = 30_000;

/// Environments that a shard has unless somebody wants it otherwise. A block learnt 6.0 M transitions/s with 4, 10.8 with 16,
/// 11.8 with 32 and 12.4 with 64 (tic-tac-toe, one thread, best of nine, busy machine, rows fetched anew by each merge).
const AGENTS_PER_SHARD: usize = 32;

fn shards(count: &usize) -> Complaint {
    (!(1..=65_536).contains(count)).then_some("from 1 to 65536")
}

/// Updates of one value between merges are counted in 32 bits.
fn interval(transitions: &u64) -> Complaint {
    (!(1..=1_000_000_000).contains(transitions)).then_some("from 1 to 1000000000")
}

/// The workers of a machine for which nobody has said how many.
fn usual_workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(4)
}

impl Settings {
    /// The recipe for tic-tac-toe: γ 0.99, rate 0.3 to 0.01 over the run, ε 1 to 0.1 over its first half.
    #[cfg(test)]
    pub(super) fn tic_tac_toe() -> Self {
        Self { gamma: 0.99, ..Self::default() }
    }

    /// Settles on a number of workers where it decides what is learnt, so that a run goes on anywhere.
    pub(crate) fn settle(&mut self, run: &RunConfig) {
        if !self.deterministic {
            self.num_workers.get_or_insert_with(|| run.threads.unwrap_or_else(usual_workers));
        }
    }

    /// Checks everything that does not depend on the environment.
    pub(crate) fn check(&self) -> Result<()> {
        check_keys(self)?;
        let one_table = self.learns_in_one_table();
        if self.racy && !one_table {
            let why = "is true, which only one table can be: give agent.deterministic=false and agent.shared=true, too";
            return Err(Error::setting("agent.racy", why));
        }
        if one_table && matches!(self.table, Kind::List | Kind::Sparse) {
            let why = format!(
                "is {}, but one table of several workers is dense: give auto or dense, or agent.shared=false",
                self.table.name()
            );
            return Err(Error::setting("agent.table", why));
        }
        if self.dense_threshold.is_some() && (one_table || self.table != Kind::Auto) {
            let why = "is given, but only a table that is auto, and not one of several workers, becomes dense";
            return Err(Error::setting("agent.dense_threshold", why));
        }
        Ok(())
    }

    /// Whether several workers change the same values at the same time.
    pub(crate) fn learns_in_one_table(&self) -> bool {
        !self.deterministic && self.shared
    }

    /// The blocks that the environments of a run are cut into.
    pub(super) fn parts(&self, run: &RunConfig) -> usize {
        let usual = || (run.num_envs / AGENTS_PER_SHARD).clamp(1, 16);
        let parts = if self.deterministic { self.shards.unwrap_or_else(usual) } else { self.workers(run) };
        parts.min(run.num_envs)
    }

    fn workers(&self, run: &RunConfig) -> usize {
        self.num_workers.or(run.threads).unwrap_or_else(usual_workers)
    }

    /// The threads that work on them: as many as the run allows.
    pub fn threads(&self, run: &RunConfig) -> usize {
        run.threads.unwrap_or_else(|| self.workers(run)).min(self.parts(run))
    }

    pub(super) fn by_visits(&self) -> bool {
        matches!(self.learning_rate, Schedule::Visit { .. })
    }
}

/// The rates of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    learning_rate: Schedule,
    epsilon: Schedule,
    total: u64,
}

impl Course {
    pub(super) fn new(settings: &Settings, total: u64) -> Self {
        Self { learning_rate: settings.learning_rate, epsilon: settings.epsilon, total }
    }

    /// The learning rate and the exploration after `n` transitions.
    #[inline]
    pub(super) fn at(&self, n: u64) -> (Rate, f64) {
        let rate = match self.learning_rate {
            Schedule::Visit { power } => Rate::Visits { power },
            schedule => Rate::Fixed(schedule.at(n, self.total)),
        };
        (rate, self.epsilon(n))
    }

    pub(super) fn epsilon(&self, n: u64) -> f64 {
        self.epsilon.at(n, self.total)
    }
}
