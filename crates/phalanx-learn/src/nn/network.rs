//! Layers, and how values and gradients go through them.

use super::init::Init;
use super::product::{self, Matrix, Memory, padded};
use super::scalar::{LANES, Wide};
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

/// What a forward pass leaves for the backward pass, for a tile of rows: a line for each feature (see `product`).
#[derive(Clone, Debug)]
pub struct Tape<T: Scalar> {
    capacity: usize,
    rows: usize,
    /// From one line to the next.
    stride: usize,
    inputs: Memory<T>,
    /// Per stage, what comes out of it.
    outputs: Vec<Memory<T>>,
    /// Per stage, two lines for what goes into a [`Layer::Norm`]: the means, and the reciprocals of the spreads.
    moments: Vec<Memory<T>>,
    /// The gradient on its way back, and the next one.
    gradients: [Memory<T>; 2],
    /// See [`product::add_outer`].
    outer: Memory<T>,
    /// What came out last, row by row.
    answers: Vec<T>,
}

impl<T: Scalar> Tape<T> {
    /// A tape for at most `rows` rows.
    pub fn new(network: &Network, rows: usize) -> Self {
        let stride = product::stride(rows);
        let tile = |features: usize| Memory::new(features * stride);
        let moments = |stage: &Stage| tile(if stage.map == Map::Norm { 2 } else { 0 });
        let outer = |stage: &Stage| product::outer_memory(stage.outputs, stage.inputs, rows);
        let widest = network.stages.iter().map(|stage| stage.outputs.max(stage.inputs)).max().unwrap_or(0);
        Self {
            capacity: rows,
            rows: 0,
            stride,
            inputs: tile(network.inputs),
            outputs: network.stages.iter().map(|stage| tile(stage.outputs)).collect(),
            moments: network.stages.iter().map(moments).collect(),
            gradients: [tile(widest), tile(widest)],
            outer: Memory::new(network.stages.iter().map(outer).max().unwrap_or(0)),
            answers: vec![T::zero(); rows * network.outputs()],
        }
    }

    /// What came out of the last forward pass.
    pub fn outputs(&self) -> &[T] {
        &self.answers[..self.answers.len() / self.capacity * self.rows]
    }

    /// [`Tape::outputs`], to work on in place; a backward pass does not look at them.
    pub fn outputs_mut(&mut self) -> &mut [T] {
        let len = self.outputs().len();
        &mut self.answers[..len]
    }
}

/// Turns rows into the lines of a tile, with zeros up to the end of the last register; answers how many there were.
fn to_lines<'a, T: Scalar>(rows: impl Iterator<Item = &'a [T]>, width: usize, tile: &mut [T], stride: usize) -> usize {
    let mut count = 0;
    for row in rows {
        assert!(count < stride, "too many rows for a tile");
        // Not by `step_by`, which divides for each row.
        row.iter().enumerate().for_each(|(i, value)| tile[i * stride + count] = *value);
        count += 1;
    }
    for line in tile.chunks_mut(stride).take(width) {
        line[count..padded(count)].fill(T::zero());
    }
    count
}

