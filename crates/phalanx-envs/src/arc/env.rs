//! An environment: reset, step, observe.
//!
//! A step: the operation is clipped and judged, executed on the selection, similarity is counted anew,
//! then the reward. A submission ends the episode when it is solved or the attempts are used up; the
//! step limit only truncates. (JaxARC's discount is 0 for both; ours is the engine's business and 0
//! for a termination only.)

use std::sync::Arc;

use phalanx_core::Result;
use phalanx_core::rng::Draws;
use phalanx_core::solo::Outcome;

use super::action::{Action, Encoding, Format, InvalidOperation, OperationSet, Verdict};
use super::board::Board;
use super::grid::{Canvas, Selection, Size, padding};
use super::observe::{Channels, Value};
use super::ops::{OPERATIONS, SUBMIT};
use super::reward::{Mode, Preset, Reward};
use super::start::Start;
use super::state::{Head, State};
use super::task::TaskPool;

/// Everything that can be chosen about an environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Training or test pairs. Default train.
    pub mode: Mode,
    /// How selections are written. Default bbox.
    pub format: Format,
    /// Operations that are allowed. Default all.
    pub operations: OperationSet,
    /// What happens to other operations. Default clip.
    pub invalid_operation: InvalidOperation,
    /// Whether the action space has allowed operations only. Default false.
    pub dynamic_action_filtering: bool,
    /// Weights of the reward.
    pub reward: Reward,
    /// What the weights of the reward were before single ones were set.
    pub preset: Preset,
    /// How episodes start. Default with the input.
    pub start: Start,
    /// What is shown. Default the working grid only.
    pub channels: Channels,
    /// Steps of an episode. Default 100.
    pub max_steps: u32,
    /// Submissions of an episode, 1 to 3. Default 1.
    pub max_attempts: u8,
    /// Tasks to draw from, by their place in the pool; none means all. Default none.
    pub subset: Vec<u32>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            format: Format::default(),
            operations: OperationSet::FULL,
            invalid_operation: InvalidOperation::default(),
            dynamic_action_filtering: false,
            reward: Reward::default(),
            preset: Preset::Default,
            start: Start::default(),
            channels: Channels::default(),
            max_steps: 100,
            max_attempts: 1,
            subset: vec![],
        }
    }
}

impl Config {
    /// Checks every number against its range; `tasks` is the size of the pool.
    pub fn check(&self, tasks: usize) -> Result<()> {
        self.reward.check()?;
        self.start.check()?;
        let limit = |ok: bool, what: &str, value: u32, allowed: String| match ok {
            true => Ok(()),
            false => Err(phalanx_core::Error::out_of_range(what, value, allowed)),
        };
        let operations = self.operations.iter().count() as u32;
        limit(operations > 0 || !self.dynamic_action_filtering, "the number of operations", 0, "at least 1".into())?;
        limit(self.max_steps >= 1, "max_steps", self.max_steps, "at least 1".into())?;
        let attempts = self.max_attempts;
        limit((1..=3).contains(&attempts), "max_attempts", attempts.into(), "from 1 to 3".into())?;
        self.subset.iter().try_for_each(|task| {
            limit((*task as usize) < tasks, "a task of the subset", *task, format!("below {tasks}"))
        })
    }
}

/// What can be told about a state beside the observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Info<'a, const N: usize> {
    /// The last operation, -1 before the first.
    pub operation: i8,
    /// Whether the last operation was not allowed and not executed.
    pub rejected: bool,
    /// The last effective selection.
    pub selection: Selection<N>,
    /// Whether there is a target to compare with.
    pub has_target: bool,
    /// Agreement with the target; 0 if there is none.
    pub similarity: f32,
    /// Whether the grid equals the target.
    pub solved: bool,
    /// Size of the working grid.
    pub size: Size,
    /// The task's name.
    pub task: &'a str,
    /// The pair's place among the task's training or test pairs.
    pub pair: u32,
    /// Submissions made.
    pub attempts: u8,
    /// Steps taken.
    pub steps: u32,
}

/// The environment on an N x N canvas.
#[derive(Clone, Debug)]
pub struct ArcEnv<const N: usize, const W: usize, const WORDS: usize> {
    pool: Arc<TaskPool<N, W>>,
    config: Config,
    encoding: Encoding<N>,
}

impl<const N: usize, const W: usize, const WORDS: usize> ArcEnv<N, W, WORDS> {
    /// An environment that draws its tasks from a pool.
    pub fn new(pool: Arc<TaskPool<N, W>>, config: Config) -> Result<Self> {
        config.check(pool.tasks.len())?;
        let encoding = encoding(&config);
        Ok(Self { pool, config, encoding })
    }

    /// The tasks.
    pub fn pool(&self) -> &TaskPool<N, W> {
        &self.pool
    }

    /// The choices made.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes the choices.
    pub fn configure(&mut self, change: impl FnOnce(&mut Config)) -> Result<()> {
        let mut config = self.config.clone();
        change(&mut config);
        config.check(self.pool.tasks.len())?;
        self.encoding = encoding(&config);
        self.config = config;
        Ok(())
    }

    /// The action space.
    pub fn encoding(&self) -> &Encoding<N> {
        &self.encoding
    }

