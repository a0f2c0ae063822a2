//! The direction of a history of throughputs.

use serde::{Deserialize, Serialize};

use super::descriptive::mean;
use super::regression::Change;

/// Results that are recent.
const RECENT: usize = 3;

/// Where a history leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Recent results are higher.
    Improving,
    /// Recent results are lower.
    Declining,
    /// Recent results differ by less than the noise.
    Stable,
    /// There are no results before the recent ones.
    InsufficientHistory,
}

impl Direction {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Improving => "improving",
            Self::Declining => "declining",
            Self::Stable => "stable",
            Self::InsufficientHistory => "insufficient history",
        }
    }
}

/// Recent results against all earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// The direction.
    pub trend: Direction,
    /// Change of the recent mean; `None` without an earlier mean other than 0.
    pub change_percent: Option<f64>,
    /// Mean of the last three results; `None` if there are fewer.
    pub recent_avg: Option<f64>,
    /// Mean of all earlier results; `None` if there are none.
    pub historical_avg: Option<f64>,
}

impl Trend {
    /// The trend of throughputs, oldest first.
    pub fn of(results: &[f64], noise_percent: f64) -> Self {
        let (earlier, recent) = results.split_at(results.len().saturating_sub(RECENT));
        let recent_avg = (recent.len() == RECENT).then(|| mean(recent));
        let historical_avg = (!earlier.is_empty()).then(|| mean(earlier));
        let change = historical_avg.zip(recent_avg).and_then(|(before, now)| Change::between(before, now));
        let change_percent = change.map(|change| change.percent);
        let trend = match change_percent {
            None => Direction::InsufficientHistory,
            // No change at all is stable even on a machine without noise.
            Some(change) if change == 0.0 || change.abs() < noise_percent => Direction::Stable,
            Some(change) if change > 0.0 => Direction::Improving,
            Some(_) => Direction::Declining,
        };
        Self { trend, change_percent, recent_avg, historical_avg }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::assert_close;

    #[test]
    fn three_results_after_three_others() {
        let trend = Trend::of(&[100.0, 100.0, 100.0, 110.0, 110.0, 110.0], 2.0);
        assert_eq!(trend.trend, Direction::Improving);
        assert_close(trend.change_percent.unwrap(), 10.0);
        assert_eq!((trend.recent_avg, trend.historical_avg), (Some(110.0), Some(100.0)));
        assert_eq!(Trend::of(&[110.0, 100.0, 100.0, 100.0], 2.0).trend, Direction::Declining);
        assert_eq!(Trend::of(&[100.0, 101.0, 101.0, 101.0], 2.0).trend, Direction::Stable);
        assert_eq!(Trend::of(&[100.0; 5], 0.0).trend, Direction::Stable);
    }

    #[test]
    fn three_results_are_no_history() {
        for results in [&[][..], &[100.0, 110.0], &[100.0, 110.0, 120.0], &[0.0, 1.0, 1.0, 1.0]] {
            let trend = Trend::of(results, 2.0);
            assert_eq!((trend.trend, trend.change_percent), (Direction::InsufficientHistory, None));
        }
    }
}
