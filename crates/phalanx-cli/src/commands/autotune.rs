//! `phalanx autotune`: the chunk size that is fastest here, measured once and remembered.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use phalanx_core::safety::SafetyMode;
use phalanx_lab::autotune::cache::{CacheFile, Loaded};
use phalanx_lab::autotune::max_envs::{self, MaxEnvs, Probe};
use phalanx_lab::autotune::memory_model::MemoryModel;
use phalanx_lab::autotune::sweep::{Setting, Speed, SweepPlan, sweep};
use phalanx_lab::autotune::{Event, Request, Subject, Tuned, tune};
use phalanx_lab::budget::MemoryBudget;
use phalanx_lab::campaign::Process;
use phalanx_lab::case::CaseSpec;
use phalanx_lab::format::{format_bytes, format_number};
use phalanx_lab::record::Kind;
use phalanx_lab::stats::verdict::Verdict;
use phalanx_lab::worker::Worker;
use phalanx_lab::{Error, memory};
use phalanx_learn::run::config::Config;
use phalanx_workbench::rollout_subject::RolloutSubject;
use phalanx_workbench::tuning::{self, Tunable, VARIABLE};

use crate::args::{EnvArgs, OutputArgs, PolicyArgs, count, memory_budget, whole};
use crate::commands::{self, print, print_json};
use crate::failure::Failure;
use crate::monitoring::{MonitorArgs, Monitoring, ProcessMonitorArgs};
use crate::progress::Progress;
use crate::text;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AutotuneArgs {
    #[command(subcommand)]
    command: Option<AutotuneCommand>,
    #[command(flatten)]
    run: MaybeRun,
    /// Show what is remembered instead
    #[arg(long)]
    show_cache: bool,
}

impl AutotuneArgs {
    /// Whether it looks at the machine, and not at what is remembered.
    pub(crate) fn measures(&self) -> bool {
        match &self.command {
            Some(AutotuneCommand::ShowCache(_) | AutotuneCommand::ClearCache(_)) => false,
            Some(AutotuneCommand::MaxEnvs(_) | AutotuneCommand::Verify(_)) => true,
            None => !self.show_cache,
        }
    }
}

#[derive(Debug, Subcommand)]
enum AutotuneCommand {
    /// Show what is remembered, and where
    ShowCache(ShowArgs),
    /// Forget everything, so that the next run measures again
    ClearCache(ClearArgs),
    /// Find the largest number of environments that fit into memory
    #[command(allow_negative_numbers = true)]
    MaxEnvs(Box<MaxEnvsArgs>),
    /// Judge the choice: time every candidate in turns, and fail if it is more than 5 % behind the best
    #[command(allow_negative_numbers = true)]
    Verify(Box<VerifyArgs>),
}

