//! CPython calls that PyO3 lacks, mostly for handing out records one by one.
#![allow(unsafe_code)]

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyTuple};
use pyo3::{PyClass, ffi};

/// Calls `function(argument)`.
#[inline]
pub(crate) fn call_one_arg<'py>(
    function: &Bound<'py, PyAny>,
    argument: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // A callee may use the element before the arguments: a bound method puts its `self` there.
    let mut arguments = [std::ptr::null_mut(), argument.as_ptr()];
    // SAFETY: one argument, which is alive during the call, and the writable element before it that the flag promises.
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

/// Calls `function` with positional arguments, the last of which have the names `keywords`. `None` among the arguments is
/// Python's None.
pub(crate) fn call_with<'py>(
    function: &Bound<'py, PyAny>,
    arguments: &[Option<Bound<'py, PyAny>>],
    keywords: Option<&Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    let none = py.None();
    let mut pointers = Vec::with_capacity(arguments.len() + 1);
    pointers.push(std::ptr::null_mut());
    pointers.extend(arguments.iter().map(|one| one.as_ref().map_or(none.as_ptr(), Bound::as_ptr)));
    let named = keywords.map_or(0, |names| names.len());
    if named > arguments.len() {
        return Err(PyTypeError::new_err("more names than arguments"));
    }
    // SAFETY: all arguments are alive during the call; the names are a tuple of the last `named` of them; before the
    // arguments is the writable element that the flag promises.
    unsafe {
        let result = ffi::PyObject_Vectorcall(
            function.as_ptr(),
            pointers.as_mut_ptr().add(1),
            (arguments.len() - named) | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET,
            keywords.map_or(std::ptr::null_mut(), |names| names.as_ptr()),
        );
        Bound::from_owned_ptr_or_err(py, result)
    }
}

/// Returns the value of a `ContextVar` in this context, or its default.
#[inline]
pub(crate) fn context_value<'py>(variable: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut value = std::ptr::null_mut();
    // SAFETY: the variable is alive, and CPython checks its type. `value` is a valid out pointer that receives a new
    // reference or null.
    unsafe {
        if ffi::PyContextVar_Get(variable.as_ptr(), std::ptr::null_mut(), &raw mut value) < 0 {
            return Err(PyErr::fetch(variable.py()));
        }
        Ok(Bound::from_owned_ptr_or_opt(variable.py(), value))
    }
}

/// Sets a `ContextVar` in this context. Returns the token for [`reset_context_value`].
#[inline]
pub(crate) fn set_context_value<'py>(
    variable: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: both are alive, and CPython checks that the first is a ContextVar. The call returns a new reference or
    // null.
    unsafe { Bound::from_owned_ptr_or_err(variable.py(), ffi::PyContextVar_Set(variable.as_ptr(), value.as_ptr())) }
}

/// Restores a `ContextVar` to its value before the call that returned the token.
#[inline]
pub(crate) fn reset_context_value(variable: &Bound<'_, PyAny>, token: &Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: both are alive, and CPython checks that they are a ContextVar and one of its tokens.
    match unsafe { ffi::PyContextVar_Reset(variable.as_ptr(), token.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(variable.py())),
    }
}

/// Returns whether an object can be awaited (a coroutine, a future).
#[inline]
pub(crate) fn is_awaitable(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive, and so is its type. The type's table of async slots is null or lives as long.
    unsafe {
        let slots = (*ffi::Py_TYPE(object.as_ptr())).tp_as_async;
        !slots.is_null() && (*slots).am_await.is_some()
    }
}

/// Returns whether `object` is the only reference to its object.
///
/// If so, no other thread can make a second one, with or without a GIL: a new reference is a copy of one that a thread
/// has. (References that the interpreter borrows for its stack are those of variables, which count.) Two threads that
/// ask for the same `object` at once must take turns.
#[inline]
pub(crate) fn is_only_reference<T>(object: &Bound<'_, T>) -> bool {
    // SAFETY: the object is alive.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) == 1 }
}

/// Makes an object that the collector does not visit.
///
/// PyO3 tracks every object, though a class without `__traverse__` has nothing to visit. For a program that keeps a
/// hundred thousand of them, the collector would walk them again and again for nothing.
#[inline]
pub(crate) fn new_untracked<T>(py: Python<'_>, value: T) -> PyResult<Bound<'_, T>>
where
    T: PyClass<BaseType = PyAny> + Into<PyClassInitializer<T>>,
{
    let object = Bound::new(py, value)?;
    // SAFETY: the object is alive, and of a class with the collector's flag, which PyO3 gives to all. Deallocation
    // accepts untracked objects, too.
    unsafe { ffi::PyObject_GC_UnTrack(object.as_ptr().cast()) };
    Ok(object)
}

/// Returns whether a call of `function` starts with Python code, which runs signal handlers and lets other threads have
/// the GIL.
pub(crate) fn is_python_function(function: &Bound<'_, PyAny>) -> bool {
    if function.is_instance_of::<PyFunction>() {
        return true;
    }
    let Ok(inner) = function.getattr("__func__") else { return false };
    inner.is_instance_of::<PyFunction>()
}

/// Returns the exception that is propagating through the frames of this thread, as an object.
// Python 3.11 has no other functions than those which 3.12 deprecates; `PyErr::take` would raise a panic again.
#[allow(deprecated)]
pub(crate) fn current_exception(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the fetched exception is restored, and the object is borrowed from it before that.
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
