//! One environment under the microscope: every number of every step, in single or double precision.
//!
//! A probe runs the same environment functions as the engine, with the same random streams: in `f32`
//! it goes through the same states, bit for bit, as environment 0 of a batch with the same seed. In
//! `f64` it is the parity mode for comparisons with a reference implementation ([`Real::PARITY`]).

use crate::batch::{BatchConfig, Configured, ObsElement, check_lane_state, check_state, configure, configure_solo};
use crate::env::{LaneAction, LaneEnv, LaneStruct};
use crate::error::{Error, Result};
use crate::lanes::Real;
use crate::policy::{Decision, LanePolicy, Moment, Policy};
use crate::rng::{Purpose, Stream};
use crate::safety::{Guard, Rule, Signal};
use crate::solo::{SoloAction, SoloEnv};
use crate::space::{ActionMask, ActionSpace, EnvSpec};

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
    /// The violated constraints, a bit each; the step's cost is their number.
    pub violated: u32,
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
    /// Which actions are legal now, for an environment with masks: a flag for each choice of each component;
    /// else empty.
    fn action_mask(&self) -> Vec<bool>;
    /// What [`EnvSpec::scores`] names, of the state now; empty where nothing can be scored.
    fn scores(&self) -> Vec<f32>;
    /// The action that `policy` takes at its `tick`-th step; `memory` is what it remembers.
    fn decide(&self, policy: &Policy, tick: u64, memory: &mut PolicyMemory) -> Result<Vec<f64>>;
    /// One step.
    fn step(&mut self, action: &[f64]) -> Result<ProbeStep>;
}

/// What a policy remembers between the steps of a probe.
#[derive(Clone, Debug, Default)]
pub struct PolicyMemory(Vec<f64>);

/// A probe of an environment in lanes: environment 0 of the batch that `config` describes.
pub fn probe<E: LaneEnv>(env: E, config: &BatchConfig, precision: Precision) -> Result<Box<dyn Probe>> {
    let config = &BatchConfig { num_envs: 1, ..config.clone() };
    let configured = configure(env, config)?;
    Ok(match precision {
        Precision::F32 => Box::new(LaneProbe::<E, f32>::new(configured, config.seed)),
        Precision::F64 => Box::new(LaneProbe::<E, f64>::new(configured, config.seed)),
    })
}

/// A probe of an environment that vectorises inside one copy. It computes as in batches, whatever the
/// precision asked for.
pub fn probe_solo<E: SoloEnv>(env: E, config: &BatchConfig) -> Result<Box<dyn Probe>> {
    let (env, spec, guard) = configure_solo(env, config)?;
    let mut state = bytemuck::Zeroable::zeroed();
    let stream = Stream::of_seed(config.seed, 0);
    env.reset(&mut state, &mut stream.draws(Purpose::Reset, 0, 0));
    Ok(Box::new(SoloProbe { env, spec, guard, stream, episode: 0, steps: 0, state }))
}

struct LaneProbe<E: LaneEnv, R: Real> {
    env: E,
    spec: EnvSpec,
    guard: Guard,
    params: E::Params<R>,
    stream: Stream<R>,
    episode: u32,
    steps: u32,
    state: E::State<R>,
}

impl<E: LaneEnv, R: Real<Uint = u32, Mask = bool>> LaneProbe<E, R> {
    fn new(configured: Configured<E>, seed: u64) -> Self {
        let exact = configured.first_params();
        let Configured { env, spec, guard, .. } = configured;
        let params = E::Params::<R>::from_values(|field, _| exact.value(field, 0));
        let stream = Stream::of_seed(seed, 0);
        let state = env.reset(&params, &mut stream.draws(Purpose::Reset, 0, 0));
        Self { env, spec, guard, params, stream, episode: 0, steps: 0, state }
    }

    /// The legal actions, a bit each.
    fn legal(&self) -> u32 {
        self.env.legal(&self.params, &self.state)
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
        check_lane_state(&self.env, state)?;
        self.state = E::State::from_values(|field, _| state[field]);
        self.steps = 0;
        Ok(())
    }

    fn next_episode(&mut self) {
        self.episode += 1;
        self.steps = 0;
        self.state = self.env.reset(&self.params, &mut self.stream.draws(Purpose::Reset, self.episode, 0));
    }

    fn action_mask(&self) -> Vec<bool> {
        match self.spec.action {
            ActionSpace::Discrete { n } if self.spec.action_mask != ActionMask::None => {
                let legal = self.legal();
                (0..n).map(|action| legal >> action & 1 == 1).collect()
            }
            _ => Vec::new(),
        }
    }

