//! What suites are made of: items of six categories, measured alone or in turns with the binary of a baseline.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use phalanx_core::batch::Batch;
use phalanx_core::policy::Policy;
use phalanx_core::rollout::Rollout;
use phalanx_core::space::ActionMask;
use phalanx_envs::registry;
use phalanx_lab::campaign::{self, PairRun, Plan, Process};
use phalanx_lab::case::CaseSpec;
use phalanx_lab::clock::Stopwatch;
use phalanx_lab::function::infallible;
use phalanx_lab::history::{OVERHEADS, STARTS};
use phalanx_lab::judgement::Judgement;
use phalanx_lab::kpi::{Figure, Targets};
use phalanx_lab::memory;
use phalanx_lab::precision;
use phalanx_lab::record::Kind;
use phalanx_lab::session::Session;
use phalanx_lab::stats::interval::{CONFIDENCE, Interval};
use phalanx_lab::stats::line::{Line, Point};
use phalanx_lab::stats::paired::Comparison;
use phalanx_lab::stats::regression::{Change, effective_threshold};
use phalanx_lab::stats::verdict::{Better, Tier, Verdict};
use phalanx_lab::suite::{Against, Benchmark, BenchmarkResult};
use phalanx_lab::throughput::MEGABYTE;

use super::paired::{Copies, Looks, Margin, PairedMeasurement, calibration_of, seed_of};
use crate::failure::Failure;
use crate::monitoring::ProcessMonitoring;
use crate::workloads;

/// Changes of throughput that a suite reports, in per cent of the baseline.
const THROUGHPUT_RULE: f64 = 10.0;

/// What may be spent on watching constraints, in per cent.
pub(super) const ACCEPTABLE_OVERHEAD: f64 = 10.0;

/// Pairs that the definition of safety overhead asks for.
const OVERHEAD_PAIRS: usize = 7;

/// The most processes, and samples of each, of runs that take a tenth of a second or more.
const SOLVE_PROCESSES: usize = 4;
const SOLVE_SAMPLES: usize = 6;

/// Repeats of the leak test.
const LEAK_REPEATS: u64 = 100;

/// Growth per repeat that is a leak: a page.
const LEAK_BYTES: f64 = 4096.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Category {
    Kernel,
    Environment,
    Rl,
    Safety,
    Memory,
    Startup,
}

impl Category {
    pub(super) const ALL: [Self; 6] =
        [Self::Kernel, Self::Environment, Self::Rl, Self::Safety, Self::Memory, Self::Startup];

    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Environment => "environment",
            Self::Rl => "rl",
            Self::Safety => "safety",
            Self::Memory => "memory",
            Self::Startup => "startup",
        }
    }

    /// Its name in results.
    fn of_results(self) -> &'static str {
        match self {
            Self::Kernel => "kernel_performance",
            Self::Environment => "environment_simulation",
            Self::Rl => "rl_training",
            Self::Safety => "safety_validation",
            Self::Memory => "memory_performance",
            Self::Startup => "startup_performance",
        }
    }
}

/// One line of a suite.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) category: Category,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Steps in a second.
    Speed(CaseSpec),
    /// Whole runs until the task is solved.
    Solve(CaseSpec),
    /// Process starts in a second, up to the first outputs, and the memory that it takes.
    Start(CaseSpec),
    /// Whole episodes of one environment.
    Episodes(CaseSpec),
    /// Making and dropping over and over.
    Leak(CaseSpec),
    /// What the allocator costs: so many arrays of so many numbers, made, written and dropped.
    Allocate { arrays: usize, numbers: usize },
    /// What watching constraints costs.
    Overhead(CaseSpec),
}

impl Item {
    /// Whether a key figure comes from it.
    pub(super) fn gives_figures(&self) -> bool {
        match &self.what {
            What::Speed(case) => figure_of(case).is_some(),
            What::Start(_) => self.category == Category::Startup,
            What::Overhead(_) => true,
            What::Episodes(_) | What::Leak(_) | What::Solve(_) | What::Allocate { .. } => false,
        }
    }
}

