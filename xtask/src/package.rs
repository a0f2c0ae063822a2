//! The Python package: installed as a user would, and tested against the libraries it is made for.

use std::path::Path;

use crate::python;
use crate::steps::Run;
use crate::workspace::Workspace;

/// Python's test runner, which ends a test that hangs, with a trace of where.
pub(crate) const PYTEST: [&str; 6] = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--timeout=300"];

/// Two steps: what needs small libraries only, and what needs torch.
pub(crate) fn steps(workspace: &Workspace, run: &mut Run) {
    let tests = workspace.root.join("tests").join("python");
    run.step("Python package", || {
        let venv = workspace.target.join("venv-package");
        let interpreter = python::prepare(&venv, &[tests.join("requirements.txt")])?;
        install(workspace, &interpreter)?;
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
                install(workspace, &interpreter)?;
                workspace.run(&interpreter, PYTEST.iter().map(Into::into).chain([tests.join("with_torch")]))
            }
            Err(why) => {
                println!("NOT TESTED, because torch does not install here: {why}");
                Ok(())
            }
        }
    });
}

/// `pip install .`, anew, since the version does not change with the source.
fn install(workspace: &Workspace, interpreter: &Path) -> Result<(), String> {
    let arguments =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps"];
    workspace.run(interpreter, arguments.map(Into::into).into_iter().chain([workspace.root.clone()]))
}
