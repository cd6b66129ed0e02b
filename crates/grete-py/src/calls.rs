//! Calls into CPython that handing out records one by one needs and PyO3 does not have.
#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyFunction;

/// `function(argument)`.
#[inline]
pub(crate) fn one<'py>(function: &Bound<'py, PyAny>, argument: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // The place before the arguments is the callee's to use: a bound method puts its `self` there.
    let mut arguments = [std::ptr::null_mut(), argument.as_ptr()];
    // SAFETY: one argument, which is alive during the call, and the writable place before it that the flag promises.
    unsafe {
        let result = ffi::PyObject_Vectorcall(
            function.as_ptr(),
            arguments.as_mut_ptr().add(1),
            1 | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET,
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(function.py(), result)
    }
}

/// What a `ContextVar` has in this context, or its default.
#[inline]
pub(crate) fn context_value<'py>(variable: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut value = std::ptr::null_mut();
    // SAFETY: the variable is alive, and CPython checks what it is; `value` is a valid out pointer, that gets a new
    // reference or null.
    unsafe {
        if ffi::PyContextVar_Get(variable.as_ptr(), std::ptr::null_mut(), &raw mut value) < 0 {
            return Err(PyErr::fetch(variable.py()));
        }
        Ok(Bound::from_owned_ptr_or_opt(variable.py(), value))
    }
}

/// Sets a `ContextVar` in this context. The token sets it back.
#[inline]
pub(crate) fn set_context_value<'py>(
    variable: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: both are alive, and CPython checks that the first is a ContextVar; a new reference or null comes back.
    unsafe { Bound::from_owned_ptr_or_err(variable.py(), ffi::PyContextVar_Set(variable.as_ptr(), value.as_ptr())) }
}

/// Sets a `ContextVar` back to what it was before the call that returned the token.
#[inline]
pub(crate) fn reset_context_value(variable: &Bound<'_, PyAny>, token: &Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: both are alive, and CPython checks that they are a ContextVar and one of its tokens.
    match unsafe { ffi::PyContextVar_Reset(variable.as_ptr(), token.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(variable.py())),
    }
}

/// Whether it is to be awaited: a coroutine, a future.
#[inline]
pub(crate) fn is_awaitable(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive and with it its type, whose table of async slots is null or lives as long.
    unsafe {
        let slots = (*ffi::Py_TYPE(object.as_ptr())).tp_as_async;
        !slots.is_null() && (*slots).am_await.is_some()
    }
}

/// Whether nobody but the holder of `object` refers to it.
#[inline]
pub(crate) fn is_only_reference<T>(object: &Bound<'_, T>) -> bool {
    // SAFETY: the object is alive, and the GIL is held, so that the count stays what it is.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) == 1 }
}

/// Whether a call of it runs Python code first of all, which answers signals and lets other threads have the GIL.
pub(crate) fn runs_python(function: &Bound<'_, PyAny>) -> bool {
    if function.is_instance_of::<PyFunction>() {
        return true;
    }
    let Ok(inner) = function.getattr("__func__") else { return false };
    inner.is_instance_of::<PyFunction>()
}

/// The exception that is on its way through the frames of this thread, as an object.
pub(crate) fn exception_under_way(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: what is fetched is restored, and the object is borrowed from it before that.
    unsafe {
        if ffi::PyErr_Occurred().is_null() {
            return None;
        }
        let (mut class, mut value, mut traceback) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        ffi::PyErr_Fetch(&raw mut class, &raw mut value, &raw mut traceback);
        ffi::PyErr_NormalizeException(&raw mut class, &raw mut value, &raw mut traceback);
        let exception = Bound::from_borrowed_ptr_or_opt(py, value);
        ffi::PyErr_Restore(class, value, traceback);
        exception
    }
}
