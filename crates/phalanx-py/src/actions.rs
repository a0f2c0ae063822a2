//! Actions as Python gives them, checked and in the form that the engine takes.

use std::fmt::Display;

use numpy::{
    Element, IntoPyArray, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use phalanx_core::Error;
use phalanx_core::batch::{Actions, ActionsMut};
use phalanx_core::space::{ActionSpace, EnvSpec};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

/// Room for actions.
#[derive(Debug)]
pub(crate) enum ActionBuffer {
    Discrete(Vec<i32>),
    Continuous(Vec<f32>),
}

impl ActionBuffer {
    pub(crate) fn new(spec: &EnvSpec) -> Self {
        if spec.action.is_discrete() { Self::Discrete(Vec::new()) } else { Self::Continuous(Vec::new()) }
    }

    /// Room for the actions of `envs` environments.
    pub(crate) fn zeros(spec: &EnvSpec, envs: usize) -> Self {
        let len = envs * spec.action.components();
        if spec.action.is_discrete() { Self::Discrete(vec![0; len]) } else { Self::Continuous(vec![0.0; len]) }
    }

    pub(crate) fn rows_mut(&mut self, start: usize, len: usize) -> ActionsMut<'_> {
        match self {
            Self::Discrete(indices) => ActionsMut::Discrete(&mut indices[start..start + len]),
            Self::Continuous(values) => ActionsMut::Continuous(&mut values[start..start + len]),
        }
    }

    /// An array for Python; whole numbers are NumPy's usual ones.
    pub(crate) fn into_array(self, py: Python<'_>, shape: Vec<usize>) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Self::Discrete(indices) => {
                let indices: Vec<i64> = py.detach(|| indices.into_iter().map(i64::from).collect());
                indices.into_pyarray(py).reshape(shape)?.into_any()
            }
            Self::Continuous(values) => values.into_pyarray(py).reshape(shape)?.into_any(),
        })
    }

    /// The actions of one step of `num_envs` environments, `step` steps after the first.
    pub(crate) fn of_step(&self, spec: &EnvSpec, num_envs: usize, step: usize) -> Actions<'_> {
        let len = num_envs * spec.action.components();
        match self {
            Self::Discrete(indices) => Actions::Discrete(&indices[step * len..(step + 1) * len]),
            Self::Continuous(values) => Actions::Continuous(&values[step * len..(step + 1) * len]),
        }
    }

    /// Checks the actions of all steps, as each step would its own.
    pub(crate) fn check(&self, spec: &EnvSpec, steps: usize, num_envs: usize) -> phalanx_core::Result<()> {
        (0..steps).try_for_each(|step| {
            self.of_step(spec, num_envs, step).check(spec, num_envs).map_err(|error| in_step(step, error))
        })
    }

    /// The action of an environment in the first step.
    pub(crate) fn row(&self, env: usize, components: usize) -> Vec<f64> {
        let row = env * components..(env + 1) * components;
        match self {
            Self::Discrete(indices) => indices[row].iter().map(|index| f64::from(*index)).collect(),
            Self::Continuous(values) => values[row].iter().map(|value| f64::from(*value)).collect(),
        }
    }

    /// Reads an array, or anything that NumPy makes one of, with the axes `lead` before those of an action.
    pub(crate) fn read(&mut self, given: &Bound<'_, PyAny>, spec: &EnvSpec, lead: &[usize]) -> PyResult<()> {
        let made;
        let array = match given.cast::<PyUntypedArray>() {
            Ok(array) => array,
            Err(_) => {
                made = to_array(given, None)?;
                &made
            }
        };
        let components = match &spec.action {
            ActionSpace::Discrete { .. } => None,
            ActionSpace::MultiDiscrete { sizes } => Some(sizes.len()),
            ActionSpace::Box { low, .. } => Some(low.len()),
        };
        if !array.shape().iter().eq(lead.iter().chain(&components)) {
            return Err(wrong_shape(array.shape(), lead, components, spec));
        }
        let kind = array.dtype().kind();
        match self {
            Self::Discrete(indices) => {
                if !matches!(kind, b'i' | b'u') {
                    if kind == b'O'
                        && let Some(error) = too_large(array)?
                    {
                        return Err(error);
                    }
                    return Err(wrong_type(array, spec, "whole numbers"));
                }
                read_indices(array, indices)
            }
            Self::Continuous(values) => {
                if !matches!(kind, b'f' | b'i' | b'u') {
                    return Err(wrong_type(array, spec, "real numbers"));
                }
                read_values(array, values)
            }
        }
    }

    /// Reads the action of the only environment.
    pub(crate) fn read_one(&mut self, given: &Bound<'_, PyAny>, spec: &EnvSpec) -> PyResult<()> {
        if let (Self::Discrete(indices), ActionSpace::Discrete { .. }) = (&mut *self, &spec.action) {
            // A bool is a whole number of Python, but no action, as in arrays.
            if given.is_instance_of::<PyBool>() {
                return Err(not_whole(given, spec));
            }
            let index: i64 = given.extract().map_err(|error: PyErr| {
                let is_too_large = error.is_instance_of::<PyOverflowError>(given.py());
                if is_too_large { beyond(0, given) } else { not_whole(given, spec) }
            })?;
            indices.clear();
            indices.push(to_index(index, 0)?);
            return Ok(());
        }
        self.read(given, spec, &[])
    }
}

fn to_index<T: Copy + Display + TryInto<i32>>(index: T, at: usize) -> PyResult<i32> {
    index.try_into().map_err(|_| beyond(at, index))
}

