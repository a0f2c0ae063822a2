//! `phalanx trace`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use phalanx_core::policy::Policy;
use phalanx_core::probe::{PolicyMemory, Precision, Probe, check_action};
use phalanx_core::safety::action_names;
use phalanx_core::space::{ActionSpace, EnvSpec};
use phalanx_envs::registry;
use serde::Serialize;

use crate::args::{Format, TraceArgs};
use crate::failure::Failure;
use crate::files;

/// Where the actions come from.
enum Source {
    /// So many from the policy.
    Policy(u64),
    /// These.
    Given(Vec<Vec<f64>>),
}

/// One line of a trace; a reset has no action and no reward.
struct Row {
    episode: u64,
    t: u64,
    action: Option<Vec<f64>>,
    state: Vec<f64>,
    obs: Vec<f32>,
    reward: Option<f64>,
    terminated: bool,
    truncated: bool,
    violated: u32,
}

pub(crate) fn run(args: &TraceArgs) -> Result<(), Failure> {
    let precision = Precision::from(args.precision);
    let mut probe = registry::find(&args.env.env)?.probe(&args.env.config(), precision)?;
    let source = parse_actions(&args.actions, probe.spec())?;
    let policy = if args.actions.starts_with("random:") {
        Policy::parse("random", &[], probe.spec())?
    } else {
        args.policy.parse(probe.spec())?
    };
    if let Some(text) = &args.state {
        probe.set_state(&parse_state(text, probe.spec())?)?;
    }
    let out = BufWriter::new(io::stdout().lock());
    let mut printer = Printer { out, spec: probe.spec().clone(), precision };
    printer.begin(args.format, probe.as_ref()).map_err(Failure::stdout)?;
    trace(probe.as_mut(), (&source, &policy), args.autoreset, |row| {
        printer.row(args.format, row).map_err(Failure::stdout)
    })?;
    printer.end(args.format).map_err(Failure::stdout)
}

fn trace(
    probe: &mut dyn Probe,
    (source, policy): (&Source, &Policy),
    autoreset: bool,
    mut emit: impl FnMut(&Row) -> Result<(), Failure>,
) -> Result<(), Failure> {
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
    };
    let mut memory = PolicyMemory::default();
    let (mut episode, mut t) = (0, 0);
    emit(&start(probe, episode))?;
    let total = match source {
        Source::Policy(steps) => *steps,
        Source::Given(actions) => actions.len() as u64,
    };
    for tick in 0..total {
        let action = match source {
            Source::Policy(_) => probe.decide(policy, tick, &mut memory)?,
            Source::Given(actions) => actions[tick as usize].clone(),
        };
        let step = probe.step(&action)?;
        t += 1;
        let row = Row {
            episode,
            t,
            action: Some(action),
            state: probe.state(),
            obs: probe.observation(),
            reward: Some(step.reward),
            terminated: step.terminated,
            truncated: step.truncated,
            violated: step.violated,
        };
        emit(&row)?;
        if step.terminated || step.truncated {
            if !autoreset {
                break;
            }
            (episode, t) = (episode + 1, 0);
            probe.next_episode();
            emit(&start(probe, episode))?;
        }
    }
    Ok(())
}

/// A number that prints as the shortest text that reads back as the same number of its precision.
#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
enum Number {
    Index(i64),
    Single(f32),
    Double(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(value) => value.fmt(f),
            Self::Single(value) => value.fmt(f),
            Self::Double(value) => value.fmt(f),
        }
    }
}

/// The JSON document but for its steps.
#[derive(Serialize)]
struct Head<'a> {
    env: &'a str,
    params: BTreeMap<&'a str, Number>,
    options: BTreeMap<&'a str, &'a str>,
    max_steps: u32,
    state_names: &'a [&'a str],
    obs_names: &'a [&'a str],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    constraints: Vec<&'a str>,
}

/// A row as JSON.
#[derive(Serialize)]
struct JsonRow<'a> {
    episode: u64,
    t: u64,
    action: Option<JsonAction>,
    state: Vec<Number>,
    obs: &'a [f32],
    reward: Option<Number>,
    terminated: bool,
    truncated: bool,
    /// For environments with constraints, after the first step.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    violated: Option<Vec<&'a str>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum JsonAction {
    Index(Number),
    Components(Vec<Number>),
}

struct Printer<W: Write> {
    out: W,
    spec: EnvSpec,
    precision: Precision,
}