/// Turns the lines of a tile into rows.
fn to_rows<T: Scalar>(tile: &[T], stride: usize, rows: &mut [T], width: usize) {
    for (i, line) in tile.chunks(stride).take(width).enumerate() {
        rows.chunks_exact_mut(width).zip(line).for_each(|(row, x)| row[i] = *x);
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
        self.forward_rows(parameters, rows.chunks_exact(self.inputs), tape)
    }

    /// [`Network::forward`] for rows that do not stand together.
    ///
    /// # Panics
    ///
    /// As it does.
    pub fn forward_rows<'t, 'r, T: Scalar>(
        &self,
        parameters: &[T],
        rows: impl Iterator<Item = &'r [T]>,
        tape: &'t mut Tape<T>,
    ) -> &'t [T] {
        let stride = tape.stride;
        let count = to_lines(rows, self.inputs, &mut tape.inputs, stride);
        assert!(count <= tape.capacity, "{count} rows on a tape of {}", tape.capacity);
        tape.rows = count;
        for (i, stage) in self.stages.iter().enumerate() {
            let (before, after) = tape.outputs.split_at_mut(i);
            let x = before.last().unwrap_or(&tape.inputs);
            let y = &mut after[0];
            let (weights, biases) = parameters[stage.first..stage.first + stage.parameters()].split_at(stage.weights());
            match stage.map {
                Map::Dense => {
                    let weights = Matrix::new(weights, stage.outputs, stage.inputs);
                    let (x, y) = ((&**x, stride), (&mut **y, stride));
                    // Blocks of rows are activated while they are still in registers.
                    match stage.activation {
                        Some(Layer::Relu) => product::map(weights, Some(biases), x, y, count, |y, _| y.relu()),
                        Some(Layer::Tanh) => product::map(weights, Some(biases), x, y, count, |y, _| y.tanh()),
                        _ => product::map(weights, Some(biases), x, y, count, |y, _| y),
                    }
                }
                Map::Norm => {
                    norm_forward(weights, biases, x, y, &mut tape.moments[i], stride, count);
                    for line in y.chunks_mut(stride) {
                        let registers = line[..padded(count)].chunks_exact_mut(LANES);
                        match stage.activation {
                            Some(Layer::Relu) => registers.for_each(|y| T::Wide::load(y).relu().store(y)),
                            Some(Layer::Tanh) => registers.for_each(|y| T::Wide::load(y).tanh().store(y)),
                            _ => {}
                        }
                    }
                }
            }
        }
        let last = tape.outputs.last().expect("a network has layers");
        to_rows(last, stride, &mut tape.answers[..count * self.outputs()], self.outputs());
        tape.outputs()
    }

    /// Adds to `gradients` what the rows of the last forward pass contribute to them, where `out` is the gradient with
    /// respect to what came out.
    ///
    /// # Panics
    ///
    /// If `out` is not of those rows, or slices are too short.
    pub fn backward<T: Scalar>(&self, parameters: &[T], out: &[T], tape: &mut Tape<T>, gradients: &mut [T]) {
        let (count, stride) = (tape.rows, tape.stride);
        assert_eq!(out.len(), count * self.outputs(), "a gradient for each of the rows that went forward");
        let [dy, dx] = &mut tape.gradients;
        let (mut dy, mut dx) = (dy, dx);
        // Beyond the rows there are zeros, and zeros come of them: those add nothing to the sums over rows.
        to_lines(out.chunks_exact(self.outputs()), self.outputs(), dy, stride);
        let last = self.stages.len() - 1;
        through_activation(self.stages[last].activation, dy, &tape.outputs[last]);
        for (i, stage) in self.stages.iter().enumerate().rev() {
            let x = if i == 0 { &tape.inputs } else { &tape.outputs[i - 1] };
            let towards = &mut dy[..stage.outputs * stride];
            let own = stage.first..stage.first + stage.parameters();
            let (weights, _) = parameters[own.clone()].split_at(stage.weights());
            let (d_weights, d_biases) = gradients[own].split_at_mut(stage.weights());
            product::add_sums(d_biases, towards, stride, count);
            match stage.map {
                Map::Dense => {
                    product::add_outer(d_weights, stage.inputs, (towards, x), stride, count, &mut tape.outer);
                    // Nobody asks for the gradient of the inputs.
                    if i > 0 {
                        let weights = Matrix::new(weights, stage.outputs, stage.inputs).transposed();
                        let (dy, dx) = ((&*towards, stride), (&mut **dx, stride));
                        // Blocks go back through the activation before, too, while they are in registers.
                        match self.stages[i - 1].activation {
                            Some(Layer::Relu) => {
                                product::map(weights, None, dy, dx, count, |dx, at| {
                                    dx.through_relu(Wide::load(&x[at..]))
                                });
                            }
                            Some(Layer::Tanh) => {
                                product::map(weights, None, dy, dx, count, |dx, at| {
                                    dx.through_tanh(Wide::load(&x[at..]))
                                });
                            }
                            _ => product::map(weights, None, dy, dx, count, |dx, _| dx),
                        }
                    }
                }
                Map::Norm => {
                    norm_backward(weights, x, towards, &tape.moments[i], d_weights, dx, stride, count);
                    if i > 0 {
                        through_activation(self.stages[i - 1].activation, dx, x);
                    }
                }
            }
            std::mem::swap(&mut dy, &mut dx);
        }
    }
}

