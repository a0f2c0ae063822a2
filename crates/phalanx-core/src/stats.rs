//! Statistics of finished episodes that do not depend on the order in which episodes finish.

use serde::{Deserialize, Serialize};

use crate::env::COUNTERS;
use crate::lanes::{BLOCK, LaneValue, Lanes, Line, Mask, Stored, Uint, f32x8};
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

    /// What came after an earlier moment of the same sums.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            episodes: self.episodes - earlier.episodes,
            length_sum: self.length_sum - earlier.length_sum,
            length_squares: self.length_squares - earlier.length_squares,
            return_sum: self.return_sum - earlier.return_sum,
            return_squares: self.return_squares - earlier.return_squares,
            cost_sum: self.cost_sum - earlier.cost_sum,
            cost_squares: self.cost_squares - earlier.cost_squares,
            violations: std::array::from_fn(|i| self.violations[i] - earlier.violations[i]),
            counts: std::array::from_fn(|i| self.counts[i] - earlier.counts[i]),
            scored: self.scored - earlier.scored,
            score_sums: std::array::from_fn(|i| self.score_sums[i] - earlier.score_sums[i]),
        }
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

    /// Adds how often each of some lanes (bit by bit) violated constraint `i`.
    pub(crate) fn violations<R: Lanes>(&mut self, lanes: u32, i: usize, counts: R::Uint) {
        self.stats.violations[i] += sum_of::<R>(lanes, counts);
    }

    /// Adds what the environments of some lanes (bit by bit) counted.
    pub(crate) fn counts<R: Lanes>(&mut self, lanes: u32, counts: [R::Uint; COUNTERS]) {
        self.stats.add_counts(counts.map(|counts| sum_of::<R>(lanes, counts)));
    }

    #[inline(never)]
    fn count(&mut self) {
        // Local sums stay in registers; for all sixteen lanes at once there would not be enough of them.
        let mut stats = EpisodeStats::default();
        for first in (0..BLOCK).step_by(f32x8::LANES) {
            let mut columns = Columns::<f32x8>::new();
            for i in 0..self.noted {
                let mut lanes = self.lanes[i] >> first & 0xff;
                let (returns, lengths, costs) = (&self.returns[i], &self.lengths[i], &self.costs[i]);
                let (of_lengths, of_costs) = (Stored::load(lengths, first), Stored::load(costs, first));
                if columns.add(Mask::from_bits(lanes), f32x8::load(returns, first), of_lengths, of_costs) {
                    continue;
                }
                while lanes != 0 {
                    let lane = (first + lanes.trailing_zeros() as usize) % BLOCK;
                    stats.add(f32::from_bits(returns.0[lane]), lengths.0[lane], costs.0[lane]);
                    lanes &= lanes - 1;
                }
            }
            columns.add_to(&mut stats);
        }
        self.stats.merge(&stats);
        self.noted = 0;
    }
}

/// The sum over some lanes, bit by bit.
fn sum_of<R: Lanes>(lanes: u32, counts: R::Uint) -> u64 {
    (0..R::LANES).filter(|lane| lanes >> lane & 1 == 1).map(|lane| u64::from(counts.lane(lane))).sum()
}

/// Sums over the notes of a [`Tally`], all lanes at a time: in 32 bits, hence for small values only.
///
/// Where some lane ends in every step, counting one episode after the other takes a fifth of the time.
struct Columns<R: Lanes> {
    episodes: R::Uint,
    length_sum: R::Uint,
    length_squares: R::Uint,
    /// In two's complement.
    return_sum: R::Uint,
    /// With a return of `2^13 a + b`, the sums of `a²`, `ab` and `b²`.
    return_squares: [R::Uint; 3],
    cost_sum: R::Uint,
    cost_squares: R::Uint,
}

impl<R: Lanes> Columns<R> {
    /// All lengths and costs are below this, all returns in fixed point below its square.
    const LIMIT: u32 = 1 << Self::LIMIT_BITS;
    const LIMIT_BITS: u32 = 13;

    fn new() -> Self {
        // Sums of squares, and sums of returns with their signs.
        const { assert!(Tally::CAPACITY as u64 * (Self::LIMIT as u64).pow(2) <= 1 << 31) };
        let zero = R::Uint::splat(0);
        Self {
            episodes: zero,
            length_sum: zero,
            length_squares: zero,
            return_sum: zero,
            return_squares: [zero; 3],
            cost_sum: zero,
            cost_squares: zero,
        }
    }

