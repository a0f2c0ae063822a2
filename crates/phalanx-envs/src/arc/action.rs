//! Actions in every format, and which operations are allowed.
//!
//! Whatever the format, an action becomes an operation and a selection. The formats are vectors of small
//! integers (`multi`), or one integer in mixed radix with the first component most significant (`flat`):
//!
//! | format | components | meaning |
//! |---|---|---|
//! | mask | op, N*N bits in row-major order | as given |
//! | point | op, row, column | one cell |
//! | bbox | op, r1, c1, r2, c2 | inclusive rectangle, corners in any order |
//!
//! Coordinates beyond the canvas are clipped. With filtering the first component counts the allowed
//! operations only; without, it is the operation itself. (JaxARC's presets never restrict anything.)

use super::grid::{Bounds, Chosen, Selection};
use super::ops::OPERATIONS;

/// What an agent does: an operation and the cells it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action<const N: usize> {
    /// The operation, 0 to 34.
    pub op: u8,
    /// The cells.
    pub chosen: Chosen<N>,
}

/// How a selection is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A bit for each cell.
    Mask,
    /// One cell.
    Point,
    /// Two corners.
    #[default]
    Bbox,
}

/// A set of operations, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationSet(pub u64);

/// What happens when an operation is not allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InvalidOperation {
    /// The nearest allowed operation is taken, the smaller of two; 0 if none is.
    #[default]
    Clip,
    /// Nothing happens, but the step counts.
    Reject,
    /// It is executed all the same.
    PassThrough,
    /// As reject, with a penalty.
    Penalize,
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Execute this one.
    Execute(u8),
    /// Do nothing.
    Reject,
}

/// The action space of an environment on an N x N canvas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoding<const N: usize> {
    format: Format,
    /// The operation that each value of the first component stands for.
    operations: Vec<u8>,
}

impl OperationSet {
    /// Every operation.
    pub const FULL: Self = Self((1 << OPERATIONS) - 1);
    /// Fill, resize and submit: {0-9, 33, 34}.
    pub const RAW: Self = Self(0x3ff | 0b11 << 33);
    /// Without moves, rotations and flips: {0-19, 28-34}.
    pub const STANDARD: Self = Self(0xf_ffff | 0x7f << 28);

    /// The operations listed; those that do not exist are left out.
    pub fn of(ops: &[u8]) -> Self {
        Self(ops.iter().filter(|op| **op < OPERATIONS).fold(0, |set, op| set | 1 << op))
    }

    /// Whether an operation is in the set.
    #[inline(always)]
    pub fn contains(self, op: u8) -> bool {
        self.0 >> op & 1 == 1
    }

    /// The operations of the set, in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..OPERATIONS).filter(move |op| self.contains(*op))
    }

    /// The member nearest to `op`, the smaller of two; 0 if the set is empty.
    #[inline]
    pub fn nearest(self, op: u8) -> u8 {
        let below = self.0 & ((2 << op) - 1);
        let above = self.0 & !((1 << op) - 1);
        match (below, above) {
            (0, 0) => 0,
            (0, _) => above.trailing_zeros() as u8,
            (_, 0) => below.ilog2() as u8,
            _ => {
                let (below, above) = (below.ilog2() as u8, above.trailing_zeros() as u8);
                if op - below <= above - op { below } else { above }
            }
        }
    }
}

impl InvalidOperation {
    /// Decides about an operation.
    #[inline(always)]
    pub fn judge(self, op: u8, allowed: OperationSet) -> Verdict {
        if allowed.contains(op) {
            return Verdict::Execute(op);
        }
        match self {
            Self::Clip => Verdict::Execute(allowed.nearest(op)),
            Self::PassThrough => Verdict::Execute(op),
            Self::Reject | Self::Penalize => Verdict::Reject,
        }
    }
}

impl<const N: usize> Encoding<N> {
    /// A space of all operations, or of a set of them if the space is to be filtered.
    pub fn new(format: Format, filter: Option<OperationSet>) -> Self {
        Self { format, operations: filter.unwrap_or(OperationSet::FULL).iter().collect() }
    }

    /// The operation that each value of the first component stands for.
    pub fn operations(&self) -> &[u8] {
        &self.operations
    }

    /// Number of values of each component, the operation first.
    pub fn sizes(&self) -> Vec<u32> {
        let (value, count) = match self.format {
            Format::Mask => (2, N * N),
            Format::Point => (N as u32, 2),
            Format::Bbox => (N as u32, 4),
        };
        std::iter::once(self.operations.len() as u32).chain(std::iter::repeat_n(value, count)).collect()
    }

