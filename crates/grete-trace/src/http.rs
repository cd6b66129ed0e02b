//! HTTP/1.1 answers, read from whatever comes.

use std::time::{Duration, SystemTime};

use crate::retry_after;

/// Of an answer, before its body.
const LONGEST_HEAD: usize = 16 << 10;
/// The rates of some thousand services.
const LONGEST_BODY: usize = 256 << 10;
/// What an answer may take on the wire: chunks have heads, too.
pub(crate) const LONGEST: usize = LONGEST_HEAD + 2 * LONGEST_BODY;

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// None: it is longer than anybody needs, and was not read to its end.
    pub(crate) body: Option<Vec<u8>>,
    /// Whether the connection may be used again.
    pub(crate) keep: bool,
    /// For how long to leave it alone, where it says so.
    pub(crate) retry_after: Option<Duration>,
}

/// It is no HTTP, or has more of a head than anybody needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Garbage;

enum Body {
    Length(usize),
    Chunked,
    UntilEnd,
}

/// The answer in `bytes`, or None while more has to come. `ended`: nothing more will.
pub(crate) fn parse(bytes: &[u8], ended: bool) -> Result<Option<Answer>, Garbage> {
    let begins = b"HTTP/1.";
    let same = bytes.len().min(begins.len());
    if bytes[..same] != begins[..same] {
        return Err(Garbage);
    }
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        return if ended || bytes.len() > LONGEST_HEAD { Err(Garbage) } else { Ok(None) };
    };
    let (head, rest) = (&bytes[..end], &bytes[end + 4..]);
    let head = std::str::from_utf8(head).map_err(|_| Garbage)?;
    let mut lines = head.split("\r\n");
    let status = status(lines.next().unwrap_or_default()).ok_or(Garbage)?;
    let mut keep = head.starts_with("HTTP/1.1");
    let mut body = Body::UntilEnd;
    let mut retry_after = None;
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(Garbage)?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") && !matches!(body, Body::Chunked) {
            body = Body::Length(value.parse().map_err(|_| Garbage)?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
            body = Body::Chunked;
        } else if name.eq_ignore_ascii_case("retry-after") {
            retry_after = retry_after::read(value, SystemTime::now());
        } else if name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close") {
            keep = false;
        }
    }
    if (100..200).contains(&status) && status != 101 {
        return parse(rest, ended); // "go on": the answer comes after it
    }
    let (body, left) = match body {
        _ if status == 204 || status == 304 => (Some(Vec::new()), rest),
        Body::Length(length) if length > LONGEST_BODY => (None, rest),
        Body::Length(length) => match rest.split_at_checked(length) {
            Some((body, left)) => (Some(body.to_vec()), left),
            None => return if ended { Err(Garbage) } else { Ok(None) },
        },
        Body::Chunked => match chunks(rest)? {
            Some(whole) => whole,
            None => return if ended { Err(Garbage) } else { Ok(None) },
        },
        Body::UntilEnd if rest.len() > LONGEST_BODY => (None, rest),
        Body::UntilEnd if ended => (Some(rest.to_vec()), &[][..]),
        Body::UntilEnd => return Ok(None),
    };
    // Whatever comes after the answer is an answer to nothing.
    keep = keep && body.is_some() && left.is_empty() && !ended;
    Ok(Some(Answer { status, body, keep, retry_after }))
}

fn status(line: &str) -> Option<u16> {
    let digits = line.get(7..)?.strip_prefix(['0', '1'])?.strip_prefix(' ')?.get(..3)?;
    digits.parse().ok().filter(|status| (100..600).contains(status))
}

/// The body, if it is not too long, and the bytes after it.
type Unchunked<'a> = (Option<Vec<u8>>, &'a [u8]);

/// The chunks put together, and what comes after the last one.
fn chunks(mut rest: &[u8]) -> Result<Option<Unchunked<'_>>, Garbage> {
    let mut body = Vec::new();
    loop {
        let Some(end) = find(rest, b"\r\n") else { return if rest.len() > 1024 { Err(Garbage) } else { Ok(None) } };
        let line = std::str::from_utf8(&rest[..end]).map_err(|_| Garbage)?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(digits, 16).map_err(|_| Garbage)?;
        rest = &rest[end + 2..];
        if size == 0 {
            break;
        }
        if body.len().saturating_add(size) > LONGEST_BODY {
            return Ok(Some((None, rest)));
        }
        let Some((chunk, after)) = rest.split_at_checked(size) else { return Ok(None) };
        let Some((line_end, after)) = after.split_at_checked(2) else { return Ok(None) };
        if line_end != b"\r\n" {
            return Err(Garbage);
        }
        body.extend_from_slice(chunk);
        rest = after;
    }
    loop {
        let Some(end) = find(rest, b"\r\n") else {
            return if rest.len() > LONGEST_HEAD { Err(Garbage) } else { Ok(None) };
        };
        rest = &rest[end + 2..];
        if end == 0 {
            return Ok(Some((Some(body), rest)));
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(bytes: &[u8]) -> Answer {
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end], false), Ok(None), "{end}");
        }
        parse(bytes, false).expect("HTTP").expect("all of it")
    }

    #[test]
    fn an_answer_is_read_however_it_comes() {
        let plain = whole(b"HTTP/1.1 200 OK\r\nContent-Type: x\r\ncontent-length: 2\r\n\r\n{}");
        assert_eq!(plain, Answer { status: 200, body: Some(b"{}".into()), keep: true, retry_after: None });
        let chunked =
            whole(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n");
        assert_eq!(chunked, Answer { status: 200, body: Some(b"abcde".into()), keep: true, retry_after: None });
        let closing =
            whole(b"HTTP/1.1 503 Not now\r\nConnection: close\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n");
        let seven = Some(Duration::from_secs(7));
        assert_eq!(closing, Answer { status: 503, body: Some(vec![]), keep: false, retry_after: seven });
        let empty = whole(b"HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(empty, Answer { status: 204, body: Some(vec![]), keep: true, retry_after: None });
        let twice = whole(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\nContent-Length: 1\r\n\r\nx");
        assert_eq!(twice.status, 202);
        let old = parse(b"HTTP/1.0 200 OK\r\n\r\nall", true);
        assert_eq!(old, Ok(Some(Answer { status: 200, body: Some(b"all".into()), keep: false, retry_after: None })));
        let more =
            parse(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200", false).expect("HTTP").expect("whole");
        assert!(!more.keep);
    }

    #[test]
    fn what_is_no_answer_is_told_at_once() {
        let long = [b"HTTP/1.1 200 OK\r\n".as_slice(), &b"X: y\r\n".repeat(4000)].concat();
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
            (&long, false),
        ] {
            assert_eq!(parse(bytes, ended), Err(Garbage), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_body_that_is_too_long_is_not_awaited() {
        let forever = [b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), &[0; LONGEST_BODY + 1]].concat();
        for bytes in [
            b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n".as_slice(),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
            &forever,
        ] {
            let answer = parse(bytes, false).expect("HTTP").expect("enough of it");
            assert_eq!(answer, Answer { status: 200, body: None, keep: false, retry_after: None });
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
