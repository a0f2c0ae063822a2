//! What a step says besides observation, reward and flags, laid out as Gymnasium's own vector environments do: an array
//! for each key, and under the same name with `_` before it a mask that says whose value it is.

use std::time::Instant;

use numpy::{IntoPyArray, PyArray1, PyArrayMethods, ToPyArray};
use phalanx_core::batch::Autoreset;
use phalanx_core::space::{ActionMask, EnvSpec};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::engine::Inner;
use crate::frame::{Layout, ObsRef, ObsVec};

/// What there is to say, and what is remembered for it.
#[derive(Debug)]
pub(crate) struct Shown {
    /// Flags of an action mask, if there are masks.
    pub(crate) mask_len: Option<usize>,
    pub(crate) masks: Vec<bool>,
    /// The masks of last states, where a new episode has begun in the same step.
    pub(crate) final_masks: Vec<bool>,
    /// Names of the constraints.
    constraints: Vec<String>,
    /// Whether two players move in turn.
    pub(crate) is_a_game: bool,
    /// Whose turn it is, 0 or 1, and whose it was before the step.
    turn: Vec<u8>,
    mover: Vec<u8>,
    /// Where the last move was illegal.
    fouls: Vec<bool>,
    /// Whether finished episodes are described.
    episode_stats: bool,
    /// When episodes began, and how many seconds the finished ones took.
    starts: Vec<Instant>,
    seconds: Vec<f64>,
    /// Whether last observations come without gaps.
    dense_finals: bool,
}

impl Shown {
    pub(crate) fn new(spec: &EnvSpec, num_envs: usize, episode_stats: bool, dense_finals: bool) -> Self {
        let mask_len = spec.action.mask_len().filter(|_| spec.action_mask != ActionMask::None);
        let cells = num_envs * mask_len.unwrap_or(0);
        let is_a_game = spec.name == "TicTacToe-v0";
        let timed = if episode_stats { num_envs } else { 0 };
        Self {
            mask_len,
            masks: vec![false; cells],
            final_masks: vec![false; cells],
            constraints: spec.constraints.iter().map(|constraint| constraint.name.to_string()).collect(),
            is_a_game,
            turn: vec![0; if is_a_game { num_envs } else { 0 }],
            mover: vec![0; if is_a_game { num_envs } else { 0 }],
            fouls: vec![false; if is_a_game { num_envs } else { 0 }],
            episode_stats,
            starts: vec![Instant::now(); timed],
            seconds: vec![0.0; timed],
            dense_finals,
        }
    }

    /// Whether every step has something to say.
    pub(crate) fn any(&self) -> bool {
        self.mask_len.is_some() || !self.constraints.is_empty() || self.is_a_game || self.episode_stats
    }

    pub(crate) fn counts_episodes(&self) -> bool {
        self.episode_stats
    }

    pub(crate) fn begin_episode(&mut self, env: usize, now: Instant) {
        if let Some(start) = self.starts.get_mut(env) {
            *start = now;
        }
    }

    /// Measures how long finished episodes took.
    pub(crate) fn note_episodes(&mut self, done: &[bool], skipped: &[bool], autoreset: Autoreset) {
        let now = Instant::now();
        for env in 0..done.len() {
            if done[env] {
                self.seconds[env] = (now - self.starts[env]).as_secs_f64();
            }
            if skipped[env] || (done[env] && autoreset == Autoreset::SameStep) {
                self.starts[env] = now;
            }
        }
    }

    /// Notes which moves were illegal, by the masks of before the step.
    pub(crate) fn look_for_fouls(&mut self, moves: &[i32]) {
        let masks = self.masks.chunks_exact(self.mask_len.unwrap_or(1));
        for ((foul, mask), action) in self.fouls.iter_mut().zip(masks).zip(moves) {
            *foul = !mask[*action as usize];
        }
    }

    pub(crate) fn look_whose_turn(&mut self, obs: &[f32], dim: usize) {
        std::mem::swap(&mut self.mover, &mut self.turn);
        for (turn, row) in self.turn.iter_mut().zip(obs.chunks_exact(dim)) {
            *turn = turn_of(row);
        }
    }

    /// Rewards of both players for a step that paid `reward` to the one who moved.
    fn both_rewards(&self, env: usize, reward: f32) -> [f32; 2] {
        // By an illegal move its mover loses and nobody wins.
        let other = if self.fouls[env] { 0.0 } else { 0.0 - reward };
        if self.mover[env] == 0 { [reward, other] } else { [other, reward] }
    }
}

/// X, player 0, moves first, so it is its turn when both have as many marks.
fn turn_of(board: &[f32]) -> u8 {
    let marks = |mark: f32| board[..9].iter().filter(|cell| **cell == mark).count();
    u8::from(marks(1.0) != marks(2.0))
}