/// The industrial environments: those that have constraints.
pub(super) fn industrial() -> Vec<&'static str> {
    let specs = registry::ENTRIES.iter().map(registry::Entry::spec);
    specs.filter(|spec| !spec.constraints.is_empty()).map(|spec| spec.name).collect()
}

/// The key figure that the speed of a case is.
fn figure_of(case: &CaseSpec) -> Option<&'static str> {
    match case.kind {
        Kind::HostApiRandom if case.num_envs == 1 => Some("environment_step_time_ms"),
        Kind::PolicyForward if case.num_envs == 1 => Some("policy_inference_time_ms"),
        Kind::Training if case.threads == 1 => Some("training_throughput_steps_per_sec"),
        _ => None,
    }
}

/// Training with chunks of one roll-out, or as long as one of the others.
fn training(env: &str, agent: &str, num_envs: usize, chunk: usize) -> CaseSpec {
    CaseSpec { scan_chunk_size: chunk, ..CaseSpec::training(env, agent, num_envs) }
}

/// What learning is watched by: agents with their presets, at the sizes of these.
fn learning() -> impl Iterator<Item = (String, What)> {
    /// Two hidden layers, a common size.
    const HIDDEN: (&str, &str) = ("agent.hidden", "[64,64]");
    let own = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let agents = [("ppo", 32, 32), ("dqn", 8, 64), ("pqn", 32, 64)];
    let forward = [1, 64, 256, 1024].map(|n| ("ppo", n, vec![own(HIDDEN)]));
    let forward = forward.into_iter().chain([("dqn", 1, Vec::new()), ("pqn", 1, Vec::new())]);
    let forward = forward.map(|(agent, n, settings)| {
        let case = CaseSpec { kind: Kind::PolicyForward, settings, ..CaseSpec::training("CartPole-v1", agent, n) };
        (format!("{agent}/forward/n{n}"), What::Speed(case))
    });
    let update = agents.map(|(agent, n, chunk)| {
        let case = CaseSpec { kind: Kind::GradientUpdate, ..training("CartPole-v1", agent, n, chunk) };
        (format!("{agent}/update"), What::Speed(case))
    });
    let presets = agents.map(|(agent, n, chunk)| {
        (format!("{agent}/training/n{n}"), What::Speed(training("CartPole-v1", agent, n, chunk)))
    });
    let many = CaseSpec {
        threads: 2,
        settings: [HIDDEN, ("run.rollout_steps", "16"), ("agent.num_minibatches", "4"), ("agent.num_epochs", "4")]
            .map(own)
            .to_vec(),
        ..training("CartPole-v1", "ppo", 2048, 16)
    };
    let others = [
        ("ppo/training/n2048/t2".to_owned(), What::Speed(many)),
        ("ppo/training/ChemicalReactor-v0".to_owned(), What::Speed(training("ChemicalReactor-v0", "ppo", 64, 128))),
        ("q_learning/training/n64".to_owned(), What::Speed(training("TicTacToe-v0", "q_learning", 64, 256))),
    ];
    let solve = CaseSpec { kind: Kind::TimeToSolve, ..training("CartPole-v1", "ppo", 32, 32) };
    forward.chain(update).chain(presets).chain(others).chain([("ppo/solve".to_owned(), What::Solve(solve))])
}

