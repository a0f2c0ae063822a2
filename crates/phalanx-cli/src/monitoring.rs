//! `--monitor`: how a long command is doing, on standard error and in a log.

use std::path::{Path, PathBuf};

use clap::Args;
use phalanx_lab::campaign::Process;
use phalanx_lab::case::CaseSpec;
use phalanx_lab::log::{BUFFER_SIZE, BufferedLogger, flush_on_interrupt};
use phalanx_lab::memory;
use phalanx_lab::monitor::{PerformanceMonitor, Reading};

use crate::args::count;
use crate::failure::Failure;
use crate::files;
use crate::progress::Progress;
use crate::tally::Tally;

#[derive(Debug, Args)]
pub(crate) struct MonitorArgs {
    /// Every N steps of each environment, tell steps per second, CPU and memory on standard error
    #[arg(long, value_name = "N", value_parser = count, num_args = 0..=1, default_missing_value = "1000")]
    monitor: Option<usize>,
    /// Write the same to this file as lines of JSON
    #[arg(long, value_name = "FILE", requires = "monitor")]
    metrics_log: Option<PathBuf>,
}

fn open(log: Option<&Path>) -> Result<Option<BufferedLogger>, Failure> {
    let Some(path) = log else { return Ok(None) };
    let log = BufferedLogger::create(&files::check_target(path)?, BUFFER_SIZE)?;
    flush_on_interrupt()?;
    Ok(Some(log))
}

/// A monitor that may be off.
pub(crate) struct Monitoring {
    interval: Option<u64>,
    num_envs: usize,
    monitor: Option<PerformanceMonitor>,
    log: Option<BufferedLogger>,
}

impl MonitorArgs {
    /// Opens the log, if there is one.
    pub(crate) fn start(&self, num_envs: usize) -> Result<Monitoring, Failure> {
        let log = open(self.metrics_log.as_deref())?;
        Ok(Monitoring { interval: self.monitor.map(|steps| steps as u64), num_envs, monitor: None, log })
    }
}

impl Monitoring {
    /// The work begins now.
    pub(crate) fn begin(&mut self) {
        self.monitor = self.interval.map(|steps| PerformanceMonitor::new(steps, self.num_envs));
    }

    /// Each environment has made `steps` more.
    pub(crate) fn advance(&mut self, steps: usize, progress: &Progress) -> Result<(), Failure> {
        let reading = self.monitor.as_mut().and_then(|monitor| monitor.advance(steps as u64));
        self.tell(reading, progress)
    }

    fn tell(&self, reading: Option<Reading>, progress: &Progress) -> Result<(), Failure> {
        let Some(reading) = reading else { return Ok(()) };
        progress.line(&reading.to_string());
        if let Some(log) = &self.log {
            log.log(&serde_json::to_string(&reading).expect("a reading is plain data"))?;
        }
        Ok(())
    }

    /// Tells of the last steps, which may be fewer than an interval has, and writes what the log has kept back.
    pub(crate) fn close(mut self, progress: &Progress) -> Result<(), Failure> {
        let last = self.monitor.as_mut().and_then(PerformanceMonitor::finish);
        self.tell(last, progress)?;
        Ok(self.log.map_or(Ok(()), BufferedLogger::close)?)
    }
}

/// The same for commands that measure in processes of their own, which are read instead of this one.
#[derive(Debug, Args)]
pub(crate) struct ProcessMonitorArgs {
    /// Every N processes, tell what the last of them did: steps per second, CPU and memory, on standard error
    #[arg(long, value_name = "N", value_parser = count, num_args = 0..=1, default_missing_value = "1")]
    monitor: Option<usize>,
    /// Write the same to this file as lines of JSON
    #[arg(long, value_name = "FILE", requires = "monitor")]
    metrics_log: Option<PathBuf>,
}

/// A monitor of processes that may be off.
pub(crate) struct ProcessMonitoring {
    interval: Option<usize>,
    heard: usize,
    log: Option<BufferedLogger>,
}

/// What a process did, and with what.
#[derive(serde::Serialize)]
struct ProcessReading {
    case: String,
    #[serde(flatten)]
    reading: Reading,
}

impl ProcessMonitorArgs {
    /// Opens the log, if there is one.
    pub(crate) fn start(&self) -> Result<ProcessMonitoring, Failure> {
        Ok(ProcessMonitoring { interval: self.monitor, heard: 0, log: open(self.metrics_log.as_deref())? })
    }
}

impl ProcessMonitoring {
    /// A process has ended; one that failed says so elsewhere.
    pub(crate) fn heard(&mut self, case: &CaseSpec, process: Option<&Process>, tally: &Tally) -> Result<(), Failure> {
        self.heard += 1;
        let due = self.interval.is_some_and(|interval| self.heard.is_multiple_of(interval));
        let Some(process) = process.filter(|_| due) else { return Ok(()) };
        let told = ProcessReading { case: case.id(), reading: reading(case, process) };
        tally.line(&format!("{} {}", told.case, told.reading));
        if let Some(log) = &self.log {
            log.log(&serde_json::to_string(&told).expect("a reading is plain data"))?;
        }
        Ok(())
    }

    /// Writes what the log has kept back.
    pub(crate) fn close(self) -> Result<(), Failure> {
        Ok(self.log.map_or(Ok(()), BufferedLogger::close)?)
    }
}

fn reading(case: &CaseSpec, process: &Process) -> Reading {
    let steps: u64 = process.timings.iter().map(|timing| timing.steps).sum();
    let wall = process.timings.iter().map(|timing| timing.wall_ns).sum::<u64>().max(1) as f64;
    let cpu: Option<u64> = process.timings.iter().map(|timing| timing.cpu_ns).sum();
    let peak = process.ready.rss_peak.zip(memory::total_bytes());
    Reading {
        step: steps / case.num_envs.max(1) as u64,
        sps: steps as f64 / wall * 1e9,
        cpu: cpu.map(|cpu| 100.0 * cpu as f64 / wall),
        mem: peak.map(|(peak, all)| 100.0 * peak as f64 / all as f64),
    }
}
