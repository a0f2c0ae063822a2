//! The lab's measuring commands through the binary, with the smallest of plans: what is written and said, not how fast.

mod common;
#[path = "../../phalanx-lab/tests/schema/mod.rs"]
mod schema;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{json, phalanx, stdout};
use serde_json::Value;

/// A plan of a few milliseconds.
const TINY: [&str; 8] = ["--processes", "1", "--samples", "3", "--sample-ms", "1", "--time-budget", "0"];

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    /// Names of the files, sorted.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(self.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn with_plan<'a>(command: &[&'a str], folder: &'a Folder) -> Vec<&'a str> {
    [command, &TINY[..], &["--results-dir", folder.path(), "--json"]].concat()
}

#[track_caller]
fn refused(arguments: &[&str], part: &str) {
    let output = phalanx(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(message.lines().count() == 1 && message.starts_with("error: "), "{message}");
    assert!(message.contains(part), "'{part}' is not in: {message}");
}

/// Whether the schema knows what was written, and agrees with it.
#[track_caller]
fn described(records: &[Value]) {
    let schema = schema::Schema::read();
    for record in records {
        assert_eq!((schema.faults(record), schema.unlisted(record)), (vec![], vec![]), "{record}");
    }
}

fn lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn throughput_writes_a_table_and_records_and_computes_the_same_every_way() {
    let folder = Folder::new();
    let sizes = ["bench", "throughput", "--num-envs", "64", "--num-envs", "256", "--num-steps", "50"];
    let ways = ["--scan-chunk-size", "8", "--scan-chunk-size", "50", "--threads", "1", "--threads", "2"];
    let report = json(&with_plan(&[&sizes[..], &ways[..]].concat(), &folder));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for envs in [64, 256] {
        let checksums: Vec<_> =
            rows.iter().filter(|row| row["num_envs"] == envs).map(|row| row["checksum"].as_str().unwrap()).collect();
        assert_eq!(checksums.len(), 4);
        assert!(checksums.iter().all(|checksum| *checksum == checksums[0]), "{checksums:?}");
    }
    for row in rows {
        let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"));
        assert_eq!((&row["success"], &row["kind"]), (&Value::from(true), &Value::from("fused_random_rollout")));
        let steps = number("num_envs") * 50.0;
        let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        assert!(close(number("total_throughput_steps_per_s"), steps / number("time_median_s")));
        assert!(close(number("per_env_throughput_steps_per_s"), 50.0 / number("time_median_s")));
        assert!(number("time_min_s") <= number("time_median_s") && number("time_median_s") <= number("time_max_s"));
        assert!(number("startup_s") > 0.0 && number("state_memory_mb") > 0.0);
    }
    // Too few samples to look for a steady state, so that only the guards have a say.
    let refused = report["guards"].as_object().unwrap().values().any(|guard| guard["status"] == "refuse");
    for row in rows {
        let reason = row["noisy"].as_str();
        assert_eq!(reason.is_some_and(|reason| reason.starts_with("the guards refuse (")), refused, "{row}");
    }
    let scaling = report["scaling"].as_array().unwrap();
    assert_eq!(scaling.len(), 4, "two sizes for each number of threads");
    assert_eq!((&scaling[0]["num_envs"], &scaling[0]["efficiency"]), (&Value::from(64), &Value::from(1.0)));
    assert!(scaling.iter().any(|point| point["retention"] == 1.0));
    assert_eq!(report["best_chunks"].as_array().unwrap().len(), 4);
    let threads = &report["thread_scaling"][0];
    assert_eq!(threads["points"].as_array().unwrap().len(), 2);
    assert!(
        threads["law"]["law"].is_object() != threads["no_law"].is_string(),
        "the law, or why there is none: {threads}"
    );

    let names = folder.names();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("throughput_cpu_20")), "{names:?}");
    let text = std::fs::read_to_string(folder.0.path().join(&names[0])).unwrap();
    assert_eq!(
        text.lines().next().unwrap(),
        "agent,agent_memory_mb,checksum,cpu_model,device,env_name,error,git_hash,kind,num_envs,num_steps,\
         per_env_throughput_steps_per_s,scan_chunk_size,startup_s,state_memory_mb,success,threads,time_max_s,\
         time_mean_s,time_median_s,time_min_s,time_std_s,total_memory_mb,total_throughput_steps_per_s,version"
    );
    assert_eq!(text.lines().count(), 9);
    let records = lines(&folder.0.path().join(&names[1]));
    described(&records);
    let count = |kind: &str| records.iter().filter(|record| record["type"] == kind).count();
    assert_eq!((count("run"), count("case"), count("sample"), count("summary")), (1, 8, 24, 16));
    let unfinished = records.iter().filter(|record| record["complete"] == false).count();
    assert_eq!(unfinished, 8, "each case is summed up after its only process, and when all is done");

    let table = folder.0.path().join(&names[0]);
    let cited = stdout(&["bench", "cite", table.to_str().unwrap(), "--num-envs", "64"]);
    for part in ["Throughput:", "Hardware:", "Config:          num_envs 64", "CartPole-v1", "Phalanx version:", "rustc"]
    {
        assert!(cited.contains(part), "{part} in {cited}");
    }
    let from_records = json(&["bench", "cite", table.with_extension("jsonl").to_str().unwrap(), "--json", "--quiet"]);
    assert_eq!(from_records["env"], "CartPole-v1");
}

