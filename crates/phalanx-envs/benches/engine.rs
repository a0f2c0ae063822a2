//! The engine's speed bars, one line each: `cargo bench -p phalanx-envs [-- FILTER]`.
//!
//! Every case runs several rounds, interleaved with all other cases, and reports the median and the
//! range; nothing is asserted, because machines differ and are shared.

use std::sync::Arc;
use std::time::Instant;

use phalanx_core::batch::{Actions, Autoreset, BatchConfig, StepBuffers};
use phalanx_core::policy::Policy;
use phalanx_core::pool::Pool;
use phalanx_core::rollout::Rollout;
use phalanx_core::safety::{SafetyConfig, SafetyMode};
use phalanx_core::space::ActionSpace;
use phalanx_envs::registry;

const ROUNDS: usize = 7;
/// Environment steps of one round.
const STEPS: usize = 100_000_000;

/// A named measurement: runs once and answers its steps per second.
struct Case {
    name: String,
    run: Box<dyn FnMut() -> f64>,
}

/// What is rolled out.
struct Setup {
    env: &'static str,
    settings: &'static [(&'static str, &'static str)],
    safety: SafetyMode,
    /// Environment steps of one round.
    steps: usize,
}

impl Setup {
    /// An environment as it comes.
    fn plain(env: &'static str) -> Self {
        Self { env, settings: &[], safety: SafetyMode::Enforce, steps: STEPS }
    }

    /// An environment that takes ten times as long and more.
    fn slow(env: &'static str) -> Self {
        Self { steps: STEPS / 5, ..Self::plain(env) }
    }
}

/// A random roll-out with checksum and statistics: what `phalanx rollout` runs.
fn rollout(setup: Setup, num_envs: usize, chunk: usize, pool: &Arc<Pool>) -> Case {
    let Setup { env, settings, safety, steps } = setup;
    let config = BatchConfig {
        num_envs,
        pool: Arc::clone(pool),
        autoreset: Autoreset::SameStep,
        settings: settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        safety: SafetyConfig { mode: safety, ..SafetyConfig::default() },
        ..BatchConfig::default()
    };
    let mut batch = registry::find(env).unwrap().batch(&config).unwrap();
    let policy = Policy::parse("random", &[], batch.spec()).unwrap();
    let mut rollout = Rollout::new(policy, &*batch);
    let steps = (steps / num_envs).max(1);
    let mut name = format!("rollout {env} envs={num_envs} chunk={chunk} threads={}", pool.threads());
    settings.iter().for_each(|(key, value)| name += &format!(" {key}={value}"));
    if safety != SafetyMode::Enforce {
        name += &format!(" safety={safety}");
    }
    Case {
        name,
        run: Box::new(move || {
            let start = Instant::now();
            rollout.run(&mut *batch, steps, chunk, |_| true).unwrap();
            std::hint::black_box(rollout.checksum());
            (steps * num_envs) as f64 / start.elapsed().as_secs_f64()
        }),
    }
}

