//! Policies for roll-outs.
//!
//! Two kinds. A [`LanePolicy`] decides inside the lanes, for the environments that are in registers
//! right now: [`Random`] and the [`Controller`]s. A [`TilePolicy`] decides for a tile of environments
//! at once from a row-major array of observations: the place for a network.

mod config;
mod controller;
mod random;

use std::sync::Arc;

pub use config::{POLICIES, argument_names};
pub use controller::Controller;
pub use random::Random;

use crate::batch::ActionsMut;
use crate::env::LaneStruct;
use crate::error::{Error, Result};
use crate::lanes::{Lanes, Line, Real};
use crate::rng::Stream;
use crate::space::{ActionMask, Element, EnvSpec};

/// Where in a run a decision is made.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a, R: Real> {
    /// The environments' random streams.
    pub stream: &'a Stream<R>,
    /// Steps the batch has made under this policy.
    pub tick: u64,
    /// Steps each environment has made in its episode.
    pub step: R::Uint,
}

/// A policy over lanes, written once for every lane width.
///
/// Every few steps call [`replenish`](Self::replenish). Each step calls [`prepare`](Self::prepare) once,
/// then asks for the action in the form the environment takes: an index, or component by component.
pub trait LanePolicy: Send + Sync {
    /// What it remembers of each environment between steps: all NaN before the first, and at `step` 0 the
    /// previous episode's values; the policy must use neither.
    type Memory<R: Real>: LaneStruct<R>;
    /// Working space while environments are in registers. Losing it must not change any decision.
    type Scratch<R: Real>: Copy;
    /// Empty working space.
    fn scratch<R: Real>(&self) -> Self::Scratch<R>;
    /// Fills the working space for the next steps and answers for how many of the `wanted` it will do, at
    /// least one. Whatever is expensive belongs here, outside of the steps' loop.
    fn replenish<R: Real>(&self, stream: &Stream<R>, tick: u64, wanted: usize, scratch: &mut Self::Scratch<R>)
    -> usize;
    /// Reads the memory of a group of environments.
    #[inline(always)]
    fn load_memory<R: Lanes>(&self, lines: &[Line], lane: usize) -> Self::Memory<R> {
        LaneStruct::load(lines, lane)
    }
    /// Writes the memory of a group of environments.
    #[inline(always)]
    fn store_memory<R: Lanes>(&self, memory: &Self::Memory<R>, lines: &mut [Line], lane: usize) {
        memory.store(lines, lane);
    }
    /// Looks at an observation.
    fn prepare<R: Real>(
        &self,
        moment: &Moment<'_, R>,
        obs: &[R],
        memory: &mut Self::Memory<R>,
        scratch: &mut Self::Scratch<R>,
    );
    /// The index of a discrete action.
    fn index<R: Real>(&self, moment: &Moment<'_, R>, scratch: &mut Self::Scratch<R>) -> R::Uint;
    /// The index of a discrete action where only the `legal` ones (bit by bit) are allowed. A policy that
    /// cannot see masks decides as without.
    #[inline(always)]
    fn index_among<R: Real>(&self, moment: &Moment<'_, R>, _legal: R::Uint, scratch: &mut Self::Scratch<R>) -> R::Uint {
        self.index(moment, scratch)
    }
    /// A component of a vector of choices.
    fn choice<R: Real>(&self, k: usize, moment: &Moment<'_, R>, scratch: &mut Self::Scratch<R>) -> R::Uint;
    /// A component of a continuous action.
    fn component<R: Real>(&self, k: usize, moment: &Moment<'_, R>, scratch: &mut Self::Scratch<R>) -> R;
}

/// A prepared [`LanePolicy`] at one moment, ready to be asked for the action.
#[derive(Debug)]
pub struct Decision<'a, P: LanePolicy, R: Real> {
    policy: &'a P,
    moment: Moment<'a, R>,
    legal: Option<R::Uint>,
    scratch: &'a mut P::Scratch<R>,
}

impl<'a, P: LanePolicy, R: Real> Decision<'a, P, R> {
    /// Lets the policy look at an observation.
    #[inline(always)]
    pub fn new(
        policy: &'a P,
        moment: Moment<'a, R>,
        obs: &[R],
        memory: &mut P::Memory<R>,
        scratch: &'a mut P::Scratch<R>,
    ) -> Self {
        policy.prepare(&moment, obs, memory, scratch);
        Self { policy, moment, legal: None, scratch }
    }

    /// The same decision where only the `legal` actions (bit by bit) are allowed.
    #[inline(always)]
    pub fn among(self, legal: R::Uint) -> Self {
        Self { legal: Some(legal), ..self }
    }

    /// The index of a discrete action.
    #[inline(always)]
    pub fn index(&mut self) -> R::Uint {
        match self.legal {
            None => self.policy.index(&self.moment, self.scratch),
            Some(legal) => self.policy.index_among(&self.moment, legal, self.scratch),
        }
    }

    /// A component of a vector of choices.
    #[inline(always)]
    pub fn choice(&mut self, k: usize) -> R::Uint {
        self.policy.choice(k, &self.moment, self.scratch)
    }

    /// A component of a continuous action.
    #[inline(always)]
    pub fn component(&mut self, k: usize) -> R {
        self.policy.component(k, &self.moment, self.scratch)
    }
}

/// A tile of environments, as a [`TilePolicy`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// Number of the first environment.
    pub first_env: usize,
    /// Environments in the tile.
    pub envs: usize,
    /// Steps the batch has made under this policy.
    pub tick: u64,
}

/// A policy over a tile of environments: row-major observations in, actions out.
///
/// What it decides for an environment may depend on nothing but that environment's observation, its
/// number and the tick; then roll-outs are the same whatever the tiles.
pub trait TilePolicy: Send + Sync {
    /// Fills in the actions of all environments of the tile.
    fn act(&self, tile: Tile, obs: &[f32], actions: ActionsMut<'_>);
}

/// A policy for [`Rollout`](crate::rollout::Rollout)s.
#[derive(Clone)]
pub enum Policy {
    /// Uniform over the action space.
    Random(Random),
    /// A feedback or open-loop control law.
    Controller(Controller),
    /// Anything over tiles of environments.
    Tile(Arc<dyn TilePolicy>),
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Random(random) => f.write_str(if random.masked { "Random over legal actions" } else { "Random" }),
            Self::Controller(controller) => controller.law.fmt(f),
            Self::Tile(_) => f.write_str("Tile"),
        }
    }
}

