//! Files that are there whole or not at all, whatever happens while they are written.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// How the names of files begin that are still being written.
const TEMPORARY: &str = ".tmp-";

/// Removes what a kill left half-written in a folder and those below it, which nobody else may be writing to.
pub(crate) fn remove_unfinished(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::read(folder))? {
        let entry = entry.map_err(Error::read(folder))?;
        let path = entry.path();
        // A link may lead anywhere; its own type is not that of a folder.
        if entry.file_type().map_err(Error::read(&path))?.is_dir() {
            remove_unfinished(&path)?;
        } else if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
            fs::remove_file(&path).map_err(Error::write(&path))?;
        }
    }
    Ok(())
}

/// Replaces a file by what `fill` writes. Until all of it is on the disk the old file stays as it is; afterwards not
/// even a power cut brings it back.
pub(crate) fn replace(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    persist(path, true, fill)
}

/// Replaces a file by these bytes, whatever kills the program, but without waiting for the disk (some milliseconds,
/// which a run of a tenth of a second would feel): a power cut may still lose them.
pub(crate) fn replace_quickly(path: &Path, bytes: &[u8]) -> Result<()> {
    persist(path, false, |file| file.write_all(bytes))
}

/// Waits until a file that is there, and its name, are on the disk.
pub(crate) fn settle(path: &Path) -> Result<()> {
    let sync = || File::open(path)?.sync_all().and_then(|()| sync_folder(folder_of(path)));
    sync().map_err(Error::write(path))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn persist(path: &Path, wait: bool, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let write = || -> io::Result<()> {
        let folder = folder_of(path);
        let mut builder = tempfile::Builder::new();
        builder.prefix(TEMPORARY);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // As any other file the user makes: limited by the umask only.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(folder)?;
        let mut buffered = io::BufWriter::with_capacity(1 << 16, file);
        fill(&mut buffered)?;
        let file = buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
        if wait {
            file.as_file().sync_all()?;
        }
        file.persist(path)?;
        if wait { sync_folder(folder) } else { Ok(()) }
    };
    write().map_err(Error::write(path))
}

/// The contents of a regular file: a pipe could keep us waiting, and a device could go on for ever.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let read = || match fs::metadata(path)?.is_file() {
        true => fs::read(path),
        false => Err(io::Error::other("it is not a regular file")),
    };
    read().map_err(Error::read(path))
}

/// The text of a file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read(path)?).map_err(|_| Error::read(path)(io::Error::other("it is not text")))
}

/// Makes a folder and those above it, if they are not there yet.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(Error::write(folder))
}

/// Makes a new name last; only Unix lets one open a folder for that.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace_quickly(&path, b"old").unwrap();
        let full = replace(&path, |file| {
            file.write_all(&[b'x'; 1 << 17])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        let message = full.unwrap_err().to_string();
        assert_eq!(
            message,
            format!("cannot write {}: the disk is full; what was written before is kept", path.display())
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
        replace_quickly(&path, b"new").unwrap();
        assert_eq!(read_text(&path).unwrap(), "new");
    }

    #[test]
    fn what_a_kill_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        let paths = [".tmp-a", "inner/.tmp-b", "kept", "inner/.kept"].map(|name| folder.path().join(name));
        paths.iter().for_each(|path| fs::write(path, "").unwrap());
        remove_unfinished(folder.path()).unwrap();
        assert_eq!(paths.map(|path| path.exists()), [false, false, true, true]);
    }

    #[test]
    fn what_is_missing_or_no_text_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert!(read_text(&path).unwrap_err().to_string().ends_with("there is no such file or folder"));
        assert!(read_text(folder.path()).unwrap_err().to_string().ends_with("it is not a regular file"));
        fs::write(&path, b"\xff").unwrap();
        assert!(read_text(&path).unwrap_err().to_string().ends_with("it is not text"));
    }
}
