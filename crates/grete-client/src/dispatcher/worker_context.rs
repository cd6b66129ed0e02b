//! Worker context: state of one worker thread between jobs, such as decoders. No other thread sees it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use grete_proto::dispatch::Pool;
use grete_wire::buffer_pool::BufferPool;
use grete_wire::records::{DecodeLimits, Decoder};

/// Context of one thread that runs jobs; see [`Dispatcher::worker_context`](crate::Dispatcher::worker_context).
#[derive(Debug)]
pub struct WorkerContext {
    pub(crate) name: String,
    /// Number of the worker, from 1; 0: not subject to [`Dispatcher::set_workers`](crate::Dispatcher::set_workers).
    pub(crate) number: u32,
    pub(crate) pool: Pool,
    pub(crate) decoder: Decoder,
    pub(crate) max_messages: Option<usize>,
    /// Whether the worker's lead of the client's loop ends.
    pub(crate) lead_over: Arc<AtomicBool>,
}

impl WorkerContext {
    pub(super) fn new(name: &str, slabs: BufferPool, number: u32) -> Self {
        let decoder = Decoder::new(slabs, DecodeLimits::default());
        Self {
            name: name.to_owned(),
            number,
            pool: Pool::Threads,
            decoder,
            max_messages: None,
            lead_over: Arc::default(),
        }
    }

    /// Creates the context of the decoder thread, which takes an event loop's jobs.
    pub(super) fn for_event_loop(name: &str, slabs: BufferPool) -> Self {
        Self { pool: Pool::EventLoop, ..Self::new(name, slabs, 0) }
    }

    /// Limits the rows of one job; `None`: the route's limit.
    pub fn set_max_messages(&mut self, max_messages: Option<usize>) {
        self.max_messages = max_messages;
    }
}
