//! Exact stochastic simulation of reaction networks in lanes (Gillespie's direct method).
//!
//! A network is one `impl` of [`Network`]: how each reaction changes the counts, as data, and how fast
//! each reaction is. [`Clock::run`] takes it through one control interval. Every lane is an environment;
//! all lanes go through the loop together, and a lane whose interval is over waits unchanged.
//!
//! ```text
//! while t < duration:   choose j, the first with a_0 + ... + a_j >= U a,   U in (0, 1],  a = sum of all a_j
//!                       counts += changes_j;   t += Exp(1) / a,   never if a = 0
//! ```
//!
//! **The clock.** What survives an interval is the time from its end to the reaction that is already
//! scheduled: a relative clock does not lose precision, however long the episode. If the input changes,
//! or anything else that changes the total propensity, the waiting time is drawn anew from the boundary
//! on. That is exact because the exponential distribution has no memory.
//!
//! **Random numbers.** Reactions are numbered through the episode, and a reaction draws by its number;
//! only a restarted clock draws by step. Neither other lanes nor the length of the control interval can
//! therefore change what a reaction draws: under a constant input the events are the same for any length.
//! Four random words serve two reactions. A lane that is at an odd number when an interval begins sits
//! out the first half of the first four words; this costs half an iteration and needs no storage.

use phalanx_core::lanes::{Mask, Real, Uint};
use phalanx_core::rng::{Draws, positive_unit_of_word};

/// A network of `REACTIONS` reactions among `SPECIES` species, with its parameters and input in lanes.
///
/// ```
/// use phalanx_core::lanes::Real;
/// use phalanx_core::rng::{Purpose, Stream};
/// use phalanx_envs::reaction::{Clock, ClockRule, Network};
///
/// /// Dimers form and fall apart.
/// struct Dimer<R> { bind: R, part: R }
///
/// impl<R: Real> Network<R, 2, 2> for Dimer<R> {
///     const CHANGES: [[i32; 2]; 2] = [[-2, 1], [2, -1]];
///     fn propensities(&self, [single, pair]: &[R; 2]) -> [R; 2] {
///         [self.bind * *single * (*single - R::splat(1.0)), self.part * *pair]
///     }
/// }
///
/// let network = Dimer { bind: 0.01_f32, part: 0.1 };
/// let draws = Stream::of_seed(7, 0).draws(Purpose::Step, 0, 0);
/// let rule = ClockRule::default();
/// let ([single, pair], clock) = Clock::new().run(&network, [100.0, 0.0], false, 5.0, rule, draws);
/// assert_eq!(single + 2.0 * pair, 100.0);
/// assert!(clock.reactions > 0 && clock.capped == 0);
/// ```
pub trait Network<R: Real, const SPECIES: usize, const REACTIONS: usize> {
    /// What each reaction adds to the count of each species.
    const CHANGES: [[i32; SPECIES]; REACTIONS];

    /// Rate of each reaction. A reaction that lacks a molecule must have rate 0: nothing else keeps
    /// counts from becoming negative.
    fn propensities(&self, counts: &[R; SPECIES]) -> [R; REACTIONS];

    /// The same after one reaction, for networks that can do better than to start again: `before` are
    /// the propensities before `fired`, and in a lane where nothing happened the counts are as before.
    /// The bits must be those of [`Network::propensities`].
    #[inline(always)]
    fn propensities_after(
        &self,
        counts: &[R; SPECIES],
        _before: &[R; REACTIONS],
        _fired: Fired<R, REACTIONS>,
    ) -> [R; REACTIONS] {
        self.propensities(counts)
    }
}

/// Which reaction was chosen, lane by lane.
#[derive(Clone, Copy, Debug)]
pub struct Fired<R: Real, const REACTIONS: usize> {
    past: [R::Mask; REACTIONS],
}

