//! The kernel of [`SoloEnv`]s: one environment after the other, in place.

use super::kernel::{At, BOOK_LINES, COST, Cells, ENDED, EPISODE, Kernel, Out, RETURN, STEPS, Stretch};
use super::lane_kernel::check_state;
use super::{Actions, Autoreset, ObsElement};
use crate::error::{Error, Result};
use crate::lanes::{BLOCK, Line};
use crate::policy::Policy;
use crate::rng::{Purpose, Stream};
use crate::safety::{Guard, Rule, Signal};
use crate::snapshot;
use crate::solo::{Outcome, SoloAction, SoloEnv};
use crate::space::{ActionSpace, EnvSpec};
use crate::stats::{EpisodeStats, Tally};

/// An environment that vectorises inside one copy.
#[derive(Debug)]
pub(super) struct SoloKernel<E: SoloEnv> {
    env: E,
    guard: Guard,
    action: ActionSpace,
    /// Numbers of an action.
    components: usize,
    /// Fields of the state.
    fields: usize,
}

impl<E: SoloEnv> SoloKernel<E> {
    pub(super) fn new(env: E, guard: Guard) -> Self {
        let EnvSpec { action, state_names, .. } = env.spec();
        Self { env, guard, components: action.components(), action, fields: state_names.len() }
    }

