//! Worker processes: each measurement happens in a process of its own, which takes a sample whenever it is told to.
//!
//! A worker reads lines of JSON and answers each with one. Because it waits between samples, several workers can
//! take turns: what disturbs the machine for longer than a sample then hits all of them alike.

use std::io::{BufRead, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::build_info::{BuildInfo, Git};
use crate::case::CaseSpec;
use crate::child::Conversation;
use crate::guards::StealClock;
use crate::workload::{Timing, Workload, WorkloadMemory, calibrate, time};
use crate::{Error, Result, memory};

/// The arguments that make the `phalanx` binary a worker.
pub const ARGUMENTS: [&str; 2] = ["bench", "worker"];

/// How long a binary may take to say what it is, before it is taken for something else.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a worker may take for anything: other libraries compile for minutes, and samples may last one.
const MOST_PATIENCE: Duration = Duration::from_secs(900);

/// What a worker is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Say what you are.
    Describe,
    /// The first line: what to measure.
    Prepare(CaseSpec),
    /// Find the number of iterations that take this many nanoseconds.
    Calibrate(u64),
    /// Take a sample of so many iterations.
    Sample(u64),
    /// Say what the allocator has counted so far, and what so many iterations more allocate.
    Allocations(u64),
}

/// What a worker answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`Request::Describe`].
    Description(Box<Description>),
    /// To [`Request::Prepare`].
    Ready(Ready),
    /// To [`Request::Calibrate`]: iterations.
    Calibrated(u64),
    /// To [`Request::Sample`].
    Sample(Timing),
    /// To [`Request::Allocations`]; null if the binary has no counting allocator.
    Allocations(Option<Allocations>),
    /// The case cannot be measured.
    Failed(String),
}

/// What a worker is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// How it was built.
    pub build: BuildInfo,
    /// From which commit.
    pub git: Git,
}

/// A worker that is ready for samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// From the start of the process to the outputs of the first iteration.
    pub startup_ns: u64,
    /// What the workload holds.
    pub workload: WorkloadMemory,
    /// Resident memory before the workload was made.
    pub rss_before: Option<u64>,
    /// Resident memory after its first iteration; of a worker that has finished, in the end.
    pub rss_after: Option<u64>,
    /// The most there has been by then.
    pub rss_peak: Option<u64>,
}

/// What the allocator of a worker has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocations {
    /// Bytes that were allocated when it was asked.
    pub live_bytes: u64,
    /// The most there had been.
    pub peak_bytes: u64,
    /// Allocations in the iterations that followed: none in a steady state.
    pub steady_allocations: u64,
    /// The most memory that it has had in RAM by then.
    #[serde(default)]
    pub rss_peak: Option<u64>,
    /// What it has in RAM then.
    #[serde(default)]
    pub rss: Option<u64>,
}

fn allocations(workload: &mut dyn Workload, iterations: u64) -> Result<Option<Allocations>> {
    let Some(allocator) = memory::allocator() else { return Ok(None) };
    let before = allocator.counts();
    workload.run(iterations)?;
    let steady_allocations = allocator.counts().allocations - before.allocations;
    Ok(Some(Allocations {
        live_bytes: before.live_bytes,
        peak_bytes: before.peak_bytes,
        steady_allocations,
        rss_peak: memory::peak_rss_bytes(),
        rss: memory::rss_bytes(),
    }))
}

/// Makes a workload and lets it run once.
fn prepare(
    made: Result<Box<dyn Workload>, String>,
    rss_before: Option<u64>,
    elapsed_ns: impl Fn() -> u64,
) -> Result<(Box<dyn Workload>, Ready), String> {
    let mut workload = made?;
    workload.run(1).map_err(|error| error.to_string())?;
    let ready = Ready {
        startup_ns: elapsed_ns(),
        workload: workload.memory(),
        rss_before,
        rss_after: memory::rss_bytes(),
        rss_peak: memory::peak_rss_bytes(),
    };
    Ok((workload, ready))
}

