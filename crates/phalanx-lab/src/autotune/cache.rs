//! The file in which profiles and tuned chunk sizes are remembered.
//!
//! It is read without a lock, because it is replaced whole, and changed under one: whoever changes it reads it again
//! first, so that two processes keep each other's entries. A part that cannot be understood is left out aloud, and
//! the file that held it is kept as `.bak` when it is next written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::candidates::Schedule;
use crate::files::{cache_folder, write_atomically};
use crate::machine::Machine;
use crate::timestamp::Timestamp;
use crate::{Error, Result, json};

/// The layout that is written.
pub const SCHEMA_VERSION: u64 = 1;
/// The name of the file.
pub const FILE_NAME: &str = "autotune_profiles.json";
/// Entries that are older are measured again.
pub const MAX_AGE_DAYS: f64 = 30.0;

const SECONDS_PER_DAY: f64 = 86_400.0;

/// Everything that is remembered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profiles {
    /// The layout.
    pub schema_version: u64,
    /// Machines, by name.
    pub hardware: BTreeMap<String, HardwareProfile>,
    /// Environments, by name.
    pub env_profiles: BTreeMap<String, EnvProfile>,
    /// Agents, by name.
    pub agent_profiles: BTreeMap<String, AgentProfile>,
    /// Tuned sizes, by [`ConfigKey`].
    pub chunk_size_configs: BTreeMap<String, ChunkConfig>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HardwareProfile {
    /// What computes: `cpu`.
    pub platform: String,
    /// Its model.
    pub device: String,
    /// Physical cores.
    pub cores: Option<usize>,
    /// First-level data cache.
    pub l1_kb: Option<u64>,
    /// Second-level cache.
    pub l2_kb: Option<u64>,
    /// Third-level cache.
    pub l3_kb: Option<u64>,
    /// Instruction sets that matter to the engine.
    pub isa: Vec<String>,
    /// Main memory.
    pub total_memory_gb: Option<f64>,
    /// What could still be had when it was looked at.
    pub available_memory_gb: Option<f64>,
    /// When.
    pub profiled_at: String,
    /// The machine's fingerprint; machines of one name may differ.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl HardwareProfile {
    /// This machine.
    pub fn of(machine: &Machine, now: Timestamp) -> Self {
        let gb = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        Self {
            platform: "cpu".to_owned(),
            device: machine.cpu.clone().unwrap_or_else(|| machine.architecture.clone()),
            cores: machine.cores.or(machine.threads),
            l1_kb: machine.caches.l1_kib,
            l2_kb: machine.caches.l2_kib,
            l3_kb: machine.caches.l3_kib,
            isa: machine.isa.clone(),
            total_memory_gb: machine.mem.total_bytes.map(gb),
            available_memory_gb: machine.mem.available_bytes.map(gb),
            profiled_at: now.rfc3339(),
            fingerprint: Some(machine.fingerprint.clone()),
            extra: Map::new(),
        }
    }
}

/// An environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvProfile {
    /// State, book-keeping and what a roll-out keeps.
    pub bytes_per_env: f64,
    /// Time of a step on one thread.
    #[serde(deserialize_with = "positive")]
    pub ns_per_step: f64,
    /// A hash of its parameters.
    pub env_hash: String,
    /// How many took part.
    pub profiled_with_num_envs: usize,
    /// When.
    pub profiled_at: String,
    /// By which version.
    #[serde(default)]
    pub engine_version: Option<String>,
    /// On which machine.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentProfile {
    /// Its weights.
    pub weight_bytes: u64,
    /// Time of one decision for one environment.
    pub forward_us: Option<f64>,
    /// Time of one update; 0 if it does not learn.
    pub update_us: Option<f64>,
    /// When.
    pub profiled_at: String,
    /// By which version.
    #[serde(default)]
    pub engine_version: Option<String>,
    /// On which machine.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A tuned chunk size, with everything that was measured to find it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunkConfig {
    /// The choice, at least 1.
    #[serde(deserialize_with = "at_least_one")]
    pub optimal_chunk_size: usize,
    /// The speed there; unknown if there was no time to measure it.
    pub throughput_steps_per_s: Option<f64>,
    /// When.
    pub validated_at: String,
    /// By which version.
    pub engine_version: String,
    /// A hash of the environment's parameters.
    pub env_hash: String,
    /// All sizes that were looked at, the largest first.
    pub candidates: Vec<Candidate>,
    /// Threads that it was measured with, at least 1.
    #[serde(default, deserialize_with = "unknown_or_at_least_one")]
    pub threads: Option<usize>,
    /// Environments that go through a chunk together, if that was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tile: Option<usize>,
    /// All numbers of them that were compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiles: Vec<TileSpeed>,
    /// On which machine.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// What a user should know of the result.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The most threads that any command takes.
