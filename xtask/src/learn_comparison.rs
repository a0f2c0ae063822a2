//! `cargo xtask learn-comparison`: how long PPO takes to solve CartPole-v1, against Stable-Baselines3 and PureJaxRL.
//!
//! The packages are big (5 GB) and installed only when this is asked for, under the target directory. What is
//! measured, and how, is said in `tests/learning/compare.py`.

use std::process::ExitCode;

use crate::python;
use crate::workspace::Workspace;

pub(crate) fn compare(workspace: &Workspace) -> ExitCode {
    let work = || {
        workspace.cargo("build --release --package phalanx-cli")?;
        let tests = workspace.root.join("tests").join("learning");
        let venv = workspace.target.join("venv-learning");
        let interpreter = python::prepare(&venv, &[tests.join("requirements.txt")])?;
        let phalanx = workspace.release_binary("phalanx");
        let out = workspace.target.join("learn-comparison.json");
        workspace.run(&interpreter, [tests.join("compare.py"), "--phalanx".into(), phalanx, "--out".into(), out])
    };
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
