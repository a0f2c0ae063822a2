//! Work that can be timed, and the timing of it.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::clock::{Stopwatch, timer_resolution_ns};
use crate::record::Checksum;

/// Something that can be run again and again.
pub trait Workload {
    /// Goes on for `iterations` units of work of about the same size, and says what it did, or why it cannot
    /// ([`Error::Subject`](crate::Error::Subject)).
    fn run(&mut self, iterations: u64) -> Result<Work>;

    /// What it holds, as far as it knows.
    fn memory(&self) -> WorkloadMemory {
        WorkloadMemory::default()
    }
}

/// What a workload did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Steps, in the unit of the case.
    pub steps: u64,
    /// Depends on everything computed since the workload began.
    pub checksum: u64,
}

/// What a workload holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadMemory {
    /// Bytes of its arrays, counted from their sizes.
    pub array_bytes: Option<u64>,
    /// The same for each environment.
    pub bytes_per_env: Option<f64>,
}

/// One timed repetition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Wall time.
    pub wall_ns: u64,
    /// CPU time of all threads, where the system tells.
    pub cpu_ns: Option<u64>,
    /// Steps, in the unit of the case.
    pub steps: u64,
    /// Depends on everything computed since the workload began.
    pub checksum: Checksum,
    /// The share of the machine's CPU time stolen meanwhile. Whoever asks for the sample fills it in: what is timed should
    /// not read files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<f64>,
}

impl Timing {
    /// Nanoseconds for each step.
    pub fn time_per_step(&self) -> f64 {
        self.wall_ns as f64 / self.steps as f64
    }

    /// Nanoseconds of CPU time for each step, over all threads; wall time where the system does not tell.
    pub fn cpu_per_step(&self) -> f64 {
        self.cpu_ns.filter(|&ns| ns > 0).unwrap_or(self.wall_ns) as f64 / self.steps as f64
    }
}

/// Times one repetition of `iterations`.
pub fn time(workload: &mut dyn Workload, iterations: u64) -> Result<Timing> {
    let watch = Stopwatch::start();
    let work = workload.run(iterations)?;
    let elapsed = watch.elapsed();
    Ok(Timing {
        wall_ns: elapsed.wall_ns.max(1),
        cpu_ns: elapsed.cpu_ns,
        steps: work.steps,
        checksum: Checksum(work.checksum),
        steal: None,
    })
}

/// The least time of a sample, as a multiple of what the clock can tell apart.
const RESOLUTIONS: u64 = 1000;

/// The number of iterations that take at least `wanted_ns`, and at least a thousand times what the clock can tell
/// apart. Runs the workload to find out, which warms it up.
pub fn calibrate(workload: &mut dyn Workload, wanted_ns: u64) -> Result<u64> {
    let wanted = wanted_ns.max(RESOLUTIONS * timer_resolution_ns());
    let mut iterations = 1;
    loop {
        let taken = time(workload, iterations)?.wall_ns;
        if taken >= wanted {
            return Ok(iterations);
        }
        // Past the target by a little, but never more than tenfold at once: the first runs are the slowest.
        let factor = (1.2 * wanted as f64 / taken as f64).clamp(1.2, 10.0);
        iterations = (iterations as f64 * factor).ceil() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Spin(u64);

    impl Workload for Spin {
        fn run(&mut self, iterations: u64) -> Result<Work> {
            for _ in 0..iterations * 1000 {
                self.0 = std::hint::black_box(self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
            Ok(Work { steps: iterations * 1000, checksum: self.0 })
        }
    }

    #[test]
    fn samples_are_at_least_as_long_as_wanted() {
        let mut spin = Spin(1);
        let iterations = calibrate(&mut spin, 200_000).unwrap();
        assert!(iterations > 1);
        let timing = time(&mut spin, iterations).unwrap();
        assert_eq!(timing.steps, iterations * 1000);
        assert!(timing.time_per_step() > 0.0);
    }
}
