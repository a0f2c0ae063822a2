//! Gradients over many rows, on all threads, with the same bits for any number of them.
//!
//! Sums of floating-point numbers depend on their order. So the rows are cut into shares by their number alone,
//! each share adds up its own tiles in order, and the sums of the shares are added in order.

use std::ops::Range;

use phalanx_core::pool::{Pool, Rows};

use super::Scalar;

/// Rows that go through a network together. Their activations stay in the second-level cache.
pub const TILE: usize = 128;

/// The most shares, and so the most threads that work on one gradient.
pub const SHARES: usize = 16;

/// One share's sum of gradients and whatever else its work needs, such as a tape and a sum of losses.
#[derive(Clone, Debug)]
pub struct Share<T, S> {
    /// The gradients so far.
    pub gradients: Vec<T>,
    /// What else the work needs.
    pub scratch: S,
}

/// Room for the gradients of all shares.
#[derive(Clone, Debug)]
pub struct Shares<T, S> {
    shares: Vec<Share<T, S>>,
}

impl<T: Scalar, S: Send> Shares<T, S> {
    /// Room for at most `rows` rows and this number of parameters.
    pub fn new(rows: usize, parameters: usize, scratch: impl Fn() -> S) -> Self {
        let share = |_| Share { gradients: vec![T::zero(); parameters], scratch: scratch() };
        Self { shares: (0..shares_of(rows)).map(share).collect() }
    }

    /// Calls `work` with the tiles of `0..rows`, on all threads, and sums up the gradients that it adds to its share.
    /// What is in the scratch of the shares that had rows is then told to `finish`, in order.
    ///
    /// # Panics
    ///
    /// If there are more rows than there is room for.
    pub fn gradient(
        &mut self,
        pool: &Pool,
        rows: usize,
        gradients: &mut [T],
        work: impl Fn(Range<usize>, &mut Share<T, S>) + Sync,
        mut finish: impl FnMut(&mut S),
    ) {
        let count = shares_of(rows);
        let shares = &mut self.shares[..count];
        let tiles = rows.div_ceil(TILE);
        pool.for_each(count, 1, Rows::new(shares, 1), |range, part: &mut [Share<T, S>]| {
            for (i, share) in range.zip(part) {
                share.gradients.fill(T::zero());
                for tile in i * tiles / count..(i + 1) * tiles / count {
                    work(tile * TILE..rows.min((tile + 1) * TILE), share);
                }
            }
        });
        gradients.fill(T::zero());
        for share in shares {
            gradients.iter_mut().zip(&share.gradients).for_each(|(sum, gradient)| *sum += *gradient);
            finish(&mut share.scratch);
        }
    }
}

fn shares_of(rows: usize) -> usize {
    rows.div_ceil(TILE).min(SHARES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::init::Init;
    use crate::nn::{Layer, Network, Tape};
    use crate::random::{Purpose, Random};

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let network = Network::new(3, &[Layer::Dense(16), Layer::Tanh, Layer::Dense(2)]);
        let mut random = Random::new(4, Purpose::Weights);
        let parameters: Vec<f32> = network.draw(Init::HeNormal, Init::LecunNormal, &mut random);
        for count in [1, 127, 128, 129, 1000, 5000] {
            let rows: Vec<f32> = (0..count * 3).map(|_| random.normal() as f32).collect();
            let gradient = |threads: usize| {
                let mut shares = Shares::new(count, network.parameters(), || (Tape::new(&network, TILE), 0));
                let mut gradients = vec![f32::NAN; network.parameters()];
                let mut seen = 0;
                shares.gradient(
                    &Pool::new(threads),
                    count,
                    &mut gradients,
                    |tile, share| {
                        let (tape, seen) = &mut share.scratch;
                        let rows = &rows[tile.start * 3..tile.end * 3];
                        let out = network.forward(&parameters, rows, tape).to_vec();
                        network.backward(&parameters, &out, tape, &mut share.gradients);
                        *seen += tile.len();
                    },
                    |(_, share)| seen += *share,
                );
                assert_eq!(seen, count);
                gradients
            };
            let alone = gradient(1);
            assert!([2, 3, 5].iter().all(|threads| gradient(*threads) == alone), "{count}");
            // And it is the gradient.
            let mut tape = Tape::new(&network, count);
            let out = network.forward(&parameters, &rows, &mut tape).to_vec();
            let mut at_once = vec![0.0; network.parameters()];
            network.backward(&parameters, &out, &mut tape, &mut at_once);
            assert!(alone.iter().zip(&at_once).all(|(a, b)| (a - b).abs() < 1e-4 * (1.0 + b.abs())), "{count}");
        }
    }
}
