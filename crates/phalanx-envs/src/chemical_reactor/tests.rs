//! The reactor against the numbers of its literature and of independent simulations.

use phalanx_core::batch::BatchConfig;
use phalanx_core::policy::Policy;
use phalanx_core::probe::{PolicyMemory, Precision, Probe};
use phalanx_core::safety::SafetyConfig;

use super::*;
use crate::golden::{exact, seeded, single, unguarded};

const CALM: (&str, &str) = ("disturbances", "false");

/// The plant without the shut-down, in double precision.
fn free(settings: &[(&str, &str)]) -> Box<dyn Probe> {
    unguarded(ChemicalReactor::default(), settings, Precision::F64)
}

/// The same in single precision.
fn free_single(settings: &[(&str, &str)]) -> Box<dyn Probe> {
    unguarded(ChemicalReactor::default(), settings, Precision::F32)
}

/// A state at 3 bar with the actuators at rest and the jacket at `tc`.
fn at(ca: f64, temperature: f64, tc: f64) -> Vec<f64> {
    let gas = 3.0 * 50.0 / (GAS_CONSTANT * temperature);
    vec![ca, 1.0 - ca, temperature - 350.0, gas, tc - 300.0, 100.0, 0.5, 350.0, 1.0, 0.7, 0.0, 0.0, 0.0, 0.0]
}

/// The state with its temperatures in K.
fn kelvin(probe: &dyn Probe) -> Vec<f64> {
    let mut state = probe.state();
    state[2] += 350.0;
    state[4] += 300.0;
    state
}

fn hold(tc: f64) -> [f64; 3] {
    [(tc - 300.0) / 15.0, 0.0, 0.0]
}

/// `CA` and `T` after `steps` with the jacket at `tc` from the start.
fn run(probe: &mut dyn Probe, [ca, temperature]: [f64; 2], tc: f64, steps: usize) -> [f64; 2] {
    probe.set_state(&at(ca, temperature, tc)).unwrap();
    for _ in 0..steps {
        probe.step(&hold(tc)).unwrap();
    }
    let state = kelvin(probe);
    [state[0], state[2]]
}

fn pressure(probe: &dyn Probe) -> f64 {
    let state = kelvin(probe);
    state[3] * GAS_CONSTANT * state[2] / 50.0
}

#[track_caller]
fn near(found: &[f64], expected: &[f64], relative: f64) {
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= relative * b.abs(), "{found:?} instead of {expected:?}");
    }
}

/// The derivatives of a map of the plane.
fn jacobian(f: &mut impl FnMut([f64; 2]) -> [f64; 2], [x, y]: [f64; 2]) -> [[f64; 2]; 2] {
    let (dx, dy) = (1e-5 * x.abs(), 1e-5 * y.abs());
    let [right, left, up, down] = [f([x + dx, y]), f([x - dx, y]), f([x, y + dy]), f([x, y - dy])];
    [0, 1].map(|i| [(right[i] - left[i]) / (2.0 * dx), (up[i] - down[i]) / (2.0 * dy)])
}

/// Newton's method for a zero in the plane.
fn root(mut f: impl FnMut([f64; 2]) -> [f64; 2], mut x: [f64; 2]) -> [f64; 2] {
    for _ in 0..30 {
        let [[a, b], [c, d]] = jacobian(&mut f, x);
        let [u, v] = f(x);
        let determinant = a * d - b * c;
        x = [x[0] - (d * u - b * v) / determinant, x[1] - (a * v - c * u) / determinant];
    }
    x
}

/// The steady state near a guess, stable or not: a fixed point of a step.
fn steady(probe: &mut dyn Probe, tc: f64, guess: [f64; 2]) -> [f64; 2] {
    root(
        |x| {
            let [ca, temperature] = run(probe, x, tc, 1);
            [ca - x[0], temperature - x[1]]
        },
        guess,
    )
}

