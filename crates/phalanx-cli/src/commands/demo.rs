//! `phalanx demo`: what there is, in under a minute.

use std::sync::Arc;
use std::time::Instant;

use phalanx_core::batch::{Autoreset, BatchConfig};
use phalanx_core::policy::Policy;
use phalanx_core::pool::Pool;
use phalanx_core::rollout::Rollout;
use phalanx_core::safety::{Constraint, SafetyConfig};
use phalanx_envs::registry;
use serde::Serialize;

use crate::args::DemoArgs;
use crate::commands::{print, print_json};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{machine, text};

/// Everything the demo shows.
#[derive(Serialize)]
struct Report {
    threads: usize,
    million: Run,
    chunks: Vec<Run>,
    same_bits: bool,
    controllers: Vec<Score>,
    worlds: Vec<Score>,
}

/// A timed roll-out.
#[derive(Serialize)]
struct Run {
    env: &'static str,
    num_envs: usize,
    steps: usize,
    scan_chunk_size: usize,
    threads: usize,
    steps_per_second: f64,
    checksum: String,
}

/// What a policy earns.
#[derive(Serialize)]
struct Score {
    env: &'static str,
    policy: String,
    episodes: u64,
    return_mean: f64,
    return_std: f64,
    /// What else the environment tells: costs, counters, scores.
    notes: Vec<String>,
}

const MILLION: usize = 1_048_576;

/// Names with values.
type Pairs = &'static [(&'static str, &'static str)];

/// An environment, a policy and the policy's arguments.
type Controlled = (&'static str, &'static str, Pairs);

/// Controllers worth showing.
const CONTROLLERS: &[Controlled] = &[
    ("CartPole-v1", "random", &[]),
    ("CartPole-v1", "bangbang", &[("obs_field", "theta")]),
    ("CartPole-v1", "bangbang", &[("obs_field", "theta_dot")]),
    ("CartPole-v1", "pid", &[("kp", "-1"), ("kd", "-0.25"), ("control_low", "-1"), ("control_high", "1")]),
    ("Pendulum-v1", "random", &[]),
    ("Pendulum-v1", "bangbang", &[("obs_field", "theta_dot")]),
    ("MountainCar-v0", "random", &[]),
    ("MountainCar-v0", "bangbang", &[("obs_field", "velocity")]),
    ("MountainCarContinuous-v0", "random", &[]),
    ("MountainCarContinuous-v0", "bangbang", &[("obs_field", "velocity")]),
    ("Acrobot-v1", "random", &[]),
    ("Acrobot-v1", "bangbang", &[("obs_field", "theta1_dot"), ("invert", "true")]),
];

/// Worlds of other kinds, with settings and constraints.
const WORLDS: &[(Controlled, Pairs, &[&str])] = &[
    (
        // On below the target of 25 of 80 molecules, off above.
        ("ccasr-gfp-control", "bangbang", &[("obs_field", "F_normalized"), ("setpoint", "0.3125"), ("invert", "true")]),
        &[],
        &[],
    ),
    (("ChemicalReactor-v0", "random", &[]), &[], &["temperature<=330:soft:name=hot"]),
    (("TicTacToe-v0", "random", &[]), &[], &[]),
    (("TicTacToe-v0", "random", &[]), &[("opponent", "perfect")], &[]),
    (("ARC-v0", "random", &[]), &[("canvas", "5")], &[]),
    (("ARC-v0", "random", &[]), &[("canvas", "5"), ("operations", "raw")], &[]),
];

pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let json = args.output.json;
    let pool = Arc::new(Pool::new(machine::cores()));
    let say = |text: &str| if json { Ok(()) } else { print(text) };

    say(&format!(
        "Phalanx {} on {} threads\n\n1. A million environments in lockstep\n",
        env!("CARGO_PKG_VERSION"),
        pool.threads()
    ))?;
    let timed = |steps: usize, chunk: usize| timed(args, "CartPole-v1", (MILLION, steps), chunk, &pool);
    let million = timed(2_000, 128)?;
    say(&format!(
        "   {} CartPoles, random actions, {} steps each: {} steps/s\n   (checksum {} over every observation, reward and flag)\n\n",
        text::grouped(MILLION as u64),
        text::grouped(million.steps as u64),
        text::short(million.steps_per_second),
        million.checksum,
    ))?;

    say(
        "2. The chunk size: steps that a tile makes while its state stays in registers\n   chunk    steps/s   checksum\n",
    )?;
    let mut chunks = Vec::new();
    for chunk in [1, 8, 32, 128, 512] {
        let run = timed(512, chunk)?;
        say(&format!("   {chunk:>5}  {:>9}   {}\n", text::short(run.steps_per_second), run.checksum))?;
        chunks.push(run);
    }
    let same_bits = chunks.iter().all(|run| run.checksum == chunks[0].checksum);
    say(if same_bits {
        "   The checksums agree: the chunk size changes the speed, never the result.\n\n"
    } else {
        "   The checksums differ, which is a fault.\n\n"
    })?;

    say(
        "3. Controllers, 1 024 environments each\n   environment               policy                        return\n",
    )?;
    let mut controllers = Vec::new();
    for controlled in CONTROLLERS {
        let score = score(controlled, &[], &[], &pool)?;
        say(&score.line())?;
        controllers.push(score);
    }
    say("\n4. Cells, reactors, games and puzzles, 1 024 environments each\n")?;
    let mut worlds = Vec::new();
    for (controlled, settings, constraints) in WORLDS {
        let score = score(controlled, settings, constraints, &pool)?;
        say(&score.line())?;
        if !score.notes.is_empty() {
            say(&format!("   {:<25} {}\n", "", score.notes.join(", ")))?;
        }
        worlds.push(score);
    }
    say("\nGo on with 'phalanx envs', 'phalanx rollout --env CartPole-v1 --num-envs 1M', 'phalanx --help'.\n")?;
    if json {
        print_json(&Report { threads: pool.threads(), million, chunks, same_bits, controllers, worlds })
    } else {
        Ok(())
    }
}

