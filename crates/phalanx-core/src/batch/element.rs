//! What observations are made of: reals or bytes.

use std::fmt::Debug;

use crate::checksum;
use crate::error::{Error, Result};
use crate::space::Element;

/// Observations to be filled in, row-major, of the type that the environment has.
#[derive(Debug)]
pub enum ObsMut<'a> {
    /// Single precision.
    F32(&'a mut [f32]),
    /// Signed bytes.
    I8(&'a mut [i8]),
}

impl ObsMut<'_> {
    /// The type of the components.
    pub fn element(&self) -> Element {
        match self {
            Self::F32(_) => Element::F32,
            Self::I8(_) => Element::I8,
        }
    }
}

impl<'a> From<&'a mut [f32]> for ObsMut<'a> {
    fn from(obs: &'a mut [f32]) -> Self {
        Self::F32(obs)
    }
}

impl<'a> From<&'a mut [i8]> for ObsMut<'a> {
    fn from(obs: &'a mut [i8]) -> Self {
        Self::I8(obs)
    }
}

impl<'a, T: ObsElement> From<&'a mut Vec<T>> for ObsMut<'a> {
    fn from(obs: &'a mut Vec<T>) -> Self {
        T::wrap(obs)
    }
}

/// A component of observations: `f32` or `i8`.
pub trait ObsElement: Copy + Default + Debug + Send + Sync + sealed::Sealed + 'static {
    /// Its name.
    const ELEMENT: Element;
    /// The array as the type-erased form that [`Batch`](super::Batch) takes.
    fn wrap(obs: &mut [Self]) -> ObsMut<'_>;
    /// The array, if it is of this type.
    fn unwrap(obs: ObsMut<'_>) -> Option<&mut [Self]>;
    /// The row as reals, if it is made of them.
    fn as_reals(row: &[Self]) -> Option<&[f32]>;
    /// The component as a real.
    fn to_real(self) -> f32;
    /// A number that depends on every component and its place, for checksums.
    #[doc(hidden)]
    fn weigh(row: &[Self]) -> u32;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for i8 {}
}

impl ObsElement for f32 {
    const ELEMENT: Element = Element::F32;

    fn wrap(obs: &mut [f32]) -> ObsMut<'_> {
        ObsMut::F32(obs)
    }

    #[inline(always)]
    fn unwrap(obs: ObsMut<'_>) -> Option<&mut [f32]> {
        if let ObsMut::F32(obs) = obs { Some(obs) } else { None }
    }

    fn as_reals(row: &[f32]) -> Option<&[f32]> {
        Some(row)
    }

    fn to_real(self) -> f32 {
        self
    }

    #[inline(always)]
    fn weigh(row: &[f32]) -> u32 {
        checksum::weigh::<f32>(row)
    }
}

impl ObsElement for i8 {
    const ELEMENT: Element = Element::I8;

    fn wrap(obs: &mut [i8]) -> ObsMut<'_> {
        ObsMut::I8(obs)
    }

    #[inline(always)]
    fn unwrap(obs: ObsMut<'_>) -> Option<&mut [i8]> {
        if let ObsMut::I8(obs) = obs { Some(obs) } else { None }
    }

    fn as_reals(_row: &[i8]) -> Option<&[f32]> {
        None
    }

    fn to_real(self) -> f32 {
        f32::from(self)
    }

    #[inline(always)]
    fn weigh(row: &[i8]) -> u32 {
        checksum::weigh_bytes(row)
    }
}

/// The array of a batch whose observations are of type `T`.
#[inline(always)]
pub(super) fn typed<'a, T: ObsElement>(env: &str, obs: ObsMut<'a>) -> Result<&'a mut [T]> {
    let given = obs.element();
    T::unwrap(obs).ok_or_else(|| wrong_type(env, given, T::ELEMENT))
}

#[cold]
fn wrong_type(env: &str, given: Element, needed: Element) -> Error {
    Error::out_of_range(format!("the type of the observation array of {env}"), given, needed.to_string())
}
