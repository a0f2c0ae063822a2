//! Files are read whole and written whole or not at all.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The contents of a file, or of standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let result = if path.as_os_str() == "-" {
        io::stdin().lock().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(path).map(|contents| bytes = contents)
    };
    result.map(|()| bytes).map_err(|error| Failure::input(format!("cannot read {}: {error}", path.display())))
}

/// Checks that a file could be written here, before the work that fills it.
pub(crate) fn check_target(path: &Path) -> Result<(), Failure> {
    let folder = folder_of(path);
    if path.is_dir() || !folder.is_dir() {
        let why = if path.is_dir() { "it is a folder" } else { "its folder does not exist" };
        return Err(Failure::input(format!("cannot write {}: {why}", path.display())));
    }
    Ok(())
}

/// Writes a file so that it is there complete or not at all.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder_of(path))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|error| Failure::Write { what: path.display().to_string(), error })
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
