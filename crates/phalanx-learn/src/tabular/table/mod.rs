//! Tables of action values: one interface, four ways to store it, equal results bit for bit.
//!
//! | type | storage | for |
//! |---|---|---|
//! | [`Dense`] | one array, row after row | few states, or most of them visited |
//! | [`List`] | a row of its own for each state | the reference that tests compare with |
//! | [`Sparse`] | a hash map from states to rows | many states, few of them visited |
//! | [`Hybrid`] | sparse until dense is better | whoever does not want to choose |
//!
//! Every value is 0 until it is set. A state is *visited* if its row has a value other than 0.

mod dense;
mod hybrid;
mod list;
mod npy;
mod sparse;

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use phalanx_core::lanes::{LaneValue, Lanes, Mask, Mask8, Real, f32x8};
use serde::{Deserialize, Serialize};

pub use dense::Dense;
pub use hybrid::Hybrid;
pub use list::List;
pub use sparse::Sparse;

use crate::error::{Error, Result};
use crate::nn::Scalar;
use crate::run::settings::choice;
use crate::state::{Element, State};

/// What tables hold: `f32` for speed, `f64` for tests of bits.
pub trait Value: Scalar + Element + Serialize {
    /// The type as NumPy spells it.
    const NUMPY: &'static str;
    /// The same value where several threads can reach it.
    type Shared: Default + Debug + Send + Sync;
    /// The bytes, least significant first, at the end of `bytes`.
    fn write_to(self, bytes: &mut Vec<u8>);
    /// The value of as many bytes as it has.
    fn read_from(bytes: &[u8]) -> Self;
    /// The value if the lowest bit is set, else minus infinity; without a branch, because masks have no pattern.
    fn if_legal(self, bit: u32) -> Self;
    /// The largest of eight values whose bits are set; minus infinity if none is.
    fn max_of_eight(values: &[Self; 8], legal: u32) -> Self;
    /// Which of eight values equal `value`, a bit each.
    fn equal_of_eight(values: &[Self; 8], value: Self) -> u32;
    /// What threads see; some other thread may already know better.
    fn load(shared: &Self::Shared) -> Self;
    /// Replaces the value whatever it has become meanwhile.
    fn store(self, shared: &Self::Shared);
    /// Replaces the value by `new` of it, without losing what another thread does at the same time.
    fn modify(shared: &Self::Shared, new: impl Fn(Self) -> Self);
}

macro_rules! value {
    ($type:ty, $bits:ty, $numpy:literal, $atomic:ty, $masked:expr, $equal:expr) => {
        impl Value for $type {
            const NUMPY: &'static str = $numpy;
            type Shared = $atomic;

            fn write_to(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn read_from(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("the bytes of one value"))
            }

            #[inline(always)]
            fn if_legal(self, bit: u32) -> Self {
                let keep = <$bits>::from(bit & 1).wrapping_neg();
                Self::from_bits(self.to_bits() & keep | Self::NEG_INFINITY.to_bits() & !keep)
            }

            #[inline(always)]
            fn max_of_eight(values: &[Self; 8], legal: u32) -> Self {
                let mut lanes: [Self; 8] = $masked(values, legal);
                // As a tree, which stays in lanes.
                for half in [4, 2, 1] {
                    for lane in 0..half {
                        let (a, b) = (lanes[lane], lanes[lane + half]);
                        lanes[lane] = if b > a { b } else { a };
                    }
                }
                lanes[0]
            }

            #[inline(always)]
            fn equal_of_eight(values: &[Self; 8], value: Self) -> u32 {
                $equal(values, value)
            }

            #[inline(always)]
            fn load(shared: &$atomic) -> Self {
                Self::from_bits(shared.load(Ordering::Relaxed))
            }

            #[inline(always)]
            fn store(self, shared: &$atomic) {
                shared.store(self.to_bits(), Ordering::Relaxed);
            }

            #[inline(always)]
            fn modify(shared: &$atomic, new: impl Fn(Self) -> Self) {
                let mut seen = shared.load(Ordering::Relaxed);
                let next = |bits| new(Self::from_bits(bits)).to_bits();
                // Relaxed: entries are independent, and nothing else is published through them.
                while let Err(now) =
                    shared.compare_exchange_weak(seen, next(seen), Ordering::Relaxed, Ordering::Relaxed)
                {
                    seen = now;
                }
            }
        }
    };
}

