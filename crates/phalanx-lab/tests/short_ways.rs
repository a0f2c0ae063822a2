//! The functions that a user's own program calls first.

use std::process::Command;

use phalanx_lab::Result;
use phalanx_lab::autotune::memory_model::MemoryModel;
use phalanx_lab::autotune::{AgentTimes, Loop, Subject, suggest_scan_chunk_size};
use phalanx_lab::function::device_info;
use phalanx_lab::workload::Work;

#[test]
fn a_result_can_name_its_machine() {
    let machine = device_info();
    assert!(!machine.fingerprint.is_empty() && !machine.architecture.is_empty());
    assert_eq!(machine.fingerprint, device_info().fingerprint, "the same one each time");
}

/// Each chunk costs as much as the next, so that large ones are faster.
struct Chunks(usize);

impl Loop for Chunks {
    fn advance(&mut self, steps: usize, chunk: usize) -> Result<Work> {
        for _ in 0..1000 * steps.div_ceil(chunk) {
            std::hint::black_box(0);
        }
        Ok(Work { steps: (steps * self.0) as u64, checksum: 0 })
    }
}

struct Mine;

impl Subject for Mine {
    fn env(&self) -> &str {
        "Mine-v0"
    }
    fn env_hash(&self) -> String {
        "h".to_owned()
    }
    fn agent(&self) -> &str {
        "random"
    }
    fn memory(&self) -> MemoryModel {
        MemoryModel { bytes_per_env: 100.0, weight_bytes: 0, transition_bytes: 0, bytes_per_chunk_step: 0 }
    }
    fn agent_times(&self) -> Result<AgentTimes> {
        Ok(AgentTimes::default())
    }
    fn start(&self, num_envs: usize, _: usize) -> Result<Box<dyn Loop>> {
        Ok(Box::new(Chunks(num_envs)))
    }
}

/// In a process of its own, because the cache of a user is named by a variable.
#[test]
fn a_chunk_size_is_suggested_and_remembered() {
    const VARIABLE: &str = "PHALANX_CACHE_DIR";
    const CHILD: &str = "PHALANX_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let suggest = || suggest_scan_chunk_size(4, &Mine, None, false, false).unwrap();
        let first = suggest();
        assert!(first > 1 && suggest() == first);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_chunk_size_is_suggested_and_remembered"]).env(CHILD, "1").env(VARIABLE, folder.path());
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let cache = std::fs::read_to_string(folder.path().join("autotune_profiles.json")).unwrap();
    assert!(cache.contains("Mine-v0:random:4:"), "{cache}");
}
