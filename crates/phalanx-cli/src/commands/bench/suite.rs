//! `phalanx bench suite`: everything that is watched, against targets and against a baseline.
//!
//! A baseline keeps the binary that made it. Stored numbers of another moment are worth little on a machine whose speed
//! changes twofold within seconds, and a reference loop measured beside them would not help: neighbours on the same core
//! slow vector code and scalar loops by different amounts (docs/comparing-builds.md). The kept binary is run again, in turns with this one
//! (tier 1), and even on another machine. Stored numbers (tier 2) serve only where it is gone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use phalanx_core::Error;
use phalanx_lab::campaign::Plan;
use phalanx_lab::files;
use phalanx_lab::format::{format_number, format_seconds};
use phalanx_lab::guards::Readings;
use phalanx_lab::hash;
use phalanx_lab::history::{self, Series, SeriesKey};
use phalanx_lab::json;
use phalanx_lab::kpi::{self, Kpi};
use phalanx_lab::session::Session;
use phalanx_lab::stats::regression::{Change, Severity, notable_line};
use phalanx_lab::stats::verdict::{Finding, KpiVerdict, Tier, Verdict};
use phalanx_lab::suite::{
    self, Against, BenchmarkResult, KeptBinary, REPORT_VERSION, Report, SystemInfo, category_stats,
};
use phalanx_lab::timestamp::Timestamp;
use phalanx_lab::worker;

use super::items::{self, Category, Item, Outcome, Runner};
use super::kpi::{kpi_lines, targets};
use super::options::{AboutArgs, SUITE_DIR, own_binary};
use super::paired::{Copies, Looks};
use crate::args::{OutputArgs, whole};
use crate::commands::{self, print, print_json};
use crate::failure::Failure;
use crate::files::{Kind, SUMMARY_TITLE, check_target};
use crate::monitoring::ProcessMonitorArgs;

/// What records call the suite.
const SUITE: &str = "suite";
/// The field of a report that names what the baseline has measured and this run has not.
const MISSING: &str = "not_run";

