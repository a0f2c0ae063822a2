//! `bench plot`, `bench report` and `bench comparison`, small.

mod common;

use std::path::Path;

use common::{json, phalanx, stdout};

const THROUGHPUT: &str = "\
device,env_name,error,kind,num_envs,num_steps,scan_chunk_size,success,threads,time_max_s,time_min_s,total_throughput_steps_per_s
cpu,CartPole-v1,,fused_random_rollout,100,1000,256,true,1,0.0012,0.0010,95000000
cpu,CartPole-v1,,fused_random_rollout,1000,1000,256,true,1,0.0026,0.0024,400000000
cpu,CartPole-v1,,fused_random_rollout,10000,500,256,true,1,0.013,0.012,410000000
cpu,CartPole-v1,,fused_random_rollout,10000,500,8,true,1,0.018,0.016,300000000
cpu,CartPole-v1,predicted too large,fused_random_rollout,1000000000,500,8,false,1,,,
";

const MEMORY: &str = "\
device,env_name,num_envs,peak_rss_mb,predicted_mb,pytree_total_mb,scan_chunk_size,success
cpu,CartPole-v1,1024,6.2,0.04,0.04,128,true
cpu,CartPole-v1,16384,6.9,0.66,0.66,128,true
cpu,CartPole-v1,262144,17.7,10.5,10.5,128,true
";

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn refused(arguments: &[&str], part: &str) {
    let output = phalanx(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(message.lines().count() == 1 && message.contains(part), "{arguments:?}: {message}");
}

#[test]
fn runs_that_ended_early_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().to_str().unwrap();
    let tiny = ["--num-envs", "8", "--processes", "1", "--samples", "2", "--sample-ms", "1", "--time-budget", "0"];
    let measured = json(&[&["bench", "throughput", "--results-dir", results, "--json", "--quiet"][..], &tiny].concat());
    let plot = ["bench", "plot", "--results-dir", results, "--show-empty"];
    let plotted = || json(&[&plot[..], &["--json"]].concat())["interrupted"].clone();
    assert_eq!(plotted(), serde_json::json!([]));
    // Without its last summary it is what a kill would have left.
    let records = measured["records"].as_str().unwrap();
    let text = std::fs::read_to_string(records).unwrap();
    let last = text.lines().filter(|line| line.contains(r#""type":"summary""#)).count();
    let mut summaries = 0;
    let kept = text.lines().filter(|line| {
        summaries += usize::from(line.contains(r#""type":"summary""#));
        !line.contains(r#""type":"summary""#) || summaries < last
    });
    std::fs::write(records, kept.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    assert_eq!(plotted(), serde_json::json!([measured["run_id"]]));
    assert!(stdout(&plot).contains("1 of the runs ended early"));
}

#[test]
fn figures_are_drawn_where_there_is_data() {
    let folder = tempfile::tempdir().unwrap();
    let rates = write(folder.path(), "throughput_cpu_20260722_130501.csv", THROUGHPUT);
    let memory = write(folder.path(), "memory_envs_cpu_20260722_130501.csv", MEMORY);
    let plots = folder.path().join("plots");
    let report = json(&["bench", "plot", "--input", &rates, "--input", &memory, "--json", "--quiet"]);
    let names = ["throughput_scaling", "scaling_efficiency", "memory_scaling", "scan_chunk_sensitivity"];
    assert_eq!(report["files"].as_array().unwrap().len(), 2 * names.len());
    assert_eq!(report["without_data"], serde_json::json!(["library_comparison", "performance_trends"]));
    for name in names {
        let png = std::fs::read(plots.join(name).with_extension("png")).unwrap();
        assert!(png.starts_with(b"\x89PNG"), "{name}");
        assert!(png.windows(4).any(|chunk| chunk == b"pHYs"), "{name} says how large it is");
        let svg = std::fs::read_to_string(plots.join(name).with_extension("svg")).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("environments"), "{name}");
    }
    let only = folder.path().join("only");
    let only = only.to_str().unwrap();
    stdout(&["bench", "plot", "--input", &rates, "--plot-type", "chunk", "--output-dir", only]);
    assert_eq!(std::fs::read_dir(only).unwrap().count(), 2);
    let empty = ["bench", "plot", "--input", &memory, "--plot-type", "trends", "--output-dir", only];
    refused(&empty, "performance_trends needs two runs");
    stdout(&[&empty[..], &["--show-empty"]].concat());
    assert_eq!(std::fs::read_dir(only).unwrap().count(), 4);
}

#[test]
fn what_cannot_be_plotted_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let strange = write(folder.path(), "strange.csv", "a,b\n1,2\n");
    let broken = write(folder.path(), "broken.csv", "a,b\n1\n");
    refused(&["bench", "plot", "--input", &strange], "holds no results");
    refused(&["bench", "plot", "--input", &broken], "line 2: the row has 1 cells");
    refused(&["bench", "plot", "--input", &path("missing.csv")], "cannot read");
    refused(&["bench", "plot", "--input", &path("x.txt")], ".jsonl");
    refused(&["bench", "plot", "--results-dir", &path("nowhere")], "measure first");
    let wide = write(folder.path(), "wide.csv", &format!("{},b\n1,2\n", "a".repeat(1 << 20)));
    for reader in [&["bench", "cite", &wide][..], &["bench", "plot", "--input", &wide]] {
        let message = String::from_utf8(phalanx(reader).stderr).unwrap();
        assert!(message.contains(&"a".repeat(70)) && message.len() < 500, "{}", message.len());
    }
    refused(&["bench", "plot", "--plot-type", "thoughput"], "throughput");
    refused(&["bench", "report", "--history", &path("nowhere")], "there is no folder");
    let empty = tempfile::tempdir().unwrap();
    refused(&["bench", "report", "--history", empty.path().to_str().unwrap()], "there are no results");
    refused(&["report", "--html", &path("nowhere/x.html")], "folder does not exist");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
}

/// Whoever opens a pipe that nobody writes to waits for ever.
#[cfg(unix)]
#[test]
fn pipes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for extension in ["csv", "jsonl", "json"] {
        let pipe = folder.path().join("pipe").with_extension(extension);
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let pipe = pipe.to_str().unwrap();
        for reader in [&["bench", "cite", pipe][..], &["bench", "report", "--input", pipe]] {
            refused(reader, "is not a regular file");
        }
    }
    let pipe = folder.path().join("pipe.json");
    refused(&["bench", "suite", "--categories", "startup", "--baseline", pipe.to_str().unwrap()], "not a regular file");
}

#[test]
fn a_report_has_three_formats_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("results");
    std::fs::create_dir(&history).unwrap();
    write(&history, "throughput_cpu_20260722_130501.csv", THROUGHPUT);
    write(&history, "memory_envs_cpu_20260722_130501.csv", MEMORY);
    write(&history, "damaged.jsonl", "{\n");
    let page = folder.path().join("report.html");
    let (history, page) = (history.to_str().unwrap(), page.to_str().unwrap());
    stdout(&["bench", "report", "--history", history, "--html", page]);
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.matches("<svg").count() == 4 && html.contains("damaged.jsonl:1"), "four figures, one damage");
    assert!(html.contains("410M") && !html.contains("<script"));
    let text = stdout(&["report", "--history", history]);
    assert!(text.contains("Throughput") && text.contains("410M") && text.contains("Machine"));
    let report = json(&["report", "--history", history, "--format", "json"]);
    assert_eq!(report["summary"]["total_benchmarks"], 4);
    assert!(stdout(&["report", "--history", history, "--format", "html"]).starts_with("<!doctype html>"));
}

const QUICK: [&str; 8] = ["--processes", "2", "--samples", "3", "--sample-ms", "2", "--num-envs", "64"];

#[test]
fn our_own_library_is_measured_in_both_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().to_str().unwrap();
    let own = ["bench", "comparison", "--library", "phalanx", "--results-dir", results, "--steps-per-env", "100"];
    let report = json(&[&own[..], &QUICK, &["--json", "--quiet"]].concat());
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, kind) in rows.iter().zip(["fused_random_rollout", "host_api_random"]) {
        assert_eq!((&row["kind"], &row["success"], &row["total_steps"]), (&kind.into(), &true.into(), &6400.into()));
        assert!(row["throughput_steps_per_s"].as_f64().unwrap() > 0.0 && row["speedup_vs_slowest"] == 1.0);
    }
    let table = std::fs::read_to_string(report["table"].as_str().unwrap()).unwrap();
    let columns: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let required = "compile_time_s device library num_envs runtime_mean_s runtime_std_s steps_per_env success \
                    throughput_steps_per_s total_steps total_time_s library_version kind speedup_vs_slowest";
    assert!(required.split_whitespace().all(|column| columns.contains(&column)), "{columns:?}");
    assert!(columns.is_sorted());
    for row in rows {
        let number = |name: &str| row[name].as_f64().unwrap();
        let (low, high) = (number("throughput_ci_low"), number("throughput_ci_high"));
        assert!((low..=high).contains(&number("throughput_steps_per_s")), "{row}");
    }
    // What it writes can be drawn.
    let plot = json(&["bench", "plot", "--results-dir", results, "--plot-type", "comparison", "--json"]);
    assert_eq!(plot["files"].as_array().unwrap().len(), 2);
}

