//! Progress of measurements: so many of so many processes are done. A bar on a terminal, plain lines when piped.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::progress::eta;

/// How often a piped run says how far it is.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Counts what is done.
pub(crate) struct Tally {
    unit: &'static str,
    total: u64,
    done: u64,
    display: Display,
}

enum Display {
    Bar(ProgressBar),
    Lines { next: Instant },
    Nothing,
}

impl Tally {
    pub(crate) fn new(unit: &'static str, total: usize, quiet: bool) -> Self {
        let display = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Display::Nothing,
            (false, true) => {
                let template = format!("[{{wide_bar}}] {{pos}} of {{len}} {unit}  ETA {{eta}}  {{msg}}");
                let style =
                    ProgressStyle::with_template(&template).expect("the template is valid").with_key("eta", eta);
                Display::Bar(ProgressBar::new(total as u64).with_style(style))
            }
            (false, false) => Display::Lines { next: Instant::now() + LINE_INTERVAL },
        };
        Self { unit, total: total as u64, done: 0, display }
    }

    /// Prints a line on standard error without tearing the bar.
    pub(crate) fn line(&self, text: &str) {
        match &self.display {
            Display::Bar(bar) => bar.suspend(|| say!("{text}")),
            _ => say!("{text}"),
        }
    }

    /// One more is done. There may be more than were announced.
    pub(crate) fn advance(&mut self, what: &str) {
        self.done += 1;
        self.total = self.total.max(self.done);
        match &mut self.display {
            Display::Nothing => {}
            Display::Bar(bar) => {
                bar.set_length(self.total);
                bar.set_position(self.done);
                bar.set_message(what.to_owned());
            }
            Display::Lines { next } if Instant::now() >= *next => {
                *next = Instant::now() + LINE_INTERVAL;
                say!("{} of {} {}: {what}", self.done, self.total, self.unit);
            }
            Display::Lines { .. } => {}
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}
