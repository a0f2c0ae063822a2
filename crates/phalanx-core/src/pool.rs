//! A persistent pool of threads that hands out ranges of rows.
//!
//! Why not rayon: entering its pool from outside goes through a queue that allocates in blocks, and
//! `step_into` promises no allocation. (Known of its design; not measured here.) Here the calling thread works
//! too, idle workers spin briefly before they sleep, and a call never waits for a worker that did not take
//! part.
//!
//! Every thread begins with ranges of its own, the same in each call with as many rows and the same grain, so that what
//! it has in its caches stays there; then it helps the others with theirs. The first ones are whoever calls.
//!
//! The only unsafe code of the crate is in this file: the job's lifetime, and disjoint mutable parts.

#![allow(unsafe_code)]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// How often an idle worker looks for work before it sleeps: some tens of microseconds.
const SPINS: u32 = 4_000;

thread_local! {
    /// Whether this thread is working on a job.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Threads that stay alive between calls.
// On lines of its own, because every step of every batch asks how many threads there are.
#[repr(align(128))]
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// One job at a time.
    turn: Mutex<()>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish()
    }
}

struct Shared {
    /// `epoch << 32 | OPEN? | workers inside`: one word, so that entering a job and closing it are atomic.
    gate: AtomicU64,
    job: UnsafeCell<Option<Job>>,
    /// How many tasks of each thread's own share are taken.
    taken: Box<[Taken]>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    shutdown: AtomicBool,
    sleepers: AtomicUsize,
    bed: Mutex<()>,
    wake: Condvar,
}

/// On lines of its own, in pairs as they are fetched.
#[derive(Default)]
#[repr(align(128))]
struct Taken(AtomicUsize);

const OPEN: u64 = 1 << 31;
const INSIDE: u64 = OPEN - 1;

#[derive(Clone, Copy)]
struct Job {
    run: *const (dyn Fn(usize) + Sync),
    tasks: usize,
}

// SAFETY: `job` is written only while the gate is closed and nobody is inside, and read only by those
// who are inside; everything else in `Shared` is `Sync` by itself. The pointer in it refers to a `Sync`
// closure.
unsafe impl Sync for Shared {}
// SAFETY: as above; the raw pointer is only used while the closure is alive.
unsafe impl Send for Shared {}

impl Pool {
    /// A pool in which `threads` threads work, the calling one included.
    ///
    /// # Panics
    ///
    /// If the system cannot start the threads; [`Pool::try_new`] answers an error instead.
    pub fn new(threads: usize) -> Self {
        Self::try_new(threads).expect("the system can start the threads")
    }

