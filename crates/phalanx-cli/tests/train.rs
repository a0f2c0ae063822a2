//! Training and evaluation from the command line: what is written, what is refused, and what a kill leaves behind.

mod common;

use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::within::{json, json_of, phalanx, refusal, run};
use serde_json::Value;

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
    let document = json(folder, &arguments);
    (folder.join(document["run_dir"].as_str().unwrap()), document)
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
    assert_eq!(metadata["sessions"].as_array().unwrap().len(), 1);
    for key in ["git_hash", "cores", "cpu_model", "version", "timestamp"] {
        assert!(metadata.get(key).is_some(), "{key}");
    }
    for tag in ["charts/SPS", "time/fps", "charts/episodic_return", "rollout/ep_rew_mean", "steps/env"] {
        assert!(events(&path).iter().any(|row| row.get(tag).is_some()), "{tag}");
    }

    let evaluated = |name: &str| {
        let arguments = ["evaluate", path.to_str().unwrap(), "--json", "--episodes", "10", "--checkpoint", name];
        json(folder.path(), &arguments)
    };
    // The run's own last evaluation, played again.
    assert_eq!(evaluated("final")["mean_return"], document["final_eval_return_mean"]);
    assert_eq!(evaluated("step_00002048")["global_step"], 2048);
    let quiet = run(folder.path(), &["evaluate", path.to_str().unwrap(), "--episodes", "10", "--quiet"]);
    assert!(quiet.status.success() && quiet.stderr.is_empty() && !quiet.stdout.is_empty());
}

/// Every agent is stored as it was when it was last judged: with all that it had learnt, in the midst of what tables
/// merge or a buffer holds, and from start states of its own if there are such.
#[test]
fn the_last_evaluation_can_be_played_again() {
    let folder = tempfile::tempdir().unwrap();
    let (cart_pole, games) = ("env=CartPole-v1", "env=TicTacToe-v0");
    for (env, agent, more) in [
        (cart_pole, "agent=pqn", &[][..]),
        (cart_pole, "agent=dqn", &["agent.learning_starts=500"]),
        (cart_pole, "agent=dqn", &["agent.learning_starts=500", "run.save_buffer=false"]),
        // Fewer transitions than between two merges, and some more.
        (games, "agent=q_learning", &["agent.shards=2"]),
        (games, "agent=double_q", &["agent.shards=4", "agent.steps_per_sync=3000"]),
        (games, "agent=sarsa", &["agent.shards=1"]),
        (games, "agent=q_learning", &["agent.deterministic=false", "run.threads=2"]),
        (games, "agent=q_learning", &["agent.deterministic=false", "agent.shared=false", "agent.num_workers=3"]),
    ] {
        for fresh in ["false", "true"] {
            let fresh_starts = format!("run.eval_fresh_starts={fresh}");
            let length =
                ["run.total_timesteps=20000", "run.num_envs=64", "run.eval_frequency=100", "run.eval_rollouts=50"];
            let (path, document) = train(folder.path(), &[&[env, agent, &fresh_starts], &length[..], more].concat());
            let again = json(folder.path(), &["evaluate", path.to_str().unwrap(), "--json", "--episodes", "50"]);
            assert_eq!(again["mean_return"], document["final_eval_return_mean"], "{agent} {more:?} {fresh_starts}");
        }
    }
}

