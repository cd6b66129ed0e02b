//! Thread that calls the GSSAPI library, since a call blocks while the KDC is asked.
//!
//! One thread for each client, started with its first login by Kerberos. Calls are done one after the other; with a
//! ticket at hand, each takes less than a millisecond. A KDC that does not answer holds up the logins of one client, and
//! nothing else; each connection ends by its own deadline, and its calls are taken out of the queue then.
//!
//! The end of the client: a thread that waits is joined. A thread in a call is left behind, because nothing can end its
//! call, and a close must not wait for a KDC. Such a thread ends after its call and touches nothing of the client.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use grete_proto::ids::ConnId;
use grete_proto::sasl::{GssCall, GssResult, KerberosFailure, KerberosFailureKind};

use crate::protocol::Waker;

/// Maker of the calls; tests have their own.
pub(super) trait Provider {
    /// Makes a call, which may block.
    fn call(&mut self, conn: ConnId, host: &str, call: GssCall) -> GssResult;
    /// Ends the context of a connection.
    fn forget(&mut self, conn: ConnId);
}

/// Makes the provider, on the thread: handles of the library stay there.
pub(super) type MakeProvider = Arc<dyn Fn() -> Box<dyn Provider> + Send + Sync>;

enum Command {
    Call { conn: ConnId, host: Arc<str>, call: GssCall },
    Forget(ConnId),
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    results: Vec<(ConnId, GssResult)>,
    /// Whether the thread is in a call.
    is_busy: bool,
    stops: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    has_command: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next command; `None`: the client has ended.
    fn next(&self) -> Option<Command> {
        let mut state = self.lock();
        state.is_busy = false;
        loop {
            if state.stops {
                return None;
            }
            if let Some(command) = state.commands.pop_front() {
                state.is_busy = matches!(command, Command::Call { .. });
                return Some(command);
            }
            state = self.has_command.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Thread of one client, and its queue. Starts with the first call.
pub(crate) struct Worker {
    waker: Waker,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    fork_generation: u32,
    provider: MakeProvider,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Worker")
    }
}

impl Worker {
    pub(super) fn new(waker: Waker, provider: MakeProvider) -> Self {
        let fork_generation = grete_sys::fork::generation();
        Self { waker, shared: Arc::default(), thread: None, fork_generation, provider }
    }

    /// Queues a call; [`Worker::drain`] returns its result later.
    pub(crate) fn call(&mut self, conn: ConnId, host: Arc<str>, call: GssCall) {
        if self.thread.is_none() {
            let (shared, waker, provider) = (Arc::clone(&self.shared), self.waker.clone(), Arc::clone(&self.provider));
            match Builder::new().name("grete-gssapi".into()).spawn(move || run(&shared, &waker, &*provider)) {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => {
                    let message = format!("no thread can be started for the Kerberos library: {error}");
                    let kind = KerberosFailureKind::Other;
                    let failure = KerberosFailure { kind, message: message.into() };
                    self.shared.lock().results.push((conn, Err(failure)));
                    return self.waker.wake();
                }
            }
        }
        self.shared.lock().commands.push_back(Command::Call { conn, host, call });
        self.shared.has_command.notify_one();
    }

    /// Ends the context of a connection, and takes its calls out of the queue.
    pub(crate) fn forget(&mut self, conn: ConnId) {
        if self.thread.is_none() {
            return;
        }
        let mut state = self.shared.lock();
        state.commands.retain(|command| !matches!(command, Command::Call { conn: of, .. } if *of == conn));
        state.results.retain(|(of, _)| *of != conn);
        state.commands.push_back(Command::Forget(conn));
        drop(state);
        self.shared.has_command.notify_one();
    }

    /// Returns the results since the last time.
    pub(crate) fn drain(&self) -> Vec<(ConnId, GssResult)> {
        std::mem::take(&mut self.shared.lock().results)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // The thread is the parent's in a forked child, and so may be the lock.
        if self.fork_generation != grete_sys::fork::generation() {
            return;
        }
        let mut state = self.shared.lock();
        state.stops = true;
        state.commands.clear();
        let waits = !state.is_busy;
        drop(state);
        self.shared.has_command.notify_one();
        if waits {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, waker: &Waker, provider: &(dyn Fn() -> Box<dyn Provider> + Send + Sync)) {
    let mut provider = provider();
    while let Some(command) = shared.next() {
        match command {
            Command::Call { conn, host, call } => {
                let result = provider.call(conn, &host, call);
                let mut state = shared.lock();
                if state.stops {
                    return;
                }
                state.results.push((conn, result));
                drop(state);
                waker.wake();
            }
            Command::Forget(conn) => provider.forget(conn),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::{Duration, Instant};

    use grete_proto::sasl::GssAnswer;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Provider whose calls for the host "slow" wait for a word of the test.
    struct Fake {
        said: Sender<String>,
        goes_on: Arc<Mutex<Receiver<()>>>,
    }

    impl Provider for Fake {
        fn call(&mut self, conn: ConnId, host: &str, call: GssCall) -> GssResult {
            let GssCall::Wrap(bytes) = call else { panic!("{call:?}") };
            let _ = self.said.send(format!("{} {host}", conn.0));
            if host == "slow" {
                let _ = self.goes_on.lock().expect("no panic elsewhere").recv_timeout(LIMIT);
            }
            Ok(GssAnswer::Wrapped(bytes))
        }

        fn forget(&mut self, conn: ConnId) {
            let _ = self.said.send(format!("forget {}", conn.0));
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = self.said.send("end".into());
        }
    }

    /// Returns a worker, what its provider says, and the word for which a slow call waits.
    fn worker() -> (Worker, Receiver<String>, Sender<()>) {
        let (said, says) = channel();
        let (go_on, goes_on) = channel();
        let goes_on = Arc::new(Mutex::new(goes_on));
        let provider = move || -> Box<dyn Provider> { Box::new(Fake { said: said.clone(), goes_on: goes_on.clone() }) };
        let waker = Waker::new().expect("descriptors");
        (Worker::new(waker, Arc::new(provider)), says, go_on)
    }

    fn drained(worker: &Worker, count: usize) -> Vec<(ConnId, GssResult)> {
        let end = Instant::now() + LIMIT;
        let mut results = Vec::new();
        while results.len() < count && Instant::now() < end {
            results.extend(worker.drain());
            std::thread::yield_now();
        }
        results
    }

    fn next(says: &Receiver<String>) -> String {
        says.recv_timeout(LIMIT).expect("in time")
    }

    #[test]
    fn calls_are_made_in_order_and_those_of_a_closed_connection_are_dropped() {
        let (mut worker, says, go_on) = worker();
        worker.forget(ConnId(9));
        assert!(worker.thread.is_none(), "no login, no thread");
        worker.call(ConnId(1), "slow".into(), GssCall::Wrap(vec![1]));
        assert_eq!(next(&says), "1 slow");
        for number in [2, 3] {
            worker.call(ConnId(u32::from(number)), "fast".into(), GssCall::Wrap(vec![number]));
        }
        worker.forget(ConnId(2));
        go_on.send(()).expect("it waits");
        assert_eq!(next(&says), "3 fast");
        assert_eq!(next(&says), "forget 2");
        let wrapped = |number| (ConnId(u32::from(number)), Ok(GssAnswer::Wrapped(vec![number])));
        assert_eq!(drained(&worker, 2), [wrapped(1), wrapped(3)]);
    }

    #[test]
    fn a_thread_that_waits_is_joined() {
        let (mut worker, says, _go_on) = worker();
        worker.call(ConnId(1), "fast".into(), GssCall::Wrap(Vec::new()));
        assert_eq!(drained(&worker, 1).len(), 1);
        worker.forget(ConnId(1));
        assert_eq!((next(&says), next(&says)), ("1 fast".into(), "forget 1".into()));
        while worker.shared.lock().is_busy {
            std::thread::yield_now();
        }
        drop(worker);
        assert_eq!(says.try_recv().as_deref(), Ok("end"), "the thread has ended before the drop returned");
    }

    /// A KDC that does not answer must not hold up a close.
    #[test]
    fn a_thread_in_a_call_is_left_behind_and_ends_with_its_call() {
        let (mut worker, says, go_on) = worker();
        worker.call(ConnId(1), "slow".into(), GssCall::Wrap(Vec::new()));
        worker.call(ConnId(2), "fast".into(), GssCall::Wrap(Vec::new()));
        assert_eq!(next(&says), "1 slow");
        drop(worker);
        assert!(says.try_recv().is_err(), "the call goes on");
        go_on.send(()).expect("it waits");
        assert_eq!(next(&says), "end", "the queue was given up");
    }

    #[test]
    fn a_forked_child_does_not_join_the_thread_of_its_parent() {
        let (mut worker, says, _go_on) = worker();
        worker.call(ConnId(1), "fast".into(), GssCall::Wrap(Vec::new()));
        assert_eq!(next(&says), "1 fast");
        worker.fork_generation = worker.fork_generation.wrapping_sub(1); // as if this process were the child
        let shared = Arc::clone(&worker.shared);
        drop(worker);
        assert!(!shared.lock().stops);
        shared.lock().stops = true;
        shared.has_command.notify_one();
    }
}
