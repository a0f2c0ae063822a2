//! How much a grid agrees with its target.

use super::grid::{Canvas, Cells, Size, equal_bytes};

const EVEN_BYTES: u64 = 0x00ff_00ff_00ff_00ff;

/// Agreement of a working grid with a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Similarity {
    /// Cells in both with the same colour.
    pub matches: u32,
    /// Cells in at least one of both.
    pub union: u32,
}

impl Similarity {
    /// Counts.
    ///
    /// A recount of the whole canvas, not an update for changed cells: 30 x 30 cells are 30 comparisons of
    /// a register, and there is no count that could go wrong.
    #[inline(always)]
    pub fn of<const N: usize, const W: usize>(cells: &Cells<N, W>, size: Size, target: &Canvas<N, W>) -> Self {
        let words = cells.as_flattened().iter().zip(target.cells.as_flattened());
        let found = words.map(|(ours, theirs)| matching(*ours, *theirs));
        let matches = if W == 1 {
            // A count for each word gives the compiler no reason to load several at once, as it did with 512-bit registers,
            // which has to wait for the cache after rows were written one by one. No gain was measured.
            found.map(u64::count_ones).sum()
        } else {
            // A byte counts one place of every word, of which there are at most 31 x 4: it cannot run over.
            let counts = found.fold(0, |sum, found| sum + (found >> 7));
            let pairs = (counts & EVEN_BYTES) + (counts >> 8 & EVEN_BYTES);
            (pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48) as u32
        };
        let common = u32::from(size.height.min(target.size.height)) * u32::from(size.width.min(target.size.width));
        Self { matches, union: size.area() + target.size.area() - common }
    }

    /// From 0 to 1; 1 if there are no cells at all.
    #[inline(always)]
    pub fn value(self) -> f32 {
        if self.union == 0 { 1.0 } else { self.matches as f32 / self.union as f32 }
    }

    /// Same size and all cells equal.
    #[inline(always)]
    pub fn is_solved(self) -> bool {
        // Every cell of the union matches, so none is in one of both only.
        self.matches == self.union
    }
}

/// The highest bit of each byte in which both have the same colour; padding agrees with padding but counts for nothing.
#[inline(always)]
fn matching(ours: u64, theirs: u64) -> u64 {
    equal_bytes(ours, theirs) & !ours
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arc::testing::{canvas, random_canvas, random_words};

    fn similarity<const N: usize, const W: usize>(working: &Canvas<N, W>, target: &Canvas<N, W>) -> Similarity {
        Similarity::of(&working.cells, working.size, target)
    }

    #[test]
    fn golden_values() {
        let target = canvas::<4, 1>("1 2 / 3 4");
        for (working, matches, union) in
            [("1 2 / 3 4", 4, 4), ("1 2 0 / 3 4 0", 4, 6), ("1 2", 2, 4), ("1 0 / 3 4", 3, 4)]
        {
            let found = similarity(&canvas(working), &target);
            assert_eq!(found, Similarity { matches, union }, "{working}");
            assert_eq!(found.value(), matches as f32 / union as f32);
        }
        let nothing = Canvas::<4, 1>::EMPTY;
        assert_eq!(similarity(&nothing, &nothing).value(), 1.0);
    }

    fn agrees_with_counting_cells<const N: usize, const W: usize>() {
        let mut word = random_words(5);
        for _ in 0..2_000 {
            let (a, mut b) = (random_canvas::<N, W>(&mut word, 2), random_canvas::<N, W>(&mut word, 2));
            if word().is_multiple_of(4) {
                b = a;
            }
            let (mut matches, mut union) = (0, 0);
            for r in 0..N {
                for c in 0..N {
                    let (x, y) = (a.get(r, c), b.get(r, c));
                    union += u32::from(x >= 0 || y >= 0);
                    matches += u32::from(x >= 0 && x == y);
                }
            }
            let found = similarity(&a, &b);
            assert_eq!(found, Similarity { matches, union });
            assert_eq!(found.is_solved(), a == b);
            assert_eq!(found.value() == 1.0, found.is_solved());
        }
    }

    #[test]
    fn similarity_is_one_if_and_only_if_solved() {
        agrees_with_counting_cells::<5, 1>();
        agrees_with_counting_cells::<10, 2>();
        agrees_with_counting_cells::<30, 4>();
    }
}
