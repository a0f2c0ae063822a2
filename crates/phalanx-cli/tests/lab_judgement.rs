//! The lab's judgements through the binary, with sizes at which nothing can be said about speed.
//!
//! What they say about speed is shown by `cargo xtask lab-proof`, which takes its time.

#[path = "../../phalanx-lab/tests/schema/mod.rs"]
mod schema;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use schema::Schema;
use serde_json::Value;

const PHALANX: &str = env!("CARGO_BIN_EXE_phalanx");
const CASE: &str = "CartPole-v1/n64/k8";

/// Runs `phalanx bench` in a folder, with its cache there too.
fn bench(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PHALANX);
    command.arg("bench").args(arguments).current_dir(folder).env("PHALANX_CACHE_DIR", folder.join("cache"));
    command.output().expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

/// All records that a folder holds.
fn records(folder: &Path) -> Vec<Value> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    let text: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Suites may take fewer samples; most of theirs show nothing then.
const TINY_SUITE: [&str; 6] = ["--pairs", "2", "--samples", "3", "--sample-ms", "1"];
const TINY: [&str; 6] = ["--pairs", "2", "--samples", "24", "--sample-ms", "1"];

#[test]
fn a_build_against_itself_is_recorded_and_judged() {
    let folder = tempfile::tempdir().unwrap();
    let about = ["--tag", "t", "--description", "some words"];
    let more = [&["--case", CASE, "--looks", "1", "--margin", "99", "--json", "--quiet"], &about[..]].concat();
    let output = bench(folder.path(), &[&["ab", PHALANX, PHALANX][..], &TINY, &more].concat());
    let report = json(&output);
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
    let case = &report["cases"][0];
    assert_eq!(case["case"], "CartPole-v1/fused_random_rollout/n64/t1/k8");
    assert_eq!((&case["pairs"], &case["margin_percent"]), (&2.into(), &99.0.into()));
    assert_eq!(report["exit_code"].as_i64(), output.status.code().map(i64::from));
    assert!(report["verdict"].as_str().unwrap().starts_with("VERDICT "));
    assert_eq!(report["a"]["build"]["binary_sha"], report["b"]["build"]["binary_sha"]);
    let records = records(&folder.path().join("benchmarks/results"));
    let types: Vec<&str> = records.iter().map(|record| record["type"].as_str().unwrap()).collect();
    let count = |name| types.iter().filter(|found| **found == name).count();
    let counts = ["run", "case", "sample", "summary", "verdict"].map(count);
    assert_eq!(counts, [1, 1, 2 * 2 * 24, 2 + 2 * 2, 1], "two pairs of two processes with 24 samples");
    let open = records.iter().filter(|record| record["complete"] == false).count();
    assert_eq!(open, 2 * 2, "after each pair, and once without the mark when all is measured");
    assert_eq!((&records[0]["tags"][0], &records[0]["description"]), (&"t".into(), &"some words".into()));
    for side in ["a", "b"] {
        let recorded = &records[0]["sides"][side];
        assert_eq!((recorded["path"].as_str(), &recorded["build"]), (Some(PHALANX), &report[side]["build"]));
        assert!(recorded["git"].is_object(), "{recorded}");
    }
    let schema = Schema::read();
    for record in &records {
        assert_eq!((schema.faults(record), schema.unlisted(record)), (vec![], vec![]), "{record}");
    }
    let cited = bench(folder.path(), &["cite", report["records"].as_str().unwrap()]);
    assert!(cited.status.code() == Some(2) && stderr(&cited).contains("it compares builds"), "{}", stderr(&cited));
    let verdict = &records[records.len() - 1];
    assert_eq!(verdict["verdict"], case["finding"]["verdict"]);
    assert_eq!((&report["same_work"], &verdict["same_work"]), (&true.into(), &true.into()));
}

