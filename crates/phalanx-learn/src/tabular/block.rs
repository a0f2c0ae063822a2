//! A block of environments that one thread steps and learns from: choose, step, learn, for all agents in turn.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use phalanx_core::apart;
use phalanx_core::batch::{Actions, ActionsMut, Autoreset, Batch, ObsMut, Reset, StepBuffers};
use phalanx_core::space::{ActionMask, ActionSpace, Element, EnvSpec};

use super::Settings;
use super::explore::{Draws, MASKED_ACTIONS, Ties, all_legal, choose, words_below};
use super::table::{Store, Table, Value};
use super::update::{Algorithm, Rate, Transition, Updater};
use crate::error::{Error, Result};
use crate::learner::{EndedEpisode, Episodes, Greedy};
use crate::stages::{Stage, Stages};
use crate::state::State;

/// How a table sees an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Number of states.
    pub states: usize,
    /// Number of actions.
    pub actions: usize,
    /// Components of an observation.
    obs_dim: usize,
    /// The one that is the state.
    component: usize,
    /// Whether a state allows some actions only.
    masked: bool,
}

/// Whole numbers in single precision end here.
const MAX_STATES: f32 = (1 << 24) as f32;

impl Space {
    /// The states and actions of an environment whose observation is one whole number, or has one named `index`.
    pub fn of(spec: &EnvSpec) -> Result<Self> {
        let refuse = |why: String| Err(Error::setting("env", format!("is {}, but a table needs {why}", spec.name)));
        let ActionSpace::Discrete { n } = spec.action else {
            return refuse(format!("actions of one discrete choice, not {}", spec.action));
        };
        let observation = &spec.observation;
        let component = match observation.names.iter().position(|name| *name == "index") {
            _ if observation.element != Element::F32 => None,
            None if observation.dim() == 1 => Some(0),
            index => index,
        };
        let Some(component) = component else {
            return refuse(format!("an observation that is one whole number or has an 'index', not {observation}"));
        };
        let (low, high) = (observation.low[component], observation.high[component]);
        if low != 0.0 || !(0.0..MAX_STATES).contains(&high) || high.fract() != 0.0 {
            return refuse(format!("states from 0 to at most {}, not {low} to {high}", MAX_STATES - 1.0));
        }
        let masked = spec.action_mask != ActionMask::None;
        if masked && n as usize > MASKED_ACTIONS {
            return refuse(format!("masks of at most {MASKED_ACTIONS} actions, not {n}"));
        }
        let (states, actions) = (high as usize + 1, n as usize);
        Ok(Self { states, actions, obs_dim: observation.dim(), component, masked })
    }

    /// Reads the states of all rows of observations.
    #[inline(always)]
    fn read(&self, obs: &[f32], states: &mut [u32]) -> Result<()> {
        let mut wrong = false;
        for (state, row) in states.iter_mut().zip(obs.chunks_exact(self.obs_dim)) {
            let value = row[self.component];
            *state = value as u32;
            wrong |= *state as f32 != value || *state as usize >= self.states;
        }
        if wrong { self.refuse(obs) } else { Ok(()) }
    }

    #[cold]
    fn refuse(&self, obs: &[f32]) -> Result<()> {
        let right = |value: f32| value == value as u32 as f32 && (value as usize) < self.states;
        let value = obs.chunks_exact(self.obs_dim).map(|row| row[self.component]).find(|value| !right(*value));
        let value = value.unwrap_or(f32::NAN);
        let allowed = format!("a whole number from 0 to {}", self.states - 1);
        Err(phalanx_core::Error::out_of_range("the state that was observed", value, allowed).into())
    }
}

/// What is legal in each state, a bit for each action, as far as it is known: 0 in states never acted in.
///
/// A table knows nothing but the state, so what is legal must depend on nothing else; an environment with other ideas
/// refuses the action. All blocks share what they find out: where a block sees values other than 0, somebody whose
/// work it sees has acted, so that the mask is known; elsewhere it makes no difference when it becomes known.
// On lines of its own, where nobody else writes: everybody looks here in every step.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Masks(Vec<AtomicU32>);

impl Masks {
    pub(super) fn new(space: &Space) -> Arc<Self> {
        let states = if space.masked { space.states } else { 0 };
        let mut legal: Vec<_> = (0..states).map(|_| AtomicU32::new(0)).collect();
        apart::make_room(&mut legal);
        Arc::new(Self(legal))
    }

    // Relaxed, because a mask is the same whoever writes it.
    #[inline(always)]
    pub(super) fn get(&self, state: u32) -> u32 {
        self.0[state as usize].load(Ordering::Relaxed)
    }

