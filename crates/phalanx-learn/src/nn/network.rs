//! Layers, and how values and gradients go through them.

use super::init::Init;
use super::product::{Matrix, add_product, set_product};
use super::{Scalar, init};
use crate::random::Random;

/// Added to the variance by which a layer of kind [`Layer::Norm`] divides.
const NORM_EPSILON: f64 = 1e-5;

/// A layer of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// So many weighted sums of all inputs, each with a bias. Weights are stored row by row, a row for each output.
    Dense(usize),
    /// LayerNorm: the inputs of a row less their mean, divided by their spread, then scaled and shifted.
    Norm,
    /// `max(0, x)`
    Relu,
    /// The hyperbolic tangent.
    Tanh,
}

/// What a stage does with its inputs before its activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Map {
    Dense,
    Norm,
}

/// A map and the activation that follows it, in place.
#[derive(Clone, Copy, Debug)]
struct Stage {
    map: Map,
    activation: Option<Layer>,
    inputs: usize,
    outputs: usize,
    /// Where its parameters start: weights (or scales), then biases (or shifts).
    first: usize,
}

impl Stage {
    fn weights(&self) -> usize {
        match self.map {
            Map::Dense => self.inputs * self.outputs,
            Map::Norm => self.outputs,
        }
    }

    fn parameters(&self) -> usize {
        self.weights() + self.outputs
    }
}

/// The layers of a network; its parameters are the caller's.
///
/// ```
/// use phalanx_learn::nn::init::Init;
/// use phalanx_learn::nn::{Layer::*, Network, Tape};
/// use phalanx_learn::random::{Purpose, Random};
///
/// let network = Network::new(4, &[Dense(64), Tanh, Dense(2)]);
/// let mut random = Random::new(1, Purpose::Weights);
/// let parameters: Vec<f32> = network.draw(Init::Orthogonal { gain: 1.4 }, Init::Orthogonal { gain: 0.01 }, &mut random);
/// assert_eq!(parameters.len(), 4 * 64 + 64 + 64 * 2 + 2);
///
/// let mut tape = Tape::new(&network, 3);
/// let outputs = network.forward(&parameters, &[0.1; 3 * 4], &mut tape);
/// assert_eq!(outputs.len(), 3 * 2);
/// ```
#[derive(Clone, Debug)]
pub struct Network {
    inputs: usize,
    stages: Vec<Stage>,
}

/// What a forward pass leaves for the backward pass, for a tile of rows.
#[derive(Clone, Debug)]
pub struct Tape<T> {
    capacity: usize,
    rows: usize,
    /// Per stage, what comes out of it.
    outputs: Vec<Vec<T>>,
    /// Per stage and row, mean and reciprocal spread of what goes into a [`Layer::Norm`].
    moments: Vec<Vec<(T, T)>>,
    /// The gradient on its way back, and the next one.
    gradients: [Vec<T>; 2],
}

impl<T: Scalar> Tape<T> {
    /// A tape for at most `rows` rows.
    pub fn new(network: &Network, rows: usize) -> Self {
        let buffer = |stage: &Stage| vec![T::zero(); rows * stage.outputs];
        let moments = |stage: &Stage| vec![Default::default(); if stage.map == Map::Norm { rows } else { 0 }];
        let widest = network.stages.iter().map(|stage| stage.outputs.max(stage.inputs)).max().unwrap_or(0);
        Self {
            capacity: rows,
            rows: 0,
            outputs: network.stages.iter().map(buffer).collect(),
            moments: network.stages.iter().map(moments).collect(),
            gradients: [vec![T::zero(); rows * widest], vec![T::zero(); rows * widest]],
        }
    }

    /// What came out of the last forward pass.
    pub fn outputs(&self) -> &[T] {
        let last = self.outputs.last().expect("a network has layers");
        &last[..last.len() / self.capacity * self.rows]
    }
}

impl Network {
    /// A network of these layers for rows of `inputs` numbers.
    ///
    /// # Panics
    ///
    /// If it has no layer with weights, or two activations follow each other, or one comes first.
    pub fn new(inputs: usize, layers: &[Layer]) -> Self {
        let mut stages: Vec<Stage> = Vec::new();
        for &layer in layers {
            let (inputs, first) =
                stages.last().map_or((inputs, 0), |stage| (stage.outputs, stage.first + stage.parameters()));
            let stage = |map, outputs| Stage { map, activation: None, inputs, outputs, first };
            match layer {
                Layer::Dense(outputs) => stages.push(stage(Map::Dense, outputs)),
                Layer::Norm => stages.push(stage(Map::Norm, inputs)),
                Layer::Relu | Layer::Tanh => {
                    let before = stages.last_mut().map(|stage| stage.activation.replace(layer));
                    assert_eq!(before, Some(None), "an activation follows a layer with weights");
                }
            }
        }
        assert!(!stages.is_empty(), "a network has layers");
        Self { inputs, stages }
    }

