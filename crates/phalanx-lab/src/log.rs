//! A log that writes in large pieces and loses nothing when the run ends early.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::{Error, Result, interrupt};

/// Lines that are usually kept back.
pub const BUFFER_SIZE: usize = 1000;

/// Lines for a file, written whenever so many have come together, when the log is closed or dropped (also because of
/// an error or a panic), and, once [`flush_on_interrupt`] has been called, before an interrupt ends the program.
#[derive(Debug)]
pub struct BufferedLogger {
    open: Arc<Mutex<Open>>,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    lines: String,
    count: usize,
    buffer_size: usize,
}

/// All logs that are open, for the interrupt.
static LOGS: Mutex<Vec<Weak<Mutex<Open>>>> = Mutex::new(Vec::new());

impl BufferedLogger {
    /// A log in a new file, or in place of what was there, that keeps back up to `buffer_size` lines.
    pub fn create(path: &Path, buffer_size: usize) -> Result<Self> {
        let file = File::create(path).map_err(Error::write(path))?;
        let open = Open { path: path.to_owned(), file, lines: String::new(), count: 0, buffer_size };
        let open = Arc::new(Mutex::new(open));
        let mut logs = locked(&LOGS);
        logs.retain(|log| log.strong_count() > 0);
        logs.push(Arc::downgrade(&open));
        Ok(Self { open })
    }

    /// Adds a line.
    pub fn log(&self, line: &str) -> Result<()> {
        let mut open = locked(&self.open);
        open.lines.push_str(line);
        open.lines.push('\n');
        open.count += 1;
        if open.count >= open.buffer_size { open.flush() } else { Ok(()) }
    }

    /// Writes what was kept back.
    pub fn flush(&self) -> Result<()> {
        locked(&self.open).flush()
    }

    /// Writes what was kept back and ends the log. Dropping it does the same, but cannot tell of a failure.
    pub fn close(self) -> Result<()> {
        self.flush()
    }
}

impl Drop for BufferedLogger {
    fn drop(&mut self) {
        // Whoever wants to hear of a failure calls `close`.
        let _ = self.flush();
    }
}

impl Open {
    fn flush(&mut self) -> Result<()> {
        let written = self.file.write_all(self.lines.as_bytes()).map_err(Error::write(&self.path));
        // Once only, also after a failure: a second attempt would write the first part twice.
        self.lines.clear();
        self.count = 0;
        written
    }
}

/// From now on an interrupt, a hang-up or a request to terminate first writes what open logs have kept back.
pub fn flush_on_interrupt() -> Result<()> {
    interrupt::listen()
}

/// Writes what all open logs have kept back, as far as that is possible.
#[cfg(unix)]
pub(crate) fn flush_all() {
    for log in locked(&LOGS).iter().filter_map(Weak::upgrade) {
        let _ = locked(&log).flush();
    }
}

/// A panic elsewhere must not keep lines from being written.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs::read_to_string;

    use super::*;

    #[test]
    fn lines_are_written_when_the_buffer_is_full_and_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = BufferedLogger::create(&path, 3).unwrap();
        log.log("a").unwrap();
        log.log("b").unwrap();
        assert_eq!(read_to_string(&path).unwrap(), "");
        log.log("c").unwrap();
        log.log("d").unwrap();
        assert_eq!(read_to_string(&path).unwrap(), "a\nb\nc\n");
        log.close().unwrap();
        assert_eq!(read_to_string(&path).unwrap(), "a\nb\nc\nd\n");
    }

    #[test]
    fn errors_and_panics_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let fails = || -> Result<()> {
            let log = BufferedLogger::create(&path, 100)?;
            log.log("before the error")?;
            Err(Error::Subject("something".to_owned()))
        };
        fails().unwrap_err();
        assert_eq!(read_to_string(&path).unwrap(), "before the error\n");
        let panics = std::panic::catch_unwind(|| {
            let log = BufferedLogger::create(&path, 100).unwrap();
            log.log("before the panic").unwrap();
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panics.is_err());
        assert_eq!(read_to_string(&path).unwrap(), "before the panic\n");
    }

    #[test]
    fn a_file_that_cannot_be_made_is_an_error() {
        assert!(matches!(BufferedLogger::create(Path::new("/nowhere/log"), 1), Err(Error::Write { .. })));
    }
}
