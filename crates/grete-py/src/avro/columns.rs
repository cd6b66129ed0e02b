//! Arrow columns from the Avro values of records.

use std::collections::HashMap;
use std::sync::Arc;

use grete_arrow::BuiltTable;
use grete_avro::{DecodeError, Program, ResolveError, Schema, Table};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::avro::codec::AvroCodec;
use crate::avro::error::value_error;
use crate::consumer::message::Message;
use crate::consumer::messages::Messages;
use crate::ffi::buffers;

/// Zero byte and schema id before the data of a value.
const HEADER: usize = 5;

/// Columns for libraries that read Arrow through the PyCapsule interface: pyarrow, polars, duckdb.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct ArrowColumns(BuiltTable);

#[pymethods]
impl ArrowColumns {
    /// Names of the columns.
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.0.names()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Exports a struct with a field per column. `requested_schema` is ignored, which the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        Ok((buffers::schema_capsule(py, self.0.schema())?, buffers::array_capsule(py, self.0.array())?))
    }

    /// Exports the schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        buffers::schema_capsule(py, self.0.schema())
    }

    fn __repr__(&self) -> String {
        format!("<ArrowColumns of {} rows: {}>", self.0.len(), self.0.names().join(", "))
    }
}

/// Decodes the values of `messages` into columns, one row for each record.
///
/// `codec`: an `AvroCodec` for values without a header, or a function that returns the `AvroCodec` of a schema id, for
/// values that begin with a zero byte and the id. The columns are those of the first codec's reader schema; other
/// writers are resolved to it. A record without a value (a tombstone) is a row of nulls. Raises `DecodeError` with the
/// record that does not decode, and ValueError for a schema that Arrow has no types for.
#[pyfunction]
pub(crate) fn avro_columns(messages: &Bound<'_, Messages>, codec: &Bound<'_, PyAny>) -> PyResult<ArrowColumns> {
    let (py, this) = (messages.py(), messages.get());
    let mut filling = Filling { table: None, nulls: 0, programs: HashMap::new(), codec };
    if let Ok(codec) = codec.cast::<AvroCodec>() {
        filling.begin_table(codec.get()).map_err(value_error)?;
    }
    for row in this.range() {
        if let Err(failure) = filling.push(this.columns().value(row)) {
            let message = || Message::new(messages, row as u32).map(|message| message.into_any().unbind());
            return Err(match failure {
                Failure::Record(cause) => this.job_batch().decode_error(py, row, cause, message),
                Failure::Schema(error) => error,
            });
        }
    }
    let mut table = filling.table.map_or_else(Table::without_columns, |(table, _)| table);
    for _ in 0..filling.nulls {
        table.push_nulls().map_err(value_error)?; // tombstones only: no schema is known
    }
    Ok(ArrowColumns(table.finish()))
}

enum Failure {
    /// The record's value is at fault.
    Record(PyErr),
    /// No record could be converted.
    Schema(PyErr),
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::Record(value_error(error))
    }
}

/// Table under construction.
struct Filling<'a, 'py> {
    /// Table and its schema; `None`: no value has come yet.
    table: Option<(Table, Arc<Schema>)>,
    /// Tombstones before the first value.
    nulls: usize,
    /// Programs by schema id; -1 for values without a header.
    programs: HashMap<i64, Program>,
    codec: &'a Bound<'py, PyAny>,
}

impl Filling<'_, '_> {
    fn begin_table(&mut self, codec: &AvroCodec) -> Result<(), ResolveError> {
        self.table = Some((Table::new(codec.reader())?, Arc::clone(codec.reader())));
        Ok(())
    }

    fn push(&mut self, value: Option<&[u8]>) -> Result<(), Failure> {
        let Some(value) = value else {
            match &mut self.table {
                Some((table, _)) => table.push_nulls()?,
                None => self.nulls += 1,
            }
            return Ok(());
        };
        let (id, data) = if self.codec.is_instance_of::<AvroCodec>() {
            (-1, value)
        } else {
            match value.split_at_checked(HEADER) {
                Some(([0, id @ ..], data)) => (id.iter().fold(0, |sum, byte| sum << 8 | i64::from(*byte)), data),
                _ => {
                    return Err(DecodeError::new(
                        "the value does not begin with a zero byte and a schema id, as an Avro serializer writes them",
                    )
                    .into());
                }
            }
        };
        if !self.programs.contains_key(&id) {
            self.compile(id)?;
        }
        let (Some((table, _)), Some(program)) = (&mut self.table, self.programs.get(&id)) else {
            return Err(DecodeError::new("the schema is not known").into());
        };
        table.begin_row();
        program.decode(data, table)?;
        table.end_row()?;
        Ok(())
    }

    fn compile(&mut self, id: i64) -> Result<(), Failure> {
        let found = match self.codec.cast::<AvroCodec>() {
            Ok(codec) => codec.clone(),
            Err(_) => {
                let found = self.codec.call1((id,)).map_err(Failure::Record)?;
                found.cast_into::<AvroCodec>().map_err(|error| Failure::Schema(error.into()))?
            }
        };
        let codec = found.get();
        if self.table.is_none() {
            self.begin_table(codec).map_err(|error| Failure::Schema(value_error(error)))?;
            for _ in 0..std::mem::take(&mut self.nulls) {
                if let Some((table, _)) = &mut self.table {
                    table.push_nulls()?;
                }
            }
        }
        let Some((_, reader)) = &self.table else { return Ok(()) };
        let program = Program::compile(codec.writer(), reader).map_err(|error| Failure::Record(value_error(error)))?;
        self.programs.insert(id, program);
        Ok(())
    }
}
