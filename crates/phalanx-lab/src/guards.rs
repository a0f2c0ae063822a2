//! Guards: whether the machine was quiet enough, before and after a measurement, for it to mean anything.
//!
//! A guard that cannot be read is `unknown`, never `ok`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::build_info::{BuildInfo, Git};
use crate::linux::{self, Cgroups, CpuLimit};

/// Share of the CPU time that the hypervisor gave to others.
const STEAL: Limits = Limits { warn: 0.01, refuse: 0.05 };
/// Tasks of others that want to run, per core.
const LOAD: Limits = Limits { warn: 0.5, refuse: 1.5 };
/// Share of the time in which some task waited for a CPU. The method sets no limits here: this warning is ours.
const PRESSURE: Limits = Limits { warn: 0.2, refuse: f64::INFINITY };
/// Involuntary context switches per second.
const PREEMPTION: Limits = Limits { warn: 50.0, refuse: 500.0 };

/// The guard that compares threads with the cores they may use.
pub const OVERSUBSCRIPTION: &str = "oversubscription";

/// The guard that two builds differ in nothing but their code.
pub const BUILDS: &str = "builds";

/// What a guard thinks of a measurement; the order is from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing disturbs.
    Ok,
    /// The system does not tell.
    Unknown,
    /// Look twice at the result.
    Warn,
    /// The result means nothing.
    Refuse,
}

/// What one guard has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// A number or a few words; null if unknown.
    pub value: Value,
    /// What it means.
    pub status: Status,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The readings of all guards by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Readings(pub BTreeMap<String, Reading>);

impl Reading {
    fn new(value: impl Into<Value>, status: Status) -> Self {
        Self { value: value.into(), status, extra: Map::new() }
    }

    fn unknown() -> Self {
        Self::new(Value::Null, Status::Unknown)
    }

    fn or_unknown(reading: Option<Self>) -> Self {
        reading.unwrap_or_else(Self::unknown)
    }
}

impl Readings {
    /// The names of the guards that refuse, in alphabetical order.
    pub fn refusing(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, reading)| reading.status == Status::Refuse).map(|(name, _)| name.as_str())
    }

    /// The value of a guard in words.
    pub fn text(&self, name: &str) -> String {
        match self.0.get(name).map(|reading| &reading.value) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => "unknown".to_owned(),
        }
    }

    fn set(&mut self, name: &str, reading: Reading) {
        self.0.insert(name.to_owned(), reading);
    }
}

struct Limits {
    warn: f64,
    refuse: f64,
}

impl Limits {
    fn judge(&self, value: f64) -> Reading {
        let status = match value {
            v if v >= self.refuse => Status::Refuse,
            v if v >= self.warn => Status::Warn,
            v if v.is_nan() => Status::Unknown,
            _ => Status::Ok,
        };
        Reading::new(value, status)
    }
}

/// Guards of one measurement, from before it begins.
#[derive(Debug)]
pub struct Guards {
    threads: usize,
    before: Readings,
    start: Counters,
}

impl Guards {
    /// Looks at the machine before a measurement that will use this many threads.
    pub fn before(threads: usize, build: &BuildInfo, git: &Git) -> Self {
        let start = Counters::read();
        let mut before = Readings::default();
        // Our threads do not run yet.
        before.set("load", load_now(0.0));
        before.set("governor", governor());
        before.set("turbo", turbo());
        before.set("build", build_reading(build, git));
        let quota_cpus = start.cpu_limit.and_then(|limit| limit.quota_cpus);
        let allowed = linux::read("/proc/self/status").and_then(|text| allowed_cpus(&text));
        let cores = allowed.as_ref().and_then(linux::physical_cores);
        before.set(OVERSUBSCRIPTION, oversubscription(threads, allowed.as_ref().map(BTreeSet::len), quota_cpus));
        before.set("smt", shared_cores(threads, cores));
        before.set("throttling", throttling(start.cpu_limit, start.cpu_limit));
        Self { threads, before, start }
    }

    /// What is known before anything was measured.
    pub fn readings_before(&self) -> &Readings {
        &self.before
    }

