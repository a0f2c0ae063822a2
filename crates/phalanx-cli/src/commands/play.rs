//! One environment played step by step: what `trace` prints and `render` draws.

use std::path::Path;

use phalanx_core::policy::Policy;
use phalanx_core::probe::{PolicyMemory, Precision, Probe, check_action};
use phalanx_core::space::{ActionMask, EnvSpec};
use phalanx_envs::draw::{Film, Moment};
use phalanx_envs::registry::Entry;

use crate::args::PlayArgs;
use crate::commands::{print_notes, warn_of_capped_steps};
use crate::failure::Failure;
use crate::files;

/// Where the actions come from.
enum Source {
    /// So many from the policy.
    Policy(u64),
    /// Those of a file, each with its line.
    Given { path: String, actions: Vec<(usize, Vec<f64>)> },
}

/// One step; a reset has no action and no reward.
pub(crate) struct Row {
    pub(crate) episode: u64,
    pub(crate) t: u64,
    pub(crate) action: Option<Vec<f64>>,
    pub(crate) state: Vec<f64>,
    pub(crate) obs: Vec<f32>,
    pub(crate) reward: Option<f64>,
    pub(crate) terminated: bool,
    pub(crate) truncated: bool,
    pub(crate) violated: u32,
    /// Of the environments that have them, where the state can be scored.
    pub(crate) scores: Vec<f32>,
}

impl Row {
    /// The same as pictures take it.
    pub(crate) fn moment(&self) -> Moment {
        Moment {
            step: self.t as u32,
            state: self.state.clone(),
            observation: self.obs.clone(),
            action: self.action.clone().unwrap_or_default(),
            reward: self.reward.unwrap_or(0.0),
            terminated: self.terminated,
            truncated: self.truncated,
        }
    }
}

/// An environment and what acts on it.
pub(crate) struct Run {
    probe: Box<dyn Probe>,
    source: Source,
    policy: Policy,
    entry: &'static Entry,
}

impl Run {
    pub(crate) fn new(args: &PlayArgs, precision: Precision) -> Result<Self, Failure> {
        let entry = args.env.entry()?;
        let mut probe = entry.probe(&args.env.config(), precision)?;
        let source = parse_actions(&args.actions, probe.spec())?;
        let policy = if args.actions.starts_with("random:") {
            Policy::parse("random", &[], probe.spec())?
        } else {
            args.policy.parse(probe.spec())?
        };
        if let Some(text) = &args.state {
            probe.set_state(&parse_state(text, probe.spec())?)?;
        }
        if matches!(source, Source::Policy(_)) {
            // Refuses a policy that does not fit before anything is printed.
            probe.decide(&policy, 0, &mut PolicyMemory::default())?;
        }
        print_notes(probe.spec());
        Ok(Self { probe, source, policy, entry })
    }

