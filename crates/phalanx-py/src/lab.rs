//! The lab: what `phalanx.lab` is made of. Results and records cross the border as JSON, which is what they are on disk.

use std::collections::BTreeMap;
use std::path::PathBuf;

use phalanx_lab::Error;
use phalanx_lab::format::format_number as short;
use phalanx_lab::function;
use phalanx_lab::machine::Machine;
use phalanx_lab::memory;
use phalanx_lab::record;
use phalanx_lab::suite::{self, Against, BenchmarkResult, REPORT_VERSION, SystemInfo, category_stats, recommendations};
use pyo3::exceptions::{PyFileNotFoundError, PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::json;

/// Counts what the engine and the agents take, which tuning predicts memory by; a step allocates nothing and so pays
/// nothing. A program has one allocator, so a crate that takes this one as a library may have its own instead.
#[cfg(feature = "counting-allocator")]
#[global_allocator]
static ALLOCATOR: phalanx_lab::memory::CountingAllocator = phalanx_lab::memory::CountingAllocator::new();

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    #[cfg(feature = "counting-allocator")]
    ALLOCATOR.register();
    module.add_function(wrap_pyfunction!(benchmark, module)?)?;
    module.add_function(wrap_pyfunction!(time_calls, module)?)?;
    module.add_function(wrap_pyfunction!(compare_results, module)?)?;
    module.add_function(wrap_pyfunction!(sum_up, module)?)?;
    module.add_function(wrap_pyfunction!(read_records, module)?)?;
    module.add_function(wrap_pyfunction!(device_info, module)?)?;
    module.add_function(wrap_pyfunction!(format_number, module)?)?;
    module.add_function(wrap_pyfunction!(allocations, module)?)?;
    module.add_function(wrap_pyfunction!(allocated_bytes, module)?)?;
    Ok(())
}

/// The exception that tells of an error of the lab.
pub(crate) fn raised(error: Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Read { error, .. } if error.kind() == std::io::ErrorKind::NotFound => {
            PyFileNotFoundError::new_err(message)
        }
        Error::Read { .. } | Error::Write { .. } | Error::Folder { .. } | Error::NotAFolder { .. } => {
            PyOSError::new_err(message)
        }
        Error::OutOfMemory { .. } | Error::NoValidChunkSize { .. } | Error::NoValidNumEnvs { .. } => {
            PyMemoryError::new_err(message)
        }
        Error::Subject(_) | Error::Worker { .. } | Error::Profile(_) | Error::Interrupt(_) => {
            PyRuntimeError::new_err(message)
        }
        _ => PyValueError::new_err(message),
    }
}

fn parsed<T: DeserializeOwned>(what: &str, text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(format!("{what} cannot be read: {error}")))
}

/// Measures a callable; what it raises ends the benchmark, in the warm-up as well.
#[pyfunction]
fn benchmark(
    func: &Bound<'_, PyAny>,
    name: &str,
    category: &str,
    iterations: u64,
    warmup: u64,
    metadata: &str,
) -> PyResult<String> {
    let py = func.py();
    // Signals are looked at by the interpreter itself, in between two calls too.
    let call = || func.call0().and_then(|result| py.check_signals().map(|()| result));
    let metadata = parsed("the metadata", metadata)?;
    let result = function::benchmark_function(call, name, category, iterations, warmup, metadata)?;
    Ok(serde_json::to_string(&result).expect("plain data"))
}

/// The times of each of `runs` calls, with their statistics; what a call raises ends it.
#[pyfunction]
fn time_calls(func: &Bound<'_, PyAny>, runs: usize) -> PyResult<String> {
    let call = || func.call0().and_then(|result| func.py().check_signals().map(|()| result));
    let times = function::try_time_fn(call, runs)?;
    Ok(serde_json::to_string(&times).expect("plain data"))
}

/// Results against the stored ones of the same names, by name; `same_machine` says whether that means anything.
#[pyfunction]
fn compare_results(baseline: &str, current: &str, same_machine: bool) -> PyResult<String> {
    let baseline: Vec<BenchmarkResult> = parsed("the baseline", baseline)?;
    let current: Vec<BenchmarkResult> = parsed("the results", current)?;
    let mut found: BTreeMap<&str, Against> = BTreeMap::new();
    for result in &current {
        if let Some(stored) = baseline.iter().find(|stored| stored.name == result.name) {
            let against = match same_machine {
                true => Against::stored(stored, result),
                false => Against::incomparable("the baseline is of another machine"),
            };
            found.insert(&result.name, against);
        }
    }
    suite::heed_number(&mut found.values_mut().collect::<Vec<_>>());
    Ok(serde_json::to_string(&found).expect("plain data"))
}

/// What results amount to, and where they were measured.
#[pyfunction]
fn sum_up(results: &str) -> PyResult<String> {
    let results: Vec<BenchmarkResult> = parsed("the results", results)?;
    let told = json!({
        "schema_version": REPORT_VERSION,
        "system_info": SystemInfo::of(&Machine::detect()),
        "category_stats": category_stats(&results),
        "summary": suite::summary(&results),
        "recommendations": recommendations(&results),
    });
    Ok(told.to_string())
}

/// The records of a file or of all files of a folder, a text of JSON each, and what was skipped.
#[pyfunction]
fn read_records(path: PathBuf) -> PyResult<(Vec<String>, Vec<String>)> {
    let found = if path.is_dir() { record::read_folder(&path) } else { record::read(&path) }.map_err(raised)?;
    let records = found.records.iter().map(|record| serde_json::to_string(record).expect("plain data")).collect();
    let damaged = found.damaged.iter().map(ToString::to_string).collect();
    Ok((records, damaged))
}

/// The machine, as results should be stored with.
#[pyfunction]
fn device_info() -> String {
    serde_json::to_string(&Machine::detect()).expect("plain data")
}

/// A number as people read it: 1.5K, 20M.
#[pyfunction]
fn format_number(number: f64) -> String {
    short(number)
}

/// Allocations of this module so far, for the test that a step makes none; none are told where they are not counted.
#[pyfunction]
fn allocations() -> Option<u64> {
    memory::allocator().map(|allocator| allocator.counts().allocations)
}

/// Bytes that this module has allocated and not freed, for the tests that nothing leaks.
#[pyfunction]
fn allocated_bytes() -> Option<u64> {
    memory::allocator().map(|allocator| allocator.counts().live_bytes)
}
