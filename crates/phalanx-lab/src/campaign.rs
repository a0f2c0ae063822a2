//! Campaigns: everything that is measured together, in fresh processes, in turns where two things are compared.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::case::CaseSpec;
use crate::record::{self, Arm, Order, Outliers};
use crate::stats::descriptive::{self, Outlier, mean, median, quantile};
use crate::stats::interval::{CONFIDENCE, Interval, mean_interval};
use crate::stats::paired::Comparison;
use crate::stats::random::Stream;
use crate::stats::steady_state::{self, SteadyState, WarmupClass};
use crate::stats::variance::TwoLevel;
use crate::surroundings::Shared;
use crate::worker::{Ready, Worker};
use crate::workload::Timing;
use crate::{Error, Result};

/// Calls before anything is timed, beside the one that startup ends with and those of the calibration.
const WARM_UP_CALLS: usize = 10;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Processes of each case, or pairs of them in a comparison.
    pub processes: usize,
    /// Samples of each process.
    pub samples: usize,
    /// The least time of a sample.
    pub sample: Duration,
    /// What lies between two processes.
    pub gap: Duration,
    /// Seed of the order.
    pub seed: u64,
}

impl Default for Plan {
    /// Three processes of 24 samples of 100 ms.
    fn default() -> Self {
        Self { processes: 3, samples: 24, sample: Duration::from_millis(100), gap: Duration::from_millis(20), seed: 0 }
    }
}

impl Plan {
    /// So many processes of so many samples, each of at least so many milliseconds; the rest by default.
    pub fn of(processes: u16, samples: u16, sample_ms: u32) -> Self {
        let sample = Duration::from_millis(sample_ms.into());
        Self { processes: processes.into(), samples: samples.into(), sample, ..Self::default() }
    }
}

/// What one process measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// What it said when it was ready, and its memory in the end.
    pub ready: Ready,
    /// All samples, from the first.
    pub timings: Vec<Timing>,
    /// How it settled; unknown with too few samples, of which then only the first is left out.
    pub steady: Option<SteadyState>,
}

impl Process {
    /// A process that said it was ready and took these samples.
    pub fn new(ready: Ready, timings: Vec<Timing>) -> Self {
        let times: Vec<f64> = timings.iter().map(Timing::time_per_step).collect();
        Self { ready, timings, steady: SteadyState::of(&times) }
    }

    /// Samples before the steady ones.
    pub fn discarded(&self) -> usize {
        match self.steady {
            Some(steady) if steady.is_steady() => steady.discarded,
            // The first sample finds cold caches; nothing is known of the others.
            _ => usize::from(self.timings.len() > 1),
        }
    }

    /// Whether it is known to have settled.
    pub fn is_steady(&self) -> bool {
        self.steady.is_some_and(|steady| steady.is_steady())
    }

    /// The steady samples.
    pub fn steady_timings(&self) -> &[Timing] {
        &self.timings[self.discarded()..]
    }

    /// A process of a million steps in each sample, of these nanoseconds for each.
    #[cfg(test)]
    pub(crate) fn of_times(times: impl Iterator<Item = f64>) -> Self {
        let ready = Ready {
            startup_ns: 0,
            workload: crate::workload::WorkloadMemory::default(),
            rss_before: None,
            rss_after: None,
            rss_peak: Some(7),
        };
        let checksum = record::Checksum(1);
        let timing = |time: f64| Timing {
            wall_ns: (time * 1e6).round() as u64,
            cpu_ns: None,
            steps: 1_000_000,
            checksum,
            steal: None,
        };
        Self::new(ready, times.map(timing).collect())
    }

    /// Nanoseconds for each step, of the steady samples.
    pub fn times(&self) -> Vec<f64> {
        self.steady_timings().iter().map(Timing::time_per_step).collect()
    }
}

/// Whether too many of the processes never settled. Those with too few samples to tell do not count.
pub fn is_noisy(processes: &[Process]) -> bool {
    let known: Vec<SteadyState> = processes.iter().filter_map(|process| process.steady).collect();
    steady_state::is_noisy(&known)
}

/// A case and what its processes measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The case.
    pub case: CaseSpec,
    /// Its processes.
    pub processes: Vec<Process>,
}

