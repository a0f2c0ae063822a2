//! The grid that an episode starts with.
//!
//! | mode | start grid |
//! |---|---|
//! | demo | the pair's input |
//! | permutation | the input turned, mirrored or recoloured |
//! | empty | zeros of the input's size |
//! | random | random colours on the input's size |
//!
//! JaxARC's demo mode starts with the input of a random other pair, so that start and target do not
//! belong together, and its transforms take the padding along.

use phalanx_core::rng::Draws;

use super::grid::{COLOURS, Canvas};

/// How start grids are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// Weights of demo, permutation, empty and random; all zero means all alike. Default 1, 0, 0, 0.
    pub weights: [f32; 4],
    /// Permutations may turn the grid. Default true.
    pub rotate: bool,
    /// Permutations may mirror the grid. Default true.
    pub mirror: bool,
    /// Permutations may exchange colours. Default true.
    pub recolour: bool,
    /// Random grids gather colours around coloured cells. Default false.
    pub dense: bool,
    /// Share of coloured cells in a random grid. Default 0.3.
    pub density: f32,
}

impl Default for Start {
    fn default() -> Self {
        Self { weights: [1.0, 0.0, 0.0, 0.0], rotate: true, mirror: true, recolour: true, dense: false, density: 0.3 }
    }
}

impl Start {
    /// Checks weights and density.
    pub fn check(&self) -> phalanx_core::Result<()> {
        if let Some(weight) = self.weights.iter().find(|weight| !(0.0..f32::INFINITY).contains(*weight)) {
            return Err(phalanx_core::Error::out_of_range("a start weight", weight, "0 or more"));
        }
        if !(0.0..=1.0).contains(&self.density) {
            return Err(phalanx_core::Error::out_of_range("density", self.density, "from 0 to 1"));
        }
        Ok(())
    }

    /// Draws a start grid.
    #[inline]
    pub fn draw<const N: usize, const W: usize>(&self, input: &Canvas<N, W>, draws: &mut Draws<f32>) -> Canvas<N, W> {
        if self.weights[0] > 0.0 && self.weights[1..] == [0.0; 3] {
            return *input;
        }
        match self.mode(draws) {
            0 => *input,
            1 => self.permute(input, draws),
            2 => Canvas::filled(input.size.height.into(), input.size.width.into(), 0),
            _ => self.random(input, draws),
        }
    }

