//! Classical controllers: one state per environment, cleared at every episode start.

use super::{LanePolicy, Moment};
use crate::env::broadcast;
use crate::lane_struct;
use crate::lanes::{LaneValue, Real, Uint};
use crate::rng::Stream;
use crate::space::ActionSpace;

/// A control law and the action space it acts on.
#[derive(Clone, Debug)]
pub struct Controller {
    pub(super) law: Law,
    pub(super) space: ActionSpace,
    /// What the observed field is an index into.
    pub(super) observed: &'static [&'static str],
}

/// What a controller does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Law {
    /// The same action always; one value per component.
    Constant {
        /// The action.
        action: Vec<f64>,
    },
    /// `schedule[k mod len]` at the `k`-th step of an episode, for every component.
    OpenLoop {
        /// The actions of successive steps.
        schedule: Vec<f64>,
    },
    /// `pulse_width` steps on (1, or the upper bound), as many off (0, or the lower bound).
    Periodic {
        /// Steps on, and steps off.
        pulse_width: u32,
    },
    /// High above the set-point, low at or below it.
    BangBang {
        /// The threshold.
        setpoint: f64,
        /// Index of the observed component.
        field: usize,
        /// Swap high and low.
        invert: bool,
    },
    /// Proportional, integral, derivative.
    Pid {
        /// Gain on the error.
        kp: f64,
        /// Gain on its integral.
        ki: f64,
        /// Gain on its derivative.
        kd: f64,
        /// What the observed component should be.
        setpoint: f64,
        /// Index of the observed component.
        field: usize,
        /// Time between two steps.
        dt: f64,
        /// Limit of the integral's magnitude.
        anti_windup: f64,
        /// Range of the control signal; mandatory for a discrete action space.
        range: Option<(f64, f64)>,
    },
}

lane_struct! {
    /// What a PID controller remembers.
    pub struct PidMemory<R> { integral: R, previous_error: R }
}

/// What a controller has decided: a signal for continuous actions, an index for discrete ones.
#[derive(Clone, Copy, Debug)]
pub enum Signal<R: Real> {
    /// High where true, low elsewhere.
    Switch(R::Mask),
    /// A number per lane.
    Level(R),
}

impl Controller {
    /// A law for an environment; [`Policy::parse`](super::Policy::parse) has checked what a user wrote.
    pub(super) fn new(law: Law, space: ActionSpace, observed: &'static [&'static str]) -> Self {
        Self { law, space, observed }
    }

    fn pid<R: Real>(&self, moment: &Moment<'_, R>, obs: &[R], memory: &mut PidMemory<R>) -> R {
        let Law::Pid { kp, ki, kd, setpoint, field, dt, anti_windup, .. } = self.law else { unreachable!("a PID law") };
        // Also when a roll-out begins in mid-episode: a memory that was never written is NaN.
        let unwritten = !memory.previous_error.eq(memory.previous_error);
        let first = moment.step.eq(R::Uint::splat(0)) | unwritten;
        let zero = R::splat(0.0);
        let error = R::splat(setpoint) - obs[field];
        let integral = R::select(first, zero, memory.integral) + error * R::splat(dt);
        memory.integral = integral.clamp(R::splat(-anti_windup), R::splat(anti_windup));
        let slope = R::select(first, zero, (error - memory.previous_error) / R::splat(dt));
        memory.previous_error = error;
        R::splat(kp) * error + R::splat(ki) * memory.integral + R::splat(kd) * slope
    }
}

impl LanePolicy for Controller {
    type Memory<R: Real> = PidMemory<R>;
    type Scratch<R: Real> = Signal<R>;

    fn scratch<R: Real>(&self) -> Signal<R> {
        Signal::Level(R::splat(0.0))
    }

    fn replenish<R: Real>(&self, _: &Stream<R>, _: u64, wanted: usize, _: &mut Signal<R>) -> usize {
        wanted
    }

