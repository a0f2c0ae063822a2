//! Suites: benchmarks with a name and a category, what they amount to, and how they stand against a baseline.
//!
//! Any function can be one:
//!
//! ```
//! use phalanx_lab::suite::Benchmark;
//!
//! let result = Benchmark::new("sum", "custom")
//!     .iterations(50)
//!     .metadata("size", 1000)
//!     .run(|| Ok::<_, String>({ std::hint::black_box((0..1000_u64).sum::<u64>()); }))?;
//! assert_eq!((result.iterations, result.metadata["size"].as_u64()), (50, Some(1000)));
//! assert!(result.throughput > 0.0);
//! # Ok::<_, String>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::campaign::{self, Process};
use crate::case::CaseSpec;
use crate::clock::Stopwatch;
use crate::format::format_number;
use crate::guards::Readings;
use crate::kpi::Kpi;
use crate::machine::Machine;
use crate::memory;
use crate::record::Kind;
use crate::stats::descriptive::{mean, population_sd, relative_sd};
use crate::stats::fence::Fence;
use crate::stats::interval::{CONFIDENCE, Interval, mean_interval};
use crate::stats::mann_whitney::MannWhitney;
use crate::stats::multiple::{benjamini_hochberg, holm};
use crate::stats::paired::Method;
use crate::stats::regression::{BaselineComparison, Change, Severity};
use crate::stats::verdict::{Tier, Verdict, judge};
use crate::throughput::MEGABYTE;

/// Parts of a run whose times give its interval.
const BLOCKS: u64 = 10;

/// Mean throughput of a category below which it should become faster.
pub(crate) const SLOW_PER_SECOND: f64 = 100.0;

/// Memory of a category beyond which it should need less.
pub(crate) const MUCH_MEMORY_MB: f64 = 1000.0;

/// The mark of a result whose processes did not settle.
const NOISY: &str = "no_steady_state";

/// The throughput of each process of a result, for comparisons with another run.
const PROCESSES: &str = "process_throughputs";

/// The share of the best throughput that the largest size should keep.
pub const GOOD_RETENTION: f64 = 0.8;

/// The share of its time that a thread should compute.
const BUSY_PERCENT: f64 = 80.0;

/// A function to be measured.
#[derive(Debug, Clone)]
pub struct Benchmark {
    name: String,
    category: String,
    iterations: u64,
    warmup: u64,
    metadata: Map<String, Value>,
}

impl Benchmark {
    /// A benchmark of 100 iterations after 10 that do not count. Any category will do.
    pub fn new(name: impl Into<String>, category: impl Into<String>) -> Self {
        let (name, category) = (name.into(), category.into());
        Self { name, category, iterations: 100, warmup: 10, metadata: Map::new() }
    }

    /// How often the function runs, at least once. Default 100.
    pub fn iterations(mut self, iterations: u64) -> Self {
        self.iterations = iterations.max(1);
        self
    }

    /// How often it runs before that. Default 10.
    pub fn warmup(mut self, warmup: u64) -> Self {
        self.warmup = warmup;
        self
    }

    /// Something that the result carries.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Measures the function; the first error ends it, in the warm-up as well. What it returns counts as used: the
    /// compiler cannot leave its computation out.
    ///
    /// Memory is looked at in a pass of its own after the timed one, for looking takes time.
    pub fn run<T, E>(self, mut function: impl FnMut() -> Result<T, E>) -> Result<BenchmarkResult, E> {
        let mut repeat = |times: u64| (0..times).try_for_each(|_| function().map(|result| drop(black_box(result))));
        repeat(self.warmup)?;
        let blocks = self.iterations.min(BLOCKS);
        let (mut wall_s, mut cpu_s, mut logs) = (0.0, Some(0.0), Vec::new());
        for block in 0..blocks {
            let iterations = self.iterations * (block + 1) / blocks - self.iterations * block / blocks;
            let watch = Stopwatch::start();
            repeat(iterations)?;
            let elapsed = watch.elapsed();
            let seconds = elapsed.wall_ns.max(1) as f64 / 1e9;
            wall_s += seconds;
            cpu_s = cpu_s.zip(elapsed.cpu_ns).map(|(sum, ns): (f64, _)| sum + ns as f64 / 1e9);
            logs.push((iterations as f64 / seconds).ln());
        }
        let (peak, current) = memory_of(&mut function)?;
        let mb = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / MEGABYTE);
        Ok(BenchmarkResult {
            name: self.name,
            category: self.category,
            duration: wall_s,
            memory_peak_mb: mb(peak),
            memory_current_mb: mb(current),
            cpu_percent: cpu_s.map(|cpu| 100.0 * cpu / wall_s),
            iterations: self.iterations,
            throughput: self.iterations as f64 / wall_s,
            throughput_ci95: mean_interval(&logs, CONFIDENCE).map(|interval| interval.map(f64::exp)),
            noise_percent: None,
            kind: None,
            case_version: None,
            metadata: self.metadata,
        })
    }
}

