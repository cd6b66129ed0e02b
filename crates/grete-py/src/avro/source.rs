//! Source that takes values from Python objects.

use grete_avro::{EncodeError, Kind, Logical, NodeId, Schema, Source};
use pyo3::exceptions::{PyAttributeError, PyKeyError};
use pyo3::prelude::*;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyIterator, PyList, PyMapping, PyMemoryView, PyString,
    PyTuple,
};

use crate::avro::error::AvroError;
use crate::avro::shapes::Shapes;
use crate::avro::{numbers, times};
use crate::ffi::buffers::Contiguous;

/// Source for one datum.
pub(super) struct PySource<'a, 'py> {
    py: Python<'py>,
    pub(super) schema: &'a Schema,
    pub(super) shapes: &'a Shapes,
}

impl<'a, 'py> PySource<'a, 'py> {
    pub(super) fn new(py: Python<'py>, schema: &'a Schema, shapes: &'a Shapes) -> Self {
        Self { py, schema, shapes }
    }
}

/// Makes the error of a value whose type does not fit.
#[cold]
fn misfit<T>(value: &Bound<'_, PyAny>, wanted: &str) -> Result<T, AvroError> {
    let is = value.get_type().qualname().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    Err(EncodeError::new(format!("a {wanted} is needed, the value is a {is}")).into())
}