/// Any policy over lanes, told apart in every step: for what need not be fastest, so that one piece of code
/// serves all policies.
impl LanePolicy for Policy {
    type Memory<R: Real> = <Controller as LanePolicy>::Memory<R>;
    type Scratch<R: Real> = (<Random as LanePolicy>::Scratch<R>, <Controller as LanePolicy>::Scratch<R>);

    fn scratch<R: Real>(&self) -> Self::Scratch<R> {
        match self {
            Self::Random(policy) => (policy.scratch(), controller::Signal::Level(R::splat(0.0))),
            Self::Controller(policy) => (random::WordCache::default(), policy.scratch()),
            Self::Tile(_) => not_over_lanes(),
        }
    }

    fn replenish<R: Real>(
        &self,
        stream: &Stream<R>,
        tick: u64,
        wanted: usize,
        (words, signal): &mut Self::Scratch<R>,
    ) -> usize {
        match self {
            Self::Random(policy) => policy.replenish(stream, tick, wanted, words),
            Self::Controller(policy) => policy.replenish(stream, tick, wanted, signal),
            Self::Tile(_) => not_over_lanes(),
        }
    }

    fn load_memory<R: Lanes>(&self, lines: &[Line], lane: usize) -> Self::Memory<R> {
        match self {
            Self::Controller(policy) => policy.load_memory(lines, lane),
            _ => LaneStruct::from_values(|_, _| f64::NAN),
        }
    }