/// The peak and the rest of what one call allocates, in bytes.
fn memory_of<T, E>(func: &mut impl FnMut() -> Result<T, E>) -> Result<(Option<u64>, Option<u64>), E> {
    if let Some(allocator) = memory::allocator() {
        allocator.reset_peak();
        let before = allocator.counts();
        // What is returned is still held here: it is part of what the call allocated.
        let result = black_box(func()?);
        let after = allocator.counts();
        drop(result);
        let more = |bytes: u64| Some(bytes.saturating_sub(before.live_bytes));
        return Ok((more(after.peak_bytes), more(after.live_bytes)));
    }
    let before = (memory::peak_rss_bytes(), memory::rss_bytes());
    let result = black_box(func()?);
    let after = (memory::peak_rss_bytes(), memory::rss_bytes());
    drop(result);
    let growth = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
    Ok((growth(before.0, after.0), growth(before.1, after.1)))
}

/// What a benchmark showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkResult {
    /// Its name.
    pub name: String,
    /// Its category.
    pub category: String,
    /// Seconds that were timed.
    pub duration: f64,
    /// The most memory that the processes of a case had, in MiB; of a function, what one call had allocated at once: as the
    /// registered [`CountingAllocator`](memory::CountingAllocator) counts it, else by how much the peak of the process
    /// grew. Unknown outside of Linux.
    pub memory_peak_mb: Option<f64>,
    /// The memory that they had in the end, in MiB; of a function, what one call left behind, counted likewise.
    pub memory_current_mb: Option<f64>,
    /// CPU time by wall time; more than 100 with several threads.
    pub cpu_percent: Option<f64>,
    /// Repetitions: steps of environments, calls of a function, starts of a process.
    pub iterations: u64,
    /// Iterations by duration.
    pub throughput: f64,
    /// Its 95 % interval.
    pub throughput_ci95: Option<Interval>,
    /// How much processes that do the same differ, in %.
    pub noise_percent: Option<f64>,
    /// What the timed region contains, if it is a case of the lab.
    pub kind: Option<Kind>,
    /// A hash of all parameters of the case; results are comparable only where it is the same.
    pub case_version: Option<String>,
    /// Whatever else is of interest.
    pub metadata: Map<String, Value>,
}

impl BenchmarkResult {
    /// The result of the processes that measured a case.
    pub fn of_case(name: &str, category: &str, case: &CaseSpec, processes: &[Process]) -> Self {
        let steady = || processes.iter().flat_map(Process::steady_timings);
        let times: Vec<Vec<f64>> = processes.iter().map(Process::times).collect();
        let means: Vec<f64> = times.iter().map(|times| mean(times)).collect();
        let duration = steady().map(|timing| timing.wall_ns as f64 / 1e9).sum::<f64>();
        let cpu_s: Option<f64> = steady().map(|timing| timing.cpu_ns.map(|ns| ns as f64 / 1e9)).sum();
        let iterations: u64 = steady().map(|timing| timing.steps).sum();
        // A long time is a low rate, so the ends change places.
        let rates = |times: Interval| Interval { low: 1e9 / times.high, high: 1e9 / times.low };
        let mut result = Self {
            cpu_percent: cpu_s.map(|cpu| 100.0 * cpu / duration),
            throughput_ci95: campaign::interval(&times).map(rates),
            noise_percent: relative_sd(&means).map(|sd| 100.0 * sd),
            ..Self::of_starts(name, category, case, processes, (duration, iterations))
        };
        let rates: Vec<f64> = means.iter().map(|time| 1e9 / time).collect();
        result.metadata.insert(PROCESSES.to_owned(), rates.into());
        if campaign::is_noisy(processes) {
            result.metadata.insert(NOISY.to_owned(), true.into());
        }
        result
    }

    /// The throughput of each process that measured it, where that is known.
    fn process_throughputs(&self) -> Vec<f64> {
        let all = self.metadata.get(PROCESSES).and_then(Value::as_array);
        all.into_iter().flatten().filter_map(Value::as_f64).collect()
    }

