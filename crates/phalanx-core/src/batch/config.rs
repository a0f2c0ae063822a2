//! How a batch is set up, from what a user wrote.

use std::sync::Arc;

use super::Batch;
use super::engine::Engine;
use super::kernel::Streams;
use super::lane_kernel::{LaneKernel, check_params};
use super::params::{Params, prior_of};
use super::solo_kernel::SoloKernel;
use super::{Autoreset, check_len};
use crate::env::LaneEnv;
use crate::error::{Error, Result};
use crate::lanes::{f32x8, f32x16};
use crate::pool::Pool;
use crate::safety::{Guard, SafetyConfig};
use crate::solo::SoloEnv;
use crate::space::{ActionMask, ActionSpace, EnvSpec};

/// Environments side by side in one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneWidth {
    /// The fastest for the number of environments.
    #[default]
    Auto,
    /// One: scalar code.
    One,
    /// Eight.
    Eight,
    /// Sixteen.
    Sixteen,
}

impl LaneWidth {
    /// Sixteen lanes measured fastest for large batches. The choice for fewer than sixteen environments
    /// follows from how many lanes they fill; it was not measured.
    fn lanes(self, num_envs: usize) -> usize {
        match (self, num_envs) {
            (Self::One, _) | (Self::Auto, 1) => 1,
            (Self::Eight, _) | (Self::Auto, 2..=8) => 8,
            (Self::Sixteen, _) | (Self::Auto, _) => 16,
        }
    }
}

/// How a batch is set up.
#[derive(Clone, Debug)]
pub struct BatchConfig {
    /// Number of environments; default 1.
    pub num_envs: usize,
    /// The seed of the whole batch; default 0.
    pub seed: u64,
    /// What happens after an episode has ended; default [`Autoreset::NextStep`], as in Gymnasium.
    pub autoreset: Autoreset,
    /// Lanes; default [`LaneWidth::Auto`].
    pub lanes: LaneWidth,
    /// The threads that share the work; default one, the calling thread.
    pub pool: Arc<Pool>,
    /// Parameters, options and `max_steps` by name. Each environment draws its own value of a parameter
    /// from a range `low..high`, or from a log-normal prior if `NAME_scale` or `NAME_loc` (spread and mean
    /// of its logarithm) is set. Default none.
    pub settings: Vec<(String, String)>,
    /// What must hold after every step, and what follows if it does not. Default: the environment's own
    /// constraints, enforced.
    pub safety: SafetyConfig,
    /// How often each action is done before the next is asked for; default 1. More than once only with
    /// [`Autoreset::SameStep`], and without masks.
    pub action_repeat: u32,
    /// Whether the step limit ends episodes; default yes. If not, environments that show it know it all the same: who
    /// counts the steps is somebody else.
    pub time_limit: bool,
}

impl Default for BatchConfig {
    fn default() -> Self {
        Self {
            num_envs: 1,
            seed: 0,
            autoreset: Autoreset::default(),
            lanes: LaneWidth::default(),
            pool: Arc::new(Pool::new(1)),
            settings: Vec::new(),
            safety: SafetyConfig::default(),
            action_repeat: 1,
            time_limit: true,
        }
    }
}

impl BatchConfig {
    /// The limit in force, of an environment whose own or chosen one is `limit`.
    fn step_limit(&self, limit: u32) -> u32 {
        if self.time_limit { limit } else { EnvSpec::NO_LIMIT }
    }
}

/// The most environments a batch can have: they are numbered in 32 bits.
const MAX_ENVS: usize = 1 << 31;

/// A batch of environments in lanes.
pub fn build<E: LaneEnv>(env: E, config: &BatchConfig) -> Result<Box<dyn Batch>> {
    check_num_envs(config.num_envs)?;
    let Configured { env, params, spec, guard } = configure(env, config)?;
    let fits_a_word = matches!(spec.action, ActionSpace::Discrete { n } if n <= 32);
    assert!(spec.action_mask == ActionMask::None || fits_a_word, "masks in lanes are for up to 32 discrete actions");
    match config.lanes.lanes(config.num_envs) {
        1 => Engine::boxed(LaneKernel::<E, f32>::new(env, params, guard), spec, config),
        8 => Engine::boxed(LaneKernel::<E, f32x8>::new(env, params, guard), spec, config),
        _ => Engine::boxed(LaneKernel::<E, f32x16>::new(env, params, guard), spec, config),
    }
}

/// A batch of environments that vectorise inside one copy.
pub fn build_solo<E: SoloEnv>(env: E, config: &BatchConfig) -> Result<Box<dyn Batch>> {
    check_num_envs(config.num_envs)?;
    let (env, spec, guard) = configure_solo(env, config)?;
    Engine::boxed(SoloKernel::new(env, guard), spec, config)
}

