//! Objects that the cycle collector need not know.
#![allow(unsafe_code)]

use pyo3::prelude::*;
use pyo3::{PyClass, ffi};

/// A new object which the collector does not visit. PyO3 tracks each, though a class without `__traverse__` shows it
/// nothing: whoever keeps a hundred thousand of them would have them walked again and again for that.
#[inline]
pub(crate) fn new<T>(py: Python<'_>, value: T) -> PyResult<Bound<'_, T>>
where
    T: PyClass<BaseType = PyAny> + Into<PyClassInitializer<T>>,
{
    let object = Bound::new(py, value)?;
    // SAFETY: the object is alive, and of a class with the collector's flag, as PyO3 gives it to all. Deallocation takes
    // untracked objects, too.
    unsafe { ffi::PyObject_GC_UnTrack(object.as_ptr().cast()) };
    Ok(object)
}
