//! Roll-outs by rows, for what cannot run inside the lanes.
//!
//! Lane kernels keep a group of environments in registers. A [`TilePolicy`](crate::policy::TilePolicy)
//! or a [`SoloEnv`](crate::solo::SoloEnv) goes through rows instead: the policy sees the observations of
//! a tile, then all blocks of the tile step, and so on for a whole chunk before the next tile.

use super::kernel::{At, BOOK_LINES, Cells, Kernel, STEPS, Streams, Stretch};
use super::{Actions, ActionsMut, Autoreset, StepBuffers, StepOut};
use crate::checksum::{fold_transition, start_word};
use crate::env::LaneStruct;
use crate::lanes::{BLOCK, Line};
use crate::policy::{Decision, LanePolicy, Moment, Policy, Tile};
use crate::space::{ActionSpace, EnvSpec};
use crate::stats::EpisodeStats;

/// Blocks in a tile: 128 environments, meant to amortise a call of the policy and stay in L1/L2. Chosen,
/// not measured: there is no network to measure with yet.
pub(super) const TILE_BLOCKS: usize = 8;

/// The arrays of one tile.
#[derive(Clone, Debug)]
pub(crate) struct TileScratch {
    step: StepBuffers,
    actions: TileActions,
}

#[derive(Clone, Debug)]
enum TileActions {
    Discrete(Vec<i32>),
    Continuous { values: Vec<f32>, components: usize },
}

impl TileScratch {
    pub(super) fn new(spec: &EnvSpec) -> Self {
        let envs = TILE_BLOCKS * BLOCK;
        let actions = match &spec.action {
            ActionSpace::Discrete { .. } => TileActions::Discrete(vec![0; envs]),
            ActionSpace::Box { low, .. } => {
                TileActions::Continuous { values: vec![0.0; envs * low.len()], components: low.len() }
            }
        };
        Self { step: StepBuffers::new(envs, spec.observation.dim()), actions }
    }

    /// Whether the arrays have the right shape for an environment.
    pub(super) fn fits(&self, spec: &EnvSpec) -> bool {
        let components = match &self.actions {
            TileActions::Discrete(_) => None,
            TileActions::Continuous { components, .. } => Some(*components),
        };
        let needed = matches!(spec.action, ActionSpace::Box { .. }).then(|| spec.action.components());
        self.step.obs.len() == TILE_BLOCKS * BLOCK * spec.observation.dim() && components == needed
    }
}

impl TileActions {
    fn all(&mut self, envs: usize) -> ActionsMut<'_> {
        match self {
            Self::Discrete(indices) => ActionsMut::Discrete(&mut indices[..envs]),
            Self::Continuous { values, components } => ActionsMut::Continuous(&mut values[..envs * *components]),
        }
    }

    fn of_block(&self, i: usize, envs: usize) -> Actions<'_> {
        let first = i * BLOCK;
        match self {
            Self::Discrete(indices) => Actions::Discrete(&indices[first..first + envs]),
            Self::Continuous { values, components } => {
                Actions::Continuous(&values[first * components..(first + envs) * components])
            }
        }
    }

    /// Asks a policy for the action of environment `i`.
    fn fill<P: LanePolicy>(&mut self, i: usize, decision: &mut Decision<'_, P, f32>) {
        match self {
            Self::Discrete(indices) => indices[i] = decision.index() as i32,
            Self::Continuous { values, components } => {
                for (k, value) in values[i * *components..(i + 1) * *components].iter_mut().enumerate() {
                    *value = decision.component(k);
                }
            }
        }
    }
}

/// The batch around the tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowWise<'a, K> {
    pub(super) kernel: &'a K,
    pub(super) streams: &'a Streams,
    pub(super) num_envs: usize,
    pub(super) spec: &'a EnvSpec,
}

/// Blocks that step together, and each block's checksum and policy memory.
#[derive(Debug)]
pub(super) struct TileCells<'a, Row> {
    pub(super) first_block: usize,
    pub(super) rows: &'a mut [Row],
    pub(super) book: &'a mut [Line],
    pub(super) run: &'a mut [Line],
}

