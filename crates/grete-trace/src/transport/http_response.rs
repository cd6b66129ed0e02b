//! Incremental parser of HTTP/1.1 responses.

use std::time::{Duration, SystemTime};

use httparse::{EMPTY_HEADER, Status};

use crate::transport::retry_after;

/// Maximum bytes of status line and headers.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Maximum number of headers, and of trailers.
const MAX_HEADERS: usize = 100;
/// Maximum bytes of the line with the size of a chunk.
const MAX_CHUNK_LINE_BYTES: usize = 1024;
/// Maximum bytes of the body: enough for the rates of thousands of services.
const MAX_BODY_BYTES: usize = 256 << 10;
/// Maximum bytes of a response on the wire, where chunks have heads, too.
pub(crate) const MAX_RESPONSE_BYTES: usize = MAX_HEAD_BYTES + 2 * MAX_BODY_BYTES;

/// Parsed response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Body; `None`: it exceeds the maximum, and was not read completely.
    pub(crate) body: Option<Vec<u8>>,
    /// Whether the connection can be reused.
    pub(crate) keep_alive: bool,
    /// Delay requested by the Retry-After header; `None`: no such header.
    pub(crate) retry_after: Option<Duration>,
}

/// The response is not HTTP, or its head exceeds the maximum.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParseError;

impl From<httparse::Error> for ParseError {
    fn from(_: httparse::Error) -> Self {
        Self
    }
}

impl From<httparse::InvalidChunkSize> for ParseError {
    fn from(_: httparse::InvalidChunkSize) -> Self {
        Self
    }
}

enum BodyFraming {
    Length(usize),
    Chunked,
    UntilEnd,
}

/// Parses the response in `bytes`; `None`: incomplete. `eof`: no more bytes will follow.
pub(crate) fn parse(mut bytes: &[u8], eof: bool) -> Result<Option<Response>, ParseError> {
    loop {
        // The parser would skip empty lines.
        if matches!(bytes.first(), Some(b'\r' | b'\n')) {
            return Err(ParseError);
        }
        let mut headers = [EMPTY_HEADER; MAX_HEADERS];
        let mut head = httparse::Response::new(&mut headers);
        let Status::Complete(end) = head.parse(bytes)? else {
            return if eof || bytes.len() > MAX_HEAD_BYTES { Err(ParseError) } else { Ok(None) };
        };
        let rest = bytes.get(end..).unwrap_or_default();
        match head.code {
            // 100 Continue: the final response follows.
            Some(100 | 102..200) => bytes = rest,
            Some(status @ 100..600) => return parse_body(status, head, rest, eof),
            _ => return Err(ParseError),
        }
    }
}

fn parse_body(
    status: u16,
    head: httparse::Response<'_, '_>,
    rest: &[u8],
    eof: bool,
) -> Result<Option<Response>, ParseError> {
    let mut keep = head.version == Some(1);
    let mut body = BodyFraming::UntilEnd;
    let mut retry_after = None;
    for header in head.headers.iter() {
        let value = std::str::from_utf8(header.value).map_err(|_| ParseError)?;
        let is = |name| header.name.eq_ignore_ascii_case(name);
        if is("content-length") && !matches!(body, BodyFraming::Chunked) {
            body = BodyFraming::Length(value.parse().map_err(|_| ParseError)?);
        } else if is("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
            body = BodyFraming::Chunked;
        } else if is("retry-after") {
            retry_after = retry_after::parse(value, SystemTime::now());
        } else if is("connection") && value.eq_ignore_ascii_case("close") {
            keep = false;
        }
    }
    let (body, left) = match body {
        _ if status == 204 || status == 304 => (Some(Vec::new()), rest),
        BodyFraming::Length(length) if length > MAX_BODY_BYTES => (None, rest),
        BodyFraming::Length(length) => match rest.split_at_checked(length) {
            Some((body, left)) => (Some(body.to_vec()), left),
            None => return if eof { Err(ParseError) } else { Ok(None) },
        },
        BodyFraming::Chunked => match dechunk(rest)? {
            Some(whole) => whole,
            None => return if eof { Err(ParseError) } else { Ok(None) },
        },
        BodyFraming::UntilEnd if rest.len() > MAX_BODY_BYTES => (None, rest),
        BodyFraming::UntilEnd if eof => (Some(rest.to_vec()), &[][..]),
        BodyFraming::UntilEnd => return Ok(None),
    };
    // Bytes after the response belong to no request.
    keep = keep && body.is_some() && left.is_empty() && !eof;
    Ok(Some(Response { status, body, keep_alive: keep, retry_after }))
}

/// The body (`None`: too long), and the bytes after it.
type DechunkedBody<'a> = (Option<Vec<u8>>, &'a [u8]);