/// Measures a case in one fresh process, after at least ten calls that warm it up.
pub fn measure_process(binary: &Path, case: &CaseSpec, plan: &Plan) -> Result<Process> {
    let mut worker = Worker::start(binary, case)?;
    for _ in 0..WARM_UP_CALLS {
        worker.sample(1)?;
    }
    let iterations = worker.calibrate(nanoseconds(plan.sample))?;
    let timings = (0..plan.samples).map(|_| worker.sample(iterations)).collect::<Result<_>>()?;
    Ok(Process::new(worker.finish()?, timings))
}

/// A side of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// What runs.
    pub binary: &'a Path,
    /// What it measures.
    pub case: &'a CaseSpec,
}

/// The most by which the stacks of two pairs differ: a page, after which addresses begin to look the same to a cache.
const MOST_PADDING: usize = 4096;

/// What a comparison goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// What the user waits for: the only fair measure of several threads.
    Wall,
    /// What the processor computed. Of one thread it is the same without the time that others had the CPU, which is
    /// most of the noise of a shared machine: the spread of pairs was a half to a fifth.
    Cpu,
}

/// A process of A and one of B that took turns.
#[derive(Debug, Clone, PartialEq)]
pub struct PairRun {
    /// What their ratio goes by.
    pub clock: Clock,
    /// Which of them took the first turn.
    pub order: Order,
    /// The process of A.
    pub a: Process,
    /// The process of B.
    pub b: Process,
}

impl PairRun {
    /// ln(t_A / t_B) of each turn, from the first.
    pub fn log_ratios(&self) -> Vec<f64> {
        self.a.timings.iter().zip(&self.b.timings).map(|(a, b)| self.log_ratio(a, b)).collect()
    }

    fn log_ratio(&self, a: &Timing, b: &Timing) -> f64 {
        match self.clock {
            Clock::Wall => (a.time_per_step() / b.time_per_step()).ln(),
            Clock::Cpu => (a.cpu_per_step() / b.cpu_per_step()).ln(),
        }
    }

    /// Those after the ratio has settled.
    pub fn steady_log_ratios(&self) -> Vec<f64> {
        self.log_ratios().split_off(self.discarded())
    }

    /// Whether the ratio is known not to have settled, which needs turns enough to tell. The times themselves need not
    /// settle: where a machine changes its speed, sides that take turns change together.
    pub fn is_unsteady(&self) -> bool {
        self.steady().is_some_and(|steady| !steady.is_steady())
    }

    /// Turns before the ratio settled, at least the first, which finds cold caches.
    pub fn discarded(&self) -> usize {
        let settled = self.steady().filter(SteadyState::is_steady).map_or(0, |steady| steady.discarded);
        settled.max(usize::from(self.a.timings.len() > 1))
    }

    fn steady(&self) -> Option<SteadyState> {
        let logs = self.log_ratios();
        // Single disturbed turns are no change of level, but look like one to a test of means when they come together.
        let (q1, q3) = (quantile(&logs, 0.25), quantile(&logs, 0.75));
        let (low, high) = (q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1));
        let ratios: Vec<f64> = logs.iter().map(|log| log.clamp(low, high).exp()).collect();
        SteadyState::of(&ratios)
    }
}

/// Measures A and B in pairs of processes that live at the same time and take turns, sample by sample, in the order
/// ABBA or BAAB. Disturbances that last longer than a sample then hit both alike. Both share what [`Shared`] can make
/// them share; the CPU too if they have one thread each.
///
/// With `same_work` both must compute the same, sample for sample. The pairs are added to `pairs`, and `after` hears of all
/// of them when one more is there.
pub fn compare(
    a: Side<'_>,
    b: Side<'_>,
    plan: &Plan,
    same_work: bool,
    pairs: &mut Vec<PairRun>,
    mut after: impl FnMut(&[PairRun]) -> Result<()>,
) -> Result<()> {
    let mut random = Stream::new(plan.seed, 1);
    // One number for all: sides of different speed must do the same work. Found by processes that then end, because
    // the search itself is work that depends on speed.
    let mut iterations = 1;
    for side in [a, b] {
        iterations = Worker::start(side.binary, side.case)?.calibrate(nanoseconds(plan.sample))?.max(iterations);
    }
    let clock = if a.case.threads == 1 && b.case.threads == 1 { Clock::Cpu } else { Clock::Wall };
    let mut a_first = false;
    for number in 0..plan.processes {
        // By coin, and the other way around in the pair after.
        a_first = if number % 2 == 0 { random.below(2) == 0 } else { !a_first };
        let order = if a_first { Order::Ab } else { Order::Ba };
        let (padding, cpu) = (random.below(MOST_PADDING), (clock == Clock::Cpu).then_some(number));
        let shared = Shared::new(cpu);
        let start = |side: Side<'_>| Worker::start_padded(side.binary, side.case, padding);
        // Whoever starts second finds a warm system.
        let mut workers = match order {
            Order::Ab => [start(a)?, start(b)?],
            Order::Ba => {
                let b = start(b)?;
                [start(a)?, b]
            }
        };
        drop(shared);
        let mut timings = [Vec::new(), Vec::new()];
        for turn in 0..plan.samples {
            let forward = (order == Order::Ab) == (turn % 2 == 0);
            for side in if forward { [0, 1] } else { [1, 0] } {
                timings[side].push(workers[side].sample(iterations)?);
            }
        }
        let [a_timings, b_timings] = timings;
        let [a_ready, b_ready] = workers.map(Worker::finish);
        let pair = PairRun { clock, order, a: Process::new(a_ready?, a_timings), b: Process::new(b_ready?, b_timings) };
        if same_work {
            check_same_work(a.case, &pair)?;
        }
        pairs.push(pair);
        after(pairs)?;
        std::thread::sleep(plan.gap);
    }
    Ok(())
}