    /// What is known now: counters since `before`, and the worse of both looks at the load. May be called during the
    /// measurement as well.
    pub fn after(&self) -> Readings {
        let now = Counters::read();
        let start = &self.start;
        let seconds = now.at.duration_since(start.at).as_secs_f64();
        let mut readings = self.before.clone();
        let since = |change: Option<f64>, limits: &Limits| Reading::or_unknown(change.map(|value| limits.judge(value)));
        let per_second = |from: Option<u64>, to: Option<u64>| {
            let change = to?.checked_sub(from?)?;
            (seconds > 0.0).then(|| change as f64 / seconds)
        };
        let steal = start.cpu_times.as_ref().zip(now.cpu_times.as_ref()).and_then(|(a, b)| steal_share(a, b));
        readings.set("steal", since(steal, &STEAL));
        readings.set("preemption", since(per_second(start.preemptions, now.preemptions), &PREEMPTION));
        let waiting = per_second(start.waiting_us, now.waiting_us).map(|us_per_second| us_per_second / 1e6);
        readings.set("pressure", since(waiting, &PRESSURE));
        readings.set("throttling", throttling(start.cpu_limit, now.cpu_limit));
        readings.set("thermal", any_more(start.thermal_throttles, now.thermal_throttles));
        let load = load_now(own_load(self.threads, seconds));
        if readings.0.get("load").is_none_or(|earlier| load.status > earlier.status) {
            readings.set("load", load);
        }
        readings
    }
}

/// Whether two binaries may be compared at all: they may differ in their code, not in how it was compiled. What only
/// one of them tells, because it is of another version, is no difference.
pub fn build_mismatch(a: &BuildInfo, b: &BuildInfo) -> Reading {
    let of = |build: &BuildInfo| {
        let features = build.features.join(",");
        [
            ("profile", Some(build.profile.clone())),
            ("rustc", build.rustc.clone()),
            ("opt-level", build.opt_level.clone()),
            ("lto", build.lto.clone()),
            ("target-cpu", Some(build.target_cpu.clone().unwrap_or_else(|| "any".to_owned()))),
            ("target features", Some(features)),
            ("allocator", build.allocator.clone()),
        ]
    };
    let differences: Vec<String> = std::iter::zip(of(a), of(b))
        .filter_map(|((name, a), (_, b))| {
            a.zip(b).filter(|(a, b)| a != b).map(|(a, b)| format!("{name} {a} against {b}"))
        })
        .collect();
    match differences.is_empty() {
        true => Reading::new("alike", Status::Ok),
        false => Reading::new(differences.join(", "), Status::Refuse),
    }
}

/// Counters that only mean something as differences.
#[derive(Debug)]
struct Counters {
    at: Instant,
    cpu_times: Option<CpuTimes>,
    cpu_limit: Option<CpuLimit>,
    preemptions: Option<u64>,
    thermal_throttles: Option<u64>,
    waiting_us: Option<u64>,
}

impl Counters {
    fn read() -> Self {
        Self {
            at: Instant::now(),
            cpu_times: CpuTimes::read(),
            cpu_limit: Cgroups::of_this_process().and_then(|groups| groups.cpu_limit()),
            preemptions: linux::involuntary_switches(),
            thermal_throttles: thermal_throttles(),
            waiting_us: linux::read("/proc/pressure/cpu").and_then(|text| waiting_us(&text)),
        }
    }
}

/// Ticks of all CPUs since the start of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuTimes {
    /// Time in which something ran: user (with guests), nice, system, interrupts.
    busy: u64,
    /// Time that was wanted but given to others.
    steal: u64,
}

impl CpuTimes {
    fn read() -> Option<Self> {
        linux::read("/proc/stat").and_then(|text| cpu_times(&text))
    }
}

/// Measures the share of the CPU time that the hypervisor gives to others from now on.
#[derive(Debug)]
pub struct StealClock(Option<CpuTimes>);

impl StealClock {
    /// Begins to measure.
    pub fn start() -> Self {
        Self(CpuTimes::read())
    }

    /// The share until now; `None` where the system does not tell, or has counted nothing yet: it counts in steps of
    /// 10 ms.
    pub fn share(&self) -> Option<f64> {
        steal_share(&self.0?, &CpuTimes::read()?)
    }
}

/// The first line of `/proc/stat`.
fn cpu_times(stat: &str) -> Option<CpuTimes> {
    let ticks = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = ticks.split_whitespace().map(|ticks| ticks.parse().ok()).collect::<Option<_>>()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
    Some(CpuTimes { busy: user + nice + system + irq + softirq, steal })
}

