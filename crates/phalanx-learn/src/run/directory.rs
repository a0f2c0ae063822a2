//! The folder of a run: how it is named, what lies where, and reading it back.
//!
//! ```text
//! outputs/2026-07-22/13-05-01[-k]/   or, in the layout `cleanrl`, runs/<env>__<experiment>__<seed>__<unix time>[-k]/
//!     config.toml  run_metadata.json  results.json  .lock
//!     metrics.csv  metrics.jsonl  events.out.tfevents.*  table.npy (of a table, if wanted)
//!     checkpoints/{step_%08d,final}.safetensors
//!     episodes/step_%08d/episode_%04d.npz
//!     videos/step_%08d/episode_%04d.gif
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use super::checkpoint::{self, Checkpoint};
use super::config::{Config, Layout};
use super::files;
use crate::error::{Error, Result};

const CONFIG: &str = "config.toml";
const METADATA: &str = "run_metadata.json";
const RESULTS: &str = "results.json";
const LOCK: &str = ".lock";

/// A folder that belongs to one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Makes a new folder below `root` in the configuration's layout, for a run that begins at `now`, and stores the
    /// configuration in it. A folder that exists is never reused, whoever makes it at the same time.
    pub fn create(root: &Path, config: &Config, now: SystemTime) -> Result<Self> {
        let (folder, name) = match config.log.layout {
            Layout::Dated => {
                let (date, time) = civil(now);
                (root.join("outputs").join(date), time)
            }
            Layout::CleanRl => (root.join("runs"), run_name(config, now)),
        };
        fs::create_dir_all(&folder).map_err(Error::place(&folder))?;
        for k in 0_u32.. {
            let path = folder.join(if k == 0 { name.clone() } else { format!("{name}-{k}") });
            match fs::create_dir(&path) {
                Ok(()) => return Self::with_config(path, config),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::place(&path)(error)),
            }
        }
        unreachable!("the names do not end")
    }

    /// Makes the folder `path`, which must not exist, and stores the configuration in it.
    pub fn create_at(path: PathBuf, config: &Config) -> Result<Self> {
        if let Some(parent) = path.parent() {
            files::make_folder(parent)?;
        }
        fs::create_dir(&path).map_err(Error::write(&path))?;
        Self::with_config(path, config)
    }

    fn with_config(path: PathBuf, config: &Config) -> Result<Self> {
        let written = files::replace_quickly(&path.join(CONFIG), config.to_toml().as_bytes());
        // A folder without a configuration is of no use to anybody.
        written.inspect_err(|_| drop(fs::remove_dir(&path)))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder and all that is in it; only for who has just made it.
    pub(crate) fn remove(&self) {
        // What cannot be removed stays; why it was to be removed matters more.
        let _ = fs::remove_dir_all(&self.path);
    }

    /// Makes the caller the only one who trains this run, for as long as the answer lives.
    ///
    /// # Errors
    /// If another process does so already.
    pub fn lock(&self) -> Result<Lock> {
        Lock::of(&self.path)
    }

    /// Removes what a kill left half-written; only for who holds the [`lock`](Self::lock).
    pub fn remove_unfinished(&self, _: &Lock) -> Result<()> {
        files::remove_unfinished(&self.path)
    }

    /// Takes back that the run has come to its end, because it is to be longer; it goes on from the checkpoint in `from`,
    /// of `global_step` steps. Only for who holds the [`lock`](Self::lock).
    ///
    /// Killed on the way, it is a run that lacks its results, of one length or the other: either goes on.
    pub(crate) fn make_longer(&self, config: &Config, from: &Path, global_step: u64, _: &Lock) -> Result<()> {
        let missing_is_fine = |path: &Path, done: io::Result<()>| match done {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::write(path)(error)),
            _ => Ok(()),
        };
        let results = self.path.join(RESULTS);
        missing_is_fine(&results, fs::remove_file(&results))?;
        let at = |name: &str| checkpoint::path_of(&self.checkpoints(), name);
        let (end, step) = (at(checkpoint::FINAL), at(&checkpoint::step_name(global_step)));
        // One that it does not go on from is damaged, or was overtaken.
        let done = if from == end { fs::rename(&end, step) } else { fs::remove_file(&end) };
        missing_is_fine(&end, done)?;
        files::replace(&self.path.join(CONFIG), |file| file.write_all(config.to_toml().as_bytes()))
    }

    /// Stores the metadata, in place of earlier ones.
    pub fn write_metadata(&self, metadata: &Metadata) -> Result<()> {
        write_json(&self.path.join(METADATA), metadata)
    }

    /// Stores the results, in place of earlier ones.
    pub fn write_results(&self, results: &Results) -> Result<()> {
        write_json(&self.path.join(RESULTS), results)
    }

    /// Stores what was learnt in a form that other programs read.
    pub(crate) fn write_export(&self, name: &str, bytes: &[u8]) -> Result<()> {
        files::replace_quickly(&self.path.join(name), bytes)
    }

    /// Stores a checkpoint under a name: [`checkpoint::step_name`] or [`checkpoint::FINAL`].
    pub fn write_checkpoint(&self, name: &str, checkpoint: &Checkpoint) -> Result<PathBuf> {
        let folder = self.checkpoints();
        if !folder.is_dir() {
            files::make_folder(&folder)?;
            // A checkpoint that survives a power cut is of use with its configuration only.
            files::settle(&self.path.join(CONFIG))?;
        }
        let path = checkpoint::path_of(&folder, name);
        checkpoint.write(&path)?;
        Ok(path)
    }

    /// Removes a checkpoint, if it is there.
    pub(crate) fn remove_checkpoint(&self, name: &str) {
        // What stays takes room and does no harm.
        let _ = fs::remove_file(checkpoint::path_of(&self.checkpoints(), name));
    }

    /// The folder of its checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// The folder of the episodes of an evaluation.
    pub fn episodes(&self, global_step: u64) -> PathBuf {
        self.path.join("episodes").join(checkpoint::step_name(global_step))
    }

    /// The folder of the videos of an evaluation.
    pub fn videos(&self, global_step: u64) -> PathBuf {
        self.path.join("videos").join(checkpoint::step_name(global_step))
    }

    /// Stores the video of an episode of an evaluation.
    pub fn write_video(&self, global_step: u64, number: usize, gif: &[u8]) -> Result<()> {
        let folder = self.videos(global_step);
        files::make_folder(&folder)?;
        files::replace_quickly(&folder.join(format!("episode_{number:04}.gif")), gif)
    }
}

