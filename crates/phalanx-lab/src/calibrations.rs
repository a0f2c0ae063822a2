//! Calibrations on identical code, kept for each machine and case: what differences mean nothing here.
//!
//! One file for each, so that runs that calibrate at the same time do not wait for each other or lose anything.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::campaign::{PairRun, Plan, of_log_ratios};
use crate::case::CaseSpec;
use crate::files::{self, Damage};
use crate::stats::calibration::{Calibration, Identical};
use crate::stats::descriptive::{median, sample_sd};
use crate::stats::interval::{CONFIDENCE, mean_interval, minimum_detectable_effect};
use crate::stats::paired::Comparison;
use crate::stats::random::Stream;
use crate::timestamp::Timestamp;
use crate::{Error, Result, json};

/// How long a calibration is believed.
const MOST_DAYS: f64 = 30.0;

/// The confidence with which one side of identical code must be faster to be called favoured: a calibration is
/// believed for a month, so that it may be wrong about this less often than about a single comparison.
const BIAS_CONFIDENCE: f64 = 0.99;

/// The version of the files that are written.
const SCHEMA_VERSION: u64 = 1;

/// What a machine shows when a binary is compared with itself on a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredCalibration {
    /// The version of the file.
    pub schema_version: u64,
    /// The machine.
    pub fingerprint: String,
    /// Its readable name.
    pub machine: String,
    /// The case.
    pub case_id: String,
    /// A hash of all its parameters.
    pub case_version: String,
    /// The version of the engine that was compared with itself.
    pub engine_version: String,
    /// When, in UTC.
    pub calibrated_at: String,
    /// When, in seconds since 1970 began.
    pub calibrated_unix_s: f64,
    /// Pairs of a comparison.
    pub pairs: usize,
    /// Samples of each process.
    pub samples: usize,
    /// Least time of a sample.
    pub sample_ms: u64,
    /// Pairs that were measured; comparisons are drawn from these.
    pub measured_pairs: usize,
    /// Whether comparisons share pairs, as they do unless each was measured for itself.
    pub resampled: bool,
    /// What the comparisons show.
    pub calibration: Calibration,
    /// Standard deviation of the log ratio of a pair.
    pub sd: f64,
    /// The smallest log ratio that such a comparison finds in four of five campaigns.
    pub minimum_detectable_effect: f64,
    /// Standard deviation of the results of identical comparisons, in %.
    pub noise_percent: f64,
}

impl StoredCalibration {
    /// Makes `comparisons` comparisons of `plan.processes` pairs out of measured pairs of identical binaries: drawn
    /// without replacement, and with the sides of a pair exchanged by coin, or all of them would share what the mean
    /// of a few measured pairs owes to luck. That hides a side that is favoured, which is looked for in the pairs as
    /// they were. `None` if too few pairs were measured.
    pub fn of(
        (fingerprint, machine): (&str, &str),
        case: &CaseSpec,
        plan: &Plan,
        measured: &[PairRun],
        comparisons: usize,
        seed: u64,
    ) -> Option<Self> {
        let logs: Vec<f64> = measured.iter().map(|pair| median(&pair.steady_log_ratios())).collect();
        let results: Vec<Comparison> = (0..comparisons)
            .map(|number| {
                let mut random = Stream::new(seed, number as u64);
                let chosen = drawn(&logs, plan.processes, &mut random)?;
                of_log_ratios(chosen.into_iter(), CONFIDENCE, seed ^ number as u64)
            })
            .collect::<Option<_>>()?;
        let identical: Vec<Identical> = results
            .iter()
            .map(|result| Identical { log_ratio: result.test.difference, interval: result.deciding })
            .collect();
        let sd = sample_sd(&logs)?;
        let mut calibration = Calibration::of(&identical)?;
        calibration.miscalibrated |= !mean_interval(&logs, BIAS_CONFIDENCE)?.contains(0.0);
        let spread: Vec<f64> = identical.iter().map(|result| 100.0 * result.log_ratio).collect();
        let now = Timestamp::now();
        Some(Self {
            schema_version: SCHEMA_VERSION,
            fingerprint: fingerprint.to_owned(),
            machine: machine.to_owned(),
            case_id: case.id(),
            case_version: case.version(),
            engine_version: env!("CARGO_PKG_VERSION").to_owned(),
            calibrated_at: now.rfc3339(),
            calibrated_unix_s: now.unix_seconds(),
            pairs: plan.processes,
            samples: plan.samples,
            sample_ms: plan.sample.as_millis() as u64,
            measured_pairs: measured.len(),
            resampled: comparisons * plan.processes > measured.len(),
            calibration,
            sd,
            minimum_detectable_effect: minimum_detectable_effect(sd, plan.processes, CONFIDENCE)?,
            noise_percent: sample_sd(&spread)?,
        })
    }

