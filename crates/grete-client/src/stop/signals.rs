//! Signals noticed by a thread that needs no interpreter, so that a stop begins and has its deadline even when the
//! interpreter's lock is never given back.
//!
//! Python's C-level signal handler writes the signal's number to a descriptor (`signal.set_wakeup_fd`), whoever holds
//! the lock. Our thread reads it there, acts, and passes the number on to whoever waits on the stop's descriptor.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Stop;
use crate::error::ClientError;

/// What a second interrupt leaves for committing and leaving.
const IMPATIENT: Duration = Duration::from_secs(1);

/// The interpreter dumps stacks itself, with its lock, when it gets there within this time.
const HELD: Duration = Duration::from_secs(1);

/// Signals that matter, by number.
#[derive(Debug, Clone, Copy)]
pub struct SignalNumbers {
    /// The two that begin a stop; the first of them, given again during a stop, hurries it (SIGINT, SIGTERM).
    pub stop: [i32; 2],
    /// No more records are handed out (SIGTSTP).
    pub quiet: i32,
    /// All stacks are dumped (SIGTTIN).
    pub dump: i32,
}

/// While it lives, signals are watched for; dropping it ends the thread.
#[derive(Debug)]
pub struct SignalWatch {
    /// For the C-level handler to write to.
    pub(super) wakeup: UnixStream,
}

impl SignalWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no descriptor or thread to give.
    pub fn start(stop: Stop, numbers: SignalNumbers) -> Result<Self, ClientError> {
        let os = |error| ClientError::os("watching for signals", &error);
        let (source, wakeup) = UnixStream::pair().map_err(os)?;
        wakeup.set_nonblocking(true).map_err(os)?;
        let run = move || watch(source, &stop, numbers);
        std::thread::Builder::new().name("grete-signals".into()).spawn(run).map_err(os)?;
        Ok(Self { wakeup })
    }

    /// For `signal.set_wakeup_fd`.
    #[must_use]
    pub fn wakeup_fd(&self) -> RawFd {
        self.wakeup.as_raw_fd()
    }
}

/// Until the other end is closed.
pub(super) fn watch(mut source: UnixStream, stop: &Stop, numbers: SignalNumbers) {
    let mut stopping = false;
    let mut bytes = [0; 64];
    loop {
        let came = match source.read(&mut bytes) {
            Ok(0) => return, // the watch was dropped
            Ok(count) => bytes.get(..count).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let came = came.iter().map(|number| i32::from(*number));
        // Heard before it is acted upon: whoever finds the stop begun finds the reason, too.
        stop.hear(came.clone());
        for number in came {
            if number == numbers.quiet {
                stop.quiet();
            } else if number == numbers.dump {
                stop.dump_unless_heard(number, HELD);
            } else if stopping && number == numbers.stop[0] {
                stop.hurry(IMPATIENT);
            } else if numbers.stop.contains(&number) {
                stopping = true;
                stop.begin(None);
            }
        }
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        // The thread's end of the pair then reads its end.
        let _ = self.wakeup.shutdown(std::net::Shutdown::Both);
    }
}
