//! Private changes of a shared table, and how they become one.
//!
//! All blocks have the same rows in the same order, but for those that a block has met since the last merge. So a merge
//! is arithmetic on arrays that lie side by side, and skips what nobody has changed. With values that were found one by
//! one, by state, two shards learnt 8.6 instead of 10.9 M transitions/s of a core (tic-tac-toe, 20,000 between merges; two
//! builds, not in turns, on a busy machine).

use phalanx_core::apart;
use phalanx_core::pool::{Pool, Rows};

use super::super::table::{Store, Table, Value};
use crate::error::{Error, Result};
use crate::state::State;

/// Values whose changes are noted together: so many that a merge has long loops, so few that of a large table little is
/// merged that nobody has changed.
const GROUP: usize = 64;

/// Rows of a table, in the order in which their states were met.
#[derive(Clone, Debug)]
struct Copied<T> {
    /// One more than the number of a state's row, or 0: an array, most of whose pages are never touched.
    places: Vec<u32>,
    /// Values in a row.
    width: usize,
    states: Vec<u32>,
    values: Vec<T>,
}

impl<T: Value> Copied<T> {
    fn new(states: usize, width: usize) -> Self {
        Self { places: apart::filled(0, states), width, states: Vec::new(), values: Vec::new() }
    }

    /// Where a state's row starts, if there is one.
    #[inline(always)]
    fn start(&self, state: usize) -> Option<usize> {
        (self.places[state] as usize).checked_sub(1).map(|place| place * self.width)
    }

    /// Appends a row; zeros if there is none.
    fn push(&mut self, state: usize, row: Option<&[T]>) {
        self.states.push(state as u32);
        self.places[state] = self.states.len() as u32;
        match row {
            Some(row) => self.values.extend_from_slice(row),
            None => self.values.resize(self.values.len() + self.width, T::zero()),
        }
        apart::make_room(&mut self.values);
        apart::make_room(&mut self.states);
    }

    fn memory_bytes(&self) -> usize {
        let of_rows = self.values.capacity() * size_of::<T>() + self.states.capacity() * size_of::<u32>();
        size_of_val(&self.places[..]) + of_rows
    }
}

/// What a block has changed since the last merge, and the rows of everything that was ever changed.
// On lines of its own, in pairs as they are fetched: every access begins here.
#[derive(Clone, Debug)]
#[repr(align(128))]
pub(super) struct Private<T> {
    rows: Copied<T>,
    /// How often each value was updated since the last merge.
    updates: Vec<u32>,
    /// Whether a value of a group was.
    changed: Vec<bool>,
}

impl<T: Value> Private<T> {
    pub(super) fn new(states: usize, width: usize) -> Self {
        Self { rows: Copied::new(states, width), updates: Vec::new(), changed: Vec::new() }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes() + self.updates.capacity() * size_of::<u32>() + self.changed.capacity()
    }

    /// Appends a row that nobody has changed.
    fn push(&mut self, state: usize, row: Option<&[T]>) {
        self.rows.push(state, row);
        let cells = self.rows.values.len();
        self.updates.resize(cells, 0);
        self.changed.resize(cells.div_ceil(GROUP), false);
        apart::make_room(&mut self.updates);
        apart::make_room(&mut self.changed);
    }

    /// Brings the rows that were met since the last merge, by this block or by others, into the common order.
    fn align(&mut self, agreed: &Agreed<T>, known: usize) {
        let (width, cells) = (self.rows.width, known * self.rows.width);
        let states = self.rows.states.split_off(known);
        let (values, updates) = (self.rows.values.split_off(cells), self.updates.split_off(cells));
        // Of those that this block has not met: agreed on.
        for &state in &agreed.rows.states[known..] {
            let state = state as usize;
            let (start, end) = (self.rows.values.len(), self.rows.values.len() + width);
            let own = self.rows.start(state).map(|at| at - cells..at - cells + width);
            let row = own.clone().map_or(&agreed.rows.values[start..end], |own| &values[own]);
            self.push(state, Some(row));
            if let Some(own) = own {
                self.updates[start..end].copy_from_slice(&updates[own]);
            }
        }
        debug_assert_eq!(self.rows.states, agreed.rows.states);
        // Those of this block are in other groups now.
        if !states.is_empty() {
            self.changed[cells / GROUP..].fill(true);
        }
    }

