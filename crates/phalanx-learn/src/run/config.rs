//! The strict configuration of a run: every key is known, and has a type and a range.
//!
//! Layers are laid over each other: defaults, the preset of agent and environment, a file, the overrides of the
//! command line. What comes out is complete; [`Config::to_toml`] writes it and [`Config::from_toml`] reads the same
//! one back, whatever later presets say.

use std::collections::BTreeMap;
use std::path::Path;

use phalanx_core::error::Error as EngineError;
use phalanx_core::policy::argument_names;
use toml::{Table, Value};

use super::agents::{AgentConfig, algorithm_of};
use super::settings::{
    Passed, Section, Setting, any, at_least_one, checked, choice, optional, plain, section, thread_count,
};
use super::{files, presets};
use crate::error::{Error, Result};

section! {
    /// Settings of a run, whatever the agent.
    RunConfig in "run" {
        /// What all randomness comes from. 42.
        seed: u64 = 42, any;
        /// Environments that are stepped together. 1, unless the agent's preset says otherwise.
        num_envs: usize = 1, at_least_one;
        /// Steps of each environment. Mandatory, or `total_timesteps` instead.
        steps_per_env: u64 = 0, at_least_one;
        /// Steps of each environment between two looks at Ctrl-C and progress; never changes results. None: as many as
        /// suit the agent.
        scan_chunk_size: Option<usize> = None, optional(at_least_one);
        /// Threads; never changes results. None: all cores.
        threads: Option<usize> = None, optional(thread_count);
        /// Whether chunk size and threads are tuned before the run. False.
        auto_tune: bool = false, any;
        /// Steps of each environment between evaluations; 0 is only at the end. 100.
        eval_frequency: u64 = 100, any;
        /// Episodes of an evaluation, all at once. 10.
        eval_rollouts: usize = 10, at_least_one;
        /// Steps of an evaluation's episode at most. None: the environment's own limit, as configured.
        eval_max_steps: Option<u64> = None, optional(at_least_one);
        /// Mean return of an evaluation at which the run is complete, whatever steps are left. None: all steps are made.
        eval_stop_return: Option<f64> = None, any;
        /// Whether every evaluation has start states of its own. False.
        eval_fresh_starts: bool = false, any;
        /// Steps of each environment between evaluations whose episodes are stored; 0 stores none. 0.
        eval_episode_save_frequency: u64 = 0, any;
        /// Episodes that are stored of such an evaluation. None: all.
        eval_episode_save_count: Option<usize> = None, optional(at_least_one);
        /// Whether stored episodes are also drawn. False.
        eval_render_videos: bool = false, any;
        /// Frames per second of such videos. 50.
        eval_video_fps: u32 = 50, at_least_one;
        /// Whether the trained agent is stored. False.
        save_agent_checkpoint: bool = false, any;
        /// Steps of each environment between checkpoints; 0 is none on the way. 0.
        checkpoint_frequency: u64 = 0, any;
    }
}

impl RunConfig {
    /// Steps of all environments.
    pub fn total_timesteps(&self) -> u64 {
        self.steps_per_env.saturating_mul(self.num_envs as u64)
    }
}

choice! {
    /// How the folders of runs are named.
    Layout {
        /// `outputs/2026-07-22/13-05-01`.
        Dated = "dated",
        /// `runs/CartPole-v1__phalanx__1__1784725501`.
        CleanRl = "cleanrl",
    }
}

section! {
    /// Settings of what a run leaves behind.
    LogConfig in "log" {
        /// Whether `metrics.csv` is written. True.
        csv: bool = true, any;
        /// Whether `metrics.jsonl` is written. True.
        jsonl: bool = true, any;
        /// Whether TensorBoard's event files are written. False.
        tensorboard: bool = false, any;
        /// How the run's folder is named. `dated`.
        layout: Layout = Layout::Dated, any;
        /// The experiment, in the names of the `cleanrl` layout. `phalanx`.
        experiment: String = "phalanx".to_owned(), file_name;
    }
}

fn file_name(name: &impl AsRef<str>) -> Option<&'static str> {
    let name = name.as_ref();
    (name.is_empty() || name.contains(['/', '\\', '\0'])).then_some("a text without slashes")
}

/// The environment of a run.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct EnvConfig {
    /// Its name.
    pub name: String,
    /// Its other settings, which the engine checks.
    pub settings: Passed,
}

/// The complete configuration of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The environment.
    pub env: EnvConfig,
    /// The agent.
    pub agent: AgentConfig,
    /// The run.
    pub run: RunConfig,
    /// What it leaves behind.
    pub log: LogConfig,
}

/// Keys of which a layer may give only one; giving one takes the other back.
const EXCLUSIVE: [(&str, [&str; 2]); 4] = [
    ("agent", ["exploration_fraction", "exploration_steps"]),
    ("agent", ["epsilon_decay_fraction", "epsilon_decay_steps"]),
    ("agent", ["lr_decay_fraction", "lr_decay_steps"]),
    ("run", ["steps_per_env", "total_timesteps"]),
];

/// Whether what is not given comes from the presets of agent and environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presets {
    Apply,
    /// Of a configuration that is complete: a later preset must not change a stored run.
    Ignore,
}

