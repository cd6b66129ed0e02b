//! Codec of one pair of schemas.

use std::sync::{Arc, Mutex, PoisonError};

use grete_avro::{Program, Schema, encode};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::avro::error::value_error;
use crate::avro::shapes::Shapes;
use crate::avro::sink::PySink;
use crate::avro::source::PySource;

/// Capacity of an output buffer that is kept for the next record, in bytes.
const MAX_KEPT: usize = 1 << 20;

/// Avro's binary encoding for one writer's schema and one reader's schema, both compiled once. Threads may share it.
///
/// `decode` makes a dict of each record (or an object of its class in `types`), with dates, times, Decimals and UUIDs
/// for logical types. A duration is its 12 bytes; a timestamp in nanoseconds is an int. `encode` takes dicts and
/// objects with attributes.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct AvroCodec {
    writer: Arc<Schema>,
    reader: Arc<Schema>,
    program: Program,
    writer_shapes: Shapes,
    reader_shapes: Shapes,
    prefix: Vec<u8>,
    /// Output buffer between two calls.
    buffer: Mutex<Vec<u8>>,
}

impl AvroCodec {
    pub(crate) fn writer(&self) -> &Arc<Schema> {
        &self.writer
    }

    pub(crate) fn reader(&self) -> &Arc<Schema> {
        &self.reader
    }
}

#[pymethods]
impl AvroCodec {
    /// Parses and compiles. `reader_schema`: the schema to read with; None: the writer's. `references`: schemas whose
    /// named types both use, each after those that it uses itself. `types`: for the full name of a record a tuple
    /// (class, names of positional arguments, names of keyword arguments), for that of an enum a dict of its symbols.
    /// `prefix`: put before each encoding. Raises ValueError for schemas that are not valid or do not match.
    #[new]
    #[pyo3(signature = (writer_schema, reader_schema=None, *, references=Vec::new(), types=None, prefix=Vec::new()))]
    fn new(
        py: Python<'_>,
        writer_schema: &str,
        reader_schema: Option<&str>,
        references: Vec<String>,
        types: Option<&Bound<'_, PyDict>>,
        prefix: Vec<u8>,
    ) -> PyResult<Self> {
        let references: Vec<&str> = references.iter().map(String::as_str).collect();
        let writer = Arc::new(Schema::parse_with(writer_schema, &references).map_err(value_error)?);
        let reader = match reader_schema {
            None => Arc::clone(&writer),
            // A reader's schema is whole, or uses the same references.
            Some(text) => {
                Arc::new(Schema::parse(text).or_else(|_| Schema::parse_with(text, &references)).map_err(value_error)?)
            }
        };
        let program = Program::compile(&writer, &reader).map_err(value_error)?;
        let (writer_shapes, reader_shapes) = (Shapes::new(py, &writer, None)?, Shapes::new(py, &reader, types)?);
        Ok(Self { writer, reader, program, writer_shapes, reader_shapes, prefix, buffer: Mutex::default() })
    }

    /// Decodes the bytes from `start` to their end. Raises ValueError for bytes that are no data of the writer's
    /// schema, or that have no equivalent in Python (a date after the year 9999).
    #[pyo3(signature = (data, start=0, /))]
    fn decode<'py>(&self, data: &Bound<'py, PyBytes>, start: usize) -> PyResult<Bound<'py, PyAny>> {
        let bytes = data.as_bytes().get(start..).unwrap_or_default();
        Ok(self.program.decode(bytes, &mut PySink::new(data.py(), &self.reader_shapes))?)
    }

    /// Encodes an object with the writer's schema. Raises ValueError if it does not fit.
    #[pyo3(signature = (value, /))]
    fn encode<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let py = value.py();
        // The object's own code may call this codec again, so the buffer is taken rather than locked.
        let mut out = std::mem::take(&mut *self.buffer.lock().unwrap_or_else(PoisonError::into_inner));
        out.clear();
        out.extend_from_slice(&self.prefix);
        let mut source = PySource::new(py, &self.writer, &self.writer_shapes);
        encode(&self.writer, &mut source, value, &mut out)?;
        let encoded = PyBytes::new(py, &out);
        if out.capacity() <= MAX_KEPT {
            *self.buffer.lock().unwrap_or_else(PoisonError::into_inner) = out;
        }
        Ok(encoded)
    }

    fn __repr__(&self) -> String {
        let (writer, reader) = (&self.writer, &self.reader);
        format!("<AvroCodec {} as {}>", writer.describe(writer.root()), reader.describe(reader.root()))
    }
}