    /// The action of one environment of a block.
    #[inline(always)]
    fn action<'a>(&self, actions: &Actions<'a>, lane: usize) -> SoloAction<'a> {
        let components = self.components;
        match (actions, &self.action) {
            (Actions::Discrete(indices), ActionSpace::MultiDiscrete { .. }) => {
                SoloAction::Multi(&indices[lane * components..(lane + 1) * components])
            }
            (Actions::Discrete(indices), _) => SoloAction::Discrete(indices[lane] as u32),
            (Actions::Continuous(values), _) => {
                SoloAction::Continuous(&values[lane * components..(lane + 1) * components])
            }
        }
    }

    /// The choices of a component.
    fn choices(&self, k: usize) -> std::ops::Range<u32> {
        0..self.action.choices(k).expect("masks are for discrete actions")
    }

    /// Starts the episode that the book names.
    fn start(&self, stream: &Stream<f32>, state: &mut E::State, book: &mut [Line], lane: usize) {
        self.env.reset(state, &mut stream.draws(Purpose::Reset, book[EPISODE].0[lane], 0));
        book[STEPS].0[lane] = 0;
        book[RETURN].0[lane] = 0.0_f32.to_bits();
        book[COST].0[lane] = 0;
    }

    /// Steps a block.
    fn step_block(
        &self,
        at: At<'_>,
        cells: Cells<'_, E::State>,
        actions: &Actions<'_>,
        mode: Autoreset,
        mut out: Out<'_, E::Elem>,
        stats: &mut EpisodeStats,
    ) {
        let Cells { rows, book } = cells;
        let envs = at.envs();
        let dim = out.obs.len() / envs;
        let rows = &mut rows[..envs];
        let mut outcomes = [Outcome::default(); BLOCK];
        let together = self.env.step_block(rows, *actions, &mut outcomes[..envs]);
        let waiting = mode == Autoreset::NextStep && book[STEPS].0[..envs].iter().any(|steps| *steps >= ENDED);
        if together && !waiting && !self.guard.is_active() {
            return self.note_all(at, Cells { rows, book }, &outcomes, mode, out, stats);
        }
        for (lane, state) in rows.iter_mut().enumerate() {
            let (steps, episode) = (book[STEPS].0[lane], book[EPISODE].0[lane]);
            let obs = &mut out.obs[lane * dim..(lane + 1) * dim];
            if mode == Autoreset::NextStep && steps >= ENDED {
                book[EPISODE].0[lane] += 1;
                self.start(&at.streams.load(at.block, lane), state, book, lane);
                self.env.observe(state, obs);
                (out.rewards[lane], out.terminated[lane], out.truncated[lane]) = (0.0, false, false);
                if self.guard.is_active() {
                    out.violations[lane] = 0;
                }
                continue;
            }
            let action = self.action(actions, lane);
            let outcome = if together {
                outcomes[lane]
            } else {
                let stream = at.streams.load::<f32>(at.block, lane);
                self.env.step(state, action, &mut stream.draws(Purpose::Step, episode, steps))
            };
            self.env.observe(state, obs);
            let (mut reward, mut terminated) = (outcome.reward, outcome.terminated);
            if self.guard.is_active() {
                let signal = |signal| match signal {
                    Signal::Observation(at) => obs[at].to_real(),
                    Signal::State(at) => self.env.state_value(state, at) as f32,
                    Signal::Action(at) => action.component(at),
                };
                let (verdict, violated) = self.guard.judge_bits(reward, Rule::lanes, signal);
                (reward, terminated) = (verdict.reward, terminated | verdict.terminates);
                out.violations[lane] = violated;
                book[COST].0[lane] += verdict.cost;
            }
            let truncated = note(&at, book, lane, Outcome { reward, terminated });
            (out.rewards[lane], out.terminated[lane], out.truncated[lane]) = (reward, terminated, truncated);
            if terminated | truncated {
                self.finish(&at, Cells { rows: std::slice::from_mut(state), book }, mode, &mut out, lane, stats);
            }
        }
    }

    /// What follows a step without constraints in which no environment was waiting for a new episode: for one array
    /// after the other, because little of it fits into registers at once.
    #[inline(always)]
    fn note_all(
        &self,
        at: At<'_>,
        cells: Cells<'_, E::State>,
        outcomes: &[Outcome; BLOCK],
        mode: Autoreset,
        mut out: Out<'_, E::Elem>,
        stats: &mut EpisodeStats,
    ) {
        let Cells { rows, book } = cells;
        let book: &mut [Line; BOOK_LINES] = book.try_into().expect("the lines of a block");
        let dim = out.obs.len() / rows.len();
        for (state, obs) in rows.iter().zip(out.obs.chunks_exact_mut(dim)) {
            self.env.observe(state, obs);
        }
        let envs = rows.len();
        // Slices of one known length each: no index is checked in the loop.
        let (rewards, terminations) = (&mut out.rewards[..envs], &mut out.terminated[..envs]);
        let truncations = &mut out.truncated[..envs];
        let mut ended = 0_u32;
        for (lane, outcome) in outcomes[..envs].iter().enumerate() {
            let truncated = note(&at, book, lane, *outcome);
            (rewards[lane], terminations[lane], truncations[lane]) = (outcome.reward, outcome.terminated, truncated);
            ended |= u32::from(outcome.terminated | truncated) << lane;
        }
        while ended != 0 {
            let lane = ended.trailing_zeros() as usize;
            let cells = Cells { rows: std::slice::from_mut(&mut rows[lane]), book: &mut *book };
            self.finish(&at, cells, mode, &mut out, lane, stats);
            ended &= ended - 1;
        }
    }

    /// Ends the episode of an environment, whose state is the only one of `cells`.
    fn finish(
        &self,
        at: &At<'_>,
        cells: Cells<'_, E::State>,
        mode: Autoreset,
        out: &mut Out<'_, E::Elem>,
        lane: usize,
        stats: &mut EpisodeStats,
    ) {
        let Cells { rows: [state], book } = cells else { unreachable!("the state of one environment") };
        let dim = out.obs.len() / out.rewards.len();
        let obs = &mut out.obs[lane * dim..(lane + 1) * dim];
        if let Some(scores) = self.env.scores(state) {
            stats.add_scores(scores);
        }
        out.final_obs[lane * dim..(lane + 1) * dim].copy_from_slice(obs);
        out.final_returns[lane] = f32::from_bits(book[RETURN].0[lane]);
        out.final_lengths[lane] = book[STEPS].0[lane];
        if self.guard.is_active() {
            out.final_costs[lane] = book[COST].0[lane];
        }
        if mode == Autoreset::SameStep {
            book[EPISODE].0[lane] += 1;
            self.start(&at.streams.load(at.block, lane), state, book, lane);
            self.env.observe(state, obs);
        } else {
            book[STEPS].0[lane] |= ENDED;
        }
    }

    fn no_params<T>(&self, name: &str) -> Result<T> {
        Err(Error::unknown("parameter", name, Some(self.env.spec().name), [] as [&str; 0]))
    }
}

/// Counts a step and its reward, and answers whether it was the last that the limit allows.
#[inline(always)]
fn note(at: &At<'_>, book: &mut [Line], lane: usize, outcome: Outcome) -> bool {
    book[STEPS].0[lane] += 1;
    book[RETURN].0[lane] = (f32::from_bits(book[RETURN].0[lane]) + outcome.reward).to_bits();
    book[STEPS].0[lane] == at.max_steps
}

