//! Signal watch: a thread without an interpreter that receives signals. So a shutdown begins and has its deadline even
//! if a thread never releases the interpreter lock.
//!
//! Python's C-level signal handler writes the number of the signal to a descriptor (`signal.set_wakeup_fd`), whichever
//! thread holds the lock. The watch thread reads the number there, acts on it, and passes it on through the descriptor
//! of the shutdown.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use grete_sys::{NotInherited, fork};

use super::Shutdown;
use crate::error::ClientError;

/// Time for committing and leaving after a second interrupt.
const SECOND_INTERRUPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time within which the interpreter dumps the stacks itself, holding its lock.
const GIL_GRACE: Duration = Duration::from_secs(1);

/// Numbers of the signals to act on.
#[derive(Debug, Clone, Copy)]
pub struct SignalNumbers {
    /// Signals that begin a shutdown (SIGINT, SIGTERM). The first of them, sent again during a shutdown, expedites it.
    pub stop: [i32; 2],
    /// Signal that stops handing out records (SIGTSTP).
    pub quiet: i32,
    /// Signal that dumps all stacks (SIGTTIN).
    pub dump: i32,
}

/// Watches signals while it lives; dropping it ends its thread.
#[derive(Debug)]
pub struct SignalWatch {
    /// End of the pair that the C-level handler writes to.
    pub(super) wakeup: NotInherited<UnixStream>,
}

impl SignalWatch {
    /// Starts the watch thread.
    ///
    /// # Errors
    /// Fails if the system has no descriptor or thread left.
    pub fn start(stop: Shutdown, numbers: SignalNumbers) -> Result<Self, ClientError> {
        let os = |error| ClientError::os("watching for signals", &error);
        // Not inherited, because bytes that a child writes there would be read here.
        let hold = fork::hold_off();
        let (source, wakeup) = UnixStream::pair().map_err(os)?;
        let (source, wakeup) = (NotInherited::new(source, &hold), NotInherited::new(wakeup, &hold));
        drop(hold);
        wakeup.set_nonblocking(true).map_err(os)?;
        let run = move || {
            watch(&*source, &stop, numbers);
        };
        std::thread::Builder::new().name("grete-signals".into()).spawn(run).map_err(os)?;
        Ok(Self { wakeup })
    }

    /// Returns the descriptor for `signal.set_wakeup_fd`.
    pub fn wakeup_fd(&self) -> RawFd {
        self.wakeup.as_raw_fd()
    }
}

/// Reads signal numbers until the other end is closed.
pub(super) fn watch(mut source: impl Read, stop: &Shutdown, numbers: SignalNumbers) {
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
        // Published before acting, so that a thread that finds the shutdown begun finds its reason too.
        stop.on_signals(came.clone());
        for number in came {
            if number == numbers.quiet {
                stop.quiet();
            } else if number == numbers.dump {
                stop.dump_if_unhandled(number, GIL_GRACE);
            } else if stopping && number == numbers.stop[0] {
                stop.expedite(SECOND_INTERRUPT_TIMEOUT);
            } else if numbers.stop.contains(&number) {
                stopping = true;
                stop.begin(None);
            }
        }
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        // The thread then reads end-of-file at its end of the pair.
        let _ = self.wakeup.shutdown(std::net::Shutdown::Both);
    }
}
