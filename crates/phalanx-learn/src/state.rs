//! What a run needs to go on: named arrays and named values, whatever the agent.
//!
//! An agent writes its [`State`] and reads it back; how that becomes a file is the checkpoint's business.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// The elements of an array.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the variants are named after what they hold
pub enum Data {
    F32(Vec<f32>),
    F64(Vec<f64>),
    U8(Vec<u8>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// An array with its shape, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Sizes, the slowest first.
    pub shape: Vec<usize>,
    /// As many elements as the sizes multiply to.
    pub data: Data,
}

/// Types of elements.
pub trait Element: Copy + Sized {
    /// The name of the type, as checkpoints spell it.
    const NAME: &'static str;
    /// Wraps elements.
    fn wrap(data: Vec<Self>) -> Data;
    /// Unwraps elements of this type.
    fn unwrap(data: &Data) -> Option<&[Self]>;
}

macro_rules! element {
    ($($type:ty, $variant:ident, $name:literal;)*) => {$(
        impl Element for $type {
            const NAME: &'static str = $name;
            fn wrap(data: Vec<Self>) -> Data {
                Data::$variant(data)
            }
            fn unwrap(data: &Data) -> Option<&[Self]> {
                match data {
                    Data::$variant(data) => Some(data),
                    _ => None,
                }
            }
        }
    )*

    impl Data {
        /// The name of the elements' type, as checkpoints spell it.
        pub fn type_name(&self) -> &'static str {
            match self {
                $(Self::$variant(_) => $name,)*
            }
        }

        /// The number of elements.
        pub fn len(&self) -> usize {
            match self {
                $(Self::$variant(data) => data.len(),)*
            }
        }

        /// The bytes that they take.
        pub(crate) fn bytes(&self) -> usize {
            match self {
                $(Self::$variant(data) => size_of_val(&data[..]),)*
            }
        }

        /// Whether there are none.
        pub fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }};
}

element! {
    f32, F32, "F32";
    f64, F64, "F64";
    u8, U8, "U8";
    u32, U32, "U32";
    u64, U64, "U64";
}

/// Named arrays and named values. Arrays are shared between copies of a state and its parts: the buffer of an agent is
/// there once, however many hands it goes through.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    arrays: BTreeMap<String, Arc<Array>>,
    values: BTreeMap<String, serde_json::Value>,
}

impl State {
    /// Keeps an array under a name.
    ///
    /// # Panics
    /// If the shape does not fit the number of elements.
    pub fn put<T: Element>(&mut self, name: impl Into<String>, shape: &[usize], data: &[T]) {
        assert_eq!(shape.iter().product::<usize>(), data.len(), "the shape is that of the data");
        self.put_array(name, Array { shape: shape.to_vec(), data: T::wrap(data.to_vec()) });
    }

    /// Keeps a value under a name.
    ///
    /// # Panics
    /// If the value has no JSON form (a map whose keys are no strings).
    pub fn put_value(&mut self, name: impl Into<String>, value: &impl Serialize) {
        self.values.insert(name.into(), serde_json::to_value(value).expect("a value with a JSON form"));
    }

    /// Keeps an array as it is.
    pub fn put_array(&mut self, name: impl Into<String>, array: impl Into<Arc<Array>>) {
        self.arrays.insert(name.into(), array.into());
    }

    /// The elements of an array, which must have this type and shape.
    pub fn get<T: Element>(&self, name: &str, shape: &[usize]) -> Result<&[T]> {
        let array = self.arrays.get(name).ok_or_else(|| Error::Missing { name: name.to_owned() })?;
        T::unwrap(&array.data).filter(|_| array.shape == shape).ok_or_else(|| Error::Shape {
            name: name.to_owned(),
            found: describe(array.data.type_name(), &array.shape),
            expected: describe(T::NAME, shape),
        })
    }