impl<R: Real, const REACTIONS: usize> Fired<R, REACTIONS> {
    /// Where the chosen reaction comes after reaction `j`.
    #[inline(always)]
    pub fn is_past(&self, j: usize) -> R::Mask {
        self.past[j]
    }
}

/// The waiting time of a lane in which nothing can happen: finite, because states must be.
pub const NEVER: f64 = 3e38;

/// The largest count that single precision can add one molecule to and tell from its neighbours.
pub const LARGEST_COUNT: f64 = 16_777_215.0;

/// How the clock is kept; the same for all environments of a batch. By default as described above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRule {
    /// Draw the waiting time anew at every interval, changed or not. Exact as well, but then the events
    /// depend on the length of the interval. Default false.
    pub redraw_each_interval: bool,
    /// After a change, scale the time that is left with the propensities, old by new, instead of drawing
    /// anew. Exact as well. Default false.
    pub rescale_on_change: bool,
    /// The most reactions of one interval, an even number. When there are more the interval is given up,
    /// the rest is put off to the next interval and [`Clock::capped`] set; an environment whose reactions
    /// so far are odd in number is given up one reaction earlier. Default 10 000.
    pub max_reactions: u32,
}

impl Default for ClockRule {
    fn default() -> Self {
        Self { redraw_each_interval: false, rescale_on_change: false, max_reactions: 10_000 }
    }
}

/// What an environment keeps beside the counts, each a field of its state.
#[derive(Clone, Copy, Debug)]
pub struct Clock<R: Real> {
    /// Time from the end of the last interval to the scheduled reaction; [`NEVER`] if there is none, and
    /// negative only after a capped interval.
    pub wait: R,
    /// The total propensity under which that reaction was scheduled; negative before the first.
    pub total: R,
    /// Reactions of this episode, which is the number of the next one.
    pub fired: R::Uint,
    /// Reactions in the last interval.
    pub reactions: R::Uint,
    /// 1 if the last interval was given up because of too many reactions, or a count is beyond [`LARGEST_COUNT`].
    pub capped: R::Uint,
}

impl<R: Real> Default for Clock<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: Real> Clock<R> {
    /// Nothing is scheduled yet.
    #[inline(always)]
    pub fn new() -> Self {
        let zero = R::Uint::splat(0);
        Self { wait: R::splat(NEVER), total: R::splat(-1.0), fired: zero, reactions: zero, capped: zero }
    }

    /// Takes a network with these counts through one interval; answers the new counts and clock.
    ///
    /// `changed` says where the input is not that of the previous interval. `draws` are those of the step.
    #[inline(always)]
    pub fn run<N, const SPECIES: usize, const REACTIONS: usize>(
        self,
        network: &N,
        counts: [R; SPECIES],
        changed: R::Mask,
        duration: R,
        rule: ClockRule,
        draws: Draws<R>,
    ) -> ([R; SPECIES], Self)
    where
        N: Network<R, SPECIES, REACTIONS>,
    {
        self.run_observed(network, counts, changed, duration, rule, draws, |_, _, _| ())
    }

