//! The figures of the lab, drawn from stored [`Results`].
//!
//! A new figure is a function from results to a picture and a row of [`FIGURES`].

use std::collections::{BTreeSet, HashMap};

use phalanx_render::bars::{Bar, Bars, Group};
use phalanx_render::plot::{Datum, Form, Layer, Marker, Plot, PlotAxis, Scale, series_colour, short_number};
use phalanx_render::{Colour, Scene, Text, png, raster, svg};

use crate::record::Kind;
use crate::results::{MemoryUse, Peer, Rate, Results, SeriesKey, Spread, readable_time};
use crate::stats::change_points::{Settings, detect};
use crate::stats::growth::MemoryGrowth;
use crate::stats::scaling;
use crate::suite::GOOD_RETENTION;
use crate::throughput::MEGABYTE;

/// Pixels per inch of the pictures, whose scenes have 96 units per inch.
const DOTS_PER_INCH: f64 = 150.0;
const UNITS_PER_INCH: f64 = 96.0;
const GREY: Colour = Colour::rgb(0x5B6270);
/// Lines of one figure that can still be told apart.
const MOST_SERIES: usize = 6;

/// A kind of figure.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// The name of its files.
    pub name: &'static str,
    /// What `--plot-type` calls it.
    pub plot_type: &'static str,
    /// What there must be for it, and how to measure that.
    pub needs: &'static str,
    /// The picture; `None` without data for it.
    pub draw: fn(&Results) -> Option<Scene>,
}

/// A line has two points at least.
const TWO_SIZES: &str = "two numbers of environments with equal settings (bench throughput)";

/// Every figure.
pub const FIGURES: [Figure; 6] = [
    Figure { name: "throughput_scaling", plot_type: "throughput", needs: TWO_SIZES, draw: throughput_scaling },
    Figure { name: "scaling_efficiency", plot_type: "efficiency", needs: TWO_SIZES, draw: scaling_efficiency },
    Figure {
        name: "memory_scaling",
        plot_type: "memory",
        needs: "two numbers of environments (bench memory)",
        draw: memory_scaling,
    },
    Figure {
        name: "scan_chunk_sensitivity",
        plot_type: "chunk",
        needs: "two chunk sizes (bench throughput --scan-chunks)",
        draw: scan_chunk_sensitivity,
    },
    Figure {
        name: "library_comparison",
        plot_type: "comparison",
        needs: "a comparison (bench comparison)",
        draw: library_comparison,
    },
    Figure { name: "performance_trends", plot_type: "trends", needs: "two runs of one case", draw: performance_trends },
];

/// A picture as files, of a figure here or of one's own.
///
/// ```
/// use phalanx_lab::figures::Files;
/// use phalanx_render::plot::{Datum, Layer, Plot, PlotAxis};
///
/// let data = [(100.0, 2e6), (10_000.0, 9e6)].map(|(elements, rate)| Datum::new(elements, rate));
/// let (x, y) = (PlotAxis::log("elements"), PlotAxis::log("sums per second"));
/// let plot = Plot::new("A benchmark of my own", x, y, vec![Layer::line("sum", 0, data.into())]);
/// let Files { png, svg } = Files::of(&plot.scene())?;
/// assert!(png.starts_with(b"\x89PNG") && svg.starts_with(b"<svg"));
/// # Ok::<(), phalanx_render::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Files {
    /// At 150 dots per inch.
    pub png: Vec<u8>,
    /// For print and browsers.
    pub svg: Vec<u8>,
}

impl Files {
    /// Both files of a scene.
    pub fn of(scene: &Scene) -> Result<Self, phalanx_render::Error> {
        let image = raster::image(scene, DOTS_PER_INCH / UNITS_PER_INCH)?;
        Ok(Self { png: png::encode_at(&image, DOTS_PER_INCH)?, svg: svg::document(scene).into_bytes() })
    }
}

/// A picture that says that there is nothing to show.
pub fn no_data(figure: &Figure) -> Scene {
    let mut scene = Scene::new(800.0, 160.0, Colour::WHITE);
    let title = figure.name.replace('_', " ");
    scene.text(Text::new((16.0, 32.0), 15.0, title, Colour::rgb(0x22262E)).bold());
    scene.text(Text::new((400.0, 95.0), 15.0, "No data", GREY).anchor(phalanx_render::Anchor::Middle));
    scene
}

/// Rates that one line of a figure shows, in the order of the environments: the best of each size.
struct Line<'a> {
    name: String,
    points: Vec<&'a Rate>,
}

/// The better of two rates of the same thing; of equal ones, the one whose interval is known.
fn better<'a>(a: &'a Rate, b: &'a Rate) -> &'a Rate {
    let known = |rate: &Rate| matches!(rate.spread, Some(Spread::Interval(..)));
    let equal = (a.steps_per_second / b.steps_per_second - 1.0).abs() < 1e-6;
    match equal {
        true if known(b) && !known(a) => b,
        true => a,
        false if b.steps_per_second > a.steps_per_second => b,
        false => a,
    }
}

