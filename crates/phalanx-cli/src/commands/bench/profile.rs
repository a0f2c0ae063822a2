//! `phalanx bench profile`: where the CPU time of a case goes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use phalanx_lab::files::{check_folder, write_new};
use phalanx_lab::format::format_seconds;
use phalanx_lab::profile::{FREQUENCY, Hot, Profile, profile};
use phalanx_lab::timestamp::Timestamp;
use phalanx_lab::workload::calibrate;
use serde::Serialize;

use super::options::named_case;
use crate::args::{OutputArgs, whole};
use crate::commands::{print, print_json};
use crate::failure::Failure;
use crate::monitoring::MonitorArgs;
use crate::progress::Progress;
use crate::{files, workloads};

#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// What to profile, such as CartPole-v1/fused_random_rollout/n4096/t1
    case: String,
    /// How long to run it
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    seconds: f64,
    /// Samples for each second of CPU time
    #[arg(long, value_name = "HZ", default_value_t = FREQUENCY, value_parser = whole::<u32>(1..=10_000))]
    frequency: u32,
    /// Functions to list
    #[arg(long, value_name = "N", default_value = "20", value_parser = crate::args::count)]
    top: usize,
    /// The flame graph, an SVG [default: profile_<environment>_<time>.svg in the results folder]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Folder for results
    #[arg(long, value_name = "DIR", default_value = super::options::RESULTS_DIR)]
    results_dir: PathBuf,
    #[command(flatten)]
    monitor: MonitorArgs,
    #[command(flatten)]
    print: OutputArgs,
}

#[derive(Serialize)]
struct Report {
    case: String,
    #[serde(flatten)]
    profile: Profile,
    top: Vec<Hot>,
    flame_graph: String,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds from 0.01 to 3600 is needed".to_owned())
}

pub(crate) fn run(args: &ProfileArgs) -> Result<(), Failure> {
    let case = named_case(&args.case)?;
    let target = args.output.as_deref().map(|path| files::check_target(path, files::Kind::Svg)).transpose()?;
    if target.is_none() {
        check_folder(&args.results_dir)?;
    }
    let mut monitor = args.monitor.start(case.num_envs)?;
    let mut workload = workloads::of(&case)?;
    // Short pieces, so that the end is not missed by much; finding their size warms up.
    let piece = Duration::from_millis(20);
    let iterations = calibrate(workload.as_mut(), piece.as_nanos() as u64)?;
    if !args.print.quiet {
        say!("{}: profiling for {}", case.id(), format_seconds(args.seconds));
    }
    let limit = Duration::from_secs_f64(args.seconds);
    // Lines only: drawing a bar would stand in the profile.
    let progress = Progress::new(case.id(), 0, true);
    let mut monitored = Ok(());
    monitor.begin();
    let taken = profile(args.frequency, || {
        let start = Instant::now();
        while start.elapsed() < limit && monitored.is_ok() {
            monitored = workload
                .run(iterations)
                .map_err(Failure::from)
                .and_then(|work| monitor.advance(work.steps as usize / case.num_envs, &progress));
        }
    })?;
    monitored.and_then(|()| monitor.close(&progress))?;
    let svg = taken.flame_graph(&case.id())?;
    let path = match target {
        Some(path) => files::write_atomically(&path, &svg).map(|()| path)?,
        None => {
            let env = case.env.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
            write_new(&args.results_dir, &format!("profile_{env}_{}", Timestamp::now().compact()), "svg", &svg)?
        }
    };
    let report =
        Report { case: case.id(), top: taken.top(args.top), profile: taken, flame_graph: path.display().to_string() };
    if args.print.json { print_json(&report) } else { print(&table(&report)) }
}

fn table(report: &Report) -> String {
    let Report { case, profile, top, flame_graph } = report;
    let mut out = format!(
        "{case}\n{} samples of {} CPU time in {}\n\n{:>9}  {:>6}  {:>7}  {:>7}  function\n",
        profile.samples,
        format_seconds(profile.cpu_seconds),
        format_seconds(profile.wall_seconds),
        "time",
        "share",
        "samples",
        "total",
    );
    for hot in top {
        let Hot { symbol, samples, seconds, share, total_share } = hot;
        let (share, total) = (100.0 * share, 100.0 * total_share);
        out += &format!("{:>9}  {share:>5.1}%  {samples:>7}  {total:>6.1}%  {symbol}\n", format_seconds(*seconds));
    }
    if profile.dropped > 0 {
        out += &format!("{} samples were left out for want of room: take a shorter profile\n", profile.dropped);
    }
    out + &format!("\nLibrary code is counted for the function that uses it.\nflame graph: {flame_graph}\n")
}