/// Applies settings to an environment that has options only.
pub(crate) fn configure_solo<E: SoloEnv>(mut env: E, config: &BatchConfig) -> Result<(E, EnvSpec, Guard)> {
    let spec = env.spec();
    let mut max_steps = None;
    check_once(&spec, &config.settings)?;
    for (name, value) in &config.settings {
        match setting(&spec, name, value)? {
            Setting::MaxSteps(steps) => max_steps = Some(steps),
            Setting::Choice => env.set_option(name, value)?,
            // An environment of this kind has options only.
            Setting::Param | Setting::Prior => {
                return Err(Error::unknown("option", name, Some(spec.name), spec.options.iter().map(|o| o.name)));
            }
        }
    }
    env.prepare()?;
    let mut spec = env.spec();
    spec.max_steps = config.step_limit(max_steps.unwrap_or(spec.max_steps));
    let guard = Guard::new(&config.safety, &mut spec)?;
    Ok((env, spec, guard))
}

/// An environment with its settings applied.
pub(crate) struct Configured<E> {
    pub(crate) env: E,
    pub(super) params: Params,
    /// Names, spaces and limits with the settings in force.
    pub(crate) spec: EnvSpec,
    pub(crate) guard: Guard,
}

/// Applies settings to an environment.
pub(crate) fn configure<E: LaneEnv>(mut env: E, config: &BatchConfig) -> Result<Configured<E>> {
    let BatchConfig { num_envs, seed, ref settings, ref safety, .. } = *config;
    let spec = env.spec();
    let mut params = Params::defaults::<f32, E::Params<f32>>(spec.name);
    let mut max_steps = None;
    check_once(&spec, settings)?;
    for (name, value) in settings {
        match setting(&spec, name, value)? {
            Setting::MaxSteps(steps) => max_steps = Some(steps),
            Setting::Choice => env.set_option(name, value),
            Setting::Param => params.set_text(name, value, num_envs, seed)?,
            Setting::Prior => {}
        }
    }
    // After the parameters, whose values are the priors' default means.
    params.draw_priors(settings, num_envs, seed)?;
    check_params(&env, &params, num_envs)?;
    // The options' choices may have changed anything.
    let mut spec = env.spec();
    spec.max_steps = config.step_limit(max_steps.unwrap_or(spec.max_steps));
    if let Some(name) = spec.dt_param {
        // Where it varies, controllers assume the first environment's.
        spec.dt = Some(params.get(name, 0)?);
    }
    let guard = Guard::new(safety, &mut spec)?;
    env.set_safety(safety.mode, &spec.constraints);
    Ok(Configured { env, params, spec, guard })
}

impl<E: LaneEnv> Configured<E> {
    /// The parameters of the first environment, in full precision.
    pub(crate) fn first_params(&self) -> E::Params<f64> {
        self.params.of_env(0)
    }
}

enum Setting {
    MaxSteps(u32),
    Choice,
    Param,
    Prior,
}

/// Refuses a name that is set twice.
fn check_once(spec: &EnvSpec, settings: &[(String, String)]) -> Result<()> {
    for (i, (name, _)) in settings.iter().enumerate() {
        if settings[..i].iter().any(|(earlier, _)| earlier == name) {
            return Err(Error::out_of_range(format!("parameter {name} of {}", spec.name), "given twice", "given once"));
        }
    }
    Ok(())
}

/// Finds out what `name = value` sets, and checks what does not need the environment.
fn setting(spec: &EnvSpec, name: &str, value: &str) -> Result<Setting> {
    if name == "max_steps" {
        let steps = value.parse().ok().filter(|steps| (1..=EnvSpec::NO_LIMIT).contains(steps));
        let what = || format!("max_steps of {}", spec.name);
        return steps.map(Setting::MaxSteps).ok_or_else(|| {
            Error::out_of_range(what(), format!("'{value}'"), format!("a whole number from 1 to {}", EnvSpec::NO_LIMIT))
        });
    }
    if let Some(option) = spec.options.iter().find(|o| o.name == name) {
        if option.choices.is_empty() || option.choices.contains(&value) {
            return Ok(Setting::Choice);
        }
        let what = format!("option {name} of {}", spec.name);
        return Err(Error::unknown("choice", value, Some(&what), option.choices));
    }
    if spec.params.iter().any(|p| p.name == name) {
        return Ok(Setting::Param);
    }
    if prior_of(name).is_some_and(|(name, _)| spec.params.iter().any(|p| p.name == name)) {
        return Ok(Setting::Prior);
    }
    let known = spec.params.iter().map(|p| p.name).chain(spec.options.iter().map(|o| o.name)).chain(["max_steps"]);
    Err(Error::unknown("parameter", name, Some(spec.name), known))
}

fn check_num_envs(num_envs: usize) -> Result<()> {
    if (1..=MAX_ENVS).contains(&num_envs) {
        return Ok(());
    }
    Err(Error::out_of_range("the number of environments", num_envs, format!("from 1 to {MAX_ENVS}")))
}

/// The streams that a list of seeds gives.
pub(super) fn streams_of(seeds: &[u64], num_envs: usize) -> Result<Streams> {
    check_len("the list of seeds", seeds.len(), num_envs)?;
    Ok(Streams::of_seeds(seeds))
}
