//! The environment behind the engine's interface.
//!
//! Actions are flat indices and observations floats, as the interface has them today; the environment
//! itself knows vectors of components and bytes as well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use phalanx_core::batch::{Batch, BatchConfig, build_solo};
use phalanx_core::rng::Draws;
use phalanx_core::solo::{Outcome, SoloAction, SoloEnv};
use phalanx_core::space::{ActionSpace, EnvSpec, ObservationSpace, OptionInfo};
use phalanx_core::{Error, Result};

use super::env::{ArcEnv, Config};
use super::grid::{Canvas, Corner, Selection, Size, bytes, bytes_mut};
use super::options;
use super::sample;
use super::state::{State, words};
use super::task::{Task, TaskPool};

/// The compact canvas: 5 x 5.
pub type Arc5 = ArcEnv<5, 1, { words(5, 1) }>;
/// The canvas of the sample tasks: 10 x 10.
pub type Arc10 = ArcEnv<10, 2, { words(10, 2) }>;
/// The canvas of ARC-AGI: 30 x 30.
pub type Arc30 = ArcEnv<30, 4, { words(30, 4) }>;

/// Sides of the canvases there are.
const CANVASES: &[&str] = &["5", "10", "30"];

/// What comes before the cells in [`SoloEnv::state_values`].
const HEAD_NAMES: [&str; 9] =
    ["height", "width", "pair", "steps", "attempts", "operation", "rejected", "allowed_low", "allowed_high"];

impl<const N: usize, const W: usize, const WORDS: usize> ArcEnv<N, W, WORDS> {
    /// The environment on the built-in tasks, made to fit the canvas.
    pub fn of_samples() -> Result<Self> {
        Self::of_tasks(sample::samples(N).iter().map(|sample| &sample.task))
    }

    /// The environment on tasks that fit the canvas.
    pub fn of_tasks<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Result<Self> {
        Self::new(Arc::new(TaskPool::new(tasks)?), Config::default())
    }
}

/// A batch of `ARC-v0` on the built-in tasks; the setting `canvas` (5, 10 or 30) chooses the size.
pub fn sample_batch(config: &BatchConfig) -> Result<Box<dyn Batch>> {
    match canvas_setting(config) {
        Some("5") => build(Arc5::of_samples()?, config),
        Some("30") => build(Arc30::of_samples()?, config),
        _ => build(Arc10::of_samples()?, config),
    }
}

/// A batch of `ARC-v0` on given tasks, on the smallest canvas that holds them unless `canvas` is set.
pub fn batch_of_tasks(tasks: &[Arc<Task>], config: &BatchConfig) -> Result<Box<dyn Batch>> {
    let largest = tasks.iter().map(|task| task.extent()).fold(0, |side, (h, w)| side.max(h).max(w));
    let fitting = match largest {
        0..=5 => "5",
        6..=10 => "10",
        _ => "30",
    };
    let tasks = tasks.iter().map(|task| &**task);
    match canvas_setting(config).unwrap_or(fitting) {
        "5" => build(Arc5::of_tasks(tasks)?, config),
        "10" => build(Arc10::of_tasks(tasks)?, config),
        _ => build(Arc30::of_tasks(tasks)?, config),
    }
}

/// The engine asks for the step limit before it sets options, and does not tell the environment its own:
/// both are settled here, ahead of it.
fn build<const N: usize, const W: usize, const WORDS: usize>(
    mut env: ArcEnv<N, W, WORDS>,
    config: &BatchConfig,
) -> Result<Box<dyn Batch>> {
    let setting = |name: &str| config.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    env.configure(|config| {
        if let Some(preset) = setting("reward") {
            options::set(config, "reward", preset);
        }
        // What is no step limit is reported by the engine.
        if let Some(steps) = setting("max_steps").and_then(|steps| steps.parse().ok()).filter(|steps| *steps > 0) {
            config.max_steps = steps;
        }
    })?;
    build_solo(env, config)
}

