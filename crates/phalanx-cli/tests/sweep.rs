//! Sweeps and learning curves from the command line: what is run, what is written, what is refused.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::within::{json, json_of, phalanx, refusal, run};
use serde_json::Value;

const SMALL: &str = "\
env = \"CartPole-v1\"
agent = \"ppo\"
[run]
total_timesteps = 2048
num_envs = 8
eval_frequency = 64
eval_rollouts = 3
[sweep]
seeds = [1, 2]
[sweep.parameters]
agent.learning_rate = [1e-3, 1e-5]
";

/// A folder with a file of a sweep in it.
fn folder_with(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small.toml"), text).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_sweep_ranks_its_configurations_whatever_the_jobs() {
    let folder = folder_with(SMALL);
    let one = json(folder.path(), &["sweep", "small.toml", "--json", "--quiet", "--jobs", "1"]);
    let sweep = folder.path().join("sweeps/small");
    assert_eq!(one["sweep_dir"], "./sweeps/small");
    assert_eq!(names(&sweep), [".lock", "results.csv", "results.json", "runs", "sweep.toml"]);
    assert_eq!(names(&sweep.join("runs")), ["c0000-s1", "c0000-s2", "c0001-s1", "c0001-s2"]);
    let ranked = one["configurations"].as_array().unwrap();
    let mean = |i: usize| ranked[i]["mean"].as_f64().unwrap();
    assert!(ranked.len() == 2 && mean(0) >= mean(1));
    for judged in ranked {
        let values: Vec<f64> =
            judged["runs"].as_array().unwrap().iter().map(|run| run["value"].as_f64().unwrap()).collect();
        assert_eq!(values.len(), 2);
        assert!((judged["mean"].as_f64().unwrap() - (values[0] + values[1]) / 2.0).abs() < 1e-12);
        let (low, high) = (judged["interval"]["low"].as_f64().unwrap(), judged["interval"]["high"].as_f64().unwrap());
        // Student's quantile for one degree of freedom is 12.706.
        assert!(((high - low) / 2.0 - 12.7062 * (values[0] - values[1]).abs() / 2.0).abs() < 1e-3 * (high - low + 1.0));
    }
    let two = json(folder.path(), &["sweep", "small.toml", "--json", "--quiet", "--jobs", "3"]);
    assert_eq!(two["sweep_dir"], "./sweeps/small-1", "a sweep never takes the place of another");
    for file in ["results.csv", "results.json", "sweep.toml", "runs/c0001-s2/config.toml", "runs/c0001-s2/results.json"]
    {
        let of = |sweep: &str| fs::read_to_string(folder.path().join("sweeps").join(sweep).join(file)).unwrap();
        assert_eq!(of("small"), of("small-1"), "{file}");
    }
    let table = fs::read_to_string(sweep.join("results.csv")).unwrap();
    assert_eq!(table.lines().next(), Some("agent.learning_rate,configuration,failure,run,seed,value"));
    assert_eq!(table.lines().count(), 1 + 4);

    // A run of a sweep is the run that `phalanx train` makes with the same settings.
    let settings = ["env=CartPole-v1", "agent=ppo", "run.total_timesteps=2048", "run.num_envs=8"];
    let more = ["run.eval_frequency=64", "run.eval_rollouts=3", "agent.learning_rate=1e-5", "run.seed=2"];
    let trained = json(folder.path(), &[&["train", "--json", "--quiet"], &settings[..], &more].concat());
    let judged = ranked.iter().find(|judged| judged["configuration"] == 1).unwrap();
    assert_eq!(judged["runs"][1]["value"], trained["final_eval_return_mean"]);
}

