//! `cargo xtask learn-proof`: what the shipped presets reach, by the shipped commands.
//!
//! Each row trains with several seeds (`phalanx sweep`) and judges every agent by 100 greedy episodes (`phalanx
//! evaluate`; 10,000 of tic-tac-toe, where a mean of 100 games is off by 0.02). Controllers are judged by the same commands
//! from the same start states. Two rows have the settings that others published instead of ours. Prints a Markdown table;
//! the table and all figures as JSON are left in `target/learn-proof`. A word after the command chooses rows: those whose
//! environment or agent contains it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::workspace::{Workspace, run};

/// What a row must reach, with all but one in ten of its seeds.
enum Bar {
    /// A mean return of at least this.
    Return(f64),
    /// A higher mean return than each of these controllers from the same start states, with no more violations.
    Controllers(&'static [&'static str]),
}

struct Task {
    env: &'static str,
    agent: &'static str,
    seeds: usize,
    bar: Bar,
    /// Settings in place of the preset's.
    recipe: Option<Recipe>,
}

struct Recipe {
    name: &'static str,
    run: &'static str,
    agent: &'static str,
}

const fn task(env: &'static str, agent: &'static str, seeds: usize, bar: Bar) -> Task {
    Task { env, agent, seeds, bar, recipe: None }
}

const fn published(agent: &'static str, recipe: Recipe) -> Task {
    Task { env: "CartPole-v1", agent, seeds: 5, bar: Bar::Return(475.0), recipe: Some(recipe) }
}

/// CleanRL's `pqn.py` and `dqn.py`.
const PQN: Recipe = Recipe {
    name: "published",
    run: "num_envs = 32\nsteps_per_env = 15_616\nrollout_steps = 64\n",
    agent: "learning_rate = 1e-4\nhidden_size = 256\n",
};
const DQN: Recipe = Recipe {
    name: "published",
    run: "num_envs = 1\ntotal_timesteps = 500_000\nbuffer_size = 10_000\n",
    agent: "learning_rate = 2.5e-4\nlearning_starts = 10_000\ntrain_frequency = 10\ntarget_network_frequency = 500\n\
            exploration_fraction = 0.5\nend_e = 0.05\nn_step = 1\ndouble = false\n",
};

const TASKS: [Task; 17] = [
    task("CartPole-v1", "ppo", 10, Bar::Return(475.0)),
    task("CartPole-v1", "pqn", 10, Bar::Return(475.0)),
    task("CartPole-v1", "dqn", 10, Bar::Return(475.0)),
    published("pqn", PQN),
    published("dqn", DQN),
    task("Acrobot-v1", "ppo", 10, Bar::Return(-100.0)),
    task("Acrobot-v1", "pqn", 5, Bar::Return(-100.0)),
    task("Acrobot-v1", "dqn", 5, Bar::Return(-100.0)),
    task("Pendulum-v1", "ppo", 10, Bar::Return(-250.0)),
    task("MountainCarContinuous-v0", "ppo", 10, Bar::Return(90.0)),
    // Gymnasium's own threshold.
    task("MountainCar-v0", "ppo", 10, Bar::Return(-110.0)),
    task("MountainCar-v0", "pqn", 5, Bar::Return(-110.0)),
    task("gene-circuit", "ppo", 5, Bar::Controllers(&["bangbang", "pid"])),
    task("gene-circuit", "dqn", 5, Bar::Controllers(&["bangbang", "pid"])),
    task("gene-circuit", "pqn", 5, Bar::Controllers(&["bangbang", "pid"])),
    task("ChemicalReactor-v0", "ppo", 10, Bar::Controllers(&["pid"])),
    // The optimum is 0.960.
    task("TicTacToe-v0", "q_learning", 10, Bar::Return(0.95)),
];

/// Episodes that an agent is judged by.
fn episodes(env: &str) -> &'static str {
    if env == "TicTacToe-v0" { "10000" } else { "100" }
}

/// The environment of these that has constraints; `phalanx evaluate` gives no costs of the others.
const CONSTRAINED: &str = "ChemicalReactor-v0";

/// An agent's episodes.
#[derive(Clone, Copy)]
struct Judged {
    mean_return: f64,
    /// Violations of an episode.
    mean_cost: f64,
    /// How long its training took, evaluations and files included, beside another training on each core.
    training_seconds: f64,
}

