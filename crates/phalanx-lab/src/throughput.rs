//! Throughput by number of environments: the sizes, a row of the table, and how throughput scales.

use serde::{Deserialize, Serialize};

use crate::campaign::{self, Measured, Process, typical_time};
use crate::case::CaseSpec;
use crate::guards::Readings;
use crate::record::{Checksum, Kind, Run};
use crate::stats::descriptive::{mean, median, population_sd};
use crate::stats::growth::{Regime, call_regimes};
use crate::stats::interval::Interval;
use crate::stats::scaling;
use crate::{Error, Result};

/// Bytes of what the columns call a megabyte.
pub const MEGABYTE: f64 = 1_048_576.0;

/// A row of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Number of environments.
    pub num_envs: usize,
    /// Steps that a block of environments makes before the next is touched.
    pub scan_chunk_size: usize,
    /// Steps of a run.
    pub num_steps: usize,
}

const fn size(num_envs: usize, scan_chunk_size: usize, num_steps: usize) -> Size {
    Size { num_envs, scan_chunk_size, num_steps }
}

/// Sizes for environments whose step costs about as much as CartPole's.
pub const LIGHT_SIZES: [Size; 8] = [
    size(100, 256, 1000),
    size(1_000, 256, 1000),
    size(10_000, 256, 500),
    size(50_000, 128, 100),
    size(100_000, 128, 100),
    size(1_000_000, 32, 50),
    size(2_000_000, 16, 100),
    size(5_000_000, 8, 50),
];

/// Sizes for environments whose step costs about as much as a gene circuit's.
pub const HEAVY_SIZES: [Size; 4] =
    [size(100, 256, 500), size(1_000, 256, 200), size(5_000, 128, 100), size(100_000, 64, 50)];

/// Chunk sizes at one number of environments, for environments like CartPole.
pub const LIGHT_CHUNKS: [Size; 7] = [
    size(10_000, 8, 500),
    size(10_000, 16, 500),
    size(10_000, 32, 500),
    size(10_000, 64, 500),
    size(10_000, 128, 500),
    size(10_000, 256, 500),
    size(10_000, 512, 500),
];

/// Chunk sizes at one number of environments, for environments like a gene circuit.
pub const HEAVY_CHUNKS: [Size; 6] = [
    size(1_000, 8, 200),
    size(1_000, 16, 200),
    size(1_000, 32, 200),
    size(1_000, 64, 200),
    size(1_000, 128, 200),
    size(1_000, 256, 200),
];

/// A case and the length of a run of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The case.
    pub case: CaseSpec,
    /// Steps of a run in each environment. Samples are longer than a short run: times are stated for this many steps.
    pub num_steps: usize,
}

impl Job {
    /// A job whose chunk is no longer than its run.
    pub fn new(mut case: CaseSpec, num_steps: usize) -> Self {
        case.scan_chunk_size = case.scan_chunk_size.min(num_steps);
        Self { case, num_steps }
    }
}

/// What is known of a job apart from its speed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Facts {
    /// Bytes of the environments.
    pub state_bytes: Option<f64>,
    /// Bytes of what acts on them.
    pub agent_bytes: Option<f64>,
    /// The checksum of one run from the seed: the same for every chunk size and number of threads.
    pub checksum: Option<Checksum>,
}

/// A row of the table. The fields are the columns; times are those of `num_steps` steps of all environments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The environment.
    pub env_name: String,
    /// What acts.
    pub agent: String,
    /// What was timed.
    pub kind: Kind,
    /// What computed.
    pub device: String,
    /// Number of environments.
    pub num_envs: usize,
    /// Threads that shared the work.
    pub threads: usize,
    /// Steps that a block of environments made before the next was touched.
    pub scan_chunk_size: usize,
    /// Steps of a run in each environment.
    pub num_steps: usize,
    /// Whether it was measured.
    pub success: bool,
    /// Why not.
    pub error: Option<String>,
    /// Steps per second of all environments: those of a run by its median time.
    pub total_throughput_steps_per_s: Option<f64>,
    /// The same for each environment.
    pub per_env_throughput_steps_per_s: Option<f64>,
    /// The mean time of a run.
    pub time_mean_s: Option<f64>,
    /// The standard deviation of the samples themselves.
    pub time_std_s: Option<f64>,
    /// The shortest.
    pub time_min_s: Option<f64>,
    /// The longest.
    pub time_max_s: Option<f64>,
    /// The median; of several processes, the geometric mean of their medians.
    pub time_median_s: Option<f64>,
    /// From the start of a process to the first outputs; in no other figure.
    pub startup_s: Option<f64>,
    /// Memory of the environments, in units of 2²⁰ bytes, counted from the sizes of arrays.
    pub state_memory_mb: Option<f64>,
    /// Memory of what acts on them and takes their outputs.
    pub agent_memory_mb: Option<f64>,
    /// Both.
    pub total_memory_mb: Option<f64>,
    /// The checksum of one run from the seed.
    pub checksum: Option<Checksum>,
    /// The CPU's model.
    pub cpu_model: Option<String>,
    /// The commit that ran.
    pub git_hash: Option<String>,
    /// The version that ran.
    pub version: String,
}