/// Every agent tells of the stages it has, and learns the same.
#[test]
fn a_profile_says_where_the_time_went() {
    let folder = tempfile::tempdir().unwrap();
    let all = ["act", "checkpoint", "eval", "learn", "log", "other", "step", "store"];
    let passive = ["act", "checkpoint", "eval", "log", "other", "step"];
    let cart_pole = "env=CartPole-v1";
    for (env, agent, expected) in [
        (cart_pole, "agent=ppo", &all[..]),
        (cart_pole, "agent=pqn", &all),
        (cart_pole, "agent=dqn", &all),
        ("env=TicTacToe-v0", "agent=q_learning", &all),
        (cart_pole, "agent=random", &passive),
    ] {
        let settings = [env, agent, "run.steps_per_env=2048", "run.num_envs=4", "run.eval_rollouts=2"];
        let (_, plain) = train(folder.path(), &settings);
        assert!(plain.get("profile").is_none(), "nobody asked: {plain}");
        let (_, profiled) = train(folder.path(), &[&settings[..], &["--profile"]].concat());
        assert_eq!(plain["final_eval_return_mean"], profiled["final_eval_return_mean"], "{agent}");
        let stages = profiled["profile"].as_array().unwrap();
        let mut names: Vec<_> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{agent}");
        let seconds: Vec<f64> = stages.iter().map(|stage| stage["seconds"].as_f64().unwrap()).collect();
        assert!(seconds.is_sorted_by(|one, next| one >= next), "{agent}: {stages:?}");
        let share: f64 = stages.iter().map(|stage| stage["share_percent"].as_f64().unwrap()).sum();
        assert!((share - 100.0).abs() < 0.1, "{agent}: {share}");
        let calls = |name: &str| stages.iter().find(|stage| stage["stage"] == name).unwrap()["calls"].as_u64();
        assert_eq!(calls("step"), Some(2048), "{agent}: one for each step of all environments");
        assert!(seconds.iter().sum::<f64>() <= profiled["wall_seconds"].as_f64().unwrap(), "{agent}");
    }
    let shards = ["env=TicTacToe-v0", "agent=q_learning", "run.num_envs=64", "agent.shards=2", "run.steps_per_env=500"];
    let (_, shared) = train(folder.path(), &[&shards[..], &["--profile"]].concat());
    let has_sync = shared["profile"].as_array().unwrap().iter().any(|stage| stage["stage"] == "sync");
    assert!(has_sync, "workers merge and wait: {shared}");
    let text =
        run(folder.path(), &["train", cart_pole, "agent=random", "run.steps_per_env=64", "--profile", "--quiet"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.starts_with("stage ") && text.contains(" share ") && text.contains("\nreturn  "), "{text}");
}

/// Neither threads nor evaluations are part of what is learnt.
#[test]
fn the_same_seed_gives_the_same_weights_for_any_threads_and_evaluations() {
    let folder = tempfile::tempdir().unwrap();
    let (cart_pole, games) = ("env=CartPole-v1", "env=TicTacToe-v0");
    for (env, agent, more) in [
        // Several tiles of rows in every update, or the second thread would have nothing to do.
        (cart_pole, "agent=ppo", ["run.rollout_steps=16", "agent.num_minibatches=2"]),
        (cart_pole, "agent=pqn", ["run.rollout_steps=16", "agent.num_minibatches=2"]),
        (cart_pole, "agent=dqn", ["agent.learning_starts=500", "run.batch_size=512"]),
        (games, "agent=q_learning", ["agent.shards=4", "agent.steps_per_sync=500"]),
        (games, "agent=double_q", ["agent.shards=4", "agent.steps_per_sync=500"]),
    ] {
        let common = [env, agent, more[0], more[1], "run.num_envs=256", "run.total_timesteps=16384"];
        let of = |others: &[&str]| {
            let (path, _) = train(folder.path(), &[&common, others].concat());
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
        json(folder.path(), &arguments)
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

/// The events of a log, without what is measured by the clock.
fn events(run: &Path) -> Vec<serde_json::Map<String, Value>> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rows of the other form of a log, each cell that is not empty under its tag. The order of the columns is that in
/// which tags came up.
fn table(run: &Path) -> Vec<serde_json::Map<String, Value>> {
    let text = fs::read_to_string(run.join("metrics.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(','));
    let tags: Vec<_> = lines.next().unwrap().collect();
    let row = |cells: std::str::Split<'_, char>| {
        let cells = tags.iter().zip(cells).filter(|(_, cell)| !cell.is_empty());
        cells.map(|(tag, cell)| (tag.to_string(), cell.into())).collect()
    };
    lines.map(row).collect()
}

/// What a run leaves.
#[derive(PartialEq)]
struct Outcome {
    agent: Vec<u8>,
    results: Vec<u8>,
    /// In both forms.
    log: [Vec<serde_json::Map<String, Value>>; 2],
}

/// What does not depend on the clock.
fn outcome(run: &Path) -> Outcome {
    let agent = agent_tensors(&fs::read(run.join("checkpoints/final.safetensors")).unwrap());
    let mut log = [events(run), table(run)];
    let clock = ["wall_time", "charts/SPS", "time/fps"];
    log.iter_mut().flatten().for_each(|row| row.retain(|tag, _| !clock.contains(&tag.as_str())));
    Outcome { agent, results: fs::read(run.join("results.json")).unwrap(), log }
}

/// Some time below the longest.
fn moment(longest: Duration) -> Duration {
    let random = std::hash::RandomState::new().build_hasher().finish();
    longest.mul_f64(random as f64 / u64::MAX as f64)
}

fn begin(folder: &Path, arguments: &[&str]) -> Child {
    let mut command = phalanx(folder, &[&["train", "--json"], arguments].concat());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn killed_at_random_moments(settings: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let (whole, _) = train(folder.path(), settings);
    let duration = start.elapsed();
    let root = folder.path().join("killed");
    fs::create_dir(&root).unwrap();
    let mut child = begin(&root, &[&["--quiet"], settings].concat());
    // Some time after some checkpoint of the first half, and of the third quarter: by what was done, since by the clock
    // a machine that is less busy now would have come to the end.
    let all = fs::read_dir(whole.join("checkpoints")).unwrap().count();
    let moments = [(0, all / 2), (all / 2, all / 4)].map(|(first, span)| {
        let after = first + 1 + moment(Duration::from_secs(1)).mul_f64(span as f64).as_secs() as usize;
        (after, moment(duration / 10))
    });
    let mut hits = 0;
    for (after, moment) in moments {
        wait_until("no checkpoint", || checkpoints(&root) >= after || child.try_wait().unwrap().is_some());
        std::thread::sleep(moment);
        child.kill().unwrap();
        // One that had come to its end cannot be killed any more.
        hits += usize::from(!child.wait().unwrap().success());
        let path = only_run(&root).unwrap();
        child = begin(&root, &["--quiet", "--resume", path.to_str().unwrap()]);
    }
    let output = child.wait_with_output().unwrap();
    assert!(hits > 0, "{moments:?} of {duration:?}: nothing was killed");
    let path = only_run(&root).unwrap();
    let path = path.to_str().unwrap();
    assert!(output.status.success(), "{moments:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(outcome(&whole) == outcome(Path::new(path)), "killed after {moments:?} of {duration:?}");
    assert_eq!(unfinished(Path::new(path)) + unfinished(&Path::new(path).join("checkpoints")), 0);
}

/// What is half-written in a folder.
fn unfinished(folder: &Path) -> usize {
    let names = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with(".tmp-")).count()
}

/// Control laws have nothing to learn, but runs, results and evaluations as all agents.
#[test]
fn control_laws_are_trained_and_evaluated_as_any_agent() {
    let folder = tempfile::tempdir().unwrap();
    for (agent, settings, least) in [
        // Pushes where the car is going, which brings it up the hill.
        ("bangbang", &["env=MountainCar-v0"][..], -130.0),
        ("bang_bang", &["env=gene-circuit"], -3200.0),
        ("periodic", &["env=CartPole-v1", "agent.pulse_width=1", "run.steps_per_env=500"], 15.0),
        ("random", &["env=CartPole-v1", "run.steps_per_env=500"], 10.0),
        ("pid", &["env=CartPole-v1"], 100.0),
    ] {
        let agent = format!("agent={agent}");
        let (path, document) = train(folder.path(), &[settings, &[&agent]].concat());
        assert!(document["complete"] == true && document["training_global_steps"].as_u64() > Some(0), "{document}");
        let evaluated = json(folder.path(), &["evaluate", path.to_str().unwrap(), "--json", "--episodes", "10"]);
        assert_eq!(evaluated["mean_return"], document["final_eval_return_mean"], "{agent}");
        let mean = evaluated["mean_return"].as_f64().unwrap();
        assert!(mean >= least, "{agent}: {mean}");
    }
    let text =
        refusal(folder.path(), &["train", "env=CartPole-v1", "agent=periodic", "agent.pulse=2", "run.steps_per_env=9"]);
    assert!(text.contains("did you mean 'pulse_width'"), "{text}");
}

#[test]
fn ppo_killed_at_any_moment_goes_on_to_the_same_bits() {
    killed_at_random_moments(&[
        "env=CartPole-v1",
        "agent=ppo",
        "run.num_envs=8",
        "run.rollout_steps=32",
        "run.total_timesteps=65536",
        "run.eval_frequency=2048",
        "run.checkpoint_frequency=128",
        "agent.num_minibatches=1",
    ]);
}

#[test]
fn pqn_killed_at_any_moment_goes_on_to_the_same_bits() {
    killed_at_random_moments(&[
        "env=CartPole-v1",
        "agent=pqn",
        "run.num_envs=8",
        "run.rollout_steps=32",
        "run.total_timesteps=32768",
        "run.eval_frequency=1024",
        "run.checkpoint_frequency=128",
        "agent.num_minibatches=4",
        "agent.hidden_size=32",
    ]);
}

#[test]
fn dqn_killed_at_any_moment_goes_on_to_the_same_bits() {
    killed_at_random_moments(&[
        "env=CartPole-v1",
        "agent=dqn",
        "run.num_envs=4",
        "run.total_timesteps=20000",
        "run.eval_frequency=1000",
        "run.checkpoint_frequency=250",
        "run.buffer_size=2000",
        "agent.learning_starts=500",
        "agent.hidden=[32]",
    ]);
}

#[test]
fn a_table_killed_at_any_moment_goes_on_to_the_same_bits() {
    for agent in ["q_learning", "sarsa", "expected_sarsa", "double_q"] {
        killed_at_random_moments(&[
            "env=TicTacToe-v0",
            &format!("agent={agent}"),
            "run.num_envs=16",
            "run.total_timesteps=800000",
            "run.eval_frequency=20000",
            "run.checkpoint_frequency=2000",
            "agent.shards=4",
            "agent.steps_per_sync=500",
        ]);
    }
}

/// Ctrl-C, SIGTERM and a closed terminal end a run soon and in order; while it lasts nobody else can go on with it.
#[cfg(unix)]
#[test]
fn an_interrupted_run_says_how_it_goes_on() {
    // Tests that are to survive a closed terminal themselves (`nohup`) hand that down.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let heeds_hang_up = status
        .lines()
        .any(|line| line.starts_with("SigIgn:") && line.ends_with(['0', '2', '4', '6', '8', 'a', 'c', 'e']));
    let hang_up = heeds_hang_up.then_some(("-HUP", 129));
    for (signal, code) in [("-INT", 130), ("-TERM", 143)].into_iter().chain(hang_up) {
        let folder = tempfile::tempdir().unwrap();
        let endless = ["env=CartPole-v1", "agent=ppo", "run.total_timesteps=1e12", "run.eval_frequency=0"];
        let child = begin(folder.path(), &endless);
        let metadata = || {
            let text = fs::read(only_run(folder.path())?.join("run_metadata.json")).ok()?;
            serde_json::from_slice::<Value>(&text).ok()
        };
        wait_until("no metadata", || metadata().is_some());
        let path = only_run(folder.path()).unwrap();
        let path = path.to_str().unwrap();
        let text = refusal(folder.path(), &["train", "--resume", path]);
        assert!(text.contains("is being worked on by another process"), "{text}");

        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.lines().last().unwrap().starts_with("interrupted; `phalanx train --resume "), "{text}");
        assert_eq!(metadata().unwrap()["status"], "interrupted");
        assert_eq!(checkpoints(folder.path()), 1);
        assert!(!Path::new(path).join("checkpoints/final.safetensors").exists());
        assert!(!Path::new(path).join("results.json").exists());
    }
}

#[cfg(unix)]
#[test]
fn without_a_checkpoint_an_interrupt_promises_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let endless = ["env=CartPole-v1", "agent=random", "run.total_timesteps=1e12", "run.eval_frequency=0"];
    let child = begin(folder.path(), &[&endless[..], &["run.save_agent_checkpoint=false"]].concat());
    wait_until("no metadata", || only_run(folder.path()).is_some_and(|run| run.join("run_metadata.json").exists()));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("nothing was stored to go on from"), "{text}");
    let text = refusal(folder.path(), &["train", "--resume", only_run(folder.path()).unwrap().to_str().unwrap()]);
    assert!(text.contains("it has no checkpoint to go on from"), "{text}");
}

/// `phalanx` under a limit on the size of files, in units of the shell. Its signal would end a program that does not
/// care: here writing fails, as if a disk were full.
#[cfg(unix)]
fn limited(folder: &Path, size: u32, arguments: &[&str]) -> std::process::Output {
    let script = format!("ulimit -f {size}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_phalanx")]).args(arguments).current_dir(folder).output().unwrap()
}

/// Episodes that there is no room for can be played again: a folder with some of them would be taken for all.
#[cfg(unix)]
#[test]
fn an_evaluation_that_cannot_be_stored_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = train(folder.path(), &["env=CartPole-v1", "agent=random", "run.total_timesteps=1000"]);
    let evaluate = ["evaluate", path.to_str().unwrap(), "--episodes", "2", "--render-videos", "--quiet"];
    // Room for the configuration, not for a GIF.
    let elsewhere = tempfile::tempdir().unwrap();
    let output = limited(elsewhere.path(), 16, &evaluate);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    assert!(text.contains("cannot write") && text.contains(".gif"), "{text}");
    assert_eq!(only_run(elsewhere.path()), None);
    assert!(run(elsewhere.path(), &evaluate).status.success() && only_run(elsewhere.path()).is_some());
}

