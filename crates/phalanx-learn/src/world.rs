//! The environments that an agent learns on, as it sees them: observations with their past, masks, true ends.
//!
//! A new episode starts in the step that ends the last one, so that every step is a transition. Where an episode
//! ended, [`World::end_obs`] is the true next observation and [`World::obs`] the first of the next episode. Only between
//! the two can be asked what was legal at the end: for agents that need to know ([`World::with_end_masks`]) the engine
//! leaves it to the world to start the next episode.

use phalanx_core::batch::{Actions, Autoreset, Batch, ObsMut, Reset, StepBuffers};
use phalanx_core::space::{ActionMask, ActionSpace, Element, EnvSpec};

use crate::error::{Error, Result};
use crate::learner::{EndedEpisode, Report};
use crate::memory::Bytes;
use crate::state::State;

/// Environments and the arrays that their steps write to.
pub struct World {
    batch: Box<dyn Batch>,
    buffers: StepBuffers,
    /// The last frames of each environment, the oldest first; empty if only the present is seen.
    past: Vec<f32>,
    /// The same at the ends of episodes.
    end_past: Vec<f32>,
    /// The actions of the last step, if they are seen.
    acted: Vec<f32>,
    sight: Sight,
    /// Which actions are legal; empty if all always are.
    masks: Vec<bool>,
    /// The same at the ends of episodes; empty also if nobody asks.
    end_masks: Vec<bool>,
    /// Where the last step was an end of either kind, if the world starts the next episodes.
    ended: Vec<bool>,
}

/// How much of the past an agent sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Observations, the newest last; before the first there are zeros.
    pub frames: usize,
    /// Whether each comes with the action that led to it: a 1 in the place of each choice, or the values of a continuous
    /// action. What the environment hides can follow from what was done to it.
    pub actions: bool,
}

impl Sight {
    /// Nothing but the present observation.
    pub const PRESENT: Self = Self { frames: 1, actions: false };

    /// Reals of one frame.
    fn frame_width(self, spec: &EnvSpec) -> usize {
        spec.observation.dim() + if self.actions { action_width(&spec.action) } else { 0 }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("env", &self.spec().name).field("num_envs", &self.num_envs()).finish()
    }
}

impl World {
    /// Who starts the next episodes, for agents that need to know what was legal at the end of one: those that take the
    /// best action there for what follows a step limit.
    pub fn with_end_masks(spec: &EnvSpec) -> Autoreset {
        // Without masks there is nothing to ask, and the engine is faster.
        if spec.action_mask == ActionMask::None { Autoreset::SameStep } else { Autoreset::Disabled }
    }

    /// Starts the environments of a batch, whose next episodes start in the same step, or are left to the world.
    pub fn new(mut batch: Box<dyn Batch>, sight: Sight) -> Result<Self> {
        assert_ne!(batch.autoreset(), Autoreset::NextStep, "every step of a learner is a transition");
        let spec = batch.spec();
        if spec.observation.element != Element::F32 {
            let why = format!("is {}, whose observations are bytes: agents of a run see real numbers only", spec.name);
            return Err(Error::setting("env.name", why));
        }
        if sight.frames == 0 {
            return Err(Error::setting("agent.frame_stack_n", "is 0, but must be at least 1"));
        }
        let (num_envs, dim) = (batch.num_envs(), spec.observation.dim());
        let flags = spec.action.mask_len().filter(|_| spec.action_mask != ActionMask::None).unwrap_or(0);
        let frame_width = sight.frame_width(spec);
        let shape = if sight == Sight::PRESENT { [num_envs, 0, 0] } else { [num_envs, frame_width, sight.frames] };
        let stacks = Bytes::of::<f32>(&shape).times(2);
        stacks.require("agent.frame_stack_n", sight.frames, "the stacked observations")?;
        let masks = vec![true; num_envs * flags];
        let starts_episodes = batch.autoreset() == Autoreset::Disabled;
        let mut buffers = StepBuffers::new(num_envs, dim);
        batch.reset_into(Reset::All, ObsMut::F32(&mut buffers.obs))?;
        let stacked: usize = shape.iter().product();
        let mut world = Self {
            batch,
            buffers,
            past: vec![0.0; stacked],
            end_past: vec![0.0; stacked],
            acted: vec![0.0; num_envs * (frame_width - dim)],
            sight,
            end_masks: if starts_episodes { masks.clone() } else { Vec::new() },
            ended: vec![false; if starts_episodes { num_envs } else { 0 }],
            masks,
        };
        world.see();
        Ok(world)
    }

