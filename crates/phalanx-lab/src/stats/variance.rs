//! Where the spread of timings comes from: differences between processes, or between samples of one process.

use serde::{Deserialize, Serialize};

use super::descriptive::Moments;

/// Variance at two levels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TwoLevel {
    /// Mean square between processes.
    pub mean_square_between: f64,
    /// Mean square within processes.
    pub mean_square_within: f64,
    /// Variance that processes add to their samples (σ²_b).
    pub between: f64,
    /// Variance of the samples of one process (σ²_w).
    pub within: f64,
    /// Mean of all samples.
    pub mean: f64,
    /// Variance of that mean.
    pub variance_of_mean: f64,
}

impl TwoLevel {
    /// Splits the variance of samples, one slice per process.
    ///
    /// Processes may differ in their number of steady samples (standard unbalanced analysis, with which equal
    /// numbers give the usual formulas). `None` below two processes, or if none has two samples.
    pub fn of<S: AsRef<[f64]>>(processes: &[S]) -> Option<Self> {
        let moments: Vec<Moments> = processes.iter().map(|samples| Moments::of(samples.as_ref())).collect();
        let samples: usize = moments.iter().map(|process| process.count).sum();
        if moments.len() < 2 || samples <= moments.len() || moments.iter().any(|process| process.count == 0) {
            return None;
        }
        let sum = |term: &dyn Fn(&Moments) -> f64| moments.iter().map(term).sum::<f64>();
        let (all, processes) = (samples as f64, moments.len() as f64);
        let mean = sum(&|process| process.count as f64 * process.mean) / all;
        let mean_square_within = sum(&|process| process.squares) / (all - processes);
        let mean_square_between =
            sum(&|process| process.count as f64 * (process.mean - mean).powi(2)) / (processes - 1.0);
        let typical_count = (all - sum(&|process| (process.count as f64).powi(2)) / all) / (processes - 1.0);
        Some(Self {
            mean_square_between,
            mean_square_within,
            between: ((mean_square_between - mean_square_within) / typical_count).max(0.0),
            within: mean_square_within,
            mean,
            variance_of_mean: mean_square_between / all,
        })
    }

    /// Samples of each process beyond which more processes tell more for the same time (n*), where the start of a process
    /// costs as much as so many samples; `None` if processes do not differ, and one may as well go on.
    pub fn best_samples(&self, start_in_samples: f64) -> Option<f64> {
        (self.between > 0.0).then(|| (start_in_samples * self.within / self.between).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Stream;
    use crate::stats::testing::{assert_close, assert_near};

    const ROWS: [[f64; 3]; 4] = [[10.0, 10.2, 10.1], [10.6, 10.4, 10.5], [9.9, 10.1, 10.0], [10.3, 10.2, 10.4]];

    #[test]
    fn four_processes_of_three_samples() {
        let levels = TwoLevel::of(&ROWS).unwrap();
        assert_close(levels.mean_square_between, 0.1475);
        assert_close(levels.mean_square_within, 0.01);
        assert_near(levels.between, 0.045_833_3, 1e-7);
        assert_near(levels.variance_of_mean, 0.012_291_67, 1e-8);
        assert_near(levels.best_samples(20.0).unwrap(), 2.0889, 5e-5);
        assert_eq!(TwoLevel::of(&[[1.0, 2.0], [1.0, 2.0]]).unwrap().best_samples(20.0), None);
    }

    #[test]
    fn too_little_to_split() {
        assert_eq!(TwoLevel::of(&ROWS[..1]), None);
        assert_eq!(TwoLevel::of(&[[1.0], [2.0]]), None);
        assert_eq!(TwoLevel::of(&[vec![1.0, 2.0, 3.0], vec![]]), None);
    }

    #[test]
    fn known_levels_are_found_in_unequal_processes() {
        let mut random = Stream::new(3, 0);
        let processes: Vec<Vec<f64>> = (0..2000)
            .map(|process| {
                let level = 2.0 * random.normal();
                (0..5 + process % 7).map(|_| level + random.normal()).collect()
            })
            .collect();
        let levels = TwoLevel::of(&processes).unwrap();
        assert_near(levels.between, 4.0, 0.5);
        assert_near(levels.within, 1.0, 0.1);
    }
}
