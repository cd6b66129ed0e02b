//! HTTP of the supervisor's probes, without the socket.

use std::sync::{Mutex, PoisonError};

use grete_health::probes::{self, Response};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Result of feeding bytes: a request, or the response that refuses the request.
#[derive(IntoPyObject)]
enum Fed<'py> {
    Request((String, String)),
    Refusal(Bound<'py, PyBytes>),
}

/// HTTP of one connection that closes after its first response.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct HttpProtocol {
    http: Mutex<probes::HttpProtocol>,
}

#[pymethods]
impl HttpProtocol {
    #[new]
    fn new() -> Self {
        Self { http: Mutex::new(probes::HttpProtocol::new(false)) }
    }

    /// Takes received bytes. Returns method and path of the request, or the bytes of a response that refuses the
    /// request; `None`: the request is incomplete.
    fn feed<'py>(&self, py: Python<'py>, data: &[u8]) -> Option<Fed<'py>> {
        self.with(|http| {
            http.feed(data);
            http.next_request().map(|request| match request {
                Ok(request) => Fed::Request((request.method, request.path)),
                Err(refusal) => Fed::Refusal(encode(py, http, &refusal)),
            })
        })
    }

    /// Returns the bytes of the response to the request.
    fn respond<'py>(&self, py: Python<'py>, status: u16, content_type: &str, body: &[u8]) -> Bound<'py, PyBytes> {
        self.with(|http| encode_parts(py, http, status, content_type, body))
    }

    /// Handles the end of the input. Returns the bytes of the response; `None`: no byte of a request came.
    fn on_eof<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.with(|http| http.on_eof().map(|refusal| encode(py, http, &refusal)))
    }

    /// Handles the timeout of the request. Returns the bytes of the response; `None`: no byte of a request came.
    fn on_timeout<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.with(|http| http.on_timeout().map(|refusal| encode(py, http, &refusal)))
    }
}

impl HttpProtocol {
    fn with<T>(&self, f: impl FnOnce(&mut probes::HttpProtocol) -> T) -> T {
        f(&mut self.http.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn encode<'py>(py: Python<'py>, http: &mut probes::HttpProtocol, response: &Response) -> Bound<'py, PyBytes> {
    encode_parts(py, http, response.status, response.content_type, &response.body)
}

fn encode_parts<'py>(
    py: Python<'py>,
    http: &mut probes::HttpProtocol,
    status: u16,
    content_type: &str,
    body: &[u8],
) -> Bound<'py, PyBytes> {
    let mut out = Vec::new();
    http.encode(status, content_type, body, &mut out);
    PyBytes::new(py, &out)
}
