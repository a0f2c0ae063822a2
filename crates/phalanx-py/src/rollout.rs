//! Many steps in one call: under a built-in policy or an array of actions, with all arrays or statistics only.

use std::time::{Duration, Instant};

use numpy::{IntoPyArray, PyArrayMethods};
use phalanx_core::batch::{Autoreset, Batch, Reset, StepOut};
use phalanx_core::rollout::TILE;
use phalanx_core::space::{ActionMask, ActionSpace, EnvSpec};
use phalanx_core::stats::{EpisodeStats, MeanStd};
use phalanx_lab::case::rule_of_thumb;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::actions::{ActionBuffer, in_step};
use crate::engine::Inner;
use crate::error::to_python;
use crate::frame::{Hidden, Layout, ObsVec};

/// How long the engine works before Ctrl-C is looked for, about.
const PATIENCE: Duration = Duration::from_millis(100);

/// Makes `steps` steps in chunks of `chunk`; one that takes long is cut, so that Ctrl-C is heard.
pub(crate) fn run<'py>(
    py: Python<'py>,
    inner: &mut Inner,
    steps: usize,
    (chunk, tile): (Option<usize>, Option<usize>),
    (policy, arguments): (&str, &[(String, String)]),
    actions: Option<&Bound<'py, PyAny>>,
    record: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let n = inner.layout.num_envs;
    let chunk = chunk.unwrap_or_else(|| rule_of_thumb(n));
    if chunk == 0 || steps == 0 {
        let what = if steps == 0 { "steps" } else { "scan_chunk_size" };
        return Err(PyValueError::new_err(format!("{what} is 0, but must be at least 1")));
    }
    let result = PyDict::new(py);
    let stats;
    let start = Instant::now();
    let mut made = 0;
    if actions.is_none() && !record {
        inner.begin_rollout(policy, arguments, tile.unwrap_or(TILE)).map_err(to_python)?;
        inner.rollout().1.take_stats();
        let mut pace = Pace::default();
        while made < steps {
            let now = pace.steps().min(chunk).min(steps - made);
            let start = Instant::now();
            inner.run(py, |inner| {
                let (batch, rollout) = inner.rollout();
                batch.advance(rollout, now)
            })?;
            pace.note(now, start.elapsed());
            made += now;
            if let Err(interrupt) = py.check_signals() {
                inner.run(py, |inner| inner.catch_up(made as u64))?;
                return Err(interrupt);
            }
        }
        let rollout = inner.rollout().1;
        result.set_item("checksum", format!("{:016x}", rollout.checksum()))?;
        stats = rollout.take_stats();
    } else {
        if inner.autoreset() != Autoreset::SameStep {
            return Err(PyValueError::new_err(format!(
                "autoreset_mode is {:?}, but must be SameStep to record steps or to take given actions in a roll-out",
                inner.autoreset()
            )));
        }
        let mut given = None;
        if let Some(actions) = actions {
            let spec = inner.batch()?.spec();
            let mut buffer = ActionBuffer::new(spec);
            // With the interpreter's lock, under which nobody writes to the array; all else is done without it.
            buffer.read(actions, spec, &[steps, n])?;
            inner.run(py, |inner| buffer.check(inner.batch_mut().spec(), steps, n))?;
            given = Some(buffer);
        }
        if record {
            check_room(&inner.layout, inner.batch()?.spec(), steps)?;
        }
        let mut tape = inner.run(py, |inner| Tape::new(inner, steps, record))?;
        if given.is_none() {
            inner.begin_rollout(policy, arguments, TILE).map_err(to_python)?;
        }
        let earlier = *inner.batch()?.stats();
        // Whether a move is legal shows only when it is made; then all that went before is undone.
        let masked = given.is_some() && inner.batch()?.spec().action_mask == ActionMask::Binding;
        let before = masked.then(|| inner.batch().map(Batch::snapshot)).transpose()?;
        while made < steps {
            let (end, start) = (steps.min(made + chunk), Instant::now());
            made = inner.run(py, |inner| {
                let mut step = made;
                while step < end && (step == made || start.elapsed() < PATIENCE) {
                    let policy = given.as_ref().map_or(Decider::Policy, Decider::Given);
                    if let Err(error) = tape.step(inner, step, policy) {
                        if let Some(before) = &before {
                            inner.batch_mut().restore(before)?;
                        }
                        return Err(in_step(step, error));
                    }
                    step += 1;
                }
                Ok(step)
            })?;
            if let Err(interrupt) = py.check_signals() {
                inner.run(py, |inner| inner.catch_up(made as u64))?;
                return Err(interrupt);
            }
        }
        stats = inner.batch()?.stats().since(&earlier);
        if record {
            tape.into_arrays(&result, steps, given, inner.batch()?.spec())?;
        }
    }
    let wall = start.elapsed().as_secs_f64();
    inner.run(py, |inner| inner.catch_up(made as u64))?;
    describe(inner.batch()?.spec(), &stats, &result)?;
    result.set_item("steps", steps)?;
    result.set_item("num_envs", n)?;
    result.set_item("scan_chunk_size", chunk)?;
    result.set_item("wall_seconds", wall)?;
    result.set_item("steps_per_second", (steps * n) as f64 / wall)?;
    Ok(result)
}

