//! Where CPU time goes: a sampling profiler inside the process, without root and without other programs.
//!
//! The system's profiling timer interrupts whichever thread is computing; the handler writes down the addresses on
//! that thread's stack, and names are looked up when all is over. Functions that were inlined are told apart by the
//! address, so a loop that was compiled into one function still shows its parts.
//!
//! Why not the crate `pprof`: it takes samples for equal if they are in the same functions, before it looks at what
//! was inlined there, and so gives all of a fused loop to whichever part was seen first.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use inferno::flamegraph;
use serde::Serialize;

use crate::clock::{Elapsed, Stopwatch};
use crate::{Error, Result};

/// Samples a second of CPU time. Kernels look at the timer 250 times a second or more often.
pub const FREQUENCY: u32 = 250;

/// Where the time of some work went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// Wall time.
    pub wall_seconds: f64,
    /// CPU time of all threads.
    pub cpu_seconds: f64,
    /// Samples taken.
    pub samples: u64,
    /// Samples for which there was no room.
    pub dropped: u64,
    /// The stacks that were seen.
    #[serde(skip)]
    pub stacks: Vec<Stack>,
}

/// A stack, and how often it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Functions, the outermost first.
    pub frames: Vec<String>,
    /// Which of them the time is counted for: the innermost that is not of a library, else the innermost.
    pub owner: usize,
    /// Samples.
    pub samples: u64,
}

/// A function and its share of the time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hot {
    /// The function.
    pub symbol: String,
    /// Samples in the function itself, library code that it calls included: an addition of lanes tells little.
    pub samples: u64,
    /// CPU time in the function itself.
    pub seconds: f64,
    /// The same, as a share of all.
    pub share: f64,
    /// The share of the function with all that it calls.
    pub total_share: f64,
}

impl Profile {
    fn new(elapsed: Elapsed, taken: &[Vec<usize>], dropped: u64) -> Self {
        let mut names = Names::default();
        let mut counted: BTreeMap<Vec<Frame>, u64> = BTreeMap::new();
        for addresses in taken {
            *counted.entry(names.stack(addresses)).or_default() += 1;
        }
        let stack = |(frames, samples): (Vec<Frame>, u64)| Stack {
            owner: frames.iter().rposition(|frame| !frame.is_library).unwrap_or(frames.len().saturating_sub(1)),
            frames: frames.into_iter().map(|frame| frame.name).collect(),
            samples,
        };
        let stacks = counted.into_iter().map(stack).collect();
        Self {
            wall_seconds: elapsed.wall_ns as f64 / 1e9,
            cpu_seconds: elapsed.cpu_ns.unwrap_or(elapsed.wall_ns) as f64 / 1e9,
            samples: taken.len() as u64,
            dropped,
            stacks,
        }
    }

    /// The `count` most expensive functions, by the time spent in them themselves.
    pub fn top(&self, count: usize) -> Vec<Hot> {
        let mut found: HashMap<&str, (u64, u64)> = HashMap::new();
        for stack in &self.stacks {
            let mut seen: Vec<&str> = stack.frames.iter().map(String::as_str).collect();
            if let Some(own) = seen.get(stack.owner) {
                found.entry(own).or_default().0 += stack.samples;
            }
            // A function that calls itself counts once.
            seen.sort_unstable();
            seen.dedup();
            seen.into_iter().for_each(|frame| found.entry(frame).or_default().1 += stack.samples);
        }
        let all = self.samples.max(1) as f64;
        let hot = found.into_iter().filter(|(_, (own, _))| *own > 0).map(|(symbol, (own, total))| Hot {
            symbol: symbol.to_owned(),
            samples: own,
            seconds: self.cpu_seconds * own as f64 / all,
            share: own as f64 / all,
            total_share: total as f64 / all,
        });
        let mut hot: Vec<_> = hot.collect();
        hot.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.symbol.cmp(&b.symbol)));
        hot.truncate(count);
        hot
    }

    /// The flame graph: one SVG that a browser shows, with zoom and search.
    pub fn flame_graph(&self, title: &str) -> Result<Vec<u8>> {
        if self.stacks.is_empty() {
            return Err(Error::Profile("no sample was taken, the work is too short".to_owned()));
        }
        let line = |stack: &Stack| {
            // A semicolon separates frames.
            let frames: Vec<_> = stack.frames.iter().map(|frame| frame.replace(';', ",")).collect();
            format!("{} {}", frames.join(";"), stack.samples)
        };
        let lines: Vec<String> = self.stacks.iter().map(line).collect();
        let mut options = flamegraph::Options::default();
        options.title = title.to_owned();
        options.hash = true;
        let mut svg = Vec::new();
        flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
            .map_err(|error| Error::Profile(error.to_string()))?;
        Ok(svg)
    }
}