impl Row {
    /// A job that could not be measured, and why.
    pub fn failed(job: &Job, run: &Run, facts: Facts, reason: impl Into<String>) -> Self {
        let Job { case, num_steps } = job;
        let megabytes = |bytes: Option<f64>| bytes.map(|bytes| bytes / MEGABYTE);
        let total = facts.state_bytes.zip(facts.agent_bytes).map(|(state, agent)| state + agent);
        Self {
            env_name: case.env.clone(),
            agent: case.agent.clone(),
            kind: case.kind,
            device: "cpu".to_owned(),
            num_envs: case.num_envs,
            threads: case.threads,
            scan_chunk_size: case.scan_chunk_size,
            num_steps: *num_steps,
            success: false,
            error: Some(reason.into()),
            total_throughput_steps_per_s: None,
            per_env_throughput_steps_per_s: None,
            time_mean_s: None,
            time_std_s: None,
            time_min_s: None,
            time_max_s: None,
            time_median_s: None,
            startup_s: None,
            state_memory_mb: megabytes(facts.state_bytes),
            agent_memory_mb: megabytes(facts.agent_bytes),
            total_memory_mb: megabytes(total),
            checksum: facts.checksum,
            cpu_model: run.machine.cpu.clone(),
            git_hash: run.git.sha.clone(),
            version: run.build.version.clone(),
        }
    }

    /// A job that was measured.
    pub fn measured(job: &Job, run: &Run, facts: Facts, measured: &Measured) -> Self {
        let steps = job.num_steps as f64 * job.case.num_envs as f64;
        let times: Vec<Vec<f64>> = measured.processes.iter().map(Process::times).collect();
        let seconds: Vec<f64> = times.concat().iter().map(|ns| ns * steps / 1e9).collect();
        let startups: Vec<f64> = measured.processes.iter().map(|p| p.ready.startup_ns as f64 / 1e9).collect();
        let middle = typical_time(&times).0 * steps / 1e9;
        Self {
            success: true,
            error: None,
            total_throughput_steps_per_s: Some(steps / middle),
            per_env_throughput_steps_per_s: Some(job.num_steps as f64 / middle),
            time_mean_s: Some(mean(&seconds)),
            time_std_s: Some(population_sd(&seconds)),
            time_min_s: seconds.iter().copied().reduce(f64::min),
            time_max_s: seconds.iter().copied().reduce(f64::max),
            time_median_s: Some(middle),
            startup_s: Some(median(&startups)),
            ..Self::failed(job, run, facts, "")
        }
    }
}

/// The steps per second of what was measured, and their 95 % interval.
pub fn rate(measured: &Measured) -> (f64, Option<[f64; 2]>) {
    rate_of(&measured.processes)
}

/// The steps per second of some processes, and their 95 % interval.
pub fn rate_of(processes: &[Process]) -> (f64, Option<[f64; 2]>) {
    let (time, interval) = typical_time(&processes.iter().map(Process::times).collect::<Vec<_>>());
    // A long time is a low rate, so the ends change places.
    (1e9 / time, interval.map(|Interval { low, high }| [1e9 / high, 1e9 / low]))
}

/// CPU time by wall time of the steady samples, in per cent; above 100 with several threads.
pub fn cpu_percent(measured: &Measured) -> Option<f64> {
    let steady = || measured.processes.iter().flat_map(Process::steady_timings);
    let cpu: Option<u64> = steady().map(|timing| timing.cpu_ns).sum();
    let wall: u64 = steady().map(|timing| timing.wall_ns).sum();
    cpu.filter(|_| wall > 0).map(|cpu| 100.0 * cpu as f64 / wall as f64)
}

