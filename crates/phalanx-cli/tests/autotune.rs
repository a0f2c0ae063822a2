//! Auto-tuning, the monitor and profiles through the binary.

mod common;
#[path = "../../phalanx-lab/tests/schema/mod.rs"]
mod schema;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::within::{json_of, refusal_of as refusal, stdout_of};
use serde_json::Value;

/// The binary with a cache of its own.
fn command(cache: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(arguments).env("PHALANX_CACHE_DIR", cache).env_remove("PHALANX_AUTO_TUNE");
    command
}

fn run(cache: &Path, arguments: &[&str]) -> Output {
    command(cache, arguments).output().expect("the binary runs")
}

#[track_caller]
fn stdout(cache: &Path, arguments: &[&str]) -> String {
    stdout_of(&run(cache, arguments))
}

#[track_caller]
fn json(cache: &Path, arguments: &[&str]) -> Value {
    json_of(&run(cache, arguments))
}

/// A small request whose time is bounded.
const TUNE: [&str; 11] =
    ["autotune", "--env", "cartpole", "--agent", "random", "--num-envs", "64", "--threads", "1", "--sample-ms", "1"];

fn with(more: &[&'static str]) -> Vec<&'static str> {
    [&TUNE[..], more].concat()
}

#[test]
fn tuning_is_measured_once_shown_and_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let cache = &folder.path().join("cache");
    let text = stdout(cache, &TUNE);
    for part in ["hardware ", "environment   CartPole-v1, profiled in", "chunk   64    ok ", "<- best", "measured now"]
    {
        assert!(text.contains(part), "'{part}' is not in:\n{text}");
    }
    let again = json(cache, &with(&["--json"]));
    assert_eq!(again["source"], "cache");
    let quiet = stdout(cache, &with(&["--quiet"]));
    assert_eq!(quiet.trim().parse::<u64>().ok(), again["scan_chunk_size"].as_u64());
    assert_eq!(json(cache, &with(&["--force", "--json"]))["source"], "measured_now");

    let document: Value = serde_json::from_slice(&fs::read(cache.join("autotune_profiles.json")).unwrap()).unwrap();
    assert_eq!(document["schema_version"], 1);
    schema::assert_described("autotune-profiles-v1", &cache.join("autotune_profiles.json"));
    let (key, config) = document["chunk_size_configs"].as_object().unwrap().iter().next().unwrap();
    assert!(key.starts_with("CartPole-v1:random:64:") && key.ends_with(":t1"), "{key}");
    for field in ["optimal_chunk_size", "throughput_steps_per_s", "validated_at", "engine_version", "env_hash"] {
        assert!(!config[field].is_null(), "{field}");
    }
    for field in ["chunk_size", "status", "throughput_steps_per_s", "ci_low", "ci_high", "bytes"] {
        assert!(!config["candidates"][0][field].is_null(), "{field}");
    }
    let env = &document["env_profiles"]["CartPole-v1"];
    assert!(env["bytes_per_env"].as_f64().unwrap() > 30.0 && env["profiled_with_num_envs"] == 1000);
    assert!(document["agent_profiles"]["random"]["forward_us"].as_f64().unwrap() > 0.0);
    assert_eq!(json(cache, &["autotune", "show-cache", "--json"]), document);
    assert_eq!(json(cache, &["autotune", "--show-cache", "--json"]), document);
    assert!(stdout(cache, &["autotune", "--show-cache"]).contains(key));
    let verify = ["autotune", "verify", "--env", "cartpole", "--num-envs", "64", "--threads", "1", "--sample-ms", "1"];
    let quick = ["--rounds", "3", "--most-seconds", "1"];
    let text = String::from_utf8(run(cache, &[&verify[..], &quick].concat()).stdout).unwrap();
    assert!(text.contains("] behind the "), "{text}");
    // Also where the tuner had no time for any candidate.
    let empty = &folder.path().join("empty");
    for (cache, more) in [(cache, &["--json"][..]), (empty, &["--json", "--time-budget", "0"])] {
        let verdict = run(cache, &[&verify[..], &quick, more].concat());
        let found: Value = serde_json::from_slice(&verdict.stdout).unwrap();
        assert_eq!(found["speeds"].as_array().unwrap().len(), 7, "none is left out: {found}");
        assert!(found["turns"].as_u64().unwrap() >= 12 && found["rival"] != found["chosen"], "{found}");
        let [low, high] = ["low", "high"].map(|end| found["interval"][end].as_f64().unwrap());
        let code = if high <= 0.05 {
            0
        } else if low > 0.05 {
            10
        } else {
            12
        };
        assert_eq!(verdict.status.code(), Some(code), "{found}");
    }

    // Without a number of threads, all that the tuner chooses from take part.
    let all = ["autotune", "verify", "--env", "cartpole", "--num-envs", "64", "--sample-ms", "1", "--json"];
    let verdict = run(cache, &[&all[..], &quick].concat());
    let found: Value = serde_json::from_slice(&verdict.stdout).unwrap();
    let mut threads: Vec<_> =
        found["speeds"].as_array().unwrap().iter().map(|speed| speed["threads"].as_u64().unwrap()).collect();
    assert!(threads.is_sorted(), "{found}");
    threads.dedup();
    let cores = std::thread::available_parallelism().unwrap().get() as u64;
    assert_eq!((threads[0], threads[threads.len() - 1]), (1, cores), "{found}");
    assert_eq!(found["speeds"].as_array().unwrap().len(), 7 * threads.len(), "{found}");

    assert!(stdout(cache, &["autotune", "clear-cache"]).starts_with("removed "));
    assert!(stdout(cache, &["cache", "clear"]).contains("holds nothing"));
    assert_eq!(json(cache, &["cache", "clear", "--json"])["removed"], Value::Array(Vec::new()));
    // A folder in the place of the file is not ours to remove.
    fs::create_dir(cache.join("autotune_profiles.json")).unwrap();
    assert_eq!(run(cache, &["cache", "clear"]).status.code(), Some(2));
}

#[test]
fn two_processes_at_once_and_a_damaged_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("autotune_profiles.json"), "{\"schema_version\": 1, \"hardw").unwrap();
    let start = |num_envs: &str| {
        let budget = ["--threads", "1", "--sample-ms", "1", "--quiet"];
        let arguments = [&["autotune", "--env", "cartpole", "--num-envs", num_envs][..], &budget].concat();
        command(folder.path(), &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let outputs = [start("32"), start("48")].map(|child| child.wait_with_output().unwrap());
    for output in &outputs {
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout.clone()).unwrap().trim().parse::<usize>().is_ok());
    }
    let told = outputs.iter().any(|output| String::from_utf8_lossy(&output.stderr).contains("kept as .bak"));
    assert!(told && folder.path().join("autotune_profiles.json.bak").is_file());
    let document = json(folder.path(), &["autotune", "show-cache", "--json"]);
    assert_eq!(document["chunk_size_configs"].as_object().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_tuned_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], part: &str| {
        let message = refusal(&run(folder.path(), arguments));
        assert!(message.contains(part), "{arguments:?}: {message}");
    };
    let big = ["autotune", "--env", "cartpole", "--num-envs", "1M", "--memory-budget", "1M", "--buffer-size", "10"];
    refused(&big, "error: No valid chunk_size: 1000000 environments of CartPole-v1 under random need");
    refused(&big, "a buffer_size below 10");
    stdout(folder.path(), &with(&["--quiet"]));
    refused(&with(&["--memory-budget", "1K"]), "No valid chunk_size");
    refused(&["autotune"], "autotune needs --env and --num-envs");
    let ppo = ["autotune", "--env", "cartpole", "--num-envs", "8", "--agent", "PPO"];
    refused(&[&ppo[..], &["--buffer-size", "10"]].concat(), "PPO has no replay buffer");
    refused(&[&ppo[..], &["--safety", "off"]].concat(), "leave out --safety");
    refused(&[&ppo[..], &["--policy-arg", "gama=0.9"]].concat(), "gamma");
    refused(&["autotune", "--env", "cartpole", "--num-envs", "8", "--agent", "pidd"], "did you mean 'pid'");
    refused(&["autotune", "--env", "cartpol", "--num-envs", "8"], "did you mean 'cartpole'");
    refused(&["autotune", "--env", "cartpole", "--num-envs", "8", "--memory-budget", "2"], "512M");
    let both = ["rollout", "--env", "cartpole", "--auto-tune", "--scan-chunk-size", "8"];
    refused(&both, "--scan-chunk-size is 8, but --auto-tune");
    let mut by_variable = command(folder.path(), &["rollout", "--env", "cartpole", "--scan-chunk-size", "8"]);
    let message = refusal(&by_variable.env("PHALANX_AUTO_TUNE", "1").output().unwrap());
    assert!(message.contains("PHALANX_AUTO_TUNE asks to tune it"), "{message}");
    let message = refusal(&by_variable.env("PHALANX_AUTO_TUNE", "maybe").output().unwrap());
    assert!(message.contains("'maybe', but must be 1 or 0"), "{message}");
}