    /// Why it says nothing about a comparison by this plan; `None` if it does.
    pub fn stale(&self, plan: &Plan) -> Option<String> {
        let days = (Timestamp::now().unix_seconds() - self.calibrated_unix_s) / 86_400.0;
        if !(0.0..=MOST_DAYS).contains(&days) {
            return Some(format!("it is of {}, and {MOST_DAYS} days are the most", self.calibrated_at));
        }
        let of_plan = (plan.samples, plan.sample.as_millis() as u64);
        if (self.samples, self.sample_ms) != of_plan || plan.processes < self.pairs {
            let (samples, sample_ms) = of_plan;
            return Some(format!(
                "it is for {} pairs of {} samples of {} ms, not for {} of {samples} of {sample_ms} ms",
                self.pairs, self.samples, self.sample_ms, plan.processes
            ));
        }
        None
    }

    /// Writes it where [`load`] finds it, and answers where that is.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        let path = path_of(folder, &self.fingerprint, &self.case_version);
        let parent = path.parent().expect("a file in a folder");
        std::fs::create_dir_all(parent).map_err(Error::write(parent))?;
        files::write_atomically(&path, json::pretty("calibration", self)?.as_bytes())?;
        Ok(path)
    }
}

/// The calibration of a case on a machine, if there is one. A file that cannot be understood is damage, not an error.
pub fn load(folder: &Path, fingerprint: &str, case: &CaseSpec) -> Result<Option<StoredCalibration>, Damage> {
    load_version(folder, fingerprint, &case.version())
}

/// [`load`] for a case of which only the version is known.
pub fn load_version(folder: &Path, fingerprint: &str, case_version: &str) -> Result<Option<StoredCalibration>, Damage> {
    let path = path_of(folder, fingerprint, case_version);
    let damage = |reason: String| Damage { path: path.clone(), line: None, reason };
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(damage(error.to_string())),
    };
    let stored: StoredCalibration = serde_json::from_slice(&bytes)
        .map_err(|error| damage(format!("it is no calibration: {}", json::reason(&error))))?;
    match stored.schema_version {
        SCHEMA_VERSION => Ok(Some(stored)),
        other => Err(damage(format!("its schema_version is {other}, but this program reads {SCHEMA_VERSION}"))),
    }
}

fn path_of(folder: &Path, fingerprint: &str, case_version: &str) -> PathBuf {
    folder.join("calibrations").join(fingerprint).join(format!("{case_version}.json"))
}

