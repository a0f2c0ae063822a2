//! From a request to a chunk size: the cache, the profiles, the memory, the search.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Map;

use super::cache::{
    AgentProfile, CacheFile, Candidate, ChunkConfig, ConfigKey, EnvProfile, HardwareProfile, Loaded, Now, Origin,
    Profiles, Status, TileSpeed,
};
use super::candidates::{Schedule, affordable, candidates};
use super::memory_model::MemoryModel;
use super::search::{Found, MIN_ROUNDS, median_interval, search};
use super::subject::{Loop, Subject};
use crate::budget::MemoryBudget;
use crate::case::rule_of_thumb;
use crate::clock::{Stopwatch, thread_cpu_ns};
use crate::format::{format_bytes, format_number, format_seconds};
use crate::machine::Machine;
use crate::stats::descriptive::median;
use crate::stats::interval::{CONFIDENCE, Interval};
use crate::timestamp::Timestamp;
use crate::{Error, Result};

/// How long the search for a chunk size may take if the user does not say: a new `num_envs` should take less than
/// 20 s in all.
const SEARCH_TIME: Duration = Duration::from_secs(12);
/// The same for the number of threads.
const THREADS_TIME: Duration = Duration::from_secs(4);
/// The same for the tile.
const TILE_TIME: Duration = Duration::from_secs(2);
/// Chunk size of an environment's profile.
const PROFILE_CHUNK: usize = 16;

/// What to tune, and how.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// What is tuned.
    pub subject: &'a dyn Subject,
    /// Environments.
    pub num_envs: usize,
    /// Threads; `None` tunes them as well.
    pub threads: Option<usize>,
    /// Transitions in a replay buffer; default none.
    pub buffer_size: Option<u64>,
    /// When control returns in any case; default never.
    pub schedule: Schedule,
    /// Memory that may be taken; default 0.8 of what is available.
    pub memory_budget: MemoryBudget,
    /// Measure even if the cache knows; default no.
    pub force: bool,
    /// The least time of a sample; default 50 ms.
    pub sample: Duration,
    /// Time for everything; default `None`, which is about 20 s and never more than a minute.
    pub time_budget: Option<Duration>,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({} x {} under {})", self.num_envs, self.subject.env(), self.subject.agent())
    }
}

impl<'a> Request<'a> {
    /// The usual request.
    pub fn new(subject: &'a dyn Subject, num_envs: usize) -> Self {
        Self {
            subject,
            num_envs,
            threads: None,
            buffer_size: None,
            schedule: Schedule::default(),
            memory_budget: MemoryBudget::default(),
            force: false,
            sample: Duration::from_millis(50),
            time_budget: None,
        }
    }

    /// The chunk sizes that fit into the memory budget, the smallest first.
    pub fn fitting_candidates(&self) -> Vec<usize> {
        self.split_by_memory(&self.subject.memory(), self.budget_bytes()).0
    }

    /// The numbers of threads that the tuner chooses from and that can be compared side by side in the memory budget.
    pub fn fitting_threads(&self) -> Vec<usize> {
        let counts = self.threads.map_or_else(thread_counts, |threads| vec![threads]);
        match self.fits_together(counts.len(), &self.subject.memory(), self.budget_bytes()) {
            true => counts,
            false => Vec::new(),
        }
    }

    /// Whether so many loops fit into memory at once.
    fn fits_together(&self, loops: usize, model: &MemoryModel, budget: f64) -> bool {
        let smallest = candidates(self.schedule)[0];
        model.bytes(self.num_envs, self.buffer_size.unwrap_or(0), smallest) * loops as f64 <= budget
    }

    /// The chunk size that nobody has tuned: one roll-out, where they are made in one go.
    fn untuned(&self) -> usize {
        self.schedule.rollout_steps.unwrap_or_else(|| rule_of_thumb(self.num_envs))
    }

    /// The budget now; infinite where the system does not tell what is available.
    fn budget_bytes(&self) -> f64 {
        self.memory_budget.bytes().map_or(f64::INFINITY, |bytes| bytes as f64)
    }

    /// The candidates that fit, and those that do not.
    fn split_by_memory(&self, model: &MemoryModel, budget: f64) -> (Vec<usize>, Vec<usize>) {
        let fits = |chunk: &usize| model.bytes(self.num_envs, self.buffer_size.unwrap_or(0), *chunk) <= budget;
        candidates(self.schedule).into_iter().partition(fits)
    }
}

/// What goes on meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A round of the search is done.
    Round {
        /// What is searched: `threads`, `chunk` or `tile`.
        what: &'static str,
        /// Its number, from 1.
        round: usize,
        /// Candidates that took part.
        left: usize,
    },
}

/// A profile: where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// Of what.
    pub name: String,
    /// How long it took now; `None` if it was remembered.
    pub seconds: Option<f64>,
}

/// Where a chunk size comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "source")]
pub enum Source {
    /// The search.
    MeasuredNow,
    /// What an untuned run uses, for want of time to compare.
    RuleOfThumb,
    /// The cache.
    Cache {
        /// When it was measured.
        validated_at: String,
    },
}

/// A tuned chunk size, and how it came about. Its `Display` is the table for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tuned {
    /// The choice.
    pub scan_chunk_size: usize,
    /// Threads to use with it.
    pub threads: usize,
    /// Environments that go through a chunk together; `None` where there is nothing to choose, or was no time to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tile: Option<usize>,
    /// The speed there, if measured.
    pub throughput_steps_per_s: Option<f64>,
    /// Where it comes from.
    #[serde(flatten)]
    pub source: Source,
    /// Its key in the cache.
    pub key: String,
    /// The machine.
    pub hardware: Stage,
    /// The environment.
    pub environment: Stage,
    /// The agent.
    pub agent: Stage,
    /// All sizes looked at, the largest first.
    pub candidates: Vec<Candidate>,
    /// All tiles looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiles: Vec<TileSpeed>,
    /// Memory that may be taken.
    pub budget_bytes: Option<f64>,
    /// What a user should know of the result.
    pub notes: Vec<String>,
    /// What a user should know of the cache.
    pub warnings: Vec<String>,
    /// Time that all this took.
    pub seconds: f64,
}

impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (label, stage) in [("hardware", &self.hardware), ("environment", &self.environment), ("agent", &self.agent)]
        {
            let how =
                stage.seconds.map_or("cached".to_owned(), |seconds| format!("profiled in {}", format_seconds(seconds)));
            writeln!(f, "{label:<13} {}, {how}", stage.name)?;
        }
        for candidate in &self.candidates {
            write!(f, "chunk {:>4}    ", candidate.chunk_size)?;
            let needs = format_bytes(candidate.bytes as f64);
            match candidate.status {
                Status::Ok => {
                    let mark = if candidate.chunk_size == self.scan_chunk_size { "   <- best" } else { "" };
                    let speed = candidate.throughput_steps_per_s.map_or("unknown".to_owned(), format_number);
                    writeln!(f, "ok    {speed} steps/s{mark}")?;
                }
                Status::Oom => {
                    let budget = self.budget_bytes.map(|bytes| format!(", budget {}", format_bytes(bytes)));
                    writeln!(f, "OOM   needs {needs}{}", budget.unwrap_or_default())?;
                }
            }
        }
        for TileSpeed { tile, throughput_steps_per_s: speed, .. } in &self.tiles {
            let mark = if Some(*tile) == self.tile { "   <- best" } else { "" };
            writeln!(f, "tile  {tile:>4}    ok    {} steps/s{mark}", format_number(*speed))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))?;
        let source = match &self.source {
            Source::MeasuredNow => "measured now".to_owned(),
            Source::RuleOfThumb => "the rule of thumb, not tuned".to_owned(),
            Source::Cache { validated_at } => format!("from cache, validated {validated_at}"),
        };
        let tile = self.tile.map(|tile| format!(", tile = {tile}")).unwrap_or_default();
        writeln!(f, "scan_chunk_size = {}  ({source}; threads = {}{tile})", self.scan_chunk_size, self.threads)
    }
}

/// Finds the chunk size of a request: from the cache, or by measuring, after which the cache knows it.
///
/// A cache that cannot be read or written is worth a warning, not an error: the answer does not depend on it.
///
/// # Errors
///
/// [`Error::NoValidChunkSize`] if every candidate needs more memory than the budget allows, and what the subject
/// answers.
pub fn tune(request: &Request<'_>, cache: Option<&CacheFile>, observer: &mut dyn FnMut(Event)) -> Result<Tuned> {
    let watch = Stopwatch::start();
    let start = Instant::now();
    let machine = Machine::detect();
    let now = Now { machine: &machine, engine_version: env!("CARGO_PKG_VERSION"), time: Timestamp::now() };
    let mut warnings = Vec::new();
    let profiles = match cache.map(CacheFile::load) {
        None => {
            warnings.push("there is no home folder, so that nothing is remembered".to_owned());
            Profiles::default()
        }
        Some(Err(error)) => {
            warnings.push(error.to_string());
            Profiles::default()
        }
        Some(Ok(Loaded { profiles, damage })) => {
            let path = cache.map(|cache| cache.path().display().to_string()).unwrap_or_default();
            warnings.extend(damage.iter().map(|damage| {
                format!("the cache {path} is damaged and will be rebuilt, its copy kept as .bak: {damage}")
            }));
            warnings.extend(foreign(&profiles, &machine));
            profiles
        }
    };
    let mut tuning = Tuning { request, now, start, profiles, fresh: Profiles::default(), warnings, observer };
    let tuned = tuning.answer(&watch)?;
    let Tuning { fresh, mut warnings, .. } = tuning;
    if let Some(cache) = cache.filter(|_| fresh != Profiles::default()) {
        let written = cache.update(|profiles| merge(profiles, fresh, &machine));
        warnings.extend(written.err().map(|error| format!("the result cannot be remembered: {error}")));
    }
    Ok(Tuned { warnings, seconds: watch.elapsed().wall_ns as f64 / 1e9, ..tuned })
}

/// Says so if the cache is of other machines only.
fn foreign(profiles: &Profiles, machine: &Machine) -> Option<String> {
    let is_ours = |(name, hardware): (&String, &HardwareProfile)| {
        *name == machine.name && hardware.fingerprint.as_ref().is_none_or(|print| *print == machine.fingerprint)
    };
    if profiles.hardware.is_empty() || profiles.hardware.iter().any(is_ours) {
        return None;
    }
    // Machines of one name are told apart by their fingerprints.
    let full = |name: &str, print: Option<&String>| match print {
        Some(print) if name == machine.name => format!("{name} ({print})"),
        _ => name.to_owned(),
    };
    let names: Vec<_> =
        profiles.hardware.iter().map(|(name, hardware)| full(name, hardware.fingerprint.as_ref())).collect();
    let same = profiles.hardware.contains_key(&machine.name);
    let here = full(&machine.name, same.then_some(&machine.fingerprint));
    Some(format!("the cache was made on {}, not on this {here}: its entries are ignored", names.join(", ")))
}

/// Adds new entries; what another machine of the same name has left goes, because it would be taken for ours.
fn merge(profiles: &mut Profiles, fresh: Profiles, machine: &Machine) {
    let foreign = |print: &Option<String>| print.as_ref().is_some_and(|print| *print != machine.fingerprint);
    let replaced = profiles.hardware.get(&machine.name).is_some_and(|hardware| foreign(&hardware.fingerprint));
    if replaced && fresh.hardware.contains_key(&machine.name) {
        let ours = format!(":{}", machine.name);
        profiles.chunk_size_configs.retain(|key, config| !(key.contains(&ours) && foreign(&config.fingerprint)));
    }
    profiles.hardware.extend(fresh.hardware);
    profiles.env_profiles.extend(fresh.env_profiles);
    profiles.agent_profiles.extend(fresh.agent_profiles);
    profiles.chunk_size_configs.extend(fresh.chunk_size_configs);
}

struct Tuning<'a> {
    request: &'a Request<'a>,
    now: Now<'a>,
    start: Instant,
    /// What the cache holds.
    profiles: Profiles,
    /// What it should hold as well.
    fresh: Profiles,
    warnings: Vec<String>,
    observer: &'a mut dyn FnMut(Event),
}

/// Numbers of threads that are worth a look: powers of two, and one for each core.
fn thread_counts() -> Vec<usize> {
    let cores = std::thread::available_parallelism().map_or(1, Into::into);
    (0..).map(|power| 1 << power).take_while(|count| *count < cores).chain([cores]).collect()
}

/// Asks [`timed`] for the wall clock whatever the threads: it is all that loops of different ones have in common.
pub(super) const WALL: usize = 0;

/// The number of threads to use.
struct Threads {
    count: usize,
    note: Option<String>,
    /// Whether there was no time to compare.
    out_of_time: bool,
}

impl Threads {
    fn of(count: usize) -> Self {
        Self { count, note: None, out_of_time: false }
    }
}

