//! `phalanx bench ab`: two builds against each other.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use phalanx_lab::format::format_number;
use phalanx_lab::guards::{self, BUILDS, Readings};
use phalanx_lab::history::AB;
use phalanx_lab::judgement::Judgement;
use phalanx_lab::record::{Record, Summary};
use phalanx_lab::session::Session;
use phalanx_lab::stats::verdict::Verdict;
use phalanx_lab::worker::{self, Description};
use serde::Serialize;
use serde_json::json;

use super::options::RecordsArgs;
use super::paired::{Copies, Looks, Margin, PairedMeasurement, PlanArgs, cases, percentage};
use crate::args::whole;
use crate::commands::{self, print, print_json};
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
    #[command(flatten)]
    plan: PlanArgs,
    /// The most looks: as many pairs again are measured while the answer is open
    #[arg(long, value_name = "L", default_value = "2", value_parser = whole::<u8>(1..=10))]
    looks: u8,
    /// Differences below this are none, in per cent [default: 1, or what identical code shows (bench doctor)]
    #[arg(long, value_name = "PCT", value_parser = percentage, allow_negative_numbers = true)]
    margin: Option<f64>,
    /// An inconclusive answer fails too
    #[arg(long)]
    strict: bool,
    /// Compare builds that compute other results on purpose, as after a change of rounding or of random draws:
    /// checksums may differ
    #[arg(long)]
    other_results: bool,
    #[command(flatten)]
    common: RecordsArgs,
}

#[derive(Serialize)]
struct Document {
    run_id: String,
    records: Option<PathBuf>,
    a: Binary,
    b: Binary,
    /// Whether both had to compute the same; not with `--other-results`.
    same_work: bool,
    guards: Readings,
    cases: Vec<CaseReport>,
    verdict: String,
    exit_code: u8,
}

#[derive(Serialize)]
struct Binary {
    path: PathBuf,
    #[serde(flatten)]
    description: Description,
}

#[derive(Serialize)]
struct CaseReport {
    case: String,
    pairs: usize,
    a: Summary,
    b: Summary,
    margin_percent: f64,
    margin_origin: String,
    #[serde(flatten)]
    judgement: Judgement,
    exit_code: u8,
}

pub(crate) fn run(args: &AbArgs) -> Result<(), Failure> {
    let cases = cases(&args.cases)?;
    args.plan.check_room(&cases)?;
    let [a, b] = [&args.a, &args.b].map(|path| {
        worker::describe(path)
            .map(|description| Binary { path: path.clone(), description })
            .map_err(|error| Failure::input(error.to_string()))
    });
    let (a, b) = (a?, b?);
    let mut monitor = args.common.monitor.start()?;
    let copies = Copies::new(&args.a, &args.b)?;
    let threads = cases.iter().map(|case| case.threads).max().unwrap_or(1);
    let mut about = args.common.about.about();
    // Which builds these were, for whoever reads the records later.
    about.extra.insert("sides".to_owned(), json!({ "a": &a, "b": &b }));
    let mut session = Session::start(AB, threads, about, Some(&args.common.results_dir))?;
    let builds = guards::build_mismatch(&a.description.build, &b.description.build);
    session.note(BUILDS, builds);
    let same_work = !args.other_results;
    let looks = Looks { plan: args.plan.plan(), looks: args.looks.into(), cases: cases.len(), same_work };
    let mut reports = Vec::new();
    for case in &cases {
        let margin = Margin::of(args.margin, &session.run.machine, case, &looks.plan);
        let total = looks.plan.processes * looks.looks;
        let watch = monitor.watch(case.id(), "pairs", total, args.common.output.quiet);
        let mut measurement = PairedMeasurement { copies: &copies, session: &mut session, watch, suite: AB };
        let (pairs, judgement) = looks.take(&mut measurement, case, &margin, Judgement::is_open)?;
        drop(measurement);
        let [of_a, of_b] = session.record_pairs_complete((case, case), &pairs)?;
        let exit_code = judgement.finding.verdict.exit_code(args.strict);
        let mut verdict = judgement.record(&session.run.run_id, &case.id(), exit_code);
        verdict.extra.insert("same_work".to_owned(), same_work.into());
        session.record(&Record::Verdict(verdict))?;
        reports.push(CaseReport {
            case: case.id(),
            pairs: pairs.len(),
            a: of_a,
            b: of_b,
            margin_percent: margin.percent,
            margin_origin: margin.origin,
            judgement,
            exit_code,
        });
    }
    session.finish();
    monitor.close()?;
    let guards = session.guards();
    let worst = reports.iter().max_by_key(|report| weight(report.judgement.finding.verdict)).expect("at least a case");
    let exit_code = worst.exit_code;
    let mut last = worst.judgement.finding.clone();
    if reports.len() > 1 {
        last.reason = format!("{}: {}", worst.case, last.reason);
    }
    let printed = if args.common.output.json {
        let records = session.path();
        let run_id = session.run.run_id.clone();
        let verdict = last.to_string();
        print_json(&Document { run_id, records, a, b, same_work, guards, verdict, exit_code, cases: reports })
    } else {
        let other = if same_work { "" } else { "other results: checksums were not compared (--other-results)\n" };
        let records = session.path().map(|path| format!("records: {}\n", path.display())).unwrap_or_default();
        // With rates that drift, the two columns may well disagree with what the pairs say.
        let rates = "steps/s: medians of each side by itself, by the clock; \
                     speed-up: of the pairs, by CPU time if on one thread\n";
        print(&format!("{}{rates}{other}{records}{last}\n", table(&reports)))
    };
    commands::concluded(printed, exit_code)
}

/// What decides where several cases end differently: a regression must not hide behind a noisy case.
fn weight(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Equivalent => 0,
        Verdict::Improved => 1,
        Verdict::InsufficientHistory => 2,
        Verdict::Inconclusive => 3,
        Verdict::Noisy => 4,
        Verdict::Regressed => 5,
        Verdict::Incomparable => 6,
        Verdict::ChecksumMismatch => 7,
    }
}

fn table(reports: &[CaseReport]) -> String {
    let width = reports.iter().map(|report| report.case.len()).max().unwrap_or(0).max(4);
    let mut text = format!(
        "{:width$}  {:>9}  {:>9}  {:>8}  {:>17}  {:>10}  {:>5}  {}\n",
        "case", "A steps/s", "B steps/s", "speed-up", "interval", "detectable", "pairs", "verdict"
    );
    for report in reports {
        let Judgement { finding, minimum_detectable_effect, pairs_needed, .. } = &report.judgement;
        let rate = |summary: &Summary| format_number(1e9 / summary.t_median);
        let ratio = finding.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.4}"));
        let interval = finding.interval.map_or("-".to_owned(), |i| format!("[{:.4}, {:.4}]", i.low, i.high));
        let detectable =
            minimum_detectable_effect.map_or("-".to_owned(), |log| format!("{:.2} %", 100.0 * log.exp_m1()));
        let needed = pairs_needed.map_or(String::new(), |pairs| format!(" (about {pairs} pairs would tell)"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:width$}  {:>9}  {:>9}  {ratio:>8}  {interval:>17}  {detectable:>10}  {:>5}  {}{needed}",
            report.case,
            rate(&report.a),
            rate(&report.b),
            report.pairs,
            finding.verdict.name(),
        );
    }
    text
}
