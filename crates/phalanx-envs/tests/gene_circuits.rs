//! Gene circuits against closed forms, an independent simulation and reference returns.
//!
//! A birth-death process from zero is Poisson at every time, with the mean of its rate equation: for a
//! known input both mean and variance are exact. Statistical checks use 102 400 environments and allow
//! four standard errors; distributions are compared at level 1e-4 (chi-square) and 1e-3
//! (Kolmogorov-Smirnov). Seeds are fixed, so nothing here fails by chance from one run to the next.

mod common;

use common::{batch, rollout};
use phalanx_core::batch::{Actions, Autoreset, Batch, BatchConfig, StepBuffers};
use phalanx_core::lanes::{LaneValue, Mask, Real, f32x16, u32x16};
use phalanx_core::probe::{Precision, Probe};
use phalanx_core::rng::{Purpose, Stream};
use phalanx_envs::reaction::{Clock, ClockRule, Hill, Network};
use phalanx_envs::{Ccasr, OptoHill, registry};

const CCASR: &str = "ccasr-gfp-control";
const OPTO: &str = "opto-hill-1d-sysid";
const ENVS: usize = 102_400;

fn make(env: &str, num_envs: usize, seed: u64, settings: &[(&str, &str)]) -> Box<dyn Batch> {
    // No episode ends within a test, unless it says so.
    let limit = ("max_steps", "100000");
    let own_limit = settings.iter().any(|(name, _)| *name == "max_steps");
    let settings = settings.iter().chain((!own_limit).then_some(&limit));
    let settings = settings.map(|(k, v)| (k.to_string(), v.to_string())).collect();
    batch(env, &BatchConfig { num_envs, seed, autoreset: Autoreset::SameStep, settings, ..Default::default() })
}

/// One field of the state in every environment.
fn field(batch: &dyn Batch, name: &str) -> Vec<f64> {
    let at = batch.spec().state_names.iter().position(|n| *n == name).expect("a field of the state");
    let num_envs = batch.num_envs();
    (0..num_envs).map(|env| batch.state(env).unwrap()[at]).collect()
}

/// A batch after a schedule of inputs.
fn after(env: &str, seed: u64, schedule: &str, settings: &[(&str, &str)]) -> Box<dyn Batch> {
    let mut batch = make(env, ENVS, seed, settings);
    let mut run = rollout(batch.as_ref(), "open_loop", &[("schedule", schedule)]);
    run.run(batch.as_mut(), schedule.split(':').count(), 64, |_| true).unwrap();
    batch
}

/// The same input for many steps.
fn repeat(input: &str, steps: usize) -> String {
    vec![input; steps].join(":")
}

/// Mean, variance and the standard error of the variance.
fn moments(values: &[f64]) -> (f64, f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let central = |power| values.iter().map(|v| (v - mean).powi(power)).sum::<f64>() / n;
    let variance = central(2);
    (mean, variance * n / (n - 1.0), ((central(4) - variance * variance) / n).sqrt())
}

/// The quantile of chi-square with `k` degrees of freedom that belongs to the normal's `z`
/// (Wilson-Hilferty); 3.719 is that of 1 - 1e-4.
fn chi_square_limit(k: f64) -> f64 {
    k * (1.0 - 2.0 / (9.0 * k) + 3.719 * (2.0 / (9.0 * k)).sqrt()).powi(3)
}

/// Chi-square of counts against expectations, and its degrees of freedom. Neighbours are put together
/// until at least ten are expected; what is left at the end goes to the last bin.
fn chi_square(observed: &[f64], expected: &[f64]) -> (f64, f64) {
    let mut bins: Vec<(f64, f64)> = vec![(0.0, 0.0)];
    for (observed, expected) in observed.iter().zip(expected) {
        if bins[bins.len() - 1].1 >= 10.0 {
            bins.push((0.0, 0.0));
        }
        let last = bins.last_mut().expect("there is one");
        *last = (last.0 + observed, last.1 + expected);
    }
    if let [.., before, last] = &mut bins[..]
        && last.1 < 10.0
    {
        *before = (before.0 + last.0, before.1 + last.1);
        bins.pop();
    }
    (bins.iter().map(|(o, e)| (o - e) * (o - e) / e).sum(), (bins.len() - 1) as f64)
}

