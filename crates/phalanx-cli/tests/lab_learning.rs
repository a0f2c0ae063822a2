//! Agents that learn in the lab: the category rl, tables of tabular learning, tuning of training. Small: nothing is said
//! about speed.

mod common;
#[path = "../../phalanx-lab/tests/schema/mod.rs"]
mod schema;

use std::fs;

use common::within::{json, refusal, run, stdout};
use serde_json::Value;

#[test]
fn the_category_rl_measures_decisions_updates_training_and_solving() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = ["--pairs", "2", "--samples", "2", "--sample-ms", "1", "--json", "--quiet"];
    let report = json(folder.path(), &[&["bench", "suite", "--categories", "rl"][..], &tiny].concat());
    let results = report["results"].as_array().unwrap();
    let found = |name: &str| {
        let result = results.iter().find(|result| result["name"] == name).unwrap_or_else(|| panic!("{name}"));
        assert!(result["throughput"].as_f64().unwrap() > 0.0 && result["category"] == "rl_training", "{result}");
        result["kind"].as_str().unwrap().to_owned()
    };
    for agent in ["ppo", "dqn", "pqn"] {
        assert_eq!(found(&format!("rl/{agent}/forward/n1")), "policy_forward");
        assert_eq!(found(&format!("rl/{agent}/update")), "gradient_update");
        assert_eq!(found(&format!("rl/{agent}/training/n{}", if agent == "dqn" { 8 } else { 32 })), "training");
    }
    assert_eq!(found("rl/ppo/solve"), "time_to_solve");
    let solve = results.iter().find(|result| result["name"] == "rl/ppo/solve").unwrap();
    assert!(solve["metadata"]["time_to_solve_s"].as_f64().unwrap() > 0.0);
    let kpi = |name: &str| report["kpis"].as_array().unwrap().iter().find(|kpi| kpi["name"] == name).unwrap().clone();
    for name in ["policy_inference_time_ms", "training_throughput_steps_per_sec"] {
        assert!(kpi(name)["source"].as_str().unwrap().starts_with("rl/"), "{name}: {}", kpi(name));
    }
    // What was allocated there is what is predicted from small agents.
    let many = results.iter().find(|result| result["name"] == "rl/ppo/training/n2048/t2").unwrap();
    let kilobytes = many["metadata"]["bytes_per_env"].as_f64().unwrap() * 2048.0 / 1024.0;
    let settings = ["hidden=[64,64]", "rollout_steps=16", "num_minibatches=4", "num_epochs=4"];
    let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--policy-arg", setting]).collect();
    let budget = format!("{kilobytes:.0}K");
    let most = ["autotune", "max-envs", "--env", "cartpole", "--agent", "ppo", "--memory-budget", &budget, "--json"];
    let predicted = json(folder.path(), &[&most[..], &settings].concat())["num_envs"].as_f64().unwrap();
    assert!((predicted / 2048.0 - 1.0).abs() < 0.1, "{predicted} environments in {budget}");

    let page = folder.path().join("report.html");
    stdout(folder.path(), &["bench", "report", "--html", page.to_str().unwrap(), "--quiet"]);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("Learning") && page.contains("policy_forward") && page.contains("observations/s"));
}

