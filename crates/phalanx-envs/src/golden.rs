//! How the environments' golden vectors are checked: states stepped in double precision against numbers
//! that another implementation printed.

use phalanx_core::batch::BatchConfig;
use phalanx_core::env::LaneEnv;
use phalanx_core::probe::{Precision, Probe, ProbeStep, probe};
use phalanx_core::safety::{SafetyConfig, SafetyMode};

/// A probe of an environment in double precision with `name=value` settings.
pub(crate) fn exact<E: LaneEnv>(env: E, settings: &[(&str, &str)]) -> Box<dyn Probe> {
    seeded(env, settings, 0, Precision::F64)
}

/// The same in single precision, as in batches.
pub(crate) fn single<E: LaneEnv>(env: E, settings: &[(&str, &str)]) -> Box<dyn Probe> {
    seeded(env, settings, 0, Precision::F32)
}

/// A probe with a seed of its own.
pub(crate) fn seeded<E: LaneEnv>(env: E, settings: &[(&str, &str)], seed: u64, precision: Precision) -> Box<dyn Probe> {
    probe(env, &config(settings, seed), precision).unwrap()
}

/// A probe of an environment whose constraints are not looked at.
pub(crate) fn unguarded<E: LaneEnv>(env: E, settings: &[(&str, &str)], precision: Precision) -> Box<dyn Probe> {
    let safety = SafetyConfig { mode: SafetyMode::Off, ..SafetyConfig::default() };
    probe(env, &BatchConfig { safety, ..config(settings, 0) }, precision).unwrap()
}

fn config(settings: &[(&str, &str)], seed: u64) -> BatchConfig {
    let settings = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    BatchConfig { settings, seed, ..BatchConfig::default() }
}

/// Sets `start`, takes each action and expects each state, within `tolerance`.
#[track_caller]
pub(crate) fn follow<const N: usize>(
    probe: &mut dyn Probe,
    start: [f64; N],
    steps: &[(f64, [f64; N])],
    tolerance: f64,
) -> Vec<ProbeStep> {
    probe.set_state(&start).unwrap();
    let mut taken = Vec::new();
    for (i, (action, expected)) in steps.iter().enumerate() {
        taken.push(probe.step(&[*action]).unwrap());
        close(&probe.state(), expected, tolerance, i);
    }
    taken
}

#[track_caller]
pub(crate) fn close(found: &[f64], expected: &[f64], tolerance: f64, step: usize) {
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance, "step {step}: {found:?} instead of {expected:?}");
    }
}
