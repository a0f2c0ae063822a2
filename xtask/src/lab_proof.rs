//! Whether the lab can be believed on this machine: it must not see differences where there are none, and must see
//! those that were built in. Takes about half an hour, most of it for three builds.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::workspace::Workspace;

/// Runs of a binary against itself, and the most that may find a difference.
const IDENTICAL: (usize, usize) = (20, 2);
/// Runs against a build that is 5 % slower, and the fewest that must find it.
const SLOWER: (usize, usize) = (10, 9);
/// The longest that one of these may take.
const MOST_SECONDS: f64 = 120.0;

struct Row {
    what: &'static str,
    found: String,
    needed: String,
    passed: bool,
}

/// Builds, runs and prints the table; fails if a row does.
pub(crate) fn run(workspace: &Workspace) -> ExitCode {
    match rows(workspace) {
        Ok(rows) => {
            println!();
            for Row { what, found, needed, passed } in &rows {
                println!("{:6}  {what:52}  {found:34}  needed: {needed}", if *passed { "passed" } else { "FAILED" });
            }
            if rows.iter().all(|row| row.passed) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn rows(workspace: &Workspace) -> Result<Vec<Row>, String> {
    let folder = workspace.target.join("lab-proof");
    // Old records and baselines would be taken for new ones.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let build = |features: &str, name: &str| {
        workspace.cargo(&format!("build --release --package phalanx-cli {features}"))?;
        let binary = folder.join(name);
        std::fs::copy(workspace.release_binary("phalanx"), &binary)
            .map(|_| binary)
            .map_err(|error| format!("cannot copy the binary: {error}"))
    };
    let slow_5 = build("--features slowdown", "phalanx-slow-5")?;
    let slow_15 = build("--features slowdown-15", "phalanx-slow-15")?;
    let plain = build("", "phalanx-plain")?;
    let lab = Lab { folder: &folder };
    let mut rows = Vec::new();

    let (runs, most) = IDENTICAL;
    let verdicts = lab.compare(&plain, &plain, runs)?;
    let different = count(&verdicts, &["regressed", "improved"]);
    // A lab that never decides would find no difference either.
    let equivalent = count(&verdicts, &["equivalent"]);
    rows.push(Row {
        what: "a build against itself: verdicts 'equivalent'",
        found: format!("{equivalent} of {runs}"),
        needed: format!("at least {}", runs / 2),
        passed: 2 * equivalent >= runs,
    });
    rows.push(Row {
        what: "a build against itself: verdicts 'different'",
        found: format!("{different} of {runs}"),
        needed: format!("at most {most}"),
        passed: different <= most,
    });
    let (runs, fewest) = SLOWER;
    let verdicts = lab.compare(&plain, &slow_5, runs)?;
    let found = count(&verdicts, &["regressed"]);
    let longest = verdicts.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    rows.push(Row {
        what: "a build that is 5 % slower: found",
        found: format!("{found} of {runs}, longest {longest:.0} s"),
        needed: format!("at least {fewest}, each in {MOST_SECONDS:.0} s"),
        passed: found >= fewest && longest < MOST_SECONDS,
    });
    lab.suite(&plain, "--save-baseline")?;
    for (binary, what, needed) in
        [(&plain, "suite against its own baseline", 0), (&slow_15, "suite of a build that is 15 % slower", 10)]
    {
        let code = lab.suite(binary, "--compare-baseline")?;
        let (found, needed_text) = (format!("exit code {code}"), format!("exit code {needed}"));
        rows.push(Row { what, found, needed: needed_text, passed: code == needed });
    }
    Ok(rows)
}

fn count(verdicts: &[(String, f64)], wanted: &[&str]) -> usize {
    verdicts.iter().filter(|(verdict, _)| wanted.contains(&verdict.as_str())).count()
}

struct Lab<'a> {
    folder: &'a Path,
}

impl Lab<'_> {
    /// The verdict and the seconds of each run of A against B.
    fn compare(&self, a: &PathBuf, b: &PathBuf, runs: usize) -> Result<Vec<(String, f64)>, String> {
        let run = |number: usize| {
            let start = Instant::now();
            let output = self
                .command(a)
                .arg("ab")
                .args([a, b])
                .args(["--quiet", "--results-dir", "records"])
                .output()
                .map_err(|error| format!("cannot run the binary: {error}"))?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let last = text.lines().last().unwrap_or_default();
            println!("{} of {runs}: {last} ({:.0} s)", number + 1, start.elapsed().as_secs_f64());
            let verdict = last.strip_prefix("VERDICT ").and_then(|rest| rest.split(' ').next());
            let verdict = verdict.ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
            Ok((verdict.to_owned(), start.elapsed().as_secs_f64()))
        };
        (0..runs).map(run).collect()
    }

    /// The exit code of a suite.
    fn suite(&self, binary: &PathBuf, flag: &str) -> Result<i32, String> {
        let status = self
            .command(binary)
            .args(["suite", flag, "--quiet", "--output-dir", "suite"])
            .status()
            .map_err(|error| format!("cannot run the binary: {error}"))?;
        status.code().ok_or_else(|| "the suite was ended by a signal".to_owned())
    }

    fn command(&self, binary: &PathBuf) -> Command {
        let mut command = Command::new(binary);
        command.arg("bench").current_dir(self.folder).env("PHALANX_CACHE_DIR", self.folder.join("cache"));
        command
    }
}
