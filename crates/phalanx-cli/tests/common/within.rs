//! Runs the `phalanx` binary in a folder of the test's own, where its cache is too.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub fn phalanx(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.env("PHALANX_CACHE_DIR", folder.join("cache")).env_remove("PHALANX_AUTO_TUNE");
    command
}

pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    phalanx(folder, arguments).output().expect("the binary runs")
}

/// What a command that must succeed prints.
#[track_caller]
pub fn stdout_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
pub fn stdout(folder: &Path, arguments: &[&str]) -> String {
    stdout_of(&run(folder, arguments))
}

/// The document that a command that must succeed prints.
#[track_caller]
pub fn json_of(output: &Output) -> Value {
    serde_json::from_str(&stdout_of(output)).unwrap()
}

#[track_caller]
pub fn json(folder: &Path, arguments: &[&str]) -> Value {
    json_of(&run(folder, arguments))
}

/// The one sentence on standard error of a command that must be refused.
#[track_caller]
pub fn refusal_of(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(output.stdout.is_empty() && text.lines().count() == 1, "{text}");
    text
}

#[track_caller]
pub fn refusal(folder: &Path, arguments: &[&str]) -> String {
    refusal_of(&run(folder, arguments))
}
