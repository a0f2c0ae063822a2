//! How a long run is doing: steps a second, CPU and memory, at an interval.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Stopwatch;
use crate::memory;

/// Takes a reading every so many steps.
///
/// ```
/// use phalanx_lab::monitor::PerformanceMonitor;
///
/// let mut monitor = PerformanceMonitor::new(1000, 64); // 64 environments in lockstep
/// for _ in 0..10 {
///     if let Some(reading) = monitor.advance(256) {
///         eprintln!("{reading}"); // step=1024 sps=183054123 cpu=99% mem=1.20%
///     }
/// }
/// ```
#[derive(Debug)]
pub struct PerformanceMonitor {
    log_interval: u64,
    num_envs: u64,
    step: u64,
    /// Steps of all environments in the running interval.
    made: u64,
    watch: Stopwatch,
}

/// What a monitor reads at the end of an interval. Its `Display` is the line of a log.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Steps that each environment has made.
    pub step: u64,
    /// Steps a second of all environments together, in this interval; unknown where none were timed.
    pub sps: Option<f64>,
    /// CPU time in per cent of the wall time, over all threads; unknown where the system does not tell.
    pub cpu: Option<f64>,
    /// Memory in RAM, in per cent of the machine's.
    pub mem: Option<f64>,
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |value: Option<f64>, digits: usize| value.map_or("?".to_owned(), |v| format!("{v:.digits$}"));
        let (sps, cpu, mem) = (known(self.sps, 0), known(self.cpu, 0), known(self.mem, 2));
        write!(f, "step={} sps={sps} cpu={cpu}% mem={mem}%", self.step)
    }
}

impl PerformanceMonitor {
    /// A monitor of `num_envs` environments that begins now, with a reading every `log_interval` steps, at least 1.
    pub fn new(log_interval: u64, num_envs: usize) -> Self {
        Self {
            log_interval: log_interval.max(1),
            num_envs: num_envs as u64,
            step: 0,
            made: 0,
            watch: Stopwatch::start(),
        }
    }

    /// Hears that each environment has made `steps` more. Answers a reading if an interval has ended since the last
    /// one: only one, however many have.
    pub fn advance(&mut self, steps: u64) -> Option<Reading> {
        self.advance_of(steps, self.num_envs)
    }

    /// [`advance`](Self::advance) of another number of environments, where several batches take turns.
    pub fn advance_of(&mut self, steps: u64, num_envs: u64) -> Option<Reading> {
        let before = self.step;
        self.step += steps;
        self.made += steps * num_envs;
        if before / self.log_interval == self.step / self.log_interval {
            return None;
        }
        self.finish()
    }

    /// A reading of what no reading has told yet, if there is anything.
    pub fn finish(&mut self) -> Option<Reading> {
        if self.made == 0 {
            return None;
        }
        let elapsed = self.watch.elapsed();
        let wall = elapsed.wall_ns.max(1) as f64;
        let reading = Reading {
            step: self.step,
            sps: Some(self.made as f64 / wall * 1e9),
            cpu: elapsed.cpu_ns.map(|cpu| 100.0 * cpu as f64 / wall),
            mem: memory::rss_bytes().zip(memory::total_bytes()).map(|(rss, all)| 100.0 * rss as f64 / all as f64),
        };
        self.made = 0;
        self.watch = Stopwatch::start();
        Some(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_at_the_first_return_after_each_interval() {
        let mut monitor = PerformanceMonitor::new(1000, 4);
        let steps: Vec<_> = (0..10).filter_map(|_| monitor.advance(256)).map(|reading| reading.step).collect();
        assert_eq!(steps, [1024, 2048]);
        assert_eq!(monitor.advance(10_000).unwrap().step, 12_560, "one line, however many intervals");
        assert!(monitor.advance(1).is_none());
        assert_eq!(monitor.finish().map(|reading| reading.step), Some(12_561), "the rest is told at the end");
        assert!(monitor.finish().is_none(), "and only once");
    }

    #[test]
    fn batches_of_several_sizes_count_by_their_own() {
        let mut monitor = PerformanceMonitor::new(10, 1);
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert!(monitor.advance_of(9, 1_000_000).is_none());
        let reading = monitor.advance_of(1, 1).unwrap();
        let seconds = 9_000_001.0 / reading.sps.unwrap();
        assert!(reading.step == 10 && (0.01..10.0).contains(&seconds), "{reading}");
    }

    #[test]
    fn readings_are_one_line() {
        let reading = Reading { step: 2000, sps: Some(123_456.7), cpu: Some(187.4), mem: None };
        assert_eq!(reading.to_string(), "step=2000 sps=123457 cpu=187% mem=?%");
        let reading = Reading { step: 0, sps: None, cpu: None, mem: Some(0.25) };
        assert_eq!(reading.to_string(), "step=0 sps=? cpu=?% mem=0.25%");
        let mut monitor = PerformanceMonitor::new(1, 10);
        let reading = monitor.advance(5).unwrap();
        assert!(reading.sps.is_some_and(|sps| sps > 0.0 && sps.is_finite()));
        assert_eq!(reading.cpu.is_some(), cfg!(unix));
    }
}