    #[inline(always)]
    fn prepare<R: Real>(&self, moment: &Moment<'_, R>, obs: &[R], memory: &mut PidMemory<R>, signal: &mut Signal<R>) {
        *signal = match &self.law {
            Law::Constant { action } => Signal::Level(R::splat(action[0])),
            Law::OpenLoop { schedule } => {
                Signal::Level(R::from_lanes(|lane| schedule[moment.step.lane(lane) as usize % schedule.len()]))
            }
            Law::Periodic { pulse_width } => {
                let phase = R::Uint::from_lanes(|lane| f64::from(moment.step.lane(lane) % (2 * pulse_width)));
                Signal::Switch(phase.lt(R::Uint::splat(*pulse_width)))
            }
            Law::BangBang { setpoint, field, invert } => {
                let above = obs[*field].gt(R::splat(*setpoint));
                Signal::Switch(if *invert { !above } else { above })
            }
            Law::Pid { .. } => Signal::Level(self.pid(moment, obs, memory)),
        };
    }

    #[inline(always)]
    fn index<R: Real>(&self, _moment: &Moment<'_, R>, signal: &mut Signal<R>) -> R::Uint {
        let ActionSpace::Discrete { n } = self.space else { unreachable!("an index of a discrete space") };
        match (&self.law, *signal) {
            (Law::Periodic { .. }, Signal::Switch(on)) => R::Uint::masked(on, 1.min(n - 1)),
            (_, Signal::Switch(high)) => R::Uint::masked(high, n - 1),
            (Law::Pid { range: Some((low, high)), .. }, Signal::Level(level)) => {
                // The bin of `n` equal ones that the signal falls into: count the inner edges at or below.
                (1..n).fold(R::Uint::splat(0), |bin, edge| {
                    let edge = R::splat(low + (high - low) * f64::from(edge) / f64::from(n));
                    bin.wrapping_add(R::Uint::masked(edge.le(level), 1))
                })
            }
            (_, Signal::Level(level)) => level.to_uint(),
        }
    }

    #[inline(always)]
    fn choice<R: Real>(&self, k: usize, _moment: &Moment<'_, R>, _signal: &mut Signal<R>) -> R::Uint {
        // `Policy::parse` lets no other law act on a vector of choices.
        let Law::Constant { action } = &self.law else { unreachable!("a constant action") };
        R::Uint::splat(action[k] as u32)
    }

