//! What is in a report: from results to sections.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Block, Cell, Mood, NamedTrend, Report, Section, Summary};
use crate::figures::{FIGURES, histories, latest, latest_memory, latest_of, rate_text, times};
use crate::format::{format_bytes, format_number, format_seconds};
use crate::guards::{Readings, Status};
use crate::history::{Change, Series, SeriesKey, SeriesTrend, noise_percent};
use crate::machine::Machine;
use crate::record::{Kind, Run};
use crate::results::{Rate, Results, Spread, readable_time};
use crate::stats::descriptive::mean;
use crate::stats::growth::MemoryGrowth;
use crate::stats::scaling;
use crate::stats::trend::Trend;
use crate::suite::{GOOD_RETENTION, MUCH_MEMORY_MB, SLOW_PER_SECOND};
use crate::throughput::MEGABYTE;
use crate::timestamp::Timestamp;

/// How many of the latest verdicts are shown.
const MOST_VERDICTS: usize = 20;

pub(super) fn report(results: &Results, now: Timestamp) -> Report {
    let last_run = results.runs.iter().max_by(|a, b| a.started_at.cmp(&b.started_at));
    let machine = last_run.map_or_else(Machine::detect, |run| run.machine.clone());
    let suite = results.suites.last().map(|stamped| &stamped.value);
    let part = |name: &str| suite.and_then(|suite| suite.get(name)).cloned().unwrap_or(Value::Null);
    let (kpis, by_category) = (results.kpis(), part("category_stats"));
    let trends = trends(results);
    let recommendations = recommendations(results, suite);
    let verdicts = verdict_rows(results, suite);
    let summary = summary(results, suite, &kpis, &verdicts);

    let mut sections = vec![overview(results, &summary)];
    let mut add = |title: &'static str, blocks: Vec<Block>| {
        if !blocks.is_empty() {
            sections.push(Section { title, blocks });
        }
    };
    add("Key figures", kpi_blocks(&kpis));
    add("Verdicts", verdicts_block(verdicts));
    add(
        "Recommendations",
        if recommendations.is_empty() { vec![] } else { vec![Block::List(recommendations.clone())] },
    );
    add("Throughput", throughput_blocks(results));
    add("Learning", learning_blocks(results));
    add("Chunk size", figures(results, &["chunk"]));
    add("Memory", memory_blocks(results));
    add("Libraries", library_blocks(results));
    add("Trends", trend_blocks(results, &trends));
    add("Categories", category_blocks(&by_category));
    add("Machine", machine_blocks(&machine, last_run.map(|run| (run, guards_of(results, run)))));
    let skipped: Vec<String> = results.damaged.iter().map(ToString::to_string).collect();
    add("Skipped files", if skipped.is_empty() { vec![] } else { vec![Block::List(skipped.clone())] });
    let guards = last_run.map(|run| guards_of(results, run).clone());
    let generated_at = now.rfc3339();
    Report { generated_at, machine, guards, summary, by_category, kpis, trends, recommendations, skipped, sections }
}

/// The trends alone, of these series.
pub(super) fn trend_report(results: &Results, series: &[SeriesTrend], now: Timestamp) -> Report {
    let mut report = report(results, now);
    let keys: Vec<&SeriesKey> = series.iter().map(|trend| &trend.series.key).collect();
    report.trends = series.iter().map(|trend| named_trend(trend.clone(), &keys)).collect();
    let findings = series.iter().map(|trend| format!("{}: {}", trend.series.key.case_id, trend.finding)).collect();
    let blocks = vec![trend_table(&report.trends), Block::List(findings)];
    // These say where the figures come from; all others are about other cases as well.
    report.sections.retain(|section| ["Machine", "Skipped files"].contains(&section.title));
    report.sections.insert(0, Section { title: "Trends", blocks });
    report
}