/// The items of a category.
pub(super) fn items(category: Category) -> Vec<Item> {
    let item = |name: String, what| Item { name: format!("{}/{name}", category.name()), category, what };
    let sized = |env: &str, n: usize| format!("{env}/n{n}");
    match category {
        Category::Kernel => {
            let sizes = [100, 1_000, 10_000, 100_000].map(|n| ("CartPole-v1", n));
            let cases = sizes.into_iter().chain([("ccasr-gfp-control", 1_000)]);
            cases.map(|(env, n)| item(sized(env, n), What::Speed(CaseSpec::rollout(env, n)))).collect()
        }
        Category::Environment => industrial()
            .into_iter()
            .flat_map(|env| {
                let rollout = CaseSpec::rollout(env, 1000);
                let off = CaseSpec { safety: "off".to_owned(), ..rollout.clone() };
                let host = registry::find(env).is_ok_and(|entry| entry.spec().action_mask != ActionMask::Binding);
                let step = host.then(|| item(format!("{env}/step"), What::Speed(CaseSpec::host_api(env, 1))));
                let rollouts = [("safety-on", rollout), ("safety-off", off)];
                let episodes = item(format!("{env}/episodes"), What::Episodes(CaseSpec::rollout(env, 1)));
                step.into_iter()
                    .chain([episodes])
                    .chain(rollouts.map(|(name, case)| item(format!("{env}/rollout/{name}"), What::Speed(case))))
            })
            .collect(),
        Category::Rl => learning().map(|(name, what)| item(name, what)).collect(),
        Category::Safety => industrial()
            .into_iter()
            .flat_map(|env| [1, 1000].map(|n| (sized(env, n), CaseSpec::rollout(env, n))))
            .map(|(name, case)| item(name, What::Overhead(case)))
            .collect(),
        Category::Memory => {
            let sizes = [100_000, 1_000_000].map(|n| (sized("CartPole-v1", n), CaseSpec::rollout("CartPole-v1", n)));
            let leak = item("leak".to_owned(), What::Leak(CaseSpec::rollout("CartPole-v1", 1000)));
            let arrays = [100_000, 1_000_000, 10_000_000]
                .map(|numbers| item(format!("arrays/n{numbers}"), What::Allocate { arrays: 1, numbers }));
            let allocator = item("allocator".to_owned(), What::Allocate { arrays: 1000, numbers: 16 });
            let starts = sizes.into_iter().map(|(name, case)| item(name, What::Start(case)));
            starts.chain(arrays).chain([allocator, leak]).collect()
        }
        Category::Startup => ["CartPole-v1"]
            .into_iter()
            .chain(industrial())
            .map(|env| item(env.to_owned(), What::Start(CaseSpec::rollout(env, 1))))
            .collect(),
    }
}

/// What an item showed.
pub(super) struct Outcome {
    pub(super) result: BenchmarkResult,
    pub(super) against: Option<Against>,
    /// Key figures that it gives.
    pub(super) figures: Vec<(&'static str, Figure)>,
}

/// Measures items.
pub(super) struct Runner<'a> {
    pub(super) session: &'a mut Session,
    /// This binary.
    pub(super) own: &'a Path,
    /// A: the binary of the baseline, B: this one.
    pub(super) against: Option<&'a Copies>,
    pub(super) looks: Looks,
    pub(super) monitor: &'a mut ProcessMonitoring,
    pub(super) quiet: bool,
    /// The name under which records keep the cases.
    pub(super) suite: &'static str,
}

impl<'a> Runner<'a> {
    /// Measures this binary, and compares it with no other.
    pub(super) fn of_this_binary(
        session: &'a mut Session,
        own: &'a Path,
        plan: Plan,
        monitor: &'a mut ProcessMonitoring,
        quiet: bool,
        suite: &'static str,
    ) -> Self {
        let looks = Looks { plan, looks: 1, cases: 1, same_work: true };
        Self { session, own, against: None, looks, monitor, quiet, suite }
    }
}

