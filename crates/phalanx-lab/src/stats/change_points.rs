//! Change points in a history: E-divisive with a t-test.
//!
//! Windows on a fixed grid are searched one by one, then the finds of all windows are merged. Because window
//! starts do not depend on earlier finds, a full window never changes again: a [`Detector`] keeps what it found there
//! and searches the last window only when a value is appended.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::descriptive::Moments;
use super::interval::{CONFIDENCE, Interval, TTest, pooled_t_test};

/// Values that must follow a change point before it is more than provisional.
const CONFIRMING_VALUES: usize = 5;

/// How the detector searches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Values per window. Default 30: selection among more splits makes nominal p far too small.
    pub window: usize,
    /// Distance between the starts of windows, at most the window. Default 15, so every value is inside one.
    pub stride: usize,
    /// Least number of values of a segment, at least 2. Default 3.
    pub min_segment: usize,
    /// Largest p at which a window is split. Default 1e-3.
    pub p_weak: f64,
    /// Largest p between two final segments. Default 5e-4: the windows of a long history are many tests, and with 1e-3
    /// 3.1 % of series of 150 values without a change show one, with 5e-4 1.9 %. A shift of two standard deviations is
    /// found as often, in 89 %.
    pub p_strong: f64,
    /// Least difference between the means of two final segments. Default 0; set it to the detectable effect.
    pub min_change: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { window: 30, stride: 15, min_segment: 3, p_weak: 1e-3, p_strong: 5e-4, min_change: 0.0 }
    }
}

impl Settings {
    /// Settings for one series that is searched as a whole: one window is no many tests, and 1.4 % of series of 30
    /// values without a change show one.
    pub fn whole(length: usize, min_change: f64) -> Self {
        Self { window: length.max(1), stride: length.max(1), p_strong: 1e-3, min_change, ..Self::default() }
    }

    #[track_caller]
    fn check(&self) {
        assert!(
            (1..=self.window).contains(&self.stride) && self.min_segment >= 2,
            "stride {} must be within 1 to the window {}, segments of {} at least 2",
            self.stride,
            self.window,
            self.min_segment
        );
    }
}

/// One change of the mean of a series of ln t.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// Index of the first value of the new regime; the change happened after the value before it.
    pub at: usize,
    /// Speed-up: time before by time after, so below 1 is slower.
    pub ratio: f64,
    /// Interval of the speed-up.
    pub interval: Interval,
    /// p between the two segments that meet here.
    pub p: f64,
    /// Whether too few values follow to be sure.
    pub provisional: bool,
}

/// What was found in a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// The change points in order.
    pub points: Vec<ChangePoint>,
    /// Lag-1 autocorrelation inside the segments.
    pub autocorrelation: f64,
    /// What both limits of p were divided by because of the autocorrelation: 1, 10 or 100.
    pub p_divisor: f64,
}

impl Detection {
    /// The segments into which the change points cut a series of this length.
    pub fn segments(&self, length: usize) -> Vec<Range<usize>> {
        let starts = [0].into_iter().chain(self.points.iter().map(|point| point.at));
        let ends = self.points.iter().map(|point| point.at).chain([length]);
        starts.zip(ends).map(|(start, end)| start..end).collect()
    }
}

/// Finds the change points of a whole series.
///
/// # Panics
/// If the settings have no stride within the window, or segments below two values.
pub fn detect(series: &[f64], settings: &Settings) -> Detection {
    let mut detector = Detector::new(*settings);
    series.iter().for_each(|value| detector.push(*value));
    detector.detection()
}

/// Finds change points in a series that grows.
#[derive(Clone, Debug)]
pub struct Detector {
    settings: Settings,
    series: Vec<f64>,
    /// What full windows hold; it never changes.
    kept: Vec<Candidate>,
    /// Start of the window that new values fall into.
    open: usize,
}

impl Detector {
    /// A detector of an empty series.
    ///
    /// # Panics
    /// As [`detect`].
    pub fn new(settings: Settings) -> Self {
        settings.check();
        Self { settings, series: Vec::new(), kept: Vec::new(), open: 0 }
    }

    /// Appends a value.
    pub fn push(&mut self, value: f64) {
        if self.series.len() == self.open + self.settings.window {
            self.kept.extend(self.search_open_window());
            self.open += self.settings.stride;
        }
        self.series.push(value);
    }

