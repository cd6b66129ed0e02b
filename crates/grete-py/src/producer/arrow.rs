//! Records from whatever exports Arrow.

use grete_columns::{ImportError, Imported};
use pyo3::prelude::*;

use super::field::Going;
use crate::buffers;

/// The arrays of an object that exports them; `None`: it does not.
pub(super) fn arrays(object: &Bound<'_, PyAny>, going: Going<'_, '_>) -> PyResult<Option<Vec<Imported>>> {
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
    while let Some(array) = stream.next_array().map_err(|error| refused(&error, going))? {
        arrays.push(array);
    }
    Ok(Some(arrays))
}

pub(super) fn refused(error: &ImportError, going: Going<'_, '_>) -> PyErr {
    going.type_error(&error.to_string())
}
