//! Child processes that can neither hang us nor be hung by us: all they say is read as they say it, by threads, and
//! all we wait for has a limit.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is kept of the errors that a process tells.
const TAIL_BYTES: usize = 1 << 16;

/// The longest line of a process that is in its right mind.
const LINE_BYTES: u64 = 1 << 20;

/// How long a pipe of a process that has ended may stay open: a process of its own may still hold it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How often a process is asked whether it has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// Set for processes that are to end with the one that started them.
const TIED: &str = "PHALANX_TIED_TO_PARENT";

/// Asks a command that is a `phalanx` to end when this process does, however that ends ([`heed_parent`]).
pub fn tie(command: &mut Command) -> &mut Command {
    command.env(TIED, "1")
}

/// From now on this process is ended when the one does that started it, if that one wishes so ([`tie`]). Measurements
/// that nobody waits for would hold gigabytes and disturb others.
pub fn heed_parent() {
    #[cfg(target_os = "linux")]
    if std::env::var_os(TIED).is_some() {
        // Without this we end a little later, when we next hear or say something.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    }
}

/// A process that answers lines with lines. It ends when this is dropped.
#[derive(Debug)]
pub struct Conversation {
    process: Child,
    requests: Option<ChildStdin>,
    replies: Receiver<io::Result<String>>,
    errors: Tail,
}

impl Conversation {
    /// Starts a command, all of whose pipes are ours.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let mut process = spawn(command)?;
        let requests = process.stdin.take();
        let errors = Tail::of(process.stderr.take().expect("piped"));
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        // Of a process that talks without being asked, no more than a line waits here.
        let (send, replies) = mpsc::sync_channel(1);
        // It ends with the process, or when nobody listens any more.
        std::thread::spawn(move || while next_line(&mut output).is_some_and(|line| send.send(line).is_ok()) {});
        Ok(Self { process, requests, replies, errors })
    }

    /// Sends a line and answers the next one that the process says, if it does so within `patience`.
    pub fn exchange(&mut self, line: &str, patience: Duration) -> io::Result<String> {
        let requests = self.requests.as_mut().expect("open until dropped");
        requests.write_all(line.as_bytes())?;
        requests.write_all(b"\n")?;
        requests.flush()?;
        match self.replies.recv_timeout(patience) {
            Ok(reply) => reply,
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("the process has ended")),
            Err(RecvTimeoutError::Timeout) => Err(too_late(patience)),
        }
    }

    /// Ends the process and answers what it has told on standard error.
    pub fn last_words(&mut self) -> String {
        self.end();
        self.errors.text()
    }

    fn end(&mut self) {
        // Without requests the process ends by itself; one that hangs must not outlive us.
        drop(self.requests.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a process said that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub output: Vec<u8>,
    /// The end of standard error.
    pub errors: String,
}

/// Runs a command on some input to its end, or ends it after `patience`.
pub fn run(command: &mut Command, input: &[u8], patience: Duration) -> io::Result<Finished> {
    let start = Instant::now();
    let mut process = spawn(command)?;
    let (mut stdin, input) = (process.stdin.take().expect("piped"), input.to_vec());
    // One that ends before it has read everything says why on standard error.
    std::thread::spawn(move || drop(stdin.write_all(&input)));
    let errors = Tail::of(process.stderr.take().expect("piped"));
    let mut stdout = process.stdout.take().expect("piped");
    let (send, output) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        send.send(stdout.read_to_end(&mut bytes).map(|_| bytes))
    });
    let status = loop {
        match process.try_wait()? {
            Some(status) => break status,
            None if start.elapsed() >= patience => {
                let _ = process.kill();
                let _ = process.wait();
                return Err(too_late(patience));
            }
            None => std::thread::sleep(PAUSE),
        }
    };
    let output = output.recv_timeout(LAST_WORDS).map_err(|_| io::Error::other("its output stays open"))??;
    Ok(Finished { status, output, errors: errors.text() })
}

/// Starts a command that ends with us, all of whose pipes are ours.
fn spawn(command: &mut Command) -> io::Result<Child> {
    tie(command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// The next line without its end; `None` after the last.
fn next_line(output: &mut impl BufRead) -> Option<io::Result<String>> {
    let mut line = String::new();
    match output.take(LINE_BYTES).read_line(&mut line) {
        Ok(0) => None,
        Ok(_) => Some(Ok(line.trim_end_matches(['\n', '\r']).to_owned())),
        Err(error) => Some(Err(error)),
    }
}

fn too_late(patience: Duration) -> io::Error {
    io::Error::new(ErrorKind::TimedOut, format!("it did not answer within {} s", patience.as_secs_f64()))
}

/// The end of what is said on a pipe.
#[derive(Debug)]
struct Tail {
    kept: Arc<Mutex<Vec<u8>>>,
    done: Receiver<()>,
}

impl Tail {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (send, done) = mpsc::channel::<()>();
        let into = Arc::clone(&kept);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = pipe.read(&mut buffer) {
                let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..read]);
                let surplus = kept.len().saturating_sub(TAIL_BYTES);
                kept.drain(..surplus);
            }
            drop(send);
        });
        Self { kept, done }
    }

    /// All that is kept, when the pipe is closed or after a moment.
    fn text(&self) -> String {
        let _ = self.done.recv_timeout(LAST_WORDS);
        String::from_utf8_lossy(&self.kept.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    /// More than a pipe holds.
    const MANY: &str = "i=0; while [ $i -lt 3000 ]; do echo 'a line of some fifty characters, over and over again' >&2; i=$((i+1)); done";

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_process_that_says_much_on_standard_error_still_answers() {
        let mut talk =
            Conversation::start(&mut shell(&format!("{MANY}; read line; echo \"$line!\"; echo end >&2"))).unwrap();
        assert_eq!(talk.exchange("hello", LONG).unwrap(), "hello!");
        assert!(talk.exchange("more", LONG).is_err(), "it has ended");
        let words = talk.last_words();
        assert!(words.len() <= TAIL_BYTES && words.ends_with("again\nend\n"), "{}", words.len());
    }

    #[test]
    fn one_that_says_nothing_is_not_waited_for_for_ever() {
        let mut silent = Conversation::start(&mut shell("read line; sleep 600")).unwrap();
        let error = silent.exchange("hello", Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let error = run(&mut shell("exec sleep 600"), b"", Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn one_that_never_stops_talking_is_heard_line_by_line() {
        let mut endless = Conversation::start(&mut shell("while true; do echo tick; done")).unwrap();
        assert_eq!(endless.exchange("hello", LONG).unwrap(), "tick");
        let zeros = Conversation::start(&mut shell("exec cat /dev/zero")).unwrap().exchange("hello", LONG).unwrap();
        assert_eq!(zeros.len() as u64, LINE_BYTES);
    }

    #[test]
    fn much_on_all_pipes_at_once_is_no_deadlock() {
        let input = vec![b'x'; 1 << 20];
        let finished = run(&mut shell(&format!("{MANY}; cat; exit 3")), &input, LONG).unwrap();
        assert_eq!((finished.status.code(), finished.output.len()), (Some(3), input.len()));
        assert!(finished.errors.ends_with("again\n"));
    }
}
