//! Benchmarks of a user's own functions.
//!
//! To add one: write a function that does the work and returns what it computed, [`warmup`] it, take times with
//! [`time_fn`] (or all at once with [`benchmark_function`]), put what you found into a struct, and [`write_csv`] it.
//!
//! ```
//! use phalanx_lab::function::{benchmark_function, measure_startup, time_fn, warmup, write_csv};
//! use serde::Serialize;
//! use serde_json::json;
//!
//! #[derive(Serialize)]
//! struct Row {
//!     elements: usize,
//!     startup_s: f64,
//!     time_median_s: f64,
//!     elements_per_s: f64,
//! }
//!
//! let folder = tempfile::tempdir()?;
//! let mut rows = Vec::new();
//! for elements in [100, 10_000] {
//!     let (data, startup) = measure_startup(|| vec![1.5f32; elements]);
//!     let sum = || data.iter().sum::<f32>();
//!     warmup(sum);
//!     let times = time_fn(sum, 20);
//!     rows.push(Row {
//!         elements,
//!         startup_s: startup.as_secs_f64(),
//!         time_median_s: times.median_s,
//!         elements_per_s: elements as f64 / times.median_s,
//!     });
//! }
//! write_csv(&folder.path().join("sum.csv"), &rows)?;
//!
//! // Or in one call, with the fields of the suite:
//! let metadata = json!({"batch_size": 256}).as_object().cloned().unwrap_or_default();
//! let parse = || "1.5".parse::<f64>();
//! let result = benchmark_function(parse, "parse", "custom", 100, 10, metadata)?;
//! assert_eq!((result.iterations, result.category.as_str()), (100, "custom"));
//! assert_eq!(result.throughput, 100.0 / result.duration);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::convert::Infallible;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::{Elapsed, Stopwatch};
use crate::csv::Table;
use crate::machine::Machine;
use crate::stats::descriptive::{mean, median, population_sd};
use crate::stats::interval::{CONFIDENCE, Interval, mean_interval};
use crate::suite::{Benchmark, BenchmarkResult};
use crate::{Result, files};

/// Calls of [`warmup`].
pub const WARM_UP_CALLS: u64 = 10;

/// A [`Benchmark`] in one call: `func` runs `warmup` times, then `iterations` times for the clock, then once more for its
/// memory. An error of `func`, in the warm-up too, ends it. At least one call is timed.
///
/// What `func` returns counts as used: the compiler cannot leave its computation out.
pub fn benchmark_function<T, E>(
    func: impl FnMut() -> Result<T, E>,
    name: &str,
    category: &str,
    iterations: u64,
    warmup: u64,
    metadata: Map<String, Value>,
) -> Result<BenchmarkResult, E> {
    let benchmark = Benchmark::new(name, category).iterations(iterations).warmup(warmup);
    metadata.into_iter().fold(benchmark, |benchmark, (key, value)| benchmark.metadata(key, value)).run(func)
}

fn cpu_percent(elapsed: Elapsed) -> Option<f64> {
    elapsed.cpu_efficiency(1).map(|share| 100.0 * share)
}

/// Calls `func` [`WARM_UP_CALLS`] times.
pub fn warmup<T>(mut func: impl FnMut() -> T) {
    for _ in 0..WARM_UP_CALLS {
        black_box(func());
    }
}

/// Times of a function's calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Each call, in seconds, in order.
    pub seconds: Vec<f64>,
    /// Their mean.
    pub mean_s: f64,
    /// Their standard deviation, of the calls themselves.
    pub std_s: f64,
    /// The shortest.
    pub min_s: f64,
    /// The longest.
    pub max_s: f64,
    /// The median.
    pub median_s: f64,
    /// The 95 % interval of the mean; none for a single call.
    pub ci95_s: Option<Interval>,
    /// CPU time by wall time of all calls, in per cent.
    pub cpu_percent: Option<f64>,
}

/// Times each of `runs` calls, at least one. A call should take much longer than the clock can tell apart: make it do
/// more if it does not (see [`crate::workload::calibrate`]).
pub fn time_fn<T>(mut func: impl FnMut() -> T, runs: usize) -> Times {
    let Ok(times) = try_time_fn(|| Ok::<_, Infallible>(func()), runs);
    times
}

