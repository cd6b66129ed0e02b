//! The end of an App's clients: deliver, commit, leave, close. It happens once, whoever comes first.
//!
//! Two threads may bring it about: the one that runs the stop in Python, and, when the interpreter does not get there
//! (a handler that holds its lock), one that needs none. What may be committed must not depend on who it is:
//!
//! - Whoever comes first does everything, under one flag; the other waits for the result and is told the same.
//! - The producer is closed before offsets are collected. A handler that returns in between has either produced before the
//!   closing (then its records are counted as delivered or not), or was refused by the closed producer. So an offset that is
//!   collected never stands for a record that somebody may still produce.
//! - A producer that is made while the farewell runs comes too late for that count: [`Farewell::add_producer`] refuses it,
//!   under the same lock under which the farewell looks for producers. A client that comes too late has earned nothing yet.
//! - A job that ends between the collection and the end of the leaving is committed with its partition's revocation, under
//!   the assignment that the group still knows; one that ends later comes too late, and its records are processed again.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::stages::{Stages, left};
use crate::consumer::Consumer;
use crate::error::ClientError;
use crate::producer::{Closing, Producer, Undelivered};

/// Beyond the end of the closing: for its thread to get the processor.
const MARGIN: Duration = Duration::from_secs(1);

/// What a farewell came to.
#[derive(Debug, Clone, Default)]
pub struct Parting {
    /// Produced records that were given up. If there are any, no offset was committed.
    pub undelivered: Undelivered,
    /// The producer's thread could not say in time what became of its records; no offset was committed then either.
    pub unsettled: bool,
    /// Groups that were not left in time, and why.
    pub not_left: Vec<(String, ClientError)>,
}

impl Parting {
    /// Whether what was processed was committed, as far as the brokers let us.
    #[must_use]
    pub fn committed(&self) -> bool {
        self.undelivered.count() == 0 && !self.unsettled
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Farewell {
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
    Ahead,
    Under,
    Over(Arc<Parting>),
}

impl Farewell {
    /// False: it comes too late, and nothing will be committed for it.
    pub(super) fn add_client(&self, client: &Consumer) -> bool {
        let mut state = self.lock();
        let in_time = matches!(state.phase, Phase::Ahead);
        if in_time {
            state.clients.push(client.clone());
        }
        in_time
    }

    /// False: it comes too late to be counted, so it must take no record.
    pub(super) fn add_producer(&self, producer: &Producer) -> bool {
        let mut state = self.lock();
        let in_time = matches!(state.phase, Phase::Ahead);
        if in_time {
            state.producer = Some(producer.clone());
        }
        in_time
    }

    /// Brings it about, or waits for whoever does. `None`: that one has not ended in time.
    pub(super) fn say(&self, stages: Stages) -> Option<Arc<Parting>> {
        let mut state = self.lock();
        match &state.phase {
            Phase::Over(parting) => return Some(Arc::clone(parting)),
            Phase::Ahead => {
                state.phase = Phase::Under;
                let (clients, producer) = (state.clients.clone(), state.producer.clone());
                drop(state);
                let parting = Arc::new(part(&clients, producer.as_ref(), stages));
                self.lock().phase = Phase::Over(Arc::clone(&parting));
                self.ended.notify_all();
                return Some(parting);
            }
            Phase::Under => {}
        }
        loop {
            if let Phase::Over(parting) = &state.phase {
                return Some(Arc::clone(parting));
            }
            let left = left(stages.close + MARGIN);
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

fn part(clients: &[Consumer], producer: Option<&Producer>, stages: Stages) -> Parting {
    let mut parting = Parting::default();
    if let Some(producer) = producer {
        (parting.undelivered, parting.unsettled) = deliver(producer, stages);
    }
    let commit = parting.committed();
    // All at once: one that gets no answer takes no time from the others.
    let begun: Vec<_> = clients.iter().map(|client| client.begin_close(commit, left(stages.close))).collect();
    for (client, begun) in clients.iter().zip(begun) {
        if let Err(error) = begun.and_then(|()| client.await_close(left(stages.close))) {
            parting.not_left.push((client.group_id().unwrap_or_default().to_owned(), error));
        }
    }
    parting
}

/// What was not delivered, and whether that is all that there is to know.
fn deliver(producer: &Producer, stages: Stages) -> (Undelivered, bool) {
    let Ok(deadline) = producer.close(left(stages.delivery)) else {
        return (Undelivered::default(), false); // a forked child: the records are the parent's
    };
    loop {
        match producer.await_close(deadline) {
            Closing::Done(undelivered) => return (undelivered, false),
            Closing::TimedOut(undelivered) => return (undelivered, true),
            Closing::Interrupted => {}
        }
    }
}
