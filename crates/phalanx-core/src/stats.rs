//! Statistics of finished episodes that do not depend on the order in which episodes finish.

use serde::{Deserialize, Serialize};

use crate::env::COUNTERS;
use crate::lanes::{BLOCK, Lanes, Line, Stored, Uint};
use crate::safety::MAX_CONSTRAINTS;

/// Returns are summed in fixed point (2^-16), because integer sums are associative: the statistics of a
/// run have the same bits for every chunk size, thread count and lane width.
const FIXED_POINT: f64 = 65_536.0;

/// Sums over finished episodes, and over the steps of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpisodeStats {
    episodes: u64,
    length_sum: u64,
    length_squares: u128,
    return_sum: i128,
    return_squares: u128,
    cost_sum: u64,
    cost_squares: u128,
    /// Steps that violated each constraint, of unfinished episodes too.
    violations: [u64; MAX_CONSTRAINTS],
    /// What the environment counted, in unfinished episodes too.
    counts: [u64; COUNTERS],
    /// Episodes that were scored; some have nothing to be scored by.
    scored: u64,
    /// What these scored, in fixed point.
    score_sums: [u64; COUNTERS],
}

#[inline(always)]
fn fixed_point(value: f32) -> i64 {
    // The cast limits what does not fit and makes NaN 0.
    (f64::from(value) * FIXED_POINT).round_ties_even() as i64
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
    pub fn add(&mut self, episode_return: f32, length: u32, cost: u32) {
        let fixed = fixed_point(episode_return);
        self.episodes += 1;
        self.length_sum += u64::from(length);
        self.length_squares += u128::from(u64::from(length) * u64::from(length));
        self.return_sum += i128::from(fixed);
        self.return_squares = self.return_squares.saturating_add((i128::from(fixed) * i128::from(fixed)) as u128);
        self.cost_sum += u64::from(cost);
        self.cost_squares += u128::from(u64::from(cost) * u64::from(cost));
    }

    /// Adds the constraints that one step of one environment violated, a bit each.
    #[inline(always)]
    pub(crate) fn add_violations(&mut self, mut violated: u32) {
        while violated != 0 {
            self.violations[violated.trailing_zeros() as usize] += 1;
            violated &= violated - 1;
        }
    }

    /// Adds what environments counted.
    #[inline(always)]
    pub(crate) fn add_counts(&mut self, counts: [u64; COUNTERS]) {
        self.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }

    /// Adds what one finished episode scored.
    pub(crate) fn add_scores(&mut self, scores: [f32; COUNTERS]) {
        self.scored += 1;
        self.score_sums.iter_mut().zip(scores).for_each(|(sum, score)| *sum += fixed_point(score).max(0) as u64);
    }

    /// Adds the episodes of another set.
    pub fn merge(&mut self, other: &Self) {
        self.episodes += other.episodes;
        self.length_sum += other.length_sum;
        self.length_squares += other.length_squares;
        self.return_sum += other.return_sum;
        self.return_squares = self.return_squares.saturating_add(other.return_squares);
        self.cost_sum += other.cost_sum;
        self.cost_squares += other.cost_squares;
        self.violations.iter_mut().zip(other.violations).for_each(|(sum, violations)| *sum += violations);
        self.add_counts(other.counts);
        self.scored += other.scored;
        self.score_sums.iter_mut().zip(other.score_sums).for_each(|(sum, scores)| *sum += scores);
    }

    /// Number of finished episodes.
    pub fn episodes(&self) -> u64 {
        self.episodes
    }

    /// Mean and spread of the return; `None` before the first episode has finished.
    pub fn returns(&self) -> Option<MeanStd> {
        self.mean_std(self.return_sum as f64 / FIXED_POINT, self.return_squares as f64 / (FIXED_POINT * FIXED_POINT))
    }

    /// Mean and spread of the length; `None` before the first episode has finished.
    pub fn lengths(&self) -> Option<MeanStd> {
        self.mean_std(self.length_sum as f64, self.length_squares as f64)
    }

    /// Mean and spread of the cost; `None` before the first episode has finished.
    pub fn costs(&self) -> Option<MeanStd> {
        self.mean_std(self.cost_sum as f64, self.cost_squares as f64)
    }

    /// Steps that violated each constraint, in the order of
    /// [`EnvSpec::constraints`](crate::space::EnvSpec::constraints).
    pub fn violations(&self) -> &[u64; MAX_CONSTRAINTS] {
        &self.violations
    }

    /// What the environments counted, in the order of [`EnvSpec::counters`](crate::space::EnvSpec::counters).
    pub fn counts(&self) -> &[u64; COUNTERS] {
        &self.counts
    }

    /// Number of finished episodes that were scored.
    pub fn scored(&self) -> u64 {
        self.scored
    }

    /// Means over scored episodes of what these scored, in the order of
    /// [`EnvSpec::scores`](crate::space::EnvSpec::scores); `None` before the first of them has finished.
    pub fn scores(&self) -> Option<[f64; COUNTERS]> {
        (self.scored > 0).then(|| self.score_sums.map(|sum| sum as f64 / FIXED_POINT / self.scored as f64))
    }

    fn mean_std(&self, sum: f64, squares: f64) -> Option<MeanStd> {
        let n = self.episodes as f64;
        (self.episodes > 0).then(|| {
            let mean = sum / n;
            MeanStd { mean, std: (squares / n - mean * mean).max(0.0).sqrt() }
        })
    }
}