/// What the guards had found when the last of a run was measured, or before it if that is all there is.
fn guards_of<'a>(results: &'a Results, run: &'a Run) -> &'a Readings {
    results.guards.get(&run.run_id).unwrap_or(&run.guards)
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

fn summary(results: &Results, suite: Option<&Value>, kpis: &Value, verdicts: &[VerdictRow]) -> Summary {
    let of_suite = |field: &str| suite.and_then(|suite| number(&suite["summary"][field]));
    let mut by_kind: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    // What was measured again counts once, or a summary would change with every repetition.
    let rates = latest_of(results, |_| true);
    for rate in &rates {
        let kind = rate.kind.map_or("unknown kind", Kind::name).to_owned();
        by_kind.entry(kind).or_default().push(rate.steps_per_second);
    }
    let peaks = latest_memory(results).into_iter().filter_map(|memory| memory.peak_rss_mb);
    let is_alert = |kpi: &&Value| kpi["verdict"] == "alert";
    Summary {
        total_benchmarks: of_suite("total_benchmarks").map_or(rates.len() as u64, |count| count as u64),
        avg_throughput: by_kind.into_iter().map(|(kind, rates)| (kind, mean(&rates))).collect(),
        peak_memory_mb: of_suite("peak_memory_mb").or_else(|| peaks.reduce(f64::max)),
        total_duration: of_suite("total_duration"),
        alerts: kpis.as_array().map(|kpis| kpis.iter().filter(is_alert).count()),
        regressions: (!verdicts.is_empty()).then(|| verdicts.iter().filter(|row| row.verdict == "regressed").count()),
        interrupted_runs: results.interrupted.len(),
    }
}

fn overview(results: &Results, summary: &Summary) -> Section {
    if results.is_empty() {
        let text = "No results yet: measure first, with bench throughput, memory, comparison or suite.";
        return Section { title: "Summary", blocks: vec![Block::Text(text.to_owned())] };
    }
    // Nothing measured is nothing good.
    let cell = |count: Option<usize>| match count {
        None => Cell::number("none measured").mood(Mood::Unknown),
        Some(0) => Cell::number("0").mood(Mood::Good),
        Some(count) => Cell::number(count.to_string()).mood(Mood::Bad),
    };
    let unknown = || "-".to_owned();
    let mut rows = vec![vec![Cell::text("benchmarks"), Cell::number(summary.total_benchmarks.to_string())]];
    rows.extend(summary.avg_throughput.iter().map(|(kind, rate)| {
        let unit =
            Kind::ALL.into_iter().find(|known| known.name() == kind).map_or("steps", |kind| kind.unit().plural());
        vec![Cell::text(format!("mean of {kind} ({unit} per second)")), Cell::number(format_number(*rate))]
    }));
    rows.extend([
        vec![
            Cell::text("highest peak of memory"),
            Cell::number(summary.peak_memory_mb.map_or_else(unknown, |mb| format!("{mb:.1} MiB"))),
        ],
        vec![Cell::text("time measured"), Cell::number(summary.total_duration.map_or_else(unknown, format_seconds))],
        vec![Cell::text("key figures beyond their limit"), cell(summary.alerts)],
        vec![Cell::text("regressions"), cell(summary.regressions)],
    ]);
    if summary.interrupted_runs > 0 {
        let runs = Cell::number(summary.interrupted_runs.to_string()).mood(Mood::Warn);
        rows.push(vec![Cell::text("runs that were ended early"), runs]);
    }
    Section { title: "Summary", blocks: vec![Block::Table { columns: vec!["", ""], rows }] }
}

fn kpi_blocks(kpis: &Value) -> Vec<Block> {
    let row = |kpi: &Value| {
        let value = |value: &Value| number(value).map_or("-".to_owned(), rate_text);
        let interval = match (number(&kpi["interval"]["low"]), number(&kpi["interval"]["high"])) {
            (Some(low), Some(high)) => format!("[{}, {}]", rate_text(low), rate_text(high)),
            _ => String::new(),
        };
        let verdict = kpi["verdict"].as_str().unwrap_or("not_shown");
        let sign = if kpi["better"] == "higher" { ">" } else { "<" };
        vec![
            Cell::text(text_of(&kpi["name"])),
            Cell::text(verdict).mood(mood_of(verdict)),
            Cell::number(value(&kpi["value"])),
            Cell::number(interval),
            Cell::number(format!("{sign} {}", value(&kpi["target"]))),
            Cell::number(value(&kpi["alert"])),
            Cell::text(text_of(&kpi["source"])),
        ]
    };
    let rows: Vec<_> = kpis.as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        return vec![];
    }
    let columns = vec!["figure", "verdict", "value", "95 % interval", "target", "alert", "of"];
    vec![Block::Table { columns, rows }]
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| if value.is_null() { String::new() } else { value.to_string() }, str::to_owned)
}