    pub(crate) fn entry(&self) -> &'static Entry {
        self.entry
    }

    pub(crate) fn spec(&self) -> &EnvSpec {
        self.probe.spec()
    }

    pub(crate) fn params(&self) -> Vec<(&'static str, f64)> {
        self.probe.params()
    }

    /// Draws its steps.
    pub(crate) fn film(&self) -> Film {
        Film::new(self.entry.draw, self.spec(), self.params())
    }

    /// Steps until the actions are used up or the episode ends; with `autoreset` through all episodes.
    pub(crate) fn play(
        &mut self,
        autoreset: bool,
        mut show: impl FnMut(&Row) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Self { probe, source, policy, .. } = self;
        // Where masks bind, an action of a file can turn out to be illegal in its state. Then nothing is shown, rather
        // than a part.
        let is_doubtful = matches!(source, Source::Given { .. }) && probe.spec().action_mask == ActionMask::Binding;
        let mut held = is_doubtful.then(Vec::new);
        let mut emit = |row: Row| match &mut held {
            Some(rows) => {
                rows.push(row);
                Ok(())
            }
            None => show(&row),
        };
        let probe = probe.as_mut();
        let start = |probe: &dyn Probe, episode| Row {
            episode,
            t: 0,
            action: None,
            state: probe.state(),
            obs: probe.observation(),
            reward: None,
            terminated: false,
            truncated: false,
            violated: 0,
            scores: probe.scores(),
        };
        let mut memory = PolicyMemory::default();
        let capped_at = probe.spec().state_names.iter().position(|name| *name == "capped");
        let (mut episode, mut t, mut capped) = (0, 0, 0);
        emit(start(probe, episode))?;
        let total = match source {
            Source::Policy(steps) => *steps,
            Source::Given { actions, .. } => actions.len() as u64,
        };
        for tick in 0..total {
            let action = match source {
                Source::Policy(_) => probe.decide(policy, tick, &mut memory)?,
                Source::Given { actions, .. } => actions[tick as usize].1.clone(),
            };
            let step = probe.step(&action).map_err(|error| match source {
                Source::Policy(_) => error.into(),
                Source::Given { path, actions } => {
                    Failure::input(format!("{path}, line {}: {error}", actions[tick as usize].0))
                }
            })?;
            t += 1;
            let state = probe.state();
            capped += u64::from(capped_at.is_some_and(|at| state[at] > 0.0));
            emit(Row {
                episode,
                t,
                action: Some(action),
                state,
                obs: probe.observation(),
                reward: Some(step.reward),
                terminated: step.terminated,
                truncated: step.truncated,
                violated: step.violated,
                scores: probe.scores(),
            })?;
            if step.terminated || step.truncated {
                if !autoreset {
                    break;
                }
                (episode, t) = (episode + 1, 0);
                probe.next_episode();
                emit(start(probe, episode))?;
            }
        }
        warn_of_capped_steps(capped);
        held.iter().flatten().try_for_each(show)
    }
}

fn parse_state(text: &str, spec: &EnvSpec) -> Result<Vec<f64>, Failure> {
    text.split(',')
        .map(|part| {
            let part = part.trim();
            part.parse().map_err(|_| {
                let names = spec.state_names.join(",");
                Failure::input(format!("--state has '{part}', but must be numbers for {names} of {}", spec.name))
            })
        })
        .collect()
}

fn parse_actions(text: &str, spec: &EnvSpec) -> Result<Source, Failure> {
    let Some(count) = text.strip_prefix("policy:").or_else(|| text.strip_prefix("random:")) else {
        let path = Path::new(text);
        let bytes = files::read(path)?;
        let content = String::from_utf8(bytes).map_err(|_| Failure::input(format!("{text} is not text")))?;
        // Some editors begin a file with an invisible byte order mark.
        return parse_action_rows(content.trim_start_matches('\u{feff}'), text, spec)
            .map(|actions| Source::Given { path: text.to_owned(), actions });
    };
    let count = crate::args::count(count).map(|count| Source::Policy(count as u64));
    count.map_err(|_| {
        Failure::input(format!("--actions is '{text}', but must be a file, policy:T or random:T with T of at least 1"))
    })
}

/// Rows of comma-separated numbers; blank lines and lines that start with `#` are passed over.
fn parse_action_rows(content: &str, path: &str, spec: &EnvSpec) -> Result<Vec<(usize, Vec<f64>)>, Failure> {
    let components = spec.action.components();
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(content.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: String| Failure::input(format!("{path}, line {number}: {why}"));
        let cells: Vec<_> = line.split(',').map(str::trim).collect();
        if cells.len() != components {
            return Err(wrong(format!("{} columns, but an action of {} has {components}", cells.len(), spec.name)));
        }
        let row = (1..)
            .zip(cells)
            .map(|(column, cell)| {
                let value = cell.parse::<f64>().ok().filter(|value| value.is_finite());
                value.ok_or_else(|| {
                    wrong(format!("column {column} is '{}', but must be a finite number", cell.escape_debug()))
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        check_action(spec, &row).map_err(|error| wrong(error.to_string()))?;
        rows.push((number, row));
    }
    if rows.is_empty() {
        return Err(Failure::input(format!("{path} holds no actions, but must have a row for each step")));
    }
    Ok(rows)
}
