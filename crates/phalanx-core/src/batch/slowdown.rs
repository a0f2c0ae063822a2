//! Roll-outs that are slower on purpose (features `slowdown` and `slowdown-15`, both off by default): what the lab must
//! find to be believed. Results and checksums stay the same.
//!
//! Every so many stretches of a block are computed twice, the first time on copies that are thrown away. Work of the
//! same kind stays the same share however busy the machine is. A chain of dependent instructions did not: a neighbour
//! on the same core slows vector code almost twofold and such a chain not at all, which made 5 % less than 3 %.

use std::hint::black_box;

use super::kernel::{At, Cells, Kernel, Stretch};
use crate::lanes::Line;
use crate::stats::Tally;

/// Stretches of a thousand that are computed twice, set by measurement: a repeated stretch takes somewhat longer than a
/// plain one on Cascade Lake, because of the copies. On Zen 5 the builds are 3 % and 13 % slower.
const TWICE_IN_1000: Option<u64> = if cfg!(feature = "slowdown-15") {
    Some(150)
} else if cfg!(feature = "slowdown") {
    Some(42)
} else {
    None
};

/// Computes some stretches of some blocks on copies of what they consist of, in vain.
#[inline(always)]
pub(super) fn waste<K: Kernel>(kernel: &K, at: At<'_>, cells: &Cells<'_, K::Row>, run: &[Line], stretch: Stretch<'_>) {
    // Other blocks each time, so that batches of few blocks have their share too.
    let number = at.block as u64 + stretch.tick / stretch.steps.max(1) as u64;
    if TWICE_IN_1000.is_some_and(|share| number * share % 1000 < share) {
        let (mut rows, mut book, mut run) = (cells.rows.to_vec(), cells.book.to_vec(), run.to_vec());
        kernel.advance(at, Cells { rows: &mut rows, book: &mut book }, &mut run, stretch, &mut Tally::new());
        black_box((rows, book, run));
    }
}