fn mood_of(verdict: &str) -> Mood {
    match verdict {
        "met" | "improved" | "improving" => Mood::Good,
        "warn" | "inconclusive" | "noisy" | "incomparable" => Mood::Warn,
        "alert" | "regressed" | "checksum_mismatch" | "declining" => Mood::Bad,
        "not_shown" | "insufficient_history" | "insufficient history" => Mood::Unknown,
        _ => Mood::Plain,
    }
}

struct VerdictRow {
    time: String,
    case: String,
    verdict: String,
    tier: String,
    ratio: String,
    reason: String,
}

/// The last verdict of each case, the newest first.
fn verdict_rows(results: &Results, suite: Option<&Value>) -> Vec<VerdictRow> {
    let started = |run_id: &Option<String>| {
        let run = results.runs.iter().find(|run| Some(&run.run_id) == run_id.as_ref());
        run.map(|run| run.started_at.clone()).unwrap_or_default()
    };
    // Files are read in the order of their names, which is not that of time.
    let mut newest: Vec<_> = results.verdicts.iter().map(|verdict| (started(&verdict.run_id), verdict)).collect();
    newest.reverse();
    newest.sort_by(|(a, _), (b, _)| b.cmp(a));
    let mut rows: Vec<VerdictRow> = Vec::new();
    for (started, verdict) in newest {
        if rows.iter().any(|row| row.case == verdict.case_id) {
            continue;
        }
        let interval = verdict.lo.zip(verdict.hi).map(|(low, high)| format!(" [{low:.3}, {high:.3}]"));
        rows.push(VerdictRow {
            time: started.replace('T', " ").replace('Z', ""),
            case: verdict.case_id.clone(),
            verdict: verdict.verdict.clone(),
            tier: verdict.tier.to_string(),
            ratio: verdict.ratio.map(|ratio| format!("{ratio:.3}{}", interval.unwrap_or_default())).unwrap_or_default(),
            reason: verdict.reason.clone(),
        });
    }
    // A suite's own records have its verdicts already.
    let recorded = |suite: &&Value| results.runs.iter().any(|run| suite["run_id"] == run.run_id.as_str());
    let suite = suite.filter(|suite| !recorded(suite));
    let comparisons = suite.and_then(|suite| suite["comparisons"].as_object()).into_iter().flatten();
    rows.extend(comparisons.map(|(name, comparison)| VerdictRow {
        time: suite.map(|suite| text_of(&suite["timestamp"])).unwrap_or_default(),
        case: name.clone(),
        verdict: text_of(&comparison["verdict"]),
        tier: text_of(&comparison["tier"]),
        ratio: number(&comparison["throughput_change_percent"]).map(|p| format!("{p:+.1} %")).unwrap_or_default(),
        reason: text_of(&comparison["reason"]),
    }));
    rows
}

fn verdicts_block(mut rows: Vec<VerdictRow>) -> Vec<Block> {
    if rows.is_empty() {
        return vec![];
    }
    rows.truncate(MOST_VERDICTS);
    let row = |row: VerdictRow| {
        let mood = mood_of(&row.verdict);
        vec![
            Cell::text(row.case),
            Cell::text(row.verdict).mood(mood),
            Cell::number(row.ratio),
            Cell::number(row.tier),
            Cell::text(row.reason),
            Cell::text(row.time),
        ]
    };
    let columns = vec!["case", "verdict", "speed-up or change", "tier", "reason", "when (UTC)"];
    let note = "Tier 1: in turns with the baseline; 2: against stored numbers; 3: against the history.";
    vec![Block::Table { columns, rows: rows.into_iter().map(row).collect() }, Block::Text(note.to_owned())]
}

