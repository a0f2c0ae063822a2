//! `phalanx rollout`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use phalanx_core::batch::{Autoreset, Batch, BatchConfig};
use phalanx_core::lanes::BLOCK;
use phalanx_core::pool::Pool;
use phalanx_core::rollout::Rollout;
use phalanx_core::safety::SafetyMode;
use phalanx_core::snapshot;
use phalanx_core::stats::MeanStd;
use phalanx_envs::registry::Entry;
use phalanx_lab::case::rule_of_thumb;
use phalanx_lab::memory;
use phalanx_workbench::tuning::VARIABLE;
use serde::Serialize;

use crate::args::RolloutArgs;
use crate::commands::{autotune, print, print_json, print_notes, warn_of_capped_steps};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{files, machine, text};

/// What a roll-out reports.
#[derive(Serialize)]
struct Report {
    env: &'static str,
    num_envs: usize,
    steps: usize,
    policy: String,
    scan_chunk_size: usize,
    threads: usize,
    lanes: usize,
    /// Environments that make the steps of a chunk together, where they go by rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    tile: Option<usize>,
    seed: u64,
    steps_per_second: f64,
    time_to_first_step_seconds: f64,
    wall_seconds: f64,
    total_steps_per_env: u64,
    episodes: u64,
    #[serde(rename = "return")]
    returns: Spread,
    length: Spread,
    /// Episode cost and violations, for environments with constraints.
    #[serde(skip_serializing_if = "Option::is_none")]
    safety: Option<SafetyReport>,
    /// What the environments counted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    counters: BTreeMap<&'static str, Counter>,
    /// Finished episodes that were scored, of an environment with scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    scored_episodes: Option<u64>,
    /// Means of what these scored; null before the first.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    scores: BTreeMap<&'static str, Option<f64>>,
    bytes_per_env: f64,
    peak_rss_bytes: Option<u64>,
    checksum: String,
}