/// The best rates by whatever `x` is, for each different `key`, in the order of their first appearance.
fn best_by<'a, K: PartialEq>(
    rates: impl Iterator<Item = &'a Rate>,
    key: impl Fn(&Rate) -> K,
    x: impl Fn(&Rate) -> f64,
) -> Vec<(K, Vec<&'a Rate>)> {
    let mut lines: Vec<(K, Vec<&Rate>)> = Vec::new();
    for rate in rates {
        let key = key(rate);
        let at = lines.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            lines.push((key, Vec::new()));
            lines.len() - 1
        });
        let points = &mut lines[at].1;
        match points.iter_mut().find(|point| x(point) == x(rate)) {
            Some(point) => *point = better(point, rate),
            None => points.push(rate),
        }
    }
    for (_, points) in &mut lines {
        points.sort_by(|a, b| x(a).total_cmp(&x(b)));
    }
    lines
}

/// The last machine that is named; `None` if none is. What machines show has no common line.
fn newest_machine<'a>(found: impl Iterator<Item = (&'a str, &'a str)>) -> Option<&'a str> {
    found.filter(|(_, machine)| !machine.is_empty()).max().map(|(_, machine)| machine)
}

/// A machine in the words of its runs, else by whatever tells it from others.
fn machine_name(results: &Results, machine: &str) -> String {
    let run = results.runs.iter().find(|run| run.machine.fingerprint == machine);
    run.map_or_else(|| machine.to_owned(), |run| run.machine.name.clone())
}

/// What a figure says of the machines behind its points: the one that it shows, and how many it does not.
fn machine_note<'a>(results: &Results, all: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> String {
    let Some(shown) = newest_machine(all.clone()) else { return String::new() };
    let others: BTreeSet<&str> = all.map(|(_, machine)| machine).filter(|machine| *machine != shown).collect();
    let left_out = match others.len() {
        0 => String::new(),
        1 => " (another machine is left out)".to_owned(),
        many => format!(" ({many} other machines are left out)"),
    };
    format!("on {}{left_out}", machine_name(results, shown))
}

fn rate_origins(results: &Results) -> impl Iterator<Item = (&str, &str)> + Clone {
    results.rates.iter().map(|rate| (rate.time.as_str(), rate.machine.as_str()))
}

fn memory_origins(results: &Results) -> impl Iterator<Item = (&str, &str)> + Clone {
    results.memory.iter().map(|memory| (memory.time.as_str(), memory.machine.as_str()))
}

/// Parts of a note, the most important first, for a long one is cut; without those that say nothing.
fn notes(parts: &[&str]) -> String {
    let said: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    said.join("; ")
}

/// That a figure shows fewer series than there are.
fn cut_note(left_out: usize) -> String {
    if left_out > 0 { format!("{left_out} more series not shown") } else { String::new() }
}

/// Rates of environments on the last machine, without those that a later run has measured again: a build of yesterday is
/// not the one of today, however fast.
pub(crate) fn latest(results: &Results) -> Vec<&Rate> {
    latest_of(results, |kind| !kind.is_some_and(Kind::learns))
}

/// The same of some kinds.
pub(crate) fn latest_of(results: &Results, wanted: impl Fn(Option<Kind>) -> bool) -> Vec<&Rate> {
    let key = |rate: &Rate| (rate.series(), rate.device.clone(), rate.num_envs as u64, rate.chunk as u64);
    let machine = newest_machine(rate_origins(results));
    let here = || results.rates.iter().filter(|rate| machine.is_none_or(|machine| rate.machine == machine));
    let mut newest: HashMap<_, &str> = HashMap::new();
    for rate in here() {
        let time = newest.entry(key(rate)).or_insert(&rate.time);
        *time = (*time).max(&rate.time);
    }
    here().filter(|rate| wanted(rate.kind) && newest[&key(rate)] == rate.time).collect()
}

/// Memory on the last machine, the newest of each size, in the same way.
pub(crate) fn latest_memory(results: &Results) -> Vec<&MemoryUse> {
    let key = |memory: &MemoryUse| (memory.env.clone(), memory.num_envs as u64, memory.chunk as u64);
    let machine = newest_machine(memory_origins(results));
    let here = || results.memory.iter().filter(|memory| machine.is_none_or(|machine| memory.machine == machine));
    let mut newest: HashMap<_, &str> = HashMap::new();
    for memory in here() {
        let time = newest.entry(key(memory)).or_insert(&memory.time);
        *time = (*time).max(&memory.time);
    }
    here().filter(|memory| newest[&key(memory)] == memory.time).collect()
}

/// Lines over the number of environments, on one device, and how many more there are.
fn scaling_lines<'a>(results: &'a Results, device: &str) -> (Vec<Line<'a>>, usize) {
    let of_device = latest(results).into_iter().filter(|rate| rate.device == device && rate.num_envs > 0.0);
    let mut lines = best_by(of_device, Rate::series, |rate| rate.num_envs);
    lines.retain(|(_, points)| points.len() > 1);
    lines.sort_by_key(|(_, points)| std::cmp::Reverse(points.len()));
    let left_out = lines.len().saturating_sub(MOST_SERIES);
    lines.truncate(MOST_SERIES);
    let keys: Vec<_> = lines.iter().map(|(key, _)| key.clone()).collect();
    let lines = lines.into_iter().map(|(key, points)| Line { name: series_name(&key, &keys), points });
    (lines.collect(), left_out)
}