/// A search that is done.
struct Choice {
    chunk: usize,
    /// `None` if the chunk is that of the rule of thumb, unmeasured.
    speed: Option<f64>,
    /// `None` if there is nothing to choose.
    tile: Option<usize>,
    /// Whether there was no time to compare tiles.
    tile_is_open: bool,
    candidates: Vec<Candidate>,
    notes: Vec<String>,
}

impl Tuning<'_> {
    fn answer(&mut self, watch: &Stopwatch) -> Result<Tuned> {
        let Request { subject, num_envs, buffer_size, threads, schedule, .. } = *self.request;
        let hardware = self.hardware(watch);
        let env_hash = subject.env_hash();
        let key = ConfigKey {
            env: subject.env().to_owned(),
            agent: subject.agent().to_owned(),
            num_envs,
            hardware: self.now.machine.name.clone(),
            buffer_size,
            threads,
            dtype: Some(subject.dtype()).filter(|dtype| *dtype != "f32").map(str::to_owned),
            schedule,
        };
        let key = key.to_string();
        let stage = |name: &str| Stage { name: name.to_owned(), seconds: None };
        // Before anything of this size is allocated, by whoever uses what is remembered or by the profiles.
        let model = subject.memory();
        let budget = self.request.budget_bytes();
        self.check_memory(&model, budget)?;
        let fits =
            |config: &ChunkConfig| model.bytes(num_envs, buffer_size.unwrap_or(0), config.optimal_chunk_size) <= budget;
        if let Some(config) = self.remembered(&key, &env_hash).filter(fits) {
            return Ok(Tuned {
                scan_chunk_size: config.optimal_chunk_size,
                threads: config.threads.or(threads).unwrap_or(1),
                tile: config.tile,
                throughput_steps_per_s: config.throughput_steps_per_s,
                source: Source::Cache { validated_at: config.validated_at },
                key,
                hardware,
                environment: stage(subject.env()),
                agent: stage(subject.agent()),
                candidates: config.candidates,
                tiles: config.tiles,
                budget_bytes: None,
                notes: config.notes,
                warnings: Vec::new(),
                seconds: 0.0,
            });
        }
        let (environment, ns_per_step) = self.environment(&model, &env_hash)?;
        let agent = self.agent(&model)?;
        let Threads { count: threads, note, out_of_time } = self.threads(&model, budget, ns_per_step)?;
        let end = self.deadline(SEARCH_TIME + TILE_TIME);
        let (mut choice, running) = self.chunk(&model, budget, threads, ns_per_step)?;
        choice.notes.extend(note);
        let tiles = match running {
            Some(running) if !subject.tiles().is_empty() => self.tiles(&mut choice, running, threads, end)?,
            _ => Vec::new(),
        };
        // With more time there would be one.
        let out_of_time = out_of_time || (self.request.time_budget.is_some() && choice.tile_is_open);
        let config = ChunkConfig {
            optimal_chunk_size: choice.chunk,
            throughput_steps_per_s: choice.speed,
            validated_at: self.now.time.rfc3339(),
            engine_version: self.now.engine_version.to_owned(),
            env_hash,
            candidates: choice.candidates.clone(),
            threads: Some(threads),
            tile: choice.tile,
            tiles: tiles.clone(),
            fingerprint: Some(self.now.machine.fingerprint.clone()),
            notes: choice.notes.clone(),
            extra: Map::new(),
        };
        // What was not compared is not worth remembering: who asks again may have more time.
        if choice.speed.is_some() && !out_of_time {
            self.fresh.chunk_size_configs.insert(key.clone(), config);
        }
        Ok(Tuned {
            scan_chunk_size: choice.chunk,
            threads,
            tile: choice.tile,
            throughput_steps_per_s: choice.speed,
            source: if choice.speed.is_some() { Source::MeasuredNow } else { Source::RuleOfThumb },
            key,
            hardware,
            environment,
            agent,
            candidates: choice.candidates,
            tiles,
            budget_bytes: budget.is_finite().then_some(budget),
            notes: choice.notes,
            warnings: Vec::new(),
            seconds: 0.0,
        })
    }

    /// What the cache knows of the request, if it still holds.
    fn remembered(&mut self, key: &str, env_hash: &str) -> Option<ChunkConfig> {
        let config = self.profiles.chunk_size_configs.get(key).filter(|_| !self.request.force)?;
        let objection = self.now.objection(Origin {
            fingerprint: config.fingerprint.as_deref(),
            engine_version: Some(&config.engine_version),
            at: &config.validated_at,
            env_hash: Some((&config.env_hash, env_hash)),
        });
        // An earlier version knew no tiles.
        let tiles = self.request.subject.tiles();
        let has_tile = tiles.is_empty() || config.tile.is_some_and(|tile| tiles.contains(&tile));
        let objection = objection.or_else(|| (!has_tile).then(|| "it has no tile".to_owned()));
        match objection {
            None => Some(config.clone()),
            Some(reason) => {
                self.warnings
                    .push(format!("the cached chunk size {} is not used: {reason}", config.optimal_chunk_size));
                None
            }
        }
    }

    fn hardware(&mut self, watch: &Stopwatch) -> Stage {
        let name = self.now.machine.name.clone();
        let known = self.profiles.hardware.get(&name).is_some_and(|hardware| {
            let origin = Origin {
                fingerprint: hardware.fingerprint.as_deref(),
                engine_version: None,
                at: &hardware.profiled_at,
                env_hash: None,
            };
            self.now.objection(origin).is_none()
        });
        if known && !self.request.force {
            return Stage { name, seconds: None };
        }
        self.fresh.hardware.insert(name.clone(), HardwareProfile::of(self.now.machine, self.now.time));
        Stage { name, seconds: Some(watch.elapsed().wall_ns as f64 / 1e9) }
    }

    /// The environment's profile, and its nanoseconds for each step.
    fn environment(&mut self, model: &MemoryModel, env_hash: &str) -> Result<(Stage, f64)> {
        let subject = self.request.subject;
        let name = subject.env().to_owned();
        // A step takes what environment and agent take together; random actions cost next to nothing.
        let key = if subject.agent() == "random" { name.clone() } else { format!("{name}:{}", subject.agent()) };
        if let Some(profile) = self.profiles.env_profiles.get(&key).filter(|_| !self.request.force) {
            let origin = Origin {
                fingerprint: profile.fingerprint.as_deref(),
                engine_version: profile.engine_version.as_deref(),
                at: &profile.profiled_at,
                env_hash: Some((&profile.env_hash, env_hash)),
            };
            if self.now.objection(origin).is_none() {
                return Ok((Stage { name, seconds: None }, profile.ns_per_step));
            }
        }
        let start = Instant::now();
        let num_envs = subject.profile_envs();
        let mut running = subject.start(num_envs, 1)?;
        let steps = sample_steps(running.as_mut(), 1, PROFILE_CHUNK, self.request.sample)?;
        let sample = |_| timed(running.as_mut(), 1, steps, PROFILE_CHUNK).map(|taken| taken.step_ns);
        let times = (0..3).map(sample).collect::<Result<Vec<f64>>>()?;
        let ns_per_step = median(&times);
        let profile = EnvProfile {
            bytes_per_env: model.bytes_per_env,
            ns_per_step,
            env_hash: env_hash.to_owned(),
            profiled_with_num_envs: num_envs,
            profiled_at: self.now.time.rfc3339(),
            engine_version: Some(self.now.engine_version.to_owned()),
            fingerprint: Some(self.now.machine.fingerprint.clone()),
            extra: Map::new(),
        };
        self.fresh.env_profiles.insert(key, profile);
        Ok((Stage { name, seconds: Some(start.elapsed().as_secs_f64()) }, ns_per_step))
    }

    fn agent(&mut self, model: &MemoryModel) -> Result<Stage> {
        let subject = self.request.subject;
        let name = subject.agent().to_owned();
        if let Some(profile) = self.profiles.agent_profiles.get(&name).filter(|_| !self.request.force) {
            let origin = Origin {
                fingerprint: profile.fingerprint.as_deref(),
                engine_version: profile.engine_version.as_deref(),
                at: &profile.profiled_at,
                env_hash: None,
            };
            if self.now.objection(origin).is_none() {
                return Ok(Stage { name, seconds: None });
            }
        }
        let start = Instant::now();
        let times = subject.agent_times()?;
        let profile = AgentProfile {
            weight_bytes: model.weight_bytes,
            forward_us: times.forward_us,
            update_us: times.update_us,
            profiled_at: self.now.time.rfc3339(),
            engine_version: Some(self.now.engine_version.to_owned()),
            fingerprint: Some(self.now.machine.fingerprint.clone()),
            extra: Map::new(),
        };
        self.fresh.agent_profiles.insert(name.clone(), profile);
        Ok(Stage { name, seconds: Some(start.elapsed().as_secs_f64()) })
    }

    /// Refuses what does not fit with the smallest chunk.
    fn check_memory(&self, model: &MemoryModel, budget: f64) -> Result<()> {
        let Request { subject, num_envs, schedule, .. } = *self.request;
        let buffer = self.request.buffer_size.unwrap_or(0);
        let smallest = candidates(schedule)[0];
        let needed = model.bytes(num_envs, buffer, smallest);
        if needed <= budget {
            return Ok(());
        }
        Err(Error::NoValidChunkSize {
            num_envs,
            env: subject.env().to_owned(),
            agent: subject.agent().to_owned(),
            buffer_size: buffer,
            needed_bytes: needed,
            budget_bytes: budget,
            most_envs: model.most_envs(budget, buffer, smallest),
        })
    }

    /// When a search that may take `usual` has to end.
    fn deadline(&self, usual: Duration) -> Instant {
        match self.request.time_budget {
            Some(all) => self.start + all,
            None => Instant::now() + usual,
        }
    }

    /// When the search for a chunk size has to end, so that some time is left for the tile.
    fn chunk_deadline(&self) -> Instant {
        let end = self.deadline(SEARCH_TIME);
        if self.request.time_budget.is_none() || self.request.subject.tiles().is_empty() {
            return end;
        }
        let share = TILE_TIME.as_secs_f64() / (SEARCH_TIME + TILE_TIME).as_secs_f64();
        let left = end.saturating_duration_since(Instant::now());
        end - left.mul_f64(share)
    }

    /// The number of threads that is fastest with the chunk of the rule of thumb.
    fn threads(&mut self, model: &MemoryModel, budget: f64, ns_per_step: f64) -> Result<Threads> {
        let Request { subject, num_envs, threads, .. } = *self.request;
        if let Some(threads) = threads {
            return Ok(Threads::of(threads));
        }
        let counts = thread_counts();
        let cores = counts[counts.len() - 1];
        let smallest = candidates(self.request.schedule)[0];
        let chunk_seconds = smallest as f64 * num_envs as f64 * ns_per_step / 1e9;
        let turns = (counts.len() * (MIN_ROUNDS + 1)) as f64;
        let least = chunk_seconds * turns;
        if counts.len() == 1 || least > THREADS_TIME.as_secs_f64() {
            // Work this long is worth all threads.
            return Ok(Threads::of(cores));
        }
        // Most of the time belongs to the chunk size.
        let now = Instant::now();
        let share = THREADS_TIME.as_secs_f64() / (THREADS_TIME + SEARCH_TIME).as_secs_f64();
        let time = match self.request.time_budget {
            Some(_) => self.deadline(THREADS_TIME).saturating_duration_since(now).mul_f64(share).min(THREADS_TIME),
            None => THREADS_TIME,
        };
        let untuned = |out_of_time, why: &str| Threads {
            note: Some(format!("threads = {cores}, not tuned: {why}")),
            out_of_time,
            ..Threads::of(cores)
        };
        let least_sampled = least.max(self.request.sample.as_secs_f64() * turns);
        if self.request.time_budget.is_some() && least_sampled > time.as_secs_f64() {
            return Ok(untuned(true, "the time budget ended before they could be compared"));
        }
        if !self.request.fits_together(counts.len(), model, budget) {
            return Ok(untuned(false, "several batches would not fit into memory"));
        }
        // As large as the time allows, so that the cost of waking threads is weighed as it will be.
        let affordable = time.as_secs_f64() / least * smallest as f64;
        let chunk = self.request.untuned().min(affordable as usize).max(smallest);
        let mut loops = counts.iter().map(|&count| subject.start(num_envs, count)).collect::<Result<Vec<_>>>()?;
        let mut steps = vec![0; counts.len()];
        for (i, running) in loops.iter_mut().enumerate() {
            steps[i] = sample_steps(running.as_mut(), WALL, chunk, self.request.sample)?;
        }
        let observer = &mut self.observer;
        let found = search(
            counts.len(),
            now + time,
            |i| Ok(timed(loops[i].as_mut(), WALL, steps[i], chunk)?.step_ns),
            |round, left| observer(Event::Round { what: "threads", round, left }),
        )?;
        Ok(Threads::of(counts[found.chosen]))
    }

    /// The fastest chunk, and the loop that it was measured in unless there was no time for that.
    fn chunk(
        &mut self,
        model: &MemoryModel,
        budget: f64,
        threads: usize,
        ns_per_step: f64,
    ) -> Result<(Choice, Option<Box<dyn Loop>>)> {
        let Request { subject, num_envs, .. } = *self.request;
        let buffer = self.request.buffer_size.unwrap_or(0);
        let (fitting, over) = self.request.split_by_memory(model, budget);
        let unmeasured = |status| {
            move |&chunk: &usize| Candidate {
                chunk_size: chunk,
                status,
                throughput_steps_per_s: None,
                ci_low: None,
                ci_high: None,
                bytes: model.bytes(num_envs, buffer, chunk) as u64,
            }
        };
        let mut rows: Vec<Candidate> = over.iter().map(unmeasured(Status::Oom)).collect();
        let deadline = self.chunk_deadline();
        let seconds_left = || deadline.saturating_duration_since(Instant::now()).as_secs_f64();
        let mut notes = Vec::new();

        let usual = fitting.iter().copied().filter(|&chunk| chunk <= self.request.untuned()).max();
        let usual = usual.unwrap_or(fitting[0]);
        let turns = (MIN_ROUNDS + 1) as f64;
        let sample = self.request.sample;
        let cost = |chunk: usize, step_seconds: f64| turns * sample.as_secs_f64().max(chunk as f64 * step_seconds);
        let measurable = |step_seconds| affordable(&fitting, usual, |chunk| cost(chunk, step_seconds), seconds_left());
        let by_rule = |candidates, mut notes: Vec<String>, before: &str| {
            notes.push(format!("the time budget ended before {before}; using {usual} by the rule of thumb"));
            Choice { chunk: usual, speed: None, tile: None, tile_is_open: false, candidates, notes }
        };
        let nothing_compared = "two chunk sizes could be compared";
        let rivals = fitting.len().min(2);

        let step_seconds = num_envs as f64 * ns_per_step / 1e9 / threads as f64;
        if measurable(step_seconds).len() < rivals {
            return Ok((by_rule(rows, notes, nothing_compared), None));
        }
        let mut running = match subject.start(num_envs, threads) {
            Ok(running) => running,
            // The system knows better than the prediction.
            Err(Error::OutOfMemory { bytes }) => {
                return Err(Error::NoValidChunkSize {
                    num_envs,
                    env: subject.env().to_owned(),
                    agent: subject.agent().to_owned(),
                    buffer_size: buffer,
                    needed_bytes: bytes,
                    budget_bytes: budget,
                    most_envs: 0,
                });
            }
            Err(other) => return Err(other),
        };
        // The first run touches all memory, those after it tell the time.
        timed(running.as_mut(), threads, 1, 1)?;
        let step_seconds = chunk_time(running.as_mut(), threads, fitting[0], sample)?.as_secs_f64() / fitting[0] as f64;
        let measured = measurable(step_seconds);
        if measured.len() < rivals {
            return Ok((by_rule(rows, notes, nothing_compared), None));
        }
        let left_out: Vec<usize> = fitting.iter().copied().filter(|chunk| !measured.contains(chunk)).collect();
        if let Some(&least) = left_out.first() {
            let list: Vec<String> = left_out.iter().map(usize::to_string).collect();
            notes.push(format!(
                "the time budget ended before chunks of {} could be measured, which takes {} or more each",
                list.join(", "),
                format_seconds(cost(least, step_seconds))
            ));
        }
        let mut steps = vec![0; measured.len()];
        for (steps, &chunk) in steps.iter_mut().zip(&measured) {
            *steps = sample_steps(running.as_mut(), threads, chunk, sample)?;
        }
        // The same work for all where it is affordable, so that all see the same mixture of episodes.
        let longest = steps.iter().copied().max().unwrap_or(1);
        if longest as f64 * step_seconds * turns * measured.len() as f64 <= seconds_left() / 2.0 {
            for (steps, &chunk) in steps.iter_mut().zip(&measured) {
                *steps = longest.next_multiple_of(chunk);
            }
        }
        let observer = &mut self.observer;
        let found = search(
            measured.len(),
            deadline,
            |i| Ok(timed(running.as_mut(), threads, steps[i], measured[i])?.step_ns),
            |round, left| observer(Event::Round { what: "chunk", round, left }),
        )?;
        let speeds = measured.iter().zip(&found.times).map(|(&chunk, times)| {
            let (speed, interval) = speed(times);
            Candidate {
                throughput_steps_per_s: Some(speed),
                ci_low: Some(interval.low),
                ci_high: Some(interval.high),
                ..unmeasured(Status::Ok)(&chunk)
            }
        });
        rows.extend(speeds);
        rows.sort_by_key(|row| std::cmp::Reverse(row.chunk_size));
        let Some(chosen) = settled(&found, &measured, usual) else {
            return Ok((by_rule(rows, notes, &format!("a chunk of {usual} could be measured")), None));
        };
        let chunk = measured[chosen];
        notes.extend(remark(&found, chunk));
        let speed = Some(speed(&found.times[chosen]).0);
        Ok((Choice { chunk, speed, tile: None, tile_is_open: false, candidates: rows, notes }, Some(running)))
    }

    /// The speed of each tile with the chunk that was chosen, if there is time; adds the fastest to the choice.
    fn tiles(
        &mut self,
        choice: &mut Choice,
        mut running: Box<dyn Loop>,
        threads: usize,
        deadline: Instant,
    ) -> Result<Vec<TileSpeed>> {
        let Request { subject, num_envs, sample, .. } = *self.request;
        let tiles = subject.tiles();
        let speed_before = choice.speed.expect("a chunk was measured with this loop");
        let one_turn = sample.as_secs_f64().max((choice.chunk * num_envs) as f64 / speed_before);
        let seconds_left = deadline.saturating_duration_since(Instant::now()).as_secs_f64();
        if one_turn * (tiles.len() * (MIN_ROUNDS + 1)) as f64 > seconds_left {
            (choice.tile, choice.tile_is_open) = (Some(tiles[0]), true);
            choice.notes.push(format!("tile = {}, not tuned: there was no time to compare", tiles[0]));
            return Ok(Vec::new());
        }
        // What a larger tile needs is allocated once, outside of the samples.
        for &tile in tiles {
            running.set_tile(tile);
            timed(running.as_mut(), threads, 1, 1)?;
        }
        let steps = sample_steps(running.as_mut(), threads, choice.chunk, sample)?;
        let observer = &mut self.observer;
        let found = search(
            tiles.len(),
            deadline,
            |i| {
                running.set_tile(tiles[i]);
                Ok(timed(running.as_mut(), threads, steps, choice.chunk)?.step_ns)
            },
            |round, left| observer(Event::Round { what: "tile", round, left }),
        )?;
        choice.tile = Some(tiles[found.chosen]);
        choice.speed = Some(speed(&found.times[found.chosen]).0);
        let speeds = tiles.iter().zip(&found.times).map(|(&tile, times)| {
            let (throughput_steps_per_s, interval) = speed(times);
            TileSpeed { tile, throughput_steps_per_s, ci_low: interval.low, ci_high: interval.high }
        });
        Ok(speeds.collect())
    }
}

