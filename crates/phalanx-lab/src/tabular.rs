//! Tabular learning by variant, runtime, agents and workers: the tables, files and figures that dist_classicrl has.
//!
//! A step is a transition everywhere. Times are what a number of transitions takes at the measured rate.

use std::fmt::Write as _;

use phalanx_render::plot::{Datum, Layer, Plot, PlotAxis};
use phalanx_render::{Anchor, Colour, Paint, Scene, Text};
use serde::{Deserialize, Serialize};

use crate::format::format_number;
use crate::stats::descriptive::{mean, median};
use crate::stats::scaling;

/// A way to store a table, measured on one thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name.
    pub implementation: String,
    /// Seconds of the run.
    pub time_s: f64,
    /// What the process had allocated after it, in MB; nothing if its allocator does not count.
    pub memory_mb: Option<f64>,
    /// Transitions in a second.
    pub throughput: f64,
    /// As a multiple of the first.
    pub relative: f64,
}

/// The table of variants, relative to the first, for a run of `steps` transitions.
pub fn variants<'a>(steps: u64, measured: impl IntoIterator<Item = (&'a str, f64, Option<f64>)>) -> Vec<Variant> {
    let mut first = None;
    let row = |(implementation, throughput, memory_mb): (&str, f64, Option<f64>)| Variant {
        implementation: implementation.to_owned(),
        time_s: steps as f64 / throughput,
        memory_mb,
        throughput,
        relative: throughput / *first.get_or_insert(throughput),
    };
    measured.into_iter().map(row).collect()
}

/// A number of threads on one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scaled {
    /// Threads.
    pub threads: usize,
    /// Seconds of the run.
    pub time_s: f64,
    /// How many times as fast as the first.
    pub speed_up: f64,
    /// Speed-up for each thread.
    pub efficiency: f64,
    /// Transitions in a second.
    pub throughput: f64,
}

/// The table of threads, relative to the first, for a run of `steps` transitions.
pub fn scaled(steps: u64, measured: impl IntoIterator<Item = (usize, f64)>) -> Vec<Scaled> {
    let mut first = None;
    let row = |(threads, throughput): (usize, f64)| {
        let base: (usize, f64) = *first.get_or_insert((threads, throughput));
        let efficiency = scaling::efficiency((threads as f64, throughput), (base.0 as f64, base.1));
        Scaled { threads, time_s: steps as f64 / throughput, speed_up: throughput / base.1, efficiency, throughput }
    };
    measured.into_iter().map(row).collect()
}

/// What executes the learners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// One thread.
    SingleThread,
    /// Threads on one table.
    Parallel,
}

impl Runtime {
    /// Its name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::SingleThread => "single_thread",
            Self::Parallel => "parallel",
        }
    }
}

/// The version of the files of cells.
pub const CELL_VERSION: u64 = 1;

/// A runtime with a number of agents and workers, as its file keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The version of the file.
    pub schema_version: u64,
    /// What executed.
    pub runtime: Runtime,
    /// Steps of each agent.
    pub total_steps: u64,
    /// Steps of all agents: transitions.
    pub effective_steps: u64,
    /// Seconds that these take, the median over the repetitions.
    pub elapsed_time: f64,
    /// Transitions in a second.
    pub throughput: f64,
    /// Transitions for each step of all agents.
    pub step_multiplier: u64,
    /// When, in UTC as RFC 3339.
    pub timestamp: String,
    /// Agents that share the table.
    pub num_agents: usize,
    /// Workers.
    pub num_processes: usize,
    /// 0: there are no ranks.
    pub mpi_rank: u64,
    /// 1: there are no ranks.
    pub mpi_size: u64,
    /// Where.
    pub machine: String,
    /// The commit.
    pub git: Option<String>,
    /// Seconds of each repetition, for as many transitions.
    pub runs: Vec<f64>,
    /// Their median.
    pub median: f64,
    /// The fastest.
    pub min: f64,
    /// The slowest.
    pub max: f64,
    /// Seconds from the start of a process to its first transitions, which are no part of the above.
    pub warmup_s: f64,
    /// The mean return of the learnt policy over whole episodes.
    pub learn_metric: Option<f64>,
    /// The most memory of a process, in MB.
    pub peak_rss_mb: Option<f64>,
    /// The case of the lab that was measured.
    pub case: String,
}