impl<E: SoloEnv> Kernel for SoloKernel<E> {
    type Row = E::State;
    type Elem = E::Elem;

    fn rows_per_block(&self) -> usize {
        BLOCK
    }

    fn lanes(&self) -> usize {
        1
    }

    fn reset(&self, at: At<'_>, cells: Cells<'_, E::State>, lanes: u32) {
        for (lane, _) in at.groups::<f32>().filter(|(lane, _)| lanes >> lane & 1 == 1) {
            self.start(&at.streams.load(at.block, lane), &mut cells.rows[lane], cells.book, lane);
        }
    }

    fn step(
        &self,
        at: At<'_>,
        cells: Cells<'_, E::State>,
        actions: &Actions<'_>,
        mode: Autoreset,
        mut out: Out<'_, E::Elem>,
        stats: &mut EpisodeStats,
    ) {
        let dim = out.obs.len() / out.rewards.len();
        let components = self.components;
        let cells = cells.rows.chunks_exact_mut(BLOCK).zip(cells.book.chunks_exact_mut(BOOK_LINES));
        for (i, (rows, book)) in cells.enumerate() {
            let at = At { block: at.block + i, ..at };
            let actions = actions.slice(i * BLOCK * components, at.envs() * components);
            self.step_block(at, Cells { rows, book }, &actions, mode, out.block(i, at.envs(), dim), stats);
        }
    }

    fn observe(&self, at: At<'_>, rows: &[E::State], obs: &mut [E::Elem]) {
        let dim = obs.len() / at.envs();
        for ((_, row), obs) in at.groups::<f32>().zip(rows).zip(obs.chunks_exact_mut(dim)) {
            self.env.observe(row, obs);
        }
    }

    fn action_masks(&self, at: At<'_>, rows: &[E::State], masks: &mut [bool]) {
        for (row, mask) in rows.iter().zip(masks.chunks_exact_mut(masks.len() / at.envs())) {
            let choices = (0..self.components).flat_map(|k| self.choices(k).map(move |choice| (k, choice)));
            for (flag, (k, choice)) in mask.iter_mut().zip(choices) {
                *flag = self.env.is_legal(row, k, choice);
            }
        }
    }

    fn illegal(&self, at: At<'_>, rows: &[E::State], actions: &[i32]) -> u32 {
        let actions = actions.chunks_exact(self.components);
        rows.iter().take(at.envs()).zip(actions).enumerate().fold(0, |bits, (lane, (row, action))| {
            let legal = action.iter().enumerate().all(|(k, choice)| self.env.is_legal(row, k, *choice as u32));
            bits | u32::from(!legal) << lane
        })
    }

    fn choose_legal(&self, _: At<'_>, rows: &[E::State], lane: usize, k: usize, below: &dyn Fn(u32) -> u32) -> u32 {
        self.env.choose_legal(&rows[lane], k, self.choices(k).end, below)
    }

    fn guard(&self) -> &Guard {
        &self.guard
    }

    fn can_advance(&self, _policy: &Policy) -> bool {
        false
    }

    fn advance(&self, _: At<'_>, _: Cells<'_, E::State>, _: &mut [Line], _: Stretch<'_>, _: &mut Tally) {
        unreachable!("the engine steps rows for environments that cannot advance by themselves");
    }

    fn state(&self, rows: &[E::State], lane: usize) -> Vec<f64> {
        (0..self.fields).map(|field| self.env.state_value(&rows[lane], field)).collect()
    }

    fn set_state(&self, rows: &mut [E::State], lane: usize, values: &[f64]) -> Result<()> {
        check_state(&self.env.spec(), values)?;
        self.env.set_state_values(&mut rows[lane], values)
    }

    fn param(&self, name: &str, _env: usize) -> Result<f64> {
        self.no_params(name)
    }

    fn set_param(&mut self, name: &str, _values: &[f64], _num_envs: usize) -> Result<()> {
        self.no_params(name)
    }

    fn params_bytes(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore_params(&mut self, bytes: &[u8], _num_envs: usize) -> Result<()> {
        snapshot::check_equal("parameter bytes", &bytes.len(), &0)
    }

    fn blank_padding(&self, rows: &mut [E::State], envs: usize) {
        rows[envs..].fill(bytemuck::Zeroable::zeroed());
    }

    fn copy_env(&self, from: &[E::State], to: &mut [E::State], lane: usize) {
        to[lane] = from[lane];
    }

    fn params_memory(&self) -> usize {
        0
    }
}
