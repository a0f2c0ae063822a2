//! The arrays that a step returns: fresh ones over used memory, or always the same.

use std::sync::Arc;

use numpy::npyffi::npy_intp;
use numpy::{IntoPyArray, PyArrayMethods};
use phalanx_core::batch::{ObsMut, StepOut};
use phalanx_core::space::{Element, EnvSpec};
use pyo3::prelude::*;

use crate::memory::{Block, Keeper, Shelf, aligned, array};

/// What the arrays of a batch look like.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) num_envs: usize,
    /// Components of an observation.
    pub(crate) dim: usize,
    pub(crate) element: Element,
    /// All environments, then the axes of an observation.
    pub(crate) obs_shape: Vec<npy_intp>,
}

impl Layout {
    pub(crate) fn new(spec: &EnvSpec, num_envs: usize) -> Self {
        let space = &spec.observation;
        let axes = space.shape.iter().map(|axis| *axis as npy_intp);
        Self {
            num_envs,
            dim: space.dim(),
            element: space.element,
            obs_shape: std::iter::once(num_envs as npy_intp).chain(axes).collect(),
        }
    }

    pub(crate) fn obs_bytes(&self) -> usize {
        self.num_envs * self.dim * element_bytes(self.element)
    }

    /// Where the flags lie behind the rewards: terminated, truncated, the end.
    fn flag_offsets(&self) -> (usize, usize, usize) {
        let terminated = aligned(self.num_envs * size_of::<f32>());
        let truncated = terminated + aligned(self.num_envs);
        (terminated, truncated, truncated + aligned(self.num_envs))
    }

    /// The array of observations over a keeper's block.
    pub(crate) fn obs_array<'py>(
        &self,
        keeper: &Bound<'py, Keeper>,
        shape: &[npy_intp],
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.element {
            Element::F32 => array::<f32>(keeper, 0, shape),
            Element::I8 => array::<i8>(keeper, 0, shape),
        }
    }
}

/// The size of a component of an observation.
pub(crate) fn element_bytes(element: Element) -> usize {
    match element {
        Element::F32 => size_of::<f32>(),
        Element::I8 => size_of::<i8>(),
    }
}

/// Observations of the type that an environment has.
#[derive(Debug)]
pub(crate) enum ObsVec {
    F32(Vec<f32>),
    I8(Vec<i8>),
}

impl ObsVec {
    pub(crate) fn new(element: Element, len: usize) -> Self {
        match element {
            Element::F32 => Self::F32(vec![0.0; len]),
            Element::I8 => Self::I8(vec![0; len]),
        }
    }

    pub(crate) fn all(&mut self) -> ObsMut<'_> {
        match self {
            Self::F32(obs) => ObsMut::F32(obs),
            Self::I8(obs) => ObsMut::I8(obs),
        }
    }

    /// `len` components from `start` on.
    pub(crate) fn rows(&mut self, start: usize, len: usize) -> ObsMut<'_> {
        match self {
            Self::F32(obs) => ObsMut::F32(&mut obs[start..start + len]),
            Self::I8(obs) => ObsMut::I8(&mut obs[start..start + len]),
        }
    }

    /// An array for Python.
    pub(crate) fn into_array(self, py: Python<'_>, shape: Vec<usize>) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Self::F32(obs) => obs.into_pyarray(py).reshape(shape)?.into_any(),
            Self::I8(obs) => obs.into_pyarray(py).reshape(shape)?.into_any(),
        })
    }

    /// Adds a row of another one.
    pub(crate) fn push_row(&mut self, from: &Self, row: usize, dim: usize) {
        let row = row * dim..(row + 1) * dim;
        match (self, from) {
            (Self::F32(to), Self::F32(from)) => to.extend_from_slice(&from[row]),
            (Self::I8(to), Self::I8(from)) => to.extend_from_slice(&from[row]),
            _ => unreachable!("of one environment"),
        }
    }
}

/// What a step writes and nobody sees as it is.
#[derive(Debug)]
pub(crate) struct Hidden {
    pub(crate) final_obs: ObsVec,
    pub(crate) final_returns: Vec<f32>,
    pub(crate) final_lengths: Vec<u32>,
    pub(crate) final_costs: Vec<u32>,
    pub(crate) violations: Vec<u32>,
    /// The flags of the last step: what Python sees of them is a copy, which Python may write to at any time.
    pub(crate) terminated: Vec<bool>,
    pub(crate) truncated: Vec<bool>,
}

