//! `phalanx envs`.

use std::fmt::Write;

use phalanx_core::space::{ActionMask, EnvSpec};
use phalanx_envs::registry::{self, Entry};
use serde::Serialize;

use crate::args::EnvsArgs;
use crate::commands::{print, print_json};
use crate::failure::Failure;

/// A spec with the names it can be found under.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    spec: EnvSpec,
    aliases: &'static [&'static str],
    rules: &'static str,
}

impl From<&Entry> for Listed {
    fn from(entry: &Entry) -> Self {
        Self { spec: entry.spec(), aliases: entry.aliases, rules: entry.rules }
    }
}

pub(crate) fn run(args: &EnvsArgs) -> Result<(), Failure> {
    match &args.name {
        Some(name) => {
            let listed = Listed::from(registry::find(name)?);
            if args.json { print_json(&listed) } else { print(&details(&listed)) }
        }
        None => {
            let all: Vec<_> = registry::ENTRIES.iter().map(Listed::from).collect();
            if args.json { print_json(&all) } else { print(&list(&all)) }
        }
    }
}

fn list(all: &[Listed]) -> String {
    let mut text = String::new();
    for listed in all {
        text += &summary(listed);
        text.push('\n');
    }
    text + "'phalanx envs NAME' shows the parameters of one.\n"
}

fn summary(Listed { spec, aliases, rules }: &Listed) -> String {
    let also = if aliases.is_empty() { String::new() } else { format!("  (also {})", aliases.join(", ")) };
    let solved = spec.reward_threshold.map(|t| format!(", solved from a return of {t}")).unwrap_or_default();
    let names = spec.observation.names;
    let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
    let masked = match spec.action_mask {
        ActionMask::None => "",
        ActionMask::Advisory => ", with advisory masks: the environment takes an illegal one in its own way",
        ActionMask::Binding => ", with binding masks: an illegal one is an error",
    };
    let limit = match spec.max_steps {
        EnvSpec::NO_LIMIT => "none: its rules end every episode".to_owned(),
        steps => format!("{steps} steps"),
    };
    format!(
        "{}{also}\n  {}\n  observation  {}{names}\n  action       {}{masked}\n  reward       {rules}\n  \
         limit        {limit}{solved}\n",
        spec.name, spec.description, spec.observation, spec.action,
    )
}

fn details(listed: &Listed) -> String {
    let spec = &listed.spec;
    let mut text = summary(listed);
    text += &format!("  state        {}\n", collapsed(spec.state_names).join(", "));
    text += "\nParameters (--param NAME=VALUE, or NAME=LOW..HIGH for a value per environment):\n";
    for p in &spec.params {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {:<24} {:>10}  from {} to {}: {}",
            p.name,
            trimmed(p.default),
            p.min,
            p.max,
            p.description
        );
    }
    let limit = if spec.max_steps == EnvSpec::NO_LIMIT { "none".to_owned() } else { spec.max_steps.to_string() };
    let _ = writeln!(text, "  {:<24} {limit:>10}  steps after which an episode is truncated", "max_steps");
    if !spec.options.is_empty() {
        text += "\nOptions (--param NAME=VALUE):\n";
        text += &options(spec);
    }
    if !spec.constraints.is_empty() {
        text += "\nConstraints (--safety enforce, penalize, monitor or off; --constraint adds others):\n";
    }
    for c in &spec.constraints {
        let _ = writeln!(text, "  {c}");
    }
    if !spec.counters.is_empty() {
        let _ = writeln!(text, "\nCounted in roll-outs: {}", spec.counters.join(", "));
    }
    text
}

/// The options of an environment, a line each.
fn options(spec: &EnvSpec) -> String {
    let mut text = String::new();
    for o in &spec.options {
        let choices = if o.choices.is_empty() { "text".to_owned() } else { o.choices.join(" or ") };
        let _ = writeln!(text, "  {:<24} {:>10}  {}: {}", o.name, o.value, choices, o.description);
    }
    text
}

/// At most six digits after the point, none superfluous.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Names with the elements of an array as its first and last: `grid[0,0] to grid[9,9]`.
fn collapsed(names: &[&str]) -> Vec<String> {
    let array = |name: &&str| name.split_once('[').map(|(array, _)| array.to_owned());
    let runs = names.chunk_by(|one, next| array(one).is_some() && array(one) == array(next));
    runs.map(|run| match run {
        [first, _, .., last] => format!("{first} to {last}"),
        few => few.join(", "),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_shown_by_their_ends() {
        let names = ["x", "grid[0]", "grid[1]", "grid[2]", "clip[0]", "clip[1]", "y", "z"];
        assert_eq!(collapsed(&names), ["x", "grid[0] to grid[2]", "clip[0], clip[1]", "y", "z"]);
    }
}
