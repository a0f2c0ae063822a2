//! Private changes of a shared table, and how they become one.

use super::super::table::{Store, Table, Value};
use crate::error::{Error, Result};
use crate::state::State;

/// Where rows are, by state: an array, most of whose pages are never touched.
#[derive(Debug)]
struct Places(Vec<u32>);

impl Places {
    fn new(states: usize) -> Self {
        Self(vec![0; states])
    }

    #[inline(always)]
    fn get(&self, state: usize) -> Option<usize> {
        (self.0[state] as usize).checked_sub(1)
    }

    fn set(&mut self, state: usize, place: usize) {
        self.0[state] = place as u32 + 1;
    }

    fn clear(&mut self, states: &mut Vec<u32>) {
        states.drain(..).for_each(|state| self.0[state as usize] = 0);
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&self.0[..])
    }
}

/// What a block has changed since the last merge: rows copied when they were first changed.
#[derive(Debug)]
pub(super) struct Private<T> {
    places: Places,
    /// Values in a row.
    width: usize,
    states: Vec<u32>,
    values: Vec<T>,
    /// How often each value was updated.
    updates: Vec<u32>,
}

impl<T: Value> Private<T> {
    pub(super) fn new(states: usize, width: usize) -> Self {
        let (states, places) = (Vec::new(), Places::new(states));
        Self { places, width, states, values: Vec::new(), updates: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        self.places.clear(&mut self.states);
        self.values.clear();
        self.updates.clear();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let rows = self.values.capacity() * size_of::<T>() + self.updates.capacity() * size_of::<u32>();
        self.places.memory_bytes() + rows + self.states.capacity() * size_of::<u32>()
    }

    /// Where a state's row starts; `row` is what is copied if there is none.
    #[inline(always)]
    fn start<'a>(&mut self, state: usize, row: impl FnOnce() -> Option<&'a [T]>) -> usize {
        match self.places.get(state) {
            Some(place) => place * self.width,
            None => {
                let start = self.values.len();
                self.places.set(state, self.states.len());
                self.states.push(state as u32);
                self.updates.resize(start + self.width, 0);
                match row() {
                    Some(row) => self.values.extend_from_slice(row),
                    None => self.values.resize(start + self.width, T::zero()),
                }
                start
            }
        }
    }

    pub(super) fn save(&self) -> State {
        let mut state = State::default();
        let rows = self.states.len();
        state.put("states", &[rows], &self.states);
        state.put("values", &[rows, self.width], &self.values);
        state.put("updates", &[rows, self.width], &self.updates);
        state
    }

    pub(super) fn restore(&mut self, saved: &State) -> Result<()> {
        let states = saved.get_all::<u32>("states")?;
        let values = saved.get::<T>("values", &[states.len(), self.width])?;
        let updates = saved.get::<u32>("updates", &[states.len(), self.width])?;
        self.clear();
        for (&state, row) in states.iter().zip(values.chunks_exact(self.width)) {
            let known = self.places.0.get(state as usize);
            if known != Some(&0) {
                let why = format!("state {state} is beyond the last or there twice");
                return Err(Error::Value { name: "states".into(), why });
            }
            self.start(state as usize, || Some(row));
        }
        self.updates.copy_from_slice(updates);
        Ok(())
    }
}

/// A table as a block sees it: its own changes, and below them what all agreed on.
pub(super) struct Overlay<'a, T, B> {
    pub(super) base: &'a B,
    pub(super) private: &'a mut Private<T>,
}

impl<T: Value, B: Table<T>> Store<T> for Overlay<'_, T, B> {
    #[inline(always)]
    fn actions(&self) -> usize {
        self.base.actions()
    }

    #[inline(always)]
    fn row<'a>(&'a self, state: usize, scratch: &'a mut [T]) -> &'a [T] {
        match self.private.places.get(state) {
            Some(place) => &self.private.values[place * self.actions()..][..self.actions()],
            None => self.base.row(state, scratch),
        }
    }

    #[inline(always)]
    fn update(&mut self, state: usize, action: usize, new: impl Fn(T) -> T) {
        let value = self.private.start(state, || self.base.stored(state)) + action;
        self.private.updates[value] += 1;
        self.private.values[value] = new(self.private.values[value]);
    }
}

/// What becomes of a value that several blocks have changed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Joining {
    /// The changes' mean, weighted by the numbers of updates.
    Mean,
    /// The changes' sum: of counts.
    Sum,
}

