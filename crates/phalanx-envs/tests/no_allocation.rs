//! No heap allocation in steady state: not per step, not per chunk, for any environment.
//!
//! One test in a binary of its own, because the allocator counts for the whole process.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use common::{ActionTable, Buffers, all_envs, batch, rollout};
use phalanx_core::batch::{Actions, Autoreset, BatchConfig};
use phalanx_core::policy::{Policy, Tile, TilePolicy};
use phalanx_core::pool::{Pool, Rows};
use phalanx_core::rollout::Rollout;
use phalanx_core::safety::{Constraint, SafetyConfig};
use phalanx_core::space::{ActionMask, ActionSpace, Element};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations that `work` makes.
fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    work();
    ALLOCATIONS.load(Ordering::SeqCst) - before
}

/// A pool whose workers have started up: they allocate for themselves when they do.
fn started_pool(threads: usize) -> Arc<Pool> {
    let pool = Pool::new(threads);
    let barrier = Barrier::new(threads);
    // Every task waits for all others, so each has a thread of its own.
    pool.for_each(threads, 1, Rows::new(&mut vec![(); threads], 1), |_, _| {
        barrier.wait();
    });
    Arc::new(pool)
}

/// The first action of the space, for everybody.
struct Still;

impl TilePolicy for Still {
    fn act(&self, _: Tile, _: &[f32], _: phalanx_core::batch::ActionsMut<'_>) {}
}

#[test]
fn steady_state_allocates_nothing() {
    assert!(allocations(|| drop(std::hint::black_box(vec![1]))) > 0, "the counter counts");
    let pools = [started_pool(1), started_pool(2)];
    for env in all_envs() {
        for (num_envs, threads) in [(1, 1), (37, 1), (20_000, 2)] {
            for autoreset in [Autoreset::NextStep, Autoreset::SameStep] {
                let config = BatchConfig {
                    num_envs,
                    autoreset,
                    pool: Arc::clone(&pools[threads - 1]),
                    ..BatchConfig::default()
                };
                let mut batch = batch(env, &config);
                let mut buffers = Buffers::new(num_envs, batch.spec());
                let table = ActionTable::new(&batch.spec().action, num_envs, 0);
                let mut rollouts = vec![rollout(batch.as_ref(), "random", &[])];
                // A state may forbid the actions of what does not look at masks.
                let unmasked = batch.spec().action_mask == ActionMask::None;
                if unmasked {
                    rollouts.push(rollout(batch.as_ref(), "constant", &[]));
                }
                if unmasked && batch.spec().observation.element == Element::F32 {
                    rollouts.push(Rollout::new(Policy::Tile(Arc::new(Still)), batch.as_ref()));
                }
                let choices = if let ActionSpace::Discrete { n } = batch.spec().action { n as usize } else { 1 };
                let (mut legal, mut masks) = (vec![0; num_envs], vec![false; num_envs * choices]);
                let mut round = |steps: usize| {
                    for _ in 0..steps {
                        if unmasked {
                            batch.step_into(table.actions(), buffers.out()).unwrap();
                            continue;
                        }
                        batch.action_masks_into(&mut masks).unwrap();
                        for (action, mask) in legal.iter_mut().zip(masks.chunks_exact(masks.len() / num_envs)) {
                            *action = mask.iter().position(|legal| *legal).unwrap_or(0) as i32;
                        }
                        batch.step_into(Actions::Discrete(&legal), buffers.out()).unwrap();
                    }
                    for rollout in &mut rollouts {
                        batch.advance(rollout, steps).unwrap();
                    }
                };
                // Small batches go past the step limit, so that episodes end in the counted part as well.
                round(3);
                let steps = if num_envs > 1_000 { 60 } else { 1_100 };
                assert_eq!(
                    allocations(|| round(steps)),
                    0,
                    "{env}, {num_envs} environments, {threads} threads, {autoreset:?}"
                );
            }
        }
    }
    // Constraints on the state and masks of an environment that is not in lanes.
    let constraints = ["steps<=5:soft", "grid[0,0]<9:soft"].map(|text| Constraint::parse(text).unwrap()).to_vec();
    let config = BatchConfig {
        num_envs: 37,
        settings: vec![("operations".to_owned(), "raw".to_owned())],
        safety: SafetyConfig { constraints, ..SafetyConfig::default() },
        ..BatchConfig::default()
    };
    let mut batch = batch("ARC-v0", &config);
    let mut rollout = rollout(batch.as_ref(), "random", &[]);
    batch.advance(&mut rollout, 3).unwrap();
    assert_eq!(allocations(|| batch.advance(&mut rollout, 300).unwrap()), 0, "constraints and masks of ARC-v0");
    assert!(rollout.stats().violations()[..2].iter().all(|violations| *violations > 0));
}