/// Episodes that end inside a hot loop: noted there lanes at a time, counted later.
///
/// Counting lane by lane inside the loop would cost a tenth of a step.
#[derive(Debug)]
pub(crate) struct Tally {
    stats: EpisodeStats,
    noted: usize,
    lanes: [u32; Self::CAPACITY],
    returns: [Line; Self::CAPACITY],
    lengths: [Line; Self::CAPACITY],
    /// Zero unless costs are noted.
    costs: [Line; Self::CAPACITY],
}

impl Tally {
    const CAPACITY: usize = 32;

    pub(crate) fn new() -> Self {
        let lines = [Line::default(); Self::CAPACITY];
        Self {
            stats: EpisodeStats::default(),
            noted: 0,
            lanes: [0; Self::CAPACITY],
            returns: lines,
            lengths: lines,
            costs: lines,
        }
    }

    /// All episodes noted so far.
    pub(crate) fn into_stats(mut self) -> EpisodeStats {
        self.count();
        self.stats
    }

    /// Makes room and answers for how many notes there is.
    pub(crate) fn room(&mut self) -> usize {
        if self.noted == Self::CAPACITY {
            self.count();
        }
        Self::CAPACITY - self.noted
    }

    /// Notes the episodes that end in some lanes (bit by bit), which may be none. There must be room.
    #[inline(always)]
    pub(crate) fn note<R: Lanes>(&mut self, lanes: u32, episode_return: R, length: R::Uint) {
        // The remainder proves the index to the compiler; there is room, so it never changes it.
        let at = self.noted % Self::CAPACITY;
        self.lanes[at] = lanes;
        episode_return.store(&mut self.returns[at], 0);
        length.store(&mut self.lengths[at], 0);
        // A note without an end is overwritten by the next.
        self.noted = at + usize::from(lanes != 0);
    }

    /// Says what the episodes cost that the next [`Tally::note`] notes.
    #[inline(always)]
    pub(crate) fn cost<R: Lanes>(&mut self, cost: R::Uint) {
        cost.store(&mut self.costs[self.noted % Self::CAPACITY], 0);
    }

    /// Counts the violation of constraint `i` in some lanes (bit by bit).
    #[inline(always)]
    pub(crate) fn violations(&mut self, i: usize, lanes: u32) {
        self.stats.violations[i % MAX_CONSTRAINTS] += u64::from(lanes.count_ones());
    }

    /// Adds what the environments of some lanes (bit by bit) counted.
    pub(crate) fn counts<R: Lanes>(&mut self, lanes: u32, counts: [R::Uint; COUNTERS]) {
        let exist = (0..R::LANES).filter(|lane| lanes >> lane & 1 == 1);
        self.stats.add_counts(counts.map(|count| exist.clone().map(|lane| u64::from(count.lane(lane))).sum()));
    }

    #[inline(never)]
    fn count(&mut self) {
        // Local sums stay in registers.
        let mut stats = EpisodeStats::default();
        for i in 0..self.noted {
            let mut lanes = self.lanes[i];
            while lanes != 0 {
                let lane = lanes.trailing_zeros() as usize % BLOCK;
                stats.add(f32::from_bits(self.returns[i].0[lane]), self.lengths[i].0[lane], self.costs[i].0[lane]);
                lanes &= lanes - 1;
            }
        }
        self.stats.merge(&stats);
        self.noted = 0;
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
            stats.add(episode_return, length, length / 10);
        }
        let mut twice = stats;
        twice.merge(&stats);
        for stats in [stats, twice] {
            let (returns, lengths) = (stats.returns().unwrap(), stats.lengths().unwrap());
            assert_eq!((returns.mean, lengths.mean, stats.costs().unwrap().mean), (0.0, 25.0, 2.5));
            assert!((returns.std - 12.5_f64.sqrt()).abs() < 1e-12, "{returns:?}");
            assert!((lengths.std - 125_f64.sqrt()).abs() < 1e-12, "{lengths:?}");
        }
    }

    #[test]
    fn only_scored_episodes_have_a_mean_score() {
        let mut stats = EpisodeStats::default();
        (0..5).for_each(|_| stats.add(0.0, 1, 0));
        stats.add_counts([7, 0]);
        assert_eq!((stats.episodes(), stats.scored(), stats.scores()), (5, 0, None));
        stats.add_scores([1.0, 0.5]);
        stats.add_scores([0.0, 0.25]);
        let mut twice = stats;
        twice.merge(&stats);
        assert_eq!((twice.scored(), twice.scores(), twice.counts()), (4, Some([0.5, 0.375]), &[14, 0]));
    }
}
