//! The compact canvas behind the engine's interface: [`ArcSolo`] with states in the packed layout.
//!
//! Steps, starts and the plain observation are made for the layout; everything else is asked of [`ArcSolo`] in its own.

use std::sync::Arc;

use bytemuck::{Zeroable, cast};
use phalanx_core::Result;
use phalanx_core::batch::Actions;
use phalanx_core::lanes::{BLOCK, Line, Stored, u32x8, u32x16};
use phalanx_core::rng::Draws;
use phalanx_core::solo::{Outcome, SoloAction, SoloEnv};
use phalanx_core::space::EnvSpec;

use super::ArcSolo;
use crate::arc::action::{Action, Format};
use crate::arc::board::Board;
use crate::arc::compact::{self, Packed, PackedPair, SIDE, Unpacked};
use crate::arc::observe::Channels;
use crate::arc::state::words;

/// The same environment in the layout of all canvases.
type Plain = ArcSolo<SIDE, 1, { words(SIDE, 1) }>;

/// The compact canvas: 5 x 5.
#[derive(Clone, Debug)]
pub struct ArcCompact {
    plain: Plain,
    /// The pairs of the pool.
    pairs: Arc<[PackedPair]>,
    /// Numbers of an action.
    components: usize,
    /// Whether these are an operation, unfiltered, and two corners.
    is_plain: bool,
    /// Whether nothing but the working grid is shown.
    only_grid: bool,
}

impl ArcCompact {
    pub(super) fn new(plain: Plain) -> Self {
        let pairs = plain.env.pool().pairs.iter().map(PackedPair::new).collect();
        Self { plain, pairs, components: 5, is_plain: true, only_grid: true }
    }

    /// The action of an environment of a block.
    #[inline(always)]
    fn action(&self, actions: Actions<'_>, lane: usize) -> Action<SIDE> {
        let Actions::Discrete(indices) = actions else { unreachable!("checked at the door") };
        self.plain.decode(match self.plain.flat {
            true => SoloAction::Discrete(indices[lane] as u32),
            false => SoloAction::Multi(&indices[lane * self.components..(lane + 1) * self.components]),
        })
    }

    /// The operations and cells that `envs` environments are asked for.
    #[inline(always)]
    fn asked(&self, envs: usize, actions: Actions<'_>) -> (Line, u32x16) {
        if let (Actions::Discrete(indices), true) = (actions, self.is_plain) {
            let mut rows = [u32x8::ZERO; BLOCK];
            // Eight numbers, of which the last are of the next row; the last row has none behind it.
            for (lane, row) in rows.iter_mut().enumerate().take(envs - 1) {
                *row = cast(*indices[lane * 5..].first_chunk::<8>().expect("two rows or more"));
            }
            rows[envs - 1] = cast(last_row(indices));
            return compact::columns(&rows);
        }
        let (mut ops, mut chosen) = (Line::default(), Line::default());
        for lane in 0..envs {
            let action = self.action(actions, lane);
            (ops.0[lane], chosen.0[lane]) = (action.op.into(), compact::cells_of(&action.chosen));
        }
        (ops, Stored::load(&chosen, 0))
    }
}

/// The last action of some, with zeros behind.
fn last_row(indices: &[i32]) -> [i32; 8] {
    let mut row = [0; 8];
    row[..5].copy_from_slice(&indices[indices.len() - 5..]);
    row
}

impl SoloEnv for ArcCompact {
    type State = Packed;
    type Elem = i8;

    fn spec(&self) -> EnvSpec {
        self.plain.spec()
    }

    fn set_option(&mut self, name: &str, value: &str) -> Result<()> {
        self.plain.set_option(name, value)
    }

    fn prepare(&mut self) -> Result<()> {
        let config = self.plain.env.config();
        self.components = self.plain.env.encoding().sizes().len();
        self.is_plain = config.format == Format::Bbox && !self.plain.flat && !config.dynamic_action_filtering;
        self.only_grid = config.channels == Channels::default();
        self.plain.prepare()
    }

    #[inline]
    fn reset(&self, state: &mut Packed, draws: &mut Draws<f32>) {
        let (pair, grid) = self.plain.env.draw(draws);
        *state = Packed::start(pair, &self.pairs[pair as usize], &grid);
    }

    #[inline]
    fn step(&self, state: &mut Packed, action: SoloAction<'_>, _: &mut Draws<f32>) -> Outcome {
        self.plain.env.step_on(state, &self.pairs, &self.plain.decode(action))
    }

