//! Unsafe code for buffers and capsules that lend Rust memory to Python.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};

use grete_arrow::{ArrowArray, ArrowArrayStream, ArrowSchema, ColumnLayouts, ImportedArray};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyCapsule, PyTuple};

/// Fills `view` with a read-only, one-dimensional buffer of i64 (`"q"`) that `owner` keeps alive.
///
/// # Safety
/// `view` is the struct that CPython passed to `__getbuffer__`. `data`, `shape` and `strides` live inside `owner`, or
/// are owned by it, at addresses that stay put until it is deallocated.
pub(crate) unsafe fn export_i64_buffer(
    owner: Bound<'_, PyAny>,
    data: &[i64],
    shape: &isize,
    strides: &isize,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("no view to fill"));
    }
    if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
        return Err(PyBufferError::new_err("the column is read-only: what Kafka sent cannot be changed"));
    }
    // SAFETY: `view` is valid by contract; the pointers stay valid while `view.obj` holds its reference to the owner.
    unsafe {
        (*view).obj = owner.into_ptr();
        (*view).buf = data.as_ptr().cast_mut().cast();
        (*view).len = size_of_val(data).cast_signed();
        (*view).readonly = 1;
        (*view).itemsize = 8;
        (*view).format =
            if flags & ffi::PyBUF_FORMAT == ffi::PyBUF_FORMAT { c"q".as_ptr().cast_mut() } else { ptr::null_mut() };
        (*view).ndim = 1;
        (*view).shape =
            if flags & ffi::PyBUF_ND == ffi::PyBUF_ND { ptr::from_ref(shape).cast_mut() } else { ptr::null_mut() };
        (*view).strides = if flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES {
            ptr::from_ref(strides).cast_mut()
        } else {
            ptr::null_mut()
        };
        (*view).suboffsets = ptr::null_mut();
        (*view).internal = ptr::null_mut();
    }
    Ok(())
}

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// Returns a capsule of the PyCapsule interface that owns `schema`.
pub(crate) fn schema_capsule(py: Python<'_>, schema: ArrowSchema) -> PyResult<Bound<'_, PyCapsule>> {
    capsule(py, schema, SCHEMA, drop_capsule::<SchemaCapsule>)
}

/// Returns a capsule of the PyCapsule interface that owns `array`.
pub(crate) fn array_capsule(py: Python<'_>, array: ArrowArray) -> PyResult<Bound<'_, PyCapsule>> {
    capsule(py, array, ARRAY, drop_capsule::<ArrayCapsule>)
}

/// Returns the column layouts that a requested schema asks for; `None` as schema: the default layouts.
pub(crate) fn requested_layouts(requested: Option<&Bound<'_, PyCapsule>>) -> PyResult<ColumnLayouts> {
    let Some(capsule) = requested else { return Ok(ColumnLayouts::default()) };
    let pointer = capsule
        .pointer_checked(Some(SCHEMA))
        .map_err(|_| PyValueError::new_err("requested_schema must be a capsule named 'arrow_schema'"))?;
    // SAFETY: a capsule of that name holds a live ArrowSchema, and we hold the capsule.
    Ok(unsafe { grete_arrow::requested_layouts(pointer.as_ptr().cast::<ArrowSchema>()) })
}

/// Moves the array that `__arrow_c_array__` returned out of its capsules.
pub(crate) fn import_array(capsules: &Bound<'_, PyAny>) -> PyResult<ImportedArray> {
    let wrong = || PyTypeError::new_err("__arrow_c_array__ must return capsules 'arrow_schema' and 'arrow_array'");
    let pair = capsules.cast::<PyTuple>().map_err(|_| wrong())?;
    let [schema, array] = pair.as_slice() else { return Err(wrong()) };
    let pointer = |object: &Bound<'_, PyAny>, name| {
        object.cast::<PyCapsule>().ok().and_then(|capsule| capsule.pointer_checked(Some(name)).ok())
    };
    let (schema, array) = (pointer(schema, SCHEMA).ok_or_else(wrong)?, pointer(array, ARRAY).ok_or_else(wrong)?);
    // SAFETY: by the PyCapsule interface, capsules of these names hold structs of one export. The GIL, or the critical
    // section where there is none, keeps other calls of this function from taking the structs meanwhile.
    with_critical_section(capsules, || unsafe {
        let schema = ArrowSchema::take(schema.as_ptr().cast());
        let array = ArrowArray::take(array.as_ptr().cast());
        Ok(ImportedArray::new(array, schema))
    })
}

/// Moves the stream that `__arrow_c_stream__` returned out of its capsule.
pub(crate) fn import_stream(capsule: &Bound<'_, PyAny>) -> PyResult<ArrowArrayStream> {
    let pointer = capsule.cast::<PyCapsule>().ok().and_then(|capsule| capsule.pointer_checked(Some(STREAM)).ok());
    let wrong = || PyTypeError::new_err("__arrow_c_stream__ must return a capsule 'arrow_array_stream'");
    let pointer = pointer.ok_or_else(wrong)?;
    // SAFETY: same as in `import_array`.
    Ok(with_critical_section(capsule, || unsafe { ArrowArrayStream::take(pointer.as_ptr().cast()) }))
}

/// Contiguous bytes that an object lends through the buffer protocol.
pub(crate) struct Contiguous {
    view: Box<ffi::Py_buffer>,
}

impl Contiguous {
    /// Returns `None` if the object has no buffer, and an error if its buffer is not contiguous.
    pub(crate) fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        // SAFETY: the object is alive.
        if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } == 0 {
            return Ok(None);
        }
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the view is ours, has a fixed address, and is released once, in `drop`.
        let filled = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, ffi::PyBUF_SIMPLE) };
        if filled == 0 { Ok(Some(Self { view })) } else { Err(PyErr::fetch(object.py())) }
    }

    /// Returns the bytes in their present state. Read them with the GIL held: without it, their owner may change them.
    /// On a free-threaded Python, the owner's other threads may do so at any time, as with every buffer. Then the copy
    /// that is made of the bytes is a mixture, and its length stays right, because a lent buffer is not resized.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.view.buf.is_null() || self.view.len <= 0 {
            return &[];
        }
        // SAFETY: PyBUF_SIMPLE promises `len` bytes at `buf` until the view is released.
        unsafe { std::slice::from_raw_parts(self.view.buf.cast::<u8>(), self.view.len.cast_unsigned()) }
    }
}

