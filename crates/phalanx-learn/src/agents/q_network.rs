//! What agents that learn the values of discrete actions have in common: the network, the best legal action,
//! exploration, the temporal-difference loss and the greedy policy.

use std::sync::Arc;

use phalanx_core::batch::{Actions, ActionsMut};
use phalanx_core::pool::{Pool, Rows};

use super::limits::network_bytes;
use crate::error::{Error, Result};
use crate::learner::{Greedy, Report};
use crate::nn::init::Init;
use crate::nn::parallel::{Share, Shares, TILE};
use crate::nn::{Layer, Network, Optimizer, Rule, Scalar, Tape};
use crate::random::{Purpose, Random};
use crate::state::State;
use crate::world::World;

/// The most blocks that rows are cut into, and so the most threads that look at them.
const BLOCKS: usize = 16;

/// A network with a value for each action. Its parameters are the caller's.
#[derive(Clone, Debug)]
pub struct QNetwork {
    network: Network,
    choices: usize,
    dueling: bool,
}

/// What a pass of some rows through a [`QNetwork`] leaves.
#[derive(Clone, Debug)]
pub struct QTape<T: Scalar> {
    tape: Tape<T>,
    /// Values by row and action, if they are not what comes out of the network.
    values: Vec<T>,
    /// The gradient with respect to what comes out of the network.
    towards: Vec<T>,
}

/// An action and what it is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Best<T = f32> {
    /// The action.
    pub action: i32,
    /// Its value.
    pub value: T,
}

impl QNetwork {
    /// A network of these layers and one more, for the values of so many actions.
    ///
    /// A dueling network (Wang et al.) has a value of the state and an advantage for each action: `Q = V + A - mean A`.
    /// Both are linear in what the last layer gives, so they are one dense layer with one more output.
    pub fn new(inputs: usize, hidden: &[Layer], choices: usize, dueling: bool) -> Self {
        let layers = [hidden, &[Layer::Dense(choices + usize::from(dueling))]].concat();
        Self { network: Network::new(inputs, &layers), choices, dueling }
    }

    /// Numbers of a row that goes in.
    pub fn inputs(&self) -> usize {
        self.network.inputs()
    }

    /// The number of actions.
    pub fn choices(&self) -> usize {
        self.choices
    }

    /// The number of parameters.
    pub fn parameters(&self) -> usize {
        self.network.parameters()
    }

    /// First parameters: `output` for the weights of the last layer, `hidden` for those before it.
    pub fn draw<T: Scalar>(&self, hidden: Init, output: Init, random: &mut Random) -> Vec<T> {
        self.network.draw(hidden, output, random)
    }

    /// A tape for at most `rows` rows.
    pub fn tape<T: Scalar>(&self, rows: usize) -> QTape<T> {
        QTape {
            tape: Tape::new(&self.network, rows),
            values: vec![T::zero(); if self.dueling { rows * self.choices } else { 0 }],
            towards: vec![T::zero(); rows * self.network.outputs()],
        }
    }

