//! Names of runs.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::hash;
use crate::timestamp::Timestamp;

/// A name that no other run has, such as `20260722_130501_123456_0f1e2d3c4b5a6978`: sorts by time, and inside a
/// process strictly in the order in which the names were given.
pub fn new_run_id() -> String {
    // Two names of one process never share a microsecond, whatever the clock does.
    static LAST_MICROS: AtomicU64 = AtomicU64::new(0);
    let now = Timestamp::now().unix_micros();
    let after = |last: u64| now.max(last + 1);
    let last = LAST_MICROS.fetch_update(Relaxed, Relaxed, |last| Some(after(last))).unwrap_or_else(|last| last);
    let micros = after(last);
    // Other processes and machines may: they differ in number or in what the system seeds hash maps with.
    let random = RandomState::new().hash_one(micros);
    let origin = [micros, u64::from(std::process::id()), random].map(u64::to_le_bytes).concat();
    let time = Timestamp::from_unix_micros(micros);
    format!("{}_{:06}_{}", time.compact(), micros % 1_000_000, hash::of_bytes(&origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_sorted() {
        let names: Vec<_> = (0..1000).map(|_| new_run_id()).collect();
        assert!(names.is_sorted_by(|a, b| a < b));
        assert!(names.iter().all(|name| name.len() == "20260722_130501_123456_0f1e2d3c4b5a6978".len()));
    }

    #[test]
    fn threads_get_different_names() {
        let mut names: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..100).map(|_| new_run_id()).collect::<Vec<_>>())).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 400);
    }
}
