//! What one worker thread keeps between jobs: decoder contexts, and nothing that another thread sees.

use grete_wire::records::{DecodeLimits, Decoder};

use crate::dispatcher::Dispatcher;

/// One per thread that runs jobs.
#[derive(Debug)]
pub struct Worker {
    pub(crate) name: String,
    pub(crate) decoder: Decoder,
    pub(crate) max_messages: Option<usize>,
}

impl Worker {
    /// A worker known by `name` in reports.
    #[must_use]
    pub fn new(name: &str, dispatcher: &Dispatcher) -> Self {
        let decoder = Decoder::new(dispatcher.slabs(), DecodeLimits::default());
        Self { name: name.to_owned(), decoder, max_messages: None }
    }

    /// Rows for one job; `None`: the route's limit.
    pub fn set_max_messages(&mut self, max_messages: Option<usize>) {
        self.max_messages = max_messages;
    }
}