fn check_same_work(case: &CaseSpec, pair: &PairRun) -> Result<()> {
    let mut samples = pair.a.timings.iter().zip(&pair.b.timings);
    match samples.find(|(a, b)| a.checksum != b.checksum || a.steps != b.steps) {
        Some((a, b)) => {
            let of = |side: &Timing| format!("{} of {} steps", side.checksum, side.steps);
            Err(Error::ChecksumMismatch { case: case.id(), a: of(a), b: of(b) })
        }
        None => Ok(()),
    }
}

/// Compares the sides of pairs that took turns.
///
/// The log ratio of a pair is the median over its turns: a disturbance of a single sample, of which there are many on
/// a shared machine, moves a mean and not a median. Nothing is dropped.
pub fn compared(pairs: &[PairRun], confidence: f64, seed: u64) -> Option<Comparison> {
    of_log_ratios(pairs.iter().map(|pair| median(&pair.steady_log_ratios())), confidence, seed)
}

/// Compares A with itself: each of its turns with the next but one, in which it has the same place, before or after B.
/// They are four samples apart and those of A and B one, so this shows at least as much of what the machine did to the
/// comparison.
pub fn control(pairs: &[PairRun], confidence: f64, seed: u64) -> Option<Comparison> {
    let of_pair = |pair: &PairRun| {
        let turns = &pair.a.timings[pair.discarded()..];
        let logs: Vec<f64> = turns
            .chunks_exact(4)
            .flat_map(|four| [pair.log_ratio(&four[0], &four[2]), pair.log_ratio(&four[1], &four[3])])
            .collect();
        median(&logs)
    };
    of_log_ratios(pairs.iter().map(of_pair), confidence, seed)
}

/// The comparison of sides whose log ratio is known pair by pair.
pub fn of_log_ratios(logs: impl Iterator<Item = f64>, confidence: f64, seed: u64) -> Option<Comparison> {
    Comparison::of(&logs.collect::<Vec<_>>(), confidence, seed).filter(|comparison| comparison.sd.is_finite())
}

/// What the processes of one arm amount to.
pub fn summary(run_id: &str, case_id: &str, arm: Arm, processes: &[Process]) -> record::Summary {
    let times: Vec<Vec<f64>> = processes.iter().map(Process::times).collect();
    let all: Vec<f64> = times.concat();
    let (typical, ci95) = typical_time(&times);
    let steady = processes.iter().flat_map(Process::steady_timings);
    let (wall, steps) = steady.fold((0.0, 0.0), |(wall, steps), t| (wall + t.wall_ns as f64, steps + t.steps as f64));
    let levels = TwoLevel::of(&times);
    let labels = descriptive::outliers(&all);
    let labelled = |label: Outlier| labels.iter().filter(|found| **found == label).count() as u64;
    let peaks = processes.iter().filter_map(|process| process.ready.rss_peak);
    let mut memory = Map::new();
    if let Some(peak) = peaks.max() {
        memory.insert("peak_rss".to_owned(), peak.into());
    }
    if let Some(bytes) = processes.first().and_then(|process| process.ready.workload.array_bytes) {
        memory.insert("arrays".to_owned(), bytes.into());
    }
    record::Summary {
        run_id: Some(run_id.to_owned()),
        case_id: case_id.to_owned(),
        arm,
        n_processes: processes.len() as u64,
        n_samples: all.len() as u64,
        discarded: processes.iter().map(|process| process.discarded() as u64).sum(),
        warmup_class: warmup_class(processes),
        t_median: typical,
        t_mean: wall / steps,
        ci95: ci95.map(|Interval { low, high }| [low, high]),
        sigma_b: levels.map(|levels| levels.between.sqrt()),
        sigma_w: levels.map(|levels| levels.within.sqrt()),
        n_eff: Some(times.iter().map(|times| descriptive::effective_size(times)).sum()),
        outliers: Outliers { mild: labelled(Outlier::Mild), severe: labelled(Outlier::Severe), extra: Map::new() },
        memory,
        complete: None,
        extra: Map::new(),
    }
}