/// A row that one of the logs has no room for is in none, and in all when the run has gone on.
#[cfg(unix)]
#[test]
fn a_log_that_is_cut_short_has_every_row_once() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["env=TwoArmedBandit-v0", "agent=random", "run.total_timesteps=20000", "run.eval_rollouts=1"];
    let more = ["run.eval_frequency=200", "log.tensorboard=true", "--quiet"];
    let (whole, _) = train(folder.path(), &[&settings[..], &more[..2]].concat());
    let other = tempfile::tempdir().unwrap();
    let output = limited(other.path(), 24, &[&["train"][..], &settings, &more].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && text.contains("cannot write"), "{text}");
    let path = only_run(other.path()).unwrap();
    json(other.path(), &["train", "--resume", path.to_str().unwrap(), "--json", "--quiet"]);
    assert!(outcome(&path) == outcome(&whole), "{text}");
}

/// A disk that takes no more: here a limit on the size of files, which needs no rights.
#[cfg(unix)]
#[test]
fn a_full_disk_keeps_the_last_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        "train",
        "env=CartPole-v1",
        "agent=dqn",
        "run.num_envs=4",
        "run.total_timesteps=8000",
        "run.eval_frequency=0",
        "run.checkpoint_frequency=100",
        "agent.hidden=[16]",
        "--quiet",
    ];
    let output = limited(folder.path(), 100, &settings);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    for part in ["cannot write", "checkpoints/step_", "what was written before is kept", "has checkpoint step_"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let path = only_run(folder.path()).unwrap();
    assert_eq!(unfinished(&path.join("checkpoints")), 0, "nothing half-written is left");
    let path = path.to_str().unwrap();
    assert!(run(folder.path(), &["evaluate", path, "--episodes", "1"]).status.success());
    // A later session that fails at once names what the earlier one has left.
    fs::rename(format!("{path}/metrics.csv"), format!("{path}/kept.csv")).unwrap();
    fs::create_dir(format!("{path}/metrics.csv")).unwrap();
    let output = run(folder.path(), &["train", "--resume", path, "--quiet"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && text.contains("has checkpoint step_"), "{text}");
    fs::remove_dir(format!("{path}/metrics.csv")).unwrap();
    fs::rename(format!("{path}/kept.csv"), format!("{path}/metrics.csv")).unwrap();
    // With room again it goes on.
    let resumed = json(folder.path(), &["train", "--resume", path, "--json", "--quiet"]);
    assert_eq!(resumed["training_global_steps"], 8000);
}

/// A whole run on a file system that fills up, under each of its files in turn. It lies in a mount namespace of its own,
/// which goes with the process and needs no rights where users may have such.
#[cfg(target_os = "linux")]
#[test]
fn a_full_file_system_is_said_in_a_sentence_and_gone_on_from() {
    const CANNOT: i32 = 77;
    const SCRIPT: &str = r#"
        mount -t tmpfs -o size="$3" tmpfs "$2" && cd "$2" || exit 77
        "$1" train $4 --quiet; echo "code $?" >&2
        mount -o remount,size=10m tmpfs "$2" || exit 77
        "$1" train --resume "$(echo outputs/*/*)" --quiet --json
    "#;
    let common = "env=CartPole-v1 agent=dqn run.num_envs=4 run.total_timesteps=8000 run.eval_frequency=0 \
                  agent.hidden=[8] run.buffer_size=100";
    let folder = tempfile::tempdir().unwrap();
    let (_, whole) = train(folder.path(), &common.split_whitespace().collect::<Vec<_>>());
    // What the disk is full under, how large it is, and what else is written.
    for (name, size, settings) in [
        ("metrics.csv", "64k", "log.jsonl=false run.checkpoint_frequency=1000"),
        ("metrics.jsonl", "96k", "log.csv=false run.checkpoint_frequency=1500"),
        ("events.out", "80k", "log.tensorboard=true log.csv=false log.jsonl=false run.checkpoint_frequency=1500"),
        ("checkpoints/step_", "80k", "run.checkpoint_frequency=20"),
        (
            "results.json",
            "48k",
            "log.csv=false log.jsonl=false run.save_agent_checkpoint=false run.checkpoint_frequency=1999",
        ),
    ] {
        let disk = tempfile::tempdir().unwrap();
        let output = Command::new("unshare")
            .args(["-rm", "sh", "-c", SCRIPT, "sh", env!("CARGO_BIN_EXE_phalanx")])
            .arg(disk.path())
            .args([size, &format!("{common} {settings}")])
            .output();
        let text = output.as_ref().map_or(String::new(), |output| String::from_utf8_lossy(&output.stderr).into_owned());
        let Some(output) = output.ok().filter(|output| output.status.code() != Some(CANNOT) && text.contains("code "))
        else {
            // Past the test's own output, which nobody sees of a test that passes.
            let _ = writeln!(std::io::stderr(), "NOT TESTED: a run on a full disk, since none can be mounted: {text}");
            return;
        };
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.get(1), Some(&"code 1"), "{name}: {text}");
        for part in ["cannot write", name, "the disk is full; what was written before is kept", "has checkpoint"] {
            assert!(lines[0].contains(part), "{name}, {part}: {text}");
        }
        // With room again it goes on, to the same end.
        let resumed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{name}: {text}"));
        for key in ["training_global_steps", "final_eval_return_mean"] {
            assert_eq!(resumed[key], whole[key], "{name}: {resumed}");
        }
    }
}