struct Row {
    task: &'static Task,
    /// One for each seed.
    agents: Vec<Judged>,
    /// By controller, one for each seed.
    controllers: Vec<(&'static str, Vec<Judged>)>,
    steps: u64,
    seconds: f64,
}

impl Row {
    fn reaches(&self, seed: usize) -> bool {
        let own = self.agents[seed];
        let beats = |other: Judged| own.mean_return > other.mean_return && own.mean_cost <= other.mean_cost;
        match self.task.bar {
            Bar::Return(least) => own.mean_return >= least,
            Bar::Controllers(_) => self.controllers.iter().all(|(_, judged)| beats(judged[seed])),
        }
    }

    fn reached(&self) -> usize {
        (0..self.agents.len()).filter(|seed| self.reaches(*seed)).count()
    }

    /// Nine of ten, and all where there are fewer; of published recipes four of five.
    fn passed(&self) -> bool {
        let may_fail = if self.task.recipe.is_some() { self.agents.len() / 5 } else { self.agents.len() / 10 };
        self.reached() >= self.agents.len() - may_fail
    }

    fn verdict(&self) -> &'static str {
        if self.passed() { "passed" } else { "FAILED" }
    }

    fn needed(&self) -> String {
        let Bar::Return(least) = self.task.bar else {
            let each = self.controllers.iter().map(|(name, judged)| {
                format!(
                    "{name} at {:.1}, {:.2} violations",
                    mean(judged, |j| j.mean_return),
                    mean(judged, |j| j.mean_cost)
                )
            });
            return format!("more than {}", each.collect::<Vec<_>>().join(" and "));
        };
        format!("≥ {least}")
    }
}

fn mean(judged: &[Judged], of: fn(&Judged) -> f64) -> f64 {
    judged.iter().map(of).sum::<f64>() / judged.len() as f64
}

