//! Measuring until the interval is narrow enough or time is up; a case that fails costs itself and no other.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::campaign::{self, Measured, Plan, Process};
use crate::case::CaseSpec;
use crate::stats::random::Stream;
use crate::{Error, Result};

/// The width that an interval should have at most, as a share of its middle.
pub const WANTED_WIDTH: f64 = 0.02;

/// Processes before a narrow interval ends a measurement. Stopping for width favours intervals that are narrow by
/// luck, and of three processes many are.
const LEAST_TO_STOP: usize = 5;

/// Measures each case in `plan.processes` fresh processes, all cases in a new random order each time; then goes on with
/// those that have fewer than five, or whose interval is wider than [`WANTED_WIDTH`], for as long as `patience` allows,
/// counted from the start. It stops for width and never for the result; the intervals are then a little too narrow,
/// which five processes keep small. `after` hears of every process that ends: all of its case so far, itself the last, or
/// why it failed.
pub fn measure(
    binary: &Path,
    cases: &[CaseSpec],
    plan: &Plan,
    patience: Duration,
    mut after: impl FnMut(&CaseSpec, Result<&[Process], &Error>),
) -> Vec<Result<Measured>> {
    let start = Instant::now();
    let mut all: Vec<Result<Measured>> =
        cases.iter().map(|case| Ok(Measured { case: case.clone(), processes: Vec::new() })).collect();
    let mut random = Stream::new(plan.seed, 0);
    for round in 0.. {
        let wanting = |outcome: &Result<Measured>| match outcome {
            Ok(measured) if round < plan.processes => measured.processes.len() <= round,
            Ok(measured) => start.elapsed() < patience && !is_precise(&measured.processes),
            Err(_) => false,
        };
        let mut open: Vec<usize> = (0..all.len()).filter(|at| wanting(&all[*at])).collect();
        if open.is_empty() {
            break;
        }
        while !open.is_empty() {
            let at = open.swap_remove(random.below(open.len()));
            match campaign::measure_process(binary, &cases[at], plan) {
                Ok(process) => all[at].as_mut().expect("failed cases are left out").processes.push(process),
                Err(error) => all[at] = Err(error),
            }
            after(&cases[at], all[at].as_ref().map(|measured| measured.processes.as_slice()));
            std::thread::sleep(plan.gap);
        }
    }
    all
}

/// Whether the interval of the time for each step is narrow enough, and of enough processes to be believed.
pub fn is_precise(processes: &[Process]) -> bool {
    let (_, interval) = campaign::typical_time(&processes.iter().map(Process::times).collect::<Vec<_>>());
    interval.filter(|_| processes.len() >= LEAST_TO_STOP).is_some_and(|interval| {
        let middle = (interval.low + interval.high) / 2.0;
        interval.width() <= WANTED_WIDTH * middle
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_processes_that_agree_by_luck_are_not_precise() {
        let same = |count| vec![Process::of_times([10.0, 10.01, 10.0].into_iter()); count];
        assert!(!is_precise(&same(3)) && is_precise(&same(5)));
    }

    #[test]
    fn a_case_that_cannot_be_measured_costs_itself_and_no_other() {
        let cases = ["a", "b"].map(|env| CaseSpec::rollout(env, 1));
        let mut heard = 0;
        let plan = Plan { gap: Duration::ZERO, ..Plan::default() };
        let outcomes = measure(Path::new("/nonexistent/phalanx"), &cases, &plan, Duration::ZERO, |_, _| heard += 1);
        assert!(outcomes.iter().all(Result::is_err));
        assert_eq!(heard, 2, "a case that has failed is not tried again");
    }
}