    /// Number of flat actions for each operation; `None` when it does not fit 64 bits.
    #[inline]
    pub fn selections(&self) -> Option<u64> {
        match self.format {
            Format::Mask => 1_u64.checked_shl((N * N).try_into().ok()?),
            Format::Point => Some((N * N) as u64),
            Format::Bbox => Some((N * N * N * N) as u64),
        }
    }

    /// Number of flat actions; `None` when they do not fit 63 bits.
    pub fn flat_size(&self) -> Option<u64> {
        self.selections()?.checked_mul(self.operations.len() as u64).filter(|size| *size < 1 << 63)
    }

    /// The operation that a value of the first component means; values beyond the last mean the last.
    #[inline(always)]
    fn operation(&self, index: usize) -> u8 {
        // An empty filter leaves operation 0, which the policy for invalid operations then judges.
        self.operations.get(index).or(self.operations.last()).copied().unwrap_or(0)
    }

    /// The canonical action of a vector of components.
    ///
    /// # Panics
    ///
    /// If there are too few components.
    #[inline(always)]
    pub fn decode(&self, components: &[i32]) -> Action<N> {
        let place = |component: i32| component.clamp(0, N as i32 - 1) as usize;
        let chosen = match self.format {
            Format::Mask => Chosen::Cells(Selection::from_fn(|r, c| components[1 + r * N + c] > 0)),
            Format::Point => point(place(components[1]), place(components[2])),
            Format::Bbox => {
                let corners = components[1..].first_chunk::<4>().expect("two corners");
                let [r1, c1, r2, c2] = corners.map(place);
                Chosen::Rectangle(Bounds::between((r1, c1), (r2, c2)))
            }
        };
        Action { op: self.operation(components[0].max(0) as usize), chosen }
    }

    /// The canonical action of a flat index.
    #[inline(always)]
    pub fn decode_flat(&self, index: u64) -> Action<N> {
        let n = N as u64;
        let digit = |place: u64| (index / place % n) as usize;
        let (op, chosen) = match self.format {
            Format::Mask => {
                let last = N * N - 1;
                let cells = Selection::from_fn(|r, c| index >> (last - (r * N + c)) & 1 == 1);
                (index >> (N * N), Chosen::Cells(cells))
            }
            Format::Point => (index / (n * n), point(digit(n), digit(1))),
            Format::Bbox => {
                let corners = Bounds::between((digit(n * n * n), digit(n * n)), (digit(n), digit(1)));
                (index / (n * n * n * n), Chosen::Rectangle(corners))
            }
        };
        Action { op: self.operation(op as usize), chosen }
    }

    /// The flat index of a vector of components within their sizes.
    pub fn flatten(&self, components: &[i32]) -> u64 {
        self.sizes().iter().zip(components).fold(0, |flat, (size, value)| flat * u64::from(*size) + *value as u64)
    }
}

