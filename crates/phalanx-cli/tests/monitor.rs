//! `--monitor` of the commands that take long.

mod common;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const PHALANX: &str = env!("CARGO_BIN_EXE_phalanx");
const CASE: &str = "CartPole-v1/n64/k8";

/// Commands that only read what is stored, show a few steps, or wait for a person; all others take long.
const SHORT: [&str; 13] = [
    "cache",
    "compare",
    "completions",
    "devices",
    "envs",
    "help",
    "play",
    "plot",
    "render",
    "report",
    "tasks",
    "trace",
    "worker",
];

/// The same below `bench` and `autotune`.
const SHORT_BELOW: [&str; 8] = ["cite", "clear-cache", "compare", "help", "plot", "report", "show-cache", "trend"];

/// The commands that a help text lists.
fn listed(help: &str) -> Vec<&str> {
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A description that goes on in the next line stands further to the right.
    let named = commands.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    named.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn every_long_command_has_a_monitor() {
    let help = common::stdout(&["--help"]);
    let mut long = Vec::new();
    for name in listed(&help).into_iter().filter(|name| !SHORT.contains(name)) {
        let help = common::stdout(&[name, "--help"]);
        // `bench` alone does nothing.
        long.extend((name != "bench").then(|| vec![name.to_owned()]));
        let below = listed(&help).into_iter().filter(|below| !SHORT_BELOW.contains(below));
        long.extend(below.map(|below| vec![name.to_owned(), below.to_owned()]));
    }
    for known in ["sweep", "evaluate", "bench suite", "autotune verify", "demo performance"] {
        assert!(long.iter().any(|command| command.join(" ") == known), "{known} is missing in {long:?}");
    }
    for command in long {
        let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        assert!(common::stdout(&words).contains("--monitor"), "{command:?}");
    }
}

/// Runs a command with a monitor and a log; answers what the monitor told, and checks the log and the JSON.
fn monitored(folder: &Path, arguments: &[&str]) -> Vec<String> {
    // A log of its own each time: that of another run is never replaced.
    let log = (0..).map(|number| folder.join(format!("metrics{number}.jsonl"))).find(|log| !log.exists()).unwrap();
    let mut command = Command::new(PHALANX);
    command.args(arguments).args(["--monitor", "1", "--metrics-log"]).arg(&log).arg("--json");
    let output = command.current_dir(folder).env("PHALANX_CACHE_DIR", folder.join("cache")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    // Exactly one document: anything beside it would not be read.
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert!(document.is_object(), "{arguments:?}: {document}");
    let told: Vec<String> = said.lines().filter(|line| line.contains("step=")).map(str::to_owned).collect();
    assert!(!told.is_empty(), "{arguments:?}: {said}");
    for line in &told {
        assert!([" sps=", " cpu=", "% mem="].iter().all(|field| line.contains(field)), "{line}");
    }
    let logged = std::fs::read_to_string(&log).unwrap();
    let readings: Vec<Value> = logged.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(readings.len(), told.len(), "{arguments:?}: {said}{logged}");
    told
}

#[test]
fn training_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        ["env=CartPole-v1", "agent=dqn", "run.num_envs=4", "run.steps_per_env=100", "run.scan_chunk_size=10"];
    let told = monitored(folder.path(), &[&["train"][..], &settings].concat());
    assert!(told.len() >= 10 && told.last().unwrap().contains("step=100 "), "{told:?}");
}

#[test]
fn memory_is_told_every_so_many_episodes() {
    let folder = tempfile::tempdir().unwrap();
    // Episodes of a bandit have ten steps, so that ten of them end in each chunk.
    let settings = ["env=TwoArmedBandit-v0", "agent=random", "run.num_envs=1", "run.steps_per_env=1000"];
    let more = ["run.scan_chunk_size=100", "--quiet", "--memory-every", "20"];
    let output = Command::new(PHALANX).arg("train").args(settings).args(more).current_dir(&folder).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let told: Vec<&str> = said.lines().filter(|line| line.contains("memory=")).collect();
    assert_eq!(told.len(), 5, "{said}");
    assert!(told[0].starts_with("episodes=20 memory=") && told[4].starts_with("episodes=100 "), "{said}");
    for line in told.iter().filter(|_| cfg!(target_os = "linux")) {
        let number = |name: &str| line.split_once(name).unwrap().1.split(' ').next().unwrap().parse::<f64>().unwrap();
        assert!(number("memory=") > 1.0 && number("peak=") >= number("memory="), "{line}");
    }
}

#[test]
fn evaluations_and_sweeps_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bandit.toml");
    let text = "env = 'TwoArmedBandit-v0'\nagent = 'q_learning'\n[run]\nsteps_per_env = 40\nscan_chunk_size = 10\n\
                save_agent_checkpoint = true\neval_rollouts = 2\n[sweep]\njobs = 2\n[sweep.parameters]\n\
                run.num_envs = [1, 3]\n";
    std::fs::write(&file, text).unwrap();
    let told = monitored(folder.path(), &["sweep", "bandit.toml"]);
    // The steps of each environment, of one run after the other.
    assert!(told.len() >= 8 && told.last().unwrap().contains("step=80 "), "{told:?}");
    let told = monitored(folder.path(), &["evaluate", "sweeps/bandit/runs/c0001-s42", "--episodes", "5"]);
    assert_eq!(told.len(), 10, "episodes of a bandit have ten steps: {told:?}");
}