    /// As [`Clock::run`]; calls `observe(lanes, time, counts)` after every round of reactions, which have
    /// happened where the mask holds, `time` after the interval began.
    #[allow(clippy::too_many_arguments)] // the interval's own description, once
    #[inline(always)]
    pub fn run_observed<N, const SPECIES: usize, const REACTIONS: usize>(
        self,
        network: &N,
        counts: [R; SPECIES],
        changed: R::Mask,
        duration: R,
        rule: ClockRule,
        mut draws: Draws<R>,
        mut observe: impl FnMut(R::Mask, R, &[R; SPECIES]),
    ) -> ([R; SPECIES], Self)
    where
        N: Network<R, SPECIES, REACTIONS>,
    {
        let (zero, one) = (R::Uint::splat(0), R::Uint::splat(1));
        let propensities = network.propensities(&counts);
        let sums = cumulative(&propensities);
        let total = sums[REACTIONS - 1];

        // What a capped interval has put off is late already: it comes first, under the new input.
        let in_time = self.wait.ge(R::splat(0.0));
        let mut restart = (changed | !self.total.eq(total)) & in_time;
        let mut time = self.wait;
        if rule.rescale_on_change {
            let rescaled = limited(time * (self.total / total));
            let can = restart & self.total.gt(R::splat(0.0));
            time = R::select(can, rescaled, time);
            restart = restart & !can;
        }
        if rule.redraw_each_interval {
            restart = in_time;
        }
        // Only saves time: drawing for nobody changes nothing.
        if restart.any() {
            let drawn = limited(-(ln_unit_of_word::<R>(draws.word()) / total));
            time = R::select(restart, drawn, time);
        }
        // Where nothing can happen nothing is scheduled, whatever clock a user's state brought along.
        time = R::select(total.gt(R::splat(0.0)), time, R::splat(NEVER));

        let mut run = Run { network, counts, propensities, sums, time, fired: self.fired };
        // Active lanes stay in step, so that one number serves for the draws of all.
        let mut block = self.fired.shr(1);
        let mut first_half = (self.fired & one).eq(zero);
        for _ in 0..rule.max_reactions / 2 {
            let active = run.time.lt(duration);
            if !active.any() {
                break;
            }
            let [choice, wait, next_choice, next_wait] = draws.event_words(block);
            run.fire(active & first_half, choice, wait, &mut observe);
            let active = run.time.lt(duration);
            run.fire(active, next_choice, next_wait, &mut observe);
            first_half = R::Mask::splat(true);
            block = block.wrapping_add(one);
        }

        let most = R::splat(LARGEST_COUNT);
        let beyond = run.counts.iter().fold(R::Mask::splat(false), |beyond, count| beyond | count.gt(most));
        let clock = Self {
            wait: run.time - duration,
            total: run.sums[REACTIONS - 1],
            fired: run.fired,
            reactions: run.fired.wrapping_sub(self.fired),
            capped: R::Uint::masked(run.time.lt(duration) | beyond, 1),
        };
        (run.counts, clock)
    }
}

/// A network in the middle of an interval.
struct Run<'a, N, R: Real, const SPECIES: usize, const REACTIONS: usize> {
    network: &'a N,
    counts: [R; SPECIES],
    propensities: [R; REACTIONS],
    /// Of the propensities; the last is the total.
    sums: [R; REACTIONS],
    /// When the scheduled reaction happens, from the beginning of the interval.
    time: R,
    fired: R::Uint,
}

impl<R: Real, N, const SPECIES: usize, const REACTIONS: usize> Run<'_, N, R, SPECIES, REACTIONS>
where
    N: Network<R, SPECIES, REACTIONS>,
{
    /// Lets the scheduled reaction happen in the active lanes and schedules the next.
    #[inline(always)]
    fn fire(
        &mut self,
        active: R::Mask,
        choice: R::Uint,
        wait: R::Uint,
        observe: &mut impl FnMut(R::Mask, R, &[R; SPECIES]),
    ) {
        // The unit is above 0, so a reaction with propensity 0 is never the first to reach the threshold.
        let threshold = positive_unit_of_word::<R>(choice) * self.sums[REACTIONS - 1];
        let fired = Fired { past: self.sums.map(|sum| sum.lt(threshold)) };
        for (species, count) in self.counts.iter_mut().enumerate() {
            // What the first reaction changes, and how each further one differs from the one before it.
            // Most differences are 0; as the table is constant, these cost nothing.
            let mut change = R::splat(f64::from(N::CHANGES[0][species]));
            for j in 1..REACTIONS {
                let difference = N::CHANGES[j][species] - N::CHANGES[j - 1][species];
                if difference != 0 {
                    change = change + R::splat(f64::from(difference)).keep(fired.past[j - 1]);
                }
            }
            *count = *count + change.keep(active);
            debug_assert!(!count.lt(R::splat(0.0)).any(), "a reaction without its molecules");
        }
        observe(active, self.time, &self.counts);

        self.propensities = self.network.propensities_after(&self.counts, &self.propensities, fired);
        self.sums = cumulative(&self.propensities);
        let minus_step = ln_unit_of_word::<R>(wait) / self.sums[REACTIONS - 1];
        self.time = R::select(active, limited(self.time - minus_step), self.time);
        // All bits set are -1.
        self.fired = self.fired.wrapping_sub(R::Uint::masked(active, u32::MAX));
    }
}