const MOST_THREADS: usize = 1024;

impl ChunkConfig {
    /// Why nobody can have measured this: the choice is none of what was looked at, or no machine has such threads.
    fn fault(&self) -> Option<String> {
        let chunk = self.optimal_chunk_size;
        if !self.candidates.iter().any(|candidate| candidate.chunk_size == chunk && candidate.status == Status::Ok) {
            return Some(format!("its chunk size {chunk} is none of the candidates that were measured"));
        }
        let threads = self.threads.filter(|threads| *threads > MOST_THREADS)?;
        Some(format!("its threads are {threads}, but there are at most {MOST_THREADS}"))
    }
}

/// What nobody could run with is damage, as what cannot be read.
fn at_least_one<'de, D: Deserializer<'de>>(value: D) -> Result<usize, D::Error> {
    NonZeroUsize::deserialize(value).map(NonZeroUsize::get)
}

fn unknown_or_at_least_one<'de, D: Deserializer<'de>>(value: D) -> Result<Option<usize>, D::Error> {
    Option::<NonZeroUsize>::deserialize(value).map(|count| count.map(NonZeroUsize::get))
}

/// A time that is one.
fn positive<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(value)?;
    let error = || serde::de::Error::custom(format!("invalid value: {value}, expected one above 0"));
    (value > 0.0).then_some(value).ok_or_else(error)
}

/// A number of environments that go through a chunk together, and how fast that is with the chosen chunk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TileSpeed {
    /// Which.
    pub tile: usize,
    /// The median speed.
    pub throughput_steps_per_s: f64,
    /// The lower end of its interval.
    pub ci_low: f64,
    /// The upper end.
    pub ci_high: f64,
}

/// A chunk size that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Which.
    pub chunk_size: usize,
    /// What came of it.
    pub status: Status,
    /// The median speed.
    pub throughput_steps_per_s: Option<f64>,
    /// Lower end of its interval: of 95 %, or of all rounds if there were fewer than six.
    pub ci_low: Option<f64>,
    /// Upper end.
    pub ci_high: Option<f64>,
    /// Memory that it takes, as predicted.
    pub bytes: u64,
}

/// What came of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Measured.
    Ok,
    /// Over the memory budget.
    Oom,
}

/// What decides whether an entry still holds.
#[derive(Debug, Clone, Copy)]
pub struct Now<'a> {
    /// This machine.
    pub machine: &'a Machine,
    /// This engine.
    pub engine_version: &'a str,
    /// The time.
    pub time: Timestamp,
}

/// What an entry says of where it is from.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// The machine; files of other tools may not say.
    pub fingerprint: Option<&'a str>,
    /// The engine.
    pub engine_version: Option<&'a str>,
    /// The time.
    pub at: &'a str,
    /// The environment's parameters, if they matter, and those asked for.
    pub env_hash: Option<(&'a str, &'a str)>,
}

impl Now<'_> {
    /// Why an entry does not hold any more.
    pub fn objection(&self, origin: Origin<'_>) -> Option<String> {
        let minor = |version: &str| version.split('.').take(2).collect::<Vec<_>>().join(".");
        if origin.fingerprint.is_some_and(|print| print != self.machine.fingerprint) {
            return Some("it was measured on another machine of this name".to_owned());
        }
        if let Some(version) = origin.engine_version.filter(|version| minor(version) != minor(self.engine_version)) {
            return Some(format!("it was measured with version {version}, and this is {}", self.engine_version));
        }
        if origin.env_hash.is_some_and(|(then, now)| then != now) {
            return Some("the environment had other parameters".to_owned());
        }
        let Some(then) = Timestamp::parse_rfc3339(origin.at) else {
            return Some(format!("its date '{}' is none", origin.at));
        };
        let days = (self.time.unix_seconds() - then.unix_seconds()) / SECONDS_PER_DAY;
        match days {
            // Clocks of machines that share a file differ a little.
            days if days < -1.0 => Some(format!("its date {} is in the future", origin.at)),
            days if days > MAX_AGE_DAYS => Some(format!("it is {days:.0} days old")),
            _ => None,
        }
    }
}

