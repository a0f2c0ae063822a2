//! Mann and Whitney's comparison of unpaired samples, with the shift that gives its p a meaning.
//!
//! Not from `statrs`, whose exact p visits every arrangement: 8 values against 100 would take for ever.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

use super::descriptive::{median, sorted};

/// The smaller sample up to which p is exact.
const LARGEST_EXACT: usize = 8;

/// Whether p counts arrangements or approximates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PValue {
    /// All arrangements were counted.
    Exact,
    /// By the normal distribution, corrected for ties and continuity.
    Normal,
}

/// x against y.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MannWhitney {
    /// Number of pairs with x > y, ties count half.
    pub u: f64,
    /// Probability that an x is above a y.
    pub superiority: f64,
    /// Hodges and Lehmann's shift: the median of all differences x − y.
    pub shift: f64,
    /// Probability of a U this far from its middle without a cause, two-sided.
    pub p: f64,
    /// How p was found.
    pub method: PValue,
}

impl MannWhitney {
    /// Compares two samples; `None` if one is empty.
    pub fn of(x: &[f64], y: &[f64]) -> Option<Self> {
        if x.is_empty() || y.is_empty() {
            return None;
        }
        let differences: Vec<f64> = x.iter().flat_map(|a| y.iter().map(move |b| a - b)).collect();
        let pairs = differences.len() as f64;
        let half_points = |difference: &f64| match difference {
            d if *d > 0.0 => 2.0,
            d if *d == 0.0 => 1.0,
            _ => 0.0,
        };
        let u = 0.5 * differences.iter().map(half_points).sum::<f64>();
        let ties = tie_sizes(&[x, y].concat());
        let exact = ties.iter().all(|&size| size == 1) && x.len().min(y.len()) <= LARGEST_EXACT;
        let (p, method) = match exact {
            true => (exact_p(u, x.len(), y.len()), PValue::Exact),
            false => (normal_p(u, x.len(), y.len(), &ties), PValue::Normal),
        };
        Some(Self { u, superiority: u / pairs, shift: median(&differences), p, method })
    }
}

/// How often each different value occurs.
fn tie_sizes(values: &[f64]) -> Vec<usize> {
    sorted(values).chunk_by(|a, b| a == b).map(<[f64]>::len).collect()
}

/// The share of arrangements at least as far from the middle.
fn exact_p(u: f64, n: usize, m: usize) -> f64 {
    let (few, many) = (n.min(m), n.max(m));
    let most = few * many;
    // ways[k][s]: in how many ways k values of the smaller sample are above s of the larger one in all, each above at
    // most `above` of them.
    let mut ways = vec![vec![0.0; most + 1]; few + 1];
    ways[0][0] = 1.0;
    for above in 0..=many {
        for k in 1..=few {
            let (fewer, this) = ways.split_at_mut(k);
            for s in above..=k * many {
                this[0][s] += fewer[k - 1][s - above];
            }
        }
    }
    let arrangements: f64 = ways[few].iter().sum();
    let extreme = u.max(most as f64 - u).ceil() as usize;
    (2.0 * ways[few][extreme..].iter().sum::<f64>() / arrangements).min(1.0)
}

fn normal_p(u: f64, n: usize, m: usize, ties: &[usize]) -> f64 {
    let (n, m) = (n as f64, m as f64);
    let all = n + m;
    let tied: f64 = ties.iter().map(|&size| (size as f64).powi(3) - size as f64).sum();
    let variance = n * m / 12.0 * (all + 1.0 - tied / (all * (all - 1.0)));
    let distance = ((u - 0.5 * n * m).abs() - 0.5).max(0.0);
    // All values equal: nothing differs.
    if variance > 0.0 { 2.0 * Normal::standard().sf(distance / variance.sqrt()) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::{assert_close, assert_near, share};

    const X: [f64; 5] = [10.2, 10.5, 10.1, 10.4, 10.3];
    const Y: [f64; 5] = [9.9, 10.0, 9.8, 10.15, 9.7];

    #[test]
    fn five_against_five() {
        let test = MannWhitney::of(&X, &Y).unwrap();
        assert_eq!((test.u, test.method), (24.0, PValue::Exact));
        assert_near(test.p, 0.015_873_0, 5e-8);
        assert_near(normal_p(24.0, 5, 5, &[1; 10]), 0.021_571_7, 5e-8);
        assert_close(test.superiority, 0.96);
        assert_close(test.shift, 0.40);
        let mirrored = MannWhitney::of(&Y, &X).unwrap();
        assert_eq!((mirrored.u, mirrored.p), (1.0, test.p));
    }

    #[test]
    fn ties() {
        let test = MannWhitney::of(&[1.0, 2.0, 2.0, 3.0], &[2.0, 3.0, 4.0, 4.0]).unwrap();
        assert_eq!((test.u, test.method), (2.5, PValue::Normal));
        assert_near(test.p, 0.134_169_2, 5e-8);
        assert_eq!(MannWhitney::of(&[1.0; 4], &[1.0; 4]).unwrap().p, 1.0);
        assert_eq!(MannWhitney::of(&[], &[1.0]), None);
    }

    #[test]
    fn smallest_possible_p() {
        for (n, p) in [(3, 0.1), (4, 0.028_571_4), (5, 0.007_936_5), (9, 4.11e-5)] {
            assert_near(exact_p((n * n) as f64, n, n), p, 5e-8);
            assert_eq!(exact_p((n * n) as f64, n, n), exact_p(0.0, n, n));
        }
    }

    #[test]
    fn exact_p_of_unequal_sizes() {
        // One value above all m others: one of m+1 places, at either end.
        assert_close(exact_p(9.0, 1, 9), 0.2);
        assert_close(exact_p(0.0, 9, 1), 0.2);
        // The middle itself is as close to the middle as anything.
        assert_eq!(exact_p(12.0, 4, 6), 1.0);
        assert_near(exact_p(280.0, 8, 100), normal_p(280.0, 8, 100, &[1; 108]), 5e-3);
    }

    #[test]
    fn exact_p_agrees_with_listing_all_arrangements() {
        let (n, m) = (3, 5);
        // Arrangements are the sets of n of n+m ranks; U of a set counts the other ranks below its members.
        let sets = (0_u32..1 << (n + m)).filter(|set| set.count_ones() == n as u32);
        let u = |set: u32| {
            (0..n + m)
                .filter(|rank| set >> rank & 1 == 1)
                .map(|rank| (!set & ((1 << rank) - 1)).count_ones())
                .sum::<u32>()
        };
        let all: Vec<u32> = sets.map(u).collect();
        for observed in 0..=(n * m) as u32 {
            let far = observed.max((n * m) as u32 - observed);
            let share = all.iter().filter(|&&u| u >= far).count() as f64 / all.len() as f64;
            assert_close(exact_p(f64::from(observed), n, m), (2.0 * share).min(1.0));
        }
    }

    #[test]
    fn equal_distributions_rarely_differ() {
        for n in [6, 12] {
            let alarms = share(19, 4000, |random| {
                let mut draw = || (0..n).map(|_| random.normal()).collect::<Vec<f64>>();
                MannWhitney::of(&draw(), &draw()).unwrap().p <= 0.05
            });
            assert!((0.03..0.06).contains(&alarms), "{n}: {alarms}");
        }
    }
}
