//! What settings must keep to beyond the range of each: those that exclude each other, roll-outs that can be cut into
//! minibatches, networks that fit into memory.

use crate::error::{Error, Result};
use crate::learner::Length;
use crate::memory::Bytes;
use crate::nn::parallel::{SHARES, TILE};

/// Refuses a share of the run that is given together with a number of steps.
pub(super) fn one_of<T, U>((key, share): (&str, Option<T>), (other, steps): (&str, Option<U>)) -> Result<()> {
    match (share, steps) {
        (Some(_), Some(_)) => {
            Err(Error::setting(format!("agent.{key}"), format!("and agent.{other} are both given: give one of them")))
        }
        _ => Ok(()),
    }
}

/// The roll-outs of a run, and how each is cut into minibatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rollouts {
    /// Transitions of a roll-out.
    pub(super) rows: usize,
    /// Transitions of a minibatch.
    pub(super) minibatch: usize,
    /// Roll-outs of the run: as many as fit, but at least one.
    pub(super) count: u64,
}

impl Rollouts {
    pub(super) fn new(length: Length, rollout_steps: usize, num_minibatches: usize) -> Result<Self> {
        let num_envs = length.num_envs;
        let rows = num_envs.checked_mul(rollout_steps).filter(|rows| u32::try_from(*rows).is_ok());
        let Some(rows) = rows else {
            let why = format!(
                "is {rollout_steps}, but with run.num_envs = {num_envs} a roll-out would have 2^32 transitions or more"
            );
            return Err(Error::setting("run.rollout_steps", why));
        };
        if !rows.is_multiple_of(num_minibatches) {
            let why = format!(
                "is {num_minibatches}, but must divide run.num_envs * run.rollout_steps = \
                 {num_envs} * {rollout_steps} = {rows}"
            );
            return Err(Error::setting("agent.num_minibatches", why));
        }
        let count = (length.steps_per_env / rollout_steps as u64).max(1);
        Ok(Self { rows, minibatch: rows / num_minibatches, count })
    }
}

/// What a network of dense layers takes, in training: parameters, their gradients (a sum for each share) and moments,
/// and what tiles of rows leave in each layer.
pub(super) fn network_bytes(widths: impl IntoIterator<Item = usize>) -> Bytes {
    let mut widths = widths.into_iter();
    let mut inputs = widths.next().unwrap_or(0);
    widths.fold(Bytes::NONE, |bytes, outputs| {
        let parameters = Bytes::of::<f32>(&[inputs, outputs]).and(Bytes::of::<f32>(&[outputs]));
        let activations = Bytes::of::<f32>(&[TILE, outputs, SHARES]);
        inputs = outputs;
        bytes.and(parameters.times(SHARES + 4)).and(activations)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roll_outs_are_whole() {
        let length = |num_envs, steps_per_env| Length { num_envs, steps_per_env };
        let found = Rollouts::new(length(8, 100), 32, 4).unwrap();
        assert_eq!(found, Rollouts { rows: 256, minibatch: 64, count: 3 });
        assert_eq!(Rollouts::new(length(8, 1), 32, 4).unwrap().count, 1);
        let message = |length, steps, parts| Rollouts::new(length, steps, parts).unwrap_err().to_string();
        assert_eq!(
            message(length(4, 1), 128, 7),
            "agent.num_minibatches is 7, but must divide run.num_envs * run.rollout_steps = 4 * 128 = 512"
        );
        // The published default of PQN, whose minibatches are empty.
        assert!(message(length(1, 10), 2, 4).starts_with("agent.num_minibatches is 4, but must divide"));
        for steps in [1 << 31, usize::MAX] {
            let error = message(length(2, 1), steps, 1);
            assert!(
                error.starts_with(&format!("run.rollout_steps is {steps}, but with run.num_envs = 2 a")),
                "{error}"
            );
        }
    }

    #[test]
    fn huge_networks_are_counted_without_overflow() {
        assert!(network_bytes([4, 64, 64, 2]).count().is_some_and(|bytes| bytes < 10 << 20));
        assert_eq!(network_bytes([4, usize::MAX, 2]).count(), None);
        assert_eq!(network_bytes([1 << 40, 1 << 40]).count(), None);
    }
}
