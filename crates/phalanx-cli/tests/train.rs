//! Training and evaluation from the command line: what is written, what is refused, and what a kill leaves behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn phalanx(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    phalanx(folder, arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The sentence on standard error of a command that must be refused.
fn refusal(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
    text
}

const SMALL: [&str; 6] = [
    "env=CartPole-v1",
    "agent=ppo",
    "run.num_envs=8",
    "run.total_timesteps=16384",
    "run.eval_frequency=1024",
    "run.checkpoint_frequency=256",
];

fn train(folder: &Path, more: &[&str]) -> (PathBuf, Value) {
    let arguments = [&["train", "--json", "--quiet"], more].concat();
    let document = json(&run(folder, &arguments));
    (folder.join(document["run_dir"].as_str().unwrap()), document)
}

/// The bytes of an agent without what differs from run to run.
fn weights(run: &Path) -> Vec<u8> {
    fs::read(run.join("checkpoints/final.safetensors")).unwrap()
}

#[test]
fn a_run_leaves_what_the_reference_lists_and_can_be_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    let (path, document) = train(folder.path(), &[&SMALL[..], &["log.tensorboard=true"]].concat());
    assert_eq!(document["training_global_steps"], 16_384);
    assert_eq!(document["num_eval_checkpoints"], 2);
    for file in ["config.toml", "results.json", "metrics.csv", "metrics.jsonl", "run_metadata.json"] {
        assert!(path.join(file).is_file(), "{file}");
    }
    assert!(fs::read_dir(&path).unwrap().flatten().any(|e| e.file_name().to_string_lossy().contains("tfevents")));
    let metadata: Value = serde_json::from_slice(&fs::read(path.join("run_metadata.json")).unwrap()).unwrap();
    assert_eq!(metadata["status"], "ok");

    let evaluated = |name: &str| {
        let arguments = ["evaluate", path.to_str().unwrap(), "--json", "--episodes", "10", "--checkpoint", name];
        json(&run(folder.path(), &arguments))
    };
    // The run's own last evaluation, played again.
    assert_eq!(evaluated("final")["mean_return"], document["final_eval_return_mean"]);
    assert_eq!(evaluated("step_00002048")["global_step"], 2048);
}

/// Neither threads nor evaluations are part of what is learnt.
#[test]
fn the_same_seed_gives_the_same_weights_for_any_threads_and_evaluations() {
    let folder = tempfile::tempdir().unwrap();
    for (agent, more) in [
        ("agent=ppo", "run.rollout_steps=64"),
        ("agent=pqn", "run.rollout_steps=64"),
        ("agent=dqn", "agent.learning_starts=500"),
    ] {
        let common = ["env=CartPole-v1", agent, more, "run.num_envs=8", "run.total_timesteps=8192", "--"];
        let common = &common[..5];
        let of = |others: &[&str]| {
            let (path, _) = train(folder.path(), &[common, others].concat());
            let text = fs::read(path.join("checkpoints/final.safetensors")).unwrap();
            agent_tensors(&text)
        };
        let first = of(&["run.threads=1", "run.eval_frequency=0"]);
        assert!(first == of(&["run.threads=2", "run.eval_frequency=100", "run.eval_rollouts=3"]), "{agent}");
        assert!(first != of(&["run.threads=1", "run.eval_frequency=0", "run.seed=7"]), "{agent}");
    }
}

/// A table that has only ever played against itself draws against the perfect opponent.
#[test]
fn self_play_is_trained_and_judged_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["env=TicTacToe-v0", "agent=q_learning", "env.opponent=self_play"];
    let (path, document) = train(folder.path(), &settings);
    // Games against itself end in draws: neither side is ever rewarded.
    assert_eq!(document["final_eval_return_mean"], 0.0);
    let evaluated = |setting: &str| {
        let arguments = ["evaluate", path.to_str().unwrap(), setting, "--json", "--episodes", "1000"];
        json(&run(folder.path(), &arguments))
    };
    let perfect = evaluated("env.opponent=perfect");
    assert_eq!((&perfect["min_return"], &perfect["max_return"]), (&0.0.into(), &0.0.into()));
    let random = evaluated("env.opponent=random");
    assert_eq!(random["min_return"], 0.0);
    assert!(random["mean_return"].as_f64().unwrap() > 0.8, "{random}");
    let text = refusal(folder.path(), &["evaluate", path.to_str().unwrap(), "agent.gamma=0"]);
    assert!(text.contains("'agent.gamma=0' cannot be changed"), "{text}");
}

