//! `phalanx bench safety`: what watching constraints costs.

use std::path::PathBuf;

use clap::Args;
use phalanx_core::Error;
use phalanx_envs::registry;
use phalanx_lab::case::CaseSpec;
use phalanx_lab::guards::Readings;
use phalanx_lab::history::OVERHEADS;
use phalanx_lab::session::Session;
use phalanx_lab::stats::verdict::Verdict;
use serde::Serialize;

use super::items::{ACCEPTABLE_OVERHEAD, Runner, industrial};
use super::options::{RecordsArgs, own_binary, print_noise, refusing};
use super::paired::PlanArgs;
use crate::args::count;
use crate::commands::{print, print_json};
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct SafetyArgs {
    /// Environment with constraints; may be given several times [default: all that have some]
    #[arg(long, value_name = "E")]
    env: Vec<String>,
    /// Number of environments; may be given several times
    #[arg(long, value_name = "N", default_values = ["1", "1000"], value_parser = count)]
    num_envs: Vec<usize>,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    common: RecordsArgs,
}

#[derive(Serialize)]
struct Document {
    run_id: String,
    records: Option<PathBuf>,
    results: Vec<Row>,
    guards: Readings,
}

#[derive(Serialize)]
struct Row {
    environment: String,
    num_envs: usize,
    safety_validation_overhead_percent: f64,
    interval_percent: [f64; 2],
    /// Whether the whole interval is below what may be spent; never where guards refuse.
    acceptable: bool,
    verdict: String,
    pairs: usize,
    checksum: Option<String>,
}

pub(crate) fn run(args: &SafetyArgs) -> Result<(), Failure> {
    let mut envs = Vec::new();
    for name in &args.env {
        let spec = registry::find(name)?.spec();
        if spec.constraints.is_empty() {
            return Err(Error::unknown("environment with constraints", name, None, industrial()).into());
        }
        envs.push(spec.name);
    }
    if envs.is_empty() {
        envs = industrial();
    }
    let sizes = envs.iter().flat_map(|env| args.num_envs.iter().map(|num_envs| CaseSpec::rollout(env, *num_envs)));
    let cases: Vec<CaseSpec> = sizes.collect();
    args.plan.check_room(&cases)?;
    let mut monitor = args.common.monitor.start()?;
    let own = own_binary()?;
    let mut session = Session::start("safety", 1, args.common.about.about(), Some(&args.common.results_dir))?;
    let quiet = args.common.output.quiet;
    let mut runner = Runner::of_this_binary(&mut session, &own, args.plan.plan(), &mut monitor, quiet, OVERHEADS);
    let mut results = Vec::new();
    for case in cases {
        let overhead = runner.overhead(&case)?;
        results.push(Row {
            environment: case.env,
            num_envs: case.num_envs,
            safety_validation_overhead_percent: overhead.percent,
            interval_percent: [overhead.interval.low, overhead.interval.high],
            acceptable: overhead.acceptable(),
            verdict: verdict(overhead.interval.low, overhead.interval.high),
            pairs: overhead.pairs,
            checksum: overhead.checksum,
        });
    }
    session.finish();
    monitor.close()?;
    let guards = session.guards();
    print_noise(&guards);
    if let Some(refusing) = refusing(&guards) {
        for row in &mut results {
            (row.acceptable, row.verdict) = (false, format!("{}: {refusing} refused", Verdict::Noisy.name()));
        }
    }
    if args.common.output.json {
        let (run_id, records) = (session.run.run_id.clone(), session.path());
        return print_json(&Document { run_id, records, results, guards });
    }
    let line = |row: &Row| {
        let [low, high] = row.interval_percent;
        format!(
            "{:18} {:>8} environments: watching constraints costs {:.1} % [{low:.1}, {high:.1}], {}\n",
            row.environment, row.num_envs, row.safety_validation_overhead_percent, row.verdict
        )
    };
    print(&results.iter().map(line).collect::<String>())
}

/// What the whole interval of an overhead says.
fn verdict(low: f64, high: f64) -> String {
    match () {
        () if high < ACCEPTABLE_OVERHEAD => "acceptable".to_owned(),
        () if low < ACCEPTABLE_OVERHEAD => format!("not shown to stay below {ACCEPTABLE_OVERHEAD} %"),
        () => format!("too much ({ACCEPTABLE_OVERHEAD} % may be spent)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_reaches_across_the_limit_shows_neither() {
        let said = [(2.0, 9.9), (2.0, 10.1), (10.0, 12.0)].map(|(low, high)| verdict(low, high));
        assert_eq!(said, ["acceptable", "not shown to stay below 10 %", "too much (10 % may be spent)"]);
    }
}