/// The environment, and whatever else tells it from the others.
fn series_name(key: &SeriesKey, all: &[SeriesKey]) -> String {
    let (env, agent, kind, threads, settings) = key;
    let differ = |of: fn(&SeriesKey) -> String| all.iter().any(|other| of(other) != of(key));
    let mut name = if env.is_empty() { "unnamed".to_owned() } else { env.clone() };
    if differ(|key| key.2.map_or("", Kind::name).to_owned()) {
        name += &format!(" {}", kind.map_or("unknown kind", Kind::name));
    }
    if differ(|key| key.1.clone()) && !agent.is_empty() {
        name += &format!(" {agent}");
    }
    if differ(|key| key.3.to_string()) && *threads > 0 {
        name += &format!(" {threads} thread{}", if *threads == 1 { "" } else { "s" });
    }
    for setting in settings.iter().filter(|setting| all.iter().any(|other| !other.4.contains(setting))) {
        name += &format!(" {setting}");
    }
    name
}

fn devices<'a>(rates: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut devices: Vec<&str> = rates.collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// Pictures side by side.
fn beside(scenes: Vec<Scene>) -> Option<Scene> {
    let (width, height) = (scenes.iter().map(|s| s.width).sum(), scenes.iter().map(|s| s.height).fold(0.0, f64::max));
    let mut page = Scene::new(width, height, scenes.first()?.background);
    let mut x = 0.0;
    for scene in scenes {
        let width = scene.width;
        page.place(scene, (x, 0.0));
        x += width;
    }
    Some(page)
}

/// What the error bars of rates are.
fn spread_note<'a>(rates: impl Iterator<Item = &'a Rate>) -> &'static str {
    let (mut interval, mut range) = (false, false);
    for spread in rates.filter_map(|rate| rate.spread) {
        match spread {
            Spread::Interval(..) => interval = true,
            Spread::Range(..) => range = true,
        }
    }
    match (interval, range) {
        (true, false) => "error bars: 95 % intervals",
        (false, true) => "error bars: slowest to fastest sample",
        (true, true) => "error bars: 95 % intervals, or slowest to fastest sample where there is none",
        (false, false) => "",
    }
}

fn datum(x: f64, rate: &Rate) -> Datum {
    Datum::new(x, rate.steps_per_second).interval(rate.spread.map(Spread::ends)).label(rate_text(rate.steps_per_second))
}

/// Steps per second by number of environments, with what perfect scaling would be; one panel per device.
fn throughput_scaling(results: &Results) -> Option<Scene> {
    let machine = machine_note(results, rate_origins(results));
    let panels = devices(results.rates.iter().map(|rate| rate.device.as_str())).into_iter().filter_map(|device| {
        let (lines, left_out) = scaling_lines(results, device);
        let most = lines.iter().flat_map(|line| &line.points).map(|rate| rate.steps_per_second).fold(0.0, f64::max);
        let mut layers = Vec::new();
        for (i, line) in lines.iter().enumerate() {
            // As far as the fastest of all, and a little more: the rest is empty paper.
            let (first, last) = (line.points.first()?, line.points.last()?);
            let end = (first.num_envs * 2.0 * most / first.steps_per_second).min(last.num_envs);
            let perfect = [first.num_envs, end];
            let perfect = perfect.map(|n| Datum::new(n, first.steps_per_second * n / first.num_envs));
            let name = if i == 0 { "perfect scaling" } else { "" };
            layers.push(Layer::dashed(name, if lines.len() == 1 { GREY } else { series_colour(i) }, perfect.into()));
        }
        for (i, line) in lines.iter().enumerate() {
            let data = line.points.iter().map(|rate| datum(rate.num_envs, rate)).collect();
            layers.push(Layer::line(&line.name, i, data));
        }
        if lines.is_empty() {
            return None;
        }
        let x = PlotAxis::log("environments");
        let y = PlotAxis::log("throughput (environment steps per second)");
        let spread = spread_note(lines.iter().flat_map(|line| line.points.iter().copied()));
        let note = notes(&[&machine, &cut_note(left_out), spread]);
        Some(Plot::new(format!("Throughput by number of environments, {device}"), x, y, layers).note(note).scene())
    });
    beside(panels.collect())
}