/// Joins the chunks. Returns the body and the bytes after the last chunk.
fn dechunk(mut rest: &[u8]) -> Result<Option<DechunkedBody<'_>>, ParseError> {
    let mut body = Vec::new();
    loop {
        // The parser takes a line without digits for the size 0.
        if rest.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) {
            return Err(ParseError);
        }
        let Status::Complete((end, size)) = httparse::parse_chunk_size(rest)? else {
            return if rest.len() > MAX_CHUNK_LINE_BYTES { Err(ParseError) } else { Ok(None) };
        };
        rest = rest.get(end..).unwrap_or_default();
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size == 0 {
            break;
        }
        if body.len().saturating_add(size) > MAX_BODY_BYTES {
            return Ok(Some((None, rest)));
        }
        let Some((chunk, after)) = rest.split_at_checked(size) else { return Ok(None) };
        let Some((line_end, after)) = after.split_at_checked(2) else { return Ok(None) };
        if line_end != b"\r\n" {
            return Err(ParseError);
        }
        body.extend_from_slice(chunk);
        rest = after;
    }
    match httparse::parse_headers(rest, &mut [EMPTY_HEADER; MAX_HEADERS])? {
        Status::Complete((end, _trailers)) => Ok(Some((Some(body), rest.get(end..).unwrap_or_default()))),
        Status::Partial if rest.len() > MAX_HEAD_BYTES => Err(ParseError),
        Status::Partial => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse_whole(bytes: &[u8]) -> Response {
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end], false), Ok(None), "{end}");
        }
        parse(bytes, false).expect("HTTP").expect("all of it")
    }

    #[test]
    fn responses_are_parsed_from_any_prefix() {
        let plain = parse_whole(b"HTTP/1.1 200 OK\r\nContent-Type: x\r\ncontent-length: 2\r\n\r\n{}");
        assert_eq!(plain, Response { status: 200, body: Some(b"{}".into()), keep_alive: true, retry_after: None });
        let chunked = parse_whole(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n",
        );
        assert_eq!(chunked, Response { status: 200, body: Some(b"abcde".into()), keep_alive: true, retry_after: None });
        let closing =
            parse_whole(b"HTTP/1.1 503 Not now\r\nConnection: close\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n");
        let seven = Some(Duration::from_secs(7));
        assert_eq!(closing, Response { status: 503, body: Some(vec![]), keep_alive: false, retry_after: seven });
        let empty = parse_whole(b"HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(empty, Response { status: 204, body: Some(vec![]), keep_alive: true, retry_after: None });
        let twice = parse_whole(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\nContent-Length: 1\r\n\r\nx");
        assert_eq!(twice.status, 202);
        let old = parse(b"HTTP/1.0 200 OK\r\n\r\nall", true);
        assert_eq!(
            old,
            Ok(Some(Response { status: 200, body: Some(b"all".into()), keep_alive: false, retry_after: None }))
        );
        let more =
            parse(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200", false).expect("HTTP").expect("whole");
        assert!(!more.keep_alive);
    }

    #[test]
    fn invalid_responses_fail_immediately() {
        let long = [b"HTTP/1.1 200 OK\r\n".as_slice(), &b"X: y\r\n".repeat(4000)].concat();
        let many = [b"HTTP/1.1 200 OK\r\n".as_slice(), &b"X:y\n".repeat(MAX_HEADERS + 1), b"\r\n"].concat();
        for (bytes, ended) in [
            (b"SSH-2.0".as_slice(), false),
            (b"HTTP/2 200\r\n\r\n", false),
            (b"HTTP/1.1 20", true),
            (b"HTTP/1.1 999 x\r\n\r\n", false),
            (b"HTTP/1.1 2\xff0 x\r\n\r\n", false),
            (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", false),
            (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", false),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", true),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", false),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", false),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n", false),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;x\r\n\r\n", false),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n", false),
            (b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false),
            (b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", false),
            (b"HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n", false),
            (&many, false),
            (&long, false),
        ] {
            assert_eq!(parse(bytes, ended), Err(ParseError), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn interim_responses_need_no_stack() {
        let mut bytes = b"HTTP/1.1 100 C\r\n\r\n".repeat(MAX_RESPONSE_BYTES / 18);
        assert_eq!(parse(&bytes, false), Ok(None));
        bytes.extend_from_slice(b"HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(parse(&bytes, false).expect("HTTP").expect("all of it").status, 204);
    }

    #[test]
    fn a_body_that_is_too_long_is_not_awaited() {
        let forever = [b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), &[0; MAX_BODY_BYTES + 1]].concat();
        for bytes in [
            b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n".as_slice(),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
            &forever,
        ] {
            let answer = parse(bytes, false).expect("HTTP").expect("enough of it");
            assert_eq!(answer, Response { status: 200, body: None, keep_alive: false, retry_after: None });
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(
            lines in prop::collection::vec("(HTTP/1\\.[01] [0-9]{1,4}|[Cc]ontent-[Ll]ength: ?[0-9a-f]{0,20}|Transfer-Encoding: chunked|[0-9a-fx]{1,17}|.{0,9})", 0..8),
            tail in prop::collection::vec(any::<u8>(), 0..40),
            ended: bool,
        ) {
            let mut bytes = b"HTTP/1.1 200 OK\r\n".to_vec();
            for line in lines {
                bytes.extend_from_slice(line.as_bytes());
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"\r\n");
            bytes.extend_from_slice(&tail);
            let _ = parse(&bytes, ended);
            let _ = parse(&bytes[17..], ended);
        }
    }
}