/// Held by the one process that trains a run; the system gives it back if that is killed.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Makes the caller the only one who trains in this folder, for as long as the answer lives.
    ///
    /// # Errors
    /// If another process does so already.
    pub fn of(folder: &Path) -> Result<Self> {
        let path = folder.join(LOCK);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(Error::write(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Busy { path: folder.display().to_string() }),
            // Some network disks know no locks; nothing can be promised there.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(Self { _file: file }),
            Err(TryLockError::Error(error)) => Err(Error::write(&path)(error)),
        }
    }
}

/// The name of a run as CleanRL's tools know it: `CartPole-v1__phalanx__1__1784725501`.
pub fn run_name(config: &Config, now: SystemTime) -> String {
    let unix = since_1970(now).as_secs();
    // A name of an environment may hold what a path must not.
    let env = config.env.name.replace(['/', '\\'], "_");
    format!("{env}__{}__{}__{unix}", config.log.experiment, config.run.seed)
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It goes on, or was killed.
    Running,
    /// It came to its end.
    Ok,
    /// It failed.
    Error,
    /// The user stopped it.
    Interrupted,
}

/// What is to be known of a run besides its settings. What the system does not tell is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// `training` or `evaluation`.
    pub run_type: String,
    /// Its name, as CleanRL's tools know it.
    pub run_name: String,
    /// When it began, in UTC.
    pub timestamp: String,
    /// How long it took so far, all sessions together.
    pub duration_seconds: f64,
    /// The version of this library.
    pub version: String,
    /// The commit that the program was built from.
    pub git_hash: Option<String>,
    /// The operating system.
    pub os: String,
    /// The processor's model.
    pub cpu_model: Option<String>,
    /// Physical cores.
    pub cores: Option<usize>,
    /// Threads of the run.
    pub threads: usize,
    /// The graphics processor that took part.
    pub gpu: Option<String>,
    /// What computed: `cpu`.
    pub backend: String,
    /// Devices that computed.
    pub device_count: usize,
    /// What the run's randomness came from.
    pub seed: u64,
    /// How it stands.
    pub status: Status,
    /// What went wrong, if something did.
    pub error: Option<String>,
    /// From its start, or a resumption, to an end of whatever kind.
    #[serde(default)]
    pub sessions: Vec<Session>,
}