/// How many steps take about as long as one may wait, found out with more and more of them.
#[derive(Default)]
struct Pace {
    steps: Option<usize>,
}

impl Pace {
    fn steps(&self) -> usize {
        self.steps.unwrap_or(1)
    }

    fn note(&mut self, made: usize, took: Duration) {
        let possible = (made as f64 * PATIENCE.as_secs_f64() / took.as_secs_f64().max(1e-9)) as usize;
        self.steps = Some(possible.clamp(1, made.saturating_mul(16)));
    }
}

/// Refuses arrays that would not fit into memory: systems promise more than they have, and end who takes it.
fn check_room(layout: &Layout, spec: &EnvSpec, steps: usize) -> PyResult<()> {
    let n = layout.num_envs;
    let action = size_of::<i32>() + if spec.action.is_discrete() { size_of::<i64>() } else { 0 };
    let cost = if spec.constraints.is_empty() { 0 } else { size_of::<u32>() + size_of::<f64>() };
    let per_step = layout.obs_bytes() + n * (size_of::<f32>() + 2 + cost + spec.action.components() * action);
    let bytes = steps.checked_add(1).and_then(|rows| rows.checked_mul(per_step));
    let what = format!("a recorded roll-out of {steps} steps x {n} environments");
    let needed =
        bytes.map_or_else(|| format!("{:.1e} bytes", steps as f64 * per_step as f64), |b| format!("{b} bytes"));
    let refused = |there: String| {
        PyMemoryError::new_err(format!("{what} needs {needed}, but {there}: record fewer steps at a time"))
    };
    if let Some(available) = phalanx_lab::memory::available_bytes()
        && bytes.is_none_or(|bytes| bytes as u64 > available)
    {
        return Err(refused(format!("{available} are available")));
    }
    if bytes.is_none_or(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_err()) {
        return Err(refused("there are not as many".to_owned()));
    }
    Ok(())
}

/// What the episodes of a roll-out came to.
fn describe(spec: &EnvSpec, stats: &EpisodeStats, result: &Bound<'_, PyDict>) -> PyResult<()> {
    let put = |name: &str, spread: Option<MeanStd>| {
        result.set_item(format!("{name}_mean"), spread.map(|spread| spread.mean))?;
        result.set_item(format!("{name}_std"), spread.map(|spread| spread.std))
    };
    result.set_item("episodes", stats.episodes())?;
    put("return", stats.returns())?;
    put("length", stats.lengths())?;
    if !spec.constraints.is_empty() {
        put("cost", stats.costs())?;
        let violations = PyDict::new(result.py());
        for (constraint, steps) in spec.constraints.iter().zip(stats.violations()) {
            violations.set_item(constraint.name.as_ref(), steps)?;
        }
        result.set_item("violations", violations)?;
    }
    let counters = PyDict::new(result.py());
    for (name, count) in spec.counters.iter().zip(stats.counts()) {
        counters.set_item(name, count)?;
    }
    result.set_item("counters", counters)?;
    let scores = PyDict::new(result.py());
    for (i, name) in spec.scores.iter().enumerate() {
        scores.set_item(name, stats.scores().map(|means| means[i]))?;
    }
    result.set_item("scores", scores)
}

/// Where a step's actions come from.
#[derive(Clone, Copy)]
enum Decider<'a> {
    Policy,
    Given(&'a ActionBuffer),
}

/// The arrays of a roll-out: of all steps, or only of the current one.
struct Tape {
    layout: Layout,
    records: bool,
    /// If recorded, one row of environments more than steps: the first are what there was before.
    obs: ObsVec,
    rewards: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    costs: Vec<u32>,
    /// What a policy chose.
    chosen: ActionBuffer,
    finals: ObsVec,
    /// Step and environment of each last observation.
    final_places: Vec<i64>,
    hidden: Hidden,
}

