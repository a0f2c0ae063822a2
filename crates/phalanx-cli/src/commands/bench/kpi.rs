//! `phalanx bench kpi`: key figures against their targets.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use phalanx_core::Error;
use phalanx_lab::campaign::Plan;
use phalanx_lab::format::excerpt;
use phalanx_lab::guards::Readings;
use phalanx_lab::kpi::{self, Figure, Kpi, Limits, Targets};
use phalanx_lab::report::Report;
use phalanx_lab::results::{Results, Stamped};
use phalanx_lab::session::Session;
use phalanx_lab::stats::verdict::{Better, KpiVerdict};
use phalanx_lab::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::items::{self, Category, Runner};
use super::options::{RecordsArgs, listed, own_binary, print_noise, refusing};
use super::plot;
use super::report::Format;
use crate::args::whole;
use crate::commands::{self, print, print_json};
use crate::failure::Failure;
use crate::files;

#[derive(Debug, Args)]
pub(crate) struct KpiArgs {
    /// TOML file with targets and alert limits: [environment_step_time_ms] target = 1.0, alert = 5.0
    #[arg(long, value_name = "FILE")]
    kpi: Option<PathBuf>,
    /// Take the latest value of each figure that suites in this folder have stored, instead of measuring; may be given
    /// several times
    #[arg(long, value_name = "DIR")]
    history: Vec<PathBuf>,
    /// What to print; html is a page as that of `bench report`
    #[arg(long, value_name = "F", default_value = "text")]
    format: Format,
    /// Processes of each benchmark
    #[arg(long, value_name = "P", default_value = "5", value_parser = whole::<u16>(2..=1000))]
    processes: u16,
    /// Samples of each process
    #[arg(long, value_name = "N", default_value = "24", value_parser = whole::<u16>(2..=10_000))]
    samples: u16,
    /// Least time of a sample, in milliseconds
    #[arg(long, value_name = "MS", default_value = "5", value_parser = whole::<u32>(1..=60_000))]
    sample_ms: u32,
    #[command(flatten)]
    common: RecordsArgs,
}

impl KpiArgs {
    /// Whether it looks at the machine, and not at what is stored.
    pub(super) fn measures(&self) -> bool {
        self.history.is_empty()
    }
}

#[derive(Serialize)]
struct Document {
    run_id: String,
    records: Option<PathBuf>,
    kpis: Vec<Kpi>,
    violations: Vec<String>,
    /// What the guards had found in the end; unknown of suites of older versions.
    guards: Option<Readings>,
    exit_code: u8,
}

pub(crate) fn run(args: &KpiArgs) -> Result<(), Failure> {
    let targets = targets(args.kpi.as_deref())?;
    let Measured { run_id, records, figures, guards } =
        if args.history.is_empty() { measured(args)? } else { stored(&args.history)? };
    let kpis = kpi::check(&figures, &targets);
    let violations: Vec<String> =
        kpi::check_performance_targets(&kpis).into_iter().map(|kpi| kpi.name.clone()).collect();
    guards.iter().for_each(print_noise);
    let exit_code = kpis.iter().map(|kpi| kpi.verdict.exit_code()).max().unwrap_or(0);
    let printed = match args.format {
        Format::Html if !args.common.output.json => print(&page(&kpis)),
        Format::Text if !args.common.output.json => print(&kpi_lines(&kpis, guards.as_ref())),
        _ => print_json(&Document { run_id, records, kpis, violations, guards, exit_code }),
    };
    commands::concluded(printed, exit_code)
}

/// Figures, and where they come from.
struct Measured {
    run_id: String,
    records: Option<PathBuf>,
    figures: BTreeMap<String, Figure>,
    guards: Option<Readings>,
}

/// What suites have stored, the latest value of each figure; it is held against the targets of today.
fn stored(folders: &[PathBuf]) -> Result<Measured, Failure> {
    let results = plot::read(&[], folders)?;
    let none = || Failure::input(format!("{} has no report of 'phalanx bench suite'", listed(folders)));
    let suite = &results.suites.last().ok_or_else(none)?.value;
    let kpis: Vec<Kpi> = serde_json::from_value(results.kpis())
        .map_err(|error| Failure::input(format!("the suites in {} have no figures: {error}", listed(folders))))?;
    let figure = |kpi: Kpi| (kpi.name, Figure { measured: kpi.value.zip(kpi.interval), source: kpi.source });
    let run_id = suite["run_id"].as_str().unwrap_or_default().to_owned();
    let guards = Readings::deserialize(&suite["guards"]).ok();
    Ok(Measured { run_id, records: None, figures: kpis.into_iter().map(figure).collect(), guards })
}

fn page(kpis: &[Kpi]) -> String {
    let now = Timestamp::now();
    let mut results = Results::default();
    results.suites.push(Stamped { time: now.compact(), value: json!({ "kpis": kpis }) });
    Report::of(&results, now).html()
}

