//! Transitions to learn from again and again: a ring of rows, as one array for each thing that is kept.
//!
//! A row may span several steps (`n_step`). It keeps what the steps paid, discounted and summed up, and by how much the
//! value of what they led to still counts, so that its target is `reward + discount * value(next)` however many steps
//! it has and however it ended: the discount is 0 only where the task itself ended.

use crate::error::{Error, Result};
use crate::memory::Bytes;
use crate::random::Random;
use crate::state::State;
use crate::world::World;

/// How a transition ended, as [`Replay::ends`] keeps it.
const GOES_ON: u8 = 0;
const TERMINATED: u8 = 1;
const TRUNCATED: u8 = 2;

/// The sizes that the memory of a [`Replay`] depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The most transitions that are kept.
    pub capacity: usize,
    /// Environments that they come from.
    pub num_envs: usize,
    /// Reals of an observation.
    pub obs_dim: usize,
    /// Flags of a mask; 0 if all actions are always legal.
    pub flags: usize,
    /// The steps that a transition spans, unless the episode ends before.
    pub n_step: usize,
    /// The discount factor.
    pub gamma: f64,
}

impl Shape {
    /// The bytes that a buffer of this shape will take, or nothing if there are more than can be counted.
    pub fn bytes(&self) -> Option<usize> {
        self.counted().count()
    }

    pub(super) fn counted(&self) -> Bytes {
        let Self { capacity, obs_dim, flags, .. } = *self;
        let reals = |count: usize, width: usize| Bytes::of::<f32>(&[count, width]);
        // Two observations, action, reward, discount, how it ended, and the next mask.
        let rows = reals(capacity, obs_dim).times(2).and(reals(capacity, 3));
        let rows = rows.and(Bytes::of::<u8>(&[capacity])).and(Bytes::of::<bool>(&[capacity, flags]));
        rows.and(self.windows())
    }

    /// An observation, action and reward for each step of a window, and how many there are.
    fn windows(&self) -> Bytes {
        let Self { num_envs, obs_dim, n_step, .. } = *self;
        let reals = |width: usize| Bytes::of::<f32>(&[num_envs, width]);
        reals(obs_dim).and(reals(2)).times(n_step).and(reals(1))
    }
}

/// The last transitions of some environments.
#[derive(Clone, Debug)]
pub struct Replay {
    shape: Shape,
    obs: Vec<f32>,
    next_obs: Vec<f32>,
    actions: Vec<i32>,
    rewards: Vec<f32>,
    discounts: Vec<f32>,
    next_masks: Vec<bool>,
    /// The values of targets need no flags; statistics do.
    ends: Vec<u8>,
    len: usize,
    /// Where the next transition goes.
    next: usize,
    windows: Windows,
}

/// The steps of each environment that are not a transition yet.
#[derive(Clone, Debug)]
struct Windows {
    obs: Vec<f32>,
    actions: Vec<i32>,
    rewards: Vec<f32>,
    counts: Vec<u32>,
}

impl Replay {
    /// An empty buffer.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, with the bytes that it would take.
    pub fn new(shape: Shape) -> Result<Self> {
        let Shape { capacity, num_envs, obs_dim, flags, n_step, .. } = shape;
        shape.windows().require("agent.n_step", n_step, "the steps of the transitions that are not complete")?;
        shape.counted().require("run.buffer_size", capacity, "the replay buffer")?;
        Ok(Self {
            obs: vec![0.0; capacity * obs_dim],
            next_obs: vec![0.0; capacity * obs_dim],
            actions: vec![0; capacity],
            rewards: vec![0.0; capacity],
            discounts: vec![0.0; capacity],
            next_masks: vec![false; capacity * flags],
            ends: vec![0; capacity],
            len: 0,
            next: 0,
            windows: Windows {
                obs: vec![0.0; num_envs * n_step * obs_dim],
                actions: vec![0; num_envs * n_step],
                rewards: vec![0.0; num_envs * n_step],
                counts: vec![0; num_envs],
            },
            shape,
        })
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        (self.len, self.next) = (0, 0);
        self.windows.counts.fill(0);
    }

    /// The number of transitions.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no transition yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The share of transitions that were cut off by a time limit.
    pub fn truncated_share(&self) -> f64 {
        let count = self.ends[..self.len].iter().filter(|end| **end == TRUNCATED).count();
        count as f64 / self.len.max(1) as f64
    }

    /// Takes what was seen and done before a step; [`Replay::push`] takes what came of it.
    pub fn begin(&mut self, obs: &[f32], actions: &[i32]) {
        let Shape { obs_dim, n_step, .. } = self.shape;
        let windows = &mut self.windows;
        for (env, &action) in actions.iter().enumerate() {
            let place = env * n_step + windows.counts[env] as usize;
            windows.obs[place * obs_dim..][..obs_dim].copy_from_slice(&obs[env * obs_dim..][..obs_dim]);
            windows.actions[place] = action;
        }
    }

