//! The kernel of [`LaneEnv`]s: a group of environments in registers.

use super::kernel::{At, BOOK_LINES, Cells, ENDED, EPISODE, Kernel, RETURN, STEPS, Stretch};
use super::params::Params;
use super::{Actions, Autoreset, StepOut, check_len};
use crate::checksum::{fold_observation, fold_transition};
use crate::env::{LaneAction, LaneArray, LaneEnv, LaneStruct};
use crate::error::{Error, Result};
use crate::lanes::{LaneValue, Lanes, Line, Mask, Stored, Uint};
use crate::policy::{Decision, LanePolicy, Moment, Policy};
use crate::rng::{Purpose, Stream};
use crate::space::EnvSpec;
use crate::stats::EpisodeStats;

/// An environment over lanes of `R`.
#[derive(Debug)]
pub(super) struct LaneKernel<E: LaneEnv, R: Lanes> {
    env: E,
    params: Params,
    lanes: std::marker::PhantomData<R>,
}

/// `LANES` environments in registers.
struct Group<'a, E: LaneEnv, R: Lanes> {
    env: &'a E,
    params: E::Params<R>,
    stream: Stream<R>,
    max_steps: R::Uint,
    state: E::State<R>,
    steps: R::Uint,
    episode: R::Uint,
    episode_return: R,
    /// Start states of the lanes' next episodes, for the lanes that are not `stale`.
    ///
    /// Some lane of a group ends an episode every few steps, and drawing a start state costs about as
    /// much as a step whether for one lane or for all. So all lanes draw together, and the group draws
    /// again only when a lane ends whose spare start is used up.
    spare: E::State<R>,
    stale: R::Mask,
}

/// What a step of a group gave; the observation is that of the step, before any new episode.
struct Transition<E: LaneEnv, R: Lanes> {
    obs: E::Obs<R>,
    reward: R,
    terminated: R::Mask,
    truncated: R::Mask,
}

impl<E: LaneEnv, R: Lanes> Group<'_, E, R> {
    #[inline(always)]
    fn observe(&self) -> E::Obs<R> {
        self.env.observe(&self.params, &self.state)
    }

    #[inline(always)]
    fn step(&mut self, action: E::Action<R>) -> Transition<E, R> {
        let mut draws = self.stream.draws(Purpose::Step, self.episode, self.steps);
        let step = self.env.step(&self.params, &self.state, action, &mut draws);
        self.state = step.state;
        self.steps = self.steps.wrapping_add(R::Uint::splat(1));
        self.episode_return = self.episode_return + step.reward;
        Transition {
            obs: self.observe(),
            reward: step.reward,
            terminated: step.terminated,
            // The count goes up by one and an episode ends at the limit, so `==` is `>=`, and cheaper.
            truncated: self.steps.eq(self.max_steps),
        }
    }

    /// Starts the next episode in some lanes.
    #[inline(always)]
    fn restart(&mut self, lanes: R::Mask) {
        if (lanes & self.stale).any() {
            let next = self.episode.wrapping_add(R::Uint::splat(1));
            self.spare = draw_start(self.env, &self.params, &self.stream, next);
            self.stale = Mask::splat(false);
        }
        self.stale = self.stale | lanes;
        self.state = LaneStruct::select(lanes, self.spare, self.state);
        self.episode = self.episode.wrapping_add(R::Uint::masked(lanes, 1));
        self.steps = R::Uint::select(lanes, R::Uint::splat(0), self.steps);
        self.episode_return = R::select(lanes, R::splat(0.0), self.episode_return);
    }

    /// Adds the episodes that end in some lanes to the statistics.
    #[inline(always)]
    fn record(&self, lanes: u32, stats: &mut EpisodeStats) {
        for_each_bit(lanes, |lane| {
            stats.add(
                self.episode_return.lane_f64(lane) as f32,
                self.steps.lane(lane),
            )
        });
    }

    #[inline(always)]
    fn store(&self, cells: Cells<'_, Line>, lane: usize) {
        self.state.store(cells.rows, lane);
        self.steps.store(&mut cells.book[STEPS], lane);
        self.episode.store(&mut cells.book[EPISODE], lane);
        self.episode_return.store(&mut cells.book[RETURN], lane);
    }
}