    /// Starts an episode with a task, a pair and a start grid drawn at random.
    #[inline]
    pub fn reset(&self, state: &mut State<N, W, WORDS>, draws: &mut Draws<f32>) {
        let (pair, grid) = self.draw(draws);
        self.begin(state, pair, &grid);
    }

    /// Draws a pair, counted over the whole pool, and a grid to start with.
    #[inline]
    pub fn draw(&self, draws: &mut Draws<f32>) -> (u32, Canvas<N, W>) {
        let task = match self.config.subset.as_slice() {
            [] => draws.below(self.pool.tasks.len() as u32),
            subset => subset[draws.below(subset.len() as u32) as usize],
        };
        let task = &self.pool.tasks[task as usize];
        let pair = match self.config.mode {
            Mode::Train => task.first + draws.below(task.train),
            Mode::Test => task.first + task.train + draws.below(task.test),
        };
        (pair, self.config.start.draw(&self.pool.pairs[pair as usize].input, draws))
    }

    /// Starts an episode with a given pair, counted over the whole pool, and a given grid.
    #[inline]
    pub fn begin(&self, state: &mut State<N, W, WORDS>, pair: u32, grid: &Canvas<N, W>) {
        let view = state.view_mut();
        *view.grid = grid.cells;
        *view.clipboard = [padding(); N];
        *view.selection = Selection::EMPTY;
        *view.head = Head::start(pair, grid.size);
        compare(state, &self.pool.pairs[pair as usize]);
    }

    /// Operations allowed in a state.
    #[inline(always)]
    pub fn allowed(&self, head: &Head) -> OperationSet {
        OperationSet(self.config.operations.0 & head.allowed())
    }

    /// One step.
    #[inline]
    pub fn step(&self, state: &mut State<N, W, WORDS>, action: &Action<N>) -> Outcome {
        self.step_on(state, &self.pool.pairs, action)
    }

    /// One step on any board; `pairs` are those of the pool in the board's layout.
    #[inline(always)]
    pub fn step_on<B: Board<N>>(&self, board: &mut B, pairs: &[B::Pair], action: &Action<N>) -> Outcome {
        let asked = action.op.min(OPERATIONS - 1);
        let op = match self.config.invalid_operation.judge(asked, self.allowed(board.head())) {
            Verdict::Execute(op) => op,
            Verdict::Reject => {
                board.head_mut().record(asked, true);
                board.select_nothing();
                let penalized = self.config.invalid_operation == InvalidOperation::Penalize;
                let penalty = if penalized { self.config.reward.invalid_penalty } else { 0.0 };
                let reward = self.config.reward.of_step(self.config.mode, 0.0, false, false) + penalty;
                return Outcome { reward, terminated: false };
            }
        };
        let pair = &pairs[board.head().pair as usize];
        board.head_mut().record(op, false);
        board.apply(op, &action.chosen, pair);
        if op == SUBMIT {
            let head = board.head_mut();
            head.attempts = head.attempts.saturating_add(1);
            let solved = head.solved != 0;
            let terminated = solved || head.attempts >= self.config.max_attempts;
            return Outcome { reward: self.config.reward.of_step(self.config.mode, 0.0, true, solved), terminated };
        }
        let before = board.head().similarity;
        let (similarity, solved) = compare(board, pair);
        let reward = self.config.reward.of_step(self.config.mode, similarity - before, false, solved);
        Outcome { reward, terminated: false }
    }

    /// Number of values of an observation.
    pub fn observation_len(&self) -> usize {
        N * N * self.config.channels.count()
    }

    /// Writes what a policy sees, as bytes or as floats.
    ///
    /// # Panics
    ///
    /// If `out` does not have [`ArcEnv::observation_len`] elements.
    #[inline(always)]
    pub fn observe<T: Value>(&self, state: &State<N, W, WORDS>, out: &mut [T]) {
        self.config.channels.write(state.view(), &self.pool, self.config.mode, self.config.max_steps, out);
    }

    /// What can be told about a state beside the observation.
    pub fn info(&self, state: &State<N, W, WORDS>) -> Info<'_, N> {
        let view = state.view();
        let pair = &self.pool.pairs[view.head.pair as usize];
        Info {
            operation: view.head.operation,
            rejected: view.head.rejected != 0,
            selection: *view.selection,
            has_target: pair.has_target,
            similarity: view.head.similarity,
            solved: view.head.solved != 0,
            size: view.head.size,
            task: &self.pool.tasks[pair.task as usize].id,
            pair: pair.index,
            attempts: view.head.attempts,
            steps: view.head.steps,
        }
    }
}

/// Brings similarity and the solved flag up to date, and answers both: who needs them need not wait for memory.
#[inline(always)]
pub(super) fn compare<const N: usize, B: Board<N>>(board: &mut B, pair: &B::Pair) -> (f32, bool) {
    let Some(similarity) = board.similarity(pair) else {
        return (board.head().similarity, board.head().solved != 0);
    };
    let (value, solved) = (similarity.value(), similarity.is_solved());
    let head = board.head_mut();
    (head.similarity, head.solved) = (value, u8::from(solved));
    (value, solved)
}

fn encoding<const N: usize>(config: &Config) -> Encoding<N> {
    Encoding::new(config.format, config.dynamic_action_filtering.then_some(config.operations))
}

#[cfg(test)]
mod tests;