impl Drop for Contiguous {
    fn drop(&mut self) {
        // SAFETY: filled in `from_object`; a value that is not `Send` is dropped on the thread that made it, which is
        // attached.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.view) }
    }
}

fn capsule<'py, T>(
    py: Python<'py>,
    value: T,
    name: &'static CStr,
    destructor: ffi::PyCapsule_Destructor,
) -> PyResult<Bound<'py, PyCapsule>> {
    let pointer = NonNull::from(Box::leak(Box::new(value))).cast::<c_void>();
    // SAFETY: the pointer is a leaked box of the type that `destructor` takes back.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, pointer, name, Some(destructor)) }
}

trait CapsulePayload {
    type Value;
    const NAME: &'static CStr;
}

struct SchemaCapsule;
impl CapsulePayload for SchemaCapsule {
    type Value = ArrowSchema;
    const NAME: &'static CStr = SCHEMA;
}

struct ArrayCapsule;
impl CapsulePayload for ArrayCapsule {
    type Value = ArrowArray;
    const NAME: &'static CStr = ARRAY;
}

/// Frees the struct of a capsule. A struct that a consumer has moved out has no release callback left, so only its
/// allocation is freed.
unsafe extern "C" fn drop_capsule<O: CapsulePayload>(capsule: *mut ffi::PyObject) {
    // SAFETY: CPython calls this once, with the capsule that `capsule()` made for this very type.
    unsafe {
        let pointer = ffi::PyCapsule_GetPointer(capsule, O::NAME.as_ptr());
        if !pointer.is_null() {
            drop(Box::from_raw(pointer.cast::<O::Value>()));
        }
    }
}
