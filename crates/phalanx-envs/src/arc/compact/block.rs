//! Sixteen environments at once: whatever is a word of a state goes through lanes, only bytes are shuffled one by one.

use bytemuck::{cast, cast_mut, cast_ref};
use phalanx_core::lanes::{BLOCK, LaneValue, Line, Mask, Real, Stored, Uint, f32x16, u32x8, u32x16};
use phalanx_core::solo::Outcome;

use super::plan::{self, Plan, RECIPES};
use super::{Packed, PackedPair, SIDE};
use crate::arc::env::ArcEnv;
use crate::arc::reward::Mode;
use crate::arc::state::words;

/// The words of a state behind its cells: the selection, then [`Head`](crate::arc::state::Head), of which size and
/// corner share a word, as do attempts, operation, solved and rejected.
#[derive(Clone, Copy)]
struct Words {
    selection: u32x16,
    allowed: [u32x16; 2],
    similarity: f32x16,
    pair: u32x16,
    steps: u32x16,
    extent: u32x16,
    flags: u32x16,
}

/// Where the operation is in the word of flags, and what belongs to the attempts and to the solved flag.
const OPERATION: u32 = 8;
const ATTEMPTS: u32 = 0xff;
const SOLVED: u32 = 0xff << 16;

/// Steps the environments that execute an operation on cells, and answers the others, bit by bit: nothing has
/// happened to these. `ops` are the operations asked for, `chosen` the cells.
#[inline(never)]
pub fn step_block(
    env: &ArcEnv<SIDE, 1, { words(SIDE, 1) }>,
    pairs: &[PackedPair],
    states: &mut [Packed],
    (ops, chosen): (&Line, u32x16),
    outcomes: &mut [Outcome],
) -> u32 {
    let config = env.config();
    let before = Words::load(states);
    let op = u32x16::load(ops, 0);
    // From 32 on there is no such bit: operations without a recipe are left out with those that are not allowed.
    let allowed = before.allowed[0] & u32x16::splat(config.operations.0 as u32) & op.bit();
    let executed = !allowed.eq(u32x16::splat(0));
    let mut recipes = Line::default();
    for (recipe, op) in recipes.0.iter_mut().zip(&ops.0) {
        *recipe = RECIPES[*op as usize % RECIPES.len()];
    }
    // Without a recipe nothing changes.
    let recipe = u32x16::load(&recipes, 0).keep(executed);
    let plan = plan::plan::<f32x16>(recipe, chosen, before.extent);

    let lines = plan.lines();
    let (mut agreement, mut target, mut known) = (Line::default(), Line::default(), Line::default());
    for (lane, state) in states.iter_mut().enumerate() {
        let mut plan = lines.lane(lane);
        if plan.flooded != 0 {
            plan.region |= state.flooded(plan.flooded);
        }
        state.carry_out(&plan);
        let pair = &pairs[state.head.pair as usize];
        agreement.0[lane] = state.agreement(pair);
        (target.0[lane], known.0[lane]) = (pair.target_area, pair.known);
    }

    let area = plan::area(before.extent);
    let matches = plan::count(u32x16::load(&agreement, 0) & area);
    let union = plan::count(area | u32x16::load(&target, 0));
    let known = !u32x16::load(&known, 0).eq(u32x16::splat(0));
    let share = f32x16::from_uint(matches) / f32x16::from_uint(union);
    let share = LaneValue::select(union.eq(u32x16::splat(0)), f32x16::splat(1.0), share);
    let similarity = LaneValue::select(known, share, before.similarity);
    let solved =
        LaneValue::select(known, u32x16::masked(matches.eq(union), 1 << 16), before.flags & u32x16::splat(SOLVED));
    let after = Words {
        selection: plan.selected,
        similarity,
        steps: before.steps.wrapping_add(u32x16::masked(!before.steps.eq(u32x16::splat(u32::MAX)), 1)),
        extent: plan.extent,
        flags: (before.flags & u32x16::splat(ATTEMPTS)) | op.shl(OPERATION) | solved,
        ..before
    };
    Words::select(executed, &after, &before).store(states);

    // The sum of `Reward::of_step`, in its order.
    let gain = similarity - before.similarity;
    let shaping = match config.mode {
        Mode::Train => f32x16::splat(config.reward.similarity_weight) * gain,
        Mode::Test => f32x16::splat(0.0),
    };
    let rewards = (shaping + f32x16::splat(config.reward.step_penalty) + f32x16::splat(0.0)).to_array();
    for (outcome, reward) in outcomes.iter_mut().zip(rewards) {
        *outcome = Outcome { reward, terminated: false };
    }
    !executed.bits() & ((1 << states.len()) - 1)
}

impl Words {
    /// Of up to sixteen states; others are 0.
    #[inline(always)]
    fn load(states: &[Packed]) -> Self {
        let mut halves = [[u32x8::ZERO; 8]; 2];
        for (row, state) in halves.as_flattened_mut().iter_mut().zip(states) {
            *row = u32x8::new(*words_of(state));
        }
        let [low, high] = [u32x8::transpose(halves[0]), u32x8::transpose(halves[1])];
        let word = |at: usize| cast([low[at], high[at]]);
        Self {
            selection: word(0),
            allowed: [word(1), word(2)],
            similarity: cast(word(3)),
            pair: word(4),
            steps: word(5),
            extent: word(6),
            flags: word(7),
        }
    }

    #[inline(always)]
    fn store(&self, states: &mut [Packed]) {
        let Self { selection, allowed: [low, high], similarity, pair, steps, extent, flags } = *self;
        let words: [[u32x8; 2]; 8] = cast([selection, low, high, cast(similarity), pair, steps, extent, flags]);
        for (half, states) in states.chunks_mut(BLOCK / 2).enumerate() {
            let mut rows = [u32x8::ZERO; 8];
            for (row, word) in rows.iter_mut().zip(&words) {
                *row = word[half];
            }
            for (row, state) in u32x8::transpose(rows).iter().zip(states) {
                *words_of_mut(state) = row.to_array();
            }
        }
    }

    #[inline(always)]
    fn select(mask: <u32x16 as LaneValue>::Mask, if_true: &Self, if_false: &Self) -> Self {
        let pick = |of: fn(&Self) -> u32x16| LaneValue::select(mask, of(if_true), of(if_false));
        Self {
            selection: pick(|words| words.selection),
            similarity: cast(pick(|words| cast(words.similarity))),
            steps: pick(|words| words.steps),
            extent: pick(|words| words.extent),
            flags: pick(|words| words.flags),
            // What no step changes.
            allowed: if_false.allowed,
            pair: if_false.pair,
        }
    }
}

/// A state is three registers, of which the last has no cells.
#[inline(always)]
fn words_of(state: &Packed) -> &[u32; 8] {
    &cast_ref::<_, [[u32; 8]; 3]>(state)[2]
}

#[inline(always)]
fn words_of_mut(state: &mut Packed) -> &mut [u32; 8] {
    &mut cast_mut::<_, [[u32; 8]; 3]>(state)[2]
}

impl Plan<u32x16> {
    #[inline(always)]
    fn lines(&self) -> Plan<[u32; BLOCK]> {
        self.map(|word| word.to_array())
    }
}

impl Plan<[u32; BLOCK]> {
    #[inline(always)]
    fn lane(&self, lane: usize) -> Plan<u32> {
        self.map(|words| words[lane])
    }
}
