//! Steps downhill: Adam and its relatives, and the limit on a gradient's length.

use serde::{Deserialize, Serialize};

use super::Scalar;

/// How moments become a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// Kingma and Ba.
    Adam,
    /// Adam with weights that shrink by this part of the learning rate in each step (Loshchilov and Hutter).
    AdamW {
        /// Part of a weight that is taken away per unit of learning rate.
        weight_decay: f64,
    },
    /// Adam that does not trust the second moment before it has seen enough (Liu et al.).
    RAdam,
}

/// An optimiser and its memory of the gradients it has seen.
#[derive(Clone, Debug)]
pub struct Optimizer<T> {
    /// How moments become a step.
    pub rule: Rule,
    /// How much of the first and of the second moment is kept in a step.
    pub betas: (f64, f64),
    /// Keeps a step finite where the second moment is 0.
    pub epsilon: f64,
    /// The running mean of gradients.
    pub first: Vec<T>,
    /// The running mean of their squares.
    pub second: Vec<T>,
    /// Steps taken.
    pub steps: u64,
}

impl<T: Scalar> Optimizer<T> {
    /// An optimiser of so many parameters that has not seen a gradient, with the usual betas 0.9 and 0.999.
    pub fn new(rule: Rule, epsilon: f64, parameters: usize) -> Self {
        let zeros = vec![T::zero(); parameters];
        Self { rule, betas: (0.9, 0.999), epsilon, first: zeros.clone(), second: zeros, steps: 0 }
    }

    /// Takes a step against the gradients.
    pub fn update(&mut self, parameters: &mut [T], gradients: &[T], learning_rate: f64) {
        assert_eq!(
            (parameters.len(), gradients.len()),
            (self.first.len(), self.first.len()),
            "parameters and gradients"
        );
        self.steps += 1;
        let (beta1, beta2) = self.betas;
        let kept = |beta: f64| 1.0 - libm::pow(beta, self.steps as f64);
        let Scale { step, root, epsilon } = self.scale(learning_rate, kept(beta1), kept(beta2));
        let decay = match self.rule {
            Rule::AdamW { weight_decay } => 1.0 - learning_rate * weight_decay,
            _ => 1.0,
        };
        let [beta1, beta2, fresh1, fresh2, step, root, epsilon, decay] =
            [beta1, beta2, 1.0 - beta1, 1.0 - beta2, step, root, epsilon, decay].map(T::of);
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((parameter, gradient), (first, second)) in parameters.iter_mut().zip(gradients).zip(moments) {
            *first = beta1 * *first + fresh1 * *gradient;
            *second = beta2 * *second + fresh2 * *gradient * *gradient;
            *parameter = decay * *parameter - step * *first / (root * second.sqrt() + epsilon);
        }
    }

    /// The numbers that are the same for all parameters, `step * first / (root * sqrt(second) + epsilon)`.
    fn scale(&self, learning_rate: f64, kept1: f64, kept2: f64) -> Scale {
        let step = learning_rate / kept1;
        let adam = Scale { step, root: kept2.sqrt().recip(), epsilon: self.epsilon };
        if self.rule != Rule::RAdam {
            return adam;
        }
        let (beta2, steps) = (self.betas.1, self.steps as f64);
        let most = 2.0 / (1.0 - beta2) - 1.0;
        let now = most - 2.0 * steps * (1.0 - kept2) / kept2;
        if now <= 5.0 {
            return Scale { step, root: 0.0, epsilon: 1.0 };
        }
        let trust = ((now - 4.0) * (now - 2.0) * most / ((most - 4.0) * (most - 2.0) * now)).sqrt();
        Scale { step: step * trust, ..adam }
    }
}

/// See [`Optimizer::scale`].
struct Scale {
    step: f64,
    root: f64,
    epsilon: f64,
}

/// Shortens a gradient that is longer than `longest`; answers its length before.
pub fn clip_norm<T: Scalar>(gradients: &mut [T], longest: f64) -> f64 {
    let norm = norm(gradients);
    let factor = longest / (norm + 1e-6);
    if factor < 1.0 {
        let factor = T::of(factor);
        gradients.iter_mut().for_each(|gradient| *gradient *= factor);
    }
    norm
}

/// The Euclidean length, summed in columns that fit into lanes.
fn norm<T: Scalar>(values: &[T]) -> f64 {
    const COLUMNS: usize = 16;
    let rows = values.chunks_exact(COLUMNS);
    let rest: f64 = rows.remainder().iter().map(|x| to_f64(*x * *x)).sum();
    let sums = rows.fold([T::zero(); COLUMNS], |mut sums, row| {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x * *x);
        sums
    });
    (sums.into_iter().map(to_f64).sum::<f64>() + rest).sqrt()
}

fn to_f64<T: Scalar>(value: T) -> f64 {
    value.to_f64().expect("a float is an f64, or nearly")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where one parameter goes from 0 with a learning rate of 0.1.
    fn path(rule: Rule, gradients: &[f64]) -> Vec<f64> {
        let mut optimizer = Optimizer::new(rule, 1e-8, 1);
        let mut parameter = [0.0];
        gradients
            .iter()
            .map(|gradient| {
                optimizer.update(&mut parameter, &[*gradient], 0.1);
                parameter[0]
            })
            .collect()
    }

    #[track_caller]
    fn assert_near(found: &[f64], expected: &[f64]) {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} instead of {expected:?}");
    }

    #[test]
    fn published_paths() {
        assert_near(&path(Rule::Adam, &[1.0, -0.5, 0.25]), &[-0.1, -0.126_633_70, -0.160_676_62]);
        assert_near(
            &path(Rule::RAdam, &[1.0, -0.5, 0.25, 1.0, 1.0, 1.0, 1.0]),
            &[-0.1, -0.121_052_63, -0.143_561_86, -0.188_604_02, -0.247_066_57, -0.249_116_78, -0.251_881_70],
        );
    }

    #[test]
    fn weights_decay_apart_from_the_gradient() {
        let mut optimizer = Optimizer::new(Rule::AdamW { weight_decay: 0.5 }, 1e-8, 1);
        let mut parameter = [2.0];
        optimizer.update(&mut parameter, &[0.0], 0.1);
        assert!((parameter[0] - 1.9_f64).abs() < 1e-12);
    }

    #[test]
    fn long_gradients_are_shortened() {
        let mut gradients: Vec<f64> = (0..35).map(|i| f64::from(i - 17)).collect();
        let before = gradients.iter().map(|x| x * x).sum::<f64>().sqrt();
        assert!((clip_norm(&mut gradients, 0.5) - before).abs() < 1e-12);
        assert!((norm(&gradients) - 0.5).abs() < 1e-6);
        let short = [0.3_f32, 0.4];
        let mut same = short;
        assert!((clip_norm(&mut same, 0.6) - 0.5).abs() < 1e-6);
        assert_eq!(same, short);
        assert!(clip_norm(&mut [f32::NAN], 1.0).is_nan());
    }
}
