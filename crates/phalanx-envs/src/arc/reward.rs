//! What a step earns.
//!
//! ```text
//! train:  similarity_weight (similarity' - similarity) + step_penalty
//!         + success_bonus [submitted, solved] + unsolved_submission_penalty [submitted, not solved]
//! test:   the same without the first term
//! ```
//!
//! In test mode the hidden output scores a submission when the data has it; JaxARC hides it from the
//! score as well, so that a test could never succeed.

/// Which pairs are solved, and whether progress is rewarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Training pairs, with a reward for every bit of progress.
    #[default]
    Train,
    /// Test pairs; only the submission counts.
    Test,
}

/// Weights of the reward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reward {
    /// Added at every step, -10 to 1. Default -0.01.
    pub step_penalty: f32,
    /// For a submission that is solved, -100 to 1000. Default 10.
    pub success_bonus: f32,
    /// For each unit of similarity gained, 0 to 100. Default 1.
    pub similarity_weight: f32,
    /// For a submission that is not solved, -1000 to 0. Default 0.
    pub unsolved_submission_penalty: f32,
    /// For an operation that was penalized, -1000 to 0. Default -0.1.
    pub invalid_penalty: f32,
}

impl Default for Reward {
    fn default() -> Self {
        Self {
            step_penalty: -0.01,
            success_bonus: 10.0,
            similarity_weight: 1.0,
            unsolved_submission_penalty: 0.0,
            invalid_penalty: -0.1,
        }
    }
}

impl Reward {
    /// JaxARC's preset for training; it goes with 150 steps.
    pub const TRAINING: Self = Self {
        step_penalty: -0.005,
        success_bonus: 10.0,
        similarity_weight: 1.0,
        unsolved_submission_penalty: -1.0,
        invalid_penalty: -0.1,
    };

    /// JaxARC's preset for evaluation; it goes with 150 steps.
    pub const EVALUATION: Self = Self { step_penalty: -0.02, similarity_weight: 0.0, ..Self::TRAINING };

    /// The reward of a step that gained `gain` in similarity.
    #[inline(always)]
    pub fn of_step(&self, mode: Mode, gain: f32, submitted: bool, solved: bool) -> f32 {
        let shaping = if mode == Mode::Train { self.similarity_weight * gain } else { 0.0 };
        let submission = match (submitted, solved) {
            (false, _) => 0.0,
            (true, true) => self.success_bonus,
            (true, false) => self.unsolved_submission_penalty,
        };
        shaping + self.step_penalty + submission
    }

    /// Checks each weight against its range.
    pub fn check(&self) -> phalanx_core::Result<()> {
        for (name, value, low, high) in [
            ("step_penalty", self.step_penalty, -10.0, 1.0),
            ("success_bonus", self.success_bonus, -100.0, 1000.0),
            ("similarity_weight", self.similarity_weight, 0.0, 100.0),
            ("unsolved_submission_penalty", self.unsolved_submission_penalty, -1000.0, 0.0),
            ("invalid_penalty", self.invalid_penalty, -1000.0, 0.0),
        ] {
            if !(low..=high).contains(&value) {
                return Err(phalanx_core::Error::out_of_range(name, value, format!("from {low} to {high}")));
            }
        }
        Ok(())
    }

    /// What to tell the user about weights that are allowed but hardly meant.
    pub fn warning(&self, max_steps: u32) -> Option<String> {
        let cost = self.step_penalty.abs() * max_steps as f32;
        (cost > self.success_bonus.abs()).then(|| {
            format!(
                "{max_steps} steps at {} cost {cost}, more than the success bonus of {} brings",
                self.step_penalty, self.success_bonus
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_reference() {
        let reward = Reward::default();
        assert!((reward.of_step(Mode::Train, 0.25, false, true) - 0.24).abs() < 1e-6);
        assert!((reward.of_step(Mode::Train, 0.0, true, true) - 9.99).abs() < 1e-6);
        assert!((reward.of_step(Mode::Test, 0.25, false, true) + 0.01).abs() < 1e-6);
        assert!((Reward::TRAINING.of_step(Mode::Test, 0.5, true, false) + 1.005).abs() < 1e-6);
        assert!((Reward::EVALUATION.of_step(Mode::Train, 0.5, false, false) + 0.02).abs() < 1e-6);
    }

    #[test]
    fn weights_out_of_range_are_named() {
        let message = Reward { step_penalty: 2.0, ..Reward::default() }.check().unwrap_err().to_string();
        assert_eq!(message, "step_penalty is 2, but must be from -10 to 1");
        assert!(Reward { success_bonus: f32::NAN, ..Reward::default() }.check().is_err());
        assert!([Reward::default(), Reward::TRAINING, Reward::EVALUATION].iter().all(|r| r.check().is_ok()));
        assert_eq!(Reward::default().warning(100), None);
        assert!(Reward::default().warning(1_001).unwrap().contains("1001 steps at -0.01"));
    }
}