/// A disk with room for a run's settings, but not for more.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_cannot_begin_leaves_no_folder() {
    const SCRIPT: &str = r#"
        mount -t tmpfs -o size=4k tmpfs "$2" && cd "$2" || exit 77
        "$1" train env=CartPole-v1 agent=random run.steps_per_env=64 --quiet; echo "code $?" >&2; find outputs -mindepth 2
    "#;
    let disk = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", SCRIPT, "sh", env!("CARGO_BIN_EXE_phalanx")]).arg(disk.path());
    let output = command.output().ok().filter(|output| String::from_utf8_lossy(&output.stderr).contains("code "));
    let Some(output) = output else {
        let _ = writeln!(std::io::stderr(), "NOT TESTED: a run on a full disk, since none can be mounted");
        return;
    };
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("run_metadata.json: the disk is full") && text.ends_with("\ncode 1\n"), "{text}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn losses_that_are_no_numbers_end_a_run_with_its_last_good_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(
        folder.path(),
        &[
            "train",
            "env=CartPole-v1",
            "agent=dqn",
            "run.num_envs=4",
            "run.total_timesteps=8000",
            "run.checkpoint_frequency=100",
            "run.eval_frequency=0",
            "agent.learning_starts=1000",
            "agent.learning_rate=1e30",
            "--quiet",
        ],
    );
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    for part in ["became", "training cannot go on", "has checkpoint step_"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let path = only_run(folder.path()).unwrap();
    let metadata: Value = serde_json::from_slice(&fs::read(path.join("run_metadata.json")).unwrap()).unwrap();
    assert_eq!(metadata["status"], "error");
    assert!(metadata["error"].as_str().unwrap().contains("became"));
    assert!(run(folder.path(), &["evaluate", path.to_str().unwrap(), "--episodes", "1"]).status.success());
}