    /// The values of all actions for each row.
    pub fn values<'t, T: Scalar>(&self, parameters: &[T], rows: &[T], tape: &'t mut QTape<T>) -> &'t [T] {
        let out = self.network.forward(parameters, rows, &mut tape.tape);
        if !self.dueling {
            return out;
        }
        let values = &mut tape.values[..out.len() / (self.choices + 1) * self.choices];
        for (row, values) in out.chunks_exact(self.choices + 1).zip(values.chunks_exact_mut(self.choices)) {
            let (state, advantages) = (row[0], &row[1..]);
            let mean = advantages.iter().copied().sum::<T>() / T::of(self.choices as f64);
            values.iter_mut().zip(advantages).for_each(|(value, advantage)| *value = state + *advantage - mean);
        }
        values
    }

    /// Adds to `gradients` those of the loss of these rows, each with this weight, where the value of an action
    /// should have been its target; answers the sums over the rows, without the weight.
    #[allow(clippy::too_many_arguments)] // all of them are plain arrays of one tile
    pub fn add_gradient<T: Scalar>(
        &self,
        parameters: &[T],
        rows: &[T],
        actions: &[i32],
        targets: &[T],
        (loss, weight): (Loss, T),
        tape: &mut QTape<T>,
        gradients: &mut [T],
    ) -> LossSums {
        self.values(parameters, rows, tape);
        let width = self.network.outputs();
        let QTape { tape, values, towards } = tape;
        let values = if self.dueling { values.as_slice() } else { tape.outputs() };
        let towards = &mut towards[..actions.len() * width];
        let mut sums = LossSums::default();
        for (i, towards) in towards.chunks_exact_mut(width).enumerate() {
            let action = actions[i] as usize;
            let value = values[i * self.choices + action];
            let (loss, slope) = loss.of(value - targets[i]);
            sums.add(loss, value);
            let slope = slope * weight;
            if self.dueling {
                // The mean is taken from every advantage.
                towards.fill(-slope / T::of(self.choices as f64));
                towards[0] = slope;
                towards[1 + action] += slope;
            } else {
                towards.fill(T::zero());
                towards[action] = slope;
            }
        }
        self.network.backward(parameters, towards, tape, gradients);
        sums
    }

    /// Keeps parameters under their names.
    pub fn save(&self, prefix: &str, parameters: &[f32], state: &mut State) {
        for (name, shape, range) in self.network.tensors() {
            state.put(format!("{prefix}.{name}"), &shape, &parameters[range]);
        }
    }

    /// The parameters that [`QNetwork::save`] kept.
    pub fn restore(&self, prefix: &str, state: &State) -> Result<Vec<f32>> {
        let mut parameters = vec![0.0; self.parameters()];
        for (name, shape, range) in self.network.tensors() {
            parameters[range].copy_from_slice(state.get(&format!("{prefix}.{name}"), &shape)?);
        }
        Ok(parameters)
    }
}

/// How far a value is from its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// `error²/2`
    HalfSquare,
    /// `error²`
    Square,
    /// `error²/2` up to an error of 1, and straight on from there.
    Huber,
}

impl Loss {
    /// The loss of an error, and its slope.
    pub fn of<T: Scalar>(self, error: T) -> (T, T) {
        let half = T::of(0.5);
        match self {
            Self::HalfSquare => (half * error * error, error),
            Self::Square => (error * error, error + error),
            Self::Huber if error.abs() <= T::one() => (half * error * error, error),
            Self::Huber => (error.abs() - half, error.signum()),
        }
    }
}

/// Sums over the rows of a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossSums {
    /// Of the losses.
    pub loss: f64,
    /// Of the values of the actions taken.
    pub values: f64,
}

impl LossSums {
    fn add<T: Scalar>(&mut self, loss: T, value: T) {
        let wide = |x: T| x.to_f64().unwrap_or(f64::NAN);
        self.loss += wide(loss);
        self.values += wide(value);
    }
}

/// Room for what a tile of transitions is learnt from, made once for each share of a gradient.
#[derive(Clone, Debug)]
pub(super) struct TileScratch {
    pub(super) tape: QTape<f32>,
    pub(super) rows: Vec<f32>,
    pub(super) actions: Vec<i32>,
    pub(super) targets: Vec<f32>,
    pub(super) sums: LossSums,
}

/// The network that learns: its parameters, their optimiser, and room for a gradient over many rows.
#[derive(Debug)]
pub(super) struct Learning {
    pub(super) network: QNetwork,
    pub(super) parameters: Vec<f32>,
    pub(super) optimizer: Optimizer<f32>,
    gradients: Vec<f32>,
    shares: Shares<f32, TileScratch>,
}

impl Learning {
    /// For gradients over at most `rows` rows.
    pub(super) fn new(network: QNetwork, parameters: Vec<f32>, optimizer: Optimizer<f32>, rows: usize) -> Self {
        let tile = rows.min(TILE);
        let shares = Shares::new(rows, network.parameters(), || TileScratch {
            tape: network.tape(tile),
            rows: vec![0.0; tile * network.inputs()],
            actions: vec![0; tile],
            targets: vec![0.0; tile],
            sums: LossSums::default(),
        });
        Self { gradients: vec![0.0; network.parameters()], network, parameters, optimizer, shares }
    }

