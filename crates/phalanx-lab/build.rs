//! Tells `build_info` what only the build knows: commit, compiler, target features. What is unknown is left out.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    emit("PHALANX_RUSTC", env::var("RUSTC").ok().and_then(|rustc| output_of(&rustc, &["--version"])));
    emit("PHALANX_OPT_LEVEL", env::var("OPT_LEVEL").ok());
    emit("PHALANX_TARGET_FEATURES", env::var("CARGO_CFG_TARGET_FEATURE").ok());
    emit("PHALANX_TARGET_CPU", env::var("CARGO_ENCODED_RUSTFLAGS").ok().and_then(|flags| target_cpu(&flags)));
    // A copy of the sources that lies in somebody else's checkout has no commit of its own.
    if git(&["ls-files", "--error-unmatch", "build.rs"]).is_some() {
        let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
        watch_checkout(branch.as_deref());
        emit("PHALANX_GIT_SHA", git(&["rev-parse", "HEAD"]));
        emit("PHALANX_GIT_BRANCH", branch.map(|name| name.trim_start_matches("refs/heads/").to_owned()));
        let changes = git(&["status", "--porcelain", "--untracked-files=no"]);
        emit("PHALANX_GIT_DIRTY", changes.map(|changes| (!changes.is_empty()).to_string()));
    }
}

/// Runs again when the commit moves or a source changes, not when another branch does.
fn watch_checkout(branch: Option<&str>) {
    let git_path = |name: &str| git(&["rev-parse", "--git-path", name]);
    watch(git_path("HEAD").as_deref());
    watch(git_path("packed-refs").as_deref());
    if let Some(path) = branch.and_then(git_path) {
        // A packed branch has no file until the next commit makes one in this folder.
        let file = Path::new(&path);
        let watched = if file.exists() { Some(file) } else { file.parent() };
        watch(watched.and_then(Path::to_str));
    }
    // Whether the tree is dirty depends on every source, not only on those of this crate.
    for sources in ["..", "../../Cargo.toml", "../../Cargo.lock"] {
        watch(Some(sources));
    }
}

/// A missing path would make every build run this script again.
fn watch(path: Option<&str>) {
    if let Some(path) = path.filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
}

fn emit(name: &str, value: Option<String>) {
    if let Some(value) = value {
        println!("cargo::rustc-env={name}={value}");
    }
}

/// The flags are separated by the byte 0x1f.
fn target_cpu(encoded_flags: &str) -> Option<String> {
    encoded_flags.split('\x1f').find_map(|flag| flag.split_once("target-cpu=")).map(|(_, cpu)| cpu.to_owned())
}

fn git(arguments: &[&str]) -> Option<String> {
    // Looking must not take the lock that a commit may need.
    output_of("git", &[&["--no-optional-locks"], arguments].concat())
}

fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
