//! `--monitor`: how a long command is doing, on standard error and in a log.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use phalanx_lab::campaign::{PairRun, Process};
use phalanx_lab::case::CaseSpec;
use phalanx_lab::log::{BUFFER_SIZE, BufferedLogger, flush_on_interrupt};
use phalanx_lab::memory;
use phalanx_lab::monitor::{PerformanceMonitor, Reading};
use phalanx_lab::record::Arm;

use crate::args::count;
use crate::failure::Failure;
use crate::files;
use crate::progress::Progress;

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
    Ok(Some(BufferedLogger::create(&files::check_target(path, files::Kind::MetricsLog)?, BUFFER_SIZE)?))
}

/// A monitor that may be off.
pub(crate) struct Monitoring {
    interval: Option<u64>,
    num_envs: usize,
    monitor: Option<PerformanceMonitor>,
    log: Option<BufferedLogger>,
    /// Whether the log took everything that was followed.
    followed: Result<(), Failure>,
}

impl MonitorArgs {
    /// Opens the log, if there is one; an interrupt writes it and ends the program.
    pub(crate) fn start(&self, num_envs: usize) -> Result<Monitoring, Failure> {
        let monitoring = self.start_uninterrupted(num_envs)?;
        if monitoring.log.is_some() {
            flush_on_interrupt()?;
        }
        Ok(monitoring)
    }

    /// The same for a command that comes to its end by itself after an interrupt.
    pub(crate) fn start_uninterrupted(&self, num_envs: usize) -> Result<Monitoring, Failure> {
        let log = open(self.metrics_log.as_deref())?;
        let interval = self.monitor.map(|steps| steps as u64);
        Ok(Monitoring { interval, num_envs, monitor: None, log, followed: Ok(()) })
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

    /// Each of some environments has made `steps` more, in work that is worth more than the log: one that fails is told
    /// at the end.
    pub(crate) fn follow(&mut self, steps: u64, num_envs: u64, progress: &Progress) {
        if self.followed.is_ok() {
            let reading = self.monitor.as_mut().and_then(|monitor| monitor.advance_of(steps, num_envs));
            self.followed = self.tell(reading, progress);
        }
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
        std::mem::replace(&mut self.followed, Ok(()))?;
        let last = self.monitor.as_mut().and_then(PerformanceMonitor::finish);
        self.tell(last, progress)?;
        Ok(self.log.map_or(Ok(()), BufferedLogger::close)?)
    }
}

/// The same for commands that measure in processes of their own, which are read instead of this one.
#[derive(Debug, Args)]
pub(crate) struct ProcessMonitorArgs {
    /// Every N processes that measure, tell what the last of them did: steps per second, CPU and memory, on standard
    /// error; ? is what it did not tell
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
    /// Whether the log took everything. A log that fails ends no measurement, but is told at the end.
    logged: Result<(), Failure>,
}

/// What a process did, and with what.
#[derive(serde::Serialize)]
struct ProcessReading {
    case: String,
    /// Its side, where two are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    arm: Option<Arm>,
    #[serde(flatten)]
    reading: Reading,
}

impl fmt::Display for ProcessReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.arm {
            Some(Arm::A) => "A ",
            Some(Arm::B) => "B ",
            None => "",
        };
        write!(f, "{side}{} {}", self.case, self.reading)
    }
}

impl ProcessMonitorArgs {
    /// Opens the log, if there is one.
    pub(crate) fn start(&self) -> Result<ProcessMonitoring, Failure> {
        let log = open(self.metrics_log.as_deref())?;
        if log.is_some() {
            flush_on_interrupt()?;
        }
        Ok(ProcessMonitoring { interval: self.monitor, heard: 0, log, logged: Ok(()) })
    }
}

impl ProcessMonitoring {
    /// A process has measured a case; `show` prints a line beside the progress.
    pub(crate) fn heard(&mut self, case: &CaseSpec, process: &Process, show: impl Fn(&str)) {
        self.heard_as((case.id(), None), case.num_envs, process, show);
    }

    /// A process has measured what goes by this name, or one side of it.
    pub(crate) fn heard_as(
        &mut self,
        (case, arm): (String, Option<Arm>),
        num_envs: usize,
        process: &Process,
        show: impl Fn(&str),
    ) {
        self.heard += 1;
        if !self.interval.is_some_and(|interval| self.heard.is_multiple_of(interval)) {
            return;
        }
        let told = ProcessReading { case, arm, reading: reading(num_envs, process) };
        show(&told.to_string());
        if let (Some(log), Ok(())) = (&self.log, &self.logged) {
            let line = serde_json::to_string(&told).expect("a reading is plain data");
            self.logged = log.log(&line).map_err(Failure::from);
        }
    }

    /// Watches processes that are counted by a progress of their own.
    pub(crate) fn watch(
        &mut self,
        what: impl Into<String>,
        unit: &'static str,
        total: usize,
        quiet: bool,
    ) -> Watch<'_> {
        Watch { progress: Progress::new(what, total as u64, quiet).counting(unit), monitor: self }
    }

    /// Writes what the log has kept back; tells if it could not be written.
    pub(crate) fn close(self) -> Result<(), Failure> {
        self.logged?;
        Ok(self.log.map_or(Ok(()), BufferedLogger::close)?)
    }
}

/// Progress of processes under a monitor.
pub(crate) struct Watch<'a> {
    progress: Progress,
    monitor: &'a mut ProcessMonitoring,
}

impl Watch<'_> {
    /// A process has measured a case.
    pub(crate) fn process(&mut self, case: &CaseSpec, process: &Process) {
        self.progress.advance(1);
        self.monitor.heard(case, process, |line| self.progress.line(line));
    }

    /// A pair of processes has measured a case each.
    pub(crate) fn pair(&mut self, (a, b): (&CaseSpec, &CaseSpec), pair: &PairRun) {
        self.progress.advance(1);
        for (arm, case, process) in [(Arm::A, a, &pair.a), (Arm::B, b, &pair.b)] {
            let name = (case.id(), Some(arm));
            self.monitor.heard_as(name, case.num_envs, process, |line| self.progress.line(line));
        }
    }
}

fn reading(num_envs: usize, process: &Process) -> Reading {
    // A process that was only started has no samples, and no speed.
    let timings = Some(&process.timings).filter(|timings| !timings.is_empty());
    let steps: u64 = process.timings.iter().map(|timing| timing.steps).sum();
    let wall = process.timings.iter().map(|timing| timing.wall_ns).sum::<u64>().max(1) as f64;
    let cpu: Option<u64> = timings.and_then(|timings| timings.iter().map(|timing| timing.cpu_ns).sum());
    let peak = process.ready.rss_peak.zip(memory::total_bytes());
    Reading {
        step: steps / num_envs.max(1) as u64,
        sps: timings.map(|_| steps as f64 / wall * 1e9),
        cpu: cpu.map(|cpu| 100.0 * cpu as f64 / wall),
        mem: peak.map(|(peak, all)| 100.0 * peak as f64 / all as f64),
    }
}