/// Figures by their types, where there is data.
fn figures(results: &Results, types: &[&str]) -> Vec<Block> {
    let wanted = FIGURES.iter().filter(|figure| types.contains(&figure.plot_type));
    let drawn = wanted.filter_map(|figure| {
        let svg = phalanx_render::svg::document(&(figure.draw)(results)?);
        Some(Block::Figure { svg, caption: figure.name.replace('_', " ") })
    });
    drawn.collect()
}

/// The best rate of each size of each series, by device; series of one size included.
fn best_sizes(results: &Results) -> Vec<Vec<&Rate>> {
    let mut all: Vec<Vec<&Rate>> = Vec::new();
    for rate in latest(results).into_iter().filter(|rate| rate.num_envs > 0.0) {
        let same = |sizes: &&mut Vec<&Rate>| sizes[0].series() == rate.series() && sizes[0].device == rate.device;
        match all.iter_mut().find(same) {
            Some(sizes) => match sizes.iter_mut().find(|other| other.num_envs == rate.num_envs) {
                Some(other) if other.steps_per_second < rate.steps_per_second => *other = rate,
                Some(_) => {}
                None => sizes.push(rate),
            },
            None => all.push(vec![rate]),
        }
    }
    for sizes in &mut all {
        sizes.sort_by(|a, b| a.num_envs.total_cmp(&b.num_envs));
    }
    all
}

fn throughput_blocks(results: &Results) -> Vec<Block> {
    let mut rows = Vec::new();
    for sizes in best_sizes(results) {
        let first = (sizes[0].num_envs, sizes[0].steps_per_second);
        let retention = scaling::retention(&sizes.iter().map(|rate| rate.steps_per_second).collect::<Vec<_>>());
        for (rate, retention) in sizes.iter().zip(retention) {
            let mood = if retention >= GOOD_RETENTION { Mood::Plain } else { Mood::Warn };
            // Small sizes are below the best by nature; only beyond it is a loss one.
            let best = sizes.iter().map(|rate| rate.steps_per_second).fold(0.0, f64::max);
            let beyond = sizes.iter().any(|other| other.num_envs < rate.num_envs && other.steps_per_second == best);
            rows.push(vec![
                Cell::text(rate.env.clone()),
                Cell::number(rate.num_envs.to_string()),
                Cell::number(format_number(rate.steps_per_second)),
                Cell::number(spread_text(rate)),
                Cell::number(format!("{retention:.2}")).mood(if beyond { mood } else { Mood::Plain }),
                Cell::number(rate_text(scaling::efficiency((rate.num_envs, rate.steps_per_second), first))),
                Cell::number(if rate.threads > 0.0 { rate.threads.to_string() } else { "-".to_owned() }),
                Cell::number(if rate.chunk > 0.0 { rate.chunk.to_string() } else { "-".to_owned() }),
                Cell::text(rate.kind.map_or("", Kind::name)),
                Cell::text(acting(rate)),
                disturbed_cell(rate),
            ]);
        }
    }
    if rows.is_empty() {
        return vec![];
    }
    let mut blocks = figures(results, &["throughput", "efficiency"]);
    let columns = vec![
        "environment",
        "envs",
        "steps/s",
        "interval or range",
        "retention",
        "efficiency",
        "threads",
        "chunk",
        "kind",
        "settings",
        "noisy",
    ];
    blocks.push(Block::Table { columns, rows });
    blocks.push(Block::Text(
        "Efficiency: rate per environment against that of the smallest size. Retention: rate against the best of all sizes; \
         good is 0.8 and more at the largest. Noisy: these guards refused, so the figure should not be quoted."
            .to_owned(),
    ));
    blocks
}