#[test]
fn steady_states_and_their_eigenvalues() {
    let mut probe = free(&[CALM]);
    // Real parts or real eigenvalues, then the imaginary part, 1/min.
    let table = [
        (295.0, [0.92677, 317.742], None),
        (300.0, [0.87725, 324.475], Some((-1.049, -1.049, 0.539))),
        (300.0, [0.49992, 350.006], Some((2.834, -0.454, 0.0))),
        (300.0, [0.20876, 369.705], Some((1.357, 1.357, 1.540))),
        (302.0, [0.83479, 328.702], None),
        (305.0, [0.13520, 378.065], None),
    ];
    for (tc, expected, eigenvalues) in table {
        let found = steady(probe.as_mut(), tc, expected);
        assert!((found[0] - expected[0]).abs() < 1e-5 && (found[1] - expected[1]).abs() < 1e-3, "{tc}: {found:?}");
        let [[a, b], [c, d]] = jacobian(&mut |x| run(probe.as_mut(), x, tc, 1), found);
        // The eigenvalues of a step are e to the power of 0.1 min times those of the plant.
        let (half_trace, determinant) = (0.5 * (a + d), a * d - b * c);
        let square = half_trace * half_trace - determinant;
        let found = if square < 0.0 {
            let real = 0.5 * determinant.ln() / 0.1;
            (real, real, (-square).sqrt().atan2(half_trace) / 0.1)
        } else {
            ((half_trace + square.sqrt()).ln() / 0.1, (half_trace - square.sqrt()).ln() / 0.1, 0.0)
        };
        if let Some(expected) = eigenvalues {
            let off = [found.0 - expected.0, found.1 - expected.1, found.2 - expected.2];
            assert!(off.iter().all(|off| off.abs() < 1e-3), "{tc}: {found:?} instead of {expected:?}");
        } else {
            assert_eq!(found.0 < 0.0, tc < 303.0, "{tc}: {found:?}");
        }
    }
}

/// The jacket temperature that holds the reactor at a temperature has a maximum, where it ignites, and a
/// minimum, where it goes out.
#[test]
fn ignition_and_extinction() {
    let mut probe = free(&[CALM]);
    let mut holding = |temperature: f64| {
        let rest = |[ca, tc]: [f64; 2]| {
            let [after, warmed] = run(probe.as_mut(), [ca, temperature], tc, 1);
            [after - ca, warmed - temperature]
        };
        root(rest, [0.6, 300.0])
    };
    for (sign, [mut low, mut high], expected) in
        [(1.0, [330.0, 345.0], [0.7443, 303.229, 335.654]), (-1.0, [350.0, 370.0], [0.3255, 298.080, 360.511])]
    {
        for _ in 0..60 {
            let third = (high - low) / 3.0;
            let [left, right] = [low + third, high - third].map(|t| sign * holding(t)[1]);
            if left < right { low += third } else { high -= third }
        }
        let [ca, tc] = holding(low);
        let off = [ca - expected[0], tc - expected[1], low - expected[2]];
        assert!(off[0].abs() < 1e-4 && off[1].abs() < 1e-3 && off[2].abs() < 2e-3, "{ca} {tc} {low}");
    }
}

#[test]
fn open_loop_steps_of_the_jacket() {
    let mut probe = free(&[CALM]);
    let lower = steady(probe.as_mut(), 300.0, [0.877, 324.5]);
    // With a step of 0.002 min both the moment and the peak can be seen.
    let mut probe = free(&[CALM, ("dt", "0.002"), ("max_steps", "100000")]);
    let table =
        [(302.0, None, 328.84), (304.0, Some(3.62), 469.6), (305.0, Some(2.46), 476.3), (310.0, Some(1.14), 492.3)];
    for (tc, trip, peak) in table {
        probe.set_state(&at(lower[0], lower[1], tc)).unwrap();
        let course: Vec<f64> = (0..3_000)
            .map(|_| {
                probe.step(&hold(tc)).unwrap();
                kelvin(probe.as_ref())[2]
            })
            .collect();
        let found = course.iter().copied().fold(0.0, f64::max);
        assert!((found - peak).abs() < 0.06, "{tc}: {found} instead of {peak}");
        let passed = course.iter().position(|t| *t > 373.15).map(|i| (i + 1) as f64 * 0.002);
        assert_eq!(passed.is_some(), trip.is_some());
        assert!((passed.unwrap_or(0.0) - trip.unwrap_or(0.0)).abs() < 0.006, "{tc}: {passed:?}");
    }
}

