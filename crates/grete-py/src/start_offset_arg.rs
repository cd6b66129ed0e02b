//! Start offsets from Python values.

use grete_client::Start;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};

const EXPECTED: &str = "an offset is an int, \"earliest\", \"latest\", a datetime, or None for the committed one";

/// Start offset: None = committed, an offset, "earliest", "latest", or a datetime (naive ones are local time).
pub(crate) struct StartOffsetArg(pub(crate) Start);

impl<'py> FromPyObject<'_, 'py> for StartOffsetArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if object.is_none() {
            return Ok(Self(Start::Committed));
        }
        if let Ok(name) = object.cast::<PyString>() {
            return match name.to_str()? {
                "earliest" => Ok(Self(Start::Earliest)),
                "latest" => Ok(Self(Start::Latest)),
                other => Err(PyValueError::new_err(format!("{EXPECTED}, not {other:?}"))),
            };
        }
        if !object.is_instance_of::<PyBool>() {
            match object.extract::<i64>() {
                Ok(offset) => return from_offset(offset),
                Err(error)
                    if object.is_instance_of::<PyInt>() || error.is_instance_of::<PyOverflowError>(object.py()) =>
                {
                    return Err(PyValueError::new_err(format!(
                        "offset {} is out of range: offsets are from 0 to {}",
                        *object,
                        i64::MAX
                    )));
                }
                Err(_) => {}
            }
            if object.hasattr("timestamp")? {
                return from_datetime(&object);
            }
        }
        Err(PyTypeError::new_err(format!("{EXPECTED}, not {}", object.get_type().name()?)))
    }
}

fn from_offset(offset: i64) -> PyResult<StartOffsetArg> {
    if offset < 0 {
        return Err(PyValueError::new_err(format!("offset {offset} is negative: offsets start at 0")));
    }
    Ok(StartOffsetArg(Start::Offset(offset)))
}

/// Converts a datetime. Times before 1970 are refused, because Kafka gives negative times special meanings: -1 is the
/// end of the partition.
fn from_datetime(time: &Bound<'_, PyAny>) -> PyResult<StartOffsetArg> {
    let seconds = time.call_method0("timestamp").and_then(|seconds| seconds.extract::<f64>());
    let milliseconds = seconds.map_or(f64::NAN, |seconds| (seconds * 1000.0).ceil());
    if (0.0..9e18).contains(&milliseconds) {
        return Ok(StartOffsetArg(Start::Timestamp(milliseconds as i64)));
    }
    Err(PyValueError::new_err(format!(
        "the time {time} is out of range: times are from 1970-01-01 UTC on; for the first record give \"earliest\""
    )))
}