impl<W: Write> Printer<W> {
    fn begin(&mut self, format: Format, probe: &dyn Probe) -> io::Result<()> {
        if format == Format::Json {
            let head = Head {
                env: self.spec.name,
                params: probe.params().into_iter().map(|(name, value)| (name, self.number(value))).collect(),
                options: self.spec.options.iter().map(|o| (o.name, o.value.as_ref())).collect(),
                max_steps: self.spec.max_steps,
                state_names: self.spec.state_names,
                obs_names: self.spec.observation.names,
                constraints: self.spec.constraints.iter().map(|c| c.name.as_ref()).collect(),
            };
            let head = serde_json::to_string(&head)?;
            // The steps follow one by one, so that a long trace takes no memory.
            return write!(self.out, "{},\"steps\":[", head.strip_suffix('}').expect("an object ends so"));
        }
        let actions = action_names(&self.spec.action).into_iter();
        let states = self.spec.state_names.iter().map(|name| format!("state.{name}"));
        let named = self.spec.observation.names.iter().map(|name| format!("obs.{name}"));
        // The cells of an array have numbers only.
        let numbered = (named.len()..self.spec.observation.dim()).map(|i| format!("obs.{i}"));
        let columns: Vec<_> = actions.chain(states).chain(named).chain(numbered).collect();
        let mut ends = vec!["reward".to_owned(), "terminated".to_owned(), "truncated".to_owned()];
        if !self.spec.constraints.is_empty() {
            ends.push("cost".to_owned());
            ends.extend(self.spec.constraints.iter().map(|c| format!("cost.{}", c.name)));
        }
        writeln!(self.out, "episode,t,{},{}", columns.join(","), ends.join(","))
    }

    fn row(&mut self, format: Format, row: &Row) -> io::Result<()> {
        let state: Vec<_> = row.state.iter().map(|value| self.number(*value)).collect();
        let reward = row.reward.map(|reward| self.number(reward));
        let action: Option<Vec<_>> =
            row.action.as_ref().map(|action| action.iter().map(|value| self.action_number(*value)).collect());
        if format == Format::Json {
            let discrete = matches!(self.spec.action, ActionSpace::Discrete { .. });
            let action = action
                .map(|action| if discrete { JsonAction::Index(action[0]) } else { JsonAction::Components(action) });
            let Row { episode, t, terminated, truncated, ref obs, .. } = *row;
            let judged = !self.spec.constraints.is_empty() && reward.is_some();
            let names = self.spec.constraints.iter().map(|c| c.name.as_ref()).enumerate();
            let violated =
                judged.then(|| names.filter(|(i, _)| row.violated >> i & 1 == 1).map(|(_, name)| name).collect());
            let cost = judged.then(|| row.violated.count_ones());
            self.out.write_all(if t == 0 && episode == 0 { b"\n" } else { b",\n" })?;
            return Ok(serde_json::to_writer(
                &mut self.out,
                &JsonRow { episode, t, action, state, obs, reward, terminated, truncated, cost, violated },
            )?);
        }
        let actions = match action {
            Some(action) => action.iter().map(Number::to_string).collect(),
            None => vec![String::new(); self.spec.action.components()],
        };
        let cells: Vec<_> = actions
            .into_iter()
            .chain(state.iter().map(Number::to_string))
            .chain(row.obs.iter().map(f32::to_string))
            .collect();
        let mut ends = vec![
            reward.map(|reward| reward.to_string()).unwrap_or_default(),
            row.terminated.to_string(),
            row.truncated.to_string(),
        ];
        if !self.spec.constraints.is_empty() {
            ends.push(row.violated.count_ones().to_string());
            ends.extend((0..self.spec.constraints.len()).map(|i| (row.violated >> i & 1).to_string()));
        }
        writeln!(self.out, "{},{},{},{}", row.episode, row.t, cells.join(","), ends.join(","))
    }

    fn end(&mut self, format: Format) -> io::Result<()> {
        if format == Format::Json {
            writeln!(self.out, "\n]}}")?;
        }
        self.out.flush()
    }

    fn number(&self, value: f64) -> Number {
        match self.precision {
            Precision::F32 => Number::Single(value as f32),
            Precision::F64 => Number::Double(value),
        }
    }

    fn action_number(&self, value: f64) -> Number {
        if self.spec.action.is_discrete() { Number::Index(value as i64) } else { self.number(value) }
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
        return parse_action_rows(content.trim_start_matches('\u{feff}'), text, spec).map(Source::Given);
    };
    let count = crate::args::count(count).map(|count| Source::Policy(count as u64));
    count.map_err(|_| {
        Failure::input(format!("--actions is '{text}', but must be a file or policy:T with T of at least 1"))
    })
}

/// Rows of comma-separated numbers; blank lines and lines that start with `#` are passed over.
fn parse_action_rows(content: &str, path: &str, spec: &EnvSpec) -> Result<Vec<Vec<f64>>, Failure> {
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
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(Failure::input(format!("{path} holds no actions, but must have a row for each step")));
    }
    Ok(rows)
}
