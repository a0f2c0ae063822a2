//! `ARC-v0` behind the engine's interface: settings in, an environment on the right canvas out.
//!
//! The canvas is a constant of the type, so what decides it is looked at before the environment is made: the
//! settings `tasks` (a folder; without one the built-in tasks), `dataset`, `select` and `canvas`.

mod compact;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use phalanx_core::batch::{Batch, BatchConfig, build_solo};
use phalanx_core::probe::{Probe, probe_solo};
use phalanx_core::rng::Draws;
use phalanx_core::solo::{Outcome, SoloAction, SoloEnv};
use phalanx_core::space::{ActionMask, ActionSpace, Element, EnvSpec, ObservationSpace, OptionInfo};
use phalanx_core::{Error, Result};

pub use compact::ArcCompact;

use super::action::{Action, OperationSet};
use super::env::{ArcEnv, Config};
use super::grid::{Canvas, Corner, Selection, Size, bytes, bytes_mut};
use super::options;
use super::reader::{self, Dataset, Library, Loaded};
use super::reward::Mode;
use super::sample;
use super::state::{Head, State, words};
use super::task::{Task, TaskPool};

/// The canvas of the sample tasks: 10 x 10.
pub type Arc10 = ArcSolo<10, 2, { words(10, 2) }>;
/// The canvas of ARC-AGI: 30 x 30.
pub type Arc30 = ArcSolo<30, 4, { words(30, 4) }>;

/// Sides of the canvases there are, and the smallest one that holds the tasks.
const CANVASES: &[&str] = &["auto", "5", "10", "30"];

/// What comes before the cells in [`SoloEnv::state_value`].
const HEAD_NAMES: [&str; 9] =
    ["height", "width", "pair", "steps", "attempts", "operation", "rejected", "allowed_low", "allowed_high"];

/// The most malformed files that are named; the rest are counted.
const NAMED_PROBLEMS: usize = 5;

/// An environment with what the engine wants to know of it.
#[derive(Clone, Debug)]
pub struct ArcSolo<const N: usize, const W: usize, const WORDS: usize> {
    env: ArcEnv<N, W, WORDS>,
    source: Source,
    /// Actions as one index.
    flat: bool,
}

/// Where the tasks come from, in a user's words.
#[derive(Clone, Debug)]
struct Source {
    tasks: String,
    dataset: &'static str,
    select: String,
    canvas: &'static str,
    notes: Vec<String>,
}

/// Something to do with an environment on any canvas.
trait Use {
    type Output;
    fn with<E: SoloEnv>(self, env: E) -> Result<Self::Output>;
}

/// What `ARC-v0` looks like without any settings.
pub fn spec() -> EnvSpec {
    struct Spec;
    impl Use for Spec {
        type Output = EnvSpec;
        fn with<E: SoloEnv>(self, env: E) -> Result<EnvSpec> {
            Ok(env.spec())
        }
    }
    set_up(&BatchConfig::default(), Spec).expect("the built-in tasks are sound")
}

/// A batch of `ARC-v0`.
pub fn batch(config: &BatchConfig) -> Result<Box<dyn Batch>> {
    struct Build<'a>(&'a BatchConfig);
    impl Use for Build<'_> {
        type Output = Box<dyn Batch>;
        fn with<E: SoloEnv>(self, env: E) -> Result<Box<dyn Batch>> {
            build_solo(env, self.0)
        }
    }
    set_up(config, Build(config))
}

/// One `ARC-v0` under the microscope.
pub fn probe(config: &BatchConfig) -> Result<Box<dyn Probe>> {
    struct Look<'a>(&'a BatchConfig);
    impl Use for Look<'_> {
        type Output = Box<dyn Probe>;
        fn with<E: SoloEnv>(self, env: E) -> Result<Box<dyn Probe>> {
            probe_solo(env, self.0)
        }
    }
    set_up(config, Look(config))
}

