//! Which runs a sweep consists of: hyper-parameters on a grid or drawn at random, each configuration with several seeds.
//!
//! A sweep's file is a run's configuration with a section more:
//!
//! ```toml
//! env = "CartPole-v1"
//! agent = "ppo"
//!
//! [sweep]
//! method = "random"        # or "grid": every combination
//! samples = 20             # configurations that are drawn
//! seed = 1                 # which ones
//! seeds = [1, 2, 3]        # of each configuration, or a count
//!
//! [sweep.parameters]
//! agent.learning_rate = { log_uniform = [1e-4, 1e-2] }
//! agent.gae_lambda = { uniform = [0.8, 1.0] }
//! run.rollout_steps = [32, 64, 128]
//! ```
//!
//! The plan depends on the file only. Everything that can be wrong with it is found before a run begins.

mod parameter;

use std::collections::BTreeSet;
use std::path::Path;

use phalanx_core::error::Error as EngineError;
use toml::{Table, Value};

use self::parameter::Parameter;
use crate::error::{Error, Result};
use crate::random::{Purpose, Random};
use crate::run::config::{self, Config, Presets};
use crate::run::settings::{self, Section, Setting, any, at_least_one, choice, optional, section};

/// More runs than anybody waits for.
const MOST_RUNS: usize = 100_000;

choice! {
    /// How configurations are chosen.
    Method {
        /// Every combination of the values.
        Grid = "grid",
        /// Draws from the values and ranges.
        Random = "random",
    }
}

choice! {
    /// Which values of the metric are good.
    Goal {
        /// High ones.
        Maximize = "maximize",
        /// Low ones.
        Minimize = "minimize",
    }
}

/// The seeds of each configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seeds {
    /// The one of the configuration.
    Own,
    /// So many, from 1 on.
    Count(u64),
    /// A list.
    These(Vec<u64>),
}

impl Setting for Seeds {
    fn kind() -> String {
        "a list of seeds such as [1, 2, 3], or how many".to_owned()
    }
    fn read(value: &Value) -> Option<Self> {
        u64::read(value).map(Self::Count).or_else(|| Vec::read(value).map(Self::These))
    }
    fn write(&self) -> Value {
        match self {
            Self::Own => Value::Array(Vec::new()),
            Self::Count(count) => count.write(),
            Self::These(seeds) => seeds.write(),
        }
    }
}

fn distinct_seeds(seeds: &Seeds) -> Option<&'static str> {
    let fine = match seeds {
        Seeds::Own => true,
        Seeds::Count(count) => *count > 0,
        Seeds::These(seeds) => !seeds.is_empty() && seeds.iter().collect::<BTreeSet<_>>().len() == seeds.len(),
    };
    (!fine).then_some("at least one seed, each once")
}

fn evaluation_tag(tag: &impl AsRef<str>) -> Option<&'static str> {
    tag.as_ref().is_empty().then_some("a tag of the log such as eval/return/mean")
}

section! {
    /// Settings of a sweep, its parameters aside.
    SweepConfig in "sweep" {
        /// How configurations are chosen. `grid`.
        method: Method = Method::Grid, any;
        /// Configurations that `random` draws. Mandatory there.
        samples: Option<usize> = None, optional(at_least_one);
        /// What `random` draws from. 0.
        seed: Option<u64> = None, any;
        /// Seeds of each configuration. That of the run.
        seeds: Seeds = Seeds::Own, distinct_seeds;
        /// Runs at the same time; never changes results. None: as many as there are cores.
        jobs: Option<usize> = None, optional(at_least_one);
        /// What a run is judged by: the last value of this tag in its log. `eval/return/mean`.
        metric: String = "eval/return/mean".to_owned(), evaluation_tag;
        /// Which values are good. `maximize`.
        goal: Goal = Goal::Maximize, any;
    }
}

/// All runs of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The parameters that are swept over, dotted, in the order of their names.
    pub parameters: Vec<String>,
    /// What is tried, in the order in which it is run.
    pub configurations: Vec<Configuration>,
    /// The seeds of each of them.
    pub seeds: Vec<u64>,
    /// Runs at the same time, if the file says so.
    pub jobs: Option<usize>,
    /// The tag of the log that runs are judged by.
    pub metric: String,
    /// Which values of it are good.
    pub goal: Goal,
}

/// One choice of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// The values of the parameters, in their order.
    pub values: Vec<Value>,
    config: Config,
}