/// What a tuned chunk size is valid for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigKey {
    /// The environment.
    pub env: String,
    /// The agent.
    pub agent: String,
    /// Environments.
    pub num_envs: usize,
    /// The machine's name.
    pub hardware: String,
    /// Transitions in the replay buffer.
    pub buffer_size: Option<u64>,
    /// Threads, if the user has fixed them.
    pub threads: Option<usize>,
    /// The precision, if it is not `f32`.
    pub dtype: Option<String>,
    /// When control returns in any case, which decides the candidates.
    pub schedule: Schedule,
}

impl std::fmt::Display for ConfigKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { env, agent, num_envs, hardware, .. } = self;
        write!(f, "{env}:{agent}:{num_envs}:{hardware}")?;
        self.buffer_size.map_or(Ok(()), |size| write!(f, ":buf{size}"))?;
        self.threads.map_or(Ok(()), |threads| write!(f, ":t{threads}"))?;
        self.dtype.as_ref().map_or(Ok(()), |dtype| write!(f, ":{dtype}"))?;
        self.schedule.eval_frequency.map_or(Ok(()), |steps| write!(f, ":eval{steps}"))?;
        self.schedule.rollout_steps.map_or(Ok(()), |steps| write!(f, ":rollout{steps}"))
    }
}

/// What was read, and what a user should know of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded {
    /// What could be understood.
    pub profiles: Profiles,
    /// What could not.
    pub damage: Vec<String>,
}

/// The file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheFile {
    path: PathBuf,
}

impl CacheFile {
    /// The file in a folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self { path: folder.join(FILE_NAME) }
    }

    /// The user's, in the [`cache_folder`]; `None` without one.
    pub fn of_user() -> Option<Self> {
        cache_folder().map(|folder| Self::in_folder(&folder))
    }

    /// Where it is, or would be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it; a missing file is an empty one.
    pub fn load(&self) -> Result<Loaded> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(parse(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Loaded::default()),
            Err(error) => Err(Error::read(&self.path)(error)),
        }
    }

    /// Changes what the file holds now, alone. Answers the damage that was found, a copy of which is kept.
    pub fn update(&self, change: impl FnOnce(&mut Profiles)) -> Result<Vec<String>> {
        let _lock = self.lock()?;
        let Loaded { mut profiles, damage } = self.load()?;
        if !damage.is_empty() {
            fs::copy(&self.path, self.backup()).map_err(Error::write(&self.backup()))?;
        }
        profiles.schema_version = SCHEMA_VERSION;
        change(&mut profiles);
        write_atomically(&self.path, json::pretty("cache", &profiles)?.as_bytes())?;
        Ok(damage)
    }

    /// Removes the file and its copy; answers what was there.
    pub fn clear(&self) -> Result<Vec<PathBuf>> {
        if !self.path.parent().is_some_and(Path::is_dir) {
            return Ok(Vec::new());
        }
        // The lock itself stays: another process may be waiting for it.
        let _lock = self.lock()?;
        let mut removed = Vec::new();
        for path in [self.path.clone(), self.backup()] {
            match fs::remove_file(&path) {
                Ok(()) => removed.push(path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::write(&path)(error)),
            }
        }
        Ok(removed)
    }

    /// Where a damaged file is kept.
    pub fn backup(&self) -> PathBuf {
        self.beside("bak")
    }

    /// Waits until nobody else has the lock; it is given back when dropped, also by the death of its holder.
    fn lock(&self) -> Result<File> {
        let path = self.beside("lock");
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(Error::write(folder))?;
        let file = File::options().create(true).append(true).open(&path).map_err(Error::write(&path))?;
        file.lock().map_err(Error::write(&path))?;
        Ok(file)
    }

    fn beside(&self, extension: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".");
        name.push(extension);
        name.into()
    }
}