#[test]
fn damaged_checkpoints_are_passed_over_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = train(folder.path(), &SMALL);
    let whole = outcome(&path);
    let resume = ["train", "--resume", path.to_str().unwrap(), "--json", "--quiet"];
    let at = |name: &str| path.join("checkpoints").join(name).with_extension("safetensors");
    let output = run(folder.path(), &resume);
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing is left to do"), "{output:?}");

    // A run that has come to its end, and lost it: it comes to the same end again.
    let intact = fs::read(at("final")).unwrap();
    for (damage, said) in [(None, "final.safetensors is gone; going on from"), (Some(99), "is no usable checkpoint")] {
        match damage {
            Some(bytes) => fs::write(at("final"), &intact[..bytes]).unwrap(),
            None => fs::remove_file(at("final")).unwrap(),
        }
        let output = run(folder.path(), &resume);
        json_of(&output);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.lines().count() == 1 && text.contains(said), "{text}");
        assert!(outcome(&path) == whole);
    }

    // As if it had been killed while its last file was on a bad disk.
    fs::remove_file(path.join("results.json")).unwrap();
    let mut bytes = fs::read(at("final")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(at("final"), &bytes).unwrap();
    fs::write(at("step_00014336"), &bytes[..middle]).unwrap();
    let output = run(folder.path(), &resume);
    json_of(&output);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    for part in ["final.safetensors is no usable checkpoint", "step_00014336", "going on from the one before"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(outcome(&path) == whole);

    fs::remove_file(path.join("results.json")).unwrap();
    for entry in fs::read_dir(path.join("checkpoints")).unwrap() {
        fs::write(entry.unwrap().path(), &bytes[..100]).unwrap();
    }
    let text = refusal(folder.path(), &resume);
    assert!(text.contains("final.safetensors is no usable checkpoint: it is truncated"), "{text}");
}

#[test]
fn a_run_goes_on_with_its_own_settings_only() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = train(folder.path(), &SMALL);
    fs::remove_file(path.join("results.json")).unwrap();
    let config = fs::read_to_string(path.join("config.toml")).unwrap();
    let changed: String = config
        .lines()
        .map(|line| if line.starts_with("gamma = ") { "gamma = 0.5\n".to_owned() } else { format!("{line}\n") })
        .collect();
    fs::write(path.join("config.toml"), changed).unwrap();
    let text = refusal(folder.path(), &["train", "--resume", path.to_str().unwrap()]);
    assert!(text.contains("was made with agent.gamma = ") && text.contains("but the run now has 0.5"), "{text}");
}