impl Configuration {
    /// The settings of the run with this seed.
    pub fn run(&self, seed: u64) -> Config {
        let mut config = self.config.clone();
        config.run.seed = seed;
        config
    }

    /// Whether its runs were to be tuned; who asks has to do it, and the runs say nothing of it any more.
    pub fn take_auto_tune(&mut self) -> bool {
        std::mem::replace(&mut self.config.run.auto_tune, false)
    }
}

/// A value as the command line and tables have it: texts without quotation marks, and numbers that are very small or
/// very large with an exponent.
pub fn plain(value: &Value) -> String {
    settings::plain(value)
}

impl Plan {
    /// The plan of a file with this text.
    ///
    /// # Errors
    /// One sentence about the first thing that is wrong with any of its runs, the environments aside.
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        let refuse = |error: Error| match error {
            error @ Error::Damaged { .. } => error,
            error => Error::damaged(path, "sweep", error.to_string()),
        };
        let mut base = config::parse(path, text)?;
        let Some(sweep) = base.remove("sweep") else {
            return Err(refuse(Error::setting("section [sweep]", "is missing")));
        };
        let Value::Table(mut sweep) = sweep else {
            return Err(refuse(Error::setting("sweep", "must be a section: write [sweep]")));
        };
        let parameters = sweep.remove("parameters");
        let settings = read_settings(sweep).map_err(refuse)?;
        let parameters = parameters.map_or(Ok(Vec::new()), Parameter::read_all).map_err(refuse)?;
        let chosen = match settings.method {
            Method::Grid => grid(&parameters),
            Method::Random => random(&parameters, &settings),
        };
        let chosen = chosen.map_err(refuse)?;
        let has_seed = base.get("run").and_then(|run| run.get("seed")).is_some() || base.contains_key("seed");
        if has_seed && settings.seeds != Seeds::Own {
            return Err(refuse(Error::setting("run.seed", "and sweep.seeds are both given: give one of them")));
        }

        let base = base.to_string();
        let mut names = Vec::new();
        let mut configurations = Vec::with_capacity(chosen.len());
        for values in chosen {
            let given: Vec<_> = parameters.iter().map(|p| p.name.as_str()).zip(values.iter().map(plain)).collect();
            let overrides = given.iter().map(|(name, value)| (*name, value.as_str()));
            let found = Config::build(Presets::Apply, &[], Some((path, &base)), overrides).and_then(|config| {
                names = canonical(&config, &parameters)?;
                Ok(config)
            });
            let config = found.map_err(|error| match error {
                error @ Error::Damaged { .. } => error,
                error if given.is_empty() => refuse(error),
                error => {
                    let given: Vec<_> = given.iter().map(|(name, value)| format!("{name} = {value}")).collect();
                    Error::damaged(path, "sweep", format!("with {}: {error}", given.join(", ")))
                }
            })?;
            if !config.log.csv && !config.log.jsonl {
                let why = "and log.jsonl are both false, but the metric is read from one of these logs";
                return Err(refuse(Error::setting("log.csv", why)));
            }
            let tags = config.agent.tags();
            if !tags.contains(&settings.metric.as_str()) {
                let agent = format!("agent {}", config.agent);
                return Err(refuse(EngineError::unknown("metric", &settings.metric, Some(&agent), tags).into()));
            }
            configurations.push(Configuration { values, config });
        }
        let seeds = match settings.seeds {
            Seeds::Own => vec![configurations[0].config.run.seed],
            Seeds::Count(count) => (1..=count.min(MOST_RUNS as u64 + 1)).collect(),
            Seeds::These(seeds) => seeds,
        };
        if configurations.len().saturating_mul(seeds.len()) > MOST_RUNS {
            return Err(refuse(too_many()));
        }
        Ok(Self {
            parameters: names,
            configurations,
            seeds,
            jobs: settings.jobs,
            metric: settings.metric,
            goal: settings.goal,
        })
    }

    /// Configurations and seeds, in the order in which they are run.
    pub fn runs(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (0..self.configurations.len()).flat_map(|index| self.seeds.iter().map(move |seed| (index, *seed)))
    }
}

fn too_many() -> Error {
    Error::setting("sweep.parameters", format!("and sweep.seeds make more than {MOST_RUNS} runs"))
}

