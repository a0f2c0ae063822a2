//! Memory by number of environments or by chunk size: one process per size, what the system saw, what was counted.

use serde::{Deserialize, Serialize};

use crate::case::CaseSpec;
use crate::stats::descriptive::median;
use crate::stats::growth::MemoryGrowth;
use crate::throughput::MEGABYTE;
use crate::worker::Ready;

/// Numbers of environments that are profiled unless the user says otherwise.
pub const DEFAULT_SIZES: [usize; 6] = [1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576];

/// Chunk sizes that are profiled.
pub const DEFAULT_CHUNKS: [usize; 7] = [8, 16, 32, 64, 128, 256, 512];

/// A row of the table. The fields are the columns; amounts are in units of 2²⁰ bytes, medians over the processes of a
/// size, and empty where the system does not tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The environment.
    pub env_name: String,
    /// What computed.
    pub device: String,
    /// Number of environments.
    pub num_envs: usize,
    /// Steps that a block of environments made before the next was touched.
    pub scan_chunk_size: usize,
    /// Whether it was measured.
    pub success: bool,
    /// Why not.
    pub error: Option<String>,
    /// What the environments are expected to take.
    pub state_memory_mb: Option<f64>,
    /// What acts on them and takes their outputs, likewise.
    pub agent_memory_mb: Option<f64>,
    /// What the arrays take, counted from their sizes.
    pub pytree_total_mb: Option<f64>,
    /// What was expected before anything was allocated.
    pub predicted_mb: Option<f64>,
    /// Resident memory before the environments were made.
    pub baseline_cpu_mb: Option<f64>,
    /// Resident memory after the first iteration.
    pub post_compile_cpu_mb: Option<f64>,
    /// The difference.
    pub cpu_delta_mb: Option<f64>,
    /// The most there was.
    pub peak_rss_mb: Option<f64>,
    /// Empty: nothing computes on a GPU.
    pub gpu_allocated_mb: Option<f64>,
    /// Empty.
    pub gpu_peak_mb: Option<f64>,
    /// Empty.
    pub gpu_delta_mb: Option<f64>,
}

/// Bytes that a case is expected to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predicted {
    /// The environments.
    pub state_bytes: f64,
    /// What acts on them.
    pub agent_bytes: f64,
}

impl Predicted {
    /// All together.
    pub fn total(self) -> f64 {
        self.state_bytes + self.agent_bytes
    }
}

impl Row {
    /// A case that could not be profiled, and why.
    pub fn failed(case: &CaseSpec, predicted: Predicted, reason: impl Into<String>) -> Self {
        Self {
            env_name: case.env.clone(),
            device: "cpu".to_owned(),
            num_envs: case.num_envs,
            scan_chunk_size: case.scan_chunk_size,
            success: false,
            error: Some(reason.into()),
            state_memory_mb: Some(predicted.state_bytes / MEGABYTE),
            agent_memory_mb: Some(predicted.agent_bytes / MEGABYTE),
            pytree_total_mb: None,
            predicted_mb: Some(predicted.total() / MEGABYTE),
            baseline_cpu_mb: None,
            post_compile_cpu_mb: None,
            cpu_delta_mb: None,
            peak_rss_mb: None,
            gpu_allocated_mb: None,
            gpu_peak_mb: None,
            gpu_delta_mb: None,
        }
    }

    /// A case, and what its processes said when they were ready.
    pub fn profiled(case: &CaseSpec, predicted: Predicted, processes: &[Ready]) -> Self {
        let of = |amount: &dyn Fn(&Ready) -> Option<f64>| {
            let amounts: Option<Vec<f64>> = processes.iter().map(amount).collect();
            amounts.filter(|amounts| !amounts.is_empty()).map(|amounts| median(&amounts) / MEGABYTE)
        };
        let bytes = |amount: Option<u64>| amount.map(|bytes| bytes as f64);
        Self {
            success: true,
            error: None,
            pytree_total_mb: of(&|ready| bytes(ready.workload.array_bytes)),
            baseline_cpu_mb: of(&|ready| bytes(ready.rss_before)),
            post_compile_cpu_mb: of(&|ready| bytes(ready.rss_after)),
            cpu_delta_mb: of(&|ready| Some(ready.rss_after? as f64 - ready.rss_before? as f64)),
            peak_rss_mb: of(&|ready| bytes(ready.rss_peak)),
            ..Self::failed(case, predicted, "")
        }
    }
}

/// How the peak memory of processes grows with the number of environments; `None` below three processes or two sizes,
/// or where the system does not tell.
pub fn growth(processes: &[(usize, Ready)]) -> Option<MemoryGrowth> {
    let sizes: Option<Vec<(f64, f64)>> =
        processes.iter().map(|(envs, ready)| Some((*envs as f64, ready.rss_peak? as f64))).collect();
    MemoryGrowth::of(&sizes?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::WorkloadMemory;

    const PREDICTED: Predicted = Predicted { state_bytes: 2.0 * MEGABYTE, agent_bytes: MEGABYTE };

    fn ready(before: f64, after: f64, peak: Option<f64>) -> Ready {
        let bytes = |megabytes: f64| (megabytes * MEGABYTE) as u64;
        Ready {
            startup_ns: 1,
            workload: WorkloadMemory { array_bytes: Some(bytes(3.0)), bytes_per_env: None },
            rss_before: Some(bytes(before)),
            rss_after: Some(bytes(after)),
            rss_peak: peak.map(bytes),
        }
    }

    #[test]
    fn a_row_has_the_medians_of_its_processes() {
        let case = CaseSpec::rollout("CartPole-v1", 64);
        let processes = [(5.0, 9.0, Some(10.0)), (4.0, 8.0, Some(12.0)), (6.0, 8.5, Some(11.0))];
        let row = Row::profiled(&case, PREDICTED, &processes.map(|(a, b, c)| ready(a, b, c)));
        assert_eq!((row.baseline_cpu_mb, row.post_compile_cpu_mb, row.peak_rss_mb), (Some(5.0), Some(8.5), Some(11.0)));
        assert_eq!((row.cpu_delta_mb, row.pytree_total_mb, row.predicted_mb), (Some(4.0), Some(3.0), Some(3.0)));
        let unknown = Row::profiled(&case, PREDICTED, &[ready(5.0, 9.0, None)]);
        assert_eq!((unknown.peak_rss_mb, unknown.success), (None, true));
    }

    #[test]
    fn the_columns_are_those_of_the_reference() {
        let columns = "agent_memory_mb,baseline_cpu_mb,cpu_delta_mb,device,env_name,error,gpu_allocated_mb,gpu_delta_mb,\
            gpu_peak_mb,num_envs,peak_rss_mb,post_compile_cpu_mb,predicted_mb,pytree_total_mb,scan_chunk_size,\
            state_memory_mb,success";
        let row = Row::failed(&CaseSpec::rollout("CartPole-v1", 64), PREDICTED, "no memory");
        assert_eq!(crate::csv::Table::of(&[row]).unwrap().columns().join(","), columns);
    }

    #[test]
    fn growth_is_that_of_the_peak() {
        let sizes = [1024, 2048, 4096, 8192].map(|n| (n, ready(5.0, 5.0, Some(5.0 + n as f64 / 8192.0))));
        let growth = growth(&sizes).unwrap();
        assert!((growth.bytes_per_env - 128.0).abs() < 1e-6, "{growth:?}");
        assert_eq!(super::growth(&[(1, ready(1.0, 1.0, None))]), None);
    }
}