/// The time for each step and its 95 % interval, which contains it: the median of the only process, or the geometric mean
/// of the medians of several. Where others disturb the machine, a mean says more about them than about the case.
pub fn typical_time(times: &[Vec<f64>]) -> (f64, Option<Interval>) {
    let medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
    let first = medians.first().copied().unwrap_or(f64::NAN);
    // Relative to the first, so that equal medians have exactly themselves as their mean.
    let centre = first * mean(&medians.iter().map(|median| (median / first).ln()).collect::<Vec<_>>()).exp();
    let spread = match times {
        [_] => interval(times),
        _ => interval(&medians.iter().map(|median| vec![*median]).collect::<Vec<_>>()),
    };
    let half_width = |found: Interval| (found.high / found.low).ln() / 2.0;
    let around = |half: f64| Interval::around(0.0, half).map(|log| centre * log.exp());
    (centre, spread.map(half_width).map(around))
}

/// The 95 % interval of the time for each step: of the means of processes if there are several, else of the samples
/// of the only one, which then counts for as many as are independent.
pub fn interval(times: &[Vec<f64>]) -> Option<Interval> {
    let interval = match times {
        [only] => {
            let logs: Vec<f64> = only.iter().map(|time| time.ln()).collect();
            let interval = mean_interval(&logs, CONFIDENCE)?;
            let wider = (logs.len() as f64 / descriptive::effective_size(&logs)).max(1.0).sqrt();
            Interval::around(mean(&logs), 0.5 * wider * interval.width())
        }
        several => mean_interval(&several.iter().map(|times| mean(times).ln()).collect::<Vec<_>>(), CONFIDENCE)?,
    };
    Some(interval.map(f64::exp))
}