impl<'py> Source for PySource<'_, 'py> {
    type Value = Bound<'py, PyAny>;
    type Key = Bound<'py, PyAny>;
    type List = Bound<'py, PyAny>;
    type Error = AvroError;

    #[inline]
    fn is_null(&mut self, value: &Bound<'py, PyAny>) -> bool {
        value.is_none()
    }
    #[inline]
    fn boolean(&mut self, value: &Bound<'py, PyAny>) -> Result<bool, AvroError> {
        match value.cast::<PyBool>() {
            Ok(value) => Ok(value.is_true()),
            Err(_) => misfit(value, "bool"),
        }
    }
    #[inline]
    fn integer(&mut self, value: &Bound<'py, PyAny>, logical: Logical) -> Result<i64, AvroError> {
        if let Ok(number) = value.cast_exact::<PyInt>() {
            return number.extract().map_err(|_| EncodeError::new(format!("{value} does not fit into 64 bits")).into());
        }
        if logical != Logical::None
            && let Some(number) = times::to_integer(value, logical)?
        {
            return Ok(number);
        }
        if value.is_instance_of::<PyBool>() {
            return misfit(value, "number");
        }
        value.extract().or_else(|_| misfit(value, integer_name(logical)))
    }
    #[inline]
    fn double(&mut self, value: &Bound<'py, PyAny>) -> Result<f64, AvroError> {
        if let Ok(number) = value.cast_exact::<PyFloat>() {
            return Ok(number.value());
        }
        if value.is_instance_of::<PyBool>() {
            return misfit(value, "number");
        }
        value.extract().or_else(|_| misfit(value, "number"))
    }
    #[inline]
    fn bytes(
        &mut self,
        value: &Bound<'py, PyAny>,
        logical: Logical,
        size: Option<usize>,
        put: impl FnOnce(&[u8]),
    ) -> Result<(), AvroError> {
        if let Ok(bytes) = value.cast::<PyBytes>() {
            put(bytes.as_bytes());
            return Ok(());
        }
        match logical {
            Logical::Decimal { precision, scale } => {
                if let Some(bytes) = numbers::decimal_bytes(value, precision, scale, size)? {
                    put(&bytes);
                    return Ok(());
                }
                return misfit(value, "Decimal");
            }
            Logical::Uuid => {
                if let Some(number) = numbers::uuid_number(value)? {
                    put(&number.to_be_bytes());
                    return Ok(());
                }
            }
            _ => {}
        }
        if value.is_instance_of::<PyByteArray>() || value.is_instance_of::<PyMemoryView>() {
            match Contiguous::from_object(value)? {
                Some(buffer) => put(buffer.bytes()),
                None => return misfit(value, "bytes"),
            }
            return Ok(());
        }
        misfit(value, "bytes")
    }
    #[inline]
    fn key(&mut self, key: &Bound<'py, PyAny>, put: impl FnOnce(&str)) -> Result<(), AvroError> {
        match key.cast::<PyString>() {
            Ok(text) => put(text.to_str()?),
            Err(_) => return misfit(key, "str as key of a map"),
        }
        Ok(())
    }
    #[inline]
    fn string(&mut self, value: &Bound<'py, PyAny>, logical: Logical, put: impl FnOnce(&str)) -> Result<(), AvroError> {
        if let Ok(text) = value.cast::<PyString>() {
            put(text.to_str()?);
            return Ok(());
        }
        if logical == Logical::Uuid
            && let Some(number) = numbers::uuid_number(value)?
        {
            put(&numbers::uuid_text(number));
            return Ok(());
        }
        if let Some(inner) = enum_text(value) {
            put(inner.to_str()?);
            return Ok(());
        }
        misfit(value, "str")
    }
    fn symbol(&mut self, value: &Bound<'py, PyAny>, node: NodeId) -> Result<u32, AvroError> {
        let shape = self.shapes.enumeration(node)?;
        let text = match value.cast::<PyString>() {
            Ok(text) => text.clone(),
            Err(_) => match enum_text(value) {
                Some(text) => text,
                None => return misfit(value, "str or Enum"),
            },
        };
        let symbol = text.to_str()?;
        match shape.numbers.get(symbol) {
            Some(number) => Ok(*number),
            None => Err(EncodeError::new(format!("{symbol:?} is no symbol of {}", self.schema.describe(node))).into()),
        }
    }
    #[inline]
    fn check_rest(&mut self, record: &Bound<'py, PyAny>, node: NodeId, found: usize) -> Result<(), AvroError> {
        let shape = self.shapes.record(node)?;
        let unknown = match record.cast::<PyDict>() {
            Ok(dict) if dict.len() == found => return Ok(()),
            Ok(dict) => {
                dict.keys().iter().map(|key| key.to_string()).find(|key| key != "-type" && !shape.names.contains(key))
            }
            Err(_) => shape.unknown_field(record)?,
        };
        match unknown {
            None => Ok(()),
            Some(name) => {
                let record = self.schema.describe(node);
                Err(EncodeError::new(format!(
                    "{record} has no field {name}, which the value has; add it to the schema, or leave it out"
                ))
                .into())
            }
        }
    }
    #[inline]
    fn field(
        &mut self,
        record: &Bound<'py, PyAny>,
        node: NodeId,
        field: usize,
    ) -> Result<Option<Bound<'py, PyAny>>, AvroError> {
        let shape = self.shapes.record(node)?;
        let Some(key) = shape.keys.get(field) else { return Ok(None) };
        let key = key.bind(self.py);
        if let Ok(dict) = record.cast::<PyDict>() {
            return Ok(dict.get_item(key)?);
        }
        if field == 0 && is_no_record(record) {
            return misfit(record, "dict or an object with the fields as attributes");
        }
        match record.getattr(key) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_instance_of::<PyAttributeError>(self.py) => {
                let Ok(mapping) = record.cast::<PyMapping>() else { return Ok(None) };
                match mapping.get_item(key) {
                    Ok(value) => Ok(Some(value)),
                    Err(error) if error.is_instance_of::<PyKeyError>(self.py) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }
    #[inline]
    fn list(&mut self, value: &Bound<'py, PyAny>) -> Result<(Bound<'py, PyAny>, usize), AvroError> {
        if let Ok(list) = value.cast::<PyList>() {
            return Ok((value.clone(), list.len()));
        }
        if let Ok(tuple) = value.cast::<PyTuple>() {
            return Ok((value.clone(), tuple.len()));
        }
        if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyDict>() {
            return misfit(value, "list");
        }
        let Ok(items) = PyIterator::from_object(value) else { return misfit(value, "list") };
        let list = PyList::new(self.py, items.collect::<PyResult<Vec<_>>>()?)?;
        let length = list.len();
        Ok((list.into_any(), length))
    }
    #[inline]
    fn item(&mut self, list: &Bound<'py, PyAny>, index: usize) -> Result<Bound<'py, PyAny>, AvroError> {
        if let Ok(list) = list.cast::<PyList>() {
            return Ok(list.get_item(index)?);
        }
        Ok(list.get_item(index)?)
    }
    fn entries(&mut self, value: &Bound<'py, PyAny>) -> Result<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>, AvroError> {
        if let Ok(dict) = value.cast::<PyDict>() {
            // Without a GIL, another thread may change the dict: locked, it stays as it is.
            return Ok(with_critical_section(dict.as_any(), || dict.iter().collect()));
        }
        let Ok(mapping) = value.cast::<PyMapping>() else { return misfit(value, "dict") };
        Ok(mapping.items()?.iter().map(|pair| pair.extract()).collect::<PyResult<Vec<_>>>()?)
    }
    fn branch(
        &mut self,
        value: &Bound<'py, PyAny>,
        node: NodeId,
    ) -> Result<(usize, Option<Bound<'py, PyAny>>), AvroError> {
        let Kind::Union(branches) = &self.schema.node(node).kind else { return misfit(value, "union") };
        if let Some((branch, inner)) = self.named_branch(value, branches)? {
            return Ok((branch, inner));
        }
        match self.best_branch(value, branches)? {
            Some(branch) => Ok((branch, None)),
            None => misfit(value, &self.schema.describe(node)),
        }
    }
    fn in_field(&mut self, mut error: AvroError, node: NodeId, field: usize) -> AvroError {
        if let (AvroError::Encode(error), Ok(shape)) = (&mut error, self.shapes.record(node)) {
            error.path.extend(shape.names.get(field).cloned());
        }
        error
    }
}

fn integer_name(logical: Logical) -> &'static str {
    match logical {
        Logical::Date => "date",
        Logical::TimeMillis | Logical::TimeMicros => "time",
        Logical::None => "number",
        _ => "datetime",
    }
}

/// Returns whether an object is one of those whose attributes are never the fields of a record.
#[inline]
fn is_no_record(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyList>()
}

/// Returns the text of a member of an `enum.Enum` whose value or, failing that, whose name is the text.
fn enum_text<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyString>> {
    let inner = value.getattr("_value_").ok()?; // members have it, other objects rarely do
    let name = value.getattr("_name_").ok()?;
    inner.cast_into::<PyString>().or_else(|_| name.cast_into::<PyString>()).ok()
}