#[derive(Debug, Args)]
pub(crate) struct SuiteArgs {
    /// What to run: kernel (or jax), environment, rl, safety, memory, startup, all
    #[arg(long, value_name = "C", num_args = 1.., value_delimiter = ',', default_value = "all")]
    categories: Vec<String>,
    /// Compare with this baseline, which must exist unless --save-baseline makes it; a regression fails
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Compare with baseline_results.json in the output folder, if it is there; a regression fails
    #[arg(long)]
    compare_baseline: bool,
    /// Make this run the baseline (at --baseline, if that is given), and keep this binary beside it
    #[arg(long)]
    save_baseline: bool,
    /// Folder for the report, the records and the baseline
    #[arg(long, value_name = "DIR", default_value = SUITE_DIR)]
    output_dir: PathBuf,
    /// TOML file with targets and alert limits: [environment_step_time_ms] target = 1.0, alert = 5.0
    #[arg(long, value_name = "FILE")]
    kpi: Option<PathBuf>,
    /// Write a summary for a pull request
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Processes of each benchmark, or pairs of them before each look at a comparison
    #[arg(long, value_name = "P", default_value = "12", value_parser = whole::<u16>(2..=1000))]
    pairs: u16,
    /// Samples of each process; from 24 on the steady state is looked for
    #[arg(long, value_name = "N", default_value = "24", value_parser = whole::<u16>(2..=10_000))]
    samples: u16,
    /// Least time of a sample, in milliseconds
    #[arg(long, value_name = "MS", default_value = "3", value_parser = whole::<u32>(1..=60_000))]
    sample_ms: u32,
    /// With a baseline to compare with: an inconclusive answer, or that it is missing, fails too
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    about: AboutArgs,
    #[command(flatten)]
    monitor: ProcessMonitorArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &SuiteArgs) -> Result<(), Failure> {
    let items = chosen(&args.categories)?;
    let targets = targets(args.kpi.as_deref())?;
    let markdown = args.markdown.as_deref().map(|path| check_target(path, Kind::Summary)).transpose()?;
    let place = args.baseline.clone().unwrap_or_else(|| args.output_dir.join("baseline_results.json"));
    if args.save_baseline && args.baseline.is_some() {
        check_target(&place, Kind::SuiteBaseline)?;
    }
    let baseline = Baseline::find(args, &place)?;
    let mut monitor = args.monitor.start()?;
    let own = own_binary()?;
    let copies = baseline.as_ref().and_then(|baseline| baseline.binary.as_ref()).map(|kept| Copies::new(kept, &own));
    let copies = copies.transpose()?;
    let mut session = Session::start("suite", 1, args.about.about(), Some(&args.output_dir))?;
    let plan = Plan::of(args.pairs, args.samples, args.sample_ms);
    let looks = Looks { plan, looks: 2, cases: items.len(), same_work: true };
    // Without a gate there is nothing to be strict about.
    let strict = args.strict && (args.compare_baseline || args.baseline.is_some());
    let (mut outcomes, mut failed) = (Vec::new(), Vec::new());
    for (number, item) in items.iter().enumerate() {
        if !args.output.quiet {
            say!("{} of {}: {}", number + 1, items.len(), item.name);
        }
        let mut runner = Runner {
            session: &mut session,
            own: &own,
            against: copies.as_ref(),
            looks,
            monitor: &mut monitor,
            quiet: args.output.quiet,
            suite: SUITE,
        };
        let mut outcome = match runner.run(item) {
            Ok(outcome) => outcome,
            // One that cannot be measured must not cost what the others showed.
            Err(
                failure @ Failure::Lab(phalanx_lab::Error::Worker { .. } | phalanx_lab::Error::ChecksumMismatch { .. }),
            ) => {
                say!("warning: {}: {failure}", item.name);
                failed.push((item.name.clone(), failure));
                continue;
            }
            Err(failure) => return Err(failure),
        };
        if let Some(baseline) = &baseline {
            let machine = &session.run.machine.fingerprint;
            outcome.against = outcome.against.or_else(|| baseline.stored(&outcome.result, machine));
        }
        outcomes.push(outcome);
    }
    monitor.close()?;
    let guards = session.guards();
    let mut comparisons: Vec<&mut Against> = outcomes.iter_mut().filter_map(|one| one.against.as_mut()).collect();
    comparisons.iter_mut().for_each(|against| against.heed(&guards));
    suite::heed_number(&mut comparisons);
    let kpis = kpi::check(&items::figures(&outcomes), &targets);
    let mut report = report(&session, outcomes, kpis, &guards);
    if let Some(baseline) = &baseline {
        let missing = baseline.missing(&report.results);
        if !missing.is_empty() {
            report.extra.insert(MISSING.to_owned(), missing.into());
        }
    }
    if !failed.is_empty() {
        let reasons = failed.iter().map(|(name, failure)| (name.clone(), failure.to_string().into()));
        report.extra.insert("failed".to_owned(), serde_json::Value::Object(reasons.collect()));
    }
    for (name, against) in &report.comparisons {
        let verdict = record(&report, name, against, baseline.as_ref(), strict);
        session.record(&phalanx_lab::record::Record::Verdict(verdict))?;
    }
    if args.save_baseline {
        save_baseline(&mut report, &place, &own)?;
    }
    let stem = format!("benchmark_results_{}", Timestamp::now().compact());
    let written = files::write_new(&args.output_dir, &stem, "json", pretty(&report).as_bytes())?;
    session.finish();
    let (last, exit_code) = conclusion(&report, baseline.is_some(), strict);
    if let Some(path) = markdown {
        files::write_atomically(&path, markdown_text(&report, &session, &last, &guards).as_bytes())?;
    }
    let printed = if args.output.json {
        print_json(&Concluded { report: &report, conclusion: &last })
    } else {
        let saved = if args.save_baseline { format!("baseline: {}\n", place.display()) } else { String::new() };
        print(&format!("{}{saved}report: {}\n{last}\n", text(&report, &guards), written.display()))
    };
    commands::concluded(printed, exit_code)?;
    // Without a verdict the first failure decides, told once more as the last word.
    failed.into_iter().next().map_or(Ok(()), |(_, failure)| Err(failure))
}