    /// Whether too many of its processes reached no steady state, so that it shows nothing.
    pub fn is_noisy(&self) -> bool {
        self.metadata.get(NOISY).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The result of processes that only had to start: how many of them do so in a second.
    pub fn of_start(name: &str, category: &str, case: &CaseSpec, processes: &[Process]) -> Self {
        let seconds: Vec<f64> = processes.iter().map(|process| process.ready.startup_ns as f64 / 1e9).collect();
        // No mean is below the fastest.
        let fastest = seconds.iter().copied().fold(f64::MAX, f64::min);
        let rates = |mean: Interval| Interval { low: 1.0 / mean.high, high: 1.0 / mean.low.max(fastest) };
        let total = (seconds.iter().sum(), processes.len() as u64);
        Self {
            throughput_ci95: mean_interval(&seconds, CONFIDENCE).map(rates),
            noise_percent: relative_sd(&seconds).map(|sd| 100.0 * sd),
            ..Self::of_starts(name, category, case, processes, total)
        }
    }

    fn of_starts(
        name: &str,
        category: &str,
        case: &CaseSpec,
        processes: &[Process],
        (duration, iterations): (f64, u64),
    ) -> Self {
        let most = |bytes: fn(&Process) -> Option<u64>| processes.iter().filter_map(bytes).max();
        let mb = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / MEGABYTE);
        let mut metadata = Map::new();
        metadata.insert("case".to_owned(), case.id().into());
        metadata.insert("env".to_owned(), case.env.clone().into());
        metadata.insert("num_envs".to_owned(), case.num_envs.into());
        metadata.insert("threads".to_owned(), case.threads.into());
        if let Some(bytes) = processes.first().and_then(|process| process.ready.workload.bytes_per_env) {
            metadata.insert("bytes_per_env".to_owned(), bytes.into());
        }
        Self {
            name: name.to_owned(),
            category: category.to_owned(),
            duration,
            memory_peak_mb: mb(most(|process| process.ready.rss_peak)),
            memory_current_mb: mb(most(|process| process.ready.rss_after)),
            cpu_percent: None,
            iterations,
            throughput: iterations as f64 / duration,
            throughput_ci95: None,
            noise_percent: None,
            kind: Some(case.kind),
            case_version: Some(case.version()),
            metadata,
        }
    }
}

/// Where a suite ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemInfo {
    /// CPUs as the system counts them.
    pub cpu_count: Option<usize>,
    /// Main memory in GiB.
    pub memory_total_gb: Option<f64>,
    /// What computes.
    pub backend: String,
    /// Its devices.
    pub devices: Vec<String>,
    /// The machine, for comparisons with stored numbers.
    pub fingerprint: String,
}

impl SystemInfo {
    /// Of a machine.
    pub fn of(machine: &Machine) -> Self {
        Self {
            cpu_count: machine.threads,
            memory_total_gb: machine.mem.total_bytes.map(|bytes| bytes as f64 / MEGABYTE / 1024.0),
            backend: "cpu".to_owned(),
            devices: machine.cpu.iter().cloned().collect(),
            fingerprint: machine.fingerprint.clone(),
        }
    }
}

/// The results of one category.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CategoryStats {
    /// How many.
    pub count: usize,
    /// Mean throughput.
    pub avg_throughput: f64,
    /// Their spread.
    pub std_throughput: f64,
    /// The highest.
    pub max_throughput: f64,
    /// Mean of the peaks, in MiB.
    pub avg_memory_peak: Option<f64>,
    /// The highest of them.
    pub max_memory_peak: Option<f64>,
}

/// All results in four numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteSummary {
    /// How many.
    pub total_benchmarks: usize,
    /// Mean throughput, of whatever the units are.
    pub avg_throughput: f64,
    /// The highest peak, in MiB.
    pub peak_memory_mb: Option<f64>,
    /// Seconds that were timed.
    pub total_duration: f64,
}

/// A benchmark against its baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// The rules; nothing where the two are not comparable.
    #[serde(flatten)]
    pub rules: Option<BaselineComparison>,
    /// The interval of the change of throughput, in %.
    pub throughput_change_interval: Option<Interval>,
    /// What it rests on.
    pub tier: Tier,
    /// What follows.
    pub verdict: Verdict,
    /// Why, in words.
    pub reason: String,
    /// The processes of this run against those of the baseline, where stored numbers are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<MannWhitney>,
    /// How the interval of the change was found, where pairs are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
}