impl Hidden {
    pub(crate) fn new(layout: &Layout, spec: &EnvSpec) -> Self {
        let n = layout.num_envs;
        let safe = if spec.constraints.is_empty() { 0 } else { n };
        Self {
            final_obs: ObsVec::new(layout.element, n * layout.dim),
            final_returns: vec![0.0; n],
            final_lengths: vec![0; n],
            final_costs: vec![0; safe],
            violations: vec![0; safe],
            terminated: vec![false; n],
            truncated: vec![false; n],
        }
    }
}

/// The memory of one step's results.
///
/// A fresh frame is the call's own until Python gets it as arrays. The one of `copy=False` has been Python's since it was
/// made, and the engine writes to it without the interpreter's lock: that no other thread reads or writes those arrays
/// during a call is what users promise who ask for `copy=False` (`PhalanxVectorEnv` and LIMITS.md say so). Writing elsewhere
/// first would need no promise, but a copy of all observations, which is what they asked to be spared. A promise that is
/// broken spoils numbers only: any bits are a number, the engine never reads the frame to go on, and flags, of which not all
/// bits are values, are kept apart in [`Hidden`].
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    obs: *mut u8,
    flags: *mut u8,
}

// SAFETY: pointers to blocks that outlive the call, and only one call of an engine runs at a time.
unsafe impl Send for Frame {}

