//! `ARC-v0` from the command line: folders of tasks, what is said about them, and how a run went.

mod common;

use common::{json, phalanx, stdout};

/// A task whose test pair has no output.
const OPEN: &str = r#"{"train": [{"input": [[1, 2]], "output": [[3]]}], "test": [{"input": [[4]]}]}"#;

fn said(arguments: &[&str], code: i32) -> String {
    let output = phalanx(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    message
}

#[test]
fn challenges_and_their_solutions() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("my_challenges.json", &format!(r#"{{"a": {OPEN}, "b": {OPEN}}}"#));
    let path = folder.path().to_str().unwrap();
    let rollout = ["rollout", "--env", "ARC-v0", "--tasks", path, "--steps", "3", "--num-envs", "4", "--quiet"];
    let open = "2 of 2 tasks have test pairs without an output, which are not scored\n";
    let test = [&rollout[..], &["--param", "mode=test", "--param", "max_steps=2"]].concat();
    assert_eq!(said(&["tasks", "--tasks", path], 0), format!("note: {open}"));
    assert_eq!(said(&rollout, 0), "", "training does not need the outputs of tests");
    assert_eq!(said(&test, 0), format!("warning: {open}"));
    assert!(stdout(&test).contains("\nsolved           no episode was scored\n"));
    let report = json(&[&test[..], &["--json"]].concat());
    assert!(report["episodes"].as_u64() > Some(0) && report["scored_episodes"] == 0, "{report}");
    assert!(report["scores"].get("similarity").is_some_and(|mean| mean.is_null()), "{report}");
    write("my_solutions.json", r#"{"a": [[[5]]], "b": [[[5, 11]]]}"#);
    let message = said(&rollout, 0);
    assert!(
        message.contains("my_solutions.json, task b: test pair 0, output, row 0, column 1: colour 11"),
        "{message}"
    );
    let message = said(&[&rollout[..], &["--param", "select=train"]].concat(), 2);
    assert!(message.contains("'train'") && message.contains("no training and evaluation parts"), "{message}");
}

#[test]
fn a_run_tells_how_many_episodes_were_solved() {
    let run = ["rollout", "--env", "ARC-v0", "--num-envs", "200", "--steps", "200", "--quiet"];
    let report = json(&[&run[..], &["--json"]].concat());
    let score = |name: &str| report["scores"][name].as_f64().unwrap();
    assert!((0.0..0.2).contains(&score("solved")) && (0.05..0.95).contains(&score("similarity")), "{report}");
    assert_eq!(report["scored_episodes"], report["episodes"]);
    let text = stdout(&run);
    assert!(text.contains("\nsolved ") && text.contains("\nsimilarity "), "{text}");
    let early = json(&["rollout", "--env", "ARC-v0", "--num-envs", "1", "--steps", "1", "--quiet", "--json"]);
    assert!(early["scores"].get("solved").is_some_and(|mean| mean.is_null() == (early["episodes"] == 0)), "{early}");
}
