//! `phalanx bench ab`: two builds against each other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use phalanx_lab::campaign::{self, PairRun, Plan, Side};
use phalanx_lab::case::CaseSpec;
use phalanx_lab::record::new_run_id;
use phalanx_lab::stats::interval::{CONFIDENCE, minimum_detectable_effect};
use phalanx_lab::stats::paired::Comparison;
use phalanx_lab::stats::verdict::{Finding, Tier, judge};
use serde::Serialize;

use crate::args::OutputArgs;
use crate::commands::{print, print_json};
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct AbArgs {
    /// The build to compare with
    a: PathBuf,
    /// The build to judge
    b: PathBuf,
    /// What to measure; may be given several times
    #[arg(long = "case", value_name = "CASE", default_value = "CartPole-v1/fused_random_rollout/n4096/t1")]
    cases: Vec<String>,
    /// Pairs of processes
    #[arg(long, value_name = "P", default_value = "10", value_parser = clap::value_parser!(u16).range(2..=1000))]
    pairs: u16,
    /// Samples of each process
    #[arg(long, value_name = "N", default_value = "24", value_parser = clap::value_parser!(u16).range(2..=10_000))]
    samples: u16,
    /// Least time of a sample, in milliseconds
    #[arg(long, value_name = "MS", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    sample_ms: u32,
    /// Differences below this are none, in per cent
    #[arg(long, value_name = "PCT", default_value = "1")]
    margin: f64,
    /// An inconclusive answer fails too
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Report {
    case: String,
    comparison: Option<Comparison>,
    minimum_detectable_effect: Option<f64>,
    finding: Finding,
    exit_code: u8,
}

pub(crate) fn run(args: &AbArgs) -> Result<(), Failure> {
    let cases = args.cases.iter().map(|case| CaseSpec::parse(case)).collect::<Result<Vec<_>, _>>();
    let cases = cases.map_err(|error| Failure::input(error.to_string()))?;
    let copies = Copies::new(&args.a, &args.b)?;
    let mut reports = Vec::new();
    for case in &cases {
        let plan = Plan {
            processes: usize::from(args.pairs),
            samples: usize::from(args.samples),
            sample: Duration::from_millis(args.sample_ms.into()),
            ..Plan::default()
        };
        let side = |binary| Side { binary, case };
        let mut done = 0;
        let progress = |_: &PairRun| {
            done += 1;
            if !args.output.quiet {
                eprintln!("{}: pair {done} of {}", case.id(), plan.processes);
            }
        };
        let pairs = campaign::compare(side(&copies.a), side(&copies.b), &plan, true, progress)?;
        reports.push(judge_pairs(case, &pairs, args));
    }
    if args.output.json {
        print_json(&reports)?;
    } else {
        print(&reports.iter().map(|report| format!("{}\n  {}\n", report.case, report.finding)).collect::<String>())?;
    }
    match reports.iter().map(|report| report.exit_code).max() {
        Some(0) | None => Ok(()),
        Some(code) => Err(Failure::Verdict(code)),
    }
}

fn judge_pairs(case: &CaseSpec, pairs: &[PairRun], args: &AbArgs) -> Report {
    let comparison = campaign::compared(pairs, CONFIDENCE, seed_of(&new_run_id()));
    let theta = (1.0 + args.margin / 100.0).ln();
    let (verdict, reason) = match &comparison {
        Some(comparison) => (judge(comparison.deciding, theta), format!("margin {} %", args.margin)),
        None => (phalanx_lab::stats::verdict::Verdict::Noisy, "too few samples".to_owned()),
    };
    Report {
        case: case.id(),
        minimum_detectable_effect: comparison.and_then(|c| minimum_detectable_effect(c.sd, c.pairs)),
        finding: Finding {
            verdict,
            tier: Tier::Paired,
            ratio: comparison.map(|c| c.speed_up()),
            interval: comparison.map(|c| c.speed_up_interval()),
            reason,
        },
        comparison,
        exit_code: verdict.exit_code(args.strict),
    }
}

/// A seed for resampling that the run id decides, so that a report can be made again.
fn seed_of(run_id: &str) -> u64 {
    run_id.bytes().fold(0, |seed, byte| phalanx_lab::stats::checksum::mix(seed ^ u64::from(byte)))
}

/// Both binaries under paths of one length, which no build can change meanwhile.
struct Copies {
    _folder: tempfile::TempDir,
    a: PathBuf,
    b: PathBuf,
}

impl Copies {
    fn new(a: &Path, b: &Path) -> Result<Self, Failure> {
        let folder =
            tempfile::tempdir().map_err(|error| Failure::Write { what: "a temporary folder".to_owned(), error })?;
        let copy = |from: &Path, name: &str| {
            let to = folder.path().join(name);
            std::fs::copy(from, &to)
                .map(|_| to)
                .map_err(|error| Failure::input(format!("cannot read the binary {}: {error}", from.display())))
        };
        let (a, b) = (copy(a, "phalanx-a")?, copy(b, "phalanx-b")?);
        Ok(Self { _folder: folder, a, b })
    }
}