/// Steps a second by the median of the times of a step in nanoseconds, and its interval. Both are of the median, so that
/// the one holds the other however skewed the times are.
fn speed(times: &[f64]) -> (f64, Interval) {
    let of = |time: f64| 1e9 / time;
    let Interval { low, high } = median_interval(times, CONFIDENCE);
    (of(median(times)), Interval { low: of(high), high: of(low) })
}

/// Which to use of the `measured` chunks; `None` if that of the rule of thumb is not among them and may be far
/// better. Where its size makes no difference among three chunks, it makes none beyond them: what a chunk costs apart
/// from its steps weighs the less the larger it is.
///
/// Where the time ended first, too few rounds call many equal. Then the rule of thumb holds unless it is beaten.
fn settled(found: &Found, measured: &[usize], usual: usize) -> Option<usize> {
    match measured.iter().position(|&chunk| chunk == usual) {
        Some(usual) if found.out_of_time && found.equal.contains(&usual) => Some(usual),
        Some(_) => Some(found.chosen),
        None => (found.no_difference && measured.len() >= 3).then_some(found.chosen),
    }
}

fn remark(found: &Found, chunk: usize) -> Option<String> {
    if found.no_difference {
        Some(format!("no measurable difference; using {chunk}"))
    } else if found.out_of_time {
        Some("the time budget ended before all candidates could be told apart; this is the best so far".to_owned())
    } else {
        None
    }
}

