//! Whether a choice was good: every candidate takes turns, and none is left out; then the choice takes turns with its
//! strongest rival alone. The second part is what counts, because the best of many is partly the luckiest.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::search::slowdown;
use super::subject::{Loop, Subject};
use super::tuning::{WALL, sample_steps, timed};
use crate::Result;
use crate::campaign::shuffled;
use crate::stats::descriptive::median;
use crate::stats::interval::{CONFIDENCE, Interval};
use crate::stats::random::Stream;

/// A way to run the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Setting {
    /// Threads that share the work.
    pub threads: usize,
    /// Steps before control returns.
    pub chunk_size: usize,
    /// Environments that go through a chunk together, where there is a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tile: Option<usize>,
}

impl Setting {
    /// Makes `steps` steps of a loop that has these threads.
    fn timed(self, running: &mut dyn Loop, clock: usize, steps: usize) -> Result<f64> {
        self.tile.into_iter().for_each(|tile| running.set_tile(tile));
        Ok(timed(running, clock, steps, self.chunk_size)?.step_ns)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "threads {}, chunk {}", self.threads, self.chunk_size)?;
        self.tile.map_or(Ok(()), |tile| write!(f, ", tile {tile}"))
    }
}

/// How fast a candidate is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Speed {
    /// The candidate.
    #[serde(flatten)]
    pub setting: Setting,
    /// Its median speed.
    pub steps_per_s: f64,
}

/// What every candidate amounts to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sweep {
    /// The choice that is judged.
    pub chosen: Setting,
    /// The candidate with the highest median.
    pub best: Setting,
    /// The fastest of the others, which the choice takes turns with; `None` if there is no other.
    pub rival: Option<Setting>,
    /// How much slower the choice is than its rival when they take turns alone: the median, as a share.
    pub shortfall: Option<f64>,
    /// Its interval, which holds the true value with 95 % however often it was looked at.
    pub interval: Option<Interval>,
    /// Turns that each of the two took.
    pub turns: usize,
    /// All candidates.
    pub speeds: Vec<Speed>,
}

impl Sweep {
    /// Whether the choice is at most `allowed` slower than the best; `None` if that is not known.
    pub fn is_within(&self, allowed: f64) -> Option<bool> {
        match self.interval? {
            Interval { high, .. } if high <= allowed => Some(true),
            Interval { low, .. } if low > allowed => Some(false),
            _ => None,
        }
    }
}

/// How long a comparison goes on.
#[derive(Debug, Clone, Copy)]
pub struct SweepPlan {
    /// Rounds of all candidates.
    pub rounds: usize,
    /// The least time of a sample.
    pub sample: Duration,
    /// The choice and its rival take turns until it is known whether they differ by more than this share ...
    pub allowed: f64,
    /// ... or until this has passed.
    pub most: Duration,
}

/// Turns of the choice and its rival before the first look. Each look after it comes at twice as many, and may err
/// half as often, so that all of them together keep the confidence: whoever looks after every turn finds in the end.
const FIRST_LOOK: usize = 12;

