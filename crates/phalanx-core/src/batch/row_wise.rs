//! Roll-outs by rows, for what cannot run inside the lanes.
//!
//! Lane kernels keep a group of environments in registers. A [`TilePolicy`](crate::policy::TilePolicy)
//! or a [`SoloEnv`](crate::solo::SoloEnv) goes through rows instead: the policy sees the observations of
//! a tile, then all blocks of the tile step, and so on for a whole chunk before the next tile.

use std::any::Any;

use bytemuck::cast;

use super::kernel::{At, BOOK_LINES, Cells, Kernel, Out, STEPS, Streams, Stretch};
use super::{Actions, ActionsMut, Autoreset, ObsElement, StepBuffers, StepOut};
use crate::checksum::{fold_weight, start_weight};
use crate::lanes::{BLOCK, Lanes, Line, Stored, f32x16, u32x8};
use crate::policy::{Decision, LanePolicy, Moment, Policy, Random, Tile};
use crate::space::{ActionMask, ActionSpace, Element, EnvSpec};
use crate::stats::EpisodeStats;

/// A random policy's words of a block.
type BlockWords = <Random as LanePolicy>::Scratch<f32x16>;

/// The arrays of one tile.
#[derive(Debug)]
pub(crate) struct TileScratch {
    /// [`StepBuffers`] of the environment's observation type.
    step: Box<dyn Any + Send + Sync>,
    obs_dim: usize,
    element: Element,
    blocks: usize,
    actions: TileActions,
    /// The random words of each block, drawn ahead; none until the first are drawn.
    words: Vec<BlockWords>,
}

#[derive(Debug)]
enum TileActions {
    Discrete { indices: Vec<i32>, components: usize },
    Continuous { values: Vec<f32>, components: usize },
}

impl TileScratch {
    /// For a tile of so many blocks.
    pub(super) fn new<T: ObsElement>(spec: &EnvSpec, blocks: usize) -> Self {
        let (envs, components, obs_dim) = (blocks * BLOCK, spec.action.components(), spec.observation.dim());
        let actions = if spec.action.is_discrete() {
            TileActions::Discrete { indices: vec![0; envs * components + ROW], components }
        } else {
            TileActions::Continuous { values: vec![0.0; envs * components], components }
        };
        let step = Box::new(StepBuffers::<T>::of(envs, obs_dim));
        Self { step, obs_dim, element: T::ELEMENT, blocks, actions, words: Vec::with_capacity(blocks) }
    }

    /// Whether the arrays have the right shape for an environment and are enough for a tile of so many blocks.
    pub(super) fn fits(&self, spec: &EnvSpec, blocks: usize) -> bool {
        let (discrete, components) = match self.actions {
            TileActions::Discrete { components, .. } => (true, components),
            TileActions::Continuous { components, .. } => (false, components),
        };
        self.blocks >= blocks
            && (self.obs_dim, self.element) == (spec.observation.dim(), spec.observation.element)
            && (discrete, components) == (spec.action.is_discrete(), spec.action.components())
    }
}

