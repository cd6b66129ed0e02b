//! Integers, decimals and UUIDs.

use grete_avro::Logical;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyInt, PyString, PyType};

/// Bytes of a decimal that is computed without Python's integers.
const I128_BYTES: usize = 16;

static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static UUID: PyOnceLock<Py<PyType>> = PyOnceLock::new();

fn decimal_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    DECIMAL.import(py, "decimal", "Decimal")
}

fn uuid_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    UUID.import(py, "uuid", "UUID")
}

#[inline]
pub(super) fn int(py: Python<'_>, value: i64) -> Bound<'_, PyAny> {
    PyInt::new(py, value).into_any()
}

/// Returns the object of bytes or a fixed with a logical type.
pub(super) fn from_bytes<'py>(py: Python<'py>, bytes: &[u8], logical: Logical) -> PyResult<Bound<'py, PyAny>> {
    match logical {
        Logical::Decimal { scale, .. } => decimal(py, bytes, scale),
        Logical::Uuid => {
            let arguments = (py.None(), PyBytes::new(py, bytes));
            uuid_class(py)?.call1(arguments)
        }
        _ => Ok(PyBytes::new(py, bytes).into_any()),
    }
}

fn decimal<'py>(py: Python<'py>, bytes: &[u8], scale: u32) -> PyResult<Bound<'py, PyAny>> {
    let digits = if bytes.len() <= I128_BYTES {
        let filler = if bytes.first().is_some_and(|first| first & 0x80 != 0) { 0xff } else { 0 };
        let mut value = [filler; I128_BYTES];
        value[I128_BYTES - bytes.len()..].copy_from_slice(bytes);
        i128::from_be_bytes(value).to_string()
    } else {
        let keywords = pyo3::types::PyDict::new(py);
        keywords.set_item("signed", true)?;
        let number =
            py.get_type::<PyInt>().call_method("from_bytes", (PyBytes::new(py, bytes), "big"), Some(&keywords))?;
        number.str()?.to_str()?.to_owned()
    };
    decimal_class(py)?.call1((format!("{digits}E-{scale}"),))
}

/// Returns the bytes of a Decimal times 10 to the power of `scale`; `None`: the object is no Decimal. `size`: that of a
/// fixed.
pub(super) fn decimal_bytes(
    value: &Bound<'_, PyAny>,
    precision: u32,
    scale: u32,
    size: Option<usize>,
) -> PyResult<Option<Vec<u8>>> {
    let py = value.py();
    if !value.is_instance(decimal_class(py)?)? {
        return Ok(None);
    }
    let text = value.str()?;
    let text = text.to_str()?;
    let misfit = |why: &str| PyValueError::new_err(format!("the decimal {text} {why}"));
    let (mantissa, exponent) = text.split_once('E').unwrap_or((text, "0"));
    let exponent: i64 = exponent.parse().map_err(|_| misfit("is no number"))?;
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(misfit("is no number"));
    }
    let shift = exponent - fraction.len() as i64 + i64::from(scale);
    let is_zero = digits.bytes().all(|byte| byte == b'0');
    if is_zero {
        digits = "0".into();
    } else if shift >= 0 {
        if shift > i64::from(precision) {
            return Err(misfit(&format!("has more than {precision} digits, the schema's precision")));
        }
        digits.extend(std::iter::repeat_n('0', shift as usize));
    } else {
        let cut = digits.len().saturating_sub(shift.unsigned_abs() as usize);
        if digits.bytes().skip(cut).any(|byte| byte != b'0') || cut == 0 {
            return Err(misfit(&format!("has more than {scale} digits after the point, the schema's scale")));
        }
        digits.truncate(cut);
    }
    let digits = digits.trim_start_matches('0');
    if digits.len() > precision as usize {
        return Err(misfit(&format!("has more than {precision} digits, the schema's precision")));
    }
    let signed = format!("{}{}", if negative { "-" } else { "" }, if digits.is_empty() { "0" } else { digits });
    match signed.parse::<i128>() {
        Ok(number) => Ok(Some(shortest(&number.to_be_bytes(), size))),
        Err(_) => {
            let number = py.get_type::<PyInt>().call1((signed,))?;
            let bits: usize = number.call_method0("bit_length")?.extract()?;
            let keywords = pyo3::types::PyDict::new(py);
            keywords.set_item("signed", true)?;
            let bytes = number.call_method("to_bytes", (bits / 8 + 1, "big"), Some(&keywords))?;
            Ok(Some(shortest(bytes.cast::<PyBytes>()?.as_bytes(), size)))
        }
    }
}

/// Returns the shortest two's complement, or that of `size` bytes if they suffice.
fn shortest(bytes: &[u8], size: Option<usize>) -> Vec<u8> {
    let mut rest = bytes;
    while let [first, second, ..] = rest
        && ((*first == 0 && second & 0x80 == 0) || (*first == 0xff && second & 0x80 != 0))
    {
        rest = &rest[1..];
    }
    let filler = if rest.first().is_some_and(|first| first & 0x80 != 0) { 0xff } else { 0 };
    let missing = size.unwrap_or(0).saturating_sub(rest.len());
    let mut out = vec![filler; missing];
    out.extend_from_slice(rest);
    out
}

/// Returns the UUID of a text.
pub(super) fn uuid_from_text<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    uuid_class(py)?.call1((PyString::new(py, text),))
}

/// Returns the number of a UUID; `None`: the object is none.
pub(super) fn uuid_number(value: &Bound<'_, PyAny>) -> PyResult<Option<u128>> {
    if !value.is_instance(uuid_class(value.py())?)? {
        return Ok(None);
    }
    value.getattr("int")?.extract().map(Some)
}

/// Returns the text of a UUID.
pub(super) fn uuid_text(number: u128) -> String {
    let hex = format!("{number:032x}");
    let (a, rest) = hex.split_at(8);
    let (b, rest) = rest.split_at(4);
    let (c, rest) = rest.split_at(4);
    let (d, e) = rest.split_at(4);
    format!("{a}-{b}-{c}-{d}-{e}")
}
