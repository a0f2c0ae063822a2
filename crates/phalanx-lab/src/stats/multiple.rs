//! Many tests at once: which of them still count.

/// Which hypotheses Benjamini and Hochberg reject: at most a share `alpha` of these are expected to be false alarms.
/// For reports.
pub fn benjamini_hochberg(p: &[f64], alpha: f64) -> Vec<bool> {
    let ascending = order(p);
    // The last p below its line, and everything smaller, even where that lies above its own line.
    let below = |rank: usize, p: f64| p <= alpha * (rank + 1) as f64 / ascending.len() as f64;
    let rejected = ascending.iter().enumerate().rposition(|(rank, &i)| below(rank, p[i])).map_or(0, |last| last + 1);
    mark(&ascending, rejected)
}

/// Which hypotheses Holm rejects: any false alarm at all has at most probability `alpha`. For gates.
pub fn holm(p: &[f64], alpha: f64) -> Vec<bool> {
    let ascending = order(p);
    let below = |rank: usize, p: f64| p <= alpha / (ascending.len() - rank) as f64;
    let rejected = ascending.iter().enumerate().take_while(|&(rank, &i)| below(rank, p[i])).count();
    mark(&ascending, rejected)
}

fn order(p: &[f64]) -> Vec<usize> {
    let mut ascending: Vec<usize> = (0..p.len()).collect();
    ascending.sort_by(|&i, &j| p[i].total_cmp(&p[j]));
    ascending
}

fn mark(ascending: &[usize], rejected: usize) -> Vec<bool> {
    let mut marks = vec![false; ascending.len()];
    ascending[..rejected].iter().for_each(|&i| marks[i] = true);
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::share;

    #[test]
    fn four_tests() {
        let p = [0.03, 0.001, 0.2, 0.018];
        assert_eq!(benjamini_hochberg(&p, 0.05), [true, true, false, true]);
        assert_eq!(holm(&p, 0.05), [false, true, false, false]);
        assert!(benjamini_hochberg(&[], 0.05).is_empty() && holm(&[], 0.05).is_empty());
    }

    #[test]
    fn a_later_p_below_its_line_carries_the_earlier_ones() {
        assert_eq!(benjamini_hochberg(&[0.03, 0.04], 0.05), [true, true]);
        assert_eq!(holm(&[0.03, 0.04], 0.05), [false, false]);
    }

    #[test]
    fn gates_rarely_close_without_a_cause() {
        let alarms = share(13, 4000, |random| {
            let p: Vec<f64> = (0..20).map(|_| random.unit()).collect();
            holm(&p, 0.05).contains(&true)
        });
        assert!((0.03..0.07).contains(&alarms), "{alarms}");
    }
}