/// What the repetitions of a cell showed.
#[derive(Debug, Clone)]
pub struct Repetitions {
    /// Nanoseconds for each transition, of each repetition.
    pub step_ns: Vec<f64>,
    /// Seconds to the first transitions, likewise.
    pub warmup_s: Vec<f64>,
    /// The most memory, in MB.
    pub peak_rss_mb: Option<f64>,
}

impl Cell {
    /// The same cell with what its repetitions amount to, for a run of at least `steps` transitions.
    pub fn measured(self, steps: u64, found: &Repetitions) -> Self {
        let agents = self.num_agents.max(1) as u64;
        let total_steps = steps.div_ceil(agents);
        let effective_steps = total_steps * agents;
        let runs: Vec<f64> = found.step_ns.iter().map(|ns| ns * effective_steps as f64 / 1e9).collect();
        let middle = median(&runs);
        Self {
            total_steps,
            effective_steps,
            elapsed_time: middle,
            throughput: effective_steps as f64 / middle,
            step_multiplier: agents,
            median: middle,
            min: runs.iter().copied().fold(f64::INFINITY, f64::min),
            max: runs.iter().copied().fold(0.0, f64::max),
            warmup_s: median(&found.warmup_s),
            peak_rss_mb: found.peak_rss_mb,
            runs,
            ..self
        }
    }

    /// The name of its file, without `.json`.
    pub fn stem(&self) -> String {
        match self.runtime {
            Runtime::SingleThread => format!("single_thread_{}_agents", self.num_agents),
            Runtime::Parallel => format!("parallel_{}_agents_{}_processes", self.num_agents, self.num_processes),
        }
    }
}

/// Count, mean, highest and lowest throughput of each runtime.
pub fn summary(cells: &[Cell]) -> String {
    let mut text = String::new();
    for runtime in [Runtime::SingleThread, Runtime::Parallel] {
        let rates: Vec<f64> = cells.iter().filter(|cell| cell.runtime == runtime).map(|cell| cell.throughput).collect();
        if rates.is_empty() {
            continue;
        }
        let most = rates.iter().copied().fold(0.0, f64::max);
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}\n  count  {}\n  mean   {} transitions/s\n  max    {} transitions/s\n  min    {} transitions/s",
            runtime.name(),
            rates.len(),
            format_number(mean(&rates)),
            format_number(most),
            format_number(least),
        );
    }
    text
}

/// The figures of a sweep, with the names of their files; those without data are left out.
pub fn figures(cells: &[Cell]) -> Vec<(&'static str, Scene)> {
    let of = |runtime: Runtime| cells.iter().filter(move |cell| cell.runtime == runtime).collect::<Vec<_>>();
    let (single, parallel) = (of(Runtime::SingleThread), of(Runtime::Parallel));
    let mut drawn = Vec::new();
    if !single.is_empty() {
        drawn.push(("single_thread_scaling", by_agents("Q-learning on one thread", vec![("".to_owned(), single)])));
    }
    if !parallel.is_empty() {
        let lines = workers(&parallel).into_iter().map(|count| {
            let name = if count == 1 { "1 worker".to_owned() } else { format!("{count} workers") };
            (name, parallel.iter().copied().filter(|cell| cell.num_processes == count).collect())
        });
        drawn.push(("parallel_scaling", by_agents("Q-learning on one table by workers", lines.collect())));
        drawn.push(("parallel_heatmap", heatmap(&parallel)));
    }
    drawn
}