#[derive(Serialize)]
struct SafetyReport {
    mode: SafetyMode,
    cost: Spread,
    /// Steps that violated each constraint.
    violations: BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct Counter {
    total: u64,
    per_second: f64,
}

#[derive(Serialize)]
struct Spread {
    mean: Option<f64>,
    std: Option<f64>,
}

impl From<Option<MeanStd>> for Spread {
    fn from(spread: Option<MeanStd>) -> Self {
        Self { mean: spread.map(|s| s.mean), std: spread.map(|s| s.std) }
    }
}

/// Weeks at full speed; more is a mistake.
const MAX_TOTAL_STEPS: u64 = 1_000_000_000_000_000;

/// The most threads that make sense to ask for.
const MAX_THREADS: usize = 1024;

pub(crate) fn run(args: &RolloutArgs, process_start: Instant) -> Result<(), Failure> {
    let entry = args.env.entry()?;
    if let Some(threads) = args.threads.filter(|threads| *threads > MAX_THREADS) {
        return Err(Failure::input(format!("--threads is {threads}, but must be from 1 to {MAX_THREADS}")));
    }
    let auto_tune = args.tune.is_wanted(args.scan_chunk_size)?;
    if let Some(tile) = args.tile.filter(|_| auto_tune) {
        return Err(Failure::input(format!(
            "--tile is {tile}, but --auto-tune or {VARIABLE} asks to tune it: leave out one of them"
        )));
    }
    let total_steps = (args.steps as u64).saturating_mul(args.num_envs as u64);
    if total_steps > MAX_TOTAL_STEPS {
        let (steps, envs) = (args.steps, args.num_envs);
        return Err(Failure::input(format!(
            "--steps is {steps}, but {envs} environments can make at most {MAX_TOTAL_STEPS} steps together"
        )));
    }
    let save_to = args.save_state.as_deref().map(|path| files::check_target(path, files::Kind::State)).transpose()?;
    let mut config = BatchConfig {
        num_envs: args.num_envs,
        autoreset: Autoreset::SameStep,
        lanes: args.lanes.into(),
        ..args.env.config()
    };
    check_memory(entry, &config, args)?;
    let mut monitor = args.monitor.start(args.num_envs)?;
    let tuning = Instant::now();
    let (chunk, threads, tile) = if auto_tune {
        let tuned = autotune::for_rollout(&args.env, &args.policy, args.num_envs, args.threads, args.output.quiet)?;
        (tuned.scan_chunk_size, tuned.threads, tuned.tile)
    } else {
        let chunk = args.scan_chunk_size.unwrap_or_else(|| rule_of_thumb(args.num_envs));
        (chunk, args.threads.unwrap_or_else(machine::cores), args.tile)
    };
    let tuning = tuning.elapsed();
    let pool = Pool::try_new(threads);
    config.pool = Arc::new(pool.map_err(|error| Failure::input(format!("cannot start {threads} threads: {error}")))?);

    let mut batch = entry.batch(&config)?;
    print_notes(batch.spec());
    let mut rollout = Rollout::new(args.policy.parse(batch.spec())?, batch.as_ref());
    if let Some(tile) = tile {
        rollout.set_tile(tile)?;
        if !batch.goes_by_rows(rollout.policy()) {
            say!("note: --tile changes nothing here, since {} makes its steps in registers", batch.spec().name);
        }
    }
    if let Some(path) = &args.load_state {
        load_state(path, args, batch.as_mut(), &mut rollout)?;
    }

    let counted_before = *rollout.stats().counts();
    let start = Instant::now();
    let mut progress = Progress::new(batch.spec().name, total_steps, args.output.quiet);
    monitor.begin();
    batch.advance(&mut rollout, 1)?;
    // Searching for the fastest chunk is no part of starting up: it is done once, and says itself how long it took.
    let time_to_first_step = process_start.elapsed() - tuning;
    progress.advance(args.num_envs as u64);
    let mut monitored = monitor.advance(1, &progress);
    rollout.run(batch.as_mut(), args.steps - 1, chunk, |steps| {
        progress.advance((steps * args.num_envs) as u64);
        monitored = monitor.advance(steps, &progress);
        monitored.is_ok()
    })?;
    let wall = start.elapsed();
    monitored.and_then(|()| monitor.close(&progress))?;
    drop(progress);
    warn_of_broken_states(batch.as_ref())?;

    if let Some(path) = &save_to {
        save_state(path, args, batch.as_ref(), &rollout)?;
    }
    let stats = rollout.stats();
    let by_rows = batch.goes_by_rows(rollout.policy());
    let spec = batch.spec();
    let names = spec.constraints.iter().map(|constraint| constraint.name.to_string());
    let safety = (!spec.constraints.is_empty()).then(|| SafetyReport {
        mode: args.env.safety,
        cost: stats.costs().into(),
        violations: names.zip(*stats.violations()).collect(),
    });
    let counts = stats
        .counts()
        .iter()
        .zip(counted_before)
        .map(|(&total, before)| Counter { total, per_second: (total - before) as f64 / wall.as_secs_f64() });
    let counters = spec.counters.iter().copied().zip(counts).collect();
    let means = (0..).map(|i: usize| stats.scores().map(|means| means[i]));
    let scores = spec.scores.iter().copied().zip(means).collect();
    let report = Report {
        env: batch.spec().name,
        num_envs: args.num_envs,
        steps: args.steps,
        policy: args.policy.policy.clone(),
        scan_chunk_size: chunk,
        threads,
        lanes: batch.lanes(),
        tile: by_rows.then(|| rollout.tile()),
        seed: args.env.seed,
        steps_per_second: total_steps as f64 / wall.as_secs_f64(),
        time_to_first_step_seconds: time_to_first_step.as_secs_f64(),
        wall_seconds: wall.as_secs_f64(),
        total_steps_per_env: rollout.steps(),
        episodes: stats.episodes(),
        returns: stats.returns().into(),
        length: stats.lengths().into(),
        safety,
        counters,
        scored_episodes: (!spec.scores.is_empty()).then(|| stats.scored()),
        scores,
        bytes_per_env: batch.bytes_per_env() + rollout.bytes_per_env(),
        peak_rss_bytes: memory::peak_rss_bytes(),
        checksum: format!("{:016x}", rollout.checksum()),
    };
    warn_of_capped_steps(report.counters.get("capped_steps").map_or(0, |counter| counter.total));
    if args.output.json { print_json(&report) } else { print(&table(&report)) }
}

/// Refuses what would not fit into memory, before anything large is allocated.
fn check_memory(entry: &Entry, config: &BatchConfig, args: &RolloutArgs) -> Result<(), Failure> {
    // A whole block shows what an environment takes; building it checks the parameters and the policy.
    let sample = entry.batch(&BatchConfig { num_envs: BLOCK, ..config.clone() })?;
    let policy = args.policy.parse(sample.spec())?;
    let Some(available) = memory::available_bytes() else { return Ok(()) };
    let per_env = sample.bytes_per_env() + Rollout::new(policy, sample.as_ref()).bytes_per_env();
    let needed = per_env * config.num_envs as f64;
    if needed <= available as f64 {
        return Ok(());
    }
    Err(Failure::input(format!(
        "--num-envs is {}, which needs {} of memory, but {} are available: at most {} environments fit",
        config.num_envs,
        text::bytes(needed),
        text::bytes(available as f64),
        text::grouped((available as f64 / per_env) as u64),
    )))
}

/// The file's own part of a saved state: what a run that goes on must have in common with it.
#[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
struct StateHeader {
    seed: u64,
    settings: String,
    batch_bytes: usize,
}

pub(crate) const STATE_KIND: &str = "rollout state";

fn save_state(path: &Path, args: &RolloutArgs, batch: &dyn Batch, rollout: &Rollout) -> Result<(), Failure> {
    let (batch, rollout) = (batch.snapshot(), rollout.snapshot());
    let header = StateHeader { seed: args.env.seed, settings: settings_text(args), batch_bytes: batch.len() };
    Ok(files::write_atomically(path, &snapshot::encode(STATE_KIND, &header, &[&batch, &rollout]))?)
}

fn load_state(path: &Path, args: &RolloutArgs, batch: &mut dyn Batch, rollout: &mut Rollout) -> Result<(), Failure> {
    let bytes = files::read_regular(path)?;
    let mut load = || -> phalanx_core::Result<()> {
        let (header, payload): (StateHeader, _) = snapshot::decode(STATE_KIND, &bytes)?;
        snapshot::check_equal("seed", &header.seed, &args.env.seed)?;
        let (batch_bytes, rollout_bytes) = payload.split_at(header.batch_bytes.min(payload.len()));
        batch.restore(batch_bytes)?;
        snapshot::check_equal("parameters", &header.settings, &settings_text(args))?;
        rollout.restore(rollout_bytes)
    };
    load().map_err(|error| Failure::File { path: path.display().to_string(), error })
}

/// The parameters as the user gave them.
fn settings_text(args: &RolloutArgs) -> String {
    let settings: Vec<_> = args.env.config().settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("'{}'", settings.join(" "))
}

fn table(report: &Report) -> String {
    let spread = |spread: &Spread| match (spread.mean, spread.std) {
        (Some(mean), Some(std)) => format!("{mean:.2} ± {std:.2}"),
        _ => "no episode has ended yet".to_owned(),
    };
    let mut rows = vec![
        ("environment", format!("{} x {}", text::grouped(report.num_envs as u64), report.env)),
        ("policy", report.policy.clone()),
        (
            "steps",
            format!("{} in each environment, {} at a time", text::grouped(report.steps as u64), report.scan_chunk_size),
        ),
        match report.tile {
            Some(tile) => ("threads, tile", format!("{}, {tile}", report.threads)),
            None => ("threads, lanes", format!("{}, {}", report.threads, report.lanes)),
        },
        ("speed", format!("{} steps/s", text::short(report.steps_per_second))),
        ("first step after", format!("{:.1} ms", report.time_to_first_step_seconds * 1e3)),
        ("episodes", text::grouped(report.episodes)),
        ("return", spread(&report.returns)),
        ("length", spread(&report.length)),
    ];
    if let Some(safety) = &report.safety {
        rows.push(("cost", format!("{} ({})", spread(&safety.cost), safety.mode)));
        let violated = safety.violations.iter().map(|(name, steps)| format!("{name} {}", text::grouped(*steps)));
        rows.push(("violating steps", violated.collect::<Vec<_>>().join(", ")));
    }
    for (name, counter) in &report.counters {
        rows.push((name, format!("{} ({} per second)", text::grouped(counter.total), text::short(counter.per_second))));
    }
    let scored = text::grouped(report.scored_episodes.unwrap_or_default());
    for (name, mean) in &report.scores {
        let mean = mean.map(|mean| format!("{mean:.4} (mean of {scored} scored episodes)"));
        rows.push((name, mean.unwrap_or_else(|| "no episode was scored".to_owned())));
    }
    rows.extend([
        (
            "memory",
            format!(
                "{:.1} bytes per environment{}",
                report.bytes_per_env,
                report.peak_rss_bytes.map(|peak| format!(", {} peak", text::bytes(peak as f64))).unwrap_or_default()
            ),
        ),
        ("checksum", report.checksum.clone()),
    ]);
    rows.iter().map(|(name, value)| format!("{name:<16} {value}\n")).collect()
}

/// Tells of environments whose numbers have run over, as parameters beyond reason can bring about. A look at a part of
/// them: it must not take longer than the run.
fn warn_of_broken_states(batch: &dyn Batch) -> Result<(), Failure> {
    let looked_at = batch.num_envs().min(1_000);
    let mut broken = 0;
    for env in 0..looked_at {
        broken += u32::from(batch.state(env)?.iter().any(|value| !value.is_finite()));
    }
    if broken > 0 {
        say!(
            "warning: {broken} of the first {looked_at} environments have a state that is not a finite number; their \
             parameters are too extreme for the time step"
        );
    }
    Ok(())
}