impl TileActions {
    fn all(&mut self, envs: usize) -> ActionsMut<'_> {
        match self {
            Self::Discrete { indices, components } => ActionsMut::Discrete(&mut indices[..envs * *components]),
            Self::Continuous { values, components } => ActionsMut::Continuous(&mut values[..envs * *components]),
        }
    }

    fn get(&self, envs: usize) -> Actions<'_> {
        match self {
            Self::Discrete { indices, components } => Actions::Discrete(&indices[..envs * components]),
            Self::Continuous { values, components } => Actions::Continuous(&values[..envs * components]),
        }
    }

    /// Asks a policy for the actions of environments `first` to `first + envs`.
    fn fill<P: LanePolicy, R: Lanes>(
        &mut self,
        space: &ActionSpace,
        (first, envs): (usize, usize),
        decision: &mut Decision<'_, P, R>,
    ) {
        let mut line = Line::default();
        match self {
            Self::Discrete { indices, components } if (2..=ROW).contains(components) && R::LANES == BLOCK => {
                let mut columns = [Line::default(); ROW];
                for (k, column) in columns.iter_mut().enumerate().take(*components) {
                    decision.choice(k).store(column, 0);
                }
                put_rows(&mut indices[first * *components..], *components, &columns, envs);
            }
            Self::Discrete { indices, components } => {
                for k in 0..*components {
                    let one_choice = matches!(space, ActionSpace::Discrete { .. });
                    let index = if one_choice { decision.index() } else { decision.choice(k) };
                    index.store(&mut line, 0);
                    let values: &[i32; BLOCK] = bytemuck::cast_ref(&line.0);
                    put_column(&mut indices[first * *components..], (k, *components), &values[..envs]);
                }
            }
            Self::Continuous { values, components } => {
                for k in 0..*components {
                    decision.component(k).store(&mut line, 0);
                    let column: &[f32; BLOCK] = bytemuck::cast_ref(&line.0);
                    put_column(&mut values[first * *components..], (k, *components), &column[..envs]);
                }
            }
        }
    }
}

/// Components of an action that are written together.
const ROW: usize = 8;

/// Writes `count` rows of the first `width` columns, side by side. Each is written as [`ROW`] numbers, of which the
/// next row replaces those that are too many; behind the last there is room for them.
#[inline(always)]
fn put_rows(rows: &mut [i32], width: usize, columns: &[Line; ROW], count: usize) {
    for half in 0..2 {
        let transposed = u32x8::transpose(columns.map(|line| cast::<_, [u32x8; 2]>(line.0)[half]));
        for (i, row) in transposed.iter().enumerate().take(count.saturating_sub(half * ROW)) {
            rows[(half * ROW + i) * width..][..ROW].copy_from_slice(&cast::<_, [i32; ROW]>(*row));
        }
    }
}

/// Writes column `k` of rows of `width`, side by side.
#[inline(always)]
fn put_column<T: Copy>(rows: &mut [T], (k, width): (usize, usize), values: &[T]) {
    rows[k..].iter_mut().step_by(width).zip(values).for_each(|(place, value)| *place = *value);
}

