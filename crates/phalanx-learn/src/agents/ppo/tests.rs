use phalanx_core::batch::{Autoreset, BatchConfig};

use super::*;
use crate::agents::cut_short;
use crate::world::Sight;

/// Steps of each environment in a run of these tests, unless they say otherwise.
const STEPS: u64 = 100_000;

fn world(env: &str, num_envs: usize, pool: &Arc<Pool>) -> World {
    let config =
        BatchConfig { num_envs, seed: 3, autoreset: Autoreset::SameStep, pool: pool.clone(), ..BatchConfig::default() };
    World::new(phalanx_envs::registry::find(env).unwrap().batch(&config).unwrap(), Sight::PRESENT).unwrap()
}

fn learner(config: &PpoConfig, env: &str, num_envs: usize, threads: usize) -> Ppo {
    let pool = Arc::new(Pool::new(threads));
    Ppo::new(config.clone(), world(env, num_envs, &pool), STEPS, 7, pool).unwrap()
}

fn advance(ppo: &mut Ppo, units: usize) -> Report {
    let mut report = Report::default();
    (0..units).for_each(|_| ppo.advance(u64::MAX, &mut report).unwrap());
    report
}

/// Everything that can be switched on.
fn all_options() -> PpoConfig {
    PpoConfig {
        rollout_steps: 8,
        num_minibatches: 2,
        num_epochs: 2,
        anneal_clip: true,
        target_kl: Some(0.5),
        hidden: vec![16, 8],
        norm_obs: true,
        norm_reward: true,
        reward_scale: 0.5,
        ..PpoConfig::default()
    }
}

#[test]
fn actions_without_bounds_cannot_be_squashed() {
    let message = Head::gaussian(&[-1.0, f32::NEG_INFINITY], &[1.0, 1.0], true).unwrap_err().to_string();
    assert!(message.starts_with("agent.squash is true, but a bound of the actions is -inf"), "{message}");
    assert!(Head::gaussian(&[f32::NEG_INFINITY], &[f32::INFINITY], false).is_ok());
    assert!(Head::gaussian(&[-1.0], &[1.0], true).is_ok());
}

/// The loss of all rows as a function of the parameters, and its gradient.
fn loss_and_gradient(
    policy: &Policy,
    parameters: &[f64],
    samples: &Samples<'_, f64>,
    coefficients: &Coefficients<f64>,
) -> (f64, Vec<f64>) {
    let rows = samples.records.len() / policy.record_len();
    let mut scratch = Scratch::new(policy, rows);
    let mut gradients = vec![0.0; policy.parameters()];
    let picked: Vec<u32> = (0..rows as u32).rev().collect();
    policy.add_gradient(parameters, samples, &picked, coefficients, &mut scratch, &mut gradients);
    let sums = scratch.sums.per(rows as f64);
    (sums.policy - coefficients.entropy * sums.entropy + coefficients.value * sums.value, gradients)
}