    fn scores(&self) -> Vec<f32> {
        Vec::new()
    }

    fn decide(&self, policy: &Policy, tick: u64, memory: &mut PolicyMemory) -> Result<Vec<f64>> {
        let obs = self.env.observe(&self.params, &self.state);
        let legal = (self.spec.action_mask != ActionMask::None).then(|| self.legal());
        let place = Place { spec: &self.spec, stream: &self.stream, tick, step: self.steps, legal };
        place.decide(policy, obs.as_ref(), memory)
    }

    fn step(&mut self, action: &[f64]) -> Result<ProbeStep> {
        check_action(&self.spec, action)?;
        check_legal(&self.spec, action, |_, choice| self.legal() >> choice & 1 == 1)?;
        let mut draws = self.stream.draws(Purpose::Step, self.episode, self.steps);
        let action = E::Action::from_components(action);
        let step = self.env.step(&self.params, &self.state, action, &mut draws);
        self.state = step.state;
        self.steps += 1;
        let obs = self.env.observe(&self.params, &self.state);
        let signal = |signal| match signal {
            Signal::Observation(at) => obs.as_ref()[at],
            Signal::State(at) => R::splat(self.state.value(at, 0)),
            Signal::Action(at) => action.component(at),
        };
        let (verdict, violated) = self.guard.judge_bits(step.reward, Rule::limits, signal);
        Ok(ProbeStep {
            reward: verdict.reward.lane_f64(0),
            terminated: step.terminated | verdict.terminates,
            truncated: self.steps >= self.spec.max_steps,
            violated,
        })
    }
}

struct SoloProbe<E: SoloEnv> {
    env: E,
    spec: EnvSpec,
    guard: Guard,
    stream: Stream<f32>,
    episode: u32,
    steps: u32,
    state: E::State,
}

impl<E: SoloEnv> SoloProbe<E> {
    fn choices(&self, k: usize) -> u32 {
        self.spec.action.choices(k).expect("masks are for discrete actions")
    }
}

impl<E: SoloEnv> Probe for SoloProbe<E> {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn params(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    fn state(&self) -> Vec<f64> {
        (0..self.spec.state_names.len()).map(|field| self.env.state_value(&self.state, field)).collect()
    }

    fn observation(&self) -> Vec<f32> {
        let mut obs = vec![E::Elem::default(); self.spec.observation.dim()];
        self.env.observe(&self.state, &mut obs);
        obs.into_iter().map(ObsElement::to_real).collect()
    }

    fn set_state(&mut self, state: &[f64]) -> Result<()> {
        check_state(&self.spec, state)?;
        self.env.set_state_values(&mut self.state, state)?;
        self.steps = 0;
        Ok(())
    }

    fn next_episode(&mut self) {
        self.episode += 1;
        self.steps = 0;
        self.env.reset(&mut self.state, &mut self.stream.draws(Purpose::Reset, self.episode, 0));
    }

    fn action_mask(&self) -> Vec<bool> {
        if self.spec.action_mask == ActionMask::None {
            return Vec::new();
        }
        let flags = |k: usize| (0..self.choices(k)).map(move |choice| self.env.is_legal(&self.state, k, choice));
        (0..self.spec.action.components()).flat_map(flags).collect()
    }

    fn scores(&self) -> Vec<f32> {
        let scores = self.env.scores(&self.state).into_iter().flatten();
        scores.take(self.spec.scores.len()).collect()
    }

    fn decide(&self, policy: &Policy, tick: u64, memory: &mut PolicyMemory) -> Result<Vec<f64>> {
        match policy {
            Policy::Random(random) if self.spec.action_mask != ActionMask::None => {
                policy.check(&self.spec)?;
                let choose =
                    |k, below: &dyn Fn(u32) -> u32| self.env.choose_legal(&self.state, k, self.choices(k), below);
                Ok(random.legal_action(&self.stream, tick, choose).map(f64::from).collect())
            }
            _ => {
                let place = Place { spec: &self.spec, stream: &self.stream, tick, step: self.steps, legal: None };
                place.decide(policy, &self.observation(), memory)
            }
        }
    }

    fn step(&mut self, action: &[f64]) -> Result<ProbeStep> {
        check_action(&self.spec, action)?;
        check_legal(&self.spec, action, |k, choice| self.env.is_legal(&self.state, k, choice))?;
        let mut draws = self.stream.draws(Purpose::Step, self.episode, self.steps);
        let (indices, values): (Vec<i32>, Vec<f32>) = action.iter().map(|v| (*v as i32, *v as f32)).unzip();
        let action = match self.spec.action {
            ActionSpace::Discrete { .. } => SoloAction::Discrete(indices[0] as u32),
            ActionSpace::MultiDiscrete { .. } => SoloAction::Multi(&indices),
            ActionSpace::Box { .. } => SoloAction::Continuous(&values),
        };
        let outcome = self.env.step(&mut self.state, action, &mut draws);
        self.steps += 1;
        let obs = self.observation();
        let signal = |signal| match signal {
            Signal::Observation(at) => obs[at],
            Signal::State(at) => self.env.state_value(&self.state, at) as f32,
            Signal::Action(at) => action.component(at),
        };
        let (verdict, violated) = self.guard.judge_bits(outcome.reward, Rule::lanes, signal);
        Ok(ProbeStep {
            reward: f64::from(verdict.reward),
            terminated: outcome.terminated | verdict.terminates,
            truncated: self.steps >= self.spec.max_steps,
            violated,
        })
    }
}

/// Where a policy decides.
struct Place<'a, R: Real> {
    spec: &'a EnvSpec,
    stream: &'a Stream<R>,
    tick: u64,
    step: R::Uint,
    /// The legal actions, bit by bit, where some are not.
    legal: Option<R::Uint>,
}