/// Times the `chosen` setting and all `candidates`; `after` hears of each round and each turn. Each number of threads
/// has a loop of its own.
pub fn sweep(
    subject: &dyn Subject,
    num_envs: usize,
    chosen: Setting,
    candidates: &[Setting],
    plan: SweepPlan,
    after: impl FnMut(&'static str, usize),
) -> Result<Sweep> {
    let mut settings: Vec<Setting> = candidates.iter().copied().chain([chosen]).collect();
    settings.sort_unstable();
    settings.dedup();
    let mut loops = BTreeMap::new();
    for setting @ Setting { threads, chunk_size, .. } in &settings {
        if !loops.contains_key(threads) {
            let mut running = subject.start(num_envs, *threads)?;
            // The first run touches all memory.
            setting.timed(running.as_mut(), *threads, *chunk_size)?;
            loops.insert(*threads, running);
        }
    }
    let clock =
        |threads: usize| if settings[0].threads == settings[settings.len() - 1].threads { threads } else { WALL };
    let mut steps = Vec::new();
    for Setting { threads, chunk_size, tile } in &settings {
        let running = loops.get_mut(threads).expect("each has one");
        tile.iter().for_each(|tile| running.set_tile(*tile));
        steps.push(sample_steps(running.as_mut(), clock(*threads), *chunk_size, plan.sample)?);
    }
    let sample = |at: usize| {
        let threads = settings[at].threads;
        let running = loops.get_mut(&threads).expect("each has one");
        settings[at].timed(running.as_mut(), clock(threads), steps[at])
    };
    judged(&settings, chosen, plan, num_envs as u64, sample, after)
}

/// The rounds and the turns, whatever `sample` asks for the time of a step.
fn judged(
    settings: &[Setting],
    chosen: Setting,
    plan: SweepPlan,
    seed: u64,
    mut sample: impl FnMut(usize) -> Result<f64>,
    mut after: impl FnMut(&'static str, usize),
) -> Result<Sweep> {
    let mut random = Stream::new(seed, 3);
    let mut times = vec![Vec::new(); settings.len()];
    for round in 0..plan.rounds.max(1) {
        for at in shuffled(settings.len(), &mut random) {
            times[at].push(sample(at)?);
        }
        after("all candidates", round + 1);
    }
    let medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
    let fastest = |left: &dyn Fn(usize) -> bool| {
        (0..settings.len()).filter(|&at| left(at)).min_by(|&a, &b| medians[a].total_cmp(&medians[b]))
    };
    let own = settings.iter().position(|setting| *setting == chosen).expect("it is among them");
    // A choice that looks best must still show it, against the next.
    let rival = fastest(&|at| at != own);
    let speed = |(setting, time): (&Setting, &f64)| Speed { setting: *setting, steps_per_s: 1e9 / time };
    let speeds = settings.iter().zip(&medians).map(speed);
    let mut found = Sweep {
        chosen,
        best: settings[fastest(&|_| true).expect("at least the choice")],
        rival: rival.map(|at| settings[at]),
        shortfall: None,
        interval: None,
        turns: 0,
        speeds: speeds.collect(),
    };
    let Some(rival) = rival else { return Ok(found) };
    let (mut turns, start) = ([Vec::new(), Vec::new()], Instant::now());
    let (mut next_look, mut error) = (FIRST_LOOK, 0.5 * (1.0 - CONFIDENCE));
    loop {
        for side in shuffled(2, &mut random) {
            turns[side].push(sample([own, rival][side])?);
        }
        found.turns += 1;
        after("the choice and its rival", found.turns);
        // The time ends it whatever the result, so what it interrupts is the next look and not one more.
        let out_of_time = found.turns >= FIRST_LOOK && start.elapsed() >= plan.most;
        if found.turns == next_look || out_of_time {
            let behind = slowdown(&turns[0], &turns[1], 1.0 - error);
            found.shortfall = Some(behind.median.exp_m1());
            found.interval = Some(behind.interval.map(f64::exp_m1));
            if out_of_time || found.is_within(plan.allowed).is_some() {
                return Ok(found);
            }
            (next_look, error) = (2 * next_look, 0.5 * error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: SweepPlan =
        SweepPlan { rounds: 3, sample: Duration::ZERO, allowed: 0.05, most: Duration::from_secs(3600) };

    fn chunk(chunk_size: usize) -> Setting {
        Setting { threads: 1, chunk_size, tile: None }
    }

    /// Candidates of these true times under so much noise; the first is chosen.
    fn found(times: &[f64], noise: f64, plan: SweepPlan) -> (Sweep, usize) {
        let (mut random, mut looked) = (Stream::new(8, 0), 0);
        let settings: Vec<Setting> = (1..=times.len()).map(chunk).collect();
        let sample = |at: usize| Ok(times[at] * (1.0 + noise * (random.unit() - 0.5)));
        let found =
            judged(&settings, chunk(1), plan, 1, sample, |what, _| looked += usize::from(what != "all candidates"));
        (found.unwrap(), looked)
    }

    #[test]
    fn a_choice_is_good_only_if_its_whole_interval_is() {
        let of = |low, high| {
            let (interval, speeds) = (Some(Interval { low, high }), vec![]);
            let found = Sweep {
                chosen: chunk(1),
                best: chunk(2),
                rival: Some(chunk(2)),
                shortfall: Some(0.01),
                interval,
                turns: 12,
                speeds,
            };
            found.is_within(0.05)
        };
        assert_eq!(
            [of(-0.01, 0.05), of(0.0, 0.051), of(0.05, 0.2), of(0.06, 0.2)],
            [Some(true), None, None, Some(false)]
        );
    }

    #[test]
    fn a_choice_that_looks_best_is_held_against_the_next() {
        let (sweep, turns) = found(&[10.0, 12.0, 11.0], 0.01, PLAN);
        assert_eq!((sweep.best, sweep.rival, sweep.turns), (chunk(1), Some(chunk(3)), FIRST_LOOK));
        assert_eq!((sweep.is_within(PLAN.allowed), turns), (Some(true), FIRST_LOOK));
        let (sweep, _) = found(&[11.0, 12.0, 10.0], 0.01, PLAN);
        assert_eq!((sweep.best, sweep.rival), (chunk(3), Some(chunk(3))));
        assert_eq!(sweep.is_within(PLAN.allowed), Some(false));
    }

    #[test]
    fn nothing_to_compare_with_shows_nothing() {
        let (sweep, turns) = found(&[10.0], 0.01, PLAN);
        assert_eq!((sweep.is_within(PLAN.allowed), sweep.interval, turns), (None, None, 0));
    }

    #[test]
    fn looks_are_few_and_share_the_error() {
        // A difference of just what is allowed is never known: only the time ends it, at the first look.
        let (sweep, turns) = found(&[10.5, 10.0], 0.2, SweepPlan { most: Duration::ZERO, ..PLAN });
        assert_eq!((sweep.is_within(PLAN.allowed), turns), (None, FIRST_LOOK));
        let (sweep, turns) = found(&[10.3, 10.0], 0.2, PLAN);
        assert!(sweep.is_within(PLAN.allowed).is_some());
        assert!(turns > FIRST_LOOK && (turns / FIRST_LOOK).is_power_of_two() && turns % FIRST_LOOK == 0, "{turns}");
    }
}