#[test]
fn a_finished_run_goes_on_if_it_is_made_longer() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = train(folder.path(), &SMALL);
    let path = path.to_str().unwrap();
    let text = refusal(folder.path(), &["train", "--resume", path, "agent.gamma=0.5"]);
    assert!(text.contains("'agent.gamma=0.5' cannot be changed when a run goes on"), "{text}");
    let text = refusal(folder.path(), &["train", "--resume", path, "run.total_timesteps=8192"]);
    assert!(text.contains("but the run has 2048 (16384): when it goes on it can be made longer only"), "{text}");
    let both = ["run.steps_per_env=3000", "run.total_timesteps=90000"];
    let text = refusal(folder.path(), &[&["train", "--resume", path][..], &both].concat());
    assert!(text.contains("are both given: give one of them"), "{text}");
    let longer = json(folder.path(), &["train", "--resume", path, "run.total_timesteps=32768", "--json", "--quiet"]);
    assert_eq!((&longer["training_global_steps"], &longer["complete"]), (&32_768.into(), &true.into()));
    let steps: Vec<_> = events(Path::new(path)).iter().map(|row| row["global_step"].as_u64().unwrap()).collect();
    assert!(steps.is_sorted() && steps.contains(&16_384) && steps.last() == Some(&32_768), "{steps:?}");
    let metadata: Value =
        serde_json::from_slice(&fs::read(Path::new(path).join("run_metadata.json")).unwrap()).unwrap();
    assert_eq!(metadata["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn episodes_and_videos_are_stored_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let common = ["env=CartPole-v1", "agent=random", "run.total_timesteps=100", "run.eval_rollouts=2"];
    let more = ["run.eval_max_steps=10", "run.eval_render_videos=true", "run.eval_episode_save_frequency=100"];
    let (path, _) = train(folder.path(), &[&common[..], &more].concat());
    for number in 0..2 {
        let at = |folder: &str, end: &str| path.join(format!("{folder}/step_00000100/episode_{number:04}.{end}"));
        assert!(fs::read(at("videos", "gif")).unwrap().starts_with(b"GIF89a"));
        assert!(fs::read(at("episodes", "npz")).unwrap().starts_with(b"PK"));
    }
    let before = fs::read_dir(path.parent().unwrap()).unwrap().count();
    let evaluate = |more: &[&str]| {
        json(folder.path(), &[&["evaluate", path.to_str().unwrap(), "--episodes", "2", "--json"][..], more].concat())
    };
    assert!(evaluate(&[])["run_dir"].is_null());
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), before, "nothing is written unless asked for");
    let stored = evaluate(&["--save-episodes", "--root", "elsewhere"]);
    let stored = folder.path().join(stored["run_dir"].as_str().unwrap());
    assert!(stored.join("episodes/step_00000100/episode_0001.npz").is_file());
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