impl Against {
    /// Applies the rules to a change of throughput and to peak memory (baseline, current). Only what lies within the
    /// rule with both ends is equivalent, and only where a severe loss would not have been taken for noise.
    pub fn judged(change: &Change, memory: (Option<f64>, Option<f64>), noise_percent: f64, tier: Tier) -> Self {
        let memory = memory.0.zip(memory.1).unwrap_or((0.0, 0.0));
        let rules = BaselineComparison::of(change, memory, noise_percent);
        let (Interval { low, high }, threshold) = (change.interval, rules.threshold_percent());
        let verdict = match rules.performance_regression || rules.memory_regression {
            true => Verdict::Regressed,
            false if low > threshold => Verdict::Improved,
            false if low > -threshold && high < threshold && !rules.is_blind() => Verdict::Equivalent,
            false => Verdict::Inconclusive,
        };
        let mut reason = format!("throughput {:+.1} %", change.percent);
        if let Some(percent) = rules.memory_change_percent.filter(|_| rules.memory_regression) {
            reason += &format!(", memory {percent:+.1} %");
        }
        if rules.new_memory_use {
            reason += ", new memory use";
        }
        reason += &match verdict {
            Verdict::Inconclusive if rules.is_blind() => format!("; up to {threshold:.0} % may be noise"),
            _ => format!("; beyond {threshold:.0} % counts"),
        };
        let throughput_change_interval = Some(change.interval);
        let (rules, processes, method) = (Some(rules), None, None);
        Self { rules, throughput_change_interval, tier, verdict, reason, processes, method }
    }

    /// How it was found, in the words of records: for pairs what decided, for stored numbers the two intervals together
    /// (and, where both runs tell of their processes, a rank test).
    pub fn method_name(&self) -> &'static str {
        match (self.tier, self.method, &self.processes) {
            (Tier::Paired, Some(Method::Bootstrap), _) => "bootstrap",
            (Tier::Paired, ..) => "student",
            (_, _, Some(_)) => "stored_intervals_mann_whitney",
            (_, _, None) => "stored_intervals",
        }
    }

    /// Two results that must not be compared.
    pub fn incomparable(reason: impl Into<String>) -> Self {
        Self {
            rules: None,
            throughput_change_interval: None,
            tier: Tier::Baseline,
            verdict: Verdict::Incomparable,
            reason: reason.into(),
            processes: None,
            method: None,
        }
    }

    /// Takes back what it says of throughput, for a reason; memory stays what it is.
    pub fn take_back(&mut self, reason: impl Into<String>) {
        self.replace(Verdict::Noisy, reason);
    }

    fn replace(&mut self, verdict: Verdict, reason: impl Into<String>) {
        self.verdict = verdict;
        self.reason = reason.into();
        if let Some(rules) = &mut self.rules {
            rules.performance_regression = false;
            rules.severity = rules.memory_regression.then_some(Severity::Medium);
            if rules.memory_regression {
                self.verdict = Verdict::Regressed;
            }
        }
    }

    /// Whether it says that throughput changed.
    fn is_change(&self) -> bool {
        self.verdict == Verdict::Improved || self.rules.is_some_and(|rules| rules.performance_regression)
    }

    /// Leaves a change open that is not wholly beyond what runs of the case usually differ by.
    pub fn heed_history(&mut self, fence: &Fence) {
        let log = |percent: f64| (percent / 100.0).ln_1p();
        let judged = self.throughput_change_interval.map(|interval| judge(interval.map(log), fence.theta()));
        if self.is_change() && !matches!(judged, Some(Verdict::Regressed | Verdict::Improved)) {
            let reason = format!("{}, but its runs differ by up to {:.0} %", self.reason, fence.percent);
            self.replace(Verdict::Inconclusive, reason);
        }
    }

    /// Takes back a verdict by stored numbers if guards refuse: no control tells what the disturbance did to them.
    pub fn heed(&mut self, guards: &Readings) {
        let refusing: Vec<&str> = guards.refusing().collect();
        if self.tier == Tier::Baseline && self.rules.is_some() && !refusing.is_empty() {
            self.take_back(format!("{}, but {} refused", self.reason, refusing.join(", ")));
        }
    }

    /// A result against stored numbers of the same machine: the weaker way, for the machine may have been faster
    /// then. What processes of one run differ by counts as noise.
    pub fn stored(baseline: &BenchmarkResult, current: &BenchmarkResult) -> Self {
        if baseline.case_version != current.case_version {
            return Self::incomparable("the baseline measured other parameters");
        }
        if baseline.kind != current.kind {
            return Self::incomparable("the baseline measured another kind of step");
        }
        if !(baseline.throughput > 0.0 && current.throughput > 0.0) {
            return Self::incomparable("a throughput is not positive");
        }
        let log = (current.throughput / baseline.throughput).ln();
        let half =
            |result: &BenchmarkResult| result.throughput_ci95.map(|interval| 0.5 * (interval.high / interval.low).ln());
        let half_width = half(baseline).zip(half(current)).map(|(baseline, current)| baseline.hypot(current));
        // Without an interval the change may be anything.
        let change = Change::of_throughput(log, Interval::around(log, half_width.unwrap_or(f64::INFINITY)));
        let noise = [baseline, current].into_iter().filter_map(|result| result.noise_percent).fold(0.0, f64::max);
        let memory = (baseline.memory_peak_mb, current.memory_peak_mb);
        let mut against = Self::judged(&change, memory, noise, Tier::Baseline);
        against.processes = MannWhitney::of(&current.process_throughputs(), &baseline.process_throughputs());
        if [baseline, current].into_iter().any(BenchmarkResult::is_noisy) {
            let reason = format!("{}, but more than one process in ten reached no steady state", against.reason);
            against.take_back(reason);
        }
        if half_width.is_none() {
            against.throughput_change_interval = None;
            against.reason += ", but its interval is unknown";
        }
        against
    }
}

