//! Moments that an environment can go back to.

use phalanx_core::snapshot::{check_equal, decode, encode};
use phalanx_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::Inner;
use super::play::{Play, Saved};

const SNAPSHOT_KIND: &str = "vector environment";

#[derive(Serialize, Deserialize)]
struct Header {
    autoreset: String,
    was_reset: bool,
    steps: u64,
    #[serde(flatten)]
    play: Saved,
}

impl Inner {
    pub(super) fn snapshot(&self) -> Vec<u8> {
        let batch = self.batch.as_deref().expect("checked at the door").snapshot();
        let (play, rollout) = self.play.saved();
        let autoreset = format!("{:?}", self.autoreset);
        let header = Header { autoreset, was_reset: self.was_reset, steps: self.steps, play };
        encode(SNAPSHOT_KIND, &header, &[&batch, &rollout])
    }

    pub(super) fn restore(&mut self, bytes: &[u8], mask: Option<&[bool]>) -> Result<()> {
        let (header, payload): (Header, _) = decode(SNAPSHOT_KIND, bytes)?;
        check_equal("autoreset", &header.autoreset, &format!("{:?}", self.autoreset))?;
        let (batch, rollout) = payload
            .len()
            .checked_sub(header.play.bytes())
            .map(|at| payload.split_at(at))
            .ok_or_else(|| Error::Snapshot("has a roll-out that is not there".to_owned()))?;
        match mask {
            None => {
                let own = self.batch_mut();
                let before = (header.play.bytes() > 0).then(|| own.snapshot());
                own.restore(batch)?;
                let restored = Play::restored(header.play, rollout, own);
                if let (Err(_), Some(before)) = (&restored, &before) {
                    own.restore(before)?;
                }
                self.play = restored?;
                (self.was_reset, self.steps) = (header.was_reset, header.steps);
            }
            Some(mask) => {
                self.batch_mut().restore_some(batch, mask)?;
                // A roll-out counts the steps of all together: now they are at different ones.
                self.play.end();
            }
        }
        self.begin_episodes(mask);
        self.look_around(mask)
    }
}
