//! The largest number of environments that a memory budget allows: predicted, then tried.

use serde::Serialize;

use crate::Result;

/// Runs of the search.
pub const PROBES: usize = 5;
/// The first run, as a share of the prediction: a process takes a little more than its arrays.
const FIRST: f64 = 0.95;
/// How far the next one goes after one that fits.
const GROWTH: f64 = 1.5;

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MaxEnvs {
    /// The largest number that was tried and fits; 0 if none does, and then the last that was tried is the smallest.
    pub num_envs: usize,
    /// What the memory model says.
    pub predicted: usize,
    /// The budget.
    pub budget_bytes: f64,
    /// Everything tried, in order.
    pub probes: Vec<Probe>,
}

/// One run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Probe {
    /// Environments.
    pub num_envs: usize,
    /// Memory that they took; `None` if the system would not give it.
    pub bytes: Option<f64>,
    /// Whether that is within the budget.
    pub fits: bool,
}

/// Starts a little below the prediction, grows by half while runs fit, and halves the gap once one does not. `probe` runs so many
/// environments and answers the bytes they took, `None` if there is no such memory; `go_on` may end the search early.
pub fn max_envs(
    predicted: usize,
    budget_bytes: f64,
    mut probe: impl FnMut(usize) -> Result<Option<f64>>,
    mut go_on: impl FnMut(&Probe) -> bool,
) -> Result<MaxEnvs> {
    let mut found = MaxEnvs { num_envs: 0, predicted, budget_bytes, probes: Vec::new() };
    let (mut fits, mut too_many) = (0, None);
    let mut next = ((predicted as f64 * FIRST) as usize).max(1);
    while found.probes.len() < PROBES {
        let bytes = probe(next)?;
        let tried = Probe { num_envs: next, bytes, fits: bytes.is_some_and(|bytes| bytes <= budget_bytes) };
        found.probes.push(tried);
        if tried.fits {
            fits = next;
        } else {
            too_many = Some(next);
        }
        next = match too_many {
            None => (fits as f64 * GROWTH).ceil() as usize,
            Some(limit) => fits + (limit - fits) / 2,
        };
        if next == fits || !go_on(&tried) {
            break;
        }
    }
    found.num_envs = fits;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(predicted: usize, limit: usize) -> (usize, Vec<usize>) {
        let probe = |n: usize| Ok((n < 10_000).then_some(n as f64));
        let found = max_envs(predicted, limit as f64, probe, |_| true).unwrap();
        (found.num_envs, found.probes.iter().map(|probe| probe.num_envs).collect())
    }

    #[test]
    fn growth_then_bisection_within_five_probes() {
        assert_eq!(found(1000, 1800), (1781, vec![950, 1425, 2138, 1781, 1959]));
    }

    #[test]
    fn a_prediction_that_is_too_high_is_corrected() {
        assert_eq!(found(1000, 800), (771, vec![950, 475, 712, 831, 771]));
        assert_eq!(
            found(20_000, 1_000_000),
            (9500, vec![19_000, 9500, 14_250, 11_875, 10_687]),
            "no memory above 9999"
        );
        assert_eq!(found(1, 0), (0, vec![1]), "not even one");
    }

    #[test]
    fn it_can_be_stopped() {
        let found = max_envs(8, 100.0, |n| Ok(Some(n as f64)), |_| false).unwrap();
        assert_eq!((found.num_envs, found.probes.len()), (7, 1));
    }
}