    /// Takes what came of a step of all environments, with rewards multiplied by `reward_scale`.
    pub fn push(&mut self, world: &World, reward_scale: f32) {
        let (dim, flags) = (self.shape.obs_dim, self.shape.flags);
        for env in 0..self.shape.num_envs {
            let reward = reward_scale * world.rewards()[env];
            let end = match (world.terminated()[env], world.truncated()[env]) {
                (true, _) => TERMINATED,
                (false, true) => TRUNCATED,
                (false, false) => GOES_ON,
            };
            match end {
                GOES_ON => {
                    let mask = &world.masks()[env * flags..][..flags];
                    self.step(env, reward, end, &world.obs()[env * dim..][..dim], mask);
                }
                TRUNCATED => self.step(env, reward, end, world.end_obs(env), world.end_mask(env)),
                // Nothing follows, so it does not matter what is legal: all, or a best action could not be found.
                _ => self.step(env, reward, end, world.end_obs(env), &[]),
            }
        }
    }

    /// Adds a step to the window of its environment, and keeps what has become a transition.
    fn step(&mut self, env: usize, reward: f32, end: u8, next_obs: &[f32], next_mask: &[bool]) {
        let Shape { obs_dim, n_step, .. } = self.shape;
        let first = env * n_step;
        let count = self.windows.counts[env] as usize + 1;
        self.windows.rewards[first + count - 1] = reward;
        if end != GOES_ON {
            // Nothing follows: every step that waits spans what is left.
            for start in 0..count {
                self.keep(first + start..first + count, end, next_obs, next_mask);
            }
            self.windows.counts[env] = 0;
        } else if count == n_step {
            self.keep(first..first + n_step, end, next_obs, next_mask);
            let Windows { obs, actions, rewards, counts } = &mut self.windows;
            obs.copy_within((first + 1) * obs_dim..(first + n_step) * obs_dim, first * obs_dim);
            actions.copy_within(first + 1..first + n_step, first);
            rewards.copy_within(first + 1..first + n_step, first);
            counts[env] = n_step as u32 - 1;
        } else {
            self.windows.counts[env] = count as u32;
        }
    }

    /// Keeps the transition over these steps of a window, in the place of the oldest.
    fn keep(&mut self, steps: std::ops::Range<usize>, end: u8, next_obs: &[f32], next_mask: &[bool]) {
        let Shape { capacity, obs_dim, flags, gamma, .. } = self.shape;
        let (mut reward, mut discount) = (0.0, 1.0);
        for step in &self.windows.rewards[steps.clone()] {
            reward += discount * f64::from(*step);
            discount *= gamma;
        }
        let place = self.next;
        let row = place * obs_dim..(place + 1) * obs_dim;
        self.obs[row.clone()].copy_from_slice(&self.windows.obs[steps.start * obs_dim..][..obs_dim]);
        self.next_obs[row].copy_from_slice(next_obs);
        self.actions[place] = self.windows.actions[steps.start];
        self.rewards[place] = reward as f32;
        self.discounts[place] = if end == TERMINATED { 0.0 } else { discount as f32 };
        self.ends[place] = end;
        let mask = &mut self.next_masks[place * flags..][..flags];
        if next_mask.is_empty() {
            mask.fill(true)
        } else {
            mask.copy_from_slice(next_mask)
        }
        self.next = (place + 1) % capacity;
        self.len = (self.len + 1).min(capacity);
    }

