//! The kernel of [`LaneEnv`]s: a group of environments in registers.

use super::kernel::{
    At, BOOK_LINES, COST, Cells, ENDED, EPISODE, Kernel, Out, RETURN, STEP_TILE, STEPS, Stretch, copy_lane,
};
use super::params::Params;
use super::{Actions, Autoreset, check_len};
use crate::checksum::{fold_transition, start_word};
use crate::env::{COUNTERS, LaneAction, LaneArray, LaneEnv, LaneStruct};
use crate::error::{Error, Result};
use crate::lanes::{BLOCK, LaneValue, Lanes, Line, Mask, Stored, Uint};
use crate::policy::{Decision, LanePolicy, Moment, Policy};
use crate::rng::{self, Purpose, Stream};
use crate::safety::{Guard, HEAD, MAX_CONSTRAINTS, Rule, Signal};
use crate::space::{ActionMask, ActionSpace, EnvSpec};
use crate::stats::{EpisodeStats, Tally};

/// An environment over lanes of `R`.
#[derive(Debug)]
pub(super) struct LaneKernel<E: LaneEnv, R: Lanes> {
    plant: Plant<E>,
    lanes: std::marker::PhantomData<R>,
}

/// An environment and its parameters, for any lanes.
#[derive(Debug)]
struct Plant<E> {
    env: E,
    params: Params,
    guard: Guard,
    /// Number of discrete actions; 0 for a box.
    choices: u32,
}

/// What a step of a tile works on.
struct StepWork<'a> {
    at: At<'a>,
    rows: &'a mut [Line],
    book: &'a mut [Line],
    /// Lines of state in each block.
    width: usize,
    actions: &'a Actions<'a>,
    mode: Autoreset,
    out: Out<'a, f32>,
    counts: [u64; COUNTERS],
    /// The environments whose episode ends in this step, bit by bit.
    done: Bits,
    /// Those whose episode had ended before it.
    ended: Bits,
}

/// The most fields a state can have.
const MAX_FIELDS: usize = 64;

/// A bit for each environment of a tile.
type Bits = [u64; STEP_TILE * BLOCK / 64];

/// The environments whose bits are set.
fn envs_of(bits: &Bits) -> impl Iterator<Item = usize> {
    bits.iter().enumerate().flat_map(|(word, &bits)| {
        let mut left = bits;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(word * 64 + bit as usize)
        })
    })
}

#[inline(always)]
fn set_bits(bits: &mut Bits, first_env: usize, new: u32) {
    bits[first_env / 64] |= u64::from(new) << (first_env % 64);
}

/// `LANES` environments in registers. `SAFE` says whether they have constraints: two kinds of code, so that
/// environments without any do not pay.
struct Group<'a, E: LaneEnv, R: Lanes, const SAFE: bool> {
    env: &'a E,
    guard: &'a Guard,
    params: E::Params<R>,
    stream: Stream<R>,
    max_steps: R::Uint,
    state: E::State<R>,
    steps: R::Uint,
    episode: R::Uint,
    episode_return: R,
    /// Zero unless `SAFE`.
    episode_cost: R::Uint,
}

/// The start of each lane's next episode, drawn ahead of need.
///
/// Some lane of a group ends an episode every few steps, and drawing a start state costs about as much
/// as a step whether for one lane or for all. So all lanes draw together, and the group draws again only
/// when a lane ends whose spare start is used up (`stale`).
struct Spare<E: LaneEnv, R: Lanes> {
    state: E::State<R>,
    obs: E::Obs<R>,
    /// What the start adds to the checksum.
    checksum: R::Uint,
    stale: R::Mask,
}

/// What a step of a group gave; the observation is that of the step, before any new episode.
struct Transition<E: LaneEnv, R: Lanes> {
    obs: E::Obs<R>,
    reward: R,
    terminated: R::Mask,
    truncated: R::Mask,
}

/// A group that has stepped.
struct Begun<'a, E: LaneEnv, R: Lanes, const SAFE: bool> {
    group: Group<'a, E, R, SAFE>,
    transition: Transition<E, R>,
    /// Violated constraints, a bit each.
    violated: R::Uint,
    /// Where the episode had ended before.
    ended: R::Mask,
}