fn read_settings(table: Table) -> Result<SweepConfig> {
    let mut settings = SweepConfig::default();
    for (key, value) in table {
        let known = settings.keys().iter().map(|(_, known)| *known);
        if !known.clone().any(|known| known == key) {
            let known = known.chain(["parameters"]);
            return Err(EngineError::unknown("key", &key, Some("section sweep"), known).into());
        }
        settings.set("sweep", &key, &value)?;
    }
    if settings.method == Method::Grid {
        let useless = [("sweep.samples", settings.samples.is_some()), ("sweep.seed", settings.seed.is_some())];
        if let Some((key, _)) = useless.iter().find(|(_, given)| *given) {
            return Err(Error::setting(*key, "has no effect on a grid: leave it out, or take method = \"random\""));
        }
    }
    Ok(settings)
}

/// The full names of the parameters, which must be different settings.
fn canonical(config: &Config, parameters: &[Parameter]) -> Result<Vec<String>> {
    let mut names = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        let (section, key) = config.resolve(&parameter.name)?;
        let name = format!("{section}.{key}");
        if name == "run.seed" {
            return Err(Error::setting(name, "is no parameter of a sweep: give sweep.seeds"));
        }
        if names.contains(&name) {
            return Err(Error::setting(format!("sweep.parameters.{name}"), "is given twice"));
        }
        names.push(name);
    }
    Ok(names)
}

/// Every combination; the last parameter changes fastest.
fn grid(parameters: &[Parameter]) -> Result<Vec<Vec<Value>>> {
    let mut chosen = vec![Vec::new()];
    for parameter in parameters {
        if chosen.len().saturating_mul(parameter.count()) > MOST_RUNS {
            return Err(too_many());
        }
        let points = parameter.points()?;
        chosen = chosen
            .iter()
            .flat_map(|values| points.iter().map(|point| [values.as_slice(), std::slice::from_ref(point)].concat()))
            .collect();
    }
    Ok(chosen)
}

