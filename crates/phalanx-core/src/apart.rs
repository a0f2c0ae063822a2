//! Memory of threads that work side by side.
//!
//! Two small arrays of two threads can lie on one cache line, which then travels from core to core with every write. So
//! arrays that a thread writes all the time end with room that nobody uses; what follows them in memory is then on another
//! line. Two threads that learn on tables of tic-tac-toe gained 1.085 [1.078, 1.093] times by it, on one shared table 1.103
//! [1.088, 1.118], and one thread nothing (`phalanx bench ab`, two builds in turns, two cores of a Xeon).

/// Bytes that go from core to core together: a cache line and the neighbour that is fetched with it.
const TOGETHER: usize = 128;

/// `len` times `value`, with nobody else's data on the lines at the end. A clone of it does not keep that room.
///
/// ```
/// let mine = phalanx_core::apart::filled(0.0_f32, 3);
/// assert_eq!(mine, [0.0; 3]);
/// assert!(mine.capacity() >= 3 + 32);
/// ```
pub fn filled<T: Clone>(value: T, len: usize) -> Vec<T> {
    // Made as a whole, so that zeros cost no memory before somebody writes to them.
    let mut values = vec![value; len + room::<T>()];
    values.truncate(len);
    values
}

/// Sees to that room behind values that have become more.
pub fn make_room<T>(values: &mut Vec<T>) {
    values.reserve(room::<T>());
}

/// Elements of which the room consists.
pub(crate) const fn room<T>() -> usize {
    match size_of::<T>() {
        0 => 0,
        size => TOGETHER.div_ceil(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_a_pair_of_lines() {
        assert_eq!(
            (room::<u8>(), room::<f32>(), room::<[u64; 3]>(), room::<[u64; 40]>(), room::<()>()),
            (128, 32, 6, 1, 0)
        );
        let mut values = Vec::with_capacity(4);
        values.extend([1_u64; 4]);
        make_room(&mut values);
        assert!(values.capacity() >= 4 + 16);
        assert_eq!(filled((), 3).len(), 3);
    }
}
