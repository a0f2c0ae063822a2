//! What happens when the user, or the system, ends the program early: logs are written out, temporary folders are
//! removed, and whoever waits for the results of a run is told where the part is that was measured.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::Result;
use crate::log::locked;

/// The records of the run that is under way.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

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

/// A run under way. Until this is dropped, an interrupt says where its records are and ends the program with the exit
/// code that shells give to the signal, which is 130 for Ctrl-C.
#[derive(Debug)]
#[must_use = "the run counts as finished when this is dropped"]
pub struct UnfinishedRun(());

impl UnfinishedRun {
    /// Begins to listen. What is in `records` at any time must be of use by itself: nothing more is written to it.
    pub fn with_records(records: PathBuf) -> Result<Self> {
        listen()?;
        *locked(&UNFINISHED) = Some(records);
        Ok(Self(()))
    }
}

impl Drop for UnfinishedRun {
    fn drop(&mut self) {
        *locked(&UNFINISHED) = None;
    }
}

/// From now on an interrupt, a hang-up or a request to terminate first writes what open logs have kept back and removes
/// temporary folders. Then it ends the program: as [`UnfinishedRun`] says, or as it would have without this.
#[cfg(unix)]
pub(crate) fn listen() -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use std::io::IsTerminal;
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
                crate::log::flush_all();
                // What a child still runs in is removed, too: it has it open.
                locked(&TEMPORARY).drain(..).for_each(|folder| drop(std::fs::remove_dir_all(folder)));
                if let Some(records) = &*locked(&UNFINISHED) {
                    // On a terminal the line may hold the bar of a progress.
                    let clear = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
                    let told = format!("{clear}interrupted: what was measured so far is in {}", records.display());
                    // If nobody listens, nobody is told.
                    let _ = writeln!(std::io::stderr(), "{told}");
                    std::process::exit(128 + signal);
                }
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
