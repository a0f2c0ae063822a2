//! How many pairs and how large grids a data set has.

use std::sync::Arc;

use serde::Serialize;

use crate::arc::task::Task;

/// Smallest, mean and largest of some numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest.
    pub min: usize,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: usize,
}

/// Numbers about a set of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Number of tasks.
    pub tasks: usize,
    /// Training pairs of a task.
    pub train_pairs: Spread,
    /// Test pairs of a task.
    pub test_pairs: Spread,
    /// Rows of a grid.
    pub heights: Spread,
    /// Columns of a grid.
    pub widths: Spread,
}

impl Spread {
    /// Of at least one number.
    fn of(values: impl Iterator<Item = usize>) -> Option<Self> {
        let (mut count, mut sum, mut min, mut max) = (0_usize, 0, usize::MAX, 0);
        for value in values {
            (count, sum, min, max) = (count + 1, sum + value, min.min(value), max.max(value));
        }
        (count > 0).then(|| Self { min, mean: sum as f64 / count as f64, max })
    }
}

impl Statistics {
    /// Of at least one task.
    pub fn of(tasks: &[Arc<Task>]) -> Option<Self> {
        let grids = || tasks.iter().flat_map(|task| task.grids());
        Some(Self {
            tasks: tasks.len(),
            train_pairs: Spread::of(tasks.iter().map(|task| task.train.len()))?,
            test_pairs: Spread::of(tasks.iter().map(|task| task.test.len()))?,
            heights: Spread::of(grids().map(|grid| grid.height))?,
            widths: Spread::of(grids().map(|grid| grid.width))?,
        })
    }
}