/// The share of the wanted CPU time that was stolen; unknown if nothing ran.
fn steal_share(before: &CpuTimes, after: &CpuTimes) -> Option<f64> {
    let steal = after.steal.checked_sub(before.steal)?;
    let wanted = steal + after.busy.checked_sub(before.busy)?;
    (wanted > 0).then(|| steal as f64 / wanted as f64)
}

fn load_now(own_load: f64) -> Reading {
    Reading::or_unknown((|| {
        let one_minute = one_minute_load(&linux::read("/proc/loadavg")?)?;
        let cpus = linux::online_cpus()?;
        let cores = linux::physical_cores(&cpus).unwrap_or(cpus.len());
        Some(LOAD.judge(load_of_others(one_minute, own_load, cores)))
    })())
}

/// What threads that have run for some seconds add to the load of one minute, which is a mean that fades as e^(-t/60).
fn own_load(threads: usize, seconds: f64) -> f64 {
    threads as f64 * -(-seconds / 60.0).exp_m1()
}

/// The first number of `/proc/loadavg`.
fn one_minute_load(loadavg: &str) -> Option<f64> {
    loadavg.split_whitespace().next()?.parse().ok()
}

/// Tasks per core that are not ours. Our threads may have rested in between, hence not below 0.
fn load_of_others(one_minute: f64, own_load: f64, cores: usize) -> f64 {
    (one_minute - own_load).max(0.0) / cores.max(1) as f64
}

/// Microseconds in which some task waited, the total of the `some` line of `/proc/pressure/cpu`.
fn waiting_us(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    some.split_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
}

/// A quota warns, time throttled refuses.
fn throttling(before: Option<CpuLimit>, after: Option<CpuLimit>) -> Reading {
    Reading::or_unknown(before.zip(after).and_then(|(before, after)| {
        let throttled_us = after.throttled_us.checked_sub(before.throttled_us)?;
        Some(match (throttled_us, after.quota_cpus) {
            (0, None) => Reading::new("no limit", Status::Ok),
            (0, Some(cpus)) => Reading::new(format!("limited to {cpus} CPUs, not throttled"), Status::Warn),
            (us, _) => Reading::new(format!("throttled for {us} us"), Status::Refuse),
        })
    }))
}

/// Refuses if a counter has moved.
fn any_more(before: Option<u64>, after: Option<u64>) -> Reading {
    Reading::or_unknown(before.zip(after).and_then(|(before, after)| {
        let events = after.checked_sub(before)?;
        Some(Reading::new(events, if events == 0 { Status::Ok } else { Status::Refuse }))
    }))
}

/// Times that CPUs were slowed down for being hot; unknown where no CPU counts it.
fn thermal_throttles() -> Option<u64> {
    let counts = linux::online_cpus()?;
    let counts = counts.iter().filter_map(|cpu| {
        linux::cpu_file(*cpu, "thermal_throttle/core_throttle_count").and_then(|text| text.parse::<u64>().ok())
    });
    counts.reduce(|a, b| a + b)
}

fn governor() -> Reading {
    let governors = linux::online_cpus().and_then(|cpus| {
        cpus.iter().map(|cpu| linux::cpu_file(*cpu, "cpufreq/scaling_governor")).collect::<Option<BTreeSet<_>>>()
    });
    Reading::or_unknown(governors.map(|names| judge_governors(&names)))
}

fn judge_governors(names: &BTreeSet<String>) -> Reading {
    let all_fast = names.iter().all(|name| name == "performance");
    let text = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    Reading::new(text, if all_fast { Status::Ok } else { Status::Warn })
}

/// Only noted: with turbo on, fewer threads run faster ones, which a reader of thread scaling should know.
fn turbo() -> Reading {
    let intel = linux::cpus_file("intel_pstate/no_turbo").map(|off| off == "0");
    let others = || linux::cpus_file("cpufreq/boost").map(|on| on == "1");
    let on = intel.or_else(others);
    Reading::or_unknown(on.map(|on| Reading::new(if on { "on" } else { "off" }, Status::Ok)))
}

/// The CPUs that `/proc/self/status` allows the process to use.
fn allowed_cpus(status: &str) -> Option<BTreeSet<usize>> {
    linux::number_list(&linux::field::<String>(status, "Cpus_allowed_list")?)
}