/// A part of a run that one process did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// When it began, in UTC.
    pub timestamp: String,
    /// How long it took: of a session that was killed, until its last checkpoint.
    pub duration_seconds: f64,
    /// Steps of all environments when it began.
    pub from_step: u64,
    /// Steps of all environments when it ended.
    pub to_step: u64,
    /// How it stands.
    pub status: Status,
    /// What ran it: a run may go on with another program on another machine. `None` in files of before this was noted.
    #[serde(default)]
    pub machine: Option<Machine>,
}

/// A program and what it runs on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The version of this library.
    pub version: String,
    /// The commit that the program was built from.
    pub git_hash: Option<String>,
    /// The processor's model.
    pub cpu_model: Option<String>,
    /// Threads of the session.
    pub threads: usize,
}

impl Metadata {
    /// Of a run that begins now on this machine. The caller adds what only it can know: commit and physical cores.
    pub fn new(run_type: &str, config: &Config, now: SystemTime, threads: usize) -> Self {
        Self {
            run_type: run_type.to_owned(),
            run_name: run_name(config, now),
            timestamp: timestamp(now),
            duration_seconds: 0.0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            git_hash: None,
            os: std::env::consts::OS.to_owned(),
            cpu_model: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: None,
            threads,
            gpu: None,
            backend: "cpu".to_owned(),
            device_count: 1,
            seed: config.run.seed,
            status: Status::Running,
            error: None,
            sessions: Vec::new(),
        }
    }

    /// What these metadata say of the machine.
    pub fn machine(&self) -> Machine {
        let Self { version, git_hash, cpu_model, threads, .. } = self.clone();
        Machine { version, git_hash, cpu_model, threads }
    }

    /// A session begins. One that has not ended by now was killed, since there is one at a time.
    pub fn begin(&mut self, now: SystemTime, from_step: u64, machine: Machine) {
        for session in self.sessions.iter_mut().filter(|session| session.status == Status::Running) {
            session.status = Status::Interrupted;
        }
        self.sessions.push(Session {
            timestamp: timestamp(now),
            duration_seconds: 0.0,
            from_step,
            to_step: from_step,
            status: Status::Running,
            machine: Some(machine),
        });
        (self.status, self.error) = (Status::Running, None);
    }

    /// How the session that has begun last stands after so many seconds of it.
    pub fn update(&mut self, seconds: f64, to_step: u64, status: Status) {
        if let Some(session) = self.sessions.last_mut() {
            (session.duration_seconds, session.to_step, session.status) = (seconds, to_step, status);
        }
        self.duration_seconds = self.sessions.iter().map(|session| session.duration_seconds).sum();
        self.status = status;
    }
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned()).filter(|model| !model.is_empty())
}

/// What came out of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The figures most ask for.
    pub summary: Summary,
    /// How training went.
    pub training_metrics: TrainingMetrics,
    /// How the evaluations went.
    pub eval_metrics: EvalMetrics,
}