/// A function at an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Frame {
    name: String,
    /// Of the standard library or another crate, as its source tells.
    is_library: bool,
}

/// Names of addresses, each looked up once.
#[derive(Default)]
struct Names {
    known: HashMap<usize, Vec<Frame>>,
}

impl Names {
    /// The functions of a stack whose addresses are given from the innermost, the outermost first.
    fn stack(&mut self, addresses: &[usize]) -> Vec<Frame> {
        let mut frames = Vec::new();
        for (depth, &address) in addresses.iter().enumerate() {
            // Of a caller there is the address of the next instruction, which the look-up goes back from; the
            // innermost address is exact.
            let lookup = if depth == 0 { address + 1 } else { address };
            frames.extend_from_slice(self.known.entry(lookup).or_insert_with(|| functions_at(lookup)));
        }
        frames.reverse();
        // What comes before `main` and a thread's own function is the same for every program.
        let starts = |frame: &Frame| frame.name.contains("__rust_begin_short_backtrace");
        if let Some(start) = frames.iter().rposition(starts) {
            frames.drain(..=start);
        }
        frames
    }
}

/// The function at an address, after those that were inlined there.
fn functions_at(address: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    backtrace::resolve(address as *mut _, |symbol| {
        let Some(name) = symbol.name().map(|name| shortened(&format!("{name:#}"))) else { return };
        let file = symbol.filename().map(|file| file.to_string_lossy().into_owned());
        // Sources of the compiler's own libraries, and of crates from a registry.
        let is_library = file.as_ref().is_none_or(|file| {
            file.starts_with("/rustc/") || file.contains("/rustlib/") || file.contains("/registry/src/")
        });
        frames.push(Frame { name: located(name, file.as_deref()), is_library });
    });
    if frames.is_empty() {
        frames.push(Frame { name: "(unknown)".to_owned(), is_library: true });
    }
    frames
}

/// Inlined functions are named without their module; their file stands in for it.
fn located(name: String, file: Option<&str>) -> String {
    let path = name.split('<').next().unwrap_or(&name);
    let stem = file.map(Path::new).and_then(|file| {
        let stem = file.file_stem()?.to_str()?;
        if stem == "mod" { file.parent()?.file_name()?.to_str() } else { Some(stem) }
    });
    match stem {
        Some(stem) if !path.contains("::") && !path.is_empty() => format!("{stem}::{name}"),
        _ => name,
    }
}

/// A name without the generic arguments of types, which may be longer than a screen.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 160;
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let mut depth = 0_usize;
    let mut short = String::new();
    for (at, c) in name.char_indices() {
        match c {
            // `<A as B>::f` begins with a bracket that is part of the path.
            '<' if at > 0 => {
                if depth == 0 {
                    short.push_str("<…");
                }
                depth += 1;
            }
            '>' if depth > 0 && !name[..at].ends_with('-') => {
                depth -= 1;
                if depth == 0 {
                    short.push('>');
                }
            }
            c if depth == 0 => short.push(c),
            _ => {}
        }
    }
    short
}

/// Runs `work` and samples it `frequency` times for each second of CPU time, as far as the system's timer allows.
///
/// # Errors
///
/// If another profile is being taken, or the system refuses the timer.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn profile(frequency: u32, work: impl FnOnce()) -> Result<Profile> {
    let sampler = sampler::Sampler::start(frequency)?;
    let watch = Stopwatch::start();
    work();
    let elapsed = watch.elapsed();
    let (taken, dropped) = sampler.stop();
    Ok(Profile::new(elapsed, &taken, dropped))
}

/// Not here.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub fn profile(_frequency: u32, _work: impl FnOnce()) -> Result<Profile> {
    Err(Error::Profile("this needs Linux on x86-64 or Arm".to_owned()))
}