impl Runner<'_> {
    /// Measures an item.
    pub(super) fn run(&mut self, item: &Item) -> Result<Outcome, Failure> {
        let category = item.category.of_results();
        match &item.what {
            What::Speed(case) => {
                let (processes, against) = self.speed(item, case)?;
                let result = BenchmarkResult::of_case(&item.name, category, case, &processes);
                let figures = speed_figure(item, case, &result).into_iter().collect();
                Ok(Outcome { result, against, figures })
            }
            What::Solve(case) => {
                let looks = self.looks;
                let Plan { processes, samples, .. } = looks.plan;
                self.looks.plan.processes = processes.min(SOLVE_PROCESSES);
                self.looks.plan.samples = samples.min(SOLVE_SAMPLES);
                let measured = self.speed(item, case);
                self.looks = looks;
                let (processes, against) = measured?;
                let mut result = BenchmarkResult::of_case(&item.name, category, case, &processes);
                result.metadata.insert("time_to_solve_s".to_owned(), (1.0 / result.throughput).into());
                Ok(Outcome { result, against, figures: Vec::new() })
            }
            What::Start(case) => {
                let (processes, against) = self.starts(item, case)?;
                let result = BenchmarkResult::of_start(&item.name, category, case, &processes);
                let figures = start_figures(item, &result, &processes);
                Ok(Outcome { result, against, figures })
            }
            What::Episodes(case) => {
                Ok(Outcome { result: episodes(item, category, case)?, against: None, figures: Vec::new() })
            }
            What::Allocate { arrays, numbers } => {
                let result = allocate(item, category, *arrays, *numbers);
                Ok(Outcome { result, against: None, figures: Vec::new() })
            }
            What::Leak(case) => Ok(Outcome { result: leak(item, category, case)?, against: None, figures: Vec::new() }),
            What::Overhead(case) => {
                let overhead = self.overhead(case)?;
                let Overhead { percent, interval, .. } = overhead;
                let mut result = BenchmarkResult::of_case(&item.name, category, case, &overhead.monitored);
                result.metadata.insert("safety_validation_overhead_percent".to_owned(), percent.into());
                result
                    .metadata
                    .insert("overhead_interval_percent".to_owned(), vec![interval.low, interval.high].into());
                // What disturbed the machine may be all that this is.
                let quiet = self.session.guards().refusing().next().is_none();
                result.metadata.insert("acceptable".to_owned(), (quiet && overhead.acceptable()).into());
                let figure = Figure { measured: Some((percent, interval)), source: item.name.clone() };
                let figures = vec![("safety_validation_overhead_percent", figure)];
                Ok(Outcome { result, against: None, figures })
            }
        }
    }

    fn alone(&mut self, name: &str, case: &CaseSpec, plan: &Plan, suite: &str) -> Result<Vec<Process>, Failure> {
        let mut watch = self.monitor.watch(name, "processes", plan.processes, self.quiet);
        let mut recorded = Ok(());
        let cases = std::slice::from_ref(case);
        let mut measured = precision::measure(self.own, cases, plan, Duration::ZERO, |case, so_far| {
            // A process that failed says so below.
            let so_far = so_far.unwrap_or_default();
            if let Some(process) = so_far.last() {
                watch.process(case, process);
            }
            if recorded.is_ok() {
                recorded = self.session.record_progress(case, suite, so_far);
            }
        });
        drop(watch);
        let measured = measured.swap_remove(0)?;
        recorded?;
        self.session.record_complete(&measured)?;
        Ok(measured.processes)
    }

    fn speed(&mut self, item: &Item, case: &CaseSpec) -> Result<(Vec<Process>, Option<Against>), Failure> {
        let Some(copies) = self.against else {
            return Ok((self.alone(&item.name, case, &self.looks.plan.clone(), self.suite)?, None));
        };
        let calibration = calibration_of(&self.session.run.machine, case, &self.looks.plan);
        let calibrated = calibration.as_ref().map(|stored| stored.noise_percent);
        // The threshold as a margin of time: 10 % less throughput is 11 % more time.
        let threshold = effective_threshold(THROUGHPUT_RULE, calibrated.unwrap_or(0.0)).min(90.0);
        let margin = Margin {
            percent: 100.0 * (100.0 / (100.0 - threshold) - 1.0),
            origin: "the rule of suites".to_owned(),
            calibration,
        };
        let watch = self.monitor.watch(&item.name, "pairs", self.looks.plan.processes * self.looks.looks, self.quiet);
        // Only a loss that could be one is worth a second look.
        let open = |judgement: &Judgement| {
            judgement.is_open() && judgement.comparison.is_none_or(|found| found.deciding.low < -margin.theta())
        };
        let mut measurement = PairedMeasurement { copies, session: self.session, watch, suite: self.suite };
        let looked = self.looks.take(&mut measurement, case, &margin, open);
        drop(measurement);
        let (pairs, judgement) = match looked {
            Ok(looked) => looked,
            Err(failure) => {
                let against = not_compared(failure);
                let processes = self.alone(&item.name, case, &self.looks.plan.clone(), self.suite)?;
                return Ok((processes, Some(against)));
            }
        };
        self.session.record_pairs_complete((case, case), &pairs)?;
        let memory = peaks(&pairs);
        let Some(comparison) = &judgement.comparison else {
            return Ok((current(pairs), Some(Against::incomparable(judgement.finding.reason))));
        };
        let noise_percent = calibrated.unwrap_or_else(|| standard_error_percent(comparison));
        let mut against = Against::judged(&change(comparison), memory, noise_percent, Tier::Paired);
        against.method = Some(comparison.method);
        // What disturbed the machine can take a verdict back, and never makes one.
        if against.verdict != Verdict::Equivalent && judgement.finding.verdict == Verdict::Noisy {
            against.take_back(judgement.finding.reason);
        }
        Ok((current(pairs), Some(against)))
    }

    fn starts(&mut self, item: &Item, case: &CaseSpec) -> Result<(Vec<Process>, Option<Against>), Failure> {
        // One sample, because a process must have one; what counts is how it started.
        let processes = self.looks.plan.processes.next_multiple_of(2).max(4);
        let plan = Plan { processes, samples: 1, sample: Duration::from_millis(1), ..self.looks.plan };
        let Some(copies) = self.against else {
            return Ok((self.alone(&item.name, case, &plan, STARTS)?, None));
        };
        let watch = self.monitor.watch(&item.name, "pairs", plan.processes, self.quiet);
        let mut measurement = PairedMeasurement { copies, session: self.session, watch, suite: STARTS };
        let pairs = measurement.compare((case, case), &plan, true, Vec::new());
        drop(measurement);
        let pairs = match pairs {
            Ok(pairs) => pairs,
            Err(failure) => return Ok((self.alone(&item.name, case, &plan, STARTS)?, Some(not_compared(failure)))),
        };
        self.session.record_pairs_complete((case, case), &pairs)?;
        let log = |pair: &PairRun| (pair.a.ready.startup_ns as f64 / pair.b.ready.startup_ns as f64).ln();
        // Whoever starts second is faster, so only two pairs of opposite order together say something.
        let logs = pairs.chunks_exact(2).map(|two| 0.5 * (log(&two[0]) + log(&two[1])));
        let seed = seed_of(&self.session.run.run_id);
        let against = match campaign::of_log_ratios(logs, self.looks.confidence(), seed) {
            Some(found) => Against {
                method: Some(found.method),
                ..Against::judged(&change(&found), peaks(&pairs), standard_error_percent(&found), Tier::Paired)
            },
            None => Against::incomparable("too few starts"),
        };
        Ok((current(pairs), Some(against)))
    }

    /// What watching the constraints of a case costs: monitor against off, in turns.
    pub(super) fn overhead(&mut self, case: &CaseSpec) -> Result<Overhead, Failure> {
        let mode = |mode: &str| CaseSpec { safety: mode.to_owned(), ..case.clone() };
        let (on, off) = (mode("monitor"), mode("off"));
        let copies = Copies::new(self.own, self.own)?;
        let seed = seed_of(&self.session.run.run_id);
        let plan = Plan { processes: self.looks.plan.processes.max(OVERHEAD_PAIRS), seed, ..self.looks.plan };
        let watch = self.monitor.watch(on.id(), "pairs", plan.processes, self.quiet);
        let mut measurement = PairedMeasurement { copies: &copies, session: self.session, watch, suite: OVERHEADS };
        let pairs = measurement.compare((&on, &off), &plan, true, Vec::new())?;
        drop(measurement);
        self.session.record_pairs_complete((&on, &off), &pairs)?;
        let found = campaign::compared(&pairs, CONFIDENCE, seed)
            .ok_or_else(|| Failure::input(format!("{}: too few samples to compare", on.id())))?;
        let percent = |log: f64| 100.0 * log.exp_m1();
        let checksum = pairs.first().and_then(|pair| pair.a.timings.last()).map(|timing| timing.checksum.to_string());
        Ok(Overhead {
            percent: percent(found.test.difference),
            interval: found.deciding.map(percent),
            pairs: pairs.len(),
            checksum,
            monitored: pairs.into_iter().map(|pair| pair.a).collect(),
        })
    }
}

