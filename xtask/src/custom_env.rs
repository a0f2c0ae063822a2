//! The template for environments outside of this repository: built and tested as its README says.

use std::process::Command;

use crate::package::PYTEST;
use crate::python;
use crate::workspace::{Workspace, run};

/// Tests the crate, then its Python module beside the installed package.
pub(crate) fn test(workspace: &Workspace) -> Result<(), String> {
    let folder = workspace.root.join("examples").join("custom-env");
    // Where the workspace builds as well: both compile the same engine in the same way.
    let (manifest, target) = (folder.join("Cargo.toml"), &workspace.target);
    let words = ["test", "--release", "--manifest-path"].map(Into::into);
    workspace.run_cargo(words.into_iter().chain([manifest, "--target-dir".into(), target.clone()]))?;

    let requirements = workspace.root.join("tests").join("python").join("requirements.txt");
    let interpreter = python::prepare(&target.join("venv-package"), &[requirements])?;
    let mut install = Command::new(&interpreter);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps"]);
    run(install.arg(&folder).env("CARGO_TARGET_DIR", target))?;
    workspace.run(&interpreter, PYTEST.iter().map(Into::into).chain([folder.join("tests")]))
}
