//! `phalanx bench doctor`: this binary against itself, to know what differences mean nothing on this machine.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use phalanx_lab::calibrations::StoredCalibration;
use phalanx_lab::campaign::{PairRun, Plan};
use phalanx_lab::files::{cache_folder, check_folder};
use phalanx_lab::guards::{Readings, Status};
use phalanx_lab::session::Session;
use phalanx_lab::stats::descriptive::median;
use phalanx_lab::stats::variance::TwoLevel;
use serde::Serialize;

use super::options::{RecordsArgs, own_binary};
use super::paired::{Copies, PairedMeasurement, PlanArgs, cases, seed_of};
use crate::args::whole;
use crate::commands::{print, print_json};
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// What to calibrate; may be given several times
    #[arg(long = "case", value_name = "CASE", default_value = "CartPole-v1/fused_random_rollout/n4096/t1")]
    cases: Vec<String>,
    #[command(flatten)]
    plan: PlanArgs,
    /// Comparisons of the binary with itself, drawn from the measured pairs
    #[arg(long, value_name = "K", default_value = "200", value_parser = whole::<u32>(20..=100_000))]
    comparisons: u32,
    /// Pairs that are measured [default: three times as many as a comparison has]
    #[arg(long, value_name = "M", value_parser = whole::<u16>(4..=10_000))]
    measured_pairs: Option<u16>,
    #[command(flatten)]
    common: RecordsArgs,
}

#[derive(Serialize)]
struct Document {
    run_id: String,
    records: Option<PathBuf>,
    guards: Readings,
    calibrations: Vec<Stored>,
}

#[derive(Serialize)]
struct Stored {
    file: PathBuf,
    /// Samples of a process beyond which more processes would tell more for the same time.
    best_samples: Option<f64>,
    #[serde(flatten)]
    calibration: StoredCalibration,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let cases = cases(&args.cases)?;
    args.plan.check_room(&cases)?;
    let plan = args.plan.plan();
    let measured_pairs = args.measured_pairs.map_or(3 * plan.processes, usize::from);
    if measured_pairs <= plan.processes {
        return Err(Failure::input(format!(
            "--measured-pairs is {measured_pairs}, but comparisons of {} pairs can only be drawn from more",
            plan.processes
        )));
    }
    let folder = cache_folder()
        .ok_or_else(|| Failure::input("there is no home folder to keep calibrations in; set PHALANX_CACHE_DIR"))?;
    check_folder(&folder)?;
    let mut monitor = args.common.monitor.start()?;
    let own = own_binary()?;
    let copies = Copies::new(&own, &own)?;
    let threads = cases.iter().map(|case| case.threads).max().unwrap_or(1);
    let mut session = Session::start("doctor", threads, args.common.about.about(), Some(&args.common.results_dir))?;
    let machine = (session.run.machine.fingerprint.clone(), session.run.machine.name.clone());
    let seed = seed_of(&session.run.run_id);
    let mut stored = Vec::new();
    for case in &cases {
        let watch = monitor.watch(case.id(), "pairs", measured_pairs, args.common.output.quiet);
        let mut measurement = PairedMeasurement { copies: &copies, session: &mut session, watch, suite: "doctor" };
        let all = Plan { processes: measured_pairs, seed, ..plan };
        let pairs = measurement.compare((case, case), &all, true, Vec::new())?;
        drop(measurement);
        session.record_pairs_complete((case, case), &pairs)?;
        let comparisons = args.comparisons as usize;
        let calibration = StoredCalibration::of((&machine.0, &machine.1), case, &plan, &pairs, comparisons, seed)
            .ok_or_else(|| Failure::input(format!("{}: too few samples to calibrate with", case.id())))?;
        stored.push(Stored { file: calibration.save(&folder)?, best_samples: best_samples(&pairs), calibration });
    }
    session.finish();
    monitor.close()?;
    let guards = session.guards();
    if args.common.output.json {
        let (run_id, records) = (session.run.run_id.clone(), session.path());
        return print_json(&Document { run_id, records, guards, calibrations: stored });
    }
    print(&text(&machine.1, &guards, &stored))
}

/// By how much processes of side A differ, and samples of one, and by what a start costs.
fn best_samples(pairs: &[PairRun]) -> Option<f64> {
    let logs = |pair: &PairRun| pair.a.times().into_iter().map(f64::ln).collect::<Vec<_>>();
    let levels = TwoLevel::of(&pairs.iter().map(logs).collect::<Vec<_>>())?;
    let starts: Vec<f64> = pairs.iter().map(|pair| pair.a.ready.startup_ns as f64).collect();
    let samples: Vec<f64> = pairs.iter().flat_map(|pair| &pair.a.timings).map(|timing| timing.wall_ns as f64).collect();
    levels.best_samples(median(&starts) / median(&samples)).filter(|count| count.is_finite())
}

fn text(machine: &str, guards: &Readings, stored: &[Stored]) -> String {
    let mut text = format!("{machine}\n");
    // Writing to a string cannot fail.
    for (name, reading) in guards.0.iter().filter(|(_, reading)| reading.status > Status::Ok) {
        let value = reading.value.as_f64().map_or_else(|| reading.value.to_string(), |value| format!("{value:.2}"));
        let _ = match reading.status {
            Status::Unknown => writeln!(text, "  {name} is unknown"),
            Status::Warn => writeln!(text, "  {name} warns: {value}"),
            _ => writeln!(text, "  {name} refuses: {value}"),
        };
    }
    for Stored { file, best_samples, calibration: stored } in stored {
        let found = &stored.calibration;
        let percent = |log: f64| 100.0 * log.exp_m1();
        let _ = write!(
            text,
            "{}\n  false alarms  {} of {} comparisons ({:.1} % to {:.1} %), drawn from {} pairs{}\n  \
             margin        {:.2} % (95 % of identical comparisons stay below)\n  \
             detectable    {:.2} % with {} pairs of spread {:.2} %\n  stored        {}\n",
            stored.case_id,
            found.false_alarms,
            found.comparisons,
            100.0 * found.false_alarm_rate.low,
            100.0 * found.false_alarm_rate.high,
            stored.measured_pairs,
            if found.miscalibrated { ": too many, verdicts will be noisy" } else { "" },
            percent(found.threshold),
            percent(stored.minimum_detectable_effect),
            stored.pairs,
            100.0 * stored.sd,
            file.display()
        );
        if let Some(best) = best_samples {
            let best = best.round().max(1.0);
            let _ = writeln!(text, "  samples       beyond {best:.0} of each process, more processes tell more");
        }
    }
    text
}
