//! Ctrl-C while the engine works without the interpreter's lock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use phalanx_learn::Stop;
use pyo3::prelude::*;

/// The time between two looks: short enough for Ctrl-C to feel immediate, long enough to cost nothing.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// What Python's signal handlers have raised during a piece of work. Only the main thread hears signals; others, which
/// Python tells nothing, never find any.
#[derive(Clone)]
pub(crate) struct Signals(Arc<Mutex<Heard>>);

struct Heard {
    last: Instant,
    raised: Option<PyErr>,
}

impl Signals {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Heard { last: Instant::now(), raised: None })))
    }

    /// Whether something was raised: looks if the last look is long ago.
    pub(crate) fn heard(&self) -> bool {
        let since = {
            let heard = self.locked();
            if heard.raised.is_some() {
                return true;
            }
            heard.last.elapsed()
        };
        if since < LOOK {
            return false;
        }
        // Not under the mutex: a handler is any code.
        let found = Python::attach(|py| py.check_signals());
        self.locked().last = Instant::now();
        found.is_err_and(|error| {
            self.raise(error);
            true
        })
    }

    /// Keeps an exception, of a signal handler or a callback, until the work has ended.
    pub(crate) fn raise(&self, error: PyErr) {
        self.locked().raised = Some(error);
    }

    /// What was raised.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.locked().raised.take()
    }

    /// Ends the work of a learner.
    pub(crate) fn stop(&self) -> Stop {
        let signals = self.clone();
        Stop::when(move || signals.heard())
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Heard> {
        // Nothing can be left half done in it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
