//! Trains PPO on any registered environment and says how fast and how well.
//!
//! ```text
//! cargo run --release -p phalanx-learn --example ppo -- env=CartPole-v1 num_envs=8 seeds=0..10 learning_rate=1e-3
//! ```
//!
//! Keys of its own: `env`, `num_envs`, `seeds` (`3` or `0..10`), `threads`, `env.NAME` (settings of the environment),
//! and `until` with `every`: training ends when the evaluation after every so many updates reaches this mean return.
//! All others are those of [`ppo::Config`]. Times are of training, set-up included and evaluations not.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_core::batch::{Actions, ActionsMut, Autoreset, BatchConfig};
use phalanx_core::pool::Pool;
use phalanx_envs::registry;
use phalanx_learn::agents::ppo::{self, Ppo};
use phalanx_learn::learner::{Greedy, Learner, Report};
use phalanx_learn::world::World;
use serde_json::{Map, Value};

const EPISODES: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let mut env = "CartPole-v1".to_owned();
    let (mut num_envs, mut seeds, mut threads, mut until, mut every) = (8, 0..1, 2, None, 1);
    let mut settings = Vec::new();
    let mut agent = Map::new();
    for argument in std::env::args().skip(1) {
        let (key, value) = argument.split_once('=').ok_or("arguments are key=value")?;
        match key {
            "env" => env = value.to_owned(),
            "num_envs" => num_envs = value.parse()?,
            "threads" => threads = value.parse()?,
            "until" => until = Some(value.parse::<f64>()?),
            "every" => every = value.parse()?,
            "seeds" => {
                let (first, last) = value.split_once("..").unwrap_or((value, ""));
                let first = first.parse()?;
                seeds = first..if last.is_empty() { first + 1 } else { last.parse()? };
            }
            _ if key.starts_with("env.") => settings.push((key[4..].to_owned(), value.to_owned())),
            _ => {
                agent.insert(key.to_owned(), serde_json::from_str::<Value>(value)?);
            }
        }
    }
    let config: ppo::Config = serde_json::from_value(Value::Object(agent))?;
    let pool = Arc::new(Pool::new(threads));
    let entry = registry::find(&env)?;
    let world = |num_envs: usize, seed: u64| -> Result<World, Box<dyn Error>> {
        let config = BatchConfig {
            num_envs,
            seed,
            autoreset: Autoreset::SameStep,
            pool: pool.clone(),
            settings: settings.clone(),
            ..BatchConfig::default()
        };
        Ok(World::new(entry.batch(&config)?, 1)?)
    };
    println!("seed    steps   time [s]    steps/s   return (std, min)");
    for seed in seeds {
        let start = Instant::now();
        let mut judging = Duration::ZERO;
        let mut ppo = Ppo::new(config.clone(), world(num_envs, seed)?, seed, pool.clone())?;
        let mut report = Report::default();
        let mut updates = 0;
        while ppo.global_step() < config.total_timesteps {
            ppo.advance(config.total_timesteps, &mut report)?;
            updates += 1;
            if let Some(until) = until.filter(|_| updates % every == 0) {
                let pause = Instant::now();
                let mean = mean(&evaluate(&mut *ppo.greedy(), world(EPISODES, 1_000_000)?)?);
                judging += pause.elapsed();
                if mean >= until {
                    break;
                }
            }
        }
        let time = (start.elapsed() - judging).as_secs_f64();
        let returns = evaluate(&mut *ppo.greedy(), world(EPISODES, 1_000_000)?)?;
        let average = mean(&returns);
        let spread = (returns.iter().map(|x| (x - average).powi(2)).sum::<f64>() / EPISODES as f64).sqrt();
        let worst = returns.iter().copied().fold(f64::INFINITY, f64::min);
        let steps = ppo.global_step();
        let speed = steps as f64 / time;
        println!("{seed:4} {steps:8} {time:10.3} {speed:10.0}   {average:.2} ({spread:.2}, {worst:.2})");
        if std::env::var_os("METRICS").is_some() {
            report.means().for_each(|(tag, value)| println!("     {tag} {value:.5}"));
        }
    }
    Ok(())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns of the first episode of each environment.
fn evaluate(agent: &mut dyn Greedy, mut world: World) -> Result<Vec<f64>, Box<dyn Error>> {
    let components = world.spec().action.components();
    let (mut choices, mut values) = (vec![0; EPISODES * components], vec![0.0; EPISODES * components]);
    let (mut returns, mut ended) = (vec![0.0; EPISODES], vec![false; EPISODES]);
    let mut report = Report::default();
    while ended.iter().any(|ended| !ended) {
        if world.bounds().is_some() {
            agent.act(world.obs(), world.masks(), ActionsMut::Continuous(&mut values));
            world.step(Actions::Continuous(&values), &mut report)?;
        } else {
            agent.act(world.obs(), world.masks(), ActionsMut::Discrete(&mut choices));
            world.step(Actions::Discrete(&choices), &mut report)?;
        }
        for env in 0..EPISODES {
            if !ended[env] {
                returns[env] += f64::from(world.rewards()[env]);
                ended[env] = world.terminated()[env] | world.truncated()[env];
            }
        }
    }
    Ok(returns)
}