impl Tape {
    fn new(inner: &mut Inner, steps: usize, records: bool) -> phalanx_core::Result<Self> {
        let layout = inner.layout.clone();
        let batch = inner.batch_mut();
        let spec = batch.spec();
        let (n, rows) = (layout.num_envs, if records { steps } else { 1 });
        let mut obs = ObsVec::new(layout.element, (rows + usize::from(records)) * n * layout.dim);
        batch.observe_into(obs.rows(0, n * layout.dim))?;
        Ok(Self {
            obs,
            rewards: vec![0.0; rows * n],
            terminated: vec![false; rows * n],
            truncated: vec![false; rows * n],
            costs: vec![0; if spec.constraints.is_empty() { 0 } else { rows * n }],
            chosen: ActionBuffer::zeros(spec, rows * n),
            finals: ObsVec::new(layout.element, 0),
            final_places: Vec::new(),
            hidden: Hidden::new(&layout, spec),
            records,
            layout,
        })
    }

    fn step(&mut self, inner: &mut Inner, step: usize, decider: Decider<'_>) -> phalanx_core::Result<()> {
        let (n, dim) = (self.layout.num_envs, self.layout.dim);
        let row = if self.records { step } else { 0 };
        let here = row * n..(row + 1) * n;
        let (batch, actions) = match decider {
            Decider::Policy => {
                let (batch, rollout) = inner.rollout();
                let components = batch.spec().action.components();
                batch.decide_into(rollout, self.chosen.rows_mut(here.start * components, n * components))?;
                let actions = self.chosen.of_step(batch.spec(), n, row);
                (batch, actions)
            }
            Decider::Given(actions) => {
                let batch = inner.batch_mut();
                let actions = actions.of_step(batch.spec(), n, step);
                (batch, actions)
            }
        };
        let out = StepOut {
            obs: self.obs.rows((row + usize::from(self.records)) * n * dim, n * dim),
            rewards: &mut self.rewards[here.clone()],
            terminated: &mut self.terminated[here.clone()],
            truncated: &mut self.truncated[here.clone()],
            violations: &mut self.hidden.violations,
            final_obs: self.hidden.final_obs.all(),
            final_returns: &mut self.hidden.final_returns,
            final_lengths: &mut self.hidden.final_lengths,
            final_costs: &mut self.hidden.final_costs,
        };
        batch.step_into(actions, out)?;
        let ends: Vec<usize> =
            (0..n).filter(|env| self.terminated[here.start + env] | self.truncated[here.start + env]).collect();
        if self.records {
            for (cost, violated) in self.costs.iter_mut().skip(here.start).zip(&self.hidden.violations) {
                *cost = violated.count_ones();
            }
            for &env in &ends {
                self.finals.push_row(&self.hidden.final_obs, env, dim);
                self.final_places.extend([step as i64, env as i64]);
            }
        }
        // Where the batch does not start episodes by itself, because others look at their ends.
        if !ends.is_empty() && batch.autoreset() == Autoreset::Disabled {
            let done: Vec<bool> = here.map(|at| self.terminated[at] | self.truncated[at]).collect();
            batch
                .reset_into(Reset::Mask(&done), self.obs.rows((row + usize::from(self.records)) * n * dim, n * dim))?;
        }
        Ok(())
    }

    fn into_arrays(
        self,
        result: &Bound<'_, PyDict>,
        steps: usize,
        given: Option<ActionBuffer>,
        spec: &EnvSpec,
    ) -> PyResult<()> {
        let (py, n) = (result.py(), self.layout.num_envs);
        let axes: Vec<usize> = self.layout.obs_shape[1..].iter().map(|axis| *axis as usize).collect();
        let shaped = |lead: &[usize]| [lead, &axes].concat();
        result.set_item("observations", self.obs.into_array(py, shaped(&[steps + 1, n]))?)?;
        let ends = self.final_places.len() / 2;
        result.set_item("final_observations", self.finals.into_array(py, shaped(&[ends]))?)?;
        result.set_item("final_places", self.final_places.into_pyarray(py).reshape([ends, 2])?)?;
        result.set_item("rewards", self.rewards.into_pyarray(py).reshape([steps, n])?)?;
        result.set_item("terminations", self.terminated.into_pyarray(py).reshape([steps, n])?)?;
        result.set_item("truncations", self.truncated.into_pyarray(py).reshape([steps, n])?)?;
        if !self.costs.is_empty() {
            let costs: Vec<f64> = py.detach(|| self.costs.iter().map(|cost| f64::from(*cost)).collect());
            result.set_item("costs", costs.into_pyarray(py).reshape([steps, n])?)?;
        }
        let components = match &spec.action {
            ActionSpace::Discrete { .. } => vec![],
            ActionSpace::MultiDiscrete { .. } | ActionSpace::Box { .. } => vec![spec.action.components()],
        };
        let shape = [&[steps, n][..], &components].concat();
        result.set_item("actions", given.unwrap_or(self.chosen).into_array(py, shape)?)
    }
}
