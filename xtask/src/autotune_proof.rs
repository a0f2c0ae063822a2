//! `cargo xtask autotune-proof`: auto-tuning against an exhaustive sweep, and against its time limits.
//!
//! Four environments at three sizes, one of them with tiles, with a cache of its own. The choice must be within 5 % of the best candidate,
//! all of which take turns in another process. Takes about ten minutes on two cores that are otherwise idle.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::steps::Run;
use crate::workspace::{Workspace, run};

const ENVIRONMENTS: [&str; 4] = ["CartPole-v1", "Pendulum-v1", "ccasr-gfp-control", "ARC-v0"];
const SIZES: [&str; 3] = ["1000", "10000", "100000"];

const COLD: Duration = Duration::from_secs(60);
const CACHED: Duration = Duration::from_secs(1);
const NEW_SIZE: Duration = Duration::from_secs(20);
const NEW_ENVIRONMENT: Duration = Duration::from_secs(30);

pub(crate) fn prove(workspace: &Workspace) -> std::process::ExitCode {
    let mut steps = Run::new(1 + ENVIRONMENTS.len() * SIZES.len());
    let mut built = false;
    steps.step("phalanx binary", || {
        workspace.cargo("build --release --package phalanx-cli")?;
        built = true;
        Ok(())
    });
    let cache = workspace.target.join("autotune-proof");
    // What an earlier proof has left would make the first run a cached one.
    let _ = std::fs::remove_dir_all(&cache);
    let phalanx = workspace.release_binary("phalanx");
    for (i, env) in ENVIRONMENTS.into_iter().enumerate() {
        for (j, size) in SIZES.into_iter().enumerate() {
            let limit = match (i, j) {
                (0, 0) => COLD,
                (_, 0) => NEW_ENVIRONMENT,
                _ => NEW_SIZE,
            };
            steps.step(name_of(i, j), || {
                if !built {
                    return Err("not run, because there is no binary".into());
                }
                let arguments = ["--env", env, "--num-envs", size];
                let tune = |limit: Duration, what: &str| {
                    let start = Instant::now();
                    run(phalanx_command(&phalanx, &cache).arg("autotune").args(arguments).stdout(Stdio::null()))?;
                    let taken = start.elapsed();
                    println!("{what}: {:.2} s, limit {} s", taken.as_secs_f64(), limit.as_secs());
                    if taken <= limit { Ok(()) } else { Err(format!("{what}: longer than {} s", limit.as_secs())) }
                };
                tune(limit, "measured")?;
                tune(CACHED, "cached")?;
                run(phalanx_command(&phalanx, &cache).args(["autotune", "verify"]).args(arguments))
            });
        }
    }
    steps.finish()
}

fn phalanx_command(phalanx: &Path, cache: &Path) -> Command {
    let mut command = Command::new(phalanx);
    command.env("PHALANX_CACHE_DIR", cache);
    command
}

/// Steps have names that live as long as the program.
fn name_of(env: usize, size: usize) -> &'static str {
    const NAMES: [[&str; 3]; 4] = [
        ["CartPole, 1 000", "CartPole, 10 000", "CartPole, 100 000"],
        ["Pendulum, 1 000", "Pendulum, 10 000", "Pendulum, 100 000"],
        ["gene circuit, 1 000", "gene circuit, 10 000", "gene circuit, 100 000"],
        ["ARC, 1 000", "ARC, 10 000", "ARC, 100 000"],
    ];
    NAMES[env][size]
}
