//! `phalanx demo performance`: many environments, once, and how fast that was.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use phalanx_core::batch::{Autoreset, BatchConfig};
use phalanx_core::lanes::BLOCK;
use phalanx_core::policy::Policy;
use phalanx_core::pool::Pool;
use phalanx_core::rollout::Rollout;
use phalanx_envs::registry;
use phalanx_lab::case::CaseSpec;
use phalanx_lab::format::{format_bytes, format_number, format_seconds};
use phalanx_lab::memory;
use serde::Serialize;
use serde_json::json;

use crate::args::{OutputArgs, TuneArgs, count};
use crate::commands::{print, print_json};
use crate::device::DeviceArgs;
use crate::failure::Failure;
use crate::monitoring::MonitorArgs;
use crate::progress::Progress;
use crate::{machine, text, workloads};

#[derive(Debug, Args)]
pub(crate) struct PerformanceArgs {
    /// Environment, by name or alias
    #[arg(long, value_name = "E", default_value = "cartpole")]
    env: String,
    /// Number of environments
    #[arg(long, value_name = "N", default_value = "100000", value_parser = count)]
    num_envs: usize,
    /// Steps in each environment
    #[arg(long, value_name = "T", default_value = "100", value_parser = count)]
    num_steps: usize,
    /// Steps a block of environments makes before the next is touched; never changes results [default: 32]
    #[arg(long, value_name = "K", value_parser = count)]
    scan_chunk_size: Option<usize>,
    #[command(flatten)]
    tune: TuneArgs,
    /// Ask nothing, also above 10 million environments
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    monitor: MonitorArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Small, so that progress shows at any size.
const DEFAULT_CHUNK: usize = 32;
/// From here on a slip of the hand is likely, and costs memory and time.
const ASK_ABOVE: usize = 10_000_000;
/// Weeks at full speed; more is a mistake.
const MAX_TOTAL_STEPS: u128 = 1_000_000_000_000_000;

#[derive(Serialize)]
struct Report {
    env: &'static str,
    device: &'static str,
    num_envs: usize,
    num_steps: usize,
    scan_chunk_size: usize,
    threads: usize,
    startup_seconds: f64,
    wall_seconds: f64,
    steps_per_second: f64,
    bytes: f64,
    checksum: String,
}

pub(crate) fn run(args: &PerformanceArgs, process_start: Instant) -> Result<(), Failure> {
    let device = args.device.resolve()?;
    let entry = registry::find(&args.env)?;
    let PerformanceArgs { num_envs, num_steps, .. } = *args;
    let auto_tune = args.tune.is_wanted(args.scan_chunk_size)?;
    let mut monitor = args.monitor.start(num_envs)?;
    let total = num_envs as u128 * num_steps as u128;
    if total > MAX_TOTAL_STEPS {
        return Err(Failure::input(format!(
            "--num-steps is {num_steps}, but {num_envs} environments can make at most {MAX_TOTAL_STEPS} steps together"
        )));
    }
    let mut config = BatchConfig { num_envs: BLOCK, autoreset: Autoreset::SameStep, ..BatchConfig::default() };
    let sample = entry.batch(&config)?;
    let random = Policy::parse("random", &[], sample.spec())?;
    let bytes = (sample.bytes_per_env() + Rollout::new(random, sample.as_ref()).bytes_per_env()) * num_envs as f64;
    if let Some(available) = memory::available_bytes().filter(|available| bytes > *available as f64) {
        return Err(Failure::input(format!(
            "--num-envs is {num_envs}, which needs {} of memory, but {} are available",
            format_bytes(bytes),
            format_bytes(available as f64)
        )));
    }
    if num_envs > ASK_ABOVE && !args.yes && !confirmed(num_envs, bytes)? {
        // One who asks for a document gets one.
        return if args.output.json { print_json(&json!({ "done": false })) } else { print("Nothing was done.\n") };
    }
    let CaseSpec { scan_chunk_size, threads, tile, .. } = {
        let case = CaseSpec {
            threads: machine::cores(),
            scan_chunk_size: args.scan_chunk_size.unwrap_or(DEFAULT_CHUNK),
            ..CaseSpec::rollout(sample.spec().name, num_envs)
        };
        if auto_tune { workloads::tuned(case, None, args.output.quiet)? } else { case }
    };
    let asked = Instant::now();
    let pool = Arc::new(Pool::new(threads));
    (config.num_envs, config.pool) = (num_envs, pool);
    let mut batch = entry.batch(&config)?;
    let mut rollout = Rollout::new(Policy::parse("random", &[], batch.spec())?, batch.as_ref());
    if tile > 0 {
        rollout.set_tile(tile)?;
    }
    batch.advance(&mut rollout, 1)?;
    // The user's own time to answer and that of a search are no part of the start.
    let startup = if num_envs > ASK_ABOVE || auto_tune { asked.elapsed() } else { process_start.elapsed() };
    let mut progress = Progress::new(batch.spec().name, total as u64, args.output.quiet);
    let mut monitored = Ok(());
    monitor.begin();
    let start = Instant::now();
    rollout.run(batch.as_mut(), num_steps, scan_chunk_size, |steps| {
        progress.advance((steps * num_envs) as u64);
        monitored = monitor.advance(steps, &progress);
        monitored.is_ok()
    })?;
    let wall = start.elapsed().as_secs_f64();
    monitored.and_then(|()| monitor.close(&progress))?;
    drop(progress);
    let report = Report {
        env: batch.spec().name,
        device,
        num_envs,
        num_steps,
        scan_chunk_size,
        threads,
        startup_seconds: startup.as_secs_f64(),
        wall_seconds: wall,
        steps_per_second: total as f64 / wall,
        bytes,
        checksum: format!("{:016x}", rollout.checksum()),
    };
    if args.output.json { print_json(&report) } else { print(&report.text()) }
}

impl Report {
    fn text(&self) -> String {
        format!(
            "{} x {}, {} steps each, chunks of {}, {} threads\n  first step after {}\n  {} steps in {}: {} steps/s\n  \
             {} of memory, checksum {}\n",
            self.env,
            text::grouped(self.num_envs as u64),
            text::grouped(self.num_steps as u64),
            self.scan_chunk_size,
            self.threads,
            format_seconds(self.startup_seconds),
            format_number((self.num_envs * self.num_steps) as f64),
            format_seconds(self.wall_seconds),
            format_number(self.steps_per_second),
            format_bytes(self.bytes),
            self.checksum,
        )
    }
}

fn confirmed(num_envs: usize, bytes: f64) -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::input(format!(
            "--num-envs is {num_envs}, above {ASK_ABOVE}: say --yes if that is meant, since nobody can be asked here"
        )));
    }
    let mut stderr = std::io::stderr();
    let question =
        format!("{} environments need {}. Go on? [y/N] ", text::grouped(num_envs as u64), format_bytes(bytes));
    stderr
        .write_all(question.as_bytes())
        .and_then(|()| stderr.flush())
        .map_err(|error| Failure::Write { what: "to standard error".to_owned(), error })?;
    let mut answer = String::new();
    // A terminal that has gone says nothing, which is no.
    let _ = stdin.lock().read_line(&mut answer);
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