/// A run of the loop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    /// Wall time.
    wall: Duration,
    /// Nanoseconds for each step.
    pub(super) step_ns: f64,
}

/// Times a run of the loop.
///
/// On one thread by that thread's CPU time: such a loop never waits, so this is what the wall clock would say if
/// nobody else wanted the core. Several threads do wait for each other, and only the wall clock tells.
pub(super) fn timed(running: &mut dyn Loop, threads: usize, steps: usize, chunk: usize) -> Result<Taken> {
    let cpu = || if threads == 1 { thread_cpu_ns() } else { None };
    let (cpu_start, start) = (cpu(), Instant::now());
    let work = running.advance(steps, chunk)?;
    let wall = start.elapsed().max(Duration::from_nanos(1));
    let cpu_ns = cpu_start.zip(cpu()).map(|(before, after)| after.saturating_sub(before) as f64);
    let ns = cpu_ns.filter(|ns| *ns > 0.0).unwrap_or(wall.as_nanos() as f64);
    Ok(Taken { wall, step_ns: ns / work.steps.max(1) as f64 })
}

/// The wall time of one chunk: the fastest of a few, because the first is slow and any may be interrupted for longer
/// than it takes; of one that is as long as a sample, the first will do.
fn chunk_time(running: &mut dyn Loop, threads: usize, chunk: usize, sample: Duration) -> Result<Duration> {
    const RUNS: usize = 3;
    let mut fastest = timed(running, threads, chunk, chunk)?.wall;
    for _ in 1..RUNS {
        if fastest >= sample {
            break;
        }
        fastest = fastest.min(timed(running, threads, chunk, chunk)?.wall);
    }
    Ok(fastest)
}

