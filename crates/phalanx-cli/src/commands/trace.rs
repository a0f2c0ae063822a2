//! `phalanx trace`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufWriter, Write};

use phalanx_core::probe::Precision;
use phalanx_core::safety::action_names;
use phalanx_core::space::{ActionSpace, EnvSpec};
use phalanx_render::{ansi, raster};
use serde::Serialize;

use crate::args::{Format, TraceArgs};
use crate::commands::play::{Row, Run};
use crate::failure::Failure;

pub(crate) fn run(args: &TraceArgs) -> Result<(), Failure> {
    let mut run = Run::new(&args.play, args.precision.into())?;
    if args.render.is_some() {
        return watch(&mut run, args);
    }
    let out = BufWriter::new(io::stdout().lock());
    let mut printer = Printer { out, spec: run.spec().clone(), precision: args.precision.into() };
    let mut params = Some(run.params());
    run.play(args.autoreset, |row| {
        // With the first row, not before: a run that is refused has none.
        if let Some(params) = params.take() {
            printer.begin(args.format, params).map_err(Failure::stdout)?;
        }
        printer.row(args.format, row).map_err(Failure::stdout)
    })?;
    printer.end(args.format).map_err(Failure::stdout)
}

/// Draws every step as coloured text.
fn watch(run: &mut Run, args: &TraceArgs) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let (mut film, text, names) = (run.film(), run.entry().text, run.spec().scores);
    let constraints = run.spec().constraints.clone();
    run.play(args.autoreset, |row| {
        let drawing = match text {
            Some(text) => text(&film.view(row.moment())),
            None => {
                let image = raster::image(&film.scene(row.moment()), 1.0).map_err(Failure::picture)?;
                ansi::image(&image, args.columns)
            }
        };
        let reward = row.reward.map(|reward| format!("  reward {reward}")).unwrap_or_default();
        let end = match (row.terminated, row.truncated) {
            (true, _) => "  terminated",
            (_, true) => "  truncated",
            _ => "",
        };
        let scores: String = names.iter().zip(&row.scores).map(|(name, score)| format!("  {name} {score}")).collect();
        let broken = constraints.iter().enumerate().filter(|(i, _)| row.violated >> i & 1 == 1);
        let broken: Vec<_> = broken.map(|(_, constraint)| &*constraint.name).collect();
        let cost =
            if broken.is_empty() { String::new() } else { format!("  cost {} ({})", broken.len(), broken.join(", ")) };
        writeln!(out, "episode {} step {}{reward}{scores}{cost}{end}", row.episode, row.t).map_err(Failure::stdout)?;
        writeln!(out, "{drawing}").map_err(Failure::stdout)
    })?;
    out.flush().map_err(Failure::stdout)
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
    /// For environments with scores, where the state can be scored.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    scores: BTreeMap<&'a str, f32>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum JsonAction {
    Index(Number),
    Components(Vec<Number>),
}

/// A text as CSV has it: names such as grid[0,1] hold the separator, those of constraints can hold anything.
fn csv_cell(text: &str) -> String {
    let plain = !text.contains([',', '"', '\n', '\r']);
    if plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

struct Printer<W: Write> {
    out: W,
    spec: EnvSpec,
    precision: Precision,
}

impl<W: Write> Printer<W> {
    fn begin(&mut self, format: Format, params: Vec<(&'static str, f64)>) -> io::Result<()> {
        if format == Format::Json {
            let head = Head {
                env: self.spec.name,
                params: params.into_iter().map(|(name, value)| (name, self.number(value))).collect(),
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
        ends.extend(self.spec.scores.iter().map(|name| format!("score.{name}")));
        let names: Vec<_> = columns.iter().chain(&ends).map(|name| csv_cell(name)).collect();
        writeln!(self.out, "episode,t,{}", names.join(","))
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
            let scores = self.spec.scores.iter().copied().zip(row.scores.iter().copied()).collect();
            self.out.write_all(if t == 0 && episode == 0 { b"\n" } else { b",\n" })?;
            return Ok(serde_json::to_writer(
                &mut self.out,
                &JsonRow { episode, t, action, state, obs, reward, terminated, truncated, cost, violated, scores },
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
        let scores = (0..self.spec.scores.len()).map(|i| row.scores.get(i));
        ends.extend(scores.map(|score| score.map(f32::to_string).unwrap_or_default()));
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
