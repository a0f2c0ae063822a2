//! Whether a choice was good: every candidate takes turns, and none is left out.

use std::time::Duration;

use serde::Serialize;

use super::search::slowdown;
use super::subject::Subject;
use super::tuning::{timed, whole_chunks};
use crate::Result;
use crate::campaign::shuffled;
use crate::stats::descriptive::median;
use crate::stats::interval::Interval;
use crate::stats::random::Stream;

/// What every candidate amounts to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sweep {
    /// The choice that is judged.
    pub chosen: usize,
    /// The candidate with the highest median.
    pub best: usize,
    /// How much slower the choice is than the best: the median over rounds, as a share.
    pub shortfall: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// The median speed of each candidate, in steps a second.
    pub speeds: Vec<(usize, f64)>,
}

/// Times the `chosen` chunk size and all `candidates` in `rounds` rounds of samples of at least `sample`.
pub fn sweep(
    subject: &dyn Subject,
    (num_envs, threads): (usize, usize),
    chosen: usize,
    candidates: &[usize],
    (rounds, sample): (usize, Duration),
    mut after: impl FnMut(usize),
) -> Result<Sweep> {
    let mut chunks: Vec<usize> = candidates.iter().copied().chain([chosen]).collect();
    chunks.sort_unstable();
    chunks.dedup();
    let mut running = subject.start(num_envs, threads)?;
    let mut steps = Vec::new();
    for &chunk in &chunks {
        timed(running.as_mut(), threads, chunk, chunk)?;
        steps.push(whole_chunks(sample, timed(running.as_mut(), threads, chunk, chunk)?, chunk));
    }
    let mut random = Stream::new(num_envs as u64, 3);
    let mut times = vec![Vec::new(); chunks.len()];
    for round in 0..rounds.max(1) {
        for at in shuffled(chunks.len(), &mut random) {
            times[at].push(timed(running.as_mut(), threads, steps[at], chunks[at])?.step_ns);
        }
        after(round + 1);
    }
    let medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
    let best = (0..chunks.len()).min_by(|&a, &b| medians[a].total_cmp(&medians[b])).expect("at least the choice");
    let own = chunks.iter().position(|&chunk| chunk == chosen).expect("it is among them");
    let behind = slowdown(&times[own], &times[best]);
    Ok(Sweep {
        chosen,
        best: chunks[best],
        shortfall: behind.median.exp_m1(),
        interval: behind.interval.map(f64::exp_m1),
        speeds: chunks.into_iter().zip(medians.iter().map(|time| 1e9 / time)).collect(),
    })
}