/// The random words of a tile's blocks, drawn ahead for the ticks before `until`.
struct Words<'a> {
    caches: &'a mut Vec<BlockWords>,
    until: u64,
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
        let TileScratch { step, actions, words, .. } = scratch;
        let step: &mut StepBuffers<K::Elem> = step.downcast_mut().expect("made for this kernel's observations");
        let dim = self.spec.observation.dim();
        let safe = self.kernel.guard().is_active();
        let run_width = tile.run.len() / (tile.book.len() / BOOK_LINES);
        let first_env = tile.first_block * BLOCK;
        let envs = self.observe(&tile, step);
        if stretch.begins {
            for i in 0..envs {
                let word = &mut tile.run[i / BLOCK * run_width].0[i % BLOCK];
                *word = word.wrapping_add(start_weight(K::Elem::weigh(&step.obs[i * dim..(i + 1) * dim])));
            }
        }
        let mut words = Words { caches: words, until: stretch.tick };
        let end = stretch.tick + stretch.steps as u64;
        for tick in stretch.tick..end {
            let shape = Tile { first_env, envs, tick };
            self.choose(stretch.policy, shape, &mut tile, &step.obs, (&mut words, end), actions);
            let at = self.at(&tile, 0);
            let cells = Cells { rows: &mut *tile.rows, book: &mut *tile.book };
            let (all, mut out) = (actions.get(envs), step.typed_out());
            let out = out.block(0, envs, dim);
            self.kernel.step(at, cells, &all, Autoreset::SameStep, out, stats);
            step.typed_out().count_finished(envs, safe, stats);
            let mut out = step.typed_out();
            for (i, run) in tile.run.chunks_exact_mut(run_width).enumerate() {
                fold_block(&mut run[0], &out.block(i, (envs - i * BLOCK).min(BLOCK), dim), dim);
            }
        }
    }

    /// What a policy chooses for the environments of a tile now.
    pub(super) fn decide<'s>(
        &self,
        mut tile: TileCells<'_, K::Row>,
        scratch: &'s mut TileScratch,
        policy: &Policy,
        tick: u64,
    ) -> Actions<'s> {
        let TileScratch { step, actions, words, .. } = scratch;
        let step: &mut StepBuffers<K::Elem> = step.downcast_mut().expect("made for this kernel's observations");
        let envs = self.observe(&tile, step);
        let shape = Tile { first_env: tile.first_block * BLOCK, envs, tick };
        let mut words = Words { caches: words, until: tick };
        self.choose(policy, shape, &mut tile, &step.obs, (&mut words, tick + 1), actions);
        actions.get(envs)
    }

    /// Writes the observations of a tile and answers how many environments it has.
    fn observe(&self, tile: &TileCells<'_, K::Row>, step: &mut StepBuffers<K::Elem>) -> usize {
        let blocks = tile.book.len() / BOOK_LINES;
        let envs = (self.num_envs - tile.first_block * BLOCK).min(blocks * BLOCK);
        for (i, rows) in tile.rows.chunks_exact(tile.rows.len() / blocks).enumerate() {
            let (envs, dim) = ((envs - i * BLOCK).min(BLOCK), self.spec.observation.dim());
            self.kernel.observe(self.at(tile, i), rows, step.typed_out().block(i, envs, dim).obs);
        }
        envs
    }

    /// Fills in what a policy chooses on seeing `obs`; random words are drawn ahead, but not for ticks from `end` on.
    fn choose(
        &self,
        policy: &Policy,
        shape: Tile,
        tile: &mut TileCells<'_, K::Row>,
        obs: &[K::Elem],
        (words, end): (&mut Words<'_>, u64),
        actions: &mut TileActions,
    ) {
        let dim = self.spec.observation.dim();
        match policy {
            Policy::Tile(policy) => {
                let obs = K::Elem::as_reals(&obs[..shape.envs * dim]).expect("checked at the door");
                policy.act(shape, obs, actions.all(shape.envs));
            }
            Policy::Random(policy) if self.spec.action_mask != ActionMask::None => {
                self.act_legally(policy, shape, tile, actions);
            }
            // Blind to observations, so a whole block at once.
            Policy::Random(policy) => {
                let caches = &mut *words.caches;
                caches.resize(caches.len().max(tile.book.len() / BOOK_LINES), policy.scratch());
                let wanted = if shape.tick == words.until { (end - shape.tick) as usize } else { 0 };
                words.until += self.act(policy, shape, tile, |_| &[], (caches, wanted), actions) as u64;
            }
            Policy::Controller(policy) => {
                // Bytes are nothing that a controller could look at; it was not parsed with a field.
                let obs = K::Elem::as_reals(obs);
                let see = |env: usize| obs.map_or(&[][..], |obs| &obs[env * dim..(env + 1) * dim]);
                self.act::<_, f32>(policy, shape, tile, see, (&mut [policy.scratch()], 1), actions);
            }
        }
    }

    fn at(&self, tile: &TileCells<'_, K::Row>, i: usize) -> At<'_> {
        let (num_envs, max_steps) = (self.num_envs, self.spec.max_steps);
        At { block: tile.first_block + i, num_envs, max_steps, streams: self.streams }
    }

    /// Draws legal actions for one environment after the other: each has choices of its own.
    fn act_legally(&self, policy: &Random, shape: Tile, tile: &TileCells<'_, K::Row>, actions: &mut TileActions) {
        let TileActions::Discrete { indices, components } = actions else { unreachable!("masks are for choices") };
        let row_width = tile.rows.len() / (tile.book.len() / BOOK_LINES);
        for (env, row) in indices.chunks_exact_mut(*components).take(shape.envs).enumerate() {
            let (block, lane) = (env / BLOCK, env % BLOCK);
            let rows = &tile.rows[block * row_width..(block + 1) * row_width];
            let stream = self.streams.load::<f32>(tile.first_block + block, lane);
            let at = self.at(tile, block);
            let choose = |k, below: &dyn Fn(u32) -> u32| self.kernel.choose_legal(at, rows, lane, k, below);
            for (index, choice) in row.iter_mut().zip(policy.legal_action(&stream, shape.tick, choose)) {
                *index = choice as i32;
            }
        }
    }

    /// Lets a policy over lanes decide for one group of environments after the other. Each takes the next of
    /// its working spaces, which are filled for the steps that are wanted, if any; answers for how many they were.
    fn act<'o, P: LanePolicy, R: Lanes>(
        &self,
        policy: &P,
        shape: Tile,
        tile: &mut TileCells<'_, K::Row>,
        see: impl Fn(usize) -> &'o [R],
        (working_spaces, wanted): (&mut [P::Scratch<R>], usize),
        actions: &mut TileActions,
    ) -> usize {
        let mut served = 0;
        let blocks = tile.book.len() / BOOK_LINES;
        let run_width = tile.run.len() / blocks;
        for first in (0..shape.envs).step_by(R::LANES) {
            let (block, lane) = (first / BLOCK, first % BLOCK);
            let envs = (shape.envs - first).min(R::LANES);
            let stream = self.streams.load::<R>(tile.first_block + block, lane);
            let working_space = &mut working_spaces[first / R::LANES % working_spaces.len()];
            if wanted > 0 {
                served = policy.replenish(&stream, shape.tick, wanted, working_space);
            }
            let step = Stored::load(&tile.book[block * BOOK_LINES + STEPS], lane);
            let moment = Moment { stream: &stream, tick: shape.tick, step };
            let memory_lines = &mut tile.run[block * run_width + 1..(block + 1) * run_width];
            let mut memory = policy.load_memory::<R>(memory_lines, lane);
            let seen = see(first);
            let mut decision = Decision::new(policy, moment, seen, &mut memory, working_space);
            actions.fill(&self.spec.action, (first, envs), &mut decision);
            policy.store_memory(&memory, memory_lines, lane);
        }
        served
    }
}

