//! The libraries: how each is asked for its version, checked and run, in which configurations.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use phalanx_lab::case::CaseSpec;
use phalanx_lab::child;
use phalanx_lab::record::Kind;
use phalanx_lab::turns::Contestant;
use phalanx_lab::worker;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

const PROTOCOL: &str = include_str!("worker.py");

/// How long pip may install, or a library take to import and compile.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The environments that the other libraries have, too.
pub(super) const SHARED: [&str; 5] =
    ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"];

/// A library that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Library {
    Phalanx,
    Gymnasium,
    Gymnax,
    Envpool,
}

impl Library {
    pub(super) const ALL: [Self; 4] = [Self::Phalanx, Self::Gymnasium, Self::Gymnax, Self::Envpool];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Phalanx => "phalanx",
            Self::Gymnasium => "gymnasium",
            Self::Gymnax => "gymnax",
            Self::Envpool => "envpool",
        }
    }

    /// What pip has to install. Gymnax imports `six` without saying so.
    pub(super) fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Phalanx => &[],
            Self::Gymnasium => &["numpy", "gymnasium"],
            Self::Gymnax => &["jax[cpu]", "gymnax", "six"],
            Self::Envpool => &["numpy", "gymnasium", "envpool"],
        }
    }

    fn program(self) -> Option<String> {
        let library = match self {
            Self::Phalanx => return None,
            Self::Gymnasium => include_str!("run_gymnasium.py"),
            Self::Gymnax => include_str!("run_gymnax.py"),
            Self::Envpool => include_str!("run_envpool.py"),
        };
        Some(format!("{PROTOCOL}\n\n{library}\n\nmain()\n"))
    }

    /// What is measured of it: rows of the table, each with the configurations of which the fastest counts.
    pub(super) fn entries(self, setup: &Setup) -> Vec<Entry> {
        let Setup { env, num_envs, .. } = setup;
        let fused = CaseSpec::rollout(env, *num_envs);
        let host = CaseSpec::host_api(env, *num_envs);
        let row = |kind: Kind, case: &CaseSpec, modes: &[(&str, &str)]| Entry {
            library: self,
            kind,
            num_envs: case.num_envs,
            candidates: modes.iter().map(|(mode, words)| setup.candidate(self, mode, words, case)).collect(),
        };
        match self {
            Self::Phalanx => {
                let entry = |kind: Kind, case: &CaseSpec, words: &str| Entry {
                    library: self,
                    kind,
                    num_envs: *num_envs,
                    candidates: setup.phalanx(case, words),
                };
                vec![entry(Kind::FusedRandomRollout, &fused, "rollout"), entry(Kind::HostApiRandom, &host, "step_into")]
            }
            Self::Gymnasium => vec![
                row(Kind::HostApiRandom, &host, &[("vector_entry_point", "NumPy vector environment")]),
                row(Kind::HostApiRandom, &host, &[("sync", "SyncVectorEnv")]),
                row(Kind::HostApiRandom, &CaseSpec::host_api(env, 1), &[("single", "make, one environment")]),
            ],
            Self::Gymnax => {
                vec![row(Kind::FusedRandomRollout, &fused, &[("threefry", "jit scan"), ("rbg", "jit scan, rbg")])]
            }
            Self::Envpool => {
                let modes = [("sync1", "sync, 1 thread"), ("sync", "sync, all cores"), ("async", "async, all cores")];
                vec![row(Kind::HostApiRandom, &host, &modes)]
            }
        }
    }
}

/// What all entries share.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) env: String,
    pub(super) num_envs: usize,
    pub(super) python: PathBuf,
    pub(super) this_binary: PathBuf,
    pub(super) cores: usize,
}

impl Setup {
    fn candidate(&self, library: Library, mode: &str, words: &str, case: &CaseSpec) -> Candidate {
        let program = library.program().unwrap_or_default();
        let command = [self.python.clone().into(), "-c".into(), program.into(), mode.into()].to_vec();
        Candidate { mode: words.to_owned(), contestant: Contestant { command, case: case.clone() } }
    }

