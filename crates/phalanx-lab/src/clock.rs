//! Clocks: wall time from the monotonic clock, and beside it the CPU time of all threads of the process.

use std::time::Instant;

/// Time that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed {
    /// Wall time.
    pub wall_ns: u64,
    /// CPU time of the process over all its threads; unknown where the system has no such clock.
    pub cpu_ns: Option<u64>,
}

impl Elapsed {
    /// The share of the threads' time that was spent computing: CPU time / (wall time × threads).
    pub fn cpu_efficiency(self, threads: usize) -> Option<f64> {
        let available = self.wall_ns as f64 * threads as f64;
        self.cpu_ns.filter(|_| available > 0.0).map(|cpu| cpu as f64 / available)
    }
}

/// Measures from its start; may be read more than once.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    wall: Instant,
    cpu_ns: Option<u64>,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        // The wall clock is started last and read first: the other reading is no part of the time.
        let cpu_ns = process_cpu_ns();
        Self { wall: Instant::now(), cpu_ns }
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Elapsed {
        let wall_ns = nanoseconds(self.wall);
        let cpu_ns = self.cpu_ns.zip(process_cpu_ns()).map(|(start, now)| now.saturating_sub(start));
        Elapsed { wall_ns, cpu_ns }
    }
}

/// The smallest difference that the wall clock shows between two readings that differ, in nanoseconds, at least 1.
///
/// What the system states is often finer than what a reading can show.
pub fn timer_resolution_ns() -> u64 {
    const PAIRS: usize = 1000;
    (0..PAIRS)
        .map(|_| {
            let start = Instant::now();
            loop {
                match nanoseconds(start) {
                    0 => {}
                    difference => return difference,
                }
            }
        })
        .min()
        .unwrap_or(1)
}

fn nanoseconds(since: Instant) -> u64 {
    // 584 years fit.
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(unix)]
fn process_cpu_ns() -> Option<u64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
}

/// CPU time of the calling thread alone, in nanoseconds.
#[cfg(unix)]
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
}

/// Unknown here.
#[cfg(not(unix))]
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    None
}

#[cfg(not(unix))]
fn process_cpu_ns() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_never_run_backwards() {
        let watch = Stopwatch::start();
        let first = watch.elapsed();
        let second = watch.elapsed();
        assert!(second.wall_ns >= first.wall_ns);
        assert!(second.cpu_ns >= first.cpu_ns);
        assert_eq!(first.cpu_ns.is_some(), cfg!(unix));
        assert!(timer_resolution_ns() >= 1);
    }

    #[test]
    fn efficiency_is_the_share_of_the_threads_time() {
        let elapsed = Elapsed { wall_ns: 100, cpu_ns: Some(150) };
        assert_eq!(elapsed.cpu_efficiency(2), Some(0.75));
        assert_eq!(elapsed.cpu_efficiency(0), None);
        assert_eq!(Elapsed { cpu_ns: None, ..elapsed }.cpu_efficiency(2), None);
    }
}
