//! All values in one array.

use super::{Store, Table, Value};

/// One array, row after row.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense<T> {
    actions: usize,
    values: Vec<T>,
}

impl<T: Value> Store<T> for Dense<T> {
    #[inline(always)]
    fn actions(&self) -> usize {
        self.actions
    }

    #[inline(always)]
    fn row<'a>(&'a self, state: usize, _: &'a mut [T]) -> &'a [T] {
        &self.values[state * self.actions..][..self.actions]
    }

    #[inline(always)]
    fn update(&mut self, state: usize, action: usize, new: impl Fn(T) -> T) {
        let value = &mut self.values[state * self.actions + action];
        *value = new(*value);
    }
}

impl<T: Value> Table<T> for Dense<T> {
    fn new(states: usize, actions: usize) -> Self {
        Self { actions, values: vec![T::zero(); states * actions] }
    }

    fn states(&self) -> usize {
        self.values.len() / self.actions
    }

    fn stored(&self, state: usize) -> Option<&[T]> {
        Some(&self.values[state * self.actions..][..self.actions])
    }

    fn row_mut(&mut self, state: usize) -> &mut [T] {
        &mut self.values[state * self.actions..][..self.actions]
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&self.values[..])
    }

    fn for_each_stored(&self, mut each: impl FnMut(usize, &[T])) {
        self.values.chunks_exact(self.actions).enumerate().for_each(|(state, row)| each(state, row));
    }
}