#[cold]
fn not_whole(given: &Bound<'_, PyAny>, spec: &EnvSpec) -> PyErr {
    let kind = given.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{} takes a whole number as its action, but was given {kind}", spec.name))
}

#[cold]
fn beyond(at: usize, index: impl Display) -> PyErr {
    PyValueError::new_err(format!("the action at place {at} is {index}, but must be one of the action space"))
}

// What the slices below rely on. `in_order` has shown that the memory is aligned and holds as many numbers of the type, and
// the array stays alive and in place, since we hold a reference and nothing is called meanwhile that could resize it. While
// a slice lives, this thread is attached to the interpreter and calls nothing of Python, so no Python code writes. Code
// that has let go of the interpreter (a NumPy kernel or another extension in another thread) could: that is a data race of
// its caller, as with any reader of a NumPy array, which we cannot exclude. It can spoil the numbers, not what follows from
// them: they are copied once, any bits are a number, and the engine checks the copy.

fn read_indices(array: &Bound<'_, PyUntypedArray>, indices: &mut Vec<i32>) -> PyResult<()> {
    indices.clear();
    if let Some(array) = in_order::<i64>(array) {
        // SAFETY: aligned, alive and of this type; no Python code runs while the slice lives, see above.
        let given = unsafe { array.as_slice() }?;
        indices.extend(given.iter().map(|index| *index as i32));
        // The fold has no early exit, so it runs in lanes; only bad input pays for the search.
        if given.iter().fold(false, |any, index| any | (*index != i64::from(*index as i32))) {
            given.iter().enumerate().try_for_each(|(at, index)| to_index(*index, at).map(drop))?;
        }
    } else if let Some(array) = in_order::<i32>(array) {
        // SAFETY: as above.
        indices.extend_from_slice(unsafe { array.as_slice() }?);
    } else if let Some(array) = in_order::<u64>(array) {
        // SAFETY: as above.
        for (at, index) in unsafe { array.as_slice() }?.iter().enumerate() {
            indices.push(to_index(*index, at)?);
        }
    } else {
        // The type that has room for all of the given one.
        let unsigned = array.dtype().kind() == b'u' && array.dtype().itemsize() == 8;
        return read_indices(&to_array(array.as_any(), Some(if unsigned { "uint64" } else { "int64" }))?, indices);
    }
    Ok(())
}

fn read_values(array: &Bound<'_, PyUntypedArray>, values: &mut Vec<f32>) -> PyResult<()> {
    values.clear();
    if let Some(array) = in_order::<f32>(array) {
        // SAFETY: aligned, alive and of this type; no Python code runs while the slice lives, see above.
        values.extend_from_slice(unsafe { array.as_slice() }?);
    } else if let Some(array) = in_order::<f64>(array) {
        // SAFETY: as above.
        values.extend(unsafe { array.as_slice() }?.iter().map(|value| *value as f32));
    } else {
        return read_values(&to_array(array.as_any(), Some("float64"))?, values);
    }
    Ok(())
}

/// The array, if its memory is a slice of this type with the last axis the fastest. (A transposed one is contiguous as
/// well, in another order; a view of bytes may lie where no number may.)
fn in_order<'a, 'py, T: Element>(array: &'a Bound<'py, PyUntypedArray>) -> Option<&'a Bound<'py, PyArrayDyn<T>>> {
    array.cast::<PyArrayDyn<T>>().ok().filter(|array| array.is_c_contiguous() && array.is_aligned())
}

/// An array; if a type is named, one that `in_order` takes.
fn to_array<'py>(given: &Bound<'py, PyAny>, dtype: Option<&str>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let numpy = given.py().import(intern!(given.py(), "numpy"))?;
    let made = match dtype {
        Some(dtype) => numpy.call_method1(intern!(given.py(), "require"), (given, dtype, ["C", "A"]))?,
        None => numpy.call_method1(intern!(given.py(), "asarray"), (given,))?,
    };
    Ok(made.cast_into()?)
}

/// The place of a whole number that is too large for every type of NumPy, which then makes an array of objects.
#[cold]
fn too_large(array: &Bound<'_, PyUntypedArray>) -> PyResult<Option<PyErr>> {
    for (at, one) in array.getattr("flat")?.try_iter()?.enumerate() {
        let one = one?;
        if one.is_instance_of::<PyInt>() && one.extract::<i64>().is_err() {
            return Ok(Some(beyond(at, one)));
        }
    }
    Ok(None)
}

/// The error, with the step in which it would come about.
pub(crate) fn in_step(step: usize, error: Error) -> Error {
    match error {
        Error::OutOfRange { what, value, allowed } => {
            Error::OutOfRange { what: format!("in step {step} {what}"), value, allowed }
        }
        other => other,
    }
}

/// A shape as Python writes it.
fn shape_text<'a>(shape: impl Iterator<Item = &'a usize>) -> String {
    let axes: Vec<_> = shape.map(usize::to_string).collect();
    if axes.len() == 1 { format!("({},)", axes[0]) } else { format!("({})", axes.join(", ")) }
}

#[cold]
fn wrong_shape(actual: &[usize], lead: &[usize], components: Option<usize>, spec: &EnvSpec) -> PyErr {
    let needed = shape_text(lead.iter().chain(&components));
    let actual = shape_text(actual.iter());
    PyValueError::new_err(format!("the actions of {} have shape {actual}, but {needed} is needed", spec.name))
}

#[cold]
fn wrong_type(array: &Bound<'_, PyUntypedArray>, spec: &EnvSpec, needed: &str) -> PyErr {
    let dtype = array.dtype();
    PyTypeError::new_err(format!("the actions of {} have dtype {dtype}, but must be {needed}", spec.name))
}
