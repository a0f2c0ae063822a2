//! What PPO learns: an actor and a critic over one vector of parameters, how they act, and the gradient of the loss.

use super::super::choices::Initialiser;
use super::loss::{Coefficients, Sums, clipped_objective, value_loss};
use crate::error::{Error, Result};
use crate::nn::{Layer, Network, Scalar, Tape, categorical, exp_all, gaussian};
use crate::random::Random;
use crate::state::State;

/// What comes out of the actor.
#[derive(Clone, Debug)]
pub(super) enum Head {
    /// A logit for each of so many choices.
    Discrete(usize),
    /// The means of normal numbers, which are sent to the environment within these bounds.
    Gaussian { low: Vec<f32>, high: Vec<f32>, squash: bool },
}

impl Head {
    /// Continuous actions; only between two ends can they be squashed.
    pub(super) fn gaussian(low: &[f32], high: &[f32], squash: bool) -> Result<Self> {
        if let Some(end) = low.iter().chain(high).find(|end| squash && !end.is_finite()) {
            let why = format!("is true, but a bound of the actions is {end}, and tanh needs finite ones: give false");
            return Err(Error::setting("agent.squash", why));
        }
        Ok(Self::Gaussian { low: low.to_vec(), high: high.to_vec(), squash })
    }

    pub(super) fn outputs(&self) -> usize {
        match self {
            Self::Discrete(choices) => *choices,
            Self::Gaussian { low, .. } => low.len(),
        }
    }

    /// Numbers that an action consists of.
    pub(super) fn components(&self) -> usize {
        match self {
            Self::Discrete(_) => 1,
            Self::Gaussian { low, .. } => low.len(),
        }
    }

    /// Random words that an action is drawn from.
    pub(super) fn words(&self) -> u64 {
        match self {
            Self::Discrete(_) => 1,
            // A normal number is made of two of 53 bits.
            Self::Gaussian { low, .. } => 4 * low.len() as u64,
        }
    }

    /// Brings what was drawn into the bounds; choices stay what they are.
    pub(super) fn within_bounds(&self, action: &[f32], out: &mut [f32]) {
        if let Self::Gaussian { low, high, squash } = self {
            let bring = if *squash { gaussian::squashed } else { gaussian::clipped };
            let bounds = low.iter().zip(high).cycle();
            for ((out, drawn), (low, high)) in out.iter_mut().zip(action).zip(bounds) {
                *out = bring(*drawn, *low, *high);
            }
        }
    }
}

/// Actor, critic, and the logarithms of the actor's deviations, in this order in the vector of parameters.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) head: Head,
    actor: Network,
    critic: Network,
}

/// Whether a choice of a row is legal, by the flags of all rows; without flags everything is.
fn legal_in(masks: &[bool], choices: usize) -> impl Fn(usize, usize) -> bool + '_ {
    move |row, k| masks.is_empty() || masks[row * choices + k]
}

/// Transitions to learn from, which rows are picked from by number.
///
/// All that belongs to a transition stands together in a record, because rows are picked in random order: one line of
/// the cache instead of six.
#[derive(Clone, Copy, Debug)]
pub(super) struct Samples<'a, T> {
    /// Observation; action as drawn (before it is brought into bounds, or the number of a choice); then the logarithm
    /// of its probability, the value of the state, the advantage, the return.
    pub(super) records: &'a [T],
    /// A row of flags for each transition, or nothing if all choices are legal.
    pub(super) masks: &'a [bool],
}

/// Numbers of a record of [`Samples`].
pub(super) fn record_len(inputs: usize, components: usize) -> usize {
    inputs + components + Judged::<f32>::LEN
}

/// The columns of a record after observation and action.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged<T> {
    pub(super) log_prob: T,
    pub(super) value: T,
    pub(super) advantage: T,
    pub(super) returns: T,
}

impl<T: Scalar> Judged<T> {
    const LEN: usize = 4;

    fn read(columns: &[T]) -> Self {
        Self { log_prob: columns[0], value: columns[1], advantage: columns[2], returns: columns[3] }
    }
}