#[derive(Debug, Args)]
struct ShowArgs {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ClearArgs {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    env: EnvArgs,
    #[command(flatten)]
    agent: AgentArgs,
    /// Number of environments; counts may be written 10_000, 10k, 1M or 1G
    #[arg(long, value_name = "N", value_parser = count)]
    num_envs: usize,
    #[command(flatten)]
    limits: LimitArgs,
    /// Measure even if the result is remembered
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    monitor: MonitorArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The request, unless there is a subcommand or `--show-cache` instead. (clap's own `Option` of flattened arguments
/// does not see those that are flattened in turn.) And how to print, which `--show-cache` takes too.
#[derive(Debug)]
struct MaybeRun(Option<Box<RunArgs>>, OutputArgs);

impl Args for MaybeRun {
    fn augment_args(command: clap::Command) -> clap::Command {
        RunArgs::augment_args_for_update(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        RunArgs::augment_args_for_update(command)
    }
}

impl FromArgMatches for MaybeRun {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = ["env", "num_envs"].iter().all(|name| matches.contains_id(name));
        let run = is_given.then(|| RunArgs::from_arg_matches(matches)).transpose()?;
        Ok(Self(run.map(Box::new), OutputArgs::from_arg_matches(matches)?))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Debug, Args)]
struct MaxEnvsArgs {
    #[command(flatten)]
    env: EnvArgs,
    #[command(flatten)]
    agent: AgentArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    monitor: ProcessMonitorArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct VerifyArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Turns of each candidate
    #[arg(long, value_name = "R", default_value = "15", value_parser = whole::<u16>(3..=1000))]
    rounds: u16,
    /// The longest that the choice and its strongest rival take turns to find out, in seconds
    #[arg(long, value_name = "S", default_value = "90", value_parser = whole::<u64>(1..=86_400))]
    most_seconds: u64,
}

/// What acts; a policy under the name that tuning knows it by.
#[derive(Debug, Args)]
struct AgentArgs {
    /// Agent: random, constant, open_loop, periodic, bang-bang or pid, or one that learns: dqn, pqn, ppo or
    /// q_learning, whose training is timed
    #[arg(long, alias = "policy", value_name = "A", default_value = "random")]
    agent: String,
    /// Argument or setting of the agent, such as kp=2 or rollout_steps=64; may be given several times
    #[arg(long = "policy-arg", alias = "agent-arg", value_name = "K=V", value_parser = crate::args::key_value, allow_hyphen_values = true)]
    policy_args: Vec<(String, String)>,
}

#[derive(Debug, Args)]
struct LimitArgs {
    /// Transitions in a replay buffer, whose memory is set aside [default: that of the preset for dqn, else
    /// none]
    #[arg(long, value_name = "B", value_parser = count)]
    buffer_size: Option<usize>,
    /// Threads that share the work [default: tuned as well]
    #[arg(long, value_name = "J", value_parser = threads)]
    threads: Option<usize>,
    /// Memory that may be taken: a share of what is available, or an amount such as 500M or 12G
    #[arg(long, value_name = "M", default_value = "0.8", value_parser = memory_budget)]
    memory_budget: MemoryBudget,
    /// Seconds after which the best so far is taken [default: 60, of which a search uses about 15]
    #[arg(long, value_name = "S", value_parser = seconds)]
    time_budget: Option<f64>,
    /// Least time of a sample, in milliseconds
    #[arg(long, value_name = "MS", default_value = "50", value_parser = whole::<u16>(1..=65_535))]
    sample_ms: u16,
}

impl LimitArgs {
    fn sample(&self) -> Duration {
        Duration::from_millis(self.sample_ms.into())
    }
}

impl AgentArgs {
    /// What is tuned: an agent that learns, or a policy under the name that the engine knows it by.
    fn tunable(&self, env: &EnvArgs, num_envs: usize, limits: &LimitArgs) -> Result<Tunable, Failure> {
        let learns = tuning::learner(&self.agent).is_some();
        if learns && (env.safety != SafetyMode::Enforce || !env.constraints.is_empty()) {
            return Err(Failure::input(format!(
                "--agent is {}, which learns under the environment's own constraints: leave out --safety and --constraint",
                self.agent
            )));
        }
        let arguments = &self.policy_args;
        Ok(Tunable::new(&env.env, &env.config(), &self.agent, arguments, num_envs, limits.buffer_size)?)
    }
}

fn threads(text: &str) -> Result<usize, String> {
    let allowed = "a whole number from 1 to 1024 is needed";
    text.parse().ok().filter(|threads| (1..=1024).contains(threads)).ok_or_else(|| allowed.to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds from 0 to 86400 is needed".to_owned())
}

pub(crate) fn run(args: &AutotuneArgs) -> Result<(), Failure> {
    match (&args.command, &args.run.0) {
        (Some(AutotuneCommand::ShowCache(args)), _) => show_cache(&args.output),
        (Some(AutotuneCommand::ClearCache(args)), _) => clear_cache(args),
        (Some(AutotuneCommand::MaxEnvs(args)), _) => largest(args),
        (Some(AutotuneCommand::Verify(args)), _) => verify(args),
        (None, _) if args.show_cache => show_cache(&args.run.1),
        (None, Some(run)) => tune_now(run),
        (None, None) => {
            Err(Failure::input("autotune needs --env and --num-envs, or one of show-cache, clear-cache and max-envs"))
        }
    }
}

impl RunArgs {
    fn tunable(&self) -> Result<Tunable, Failure> {
        self.agent.tunable(&self.env, self.num_envs, &self.limits)
    }

    fn request<'a>(&self, tunable: &'a Tunable) -> Request<'a> {
        Request {
            threads: self.limits.threads,
            memory_budget: self.limits.memory_budget,
            force: self.force,
            sample: self.limits.sample(),
            time_budget: self.limits.time_budget.map(Duration::from_secs_f64),
            ..tunable.request(self.num_envs, self.limits.buffer_size)
        }
    }
}

/// Watches the loops of a search. A log that fails ends no search, but is told at the end.
struct Watch<'a> {
    subject: &'a Tunable,
    num_envs: u64,
    /// Steps of each environment that the monitor has heard of.
    heard: u64,
    monitor: Monitoring,
    /// For the monitor's lines: a search does not know how far it is.
    progress: Progress,
}

impl<'a> Watch<'a> {
    fn start(args: &RunArgs, subject: &'a Tunable) -> Result<Self, Failure> {
        let mut monitor = args.monitor.start(args.num_envs)?;
        monitor.begin();
        let (progress, num_envs) = (Progress::new("autotune", 0, true), args.num_envs as u64);
        Ok(Self { subject, num_envs, heard: 0, monitor, progress })
    }