/// The items of the categories that a user names.
fn chosen(names: &[String]) -> Result<Vec<Item>, Failure> {
    let mut categories = Vec::new();
    for name in names {
        let name = name.trim().to_lowercase();
        match name.as_str() {
            "all" => categories.extend(Category::ALL),
            "jax" => categories.push(Category::Kernel),
            _ => match Category::ALL.into_iter().find(|category| category.name() == name) {
                Some(category) => categories.push(category),
                None => {
                    let known = Category::ALL.map(Category::name).into_iter().chain(["jax", "all"]);
                    return Err(Error::unknown("category", &name, None, known).into());
                }
            },
        }
    }
    categories.sort();
    categories.dedup();
    Ok(categories.into_iter().flat_map(items::items).collect())
}

/// What is compared with.
struct Baseline {
    report: Report,
    /// What the cases of suites showed in the runs that are recorded beside it.
    history: Vec<Series>,
    /// The binary that made it, if it is still there.
    binary: Option<PathBuf>,
}

impl Baseline {
    /// The baseline, if one is asked for. One that is named and missing is a mistake, or a gate would pass for ever
    /// without it; the usual one may be missing the first time.
    fn find(args: &SuiteArgs, path: &Path) -> Result<Option<Self>, Failure> {
        if !args.compare_baseline && args.baseline.is_none() {
            return Ok(None);
        }
        let bytes = match files::read_regular(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && args.save_baseline => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && args.baseline.is_none() => {
                say!("note: nothing is compared, because {} is missing; --save-baseline makes it", path.display());
                return Ok(None);
            }
            Err(error) => return Err(Failure::input(format!("cannot read the baseline {}: {error}", path.display()))),
        };
        let wrong = |why: String| Failure::input(format!("{} is no baseline: {why}", path.display()));
        let report: Report = serde_json::from_slice(&bytes).map_err(|error| wrong(json::reason(&error)))?;
        if report.schema_version != REPORT_VERSION {
            return Err(wrong(format!("its schema_version is {}, not {REPORT_VERSION}", report.schema_version)));
        }
        let binary = report.binary.as_ref().and_then(|kept| match kept_binary(path, kept) {
            Ok(binary) => Some(binary),
            Err(why) => {
                say!("note: compared with stored numbers only, because {why}");
                None
            }
        });
        let history = history::series(&phalanx_lab::record::read_folder(&args.output_dir)?.records);
        Ok(Some(Self { report, history, binary }))
    }

    /// What it has measured, of the categories of this run, and this run has not.
    fn missing(&self, results: &[BenchmarkResult]) -> Vec<String> {
        let wanted = |stored: &&BenchmarkResult| {
            results.iter().any(|result| result.category == stored.category)
                && results.iter().all(|result| result.name != stored.name)
        };
        self.report.results.iter().filter(wanted).map(|stored| stored.name.clone()).collect()
    }

    /// A result against the stored one of the same name, if there is one that can be compared.
    fn stored(&self, result: &BenchmarkResult, fingerprint: &str) -> Option<Against> {
        // What a mode costs and what leaks is judged by itself.
        result.throughput_ci95?;
        let stored = self.report.results.iter().find(|stored| stored.name == result.name)?;
        // What could be run again was, on whatever machine.
        if self.binary.is_some() {
            return None;
        }
        if self.report.system_info.fingerprint != fingerprint {
            return Some(Against::incomparable("the baseline is of another machine"));
        }
        let mut against = Against::stored(stored, result);
        let of_result = |series: &&Series| {
            let SeriesKey { case_version, fingerprint: machine, suite, paired, .. } = &series.key;
            result.case_version.as_ref() == Some(case_version) && machine == fingerprint && suite == SUITE && !paired
        };
        // Starts have no history of their own, but their cases may have one of speed.
        let timed = against.processes.is_some();
        if let Some(fence) = self.history.iter().filter(|_| timed).find(of_result).and_then(Series::fence) {
            against.heed_history(&fence);
        }
        Some(against)
    }
}

/// The path of a kept binary that is what the baseline says, or why there is none.
fn kept_binary(baseline: &Path, kept: &KeptBinary) -> Result<PathBuf, String> {
    // Only a name: a baseline must not make us run something from elsewhere.
    let name = Path::new(&kept.file).file_name().filter(|name| *name == kept.file.as_str());
    let name = name.ok_or_else(|| format!("'{}' is no name of a file beside the baseline", kept.file))?;
    let path = baseline.with_file_name(name);
    let bytes = std::fs::read(&path).map_err(|error| format!("its binary {} is gone: {error}", path.display()))?;
    if format!("xxh3:{}", hash::of_bytes(&bytes)) != kept.hash {
        return Err(format!("{} is not the binary that made it", path.display()));
    }
    let absolute = std::path::absolute(&path).map_err(|error| error.to_string())?;
    worker::describe(&absolute).map(|_| absolute).map_err(|error| error.to_string())
}