    fn set(&self, state: u32, legal: u32) {
        self.0[state as usize].store(legal, Ordering::Relaxed);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&self.0[..])
    }

    pub(super) fn save(&self) -> State {
        let known = || (0..self.0.len() as u32).map(|state| (state, self.get(state))).filter(|(_, legal)| *legal != 0);
        let (states, legal): (Vec<u32>, Vec<u32>) = known().unzip();
        let mut saved = State::default();
        saved.put("states", &[states.len()], &states);
        saved.put("legal", &[legal.len()], &legal);
        saved
    }

    pub(super) fn restore(&self, saved: &State) -> Result<()> {
        let states = saved.get_all::<u32>("states")?;
        let legal = saved.get::<u32>("legal", &[states.len()])?;
        if let Some(state) = states.iter().find(|state| **state as usize >= self.0.len()) {
            let why = format!("state {state} is beyond the last of {}", self.0.len());
            return Err(Error::Value { name: "states".into(), why });
        }
        self.0.iter().for_each(|mask| mask.store(0, Ordering::Relaxed));
        states.iter().zip(legal).for_each(|(state, legal)| self.set(*state, *legal));
        Ok(())
    }
}

/// Whether the agent moves for both sides in turn.
fn plays_itself(spec: &EnvSpec) -> bool {
    spec.options.iter().any(|option| option.name == "opponent" && option.value == "self_play")
}

/// Environments, and what is needed to act and to learn in them.
// On lines of its own, in pairs as they are fetched: each is one thread's to write, its neighbours another's.
#[repr(align(128))]
pub(super) struct Block<T> {
    batch: Box<dyn Batch>,
    space: Space,
    algorithm: Algorithm,
    masks: Arc<Masks>,
    draws: Draws,
    updater: Updater<T>,
    out: StepBuffers,
    states: Vec<u32>,
    legal: Vec<u32>,
    actions: Vec<i32>,
    /// Whether the actions are those of the next step; only SARSA knows so early.
    decided: bool,
    /// Choices so far, each of all agents.
    choices: u64,
    next_states: Vec<u32>,
    next_legal: Vec<u32>,
    transitions: Vec<Transition>,
    ends: Vec<EndedEpisode>,
    flags: Vec<bool>,
    scratch: Vec<T>,
    sums: Vec<T>,
    /// Episodes that ended since somebody took them.
    pub(super) ended: Episodes,
    /// Time since somebody took it.
    pub(super) stages: Stages,
}

impl<T: Value> Block<T> {
    /// Starts the environments anew from the seed.
    pub(super) fn new(mut batch: Box<dyn Batch>, settings: &Settings, seed: u64, masks: Arc<Masks>) -> Result<Self> {
        let space = Space::of(batch.spec())?;
        if batch.autoreset() != Autoreset::SameStep {
            return Err(Error::setting("autoreset", "must start new episodes in the same step for a table to learn"));
        }
        if settings.algorithm == Algorithm::DoubleQ && space.actions > MASKED_ACTIONS {
            let why = format!("is double_q, which has at most {MASKED_ACTIONS} actions, not {}", space.actions);
            return Err(Error::setting("agent.algorithm", why));
        }
        let agents = batch.num_envs();
        let gamma = if plays_itself(batch.spec()) { -settings.gamma } else { settings.gamma };
        let width = space.actions * settings.algorithm.tables();
        let mut out = StepBuffers::new(agents, space.obs_dim);
        batch.reset_into(Reset::Seed(seed), ObsMut::from(&mut out.obs))?;
        let mut block = Self {
            batch,
            space,
            algorithm: settings.algorithm,
            masks,
            draws: Draws::new(seed, agents),
            updater: Updater::new(settings.algorithm, settings.batch_update, gamma, space.actions),
            out,
            states: apart::filled(0, agents),
            legal: apart::filled(all_legal(space.actions), agents),
            actions: apart::filled(0, agents),
            decided: false,
            choices: 0,
            next_states: apart::filled(0, agents),
            next_legal: apart::filled(all_legal(space.actions), agents),
            transitions: apart::filled(Transition::default(), agents),
            ends: apart::filled(EndedEpisode { episode_return: 0.0, length: 0, cost: 0 }, agents),
            flags: apart::filled(true, if space.masked { agents * space.actions } else { 0 }),
            scratch: apart::filled(T::zero(), width),
            sums: apart::filled(T::zero(), space.actions),
            ended: Episodes::default(),
            stages: Stages::default(),
        };
        block.look()?;
        std::mem::swap(&mut block.states, &mut block.next_states);
        std::mem::swap(&mut block.legal, &mut block.next_legal);
        Ok(block)
    }

