//! An admin client: topics, settings, groups and offsets, asked for from any thread.
//!
//! Its network thread connects with the first question. A caller sleeps until the answer to its own question has been
//! read, and for no other reason. An operation may take several questions, one after the other on the caller's thread, all
//! within the one time that the [`Call`] gives it.

mod call;
mod cluster;
mod configs;
mod driver;
mod groups;
mod offsets;
mod reset;
mod topics;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use grete_core::admin::{AdminCore, AdminEvent, AdminReply, Operation};
use grete_core::rng::Rng;
use grete_net::{Clock, EventFd, EventLoop};
use grete_wire::slab::SlabPool;

pub use call::{Call, Each};
pub(crate) use call::{failure, partition, refusal};
pub use groups::GroupList;
pub use offsets::PartitionLag;
pub use reset::{ResetPlan, ResetTo};

use crate::command::{Commands, NoAnswer};
use crate::config::AdminConfig;
use crate::dispatcher::seed;
use crate::error::ClientError;
use crate::notice::{Notice, Notices};
use driver::{Driver, Ending};

/// Metadata of all topics is the largest answer.
const MAX_FRAME_BYTES: usize = 1 << 28;
/// Slabs kept between answers.
const RETAIN_BYTES: usize = 1 << 20;
/// The core ends an operation in time and says how far it came; this much longer a caller waits for that word.
const GRACE: Duration = Duration::from_secs(1);

/// An admin client. Clones share it.
#[derive(Clone)]
pub struct Admin {
    shared: Arc<Shared>,
}

struct Shared {
    commands: Arc<Commands<AdminEvent>>,
    said: Arc<Said>,
    thread: Mutex<Option<JoinHandle<()>>>,
    closed: AtomicBool,
    fork_generation: u32,
}

/// What the network thread has to say besides answers.
#[derive(Debug)]
struct Said {
    notices: Notices,
    fatal: Mutex<Option<ClientError>>,
}

impl Admin {
    /// Starts the network thread; connects when something is asked.
    ///
    /// # Errors
    /// When the system has no thread, descriptor or randomness to give.
    pub fn start(config: &AdminConfig) -> Result<Self, ClientError> {
        let core = AdminCore::new(config.to_core(), Rng::new(seed()?));
        let event = EventFd::new().map_err(|error| ClientError::os("opening an event descriptor", &error))?;
        let said = Arc::new(Said { notices: Notices::new(event), fatal: Mutex::default() });
        let mut commands = None;
        let slabs = SlabPool::new(RETAIN_BYTES);
        let event_loop = EventLoop::new(Clock::new(), slabs, MAX_FRAME_BYTES, |waker| {
            let shared = Arc::new(Commands::new(waker));
            commands = Some(Arc::clone(&shared));
            Driver::new(core, shared, Arc::clone(&said))
        });
        let event_loop = event_loop.map_err(|error| ClientError::os("opening a poll descriptor", &error))?;
        let commands = commands.unwrap_or_else(|| unreachable!("the loop makes its protocol before it returns"));
        let ending = Ending { commands: Arc::clone(&commands), said: Arc::clone(&said) };
        let run = move || {
            if let Err(error) = event_loop.run() {
                ending.said.fail(ClientError::os("waiting for sockets", &error));
            }
        };
        let thread = std::thread::Builder::new().name("grete-admin".into()).spawn(run);
        let thread = thread.map_err(|error| ClientError::os("starting the network thread", &error))?;
        Ok(Self {
            shared: Arc::new(Shared {
                commands,
                said,
                thread: Mutex::new(Some(thread)),
                closed: AtomicBool::new(false),
                fork_generation: grete_net::fork::generation(),
            }),
        })
    }

    /// What is worth a log line since the last call.
    #[must_use]
    pub fn take_notices(&self) -> Vec<Notice> {
        self.shared.said.notices.take()
    }

    /// Ends the network thread; operations under way end, too. A second call does nothing.
    ///
    /// # Errors
    /// When the thread has not ended within `timeout`; it does so on its own.
    pub fn close(&self, timeout: Duration) -> Result<(), ClientError> {
        let shared = &*self.shared;
        shared.check_fork()?;
        if shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        shared.commands.send(AdminEvent::Close);
        if !shared.commands.wait_for_end(timeout) {
            return Err(ClientError::TimedOut {
                operation: "close".to_owned(),
                seconds: timeout.as_secs_f64(),
                hint: "the network thread ends on its own",
            });
        }
        if let Some(thread) = shared.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It has said its last word: a panic in it was reported as the client's failure.
            let _ = thread.join();
        }
        Ok(())
    }

    fn ask(&self, call: &Call<'_>, operation: Operation) -> Result<AdminReply, ClientError> {
        let shared = &*self.shared;
        shared.check_fork()?;
        if shared.closed.load(Ordering::Acquire) {
            return Err(ClientError::Closed { what: "admin client" });
        }
        if let Some(fatal) = shared.said.fatal() {
            return Err(fatal);
        }
        let left = call.left();
        let timeout = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        let question = |id| AdminEvent::Ask { id, operation, timeout };
        shared.commands.ask(left + GRACE, || call.interrupted(), question).map_err(|no_answer| match no_answer {
            NoAnswer::Ended => shared.said.fatal().unwrap_or(ClientError::Closed { what: "admin client" }),
            NoAnswer::TimedOut => call.unfinished("the network thread did not answer"),
            NoAnswer::Interrupted => ClientError::Interrupted { operation: call.operation().to_owned() },
        })
    }
}

impl Said {
    fn fatal(&self) -> Option<ClientError> {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The first one stays.
    fn fail(&self, error: ClientError) {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

impl Shared {
    fn check_fork(&self) -> Result<(), ClientError> {
        if self.fork_generation == grete_net::fork::generation() {
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

impl Drop for Shared {
    fn drop(&mut self) {
        if self.check_fork().is_err() {
            // The thread is the parent's; joining, waking or freeing what it uses is not ours to do.
            std::mem::forget(self.thread.lock().unwrap_or_else(PoisonError::into_inner).take());
            return;
        }
        if !self.closed.load(Ordering::Acquire) {
            self.commands.send(AdminEvent::Close);
        }
    }
}
