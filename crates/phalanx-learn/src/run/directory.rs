//! The folder of a run: how it is named, what lies where, and reading it back.
//!
//! ```text
//! outputs/2026-07-22/13-05-01[-k]/   or, in the layout `cleanrl`, runs/<env>__<experiment>__<seed>__<unix time>[-k]/
//!     config.toml  run_metadata.json  results.json
//!     metrics.csv  metrics.jsonl  events.out.tfevents.*
//!     checkpoints/{step_%08d,final}.safetensors
//!     episodes/step_%08d/episode_%04d.npz
//!     videos/step_%08d/episode_%04d.gif
//! ```

use std::collections::BTreeMap;
use std::fs;
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
        files::make_folder(&folder)?;
        for k in 0_u32.. {
            let path = folder.join(if k == 0 { name.clone() } else { format!("{name}-{k}") });
            match fs::create_dir(&path) {
                Ok(()) => {
                    let directory = Self { path };
                    files::replace_quickly(&directory.path.join(CONFIG), config.to_toml().as_bytes())?;
                    return Ok(directory);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::write(&path)(error)),
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
        let directory = Self { path };
        files::replace_quickly(&directory.path.join(CONFIG), config.to_toml().as_bytes())?;
        Ok(directory)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores the metadata, in place of earlier ones.
    pub fn write_metadata(&self, metadata: &Metadata) -> Result<()> {
        write_json(&self.path.join(METADATA), metadata)
    }

    /// Stores the results, in place of earlier ones.
    pub fn write_results(&self, results: &Results) -> Result<()> {
        write_json(&self.path.join(RESULTS), results)
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
    /// How long it took so far.
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
}

impl Metadata {
    /// Of a run that begins now on this machine. The caller adds what only it can know: commit and physical cores.
    pub fn new(run_type: &str, config: &Config, now: SystemTime, threads: usize) -> Self {
        let (date, time) = civil(now);
        Self {
            run_type: run_type.to_owned(),
            run_name: run_name(config, now),
            timestamp: format!("{date}T{}Z", time.replace('-', ":")),
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
        }
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

/// One item for each evaluation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvalMetrics {
    /// Steps of all environments.
    pub global_steps: Vec<u64>,
    /// Steps of each environment.
    pub steps_per_env: Vec<u64>,
    /// Returns of its episodes.
    pub episode_returns: Vec<Vec<f64>>,
    /// Steps of its episodes.
    pub episode_lengths: Vec<Vec<u64>>,
    /// Mean returns.
    pub mean_return: Vec<f64>,
    /// Population standard deviations of returns.
    pub std_return: Vec<f64>,
    /// Mean steps.
    pub mean_length: Vec<f64>,
}

fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let numbers = Vec::<Option<f64>>::deserialize(deserializer)?;
    Ok(numbers.into_iter().map(|number| number.unwrap_or(f64::NAN)).collect())
}

fn named_numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Vec<f64>>, D::Error> {
    #[derive(Deserialize)]
    struct Numbers(#[serde(deserialize_with = "numbers")] Vec<f64>);
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
    /// What is known of it; `None` if it was killed before that was stored.
    pub metadata: Option<Metadata>,
    /// What came out of it; `None` if it did not come to its end.
    pub results: Option<Results>,
}

impl Run {
    /// One of its checkpoints: `final` or `step_%08d`.
    pub fn load_checkpoint(&self, name: &str) -> Result<Checkpoint> {
        let path = checkpoint::path_of(&self.directory.checkpoints(), name);
        if path.exists() {
            return Checkpoint::read(&path);
        }
        let why = match self.checkpoint_names()?.as_slice() {
            [] => "the run has stored no checkpoint".to_owned(),
            names => format!("the run has no such checkpoint, but {}", names.join(", ")),
        };
        Err(Error::Read { path: path.display().to_string(), why })
    }

    /// The complete checkpoint that went furthest, with its file.
    pub fn last_checkpoint(&self) -> Result<Option<(PathBuf, Checkpoint)>> {
        checkpoint::last(&self.directory.checkpoints())
    }

    fn checkpoint_names(&self) -> Result<Vec<String>> {
        let folder = self.directory.checkpoints();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::read(&folder)(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let path = entry.map_err(Error::read(&folder))?.path();
            if path.extension().is_some_and(|extension| extension == checkpoint::EXTENSION) {
                names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
            }
        }
        names.sort();
        Ok(names)
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
    let config = Config::load(Some(&file), []).map_err(|error| match error {
        error @ (Error::Damaged { .. } | Error::Read { .. }) => error,
        error => Error::damaged(&file, "configuration", error.to_string()),
    })?;
    Ok(Run {
        directory: RunDirectory { path: path.to_owned() },
        config,
        metadata: read_json(&path.join(METADATA), "metadata")?,
        results: read_json(&path.join(RESULTS), "results")?,
    })
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).expect("a value with a JSON form");
    text.push('\n');
    files::replace_quickly(path, text.as_bytes())
}

/// The contents of a file, `None` if there is none.
fn read_json<T: DeserializeOwned>(path: &Path, kind: &'static str) -> Result<Option<T>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = files::read_text(path)?;
    serde_json::from_str(&text).map(Some).map_err(|error| Error::damaged(path, kind, error.to_string()))
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
        metadata.status = Status::Interrupted;
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
        assert_eq!(run.last_checkpoint().unwrap().unwrap().1, saved);
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
        refused("results.json is no usable results: EOF while parsing a value at line 1 column 12");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_said() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("outputs"), "a file").unwrap();
        let message = RunDirectory::create(root.path(), &config("dated"), at(0)).unwrap_err().to_string();
        assert!(message.starts_with("cannot write ") && message.contains("outputs/1970-01-01: "), "{message}");
    }

    #[test]
    fn the_processor_is_named() {
        assert_eq!(cpu_model("x: 1\nmodel name\t: Fast CPU \n"), Some("Fast CPU".into()));
        assert_eq!(cpu_model("model name:\n"), None);
    }
}
