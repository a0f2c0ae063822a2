//! The virtual environment of the Python tests: made once, remade when what it should contain changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::workspace::run;

/// Prints the version if this Python is new enough for the pinned packages and can make environments.
const PROBE: &str = "\
import sys, platform
if sys.version_info < (3, 10): sys.exit(3)
import venv, ensurepip
print(platform.python_version())";
const TOO_OLD: i32 = 3;

/// Returns the interpreter of a virtual environment that contains the `requirements` of several files.
pub(crate) fn prepare(venv: &Path, requirements: &[PathBuf]) -> Result<PathBuf, String> {
    let python = system_python();
    let version = probe(python)?;
    prepare_with(Path::new(python), &version, venv, requirements)
}

/// The same with a certain Python of a known version.
pub(crate) fn prepare_with(
    python: &Path,
    version: &str,
    venv: &Path,
    requirements: &[PathBuf],
) -> Result<PathBuf, String> {
    let mut wanted = format!("# Python {version}\n");
    for file in requirements {
        wanted += &fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    }

    let interpreter = interpreter_of(venv);
    // Written last, so it vouches for a complete installation.
    let stamp = venv.join("installed.txt");
    if interpreter.exists() && fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        println!("up to date");
        return Ok(interpreter);
    }
    run(Command::new(python).args(["-m", "venv", "--clear"]).arg(venv))?;
    if requirements.is_empty() {
        return Ok(interpreter);
    }
    // All in one command, so that versions which do not go together are noticed.
    let mut install = Command::new(&interpreter);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    for file in requirements {
        install.arg("--requirement").arg(file);
    }
    run(&mut install)?;
    fs::write(&stamp, wanted).map_err(|error| format!("cannot write {}: {error}", stamp.display()))?;
    Ok(interpreter)
}

/// The other Pythons of this machine that the package is for, the oldest first, one of each minor version: those on the
/// search path (`python3.12`) and those of pyenv.
pub(crate) fn others() -> Vec<(PathBuf, String)> {
    let named = (10..20).map(|minor| PathBuf::from(format!("python3.{minor}")));
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| std::env::home_dir().map(|home| home.join(".pyenv")));
    let installed = root.and_then(|root| fs::read_dir(root.join("versions")).ok()).into_iter().flatten().flatten();
    let installed = installed.map(|folder| folder.path().join("bin").join("python3"));
    let own = own();
    let mut found: Vec<(PathBuf, String)> = Vec::new();
    for python in named.chain(installed) {
        // Those that cannot be started, are too old or make no environments are none.
        let Some(version) = python.to_str().and_then(|python| version(python).ok().flatten()) else { continue };
        let known =
            own.iter().chain(found.iter().map(|(_, version)| version)).any(|known| minor(known) == minor(&version));
        if !known {
            found.push((python, version));
        }
    }
    found.sort_by_key(|(_, version)| minor(version));
    found
}

/// The version of the Python that everything else is tested with.
pub(crate) fn own() -> Option<String> {
    version(system_python()).ok().flatten()
}

/// 12 of "3.12.1".
pub(crate) fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1).and_then(|minor| minor.parse().ok())
}

fn system_python() -> &'static str {
    if cfg!(windows) { "python" } else { "python3" }
}

fn interpreter_of(venv: &Path) -> PathBuf {
    if cfg!(windows) { venv.join("Scripts/python.exe") } else { venv.join("bin/python") }
}

/// The version of `python`, after installing Debian's `python3-venv` if that is missing and we may.
fn probe(python: &str) -> Result<String, String> {
    if let Some(version) = version(python)? {
        return Ok(version);
    }
    if is_root() && run(Command::new("apt-get").arg("--version").stdout(Stdio::null())).is_ok() {
        println!("installing python3-venv, which Debian keeps apart from python3");
        run(Command::new("apt-get").args(["update", "--quiet"]))?;
        run(Command::new("apt-get")
            .args(["install", "--quiet", "--yes", "python3-venv"])
            .env("DEBIAN_FRONTEND", "noninteractive"))?;
        if let Some(version) = version(python)? {
            return Ok(version);
        }
    }
    Err(format!("{python} has no venv module; install it, on Debian and Ubuntu with `sudo apt install python3-venv`"))
}

/// `None` means that the modules for virtual environments are missing.
fn version(python: &str) -> Result<Option<String>, String> {
    let probe = Command::new(python)
        .args(["-c", PROBE])
        .output()
        .map_err(|error| format!("{python} cannot be started ({error}); install Python 3.10 or newer"))?;
    match probe.status.code() {
        Some(0) => Ok(Some(String::from_utf8_lossy(&probe.stdout).trim().to_owned())),
        Some(TOO_OLD) => Err(format!("{python} is too old; install Python 3.10 or newer")),
        _ => Ok(None),
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}