/// The same of a function that can fail, which ends it.
pub fn try_time_fn<T, E>(mut func: impl FnMut() -> Result<T, E>, runs: usize) -> Result<Times, E> {
    let all = Stopwatch::start();
    let seconds = (0..runs.max(1)).map(|_| {
        let start = Instant::now();
        black_box(func()?);
        Ok(start.elapsed().as_secs_f64())
    });
    let seconds = seconds.collect::<Result<Vec<f64>, E>>()?;
    let cpu_percent = cpu_percent(all.elapsed());
    Ok(Times {
        mean_s: mean(&seconds),
        std_s: population_sd(&seconds),
        min_s: seconds.iter().copied().fold(f64::INFINITY, f64::min),
        max_s: seconds.iter().copied().fold(0.0, f64::max),
        median_s: median(&seconds),
        ci95_s: mean_interval(&seconds, CONFIDENCE),
        cpu_percent,
        seconds,
    })
}

/// What a first call returns, and how long it took: report it apart from the calls that follow.
pub fn measure_startup<T>(func: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = black_box(func());
    (result, start.elapsed())
}

/// Writes a table with a row for each of `rows`, whose fields are the columns, complete or not at all. What was there
/// before is replaced.
pub fn write_csv<T: Serialize>(path: &Path, rows: &[T]) -> Result<()> {
    files::write_atomically(path, Table::of(rows)?.to_string().as_bytes())
}

/// The machine that a result should be stored with.
pub fn device_info() -> Machine {
    Machine::detect()
}

/// Marks a function that cannot fail for [`benchmark_function`].
///
/// ```
/// # use phalanx_lab::function::{benchmark_function, infallible};
/// let Ok(result) = benchmark_function(infallible(|| 6 * 7), "product", "custom", 100, 10, Default::default());
/// assert_eq!(result.name, "product");
/// ```
pub fn infallible<T>(mut func: impl FnMut() -> T) -> impl FnMut() -> Result<T, Infallible> {
    move || Ok(func())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn calls_are_counted_and_metadata_is_kept() {
        let mut calls = 0;
        let metadata = json!({"batch_size": 64, "learning_rate": 3e-4}).as_object().cloned().unwrap();
        let count = || {
            calls += 1;
            Ok::<_, Infallible>(calls)
        };
        let Ok(result) = benchmark_function(count, "count", "custom", 100, 10, metadata.clone());
        assert_eq!(calls, 111, "ten to warm up, a hundred timed, one for the memory");
        assert_eq!((result.iterations, result.throughput), (100, 100.0 / result.duration));
        assert_eq!(result.metadata, metadata);
        let fields = serde_json::to_value(&result).unwrap();
        let names: Vec<_> = fields.as_object().unwrap().keys().map(String::as_str).collect();
        for name in [
            "name",
            "category",
            "duration",
            "memory_peak_mb",
            "memory_current_mb",
            "cpu_percent",
            "iterations",
            "throughput",
            "metadata",
        ] {
            assert!(names.contains(&name), "{name}");
        }
    }

    #[test]
    fn two_results_of_a_function_can_be_compared() {
        let run = || {
            let Ok(result) = benchmark_function(infallible(|| 7), "seven", "custom", 20, 0, Map::new());
            result
        };
        let against = crate::suite::Against::stored(&run(), &run());
        assert!(against.rules.is_some() && against.throughput_change_interval.is_some(), "{against:?}");
    }

    #[test]
    fn errors_end_a_benchmark_in_the_warm_up_too() {
        let mut calls = 0;
        let mut failing = |at: u64| {
            calls = 0;
            let func = || {
                calls += 1;
                if calls == at { Err(calls) } else { Ok(()) }
            };
            benchmark_function(func, "f", "c", 5, 3, Map::new()).unwrap_err()
        };
        assert_eq!([failing(2), failing(6), failing(9)], [2, 6, 9]);
    }

    #[test]
    fn times_agree_with_each_other() {
        let times = time_fn(|| std::thread::sleep(Duration::from_micros(50)), 8);
        assert_eq!(times.seconds.len(), 8);
        assert!(times.min_s <= times.median_s && times.median_s <= times.max_s);
        assert!(times.min_s <= times.mean_s && times.mean_s <= times.max_s);
        assert_eq!(time_fn(|| 1, 0).seconds.len(), 1);
        let (value, time) = measure_startup(|| 7);
        assert!(value == 7 && time > Duration::ZERO);
    }
}
