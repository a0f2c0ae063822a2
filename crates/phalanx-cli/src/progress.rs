//! Progress of long work: a bar on a terminal, plain lines when piped, nothing when quiet.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::text;

/// How often a piped run says how far it is.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// Progress in environment steps, or in something else that is counted.
pub(crate) struct Progress {
    what: String,
    /// What there is to say beside.
    news: String,
    unit: &'static str,
    total: u64,
    done: u64,
    /// What was done before `start`, by an earlier run.
    earlier: u64,
    start: Instant,
    display: Display,
}

enum Display {
    Bar(Option<ProgressBar>),
    Lines { next: Instant },
    Nothing,
}

impl Progress {
    pub(crate) fn new(what: impl Into<String>, total: u64, quiet: bool) -> Self {
        let start = Instant::now();
        let display = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Display::Nothing,
            (false, true) => Display::Bar(None),
            (false, false) => Display::Lines { next: start + LINE_INTERVAL },
        };
        Self { what: what.into(), news: String::new(), unit: "steps", total, done: 0, earlier: 0, start, display }
    }

    /// Counts something else than steps.
    pub(crate) fn counting(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// Goes on where an earlier run has stopped, whose time does not count.
    pub(crate) fn go_on_from(&mut self, done: u64) {
        (self.done, self.earlier, self.start) = (done, done, Instant::now());
    }

    /// Prints a line on standard error without tearing the bar.
    pub(crate) fn line(&self, text: &str) {
        match &self.display {
            Display::Bar(Some(bar)) => bar.suspend(|| say!("{text}")),
            _ => say!("{text}"),
        }
    }

    /// The work turned out to be of another size than it was taken for.
    pub(crate) fn resize(&mut self, total: u64) {
        if std::mem::replace(&mut self.total, total) != total
            && let Display::Bar(Some(bar)) = &self.display
        {
            bar.set_length(total);
        }
    }

    /// Says something beside the name of the work, while it goes on.
    pub(crate) fn tell(&mut self, news: &str) {
        if let Display::Bar(Some(bar)) = &self.display {
            bar.set_message(format!("{}  {news}", self.what));
        }
        news.clone_into(&mut self.news);
    }

    /// Steps a second, and the seconds that are left at this rate, after so many seconds.
    fn rate_and_left(&self, seconds: f64) -> (f64, f64) {
        let rate = (self.done - self.earlier) as f64 / seconds.max(1e-9);
        (rate, self.total.saturating_sub(self.done) as f64 / rate.max(1e-9))
    }

    /// The line of a piped run after so many seconds.
    fn line_after(&self, seconds: f64) -> String {
        let (rate, left) = self.rate_and_left(seconds);
        let percent = 100.0 * self.done as f64 / self.total as f64;
        let news = if self.news.is_empty() { String::new() } else { format!(" | {}", self.news) };
        let (what, unit, rate) = (&self.what, self.unit, text::short(rate));
        let speed = if unit == "steps" { format!("SPS={rate}") } else { format!("{rate} {unit}/s") };
        let unit = if unit == "steps" { "Step" } else { unit };
        format!("{what}: {unit} {}/{} ({percent:.0}%){news} | {speed} | {left:.0} s left", self.done, self.total)
    }

    /// Reports that `steps` more have been made.
    pub(crate) fn advance(&mut self, steps: u64) {
        self.done += steps;
        let now = Instant::now();
        let (rate, left) = self.rate_and_left((now - self.start).as_secs_f64());
        match &mut self.display {
            Display::Nothing => {}
            Display::Bar(bar) => {
                if bar.is_none() && now - self.start > PATIENCE {
                    let style = ProgressStyle::with_template("{msg} [{wide_bar}] {percent}%  {prefix}");
                    let new = ProgressBar::new(self.total).with_message(self.what.clone());
                    *bar = Some(new.with_style(style.expect("the template is valid")));
                }
                if let Some(bar) = bar {
                    // Not the bar's own rate, which takes what an earlier run has done for very fast.
                    let begun = self.done > self.earlier;
                    let estimate = if begun { Duration::from_secs_f64(left.min(1e9)) } else { Duration::ZERO };
                    let left = time_left(estimate, self.done, Some(self.total));
                    bar.set_prefix(format!("{} {}/s  ETA {left}", text::short(rate), self.unit));
                    bar.set_position(self.done);
                }
            }
            Display::Lines { next } if now >= *next => {
                *next = now + LINE_INTERVAL;
                let line = self.line_after((now - self.start).as_secs_f64());
                say!("{line}");
            }
            Display::Lines { .. } => {}
        }
    }
}

/// The key `eta` of a bar.
pub(crate) fn eta(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    let left = time_left(state.eta(), state.pos(), state.len());
    // A display that cannot be written to is not worth a panic.
    let _ = out.write_str(&left);
}

/// The time that work still takes; of work that has just begun, whose rate is unknown, it would be none.
fn time_left(estimate: Duration, done: u64, total: Option<u64>) -> String {
    match estimate.is_zero() && total.is_none_or(|total| done < total) {
        true => "?".to_owned(),
        false => format!("{:#}", HumanDuration(estimate)),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Display::Bar(Some(bar)) = &self.display {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The four things that a line must tell: how fast, how well, at which loss, and how long still.
    #[test]
    fn a_line_tells_rate_news_and_time_left() {
        let mut progress = Progress::new("ppo on CartPole-v1", 4_000, true);
        progress.tell("loss=0.2500 | eval_return=195.5000");
        progress.advance(1_000);
        assert_eq!(
            progress.line_after(2.0),
            "ppo on CartPole-v1: Step 1000/4000 (25%) | loss=0.2500 | eval_return=195.5000 | SPS=500 | 6 s left"
        );
        // Of a run that goes on only what was made since counts for the rate.
        let mut resumed = Progress::new("dqn", 4_000, true);
        resumed.go_on_from(3_000);
        resumed.advance(100);
        assert_eq!(resumed.line_after(1.0), "dqn: Step 3100/4000 (78%) | SPS=100 | 9 s left");
    }

    #[test]
    fn work_that_has_just_begun_is_not_about_to_end() {
        assert_eq!(time_left(Duration::ZERO, 0, Some(10)), "?");
        assert_eq!(time_left(Duration::from_secs(3), 5, Some(10)), "3s");
        assert_eq!(time_left(Duration::ZERO, 10, Some(10)), "0s");
    }
}