/// The worst that any process shows.
fn warmup_class(processes: &[Process]) -> String {
    let classes = processes.iter().map(|process| process.steady.map(|steady| steady.class));
    let severity = |class: &Option<WarmupClass>| match class {
        Some(WarmupClass::Flat) => 0,
        Some(WarmupClass::WarmsUp) => 1,
        Some(WarmupClass::SlowsDown) => 2,
        None => 3,
        Some(WarmupClass::NoSteadyState) => 4,
    };
    match classes.max_by_key(severity).flatten() {
        Some(WarmupClass::Flat) => "flat",
        Some(WarmupClass::WarmsUp) => "warms_up",
        Some(WarmupClass::SlowsDown) => "slows_down",
        Some(WarmupClass::NoSteadyState) => "no_steady_state",
        None => "too_few_samples",
    }
    .to_owned()
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// A random order of `0..n`.
pub fn shuffled(n: usize, random: &mut Stream) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for at in (1..n).rev() {
        order.swap(at, random.below(at + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(times: &[f64]) -> Process {
        Process::of_times(times.iter().copied())
    }

    #[test]
    fn every_order_is_a_permutation_and_not_always_the_same() {
        let mut random = Stream::new(3, 0);
        let orders: Vec<_> = (0..20).map(|_| shuffled(6, &mut random)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
        }
        assert!(orders.iter().any(|order| *order != orders[0]));
    }

    #[test]
    fn one_disturbed_sample_does_not_move_a_comparison() {
        let pair = |noise: f64| {
            let a: Vec<f64> = (0..24).map(|i| 10.0 + noise * f64::from(i % 3)).collect();
            let mut b: Vec<f64> = a.iter().map(|time| time / 1.05).collect();
            b[20] *= 3.0;
            PairRun { clock: Clock::Cpu, order: Order::Ab, a: process(&a), b: process(&b) }
        };
        let pairs = [0.01, 0.011, 0.012, 0.013].map(pair);
        let comparison = compared(&pairs, CONFIDENCE, 1).unwrap();
        assert!((comparison.speed_up() - 1.05).abs() < 1e-4, "{}", comparison.speed_up());
    }

    #[test]
    fn a_ratio_settles_though_times_do_not_and_outliers_come_together() {
        let mut a: Vec<f64> = (0..24).map(|i| if i < 15 { 10.0 } else { 20.0 } + 0.01 * f64::from(i % 3)).collect();
        let b = a.clone();
        a[21..].iter_mut().for_each(|time| *time *= 3.0);
        let pair = |a: &[f64]| PairRun { clock: Clock::Cpu, order: Order::Ab, a: process(a), b: process(&b) };
        assert!(!pair(&a).is_unsteady());
        assert_eq!(pair(&a).discarded(), 1);
        // A level that changes near the end is another matter.
        a = b
            .iter()
            .enumerate()
            .map(|(i, time)| time * if i < 17 { 1.0 } else { 1.2 } + 0.02 * (i % 2) as f64)
            .collect();
        assert!(pair(&a).is_unsteady());
    }

    #[test]
    fn the_control_sees_what_lasts_longer_than_a_turn() {
        // Every turn begins with a fast sample and ends with a slow one, so that A has either by turns: no disturbance
        // that moves it against itself. One that changes every two turns is.
        let pairs = |time: fn(usize) -> f64| {
            let a: Vec<f64> = (0..24).map(time).collect();
            [Order::Ab, Order::Ba].map(|order| PairRun { clock: Clock::Cpu, order, a: process(&a), b: process(&a) })
        };
        let moved = |time: fn(usize) -> f64| control(&pairs(time), CONFIDENCE, 1).unwrap().speed_up();
        assert_eq!(moved(|turn| 10.0 + (turn % 2) as f64), 1.0);
        assert!(moved(|turn| 10.0 + ((turn + 3) / 2 % 2) as f64) != 1.0);
    }

    #[test]
    fn a_time_lies_in_its_interval_however_skewed_the_samples_are() {
        let skewed = |shift: f64| -> Vec<f64> {
            (0..24).map(|i| if i < 16 { 10.0 + shift } else { 40.0 + shift + f64::from(i) }).collect()
        };
        for times in [vec![skewed(0.0)], vec![skewed(0.0), skewed(0.1), skewed(0.3), skewed(0.9)]] {
            let (time, interval) = typical_time(&times);
            assert!((10.0..11.0).contains(&time), "{time}");
            assert!(interval.unwrap().contains(time), "{time} in {interval:?}");
        }
        let processes = [0.0, 0.1, 0.3].map(|shift| process(&skewed(shift)));
        let summary = summary("r", "c", Arm::A, &processes);
        let [low, high] = summary.ci95.unwrap();
        assert!((low..=high).contains(&summary.t_median), "{} in {low} to {high}", summary.t_median);
        assert_eq!(typical_time(&[vec![1.0, 3.0, 2.0]]).0, 2.0);
    }

    #[test]
    fn samples_of_one_process_that_hang_together_say_less() {
        let logs = |width: Interval| (width.high / width.low).ln();
        let alternating: Vec<f64> = (0..40).map(|i| 10.0 + f64::from(i % 2)).collect();
        let waves: Vec<f64> = (0..40).map(|i| 10.0 + f64::from(i / 10 % 2)).collect();
        let [alone, together] = [alternating, waves].map(|times| logs(interval(&[times]).unwrap()));
        assert!(together > 2.0 * alone, "the same values: {alone} {together}");
        assert_eq!(interval(&[vec![10.0]]), None);
    }

    #[test]
    fn a_summary_keeps_the_discarded_prefix_out() {
        let mut times = vec![20.0; 6];
        times.extend([10.0, 10.1, 9.9].repeat(6));
        let summary = summary("r", "c", Arm::A, &[process(&times), process(&times)]);
        assert_eq!((summary.n_processes, summary.n_samples, summary.discarded), (2, 36, 12));
        assert_eq!((summary.t_median, summary.warmup_class.as_str()), (10.0, "warms_up"));
        assert!((summary.t_mean - 10.0).abs() < 1e-9);
        assert_eq!(summary.memory["peak_rss"], 7);
    }
}
