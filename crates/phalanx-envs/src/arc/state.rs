//! What changes from step to step, as plain data.
//!
//! One array of words: the working grid, the clipboard, the selection, then a header. `WORDS` follows
//! from N and W, but the language cannot say so yet; [`words`] computes it and a wrong one does not compile.

use bytemuck::{Pod, Zeroable};

use super::action::OperationSet;
use super::grid::{Cells, Corner, Selection, Size};

/// Words of a state for an N x N canvas in rows of W words.
pub const fn words(n: usize, w: usize) -> usize {
    2 * n * w + (4 * n + size_of::<Head>()).div_ceil(8)
}

/// The state of one environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct State<const N: usize, const W: usize, const WORDS: usize>([u64; WORDS]);

/// Everything of a state but cells and selection.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Head {
    /// Operations allowed in this state, a bit each: the lower 32.
    pub allowed_low: u32,
    /// Operations 32 to 34.
    pub allowed_high: u32,
    /// Agreement with the target, 0 to 1.
    pub similarity: f32,
    /// The pair that is being solved, counted over the whole pool.
    pub pair: u32,
    /// Steps taken.
    pub steps: u32,
    /// The active area of the working grid.
    pub size: Size,
    /// Where the clipboard's cells begin.
    pub corner: Corner,
    /// Submissions made.
    pub attempts: u8,
    /// The last operation, -1 before the first.
    pub operation: i8,
    /// 1 if the grid equals the target.
    pub solved: u8,
    /// 1 if the last operation was not allowed and therefore not executed.
    pub rejected: u8,
}

impl Head {
    /// The first of an episode; what it is compared with is another's business.
    #[inline(always)]
    pub fn start(pair: u32, size: Size) -> Self {
        Self {
            allowed_low: OperationSet::FULL.0 as u32,
            allowed_high: (OperationSet::FULL.0 >> 32) as u32,
            similarity: 0.0,
            pair,
            steps: 0,
            size,
            corner: Corner::NONE,
            attempts: 0,
            operation: -1,
            solved: 0,
            rejected: 0,
        }
    }

    /// Counts a step with an operation, executed or not.
    #[inline(always)]
    pub fn record(&mut self, op: u8, rejected: bool) {
        self.steps = self.steps.saturating_add(1);
        (self.operation, self.rejected) = (op as i8, u8::from(rejected));
    }

    /// Operations allowed in this state.
    #[inline(always)]
    pub fn allowed(&self) -> u64 {
        u64::from(self.allowed_high) << 32 | u64::from(self.allowed_low)
    }

    /// Changes the operations allowed in this state.
    pub fn set_allowed(&mut self, allowed: u64) {
        (self.allowed_low, self.allowed_high) = (allowed as u32, (allowed >> 32) as u32);
    }
}

/// A look at a state.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, const N: usize, const W: usize> {
    /// The working grid.
    pub grid: &'a Cells<N, W>,
    /// The clipboard, padding where nothing was copied.
    pub clipboard: &'a Cells<N, W>,
    /// The last effective selection.
    pub selection: &'a Selection<N>,
    /// The rest.
    pub head: &'a Head,
}

/// A look at a state to change it.
#[derive(Debug)]
pub struct ViewMut<'a, const N: usize, const W: usize> {
    /// The working grid.
    pub grid: &'a mut Cells<N, W>,
    /// The clipboard, padding where nothing was copied.
    pub clipboard: &'a mut Cells<N, W>,
    /// The last effective selection.
    pub selection: &'a mut Selection<N>,
    /// The rest.
    pub head: &'a mut Head,
}

impl<const N: usize, const W: usize, const WORDS: usize> State<N, W, WORDS> {
    const IS_SOUND: () = assert!(WORDS == words(N, W), "WORDS must be words(N, W)");

    /// Its parts.
    #[inline(always)]
    pub fn view(&self) -> View<'_, N, W> {
        let () = Self::IS_SOUND;
        let (grid, rest) = self.0.split_at(N * W);
        let (clipboard, rest) = rest.split_at(N * W);
        let (selection, head) = bytemuck::cast_slice::<_, u32>(rest).split_at(N);
        View {
            grid: bytemuck::from_bytes(bytemuck::cast_slice(grid)),
            clipboard: bytemuck::from_bytes(bytemuck::cast_slice(clipboard)),
            selection: bytemuck::from_bytes(bytemuck::cast_slice(selection)),
            head: bytemuck::from_bytes(&bytemuck::cast_slice(head)[..size_of::<Head>()]),
        }
    }

    /// Its parts, to change them.
    #[inline(always)]
    pub fn view_mut(&mut self) -> ViewMut<'_, N, W> {
        let () = Self::IS_SOUND;
        let (grid, rest) = self.0.split_at_mut(N * W);
        let (clipboard, rest) = rest.split_at_mut(N * W);
        let (selection, head) = bytemuck::cast_slice_mut::<_, u32>(rest).split_at_mut(N);
        ViewMut {
            grid: bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(grid)),
            clipboard: bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(clipboard)),
            selection: bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(selection)),
            head: bytemuck::from_bytes_mut(&mut bytemuck::cast_slice_mut(head)[..size_of::<Head>()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_state_is_two_cache_lines() {
        assert_eq!(size_of::<State<5, 1, { words(5, 1) }>>(), 128);
        assert_eq!(size_of::<State<10, 2, { words(10, 2) }>>(), 392);
        assert_eq!(size_of::<State<30, 4, { words(30, 4) }>>(), 2_072);
    }

    #[test]
    fn parts_do_not_overlap() {
        let mut state = State::<5, 1, { words(5, 1) }>::zeroed();
        let view = state.view_mut();
        (*view.grid, *view.clipboard, *view.selection) = ([[1]; 5], [[2]; 5], Selection([3; 5]));
        view.head.set_allowed(0x7_1234_5678);
        let view = state.view();
        assert_eq!((*view.grid, *view.clipboard, *view.selection), ([[1]; 5], [[2]; 5], Selection([3; 5])));
        assert_eq!(view.head.allowed(), 0x7_1234_5678);
    }
}