impl<E: LaneEnv, R: Lanes> Transition<E, R> {
    #[inline(always)]
    fn done(&self) -> R::Mask {
        self.terminated | self.truncated
    }

    #[inline(always)]
    fn fold_into(&self, checksum: R::Uint) -> R::Uint {
        fold_transition(checksum, self.obs.as_ref(), self.reward, self.terminated, self.truncated)
    }
}

impl<E: LaneEnv, R: Lanes, const SAFE: bool> Group<'_, E, R, SAFE> {
    #[inline(always)]
    fn observe(&self) -> E::Obs<R> {
        self.env.observe(&self.params, &self.state)
    }

    /// One step; `seen` is the observation of the state if that is at hand, `hear` is told of the constraints as
    /// by [`Guard::judge`].
    #[inline(always)]
    fn step(
        &mut self,
        action: E::Action<R>,
        seen: Option<&E::Obs<R>>,
        mut hear: impl FnMut(usize, R::Uint),
    ) -> Transition<E, R> {
        let mut draws = self.stream.draws(Purpose::Step, self.episode, self.steps);
        let step = match seen {
            Some(obs) => self.env.step_seen(&self.params, &self.state, obs, action, &mut draws),
            None => self.env.step(&self.params, &self.state, action, &mut draws),
        };
        self.state = step.state;
        self.steps = self.steps.wrapping_add(R::Uint::splat(1));
        let obs = self.observe();
        let (mut reward, mut terminated) = (step.reward, step.terminated);
        if SAFE && let Some(cost) = self.guard.count(obs.as_ref(), &mut hear) {
            self.episode_cost = self.episode_cost.wrapping_add(cost);
        } else if SAFE && !self.guard.passes(obs.as_ref()) {
            let verdict = if self.guard.head_only() {
                // No rule looks beyond the end of a short observation.
                let head: [R; HEAD] = std::array::from_fn(|at| obs.as_ref().get(at).copied().unwrap_or(reward));
                self.guard.judge(reward, Rule::lanes, |signal| head[signal.index() % HEAD], hear)
            } else {
                // Copies: what is found by its number is in memory, and only guards that look beyond the head
                // shall pay for that.
                let (obs, state, action) = (obs, self.state, action);
                let signal = |signal| match signal {
                    Signal::Observation(at) => obs.as_ref()[at],
                    Signal::State(at) => field_of(state, at),
                    Signal::Action(at) => action.component(at),
                };
                self.guard.judge(reward, Rule::lanes, signal, hear)
            };
            reward = verdict.reward;
            terminated = terminated | verdict.terminates;
            self.episode_cost = self.episode_cost.wrapping_add(verdict.cost);
        }
        self.episode_return = self.episode_return + reward;
        // The count goes up by one and an episode ends at the limit, so `==` is `>=`, and cheaper.
        let truncated = self.steps.eq(self.max_steps);
        Transition { obs, reward, terminated, truncated }
    }

    /// Starts the next episode in some lanes, from start states that are given.
    ///
    /// No branch: which lanes end when is as good as random, and a mispredicted branch costs more than
    /// the selections.
    #[inline(always)]
    fn restart(&mut self, lanes: R::Mask, start: E::State<R>) {
        self.state = LaneStruct::select(lanes, start, self.state);
        self.episode = self.episode.wrapping_add(R::Uint::masked(lanes, 1));
        self.steps = self.steps.keep(!lanes);
        self.episode_return = self.episode_return.keep(!lanes);
        if SAFE {
            self.episode_cost = self.episode_cost.keep(!lanes);
        }
    }

    /// Does what follows a step in a roll-out: notes and restarts what has ended. Answers the
    /// observations for the next decision and what new episodes add to the checksum.
    #[inline(always)]
    fn finish(
        &mut self,
        transition: Transition<E, R>,
        spare: &mut Spare<E, R>,
        exist: u32,
        tally: &mut Tally,
    ) -> (E::Obs<R>, R::Uint) {
        let done = transition.done();
        if SAFE {
            tally.cost::<R>(self.episode_cost);
        }
        tally.note(done.bits() & exist, self.episode_return, self.steps);
        self.restart(done, spare.state);
        spare.stale = spare.stale | done;
        (LaneArray::select(done, spare.obs, transition.obs), spare.checksum.keep(done))
    }

    #[inline(always)]
    fn store(&self, cells: Cells<'_, Line>, lane: usize) {
        self.state.store(cells.rows, lane);
        self.steps.store(&mut cells.book[STEPS], lane);
        self.episode.store(&mut cells.book[EPISODE], lane);
        self.episode_return.store(&mut cells.book[RETURN], lane);
        if SAFE {
            self.episode_cost.store(&mut cells.book[COST], lane);
        }
    }
}