/// The error that a gate may make over all benchmarks together, and the share of false ones among what a report tells.
const ERROR: f64 = 0.05;

/// Leaves open what so many comparisons with stored numbers would show somewhere without a cause: with Holm's rule, any
/// false alarm among them has at most a probability of 5 %. Comparisons in pairs have it in their intervals.
pub fn heed_number(comparisons: &mut [&mut Against]) {
    let tested = |against: &&mut &mut Against| against.processes.is_some();
    let mut tested: Vec<&mut &mut Against> = comparisons.iter_mut().filter(tested).collect();
    let p: Vec<f64> = tested.iter().filter_map(|against| against.processes).map(|test| test.p).collect();
    let count = p.len();
    for (against, shown) in tested.iter_mut().zip(holm(&p, ERROR)) {
        if against.is_change() && !shown {
            let reason = format!("{}, which so few processes show by chance in {count} benchmarks", against.reason);
            against.replace(Verdict::Inconclusive, reason);
        }
    }
}

/// The names of what a report should tell: with Benjamini and Hochberg's rule, at most one in twenty of those compared
/// with stored numbers is expected to be a false alarm. Comparisons in pairs have it in their intervals.
pub fn worth_telling(comparisons: &BTreeMap<String, Against>) -> BTreeSet<&str> {
    let tests = comparisons.iter().filter_map(|(name, against)| Some((name, against.processes?.p)));
    let (names, p): (Vec<&String>, Vec<f64>) = tests.unzip();
    let doubtful = benjamini_hochberg(&p, ERROR).into_iter().map(|shown| !shown);
    let doubtful: BTreeSet<&String> =
        names.into_iter().zip(doubtful).filter(|(_, no)| *no).map(|(name, _)| name).collect();
    comparisons.keys().filter(|name| !doubtful.contains(name)).map(String::as_str).collect()
}

/// The binary that made a baseline, kept beside it: run again in turns with another, it needs no stored numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptBinary {
    /// Its file, in the folder of the baseline.
    pub file: String,
    /// Its hash.
    pub hash: String,
}

/// What a suite leaves behind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of the file.
    pub schema_version: u64,
    /// The run, as in its records.
    pub run_id: String,
    /// When it began, for people.
    pub timestamp: String,
    /// Where.
    pub system_info: SystemInfo,
    /// Numbers by category.
    pub category_stats: BTreeMap<String, CategoryStats>,
    /// All results in a few numbers.
    pub summary: SuiteSummary,
    /// The results.
    pub results: Vec<BenchmarkResult>,
    /// Their comparison with a baseline, by name.
    pub comparisons: BTreeMap<String, Against>,
    /// Key figures.
    pub kpis: Vec<Kpi>,
    /// What the guards had found in the end; older reports do not tell.
    #[serde(default)]
    pub guards: Option<Readings>,
    /// What could be better.
    pub recommendations: Vec<String>,
    /// The binary, if this is a baseline with one.
    pub binary: Option<KeptBinary>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The version of reports that are written.
pub const REPORT_VERSION: u64 = 1;

/// The numbers of each category.
pub fn category_stats(results: &[BenchmarkResult]) -> BTreeMap<String, CategoryStats> {
    let mut categories: BTreeMap<String, Vec<&BenchmarkResult>> = BTreeMap::new();
    for result in results {
        categories.entry(result.category.clone()).or_default().push(result);
    }
    let stats = |results: Vec<&BenchmarkResult>| {
        let rates: Vec<f64> = results.iter().map(|result| result.throughput).collect();
        let peaks: Vec<f64> = results.iter().filter_map(|result| result.memory_peak_mb).collect();
        CategoryStats {
            count: results.len(),
            avg_throughput: mean(&rates),
            std_throughput: population_sd(&rates),
            max_throughput: rates.iter().copied().fold(f64::MIN, f64::max),
            avg_memory_peak: (!peaks.is_empty()).then(|| mean(&peaks)),
            max_memory_peak: peaks.into_iter().reduce(f64::max),
        }
    };
    categories.into_iter().map(|(category, results)| (category, stats(results))).collect()
}

