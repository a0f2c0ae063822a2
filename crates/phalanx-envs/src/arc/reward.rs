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

/// Weights that go together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// Those of [`Reward::default`].
    #[default]
    Default,
    /// JaxARC's for training.
    Training,
    /// JaxARC's for evaluation.
    Evaluation,
}

impl Preset {
    /// The weights and the step limit.
    pub fn settings(self) -> (Reward, u32) {
        let training = Reward { step_penalty: -0.005, unsolved_submission_penalty: -1.0, ..Reward::default() };
        match self {
            Self::Default => (Reward::default(), 100),
            Self::Training => (training, 150),
            Self::Evaluation => (Reward { step_penalty: -0.02, similarity_weight: 0.0, ..training }, 150),
        }
    }
}

impl Reward {
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
        for Weight { name, get, low, high, .. } in &WEIGHTS {
            let value = get(self);
            if !(*low..=*high).contains(&value) {
                return Err(phalanx_core::Error::out_of_range(*name, value, format!("from {low} to {high}")));
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

/// A weight by its name, as the command line and Python set it.
pub(super) struct Weight {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) get: fn(&Reward) -> f32,
    pub(super) set: fn(&mut Reward, f32),
    pub(super) low: f32,
    pub(super) high: f32,
}

macro_rules! weight {
    ($field:ident, $low:literal, $high:literal, $description:literal) => {
        Weight {
            name: stringify!($field),
            description: $description,
            get: |reward| reward.$field,
            set: |reward, value| reward.$field = value,
            low: $low,
            high: $high,
        }
    };
}

/// All of them, in the order of the fields.
pub(super) static WEIGHTS: [Weight; 5] = [
    weight!(step_penalty, -10.0, 1.0, "added at every step, from -10 to 1"),
    weight!(success_bonus, -100.0, 1000.0, "for a submission that is solved, from -100 to 1000"),
    weight!(similarity_weight, 0.0, 100.0, "for each unit of similarity gained, from 0 to 100"),
    weight!(unsolved_submission_penalty, -1000.0, 0.0, "for a submission that is not solved, from -1000 to 0"),
    weight!(invalid_penalty, -1000.0, 0.0, "for an operation that invalid_operation=penalize rejects, from -1000 to 0"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_reference() {
        let reward = Reward::default();
        assert!((reward.of_step(Mode::Train, 0.25, false, true) - 0.24).abs() < 1e-6);
        assert!((reward.of_step(Mode::Train, 0.0, true, true) - 9.99).abs() < 1e-6);
        assert!((reward.of_step(Mode::Test, 0.25, false, true) + 0.01).abs() < 1e-6);
        let [training, evaluation] = [Preset::Training, Preset::Evaluation].map(|preset| preset.settings().0);
        assert!((training.of_step(Mode::Test, 0.5, true, false) + 1.005).abs() < 1e-6);
        assert!((evaluation.of_step(Mode::Train, 0.5, false, false) + 0.02).abs() < 1e-6);
    }

    #[test]
    fn weights_out_of_range_are_named() {
        let message = Reward { step_penalty: 2.0, ..Reward::default() }.check().unwrap_err().to_string();
        assert_eq!(message, "step_penalty is 2, but must be from -10 to 1");
        assert!(Reward { success_bonus: f32::NAN, ..Reward::default() }.check().is_err());
        let presets = [Preset::Default, Preset::Training, Preset::Evaluation];
        assert!(presets.iter().all(|preset| preset.settings().0.check().is_ok()));
        assert_eq!(Reward::default().warning(100), None);
        assert!(Reward::default().warning(1_001).unwrap().contains("1001 steps at -0.01"));
    }
}