#[test]
fn builds_are_compared_on_an_agent_s_work() {
    let folder = tempfile::tempdir().unwrap();
    // The second is the example of docs/benchmarks.md.
    let cases = ["CartPole-v1/training/n4/t1/k8/dqn/run.buffer_size=100", "CartPole-v1/gradient_update/n8/t1/dqn"];
    let plan = ["--pairs", "2", "--samples", "24", "--sample-ms", "1", "--looks", "1", "--margin", "99"];
    let phalanx = env!("CARGO_BIN_EXE_phalanx");
    let ab = ["bench", "ab", phalanx, phalanx, "--case", cases[0], "--case", cases[1], "--json", "--quiet"];
    let output = run(folder.path(), &[&ab[..], &plan].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let measured = [0, 1].map(|at| report["cases"][at]["case"].as_str().unwrap());
    assert_eq!((&report["same_work"], measured), (&true.into(), cases));
    assert_ne!(output.status.code(), Some(14), "both learn the same");
    let diverging = "CartPole-v1/training/n8/t1/ppo/agent.learning_rate=1e300";
    let output = run(folder.path(), &[&["bench", "ab", phalanx, phalanx, "--case", diverging][..], &plan].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("training cannot go on"), "{said}");
}

#[test]
fn tables_of_variants_and_threads_have_their_columns() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = ["bench", "tabular", "--repeats", "1", "--sample-ms", "1", "--quiet"];
    let document = json(folder.path(), &[&tiny[..], &["--json", "--processes", "1,2", "--steps", "1000"]].concat());
    let variants = document["variants"].as_array().unwrap();
    let names: Vec<&str> = variants.iter().map(|row| row["implementation"].as_str().unwrap()).collect();
    assert_eq!(names, ["list", "dense", "optimal", "sparse"]);
    assert_eq!(variants[0]["relative"], 1.0);
    for row in variants {
        let (time, rate) = (row["time_s"].as_f64().unwrap(), row["throughput"].as_f64().unwrap());
        assert!((time * rate / 1000.0 - 1.0).abs() < 1e-9 && row["memory_mb"].as_f64().unwrap() > 0.0, "{row}");
    }
    for mode in document["threads"].as_array().unwrap() {
        let threads: Vec<_> = mode["rows"].as_array().unwrap().iter().map(|row| row["threads"].as_u64()).collect();
        assert_eq!(threads, [Some(1), Some(2)], "{mode}");
        assert_eq!((&mode["rows"][0]["speed_up"], &mode["rows"][0]["efficiency"]), (&1.0.into(), &1.0.into()));
    }
    let text = stdout(folder.path(), &[&tiny[..], &["--compare", "single", "parallel-2"]].concat());
    assert!(text.contains("transitions/s") && text.contains("parallel-2"), "{text}");
}

#[test]
fn a_sweep_leaves_the_files_of_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let sweep =
        ["bench", "tabular", "--runtime", "single_thread", "parallel", "--agents", "1,16", "--processes", "1,2"];
    let tiny = ["--repeats", "2", "--sample-ms", "1", "--output-dir", "out", "--quiet"];
    stdout(folder.path(), &[&sweep[..], &tiny].concat());
    let out = folder.path().join("out");
    for name in ["single_thread_1_agents", "single_thread_16_agents", "parallel_1_agents_1_processes"] {
        assert!(out.join(name).with_extension("json").is_file(), "{name}");
    }
    assert!(!out.join("parallel_1_agents_2_processes.json").exists(), "a worker without an agent");
    schema::assert_described("tabular-cell-v1", &out.join("parallel_16_agents_2_processes.json"));
    schema::assert_described("tabular-cell-v1", &out.join("single_thread_1_agents.json"));
    let cell: Value =
        serde_json::from_slice(&fs::read(out.join("parallel_16_agents_2_processes.json")).unwrap()).unwrap();
    assert_eq!(
        (&cell["runtime"], &cell["num_agents"], &cell["num_processes"]),
        (&"parallel".into(), &16.into(), &2.into())
    );
    assert_eq!(cell["runs"].as_array().unwrap().len(), 2);
    assert!(cell["learn_metric"].as_f64().unwrap() > 0.9, "it learns: {cell}");
    assert!(fs::read_to_string(out.join("benchmark_summary.txt")).unwrap().contains("single_thread\n  count  2\n"));
    for plot in ["single_thread_scaling", "parallel_scaling", "parallel_heatmap"] {
        assert!(out.join(plot).with_extension("png").is_file() && out.join(plot).with_extension("svg").is_file());
    }
    assert!(refusal(folder.path(), &[&sweep[..], &tiny].concat()).contains("holds a sweep already"));
    assert!(refusal(folder.path(), &["bench", "tabular", "--runtime", "distributed"]).contains("does not have"));
    assert!(refusal(folder.path(), &["bench", "tabular", "--compare", "mpi-2"]).contains("parallel- with a number"));
    assert!(refusal(folder.path(), &["bench", "tabular", "--env", "CartPole-v1"]).contains("CartPole-v1"));
}