    /// Adds the episodes of some lanes; adds nothing and answers `false` if one is too large.
    #[inline(always)]
    fn add(&mut self, lanes: R::Mask, episode_return: R, length: R::Uint, cost: R::Uint) -> bool {
        let (episode_return, length, cost) = (episode_return.keep(lanes), length.keep(lanes), cost.keep(lanes));
        // Exact, because the factor is a power of two: the same as in double precision.
        let fixed = (episode_return * R::splat(FIXED_POINT)).abs().round();
        let limit = R::Uint::splat(Self::LIMIT);
        let small = fixed.lt(R::splat(f64::from(Self::LIMIT).powi(2))) & (length | cost).lt(limit);
        if !small.all() {
            return false;
        }
        let fixed = fixed.to_uint();
        let (a, b) = (fixed.shr(Self::LIMIT_BITS), fixed & R::Uint::splat(Self::LIMIT - 1));
        let negative = episode_return.lt(R::splat(0.0));
        let signed = <R::Uint as LaneValue>::select(negative, R::Uint::splat(0).wrapping_sub(fixed), fixed);
        let add = |sum: &mut R::Uint, value| *sum = sum.wrapping_add(value);
        add(&mut self.episodes, R::Uint::masked(lanes, 1));
        add(&mut self.length_sum, length);
        add(&mut self.length_squares, length.mul_low(length));
        add(&mut self.return_sum, signed);
        add(&mut self.return_squares[0], a.mul_low(a));
        add(&mut self.return_squares[1], a.mul_low(b));
        add(&mut self.return_squares[2], b.mul_low(b));
        add(&mut self.cost_sum, cost);
        add(&mut self.cost_squares, cost.mul_low(cost));
        true
    }

    fn add_to(&self, stats: &mut EpisodeStats) {
        let sum = |values: R::Uint| (0..R::LANES).map(|lane| u64::from(values.lane(lane))).sum::<u64>();
        stats.episodes += sum(self.episodes);
        stats.length_sum += sum(self.length_sum);
        stats.length_squares += u128::from(sum(self.length_squares));
        stats.return_sum += (0..R::LANES).map(|lane| i128::from(self.return_sum.lane(lane) as i32)).sum::<i128>();
        let [aa, ab, bb] = self.return_squares.map(|squares| u128::from(sum(squares)));
        let squares = (aa << (2 * Self::LIMIT_BITS)) + (ab << (Self::LIMIT_BITS + 1)) + bb;
        stats.return_squares = stats.return_squares.saturating_add(squares);
        stats.cost_sum += sum(self.cost_sum);
        stats.cost_squares += u128::from(sum(self.cost_squares));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::{f32x16, u32x16};

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

    /// Counting lanes at a time gives the very sums of counting one by one, on both sides of every limit.
    #[test]
    fn a_tally_counts_as_if_one_by_one() {
        let returns = [0.0, -1.0, 0.3, 1_023.999, 1_024.0, -1_023.999, -1_024.0, 3.0e9, 7.6e-6, 2.3e-5, f32::NAN];
        let lengths = [1, 500, Columns::<f32x8>::LIMIT - 1, Columns::<f32x8>::LIMIT, u32::MAX];
        let pick = |seed: usize, n: usize| (seed.wrapping_mul(0x9e37_79b9) >> 16) % n;
        for notes in [1, 31, 32, 33, 200] {
            // With small values only, too, so that the sums get as large as they can.
            for kinds in [(3, 3), (returns.len(), lengths.len())] {
                let (mut tally, mut one_by_one) = (Tally::new(), EpisodeStats::default());
                for note in 0..notes {
                    tally.room();
                    let at = |lane: usize| note * 64 + lane;
                    let value = |lane| if kinds.0 == 3 { returns[3] } else { returns[pick(at(lane), kinds.0)] };
                    let length = |lane| if kinds.1 == 3 { lengths[2] } else { lengths[pick(at(lane) + 16, kinds.1)] };
                    let cost = |lane| length(lane + 16);
                    let lanes = if note % 2 == 0 { 0xffff } else { pick(note, 1 << 16) as u32 };
                    tally.cost::<f32x16>(u32x16::from_lanes(|lane| f64::from(cost(lane))));
                    tally.note(
                        lanes,
                        f32x16::from_lanes(|lane| f64::from(value(lane))),
                        u32x16::from_lanes(|lane| f64::from(length(lane))),
                    );
                    for lane in (0..BLOCK).filter(|lane| lanes >> lane & 1 == 1) {
                        one_by_one.add(value(lane), length(lane), cost(lane));
                    }
                }
                assert_eq!(tally.into_stats(), one_by_one, "{notes} notes");
            }
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
        assert_eq!(twice.since(&stats), stats);
    }
}
