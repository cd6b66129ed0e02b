//! Avro for Python objects.
//!
//! - `codec`: the Python class `AvroCodec`.
//! - `shapes`: names, classes and symbols of a schema as Python objects, made once.
//! - `sink`, `source`, `matching`: Python objects from decoded values, and values to encode from Python objects.
//! - `times`, `numbers`: logical types.
//! - `error`: errors of data and of Python.
//! - `columns`: Arrow columns from the values of records.

pub(super) mod codec;
pub(super) mod columns;
mod error;
mod matching;
mod numbers;
mod shapes;
mod sink;
mod source;
mod times;
