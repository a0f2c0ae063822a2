//! Statistics of finished episodes that do not depend on the order in which episodes finish.

use serde::{Deserialize, Serialize};

/// Returns are summed in fixed point (2^-16), because integer sums are associative: the statistics of a
/// run have the same bits for every chunk size, thread count and lane width.
const FIXED_POINT: f64 = 65_536.0;

/// Sums over finished episodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpisodeStats {
    episodes: u64,
    length_sum: u64,
    length_squares: u128,
    return_sum: i128,
    return_squares: u128,
}

/// A mean and the spread of single values around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeanStd {
    /// The mean.
    pub mean: f64,
    /// The (population) standard deviation.
    pub std: f64,
}

impl EpisodeStats {
    /// Adds one finished episode.
    #[inline(always)]
    pub fn add(&mut self, episode_return: f32, length: u32) {
        let fixed = (f64::from(episode_return) * FIXED_POINT) as i64;
        self.episodes += 1;
        self.length_sum += u64::from(length);
        self.length_squares += u128::from(length) * u128::from(length);
        self.return_sum += i128::from(fixed);
        self.return_squares += (i128::from(fixed) * i128::from(fixed)) as u128;
    }

    /// Adds the episodes of another set.
    pub fn merge(&mut self, other: &Self) {
        self.episodes += other.episodes;
        self.length_sum += other.length_sum;
        self.length_squares += other.length_squares;
        self.return_sum += other.return_sum;
        self.return_squares += other.return_squares;
    }

    /// Number of finished episodes.
    pub fn episodes(&self) -> u64 {
        self.episodes
    }

    /// Mean and spread of the return; `None` before the first episode has finished.
    pub fn returns(&self) -> Option<MeanStd> {
        self.mean_std(
            self.return_sum as f64 / FIXED_POINT,
            self.return_squares as f64 / (FIXED_POINT * FIXED_POINT),
        )
    }

    /// Mean and spread of the length; `None` before the first episode has finished.
    pub fn lengths(&self) -> Option<MeanStd> {
        self.mean_std(self.length_sum as f64, self.length_squares as f64)
    }

    fn mean_std(&self, sum: f64, squares: f64) -> Option<MeanStd> {
        let n = self.episodes as f64;
        (self.episodes > 0).then(|| {
            let mean = sum / n;
            MeanStd {
                mean,
                std: (squares / n - mean * mean).max(0.0).sqrt(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_spread_of_known_episodes() {
        let mut stats = EpisodeStats::default();
        assert_eq!(stats.returns(), None);
        for (episode_return, length) in [(1.0, 10), (2.0, 20), (3.0, 30), (-6.0, 40)] {
            stats.add(episode_return, length);
        }
        let mut twice = stats;
        twice.merge(&stats);
        for stats in [stats, twice] {
            let (returns, lengths) = (stats.returns().unwrap(), stats.lengths().unwrap());
            assert_eq!((returns.mean, lengths.mean), (0.0, 25.0));
            assert!((returns.std - 12.5_f64.sqrt()).abs() < 1e-12, "{returns:?}");
            assert!((lengths.std - 125_f64.sqrt()).abs() < 1e-12, "{lengths:?}");
        }
    }
}