    /// Takes over what was agreed on.
    fn settle(&mut self, agreed: &Agreed<T>) {
        let values = self.rows.values.chunks_mut(GROUP).zip(self.updates.chunks_mut(GROUP)).zip(&mut self.changed);
        let of_all = agreed.rows.values.chunks(GROUP).zip(&agreed.changed);
        for (((values, updates), changed), (agreed, by_anybody)) in values.zip(of_all) {
            if *by_anybody {
                values.copy_from_slice(agreed);
            }
            if *changed {
                updates.fill(0);
                *changed = false;
            }
        }
    }

    /// The rows that were changed, by state.
    pub(super) fn save(&self) -> State {
        let width = self.rows.width;
        let rows = self.rows.states.iter().zip(self.updates.chunks_exact(width));
        let mut states: Vec<u32> =
            rows.filter(|(_, updates)| updates.iter().any(|n| *n > 0)).map(|(state, _)| *state).collect();
        states.sort_unstable();
        let (mut values, mut updates) = (Vec::new(), Vec::new());
        for start in states.iter().filter_map(|state| self.rows.start(*state as usize)) {
            values.extend_from_slice(&self.rows.values[start..][..width]);
            updates.extend_from_slice(&self.updates[start..][..width]);
        }
        let mut saved = State::default();
        saved.put("states", &[states.len()], &states);
        saved.put("values", &[states.len(), width], &values);
        saved.put("updates", &[states.len(), width], &updates);
        saved
    }

    pub(super) fn restore(&mut self, saved: &State) -> Result<()> {
        let width = self.rows.width;
        let states = saved.get_all::<u32>("states")?;
        let values = saved.get::<T>("values", &[states.len(), width])?;
        let updates = saved.get::<u32>("updates", &[states.len(), width])?;
        *self = Self::new(self.rows.places.len(), width);
        for (&state, row) in states.iter().zip(values.chunks_exact(width)) {
            if self.rows.places.get(state as usize) != Some(&0) {
                let why = format!("state {state} is beyond the last or there twice");
                return Err(Error::Value { name: "states".into(), why });
            }
            self.push(state as usize, Some(row));
        }
        self.updates.copy_from_slice(updates);
        self.changed.fill(true);
        Ok(())
    }
}

/// A table as a block sees it: its own rows, and below them what was there before.
pub(super) struct Overlay<'a, T, B> {
    pub(super) base: &'a B,
    pub(super) private: &'a mut Private<T>,
}