    /// A round has ended.
    fn round(&mut self) {
        let made = self.subject.steps_made() / self.num_envs;
        self.monitor.follow(made - self.heard, self.num_envs, &self.progress);
        self.heard = made;
    }

    fn close(mut self) -> Result<(), Failure> {
        // Steps after the last round.
        self.round();
        self.monitor.close(&self.progress)
    }
}

fn tune_now(args: &RunArgs) -> Result<(), Failure> {
    let subject = args.tunable()?;
    let quiet = args.output.quiet;
    let mut watch = Watch::start(args, &subject)?;
    let tuned = tuned(&args.request(&subject), quiet, &mut || watch.round())?;
    watch.close()?;
    match (args.output.json, quiet) {
        (true, _) => print_json(&tuned),
        (false, true) => print(&format!("{}\n", tuned.scan_chunk_size)),
        (false, false) => print(&format!("{}{tuned}", subject.memory_line(&args.request(&subject)))),
    }
}

/// The choice against all candidates that fit; the exit code tells whether it is good.
fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    const ALLOWED: f64 = 0.05;
    let run = &args.run;
    let subject = run.tunable()?;
    let request = run.request(&subject);
    let mut watch = Watch::start(run, &subject)?;
    let tuned = tuned(&request, run.output.quiet, &mut || watch.round())?;
    // All that fit, also those that the tuner had no time for; all numbers of threads, unless several loops do not fit.
    let tiles = subject.subject().tiles();
    let chosen = Setting {
        threads: tuned.threads,
        chunk_size: tuned.scan_chunk_size,
        tile: tuned.tile.or_else(|| tiles.first().copied()),
    };
    let tiles: Vec<Option<usize>> =
        if tiles.is_empty() { vec![None] } else { tiles.iter().copied().map(Some).collect() };
    let mut threads = request.fitting_threads();
    if threads.is_empty() {
        say!("note: loops with other numbers of threads would not fit into memory beside each other");
        threads.push(tuned.threads);
    }
    let chunks = request.fitting_candidates();
    let with = |threads: usize, tile: Option<usize>| {
        chunks.iter().map(move |&chunk_size| Setting { threads, chunk_size, tile })
    };
    let of_threads = |threads: usize| tiles.iter().flat_map(move |&tile| with(threads, tile));
    let candidates: Vec<Setting> = threads.into_iter().flat_map(of_threads).collect();
    let plan = SweepPlan {
        rounds: usize::from(args.rounds),
        sample: run.limits.sample(),
        allowed: ALLOWED,
        most: Duration::from_secs(args.most_seconds),
    };
    let mut last = Instant::now();
    let after = |what: &str, round: usize| {
        watch.round();
        if !run.output.quiet && last.elapsed() >= LINE_INTERVAL {
            last = Instant::now();
            say!("verify: {what}, round {round}");
        }
    };
    let found = sweep(subject.subject(), run.num_envs, chosen, &candidates, plan, after)?;
    watch.close()?;
    let (verdict, exit_code) = match found.is_within(ALLOWED) {
        Some(true) => ("good", 0),
        Some(false) => ("NOT GOOD", Verdict::Regressed.exit_code(true)),
        None if found.rival.is_none() => ("not shown, nothing else fits", Verdict::Noisy.exit_code(true)),
        None => ("not shown, the machine is too noisy", Verdict::Noisy.exit_code(true)),
    };
    let printed = if run.output.json {
        print_json(&found)
    } else {
        let speeds = found.speeds.iter().rev().map(|&Speed { setting, steps_per_s }| {
            let mark = match setting {
                setting if setting == found.chosen => "   <- chosen",
                setting if setting == found.best => "   <- best",
                _ => "",
            };
            let Setting { threads, chunk_size, tile } = setting;
            let tile = tile.map(|tile| format!("  tile {tile:>4}")).unwrap_or_default();
            let speed = format_number(steps_per_s);
            format!("threads {threads:>3}  chunk {chunk_size:>4}{tile}    {speed} steps/s{mark}\n")
        });
        let behind = found.rival.zip(found.shortfall).zip(found.interval).map(|((rival, shortfall), interval)| {
            let of = if rival == found.best { "best" } else { "next" };
            let [low, high] = [interval.low, interval.high].map(|share| 100.0 * share);
            format!(" is {:.1} % [{low:.1}, {high:.1}] behind the {of} ({rival})", 100.0 * shortfall)
        });
        let line = format!(
            "{} x {}, {chosen}{}: {verdict}\n",
            run.num_envs,
            subject.subject().env(),
            behind.unwrap_or_default(),
        );
        print(&(speeds.collect::<String>() + &line))
    };
    commands::concluded(printed, exit_code)
}