    fn store_memory<R: Lanes>(&self, memory: &Self::Memory<R>, lines: &mut [Line], lane: usize) {
        if let Self::Controller(policy) = self {
            policy.store_memory(memory, lines, lane);
        }
    }

    fn prepare<R: Real>(
        &self,
        moment: &Moment<'_, R>,
        obs: &[R],
        memory: &mut Self::Memory<R>,
        (words, signal): &mut Self::Scratch<R>,
    ) {
        match self {
            Self::Random(policy) => policy.prepare(moment, obs, &mut (), words),
            Self::Controller(policy) => policy.prepare(moment, obs, memory, signal),
            Self::Tile(_) => not_over_lanes(),
        }
    }

    fn index<R: Real>(&self, moment: &Moment<'_, R>, (words, signal): &mut Self::Scratch<R>) -> R::Uint {
        match self {
            Self::Random(policy) => policy.index(moment, words),
            Self::Controller(policy) => policy.index(moment, signal),
            Self::Tile(_) => not_over_lanes(),
        }
    }

    fn index_among<R: Real>(
        &self,
        moment: &Moment<'_, R>,
        legal: R::Uint,
        (words, signal): &mut Self::Scratch<R>,
    ) -> R::Uint {
        match self {
            Self::Random(policy) => policy.index_among(moment, legal, words),
            Self::Controller(policy) => policy.index_among(moment, legal, signal),
            Self::Tile(_) => not_over_lanes(),
        }
    }

    fn choice<R: Real>(&self, k: usize, moment: &Moment<'_, R>, (words, signal): &mut Self::Scratch<R>) -> R::Uint {
        match self {
            Self::Random(policy) => policy.choice(k, moment, words),
            Self::Controller(policy) => policy.choice(k, moment, signal),
            Self::Tile(_) => not_over_lanes(),
        }
    }

    fn component<R: Real>(&self, k: usize, moment: &Moment<'_, R>, (words, signal): &mut Self::Scratch<R>) -> R {
        match self {
            Self::Random(policy) => policy.component(k, moment, words),
            Self::Controller(policy) => policy.component(k, moment, signal),
            Self::Tile(_) => not_over_lanes(),
        }
    }
}

fn not_over_lanes() -> ! {
    unreachable!("a policy over tiles is not asked lane by lane")
}

impl Policy {
    /// Checks that the policy was made for an action space.
    pub fn check(&self, spec: &EnvSpec) -> Result<()> {
        let (space, observed) = match self {
            Self::Random(random) if random.masked != (spec.action_mask != ActionMask::None) => {
                let what = format!("the random policy for {}", spec.name);
                return Err(Error::out_of_range(what, "one for other action masks", "made from its own spec"));
            }
            Self::Random(random) => (&random.space, spec.observation.names),
            Self::Controller(_) if spec.action_mask == ActionMask::Binding => {
                let what = format!("the policy for {}, whose states forbid some actions,", spec.name);
                return Err(Error::out_of_range(what, "a controller", "one that knows masks, such as random"));
            }
            Self::Controller(controller) => (&controller.space, controller.observed),
            Self::Tile(_) if spec.observation.element != Element::F32 => {
                let what = format!("the observation of {}", spec.name);
                return Err(Error::out_of_range(what, spec.observation.element, "f32 for a policy over tiles"));
            }
            Self::Tile(_) => return Ok(()),
        };
        if *space != spec.action {
            let allowed = format!("that of {}, {}", spec.name, spec.action);
            return Err(Error::out_of_range("the policy's action space", space, allowed));
        }
        if observed != spec.observation.names {
            let allowed = format!("that of {}, {}", spec.name, spec.observation.names.join(", "));
            return Err(Error::out_of_range("what the policy observes", observed.join(", "), allowed));
        }
        Ok(())
    }

    /// Words of memory for each environment.
    pub(crate) fn memory_words(&self) -> usize {
        match self {
            Self::Controller(_) => <<Controller as LanePolicy>::Memory<f32> as LaneStruct<f32>>::NAMES.len(),
            Self::Random(_) | Self::Tile(_) => 0,
        }
    }
}
