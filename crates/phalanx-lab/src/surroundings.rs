//! What both sides of a comparison should share: the CPU and the layout of their memory.
//!
//! A process keeps its addresses for life, and where its stack lies against its arrays alone makes the same code
//! several per cent faster or slower: pairs of identical processes differed by 2 to 5 % for as long as they lived. With
//! both on one CPU and without random addresses they differed by less than 0.2 %, on the same machine in the same
//! minutes. So that a comparison does not rest on one layout, each pair has a padding of its own, the same for both.

/// While this lives, processes that this thread starts run on one CPU, if one is wanted, at addresses that are not
/// random. Nothing happens where the system has no such thing or refuses it: it makes a comparison sharper, not right.
#[derive(Debug)]
pub struct Shared {
    #[cfg(target_os = "linux")]
    cpus: Option<rustix::thread::CpuSet>,
    #[cfg(target_os = "linux")]
    personality: Option<std::ffi::c_ulong>,
}

impl Shared {
    /// On the `cpu`-th of the CPUs that this thread may use, counted around, or on all of them.
    #[cfg(target_os = "linux")]
    pub fn new(cpu: Option<usize>) -> Self {
        Self { cpus: cpu.and_then(linux::pin), personality: linux::keep_addresses() }
    }

    /// Everywhere: this system has no such thing.
    #[cfg(not(target_os = "linux"))]
    pub fn new(_cpu: Option<usize>) -> Self {
        Self {}
    }
}

#[cfg(target_os = "linux")]
impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(cpus) = &self.cpus {
            // What could be narrowed can be widened again.
            let _ = rustix::thread::sched_setaffinity(None, cpus);
        }
        if let Some(personality) = self.personality {
            linux::set_personality(personality);
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{c_int, c_ulong};

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    const ADDR_NO_RANDOMIZE: c_ulong = 0x0004_0000;
    /// Changes nothing, for asking.
    const ASK: c_ulong = 0xffff_ffff;

    /// Pins this thread and answers where it could run before.
    pub(super) fn pin(turn: usize) -> Option<CpuSet> {
        let before = sched_getaffinity(None).ok()?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| before.is_set(cpu)).collect();
        let mut only = CpuSet::new();
        only.set(*allowed.get(turn % allowed.len().max(1))?);
        sched_setaffinity(None, &only).ok().map(|()| before)
    }

    /// Keeps the addresses of what this thread starts, and answers what was set before.
    pub(super) fn keep_addresses() -> Option<c_ulong> {
        let before = set_personality(ASK)?;
        set_personality(before | ADDR_NO_RANDOMIZE)
    }

    /// Sets what processes of this thread will inherit and answers what was set before; nothing if refused.
    pub(super) fn set_personality(persona: c_ulong) -> Option<c_ulong> {
        // rustix has no such call.
        unsafe extern "C" {
            fn personality(persona: c_ulong) -> c_int;
        }
        // SAFETY: the call takes a number and touches no memory of ours; unknown flags are refused.
        let before = unsafe { personality(persona) };
        c_ulong::try_from(before).ok()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn started() -> String {
        // The start of the stack, and the CPUs.
        let script = "grep -o '^.*stack' /proc/self/maps; grep Cpus_allowed: /proc/self/status";
        let output = std::process::Command::new("/bin/sh").args(["-c", script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn processes_share_what_can_be_shared_and_are_free_afterwards() {
        let allowed = || rustix::thread::sched_getaffinity(None).unwrap().count();
        let before = (allowed(), linux::set_personality(0xffff_ffff));
        for cpu in 0..3 {
            let shared = Shared::new(Some(cpu));
            assert_eq!(allowed(), 1);
            // Where a container forbids it, addresses stay random.
            if shared.personality.is_some() {
                assert_eq!(started(), started());
            }
            drop(shared);
        }
        assert_eq!((allowed(), linux::set_personality(0xffff_ffff)), before);
    }
}