/// Threads per CPU that may be used: the affinity cut down to the quota.
fn oversubscription(threads: usize, allowed: Option<usize>, quota_cpus: Option<f64>) -> Reading {
    Reading::or_unknown(allowed.map(|allowed| {
        let cpus = quota_cpus.unwrap_or(f64::INFINITY).min(allowed as f64);
        more_than_one(threads as f64 / cpus)
    }))
}

/// Threads per physical core: above 1, threads share cores and slow each other down.
fn shared_cores(threads: usize, cores: Option<usize>) -> Reading {
    Reading::or_unknown(cores.filter(|cores| *cores > 0).map(|cores| more_than_one(threads as f64 / cores as f64)))
}

fn more_than_one(threads_per_unit: f64) -> Reading {
    Reading::new(threads_per_unit, if threads_per_unit > 1.0 { Status::Warn } else { Status::Ok })
}

fn build_reading(build: &BuildInfo, git: &Git) -> Reading {
    let (tree, tree_status) = match git.dirty {
        Some(false) => ("clean tree", Status::Ok),
        Some(true) => ("dirty tree", Status::Warn),
        None => ("unknown tree", Status::Unknown),
    };
    let build_status = if build.profile == "release" { Status::Ok } else { Status::Warn };
    Reading::new(format!("{}, {tree}", build.profile), build_status.max(tree_status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(profile: &str) -> BuildInfo {
        BuildInfo { profile: profile.to_owned(), features: vec!["avx2".to_owned()], ..BuildInfo::of_this_binary() }
    }

    #[test]
    fn stolen_time_is_a_share_of_the_time_that_was_wanted() {
        let before = cpu_times("cpu  1000 0 100 8000 10 0 5 85 0 0\ncpu0 1 2 3\n").unwrap();
        let after = cpu_times("cpu  1400 0 120 8100 10 0 5 115 0 0\n").unwrap();
        let reading = STEAL.judge(steal_share(&before, &after).unwrap());
        assert!((reading.value.as_f64().unwrap() - 30.0 / 450.0).abs() < 1e-12);
        assert_eq!(reading.status, Status::Refuse);
        assert_eq!(steal_share(&before, &before), None, "nothing ran");
        assert_eq!(steal_share(&after, &before), None, "a counter ran backwards");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn stolen_time_is_known_after_some_work() {
        let (clock, start) = (StealClock::start(), Instant::now());
        while start.elapsed() < std::time::Duration::from_millis(200) {
            std::hint::black_box(0);
        }
        // Some sandboxes have the file and count nothing.
        let counted = CpuTimes::read().is_some_and(|times| times.busy > 0);
        assert_eq!(clock.share().is_some(), counted);
        assert!(clock.share().is_none_or(|share| (0.0..=1.0).contains(&share)));
    }

    #[test]
    fn damaged_text_is_unknown() {
        for text in ["", "cpu  1 2 3", "cpu  1 0 1 x 0 0 0 0", "intr 5"] {
            assert_eq!(cpu_times(text), None);
        }
        assert_eq!(one_minute_load(""), None);
        assert_eq!(waiting_us("full avg10=0.00 total=0"), None);
        assert_eq!(allowed_cpus("Name: a"), None);
        assert_eq!(Reading::or_unknown(None).status, Status::Unknown);
    }

    #[test]
    fn limits_count_from_the_value_itself() {
        for (value, status) in [(0.0, Status::Ok), (0.01, Status::Warn), (0.049, Status::Warn), (0.05, Status::Refuse)]
        {
            assert_eq!(STEAL.judge(value).status, status, "{value}");
        }
        assert_eq!(PREEMPTION.judge(49.9).status, Status::Ok);
        assert_eq!(PRESSURE.judge(1.0).status, Status::Warn);
        assert_eq!(STEAL.judge(f64::NAN).status, Status::Unknown);
    }

    #[test]
    fn our_own_threads_are_no_load() {
        let load = one_minute_load("3.50 0.80 1.46 2/88 25152\n").unwrap();
        assert_eq!(load_of_others(load, 2.0, 2), 0.75);
        assert_eq!(load_of_others(load, 8.0, 2), 0.0);
        assert_eq!(own_load(2, 0.0), 0.0, "they have not run yet");
        assert!((own_load(2, 60.0) - 2.0 * (1.0 - (-1.0_f64).exp())).abs() < 1e-12);
        assert!((own_load(2, 1e6) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn pressure_is_the_total_of_some() {
        let text = "some avg10=1.36 avg60=0.80 avg300=1.46 total=6088285479\nfull avg10=0.00 total=0\n";
        assert_eq!(waiting_us(text), Some(6_088_285_479));
    }

    #[test]
    fn a_quota_warns_and_throttling_refuses() {
        let limit = |quota_cpus, throttled_us| Some(CpuLimit { quota_cpus, throttled_us });
        assert_eq!(throttling(limit(None, 5), limit(None, 5)).status, Status::Ok);
        assert_eq!(throttling(limit(Some(1.5), 5), limit(Some(1.5), 5)).status, Status::Warn);
        let throttled = throttling(limit(None, 5), limit(None, 9));
        assert_eq!((throttled.status, throttled.value), (Status::Refuse, "throttled for 4 us".into()));
        assert_eq!(throttling(None, limit(None, 0)).status, Status::Unknown);
        assert_eq!(any_more(Some(3), Some(3)).status, Status::Ok);
        assert_eq!(any_more(Some(3), Some(4)).status, Status::Refuse);
        assert_eq!(any_more(Some(3), None).status, Status::Unknown);
    }

    #[test]
    fn threads_should_have_a_cpu_each() {
        assert_eq!(allowed_cpus("Cpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"), Some([0, 1].into()));
        assert_eq!(oversubscription(2, Some(2), None).status, Status::Ok);
        assert_eq!(oversubscription(3, Some(2), None).status, Status::Warn);
        assert_eq!(oversubscription(2, Some(4), Some(1.5)).status, Status::Warn);
        assert_eq!(oversubscription(2, None, Some(1.5)).status, Status::Unknown);
        assert_eq!(shared_cores(4, Some(2)).status, Status::Warn);
        assert_eq!(shared_cores(2, Some(2)).status, Status::Ok);
    }

    #[test]
    fn every_cpu_should_run_fast() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(judge_governors(&names(&["performance"])).status, Status::Ok);
        assert_eq!(judge_governors(&names(&["performance", "powersave"])).status, Status::Warn);
    }

    #[test]
    fn builds_should_be_clean_and_alike() {
        let git = |dirty| Git { dirty, ..Git::default() };
        assert_eq!(build_reading(&build("release"), &git(Some(false))).status, Status::Ok);
        assert_eq!(build_reading(&build("release"), &git(Some(true))).status, Status::Warn);
        assert_eq!(build_reading(&build("release"), &git(None)).status, Status::Unknown);
        assert_eq!(build_reading(&build("debug"), &git(None)).status, Status::Warn);
        assert_eq!(build_mismatch(&build("release"), &build("release")).status, Status::Ok);
        assert_eq!(build_mismatch(&build("release"), &build("debug")).status, Status::Refuse);
        let release = build("release");
        let other = |change: fn(&mut BuildInfo)| {
            let mut other = release.clone();
            change(&mut other);
            build_mismatch(&release, &other).status
        };
        assert_eq!(other(|build| build.rustc = Some("rustc 1.0".to_owned())), Status::Refuse);
        assert_eq!(other(|build| build.opt_level = Some("z".to_owned())), Status::Refuse);
        assert_eq!(other(|build| build.features.clear()), Status::Refuse);
        assert_eq!(other(|build| build.allocator = Some("another".to_owned())), Status::Refuse);
        assert_eq!(other(|build| build.rustc = None), Status::Ok, "an older version does not tell");
        assert_eq!(other(|build| build.binary_hash = None), Status::Ok, "code may differ");
    }

    #[test]
    fn every_guard_has_a_reading_in_the_end() {
        let guards = Guards::before(1, &build("release"), &Git::default());
        assert!(!guards.readings_before().0.contains_key("steal"));
        let after = guards.after();
        let names: Vec<_> = after.0.keys().map(String::as_str).collect();
        let expected = "build governor load oversubscription preemption pressure smt steal thermal throttling turbo";
        assert_eq!(names.join(" "), expected);
        assert!(after.0.values().all(|reading| !reading.value.is_null() || reading.status == Status::Unknown));
    }

    #[test]
    fn those_that_refuse_are_named() {
        let mut readings = Readings::default();
        readings.set("load", Reading::new(0.1, Status::Ok));
        readings.set("steal", Reading::new(0.2, Status::Refuse));
        readings.set("turbo", Reading::unknown());
        assert_eq!(readings.refusing().collect::<Vec<_>>(), ["steal"]);
    }
}
