//! No heap allocation while an agent learns: not for a step, not for an update.
//!
//! One test in a binary of its own, because the allocator counts for the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx_core::batch::BatchConfig;
use phalanx_learn::create_config;
use phalanx_learn::learner::Report;
use phalanx_learn::trainer::learner;

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

/// An agent, the environment it learns on, and its settings.
type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const AGENTS: [Case; 9] = [
    (
        "dqn",
        "CartPole-v1",
        &[
            ("learning_starts", "100"),
            ("train_frequency", "16"),
            ("n_step", "3"),
            ("double", "true"),
            ("frame_stack_n", "4"),
            ("frame_actions", "true"),
        ],
    ),
    // With masks, and at the ends of episodes, too.
    ("dqn", "TicTacToe-v0", &[("learning_starts", "100"), ("train_frequency", "16"), ("env.max_steps", "3")]),
    (
        "pqn",
        "Acrobot-v1",
        &[
            ("rollout_steps", "32"),
            ("hidden_size", "32"),
            ("frame_stack_n", "4"),
            ("frame_actions", "true"),
            ("env.max_steps", "20"),
        ],
    ),
    ("pqn", "TicTacToe-v0", &[("rollout_steps", "32"), ("hidden_size", "32"), ("env.max_steps", "3")]),
    ("ppo", "CartPole-v1", &[("frame_stack_n", "4"), ("norm_obs", "true"), ("norm_reward", "true")]),
    ("ppo", "TicTacToe-v0", &[]),
    ("ppo", "Pendulum-v1", &[("env.max_steps", "20")]),
    ("q_learning", "TicTacToe-v0", &[("shards", "1"), ("table", "dense")]),
    // (Several workers share out the work of a unit in a list, and copies grow with what they have seen.)
    ("sarsa", "TicTacToe-v0", &[("shards", "1"), ("table", "dense")]),
];

#[test]
fn learning_allocates_nothing() {
    for threads in ["1", "2"] {
        for (agent, env, settings) in AGENTS {
            let usual = [("num_envs", "48"), ("run.steps_per_env", "100000"), ("run.threads", threads)];
            let config = create_config(env, agent, &[&usual, settings].concat()).unwrap();
            let entry = phalanx_envs::registry::find(env).unwrap();
            let mut learner = learner(&config, &|batch: &BatchConfig| entry.batch(batch)).unwrap();
            let mut report = Report::default();
            let mut learn = |units: usize| {
                for _ in 0..units {
                    // Of a table many would be a whole unit.
                    let goal = learner.global_step() + 10_000;
                    learner.advance(goal, &mut report).unwrap();
                }
            };
            learn(3);
            let before = ALLOCATIONS.load(Ordering::SeqCst);
            assert!(before > 0, "the counter counts");
            learn(10);
            let made = ALLOCATIONS.load(Ordering::SeqCst) - before;
            assert_eq!(made, 0, "{agent} on {env} with {threads} threads and {settings:?}");
            assert!(report.episodes.count() > 100, "{agent} on {env} ends {} episodes", report.episodes.count());
        }
    }
}
