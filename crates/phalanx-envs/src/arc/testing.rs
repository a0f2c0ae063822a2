//! What the tests of several modules share.

use super::grid::{Canvas, Clipboard, Selection};
use super::ops::Desk;

/// A grid as the reference writes it: rows separated by `/`, `.` for padding.
pub(super) fn canvas<const N: usize, const W: usize>(text: &str) -> Canvas<N, W> {
    let rows: Vec<Vec<i8>> = text
        .split('/')
        .map(|row| row.split_whitespace().filter(|cell| *cell != ".").map(|cell| cell.parse().unwrap()).collect())
        .filter(|row: &Vec<i8>| !row.is_empty())
        .collect();
    Canvas::from_fn(rows.len(), rows[0].len(), |r, c| rows[r][c])
}

/// Random words (SplitMix64, upper half).
pub(super) fn random_words(seed: u64) -> impl FnMut() -> u32 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }
}

/// A grid of any size with the first few colours.
pub(super) fn random_canvas<const N: usize, const W: usize>(
    word: &mut impl FnMut() -> u32,
    colours: u32,
) -> Canvas<N, W> {
    let (height, width) = (1 + word() as usize % N, 1 + word() as usize % N);
    Canvas::from_fn(height, width, |_, _| (word() % colours) as i8)
}

/// A selection of one of the kinds that agents make: none, a cell, a rectangle, anything.
pub(super) fn random_selection<const N: usize>(word: &mut impl FnMut() -> u32) -> Selection<N> {
    let mut place = || (word() as usize % N, word() as usize % N);
    let (first, second) = (place(), place());
    match word() % 8 {
        0 => Selection::EMPTY,
        1 | 2 => Selection::point(first.0, first.1),
        3 => Selection::from_fn(|_, _| word().is_multiple_of(3)),
        _ => Selection::rectangle(first, second),
    }
}

/// A desk from separate parts.
pub(super) fn desk<'a, const N: usize, const W: usize>(
    grid: &'a mut Canvas<N, W>,
    clipboard: &'a mut Clipboard<N, W>,
    input: &'a Canvas<N, W>,
) -> Desk<'a, N, W> {
    Desk {
        grid: &mut grid.cells,
        size: &mut grid.size,
        clipboard: &mut clipboard.cells,
        corner: &mut clipboard.corner,
        input,
    }
}