/// What disturbed the machine while a rate was measured.
fn disturbed_cell(rate: &Rate) -> Cell {
    let mood = if rate.disturbed_by.is_empty() { Mood::Plain } else { Mood::Warn };
    Cell::text(rate.disturbed_by.join(", ")).mood(mood)
}

fn learning_blocks(results: &Results) -> Vec<Block> {
    let mut rates = latest_of(results, |kind| kind.is_some_and(Kind::learns));
    rates.sort_by(|a, b| {
        (a.kind, &a.agent, &a.env).cmp(&(b.kind, &b.agent, &b.env)).then(a.num_envs.total_cmp(&b.num_envs))
    });
    if rates.is_empty() {
        return vec![];
    }
    let row = |rate: &&Rate| {
        let kind = rate.kind.expect("only these were asked for");
        vec![
            Cell::text(kind.name()),
            Cell::text(rate.agent.clone()),
            Cell::text(rate.env.clone()),
            Cell::number(rate.num_envs.to_string()),
            Cell::number(rate.threads.to_string()),
            Cell::number(format_number(rate.steps_per_second)),
            Cell::text(format!("{}/s", kind.unit().plural())),
            Cell::number(spread_text(rate)),
            Cell::text(chosen(rate)),
            disturbed_cell(rate),
        ]
    };
    let columns = vec![
        "kind",
        "agent",
        "environment",
        "envs",
        "threads",
        "rate",
        "unit",
        "interval or range",
        "settings",
        "noisy",
    ];
    vec![
        Block::Table { columns, rows: rates.iter().map(row).collect() },
        Block::Text(
            "training: environment and learning together. policy_forward: decisions alone. gradient_update: learning alone. \
             time_to_solve: whole runs until an evaluation of 100 episodes reaches what counts as solved."
                .to_owned(),
        ),
    ]
}

/// The same with the agent, unless that is the usual one: whatever else tells rows of one size apart.
fn acting(rate: &Rate) -> String {
    let agent = Some(rate.agent.clone()).filter(|agent| !["", "random"].contains(&agent.as_str()));
    let parts: Vec<String> = agent.into_iter().chain(Some(chosen(rate)).filter(|text| !text.is_empty())).collect();
    parts.join(", ")
}

/// The settings that are not as every case has them.
fn chosen(rate: &Rate) -> String {
    const USUAL: [&str; 3] = ["lanes=0", "safety=enforce", "seed=0"];
    let chosen: Vec<&str> = rate.settings.iter().map(String::as_str).filter(|text| !USUAL.contains(text)).collect();
    chosen.join(", ")
}

fn spread_text(rate: &Rate) -> String {
    match rate.spread {
        Some(Spread::Interval(low, high)) => format!("[{}, {}]", format_number(low), format_number(high)),
        Some(Spread::Range(low, high)) => format!("{} .. {}", format_number(low), format_number(high)),
        None => String::new(),
    }
}

fn memory_blocks(results: &Results) -> Vec<Block> {
    let mut blocks = figures(results, &["memory"]);
    let latest = latest_memory(results);
    let mut envs: Vec<&str> = latest.iter().map(|memory| memory.env.as_str()).collect();
    envs.sort_unstable();
    envs.dedup();
    let rows: Vec<Vec<Cell>> = envs
        .into_iter()
        .filter_map(|env| {
            let of_env = latest.iter().filter(|memory| memory.env == env);
            let sizes: Vec<(f64, f64)> =
                of_env.filter_map(|memory| Some((memory.num_envs, memory.peak_rss_mb? * MEGABYTE))).collect();
            let growth = MemoryGrowth::of(&sizes)?;
            let largest = sizes.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
            Some(vec![
                Cell::text(env),
                Cell::number(format!("{:.1} B", growth.bytes_per_env)),
                Cell::number(format!("[{:.1}, {:.1}]", growth.interval.low, growth.interval.high)),
                Cell::number(format_bytes(growth.fixed_bytes.max(0.0))),
                Cell::number(format_bytes(largest)),
            ])
        })
        .collect();
    if !rows.is_empty() {
        let columns = vec!["environment", "per environment", "95 % interval", "fixed", "largest peak"];
        blocks.push(Block::Table { columns, rows });
    }
    blocks
}

