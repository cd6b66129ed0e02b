//! Headers from Python: a sequence of (name, value), or a dict.

use grete_wire::records::ProducerHeader;
use pyo3::prelude::*;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::bytes_arg::{BytesArg, RecordRef};

/// Checked names and values of headers.
#[derive(Default)]
pub(in crate::producer) struct Headers<'py> {
    pairs: Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>,
}

/// Headers in the form that a record's encoding borrows.
pub(in crate::producer) struct BorrowedHeaders<'a> {
    fields: Vec<(&'a str, BytesArg<'a>)>,
}

impl<'py> Headers<'py> {
    pub(in crate::producer) fn from_object(object: &Bound<'py, PyAny>, going: RecordRef<'_, '_>) -> PyResult<Self> {
        let mut pairs = Vec::new();
        if object.is_none() {
            return Ok(Self { pairs });
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            // Without a GIL, another thread may change the dict: locked, it stays as it is.
            with_critical_section(dict.as_any(), || {
                for (name, value) in dict {
                    pairs.push((header_name(&name, going)?, value));
                }
                PyResult::Ok(())
            })?;
            return Ok(Self { pairs });
        }
        if !object.is_instance_of::<PyList>() && !object.is_instance_of::<PyTuple>() {
            let is = object.get_type().name()?;
            return Err(going.type_error(&format!("its headers are a list of (str, bytes) pairs or a dict, not {is}")));
        }
        for pair in object.try_iter()? {
            let pair = pair?;
            let Some((name, value)) = pair.cast::<PyTuple>().ok().and_then(|pair| match pair.as_slice() {
                [name, value] => Some((name.clone(), value.clone())),
                _ => None,
            }) else {
                return Err(going.type_error(&format!("a header is a pair (str, bytes), not {}", pair.repr()?)));
            };
            pairs.push((header_name(&name, going)?, value));
        }
        Ok(Self { pairs })
    }

    /// Borrows all names and values.
    pub(in crate::producer) fn fields(&self, going: RecordRef<'_, '_>) -> PyResult<BorrowedHeaders<'_>> {
        let mut fields = Vec::with_capacity(self.pairs.len());
        for (name, value) in &self.pairs {
            let name = name.to_str().map_err(|_| going.type_error("the name of a header is not valid Unicode"))?;
            if !value.is_exact_instance_of::<PyBytes>() && value.is_instance_of::<PyString>() {
                return Err(
                    going.type_error(&format!("the value of its header {name:?} is a str: give value.encode()"))
                );
            }
            fields.push((name, BytesArg::from_object(value, "header value", going)?));
        }
        Ok(BorrowedHeaders { fields })
    }
}

impl BorrowedHeaders<'_> {
    pub(in crate::producer) fn as_wire(&self) -> Vec<ProducerHeader<'_>> {
        self.fields.iter().map(|(name, value)| ProducerHeader { key: name, value: value.get() }).collect()
    }
}

fn header_name<'py>(name: &Bound<'py, PyAny>, going: RecordRef<'_, '_>) -> PyResult<Bound<'py, PyString>> {
    match name.cast::<PyString>() {
        Ok(name) => Ok(name.clone()),
        Err(_) => Err(going.type_error(&format!("the name of a header is a str, not {}", name.get_type().name()?))),
    }
}