/// Writes the baseline, and its binary beside it: `baseline_phalanx` for `baseline_results.json`.
fn save_baseline(report: &mut Report, path: &Path, own: &Path) -> Result<(), Failure> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{}_phalanx", stem.trim_end_matches("_results"));
    let binary = path.with_file_name(&name);
    let failed = |error| Failure::Write { what: binary.display().to_string(), error };
    let bytes = std::fs::read(own).map_err(failed)?;
    files::write_atomically(&binary, &bytes)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
    }
    report.binary = Some(KeptBinary { file: name, hash: format!("xxh3:{}", hash::of_bytes(&bytes)) });
    Ok(files::write_atomically(path, pretty(report).as_bytes())?)
}

fn pretty(report: &Report) -> String {
    serde_json::to_string_pretty(report).expect("reports are plain data") + "\n"
}

fn report(session: &Session, outcomes: Vec<Outcome>, kpis: Vec<Kpi>, guards: &Readings) -> Report {
    let mut comparisons = BTreeMap::new();
    let mut results = Vec::new();
    for outcome in outcomes {
        if let Some(against) = outcome.against {
            comparisons.insert(outcome.result.name.clone(), against);
        }
        results.push(outcome.result);
    }
    Report {
        schema_version: REPORT_VERSION,
        run_id: session.run.run_id.clone(),
        timestamp: Timestamp::now().readable(),
        system_info: SystemInfo::of(&session.run.machine),
        category_stats: category_stats(&results),
        summary: suite::summary(&results),
        recommendations: suite::recommendations(&results),
        results,
        comparisons,
        kpis,
        guards: Some(guards.clone()),
        binary: None,
        extra: serde_json::Map::new(),
    }
}

fn record(
    report: &Report,
    name: &str,
    against: &Against,
    baseline: Option<&Baseline>,
    strict: bool,
) -> phalanx_lab::record::Verdict {
    let case = report.results.iter().find(|result| result.name == name).and_then(|result| result.metadata.get("case"));
    let ratio = |percent: f64| 1.0 + percent / 100.0;
    phalanx_lab::record::Verdict {
        run_id: Some(report.run_id.clone()),
        case_id: case.and_then(|case| case.as_str()).unwrap_or(name).to_owned(),
        tier: against.tier as u64,
        baseline_run: baseline.map(|baseline| baseline.report.run_id.clone()),
        ratio: against.rules.map(|rules| ratio(rules.throughput_change_percent)),
        lo: against.throughput_change_interval.map(|interval| ratio(interval.low)),
        hi: against.throughput_change_interval.map(|interval| ratio(interval.high)),
        method: against.method_name().to_owned(),
        theta: against.rules.map(|rules| ratio(rules.threshold_percent()).ln()),
        mde: None,
        p: against.processes.map(|test| test.p),
        verdict: against.verdict.name().to_owned(),
        reason: against.reason.clone(),
        exit_code: against.verdict.exit_code(strict),
        extra: serde_json::Map::new(),
    }
}

/// A report with what follows from it.
#[derive(serde::Serialize)]
struct Concluded<'a> {
    #[serde(flatten)]
    report: &'a Report,
    conclusion: &'a Finding,
}