impl Presets {
    fn of(self, config: &Config) -> Vec<&'static presets::Preset> {
        match self {
            Self::Apply => presets::of(&config.env.name, config.agent.name()),
            Self::Ignore => Vec::new(),
        }
    }
}

pub(crate) const SECTIONS: [&str; 4] = ["env", "agent", "run", "log"];

/// The configuration for an environment and an agent: their preset, and `settings` over it.
///
/// ```
/// use phalanx_learn::create_config;
/// let config = create_config("CartPole-v1", "ppo", &[("num_envs", "8"), ("agent.learning_rate", "5e-5")])?;
/// assert_eq!(config.run.num_envs, 8);
/// # Ok::<(), phalanx_learn::Error>(())
/// ```
pub fn create_config(env: &str, agent: &str, settings: &[(&str, &str)]) -> Result<Config> {
    let names = [("env.name", env), ("agent.name", agent)];
    Config::build(Presets::Apply, &[], None, names.iter().chain(settings).copied())
}

/// The configuration to evaluate with: one that trains for a single step, so that no length need be given.
///
/// ```
/// use phalanx_learn::create_eval_config;
/// let config = create_eval_config("CartPole-v1", "random", &[("eval_rollouts", "100")])?;
/// assert_eq!((config.run.eval_rollouts, config.run.seed), (100, 42));
/// # Ok::<(), phalanx_learn::Error>(())
/// ```
pub fn create_eval_config(env: &str, agent: &str, settings: &[(&str, &str)]) -> Result<Config> {
    let mut settings = settings.to_vec();
    let lengths = ["steps_per_env", "total_timesteps"];
    if !settings
        .iter()
        .any(|(key, _)| lengths.contains(key) || lengths.iter().any(|name| *key == format!("run.{name}")))
    {
        settings.push(("run.steps_per_env", "1"));
    }
    create_config(env, agent, &settings)
}