#[test]
fn the_largest_size_is_predicted_then_tried() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["autotune", "max-envs", "--env", "cartpole", "--threads", "1", "--memory-budget", "20M", "--json"];
    let found = json(folder.path(), &arguments);
    let (predicted, tried) = (found["predicted"].as_u64().unwrap(), found["num_envs"].as_u64().unwrap());
    assert!(tried > predicted / 2 && tried < 2 * predicted, "{found}");
    assert_eq!(found["probes"].as_array().unwrap().len(), 5);
}

#[test]
fn no_size_at_all_is_refused_with_what_it_would_take() {
    let folder = tempfile::tempdir().unwrap();
    let most = |more: &[&str]| run(folder.path(), &[&["autotune", "max-envs", "--threads", "1"][..], more].concat());
    let message = refusal(&most(&["--env", "arc", "--memory-budget", "10M", "--buffer-size", "1M"]));
    for part in [
        "No valid num_envs: 1 environment of ARC-v0 under random needs at least ",
        "1000000 transitions",
        "below 1000000",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // By the prediction some fit, but a process takes whole pages.
    let tried = most(&["--env", "cartpole", "--memory-budget", "1K", "--json", "--quiet"]);
    let message = refusal(&tried);
    assert!(message.contains("No valid num_envs: 1 environment of CartPole-v1 under random needs"), "{message}");
}

#[test]
fn roll_outs_take_the_tuned_size_and_compute_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let rollout = ["rollout", "--env", "cartpole", "--num-envs", "64", "--steps", "50", "--threads", "1", "--json"];
    // The cache says so, so nothing has to be measured here.
    let tuned = json(folder.path(), &with(&["--json"]));
    let plain = json(folder.path(), &rollout);
    let auto = json(folder.path(), &[&rollout[..], &["--auto-tune"]].concat());
    assert_eq!(auto["scan_chunk_size"], tuned["scan_chunk_size"]);
    assert_eq!(auto["checksum"], plain["checksum"]);
    let output = command(folder.path(), &rollout).env("PHALANX_AUTO_TUNE", "1").output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("scan_chunk_size = "));
}

