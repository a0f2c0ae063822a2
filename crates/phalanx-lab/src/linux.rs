//! What Linux tells in `/proc` and `/sys`: one reader, and parsers that are pure functions of text.
//!
//! On other systems the files are missing, so every answer is `None`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const CPUS: &str = "/sys/devices/system/cpu";

/// The text of a file without the space around it.
pub(crate) fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The first value after `name` and a separator, as in `VmHWM: 12 kB` or `throttled_usec 5`.
pub(crate) fn field<T: FromStr>(text: &str, name: &str) -> Option<T> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = rest.trim_start_matches([' ', '\t', ':']);
        let name_ends = value.len() < rest.len();
        value.split_whitespace().next().filter(|_| name_ends)?.parse().ok()
    })
}

/// A field that is given in kB, in bytes.
pub(crate) fn kib_field(text: &str, name: &str) -> Option<u64> {
    field::<u64>(text, name)?.checked_mul(1024)
}

/// The numbers of a list such as `0-3,8`.
pub(crate) fn number_list(text: &str) -> Option<BTreeSet<usize>> {
    let mut numbers = BTreeSet::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        numbers.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(numbers)
}

/// The CPUs that are switched on.
pub(crate) fn online_cpus() -> Option<BTreeSet<usize>> {
    number_list(&read(format!("{CPUS}/online"))?)
}

/// A file about one CPU, such as `topology/core_id`.
pub(crate) fn cpu_file(cpu: usize, name: &str) -> Option<String> {
    read(format!("{CPUS}/cpu{cpu}/{name}"))
}

/// A file about all CPUs, such as `cpufreq/boost`.
pub(crate) fn cpus_file(name: &str) -> Option<String> {
    read(format!("{CPUS}/{name}"))
}

/// Physical cores that these CPUs belong to: CPUs of one core name the same siblings.
pub(crate) fn physical_cores(cpus: &BTreeSet<usize>) -> Option<usize> {
    let siblings: Option<BTreeSet<_>> =
        cpus.iter().map(|cpu| cpu_file(*cpu, "topology/thread_siblings_list")).collect();
    siblings.map(|distinct| distinct.len())
}

/// The control groups that this process is in, from its own up to the root of the hierarchy that limits its CPU time.
#[derive(Debug)]
pub(crate) struct Cgroups {
    folders: Vec<PathBuf>,
}

/// What the control groups say of CPU time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CpuLimit {
    /// CPUs' worth of time that may be used; `None` if unlimited.
    pub(crate) quota_cpus: Option<f64>,
    /// Time for which the limit has stopped the group.
    pub(crate) throttled_us: u64,
}

impl Cgroups {
    pub(crate) fn of_this_process() -> Option<Self> {
        let text = read("/proc/self/cgroup")?;
        let (mounts, path) = cgroup_path(&text)?;
        let mount = mounts.iter().map(Path::new).find(|mount| mount.is_dir())?;
        let inside = path.trim_start_matches('/');
        let folders = Path::new(inside).ancestors().map(|group| mount.join(group)).collect();
        Some(Self { folders })
    }

    /// The tightest quota and the total time throttled; `None` if no group tells.
    pub(crate) fn cpu_limit(&self) -> Option<CpuLimit> {
        let limits = self.folders.iter().filter_map(|folder| {
            let throttled_us = throttled_us(&read(folder.join("cpu.stat"))?)?;
            let quota_cpus = read(folder.join("cpu.max")).and_then(|text| quota_v2(&text)).or_else(|| {
                quota_v1(&read(folder.join("cpu.cfs_quota_us"))?, &read(folder.join("cpu.cfs_period_us"))?)
            });
            Some(CpuLimit { quota_cpus, throttled_us })
        });
        limits.reduce(|a, b| CpuLimit {
            quota_cpus: [a.quota_cpus, b.quota_cpus].into_iter().flatten().reduce(f64::min),
            throttled_us: a.throttled_us + b.throttled_us,
        })
    }
}

/// Where the hierarchy that limits CPU time may be mounted, and the group in it, from `/proc/self/cgroup`.
fn cgroup_path(text: &str) -> Option<(&'static [&'static str], &str)> {
    let line = |wanted: fn(&str) -> bool| {
        text.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            wanted(controllers).then_some(path)
        })
    };
    // A machine with both versions has the CPU controller in version 1.
    let version_1 = line(|controllers| controllers.split(',').any(|name| name == "cpu"));
    let version_2 = || line(str::is_empty);
    version_1
        .map(|path| (["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"].as_slice(), path))
        .or_else(|| version_2().map(|path| (["/sys/fs/cgroup"].as_slice(), path)))
}

/// CPUs' worth of time of `cpu.max`, such as `200000 100000`; `None` for `max 100000`.
fn quota_v2(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    quota_v1(quota, period)
}

/// CPUs' worth of time of a quota and its period; a quota of -1 is none.
fn quota_v1(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota >= 0.0 && period > 0.0).then_some(quota / period)
}