    /// Computes the gradient of the mean loss over `rows` rows, of which `fill` provides a tile at a time, and answers
    /// the means of losses and values.
    pub(super) fn gradient(
        &mut self,
        pool: &Pool,
        rows: usize,
        loss: Loss,
        fill: impl Fn(std::ops::Range<usize>, &mut TileScratch, &QNetwork, &[f32]) + Sync,
    ) -> LossSums {
        let (network, parameters) = (&self.network, &self.parameters);
        let weight = 1.0 / rows as f32;
        let mut all = LossSums::default();
        self.shares.gradient(
            pool,
            rows,
            &mut self.gradients,
            |tile, Share { gradients, scratch }| {
                let count = tile.len();
                fill(tile, scratch, network, parameters);
                let TileScratch { tape, rows, actions, targets, sums } = scratch;
                let rows = &rows[..count * network.inputs()];
                let (actions, targets) = (&actions[..count], &targets[..count]);
                let of_tile = network.add_gradient(parameters, rows, actions, targets, (loss, weight), tape, gradients);
                sums.loss += of_tile.loss;
                sums.values += of_tile.values;
            },
            |scratch| {
                let sums = std::mem::take(&mut scratch.sums);
                all.loss += sums.loss;
                all.values += sums.values;
            },
        );
        LossSums { loss: all.loss / rows as f64, values: all.values / rows as f64 }
    }

    /// Takes a step against the gradient, which is shortened to `longest`. A gradient that is not finite is refused
    /// before it can reach the parameters or the moments.
    pub(super) fn descend(&mut self, longest: f64, learning_rate: f64, global_step: u64) -> Result<()> {
        let norm = crate::nn::clip_norm(&mut self.gradients, longest);
        Error::check_finite("the gradient's norm", norm, global_step)?;
        self.optimizer.update(&mut self.parameters, &self.gradients, learning_rate);
        Ok(())
    }

    pub(super) fn save(&self, state: &mut State) {
        self.network.save("network", &self.parameters, state);
        state.put("optimizer.first", &[self.parameters.len()], &self.optimizer.first);
        state.put("optimizer.second", &[self.parameters.len()], &self.optimizer.second);
        state.put_value("optimizer.steps", &self.optimizer.steps);
    }

    pub(super) fn restore(&mut self, state: &State) -> Result<()> {
        let parameters = self.network.restore("network", state)?;
        let first = state.get("optimizer.first", &[parameters.len()])?;
        let second = state.get("optimizer.second", &[parameters.len()])?;
        self.optimizer.steps = state.value("optimizer.steps")?;
        self.optimizer.first.copy_from_slice(first);
        self.optimizer.second.copy_from_slice(second);
        self.parameters = parameters;
        Ok(())
    }

    pub(super) fn restore_policy(&mut self, state: &State) -> Result<()> {
        self.parameters = self.network.restore("network", state)?;
        Ok(())
    }
}

/// The legal action with the largest value, the first of equals. No flags mean that all are legal.
///
/// # Panics
///
/// If no action is legal.
pub fn best<T: Scalar>(values: &[T], legal: &[bool]) -> Best<T> {
    let mut best: Option<Best<T>> = None;
    for (action, &value) in values.iter().enumerate() {
        let is_legal = legal.is_empty() || legal[action];
        if is_legal && best.is_none_or(|best| value > best.value) {
            best = Some(Best { action: action as i32, value });
        }
    }
    best.expect("some action is legal")
}

/// The flags of one row, if there are any.
pub(super) fn flags(masks: &[bool], row: usize, choices: usize) -> &[bool] {
    if masks.is_empty() { masks } else { &masks[row * choices..][..choices] }
}

/// What agents of this kind have in common: environments, the network that learns on them, and how they explore.
#[derive(Debug)]
pub(super) struct Explorer {
    pub(super) world: World,
    pub(super) pool: Arc<Pool>,
    pub(super) learning: Learning,
    /// Which transitions are learnt from.
    pub(super) batches: Random,
    pub(super) global_step: u64,
    exploration: Random,
    judge: Judge,
    /// What is best to do now, in each environment.
    pub(super) best: Vec<Best>,
}

/// The network of an agent, and how it learns.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub(super) hidden: &'a [Layer],
    /// The setting that `hidden` comes from, and its value.
    pub(super) source: (&'static str, String),
    pub(super) dueling: bool,
    /// How the weights of the hidden layers and of the last one are drawn.
    pub(super) init: (Init, Init),
    pub(super) rule: Rule,
    /// The most rows of a gradient.
    pub(super) rows: usize,
}