fn canvas_setting(config: &BatchConfig) -> Option<&str> {
    config.settings.iter().find(|(name, _)| name == "canvas").map(|(_, value)| value.as_str())
}

impl<const N: usize, const W: usize, const WORDS: usize> SoloEnv for ArcEnv<N, W, WORDS> {
    type State = State<N, W, WORDS>;

    fn spec(&self) -> EnvSpec {
        let channels = self.config().channels.describe();
        let flat = self.encoding().flat_size().and_then(|n| i32::try_from(n).ok());
        let side = CANVASES.iter().find(|side| side.parse() == Ok(N)).copied().unwrap_or("");
        let canvas = OptionInfo {
            name: "canvas",
            value: side,
            choices: CANVASES,
            description: "rows and columns of the largest grid",
        };
        // The only choice there is: what makes the engine refuse a snapshot of an environment with other tasks.
        let tasks = kept(format!("tasks {:016x}", self.pool().fingerprint), || {
            vec![format!("{}-{:016x}", self.pool().tasks.len(), self.pool().fingerprint)]
        });
        let tasks = OptionInfo {
            name: "tasks",
            value: tasks[0],
            choices: tasks,
            description: "number and hash of the tasks, given when the environment is made",
        };
        let bounds = |of: fn(&(String, i8, i8)) -> i8| {
            (0..N * N).flat_map(|_| channels.iter().map(move |channel| f32::from(of(channel)))).collect()
        };
        EnvSpec {
            name: "ARC-v0",
            description: "edit a grid with 35 operations until it is the answer that the demonstrations suggest",
            observation: ObservationSpace {
                names: observation_names::<N>(channels.iter().map(|(name, ..)| name.as_str())),
                low: bounds(|channel| channel.1),
                high: bounds(|channel| channel.2),
            },
            // Only a mask can be too large, and it is offered only where it is not.
            action: ActionSpace::Discrete { n: flat.unwrap_or(i32::MAX) as u32 },
            state_names: state_names::<N>(),
            params: vec![],
            options: [tasks, canvas].into_iter().chain(options::list(self.config(), N * N <= 25)).collect(),
            max_steps: self.config().max_steps,
            dt: None,
            dt_param: None,
            reward_threshold: None,
        }
    }

    fn set_option(&mut self, name: &str, value: &str) {
        if name == "tasks" {
            // Only the one in force is offered.
            return;
        }
        if name == "canvas" {
            assert_eq!(value.parse(), Ok(N), "the canvas is chosen when the environment is made");
            return;
        }
        let mut known = false;
        let checked = self.configure(|config| known = options::set(config, name, value));
        assert!(known && checked.is_ok(), "no option {name} = {value} in the spec");
    }

    #[inline]
    fn reset(&self, state: &mut Self::State, draws: &mut Draws<f32>) {
        ArcEnv::reset(self, state, draws);
    }

    #[inline]
    fn step(&self, state: &mut Self::State, action: SoloAction<'_>, _: &mut Draws<f32>) -> Outcome {
        let SoloAction::Discrete(index) = action else { panic!("ARC-v0 takes discrete actions, not {action:?}") };
        ArcEnv::step(self, state, &self.encoding().decode_flat(index.into()))
    }

    #[inline]
    fn observe(&self, state: &Self::State, obs: &mut [f32]) {
        ArcEnv::observe(self, state, obs);
    }

    fn state_values(&self, state: &Self::State) -> Vec<f64> {
        let view = state.view();
        let head = view.head;
        let mut values = vec![
            f64::from(head.size.height),
            f64::from(head.size.width),
            f64::from(head.pair),
            f64::from(head.steps),
            f64::from(head.attempts),
            f64::from(head.operation),
            f64::from(head.rejected),
            f64::from(head.allowed_low),
            f64::from(head.allowed_high),
        ];
        for cells in [view.grid, view.clipboard] {
            let rows = bytes(cells).chunks_exact(8 * W);
            values.extend(rows.flat_map(|row| row[..N].iter().map(|cell| f64::from(*cell))));
        }
        values.extend(view.selection.0.iter().map(|row| f64::from(*row)));
        values
    }

