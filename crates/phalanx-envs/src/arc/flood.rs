//! Flood fill by rows: the region of one colour around a cell, as a selection.
//!
//! A row's part of the region grows along the row in one addition (a carry ripples through a run of
//! ones), and from row to row by sweeps down and up until nothing changes.

use super::grid::{Cells, ONES, Selection, bytes, equal_bytes};

/// The 4-connected region of equal colour that contains a cell of the active area.
pub fn region<const N: usize, const W: usize>(cells: &Cells<N, W>, row: usize, column: usize) -> Selection<N> {
    let same = equal_cells(cells, bytes(cells)[row * 8 * W + column]);
    let mut region = [0; N];
    region[row] = spread(1 << column, same[row]);
    loop {
        let before = region;
        for r in 1..N {
            region[r] = spread((region[r] | region[r - 1]) & same[r], same[r]);
        }
        for r in (0..N - 1).rev() {
            region[r] = spread((region[r] | region[r + 1]) & same[r], same[r]);
        }
        if region == before {
            return Selection(region);
        }
    }
}

/// The cells of one colour.
fn equal_cells<const N: usize, const W: usize>(cells: &Cells<N, W>, colour: i8) -> [u32; N] {
    let wanted = ONES * colour as u64;
    std::array::from_fn(|r| {
        let words = cells[r].iter().enumerate();
        words.fold(0, |row, (k, word)| row | gather(equal_bytes(*word, wanted)) << (8 * k))
    })
}

/// The highest bits of the eight bytes, side by side.
#[inline(always)]
fn gather(highs: u64) -> u32 {
    // Byte i, shifted by 56 - 7 i, brings its bit to place 56 + i; no two bits meet elsewhere.
    ((highs >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

/// All runs of ones in `row` that contain a seed; seeds are a part of `row`, whose top bit is 0.
#[inline(always)]
fn spread(seeds: u32, row: u32) -> u32 {
    let towards_high = |seeds: u32, row: u32| seeds | ((row.wrapping_add(seeds) ^ row) & row);
    let up = towards_high(seeds, row);
    let down = towards_high(seeds.reverse_bits() >> 1, row.reverse_bits() >> 1);
    up | (down << 1).reverse_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fills_its_run_and_no_other() {
        assert_eq!(spread(0b0000_1000, 0b0110_1110), 0b0000_1110);
        assert_eq!(spread(0b0100_0010, 0b0110_1110), 0b0110_1110);
        assert_eq!(spread(0b0000_1010, 0b0110_1110), 0b0000_1110);
        assert_eq!(spread(0, 0b0110_1110), 0);
        assert_eq!(spread(1, 0x3fff_ffff), 0x3fff_ffff);
        assert_eq!(spread(1 << 29, 0x3fff_ffff), 0x3fff_ffff);
    }

    /// Every row, every set of seeds, against growing by one cell at a time.
    #[test]
    fn spreading_equals_growing_step_by_step() {
        for row in 0_u32..256 {
            for seeds in (0..256).filter(|seeds| seeds & !row == 0) {
                let mut grown = seeds;
                for _ in 0..8 {
                    grown |= (grown << 1 | grown >> 1) & row;
                }
                assert_eq!(spread(seeds, row), grown, "{seeds:08b} in {row:08b}");
            }
        }
    }

    #[test]
    fn bits_are_gathered_in_order() {
        for byte in 0..256_u32 {
            let highs = (0..8).fold(0, |word, i| word | u64::from(byte >> i & 1) << (8 * i + 7));
            assert_eq!(gather(highs), byte);
        }
    }
}
