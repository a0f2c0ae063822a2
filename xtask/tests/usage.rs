//! A command that does not exist must not look like a run that has passed.

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().expect("xtask starts")
}

#[test]
fn no_command_an_unknown_one_or_too_many_print_usage_and_exit_2() {
    for arguments in [&[][..], &["tset"], &["test", "parity"]] {
        let output = xtask(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("Usage: cargo xtask"), "{arguments:?}");
    }
}

#[test]
fn help_is_a_success() {
    let output = xtask(&["--help"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("oracles"));
}