    fn step_block(&self, states: &mut [Packed], actions: Actions<'_>, outcomes: &mut [Outcome]) -> bool {
        let (ops, chosen) = self.asked(states.len(), actions);
        let mut left = compact::step_block(&self.plain.env, &self.pairs, states, (&ops, chosen), outcomes);
        // Submissions, and what else replaces the grid or is not allowed.
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let action = self.action(actions, lane);
            outcomes[lane] = self.plain.env.step_on(&mut states[lane], &self.pairs, &action);
            left &= left - 1;
        }
        true
    }

    #[inline(always)]
    fn observe(&self, state: &Packed, obs: &mut [i8]) {
        if self.only_grid {
            return obs.copy_from_slice(state.grid());
        }
        self.plain.observe(&state.unpacked(), obs);
    }

    fn scores(&self, state: &Packed) -> Option<[f32; 2]> {
        self.plain.scores_of(state.head())
    }

    fn is_legal(&self, state: &Packed, k: usize, choice: u32) -> bool {
        self.plain.is_legal_at(state.head(), k, choice)
    }

    fn choose_legal(&self, state: &Packed, k: usize, n: u32, below: &dyn Fn(u32) -> u32) -> u32 {
        self.plain.choose_legal_at(state.head(), k, n, below)
    }

    fn state_value(&self, state: &Packed, field: usize) -> f64 {
        self.plain.state_value(&state.unpacked(), field)
    }

    fn set_state_values(&self, state: &mut Packed, values: &[f64]) -> Result<()> {
        let mut plain = Unpacked::zeroed();
        self.plain.set_state_values(&mut plain, values)?;
        *state = Packed::new(&plain);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::batch::{Autoreset, Batch, BatchConfig, StepBuffers, build_solo};
    use phalanx_core::policy::Policy;
    use phalanx_core::pool::Pool;
    use phalanx_core::rollout::Rollout;
    use phalanx_core::safety::{Constraint, SafetyConfig};
    use phalanx_core::space::ActionSpace;

    use super::*;
    use crate::arc::solo::{Source, setting, tasks};
    use crate::arc::testing::random_words;

    /// Settings that change what a step does or shows.
    const VARIANTS: [&[(&str, &str)]; 9] = [
        &[],
        &[("flat", "on"), ("action", "mask"), ("mode", "test"), ("attempts", "3")],
        &[("action", "mask"), ("start", "mixed")],
        &[("action", "point"), ("reward", "training"), ("start", "permutation"), ("max_steps", "9")],
        &[("operations", "raw"), ("invalid_operation", "reject"), ("start", "random")],
        &[("operations", "standard"), ("filter_actions", "on"), ("flat", "on")],
        &[("one_hot", "on"), ("show_active", "on"), ("show_clipboard", "on"), ("show_input", "on")],
        &[("show_selection", "on"), ("show_target", "on"), ("context", "2"), ("show_steps", "on")],
        &[("operations", "raw"), ("invalid_operation", "penalize"), ("show_clipboard", "on"), ("start", "empty")],
    ];

    fn config(num_envs: usize, threads: usize, settings: &[(&str, &str)]) -> BatchConfig {
        let settings = settings.iter().chain(&[("canvas", "5")]);
        BatchConfig {
            num_envs,
            seed: 11,
            autoreset: Autoreset::SameStep,
            pool: Arc::new(Pool::new(threads)),
            settings: settings.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            ..BatchConfig::default()
        }
    }

    /// A batch of the same environments in the layout of all canvases.
    fn plain(config: &BatchConfig) -> Box<dyn Batch> {
        let (loaded, mode) = tasks(config).unwrap();
        let word = |name| setting(config, name).unwrap_or_default().to_owned();
        let source =
            Source { tasks: word("tasks"), dataset: "dir", select: word("select"), canvas: "5", notes: vec![] };
        build_solo(Plain::new(&loaded.tasks, source, mode, config).unwrap(), config).unwrap()
    }

    fn run(mut batch: Box<dyn Batch>, steps: usize) -> (u64, String) {
        let policy = Policy::parse("random", &[], batch.spec()).unwrap();
        let mut rollout = Rollout::new(policy, batch.as_ref());
        rollout.run(batch.as_mut(), steps, 16, |_| true).unwrap();
        (rollout.checksum(), format!("{:?}", rollout.stats()))
    }

    #[test]
    fn roll_outs_are_those_of_the_layout_of_all_canvases() {
        for settings in VARIANTS {
            for (envs, threads) in [(100, 1), (100, 2), (1, 1), (15, 1), (17, 2), (33, 1)] {
                let config = config(envs, threads, settings);
                let packed = crate::arc::solo::batch(&config).unwrap();
                assert_eq!(run(packed, 300), run(plain(&config), 300), "{envs} environments, {settings:?}");
            }
        }
    }

    /// Every array of every step and every number of the states, in each mode of autoreset that goes on by itself, with
    /// and without constraints.
    #[test]
    fn steps_are_those_of_the_layout_of_all_canvases() {
        let rules = ["steps<=5:soft:penalty=-0.5", "grid[0,0]<9:hard"].map(|text| Constraint::parse(text).unwrap());
        for (autoreset, rules) in [
            (Autoreset::SameStep, &[][..]),
            (Autoreset::NextStep, &[]),
            (Autoreset::SameStep, &rules),
            (Autoreset::NextStep, &rules),
        ] {
            for settings in VARIANTS {
                let safety = SafetyConfig { constraints: rules.to_vec(), ..SafetyConfig::default() };
                let config = BatchConfig { autoreset, safety, ..config(21, 1, settings) };
                let mut batches = [crate::arc::solo::batch(&config).unwrap(), plain(&config)];
                let sizes = match &batches[0].spec().action {
                    ActionSpace::Discrete { n } => vec![*n],
                    ActionSpace::MultiDiscrete { sizes } => sizes.clone(),
                    ActionSpace::Box { .. } => panic!("discrete"),
                };
                let dim = batches[0].spec().observation.dim();
                let mut buffers = [(); 2].map(|()| StepBuffers::<i8>::of(21, dim));
                let mut word = random_words(8);
                for _ in 0..60 {
                    let actions: Vec<i32> = (0..21).flat_map(|_| &sizes).map(|n| (word() % n) as i32).collect();
                    for (batch, buffers) in batches.iter_mut().zip(&mut buffers) {
                        batch.step_into(Actions::Discrete(&actions), buffers.out()).unwrap();
                    }
                    assert_eq!(format!("{:?}", buffers[0]), format!("{:?}", buffers[1]), "{settings:?}");
                    for env in 0..21 {
                        assert_eq!(batches[0].state(env).unwrap(), batches[1].state(env).unwrap(), "{settings:?}");
                    }
                }
                // A state goes from one to the other through numbers.
                for env in 0..20 {
                    let numbers = batches[1].state(env).unwrap();
                    batches[0].set_state(env + 1, &numbers).unwrap();
                    assert_eq!(batches[0].state(env + 1).unwrap(), numbers);
                }
            }
        }
    }
}