    pub(super) fn agents(&self) -> usize {
        self.states.len()
    }

    /// One step of all environments, and what is learnt from it.
    pub(super) fn step<S: Store<T>>(
        &mut self,
        store: &mut S,
        visits: Option<&mut S>,
        (rate, epsilon): (Rate, f64),
    ) -> Result<()> {
        let mut lap = self.stages.begin();
        if !self.decided {
            self.choose(store, epsilon);
            self.stages.lap(Stage::Act, &mut lap);
        }
        self.batch.step_into(Actions::Discrete(&self.actions), self.out.out())?;
        self.stages.lap(Stage::Step, &mut lap);
        self.look()?;
        self.note_transitions()?;
        self.stages.lap(Stage::Store, &mut lap);
        std::mem::swap(&mut self.states, &mut self.next_states);
        std::mem::swap(&mut self.legal, &mut self.next_legal);
        if self.algorithm == Algorithm::Sarsa {
            self.choose(store, epsilon);
            self.decided = true;
            for (i, transition) in self.transitions.iter_mut().enumerate() {
                let ended = self.out.terminated[i] | self.out.truncated[i];
                transition.next_action = (!ended).then_some(self.actions[i] as u32);
            }
            self.stages.lap(Stage::Act, &mut lap);
        }
        self.updater.apply(store, visits, &self.transitions, rate, epsilon);
        self.stages.lap(Stage::Learn, &mut lap);
        Ok(())
    }

    /// What it has learnt that was no finite number, if anything; once.
    pub(super) fn take_fault(&mut self) -> Option<f64> {
        self.updater.take_fault().map(|number| number.to_f64().unwrap_or(f64::NAN))
    }

    /// Chooses an action for every agent; every one has a legal action.
    fn choose<S: Store<T>>(&mut self, store: &S, epsilon: f64) {
        self.draws.fill(self.choices);
        self.choices += 1;
        let explore = words_below(epsilon);
        let words = self.draws.explore.iter().zip(&self.draws.pick);
        let agents = self.actions.iter_mut().zip(&self.states).zip(&self.legal).zip(words);
        for (((action, &state), &legal), (&first, &second)) in agents {
            let row = store.row(state as usize, &mut self.scratch);
            let row = if self.algorithm == Algorithm::DoubleQ {
                add_halves(row, &mut self.sums);
                &self.sums
            } else {
                row
            };
            *action = choose(row, legal, explore, [first, second], Ties::Random).unwrap_or(0) as i32;
        }
    }

    /// Reads where the agents are now, and what is legal there.
    fn look(&mut self) -> Result<()> {
        self.space.read(&self.out.obs, &mut self.next_states)?;
        if !self.space.masked {
            return Ok(());
        }
        let mut known = true;
        for (legal, &state) in self.next_legal.iter_mut().zip(&self.next_states) {
            *legal = self.masks.get(state);
            known &= *legal != 0;
        }
        if known { Ok(()) } else { self.ask() }
    }

    /// Asks the environments what is legal.
    #[cold]
    fn ask(&mut self) -> Result<()> {
        self.batch.action_masks_into(&mut self.flags)?;
        let rows = self.flags.chunks_exact(self.space.actions);
        for ((legal, &state), flags) in self.next_legal.iter_mut().zip(&self.next_states).zip(rows) {
            *legal = flags.iter().enumerate().fold(0, |bits, (action, flag)| bits | u32::from(*flag) << action);
            if *legal == 0 {
                return Err(Error::NoLegalAction { state: u64::from(state) });
            }
            self.masks.set(state, *legal);
        }
        Ok(())
    }

