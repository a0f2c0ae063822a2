//! Many programs that take turns: other libraries beside ours, each in a process of its own, sample by sample.
//!
//! Unlike the sides of [`crate::campaign::compare`] they need not do the same work in a sample: what they share is
//! the time, so that whatever disturbs the machine hits all of them alike.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use crate::campaign::{Clock, PairRun, Plan, Process, compared, shuffled};
use crate::case::CaseSpec;
use crate::record::Order;
use crate::stats::descriptive::median;
use crate::stats::interval::CONFIDENCE;
use crate::stats::paired::Comparison;
use crate::stats::random::Stream;
use crate::worker::Worker;
use crate::workload::Timing;
use crate::{Error, Result};

/// A program that speaks the protocol of [`crate::worker`], and what it measures.
#[derive(Debug, Clone, PartialEq)]
pub struct Contestant {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// What it measures.
    pub case: CaseSpec,
}

impl Contestant {
    fn start(&self) -> Result<Worker> {
        let [program, arguments @ ..] = &self.command[..] else {
            return Err(Error::Worker { binary: "nothing".into(), reason: "no program is given".to_owned() });
        };
        let mut command = Command::new(program);
        // A folder with a file that has a library's name must not stand for the library.
        command.args(arguments).env("PYTHONSAFEPATH", "1");
        Worker::start_command(&mut command, &self.case)
    }
}

/// Samples of each contestant in a trial.
const TRIAL_SAMPLES: usize = 5;

/// Nanoseconds per step of each, from a short trial in which all take turns; an error for one that does not run.
pub fn trials(contestants: &[Contestant], sample: Duration) -> Vec<Result<f64>> {
    let mut all: Vec<Result<_>> = contestants.iter().map(|contestant| Running::start(contestant, sample)).collect();
    for _ in 0..TRIAL_SAMPLES {
        for entry in &mut all {
            if let Some(Err(error)) = entry.as_mut().ok().map(Running::sample) {
                *entry = Err(error);
            }
        }
    }
    let times = |running: &Running| running.timings.iter().map(Timing::time_per_step).collect::<Vec<_>>();
    all.into_iter().map(|entry| entry.map(|running| median(&times(&running)))).collect()
}

/// Measures all contestants in `plan.processes` sets of processes that live at the same time and take turns, in a new
/// random order each time. Answers the processes of each contestant, one from each set; one that fails is left out from
/// then on, and costs no other. `after` hears of every set, with the process of each contestant that took part.
pub fn take_turns(
    contestants: &[Contestant],
    plan: &Plan,
    mut after: impl FnMut(usize, &[Option<&Process>]),
) -> Vec<Result<Vec<Process>>> {
    let mut random = Stream::new(plan.seed, 2);
    let mut all: Vec<Result<Vec<Process>>> = contestants.iter().map(|_| Ok(Vec::new())).collect();
    for set in 0..plan.processes {
        let mut running: Vec<Option<Running>> = (0..all.len()).map(|_| None).collect();
        for (at, contestant) in contestants.iter().enumerate().filter(|(at, _)| all[*at].is_ok()).collect::<Vec<_>>() {
            match Running::start(contestant, plan.sample) {
                Ok(started) => running[at] = Some(started),
                Err(error) => all[at] = Err(error),
            }
        }
        for at in (0..plan.samples).flat_map(|_| shuffled(contestants.len(), &mut random)).collect::<Vec<_>>() {
            let sampled = running[at].as_mut().map(Running::sample);
            if let Some(Err(error)) = sampled {
                (all[at], running[at]) = (Err(error), None);
            }
        }
        for (processes, running) in all.iter_mut().zip(running) {
            if let (Ok(processes), Some(Running { worker, timings, .. })) = (processes, running) {
                processes.push(Process::new(worker.ready().clone(), timings));
            }
        }
        let last: Vec<_> = all.iter().map(|processes| processes.as_ref().ok().and_then(|all| all.last())).collect();
        after(set, &last);
        std::thread::sleep(plan.gap);
    }
    all
}

/// A contestant in a set.
struct Running {
    worker: Worker,
    iterations: u64,
    timings: Vec<Timing>,
}