value!(
    f32,
    u32,
    "<f4",
    AtomicU32,
    |values: &[f32; 8], legal| {
        let mut lanes = [0.0; 8];
        let none = <f32x8 as Lanes>::from_slice(&[f32::NEG_INFINITY; 8]);
        let values = <f32x8 as Lanes>::from_slice(values);
        <f32x8 as LaneValue>::select(Mask8::from_bits(legal), values, none).write_to(&mut lanes);
        lanes
    },
    |values: &[f32; 8], value| Real::eq(f32x8::from_slice(values), f32x8::from_slice(&[value; 8])).bits()
);
value!(
    f64,
    u64,
    "<f8",
    AtomicU64,
    |values: &[f64; 8], legal: u32| std::array::from_fn(|lane| values[lane].if_legal(legal >> lane)),
    |values: &[f64; 8], value| (0..8).fold(0, |bits, lane| bits | u32::from(values[lane] == value) << lane)
);

choice! {
    /// How a table keeps its values.
    Kind {
        /// Sparse at first, dense once that is better.
        Auto = "optimal" | "auto" | "hybrid",
        /// A row for every state, in one array.
        Dense = "dense",
        /// A row for every state, each an array of its own: the plain implementation.
        List = "list",
        /// A row for every state that was met.
        Sparse = "sparse",
    }
}

/// Which actions of a state are legal.
#[derive(Clone, Copy, Debug)]
pub enum Legal<'a> {
    /// All.
    All,
    /// Action `a` if bit `a` is set; for 32 actions at most.
    Bits(u32),
    /// Action `a` if its flag is true.
    Flags(&'a [bool]),
}

impl Legal<'_> {
    /// Whether an action is among them.
    pub fn allows(&self, action: usize) -> bool {
        match self {
            Self::All => true,
            Self::Bits(bits) => action < 32 && bits >> action & 1 == 1,
            Self::Flags(flags) => flags[action],
        }
    }
}

/// What learning needs of a table: rows to read, single values to change.
pub trait Store<T: Value> {
    /// Values in a row.
    fn actions(&self) -> usize;
    /// The values of a state; zeros if there are none yet. Where they do not lie side by side they are copied to
    /// `scratch`, which has room for a row.
    fn row<'a>(&'a self, state: usize, scratch: &'a mut [T]) -> &'a [T];
    /// Replaces a value by `new` of it.
    fn update(&mut self, state: usize, action: usize, new: impl Fn(T) -> T);
}

