//! Many environments as Python holds them: a batch, its arrays, and the rules of Gymnasium around them.

mod play;
mod snapshots;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Instant;

use numpy::{PyArray2, PyArray3, PyArrayMethods, PyReadonlyArray2, ToPyArray};
use phalanx_core::batch::{Autoreset, Batch, ObsMut, Reset};
use phalanx_core::rollout::Rollout;
use phalanx_core::space::{ActionMask, EnvSpec};
use phalanx_envs::draw::Moment;
use phalanx_envs::registry;
use pyo3::exceptions::{PyAttributeError, PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use self::play::Play;
use crate::actions::ActionBuffer;
use crate::error::{gymnasium, no_attribute, to_python};
use crate::frame::{Frame, Frames, Hidden, Layout, element_bytes};
use crate::info::{self, Shown};
use crate::recipe::{self, Choices, Recipe};
use crate::render::Pictures;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(env_ids, module)?)?;
    module.add_function(wrap_pyfunction!(env_spec, module)?)?;
    module.add_function(wrap_pyfunction!(cores, module)?)?;
    module.add_class::<Engine>()
}

/// The names of all environments.
#[pyfunction]
fn env_ids() -> Vec<&'static str> {
    registry::all().iter().map(|entry| entry.spec().name).collect()
}

/// What is known of an environment with its default settings, as JSON.
#[pyfunction]
fn env_spec(id: &str) -> PyResult<String> {
    spec_text(&recipe::find(id).map_err(to_python)?.spec())
}

/// Threads that can run at once here.
#[pyfunction]
fn cores() -> usize {
    recipe::cores()
}