/// Why the rate of these processes is noisy, if it is: more than one in ten reached no steady state, or guards refuse.
pub fn noise(processes: &[Process], guards: &Readings) -> Option<String> {
    let mut reasons = Vec::new();
    if campaign::is_noisy(processes) {
        let unsteady = processes.iter().filter(|process| process.steady.is_some() && !process.is_steady()).count();
        reasons.push(format!("{unsteady} of {} processes reached no steady state", processes.len()));
    }
    let refusing: Vec<_> = guards.refusing().collect();
    if !refusing.is_empty() {
        reasons.push(format!("the guards refuse ({})", refusing.join(", ")));
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Rows that differ in chunk size and threads only must have computed the same.
pub fn check_same_results(rows: &[Row]) -> Result<()> {
    let of = |row: &Row| (row.env_name.clone(), row.agent.clone(), row.kind, row.num_envs, row.num_steps);
    for (i, b) in rows.iter().enumerate() {
        let same = |a: &&Row| of(a) == of(b) && a.checksum.is_some() && b.checksum.is_some();
        if let Some(a) = rows[..i].iter().find(same).filter(|a| a.checksum != b.checksum) {
            let text = |row: &Row| {
                let checksum = row.checksum.map(|checksum| checksum.to_string()).unwrap_or_default();
                format!("{checksum} with chunk {} on {} threads", row.scan_chunk_size, row.threads)
            };
            return Err(Error::ChecksumMismatch { case: b.env_name.clone(), a: text(a), b: text(b) });
        }
    }
    Ok(())
}

/// Throughput at a number of environments, beside that at others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScalingPoint {
    /// The environment.
    pub env_name: String,
    /// What acts.
    pub agent: String,
    /// What was timed.
    pub kind: Kind,
    /// Threads.
    pub threads: usize,
    /// Number of environments.
    pub num_envs: usize,
    /// The fastest of the chunk sizes that were measured.
    pub scan_chunk_size: usize,
    /// Steps per second.
    pub steps_per_second: f64,
    /// Steps per second and environment, as a share of those at the smallest size.
    pub efficiency: f64,
    /// Steps per second, as a share of the best of all sizes.
    pub retention: f64,
}

/// How throughput scales with the number of environments, for each environment, agent, kind and number of threads that
/// was measured at several sizes.
pub fn scaling(rows: &[Row]) -> Vec<ScalingPoint> {
    let series = |row: &Row| (row.env_name.clone(), row.agent.clone(), row.kind, row.threads);
    let mut names = Vec::new();
    for name in rows.iter().map(series) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut points = Vec::new();
    for name in names {
        let mut best: Vec<(&Row, f64)> = Vec::new();
        for row in rows.iter().filter(|row| series(row) == name) {
            let Some(rate) = row.total_throughput_steps_per_s else { continue };
            match best.iter_mut().find(|(other, _)| other.num_envs == row.num_envs) {
                Some(other) if other.1 >= rate => {}
                Some(other) => *other = (row, rate),
                None => best.push((row, rate)),
            }
        }
        best.sort_by_key(|(row, _)| row.num_envs);
        let [(smallest, smallest_rate), _, ..] = best[..] else { continue };
        let retention = scaling::retention(&best.iter().map(|(_, rate)| *rate).collect::<Vec<_>>());
        points.extend(best.iter().zip(retention).map(|((row, rate), retention)| ScalingPoint {
            env_name: row.env_name.clone(),
            agent: row.agent.clone(),
            kind: row.kind,
            threads: row.threads,
            num_envs: row.num_envs,
            scan_chunk_size: row.scan_chunk_size,
            steps_per_second: *rate,
            efficiency: scaling::efficiency((row.num_envs as f64, *rate), (smallest.num_envs as f64, smallest_rate)),
            retention,
        }));
    }
    points
}

/// Sizes without which a line through the times of calls says nothing that the sizes do not say themselves.
const LEAST_SIZES: usize = 3;

/// How the time of a step of all environments grows with their number.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallScaling {
    /// The environment.
    pub env_name: String,
    /// What acts.
    pub agent: String,
    /// What was timed.
    pub kind: Kind,
    /// Threads.
    pub threads: usize,
    /// A model for each range of sizes that one cache holds, the smallest sizes first.
    pub regimes: Vec<Regime>,
}

