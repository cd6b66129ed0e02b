//! Signals noticed by a thread that needs no interpreter, so that a stop has its deadline even when the interpreter's
//! lock is never given back.
//!
//! Python's C-level signal handler writes the signal's number to a descriptor (`signal.set_wakeup_fd`), whoever holds
//! the lock. Our thread reads it there, sets the deadline, and passes the number on to the main thread's descriptor.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::error::ClientError;
use crate::stop_guard::StopGuard;

/// What a second interrupt leaves to a main thread that could still say goodbye itself.
const IMPATIENT: Duration = Duration::from_secs(1);

/// Signals that matter, by number.
#[derive(Debug, Clone, Copy)]
pub struct StopSignals {
    /// The two that begin a stop; the first of them, given again during a stop, forces it (SIGINT, SIGTERM).
    pub stop: [i32; 2],
    /// Raised before the process is ended by force, so that its handler dumps all stacks; 0 for none.
    pub dump: i32,
}

/// While it lives, signals are watched for; dropping it ends the thread and calls deadlines off.
#[derive(Debug)]
pub struct SignalWatch {
    /// For the C-level handler to write to.
    wakeup: UnixStream,
    /// For the main thread to wait on.
    wait: UnixStream,
    /// For whoever wants the main thread to look around.
    wake: UnixStream,
}

impl SignalWatch {
    /// Starts the thread. A first stop signal gives the process `timeout` to end.
    ///
    /// # Errors
    /// When the system has no descriptor or thread to give.
    pub fn start(timeout: Duration, signals: StopSignals) -> Result<Self, ClientError> {
        let os = |error| ClientError::os("watching for signals", &error);
        let (mut source, wakeup) = UnixStream::pair().map_err(os)?;
        let (wait, wake) = UnixStream::pair().map_err(os)?;
        for stream in [&wakeup, &wait, &wake] {
            stream.set_nonblocking(true).map_err(os)?;
        }
        let mut forward = wake.try_clone().map_err(os)?;
        let run = move || {
            let mut deadlines = Vec::new();
            let mut numbers = [0; 64];
            loop {
                let numbers = match source.read(&mut numbers) {
                    Ok(0) => return, // the watch was dropped
                    Ok(count) => numbers.get(..count).unwrap_or_default(),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(_) => return,
                };
                for &number in numbers {
                    let number = i32::from(number);
                    let patience = match deadlines.len() {
                        0 if signals.stop.contains(&number) => timeout,
                        1 if number == signals.stop[0] => IMPATIENT,
                        _ => continue,
                    };
                    // Without a thread for it there is no deadline; the main thread goes on to stop all the same.
                    deadlines.extend(StopGuard::arm(patience, signals.dump));
                }
                // Full: the main thread has enough to wake up for. Gone: nobody is there to be told.
                let _ = forward.write(numbers);
            }
        };
        let spawned = std::thread::Builder::new().name("grete-signals".into()).spawn(run);
        spawned.map_err(os)?;
        Ok(Self { wakeup, wait, wake })
    }

    /// For `signal.set_wakeup_fd`.
    #[must_use]
    pub fn wakeup_fd(&self) -> RawFd {
        self.wakeup.as_raw_fd()
    }

    /// Readable after a signal or [`SignalWatch::wake`].
    #[must_use]
    pub fn wait_fd(&self) -> RawFd {
        self.wait.as_raw_fd()
    }

    /// Makes the main thread look around.
    pub fn wake(&self) {
        let _ = (&self.wake).write(&[0]);
    }

    /// The signals since the last call, in order.
    #[must_use]
    pub fn take(&self) -> Vec<i32> {
        let mut numbers = [0; 256];
        let count = (&self.wait).read(&mut numbers).unwrap_or(0);
        numbers.iter().take(count).filter(|number| **number != 0).map(|number| i32::from(*number)).collect()
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        // The thread's end of the pair then reads its end; the deadlines go with the thread.
        let _ = self.wakeup.shutdown(std::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNALS: StopSignals = StopSignals { stop: [2, 15], dump: 0 };

    fn taken(watch: &SignalWatch, count: usize) -> Vec<i32> {
        watch.wait.set_nonblocking(false).unwrap();
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(watch.take());
        }
        all
    }

    #[test]
    fn numbers_reach_the_main_thread_in_order() {
        let watch = SignalWatch::start(Duration::from_secs(3600), SIGNALS).unwrap();
        (&watch.wakeup).write_all(&[21, 15, 15]).unwrap();
        assert_eq!(taken(&watch, 3), [21, 15, 15]);
        watch.wake();
        (&watch.wakeup).write_all(&[28]).unwrap();
        assert_eq!(taken(&watch, 1), [28]);
    }

    #[test]
    fn nothing_is_there_before_anything_has_come() {
        let watch = SignalWatch::start(Duration::from_secs(3600), SIGNALS).unwrap();
        assert_eq!(watch.take(), Vec::<i32>::new());
    }

    #[test]
    fn dropping_the_watch_ends_its_thread_and_calls_the_deadline_off() {
        let watch = SignalWatch::start(Duration::from_millis(300), SIGNALS).unwrap();
        (&watch.wakeup).write_all(&[15]).unwrap();
        assert_eq!(taken(&watch, 1), [15]);
        let thread_end = watch.wait.try_clone().unwrap();
        drop(watch);
        // The thread held the last writer of the main thread's pair: its end of file says that the thread is gone.
        thread_end.set_nonblocking(false).unwrap();
        assert_eq!((&thread_end).read(&mut [0; 8]).unwrap(), 0);
    }
}