/// Trains, judges and prints the table; fails if a row does.
pub(crate) fn prove(workspace: &Workspace, wanted: Option<&str>) -> ExitCode {
    match rows(workspace, wanted.unwrap_or("")) {
        Ok(rows) if rows.is_empty() => {
            eprintln!("no row has '{}' in its environment or agent", wanted.unwrap_or(""));
            ExitCode::from(2)
        }
        Ok(rows) => {
            let (table, json) = (markdown(&rows), json(&rows));
            println!("\n{table}");
            let folder = folder(workspace);
            for (name, text) in [("table.md", table), ("results.json", json)] {
                if let Err(error) = fs::write(folder.join(name), text) {
                    eprintln!("cannot write {name}: {error}");
                    return ExitCode::FAILURE;
                }
            }
            if rows.iter().all(Row::passed) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("learn-proof")
}

fn rows(workspace: &Workspace, wanted: &str) -> Result<Vec<Row>, String> {
    workspace.cargo("build --release --package phalanx-cli")?;
    let folder = folder(workspace);
    // What an earlier proof has left would be taken for the results of this one.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let lab = Lab { phalanx: workspace.release_binary("phalanx"), folder };
    let mut rows = Vec::new();
    for task in TASKS.iter().filter(|task| task.env.contains(wanted) || task.agent.contains(wanted)) {
        let start = Instant::now();
        let (agents, steps) = lab.judged(task.env, task.agent, task.seeds, task.recipe.as_ref())?;
        let seconds = start.elapsed().as_secs_f64();
        let names: &[_] = if let Bar::Controllers(names) = task.bar { names } else { &[] };
        let mut controllers = Vec::new();
        for name in names {
            controllers.push((*name, lab.judged(task.env, name, task.seeds, None)?.0));
        }
        let row = Row { task, agents, controllers, steps, seconds };
        println!("{} on {}: {} of {} seeds", task.agent, task.env, row.reached(), task.seeds);
        rows.push(row);
    }
    Ok(rows)
}

struct Lab {
    phalanx: PathBuf,
    folder: PathBuf,
}

impl Lab {
    /// Trains with the seeds from 1 on, and judges each agent; also answers with the steps of a run.
    fn judged(
        &self,
        env: &str,
        agent: &str,
        seeds: usize,
        recipe: Option<&Recipe>,
    ) -> Result<(Vec<Judged>, u64), String> {
        let name = format!("{env}-{agent}{}", recipe.map_or(String::new(), |recipe| format!("-{}", recipe.name)));
        let (of_run, of_agent) = recipe.map_or(("", ""), |recipe| (recipe.run, recipe.agent));
        let sweep = self.folder.join("sweeps").join(&name);
        // Two rows may have a controller in common.
        if !sweep.exists() {
            let file = self.folder.join(&name).with_extension("toml");
            let text = format!(
                "env = \"{env}\"\n[run]\nsave_agent_checkpoint = true\n{of_run}\n[agent]\nname = \"{agent}\"\n{of_agent}\n\
                 [sweep]\nseeds = {seeds}\n"
            );
            fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
            println!("{name}, {seeds} seeds");
            run(Command::new(&self.phalanx).arg("sweep").arg(&file).arg("--root").arg(&self.folder))?;
        }
        let judge = |seed: usize| self.evaluate(&sweep.join(format!("runs/c0000-s{seed}")), env);
        let judged: Vec<_> = (1..=seeds).map(judge).collect::<Result<_, _>>()?;
        let steps = judged.first().map_or(0, |(_, steps)| *steps);
        Ok((judged.into_iter().map(|(judged, _)| judged).collect(), steps))
    }

    fn evaluate(&self, run: &Path, env: &str) -> Result<(Judged, u64), String> {
        let output = Command::new(&self.phalanx)
            .arg("evaluate")
            .arg(run)
            .args(["--json", "--episodes", episodes(env)])
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cannot run phalanx: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let number = |key: &str| {
            number(&text, key).ok_or_else(|| format!("`phalanx evaluate` gave no {key} for {}", run.display()))
        };
        let mean_cost = if env == CONSTRAINED { number("mean_cost")? } else { 0.0 };
        let judged = Judged { mean_return: number("mean_return")?, mean_cost, training_seconds: seconds_of(run)? };
        Ok((judged, number("global_step")? as u64))
    }
}

/// How long a run took, by its own account.
fn seconds_of(run: &Path) -> Result<f64, String> {
    let file = run.join("run_metadata.json");
    let text = fs::read_to_string(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    number(&text, "duration_seconds").ok_or_else(|| format!("{} says no duration_seconds", file.display()))
}

/// A number of a flat JSON document.
fn number(json: &str, key: &str) -> Option<f64> {
    let after = json.split_once(&format!("\"{key}\":"))?.1;
    after.split([',', '}', '\n']).next()?.trim().parse().ok()
}

fn markdown(rows: &[Row]) -> String {
    let mut table =
        "| environment | agent | steps | seconds | return of the seeds: mean (worst to best) | violations | needed | \
                     seeds that reach it | |\n|---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for row in rows {
        let returns = || row.agents.iter().map(|judged| judged.mean_return);
        let digits = if matches!(row.task.bar, Bar::Return(least) if least.abs() < 1.0) { 3 } else { 1 };
        // Writing to a text cannot fail.
        let _ = writeln!(
            table,
            "| `{}` | `{}`{} | {} | {:.2} | {:.digits$} ({:.digits$} to {:.digits$}) | {:.2} | {} | {} of {} | {} |",
            row.task.env,
            row.task.agent,
            row.task.recipe.as_ref().map_or(String::new(), |recipe| format!(", {} settings", recipe.name)),
            row.steps,
            mean(&row.agents, |judged| judged.training_seconds),
            mean(&row.agents, |judged| judged.mean_return),
            returns().fold(f64::INFINITY, f64::min),
            returns().fold(f64::NEG_INFINITY, f64::max),
            mean(&row.agents, |judged| judged.mean_cost),
            row.needed(),
            row.reached(),
            row.agents.len(),
            row.verdict(),
        );
    }
    table
}

fn json(rows: &[Row]) -> String {
    let list = |judged: &[Judged], of: fn(&Judged) -> f64| {
        format!("[{}]", judged.iter().map(|judged| of(judged).to_string()).collect::<Vec<_>>().join(", "))
    };
    let figures = |judged: &[Judged]| {
        let (returns, costs) = (list(judged, |j| j.mean_return), list(judged, |j| j.mean_cost));
        let seconds = list(judged, |j| j.training_seconds);
        format!("\"mean_returns\": {returns}, \"mean_costs\": {costs}, \"training_seconds\": {seconds}")
    };
    let row = |row: &Row| {
        let controllers: Vec<_> =
            row.controllers.iter().map(|(name, judged)| format!("\"{name}\": {{{}}}", figures(judged))).collect();
        format!(
            "  {{\"env\": \"{}\", \"agent\": \"{}\", \"settings\": \"{}\", \"steps\": {}, \"seconds\": {:.1}, {}, \
             \"controllers\": {{{}}}, \"reached\": {}, \"passed\": {}}}",
            row.task.env,
            row.task.agent,
            row.task.recipe.as_ref().map_or("preset", |recipe| recipe.name),
            row.steps,
            row.seconds,
            figures(&row.agents),
            controllers.join(", "),
            row.reached(),
            row.passed(),
        )
    };
    format!("[\n{}\n]\n", rows.iter().map(row).collect::<Vec<_>>().join(",\n"))
}