/// What watching constraints costs.
pub(super) struct Overhead {
    pub(super) percent: f64,
    pub(super) interval: Interval,
    pub(super) pairs: usize,
    /// Of both sides: they computed the same.
    pub(super) checksum: Option<String>,
    monitored: Vec<Process>,
}

impl Overhead {
    /// Whether it is surely below what may be spent on it.
    pub(super) fn acceptable(&self) -> bool {
        self.interval.high < ACCEPTABLE_OVERHEAD
    }
}

/// A case that the baseline's binary cannot measure, or computes otherwise: it is measured alone.
fn not_compared(failure: Failure) -> Against {
    let against = Against::incomparable(format!("the binary of the baseline: {failure}"));
    if matches!(failure, Failure::Lab(phalanx_lab::Error::ChecksumMismatch { .. })) {
        let reason = failure.to_string();
        return Against { verdict: Verdict::ChecksumMismatch, tier: Tier::Paired, reason, ..against };
    }
    against
}

fn change(comparison: &Comparison) -> Change {
    Change::of_throughput(comparison.test.difference, comparison.deciding)
}

fn standard_error_percent(comparison: &Comparison) -> f64 {
    100.0 * comparison.sd / (comparison.pairs as f64).sqrt()
}

/// This binary's side.
fn current(pairs: Vec<PairRun>) -> Vec<Process> {
    pairs.into_iter().map(|pair| pair.b).collect()
}

