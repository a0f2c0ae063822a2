//! What happens when the user, or the system, ends the program early: logs are written out, temporary folders are
//! removed, and whoever waits for the results of a run is told where the part is that was measured.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::Result;
use crate::log::locked;

/// The runs that are under way.
static UNFINISHED: Mutex<Vec<Unfinished>> = Mutex::new(Vec::new());

/// Folders to remove.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder that is removed when this is dropped, or by an interrupt.
#[derive(Debug)]
pub struct TemporaryFolder(tempfile::TempDir);

impl TemporaryFolder {
    /// Makes an empty folder.
    pub fn new() -> Result<Self> {
        listen()?;
        let folder = tempfile::tempdir().map_err(|error| crate::Error::Write { path: std::env::temp_dir(), error })?;
        locked(&TEMPORARY).push(folder.path().to_owned());
        Ok(Self(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        locked(&TEMPORARY).retain(|path| path != self.0.path());
    }
}

/// A run under way, whose records are of use at any time. If it ends early, by an error or by a signal, they stay if they
/// hold something that was measured, and it is said where; else they are removed. A signal then ends the program with the
/// exit code that shells give to it, which is 130 for Ctrl-C.
#[derive(Debug)]
#[must_use = "the run counts as ended early when this is dropped"]
pub(crate) struct UnfinishedRun {
    records: PathBuf,
}

#[derive(Debug)]
struct Unfinished {
    records: PathBuf,
    measured: bool,
}

impl UnfinishedRun {
    /// Begins to listen.
    pub(crate) fn with_records(records: PathBuf) -> Result<Self> {
        listen()?;
        locked(&UNFINISHED).push(Unfinished { records: records.clone(), measured: false });
        Ok(Self { records })
    }

    /// From now on there is something to keep.
    pub(crate) fn measured(&self) {
        let mut all = locked(&UNFINISHED);
        all.iter_mut().filter(|run| run.records == self.records).for_each(|run| run.measured = true);
    }

    /// All is measured.
    pub(crate) fn finish(self) {
        self.take();
    }

    fn take(&self) -> Option<Unfinished> {
        let mut all = locked(&UNFINISHED);
        let at = all.iter().position(|run| run.records == self.records)?;
        Some(all.swap_remove(at))
    }
}

impl Drop for UnfinishedRun {
    fn drop(&mut self) {
        if let Some(run) = self.take() {
            let measured = run.measured;
            let left = run.leave();
            if measured {
                tell(&format!("note: {left}"));
            }
        }
    }
}

impl Unfinished {
    /// Keeps what was measured, and says where it is.
    fn leave(self) -> String {
        if self.measured {
            return format!("what was measured so far is in {}", self.records.display());
        }
        // A file that stays though nothing is in it does no harm.
        let _ = std::fs::remove_file(&self.records);
        "nothing was recorded yet".to_owned()
    }
}

/// Says something on standard error; if nobody listens, nobody is told.
fn tell(text: &str) {
    // On a terminal the line may hold the bar of a progress.
    let clear = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
    let _ = writeln!(std::io::stderr(), "{clear}{text}");
}

/// From now on an interrupt, a hang-up or a request to terminate first writes what open logs have kept back and removes
/// temporary folders. Then it ends the program: as [`UnfinishedRun`] says, or as it would have without this.
#[cfg(unix)]
pub(crate) fn listen() -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use std::sync::OnceLock;

    static LISTENING: OnceLock<()> = OnceLock::new();
    if LISTENING.get().is_some() {
        return Ok(());
    }
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(crate::Error::Interrupt)?;
    LISTENING.get_or_init(|| {
        std::thread::spawn(move || {
            for signal in &mut signals {
                // Held to the end: what fails for want of its folder must not end the run another way meanwhile.
                let mut unfinished = locked(&UNFINISHED);
                crate::log::flush_all();
                // What a child still runs in is removed, too: it has it open.
                locked(&TEMPORARY).drain(..).for_each(|folder| drop(std::fs::remove_dir_all(folder)));
                if !unfinished.is_empty() {
                    unfinished.drain(..).for_each(|run| tell(&format!("interrupted: {}", run.leave())));
                    std::process::exit(128 + signal);
                }
                drop(unfinished);
                // Ends the process; if not, there is nothing better to do.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
    });
    Ok(())
}

/// There is nothing to listen to here; logs are still written when they are closed or dropped.
#[cfg(not(unix))]
pub(crate) fn listen() -> Result<()> {
    Ok(())
}