/// The info of a step.
pub(crate) fn of_step<'py>(
    py: Python<'py>,
    inner: &Inner,
    rewards: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let info = PyDict::new(py);
    let shown = &inner.shown;
    let has_finals = inner.any_done && inner.autoreset() == Autoreset::SameStep;
    if !has_finals && !shown.any() {
        return Ok(info);
    }
    let n = inner.layout.num_envs;
    let stepped: Vec<bool> = inner.skipped.iter().map(|skipped| !skipped).collect();
    put_masks(&info, shown, &shown.masks, &vec![true; n])?;
    if shown.is_a_game {
        put_turns(&info, &shown.turn, &vec![true; n])?;
    }
    // Nothing is said of nobody.
    if stepped.contains(&true) {
        put_costs(&info, inner, &stepped)?;
        if shown.is_a_game {
            put_rewards(&info, shown, rewards, &stepped)?;
        }
    }
    if !inner.any_done {
        return Ok(info);
    }
    let (done, hidden) = (&inner.done, &inner.hidden);
    let kept = |value: &dyn Fn(usize) -> f64| of_ended(done, value);
    let costs = episode_costs(inner);
    if shown.episode_stats {
        let episode = PyDict::new(py);
        episode.set_item(intern!(py, "r"), kept(&|env| f64::from(hidden.final_returns[env])).into_pyarray(py))?;
        let lengths = (0..n).map(|env| if done[env] { i64::from(hidden.final_lengths[env]) } else { 0 });
        episode.set_item(intern!(py, "l"), lengths.collect::<Vec<_>>().into_pyarray(py))?;
        episode.set_item(intern!(py, "t"), kept(&|env| shown.seconds[env]).into_pyarray(py))?;
        if let Some(costs) = costs {
            episode.set_item(intern!(py, "c"), costs.into_pyarray(py))?;
        }
        put(&info, "episode", episode, done)?;
    } else if let Some(costs) = costs {
        put(&info, "episode_cost", costs.into_pyarray(py), done)?;
    }
    if has_finals {
        put_finals(&info, inner, rewards)?;
    }
    Ok(info)
}

/// The info of a reset, of all or of those in a mask.
pub(crate) fn of_reset<'py>(py: Python<'py>, inner: &Inner, mask: Option<&[bool]>) -> PyResult<Bound<'py, PyDict>> {
    let info = PyDict::new(py);
    let shown = &inner.shown;
    if shown.any() {
        let all = vec![true; inner.layout.num_envs];
        let chosen = mask.unwrap_or(&all);
        put_masks(&info, shown, &shown.masks, chosen)?;
        if shown.is_a_game {
            put_turns(&info, &shown.turn, chosen)?;
        }
    }
    Ok(info)
}

/// The info of a step of the only environment.
pub(crate) fn of_one_step<'py>(py: Python<'py>, inner: &Inner, reward: f32) -> PyResult<Bound<'py, PyDict>> {
    let shown = &inner.shown;
    if !shown.any() {
        return Ok(PyDict::new(py));
    }
    let info = of_one_reset(py, inner)?;
    if let Some(violated) = inner.hidden.violations.first() {
        info.set_item("cost", f64::from(violated.count_ones()))?;
        for (i, name) in shown.constraints.iter().enumerate() {
            info.set_item(format!("cost_{name}"), f64::from(violated >> i & 1))?;
        }
        info.set_item("violation", *violated != 0)?;
        if inner.any_done {
            info.set_item("episode_cost", f64::from(inner.hidden.final_costs[0]))?;
        }
    }
    if shown.is_a_game {
        info.set_item("rewards_all", shown.both_rewards(0, reward).to_pyarray(py))?;
    }
    Ok(info)
}

/// The info of a reset of the only environment.
pub(crate) fn of_one_reset<'py>(py: Python<'py>, inner: &Inner) -> PyResult<Bound<'py, PyDict>> {
    let (info, shown) = (PyDict::new(py), &inner.shown);
    if shown.mask_len.is_some() {
        let flags: Vec<i8> = shown.masks.iter().map(|legal| i8::from(*legal)).collect();
        info.set_item("action_mask", flags.into_pyarray(py))?;
    }
    if shown.is_a_game {
        info.set_item("to_move", i64::from(shown.turn[0]))?;
    }
    Ok(info)
}

/// An observation as an array of its own.
pub(crate) fn row<'py>(py: Python<'py>, layout: &Layout, obs: &ObsRef<'_>) -> PyResult<Bound<'py, PyAny>> {
    let shape = &layout.obs_shape[1..];
    Ok(match obs {
        ObsRef::F32(obs) if shape.len() == 1 => PyArray1::from_slice(py, obs).into_any(),
        ObsRef::F32(obs) => PyArray1::from_slice(py, obs).reshape(to_shape(shape))?.into_any(),
        ObsRef::I8(obs) => PyArray1::from_slice(py, obs).reshape(to_shape(shape))?.into_any(),
    })
}

fn to_shape(axes: &[isize]) -> Vec<usize> {
    axes.iter().map(|axis| *axis as usize).collect()
}

fn put<'py>(dict: &Bound<'py, PyDict>, key: &str, value: impl IntoPyObject<'py>, mask: &[bool]) -> PyResult<()> {
    dict.set_item(key, value)?;
    dict.set_item(format!("_{key}"), mask.to_pyarray(dict.py()))
}

