//! Roll-outs: many steps under a policy, in chunks.

use serde::{Deserialize, Serialize};

use crate::batch::{Batch, STEP_TILE, TileScratch};
use crate::checksum;
use crate::error::{Error, Result};
use crate::lanes::{BLOCK, Line};
use crate::policy::Policy;
use crate::snapshot;
use crate::stats::EpisodeStats;

/// A policy acting on a batch, and what has come of it so far.
///
/// The chunk size, the tiles, the threads and the lanes never change any result.
#[derive(Debug)]
pub struct Rollout {
    pub(crate) policy: Policy,
    pub(crate) num_envs: usize,
    /// For each block the checksum's line, then the policy's memory.
    pub(crate) lines: Vec<Line>,
    pub(crate) tick: u64,
    /// The tick it began at.
    pub(crate) first_tick: u64,
    pub(crate) stats: EpisodeStats,
    /// A tile's arrays for each thread, made when a policy over tiles first needs them.
    pub(crate) scratch: Vec<TileScratch>,
    pub(crate) tile_blocks: usize,
}

/// The tile of a roll-out that nobody has set: the fastest with ARC's large grids, and at most 7 % behind with small ones (see
/// "What was measured" in ARCHITECTURE.md).
pub const TILE: usize = 128;
/// The largest tile: what kernels step together.
pub const MAX_TILE: usize = STEP_TILE * BLOCK;

/// Refuses what is no tile.
pub fn check_tile(envs: usize) -> Result<()> {
    if envs > 0 && envs <= MAX_TILE && envs.is_multiple_of(BLOCK) {
        return Ok(());
    }
    Err(Error::out_of_range("the tile", envs, format!("a multiple of {BLOCK} up to {MAX_TILE}")))
}

#[derive(Serialize, Deserialize)]
struct Header {
    num_envs: usize,
    policy: String,
    tick: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    first_tick: u64,
    stats: EpisodeStats,
}

fn is_zero(tick: &u64) -> bool {
    *tick == 0
}

const SNAPSHOT_KIND: &str = "rollout";

impl Rollout {
    /// A roll-out of `policy` that has not begun.
    pub fn new(policy: Policy, batch: &dyn Batch) -> Self {
        Self::from_tick(policy, batch, 0)
    }

    /// One that begins where another one has come to ([`Rollout::tick`]): a random policy draws by the tick, so from there on
    /// its numbers are new.
    pub fn from_tick(policy: Policy, batch: &dyn Batch, first_tick: u64) -> Self {
        let blocks = batch.num_envs().div_ceil(BLOCK);
        // The checksum starts at 0, a policy's memory at NaN, which says that it was never written.
        let mut one_block = vec![Line([f32::NAN.to_bits(); BLOCK]); 1 + policy.memory_words()];
        one_block[0] = Line::default();
        let lines = one_block.repeat(blocks);
        let num_envs = batch.num_envs();
        let (stats, scratch, tile_blocks) = (EpisodeStats::default(), Vec::new(), TILE / BLOCK);
        Self { policy, num_envs, lines, tick: first_tick, first_tick, stats, scratch, tile_blocks }
    }

    /// What acts.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Environments that make the steps of a chunk together, where they go [by rows](Batch::goes_by_rows); default
    /// [`TILE`].
    pub fn tile(&self) -> usize {
        self.tile_blocks * BLOCK
    }

    /// Sets the number of environments that make the steps of a chunk together: a multiple of 16 up to [`MAX_TILE`].
    /// Many share the cost of a call, few stay in the caches; there are never so many that a thread would have none. It
    /// changes no result, and nothing at all where steps are made in registers.
    pub fn set_tile(&mut self, envs: usize) -> Result<()> {
        check_tile(envs)?;
        self.tile_blocks = envs / BLOCK;
        Ok(())
    }

    /// Advances `batch` by `steps` steps, `chunk` at a time; `after_chunk` hears how many steps each
    /// chunk made, and stops the roll-out by answering `false`.
    pub fn run(
        &mut self,
        batch: &mut dyn Batch,
        steps: usize,
        chunk: usize,
        mut after_chunk: impl FnMut(usize) -> bool,
    ) -> Result<()> {
        if chunk == 0 {
            return Err(Error::out_of_range("the scan chunk size", 0, "at least 1"));
        }
        let mut left = steps;
        while left > 0 {
            let now = chunk.min(left);
            batch.advance(self, now)?;
            left -= now;
            if !after_chunk(now) {
                break;
            }
        }
        Ok(())
    }

    /// Steps that every environment has made.
    pub fn steps(&self) -> u64 {
        self.tick - self.first_tick
    }

    /// By what a random policy draws the next step's numbers: it goes up by one with each step.
    pub fn tick(&self) -> u64 {
        self.tick
    }

    /// Whether no step was made yet.
    pub(crate) fn begins(&self) -> bool {
        self.tick == self.first_tick
    }

    /// Statistics of the episodes finished so far.
    pub fn stats(&self) -> &EpisodeStats {
        &self.stats
    }

    /// Statistics of the episodes finished since the last such call.
    pub fn take_stats(&mut self) -> EpisodeStats {
        std::mem::take(&mut self.stats)
    }

    /// A number that depends on every observation, reward and flag so far, and on nothing else.
    pub fn checksum(&self) -> u64 {
        let words_per_block = self.lines.len() / self.num_envs.div_ceil(BLOCK);
        let words = self.lines.iter().step_by(words_per_block).flat_map(|line| line.0).take(self.num_envs);
        checksum::combine(words)
    }

    /// Memory the roll-out takes for each environment.
    pub fn bytes_per_env(&self) -> f64 {
        size_of_val(self.lines.as_slice()) as f64 / self.num_envs as f64
    }

    /// Everything but the policy itself, as bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        let header = Header {
            num_envs: self.num_envs,
            policy: format!("{:?}", self.policy),
            tick: self.tick,
            first_tick: self.first_tick,
            stats: self.stats,
        };
        snapshot::encode(SNAPSHOT_KIND, &header, &[bytemuck::cast_slice(&self.lines)])
    }

    /// Goes on where the roll-out of a snapshot was; it must be of the same policy and size.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let (header, payload): (Header, _) = snapshot::decode(SNAPSHOT_KIND, bytes)?;
        snapshot::check_equal("num_envs", &header.num_envs, &self.num_envs)?;
        snapshot::check_equal("policy", &header.policy, &format!("{:?}", self.policy))?;
        let lines: &mut [u8] = bytemuck::cast_slice_mut(&mut self.lines);
        snapshot::check_equal("size", &payload.len(), &lines.len())?;
        lines.copy_from_slice(payload);
        (self.tick, self.first_tick, self.stats) = (header.tick, header.first_tick, header.stats);
        Ok(())
    }
}
