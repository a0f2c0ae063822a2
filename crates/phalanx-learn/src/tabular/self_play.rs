//! One table that plays both sides of a game.
//!
//! The environment lets the agent move for both in turn and rewards the side that has just moved. A table then holds,
//! for every position, what the side to move can expect. The next position is the other side's, and what that one can
//! expect this one loses: v = −max Q(s', a'). So self-play is Q-learning with the discount −γ, and nothing else.

use phalanx_core::batch::Batch;
use phalanx_core::space::EnvSpec;

use super::single::Single;
use super::table::{Dense, Hybrid, List, Sparse, Value};
use super::{Kind, Precision, Schedule, Settings};
use crate::error::{Error, Result};
use crate::learner::Learner;

/// Settings that solve tic-tac-toe: the game has no luck, so a value can be replaced by its target at once.
pub fn settings() -> Settings {
    let (learning_rate, epsilon) = (Schedule::Constant(1.0), Schedule::Constant(0.5));
    Settings { gamma: 0.99, learning_rate, epsilon, ..Settings::default() }
}

/// A learner that plays against itself, in an environment with `opponent=self_play`.
pub fn self_play(settings: Settings, seed: u64, batch: Box<dyn Batch>) -> Result<Box<dyn Learner>> {
    fn of<T: Value>(settings: Settings, seed: u64, batch: Box<dyn Batch>) -> Result<Box<dyn Learner>> {
        let gamma = -settings.gamma;
        Ok(match settings.table {
            Kind::Dense => Box::new(Single::<T, Dense<T>>::with_gamma(settings, gamma, seed, batch)?),
            Kind::List => Box::new(Single::<T, List<T>>::with_gamma(settings, gamma, seed, batch)?),
            Kind::Sparse => Box::new(Single::<T, Sparse<T>>::with_gamma(settings, gamma, seed, batch)?),
            Kind::Auto => Box::new(Single::<T, Hybrid<T>>::with_gamma(settings, gamma, seed, batch)?),
        })
    }
    check(batch.spec())?;
    match settings.precision {
        Precision::F32 => of::<f32>(settings, seed, batch),
        Precision::F64 => of::<f64>(settings, seed, batch),
    }
}

fn check(spec: &EnvSpec) -> Result<()> {
    let plays_both = spec.options.iter().any(|option| option.name == "opponent" && option.value == "self_play");
    if plays_both {
        return Ok(());
    }
    Err(Error::setting("env", format!("is {}, but self-play needs an environment with opponent=self_play", spec.name)))
}