impl<K: Kernel> RowWise<'_, K> {
    /// Advances one tile by a whole stretch.
    pub(super) fn advance(
        &self,
        mut tile: TileCells<'_, K::Row>,
        scratch: &mut TileScratch,
        stretch: Stretch<'_>,
        stats: &mut EpisodeStats,
    ) {
        let dim = self.spec.observation.dim();
        let blocks = tile.book.len() / BOOK_LINES;
        let (row_width, run_width) = (tile.rows.len() / blocks, tile.run.len() / blocks);
        let first_block = tile.first_block;
        let first_env = first_block * BLOCK;
        let envs = (self.num_envs - first_env).min(blocks * BLOCK);
        let envs_of = |i: usize| (envs - i * BLOCK).min(BLOCK);
        let at = |i: usize| At {
            block: first_block + i,
            num_envs: self.num_envs,
            max_steps: self.spec.max_steps,
            streams: self.streams,
        };
        for (i, rows) in tile.rows.chunks_exact(row_width).enumerate() {
            self.kernel.observe(at(i), rows, scratch.step.out().block(i, envs_of(i), dim).obs);
        }
        if stretch.tick == 0 {
            for i in 0..envs {
                let word = &mut tile.run[i / BLOCK * run_width].0[i % BLOCK];
                *word = word.wrapping_add(start_word::<f32>(&scratch.step.obs[i * dim..(i + 1) * dim]));
            }
        }
        for tick in stretch.tick..stretch.tick + stretch.steps as u64 {
            let shape = Tile { first_env, envs, tick };
            match stretch.policy {
                Policy::Tile(policy) => policy.act(shape, &scratch.step.obs[..envs * dim], scratch.actions.all(envs)),
                Policy::Random(policy) => self.act_row_by_row(policy, shape, &mut tile, scratch),
                Policy::Controller(policy) => self.act_row_by_row(policy, shape, &mut tile, scratch),
            }
            let cells = tile.rows.chunks_exact_mut(row_width).zip(tile.book.chunks_exact_mut(BOOK_LINES));
            for (i, (rows, book)) in cells.enumerate() {
                let actions = scratch.actions.of_block(i, envs_of(i));
                let mut out = scratch.step.out();
                self.kernel.step(
                    at(i),
                    Cells { rows, book },
                    &actions,
                    Autoreset::SameStep,
                    out.block(i, envs_of(i), dim),
                );
            }
            scratch.step.out().count_finished(envs, stats);
            for i in 0..envs {
                fold_row(&mut tile.run[i / BLOCK * run_width].0[i % BLOCK], &scratch.step, i, dim);
            }
        }
    }

    /// Lets a policy over lanes decide for one environment after the other.
    fn act_row_by_row<P: LanePolicy>(
        &self,
        policy: &P,
        shape: Tile,
        tile: &mut TileCells<'_, K::Row>,
        scratch: &mut TileScratch,
    ) {
        let dim = self.spec.observation.dim();
        let run_width = tile.run.len() / (tile.book.len() / BOOK_LINES);
        for (i, obs) in scratch.step.obs.chunks_exact(dim).take(shape.envs).enumerate() {
            let (block, lane) = (i / BLOCK, i % BLOCK);
            let memory_lines = &mut tile.run[block * run_width + 1..(block + 1) * run_width];
            let mut memory: P::Memory<f32> = LaneStruct::<f32>::load(memory_lines, lane);
            let mut working_space = policy.scratch();
            let stream = self.streams.load(tile.first_block + block, lane);
            policy.replenish(&stream, shape.tick, 1, &mut working_space);
            let moment =
                Moment { stream: &stream, tick: shape.tick, step: tile.book[block * BOOK_LINES + STEPS].0[lane] };
            scratch.actions.fill(i, &mut Decision::new(policy, moment, obs, &mut memory, &mut working_space));
            memory.store(memory_lines, lane);
        }
    }
}

/// Folds what a step gave environment `i` into its checksum: the step's own observation, then, if the
/// episode ended, the first of the next.
fn fold_row(word: &mut u32, step: &StepBuffers, i: usize, dim: usize) {
    let row = i * dim..(i + 1) * dim;
    let (terminated, truncated) = (step.terminated[i], step.truncated[i]);
    let done = terminated || truncated;
    let own = if done { &step.final_obs } else { &step.obs };
    *word = fold_transition(*word, &own[row.clone()], step.rewards[i], terminated, truncated);
    if done {
        *word = word.wrapping_add(start_word::<f32>(&step.obs[row]));
    }
}

impl StepOut<'_> {
    /// The slices of the `i`-th block.
    #[inline(always)]
    pub(super) fn block(&mut self, i: usize, envs: usize, dim: usize) -> StepOut<'_> {
        let (one, row) = (i * BLOCK..i * BLOCK + envs, i * BLOCK * dim..(i * BLOCK + envs) * dim);
        StepOut {
            obs: &mut self.obs[row.clone()],
            rewards: &mut self.rewards[one.clone()],
            terminated: &mut self.terminated[one.clone()],
            truncated: &mut self.truncated[one.clone()],
            final_obs: &mut self.final_obs[row],
            final_returns: &mut self.final_returns[one.clone()],
            final_lengths: &mut self.final_lengths[one],
        }
    }
}