/// The tasks that settings choose, the mode that goes with them, and the files that could not be read.
pub fn tasks(config: &BatchConfig) -> Result<(Loaded, Mode)> {
    let setting = |name| setting(config, name);
    let (dataset, selector) = dataset(config)?;
    let library = match setting("tasks") {
        Some(folder) if dataset == Dataset::Sample => {
            let what = format!("the data set of the folder {folder}");
            return Err(Error::out_of_range(what, "sample", "one that is read: AGI1, AGI2, Concept, Mini or Dir"));
        }
        Some(folder) => Library::open(dataset, Path::new(folder)).map_err(|error| match error {
            reader::Error::NoTasks { .. } if !Path::new(folder).exists() => Error::NotFound(error.to_string()),
            _ => Error::Setup(error.to_string()),
        })?,
        None if !matches!(dataset, Dataset::Dir | Dataset::Sample) => {
            let what = format!("the folder of data set {} (setting tasks)", dataset.name());
            return Err(Error::out_of_range(what, "missing", "given"));
        }
        // The built-in tasks are made to measure.
        None => {
            let side = setting("canvas").filter(|side| CANVASES.contains(side)).and_then(|side| side.parse().ok());
            Library::samples_up_to(side.unwrap_or(sample::LIMIT))
        }
    };
    let mode = match setting("mode") {
        Some("test") => Some(Mode::Test),
        Some(_) => Some(Mode::Train),
        None => None,
    };
    let chosen = library.select(selector, mode).map_err(|error| Error::Setup(error.to_string()))?;
    let loaded = library.load(&chosen.tasks);
    if loaded.tasks.is_empty() {
        let first = loaded.problems.first().map(|problem| format!(": {problem}")).unwrap_or_default();
        return Err(Error::Setup(format!("none of the {} tasks can be used{first}", chosen.tasks.len())));
    }
    Ok((loaded, chosen.mode))
}

fn setting<'a>(config: &'a BatchConfig, name: &str) -> Option<&'a str> {
    config.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The data set and which of its tasks are wanted; nothing stands for all.
fn dataset(config: &BatchConfig) -> Result<(Dataset, &str)> {
    let (dataset, of_dataset) = match setting(config, "dataset") {
        Some(name) => Dataset::parse(name).map_err(|error| Error::Setup(error.to_string()))?,
        None => (Dataset::Dir, ""),
    };
    Ok((dataset, setting(config, "select").unwrap_or(of_dataset)))
}

/// Makes the environment that the settings describe and does something with it.
fn set_up<U: Use>(config: &BatchConfig, with: U) -> Result<U::Output> {
    let (Loaded { tasks, problems, notes }, mode) = tasks(config)?;
    let (dataset, selector) = dataset(config)?;
    let largest = tasks.iter().map(|task| task.extent()).fold(0, |side, (h, w)| side.max(h).max(w));
    let fitting = match largest {
        0..=5 => "5",
        6..=10 => "10",
        _ => "30",
    };
    let canvas = CANVASES.iter().find(|side| setting(config, "canvas") == Some(side)).copied().unwrap_or("auto");
    let mut notes: Vec<String> = notes.iter().filter(|note| note.is_warning(mode)).map(ToString::to_string).collect();
    notes.extend(problems.iter().take(NAMED_PROBLEMS).map(|problem| format!("passed over {problem}")));
    if problems.len() > NAMED_PROBLEMS {
        notes.push(format!("passed over {} more task files", problems.len() - NAMED_PROBLEMS));
    }
    let source = Source {
        tasks: setting(config, "tasks").unwrap_or("built-in").to_owned(),
        dataset: dataset.name(),
        select: if selector.is_empty() { "all" } else { selector }.to_owned(),
        canvas,
        notes,
    };
    match if canvas == "auto" { fitting } else { canvas } {
        "5" => with.with(ArcCompact::new(ArcSolo::new(&tasks, source, mode, config)?)),
        "10" => with.with(Arc10::new(&tasks, source, mode, config)?),
        _ => with.with(Arc30::new(&tasks, source, mode, config)?),
    }
}

