//! State behind the dispatcher's lock.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use grete_net::Waker;
use grete_proto::dispatch::{ClientId, Decision, Dispatch, FinishResult, JobOutcome, LaneId, Lease, Pool};
use grete_proto::time::Nanos;
use grete_sys::IdHasher;

use super::job::Outcome;
use super::waiters::WaiterList;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) dispatch: Dispatch,
    pub(super) clients: Vec<ClientThread>,
    /// Sum of the bytes that each client fetches ahead.
    pub(super) queued_bytes: usize,
    /// Jobs that workers hold. The lease stays here while Python runs, because Python must not be able to lose it.
    pub(super) leases: HashMap<u64, LeasedJob, BuildHasherDefault<IdHasher>>,
    pub(super) last_job: u64,
    pub(super) waiters: WaiterList,
    /// Whether a worker leads the client's loop, or is about to.
    pub(super) worker_leads: bool,
    /// Number of interruptible threads that sleep.
    pub(super) interruptible_waiters: usize,
    /// Whether an event loop waits for `poll_fd`, until it is signalled.
    pub(super) poll_armed: bool,
    /// Number of threads that wait until all is processed.
    pub(super) settling_waiters: usize,
    /// Workers with a higher number end; `None`: no limit.
    pub(super) workers: Option<u32>,
}

#[derive(Debug)]
pub(super) struct LeasedJob {
    pub(super) lease: Lease,
    pub(super) ended: Arc<AtomicBool>,
}

/// Network thread of a client, as the dispatcher sees it.
#[derive(Debug, Default)]
pub(super) struct ClientThread {
    pub(super) waker: Option<Waker>,
    /// Deadline of the dispatcher that this thread keeps, so that no worker has to.
    pub(super) held_deadline: Option<Nanos>,
}

impl State {
    pub(super) fn client_mut(&mut self, client: ClientId) -> Option<&mut ClientThread> {
        self.clients.get_mut(client.0 as usize)
    }

    pub(super) fn complete(&mut self, now: Nanos, id: u64, lease: Lease, outcome: Outcome) -> Option<Decision> {
        let finished = match outcome {
            Outcome::Done => JobOutcome::Done,
            Outcome::Failed(failure) => JobOutcome::Failed(failure),
        };
        match self.dispatch.finish(now, id, lease, finished) {
            FinishResult::Completed(client, decision) => {
                self.wake_client(client);
                decision
            }
            FinishResult::Suspended => None,
        }
    }

    pub(crate) fn wake_client(&mut self, client: ClientId) {
        if self.dispatch.take_pending_wake(client)
            && let Some(waker) = self.client_mut(client).and_then(|client| client.waker.as_ref())
        {
            waker.wake();
        }
    }

    /// Returns the ids of the lane's jobs that the event loop runs.
    pub(crate) fn async_job_ids(&self, lane: LaneId) -> Vec<u64> {
        let mine =
            self.leases.iter().filter(|(_, lent)| lent.lease.lane == lane && lent.lease.pool() == Pool::EventLoop);
        mine.map(|(id, _)| *id).collect()
    }
}
