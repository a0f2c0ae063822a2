//! The Python package: installed as a user would, and tested against the libraries it is made for.

use std::fs;
use std::path::{Path, PathBuf};

use crate::python;
use crate::steps::Run;
use crate::workspace::Workspace;

/// Python's test runner, which ends a test that hangs, with a trace of where.
pub(crate) const PYTEST: [&str; 6] = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--timeout=300"];

/// Two steps: what needs small libraries only, and what needs torch.
pub(crate) fn steps(workspace: &Workspace, run: &mut Run) {
    let tests = workspace.root.join("tests").join("python");
    let mut wheel = None;
    run.step("Python package", || {
        let venv = workspace.target.join("venv-package");
        let interpreter = python::prepare(&venv, &[tests.join("requirements.txt")])?;
        wheel = Some(build(workspace, &interpreter)?);
        install(workspace, &interpreter, wheel.as_deref())?;
        let torch = tests.join("with_torch");
        let arguments = PYTEST.iter().chain(&["--ignore"]).map(Into::into);
        workspace.run(&interpreter, arguments.chain([torch, tests.clone()]))
    });
    // torch is larger than all else, and where it does not install its tests are left out, aloud.
    run.step("Python package with torch", || {
        let venv = workspace.target.join("venv-torch");
        let requirements = [tests.join("requirements.txt"), tests.join("with_torch").join("requirements.txt")];
        match python::prepare(&venv, &requirements) {
            Ok(interpreter) => {
                install(workspace, &interpreter, wheel.as_deref())?;
                workspace.run(&interpreter, PYTEST.iter().map(Into::into).chain([tests.join("with_torch")]))
            }
            Err(why) => {
                println!("NOT TESTED, because torch does not install here: {why}");
                Ok(())
            }
        }
    });
}

/// `pip wheel .`: what `pip install .` does first, once for all virtual environments, since each of them would have the
/// bindings compiled anew.
fn build(workspace: &Workspace, interpreter: &Path) -> Result<PathBuf, String> {
    let wheels = workspace.target.join("wheels");
    // A wheel of an earlier run may have another name.
    if wheels.exists() {
        fs::remove_dir_all(&wheels).map_err(|error| format!("cannot empty {}: {error}", wheels.display()))?;
    }
    let arguments = ["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir"];
    let paths = [wheels.clone(), workspace.root.clone()];
    workspace.run(interpreter, arguments.map(Into::into).into_iter().chain(paths))?;
    let mut built = fs::read_dir(&wheels).map_err(|error| format!("cannot read {}: {error}", wheels.display()))?;
    let wheel = built.find_map(Result::ok).ok_or("pip made no wheel")?;
    Ok(wheel.path())
}

/// Installs the wheel anew, since the version does not change with the source.
fn install(workspace: &Workspace, interpreter: &Path, wheel: Option<&Path>) -> Result<(), String> {
    let wheel = wheel.ok_or("not run, because the package was not built")?;
    let arguments =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps"];
    workspace.run(interpreter, arguments.map(Into::into).into_iter().chain([wheel.to_owned()]))
}
