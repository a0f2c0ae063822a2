//! Prints gradients as JSON, in double precision, for `tests/autograd/check.py` to compare with another
//! program's.

use phalanx_learn::agents::ppo::loss::{clipped_objective, value_loss};
use phalanx_learn::agents::q_network::{Loss, QNetwork};
use phalanx_learn::nn::Layer::{self, Dense, Norm, Relu, Tanh};
use phalanx_learn::nn::init::Init;
use phalanx_learn::nn::{Network, Tape, categorical, gaussian};
use phalanx_learn::random::{Purpose, Random};
use serde_json::{Value, json};

const ROWS: usize = 7;

fn main() {
    let mut random = Random::new(11, Purpose::Weights);
    let shapes: [(usize, &[Layer]); 5] = [
        (3, &[Dense(2)]),
        (4, &[Dense(8), Tanh, Dense(8), Tanh, Dense(2)]),
        (4, &[Dense(9), Relu, Dense(5), Relu, Dense(3)]),
        (6, &[Dense(16), Norm, Relu, Dense(16), Norm, Relu, Dense(4)]),
        (5, &[Dense(4), Norm, Tanh, Dense(1)]),
    ];
    let mut cases: Vec<Value> = shapes.iter().map(|(inputs, layers)| network(*inputs, layers, &mut random)).collect();
    cases.extend((2..6).map(|choices| choice(choices, &mut random)));
    cases.extend((1..4).map(|size| normal(size, &mut random)));
    cases.extend((0..40).map(|_| ppo(&mut random)));
    cases.extend(
        [("half_square", Loss::HalfSquare), ("square", Loss::Square), ("huber", Loss::Huber)]
            .into_iter()
            .flat_map(|(name, loss)| [-2.5, -0.3, 0.7, 4.0].map(|error| temporal_difference(name, loss, error))),
    );
    cases.extend([false, true].map(|dueling| action_values(dueling, &mut random)));
    println!("{}", Value::from(cases));
}

fn numbers(count: usize, random: &mut Random) -> Vec<f64> {
    (0..count).map(|_| random.normal()).collect()
}

fn network(inputs: usize, layers: &[Layer], random: &mut Random) -> Value {
    let network = Network::new(inputs, layers);
    let mut parameters: Vec<f64> = network.draw(Init::LecunNormal, Init::LecunNormal, random);
    // Biases and shifts that are not zero.
    parameters.iter_mut().for_each(|parameter| *parameter += 0.1 * random.normal());
    let rows = numbers(ROWS * inputs, random);
    let by_output = numbers(ROWS * network.outputs(), random);
    let mut tape = Tape::new(&network, ROWS);
    let outputs = network.forward(&parameters, &rows, &mut tape).to_vec();
    let mut gradients = vec![0.0; network.parameters()];
    network.backward(&parameters, &by_output, &mut tape, &mut gradients);
    let names: Vec<_> = layers.iter().map(|layer| format!("{layer:?}")).collect();
    json!({
        "kind": "network", "inputs": inputs, "layers": names, "parameters": parameters, "rows": rows,
        "by_output": by_output, "outputs": outputs, "gradients": gradients,
    })
}

fn choice(choices: usize, random: &mut Random) -> Value {
    let logits = numbers(choices, random);
    // All but the first may be illegal; the first one is chosen.
    let legal: Vec<_> = (0..choices).map(|i| i == 0 || i % 3 != 2).collect();
    let (mut log_probabilities, mut probabilities) = (logits.clone(), vec![0.0; choices]);
    categorical::probabilities(&mut log_probabilities, choices, |_, i| legal[i], &mut probabilities);
    let mut gradients = vec![0.0; choices];
    categorical::gradient(&log_probabilities, &probabilities, 0, 0.7, 0.3, &mut gradients);
    json!({
        "kind": "categorical", "logits": logits, "legal": legal, "by_choice": 0.7, "by_entropy": 0.3,
        "gradients": gradients,
    })
}

/// The two losses of PPO; ratios and values on both sides of where they are cut off.
fn ppo(random: &mut Random) -> Value {
    let [log_ratio, advantage, value, old, target] = [(); 5].map(|()| 0.5 * random.normal());
    let clip = 0.2;
    let objective = clipped_objective(log_ratio.exp(), advantage, clip);
    let (clipped, free) = (value_loss(value, old, target, Some(clip)), value_loss(value, old, target, None));
    json!({
        "kind": "ppo", "log_ratio": log_ratio, "advantage": advantage, "value": value, "old": old, "target": target,
        "clip": clip, "policy": [objective.loss, objective.by_log_prob], "clipped_value": [clipped.0, clipped.1],
        "free_value": [free.0, free.1],
    })
}

fn temporal_difference(name: &str, loss: Loss, error: f64) -> Value {
    let (loss, slope) = loss.of(error);
    json!({ "kind": "temporal difference", "loss": name, "error": error, "found": [loss, slope] })
}

/// The mean loss of a network of action values, whose head may be a dueling one.
fn action_values(dueling: bool, random: &mut Random) -> Value {
    let (inputs, choices, hidden) = (4, 3, [Dense(8), Norm, Tanh]);
    let network = QNetwork::new(inputs, &hidden, choices, dueling);
    let mut parameters: Vec<f64> = network.draw(Init::LecunNormal, Init::LecunNormal, random);
    parameters.iter_mut().for_each(|parameter| *parameter += 0.1 * random.normal());
    let (rows, targets) = (numbers(ROWS * inputs, random), numbers(ROWS, random));
    let actions: Vec<i32> = (0..ROWS as i32).map(|row| row % choices as i32).collect();
    let mut tape = network.tape(ROWS);
    let values = network.values(&parameters, &rows, &mut tape).to_vec();
    let mut gradients = vec![0.0; network.parameters()];
    let loss = (Loss::Square, 1.0 / ROWS as f64);
    network.add_gradient(&parameters, &rows, &actions, &targets, loss, &mut tape, &mut gradients);
    let head = Dense(choices + usize::from(dueling));
    let names: Vec<_> = hidden.iter().chain([&head]).map(|layer| format!("{layer:?}")).collect();
    json!({
        "kind": "action values", "dueling": dueling, "inputs": inputs, "layers": names, "parameters": parameters,
        "rows": rows, "actions": actions, "targets": targets, "values": values, "gradients": gradients,
    })
}

fn normal(size: usize, random: &mut Random) -> Value {
    let [action, means, log_deviations] = [(); 3].map(|()| numbers(size, random));
    let (mut by_mean, mut by_log_deviation) = (vec![0.0; size], vec![0.0; size]);
    gaussian::gradient(&action, &means, &log_deviations, 1.3, &mut by_mean, &mut by_log_deviation);
    json!({
        "kind": "gaussian", "action": action, "means": means, "log_deviations": log_deviations, "by_density": 1.3,
        "log_density": gaussian::log_density(&action, &means, &log_deviations),
        "by_mean": by_mean, "by_log_deviation": by_log_deviation,
    })
}