/// Takes what can be understood, entry by entry.
fn parse(bytes: &[u8]) -> Loaded {
    let mut loaded = Loaded::default();
    let mut document = match serde_json::from_slice(bytes) {
        Ok(Value::Object(document)) => document,
        Ok(_) => return Loaded { damage: vec!["it is not a JSON object".to_owned()], ..loaded },
        Err(error) => return Loaded { damage: vec![format!("it is not JSON: {error}")], ..loaded },
    };
    match document.remove("schema_version") {
        Some(version) if version == SCHEMA_VERSION => {}
        other => {
            let version = other.map_or("missing".to_owned(), |version| version.to_string());
            let damage = format!("its schema_version is {version}, but this version reads {SCHEMA_VERSION}");
            return Loaded { damage: vec![damage], ..loaded };
        }
    }
    let Loaded { profiles, damage } = &mut loaded;
    profiles.schema_version = SCHEMA_VERSION;
    let mut take = |name| document.remove(name);
    profiles.hardware = section("hardware", take("hardware"), damage);
    profiles.env_profiles = section("env_profiles", take("env_profiles"), damage);
    profiles.agent_profiles = section("agent_profiles", take("agent_profiles"), damage);
    profiles.chunk_size_configs = section("chunk_size_configs", take("chunk_size_configs"), damage);
    profiles.chunk_size_configs.retain(|key, config| {
        let fault = config.fault();
        damage.extend(fault.iter().map(|why| format!("its entry {key} of chunk_size_configs is damaged: {why}")));
        fault.is_none()
    });
    loaded
}

