//! Where the workspace and its products are, and how to run programs in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directories of the workspace, and the cargo that is building it.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Where cargo puts its products, wherever it was told to put them.
    pub(crate) target: PathBuf,
    cargo: PathBuf,
}

impl Workspace {
    /// The workspace that this program was built in.
    ///
    /// Cargo has put this program into `<target>/<profile>/`. Taking the target directory from there
    /// respects `CARGO_TARGET_DIR` and every configuration file without reading them.
    pub(crate) fn of_this_program() -> Self {
        let program = std::env::current_exe().expect("the system knows the path of this program");
        let target = program.ancestors().nth(2).expect("cargo builds into <target>/<profile>/");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a directory of the root");
        Self {
            root: root.to_owned(),
            target: target.to_owned(),
            cargo: std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from),
        }
    }

    /// The path of a binary built with the release profile.
    pub(crate) fn release_binary(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name).with_extension(std::env::consts::EXE_EXTENSION)
    }

    /// Runs cargo with arguments that contain no spaces.
    pub(crate) fn cargo(&self, arguments: &str) -> Result<(), String> {
        self.run_cargo(arguments.split_whitespace())
    }

    /// Runs cargo.
    pub(crate) fn run_cargo<A>(&self, arguments: A) -> Result<(), String>
    where
        A: IntoIterator<Item: AsRef<OsStr>>,
    {
        self.run(&self.cargo, arguments)
    }

    /// Compiles a program of a registry, without its default features and optimisations, and installs it under `folder`.
    pub(crate) fn cargo_install(&self, name: &str, version: &str, folder: &Path) -> Result<(), String> {
        let options = ["--debug", "--locked", "--no-default-features", "--version", version, "--root"].map(OsStr::new);
        let words = ["install", name].map(OsStr::new).into_iter().chain(options).chain([folder.as_os_str()]);
        self.run_cargo(words)
    }

    /// Fails with advice if a part of the Rust distribution is not installed.
    pub(crate) fn require_component(&self, subcommand: &str, component: &str) -> Result<(), String> {
        let mut probe = Command::new(&self.cargo);
        probe.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
        match probe.status() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(format!("{component} is missing; install it with `rustup component add {component}`")),
        }
    }

    /// Runs a program in the root of the workspace; its output is shown as it comes.
    pub(crate) fn run<A>(&self, program: &Path, arguments: A) -> Result<(), String>
    where
        A: IntoIterator<Item: AsRef<OsStr>>,
    {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.root);
        run(&mut command)
    }
}

/// Runs a command and turns anything but success into a sentence.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let failure = match command.status() {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => format!("ended with {status}"),
        Err(error) => format!("cannot be started: {error}"),
    };
    // The name alone: where a program is installed is of no interest, what it was told is.
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args()).map(OsStr::to_string_lossy);
    Err(format!("`{}` {failure}", words.collect::<Vec<_>>().join(" ")))
}
