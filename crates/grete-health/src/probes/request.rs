//! As much of HTTP/1.1 as a probe needs: what a request asks for. No I/O.

use super::answer::Answer;

/// Bytes of request line and headers, at most.
pub const MAX_HEAD: usize = 8192;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// As it was written: `GET`.
    pub method: String,
    /// Without query.
    pub path: String,
    /// The connection goes on after the answer.
    pub keep: bool,
}

/// What the bytes begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// More are needed.
    More,
    /// A request of so many bytes.
    Request(Request, usize),
    /// Something else. After this answer the connection ends: nobody knows where the next request would begin.
    Refused(Answer),
}

/// Total: whatever comes, this is what it is. Of what was `scanned` before is known that no request ends in it.
#[must_use]
pub fn parse(received: &[u8], scanned: usize) -> Parsed {
    // Empty lines before a request are to be overlooked.
    let begin = received.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(received.len());
    let text = received.get(begin..).unwrap_or_default();
    match text.first() {
        Some(0x16) => return bad("this is not HTTP; it is TLS, and probes are plain HTTP"),
        Some(byte) if !is_token(*byte) => return bad("this is not HTTP"),
        _ => {}
    }
    // The empty line may have begun in what was scanned.
    let Some(end) = head_end(received, begin.max(scanned.saturating_sub(2))) else {
        if received.len() < MAX_HEAD {
            return Parsed::More;
        }
        let text = format!("request line and headers are longer than {MAX_HEAD} bytes");
        return Parsed::Refused(Answer::refusal(431, &text));
    };
    match received.get(begin..end).map(head) {
        Some(Ok(request)) => Parsed::Request(request, end),
        Some(Err(refusal)) => Parsed::Refused(refusal),
        None => bad("this is not HTTP"),
    }
}

/// The place after the empty line that ends a head.
fn head_end(received: &[u8], from: usize) -> Option<usize> {
    let text = received.get(from..received.len().min(MAX_HEAD))?;
    (0..text.len()).find_map(|at| match text.get(at..) {
        Some([b'\n', b'\n', ..]) => Some(from + at + 2),
        Some([b'\n', b'\r', b'\n', ..]) => Some(from + at + 3),
        _ => None,
    })
}

fn head(text: &[u8]) -> Result<Request, Answer> {
    let mut lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let (method, target, old) = request_line(lines.next().unwrap_or_default())?;
    let (mut hosts, mut keep) = (0, !old);
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = header(line).ok_or_else(|| Answer::refusal(400, "a header is like Name: value"))?;
        match name.to_ascii_lowercase().as_slice() {
            b"host" => hosts += 1,
            b"connection" => {
                let mut options = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
                keep &= !options.any(|option| option.eq_ignore_ascii_case(b"close"));
            }
            b"content-length" if value.trim_ascii() != b"0" => return Err(body()),
            b"transfer-encoding" => return Err(body()),
            _ => {}
        }
    }
    if hosts > 1 || (hosts == 0 && !old) {
        return Err(Answer::refusal(400, "HTTP/1.1 wants one Host header"));
    }
    Ok(Request { method, path: path(&target).into(), keep })
}

/// Method, target, and whether it is HTTP/1.0.
fn request_line(line: &[u8]) -> Result<(String, String, bool), Answer> {
    let wrong = || Answer::refusal(400, "a request begins like GET /livez HTTP/1.1");
    let line = str::from_utf8(line).map_err(|_| wrong())?;
    let mut parts = line.split(' ');
    let (Some(method), Some(target), Some(version), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let version = version.strip_prefix("HTTP/").map(str::as_bytes);
    let Some([major, b'.', minor]) = version else { return Err(wrong()) };
    let plain = !method.is_empty() && method.bytes().all(is_token);
    let printable = !target.is_empty() && target.bytes().all(|byte| byte.is_ascii_graphic());
    if !plain || !printable || !major.is_ascii_digit() || !minor.is_ascii_digit() {
        return Err(wrong());
    }
    if *major != b'1' {
        let text = format!("HTTP/{}.{} is not spoken here; HTTP/1.1 is", char::from(*major), char::from(*minor));
        return Err(Answer::refusal(505, &text));
    }
    Ok((method.into(), target.into(), *minor == b'0'))
}

fn header(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?);
    let whole = !name.is_empty() && name.iter().all(|byte| is_token(*byte));
    (whole && !value.iter().any(|byte| matches!(byte, 0 | b'\r'))).then_some((name, value))
}

/// Without query and fragment. A proxy may send the whole address.
fn path(target: &str) -> &str {
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

fn body() -> Answer {
    Answer::refusal(400, "a question to a probe has no body")
}

fn bad(text: &str) -> Parsed {
    Parsed::Refused(Answer::refusal(400, text))
}