/// Steps of a whole number of chunks that take at least as long as a sample, judged by the time of one chunk.
pub(super) fn sample_steps(running: &mut dyn Loop, threads: usize, chunk: usize, sample: Duration) -> Result<usize> {
    let one = chunk_time(running, threads, chunk, sample)?;
    let chunks = (sample.as_secs_f64() / one.as_secs_f64()).ceil().max(1.0);
    Ok(chunks as usize * chunk)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use super::*;
    use crate::autotune::subject::AgentTimes;
    use crate::stats::random::Stream;
    use crate::workload::Work;

    #[test]
    fn machines_of_one_name_are_told_apart_by_their_fingerprints() {
        let machine = Machine::detect();
        let told = |name: &str| {
            let mut hardware = HardwareProfile::of(&machine, Timestamp::now());
            hardware.fingerprint = Some("other".to_owned());
            let profiles = Profiles { hardware: [(name.to_owned(), hardware)].into(), ..Profiles::default() };
            foreign(&profiles, &machine).unwrap()
        };
        let Machine { name, fingerprint, .. } = &machine;
        let same = told(name);
        assert!(same.contains(&format!("on {name} (other), not on this {name} ({fingerprint}):")), "{same}");
        let another = told("another");
        assert!(another.contains(&format!("on another, not on this {name}:")), "{another}");
    }

    /// A loop whose chunks each cost a millisecond, so that large ones are far faster; tiles of 32 cost half of it.
    struct Slow {
        num_envs: usize,
        chunk: Duration,
    }

    impl Loop for Slow {
        fn advance(&mut self, steps: usize, chunk: usize) -> Result<Work> {
            let start = Instant::now();
            while start.elapsed() < self.chunk * steps.div_ceil(chunk) as u32 {}
            Ok(Work { steps: (steps * self.num_envs) as u64, checksum: 0 })
        }

        fn set_tile(&mut self, envs: usize) {
            self.chunk = Duration::from_micros(if envs == 32 { 500 } else { 1000 });
        }
    }

    struct Mock {
        model: MemoryModel,
        hash: &'static str,
        agent: &'static str,
        tiles: &'static [usize],
        answer: fn(usize) -> Result<Box<dyn Loop>>,
        starts: Cell<usize>,
    }

    impl Default for Mock {
        fn default() -> Self {
            let model =
                MemoryModel { bytes_per_env: 100.0, weight_bytes: 0, transition_bytes: 10, bytes_per_chunk_step: 10 };
            let answer = |num_envs| -> Result<Box<dyn Loop>> {
                Ok(Box::new(Slow { num_envs, chunk: Duration::from_millis(1) }))
            };
            Self { model, hash: "h", agent: "random", tiles: &[], answer, starts: Cell::new(0) }
        }
    }

    impl Subject for Mock {
        fn env(&self) -> &str {
            "Mock-v0"
        }
        fn env_hash(&self) -> String {
            self.hash.to_owned()
        }
        fn agent(&self) -> &str {
            self.agent
        }
        fn memory(&self) -> MemoryModel {
            self.model
        }
        fn tiles(&self) -> &[usize] {
            self.tiles
        }
        fn agent_times(&self) -> Result<AgentTimes> {
            Ok(AgentTimes { forward_us: Some(1.0), update_us: Some(0.0) })
        }
        fn start(&self, num_envs: usize, _threads: usize) -> Result<Box<dyn Loop>> {
            self.starts.set(self.starts.get() + 1);
            (self.answer)(num_envs)
        }
    }

    fn request(subject: &Mock) -> Request<'_> {
        let threads = Some(1);
        // More than it takes, also where others want the machine.
        let (sample, time_budget) = (Duration::from_millis(1), Some(Duration::from_secs(20)));
        Request { threads, sample, time_budget, ..Request::new(subject, 64) }
    }

    fn run(request: &Request<'_>, cache: &CacheFile) -> Tuned {
        tune(request, Some(cache), &mut |_| {}).unwrap()
    }

    #[test]
    fn a_choice_is_measured_once_then_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFile::in_folder(folder.path());
        let mock = Mock::default();
        let first = run(&request(&mock), &cache);
        assert_eq!((&first.source, first.warnings.len()), (&Source::MeasuredNow, 0));
        assert!(first.hardware.seconds.is_some() && first.environment.seconds.is_some());
        assert!(first.scan_chunk_size > 8, "a chunk of 8 costs 64 times as much as one of 512: {first}");
        assert_eq!(
            first.candidates.iter().map(|row| row.chunk_size).collect::<Vec<_>>(),
            [512, 256, 128, 64, 32, 16, 8]
        );
        assert!(first.to_string().contains("<- best") && first.to_string().ends_with("measured now; threads = 1)\n"));
        let starts = mock.starts.get();

        let second = run(&request(&mock), &cache);
        assert_eq!((second.scan_chunk_size, mock.starts.get()), (first.scan_chunk_size, starts), "nothing was run");
        assert_eq!(second.candidates, first.candidates, "the whole response surface is kept");
        assert!(second.to_string().contains("from cache, validated 20"));

        let other_size = run(&Request { num_envs: 65, ..request(&mock) }, &cache);
        assert!(other_size.environment.seconds.is_none() && other_size.source == Source::MeasuredNow);
        assert_eq!(mock.starts.get(), starts + 1, "profiles are reused");
        let forced = run(&Request { force: true, ..request(&mock) }, &cache);
        assert!(forced.source == Source::MeasuredNow && forced.environment.seconds.is_some());
        assert_eq!(cache.load().unwrap().profiles.chunk_size_configs.len(), 2);
    }

    #[test]
    fn the_fastest_tile_is_found_and_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFile::in_folder(folder.path());
        let mock = Mock { tiles: &[128, 32, 512], ..Mock::default() };
        let first = run(&request(&mock), &cache);
        assert_eq!((first.tile, first.tiles.len()), (Some(32), 3), "{first}");
        assert!(first.to_string().contains("<- best") && first.to_string().ends_with(", tile = 32)\n"), "{first}");
        let before = first.candidates.iter().find(|row| row.chunk_size == first.scan_chunk_size).unwrap();
        assert!(first.throughput_steps_per_s > before.throughput_steps_per_s.map(|speed| 1.5 * speed), "{first}");
        let second = run(&request(&mock), &cache);
        assert!(matches!(second.source, Source::Cache { .. }));
        assert_eq!((second.tile, second.tiles), (first.tile, first.tiles));
        // Of another version, or made up.
        let text = fs::read_to_string(cache.path()).unwrap();
        fs::write(cache.path(), text.replace("\"tile\": 32,\n      \"tiles\"", "\"tile\": 7,\n      \"tiles\""))
            .unwrap();
        let again = run(&request(&mock), &cache);
        assert_eq!((&again.source, again.tile), (&Source::MeasuredNow, Some(32)), "{again}");
        assert!(again.warnings.iter().any(|warning| warning.contains("it has no tile")), "{:?}", again.warnings);
        let stored = || cache.load().unwrap().profiles.chunk_size_configs.len();
        let before = stored();
        // Time for chunks, and none for a tile, which takes a share of what is left.
        let short = Request { num_envs: 128, sample: Duration::from_millis(50), ..request(&mock) };
        let tuned = run(&Request { time_budget: Some(Duration::from_millis(1500)), ..short }, &cache);
        assert_eq!((tuned.tiles.len(), stored()), (0, before), "{tuned}");

        let equal = run(&request(&Mock { tiles: &[128, 64], agent: "pid", ..Mock::default() }), &cache);
        assert_eq!(equal.tile, Some(128), "the usual one of equals: {equal}");
    }

    #[test]
    fn other_parameters_machines_and_damage_are_measured_again_aloud() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFile::in_folder(folder.path());
        run(&request(&Mock::default()), &cache);
        let told = |tuned: &Tuned, text: &str| {
            assert!(tuned.warnings.iter().any(|warning| warning.contains(text)), "{text}: {:?}", tuned.warnings);
            assert_eq!(tuned.source, Source::MeasuredNow);
        };
        told(&run(&request(&Mock { hash: "g", ..Mock::default() }), &cache), "other parameters");

        let of_another = |text: &str, machine: &Machine| text.replace(&machine.fingerprint, "0123456789abcdef");
        let text = fs::read_to_string(cache.path()).unwrap();
        let machine = Machine::detect();
        fs::write(cache.path(), of_another(&text, &machine)).unwrap();
        told(&run(&request(&Mock { hash: "g", ..Mock::default() }), &cache), "its entries are ignored");
        assert_eq!(run(&request(&Mock { hash: "g", ..Mock::default() }), &cache).warnings, Vec::<String>::new());

        fs::write(cache.path(), &text[..text.len() / 2]).unwrap();
        told(&run(&request(&Mock::default()), &cache), "kept as .bak");
        assert_eq!(fs::read_to_string(cache.backup()).unwrap(), text[..text.len() / 2]);
        assert!(matches!(run(&request(&Mock::default()), &cache).source, Source::Cache { .. }), "rebuilt");
    }

    #[test]
    fn what_does_not_fit_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFile::in_folder(folder.path());
        let mock = Mock::default();
        // 64 environments of 100 bytes, and 10 bytes for each step of a chunk.
        let tuned = run(&Request { memory_budget: MemoryBudget::Bytes(6400 + 700), ..request(&mock) }, &cache);
        let oom: Vec<_> = tuned.candidates.iter().filter(|row| row.status == Status::Oom).collect();
        assert_eq!(oom.iter().map(|row| row.chunk_size).collect::<Vec<_>>(), [512, 256, 128]);
        assert!(tuned.to_string().contains("chunk  512    OOM   needs 11.2 KiB, budget 6.93 KiB"), "{tuned}");
        assert!(tuned.scan_chunk_size <= 64);

        let starts = mock.starts.get();
        let none = Request { memory_budget: MemoryBudget::Bytes(5000), buffer_size: Some(100), ..request(&mock) };
        let error = tune(&none, Some(&cache), &mut |_| {}).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::NoValidChunkSize { most_envs: 39, .. }), "{text}");
        assert!(
            text.starts_with("No valid chunk_size: 64 environments of Mock-v0 under random need 7.30 KiB"),
            "{text}"
        );
        assert!(text.contains("lower num_envs (at most 39 fit)") && text.contains("buffer_size below 100"), "{text}");
        assert_eq!(mock.starts.get(), starts, "nothing was allocated");
    }

    #[test]
    fn what_is_remembered_must_fit_too() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFile::in_folder(folder.path());
        let mock = Mock::default();
        let within = |bytes| Request { memory_budget: MemoryBudget::Bytes(bytes), ..request(&mock) };
        let large = run(&request(&mock), &cache).scan_chunk_size;
        assert!(large > 64, "{large}");
        let error = tune(&within(5000), Some(&cache), &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::NoValidChunkSize { .. }), "{error}");
        let small = run(&within(6400 + 700), &cache);
        assert!(small.source == Source::MeasuredNow && small.scan_chunk_size <= 64, "{small}");
    }

    #[test]
    fn the_time_of_a_step_is_that_of_this_agent() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFile::in_folder(folder.path());
        for agent in ["random", "pid"] {
            let tuned = run(&request(&Mock { agent, ..Mock::default() }), &cache);
            assert!(tuned.environment.seconds.is_some(), "{agent}");
        }
        let profiles = cache.load().unwrap().profiles.env_profiles;
        assert_eq!(profiles.keys().collect::<Vec<_>>(), ["Mock-v0", "Mock-v0:pid"]);
    }

    #[test]
    fn only_memory_errors_are_out_of_memory() {
        let mock = Mock { answer: |_| Err(Error::Subject("broken".to_owned())), ..Mock::default() };
        assert!(matches!(tune(&request(&mock), None, &mut |_| {}), Err(Error::Subject(_))));
    }

    #[test]
    fn without_time_the_rule_of_thumb_holds_and_is_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFile::in_folder(folder.path());
        let mock = Mock::default();
        let tuned = run(&Request { time_budget: Some(Duration::ZERO), ..request(&mock) }, &cache);
        assert_eq!((tuned.scan_chunk_size, tuned.throughput_steps_per_s), (256, None));
        assert!(tuned.notes[0].contains("the time budget ended before two chunk sizes could be compared; using 256"));
        assert!(tuned.to_string().contains("(the rule of thumb, not tuned; threads = 1)"), "{tuned}");
        assert!(cache.load().unwrap().profiles.chunk_size_configs.is_empty());
    }

    #[test]
    fn too_little_time_to_compare_is_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFile::in_folder(folder.path());
        let mock = Mock::default();
        // The environment's profile takes three samples, which leaves less than four for one candidate.
        let (sample, time_budget) = (Duration::from_millis(100), Some(Duration::from_millis(650)));
        for threads in [Some(1), None] {
            let tuned = run(&Request { sample, time_budget, threads, force: true, ..request(&mock) }, &cache);
            assert_eq!((tuned.scan_chunk_size, &tuned.source), (256, &Source::RuleOfThumb), "{tuned}");
            assert!(tuned.notes.iter().all(|note| note.contains("the time budget ended")), "{tuned}");
        }
        assert!(cache.load().unwrap().profiles.chunk_size_configs.is_empty());
    }

    #[test]
    fn threads_that_were_not_compared_are_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFile::in_folder(folder.path());
        let mock = Mock::default();
        // Enough for some chunk sizes, but a quarter of it not for two numbers of threads.
        let (sample, time_budget) = (Duration::from_millis(50), Some(Duration::from_millis(1600)));
        let tuned = run(&Request { sample, time_budget, threads: None, ..request(&mock) }, &cache);
        assert!(tuned.scan_chunk_size > 8, "{tuned}");
        if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
            assert!(tuned.notes.iter().any(|note| note.contains("not tuned: the time budget ended")), "{tuned}");
            assert!(cache.load().unwrap().profiles.chunk_size_configs.is_empty());
        }
    }

    #[test]
    fn the_interval_of_a_speed_holds_it_however_skewed_the_times_are() {
        let mut random = Stream::new(3, 0);
        for rounds in 1..40 {
            // Every third round is disturbed, so that the mean is far from the median.
            let mut slow = || if random.below(3) == 0 { 2.0 } else { 1.0 };
            let times: Vec<f64> = (0..rounds).map(|_| slow()).collect();
            let (speed, interval) = speed(&times);
            assert!(interval.contains(speed), "{speed} is not in {interval:?}");
        }
        let (mostly, _) = speed(&[2.0, 2.0, 2.0, 2.0, 90.0]);
        assert_eq!(mostly, 5e8);
    }

    #[test]
    fn a_choice_without_the_rule_of_thumb_needs_more_than_a_best() {
        let found = |no_difference| Found {
            chosen: 1,
            equal: if no_difference { vec![0, 1, 2] } else { vec![1] },
            fastest: 1,
            no_difference,
            out_of_time: false,
            times: vec![],
        };
        assert_eq!(settled(&found(false), &[8, 16, 256], 256), Some(1));
        assert_eq!(settled(&found(false), &[8, 16, 32], 256), None);
        assert_eq!(settled(&found(true), &[8, 16], 256), None);
        assert_eq!(settled(&found(true), &[8, 16, 32], 256), Some(1));
        let cut_short = |no_difference| Found { out_of_time: true, ..found(no_difference) };
        assert_eq!(settled(&cut_short(false), &[8, 16, 256], 256), Some(1), "it is beaten");
        assert_eq!(settled(&cut_short(true), &[8, 16, 256], 256), Some(2), "it is not");
    }
}
