//! `phalanx bench trend`: where the history of each case leads.

use std::fmt::Write as _;

use clap::Args;
use phalanx_lab::files::Damage;
use phalanx_lab::format::format_number;
use phalanx_lab::history::{Series, SeriesTrend};
use phalanx_lab::record::Unit;
use phalanx_lab::report::Report;
use phalanx_lab::timestamp::Timestamp;
use serde::Serialize;

use super::options::{HistoryArgs, listed};
use super::paired::percentage;
use super::plot;
use super::report::Format;
use crate::args::OutputArgs;
use crate::commands::{print, print_json};
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct TrendArgs {
    #[command(flatten)]
    history: HistoryArgs,
    /// Only cases whose id contains this
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// Changes below this count as none, in per cent [default: 2, or what identical code shows (bench doctor) or what
    /// runs differ by from one to the next, if that is more]
    #[arg(long, value_name = "PCT", value_parser = percentage, allow_negative_numbers = true)]
    noise: Option<f64>,
    /// What to print; html is the whole page of `bench report`, or its trends alone with --case or --noise
    #[arg(long, value_name = "F", default_value = "text")]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Document {
    series: Vec<SeriesTrend>,
    skipped: Vec<String>,
}

impl Document {
    fn new(series: Vec<SeriesTrend>, damaged: &[Damage]) -> Self {
        Self { series, skipped: damaged.iter().map(ToString::to_string).collect() }
    }
}

pub(crate) fn run(args: &TrendArgs) -> Result<(), Failure> {
    let folders = args.history.existing()?;
    let results = plot::read(&[], &folders)?;
    let wanted = |series: &&Series| args.case.as_ref().is_none_or(|text| series.key.case_id.contains(text));
    let series = results.series.iter().filter(wanted);
    let trends: Vec<_> = series.map(|series| SeriesTrend::of(series.clone(), args.noise)).collect();
    if trends.is_empty() {
        return Err(Failure::input(format!("no runs of such cases are recorded in {}", listed(&folders))));
    }
    match args.format {
        _ if args.output.json => print_json(&Document::new(trends, &results.damaged)),
        Format::Json => print_json(&Document::new(trends, &results.damaged)),
        Format::Html if args.case.is_some() || args.noise.is_some() => {
            print(&Report::of_trends(&results, &trends, Timestamp::now()).html())
        }
        Format::Html => print(&Report::of(&results, Timestamp::now()).html()),
        Format::Text => print(&trends.iter().map(text).collect::<String>()),
    }
}

fn text(trend: &SeriesTrend) -> String {
    let Series { key, entries } = &trend.series;
    let (first, last) = (&entries[0], &entries[entries.len() - 1]);
    let unit = key.unit().map_or("steps", Unit::plural);
    let mut text = format!(
        "{} on {}\n  {} runs from {} to {}, last {} {unit}/s\n",
        key.case_id,
        key.fingerprint,
        entries.len(),
        first.started_at,
        last.started_at,
        format_number(last.throughput)
    );
    let interrupted = entries.iter().filter(|entry| entry.interrupted).count();
    if interrupted > 0 {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {interrupted} of them ended early, with fewer processes than planned");
    }
    let direction = &trend.direction;
    let name = direction.trend.name();
    let _ = match (direction.change_percent, direction.recent_avg, direction.historical_avg) {
        (Some(percent), Some(recent), Some(before)) => writeln!(
            text,
            "  {name}: {percent:+.1} % ({} {unit}/s in the last three, {} before; below {:.1} % is noise)",
            format_number(recent),
            format_number(before),
            trend.noise_percent
        ),
        _ => writeln!(text, "  {name}: four runs are needed"),
    };
    for change in &trend.changes {
        let commit = |commit: &Option<String>| {
            commit.as_deref().map_or("unknown commit".to_owned(), |sha| sha.chars().take(12).collect())
        };
        let point = &change.point;
        let _ = writeln!(
            text,
            "  changed {:+.1} % [{:+.1}, {:+.1}] between {} ({}) and {} ({}){}",
            100.0 * (point.ratio - 1.0),
            100.0 * (point.interval.low - 1.0),
            100.0 * (point.interval.high - 1.0),
            commit(&change.last_before.commit),
            change.last_before.started_at,
            commit(&change.first_after.commit),
            change.first_after.started_at,
            if point.provisional { ", provisional" } else { "" }
        );
    }
    let _ = writeln!(text, "  {}", trend.finding);
    text
}
