//! No heap allocation in steady state: not per step, not per chunk, for any environment.
//!
//! One test in a binary of its own, because the allocator is that of the whole process. It counts for the threads that
//! step, not for the one of the test harness, which allocates when it likes.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use common::variants::variants;
use common::{ActionTable, Buffers, rollout};
use phalanx_core::batch::{Autoreset, BatchConfig};
use phalanx_core::policy::{Policy, Tile, TilePolicy};
use phalanx_core::pool::{Pool, Rows};
use phalanx_core::rollout::Rollout;
use phalanx_core::space::{ActionMask, Element};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread's allocations count.
    static COUNTS: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(usize::from(COUNTS.get()), Ordering::SeqCst);
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

/// A pool whose workers have started up, which they allocate for, and count from now on, as the caller does.
fn started_pool(threads: usize) -> Arc<Pool> {
    let pool = Pool::new(threads);
    let barrier = Barrier::new(threads);
    // Every task waits for all others, so each has a thread of its own.
    pool.for_each(threads, 1, Rows::new(&mut vec![(); threads], 1), |_, _| {
        barrier.wait();
        COUNTS.set(true);
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
    let pools = [started_pool(1), started_pool(2)];
    assert!(allocations(|| drop(std::hint::black_box(vec![1]))) > 0, "the counter counts");
    let barrier = Barrier::new(2);
    let of_all = allocations(|| {
        pools[1].for_each(2, 1, Rows::new(&mut [(); 2], 1), |_, _| {
            barrier.wait();
            drop(std::hint::black_box(vec![1]));
        });
    });
    assert_eq!(of_all, 2, "the counter counts for every thread of a pool");
    for variant in variants() {
        // From 2 048 on a second thread takes part in a single step.
        let many = if variant.is_plain() { 20_000 } else { 3_000 };
        for (num_envs, threads) in [(1, 1), (37, 1), (many, 2)] {
            for autoreset in [Autoreset::NextStep, Autoreset::SameStep] {
                let config =
                    BatchConfig { autoreset, pool: Arc::clone(&pools[threads - 1]), ..variant.config(num_envs, 0) };
                let mut batch = variant.batch(&config);
                let mut buffers = Buffers::new(num_envs, batch.spec());
                let mut table = ActionTable::new(&batch.spec().action, num_envs, 0);
                let mut rollouts = vec![rollout(batch.as_ref(), "random", &[])];
                // A state may forbid the actions of what does not look at masks.
                let unmasked = batch.spec().action_mask == ActionMask::None;
                if unmasked {
                    rollouts.push(rollout(batch.as_ref(), "constant", &[]));
                }
                if unmasked && batch.spec().observation.element == Element::F32 {
                    rollouts.push(Rollout::new(Policy::Tile(Arc::new(Still)), batch.as_ref()));
                }
                let mut masks = vec![false; num_envs * batch.spec().action.mask_len().unwrap_or(0)];
                let mut round = |steps: usize| {
                    for _ in 0..steps {
                        if !unmasked {
                            batch.action_masks_into(&mut masks).unwrap();
                            table.make_legal(&masks);
                        }
                        batch.step_into(table.actions(), buffers.out()).unwrap();
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
                    "{variant}, {num_envs} environments, {threads} threads, {autoreset:?}"
                );
            }
        }
    }
}