    /// Names, spaces and limits.
    pub fn spec(&self) -> &EnvSpec {
        self.batch.spec()
    }

    /// Number of environments.
    pub fn num_envs(&self) -> usize {
        self.batch.num_envs()
    }

    /// Reals that an agent sees of one environment.
    pub fn obs_dim(&self) -> usize {
        self.sight.frame_width(self.spec()) * self.sight.frames
    }

    /// Where in a row of what is seen the environment's newest observation begins.
    pub fn newest(&self) -> usize {
        self.sight.frame_width(self.spec()) * (self.sight.frames - 1)
    }

    /// What is seen now, a row for each environment.
    pub fn obs(&self) -> &[f32] {
        if self.past.is_empty() { &self.buffers.obs } else { &self.past }
    }

    /// Which actions are legal now: a row of flags for each environment, or nothing if all always are.
    pub fn masks(&self) -> &[bool] {
        &self.masks
    }

    /// The rewards of the last step.
    pub fn rewards(&self) -> &[f32] {
        &self.buffers.rewards
    }

    /// Where the last step was the end of a task.
    pub fn terminated(&self) -> &[bool] {
        &self.buffers.terminated
    }

    /// Where the last step reached the step limit.
    pub fn truncated(&self) -> &[bool] {
        &self.buffers.truncated
    }

    /// The constraints that the last step violated in each environment, a bit each.
    pub fn violations(&self) -> &[u32] {
        &self.buffers.violations
    }

    /// The violations of the whole episode that the last step ended in this environment, summed over its single steps.
    pub fn end_cost(&self, env: usize) -> u32 {
        self.buffers.final_costs[env]
    }

    /// What was seen at the end of the episode that the last step ended in this environment.
    pub fn end_obs(&self, env: usize) -> &[f32] {
        let all = if self.past.is_empty() { &self.buffers.final_obs } else { &self.end_past };
        &all[env * self.obs_dim()..][..self.obs_dim()]
    }

    /// What was legal at the end of that episode; nothing if all always is, or if nobody asks.
    pub fn end_mask(&self, env: usize) -> &[bool] {
        let flags = self.end_masks.len() / self.num_envs();
        &self.end_masks[env * flags..][..flags]
    }

    /// Steps all environments; episodes that end are added to the report.
    pub fn step(&mut self, actions: Actions<'_>, report: &mut Report) -> Result<()> {
        self.batch.step_into(actions, self.buffers.out())?;
        let out = &self.buffers;
        for env in 0..out.rewards.len() {
            if out.terminated[env] | out.truncated[env] {
                report.episodes.add(EndedEpisode {
                    episode_return: out.final_returns[env],
                    length: out.final_lengths[env],
                    cost: out.final_costs[env],
                });
            }
        }
        if self.sight.actions {
            write_actions(&self.batch.spec().action, actions, &mut self.acted);
        }
        if !self.ended.is_empty() {
            self.start_episodes()?;
        }
        self.see();
        Ok(())
    }