fn library_blocks(results: &Results) -> Vec<Block> {
    let Some(latest) = results.peers.iter().map(|peer| peer.time.as_str()).max() else { return vec![] };
    let row = |peer: &crate::results::Peer| {
        let range = |(low, high): (f64, f64)| format!("[{}, {}]", format_number(low), format_number(high));
        let faster = peer.phalanx_speedup;
        let faster = faster.map(|(r, low, high)| format!("{}x [{}, {}]", times(r), times(low), times(high)));
        let (mode, rate) = match peer.steps_per_second {
            Some(rate) => (Cell::text(peer.mode.clone()), format_number(rate)),
            None => (Cell::text(peer.error.clone()).mood(Mood::Unknown), "-".to_owned()),
        };
        vec![
            Cell::text(peer.kind.clone()),
            Cell::text(format!("{} {}", peer.library, peer.library_version).trim().to_owned()),
            mode,
            Cell::number(peer.num_envs.to_string()),
            Cell::number(rate),
            Cell::number(peer.interval.map(range).unwrap_or_default()),
            Cell::number(faster.unwrap_or_default()),
            Cell::number(peer.startup_s.map(format_seconds).unwrap_or_default()),
        ]
    };
    let mut blocks = figures(results, &["comparison"]);
    let rows = results.peers.iter().filter(|peer| peer.time == latest).map(row).collect();
    let columns =
        vec!["kind", "library", "mode", "envs", "steps/s", "95 % interval", "phalanx is faster by", "startup"];
    blocks.push(Block::Table { columns, rows });
    let note = format!("Measured {} UTC, in turns on one machine. Kinds are not comparable.", readable_time(latest));
    blocks.push(Block::Text(note));
    if let Some(peer) = results.peers.iter().find(|peer| peer.time == latest && !peer.noisy.is_empty()) {
        blocks.push(Block::Text(format!("Noisy: the guards refuse ({}). Do not quote these figures.", peer.noisy)));
    }
    blocks
}

/// The trends of the last machine: those of `bench trend`, and of runs that left only tables.
fn trends(results: &Results) -> Vec<NamedTrend> {
    let last = |series: &&Series| series.entries.last().map(|entry| entry.started_at.clone());
    let machine = results.series.iter().max_by_key(last).map(|series| &series.key.fingerprint);
    let wanted = |series: &&Series| Some(&series.key.fingerprint) == machine && series.entries.len() > 1;
    let series: Vec<&Series> = results.series.iter().filter(wanted).collect();
    let keys: Vec<&SeriesKey> = series.iter().map(|series| &series.key).collect();
    let recorded = series.iter().map(|series| named_trend(SeriesTrend::of((*series).clone(), None), &keys));
    let all = histories(results);
    let tables = all.iter().filter(|history| history.rates.iter().all(|rate| rate.run_id.is_none())).map(|history| {
        let rates: Vec<f64> = history.rates.iter().map(|rate| rate.steps_per_second).collect();
        let noise_percent = noise_percent(&rates);
        let (name, runs) = (history.name.clone(), rates.len());
        NamedTrend { name, runs, noise_percent, trend: Trend::of(&rates, noise_percent), changes: Vec::new() }
    });
    recorded.chain(tables).collect()
}

/// A trend under a name that no other of these series has.
fn named_trend(trend: SeriesTrend, all: &[&SeriesKey]) -> NamedTrend {
    let SeriesTrend { series, direction, noise_percent, changes, .. } = trend;
    let key = &series.key;
    let name = match all.iter().filter(|other| other.case_id == key.case_id).count() {
        1 => key.case_id.clone(),
        _ => format!("{} ({}{})", key.case_id, key.suite, if key.paired { ", in turns" } else { "" }),
    };
    NamedTrend { name, runs: series.entries.len(), noise_percent, trend: direction, changes }
}

fn trend_blocks(results: &Results, trends: &[NamedTrend]) -> Vec<Block> {
    if trends.is_empty() {
        return vec![];
    }
    let mut blocks = figures(results, &["trends"]);
    blocks.push(trend_table(trends));
    blocks
}

