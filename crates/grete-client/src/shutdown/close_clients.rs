//! Closing of an App's clients: deliver outputs, commit offsets, leave groups, close. It runs once, on the first thread
//! that starts it.
//!
//! Two threads may start it: the thread that runs the shutdown in Python, and a thread that needs no interpreter. The
//! second one takes over when a handler keeps the interpreter lock. The committed offsets must not depend on which
//! thread runs it:
//!
//! - The first thread does everything, under one flag; the other thread waits and gets the same result.
//! - The producer is closed before offsets are collected, so that jobs that wait for their outputs can count. A handler
//!   that returns in between has either produced before the close, or was refused by the closed producer. In the first
//!   case the close completes its outputs or drops them. Dropped outputs hold back the offsets of the jobs that
//!   produced them, and no others.
//! - A producer that is created while the clients close comes too late to be closed. [`ClientShutdown::add_producer`]
//!   refuses it, under the same lock under which the close reads the producer. A client that comes too late has no
//!   processed records yet.
//! - A job may end after the collection and before the group is left. It is committed when its partition is revoked,
//!   under the assignment that the group still knows. A job that ends later comes too late, and its records are
//!   processed again.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::deadlines::{ShutdownDeadlines, remaining};
use crate::consumer::Consumer;
use crate::dispatcher::Dispatcher;
use crate::error::ClientError;
use crate::producer::{CloseStatus, Producer, Undelivered};

/// Time that callers wait beyond the deadline of the close, so that its thread gets scheduled.
const SCHEDULING_MARGIN: Duration = Duration::from_secs(1);

/// Result of closing the clients.
#[derive(Debug, Clone, Default)]
pub struct ShutdownReport {
    /// Produced records that were dropped. The offsets of their source records were not committed.
    pub undelivered: Undelivered,
    /// Whether the producer's thread has not ended in time, so that the outcome of its last records is unknown.
    pub delivery_timed_out: bool,
    /// Groups that were not left in time, with their errors.
    pub failed_to_leave: Vec<(String, ClientError)>,
}

impl ShutdownReport {
    /// Returns whether all records that handlers produced are written.
    pub fn is_delivered(&self) -> bool {
        self.undelivered.count() == 0 && !self.delivery_timed_out
    }
}

/// Close of all clients, which runs once; see the module.
#[derive(Debug, Default)]
pub(super) struct ClientShutdown {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    clients: Vec<Consumer>,
    producer: Option<Producer>,
    phase: Phase,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Pending,
    Running,
    Done(Arc<ShutdownReport>),
}

impl ClientShutdown {
    /// Adds a client. Returns false if it comes too late, so that nothing will be committed for it.
    pub(super) fn add_client(&self, client: &Consumer) -> bool {
        let mut state = self.lock();
        let in_time = matches!(state.phase, Phase::Pending);
        if in_time {
            state.clients.push(client.clone());
        }
        in_time
    }

    /// Adds the producer. Returns false if it comes too late to be closed, so that it must accept no records.
    pub(super) fn add_producer(&self, producer: &Producer) -> bool {
        let mut state = self.lock();
        let in_time = matches!(state.phase, Phase::Pending);
        if in_time {
            state.producer = Some(producer.clone());
        }
        in_time
    }

    /// Ends long waits for metadata, because the shutdown begins.
    pub(super) fn expedite(&self) {
        if let Some(producer) = &self.lock().producer {
            producer.expedite_metadata();
        }
    }

    /// Closes the clients, or waits for the thread that closes them. Returns `None` if that thread has not ended in
    /// time.
    pub(super) fn run_once(&self, dispatcher: &Dispatcher, stages: ShutdownDeadlines) -> Option<Arc<ShutdownReport>> {
        let mut state = self.lock();
        match &state.phase {
            Phase::Done(parting) => return Some(Arc::clone(parting)),
            Phase::Pending => {
                state.phase = Phase::Running;
                let (clients, producer) = (state.clients.clone(), state.producer.clone());
                drop(state);
                let report = Arc::new(close_all(dispatcher, &clients, producer.as_ref(), stages));
                self.lock().phase = Phase::Done(Arc::clone(&report));
                self.ended.notify_all();
                return Some(report);
            }
            Phase::Running => {}
        }
        loop {
            if let Phase::Done(parting) = &state.phase {
                return Some(Arc::clone(parting));
            }
            let left = remaining(stages.close + SCHEDULING_MARGIN);
            if left.is_zero() {
                return None;
            }
            state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn close_all(
    dispatcher: &Dispatcher,
    clients: &[Consumer],
    producer: Option<&Producer>,
    stages: ShutdownDeadlines,
) -> ShutdownReport {
    let mut report = ShutdownReport::default();
    if let Some(producer) = producer {
        (report.undelivered, report.delivery_timed_out) = deliver(producer, stages);
        // Records written by now count. Records not written by now were never marked.
        dispatcher.finish_outputs();
    }
    // Closes all clients at once, so that a client without a response takes no time from the others.
    let begun: Vec<_> = clients.iter().map(|client| client.begin_close(remaining(stages.close))).collect();
    for (client, begun) in clients.iter().zip(begun) {
        if let Err(error) = begun.and_then(|()| client.await_close(remaining(stages.close), || false)) {
            report.failed_to_leave.push((client.group_id().unwrap_or_default().to_owned(), error));
        }
    }
    report
}

/// Closes the producer. Returns the undelivered records, and whether the close timed out.
fn deliver(producer: &Producer, stages: ShutdownDeadlines) -> (Undelivered, bool) {
    let Ok(deadline) = producer.close(remaining(stages.delivery)) else {
        return (Undelivered::default(), false); // a forked child: the records are the parent's
    };
    loop {
        match producer.await_close(deadline, || false) {
            CloseStatus::Done(undelivered) => return (undelivered, false),
            CloseStatus::TimedOut(undelivered) => return (undelivered, true),
            CloseStatus::Interrupted => {}
        }
    }
}
