//! `cargo xtask`: the project's own commands, written in Rust so that they need nothing else.
//!
//! `cargo xtask test` runs every test on a fresh machine that has Rust, Python 3 and a C compiler, and
//! installs what the tests need under the target directory. `cargo xtask oracles` runs only the comparisons
//! with Gymnasium, SciPy, autograd and GillesPy2.

mod autotune_proof;
mod book;
mod custom_env;
mod lab_proof;
mod learn_comparison;
mod learn_proof;
mod package;
mod python;
mod steps;
mod workspace;

use std::process::ExitCode;

use steps::Run;
use workspace::Workspace;

const USAGE: &str = "\
Usage: cargo xtask <COMMAND>

Commands:
  test            Check formatting and lints, run every test, compare with Gymnasium, SciPy, autograd and GillesPy2,
                  install and test the Python package
  book            Build the documentation site into target/book
  oracles         Only compare with Gymnasium, SciPy, autograd and GillesPy2
  python          Only install and test the Python package
  python-speed    Measure the Python package beside Gymnasium and EnvPool, and say whether it is as fast as promised
  autotune-proof  Judge the choices of `phalanx autotune` by exhaustive sweeps (about ten minutes)
  lab-proof       Show that the lab finds slow builds and nothing else (about half an hour of a quiet machine)
  learn-proof [X] Train with every preset that must reach something, and say whether it does (about ten minutes)
  learn-comparison  Time to solve CartPole-v1 with PPO: Stable-Baselines3 and PureJaxRL against `phalanx train`";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["test"] => every_test(),
        ["book"] => {
            let mut run = Run::new(1);
            run.step("book", || book::build(&Workspace::of_this_program()));
            run.finish()
        }
        ["oracles"] => oracles(),
        ["python"] => {
            let mut run = Run::new(4);
            package::steps(&Workspace::of_this_program(), &mut run);
            run.finish()
        }
        ["python-speed"] => {
            let mut run = Run::new(1);
            run.step("speed through Python", || package::speed(&Workspace::of_this_program()));
            run.finish()
        }
        ["autotune-proof"] => autotune_proof::prove(&Workspace::of_this_program()),
        ["lab-proof"] => lab_proof::run(&Workspace::of_this_program()),
        ["learn-proof"] => learn_proof::prove(&Workspace::of_this_program(), None),
        ["learn-proof", wanted] => learn_proof::prove(&Workspace::of_this_program(), Some(wanted)),
        ["learn-comparison"] => learn_comparison::compare(&Workspace::of_this_program()),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn every_test() -> ExitCode {
    let workspace = Workspace::of_this_program();
    let mut run = Run::new(18);
    run.step("formatting", || {
        workspace.require_component("fmt", "rustfmt")?;
        workspace.cargo("fmt --all --check")
    });
    // Everything is compiled with the release profile, so that the steps share their work.
    run.step("lints", || {
        workspace.require_component("clippy", "clippy")?;
        workspace.cargo("clippy --workspace --all-targets --release -- -D warnings")
    });
    // Without the Python module, which has no Rust tests: its dependencies ask others for more features, and with these all
    // would be compiled once more for the command.
    run.step("Rust tests", || workspace.cargo("test --workspace --exclude phalanx-py --release --no-fail-fast"));
    // Once more with debug assertions and overflow checks, which the unsafe code and the counters rely on.
    run.step("engine with assertions", || workspace.cargo("test --package phalanx-core"));
    // One test left out takes longer than all others together when nothing is optimised.
    run.step("environments with assertions", || {
        workspace
            .cargo("test --package phalanx-envs --lib -- --skip arc::solo::tests::threads_and_chunks_do_not_matter")
    });
    oracle_steps(&workspace, &mut run);
    package::steps(&workspace, &mut run);
    run.step("environment of one's own", || custom_env::test(&workspace));
    run.step("book", || book::build(&workspace));
    run.finish()
}

fn oracles() -> ExitCode {
    let mut run = Run::new(7);
    oracle_steps(&Workspace::of_this_program(), &mut run);
    run.finish()
}

fn oracle_steps(workspace: &Workspace, run: &mut Run) {
    let tests = ["gymnasium", "scipy", "autograd"].map(|oracle| workspace.root.join("tests").join(oracle));
    let mut built = false;
    run.step("phalanx binary", || {
        // As the tests are built, so that their work is shared.
        workspace.cargo("build --release --workspace --exclude phalanx-py --bin phalanx --example gradients")?;
        built = true;
        Ok(())
    });
    let mut interpreter = None;
    run.step("Python packages", || {
        let venv = workspace.target.join("venv");
        let requirements = tests.each_ref().map(|folder| folder.join("requirements.txt"));
        interpreter = Some(python::prepare(&venv, &requirements)?);
        Ok(())
    });
    let [gymnasium, scipy, autograd] = tests;
    let phalanx = workspace.release_binary("phalanx");
    let gradients = workspace.release_binary("examples/gradients");
    for (name, script, option, program) in [
        ("Gymnasium parity", gymnasium.join("parity.py"), "--phalanx", &phalanx),
        ("Gymnasium comparison", gymnasium.join("comparison.py"), "--phalanx", &phalanx),
        ("SciPy oracle", scipy.join("check.py"), "--phalanx", &phalanx),
        ("autograd oracle", autograd.join("check.py"), "--gradients", &gradients),
    ] {
        run.step(name, || match &interpreter {
            Some(interpreter) if built => workspace.run(interpreter, [script, option.into(), program.clone()]),
            _ => Err("not run, because a step that it needs has failed".into()),
        });
    }
    gillespy2_step(workspace, run);
}

/// One step: GillesPy2 has more dependencies than all else, and where they do not install the comparison is
/// left out, aloud. The Rust tests compare with a simulation of their own in any case.
fn gillespy2_step(workspace: &Workspace, run: &mut Run) {
    run.step("GillesPy2 distributions", || {
        let tests = workspace.root.join("tests").join("gillespy2");
        let venv = workspace.target.join("venv-gillespy2");
        match python::prepare(&venv, &[tests.join("requirements.txt")]) {
            Ok(interpreter) => {
                let phalanx = workspace.release_binary("phalanx");
                workspace.run(&interpreter, [tests.join("check.py"), "--phalanx".into(), phalanx])
            }
            Err(why) => {
                println!("NOT COMPARED, because GillesPy2 does not install here: {why}");
                Ok(())
            }
        }
    });
}
