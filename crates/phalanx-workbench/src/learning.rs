//! Cases of the lab in which an agent learns: training, decisions alone, updates alone, and whole runs until the task
//! is solved.

use phalanx_core::batch::{Autoreset, BatchConfig};
use phalanx_envs::registry;
use phalanx_lab::case::CaseSpec;
use phalanx_lab::memory;
use phalanx_lab::memory_profile::Predicted;
use phalanx_lab::record::Kind;
use phalanx_lab::stats::checksum::{Word, mix};
use phalanx_lab::workload::{Work, Workload, WorkloadMemory};
use phalanx_learn::Stop;
use phalanx_learn::evaluation::Choice;
use phalanx_learn::learner::{Greedy, Learner, Report};
use phalanx_learn::run::agents::AgentConfig;
use phalanx_learn::run::config::{Config, create_config};
use phalanx_learn::trainer::{self, advance_chunk};
use phalanx_learn::world::World;

use crate::error::{Error, Result, stopped};
use crate::kinds::check_kind;
use crate::learner_subject::{buffer_size, memory_model};

/// Steps of all environments that schedules of a case refer to, and after which they stay as they are.
const SCHEDULED: usize = 1_000_000;

/// The settings of an agent's run: its preset for the environment, and `more` over it. The only place that knows how
/// names become settings.
pub(crate) fn settings(env: &str, agent: &str, more: &[(String, String)]) -> Result<Config> {
    let more: Vec<_> = more.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    // The name that presets go by.
    Ok(create_config(registry::find(env)?.spec().name, agent, &more)?)
}

/// Settings of an environment under the names that they have in a run.
pub(crate) fn of_env(settings: &[(String, String)]) -> impl Iterator<Item = (String, String)> + '_ {
    settings.iter().map(|(key, value)| (format!("env.{key}"), value.clone()))
}

/// The settings of a case. An agent with a buffer learns from the first transition on: what comes before is no training.
pub fn config(case: &CaseSpec) -> Result<Config> {
    check_kind(case.kind, &case.agent)?;
    if case.safety != "enforce" {
        return Err(Error::input(format!("the safety mode is '{}', but agents learn with enforce", case.safety)));
    }
    let mut all = vec![
        ("run.num_envs".to_owned(), case.num_envs.to_string()),
        ("run.threads".to_owned(), case.threads.to_string()),
        ("run.seed".to_owned(), case.seed.to_string()),
        ("run.scan_chunk_size".to_owned(), case.scan_chunk_size.to_string()),
    ];
    match case.kind {
        // So many episodes are what the thresholds refer to.
        Kind::TimeToSolve => all.push(("run.eval_rollouts".to_owned(), "100".to_owned())),
        _ => all.push(("run.total_timesteps".to_owned(), SCHEDULED.max(case.num_envs).to_string())),
    }
    if case.agent == "dqn" && case.kind != Kind::TimeToSolve {
        all.push(("agent.learning_starts".to_owned(), "0".to_owned()));
    }
    // Those of the agent have a section in their names.
    let (of_run, of_env_alone): (Vec<_>, Vec<_>) = case
        .settings
        .iter()
        .cloned()
        .partition(|(key, _)| ["env.", "agent.", "run."].iter().any(|s| key.starts_with(s)));
    all.extend(of_env(&of_env_alone).chain(of_run));
    settings(&case.env, &case.agent, &all)
}

/// The agent of a configuration, untrained, on environments of the registry.
pub(crate) fn learner(config: &Config) -> Result<Box<dyn Learner>> {
    let entry = registry::find(&config.env.name)?;
    Ok(trainer::learner(config, &|batch: &BatchConfig| entry.batch(batch))?)
}

/// What a function allocates and keeps, beside what it answers; unknown without a counting allocator.
pub(crate) fn kept<T>(make: impl FnOnce() -> Result<T>) -> Result<(T, Option<u64>)> {
    let live = || memory::allocator().map(|allocator| allocator.counts().live_bytes);
    let before = live();
    let made = make()?;
    Ok((made, before.zip(live()).map(|(before, after)| after.saturating_sub(before))))
}

/// Bytes that a case will take, without taking them.
pub fn predicted(case: &CaseSpec) -> Result<Predicted> {
    let config = config(case)?;
    let model = memory_model(&config)?;
    let state = model.bytes_per_env * case.num_envs as f64;
    let total = model.bytes(case.num_envs, buffer_size(&config).unwrap_or(0), 1);
    Ok(Predicted { state_bytes: state, agent_bytes: total - state })
}