fn trend_table(trends: &[NamedTrend]) -> Block {
    let row = |named: &NamedTrend| {
        let Trend { trend, change_percent, recent_avg, historical_avg } = named.trend;
        let name = trend.name();
        let rate = |rate: Option<f64>| Cell::number(rate.map(format_number).unwrap_or_default());
        vec![
            Cell::text(named.name.clone()),
            Cell::text(name).mood(mood_of(name)),
            Cell::number(change_percent.map(|percent| format!("{percent:+.1} %")).unwrap_or_default()),
            rate(recent_avg),
            rate(historical_avg),
            Cell::number(format!("{:.1} %", named.noise_percent)),
            Cell::number(named.runs.to_string()),
            Cell::text(named.changes.iter().map(change_text).collect::<Vec<_>>().join(", ")),
        ]
    };
    let columns = vec!["series", "trend", "change", "last three", "before", "noise", "runs", "change points"];
    Block::Table { columns, rows: trends.iter().map(row).collect() }
}

fn change_text(change: &Change) -> String {
    let day = change.first_after.started_at.get(..10).unwrap_or(&change.first_after.started_at);
    let provisional = if change.point.provisional { ", provisional" } else { "" };
    format!("{:+.1} % on {day}{provisional}", 100.0 * (change.point.ratio - 1.0))
}

fn category_blocks(categories: &Value) -> Vec<Block> {
    let rows: Vec<Vec<Cell>> = categories
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, stats)| {
            let value = |field: &str| Cell::number(number(&stats[field]).map_or("-".to_owned(), format_number));
            let slow = number(&stats["avg_throughput"]).is_some_and(|rate| rate < SLOW_PER_SECOND);
            let fields =
                ["count", "avg_throughput", "std_throughput", "max_throughput", "avg_memory_peak", "max_memory_peak"];
            let mut row = vec![Cell::text(name.clone())];
            row.extend(fields.map(value));
            row[2].mood = if slow { Mood::Warn } else { Mood::Plain };
            row
        })
        .collect();
    if rows.is_empty() {
        return vec![];
    }
    let columns =
        vec!["category", "count", "mean rate", "deviation", "highest rate", "mean peak (MB)", "highest peak (MB)"];
    vec![Block::Table { columns, rows }]
}

fn machine_blocks(machine: &Machine, run: Option<(&Run, &Readings)>) -> Vec<Block> {
    let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    let kib = |size: Option<u64>| size.map_or("?".to_owned(), |kib| format_bytes(kib as f64 * 1024.0));
    let caches = [machine.caches.l1_kib, machine.caches.l2_kib, machine.caches.l3_kib].map(kib).join(" / ");
    let mut rows: Vec<(&str, String)> = vec![
        ("name", machine.name.clone()),
        ("CPU", known(machine.cpu.clone())),
        ("cores / threads", [machine.cores, machine.threads].map(|n| known(n.map(|n| n.to_string()))).join(" / ")),
        ("caches L1 / L2 / L3", caches),
        ("instruction sets", machine.isa.join(", ")),
        ("memory", known(machine.mem.total_bytes.map(|bytes| format_bytes(bytes as f64)))),
        ("system", format!("{}, kernel {}", machine.os, known(machine.kernel.clone()))),
        ("virtualised by", known(machine.virt.clone())),
        ("fingerprint", machine.fingerprint.clone()),
    ];
    match run {
        Some((run, _)) => {
            let dirty = if run.git.dirty == Some(true) { ", with changes" } else { "" };
            rows.push(("Phalanx", format!("{} ({})", run.build.version, run.build.profile)));
            rows.push(("commit", known(run.git.sha.clone().map(|sha| format!("{sha}{dirty}")))));
            rows.push(("compiler", known(run.build.rustc.clone())));
            rows.push(("last run", format!("{} at {}", run.run_id, run.started_at)));
        }
        None => rows.push(("note", "no run names its machine: this is the one that made the report".to_owned())),
    }
    let row = |(name, text): (&str, String)| vec![Cell::text(name), Cell::text(text)];
    let mut blocks = vec![Block::Table { columns: vec!["machine", ""], rows: rows.into_iter().map(row).collect() }];
    if let Some((_, guards)) = run {
        let guard = |(name, reading): (&String, &crate::guards::Reading)| {
            let (status, mood) = match reading.status {
                Status::Ok => ("ok", Mood::Good),
                Status::Unknown => ("unknown", Mood::Unknown),
                Status::Warn => ("warn", Mood::Warn),
                Status::Refuse => ("refuse", Mood::Bad),
            };
            let value = match number(&reading.value) {
                Some(value) => format_number(value),
                None => text_of(&reading.value),
            };
            vec![Cell::text(name.clone()), Cell::text(status).mood(mood), Cell::text(value)]
        };
        let rows = guards.0.iter().map(guard).collect();
        blocks.push(Block::Table { columns: vec!["guard of the last run", "status", "value"], rows });
    }
    blocks
}