/// The last line and the exit code.
fn conclusion(report: &Report, compared: bool, strict: bool) -> (Finding, u8) {
    let of = |verdict: Verdict| report.comparisons.iter().filter(move |(_, against)| against.verdict == verdict);
    let alerts: Vec<&str> =
        report.kpis.iter().filter(|kpi| kpi.verdict == KpiVerdict::Alert).map(|kpi| kpi.name.as_str()).collect();
    let tier = report.comparisons.values().map(|against| against.tier).min().unwrap_or(Tier::Baseline);
    let finding = |verdict, ratio, interval, reason| Finding { verdict, tier, ratio, interval, reason };
    let worst = |verdict| {
        let loss = |against: &Against| against.rules.map_or(0.0, |rules| rules.throughput_change_percent);
        of(verdict).min_by(|(_, a), (_, b)| loss(a).total_cmp(&loss(b)))
    };
    let ratio = |percent: f64| 1.0 + percent / 100.0;
    for verdict in [Verdict::ChecksumMismatch, Verdict::Regressed] {
        if let Some((name, against)) = worst(verdict) {
            let more = of(verdict).count() - 1;
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            let last = finding(
                verdict,
                against.rules.map(|rules| ratio(rules.throughput_change_percent)),
                against.throughput_change_interval.map(|interval| interval.map(ratio)),
                format!("{name}: {}{more}", against.reason),
            );
            return (last, verdict.exit_code(false));
        }
    }
    if let Some(leak) = report.results.iter().find(|result| leaks(result)) {
        let last = finding(Verdict::Regressed, None, None, format!("{}: every repeat leaves memory behind", leak.name));
        return (last, Verdict::Regressed.exit_code(false));
    }
    if !alerts.is_empty() {
        let last = finding(Verdict::Regressed, None, None, format!("beyond the alert limit: {}", alerts.join(", ")));
        return (last, KpiVerdict::Alert.exit_code());
    }
    let improved = of(Verdict::Improved).count();
    let [noisy, open, apart] =
        [Verdict::Noisy, Verdict::Inconclusive, Verdict::Incomparable].map(|verdict| of(verdict).count());
    let unclear = noisy + open + apart;
    let last = match (compared, improved, report.comparisons.len() - unclear) {
        (false, ..) => {
            finding(Verdict::InsufficientHistory, None, None, "no baseline to compare with, no alert".to_owned())
        }
        (_, _, 0) if noisy + open == 0 => match of(Verdict::Incomparable).next() {
            Some((name, against)) => {
                let reason = format!("none of {apart} benchmarks can be compared; {name}: {}", against.reason);
                finding(Verdict::Incomparable, None, None, reason)
            }
            None => {
                let reason = "the baseline and this run have no benchmark in common that can be compared".to_owned();
                finding(Verdict::Incomparable, None, None, reason)
            }
        },
        (_, _, 0) if open == 0 => {
            let reason = of(Verdict::Noisy).next().map(|(name, against)| format!("{name}: {}", against.reason));
            let reason = format!("all {noisy} compared benchmarks are noisy; {}", reason.unwrap_or_default());
            finding(Verdict::Noisy, None, None, reason)
        }
        (_, _, 0) => {
            let reason = format!("no benchmark could be told: {open} inconclusive, {noisy} noisy");
            finding(Verdict::Inconclusive, None, None, reason)
        }
        (_, 0, told) => {
            finding(Verdict::Equivalent, None, None, format!("no regression in {told} benchmarks, {unclear} not told"))
        }
        (_, better, told) => {
            finding(Verdict::Improved, None, None, format!("{better} of {told} benchmarks faster, {unclear} not told"))
        }
    };
    let exit_code = last.verdict.exit_code(strict);
    (last, exit_code)
}

fn severity(against: &Against) -> &'static str {
    match against.rules.and_then(|rules| rules.severity) {
        Some(Severity::High) => ", high",
        Some(Severity::Medium) => ", medium",
        None => "",
    }
}

fn rate(result: &BenchmarkResult) -> String {
    format!("{}/s", format_number(result.throughput))
}