/// A missing section is an empty one: it is rebuilt as it is needed.
fn section<T: DeserializeOwned>(name: &str, value: Option<Value>, damage: &mut Vec<String>) -> BTreeMap<String, T> {
    let entries = match value {
        None => return BTreeMap::new(),
        Some(Value::Object(entries)) => entries,
        Some(_) => {
            damage.push(format!("its section {name} is not an object"));
            return BTreeMap::new();
        }
    };
    let read = |(key, value): (String, Value)| match serde_json::from_value(value) {
        Ok(entry) => Some((key, entry)),
        Err(error) => {
            damage.push(format!("its entry {key} of {name} is damaged: {error}"));
            None
        }
    };
    entries.into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(chunk: usize) -> ChunkConfig {
        ChunkConfig {
            optimal_chunk_size: chunk,
            throughput_steps_per_s: Some(1e6),
            validated_at: "2026-07-01T00:00:00Z".to_owned(),
            engine_version: "0.1.0".to_owned(),
            env_hash: "h".to_owned(),
            candidates: vec![Candidate {
                chunk_size: chunk,
                status: Status::Ok,
                throughput_steps_per_s: Some(1e6),
                ci_low: None,
                ci_high: None,
                bytes: 1,
            }],
            threads: Some(2),
            tile: None,
            tiles: Vec::new(),
            fingerprint: Some("f".to_owned()),
            notes: Vec::new(),
            extra: Map::new(),
        }
    }

    fn put(file: &CacheFile, key: &str, chunk: usize) -> Vec<String> {
        file.update(|profiles| drop(profiles.chunk_size_configs.insert(key.to_owned(), config(chunk)))).unwrap()
    }

    #[test]
    fn many_writers_at_once_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = CacheFile::in_folder(&folder.path().join("new/folder"));
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let file = &file;
                scope.spawn(move || (1..11).for_each(|i| drop(put(file, &format!("{writer}:{i}"), i))));
            }
        });
        let Loaded { profiles, damage } = file.load().unwrap();
        assert_eq!((profiles.chunk_size_configs.len(), damage), (80, vec![]));
        assert_eq!(profiles.chunk_size_configs["3:7"], config(7));
    }

    #[test]
    fn damage_is_told_kept_and_repaired() {
        let folder = tempfile::tempdir().unwrap();
        let file = CacheFile::in_folder(folder.path());
        for (text, told) in [
            ("{\"schema_version\": 1, \"hard", "not JSON"),
            ("[]", "not a JSON object"),
            ("{}", "schema_version is missing"),
            ("{\"schema_version\": 99}", "schema_version is 99"),
            ("{\"schema_version\": 1, \"env_profiles\": 5}", "section env_profiles"),
            ("{\"schema_version\": 1, \"chunk_size_configs\": {\"a:b\": {}}}", "entry a:b"),
        ] {
            fs::write(file.path(), text).unwrap();
            assert!(file.load().unwrap().damage[0].contains(told), "{text}");
            assert!(put(&file, "k", 64)[0].contains(told));
            assert_eq!(fs::read_to_string(file.backup()).unwrap(), text);
            assert_eq!(file.load().unwrap().damage, Vec::<String>::new());
            assert_eq!(file.load().unwrap().profiles.chunk_size_configs.len(), 1);
        }
    }

    #[test]
    fn a_damaged_entry_leaves_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = CacheFile::in_folder(folder.path());
        put(&file, "good", 32);
        let mut document: Value = serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap();
        document["chunk_size_configs"]["bad"] = "nonsense".into();
        for (field, value) in [
            ("optimal_chunk_size", 0),
            ("optimal_chunk_size", 1 << 30),
            ("threads", 0),
            ("threads", -1),
            ("threads", 1025),
        ] {
            let entry = format!("{field} of {value}");
            document["chunk_size_configs"][&entry] = document["chunk_size_configs"]["good"].clone();
            document["chunk_size_configs"][&entry][field] = value.into();
        }
        let still = serde_json::json!({"bytes_per_env": 1.0, "ns_per_step": 0.0, "env_hash": "h",
            "profiled_with_num_envs": 1, "profiled_at": "2026-07-01T00:00:00Z"});
        document["env_profiles"]["still"] = still;
        fs::write(file.path(), document.to_string()).unwrap();
        let Loaded { profiles, damage } = file.load().unwrap();
        assert_eq!(profiles.chunk_size_configs.into_keys().collect::<Vec<_>>(), ["good"]);
        assert_eq!((damage.len(), profiles.env_profiles.len()), (7, 0), "{damage:?}");
    }

    #[test]
    fn clearing_removes_the_file_and_its_copy() {
        let folder = tempfile::tempdir().unwrap();
        let file = CacheFile::in_folder(folder.path());
        assert_eq!(CacheFile::in_folder(&folder.path().join("none")).clear().unwrap(), Vec::<PathBuf>::new());
        fs::write(file.path(), "nonsense").unwrap();
        put(&file, "k", 8);
        assert_eq!(file.clear().unwrap(), [file.path().to_owned(), file.backup()]);
        assert_eq!(file.load().unwrap(), Loaded::default());
    }

    #[test]
    fn entries_hold_for_this_machine_version_parameters_and_month() {
        let machine = Machine::detect();
        let time = Timestamp::parse_rfc3339("2026-07-22T00:00:00Z").unwrap();
        let now = Now { machine: &machine, engine_version: "0.1.7", time };
        let origin = Origin {
            fingerprint: Some(&machine.fingerprint),
            engine_version: Some("0.1.2"),
            at: "2026-06-22T00:00:00Z",
            env_hash: Some(("h", "h")),
        };
        assert_eq!(now.objection(origin), None, "the 30th day, another patch version");
        assert_eq!(now.objection(Origin { fingerprint: None, engine_version: None, ..origin }), None);
        for (changed, reason) in [
            (Origin { fingerprint: Some("other"), ..origin }, "another machine"),
            (Origin { engine_version: Some("0.2.0"), ..origin }, "version 0.2.0"),
            (Origin { env_hash: Some(("h", "g")), ..origin }, "other parameters"),
            (Origin { at: "2026-06-21T00:00:00Z", ..origin }, "31 days old"),
            (Origin { at: "2027-06-21T00:00:00Z", ..origin }, "in the future"),
            (Origin { at: "yesterday", ..origin }, "'yesterday'"),
        ] {
            assert!(now.objection(changed).unwrap().contains(reason), "{reason}");
        }
    }

    #[test]
    fn keys_name_what_is_unusual() {
        let key = ConfigKey {
            env: "CartPole-v1".to_owned(),
            agent: "random".to_owned(),
            num_envs: 4096,
            hardware: "Ryzen5950X_16c_64GB".to_owned(),
            buffer_size: None,
            threads: None,
            dtype: None,
            schedule: Schedule::default(),
        };
        assert_eq!(key.to_string(), "CartPole-v1:random:4096:Ryzen5950X_16c_64GB");
        let key = ConfigKey { buffer_size: Some(1000), threads: Some(1), dtype: Some("f64".to_owned()), ..key };
        assert_eq!(key.to_string(), "CartPole-v1:random:4096:Ryzen5950X_16c_64GB:buf1000:t1:f64");
        let schedule = Schedule { eval_frequency: Some(1000), rollout_steps: Some(128) };
        assert!(ConfigKey { schedule, ..key }.to_string().ends_with(":f64:eval1000:rollout128"));
    }
}