/// What a tile of rows needs on its way.
#[derive(Clone, Debug)]
pub(super) struct Scratch<T: Scalar> {
    pub(super) actor: Tape<T>,
    pub(super) critic: Tape<T>,
    by_actor: Vec<T>,
    by_critic: Vec<T>,
    /// Of each choice of each row.
    probabilities: Vec<T>,
    /// Probabilities of what was done by those of the policy which did it, as logarithms and as they are.
    log_ratios: Vec<T>,
    ratios: Vec<T>,
    /// The records of the picked rows, one after the other.
    records: Vec<T>,
    pub(super) sums: Sums,
}

impl<T: Scalar> Scratch<T> {
    pub(super) fn new(policy: &Policy, rows: usize) -> Self {
        let outputs = policy.head.outputs();
        Self {
            actor: Tape::new(&policy.actor, rows),
            critic: Tape::new(&policy.critic, rows),
            by_actor: vec![T::zero(); rows * outputs],
            by_critic: vec![T::zero(); rows],
            probabilities: vec![T::zero(); rows * outputs],
            log_ratios: vec![T::zero(); rows],
            ratios: vec![T::zero(); rows],
            records: vec![T::zero(); rows * policy.record_len()],
            sums: Sums::default(),
        }
    }
}

/// Where the actions of a tile of rows go.
#[derive(Debug)]
pub(super) struct Acted<'a> {
    /// As drawn, as in [`Samples`].
    pub(super) actions: &'a mut [f32],
    pub(super) log_probs: &'a mut [f32],
    pub(super) values: &'a mut [f32],
}

impl Policy {
    pub(super) fn new(inputs: usize, hidden: &[usize], head: Head) -> Self {
        let network = |outputs: usize| {
            let hidden = hidden.iter().flat_map(|&width| [Layer::Dense(width), Layer::Tanh]);
            Network::new(inputs, &hidden.chain([Layer::Dense(outputs)]).collect::<Vec<_>>())
        };
        Self { actor: network(head.outputs()), critic: network(1), head }
    }

    /// Numbers of parameters of the actor and the critic, and of deviations.
    fn sizes(&self) -> (usize, usize, usize) {
        let deviations = if matches!(self.head, Head::Discrete(_)) { 0 } else { self.head.outputs() };
        (self.actor.parameters(), self.critic.parameters(), deviations)
    }

    pub(super) fn parameters(&self) -> usize {
        let (actor, critic, deviations) = self.sizes();
        actor + critic + deviations
    }

    pub(super) fn draw<T: Scalar>(&self, start: Initialiser, log_std: f64, random: &mut Random) -> Vec<T> {
        let hidden = start.init(2_f64.sqrt());
        let mut parameters = self.actor.draw(hidden, start.init(0.01), random);
        parameters.extend(self.critic.draw::<T>(hidden, start.init(1.0), random));
        parameters.resize(self.parameters(), T::of(log_std));
        parameters
    }

    pub(super) fn record_len(&self) -> usize {
        record_len(self.actor.inputs(), self.head.components())
    }

    /// Writes a record of [`Samples`].
    pub(super) fn write_record<T: Scalar>(&self, obs: &[T], action: &[T], judged: Judged<T>, record: &mut [T]) {
        let (seen, rest) = record.split_at_mut(obs.len());
        let (done, rest) = rest.split_at_mut(action.len());
        seen.copy_from_slice(obs);
        done.copy_from_slice(action);
        rest.copy_from_slice(&[judged.log_prob, judged.value, judged.advantage, judged.returns]);
    }