#[test]
fn roll_outs_by_rows_take_the_tuned_tile_and_others_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let of = |env: &'static str| ["--env", env, "--num-envs", "600", "--threads", "1", "--json"];
    let tune = |env| json(folder.path(), &[&["autotune", "--sample-ms", "1"], &of(env)[..]].concat());
    let rollout = |more: &[&'static str]| [&["rollout", "--steps", "50"], more, &of("arc")[..]].concat();
    let tuned = tune("arc");
    assert_eq!(tuned["tiles"].as_array().unwrap().len(), 3, "{tuned}");
    let plain = json(folder.path(), &rollout(&[]));
    let auto = json(folder.path(), &rollout(&["--auto-tune"]));
    assert_eq!((&auto["tile"], &plain["tile"]), (&tuned["tile"], &Value::from(128)));
    assert_eq!(auto["checksum"], plain["checksum"]);
    let chosen = json(folder.path(), &rollout(&["--tile", "16"]));
    assert_eq!((&chosen["tile"], &chosen["checksum"]), (&Value::from(16), &plain["checksum"]));
    let both = run(folder.path(), &rollout(&["--auto-tune", "--tile", "16"]));
    assert!(refusal(&both).contains("--tile is 16, but --auto-tune"));
    assert!(refusal(&run(folder.path(), &rollout(&["--tile", "100"]))).contains("a multiple of 16 up to 512"));

    assert!(tune("cartpole").get("tile").is_none());
    let idle = run(folder.path(), &["rollout", "--env", "cartpole", "--steps", "2", "--tile", "16"]);
    assert!(String::from_utf8(idle.stderr).unwrap().contains("--tile changes nothing here"));
    // The exhaustive sweep knows tiles as well; so few rounds show nothing, which is an exit code of its own.
    let verify = ["autotune", "verify", "--rounds", "3", "--most-seconds", "1", "--sample-ms", "1"];
    let output = run(folder.path(), &[&verify[..], &of("arc")[..]].concat());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["speeds"].as_array().unwrap().len(), 7 * 3, "{found}");
    assert_eq!(found["chosen"]["tile"], tuned["tile"]);
}