fn text(report: &Report, guards: &Readings) -> String {
    let width = report.results.iter().map(|result| result.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    // Writing to a string cannot fail.
    for result in &report.results {
        let interval = result.throughput_ci95.map_or(String::new(), |interval| {
            format!("[{}, {}]", format_number(interval.low), format_number(interval.high))
        });
        let memory = result.memory_peak_mb.map_or(String::new(), |mb| format!("{mb:.0} MB"));
        let note = match (report.comparisons.get(&result.name), overhead_of(result)) {
            (Some(against), _) => format!("{}{}: {}", against.verdict.name(), severity(against), against.reason),
            (None, Some(percent)) => format!("watching constraints costs {percent:.1} %"),
            (None, None) if leaks(result) => "LEAKS".to_owned(),
            (None, None) => {
                let solved = result.metadata.get("time_to_solve_s").and_then(serde_json::Value::as_f64);
                solved.map_or(String::new(), |seconds| format!("solved in {}", format_seconds(seconds)))
            }
        };
        let line = format!("{:width$}  {:>9}  {interval:>18}  {memory:>8}  {note}", result.name, rate(result));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let told = suite::worth_telling(&report.comparisons);
    for (name, against) in report.comparisons.iter().filter(|(name, _)| told.contains(name.as_str())) {
        let change = against.rules.zip(against.throughput_change_interval);
        let line = change.and_then(|(rules, interval)| {
            notable_line(name, &Change { percent: rules.throughput_change_percent, interval }, rules.noise_percent)
        });
        // What the machine's disturbances could have made is no news.
        if let Some(line) = line.filter(|_| against.verdict != Verdict::Noisy) {
            let _ = writeln!(text, "{line}");
        }
    }
    if let Some(missing) = missing_line(report) {
        let _ = writeln!(text, "{missing}");
    }
    text += &kpi_lines(&report.kpis, Some(guards));
    for advice in &report.recommendations {
        let _ = writeln!(text, "advice: {advice}");
    }
    let refusing: Vec<&str> = guards.refusing().collect();
    if !refusing.is_empty() {
        let _ = writeln!(text, "disturbed by {}", refusing.join(", "));
    }
    let summary = &report.summary;
    let timed = format_seconds(summary.total_duration);
    let _ = writeln!(text, "{} benchmarks, {timed} timed", summary.total_benchmarks);
    text
}

/// What the baseline has and this run has not, in a line.
fn missing_line(report: &Report) -> Option<String> {
    let names: Vec<&str> = report.extra.get(MISSING)?.as_array()?.iter().filter_map(|name| name.as_str()).collect();
    Some(format!("in the baseline, but not in this run: {}", names.join(", ")))
}

/// Whether making and dropping its case leaves memory behind.
fn leaks(result: &BenchmarkResult) -> bool {
    result.metadata.get("leaks").is_some_and(|leaks| leaks == true)
}

fn overhead_of(result: &BenchmarkResult) -> Option<f64> {
    result.metadata.get("safety_validation_overhead_percent")?.as_f64()
}

/// The summary for a pull request.
fn markdown_text(report: &Report, session: &Session, last: &Finding, guards: &Readings) -> String {
    let run = &session.run;
    let mut text = format!("{SUMMARY_TITLE}{}\n\n{}\n\n", last.verdict.name(), last.reason);
    // Writing to a string cannot fail.
    text += "| benchmark | throughput | change | interval | verdict |\n|---|---:|---:|---:|---|\n";
    for result in &report.results {
        let against = report.comparisons.get(&result.name);
        let change = against.and_then(|against| against.rules).map(|rules| rules.throughput_change_percent);
        let change = change.map_or("".to_owned(), |percent| format!("{percent:+.1} %"));
        let interval = against.and_then(|against| against.throughput_change_interval);
        let interval = interval.map_or("".to_owned(), |i| format!("{:+.1} to {:+.1} %", i.low, i.high));
        let verdict = match (against, overhead_of(result)) {
            (Some(against), _) => {
                format!("{}{} (tier {})", against.verdict.name(), severity(against), against.tier as u8)
            }
            (None, Some(percent)) => format!("overhead {percent:.1} %"),
            (None, None) => String::new(),
        };
        let _ = writeln!(text, "| {} | {} | {change} | {interval} | {verdict} |", result.name, rate(result));
    }
    if let Some(missing) = missing_line(report) {
        let _ = writeln!(text, "\n{missing}");
    }
    text += "\n| key figure | value | target | alert | verdict |\n|---|---:|---:|---:|---|\n";
    for kpi in &report.kpis {
        let value = kpi.value.map_or("".to_owned(), |value| format!("{value:.3}"));
        let verdict = super::kpi::verdict_name(kpi.verdict);
        let _ = writeln!(text, "| {} | {value} | {} | {} | {verdict} |", kpi.name, kpi.target, kpi.alert);
    }
    if !report.recommendations.is_empty() {
        text += "\n";
        for advice in &report.recommendations {
            let _ = writeln!(text, "- {advice}");
        }
    }
    let refusing: Vec<&str> = guards.refusing().collect();
    let disturbed = if refusing.is_empty() { String::new() } else { format!(", disturbed by {}", refusing.join(", ")) };
    let commit = run.git.sha.as_deref().map_or("unknown commit".to_owned(), |sha| sha.chars().take(12).collect());
    let _ = writeln!(text, "\n{} on {}{disturbed}, run {}", commit, run.machine.name, run.run_id);
    text
}

#[cfg(test)]
mod tests {
    use phalanx_lab::suite::Benchmark;

    use super::*;

    fn report_of(verdicts: &[Verdict], results: Vec<BenchmarkResult>) -> Report {
        let against = |verdict| Against { verdict, ..Against::incomparable("why") };
        Report {
            schema_version: REPORT_VERSION,
            run_id: String::new(),
            timestamp: String::new(),
            system_info: SystemInfo::of(&phalanx_lab::machine::Machine::detect()),
            category_stats: BTreeMap::new(),
            summary: suite::summary(&[]),
            results,
            comparisons: verdicts.iter().enumerate().map(|(i, verdict)| (i.to_string(), against(*verdict))).collect(),
            kpis: Vec::new(),
            guards: None,
            recommendations: Vec::new(),
            binary: None,
            extra: serde_json::Map::new(),
        }
    }

    /// What a suite concludes from comparisons of these verdicts.
    fn concluded(verdicts: &[Verdict]) -> (Verdict, u8, String) {
        let (finding, exit_code) = conclusion(&report_of(verdicts, Vec::new()), true, false);
        (finding.verdict, exit_code, finding.reason)
    }

    #[test]
    fn a_leak_fails_with_and_without_a_baseline() {
        for (leaks, code) in [(true, 10), (false, 0)] {
            let result = Benchmark::new("memory/leak", "memory").iterations(1).warmup(0).metadata("leaks", leaks);
            let report = report_of(&[Verdict::Equivalent], vec![result.run(|| Ok::<_, ()>(())).unwrap()]);
            for compared in [true, false] {
                let (finding, exit_code) = conclusion(&report, compared, false);
                assert_eq!(exit_code, code, "{finding}");
            }
        }
    }

    #[test]
    fn what_was_compared_decides() {
        use Verdict::{Equivalent, Improved, Incomparable, Inconclusive, Noisy, Regressed};
        for (verdicts, verdict, code, said) in [
            (&[Noisy, Noisy][..], Noisy, 12, "all 2 compared benchmarks are noisy; 0: why"),
            (&[Noisy, Incomparable], Noisy, 12, "all 1 compared"),
            (&[Noisy, Inconclusive], Inconclusive, 0, "1 inconclusive, 1 noisy"),
            (&[Inconclusive, Incomparable], Inconclusive, 0, "1 inconclusive, 0 noisy"),
            (&[Incomparable, Incomparable], Incomparable, 13, "none of 2 benchmarks can be compared; 0: why"),
            (&[], Incomparable, 13, "no benchmark in common"),
            (&[Noisy, Equivalent], Equivalent, 0, "no regression in 1 benchmarks, 1 not told"),
            (&[Noisy, Improved], Improved, 0, "1 of 1 benchmarks faster"),
            (&[Noisy, Regressed], Regressed, 10, "1: why"),
        ] {
            let (found, exit_code, reason) = concluded(verdicts);
            assert_eq!((found, exit_code), (verdict, code), "{verdicts:?}: {reason}");
            assert!(reason.contains(said), "{verdicts:?}: {reason}");
            let strict = conclusion(&report_of(verdicts, Vec::new()), true, true).1;
            assert_eq!(strict, if verdict == Inconclusive { 11 } else { code }, "{verdicts:?}");
        }
        assert_eq!(conclusion(&report_of(&[], Vec::new()), false, true).1, 11, "no baseline at all");
    }

    #[test]
    fn what_only_the_baseline_has_is_named() {
        let result = |name: &str, category: &str| {
            Benchmark::new(name, category).iterations(1).warmup(0).run(|| Ok::<_, ()>(())).unwrap()
        };
        let stored = vec![result("a", "x"), result("b", "x"), result("c", "y")];
        let baseline = Baseline { report: report_of(&[], stored), history: Vec::new(), binary: None };
        assert_eq!(baseline.missing(&[result("a", "x"), result("new", "x")]), ["b"], "y was not asked for");
        let mut report = report_of(&[], Vec::new());
        report.extra.insert(MISSING.to_owned(), vec!["b"].into());
        assert!(text(&report, &Readings::default()).contains("in the baseline, but not in this run: b\n"));
    }
}