    /// Numbers of a row that goes in.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Numbers of a row that comes out.
    pub fn outputs(&self) -> usize {
        self.stages.last().map_or(0, |stage| stage.outputs)
    }

    /// The number of parameters.
    pub fn parameters(&self) -> usize {
        self.stages.last().map_or(0, |stage| stage.first + stage.parameters())
    }

    /// Names, shapes and places of the parameters: a weight matrix and a bias for each layer that has them.
    pub fn tensors(&self) -> impl Iterator<Item = (String, Vec<usize>, std::ops::Range<usize>)> {
        self.stages.iter().enumerate().flat_map(|(i, stage)| {
            let middle = stage.first + stage.weights();
            let (names, shape) = match stage.map {
                Map::Dense => (["weight", "bias"], vec![stage.outputs, stage.inputs]),
                Map::Norm => (["scale", "shift"], vec![stage.outputs]),
            };
            let name = |part: usize| format!("{i}.{}", names[part]);
            [
                (name(0), shape, stage.first..middle),
                (name(1), vec![stage.outputs], middle..stage.first + stage.parameters()),
            ]
        })
    }

    /// First parameters: `output` for the weights of the last dense layer, `hidden` for those before it.
    pub fn draw<T: Scalar>(&self, hidden: Init, output: Init, random: &mut Random) -> Vec<T> {
        let mut parameters = vec![T::zero(); self.parameters()];
        let last = self.stages.iter().rposition(|stage| stage.map == Map::Dense);
        for (i, stage) in self.stages.iter().enumerate() {
            let (weights, biases) =
                parameters[stage.first..stage.first + stage.parameters()].split_at_mut(stage.weights());
            match stage.map {
                Map::Norm => weights.fill(T::one()),
                Map::Dense => {
                    let kind = if Some(i) == last { output } else { hidden };
                    init::draw(kind, weights, biases, random);
                }
            }
        }
        parameters
    }

    /// Sends rows through the network. Answers what comes out, which stays on the tape together with what
    /// [`Network::backward`] needs.
    ///
    /// # Panics
    ///
    /// If the tape is too short for the rows or belongs to another network, or if there are too few parameters.
    pub fn forward<'t, T: Scalar>(&self, parameters: &[T], rows: &[T], tape: &'t mut Tape<T>) -> &'t [T] {
        let count = rows.len() / self.inputs;
        assert!(count <= tape.capacity, "{count} rows on a tape of {}", tape.capacity);
        tape.rows = count;
        for (i, stage) in self.stages.iter().enumerate() {
            let (before, after) = tape.outputs.split_at_mut(i);
            let x = before.last().map_or(rows, |out| &out[..count * stage.inputs]);
            let y = &mut after[0][..count * stage.outputs];
            let (weights, biases) = parameters[stage.first..stage.first + stage.parameters()].split_at(stage.weights());
            match stage.map {
                Map::Dense => {
                    let weights = Matrix::new(weights, stage.outputs, stage.inputs).transposed();
                    set_product(y, Matrix::new(x, count, stage.inputs), weights);
                    // Row by row with the activation, so that a row is read and written once.
                    for row in y.chunks_exact_mut(stage.outputs) {
                        row.iter_mut().zip(biases).for_each(|(y, bias)| *y += *bias);
                        activate(stage.activation, row);
                    }
                }
                Map::Norm => {
                    norm_forward(weights, biases, x, y, &mut tape.moments[i]);
                    activate(stage.activation, y);
                }
            }
        }
        tape.outputs()
    }

    /// Adds to `gradients` what the last forward pass of `rows` contributes to them, where `out` is the gradient
    /// with respect to what came out.
    ///
    /// # Panics
    ///
    /// If the rows are not those of the forward pass, or slices are too short.
    pub fn backward<T: Scalar>(
        &self,
        parameters: &[T],
        rows: &[T],
        out: &[T],
        tape: &mut Tape<T>,
        gradients: &mut [T],
    ) {
        let count = tape.rows;
        assert_eq!(
            (rows.len(), out.len()),
            (count * self.inputs, count * self.outputs()),
            "the rows that went forward"
        );
        let [dy, dx] = &mut tape.gradients;
        let (mut dy, mut dx) = (dy, dx);
        dy[..out.len()].copy_from_slice(out);
        for (i, stage) in self.stages.iter().enumerate().rev() {
            let y = &tape.outputs[i][..count * stage.outputs];
            let x = if i == 0 { rows } else { &tape.outputs[i - 1][..count * stage.inputs] };
            let towards = &mut dy[..count * stage.outputs];
            match stage.activation {
                Some(Layer::Relu) => {
                    let flows = towards.iter_mut().zip(y);
                    flows.for_each(|(dy, y)| *dy = if *y > T::zero() { *dy } else { T::zero() });
                }
                Some(Layer::Tanh) => {
                    towards.iter_mut().zip(y).for_each(|(dy, y)| *dy *= T::one() - *y * *y);
                }
                _ => {}
            }
            let own = stage.first..stage.first + stage.parameters();
            let (weights, _) = parameters[own.clone()].split_at(stage.weights());
            let (d_weights, d_biases) = gradients[own].split_at_mut(stage.weights());
            add_column_sums(d_biases, towards);
            let back = &mut dx[..count * stage.inputs];
            match stage.map {
                Map::Dense => {
                    let towards = Matrix::new(towards, count, stage.outputs);
                    add_product(d_weights, towards.transposed(), Matrix::new(x, count, stage.inputs));
                    // Nobody asks for the gradient of the inputs.
                    if i > 0 {
                        set_product(back, towards, Matrix::new(weights, stage.outputs, stage.inputs));
                    }
                }
                Map::Norm => norm_backward(weights, x, towards, &tape.moments[i], d_weights, back),
            }
            std::mem::swap(&mut dy, &mut dx);
        }
    }
}