/// RK4 with a sub-step of 0.005 min.
#[test]
fn golden_trajectories() {
    let mut probe = free(&[CALM, ("dt", "0.05")]);
    let table = [
        ([0.8, 330.0], 300.0, 2, [0.80267341, 329.412916]),
        ([0.8, 330.0], 300.0, 10, [0.81661145, 327.386565]),
        ([0.8, 330.0], 300.0, 20, [0.83533894, 325.724021]),
        ([0.5, 350.0], 295.0, 2, [0.50197091, 348.714293]),
        ([0.5, 350.0], 295.0, 20, [0.66660576, 326.189859]),
    ];
    for (start, tc, steps, expected) in table {
        near(&run(probe.as_mut(), start, tc, steps), &expected, 1e-6);
    }
}

#[test]
fn golden_episode_with_actuators_and_gas() {
    for (mut probe, tolerance) in
        [(exact(ChemicalReactor::default(), &[CALM]), 1e-6), (single(ChemicalReactor::default(), &[CALM]), 1e-5)]
    {
        probe.set_state(&at(0.877, 324.5, 300.0)).unwrap();
        let mut seen = vec![];
        for _ in 0..10 {
            probe.step(&[1.0 / 3.0, 0.0, 0.0]).unwrap();
            let state = kelvin(probe.as_ref());
            seen.push([state[0], state[2], pressure(probe.as_ref()), state[3], state[4]]);
        }
        near(&seen[0], &[0.87687012, 324.869146, 2.964260, 5.48711084, 303.160603], tolerance);
        near(&seen[4][..3], &[0.86953679, 328.046193, 2.891725], tolerance);
        near(&seen[9][..3], &[0.84620767, 331.681180, 2.922029], tolerance);
    }
}

#[test]
fn the_pressure_settles_where_gas_comes_and_goes_alike() {
    let mut probe = exact(ChemicalReactor::default(), &[CALM]);
    probe.set_state(&at(0.877, 324.5, 300.0)).unwrap();
    for _ in 0..3_000 {
        probe.step(&[0.0; 3]).unwrap();
    }
    let ca = kelvin(probe.as_ref())[0];
    assert!((ca - 0.8772529).abs() < 1e-7, "{ca}");
    let closed_form = 1.01325 + 0.1 * 100.0 * (1.0 - ca) / (2.0 * 0.5);
    near(&[pressure(probe.as_ref()), closed_form], &[2.240721, 2.240721], 1e-6);
}

/// What comes in as A is inside as A or B or has gone out, also while the feed changes.
#[test]
fn the_sum_of_the_concentrations_follows_the_feed() {
    let mut probe = exact(ChemicalReactor::default(), &[CALM]);
    let mut state = at(0.6, 330.0, 300.0);
    (state[1], state[8]) = (0.1, 1.2);
    probe.set_state(&state).unwrap();
    // The same with a thousand small steps of (CA + CB)' = q/V (CAf - CA - CB).
    let (mut sum, mut q) = (0.7, 100.0);
    for a1 in [1.0, -1.0, 0.3] {
        probe.step(&[-1.0, a1, 0.0]).unwrap();
        for _ in 0..10_000 {
            let middle = q + (100.0 + 20.0 * a1 - q) * 0.5e-4;
            sum += middle / 100.0 * (1.2 - sum) * 1e-5;
            q += (100.0 + 20.0 * a1 - q) * 1e-4;
        }
        let state = kelvin(probe.as_ref());
        assert!((state[0] + state[1] - sum).abs() < 2e-5, "{} instead of {sum}", state[0] + state[1]);
    }
}

#[test]
fn a_lane_stands_still_from_the_sub_step_that_breaks_a_hard_limit() {
    // With a tenth of the step, the first step that ends beyond the limit.
    let mut fine = free(&[CALM, ("dt", "0.01")]);
    let mut stopping = exact(ChemicalReactor::default(), &[CALM]);
    let start = at(0.85, 340.0, 310.0);
    fine.set_state(&start).unwrap();
    stopping.set_state(&start).unwrap();
    while kelvin(fine.as_ref())[2] <= 373.15 {
        fine.step(&hold(310.0)).unwrap();
    }
    while kelvin(stopping.as_ref())[2] <= 373.15 {
        let step = stopping.step(&hold(310.0)).unwrap();
        assert_eq!(step.terminated, kelvin(stopping.as_ref())[2] > 373.15);
    }
    near(&kelvin(stopping.as_ref())[..7], &kelvin(fine.as_ref())[..7], 2e-5);
    assert!(kelvin(stopping.as_ref())[2] < 385.0);

    let mut vented = exact(ChemicalReactor::default(), &[CALM]);
    vented.set_state(&start).unwrap();
    let mut state = start;
    state[3] *= 9.99 / 3.0;
    state[6] = 0.0;
    vented.set_state(&state).unwrap();
    vented.step(&[-1.0, 0.0, -1.0]).unwrap();
    let stopped = pressure(vented.as_ref());
    assert!((10.0..10.2).contains(&stopped), "{stopped}");
}