/// Those of the suite, and what rates and memory say beside it.
fn recommendations(results: &Results, suite: Option<&Value>) -> Vec<String> {
    let given = suite.and_then(|suite| suite["recommendations"].as_array()).into_iter().flatten();
    let mut advice: Vec<String> = given.map(text_of).collect();
    let categories = suite.and_then(|suite| suite["category_stats"].as_object()).into_iter().flatten();
    for (name, stats) in categories {
        // The suite may have said so itself.
        let said = advice.iter().any(|line| line.starts_with(&format!("{name}:")));
        if let Some(rate) = number(&stats["avg_throughput"]).filter(|rate| *rate < SLOW_PER_SECOND && !said) {
            advice.push(format!("{name}: {} per second on average; profile and optimise it", format_number(rate)));
        }
        if let Some(peak) = number(&stats["max_memory_peak"]).filter(|peak| *peak > MUCH_MEMORY_MB && !said) {
            advice.push(format!("{name}: up to {peak:.0} MB; reduce its memory (num_envs, scan_chunk_size, buffers)"));
        }
    }
    let all = best_sizes(results);
    for sizes in all.iter().filter(|sizes| sizes.len() > 2) {
        let best = sizes.iter().map(|rate| rate.steps_per_second).fold(0.0, f64::max);
        if let Some(last) = sizes.last().filter(|last| last.steps_per_second < GOOD_RETENTION * best) {
            advice.push(format!(
                "{}: {} environments keep {:.0} % of the best rate; reduce scan_chunk_size there",
                last.env,
                format_number(last.num_envs),
                100.0 * last.steps_per_second / best
            ));
        }
    }
    for many in all.iter().flatten().filter(|rate| rate.threads > 1.0) {
        let same = |one: &&&Rate| {
            one.threads == 1.0 && one.env == many.env && one.kind == many.kind && one.num_envs == many.num_envs
        };
        let one = all.iter().flatten().find(same).filter(|one| one.device == many.device);
        if let Some(one) = one.filter(|one| many.steps_per_second < 1.2 * one.steps_per_second) {
            advice.push(format!(
                "{}: {} threads are {}x as fast as one with {} environments; check other load, start-up share and threads",
                many.env,
                many.threads,
                times(many.steps_per_second / one.steps_per_second),
                format_number(many.num_envs)
            ));
        }
    }
    for gpu in all.iter().flatten().filter(|rate| rate.device == "gpu") {
        let cpu = all.iter().flatten().filter(|cpu| {
            cpu.device == "cpu" && cpu.env == gpu.env && cpu.kind == gpu.kind && cpu.num_envs == gpu.num_envs
        });
        if cpu.map(|cpu| cpu.steps_per_second).fold(0.0, f64::max) > gpu.steps_per_second {
            let envs = format_number(gpu.num_envs);
            advice.push(format!(
                "{}: the GPU is slower than the CPU with {envs} environments; check the device or take more",
                gpu.env
            ));
        }
    }
    advice
}
