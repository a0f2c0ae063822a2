//! The environments as they are by default, and the settings that take another way through the code.

use std::sync::Arc;

use phalanx_core::batch::{Autoreset, Batch, BatchConfig, LaneWidth};
use phalanx_core::pool::Pool;
use phalanx_core::probe::{Precision, Probe};
use phalanx_core::safety::{Constraint, SafetyConfig, SafetyMode};
use phalanx_envs::registry;

/// An environment with what a user chose for it.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    pub env: &'static str,
    pub settings: &'static [(&'static str, &'static str)],
    pub mode: SafetyMode,
    /// Constraints beside the environment's own.
    pub constraints: &'static [&'static str],
}

/// Settings under the default safety mode, without constraints of a user.
///
/// The 5 x 5 canvas of ARC packs its states and steps sixteen at once; formats, filters and channels each have a decoder
/// or a writer of their own there. `n_horizon` is another type; caps and redraws change when the loop over reactions
/// ends and what it draws.
const SETTINGS: &[(&str, &[(&str, &str)])] = &[
    ("CartPole-v1", &[("kinematics_integrator", "semi_implicit"), ("sutton_barto_reward", "true")]),
    ("Acrobot-v1", &[("book_or_nips", "nips")]),
    ("ccasr-gfp-control", &[("n_horizon", "0"), ("redraw_each_interval", "true")]),
    ("ccasr-gfp-control", &[("n_horizon", "4"), ("target_type", "sinewave"), ("sinewave_random_phase", "true")]),
    ("ccasr-gfp-control", &[("n_horizon", "4"), ("max_reactions_per_step", "10"), ("rescale_on_change", "true")]),
    ("opto-hill-1d-sysid", &[("max_reactions_per_step", "10"), ("rescale_on_change", "true")]),
    ("ChemicalReactor-v0", &[("normalize_obs", "true"), ("disturbances", "false")]),
    ("VanDeVusse-v0", &[("normalize_obs", "true")]),
    ("TicTacToe-v0", &[("opponent", "perfect")]),
    ("TicTacToe-v0", &[("opponent", "self_play")]),
    ("TicTacToe-v0", &[("illegal", "lose")]),
    ("ARC-v0", &[("canvas", "5")]),
    ("ARC-v0", &[("canvas", "5"), ("action", "point"), ("start", "permutation"), ("reward", "training")]),
    ("ARC-v0", &[("canvas", "5"), ("action", "mask"), ("start", "mixed"), ("attempts", "3")]),
    ("ARC-v0", &[("canvas", "5"), ("flat", "on"), ("mode", "test"), ("show_clipboard", "on"), ("show_steps", "on")]),
    ("ARC-v0", &[("canvas", "5"), ("flat", "on"), ("operations", "standard"), ("filter_actions", "on")]),
    ("ARC-v0", &[("canvas", "5"), ("operations", "raw"), ("invalid_operation", "penalize"), ("one_hot", "on")]),
    ("ARC-v0", &[("action", "point"), ("flat", "on"), ("show_active", "on"), ("show_selection", "on")]),
    ("ARC-v0", &[("action", "mask"), ("start", "random"), ("show_input", "on"), ("show_target", "on")]),
    ("ARC-v0", &[("operations", "raw"), ("invalid_operation", "reject"), ("context", "1")]),
    ("ARC-v0", &[("canvas", "30")]),
];

type Settings = &'static [(&'static str, &'static str)];

/// Safety modes and constraints of a user. Hard constraints end episodes where they are enforced.
const SAFETY: &[(&str, Settings, SafetyMode, &[&str])] = &[
    ("CartPole-v1", &[], SafetyMode::Enforce, &["-0.1<=x<=0.1:hard", "x_dot<=0.5:soft"]),
    ("ChemicalReactor-v0", &[], SafetyMode::Monitor, &[]),
    ("ChemicalReactor-v0", &[], SafetyMode::Penalize, &[]),
    ("ChemicalReactor-v0", &[], SafetyMode::Off, &[]),
    ("ChemicalReactor-v0", &[("normalize_obs", "true")], SafetyMode::Monitor, &[]),
    ("VanDeVusse-v0", &[], SafetyMode::Monitor, &[]),
    ("VanDeVusse-v0", &[], SafetyMode::Penalize, &[]),
    ("VanDeVusse-v0", &[], SafetyMode::Off, &[]),
    ("TicTacToe-v0", &[], SafetyMode::Enforce, &["cell_4<=1:hard", "cell_0<=0:soft"]),
    ("ARC-v0", &[], SafetyMode::Enforce, &["grid[0,0]<9:hard", "steps<=5:soft"]),
    ("ARC-v0", &[("operations", "raw")], SafetyMode::Penalize, &["grid[0,0]<9:hard", "steps<=5:soft"]),
    ("ARC-v0", &[("canvas", "5")], SafetyMode::Enforce, &["grid[0,0]<9:hard", "steps<=5:soft"]),
    ("ARC-v0", &[("canvas", "5")], SafetyMode::Monitor, &["grid[0,0]<9:hard", "steps<=5:soft"]),
];

/// All of them, those without settings first.
pub fn variants() -> Vec<Variant> {
    let (mode, constraints) = (SafetyMode::Enforce, &[][..]);
    let plain = super::all_envs().into_iter().map(|env| Variant { env, settings: &[], mode, constraints });
    let set = SETTINGS.iter().map(|&(env, settings)| Variant { env, settings, mode, constraints });
    let safe = SAFETY.iter().map(|&(env, settings, mode, constraints)| Variant { env, settings, mode, constraints });
    plain.chain(set).chain(safe).collect()
}

impl Variant {
    /// Whether nothing was chosen.
    pub fn is_plain(&self) -> bool {
        self.settings.is_empty() && self.constraints.is_empty() && self.mode == SafetyMode::Enforce
    }

    /// A batch of one thread that starts anew in the same step.
    pub fn config(&self, num_envs: usize, seed: u64) -> BatchConfig {
        let constraints = self.constraints.iter().map(|text| Constraint::parse(text).unwrap()).collect();
        BatchConfig {
            settings: self.settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            safety: SafetyConfig { mode: self.mode, constraints },
            ..super::config(num_envs, seed, Autoreset::SameStep)
        }
    }

    /// A batch that may use any lanes and threads.
    pub fn batch_on(&self, num_envs: usize, lanes: LaneWidth, threads: usize) -> Box<dyn Batch> {
        self.batch(&BatchConfig { lanes, pool: Arc::new(Pool::new(threads)), ..self.config(num_envs, 11) })
    }

    pub fn batch(&self, config: &BatchConfig) -> Box<dyn Batch> {
        super::batch(self.env, config)
    }

    /// Environment 0 of the batches of [`Variant::batch_on`].
    pub fn probe(&self) -> Box<dyn Probe> {
        registry::find(self.env).unwrap().probe(&self.config(1, 11), Precision::F32).unwrap()
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.env)?;
        self.settings.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))?;
        write!(f, " safety {}", self.mode)?;
        self.constraints.iter().try_for_each(|text| write!(f, " {text}"))
    }
}
