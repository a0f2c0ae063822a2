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
    let prepare = |contestant: &Contestant| {
        let mut worker = contestant.start()?;
        let iterations = worker.calibrate(sample.as_nanos() as u64)?;
        Ok((worker, iterations, Vec::new()))
    };
    let mut running: Vec<Result<_>> = contestants.iter().map(prepare).collect();
    for _ in 0..TRIAL_SAMPLES {
        for entry in &mut running {
            let Ok((worker, iterations, times)) = entry else { continue };
            match worker.sample(*iterations) {
                Ok(timing) => times.push(timing.time_per_step()),
                Err(error) => *entry = Err(error),
            }
        }
    }
    running.into_iter().map(|entry| entry.map(|(_, _, times)| median(&times))).collect()
}

/// Measures all contestants in `plan.processes` sets of processes that live at the same time and take turns, in a new
/// random order each time. Answers the processes of each contestant, one from each set; `after` hears of every set.
pub fn take_turns(contestants: &[Contestant], plan: &Plan, mut after: impl FnMut(usize)) -> Result<Vec<Vec<Process>>> {
    let mut random = Stream::new(plan.seed, 2);
    let mut all = vec![Vec::new(); contestants.len()];
    for set in 0..plan.processes {
        let mut workers = contestants.iter().map(Contestant::start).collect::<Result<Vec<_>>>()?;
        let wanted = plan.sample.as_nanos() as u64;
        let iterations = workers.iter_mut().map(|worker| worker.calibrate(wanted)).collect::<Result<Vec<_>>>()?;
        let mut timings = vec![Vec::new(); contestants.len()];
        for _ in 0..plan.samples {
            for at in shuffled(contestants.len(), &mut random) {
                timings[at].push(workers[at].sample(iterations[at])?);
            }
        }
        for ((processes, worker), timings) in all.iter_mut().zip(workers).zip(timings) {
            processes.push(Process::new(worker.ready().clone(), timings));
        }
        after(set);
        std::thread::sleep(plan.gap);
    }
    Ok(all)
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
        let mut sets = 0;
        let all = take_turns(&contestants, &plan, |_| sets += 1).unwrap();
        assert_eq!((sets, all[0].len(), all[1][2].timings.len()), (3, 3, 4));
        let ratio = ratio(&all[0], &all[1], 1).unwrap();
        assert!((ratio.speed_up() - 2.0).abs() < 1e-9, "{}", ratio.speed_up());
        let times: Vec<f64> = trials(&contestants, Duration::ZERO).into_iter().map(Result::unwrap).collect();
        assert_eq!(times, [100.0, 50.0]);
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