#[cfg(target_os = "linux")]
#[test]
fn samples_tell_of_stolen_time_where_the_system_does() {
    let folder = Folder::new();
    let plan = ["--processes", "1", "--samples", "3", "--sample-ms", "100", "--time-budget", "0"];
    let command = ["bench", "throughput", "--num-envs", "64", "--json", "--results-dir", folder.path()];
    let report = json(&[&command[..], &plan].concat());
    let records = lines(Path::new(report["records"].as_str().unwrap()));
    // Some sandboxes have the file and count nothing.
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let counted = stat.split_whitespace().nth(1).is_some_and(|user| user != "0");
    for sample in records.iter().filter(|record| record["type"] == "sample") {
        let share = sample["steal"].as_f64();
        assert_eq!(share.is_some(), counted, "{sample}");
        assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{sample}");
    }
}

/// Starts a measurement that would take minutes, and ends it by a signal once it has recorded a point. Answers what it
/// said on standard error, how it ended, and its records.
#[cfg(unix)]
fn ended_early(command: &[&str], folder: &Folder, signal: &str) -> (String, std::process::ExitStatus, PathBuf) {
    let long = ["--processes", "1000", "--samples", "3", "--sample-ms", "1", "--quiet", "--results-dir", folder.path()];
    let mut child = Command::new(env!("CARGO_BIN_EXE_phalanx"))
        .args(command)
        .args(long)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let records = loop {
        assert!(
            start.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none(),
            "nothing is recorded"
        );
        std::thread::sleep(Duration::from_millis(10));
        let found = folder.names().into_iter().map(|name| folder.0.path().join(name)).find(|path| {
            std::fs::read_to_string(path).is_ok_and(|text| text.contains(r#""type":"summary""#) && text.ends_with('\n'))
        });
        if let Some(path) = found {
            break path;
        }
    };
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    (String::from_utf8(output.stderr).unwrap(), output.status, records)
}

#[cfg(unix)]
#[test]
fn what_was_measured_survives_an_interrupt() {
    for command in [&["bench", "throughput", "--num-envs", "64"][..], &["bench", "baseline", "--batch-sizes", "1"]] {
        let folder = Folder::new();
        let (said, status, records) = ended_early(command, &folder, "-INT");
        assert_eq!(status.code(), Some(130), "{said}");
        assert_eq!(said, format!("interrupted: what was measured so far is in {}\n", records.display()));
        let path = records.to_str().unwrap();
        let point = lines(&records).into_iter().rfind(|record| record["type"] == "summary").unwrap();
        assert_eq!(point["complete"], false, "{point}");
        let cited = json(&["bench", "cite", path, "--json"]);
        let rate = |point: &Value| 1e9 / point["t_median"].as_f64().unwrap();
        assert_eq!(cited["steps_per_second"].as_f64().unwrap(), rate(&point), "the last summary counts");
        assert_eq!(cited["interrupted"], true);
        assert!(stdout(&["bench", "cite", path]).contains("of a run that was ended early"));
        let trend = json(&["bench", "trend", "--history", folder.path(), "--json"]);
        assert_eq!(trend["series"][0]["entries"].as_array().unwrap().len(), 1, "{trend}");
        assert_eq!(trend["series"][0]["entries"][0]["interrupted"], true, "{trend}");
        let text = stdout(&["bench", "trend", "--history", folder.path()]);
        assert!(text.contains("1 of them ended early"), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn what_was_measured_survives_a_kill() {
    let folder = Folder::new();
    let (said, status, records) = ended_early(&["bench", "throughput", "--num-envs", "64"], &folder, "-KILL");
    assert_eq!((said.as_str(), status.code()), ("", None));
    json(&["bench", "cite", records.to_str().unwrap(), "--json"]);
}

#[test]
fn what_does_not_fit_is_a_row_with_a_reason() {
    let folder = Folder::new();
    let table = folder.0.path().join("mine.csv");
    let command = ["bench", "throughput", "--env", "pendulum", "--num-envs", "64", "--num-envs", "1M"];
    let more = ["--num-steps", "8", "--memory-budget", "1M", "--output", table.to_str().unwrap()];
    let report = json(&with_plan(&[&command[..], &more[..]].concat(), &folder));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!((&rows[0]["success"], &rows[1]["success"]), (&Value::from(true), &Value::from(false)));
    let reason = rows[1]["error"].as_str().unwrap();
    assert!(reason.starts_with("needs ") && reason.ends_with("of memory, but the budget is 1.00 MiB"), "{reason}");
    assert!(rows[1]["total_memory_mb"].as_f64().unwrap() > 1.0 && rows[1]["checksum"].is_null());
    assert!(std::fs::read_to_string(&table).unwrap().contains(reason.split(',').next().unwrap()));
    let names = folder.names();
    assert!(names.len() == 2 && names[1].starts_with("mine_20"), "the records lie beside the table: {names:?}");
    let cited = json(&["bench", "cite", table.to_str().unwrap(), "--json"]);
    assert!(cited["num_envs"] == 64 && cited["memory_bytes"].as_f64().unwrap() > 0.0, "{cited}");

    let nothing = phalanx(&with_plan(&["bench", "throughput", "--num-envs", "1M", "--memory-budget", "1M"], &folder));
    assert_eq!(nothing.status.code(), Some(1), "a run that measures nothing has failed");
    let memory = ["bench", "memory", "--num-envs", "1M", "--memory-budget", "1M", "--results-dir", folder.path()];
    let nothing = phalanx(&memory);
    assert_eq!(nothing.status.code(), Some(1), "{}", String::from_utf8_lossy(&nothing.stderr));
}

#[test]
fn what_is_not_measured_as_asked_is_said_in_a_sentence() {
    let folder = Folder::new();
    let said = |more: &[&'static str]| {
        let base = ["bench", "throughput", "--num-envs", "64", "--num-steps", "8"];
        let output = phalanx(&with_plan(&[&base[..], more].concat(), &folder));
        let text = String::from_utf8(output.stderr).unwrap();
        // The machine has its own troubles.
        let lines = text.lines().filter(|line| line.starts_with("warning: ") && !line.contains("the guards refuse"));
        (lines.map(str::to_owned).collect::<Vec<_>>(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let (warnings, report) = said(&["--scan-chunk-size", "512", "--scan-chunk-size", "4", "--threads", "1"]);
    let cut = "warning: --scan-chunk-size 512 is longer than a run of 8 steps: 8 is measured instead";
    assert_eq!(warnings, [cut]);
    let chunks: Vec<_> = report["rows"].as_array().unwrap().iter().map(|row| row["scan_chunk_size"].clone()).collect();
    assert_eq!(chunks, [8, 4]);
    assert_eq!(said(&["--threads", "1"]).0, [""; 0], "what nobody asked for needs no words");
    let (warnings, _) = said(&["--threads", "64"]);
    assert_eq!(warnings, ["warning: there are more threads than cores they may use, so they wait for each other"]);
}

#[test]
fn a_stored_run_is_never_replaced() {
    let folder = Folder::new();
    let throughput = ["bench", "throughput", "--num-envs", "64", "--num-steps", "8"];
    let report = json(&with_plan(&throughput, &folder));
    let stored = ["table", "records"].map(|name| report[name].as_str().unwrap());
    let contents = || stored.map(|path| std::fs::read(path).unwrap());
    let (names, before) = (folder.names(), contents());
    let never = "a stored run never changes: choose another name";
    for path in stored {
        refused(&[&throughput[..], &["--output", path]].concat(), &format!("{path} already exists; {never}"));
        refused(&with_plan(&[&throughput[..], &["--monitor", "--metrics-log", path]].concat(), &folder), never);
        refused(&["bench", "report", "--history", folder.path(), "--html", path], "is no HTML page");
        refused(&["bench", "profile", "CartPole-v1/n64/t1", "--seconds", "0.1", "--output", path], "is no SVG");
        let suite = ["bench", "suite", "--categories", "startup", "--output-dir", folder.path(), "--markdown", path];
        refused(&suite, never);
    }
    assert!(contents() == before && folder.names() == names, "nothing was written");
    // What is drawn from it can be drawn again.
    let page = folder.0.path().join("page.html");
    for _ in 0..2 {
        stdout(&["bench", "report", "--history", folder.path(), "--html", page.to_str().unwrap()]);
    }
}

#[test]
fn a_report_and_a_trend_say_the_same_of_a_history() {
    let folder = Folder::new();
    for _ in 0..4 {
        json(&with_plan(&["bench", "throughput", "--num-envs", "64", "--num-steps", "8"], &folder));
    }
    let history = ["--history", folder.path(), "--format", "json"];
    let trend = json(&[&["bench", "trend"], &history[..]].concat())["series"][0].clone();
    let report = json(&[&["bench", "report"], &history[..]].concat())["trends"][0].clone();
    for field in ["trend", "change_percent", "noise_percent", "recent_avg", "historical_avg"] {
        assert!(!trend[field].is_null() && trend[field] == report[field], "{field}: {trend} {report}");
    }
    assert_eq!((&report["name"], &report["runs"]), (&trend["key"]["case_id"], &4.into()));
}

#[test]
fn other_kinds_are_measured_and_named() {
    let folder = Folder::new();
    let base = ["bench", "throughput", "--num-envs", "64", "--num-steps", "20"];
    let kind = |more: &[&'static str]| {
        let report = json(&with_plan(&[&base[..], more].concat(), &folder));
        (report["rows"][0]["kind"].as_str().unwrap().to_owned(), report["rows"][0]["agent"].clone())
    };
    assert_eq!(kind(&["--kind", "host_api_random", "--env", "arc"]), ("host_api_random".to_owned(), "random".into()));
    let bangbang = kind(&["--agent", "bangbang", "--agent-arg", "obs_field=theta"]);
    assert_eq!(bangbang, ("policy_rollout".to_owned(), "bangbang".into()));
    // As autotune and rollout call it.
    assert_eq!(kind(&["--policy", "bang-bang", "--policy-arg", "obs_field=theta"]), bangbang);
    let rollout = ["rollout", "--env", "cartpole", "--steps", "10", "--json", "--quiet"];
    json(&[&rollout[..], &["--policy", "bang-bang", "--agent-arg", "obs_field=theta"]].concat());
}

#[test]
fn memory_grows_as_the_arrays_do_and_says_what_fits() {
    let folder = Folder::new();
    let sizes = ["--num-envs", "16k", "--num-envs", "64k", "--num-envs", "256k", "--repeats", "1"];
    let command = [&["bench", "memory", "--scan-chunk-size", "1", "--scan-chunk-size", "2"], &sizes[..]].concat();
    let more = ["--results-dir", folder.path(), "--memory-budget", "1G", "--json", "--quiet"];
    let about = ["--tag", "t", "--description", "words"];
    let report = json(&[&command[..], &more[..], &about].concat());
    let growth = &report["envs"]["growth"];
    let per_env = growth["bytes_per_env"].as_f64().unwrap();
    let (low, high) = (growth["interval"]["low"].as_f64().unwrap(), growth["interval"]["high"].as_f64().unwrap());
    assert!(low < per_env && per_env < high);
    let row = &report["envs"]["rows"][2];
    let arrays = row["pytree_total_mb"].as_f64().unwrap() * 1_048_576.0 / 256_000.0;
    assert!((per_env / arrays - 1.0).abs() < 0.1, "{per_env} bytes measured, {arrays} counted");
    assert!((row["predicted_mb"].as_f64().unwrap() / row["pytree_total_mb"].as_f64().unwrap() - 1.0).abs() < 0.01);
    let largest = report["envs"]["largest_num_envs"].as_f64().unwrap();
    assert!(largest * per_env < 1_073_741_824.0 && largest * high > 0.9e9, "{largest}");
    let allocator = report["envs"]["allocator"].as_array().unwrap();
    assert_eq!(allocator.len(), 3);
    for counted in allocator {
        let (envs, counted) = (counted[0].as_f64().unwrap(), &counted[1]);
        assert_eq!(counted["steady_allocations"], 0, "a steady state allocates nothing");
        assert!(counted["peak_bytes"].as_f64().unwrap() > 0.9 * arrays * envs);
    }
    let capacities = report["envs"]["capacities"].as_array().unwrap();
    assert_eq!(capacities.iter().map(|fit| &fit[0]).collect::<Vec<_>>(), [4, 8, 16, 24, 64], "{capacities:?}");
    for fit in capacities {
        let (gib, envs) = (fit[0].as_f64().unwrap(), fit[1].as_f64().unwrap());
        assert!(envs * per_env < gib * 1_073_741_824.0 && envs * high > 0.9 * gib * 1e9, "{fit}");
    }
    assert_ne!(report["envs"]["run_id"], report["scan"]["run_id"], "two runs");
    assert!(report["envs"]["guards"]["load"].is_object() && report["scan"]["guards"]["load"].is_object());
    let chunk = report["scan"]["recommended_chunk"].as_u64().unwrap();
    assert!(chunk == 1 || chunk == 2);
    let names = folder.names();
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names[0].starts_with("memory_envs_cpu_20") && names[2].starts_with("memory_scan_cpu_20"), "{names:?}");
    let text = std::fs::read_to_string(folder.0.path().join(&names[0])).unwrap();
    assert_eq!(
        text.lines().next().unwrap(),
        "agent_memory_mb,baseline_cpu_mb,cpu_delta_mb,device,env_name,error,gpu_allocated_mb,gpu_delta_mb,gpu_peak_mb,\
         num_envs,peak_rss_mb,post_compile_cpu_mb,predicted_mb,pytree_total_mb,scan_chunk_size,state_memory_mb,success"
    );
    let records = lines(&folder.0.path().join(&names[1]));
    described(&records);
    assert_eq!((&records[0]["type"], records.len()), (&Value::from("run"), 4));
    assert_eq!((&records[0]["tags"], &records[0]["description"]), (&serde_json::json!(["t"]), &"words".into()));
    assert!(records[1]["memory"]["peak_rss_mb"].as_f64().unwrap() > 0.0);
}

#[test]
fn baselines_are_kept_and_compared() {
    let folder = Folder::new();
    let run = |tag: &str| {
        let command = ["bench", "baseline", "-d", "before the rewrite", "-t", tag, "-b", "1,10,100"];
        let more = ["--min-batch", "10", "--single-steps", "100", "--batch-steps", "5"];
        json(&with_plan(&[&command[..], &more[..]].concat(), &folder))
    };
    let first = run("baseline");
    assert_eq!(first["env"], "ARC-v0");
    assert_eq!((&first["config_summary"]["max_grid_height"], &first["kind"]), (&10.into(), &"host_api_random".into()));
    assert_eq!(first["benchmark_params"]["custom_batch_sizes"], serde_json::json!([10, 100]));
    let single = first["single_environment"]["steps_per_second"].as_f64().unwrap();
    let batch = &first["batch_scaling"]["10"];
    let efficiency = 100.0 * batch["steps_per_second"].as_f64().unwrap() / (10.0 * single);
    assert!((batch["efficiency_percent"].as_f64().unwrap() / efficiency - 1.0).abs() < 1e-9);
    assert_eq!((&batch["total_env_steps"], &batch["num_steps"]), (&50.into(), &5.into()));
    assert!(batch["batch_reset_time"].as_f64().unwrap() > 0.0 && batch["memory_mb"].as_f64().unwrap() > 0.0);
    let file = Path::new(first["file"].as_str().unwrap()).to_owned();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("benchmark_baseline_20") && name.ends_with(".json"), "{name}");
    schema::assert_described("baseline-run-v1", &file);

    run("phase1");
    let all = json(&["compare", "--results-dir", folder.path(), "--batch-size", "100", "--json"]);
    let runs = all["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[1]["label"], "[phase1] before the rewrite");
    assert!(runs[0]["single_change_percent"].is_null() && runs[1]["batch_change_percent"].is_number());
    assert_eq!(all["memory_ratio"], 1.0);
    assert_eq!((&runs[0]["env"], &runs[0]["tag"]), (&"ARC-v0".into(), &"baseline".into()));
    assert!(runs[0]["machine"].is_string() && runs[0]["disturbed_by"].is_array(), "{}", runs[0]);
    let tagged = json(&["bench", "compare", "--results-dir", folder.path(), "--tag", "phase1", "--json"]);
    assert_eq!(tagged["runs"].as_array().unwrap().len(), 1);
    let small = ["bench", "compare", "--results-dir", folder.path(), "--tag", "phase1", "--batch-size", "100"];
    assert_eq!(json(&[&small[..], &["--json"]].concat())["memory_ratio"], 1.0, "the baseline has another tag");
    assert!(stdout(&small).contains("memory of a batch of 100: as much as in the run tagged baseline"));
    let near = ["bench", "compare", "--results-dir", folder.path(), "--tag", "phase11"];
    refused(&near, "unknown tag 'phase11' for the runs in");
    refused(&near, "did you mean 'phase1'");
    let text = stdout(&["bench", "compare", "--results-dir", folder.path()]);
    assert!(text.contains("[baseline] before the rewrit") && text.contains("N/A"), "{text}");
    assert!(text.contains("target of a batch of 1000: 1.00M to 5.00M steps/s, not measured"), "{text}");
    let scaling = stdout(&["compare", "--results-dir", folder.path(), "--scaling-only"]);
    assert!(scaling.starts_with("Scaling of ARC-v0") && !scaling.contains("Date"), "{scaling}");
    let cited = stdout(&["bench", "cite", file.to_str().unwrap()]);
    assert!(cited.contains("ARC-v0") && cited.contains("Toolchain:       rustc"), "{cited}");

    let command = ["bench", "baseline", "-t", "large", "-b", "1,1M", "--memory-budget", "1M"];
    let large = json(&with_plan(&command, &folder));
    let refused = &large["batch_scaling"]["1000000"];
    assert!(refused["error"].as_str().unwrap().contains("but the budget is 1.00 MiB"), "{refused}");
    assert!(large["batch_scaling"]["1"]["steps_per_second"].as_f64() > Some(0.0));
    schema::assert_described("baseline-run-v1", Path::new(large["file"].as_str().unwrap()));

    let report_of_a_suite = folder.0.path().join("benchmark_results_20260722_130501.json");
    std::fs::write(report_of_a_suite, "{\"results\": []}").unwrap();
    std::fs::write(folder.0.path().join("benchmark_broken.json"), "{").unwrap();
    let output = phalanx(&["compare", "--results-dir", folder.path()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("benchmark_broken.json: skipped"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn devices_are_listed_and_chosen() {
    assert!(stdout(&["devices"]).starts_with("cpu  "));
    let report = json(&["devices", "--json"]);
    assert_eq!((&report["devices"][0]["device"], &report["devices"][0]["usable"]), (&"cpu".into(), &true.into()));
    let demo = ["demo", "performance", "--num-envs", "64", "--num-steps", "4", "--json"];
    refused(&[&demo[..], &["--device", "gpu"]].concat(), "this build computes on the CPU only");
    refused(&[&demo[..], &["--device", "cpuu"]].concat(), "did you mean 'cpu'");
    let with = |name: &str, value: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        command.args(demo).env_remove("PHALANX_PLATFORM").env_remove("JAX_PLATFORM_NAME").env(name, value);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(with("PHALANX_PLATFORM", "cpu"), (Some(0), String::new()));
    let (code, said) = with("PHALANX_PLATFORM", "gpu");
    assert!(code == Some(2) && said.starts_with("error: PHALANX_PLATFORM asks for gpu"), "{said}");
    for command in [
        &["rollout", "--env", "cartpole", "--steps", "1"][..],
        &["autotune", "--env", "cartpole", "--num-envs", "64"],
        &["train", "env=CartPole-v1", "agent=ppo"],
        &["bench", "suite", "--categories", "startup"],
        &["bench", "comparison", "--library", "phalanx"],
        &["bench", "kpi"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_phalanx")).args(command).env("PHALANX_PLATFORM", "gpu").output();
        let output = output.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.starts_with("error: PHALANX_PLATFORM asks for gpu")), (Some(2), true));
    }
    let listed = Command::new(env!("CARGO_BIN_EXE_phalanx")).arg("devices").env("PHALANX_PLATFORM", "gpu").output();
    assert!(listed.unwrap().status.success(), "what only tells needs no device");
    let (code, said) = with("JAX_PLATFORM_NAME", "cpu");
    assert!(code == Some(0) && said.starts_with("note: the device is cpu, as JAX_PLATFORM_NAME says"), "{said}");
}

#[test]
fn the_performance_demo_asks_before_it_takes_much() {
    let report = json(&["demo", "performance", "--num-envs", "640", "--num-steps", "10", "--json", "--quiet"]);
    assert_eq!((&report["num_envs"], &report["scan_chunk_size"]), (&640.into(), &32.into()));
    assert!(report["steps_per_second"].as_f64().unwrap() > 0.0);
    refused(&["demo", "performance", "--num-envs", "11M"], "say --yes if that is meant");
    assert!(stdout(&["demo", "--help"]).contains("performance"));
}

#[test]
fn all_runs_what_there_is() {
    let folder = Folder::new();
    let done = json(&["bench", "all", "--quick", "--skip-plots", "--quiet", "--json", "--results-dir", folder.path()]);
    let commands: Vec<_> = done.as_array().unwrap().iter().map(|done| done["command"].as_str().unwrap()).collect();
    for part in ["bench throughput", "bench memory", "demo performance"] {
        assert!(commands.iter().any(|command| command.contains(part)), "{part} in {commands:?}");
    }
    assert!(done.as_array().unwrap().iter().all(|done| done["exit_code"] == 0), "{done}");
    let names = folder.names();
    assert!(names.iter().any(|name| name.starts_with("memory_scan_cpu")), "{names:?}");
}

#[test]
fn all_goes_on_after_a_failure_and_exits_with_1() {
    let folder = Folder::new();
    let all = ["bench", "all", "--quick", "--skip-plots", "--quiet", "--json", "--results-dir", folder.path()];
    // Only what could be tuned looks at this variable.
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    let output = command.args(all).env("PHALANX_AUTO_TUNE", "maybe").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    let codes: Vec<_> = done.as_array().unwrap().iter().map(|done| done["exit_code"].as_i64().unwrap()).collect();
    assert_eq!(codes, [2, 0, 0, 2], "{done}");
}

#[test]
fn bad_input_is_refused_in_one_sentence() {
    let folder = Folder::new();
    let results = ["--results-dir", folder.path()];
    let throughput = |more: &[&'static str]| [&["bench", "throughput"], &results[..], more].concat();
    refused(&throughput(&["--env", "cartpol"]), "did you mean 'cartpole'");
    refused(&throughput(&["--kind", "fused_rollout"]), "did you mean 'fused_random_rollout'");
    refused(&throughput(&["--kind", "policy_rollout"]), "needs an agent that only acts");
    refused(&throughput(&["--agent", "pidd"]), "unknown policy 'pidd'");
    refused(&throughput(&["--agent", "ppo"]), "--agent is ppo, which learns");
    refused(&throughput(&["--agent", "bangbang", "--kind", "host_api_random"]), "the agent is bangbang");
    refused(&throughput(&["--full", "--num-envs", "3"]), "cannot be used with");
    refused(&throughput(&["--num-envs", "0"]), "at least 1");
    refused(
        &throughput(&["--num-envs", "1M", "--num-steps", "1G"]),
        "--num-steps is 1000000000, but must be from 1 to",
    );
    refused(
        &throughput(&["--num-envs", "999999999999", "--num-steps", "1"]),
        "--num-envs is 999999999999, but must be from 1 to",
    );
    refused(&throughput(&["--memory-budget", "much"]), "a share such as 0.8");
    refused(&throughput(&["--param", "gravty=1"]), "did you mean 'gravity'");
    refused(&throughput(&["--output", "/nonexistent/a.csv"]), "its folder does not exist");
    refused(&["bench", "memory", "--output", "a.csv"], "choose --profile envs or --profile scan");
    refused(&[&["bench", "baseline", "-t", "a/b"], &results[..]].concat(), "the tag is 'a/b'");
    refused(&[&["bench", "baseline", "--min-batch", "20k"], &results[..]].concat(), "no batch size is left");
    refused(&[&["compare"], &results[..]].concat(), "holds no run of 'phalanx bench baseline'");
    refused(&["bench", "cite", "/nonexistent.csv"], "cannot read /nonexistent.csv");
    refused(
        &[&["bench", "memory", "--num-envs", "1000G"], &results[..]].concat(),
        "--num-envs is 1000000000000, which needs",
    );
    let theirs = ["bench", "comparison", "--library", "gymnasium", "--env", "arc"];
    refused(
        &[&theirs, &results[..]].concat(),
        "--env is ARC-v0, which gymnasium cannot make: choose one of CartPole-v1",
    );
    let long = "a".repeat(300);
    refused(&[&["bench", "baseline", "-t", &long], &results[..]].concat(), "but must be 1 to 200 of");
    assert_eq!(folder.names(), Vec::<String>::new(), "nothing was written");
    let file = folder.0.path().join("file");
    std::fs::write(&file, "").unwrap();
    let nowhere = ["--results-dir", file.to_str().unwrap()];
    let profile = ["bench", "profile", "CartPole-v1/n64/t1", "--seconds", "0.1"];
    let library = ["bench", "comparison", "--library", "phalanx"];
    let commands =
        ["throughput", "memory", "baseline", "safety", "kpi", "doctor", "all"].map(|name| vec!["bench", name]);
    for command in commands.into_iter().chain([profile.to_vec(), library.to_vec()]) {
        refused(&[&command[..], &nowhere].concat(), "file is not a folder");
    }
}