impl Config {
    /// The configuration of a file, if any, under `key=value` overrides.
    pub fn load<'a>(file: Option<&Path>, overrides: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        Self::load_over(&[], file, overrides)
    }

    /// Like [`load`](Self::load), with defaults of the caller's own: they go before presets, and anything that is given
    /// goes before them.
    pub fn load_over<'a>(
        defaults: &[(&str, &str)],
        file: Option<&Path>,
        overrides: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        let text = file.map(files::read_text).transpose()?;
        let overrides: Vec<_> = overrides.into_iter().map(split).collect::<Result<_>>()?;
        Self::build(
            Presets::Apply,
            defaults,
            text.as_deref().map(|text| (file.expect("it has a text"), text)),
            overrides,
        )
    }

    /// The configuration that [`to_toml`](Self::to_toml) has written. It is complete, so no preset has a say in it.
    pub fn from_toml(text: &str) -> Result<Self> {
        Self::stored(Path::new("config.toml"), text)
    }

    /// The complete configuration in a run's own file.
    pub(crate) fn stored(path: &Path, text: &str) -> Result<Self> {
        Self::build(Presets::Ignore, &[], Some((path, text)), [])
    }

    /// The same agent without the arrays that only learning needs: what evaluates need not have room for a training.
    pub(crate) fn acting_alone(&self) -> Self {
        let mut config = self.clone();
        match &mut config.agent {
            AgentConfig::Ppo(agent) => (agent.rollout_steps, agent.num_minibatches) = (2, 1),
            AgentConfig::Pqn(agent) => (agent.rollout_steps, agent.num_minibatches) = (2, 1),
            AgentConfig::Dqn(agent) => (agent.buffer_size, agent.batch_size) = (1, 1),
            // A table is all that these have, and its workers share out the environments.
            AgentConfig::QLearning(_) => return config,
            AgentConfig::Classical(_) => {}
        }
        config.run.num_envs = 1;
        config
    }

    /// The same configuration under overrides.
    ///
    /// ```
    /// use phalanx_learn::create_config;
    /// let config = create_config("CartPole-v1", "ppo", &[("run.seed", "1")])?;
    /// assert_eq!(config.with([("run.seed", "2")])?.run.seed, 2);
    /// # Ok::<(), phalanx_learn::Error>(())
    /// ```
    pub fn with<'a>(&self, overrides: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let text = self.to_toml();
        Self::build(Presets::Ignore, &[], Some((Path::new("the configuration"), &text)), overrides)
    }

    /// The configuration of defaults under a file's text, if any, under overrides.
    pub(crate) fn build<'a>(
        presets: Presets,
        defaults: &[(&str, &str)],
        file: Option<(&Path, &str)>,
        overrides: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self> {
        let (path, file) = match file {
            Some((path, text)) => (path, parse(path, text)?),
            None => (Path::new(""), Table::new()),
        };
        let overrides: Vec<_> = overrides.into_iter().collect();

        let name = |section: &str| {
            let dotted = format!("{section}.name");
            // Of one spelling the last counts, but what two spellings say must be the same.
            let spelt = |as_key: &str| overrides.iter().rev().find(|(key, _)| *key == as_key).map(|(_, value)| *value);
            let given = match [spelt(section), spelt(&dotted)] {
                [Some(one), Some(other)] if one != other => {
                    let why = format!("is {other}, but {section} is {one}: give one of them");
                    return Err(Error::setting(dotted, why));
                }
                [one, other] => one.or(other).map(str::to_owned),
            };
            let table = || match file.get(section)? {
                Value::Table(table) => table.get("name"),
                value => Some(value),
            };
            let name = match given {
                Some(name) => name,
                None => match table() {
                    Some(value) => checked::<String>(section, "name", value, any)?,
                    None => return Err(Error::setting(dotted, format!("is missing: give {section}=NAME"))),
                },
            };
            if name.trim().is_empty() {
                return Err(Error::setting(dotted, "is empty"));
            }
            Ok(name)
        };
        let (env, agent_name) = (name("env")?, name("agent")?);
        let agent = AgentConfig::new(&agent_name)?;

        let mut config = Self {
            env: EnvConfig { name: env, settings: Passed::new() },
            agent,
            run: RunConfig::default(),
            log: LogConfig::default(),
        };
        let mut total_timesteps = None;
        for preset in presets.of(&config) {
            let layer = config.layer_of_table(parse(Path::new(preset.name), preset.text)?)?;
            config.apply(layer, &mut total_timesteps)?;
        }
        let own = config.layer_of_texts(defaults.iter().copied())?;
        config.apply(own, &mut total_timesteps)?;
        let of_file = config.layer_of_table(file).and_then(|layer| config.apply(layer, &mut total_timesteps));
        of_file.map_err(|error| Error::damaged(path, "configuration", error.to_string()))?;
        let given = config.layer_of_texts(overrides.into_iter())?;
        config.apply(given, &mut total_timesteps)?;
        if let (AgentConfig::QLearning(table), Some(algorithm)) = (&config.agent, algorithm_of(&agent_name))
            && table.algorithm != algorithm
        {
            let why = format!("is {}, but agent is {agent_name}: give one of them", table.algorithm.name());
            return Err(Error::setting("agent.algorithm", why));
        }
        config.settle(total_timesteps)?;
        Ok(config)
    }

    /// The keys of a file, each in its section.
    fn layer_of_table(&self, table: Table) -> Result<Layer> {
        let mut layer = Layer::new();
        let mut give = |(section, key): (&'static str, String), value| {
            let dotted = format!("{section}.{key}");
            match layer.insert((section, key), value) {
                None => Ok(()),
                Some(_) => Err(Error::setting(dotted, "is given twice")),
            }
        };
        for (name, value) in table {
            match (SECTIONS.iter().find(|section| **section == name), value) {
                (Some(section), Value::Table(keys)) => {
                    for (key, value) in keys {
                        give(self.resolve(&format!("{section}.{key}"))?, value)?;
                    }
                }
                (None, Value::Table(_)) => return Err(EngineError::unknown("section", &name, None, SECTIONS).into()),
                (_, value) => give(self.resolve(&name)?, value)?,
            }
        }
        Ok(layer)
    }

    /// Keys with texts for values. Of one that is given twice the last counts, as everywhere on command lines.
    fn layer_of_texts<'a>(&self, texts: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Layer> {
        let read = |(key, text): (&str, &str)| {
            let (section, key) = self.resolve(key)?;
            let value = if self.is_passed(section) { Value::String(text.to_owned()) } else { typed(text) };
            Ok(((section, key), value))
        };
        texts.map(read).collect()
    }

    /// The section and the key that a possibly undotted name stands for.
    pub(crate) fn resolve(&self, name: &str) -> Result<(&'static str, String)> {
        if name == "env" || name == "agent" {
            return Ok((if name == "env" { "env" } else { "agent" }, "name".to_owned()));
        }
        let keys = self.keys();
        if let Some((section, key)) = name.split_once('.') {
            let Some(section) = SECTIONS.into_iter().find(|known| *known == section) else {
                return Err(EngineError::unknown("section", section, Some(name), SECTIONS).into());
            };
            if self.is_passed(section) || keys.contains(&(section, key)) {
                return Ok((section, key.to_owned()));
            }
            if let Some((other, _)) = keys.iter().find(|(_, known)| *known == key) {
                return Err(Error::setting(
                    name,
                    format!("is unknown in section {section}; did you mean '{other}.{key}'?"),
                ));
            }
            let owner = if section == "log" { String::new() } else { format!(" of agent {}", self.agent) };
            let known = keys.iter().filter(|(of, _)| *of == section).map(|(_, key)| key);
            return Err(EngineError::unknown("key", key, Some(&format!("section {section}{owner}")), known).into());
        }
        let homes: Vec<_> = keys.iter().filter(|(_, key)| *key == name).map(|(section, _)| *section).collect();
        match homes.as_slice() {
            [section] => Ok((section, name.to_owned())),
            [] => {
                let context = format!("agent {}", self.agent);
                // Two sections have a name: by itself it would be refused.
                let known = keys.iter().map(|(_, key)| *key).filter(|key| *key != "name");
                Err(EngineError::unknown("key", name, Some(&context), known).into())
            }
            homes => {
                let dotted: Vec<_> = homes.iter().map(|section| format!("{section}.{name}")).collect();
                Err(Error::setting(name, format!("is ambiguous: write {}", dotted.join(" or "))))
            }
        }
    }

    /// All keys that are known here, by section.
    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        let agent = self.agent.section().map(Section::keys).unwrap_or_default();
        let fixed = [("env", "name"), ("agent", "name"), ("run", "total_timesteps")];
        let mut keys = [&fixed, agent, self.run.keys(), self.log.keys()].concat();
        if let AgentConfig::Classical(law) = &self.agent {
            keys.extend(argument_names(&law.policy).map(|key| ("agent", key)));
        }
        keys
    }

    /// Whether the engine knows the keys of a section.
    fn is_passed(&self, section: &str) -> bool {
        section == "env" || section == "agent" && self.agent.section().is_none()
    }

    fn apply(&mut self, layer: Layer, total_timesteps: &mut Option<u64>) -> Result<()> {
        let none = Value::String("none".to_owned());
        for (section, pair) in EXCLUSIVE {
            let given = |key: &str| layer.get(&(section, key.to_owned())).is_some_and(|value| *value != none);
            match pair.map(given) {
                [true, true] => {
                    let [one, other] = pair.map(|key| format!("{section}.{key}"));
                    return Err(Error::setting(one, format!("and {other} are both given: give one of them")));
                }
                // None of the run's own keys can be taken back this way: the one that is given last counts.
                [true, false] | [false, true] if section == "agent" => {
                    let other = if given(pair[0]) { pair[1] } else { pair[0] };
                    // Keys that are passed on mean what the engine takes them for.
                    if let Some(agent) = self.agent.section_mut() {
                        agent.set(section, other, &none)?;
                    }
                }
                _ => {}
            }
        }
        for ((section, key), value) in layer {
            match (section, key.as_str()) {
                ("env" | "agent", "name") => {}
                ("run", "total_timesteps") => {
                    *total_timesteps = Some(checked(section, &key, &value, at_least_one)?);
                }
                _ if self.is_passed(section) => {
                    let text = checked(section, &key, &value, any::<String>)?;
                    let passed = match &mut self.agent {
                        AgentConfig::Classical(config) if section == "agent" => &mut config.arguments,
                        _ => &mut self.env.settings,
                    };
                    passed.insert(key, text);
                }
                _ => {
                    if (section, key.as_str()) == ("run", "steps_per_env") {
                        *total_timesteps = None;
                    }
                    let own = |candidate: &dyn Section| candidate.keys().contains(&(section, key.as_str()));
                    let owner: &mut dyn Section = match self.agent.section_mut() {
                        Some(agent) if own(agent) => agent,
                        _ if own(&self.run) => &mut self.run,
                        _ => &mut self.log,
                    };
                    owner.set(section, &key, &value)?;
                }
            }
        }
        Ok(())
    }

    /// Works out what follows from other keys, and checks what must fit together.
    fn settle(&mut self, total_timesteps: Option<u64>) -> Result<()> {
        let envs = self.run.num_envs as u64;
        if let Some(total) = total_timesteps {
            if total < envs {
                let why = format!("is {total}, but must be at least run.num_envs = {envs}");
                return Err(Error::setting("run.total_timesteps", why));
            }
            self.run.steps_per_env = total / envs;
        }
        if self.run.steps_per_env == 0 {
            return Err(Error::setting("run.steps_per_env", "is missing: give it or run.total_timesteps"));
        }
        if i64::try_from(u128::from(self.run.steps_per_env) * u128::from(envs)).is_err() {
            let why = format!("is {}, which is too many for {envs} environments", self.run.steps_per_env);
            return Err(Error::setting("run.steps_per_env", why));
        }
        if let AgentConfig::QLearning(settings) = &mut self.agent {
            settings.settle(&self.run);
        }
        self.agent.check(&self.run)
    }

    /// What is allowed but hardly meant, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings =
            Vec::from_iter(self.agent.warning(&self.run).into_iter().chain(self.bounds_of_other_units()));
        warnings.extend(self.steps_left_over());
        let (frequency, chunk) = (self.run.eval_frequency, self.run.scan_chunk_size.map(|chunk| chunk as u64));
        if let Some(rollout) = self.agent.rollout_steps() {
            for (key, value) in [("eval_frequency", Some(frequency)), ("scan_chunk_size", chunk)] {
                if let Some(value) = value.filter(|value| !value.is_multiple_of(rollout as u64)) {
                    warnings.push(format!("run.{key} = {value} is not a multiple of run.rollout_steps = {rollout}"));
                }
            }
        }
        let (steps, interval) = (self.run.steps_per_env, self.run.checkpoint_frequency);
        if interval > steps {
            let why = format!("run.checkpoint_frequency = {interval} is more than run.steps_per_env = {steps}");
            warnings.push(format!("{why}: nothing is stored on the way"));
        }
        if let Some(chunk) = chunk.filter(|chunk| frequency > 0 && *chunk > frequency) {
            warnings.push(format!("run.scan_chunk_size = {chunk} is larger than run.eval_frequency = {frequency}"));
        }
        warnings
    }

    /// What is to be said if the run does not end with a whole roll-out. Of a length that is the preset's own, which the
    /// user need not have thought of, a hundredth may be missing, or whatever the preset itself leaves.
    fn steps_left_over(&self) -> Option<String> {
        let sizes =
            |of: &Self| Some((of.run.total_timesteps(), of.run.num_envs as u64 * of.agent.rollout_steps()? as u64));
        let (total, unit) = sizes(self)?;
        let left = total % unit;
        let made = total - left;
        let preset = create_config(&self.env.name, self.agent.name(), &[]).ok().and_then(|config| sizes(&config));
        let is_usual = preset.is_some_and(|preset| preset.0 == total && (preset.1 == unit || left < total / 100));
        (made > 0 && left > 0 && !is_usual)
            .then(|| format!("{total} steps are no whole number of roll-outs, each of {unit}: {made} are made"))
    }

    /// What is to be said if the constraints are those of a preset, but not the units of the observations that they
    /// look at.
    fn bounds_of_other_units(&self) -> Option<String> {
        let preset = *presets::of(&self.env.name, self.agent.name()).last()?;
        let preset = parse(Path::new(preset.name), preset.text).ok()?;
        let of_preset = |key: &str| {
            preset.get("env")?.get(key).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        };
        let is_kept = |key: &str| of_preset(key).as_ref() == self.env.settings.get(key);
        (of_preset("constraints").is_some() && is_kept("constraints") && !is_kept("normalize_obs")).then(|| {
            let now = self.env.settings.get("normalize_obs").map_or("none", String::as_str);
            format!(
                "env.normalize_obs = {now} is not the preset's, but env.constraints are, whose bounds are in the preset's \
                 units: give env.constraints (none: env.constraints=\"\") that fit"
            )
        })
    }

    /// All settings, by section.
    pub fn table(&self) -> Table {
        let mut table = Table::new();
        let mut put = |section: &str, key: &str, value: Value| {
            let keys = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            keys.as_table_mut().expect("sections are tables").insert(key.to_owned(), value);
        };
        put("env", "name", self.env.name.write());
        put("agent", "name", self.agent.name().to_owned().write());
        let arguments = match &self.agent {
            AgentConfig::Classical(config) => Some(&config.arguments),
            _ => None,
        };
        for (section, passed) in [("env", Some(&self.env.settings)), ("agent", arguments)] {
            for (key, value) in passed.into_iter().flatten() {
                put(section, key, value.write());
            }
        }
        let sections = [self.agent.section(), Some(&self.run as &dyn Section), Some(&self.log)];
        for own in sections.into_iter().flatten() {
            for ((section, key), value) in own.keys().iter().zip(own.values()) {
                put(section, key, value);
            }
        }
        table
    }

    /// The complete configuration as a file has it.
    pub fn to_toml(&self) -> String {
        self.table().to_string()
    }

    /// The first setting that another configuration has otherwise, with its value there and here; settings that never
    /// change what is learnt do not count.
    pub fn difference(&self, other: &Self) -> Option<(String, String, String)> {
        let (here, there) = (self.that_matters(), other.that_matters());
        let value = |of: &BTreeMap<String, String>, key| of.get(key).cloned().unwrap_or_else(|| "nothing".to_owned());
        let key = here.keys().chain(there.keys()).find(|key| here.get(*key) != there.get(*key))?;
        Some((key.clone(), value(&there, key), value(&here, key)))
    }

    /// The settings that can change what is learnt or found out, as dotted keys with their values.
    pub fn that_matters(&self) -> BTreeMap<String, String> {
        const FREE: [&str; 6] = [
            "agent.save_npy",
            "run.threads",
            "run.scan_chunk_size",
            "run.auto_tune",
            "run.save_agent_checkpoint",
            "run.checkpoint_frequency",
        ];
        let matters = |(key, _): &(String, String)| !key.starts_with("log.") && !FREE.contains(&key.as_str());
        self.flat().into_iter().filter(matters).collect()
    }

    /// All settings as dotted keys with their values, for tables of hyper-parameters.
    pub fn flat(&self) -> Vec<(String, String)> {
        let keys = |(section, keys): (&String, &Value)| -> Vec<_> {
            let keys = keys.as_table().expect("sections are tables");
            keys.iter().map(|(key, value)| (format!("{section}.{key}"), plain(value))).collect()
        };
        self.table().iter().flat_map(keys).collect()
    }
}