/// The timer, its handler and the samples, which live in one place because a signal handler has no arguments.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod sampler {
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

    use crate::{Error, Result};

    /// Addresses of a sample; deeper stacks lose their outermost part.
    const DEPTH: usize = 48;
    /// A minute of two cores at the usual frequency, in 12 MB.
    const CAPACITY: usize = 30_000;

    static BUFFER: OnceLock<Box<[AtomicUsize]>> = OnceLock::new();
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    pub(super) struct Sampler {
        before: libc::sigaction,
        _turn: MutexGuard<'static, ()>,
    }

    impl Sampler {
        pub(super) fn start(frequency: u32) -> Result<Self> {
            let turn = match ONE_AT_A_TIME.try_lock() {
                Ok(turn) => turn,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::Profile("another profile is being taken".to_owned()));
                }
            };
            let buffer = BUFFER.get_or_init(|| (0..CAPACITY * DEPTH).map(|_| AtomicUsize::new(0)).collect());
            buffer.iter().for_each(|address| address.store(0, Ordering::Relaxed));
            NEXT.store(0, Ordering::Relaxed);
            // The unwinder prepares itself on its first use; that must not happen inside the handler.
            backtrace::trace(|_| true);

            // SAFETY: all-zero is a valid `sigaction`; the mask is set by the call that follows.
            let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            // SAFETY: both structures are valid for the calls, and the handler has the signature of SA_SIGINFO.
            let set = unsafe {
                libc::sigemptyset(&mut action.sa_mask);
                libc::sigaction(libc::SIGPROF, &action, &mut before)
            };
            if set != 0 {
                return Err(Error::Profile(std::io::Error::last_os_error().to_string()));
            }
            let sampler = Self { before, _turn: turn };
            set_timer(1_000_000 / i64::from(frequency.clamp(1, 10_000)))?;
            Ok(sampler)
        }

        /// The stacks, each from the innermost address, and the number of those for which there was no room.
        pub(super) fn stop(self) -> (Vec<Vec<usize>>, u64) {
            // Stopping a timer cannot fail for a reason that starting it did not.
            let _ = set_timer(0);
            // A thread may still be in the handler.
            while INSIDE.load(Ordering::Acquire) > 0 {
                std::thread::yield_now();
            }
            let taken = NEXT.load(Ordering::Acquire);
            let buffer = BUFFER.get().expect("made by the start");
            let read = |slot: usize| {
                let addresses = buffer[slot * DEPTH..][..DEPTH].iter().map(|address| address.load(Ordering::Acquire));
                addresses.take_while(|address| *address != 0).collect::<Vec<_>>()
            };
            let stacks = (0..taken.min(CAPACITY)).map(read).filter(|stack| !stack.is_empty()).collect();
            (stacks, taken.saturating_sub(CAPACITY) as u64)
        }
    }

    impl Drop for Sampler {
        fn drop(&mut self) {
            let _ = set_timer(0);
            // A signal that is on its way would end the program under the default action.
            if self.before.sa_sigaction == libc::SIG_DFL {
                self.before.sa_sigaction = libc::SIG_IGN;
            }
            // SAFETY: `before` is what the system gave when the handler was set, or says to ignore the signal.
            unsafe { libc::sigaction(libc::SIGPROF, &self.before, std::ptr::null_mut()) };
        }
    }

    /// Interrupts whenever the process has computed for so long; 0 stops it.
    fn set_timer(microseconds: i64) -> Result<()> {
        let every = libc::timeval { tv_sec: microseconds / 1_000_000, tv_usec: microseconds % 1_000_000 };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        // SAFETY: the structure is valid for the call, and no old value is asked for.
        match unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(Error::Profile(std::io::Error::last_os_error().to_string())),
        }
    }

    /// Writes down where the interrupted thread is. Only atomics and the unwinder: no allocation, no lock.
    extern "C" fn on_signal(_signal: libc::c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
        INSIDE.fetch_add(1, Ordering::AcqRel);
        // SAFETY: the location belongs to this thread; the interrupted code must find its error number unchanged.
        let errno = unsafe { *libc::__errno_location() };
        let slot = NEXT.fetch_add(1, Ordering::AcqRel);
        if let Some(place) = BUFFER.get().filter(|_| slot < CAPACITY).map(|buffer| &buffer[slot * DEPTH..][..DEPTH]) {
            let interrupted = instruction_pointer(context);
            place[0].store(interrupted, Ordering::Relaxed);
            // The handler's own frames come first, up to the instruction that was interrupted.
            let (mut below, mut depth) = (true, 1);
            // SAFETY: `trace_unsynchronized` may not run in two threads at once only where the platform's debug
            // library is not thread-safe, which is Windows.
            unsafe {
                backtrace::trace_unsynchronized(|frame| {
                    let address = frame.ip() as usize;
                    if below {
                        below = address != interrupted;
                    } else if address != 0 {
                        place[depth].store(address, Ordering::Relaxed);
                        depth += 1;
                    }
                    depth < DEPTH
                });
            }
        }
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
        INSIDE.fetch_sub(1, Ordering::AcqRel);
    }

    /// Where the thread was when the signal came.
    fn instruction_pointer(context: *mut c_void) -> usize {
        let context = context.cast::<libc::ucontext_t>();
        // SAFETY: the system passes a `ucontext_t` to handlers set with SA_SIGINFO.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            return (*context).uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
            #[cfg(target_arch = "aarch64")]
            return (*context).uc_mcontext.pc as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &[&str], samples: u64) -> Stack {
        let owner = frames.iter().rposition(|frame| *frame != "library").unwrap();
        Stack { frames: frames.iter().map(|frame| (*frame).to_owned()).collect(), owner, samples }
    }

    #[test]
    fn own_time_and_time_with_callees() {
        let stacks = vec![
            stack(&["main", "a", "b", "library"], 6),
            stack(&["main", "a"], 3),
            stack(&["main", "a", "b", "a"], 1),
        ];
        let profile = Profile { wall_seconds: 1.0, cpu_seconds: 2.0, samples: 10, dropped: 0, stacks };
        let top = profile.top(20);
        let row = |hot: &Hot| (hot.symbol.clone(), hot.samples, hot.share, hot.total_share, hot.seconds);
        assert_eq!(
            top.iter().map(row).collect::<Vec<_>>(),
            [("b".to_owned(), 6, 0.6, 0.7, 1.2), ("a".to_owned(), 4, 0.4, 1.0, 0.8)]
        );
        assert_eq!(profile.top(1).len(), 1);
        let svg = String::from_utf8(profile.flame_graph("work").unwrap()).unwrap();
        assert!(svg.contains("<svg") && svg.contains("main") && svg.contains("work"));
    }

    #[test]
    fn inlined_functions_are_named_by_their_file() {
        let of = |name: &str, file| located(name.to_owned(), file);
        assert_eq!(of("step<f32>", Some("crates/envs/src/cartpole.rs")), "cartpole::step<f32>");
        assert_eq!(of("step", Some("crates/core/src/batch/mod.rs")), "batch::step");
        assert_eq!(of("a::b", Some("x.rs")), "a::b");
        assert_eq!(of("<A as B>::f", Some("x.rs")), "<A as B>::f");
        assert_eq!(of("memcpy", None), "memcpy");
    }

    #[test]
    fn long_names_lose_their_arguments() {
        let long = format!("<core::A as core::B>::f::<{}>::g", "x::Y<Z>, ".repeat(30));
        assert_eq!(shortened(&long), "<core::A as core::B>::f::<…>::g");
        assert_eq!(shortened("a::b<C>"), "a::b<C>");
    }

    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    mod on_linux {
        use std::hint::black_box;
        use std::time::{Duration, Instant};

        use super::*;

        #[inline(never)]
        fn busy_work_to_be_found(duration: Duration) {
            let start = Instant::now();
            let mut state = 1_u64;
            while start.elapsed() < duration {
                for _ in 0..10_000 {
                    state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
            }
        }

        #[test]
        fn busy_functions_of_all_threads_are_found() {
            let mut samples = 0;
            // On a machine that gives this test no time there may be no sample; then it is given more.
            for attempt in 1..=20 {
                let taken = profile(FREQUENCY, || {
                    std::thread::scope(|scope| {
                        scope.spawn(|| busy_work_to_be_found(Duration::from_millis(50 * attempt)));
                        busy_work_to_be_found(Duration::from_millis(50 * attempt));
                    });
                });
                let taken = taken.unwrap();
                samples = taken.samples;
                let is_it = |frame: &String| frame.contains("busy_work_to_be_found");
                let found = taken.stacks.iter().filter(|stack| stack.frames.iter().any(is_it));
                if found.map(|stack| stack.samples).sum::<u64>() > 5 {
                    return;
                }
            }
            panic!("not found among {samples} samples");
        }
    }
}