/// Peak memory of both sides, in MiB.
fn peaks(pairs: &[PairRun]) -> (Option<f64>, Option<f64>) {
    let most = |side: fn(&PairRun) -> &Process| {
        pairs.iter().filter_map(|pair| side(pair).ready.rss_peak).max().map(|bytes| bytes as f64 / MEGABYTE)
    };
    (most(|pair| &pair.a), most(|pair| &pair.b))
}

/// Both ends of an interval of rates as times for one, in units of `unit` seconds.
fn times(rates: Interval, unit: f64) -> Interval {
    Interval { low: 1.0 / rates.high / unit, high: 1.0 / rates.low / unit }
}

fn speed_figure(item: &Item, case: &CaseSpec, result: &BenchmarkResult) -> Option<(&'static str, Figure)> {
    let (name, interval) = figure_of(case).zip(result.throughput_ci95)?;
    let value = match case.kind {
        Kind::Training => (result.throughput, interval),
        _ => (1e3 / result.throughput, times(interval, 1e-3)),
    };
    let (measured, source) = match result.is_noisy() {
        true => (None, format!("{}, whose processes reached no steady state", item.name)),
        false => (Some(value), item.name.clone()),
    };
    Some((name, Figure { measured, source }))
}

fn start_figures(item: &Item, result: &BenchmarkResult, processes: &[Process]) -> Vec<(&'static str, Figure)> {
    if !item.gives_figures() {
        return Vec::new();
    }
    let figure = |measured, source| Figure { measured, source };
    let start = result.throughput_ci95.map(|rates| (1.0 / result.throughput, times(rates, 1.0)));
    let growths: Option<Vec<f64>> = processes
        .iter()
        .map(|process| Some(process.ready.rss_peak?.saturating_sub(process.ready.rss_before?) as f64 / MEGABYTE))
        .collect();
    let growth = growths.filter(|growths| !growths.is_empty()).map(|growths| {
        let (low, high) = growths.iter().fold((f64::MAX, 0.0_f64), |(low, high), &mb| (low.min(mb), high.max(mb)));
        (high, Interval { low, high })
    });
    vec![
        ("compilation_time_s", figure(start, item.name.clone())),
        ("memory_usage_per_episode_mb", figure(growth, format!("{}, from before it was made", item.name))),
    ]
}

/// The figures of all outcomes: of several items, the worst. What is unknown may be anything.
pub(super) fn figures(outcomes: &[Outcome]) -> BTreeMap<String, Figure> {
    let targets = Targets::default();
    let mut all: BTreeMap<String, Figure> = BTreeMap::new();
    for (name, figure) in outcomes.iter().flat_map(|outcome| &outcome.figures) {
        let sign = match targets.0.get(*name).map(|limits| limits.better) {
            Some(Better::Higher) => -1.0,
            _ => 1.0,
        };
        let badness = |figure: &Figure| figure.measured.map_or(f64::INFINITY, |(value, _)| sign * value);
        if all.get(*name).is_none_or(|worst| badness(figure) > badness(worst)) {
            all.insert((*name).to_owned(), figure.clone());
        }
    }
    all
}