/// Half of its episodes would be taken for all of them.
#[cfg(unix)]
#[test]
fn an_interrupted_evaluation_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (run, _) = train(folder.path(), &["env=CartPole-v1", "agent=random", "run.steps_per_env=64"]);
    for (signal, code, asked) in [
        ("-INT", 130, ["--save-episodes", "--episodes", "20k"]),
        ("-INT", 130, ["--render-videos", "--episodes", "1e3"]),
        ("-TERM", 143, ["--render-videos", "--episodes", "1000"]),
    ] {
        let root = tempfile::tempdir().unwrap();
        let mut command = phalanx(root.path(), &[&["evaluate", run.to_str().unwrap()], &asked[..]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let inside = if asked[0] == "--save-episodes" { "episodes" } else { "videos" };
        let files = || {
            let steps = fs::read_dir(only_run(root.path())?.join(inside)).ok()?.flatten().next()?;
            Some(fs::read_dir(steps.path()).ok()?.count())
        };
        wait_until("nothing is stored", || files() > Some(1));
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), text.as_str()),
            (Some(code), "interrupted; nothing was stored\n"),
            "{asked:?}"
        );
        assert!(output.stdout.is_empty() && only_run(root.path()).is_none(), "{asked:?}");
    }
}

#[test]
fn an_agent_that_does_not_fit_its_run_any_more_is_refused_as_if_it_went_on() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = train(folder.path(), &[&SMALL[..], &["agent.hidden=[32, 32]"]].concat());
    let config = path.join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("hidden = [32, 32]", "hidden = [16, 16]")).unwrap();
    let path = path.to_str().unwrap();
    let told = "final.safetensors was made with agent.hidden = [32, 32], but the run now has [16, 16]";
    for arguments in [["train", "--resume", path, "run.total_timesteps=32768"], ["evaluate", path, "--episodes", "5"]] {
        let text = refusal(folder.path(), &arguments);
        assert!(text.contains(told), "{text}");
    }
}

