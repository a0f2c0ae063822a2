//! Where the time of a run goes: a stopwatch for each stage of the loop.
//!
//! It is off unless somebody asks, and then costs a branch for each stage of each step; on, a look at the clock.

use std::time::{Duration, Instant};

use serde::Serialize;

/// What a run does in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Choosing actions.
    Act,
    /// Stepping the environments.
    Step,
    /// Keeping what a step gave.
    Store,
    /// Advantages, gradients and updates.
    Learn,
    /// Merging what workers have learnt, and waiting for each other.
    Sync,
    /// Evaluations.
    Evaluate,
    /// Writing logs.
    Log,
    /// Writing checkpoints and results.
    Checkpoint,
}

impl Stage {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Act, "act"),
        (Self::Step, "step"),
        (Self::Store, "store"),
        (Self::Learn, "learn"),
        (Self::Sync, "sync"),
        (Self::Evaluate, "eval"),
        (Self::Log, "log"),
        (Self::Checkpoint, "checkpoint"),
    ];
}

/// Time by stages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stages {
    on: bool,
    spent: [(Duration, u64); Stage::ALL.len()],
    whole: Duration,
}

/// When the stage that is going on began; nothing if nobody asks.
pub type Lap = Option<Instant>;

/// What a stage took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StageTime {
    /// Its name; `other` is what no stage counts.
    pub stage: &'static str,
    /// Its time.
    pub seconds: f64,
    /// The same in per cent of the whole.
    pub share_percent: f64,
    /// How often it was entered.
    pub calls: u64,
}

impl Stages {
    /// A stopwatch that runs.
    pub fn on() -> Self {
        Self { on: true, ..Self::default() }
    }

    /// Whether anybody asks.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// A stage begins now.
    #[inline]
    pub fn begin(&self) -> Lap {
        self.on.then(Instant::now)
    }

    /// The stage that `lap` began ends now, and the next one begins.
    #[inline]
    pub fn lap(&mut self, stage: Stage, lap: &mut Lap) {
        if let Some(begun) = lap {
            let now = Instant::now();
            self.add(stage, now - *begun);
            *begun = now;
        }
    }

    fn add(&mut self, stage: Stage, more: Duration) {
        let (time, calls) = &mut self.spent[stage as usize];
        *time += more;
        *calls += 1;
    }

    /// Takes the times of workers that `threads` went on with side by side since `begun`: of each stage what a thread has
    /// had of it, and all calls. Of several workers the rest of the time is [`Stage::Sync`].
    pub(crate) fn take_mean<'a>(
        &mut self,
        begun: Lap,
        threads: usize,
        workers: impl ExactSizeIterator<Item = &'a mut Self>,
    ) {
        let Some(begun) = begun else { return };
        let (whole, before) = (begun.elapsed(), self.counted());
        let several = workers.len() > 1;
        let count = threads.clamp(1, workers.len().max(1)) as u32;
        for worker in workers {
            for ((time, calls), (more, more_calls)) in self.spent.iter_mut().zip(std::mem::take(&mut worker.spent)) {
                *time += more / count;
                *calls += more_calls;
            }
        }
        if several {
            self.add(Stage::Sync, whole.saturating_sub(self.counted() - before));
        }
    }

    fn counted(&self) -> Duration {
        self.spent.iter().map(|(time, _)| *time).sum()
    }

    /// The run has taken so long.
    pub(crate) fn end(&mut self, whole: Duration) {
        self.whole = whole;
    }

    /// What the stages took, the longest first. What was never entered is left out.
    pub fn times(&self) -> Vec<StageTime> {
        let counted = self.counted();
        let whole = self.whole.max(counted).as_secs_f64();
        let time = |stage, time: Duration, calls| {
            let seconds = time.as_secs_f64();
            StageTime { stage, seconds, share_percent: 100.0 * seconds / whole.max(1e-9), calls }
        };
        let stages = Stage::ALL.iter().zip(&self.spent);
        let mut times: Vec<_> = stages.map(|((_, name), (spent, calls))| time(name, *spent, *calls)).collect();
        times.retain(|time| time.calls > 0);
        times.extend(self.on.then(|| time("other", self.whole.saturating_sub(counted), 1)));
        times.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_in_the_order_of_their_places() {
        assert!(Stage::ALL.iter().enumerate().all(|(place, (stage, _))| *stage as usize == place));
    }

    #[test]
    fn shares_sum_to_the_whole_and_the_longest_comes_first() {
        let mut stages = Stages::on();
        stages.add(Stage::Act, Duration::from_millis(100));
        stages.add(Stage::Learn, Duration::from_millis(200));
        stages.add(Stage::Learn, Duration::from_millis(50));
        stages.end(Duration::from_secs(1));
        let times = stages.times();
        let found: Vec<_> = times.iter().map(|time| (time.stage, time.calls, time.share_percent.round())).collect();
        assert_eq!(found, [("other", 1, 65.0), ("learn", 2, 25.0), ("act", 1, 10.0)]);
    }

    #[test]
    fn a_lap_ends_one_stage_and_begins_the_next() {
        let mut stages = Stages::on();
        let begun = stages.begin();
        let mut lap = begun;
        stages.lap(Stage::Act, &mut lap);
        stages.lap(Stage::Step, &mut lap);
        assert_eq!(stages.counted(), lap.unwrap() - begun.unwrap(), "nothing between them is lost");
    }

    #[test]
    fn nobody_asks_and_nothing_is_kept() {
        let mut stages = Stages::default();
        let mut lap = stages.begin();
        stages.lap(Stage::Act, &mut lap);
        stages.end(Duration::from_secs(1));
        assert!(lap.is_none() && stages.times().is_empty());
    }

    #[test]
    fn workers_side_by_side_count_once() {
        let mut workers = [Stages::on(), Stages::on()];
        workers[0].add(Stage::Step, Duration::from_millis(10));
        workers[1].add(Stage::Step, Duration::from_millis(30));
        let mut all = Stages::on();
        let begun = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        all.take_mean(Some(begun), 2, workers.iter_mut());
        assert_eq!(all.spent[Stage::Step as usize], (Duration::from_millis(20), 2));
        let (sync, calls) = all.spent[Stage::Sync as usize];
        assert!(calls == 1 && sync >= Duration::from_millis(980), "the rest: {sync:?}");
        assert_eq!(workers[0].spent, Stages::default().spent, "they begin anew");
        // One thread has worked for both, one after the other.
        workers.iter_mut().for_each(|worker| worker.add(Stage::Step, Duration::from_millis(400)));
        let mut one_by_one = Stages::on();
        one_by_one.take_mean(Some(begun), 1, workers.iter_mut());
        assert_eq!(one_by_one.spent[Stage::Step as usize], (Duration::from_millis(800), 2));
    }
}