/// Fits what [`scaling`] found at three sizes or more: the fixed time of a step of all environments, and that of each.
pub fn call_scaling(points: &[ScalingPoint]) -> Vec<CallScaling> {
    let series = |a: &ScalingPoint, b: &ScalingPoint| {
        (&a.env_name, &a.agent, a.kind, a.threads) == (&b.env_name, &b.agent, b.kind, b.threads)
    };
    let call = |point: &ScalingPoint| {
        let num_envs = point.num_envs as f64;
        (num_envs, 1e9 * num_envs / point.steps_per_second)
    };
    let sizes = points.chunk_by(series).filter(|sizes| sizes.len() >= LEAST_SIZES);
    let fitted = sizes.map(|sizes| CallScaling {
        env_name: sizes[0].env_name.clone(),
        agent: sizes[0].agent.clone(),
        kind: sizes[0].kind,
        threads: sizes[0].threads,
        regimes: call_regimes(&sizes.iter().map(call).collect::<Vec<_>>()),
    });
    fitted.collect()
}

/// The chunk size to use among those measured with one number of environments: the smallest whose rate is within 2 % of
/// the best.
pub fn best_chunk(rates: &[(usize, f64)]) -> Option<usize> {
    const EQUAL: f64 = 0.98;
    let best = rates.iter().map(|(_, rate)| *rate).reduce(f64::max)?;
    rates.iter().filter(|(_, rate)| *rate >= EQUAL * best).map(|(chunk, _)| *chunk).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;
    use crate::worker::Ready;
    use crate::workload::{Timing, WorkloadMemory};

    fn run() -> Run {
        Session::start("test", 1, Vec::new(), None).unwrap().run
    }

    fn job(num_envs: usize, chunk: usize) -> Job {
        Job::new(CaseSpec { scan_chunk_size: chunk, ..CaseSpec::rollout("CartPole-v1", num_envs) }, 1000)
    }

    fn row(num_envs: usize, chunk: usize, rate: f64) -> Row {
        let failed = Row::failed(&job(num_envs, chunk), &run(), Facts::default(), "");
        Row { success: true, error: None, total_throughput_steps_per_s: Some(rate), ..failed }
    }

    #[test]
    fn a_row_states_times_of_a_whole_run() {
        let sample =
            |wall_ns| Timing { wall_ns, cpu_ns: Some(2 * wall_ns), steps: 1000, checksum: Checksum(1), steal: None };
        let ready = Ready {
            startup_ns: 3_000_000,
            workload: WorkloadMemory::default(),
            rss_before: None,
            rss_after: None,
            rss_peak: None,
        };
        // The first is left out.
        let timings = [9000, 1000, 2000, 3000].map(sample).to_vec();
        let job = job(10, 256);
        let measured = Measured { case: job.case.clone(), processes: vec![Process { ready, timings, steady: None }] };
        let facts = Facts { state_bytes: Some(MEGABYTE), agent_bytes: Some(MEGABYTE / 2.0), checksum: None };
        let row = Row::measured(&job, &run(), facts, &measured);
        // 2 ns for each of the 10 000 steps of a run.
        assert_eq!((row.time_median_s, row.time_min_s, row.time_max_s), (Some(20e-6), Some(10e-6), Some(30e-6)));
        let near =
            |found: Option<f64>, wanted: f64| assert!((found.unwrap() / wanted - 1.0).abs() < 1e-12, "{found:?}");
        near(row.total_throughput_steps_per_s, 500e6);
        near(row.per_env_throughput_steps_per_s, 50e6);
        near(row.time_std_s, (200e-12f64 / 3.0).sqrt());
        assert_eq!((row.startup_s, row.total_memory_mb), (Some(0.003), Some(1.5)));
        assert_eq!(cpu_percent(&measured), Some(200.0));
        let (rate, Some([low, high])) = rate(&measured) else { panic!() };
        assert!(low < rate && rate < high && rate == 500e6, "{low} {rate} {high}");
    }

    #[test]
    fn what_never_settled_or_was_disturbed_is_noisy() {
        let restful = Process::of_times((0..24).map(|i| 10.0 + 0.01 * f64::from(i % 3)));
        let restless = Process::of_times((0..24).map(|i| if i < 20 { 10.0 } else { 12.0 } + 0.01 * f64::from(i % 3)));
        let short = Process::of_times([10.0, 20.0].into_iter());
        let quiet = Readings::default();
        assert_eq!(noise(&[restful.clone(), short], &quiet), None);
        let processes = [restful, restless];
        assert_eq!(noise(&processes, &quiet).unwrap(), "1 of 2 processes reached no steady state");
        let refused = r#"{"load": {"value": 2.0, "status": "refuse"}, "smt": {"value": 2.0, "status": "warn"}}"#;
        let disturbed: Readings = serde_json::from_str(refused).unwrap();
        assert_eq!(noise(&processes[..1], &disturbed).unwrap(), "the guards refuse (load)");
        let both = "1 of 2 processes reached no steady state; the guards refuse (load)";
        assert_eq!(noise(&processes, &disturbed).unwrap(), both);
    }

    #[test]
    fn a_chunk_is_no_longer_than_its_run() {
        assert_eq!(Job::new(CaseSpec::rollout("CartPole-v1", 100), 10).case.scan_chunk_size, 10);
        assert_eq!(job(100, 256).case.scan_chunk_size, 256);
    }

    #[test]
    fn scaling_takes_the_best_chunk_of_each_size() {
        let mut rows = vec![row(1000, 8, 100.0), row(100, 8, 50.0), row(1000, 64, 200.0), row(10_000, 8, 100.0)];
        rows.push(Row::failed(&job(100_000, 8), &run(), Facts::default(), "no memory"));
        rows.push(Row { threads: 2, ..row(100, 8, 7.0) });
        let points = scaling(&rows);
        let found: Vec<_> = points.iter().map(|p| (p.num_envs, p.scan_chunk_size, p.efficiency, p.retention)).collect();
        assert_eq!(found, [(100, 8, 1.0, 0.25), (1000, 64, 0.4, 1.0), (10_000, 8, 0.02, 0.5)]);
    }

    #[test]
    fn the_time_of_a_call_is_fitted_from_three_sizes_on() {
        // 4 us for a step of all, and 2.5 ns for each environment.
        let rate = |num_envs: usize| 1e9 * num_envs as f64 / (4000.0 + 2.5 * num_envs as f64);
        let rows = [16, 256, 4096].map(|num_envs| row(num_envs, 8, rate(num_envs)));
        let fitted = call_scaling(&scaling(&rows));
        let [CallScaling { regimes, .. }] = &fitted[..] else { panic!("{fitted:?}") };
        assert!((regimes[0].model.half_speed_envs() - 1600.0).abs() < 1e-6, "{regimes:?}");
        assert_eq!(call_scaling(&scaling(&rows[..2])), []);
    }

    #[test]
    fn different_results_are_an_error_only_where_they_should_be_equal() {
        let with = |chunk, checksum| Row { checksum: Some(Checksum(checksum)), ..row(100, chunk, 1.0) };
        check_same_results(&[with(8, 1), with(16, 1), Row { num_envs: 7, ..with(8, 2) }]).unwrap();
        let error = check_same_results(&[with(8, 1), with(16, 2)]).unwrap_err();
        assert!(matches!(error, Error::ChecksumMismatch { .. }), "{error}");
        check_same_results(&[row(100, 8, 1.0), with(16, 2)]).unwrap();
    }

    #[test]
    fn equal_chunks_are_decided_for_the_smallest() {
        assert_eq!(best_chunk(&[(8, 50.0), (64, 99.0), (256, 100.0), (512, 99.5)]), Some(64));
        assert_eq!(best_chunk(&[]), None);
    }

    #[test]
    fn the_columns_are_those_of_the_reference() {
        let columns = "agent,agent_memory_mb,checksum,cpu_model,device,env_name,error,git_hash,kind,num_envs,num_steps,\
            per_env_throughput_steps_per_s,scan_chunk_size,startup_s,state_memory_mb,success,threads,time_max_s,\
            time_mean_s,time_median_s,time_min_s,time_std_s,total_memory_mb,total_throughput_steps_per_s,version";
        let table = crate::csv::Table::of(&[row(100, 8, 1.0)]).unwrap();
        assert_eq!(table.columns().join(","), columns);
    }
}