#[test]
fn an_interrupted_sweep_goes_on_without_repeating_what_is_finished() {
    let longer = SMALL.replace("total_timesteps = 2048", "total_timesteps = 40_000");
    let folder = folder_with(&longer);
    let mut child = phalanx(folder.path(), &["sweep", "small.toml", "--jobs", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let sweep = folder.path().join("sweeps/small");
    let start = Instant::now();
    // The second run has begun: the first has come to its end.
    while !sweep.join("runs/c0000-s2/config.toml").exists() {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(2));
    }
    let refused = refusal(folder.path(), &["sweep", "--resume", "sweeps/small"]);
    assert!(refused.contains("sweeps/small is being worked on by another process"), "{refused}");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ended = child.wait().unwrap();
    assert!(ended.code() == Some(130) && !sweep.join("results.csv").exists(), "{ended}");
    let first = sweep.join("runs/c0000-s1/run_metadata.json");
    let before = fs::read_to_string(&first).unwrap();
    let resumed = json(folder.path(), &["sweep", "--resume", "sweeps/small", "--json", "--quiet"]);
    assert_eq!(fs::read_to_string(&first).unwrap(), before, "not run again");

    let fresh = json(folder.path(), &["sweep", "small.toml", "--json", "--quiet"]);
    assert_eq!(resumed["configurations"], fresh["configurations"]);
    // A damaged run is made again, one with other settings is not touched.
    fs::remove_file(sweep.join("runs/c0001-s1/results.json")).unwrap();
    let again = json(folder.path(), &["sweep", "--resume", "sweeps/small", "--json", "--quiet"]);
    assert_eq!(again["configurations"], fresh["configurations"]);
    let config = sweep.join("runs/c0001-s1/config.toml");
    fs::write(&config, fs::read_to_string(&config).unwrap().replace("num_envs = 8", "num_envs = 16")).unwrap();
    let message = refusal(folder.path(), &["sweep", "--resume", "sweeps/small"]);
    assert!(message.contains("other settings"), "{message}");
}

/// Tuning is settled before the runs, once for all of a kind, and leaves no trace in what is stored.
#[test]
fn a_tuned_sweep_is_the_same_sweep() {
    let text = "env = 'TwoArmedBandit-v0'\nagent = 'q_learning'\n[run]\nsteps_per_env = 500\nnum_envs = 4\n\
                threads = 1\neval_rollouts = 2\n[sweep]\n[sweep.parameters]\nagent.gamma = [0.5, 0.9]\n";
    let folder = folder_with(text);
    json(folder.path(), &["sweep", "small.toml", "--json", "--quiet"]);
    fs::write(folder.path().join("small.toml"), text.replace("threads", "auto_tune = true\nthreads")).unwrap();
    json(folder.path(), &["sweep", "small.toml", "--json", "--quiet"]);
    for file in ["results.csv", "results.json", "runs/c0001-s42/config.toml"] {
        let of = |sweep: &str| fs::read_to_string(folder.path().join("sweeps").join(sweep).join(file)).unwrap();
        assert_eq!(of("small"), of("small-1"), "{file}");
    }
    let cache = json(folder.path(), &["autotune", "show-cache", "--json"]);
    let configs = cache["chunk_size_configs"].as_object().unwrap();
    assert!(configs.len() == 1 && configs.keys().all(|key| key.contains("q_learning")), "{cache}");
    // What was tuned is found again, so that this is no other sweep.
    json(folder.path(), &["sweep", "--resume", "sweeps/small", "--auto-tune", "--json", "--quiet"]);

    let both = text.replace("threads", "scan_chunk_size = 8\nthreads");
    fs::write(folder.path().join("small.toml"), both).unwrap();
    let message = refusal(folder.path(), &["sweep", "small.toml", "--auto-tune"]);
    assert!(message.contains("run.scan_chunk_size is 8, but --auto-tune"), "{message}");
    assert!(!folder.path().join("sweeps/small-2").exists());
}

#[test]
fn a_run_that_fails_is_reported_and_the_others_go_on() {
    // A learning rate that throws the weights out of all numbers.
    let folder = folder_with(&SMALL.replace("[1e-3, 1e-5]", "[1e-3, 1e300]"));
    let output = run(folder.path(), &["sweep", "small.toml", "--json", "--quiet"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [good, bad] = [0, 1].map(|i| &document["configurations"][i]);
    assert_eq!((&good["configuration"], &bad["configuration"]), (&0.into(), &1.into()));
    assert!(good["runs"].as_array().unwrap().iter().all(|run| run["value"].is_number()));
    assert!(
        bad["runs"].as_array().unwrap().iter().all(|run| {
            run["value"].is_null() && run["failure"].as_str().unwrap().contains("training cannot go on")
        })
    );
    let text = String::from_utf8(run(folder.path(), &["sweep", "--resume", "sweeps/small", "--quiet"]).stdout).unwrap();
    assert!(text.contains("0 of 2") && text.contains("runs/c0001-s1 failed: "), "{text}");
}

#[test]
fn a_dry_run_lists_the_runs_and_writes_nothing() {
    let folder = folder_with(SMALL);
    let text = String::from_utf8(run(folder.path(), &["sweep", "small.toml", "--dry-run"]).stdout).unwrap();
    assert!(text.contains("agent.learning_rate") && text.contains("4 runs: 2 configurations, seeds 1 2"), "{text}");
    let plan = json(folder.path(), &["sweep", "small.toml", "--dry-run", "--json"]);
    assert_eq!((&plan["runs"], &plan["total_timesteps"]), (&4.into(), &8192.into()));
    assert_eq!(plan["configurations"][1]["agent.learning_rate"], 1e-5);
    assert_eq!(names(folder.path()), ["small.toml"]);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_written() {
    for (from, to, part) in [
        ("[sweep]", "[swep]", "unknown section 'swep'"),
        ("seeds", "seads", "did you mean 'seeds'"),
        ("seeds", "metric = \"losses/entropi\"\nseeds", "did you mean 'losses/entropy'"),
        ("seeds", "metric = \"losses/td_loss\"\nseeds", "unknown metric 'losses/td_loss' for agent ppo"),
        ("seeds", "method = \"gird\"\nseeds", "did you mean 'grid'"),
        ("[1e-3, 1e-5]", "[]", "is an empty list"),
        ("[1e-3, 1e-5]", "[1e-3, -1]", "agent.learning_rate is -1, but must be above 0"),
        // Refused by its number, not when the memory is full.
        ("[1e-3, 1e-5]", "{ uniform = [0.1, 1], points = 1_000_000_000_000 }", "make more than 100000 runs"),
        ("agent.learning_rate = [1e-3, 1e-5]", "agent.num_epochs = { integer = [1, 1_000_000_000_000] }", "more than"),
        ("agent.learning_rate", "agent.learning_rat", "did you mean 'learning_rate'"),
        ("\"CartPole-v1\"", "\"CartPole-v2\"", "did you mean 'CartPole-v1'"),
        ("num_envs = 8", "num_envs = 4096", "must be at least run.num_envs = 4096"),
        ("agent.learning_rate = [1e-3, 1e-5]", "env.gravty = [9.8]", "gravty"),
        ("agent = \"ppo\"", "agent = \"dqn\"\nenv.x = 1", "is no usable"),
        ("[sweep]", "[agent]\ngamma = 0.9\n[sweep]", "section [agent], its name is a key in it"),
    ] {
        let folder = folder_with(&SMALL.replace(from, to));
        let message = refusal(folder.path(), &["sweep", "small.toml"]);
        assert!(message.contains(part), "{message}\n{part}");
        assert!(message.contains("small.toml"), "{message}");
        assert_eq!(names(folder.path()), ["small.toml"], "{message}");
    }
    let folder = folder_with(SMALL);
    assert!(refusal(folder.path(), &["sweep", "none.toml"]).contains("cannot read none.toml: there is no such file"));
    assert!(refusal(folder.path(), &["sweep", "--resume", "."]).contains("is no sweep: it has no sweep.toml"));
}

/// A sweep with its runs, to draw.
fn drawn() -> (tempfile::TempDir, PathBuf) {
    let folder = folder_with(SMALL);
    assert!(run(folder.path(), &["sweep", "small.toml", "--quiet"]).status.success());
    let sweep = folder.path().join("sweeps/small");
    (folder, sweep)
}

#[test]
fn curves_of_a_sweep_are_drawn_with_a_line_for_each_configuration() {
    let (folder, sweep) = drawn();
    let document = json(folder.path(), &["plot", "sweeps/small", "--json"]);
    let lines = document["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["name"], "learning_rate 0.001");
    assert_eq!(lines[0]["seeds"], serde_json::json!([1, 2]));
    assert_eq!(lines[0]["x"], serde_json::json!([512.0, 1024.0, 1536.0, 2048.0]));
    let results: Value = serde_json::from_slice(&fs::read(sweep.join("results.json")).unwrap()).unwrap();
    let judged = results["configurations"].as_array().unwrap().iter().find(|c| c["configuration"] == 0).unwrap();
    assert_eq!(lines[0]["mean"][3], judged["mean"]);
    assert_eq!(lines[0]["interval"][3], serde_json::json!([judged["interval"]["low"], judged["interval"]["high"]]));
    assert!(fs::read(folder.path().join("learning_curves.png")).unwrap().starts_with(b"\x89PNG"));
    let svg = fs::read_to_string(folder.path().join("learning_curves.svg")).unwrap();
    for text in ["ppo on CartPole-v1", "2 seeds", "95 % t interval", "steps of all environments"] {
        assert!(svg.contains(text), "{text}");
    }

    let others = ["--x", "steps_per_env", "--interval", "bootstrap", "--title", "A title", "--metric"];
    let arguments = [&["plot", "sweeps/small/runs/c0000-s1", "--out", "one.svg"], &others[..], &["losses/entropy"]];
    let output = run(folder.path(), &arguments.concat());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "one.svg\n", "{}", String::from_utf8_lossy(&output.stderr));
    let svg = fs::read_to_string(folder.path().join("one.svg")).unwrap();
    assert!(svg.contains("A title") && svg.contains("losses/entropy") && svg.contains("1 seed"));
    assert!(!folder.path().join("one.png").exists());
    assert!(run(folder.path(), &["plot", "sweeps/small", "--x", "wall_time", "--quiet"]).status.success());
}

#[test]
fn a_single_evaluation_has_a_bar() {
    let folder = folder_with(&SMALL.replace("eval_frequency = 64", "eval_frequency = 0"));
    assert!(run(folder.path(), &["sweep", "small.toml", "--quiet"]).status.success());
    let document = json(folder.path(), &["plot", "sweeps/small", "--json"]);
    assert_eq!(document["lines"][0]["x"], serde_json::json!([2048.0]));
    assert_eq!(document["lines"][1]["name"], "learning_rate 1e-5");
    let svg = fs::read_to_string(folder.path().join("learning_curves.svg")).unwrap();
    assert!(svg.contains("points: mean over seeds; bars: its 95 % t interval"), "{svg}");
}

#[test]
fn curves_that_cannot_be_drawn_are_refused_in_one_sentence() {
    let (folder, sweep) = drawn();
    let run_0 = "sweeps/small/runs/c0000-s1";
    for (arguments, part) in [
        (vec!["nowhere"], "there is no such folder"),
        (vec!["small.toml"], "it is not a folder"),
        (vec![run_0, "--metric", "eval/retrun/mean"], "did you mean 'eval/return/mean'"),
        (vec![run_0, "--out", "a.jpg"], "must end in .png or .svg"),
        (vec![run_0, "--out", "none/a.png"], "its folder does not exist"),
        (vec![run_0, "--out", "small.toml"], "must end in .png or .svg"),
    ] {
        let message = refusal(folder.path(), &[&["plot"], arguments.as_slice()].concat());
        assert!(message.contains(part), "{message}\n{part}");
    }
    fs::create_dir(folder.path().join("empty")).unwrap();
    assert!(refusal(folder.path(), &["plot", "empty"]).contains("is no run, and there is none in it"));
    // In a folder of runs a damaged one is left out, aloud; by itself it is refused.
    fs::write(sweep.join("runs/c0000-s1/metrics.jsonl"), "nonsense\n").unwrap();
    assert!(refusal(folder.path(), &["plot", run_0]).contains("line 1 is no event"));
    let output = run(folder.path(), &["plot", "sweeps/small", "--json"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("left out"));
    assert_eq!(json_of(&output)["lines"][0]["seeds"], serde_json::json!([2]));
    assert_eq!(names(folder.path()), ["empty", "learning_curves.png", "learning_curves.svg", "small.toml", "sweeps"]);
}

/// The name of a picture is told as it was given, also where there is one already.
#[test]
fn a_picture_has_the_same_name_twice() {
    let (folder, _) = drawn();
    let draw = || String::from_utf8(run(folder.path(), &["plot", "sweeps/small"]).stdout).unwrap();
    assert_eq!((draw(), draw()), ["learning_curves.png\nlearning_curves.svg\n"; 2].map(str::to_owned).into());
}

/// What cannot be written is told without what lies behind, and leaves nothing that is in the way.
#[cfg(unix)]
#[test]
fn files_that_cannot_be_written_are_named_as_the_user_knows_them() {
    let folder = folder_with(SMALL);
    let full = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_phalanx")]).args(arguments);
        let output = command.current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let why = "the system allows no larger file; what was written before is kept\n";
    assert_eq!(full(&["sweep", "small.toml"]), format!("error: cannot write ./sweeps/small/sweep.toml: {why}"));
    assert_eq!(names(&folder.path().join("sweeps")), [""; 0]);
    json(folder.path(), &["sweep", "small.toml", "--json", "--quiet"]);
    assert_eq!(full(&["plot", "sweeps/small"]), format!("error: cannot write learning_curves.png: {why}"));
}
