//! Dates, times and timestamps. Days count from 1970-01-01.

use grete_avro::Logical;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{
    PyDate, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess, PyTime, PyTimeAccess, PyTzInfo, PyTzInfoAccess,
};

const DAY_MICROS: i64 = 86_400_000_000;

/// Returns the object of an int or long with a logical type.
pub(super) fn from_integer(py: Python<'_>, value: i64, logical: Logical) -> PyResult<Bound<'_, PyAny>> {
    let micros = |factor: i64| value.checked_mul(factor).ok_or_else(|| beyond(value));
    match logical {
        Logical::Date => {
            let (year, month, day) = civil_checked(value)?;
            Ok(PyDate::new(py, year, month, day)?.into_any())
        }
        Logical::TimeMillis => time(py, micros(1000)?),
        Logical::TimeMicros => time(py, value),
        Logical::TimestampMillis => datetime(py, micros(1000)?, true),
        Logical::TimestampMicros => datetime(py, value, true),
        Logical::LocalTimestampMillis => datetime(py, micros(1000)?, false),
        Logical::LocalTimestampMicros => datetime(py, value, false),
        _ => Ok(super::numbers::int(py, value)),
    }
}

/// Returns the integer of an object with a logical type; `None`: the object is neither date nor time.
pub(super) fn to_integer(value: &Bound<'_, PyAny>, logical: Logical) -> PyResult<Option<i64>> {
    Ok(match logical {
        Logical::Date => value.cast::<PyDate>().ok().map(days),
        Logical::TimeMillis => value.cast::<PyTime>().ok().map(|time| time_micros(time).div_euclid(1000)),
        Logical::TimeMicros => value.cast::<PyTime>().ok().map(time_micros),
        Logical::TimestampMillis => timestamp(value, true)?.map(|micros| micros.div_euclid(1000)),
        Logical::TimestampMicros => timestamp(value, true)?,
        Logical::TimestampNanos => timestamp(value, true)?.map(nanos).transpose()?,
        Logical::LocalTimestampMillis => timestamp(value, false)?.map(|micros| micros.div_euclid(1000)),
        Logical::LocalTimestampMicros => timestamp(value, false)?,
        Logical::LocalTimestampNanos => timestamp(value, false)?.map(nanos).transpose()?,
        _ => None,
    })
}

fn nanos(micros: i64) -> PyResult<i64> {
    micros.checked_mul(1000).ok_or_else(|| PyValueError::new_err("the time does not fit into 64 bits of nanoseconds"))
}

#[cold]
fn beyond(value: i64) -> PyErr {
    PyValueError::new_err(format!("{value} is outside of the years 1 to 9999, which Python's dates have"))
}

fn time(py: Python<'_>, micros: i64) -> PyResult<Bound<'_, PyAny>> {
    if !(0..DAY_MICROS).contains(&micros) {
        return Err(PyValueError::new_err(format!("{micros} us is no time of day")));
    }
    let seconds = micros / 1_000_000;
    let (hour, minute, second) = ((seconds / 3600) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8);
    Ok(PyTime::new(py, hour, minute, second, (micros % 1_000_000) as u32, None)?.into_any())
}

fn datetime(py: Python<'_>, micros: i64, utc: bool) -> PyResult<Bound<'_, PyAny>> {
    let (year, month, day) = civil_checked(micros.div_euclid(DAY_MICROS)).map_err(|_| beyond(micros))?;
    let rest = micros.rem_euclid(DAY_MICROS);
    let seconds = rest / 1_000_000;
    let (hour, minute, second) = ((seconds / 3600) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8);
    let zone = if utc { Some(PyTzInfo::utc(py)?) } else { None };
    let zone = zone.as_deref();
    Ok(PyDateTime::new(py, year, month, day, hour, minute, second, (rest % 1_000_000) as u32, zone)?.into_any())
}

/// Returns the microseconds of a datetime. An instant needs a time zone; a local time has none, or loses it.
fn timestamp(value: &Bound<'_, PyAny>, instant: bool) -> PyResult<Option<i64>> {
    let Ok(datetime) = value.cast::<PyDateTime>() else { return Ok(None) };
    let local = days(datetime.cast::<PyDate>()?) * DAY_MICROS + clock_micros(datetime);
    if !instant {
        return Ok(Some(local));
    }
    let offset = match datetime.get_tzinfo() {
        None => None,
        Some(zone) if zone.is(PyTzInfo::utc(value.py())?) => return Ok(Some(local)),
        Some(_) => datetime.call_method0("utcoffset")?.cast_into::<PyDelta>().ok(),
    };
    let Some(offset) = offset else {
        return Err(PyValueError::new_err(
            "a timestamp is an instant, and the datetime has no time zone: give it one, like datetime.now(UTC)",
        ));
    };
    let seconds = i64::from(offset.get_days()) * 86_400 + i64::from(offset.get_seconds());
    Ok(Some(local - seconds * 1_000_000 - i64::from(offset.get_microseconds())))
}

fn days(date: &Bound<'_, PyDate>) -> i64 {
    days_from_civil(i64::from(date.get_year()), i64::from(date.get_month()), i64::from(date.get_day()))
}

fn time_micros(time: &Bound<'_, PyTime>) -> i64 {
    clock_micros(time)
}

fn clock_micros(time: &impl PyTimeAccess) -> i64 {
    let seconds = i64::from(time.get_hour()) * 3600 + i64::from(time.get_minute()) * 60 + i64::from(time.get_second());
    seconds * 1_000_000 + i64::from(time.get_microsecond())
}

/// Returns the days of a date in the Gregorian calendar (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns year, month and day of a number of days, within the years that Python has.
fn civil_checked(days: i64) -> PyResult<(i32, u8, u8)> {
    const FIRST: i64 = -719_162; // 0001-01-01
    const LAST: i64 = 2_932_896; // 9999-12-31
    if !(FIRST..=LAST).contains(&days) {
        return Err(beyond(days));
    }
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Ok((year as i32, month as u8, day as u8))
}