    /// The change points of all values so far.
    pub fn detection(&self) -> Detection {
        let candidates: Vec<Candidate> = self.kept.iter().copied().chain(self.search_open_window()).collect();
        conclude(&self.series, &candidates, &self.settings)
    }

    fn search_open_window(&self) -> Vec<Candidate> {
        search_window(&self.series, self.open, self.series.len(), &self.settings)
    }
}

/// A split that a window found.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    at: usize,
    p: f64,
    /// Largest p among this split and those that led to it. A limit below it would not have come this far, so one
    /// search serves every stricter limit too.
    gate: f64,
}

/// Splits `[start, end)` again and again at the largest divergence, until no split passes the weak limit.
fn search_window(series: &[f64], start: usize, end: usize, settings: &Settings) -> Vec<Candidate> {
    let window = &series[start..end];
    let distances = Distances::of(window);
    let mut found = Vec::new();
    let mut intervals = vec![(0, window.len(), 0.0)];
    while let Some((from, to, gate)) = intervals.pop() {
        let Some(Split { at, until, .. }) = distances.best_split(from, to, settings.min_segment) else { continue };
        // Tested on the very values that won: the rest of the interval may hold further changes that hide this one.
        let (before, after) = (Moments::of(&window[from..at]), Moments::of(&window[at..until]));
        let Some(TTest { p, .. }) = pooled_t_test(&before, &after).filter(|test| test.p <= settings.p_weak) else {
            continue;
        };
        let gate = p.max(gate);
        found.push(Candidate { at: start + at, p, gate });
        intervals.extend([(from, at, gate), (at, to, gate)]);
    }
    found
}

/// Sums of |y_i − y_j| over rectangles of index pairs, as a table of prefix sums.
struct Distances {
    prefix: Vec<f64>,
    side: usize,
}

/// The values `[.., at)` against `[at, until)` of an interval.
#[derive(Clone, Copy, Debug)]
struct Split {
    at: usize,
    until: usize,
    divergence: f64,
}

impl Distances {
    fn of(window: &[f64]) -> Self {
        let side = window.len() + 1;
        let mut prefix = vec![0.0; side * side];
        for (i, y_i) in window.iter().enumerate() {
            let mut row = 0.0;
            for (j, y_j) in window.iter().enumerate() {
                row += (y_i - y_j).abs();
                prefix[(i + 1) * side + j + 1] = prefix[i * side + j + 1] + row;
            }
        }
        Self { prefix, side }
    }

    fn between(&self, rows: (usize, usize), columns: (usize, usize)) -> f64 {
        let at = |i: usize, j: usize| self.prefix[i * self.side + j];
        at(rows.1, columns.1) - at(rows.0, columns.1) - at(rows.1, columns.0) + at(rows.0, columns.0)
    }

    /// The energy divergence Q of `[from, at)` and `[at, until)`.
    fn divergence(&self, from: usize, at: usize, until: usize) -> f64 {
        let (x, y) = ((from, at), (at, until));
        let (n, m) = ((at - from) as f64, (until - at) as f64);
        // Half of the sum over ordered pairs; a single value has no pairs.
        let within = |part: (usize, usize), count: f64| 0.5 * self.between(part, part) / (count - 1.0).max(1.0);
        2.0 * (self.between(x, y) - m * within(x, n) - n * within(y, m)) / (n + m)
    }

    /// The split of `[from, to)` with the largest divergence; the earliest of equals.
    fn best_split(&self, from: usize, to: usize, min_segment: usize) -> Option<Split> {
        let mut best: Option<Split> = None;
        for at in from + min_segment..to {
            for until in at + min_segment..=to {
                let divergence = self.divergence(from, at, until);
                if best.is_none_or(|best| divergence > best.divergence) {
                    best = Some(Split { at, until, divergence });
                }
            }
        }
        best
    }
}

