//! Parser for the part of HTTP/1.1 that probes need. No I/O.

use httparse::{EMPTY_HEADER, Error, Status};

use super::response::Response;

/// Maximum length of request line and headers in bytes.
pub const MAX_HEAD_BYTES: usize = 8192;
/// Maximum number of headers.
const MAX_HEADERS: usize = 100;

/// Parsed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Method, as sent: `GET`.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// The connection stays open after the response.
    pub keep_alive: bool,
}

/// Result of parsing the received bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParseOutcome {
    /// The request is incomplete.
    Incomplete,
    /// A request, and its length in bytes.
    Request(Request, usize),
    /// No valid request. The connection ends after this response, as the start of the next request is unknown.
    Invalid(Response),
}

/// Parses the first request. Total: every input gives a result. `scanned`: number of bytes already known to hold no end
/// of a request.
#[must_use]
pub fn parse(received: &[u8], scanned: usize) -> ParseOutcome {
    // RFC 9112: empty lines before a request are ignored.
    let begin = received.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(received.len());
    let text = received.get(begin..).unwrap_or_default();
    match text.first() {
        Some(0x16) => return bad_request("this is not HTTP; it is TLS, and probes are plain HTTP"),
        Some(byte) if !is_token(*byte) => return bad_request("this is not HTTP"),
        _ => {}
    }
    // The empty line may have begun in the scanned bytes.
    let Some(end) = head_end(received, begin.max(scanned.saturating_sub(2))) else {
        if received.len() < MAX_HEAD_BYTES {
            return ParseOutcome::Incomplete;
        }
        let text = format!("request line and headers are longer than {MAX_HEAD_BYTES} bytes");
        return ParseOutcome::Invalid(Response::error(431, &text));
    };
    match received.get(begin..end).map(parse_head) {
        Some(Ok(request)) => ParseOutcome::Request(request, end),
        Some(Err(refusal)) => ParseOutcome::Invalid(refusal),
        None => bad_request("this is not HTTP"),
    }
}

/// Returns the position after the empty line that ends a head.
fn head_end(received: &[u8], from: usize) -> Option<usize> {
    let text = received.get(from..received.len().min(MAX_HEAD_BYTES))?;
    (0..text.len()).find_map(|at| match text.get(at..) {
        Some([b'\n', b'\n', ..]) => Some(from + at + 2),
        Some([b'\n', b'\r', b'\n', ..]) => Some(from + at + 3),
        _ => None,
    })
}

/// Parses a head that ends in an empty line.
fn parse_head(head: &[u8]) -> Result<Request, Response> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(head) {
        // The parser and `head_end` agree about the end of the head, and so about the begin of the next request.
        Ok(Status::Complete(length)) if length == head.len() => {}
        Ok(_) => return Err(bad_request_line()),
        Err(error) => return Err(refusal(error, head)),
    }
    // The parser lets UTF-8 pass in a target.
    let (Some(method), Some(target), Some(minor)) =
        (parsed.method, parsed.path.filter(|target| target.is_ascii()), parsed.version)
    else {
        return Err(bad_request_line());
    };
    let (mut hosts, mut keep_alive) = (0, minor > 0);
    for header in parsed.headers.iter() {
        let is = |name| header.name.eq_ignore_ascii_case(name);
        if is("host") {
            hosts += 1;
        } else if is("connection") {
            let mut options = header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            keep_alive &= !options.any(|option| option.eq_ignore_ascii_case(b"close"));
        } else if is("transfer-encoding") || (is("content-length") && header.value != b"0") {
            return Err(Response::error(400, "the request has a body; send no body"));
        }
    }
    if hosts > 1 || (hosts == 0 && minor > 0) {
        return Err(Response::error(400, "HTTP/1.1 needs exactly one Host header"));
    }
    Ok(Request { method: method.into(), path: path_of(target).into(), keep_alive })
}

fn refusal(error: Error, head: &[u8]) -> Response {
    match error {
        Error::HeaderName | Error::HeaderValue => Response::error(400, "malformed header; write it as Name: value"),
        Error::TooManyHeaders => Response::error(431, &format!("there are more than {MAX_HEADERS} headers")),
        Error::Version => match other_version(head) {
            Some(version) => Response::error(505, &format!("{version} is not supported; use HTTP/1.1")),
            None => bad_request_line(),
        },
        _ => bad_request_line(),
    }
}

/// Returns the version of a request line that is valid but for its version; `None`: the line is invalid.
fn other_version(head: &[u8]) -> Option<&str> {
    let line = head.split(|byte| *byte == b'\n').next()?;
    let mut words = line.strip_suffix(b"\r").unwrap_or(line).split(|byte| *byte == b' ').skip(2);
    let (version, None) = (words.next()?, words.next()) else { return None };
    match version.strip_prefix(b"HTTP/")? {
        [major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => str::from_utf8(version).ok(),
        _ => None,
    }
}

/// Returns the path without query and fragment. A proxy may send an absolute URL.
fn path_of(target: &str) -> &str {
    let begin = target
        .split_once("://")
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"));
    let target =
        begin.map_or(target, |(_, rest)| rest.find(['/', '?', '#']).and_then(|at| rest.get(at..)).unwrap_or("/"));
    match target.split(['?', '#']).next() {
        None | Some("") => "/",
        Some(path) => path,
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn bad_request_line() -> Response {
    Response::error(400, "a request begins like GET /livez HTTP/1.1")
}

fn bad_request(text: &str) -> ParseOutcome {
    ParseOutcome::Invalid(Response::error(400, text))
}