#[inline(always)]
fn activate<T: Scalar>(activation: Option<Layer>, values: &mut [T]) {
    match activation {
        Some(Layer::Relu) => values.iter_mut().for_each(|y| *y = if *y < T::zero() { T::zero() } else { *y }),
        Some(Layer::Tanh) => T::tanh_all(values),
        _ => {}
    }
}

fn add_column_sums<T: Scalar>(sums: &mut [T], rows: &[T]) {
    for row in rows.chunks_exact(sums.len()) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += *value);
    }
}

fn norm_forward<T: Scalar>(scales: &[T], shifts: &[T], x: &[T], y: &mut [T], moments: &mut [(T, T)]) {
    let width = T::of(scales.len() as f64);
    let rows = x.chunks_exact(scales.len()).zip(y.chunks_exact_mut(scales.len())).zip(moments);
    for ((x, y), moments) in rows {
        let mean = x.iter().copied().sum::<T>() / width;
        let variance = x.iter().map(|x| (*x - mean) * (*x - mean)).sum::<T>() / width;
        let per_spread = (variance + T::of(NORM_EPSILON)).sqrt().recip();
        *moments = (mean, per_spread);
        for (((y, x), scale), shift) in y.iter_mut().zip(x).zip(scales).zip(shifts) {
            *y = (*x - mean) * per_spread * *scale + *shift;
        }
    }
}

