//! Errors of Avro data and of Python, as one type.

use grete_avro::{DecodeError, EncodeError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Error of the data or of Python. Boxed, so that results stay small.
pub(super) enum AvroError {
    Decode(Box<DecodeError>),
    Encode(Box<EncodeError>),
    Python(Box<PyErr>),
}

impl From<DecodeError> for AvroError {
    #[cold]
    fn from(error: DecodeError) -> Self {
        Self::Decode(Box::new(error))
    }
}

impl From<EncodeError> for AvroError {
    #[cold]
    fn from(error: EncodeError) -> Self {
        Self::Encode(Box::new(error))
    }
}

impl From<PyErr> for AvroError {
    #[cold]
    fn from(error: PyErr) -> Self {
        Self::Python(Box::new(error))
    }
}

impl From<AvroError> for PyErr {
    fn from(error: AvroError) -> Self {
        match error {
            AvroError::Decode(error) => value_error(error),
            AvroError::Encode(error) => value_error(error),
            AvroError::Python(error) => *error,
        }
    }
}

pub(super) fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