/// A step stops at the user's limits, wider or narrower than the plant's own.
#[test]
fn the_users_limits_stop_a_step_too() {
    for (limit, normalize) in [
        ("temperature<=380:hard:name=temperature_trip", "false"),
        ("temperature<=360", "false"),
        ("temperature<=0.5", "true"),
    ] {
        let safety = SafetyConfig { constraints: vec![Constraint::parse(limit).unwrap()], ..SafetyConfig::default() };
        let settings = [CALM, ("normalize_obs", normalize)].map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
        let config = BatchConfig { safety, settings, ..BatchConfig::default() };
        let mut probe = phalanx_core::probe::probe(ChemicalReactor::default(), &config, Precision::F64).unwrap();
        // The same plant with sub-steps for steps: where it first goes beyond is where the other stops.
        let mut fine = free(&[CALM, ("dt", "0.01")]);
        let trip = if normalize == "true" { 348.15 } else { limit[13..16].parse().unwrap() };
        let start = at(0.85, 340.0, 310.0);
        probe.set_state(&start).unwrap();
        fine.set_state(&start).unwrap();
        while kelvin(fine.as_ref())[2] <= trip {
            fine.step(&hold(310.0)).unwrap();
        }
        while !probe.step(&hold(310.0)).unwrap().terminated {}
        near(&kelvin(probe.as_ref())[..7], &kelvin(fine.as_ref())[..7], 1e-4);
    }
}

/// A reactor that nobody stops burns, cools and burns again, and all numbers stay numbers.
#[test]
fn an_ignited_reactor_stays_within_the_laws_of_conservation() {
    for mut probe in [free(&[CALM]), free_single(&[CALM])] {
        let mut ignitions = 0;
        probe.set_state(&at(0.8773, 324.475, 305.0)).unwrap();
        let mut before = 0.0;
        for _ in 0..500 {
            probe.step(&hold(305.0)).unwrap();
            let state = kelvin(probe.as_ref());
            ignitions += u32::from(before <= 373.15 && state[2] > 373.15);
            before = state[2];
            assert!((0.0..=1.0).contains(&state[0]) && (0.0..=1.0).contains(&state[1]), "{state:?}");
            // 350 K feed plus all the heat of reaction.
            assert!((300.0..560.0).contains(&state[2]), "{state:?}");
        }
        assert!((18..=24).contains(&ignitions), "{ignitions}");
    }
}

/// Along the fold, where the least difference grows, up to the limit.
#[test]
fn single_precision_follows_double_through_an_ignition() {
    for tc in [302.0, 303.0, 303.1, 303.25, 303.3, 303.35, 303.4, 303.6, 304.0, 305.0, 310.0, 315.0] {
        let mut double = exact(ChemicalReactor::default(), &[CALM]);
        let mut lanes = single(ChemicalReactor::default(), &[CALM]);
        let start = at(0.877253, 324.475, 300.0);
        double.set_state(&start).unwrap();
        lanes.set_state(&start).unwrap();
        let mut largest = 0.0_f64;
        for _ in 0..500 {
            double.step(&hold(tc)).unwrap();
            lanes.step(&hold(tc)).unwrap();
            for (a, b) in kelvin(lanes.as_ref()).iter().zip(&kelvin(double.as_ref())[..7]) {
                largest = largest.max((a / b - 1.0).abs());
            }
            if kelvin(double.as_ref())[2] > 373.15 {
                break;
            }
        }
        // The reactor ignites from 303.2 K on. A jacket that little above it holds it back for minutes, and how
        // many depends on the last bit of a parameter.
        let allowed = if (303.2..303.5).contains(&tc) { 3e-4 } else { 1e-4 };
        assert!(largest < allowed, "{tc}: {largest:e}");
    }
}

