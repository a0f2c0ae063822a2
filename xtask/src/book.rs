//! The documentation site: `docs/book`, built by mdBook.
//!
//! No registry of binaries that we may use has mdBook, so it is compiled: once, under the target directory, and without
//! its features for serving, watching and searching, and without optimisations, which take longer than the book.

use std::process::Command;

use crate::workspace::{Workspace, run};

/// What is installed; `--locked`, so that it is the same program everywhere.
const VERSION: &str = "0.5.4";

/// Builds the book into `<target>/book`.
pub(crate) fn build(workspace: &Workspace) -> Result<(), String> {
    let tools = workspace.target.join("tools");
    let mdbook = tools.join("bin").join("mdbook").with_extension(std::env::consts::EXE_EXTENSION);
    if !is_installed(&mdbook) {
        println!("installing mdBook {VERSION}, which takes some minutes the first time");
        workspace.cargo_install("mdbook", VERSION, &tools)?;
    }
    let mut command = Command::new(mdbook);
    command.arg("build").arg(workspace.root.join("docs").join("book"));
    command.arg("--dest-dir").arg(workspace.target.join("book"));
    run(&mut command)
}

fn is_installed(mdbook: &std::path::Path) -> bool {
    let version = Command::new(mdbook).arg("--version").output();
    version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == format!("mdbook v{VERSION}"))
}