#[track_caller]
fn check_poisson(what: &str, values: &[f64], mean: f64) {
    let n = values.len() as f64;
    let (found, variance, _) = moments(values);
    let z = (found - mean) / (mean / n).sqrt();
    let z_variance = (variance - mean) / ((mean + 2.0 * mean * mean) / n).sqrt();
    assert!(
        z.abs() <= 4.0 && z_variance.abs() <= 4.0,
        "{what}: mean {found} (z {z:.2}), variance {variance} (z {z_variance:.2}) instead of {mean}"
    );
    let top = (mean + 12.0 * mean.sqrt() + 20.0) as usize;
    let mut observed = vec![0.0; top];
    values.iter().for_each(|v| observed[*v as usize] += 1.0);
    let mut expected = vec![n * (-mean).exp()];
    (1..top).for_each(|k| expected.push(expected[k - 1] * mean / k as f64));
    let (statistic, degrees) = chi_square(&observed, &expected);
    assert!(statistic <= chi_square_limit(degrees), "{what}: chi-square {statistic:.1} with {degrees} degrees");
}

/// Probability that the Kolmogorov-Smirnov statistic exceeds `d` with an effective sample of `n`.
fn ks_probability(d: f64, n: f64) -> f64 {
    let lambda = (n.sqrt() + 0.12 + 0.11 / n.sqrt()) * d;
    let series = (1..=100).map(|j| {
        let term = (-2.0 * f64::from(j * j) * lambda * lambda).exp();
        if j % 2 == 1 { term } else { -term }
    });
    (2.0 * series.sum::<f64>()).clamp(0.0, 1.0)
}

