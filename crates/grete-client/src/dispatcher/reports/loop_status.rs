//! Event loop status: detects a blocked event loop and reports it.

use std::sync::Arc;
use std::time::Duration;

use grete_proto::time::Nanos;

use crate::dispatcher::lane_events;
use crate::dispatcher::state::State;
use crate::dispatcher::{Dispatcher, JobToken};
use crate::error::ClientError;

/// Job whose coroutine occupies the event loop's thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockingJob {
    /// Name of the handler.
    pub handler: Arc<str>,
    /// Topic of the job.
    pub topic: Arc<str>,
    /// Partition of the job.
    pub partition: i32,
}

/// Status of the event loop.
#[derive(Debug, Clone)]
pub struct EventLoopStatus {
    /// Time for which a wake-up has waited for the loop, in seconds; 0: none waits.
    pub loop_lag: f64,
    /// Time that the loop took to handle the last wake-up, in seconds.
    pub last_loop_lag: f64,
    /// Number of times the loop was blocked for longer than `stall_after`.
    pub blocked_count: u64,
    /// Job that blocks the loop; `None`: none, or unknown.
    pub blocking_job: Option<BlockingJob>,
    /// Shortest `handler_timeout` of the handlers on the loop, in seconds; `None`: none is set.
    pub handler_timeout: Option<f64>,
}

impl Dispatcher {
    /// Reports that the event loop runs the first step of this job: the job's running time starts now.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a forked child of the process that created the dispatcher.
    pub fn job_started(&self, token: &JobToken) -> Result<(), ClientError> {
        self.check_fork()?;
        let now = self.now();
        let mut state = self.lock();
        let State { dispatch, leases, .. } = &mut *state;
        if let Some(lent) = leases.get(&token.id) {
            dispatch.on_started(now, &lent.lease);
        }
        drop(state); // this makes no lane ready
        self.report_unblocked(self.async_queue().and_then(|looping| looping.job_started(now, token.id)));
        Ok(())
    }

    /// Sets the job whose coroutine occupies the event loop's thread, until the loop runs again. Returns for how many
    /// seconds the loop has not run; `None`: no wake-up waits for it.
    pub fn set_blocking_job(&self, token: Option<&JobToken>) -> Option<f64> {
        let looping = self.async_queue()?;
        let blocker = token.and_then(|token| {
            let state = self.lock();
            let lease = &state.leases.get(&token.id)?.lease;
            let (handler, topic) = (Arc::clone(&lease.policy.name), Arc::clone(&lease.tp.topic));
            Some(BlockingJob { handler, topic, partition: lease.tp.partition })
        });
        let mut state = looping.lock();
        let wait = state.watch.waiting_for(self.now())?;
        state.blocker = blocker.or(state.blocker.take());
        Some(seconds(wait))
    }

    /// Sends the event loop a probe wake-up, if jobs run on it and no other wake-up waits.
    pub fn probe_event_loop(&self) {
        self.check_event_loop(self.now(), Some(Nanos::MAX), false);
    }

    /// Returns the status of the event loop; `None`: there is none.
    #[must_use]
    pub fn event_loop_status(&self) -> Option<EventLoopStatus> {
        let looping = self.async_queue()?;
        let limit = self.lock().dispatch.event_loop_limits().1.map(seconds);
        let state = looping.lock();
        let wait = state.watch.waiting_for(self.now()).map_or(0.0, seconds);
        let (last_wait, blocked) = (seconds(state.watch.last_wait()), state.watch.blocked_count());
        Some(EventLoopStatus {
            loop_lag: wait,
            last_loop_lag: last_wait,
            blocked_count: blocked,
            blocking_job: state.blocker.clone(),
            handler_timeout: limit,
        })
    }

    /// Reports an event loop that is blocked for longer than allowed. Returns for how long a wake-up has waited for the
    /// loop, and the time of the next check.
    pub(in crate::dispatcher) fn monitor_event_loop(
        &self,
        now: Nanos,
        state: &State,
    ) -> (Option<Nanos>, Option<Nanos>) {
        let limit = state.dispatch.event_loop_limits().0;
        self.check_event_loop(now, limit, state.dispatch.has_async_jobs())
    }

    fn check_event_loop(&self, now: Nanos, limit: Option<Nanos>, soon: bool) -> (Option<Nanos>, Option<Nanos>) {
        let Some(looping) = self.async_queue() else { return (None, None) };
        let mut state = looping.lock();
        let look = state.watch.check(now, limit, soon);
        if look.probe {
            looping.signal(&mut state);
        }
        let wait = state.watch.waiting_for(now);
        drop(state);
        self.emit(look.blocked.map(lane_events::loop_blocked).into_iter().collect());
        (wait, look.next_check)
    }

    pub(in crate::dispatcher) fn report_unblocked(&self, blocked_for: Option<Nanos>) {
        self.emit(blocked_for.map(lane_events::loop_unblocked).into_iter().collect());
    }
}

fn seconds(nanos: Nanos) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}
