//! What a policy sees: the working grid, and on request more channels.
//!
//! An observation has N x N cells of C channels each (row, column, channel), small integers. In this order:
//!
//! | channel | values |
//! |---|---|
//! | grid | -1 padding, 0..9; with `one_hot` eleven channels of 0 and 1: padding, then each colour |
//! | active | 1 inside of the active area |
//! | clipboard | -1 where nothing was copied |
//! | input | the pair's input |
//! | selection | 1 for the last effective selection |
//! | target | the pair's output; -1 everywhere in test mode, whatever is asked for |
//! | context | in0, out0, in1, out1, ... of the task's demonstrations; -1 for those it does not have |
//! | steps | steps taken in percent of the limit |
//!
//! In train mode the pair that is being solved is left out of the context. JaxARC shows the target by
//! default; scores obtained that way cannot be compared with any other.

use super::grid::{COLOURS, Canvas, Cells, bytes};
use super::reward::Mode;
use super::state::View;
use super::task::TaskPool;

/// Channels of an observation beyond the working grid. Default: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// The grid as eleven planes of 0 and 1.
    pub one_hot: bool,
    /// The active area.
    pub active: bool,
    /// The clipboard.
    pub clipboard: bool,
    /// The pair's input.
    pub input: bool,
    /// The last selection.
    pub selection: bool,
    /// The pair's output: the answer.
    pub target: bool,
    /// Number of demonstrations.
    pub context: u8,
    /// Steps taken, in percent.
    pub steps: bool,
}

/// A number that an observation may consist of.
pub trait Value: Copy {
    /// The number as this type.
    fn of(value: i8) -> Self;

    /// Writes the first N columns of all rows, side by side.
    #[inline(always)]
    fn write_cells<const N: usize, const W: usize>(cells: &Cells<N, W>, out: &mut [Self]) {
        for (row, out) in bytes(cells).chunks_exact(8 * W).zip(out.chunks_exact_mut(N)) {
            for (out, value) in out.iter_mut().zip(row) {
                *out = Self::of(*value);
            }
        }
    }
}

impl Value for i8 {
    #[inline(always)]
    fn of(value: i8) -> Self {
        value
    }

    /// Copies: the loop of bytes that they replace took half of the time of a step on 30 x 30. Rows of whole
    /// words, each of which overwrites what the one before wrote too far.
    #[inline(always)]
    fn write_cells<const N: usize, const W: usize>(cells: &Cells<N, W>, out: &mut [i8]) {
        for (r, row) in bytes(cells).chunks_exact(8 * W).enumerate() {
            let width = (8 * W).min(N * N - r * N);
            out[r * N..r * N + width].copy_from_slice(&row[..width]);
        }
    }
}

impl Value for f32 {
    #[inline(always)]
    fn of(value: i8) -> Self {
        value.into()
    }
}

const PLANES: usize = 1 + COLOURS as usize;

impl Channels {
    /// Name, smallest and largest value of each channel.
    pub fn describe(&self) -> Vec<(String, i8, i8)> {
        let mut list = vec![];
        let mut add = |name: &str, low, high| list.push((name.to_owned(), low, high));
        if self.one_hot {
            add("padding", 0, 1);
            (0..COLOURS).for_each(|colour| add(&format!("colour_{colour}"), 0, 1));
        } else {
            add("grid", -1, 9);
        }
        for (on, name, low, high) in [
            (self.active, "active", 0, 1),
            (self.clipboard, "clipboard", -1, 9),
            (self.input, "input", -1, 9),
            (self.selection, "selection", 0, 1),
            (self.target, "target", -1, 9),
        ] {
            if on {
                add(name, low, high);
            }
        }
        for i in 0..self.context {
            add(&format!("context_in_{i}"), -1, 9);
            add(&format!("context_out_{i}"), -1, 9);
        }
        if self.steps {
            add("steps", 0, 100);
        }
        list
    }

    /// Number of channels.
    pub fn count(&self) -> usize {
        let single = [self.active, self.clipboard, self.input, self.selection, self.target, self.steps];
        (if self.one_hot { PLANES } else { 1 })
            + single.iter().filter(|on| **on).count()
            + 2 * usize::from(self.context)
    }

    /// Writes an observation of [`Channels::count`] x N x N values.
    ///
    /// # Panics
    ///
    /// If `out` has another length.
    #[inline(always)]
    pub fn write<const N: usize, const W: usize, T: Value>(
        &self,
        view: View<'_, N, W>,
        pool: &TaskPool<N, W>,
        mode: Mode,
        max_steps: u32,
        out: &mut [T],
    ) {
        if *self == Self::default() {
            assert_eq!(out.len(), N * N, "the working grid has {N} x {N} cells");
            return T::write_cells(view.grid, out);
        }
        self.write_all(view, pool, mode, max_steps, out);
    }

    fn write_all<const N: usize, const W: usize, T: Value>(
        &self,
        view: View<'_, N, W>,
        pool: &TaskPool<N, W>,
        mode: Mode,
        max_steps: u32,
        out: &mut [T],
    ) {
        let mut planes = Planes { out, channels: self.count(), next: 0 };
        let pair = &pool.pairs[view.head.pair as usize];
        let grid = bytes(view.grid);
        if self.one_hot {
            for plane in 0..PLANES {
                planes.put::<N>(|r, c| i8::from(grid[r * 8 * W + c] + 1 == plane as i8));
            }
        } else {
            planes.put_cells(view.grid);
        }
        if self.active {
            planes.put::<N>(|r, c| i8::from(grid[r * 8 * W + c] >= 0));
        }
        if self.clipboard {
            planes.put_cells(view.clipboard);
        }
        if self.input {
            planes.put_cells(&pair.input.cells);
        }
        if self.selection {
            planes.put::<N>(|r, c| i8::from(view.selection.contains(r, c)));
        }
        let nothing = Canvas::<N, W>::EMPTY;
        if self.target {
            let shown = if mode == Mode::Train { &pair.target } else { &nothing };
            planes.put_cells(&shown.cells);
        }
        let task = &pool.tasks[pair.task as usize];
        let demonstrations = pool.pairs[task.first as usize..][..task.train as usize].iter();
        let mut others = demonstrations.filter(|demo| mode == Mode::Test || demo.index != pair.index);
        for _ in 0..self.context {
            let (input, output) = others.next().map_or((&nothing, &nothing), |demo| (&demo.input, &demo.target));
            planes.put_cells(&input.cells);
            planes.put_cells(&output.cells);
        }
        if self.steps {
            let percent = (u64::from(view.head.steps) * 100 / u64::from(max_steps)).min(100) as i8;
            planes.put::<N>(|_, _| percent);
        }
    }
}

/// Writes one channel after the other into cells of all channels.
struct Planes<'a, T> {
    out: &'a mut [T],
    channels: usize,
    next: usize,
}

impl<T: Value> Planes<'_, T> {
    fn put<const N: usize>(&mut self, value: impl Fn(usize, usize) -> i8) {
        assert_eq!(self.out.len(), N * N * self.channels, "{N} x {N} cells of {} channels", self.channels);
        for (i, cell) in self.out.chunks_exact_mut(self.channels).enumerate() {
            cell[self.next] = T::of(value(i / N, i % N));
        }
        self.next += 1;
    }

    fn put_cells<const N: usize, const W: usize>(&mut self, cells: &Cells<N, W>) {
        let cells = bytes(cells);
        self.put::<N>(|r, c| cells[r * 8 * W + c]);
    }
}
