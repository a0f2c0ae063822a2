//! A table that is sparse as long as that is better.

use super::{Dense, Sparse, Store, Table, Value};

/// The share of states with a row from which a table is dense, unless it has one of its own.
const DENSE_THRESHOLD: f64 = 0.25;
/// Up to this size such a table is dense from its first value on: it then fits a core's caches, and a hash map saves
/// nothing that matters.
const SMALL_BYTES: usize = 2 << 20;

/// Sparse at first, dense once it is small, well filled, or no larger that way.
#[derive(Clone, Debug)]
pub struct Hybrid<T> {
    storage: Storage<T>,
    /// The share of states with a row from which it is dense, even if it is small.
    dense_threshold: Option<f64>,
}

#[derive(Clone, Debug)]
enum Storage<T> {
    Sparse(Sparse<T>),
    Dense(Dense<T>),
}

macro_rules! either {
    ($self:expr, $table:ident => $result:expr) => {
        match $self {
            Storage::Dense($table) => $result,
            Storage::Sparse($table) => $result,
        }
    };
}

impl<T: Value> Hybrid<T> {
    /// Whether it has become dense.
    pub fn is_dense(&self) -> bool {
        matches!(self.storage, Storage::Dense(_))
    }

    /// Becomes dense if that is better now. Values do not change, so results do not either.
    #[cold]
    fn reconsider(&mut self) {
        let Storage::Sparse(sparse) = &self.storage else { return };
        let (states, actions) = (sparse.states(), sparse.actions());
        let dense_bytes = states.saturating_mul(actions * size_of::<T>());
        let small = self.dense_threshold.is_none() && dense_bytes <= SMALL_BYTES;
        let filled = sparse.rows() as f64 >= self.dense_threshold.unwrap_or(DENSE_THRESHOLD) * states as f64;
        if small || filled || sparse.memory_bytes() >= dense_bytes {
            let mut dense = Dense::new(states, actions);
            sparse.for_each_stored(|state, row| dense.row_mut(state).copy_from_slice(row));
            self.storage = Storage::Dense(dense);
        }
    }
}

impl<T: Value> Store<T> for Hybrid<T> {
    #[inline(always)]
    fn actions(&self) -> usize {
        either!(&self.storage, table => table.actions())
    }

    #[inline(always)]
    fn row<'a>(&'a self, state: usize, scratch: &'a mut [T]) -> &'a [T] {
        either!(&self.storage, table => table.row(state, scratch))
    }

    #[inline(always)]
    fn update(&mut self, state: usize, action: usize, new: impl Fn(T) -> T) {
        match &mut self.storage {
            Storage::Dense(dense) => dense.update(state, action, new),
            Storage::Sparse(sparse) => {
                let rows = sparse.rows();
                sparse.update(state, action, new);
                if sparse.rows() > rows {
                    self.reconsider();
                }
            }
        }
    }
}

impl<T: Value> Table<T> for Hybrid<T> {
    fn new(states: usize, actions: usize) -> Self {
        Self::sized(states, actions, None)
    }

    fn sized(states: usize, actions: usize, dense_threshold: Option<f64>) -> Self {
        Self { storage: Storage::Sparse(Sparse::new(states, actions)), dense_threshold }
    }

    fn empty(&self) -> Self {
        Self::sized(self.states(), self.actions(), self.dense_threshold)
    }

    fn states(&self) -> usize {
        either!(&self.storage, table => table.states())
    }

    fn stored(&self, state: usize) -> Option<&[T]> {
        either!(&self.storage, table => table.stored(state))
    }

    fn row_mut(&mut self, state: usize) -> &mut [T] {
        if let Storage::Sparse(sparse) = &mut self.storage {
            sparse.row_mut(state);
            self.reconsider();
        }
        either!(&mut self.storage, table => table.row_mut(state))
    }

    fn memory_bytes(&self) -> usize {
        either!(&self.storage, table => table.memory_bytes())
    }

    fn for_each_stored(&self, each: impl FnMut(usize, &[T])) {
        either!(&self.storage, table => table.for_each_stored(each));
    }
}
