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

/// The records of the only run in a folder, if there are any.
fn records(folder: &Path) -> Option<String> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    files
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .find_map(|path| fs::read_to_string(path).ok())
}

#[test]
fn what_pairs_and_suites_had_measured_survives_an_interrupt_and_what_is_empty_does_not() {
    let own = env!("CARGO_BIN_EXE_phalanx");
    let case = ["--case", "CartPole-v1/n64/t1"];
    let (many, tiny) = (["--pairs", "400"], ["--pairs", "1000", "--samples", "24", "--sample-ms", "1"]);
    let few = ["--processes", "1000", "--samples", "2", "--sample-ms", "1"];
    let suite = ["bench", "suite", "--categories", "kernel", "--samples", "2", "--sample-ms", "1", "--pairs", "1000"];
    let safety = [&["bench", "safety", "--env", "cstr"][..], &tiny].concat();
    let memory = ["bench", "memory", "--repeats", "100"];
    for (command, results, kept) in [
        ([&["bench", "ab", own, own][..], &case, &many].concat(), "benchmarks/results", true),
        ([&["bench", "doctor"][..], &case, &many].concat(), "benchmarks/results", true),
        ([&["bench", "kpi"][..], &few].concat(), "benchmarks/results", true),
        (suite.to_vec(), "benchmark_results", true),
        (safety, "benchmarks/results", true),
        (memory.to_vec(), "benchmarks/results", false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let child =
            phalanx(folder.path(), &[&command[..], &["--quiet"]].concat()).stderr(Stdio::piped()).spawn().unwrap();
        let results = folder.path().join(results);
        wait_until("nothing is recorded", || {
            let begun = records(&results);
            begun.is_some_and(|text| !kept || text.contains(r#""complete":false"#))
        });
        send("-INT", &child);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{command:?}: {said}");
        match records(&results) {
            Some(text) if kept => {
                assert!(said.starts_with("interrupted: what was measured so far is in "), "{command:?}: {said}");
                let last = text.lines().rfind(|line| line.contains(r#""type":"summary""#)).unwrap();
                assert!(last.contains(r#""complete":false"#), "{command:?}: {last}");
            }
            left => {
                assert_eq!((left, kept), (None, false), "{command:?}");
                assert_eq!(said, "interrupted: nothing was recorded yet\n");
            }
        }
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