/// All results in four numbers.
pub fn summary(results: &[BenchmarkResult]) -> SuiteSummary {
    let rates: Vec<f64> = results.iter().map(|result| result.throughput).collect();
    SuiteSummary {
        total_benchmarks: results.len(),
        avg_throughput: if rates.is_empty() { 0.0 } else { mean(&rates) },
        peak_memory_mb: results.iter().filter_map(|result| result.memory_peak_mb).reduce(f64::max),
        total_duration: results.iter().map(|result| result.duration).sum(),
    }
}

/// What the results suggest to do.
pub fn recommendations(results: &[BenchmarkResult]) -> Vec<String> {
    let mut advice = Vec::new();
    for (category, stats) in category_stats(results) {
        if stats.avg_throughput < SLOW_PER_SECOND {
            let rate = format_number(stats.avg_throughput);
            advice.push(format!("{category}: {rate} iterations/s on average; profile it (bench profile) and optimise"));
        }
        if let Some(peak) = stats.max_memory_peak.filter(|&peak| peak > MUCH_MEMORY_MB) {
            advice.push(format!("{category}: up to {peak:.0} MB; reduce num_envs, scan_chunk_size or buffers"));
        }
    }
    for (what, sizes) in scalings(results) {
        let best = sizes.values().copied().fold(0.0, f64::max);
        if let Some((&largest, &rate)) = sizes.last_key_value().filter(|(_, rate)| **rate < GOOD_RETENTION * best) {
            let kept = 100.0 * rate / best;
            advice.push(format!(
                "{what}: {largest} environments keep {kept:.0} % of the best throughput; try a smaller scan_chunk_size"
            ));
        }
    }
    for result in results {
        let threads = result.metadata.get("threads").and_then(Value::as_f64).unwrap_or(1.0);
        if let Some(cpu) = result.cpu_percent.filter(|&cpu| cpu < BUSY_PERCENT * threads) {
            advice.push(format!(
                "{}: computed {cpu:.0} % of the time of {threads} threads; look for other load, fewer threads or a \
                 larger share of start-up",
                result.name
            ));
        }
    }
    advice
}

