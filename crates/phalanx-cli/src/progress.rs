//! Progress of long work: a bar on a terminal, plain lines when piped, nothing when quiet.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{HumanDuration, ProgressState};

use crate::text;

/// How often a piped run says how far it is.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often a bar is drawn anew at most.
const FRAME: Duration = Duration::from_millis(50);
/// The shortest bar that shows anything.
const SHORTEST_BAR: usize = 4;
/// Columns that stay free at the end of the line: for the `^C` that a terminal echoes there, twice. With it the line
/// would go on in a second row, and stay.
const FREE: usize = 4;

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
    Bar { line: Printer, next: Instant },
    Lines { next: Instant },
    Nothing,
}

impl Progress {
    pub(crate) fn new(what: impl Into<String>, total: u64, quiet: bool) -> Self {
        let start = Instant::now();
        let display = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Display::Nothing,
            (false, true) => Display::Bar { line: Printer::default(), next: start + PATIENCE },
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
        self.printer().line(text);
    }

    /// Prints lines as [`line`](Self::line) does, from wherever it is.
    pub(crate) fn printer(&self) -> Printer {
        match &self.display {
            Display::Bar { line, .. } => line.clone(),
            _ => Printer::default(),
        }
    }

    /// The work turned out to be of another size than it was taken for.
    pub(crate) fn resize(&mut self, total: u64) {
        self.total = total;
    }

    /// Says something beside the name of the work, while it goes on.
    pub(crate) fn tell(&mut self, news: &str) {
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
            Display::Bar { line, next } if now >= *next => {
                *next = now + FRAME;
                let begun = self.done > self.earlier;
                let estimate = if begun { Duration::from_secs_f64(left.min(1e9)) } else { Duration::ZERO };
                let left = time_left(estimate, self.done, Some(self.total));
                let tail = format!("{} {}/s  ETA {left}", text::short(rate), self.unit);
                let part = (self.done as f64 / self.total.max(1) as f64).min(1.0);
                let columns = usize::from(Term::stderr().size().1).saturating_sub(FREE);
                line.show(&bar_line(columns, &self.what, &self.news, part, &tail));
            }
            Display::Bar { .. } => {}
            Display::Lines { next } if now >= *next => {
                *next = now + LINE_INTERVAL;
                let line = self.line_after((now - self.start).as_secs_f64());
                say!("{line}");
            }
            Display::Lines { .. } => {}
        }
    }
}

/// The last line of a terminal, if one is shown there, and lines that are printed beside it.
///
/// Unlike the bars of `indicatif` it leaves the rest of its row alone, or what a terminal echoes would begin another.
#[derive(Clone, Default)]
pub(crate) struct Printer(Arc<Mutex<Option<String>>>);

impl Printer {
    /// Prints a line on standard error without tearing the one that is shown.
    pub(crate) fn line(&self, text: &str) {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_some() {
            draw("");
        }
        say!("{text}");
        if let Some(shown) = &*shown {
            draw(shown);
        }
    }

    /// Shows a line in place of the one before.
    fn show(&self, text: &str) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        draw(text);
        *shown = Some(text.to_owned());
    }

    /// Shows nothing any more.
    fn clear(&self) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            draw("");
        }
    }
}

/// Replaces the line that the cursor is in.
fn draw(text: &str) {
    let terminal = Term::buffered_stderr();
    // A display that cannot be written to is not worth more than this.
    let _ = terminal.clear_line().and_then(|()| terminal.write_str(text)).and_then(|()| terminal.flush());
}

/// The line of a terminal with so many columns: what fits beside the rate. The news are shortened before the name of the
/// work goes, and go one by one, the first first, before the bar does.
fn bar_line(columns: usize, what: &str, news: &str, part: f64, tail: &str) -> String {
    let tail = format!("{:.0}%  {tail}", (100.0 * part).floor());
    let short: Vec<String> = news.split(" | ").filter(|item| !item.is_empty()).map(shortened).collect();
    let joined = |head: &str, news: &str| {
        [head, news].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
    };
    let heads = [joined(what, news), joined(what, &short.join("  "))];
    let fewer = (0..=short.len()).map(|from| short[from..].join("  "));
    for head in heads.into_iter().chain(fewer) {
        let gap = usize::from(!head.is_empty());
        // Brackets, and a blank.
        let taken = head.chars().count() + gap + tail.chars().count() + 3;
        if let Some(bar) = columns.checked_sub(taken).filter(|bar| *bar >= SHORTEST_BAR) {
            let full = (part * bar as f64) as usize;
            return format!("{head}{:gap$}[{}{}] {tail}", "", "█".repeat(full), "░".repeat(bar - full));
        }
    }
    tail.chars().take(columns).collect()
}

/// `eval_return=195.5000` as `eval=195.5`.
fn shortened(news: &str) -> String {
    let number = news.split_once('=').and_then(|(name, value)| Some((name, value.parse::<f64>().ok()?)));
    let Some((name, value)) = number else { return news.to_owned() };
    let digits = match value.abs() {
        value if value >= 1e3 => 0,
        value if value >= 1e2 => 1,
        value if value >= 1e1 => 2,
        _ => 3,
    };
    format!("{}={value:.digits$}", name.trim_end_matches("_return"))
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
        if let Display::Bar { line, .. } = &self.display {
            line.clear();
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
    fn a_bar_fits_its_terminal() {
        let line =
            |columns: usize, news: &str| bar_line(columns, "dqn on CartPole-v1", news, 0.25, "12.3 k steps/s  ETA 5m");
        let news = "loss=0.0123 | train_return=22.5000 | eval_return=195.5000";
        assert_eq!(
            line(110, news).replace(['█', '░'], ""),
            "dqn on CartPole-v1  loss=0.012  train=22.50  eval=195.5 [] 25%  12.3 k steps/s  ETA 5m"
        );
        assert_eq!(line(76, news), "loss=0.012  train=22.50  eval=195.5 [██░░░░░░░░] 25%  12.3 k steps/s  ETA 5m");
        assert_eq!(line(60, news), "train=22.50  eval=195.5 [█░░░░░] 25%  12.3 k steps/s  ETA 5m");
        assert_eq!(line(76, ""), "dqn on CartPole-v1 [██████░░░░░░░░░░░░░░░░░░░░░] 25%  12.3 k steps/s  ETA 5m");
        assert!(line(160, news).starts_with("dqn on CartPole-v1  loss=0.0123 | train_return=22.5000 | eval"));
        for columns in 0..200 {
            for news in [news, "", "3 of 12 runs"] {
                assert!(line(columns, news).chars().count() <= columns, "{columns}: {}", line(columns, news));
            }
        }
        assert_eq!(line(36, news), "[█░░░░░] 25%  12.3 k steps/s  ETA 5m");
        assert_eq!(line(32, news), "25%  12.3 k steps/s  ETA 5m", "no room for a bar of any use");
    }

    #[test]
    fn work_that_has_just_begun_is_not_about_to_end() {
        assert_eq!(time_left(Duration::ZERO, 0, Some(10)), "?");
        assert_eq!(time_left(Duration::from_secs(3), 5, Some(10)), "3s");
        assert_eq!(time_left(Duration::ZERO, 10, Some(10)), "0s");
    }
}