fn timed(
    args: &DemoArgs,
    env: &str,
    (num_envs, steps): (usize, usize),
    chunk: usize,
    pool: &Arc<Pool>,
) -> Result<Run, Failure> {
    let config =
        BatchConfig { num_envs, autoreset: Autoreset::SameStep, pool: Arc::clone(pool), ..BatchConfig::default() };
    let mut batch = registry::find(env)?.batch(&config)?;
    let mut rollout = Rollout::new(Policy::parse("random", &[], batch.spec())?, batch.as_ref());
    let mut monitor = args.monitor.start(num_envs)?;
    let mut progress = Progress::new(env, (steps * num_envs) as u64, args.output.quiet);
    let mut monitored = Ok(());
    monitor.begin();
    let start = Instant::now();
    rollout.run(batch.as_mut(), steps, chunk, |steps| {
        progress.advance((steps * num_envs) as u64);
        monitored = monitor.advance(steps, &progress);
        monitored.is_ok()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    monitored.and_then(|()| monitor.close(&progress))?;
    Ok(Run {
        env: batch.spec().name,
        num_envs,
        steps,
        scan_chunk_size: chunk,
        threads: pool.threads(),
        steps_per_second: (steps * num_envs) as f64 / seconds,
        checksum: format!("{:016x}", rollout.checksum()),
    })
}

impl Score {
    fn line(&self) -> String {
        let Self { env, policy, return_mean, return_std, .. } = self;
        let places = if return_mean.abs() < 10.0 { 2 } else { 1 };
        format!("   {env:<25} {policy:<22} {return_mean:>9.places$} ± {return_std:.places$}\n")
    }
}

fn score(
    &(env, policy, arguments): &Controlled,
    settings: Pairs,
    constraints: &[&str],
    pool: &Arc<Pool>,
) -> Result<Score, Failure> {
    let constraints = constraints.iter().map(|text| Constraint::parse(text)).collect::<Result<_, _>>()?;
    let config = BatchConfig {
        num_envs: 1_024,
        autoreset: Autoreset::SameStep,
        pool: Arc::clone(pool),
        settings: settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        safety: SafetyConfig { constraints, ..SafetyConfig::default() },
        ..BatchConfig::default()
    };
    let mut batch = registry::find(env)?.batch(&config)?;
    let mut rollout = Rollout::new(Policy::parse(policy, arguments, batch.spec())?, batch.as_ref());
    // Twice the limit: long episodes count as well as short ones.
    let steps = 2 * batch.spec().max_steps as usize;
    let start = Instant::now();
    rollout.run(batch.as_mut(), steps, 256, |_| true)?;
    let seconds = start.elapsed().as_secs_f64();
    let returns = rollout.stats().returns().expect("every episode has ended by the limit");
    let field = arguments.iter().find(|(key, _)| *key == "obs_field").map(|(_, field)| format!(" on {field}"));
    let (spec, stats) = (batch.spec(), rollout.stats());
    let mut notes: Vec<String> = settings.iter().map(|(name, value)| format!("with {name}={value}")).collect();
    if let Some(cost) = stats.costs().filter(|_| !spec.constraints.is_empty()) {
        notes.push(format!("{:.1} violations of {} constraints in an episode", cost.mean, spec.constraints.len()));
    }
    for (name, count) in spec.counters.iter().zip(stats.counts()) {
        notes.push(format!("{name}: {} a second", text::short(*count as f64 / seconds)));
    }
    for (name, mean) in spec.scores.iter().zip(stats.scores().into_iter().flatten()) {
        notes.push(format!("{name}: {mean:.4} on average"));
    }
    Ok(Score {
        env: spec.name,
        policy: format!("{policy}{}", field.unwrap_or_default()),
        episodes: rollout.stats().episodes(),
        return_mean: returns.mean,
        return_std: returns.std,
        notes,
    })
}