impl<const N: usize, const W: usize, const WORDS: usize> ArcSolo<N, W, WORDS> {
    fn new(tasks: &[Arc<Task>], mut source: Source, mode: Mode, config: &BatchConfig) -> Result<Self> {
        let pool = Arc::new(TaskPool::new(tasks.iter().map(|task| &**task))?);
        let mut own = Config { mode, ..Config::default() };
        options::set_reward(&mut own, |name| setting(config, name))?;
        // The environment shows how much of the limit is used up, so it must know the engine's. What is no step
        // limit is reported by the engine.
        let steps = setting(config, "max_steps").and_then(|steps| steps.parse().ok());
        own.max_steps = steps.filter(|steps| *steps > 0).unwrap_or(own.max_steps);
        let env = ArcEnv::new(pool, own)?;
        source.notes.extend(env.config().reward.warning(env.config().max_steps));
        Ok(Self { env, source, flat: false })
    }

    fn observation(&self) -> ObservationSpace {
        let channels = self.env.config().channels.describe();
        let bounds = |of: fn(&(String, i8, i8)) -> i8| {
            (0..N * N).flat_map(|_| channels.iter().map(move |channel| f32::from(of(channel)))).collect()
        };
        ObservationSpace {
            names: &[],
            low: bounds(|channel| channel.1),
            high: bounds(|channel| channel.2),
            shape: vec![N, N, channels.len()],
            element: Element::I8,
        }
    }

    /// Choices of the first component for each operation: as many as selections if actions are flat.
    fn per_operation(&self) -> u32 {
        // It fits: `prepare` has refused flat actions beyond 2^31.
        if self.flat { self.env.encoding().selections().unwrap_or(1) as u32 } else { 1 }
    }

    /// Number of flat actions, if they fit an action.
    fn flat_size(&self) -> Option<u32> {
        let size = self.env.encoding().flat_size()?;
        i32::try_from(size).ok().map(|size| size as u32)
    }

    /// What an action of the engine means.
    #[inline(always)]
    fn decode(&self, action: SoloAction<'_>) -> Action<N> {
        match action {
            SoloAction::Discrete(index) => self.env.encoding().decode_flat(index.into()),
            SoloAction::Multi(components) => self.env.encoding().decode(components),
            SoloAction::Continuous(_) => unreachable!("checked at the door"),
        }
    }

    /// [`SoloEnv::scores`] by what they depend on.
    fn scores_of(&self, head: &Head) -> Option<[f32; 2]> {
        let has_target = self.env.pool().pairs[head.pair as usize].has_target;
        has_target.then(|| [f32::from(head.solved), head.similarity])
    }

    /// [`SoloEnv::is_legal`] by what it depends on.
    fn is_legal_at(&self, head: &Head, k: usize, choice: u32) -> bool {
        let operations = self.env.encoding().operations();
        k > 0 || self.env.allowed(head).contains(operations[(choice / self.per_operation()) as usize])
    }

    /// [`SoloEnv::choose_legal`] by what it depends on.
    fn choose_legal_at(&self, head: &Head, k: usize, n: u32, below: &dyn Fn(u32) -> u32) -> u32 {
        if k > 0 {
            return below(n);
        }
        // By operation, because there can be millions of flat actions.
        let (allowed, each) = (self.env.allowed(head), self.per_operation());
        let operations = self.env.encoding().operations();
        let legal = || (0..).zip(operations).filter(|(_, op)| allowed.contains(**op)).map(|(place, _)| place);
        match legal().count() as u32 {
            0 => 0,
            count => {
                let rank = below(count * each);
                let place: u32 = legal().nth((rank / each) as usize).expect("a rank below their number");
                place * each + rank % each
            }
        }
    }
}

impl<const N: usize, const W: usize, const WORDS: usize> SoloEnv for ArcSolo<N, W, WORDS> {
    type State = State<N, W, WORDS>;
    type Elem = i8;

