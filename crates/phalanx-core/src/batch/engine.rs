//! The one implementation of [`Batch`]: storage, threads, seeds and snapshots around a kernel.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::config::streams_of;
use super::element::typed;
use super::kernel::{
    At, BOOK_LINES, COST, Cells, ENDED, EPISODE, Kernel, Out, RETURN, STEP_TILE, STEPS, Streams, Stretch, copy_lane,
};
use super::repeat::repeating;
use super::row_wise::{RowWise, TileCells, TileScratch};
use super::{Actions, ActionsMut, Autoreset, Batch, BatchConfig, ObsMut, Reset, StepOut, check_len, slowdown};
use crate::apart;
use crate::error::{Error, Result};
use crate::lanes::{BLOCK, Line};
use crate::policy::Policy;
use crate::pool::{Parts, Pool, Rows};
use crate::rollout::Rollout;
use crate::snapshot;
use crate::space::{ActionMask, EnvSpec};
use crate::stats::{EpisodeStats, Tally};

/// Environment steps in one call that are worth a thread. Measured with `step_into` of CartPole: at 1 024
/// environments a second thread brings nothing, at 2 048 it brings half as much again.
const STEPS_WORTH_A_THREAD: usize = 1_024;

/// Ranges of blocks for each thread: some slack lets a thread that lost its core be overtaken.
const RANGES_PER_THREAD: usize = 8;

/// A batch around a kernel.
// On lines of its own, in pairs as they are fetched: another batch may be another thread's.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Engine<K: Kernel> {
    kernel: K,
    spec: EnvSpec,
    num_envs: usize,
    autoreset: Autoreset,
    pool: Arc<Pool>,
    streams: Streams,
    rows: Vec<K::Row>,
    book: Vec<Line>,
    stats: EpisodeStats,
}

#[derive(Serialize, Deserialize)]
struct Header {
    env: String,
    num_envs: usize,
    options: String,
    safety: String,
    max_steps: u32,
    autoreset: String,
    params_bytes: usize,
    shared_key: Option<[u32; 2]>,
    stats: EpisodeStats,
}

const SNAPSHOT_KIND: &str = "batch";

impl<K: Kernel> Engine<K> {
    pub(super) fn boxed(kernel: K, spec: EnvSpec, config: &BatchConfig) -> Result<Box<dyn Batch>> {
        assert!(spec.action_mask == ActionMask::None || spec.action.is_discrete(), "masks are for discrete actions");
        let blocks = config.num_envs.div_ceil(BLOCK);
        let repeats = config.action_repeat > 1;
        let mut engine = Self {
            rows: zeroed(blocks * kernel.rows_per_block())?,
            book: zeroed(blocks * BOOK_LINES)?,
            kernel,
            spec,
            num_envs: config.num_envs,
            autoreset: if repeats { Autoreset::Disabled } else { config.autoreset },
            pool: Arc::clone(&config.pool),
            streams: Streams::of_seed(config.seed),
            stats: EpisodeStats::default(),
        };
        engine.start_all();
        let engine = Box::new(engine);
        if repeats { repeating(engine, config.action_repeat, config.autoreset) } else { Ok(engine) }
    }

    fn blocks(&self) -> usize {
        self.num_envs.div_ceil(BLOCK)
    }

    /// Blocks that a thread takes at once when each environment makes `steps` steps.
    fn grain(&self, steps: usize) -> usize {
        let threads = self.pool.threads();
        if threads == 1 || self.num_envs.saturating_mul(steps) < STEPS_WORTH_A_THREAD * 2 {
            return self.blocks();
        }
        let smallest = STEPS_WORTH_A_THREAD.div_ceil(BLOCK * steps);
        self.blocks().div_ceil(threads * RANGES_PER_THREAD).max(smallest).min(self.blocks().div_ceil(threads))
    }

