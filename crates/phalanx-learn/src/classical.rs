//! The engine's own policies (random, PID, bang-bang, periodic) as agents: nothing to learn, the same commands.

use phalanx_core::batch::{Actions, ActionsMut};
use phalanx_core::env::LaneStruct;
use phalanx_core::policy::{Decision, LanePolicy, Moment, Policy};
use phalanx_core::rng::Stream;

use crate::error::{Error, Result};
use crate::learner::{Greedy, Learner, Report};
use crate::stages::Stage;
use crate::state::State;
use crate::world::World;

type Memory = <Policy as LanePolicy>::Memory<f32>;

/// A policy with what it remembers of each environment.
#[derive(Clone, Debug)]
struct Player {
    policy: Policy,
    seed: u64,
    /// Choices of an index where that is the action; for masks.
    discrete: bool,
    /// Decisions so far: the place in the random streams.
    tick: u64,
    memory: Vec<Memory>,
    /// Steps that each environment has made in its episode.
    steps: Vec<u32>,
}

impl Player {
    fn new(policy: Policy, seed: u64, num_envs: usize, discrete: bool) -> Self {
        // NaN says that nothing is remembered.
        let memory = vec![Memory::from_values(|_, _| f64::NAN); num_envs];
        Self { policy, seed, discrete, tick: 0, memory, steps: vec![0; num_envs] }
    }
}

impl Greedy for Player {
    fn act(&mut self, obs: &[f32], masks: &[bool], mut actions: ActionsMut<'_>) {
        let num_envs = self.steps.len();
        let (dim, flags) = (obs.len() / num_envs, masks.len() / num_envs);
        let mut scratch = self.policy.scratch::<f32>();
        for env in 0..num_envs {
            let stream = Stream::<f32>::of_seed(self.seed, env as u32);
            self.policy.replenish(&stream, self.tick, 1, &mut scratch);
            let moment = Moment { stream: &stream, tick: self.tick, step: self.steps[env] };
            let row = &obs[env * dim..][..dim];
            let mut decision = Decision::new(&self.policy, moment, row, &mut self.memory[env], &mut scratch);
            if flags > 0 && self.discrete {
                let legal = masks[env * flags..][..flags].iter().enumerate();
                decision = decision.among(legal.fold(0, |bits, (i, legal)| bits | u32::from(*legal) << i));
            }
            match &mut actions {
                ActionsMut::Discrete(out) if self.discrete => out[env] = decision.index() as i32,
                ActionsMut::Discrete(out) => {
                    let width = out.len() / num_envs;
                    (0..width).for_each(|k| out[env * width + k] = decision.choice(k) as i32);
                }
                ActionsMut::Continuous(out) => {
                    let width = out.len() / num_envs;
                    (0..width).for_each(|k| out[env * width + k] = decision.component(k));
                }
            }
            self.steps[env] += 1;
        }
        self.tick += 1;
    }

    fn forget(&mut self, started: &[bool]) {
        if started.len() != self.steps.len() {
            *self = Self::new(self.policy.clone(), self.seed, started.len(), self.discrete);
        }
        self.steps.iter_mut().zip(started).filter(|(_, started)| **started).for_each(|(steps, _)| *steps = 0);
    }
}

/// A classical agent on its environments.
#[derive(Debug)]
pub struct Classical {
    world: World,
    player: Player,
    seed: u64,
    global_step: u64,
    indices: Vec<i32>,
    values: Vec<f32>,
}

impl Classical {
    /// `policy` in all environments of `world`.
    pub fn new(policy: Policy, world: World, seed: u64) -> Result<Self> {
        if matches!(policy, Policy::Tile(_)) {
            return Err(Error::setting("agent.name", "is a policy over tiles, which is no classical agent"));
        }
        let action = &world.spec().action;
        let len = world.num_envs() * action.components();
        let (indices, values) =
            if action.is_discrete() { (vec![0; len], Vec::new()) } else { (Vec::new(), vec![0.0; len]) };
        let player =
            Player::new(policy, seed, world.num_envs(), action.choices(0).is_some() && action.components() == 1);
        Ok(Self { world, player, seed, global_step: 0, indices, values })
    }
}

impl Learner for Classical {
    fn global_step(&self) -> u64 {
        self.global_step
    }

