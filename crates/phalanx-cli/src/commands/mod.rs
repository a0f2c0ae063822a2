//! One module for each command.

pub(crate) mod autotune;
pub(crate) mod bench;
pub(crate) mod cache;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod demo_performance;
pub(crate) mod devices;
pub(crate) mod envs;
pub(crate) mod evaluate;
pub(crate) mod play;
pub(crate) mod plot;
pub(crate) mod render;
pub(crate) mod rollout;
pub(crate) mod sweep;
pub(crate) mod tasks;
pub(crate) mod trace;
pub(crate) mod train;

use std::io::Write;

use phalanx_core::space::EnvSpec;
use serde::Serialize;

use crate::failure::Failure;
use crate::text;

/// Prints one JSON document on standard output.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document).expect("documents are plain data");
    print(&format!("{text}\n"))
}

/// Tells what a user should know about how an environment was set up.
pub(crate) fn print_notes(spec: &EnvSpec) {
    spec.notes.iter().for_each(|note| say!("warning: {note}"));
}

/// Tells of steps that a limit has spoilt: a table of means would not show it.
pub(crate) fn warn_of_capped_steps(capped: u64) {
    if capped > 0 {
        let steps = if capped == 1 { "1 step has".to_owned() } else { format!("{} steps have", text::grouped(capped)) };
        say!(
            "warning: {steps} reached max_reactions_per_step, so that reactions were put off to later steps (allow more of \
             them), or 2^24 molecules, which are the most that can be counted"
        );
    }
}

/// Ends a command that has printed what it found. A reader who has gone must not turn a bad verdict into success.
pub(crate) fn concluded(printed: Result<(), Failure>, exit_code: u8) -> Result<(), Failure> {
    match printed {
        Ok(()) | Err(Failure::ClosedPipe) if exit_code != 0 => Err(Failure::Verdict(exit_code)),
        printed => printed,
    }
}

/// Prints on standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_hides_no_verdict() {
        assert!(matches!(concluded(Err(Failure::ClosedPipe), 10), Err(Failure::Verdict(10))));
        assert!(matches!(concluded(Ok(()), 10), Err(Failure::Verdict(10))));
        assert!(matches!(concluded(Err(Failure::ClosedPipe), 0), Err(Failure::ClosedPipe)));
        assert!(concluded(Ok(()), 0).is_ok());
        let full = Failure::Write { what: "it".to_owned(), error: std::io::ErrorKind::StorageFull.into() };
        assert!(matches!(concluded(Err(full), 10), Err(Failure::Write { .. })));
    }
}
