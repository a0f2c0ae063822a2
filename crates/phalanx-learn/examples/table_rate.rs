//! Rates of learning tic-tac-toe in a table: the single-thread runtime, shards on one and two threads, and workers on one
//! table, in turn, so that a busy machine is as bad for one as for another. Arguments: agents, and `key=value` of the
//! agent for all of them; `only=single` and the like choose.

use std::time::Instant;

use phalanx_core::batch::{Autoreset, BatchConfig};
use phalanx_envs::registry;
use phalanx_learn::learner::Report;
use phalanx_learn::run::agents::AgentConfig;
use phalanx_learn::run::config::{RunConfig, create_config};
use phalanx_learn::tabular::{TableLearner, learner};

/// Settings of an agent.
type Settings = &'static [(&'static str, &'static str)];

/// What is measured: its name, its threads, and its settings.
const CASES: [(&str, usize, Settings); 7] = [
    ("single", 1, &[("shards", "1")]),
    ("deterministic", 1, &[]),
    ("deterministic", 2, &[]),
    ("atomic", 1, &[("deterministic", "false"), ("num_workers", "1")]),
    ("atomic", 2, &[("deterministic", "false"), ("num_workers", "2")]),
    ("racy", 1, &[("deterministic", "false"), ("num_workers", "1"), ("racy", "true")]),
    ("racy", 2, &[("deterministic", "false"), ("num_workers", "2"), ("racy", "true")]),
];

fn made(agents: usize, threads: usize, settings: &[(&str, &str)]) -> Box<dyn TableLearner> {
    let config = create_config("TicTacToe-v0", "q_learning", settings).expect("settings of a table");
    let AgentConfig::QLearning(settings) = &config.agent else { unreachable!("q_learning has a table") };
    let run = RunConfig { num_envs: agents, steps_per_env: 1 << 40, threads: Some(threads), ..config.run };
    let env = registry::find("TicTacToe-v0").expect("tic-tac-toe is there");
    learner(settings, &run, &mut |num_envs, seed| {
        env.batch(&BatchConfig { num_envs, seed, autoreset: Autoreset::SameStep, ..BatchConfig::default() })
    })
    .expect("a learner")
}

/// Seconds that the threads of this process have computed, which other processes do not lengthen.
fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e9
}

/// Millions of transitions in a second, and in a second of a core.
fn rate(learner: &mut dyn TableLearner) -> [f64; 2] {
    let (clock, cpu, start, mut report) = (Instant::now(), cpu_seconds(), learner.global_step(), Report::default());
    while clock.elapsed().as_secs_f64() < 0.2 {
        learner.advance(u64::MAX, &mut report).expect("it learns");
    }
    let transitions = (learner.global_step() - start) as f64 / 1e6;
    [transitions / clock.elapsed().as_secs_f64(), transitions / (cpu_seconds() - cpu)]
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let agents = args.first().map_or(64, |agents| agents.parse().expect("a number of agents"));
    let given: Vec<(&str, &str)> = args.iter().skip(1).filter_map(|setting| setting.split_once('=')).collect();
    let (chosen, given): (Vec<_>, Vec<_>) = given.into_iter().partition(|(key, _)| *key == "only");
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|(_, chosen)| name == *chosen);
    let cases: Vec<_> = CASES.iter().filter(|(name, ..)| wanted(name)).collect();
    let mut learners: Vec<_> =
        cases.iter().map(|(_, threads, own)| made(agents, *threads, &[given.as_slice(), own].concat())).collect();
    let mut rates = vec![Vec::new(); cases.len()];
    for _ in 0..9 {
        learners.iter_mut().zip(&mut rates).for_each(|(learner, rates)| rates.push(rate(&mut **learner)));
    }
    for ((name, threads, _), rates) in cases.iter().zip(rates) {
        let [wall, cpu] = [0, 1].map(|which| {
            let mut rates: Vec<f64> = rates.iter().map(|pair| pair[which]).collect();
            rates.sort_by(f64::total_cmp);
            format!("median {:5.2}, best {:5.2}", rates[4], rates[8])
        });
        println!("{name:>13} {threads}: M/s {wall}; M/s of a core {cpu}");
    }
}