/// A Python without any of the libraries: rows with the way to install them, no failure.
#[cfg(unix)]
#[test]
fn what_is_not_installed_is_a_row() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    std::fs::write(&python, "#!/bin/sh\necho '{\"missing\": \"ImportError: no\"}'\n").unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (python, results) = (python.to_str().unwrap(), folder.path().to_str().unwrap());
    let all = ["bench", "comparison", "--python", python, "--results-dir", results];
    let report = json(&[&all[..], &QUICK, &["--json", "--quiet"]].concat());
    let missing: Vec<_> = report["rows"].as_array().unwrap().iter().filter(|row| row["success"] == false).collect();
    assert_eq!(missing.len(), 5, "three of gymnasium, one each of the others");
    assert!(missing.iter().all(|row| row["error"].as_str().unwrap().contains("pip install")));
    // Without ours nothing is left, and nothing is written.
    let files = || std::fs::read_dir(results).unwrap().count();
    let before = files();
    let nothing = phalanx(&[&all[..], &QUICK, &["--library", "gymnasium", "--quiet"]].concat());
    let message = String::from_utf8(nothing.stderr).unwrap();
    assert_eq!((nothing.status.code(), nothing.stdout.len(), files()), (Some(1), 0, before), "{message}");
    assert!(message.contains("nothing could be measured (gymnasium: "), "{message}");
    // One that crashes is a row as well, and ours are measured all the same.
    std::fs::write(python, "#!/bin/sh\necho 'Illegal instruction' >&2\nexit 132\n").unwrap();
    let report = json(&[&all[..], &QUICK, &["--json", "--quiet"]].concat());
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| (row["library"] == "phalanx") == (row["success"] == true)), "{rows:?}");
    assert!(rows.iter().any(|row| row["error"].as_str().unwrap().contains("Illegal instruction")), "{rows:?}");
    refused(&["bench", "comparison", "--python", "/nothing/python"], "cannot run /nothing/python");
    refused(&["bench", "comparison", "--output", "/nowhere/a.csv"], "its folder does not exist");
    refused(
        &["bench", "comparison", "--num-envs", "1M", "--memory-budget", "1M"],
        "--num-envs is 1000000, which needs",
    );
    refused(&["bench", "comparison", "--library", "gymnas"], "gymnasium");
    refused(&["bench", "comparison", "--env", "CartPol-v1"], "CartPole-v1");
}