    /// A pool in which `threads` threads work, the calling one included.
    ///
    /// # Errors
    ///
    /// If the system cannot start the threads; those already started end.
    pub fn try_new(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            gate: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            taken: (0..threads.max(1)).map(|_| Taken::default()).collect(),
            panic: Mutex::new(None),
            shutdown: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            bed: Mutex::new(()),
            wake: Condvar::new(),
        });
        let mut pool = Self { shared, workers: Vec::new(), turn: Mutex::new(()) };
        for i in 1..threads.max(1) {
            let shared = Arc::clone(&pool.shared);
            let worker = std::thread::Builder::new().name(format!("phalanx-{i}"));
            pool.workers.push(worker.spawn(move || shared.work(i))?);
        }
        Ok(pool)
    }

    /// Threads that work on a job.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Cuts `rows` rows into ranges of `grain` and calls `work` once for each, on all threads.
    ///
    /// `parts` holds what the rows consist of; each call gets the parts of its own range.
    pub fn for_each<P: Parts>(&self, rows: usize, grain: usize, parts: P, work: impl Fn(Range<usize>, P::Part) + Sync) {
        assert!(grain > 0, "a range needs at least one row");
        // Work that asks for more threads gets none: the pool is busy with that very work.
        if grain >= rows || self.workers.is_empty() || BUSY.get() {
            // SAFETY: one part with all rows cannot overlap another.
            let part = unsafe { parts.part(0..rows) };
            return work(0..rows, part);
        }
        let run = |task: usize| {
            let range = task * grain..rows.min((task + 1).saturating_mul(grain));
            // SAFETY: every task number is handed out once, and tasks have disjoint ranges of rows.
            let part = unsafe { parts.part(range.clone()) };
            work(range, part);
        };
        self.run(rows.div_ceil(grain), &run);
    }

    /// Calls `run` with each of `0..tasks`, on all threads, and returns when all calls have.
    fn run(&self, tasks: usize, run: &(dyn Fn(usize) + Sync)) {
        let _turn = self.turn.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let shared = &*self.shared;
        // SAFETY: this only forgets the closure's lifetime. `Closing` below waits, also when `run`
        // panics, until nobody can touch the job any more.
        let run: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(run) };
        debug_assert_eq!(shared.gate.load(Ordering::Relaxed) & (OPEN | INSIDE), 0);
        // SAFETY: the gate is closed and nobody is inside (the previous call waited for that), and
        // `turn` keeps other callers out.
        unsafe { *shared.job.get() = Some(Job { run, tasks }) };
        // Relaxed, because who counts has entered the gate, which is opened after this.
        shared.taken.iter().for_each(|taken| taken.0.store(0, Ordering::Relaxed));
        let closing = Closing(shared);
        let epoch = shared.gate.load(Ordering::Relaxed) >> 32;
        shared.gate.store((epoch.wrapping_add(1) << 32) | OPEN, Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            drop(shared.bed.lock());
            shared.wake.notify_all();
        }
        shared.run_tasks(Job { run, tasks }, 0);
        drop(closing);
        // Taken in any case: a panic of this job must not be found by the next.
        let panic = shared.panic.lock().expect("no panic while this lock is held").take();
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.shutdown.store(true, Ordering::SeqCst);
        drop(self.shared.bed.lock());
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches its panics, so there is nothing to hear from it.
            let _ = worker.join();
        }
    }
}