/// The arrays of a checkpoint, after its header.
fn agent_tensors(file: &[u8]) -> Vec<u8> {
    let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    file[8 + header..].to_vec()
}

#[test]
fn a_killed_run_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        "env=CartPole-v1",
        "agent=ppo",
        "run.num_envs=8",
        "run.rollout_steps=32",
        "run.total_timesteps=65536",
        "run.eval_frequency=2048",
        "run.checkpoint_frequency=128",
        "agent.num_minibatches=1",
    ];
    let (whole, _) = train(folder.path(), &settings);
    for count in [1, 5, 11] {
        let root = folder.path().join(format!("killed{count}"));
        fs::create_dir(&root).unwrap();
        let arguments = [&["train", "--quiet"][..], &settings].concat();
        let mut child = phalanx(&root, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        while checkpoints(&root) < count {
            assert!(start.elapsed() < Duration::from_secs(60), "no checkpoint");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let path = only_run(&root).unwrap();
        json(&run(&root, &["train", "--resume", path.to_str().unwrap(), "--json", "--quiet"]));
        assert!(agent_tensors(&weights(&whole)) == agent_tensors(&weights(&path)), "killed at checkpoint {count}");
        let rows = |run: &Path| fs::read_to_string(run.join("metrics.csv")).unwrap().lines().count();
        assert_eq!(rows(&whole), rows(&path), "each step is logged once");
    }
}

/// How many checkpoints the only run has so far.
fn checkpoints(root: &Path) -> usize {
    let folder = only_run(root).and_then(|run| fs::read_dir(run.join("checkpoints")).ok());
    folder.map_or(0, |files| {
        files.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("step_")).count()
    })
}

fn only_run(root: &Path) -> Option<PathBuf> {
    let inside = |path: &Path| fs::read_dir(path).ok()?.flatten().next().map(|entry| entry.path());
    inside(&inside(&root.join("outputs"))?)
}

#[test]
fn bad_settings_and_runs_get_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (arguments, expected) in [
        (vec!["train", "env=CartPole-v1", "agent=ppo", "agent.gama=0.9"], "gamma"),
        (vec!["train", "env=CartPole-v1", "agent=pppo"], "did you mean 'ppo'"),
        (vec!["train", "env=CartPol-v1", "agent=ppo"], "did you mean 'CartPole-v1'"),
        (vec!["train", "env=CartPole-v1", "agent=ppo", "agent.gamma=2"], "agent.gamma"),
        (vec!["train", "env=Pendulum-v1", "agent=dqn"], "discrete"),
        (vec!["train", "env=CartPole-v1", "agent=ppo", "env.max_step=9"], "max_steps"),
        (vec!["train", "env=TicTacToe-v0", "agent=pqn", "env.opponent=self_play"], "env.opponent"),
        (
            vec!["train", "env=TicTacToe-v0", "agent=q_learning", "agent.shards=0"],
            "agent.shards is 0, but must be from",
        ),
        (vec!["train", "env=TicTacToe-v0", "agent=q_learning", "agent.racy=true"], "agent.deterministic=false"),
        (vec!["train", "env=CartPole-v1", "agent=ppo", "run.auto_tune=true"], "run.auto_tune"),
        (vec!["evaluate", "nowhere"], "there is no such folder"),
        (vec!["train", "--resume", "nowhere"], "there is no such folder"),
    ] {
        let text = refusal(at, &arguments);
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
    assert!(fs::read_dir(at).unwrap().next().is_none(), "nothing is left behind");
    let (path, _) = train(at, &["env=TwoArmedBandit-v0", "agent=random", "run.total_timesteps=100"]);
    let checkpoint = path.join("checkpoints/final.safetensors");
    let mut bytes = fs::read(&checkpoint).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&checkpoint, bytes).unwrap();
    let text = refusal(at, &["evaluate", path.to_str().unwrap(), "--checkpoint", "final"]);
    assert!(text.contains("final.safetensors"), "{text}");
}