    /// Calls `work` for each block, on all threads if `steps` are worth it.
    fn for_each_block<P: Parts>(
        &mut self,
        steps: usize,
        parts: P,
        work: impl Fn(&K, At<'_>, Cells<'_, K::Row>, usize, &mut P::Part, &mut Tally) + Sync,
    ) -> EpisodeStats {
        let grain = self.grain(steps);
        let total = Mutex::new(EpisodeStats::default());
        let row_width = self.kernel.rows_per_block();
        let (kernel, streams) = (&self.kernel, &self.streams);
        let (num_envs, max_steps) = (self.num_envs, self.spec.max_steps);
        let cells = (Rows::new(&mut self.rows, row_width), Rows::new(&mut self.book, BOOK_LINES));
        self.pool.for_each(num_envs.div_ceil(BLOCK), grain, (cells, parts), |range, ((rows, book), mut part)| {
            let mut tally = Tally::new();
            for (i, block) in range.enumerate() {
                let cells = Cells {
                    rows: &mut rows[i * row_width..(i + 1) * row_width],
                    book: &mut book[i * BOOK_LINES..(i + 1) * BOOK_LINES],
                };
                work(kernel, At { block, num_envs, max_steps, streams }, cells, i, &mut part, &mut tally);
            }
            total.lock().expect("no panic while this lock is held").merge(&tally.into_stats());
        });
        total.into_inner().expect("no panic while this lock is held")
    }

    /// Starts episode 0 everywhere.
    fn start_all(&mut self) {
        self.stats = EpisodeStats::default();
        self.for_each_block(1, (), |kernel, at, cells, _, (), _| {
            cells.book[EPISODE] = Line::default();
            kernel.reset(at, cells, u32::MAX);
        });
    }

    /// Starts the next episode in the environments that `chosen` says, given a block and its book.
    fn start_next(&mut self, chosen: impl Fn(usize, &[Line]) -> u32 + Sync) {
        self.for_each_block(1, (), |kernel, at, cells, _, (), _| {
            let lanes = chosen(at.block, cells.book);
            for (lane, episode) in cells.book[EPISODE].0.iter_mut().enumerate() {
                *episode = episode.wrapping_add(lanes >> lane & 1);
            }
            kernel.reset(at, cells, lanes);
        });
    }

    /// The first environment whose episode has ended.
    fn first_ended(&self) -> Option<usize> {
        let steps = |block: usize| &self.book[block * BOOK_LINES + STEPS].0;
        (0..self.blocks()).find_map(|block| {
            // The fold has no early exit, so it runs in lanes; only a block with an end is searched.
            let any = steps(block).iter().fold(false, |any, steps| any | (*steps >= ENDED));
            let lane = any.then(|| steps(block).iter().position(|steps| *steps >= ENDED)).flatten()?;
            Some(block * BLOCK + lane).filter(|env| *env < self.num_envs)
        })
    }

    /// Advances by rows what the kernel cannot advance in registers.
    fn advance_rows(&mut self, rollout: &mut Rollout, steps: usize) {
        // All on one thread if the steps are not worth a second.
        let threads = if self.grain(steps) == self.blocks() { 1 } else { self.pool.threads() };
        let most = rollout.tile_blocks.min(self.blocks());
        if rollout.scratch.len() < threads || !rollout.scratch.iter().all(|scratch| scratch.fits(&self.spec, most)) {
            rollout.scratch = (0..self.pool.threads()).map(|_| TileScratch::new::<K::Elem>(&self.spec, most)).collect();
        }
        // No larger than a thread's share.
        let tile_blocks = most.min(self.blocks().div_ceil(threads));
        // One range of blocks and one scratch for each thread.
        let width = self.blocks().div_ceil(threads).next_multiple_of(tile_blocks);
        let ranges = self.blocks().div_ceil(width);
        let (row_width, run_width) = (self.kernel.rows_per_block(), rollout.lines.len() / self.blocks());
        let begins = rollout.begins();
        let total = Mutex::new(EpisodeStats::default());
        let pool = Arc::clone(&self.pool);
        let tiles = RowWise { kernel: &self.kernel, streams: &self.streams, num_envs: self.num_envs, spec: &self.spec };
        let parts = (
            Rows::new(&mut self.rows, row_width * width),
            Rows::new(&mut self.book, BOOK_LINES * width),
            Rows::new(&mut rollout.lines, run_width * width),
            Rows::new(&mut rollout.scratch, 1),
        );
        let stretch = Stretch { policy: &rollout.policy, tick: rollout.tick, begins, steps };
        pool.for_each(ranges, 1, parts, |range, (rows, book, run, scratch)| {
            let mut stats = EpisodeStats::default();
            let tiles_of = rows
                .chunks_mut(row_width * tile_blocks)
                .zip(book.chunks_mut(BOOK_LINES * tile_blocks))
                .zip(run.chunks_mut(run_width * tile_blocks));
            for (i, ((rows, book), run)) in tiles_of.enumerate() {
                let first_block = range.start * width + i * tile_blocks;
                tiles.advance(TileCells { first_block, rows, book, run }, &mut scratch[0], stretch, &mut stats);
            }
            total.lock().expect("no panic while this lock is held").merge(&stats);
        });
        rollout.stats.merge(&total.into_inner().expect("no panic while this lock is held"));
    }

