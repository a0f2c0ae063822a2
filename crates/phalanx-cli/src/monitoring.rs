//! `--monitor`: how a long command is doing, on standard error and in a log.

use std::path::PathBuf;

use clap::Args;
use phalanx_lab::log::{BUFFER_SIZE, BufferedLogger, flush_on_interrupt};
use phalanx_lab::monitor::{PerformanceMonitor, Reading};

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
        let target = self.metrics_log.as_deref().map(files::check_target).transpose()?;
        let log = target.map(|path| BufferedLogger::create(&path, BUFFER_SIZE)).transpose()?;
        if log.is_some() {
            flush_on_interrupt()?;
        }
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
