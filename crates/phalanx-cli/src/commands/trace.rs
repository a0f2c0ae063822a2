//! `phalanx trace`.

use std::io::{BufWriter, Write};
use std::path::Path;

use phalanx_core::probe::{Precision, Probe, check_action};
use phalanx_core::space::{ActionSpace, EnvSpec};
use phalanx_envs::registry;
use serde_json::{Map, Value, json};

use crate::args::{Format, TraceArgs};
use crate::failure::Failure;
use crate::files;

/// Where the actions come from.
enum Source {
    /// So many from the random policy.
    Random(u64),
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
}

pub(crate) fn run(args: &TraceArgs) -> Result<(), Failure> {
    let precision = Precision::from(args.precision);
    let mut probe = registry::find(&args.env)?.probe(&args.params.settings, args.seed, precision)?;
    let source = parse_actions(&args.actions, probe.spec())?;
    if let Some(text) = &args.state {
        probe.set_state(&parse_state(text, probe.spec())?)?;
    }
    let out = BufWriter::new(std::io::stdout().lock());
    let mut printer = Printer { out, spec: probe.spec().clone(), precision };
    printer.begin(args.format, probe.as_ref()).map_err(Failure::stdout)?;
    trace(probe.as_mut(), &source, args.autoreset, |row| printer.row(args.format, row).map_err(Failure::stdout))?;
    printer.end(args.format).map_err(Failure::stdout)
}

fn trace(
    probe: &mut dyn Probe,
    source: &Source,
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
    };
    let (mut episode, mut t) = (0, 0);
    emit(&start(probe, episode))?;
    let total = match source {
        Source::Random(steps) => *steps,
        Source::Given(actions) => actions.len() as u64,
    };
    for tick in 0..total {
        let action = match source {
            Source::Random(_) => probe.random_action(tick),
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

struct Printer<W: Write> {
    out: W,
    spec: EnvSpec,
    precision: Precision,
}

impl<W: Write> Printer<W> {
    fn begin(&mut self, format: Format, probe: &dyn Probe) -> std::io::Result<()> {
        if format == Format::Json {
            let params: Map<String, Value> = probe.params().into_iter().map(|(name, value)| (name.to_owned(), self.number(value))).collect();
            let options: Map<String, Value> = self.spec.options.iter().map(|o| (o.name.to_owned(), json!(o.value))).collect();
            let head = json!({
                "env": self.spec.name,
                "params": params,
                "options": options,
                "max_steps": self.spec.max_steps,
                "state_names": self.spec.state_names,
                "obs_names": self.spec.observation.names,
            });
            let head = head.to_string();
            return write!(self.out, "{},\"steps\":[", &head[..head.len() - 1]);
        }
        let components = self.spec.action.components();
        let actions = (0..components).map(|k| if components == 1 { "action".to_owned() } else { format!("action.{k}") });
        let states = self.spec.state_names.iter().map(|name| format!("state.{name}"));
        let observations = self.spec.observation.names.iter().map(|name| format!("obs.{name}"));
        let columns: Vec<_> = actions.chain(states).chain(observations).collect();
        writeln!(self.out, "episode,t,{},reward,terminated,truncated", columns.join(","))
    }

    fn row(&mut self, format: Format, row: &Row) -> std::io::Result<()> {
        if format == Format::Json {
            let first = row.t == 0 && row.episode == 0;
            let action = row.action.as_deref().map_or(Value::Null, |action| match self.spec.action {
                ActionSpace::Discrete { .. } => json!(action[0] as i64),
                ActionSpace::Box { .. } => json!(action.iter().map(|value| self.number(*value)).collect::<Vec<_>>()),
            });
            let value = json!({
                "episode": row.episode,
                "t": row.t,
                "action": action,
                "state": row.state.iter().map(|value| self.number(*value)).collect::<Vec<_>>(),
                "obs": row.obs,
                "reward": row.reward.map(|reward| self.number(reward)),
                "terminated": row.terminated,
                "truncated": row.truncated,
            });
            return write!(self.out, "{}\n{value}", if first { "" } else { "," });
        }
        let actions = match &row.action {
            Some(action) => action.iter().map(|value| self.number(*value).to_string()).collect(),
            None => vec![String::new(); self.spec.action.components()],
        };
        let states = row.state.iter().map(|value| self.number(*value).to_string());
        let observations = row.obs.iter().map(f32::to_string);
        let cells: Vec<_> = actions.into_iter().chain(states).chain(observations).collect();
        let reward = row.reward.map(|reward| self.number(reward).to_string()).unwrap_or_default();
        writeln!(self.out, "{},{},{},{reward},{},{}", row.episode, row.t, cells.join(","), row.terminated, row.truncated)
    }

    fn end(&mut self, format: Format) -> std::io::Result<()> {
        if format == Format::Json {
            writeln!(self.out, "\n]}}")?;
        }
        self.out.flush()
    }

    /// The shortest text that reads back as the same number of the trace's precision.
    fn number(&self, value: f64) -> Value {
        match self.precision {
            Precision::F32 => json!(value as f32),
            Precision::F64 => json!(value),
        }
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
    let Some(count) = text.strip_prefix("random:") else {
        let path = Path::new(text);
        let bytes = files::read(path)?;
        let content = String::from_utf8(bytes).map_err(|_| Failure::input(format!("{text} is not text")))?;
        return parse_action_rows(&content, text, spec).map(Source::Given);
    };
    let count = count.parse().ok().filter(|count| *count > 0);
    count.map(Source::Random).ok_or_else(|| Failure::input(format!("--actions is '{text}', but must be a file or random:T with T of at least 1")))
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
                value.ok_or_else(|| wrong(format!("column {column} is '{cell}', but must be a finite number")))
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
