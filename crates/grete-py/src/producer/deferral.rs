//! Records for new topics, produced in the thread of a running event loop: `produce` must not wait there.

use std::sync::atomic::{AtomicBool, Ordering};

use grete_client::produce::AppendError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::delivery::Delivery;
use super::produce_args::ProduceArgs;
use super::{Producer, typed_topic};
use crate::ffi::cpython;

/// Whether an event loop has deferred records, so that later records of their topics must not overtake them.
#[derive(Debug, Default)]
pub(super) struct Deferral(AtomicBool);

impl Deferral {
    #[inline]
    fn is_active(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set_active(&self, active: bool) {
        self.0.store(active, Ordering::Relaxed);
    }
}

impl Producer {
    /// Takes a record as `produce` does. In the thread of a running event loop, a record whose topic has no metadata
    /// yet is left to a task of the loop instead (`_defer`), which returns an object like a `Delivery`.
    pub(super) fn produce_or_defer<'py>(
        slf: &Bound<'py, Self>,
        given: &ProduceArgs<'_, 'py>,
        on_delivery: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !given.topic.is_instance_of::<PyString>() {
            return typed_topic::encode(given)?.lend(|given| Self::produce_or_defer(slf, given, on_delivery));
        }
        let (py, this, client) = (slf.py(), slf.get(), Self::open_client(slf)?);
        if this.deferral.is_active() && slf.call_method1(intern!(py, "_is_deferred"), (given.topic,))?.is_truthy()? {
            return Self::defer(slf, given, on_delivery);
        }
        let id = this.topics.id(client, given.topic)?;
        let tried =
            given.with_record(id, |going, record, own_time| this.try_append(client, going, record, own_time))?;
        let (delivery, wake) = match tried {
            Ok((receipt, index, wake)) => {
                (cpython::new_untracked(py, Delivery::new(slf.clone().unbind(), receipt, index))?, wake)
            }
            Err(AppendError::NoMetadata) if slf.call_method0(intern!(py, "_is_in_event_loop"))?.is_truthy()? => {
                client.wake_network_thread();
                return Self::defer(slf, given, on_delivery);
            }
            Err(_) => Self::append(slf, given)?,
        };
        Self::finish_produce(slf, delivery, wake, on_delivery).map(Bound::into_any)
    }

    #[cold]
    fn defer<'py>(
        slf: &Bound<'py, Self>,
        given: &ProduceArgs<'_, 'py>,
        on_delivery: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let record = (given.topic, given.value, given.key, given.headers, given.partition, given.timestamp);
        slf.call_method1(intern!(slf.py(), "_defer"), (record, on_delivery))
    }
}