/// Multiplies gradients by the slopes of an activation that gave `y`.
fn through_activation<T: Scalar>(activation: Option<Layer>, dy: &mut [T], y: &[T]) {
    let registers = dy.chunks_exact_mut(LANES).zip(y.chunks_exact(LANES).map(T::Wide::load));
    match activation {
        Some(Layer::Relu) => registers.for_each(|(dy, y)| T::Wide::load(dy).through_relu(y).store(dy)),
        Some(Layer::Tanh) => registers.for_each(|(dy, y)| T::Wide::load(dy).through_tanh(y).store(dy)),
        _ => {}
    }
}

/// The lines of a tile, each up to the end of the last block.
fn lines<T: Scalar>(tile: &[T], stride: usize, count: usize) -> impl Iterator<Item = &[T]> + Clone {
    tile.chunks(stride).map(move |line| &line[..padded(count)])
}

fn norm_forward<T: Scalar>(
    scales: &[T],
    shifts: &[T],
    x: &[T],
    y: &mut [T],
    moments: &mut [T],
    stride: usize,
    count: usize,
) {
    let width = T::of(scales.len() as f64);
    let (means, per_spreads) = moments.split_at_mut(stride);
    let (means, per_spreads) = (&mut means[..padded(count)], &mut per_spreads[..padded(count)]);
    let x = lines(x, stride, count).take(scales.len());
    means.fill(T::zero());
    per_spreads.fill(T::zero());
    for x in x.clone() {
        means.iter_mut().zip(x).for_each(|(sum, x)| *sum += *x);
    }
    means.iter_mut().for_each(|mean| *mean /= width);
    for x in x.clone() {
        for ((sum, x), mean) in per_spreads.iter_mut().zip(x).zip(&*means) {
            *sum += (*x - *mean) * (*x - *mean);
        }
    }
    per_spreads.iter_mut().for_each(|sum| *sum = (*sum / width + T::of(NORM_EPSILON)).sqrt().recip());
    for (((y, x), scale), shift) in y.chunks_mut(stride).zip(x).zip(scales).zip(shifts) {
        for (((y, x), mean), per_spread) in y.iter_mut().zip(x).zip(&*means).zip(&*per_spreads) {
            *y = (*x - *mean) * *per_spread * *scale + *shift;
        }
    }
}

