//! `phalanx plot`: learning curves of runs, as PNG and SVG.

mod curves;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use phalanx_lab::figures::Files;
use phalanx_lab::stats::interval::CONFIDENCE;
use phalanx_learn::run::config::Config;
use phalanx_learn::run::directory::load_run;
use phalanx_learn::run::log::{Log, Point};
use phalanx_render::plot::{Datum, Form, Layer, Marker, Plot, PlotAxis};
use serde::Serialize;

use self::curves::{Curve, Group, IntervalKind, groups};
use crate::args::count;
use crate::commands::{print, print_json};
use crate::failure::Failure;
use crate::files::{Kind, check_target, write_atomically};

/// Points of a line that can still have a mark each.
const MOST_MARKS: usize = 30;
/// How deep below a given folder runs are looked for: `outputs/2026-07-22/13-05-01`.
const DEPTH: usize = 3;

#[derive(Debug, Args)]
pub(crate) struct PlotArgs {
    /// Folders of runs, of sweeps, or with runs in them; runs that differ in their seed only become one line with an
    /// interval
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// What is drawn: a tag of the log
    #[arg(long, value_name = "TAG", default_value = "eval/return/mean")]
    metric: String,
    /// What it is drawn over
    #[arg(long, value_name = "X", default_value = "global_step")]
    x: Abscissa,
    /// The 95 % interval of the mean over seeds: t assumes that means are normally distributed, bootstrap takes the
    /// percentiles of 10 000 means of seeds drawn with replacement (too narrow for fewer than about ten seeds)
    #[arg(long, value_name = "KIND", default_value = "t")]
    interval: IntervalKind,
    /// Lines at most; of more, those that end highest are drawn
    #[arg(long, value_name = "N", default_value = "6", value_parser = count)]
    top: usize,
    /// File to write, .png or .svg; without an ending both are written
    #[arg(long, value_name = "FILE", default_value = "learning_curves")]
    out: PathBuf,
    /// Title of the figure [default: the environment and, if there is only one, the agent]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Print nothing but JSON
    #[arg(short, long)]
    quiet: bool,
}

/// What the x axis shows.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum, Serialize)]
#[value(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
enum Abscissa {
    /// Steps of all environments together
    GlobalStep,
    /// Seconds since the first entry of the log
    WallTime,
    /// Steps of each environment
    StepsPerEnv,
}

impl Abscissa {
    fn label(self) -> &'static str {
        match self {
            Self::GlobalStep => "steps of all environments",
            Self::WallTime => "time since the first entry of the log (s)",
            Self::StepsPerEnv => "steps of each environment",
        }
    }

    fn of(self, point: &Point, log: &Log, config: &Config) -> f64 {
        match self {
            Self::GlobalStep => point.global_step as f64,
            Self::WallTime => point.wall_time - log.start(),
            Self::StepsPerEnv => point.global_step as f64 / config.run.num_envs as f64,
        }
    }
}

/// What an axis calls a tag that many plots show.
fn described(metric: &str) -> String {
    match metric {
        "eval/return/mean" => "return, mean of the episodes of an evaluation".to_owned(),
        "eval/length/mean" => "steps, mean of the episodes of an evaluation".to_owned(),
        "eval/cost/mean" => "violations, mean of the episodes of an evaluation".to_owned(),
        "charts/episodic_return" => "return, mean of the episodes that ended in training".to_owned(),
        "charts/episodic_length" => "steps, mean of the episodes that ended in training".to_owned(),
        "charts/SPS" => "training speed (steps/s)".to_owned(),
        tag => tag.to_owned(),
    }
}

#[derive(Serialize)]
struct Report<'a> {
    files: Vec<PathBuf>,
    metric: &'a str,
    x: Abscissa,
    interval: IntervalKind,
    confidence: f64,
    lines: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    seeds: Vec<u64>,
    runs: Vec<&'a Path>,
    x: Vec<f64>,
    mean: Vec<f64>,
    /// Lower and upper ends; none for a single seed.
    interval: Vec<Option<(f64, f64)>>,
}

pub(crate) fn run(args: &PlotArgs) -> Result<(), Failure> {
    let targets = targets(&args.out)?;
    let found = read(args)?;
    let mut groups = groups(found);
    let lines: Vec<Vec<Datum>> = groups.iter().map(|group| group.line(args.interval)).collect();
    let mut lines: Vec<(Group, Vec<Datum>)> = groups.drain(..).zip(lines).collect();
    if lines.len() > args.top {
        let last = |(_, line): &(Group, Vec<Datum>)| line.last().map_or(f64::NEG_INFINITY, |datum| datum.y);
        lines.sort_by(|one, other| last(other).total_cmp(&last(one)));
        say!(
            "warning: {} of {} lines are left out, those that end lowest (see --top)",
            lines.len() - args.top,
            lines.len()
        );
        lines.truncate(args.top);
    }
    let files = Files::of(&figure(args, &lines).scene()).map_err(Failure::picture)?;
    for (_, path, kind) in &targets {
        write_atomically(path, if *kind == Kind::Png { &files.png } else { &files.svg })?;
    }
    let written: Vec<PathBuf> = targets.into_iter().map(|(given, ..)| given).collect();
    if args.json {
        let lines = lines.iter().map(|(group, line)| Line {
            name: &group.name,
            seeds: group.curves.iter().map(|curve| curve.config.run.seed).collect(),
            runs: group.curves.iter().map(|curve| curve.run.as_path()).collect(),
            x: line.iter().map(|datum| datum.x).collect(),
            mean: line.iter().map(|datum| datum.y).collect(),
            interval: line.iter().map(|datum| datum.interval).collect(),
        });
        return print_json(&Report {
            files: written,
            metric: &args.metric,
            x: args.x,
            interval: args.interval,
            confidence: CONFIDENCE,
            lines: lines.collect(),
        });
    }
    if args.quiet {
        return Ok(());
    }
    print(&written.iter().map(|path| format!("{}\n", path.display())).collect::<String>())
}