#[track_caller]
fn check_same_distribution(what: &str, mut a: Vec<f64>, mut b: Vec<f64>) {
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let (mut i, mut j, mut d) = (0, 0, 0.0_f64);
    while i < a.len() && j < b.len() {
        let x = a[i].min(b[j]);
        i += a[i..].iter().take_while(|v| **v <= x).count();
        j += b[j..].iter().take_while(|v| **v <= x).count();
        d = d.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    let n = a.len() as f64 * b.len() as f64 / (a.len() + b.len()) as f64;
    let p = ks_probability(d, n);
    assert!(p > 1e-3, "{what}: KS distance {d:.5}, p = {p:.2e}");
}

#[track_caller]
fn check_distribution(what: &str, mut values: Vec<f64>, cumulative: impl Fn(f64) -> f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let distance = values.iter().enumerate().map(|(i, v)| {
        let c = cumulative(*v);
        (c - i as f64 / n).abs().max((c - (i + 1) as f64 / n).abs())
    });
    let d = distance.fold(0.0, f64::max);
    let p = ks_probability(d, n);
    assert!(p > 1e-3, "{what}: KS distance {d:.5}, p = {p:.2e}");
}

// Rows 1 to 4 and 9 to 11, under every way to keep the clock.
#[test]
fn transients_are_poisson_and_the_clock_starts_at_the_boundary() {
    let ways: [&[(&str, &str)]; 3] = [&[], &[("redraw_each_interval", "true")], &[("rescale_on_change", "true")]];
    for (seed, settings) in ways.into_iter().enumerate() {
        let check = |env, what: &str, schedule: &str, name, mean| {
            let batch = after(env, 10 + seed as u64, schedule, settings);
            check_poisson(&format!("{what} {settings:?}"), &field(batch.as_ref(), name), mean);
        };
        check(CCASR, "one step on", "1", "H", 4.877058);
        for idle in [1, 12, 100] {
            check(CCASR, "one step on after idling", &format!("{}:1", repeat("0", idle)), "H", 4.877058);
        }
        check(CCASR, "on, off", "1:0", "H", 4.639201);
        check(CCASR, "on, off, on", "1:0:1", "H", 9.290002);
        check("ccasr-gfp-sysid", "on, off, on", "1:0:1", "H", 9.290002);
        check(OPTO, "full light", "1", "X", 17.695937);
        check(OPTO, "full light, then none", "1:0", "X", 13.781610);
        check(OPTO, "half light", "0.5", "X", 11.059961);
        check(OPTO, "too much light", "3", "X", 17.695937);
    }
}

// Rows 5, 7, 12.
#[test]
fn stationary_distributions() {
    let batch = after(CCASR, 20, &repeat("1", 288), &[]);
    check_poisson("light for 24 h", &field(batch.as_ref(), "H"), 99.99994);
    let (mean, variance, _) = moments(&field(batch.as_ref(), "F"));
    assert!((mean - 77.4).abs() <= 0.3 && (variance - 93.0).abs() <= 4.0, "F: {mean}, {variance}");
    let events = field(batch.as_ref(), "fired").iter().sum::<f64>() / (ENVS as f64 * 288.0);
    assert!((events - 15.8).abs() < 0.06, "{events} reactions per step");
    check_poisson("light for an hour", &field(after(OPTO, 21, &repeat("1", 12), &[]).as_ref(), "X"), 76.017035);
    check_poisson("light for 24 h", &field(after(OPTO, 22, &repeat("1", 288), &[]).as_ref(), "X"), 80.0);
}

// Rows 6 and 8.
#[test]
fn random_light() {
    let mut batch = make(CCASR, ENVS, 23, &[]);
    rollout(batch.as_ref(), "random", &[]).run(batch.as_mut(), 288, 64, |_| true).unwrap();
    let (mean, variance, variance_error) = moments(&field(batch.as_ref(), "H"));
    assert!((mean - 50.0).abs() <= 4.0 * (112.487 / ENVS as f64).sqrt(), "mean of H {mean}");
    assert!((variance - 112.487).abs() <= 4.0 * variance_error, "variance of H {variance} ± {variance_error}");
    let (mean, variance, _) = moments(&field(batch.as_ref(), "F"));
    assert!((mean - 8.6).abs() <= 0.3 && (variance - 93.0).abs() <= 4.0, "F: {mean}, {variance}");
    let events = field(batch.as_ref(), "fired").iter().sum::<f64>() / (ENVS as f64 * 288.0);
    assert!((events - 5.5).abs() < 0.06, "{events} reactions per step");
}

// Row 14.
#[test]
fn nothing_happens_where_nothing_can() {
    for (env, names) in [(CCASR, &["H", "F"][..]), (OPTO, &["X"])] {
        let batch = after(env, 24, &repeat("0", 288), &[]);
        for name in names.iter().chain(&["fired", "reactions", "capped"]) {
            assert!(field(batch.as_ref(), name).iter().all(|v| *v == 0.0), "{env} {name}");
        }
        assert!(field(batch.as_ref(), "wait").iter().all(|v| v.is_finite()));
        let mut obs = vec![0.0; ENVS * batch.spec().observation.dim()];
        batch.observe_into((&mut obs).into()).unwrap();
        assert!(obs.iter().all(|v| [0.0, 25.0 / 80.0].contains(v)));
    }
}

// Row 15.
#[test]
fn reactions_of_one_step() {
    let batch = after(OPTO, 25, "1", &[]);
    let (mean, variance, _) = moments(&field(batch.as_ref(), "reactions"));
    assert!((mean - 22.304063).abs() <= 4.0 * (variance / ENVS as f64).sqrt(), "{mean}");
}

/// The times of all events of one environment, with an interval of length `duration`.
fn event_times<R, N, const S: usize, const J: usize>(network: &N, seed: u64, duration: f64, minutes: f64) -> Vec<f64>
where
    R: Real<Uint = u32, Mask = bool>,
    N: Network<R, S, J>,
{
    event_times_under(ClockRule::default(), network, seed, duration, minutes)
}

fn event_times_under<R, N, const S: usize, const J: usize>(
    rule: ClockRule,
    network: &N,
    seed: u64,
    duration: f64,
    minutes: f64,
) -> Vec<f64>
where
    R: Real<Uint = u32, Mask = bool>,
    N: Network<R, S, J>,
{
    let stream = Stream::<R>::of_seed(seed, 3);
    let (mut counts, mut clock, mut times) = ([R::splat(0.0); S], Clock::new(), Vec::new());
    for step in 0..(minutes / duration).round() as u32 {
        let draws = stream.draws(Purpose::Step, 0, step);
        let begin = f64::from(step) * duration;
        (counts, clock) =
            clock.run_observed(network, counts, step == 0, R::splat(duration), rule, draws, |happened, time, _| {
                times.extend(happened.then(|| begin + time.lane_f64(0)))
            });
    }
    times
}

fn ccasr<R: Real>(light: f64) -> Ccasr<R> {
    let hill = |half| Hill::new(R::splat(half), R::splat(3.6));
    Ccasr { light: R::splat(light), nu: R::splat(0.01), by_h: hill(90.0), by_h_most: R::splat(0.5), by_f: hill(30.0) }
}

// Row 13: the same seed.
#[test]
fn the_control_interval_does_not_change_the_events() {
    for seed in 0..20 {
        let reference = event_times::<f64, _, 2, 5>(&ccasr(1.0), seed, 5.0, 1_440.0);
        assert!(reference.len() > 3_000);
        for duration in [1.0, 0.1, 15.0] {
            let times = event_times::<f64, _, 2, 5>(&ccasr(1.0), seed, duration, 1_440.0);
            assert_eq!(times.len(), reference.len(), "seed {seed}, interval {duration}");
            let apart = times.iter().zip(&reference).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(apart < 1e-9, "seed {seed}, interval {duration}: {apart:e}");
        }
        // In single precision the relative clock rounds at every boundary, by 2^-22 at most; this adds up
        // to less than a hundredth of a waiting time in a day.
        let single = event_times::<f32, _, 2, 5>(&ccasr(1.0), seed, 5.0, 300.0);
        let short = event_times::<f32, _, 2, 5>(&ccasr(1.0), seed, 1.0, 300.0);
        assert_eq!(single.len(), short.len());
        assert!(single.iter().zip(&short).all(|(a, b)| (a - b).abs() < 1e-3), "seed {seed}");
    }
}

/// The same through the engine: states after as many minutes have the same counts and reactions.
#[test]
fn the_timestep_does_not_change_a_constant_input() {
    let states = |timestep, steps: usize| {
        let batch = after(CCASR, 26, &repeat("1", steps), &[("timestep_minutes", timestep)]);
        [field(batch.as_ref(), "H"), field(batch.as_ref(), "F"), field(batch.as_ref(), "fired")]
    };
    let (long, short) = (states("5", 24), states("1", 120));
    // A reaction within rounding of the last boundary may fall on either side of it.
    for (long, short) in long.iter().zip(&short) {
        let differ = long.iter().zip(short).filter(|(a, b)| a != b).count();
        assert!(differ <= ENVS / 1_000, "{differ} of {ENVS} environments");
    }
    // Row 13: different seeds.
    let batch = after(CCASR, 27, &repeat("1", 120), &[("timestep_minutes", "1")]);
    check_same_distribution("H", long[0].clone(), field(batch.as_ref(), "H"));
    check_same_distribution("F", long[1].clone(), field(batch.as_ref(), "F"));
}

#[test]
fn waiting_times_are_exponential() {
    // In lanes, between the events of a Poisson process.
    let network = OptoHill { made: f32x16::splat(4.0), k_deg: f32x16::splat(0.0) };
    let stream = Stream::<f32x16>::of_seed(31, 0);
    let (mut counts, mut clock) = ([f32x16::splat(0.0)], Clock::new());
    let (mut last, mut waits) = ([0.0; 16], Vec::new());
    for step in 0..600 {
        let draws = stream.draws(Purpose::Step, u32x16::splat(0), u32x16::splat(step));
        let begin = f64::from(step) * 5.0;
        let changed = Mask::splat(step == 0);
        (counts, clock) = clock.run_observed(
            &network,
            counts,
            changed,
            f32x16::splat(5.0),
            ClockRule::default(),
            draws,
            |happened, time, _| {
                for (lane, last) in last.iter_mut().enumerate() {
                    if happened.bits() >> lane & 1 == 1 {
                        let now = begin + time.lane_f64(lane);
                        waits.push(now - *last);
                        *last = now;
                    }
                }
            },
        );
    }
    assert!(waits.len() > 150_000);
    check_distribution("between events", waits, |t| 1.0 - (-4.0 * t).exp());

    // After a change of the input, from the boundary on.
    let settings = [("timestep_minutes", "0.000001")];
    let batch = after(OPTO, 32, &format!("{}:1", repeat("0", 12)), &settings);
    check_distribution("after a change", field(batch.as_ref(), "wait"), |t| 1.0 - (-4.0 * t).exp());
    let batch = after(OPTO, 32, "0.25:1:0.5", &settings);
    check_distribution("after two changes", field(batch.as_ref(), "wait"), |t| 1.0 - (-2.5 * t).exp());
}

/// Five reactions of fixed propensities, one of them 0: a species counts each.
struct Choices;

impl<R: Real> Network<R, 5, 5> for Choices {
    const CHANGES: [[i32; 5]; 5] =
        [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]];
    fn propensities(&self, _: &[R; 5]) -> [R; 5] {
        [0.1, 3.0, 0.0, 0.9, 1.0].map(R::splat)
    }
}