/// How often a search says how far it is.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// Tunes with the user's cache; tells of the cache and of the search on standard error. `after_round` hears of every
/// round.
fn tuned(request: &Request<'_>, quiet: bool, after_round: &mut dyn FnMut()) -> Result<Tuned, Failure> {
    let mut last = Instant::now();
    let mut progress = |event: Event| {
        let Event::Round { what, round, left } = event;
        after_round();
        if !quiet && last.elapsed() >= LINE_INTERVAL {
            last = Instant::now();
            let candidates = if left == 1 { "candidate" } else { "candidates" };
            say!("autotune: {what}, round {round}, {left} {candidates} left");
        }
    };
    let tuned = tune(request, CacheFile::of_user().as_ref(), &mut progress)?;
    tuned.warnings.iter().for_each(|warning| say!("warning: {warning}"));
    Ok(tuned)
}

/// For commands with `--auto-tune`: the chunk size, the threads and the tile to use.
pub(crate) fn for_rollout(
    env: &EnvArgs,
    policy: &PolicyArgs,
    num_envs: usize,
    threads: Option<usize>,
    quiet: bool,
) -> Result<Tuned, Failure> {
    let name = tuning::policy_name(&policy.policy);
    let subject = RolloutSubject::new(&env.env, &env.config(), name, &policy.policy_args)?;
    let tuned = tuned(&Request { threads, ..Request::new(&subject, num_envs) }, quiet, &mut || ())?;
    if !quiet {
        tell(&tuned.to_string());
    }
    Ok(tuned)
}

/// For `phalanx train --auto-tune`: the same run with the chunk size and the threads that are fastest here.
pub(crate) fn for_training(config: Config, quiet: bool) -> Result<Config, Failure> {
    let tunable = tuning::of_run(&config)?;
    let request = Request { threads: config.run.threads, ..tunable.request(config.run.num_envs, None) };
    let tuned = tuned(&request, quiet, &mut || ())?;
    if !quiet {
        tell(&format!("{}{tuned}", tunable.memory_line(&request)));
    }
    Ok(tuning::tuned_run(config, &tuned))
}

/// The whole table for a terminal, where somebody has waited for it; one line for a log.
fn tell(text: &str) {
    let last = text.lines().last().unwrap_or_default();
    say!("{}", if std::io::stderr().is_terminal() { text.trim_end() } else { last });
}

/// Whether the user wants tuning, by the flag or by `PHALANX_AUTO_TUNE`; a chunk size beside it is a contradiction.
pub(crate) fn is_wanted(flag: bool, scan_chunk_size: Option<usize>) -> Result<bool, Failure> {
    let by_variable = tuning::is_wanted_by_variable()?;
    match (flag, by_variable, scan_chunk_size) {
        (false, true, Some(chunk)) => Err(Failure::input(format!(
            "--scan-chunk-size is {chunk}, but {VARIABLE} asks to tune it: leave out one of them"
        ))),
        (true, _, Some(chunk)) => Err(Failure::input(format!(
            "--scan-chunk-size is {chunk}, but --auto-tune asks to tune it: leave out one of them"
        ))),
        _ => Ok(flag || by_variable),
    }
}