/// `step_into` with actions given by the caller and row-major observations written out.
fn step_into(env: &'static str, num_envs: usize, autoreset: Autoreset, pool: &Arc<Pool>) -> Case {
    let config = BatchConfig { num_envs, pool: Arc::clone(pool), autoreset, ..Default::default() };
    let mut batch = registry::find(env).unwrap().batch(&config).unwrap();
    let mut buffers = StepBuffers::new(num_envs, batch.spec().observation.dim());
    let calls = (STEPS / 4 / num_envs.max(4)).max(1);
    // A hundred arrays of actions, used in turn.
    let action = batch.spec().action.clone();
    let word = |i: usize| ((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32;
    let n = if let ActionSpace::Discrete { n } = action { n } else { 1 };
    let indices: Vec<i32> = (0..num_envs * 100).map(|i| (word(i) % n) as i32).collect();
    let values: Vec<f32> = (0..num_envs * 100).map(|i| word(i) as f32 / (1_u64 << 30) as f32 - 1.0).collect();
    Case {
        name: format!("step_into {env} envs={num_envs} {autoreset:?} threads={}", pool.threads()),
        run: Box::new(move || {
            let start = Instant::now();
            for call in 0..calls {
                let rows = call % 100 * num_envs..(call % 100 + 1) * num_envs;
                let discrete = action.is_discrete();
                let actions =
                    if discrete { Actions::Discrete(&indices[rows]) } else { Actions::Continuous(&values[rows]) };
                batch.step_into(actions, buffers.out()).unwrap();
            }
            std::hint::black_box(&buffers.obs);
            (calls * num_envs) as f64 / start.elapsed().as_secs_f64()
        }),
    }
}

/// What looking at constraints costs: turns of a few milliseconds with and without, so that whatever disturbs the
/// machine for longer hits both alike. Prints the median and the quartiles of the turns' ratios.
fn safety_overhead(env: &'static str, pool: &Arc<Pool>) {
    const TURNS: usize = 400;
    let case = |safety| rollout(Setup { env, settings: &[], safety, steps: 256 * 1_024 }, 1_024, 128, pool);
    let [mut monitored, mut free] = [case(SafetyMode::Monitor), case(SafetyMode::Off)];
    let mut turn = |i: usize| {
        // Either goes first as often as the other.
        let (monitored, free) = if i.is_multiple_of(2) {
            let monitored = (monitored.run)();
            (monitored, (free.run)())
        } else {
            let free = (free.run)();
            ((monitored.run)(), free)
        };
        100.0 * (free / monitored - 1.0)
    };
    let mut overheads: Vec<f64> = (0..TURNS).map(&mut turn).skip(10).collect();
    overheads.sort_by(f64::total_cmp);
    let [low, median, high] = [1, 2, 3].map(|quarter| overheads[quarter * overheads.len() / 4]);
    let name = format!("safety overhead {env} monitor/off threads={}", pool.threads());
    println!("{name:<62} {median:>8.1} %  [{low:.1}, {high:.1}]");
}

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let (one, two) = (Arc::new(Pool::new(1)), Arc::new(Pool::new(2)));
    let mut cases = Vec::new();
    for (num_envs, chunk) in
        [(1_024, 256), (10_240, 256), (102_400, 128), (1_048_576, 128), (1_048_576, 32), (1_048_576, 1)]
    {
        cases.push(rollout(Setup::plain("CartPole-v1"), num_envs, chunk, &two));
    }
    cases.push(rollout(Setup::plain("CartPole-v1"), 1_024, 256, &one));
    for env in ["Pendulum-v1", "pendulum-control", "MountainCar-v0", "MountainCarContinuous-v0", "TicTacToe-v0"] {
        cases.push(rollout(Setup::plain(env), 102_400, 128, &two));
    }
    for env in ["Acrobot-v1", "ccasr-gfp-control", "opto-hill-1d-sysid", "VanDeVusse-v0"] {
        cases.push(rollout(Setup::slow(env), 102_400, 128, &two));
    }
    for safety in [SafetyMode::Enforce, SafetyMode::Monitor, SafetyMode::Off] {
        cases.push(rollout(Setup { safety, ..Setup::slow("ChemicalReactor-v0") }, 102_400, 128, &two));
    }
    for settings in [&[("canvas", "5")], &[("canvas", "30")]] {
        cases.push(rollout(Setup { settings, ..Setup::slow("ARC-v0") }, 102_400, 16, &two));
    }
    for autoreset in [Autoreset::NextStep, Autoreset::SameStep] {
        cases.push(step_into("CartPole-v1", 4_096, autoreset, &one));
    }
    cases.push(step_into("CartPole-v1", 65_536, Autoreset::NextStep, &two));
    cases.push(step_into("Pendulum-v1", 4_096, Autoreset::NextStep, &one));
    cases.push(step_into("CartPole-v1", 1, Autoreset::NextStep, &one));
    cases.retain(|case| case.name.contains(&filter));

    let mut rates = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for (case, rates) in cases.iter_mut().zip(&mut rates) {
            rates.push((case.run)());
        }
    }
    for (case, rates) in cases.iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        let [low, median, high] = [rates[0], rates[ROUNDS / 2], rates[ROUNDS - 1]].map(|rate| rate / 1e6);
        println!("{:<62} {median:>8.1} M steps/s  [{low:.1}, {high:.1}]", case.name);
    }
    if "safety overhead".contains(&filter) {
        safety_overhead("ChemicalReactor-v0", &one);
        safety_overhead("VanDeVusse-v0", &one);
    }
}