    fn advance(&mut self, _last_step: u64, report: &mut Report) -> Result<()> {
        let discrete = self.world.spec().action.is_discrete();
        let out =
            if discrete { ActionsMut::Discrete(&mut self.indices) } else { ActionsMut::Continuous(&mut self.values) };
        let mut lap = report.stages.begin();
        self.player.act(self.world.obs(), self.world.masks(), out);
        report.stages.lap(Stage::Act, &mut lap);
        let actions = if discrete { Actions::Discrete(&self.indices) } else { Actions::Continuous(&self.values) };
        self.world.step(actions, report)?;
        report.stages.lap(Stage::Step, &mut lap);
        let (terminated, truncated) = (self.world.terminated(), self.world.truncated());
        let steps = self.player.steps.iter_mut().zip(terminated.iter().zip(truncated));
        steps.filter(|(_, (terminated, truncated))| **terminated | **truncated).for_each(|(steps, _)| *steps = 0);
        self.global_step += self.world.num_envs() as u64;
        Ok(())
    }

    fn greedy(&self) -> Box<dyn Greedy> {
        // It learns how many environments there are when they start.
        Box::new(Player::new(self.player.policy.clone(), self.seed, 0, self.player.discrete))
    }

    fn save(&self) -> State {
        let mut state = State::default();
        state.put_value("global_step", &self.global_step);
        state.put_value("tick", &self.player.tick);
        state.put("steps", &[self.player.steps.len()], &self.player.steps);
        for (field, name) in Memory::NAMES.iter().enumerate() {
            let values: Vec<_> = self.player.memory.iter().map(|memory| memory.value(field, 0)).collect();
            state.put(format!("memory.{name}"), &[values.len()], &values);
        }
        state.put_state("world", self.world.save());
        state
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        let num_envs = self.world.num_envs();
        let columns: Vec<&[f64]> = (Memory::NAMES.iter())
            .map(|name| state.get(&format!("memory.{name}"), &[num_envs]))
            .collect::<Result<_>>()?;
        let steps = state.get("steps", &[num_envs])?;
        (self.global_step, self.player.tick) = (state.value("global_step")?, state.value("tick")?);
        self.world.restore(&state.state("world"))?;
        self.player.steps.copy_from_slice(steps);
        for (env, memory) in self.player.memory.iter_mut().enumerate() {
            *memory = Memory::from_values(|field, _| columns[field][env]);
        }
        Ok(())
    }

    fn restore_policy(&mut self, _state: &State) -> Result<()> {
        Ok(()) // the settings say all
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::batch::{Autoreset, BatchConfig};

    use super::*;
    use crate::evaluation::evaluate;
    use crate::world::Sight;

    fn world(env: &str, num_envs: usize) -> World {
        let config = BatchConfig { num_envs, seed: 3, autoreset: Autoreset::SameStep, ..BatchConfig::default() };
        World::new(phalanx_envs::registry::find(env).unwrap().batch(&config).unwrap(), Sight::PRESENT).unwrap()
    }

    fn classical(env: &str, policy: &str, arguments: &[(&str, &str)]) -> Classical {
        let world = world(env, 8);
        let policy = Policy::parse(policy, arguments, world.spec()).unwrap();
        Classical::new(policy, world, 1).unwrap()
    }

    /// A PID controller on the pole's angle keeps it up longer than chance does: the reference's own figures.
    #[test]
    fn controllers_balance_and_chance_does_not() {
        let mean = |agent: Classical| {
            let mut greedy = agent.greedy();
            let found = evaluate(&mut self::world("CartPole-v1", 100), greedy.as_mut(), 500, false).unwrap();
            found.return_summary().unwrap().mean
        };
        let random = mean(classical("CartPole-v1", "random", &[]));
        assert!((18.0..27.0).contains(&random), "{random}");
        let arguments =
            [("kp", "-10"), ("kd", "-1"), ("obs_field", "theta"), ("control_low", "-1"), ("control_high", "1")];
        let pid = mean(classical("CartPole-v1", "pid", &arguments));
        assert!(pid > 60.0, "{pid}");
    }

    #[test]
    fn what_is_restored_goes_on_to_the_same_bits() {
        let pid = [("kp", "1"), ("ki", "0.5"), ("obs_field", "theta_dot")];
        for (env, policy, arguments) in
            [("Pendulum-v1", "pid", pid.as_slice()), ("TicTacToe-v0", "random", &[]), ("Pendulum-v1", "random", &[])]
        {
            let (mut one, mut other) = (classical(env, policy, arguments), classical(env, policy, arguments));
            let mut report = Report::default();
            for _ in 0..57 {
                one.advance(u64::MAX, &mut report).unwrap();
            }
            other.restore(&one.save()).unwrap();
            for _ in 0..300 {
                one.advance(u64::MAX, &mut report).unwrap();
                other.advance(u64::MAX, &mut report).unwrap();
            }
            // Not the memory itself: it may be NaN.
            assert!(one.save().state("world") == other.save().state("world"), "{env} {policy}");
        }
    }
}