/// The start states of an episode. Out of line: it is rare, and the loops around it need the registers.
#[inline(never)]
fn draw_start<E: LaneEnv, R: Lanes>(
    env: &E,
    params: &E::Params<R>,
    stream: &Stream<R>,
    episode: R::Uint,
) -> E::State<R> {
    env.reset(
        params,
        &mut stream.draws(Purpose::Reset, episode, R::Uint::splat(0)),
    )
}

/// Finished episodes of a group, noted in the loop and counted outside of it: counting lane by lane in
/// the loop would cost a tenth of a step.
struct Finished {
    noted: usize,
    lanes: [u32; Self::CAPACITY],
    returns: [Line; Self::CAPACITY],
    lengths: [Line; Self::CAPACITY],
}

impl Finished {
    const CAPACITY: usize = 32;

    fn new() -> Self {
        let lines = [Line::default(); Self::CAPACITY];
        Self {
            noted: 0,
            lanes: [0; Self::CAPACITY],
            returns: lines,
            lengths: lines,
        }
    }

    #[inline(always)]
    fn note<E: LaneEnv, R: Lanes>(
        &mut self,
        group: &Group<'_, E, R>,
        lanes: u32,
        stats: &mut EpisodeStats,
    ) {
        if self.noted == Self::CAPACITY {
            self.count(stats);
        }
        self.lanes[self.noted] = lanes;
        group.episode_return.store(&mut self.returns[self.noted], 0);
        group.steps.store(&mut self.lengths[self.noted], 0);
        self.noted += 1;
    }

    #[inline(never)]
    fn count(&mut self, stats: &mut EpisodeStats) {
        for i in 0..self.noted {
            for_each_bit(self.lanes[i], |lane| {
                stats.add(
                    f32::from_bits(self.returns[i].0[lane]),
                    self.lengths[i].0[lane],
                );
            });
        }
        self.noted = 0;
    }
}