/// What one source gives, by section and key.
type Layer = BTreeMap<(&'static str, String), Value>;

fn split(text: &str) -> Result<(&str, &str)> {
    let (key, value) = text.split_once('=').ok_or_else(|| Error::setting(text, "is no key=value"))?;
    Ok((key.trim(), value.trim()))
}

/// The value of an override: what TOML makes of it, else a text.
fn typed(text: &str) -> Value {
    let table = format!("value = {text}").parse::<Table>().ok().filter(|table| table.len() == 1);
    // Numbers that TOML spells in another way, such as `.5`; words that read as numbers are none.
    let number = || text.parse().ok().filter(|_| text.contains(|c: char| c.is_ascii_digit())).map(Value::Float);
    let value = table.and_then(|mut table| table.remove("value")).or_else(number);
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

pub(crate) fn parse(path: &Path, text: &str) -> Result<Table> {
    text.parse::<Table>().map_err(|error| {
        let before = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(before).filter(|byte| *byte == b'\n').count();
        let section = text.lines().nth(line).unwrap_or("").trim().trim_matches(['[', ']']);
        let mut what = error.message().replace('\n', ", ");
        // The short form of a name leaves no place for a section.
        if what == "duplicate key" && ["env", "agent"].contains(&section) {
            what += &format!(": where there is a section [{section}], its name is a key in it, name = \"...\"");
        }
        Error::damaged(path, "configuration", format!("line {}: {what}", line + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::super::agents::{DqnConfig, PpoConfig};
    use super::*;

    fn message(settings: &[(&str, &str)]) -> String {
        create_config("Other-v0", "ppo", settings).unwrap_err().to_string()
    }

    fn ppo(config: &Config) -> &PpoConfig {
        let AgentConfig::Ppo(ppo) = &config.agent else { panic!("not PPO") };
        ppo
    }

    #[test]
    fn defaults_are_those_of_the_reference() {
        let config = create_config("Other-v0", "ppo", &[]).unwrap();
        assert_eq!((config.run.seed, config.run.num_envs, config.run.total_timesteps()), (42, 4, 500_000));
        assert_eq!(*ppo(&config), PpoConfig::default());
        let pqn = create_config("Other-v0", "pqn", &[]).unwrap();
        assert_eq!((pqn.run.num_envs, pqn.run.steps_per_env), (32, 15_616));
        let dqn = create_config("Other-v0", "dqn", &[]).unwrap();
        assert_eq!((dqn.run.num_envs, dqn.run.total_timesteps()), (1, 500_000));
        assert_eq!(dqn.agent, AgentConfig::Dqn(DqnConfig::default()));
        assert_eq!(
            create_config("Other-v0", "q_learning", &[]).unwrap_err().to_string(),
            "run.steps_per_env is missing: give it or run.total_timesteps"
        );
    }

    #[test]
    fn an_undotted_key_finds_its_section() {
        let settings = [("num_envs", "8"), ("learning_rate", "5e-5"), ("rollout_steps", "32"), ("hidden", "[8, 8]")];
        let config = create_config("Other-v0", "ppo", &settings).unwrap();
        assert_eq!((config.run.num_envs, ppo(&config).learning_rate, ppo(&config).rollout_steps), (8, 5e-5, 32));
        assert_eq!(ppo(&config).hidden, [8, 8]);
        assert_eq!(config.run.steps_per_env, 62_500);
    }

    #[test]
    fn files_and_overrides_are_layers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.toml");
        std::fs::write(&path, "env = 'A-v0'\nseed = 7\n[agent]\nname = 'ppo'\nlearning_rate = 5e-5\ngamma = 0.9\n")
            .unwrap();
        let config = Config::load(Some(&path), ["env=B-v0", "gamma=0.8", "env.max_steps=100", "run.seed=9"]).unwrap();
        assert_eq!((config.env.name.as_str(), config.run.seed), ("B-v0", 9));
        assert_eq!((ppo(&config).learning_rate, ppo(&config).gamma), (5e-5, 0.8));
        assert_eq!(config.env.settings["max_steps"], "100");
        std::fs::write(&path, "env = 'A-v0'\n[agent\n").unwrap();
        let message = Config::load(Some(&path), []).unwrap_err().to_string();
        assert!(message.contains("run.toml is no usable configuration: line 2: "), "{message}");
        std::fs::write(&path, "env = 'A-v0'\nagent = 'ppo'\nseed = 1\n[run]\nseed = 2\n").unwrap();
        let message = Config::load(Some(&path), []).unwrap_err().to_string();
        assert!(message.ends_with("run.toml is no usable configuration: run.seed is given twice"), "{message}");
        let message =
            Config::from_toml("env = 'A-v0'\nagent = 'ppo'\n[wandb]\nenabled = true\n").unwrap_err().to_string();
        assert!(message.ends_with(": unknown section 'wandb'; known: 'env', 'agent', 'run', 'log'"), "{message}");
        let message = Config::load(Some(&folder.path().join("none")), []).unwrap_err().to_string();
        assert!(message.ends_with("there is no such file or folder"), "{message}");
    }

    #[test]
    fn defaults_of_the_caller_give_way_to_whatever_is_given() {
        let load = |overrides: &[&'static str]| {
            let overrides = ["env=CartPole-v1", "agent=ppo"].into_iter().chain(overrides.iter().copied());
            Config::load_over(&[("run.save_agent_checkpoint", "true")], None, overrides).unwrap().run
        };
        assert!(load(&[]).save_agent_checkpoint);
        assert!(load(&["log.experiment=save_agent_checkpoint"]).save_agent_checkpoint, "a value is no key");
        assert!(!load(&["save_agent_checkpoint=false"]).save_agent_checkpoint);
    }

    #[test]
    fn a_difference_is_one_that_changes_what_is_learnt() {
        let create = |settings: &[_]| create_config("CartPole-v1", "ppo", settings).unwrap();
        let one = create(&[]);
        assert_eq!(one.difference(&create(&[("threads", "1"), ("tensorboard", "true")])), None);
        let (key, then, now) = create(&[("gamma", "0.5")]).difference(&create(&[("gamma", "0.25")])).unwrap();
        assert_eq!((key.as_str(), then.as_str(), now.as_str()), ("agent.gamma", "0.25", "0.5"));
        let (key, then, _) = create(&[("env.gravity", "9")]).difference(&one).unwrap();
        assert_eq!((key.as_str(), then.as_str()), ("env.gravity", "nothing"));
        assert!(one.difference(&create(&[("env.gravity", "9")])).is_some());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_key() {
        let begins = |settings: &[(&str, &str)], expected: &str| {
            let message = message(settings);
            assert!(message.starts_with(expected), "{message}");
        };
        begins(
            &[("agent.learnin_rate", "1")],
            "unknown key 'learnin_rate' for section agent of agent ppo; did you mean 'learning_rate'",
        );
        begins(&[("num_env", "1")], "unknown key 'num_env' for agent ppo; did you mean 'num_envs'");
        begins(&[("wandb.enabled", "true")], "unknown section 'wandb' for wandb.enabled; known: 'env', 'agent'");
        begins(&[("rum.seed", "1")], "unknown section 'rum' for rum.seed; did you mean 'run'?");
        begins(&[("agent.num_envs", "1")], "agent.num_envs is unknown in section agent; did you mean 'run.num_envs'?");
        begins(&[("run.buffer_size", "1")], "unknown key 'buffer_size' for section run of agent ppo");
        begins(&[("name", "x")], "name is ambiguous: write env.name or agent.name");
        begins(&[("gamma", "1.5")], "agent.gamma is 1.5, but must be from 0 to 1");
        assert_eq!(ppo(&create_config("Other-v0", "ppo", &[("gamma", ".5")]).unwrap()).gamma, 0.5);
        begins(
            &[("steps_per_env", "1e300")],
            "run.steps_per_env is 1e300, but must be a whole number, from 0 to 18446744",
        );
        begins(&[("gamma", "high")], "agent.gamma is \"high\", but must be a finite number");
        begins(&[("gamma", "nan")], "agent.gamma is nan, but must be a finite number");
        begins(&[("num_envs", "0")], "run.num_envs is 0, but must be at least 1");
        begins(&[("threads", "100000")], "run.threads is 100000, but must be from 1 to 4096");
        begins(&[("seed", "-1")], "run.seed is -1, but must be a whole number");
        begins(&[("seed", "1.5")], "run.seed is 1.5, but must be a whole number");
        begins(&[("norm_adv", "1")], "agent.norm_adv is 1, but must be true or false");
        begins(&[("layout", "flat")], "log.layout is \"flat\", but must be one of 'dated', 'cleanrl'");
        begins(&[("hidden", "[64, 0]")], "agent.hidden is [64, 0], but must be a list of sizes");
        begins(&[("experiment", "../up")], "log.experiment is \"../up\", but must be a text without slashes");
        begins(
            &[("steps_per_env", "5"), ("total_timesteps", "20")],
            "run.steps_per_env and run.total_timesteps are both given: give one of them",
        );
        begins(&[("total_timesteps", "3")], "run.total_timesteps is 3, but must be at least run.num_envs = 4");
        begins(
            &[("steps_per_env", "9e14"), ("num_envs", "1e14")],
            "run.steps_per_env is 900000000000000, which is too",
        );
        assert_eq!(Config::load(None, ["agent=ppo"]).unwrap_err().to_string(), "env.name is missing: give env=NAME");
        assert_eq!(Config::load(None, ["agent"]).unwrap_err().to_string(), "agent is no key=value");
    }

    #[test]
    fn a_fraction_and_its_absolute_key_exclude_each_other() {
        let create = |settings: &[_]| create_config("Other-v0", "pqn", settings);
        assert_eq!(
            create(&[("epsilon_decay_fraction", "0.5"), ("epsilon_decay_steps", "10")]).unwrap_err().to_string(),
            "agent.epsilon_decay_fraction and agent.epsilon_decay_steps are both given: give one of them"
        );
        // Over a default the one that is given counts.
        let AgentConfig::Pqn(pqn) = create(&[("lr_decay_steps", "10")]).unwrap().agent else { panic!("not PQN") };
        assert_eq!((pqn.lr_decay_steps, pqn.lr_decay_fraction), (Some(10), None));
        let AgentConfig::Pqn(pqn) = create(&[("lr_decay_fraction", "none")]).unwrap().agent else { panic!("not PQN") };
        assert_eq!((pqn.lr_decay_steps, pqn.lr_decay_fraction), (None, None));
    }

    #[test]
    fn the_resolved_configuration_reads_back() {
        let settings = [("target_kl", "0.01"), ("env.gravity", "9.8"), ("env.label", "a \"b\"\nc"), ("threads", "2")];
        let config = create_config("CartPole-v1", "ppo", &settings).unwrap();
        assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
        // What takes back a preset stays taken back.
        for preset in presets::ALL {
            let config = create_config(preset.env, preset.agent, &[("steps_per_env", "12288")]).unwrap();
            assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config, "{}", preset.name);
        }
        let pid = create_config("CartPole-v1", "pid", &[("agent.kp", "-1"), ("steps_per_env", "10")]).unwrap();
        let AgentConfig::Classical(law) = &pid.agent else { panic!("not a law") };
        assert_eq!(law.arguments["kp"], "-1");
        assert_eq!(Config::from_toml(&pid.to_toml()).unwrap(), pid);
        assert_eq!(create_config("CartPole-v1", "pid", &[("kp", "-1"), ("steps_per_env", "10")]).unwrap(), pid);
        // The engine knows the keys of its control laws, and none of ours matter there.
        let law =
            create_config("CartPole-v1", "pid", &[("agent.lr_decay_steps", "1"), ("steps_per_env", "10")]).unwrap();
        assert!(law.flat().contains(&("agent.lr_decay_steps".to_owned(), "1".to_owned())));
        assert!(pid.flat().contains(&("agent.kp".to_owned(), "-1".to_owned())));
    }

    #[test]
    fn an_agent_has_one_name() {
        let refused = |agent, key, value| {
            create_config("TicTacToe-v0", agent, &[(key, value), ("steps_per_env", "9")]).unwrap_err().to_string()
        };
        assert_eq!(refused("ppo", "agent", "dqn"), "agent.name is ppo, but agent is dqn: give one of them");
        assert_eq!(
            refused("sarsa", "algorithm", "double_q"),
            "agent.algorithm is double_q, but agent is sarsa: give one of them"
        );
        let said = refused("q_learning", "table", "spase");
        assert!(said.contains("'auto'") && said.ends_with("did you mean 'sparse'?"), "{said}");
        let sarsa = create_config("TicTacToe-v0", "sarsa", &[("steps_per_env", "9")]).unwrap();
        assert_eq!(Config::from_toml(&sarsa.to_toml()).unwrap(), sarsa);
    }

    #[test]
    fn tables_have_courses() {
        let settings = [
            ("epsilon", "linear(1, 0.05, 30%)"),
            ("learning_rate", "0.1"),
            ("table", "optimal"),
            ("steps_per_env", "9"),
        ];
        let config = create_config("TicTacToe-v0", "q_learning", &settings).unwrap();
        let AgentConfig::QLearning(table) = &config.agent else { panic!("not tabular") };
        assert_eq!(table.epsilon.to_string(), "linear(1, 0.05, 30%)");
        assert_eq!(table.table.name(), "optimal");
        assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
        let message = |key, value| {
            create_config("TicTacToe-v0", "q_learning", &[(key, value), ("steps_per_env", "9")])
                .unwrap_err()
                .to_string()
        };
        assert!(message("learning_rate", "constant(2)").ends_with("but must be from 0 to 1"));
        assert!(
            message("epsilon", "visit(0.8)").contains("agent.epsilon is \"visit(0.8)\", but must be a number or a")
        );
    }

    #[test]
    fn an_evaluation_needs_no_length() {
        for settings in [&[][..], &[("steps_per_env", "7")], &[("run.total_timesteps", "7")]] {
            let config = create_eval_config("CartPole-v1", "random", settings).unwrap();
            assert_eq!(config.run.steps_per_env, if settings.is_empty() { 1 } else { 7 });
        }
    }

    #[test]
    fn constraints_of_a_preset_are_in_its_units() {
        let warnings = |settings: &[_]| create_config("ChemicalReactor-v0", "ppo", settings).unwrap().warnings();
        let (raw, scaled) = (("env.normalize_obs", "false"), ("env.normalize_obs", "true"));
        let found = warnings(&[raw]);
        assert!(found.len() == 1 && found[0].starts_with("env.normalize_obs = false is not the preset's"), "{found:?}");
        assert!(warnings(&[scaled]).is_empty());
        assert!(warnings(&[raw, ("env.constraints", "")]).is_empty());
        assert!(warnings(&[raw, ("env.constraints", "pressure<=300:soft")]).is_empty());
    }

    #[test]
    fn warnings_name_what_hardly_fits() {
        let settings = [("rollout_steps", "32"), ("eval_frequency", "100"), ("scan_chunk_size", "128")];
        assert_eq!(
            create_config("Other-v0", "ppo", &settings).unwrap().warnings(),
            [
                "run.eval_frequency = 100 is not a multiple of run.rollout_steps = 32",
                "run.scan_chunk_size = 128 is larger than run.eval_frequency = 100",
            ]
        );
        let rare = [("eval_frequency", "0"), ("steps_per_env", "1024"), ("checkpoint_frequency", "1025")];
        assert_eq!(
            create_config("Other-v0", "ppo", &rare).unwrap().warnings(),
            ["run.checkpoint_frequency = 1025 is more than run.steps_per_env = 1024: nothing is stored on the way"]
        );
        // Only where the user has asked for so many, and they are not made.
        let left_over = |env, settings: &[_]| create_config(env, "ppo", settings).unwrap().steps_left_over();
        let length = [("run.total_timesteps", "40000"), ("num_envs", "8"), ("rollout_steps", "128")];
        let expected = "40000 steps are no whole number of roll-outs, each of 1024: 39936 are made";
        assert_eq!(left_over("Other-v0", &length).as_deref(), Some(expected));
        assert_eq!(left_over("Pendulum-v1", &[]), None);
        assert!(left_over("Pendulum-v1", &[("run.total_timesteps", "200016")]).is_some());
        // The length is the preset's, what is made of it is not.
        let expected = "40000 steps are no whole number of roll-outs, each of 32000: 32000 are made";
        assert_eq!(left_over("CartPole-v1", &[("num_envs", "1000")]).as_deref(), Some(expected));
        let fits = [("rollout_steps", "32"), ("eval_frequency", "0"), ("scan_chunk_size", "64")];
        assert!(create_config("Other-v0", "ppo", &fits).unwrap().warnings().is_empty());
    }
}
