//! Conversions between Rust's values and Python's that several classes share.

use std::time::Duration;

use grete_client::produce::Outcome;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Timeout without a limit: one year, so that deadlines can still add it.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Returns the duration; `None`: no limit. Refuses numbers that are no duration.
pub(crate) fn parse_timeout(timeout: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(timeout) = timeout else { return Ok(None) };
    if timeout.is_infinite() && timeout > 0.0 {
        return Ok(None);
    }
    Duration::try_from_secs_f64(timeout)
        .map(Some)
        .map_err(|_| PyValueError::new_err(format!("a timeout is a number of seconds from 0 up, not {timeout}")))
}

/// Returns the duration, at most [`FOREVER`].
pub(crate) fn timeout_or_forever(timeout: Option<f64>) -> PyResult<Duration> {
    Ok(parse_timeout(timeout)?.map_or(FOREVER, |timeout| timeout.min(FOREVER)))
}

/// Returns the nanoseconds; `u64::MAX` where they do not fit.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the outcome as in `Delivery.outcome`.
pub(crate) fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Written => "written",
        Outcome::NotWritten => "not_written",
        Outcome::Unknown => "unknown",
        Outcome::Aborted => "aborted",
    }
}
