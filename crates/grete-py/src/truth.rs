//! `if event:` in a few nanoseconds.
#![allow(unsafe_code)]

use std::ffi::c_int;

use pyo3::prelude::*;
use pyo3::{PyTypeInfo, ffi};

use crate::event::Event;

/// Puts `truth` in the place of the function that PyO3 has made for `__bool__`. That one notes that the GIL is held, asks
/// whether the object is what the slot belongs to, and stands ready for panics: four times the cost of the answer.
pub(crate) fn install(py: Python<'_>) {
    let class = Event::type_object_raw(py);
    // SAFETY: the class is alive as long as the process. A class made at run time has its table of number slots within
    // itself. The GIL is held, and nobody has an instance yet.
    unsafe {
        let slots = (*class).tp_as_number;
        if !slots.is_null() {
            (*slots).nb_bool = Some(truth);
        }
    }
}

/// As `Event.__bool__`, which stays what it is for who calls it by that name.
unsafe extern "C" fn truth(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: the interpreter calls the slot with the GIL held and an instance of the class, which has no subclasses.
    let (py, object) = unsafe { (Python::assume_attached(), object) };
    // SAFETY: as above; the object is alive during the call.
    let event = unsafe { Borrowed::from_ptr(py, object) };
    // SAFETY: as above.
    let event = unsafe { event.cast_unchecked::<Event>() };
    c_int::from(event.get().listens())
}
