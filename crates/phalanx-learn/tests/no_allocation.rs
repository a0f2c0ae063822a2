//! No heap allocation while an agent learns: not for a step, not for an update.
//!
//! One test in a binary of its own, because the allocator counts for the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx_core::batch::{Autoreset, BatchConfig};
use phalanx_core::pool::Pool;
use phalanx_learn::agents::dqn::{Dqn, DqnConfig};
use phalanx_learn::agents::ppo::{Ppo, PpoConfig};
use phalanx_learn::agents::pqn::{Pqn, PqnConfig};
use phalanx_learn::learner::{Learner, Report};
use phalanx_learn::world::{Sight, World};

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

const NUM_ENVS: usize = 48;
const STEPS: u64 = 100_000;

fn world(env: &str, sight: Sight, pool: &Arc<Pool>) -> World {
    let config = BatchConfig {
        num_envs: NUM_ENVS,
        autoreset: Autoreset::SameStep,
        pool: Arc::clone(pool),
        ..BatchConfig::default()
    };
    World::new(phalanx_envs::registry::find(env).unwrap().batch(&config).unwrap(), sight).unwrap()
}

#[test]
fn learning_allocates_nothing() {
    let stacked = Sight { frames: 4, actions: true };
    let dqn = DqnConfig { learning_starts: 100, train_frequency: 16, n_step: 3, double: true, ..DqnConfig::default() };
    let pqn = PqnConfig { rollout_steps: 32, hidden_size: 32, ..PqnConfig::default() };
    let ppo = PpoConfig { rollout_steps: 32, norm_obs: true, norm_reward: true, ..PpoConfig::default() };
    for threads in [1, 2] {
        let pool = Arc::new(Pool::new(threads));
        let agents: [(&str, Box<dyn Learner>); 4] = [
            (
                "dqn",
                Box::new(
                    Dqn::new(dqn.clone(), world("CartPole-v1", stacked, &pool), STEPS, 1, Arc::clone(&pool)).unwrap(),
                ),
            ),
            (
                "pqn",
                Box::new(
                    Pqn::new(pqn.clone(), world("Acrobot-v1", stacked, &pool), STEPS, 1, Arc::clone(&pool)).unwrap(),
                ),
            ),
            (
                "ppo",
                Box::new(
                    Ppo::new(ppo.clone(), world("CartPole-v1", stacked, &pool), STEPS, 1, Arc::clone(&pool)).unwrap(),
                ),
            ),
            (
                "ppo with a continuous action",
                Box::new(
                    Ppo::new(ppo.clone(), world("Pendulum-v1", Sight::PRESENT, &pool), STEPS, 1, Arc::clone(&pool))
                        .unwrap(),
                ),
            ),
        ];
        for (name, mut agent) in agents {
            let mut report = Report::default();
            // Episodes are the caller's to keep, in as much room as it likes.
            report.episodes.reserve(100_000);
            let mut learn = |units: usize| {
                for _ in 0..units {
                    agent.advance(u64::MAX, &mut report).unwrap();
                }
            };
            learn(3);
            let before = ALLOCATIONS.load(Ordering::SeqCst);
            assert!(before > 0, "the counter counts");
            learn(10);
            assert_eq!(ALLOCATIONS.load(Ordering::SeqCst) - before, 0, "{name} with {threads} threads");
        }
    }
}