#[test]
fn reactions_are_chosen_in_proportion() {
    let stream = Stream::<f32>::of_seed(33, 0);
    let draws = stream.draws(Purpose::Step, 0, 0);
    let rule = ClockRule { max_reactions: 1_000_000, ..ClockRule::default() };
    let (counts, clock) = Clock::new().run(&Choices, [0.0; 5], true, 100_000.0, rule, draws);
    let total: f32 = counts.iter().sum();
    assert!(total > 400_000.0 && clock.reactions as f32 == total && clock.capped == 0);
    assert_eq!(counts[2], 0.0);
    let pick = |values: [f64; 5]| [values[0], values[1], values[3], values[4]];
    let expected = pick([0.1, 3.0, 0.0, 0.9, 1.0]).map(|a| a / 5.0 * f64::from(total));
    let (statistic, degrees) = chi_square(&pick(counts.map(f64::from)), &expected);
    assert!(statistic <= chi_square_limit(degrees), "{counts:?}: {statistic}");
}

#[test]
fn a_changed_parameter_restarts_the_clock() {
    let mut batch = make(OPTO, ENVS, 34, &[("k_prod", "0")]);
    let mut run = rollout(batch.as_ref(), "constant", &[("action", "1")]);
    run.run(batch.as_mut(), 12, 4, |_| true).unwrap();
    batch.set_param("k_prod", &[5.0]).unwrap();
    run.run(batch.as_mut(), 1, 1, |_| true).unwrap();
    check_poisson("after a change of k_prod", &field(batch.as_ref(), "X"), 17.695937);
}