/// The changes of one value by all blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Joint<T> {
    blocks: u32,
    change: f64,
    weight: f64,
    /// What the last of them made of it.
    value: T,
}

/// The changes of those states that are one thread's to merge.
#[derive(Debug)]
pub(super) struct Merge<T> {
    places: Places,
    states: Vec<u32>,
    joints: Vec<Joint<T>>,
}

impl<T: Value> Merge<T> {
    pub(super) fn new(states: usize) -> Self {
        Self { places: Places::new(states), states: Vec::new(), joints: Vec::new() }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let states = self.states.capacity() * size_of::<u32>();
        self.places.memory_bytes() + states + self.joints.capacity() * size_of::<Joint<T>>()
    }

    /// Joins the changes of all states that `mine` picks, in order of the blocks.
    pub(super) fn join<'a, B: Table<T>>(
        &mut self,
        table: &B,
        privates: impl Iterator<Item = &'a Private<T>>,
        mine: impl Fn(u32) -> bool,
        joining: Joining,
    ) {
        let width = table.actions();
        let Self { places, states, joints } = self;
        places.clear(states);
        joints.clear();
        for private in privates {
            let rows = private.values.chunks_exact(width).zip(private.updates.chunks_exact(width));
            for (&state, (values, updates)) in private.states.iter().zip(rows).filter(|(state, _)| mine(**state)) {
                let place = places.get(state as usize).unwrap_or_else(|| {
                    places.set(state as usize, states.len());
                    states.push(state);
                    joints.resize(joints.len() + width, Joint::default());
                    states.len() - 1
                });
                let old = table.stored(state as usize);
                let changes = joints[place * width..][..width].iter_mut().zip(values.iter().zip(updates)).enumerate();
                for (cell, (joint, (&value, &updates))) in changes.filter(|(_, (_, (_, updates)))| **updates > 0) {
                    let change = wide(value) - old.map_or(0.0, |row| wide(row[cell]));
                    let weight = if joining == Joining::Mean { f64::from(updates) } else { 1.0 };
                    joint.blocks += 1;
                    joint.change += weight * change;
                    joint.weight += weight;
                    joint.value = value;
                }
            }
        }
    }

    /// Writes what was joined into the table.
    pub(super) fn apply<B: Table<T>>(&self, table: &mut B, joining: Joining) {
        for (&state, joints) in self.states.iter().zip(self.joints.chunks_exact(table.actions())) {
            for (value, joint) in table.row_mut(state as usize).iter_mut().zip(joints) {
                let divisor = if joining == Joining::Mean { joint.weight } else { 1.0 };
                match joint.blocks {
                    0 => {}
                    // The mean of one change is that change, and taken as it is it has no rounding error either.
                    1 => *value = joint.value,
                    _ => *value = T::of(wide(*value) + joint.change / divisor),
                }
            }
        }
    }
}

fn wide<T: Value>(value: T) -> f64 {
    value.to_f64().expect("every value is a f64")
}

#[cfg(test)]
mod tests {
    use super::super::super::table::Dense;
    use super::*;

    fn changed(base: &Dense<f64>, changes: &[(usize, usize, f64)]) -> Private<f64> {
        let mut private = Private::new(base.states(), 2);
        let mut store = Overlay { base, private: &mut private };
        changes.iter().for_each(|(state, action, value)| store.update(*state, *action, |_| *value));
        private
    }

    /// Three updates to 2 and one to 6 of a value that was 1: 1 + (3 · 1 + 1 · 5) / 4.
    #[test]
    fn a_merge_is_the_mean_of_changes_by_visits() {
        let mut table = Dense::<f64>::new(10, 2);
        (0..10).for_each(|state| table.set(state, 0, 1.0));
        let often = changed(&table, &[(4, 0, 9.0), (4, 0, 7.0), (4, 0, 2.0), (5, 1, 0.3)]);
        let once = changed(&table, &[(4, 0, 6.0), (7, 0, -1.0)]);
        for (joining, shared) in [(Joining::Mean, 3.0), (Joining::Sum, 7.0)] {
            let mut merged = table.clone();
            let mut merge = Merge::new(10);
            for part in 0..2 {
                merge.join(&table, [&often, &once].into_iter(), |state| state % 2 == part, joining);
                merge.apply(&mut merged, joining);
            }
            let mut expected = table.clone();
            for (state, action, value) in [(4, 0, shared), (5, 1, 0.3), (7, 0, -1.0)] {
                expected.set(state, action, value);
            }
            assert_eq!(merged, expected);
        }
    }
}