    fn split<'p, T>(&self, parameters: &'p [T]) -> (&'p [T], &'p [T], &'p [T]) {
        let (actor, rest) = parameters.split_at(self.sizes().0);
        let (critic, deviations) = rest.split_at(self.sizes().1);
        (actor, critic, deviations)
    }

    /// Draws an action for each of a tile of rows, and says what the critic thinks of the states.
    pub(super) fn act(
        &self,
        parameters: &[f32],
        obs: &[f32],
        masks: &[bool],
        random: &mut Random,
        scratch: &mut Scratch<f32>,
        out: Acted<'_>,
    ) {
        let (actor, critic, deviations) = self.split(parameters);
        self.actor.forward(actor, obs, &mut scratch.actor);
        out.values.copy_from_slice(self.critic.forward(critic, obs, &mut scratch.critic));
        let (outputs, heads) = (self.head.outputs(), scratch.actor.outputs_mut());
        match &self.head {
            Head::Discrete(choices) => {
                let probabilities = &mut scratch.probabilities[..heads.len()];
                categorical::probabilities(heads, *choices, legal_in(masks, *choices), probabilities);
                let rows = heads.chunks_exact(outputs).zip(probabilities.chunks_exact(outputs));
                for (((logs, probabilities), log_prob), action) in rows.zip(out.log_probs).zip(out.actions) {
                    let unit = (random.word() >> 8) as f32 * (1.0 / (1 << 24) as f32);
                    let choice = categorical::draw(probabilities, unit);
                    *log_prob = logs[choice];
                    *action = choice as f32;
                }
            }
            Head::Gaussian { low, .. } => {
                let rows = heads.chunks_exact(outputs).zip(out.log_probs);
                for ((means, log_prob), action) in rows.zip(out.actions.chunks_exact_mut(low.len())) {
                    for ((action, mean), log_std) in action.iter_mut().zip(means).zip(deviations) {
                        *action = mean + log_std.natural_exp() * random.normal() as f32;
                    }
                    *log_prob = gaussian::log_density(action, means, deviations);
                }
            }
        }
    }

    /// The best actions for a tile of rows, by the actor alone; as in [`Samples`].
    pub(super) fn best(
        &self,
        parameters: &[f32],
        obs: &[f32],
        masks: &[bool],
        scratch: &mut Scratch<f32>,
        actions: &mut [f32],
    ) {
        self.actor.forward(self.split(parameters).0, obs, &mut scratch.actor);
        let out = scratch.actor.outputs_mut();
        match &self.head {
            Head::Gaussian { .. } => actions.copy_from_slice(out),
            Head::Discrete(choices) => {
                let probabilities = &mut scratch.probabilities[..out.len()];
                categorical::probabilities(out, *choices, legal_in(masks, *choices), probabilities);
                let rows = out.chunks_exact(*choices);
                rows.zip(actions).for_each(|(logs, action)| *action = categorical::mode(logs) as f32);
            }
        }
    }

    /// What the critic thinks of a tile of rows.
    pub(super) fn values(&self, parameters: &[f32], obs: &[f32], scratch: &mut Scratch<f32>, out: &mut [f32]) {
        out.copy_from_slice(self.critic.forward(self.split(parameters).1, obs, &mut scratch.critic));
    }

    /// Adds the gradient of the loss over the picked rows to `gradients`, and what happened to the sums of `scratch`.
    pub(super) fn add_gradient<T: Scalar>(
        &self,
        parameters: &[T],
        samples: &Samples<'_, T>,
        picked: &[u32],
        coefficients: &Coefficients<T>,
        scratch: &mut Scratch<T>,
        gradients: &mut [T],
    ) {
        let (actor, critic, deviations) = self.split(parameters);
        let (by_actor, rest) = gradients.split_at_mut(self.sizes().0);
        let (by_critic, by_deviations) = rest.split_at_mut(self.sizes().1);
        let (inputs, outputs) = (self.actor.inputs(), self.head.outputs());
        let components = self.head.components();
        // All records first, and nothing else: so a core waits for many of them at once.
        let len = self.record_len();
        for (&i, record) in picked.iter().zip(scratch.records.chunks_exact_mut(len)) {
            record.copy_from_slice(&samples.records[i as usize * len..][..len]);
        }
        let records = scratch.records[..picked.len() * len].chunks_exact(len);
        let obs = records.clone().map(|record| &record[..inputs]);
        self.actor.forward_rows(actor, obs.clone(), &mut scratch.actor);
        let values = self.critic.forward_rows(critic, obs, &mut scratch.critic);
        let heads = scratch.actor.outputs_mut();
        let probabilities = &mut scratch.probabilities[..heads.len()];
        if let Head::Discrete(choices) = self.head {
            let legal = |row: usize, k: usize| legal_in(samples.masks, choices)(picked[row] as usize, k);
            categorical::probabilities(heads, choices, legal, probabilities);
        }
        let choice = |action: &[T]| action[0].to_usize().expect("a choice is a whole number");
        let (log_ratios, ratios) = (&mut scratch.log_ratios[..picked.len()], &mut scratch.ratios[..picked.len()]);
        let heads = heads.chunks_exact(outputs);
        for ((log_ratio, record), head) in log_ratios.iter_mut().zip(records.clone()).zip(heads.clone()) {
            let (action, judged) = record[inputs..].split_at(components);
            let log_prob = match self.head {
                Head::Discrete(_) => head[choice(action)],
                Head::Gaussian { .. } => gaussian::log_density(action, head, deviations),
            };
            *log_ratio = log_prob - Judged::read(judged).log_prob;
        }
        ratios.copy_from_slice(log_ratios);
        exp_all(ratios);
        let towards = scratch.by_actor.chunks_exact_mut(outputs).zip(&mut scratch.by_critic);
        let per_row = coefficients.per_row;
        let to_f64 = |x: T| x.to_f64().expect("a float is an f64, or nearly");
        let mut sums = Sums::default();
        let heads = heads.zip(probabilities.chunks_exact(outputs)).zip(log_ratios.iter().zip(&*ratios));
        let rows = records.zip(heads).zip(values).zip(towards);
        for (((record, ((head, probabilities), (&log_ratio, &ratio))), &value), (by_head, by_value)) in rows {
            let (action, judged) = record[inputs..].split_at(components);
            let judged = Judged::read(judged);
            let advantage = (judged.advantage - coefficients.mean) * coefficients.per_spread;
            let objective = clipped_objective(ratio, advantage, coefficients.clip);
            let by_log_prob = objective.by_log_prob * per_row;
            let by_entropy = -coefficients.entropy * per_row;
            let entropy = match &self.head {
                Head::Discrete(_) => {
                    categorical::gradient(head, probabilities, choice(action), by_log_prob, by_entropy, by_head)
                }
                Head::Gaussian { .. } => {
                    gaussian::gradient(action, head, deviations, by_log_prob, by_head, by_deviations);
                    by_deviations.iter_mut().for_each(|by| *by += by_entropy);
                    gaussian::entropy(deviations)
                }
            };
            let clip = coefficients.clip_values.then_some(coefficients.clip);
            let (value_loss, slope) = value_loss(value, judged.value, judged.returns, clip);
            *by_value = coefficients.value * slope * per_row;
            sums.policy += to_f64(objective.loss);
            sums.value += to_f64(value_loss);
            sums.entropy += to_f64(entropy);
            sums.old_kl -= to_f64(log_ratio);
            sums.kl += to_f64(ratio - T::one() - log_ratio);
            sums.clipped += f64::from(u8::from((ratio - T::one()).abs() > coefficients.clip));
        }
        scratch.sums.add(&sums);
        let towards = &scratch.by_actor[..picked.len() * outputs];
        self.actor.backward(actor, towards, &mut scratch.actor, by_actor);
        self.critic.backward(critic, &scratch.by_critic[..picked.len()], &mut scratch.critic, by_critic);
    }

    /// Names, shapes and places of all parameters.
    fn tensors(&self) -> impl Iterator<Item = (String, Vec<usize>, std::ops::Range<usize>)> {
        let (actor, critic, deviations) = self.sizes();
        let named = |network: &Network, name: &'static str, first: usize| {
            let place = move |(tensor, shape, range): (String, Vec<usize>, std::ops::Range<usize>)| {
                (format!("{name}.{tensor}"), shape, range.start + first..range.end + first)
            };
            network.tensors().map(place).collect::<Vec<_>>()
        };
        let first = actor + critic;
        let log_std = (deviations > 0).then(|| ("log_std".to_owned(), vec![deviations], first..first + deviations));
        named(&self.actor, "actor", 0).into_iter().chain(named(&self.critic, "critic", actor)).chain(log_std)
    }

    /// Parameters (or anything else that there is one of for each) as named arrays.
    pub(super) fn save(&self, parameters: &[f32]) -> State {
        let mut state = State::default();
        self.tensors().for_each(|(name, shape, place)| state.put(name, &shape, &parameters[place]));
        state
    }

    /// The parameters of a state.
    pub(super) fn restore(&self, state: &State) -> Result<Vec<f32>> {
        let mut parameters = vec![0.0; self.parameters()];
        for (name, shape, place) in self.tensors() {
            parameters[place].copy_from_slice(state.get(&name, &shape)?);
        }
        Ok(parameters)
    }
}