/// A table of one value for each state and action.
pub trait Table<T: Value>: Store<T> + Clone + Debug + Send + Sync + 'static {
    /// A table of zeros.
    fn new(states: usize, actions: usize) -> Self;
    /// A table of zeros that becomes dense, if it can, at this share of visited states.
    fn sized(states: usize, actions: usize, _dense_threshold: Option<f64>) -> Self {
        Self::new(states, actions)
    }
    /// A table of zeros like this one.
    fn empty(&self) -> Self {
        Self::new(self.states(), self.actions())
    }
    /// Number of states.
    fn states(&self) -> usize;
    /// The values of a state, or nothing if all are 0 and none is stored.
    fn stored(&self, state: usize) -> Option<&[T]>;
    /// The values of a state, to be changed.
    fn row_mut(&mut self, state: usize) -> &mut [T];
    /// Bytes the values take, with what it takes to find them.
    fn memory_bytes(&self) -> usize;
    /// Calls `each` with the states that may have been visited and their values, in order of the states.
    fn for_each_stored(&self, each: impl FnMut(usize, &[T]));

    /// One value.
    fn get(&self, state: usize, action: usize) -> T {
        self.stored(state).map_or(T::zero(), |row| row[action])
    }

    /// Sets one value.
    fn set(&mut self, state: usize, action: usize, value: T) {
        self.row_mut(state)[action] = value;
    }

    /// Adds to one value.
    fn add(&mut self, state: usize, action: usize, value: T) {
        self.row_mut(state)[action] += value;
    }

    /// The values of an action in all states.
    fn column(&self, action: usize) -> Vec<T> {
        (0..self.states()).map(|state| self.get(state, action)).collect()
    }

    /// The largest value among legal actions; 0 if none is legal.
    fn max(&self, state: usize, legal: Legal<'_>) -> T {
        self.argmax(state, legal).map_or(T::zero(), |action| self.get(state, action))
    }

    /// The first of the legal actions with the largest value.
    fn argmax(&self, state: usize, legal: Legal<'_>) -> Option<usize> {
        let value = |action| self.get(state, action);
        let legal = (0..self.actions()).filter(|action| legal.allows(*action));
        legal.reduce(|best, action| if value(action) > value(best) { action } else { best })
    }

    /// Calls `each` with the visited states and their values, in order of the states.
    fn for_each_visited(&self, mut each: impl FnMut(usize, &[T])) {
        self.for_each_stored(|state, row| {
            // The sign of zero counts: what comes back must have the same bits.
            if row.iter().any(|value| *value != T::zero() || value.is_sign_negative()) {
                each(state, row);
            }
        });
    }

    /// Number of visited states.
    fn visited(&self) -> usize {
        let mut count = 0;
        self.for_each_visited(|_, _| count += 1);
        count
    }

    /// The visited rows, in a form that does not depend on the kind of table.
    fn save(&self) -> State {
        let (mut states, mut values) = (Vec::new(), Vec::new());
        self.for_each_visited(|state, row| {
            states.push(state as u64);
            values.extend_from_slice(row);
        });
        let mut saved = State::default();
        let header = Header { version: VERSION, states: self.states(), actions: self.actions(), dtype: T::NAME.into() };
        saved.put_value("header", &header);
        saved.put("states", &[states.len()], &states);
        saved.put("values", &[states.len(), self.actions()], &values);
        saved
    }

    /// An empty table with what [`Table::save`] of any kind of the same size has saved.
    fn filled(mut self, saved: &State) -> Result<Self> {
        let (states, actions) = (self.states(), self.actions());
        let found: Header = saved.value("header")?;
        let needed = Header { version: VERSION, states, actions, dtype: T::NAME.into() };
        if found != needed {
            let text = |header: &Header| {
                let Header { version, states, actions, dtype } = header;
                format!("a table of {states} x {actions} {dtype} (version {version})")
            };
            return Err(Error::Shape { name: "header".into(), found: text(&found), expected: text(&needed) });
        }
        let visited = saved.get_all::<u64>("states")?;
        let values = saved.get::<T>("values", &[visited.len(), actions])?;
        for (&state, row) in visited.iter().zip(values.chunks_exact(actions)) {
            if state >= states as u64 {
                let why = format!("state {state} is beyond the last of {states}");
                return Err(Error::Value { name: "states".into(), why });
            }
            self.row_mut(state as usize).copy_from_slice(row);
        }
        Ok(self)
    }

    /// The whole table as a NumPy file (`.npy`).
    fn to_npy(&self) -> Vec<u8> {
        npy::write(self)
    }

    /// A table from a NumPy file of the same type and shape.
    fn from_npy(states: usize, actions: usize, bytes: &[u8]) -> Result<Self> {
        npy::read(states, actions, bytes)
    }
}

const VERSION: u32 = 1;

#[derive(PartialEq, Serialize, Deserialize)]
struct Header {
    version: u32,
    states: usize,
    actions: usize,
    dtype: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    /// The same random changes in every kind of table, which then must be the same.
    fn filled<T: Value, B: Table<T>>(states: usize, changes: usize) -> B {
        let mut random = Random::new(3, Purpose::Batches);
        let mut table = B::new(states, 5);
        for _ in 0..changes {
            let (state, action) = (random.below(states as u32) as usize, random.below(5) as usize);
            let value = T::of(random.normal());
            match random.below(3) {
                0 => table.set(state, action, value),
                1 => table.add(state, action, value),
                _ => table.update(state, action, |old| old + T::of(0.3) * (value - old)),
            }
        }
        table
    }

    fn same<T: Value, B: Table<T>>(reference: &List<T>, changes: usize) {
        let table: B = filled(reference.states(), changes);
        let scratch = &mut [T::zero(); 5];
        let copy = &mut [T::zero(); 5];
        for state in 0..reference.states() {
            assert_eq!(table.row(state, scratch), reference.row(state, copy));
            for legal in [Legal::All, Legal::Bits(0b10100), Legal::Flags(&[false; 5]), Legal::Bits(0)] {
                assert_eq!(table.argmax(state, legal), reference.argmax(state, legal));
                assert_eq!(table.max(state, legal), reference.max(state, legal));
            }
        }
        assert_eq!(table.column(3), reference.column(3));
        assert_eq!(table.visited(), reference.visited());
        assert_eq!(table.save(), reference.save());
        assert_eq!(table.to_npy(), reference.to_npy());
        let states = reference.states();
        assert_eq!(B::new(states, 5).filled(&table.save()).unwrap().save(), table.save());
        assert_eq!(B::from_npy(states, 5, &table.to_npy()).unwrap().save(), table.save());
    }

