//! Rows of the states that were met, found by a hash map.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::{Store, Table, Value};

/// A hash of a state: one multiplication, which is enough for indices and cheaper than the standard library's.
#[derive(Clone, Debug, Default)]
struct StateHasher(u64);

impl Hasher for StateHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    #[inline(always)]
    fn write_u32(&mut self, state: u32) {
        let mixed = (self.0 ^ u64::from(state)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The map looks at both ends.
        self.0 = mixed ^ mixed >> 32;
    }
}

/// A map whose keys are states.
type StateMap<V> = HashMap<u32, V, BuildHasherDefault<StateHasher>>;

/// A hash map from states to rows; a row exists once one of its values was changed.
#[derive(Clone, Debug)]
pub struct Sparse<T> {
    states: usize,
    /// Where a state's row is, in rows.
    places: StateMap<u32>,
    values: Vec<T>,
    /// The row of every state that has none.
    zeros: Box<[T]>,
}

impl<T: Value> Sparse<T> {
    /// Number of rows that exist.
    pub fn rows(&self) -> usize {
        self.places.len()
    }

    #[inline(always)]
    fn find(&self, state: usize) -> Option<usize> {
        assert!(state < self.states, "state {state} of {}", self.states);
        self.places.get(&(state as u32)).map(|place| *place as usize * self.zeros.len())
    }

    #[inline(always)]
    fn find_or_create(&mut self, state: usize) -> usize {
        match self.find(state) {
            Some(start) => start,
            None => {
                let start = self.values.len();
                self.places.insert(state as u32, (start / self.zeros.len()) as u32);
                self.values.extend_from_slice(&self.zeros);
                start
            }
        }
    }
}

impl<T: Value> Store<T> for Sparse<T> {
    #[inline(always)]
    fn actions(&self) -> usize {
        self.zeros.len()
    }

    #[inline(always)]
    fn row<'a>(&'a self, state: usize, _: &'a mut [T]) -> &'a [T] {
        self.find(state).map_or(&self.zeros, |start| &self.values[start..start + self.zeros.len()])
    }

    #[inline(always)]
    fn update(&mut self, state: usize, action: usize, new: impl Fn(T) -> T) {
        let value = self.find_or_create(state) + action;
        self.values[value] = new(self.values[value]);
    }
}

impl<T: Value> Table<T> for Sparse<T> {
    fn new(states: usize, actions: usize) -> Self {
        assert!(u32::try_from(states).is_ok(), "states are numbered in 32 bits");
        let zeros = vec![T::zero(); actions].into_boxed_slice();
        Self { states, places: StateMap::default(), values: Vec::new(), zeros }
    }

    fn states(&self) -> usize {
        self.states
    }

    fn stored(&self, state: usize) -> Option<&[T]> {
        self.find(state).map(|start| &self.values[start..start + self.zeros.len()])
    }

    fn row_mut(&mut self, state: usize) -> &mut [T] {
        let start = self.find_or_create(state);
        &mut self.values[start..start + self.zeros.len()]
    }

    fn memory_bytes(&self) -> usize {
        // The map keeps a byte beside each of its entries, full or not; an eighth of them stays empty.
        let entries = self.places.capacity() * 8 / 7;
        size_of_val(&self.zeros[..]) + self.values.capacity() * size_of::<T>() + entries * (size_of::<(u32, u32)>() + 1)
    }

    fn for_each_stored(&self, mut each: impl FnMut(usize, &[T])) {
        let mut rows: Vec<(u32, u32)> = self.places.iter().map(|(state, place)| (*state, *place)).collect();
        rows.sort_unstable();
        for (state, place) in rows {
            let start = place as usize * self.zeros.len();
            each(state as usize, &self.values[start..start + self.zeros.len()]);
        }
    }
}