    fn set_state_values(&self, state: &mut Self::State, values: &[f64]) -> Result<()> {
        let names = state_names::<N>();
        let whole = |place: usize, low: i64, high: i64| -> Result<i64> {
            let value = values[place];
            if value.fract() == 0.0 && (low as f64..=high as f64).contains(&value) {
                return Ok(value as i64);
            }
            Err(Error::out_of_range(names[place], value, format!("a whole number from {low} to {high}")))
        };
        let side = N as i64;
        let (height, width) = (whole(0, 1, side)? as usize, whole(1, 1, side)? as usize);
        let pair = whole(2, 0, self.pool().pairs.len() as i64 - 1)? as u32;
        let words = u32::MAX.into();
        let (steps, attempts, operation) = (whole(3, 0, words)? as u32, whole(4, 0, 255)? as u8, whole(5, -1, 34)?);
        let (rejected, allowed) = (whole(6, 0, 1)? as u8, (whole(7, 0, words)? as u32, whole(8, 0, 7)? as u32));
        let first_cell = HEAD_NAMES.len();
        let mut grid = Canvas::<N, W>::EMPTY;
        let mut clipboard = Canvas::<N, W>::EMPTY.cells;
        for r in 0..N {
            for c in 0..N {
                let inside = r < height && c < width;
                let (low, high) = if inside { (0, 9) } else { (-1, -1) };
                let place = first_cell + r * N + c;
                bytes_mut(&mut grid.cells)[r * 8 * W + c] = whole(place, low, high)? as i8;
                bytes_mut(&mut clipboard)[r * 8 * W + c] = whole(place + N * N, -1, 9)? as i8;
            }
        }
        grid.size = Size { height: height as u8, width: width as u8 };
        let mut selection = Selection::EMPTY;
        for (r, row) in selection.0.iter_mut().enumerate() {
            *row = whole(first_cell + 2 * N * N + r, 0, (1 << N) - 1)? as u32;
        }
        let copied = Selection::<N>::from_fn(|r, c| bytes(&clipboard)[r * 8 * W + c] >= 0);
        let corner = copied.bounds().map_or(Corner::NONE, |b| Corner { top: b.top as u8, left: b.left as u8 });
        self.begin(state, pair, &grid);
        let view = state.view_mut();
        (*view.clipboard, *view.selection) = (clipboard, selection);
        let head = view.head;
        (head.steps, head.attempts, head.operation, head.rejected) = (steps, attempts, operation as i8, rejected);
        (head.allowed_low, head.allowed_high, head.corner) = (allowed.0, allowed.1, corner);
        Ok(())
    }
}

/// `grid[0,0]`, `input[0,0]`, ..., `grid[0,1]`, ...
fn observation_names<'a, const N: usize>(channels: impl Iterator<Item = &'a str>) -> &'static [&'static str] {
    let channels: Vec<&str> = channels.collect();
    kept(format!("{N} {}", channels.join(" ")), || {
        let cells = (0..N).flat_map(|r| (0..N).map(move |c| (r, c)));
        cells.flat_map(|(r, c)| channels.iter().map(move |channel| format!("{channel}[{r},{c}]"))).collect()
    })
}

fn state_names<const N: usize>() -> &'static [&'static str] {
    kept(format!("state {N}"), || {
        let mut names: Vec<String> = HEAD_NAMES.iter().map(|name| (*name).to_owned()).collect();
        for cells in ["grid", "clipboard"] {
            names.extend((0..N).flat_map(|r| (0..N).map(move |c| format!("{cells}[{r},{c}]"))));
        }
        names.extend((0..N).map(|r| format!("selection[{r}]")));
        names
    })
}