    fn spec(&self) -> EnvSpec {
        let action = match self.flat_size() {
            Some(n) if self.flat => ActionSpace::Discrete { n },
            _ => ActionSpace::MultiDiscrete { sizes: self.env.encoding().sizes() },
        };
        let Source { tasks, dataset, select, canvas, notes } = &self.source;
        // A filtered space has nothing to forbid; else `invalid_operation` says what becomes of a forbidden one.
        let config = self.env.config();
        let restricted = config.operations != OperationSet::FULL && !config.dynamic_action_filtering;
        let pool = self.env.pool();
        // The hash makes the engine refuse a snapshot of an environment with other tasks.
        let tasks = format!("{tasks} ({} tasks, {:016x})", pool.tasks.len(), pool.fingerprint);
        let source = [
            OptionInfo::text("tasks", tasks, "folder with tasks in any of the known layouts"),
            OptionInfo::text(
                "dataset",
                *dataset,
                "what the folder must hold: AGI1, AGI2, Concept, Mini, or Dir for any",
            ),
            OptionInfo::text("select", select.clone(), "all, train, eval, a concept group or a task"),
            OptionInfo::choice("canvas", canvas, CANVASES, "rows and columns of the largest grid"),
            OptionInfo::choice(
                "flat",
                if self.flat { "on" } else { "off" },
                &["off", "on"],
                "actions as one index instead of a vector",
            ),
        ];
        EnvSpec {
            state_names: state_names::<N>(),
            options: source.into_iter().chain(options::list(self.env.config())).collect(),
            scores: &["solved", "similarity"],
            action_mask: if restricted { ActionMask::Advisory } else { ActionMask::None },
            notes: notes.clone(),
            ..EnvSpec::new(
                "ARC-v0",
                "edit a grid with 35 operations until it is the answer that the demonstrations suggest",
                self.observation(),
                action,
                self.env.config().max_steps,
            )
        }
    }