/// Calls `visit` with the number of each set bit.
#[inline(always)]
fn for_each_bit(mut bits: u32, mut visit: impl FnMut(usize)) {
    while bits != 0 {
        visit(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

impl<E: LaneEnv, R: Lanes> LaneKernel<E, R> {
    pub(super) fn new(env: E, params: Params) -> Self {
        Self {
            env,
            params,
            lanes: std::marker::PhantomData,
        }
    }

    #[inline(always)]
    fn load(&self, at: At<'_>, rows: &[Line], book: &[Line], lane: usize) -> Group<'_, E, R> {
        let state = LaneStruct::load(rows, lane);
        Group {
            env: &self.env,
            params: self.params.load(at.block, lane),
            stream: at.streams.load(at.block, lane),
            max_steps: R::Uint::splat(at.max_steps),
            state,
            steps: Stored::load(&book[STEPS], lane),
            episode: Stored::load(&book[EPISODE], lane),
            episode_return: Stored::load(&book[RETURN], lane),
            spare: state,
            stale: Mask::splat(true),
        }
    }

    /// The roll-out's inner loop.
    #[inline(always)]
    fn advance_with<P: LanePolicy>(
        &self,
        at: At<'_>,
        cells: Cells<'_, Line>,
        run: &mut [Line],
        policy: &P,
        (first_tick, steps): (u64, usize),
        stats: &mut EpisodeStats,
    ) {
        let Cells { rows, book } = cells;
        let (checksum_line, memory_lines) = run.split_first_mut().expect("the checksum has a line");
        for (lane, envs) in at.groups::<R>() {
            let mut group = self.load(at, rows, book, lane);
            let mut checksum = R::Uint::load(checksum_line, lane);
            let mut memory: P::Memory<R> = LaneStruct::load(memory_lines, lane);
            let mut scratch = policy.scratch();
            let exist = !0_u32 >> (32 - envs);
            let mut finished = Finished::new();
            let mut obs = group.observe();
            if first_tick == 0 {
                checksum = fold_observation(checksum, obs.as_ref());
            }
            for tick in first_tick..first_tick + steps as u64 {
                let moment = Moment {
                    stream: &group.stream,
                    tick,
                    step: group.steps,
                };
                let mut decision =
                    Decision::new(policy, moment, obs.as_ref(), &mut memory, &mut scratch);
                let action = LaneAction::from_decision(&mut decision);
                let Transition {
                    obs: seen,
                    reward,
                    terminated,
                    truncated,
                } = group.step(action);
                obs = seen;
                checksum = fold_transition(checksum, obs.as_ref(), reward, terminated, truncated);
                let done = terminated | truncated;
                if done.any() {
                    finished.note(&group, done.bits() & exist, stats);
                    group.restart(done);
                    obs = group.observe();
                    let with_start = fold_observation(checksum, obs.as_ref());
                    checksum = R::Uint::select(done, with_start, checksum);
                }
            }
            finished.count(stats);
            memory.store(memory_lines, lane);
            checksum.store(checksum_line, lane);
            group.store(Cells { rows, book }, lane);
        }
    }
}

impl<E: LaneEnv, R: Lanes> Kernel for LaneKernel<E, R> {
    type Row = Line;

    fn rows_per_block(&self) -> usize {
        <E::State<R> as LaneStruct<R>>::NAMES.len()
    }

    fn lanes(&self) -> usize {
        R::LANES
    }

    fn spec(&self) -> EnvSpec {
        self.env.spec()
    }

    fn reset(&self, at: At<'_>, cells: Cells<'_, Line>, lanes: u32) {
        let Cells { rows, book } = cells;
        for (lane, _) in at.groups::<R>() {
            let chosen = R::Mask::from_bits(lanes >> lane);
            if !chosen.any() {
                continue;
            }
            let mut group = self.load(at, rows, book, lane);
            group.state = LaneStruct::select(
                chosen,
                draw_start(group.env, &group.params, &group.stream, group.episode),
                group.state,
            );
            group.steps = R::Uint::select(chosen, R::Uint::splat(0), group.steps);
            group.episode_return = R::select(chosen, R::splat(0.0), group.episode_return);
            group.store(Cells { rows, book }, lane);
        }
    }

    #[inline]
    fn step(
        &self,
        at: At<'_>,
        cells: Cells<'_, Line>,
        actions: &Actions<'_>,
        mode: Autoreset,
        out: StepOut<'_>,
        stats: &mut EpisodeStats,
    ) {
        let Cells { rows, book } = cells;
        let dim = out.obs.len() / out.rewards.len();
        for (lane, envs) in at.groups::<R>() {
            let mut group = self.load(at, rows, book, lane);
            let ended = group.steps.ge(R::Uint::splat(ENDED));
            let Transition {
                mut obs,
                mut reward,
                mut terminated,
                mut truncated,
            } = group.step(LaneAction::gather(actions, lane, envs));
            if mode == Autoreset::NextStep && ended.any() {
                group.restart(ended);
                obs = LaneArray::select(ended, group.observe(), obs);
                reward = R::select(ended, R::splat(0.0), reward);
                terminated = terminated & !ended;
                truncated = truncated & !ended;
            }
            let done = terminated | truncated;
            if done.any() {
                let bits = done.bits() & !0_u32 >> (32 - envs);
                group.record(bits, stats);
                for_each_bit(bits, |i| {
                    let env = lane + i;
                    for (k, value) in obs.as_ref().iter().enumerate() {
                        out.final_obs[env * dim + k] = value.lane_f64(i) as f32;
                    }
                    out.final_returns[env] = group.episode_return.lane_f64(i) as f32;
                    out.final_lengths[env] = group.steps.lane(i);
                });
                if mode == Autoreset::SameStep {
                    group.restart(done);
                    obs = LaneArray::select(done, group.observe(), obs);
                } else {
                    group.steps = group.steps | R::Uint::masked(done, ENDED);
                }
            }
            group.store(Cells { rows, book }, lane);
            obs.write_rows(envs, &mut out.obs[lane * dim..]);
            write_lanes(reward, &mut out.rewards[lane..lane + envs]);
            write_bits(terminated.bits(), &mut out.terminated[lane..lane + envs]);
            write_bits(truncated.bits(), &mut out.truncated[lane..lane + envs]);
        }
    }

    fn observe(&self, at: At<'_>, rows: &[Line], obs: &mut [f32]) {
        let book = [Line::default(); BOOK_LINES];
        for (lane, envs) in at.groups::<R>() {
            let seen = self.load(at, rows, &book, lane).observe();
            let dim = seen.as_ref().len();
            seen.write_rows(envs, &mut obs[lane * dim..]);
        }
    }

    fn can_advance(&self, policy: &Policy) -> bool {
        !matches!(policy, Policy::Tile(_))
    }

    fn advance(
        &self,
        at: At<'_>,
        cells: Cells<'_, Line>,
        run: &mut [Line],
        stretch: Stretch<'_>,
        stats: &mut EpisodeStats,
    ) {
        let span = (stretch.tick, stretch.steps);
        match stretch.policy {
            Policy::Random(policy) => self.advance_with(at, cells, run, policy, span, stats),
            Policy::Controller(policy) => self.advance_with(at, cells, run, policy, span, stats),
            Policy::Tile(_) => unreachable!("the engine serves tile policies"),
        }
    }

    fn state(&self, rows: &[Line], lane: usize) -> Vec<f64> {
        let state = E::State::<f32>::load(rows, lane);
        (0..rows.len()).map(|field| state.value(field, 0)).collect()
    }

    fn set_state(&self, rows: &mut [Line], lane: usize, values: &[f64]) -> Result<()> {
        check_state(&self.env.spec(), values)?;
        E::State::<f32>::from_values(|field, _| values[field]).store(rows, lane);
        Ok(())
    }

    fn param(&self, name: &str, env: usize) -> Result<f64> {
        self.params.get(name, env)
    }

    fn set_param(&mut self, name: &str, values: &[f64], num_envs: usize) -> Result<()> {
        let mut changed = self.params.clone();
        changed.set_named(name, values, num_envs)?;
        check_params(&self.env, &changed, num_envs)?;
        self.params = changed;
        Ok(())
    }

    fn params_bytes(&self) -> Vec<u8> {
        self.params.bytes()
    }

    fn params_memory(&self) -> usize {
        self.params.memory()
    }
}

/// Checks every environment's parameters against each other.
pub(super) fn check_params<E: LaneEnv>(env: &E, params: &Params, num_envs: usize) -> Result<()> {
    (0..if params.vary() { num_envs } else { 1 }).try_for_each(|i| {
        env.check_params(&params.of_env(i)).map_err(|allowed| {
            Error::out_of_range(
                format!("a parameter of {}", env.spec().name),
                "inconsistent with another",
                allowed,
            )
        })
    })
}

/// Checks a state that a user gives.
pub(crate) fn check_state(spec: &EnvSpec, values: &[f64]) -> Result<()> {
    let names = spec.state_names;
    check_len(
        &format!("the state ({})", names.join(", ")),
        values.len(),
        names.len(),
    )?;
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::out_of_range(
            format!("{} of the state", names[at]),
            values[at],
            "a finite number",
        )),
    }
}

#[inline(always)]
fn write_lanes<R: Lanes>(value: R, out: &mut [f32]) {
    if out.len() == R::LANES {
        value.write_to(out);
    } else {
        let mut all = [0.0; crate::lanes::BLOCK];
        value.write_to(&mut all);
        out.copy_from_slice(&all[..out.len()]);
    }
}

#[inline(always)]
fn write_bits(bits: u32, out: &mut [bool]) {
    for (i, flag) in out.iter_mut().enumerate() {
        *flag = bits >> i & 1 == 1;
    }
}
