//! Python's strings as UTF-8.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::PyString;

/// Without a copy where it is text; what is none (lone surrogates) is replaced, because a trace must not fail for it.
pub(super) fn text<'a>(string: &'a Bound<'_, PyString>) -> Cow<'a, str> {
    string.to_str().map_or_else(|_| string.to_string_lossy(), Cow::Borrowed)
}

/// What `str()` says; if that fails, the name of the type.
pub(super) fn display(object: &Bound<'_, PyAny>) -> String {
    match object.str() {
        Ok(string) => text(&string).into_owned(),
        Err(_) => object.get_type().name().map_or_else(|_| "?".into(), |name| format!("<{name} without str()>")),
    }
}