fn put_masks(info: &Bound<'_, PyDict>, shown: &Shown, masks: &[bool], chosen: &[bool]) -> PyResult<()> {
    let Some(len) = shown.mask_len else { return Ok(()) };
    let flags = masks.iter().enumerate().map(|(i, legal)| i8::from(*legal && chosen[i / len]));
    let flags: Vec<i8> = flags.collect();
    put(info, "action_mask", flags.into_pyarray(info.py()).reshape([chosen.len(), len])?, chosen)
}

fn put_costs(info: &Bound<'_, PyDict>, inner: &Inner, chosen: &[bool]) -> PyResult<()> {
    let constraints = &inner.shown.constraints;
    if constraints.is_empty() {
        return Ok(());
    }
    let violated: Vec<u32> =
        inner.hidden.violations.iter().zip(chosen).map(|(bits, chosen)| if *chosen { *bits } else { 0 }).collect();
    let each = |value: &dyn Fn(u32) -> f64| violated.iter().map(|bits| value(*bits)).collect::<Vec<_>>();
    let py = info.py();
    put(info, "cost", each(&|bits| f64::from(bits.count_ones())).into_pyarray(py), chosen)?;
    for (i, name) in constraints.iter().enumerate() {
        put(info, &format!("cost_{name}"), each(&|bits| f64::from(bits >> i & 1)).into_pyarray(py), chosen)?;
    }
    let any: Vec<bool> = violated.iter().map(|bits| *bits != 0).collect();
    put(info, "violation", any.into_pyarray(py), chosen)
}

fn put_turns(info: &Bound<'_, PyDict>, turns: &[u8], chosen: &[bool]) -> PyResult<()> {
    let turns = turns.iter().zip(chosen).map(|(turn, chosen)| if *chosen { i64::from(*turn) } else { 0 });
    put(info, "to_move", turns.collect::<Vec<_>>().into_pyarray(info.py()), chosen)
}

fn put_rewards(info: &Bound<'_, PyDict>, shown: &Shown, rewards: &Bound<'_, PyAny>, chosen: &[bool]) -> PyResult<()> {
    let rewards = rewards.cast::<PyArray1<f32>>()?.to_vec()?;
    let both = |env: usize| if chosen[env] { shown.both_rewards(env, rewards[env]) } else { [0.0; 2] };
    let both: Vec<f32> = (0..chosen.len()).flat_map(both).collect();
    put(info, "rewards_all", both.into_pyarray(info.py()).reshape([chosen.len(), 2])?, chosen)
}

/// A value of each environment whose episode has ended, 0 of the others.
fn of_ended(done: &[bool], value: &dyn Fn(usize) -> f64) -> Vec<f64> {
    done.iter().enumerate().map(|(env, done)| if *done { value(env) } else { 0.0 }).collect()
}

/// What episodes that have ended cost, if anything can.
fn episode_costs(inner: &Inner) -> Option<Vec<f64>> {
    let costs = &inner.hidden.final_costs;
    (!costs.is_empty()).then(|| of_ended(&inner.done, &|env| f64::from(costs[env])))
}

/// Whose turn it would be in last states.
fn last_turns(inner: &Inner) -> Vec<u8> {
    match &inner.hidden.final_obs {
        ObsVec::F32(boards) => boards.chunks_exact(inner.layout.dim).map(turn_of).collect(),
        ObsVec::I8(_) => unreachable!("boards are real numbers"),
    }
}

/// The last observations and infos of episodes that have ended while new ones have begun.
fn put_finals(info: &Bound<'_, PyDict>, inner: &Inner, rewards: &Bound<'_, PyAny>) -> PyResult<()> {
    let (py, done, layout, shown) = (info.py(), &inner.done, &inner.layout, &inner.shown);
    let ends: Vec<usize> = (0..done.len()).filter(|env| done[*env]).collect();
    let mut rows = ObsVec::new(layout.element, 0);
    ends.iter().for_each(|env| rows.push_row(&inner.hidden.final_obs, *env, layout.dim));
    let mut shape = to_shape(&layout.obs_shape);
    shape[0] = ends.len();
    let dense = rows.into_array(py, shape)?;
    if shown.dense_finals {
        let indices: Vec<i64> = ends.iter().map(|env| *env as i64).collect();
        info.set_item("final_obs_dense", dense)?;
        info.set_item("final_indices", indices.into_pyarray(py))?;
    } else {
        let sparse = PyArray1::from_iter(py, done.iter().map(|_| py.None()));
        for (row, env) in ends.iter().enumerate() {
            sparse.set_item(env, dense.get_item(row)?)?;
        }
        put(info, "final_obs", sparse, done)?;
    }
    let last = PyDict::new(py);
    put_masks(&last, shown, &shown.final_masks, done)?;
    put_costs(&last, inner, done)?;
    if let Some(costs) = episode_costs(inner).filter(|_| !shown.episode_stats) {
        put(&last, "episode_cost", costs.into_pyarray(py), done)?;
    }
    if shown.is_a_game {
        put_rewards(&last, shown, rewards, done)?;
        put_turns(&last, &last_turns(inner), done)?;
    }
    put(info, "final_info", last, done)
}