/// A field of the state, lane by lane: slow, but few constraints look at what is not observed.
#[inline(never)]
fn field_of<S: LaneStruct<R>, R: Lanes>(state: S, field: usize) -> R {
    R::from_lanes(|lane| state.value(field, lane))
}

/// The start states of an episode.
#[inline(always)]
fn draw_start<E: LaneEnv, R: Lanes>(
    env: &E,
    params: &E::Params<R>,
    stream: &Stream<R>,
    episode: R::Uint,
) -> E::State<R> {
    env.reset(params, &mut stream.draws(Purpose::Reset, episode, R::Uint::splat(0)))
}

/// New spares for all lanes of a group.
///
/// Out of line, because it is rare and what is around it needs the registers; by value, because a
/// reference into the group would pin the whole group to memory, which cost almost half the speed.
#[inline(never)]
fn draw_spare<E: LaneEnv, R: Lanes>(env: &E, params: E::Params<R>, stream: Stream<R>, episode: R::Uint) -> Spare<E, R> {
    let state = draw_start(env, &params, &stream, episode.wrapping_add(R::Uint::splat(1)));
    let obs = env.observe(&params, &state);
    Spare { state, obs, checksum: start_word(obs.as_ref()), stale: Mask::splat(false) }
}

impl<E: LaneEnv, R: Lanes> LaneKernel<E, R> {
    pub(super) fn new(env: E, params: Params, guard: Guard) -> Self {
        const { assert!(<E::State<R> as LaneStruct<R>>::NAMES.len() <= MAX_FIELDS) };
        let spec = env.spec();
        let choices = if let ActionSpace::Discrete { n } = spec.action { n } else { 0 };
        assert!(spec.action_mask == ActionMask::None || choices <= u32::BITS, "a mask is one word of actions");
        Self { plant: Plant { env, params, guard, choices }, lanes: std::marker::PhantomData }
    }
}

