//! The end of patience: a thread that needs no interpreter and ends the process when a stop takes too long.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::ClientError;

/// Exit status of a forced stop.
const FORCED: i32 = 2;

/// While it lives, the deadline stands; dropping it calls the deadline off.
#[derive(Debug)]
pub struct StopGuard {
    disarmed: Arc<(Mutex<bool>, Condvar)>,
}

impl StopGuard {
    /// After `timeout`, raises `signal` in this process (whose C-level handler, as Python's faulthandler installs, dumps
    /// all stacks without the interpreter's lock), then ends the process with status 2.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn arm(timeout: Duration, signal: i32) -> Result<Self, ClientError> {
        let disarmed = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = Arc::clone(&disarmed);
        let run = move || {
            let deadline = Instant::now() + timeout;
            let (lock, condvar) = &*theirs;
            let mut done = lock.lock().unwrap_or_else(PoisonError::into_inner);
            while !*done {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    grete_net::process::raise_and_exit(signal, FORCED);
                }
                done = condvar.wait_timeout(done, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        };
        let spawned = std::thread::Builder::new().name("grete-stop".into()).spawn(run);
        spawned.map_err(|e| ClientError::os("starting the stop deadline's thread", &e))?;
        Ok(Self { disarmed })
    }
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        let (lock, condvar) = &*self.disarmed;
        *lock.lock().unwrap_or_else(PoisonError::into_inner) = true;
        condvar.notify_all();
    }
}