/// Folds what a step gave the environments of a block into their checksums: the step's own observation, then, if
/// the episode ended, the first of the next.
#[inline(always)]
fn fold_block<T: ObsElement>(words: &mut Line, step: &Out<'_, T>, dim: usize) {
    let rows = step.obs.chunks_exact(dim).zip(step.final_obs.chunks_exact(dim));
    let flags = step.terminated.iter().zip(step.truncated.iter());
    let given = rows.zip(step.rewards.iter()).zip(flags);
    for (word, (((obs, final_obs), reward), (terminated, truncated))) in words.0.iter_mut().zip(given) {
        let (terminated, truncated, seen) = (*terminated, *truncated, T::weigh(obs));
        let (own, next) = if terminated | truncated { (T::weigh(final_obs), start_weight(seen)) } else { (seen, 0) };
        *word = fold_weight::<f32>(*word, own, *reward, terminated, truncated).wrapping_add(next);
    }
}

impl<T> Out<'_, T> {
    /// The slices of `envs` environments from the `i`-th block on.
    #[inline(always)]
    pub(super) fn block(&mut self, i: usize, envs: usize, dim: usize) -> Out<'_, T> {
        let (one, row) = (i * BLOCK..i * BLOCK + envs, i * BLOCK * dim..(i * BLOCK + envs) * dim);
        // Two arrays may be empty.
        let costs = if self.violations.is_empty() { 0..0 } else { one.clone() };
        StepOut {
            obs: &mut self.obs[row.clone()],
            rewards: &mut self.rewards[one.clone()],
            terminated: &mut self.terminated[one.clone()],
            truncated: &mut self.truncated[one.clone()],
            violations: &mut self.violations[costs.clone()],
            final_obs: &mut self.final_obs[row],
            final_returns: &mut self.final_returns[one.clone()],
            final_lengths: &mut self.final_lengths[one],
            final_costs: if self.final_costs.is_empty() { &mut [] } else { &mut self.final_costs[costs] },
        }
    }
}
