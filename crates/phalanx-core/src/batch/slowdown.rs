//! Roll-outs that are slower on purpose (features `slowdown` and `slowdown-15`, both off by default): what the lab must
//! find to be believed. Results and checksums stay the same.

use std::hint::black_box;

/// Links of the chain for every 64 steps of a group, set by measurement: about 5 % or 15 % of a roll-out of CartPole on
/// 16 lanes.
const LINKS_PER_64_STEPS: usize = if cfg!(feature = "slowdown-15") {
    120
} else if cfg!(feature = "slowdown") {
    40
} else {
    0
};

/// Takes time in proportion to `steps`: multiplications that wait for each other, so that no processor can do them
/// beside the steps. Once for a stretch of steps, because anything inside the loop would cost registers as well.
#[inline(always)]
pub(super) fn linger(steps: usize) {
    if LINKS_PER_64_STEPS > 0 {
        let mut link = black_box(steps as u64);
        for _ in 0..steps * LINKS_PER_64_STEPS / 64 {
            link = (link ^ (link >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        black_box(link);
    }
}