    /// The first environment whose action its state forbids.
    fn first_illegal(&self, actions: &[i32]) -> Option<usize> {
        let components = self.spec.action.components();
        (0..self.blocks()).find_map(|block| {
            let at = self.at(block);
            let actions = &actions[at.first_env() * components..];
            let illegal = self.kernel.illegal(at, &self.rows[self.rows_of(block)], actions);
            let ended = |lane: usize| self.book[block * BOOK_LINES + STEPS].0[lane] >= ENDED;
            (0..at.envs()).find(|lane| illegal >> lane & 1 == 1 && !ended(*lane)).map(|lane| at.first_env() + lane)
        })
    }

    /// Writes the observations of all environments; the array fits.
    fn observe_all(&self, obs: &mut [K::Elem]) {
        let dim = self.spec.observation.dim();
        let parts = Rows::new(obs, BLOCK * dim);
        self.pool.for_each(self.blocks(), self.grain(1), parts, |range, part| {
            for (block, obs) in range.zip(part.chunks_mut(BLOCK * dim)) {
                self.kernel.observe(self.at(block), &self.rows[self.rows_of(block)], obs);
            }
        });
    }

    fn at(&self, block: usize) -> At<'_> {
        At { block, num_envs: self.num_envs, max_steps: self.spec.max_steps, streams: &self.streams }
    }

    fn rows_of(&self, block: usize) -> Range<usize> {
        let width = self.kernel.rows_per_block();
        block * width..(block + 1) * width
    }

    fn options_text(&self) -> String {
        let options: Vec<_> = self.spec.options.iter().map(|o| format!("{}={}", o.name, o.value)).collect();
        if options.is_empty() { "none".to_owned() } else { options.join(" ") }
    }

    fn check_env(&self, env: usize) -> Result<()> {
        if env < self.num_envs {
            return Ok(());
        }
        Err(Error::out_of_range("the number of an environment", env, format!("from 0 to {}", self.num_envs - 1)))
    }
}

impl<K: Kernel> Batch for Engine<K> {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn num_envs(&self) -> usize {
        self.num_envs
    }