/// At most [`NEVER`], also for 0 / 0.
#[inline(always)]
fn limited<R: Real>(time: R) -> R {
    time.min(R::splat(NEVER))
}

#[inline(always)]
fn cumulative<R: Real, const N: usize>(values: &[R; N]) -> [R; N] {
    let mut sums = *values;
    for j in 1..N {
        sums[j] = sums[j - 1] + values[j];
    }
    sums
}

/// The negative of an exponential with mean 1.
#[inline(always)]
fn ln_unit_of_word<R: Real>(word: R::Uint) -> R {
    positive_unit_of_word::<R>(word).ln_normal()
}

/// A Hill function x^n / (K^n + x^n) with what does not depend on x computed beforehand.
#[derive(Clone, Copy, Debug)]
pub struct Hill<R: Real> {
    per_half: R,
    minus_exponent: R,
}

impl<R: Real> Hill<R> {
    /// With half its maximum at `half` and this exponent, both above 0.
    #[inline(always)]
    pub fn new(half: R, exponent: R) -> Self {
        Self { per_half: R::splat(1.0) / half, minus_exponent: -exponent }
    }

    /// At a count or another number that is 0 or well above the smallest; exactly 0 at 0.
    ///
    /// As 1 / (1 + (x / K)^-n): the relative error is a few 10^-7 around K.
    #[inline(always)]
    pub fn at(&self, x: R) -> R {
        let ratio = (x * self.per_half).pow_normal(self.minus_exponent);
        (R::splat(1.0) / (R::splat(1.0) + ratio)).keep(x.gt(R::splat(0.0)))
    }

    /// `if_true` where the mask holds, `if_false` elsewhere.
    #[inline(always)]
    pub fn select(mask: R::Mask, if_true: Self, if_false: Self) -> Self {
        Self {
            per_half: R::select(mask, if_true.per_half, if_false.per_half),
            minus_exponent: R::select(mask, if_true.minus_exponent, if_false.minus_exponent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hill_functions_have_their_golden_values() {
        for (x, half, exponent, expected) in [
            (50.0, 90.0, 3.6, 0.10754833377666809),
            (20.0, 30.0, 3.6, 0.1885171315901244),
            (1.0, 0.5, 2.0, 0.8),
            (0.5, 0.5, 2.0, 0.5),
            (0.25, 0.5, 2.0, 0.2),
        ] {
            let double: f64 = Hill::new(half, exponent).at(x);
            assert!((double / expected - 1.0).abs() < 1e-14, "{x}: {double}");
            let single = f64::from(Hill::new(half as f32, exponent as f32).at(x as f32));
            assert!((single / expected - 1.0).abs() < 1e-6, "{x}: {single}");
        }
    }

    #[test]
    fn hill_functions_are_zero_at_zero_and_rise_to_one() {
        for (half, exponent) in [(90.0, 3.6), (1e-3, 0.1), (1e6, 20.0)] {
            let hill = Hill::new(half, exponent);
            assert_eq!(hill.at(0.0_f32), 0.0);
            let values: Vec<f32> = (1..2_000).map(|x| hill.at(x as f32)).collect();
            assert!(values.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-6)));
            assert!(values.iter().all(|value| (0.0..=1.0).contains(value)));
        }
    }
}