#[test]
fn training_is_tuned_and_learns_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let tune = ["autotune", "--env", "cartpole", "--num-envs", "8", "--sample-ms", "1", "--time-budget", "3"];
    let dqn = json(folder.path(), &[&tune[..], &["--agent", "dqn", "--buffer-size", "300", "--json"]].concat());
    assert!(dqn["key"].as_str().unwrap().contains(":dqn:8:") && dqn["key"].as_str().unwrap().contains(":buf300"));
    assert!(dqn["key"].as_str().unwrap().contains(":eval"), "evaluations end a chunk: {dqn}");
    // A preset that shows the agent sixteen frames at once.
    let frames = ["autotune", "--env", "gene-circuit", "--num-envs", "16", "--sample-ms", "1", "--time-budget", "3"];
    let pqn = json(folder.path(), &[&frames[..], &["--agent", "pqn", "--threads", "1", "--json"]].concat());
    assert!(pqn["scan_chunk_size"].as_u64().unwrap() > 0, "{pqn}");
    let table = stdout(folder.path(), &[&tune[..], &["--agent", "ppo", "--threads", "1"]].concat());
    assert!(table.contains("memory        ") && table.contains("chunk   32    ok"), "{table}");
    assert!(!table.contains("chunk    8"), "a roll-out of 32 steps is never cut: {table}");

    let big = ["autotune", "--env", "cartpole", "--num-envs", "1M", "--memory-budget", "50M", "--agent"];
    let refused = refusal(folder.path(), &[&big[..], &["ppo"]].concat());
    assert!(refused.contains("No valid chunk_size: 1000000 environments of CartPole-v1 under ppo need"), "{refused}");
    let buffer = ["autotune", "--env", "cartpole", "--num-envs", "8", "--memory-budget", "50M", "--agent", "dqn"];
    let refused = refusal(folder.path(), &[&buffer[..], &["--buffer-size", "100M"]].concat());
    assert!(refused.contains("a buffer_size below 100000000"), "{refused}");
    let most = ["autotune", "max-envs", "--env", "cartpole", "--memory-budget", "50M", "--agent", "ppo", "--json"];
    assert!(json(folder.path(), &most)["predicted"].as_u64().unwrap() > 1000);

    let train =
        ["train", "--json", "--quiet", "env=CartPole-v1", "agent=ppo", "run.num_envs=8", "run.steps_per_env=256"];
    let weights = |more: &[&str]| {
        let document = json(folder.path(), &[&train[..], more].concat());
        let run = folder.path().join(document["run_dir"].as_str().unwrap());
        let config = fs::read_to_string(run.join("config.toml")).unwrap();
        let file = fs::read(run.join("checkpoints/final.safetensors")).unwrap();
        // After the header, which holds the settings.
        let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        (file[8 + header..].to_vec(), config)
    };
    let (plain, _) = weights(&[]);
    assert!(weights(&["run.scan_chunk_size=64"]).0 == plain);
    // The cache knows PPO with one thread, so that nothing has to be measured here.
    let (tuned, config) = weights(&["--auto-tune", "run.threads=1"]);
    assert!(
        tuned == plain && config.contains("scan_chunk_size = ") && !config.contains("auto_tune = true"),
        "{config}"
    );
    let both = [&train[..], &["--auto-tune", "run.scan_chunk_size=8"]].concat();
    assert!(refusal(folder.path(), &both).contains("run.scan_chunk_size is 8, but --auto-tune"));
}

#[test]
fn the_advice_of_dist_classicrl_is_an_agent() {
    let folder = tempfile::tempdir().unwrap();
    let train = ["train", "--json", "--quiet", "env=TicTacToe-v0", "agent=tabular-fast"];
    let document = json(folder.path(), &train);
    assert!(document["final_eval_return_mean"].as_f64().unwrap() > 0.8, "{document}");
    let run = folder.path().join(document["run_dir"].as_str().unwrap());
    let config = fs::read_to_string(run.join("config.toml")).unwrap();
    assert!(config.contains("exponential(1, 0.999, 0.05)") && config.contains("q_learning"), "{config}");
}