/// Turns the finds of all windows into change points, with stricter limits where neighbours correlate.
fn conclude(series: &[f64], candidates: &[Candidate], settings: &Settings) -> Detection {
    let usual = final_segments(series, candidates, settings, 1.0);
    let autocorrelation = autocorrelation_inside(&usual);
    // Correlated noise wanders as if its mean changed; these divisors restore the false positives of white noise.
    let p_divisor = match autocorrelation {
        rho if rho > 0.25 => 100.0,
        rho if rho > 0.1 => 10.0,
        _ => 1.0,
    };
    let segments = if p_divisor > 1.0 { final_segments(series, candidates, settings, p_divisor) } else { usual };
    let points = segments.bounds[1..].iter().zip(&segments.tests).map(|(&at, test)| ChangePoint {
        at,
        ratio: test.difference.exp(),
        interval: test.interval(CONFIDENCE).map(f64::exp),
        p: test.p,
        provisional: series.len() - at <= CONFIRMING_VALUES,
    });
    Detection { points: points.collect(), autocorrelation, p_divisor }
}

/// Segments that remain when splits too close, too doubtful or too small are taken back.
fn final_segments<'a>(
    series: &'a [f64],
    candidates: &[Candidate],
    settings: &Settings,
    p_divisor: f64,
) -> Segments<'a> {
    let passed = candidates.iter().filter(|candidate| candidate.gate <= settings.p_weak / p_divisor).copied();
    let mut segments = Segments::new(series, &apart(passed.collect(), settings.min_segment));
    segments.remove_while(|test| test.p, |p| p > settings.p_strong / p_divisor);
    // Negated, so that the smallest change is the first to go.
    segments.remove_while(|test| -test.difference.abs(), |change| -change < settings.min_change);
    segments
}

/// The candidates of smallest p (the earlier of equals) that keep a distance from each other, in order of position.
fn apart(mut candidates: Vec<Candidate>, distance: usize) -> Vec<usize> {
    candidates.sort_by(|a, b| a.p.total_cmp(&b.p).then(a.at.cmp(&b.at)));
    let mut chosen: Vec<usize> = Vec::new();
    for Candidate { at, .. } in candidates {
        if chosen.iter().all(|other| other.abs_diff(at) >= distance) {
            chosen.push(at);
        }
    }
    chosen.sort_unstable();
    chosen
}

/// A series cut into segments, and the tests between neighbours.
///
/// Means come from two passes over the segments instead of prefix sums of squares: histories are short, and small
/// spreads would drown in the rounding of long sums.
struct Segments<'a> {
    series: &'a [f64],
    /// 0, the cuts, and the length of the series.
    bounds: Vec<usize>,
    /// One test per cut.
    tests: Vec<TTest>,
}

impl<'a> Segments<'a> {
    fn new(series: &'a [f64], cuts: &[usize]) -> Self {
        let bounds = [&[0], cuts, &[series.len()]].concat();
        let mut segments = Self { series, bounds, tests: Vec::new() };
        segments.tests = (0..cuts.len()).map(|cut| segments.test(cut)).collect();
        segments
    }

    fn parts(&self) -> impl Iterator<Item = &'a [f64]> {
        self.bounds.windows(2).map(|ends| &self.series[ends[0]..ends[1]])
    }

    /// Tests the two segments that meet at a cut.
    fn test(&self, cut: usize) -> TTest {
        let [start, middle, end] = [0, 1, 2].map(|i| self.bounds[cut + i]);
        let (before, after) = (Moments::of(&self.series[start..middle]), Moments::of(&self.series[middle..end]));
        pooled_t_test(&before, &after).expect("segments have at least two values")
    }

    /// Removes the cut of the largest badness (the earlier of equals) while it is unbearable.
    fn remove_while(&mut self, badness: impl Fn(&TTest) -> f64, unbearable: impl Fn(f64) -> bool) {
        let badness_of = |(_, test): &(usize, &TTest)| badness(test);
        while let Some((cut, _)) = (self.tests.iter().enumerate().rev())
            .max_by(|a, b| badness_of(a).total_cmp(&badness_of(b)))
            .filter(|worst| unbearable(badness_of(worst)))
        {
            self.remove(cut);
        }
    }

    /// Removes a cut; the cuts on both sides now have another neighbour.
    fn remove(&mut self, cut: usize) {
        self.bounds.remove(cut + 1);
        self.tests.remove(cut);
        for cut in cut.saturating_sub(1)..self.tests.len().min(cut + 1) {
            self.tests[cut] = self.test(cut);
        }
    }
}

