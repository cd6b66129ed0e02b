//! Topics by the str objects that name them.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Mutex, PoisonError};

use grete_client::produce::TopicId;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors;

/// The str object that named a topic last, and what it stands for: whoever produces in a loop passes the same object, and
/// comparing addresses is all that is left of the look-up.
///
/// The GIL orders all accesses. Each object is held, so that no other can get its address.
pub(super) struct Topics {
    places: [Place; PLACES],
}

const PLACES: usize = 8;

#[derive(Default)]
struct Place {
    address: AtomicUsize,
    id: AtomicU32,
    held: Mutex<Option<Py<PyString>>>,
}

impl Topics {
    pub(super) fn new() -> Self {
        Self { places: std::array::from_fn(|_| Place::default()) }
    }

    #[inline]
    pub(super) fn id(&self, producer: &grete_client::Producer, topic: &Bound<'_, PyAny>) -> PyResult<TopicId> {
        let address = topic.as_ptr() as usize;
        // Objects are 16 bytes apart at least.
        let place = &self.places[(address >> 4) % PLACES];
        if place.address.load(Relaxed) == address {
            return Ok(TopicId(place.id.load(Relaxed)));
        }
        place.look_up(producer, topic)
    }
}

impl Place {
    #[cold]
    fn look_up(&self, producer: &grete_client::Producer, topic: &Bound<'_, PyAny>) -> PyResult<TopicId> {
        let Ok(name) = topic.cast::<PyString>() else {
            let message = format!("a topic is a str, not {}", topic.get_type().name()?);
            return Err(errors::record_type(&message, &topic.to_string()));
        };
        let id = producer.topic(name.to_str()?);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let before = held.replace(name.clone().unbind());
        self.address.store(topic.as_ptr() as usize, Relaxed);
        self.id.store(id.0, Relaxed);
        drop(held);
        drop(before);
        Ok(id)
    }
}