/// Answers requests until there are no more. `make` builds the workload of a case, `elapsed_ns` tells the time since
/// the process began.
pub fn serve(
    input: impl BufRead,
    mut output: impl Write,
    make: impl Fn(&CaseSpec) -> Result<Box<dyn Workload>, String>,
    elapsed_ns: impl Fn() -> u64,
) -> std::io::Result<()> {
    let mut workload: Option<Box<dyn Workload>> = None;
    for line in input.lines() {
        let reply = match (serde_json::from_str(&line?), &mut workload) {
            (Ok(Request::Describe), _) => Reply::Description(Box::new(Description {
                build: BuildInfo::of_this_binary(),
                git: Git::of_this_binary(),
            })),
            (Ok(Request::Prepare(case)), none) => {
                let rss_before = memory::rss_bytes();
                match prepare(make(&case), rss_before, &elapsed_ns) {
                    Ok((made, ready)) => {
                        *none = Some(made);
                        Reply::Ready(ready)
                    }
                    Err(reason) => Reply::Failed(reason),
                }
            }
            (Ok(Request::Calibrate(wanted_ns)), Some(workload)) => {
                answered(calibrate(workload.as_mut(), wanted_ns), Reply::Calibrated)
            }
            (Ok(Request::Sample(iterations)), Some(workload)) => {
                answered(time(workload.as_mut(), iterations), Reply::Sample)
            }
            (Ok(Request::Allocations(iterations)), Some(workload)) => {
                answered(allocations(workload.as_mut(), iterations), Reply::Allocations)
            }
            (Ok(_), None) => Reply::Failed("a case must be prepared first".to_owned()),
            (Err(error), _) => Reply::Failed(format!("not a request: {error}")),
        };
        serde_json::to_writer(&mut output, &reply)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

/// What was found as a reply, or why nothing was.
fn answered<T>(found: Result<T>, reply: impl FnOnce(T) -> Reply) -> Reply {
    found.map_or_else(|error| Reply::Failed(error.to_string()), reply)
}

/// Asks a binary what it is. Whatever is no worker, does not start or does not answer is an error.
pub fn describe(binary: &Path) -> Result<Description> {
    let mut conversation = spawn(&mut command(binary, 0))?;
    let question = serde_json::to_string(&Request::Describe).expect("a request is plain data");
    let reply = conversation.exchange(&question, PATIENCE).ok();
    match reply.as_deref().map(serde_json::from_str) {
        Some(Ok(Reply::Description(description))) => Ok(*description),
        _ => Err(Error::NotAWorker { binary: binary.to_owned() }),
    }
}

/// The command that makes `binary` a worker, in an environment that is longer by `padding` bytes.
fn command(binary: &Path, padding: usize) -> Command {
    // A bare name would be looked for in PATH, and the user means a file.
    let program = if binary.components().count() == 1 { Path::new(".").join(binary) } else { binary.to_owned() };
    let mut command = Command::new(program);
    command.args(ARGUMENTS).env("PHALANX_PADDING", "x".repeat(padding));
    command
}

fn spawn(command: &mut Command) -> Result<Conversation> {
    Conversation::start(command).map_err(|error| Error::Worker {
        binary: PathBuf::from(command.get_program()),
        reason: format!("cannot be started: {error}"),
    })
}

/// A worker process. It ends when this is dropped.
#[derive(Debug)]
pub struct Worker {
    binary: PathBuf,
    conversation: Conversation,
    ready: Ready,
    /// How long it may take to answer.
    patience: Duration,
}

impl Worker {
    /// Starts `binary` as a worker and lets it prepare a case.
    pub fn start(binary: &Path, case: &CaseSpec) -> Result<Self> {
        Self::start_padded(binary, case, 0)
    }

    /// [`Worker::start`] with an environment that is longer by `padding` bytes, which moves its stack.
    pub fn start_padded(binary: &Path, case: &CaseSpec, padding: usize) -> Result<Self> {
        Self::start_command(&mut command(binary, padding), case)
    }

    /// Starts any program that speaks as [`serve`] does, and lets it prepare a case.
    pub fn start_command(command: &mut Command, case: &CaseSpec) -> Result<Self> {
        Self::start_patiently(command, case, MOST_PATIENCE)
    }

    fn start_patiently(command: &mut Command, case: &CaseSpec, patience: Duration) -> Result<Self> {
        let binary = PathBuf::from(command.get_program());
        let conversation = spawn(command)?;
        let ready =
            Ready { startup_ns: 0, workload: Default::default(), rss_before: None, rss_after: None, rss_peak: None };
        let mut worker = Self { binary, conversation, ready, patience };
        match worker.ask(&Request::Prepare(case.clone()))? {
            Reply::Ready(ready) => worker.ready = ready,
            other => return Err(worker.unexpected(&other)),
        }
        Ok(worker)
    }

    /// What it said when it was ready.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// The number of iterations that take about `wanted_ns`.
    pub fn calibrate(&mut self, wanted_ns: u64) -> Result<u64> {
        match self.ask(&Request::Calibrate(wanted_ns))? {
            Reply::Calibrated(iterations) => Ok(iterations),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Takes a sample.
    pub fn sample(&mut self, iterations: u64) -> Result<Timing> {
        let since = StealClock::start();
        match self.ask(&Request::Sample(iterations))? {
            Reply::Sample(timing) => Ok(Timing { steal: since.share(), ..timing }),
            other => Err(self.unexpected(&other)),
        }
    }

    /// What its allocator has counted so far, and what so many iterations more allocate; `None` if it does not count.
    pub fn allocations(&mut self, iterations: u64) -> Result<Option<Allocations>> {
        match self.ask(&Request::Allocations(iterations))? {
            Reply::Allocations(allocations) => Ok(allocations),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Ends it. Answers what it said when it was ready, with its memory in the end where it counts that.
    pub fn finish(mut self) -> Result<Ready> {
        if let Some(counted) = self.allocations(0)? {
            self.ready.rss_peak = counted.rss_peak.or(self.ready.rss_peak);
            self.ready.rss_after = counted.rss.or(self.ready.rss_after);
        }
        Ok(self.ready)
    }

    fn ask(&mut self, request: &Request) -> Result<Reply> {
        let request = serde_json::to_string(request).expect("a request is plain data");
        let answer =
            self.conversation.exchange(&request, self.patience).map_err(|error| (error.kind(), error.to_string()));
        let read = |line: String| {
            serde_json::from_str(&line).map_err(|error| (ErrorKind::InvalidData, format!("{error} in '{line}'")))
        };
        match answer.and_then(read) {
            Ok(Reply::Failed(reason)) => Err(self.failed(reason)),
            Ok(reply) => Ok(reply),
            Err((kind, reason)) => {
                // What the process said before it died tells more than that the pipe is closed.
                let words = self.conversation.last_words();
                let said = words.lines().next().filter(|said| !said.is_empty() && kind != ErrorKind::TimedOut);
                Err(self.failed(said.map_or(reason, str::to_owned)))
            }
        }
    }

    fn failed(&self, reason: String) -> Error {
        Error::Worker { binary: self.binary.clone(), reason }
    }

    fn unexpected(&self, reply: &Reply) -> Error {
        self.failed(format!("unexpected answer {reply:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Work;

    struct Counting(u64);

    impl Workload for Counting {
        fn run(&mut self, iterations: u64) -> Result<Work> {
            self.0 += iterations;
            if self.0 > 100 {
                return Err(Error::Subject(format!("the loss is NaN after {} updates", self.0)));
            }
            std::thread::sleep(std::time::Duration::from_micros(10 * iterations));
            Ok(Work { steps: iterations, checksum: self.0 })
        }
    }

    fn answers(requests: &str) -> Vec<Reply> {
        let mut output = Vec::new();
        let make = |case: &CaseSpec| -> Result<Box<dyn Workload>, String> {
            if case.env == "none" { Err("no such environment".to_owned()) } else { Ok(Box::new(Counting(0))) }
        };
        serve(requests.as_bytes(), &mut output, make, || 7).unwrap();
        String::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_worker_prepares_then_samples() {
        let prepare = serde_json::to_string(&Request::Prepare(CaseSpec::rollout("some", 4))).unwrap();
        let answers = answers(&format!("{prepare}\n{{\"sample\":5}}\n{{\"sample\":5}}\n"));
        let [Reply::Ready(ready), Reply::Sample(first), Reply::Sample(second)] = &answers[..] else {
            panic!("{answers:?}");
        };
        assert_eq!(ready.startup_ns, 7);
        assert_eq!((first.steps, first.checksum.0, second.checksum.0), (5, 6, 11));
    }

    #[test]
    fn work_that_cannot_go_on_is_answered_with_its_reason() {
        let prepare = serde_json::to_string(&Request::Prepare(CaseSpec::rollout("some", 4))).unwrap();
        let answers = answers(&format!("{prepare}\n{{\"sample\":100}}\n{{\"calibrate\":1000000000}}\n"));
        assert_eq!(answers[1], Reply::Failed("the loss is NaN after 101 updates".to_owned()));
        assert!(matches!(answers[2], Reply::Failed(_)), "{answers:?}");
    }

    #[cfg(unix)]
    #[test]
    fn the_memory_of_a_worker_is_that_of_its_end() {
        let script = r#"read line; echo '{"ready":{"startup_ns":5,"workload":{"array_bytes":null,"bytes_per_env":null},
            "rss_before":1,"rss_after":2,"rss_peak":3}}' | tr -d '\n'; echo; read line;
            echo '{"allocations":{"live_bytes":0,"peak_bytes":0,"steady_allocations":0,"rss_peak":9,"rss":8}}'"#;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let ready = Worker::start_command(&mut command, &CaseSpec::rollout("some", 4)).unwrap().finish().unwrap();
        assert_eq!((ready.rss_before, ready.rss_after, ready.rss_peak), (Some(1), Some(8), Some(9)));
    }

    #[test]
    fn without_a_counting_allocator_nothing_is_claimed() {
        let prepare = serde_json::to_string(&Request::Prepare(CaseSpec::rollout("some", 4))).unwrap();
        assert_eq!(answers(&format!("{prepare}\n{{\"allocations\":2}}\n"))[1], Reply::Allocations(None));
    }

    #[test]
    fn a_worker_says_what_it_is_at_any_time() {
        let answers = answers("\"describe\"\n");
        let [Reply::Description(description)] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(description.build, BuildInfo::of_this_binary());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_worker_is_told_apart() {
        let shell = Path::new("/bin/sh");
        assert!(matches!(describe(shell), Err(Error::NotAWorker { binary }) if binary == shell));
        assert!(matches!(describe(Path::new("/nothing/here")), Err(Error::Worker { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn a_worker_that_hangs_or_dies_is_an_error() {
        let reason = |script: &str, patience: f64| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]);
            let started =
                Worker::start_patiently(&mut command, &CaseSpec::rollout("some", 4), Duration::from_secs_f64(patience));
            let Err(Error::Worker { reason, .. }) = started else { panic!("{started:?}") };
            reason
        };
        assert_eq!(reason("echo warning >&2; exec sleep 600", 0.5), "it did not answer within 0.5 s");
        assert_eq!(reason("read line; echo 'no library' >&2; exit 1", 60.0), "no library");
        assert!(reason("read line; echo nonsense", 60.0).contains("in 'nonsense'"));
    }

    #[test]
    fn what_cannot_be_done_is_answered() {
        let prepare = serde_json::to_string(&Request::Prepare(CaseSpec::rollout("none", 4))).unwrap();
        let answers = answers(&format!("{{\"sample\":5}}\n{prepare}\nnonsense\n"));
        let reasons: Vec<_> = answers.iter().filter(|answer| matches!(answer, Reply::Failed(_))).collect();
        assert_eq!(reasons.len(), 3, "{answers:?}");
    }
}