/// The numbers of workers, the smallest first.
fn workers(cells: &[&Cell]) -> Vec<usize> {
    let mut counts: Vec<usize> = cells.iter().map(|cell| cell.num_processes).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn by_agents(title: &str, lines: Vec<(String, Vec<&Cell>)>) -> Scene {
    let layers = lines.into_iter().enumerate().map(|(i, (name, mut cells))| {
        cells.sort_by_key(|cell| cell.num_agents);
        let datum = |cell: &&Cell| {
            let rate = |seconds: f64| cell.effective_steps as f64 / seconds;
            Datum::new(cell.num_agents as f64, cell.throughput)
                .interval(Some((rate(cell.max), rate(cell.min))))
                .label(format_number(cell.throughput))
        };
        Layer::line(name, i, cells.iter().map(datum).collect())
    });
    let (x, y) = (PlotAxis::log("agents"), PlotAxis::log("throughput (transitions per second)"));
    Plot::new(title, x, y, layers.collect()).note("error bars: slowest to fastest repetition").scene()
}

/// Throughput as a colour, by agents and workers.
fn heatmap(cells: &[&Cell]) -> Scene {
    const WIDTH: f64 = 92.0;
    const HEIGHT: f64 = 44.0;
    const LEFT: f64 = 110.0;
    const TOP: f64 = 92.0;
    const INK: Colour = Colour::rgb(0x22262E);
    const LOW: Colour = Colour::rgb(0xE8EEF9);
    const HIGH: Colour = Colour::rgb(0x1D4E9E);
    let counts = workers(cells);
    let mut agents: Vec<usize> = cells.iter().map(|cell| cell.num_agents).collect();
    agents.sort_unstable();
    agents.dedup();
    let rates = cells.iter().map(|cell| cell.throughput);
    let (least, most) = rates.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
    let size = (LEFT + WIDTH * counts.len() as f64 + 24.0, TOP + HEIGHT * agents.len() as f64 + 24.0);
    let mut scene = Scene::new(size.0.max(420.0), size.1, Colour::WHITE);
    scene.text(Text::new((16.0, 30.0), 15.0, "Throughput by agents and workers", INK).bold());
    scene.text(Text::new((16.0, 50.0), 12.0, "transitions per second", INK));
    let middle = |text: String, at: (f64, f64), colour| Text::new(at, 12.0, text, colour).anchor(Anchor::Middle);
    for (column, count) in counts.iter().enumerate() {
        let x = LEFT + WIDTH * (column as f64 + 0.5);
        scene.text(middle(format!("{count} worker{}", if *count == 1 { "" } else { "s" }), (x, TOP - 10.0), INK));
    }
    for (row, count) in agents.iter().enumerate() {
        let y = TOP + HEIGHT * row as f64;
        let name = format!("{count} agent{}", if *count == 1 { "" } else { "s" });
        scene.text(Text::new((LEFT - 10.0, y + HEIGHT / 2.0 + 4.0), 12.0, name, INK).anchor(Anchor::End));
        for (column, workers) in counts.iter().enumerate() {
            let found = cells.iter().find(|cell| (cell.num_agents, cell.num_processes) == (*count, *workers));
            let Some(cell) = found else { continue };
            let share = if most > least { (cell.throughput / least).ln() / (most / least).ln() } else { 1.0 };
            let colour = LOW.towards(HIGH, share);
            let x = LEFT + WIDTH * column as f64;
            scene.rect((x + 1.0, y + 1.0), WIDTH - 2.0, HEIGHT - 2.0, Paint::fill(colour));
            let at = (x + WIDTH / 2.0, y + HEIGHT / 2.0 + 4.0);
            scene.text(middle(format_number(cell.throughput), at, colour.contrast()));
        }
    }
    scene
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Files;

    /// The tables of the withdrawn guide, whose figures were never measured but follow from each other.
    #[test]
    fn tables_have_the_columns_of_the_guide() {
        let rates = [("list", 12.3), ("numpy", 8.7), ("optimal", 9.1)].map(|(name, s)| (name, 1e6 / s, Some(45.0)));
        let relative: Vec<f64> =
            variants(1_000_000, rates).iter().map(|row| (row.relative * 100.0).round() / 100.0).collect();
        assert_eq!(relative, [1.0, 1.41, 1.35]);
        let seconds = [(1, 87.2), (2, 44.8), (4, 23.1), (8, 15.2)];
        let table = scaled(10_000_000, seconds.map(|(threads, s)| (threads, 1e7 / s)));
        let round = |value: f64, by: f64| (value * by).round() / by;
        let of: Vec<_> = table.iter().map(|row| (round(row.speed_up, 100.0), round(row.efficiency, 1000.0))).collect();
        assert_eq!(of, [(1.0, 1.0), (1.95, 0.973), (3.77, 0.944), (5.74, 0.717)]);
        assert!((table[1].time_s - 44.8).abs() < 1e-9);
    }

    fn cell(runtime: Runtime, num_agents: usize, num_processes: usize, step_ns: f64) -> Cell {
        let empty = Cell {
            schema_version: CELL_VERSION,
            runtime,
            total_steps: 0,
            effective_steps: 0,
            elapsed_time: 0.0,
            throughput: 0.0,
            step_multiplier: 0,
            timestamp: "2026-07-22T13:05:01Z".to_owned(),
            num_agents,
            num_processes,
            mpi_rank: 0,
            mpi_size: 1,
            machine: "m".to_owned(),
            git: None,
            runs: Vec::new(),
            median: 0.0,
            min: 0.0,
            max: 0.0,
            warmup_s: 0.0,
            learn_metric: Some(0.95),
            peak_rss_mb: None,
            case: "c".to_owned(),
        };
        let step_ns = vec![step_ns, 2.0 * step_ns, 3.0 * step_ns];
        empty.measured(1000, &Repetitions { step_ns, warmup_s: vec![0.1; 3], peak_rss_mb: Some(4.0) })
    }

    #[test]
    fn files_have_the_names_and_keys_of_the_reference() {
        let single = cell(Runtime::SingleThread, 16, 1, 50.0);
        assert_eq!((single.total_steps, single.effective_steps), (63, 1008));
        assert!((single.throughput - 1e7).abs() < 1e-3 && single.min < single.median && single.median < single.max);
        assert_eq!(single.stem(), "single_thread_16_agents");
        assert_eq!(cell(Runtime::Parallel, 128, 2, 1.0).stem(), "parallel_128_agents_2_processes");
        let value = serde_json::to_value(&single).unwrap();
        for key in [
            "runtime",
            "total_steps",
            "effective_steps",
            "elapsed_time",
            "throughput",
            "step_multiplier",
            "timestamp",
            "num_agents",
            "num_processes",
            "mpi_rank",
            "mpi_size",
            "machine",
            "git",
            "runs",
            "median",
            "min",
            "max",
            "warmup_s",
            "learn_metric",
            "peak_rss_mb",
        ] {
            assert!(value.get(key).is_some(), "{key}");
        }
        assert_eq!(value["runtime"], "single_thread");
    }

    #[test]
    fn a_sweep_is_summed_up_and_drawn() {
        let cells: Vec<Cell> = [(1, 1), (16, 1), (16, 2)]
            .map(|(agents, workers)| cell(Runtime::Parallel, agents, workers, 100.0 / workers as f64))
            .into();
        assert_eq!(summary(&cells).lines().count(), 5);
        assert!(summary(&cells).contains("max    10.0M transitions/s"), "{}", summary(&cells));
        let names: Vec<&str> = figures(&cells).iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["parallel_scaling", "parallel_heatmap"]);
        for (name, scene) in figures(&cells) {
            assert!(Files::of(&scene).unwrap().png.starts_with(b"\x89PNG"), "{name}");
        }
    }
}