impl<T: Value, B: Table<T>> Store<T> for Overlay<'_, T, B> {
    #[inline(always)]
    fn actions(&self) -> usize {
        self.private.rows.width
    }

    #[inline(always)]
    fn row<'a>(&'a self, state: usize, scratch: &'a mut [T]) -> &'a [T] {
        match self.private.rows.start(state) {
            Some(start) => &self.private.rows.values[start..][..self.private.rows.width],
            None => self.base.row(state, scratch),
        }
    }

    #[inline(always)]
    fn update(&mut self, state: usize, action: usize, new: impl Fn(T) -> T) {
        let start = self.private.rows.start(state).unwrap_or_else(|| {
            self.private.push(state, self.base.stored(state));
            self.private.rows.values.len() - self.private.rows.width
        });
        let value = start + action;
        self.private.changed[value / GROUP] = true;
        self.private.updates[value] += 1;
        self.private.rows.values[value] = new(self.private.rows.values[value]);
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

/// The rows that all blocks have in common: as they were at the last merge.
#[derive(Clone, Debug)]
pub(super) struct Agreed<T> {
    rows: Copied<T>,
    /// Groups that the last merge has changed.
    changed: Vec<bool>,
}

impl<T: Value> Agreed<T> {
    pub(super) fn new(states: usize, width: usize) -> Self {
        Self { rows: Copied::new(states, width), changed: Vec::new() }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes() + self.changed.capacity()
    }

    /// Merges the changes of all blocks, of which `of` gives those of this table, in order of the blocks.
    pub(super) fn merge<B: Table<T>, C: Send + Sync>(
        &mut self,
        base: &B,
        blocks: &mut [C],
        of: impl Fn(&C) -> &Private<T> + Sync,
        of_mut: impl Fn(&mut C) -> &mut Private<T> + Sync,
        joining: Joining,
        pool: &Pool,
    ) {
        let known = self.rows.states.len();
        for private in blocks.iter().map(&of) {
            for &state in &private.rows.states[known..] {
                if self.rows.start(state as usize).is_none() {
                    self.rows.push(state as usize, base.stored(state as usize));
                }
            }
        }
        let for_each_block = |blocks: &mut [C], work: &(dyn Fn(&mut Private<T>) + Sync)| {
            pool.for_each(blocks.len(), 1, Rows::new(blocks, 1), |_, blocks| {
                blocks.iter_mut().for_each(|block| work(of_mut(block)));
            });
        };
        if self.rows.states.len() > known {
            for_each_block(blocks, &|private| private.align(self, known));
        }
        let groups = self.rows.values.len().div_ceil(GROUP);
        self.changed.resize(groups, false);
        let parts = (Rows::new(&mut self.rows.values, GROUP), Rows::new(&mut self.changed, 1));
        // Several parts for each thread, because not all have as many changes.
        let grain = groups.div_ceil(4 * pool.threads()).max(1);
        pool.for_each(groups, grain, parts, |range, (values, changed)| {
            for (group, (values, changed)) in range.zip(values.chunks_mut(GROUP).zip(changed)) {
                *changed = blocks.iter().any(|block| of(block).changed[group]);
                if *changed {
                    join(values, blocks.iter().map(&of).filter(|private| private.changed[group]), group, joining);
                }
            }
        });
        for_each_block(blocks, &|private| private.settle(self));
    }

    /// Writes all rows into a table.
    pub(super) fn write_to<B: Table<T>>(&self, table: &mut B) {
        for (&state, row) in self.rows.states.iter().zip(self.rows.values.chunks_exact(self.rows.width)) {
            table.row_mut(state as usize).copy_from_slice(row);
        }
    }
}

/// Joins the changes of one group of values, which blocks without an update have left as they were.
fn join<'a, T: Value>(
    values: &mut [T],
    privates: impl Iterator<Item = &'a Private<T>>,
    group: usize,
    joining: Joining,
) {
    let count = values.len();
    let (mut blocks, mut last) = ([0_u32; GROUP], [T::zero(); GROUP]);
    let (mut change, mut weight) = ([T::zero(); GROUP], [T::zero(); GROUP]);
    // Values by themselves and of known number, so that the loops run in lanes.
    let (blocks, last) = (&mut blocks[..count], &mut last[..count]);
    let (change, weight) = (&mut change[..count], &mut weight[..count]);
    for private in privates {
        let (own, updates) = (&private.rows.values[group * GROUP..], &private.updates[group * GROUP..]);
        let (own, updates) = (&own[..count], &updates[..count]);
        for i in 0..count {
            let (value, old, before, is_changed) = (own[i], values[i], last[i], updates[i] > 0);
            let counts = weight_of(if joining == Joining::Mean { updates[i] } else { u32::from(is_changed) });
            blocks[i] += u32::from(is_changed);
            change[i] += counts * (value - old);
            weight[i] += counts;
            last[i] = if is_changed { value } else { before };
        }
    }
    for i in 0..count {
        let (old, last) = (values[i], last[i]);
        let divisor = if joining == Joining::Mean { weight[i] } else { T::one() };
        let mean = old + change[i] / divisor;
        // The mean of one change is that change, and taken as it is it has no rounding error either.
        let one = if blocks[i] == 1 { last } else { old };
        values[i] = if blocks[i] > 1 { mean } else { one };
    }
}

#[inline(always)]
fn weight_of<T: Value>(updates: u32) -> T {
    T::from(updates).expect("every count is close to a value")
}

#[cfg(test)]
mod tests {
    use super::super::super::table::Dense;
    use super::*;

    /// Updates of a private copy.
    fn change<T: Value>(base: &Dense<T>, private: &mut Private<T>, changes: &[(usize, usize, T)]) {
        let mut store = Overlay { base, private };
        changes.iter().for_each(|(state, action, value)| store.update(*state, *action, |_| *value));
    }

