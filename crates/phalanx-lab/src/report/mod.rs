//! Reports: what stored results amount to, as data, as text and as one HTML page.
//!
//! A report is a list of sections made of few kinds of blocks, so that every format shows the same.

mod html;
mod sections;

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

use crate::guards::Readings;
use crate::history::{Change, SeriesTrend};
use crate::machine::Machine;
use crate::results::Results;
use crate::stats::trend::Trend;
use crate::timestamp::Timestamp;

/// A report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// When it was made.
    pub generated_at: String,
    /// Where the last run was made; of this machine if no run says.
    pub machine: Machine,
    /// What the guards of the last run found.
    pub guards: Option<Readings>,
    /// All benchmarks in a few numbers.
    pub summary: Summary,
    /// Numbers by category, as the last suite has them.
    pub by_category: Value,
    /// Key figures, each as the last suite has it that measured it.
    pub kpis: Value,
    /// Where each history leads.
    pub trends: Vec<NamedTrend>,
    /// What the results suggest to do.
    pub recommendations: Vec<String>,
    /// What had to be skipped.
    pub skipped: Vec<String>,
    /// The same for people.
    #[serde(skip)]
    sections: Vec<Section>,
}

/// All benchmarks in a few numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Benchmarks of the last suite; without one, the latest rates of all that was measured on the last machine.
    pub total_benchmarks: u64,
    /// The mean of these rates of each kind of step. Steps of different kinds have no common mean.
    pub avg_throughput: BTreeMap<String, f64>,
    /// The highest peak.
    pub peak_memory_mb: Option<f64>,
    /// Seconds that were timed.
    pub total_duration: Option<f64>,
    /// Key figures beyond their alert limit, if any figure was judged.
    pub alerts: Option<usize>,
    /// Verdicts `regressed` among the last of each case, if there is any verdict.
    pub regressions: Option<usize>,
    /// Runs that were ended early: what they had measured by then is among the rates.
    pub interrupted_runs: usize,
}

/// A history and where it leads.
#[derive(Debug, Clone, Serialize)]
pub struct NamedTrend {
    /// What was measured.
    pub name: String,
    /// How often.
    pub runs: usize,
    /// Differences below this count as none, in %.
    pub noise_percent: f64,
    /// The direction.
    #[serde(flatten)]
    pub trend: Trend,
    /// Its changes, oldest first; those of tables alone are not looked for.
    pub changes: Vec<Change>,
}

/// A part of a report.
#[derive(Debug, Clone)]
struct Section {
    title: &'static str,
    blocks: Vec<Block>,
}

#[derive(Debug, Clone)]
enum Block {
    /// A paragraph.
    Text(String),
    /// One line each.
    List(Vec<String>),
    /// Columns and rows.
    Table { columns: Vec<&'static str>, rows: Vec<Vec<Cell>> },
    /// A picture, with what it shows.
    Figure { svg: String, caption: String },
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq)]
struct Cell {
    text: String,
    mood: Mood,
    /// Whether it is a number, which is set flush right.
    number: bool,
}

/// What a cell means to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Plain,
    Good,
    Warn,
    Bad,
    Unknown,
}

impl Cell {
    fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), mood: Mood::Plain, number: false }
    }

    fn number(text: impl Into<String>) -> Self {
        Self { text: text.into(), mood: Mood::Plain, number: true }
    }

    fn mood(self, mood: Mood) -> Self {
        Self { mood, ..self }
    }
}

impl Report {
    /// What the results amount to.
    pub fn of(results: &Results, now: Timestamp) -> Self {
        sections::report(results, now)
    }

    /// The trends of some of the series, and where they were measured.
    pub fn of_trends(results: &Results, series: &[SeriesTrend], now: Timestamp) -> Self {
        sections::trend_report(results, series, now)
    }

    /// One self-contained HTML page: no scripts, no network, light and dark, for any width.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// Text for a terminal; pictures are left out.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let is_picture = |block: &Block| matches!(block, Block::Figure { .. });
        for section in self.sections.iter().filter(|section| !section.blocks.iter().all(is_picture)) {
            // Writing to a string cannot fail.
            _ = writeln!(out, "{}\n{}", section.title, "-".repeat(section.title.chars().count()));
            for block in &section.blocks {
                match block {
                    Block::Text(text) => _ = writeln!(out, "{text}"),
                    Block::List(lines) => lines.iter().for_each(|line| _ = writeln!(out, "- {line}")),
                    Block::Table { columns, rows } => out.push_str(&text_table(columns, rows)),
                    Block::Figure { .. } => {}
                }
            }
            out.push('\n');
        }
        out
    }
}