/// As many different draws as are wanted.
fn random(parameters: &[Parameter], settings: &SweepConfig) -> Result<Vec<Vec<Value>>> {
    let Some(samples) = settings.samples else {
        let why = "is missing: say how many configurations method = \"random\" draws";
        return Err(Error::setting("sweep.samples", why));
    };
    if parameters.is_empty() {
        return Err(Error::setting("sweep.parameters", "is missing: method = \"random\" has nothing to draw"));
    }
    if samples > MOST_RUNS {
        return Err(too_many());
    }
    parameters.iter().try_for_each(Parameter::check_random)?;
    let mut stream = Random::new(settings.seed.unwrap_or(0), Purpose::Hyperparameters);
    let (mut chosen, mut seen) = (Vec::with_capacity(samples), BTreeSet::new());
    // Far more than it takes to meet each of a few combinations.
    for _ in 0..100 * samples + 10_000 {
        let values: Vec<Value> = parameters.iter().map(|parameter| parameter.draw(&mut stream)).collect();
        if seen.insert(values.iter().map(plain).collect::<Vec<_>>()) {
            chosen.push(values);
        }
        if chosen.len() == samples {
            return Ok(chosen);
        }
    }
    let why = format!(
        "is {samples}, but the parameters have only about {} different combinations: take fewer, or method = \"grid\"",
        chosen.len()
    );
    Err(Error::setting("sweep.samples", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "env = \"CartPole-v1\"\nagent = \"ppo\"\n";

    fn plan(sweep: &str) -> Result<Plan> {
        Plan::parse(Path::new("sweep.toml"), &format!("{BASE}[sweep]\n{sweep}"))
    }

    fn refusal(sweep: &str) -> String {
        plan(sweep).unwrap_err().to_string()
    }

    fn values(plan: &Plan) -> Vec<String> {
        let row = |c: &Configuration| c.values.iter().map(plain).collect::<Vec<_>>().join(" ");
        plan.configurations.iter().map(row).collect()
    }

    #[test]
    fn a_grid_has_every_combination_with_every_seed() {
        let found = plan(
            "seeds = [3, 1]\n[sweep.parameters]\nagent.gamma = [0.9, 0.99]\nhidden = [[8], [16, 16]]\n\
             \"run.rollout_steps\" = { integer = [32, 64], points = 2 }",
        )
        .unwrap();
        assert_eq!(found.parameters, ["agent.gamma", "agent.hidden", "run.rollout_steps"]);
        assert_eq!(
            values(&found),
            [
                "0.9 [8] 32",
                "0.9 [8] 64",
                "0.9 [16, 16] 32",
                "0.9 [16, 16] 64",
                "0.99 [8] 32",
                "0.99 [8] 64",
                "0.99 [16, 16] 32",
                "0.99 [16, 16] 64",
            ]
        );
        assert_eq!(found.runs().take(3).collect::<Vec<_>>(), [(0, 3), (0, 1), (1, 3)]);
        assert_eq!(found.runs().count(), 16);
        let config = found.configurations[3].run(7);
        let text =
            "env = \"CartPole-v1\"\nagent = \"ppo\"\nseed = 7\ngamma = 0.9\nhidden = [16, 16]\nrollout_steps = 64";
        let expected = Config::build(Presets::Apply, &[], Some((Path::new("a file"), text)), []);
        assert_eq!(config, expected.unwrap());
    }

    #[test]
    fn a_sweep_over_seeds_alone_is_one_configuration() {
        let found = plan("seeds = 3").unwrap();
        assert_eq!((found.configurations.len(), found.seeds.as_slice()), (1, [1, 2, 3].as_slice()));
        assert_eq!(plan("").unwrap().seeds, [42], "that of the run");
    }

    #[test]
    fn ranges_on_a_grid_are_cut_evenly() {
        let points =
            |range: &str| values(&plan(&format!("[sweep.parameters]\nagent.ent_coef = {range}")).unwrap()).join(" ");
        assert_eq!(points("{ uniform = [0.0, 1.0], points = 5 }"), "0.0 0.25 0.5 0.75 1.0");
        assert_eq!(points("{ log_uniform = [1e-4, 1.0], points = 3 }"), "0.0001 0.01 1.0");
        assert_eq!(points("{ integer = [2, 5] }"), "2 3 4 5");
        assert_eq!(points("{ choice = [1, 0.5] }"), "1 0.5");
    }

    #[test]
    fn draws_are_different_within_their_ranges_and_always_the_same() {
        let file = |seed: u32, samples: u32| {
            format!(
                "method = \"random\"\nsamples = {samples}\nseed = {seed}\n[sweep.parameters]\n\
                 agent.learning_rate = {{ log_uniform = [1e-5, 1e-1] }}\nagent.gae_lambda = {{ uniform = [0.8, 1.0] }}\n\
                 agent.num_epochs = {{ integer = [1, 4] }}\nagent.norm_adv = [true, false]"
            )
        };
        let found = plan(&file(1, 200)).unwrap();
        let number = |c: &Configuration, i: usize| {
            c.values[i].as_float().unwrap_or_else(|| c.values[i].as_integer().unwrap() as f64)
        };
        let name = |i: usize| found.parameters[i].as_str();
        assert_eq!([name(0), name(1), name(3)], ["agent.gae_lambda", "agent.learning_rate", "agent.num_epochs"]);
        let mut below = 0;
        let mut epochs = [0; 5];
        for configuration in &found.configurations {
            assert!((0.8..=1.0).contains(&number(configuration, 0)));
            assert!((1e-5..=1e-1).contains(&number(configuration, 1)));
            below += usize::from(number(configuration, 1) < 1e-3);
            epochs[number(configuration, 3) as usize] += 1;
        }
        // Half of a logarithmic range lies below its geometric middle; four standard deviations are 28.
        assert!((72..=128).contains(&below), "{below}");
        assert!(epochs[0] == 0 && epochs[1..].iter().all(|count| *count > 25), "{epochs:?}");
        assert_eq!(found, plan(&file(1, 200)).unwrap());
        assert_eq!(values(&plan(&file(1, 20)).unwrap()), values(&found)[..20], "more samples change no earlier one");
        assert_ne!(values(&plan(&file(2, 20)).unwrap()), values(&found)[..20]);
    }

    #[test]
    fn few_combinations_are_each_drawn_once() {
        let file = |samples: u32| {
            format!(
                "method = \"random\"\nsamples = {samples}\n[sweep.parameters]\ngamma = [0.9, 0.99]\nnum_epochs = [1, 2]"
            )
        };
        let mut all = values(&plan(&file(4)).unwrap());
        all.sort();
        assert_eq!(all, ["0.9 1", "0.9 2", "0.99 1", "0.99 2"]);
        let message = refusal(&file(5));
        assert!(message.contains("sweep.samples is 5") && message.contains("only about 4"), "{message}");
    }

    #[test]
    fn agents_can_be_swept_over() {
        let found = plan("[sweep.parameters]\nagent = [\"ppo\", \"pqn\"]\nlearning_rate = [1e-3]").unwrap();
        assert_eq!(found.parameters, ["agent.name", "agent.learning_rate"]);
        assert_eq!(found.configurations[1].run(1).agent.name(), "pqn");
    }

    #[test]
    fn what_is_wrong_is_said_in_one_sentence() {
        for (sweep, part) in [
            ("metod = \"grid\"", "unknown key 'metod' for section sweep; did you mean 'method'"),
            ("method = \"bayes\"", "sweep.method is \"bayes\", but must be one of 'grid', 'random'"),
            ("seeds = []", "sweep.seeds is [], but must be at least one seed, each once"),
            ("seeds = [1, 1]", "each once"),
            ("seeds = 0", "at least one seed"),
            ("seeds = \"all\"", "a list of seeds such as [1, 2, 3], or how many"),
            ("samples = 3", "sweep.samples has no effect on a grid"),
            ("method = \"random\"", "sweep.samples is missing"),
            ("method = \"random\"\nsamples = 2", "nothing to draw"),
            ("jobs = 0", "sweep.jobs is 0, but must be at least 1"),
            (
                "metric = \"eval/retrun/mean\"",
                "unknown metric 'eval/retrun/mean' for agent ppo; did you mean 'eval/return/mean'",
            ),
            ("[sweep.parameters]\nagent.gama = [0.9]", "unknown key 'gama'"),
            ("[sweep.parameters]\nagent.gamma = []", "is an empty list"),
            ("[sweep.parameters]\nagent.gamma = [0.9, 0.9]", "lists 0.9 twice"),
            ("[sweep.parameters]\nagent.gamma = 0.9", "must be a list of values"),
            ("[sweep.parameters]\nagent.gamma = [0.9, 7]", "with agent.gamma = 7: agent.gamma is 7"),
            ("[sweep.parameters]\nagent.gamma = { unifrom = [0, 1] }", "did you mean 'uniform'"),
            ("[sweep.parameters]\nagent.gamma = { uniform = [1, 0], points = 2 }", "the first smaller"),
            ("[sweep.parameters]\nagent.gamma = { uniform = [0, 1] }", "points"),
            ("[sweep.parameters]\nagent.gamma = { uniform = [0, 1], points = 1 }", "at least 2"),
            ("[sweep.parameters]\nlearning_rate = { log_uniform = [0, 1], points = 2 }", "above 0"),
            ("[sweep.parameters]\nnum_epochs = { integer = [1.5, 4] }", "whole numbers"),
            ("[sweep.parameters]\ngamma = { uniform = [0, 1], integer = [0, 1] }", "one of"),
            ("[sweep.parameters]\ngamma = [0.9]\nagent.gamma = [0.8]", "agent.gamma is given twice"),
            ("[sweep.parameters]\nrun.seed = [1]", "run.seed is no parameter of a sweep: give sweep.seeds"),
            ("seeds = 1000\n[sweep.parameters]\nnum_epochs = { integer = [1, 1000] }", "more than 100000 runs"),
            (
                "method = \"random\"\nsamples = 2\n[sweep.parameters]\ngamma = { uniform = [0, 1], points = 2 }",
                "points has no effect",
            ),
        ] {
            let message = refusal(sweep);
            assert!(message.starts_with("sweep.toml is no usable sweep: "), "{message}");
            assert!(message.contains(part), "{message}\n{part}");
            assert!(!message.contains('\n'));
        }
        let of = |text: &str| Plan::parse(Path::new("s.toml"), text).unwrap_err().to_string();
        assert!(of(BASE).ends_with("section [sweep] is missing"));
        assert!(of("env = 1\n[sweep").starts_with("s.toml is no usable configuration: line 2"));
        assert!(of("env = \"CartPole-v1\"\nagent = \"ppo\"\ngama = 1\n[sweep]").contains("unknown key 'gama'"));
        assert!(of("env = \"CartPole-v1\"\nagent = \"ppo\"\nseed = 1\n[sweep]\nseeds = 2").contains("are both given"));
        assert!(
            of("env = \"CartPole-v1\"\nagent = \"ppo\"\n[log]\ncsv = false\njsonl = false\n[sweep]").contains("metric")
        );
    }
}