    fn reset_into(&mut self, reset: Reset<'_>, obs: ObsMut<'_>) -> Result<()> {
        let obs: &mut [K::Elem] = typed(self.spec.name, obs)?;
        check_len("the observation array", obs.len(), self.num_envs * self.spec.observation.dim())?;
        match reset {
            Reset::Seed(seed) => {
                self.streams = Streams::of_seed(seed);
                self.start_all();
            }
            Reset::Seeds(seeds) => {
                self.streams = streams_of(seeds, self.num_envs)?;
                self.start_all();
            }
            Reset::All => {
                self.stats = EpisodeStats::default();
                self.start_next(|_, _| u32::MAX);
            }
            Reset::Mask(mask) => {
                check_len("the reset mask", mask.len(), self.num_envs)?;
                self.start_next(|block, _| bits_of(mask, block));
            }
            Reset::Reseed { mask, seeds } => {
                check_len("the reset mask", mask.len(), self.num_envs)?;
                check_len("the list of seeds", seeds.len(), self.num_envs)?;
                let seeds = seeds.iter().enumerate().filter(|(env, _)| mask[*env]);
                let given: Vec<_> = seeds.filter_map(|(env, seed)| Some((env, (*seed)?))).collect();
                if !given.is_empty() && !self.streams.reseed(&given) {
                    let what = "the seed of a batch whose environments are to be seeded one by one";
                    return Err(Error::out_of_range(what, "one for all", "one for each environment"));
                }
                for (env, _) in given {
                    // So that the next episode is number 0.
                    self.book[env / BLOCK * BOOK_LINES + EPISODE].0[env % BLOCK] = u32::MAX;
                }
                self.start_next(|block, _| bits_of(mask, block));
            }
        }
        self.observe_all(obs);
        Ok(())
    }

    fn step_into(&mut self, actions: Actions<'_>, out: StepOut<'_>) -> Result<()> {
        let (n, dim) = (self.num_envs, self.spec.observation.dim());
        actions.check(&self.spec, n)?;
        let out: Out<'_, K::Elem> = out.typed(self.spec.name)?;
        out.check(n, dim, self.kernel.guard().is_active())?;
        if self.autoreset == Autoreset::Disabled
            && let Some(env) = self.first_ended()
        {
            return Err(Error::ResetNeeded { env });
        }
        let (mode, components) = (self.autoreset, self.spec.action.components());
        if let (ActionMask::Binding, Actions::Discrete(indices)) = (self.spec.action_mask, actions)
            && let Some(env) = self.first_illegal(indices)
        {
            let what = format!("the action of environment {env}");
            let action: Vec<_> = indices[env * components..(env + 1) * components].iter().map(i32::to_string).collect();
            return Err(Error::out_of_range(what, action.join(", "), "one that its action mask allows"));
        }
        let (kernel, streams, max_steps) = (&self.kernel, &self.streams, self.spec.max_steps);
        let safe = kernel.guard().is_active();
        let step_blocks = |first: usize,
                           rows: &mut [K::Row],
                           book: &mut [Line],
                           out: &mut Out<'_, K::Elem>,
                           stats: &mut EpisodeStats| {
            let row_width = kernel.rows_per_block();
            let tiles = rows.chunks_mut(row_width * STEP_TILE).zip(book.chunks_mut(BOOK_LINES * STEP_TILE));
            for (i, (rows, book)) in tiles.enumerate() {
                let at = At { block: first + i * STEP_TILE, num_envs: n, max_steps, streams };
                let envs = (n - at.first_env()).min(book.len() / BOOK_LINES * BLOCK);
                let actions = actions.slice(at.first_env() * components, envs * components);
                let out = out.block(i * STEP_TILE, envs, dim);
                kernel.step(at, Cells { rows, book }, &actions, mode, out, stats);
            }
            // In a pass of its own: here a mispredicted branch costs little, while after a step it would
            // throw away the steps that the processor has already begun.
            out.count_finished(out.rewards.len(), safe, stats);
        };
        if n <= BLOCK {
            // Sharing out a single block would take longer than stepping it.
            let mut out = out;
            step_blocks(0, &mut self.rows, &mut self.book, &mut out, &mut self.stats);
            return Ok(());
        }
        let total = Mutex::new(EpisodeStats::default());
        let grain = self.grain(1);
        let parts = (
            (Rows::new(&mut self.rows, kernel.rows_per_block()), Rows::new(&mut self.book, BOOK_LINES)),
            (Rows::new(out.obs, BLOCK * dim), Rows::new(out.final_obs, BLOCK * dim)),
            (Rows::new(out.rewards, BLOCK), Rows::new(out.terminated, BLOCK), Rows::new(out.truncated, BLOCK)),
            (
                (Rows::new(out.final_returns, BLOCK), Rows::new(out.final_lengths, BLOCK)),
                (Rows::new(out.violations, BLOCK), Rows::new(out.final_costs, BLOCK)),
            ),
        );
        self.pool.for_each(n.div_ceil(BLOCK), grain, parts, |range, (cells, rows, columns, (finals, costs))| {
            let (obs, final_obs) = rows;
            let (rewards, terminated, truncated) = columns;
            let (final_returns, final_lengths) = finals;
            let (violations, final_costs) = costs;
            let mut out = StepOut {
                obs,
                rewards,
                terminated,
                truncated,
                violations,
                final_obs,
                final_returns,
                final_lengths,
                final_costs,
            };
            let mut stats = EpisodeStats::default();
            step_blocks(range.start, cells.0, cells.1, &mut out, &mut stats);
            total.lock().expect("no panic while this lock is held").merge(&stats);
        });
        self.stats.merge(&total.into_inner().expect("no panic while this lock is held"));
        Ok(())
    }

