//! Whose roll-out goes on, and where random actions have come to.

use phalanx_core::Result;
use phalanx_core::batch::Batch;
use phalanx_core::policy::Policy;
use phalanx_core::rollout::Rollout;
use serde::{Deserialize, Serialize};

/// The roll-outs of an environment, one after the other. Their random actions go on from one to the next, else every
/// roll-out after a reset would be the same one.
#[derive(Default)]
pub(super) struct Play {
    current: Option<(Player, Rollout)>,
    /// The tick at which the next one begins if none goes on.
    tick: u64,
}

/// A policy by its name and arguments.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Player {
    policy: String,
    arguments: Vec<(String, String)>,
}

/// What a snapshot's header says of them.
#[derive(Serialize, Deserialize)]
pub(super) struct Saved {
    /// Whose roll-out goes on, and how many bytes it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rollout: Option<(Player, usize)>,
    /// Where the next roll-out begins if none goes on.
    #[serde(default, skip_serializing_if = "is_zero")]
    tick: u64,
}

fn is_zero(tick: &u64) -> bool {
    *tick == 0
}

impl Player {
    /// Its roll-out, which has not begun, from a tick on; refused where the policy cannot act.
    fn rollout(&self, batch: &dyn Batch, tick: u64) -> Result<Rollout> {
        let arguments: Vec<_> = self.arguments.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let policy = Policy::parse(&self.policy, &arguments, batch.spec())?;
        policy.check(batch.spec())?;
        Ok(Rollout::from_tick(policy, batch, tick))
    }
}

impl Play {
    /// Begins the roll-out of a policy, or lets the one of the same name and arguments go on; what is refused leaves the
    /// one there is as it is.
    pub(super) fn begin(
        &mut self,
        batch: &dyn Batch,
        policy: &str,
        arguments: &[(String, String)],
        tile: usize,
    ) -> Result<()> {
        let is_known = |player: &Player| player.policy == policy && player.arguments == arguments;
        if let Some((_, rollout)) = self.current.as_mut().filter(|(player, _)| is_known(player)) {
            return rollout.set_tile(tile);
        }
        let player = Player { policy: policy.to_owned(), arguments: arguments.to_vec() };
        let mut rollout = player.rollout(batch, self.tick())?;
        rollout.set_tile(tile)?;
        self.current = Some((player, rollout));
        Ok(())
    }

    /// The one that has begun.
    pub(super) fn current(&mut self) -> &mut Rollout {
        let (_, rollout) = self.current.as_mut().expect("begun before");
        rollout
    }

    /// Ends the one that goes on, if any; random actions go on.
    pub(super) fn end(&mut self) {
        *self = Self { current: None, tick: self.tick() };
    }

    fn tick(&self) -> u64 {
        self.current.as_ref().map_or(self.tick, |(_, rollout)| rollout.tick())
    }

    /// What the header of a snapshot says, and what comes after the batch.
    pub(super) fn saved(&self) -> (Saved, Vec<u8>) {
        let Some((player, rollout)) = &self.current else {
            return (Saved { rollout: None, tick: self.tick }, Vec::new());
        };
        let bytes = rollout.snapshot();
        (Saved { rollout: Some((player.clone(), bytes.len())), tick: 0 }, bytes)
    }

    /// What was saved, with the bytes that [`Saved::bytes`] counts, for the batch of then.
    pub(super) fn restored(saved: Saved, bytes: &[u8], batch: &dyn Batch) -> Result<Self> {
        let current = saved.rollout.map(|(player, _)| {
            let mut rollout = player.rollout(batch, 0)?;
            rollout.restore(bytes).map(|()| (player, rollout))
        });
        Ok(Self { current: current.transpose()?, tick: saved.tick })
    }
}

impl Saved {
    /// The bytes that come after those of the batch.
    pub(super) fn bytes(&self) -> usize {
        self.rollout.as_ref().map_or(0, |(_, bytes)| *bytes)
    }
}