impl Explorer {
    pub(super) fn new(plan: Plan<'_>, world: World, seed: u64, pool: Arc<Pool>) -> Result<Self> {
        let (num_envs, dim, choices) = (world.num_envs(), world.obs_dim(), world.choices()?);
        let widths = plan.hidden.iter().filter_map(|layer| match layer {
            Layer::Dense(width) => Some(*width),
            _ => None,
        });
        let widths = [dim].into_iter().chain(widths).chain([choices + 1]);
        network_bytes(widths).require(plan.source.0, plan.source.1, "the network")?;
        let network = QNetwork::new(dim, plan.hidden, choices, plan.dueling);
        let parameters = network.draw(plan.init.0, plan.init.1, &mut Random::new(seed, Purpose::Weights));
        let optimizer = Optimizer::new(plan.rule, 1e-8, network.parameters());
        Ok(Self {
            judge: Judge::new(&network, num_envs),
            learning: Learning::new(network, parameters, optimizer, plan.rows),
            exploration: Random::new(seed, Purpose::Exploration),
            batches: Random::new(seed, Purpose::Batches),
            global_step: 0,
            best: vec![Best::default(); num_envs],
            world,
            pool,
        })
    }

    /// Finds what is best to do now.
    pub(super) fn look(&mut self) {
        let Learning { network, parameters, .. } = &self.learning;
        self.judge.best_into(&self.pool, network, parameters, self.world.obs(), self.world.masks(), &mut self.best);
    }

    /// Finds what is best to do for these rows.
    pub(super) fn judge(&mut self, rows: &[f32], masks: &[bool], out: &mut [Best]) {
        let Learning { network, parameters, .. } = &self.learning;
        self.judge.best_into(&self.pool, network, parameters, rows, masks, out);
    }

    /// Chooses what is best, but with probability `epsilon` anything legal.
    pub(super) fn choose(&mut self, epsilon: f64, actions: &mut [i32]) {
        let choices = self.learning.network.choices();
        explore(&self.best, self.world.masks(), choices, epsilon, &mut self.exploration, actions);
    }

    /// Makes a step in all environments.
    pub(super) fn step(&mut self, actions: &[i32], report: &mut Report) -> Result<()> {
        self.world.step(Actions::Discrete(actions), report)?;
        self.global_step += self.world.num_envs() as u64;
        Ok(())
    }

    /// Takes a step against the gradient of a mean loss, and tells of it; what is no number is refused before it can
    /// reach the weights.
    pub(super) fn descend(
        &mut self,
        means: LossSums,
        longest: f64,
        learning_rate: f64,
        report: &mut Report,
    ) -> Result<()> {
        Error::check_finite("losses/td_loss", means.loss, self.global_step)?;
        self.learning.descend(longest, learning_rate, self.global_step)?;
        report.add("losses/td_loss", means.loss);
        report.add("losses/q_values", means.values);
        report.add("charts/learning_rate", learning_rate);
        Ok(())
    }

    /// Refuses weights that are no longer numbers.
    pub(super) fn check_weights(&self) -> Result<()> {
        Error::check_weights(&self.learning.parameters, self.global_step)
    }

    pub(super) fn greedy(&self) -> Box<dyn Greedy> {
        let Learning { network, parameters, .. } = &self.learning;
        Box::new(GreedyQ::new(network.clone(), parameters.clone(), Arc::clone(&self.pool)))
    }

    pub(super) fn save(&self) -> State {
        let mut state = State::default();
        self.learning.save(&mut state);
        state.put_value("global_step", &self.global_step);
        state.put_value("random.exploration", &self.exploration.position());
        state.put_value("random.batches", &self.batches.position());
        state.put_state("world", self.world.save());
        state
    }

    pub(super) fn restore(&mut self, state: &State) -> Result<()> {
        let global_step = state.value("global_step")?;
        let (exploration, batches) = (state.value("random.exploration")?, state.value("random.batches")?);
        self.world.restore(&state.state("world"))?;
        self.learning.restore(state)?;
        self.exploration = self.exploration.clone().at(exploration);
        self.batches = self.batches.clone().at(batches);
        self.global_step = global_step;
        Ok(())
    }
}

/// Finds the best actions of many rows, on all threads, with the same bits for any number of them.
#[derive(Clone, Debug)]
pub struct Judge {
    tapes: Vec<QTape<f32>>,
    /// The rows that there is room for.
    capacity: usize,
}

impl Judge {
    /// Room for at most `rows` rows.
    pub fn new(network: &QNetwork, rows: usize) -> Self {
        let blocks = rows.div_ceil(TILE).clamp(1, BLOCKS);
        Self { tapes: vec![network.tape(rows.min(TILE)); blocks], capacity: rows }
    }