#[test]
fn every_command_with_a_chunk_size_can_tune_it_and_long_ones_can_be_watched() {
    let folder = tempfile::tempdir().unwrap();
    // Into the cache, so that nothing has to be measured below. So few environments are fastest on one thread, which is not
    // what is used without tuning.
    let tune = ["autotune", "--env", "cartpole", "--num-envs", "64", "--sample-ms", "1"];
    let tuned = json(folder.path(), &[&tune[..], &["--json"]].concat());
    let results = folder.path().join("results");
    let plan = ["--num-envs", "64", "--processes", "2", "--samples", "2", "--sample-ms", "1"];
    let more = ["--num-steps", "600", "--time-budget", "0", "--results-dir", results.to_str().unwrap(), "--json"];
    let throughput = [&["bench", "throughput"], &plan[..], &more].concat();
    let demo = ["demo", "performance", "--num-envs", "64", "--num-steps", "600", "--json"];
    for (arguments, row) in [(&throughput[..], "/rows/0"), (&demo[..], "")] {
        let auto = json(folder.path(), &[arguments, &["--auto-tune"]].concat());
        let row = auto.pointer(row).unwrap();
        for found in ["scan_chunk_size", "threads"] {
            assert_eq!(row[found], tuned[found], "{found} of {arguments:?}");
        }
        let output = command(folder.path(), arguments).env("PHALANX_AUTO_TUNE", "1").output().unwrap();
        assert!(String::from_utf8(output.stderr).unwrap().contains("scan_chunk_size = "), "{arguments:?}");
        let both = run(folder.path(), &[arguments, &["--auto-tune", "--scan-chunk-size", "8"]].concat());
        assert!(refusal(&both).contains("--scan-chunk-size is 8, but --auto-tune"));

        let log = folder.path().join(format!("{}.jsonl", arguments[0]));
        let monitor = ["--monitor", "--metrics-log", log.to_str().unwrap()];
        let output = run(folder.path(), &[arguments, &monitor].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        let lines = said.lines().filter(|line| line.contains("step=") && line.contains(" sps=")).count();
        assert_eq!(lines, if arguments[0] == "demo" { 1 } else { 2 }, "{said}");
        assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), lines);
    }
}

#[test]
fn a_monitor_tells_at_its_interval_and_in_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("metrics.jsonl");
    let rollout = ["rollout", "--env", "cartpole", "--num-envs", "16", "--steps", "1001", "--scan-chunk-size", "100"];
    let monitor = ["--monitor", "500", "--metrics-log", log.to_str().unwrap(), "--json"];
    let output = run(folder.path(), &[&rollout[..], &monitor].concat());
    let told = String::from_utf8(output.stderr).unwrap();
    let steps: Vec<_> = told.lines().filter(|line| line.starts_with("step=")).collect();
    assert_eq!(steps.len(), 2, "{told}");
    assert!(steps[0].starts_with("step=501 sps=") && steps[0].contains(" cpu=") && steps[0].contains("% mem="));
    let logged = fs::read_to_string(&log).unwrap();
    let readings: Vec<Value> = logged.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((readings.len(), &readings[1]["step"]), (2, &Value::from(1001)));
    let alone = run(folder.path(), &[&rollout[..], &["--metrics-log", "x"]].concat());
    assert!(refusal(&alone).contains("--monitor"));
}