#[test]
fn reward_observation_and_set_points() {
    let mut probe = exact(ChemicalReactor::default(), &[CALM]);
    let mut start = at(0.75, 335.0, 300.0);
    (start[9], start[13]) = (0.65, 249.0);
    probe.set_state(&start).unwrap();
    assert_eq!((probe.observation()[9], probe.observation()[11]), (0.7, 1.0 - 249.0 / 500.0));
    let step = probe.step(&[0.5, -2.0, 0.2]).unwrap();
    let state = kelvin(probe.as_ref());
    let quality = 1.0 - (state[0] - 0.7).abs() / 0.1;
    let throughput = state[5] * state[1] / 40.0;
    let economy = 1.0 - 0.5 * state[6] - 0.25 * (0.5 + 1.0 + 0.2) / 3.0;
    let expected = 0.6 * quality + 0.2 * throughput + 0.2 * economy;
    assert!((step.reward - expected).abs() < 1e-12, "{step:?} instead of {expected}");
    assert_eq!(state[10..], [0.5, -1.0, 0.2, 250.0]);

    // The set-point has changed; the observation is K, bar, mol/L.
    let obs = probe.observation();
    let expected = [state[2], pressure(probe.as_ref()), state[0], state[1], state[4], state[5], state[6]];
    for (a, b) in obs.iter().zip(expected) {
        assert!((f64::from(*a) - b).abs() <= 1e-6 * b, "{obs:?} instead of {expected:?}");
    }
    assert_eq!((obs[7], obs[8], obs[9], obs[11]), (350.0, 1.0, 0.65, 0.5));
    assert!((f64::from(obs[10]) - (0.65 - state[0])).abs() < 1e-7);
}

#[test]
fn normalised_observations_and_limits() {
    let mut probe = exact(ChemicalReactor::default(), &[CALM, ("normalize_obs", "true")]);
    let mut state = at(0.5, 373.15, 285.0);
    state[5] = 120.0;
    probe.set_state(&state).unwrap();
    let obs = probe.observation();
    assert_eq!((obs[0], obs[2], obs[4], obs[5], obs[6]), (1.0, 0.0, -1.0, 1.0, 0.0));
    assert!((obs[1] - -0.4).abs() < 1e-6);
    let scaled = ChemicalReactor { normalize_obs: true, ..ChemicalReactor::default() };
    let bounds = |env: ChemicalReactor| {
        let constraints = env.constraints();
        (constraints[0].low.unwrap().value, constraints[1].high.unwrap().value)
    };
    assert_eq!(bounds(scaled), (-1.0, 1.0));
    assert_eq!(bounds(ChemicalReactor::default()), (273.15, 10.0));
}

/// Stationary moments of the feed: AR(1) with memory 0.99 has a variance of sd²/(1 - 0.99²).
#[test]
fn the_feed_drifts() {
    let (mut sums, mut count) = ([0.0; 5], 0.0);
    for seed in 0..400 {
        let mut probe = seeded(ChemicalReactor::default(), &[("max_steps", "2000")], seed, Precision::F32);
        for step in 0..1_200 {
            probe.step(&[-1.0, 0.0, 1.0]).unwrap();
            if step >= 600 && step % 300 == 0 {
                let state = kelvin(probe.as_ref());
                let (t, c) = ((state[7] - 350.0) / 0.2, (state[8] - 1.0) / 0.002);
                for (sum, value) in sums.iter_mut().zip([t, t * t, c, c * c, t * c]) {
                    *sum += value;
                }
                count += 1.0;
            }
        }
    }
    let variance = 1.0 / (1.0 - 0.99_f64 * 0.99);
    let means = sums.map(|sum| sum / count);
    let error = 5.0 * variance / f64::sqrt(count);
    let off = [means[1] - variance, means[3] - variance].map(|off| off.abs() / f64::sqrt(2.0));
    assert!(off.iter().chain([&means[4].abs()]).all(|off| *off < error), "{means:?}");
    assert!(means[0].abs().max(means[2].abs()) < 5.0 * (variance / count).sqrt(), "{means:?}");
}