/// `count` of the log ratios without replacement, signs by coin.
fn drawn(logs: &[f64], count: usize, random: &mut Stream) -> Option<Vec<f64>> {
    let mut left = logs.to_vec();
    (0..count)
        .map(|_| {
            let at = if left.is_empty() { return None } else { random.below(left.len()) };
            let log = left.swap_remove(at);
            Some(if random.below(2) == 0 { log } else { -log })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::campaign::{Clock, Process};
    use crate::record::{Checksum, Order};
    use crate::stats::testing::share;
    use crate::worker::Ready;
    use crate::workload::{Timing, WorkloadMemory};

    /// A pair whose sides differ by a log ratio.
    fn pair(log_ratio: f64) -> PairRun {
        let side = |time: f64| {
            let wall_ns = (time * 1e6) as u64;
            let timing = Timing { wall_ns, cpu_ns: None, steps: 1_000_000, checksum: Checksum(1), steal: None };
            let ready = Ready {
                startup_ns: 0,
                workload: WorkloadMemory::default(),
                rss_before: None,
                rss_after: None,
                rss_peak: None,
            };
            Process::new(ready, vec![timing; 5])
        };
        PairRun { clock: Clock::Wall, order: Order::Ab, a: side(10.0 * log_ratio.exp()), b: side(10.0) }
    }

    fn plan() -> Plan {
        Plan { processes: 10, samples: 5, sample: Duration::from_millis(20), ..Plan::default() }
    }

    fn calibration() -> StoredCalibration {
        calibrated(0.0)
    }

    /// Of pairs with a spread of 1 %, uniform, whose A is slower by a log ratio.
    fn calibrated(bias: f64) -> StoredCalibration {
        let mut random = Stream::new(5, 0);
        let pairs: Vec<_> = (0..30).map(|_| pair(bias + 0.01 * 12_f64.sqrt() * (random.unit() - 0.5))).collect();
        let case = CaseSpec::rollout("some", 4);
        StoredCalibration::of(("f", "m"), &case, &plan(), &pairs, 200, 1).unwrap()
    }

    #[test]
    fn identical_code_is_calibrated() {
        let found = calibration();
        assert!((0.007..0.013).contains(&found.sd), "{}", found.sd);
        assert_eq!((found.calibration.comparisons, found.resampled, found.pairs), (200, true, 10));
        assert!(!found.calibration.miscalibrated, "{:?}", found.calibration);
        // Means of ten of spread 1 % scatter by 0.3 %.
        assert!((0.2..0.45).contains(&found.noise_percent), "{}", found.noise_percent);
        assert!((found.minimum_detectable_effect / found.sd - 0.994_71).abs() < 1e-4);
        let few = [pair(0.01), pair(0.0)];
        assert_eq!(StoredCalibration::of(("f", "m"), &CaseSpec::rollout("some", 4), &plan(), &few, 200, 1), None);
    }

    /// What the doctor promises of a machine is what campaigns on it keep: simulated machines are calibrated, and a
    /// build that is slower by the detectable effect is then looked for by the interval that decides.
    #[test]
    fn a_slowdown_of_the_detectable_effect_is_found_four_times_in_five() {
        let case = CaseSpec::rollout("some", 4);
        let found = share(23, 300, |random| {
            let measured: Vec<_> = (0..30).map(|_| pair(0.01 * random.normal())).collect();
            let doctor = StoredCalibration::of(("f", "m"), &case, &plan(), &measured, 2, 1).unwrap();
            let logs = (0..doctor.pairs).map(|_| doctor.minimum_detectable_effect + 0.01 * random.normal());
            !of_log_ratios(logs, CONFIDENCE, 1).unwrap().deciding.contains(0.0)
        });
        // The standard deviation of a share of 300 is 0.023, and that of thirty pairs is itself measured.
        assert!((0.72..0.87).contains(&found), "{found}");
    }

    #[test]
    fn a_side_that_is_favoured_is_no_calibration() {
        assert!([-0.01, 0.01].iter().all(|bias| calibrated(*bias).calibration.miscalibrated));
    }

    #[test]
    fn a_calibration_is_found_again_until_something_changes() {
        let folder = tempfile::tempdir().unwrap();
        let stored = calibration();
        let path = stored.save(folder.path()).unwrap();
        let case = CaseSpec::rollout("some", 4);
        assert_eq!(load(folder.path(), "f", &case), Ok(Some(stored.clone())));
        assert_eq!(load(folder.path(), "g", &case), Ok(None));
        assert_eq!(load(folder.path(), "f", &CaseSpec::rollout("some", 5)), Ok(None));
        assert_eq!(stored.stale(&plan()), None);
        assert_eq!(stored.stale(&Plan { processes: 20, ..plan() }), None);
        assert!(stored.stale(&Plan { processes: 9, ..plan() }).is_some());
        assert!(stored.stale(&Plan { samples: 6, ..plan() }).is_some());
        let old = StoredCalibration { calibrated_unix_s: stored.calibrated_unix_s - 31.0 * 86_400.0, ..stored };
        assert!(old.stale(&plan()).is_some_and(|reason| reason.contains("30 days")));
        std::fs::write(&path, "{").unwrap();
        assert!(load(folder.path(), "f", &case).unwrap_err().to_string().contains("it is no calibration"));
    }
}