    /// Asks what was legal at the ends of episodes, and starts the next ones.
    fn start_episodes(&mut self) -> Result<()> {
        let out = &mut self.buffers;
        let ends = out.terminated.iter().zip(&out.truncated).map(|(terminated, truncated)| terminated | truncated);
        self.ended.iter_mut().zip(ends).for_each(|(ended, is_end)| *ended = is_end);
        if !self.ended.contains(&true) {
            return Ok(());
        }
        if !self.end_masks.is_empty() {
            self.batch.action_masks_into(&mut self.end_masks)?;
            let rows = self.end_masks.chunks_exact(self.end_masks.len() / self.ended.len());
            for (env, mask) in rows.enumerate() {
                // Where nothing can be done there is no future, whatever the step limit says.
                out.terminated[env] |= out.truncated[env] && !mask.contains(&true);
            }
        }
        self.batch.reset_into(Reset::Mask(&self.ended), ObsMut::F32(&mut out.obs))?;
        Ok(())
    }

    /// Takes the newest observations into the past, and looks which actions are legal.
    fn see(&mut self) {
        if !self.masks.is_empty() {
            self.batch.action_masks_into(&mut self.masks).expect("a row of flags for each environment");
        }
        if self.past.is_empty() {
            return;
        }
        let (out, acted) = (&self.buffers, &self.acted);
        let num_envs = out.rewards.len();
        let (dim, action_width) = (out.obs.len() / num_envs, acted.len() / num_envs);
        let (frame, width) = (dim + action_width, self.past.len() / num_envs);
        for (env, past) in self.past.chunks_exact_mut(width).enumerate() {
            let shift = |past: &mut [f32], newest: &[f32]| {
                past.copy_within(frame.., 0);
                let (seen, done) = past[width - frame..].split_at_mut(dim);
                seen.copy_from_slice(&newest[env * dim..][..dim]);
                done.copy_from_slice(&acted[env * action_width..][..action_width]);
            };
            if out.terminated[env] | out.truncated[env] {
                let end = &mut self.end_past[env * width..][..width];
                end.copy_from_slice(past);
                shift(end, &out.final_obs);
                past.fill(0.0);
                shift(past, &out.obs);
                // Nothing that was done led to the first observation.
                past[width - action_width..].fill(0.0);
            } else {
                shift(past, &out.obs);
            }
        }
    }

    /// The number of choices of a discrete action space.
    pub fn choices(&self) -> Result<usize> {
        match self.spec().action {
            ActionSpace::Discrete { n } => Ok(n as usize),
            _ => Err(Error::setting(
                "env.name",
                format!(
                    "is {}, whose actions are {}: this agent needs one discrete action",
                    self.spec().name,
                    self.spec().action.kind()
                ),
            )),
        }
    }

    /// The bounds of a continuous action space.
    pub fn bounds(&self) -> Option<(&[f32], &[f32])> {
        match &self.spec().action {
            ActionSpace::Box { low, high } => Some((low, high)),
            _ => None,
        }
    }

    /// Everything needed to go on from here.
    pub fn save(&self) -> State {
        let mut state = State::default();
        let snapshot = self.batch.snapshot();
        state.put("environments", &[snapshot.len()], &snapshot);
        state.put("obs", &[self.buffers.obs.len()], &self.buffers.obs);
        state.put("past", &[self.past.len()], &self.past);
        state
    }

    /// Goes back to a saved state.
    pub fn restore(&mut self, state: &State) -> Result<()> {
        let past = state.get("past", &[self.past.len()])?;
        let obs = state.get("obs", &[self.buffers.obs.len()])?;
        self.batch.restore(state.get_all("environments")?)?;
        self.past.copy_from_slice(past);
        self.buffers.obs.copy_from_slice(obs);
        if !self.masks.is_empty() {
            self.batch.action_masks_into(&mut self.masks)?;
        }
        Ok(())
    }
}

/// Reals that an action takes in a frame.
fn action_width(action: &ActionSpace) -> usize {
    match action {
        ActionSpace::Discrete { n } => *n as usize,
        ActionSpace::MultiDiscrete { sizes } => sizes.iter().map(|size| *size as usize).sum(),
        ActionSpace::Box { low, .. } => low.len(),
    }
}

