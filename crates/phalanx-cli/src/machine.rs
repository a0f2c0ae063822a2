//! What the operating system tells of cores; [`phalanx_lab::memory`] knows memory.

/// Cores this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}