    /// An array of this type in one dimension, whatever its length.
    pub fn get_all<T: Element>(&self, name: &str) -> Result<&[T]> {
        let array = self.arrays.get(name).ok_or_else(|| Error::Missing { name: name.to_owned() })?;
        self.get(name, &[array.data.len()])
    }

    /// A value.
    pub fn value<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let value = self.values.get(name).ok_or_else(|| Error::Missing { name: name.to_owned() })?;
        T::deserialize(value).map_err(|error| Error::Value { name: name.to_owned(), why: error.to_string() })
    }

    /// All arrays, by name.
    pub fn arrays(&self) -> &BTreeMap<String, Arc<Array>> {
        &self.arrays
    }

    /// The bytes of all arrays.
    pub(crate) fn bytes(&self) -> usize {
        self.arrays.values().map(|array| array.data.bytes()).sum()
    }

    /// All values, by name.
    pub fn values(&self) -> &BTreeMap<String, serde_json::Value> {
        &self.values
    }

    /// Keeps all of another state under `prefix.name`.
    pub fn put_state(&mut self, prefix: &str, state: State) {
        self.arrays.extend(state.arrays.into_iter().map(|(name, array)| (format!("{prefix}.{name}"), array)));
        self.values.extend(state.values.into_iter().map(|(name, value)| (format!("{prefix}.{name}"), value)));
    }

    /// What [`State::put_state`] kept under this prefix.
    pub fn state(&self, prefix: &str) -> State {
        fn within<T: Clone>(all: &BTreeMap<String, T>, prefix: &str) -> BTreeMap<String, T> {
            let name = |(name, item): (&String, &T)| {
                Some((name.strip_prefix(prefix)?.strip_prefix('.')?.to_owned(), item.clone()))
            };
            all.iter().filter_map(name).collect()
        }
        State { arrays: within(&self.arrays, prefix), values: within(&self.values, prefix) }
    }
}

fn describe(kind: &str, shape: &[usize]) -> String {
    let sizes: Vec<_> = shape.iter().map(usize::to_string).collect();
    format!("{kind}[{}]", sizes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back() {
        let mut inner = State::default();
        inner.put("weights", &[2, 3], &[1.0_f32; 6]);
        inner.put_value("step", &17_u64);
        let mut state = State::default();
        state.put_state("actor", inner.clone());
        state.put("step", &[1], &[5_u64]);
        assert_eq!(state.state("actor"), inner);
        assert_eq!(state.state("actor").value::<u64>("step").unwrap(), 17);
        assert_eq!(state.get::<f32>("actor.weights", &[2, 3]).unwrap(), [1.0; 6]);
        assert_eq!(state.get_all::<u64>("step").unwrap(), [5]);
        assert_eq!(state.bytes(), 6 * 4 + 8);
    }

    /// As a run goes on, a buffer passes from the checkpoint through trainer and agent.
    #[test]
    fn a_part_of_a_state_is_no_copy_of_its_arrays() {
        let mut inner = State::default();
        inner.put("obs", &[3], &[1.0_f32; 3]);
        let (mut agent, mut state) = (State::default(), State::default());
        agent.put_state("replay", inner);
        state.put_state("agent", agent);
        let there = state.get::<f32>("agent.replay.obs", &[3]).unwrap();
        let part = state.state("agent").state("replay");
        assert!(std::ptr::eq(part.get::<f32>("obs", &[3]).unwrap(), there));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let mut state = State::default();
        state.put("weights", &[2, 3], &[1.0_f32; 6]);
        let message = |error: Error| error.to_string();
        assert_eq!(
            message(state.get::<f32>("weights", &[3, 3]).unwrap_err()),
            "'weights' of the checkpoint is F32[2, 3], but F32[3, 3] is needed"
        );
        assert_eq!(
            message(state.get::<u32>("weights", &[2, 3]).unwrap_err()),
            "'weights' of the checkpoint is F32[2, 3], but U32[2, 3] is needed"
        );
        assert_eq!(message(state.get::<f32>("bias", &[3]).unwrap_err()), "the checkpoint has no 'bias'");
    }
}