fn text_table(columns: &[&str], rows: &[Vec<Cell>]) -> String {
    let width = |i: usize| {
        let cells = rows.iter().map(|row| row[i].text.chars().count());
        cells.chain([columns[i].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut out = String::new();
    let head = columns.iter().zip(&widths).enumerate().map(|(i, (name, width))| {
        match rows.first().is_some_and(|row| row[i].number) {
            true => format!("{name:>width$}"),
            false => format!("{name:<width$}"),
        }
    });
    if columns.iter().any(|name| !name.is_empty()) {
        out += head.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| match cell.number {
            true => format!("{:>width$}", cell.text),
            false => format!("{:<width$}", cell.text),
        });
        out += cells.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Kind, Run, Verdict};
    use crate::results::{Rate, Stamped};
    use serde_json::json;

    fn results() -> Results {
        let mut results = Results::default();
        let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/records_v1.jsonl");
        results.read_files(&[golden]).unwrap();
        let value = json!({
            "timestamp": "2026-07-22 13:05:01",
            "system_info": {},
            "results": [],
            "summary": {"total_benchmarks": 3, "avg_throughput": 50.0, "peak_memory_mb": 2000.0, "total_duration": 1.5},
            "category_stats": {"slow <category>": {"count": 3, "avg_throughput": 50.0, "max_throughput": 60.0,
                "avg_memory_peak": 10.0, "max_memory_peak": 2000.0}},
            "kpis": [{"name": "compilation_time_s", "value": 40.0, "interval": {"low": 39.0, "high": 41.0},
                "target": 5.0, "alert": 30.0, "better": "lower", "verdict": "alert", "source": "startup"}],
            "comparisons": {"a": {"verdict": "regressed", "tier": 2, "reason": "throughput -21.0 %"}},
            "recommendations": ["do <this> & that"],
        });
        results.suites.push(Stamped { time: "20260722_130501".to_owned(), value });
        results
    }

    #[test]
    fn a_page_is_whole_and_asks_nobody() {
        let report = Report::of(&results(), Timestamp::from_unix_seconds(1.7e9).unwrap());
        let page = report.html();
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("@import"));
        let links = page.matches("http").count() - page.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(links, 0, "the name of a namespace is no link");
        assert!(page.contains("slow &lt;category&gt;") && page.contains("do &lt;this&gt; &amp; that"));
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("width=device-width"));
    }

    #[test]
    fn alerts_and_regressions_are_counted_and_shown_in_every_format() {
        let report = Report::of(&results(), Timestamp::from_unix_seconds(1.7e9).unwrap());
        assert_eq!((report.summary.alerts, report.summary.total_benchmarks), (Some(1), 3));
        assert!(report.summary.regressions >= Some(1));
        for text in [report.text(), report.html()] {
            for part in ["compilation_time_s", "alert", "regressed", "throughput -21.0 %"] {
                assert!(text.contains(part), "{part}");
            }
        }
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!(value["kpis"][0]["verdict"], "alert");
        assert!(report.recommendations.iter().any(|line| line.contains("2000 MB")), "{:?}", report.recommendations);
        assert!(report.recommendations.iter().any(|line| line.contains("slow <category>")));
    }

    #[test]
    fn the_newest_verdict_of_each_case_counts_once_and_all_are_counted() {
        let mut results = results();
        let (run, verdict) = (results.runs[0].clone(), results.verdicts[0].clone());
        results.verdicts.clear();
        let mut add = |run_id: &str, started_at: &str, case_id: String, found: &str| {
            let (run_id, started_at) = (run_id.to_owned(), started_at.to_owned());
            results.runs.push(Run { run_id: run_id.clone(), started_at, ..run.clone() });
            let run_id = Some(run_id);
            results.verdicts.push(Verdict { run_id, case_id, verdict: found.to_owned(), ..verdict.clone() });
        };
        // The file of the newer run is read first.
        add("new", "2026-07-23T00:00:00Z", "case".to_owned(), "equivalent");
        add("old", "2026-07-22T00:00:00Z", "case".to_owned(), "regressed");
        for i in 0..25 {
            add("many", "2026-07-21T00:00:00Z", format!("other {i}"), "regressed");
        }
        results.suites[0].value["run_id"] = json!("new");
        let report = Report::of(&results, Timestamp::from_unix_seconds(1.7e9).unwrap());
        assert_eq!(report.summary.regressions, Some(25), "neither the old one nor the suite's own once more");
        results.suites[0].value["run_id"] = json!("of a file that is gone");
        let report = Report::of(&results, Timestamp::from_unix_seconds(1.7e9).unwrap());
        assert_eq!(report.summary.regressions, Some(26));
    }

    #[test]
    fn kinds_have_no_common_mean_and_a_run_counts_once() {
        let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/records_v1.jsonl");
        let mut results = Results::default();
        results.read_files(&[golden.clone(), golden]).unwrap();
        let first = results.rates[0].clone();
        assert_eq!(results.rates.iter().filter(|rate| **rate == first).count(), 1);
        let other = |kind, steps_per_second| Rate { kind, steps_per_second, ..first.clone() };
        results.rates = vec![
            other(Some(Kind::FusedRandomRollout), 1e6),
            other(Some(Kind::FusedRandomRollout), 3e6),
            other(Some(Kind::HostApiRandom), 10.0),
            other(None, 7.0),
        ];
        let report = Report::of(&results, Timestamp::from_unix_seconds(1.7e9).unwrap());
        let means = [("fused_random_rollout", 2e6), ("host_api_random", 10.0), ("unknown kind", 7.0)];
        assert_eq!(report.summary.avg_throughput, means.map(|(kind, mean)| (kind.to_owned(), mean)).into());
        assert!(report.text().contains("mean of fused_random_rollout (steps per second)"), "{}", report.text());
    }

    #[test]
    fn nothing_is_a_report_too() {
        let report = Report::of(&Results::default(), Timestamp::from_unix_seconds(0.0).unwrap());
        assert!(report.html().contains("No results"));
        assert!(report.text().contains("Machine"));
    }
}