/// Efficiency and retention by number of environments.
fn scaling_efficiency(results: &Results) -> Option<Scene> {
    let mut panels = Vec::new();
    let machine = machine_note(results, rate_origins(results));
    for device in devices(results.rates.iter().map(|rate| rate.device.as_str())) {
        let (lines, left_out) = scaling_lines(results, device);
        if lines.is_empty() {
            continue;
        }
        let layers = |of: &dyn Fn(&Line<'_>) -> Vec<f64>| -> Vec<Layer> {
            let layer = |(i, line): (usize, &Line<'_>)| {
                let data =
                    line.points.iter().zip(of(line)).map(|(rate, value)| {
                        Datum::new(rate.num_envs, value).label(short_number(significant(value, 2)))
                    });
                Layer::line(&line.name, i, data.collect())
            };
            lines.iter().enumerate().map(layer).collect()
        };
        let efficiency = layers(&|line| {
            let first = (line.points[0].num_envs, line.points[0].steps_per_second);
            let points = line.points.iter();
            points.map(|rate| scaling::efficiency((rate.num_envs, rate.steps_per_second), first)).collect()
        });
        let mut retention = layers(&|line| {
            scaling::retention(&line.points.iter().map(|rate| rate.steps_per_second).collect::<Vec<_>>())
        });
        let ends = lines.iter().flat_map(|line| [line.points.first(), line.points.last()]).flatten();
        let (low, high) =
            ends.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(rate.num_envs), high.max(rate.num_envs)));
        retention
            .insert(0, Layer::dashed("good: 0.8", GREY, [low, high].map(|n| Datum::new(n, GOOD_RETENTION)).into()));
        let x = || PlotAxis::log("environments");
        let y = PlotAxis::log("efficiency (per-environment rate, 1 = smallest size)");
        let left = Plot::new(format!("Scaling efficiency, {device}"), x(), y, efficiency).note(notes(&[
            "can only fall once all cores are busy",
            &machine,
            &cut_note(left_out),
        ]));
        let y = PlotAxis::linear("retention (share of the best rate)").range(0.0, 1.05);
        let y = y.ticks([0.0, 0.2, 0.4, 0.6, 0.8, 1.0].map(|tick| (tick, format!("{tick:.1}"))).into());
        let right = Plot::new(format!("Retention, {device}"), x(), y, retention)
            .note("judged where cores are busy at the smallest size already");
        panels.extend([left.size(620.0, 470.0).scene(), right.size(620.0, 470.0).scene()]);
    }
    beside(panels)
}

/// Memory by number of environments.
fn memory_scaling(results: &Results) -> Option<Scene> {
    let latest = latest_memory(results);
    let mut envs: Vec<&str> = latest.iter().map(|memory| memory.env.as_str()).collect();
    envs.sort_unstable();
    envs.dedup();
    let mut layers = Vec::new();
    let mut said = Vec::new();
    let mut series = 0;
    for env in envs {
        let rows: Vec<_> = latest.iter().filter(|memory| memory.env == env && memory.num_envs > 0.0).collect();
        let line = |of: &dyn Fn(&MemoryUse) -> Option<f64>| {
            let mut points: Vec<(f64, f64)> = Vec::new();
            for (n, mb) in rows.iter().filter_map(|row| Some((row.num_envs, of(row).filter(|mb| *mb > 0.0)?))) {
                match points.iter_mut().find(|point| point.0 == n) {
                    Some(point) => point.1 = point.1.min(mb),
                    None => points.push((n, mb)),
                }
            }
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let data = |points: &[(f64, f64)], labels: bool| -> Vec<Datum> {
            let label = |mb: f64| if labels { format!("{} MiB", rate_text(mb)) } else { String::new() };
            points.iter().map(|(n, mb)| Datum::new(*n, *mb).label(label(*mb))).collect()
        };
        let (peak, arrays, predicted) = (line(&|m| m.peak_rss_mb), line(&|m| m.arrays_mb), line(&|m| m.predicted_mb));
        let different = |points: &[(f64, f64)]| points.len() > 1;
        if !different(&peak) && !different(&arrays) {
            continue;
        }
        if !peak.is_empty() {
            layers.push(Layer::line(format!("{env}: peak of the process"), series, data(&peak, true)));
        }
        if !arrays.is_empty() {
            layers.push(Layer::line(format!("{env}: arrays"), series + 1, data(&arrays, true)));
        }
        if !predicted.is_empty() {
            layers.push(Layer::dashed(format!("{env}: predicted"), GREY, data(&predicted, false)));
        }
        let bytes: Vec<(f64, f64)> = peak.iter().map(|(n, mb)| (*n, mb * MEGABYTE)).collect();
        if let Some(growth) = MemoryGrowth::of(&bytes) {
            let (low, high) = (growth.interval.low, growth.interval.high);
            said.push(format!("{env}: {:.1} B per environment [{low:.1}, {high:.1}]", growth.bytes_per_env));
        }
        series += 2;
    }
    if layers.is_empty() {
        return None;
    }
    let (x, y) = (PlotAxis::log("environments"), PlotAxis::log("memory (MiB)"));
    said.insert(0, machine_note(results, memory_origins(results)));
    let note = notes(&said.iter().map(String::as_str).collect::<Vec<_>>());
    Some(Plot::new("Memory by number of environments", x, y, layers).note(note).scene())
}

/// Rounded to so many significant digits.
fn significant(value: f64, digits: i32) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return value;
    }
    let power = 10_f64.powi(digits - 1 - value.log10().floor() as i32);
    (value * power).round() / power
}

/// A number in three digits as figures show it: `7.8 M`, `0.00012`.
pub(crate) fn rate_text(rate: f64) -> String {
    short_number(significant(rate, 3))
}