fn measured(args: &KpiArgs) -> Result<Measured, Failure> {
    let mut monitor = args.common.monitor.start()?;
    let own = own_binary()?;
    let mut session = Session::start("kpi", 1, args.common.about.about(), Some(&args.common.results_dir))?;
    let plan = Plan::of(args.processes, args.samples, args.sample_ms);
    let needed = [Category::Environment, Category::Rl, Category::Safety, Category::Startup];
    let needed: Vec<_> = needed.into_iter().flat_map(items::items).filter(items::Item::gives_figures).collect();
    let quiet = args.common.output.quiet;
    let mut runner = Runner::of_this_binary(&mut session, &own, plan, &mut monitor, quiet, "kpi");
    let outcomes = needed.iter().map(|item| runner.run(item)).collect::<Result<Vec<_>, _>>()?;
    session.finish();
    monitor.close()?;
    let (run_id, records) = (session.run.run_id.clone(), session.path());
    let guards = Some(session.guards());
    Ok(Measured { run_id, records, figures: items::figures(&outcomes), guards })
}

/// One line for each figure; what was measured while guards refused is marked.
pub(super) fn kpi_lines(kpis: &[Kpi], guards: Option<&Readings>) -> String {
    let noisy = guards.and_then(refusing).is_some();
    let mut text = String::new();
    for kpi in kpis {
        let value = match (kpi.value, kpi.interval) {
            (Some(value), Some(interval)) => format!("{value:.4} [{:.4}, {:.4}]", interval.low, interval.high),
            _ => "-".to_owned(),
        };
        let better = match kpi.better {
            Better::Lower => "<",
            Better::Higher => ">",
        };
        let Kpi { name, target, alert, source, .. } = kpi;
        let noisy = if noisy && kpi.value.is_some() { " noisy" } else { "" };
        let verdict = format!("{}{noisy}", verdict_name(kpi.verdict));
        let limits = format!("target {better} {target}, alert {alert}");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{verdict:11}  {name:34}  {value:28}  {limits:28}  {source}");
    }
    text
}

pub(super) fn verdict_name(verdict: KpiVerdict) -> &'static str {
    match verdict {
        KpiVerdict::Met => "met",
        KpiVerdict::Warn => "warn",
        KpiVerdict::Alert => "ALERT",
        KpiVerdict::NotShown => "not_shown",
    }
}

/// A table of a file of targets; what is left out stays as it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Override {
    target: Option<f64>,
    alert: Option<f64>,
    better: Option<Better>,
}

/// The built-in targets, changed by a file.
pub(super) fn targets(file: Option<&Path>) -> Result<Targets, Failure> {
    let mut targets = Targets::default();
    let Some(path) = file else { return Ok(targets) };
    let text = String::from_utf8_lossy(&files::read_regular(path)?).into_owned();
    let wrong = |why: String| Failure::input(format!("{}: {why}", path.display()));
    let tables: BTreeMap<String, Override> =
        toml::from_str(&text).map_err(|error| wrong(place(&text, &error) + &error.message().replace('\n', " ")))?;
    for (name, changed) in tables {
        let known: Vec<String> = targets.0.keys().cloned().collect();
        let Some(limits) = targets.0.get_mut(&name) else {
            return Err(wrong(Error::unknown("figure", &name, None, known).to_string()));
        };
        *limits = Limits {
            target: changed.target.unwrap_or(limits.target),
            alert: changed.alert.unwrap_or(limits.alert),
            better: changed.better.unwrap_or(limits.better),
        };
        let Limits { target, alert, better } = *limits;
        let ordered = match better {
            Better::Lower => target <= alert,
            Better::Higher => target >= alert,
        };
        if !(target.is_finite() && alert.is_finite() && ordered) {
            return Err(wrong(format!("{name} has the target {target}, which must be better than its alert {alert}")));
        }
    }
    Ok(targets)
}

/// The line that an error is about, with its number, as a sentence begins with it.
fn place(text: &str, error: &toml::de::Error) -> String {
    let number = error.span().map(|span| text.bytes().take(span.start).filter(|byte| *byte == b'\n').count());
    let line = number.and_then(|number| Some((number + 1, text.lines().nth(number)?)));
    line.map(|(number, line)| format!("line {number}, '{}': ", excerpt(line.trim()))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<Targets, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kpi.toml");
        std::fs::write(&path, text).unwrap();
        targets(Some(&path)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_file_changes_what_it_names() {
        let targets = with("[compilation_time_s]\ntarget = 2.0\n").unwrap();
        assert_eq!((targets.0["compilation_time_s"].target, targets.0["compilation_time_s"].alert), (2.0, 30.0));
        assert_eq!(targets.0["environment_step_time_ms"], Targets::default().0["environment_step_time_ms"]);
    }

    #[test]
    fn mistakes_are_told() {
        for (text, said) in [
            ("[compilation_time]\ntarget = 1.0", "'compilation_time_s'"),
            ("[compilation_time_s]\ngoal = 1.0", "line 2, 'goal = 1.0': unknown field"),
            ("[compilation_time_s]\ntarget = \"much\"", "line 2, 'target = \"much\"': invalid type"),
            ("[compilation_time_s]\ntarget = 40.0", "must be better than its alert 30"),
            ("[compilation_time_s]\ntarget = nan", "must be better"),
            ("nonsense", "kpi.toml"),
        ] {
            let message = with(text).unwrap_err();
            assert!(message.contains(said) && !message.contains('\n'), "{message}");
        }
    }
}