    /// Three updates to 2 and one to 6 of a value that was 1: 1 + (3 · 1 + 1 · 5) / 4, and the next merge goes on from
    /// there. The blocks meet the states in different orders, and in more than one group.
    #[test]
    fn a_merge_is_the_mean_of_changes_by_visits() {
        for (joining, first, then) in [(Joining::Mean, 3.0, 4.0), (Joining::Sum, 7.0, 9.0)] {
            let pool = Pool::new(2);
            let mut table = Dense::<f64>::new(100, 2);
            (0..100).for_each(|state| table.set(state, 0, 1.0));
            let mut agreed = Agreed::new(100, 2);
            let mut blocks = [Private::new(100, 2), Private::new(100, 2)];
            let many: Vec<_> = (50..100).map(|state| (state, 0, state as f64)).collect();
            change(&table, &mut blocks[0], &[(4, 0, 9.0), (4, 0, 7.0), (4, 0, 2.0), (5, 1, 0.3)]);
            change(&table, &mut blocks[1], &many);
            change(&table, &mut blocks[1], &[(7, 0, -1.0), (4, 0, 6.0)]);
            let mut merge = |blocks: &mut [Private<f64>]| {
                agreed.merge(&table, blocks, |private| private, |private| private, joining, &pool);
                let mut merged = table.clone();
                agreed.write_to(&mut merged);
                merged
            };
            let mut expected = table.clone();
            for (state, action, value) in [(4, 0, first), (5, 1, 0.3), (7, 0, -1.0)].into_iter().chain(many) {
                expected.set(state, action, value);
            }
            assert_eq!(merge(&mut blocks), expected);
            // Nothing is left of it.
            assert_eq!(merge(&mut blocks), expected);
            for private in &mut blocks {
                assert_eq!(Overlay { base: &table, private }.row(4, &mut [0.0; 2]), [first, 0.0]);
            }
            change(&table, &mut blocks[0], &[(9, 0, 5.0), (4, 0, first + 2.0)]);
            change(&table, &mut blocks[1], &[(4, 0, first)]);
            expected.set(9, 0, 5.0);
            expected.set(4, 0, if joining == Joining::Mean { then } else { first + 2.0 });
            assert_eq!(merge(&mut blocks), expected);
        }
    }

    /// Seven blocks that updated one value between once and 100,000 times. In single precision the mean is as close to that in
    /// double precision as a sum of so many rounded products, its quotient and a last sum can be.
    #[test]
    fn single_precision_merges_as_double_does_but_for_rounding() {
        fn merged<T: Value>(blocks: &[(u32, f32)]) -> f64 {
            let (mut table, mut agreed) = (Dense::<T>::new(1, 1), Agreed::new(1, 1));
            table.set(0, 0, T::of(0.1_f32.into()));
            let learnt = blocks.iter().map(|(updates, value)| {
                let mut private = Private::new(1, 1);
                change(&table, &mut private, &[(0, 0, T::of((*value).into()))]);
                private.updates[0] = *updates;
                private
            });
            let mut learnt: Vec<_> = learnt.collect();
            agreed.merge(&table, &mut learnt, |private| private, |private| private, Joining::Mean, &Pool::new(1));
            agreed.write_to(&mut table);
            table.row_mut(0)[0].to_f64().unwrap()
        }
        let blocks =
            [1, 3, 10, 333, 4_567, 33_333, 100_000].map(|updates| (updates, 0.7 - (updates % 7) as f32 * 0.31));
        let (all, changes) = blocks.iter().fold((0.0, 0.0), |(all, changes), (updates, value)| {
            let updates = f64::from(*updates);
            (all + updates, changes + updates * f64::from(value - 0.1).abs())
        });
        let (single, double) = (merged::<f32>(&blocks), merged::<f64>(&blocks));
        let roundings = (blocks.len() + 4) as f64 * f64::from(f32::EPSILON) / 2.0;
        assert!((single - double).abs() <= roundings * (changes / all + double.abs()), "{single} instead of {double}");
        assert_ne!(single, double, "the table's own numbers were not computed with");
    }

    #[test]
    fn rows_keep_their_room_as_they_become_more() {
        fn room<T>(values: &Vec<T>) -> usize {
            (values.capacity() - values.len()) * size_of::<T>()
        }
        let table = Dense::<f32>::new(1_000, 3);
        let mut private = Private::new(1_000, 3);
        for state in 0..1_000 {
            change(&table, &mut private, &[(state, 0, 1.0)]);
            let Private { rows, updates, changed } = &private;
            let rooms = [room(&rows.places), room(&rows.states), room(&rows.values), room(updates), room(changed)];
            assert!(rooms.iter().all(|room| *room >= 128), "{rooms:?} after {state}");
        }
    }
}