    fn observe_into(&self, obs: ObsMut<'_>) -> Result<()> {
        let obs = typed(self.spec.name, obs)?;
        check_len("the observation array", obs.len(), self.num_envs * self.spec.observation.dim())?;
        self.observe_all(obs);
        Ok(())
    }

    fn action_masks_into(&self, masks: &mut [bool]) -> Result<()> {
        let Some(n) = self.spec.action.mask_len() else {
            let what = format!("the action space of {}", self.spec.name);
            return Err(Error::out_of_range(what, &self.spec.action, "discrete for action masks"));
        };
        check_len("the mask array", masks.len(), self.num_envs * n)?;
        if self.spec.action_mask == ActionMask::None {
            masks.fill(true);
            return Ok(());
        }
        for (block, masks) in masks.chunks_mut(BLOCK * n).enumerate() {
            self.kernel.action_masks(self.at(block), &self.rows[self.rows_of(block)], masks);
        }
        Ok(())
    }

    fn advance(&mut self, rollout: &mut Rollout, steps: usize) -> Result<()> {
        check_len("the roll-out", rollout.num_envs, self.num_envs)?;
        rollout.policy.check(&self.spec)?;
        if steps == 0 {
            return Ok(());
        }
        if self.first_ended().is_some() {
            self.start_next(|_, book| {
                book[STEPS]
                    .0
                    .iter()
                    .enumerate()
                    .fold(0, |bits, (lane, steps)| bits | u32::from(*steps >= ENDED) << lane)
            });
        }
        if self.kernel.can_advance(&rollout.policy) {
            let width = rollout.lines.len() / self.blocks();
            let begins = rollout.begins();
            let Rollout { policy, tick, lines, .. } = rollout;
            let stretch = Stretch { policy, tick: *tick, begins, steps };
            let stats = self.for_each_block(steps, Rows::new(lines, width), |kernel, at, cells, i, lines, tally| {
                let run = &mut lines[i * width..(i + 1) * width];
                slowdown::waste(kernel, at, &cells, run, stretch);
                kernel.advance(at, cells, run, stretch, tally);
            });
            rollout.stats.merge(&stats);
        } else {
            self.advance_rows(rollout, steps);
        }
        rollout.tick += steps as u64;
        Ok(())
    }

    fn decide_into(&mut self, rollout: &mut Rollout, mut actions: ActionsMut<'_>) -> Result<()> {
        check_len("the roll-out", rollout.num_envs, self.num_envs)?;
        rollout.policy.check(&self.spec)?;
        let components = self.spec.action.components();
        actions.check(&self.spec, self.num_envs)?;
        let tile_blocks = rollout.tile_blocks.min(self.blocks());
        if !rollout.scratch.first().is_some_and(|scratch| scratch.fits(&self.spec, tile_blocks)) {
            rollout.scratch = vec![TileScratch::new::<K::Elem>(&self.spec, tile_blocks)];
        }
        let (row_width, run_width) = (self.kernel.rows_per_block(), rollout.lines.len() / self.blocks());
        let tiles = RowWise { kernel: &self.kernel, streams: &self.streams, num_envs: self.num_envs, spec: &self.spec };
        let cells = self
            .rows
            .chunks_mut(row_width * tile_blocks)
            .zip(self.book.chunks_mut(BOOK_LINES * tile_blocks))
            .zip(rollout.lines.chunks_mut(run_width * tile_blocks));
        for (i, ((rows, book), run)) in cells.enumerate() {
            let first_block = i * tile_blocks;
            let tile = TileCells { first_block, rows, book, run };
            let chosen = tiles.decide(tile, &mut rollout.scratch[0], &rollout.policy, rollout.tick);
            actions.write(first_block * BLOCK * components, chosen);
        }
        rollout.tick += 1;
        Ok(())
    }