impl Frame {
    /// # Safety
    ///
    /// The frame's blocks must be alive, of this layout, and used by nobody else for as long as the result is.
    pub(crate) unsafe fn out<'a>(self, layout: &Layout, hidden: &'a mut Hidden) -> StepOut<'a> {
        // SAFETY: within the block by the layout.
        let rewards = unsafe { std::slice::from_raw_parts_mut(self.flags.cast(), layout.num_envs) };
        StepOut {
            // SAFETY: as the caller promises.
            obs: unsafe { self.obs(layout) },
            rewards,
            terminated: &mut hidden.terminated,
            truncated: &mut hidden.truncated,
            violations: &mut hidden.violations,
            final_obs: hidden.final_obs.all(),
            final_returns: &mut hidden.final_returns,
            final_lengths: &mut hidden.final_lengths,
            final_costs: &mut hidden.final_costs,
        }
    }

    /// Shows the flags of a step that was made.
    ///
    /// # Safety
    ///
    /// As for [`Frame::out`].
    pub(crate) unsafe fn put_flags(self, layout: &Layout, hidden: &Hidden) {
        let (n, (terminated, truncated, _)) = (layout.num_envs, layout.flag_offsets());
        // SAFETY: within the block by the layout; the engine's own memory is another.
        unsafe {
            self.flags.add(terminated).copy_from_nonoverlapping(hidden.terminated.as_ptr().cast(), n);
            self.flags.add(truncated).copy_from_nonoverlapping(hidden.truncated.as_ptr().cast(), n);
        }
    }

    /// # Safety
    ///
    /// As for [`Frame::out`], by which the frame must have been filled, but others may read.
    pub(crate) unsafe fn rewards<'a>(self, layout: &Layout) -> &'a [f32] {
        // SAFETY: within the block by the layout; all bits are values.
        unsafe { std::slice::from_raw_parts(self.flags.cast(), layout.num_envs) }
    }

    /// # Safety
    ///
    /// As for [`Frame::rewards`].
    pub(crate) unsafe fn seen<'a>(self, layout: &Layout) -> ObsRef<'a> {
        let len = layout.num_envs * layout.dim;
        // SAFETY: the block has room for as many components.
        unsafe {
            match layout.element {
                Element::F32 => ObsRef::F32(std::slice::from_raw_parts(self.obs.cast(), len)),
                Element::I8 => ObsRef::I8(std::slice::from_raw_parts(self.obs.cast(), len)),
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Frame::out`].
    pub(crate) unsafe fn obs<'a>(self, layout: &Layout) -> ObsMut<'a> {
        let len = layout.num_envs * layout.dim;
        // SAFETY: the block has room for as many components, of either type all bits are values.
        unsafe {
            match layout.element {
                Element::F32 => ObsMut::F32(std::slice::from_raw_parts_mut(self.obs.cast(), len)),
                Element::I8 => ObsMut::I8(std::slice::from_raw_parts_mut(self.obs.cast(), len)),
            }
        }
    }
}

/// Observations that were written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ObsRef<'a> {
    F32(&'a [f32]),
    I8(&'a [i8]),
}

impl ObsRef<'_> {
    pub(crate) fn reals(&self) -> Vec<f32> {
        match self {
            Self::F32(obs) => obs.to_vec(),
            Self::I8(obs) => obs.iter().map(|cell| f32::from(*cell)).collect(),
        }
    }
}

/// Where frames come from.
pub(crate) enum Frames {
    /// Each is new to Python.
    Fresh { obs: Arc<Shelf>, flags: Arc<Shelf> },
    /// There is one, and its arrays are always the same.
    Fixed { obs: Py<Keeper>, flags: Py<Keeper>, arrays: [Py<PyAny>; 4] },
}

/// A frame that is being filled.
pub(crate) struct Filling {
    pub(crate) frame: Frame,
    fresh: Option<(Block, Block)>,
}

impl Frames {
    pub(crate) fn new(py: Python<'_>, layout: &Layout, copy: bool) -> PyResult<Self> {
        let (obs, flags) = (Shelf::new(layout.obs_bytes()), Shelf::new(layout.flag_offsets().2));
        if copy {
            return Ok(Self::Fresh { obs, flags });
        }
        let (obs, flags) = (Keeper::new(py, obs.take(), &obs)?, Keeper::new(py, flags.take(), &flags)?);
        let arrays = arrays(layout, &obs, &flags)?.map(Bound::unbind);
        Ok(Self::Fixed { obs: obs.unbind(), flags: flags.unbind(), arrays })
    }

    pub(crate) fn begin(&self) -> Filling {
        match self {
            Self::Fresh { obs, flags } => {
                let blocks = (obs.take(), flags.take());
                Filling { frame: Frame { obs: blocks.0.start(), flags: blocks.1.start() }, fresh: Some(blocks) }
            }
            Self::Fixed { obs, flags, .. } => {
                Filling { frame: Frame { obs: obs.get().start(), flags: flags.get().start() }, fresh: None }
            }
        }
    }

    /// Observations, rewards and both kinds of flags, for Python.
    pub(crate) fn arrays<'py>(
        &self,
        py: Python<'py>,
        layout: &Layout,
        filled: Filling,
    ) -> PyResult<[Bound<'py, PyAny>; 4]> {
        match (self, filled.fresh) {
            (Self::Fresh { obs, flags }, Some((obs_block, flag_block))) => {
                arrays(layout, &Keeper::new(py, obs_block, obs)?, &Keeper::new(py, flag_block, flags)?)
            }
            (Self::Fixed { arrays, .. }, _) => Ok(arrays.each_ref().map(|array| array.bind(py).clone())),
            (Self::Fresh { .. }, None) => unreachable!("filled by `begin`"),
        }
    }

    /// Observations alone.
    pub(crate) fn obs_array<'py>(
        &self,
        py: Python<'py>,
        layout: &Layout,
        filled: Filling,
    ) -> PyResult<Bound<'py, PyAny>> {
        match (self, filled.fresh) {
            (Self::Fresh { obs, .. }, Some((block, _))) => {
                layout.obs_array(&Keeper::new(py, block, obs)?, &layout.obs_shape)
            }
            (Self::Fixed { arrays, .. }, _) => Ok(arrays[0].bind(py).clone()),
            (Self::Fresh { .. }, None) => unreachable!("filled by `begin`"),
        }
    }
}

fn arrays<'py>(
    layout: &Layout,
    obs: &Bound<'py, Keeper>,
    flags: &Bound<'py, Keeper>,
) -> PyResult<[Bound<'py, PyAny>; 4]> {
    let (terminated, truncated, _) = layout.flag_offsets();
    let envs = [layout.num_envs as npy_intp];
    Ok([
        layout.obs_array(obs, &layout.obs_shape)?,
        array::<f32>(flags, 0, &envs)?,
        array::<bool>(flags, terminated, &envs)?,
        array::<bool>(flags, truncated, &envs)?,
    ])
}
