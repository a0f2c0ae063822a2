//! What a step needs of a state, whatever the layout of its cells.
//!
//! There are two: [`State`] for every canvas, and [`Packed`](super::compact::Packed) for the compact one. Rules,
//! rewards and ends are written once, in [`env`](super::env), over this trait.

use super::grid::{Chosen, Selection};
use super::ops::Desk;
use super::similarity::Similarity;
use super::state::{Head, State};
use super::task::PooledPair;

/// A working place on an N x N canvas.
pub trait Board<const N: usize> {
    /// A pair in the same layout.
    type Pair;

    /// Everything but cells and selection.
    fn head(&self) -> &Head;

    /// Everything but cells and selection, to change it.
    fn head_mut(&mut self) -> &mut Head;

    /// Executes an operation with the selection as the agent gave it, and remembers the effective one.
    ///
    /// # Panics
    ///
    /// If `op` is not below [`OPERATIONS`](super::ops::OPERATIONS).
    fn apply(&mut self, op: u8, chosen: &Chosen<N>, pair: &Self::Pair);

    /// Remembers that nothing was selected.
    fn select_nothing(&mut self);

    /// How much the grid agrees with the pair's target, if that is known.
    fn similarity(&self, pair: &Self::Pair) -> Option<Similarity>;
}

impl<const N: usize, const W: usize, const WORDS: usize> Board<N> for State<N, W, WORDS> {
    type Pair = PooledPair<N, W>;

    #[inline(always)]
    fn head(&self) -> &Head {
        self.view().head
    }

    #[inline(always)]
    fn head_mut(&mut self) -> &mut Head {
        self.view_mut().head
    }

    #[inline(always)]
    fn apply(&mut self, op: u8, chosen: &Chosen<N>, pair: &Self::Pair) {
        let view = self.view_mut();
        let mut desk = Desk {
            grid: view.grid,
            size: &mut view.head.size,
            clipboard: view.clipboard,
            corner: &mut view.head.corner,
            input: &pair.input,
        };
        *view.selection = desk.apply(op, chosen);
    }

    #[inline(always)]
    fn select_nothing(&mut self) {
        *self.view_mut().selection = Selection::EMPTY;
    }

    #[inline(always)]
    fn similarity(&self, pair: &Self::Pair) -> Option<Similarity> {
        let view = self.view();
        pair.has_target.then(|| Similarity::of(view.grid, view.head.size, &pair.target))
    }
}