    fn ended_into(&self, ended: &mut [bool]) -> Result<()> {
        check_len("the array of ends", ended.len(), self.num_envs)?;
        for (ended, book) in ended.chunks_mut(BLOCK).zip(self.book.chunks_exact(BOOK_LINES)) {
            ended.iter_mut().zip(book[STEPS].0).for_each(|(ended, steps)| *ended = steps >= ENDED);
        }
        Ok(())
    }

    fn autoreset(&self) -> Autoreset {
        self.autoreset
    }

    fn stats(&self) -> &EpisodeStats {
        &self.stats
    }

    fn state(&self, env: usize) -> Result<Vec<f64>> {
        self.check_env(env)?;
        Ok(self.kernel.state(&self.rows[self.rows_of(env / BLOCK)], env % BLOCK))
    }

    fn set_state(&mut self, env: usize, state: &[f64]) -> Result<()> {
        self.check_env(env)?;
        let rows = self.rows_of(env / BLOCK);
        self.kernel.set_state(&mut self.rows[rows], env % BLOCK, state)?;
        let book = &mut self.book[env / BLOCK * BOOK_LINES..];
        book[STEPS].0[env % BLOCK] = 0;
        book[RETURN].0[env % BLOCK] = 0;
        book[COST].0[env % BLOCK] = 0;
        Ok(())
    }

    fn param(&self, name: &str, env: usize) -> Result<f64> {
        self.check_env(env)?;
        self.kernel.param(name, env)
    }

    fn set_param(&mut self, name: &str, values: &[f64]) -> Result<()> {
        self.kernel.set_param(name, values, self.num_envs)
    }

    fn snapshot(&self) -> Vec<u8> {
        let (shared_key, keys): (_, &[Line]) = match &self.streams {
            Streams::Shared(key) => (Some(*key), &[]),
            Streams::PerEnv(lines) => (None, lines),
        };
        let params = self.kernel.params_bytes();
        let header = Header {
            env: self.spec.name.to_owned(),
            num_envs: self.num_envs,
            options: self.options_text(),
            safety: self.kernel.guard().text().to_owned(),
            max_steps: self.spec.max_steps,
            autoreset: format!("{:?}", self.autoreset),
            params_bytes: params.len(),
            shared_key,
            stats: self.stats,
        };
        // What padding environments did depends on the lane width; it is blanked.
        let last = self.blocks() - 1;
        let (book, last_book) = self.book.split_at(last * BOOK_LINES);
        let (rows, last_rows) = self.rows.split_at(last * self.kernel.rows_per_block());
        let (mut last_book, mut last_rows) = (last_book.to_vec(), last_rows.to_vec());
        let envs = self.at(last).envs();
        last_book.iter_mut().for_each(|line| line.0[envs..].fill(0));
        self.kernel.blank_padding(&mut last_rows, envs);
        let payload: [&[u8]; 6] = [
            bytemuck::cast_slice(keys),
            &params,
            bytemuck::cast_slice(book),
            bytemuck::cast_slice(&last_book),
            bytemuck::cast_slice(rows),
            bytemuck::cast_slice(&last_rows),
        ];
        snapshot::encode(SNAPSHOT_KIND, &header, &payload)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let (header, payload): (Header, _) = snapshot::decode(SNAPSHOT_KIND, bytes)?;
        snapshot::check_equal("environment", header.env.as_str(), self.spec.name)?;
        snapshot::check_equal("num_envs", &header.num_envs, &self.num_envs)?;
        snapshot::check_equal("options", &header.options, &self.options_text())?;
        snapshot::check_equal("safety", header.safety.as_str(), self.kernel.guard().text())?;
        snapshot::check_equal("max_steps", &header.max_steps, &self.spec.max_steps)?;
        snapshot::check_equal("autoreset", &header.autoreset, &format!("{:?}", self.autoreset))?;
        let keys = if header.shared_key.is_some() { 0 } else { self.blocks() * 2 * size_of::<Line>() };
        let book = size_of_val(self.book.as_slice());
        let fixed = keys + book + size_of_val(self.rows.as_slice());
        snapshot::check_equal("size", &payload.len(), &fixed.saturating_add(header.params_bytes))?;
        let (keys, rest) = payload.split_at(keys);
        let (params, rest) = rest.split_at(header.params_bytes);
        let (book, rows) = rest.split_at(book);
        self.kernel.restore_params(params, self.num_envs)?;
        self.streams = match header.shared_key {
            Some(key) => Streams::Shared(key),
            None => {
                let mut lines = vec![Line::default(); self.blocks() * 2];
                bytemuck::cast_slice_mut(&mut lines).copy_from_slice(keys);
                Streams::PerEnv(lines)
            }
        };
        bytemuck::cast_slice_mut(&mut self.book).copy_from_slice(book);
        bytemuck::cast_slice_mut(&mut self.rows).copy_from_slice(rows);
        self.stats = header.stats;
        Ok(())
    }