#[allow(clippy::too_many_arguments)] // all of them are plain arrays of one tile
fn norm_backward<T: Scalar>(
    scales: &[T],
    x: &[T],
    dy: &[T],
    moments: &[T],
    d_scales: &mut [T],
    dx: &mut [T],
    stride: usize,
    count: usize,
) {
    let per_width = T::of((scales.len() as f64).recip());
    let (means, per_spreads) = moments.split_at(stride);
    // The mean and the spread depend on every input of a row, too: sums over the features, block by block of rows.
    for first in (0..count).step_by(LANES) {
        let at = |values: &[T]| -> [T; LANES] { values[first..first + LANES].try_into().expect("a block") };
        let (means, per_spreads) = (at(means), at(per_spreads));
        let (mut sums, mut products) = ([T::zero(); LANES], [T::zero(); LANES]);
        let features = x.chunks(stride).zip(dy.chunks(stride)).zip(scales);
        for (((x, dy), scale), d_scale) in features.clone().zip(d_scales.iter_mut()) {
            let (x, dy) = (at(x), at(dy));
            let mut of_scale = [T::zero(); LANES];
            for r in 0..LANES {
                let normal = (x[r] - means[r]) * per_spreads[r];
                let towards = dy[r] * *scale;
                of_scale[r] = dy[r] * normal;
                sums[r] += towards;
                products[r] += towards * normal;
            }
            *d_scale += of_scale.iter().copied().sum::<T>();
        }
        for (((x, dy), scale), dx) in features.zip(dx.chunks_mut(stride)) {
            let (x, dy) = (at(x), at(dy));
            for (r, dx) in dx[first..first + LANES].iter_mut().enumerate() {
                let normal = (x[r] - means[r]) * per_spreads[r];
                *dx = per_spreads[r] * (dy[r] * *scale - (sums[r] + normal * products[r]) * per_width);
            }
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
            network.backward(&parameters, &towards, &mut tape, &mut gradients);
            for (i, gradient) in gradients.iter().enumerate() {
                let mut at = |change: f64| {
                    let mut moved = parameters.clone();
                    moved[i] += change;
                    loss(network.forward(&moved, &rows, &mut tape))
                };
                let h = 1e-5;
                let difference = (at(h) - at(-h)) / (2.0 * h);
                let fits = crate::nn::is_slope(*gradient, difference, h, at(0.0));
                assert!(fits, "{layers:?}, parameter {i}: {gradient} and {difference}");
            }
        }
    }

    /// Networks learn in single precision, which has registers, turns and activations of its own; what is compared with
    /// differences and with another program is double precision.
    #[test]
    fn single_precision_is_near_double_precision() {
        for layers in [
            &[Dense(64), Tanh, Dense(64), Tanh, Dense(2)][..],
            &[Dense(120), Relu, Dense(84), Relu, Dense(3)],
            &[Dense(33), Norm, Relu, Dense(17), Norm, Tanh, Dense(1)],
        ] {
            for count in [1, 7, 16, 37, 128] {
                let (network, parameters) = with_parameters(6, layers);
                // The spread of first weights, so that few activations are saturated.
                let parameters: Vec<f64> = parameters.iter().map(|parameter| 0.3 * parameter).collect();
                let (rows, towards) = (some_rows(count * 6), some_rows(count * network.outputs()));
                let (mut tape, mut gradients) = (Tape::new(&network, count), vec![0.0; network.parameters()]);
                let outputs = network.forward(&parameters, &rows, &mut tape).to_vec();
                network.backward(&parameters, &towards, &mut tape, &mut gradients);

                let single = |values: &[f64]| values.iter().map(|value| *value as f32).collect::<Vec<_>>();
                let (mut tape, mut near) = (Tape::new(&network, count), vec![0.0_f32; network.parameters()]);
                let parameters = single(&parameters);
                let found = network.forward(&parameters, &single(&rows), &mut tape).to_vec();
                network.backward(&parameters, &single(&towards), &mut tape, &mut near);
                for (what, exact, found) in [("outputs", &outputs, &found), ("gradients", &gradients, &near)] {
                    let largest = exact.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
                    let error = exact.iter().zip(found).map(|(a, b)| (a - f64::from(*b)).abs()).fold(0.0, f64::max);
                    assert!(error < 1e-5 * largest, "{what} of {layers:?}, {count} rows: {error} of {largest}");
                }
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
        network.backward(&parameters, &together, &mut tape, &mut sum);
        let mut one_by_one = vec![0.0; network.parameters()];
        for (row, expected) in rows.chunks(3).zip(together.chunks(2)) {
            let alone = network.forward(&parameters, row, &mut tape).to_vec();
            assert!(alone.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-14));
            network.backward(&parameters, &alone, &mut tape, &mut one_by_one);
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
