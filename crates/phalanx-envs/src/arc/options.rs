//! Choices by name, as the command line and Python make them.

use phalanx_core::space::OptionInfo;
use phalanx_core::{Error, Result};

use super::action::{Format, InvalidOperation, OperationSet};
use super::env::Config;
use super::reward::{Mode, Preset, WEIGHTS, Weight};

/// A choice between a few words.
struct Choice {
    name: &'static str,
    choices: &'static [&'static str],
    description: &'static str,
    /// The word in force, by its place.
    get: fn(&Config) -> usize,
    /// Puts a word in force.
    set: fn(&mut Config, usize),
}

/// What an on/off choice looks like.
const SWITCH: &[&str] = &["off", "on"];

/// A choice about one boolean of the configuration.
macro_rules! switch {
    ($name:literal, $description:literal, $($field:ident).+) => {
        Choice {
            name: $name,
            choices: SWITCH,
            description: $description,
            get: |config| usize::from(config.$($field).+),
            set: |config, place| config.$($field).+ = place == 1,
        }
    };
}

/// A choice between values of one field, the first of which is taken to be in force if none is.
macro_rules! one_of {
    ($name:literal, $description:literal, $($field:ident).+, [$($word:literal => $value:expr),+ $(,)?]) => {
        Choice {
            name: $name,
            choices: &[$($word),+],
            description: $description,
            get: |config| [$($value),+].iter().position(|value| *value == config.$($field).+).unwrap_or(0),
            set: |config, place| config.$($field).+ = [$($value),+][place],
        }
    };
}

static CHOICES: [Choice; 16] = [
    one_of!("mode", "train: training pairs, progress is rewarded; test: test pairs, only the submission is", mode, [
        "train" => Mode::Train,
        "test" => Mode::Test,
    ]),
    one_of!("action", "how cells are selected: two corners, one cell, or a bit for each", format, [
        "bbox" => Format::Bbox,
        "point" => Format::Point,
        "mask" => Format::Mask,
    ]),
    one_of!("operations", "full: all 35; standard: without moves, turns and flips; raw: fill, resize, submit", operations, [
        "full" => OperationSet::FULL,
        "standard" => OperationSet::STANDARD,
        "raw" => OperationSet::RAW,
    ]),
    switch!(
        "filter_actions",
        "on: the action space has allowed operations only; off: it has all, and masks tell the allowed ones",
        dynamic_action_filtering
    ),
    one_of!("invalid_operation", "what happens to operations that are not allowed", invalid_operation, [
        "clip" => InvalidOperation::Clip,
        "reject" => InvalidOperation::Reject,
        "passthrough" => InvalidOperation::PassThrough,
        "penalize" => InvalidOperation::Penalize,
    ]),
    Choice {
        name: "reward",
        choices: &["default", "training", "evaluation"],
        description: "weights of the reward that are not given; the last two are JaxARC's, with 150 steps",
        get: |config| config.preset as usize,
        set: |config, place| {
            config.preset = [Preset::Default, Preset::Training, Preset::Evaluation][place];
            (config.reward, config.max_steps) = config.preset.settings();
        },
    },
    one_of!("start", "the grid to start with", start.weights, [
        "demo" => [1.0, 0.0, 0.0, 0.0],
        "permutation" => [0.0, 1.0, 0.0, 0.0],
        "empty" => [0.0, 0.0, 1.0, 0.0],
        "random" => [0.0, 0.0, 0.0, 1.0],
        "mixed" => [0.0, 0.0, 0.0, 0.0],
    ]),
    one_of!("attempts", "submissions of an episode", max_attempts, ["1" => 1, "2" => 2, "3" => 3]),
    switch!("one_hot", "the grid as eleven channels of 0 and 1", channels.one_hot),
    switch!("show_active", "a channel for the active area", channels.active),
    switch!("show_clipboard", "a channel for the clipboard", channels.clipboard),
    switch!("show_input", "a channel for the pair's input", channels.input),
    switch!("show_selection", "a channel for the last selection", channels.selection),
    switch!("show_target", "a channel for the answer; empty in test mode", channels.target),
    one_of!("context", "demonstrations in the observation, two channels each", channels.context, [
        "0" => 0, "1" => 1, "2" => 2, "3" => 3, "4" => 4, "10" => 10,
    ]),
    switch!("show_steps", "a channel for the steps taken, in percent", channels.steps),
];

/// All choices with the words in force.
pub(super) fn list(config: &Config) -> Vec<OptionInfo> {
    let info = |choice: &Choice| {
        let Choice { name, choices, description, .. } = *choice;
        OptionInfo::choice(name, choices[(choice.get)(config)], choices, description)
    };
    let weight =
        |weight: &Weight| OptionInfo::text(weight.name, (weight.get)(&config.reward).to_string(), weight.description);
    CHOICES.iter().map(info).chain(WEIGHTS.iter().map(weight)).collect()
}

/// Sets what the reward depends on: the preset first, then single weights, in whatever order they are given.
pub(super) fn set_reward<'a>(config: &mut Config, setting: impl Fn(&str) -> Option<&'a str>) -> Result<()> {
    if let Some(preset) = setting("reward") {
        set(config, "reward", preset);
    }
    for weight in &WEIGHTS {
        let Some(value) = setting(weight.name) else { continue };
        let number = value.parse().map_err(|_| {
            let allowed = format!("a number from {} to {}", weight.low, weight.high);
            Error::out_of_range(weight.name, value, allowed)
        })?;
        (weight.set)(&mut config.reward, number);
    }
    Ok(())
}

/// Whether [`set_reward`] takes care of it.
pub(super) fn is_of_reward(name: &str) -> bool {
    name == "reward" || WEIGHTS.iter().any(|weight| weight.name == name)
}

/// Makes a choice; false if there is no such name or word.
pub(super) fn set(config: &mut Config, name: &str, value: &str) -> bool {
    let Some(choice) = CHOICES.iter().find(|choice| choice.name == name) else { return false };
    let Some(place) = choice.choices.iter().position(|word| *word == value) else { return false };
    (choice.set)(config, place);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_can_be_chosen_and_is_then_in_force() {
        for choice in &CHOICES {
            for word in choice.choices {
                let mut config = Config::default();
                assert!(set(&mut config, choice.name, word));
                let listed = list(&config);
                let info = listed.iter().find(|info| info.name == choice.name).unwrap();
                assert_eq!(info.value, *word, "{}", choice.name);
                config.check(1).unwrap();
            }
            assert!(!set(&mut Config::default(), choice.name, "nonsense"));
        }
        assert!(!set(&mut Config::default(), "nonsense", "on"));
        let defaults: Vec<_> = list(&Config::default()).into_iter().map(|info| info.value).collect();
        assert!(CHOICES.iter().zip(defaults).all(|(choice, value)| choice.choices[0] == value));
    }
}