/// Steps per second by chunk size, with the best marked.
fn scan_chunk_sensitivity(results: &Results) -> Option<Scene> {
    let with_chunk = latest(results).into_iter().filter(|rate| rate.chunk > 0.0);
    let mut lines = best_by(with_chunk, |rate| (rate.series(), rate.num_envs as u64), |rate| rate.chunk);
    lines.retain(|(_, points)| points.len() > 1);
    lines.sort_by_key(|(_, points)| std::cmp::Reverse(points.len()));
    let left_out = lines.len().saturating_sub(MOST_SERIES);
    lines.truncate(MOST_SERIES);
    let keys: Vec<_> = lines.iter().map(|((key, _), _)| key.clone()).collect();
    let mut layers = Vec::new();
    let mut chunks: Vec<f64> = Vec::new();
    let mut best = Vec::new();
    for (i, ((key, num_envs), points)) in lines.iter().enumerate() {
        let name = format!("{}, {} environments", series_name(key, &keys), short_number(*num_envs as f64));
        let Some(top) = points.iter().max_by(|a, b| a.steps_per_second.total_cmp(&b.steps_per_second)) else {
            continue;
        };
        // As shares, because environments differ by orders of magnitude.
        let share = |rate: &&Rate| {
            let Datum { x, y, interval, label } = datum(rate.chunk, rate);
            let of_top = |value: f64| value / top.steps_per_second;
            Datum { x, y: of_top(y), interval: interval.map(|(low, high)| (of_top(low), of_top(high))), label }
        };
        layers.push(Layer::line(name, i, points.iter().map(share).collect()));
        chunks.extend(points.iter().map(|rate| rate.chunk));
        best.push((i, Datum::new(top.chunk, 1.0)));
    }
    if layers.is_empty() {
        return None;
    }
    for (i, datum) in best {
        let name = if i == 0 { "best" } else { "" };
        layers.push(Layer::line(name, i, vec![datum]).form(Form::Points).marker(Marker::Ring));
    }
    chunks.sort_by(f64::total_cmp);
    chunks.dedup();
    let (low, high) = (chunks[0] / 1.3, chunks[chunks.len() - 1] * 1.3);
    let x = PlotAxis::log("scan_chunk_size (steps)").range(low, high);
    let x = x.ticks(chunks.iter().map(|chunk| (*chunk, short_number(*chunk))).collect());
    // From 0, because a difference of a few per cent must look like one.
    let y = PlotAxis::linear("throughput (share of the best; labels: steps per second)").range(0.0, 1.2);
    let spread = spread_note(lines.iter().flat_map(|(_, points)| points.iter().copied()));
    let note = notes(&[&machine_note(results, rate_origins(results)), &cut_note(left_out), spread]);
    Some(Plot::new("Throughput by chunk size", x, y, layers).note(note).scene())
}

/// Libraries as bars; kinds are groups of their own, because they must not be compared.
fn library_comparison(results: &Results) -> Option<Scene> {
    let latest = results.peers.iter().map(|peer| peer.time.as_str()).max()?;
    let peers: Vec<&Peer> = results.peers.iter().filter(|peer| peer.time == latest).collect();
    let mut kinds: Vec<&str> = peers.iter().map(|peer| peer.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let groups = kinds.into_iter().map(|kind| {
        let mut of_kind: Vec<&&Peer> = peers.iter().filter(|peer| peer.kind == kind).collect();
        of_kind
            .sort_by(|a, b| b.steps_per_second.partial_cmp(&a.steps_per_second).unwrap_or(std::cmp::Ordering::Equal));
        let slowest = of_kind.iter().filter_map(|peer| peer.steps_per_second).fold(f64::INFINITY, f64::min);
        let bars = of_kind.into_iter().map(|peer| Bar {
            name: [peer.library.as_str(), &peer.mode].join(" ").trim().to_owned(),
            value: peer.steps_per_second,
            interval: peer.interval,
            text: match peer.steps_per_second {
                Some(rate) => format!("{}/s  {}x", rate_text(rate), times(rate / slowest)),
                None => peer.error.clone(),
            },
            colour: series_colour(usize::from(peer.library != "phalanx")),
        });
        Group { name: kind.to_owned(), bars: bars.collect() }
    });
    let (env, num_envs) = peers.first().map(|peer| (peer.env.as_str(), peer.num_envs))?;
    let picture = Bars {
        width: 860.0,
        title: format!("{env}, {num_envs} environments: libraries on one machine"),
        note: match peers.iter().find(|peer| !peer.noisy.is_empty()) {
            Some(peer) => format!("NOISY, the guards refuse: {}; Nx: times the slowest of its kind", peer.noisy),
            None => "Nx: times the slowest of its kind; lines: 95 % intervals; kinds are not comparable".to_owned(),
        },
        label: "environment steps per second".to_owned(),
        scale: Scale::Log,
        groups: groups.collect(),
    };
    Some(picture.scene())
}

/// A ratio in as many digits as matter.
pub fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 100.0 => format!("{r:.0}"),
        r if r >= 10.0 => format!("{r:.1}"),
        r => format!("{r:.2}"),
    }
}

/// What was measured again and again: rates by run, oldest first, of one machine.
pub struct History<'a> {
    /// What was measured.
    pub name: String,
    /// One rate for each run.
    pub rates: Vec<&'a Rate>,
}