    /// Writes the best legal action of each row.
    ///
    /// # Panics
    ///
    /// If there are more rows than there is room for.
    pub fn best_into(
        &mut self,
        pool: &Pool,
        network: &QNetwork,
        parameters: &[f32],
        rows: &[f32],
        masks: &[bool],
        out: &mut [Best],
    ) {
        let (inputs, choices) = (network.inputs(), network.choices());
        assert_eq!(rows.len(), out.len() * inputs, "a best action for each row");
        let count = out.len();
        assert!(count <= self.capacity, "{count} rows in room for {}", self.capacity);
        // Tiles are cut by the number of rows alone, so that the number of threads cannot matter.
        let block = count.div_ceil(TILE).div_ceil(self.tapes.len()).max(1) * TILE;
        let blocks = count.div_ceil(block);
        let parts = (Rows::new(&mut self.tapes[..blocks], 1), Rows::new(out, block));
        pool.for_each(blocks, 1, parts, |range, (tapes, out): (&mut [QTape<f32>], &mut [Best])| {
            for ((i, tape), out) in range.zip(tapes).zip(out.chunks_mut(block)) {
                for (k, out) in out.chunks_mut(TILE).enumerate() {
                    let first = i * block + k * TILE;
                    let values = network.values(parameters, &rows[first * inputs..(first + out.len()) * inputs], tape);
                    for (j, (values, out)) in values.chunks_exact(choices).zip(out).enumerate() {
                        *out = best(values, flags(masks, first + j, choices));
                    }
                }
            }
        });
    }
}

/// Takes the best actions, but with probability `epsilon` any legal one.
pub fn explore(best: &[Best], masks: &[bool], choices: usize, epsilon: f64, random: &mut Random, actions: &mut [i32]) {
    for (row, (best, action)) in best.iter().zip(actions).enumerate() {
        *action = best.action;
        if random.unit() < epsilon {
            let legal = flags(masks, row, choices);
            *action = if legal.is_empty() {
                random.below(choices as u32) as i32
            } else {
                let count = legal.iter().filter(|legal| **legal).count();
                let chosen = random.below(count as u32) as usize;
                let mut legal = (0..choices).filter(|i| legal[*i]);
                legal.nth(chosen).expect("one of those counted") as i32
            };
        }
    }
}

/// An agent that always takes the best legal action.
#[derive(Debug)]
pub struct GreedyQ {
    network: QNetwork,
    parameters: Vec<f32>,
    judge: Judge,
    best: Vec<Best>,
    pool: Arc<Pool>,
}

impl GreedyQ {
    /// A policy of this network.
    pub fn new(network: QNetwork, parameters: Vec<f32>, pool: Arc<Pool>) -> Self {
        let judge = Judge::new(&network, 1);
        Self { network, parameters, judge, best: Vec::new(), pool }
    }
}

