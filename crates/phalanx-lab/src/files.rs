//! Files are written whole or not at all, and results never overwrite each other.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// A file, or a line of one, that could not be understood and was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1, if only that line is damaged.
    pub line: Option<usize>,
    /// Why it was skipped.
    pub reason: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        write!(f, "{}{line}: skipped, {}", self.path.display(), self.reason)
    }
}

/// The contents of a regular file. A pipe could keep us waiting and a device could go on for ever.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    fs::read(path)
}

/// [`read_regular`] as text.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_regular(path)?).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// Writes a file so that it is there complete or not at all; what was there before is replaced.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    filled_temporary(path, bytes)
        .and_then(|file| file.persist(path).map_err(|refused| refused.error))
        .map(|_| ())
        .map_err(Error::write(path))
}

/// The folder in which Phalanx keeps what it learns of a machine: `PHALANX_CACHE_DIR`, else `.phalanx` in the home
/// folder; none if neither is known.
pub fn cache_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("PHALANX_CACHE_DIR").or_else(|| variable("HOME").map(|home| home.join(".phalanx")))
}

/// Makes a folder and those above it, if they are not there yet.
pub fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| match existing_part(folder) {
        part if part.is_dir() => Error::Folder { path: folder.to_owned(), error },
        part => Error::NotAFolder { path: part.to_owned() },
    })
}

/// Checks, before the work whose results go there, that a folder is one or could be made, and makes nothing.
pub fn check_folder(folder: &Path) -> Result<()> {
    let part = existing_part(folder);
    if !part.is_dir() {
        return Err(Error::NotAFolder { path: part.to_owned() });
    }
    let probe = temporary(&part.join("probe"));
    probe.map(|_| ()).map_err(|error| Error::Folder { path: folder.to_owned(), error })
}

/// The folder, or the nearest above it that exists.
fn existing_part(folder: &Path) -> &Path {
    folder.ancestors().find(|part| part.exists()).unwrap_or(Path::new("."))
}

/// Writes `stem.extension` in `folder` complete or not at all; if the name is taken, `stem_1.extension` and so on.
pub fn write_new(folder: &Path, stem: &str, extension: &str, bytes: &[u8]) -> Result<PathBuf> {
    make_folder(folder)?;
    let mut file = filled_temporary(&folder.join(stem), bytes).map_err(Error::write(folder))?;
    for path in candidates(folder, stem, extension) {
        match file.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => file = refused.file,
            Err(refused) => return Err(Error::write(&path)(refused.error)),
        }
    }
    unreachable!("the names do not end")
}

/// Makes an empty `stem.extension` in `folder` to append to; if the name is taken, `stem_1.extension` and so on.
pub fn create_new(folder: &Path, stem: &str, extension: &str) -> Result<(File, PathBuf)> {
    make_folder(folder)?;
    for path in candidates(folder, stem, extension) {
        match OpenOptions::new().append(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::write(&path)(error)),
        }
    }
    unreachable!("the names do not end")
}

/// The regular files of `folder` with this extension, sorted by name; none if there is no such folder.
pub fn list(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::read(folder)(error)),
    };
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(Error::read(folder))?;
    paths.retain(|path| path.extension().is_some_and(|e| e == extension) && path.is_file());
    paths.sort();
    Ok(paths)
}

fn candidates<'a>(folder: &'a Path, stem: &'a str, extension: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    let suffixes = std::iter::once(String::new()).chain((1u64..).map(|n| format!("_{n}")));
    suffixes.map(move |suffix| folder.join(format!("{stem}{suffix}.{extension}")))
}

/// A file beside `path` that holds `bytes` and is gone when dropped.
fn filled_temporary(path: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let mut file = temporary(path)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// An empty file beside `path` that is gone when dropped; its name tells what it was for.
pub fn temporary(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let prefix = format!(".{}.tmp-", path.file_name().unwrap_or_default().to_string_lossy());
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As any other file the user makes: limited by the umask only.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder_of(path))
}

/// The folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_gets_a_suffix() {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("deep/results");
        let names: Vec<_> = (0..3).map(|i| write_new(&results, "run", "json", &[b'0' + i]).unwrap()).collect();
        assert_eq!(names, ["run.json", "run_1.json", "run_2.json"].map(|name| results.join(name)));
        assert_eq!(fs::read_to_string(&names[1]).unwrap(), "1");
        let (_, path) = create_new(&results, "run", "json").unwrap();
        assert_eq!(path, results.join("run_3.json"));
        assert_eq!(list(&results, "json").unwrap().len(), 4, "and no temporary file is left");
    }

    #[test]
    fn names_made_at_the_same_time_differ() {
        let folder = tempfile::tempdir().unwrap();
        let make = || create_new(folder.path(), "run", "jsonl").unwrap().1;
        let mut paths: Vec<_> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 8);
    }

    #[test]
    fn an_atomic_write_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let missing = folder.path().join("missing/a.json");
        assert!(matches!(write_atomically(&missing, b""), Err(Error::Write { path, .. }) if path == missing));
    }

    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe.csv");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&pipe, Path::new("/dev/zero")] {
            assert!(read_regular(path).unwrap_err().to_string().contains("is not a regular file"));
        }
        assert!(read_text(folder.path()).is_err());
        assert_eq!(read_text(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        let text = folder.path().join("text");
        fs::write(&text, "text").unwrap();
        assert_eq!(read_text(&text).unwrap(), "text");
    }

    #[test]
    fn a_file_is_not_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "kept").unwrap();
        for path in [file.clone(), file.join("below/it")] {
            let refused = |result: Result<()>| {
                assert!(matches!(result, Err(Error::NotAFolder { path }) if path == file));
            };
            refused(check_folder(&path));
            refused(make_folder(&path));
            refused(create_new(&path, "run", "jsonl").map(|_| ()));
            refused(write_new(&path, "run", "json", b"").map(|_| ()));
        }
        check_folder(&folder.path().join("deep/results")).unwrap();
        check_folder(Path::new("deep/results")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was made");
    }

    #[test]
    fn a_missing_folder_has_no_files() {
        let folder = tempfile::tempdir().unwrap();
        assert!(list(&folder.path().join("missing"), "json").unwrap().is_empty());
    }
}