/// Builds the workload of a case in which an agent learns.
pub fn of(case: &CaseSpec) -> Result<Box<dyn Workload>> {
    let config = config(case)?;
    if case.kind == Kind::TimeToSolve {
        return Ok(Box::new(Solving::new(config)?));
    }
    let (mut learner, bytes) = kept(|| learner(&config))?;
    let memory = WorkloadMemory {
        array_bytes: bytes,
        bytes_per_env: bytes.map(|bytes| bytes as f64 / case.num_envs.max(1) as f64),
    };
    let chunk = (case.scan_chunk_size * case.num_envs) as u64;
    Ok(match case.kind {
        Kind::Training => Box::new(Training {
            is_repeatable: is_repeatable(&config),
            learner,
            chunk,
            proof: Proof::default(),
            memory,
        }),
        Kind::GradientUpdate => {
            begin(learner.as_mut())?;
            if learner.relearn(&mut Report::default())? == 0 {
                return Err(Error::input(format!("{} has no updates apart from its steps", case.agent)));
            }
            Box::new(Updates { learner, proof: Proof::default(), memory })
        }
        Kind::PolicyForward => {
            Box::new(Forward { decisions: Decisions::new(&config, learner.as_ref())?, proof: Proof::default(), memory })
        }
        _ => unreachable!("{} is none in which an agent learns", case.kind),
    })
}

/// Makes steps until there is something to learn from: a roll-out, or some transitions in a buffer.
pub(crate) fn begin(learner: &mut dyn Learner) -> Result<(), phalanx_learn::Error> {
    const FIRST: u64 = 4096;
    advance_chunk(learner, Some(FIRST), u64::MAX, &mut Report::default())
}

/// Whether the same seed gives the same bits: not where threads change one table as they come.
fn is_repeatable(config: &Config) -> bool {
    !matches!(&config.agent, AgentConfig::QLearning(agent) if !agent.deterministic)
}

/// Proof of work: a running hash of everything that a learner reports, which depends on all that it computed.
#[derive(Default)]
struct Proof {
    hash: u64,
    report: Report,
}

impl Proof {
    fn word(&mut self, word: u64) {
        self.hash = mix(self.hash ^ word);
    }

    /// Takes what was reported since the last time.
    fn take(&mut self) {
        let mut report = std::mem::take(&mut self.report);
        report.means().for_each(|(_, value)| self.word(value.word()));
        self.word(report.episodes.count());
        for mean in [report.episodes.mean_return(), report.episodes.mean_length()].into_iter().flatten() {
            self.word(mean.word());
        }
        report.clear();
        self.report = report;
    }
}

/// Training as a run does it; an iteration is a chunk, a step one of an environment.
struct Training {
    learner: Box<dyn Learner>,
    chunk: u64,
    is_repeatable: bool,
    proof: Proof,
    memory: WorkloadMemory,
}

impl Workload for Training {
    fn run(&mut self, iterations: u64) -> phalanx_lab::Result<Work> {
        let start = self.learner.global_step();
        for _ in 0..iterations {
            advance_chunk(self.learner.as_mut(), Some(self.chunk), u64::MAX, &mut self.proof.report)
                .map_err(stopped)?;
            match self.is_repeatable {
                true => self.proof.take(),
                // What it learns depends on which thread was first, and so does what happens to it.
                false => self.proof.report.clear(),
            }
        }
        let made = self.learner.global_step();
        self.proof.word(made);
        Ok(Work { steps: made - start, checksum: self.proof.hash })
    }

    fn memory(&self) -> WorkloadMemory {
        self.memory
    }
}

/// Updates alone; an iteration is what follows one roll-out, or one gradient from a buffer.
struct Updates {
    learner: Box<dyn Learner>,
    proof: Proof,
    memory: WorkloadMemory,
}

impl Workload for Updates {
    fn run(&mut self, iterations: u64) -> phalanx_lab::Result<Work> {
        let mut steps = 0;
        for _ in 0..iterations {
            steps += self.learner.relearn(&mut self.proof.report).map_err(stopped)?;
            self.proof.take();
        }
        Ok(Work { steps, checksum: self.proof.hash })
    }

    fn memory(&self) -> WorkloadMemory {
        self.memory
    }
}

/// Decisions on observations that were made beforehand.
pub(crate) struct Decisions {
    policy: Box<dyn Greedy>,
    /// Observations and masks of some steps, after which they repeat.
    seen: Vec<(Vec<f32>, Vec<bool>)>,
    calls: usize,
    chosen: Choice,
    num_envs: u64,
}

/// Steps whose observations are decided on.
const SEEN: usize = 16;