#[test]
fn the_gradient_of_the_loss_is_the_limit_of_differences() {
    let rows = 12;
    let discrete = Head::Discrete(3);
    let gaussian = Head::Gaussian { low: vec![-1.0; 2], high: vec![1.0; 2], squash: false };
    for (head, masked, clip_values) in
        [(discrete.clone(), false, true), (discrete, true, false), (gaussian, false, true)]
    {
        let policy = Policy::new(4, &[6, 5], head);
        let mut random = Random::new(1, Purpose::Weights);
        let mut normal = |count: usize, scale: f64| (0..count).map(|_| scale * random.normal()).collect::<Vec<f64>>();
        let parameters = normal(policy.parameters(), 0.5);
        let is_discrete = matches!(policy.head, Head::Discrete(_));
        let actions = match is_discrete {
            true => (0..rows).map(|row| f64::from(row % 2 * 2)).collect(),
            false => normal(rows as usize * 2, 1.0),
        };
        let rows = rows as usize;
        let masks = if masked { [true, false, true].repeat(rows) } else { Vec::new() };
        let obs = normal(rows * 4, 1.0);
        let (values, advantages, returns) = (normal(rows, 0.3), normal(rows, 1.0), normal(rows, 1.0));
        let records = |log_probs: &[f64]| {
            let mut records = vec![0.0; rows * policy.record_len()];
            for (i, record) in records.chunks_exact_mut(policy.record_len()).enumerate() {
                let judged =
                    Judged { log_prob: log_probs[i], value: values[i], advantage: advantages[i], returns: returns[i] };
                let components = policy.head.components();
                policy.write_record(&obs[i * 4..][..4], &actions[i * components..][..components], judged, record);
            }
            records
        };
        let certain = records(&vec![0.0; rows]);
        let samples = Samples { records: &certain, masks: &masks };
        let coefficients = Coefficients {
            mean: 0.1,
            per_spread: 1.3,
            clip: 0.2,
            clip_values,
            entropy: 0.05,
            value: 0.5,
            per_row: 1.0 / rows as f64,
        };
        // Old probabilities that make some ratios fall inside and some outside of the clip.
        let mut scratch = Scratch::new(&policy, rows);
        let old: Vec<f64> = (0..rows as u32)
            .map(|row| {
                scratch.sums = Sums::default();
                let mut unused = vec![0.0; policy.parameters()];
                policy.add_gradient(&parameters, &samples, &[row], &coefficients, &mut scratch, &mut unused);
                -scratch.sums.old_kl
            })
            .zip(normal(rows, 0.3))
            .map(|(log_prob, change)| log_prob + change)
            .collect();
        let records = records(&old);
        let samples = Samples { records: &records, masks: &masks };
        let (_, found) = loss_and_gradient(&policy, &parameters, &samples, &coefficients);
        for (i, gradient) in found.iter().enumerate() {
            let at = |change: f64| {
                let mut moved = parameters.clone();
                moved[i] += change;
                loss_and_gradient(&policy, &moved, &samples, &coefficients).0
            };
            let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
            let fits = crate::nn::is_slope(*gradient, difference, 1e-5, at(0.0));
            assert!(fits, "{:?}, parameter {i}: {gradient} and {difference}", policy.head);
        }
        assert!(found.iter().all(|gradient| *gradient != 0.0) || masked, "every parameter matters");
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    // More rows than a tile, in the roll-out and in a minibatch, and not a multiple of it.
    for (env, num_envs) in [("CartPole-v1", 300), ("Pendulum-v1", 300), ("tic-tac-toe", 300)] {
        let state = |threads: usize| {
            let mut ppo = learner(&all_options(), env, num_envs, threads);
            advance(&mut ppo, 3);
            ppo.save()
        };
        let alone = state(1);
        assert!(alone == state(2) && alone == state(3), "{env}");
    }
}

#[test]
fn a_restored_learner_goes_on_to_the_same_bits() {
    for env in ["CartPole-v1", "Pendulum-v1"] {
        let mut whole = learner(&all_options(), env, 6, 1);
        advance(&mut whole, 3);
        let state = whole.save();
        let mut resumed = learner(&all_options(), env, 6, 1);
        advance(&mut resumed, 1);
        resumed.restore(&state).unwrap();
        assert_eq!(resumed.save(), state);
        let reports = [&mut whole, &mut resumed].map(|ppo| advance(ppo, 3));
        assert_eq!(whole.save(), resumed.save(), "{env}");
        let means = reports
            .map(|report| report.means().map(|(tag, mean)| (tag.to_owned(), mean.to_bits())).collect::<Vec<_>>());
        assert_eq!(means[0], means[1]);
        assert!(means[0].iter().any(|(tag, _)| *tag == "losses/approx_kl"));
        assert_eq!(whole.global_step(), 6 * 6 * 8);
    }
}

#[test]
fn a_state_of_another_shape_is_refused() {
    let mut ppo = learner(&all_options(), "CartPole-v1", 2, 1);
    let other = learner(&PpoConfig { hidden: vec![16, 9], ..all_options() }, "CartPole-v1", 2, 1).save();
    let before = ppo.save();
    let error = ppo.restore(&other).unwrap_err().to_string();
    assert_eq!(error, "'actor.1.weight' of the checkpoint is F32[9, 16], but F32[8, 16] is needed");
    assert_eq!(ppo.save(), before);
}

#[test]
fn what_is_no_number_stops_training_and_leaves_the_weights() {
    let mut ppo =
        learner(&PpoConfig { hidden: vec![8], num_minibatches: 1, ..PpoConfig::default() }, "CartPole-v1", 4, 1);
    advance(&mut ppo, 1);
    let weights = ppo.parameters.clone();
    ppo.rollout.returns[5] = f32::NAN;
    ppo.record();
    let error = ppo.learn(&mut Report::default()).unwrap_err();
    assert!(matches!(error, Error::NotFinite { global_step: 512, .. }), "{error}");
    assert!(error.to_string().starts_with("the value loss became NaN at step 512"), "{error}");
    assert_eq!(ppo.parameters, weights);
    // Steps of this length leave the numbers that there are.
    let mut ppo =
        learner(&PpoConfig { learning_rate: 1e39, hidden: vec![8], ..PpoConfig::default() }, "CartPole-v1", 4, 1);
    let error = ppo.advance(u64::MAX, &mut Report::default()).unwrap_err();
    assert!(matches!(error, Error::NotFinite { global_step: 512, .. }), "{error}");
}

#[test]
fn settings_that_cannot_work_are_named() {
    let refused = |change: &dyn Fn(&mut PpoConfig)| {
        let mut config = PpoConfig::default();
        change(&mut config);
        config.check(Length { num_envs: 4, steps_per_env: 1_000 }).unwrap_err().to_string()
    };
    assert_eq!(refused(&|c| c.learning_rate = -1.0), "agent.learning_rate is -1.0, but must be above 0");
    assert_eq!(refused(&|c| c.gamma = 1.5), "agent.gamma is 1.5, but must be from 0 to 1");
    assert_eq!(refused(&|c| c.vf_coef = f64::NAN), "agent.vf_coef is nan, but must be a finite number");
    assert_eq!(refused(&|c| c.log_std_init = 21.0), "agent.log_std_init is 21.0, but must be from -20 to 20");
    assert_eq!(
        refused(&|c| c.num_minibatches = 512),
        "agent.num_minibatches is 512, but must be smaller: the normalised advantage of a single transition is 0 (or \
         agent.norm_adv = false)"
    );
    let single = PpoConfig { num_minibatches: 512, norm_adv: false, ..PpoConfig::default() };
    single.check(Length { num_envs: 4, steps_per_env: 1 }).unwrap();
}

#[test]
fn what_does_not_fit_into_memory_is_refused() {
    let refused = |config: PpoConfig| {
        let pool = Arc::new(Pool::new(1));
        Ppo::new(config, world("CartPole-v1", 1, &pool), 1, 7, pool).unwrap_err().to_string()
    };
    let wide = refused(PpoConfig { hidden: vec![1 << 40, 1 << 40], ..PpoConfig::default() });
    assert!(wide.starts_with("agent.hidden is [1099511627776, 1099511627776], but the networks would take"), "{wide}");
    let long = refused(PpoConfig { rollout_steps: 1 << 31, ..PpoConfig::default() });
    assert!(long.starts_with("run.rollout_steps is 2147483648, but a roll-out of run.num_envs = 1 env"), "{long}");
}

#[test]
fn rates_fall_to_zero_after_the_last_roll_out() {
    let config = PpoConfig { anneal_clip: true, num_minibatches: 1, ..all_options() };
    let pool = Arc::new(Pool::new(1));
    // Three roll-outs of eight steps, and a part of one that is not made.
    let mut ppo = Ppo::new(config, world("CartPole-v1", 2, &pool), 30, 7, pool).unwrap();
    assert_eq!(ppo.unit(), 16);
    let rates: Vec<f64> = (0..3)
        .map(|_| advance(&mut ppo, 1).means().find(|(tag, _)| *tag == "charts/learning_rate").unwrap().1)
        .collect();
    let expected = [3.0, 2.0, 1.0].map(|left| 2.5e-4 * left / 3.0);
    assert!(rates.iter().zip(expected).all(|(rate, expected)| (rate - expected).abs() < 1e-12), "{rates:?}");
}

#[test]
fn illegal_choices_are_never_made() {
    let mut ppo = learner(&all_options(), "tic-tac-toe", 20, 1);
    for _ in 0..5 {
        advance(&mut ppo, 1);
        let Rollout { masks, actions, .. } = &ppo.rollout;
        assert!(actions.iter().zip(masks.chunks(9)).all(|(choice, legal)| legal[*choice as usize]));
        let mut greedy = ppo.greedy();
        let mut choices = vec![0; 20];
        greedy.act(ppo.world.obs(), ppo.world.masks(), ActionsMut::Discrete(&mut choices));
        assert!(choices.iter().zip(ppo.world.masks().chunks(9)).all(|(choice, legal)| legal[*choice as usize]));
    }
}

#[test]
fn continuous_actions_are_sent_within_bounds() {
    for squash in [false, true] {
        let config = PpoConfig { squash, log_std_init: 2.0, ..all_options() };
        let mut ppo = learner(&config, "Pendulum-v1", 20, 1);
        advance(&mut ppo, 2);
        assert!(ppo.bounded.iter().all(|action| action.abs() <= 2.0));
        assert!(ppo.rollout.actions.iter().any(|action| action.abs() > 2.0), "what was drawn is kept");
        let mut greedy = ppo.greedy();
        let mut actions = vec![9.0; 20];
        greedy.act(ppo.world.obs(), &[], ActionsMut::Continuous(&mut actions));
        assert!(actions.iter().all(|action| action.abs() <= 2.0));
    }
}

#[test]
fn cart_pole_is_learnt() {
    let config = PpoConfig {
        rollout_steps: 32,
        num_minibatches: 1,
        num_epochs: 20,
        gamma: 0.98,
        gae_lambda: 0.8,
        learning_rate: 1e-3,
        anneal_clip: true,
        clip_vloss: false,
        ent_coef: 0.0,
        ..PpoConfig::default()
    };
    let pool = Arc::new(Pool::new(1));
    let mut ppo = Ppo::new(config, world("CartPole-v1", 8, &pool), 7_500, 7, pool).unwrap();
    let units = 7_500 / 32;
    advance(&mut ppo, units - 60);
    let mean = advance(&mut ppo, 60).episodes.mean_return().unwrap();
    // Actions are still drawn; 20 is what a random policy gets.
    assert!(mean > 300.0, "{mean}");
}

#[test]
fn a_time_limit_is_bootstrapped_from_what_it_cut_off() {
    let config = PpoConfig {
        rollout_steps: 20,
        num_minibatches: 1,
        num_epochs: 10,
        gamma: 0.9,
        gae_lambda: 0.5,
        learning_rate: 3e-3,
        clip_vloss: false,
        hidden: vec![16],
        max_grad_norm: 10.0,
        ..PpoConfig::default()
    };
    cut_short::check(|lie| {
        let world = World::new(cut_short::batch(4, lie), Sight::PRESENT).unwrap();
        let mut ppo = Ppo::new(config.clone(), world, 20_000, 1, Arc::new(Pool::new(1))).unwrap();
        advance(&mut ppo, 1_000);
        ppo.values(&[0.0, 1.0])[0]
    });
}