#[test]
fn a_cap_is_counted_and_discards_nothing() {
    let states = |cap| {
        let batch =
            after(OPTO, 35, &repeat("1", 10), &[("max_reactions_per_step", cap), ("k_prod", "50"), ("k_deg", "0")]);
        ["X", "wait", "fired", "reactions", "capped"].map(|name| field(batch.as_ref(), name))
    };
    // Ten steps of ten reactions, where two hundred are due.
    let [x, wait, fired, reactions, capped] = states("10");
    let all = |values: &[f64], expected| values.iter().all(|v| *v == expected);
    assert!(all(&reactions, 10.0) && all(&fired, 100.0) && all(&x, 100.0) && all(&capped, 1.0));
    assert!(wait.iter().all(|v| *v < 0.0));
    // What was put off is caught up with: the events are those of a run without a cap, only later.
    let times = |max_reactions| {
        let network = OptoHill { made: 4.0, k_deg: 0.0 };
        let rule = ClockRule { max_reactions, ..ClockRule::default() };
        event_times_under::<f64, _, 1, 2>(rule, &network, 35, 5.0, 500.0)
    };
    let (free, capped) = (times(10_000), times(10));
    assert!(free.len() > 1_500 && capped.len() == 1_000);
    assert!(capped.iter().zip(&free).all(|(a, b)| (a - b).abs() < 1e-9));
}

/// Not even where the light changes or the clock is drawn anew, which else forget what was scheduled.
#[test]
fn what_a_cap_puts_off_outlives_a_change() {
    for rule in ["redraw_each_interval", "rescale_on_change"].map(Some).into_iter().chain([None]) {
        let mut settings = vec![("max_reactions_per_step", "10"), ("k_prod", "50"), ("k_deg", "0")];
        settings.extend(rule.map(|rule| (rule, "true")));
        let batch = after(OPTO, 37, &repeat("1:0.5", 5), &settings);
        // Ten reactions take less than half of the five minutes of a step.
        let wait = field(batch.as_ref(), "wait");
        assert!(wait.iter().all(|wait| *wait < -25.0), "{rule:?}: {:?}", &wait[..4]);
    }
}

/// Single precision cannot add one to 2^24, so there a count would stand still.
#[test]
fn counts_beyond_single_precision_are_told() {
    let mut batch = make(OPTO, 2, 38, &[("k_deg", "0")]);
    let at = |name: &str| batch.spec().state_names.iter().position(|n| *n == name).unwrap();
    let (x, capped) = (at("X"), at("capped"));
    let mut state = batch.state(1).unwrap();
    state[x] = 16_777_215.0;
    batch.set_state(1, &state).unwrap();
    let mut run = rollout(batch.as_ref(), "constant", &[("action", "1")]);
    run.run(batch.as_mut(), 1, 1, |_| true).unwrap();
    assert_eq!([0, 1].map(|env| batch.state(env).unwrap()[capped]), [0.0, 1.0]);
    assert_eq!(run.stats().counts()[1], 1);
}