impl<E: LaneEnv> Plant<E> {
    #[inline(always)]
    fn load<R: Lanes, const SAFE: bool>(
        &self,
        at: At<'_>,
        rows: &[Line],
        book: &[Line],
        lane: usize,
    ) -> Group<'_, E, R, SAFE> {
        let state = LaneStruct::load(rows, lane);
        Group {
            env: &self.env,
            guard: &self.guard,
            params: self.params.load(at.block, lane),
            stream: at.streams.load(at.block, lane),
            max_steps: R::Uint::splat(at.max_steps),
            state,
            steps: Stored::load(&book[STEPS], lane),
            episode: Stored::load(&book[EPISODE], lane),
            episode_return: Stored::load(&book[RETURN], lane),
            episode_cost: if SAFE { Stored::load(&book[COST], lane) } else { R::Uint::splat(0) },
        }
    }

    /// Loads the `envs` environments of the group at `lane` of a block and steps them.
    #[inline(always)]
    fn begin_step<R: Lanes, const SAFE: bool>(
        &self,
        work: &StepWork<'_>,
        block: usize,
        (lane, envs): (usize, usize),
    ) -> Begun<'_, E, R, SAFE> {
        let (rows, book) = (&work.rows[block * work.width..], &work.book[block * BOOK_LINES..]);
        let at = At { block: work.at.block + block, ..work.at };
        let mut group: Group<'_, E, R, SAFE> = self.load(at, &rows[..work.width], &book[..BOOK_LINES], lane);
        let ended = group.steps.ge(R::Uint::splat(ENDED));
        let action = LaneAction::gather(work.actions, block * BLOCK + lane, envs);
        let mut violated = R::Uint::splat(0);
        let transition = group.step(action, None, |i, one| violated = violated | one.shl(i as u32));
        Begun { group, transition, violated, ended }
    }

    /// Stores the group, writes what the step gave and notes what has ended. No branch on data: which lanes
    /// end when is as good as random, and the ends of a whole tile are handled together, later.
    #[inline(always)]
    fn complete_step<R: Lanes, const SAFE: bool>(
        &self,
        work: &mut StepWork<'_>,
        block: usize,
        (lane, envs): (usize, usize),
        begun: Begun<'_, E, R, SAFE>,
    ) {
        let Begun { mut group, transition, violated, ended } = begun;
        let Transition { obs, reward, terminated, truncated } = transition;
        let exist = !0_u32 >> (32 - envs);
        if E::COUNTS {
            let stepped = !ended.bits() & exist;
            for (sum, count) in work.counts.iter_mut().zip(group.env.counts(&group.state)) {
                let lanes = (0..envs).filter(|lane| stepped >> lane & 1 == 1);
                *sum += lanes.map(|lane| u64::from(count.lane(lane))).sum::<u64>();
            }
        }
        // An episode that had already ended makes a step that does not count.
        let done = (terminated | truncated) & !ended;
        group.steps = group.steps | R::Uint::masked(done, ENDED);
        let first = block * BLOCK + lane;
        set_bits(&mut work.done, first, done.bits() & exist);
        set_bits(&mut work.ended, first, ended.bits() & exist);
        let (rows, book) = (&mut work.rows[block * work.width..], &mut work.book[block * BOOK_LINES..]);
        group.store(Cells { rows: &mut rows[..work.width], book: &mut book[..BOOK_LINES] }, lane);
        let (out, dim, all) = (&mut work.out, obs.as_ref().len(), first..first + envs);
        obs.write_rows(envs, &mut out.obs[first * dim..(first + envs) * dim]);
        write_lanes(reward, &mut out.rewards[all.clone()]);
        write_bits(terminated.bits(), &mut out.terminated[all.clone()]);
        write_bits(truncated.bits(), &mut out.truncated[all.clone()]);
        if SAFE {
            write_words::<R>(violated, &mut out.violations[all]);
        }
    }

    /// Steps a tile of blocks.
    fn step_tile<R: Lanes, const SAFE: bool>(&self, work: &mut StepWork<'_>) {
        for block in 0..work.book.len() / BOOK_LINES {
            let at = At { block: work.at.block + block, ..work.at };
            if const { 2 * R::LANES == BLOCK } && at.envs() == BLOCK {
                // Both halves step before either writes: their chains of arithmetic overlap. And all sizes
                // are known at compile time.
                let (left, right) = ((0, R::LANES), (R::LANES, R::LANES));
                let first = self.begin_step::<R, SAFE>(work, block, left);
                let second = self.begin_step::<R, SAFE>(work, block, right);
                self.complete_step(work, block, left, first);
                self.complete_step(work, block, right, second);
            } else {
                for group in at.groups::<R>() {
                    let begun = self.begin_step::<R, SAFE>(work, block, group);
                    self.complete_step(work, block, group, begun);
                }
            }
        }
        if work.done != Bits::default() {
            write_finals::<SAFE>(work);
        }
        // With autoreset disabled nothing has ended before.
        let over = if work.mode == Autoreset::SameStep { work.done } else { work.ended };
        if over != Bits::default() {
            self.start_next::<R, SAFE>(work, &over);
        }
    }

    /// Starts the next episode of some environments of a tile, wherever they are: as many at once as there
    /// are lanes. Drawing a start state costs as much for one lane as for all.
    #[inline(never)]
    fn start_next<R: Lanes, const SAFE: bool>(&self, work: &mut StepWork<'_>, over: &Bits) {
        let mut envs = [0; BLOCK];
        let mut waiting = 0;
        for env in envs_of(over) {
            envs[waiting] = env;
            waiting += 1;
            if waiting == R::LANES {
                self.start_group::<R>(work, &envs[..R::LANES]);
                waiting = 0;
            }
        }
        if waiting > 0 {
            self.start_group::<R>(work, &envs[..waiting]);
        }
        if SAFE && work.mode == Autoreset::NextStep {
            envs_of(over).for_each(|env| work.out.violations[env] = 0);
        }
    }

    fn start_group<R: Lanes>(&self, work: &mut StepWork<'_>, envs: &[usize]) {
        let place = |lane: usize| {
            let env = envs[lane.min(envs.len() - 1)];
            (env / BLOCK, env % BLOCK)
        };
        let mut line = Line::default();
        for lane in 0..R::LANES {
            let (block, at) = place(lane);
            line.0[lane] = work.book[block * BOOK_LINES + EPISODE].0[at].wrapping_add(1);
        }
        let episode = R::Uint::load(&line, 0);
        let first_env = work.at.first_env();
        let stream = work.at.streams.gather::<R>(|lane| first_env + envs[lane.min(envs.len() - 1)]);
        let params = self.params.gather::<R, E::Params<R>>(|lane| {
            let (block, at) = place(lane);
            (work.at.block + block, at)
        });
        let state = draw_start(&self.env, &params, &stream, episode);
        let obs = self.env.observe(&params, &state);
        let mut lines = [Line::default(); MAX_FIELDS];
        let lines = &mut lines[..<E::State<R> as LaneStruct<R>>::NAMES.len()];
        state.store(lines, 0);
        for (lane, &env) in envs.iter().enumerate() {
            let (block, at) = (env / BLOCK, env % BLOCK);
            for (row, line) in work.rows[block * work.width..].iter_mut().zip(&*lines) {
                row.0[at] = line.0[lane];
            }
            let book = &mut work.book[block * BOOK_LINES..];
            book[STEPS].0[at] = 0;
            book[EPISODE].0[at] = book[EPISODE].0[at].wrapping_add(1);
            book[RETURN].0[at] = 0;
            book[COST].0[at] = 0;
            if work.mode == Autoreset::NextStep {
                work.out.rewards[env] = 0.0;
                work.out.terminated[env] = false;
                work.out.truncated[env] = false;
            }
        }
        let dim = obs.as_ref().len();
        for (k, column) in obs.as_ref().iter().enumerate() {
            let mut values = [0.0; BLOCK];
            column.write_to(&mut values);
            for (env, value) in envs.iter().zip(values) {
                work.out.obs[env * dim + k] = value;
            }
        }
    }

    /// The roll-out's inner loop.
    #[inline(always)]
    fn advance<R: Lanes, P: LanePolicy, const SAFE: bool>(
        &self,
        at: At<'_>,
        cells: Cells<'_, Line>,
        run: &mut [Line],
        policy: &P,
        (first_tick, steps, begins): (u64, usize, bool),
        tally: &mut Tally,
    ) {
        let Cells { rows, book } = cells;
        let (checksum_line, memory_lines) = run.split_first_mut().expect("the checksum has a line");
        for (lane, envs) in at.groups::<R>() {
            let mut group: Group<'_, E, R, SAFE> = self.load(at, rows, book, lane);
            let mut counts = [R::Uint::splat(0); COUNTERS];
            let mut violations = [R::Uint::splat(0); MAX_CONSTRAINTS];
            let mut checksum = R::Uint::load(checksum_line, lane);
            let mut memory = policy.load_memory::<R>(memory_lines, lane);
            let mut scratch = policy.scratch();
            let exist = !0_u32 >> (32 - envs);
            let mut obs = group.observe();
            // Nothing but staleness counts until spares are drawn.
            let mut spare = Spare { state: group.state, obs, checksum, stale: Mask::splat(true) };
            if begins {
                checksum = checksum.wrapping_add(start_word(obs.as_ref()));
            }
            // A copy: a reference into the group would pin the whole group to memory.
            let stream = group.stream;
            let mut unfinished = None;
            let mut counted_until = first_tick;
            let (mut tick, mut ready, end) = (first_tick, first_tick, first_tick + steps as u64);
            while tick < end {
                // All that is rare or calls anything happens out here. The loop inside then keeps the
                // whole group in registers; a call in it, however rare, cost a fifth of the speed.
                if tick == ready {
                    ready += policy.replenish(&stream, tick, (end - tick) as usize, &mut scratch) as u64;
                }
                let pause = ready.min(tick + tally.room() as u64);
                while tick < pause {
                    let moment = Moment { stream: &stream, tick, step: group.steps };
                    let mut decision = Decision::new(policy, moment, obs.as_ref(), &mut memory, &mut scratch);
                    if E::MASKED {
                        decision = decision.among(group.env.legal(&group.params, &group.state));
                    }
                    let action = LaneAction::from_decision(&mut decision);
                    let hear = |i: usize, one| violations[i] = violations[i].wrapping_add(one);
                    let transition = group.step(action, Some(&obs), hear);
                    // Before the loop can be left: a policy that does not look at observations then has no
                    // use for them any more, and they need not wait in memory.
                    checksum = transition.fold_into(checksum);
                    tick += 1;
                    if E::COUNTS {
                        let new = group.env.counts(&group.state);
                        counts.iter_mut().zip(new).for_each(|(sum, new)| *sum = sum.wrapping_add(new));
                    }
                    if E::LONG_EPISODES && !transition.done().any() {
                        obs = transition.obs;
                        continue;
                    }
                    if (transition.done() & spare.stale).any() {
                        unfinished = Some(transition);
                        break;
                    }
                    let (next, start) = group.finish(transition, &mut spare, exist, tally);
                    (obs, checksum) = (next, checksum.wrapping_add(start));
                }
                // Seldom, but before a lane's sum can run over: it grows by no more than 1 in a step.
                if SAFE && (tick == end || tick - counted_until >= 1 << 31) {
                    counted_until = tick;
                    for (i, counts) in violations.iter_mut().take(self.guard.constraints()).enumerate() {
                        tally.violations::<R>(exist, i, std::mem::replace(counts, R::Uint::splat(0)));
                    }
                }
                // An environment may count much more.
                if E::COUNTS {
                    tally.counts::<R>(exist, std::mem::replace(&mut counts, [R::Uint::splat(0); COUNTERS]));
                }
                if let Some(transition) = unfinished.take() {
                    spare = draw_spare(group.env, group.params, group.stream, group.episode);
                    let (next, start) = group.finish(transition, &mut spare, exist, tally);
                    (obs, checksum) = (next, checksum.wrapping_add(start));
                }
            }
            policy.store_memory(&memory, memory_lines, lane);
            checksum.store(checksum_line, lane);
            group.store(Cells { rows, book }, lane);
        }
    }
}