    #[inline(always)]
    fn component<R: Real>(&self, k: usize, _moment: &Moment<'_, R>, signal: &mut Signal<R>) -> R {
        let ActionSpace::Box { low, high } = &self.space else { unreachable!("a component of a box") };
        let (low, high) = (broadcast::<R>(low[k]), broadcast::<R>(high[k]));
        match (&self.law, *signal) {
            (_, Signal::Switch(on)) => R::select(on, high, low),
            (Law::Constant { action }, _) => R::splat(action[k]),
            (Law::Pid { range, .. }, Signal::Level(level)) => match range {
                Some((range_low, range_high)) => level.clamp(R::splat(*range_low), R::splat(*range_high)),
                None => level.clamp(low, high),
            },
            (_, Signal::Level(level)) => level,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Decision, LanePolicy};

    /// Feeds observations to a controller at successive steps of one episode.
    fn respond<T>(
        controller: &Controller,
        values: &[f64],
        mut read: impl FnMut(&mut Decision<'_, Controller, f64>) -> T,
    ) -> Vec<T> {
        let stream = Stream::of_seed(0, 0);
        let mut memory = PidMemory { integral: f64::NAN, previous_error: f64::NAN };
        let mut scratch = controller.scratch();
        (0..)
            .zip(values)
            .map(|(step, &value)| {
                let moment = Moment { stream: &stream, tick: u64::from(step) + 100, step };
                read(&mut Decision::new(controller, moment, &[value], &mut memory, &mut scratch))
            })
            .collect()
    }

    fn pid(kp: f64, ki: f64, kd: f64, setpoint: f64, range: Option<(f64, f64)>) -> Law {
        Law::Pid { kp, ki, kd, setpoint, field: 0, dt: 0.1, anti_windup: 10.0, range }
    }

    fn unbounded() -> ActionSpace {
        ActionSpace::Box { low: vec![f32::MIN], high: vec![f32::MAX] }
    }

    #[test]
    fn pid_gives_the_published_signals_without_a_kick_at_the_start() {
        let controller = Controller::new(pid(2.0, 0.5, 0.1, 1.0, None), unbounded(), &["value"]);
        let signals = respond(&controller, &[0.0, 0.5, 1.2], |d| d.component(0));
        for (signal, expected) in signals.iter().zip([2.05, 0.575, -1.035]) {
            assert!((signal - expected).abs() < 1e-12, "{signals:?}");
        }
    }

    #[test]
    fn pid_clips_to_the_range_or_to_the_space() {
        let space = ActionSpace::Box { low: vec![-2.0], high: vec![2.0] };
        let clipped = Controller::new(pid(1.0, 0.0, 0.0, 0.0, None), space.clone(), &["value"]);
        assert_eq!(respond(&clipped, &[-5.0, 5.0, 1.0], |d| d.component(0)), [2.0, -2.0, -1.0]);
        let narrow = Controller::new(pid(1.0, 0.0, 0.0, 0.0, Some((-0.5, 0.25))), space, &["value"]);
        assert_eq!(respond(&narrow, &[-5.0, 5.0, 0.125], |d| d.component(0)), [0.25, -0.5, -0.125]);
    }

    #[test]
    fn pid_limits_its_integral() {
        let mut law = pid(0.0, 1.0, 0.0, 100.0, None);
        if let Law::Pid { anti_windup, .. } = &mut law {
            *anti_windup = 15.0;
        }
        assert_eq!(
            respond(&Controller::new(law, unbounded(), &["value"]), &[0.0; 3], |d| d.component(0)),
            [10.0, 15.0, 15.0]
        );
    }

    #[test]
    fn pid_bins_its_signal_for_discrete_actions() {
        for (n, range, cases) in [
            (2, (0.0, 1.0), vec![(0.49, 0), (0.5, 1), (7.0, 1), (-3.0, 0)]),
            (3, (-1.0, 1.0), vec![(-0.34, 0), (-0.3, 1), (0.34, 2)]),
        ] {
            // kp = -1 and set-point 0 make the signal the observation itself.
            let controller =
                Controller::new(pid(-1.0, 0.0, 0.0, 0.0, Some(range)), ActionSpace::Discrete { n }, &["value"]);
            for (signal, bin) in cases {
                assert_eq!(respond(&controller, &[signal], |d| d.index()), [bin], "signal {signal} of {n}");
            }
        }
    }

    #[test]
    fn bang_bang_is_low_at_the_setpoint() {
        for (invert, expected) in [(false, [0, 0, 2]), (true, [2, 2, 0])] {
            let law = Law::BangBang { setpoint: 1.0, field: 0, invert };
            let discrete = Controller::new(law.clone(), ActionSpace::Discrete { n: 3 }, &["value"]);
            assert_eq!(respond(&discrete, &[0.5, 1.0, 1.5], |d| d.index()), expected);
            let space = ActionSpace::Box { low: vec![-2.0, -3.0], high: vec![2.0, 4.0] };
            let second = respond(&Controller::new(law, space, &["value"]), &[0.5, 1.5], |d| d.component(1));
            assert_eq!(second, if invert { [4.0, -3.0] } else { [-3.0, 4.0] });
        }
    }

    #[test]
    fn schedules_count_from_the_episode_start() {
        let periodic = Controller::new(Law::Periodic { pulse_width: 2 }, ActionSpace::Discrete { n: 2 }, &["value"]);
        assert_eq!(respond(&periodic, &[0.0; 6], |d| d.index()), [1, 1, 0, 0, 1, 1]);
        let open_loop = Controller::new(
            Law::OpenLoop { schedule: vec![1.0, 0.0, 0.0] },
            ActionSpace::Discrete { n: 2 },
            &["value"],
        );
        assert_eq!(respond(&open_loop, &[0.0; 5], |d| d.index()), [1, 0, 0, 1, 0]);
    }
}
