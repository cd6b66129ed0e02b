//! Number slot that answers `if channel:` in a few nanoseconds.
#![allow(unsafe_code)]

use std::ffi::c_int;

use pyo3::prelude::*;
use pyo3::{PyTypeInfo, ffi};

use crate::event::EventChannel;

/// Replaces the `__bool__` slot that PyO3 generates by [`event_channel_bool`].
///
/// PyO3's slot records that the GIL is held, checks the type of the object and prepares for panics. That costs four
/// times as much as the answer.
pub(crate) fn install_bool_slot(py: Python<'_>) {
    let class = EventChannel::type_object_raw(py);
    // SAFETY: the class lives as long as the process. A class made at run time holds its table of number slots within
    // itself. No other thread has the class yet: the module is being made.
    unsafe {
        let slots = (*class).tp_as_number;
        if !slots.is_null() {
            (*slots).nb_bool = Some(event_channel_bool);
        }
    }
}

/// Same as `EventChannel.__bool__`, which remains for callers that use it by name.
unsafe extern "C" fn event_channel_bool(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: the interpreter calls the slot in an attached thread with an instance of the class, which has no
    // subclasses.
    let (py, object) = unsafe { (Python::assume_attached(), object) };
    // SAFETY: same as above; the object is alive during the call.
    let event = unsafe { Borrowed::from_ptr(py, object) };
    // SAFETY: same as above.
    let event = unsafe { event.cast_unchecked::<EventChannel>() };
    c_int::from(event.get().has_listeners())
}