impl Greedy for GreedyQ {
    fn act(&mut self, obs: &[f32], masks: &[bool], actions: ActionsMut<'_>) {
        let ActionsMut::Discrete(actions) = actions else { panic!("the values are those of discrete actions") };
        let count = actions.len();
        if self.best.len() != count {
            self.best = vec![Best::default(); count];
            self.judge = Judge::new(&self.network, count);
        }
        self.judge.best_into(&self.pool, &self.network, &self.parameters, obs, masks, &mut self.best);
        actions.iter_mut().zip(&self.best).for_each(|(action, best)| *action = best.action);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    fn some(count: usize, purpose: Purpose) -> Vec<f64> {
        let mut random = Random::new(9, purpose);
        (0..count).map(|_| random.normal()).collect()
    }

    #[test]
    fn gradients_of_losses_are_limits_of_differences() {
        let (rows, actions) = (some(5 * 3, Purpose::Batches), [0, 3, 1, 1, 2]);
        for dueling in [false, true] {
            for loss in [Loss::HalfSquare, Loss::Square, Loss::Huber] {
                let network = QNetwork::new(3, &[Layer::Dense(6), Layer::Norm, Layer::Tanh], 4, dueling);
                let mut parameters = some(network.parameters(), Purpose::Weights);
                // Errors on both sides of 1.
                let targets = [0.2, -3.0, 0.4, 2.5, 0.0];
                let mut tape = network.tape(5);
                let mut of = |parameters: &[f64], gradients: &mut [f64]| {
                    network.add_gradient(parameters, &rows, &actions, &targets, (loss, 0.2), &mut tape, gradients).loss
                        * 0.2
                };
                let mut gradients = vec![0.0; parameters.len()];
                of(&parameters, &mut gradients);
                let mut unused = vec![0.0; parameters.len()];
                for i in 0..parameters.len() {
                    let (middle, step) = (parameters[i], 1e-5);
                    let mut at = |x: f64| {
                        parameters[i] = x;
                        of(&parameters, &mut unused)
                    };
                    let difference = (at(middle + step) - at(middle - step)) / (2.0 * step);
                    parameters[i] = middle;
                    let error = (difference - gradients[i]).abs() / (1e-2 + difference.abs());
                    assert!(error < 1e-6, "{loss:?}, dueling {dueling}, {i}: {difference} and {}", gradients[i]);
                }
            }
        }
    }

    #[test]
    fn a_dueling_network_has_advantages_of_mean_zero() {
        let network = QNetwork::new(2, &[Layer::Dense(5), Layer::Relu], 3, true);
        let parameters = some(network.parameters(), Purpose::Weights);
        let mut tape = network.tape(1);
        let values = network.values(&parameters, &[0.3, -0.2], &mut tape).to_vec();
        let state = tape.tape.outputs()[0];
        assert!((values.iter().sum::<f64>() / 3.0 - state).abs() < 1e-12);
    }

    #[test]
    fn losses_at_known_errors() {
        assert_eq!(Loss::HalfSquare.of(3.0), (4.5, 3.0));
        assert_eq!(Loss::Square.of(-3.0), (9.0, -6.0));
        assert_eq!(Loss::Huber.of(0.5), (0.125, 0.5));
        assert_eq!(Loss::Huber.of(-3.0), (2.5, -1.0));
    }

    #[test]
    fn the_best_action_is_legal_and_the_first_of_equals() {
        assert_eq!(best(&[1.0, 3.0, 3.0], &[]), Best { action: 1, value: 3.0 });
        assert_eq!(best(&[1.0, 3.0, 3.0], &[true, false, true]), Best { action: 2, value: 3.0 });
        assert_eq!(best(&[1.0, 3.0, 3.0], &[true, false, false]), Best { action: 0, value: 1.0 });
    }

    #[test]
    fn exploration_takes_every_legal_action_as_often() {
        let mut random = Random::new(2, Purpose::Exploration);
        let best = [Best { action: 1, value: 0.0 }; 30_000];
        let mut actions = vec![0; best.len()];
        let shares = |actions: &[i32]| {
            (0..4).map(|a| actions.iter().filter(|x| **x == a).count() as f64 / 30_000.0).collect::<Vec<_>>()
        };
        let near = |found: &[f64], expected: [f64; 4]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.012), "{found:?}");
        };
        explore(&best, &[], 4, 0.4, &mut random, &mut actions);
        near(&shares(&actions), [0.1, 0.7, 0.1, 0.1]);
        let masks = [true, true, false, true].repeat(best.len());
        explore(&best, &masks, 4, 0.6, &mut random, &mut actions);
        near(&shares(&actions), [0.2, 0.6, 0.0, 0.2]);
        explore(&best, &masks, 4, 0.0, &mut random, &mut actions);
        assert!(actions.iter().all(|action| *action == 1));
    }

    #[test]
    fn many_rows_are_judged_as_each_alone_whatever_the_threads() {
        let network = QNetwork::new(3, &[Layer::Dense(32), Layer::Norm, Layer::Relu], 5, false);
        let parameters: Vec<f32> = some(network.parameters(), Purpose::Weights).iter().map(|x| *x as f32).collect();
        for count in [1, 127, 129, 3000] {
            let rows: Vec<f32> = some(count * 3, Purpose::Batches).iter().map(|x| *x as f32).collect();
            let judged = |threads: usize| {
                let mut out = vec![Best::default(); count];
                Judge::new(&network, count).best_into(&Pool::new(threads), &network, &parameters, &rows, &[], &mut out);
                out
            };
            let alone = judged(1);
            assert!([2, 3].iter().all(|threads| judged(*threads) == alone));
            let mut tape = network.tape(1);
            for (row, found) in rows.chunks_exact(3).zip(&alone) {
                let expected = best(network.values(&parameters, row, &mut tape), &[]);
                assert!((expected.value - found.value).abs() < 1e-4);
            }
        }
    }
}