/// The figures most ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Mean return of the last evaluation.
    pub final_eval_return_mean: Option<f64>,
    /// Its population standard deviation.
    pub final_eval_return_std: Option<f64>,
    /// Steps that each environment made.
    pub training_steps_per_env: u64,
    /// Steps that all of them made.
    pub training_global_steps: u64,
    /// Evaluations.
    pub num_eval_checkpoints: usize,
}

impl Summary {
    /// Of a run with `num_envs` environments after so many steps of them all.
    pub fn new(metrics: &EvalMetrics, global_step: u64, num_envs: usize) -> Self {
        Self {
            final_eval_return_mean: metrics.mean_return.last().copied(),
            final_eval_return_std: metrics.std_return.last().copied(),
            training_steps_per_env: global_step / num_envs as u64,
            training_global_steps: global_step,
            num_eval_checkpoints: metrics.global_steps.len(),
        }
    }
}

/// Means over the intervals of the log; one item for each. A value that is not finite is `null` in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingMetrics {
    /// Steps of all environments.
    pub global_steps: Vec<u64>,
    /// Steps of each environment.
    pub steps_per_env: Vec<u64>,
    /// The loss.
    #[serde(deserialize_with = "numbers")]
    pub loss: Vec<f64>,
    /// The mean return of episodes that ended.
    #[serde(deserialize_with = "numbers")]
    pub reward: Vec<f64>,
    /// What else the agent reports, by tag.
    #[serde(deserialize_with = "named_numbers")]
    pub agent_metrics: BTreeMap<String, Vec<f64>>,
}

/// One item for each evaluation. A value that is not finite is `null` in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvalMetrics {
    /// Steps of all environments.
    pub global_steps: Vec<u64>,
    /// Steps of each environment.
    pub steps_per_env: Vec<u64>,
    /// Returns of its episodes.
    #[serde(deserialize_with = "lists_of_numbers")]
    pub episode_returns: Vec<Vec<f64>>,
    /// Steps of its episodes.
    pub episode_lengths: Vec<Vec<u64>>,
    /// Mean returns.
    #[serde(deserialize_with = "numbers")]
    pub mean_return: Vec<f64>,
    /// Population standard deviations of returns.
    #[serde(deserialize_with = "numbers")]
    pub std_return: Vec<f64>,
    /// Mean steps.
    #[serde(deserialize_with = "numbers")]
    pub mean_length: Vec<f64>,
}

fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let numbers = Vec::<Option<f64>>::deserialize(deserializer)?;
    Ok(numbers.into_iter().map(|number| number.unwrap_or(f64::NAN)).collect())
}

/// Several of them, however they are named or counted.
#[derive(Deserialize)]
struct Numbers(#[serde(deserialize_with = "numbers")] Vec<f64>);

fn lists_of_numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<f64>>, D::Error> {
    Ok(Vec::<Numbers>::deserialize(deserializer)?.into_iter().map(|Numbers(numbers)| numbers).collect())
}

fn named_numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Vec<f64>>, D::Error> {
    let named = BTreeMap::<String, Numbers>::deserialize(deserializer)?;
    Ok(named.into_iter().map(|(name, Numbers(numbers))| (name, numbers)).collect())
}

/// A run that was read back.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its folder.
    pub directory: RunDirectory,
    /// Its settings.
    pub config: Config,
    /// What is known of it; `None` if it was killed before that was stored, or if that is damaged.
    pub metadata: Option<Metadata>,
    /// What came out of it; `None` if it did not come to its end, or if that is damaged.
    pub results: Option<Results>,
    /// What was found damaged and taken as missing, a sentence each.
    pub warnings: Vec<String>,
}

