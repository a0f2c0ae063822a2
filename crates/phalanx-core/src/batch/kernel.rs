//! What the engine needs from a kind of environment: a few operations on one block.

use super::{Actions, Autoreset, ObsElement, StepOut};
use crate::error::Result;
use crate::lanes::{BLOCK, LaneValue, Lanes, Line, Stored, Uint};
use crate::policy::Policy;
use crate::rng::{Stream, key_of_seed};
use crate::safety::Guard;
use crate::stats::{EpisodeStats, Tally};

/// Blocks that a kernel steps together: enough to start the episodes of many finished environments at once,
/// few enough to stay in L2.
pub(crate) const STEP_TILE: usize = 32;

/// Where a kernel writes the results of a step.
pub(super) type Out<'a, T> = StepOut<'a, &'a mut [T]>;

/// Set in an environment's step count when its episode has ended and no new one has started.
pub(super) const ENDED: u32 = 1 << 31;

/// Lines of bookkeeping in each block: [`STEPS`], [`EPISODE`], [`RETURN`], [`COST`].
pub(super) const BOOK_LINES: usize = 4;
/// Steps made in the episode, or [`ENDED`].
pub(super) const STEPS: usize = 0;
/// Number of the episode in the environment's stream.
pub(super) const EPISODE: usize = 1;
/// Return of the episode so far.
pub(super) const RETURN: usize = 2;
/// Cost of the episode so far; zero for environments without constraints.
pub(super) const COST: usize = 3;

/// The random streams of a batch.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Streams {
    /// One key; environments differ by their number.
    Shared([u32; 2]),
    /// A key for each environment, two lines a block.
    PerEnv(Vec<Line>),
}

impl Streams {
    pub(super) fn of_seed(seed: u64) -> Self {
        Self::Shared(key_of_seed(seed))
    }

    pub(super) fn of_seeds(seeds: &[u64]) -> Self {
        let mut lines = vec![Line::default(); seeds.len().div_ceil(BLOCK) * 2];
        seeds.iter().enumerate().for_each(|(env, seed)| set_key(&mut lines, env, *seed));
        Self::PerEnv(lines)
    }

    /// Gives some environments the streams of their seeds; `false` if there are no streams for single ones.
    pub(super) fn reseed(&mut self, seeds: &[(usize, u64)]) -> bool {
        let Self::PerEnv(lines) = self else { return false };
        seeds.iter().for_each(|(env, seed)| set_key(lines, *env, *seed));
        true
    }

    #[inline(always)]
    pub(super) fn load<R: Lanes>(&self, block: usize, lane: usize) -> Stream<R> {
        match self {
            Self::Shared(key) => {
                let first = R::Uint::splat((block * BLOCK + lane) as u32);
                Stream::new(key.map(R::Uint::splat), first.wrapping_add(R::Uint::iota()))
            }
            Self::PerEnv(lines) => {
                let key = [0, 1].map(|word| R::Uint::load(&lines[block * 2 + word], lane));
                Stream::new(key, R::Uint::splat(0))
            }
        }
    }

    /// The streams of any environments, `env(lane)` in each lane.
    pub(super) fn gather<R: Lanes>(&self, env: impl Fn(usize) -> usize) -> Stream<R> {
        let word = |word: &dyn Fn(usize) -> u32| {
            let mut line = Line::default();
            (0..R::LANES).for_each(|lane| line.0[lane] = word(env(lane)));
            R::Uint::load(&line, 0)
        };
        match self {
            Self::Shared(key) => Stream::new(key.map(R::Uint::splat), word(&|env| env as u32)),
            Self::PerEnv(lines) => {
                let key = [0, 1].map(|i| word(&|env| lines[env / BLOCK * 2 + i].0[env % BLOCK]));
                Stream::new(key, R::Uint::splat(0))
            }
        }
    }
}

fn set_key(lines: &mut [Line], env: usize, seed: u64) {
    for (word, key) in key_of_seed(seed).into_iter().enumerate() {
        lines[env / BLOCK * 2 + word].0[env % BLOCK] = key;
    }
}

/// Copies one environment's words from a block to another.
pub(super) fn copy_lane(from: &[Line], to: &mut [Line], lane: usize) {
    from.iter().zip(to).for_each(|(from, to)| to.0[lane] = from.0[lane]);
}

/// A block and the batch around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub(super) block: usize,
    pub(super) num_envs: usize,
    pub(super) max_steps: u32,
    pub(super) streams: &'a Streams,
}

