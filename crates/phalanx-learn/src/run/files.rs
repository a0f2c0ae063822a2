//! Files that are there whole or not at all, whatever happens while they are written.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// Replaces a file by what `fill` writes. Until all of it is on the disk the old file stays as it is; afterwards not
/// even a power cut brings it back.
pub(crate) fn replace(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let write = || -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".tmp-");
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
        file.as_file().sync_all()?;
        file.persist(path)?;
        sync_folder(folder)
    };
    write().map_err(Error::write(path))
}

/// Replaces a file by these bytes.
pub(crate) fn replace_with(path: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, |file| file.write_all(bytes))
}

/// The text of a file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(Error::read(path))?;
    String::from_utf8(bytes).map_err(|_| Error::read(path)(io::Error::other("it is not text")))
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
        replace_with(&path, b"old").unwrap();
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
        replace_with(&path, b"new").unwrap();
        assert_eq!(read_text(&path).unwrap(), "new");
    }

    #[test]
    fn what_is_missing_or_no_text_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert!(read_text(&path).unwrap_err().to_string().ends_with("there is no such file or folder"));
        fs::write(&path, b"\xff").unwrap();
        assert!(read_text(&path).unwrap_err().to_string().ends_with("it is not text"));
    }
}