/// Closes the gate and waits until the last worker has left.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.gate.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0_u32;
        while self.0.gate.load(Ordering::Acquire) & INSIDE != 0 {
            spins += 1;
            // The other core may be somebody else's: give ours up rather than burn it.
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

impl Shared {
    /// Runs tasks until there are none left, first of thread `own`'s share, then of the others'; a panic is kept for the
    /// caller and ends what this thread does.
    fn run_tasks(&self, job: Job, own: usize) {
        BUSY.set(true);
        let threads = self.taken.len();
        // Every task is handed out once: the shares follow each other from 0 to the last task, and a share's counter, which
        // was 0 when the gate opened, gives each number to one thread only.
        let first = |thread: usize| job.tasks / threads * thread + thread.min(job.tasks % threads);
        let work = || {
            for thread in (own..threads).chain(0..own) {
                let (start, share) = (first(thread), first(thread + 1) - first(thread));
                let taken = &self.taken[thread].0;
                // Looks before it takes: to read a counter that is used up does not take its line from others.
                while taken.load(Ordering::Relaxed) < share {
                    let number = taken.fetch_add(1, Ordering::Relaxed);
                    if number < share {
                        // SAFETY: whoever calls this is inside the gate, so the job's closure is alive.
                        unsafe { (*job.run)(start + number) };
                    }
                }
            }
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
            *self.panic.lock().expect("no panic while this lock is held") = Some(payload);
        }
        BUSY.set(false);
    }

    /// The life of worker `own`: wait for a job, enter it if it is still open, work, leave.
    fn work(&self, own: usize) {
        let mut seen = 0;
        while let Some(epoch) = self.next_epoch(seen) {
            seen = epoch;
            let entered = self.gate.fetch_update(Ordering::AcqRel, Ordering::Acquire, |gate| {
                (gate >> 32 == epoch && gate & OPEN != 0).then_some(gate + 1)
            });
            if entered.is_err() {
                continue;
            }
            // SAFETY: we are inside, so the job is complete and does not change until we leave.
            let job = unsafe { (*self.job.get()).expect("an open gate has a job") };
            self.run_tasks(job, own);
            self.gate.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Waits for an epoch other than `seen`; `None` when the pool is dropped.
    fn next_epoch(&self, seen: u64) -> Option<u64> {
        let current = || self.gate.load(Ordering::SeqCst) >> 32;
        for _ in 0..SPINS {
            if current() != seen {
                return Some(current());
            }
            std::hint::spin_loop();
        }
        let mut bed = self.bed.lock().expect("nobody panics in bed");
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        // Checked again after announcing the sleep: a caller either sees the sleeper or is seen here.
        while current() == seen && !self.shutdown.load(Ordering::SeqCst) {
            bed = self.wake.wait(bed).expect("nobody panics in bed");
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        (!self.shutdown.load(Ordering::SeqCst)).then(current)
    }
}

/// Something that can be cut into disjoint mutable parts by ranges of rows.
pub trait Parts: Sync {
    /// What a range of rows gives.
    type Part;
    /// The part of some rows.
    ///
    /// # Safety
    ///
    /// Ranges of parts that are alive at the same time must not overlap.
    unsafe fn part(&self, rows: Range<usize>) -> Self::Part;
}

/// A mutable slice cut into rows of equal width; the last row may be shorter.
#[derive(Debug)]
pub struct Rows<'a, T> {
    start: *mut T,
    len: usize,
    width: usize,
    slice: PhantomData<&'a mut [T]>,
}

impl<'a, T> Rows<'a, T> {
    /// Rows of `width` elements.
    pub fn new(slice: &'a mut [T], width: usize) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), width, slice: PhantomData }
    }
}

// SAFETY: threads only reach the elements through `part`, whose contract keeps them apart.
unsafe impl<T: Send> Sync for Rows<'_, T> {}

impl<'a, T: Send> Parts for Rows<'a, T> {
    type Part = &'a mut [T];

    unsafe fn part(&self, rows: Range<usize>) -> &'a mut [T] {
        let edge = |row: usize| row.saturating_mul(self.width).min(self.len);
        let (start, end) = (edge(rows.start), edge(rows.end));
        assert!(start <= end, "a range of rows must not be reversed: {rows:?}");
        // SAFETY: within the slice by the line above, exclusive by this function's contract, and alive
        // for 'a because the slice is borrowed for it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), end - start) }
    }
}

/// Nothing, for work on rows that needs no parts.
impl Parts for () {
    type Part = ();
    unsafe fn part(&self, _rows: Range<usize>) {}
}

macro_rules! parts_of_tuple {
    ($($name:ident),*) => {
        impl<$($name: Parts),*> Parts for ($($name,)*) {
            type Part = ($($name::Part,)*);
            #[allow(non_snake_case)]
            unsafe fn part(&self, rows: Range<usize>) -> Self::Part {
                let ($($name,)*) = self;
                // SAFETY: passed on to the caller, for each element.
                ($(unsafe { $name.part(rows.clone()) },)*)
            }
        }
    };
}
parts_of_tuple!(A, B);
parts_of_tuple!(A, B, C);
parts_of_tuple!(A, B, C, D);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_visited_once_whatever_the_threads_and_the_grain() {
        for threads in [1, 2, 3, 8] {
            let pool = Pool::new(threads);
            for rows in [0, 1, 2, 7, 100, 1001] {
                for grain in [1, 3, 64, 5000] {
                    let mut cells = vec![0_u32; rows * 3];
                    pool.for_each(rows, grain, Rows::new(&mut cells, 3), |range, part| {
                        assert_eq!(part.len(), range.len() * 3);
                        for (row, cells) in range.zip(part.chunks_mut(3)) {
                            cells.iter_mut().for_each(|c| *c += row as u32 + 1);
                        }
                    });
                    assert!(cells.iter().enumerate().all(|(i, c)| *c == i as u32 / 3 + 1));
                }
            }
        }
    }

    /// Both wait in their first task until the other has one, too.
    #[test]
    fn every_thread_begins_with_a_share_of_its_own() {
        let pool = Pool::new(2);
        let (beginnings, both) = (Mutex::new(Vec::new()), std::sync::Barrier::new(2));
        pool.for_each(9, 1, (), |range, ()| {
            let mut begun = beginnings.lock().unwrap();
            let me = std::thread::current().id();
            if begun.iter().all(|(thread, _)| *thread != me) {
                begun.push((me, range.start));
                drop(begun);
                both.wait();
            }
        });
        let mut first = beginnings.into_inner().unwrap();
        first.sort_by_key(|(thread, _)| *thread != std::thread::current().id());
        assert_eq!(first.iter().map(|(_, task)| *task).collect::<Vec<_>>(), [0, 5]);
    }

    #[test]
    fn many_small_jobs_from_several_callers() {
        let pool = Pool::new(3);
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let mut cells = [1_usize; 10];
                        pool.for_each(10, 2, Rows::new(&mut cells, 1), |_, part| {
                            total.fetch_add(part.iter().sum(), Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 3 * 2_000 * 10);
    }

    #[test]
    fn a_sleeping_worker_wakes_up() {
        let pool = Pool::new(2);
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let mut cells = [0; 2];
            // Both tasks wait for each other: this ends only if the worker comes.
            let barrier = std::sync::Barrier::new(2);
            pool.for_each(2, 1, Rows::new(&mut cells, 1), |_, part| {
                barrier.wait();
                part[0] = 1;
            });
            assert_eq!(cells, [1, 1]);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        let pool = Pool::new(2);
        for bad in 0..8 {
            let mut cells = [0; 8];
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.for_each(8, 1, Rows::new(&mut cells, 1), |range, _| assert_ne!(range.start, bad, "row {bad}"));
            }));
            assert!(caught.is_err());
        }
        // Both threads panic: neither payload may reach the next job.
        let barrier = std::sync::Barrier::new(2);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.for_each(2, 1, Rows::new(&mut [0; 2], 1), |range, _| {
                barrier.wait();
                panic!("row {}", range.start);
            });
        }));
        assert!(caught.is_err());
        let mut cells = [0; 8];
        pool.for_each(8, 1, Rows::new(&mut cells, 1), |_, part| part[0] = 1);
        assert_eq!(cells, [1; 8]);
    }

    #[test]
    fn work_inside_work_runs_on_its_own_thread() {
        let pool = Pool::new(2);
        let mut cells = [0_usize; 6];
        pool.for_each(6, 1, Rows::new(&mut cells, 1), |_, part| {
            let mut inner = [1; 10];
            pool.for_each(10, 1, Rows::new(&mut inner, 1), |_, part| part.iter_mut().for_each(|cell| *cell += 1));
            part[0] = inner.iter().sum();
        });
        assert_eq!(cells, [20; 6]);
    }

    #[test]
    fn absurd_ranges_stay_within_the_slice() {
        let mut cells = [0_u8; 8];
        Pool::new(2).for_each(1 << 63, 1 << 61, Rows::new(&mut cells, 4), |range, part| {
            assert_eq!(part.len(), if range.start == 0 { 8 } else { 0 });
        });
    }

    #[test]
    fn rows_cut_a_short_tail() {
        let mut cells = [0; 10];
        Pool::new(2).for_each(3, 1, Rows::new(&mut cells, 4), |range, part| {
            assert_eq!(part.len(), if range.start == 2 { 2 } else { 4 });
            part.fill(range.start);
        });
        assert_eq!(cells, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
    }
}
