//! Memory of functions, with the counting allocator installed: a process of its own, because an allocator is global.

use phalanx_lab::function::{benchmark_function, infallible};
use phalanx_lab::memory::CountingAllocator;
use serde_json::Map;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

#[test]
fn a_function_is_charged_with_what_one_call_allocates() {
    ALLOCATOR.register();
    let mebibyte = 1 << 20;
    let func = infallible(|| {
        drop(vec![1u8; 3 * mebibyte]);
        vec![1u8; mebibyte]
    });
    let Ok(result) = benchmark_function(func, "allocate", "memory", 3, 1, Map::new());
    let (peak, current) = (result.memory_peak_mb.unwrap(), result.memory_current_mb.unwrap());
    assert!((3.0..3.1).contains(&peak), "{peak}");
    assert!((1.0..1.1).contains(&current), "{current}");
}