#[inline(always)]
fn point<const N: usize>(row: usize, column: usize) -> Chosen<N> {
    Chosen::Rectangle(Bounds { top: row, left: column, bottom: row, right: column })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arc::testing::random_words;

    #[test]
    fn golden_decodes() {
        let bbox = Encoding::<5>::new(Format::Bbox, None);
        let point = Encoding::<5>::new(Format::Point, None);
        assert_eq!(bbox.decode_flat(21_874), Action { op: 34, chosen: Selection::point(4, 4).into() });
        assert_eq!(point.decode_flat(437), Action { op: 17, chosen: Selection::point(2, 2).into() });
        let wide = Action { op: 19, chosen: Selection::rectangle((3, 0), (4, 3)).into() };
        assert_eq!(bbox.decode_flat(12_345), wide);
        assert_eq!(bbox.decode(&[19, 3, 3, 4, 0]), wide);
        assert_eq!(bbox.flatten(&[19, 3, 3, 4, 0]), 12_345);
    }

    #[test]
    fn sizes() {
        let flat =
            |format| (Encoding::<5>::new(format, None).flat_size(), Encoding::<30>::new(format, None).flat_size());
        assert_eq!(flat(Format::Point), (Some(875), Some(31_500)));
        assert_eq!(flat(Format::Bbox), (Some(21_875), Some(28_350_000)));
        assert_eq!(flat(Format::Mask), (Some(35 << 25), None));
        assert_eq!(Encoding::<7>::new(Format::Mask, None).flat_size(), Some(35 << 49));
        assert_eq!(Encoding::<8>::new(Format::Mask, None).flat_size(), None);
        assert_eq!(Encoding::<5>::new(Format::Mask, None).sizes().len(), 26);
        assert_eq!(Encoding::<30>::new(Format::Bbox, None).sizes(), [35, 30, 30, 30, 30]);
    }

    /// Bits are row-major with the last cell least significant.
    #[test]
    fn flat_masks_count_from_the_last_cell() {
        let mask = Encoding::<5>::new(Format::Mask, None);
        assert_eq!(mask.decode_flat(1), Action { op: 0, chosen: Selection::point(4, 4).into() });
        assert_eq!(mask.decode_flat(3 << 25 | 1 << 24), Action { op: 3, chosen: Selection::point(0, 0).into() });
    }

    fn every_format_of_the_same_action_agrees<const N: usize>() {
        let mut word = random_words(N as u64);
        let [mask, point, bbox] = [Format::Mask, Format::Point, Format::Bbox].map(|f| Encoding::<N>::new(f, None));
        for round in 0..500 {
            let op = (word() % 35) as i32;
            let [r1, c1, r2, c2] = [(); 4].map(|()| (word() % N as u32) as i32);
            let (r2, c2) = if round % 2 == 0 { (r1, c1) } else { (r2, c2) };
            let expected = bbox.decode(&[op, r1, c1, r2, c2]);
            assert_eq!(expected.op, op as u8);
            let inside = |r: usize, c: usize| {
                let between = |x: usize, a: i32, b: i32| (a.min(b)..=a.max(b)).contains(&(x as i32));
                between(r, r1, r2) && between(c, c1, c2)
            };
            assert_eq!(expected.chosen.selection(), Selection::from_fn(inside));
            let bits = (0..N * N).map(|i| i32::from(inside(i / N, i % N)));
            let as_mask: Vec<i32> = std::iter::once(op).chain(bits).collect();
            assert_eq!(mask.decode(&as_mask), expected);
            assert_eq!(bbox.decode_flat(bbox.flatten(&[op, r1, c1, r2, c2])), expected);
            assert_eq!(bbox.decode(&[op, r2, c2, r1, c1]), expected);
            if mask.flat_size().is_some() {
                assert_eq!(mask.decode_flat(mask.flatten(&as_mask)), expected);
            }
            if round % 2 == 0 {
                assert_eq!(point.decode(&[op, r1, c1]), expected);
                assert_eq!(point.decode_flat(point.flatten(&[op, r1, c1])), expected);
            }
        }
    }

    #[test]
    fn all_formats_convert_to_the_same_canonical_action() {
        every_format_of_the_same_action_agrees::<5>();
        every_format_of_the_same_action_agrees::<10>();
        every_format_of_the_same_action_agrees::<30>();
    }

    #[test]
    fn what_is_beyond_the_edge_is_clipped() {
        let bbox = Encoding::<5>::new(Format::Bbox, None);
        assert_eq!(bbox.decode(&[99, -3, 2, 77, 77]), bbox.decode(&[34, 0, 2, 4, 4]));
        assert_eq!(bbox.decode(&[-1, 0, 0, 0, 0]).op, 0);
    }

    #[test]
    fn presets_restrict_and_shrink_the_space() {
        let listed = |set: OperationSet| set.iter().map(usize::from).collect::<Vec<_>>();
        assert_eq!(listed(OperationSet::RAW), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 33, 34]);
        assert_eq!(listed(OperationSet::STANDARD), (0..20).chain(28..35).collect::<Vec<_>>());
        assert_eq!(listed(OperationSet::FULL), (0..35).collect::<Vec<_>>());
        let raw = Encoding::<5>::new(Format::Point, Some(OperationSet::RAW));
        assert_eq!(raw.flat_size(), Some(12 * 25));
        assert_eq!(raw.decode(&[11, 0, 0]).op, 34);
        assert_eq!(raw.decode_flat(10 * 25).op, 33);
    }

    #[test]
    fn operations_that_are_not_allowed() {
        let set = OperationSet::of(&[3, 7, 20, 99]);
        let clipped: Vec<u8> = [0, 3, 4, 5, 6, 13, 14, 34].map(|op| set.nearest(op)).to_vec();
        assert_eq!(clipped, [3, 3, 3, 3, 7, 7, 20, 20]);
        assert_eq!(OperationSet(0).nearest(17), 0);
        assert_eq!(InvalidOperation::Clip.judge(5, set), Verdict::Execute(3));
        assert_eq!(InvalidOperation::PassThrough.judge(5, set), Verdict::Execute(5));
        assert_eq!(InvalidOperation::Reject.judge(5, set), Verdict::Reject);
        assert_eq!(InvalidOperation::Penalize.judge(5, set), Verdict::Reject);
        assert_eq!(InvalidOperation::Reject.judge(7, set), Verdict::Execute(7));
    }
}
