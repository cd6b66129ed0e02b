//! Admin client: manages topics, settings, groups and offsets, from any thread.
//!
//! The first request connects. A caller leads the loop until it has read the response to its own request; while another
//! caller leads, it sleeps until then. No other event wakes it, except to write log events. An operation may need several
//! requests, one after the other on the caller's thread, all within the deadline of its [`CallContext`].

mod acls;
mod call_context;
mod cluster;
mod configs;
mod driver;
mod groups;
mod offsets;
mod reset_offsets;
mod state;
mod topics;
mod transactions;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use grete_net::{Clock, EventLoop};
use grete_proto::admin::{AdminCore, AdminEvent, AdminReply, Operation};
use grete_proto::principal::Principal;
use grete_proto::rng::Rng;
use grete_proto::sasl::TokenStore;
use grete_sys::EventFd;
use grete_wire::buffer_pool::BufferPool;

pub use call_context::{CallContext, ItemResults};
pub(crate) use call_context::{client_error, partition_subject, refused_error};
pub use groups::GroupList;
pub use offsets::PartitionLag;
pub use reset_offsets::{ResetPlan, ResetTo};
pub use transactions::TransactionList;

use crate::config::AdminConfig;
use crate::error::ClientError;
use crate::log_event::{LogEventQueue, LogSink};
use crate::random_seed;
use crate::request_queue::{RequestAborted, RequestQueue};
use crate::thread_guard::spawn_network_thread;
use crate::tls::tls_context;
use driver::{AdminThread, Driver};
use state::AdminState;

/// Maximum size of a response in bytes; the metadata of all topics is the largest.
const MAX_FRAME_BYTES: usize = 1 << 28;
/// Bytes of idle buffers that are kept between responses.
const MAX_RETAINED_BYTES: usize = 1 << 20;
/// Time that a caller waits beyond its deadline. The core ends an operation in time and then reports how far it came.
const RESPONSE_GRACE: Duration = Duration::from_secs(1);

/// Admin client handle. Clones share one client.
#[derive(Clone)]
pub struct Admin {
    inner: Arc<AdminInner>,
}

struct AdminInner {
    principal: Principal,
    /// Place of the tokens; `None`: the client logs in without one.
    tokens: Option<Arc<TokenStore>>,
    requests: Arc<RequestQueue<AdminEvent>>,
    state: Arc<AdminState>,
    thread: Mutex<Option<JoinHandle<()>>>,
    closed: AtomicBool,
    fork_generation: u32,
}

impl Admin {
    /// Returns the user as brokers name it, without `User:`; `None`: it is unknown.
    #[must_use]
    pub fn user(&self) -> Option<Arc<str>> {
        self.inner.principal.user()
    }

    pub(super) fn tokens(&self) -> Option<&TokenStore> {
        self.inner.tokens.as_deref()
    }

    /// Starts the network thread, which connects with the first request. `log` is called by threads that wait for a
    /// response.
    ///
    /// # Errors
    /// Fails if the system has no thread, descriptor or random numbers left.
    pub fn start(config: &AdminConfig, log: Option<LogSink>) -> Result<Self, ClientError> {
        let core = AdminCore::new(config.to_core(), Rng::new(random_seed()?));
        let event = EventFd::new().map_err(|error| ClientError::os("opening an event descriptor", &error))?;
        let state = Arc::new(AdminState::new(LogEventQueue::new(event, log)));
        let log = Arc::clone(&state);
        let tls = tls_context(config, move |event| log.log_events.push([event]))?;
        let mut requests = None;
        let slabs = BufferPool::new(MAX_RETAINED_BYTES);
        let event_loop = EventLoop::new(Clock::new(), slabs, MAX_FRAME_BYTES, |waker| {
            let shared = Arc::new(RequestQueue::new(waker));
            requests = Some(Arc::clone(&shared));
            Driver::new(core, shared, Arc::clone(&state))
        });
        let event_loop =
            event_loop.map_err(|error| ClientError::os("opening a poll descriptor", &error))?.with_tls(tls);
        let requests = requests.unwrap_or_else(|| unreachable!("the loop makes its protocol before it returns"));
        requests.set_caller_loop(event_loop.handle());
        let owner = AdminThread { requests: Arc::clone(&requests), state: Arc::clone(&state) };
        let thread = spawn_network_thread("grete-admin", config, event_loop, owner)?;
        Ok(Self {
            inner: Arc::new(AdminInner {
                principal: config.principal(),
                tokens: config.tokens().cloned(),
                requests,
                state,
                thread: Mutex::new(Some(thread)),
                closed: AtomicBool::new(false),
                fork_generation: grete_sys::fork::generation(),
            }),
        })
    }

    /// Returns the log events of the network thread, which wait for a thread that can log.
    pub fn log_events(&self) -> &LogEventQueue {
        &self.inner.state.log_events
    }

    /// Ends the network thread and all operations in progress. A second call does nothing.
    ///
    /// # Errors
    /// Fails if the thread has not ended within `timeout`; the thread then ends by itself.
    pub fn close(&self, timeout: Duration) -> Result<(), ClientError> {
        let shared = &*self.inner;
        shared.check_fork()?;
        if shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        shared.requests.send(AdminEvent::Close);
        if !shared.requests.wait_until_closed(timeout, || shared.state.log_events.write_pending()) {
            return Err(ClientError::TimedOut {
                operation: "close".to_owned(),
                seconds: timeout.as_secs_f64(),
                hint: "the network thread ends by itself",
            });
        }
        if let Some(thread) = shared.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A panic of the thread was already reported as the failure of the client.
            let _ = thread.join();
        }
        Ok(())
    }

    fn execute(&self, call: &CallContext<'_>, operation: Operation) -> Result<AdminReply, ClientError> {
        let shared = &*self.inner;
        shared.check_fork()?;
        if shared.closed.load(Ordering::Acquire) {
            return Err(ClientError::Closed { what: "admin client" });
        }
        if let Some(fatal) = shared.state.fatal() {
            return Err(fatal);
        }
        let left = call.remaining();
        let timeout = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        let build = |id| AdminEvent::Submit { id, operation, timeout };
        let before_wait = |signal: bool| shared.state.log_events.write_pending() || (signal && call.interrupted());
        shared.requests.request(left + RESPONSE_GRACE, before_wait, build).map_err(|aborted| match aborted {
            RequestAborted::Closed => shared.state.fatal().unwrap_or(ClientError::Closed { what: "admin client" }),
            RequestAborted::TimedOut => call.timed_out("the network thread did not answer"),
            RequestAborted::Interrupted => ClientError::Interrupted { operation: call.operation().to_owned() },
        })
    }
}

impl AdminInner {
    fn check_fork(&self) -> Result<(), ClientError> {
        if self.fork_generation == grete_sys::fork::generation() {
            return Ok(());
        }
        Err(ClientError::Forked { what: "admin client" })
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

impl Drop for AdminInner {
    fn drop(&mut self) {
        if self.check_fork().is_err() {
            // The thread is the parent's, so this process must not join it, wake it, or free what it uses.
            std::mem::forget(self.thread.lock().unwrap_or_else(PoisonError::into_inner).take());
            return;
        }
        if !self.closed.load(Ordering::Acquire) {
            self.requests.send(AdminEvent::Close);
        }
    }
}