    /// The index of the mode.
    fn mode(&self, draws: &mut Draws<f32>) -> usize {
        let total: f32 = self.weights.iter().sum();
        if total == 0.0 {
            return draws.below(4) as usize;
        }
        let mut left = draws.unit() * total;
        let mut chosen = 0;
        for (mode, weight) in self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            chosen = mode;
            if left < *weight {
                break;
            }
            left -= weight;
        }
        chosen
    }

    fn permute<const N: usize, const W: usize>(&self, input: &Canvas<N, W>, draws: &mut Draws<f32>) -> Canvas<N, W> {
        let (height, width) = (usize::from(input.size.height), usize::from(input.size.width));
        let enabled = [self.rotate, self.mirror, self.recolour];
        let count = enabled.iter().filter(|on| **on).count() as u32;
        if count == 0 {
            return *input;
        }
        let chosen = draws.below(count) as usize;
        let cell = |r: usize, c: usize| input.get(r, c);
        match (0..3).filter(|k| enabled[*k]).nth(chosen) {
            Some(0) => match draws.below(3) {
                0 => Canvas::from_fn(width, height, |r, c| cell(height - 1 - c, r)),
                1 => Canvas::from_fn(height, width, |r, c| cell(height - 1 - r, width - 1 - c)),
                _ => Canvas::from_fn(width, height, |r, c| cell(c, width - 1 - r)),
            },
            Some(1) => match draws.below(2) {
                0 => Canvas::from_fn(height, width, |r, c| cell(r, width - 1 - c)),
                _ => Canvas::from_fn(height, width, |r, c| cell(height - 1 - r, c)),
            },
            _ => {
                let mut colours: [i8; COLOURS as usize] = std::array::from_fn(|colour| colour as i8);
                for i in (1..colours.len()).rev() {
                    colours.swap(i, draws.below(i as u32 + 1) as usize);
                }
                Canvas::from_fn(height, width, |r, c| colours[cell(r, c) as usize])
            }
        }
    }

    fn random<const N: usize, const W: usize>(&self, input: &Canvas<N, W>, draws: &mut Draws<f32>) -> Canvas<N, W> {
        let (height, width) = (usize::from(input.size.height), usize::from(input.size.width));
        let mut coloured = |share: f32| {
            // Both are drawn for every cell, so that a cell's draws do not depend on other cells.
            let (hit, colour) = (draws.bernoulli(share), draws.below(u32::from(COLOURS) - 1) as i8 + 1);
            if hit { colour } else { 0 }
        };
        let share = if self.dense { 0.7 * self.density } else { self.density };
        let sparse = Canvas::<N, W>::from_fn(height, width, |_, _| coloured(share));
        if !self.dense {
            return sparse;
        }
        Canvas::from_fn(height, width, |r, c| {
            let (rows, columns) =
                (r.saturating_sub(1)..=(r + 1).min(height - 1), c.saturating_sub(1)..=(c + 1).min(width - 1));
            let near = rows.into_iter().any(|r| columns.clone().any(|c| sparse.get(r, c) > 0));
            let grown = coloured(0.3);
            if sparse.get(r, c) == 0 && near { grown } else { sparse.get(r, c) }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use phalanx_core::rng::{Purpose, Stream};

    use super::*;
    use crate::arc::grid::bytes;
    use crate::arc::testing::canvas;

    fn starts(start: Start, input: &str, count: u32) -> Vec<Canvas<10, 2>> {
        start.check().unwrap();
        let stream = Stream::<f32>::of_seed(1, 0);
        (0..count).map(|i| start.draw(&canvas(input), &mut stream.draws(Purpose::Reset, i, 0))).collect()
    }

    fn only(mode: usize) -> Start {
        Start { weights: std::array::from_fn(|m| if m == mode { 2.0 } else { 0.0 }), ..Start::default() }
    }

    #[test]
    fn demo_and_empty() {
        assert!(starts(Start::default(), "1 2 3 / 4 5 6", 20).iter().all(|grid| *grid == canvas("1 2 3 / 4 5 6")));
        assert!(starts(only(2), "1 2 3 / 4 5 6", 20).iter().all(|grid| *grid == canvas("0 0 0 / 0 0 0")));
    }

    #[test]
    fn permutations_act_on_the_active_area_only() {
        let shapes = Start { recolour: false, ..only(1) };
        let found: HashSet<_> = starts(shapes, "1 2 3 / 4 5 6", 300).iter().map(|g| g.cells).collect();
        let expected = ["4 1 / 5 2 / 6 3", "6 5 4 / 3 2 1", "3 6 / 2 5 / 1 4", "3 2 1 / 6 5 4", "4 5 6 / 1 2 3"];
        assert_eq!(found, expected.iter().map(|text| canvas(text).cells).collect());
        let colours = Start { rotate: false, mirror: false, ..only(1) };
        for grid in starts(colours, "0 1 2 3 4 5 6 7 8 9 / 9 8 7 6 5 4 3 2 1 0", 50) {
            assert!(grid.is_sound());
            assert_eq!((0..10).map(|c| grid.get(0, c)).collect::<HashSet<_>>().len(), 10);
            assert!((0..10).all(|c| grid.get(1, c) == grid.get(0, 9 - c)));
        }
        let none = Start { rotate: false, mirror: false, recolour: false, ..only(1) };
        assert_eq!(starts(none, "1 2", 1)[0], canvas("1 2"));
    }

    #[test]
    fn random_grids_have_their_density() {
        let input = "1 1 1 1 1 1 1 1 1 1 / 1 1 1 1 1 1 1 1 1 1 / 1 1 1 1 1 1 1 1 1 1 / 1 1 1 1 1 1 1 1 1 1";
        let share = |dense| {
            let grids = starts(Start { dense, density: 0.3, ..only(3) }, input, 2_000);
            assert!(grids.iter().all(|grid| grid.is_sound() && grid.size == canvas::<10, 2>(input).size));
            let count = grids.iter().flat_map(|g| bytes(&g.cells)).filter(|cell| **cell > 0).count();
            count as f64 / 80_000.0
        };
        // One standard deviation is 0.0016.
        assert!((share(false) - 0.3).abs() < 0.008, "{}", share(false));
        // 0.21, and of the rest with a coloured neighbour (six in seven or so) 0.3.
        assert!((0.36..0.42).contains(&share(true)), "{}", share(true));
    }

    #[test]
    fn weights_mix_the_modes() {
        let uniform = starts(Start { weights: [0.0; 4], ..Start::default() }, "1 2 3 / 4 5 6", 4_000);
        let zeros = uniform.iter().filter(|grid| **grid == canvas("0 0 0 / 0 0 0")).count() as f64;
        // A quarter, and of the random grids those without a colour: 0.7^6 = 0.118 of another quarter.
        assert!((zeros / 4_000.0 - 0.25 * 1.118).abs() < 0.03, "{zeros}");
        let mixed = starts(Start { weights: [3.0, 0.0, 1.0, 0.0], ..Start::default() }, "1 2 3", 4_000);
        let demo = mixed.iter().filter(|grid| **grid == canvas("1 2 3")).count() as f64;
        assert!((demo / 4_000.0 - 0.75).abs() < 0.03, "{demo}");
        assert!(Start { weights: [-1.0, 0.0, 0.0, 0.0], ..Start::default() }.check().is_err());
        assert!(Start { density: 1.5, ..Start::default() }.check().is_err());
    }
}