#[test]
fn a_monitor_tells_of_every_step_the_first_and_the_last_included() {
    let folder = tempfile::tempdir().unwrap();
    for (steps, monitor, told) in [
        ("1000", &["--monitor", "1000"][..], &[1000][..]),
        ("1000", &["--monitor"], &[1000]),
        ("300", &["--monitor", "200"], &[257, 300]),
    ] {
        let rollout = ["rollout", "--env", "cartpole", "--num-envs", "16", "--steps", steps];
        let output = run(folder.path(), &[&rollout[..], monitor].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        let found = said.lines().filter_map(|line| line.strip_prefix("step=")?.split(' ').next()?.parse::<u64>().ok());
        assert_eq!(found.collect::<Vec<_>>(), told, "{steps} {monitor:?}: {said}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_loses_no_line_of_a_log() {
    use std::os::unix::process::ExitStatusExt;

    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("metrics.jsonl");
    let rollout = ["rollout", "--env", "cartpole", "--num-envs", "16", "--steps", "10G", "--scan-chunk-size", "100"];
    let monitor = ["--monitor", "100000", "--metrics-log", log.to_str().unwrap()];
    let arguments = [&rollout[..], &monitor].concat();
    let mut child = command(folder.path(), &arguments).stderr(Stdio::piped()).spawn().unwrap();
    // The first line has been told, and is still kept back by the log.
    let mut line = String::new();
    let mut errors = std::io::BufReader::new(child.stderr.take().unwrap());
    while !line.starts_with("step=") {
        // A slow build tells of its progress first.
        line.clear();
        assert!(std::io::BufRead::read_line(&mut errors, &mut line).unwrap() > 0);
    }
    std::thread::sleep(Duration::from_millis(20));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(2), "it ends as it would have without a log");
    assert!(fs::read_to_string(&log).unwrap().lines().count() >= 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_profile_finds_the_roll_out_and_draws_it() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("flame.svg");
    let case = ["bench", "profile", "CartPole-v1/n4096/t2", "--seconds", "0.5", "--json", "--quiet"];
    let report = json(folder.path(), &[&case[..], &["--output", svg.to_str().unwrap()]].concat());
    let top = report["top"].as_array().unwrap();
    assert!(!top.is_empty() && top.len() <= 20 && report["samples"].as_u64().unwrap() > 0, "{report}");
    let share: f64 = top.iter().map(|hot| hot["share"].as_f64().unwrap()).sum();
    assert!(share <= 1.0 + 1e-9);
    let picture = fs::read_to_string(&svg).unwrap();
    assert!(picture.contains("<svg") && picture.contains("phalanx_core"), "{report}");
    let wrong = run(folder.path(), &["bench", "profile", "CartPol-v1"]);
    assert!(refusal(&wrong).contains("did you mean 'CartPole-v1'"));
    let nowhere = run(folder.path(), &["bench", "profile", "CartPole-v1", "--output", "/nowhere/x.svg"]);
    assert!(refusal(&nowhere).contains("its folder does not exist"));
}

#[test]
fn every_command_takes_the_same_budgets() {
    let folder = tempfile::tempdir().unwrap();
    let tune = ["--env", "cartpole", "--num-envs", "64", "--threads", "1", "--time-budget", "0", "--sample-ms", "1"];
    for budget in ["80%", "1.5GiB", "0.5", "512M"] {
        stdout(folder.path(), &[&["autotune", "--quiet", "--memory-budget", budget][..], &tune].concat());
    }
    for command in [&["autotune", "--num-envs", "64"][..], &["autotune", "max-envs"], &["bench", "memory"]] {
        for wrong in ["120%", "2", "much"] {
            let output = run(folder.path(), &[command, &["--env", "cartpole", "--memory-budget", wrong]].concat());
            assert!(refusal(&output).contains("a share such as 0.8 or 80%, or an amount"), "{command:?} {wrong}");
        }
    }
}

#[test]
fn a_quiet_look_at_a_damaged_cache_says_nothing_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("autotune_profiles.json"), "{").unwrap();
    for show in [&["autotune", "show-cache"][..], &["autotune", "--show-cache"]] {
        let said = |more: &[&str]| String::from_utf8(run(folder.path(), &[show, more].concat()).stderr).unwrap();
        assert!(said(&[]).contains("is damaged"), "{show:?}");
        assert_eq!(said(&["--quiet"]), "", "{show:?}");
        assert_eq!(said(&["--quiet", "--json"]), "", "{show:?}");
    }
}