impl Run {
    /// One of its checkpoints: `final` or `step_%08d`.
    pub fn load_checkpoint(&self, name: &str) -> Result<Checkpoint> {
        let path = checkpoint::path_of(&self.directory.checkpoints(), name);
        if path.exists() {
            return Checkpoint::read(&path);
        }
        let why = match checkpoint::names(&self.directory.checkpoints())?.as_slice() {
            [] => "the run has stored no checkpoint".to_owned(),
            names => format!("the run has no such checkpoint, but {}", names.join(", ")),
        };
        Err(Error::Read { path: path.display().to_string(), why })
    }

    /// The complete checkpoint that went furthest; `None` if the run has stored none.
    pub fn last_checkpoint(&self) -> Result<Option<checkpoint::Last>> {
        checkpoint::last(&self.directory.checkpoints())
    }
}

/// Reads a run back from its folder.
///
/// # Errors
/// One sentence that says what is missing or damaged.
pub fn load_run(path: &Path) -> Result<Run> {
    let refuse = |why: &str| Error::damaged(path, "run", why);
    if !path.is_dir() {
        return Err(refuse(if path.exists() { "it is not a folder" } else { "there is no such folder" }));
    }
    let file = path.join(CONFIG);
    if !file.exists() {
        return Err(refuse("it has no config.toml"));
    }
    let config =
        files::read_text(&file).and_then(|text| Config::stored(&file, &text)).map_err(|error| match error {
            error @ (Error::Damaged { .. } | Error::Read { .. }) => error,
            error => Error::damaged(&file, "configuration", error.to_string()),
        })?;
    let mut warnings = Vec::new();
    let metadata = read_json(&path.join(METADATA), "metadata", &mut warnings);
    let results = read_json(&path.join(RESULTS), "results", &mut warnings);
    Ok(Run { directory: RunDirectory { path: path.to_owned() }, config, metadata, results, warnings })
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).expect("a value with a JSON form");
    text.push('\n');
    files::replace_quickly(path, text.as_bytes())
}

/// The contents of a file, `None` if there is none or it is damaged, which is warned of.
fn read_json<T: DeserializeOwned>(path: &Path, kind: &'static str, warnings: &mut Vec<String>) -> Option<T> {
    if !path.exists() {
        return None;
    }
    let read = files::read_text(path)
        .and_then(|text| serde_json::from_str(&text).map_err(|error| Error::damaged(path, kind, error.to_string())));
    read.map_err(|error| warnings.push(error.to_string())).ok()
}

