//! One environment under the microscope: every number of every step, in single or double precision.
//!
//! A probe runs the same environment functions as the engine, with the same random streams: in `f32`
//! it goes through the same states, bit for bit, as environment 0 of a batch with the same seed. In
//! `f64` it is the parity mode for comparisons with a reference implementation ([`Real::PARITY`]).

use crate::batch::{Configured, check_state, configure};
use crate::env::{LaneAction, LaneEnv, LaneStruct};
use crate::error::{Error, Result};
use crate::lanes::Real;
use crate::policy::{Decision, LanePolicy, Moment, Random};
use crate::rng::{Purpose, Stream};
use crate::space::{ActionSpace, EnvSpec};

/// The arithmetic of a [`Probe`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// As in batches.
    #[default]
    F32,
    /// Parity mode: state and rewards in double precision, observations rounded to single.
    F64,
}

/// What a step of a probe gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeStep {
    /// The reward.
    pub reward: f64,
    /// Whether the task itself ended.
    pub terminated: bool,
    /// Whether the step limit was reached.
    pub truncated: bool,
}

/// One environment, observable in full.
pub trait Probe {
    /// Names, spaces and limits, with the options and the step limit in force.
    fn spec(&self) -> &EnvSpec;
    /// Name and value of each parameter.
    fn params(&self) -> Vec<(&'static str, f64)>;
    /// The state, in the order of [`EnvSpec::state_names`].
    fn state(&self) -> Vec<f64>;
    /// The observation.
    fn observation(&self) -> Vec<f32>;
    /// Sets the state; the step count starts anew.
    fn set_state(&mut self, state: &[f64]) -> Result<()>;
    /// Starts the next episode.
    fn next_episode(&mut self);
    /// The action that the random policy takes at its `tick`-th step.
    fn random_action(&self, tick: u64) -> Vec<f64>;
    /// One step.
    fn step(&mut self, action: &[f64]) -> Result<ProbeStep>;
}

/// A probe of an environment in lanes.
pub fn probe<E: LaneEnv>(
    env: E,
    settings: &[(String, String)],
    seed: u64,
    precision: Precision,
) -> Result<Box<dyn Probe>> {
    let configured = configure(env, settings, 1, seed)?;
    Ok(match precision {
        Precision::F32 => Box::new(LaneProbe::<E, f32>::new(configured, seed)),
        Precision::F64 => Box::new(LaneProbe::<E, f64>::new(configured, seed)),
    })
}

struct LaneProbe<E: LaneEnv, R: Real> {
    env: E,
    spec: EnvSpec,
    params: E::Params<R>,
    stream: Stream<R>,
    episode: R::Uint,
    steps: R::Uint,
    state: E::State<R>,
}

impl<E: LaneEnv, R: Real<Uint = u32, Mask = bool>> LaneProbe<E, R> {
    fn new(configured: Configured<E>, seed: u64) -> Self {
        let exact = configured.first_params();
        let Configured { env, spec, .. } = configured;
        let params = E::Params::<R>::from_values(|field, _| exact.value(field, 0));
        let stream = Stream::of_seed(seed, 0);
        let state = env.reset(&params, &mut stream.draws(Purpose::Reset, 0, 0));
        Self { env, spec, params, stream, episode: 0, steps: 0, state }
    }
}

impl<E: LaneEnv, R: Real<Uint = u32, Mask = bool>> Probe for LaneProbe<E, R> {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn params(&self) -> Vec<(&'static str, f64)> {
        let names = E::Params::<R>::NAMES;
        names.iter().enumerate().map(|(field, name)| (*name, self.params.value(field, 0))).collect()
    }

    fn state(&self) -> Vec<f64> {
        (0..self.spec.state_names.len()).map(|field| self.state.value(field, 0)).collect()
    }

    fn observation(&self) -> Vec<f32> {
        self.env.observe(&self.params, &self.state).as_ref().iter().map(|value| value.lane_f64(0) as f32).collect()
    }

    fn set_state(&mut self, state: &[f64]) -> Result<()> {
        check_state(&self.spec, state)?;
        self.state = E::State::from_values(|field, _| state[field]);
        self.steps = 0;
        Ok(())
    }

    fn next_episode(&mut self) {
        self.episode += 1;
        self.steps = 0;
        self.state = self.env.reset(&self.params, &mut self.stream.draws(Purpose::Reset, self.episode, 0));
    }

    fn random_action(&self, tick: u64) -> Vec<f64> {
        let policy = Random::new(self.spec.action.clone());
        let moment = Moment { stream: &self.stream, tick, step: self.steps };
        let mut working_space = policy.scratch();
        policy.replenish(&self.stream, tick, 1, &mut working_space);
        let mut decision = Decision::new(&policy, moment, &[], &mut (), &mut working_space);
        match &self.spec.action {
            ActionSpace::Discrete { .. } => vec![f64::from(decision.index())],
            // Rounded to single precision, as every continuous action of a batch is.
            ActionSpace::Box { low, .. } => {
                (0..low.len()).map(|k| f64::from(decision.component(k).lane_f64(0) as f32)).collect()
            }
        }
    }

    fn step(&mut self, action: &[f64]) -> Result<ProbeStep> {
        check_action(&self.spec, action)?;
        let mut draws = self.stream.draws(Purpose::Step, self.episode, self.steps);
        let step = self.env.step(&self.params, &self.state, E::Action::from_components(action), &mut draws);
        self.state = step.state;
        self.steps += 1;
        Ok(ProbeStep {
            reward: step.reward.lane_f64(0),
            terminated: step.terminated,
            truncated: self.steps >= self.spec.max_steps,
        })
    }
}

/// Checks an action that a user gives.
pub fn check_action(spec: &EnvSpec, action: &[f64]) -> Result<()> {
    let components = spec.action.components();
    if action.len() != components {
        return Err(Error::Length {
            what: format!("an action of {}", spec.name),
            actual: action.len(),
            expected: components,
        });
    }
    match spec.action {
        ActionSpace::Discrete { n } if action[0].fract() != 0.0 || !(0.0..f64::from(n)).contains(&action[0]) => {
            Err(Error::out_of_range("the action", action[0], format!("a whole number from 0 to {}", n - 1)))
        }
        _ if action.iter().any(|value| !value.is_finite()) => {
            Err(Error::out_of_range("the action", "not finite", "a number"))
        }
        _ => Ok(()),
    }
}