    fn set_option(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            // Settled when the environment was made.
            "tasks" | "dataset" | "select" | "canvas" => {}
            _ if options::is_of_reward(name) => {}
            "flat" => self.flat = value == "on",
            _ => {
                let mut known = false;
                self.env.configure(|config| known = options::set(config, name, value))?;
                assert!(known, "no option {name} = {value} in the spec");
            }
        }
        Ok(())
    }

    fn prepare(&mut self) -> Result<()> {
        if self.flat && self.flat_size().is_none() {
            let what = format!("the number of flat mask actions on a canvas of {N}x{N}");
            return Err(Error::out_of_range(what, "too large", "below 2^31: use flat=off or a smaller canvas"));
        }
        Ok(())
    }

    #[inline]
    fn reset(&self, state: &mut Self::State, draws: &mut Draws<f32>) {
        self.env.reset(state, draws);
    }

    #[inline]
    fn step(&self, state: &mut Self::State, action: SoloAction<'_>, _: &mut Draws<f32>) -> Outcome {
        self.env.step(state, &self.decode(action))
    }

    #[inline]
    fn observe(&self, state: &Self::State, obs: &mut [i8]) {
        self.env.observe(state, obs);
    }

    fn scores(&self, state: &Self::State) -> Option<[f32; 2]> {
        self.scores_of(state.view().head)
    }

    fn is_legal(&self, state: &Self::State, k: usize, choice: u32) -> bool {
        self.is_legal_at(state.view().head, k, choice)
    }

    fn choose_legal(&self, state: &Self::State, k: usize, n: u32, below: &dyn Fn(u32) -> u32) -> u32 {
        self.choose_legal_at(state.view().head, k, n, below)
    }

    fn state_value(&self, state: &Self::State, field: usize) -> f64 {
        let view = state.view();
        let head = view.head;
        let of_head = [
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
        let Some(place) = field.checked_sub(of_head.len()) else { return of_head[field] };
        let cell = |cells| f64::from(bytes(cells)[place % (N * N) / N * 8 * W + place % N]);
        match place / (N * N) {
            0 => cell(view.grid),
            1 => cell(view.clipboard),
            _ => f64::from(view.selection.0[place - 2 * N * N]),
        }
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
        let pair = whole(2, 0, self.env.pool().pairs.len() as i64 - 1)? as u32;
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
        self.env.begin(state, pair, &grid);
        let view = state.view_mut();
        (*view.clipboard, *view.selection) = (clipboard, selection);
        let head = view.head;
        (head.steps, head.attempts, head.operation, head.rejected) = (steps, attempts, operation as i8, rejected);
        (head.allowed_low, head.allowed_high, head.corner) = (allowed.0, allowed.1, corner);
        Ok(())
    }
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
    const VARIANTS: [&[(&str, &str)]; 8] = [
        &[("canvas", "30"), ("flat", "on"), ("operations", "raw"), ("invalid_operation", "reject")],
        &[("canvas", "5")],
        &[("canvas", "5"), ("flat", "on"), ("action", "mask"), ("mode", "test"), ("start", "mixed"), ("attempts", "3")],
        &[("canvas", "5"), ("action", "mask")],
        &[],
        &[("operations", "raw"), ("filter_actions", "on"), ("action", "point"), ("one_hot", "on"), ("context", "2")],
        &[("operations", "standard"), ("invalid_operation", "penalize"), ("show_target", "on"), ("show_steps", "on")],
        &[("canvas", "30"), ("flat", "on"), ("reward", "training"), ("show_selection", "on"), ("show_clipboard", "on")],
    ];

    #[test]
    fn threads_and_chunks_do_not_matter() {
        for settings in VARIANTS {
            let run = |threads, chunk| {
                let mut batch = batch(&config(threads, settings)).unwrap();
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
            let mut batch = super::batch(&config(1, settings)).unwrap();
            let mut buffers = StepBuffers::<i8>::of(150, batch.spec().observation.dim());
            let mut word = random_words(3);
            let sizes = match &batch.spec().action {
                ActionSpace::Discrete { n } => vec![*n],
                ActionSpace::MultiDiscrete { sizes } => sizes.clone(),
                ActionSpace::Box { .. } => panic!("discrete"),
            };
            let mut row = || sizes.iter().map(|n| (word() % n) as i32).collect::<Vec<_>>();
            let actions: Vec<Vec<i32>> = (0..80).map(|_| (0..150).flat_map(|_| row()).collect()).collect();
            let mut run = |batch: &mut dyn Batch, actions: &[Vec<i32>]| {
                actions.iter().for_each(|a| batch.step_into(Actions::Discrete(a), buffers.out()).unwrap());
                buffers.obs.clone()
            };
            run(batch.as_mut(), &actions[..40]);
            let snapshot = batch.snapshot();
            let straight = run(batch.as_mut(), &actions[40..]);
            let mut other = super::batch(&config(2, settings)).unwrap();
            other.restore(&snapshot).unwrap();
            assert!(run(other.as_mut(), &actions[40..]) == straight, "{settings:?}");
            assert!(other.snapshot() == batch.snapshot());
        }
    }

    /// Single weights stand beside a preset, whichever is given first.
    #[test]
    fn weights_of_the_reward_can_be_set() {
        let reward = |settings: &[(&str, &str)]| {
            let mut probe = probe(&config(1, settings))?;
            let submit = [34.0, 0.0, 0.0, 0.0, 0.0];
            Ok::<_, Error>((probe.spec().max_steps, probe.step(&submit)?.reward as f32))
        };
        assert_eq!(reward(&[]).unwrap(), (100, -0.01));
        let weight = ("unsolved_submission_penalty", "-3");
        assert_eq!(reward(&[weight]).unwrap(), (100, -3.01));
        for settings in [[weight, ("reward", "training")], [("reward", "training"), weight]] {
            assert_eq!(reward(&settings).unwrap(), (150, -3.005));
            let spec = batch(&config(1, &settings)).unwrap().spec().clone();
            assert!(spec.options.iter().any(|option| option.name == "reward" && option.value == "training"));
        }
        assert_eq!(reward(&[("reward", "training"), ("max_steps", "7")]).unwrap().0, 7);
        let refusal = |value| reward(&[("step_penalty", value)]).unwrap_err().to_string();
        assert_eq!(refusal("2"), "step_penalty is 2, but must be from -10 to 1");
        assert_eq!(refusal("much"), "step_penalty is much, but must be a number from -10 to 1");
        assert_eq!(refusal("NaN"), "step_penalty is NaN, but must be from -10 to 1");
    }

    /// Episodes that a script solves score full marks; those without an answer are not scored at all.
    #[test]
    fn a_batch_scores_what_can_be_scored() {
        let one = |settings| BatchConfig { num_envs: 1, ..config(1, settings) };
        let mut batch = super::batch(&one(&[("action", "mask")])).unwrap();
        let scripts: Vec<_> = sample::samples(sample::LIMIT).into_iter().flat_map(|sample| sample.scripts).collect();
        let mut buffers = StepBuffers::<i8>::of(1, batch.spec().observation.dim());
        for _ in 0..30 {
            for step in &scripts[batch.state(0).unwrap()[2] as usize] {
                let mut action = vec![0; 1 + 100];
                action[0] = step.op.into();
                step.cells.iter().for_each(|(r, c)| action[1 + r * 10 + c] = 1);
                batch.step_into(Actions::Discrete(&action), buffers.out()).unwrap();
            }
            assert!(buffers.terminated[0]);
        }
        let stats = batch.stats();
        assert_eq!((stats.episodes(), stats.scored(), stats.scores()), (30, 30, Some([1.0, 1.0])));

        let folder = tempfile::tempdir().unwrap();
        let open = r#"{"train": [{"input": [[1, 2]], "output": [[2, 1]]}], "test": [{"input": [[3, 4]]}]}"#;
        std::fs::write(folder.path().join("open.json"), open).unwrap();
        let settings = [("tasks", folder.path().to_str().unwrap()), ("mode", "test")];
        let mut batch = super::batch(&config(1, &settings)).unwrap();
        assert_eq!(batch.spec().notes, ["1 of 1 tasks have test pairs without an output, which are not scored"]);
        let policy = Policy::parse("random", &[], batch.spec()).unwrap();
        let mut rollout = Rollout::new(policy, batch.as_ref());
        rollout.run(batch.as_mut(), 100, 10, |_| true).unwrap();
        let stats = rollout.stats();
        assert!(stats.episodes() >= 150 && stats.scored() == 0 && stats.scores().is_none(), "{stats:?}");
    }

    /// Whatever the format, masks have a flag for each choice, and random actions are legal: none is rejected.
    #[test]
    fn masks_of_restricted_operations() {
        for (format, flags) in [("bbox", 35 + 4 * 5), ("point", 35 + 2 * 5), ("mask", 35 + 2 * 25)] {
            let settings =
                [("canvas", "5"), ("action", format), ("operations", "raw"), ("invalid_operation", "reject")];
            let batch = batch(&config(1, &settings)).unwrap();
            assert_eq!((batch.spec().action_mask, batch.spec().action.mask_len()), (ActionMask::Advisory, Some(flags)));
            let mut masks = vec![false; 150 * flags];
            batch.action_masks_into(&mut masks).unwrap();
            for mask in masks.chunks_exact(flags) {
                assert!((0..35).all(|op| mask[op] == OperationSet::RAW.contains(op as u8)));
                assert!(mask[35..].iter().all(|legal| *legal));
            }
            assert!(batch.action_masks_into(&mut masks[1..]).is_err());
            for flat in ["off", "on"] {
                let settings: Vec<_> = settings.into_iter().chain([("flat", flat), ("max_steps", "7")]).collect();
                let mut batch = super::batch(&config(1, &settings)).unwrap();
                let mut probe = probe(&config(1, &settings)).unwrap();
                let policy = Policy::parse("random", &[], batch.spec()).unwrap();
                let mut rollout = Rollout::new(policy.clone(), batch.as_ref());
                let (rejected, mut seen) = (HEAD_NAMES.iter().position(|name| *name == "rejected").unwrap(), 0_u64);
                for tick in 0..60 {
                    let action = probe.decide(&policy, tick, &mut Default::default()).unwrap();
                    let step = probe.step(&action).unwrap();
                    if step.terminated || step.truncated {
                        probe.next_episode();
                    }
                    batch.advance(&mut rollout, 1).unwrap();
                    assert_eq!(batch.state(0).unwrap(), probe.state(), "{format}, flat {flat}");
                    for state in (0..150).map(|env| batch.state(env).unwrap()).filter(|state| state[5] >= 0.0) {
                        assert_eq!(state[rejected], 0.0, "{format}, flat {flat}");
                        seen |= 1 << state[5] as u32;
                    }
                }
                // A submission ends the episode, so its state is not seen.
                assert_eq!(seen | 1 << 34, OperationSet::RAW.0, "{format}, flat {flat}");
            }
        }
        let flat = batch(&config(1, &[("operations", "raw"), ("action", "point"), ("flat", "on")])).unwrap();
        let mut masks = vec![false; 150 * 3_500];
        flat.action_masks_into(&mut masks).unwrap();
        assert!((0..3_500).all(|index| masks[index] == OperationSet::RAW.contains((index / 100) as u8)));
        let filtered = batch(&config(1, &[("operations", "raw"), ("filter_actions", "on")])).unwrap();
        assert_eq!(filtered.spec().action_mask, ActionMask::None);
    }

    #[test]
    fn a_snapshot_of_other_tasks_is_refused() {
        let one = batch(&config(1, &[("canvas", "10")])).unwrap();
        let ids = sample::samples(10).into_iter().map(|s| s.task.id).collect::<Vec<_>>();
        let mut other = batch(&config(1, &[("canvas", "10"), ("select", &ids[0])])).unwrap();
        let error = other.restore(&one.snapshot()).unwrap_err().to_string();
        assert!(error.contains("tasks"), "{error}");
    }

    fn states_survive_the_way_through_numbers<const N: usize, const W: usize, const WORDS: usize>() {
        let tasks: Vec<_> = sample::samples(N).into_iter().map(|sample| Arc::new(sample.task)).collect();
        let source =
            Source { tasks: String::new(), dataset: "dir", select: String::new(), canvas: "auto", notes: vec![] };
        let solo = ArcSolo::<N, W, WORDS>::new(&tasks, source, Mode::Train, &BatchConfig::default()).unwrap();
        let mut word = random_words(9);
        let mut state = State::zeroed();
        let fields = solo.spec().state_names.len();
        let numbers =
            |state: &State<N, W, WORDS>| (0..fields).map(|field| solo.state_value(state, field)).collect::<Vec<_>>();
        solo.reset(&mut state, &mut Stream::<f32>::of_seed(1, 0).draws(Purpose::Reset, 0, 0));
        let n = solo.env.encoding().flat_size().unwrap();
        for _ in 0..300 {
            solo.env.step(&mut state, &solo.env.encoding().decode_flat(u64::from(word()) % n));
            let values = numbers(&state);
            let mut copy = State::zeroed();
            solo.set_state_values(&mut copy, &values).unwrap();
            assert!(copy == state, "{:?} {:?}", copy.view(), state.view());
            state.view_mut().head.attempts = 0;
        }
        let mut values = numbers(&state);
        values[HEAD_NAMES.len()] = 10.0;
        let message = solo.set_state_values(&mut state, &values).unwrap_err().to_string();
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
        let spec = |settings: &[(&str, &str)]| batch(&config(1, settings)).unwrap().spec().clone();
        let plain = spec(&[]);
        assert_eq!(plain.action, ActionSpace::MultiDiscrete { sizes: vec![35, 10, 10, 10, 10] });
        assert_eq!((plain.observation.shape.as_slice(), plain.max_steps), (&[10, 10, 1][..], 100));
        assert_eq!((plain.observation.low[0], plain.observation.high[0]), (-1.0, 9.0));
        let small = spec(&[("canvas", "5"), ("action", "mask"), ("flat", "on")]);
        assert_eq!(small.action, ActionSpace::Discrete { n: 35 << 25 });
        let large = spec(&[("canvas", "30"), ("reward", "evaluation"), ("context", "3"), ("flat", "on")]);
        assert_eq!(large.action, ActionSpace::Discrete { n: 28_350_000 });
        assert_eq!((large.observation.dim(), large.max_steps), (900 * 7, 150));
        assert_eq!(spec(&[("reward", "training"), ("max_steps", "7")]).max_steps, 7);
        // A limit that somebody else keeps is shown all the same: 3 of 4 steps are 75 percent.
        let untimed = BatchConfig { time_limit: false, ..config(1, &[("show_steps", "on"), ("max_steps", "4")]) };
        let mut probe = probe(&BatchConfig { num_envs: 1, ..untimed }).unwrap();
        assert_eq!(probe.spec().max_steps, EnvSpec::NO_LIMIT);
        let shown = (0..6).map(|_| {
            assert!(!probe.step(&[0.0; 5]).unwrap().truncated);
            *probe.observation().last().unwrap()
        });
        assert_eq!(shown.collect::<Vec<_>>(), [25.0, 50.0, 75.0, 100.0, 100.0, 100.0]);
        for (wrong, part) in [
            (&[("canvas", "7")][..], "canvas"),
            (&[("canvas", "0")], "canvas"),
            (&[("canvas", "31")], "canvas"),
            (&[("action", "mask"), ("flat", "on")], "flat mask actions"),
            (&[("select", "01-miror")], "did you mean '01-mirror'"),
            (&[("tasks", "folder"), ("dataset", "sample")], "the data set of the folder folder is sample"),
            (&[("tasks", "/nowhere")], "does not exist"),
            (&[("dataset", "AGI9")], "unknown data set"),
            (&[("dataset", "AGI1")], "missing"),
        ] {
            let message = batch(&config(1, wrong)).err().unwrap().to_string();
            assert!(message.contains(part), "{wrong:?}: {message}");
        }
    }

    /// A folder with a malformed file: the rest loads, and a note says what is wrong where.
    #[test]
    fn a_folder_of_tasks() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let good = r#"{"train": [{"input": [[1, 2]], "output": [[2, 1]]}], "test": [{"input": [[3, 4]]}]}"#;
        write("good.json", good);
        write("wide.json", &good.replace("[[3, 4]]", "[[0, 1, 2, 3, 4, 5, 6]]"));
        write("bad.json", &good.replace("[[2, 1]]", "[[2, 10]]"));
        let path = folder.path().to_str().unwrap();
        let batch = super::batch(&config(1, &[("tasks", path)])).unwrap();
        assert_eq!(batch.spec().observation.shape, [10, 10, 1]);
        let notes = &batch.spec().notes;
        assert!(notes.len() == 1 && notes[0].contains("bad.json"), "{notes:?}");
        assert!(notes[0].contains("train pair 0, output, row 0, column 1: colour 10"), "{notes:?}");
        let one = super::batch(&config(1, &[("tasks", path), ("select", "good")])).unwrap();
        assert_eq!(one.spec().observation.shape, [5, 5, 1], "the smallest canvas that holds it");
        let error = super::batch(&config(1, &[("tasks", path), ("canvas", "5")])).err().unwrap().to_string();
        assert!(error.contains("but must be at most 5x5, the size of the canvas"), "{error}");
    }
}
