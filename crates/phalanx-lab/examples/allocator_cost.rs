//! What counting costs: an allocation and its release, by the system's allocator and by the counting one, in turn.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;

use phalanx_lab::clock::Stopwatch;
use phalanx_lab::memory::CountingAllocator;

const PAIRS: u64 = 10_000_000;
const REPEATS: usize = 9;

fn main() {
    let layout = Layout::from_size_align(64, 8).expect("a valid layout");
    let counting = CountingAllocator::new();
    let (mut plain, mut counted) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        plain.push(cpu_ns_per_pair(&System, layout));
        counted.push(cpu_ns_per_pair(&counting, layout));
    }
    let (plain, counted) = (median(plain), median(counted));
    println!("system {plain:.1} ns, counting {counted:.1} ns per allocation and release of 64 bytes");
}

fn cpu_ns_per_pair(allocator: &impl GlobalAlloc, layout: Layout) -> f64 {
    let watch = Stopwatch::start();
    for _ in 0..PAIRS {
        // SAFETY: the layout is not empty, and the block is released once with the layout it was made with.
        unsafe { allocator.dealloc(black_box(allocator.alloc(layout)), layout) };
    }
    let elapsed = watch.elapsed();
    elapsed.cpu_ns.unwrap_or(elapsed.wall_ns) as f64 / PAIRS as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
