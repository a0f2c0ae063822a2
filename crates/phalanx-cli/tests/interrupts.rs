//! Ends that nobody planned: signals to the program alone, and users who have hung up.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn phalanx(temporary: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(arguments).env("TMPDIR", temporary).current_dir(temporary);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The processes whose program is in a folder, also if the folder is gone.
fn running_in(folder: &Path) -> usize {
    let program = |process: fs::DirEntry| fs::read_link(process.path().join("exe")).ok();
    let programs = fs::read_dir("/proc").unwrap().flatten().filter_map(program);
    programs.filter(|program: &PathBuf| program.starts_with(folder)).count()
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Starts a comparison of this build with itself, and waits until it measures.
fn comparison(temporary: &Path) -> Child {
    let own = env!("CARGO_BIN_EXE_phalanx");
    let case = ["--case", "CartPole-v1/fused_random_rollout/n64/t1", "--pairs", "400", "--sample-ms", "50"];
    let child = phalanx(temporary, &[&["bench", "ab", own, own, "--quiet"][..], &case].concat()).spawn().unwrap();
    wait_until("no worker", || running_in(temporary) > 0);
    child
}

#[test]
fn an_interrupt_leaves_neither_files_nor_processes() {
    for signal in ["-INT", "-TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let temporary = folder.path().canonicalize().unwrap();
        let mut child = comparison(&temporary);
        send(signal, &child);
        assert!(!child.wait().unwrap().success());
        wait_until("workers stay", || running_in(&temporary) == 0);
        let copies =
            fs::read_dir(&temporary).unwrap().flatten().filter(|entry| entry.path().join("phalanx-a").exists());
        assert_eq!(copies.count(), 0, "{signal}");
    }
}

#[test]
fn workers_end_with_a_program_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().canonicalize().unwrap();
    let mut child = comparison(&temporary);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("workers stay", || running_in(&temporary) == 0);
}

#[test]
fn a_user_who_has_hung_up_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        phalanx(folder.path(), arguments).stderr(writer).status().unwrap().code()
    };
    let rollout = ["rollout", "--env", "cartpole", "--num-envs", "16", "--steps", "2k"];
    assert_eq!(run(&[&rollout[..], &["--monitor", "100"]].concat()), Some(0));
    assert_eq!(run(&["rollout", "--env", "cartpool"]), Some(2));
    assert_eq!(run(&["bench", "throughput", "--num-envs", "0"]), Some(2));
    fs::write(folder.path().join("throughput_cpu_20260101_000000.jsonl"), "{").unwrap();
    assert_eq!(run(&["bench", "trend", "--results-dir", "."]), Some(2), "nothing to show, and a damaged file");
}
