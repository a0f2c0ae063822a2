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

/// The contents of a regular file: a device could go on for ever.
pub(crate) fn read_regular(path: &Path) -> Result<Vec<u8>, Failure> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            Err(Failure::input(format!("cannot read {}: it is not a file", path.display())))
        }
        _ => read(path),
    }
}

/// The file that a path stands for, after checking that it could be written, before the work that fills it.
pub(crate) fn check_target(path: &Path) -> Result<PathBuf, Failure> {
    let refuse = |why: &dyn std::fmt::Display| Failure::input(format!("cannot write {}: {why}", path.display()));
    // A link stands for the file it leads to; renaming over the link itself would leave that file behind.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if target.exists() && !target.is_file() {
        return Err(refuse(&"it exists and is not a file"));
    }
    if !folder_of(&target).is_dir() {
        return Err(refuse(&"its folder does not exist"));
    }
    temporary(&target).map_err(|error| refuse(&error.kind()))?;
    Ok(target)
}

/// Writes a file so that it is there complete or not at all.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        let mut file = temporary(path)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|error| Failure::Write { what: path.display().to_string(), error })
}

/// A file beside `path` that is gone when dropped; its name tells what it was for.
fn temporary(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.tmp-");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As any other file the user makes: limited by the umask only.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder_of(path))
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
