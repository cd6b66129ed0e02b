//! Cache of topic ids, by the str objects that name the topics.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize, fence};
use std::sync::{Mutex, PoisonError};

use grete_client::produce::TopicId;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors;

/// Topic ids by the str objects that named them last. A caller that produces in a loop passes the same object, so that
/// only a comparison of addresses remains of the look-up.
///
/// The cache keeps each object alive, so that no other object can get its address.
///
/// Without a GIL, one thread may read an entry while another one replaces it. An id beside the address of another
/// object would send a record to the wrong topic, so each entry is a seqlock: its version is odd during a change, and
/// a reader that finds another version after its reads, or an odd one, asks the producer. The object that is looked up
/// is alive all the time. So an address that was in the entry at one moment of the call is the address of that object.
pub(super) struct TopicIdCache {
    entries: [CacheEntry; CACHE_SIZE],
}

const CACHE_SIZE: usize = 8;

#[derive(Default)]
struct CacheEntry {
    /// Odd: the entry changes at the moment.
    version: AtomicU32,
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
        match entry.read() {
            Some((known, id)) if known == address => Ok(id),
            _ => entry.resolve(producer, topic),
        }
    }
}

impl CacheEntry {
    /// Returns an address and the id that belongs to it; `None`: the entry changes at the moment.
    #[inline]
    fn read(&self) -> Option<(usize, TopicId)> {
        let version = self.version.load(Acquire);
        let (address, id) = (self.address.load(Relaxed), TopicId(self.id.load(Relaxed)));
        fence(Acquire); // the second read of the version comes last
        (version.is_multiple_of(2) && self.version.load(Relaxed) == version).then_some((address, id))
    }

    /// Replaces address and id. The caller holds the lock of `name`, so there is one writer.
    fn write(&self, address: usize, id: TopicId) {
        let version = self.version.load(Relaxed);
        self.version.store(version.wrapping_add(1), Relaxed);
        fence(Release); // the odd version comes before the writes
        self.address.store(address, Relaxed);
        self.id.store(id.0, Relaxed);
        self.version.store(version.wrapping_add(2), Release);
    }

    #[cold]
    fn resolve(&self, producer: &grete_client::Producer, topic: &Bound<'_, PyAny>) -> PyResult<TopicId> {
        let Ok(name) = topic.cast::<PyString>() else {
            let message = format!("a topic is a str or a grete.Topic, not {}", topic.get_type().name()?);
            return Err(errors::record_type(&message, &topic.to_string(), None));
        };
        let id = producer.topic(name.to_str()?);
        let mut held = self.name.lock().unwrap_or_else(PoisonError::into_inner);
        let before = held.replace(name.clone().unbind());
        self.write(topic.as_ptr() as usize, id);
        drop(held);
        drop(before);
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// One thread replaces the entry, others read: no reader gets the id of another address.
    #[test]
    fn an_id_belongs_to_its_address() {
        let (entry, done) = (CacheEntry::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let reader = || {
                let mut reads = 0_u64;
                while !done.load(Relaxed) {
                    if let Some((address, id)) = entry.read() {
                        assert_eq!(address, id.0 as usize * 16);
                        reads += 1;
                    }
                }
                reads
            };
            let readers = [scope.spawn(reader), scope.spawn(reader)];
            for id in 0..2_000_000 {
                entry.write(id as usize * 16, TopicId(id));
            }
            done.store(true, Relaxed);
            assert!(readers.into_iter().all(|reader| reader.join().expect("no torn read") > 0));
        });
    }
}