fn norm_backward<T: Scalar>(scales: &[T], x: &[T], dy: &[T], moments: &[(T, T)], d_scales: &mut [T], dx: &mut [T]) {
    let (width, n) = (scales.len(), T::of(scales.len() as f64));
    let rows = x.chunks_exact(width).zip(dy.chunks_exact(width)).zip(dx.chunks_exact_mut(width)).zip(moments);
    for (((x, dy), dx), &(mean, per_spread)) in rows {
        let normal = |x: T| (x - mean) * per_spread;
        // The mean and the spread depend on every input of the row, too.
        let (mut sum, mut product) = (T::zero(), T::zero());
        for (((x, dy), scale), d_scale) in x.iter().zip(dy).zip(scales).zip(d_scales.iter_mut()) {
            let towards = *dy * *scale;
            *d_scale += *dy * normal(*x);
            sum += towards;
            product += towards * normal(*x);
        }
        for (((dx, x), dy), scale) in dx.iter_mut().zip(x).zip(dy).zip(scales) {
            *dx = per_spread * (*dy * *scale - (sum + normal(*x) * product) / n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Layer::{Dense, Norm, Relu, Tanh};
    use super::*;
    use crate::random::Purpose;

    /// A network with random parameters of ordinary size, also where these start as 0 or 1.
    fn with_parameters(inputs: usize, layers: &[Layer]) -> (Network, Vec<f64>) {
        let network = Network::new(inputs, layers);
        let mut random = Random::new(11, Purpose::Weights);
        let parameters = (0..network.parameters()).map(|_| 0.5 * random.normal()).collect();
        (network, parameters)
    }

    fn some_rows(count: usize) -> Vec<f64> {
        let mut random = Random::new(12, Purpose::Weights);
        (0..count).map(|_| random.normal()).collect()
    }

    /// A loss that is not linear: half the sum of squares, each output with a weight of its own.
    fn loss(outputs: &[f64]) -> f64 {
        outputs.iter().enumerate().map(|(i, y)| 0.5 * (i % 5 + 1) as f64 * y * y).sum()
    }

    #[test]
    fn gradients_are_limits_of_differences() {
        for layers in [
            &[Dense(3)][..],
            &[Dense(5), Tanh, Dense(3)],
            &[Dense(6), Relu, Dense(4), Tanh, Dense(2)],
            &[Dense(6), Norm, Relu, Dense(5), Norm, Relu, Dense(3)],
            &[Norm, Dense(4), Norm, Tanh],
        ] {
            let (network, parameters) = with_parameters(4, layers);
            let (rows, count) = (some_rows(7 * 4), 7);
            let mut tape = Tape::new(&network, 9);
            let outputs = network.forward(&parameters, &rows, &mut tape).to_vec();
            assert_eq!(outputs.len(), count * network.outputs());
            let towards: Vec<f64> = outputs.iter().enumerate().map(|(i, y)| (i % 5 + 1) as f64 * y).collect();
            let mut gradients = vec![0.0; network.parameters()];
            network.backward(&parameters, &rows, &towards, &mut tape, &mut gradients);
            for (i, gradient) in gradients.iter().enumerate() {
                let mut at = |change: f64| {
                    let mut moved = parameters.clone();
                    moved[i] += change;
                    loss(network.forward(&moved, &rows, &mut tape))
                };
                let h = 1e-5;
                let difference = (at(h) - at(-h)) / (2.0 * h);
                let error = (difference - gradient).abs() / difference.abs().max(1.0);
                assert!(error < 1e-6, "{layers:?}, parameter {i}: {gradient} and {difference}");
            }
        }
    }

    #[test]
    fn rows_do_not_know_each_other_and_gradients_add_up() {
        let (network, parameters) = with_parameters(3, &[Dense(8), Norm, Relu, Dense(2)]);
        let rows = some_rows(5 * 3);
        let mut tape = Tape::new(&network, 5);
        let together = network.forward(&parameters, &rows, &mut tape).to_vec();
        let mut sum = vec![0.0; network.parameters()];
        network.backward(&parameters, &rows, &together, &mut tape, &mut sum);
        let mut one_by_one = vec![0.0; network.parameters()];
        for (row, expected) in rows.chunks(3).zip(together.chunks(2)) {
            let alone = network.forward(&parameters, row, &mut tape).to_vec();
            assert!(alone.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-14));
            network.backward(&parameters, row, &alone, &mut tape, &mut one_by_one);
        }
        assert!(sum.iter().zip(&one_by_one).all(|(a, b)| (a - b).abs() < 1e-12 * (1.0 + a.abs())));
    }

    #[test]
    fn a_norm_has_mean_zero_and_spread_one() {
        let network = Network::new(4, &[Norm]);
        let mut random = Random::new(1, Purpose::Weights);
        let parameters: Vec<f64> = network.draw(Init::LecunNormal, Init::LecunNormal, &mut random);
        let mut tape = Tape::new(&network, 1);
        let outputs = network.forward(&parameters, &[1.0, 2.0, 3.0, 4.0], &mut tape);
        let golden = [-1.341_635, -0.447_212, 0.447_212, 1.341_635];
        assert!(outputs.iter().zip(golden).all(|(a, b)| (a - b).abs() < 1e-6), "{outputs:?}");
    }

    #[test]
    fn what_is_no_number_stays_none() {
        for activation in [Relu, Tanh] {
            let network = Network::new(1, &[Dense(1), activation, Dense(1)]);
            let mut tape = Tape::new(&network, 1);
            assert!(network.forward(&[1.0_f32; 4], &[f32::NAN], &mut tape)[0].is_nan());
        }
    }

    #[test]
    fn tensors_cover_the_parameters() {
        let network = Network::new(4, &[Dense(8), Norm, Relu, Dense(2)]);
        let tensors: Vec<_> = network.tensors().collect();
        let names: Vec<_> = tensors.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["0.weight", "0.bias", "1.scale", "1.shift", "2.weight", "2.bias"]);
        let mut end = 0;
        for (_, shape, place) in tensors {
            assert_eq!((place.start, place.len()), (end, shape.iter().product()));
            end = place.end;
        }
        assert_eq!(end, network.parameters());
    }

    #[test]
    #[should_panic(expected = "an activation follows a layer with weights")]
    fn an_activation_cannot_come_first() {
        Network::new(4, &[Relu, Dense(2)]);
    }
}