/// Time throttled of `cpu.stat`: version 2 counts microseconds, version 1 nanoseconds.
fn throttled_us(text: &str) -> Option<u64> {
    field(text, "throttled_usec").or_else(|| field::<u64>(text, "throttled_time").map(|ns| ns / 1000))
}

/// Times that this process was made to wait in favour of another, over all its threads, ended ones included, and
/// all processes that it has waited for: the work is done by those.
pub(crate) fn involuntary_switches() -> Option<u64> {
    Some(usage_of(Whose::Own)?.involuntary_switches + usage_of(Whose::Children)?.involuntary_switches)
}

/// Whose use of the machine.
#[derive(Debug, Clone, Copy)]
enum Whose {
    /// This process.
    Own,
    /// Its children, and theirs, as far as they have been waited for.
    Children,
}

/// What the system counts of processes.
#[derive(Debug, Clone, Copy)]
struct Usage {
    #[cfg_attr(not(test), expect(dead_code, reason = "tells tests that a child was counted"))]
    cpu_us: u64,
    involuntary_switches: u64,
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn usage_of(whose: Whose) -> Option<Usage> {
    use std::ffi::{c_int, c_long};

    /// `struct rusage` of 64-bit Linux. Only `getrusage` counts threads that have ended, and rustix has no such call.
    #[repr(C)]
    #[derive(Default)]
    struct Counters {
        /// Seconds and microseconds of each.
        user_and_system_time: [c_long; 4],
        other_counters: [c_long; 13],
        involuntary_switches: c_long,
    }
    unsafe extern "C" {
        fn getrusage(who: c_int, usage: *mut Counters) -> c_int;
    }

    let who = match whose {
        Whose::Own => 0,
        Whose::Children => -1,
    };
    let mut counters = Counters::default();
    // SAFETY: the pointer is valid for writes of a whole `struct rusage`, whose layout `Counters` has.
    let status = unsafe { getrusage(who, &mut counters) };
    let [user_s, user_us, system_s, system_us] = counters.user_and_system_time;
    let cpu_us = (user_s + system_s) * 1_000_000 + user_us + system_us;
    (status == 0).then_some(Usage {
        cpu_us: u64::try_from(cpu_us).ok()?,
        involuntary_switches: u64::try_from(counters.involuntary_switches).ok()?,
    })
}

/// Unknown here.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn usage_of(_: Whose) -> Option<Usage> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let text = "VmPeak:\t    3060 kB\nVmHWM:\t    1628 kB\nCpus_allowed_list:\t0-1\n";
        assert_eq!(kib_field(text, "VmHWM"), Some(1628 * 1024));
        assert_eq!(field::<String>(text, "Cpus_allowed_list"), Some("0-1".to_owned()));
        assert_eq!(kib_field(text, "VmRSS"), None);
        assert_eq!(kib_field(text, "Vm"), None);
        assert_eq!(kib_field("VmHWM: many kB", "VmHWM"), None);
    }

    #[test]
    fn lists_of_numbers_have_ranges() {
        assert_eq!(number_list("0-2,8\n"), Some([0, 1, 2, 8].into()));
        assert_eq!(number_list("5"), Some([5].into()));
        assert_eq!(number_list(""), None);
        assert_eq!(number_list("a-b"), None);
    }

    #[test]
    fn quotas_and_throttled_times_of_both_versions() {
        assert_eq!(quota_v2("150000 100000"), Some(1.5));
        assert_eq!(quota_v2("max 100000"), None);
        assert_eq!(quota_v1("-1", "100000"), None);
        assert_eq!(throttled_us("usage_usec 9\nnr_throttled 1\nthrottled_usec 2500"), Some(2500));
        assert_eq!(throttled_us("nr_periods 0\nnr_throttled 1\nthrottled_time 2500000"), Some(2500));
        assert_eq!(throttled_us("usage_usec 9"), None);
    }

    #[test]
    fn the_group_comes_from_the_hierarchy_with_the_cpu_controller() {
        assert_eq!(cgroup_path("0::/user.slice/a"), Some((["/sys/fs/cgroup"].as_slice(), "/user.slice/a")));
        let both = "4:memory:/m\n2:cpu,cpuacct:/job\n1:cpuset:/\n0::/x";
        assert_eq!(cgroup_path(both).map(|(_, path)| path), Some("/job"));
        assert_eq!(cgroup_path("4:memory:/m"), None);
    }

    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    #[test]
    fn the_process_was_preempted_at_least_as_often_as_one_of_its_threads() {
        let thread: u64 = field(&read("/proc/thread-self/status").unwrap(), "nonvoluntary_ctxt_switches").unwrap();
        let process = involuntary_switches().unwrap();
        assert!(process >= thread && process < 1 << 40, "{process}, {thread}");
    }

    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    #[test]
    fn what_children_do_is_counted() {
        let before = usage_of(Whose::Children).unwrap();
        let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("/bin/sh").args(["-c", work]).status().unwrap().success());
        let after = usage_of(Whose::Children).unwrap();
        assert!(after.cpu_us > before.cpu_us, "{before:?}, {after:?}");
        assert!(involuntary_switches().unwrap() >= after.involuntary_switches);
    }
}