/// Lag-1 autocorrelation of the distances from the means of their segments.
fn autocorrelation_inside(segments: &Segments) -> f64 {
    let (mut products, mut squares) = (0.0, 0.0);
    for segment in segments.parts() {
        let moments = Moments::of(segment);
        squares += moments.squares;
        products += segment.windows(2).map(|pair| (pair[0] - moments.mean) * (pair[1] - moments.mean)).sum::<f64>();
    }
    if squares > 0.0 { products / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Stream;
    use crate::stats::testing::{assert_close, assert_near, share};

    const TWO_LEVELS: [f64; 8] = [1.0, 2.0, 1.0, 2.0, 11.0, 12.0, 11.0, 12.0];

    const THREE_LEVELS: [f64; 18] =
        [10.0, 10.1, 9.9, 10.0, 10.1, 9.9, 9.0, 9.1, 8.9, 9.0, 9.1, 8.9, 10.5, 10.4, 10.6, 10.5, 10.4, 10.6];

    fn found(detection: &Detection) -> Vec<usize> {
        detection.points.iter().map(|point| point.at).collect()
    }

    fn detect_with_defaults(series: &[f64]) -> Detection {
        detect(series, &Settings::default())
    }

    /// The plain way, the twin of [`Detector`]: all windows of the grid at once, up to the first that reaches the end.
    fn search(series: &[f64], settings: &Settings) -> Vec<Candidate> {
        let window = |start: usize| (start, series.len().min(start + settings.window));
        let full = (0..).step_by(settings.stride).map(window).take_while(|&(_, end)| end < series.len());
        let last = full.clone().count() * settings.stride;
        full.chain([window(last)]).flat_map(|(start, end)| search_window(series, start, end, settings)).collect()
    }

    fn plainly(series: &[f64], settings: &Settings) -> Detection {
        conclude(series, &search(series, settings), settings)
    }

    /// The definition, written out.
    fn plain_divergence(x: &[f64], y: &[f64]) -> f64 {
        let (n, m) = (x.len() as f64, y.len() as f64);
        let across: f64 = x.iter().flat_map(|a| y.iter().map(move |b| (a - b).abs())).sum();
        let within = |z: &[f64]| {
            let pairs = (0..z.len()).flat_map(|i| (i + 1..z.len()).map(move |j| (i, j)));
            pairs.map(|(i, j)| (z[i] - z[j]).abs()).sum::<f64>()
        };
        let term = |other: f64, z: &[f64]| match z.len() {
            1 => 0.0,
            count => 2.0 * other * within(z) / ((n + m) * (count as f64 - 1.0)),
        };
        2.0 * across / (n + m) - term(m, x) - term(n, y)
    }

    #[test]
    fn divergence_of_two_levels() {
        let distances = Distances::of(&TWO_LEVELS);
        for (at, until, expected) in [(4, 8, 37.333_333_3), (4, 7, 31.428_571_4), (4, 6, 24.444_444_4), (3, 8, 21.875)]
        {
            assert_close(distances.divergence(0, at, until), expected);
        }
        let best = distances.best_split(0, 8, 3).unwrap();
        assert_eq!((best.at, best.until), (4, 8));
        assert_eq!(found(&detect_with_defaults(&TWO_LEVELS)), [4]);
    }

    #[test]
    fn divergence_of_a_warm_up() {
        let mut times = vec![12.1, 12.0, 11.9, 12.0, 12.1, 11.9];
        times.extend([10.0, 10.1, 9.9].repeat(6));
        let logs: Vec<f64> = times.iter().map(|time: &f64| time.ln()).collect();
        for (series, expected) in [(times, 17.096_471), (logs, 1.558_630_4)] {
            let best = Distances::of(&series).best_split(0, 24, 3).unwrap();
            assert_eq!((best.at, best.until), (6, 24));
            assert_close(best.divergence, expected);
        }
    }

    #[test]
    fn divergence_agrees_with_its_definition() {
        let series = Stream::new(5, 0).autocorrelated(0.4, 12);
        let distances = Distances::of(&series);
        for from in 0..11 {
            for at in from + 1..12 {
                for until in at + 1..=12 {
                    let plain = plain_divergence(&series[from..at], &series[at..until]);
                    assert_near(distances.divergence(from, at, until), plain, 1e-12);
                }
            }
        }
    }

    #[test]
    fn a_later_change_does_not_hide_an_earlier_one() {
        let first = Distances::of(&THREE_LEVELS).best_split(0, 18, 3).unwrap();
        assert_eq!((first.at, first.until), (6, 12));
        assert_close(first.divergence, 5.36);
        let part = |from: usize, to: usize| Moments::of(&THREE_LEVELS[from..to]);
        assert_close(pooled_t_test(&part(0, 6), &part(6, 12)).unwrap().p, 2.941_378_9e-9);
        assert_near(pooled_t_test(&part(0, 6), &part(6, 18)).unwrap().p, 0.457, 5e-4);
        assert_eq!(found(&detect_with_defaults(&THREE_LEVELS)), [6, 12]);
    }

    #[test]
    fn an_outlier_is_no_change() {
        let mut series: Vec<f64> = (0..24).map(|i| 10.0 + 0.1 * f64::from(i % 3 - 1)).collect();
        series[11] = 15.0;
        assert!(found(&detect_with_defaults(&series)).is_empty());
    }

    #[test]
    fn a_change_is_described() {
        let mut times = vec![10.0, 10.1, 9.9, 10.0, 10.1, 9.9, 10.0, 10.1, 9.9, 10.0];
        times.extend([20.0, 20.2, 19.8, 20.0, 20.2]);
        let series: Vec<f64> = times.iter().map(|time: &f64| time.ln()).collect();
        let [point] = detect_with_defaults(&series).points[..] else { panic!("one change") };
        assert_eq!((point.at, point.provisional), (10, true));
        assert_near(point.ratio, 0.5, 0.005);
        assert!(point.interval.contains(point.ratio) && point.interval.width() < 0.02, "{point:?}");
        let longer = [&series[..], &[20.0_f64.ln()]].concat();
        assert!(!detect_with_defaults(&longer).points[0].provisional);
    }

    #[test]
    fn small_changes_can_be_ignored() {
        let settings = |min_change| Settings { min_change, ..Settings::default() };
        assert_eq!(found(&detect(&THREE_LEVELS, &settings(0.9))), [6, 12]);
        // Without the smaller change the other shrinks from 1.5 to 1, and goes too.
        assert!(found(&detect(&THREE_LEVELS, &settings(1.2))).is_empty());
        let mut far = THREE_LEVELS;
        far[12..].iter_mut().for_each(|value| *value += 1.0);
        assert_eq!(found(&detect(&far, &settings(1.2))), [12]);
    }

    #[test]
    fn series_too_short_constant_or_without_numbers_have_no_change() {
        for length in 0..8 {
            assert!(found(&detect_with_defaults(&vec![1.5; length])).is_empty());
        }
        assert!(found(&detect_with_defaults(&[0.1; 100])).is_empty());
        assert!(found(&detect_with_defaults(&[1.0, 2.0, f64::NAN, f64::NEG_INFINITY, 9.0].repeat(5))).is_empty());
        let step: Vec<f64> = (0..40).map(|i| if i < 20 { 0.1 } else { 0.3 }).collect();
        assert_eq!(found(&detect_with_defaults(&step)), [20]);
    }

    #[test]
    fn incremental_equals_batch_after_every_value() {
        let narrow = Settings { window: 10, stride: 4, p_weak: 0.05, p_strong: 0.02, ..Settings::default() };
        for (k, settings) in
            [Settings::default(), narrow, Settings { stride: 30, ..Settings::default() }].iter().enumerate()
        {
            for (trial, rho) in [0.0, 0.2, 0.4, 0.0].into_iter().enumerate() {
                let mut random = Stream::new(17, (4 * k + trial) as u64);
                let noise = random.autocorrelated(rho, 130);
                let series: Vec<f64> = noise.iter().enumerate().map(|(i, y)| y + 2.0 * (i / 37) as f64).collect();
                let mut detector = Detector::new(*settings);
                assert_eq!(detector.detection(), plainly(&[], settings));
                for (i, &value) in series.iter().enumerate() {
                    detector.push(value);
                    assert_eq!(detector.detection(), plainly(&series[..=i], settings), "after {i}");
                }
            }
        }
    }

    #[test]
    fn the_t_test_agrees_with_permutations_on_small_cases() {
        let largest = |series: &[f64]| Distances::of(series).best_split(0, series.len(), 3).unwrap().divergence;
        let permutation_p = |series: &[f64]| {
            let observed = largest(series);
            let mut random = Stream::new(23, 0);
            let mut shuffled = series.to_vec();
            let extreme = (0..999).filter(|_| {
                (1..shuffled.len()).rev().for_each(|i| shuffled.swap(i, random.below(i + 1)));
                largest(&shuffled) >= observed - 1e-9
            });
            (1 + extreme.count()) as f64 / 1000.0
        };
        // Of all orders of two levels only those with both levels together are as extreme: 2 in 70.
        assert_near(permutation_p(&TWO_LEVELS), 2.0 / 70.0, 0.015);
        assert!(permutation_p(&THREE_LEVELS) < 0.03);
        let noise = Stream::new(24, 0).autocorrelated(0.0, 20);
        assert!(permutation_p(&noise) > 0.05 && found(&detect_with_defaults(&noise)).is_empty());
    }

    fn any_point(settings: Settings, rho: f64) -> impl Fn(&mut Stream) -> bool {
        move |random| !detect(&random.autocorrelated(rho, 150), &settings).points.is_empty()
    }

    /// Whether a shift after 40 of 60 values is found within two positions.
    fn finds_shift(shift: f64, rho: f64) -> impl Fn(&mut Stream) -> bool {
        move |random| {
            let mut series = random.autocorrelated(rho, 60);
            series[40..].iter_mut().for_each(|value| *value += shift);
            detect_with_defaults(&series).points.iter().any(|point| point.at.abs_diff(40) <= 2)
        }
    }

    #[test]
    fn white_noise_rarely_changes() {
        let false_points = share(31, 4000, any_point(Settings::default(), 0.0));
        assert!((0.01..0.02).contains(&false_points), "{false_points}");
        let looser = Settings { p_strong: 1e-3, ..Settings::default() };
        let more = share(31, 4000, any_point(looser, 0.0));
        assert!(more > 0.02, "the limit of one test is too loose for many: {more}");
        let whole = share(31, 4000, |random| {
            !detect(&random.autocorrelated(0.0, 30), &Settings::whole(30, 0.0)).points.is_empty()
        });
        assert!((0.01..0.02).contains(&whole), "{whole}");
    }

    #[test]
    fn nominal_p_is_too_small_in_single_windows() {
        for (window, expected) in [(12, 0.017), (20, 0.034), (30, 0.053), (50, 0.11)] {
            let split = share(37, 2000, |random| {
                let series = random.autocorrelated(0.0, window);
                !search_window(&series, 0, window, &Settings::default()).is_empty()
            });
            assert!((0.5 * expected..1.6 * expected).contains(&split), "{window}: {split}");
        }
    }

    #[test]
    fn shifts_are_found() {
        for (shift, low, high) in [(1.0, 0.2, 0.5), (2.0, 0.8, 0.97), (3.0, 0.96, 1.0)] {
            let power = share(41, 500, finds_shift(shift, 0.0));
            assert!((low..=high).contains(&power), "{shift}: {power}");
        }
    }

    #[test]
    fn stricter_limits_tame_autocorrelation() {
        let settings = Settings { p_strong: 1e-3, ..Settings::default() };
        for (rho, p_divisor, expected) in [
            (0.2, 1.0, 0.18),
            (0.3, 1.0, 0.31),
            (0.2, 10.0, 0.007),
            (0.3, 10.0, 0.06),
            (0.2, 100.0, 0.0),
            (0.3, 100.0, 0.0),
        ] {
            let false_points = share(43, 1000, |random| {
                let series = random.autocorrelated(rho, 150);
                !final_segments(&series, &search(&series, &settings), &settings, p_divisor).tests.is_empty()
            });
            let bounds = 0.5 * expected..1.5 * expected + 0.015;
            assert!(bounds.contains(&false_points), "{rho} {p_divisor}: {false_points}");
        }
    }

    #[test]
    fn the_rule_chooses_limits_by_autocorrelation() {
        for rho in [0.1, 0.2, 0.3, 0.4] {
            let false_points = share(43, 1000, any_point(Settings::default(), rho));
            let power = share(47, 500, finds_shift(3.0, rho));
            assert!(false_points < 0.1 && power > 0.92, "{rho}: {false_points}, {power}");
        }
    }
}