#[test]
fn the_last_line_is_the_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(folder.path(), &[&["ab", PHALANX, PHALANX, "--case", CASE, "--quiet"][..], &TINY].concat());
    let text = stdout(&output);
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("VERDICT ") && last.contains(" tier=1 ratio=") && last.contains("reason="), "{text}");
}

#[test]
fn sides_that_compute_different_things_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let forged = with_other_checksums(folder.path());
    let more = ["--case", CASE, "--quiet"];
    let output = bench(folder.path(), &[&["ab", PHALANX, forged.to_str().unwrap()][..], &TINY, &more].concat());
    assert_eq!(output.status.code(), Some(14), "{}", stderr(&output));
    assert!(stderr(&output).contains("the checksums differ") && stdout(&output).is_empty(), "{}", stderr(&output));
    let left = std::fs::read_dir(folder.path().join("benchmarks/results")).unwrap().count();
    assert_eq!(left, 0, "a run that measured nothing leaves no records");
}

/// A worker that changes the checksums of the real one.
fn with_other_checksums(folder: &Path) -> PathBuf {
    edited(folder, r#"s/"checksum":"[0-9a-f]*"/"checksum":"0000000000000001"/"#)
}

/// A worker whose answers `sed` edits.
fn edited(folder: &Path, command: &str) -> PathBuf {
    let forged = folder.join("forged");
    forge(&forged, command);
    forged
}

fn forge(path: &Path, command: &str) {
    std::fs::write(path, format!("#!/bin/sh\n'{PHALANX}' \"$@\" | sed -u '{command}'\n")).unwrap();
    make_executable(path);
}

/// Ten times what these fields of a worker's answers are.
fn times_ten(fields: &[&str]) -> String {
    fields.iter().map(|field| format!(r#"s/"{field}":\([0-9][0-9]*\)/"{field}":\10/g;"#)).collect()
}

/// A tenth of it.
fn a_tenth(fields: &[&str]) -> String {
    fields.iter().map(|field| format!(r#"s/"{field}":\([0-9][0-9]*\)[0-9]/"{field}":\1/g;"#)).collect()
}

#[test]
fn a_build_that_is_ten_times_slower_has_regressed_and_one_that_is_faster_has_not() {
    let folder = tempfile::tempdir().unwrap();
    let clocks = ["wall_ns", "cpu_ns"];
    for (command, verdict, code) in [(times_ten(&clocks), "regressed", 10), (a_tenth(&clocks), "improved", 0)] {
        let forged = edited(folder.path(), &command);
        let arguments = ["ab", PHALANX, forged.to_str().unwrap(), "--case", CASE, "--pairs", "4", "--sample-ms", "1"];
        // A pair that finds no steady ratio makes all of it noisy, which is no wrong answer, but none.
        let mut outputs = (0..5).map(|_| bench(folder.path(), &[&arguments[..], &["--quiet"]].concat()));
        let output = outputs.find(|output| output.status.code() != Some(12)).expect("an answer in five campaigns");
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(code), "{text}{}", stderr(&output));
        let last = text.lines().last().unwrap();
        assert!(last.starts_with(&format!("VERDICT {verdict} tier=1 ratio=")), "{text}");
    }
}

#[test]
fn a_suite_tells_how_severe_a_loss_is_and_what_got_faster() {
    let folder = tempfile::tempdir().unwrap();
    let suite = |more: &[&str]| {
        let base = ["suite", "--categories", "startup", "--output-dir", "out", "--quiet", "--pairs", "12"];
        bench(folder.path(), &[&base[..], &["--samples", "3", "--sample-ms", "1"], more].concat())
    };
    assert!(suite(&["--save-baseline"]).status.success());
    let (file, kept) = (folder.path().join("out/baseline_results.json"), folder.path().join("out/baseline_phalanx"));
    // The baseline's binary starts in a hundredth of the time, or in a hundred times as much: a difference that no noise of
    // a few starts can hide.
    let keep = |command: &str| {
        forge(&kept, command);
        let mut report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let hash = phalanx_lab::hash::of_bytes(&std::fs::read(&kept).unwrap());
        report["binary"]["hash"] = format!("xxh3:{hash}").into();
        std::fs::write(&file, report.to_string()).unwrap();
    };
    keep(&a_tenth(&["startup_ns"]).repeat(2));
    let slower = suite(&["--compare-baseline"]);
    let text = stdout(&slower);
    assert_eq!(slower.status.code(), Some(10), "{text}{}", stderr(&slower));
    assert!(text.lines().any(|line| line.starts_with("REGRESSION: startup/CartPole-v1")), "{text}");
    assert!(text.contains("regressed, high: throughput -") && !text.contains("IMPROVEMENT:"), "{text}");
    keep(&times_ten(&["startup_ns"]).repeat(2));
    let faster = suite(&["--compare-baseline"]);
    let text = stdout(&faster);
    assert_eq!(faster.status.code(), Some(0), "{text}{}", stderr(&faster));
    assert!(text.lines().any(|line| line.starts_with("IMPROVEMENT: startup/CartPole-v1")), "{text}");
    assert!(!text.contains("REGRESSION:"), "{text}");
    let records = records(&folder.path().join("out"));
    let methods = records.iter().filter(|record| record["type"] == "verdict").map(|record| &record["method"]);
    assert!(methods.clone().count() > 1 && methods.clone().all(|method| method == "student" || method == "bootstrap"));
}

#[test]
fn a_baseline_that_shares_no_benchmark_fails_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let suite = |more: &[&str]| {
        let base = ["suite", "--categories", "startup", "--quiet"];
        bench(folder.path(), &[&base[..], &TINY_SUITE, more].concat())
    };
    assert!(suite(&["--save-baseline", "--baseline", "main.json"]).status.success());
    std::fs::remove_file(folder.path().join("main_phalanx")).unwrap();
    let file = folder.path().join("main.json");
    let mut report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    for result in report["results"].as_array_mut().unwrap() {
        result["name"] = format!("old/{}", result["name"].as_str().unwrap()).into();
    }
    std::fs::write(&file, report.to_string()).unwrap();
    let output = suite(&["--baseline", "main.json"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(13), "{text}{}", stderr(&output));
    assert!(text.contains("in the baseline, but not in this run: old/startup/CartPole-v1"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("VERDICT incomparable tier=2"), "{text}");
    let strict = bench(
        folder.path(),
        &[
            &["suite", "--categories", "startup", "--quiet", "--compare-baseline", "--strict", "--output-dir", "empty"]
                [..],
            &TINY_SUITE,
        ]
        .concat(),
    );
    assert_eq!(strict.status.code(), Some(11), "a strict gate wants a baseline: {}", stderr(&strict));
}

#[test]
fn sides_that_differ_on_purpose_are_compared_and_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let forged = with_other_checksums(folder.path());
    let base = ["ab", PHALANX, forged.to_str().unwrap(), "--case", CASE, "--looks", "1", "--margin", "99", "--quiet"];
    let compare = |more: &[&str]| bench(folder.path(), &[&base[..], &TINY, &["--other-results"], more].concat());
    let output = compare(&["--json"]);
    let report = json(&output);
    assert_eq!(report["exit_code"].as_i64(), output.status.code().map(i64::from));
    assert_ne!(output.status.code(), Some(14), "{}", stderr(&output));
    assert_eq!((&report["same_work"], &report["cases"][0]["pairs"]), (&false.into(), &2.into()));
    let records = records(&folder.path().join("benchmarks/results"));
    assert_eq!(records.last().unwrap()["same_work"], false);
    let text = stdout(&compare(&[]));
    let said = text.lines().filter(|line| line.contains("checksums were not compared")).count();
    assert!(said == 1 && text.lines().last().unwrap().starts_with("VERDICT "), "{text}");
}

#[test]
fn a_worker_that_dies_is_not_the_user_s_fault() {
    let folder = tempfile::tempdir().unwrap();
    // It says what it is, and ends at the first case.
    let dying = folder.path().join("dying");
    std::fs::write(&dying, format!("#!/bin/sh\nhead -n 1 | grep -v prepare | '{PHALANX}' \"$@\"\n")).unwrap();
    make_executable(&dying);
    let output = bench(folder.path(), &["ab", PHALANX, dying.to_str().unwrap(), "--case", CASE, "--quiet"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("dying as a worker"), "{}", stderr(&output));
}

#[test]
fn builds_that_differ_in_more_than_their_code_are_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    // A worker that says that another compiler made it.
    let forged = edited(folder.path(), r#"s/"rustc":"[^"]*"/"rustc":"rustc 1.0.0"/"#);
    let more = ["--case", CASE, "--looks", "1", "--quiet"];
    let output = bench(folder.path(), &[&["ab", PHALANX, forged.to_str().unwrap()][..], &TINY, &more].concat());
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(12), "{text}{}", stderr(&output));
    assert!(text.lines().last().unwrap().contains("the builds differ in more than their code: rustc"), "{text}");
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_no_phalanx_or_no_case_is_told_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text"), "text").unwrap();
    for (arguments, said) in [
        (&["ab", "/bin/sh", PHALANX][..], "does not answer as a phalanx binary"),
        (&["ab", PHALANX, "missing"], "missing"),
        (&["ab", PHALANX, "text"], "text"),
        (&["ab", PHALANX, PHALANX, "--case", "CartPole/n4"], "'CartPole-v1'"),
        (&["ab", PHALANX, PHALANX, "--case", "CartPole-v1/9"], "a case is an environment"),
        (&["ab", PHALANX, PHALANX, "--case", "CartPole-v1/n1000000000000"], "a pair of processes needs"),
        (&["ab", PHALANX, PHALANX, "--memory-budget", "100k"], "but the budget is 100"),
        (&["doctor", "--memory-budget", "100k"], "a pair of processes needs"),
        (&["safety", "--num-envs", "1000G"], "a pair of processes needs"),
        (&["ab", PHALANX, PHALANX, "--margin", "-1"], "percentage"),
        (&["ab", PHALANX, PHALANX, "--samples", "23"], "24"),
        (&["ab", PHALANX, PHALANX, "--results-dir", "text/deeper"], "text is not a folder"),
        (&["doctor", "--pairs", "5", "--measured-pairs", "5"], "can only be drawn from more"),
        (&["suite", "--categories", "kernels"], "'kernel'"),
        (&["ab", PHALANX, PHALANX, "--case", "CartPole-v1/training/n8/pid"], "needs an agent that learns"),
        (&["ab", PHALANX, PHALANX, "--case", "CartPole-v1/policy_rollout/n8"], "needs an agent that only acts"),
        (&["profile", "CartPole-v1/engine_kernel/n8"], "cannot be measured"),
        (&["suite", "--kpi", "missing.toml"], "missing.toml"),
        (&["suite", "--compare-baseline", "--baseline", "text"], "text is no baseline"),
        (&["safety", "--env", "CartPole-v1"], "environment with constraints"),
        (&["trend", "--history", "missing"], "there is no folder missing"),
        (&["plot", "--history", "missing"], "there is no folder missing"),
        (&["trend", "--history", ".", "--noise", "-1"], "percentage"),
        (&["trend", "--history", ".", "--json"], "no runs of such cases"),
    ] {
        let output = bench(folder.path(), arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(said) && !message.contains("panicked"), "{arguments:?}: {message}");
        assert!(!folder.path().join("benchmarks").exists(), "{arguments:?} left something behind");
        let errors = message.lines().filter(|line| !line.starts_with("note: ")).count();
        assert!(errors == 1 && stdout(&output).is_empty(), "{arguments:?}: {message}");
    }
}

#[test]
fn a_doctor_s_calibration_is_stored_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let doctor = ["doctor", "--case", CASE, "--comparisons", "20", "--measured-pairs", "4", "--json", "--quiet"];
    let output = bench(folder.path(), &[&doctor[..], &TINY].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let calibration = &json(&output)["calibrations"][0];
    assert_eq!((&calibration["resampled"], &calibration["pairs"]), (&true.into(), &2.into()));
    assert_eq!(calibration["calibration"]["comparisons"], 20);
    let file = calibration["file"].as_str().unwrap();
    assert!(Path::new(file).starts_with(folder.path().join("cache")) && Path::new(file).is_file());
    schema::assert_described("calibration-v1", Path::new(file));
    let threshold = 100.0 * calibration["calibration"]["threshold"].as_f64().unwrap().exp_m1();
    let ab = |plan: &[&str]| {
        let more = ["--case", CASE, "--looks", "1", "--json", "--quiet"];
        bench(folder.path(), &[&["ab", PHALANX, PHALANX][..], plan, &more].concat())
    };
    let used = json(&ab(&TINY))["cases"][0]["margin_percent"].as_f64().unwrap();
    assert!((used - threshold.max(1.0)).abs() < 1e-9, "{used} for {threshold}");
    let other = ab(&["--pairs", "2", "--samples", "25", "--sample-ms", "1"]);
    assert_eq!(json(&other)["cases"][0]["margin_percent"], 1.0);
    assert!(stderr(&other).contains("is not used"), "{}", stderr(&other));
    std::fs::write(file, "{").unwrap();
    assert!(stderr(&ab(&TINY)).contains("it is no calibration"));
}

#[test]
fn a_suite_keeps_its_baseline_and_compares_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let suite = |more: &[&str]| {
        let base = ["suite", "--categories", "startup", "--output-dir", "out", "--json", "--quiet"];
        bench(folder.path(), &[&base[..], &TINY_SUITE, more].concat())
    };
    let first = suite(&["--compare-baseline"]);
    assert!(stderr(&first).contains("nothing is compared"), "{}", stderr(&first));
    assert!(!folder.path().join("out/baseline_results.json").exists(), "a baseline is saved on request only");
    let wrong = suite(&["--baseline", "out/baseline_result.json"]);
    assert_eq!(wrong.status.code(), Some(2), "a gate must not pass for want of its baseline");
    assert!(stderr(&wrong).contains("out/baseline_result.json") && wrong.stdout.is_empty(), "{}", stderr(&wrong));
    assert!(suite(&["--save-baseline"]).status.success());
    assert!(folder.path().join("out/baseline_phalanx").is_file());
    let second = suite(&["--baseline", "out/baseline_results.json", "--markdown", "summary.md"]);
    let report = json(&second);
    let results = report["results"].as_array().unwrap();
    let comparisons = report["comparisons"].as_object().unwrap();
    assert_eq!(comparisons.len(), results.len());
    for (name, against) in comparisons {
        assert_eq!(against["tier"], 1, "{name}: in turns with the binary that was kept");
        assert!(against["throughput_change_percent"].is_number() && against["noise_percent"].is_number(), "{against}");
    }
    let stats = &report["category_stats"]["startup_performance"];
    assert_eq!(stats["count"], results.len());
    for field in ["avg_throughput", "max_throughput", "avg_memory_peak", "max_memory_peak"] {
        assert!(stats[field].is_number(), "{field}");
    }
    assert!(report["guards"]["load"]["status"].is_string(), "{report}");
    let markdown = std::fs::read_to_string(folder.path().join("summary.md")).unwrap();
    assert!(markdown.contains("| startup/CartPole-v1 |") && markdown.contains("| compilation_time_s |"), "{markdown}");
    std::fs::remove_file(folder.path().join("out/baseline_phalanx")).unwrap();
    let third = suite(&["--compare-baseline"]);
    assert!(stderr(&third).contains("stored numbers only"), "{}", stderr(&third));
    assert!(json(&third)["comparisons"].as_object().unwrap().values().all(|against| against["tier"] == 2));
    let files = std::fs::read_dir(folder.path().join("out")).unwrap().count();
    assert_eq!(files, 1 + 4 + 4, "a baseline, four reports, four files of records");
    let stored = std::fs::read_dir(folder.path().join("out")).unwrap().map(|entry| entry.unwrap().path());
    let reports: Vec<_> = stored.filter(|path| path.extension().is_some_and(|kind| kind == "json")).collect();
    assert_eq!(reports.len(), 5);
    reports.iter().for_each(|report| schema::assert_described("suite-report-v1", report));
}

#[test]
fn a_baseline_is_saved_where_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let suite = ["suite", "--categories", "startup", "--quiet", "--baseline", "main.json", "--save-baseline"];
    let output = bench(folder.path(), &[&suite[..], &TINY].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(folder.path().join("main.json").is_file() && folder.path().join("main_phalanx").is_file());
    assert!(!folder.path().join("benchmark_results/baseline_results.json").exists(), "and nowhere else");
    assert!(stdout(&output).contains("baseline: main.json"), "{}", stdout(&output));
    // What lies in the suite's folder is found without being told where it is.
    let tiny = ["--processes", "1", "--samples", "2", "--sample-ms", "1", "--time-budget", "0", "--quiet"];
    let throughput = ["throughput", "--num-envs", "64", "--num-steps", "8", "--results-dir", "benchmark_results"];
    assert!(bench(folder.path(), &[&throughput[..], &tiny].concat()).status.success());
    let trend = json(&bench(folder.path(), &["trend", "--json"]));
    assert!(!trend["series"].as_array().unwrap().is_empty());
    let report = json(&bench(folder.path(), &["report", "--format", "json"]));
    assert!(report["summary"]["total_benchmarks"].as_u64() > Some(0), "{report}");
    assert!(stdout(&bench(folder.path(), &["trend", "--format", "html"])).starts_with("<!doctype html>"));
    let stored = |more: &[&str]| bench(folder.path(), &[&["kpi", "--history", "benchmark_results"][..], more].concat());
    assert!(stdout(&stored(&["--format", "html"])).contains("compilation_time_s"));
    std::fs::write(folder.path().join("kpi.toml"), "[compilation_time_s]\ntarget = 1e-9\nalert = 1e-8\n").unwrap();
    let alarmed = stored(&["--format", "json", "--kpi", "kpi.toml"]);
    assert_eq!(alarmed.status.code(), Some(10), "stored figures against the targets of today: {}", stderr(&alarmed));
    assert_eq!(json(&alarmed)["run_id"], records(&folder.path().join("benchmark_results"))[0]["run_id"]);
    let none = bench(folder.path(), &["kpi", "--history", "cache"]);
    assert!(none.status.code() == Some(2) && stderr(&none).contains("has no report"), "{}", stderr(&none));
    let plot = bench(folder.path(), &["plot", "--plot-type", "trends"]);
    assert!(
        stderr(&plot).contains("too little data in benchmark_results: performance_trends needs two runs"),
        "{}",
        stderr(&plot)
    );
}

#[test]
fn a_missed_limit_is_an_alert_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kpi.toml"), "[compilation_time_s]\ntarget = 1e-9\nalert = 1e-8\n").unwrap();
    let tiny = ["--processes", "3", "--samples", "2", "--sample-ms", "1", "--json", "--quiet", "--kpi", "kpi.toml"];
    let output = bench(folder.path(), &[&["kpi"][..], &tiny].concat());
    assert_eq!(output.status.code(), Some(10), "{}", stderr(&output));
    let report = json(&output);
    let kpi = |name: &str| {
        let kpis = report["kpis"].as_array().unwrap();
        kpis.iter().find(|kpi| kpi["name"] == name).unwrap().clone()
    };
    assert_eq!(kpi("compilation_time_s")["verdict"], "alert");
    for name in ["environment_step_time_ms", "policy_inference_time_ms", "training_throughput_steps_per_sec"] {
        assert!(kpi(name)["value"].as_f64().unwrap() > 0.0, "{name}");
    }
    assert!(report["violations"].as_array().unwrap().contains(&"compilation_time_s".into()));
    assert_eq!(stderr(&output).contains("the guards refuse"), guards_refuse(&report), "{}", stderr(&output));
}

#[test]
fn safety_overhead_is_of_the_same_work() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["safety", "--env", "cstr", "--num-envs", "64", "--json", "--quiet"];
    let output = bench(folder.path(), &[&arguments[..], &TINY].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let row = json(&output)["results"][0].clone();
    assert_eq!((&row["environment"], &row["num_envs"]), (&"ChemicalReactor-v0".into(), &64.into()));
    assert_eq!(row["pairs"], 7, "the definition asks for seven");
    let [low, high] = [0, 1].map(|end| row["interval_percent"][end].as_f64().unwrap());
    let overhead = row["safety_validation_overhead_percent"].as_f64().unwrap();
    assert!(low <= overhead && overhead <= high, "{row}");
    let refused = guards_refuse(&json(&output));
    assert_eq!(row["acceptable"], high < 10.0 && !refused);
    assert_eq!(row["verdict"].as_str().unwrap().starts_with("noisy: "), refused, "{row}");
    assert_eq!(stderr(&output).contains("the guards refuse"), refused, "{}", stderr(&output));
    assert_eq!(row["checksum"].as_str().unwrap().len(), 16);
}

/// Whether a document says that the machine was too busy.
fn guards_refuse(document: &Value) -> bool {
    document["guards"].as_object().unwrap().values().any(|guard| guard["status"] == "refuse")
}

#[test]
fn a_trend_is_read_from_records() {
    let folder = tempfile::tempdir().unwrap();
    let suite = ["suite", "--categories", "environment,startup", "--output-dir", "out", "--quiet", "--json"];
    for _ in 0..2 {
        assert!(bench(folder.path(), &[&suite[..], &TINY_SUITE].concat()).status.success());
    }
    std::fs::write(folder.path().join("out/broken.jsonl"), "{\n").unwrap();
    let output = bench(folder.path(), &["trend", "--history", "out", "--format", "json"]);
    assert!(stderr(&output).contains("broken.jsonl:1: skipped"), "{}", stderr(&output));
    let series = json(&output)["series"].as_array().unwrap().clone();
    assert!(!series.is_empty());
    let fused = |one: &&Value| one["key"]["kind"] == "fused_random_rollout";
    assert!(series.iter().filter(fused).all(|one| one["key"]["suite"] == "suite"), "starts are no history");
    for one in &series {
        assert_eq!(one["entries"].as_array().unwrap().len(), 2);
        assert_eq!((&one["trend"], &one["change_percent"]), (&"insufficient_history".into(), &Value::Null));
        assert_eq!((&one["finding"]["verdict"], &one["finding"]["tier"]), (&"insufficient_history".into(), &3.into()));
    }
    let text = stdout(&bench(folder.path(), &["trend", "--history", "out", "--case", "n1000"]));
    assert!(text.contains("insufficient history: four runs are needed") && !text.contains("/n1/"), "{text}");
    let page = stdout(&bench(folder.path(), &["trend", "--history", "out", "--case", "n1000", "--format", "html"]));
    assert!(page.starts_with("<!doctype html>") && page.contains("/n1000/") && !page.contains("/n1/"), "{page}");
    assert!(page.contains(">Machine<") && !page.contains(">Throughput<"), "the trends alone: {page}");
    let noise = ["trend", "--history", "out", "--case", "n1000", "--noise", "12.5", "--format", "html"];
    assert!(stdout(&bench(folder.path(), &noise)).contains(">12.5 %<"));
}
