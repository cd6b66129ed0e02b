//! Cache of topic ids, by the str objects that name the topics.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Mutex, PoisonError};

use grete_client::produce::TopicId;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors;

/// Topic ids by the str objects that named them last. A caller that produces in a loop passes the same object, so that
/// only a comparison of addresses remains of the look-up.
///
/// The GIL orders all accesses. The cache keeps each object alive, so that no other object can get its address.
pub(super) struct TopicIdCache {
    entries: [CacheEntry; CACHE_SIZE],
}

const CACHE_SIZE: usize = 8;

#[derive(Default)]
struct CacheEntry {
    address: AtomicUsize,
    id: AtomicU32,
    name: Mutex<Option<Py<PyString>>>,
}

impl TopicIdCache {
    pub(super) fn new() -> Self {
        Self { entries: std::array::from_fn(|_| CacheEntry::default()) }
    }

    #[inline]
    pub(super) fn id(&self, producer: &grete_client::Producer, topic: &Bound<'_, PyAny>) -> PyResult<TopicId> {
        let address = topic.as_ptr() as usize;
        // Objects are 16 bytes apart at least.
        let entry = &self.entries[(address >> 4) % CACHE_SIZE];
        if entry.address.load(Relaxed) == address {
            return Ok(TopicId(entry.id.load(Relaxed)));
        }
        entry.resolve(producer, topic)
    }
}

impl CacheEntry {
    #[cold]
    fn resolve(&self, producer: &grete_client::Producer, topic: &Bound<'_, PyAny>) -> PyResult<TopicId> {
        let Ok(name) = topic.cast::<PyString>() else {
            let message = format!("a topic is a str or a grete.Topic, not {}", topic.get_type().name()?);
            return Err(errors::record_type(&message, &topic.to_string(), None));
        };
        let id = producer.topic(name.to_str()?);
        let mut held = self.name.lock().unwrap_or_else(PoisonError::into_inner);
        let before = held.replace(name.clone().unbind());
        self.address.store(topic.as_ptr() as usize, Relaxed);
        self.id.store(id.0, Relaxed);
        drop(held);
        drop(before);
        Ok(id)
    }
}