impl Running {
    fn start(contestant: &Contestant, sample: Duration) -> Result<Self> {
        let mut worker = contestant.start()?;
        let iterations = worker.calibrate(sample.as_nanos() as u64)?;
        Ok(Self { worker, iterations, timings: Vec::new() })
    }

    fn sample(&mut self) -> Result<()> {
        self.timings.push(self.worker.sample(self.iterations)?);
        Ok(())
    }
}

/// How many times B is faster than A, where both took turns.
pub fn ratio(a: &[Process], b: &[Process], seed: u64) -> Option<Comparison> {
    let pair =
        |(a, b): (&Process, &Process)| PairRun { clock: Clock::Wall, order: Order::Ab, a: a.clone(), b: b.clone() };
    compared(&a.iter().zip(b).map(pair).collect::<Vec<_>>(), CONFIDENCE, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker in the shell: 10 steps in 1000 ns with every sample, or 20.
    #[cfg(unix)]
    fn shell(steps: u32) -> Contestant {
        let script = format!(
            r#"while read line; do case "$line" in
            *prepare*) echo '{{"ready":{{"startup_ns":5,"workload":{{"array_bytes":null,"bytes_per_env":null}},"rss_before":null,"rss_after":null,"rss_peak":null}}}}';;
            *calibrate*) echo '{{"calibrated":3}}';;
            *) echo '{{"sample":{{"wall_ns":1000,"cpu_ns":null,"steps":{steps},"checksum":"0000000000000001"}}}}';;
            esac; done"#
        );
        let command = ["sh", "-c", &script].map(OsString::from).to_vec();
        Contestant { command, case: CaseSpec::rollout("any", 1) }
    }

    #[cfg(unix)]
    #[test]
    fn other_programs_take_turns_and_are_compared() {
        let contestants = [shell(10), shell(20)];
        let plan = Plan { processes: 3, samples: 4, sample: Duration::ZERO, gap: Duration::ZERO, seed: 0 };
        let mut heard = 0;
        let all = take_turns(&contestants, &plan, |_, last| heard += last.iter().flatten().count());
        let all: Vec<_> = all.into_iter().map(Result::unwrap).collect();
        assert_eq!((heard, all[0].len(), all[1][2].timings.len()), (6, 3, 4));
        let ratio = ratio(&all[0], &all[1], 1).unwrap();
        assert!((ratio.speed_up() - 2.0).abs() < 1e-9, "{}", ratio.speed_up());
        let times: Vec<f64> = trials(&contestants, Duration::ZERO).into_iter().map(Result::unwrap).collect();
        assert_eq!(times, [100.0, 50.0]);
    }

    #[cfg(unix)]
    #[test]
    fn one_that_ends_in_the_middle_costs_no_other() {
        // It answers the first three requests of each process: prepare, calibrate and one sample.
        let mut dying = shell(10);
        let script = dying.command[2].to_str().unwrap().replace("while read line", "for i in 1 2 3; do read line");
        dying.command[2] = script.replacen("; do case", "; case", 1).into();
        let plan = Plan { processes: 3, samples: 4, sample: Duration::ZERO, gap: Duration::ZERO, seed: 0 };
        let [dead, alive] = &take_turns(&[dying, shell(20)], &plan, |_, _| ())[..] else { panic!() };
        assert!(matches!(dead, Err(Error::Worker { .. })), "{dead:?}");
        assert_eq!(alive.as_ref().unwrap().len(), 3);
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_is_none_is_an_error() {
        let wrong = |command: &[&str]| Contestant {
            command: command.iter().map(OsString::from).collect(),
            case: CaseSpec::rollout("any", 1),
        };
        let commands = [&["/nothing/here"][..], &["sh", "-c", "echo no"], &[]];
        let mut contestants: Vec<Contestant> = commands.into_iter().map(wrong).collect();
        contestants.push(shell(10));
        let [nothing, nonsense, empty, good] = &trials(&contestants, Duration::ZERO)[..] else { panic!() };
        for failed in [nothing, nonsense, empty] {
            assert!(matches!(failed, Err(Error::Worker { .. })), "{failed:?}");
        }
        assert!(good.is_ok(), "others do not suffer");
    }
}