/// What is blamed is what the user has given, or has to give.
#[test]
fn messages_name_what_the_user_gave() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (path, _) = train(at, &["env=MountainCar-v0", "agent=random", "run.steps_per_env=64", "run.eval_rollouts=1"]);
    let path = path.to_str().unwrap();
    let evaluate = |more: &[&'static str]| [&["evaluate", path], more].concat();
    for (arguments, expected) in [
        (
            vec!["train", "env=cstr", "agent=bangbang", "run.total_timesteps=10000"],
            "agent.obs_field must be given for cstr: one of temperature, ",
        ),
        (
            vec!["train", "env=cstr", "agent=bangbang", "agent.obs_field=theta", "run.total_timesteps=10000"],
            "unknown observation field 'theta'",
        ),
        (
            evaluate(&["env.action_repeat=2", "--render-videos"]),
            "--render-videos is given, but episodes of repeated actions are not drawn",
        ),
        (vec!["sweep", "none.toml"], "cannot read none.toml: there is no such file or folder"),
    ] {
        let text = refusal(at, &arguments);
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
    for (flag, expected) in
        [("--seed", "a whole number from 0 to 18446744073709551615"), ("--episodes", "of at least 1")]
    {
        let output = run(at, &evaluate(&[flag, "-1"]));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && text.contains("invalid value '-1'") && text.contains(expected),
            "{text}"
        );
    }
    let output = run(at, &evaluate(&["--episodes", "1"]));
    assert!(String::from_utf8(output.stdout).unwrap().contains(" steps, 1 episode\n"));
    assert_eq!(json(at, &evaluate(&["--episodes", "2e1", "--json"]))["num_episodes"], 20);
    let (path, _) =
        train(at, &["env=CartPole-v1", "agent=random", "run.steps_per_env=64", "run.save_agent_checkpoint=false"]);
    let text = refusal(at, &["evaluate", path.to_str().unwrap()]);
    assert!(text.contains("has no checkpoint to evaluate (see run.save_agent_checkpoint)"), "{text}");
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
        (
            vec!["train", "env=TicTacToe-v0", "agent=pqn", "env.opponent=self_play", "run.eval_frequency=64"],
            "env.opponent",
        ),
        (
            vec!["train", "env=TicTacToe-v0", "agent=q_learning", "agent.shards=0"],
            "agent.shards is 0, but must be from",
        ),
        (vec!["train", "env=TicTacToe-v0", "agent=q_learning", "agent.racy=true"], "agent.deterministic=false"),
        (
            vec!["train", "env=CartPole-v1", "agent=ppo", "run.auto_tune=true", "run.scan_chunk_size=64"],
            "leave out one of them",
        ),
        (vec!["train", "env=CartPole-v1", "agent=ppo", "run.threads=1000000"], "run.threads is 1000000"),
        (vec!["train", "env=CartPole-v1", "agent=ppo", "env.safty=monitor"], "did you mean 'safety'"),
        (vec!["train", "env=CartPole-v1", "agent=ppo", "env.constraint=x<=1"], "did you mean 'constraints'"),
        (vec!["train", "env=CartPole-v1", "agent=ppo", "agent.name=dqn"], "agent is ppo: give one of them"),
        (vec!["train", "env=CartPole-v1", "agent=pid", "kpp=1"], "did you mean 'kp'"),
        (vec!["train", "env=CartPole-v1", "agent=ppo", "run.num_envs=-1"], "a whole number, at least 1"),
        (vec!["train", "env=CartPole-v1", "agent=dqn", "agent.n_step=1000000000000"], "agent.n_step is 1000000000000"),
        (vec!["train", "env=CartPole-v1", "agent=ppo", "agent.num_epochs=100000"], "from 1 to 10000"),
        (vec!["train", "env=TicTacToe-v0", "agent=pid", "run.total_timesteps=100"], "cannot play TicTacToe-v0"),
        (vec!["train", "env=TicTacToe-v0", "agent=q_learning", "env.opponent=perfct"], "did you mean 'perfect'"),
        (vec!["train", "env=Pendulum-v1", "agent=pqn", "run.eval_frequency=100"], "discrete"),
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

/// A place that nothing can be written to is wrong input, however it comes.
#[test]
fn a_root_that_is_no_folder_gets_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let settings = ["env=TwoArmedBandit-v0", "agent=random", "run.total_timesteps=100"];
    let (path, _) = train(at, &settings);
    fs::write(at.join("file"), "").unwrap();
    fs::write(
        at.join("s.toml"),
        "env = 'TwoArmedBandit-v0'\nagent = 'random'\n[run]\ntotal_timesteps = 100\n[sweep]\n",
    )
    .unwrap();
    for arguments in [
        [&["train", "--quiet"], &settings[..]].concat(),
        vec!["evaluate", path.to_str().unwrap(), "--save-episodes"],
        vec!["sweep", "s.toml", "--quiet"],
    ] {
        let text = refusal(at, &[&arguments[..], &["--root", "file"]].concat());
        assert!(text.starts_with("error: cannot make the folder file/"), "{arguments:?}: {text}");
    }
}

#[test]
fn constraints_in_the_units_of_a_preset_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["env=ChemicalReactor-v0", "agent=ppo", "env.normalize_obs=false", "run.total_timesteps=8192"];
    let output = run(folder.path(), &[&["train", "--quiet"], &settings[..]].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(
        text.starts_with("warning: env.normalize_obs = false is not the preset's, but env.constraints are"),
        "{text}"
    );
}
