//! How episodes went, in the terms of the benchmark.

use serde::Serialize;

use super::env::Info;

/// One episode so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct EpisodeMetrics {
    /// Whether there is a target to compare with; without one, the other figures but the last mean nothing.
    pub has_target: bool,
    /// The highest similarity of any step.
    pub best_similarity: f32,
    /// The similarity of the last step.
    pub final_similarity: f32,
    /// Whether the target was reached at the last step.
    pub solved: bool,
    /// Steps until the target was reached for the first time.
    pub steps_to_solve: Option<u32>,
    /// Whether the step limit ended the episode.
    pub was_truncated: bool,
}

/// Many episodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Number of episodes.
    pub episodes: u64,
    /// Episodes that ended solved, in percent of those with a target; `None` if there are none.
    pub success_rate: Option<f64>,
    /// Mean of the steps to solve, over episodes that reached the target.
    pub mean_steps_to_solve: Option<f64>,
    /// Episodes that the step limit ended, in percent.
    pub truncation_rate: f64,
}

impl EpisodeMetrics {
    /// Takes the state after a step into account; `truncated` if the step limit ended the episode, and not a
    /// submission at the last step.
    pub fn update<const N: usize>(&mut self, info: &Info<'_, N>, truncated: bool) {
        self.has_target = info.has_target;
        self.best_similarity = self.best_similarity.max(info.similarity);
        self.final_similarity = info.similarity;
        self.solved = info.solved;
        self.was_truncated = truncated;
        if info.solved {
            self.steps_to_solve.get_or_insert(info.steps);
        }
    }
}

impl Summary {
    /// Of finished episodes.
    pub fn of<'a>(episodes: impl IntoIterator<Item = &'a EpisodeMetrics>) -> Self {
        let (mut count, mut scored, mut solved, mut truncated) = (0_u64, 0_u64, 0_u64, 0_u64);
        let (mut reached, mut steps) = (0_u64, 0_u64);
        for episode in episodes {
            count += 1;
            scored += u64::from(episode.has_target);
            solved += u64::from(episode.solved);
            truncated += u64::from(episode.was_truncated);
            if let Some(needed) = episode.steps_to_solve {
                (reached, steps) = (reached + 1, steps + u64::from(needed));
            }
        }
        let percent = |part: u64, of: u64| (of > 0).then(|| 100.0 * part as f64 / of as f64);
        Self {
            episodes: count,
            success_rate: percent(solved, scored),
            mean_steps_to_solve: (reached > 0).then(|| steps as f64 / reached as f64),
            truncation_rate: percent(truncated, count).unwrap_or(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arc::grid::{Selection, Size};

    #[test]
    fn episodes_and_their_summary() {
        let info = |similarity, solved, steps| Info::<5> {
            operation: 0,
            rejected: false,
            selection: Selection::EMPTY,
            has_target: true,
            similarity,
            solved,
            size: Size { height: 1, width: 1 },
            task: "t",
            pair: 0,
            attempts: 0,
            steps,
        };
        let mut first = EpisodeMetrics::default();
        first.update(&info(0.5, false, 1), false);
        first.update(&info(1.0, true, 2), false);
        first.update(&info(0.25, false, 3), true);
        assert_eq!((first.best_similarity, first.final_similarity), (1.0, 0.25));
        assert_eq!((first.solved, first.steps_to_solve, first.was_truncated), (false, Some(2), true));
        let mut second = EpisodeMetrics::default();
        second.update(&info(1.0, true, 4), false);
        let failed = EpisodeMetrics { has_target: true, ..EpisodeMetrics::default() };
        let unscored = EpisodeMetrics::default();
        let summary = Summary::of(&[first, second, failed, failed, unscored]);
        assert_eq!((summary.episodes, summary.success_rate, summary.truncation_rate), (5, Some(25.0), 20.0));
        assert_eq!(Summary::of(&[unscored]).success_rate, None);
        assert_eq!(summary.mean_steps_to_solve, Some(3.0));
        assert_eq!(Summary::of(&[]), Summary::default());
    }
}