impl std::fmt::Debug for History<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} with {} rates", self.name, self.rates.len())
    }
}

/// The histories of the last machine, those with the most runs first. Runs on other machines are other histories.
pub fn histories(results: &Results) -> Vec<History<'_>> {
    let dated = || results.rates.iter().filter(|rate| !rate.time.is_empty());
    let Some(machine) = dated().max_by(|a, b| a.time.cmp(&b.time)).map(|rate| &rate.machine) else { return vec![] };
    let same = dated().filter(|rate| rate.machine == *machine);
    let key = |rate: &Rate| (rate.series(), rate.num_envs as u64, rate.chunk as u64);
    // The best of each run; times sort as texts, so their digits are a number to sort by.
    let when = |rate: &Rate| rate.time.replace('_', "").parse::<f64>().unwrap_or(0.0);
    let mut lines = best_by(same, key, when);
    lines.retain(|(_, rates)| rates.len() > 1);
    lines.sort_by_key(|(_, rates)| std::cmp::Reverse(rates.len()));
    let keys: Vec<SeriesKey> = lines.iter().map(|((key, _, _), _)| key.clone()).collect();
    let chunks = |key: &SeriesKey, n: u64| lines.iter().filter(|((k, other, _), _)| k == key && *other == n).count();
    let name = |(key, num_envs, chunk): &(SeriesKey, u64, u64)| {
        let name = format!("{} n={}", series_name(key, &keys), short_number(*num_envs as f64));
        if chunks(key, *num_envs) > 1 && *chunk > 0 { format!("{name} k={chunk}") } else { name }
    };
    lines.iter().map(|(key, rates)| History { name: name(key), rates: rates.clone() }).collect()
}

/// Throughput over the runs, with change points.
fn performance_trends(results: &Results) -> Option<Scene> {
    let mut all = histories(results);
    let left_out = all.len().saturating_sub(MOST_SERIES);
    all.truncate(MOST_SERIES);
    // Runs stand at equal distances: many on one day would lie on top of each other on a true time axis.
    let mut runs: Vec<&str> = all.iter().flat_map(|h| &h.rates).map(|rate| rate.time.as_str()).collect();
    runs.sort_unstable();
    runs.dedup();
    if runs.is_empty() {
        return None;
    }
    let place = |time: &str| runs.binary_search(&time).map_or(0.0, |i| i as f64);
    let every = runs.len().div_ceil(14);
    let machine = all.first().map(|history| machine_name(results, &history.rates[0].machine)).unwrap_or_default();
    let machine = if machine.is_empty() { "one machine" } else { &machine };
    let runs_on = format!("{} runs on {machine}", runs.len());
    let note = notes(&[&runs_on, &cut_note(left_out), "rings: change points"]);
    let mut panels = Vec::new();
    for (i, history) in all.iter().enumerate() {
        let (first, last) = (i == 0, i + 1 == all.len());
        let tick = |(at, time): (usize, &&str)| (at as f64, if last { readable_time(time) } else { String::new() });
        let ticks = runs.iter().enumerate().step_by(every).map(tick).collect();
        let x = PlotAxis::linear(if last { "run (UTC)" } else { "" });
        let x = x.range(-0.3, runs.len() as f64 - 0.7).slanted_ticks(ticks);
        let most = history.rates.iter().map(|rate| rate.spread.map_or(rate.steps_per_second, |s| s.ends().1));
        // From 0: what looks like a fall must be one.
        let y = PlotAxis::linear(format!("{} (steps per second)", history.name));
        let y = y.range(0.0, 1.25 * most.fold(0.0, f64::max));
        let mut plot = Plot::new("", x, y, trend_layers(history, place)).size(800.0, if last { 300.0 } else { 190.0 });
        if first {
            plot = Plot { title: "Performance over time".to_owned(), height: plot.height + 50.0, ..plot }.note(&note);
        }
        // Slanted dates reach to the left.
        panels.push(Plot { inset: 150.0, ..plot }.scene());
    }
    let mut page = Scene::new(800.0, panels.iter().map(|panel| panel.height).sum(), Colour::WHITE);
    let mut y = 0.0;
    for panel in panels {
        let height = panel.height;
        page.place(panel, (0.0, y));
        y += height;
    }
    Some(page)
}

