//! Which CPU a comparison runs on: both sides on the same, or one of them may have the quieter one all along.

/// While this lives, the calling thread and every process that it starts stay on one CPU. Nothing happens where the
/// system has no such thing or refuses it: affinity makes a comparison sharper, not right.
#[derive(Debug)]
pub struct Pinned {
    #[cfg(target_os = "linux")]
    before: Option<rustix::thread::CpuSet>,
}

impl Pinned {
    /// To the `turn`-th of the CPUs that this thread may use, counted around.
    #[cfg(target_os = "linux")]
    pub fn to(turn: usize) -> Self {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let pin = || {
            let before = sched_getaffinity(None).ok()?;
            let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| before.is_set(cpu)).collect();
            let mut only = CpuSet::new();
            only.set(*allowed.get(turn % allowed.len().max(1))?);
            sched_setaffinity(None, &only).ok().map(|()| before)
        };
        Self { before: pin() }
    }

    /// To the `turn`-th of the CPUs that this thread may use, counted around.
    #[cfg(not(target_os = "linux"))]
    pub fn to(_turn: usize) -> Self {
        Self {}
    }
}

#[cfg(target_os = "linux")]
impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // What could be narrowed can be widened again.
            let _ = rustix::thread::sched_setaffinity(None, before);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_free_again_afterwards() {
        let allowed = || rustix::thread::sched_getaffinity(None).unwrap().count();
        let before = allowed();
        for turn in 0..5 {
            let pinned = Pinned::to(turn);
            assert_eq!(allowed(), 1);
            drop(pinned);
        }
        assert_eq!(allowed(), before);
    }
}