    /// Ours, on one thread and on all cores.
    fn phalanx(&self, case: &CaseSpec, words: &str) -> Vec<Candidate> {
        let mut threads = vec![1, self.cores];
        threads.dedup();
        let candidate = |threads: usize| {
            let case = CaseSpec { threads, ..case.clone() };
            let command = [OsString::from(&self.this_binary)].into_iter().chain(worker::ARGUMENTS.map(OsString::from));
            let mode = format!("{words}, {threads} thread{}", if threads == 1 { "" } else { "s" });
            Candidate { mode, contestant: Contestant { command: command.collect(), case } }
        };
        threads.into_iter().map(candidate).collect()
    }
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) library: Library,
    pub(super) kind: Kind,
    pub(super) num_envs: usize,
    pub(super) candidates: Vec<Candidate>,
}

/// One configuration.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) mode: String,
    pub(super) contestant: Contestant,
}

/// What a library says of itself.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Description {
    /// Why it cannot be imported.
    pub(super) missing: Option<String>,
    #[serde(default)]
    pub(super) version: String,
    #[serde(default)]
    pub(super) python: String,
    pub(super) trajectory: Option<Vec<Episode>>,
    /// Why there is no trajectory.
    pub(super) unchecked: Option<String>,
}

/// What a library did from a start state.
#[derive(Debug, Deserialize)]
pub(super) struct Episode {
    pub(super) start: Vec<f64>,
    /// Observation, reward, whether it terminated.
    pub(super) steps: Vec<(Vec<f64>, f64, bool)>,
}

/// What a library is asked for.
#[derive(Serialize)]
pub(super) struct Question<'a> {
    pub(super) env: &'a str,
    pub(super) starts: &'a [Vec<f64>],
    pub(super) actions: &'a [Vec<u32>],
}

/// Asks a library for its version and its trajectories. A Python that cannot be started is an error, a library that
/// is not there an answer.
pub(super) fn describe(library: Library, python: &Path, question: &Question<'_>) -> Result<Description, Failure> {
    let Some(program) = library.program() else {
        return Ok(Description { version: env!("CARGO_PKG_VERSION").to_owned(), ..Description::default() });
    };
    let refuse = |why: String| Failure::input(format!("cannot run {}: {why}", python.display()));
    let text = serde_json::to_vec(question).expect("questions are plain data");
    let mut command = Command::new(python);
    command.args(["-c", &program, "describe"]).env("PYTHONSAFEPATH", "1");
    let finished = child::run(&mut command, &text, PATIENCE).map_err(|error| refuse(error.to_string()))?;
    // One that crashes is a row as well, and must not cost the others theirs.
    Ok(serde_json::from_slice(&finished.output).unwrap_or_else(|_| {
        let why = finished.errors.lines().last().unwrap_or("it did not answer").to_owned();
        Description { missing: Some(why), ..Description::default() }
    }))
}

/// Makes a virtual environment with the libraries and answers its Python. A library that cannot be installed is told
/// and left out.
pub(super) fn make_venv(base: &Path, folder: &Path, libraries: &[Library], quiet: bool) -> Result<PathBuf, Failure> {
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let say = |text: String| {
        if !quiet {
            say!("{text}");
        }
    };
    if !python.exists() {
        say(format!("making a virtual environment in {}", folder.display()));
        run(Command::new(base).args(["-m", "venv"]).arg(folder)).map_err(|why| {
            Failure::input(format!("cannot make a virtual environment in {}: {why}", folder.display()))
        })?;
    }
    for library in libraries.iter().filter(|library| !library.packages().is_empty()) {
        say(format!("installing {} with pip", library.packages().join(", ")));
        let install = run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(library.packages()));
        if let Err(why) = install {
            say!("warning: {} could not be installed: {why}", library.name());
        }
    }
    Ok(python)
}

/// Runs a command to its end; what it said last is why it failed.
fn run(command: &mut Command) -> Result<(), String> {
    let finished = child::run(command, b"", PATIENCE).map_err(|error| error.to_string())?;
    if finished.status.success() {
        return Ok(());
    }
    let said = finished.errors + &String::from_utf8_lossy(&finished.output);
    let error = said.lines().find(|line| line.starts_with("ERROR")).or(said.lines().rfind(|line| !line.is_empty()));
    Err(error.unwrap_or("it failed without a word").to_owned())
}
