//! Runs the `phalanx` binary as a user would.
#![allow(dead_code, unreachable_pub)] // each test uses a part

pub mod within;

use std::process::{Command, Output};

pub fn phalanx(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_phalanx")).args(arguments).output().expect("the binary runs")
}

pub fn stdout(arguments: &[&str]) -> String {
    let output = phalanx(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&stdout(arguments)).unwrap()
}