    fn note_transitions(&mut self) -> Result<()> {
        let (mut ends, mut truncations) = (0, false);
        // All as long as there are agents, and known to be.
        let agents = self.transitions.len();
        let out = &self.out;
        let (rewards, terminated, truncated) =
            (&out.rewards[..agents], &out.terminated[..agents], &out.truncated[..agents]);
        let (returns, lengths, costs) =
            (&out.final_returns[..agents], &out.final_lengths[..agents], &out.final_costs[..agents]);
        let (states, actions, words) = (&self.states[..agents], &self.actions[..agents], &self.draws.explore[..agents]);
        let (next_states, next_legal) = (&self.next_states[..agents], &self.next_legal[..agents]);
        for (i, transition) in self.transitions.iter_mut().enumerate() {
            *transition = Transition {
                state: states[i],
                action: actions[i] as u32,
                reward: rewards[i],
                next_state: next_states[i],
                next_legal: next_legal[i] & u32::from(terminated[i]).wrapping_sub(1),
                next_action: None,
                // The lowest bit of a word has no part in whether the word is below a bound.
                second: words[i] & 1 == 1,
            };
            // Written in any case, kept only if it was an end: nobody can predict those.
            self.ends[ends] = EndedEpisode { episode_return: returns[i], length: lengths[i], cost: costs[i] };
            ends += usize::from(terminated[i] | truncated[i]);
            truncations |= truncated[i] & !terminated[i];
        }
        self.ends[..ends].iter().for_each(|end| self.ended.add(*end));
        if truncations { self.note_truncations() } else { Ok(()) }
    }

    /// Corrects the transitions at whose end an episode was cut off: what is observed belongs to the next one already.
    #[cold]
    fn note_truncations(&mut self) -> Result<()> {
        for (i, transition) in self.transitions.iter_mut().enumerate() {
            if self.out.terminated[i] || !self.out.truncated[i] {
                continue;
            }
            let last = &self.out.final_obs[i * self.space.obs_dim..][..self.space.obs_dim];
            self.space.read(last, std::slice::from_mut(&mut transition.next_state))?;
            // Where nobody knows what is legal nobody has ever acted, so that all values are 0: no future is as right
            // as any.
            transition.next_legal =
                if self.space.masked { self.masks.get(transition.next_state) } else { all_legal(self.space.actions) };
        }
        Ok(())
    }

    /// Everything but the table and the masks.
    pub(super) fn save(&self) -> State {
        let mut state = State::default();
        let snapshot = self.batch.snapshot();
        state.put("env", &[snapshot.len()], &snapshot);
        state.put_value("choices", &self.choices);
        if self.decided {
            let actions: Vec<u32> = self.actions.iter().map(|action| *action as u32).collect();
            state.put("actions", &[actions.len()], &actions);
        }
        state
    }

    pub(super) fn restore(&mut self, state: &State) -> Result<()> {
        self.batch.restore(state.get_all::<u8>("env")?)?;
        self.choices = state.value("choices")?;
        self.decided = self.algorithm == Algorithm::Sarsa && self.choices > 0;
        if self.decided {
            let actions = state.get::<u32>("actions", &[self.agents()])?;
            self.actions.iter_mut().zip(actions).for_each(|(action, saved)| *action = *saved as i32);
        }
        self.batch.observe_into(ObsMut::from(&mut self.out.obs))?;
        self.look()?;
        std::mem::swap(&mut self.states, &mut self.next_states);
        std::mem::swap(&mut self.legal, &mut self.next_legal);
        self.ended = Episodes::default();
        Ok(())
    }
}

/// Adds the two tables of a row.
#[inline(always)]
fn add_halves<T: Value>(row: &[T], sums: &mut [T]) {
    let (first, second) = row.split_at(sums.len());
    sums.iter_mut().zip(first.iter().zip(second)).for_each(|(sum, (a, b))| *sum = *a + *b);
}

/// A table's best actions; of equally good ones the first.
#[derive(Clone, Debug)]
pub(super) struct GreedyTable<T, B> {
    space: Space,
    table: B,
    value: PhantomData<T>,
}

impl<T: Value, B: Table<T>> GreedyTable<T, B> {
    pub(super) fn new(space: Space, table: B) -> Self {
        Self { space, table, value: PhantomData }
    }
}

impl<T: Value, B: Table<T>> Greedy for GreedyTable<T, B> {
    fn act(&mut self, obs: &[f32], masks: &[bool], actions: ActionsMut<'_>) {
        let ActionsMut::Discrete(actions) = actions else { panic!("a table has discrete actions") };
        let n = self.space.actions;
        for (i, (action, row)) in actions.iter_mut().zip(obs.chunks_exact(self.space.obs_dim)).enumerate() {
            let state = row[self.space.component] as usize;
            let is_legal = |action: &usize| masks.is_empty() || masks[i * n + action];
            let values = self.table.stored(state).unwrap_or(&[]);
            // A row of two tables counts as their sum.
            let value = |action: usize| {
                (action..values.len()).step_by(n).map(|at| values[at]).fold(T::zero(), |sum, value| sum + value)
            };
            let best =
                (0..n).filter(is_legal).reduce(|best, other| if value(other) > value(best) { other } else { best });
            *action = best.unwrap_or(0) as i32;
        }
    }
}
