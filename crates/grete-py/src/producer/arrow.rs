//! Records from objects that export Arrow.

use grete_arrow::{ImportError, ImportedArray};
use pyo3::prelude::*;

use super::bytes_arg::RecordRef;
use crate::ffi::buffers;

/// Returns the arrays of an object that exports Arrow; `None` if it does not.
pub(super) fn import_arrays(
    object: &Bound<'_, PyAny>,
    going: RecordRef<'_, '_>,
) -> PyResult<Option<Vec<ImportedArray>>> {
    let py = object.py();
    if object.hasattr(pyo3::intern!(py, "__arrow_c_array__"))? {
        let capsules = object.call_method0(pyo3::intern!(py, "__arrow_c_array__"))?;
        return Ok(Some(vec![buffers::import_array(&capsules)?]));
    }
    if !object.hasattr(pyo3::intern!(py, "__arrow_c_stream__"))? {
        return Ok(None);
    }
    let capsule = object.call_method0(pyo3::intern!(py, "__arrow_c_stream__"))?;
    let mut stream = buffers::import_stream(&capsule)?;
    let mut arrays = Vec::new();
    while let Some(array) = stream.next_array().map_err(|error| invalid_arrow(&error, going))? {
        arrays.push(array);
    }
    Ok(Some(arrays))
}

pub(super) fn invalid_arrow(error: &ImportError, going: RecordRef<'_, '_>) -> PyErr {
    going.type_error(&error.to_string())
}
