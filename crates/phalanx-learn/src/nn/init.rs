//! First weights.

use serde::{Deserialize, Serialize};

use super::Scalar;
use crate::random::Random;

/// How the weights of a dense layer are drawn. Biases start as 0, unless a kind says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Init {
    /// Rows (or columns, if there are fewer of them) at right angles to each other, each as long as the gain.
    Orthogonal {
        /// Length of a row or column.
        gain: f64,
    },
    /// Normal with variance 2/inputs, for layers that a ReLU follows.
    HeNormal,
    /// Normal with variance 1/inputs.
    LecunNormal,
    /// Uniform within 1/sqrt(inputs) of 0, biases too: the default of PyTorch.
    Uniform,
}

/// Draws the weights (row by row, a row for each output) and biases of a dense layer.
pub(super) fn draw<T: Scalar>(kind: Init, weights: &mut [T], biases: &mut [T], random: &mut Random) {
    let outputs = biases.len();
    let inputs = weights.len() / outputs.max(1);
    let mut normal = |variance: f64| {
        let spread = variance.sqrt();
        weights.iter_mut().for_each(|weight| *weight = T::of(spread * random.normal()));
    };
    match kind {
        Init::HeNormal => normal(2.0 / inputs as f64),
        Init::LecunNormal => normal(1.0 / inputs as f64),
        Init::Uniform => {
            let bound = 1.0 / (inputs as f64).sqrt();
            weights.iter_mut().chain(biases).for_each(|x| *x = T::of(bound * (2.0 * random.unit() - 1.0)));
        }
        Init::Orthogonal { gain } => {
            let (long, short) = (inputs.max(outputs), inputs.min(outputs));
            let vectors = orthonormal(short, long, random);
            for (i, weight) in weights.iter_mut().enumerate() {
                let (row, column) = (i / inputs, i % inputs);
                let (vector, component) = if outputs <= inputs { (row, column) } else { (column, row) };
                *weight = T::of(gain * vectors[vector][component]);
            }
        }
    }
}

/// So many vectors of length 1 at right angles to each other, in random directions: Gram and Schmidt's method,
/// which is the QR decomposition with a positive diagonal of a matrix of normal numbers.
fn orthonormal(count: usize, dimension: usize, random: &mut Random) -> Vec<Vec<f64>> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(count);
    while vectors.len() < count {
        let mut vector: Vec<f64> = (0..dimension).map(|_| random.normal()).collect();
        // Twice is enough: what rounding left of the others is gone after the second time.
        for _ in 0..2 {
            for other in &vectors {
                let part = dot(&vector, other);
                vector.iter_mut().zip(other).for_each(|(x, y)| *x -= part * y);
            }
        }
        let length = dot(&vector, &vector).sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
        vectors.push(vector);
    }
    vectors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    fn drawn(kind: Init, outputs: usize, inputs: usize) -> (Vec<f64>, Vec<f64>) {
        let (mut weights, mut biases) = (vec![0.0; outputs * inputs], vec![0.0; outputs]);
        draw(kind, &mut weights, &mut biases, &mut Random::new(2, Purpose::Weights));
        (weights, biases)
    }

    #[test]
    fn orthogonal_weights_are() {
        for (outputs, inputs) in [(4, 4), (3, 7), (64, 4), (1, 5)] {
            let (weights, biases) = drawn(Init::Orthogonal { gain: 3.0 }, outputs, inputs);
            assert!(biases.iter().all(|bias| *bias == 0.0));
            let short = inputs.min(outputs);
            let at = |vector: usize, i: usize| match outputs <= inputs {
                true => weights[vector * inputs + i],
                false => weights[i * inputs + vector],
            };
            for a in 0..short {
                for b in 0..short {
                    let product: f64 = (0..inputs.max(outputs)).map(|i| at(a, i) * at(b, i)).sum();
                    let expected = if a == b { 9.0 } else { 0.0 };
                    assert!((product - expected).abs() < 1e-12, "{outputs} x {inputs}: {product}");
                }
            }
        }
    }

    #[test]
    fn variances_follow_the_number_of_inputs() {
        for (kind, variance, bias_variance) in
            [(Init::HeNormal, 0.02, 0.0), (Init::LecunNormal, 0.01, 0.0), (Init::Uniform, 0.01 / 3.0, 0.01 / 3.0)]
        {
            let (weights, biases) = drawn(kind, 500, 100);
            let mean_square = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64;
            assert!((mean_square(&weights) / variance - 1.0).abs() < 0.03, "{kind:?}");
            assert!((mean_square(&biases) - bias_variance).abs() <= 0.2 * bias_variance, "{kind:?}");
        }
    }
}
