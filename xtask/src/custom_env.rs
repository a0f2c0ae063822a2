//! The template for environments outside of this repository: built and tested as its README says.

use std::process::Command;

use crate::package::PYTEST;
use crate::python;
use crate::workspace::{Workspace, run};

/// Cargo compiles the engine anew for every workspace, and this one shows that the template works, not how fast it is.
const UNOPTIMISED: &str = "profile.release.opt-level=0";
/// A folder of its own: a library for Python has one name for all profiles, so that this one would be taken for the fast one
/// that `pip install .` builds.
const TARGET: &str = "custom-env";

/// Tests the crate, then its Python module beside the installed package, with the examples of its docstrings.
pub(crate) fn test(workspace: &Workspace) -> Result<(), String> {
    let folder = workspace.root.join("examples").join("custom-env");
    let (manifest, target) = (folder.join("Cargo.toml"), workspace.target.join(TARGET));
    let words = ["test", "--release", "--config", UNOPTIMISED, "--manifest-path"].map(Into::into);
    workspace.run_cargo(words.into_iter().chain([manifest, "--target-dir".into(), target.clone()]))?;

    let requirements = workspace.root.join("tests").join("python").join("requirements.txt");
    let interpreter = python::prepare(&workspace.target.join("venv-package"), &[requirements])?;
    let mut install = Command::new(&interpreter);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps"]);
    run(install.arg(&folder).env("CARGO_TARGET_DIR", target).env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"))?;
    // The examples are those of what was installed: the sources have no compiled module beside them.
    let examples = ["--doctest-modules", "--pyargs", "room_heating"].map(Into::into);
    workspace.run(&interpreter, PYTEST.iter().map(Into::into).chain([folder.join("tests")]).chain(examples))
}