impl<R: Real<Uint = u32, Mask = bool>> Place<'_, R> {
    fn decide(&self, policy: &Policy, obs: &[R], memory: &mut PolicyMemory) -> Result<Vec<f64>> {
        policy.check(self.spec)?;
        if matches!(policy, Policy::Tile(_)) {
            return Err(Error::out_of_range("the policy of a probe", "one over tiles", "one over lanes"));
        }
        type Memory<R> = <Policy as LanePolicy>::Memory<R>;
        let fields = Memory::<R>::NAMES.len();
        // A memory that was never written is NaN.
        memory.0.resize(fields, f64::NAN);
        let mut remembered = Memory::<R>::from_values(|field, _| memory.0[field]);
        let mut working_space = policy.scratch();
        policy.replenish(self.stream, self.tick, 1, &mut working_space);
        let moment = Moment { stream: self.stream, tick: self.tick, step: self.step };
        let mut decision = Decision::new(policy, moment, obs, &mut remembered, &mut working_space);
        if let Some(legal) = self.legal {
            decision = decision.among(legal);
        }
        let action = match &self.spec.action {
            ActionSpace::Discrete { .. } => vec![f64::from(decision.index())],
            ActionSpace::MultiDiscrete { sizes } => (0..sizes.len()).map(|k| f64::from(decision.choice(k))).collect(),
            // Rounded to single precision, as every continuous action of a batch is.
            ActionSpace::Box { low, .. } => {
                (0..low.len()).map(|k| f64::from(decision.component(k).lane_f64(0) as f32)).collect()
            }
        };
        memory.0 = (0..fields).map(|field| remembered.value(field, 0)).collect();
        Ok(action)
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
    for (k, value) in action.iter().enumerate() {
        match spec.action.choices(k) {
            None if value.is_finite() => {}
            None => return Err(Error::out_of_range("the action", "not finite", "a number")),
            Some(n) if value.fract() == 0.0 && (0.0..f64::from(n)).contains(value) => {}
            Some(n) => {
                let allowed = format!("a whole number from 0 to {}", n - 1);
                return Err(Error::out_of_range(component_name(spec, k), value, allowed));
            }
        }
    }
    Ok(())
}

fn component_name(spec: &EnvSpec, k: usize) -> String {
    if spec.action.components() == 1 { "the action".to_owned() } else { format!("component {k} of the action") }
}

/// The most legal choices that an error lists: there can be millions.
const LISTED_CHOICES: usize = 12;

/// Checks an action where masks bind; `is_legal` judges a choice of a component.
fn check_legal(spec: &EnvSpec, action: &[f64], is_legal: impl Fn(usize, u32) -> bool) -> Result<()> {
    let binds = spec.action_mask == ActionMask::Binding;
    let Some((k, value)) = action.iter().enumerate().find(|(k, value)| binds && !is_legal(*k, **value as u32)) else {
        return Ok(());
    };
    let choices = spec.action.choices(k).expect("masks are for discrete actions");
    let mut legal = (0..choices).filter(|choice| is_legal(k, *choice));
    let mut listed: Vec<_> = legal.by_ref().take(LISTED_CHOICES).map(|choice| choice.to_string()).collect();
    listed.extend(legal.next().map(|_| "...".to_owned()));
    let allowed = if listed.is_empty() { "none".to_owned() } else { listed.join(", ") };
    Err(Error::out_of_range(component_name(spec, k), value, format!("legal in this state: {allowed}")))
}
