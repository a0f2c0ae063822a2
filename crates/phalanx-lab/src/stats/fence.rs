//! The adaptive fence: how much a case usually differs from one accepted run to the next.

use serde::{Deserialize, Serialize};

use super::descriptive::quantile;

/// Differences that are looked at, the latest.
const LATEST: usize = 40;

/// Differences that are needed.
const LEAST: usize = 8;

/// A fence; values are |ln ratio| in %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fence {
    /// Lower quartile of the history.
    pub q1: f64,
    /// Upper quartile of the history.
    pub q3: f64,
    /// Differences beyond this are unusual.
    pub percent: f64,
}

impl Fence {
    /// The fence of a history of |ln ratio| in % between consecutive accepted runs, oldest first, and never below
    /// `floor`. `None` means insufficient history.
    pub fn of(history: &[f64], floor: f64) -> Option<Self> {
        if history.len() < LEAST {
            return None;
        }
        let latest = &history[history.len().saturating_sub(LATEST)..];
        let (q1, q3) = (quantile(latest, 0.25), quantile(latest, 0.75));
        Some(Self { q1, q3, percent: floor.max(q3 + 3.0 * (q3 - q1)) })
    }

    /// The fence as a margin for log ratios.
    pub fn theta(&self) -> f64 {
        self.percent / 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::assert_close;

    const HISTORY: [f64; 10] = [0.3, 0.5, 0.4, 0.9, 0.6, 0.2, 0.7, 0.5, 1.1, 0.4];

    #[test]
    fn ten_differences() {
        let fence = Fence::of(&HISTORY, 0.5).unwrap();
        assert_close(fence.q1, 0.4);
        assert_close(fence.q3, 0.675);
        assert_close(fence.percent, 1.5);
        assert_close(fence.theta(), 0.015);
        assert_eq!(Fence::of(&HISTORY, 2.0).unwrap().percent, 2.0);
    }

    #[test]
    fn only_the_latest_count_and_few_are_not_enough() {
        assert_eq!(Fence::of(&HISTORY[..7], 0.5), None);
        let long = [&[9.0; 30][..], &HISTORY.repeat(4)].concat();
        assert_eq!(Fence::of(&long, 0.5), Fence::of(&HISTORY.repeat(4), 0.5));
    }
}