/// Throughput by number of environments, of cases that differ in nothing else.
fn scalings(results: &[BenchmarkResult]) -> BTreeMap<String, BTreeMap<u64, f64>> {
    let mut scalings: BTreeMap<String, BTreeMap<u64, f64>> = BTreeMap::new();
    for result in results.iter().filter(|result| result.category == "kernel_performance") {
        if let (Some(env), Some(size)) = (result.metadata.get("env"), result.metadata.get("num_envs")) {
            let what = env.as_str().unwrap_or_default().to_owned();
            scalings.entry(what).or_default().insert(size.as_u64().unwrap_or(0), result.throughput);
        }
    }
    scalings.retain(|_, sizes| sizes.len() > 2);
    scalings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, category: &str, throughput: f64, memory: f64) -> BenchmarkResult {
        BenchmarkResult {
            name: name.to_owned(),
            category: category.to_owned(),
            duration: 2.0,
            memory_peak_mb: Some(memory),
            memory_current_mb: Some(memory),
            cpu_percent: Some(99.0),
            iterations: 100,
            throughput,
            throughput_ci95: Some(Interval { low: throughput * 0.99, high: throughput * 1.01 }),
            noise_percent: Some(0.5),
            kind: None,
            case_version: None,
            metadata: Map::new(),
        }
    }

    #[test]
    fn a_function_is_measured_after_its_warm_up() {
        let mut calls = 0;
        let result = Benchmark::new("count", "custom").iterations(23).warmup(4).run(|| {
            calls += 1;
            Ok::<_, ()>(())
        });
        let result = result.unwrap();
        assert_eq!((calls, result.iterations, result.category.as_str()), (4 + 23 + 1, 23, "custom"));
        assert!((result.throughput - 23.0 / result.duration).abs() < 1e-6 * result.throughput);
    }

    #[test]
    fn an_error_in_the_warm_up_is_an_error() {
        let failed = Benchmark::new("fails", "custom").run(|| Err::<(), _>("no"));
        assert_eq!(failed, Err("no"));
    }

    #[test]
    fn categories_are_summed_up() {
        let results = [result("a", "x", 100.0, 10.0), result("b", "x", 300.0, 30.0), result("c", "y", 50.0, 2000.0)];
        let stats = category_stats(&results);
        assert_eq!((stats["x"].count, stats["x"].avg_throughput, stats["x"].max_throughput), (2, 200.0, 300.0));
        assert_eq!((stats["x"].std_throughput, stats["x"].max_memory_peak), (100.0, Some(30.0)));
        let summary = summary(&results);
        assert_eq!((summary.total_benchmarks, summary.total_duration), (3, 6.0));
        assert_eq!(summary.peak_memory_mb, Some(2000.0));
        let advice = recommendations(&results);
        assert_eq!(advice.len(), 2, "{advice:?}");
        assert!(advice.iter().all(|line| line.starts_with("y: ")), "{advice:?}");
    }

    #[test]
    fn a_size_that_loses_throughput_and_an_idle_thread_are_noticed() {
        let sized = |n: u64, throughput| {
            let mut of = result(&format!("k{n}"), "kernel_performance", throughput, 1.0);
            of.metadata.insert("env".to_owned(), "E".into());
            of.metadata.insert("num_envs".to_owned(), n.into());
            of
        };
        let mut results = vec![sized(100, 1e6), sized(1000, 2e6), sized(10_000, 1.9e6)];
        assert_eq!(recommendations(&results), Vec::<String>::new());
        results[2].throughput = 1.5e6;
        assert!(recommendations(&results)[0].contains("10000 environments keep 75 %"));
        results[1].cpu_percent = Some(50.0);
        assert!(recommendations(&results)[1].starts_with("k1000: computed 50 %"));
    }

    #[test]
    fn processes_that_do_not_settle_are_marked() {
        let settled = || Process::of_times((0..24).map(|i| 10.0 + 0.01 * f64::from(i % 3)));
        let restless =
            || Process::of_times((0..24).map(|i| if i < 20 { 10.0 } else { 12.0 } + 0.01 * f64::from(i % 3)));
        let few = || Process::of_times([10.0, 10.1].into_iter());
        let of = |processes: &[Process]| {
            BenchmarkResult::of_case("a", "x", &CaseSpec::rollout("some", 4), processes).is_noisy()
        };
        assert_eq!([of(&[settled(), settled()]), of(&[settled(), restless()]), of(&[few()])], [false, true, false]);
    }

    /// A result of processes with these throughputs, known exactly.
    fn of_processes(rates: &[f64]) -> BenchmarkResult {
        let throughput = mean(rates);
        let mut of = result("a", "x", throughput, 100.0);
        of.throughput_ci95 = Some(Interval::point(throughput));
        of.metadata.insert(PROCESSES.to_owned(), rates.to_vec().into());
        of
    }

    #[test]
    fn among_many_benchmarks_few_processes_show_nothing() {
        let rates = |count: usize, level: f64| (0..count).map(|i| level + 0.1 * i as f64).collect::<Vec<_>>();
        let slower = |count| Against::stored(&of_processes(&rates(count, 100.0)), &of_processes(&rates(count, 80.0)));
        let verdicts = |count: usize, others: usize| {
            let same = || Against::stored(&of_processes(&rates(count, 100.0)), &of_processes(&rates(count, 100.0)));
            let mut all: Vec<Against> = std::iter::once(slower(count)).chain((0..others).map(|_| same())).collect();
            heed_number(&mut all.iter_mut().collect::<Vec<_>>());
            let named = all.iter().cloned().enumerate().map(|(i, against)| (i.to_string(), against)).collect();
            (all[0].verdict, worth_telling(&named).contains("0"))
        };
        assert_eq!(slower(4).processes.unwrap().superiority, 0.0);
        assert_eq!(verdicts(3, 0), (Verdict::Inconclusive, false), "three against three can never pass 5 %");
        assert_eq!(verdicts(4, 0), (Verdict::Regressed, true));
        assert_eq!(verdicts(4, 20), (Verdict::Inconclusive, false), "one of many would look so by chance");
        assert_eq!(verdicts(12, 20), (Verdict::Regressed, true));
        let unknown = Against::stored(&result("a", "x", 100.0, 1.0), &result("a", "x", 50.0, 1.0));
        assert_eq!((unknown.verdict, unknown.processes), (Verdict::Regressed, None), "a baseline of an older version");
    }

    #[test]
    fn a_change_that_runs_show_without_a_cause_is_left_open() {
        let fence = |percent: f64| Fence::of(&[percent; 8], 0.5).unwrap();
        let verdict = |throughput: f64, percent| {
            let mut found = Against::stored(&of_processes(&[100.0]), &of_processes(&[throughput]));
            found.heed_history(&fence(percent));
            (found.verdict, found.rules.unwrap().performance_regression)
        };
        assert_eq!(verdict(80.0, 5.0), (Verdict::Regressed, true));
        assert_eq!(verdict(80.0, 25.0), (Verdict::Inconclusive, false), "22 % in logarithms");
        assert_eq!(verdict(125.0, 25.0), (Verdict::Inconclusive, false));
        assert_eq!(verdict(125.0, 5.0), (Verdict::Improved, false));
        assert_eq!(verdict(100.0, 25.0), (Verdict::Equivalent, false));
    }

    #[test]
    fn golden_changes_against_stored_numbers() {
        let exact = |throughput: f64, memory: f64| BenchmarkResult {
            throughput_ci95: Some(Interval::point(throughput)),
            noise_percent: Some(0.0),
            ..result("a", "x", throughput, memory)
        };
        let against = |throughput, memory| Against::stored(&exact(100.0, 100.0), &exact(throughput, memory));
        for (throughput, memory, verdict, severity) in [
            (89.0, 100.0, Verdict::Regressed, Some(Severity::Medium)),
            (79.0, 100.0, Verdict::Regressed, Some(Severity::High)),
            (91.0, 100.0, Verdict::Equivalent, None),
            (112.0, 100.0, Verdict::Improved, None),
            (100.0, 121.0, Verdict::Regressed, Some(Severity::Medium)),
            (100.0, 119.0, Verdict::Equivalent, None),
        ] {
            let found = against(throughput, memory);
            assert_eq!((found.verdict, found.rules.unwrap().severity), (verdict, severity), "{throughput} {memory}");
        }
        let unsure = |low, high| BenchmarkResult {
            throughput_ci95: Some(Interval { low, high }),
            ..exact(f64::sqrt(low * high), 100.0)
        };
        let verdict = |current: &BenchmarkResult| Against::stored(&exact(100.0, 100.0), current).verdict;
        assert_eq!(verdict(&unsure(95.0, 105.0)), Verdict::Equivalent);
        assert_eq!(verdict(&unsure(95.0, 115.0)), Verdict::Inconclusive, "perhaps 15 % faster");
        assert_eq!(verdict(&unsure(85.0, 105.0)), Verdict::Inconclusive, "perhaps 15 % slower");
        for throughput in [50.0, 100.0, 200.0] {
            let once = BenchmarkResult { throughput_ci95: None, ..exact(throughput, 100.0) };
            let found = Against::stored(&exact(100.0, 100.0), &once);
            assert_eq!((found.verdict, found.throughput_change_interval), (Verdict::Inconclusive, None));
            assert!(crate::json::pretty("comparison", &found).is_ok());
        }
        let mut restless = exact(79.0, 100.0);
        restless.metadata.insert(NOISY.to_owned(), true.into());
        assert_eq!(verdict(&restless), Verdict::Noisy);
        restless.memory_peak_mb = Some(121.0);
        let found = Against::stored(&exact(100.0, 100.0), &restless);
        assert_eq!((found.verdict, found.rules.unwrap().performance_regression), (Verdict::Regressed, false));
        let noisy = |noise, throughput| {
            let current = BenchmarkResult { noise_percent: Some(noise), ..exact(throughput, 100.0) };
            Against::stored(&exact(100.0, 100.0), &current)
        };
        assert_eq!(noisy(6.0, 85.0).verdict, Verdict::Equivalent);
        for (noise, throughput) in [(10.0, 79.0), (75.7, 100.0), (75.7, 5.0)] {
            let found = noisy(noise, throughput);
            assert_eq!(found.verdict, Verdict::Inconclusive, "no loss could have been found: {}", found.reason);
        }
        assert_eq!(noisy(10.0, 65.0).verdict, Verdict::Regressed);
        let steal = serde_json::json!({"steal": {"value": 9.0, "status": "refuse"}});
        let steal: Readings = serde_json::from_value(steal).unwrap();
        for throughput in [79.0, 100.0, 120.0] {
            let mut found = against(throughput, 100.0);
            found.heed(&Readings::default());
            assert_ne!(found.verdict, Verdict::Noisy);
            found.heed(&steal);
            assert_eq!(found.verdict, Verdict::Noisy, "{}", found.reason);
        }
        let other = BenchmarkResult { case_version: Some("v".to_owned()), ..exact(79.0, 100.0) };
        assert_eq!(Against::stored(&exact(100.0, 100.0), &other).verdict, Verdict::Incomparable);
    }
}
