//! A run is a list of named steps; it goes on after a failure and counts at the end.

use std::process::ExitCode;
use std::time::{Duration, Instant};

struct Outcome {
    name: &'static str,
    elapsed: Duration,
    failure: Option<String>,
}

/// The steps run so far, of a number known beforehand.
pub(crate) struct Run {
    total: usize,
    outcomes: Vec<Outcome>,
}

impl Run {
    pub(crate) fn new(total: usize) -> Self {
        Self { total, outcomes: Vec::with_capacity(total) }
    }

    /// Runs one step, announcing it before and its result after.
    pub(crate) fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<(), String>) {
        let number = self.outcomes.len() + 1;
        println!("step {number} of {}: {name}", self.total);
        let start = Instant::now();
        let outcome = Outcome { name, failure: work().err(), elapsed: start.elapsed() };
        println!("step {number} of {}: {}\n", self.total, outcome.line());
        self.outcomes.push(outcome);
    }

    /// Prints the summary; the exit code says whether every step has passed.
    pub(crate) fn finish(self) -> ExitCode {
        for outcome in &self.outcomes {
            println!("{}", outcome.line());
        }
        let failed = self.outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
        println!("{} passed, {failed} failed", self.outcomes.len() - failed);
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl Outcome {
    fn line(&self) -> String {
        let seconds = self.elapsed.as_secs_f64();
        match &self.failure {
            None => format!("{} passed in {seconds:.1} s", self.name),
            Some(failure) => format!("{} FAILED in {seconds:.1} s: {failure}", self.name),
        }
    }
}
