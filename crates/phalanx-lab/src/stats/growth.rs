//! Costs that grow with the number of environments: memory, and the time of one call.

use serde::{Deserialize, Serialize};

use super::change_points::{Settings, detect};
use super::interval::{CONFIDENCE, Interval};
use super::line::{Line, Point};

/// Memory is given in pages, so residuals up to this are no sign of anything.
const PAGE_BYTES: f64 = 4096.0;

/// Whether one line describes the memory of all sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryShape {
    /// Every size lies within a page of the line.
    Linear,
    /// Some size does not: report memory piecewise.
    Piecewise,
}

/// Memory by number of environments.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryGrowth {
    /// Bytes that one more environment takes.
    pub bytes_per_env: f64,
    /// Their interval.
    pub interval: Interval,
    /// Bytes that no environment would take.
    pub fixed_bytes: f64,
    /// Largest distance of a measured size from the line.
    pub largest_residual_bytes: f64,
    /// What that distance means.
    pub shape: MemoryShape,
}

impl MemoryGrowth {
    /// Fits (environments, bytes); `None` below three measurements or two different sizes.
    pub fn of(sizes: &[(f64, f64)]) -> Option<Self> {
        let points: Vec<Point> = sizes.iter().map(|&(x, y)| Point { x, y, weight: 1.0 }).collect();
        let line = Line::fit(&points)?;
        let interval = line.slope_interval(CONFIDENCE)?;
        let residuals = points.iter().map(|point| (point.y - line.at(point.x)).abs());
        let largest_residual_bytes = residuals.fold(0.0, f64::max);
        Some(Self {
            bytes_per_env: line.slope,
            interval,
            fixed_bytes: line.intercept,
            largest_residual_bytes,
            shape: if largest_residual_bytes > PAGE_BYTES { MemoryShape::Piecewise } else { MemoryShape::Linear },
        })
    }
}

/// The time of a call that steps `n` environments: `call_ns + env_ns·n`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallTime {
    /// Time of a call whatever its size.
    pub call_ns: f64,
    /// Time per environment.
    pub env_ns: f64,
}

impl CallTime {
    /// Fits (environments, ns per call) with equal relative errors; `None` without two different sizes.
    pub fn of(calls: &[(f64, f64)]) -> Option<Self> {
        let points: Vec<Point> = calls.iter().map(|&(x, y)| Point { x, y, weight: y.powi(-2) }).collect();
        Line::fit(&points).map(|line| Self { call_ns: line.intercept, env_ns: line.slope })
    }

    /// Time of a call of `n` environments.
    pub fn ns(&self, n: f64) -> f64 {
        self.call_ns + self.env_ns * n
    }

    /// Steps per second with `n` environments.
    pub fn steps_per_second(&self, n: f64) -> f64 {
        1e9 * n / self.ns(n)
    }

    /// Steps per second that no number of environments exceeds.
    pub fn limit_steps_per_second(&self) -> f64 {
        1e9 / self.env_ns
    }

    /// Whether both times are there: only then does throughput rise towards a limit.
    pub fn has_knee(&self) -> bool {
        self.call_ns > 0.0 && self.env_ns > 0.0
    }

    /// Number of environments at which half the limit is reached: the knee.
    pub fn half_speed_envs(&self) -> f64 {
        self.call_ns / self.env_ns
    }
}

/// Sizes whose calls follow one model because the same cache holds their state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regime {
    /// The smallest of the sizes.
    pub smallest_envs: f64,
    /// The largest of the sizes.
    pub largest_envs: f64,
    /// Their model.
    pub model: CallTime,
}

/// Fits one model per cache regime to (environments, ns per call) in ascending order: sizes are split where the
/// relative residuals of a common model change. Regimes of fewer than two different sizes are left out.
pub fn call_regimes(calls: &[(f64, f64)]) -> Vec<Regime> {
    let Some(common) = CallTime::of(calls) else { return Vec::new() };
    let residuals: Vec<f64> = calls.iter().map(|&(n, ns)| 1.0 - common.ns(n) / ns).collect();
    let segments = detect(&residuals, &Settings::whole(calls.len(), 0.0)).segments(calls.len());
    let regime = |calls: &[(f64, f64)]| {
        let model = CallTime::of(calls)?;
        Some(Regime { smallest_envs: calls[0].0, largest_envs: calls[calls.len() - 1].0, model })
    };
    segments.into_iter().filter_map(|segment| regime(&calls[segment])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::{assert_close, assert_near};

    const MIB: f64 = 1_048_576.0;

    #[test]
    fn memory_of_five_sizes() {
        let sizes = [(1024.0, 5.13), (2048.0, 5.26), (4096.0, 5.52), (8192.0, 6.03), (16384.0, 7.06)];
        let growth = MemoryGrowth::of(&sizes.map(|(n, mib)| (n, mib * MIB))).unwrap();
        assert_close(growth.bytes_per_env, 131.6473);
        assert_close(growth.interval.low, 131.1079);
        assert_close(growth.interval.high, 132.1867);
        assert_near(growth.fixed_bytes / MIB, 5.0029, 5e-5);
        assert_eq!(growth.shape, MemoryShape::Linear);
    }

    #[test]
    fn a_step_in_memory_is_seen() {
        let stepped =
            [1.0, 2.0, 4.0, 8.0, 16.0].map(|n| (n * 1024.0, n * 1024.0 * 64.0 + if n > 4.0 { MIB } else { 0.0 }));
        assert_eq!(MemoryGrowth::of(&stepped).unwrap().shape, MemoryShape::Piecewise);
        assert_eq!(MemoryGrowth::of(&stepped[..2]), None);
    }

    #[test]
    fn a_call_has_a_knee() {
        let model = CallTime { call_ns: 4000.0, env_ns: 2.5 };
        assert_close(model.steps_per_second(1600.0), 200e6);
        assert_near(model.steps_per_second(4096.0), 287.64e6, 5e3);
        assert_close(model.limit_steps_per_second(), 400e6);
        assert_close(model.half_speed_envs(), 1600.0);
        let fitted = CallTime::of(&[16.0, 256.0, 4096.0, 65536.0].map(|n| (n, model.ns(n)))).unwrap();
        assert_close(fitted.call_ns, 4000.0);
        assert_close(fitted.env_ns, 2.5);
    }

    #[test]
    fn regimes_of_a_cache_are_told_apart() {
        let (inside, outside) = (CallTime { call_ns: 1000.0, env_ns: 2.0 }, CallTime { call_ns: 1000.0, env_ns: 6.0 });
        let calls: Vec<(f64, f64)> = (0..16)
            .map(|i| {
                let n = f64::from(1 << (i / 2 + 8)) * if i % 2 == 0 { 1.0 } else { 1.5 };
                (n, if i < 9 { inside.ns(n) } else { outside.ns(n) })
            })
            .collect();
        let regimes = call_regimes(&calls);
        let (first, last) = (regimes[0], regimes[regimes.len() - 1]);
        assert!(regimes.len() >= 2, "{regimes:?}");
        assert_near(first.model.env_ns, 2.0, 0.1);
        assert_near(last.model.env_ns, 6.0, 0.1);
        assert_eq!((first.smallest_envs, last.largest_envs), (256.0, 49_152.0));
        assert_eq!(call_regimes(&[]), []);
    }
}