fn spec_text(spec: &EnvSpec) -> PyResult<String> {
    serde_json::to_string(spec).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// The native half of a vector environment.
#[pyclass(frozen, module = "phalanx._phalanx")]
pub(crate) struct Engine {
    inner: Mutex<Inner>,
}

/// What is used by one thread at a time.
pub(crate) struct Inner {
    recipe: Recipe,
    /// None when the environment is closed.
    batch: Option<Box<dyn Batch>>,
    /// The process that started the batch's threads.
    process: u32,
    /// What the user asked for. The batch itself may be told not to start episodes, so that their ends can be looked at.
    autoreset: Autoreset,
    was_reset: bool,
    broken: bool,
    pub(crate) layout: Layout,
    pub(crate) actions: ActionBuffer,
    frames: Frames,
    pub(crate) hidden: Hidden,
    pub(crate) shown: Shown,
    /// Where the last step ended an episode.
    pub(crate) done: Vec<bool>,
    /// Where an episode has ended and the next call begins a new one, or must not be made.
    pub(crate) ended: Vec<bool>,
    /// Where the last call began an episode instead of making a step.
    pub(crate) skipped: Vec<bool>,
    pub(crate) any_done: bool,
    steps: u64,
    pictures: Option<Pictures>,
    play: Play,
}

fn parse_autoreset(name: &str) -> PyResult<Autoreset> {
    match name {
        "NextStep" => Ok(Autoreset::NextStep),
        "SameStep" => Ok(Autoreset::SameStep),
        "Disabled" => Ok(Autoreset::Disabled),
        _ => Err(PyValueError::new_err(format!(
            "autoreset_mode is '{name}', but must be 'NextStep', 'SameStep' or 'Disabled'"
        ))),
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (id, num_envs, *, autoreset, seed=0, settings=vec![], safety="enforce", constraints=vec![],
                        threads=None, copy=true, episode_stats=false, dense_finals=false, pictures=false,
                        time_limit=true))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a constructor that only Python calls")]
    fn new(
        py: Python<'_>,
        id: &str,
        num_envs: usize,
        autoreset: &str,
        seed: u64,
        settings: Vec<(String, String)>,
        safety: &str,
        constraints: Vec<String>,
        threads: Option<usize>,
        copy: bool,
        episode_stats: bool,
        dense_finals: bool,
        pictures: bool,
        time_limit: bool,
    ) -> PyResult<Self> {
        let autoreset = parse_autoreset(autoreset)?;
        let choices =
            Choices { num_envs, seed, autoreset, settings, safety, constraints: &constraints, threads, time_limit };
        let mut recipe = Recipe::new(id, choices).map_err(to_python)?;
        let spec = py.detach(|| recipe.spec()).map_err(to_python)?;
        // The mask of a finished episode can only be asked for while its last state is still there.
        if spec.action_mask != ActionMask::None && autoreset == Autoreset::SameStep {
            recipe = recipe.with_autoreset(Autoreset::Disabled);
        }
        check_room(&spec, num_envs)?;
        let batch = py.detach(|| recipe.build()).map_err(to_python)?;
        let spec = batch.spec();
        let layout = Layout::new(spec, num_envs);
        let inner = Inner {
            process: std::process::id(),
            autoreset,
            was_reset: false,
            broken: false,
            actions: ActionBuffer::new(spec),
            frames: Frames::new(py, &layout, copy)?,
            hidden: Hidden::new(&layout, spec),
            shown: Shown::new(spec, num_envs, episode_stats, dense_finals),
            done: vec![false; num_envs],
            ended: vec![false; num_envs],
            skipped: vec![false; num_envs],
            any_done: false,
            steps: 0,
            pictures: pictures.then(|| Pictures::new(recipe.entry.draw, num_envs)),
            play: Play::default(),
            layout,
            batch: Some(batch),
            recipe,
        };
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// Names, spaces, parameters, options and limits as JSON.
    fn spec(&self) -> PyResult<String> {
        spec_text(self.lock()?.batch()?.spec())
    }

    /// Threads that share the work.
    #[getter]
    fn threads(&self) -> PyResult<usize> {
        Ok(self.lock()?.batch()?.threads())
    }

    /// Steps that environments have made; to start an episode is none.
    #[getter]
    fn steps(&self) -> PyResult<u64> {
        Ok(self.lock()?.steps)
    }

    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(self.lock()?.batch.is_none())
    }

    /// Whether a reset without a seed needs one, because there was none before.
    #[getter]
    fn needs_seed(&self) -> PyResult<bool> {
        Ok(!self.lock()?.was_reset)
    }

    /// Ends threads and frees state. Arrays that were returned stay as they are.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut inner = self.lock()?;
        inner.leave_threads_of_other_processes();
        let (batch, play) = (inner.batch.take(), std::mem::take(&mut inner.play));
        inner.pictures = None;
        py.detach(|| drop((batch, play)));
        Ok(())
    }

    /// Starts episodes: everywhere or where `mask` says, from seeds (`first_seed`, `first_seed + 1`, ... or a list) or
    /// where the streams are. Those that have never begun do so first with the seed `begin`, since the others of a mask must
    /// be there as well.
    #[pyo3(signature = (first_seed=None, seeds=None, mask=None, begin=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        first_seed: Option<u64>,
        seeds: Option<Vec<Option<u64>>>,
        mask: Option<Vec<bool>>,
        begin: Option<u64>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        let mut inner = self.lock()?;
        inner.check_usable()?;
        let n = inner.layout.num_envs;
        let seeds = match first_seed {
            Some(first) => Some(seeds_from(first, n).map_err(to_python)?.map(Some).collect()),
            None => seeds,
        };
        let filling = inner.frames.begin();
        let frame = filling.frame;
        let (seeds, mask) = (seeds.as_deref(), mask.as_deref());
        inner.run(py, move |inner| {
            inner.begin_first(begin)?;
            inner.start(seeds, mask, frame)
        })?;
        let info = info::of_reset(py, &inner, mask)?;
        Ok((inner.frames.obs_array(py, &inner.layout, filling)?, info))
    }

    /// Steps all environments.
    fn step<'py>(&self, py: Python<'py>, actions: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let mut inner = self.lock()?;
        let n = inner.layout.num_envs;
        inner.prepare(|spec, buffer| buffer.read(actions, spec, &[n]))?;
        let filling = inner.frames.begin();
        let frame = filling.frame;
        inner.run(py, move |inner| inner.step(frame))?;
        let [obs, rewards, terminated, truncated] = inner.frames.arrays(py, &inner.layout, filling)?;
        let info = info::of_step(py, &inner, &rewards)?;
        (obs, rewards, terminated, truncated, info).into_pyobject(py)
    }

    /// Steps the only environment and returns scalars.
    fn step_one<'py>(&self, py: Python<'py>, action: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let mut inner = self.lock()?;
        inner.prepare(|spec, buffer| buffer.read_one(action, spec))?;
        let filling = inner.frames.begin();
        let frame = filling.frame;
        inner.run(py, move |inner| inner.step(frame))?;
        // SAFETY: the frame of a single environment is never shown to Python, and it is looked at only here.
        let (obs, rewards) = unsafe { (frame.seen(&inner.layout), frame.rewards(&inner.layout)) };
        let obs = info::row(py, &inner.layout, &obs)?;
        let info = info::of_one_step(py, &inner, rewards[0])?;
        let (terminated, truncated) = (inner.hidden.terminated[0], inner.hidden.truncated[0]);
        (obs, f64::from(rewards[0]), terminated, truncated, info).into_pyobject(py)
    }

    /// Starts an episode of the only environment.
    #[pyo3(signature = (seed=None))]
    fn reset_one<'py>(&self, py: Python<'py>, seed: Option<u64>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        let mut inner = self.lock()?;
        inner.check_usable()?;
        let filling = inner.frames.begin();
        let frame = filling.frame;
        let seeds = seed.map(|seed| [Some(seed)]);
        let seeds = seeds.as_ref().map(|seeds| &seeds[..]);
        inner.run(py, move |inner| inner.start(seeds, None, frame))?;
        // SAFETY: as in `step_one`.
        let obs = unsafe { frame.seen(&inner.layout) };
        Ok((info::row(py, &inner.layout, &obs)?, info::of_one_reset(py, &inner)?))
    }

    /// Which actions are legal now: a row for each environment.
    fn action_masks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<bool>>> {
        let mut inner = self.lock()?;
        inner.check_usable()?;
        let Some(len) = inner.shown.mask_len else {
            let name = inner.batch()?.spec().name;
            return Err(PyAttributeError::new_err(format!(
                "{name} has no action masks: every action is always allowed"
            )));
        };
        inner.run(py, Inner::look_at_masks)?;
        inner.shown.masks.to_pyarray(py).reshape([inner.layout.num_envs, len])
    }

    /// A picture of each environment.
    fn render<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyArray3<u8>>>> {
        let inner = self.lock()?;
        let batch = inner.sound_batch()?;
        let Some(pictures) = &inner.pictures else {
            return Err(PyRuntimeError::new_err("there are no pictures without render_mode='rgb_array'"));
        };
        let draw = |env: usize| {
            let image = pictures.picture(env, batch).map_err(to_python)?;
            let image = image.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
            image.bytes().to_pyarray(py).reshape([image.height(), image.width(), 3])
        };
        (0..inner.layout.num_envs).map(draw).collect()
    }

    /// The state of each environment, a row each.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let inner = self.lock()?;
        let batch = inner.sound_batch()?;
        let n = inner.layout.num_envs;
        let mut rows = Vec::new();
        for env in 0..n {
            rows.extend(batch.state(env).map_err(to_python)?);
        }
        rows.to_pyarray(py).reshape([n, rows.len() / n])
    }

    /// Sets states, where `mask` says or everywhere; all or none. Environments that have never begun do so first, with the
    /// seed `begin`.
    #[pyo3(signature = (states, mask=None, begin=None))]
    fn set_state(
        &self,
        py: Python<'_>,
        states: PyReadonlyArray2<'_, f64>,
        mask: Option<Vec<bool>>,
        begin: Option<u64>,
    ) -> PyResult<()> {
        let states = states.as_array();
        let rows: Vec<Vec<f64>> = states.rows().into_iter().map(|row| row.to_vec()).collect();
        let mut inner = self.lock()?;
        inner.check_usable()?;
        inner.run(py, |inner| inner.set_states(&rows, mask.as_deref(), begin))
    }

    /// The value of a parameter in each environment.
    fn param(&self, name: &str) -> PyResult<Vec<f64>> {
        let inner = self.lock()?;
        let batch = inner.sound_batch()?;
        (0..inner.layout.num_envs).map(|env| batch.param(name, env).map_err(no_attribute)).collect()
    }

    /// Sets a parameter: one value for all, or one for each.
    fn set_param(&self, py: Python<'_>, name: &str, values: Vec<f64>) -> PyResult<()> {
        let mut inner = self.lock()?;
        inner.check_usable()?;
        // Asked for first, since an unknown name is another mistake here than in a constructor.
        inner.batch()?.param(name, 0).map_err(no_attribute)?;
        inner.run(py, |inner| inner.batch_mut().set_param(name, &values))
    }

    /// Everything needed to go on from here.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut inner = self.lock()?;
        inner.check_usable()?;
        let bytes = inner.run(py, |inner| Ok(inner.snapshot()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Goes back to a snapshot, everywhere or where `mask` says, or refuses it and stays.
    #[pyo3(signature = (snapshot, mask=None))]
    fn restore(&self, py: Python<'_>, snapshot: &[u8], mask: Option<Vec<bool>>) -> PyResult<()> {
        let mut inner = self.lock()?;
        inner.check_usable()?;
        inner.run(py, |inner| inner.restore(snapshot, mask.as_deref()))
    }

    /// Many steps under a policy or an array of actions; see `phalanx.rollout`.
    #[pyo3(signature = (steps, *, chunk=None, tile=None, policy="random", arguments=vec![], actions=None, record=false))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a method that only Python calls")]
    fn rollout<'py>(
        &self,
        py: Python<'py>,
        steps: usize,
        chunk: Option<usize>,
        tile: Option<usize>,
        policy: &str,
        arguments: Vec<(String, String)>,
        actions: Option<&Bound<'py, PyAny>>,
        record: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut inner = self.lock()?;
        inner.check_usable()?;
        crate::rollout::run(py, &mut inner, steps, (chunk, tile), (policy, &arguments), actions, record)
    }

    /// Panics where a step would, for the test that a panic is not the end of the process.
    fn _panic(&self, py: Python<'_>) -> PyResult<()> {
        self.lock()?.run(py, |_| panic!("on request"))
    }

    fn __repr__(&self) -> String {
        match self.lock() {
            Ok(inner) => format!(
                "<Engine of {} {}, {:?}>",
                inner.layout.num_envs,
                inner.recipe.entry.spec().name,
                inner.autoreset
            ),
            Err(_) => "<Engine at work>".to_owned(),
        }
    }
}