/// `2026-07-22T13:05:01Z`.
fn timestamp(time: SystemTime) -> String {
    let (date, time) = civil(time);
    format!("{date}T{}Z", time.replace('-', ":"))
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// `2026-07-22` and `13-05-01` in UTC.
fn civil(time: SystemTime) -> (String, String) {
    let seconds = since_1970(time).as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant, "chrono-compatible low-level date algorithms": years begin in March, so leap days end them.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let date = format!("{year:04}-{month:02}-{day:02}");
    (date, format!("{:02}-{:02}-{:02}", second / 3600, second / 60 % 60, second % 60))
}

#[cfg(test)]
mod tests {
    use super::super::config::create_config;
    use super::*;
    use crate::state::State;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn config(layout: &str) -> Config {
        create_config("CartPole-v1", "ppo", &[("layout", layout), ("seed", "3")]).unwrap()
    }

    #[test]
    fn times_have_their_names() {
        let name = |seconds| civil(at(seconds));
        assert_eq!(name(0), ("1970-01-01".into(), "00-00-00".into()));
        assert_eq!(name(951_782_399), ("2000-02-28".into(), "23-59-59".into()));
        assert_eq!(name(951_782_400), ("2000-02-29".into(), "00-00-00".into()));
        assert_eq!(name(4_107_542_400), ("2100-03-01".into(), "00-00-00".into()));
        assert_eq!(name(1_000_000_000), ("2001-09-09".into(), "01-46-40".into()));
    }

    #[test]
    fn every_run_has_a_folder_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let make = |layout: &str| RunDirectory::create(root.path(), &config(layout), at(1_000_000_000)).unwrap().path;
        assert_eq!(make("dated"), root.path().join("outputs/2001-09-09/01-46-40"));
        assert_eq!(make("dated"), root.path().join("outputs/2001-09-09/01-46-40-1"));
        let name = "runs/CartPole-v1__phalanx__3__1000000000";
        assert_eq!(make("cleanrl"), root.path().join(name));
        assert_eq!(make("cleanrl"), root.path().join(format!("{name}-1")));
        let mut together: Vec<_> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8).map(|_| scope.spawn(|| make("dated"))).collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        together.sort();
        together.dedup();
        assert_eq!(together.len(), 8);
    }

    #[test]
    fn a_run_reads_back() {
        let root = tempfile::tempdir().unwrap();
        let config = config("dated");
        let directory = RunDirectory::create(root.path(), &config, at(1_000_000_000)).unwrap();
        let killed = load_run(directory.path()).unwrap();
        assert_eq!((&killed.config, &killed.metadata, &killed.results), (&config, &None, &None));
        assert_eq!(
            killed.load_checkpoint("final").unwrap_err().to_string(),
            format!(
                "cannot read {}/checkpoints/final.safetensors: the run has stored no checkpoint",
                directory.path().display()
            )
        );

        let mut metadata = Metadata::new("training", &config, at(1_000_000_000), 2);
        assert_eq!(metadata.timestamp, "2001-09-09T01:46:40Z");
        metadata.begin(at(1_000_000_000), 0, metadata.machine());
        metadata.update(2.5, 7, Status::Interrupted);
        directory.write_metadata(&metadata).unwrap();
        let mut results = Results::default();
        results.summary.final_eval_return_mean = Some(499.5);
        results.training_metrics.loss = vec![0.5];
        results.eval_metrics.episode_returns = vec![vec![500.0, 499.0]];
        directory.write_results(&results).unwrap();
        let saved = Checkpoint {
            agent: "ppo".into(),
            config: config.to_toml(),
            global_step: 7,
            best_score: None,
            state: State::default(),
        };
        directory.write_checkpoint(&checkpoint::step_name(7), &saved).unwrap();

        let run = load_run(directory.path()).unwrap();
        assert_eq!((run.metadata.as_ref(), run.results.as_ref()), (Some(&metadata), Some(&results)));
        assert_eq!(run.load_checkpoint("step_00000007").unwrap(), saved);
        assert_eq!(run.last_checkpoint().unwrap().unwrap().checkpoint, saved);
        let message = run.load_checkpoint("final").unwrap_err().to_string();
        assert!(message.ends_with("the run has no such checkpoint, but step_00000007"), "{message}");
        assert!(directory.episodes(7).ends_with("episodes/step_00000007"));
        assert!(directory.videos(7).ends_with("videos/step_00000007"));
    }

    #[test]
    fn numbers_that_are_none_read_back() {
        let mut metrics = TrainingMetrics { loss: vec![f64::NAN, 1.0], ..TrainingMetrics::default() };
        metrics.agent_metrics.insert("losses/explained_variance".into(), vec![f64::NAN]);
        let read: TrainingMetrics = serde_json::from_str(&serde_json::to_string(&metrics).unwrap()).unwrap();
        assert!(read.loss[0].is_nan() && read.loss[1] == 1.0);
        assert!(read.agent_metrics["losses/explained_variance"][0].is_nan());
        let metrics = EvalMetrics {
            episode_returns: vec![vec![f64::INFINITY, 1.0]],
            mean_return: vec![f64::INFINITY],
            std_return: vec![f64::NAN],
            ..EvalMetrics::default()
        };
        let read: EvalMetrics = serde_json::from_str(&serde_json::to_string(&metrics).unwrap()).unwrap();
        assert!(read.mean_return[0].is_nan() && read.std_return[0].is_nan());
        assert!(read.episode_returns[0][0].is_nan() && read.episode_returns[0][1] == 1.0);
    }

    #[test]
    fn sessions_add_up_and_the_start_stays() {
        let mut metadata = Metadata::new("training", &config("dated"), at(1_000_000_000), 2);
        metadata.begin(at(1_000_000_000), 0, metadata.machine());
        metadata.update(2.0, 100, Status::Running);
        // Killed here: it never said that it ended.
        metadata.begin(at(1_000_000_060), 80, Machine { version: "2.0".into(), ..metadata.machine() });
        metadata.update(1.0, 120, Status::Interrupted);
        metadata.begin(at(1_000_000_120), 120, metadata.machine());
        metadata.update(0.5, 200, Status::Ok);
        assert_eq!((metadata.timestamp.as_str(), metadata.duration_seconds), ("2001-09-09T01:46:40Z", 3.5));
        assert_eq!(metadata.status, Status::Ok);
        let steps: Vec<_> = metadata.sessions.iter().map(|s| (s.from_step, s.to_step, s.status)).collect();
        let interrupted = Status::Interrupted;
        assert_eq!(steps, [(0, 100, interrupted), (80, 120, interrupted), (120, 200, Status::Ok)]);
        let versions = metadata.sessions.iter().map(|s| s.machine.as_ref().unwrap().version.as_str());
        assert_eq!(versions.collect::<Vec<_>>(), [&metadata.version, "2.0", &metadata.version]);
        assert_eq!(metadata.sessions[2].timestamp, "2001-09-09T01:48:40Z");
    }

    #[test]
    fn only_one_trains_a_run() {
        let root = tempfile::tempdir().unwrap();
        let directory = RunDirectory::create(root.path(), &config("dated"), at(0)).unwrap();
        let lock = directory.lock().unwrap();
        let message = directory.lock().unwrap_err().to_string();
        assert!(message.ends_with("is being worked on by another process: wait for it or stop it"), "{message}");
        fs::write(directory.path().join(".tmp-x"), "").unwrap();
        directory.remove_unfinished(&lock).unwrap();
        assert!(!directory.path().join(".tmp-x").exists());
        drop(lock);
        directory.lock().unwrap();
    }

    #[test]
    fn a_missing_or_damaged_run_is_refused_in_a_sentence() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run");
        let refused = |expected: &str| {
            let message = load_run(&path).unwrap_err().to_string();
            assert!(message.ends_with(expected), "{message}");
            assert!(!message.contains('\n'), "{message}");
        };
        refused("run is no usable run: there is no such folder");
        fs::write(&path, "").unwrap();
        refused("run is no usable run: it is not a folder");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        refused("run is no usable run: it has no config.toml");
        fs::write(path.join(CONFIG), "env = 'A'\nagent = 'ppo'\n[run]\nsed = 1\n").unwrap();
        let message = load_run(&path).unwrap_err().to_string();
        assert!(
            message.contains("config.toml is no usable configuration: unknown key 'sed' for section run"),
            "{message}"
        );
        fs::write(path.join(CONFIG), config("dated").to_toml()).unwrap();
        load_run(&path).unwrap();
        fs::write(path.join(RESULTS), "{\"summary\": ").unwrap();
        let run = load_run(&path).unwrap();
        assert_eq!((run.results, run.warnings.len()), (None, 1));
        let expected = "results.json is no usable results: EOF while parsing a value at line 1 column 12";
        assert!(run.warnings[0].ends_with(expected), "{:?}", run.warnings);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_said() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("outputs"), "a file").unwrap();
        let message = RunDirectory::create(root.path(), &config("dated"), at(0)).unwrap_err().to_string();
        assert!(message.starts_with("cannot make the folder "), "{message}");
        assert!(message.ends_with("outputs/1970-01-01: a part of its path is no folder"), "{message}");
    }

    #[test]
    fn the_processor_is_named() {
        assert_eq!(cpu_model("x: 1\nmodel name\t: Fast CPU \n"), Some("Fast CPU".into()));
        assert_eq!(cpu_model("model name:\n"), None);
    }
}