    /// Draws transitions, each with the same probability, with replacement.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn sample(&self, random: &mut Random, places: &mut [u32]) {
        places.iter_mut().for_each(|place| *place = random.below(self.len as u32));
    }

    /// What was seen before a transition.
    pub fn obs(&self, place: u32) -> &[f32] {
        &self.obs[place as usize * self.shape.obs_dim..][..self.shape.obs_dim]
    }

    /// What a transition led to: where an episode ended, its true last observation.
    pub fn next_obs(&self, place: u32) -> &[f32] {
        &self.next_obs[place as usize * self.shape.obs_dim..][..self.shape.obs_dim]
    }

    /// What was legal then; nothing if everything always is.
    pub fn next_mask(&self, place: u32) -> &[bool] {
        &self.next_masks[place as usize * self.shape.flags..][..self.shape.flags]
    }

    /// What was done.
    pub fn action(&self, place: u32) -> i32 {
        self.actions[place as usize]
    }

    /// The discounted sum of the rewards of the steps.
    pub fn reward(&self, place: u32) -> f32 {
        self.rewards[place as usize]
    }

    /// By how much the value of what it led to counts.
    pub fn discount(&self, place: u32) -> f32 {
        self.discounts[place as usize]
    }

    /// Everything needed to go on from here: of the ring, what is filled.
    pub fn save(&self) -> State {
        let Shape { obs_dim, flags, num_envs, n_step, .. } = self.shape;
        let (len, windows) = (self.len, &self.windows);
        let mut state = State::default();
        state.put("obs", &[len, obs_dim], &self.obs[..len * obs_dim]);
        state.put("next_obs", &[len, obs_dim], &self.next_obs[..len * obs_dim]);
        state.put("actions", &[len], &words(&self.actions[..len]));
        state.put("rewards", &[len], &self.rewards[..len]);
        state.put("discounts", &[len], &self.discounts[..len]);
        state.put("ends", &[len], &self.ends[..len]);
        let masks: Vec<u8> = self.next_masks[..len * flags].iter().map(|legal| u8::from(*legal)).collect();
        state.put("next_masks", &[len, flags], &masks);
        state.put_value("len", &len);
        state.put_value("next", &self.next);
        state.put("windows.obs", &[num_envs, n_step, obs_dim], &windows.obs);
        state.put("windows.actions", &[num_envs, n_step], &words(&windows.actions));
        state.put("windows.rewards", &[num_envs, n_step], &windows.rewards);
        state.put("windows.counts", &[num_envs], &windows.counts);
        state
    }

    /// Goes back to a saved state; one that does not fit is refused unchanged.
    pub fn restore(&mut self, state: &State) -> Result<()> {
        let Shape { capacity, obs_dim, flags, num_envs, n_step, .. } = self.shape;
        let (len, next): (usize, usize) = (state.value("len")?, state.value("next")?);
        if len > capacity || next != (if len < capacity { len } else { next.min(capacity - 1) }) {
            let why = format!("{len} transitions, the next at {next}, do not fit into {capacity}");
            return Err(Error::Value { name: "len".to_owned(), why });
        }
        let (obs, next_obs) = (state.get("obs", &[len, obs_dim])?, state.get("next_obs", &[len, obs_dim])?);
        let actions = state.get::<u32>("actions", &[len])?;
        let (rewards, discounts) = (state.get("rewards", &[len])?, state.get("discounts", &[len])?);
        let (ends, masks) = (state.get("ends", &[len])?, state.get::<u8>("next_masks", &[len, flags])?);
        let window_obs = state.get("windows.obs", &[num_envs, n_step, obs_dim])?;
        let window_actions = state.get::<u32>("windows.actions", &[num_envs, n_step])?;
        let window_rewards = state.get("windows.rewards", &[num_envs, n_step])?;
        let counts = state.get::<u32>("windows.counts", &[num_envs])?;
        if let Some(count) = counts.iter().find(|count| **count as usize >= n_step) {
            let why = format!("{count} steps wait, but a transition has {n_step}");
            return Err(Error::Value { name: "windows.counts".to_owned(), why });
        }
        self.obs[..obs.len()].copy_from_slice(obs);
        self.next_obs[..obs.len()].copy_from_slice(next_obs);
        self.actions.iter_mut().zip(actions).for_each(|(to, from)| *to = *from as i32);
        self.rewards[..len].copy_from_slice(rewards);
        self.discounts[..len].copy_from_slice(discounts);
        self.ends[..len].copy_from_slice(ends);
        self.next_masks.iter_mut().zip(masks).for_each(|(to, from)| *to = *from != 0);
        (self.len, self.next) = (len, next);
        self.windows.obs.copy_from_slice(window_obs);
        self.windows.actions.iter_mut().zip(window_actions).for_each(|(to, from)| *to = *from as i32);
        self.windows.rewards.copy_from_slice(window_rewards);
        self.windows.counts.copy_from_slice(counts);
        Ok(())
    }
}