impl Engine {
    fn lock(&self) -> PyResult<MutexGuard<'_, Inner>> {
        match self.inner.try_lock() {
            Ok(inner) => Ok(inner),
            // A panic is noted where it happens.
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(PyRuntimeError::new_err(
                "this environment is in use by another thread: an environment can do one thing at a time",
            )),
        }
    }
}

impl Inner {
    /// The batch of an environment that is not closed.
    pub(crate) fn batch(&self) -> PyResult<&dyn Batch> {
        self.batch.as_deref().ok_or_else(|| gymnasium("ClosedEnvironmentError", "this environment is closed"))
    }

    /// The batch of an environment that is neither closed nor broken.
    fn sound_batch(&self) -> PyResult<&dyn Batch> {
        let batch = self.batch()?;
        if self.broken {
            return Err(PyRuntimeError::new_err(
                "this environment cannot be used any more: it failed in an earlier call",
            ));
        }
        Ok(batch)
    }

    /// The batch; callers have checked that there is one.
    pub(crate) fn batch_mut(&mut self) -> &mut dyn Batch {
        self.batch.as_deref_mut().expect("checked at the door")
    }

    pub(crate) fn autoreset(&self) -> Autoreset {
        self.autoreset
    }

    fn check_usable(&mut self) -> PyResult<()> {
        self.sound_batch()?;
        self.survive_fork().map_err(to_python)
    }