/// What the reference says of seven policies, with its penalties: returns, and how many were shut down.
#[test]
fn reference_returns() {
    const EPISODES: u64 = 300;
    type Law = fn(&mut [f64; 2], usize, &[f32]) -> [f64; 3];
    /// The temperature at which CA would rest at the set-point.
    fn target(obs: &[f64]) -> f64 {
        let (dilution, caf, setpoint) = (obs[5] / 100.0, obs[8], obs[9]);
        8750.0 / (7.2e10 / (dilution * (caf - setpoint) / setpoint)).ln()
    }
    fn wide(obs: &[f32]) -> Vec<f64> {
        obs.iter().map(|x| f64::from(*x)).collect()
    }
    fn vent(obs: &[f64]) -> f64 {
        0.3 * (obs[1] - 4.0)
    }
    let proportional: Law = |_, _, obs| {
        let obs = wide(obs);
        [(target(&obs) - obs[0]) / 15.0, 0.0, vent(&obs)]
    };
    let with_integral: Law = |memory, _, obs| {
        let obs = wide(obs);
        let error = target(&obs) - obs[0];
        memory[0] += 0.1 * error;
        [(3.0 * error + 0.5 * memory[0]) / 15.0, 0.0, vent(&obs)]
    };
    let expert: Law = |memory, step, obs| {
        let obs = wide(obs);
        let (dilution, tf, caf, setpoint) = (obs[5] / 100.0, obs[7], obs[8], obs[9]);
        let wanted = target(&obs);
        let from = if step == 0 { obs[0] } else { memory[0] };
        memory[0] = from + (wanted - from).clamp(-0.5, 0.5);
        let reference = memory[0];
        let heat = dilution * (tf - wanted) + 209.205 * dilution * (caf - setpoint);
        let steady = wanted - heat / 2.09205;
        [(steady - 300.0 + 3.0 * (reference - obs[0])) / 15.0, 0.0, vent(&obs)]
    };
    // Mean, standard deviation and share of shut-downs by temperature and by pressure.
    let table: [(&str, Option<Law>, [f64; 4]); 7] = [
        ("random", None, [23.0, 81.0, 0.53, 0.0]),
        ("zero", Some(|_, _, _| [0.0; 3]), [108.3, 8.7, 0.0, 0.0]),
        ("hot", Some(|_, _, _| [1.0, 0.0, 0.0]), [-97.7, 0.4, 1.0, 0.0]),
        ("closed", Some(|_, _, _| [0.0, 0.0, -1.0]), [-102.3, 1.6, 0.0, 1.0]),
        ("proportional", Some(proportional), [288.0, 51.0, 0.05, 0.0]),
        ("with integral", Some(with_integral), [420.0, 64.0, 0.04, 0.0]),
        ("expert", Some(expert), [427.9, 6.6, 0.0, 0.0]),
    ];
    let mut faults = vec![];
    for (name, law, [mean, sd, hot, burst]) in table {
        let (mut sum, mut squares, mut trips) = (0.0, 0.0, [0.0; 2]);
        for seed in 0..EPISODES {
            let mut probe = seeded(ChemicalReactor::default(), &[], seed, Precision::F32);
            let random = Policy::parse("random", &[], probe.spec()).unwrap();
            let (mut memory, mut total) = ([0.0; 2], 0.0);
            for step in 0..500 {
                let action = match law {
                    Some(law) => law(&mut memory, step, &probe.observation()).to_vec(),
                    None => probe.decide(&random, step as u64, &mut PolicyMemory::default()).unwrap(),
                };
                let step = probe.step(&action).unwrap();
                total += step.reward;
                if step.terminated {
                    trips[0] += f64::from(step.violated & 1);
                    trips[1] += f64::from(step.violated >> 1 & 1);
                    break;
                }
            }
            sum += total;
            squares += total * total;
        }
        let episodes = EPISODES as f64;
        let (found, shares) = (sum / episodes, trips.map(|count| count / episodes));
        let found_sd = (squares / episodes - found * found).sqrt();
        // Both sides are samples of 300 episodes, and the reference is rounded.
        let allowed = 4.0 * sd * (2.0 / episodes).sqrt() + 0.5;
        let share = |p: f64| 4.0 * (p * (1.0 - p) * 2.0 / episodes).sqrt() + 0.005;
        let line =
            format!("{name}: {found:.1} ± {found_sd:.1}, trips {shares:?} instead of {mean} ± {sd}, {hot}, {burst}");
        // Of returns that few trips decide, the spread is known no better than this.
        let same_spread = (found_sd - sd).abs() <= 0.35 * sd + 0.5;
        if (found - mean).abs() > allowed
            || !same_spread
            || (shares[0] - hot).abs() > share(hot)
            || (shares[1] - burst).abs() > share(burst)
        {
            faults.push(line);
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
