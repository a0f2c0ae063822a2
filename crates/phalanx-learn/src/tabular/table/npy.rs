//! Tables as NumPy files.

use super::{Table, Value};
use crate::error::{Error, Result};
use crate::run::episodes::npy_header;

fn header<T: Value>(states: usize, actions: usize) -> Vec<u8> {
    npy_header(T::NUMPY, &[states, actions])
}

pub(super) fn write<T: Value, B: Table<T>>(table: &B) -> Vec<u8> {
    let mut bytes = header::<T>(table.states(), table.actions());
    bytes.reserve_exact(table.states() * table.actions() * size_of::<T>());
    let scratch = &mut vec![T::zero(); table.actions()];
    for state in 0..table.states() {
        table.row(state, scratch).iter().for_each(|value| value.write_to(&mut bytes));
    }
    bytes
}

/// Only what [`write`] writes: of all headers that NumPy could write, the one for this type and shape.
pub(super) fn read<T: Value, B: Table<T>>(states: usize, actions: usize, bytes: &[u8]) -> Result<B> {
    let refuse = |found: &str| Error::Shape {
        name: "table".into(),
        found: found.into(),
        expected: format!("a NumPy file of {} with shape ({states}, {actions})", T::NUMPY),
    };
    let header = header::<T>(states, actions);
    let values = bytes.strip_prefix(&header[..]).ok_or_else(|| refuse("another file"))?;
    if values.len() != states * actions * size_of::<T>() {
        return Err(refuse("a file of another length"));
    }
    let mut table = B::new(states, actions);
    for (state, row) in values.chunks_exact(actions * size_of::<T>()).enumerate() {
        // A row of zeros need not exist.
        if row.iter().any(|byte| *byte != 0) {
            let row = row.chunks_exact(size_of::<T>()).map(T::read_from);
            table.row_mut(state).iter_mut().zip(row).for_each(|(value, read)| *value = read);
        }
    }
    Ok(table)
}