/// Names that live as long as the program: a spec wants static ones, and there are only a few different lists.
fn kept(key: String, make: impl FnOnce() -> Vec<String>) -> &'static [&'static str] {
    static KEPT: Mutex<BTreeMap<String, &'static [&'static str]>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.entry(key).or_insert_with(|| {
        let names: Vec<&'static str> = make().into_iter().map(|name| &*name.leak()).collect();
        names.leak()
    })
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable;
    use phalanx_core::batch::{Actions, Autoreset, StepBuffers};
    use phalanx_core::policy::Policy;
    use phalanx_core::pool::Pool;
    use phalanx_core::rng::{Purpose, Stream};
    use phalanx_core::rollout::Rollout;

    use super::*;
    use crate::arc::testing::random_words;

    fn config(threads: usize, settings: &[(&str, &str)]) -> BatchConfig {
        BatchConfig {
            num_envs: 150,
            seed: 5,
            autoreset: Autoreset::SameStep,
            pool: Arc::new(Pool::new(threads)),
            settings: settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            ..BatchConfig::default()
        }
    }

    /// Every canvas, and each option away from its default at least once.
    const VARIANTS: [&[(&str, &str)]; 6] = [
        &[("canvas", "5")],
        &[("canvas", "5"), ("action", "mask"), ("mode", "test"), ("start", "mixed"), ("attempts", "3")],
        &[],
        &[("operations", "raw"), ("filter_actions", "on"), ("action", "point"), ("one_hot", "on"), ("context", "2")],
        &[("operations", "standard"), ("invalid_operation", "penalize"), ("show_target", "on"), ("show_steps", "on")],
        &[("canvas", "30"), ("reward", "training"), ("show_selection", "on"), ("show_clipboard", "on")],
    ];

    #[test]
    fn threads_and_chunks_do_not_matter() {
        for settings in VARIANTS {
            let run = |threads, chunk| {
                let mut batch = sample_batch(&config(threads, settings)).unwrap();
                let policy = Policy::parse("random", &[], batch.spec()).unwrap();
                let mut rollout = Rollout::new(policy, batch.as_ref());
                rollout.run(batch.as_mut(), 200, chunk, |_| true).unwrap();
                (rollout.checksum(), *rollout.stats())
            };
            let reference = run(1, 200);
            assert!(reference.1.episodes() > 150);
            assert_eq!(run(2, 7), reference, "{settings:?}");
            assert_eq!(run(3, 1), reference, "{settings:?}");
        }
    }

    #[test]
    fn a_snapshot_goes_on_to_the_same_bits() {
        for settings in VARIANTS {
            let mut batch = sample_batch(&config(1, settings)).unwrap();
            let mut buffers = StepBuffers::new(150, batch.spec().observation.dim());
            let mut word = random_words(3);
            let ActionSpace::Discrete { n } = batch.spec().action else { panic!("discrete") };
            let actions: Vec<Vec<i32>> = (0..80).map(|_| (0..150).map(|_| (word() % n) as i32).collect()).collect();
            let mut run = |batch: &mut dyn Batch, actions: &[Vec<i32>]| {
                actions.iter().for_each(|a| batch.step_into(Actions::Discrete(a), buffers.out()).unwrap());
                buffers.obs.clone()
            };
            run(batch.as_mut(), &actions[..40]);
            let snapshot = batch.snapshot();
            let straight = run(batch.as_mut(), &actions[40..]);
            let mut other = sample_batch(&config(2, settings)).unwrap();
            other.restore(&snapshot).unwrap();
            assert!(run(other.as_mut(), &actions[40..]) == straight, "{settings:?}");
            assert!(other.snapshot() == batch.snapshot());
        }
    }

    #[test]
    fn a_snapshot_of_other_tasks_is_refused() {
        let tasks = |limit| sample::samples(limit).into_iter().map(|s| Arc::new(s.task)).collect::<Vec<_>>();
        let one = batch_of_tasks(&tasks(9), &config(1, &[])).unwrap();
        let mut other = batch_of_tasks(&tasks(10), &config(1, &[])).unwrap();
        let error = other.restore(&one.snapshot()).unwrap_err().to_string();
        assert!(error.contains("tasks"), "{error}");
    }

    fn states_survive_the_way_through_numbers<const N: usize, const W: usize, const WORDS: usize>() {
        let env = ArcEnv::<N, W, WORDS>::of_samples().unwrap();
        let mut word = random_words(9);
        let mut state = State::zeroed();
        SoloEnv::reset(&env, &mut state, &mut Stream::<f32>::of_seed(1, 0).draws(Purpose::Reset, 0, 0));
        let n = env.encoding().flat_size().unwrap();
        for _ in 0..300 {
            ArcEnv::step(&env, &mut state, &env.encoding().decode_flat(u64::from(word()) % n));
            let values = env.state_values(&state);
            assert_eq!(values.len(), env.spec().state_names.len());
            let mut copy = State::zeroed();
            env.set_state_values(&mut copy, &values).unwrap();
            assert!(copy == state, "{:?} {:?}", copy.view(), state.view());
            state.view_mut().head.attempts = 0;
        }
        let mut values = env.state_values(&state);
        values[HEAD_NAMES.len()] = 10.0;
        let message = env.set_state_values(&mut state, &values).unwrap_err().to_string();
        assert_eq!(message, "grid[0,0] is 10, but must be a whole number from 0 to 9");
    }

    #[test]
    fn a_state_can_be_read_and_set() {
        states_survive_the_way_through_numbers::<5, 1, { words(5, 1) }>();
        states_survive_the_way_through_numbers::<10, 2, { words(10, 2) }>();
        states_survive_the_way_through_numbers::<30, 4, { words(30, 4) }>();
    }

    #[test]
    fn the_spec_describes_what_is_chosen() {
        let spec = |settings: &[(&str, &str)]| sample_batch(&config(1, settings)).unwrap().spec().clone();
        let plain = spec(&[]);
        assert_eq!(plain.action, ActionSpace::Discrete { n: 350_000 });
        assert_eq!((plain.observation.dim(), plain.max_steps), (100, 100));
        assert_eq!(plain.observation.names[12], "grid[1,2]");
        assert_eq!((plain.observation.low[0], plain.observation.high[0]), (-1.0, 9.0));
        let small = spec(&[("canvas", "5"), ("action", "mask")]);
        assert_eq!(small.action, ActionSpace::Discrete { n: 35 << 25 });
        let large = spec(&[("canvas", "30"), ("reward", "evaluation"), ("context", "3"), ("show_input", "on")]);
        assert_eq!(large.action, ActionSpace::Discrete { n: 28_350_000 });
        assert_eq!((large.observation.dim(), large.max_steps), (900 * 8, 150));
        assert_eq!(large.observation.names[8 + 1], "input[0,1]");
        assert_eq!(spec(&[("reward", "training"), ("max_steps", "7")]).max_steps, 7);
        assert!(sample_batch(&config(1, &[("canvas", "7")])).is_err());
        assert!(sample_batch(&config(1, &[("action", "mask")])).is_err(), "100 bits do not fit an action");
    }

    #[test]
    fn tasks_get_the_smallest_canvas_that_holds_them() {
        for (limit, n) in [(5, 21_875), (7, 350_000), (12, 28_350_000)] {
            let tasks: Vec<Arc<Task>> = sample::samples(limit).into_iter().map(|s| Arc::new(s.task)).collect();
            let batch = batch_of_tasks(&tasks, &config(1, &[])).unwrap();
            assert_eq!(batch.spec().action, ActionSpace::Discrete { n }, "{limit}");
        }
        let tasks: Vec<Arc<Task>> = sample::samples(7).into_iter().map(|s| Arc::new(s.task)).collect();
        let message = batch_of_tasks(&tasks, &config(1, &[("canvas", "5")])).err().unwrap().to_string();
        assert!(message.contains("but must be at most 5x5, the size of the canvas"), "{message}");
    }
}