    fn restore_some(&mut self, bytes: &[u8], mask: &[bool]) -> Result<()> {
        check_len("the mask", mask.len(), self.num_envs)?;
        let before = self.snapshot();
        let (rows, book, streams, stats) = (self.rows.clone(), self.book.clone(), self.streams.clone(), self.stats);
        let params = |engine: &Self, name: &str| -> Result<Vec<f64>> {
            (0..engine.num_envs).map(|env| engine.param(name, env)).collect()
        };
        let names: Vec<_> = self.spec.params.iter().map(|param| param.name).collect();
        let old = names.iter().map(|name| params(self, name)).collect::<Result<Vec<_>>>()?;
        self.restore(bytes)?;
        let fits = match (&streams, &mut self.streams) {
            (Streams::PerEnv(from), Streams::PerEnv(to)) => {
                for env in (0..mask.len()).filter(|env| !mask[*env]) {
                    let block = env / BLOCK * 2..env / BLOCK * 2 + 2;
                    copy_lane(&from[block.clone()], &mut to[block], env % BLOCK);
                }
                true
            }
            (from, to) => *from == *to,
        };
        if !fits {
            self.restore(&before)?;
            let why = "has other random streams, and with one seed for all an environment cannot have its own";
            return Err(Error::Snapshot(why.to_owned()));
        }
        let width = self.kernel.rows_per_block();
        for env in (0..mask.len()).filter(|env| !mask[*env]) {
            let (block, lane) = (env / BLOCK, env % BLOCK);
            let lines = block * BOOK_LINES..(block + 1) * BOOK_LINES;
            copy_lane(&book[lines.clone()], &mut self.book[lines], lane);
            let cells = block * width..(block + 1) * width;
            self.kernel.copy_env(&rows[cells.clone()], &mut self.rows[cells], lane);
        }
        for (name, old) in names.iter().zip(old) {
            let new = params(self, name)?;
            if new != old {
                let mixed: Vec<f64> = mask
                    .iter()
                    .zip(new.iter().zip(&old))
                    .map(|(mask, (new, old))| if *mask { *new } else { *old })
                    .collect();
                self.set_param(name, &mixed)?;
            }
        }
        self.stats = stats;
        Ok(())
    }

    fn bytes_per_env(&self) -> f64 {
        let keys = match &self.streams {
            Streams::Shared(_) => 0,
            Streams::PerEnv(lines) => size_of_val(lines.as_slice()),
        };
        let bytes =
            size_of_val(self.rows.as_slice()) + size_of_val(self.book.as_slice()) + keys + self.kernel.params_memory();
        bytes as f64 / self.num_envs as f64
    }

