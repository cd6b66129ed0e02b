//! What one worker thread keeps between jobs: decoder contexts, and nothing that another thread sees.

use grete_core::dispatch::Pool;
use grete_wire::records::{DecodeLimits, Decoder};

use crate::dispatcher::Dispatcher;

/// One per thread that runs jobs.
#[derive(Debug)]
pub struct Worker {
    pub(crate) name: String,
    /// From 1; 0 for those that [`Dispatcher::set_workers`] does not mean.
    pub(crate) number: u32,
    pub(crate) pool: Pool,
    pub(crate) decoder: Decoder,
    pub(crate) max_messages: Option<usize>,
}

impl Worker {
    /// A worker known by `name` in reports, which ends when there are to be fewer than `number` (0: never).
    #[must_use]
    pub fn new(name: &str, dispatcher: &Dispatcher, number: u32) -> Self {
        let decoder = Decoder::new(dispatcher.slabs(), DecodeLimits::default());
        Self { name: name.to_owned(), number, pool: Pool::Threads, decoder, max_messages: None }
    }

    /// The one that takes an event loop's jobs.
    pub(crate) fn for_loop(name: &str, dispatcher: &Dispatcher) -> Self {
        Self { pool: Pool::Loop, ..Self::new(name, dispatcher, 0) }
    }

    /// Rows for one job; `None`: the route's limit.
    pub fn set_max_messages(&mut self, max_messages: Option<usize>) {
        self.max_messages = max_messages;
    }
}