impl Decisions {
    pub(crate) fn new(config: &Config, learner: &dyn Learner) -> Result<Self> {
        let num_envs = config.run.num_envs;
        let batch = registry::find(&config.env.name)?.batch(&BatchConfig {
            num_envs,
            seed: config.run.seed,
            autoreset: Autoreset::SameStep,
            ..trainer::batch_config(config)?
        })?;
        let mut world = World::new(batch, config.agent.sight())?;
        let chosen = Choice::of(&world.spec().action, num_envs);
        let mut policy = learner.greedy();
        policy.forget(&vec![true; num_envs]);
        let mut decisions = Self { policy, seen: Vec::new(), calls: 0, chosen, num_envs: num_envs as u64 };
        for _ in 0..SEEN {
            decisions.seen.push((world.obs().to_vec(), world.masks().to_vec()));
            decisions.calls = decisions.seen.len() - 1;
            decisions.decide();
            world.step(decisions.chosen.actions(), &mut Report::default())?;
        }
        decisions.calls = 0;
        Ok(decisions)
    }

    /// Decides once for each environment; answers a hash of what was chosen.
    pub(crate) fn decide(&mut self) -> u64 {
        let (obs, masks) = &self.seen[self.calls % self.seen.len()];
        self.policy.act(obs, masks, self.chosen.out());
        self.calls += 1;
        let add = |sum: u64, word: u64| sum.wrapping_mul(31).wrapping_add(word);
        match &self.chosen {
            Choice::Discrete(all) => all.iter().fold(0, |sum, choice| add(sum, *choice as u64)),
            Choice::Continuous(all) => all.iter().fold(0, |sum, value| add(sum, value.word())),
        }
    }
}

/// Decisions alone; an iteration is one for each environment.
struct Forward {
    decisions: Decisions,
    proof: Proof,
    memory: WorkloadMemory,
}

impl Workload for Forward {
    fn run(&mut self, iterations: u64) -> phalanx_lab::Result<Work> {
        for _ in 0..iterations {
            let chosen = self.decisions.decide();
            self.proof.word(chosen);
        }
        Ok(Work { steps: iterations * self.decisions.num_envs, checksum: self.proof.hash })
    }

    fn memory(&self) -> WorkloadMemory {
        self.memory
    }
}

/// Whole runs from the first weights until an evaluation reaches the environment's threshold; an iteration is one.
struct Solving {
    config: Config,
    threshold: f64,
    /// Steps of all environments that it takes, the same each time.
    steps: u64,
    hash: u64,
}

impl Solving {
    /// After a first run: what is not solved cannot be timed.
    fn new(config: Config) -> Result<Self> {
        let name = registry::find(&config.env.name)?.spec().name;
        let Some(threshold) = registry::find(name)?.spec().reward_threshold else {
            return Err(Error::input(format!("{name} has no return that counts as solved, so nothing can be timed")));
        };
        let mut solving = Self { config, threshold, steps: 0, hash: 0 };
        let (best, steps) = solving.solve()?;
        solving.steps = steps;
        if best < threshold {
            let agent = solving.config.agent.name();
            return Err(Error::input(format!(
                "{agent} does not solve {name} within {steps} steps: its best evaluation is {best:.1}, but {threshold} \
                 counts as solved"
            )));
        }
        Ok(solving)
    }

    /// The best mean return of an evaluation, and the steps until the end.
    fn solve(&mut self) -> Result<(f64, u64)> {
        let entry = registry::find(&self.config.env.name)?;
        let (mut best, threshold) = (f64::NEG_INFINITY, self.threshold);
        let make = |batch: &BatchConfig| entry.batch(batch);
        let watch = &mut |now: &trainer::Progress| {
            best = now.eval_return.unwrap_or(f64::NEG_INFINITY).max(best);
            best < threshold
        };
        let trained = trainer::train(&self.config, &make, &mut || Ok(None), None, watch, Stop::default())?;
        for mean in &trained.results.eval_metrics.mean_return {
            self.hash = mix(self.hash ^ mean.word());
        }
        let steps = trained.learner.global_step();
        self.hash = mix(self.hash ^ steps);
        Ok((best, steps))
    }
}

impl Workload for Solving {
    fn run(&mut self, iterations: u64) -> phalanx_lab::Result<Work> {
        for _ in 0..iterations {
            let (_, steps) = self.solve().map_err(stopped)?;
            if steps != self.steps {
                return Err(stopped(format!("a run of {} steps took {steps} the next time", self.steps)));
            }
        }
        Ok(Work { steps: iterations, checksum: self.hash })
    }
}