/// The files to write: as they were given, and what that stands for.
fn targets(out: &Path) -> Result<Vec<(PathBuf, PathBuf, Kind)>, Failure> {
    let target = |given: PathBuf, kind| check_target(&given, kind).map(|target| (given, target, kind));
    let kinds = [("png", Kind::Png), ("svg", Kind::Svg)];
    let ending = out.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let chosen = kinds.into_iter().find(|(known, _)| ending.as_deref() == Some(*known));
    match (chosen, ending) {
        (Some((_, kind)), _) => Ok(vec![target(out.to_owned(), kind)?]),
        (None, None) => kinds.into_iter().map(|(ending, kind)| target(out.with_extension(ending), kind)).collect(),
        (None, Some(ending)) => {
            Err(Failure::input(format!("--out {} ends in .{ending}, but must end in .png or .svg", out.display())))
        }
    }
}

/// The curves of all runs that were given.
fn read(args: &PlotArgs) -> Result<Vec<Curve>, Failure> {
    let mut curves: Vec<Curve> = Vec::new();
    for given in &args.runs {
        // What is a run, or nothing at all, is taken by its word; a folder with runs is searched.
        if given.join("config.toml").exists() || !given.is_dir() {
            curves.push(curve(args, given)?);
            continue;
        }
        let (mut found, mut runs) = (0, Vec::new());
        search(given, DEPTH, &mut runs);
        runs.sort();
        let mut failures = Vec::new();
        for run in &runs {
            match curve(args, run) {
                Ok(curve) => {
                    curves.push(curve);
                    found += 1;
                }
                Err(failure) => failures.push(failure),
            }
        }
        if found == 0 {
            let none = || Failure::input(format!("{} is no run, and there is none in it", given.display()));
            // What is wrong with all is most likely wrong with what was asked for: one of them says it.
            return Err(failures.pop().unwrap_or_else(none));
        }
        failures.iter().for_each(|failure| say!("warning: left out: {failure}"));
    }
    // The same run twice would pass for two seeds.
    let mut different: Vec<Curve> = Vec::with_capacity(curves.len());
    for curve in curves {
        match different.iter().find(|other| other.config.difference(&curve.config).is_none()) {
            Some(other) => say!(
                "warning: left out: {} has the settings and the seed of {}",
                curve.run.display(),
                other.run.display()
            ),
            None => different.push(curve),
        }
    }
    Ok(different)
}

/// The folders of runs below a folder.
fn search(folder: &Path, depth: usize, runs: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        if path.join("config.toml").exists() {
            runs.push(path);
        } else if depth > 1 {
            search(&path, depth - 1, runs);
        }
    }
}

fn curve(args: &PlotArgs, run: &Path) -> Result<Curve, Failure> {
    let config = load_run(run)?.config;
    let log = Log::read(run)?;
    let points = log.points(&args.metric)?;
    if points.is_empty() {
        return Err(Failure::input(format!("{} has no number for {}", run.display(), args.metric)));
    }
    let points = points.iter().map(|point| (args.x.of(point, &log, &config), point.value)).collect();
    Ok(Curve { run: run.to_owned(), config, points })
}

fn figure(args: &PlotArgs, lines: &[(Group, Vec<Datum>)]) -> Plot {
    let title = args.title.clone().unwrap_or_else(|| curves::title(lines.iter().map(|(group, _)| group)));
    let mut layers = Vec::new();
    // A single point has no band: it gets a bar.
    let has_band = |line: &[Datum]| line.len() > 1;
    for (series, (_, line)) in lines.iter().enumerate().filter(|(_, (_, line))| has_band(line)) {
        layers.push(Layer::line("", series, line.clone()).form(Form::Band).marker(Marker::None));
    }
    for (series, (group, line)) in lines.iter().enumerate() {
        // A band shows the intervals.
        let bare: Vec<Datum> =
            if has_band(line) { line.iter().map(|datum| Datum::new(datum.x, datum.y)).collect() } else { line.clone() };
        let marker = if bare.len() <= MOST_MARKS { Marker::of_series(series) } else { Marker::None };
        let seeds = match group.curves.len() {
            1 => "1 seed".to_owned(),
            seeds => format!("{seeds} seeds"),
        };
        layers.push(Layer::line(format!("{} ({seeds})", group.name), series, bare).marker(marker));
    }
    let several = lines.iter().any(|(group, _)| group.curves.len() > 1);
    let kind = match args.interval {
        IntervalKind::T => "t",
        IntervalKind::Bootstrap => "bootstrap",
    };
    let drawn = if lines.iter().any(|(_, line)| has_band(line)) { ("lines", "bands") } else { ("points", "bars") };
    let (mean, shown) = drawn;
    let note =
        if several { format!("{mean}: mean over seeds; {shown}: its 95 % {kind} interval") } else { String::new() };
    let end = lines.iter().flat_map(|(_, line)| line).map(|datum| datum.x).fold(0.0, f64::max);
    let x = PlotAxis::linear(args.x.label());
    // No longer than the runs, if they had a length.
    let x = if end > 0.0 { x.range(0.0, end) } else { x };
    Plot::new(title, x, PlotAxis::linear(described(&args.metric)), layers).note(note)
}