fn user_cache() -> Result<CacheFile, Failure> {
    let none = "there is no cache: neither PHALANX_CACHE_DIR nor HOME is set";
    CacheFile::of_user().ok_or_else(|| Failure::input(none))
}

fn show_cache(output: &OutputArgs) -> Result<(), Failure> {
    let cache = user_cache()?;
    let Loaded { profiles, damage } = cache.load()?;
    if !output.quiet {
        damage.iter().for_each(|damage| say!("warning: {} is damaged: {damage}", cache.path().display()));
    }
    if output.json {
        return print_json(&profiles);
    }
    let mut out = format!("{}\n", cache.path().display());
    let mut row = |what: &str, name: &str, text: String| out += &format!("{what:<12} {name:<24} {text}\n");
    for (name, hardware) in &profiles.hardware {
        let cores = hardware.cores.map(|cores| format!(", {cores} cores")).unwrap_or_default();
        row("hardware", name, format!("{}{cores}, profiled {}", hardware.device, hardware.profiled_at));
    }
    for (name, env) in &profiles.env_profiles {
        let cost = format!("{:.1} bytes, {:.2} ns per step", env.bytes_per_env, env.ns_per_step);
        row("environment", name, format!("{cost}, profiled {}", env.profiled_at));
    }
    for (name, agent) in &profiles.agent_profiles {
        let forward = agent.forward_us.map(|time| format!("{time:.3} µs per decision, ")).unwrap_or_default();
        row("agent", name, format!("{forward}profiled {}", agent.profiled_at));
    }
    for (key, config) in &profiles.chunk_size_configs {
        let speed = config.throughput_steps_per_s.map(|speed| format!(", {} steps/s", format_number(speed)));
        let threads = config.threads.map(|threads| format!(", threads {threads}"));
        let more = [speed, threads].into_iter().flatten().collect::<String>();
        row("chunk size", key, format!("{}{more}, validated {}", config.optimal_chunk_size, config.validated_at));
    }
    print(&out)
}

pub(crate) fn clear_cache(args: &ClearArgs) -> Result<(), Failure> {
    let cache = user_cache()?;
    // The folder is the user's own choice, and nothing else was to be done.
    let cleared = cache.clear().map_err(|error| Failure::input(error.to_string()))?;
    let removed: Vec<_> = cleared.iter().map(|path| path.display().to_string()).collect();
    match (args.output.json, args.output.quiet) {
        (true, _) => print_json(&serde_json::json!({ "removed": removed })),
        (false, true) => Ok(()),
        (false, false) if removed.is_empty() => print(&format!("{} holds nothing\n", cache.path().display())),
        (false, false) => print(&removed.iter().map(|path| format!("removed {path}\n")).collect::<String>()),
    }
}