/// Also of steps that end an episode.
#[test]
fn a_run_adds_up_reactions_and_capped_steps() {
    let counts = |cap| {
        let settings = [("max_reactions_per_step", cap), ("k_prod", "50"), ("k_deg", "0"), ("max_steps", "4")];
        let mut batch = make(OPTO, 50, 36, &settings);
        let mut run = rollout(batch.as_ref(), "constant", &[("action", "1")]);
        run.run(batch.as_mut(), 10, 3, |_| true).unwrap();
        *run.stats().counts()
    };
    // Two hundred reactions are due in a step, of which ten are allowed in each of 50 x 10.
    assert_eq!(counts("10"), [5_000, 500]);
    let [reactions, capped] = counts("10000");
    assert!(reactions > 90_000 && capped == 0, "{reactions}, {capped}");
}

/// The counts of the circuit by a plain simulation in double precision with a generator of its own.
struct PlainCell {
    h: f64,
    f: f64,
    word: u64,
}

impl PlainCell {
    /// Uniform in (0, 1] (xorshift64*).
    fn unit(&mut self) -> f64 {
        self.word ^= self.word >> 12;
        self.word ^= self.word << 25;
        self.word ^= self.word >> 27;
        ((self.word.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Gillespie's direct method under one input, from scratch: exact, as waiting times have no memory.
    fn run(&mut self, light: f64, minutes: f64) {
        let hill = |x: f64, k: f64| x.powf(3.6) / (k.powf(3.6) + x.powf(3.6));
        let mut t = 0.0;
        loop {
            let rates = [light, 0.01 * self.h, 0.5 * hill(self.h, 90.0), 0.5 * hill(self.f, 30.0), 0.01 * self.f];
            let total: f64 = rates.iter().sum();
            if total == 0.0 {
                return;
            }
            t -= self.unit().ln() / total;
            if t >= minutes {
                return;
            }
            let mut left = self.unit() * total;
            let mut j = 0;
            while left > rates[j] && j < 4 {
                left -= rates[j];
                j += 1;
            }
            match j {
                0 => self.h += 1.0,
                1 => self.h -= 1.0,
                2 | 3 => self.f += 1.0,
                _ => self.f -= 1.0,
            }
        }
    }
}

#[test]
fn an_independent_simulation_gives_the_same_distribution() {
    // Twelve steps on, six off, again and again: H goes up and down through the bistable range.
    let schedule: Vec<u8> = (0..48).map(|step| u8::from(step % 18 < 12)).collect();
    let mut cells: Vec<PlainCell> = (0..20_000_u64)
        .map(|i| PlainCell { h: 0.0, f: 0.0, word: (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) })
        .collect();
    let mut batch = make(CCASR, ENVS, 36, &[]);
    let text: Vec<String> = schedule.iter().map(u8::to_string).collect();
    let mut run = rollout(batch.as_ref(), "open_loop", &[("schedule", &text.join(":"))]);
    for (step, light) in schedule.iter().enumerate() {
        cells.iter_mut().for_each(|cell| cell.run(f64::from(*light), 5.0));
        run.run(batch.as_mut(), 1, 1, |_| true).unwrap();
        if [5, 11, 17, 29, 47].contains(&step) {
            let plain = |of: fn(&PlainCell) -> f64| cells.iter().map(of).collect();
            check_same_distribution(&format!("H after {step}"), field(batch.as_ref(), "H"), plain(|cell| cell.h));
            check_same_distribution(&format!("F after {step}"), field(batch.as_ref(), "F"), plain(|cell| cell.f));
        }
    }
}

/// Mean return over many episodes against a mean and a spread over 2 000.
///
/// `decide` sees the number of the environment, the step and the observation.
#[track_caller]
fn check_return(target: &str, mean: f64, sd: f64, mut decide: impl FnMut(usize, usize, &[f32]) -> bool) {
    let num_envs = 10_000;
    let mut batch = make(CCASR, num_envs, 40, &[("target_type", target), ("max_steps", "288")]);
    let mut buffers = StepBuffers::new(num_envs, 3);
    batch.observe_into((&mut buffers.obs).into()).unwrap();
    let mut actions = vec![0; num_envs];
    for step in 0..288 {
        for (env, (action, obs)) in actions.iter_mut().zip(buffers.obs.chunks_exact(3)).enumerate() {
            *action = i32::from(decide(env, step, obs));
        }
        batch.step_into(Actions::Discrete(&actions), buffers.out()).unwrap();
    }
    assert!(buffers.truncated.iter().all(|t| *t) && !buffers.terminated.iter().any(|t| *t));
    let returns: Vec<f64> = buffers.final_returns.iter().map(|r| f64::from(*r)).collect();
    let (found, variance, _) = moments(&returns);
    let allowed = 4.0 * sd * (1.0 / num_envs as f64 + 1.0 / 2_000.0).sqrt();
    assert!((found - mean).abs() <= allowed + 0.5, "{found:.1} instead of {mean} ± {allowed:.1}");
    assert!((variance.sqrt() / sd - 1.0).abs() < 0.1, "spread {:.1} instead of {sd}", variance.sqrt());
}

#[test]
fn reference_returns() {
    check_return("constant", -11_637.0, 1_085.0, |_, _, _| true);
    check_return("sinewave", -11_521.0, 1_086.0, |_, _, _| true);
    let mut word = 1_u64;
    let mut coin = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word >> 63 == 1
    };
    check_return("constant", -5_680.0, 541.0, |_, _, _| coin());
    check_return("sinewave", -7_822.0, 564.0, |_, _, _| coin());
    check_return("constant", -5_177.0, 561.0, |_, step, _| step % 48 < 24);
    check_return("sinewave", -7_333.0, 550.0, |_, step, _| step % 48 < 24);
    check_return("constant", -3_052.0, 849.0, |_, _, obs| obs[0] <= obs[1]);
    check_return("sinewave", -6_157.0, 556.0, |_, _, obs| obs[0] <= obs[1]);
    for (target, mean, sd) in [("constant", -2_840.0, 669.0), ("sinewave", -6_203.0, 541.0)] {
        let mut integral = vec![0.0_f32; 10_000];
        check_return(target, mean, sd, |env, _, obs| {
            let error = obs[1] - obs[0];
            integral[env] = (integral[env] + 5.0 * error).clamp(-10.0, 10.0);
            8.889 * error + 0.0067 * integral[env] >= 0.5
        });
    }
    let mut hidden = vec![0.0_f32; 10_000];
    let fade = (-0.05_f32).exp();
    check_return("constant", -2_452.0, 581.0, |env, _, obs| {
        let on = (80.0 * obs[0] - 25.0) + 0.25 * (hidden[env] - 50.0) < 0.0;
        hidden[env] = hidden[env] * fade + if on { 100.0 * (1.0 - fade) } else { 0.0 };
        on
    });
}

/// The engine's own policies, as a user calls them.
#[test]
fn returns_of_the_built_in_policies() {
    const PID: &[(&str, &str)] = &[
        ("kp", "8.889"),
        ("ki", "0.0067"),
        ("setpoint", "0.3125"),
        ("obs_field", "F_normalized"),
        ("control_low", "0"),
        ("control_high", "1"),
    ];
    const BANGBANG: &[(&str, &str)] = &[("setpoint", "0.3125"), ("obs_field", "F_normalized"), ("invert", "true")];
    type Row = (&'static str, &'static [(&'static str, &'static str)], f64, f64);
    let rows: [Row; 4] = [
        ("random", &[], -5_680.0, 541.0),
        ("periodic", &[("pulse_width", "24")], -5_177.0, 561.0),
        ("bangbang", BANGBANG, -3_052.0, 849.0),
        ("pid", PID, -2_840.0, 669.0),
    ];
    for (policy, arguments, mean, sd) in rows {
        let mut batch = make("gene-circuit", 10_000, 41, &[("max_steps", "288")]);
        let mut run = rollout(batch.as_ref(), policy, arguments);
        run.run(batch.as_mut(), 288, 288, |_| true).unwrap();
        let returns = run.stats().returns().unwrap();
        let allowed = 4.0 * sd * (1.0_f64 / 1e4 + 1.0 / 2e3).sqrt();
        assert!((returns.mean - mean).abs() <= allowed + 0.5, "{policy}: {returns:?} instead of {mean} ± {allowed:.1}");
    }
}

/// A probe in double precision.
fn precise(env: &str, settings: &[(&str, &str)]) -> phalanx_core::Result<Box<dyn Probe>> {
    let settings = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let config = BatchConfig { settings, seed: 5, ..BatchConfig::default() };
    registry::find(env).unwrap().probe(&config, Precision::F64)
}

#[test]
fn closed_form_returns() {
    for (target, exact) in [("constant", -7_200.0), ("sinewave", -9_336.713_6)] {
        let mut probe = precise("gene-circuit-v1", &[("target_type", target)]).unwrap();
        let total: f64 = (0..288).map(|_| probe.step(&[0.0]).unwrap().reward).sum();
        assert!((total - exact).abs() < 5e-5, "{target}: {total}");
        let mut batch = make("ccas-ccar-control", 16, 0, &[("target_type", target), ("max_steps", "288")]);
        let mut run = rollout(batch.as_ref(), "constant", &[]);
        run.run(batch.as_mut(), 288, 288, |_| true).unwrap();
        let returns = run.stats().returns().unwrap();
        // A sum of 288 single-precision rewards.
        let allowed = if target == "constant" { 0.0 } else { 0.05 };
        assert!((returns.mean - exact).abs() <= allowed && returns.std <= 1e-3, "{target}: {returns:?}");
    }
}

#[test]
fn rewards_and_observations_share_their_instant_and_horizons_look_ahead() {
    for (horizon, dim) in [("0", 2), ("1", 3), ("4", 6)] {
        let mut probe = precise(CCASR, &[("n_horizon", horizon), ("target_type", "sinewave")]).unwrap();
        let mut seen = vec![probe.observation()];
        for step in 1..=60 {
            let reward = probe.step(&[1.0]).unwrap().reward;
            let obs = probe.observation();
            assert_eq!(obs.len(), dim);
            assert!((reward + 80.0 * f64::from(obs[0] - obs[1]).abs()).abs() < 1e-4, "step {step}");
            let target = 30.0 + 20.0 * (std::f64::consts::TAU * f64::from(step) / 120.0).sin();
            assert!((80.0 * f64::from(obs[1]) - target).abs() < 1e-4, "step {step}");
            seen.push(obs);
        }
        for (t, obs) in seen[..50].iter().enumerate() {
            obs[1..].iter().enumerate().for_each(|(ahead, target)| assert_eq!(*target, seen[t + ahead][1]));
        }
    }
    let refused = |name: &str, value: &str| precise(CCASR, &[(name, value)]).err().unwrap().to_string();
    assert!(refused("n_horizon", "3").contains("known: '0', '1', '4'"));
    assert!(refused("target_type", "square").contains("'constant', 'sinewave'"));
}

#[test]
fn random_phases_are_uniform_and_new_in_every_episode() {
    let settings = [("target_type", "sinewave"), ("sinewave_random_phase", "true"), ("max_steps", "3")];
    let mut batch = make(CCASR, ENVS, 42, &settings);
    let first = field(batch.as_ref(), "phase");
    rollout(batch.as_ref(), "constant", &[]).run(batch.as_mut(), 3, 3, |_| true).unwrap();
    let second = field(batch.as_ref(), "phase");
    let same = first.iter().zip(&second).filter(|(a, b)| a == b).count();
    assert!(same < 5, "{same}");
    let target = field(batch.as_ref(), "F_target");
    for (target, phase) in target.iter().zip(&second) {
        assert!((target - 30.0 - 20.0 * (std::f64::consts::TAU * phase).sin()).abs() < 1e-4);
    }
    check_distribution("phase", first, |phase| phase);
    check_distribution("phase", second, |phase| phase);
}

/// Each environment its own parameters: the mean of H goes with nu.
#[test]
fn environments_have_their_own_parameters() {
    let mut batch = make(CCASR, ENVS, 43, &[]);
    let slow = |env: usize| env.is_multiple_of(2);
    let nu: Vec<f64> = (0..ENVS).map(|env| if slow(env) { 0.005 } else { 0.02 }).collect();
    batch.set_param("nu", &nu).unwrap();
    rollout(batch.as_ref(), "constant", &[("action", "1")]).run(batch.as_mut(), 12, 4, |_| true).unwrap();
    let h = field(batch.as_ref(), "H");
    for (is_slow, nu) in [(true, 0.005_f64), (false, 0.02)] {
        let of_kind: Vec<f64> = (0..ENVS).filter(|env| slow(*env) == is_slow).map(|env| h[env]).collect();
        check_poisson("H", &of_kind, (1.0 - (-60.0 * nu).exp()) / nu);
    }
}