/// Writes the `final_*` arrays of a tile where episodes have just ended.
#[inline(never)]
fn write_finals<const SAFE: bool>(work: &mut StepWork<'_>) {
    let dim = work.out.obs.len() / work.out.rewards.len();
    for env in envs_of(&work.done) {
        let row = env * dim..(env + 1) * dim;
        let (out, book, at) = (&mut work.out, &work.book[env / BLOCK * BOOK_LINES..], env % BLOCK);
        out.final_obs[row.clone()].copy_from_slice(&out.obs[row]);
        out.final_returns[env] = f32::from_bits(book[RETURN].0[at]);
        out.final_lengths[env] = book[STEPS].0[at] & !ENDED;
        if SAFE {
            out.final_costs[env] = book[COST].0[at];
        }
    }
}

impl<E: LaneEnv, R: Lanes> Kernel for LaneKernel<E, R> {
    type Row = Line;
    type Elem = f32;

    fn rows_per_block(&self) -> usize {
        // A stateless environment has a row all the same, so that blocks can be told apart.
        <E::State<R> as LaneStruct<R>>::NAMES.len().max(1)
    }

    fn lanes(&self) -> usize {
        R::LANES
    }

    fn reset(&self, at: At<'_>, cells: Cells<'_, Line>, lanes: u32) {
        let Cells { rows, book } = cells;
        for (lane, _) in at.groups::<R>() {
            let chosen = R::Mask::from_bits(lanes >> lane);
            if !chosen.any() {
                continue;
            }
            let mut group: Group<'_, E, R, true> = self.plant.load(at, rows, book, lane);
            group.state = LaneStruct::select(
                chosen,
                draw_start(group.env, &group.params, &group.stream, group.episode),
                group.state,
            );
            group.steps = group.steps.keep(!chosen);
            group.episode_return = group.episode_return.keep(!chosen);
            group.episode_cost = group.episode_cost.keep(!chosen);
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
        out: Out<'_, f32>,
        stats: &mut EpisodeStats,
    ) {
        let Cells { rows, book } = cells;
        let (width, counts) = (self.rows_per_block(), [0; COUNTERS]);
        let (done, ended) = (Bits::default(), Bits::default());
        let mut work = StepWork { at, rows, book, width, actions, mode, out, counts, done, ended };
        if self.plant.guard.is_active() {
            self.plant.step_tile::<R::ForSteps, true>(&mut work);
        } else {
            self.plant.step_tile::<R::ForSteps, false>(&mut work);
        }
        stats.add_counts(work.counts);
    }

    fn observe(&self, at: At<'_>, rows: &[Line], obs: &mut [f32]) {
        let book = [Line::default(); BOOK_LINES];
        for (lane, envs) in at.groups::<R>() {
            let seen = self.plant.load::<R, false>(at, rows, &book, lane).observe();
            let dim = seen.as_ref().len();
            seen.write_rows(envs, &mut obs[lane * dim..]);
        }
    }

    fn action_masks(&self, at: At<'_>, rows: &[Line], masks: &mut [bool]) {
        let book = [Line::default(); BOOK_LINES];
        let n = self.plant.choices as usize;
        for (lane, envs) in at.groups::<R>() {
            let group = self.plant.load::<R, false>(at, rows, &book, lane);
            let legal = group.env.legal(&group.params, &group.state);
            for (env, mask) in masks[lane * n..(lane + envs) * n].chunks_exact_mut(n).enumerate() {
                let bits = legal.lane(env);
                mask.iter_mut().enumerate().for_each(|(i, flag)| *flag = bits >> i & 1 == 1);
            }
        }
    }

    fn illegal(&self, at: At<'_>, rows: &[Line], actions: &[i32]) -> u32 {
        let book = [Line::default(); BOOK_LINES];
        at.groups::<R>().fold(0, |illegal, (lane, envs)| {
            let group = self.plant.load::<R, false>(at, rows, &book, lane);
            let legal = group.env.legal(&group.params, &group.state);
            (0..envs).fold(illegal, |bits, env| bits | (!legal.lane(env) >> actions[lane + env] & 1) << (lane + env))
        })
    }

    fn choose_legal(&self, at: At<'_>, rows: &[Line], lane: usize, _: usize, below: &dyn Fn(u32) -> u32) -> u32 {
        let first = lane / R::LANES * R::LANES;
        let group = self.plant.load::<R, false>(at, rows, &[Line::default(); BOOK_LINES], first);
        let legal = group.env.legal(&group.params, &group.state).lane(lane - first);
        match rng::count_bits(legal, self.plant.choices) {
            0 => 0,
            count => rng::ranked_bit(legal, below(count), self.plant.choices),
        }
    }

    fn guard(&self) -> &Guard {
        &self.plant.guard
    }

    fn can_advance(&self, policy: &Policy) -> bool {
        !matches!(policy, Policy::Tile(_))
    }

    fn advance(&self, at: At<'_>, cells: Cells<'_, Line>, run: &mut [Line], stretch: Stretch<'_>, tally: &mut Tally) {
        let span = (stretch.tick, stretch.steps, stretch.begins);
        // The widest lanes without constraints have code of their own for each policy. All else shares one,
        // which compiles in a third of the time.
        if const { R::LANES == BLOCK } {
            match stretch.policy {
                Policy::Random(policy) if !self.plant.guard.is_active() => {
                    return self.plant.advance::<R, _, false>(at, cells, run, policy, span, tally);
                }
                Policy::Random(policy) => {
                    return self.plant.advance::<R, _, true>(at, cells, run, policy, span, tally);
                }
                Policy::Controller(policy) if !self.plant.guard.is_active() => {
                    return self.plant.advance::<R, _, false>(at, cells, run, policy, span, tally);
                }
                _ => {}
            }
        }
        self.plant.advance::<R, _, true>(at, cells, run, stretch.policy, span, tally);
    }

    fn state(&self, rows: &[Line], lane: usize) -> Vec<f64> {
        let state = E::State::<f32>::load(rows, lane);
        (0..E::State::<f32>::NAMES.len()).map(|field| state.value(field, 0)).collect()
    }

    fn set_state(&self, rows: &mut [Line], lane: usize, values: &[f64]) -> Result<()> {
        check_lane_state(&self.plant.env, values)?;
        E::State::<f32>::from_values(|field, _| values[field]).store(rows, lane);
        Ok(())
    }

    fn param(&self, name: &str, env: usize) -> Result<f64> {
        self.plant.params.get(name, env)
    }

    fn set_param(&mut self, name: &str, values: &[f64], num_envs: usize) -> Result<()> {
        let mut changed = self.plant.params.clone();
        changed.set_named(name, values, num_envs)?;
        check_params(&self.plant.env, &changed, num_envs)?;
        self.plant.params = changed;
        Ok(())
    }

    fn params_bytes(&self) -> Vec<u8> {
        self.plant.params.bytes()
    }

    fn restore_params(&mut self, bytes: &[u8], num_envs: usize) -> Result<()> {
        self.plant.params.restore(bytes, num_envs)
    }

    fn blank_padding(&self, rows: &mut [Line], envs: usize) {
        rows.iter_mut().for_each(|line| line.0[envs..].fill(0));
    }

    fn copy_env(&self, from: &[Line], to: &mut [Line], lane: usize) {
        copy_lane(from, to, lane);
    }

    fn params_memory(&self) -> usize {
        self.plant.params.memory()
    }
}

/// Checks every environment's parameters against each other.
pub(super) fn check_params<E: LaneEnv>(env: &E, params: &Params, num_envs: usize) -> Result<()> {
    (0..if params.vary() { num_envs } else { 1 }).try_for_each(|i| {
        let inconsistent = |why| Error::Inconsistent { env: env.spec().name.to_owned(), why };
        env.check_params(&params.of_env(i)).map_err(inconsistent)
    })
}

/// Checks a state that a user gives.
pub(crate) fn check_state(spec: &EnvSpec, values: &[f64]) -> Result<()> {
    let names = spec.state_names;
    check_len(&format!("the state ({})", names.join(", ")), values.len(), names.len())?;
    // Batches store single precision, in which a large number is infinite.
    match values.iter().position(|value| !(*value as f32).is_finite()) {
        None => Ok(()),
        Some(at) => {
            let allowed = format!("a finite number of at most {:e}", f32::MAX);
            Err(Error::out_of_range(format!("{} of the state", names[at]), values[at], allowed))
        }
    }
}

/// Checks a state that a user gives to an environment in lanes.
pub(crate) fn check_lane_state<E: LaneEnv>(env: &E, values: &[f64]) -> Result<()> {
    let spec = env.spec();
    check_state(&spec, values)?;
    // Double precision holds every number but what an integer cannot be.
    let state = E::State::<f64>::from_values(|field, _| values[field]);
    if let Some(field) = (0..values.len()).find(|field| state.value(*field, 0) != values[*field]) {
        let what = format!("{} of the state", spec.state_names[field]);
        return Err(Error::out_of_range(what, values[field], format!("a whole number from 0 to {}", u32::MAX)));
    }
    env.check_state(&state).map_err(|why| Error::ImpossibleState { env: spec.name.to_owned(), why })
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
fn write_words<R: Lanes>(words: R::Uint, out: &mut [u32]) {
    let mut line = Line::default();
    words.store(&mut line, 0);
    out.copy_from_slice(&line.0[..out.len()]);
}

/// Writes bit `i` to flag `i`.
#[inline(always)]
fn write_bits(bits: u32, out: &mut [bool]) {
    for (group, flags) in out.chunks_mut(8).enumerate() {
        // Each byte gets a copy of the eight bits, keeps its own, and becomes 1 if that is set. Left to
        // itself the compiler goes bit by bit through memory, at five times the cost of a whole step.
        let copies = u64::from((bits >> (8 * group)) as u8).wrapping_mul(0x0101_0101_0101_0101);
        let own = copies & 0x8040_2010_0804_0201;
        let ones = (own.wrapping_add(0x7f7f_7f7f_7f7f_7f7f) >> 7) & 0x0101_0101_0101_0101;
        let bytes = ones.to_le_bytes();
        if let Ok(flags) = <&mut [bool; 8]>::try_from(&mut *flags) {
            *flags = bytes.map(|byte| byte != 0);
        } else {
            flags.iter_mut().zip(bytes).for_each(|(flag, byte)| *flag = byte != 0);
        }
    }
}