/// The rates of a history, and rings where their level changed.
fn trend_layers(history: &History<'_>, place: impl Fn(&str) -> f64) -> Vec<Layer> {
    let point =
        |rate: &&Rate| Datum::new(place(&rate.time), rate.steps_per_second).interval(rate.spread.map(Spread::ends));
    let mut data: Vec<Datum> = history.rates.iter().map(point).collect();
    if let Some(last) = data.last_mut() {
        last.label = rate_text(last.y);
    }
    let logs: Vec<f64> = history.rates.iter().map(|rate| -rate.steps_per_second.ln()).collect();
    let changes = detect(&logs, &Settings::default()).points.into_iter().map(|change| {
        let percent = 100.0 * (change.ratio - 1.0);
        Datum { interval: None, label: format!("{percent:+.1} %"), ..data[change.at].clone() }
    });
    let changes = Layer::line("", 1, changes.collect()).form(Form::Points).marker(Marker::Ring);
    vec![Layer::line("", 0, data), changes]
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_render::Shape;

    fn rate(num_envs: f64, chunk: f64, steps_per_second: f64) -> Rate {
        Rate {
            run_id: None,
            time: "20260722_130501".to_owned(),
            machine: "m".to_owned(),
            device: "cpu".to_owned(),
            env: "CartPole-v1".to_owned(),
            agent: "random".to_owned(),
            kind: Some(Kind::FusedRandomRollout),
            settings: vec!["safety=monitor".to_owned()],
            num_envs,
            threads: 2.0,
            chunk,
            steps_per_second,
            spread: Some(Spread::Range(steps_per_second * 0.9, steps_per_second * 1.05)),
            startup_s: None,
            disturbed_by: Vec::new(),
        }
    }

    fn texts(scene: &Scene) -> Vec<String> {
        let text = |shape: &Shape| if let Shape::Text(text) = shape { Some(text.text.clone()) } else { None };
        scene.shapes.iter().filter_map(text).collect()
    }

    #[test]
    fn the_best_of_duplicate_rows_counts_and_an_interval_wins_a_tie() {
        let mut results = Results::default();
        let known = Rate { spread: Some(Spread::Interval(6.9e6, 7.1e6)), ..rate(1e3, 256.0, 7e6) };
        results.rates = vec![rate(1e2, 256.0, 1e6), rate(1e3, 64.0, 5e6), rate(1e3, 256.0, 7e6), known.clone()];
        let (lines, _) = scaling_lines(&results, "cpu");
        assert_eq!((lines.len(), lines[0].points.len()), (1, 2));
        assert_eq!(*lines[0].points[1], known);
        assert_eq!(lines[0].name, "CartPole-v1");
    }

    #[test]
    fn a_later_run_takes_the_place_of_a_faster_one_and_settings_are_lines_of_their_own() {
        let old = Rate { time: "20260101_000000".to_owned(), ..rate(1e3, 256.0, 9e6) };
        let off = |n: f64| Rate { settings: vec!["safety=off".to_owned()], ..rate(n, 256.0, 8e6) };
        let rates = vec![old, rate(1e2, 256.0, 1e6), rate(1e3, 256.0, 5e6), off(1e2), off(1e3)];
        let results = Results { rates, ..Results::default() };
        let (lines, _) = scaling_lines(&results, "cpu");
        let found: Vec<_> = lines.iter().map(|line| (line.name.as_str(), line.points[1].steps_per_second)).collect();
        assert_eq!(found, [("CartPole-v1 safety=monitor", 5e6), ("CartPole-v1 safety=off", 8e6)]);
    }

    #[test]
    fn figures_without_data_are_none() {
        for figure in FIGURES {
            assert!((figure.draw)(&Results::default()).is_none(), "{}", figure.name);
            assert!(texts(&no_data(&figure)).contains(&"No data".to_owned()));
        }
    }

    fn peer(library: &str, kind: &str, rate: Option<f64>) -> Peer {
        Peer {
            time: String::new(),
            library: library.to_owned(),
            library_version: "1".to_owned(),
            mode: String::new(),
            env: "CartPole-v1".to_owned(),
            kind: kind.to_owned(),
            num_envs: 1000.0,
            steps_per_second: rate,
            interval: None,
            phalanx_speedup: None,
            startup_s: None,
            error: "pip install envpool".to_owned(),
            noisy: String::new(),
        }
    }

    fn memory_use(num_envs: f64, peak_rss_mb: f64) -> MemoryUse {
        MemoryUse {
            time: "20260722_130501".to_owned(),
            machine: "m".to_owned(),
            device: "cpu".to_owned(),
            env: "CartPole-v1".to_owned(),
            num_envs,
            chunk: 8.0,
            arrays_mb: None,
            predicted_mb: None,
            peak_rss_mb: Some(peak_rss_mb),
        }
    }

    /// Everything that a figure can show, with names as long as users make them, at small and huge speeds.
    fn crowded(scale: f64) -> Results {
        let env = |i: usize| format!("an-environment-with-a-very-long-name-of-its-own-{i}-v0");
        let settings = vec!["safety=monitor".to_owned(), "opponent=a-perfect-player".to_owned()];
        let runs = (1..=20).map(|day| format!("202607{day:02}_130501"));
        let sizes = [1e2, 1e4, 1e6, 1e8];
        let rates = runs.flat_map(|time| {
            let of = |i: usize, n: f64, chunk: f64| Rate {
                time: time.clone(),
                machine: "a-fingerprint-of-some-length".to_owned(),
                env: env(i),
                settings: settings.clone(),
                ..rate(n, chunk, scale * n.sqrt() * (1 + i) as f64 * chunk)
            };
            (0..8).flat_map(|i| sizes.map(|n| [8.0, 64.0, 512.0].map(|k| of(i, n, k)))).flatten().collect::<Vec<_>>()
        });
        let memory = (0..8).flat_map(|i| sizes.map(|n| MemoryUse { env: env(i), ..memory_use(n, 5.0 + scale * n) }));
        let library = "a-library-with-a-long-name";
        let peers = ["fused_random_rollout", "host_api_random"].into_iter().flat_map(|kind| {
            let of = |i: usize| Peer {
                mode: "its fastest mode, described at length".to_owned(),
                interval: Some((0.5 * scale, 2.0 * scale)),
                error: "pip install a-library-with-a-long-name with many words of advice after it ".repeat(3),
                ..peer(library, kind, (i < 5).then_some(scale * 10_f64.powi(i as i32)))
            };
            (0..7).map(of).collect::<Vec<_>>()
        });
        Results { rates: rates.collect(), memory: memory.collect(), peers: peers.collect(), ..Results::default() }
    }

    #[test]
    fn no_text_is_clipped_in_any_figure() {
        for scale in [1e-3, 1.0, 1e9] {
            let results = crowded(scale);
            for figure in FIGURES {
                let scene = (figure.draw)(&results).unwrap_or_else(|| panic!("{} is missing", figure.name));
                assert_eq!(scene.clipped_texts(), [] as [&Text; 0], "{} at {scale}", figure.name);
                assert_eq!(no_data(&figure).clipped_texts(), [] as [&Text; 0], "{}", figure.name);
            }
        }
    }

    #[test]
    fn kinds_are_groups_and_the_slowest_of_each_is_one() {
        let peers = vec![
            peer("gymnax", "fused_random_rollout", Some(5e6)),
            peer("phalanx", "fused_random_rollout", Some(5e8)),
            peer("gymnasium", "host_api_random", Some(7e6)),
            peer("envpool", "host_api_random", None),
        ];
        let texts = texts(&library_comparison(&Results { peers, ..Results::default() }).unwrap());
        for wanted in ["500 M/s  100x", "5 M/s  1.00x", "7 M/s  1.00x", "pip install envpool"] {
            assert!(texts.iter().any(|text| text == wanted), "{wanted}: {texts:?}");
        }
    }

    #[test]
    fn memory_is_counted_in_the_megabytes_of_the_columns() {
        let of = |n: f64, peak: f64, time: &str, machine: &str| MemoryUse {
            time: time.to_owned(),
            machine: machine.to_owned(),
            ..memory_use(n * MEGABYTE, peak)
        };
        let mut memory = [1.0, 2.0, 4.0].map(|n| of(n, 5.0 + 36.0 * n, "20260722_130501", "m")).to_vec();
        // Neither an older run nor another machine has a say.
        memory.extend([1.0, 2.0, 4.0].map(|n| of(n, 1.0 + 10.0 * n, "20260721_130501", "m")));
        memory.extend([1.0, 2.0, 8.0].map(|n| of(n, 1.0 + 20.0 * n, "20260720_130501", "other")));
        let results = Results { memory, ..Results::default() };
        assert_eq!(latest_memory(&results).len(), 3);
        let texts = texts(&memory_scaling(&results).unwrap());
        assert!(texts.iter().any(|text| text.contains("36.0 B per environment")), "{texts:?}");
        assert!(texts.iter().any(|text| text.contains("on m (another machine is left out)")), "{texts:?}");
    }

    #[test]
    fn points_of_different_machines_make_no_line() {
        let old = |n| Rate { time: "20260101_000000".to_owned(), machine: "old".to_owned(), ..rate(n, 256.0, 9e6) };
        let rates = vec![old(1e2), old(1e4), rate(1e2, 256.0, 1e6), rate(1e3, 256.0, 5e6)];
        let results = Results { rates, ..Results::default() };
        let (lines, _) = scaling_lines(&results, "cpu");
        assert_eq!(lines[0].points.iter().map(|rate| rate.num_envs).collect::<Vec<_>>(), [1e2, 1e3]);
        let texts = texts(&throughput_scaling(&results).unwrap());
        assert!(texts.iter().any(|text| text.contains("on m (another machine is left out)")), "{texts:?}");
    }

    #[test]
    fn series_that_are_not_shown_are_counted() {
        let of = |i: usize, n: f64| Rate { env: format!("E{i}"), ..rate(n, 256.0, 1e6) };
        let rates = (0..8).flat_map(|i| [of(i, 1e2), of(i, 1e3)]).collect();
        let texts = texts(&throughput_scaling(&Results { rates, ..Results::default() }).unwrap());
        assert!(texts.iter().any(|text| text.contains("2 more series not shown")), "{texts:?}");
    }

    #[test]
    fn histories_keep_machines_apart() {
        let at = |day: u32, machine: &str, rate_: f64| Rate {
            time: format!("202607{day:02}_000000"),
            machine: machine.to_owned(),
            ..rate(1e3, 256.0, rate_)
        };
        let rates = vec![at(1, "old", 1.0), at(2, "old", 2.0), at(3, "new", 5.0), at(4, "new", 6.0)];
        let results = Results { rates, ..Results::default() };
        let all = histories(&results);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].rates.iter().map(|rate| rate.steps_per_second).collect::<Vec<_>>(), [5.0, 6.0]);
        assert!(performance_trends(&results).is_some());
    }
}