fn words(actions: &[i32]) -> Vec<u32> {
    actions.iter().map(|action| *action as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    fn shape(capacity: usize, n_step: usize) -> Shape {
        Shape { capacity, num_envs: 2, obs_dim: 1, flags: 2, n_step, gamma: 0.5 }
    }

    /// A step of environment 0 from `from` to `from + 1` that pays `from`.
    fn step(replay: &mut Replay, from: usize, end: u8) {
        replay.begin(&[from as f32, 0.0], &[from as i32, 0]);
        replay.step(0, from as f32, end, &[from as f32 + 1.0], &[true, from.is_multiple_of(2)]);
    }

    fn row(replay: &Replay, place: u32) -> (f32, i32, f32, f32, f32) {
        let one = |values: &[f32]| values[0];
        let (obs, next) = (one(replay.obs(place)), one(replay.next_obs(place)));
        (obs, replay.action(place), replay.reward(place), replay.discount(place), next)
    }

    #[test]
    fn the_ring_forgets_the_oldest() {
        let mut replay = Replay::new(shape(3, 1)).unwrap();
        assert!(replay.is_empty());
        for from in 0..5 {
            step(&mut replay, from, if from == 4 { TRUNCATED } else { GOES_ON });
            assert_eq!(replay.len(), (from + 1).min(3));
        }
        let kept: Vec<_> = (0..3).map(|place| row(&replay, place)).collect();
        assert_eq!(kept, [(3.0, 3, 3.0, 0.5, 4.0), (4.0, 4, 4.0, 0.5, 5.0), (2.0, 2, 2.0, 0.5, 3.0)]);
        assert_eq!(replay.next_mask(0), [true, false]);
        assert_eq!(replay.truncated_share(), 1.0 / 3.0);
    }

    #[test]
    fn transitions_of_several_steps_end_with_the_episode() {
        for (end, counts) in [(TERMINATED, 0.0), (TRUNCATED, 1.0)] {
            let mut replay = Replay::new(shape(10, 3)).unwrap();
            for from in 1..=4 {
                step(&mut replay, from, if from == 4 { end } else { GOES_ON });
            }
            // A new episode knows nothing of the last.
            step(&mut replay, 9, GOES_ON);
            let kept: Vec<_> = (0..replay.len() as u32).map(|place| row(&replay, place)).collect();
            assert_eq!(
                kept,
                [
                    (1.0, 1, 1.0 + 0.5 * 2.0 + 0.25 * 3.0, 0.125, 4.0),
                    (2.0, 2, 2.0 + 0.5 * 3.0 + 0.25 * 4.0, 0.125 * counts, 5.0),
                    (3.0, 3, 3.0 + 0.5 * 4.0, 0.25 * counts, 5.0),
                    (4.0, 4, 4.0, 0.5 * counts, 5.0),
                ]
            );
        }
    }

    #[test]
    fn all_transitions_are_drawn_as_often() {
        let mut replay = Replay::new(shape(50, 1)).unwrap();
        (0..70).for_each(|from| step(&mut replay, from, GOES_ON));
        let mut random = Random::new(3, Purpose::Batches);
        let (mut counts, mut places) = ([0_u32; 50], [0; 100]);
        for _ in 0..1000 {
            replay.sample(&mut random, &mut places);
            places.iter().for_each(|place| counts[*place as usize] += 1);
        }
        let expected = 100_000.0 / 50.0;
        let chi_square: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
        // 49 degrees of freedom: between the quantiles 0.001 and 0.999.
        assert!((23.98..85.35).contains(&chi_square), "{chi_square}");
    }

    #[test]
    fn the_memory_is_known_before_it_is_taken() {
        for shape in [shape(1000, 1), shape(17, 5), Shape { obs_dim: 12, flags: 0, num_envs: 33, ..shape(400, 3) }] {
            let replay = Replay::new(shape).unwrap();
            fn bytes<T>(array: &Vec<T>) -> usize {
                array.capacity() * size_of::<T>()
            }
            let windows = &replay.windows;
            let real = [
                bytes(&replay.obs),
                bytes(&replay.next_obs),
                bytes(&replay.actions),
                bytes(&replay.rewards),
                bytes(&replay.discounts),
                bytes(&replay.next_masks),
                bytes(&replay.ends),
                bytes(&windows.obs),
                bytes(&windows.actions),
                bytes(&windows.rewards),
                bytes(&windows.counts),
            ];
            assert_eq!(shape.bytes(), Some(real.iter().sum()));
        }
        let error = Replay::new(shape(usize::MAX / 4, 1)).unwrap_err().to_string();
        assert!(error.starts_with("run.buffer_size is"), "{error}");
    }

    #[test]
    fn a_restored_buffer_goes_on_alike() {
        for steps in [2, 5, 9] {
            let mut one = Replay::new(shape(6, 3)).unwrap();
            (0..steps).for_each(|from| step(&mut one, from, if from == 4 { TERMINATED } else { GOES_ON }));
            let mut other = Replay::new(shape(6, 3)).unwrap();
            other.restore(&one.save()).unwrap();
            (20..30).for_each(|from| {
                [&mut one, &mut other].map(|replay| step(replay, from, GOES_ON)).into_iter().collect()
            });
            assert_eq!(one.save(), other.save());
            assert!(Replay::new(shape(6, 2)).unwrap().restore(&one.save()).is_err());
            assert!(Replay::new(shape(5, 3)).unwrap().restore(&one.save()).is_err());
        }
    }
}