/// Writes a row for each action: a 1 in the place of each choice, or the values.
fn write_actions(space: &ActionSpace, actions: Actions<'_>, out: &mut [f32]) {
    match actions {
        Actions::Continuous(values) => out.copy_from_slice(values),
        Actions::Discrete(choices) => {
            out.fill(0.0);
            let components = space.components();
            for (row, choices) in out.chunks_exact_mut(action_width(space)).zip(choices.chunks_exact(components)) {
                let mut first = 0;
                for (k, choice) in choices.iter().enumerate() {
                    row[first + *choice as usize] = 1.0;
                    first += space.choices(k).expect("a discrete action has choices") as usize;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::batch::BatchConfig;

    use super::*;

    fn world(env: &str, frames: usize, max_steps: &str) -> World {
        seeing(env, Sight { frames, ..Sight::PRESENT }, max_steps)
    }

    fn seeing(env: &str, sight: Sight, max_steps: &str) -> World {
        let config = BatchConfig {
            num_envs: 3,
            seed: 5,
            autoreset: Autoreset::SameStep,
            settings: vec![("max_steps".to_owned(), max_steps.to_owned())],
            ..BatchConfig::default()
        };
        World::new(phalanx_envs::registry::find(env).unwrap().batch(&config).unwrap(), sight).unwrap()
    }

    #[test]
    fn the_past_starts_with_zeros_and_ends_with_the_present() {
        let (mut stacked, mut plain) = (world("CartPole-v1", 3, "2"), world("CartPole-v1", 1, "2"));
        let mut report = Report::default();
        let first = plain.obs()[..4].to_vec();
        assert_eq!(stacked.obs()[..12], [[0.0; 8].as_slice(), &first].concat());
        for world in [&mut stacked, &mut plain] {
            world.step(Actions::Discrete(&[1; 3]), &mut report).unwrap();
        }
        let second = plain.obs()[..4].to_vec();
        assert_eq!(stacked.obs()[..12], [&[0.0; 4], first.as_slice(), &second].concat());
        for world in [&mut stacked, &mut plain] {
            world.step(Actions::Discrete(&[1; 3]), &mut report).unwrap();
        }
        assert!(stacked.truncated()[0]);
        assert_eq!(stacked.end_obs(0), [first.as_slice(), &second, plain.end_obs(0)].concat());
        assert_eq!(stacked.obs()[..12], [&[0.0; 8], &plain.obs()[..4]].concat());
        assert_eq!(report.episodes.count(), 6);
        assert_eq!(report.episodes.mean_length(), Some(2.0));
    }

    #[test]
    fn each_frame_has_the_action_that_led_to_it() {
        let with_actions = |frames| seeing("CartPole-v1", Sight { frames, actions: true }, "2");
        let (mut stacked, mut single, mut plain) = (with_actions(2), with_actions(1), world("CartPole-v1", 1, "2"));
        let mut report = Report::default();
        let first = [&plain.obs()[4..8], &[0.0; 2]].concat();
        assert_eq!((stacked.obs_dim(), single.obs_dim()), (12, 6));
        assert_eq!(stacked.obs()[stacked.newest()..][..4], plain.obs()[..4]);
        assert_eq!(stacked.obs()[12..24], [&[0.0; 6], first.as_slice()].concat());
        assert_eq!(single.obs()[6..12], first);
        let mut step = |actions: [i32; 3], worlds: [&mut World; 3]| {
            for world in worlds {
                world.step(Actions::Discrete(&actions), &mut report).unwrap();
            }
        };
        step([0, 1, 0], [&mut stacked, &mut single, &mut plain]);
        let second = [&plain.obs()[4..8], &[0.0, 1.0]].concat();
        assert_eq!(stacked.obs()[12..24], [first, second.clone()].concat());
        assert_eq!(single.obs()[..6], [&plain.obs()[..4], &[1.0, 0.0]].concat());
        step([0, 0, 0], [&mut stacked, &mut single, &mut plain]);
        let end = [plain.end_obs(1), &[1.0, 0.0]].concat();
        assert_eq!(stacked.end_obs(1), [second, end.clone()].concat());
        assert_eq!(single.end_obs(1), end);
        let next = [&plain.obs()[4..8], &[0.0; 2]].concat();
        assert_eq!(stacked.obs()[12..24], [&[0.0; 6], next.as_slice()].concat());
        assert_eq!(single.obs()[6..12], next);
        let mut pendulum = seeing("Pendulum-v1", Sight { frames: 1, actions: true }, "5");
        pendulum.step(Actions::Continuous(&[0.5, -1.5, 2.0]), &mut report).unwrap();
        assert_eq!((pendulum.obs()[7], pendulum.obs()[11]), (-1.5, 2.0));
    }

    #[test]
    fn a_restored_world_goes_on_to_the_same_bits() {
        let make = || seeing("CartPole-v1", Sight { frames: 2, actions: true }, "7");
        let (mut one, mut other) = (make(), make());
        let mut report = Report::default();
        for _ in 0..5 {
            one.step(Actions::Discrete(&[0, 1, 0]), &mut report).unwrap();
        }
        other.restore(&one.save()).unwrap();
        for _ in 0..20 {
            for world in [&mut one, &mut other] {
                world.step(Actions::Discrete(&[1, 0, 1]), &mut report).unwrap();
            }
            assert_eq!(one.obs(), other.obs());
            assert_eq!(one.truncated(), other.truncated());
        }
    }

    /// Whoever starts the next episodes, they are the same; but who does so himself knows what was legal before.
    #[test]
    fn end_masks_are_those_of_the_last_observation() {
        let make = |autoreset| {
            let settings = vec![("max_steps".to_owned(), "3".to_owned())];
            let config = BatchConfig { num_envs: 20, seed: 5, autoreset, settings, ..BatchConfig::default() };
            phalanx_envs::registry::find("TicTacToe-v0").unwrap().batch(&config).unwrap()
        };
        let sight = Sight { frames: 2, actions: true };
        let mut plain = World::new(make(Autoreset::SameStep), sight).unwrap();
        let mut knowing = World::new(make(World::with_end_masks(plain.spec())), sight).unwrap();
        let (mut report, mut cuts) = (Report::default(), 0);
        for _ in 0..30 {
            let legal = |row: &[bool]| row.iter().position(|legal| *legal).unwrap() as i32;
            let actions: Vec<_> = plain.masks().chunks_exact(9).map(legal).collect();
            for world in [&mut knowing, &mut plain] {
                world.step(Actions::Discrete(&actions), &mut report).unwrap();
            }
            assert_eq!((knowing.obs(), knowing.masks()), (plain.obs(), plain.masks()));
            assert_eq!((knowing.rewards(), knowing.terminated()), (plain.rewards(), plain.terminated()));
            for env in (0..20).filter(|env| plain.truncated()[*env] && !plain.terminated()[*env]) {
                cuts += 1;
                let end = knowing.end_obs(env);
                assert_eq!(end, plain.end_obs(env));
                let free: Vec<bool> = end[knowing.newest()..][..9].iter().map(|cell| *cell == 0.0).collect();
                assert_eq!(knowing.end_mask(env), free);
                assert_ne!(knowing.end_mask(env), &knowing.masks()[env * 9..][..9]);
                assert!(plain.end_mask(env).is_empty());
            }
        }
        assert!(cuts > 20, "{cuts}");
    }

    #[test]
    fn masks_follow_the_state() {
        let mut world = world("TicTacToe-v0", 1, "9");
        let legal = |world: &World| world.masks()[..9].iter().filter(|legal| **legal).count();
        let before = legal(&world);
        let free = |world: &World, env: usize| world.masks()[env * 9..][..9].iter().position(|legal| *legal).unwrap();
        let actions: Vec<_> = (0..3).map(|env| free(&world, env) as i32).collect();
        world.step(Actions::Discrete(&actions), &mut Report::default()).unwrap();
        assert_eq!(legal(&world), before - 2);
    }
}