    /// All that a step needs before it may change anything.
    #[inline]
    fn prepare(&mut self, read: impl FnOnce(&EnvSpec, &mut ActionBuffer) -> PyResult<()>) -> PyResult<()> {
        self.check_usable()?;
        if !self.was_reset {
            return Err(gymnasium("ResetNeeded", "call reset before the first step"));
        }
        let spec = self.batch.as_deref().expect("checked above").spec();
        read(spec, &mut self.actions)?;
        if self.autoreset == Autoreset::Disabled && self.any_done {
            let ended = self.ended.iter().enumerate().filter(|(_, ended)| **ended).map(|(env, _)| env.to_string());
            let ended: Vec<_> = ended.collect();
            if !ended.is_empty() {
                return Err(gymnasium(
                    "ResetNeeded",
                    format!(
                        "reset the environments {} before you step again: their episodes have ended",
                        ended.join(", ")
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Does something without the interpreter's lock; a panic becomes an exception.
    pub(crate) fn run<T: Send>(
        &mut self,
        py: Python<'_>,
        work: impl FnOnce(&mut Self) -> phalanx_core::Result<T> + Send,
    ) -> PyResult<T> {
        match py.detach(|| catch_unwind(AssertUnwindSafe(|| work(self)))) {
            Ok(outcome) => outcome.map_err(to_python),
            Err(payload) => {
                self.broken = true;
                let message = panic_text(payload.as_ref());
                Err(PyRuntimeError::new_err(format!("the engine failed, and with it this environment: {message}")))
            }
        }
    }

    /// In a child of the process that made the batch there are no worker threads: the batch is built anew with its state.
    fn survive_fork(&mut self) -> phalanx_core::Result<()> {
        let Some(batch) = &self.batch else { return Ok(()) };
        if batch.threads() == 1 || self.process == std::process::id() {
            return Ok(());
        }
        let snapshot = batch.snapshot();
        self.leave_threads_of_other_processes();
        let mut batch = self.recipe.build()?;
        batch.restore(&snapshot)?;
        self.batch = Some(batch);
        self.process = std::process::id();
        Ok(())
    }

    /// Lets go of a batch of another process without waiting for its threads, which are not here.
    fn leave_threads_of_other_processes(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.batch.take());
        }
    }

    fn start(
        &mut self,
        seeds: Option<&[Option<u64>]>,
        mask: Option<&[bool]>,
        frame: Frame,
    ) -> phalanx_core::Result<()> {
        let all_seeds: Option<Vec<u64>> =
            seeds.filter(|_| mask.is_none()).and_then(|seeds| seeds.iter().copied().collect());
        let everywhere;
        let reset = match (seeds, mask, &all_seeds) {
            (_, _, Some(seeds)) => Reset::Seeds(seeds),
            (None, None, _) => Reset::All,
            (None, Some(mask), _) => Reset::Mask(mask),
            (Some(seeds), mask, None) => {
                everywhere = vec![true; if mask.is_none() { self.layout.num_envs } else { 0 }];
                Reset::Reseed { mask: mask.unwrap_or(&everywhere), seeds }
            }
        };
        // SAFETY: the blocks are alive and of this layout, and this call's own: see `Frame`.
        let obs = unsafe { frame.obs(&self.layout) };
        let batch = self.batch.as_deref_mut().expect("checked at the door");
        batch.reset_into(reset, obs)?;
        self.was_reset = true;
        self.play.end();
        let everywhere = mask.is_none_or(|mask| !mask.contains(&false));
        if everywhere && seeds.is_some_and(|seeds| seeds.iter().all(Option::is_some)) {
            // All streams are new, and so are the random actions.
            self.play = Play::default();
        }
        self.any_done = false;
        self.done.fill(false);
        self.begin_episodes(mask);
        self.look_around(mask)
    }

    /// Begins an episode everywhere if there never was one, for what is then done to some environments only.
    fn begin_first(&mut self, seed: Option<u64>) -> phalanx_core::Result<()> {
        let Some(first) = seed.filter(|_| !self.was_reset) else { return Ok(()) };
        let seeds: Vec<u64> = seeds_from(first, self.layout.num_envs)?.collect();
        // Nobody looks at these observations, and no episode has ended that could have last ones.
        let Self { batch, hidden, .. } = self;
        batch.as_deref_mut().expect("checked at the door").reset_into(Reset::Seeds(&seeds), hidden.final_obs.all())
    }

    /// Looks again at what is known of the environments besides their observations, after those in `mask` have changed.
    fn look_around(&mut self, mask: Option<&[bool]>) -> phalanx_core::Result<()> {
        let batch = self.batch.as_deref().expect("checked at the door");
        batch.ended_into(&mut self.ended)?;
        self.any_done |= self.ended.contains(&true);
        let needs_rows = self.pictures.is_some() || self.shown.is_a_game;
        let obs = if needs_rows { observed(batch, &self.layout)? } else { Vec::new() };
        if let Some(pictures) = &mut self.pictures {
            for env in 0..self.layout.num_envs {
                if mask.is_none_or(|mask| mask[env]) {
                    pictures.forget(env);
                    let observation = obs[env * self.layout.dim..(env + 1) * self.layout.dim].to_vec();
                    pictures.note(env, batch, Moment { observation, ..Moment::default() })?;
                }
            }
        }
        if self.shown.is_a_game {
            self.shown.look_whose_turn(&obs, self.layout.dim);
        }
        self.look_at_masks()
    }

    fn look_at_masks(&mut self) -> phalanx_core::Result<()> {
        if self.shown.mask_len.is_some() {
            self.batch.as_deref().expect("checked at the door").action_masks_into(&mut self.shown.masks)?;
        }
        Ok(())
    }

    fn step(&mut self, frame: Frame) -> phalanx_core::Result<()> {
        let Self { batch, actions, layout, hidden, .. } = self;
        let batch = batch.as_deref_mut().expect("checked at the door");
        let n = layout.num_envs;
        // SAFETY: the blocks are alive and of this layout, and this call's own: see `Frame`.
        let out = unsafe { frame.out(layout, hidden) };
        let actions = actions.of_step(batch.spec(), n, 0);
        batch.step_into(actions, out)?;
        // SAFETY: as above.
        unsafe { frame.put_flags(layout, hidden) };
        std::mem::swap(&mut self.skipped, &mut self.ended);
        let mut any_done = false;
        for ((done, terminated), truncated) in self.done.iter_mut().zip(&hidden.terminated).zip(&hidden.truncated) {
            *done = terminated | truncated;
            any_done |= *done;
        }
        self.any_done = any_done;
        match self.autoreset {
            Autoreset::SameStep => self.ended.fill(false),
            Autoreset::NextStep | Autoreset::Disabled => self.ended.copy_from_slice(&self.done),
        }
        self.steps += (n - count(&self.skipped)) as u64;
        if self.shown.any() || self.pictures.is_some() {
            return self.look_after(frame);
        }
        Ok(())
    }

    /// What a step entails besides its results: ends, masks, pictures.
    fn look_after(&mut self, frame: Frame) -> phalanx_core::Result<()> {
        let batch = self.batch.as_deref_mut().expect("checked at the door");
        let shown = &mut self.shown;
        if shown.counts_episodes() {
            shown.note_episodes(&self.done, &self.skipped, self.autoreset);
        }
        if let (true, ActionBuffer::Discrete(moves)) = (shown.is_a_game, &self.actions) {
            shown.look_for_fouls(moves);
        }
        let starts_here = self.autoreset == Autoreset::SameStep;
        if self.any_done && starts_here && batch.autoreset() == Autoreset::Disabled {
            batch.action_masks_into(&mut shown.final_masks)?;
            batch.observe_into(self.hidden.final_obs.all())?;
            // SAFETY: as in `step`, whose slices are gone.
            batch.reset_into(Reset::Mask(&self.done), unsafe { frame.obs(&self.layout) })?;
        }
        if shown.mask_len.is_some() {
            batch.action_masks_into(&mut shown.masks)?;
        }
        let needs_rows = self.pictures.is_some() || shown.is_a_game;
        if !needs_rows {
            return Ok(());
        }
        // SAFETY: as above.
        let obs = unsafe { frame.seen(&self.layout) }.reals();
        if shown.is_a_game {
            shown.look_whose_turn(&obs, self.layout.dim);
        }
        if let Some(pictures) = &mut self.pictures {
            let components = batch.spec().action.components();
            // SAFETY: as above.
            let rewards = unsafe { frame.rewards(&self.layout) };
            for env in 0..self.layout.num_envs {
                let observation = obs[env * self.layout.dim..(env + 1) * self.layout.dim].to_vec();
                let starts = self.skipped[env] || (starts_here && self.done[env]);
                let moment = if starts {
                    pictures.forget(env);
                    Moment { observation, ..Moment::default() }
                } else {
                    Moment {
                        observation,
                        action: self.actions.row(env, components),
                        reward: f64::from(rewards[env]),
                        terminated: self.hidden.terminated[env],
                        truncated: self.hidden.truncated[env],
                        ..Moment::default()
                    }
                };
                pictures.note(env, batch, moment)?;
            }
        }
        Ok(())
    }

    fn set_states(&mut self, rows: &[Vec<f64>], mask: Option<&[bool]>, begin: Option<u64>) -> phalanx_core::Result<()> {
        let n = self.layout.num_envs;
        check_len("the array of states", rows.len(), n)?;
        if let Some(mask) = mask {
            check_len("the mask", mask.len(), n)?;
        }
        let before = self.batch_mut().snapshot();
        self.begin_first(begin)?;
        let batch = self.batch_mut();
        for (env, row) in rows.iter().enumerate().filter(|(env, _)| mask.is_none_or(|mask| mask[*env])) {
            if let Err(error) = batch.set_state(env, row) {
                batch.restore(&before)?;
                return Err(error);
            }
        }
        self.was_reset = true;
        self.begin_episodes(mask);
        self.look_around(mask)
    }

    fn begin_episodes(&mut self, mask: Option<&[bool]>) {
        let now = Instant::now();
        for env in (0..self.layout.num_envs).filter(|env| mask.is_none_or(|mask| mask[*env])) {
            self.shown.begin_episode(env, now);
        }
    }

    /// Begins the roll-out of a policy, or lets it go on.
    pub(crate) fn begin_rollout(
        &mut self,
        policy: &str,
        arguments: &[(String, String)],
        tile: usize,
    ) -> phalanx_core::Result<()> {
        let batch = self.batch.as_deref().expect("checked at the door");
        self.play.begin(batch, policy, arguments, tile)
    }

    /// The batch and the roll-out that has begun.
    pub(crate) fn rollout(&mut self) -> (&mut dyn Batch, &mut Rollout) {
        (self.batch.as_deref_mut().expect("checked at the door"), self.play.current())
    }

    /// After many steps that nobody looked at.
    pub(crate) fn catch_up(&mut self, steps: u64) -> phalanx_core::Result<()> {
        self.was_reset = true;
        self.steps += steps * self.layout.num_envs as u64;
        self.any_done = false;
        // When the current episodes began was not noted, so that their seconds count from here.
        self.begin_episodes(None);
        self.look_around(None)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.leave_threads_of_other_processes();
    }
}

/// The seeds of `num_envs` environments, of which the first is given.
fn seeds_from(first: u64, num_envs: usize) -> phalanx_core::Result<impl Iterator<Item = u64>> {
    if first.checked_add(num_envs as u64 - 1).is_none() {
        let allowed = format!("at most 2**64 - {num_envs}: environment i of {num_envs} has the seed s + i");
        return Err(phalanx_core::Error::out_of_range("the seed", first, allowed));
    }
    Ok((0..num_envs as u64).map(move |i| first + i))
}

/// Refuses environments whose observations alone would not fit into memory.
fn check_room(spec: &EnvSpec, num_envs: usize) -> PyResult<()> {
    let Some(available) = phalanx_lab::memory::available_bytes() else { return Ok(()) };
    // Those that are returned and those of ends; states, which take more or less, are not counted.
    let row = spec.observation.dim() * element_bytes(spec.observation.element);
    let needed = 2 * row as u128 * num_envs as u128;
    if needed <= u128::from(available) {
        return Ok(());
    }
    Err(PyMemoryError::new_err(format!(
        "{num_envs} environments of {} need more than {needed} bytes, but {available} are available",
        spec.name
    )))
}

/// The number of set flags, a few bytes at a time, which is how the compiler makes lanes of it.
fn count(flags: &[bool]) -> usize {
    flags.chunks(255).map(|flags| usize::from(flags.iter().fold(0, |sum: u8, flag| sum + u8::from(*flag)))).sum()
}

fn check_len(what: &str, actual: usize, expected: usize) -> phalanx_core::Result<()> {
    if actual == expected {
        return Ok(());
    }
    Err(phalanx_core::Error::Length { what: what.to_owned(), actual, expected })
}

/// The observations now, as reals.
fn observed(batch: &dyn Batch, layout: &Layout) -> phalanx_core::Result<Vec<f32>> {
    let mut obs = crate::frame::ObsVec::new(layout.element, layout.num_envs * layout.dim);
    batch.observe_into(obs.all())?;
    Ok(match obs.all() {
        ObsMut::F32(obs) => obs.to_vec(),
        ObsMut::I8(obs) => obs.iter().map(|cell| f32::from(*cell)).collect(),
    })
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