#[test]
fn pairs_are_told_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let plan = ["--case", CASE, "--pairs", "2", "--samples", "24", "--sample-ms", "1", "--quiet"];
    let ab = monitored(folder.path(), &[&["bench", "ab", PHALANX, PHALANX, "--looks", "1"][..], &plan].concat());
    let sides: Vec<_> = ab.iter().map(|line| line.split(" step=").next().unwrap()).collect();
    let id = "CartPole-v1/fused_random_rollout/n64/t1/k8";
    assert_eq!(sides, [format!("A {id}"), format!("B {id}"), format!("A {id}"), format!("B {id}")]);
    assert!(ab.iter().all(|line| !line.contains("sps=?")), "{ab:?}");
    let doctor = ["bench", "doctor", "--comparisons", "20", "--measured-pairs", "4"];
    assert_eq!(monitored(folder.path(), &[&doctor[..], &plan].concat()).len(), 8);
}

#[test]
fn every_process_of_a_suite_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let plan = ["--samples", "3", "--sample-ms", "1", "--quiet"];
    let suite = ["bench", "suite", "--categories", "startup", "--pairs", "2"];
    let starts = monitored(folder.path(), &[&suite[..], &plan].concat());
    assert!(starts.len() >= 8 && starts.len().is_multiple_of(4), "four starts of each environment: {starts:?}");
    let safety = ["bench", "safety", "--env", "cstr", "--num-envs", "1", "--pairs", "2", "--sample-ms", "1"];
    assert_eq!(monitored(folder.path(), &safety).len(), 2 * 7, "the least number of pairs");
}

#[test]
fn what_is_not_timed_has_no_speed_but_memory() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = ["--num-envs", "64", "--scan-chunk-size", "8", "--repeats", "2", "--quiet"];
    let memory = monitored(folder.path(), &[&["bench", "memory", "--profile", "both"][..], &sizes].concat());
    let unknown: Vec<bool> = memory.iter().map(|line| line.contains(" step=0 sps=? cpu=?% mem=")).collect();
    assert_eq!(unknown, [true, true, false, false], "{memory:?}");
    let most = ["autotune", "max-envs", "--env", "cartpole", "--memory-budget", "20M", "--threads", "1", "--quiet"];
    let most = [&most[..], &["--time-budget", "1"]].concat();
    assert!(monitored(folder.path(), &most).iter().all(|line| line.contains(" sps=? ")));
}

#[test]
fn other_programs_and_loops_in_this_process_are_told_too() {
    let folder = tempfile::tempdir().unwrap();
    let comparison = ["bench", "comparison", "--library", "phalanx", "--num-envs", "16", "--processes", "2"];
    let told =
        monitored(folder.path(), &[&comparison[..], &["--samples", "2", "--sample-ms", "1", "--quiet"]].concat());
    assert!(told.len() >= 2 && told.iter().all(|line| line.contains("CartPole-v1")), "{told:?}");
    let tune = ["--env", "cartpole", "--num-envs", "64", "--threads", "1", "--time-budget", "1", "--sample-ms", "1"];
    monitored(folder.path(), &[&["autotune", "--force", "--quiet"][..], &tune].concat());
    let verify = ["autotune", "verify", "--rounds", "3", "--most-seconds", "1", "--quiet"];
    monitored(folder.path(), &[&verify[..], &tune].concat());
    if cfg!(target_os = "linux") {
        monitored(folder.path(), &["bench", "profile", CASE, "--seconds", "0.2", "--quiet"]);
    }
}
