//! A vector for each row: slow, and too simple to be wrong.

use super::{Store, Table, Value};

/// A row of its own for each state; the reference that tests compare with.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T> {
    rows: Vec<Vec<T>>,
}

impl<T: Value> Store<T> for List<T> {
    fn actions(&self) -> usize {
        self.rows[0].len()
    }

    fn row<'a>(&'a self, state: usize, _: &'a mut [T]) -> &'a [T] {
        &self.rows[state]
    }

    fn update(&mut self, state: usize, action: usize, new: impl Fn(T) -> T) {
        self.rows[state][action] = new(self.rows[state][action]);
    }
}

impl<T: Value> Table<T> for List<T> {
    fn new(states: usize, actions: usize) -> Self {
        Self { rows: vec![vec![T::zero(); actions]; states] }
    }

    fn states(&self) -> usize {
        self.rows.len()
    }

    fn stored(&self, state: usize) -> Option<&[T]> {
        Some(&self.rows[state])
    }

    fn row_mut(&mut self, state: usize) -> &mut [T] {
        &mut self.rows[state]
    }

    fn memory_bytes(&self) -> usize {
        self.rows.iter().map(|row| size_of_val(&row[..]) + size_of_val(row)).sum()
    }

    fn for_each_stored(&self, mut each: impl FnMut(usize, &[T])) {
        self.rows.iter().enumerate().for_each(|(state, row)| each(state, row));
    }
}
