//! `phalanx bench worker`: a process that takes samples for a campaign.

use std::time::Instant;

use phalanx_lab::worker;

use crate::failure::Failure;
use crate::workloads;

pub(crate) fn run(start: Instant) -> Result<(), Failure> {
    let make = |case: &_| workloads::of(case).map_err(|failure| failure.to_string());
    let elapsed = || start.elapsed().as_nanos() as u64;
    worker::serve(std::io::stdin().lock(), std::io::stdout().lock(), make, elapsed).map_err(Failure::stdout)
}
