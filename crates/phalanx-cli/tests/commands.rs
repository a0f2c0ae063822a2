//! The commands, through the binary.

mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::{json, phalanx, stdout};
use serde_json::Value;

#[test]
fn envs_lists_every_environment_with_spaces_and_limits() {
    let all = json(&["envs", "--json"]);
    let names: Vec<_> = all.as_array().unwrap().iter().map(|env| env["name"].as_str().unwrap()).collect();
    let expected =
        ["CartPole-v1", "Pendulum-v1", "pendulum-control", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1"];
    assert_eq!(names[..6], expected);
    assert_eq!(all[0]["aliases"][0], "cartpole-control");
    assert_eq!((&all[0]["action"]["n"], &all[0]["max_steps"]), (&Value::from(2), &Value::from(500)));
    assert_eq!(all[0]["observation"]["high"][1], "inf");
    let text = stdout(&["envs"]);
    assert!(
        expected.iter().all(|name| text.contains(name)) && text.contains("Discrete(3)") && text.contains("Box(±[2])")
    );
    assert!(stdout(&["envs", "Acrobot-v1"]).contains("link_moi"));
}

fn rollout(more: &[&str]) -> Value {
    json(&[&["rollout", "--env", "CartPole-v1", "--num-envs", "1000", "--steps", "1000", "--json"], more].concat())
}

#[test]
fn rollout_reports_all_fields_and_the_same_bits_for_every_way() {
    let reference = rollout(&[]);
    for field in [
        "env",
        "num_envs",
        "steps",
        "policy",
        "scan_chunk_size",
        "threads",
        "lanes",
        "seed",
        "steps_per_second",
        "time_to_first_step_seconds",
        "episodes",
        "return",
        "length",
        "bytes_per_env",
        "peak_rss_bytes",
        "checksum",
    ] {
        assert!(!reference[field].is_null(), "{field}");
    }
    assert!((reference["return"]["mean"].as_f64().unwrap() - 22.0).abs() < 0.5);
    assert!(reference["return"]["std"].as_f64().unwrap() > 10.0);
    assert!(reference["bytes_per_env"].as_f64().unwrap() <= 64.0);
    for threads in ["1", "2"] {
        for lanes in ["1", "8", "16"] {
            for chunk in ["1", "7", "128", "1000"] {
                let found = rollout(&["--threads", threads, "--lanes", lanes, "--scan-chunk-size", chunk]);
                assert_eq!(found["lanes"].to_string(), lanes);
                for field in ["checksum", "episodes", "return", "length"] {
                    assert_eq!(
                        found[field], reference[field],
                        "{field}: threads {threads}, lanes {lanes}, chunk {chunk}"
                    );
                }
            }
        }
    }
    assert_ne!(rollout(&["--seed", "6"])["checksum"], reference["checksum"]);
    assert_ne!(rollout(&["--param", "length=0.4..0.6"])["checksum"], reference["checksum"]);
}

#[test]
fn steps_with_too_many_reactions_are_counted_and_told() {
    let run = |cap: &str, more: &[&str]| {
        let cap = format!("max_reactions_per_step={cap}");
        let command = ["rollout", "--env", "gene-circuit", "--num-envs", "64", "--steps", "288", "--quiet"];
        let output = phalanx(&[&command[..], &["--param", &cap], more].concat());
        assert!(output.status.success());
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let capped = |cap| {
        let report: Value = serde_json::from_str(&run(cap, &["--json"]).0).unwrap();
        report["counters"]["capped_steps"]["total"].as_u64().unwrap()
    };
    let (many, none) = (capped("10"), capped("10000"));
    assert!(many > 0 && none == 0, "{many}, {none}");
    let (table, warning) = run("10", &[]);
    assert!(table.contains("capped_steps"), "{table}");
    assert!(warning.lines().count() == 1 && warning.contains("reached max_reactions_per_step"), "{warning}");
    assert_eq!(run("10000", &[]).1, "");
}

#[test]
fn a_trace_tells_how_close_a_grid_has_come() {
    let command = ["trace", "--env", "ARC-v0", "--actions", "random:5", "--seed", "3", "--autoreset"];
    let trace = json(&[&command[..], &["--format", "json"]].concat());
    let table = stdout(&command);
    let header = table.lines().next().unwrap();
    assert!(header.ends_with("truncated,score.solved,score.similarity"), "{header}");
    let mut similarities = Vec::new();
    for (row, line) in trace["steps"].as_array().unwrap().iter().zip(table.lines().skip(1)) {
        let scores = &row["scores"];
        let similarity = scores["similarity"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&similarity) && (similarity == 1.0) == (scores["solved"] == 1.0), "{scores}");
        assert!(line.ends_with(&format!(",{}", similarity as f32)), "{line}, {similarity}");
        similarities.push(similarity);
    }
    assert!(similarities.len() > 5 && similarities.iter().any(|s| *s != similarities[0]), "{similarities:?}");
    assert!(!stdout(&["trace", "--env", "CartPole-v1", "--actions", "random:1"]).contains("score."));
}

#[test]
fn a_run_interrupted_by_a_snapshot_ends_with_the_same_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state").to_str().unwrap().to_owned();
    for policy in [
        &["--policy", "random"][..],
        &[
            "--policy",
            "pid",
            "--policy-arg",
            "ki=0.1",
            "--policy-arg",
            "control_low=-1",
            "--policy-arg",
            "control_high=1",
        ],
    ] {
        let run = |more: &[&str]| {
            json(&[&["rollout", "--env", "CartPole-v1", "--num-envs", "333", "--json"], policy, more].concat())
        };
        let straight = run(&["--steps", "700"]);
        run(&["--steps", "300", "--save-state", &state]);
        let resumed = run(&["--steps", "400", "--load-state", &state, "--lanes", "8"]);
        for field in ["checksum", "episodes", "return", "length", "total_steps_per_env"] {
            assert_eq!(resumed[field], straight[field], "{field} with {policy:?}");
        }
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file stays behind: {left:?}");
}

#[test]
fn trace_prints_every_step_as_json_and_csv() {
    let arguments =
        ["trace", "--env", "CartPole-v1", "--state", "0.01,-0.02,0.03,-0.04", "--actions", "random:7", "--seed", "1"];
    let document = json(&[&arguments[..], &["--format", "json"]].concat());
    assert_eq!(document["env"], "CartPole-v1");
    assert_eq!(document["params"]["gravity"], 9.8);
    assert_eq!(document["state_names"], serde_json::json!(["x", "x_dot", "theta", "theta_dot"]));
    assert_eq!(document["obs_names"], document["state_names"]);
    let steps = document["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 8);
    assert_eq!(steps[0]["t"], 0);
    assert!(steps[0]["action"].is_null() && steps[0]["reward"].is_null());
    assert_eq!(steps[0]["state"], serde_json::json!([0.01, -0.02, 0.03, -0.04]));
    assert_eq!(
        (&steps[7]["t"], &steps[7]["reward"], &steps[7]["terminated"]),
        (&Value::from(7), &Value::from(1.0), &Value::from(false))
    );

    let csv = stdout(&arguments);
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 9);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    assert_eq!(rows[0][..4], ["episode", "t", "action", "state.x"]);
    assert_eq!(rows[1][2], "");
    for (row, step) in rows[2..].iter().zip(&steps[1..]) {
        assert_eq!(row[2], step["action"].to_string());
        assert_eq!(row[3].parse::<f64>().unwrap(), step["state"][0].as_f64().unwrap());
    }
}

#[test]
fn trace_stops_at_the_end_unless_autoreset() {
    let push = ["trace", "--env", "CartPole-v1", "--state", "0,0,0,0", "--actions", "-", "--format", "json"];
    let run = |more: &[&str]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_phalanx"))
            .args(push)
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all("1\n".repeat(20).as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["steps"].as_array().unwrap().clone()
    };
    let stopped = run(&[]);
    assert_eq!(stopped.len(), 10);
    assert_eq!(stopped[9]["terminated"], true);
    let going_on = run(&["--autoreset"]);
    assert_eq!(going_on.iter().filter(|step| !step["action"].is_null()).count(), 20);
    assert_eq!((&going_on[10]["episode"], &going_on[10]["t"]), (&Value::from(1), &Value::from(0)));
}

#[test]
fn trace_precision_is_that_of_the_golden_vectors() {
    let golden =
        ["trace", "--env", "CartPole-v1", "--state", "0.01,-0.02,0.03,-0.04", "--actions", "-", "--format", "json"];
    for (precision, tolerance) in [(&["--precision", "f64"][..], 1e-12), (&[], 1e-12), (&["--precision", "f32"], 1e-7)]
    {
        let mut child = Command::new(env!("CARGO_BIN_EXE_phalanx"))
            .args(golden)
            .args(precision)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"1\n").unwrap();
        let document: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
        let state = document["steps"][1]["state"].as_array().unwrap();
        for (found, expected) in
            state.iter().zip([0.009600000000000001, 0.17467919574755525, 0.0292, -0.3230687179600081])
        {
            assert!((found.as_f64().unwrap() - expected).abs() <= tolerance, "{precision:?}: {state:?}");
        }
    }
}

#[test]
fn a_closed_pipe_is_success() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_phalanx"))
        .args(["trace", "--env", "Pendulum-v1", "--actions", "random:1000000", "--autoreset"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn help_and_completions() {
    for command in ["envs", "rollout", "trace", "demo", "completions"] {
        assert!(stdout(&["--help"]).contains(command));
        assert!(stdout(&[command, "--help"]).contains("Usage: phalanx"));
    }
    assert!(stdout(&["rollout", "--help"]).contains("anti_windup"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&["completions", shell]).contains("scan-chunk-size"), "{shell}");
    }
    assert!(stdout(&["--version"]).starts_with("phalanx "));
}