    fn lanes(&self) -> usize {
        self.kernel.lanes()
    }

    fn goes_by_rows(&self, policy: &Policy) -> bool {
        !self.kernel.can_advance(policy)
    }

    fn threads(&self) -> usize {
        self.pool.threads()
    }
}

/// The flags of a block's environments, a bit each.
fn bits_of(mask: &[bool], block: usize) -> u32 {
    let flags = mask[block * BLOCK..].iter().take(BLOCK).enumerate();
    flags.fold(0, |bits, (lane, chosen)| bits | u32::from(*chosen) << lane)
}

fn zeroed<T: bytemuck::Zeroable + Clone>(len: usize) -> Result<Vec<T>> {
    let mut cells = Vec::new();
    cells.try_reserve_exact(len.saturating_add(apart::room::<T>())).map_err(|_| {
        Error::out_of_range(
            "the memory for this many environments",
            format!("{} bytes", len.saturating_mul(size_of::<T>())),
            "available",
        )
    })?;
    cells.resize(len, T::zeroed());
    Ok(cells)
}

impl<'a> StepOut<'a> {
    /// The same arrays for observations of type `T`.
    #[inline(always)]
    pub(super) fn typed<T: super::ObsElement>(self, env: &str) -> Result<Out<'a, T>> {
        Ok(StepOut {
            obs: typed(env, self.obs)?,
            rewards: self.rewards,
            terminated: self.terminated,
            truncated: self.truncated,
            violations: self.violations,
            final_obs: typed(env, self.final_obs)?,
            final_returns: self.final_returns,
            final_lengths: self.final_lengths,
            final_costs: self.final_costs,
        })
    }
}

impl<T> Out<'_, T> {
    /// Adds the episodes of the first `envs` environments that ended in the last step, and the violations.
    #[inline(always)]
    pub(super) fn count_finished(&self, envs: usize, safe: bool, stats: &mut EpisodeStats) {
        let mut add = |env: usize| {
            let cost = if safe { self.final_costs[env] } else { 0 };
            stats.add(self.final_returns[env], self.final_lengths[env], cost);
        };
        let (terminated, tail) = self.terminated[..envs].as_chunks::<8>();
        let (truncated, _) = self.truncated[..envs].as_chunks::<8>();
        for (group, (terminated, truncated)) in terminated.iter().zip(truncated).enumerate() {
            // Eight flags at a look, a byte each; mostly none is set, sometimes one.
            let word = |flags: &[bool; 8]| u64::from_le_bytes(flags.map(u8::from));
            let mut done = word(terminated) | word(truncated);
            while done != 0 {
                add(group * 8 + done.trailing_zeros() as usize / 8);
                done &= done - 1;
            }
        }
        for env in envs - tail.len()..envs {
            if self.terminated[env] | self.truncated[env] {
                add(env);
            }
        }
        if safe {
            self.violations[..envs].iter().for_each(|violated| stats.add_violations(*violated));
        }
    }

    #[inline(always)]
    pub(super) fn check(&self, num_envs: usize, dim: usize, safe: bool) -> Result<()> {
        check_len("the observation array", self.obs.len(), num_envs * dim)?;
        check_len("the reward array", self.rewards.len(), num_envs)?;
        check_len("the terminated array", self.terminated.len(), num_envs)?;
        check_len("the truncated array", self.truncated.len(), num_envs)?;
        check_len("the final observation array", self.final_obs.len(), num_envs * dim)?;
        check_len("the final return array", self.final_returns.len(), num_envs)?;
        check_len("the final length array", self.final_lengths.len(), num_envs)?;
        // Empty is fine where nothing is written.
        for (what, len) in
            [("the violation array", self.violations.len()), ("the final cost array", self.final_costs.len())]
        {
            if safe || len > 0 {
                check_len(what, len, num_envs)?;
            }
        }
        Ok(())
    }
}