/// Whole episodes of one environment under random actions: 100 of them after 1000 steps that do not count.
fn episodes(item: &Item, category: &str, case: &CaseSpec) -> Result<BenchmarkResult, Failure> {
    const EPISODES: u64 = 100;
    /// Steps after which an environment whose episodes do not end is given up.
    const MOST_STEPS: u64 = 1000 * EPISODES;
    const STRETCH: usize = 50;
    let mut batch = registry::find(&case.env)?.batch(&workloads::config(case)?)?;
    let rollout =
        |batch: &dyn Batch| Ok::<_, Failure>(Rollout::new(Policy::parse("random", &[], batch.spec())?, batch));
    rollout(batch.as_ref())?.run(batch.as_mut(), 1000, STRETCH, |_| true)?;
    let mut measured = rollout(batch.as_ref())?;
    let watch = Stopwatch::start();
    while measured.stats().episodes() < EPISODES && measured.steps() < MOST_STEPS {
        measured.run(batch.as_mut(), STRETCH, STRETCH, |_| true)?;
    }
    let elapsed = watch.elapsed();
    let (duration, steps) = (elapsed.wall_ns.max(1) as f64 / 1e9, measured.steps());
    let mut metadata = serde_json::Map::new();
    metadata.insert("environment".to_owned(), case.env.clone().into());
    metadata.insert("throughput_steps_per_sec".to_owned(), (steps as f64 / duration).into());
    metadata.insert("avg_episode_length".to_owned(), measured.stats().lengths().map(|lengths| lengths.mean).into());
    metadata.insert("episodes".to_owned(), measured.stats().episodes().into());
    metadata.insert("total_duration".to_owned(), duration.into());
    Ok(BenchmarkResult {
        name: item.name.clone(),
        category: category.to_owned(),
        duration,
        memory_peak_mb: None,
        memory_current_mb: memory::rss_bytes().map(|bytes| bytes as f64 / MEGABYTE),
        cpu_percent: elapsed.cpu_efficiency(1).map(|share| 100.0 * share),
        iterations: steps,
        throughput: steps as f64 / duration,
        throughput_ci95: None,
        noise_percent: None,
        kind: Some(case.kind),
        case_version: Some(case.version()),
        metadata,
    })
}

/// Makes, writes and drops arrays of single precision; an iteration is all of them once.
fn allocate(item: &Item, category: &str, arrays: usize, numbers: usize) -> BenchmarkResult {
    /// Numbers that are written in all, so that every size takes about as long.
    const WRITTEN: usize = 200_000_000;
    let iterations = (WRITTEN / (arrays * numbers)).clamp(10, 1000) as u64;
    let made = infallible(|| (0..arrays).map(|i| vec![i as f32 + 1.0; numbers]).collect::<Vec<_>>());
    let benchmark = Benchmark::new(&item.name, category).iterations(iterations).warmup(3);
    let Ok(mut result) = benchmark.metadata("arrays", arrays).metadata("numbers", numbers).run(made);
    let per_array = 1e9 / (result.throughput * arrays as f64);
    result.metadata.insert("ns_per_array".to_owned(), per_array.into());
    result
}