/// A run of the largest size is one step: that touches all memory.
fn largest(args: &MaxEnvsArgs) -> Result<(), Failure> {
    const DEFAULT_SECONDS: f64 = 60.0;
    let budget = args.limits.memory_budget.bytes().ok_or_else(|| {
        Failure::input(
            "the system does not tell how much memory is available, so --memory-budget must be an amount such as 8G",
        )
    })? as f64;
    if tuning::learner(&args.agent.agent).is_some() {
        return largest_training(args, budget);
    }
    let policy = tuning::policy_name(&args.agent.agent);
    let subject = RolloutSubject::new(&args.env.env, &args.env.config(), policy, &args.agent.policy_args)?;
    let model = subject.memory();
    let buffer = args.limits.buffer_size.unwrap_or(0) as u64;
    let reserved = model.bytes(0, buffer, 1);
    let nothing_fits = |num_envs, needed_bytes| Error::NoValidNumEnvs {
        num_envs,
        env: subject.env().to_owned(),
        agent: subject.agent().to_owned(),
        buffer_size: buffer,
        buffer_bytes: reserved,
        needed_bytes,
        budget_bytes: budget,
    };
    let least = model.bytes(1, buffer, 1);
    if least > budget {
        return Err(nothing_fits(1, least).into());
    }
    let binary =
        std::env::current_exe().map_err(|error| Failure::input(format!("cannot find this program: {error}")))?;
    let mut case = CaseSpec {
        settings: args.env.config().settings,
        agent: policy.to_owned(),
        agent_args: args.agent.policy_args.clone(),
        kind: if policy == "random" { Kind::FusedRandomRollout } else { Kind::PolicyRollout },
        threads: args.limits.threads.unwrap_or_else(crate::machine::cores),
        scan_chunk_size: 1,
        safety: args.env.safety.to_string(),
        seed: args.env.seed,
        ..CaseSpec::rollout(subject.env(), 1)
    };
    let mut monitor = args.monitor.start()?;
    let start = Instant::now();
    let limit = Duration::from_secs_f64(args.limits.time_budget.unwrap_or(DEFAULT_SECONDS));
    let probe = |num_envs: usize| {
        // What surely does not fit is not tried: the system would end a process, perhaps another one.
        const SURELY: f64 = 0.95;
        let needed = model.bytes(num_envs, buffer, 1);
        if memory::available_bytes().is_some_and(|available| needed > SURELY * available as f64) {
            return Ok(None);
        }
        case.num_envs = num_envs;
        let worker = Worker::start(&binary, &case)?;
        let ready = worker.ready();
        monitor.heard(&case, &Process::new(ready.clone(), Vec::new()), |line| say!("{line}"));
        let taken = ready.rss_peak.zip(ready.rss_before).map(|(peak, before)| peak.saturating_sub(before) as f64);
        let taken = taken.or(ready.workload.array_bytes.map(|bytes| bytes as f64));
        taken
            .map(|bytes| Some(bytes + reserved))
            .ok_or_else(|| Error::Subject("the memory of a process is unknown".into()))
    };
    let go_on = |probe: &Probe| {
        if !args.output.quiet {
            say!("{}", line(probe));
        }
        start.elapsed() < limit
    };
    let found = max_envs::max_envs(model.most_envs(budget, buffer, 1), budget, probe, go_on)?;
    monitor.close()?;
    if let (0, Some(smallest)) = (found.num_envs, found.probes.last()) {
        let predicted = model.bytes(smallest.num_envs, buffer, 1);
        return Err(nothing_fits(smallest.num_envs, smallest.bytes.unwrap_or(predicted)).into());
    }
    match (args.output.json, args.output.quiet) {
        (true, _) => print_json(&found),
        (false, true) => print(&format!("{}\n", found.num_envs)),
        (false, false) => print(&summary(&found, &subject, &model)),
    }
}

/// The same for an agent that learns, by the prediction alone: a roll-out of that size with its updates takes minutes.
fn largest_training(args: &MaxEnvsArgs, budget: f64) -> Result<(), Failure> {
    // Any number that goes together with the settings shows what an environment takes.
    const ANY: usize = 1024;
    let tunable = args.agent.tunable(&args.env, ANY, &args.limits)?;
    let Tunable::Training(subject) = &tunable else { unreachable!("it learns") };
    let (model, buffer) = (subject.memory(), subject.buffer_size().unwrap_or(0));
    let num_envs = subject.most_envs(budget);
    if num_envs == 0 {
        let least = model.bytes(1, buffer, 1);
        return Err(Error::NoValidNumEnvs {
            num_envs: 1,
            env: subject.env().to_owned(),
            agent: subject.agent().to_owned(),
            buffer_size: buffer,
            buffer_bytes: model.bytes(0, buffer, 1),
            needed_bytes: least,
            budget_bytes: budget,
        }
        .into());
    }
    let found = MaxEnvs { num_envs, predicted: num_envs, budget_bytes: budget, probes: Vec::new() };
    match (args.output.json, args.output.quiet) {
        (true, _) => print_json(&found),
        (false, true) => print(&format!("{num_envs}\n")),
        (false, false) => print(&summary(&found, subject.as_ref(), &model)),
    }
}

fn line(probe: &Probe) -> String {
    let verdict = if probe.fits { "fits" } else { "does not fit" };
    let bytes = probe.bytes.map_or("more memory than there is".to_owned(), format_bytes);
    format!("{} environments: {bytes}, {verdict}", text::grouped(probe.num_envs as u64))
}

fn summary(found: &MaxEnvs, subject: &dyn Subject, model: &MemoryModel) -> String {
    let how = if found.probes.is_empty() { "predicted, not tried" } else { "tried" };
    format!(
        "environment      {} under {}, {:.1} bytes each\nbudget           {}\npredicted        {}\n\
         max num_envs     {}  ({how})\n",
        subject.env(),
        subject.agent(),
        model.bytes_per_env,
        format_bytes(found.budget_bytes),
        text::grouped(found.predicted as u64),
        text::grouped(found.num_envs as u64),
    )
}