impl At<'_> {
    pub(super) fn first_env(&self) -> usize {
        self.block * BLOCK
    }

    /// Environments of this block: all but the last block are full.
    #[inline(always)]
    pub(super) fn envs(&self) -> usize {
        (self.num_envs - self.first_env()).min(BLOCK)
    }

    /// The groups of `LANES` environments in this block: their first lane, and how many of them exist.
    #[inline(always)]
    pub(super) fn groups<R: LaneValue>(&self) -> impl Iterator<Item = (usize, usize)> + use<R> {
        let envs = self.envs();
        (0..envs).step_by(R::LANES).map(move |lane| (lane, (envs - lane).min(R::LANES)))
    }
}

/// What a block consists of.
#[derive(Debug)]
pub(super) struct Cells<'a, Row> {
    pub(super) rows: &'a mut [Row],
    pub(super) book: &'a mut [Line],
}

/// A stretch of a roll-out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch<'a> {
    pub(super) policy: &'a Policy,
    pub(super) tick: u64,
    /// Whether it is the roll-out's first, whose checksum begins with the observations of before it.
    pub(super) begins: bool,
    pub(super) steps: usize,
}

/// A kind of environment, as operations on one block of [`BLOCK`] environments.
pub(super) trait Kernel: Send + Sync + 'static {
    /// What states are stored in.
    type Row: bytemuck::Pod + Send + Sync;
    /// What observations are made of.
    type Elem: ObsElement;
    /// Rows in each block.
    fn rows_per_block(&self) -> usize;
    /// Lanes the kernel runs in.
    fn lanes(&self) -> usize;
    /// Starts the episode that the book names in each environment of `lanes` (bit by bit).
    fn reset(&self, at: At<'_>, cells: Cells<'_, Self::Row>, lanes: u32);
    /// Steps the blocks of a tile, at most [`STEP_TILE`], of which `at` is the first; `actions` and `out` are
    /// those of the tile. Adds what its environments counted and scored.
    fn step(
        &self,
        at: At<'_>,
        cells: Cells<'_, Self::Row>,
        actions: &Actions<'_>,
        mode: Autoreset,
        out: Out<'_, Self::Elem>,
        stats: &mut EpisodeStats,
    );
    /// Writes the observations of a block.
    fn observe(&self, at: At<'_>, rows: &[Self::Row], obs: &mut [Self::Elem]);
    /// Writes the legal actions of a block, a row for each environment; asked where there are masks.
    fn action_masks(&self, at: At<'_>, rows: &[Self::Row], masks: &mut [bool]);
    /// The environments of a block whose action is illegal, bit by bit.
    fn illegal(&self, at: At<'_>, rows: &[Self::Row], actions: &[i32]) -> u32;
    /// A legal choice of component `k` for one environment, as [`SoloEnv::choose_legal`] makes it.
    ///
    /// [`SoloEnv::choose_legal`]: crate::solo::SoloEnv::choose_legal
    fn choose_legal(&self, at: At<'_>, rows: &[Self::Row], lane: usize, k: usize, below: &dyn Fn(u32) -> u32) -> u32;
    /// Whether environments have constraints.
    fn guard(&self) -> &Guard;
    /// Whether [`Kernel::advance`] knows this policy.
    fn can_advance(&self, policy: &Policy) -> bool;
    /// Advances a block many steps with its state in registers. `run` is the checksum's line and the
    /// policy's memory.
    fn advance(
        &self,
        at: At<'_>,
        cells: Cells<'_, Self::Row>,
        run: &mut [Line],
        stretch: Stretch<'_>,
        tally: &mut Tally,
    );
    /// One environment's state.
    fn state(&self, rows: &[Self::Row], lane: usize) -> Vec<f64>;
    /// Sets one environment's state.
    fn set_state(&self, rows: &mut [Self::Row], lane: usize, state: &[f64]) -> Result<()>;
    /// A parameter's value in one environment.
    fn param(&self, name: &str, env: usize) -> Result<f64>;
    /// Sets a parameter for all environments, or for each.
    fn set_param(&mut self, name: &str, values: &[f64], num_envs: usize) -> Result<()>;
    /// The parameters as bytes.
    fn params_bytes(&self) -> Vec<u8>;
    /// The inverse of [`Kernel::params_bytes`]; what does not fit is refused unchanged.
    fn restore_params(&mut self, bytes: &[u8], num_envs: usize) -> Result<()>;
    /// Zeroes the rows of a block beyond its first `envs` environments.
    fn blank_padding(&self, rows: &mut [Self::Row], envs: usize);
    /// Copies one environment's state from a block to another.
    fn copy_env(&self, from: &[Self::Row], to: &mut [Self::Row], lane: usize);
    /// Memory of the parameters for all environments.
    fn params_memory(&self) -> usize;
}