/// Makes and drops a case over and over; what stays behind each time is a leak.
fn leak(item: &Item, category: &str, case: &CaseSpec) -> Result<BenchmarkResult, Failure> {
    let mut points = Vec::new();
    let mut result =
        Benchmark::new(&item.name, category).iterations(LEAK_REPEATS).warmup(10).metadata("case", case.id()).run(
            || {
                workloads::of(case)?.run(1)?;
                if let Some(rss) = memory::rss_bytes() {
                    points.push(Point { x: points.len() as f64, y: rss as f64, weight: 1.0 });
                }
                Ok::<_, Failure>(())
            },
        )?;
    // Of one repeat, which is not what leaks.
    result.memory_peak_mb = None;
    let slope = Line::fit(&points).and_then(|line| Some((line.slope, line.slope_interval(CONFIDENCE)?)));
    if let Some((bytes, interval)) = slope {
        result.metadata.insert("bytes_per_repeat".to_owned(), bytes.into());
        result.metadata.insert("bytes_per_repeat_interval".to_owned(), vec![interval.low, interval.high].into());
        result.metadata.insert("leaks".to_owned(), (interval.low > LEAK_BYTES).into());
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_can_be_made_and_has_a_name_of_its_own() {
        let items: Vec<Item> = Category::ALL.into_iter().flat_map(items).collect();
        let names: std::collections::BTreeSet<&str> = items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names.len(), items.len());
        for item in &items {
            let (What::Speed(case)
            | What::Solve(case)
            | What::Start(case)
            | What::Episodes(case)
            | What::Leak(case)
            | What::Overhead(case)) = &item.what
            else {
                continue; // it has no environment
            };
            // What has to be solved must have the size of its preset.
            let num_envs = if matches!(item.what, What::Solve(_)) { case.num_envs } else { 1 };
            let small = CaseSpec { num_envs, ..case.clone() };
            if let Err(error) = workloads::of(&small) {
                panic!("{}: {error}", item.name);
            }
            assert_eq!(
                CaseSpec { seed: case.seed, ..CaseSpec::parse(&case.id()).unwrap() },
                *case,
                "its name says all"
            );
        }
    }

    #[test]
    fn episodes_are_counted_whole() {
        let item = Item {
            name: "episodes".to_owned(),
            category: Category::Environment,
            what: What::Episodes(CaseSpec::rollout("CartPole-v1", 1)),
        };
        let What::Episodes(case) = &item.what else { unreachable!("just made") };
        let result = episodes(&item, "c", case).unwrap();
        let length = result.metadata["avg_episode_length"].as_f64().unwrap();
        // Random play keeps the pole up for some twenty steps.
        assert!((15.0..30.0).contains(&length), "{length}");
        assert!(result.metadata["episodes"].as_u64().unwrap() >= 100 && result.iterations >= 1500);
    }

    #[test]
    fn arrays_take_the_memory_that_they_say() {
        let item = items(Category::Memory).into_iter().find(|item| item.name == "memory/arrays/n1000000").unwrap();
        let What::Allocate { arrays, numbers } = item.what else { panic!("{item:?}") };
        let result = allocate(&item, "memory_performance", arrays, numbers);
        assert!(result.iterations >= 10 && result.throughput > 0.0, "{result:?}");
        let nanoseconds = result.metadata["ns_per_array"].as_f64().unwrap();
        // A million numbers cannot be written in less than some 10 us on any machine.
        assert!((1e4..1e9).contains(&nanoseconds), "{nanoseconds}");
    }

    #[test]
    fn an_overhead_is_acceptable_only_if_its_whole_interval_is() {
        let of = |low, high| {
            let (interval, monitored) = (Interval { low, high }, Vec::new());
            Overhead { percent: 0.5 * (low + high), interval, pairs: 7, checksum: None, monitored }.acceptable()
        };
        assert_eq!([of(-1.0, 9.0), of(4.0, 11.0), of(11.0, 12.0)], [true, false, false]);
    }

    #[test]
    fn of_several_items_the_worst_figure_counts() {
        let outcome = |value: Option<f64>| {
            let measured = value.map(|value| (value, Interval::point(value)));
            let figure = Figure { measured, source: format!("{value:?}") };
            Outcome {
                result: Benchmark::new("b", "c").iterations(1).warmup(0).run(|| Ok::<_, ()>(())).unwrap(),
                against: None,
                figures: ["compilation_time_s", "training_throughput_steps_per_sec"]
                    .map(|name| (name, figure.clone()))
                    .into(),
            }
        };
        let all = figures(&[Some(1.0), Some(3.0), Some(2.0)].map(outcome));
        assert_eq!(all["compilation_time_s"].source, "Some(3.0)");
        assert_eq!(all["training_throughput_steps_per_sec"].source, "Some(1.0)", "higher is better");
        let unknown = figures(&[Some(1.0), None, Some(2.0)].map(outcome));
        assert!(unknown.values().all(|figure| figure.measured.is_none()));
    }
}