    fn all_same<T: Value>() {
        for changes in [0, 1, 300, 10_000] {
            let reference: List<T> = filled(4_000, changes);
            same::<T, List<T>>(&reference, changes);
            same::<T, Dense<T>>(&reference, changes);
            same::<T, Sparse<T>>(&reference, changes);
            same::<T, Hybrid<T>>(&reference, changes);
        }
    }

    #[test]
    fn all_kinds_hold_the_same() {
        all_same::<f32>();
        all_same::<f64>();
    }

    #[test]
    fn a_hybrid_turns_dense_at_a_quarter_of_the_states() {
        // Too large for the rule that small tables are dense.
        let states = 400_000;
        let mut table = Hybrid::<f64>::new(states, 9);
        for state in 0..states / 4 - 1 {
            table.set(state, 0, 1.0);
        }
        assert!(!table.is_dense());
        let before = table.save();
        table.set(states - 1, 8, 1.0);
        assert!(table.is_dense());
        table.set(states - 1, 8, 0.0);
        assert_eq!(table.save(), before);
        // Rows so short that finding them takes more than they do.
        let mut table = Hybrid::<f32>::new(4_000_000, 1);
        for state in 0..920_000 {
            table.set(state, 0, 1.0);
        }
        assert!(table.is_dense());
        assert!(table.memory_bytes() < 17_000_000);
        let mut small = Hybrid::<f32>::new(19_683, 9);
        assert!(!small.is_dense() && small.memory_bytes() < 1_000);
        small.set(0, 0, 1.0);
        assert!(small.is_dense());
        // Where somebody has said when, that counts, and for copies, too.
        let mut half = Hybrid::<f32>::sized(1_000, 9, Some(0.5)).empty();
        (0..499).for_each(|state| half.set(state, 0, 1.0));
        assert!(!half.is_dense());
        half.set(499, 0, 1.0);
        assert!(half.is_dense());
    }

    #[test]
    fn reading_creates_nothing_and_the_maximum_of_a_missing_row_is_zero() {
        let mut table = Sparse::<f64>::new(1 << 24, 3);
        assert_eq!(table.max(9, Legal::All), 0.0);
        assert_eq!(table.row(9, &mut [1.0; 3]), [0.0; 3]);
        assert_eq!(table.rows(), 0);
        // All stored values are negative, but the third is not stored: it is 0.
        table.set(9, 0, -1.0);
        table.set(9, 1, -2.0);
        assert_eq!((table.rows(), table.max(9, Legal::All), table.argmax(9, Legal::All)), (1, 0.0, Some(2)));
        assert_eq!(table.max(9, Legal::Bits(0b11)), -1.0);
        let dense = Dense::<f64>::new(19_683, 9);
        assert_eq!(dense.memory_bytes(), 1_417_176);
    }

    #[test]
    fn a_table_of_another_size_or_a_damaged_one_is_refused() {
        let table: Dense<f32> = filled(50, 40);
        let message = |result: Result<Dense<f32>>| result.unwrap_err().to_string();
        assert_eq!(
            message(Dense::new(51, 5).filled(&table.save())),
            "'header' of the checkpoint is a table of 50 x 5 F32 (version 1), but a table of 51 x 5 F32 (version 1) is needed"
        );
        assert!(Dense::<f64>::new(50, 5).filled(&table.save()).is_err());
        let mut damaged = table.save();
        damaged.put("states", &[1], &[50_u64]);
        damaged.put("values", &[1, 5], &[0.0_f32; 5]);
        assert_eq!(
            message(Dense::new(50, 5).filled(&damaged)),
            "'states' of the checkpoint cannot be read: state 50 is beyond the last of 50"
        );
        let bytes = table.to_npy();
        assert_eq!(bytes.len() % 64, (50 * 5 * 4) % 64);
        assert!(Dense::<f32>::from_npy(50, 5, &bytes[..bytes.len() - 1]).is_err());
        assert!(Dense::<f32>::from_npy(5, 50, &bytes).is_err());
        assert!(Dense::<f32>::from_npy(50, 5, b"PK").is_err());
        assert!(Dense::<f64>::from_npy(50, 5, &bytes).is_err());
    }
}
