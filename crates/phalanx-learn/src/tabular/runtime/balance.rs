//! Work shared out by measured speed.

/// Shares of `total` in proportion to `rates`: at least 1 each if there is that much, whole, and exactly `total`
/// together. What rounding leaves over goes to the largest fractions, the first of equal ones.
///
/// ```
/// use phalanx_learn::tabular::runtime::balance::shares;
/// assert_eq!(shares(&[1.0, 1.0, 2.0], 1_000), [250, 250, 500]);
/// assert_eq!(shares(&[1.0, 1.0, 1.0], 100), [34, 33, 33]);
/// ```
pub fn shares(rates: &[f64], total: u64) -> Vec<u64> {
    let usable = |rate: &f64| rate.is_finite() && *rate > 0.0;
    // Nothing measured, nothing preferred.
    let rate = |w: usize| if rates.iter().all(usable) { rates[w] } else { 1.0 };
    let sum: f64 = (0..rates.len()).map(rate).sum();
    let exact: Vec<f64> = (0..rates.len()).map(|w| total as f64 * (rate(w) / sum)).collect();
    let least = u64::from(total >= rates.len() as u64);
    let mut shares: Vec<u64> = exact.iter().map(|share| (share.floor() as u64).max(least)).collect();
    let mut order: Vec<usize> = (0..rates.len()).collect();
    order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()).then(a.cmp(b)));
    let given = |shares: &[u64]| shares.iter().sum::<u64>();
    for &worker in order.iter().cycle().take(total.saturating_sub(given(&shares)) as usize) {
        shares[worker] += 1;
    }
    // Those who got 1 for nothing got it from the largest.
    while given(&shares) > total {
        *shares.iter_mut().max().expect("somebody has a share") -= 1;
    }
    shares
}

/// How fast each worker is: an exponential mean of what was measured.
#[derive(Clone, Debug)]
pub struct Rates(Vec<f64>);

/// The weight of the newest measurement: the past is forgotten after a few, noise is not followed.
const NEWEST: f64 = 0.3;

impl Rates {
    /// Workers of which nothing is known.
    pub fn new(workers: usize) -> Self {
        Self(vec![0.0; workers])
    }

    /// Adds a measurement: work done in some seconds.
    pub fn measure(&mut self, worker: usize, work: u64, seconds: f64) {
        let (rate, measured) = (&mut self.0[worker], work as f64 / seconds.max(1e-9));
        *rate = if *rate == 0.0 { measured } else { *rate + NEWEST * (measured - *rate) };
    }

    /// Shares of `total` for the workers.
    pub fn shares(&self, total: u64) -> Vec<u64> {
        shares(&self.0, total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    #[test]
    fn shares_have_the_published_values() {
        assert_eq!(shares(&[1.0, 1.0, 2.0], 1_000), [250, 250, 500]);
        assert_eq!(shares(&[1.0, 1.0, 1.0], 100), [34, 33, 33]);
        assert_eq!(shares(&[1.0, 1e-9, 1e-9], 10), [8, 1, 1]);
        assert_eq!(shares(&[0.0, f64::NAN], 10), [5, 5]);
        assert_eq!(shares(&[1.0, 1.0, 1.0], 2), [1, 1, 0]);
    }

    #[test]
    fn shares_always_sum_to_the_total() {
        let mut random = Random::new(1, Purpose::Batches);
        for _ in 0..10_000 {
            let rates: Vec<f64> = (0..1 + random.below(20)).map(|_| random.normal().exp()).collect();
            let total = u64::from(random.below(2_000));
            let shares = shares(&rates, total);
            assert_eq!(shares.iter().sum::<u64>(), total);
            assert!(total < rates.len() as u64 || shares.iter().all(|share| *share > 0));
        }
    }

    #[test]
    fn a_slower_worker_gets_less() {
        let mut rates = Rates::new(2);
        assert_eq!(rates.shares(100), [50, 50]);
        for _ in 0..50 {
            rates.measure(0, 100, 1.0);
            rates.measure(1, 100, 3.0);
        }
        assert_eq!(rates.shares(100), [75, 25]);
    }
}
