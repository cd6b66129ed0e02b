//! Tests of valid and invalid requests.

use grete_health::probes::{MAX_HEAD_BYTES, ParseOutcome, Request, Response, parse};
use proptest::prelude::*;

const GOOD: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";

fn asked(text: &[u8]) -> (String, String, bool) {
    match parse(text, 0) {
        ParseOutcome::Request(request, length) => {
            assert_eq!(length, text.len());
            (request.method, request.path, request.keep_alive)
        }
        other => panic!("{other:?}"),
    }
}

fn refused(text: &[u8]) -> (u16, String) {
    match parse(text, 0) {
        ParseOutcome::Invalid(Response { status, body, .. }) => (status, String::from_utf8(body).expect("UTF-8")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_has_a_method_and_a_path() {
    for (text, method, path) in [
        (GOOD, "GET", "/livez"),
        (b"\r\n\nGET /livez HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "/livez"),
        (b"GET /livez?verbose#x HTTP/1.1\nHost:\n\n", "GET", "/livez"),
        (b"GET http://node:80/readyz?x HTTP/1.1\r\nhOsT: node\r\n\r\n", "GET", "/readyz"),
        (b"HEAD HTTPS://node HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "HEAD", "/"),
        (b"GET http://node?x=/livez HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "/"),
        (b"GET ?x HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "/"),
        (b"DELETE * HTTP/1.1\r\nHost: a\r\nX-Y: \xff\t:\r\n\r\n", "DELETE", "*"),
    ] {
        assert_eq!(asked(text), (method.into(), path.into(), true));
    }
}

#[test]
fn who_asks_says_whether_the_connection_goes_on() {
    for (text, keep) in [
        (&b"GET / HTTP/1.0\r\n\r\n"[..], false),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n", true),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade , CLOSE\r\n\r\n", false),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n", true),
    ] {
        assert_eq!(asked(text).2, keep, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn everything_else_is_refused() {
    let long = [b"GET / HTTP/1.1\r\nHost: a\r\nX: ".as_slice(), &[b'y'; MAX_HEAD_BYTES]].concat();
    let many = [b"GET / HTTP/1.1\r\nHost: a\r\n".as_slice(), &b"X:y\n".repeat(100), b"\r\n"].concat();
    for (text, status, says) in [
        (&b"\x16\x03\x01\x02\x00"[..], 400, "TLS"),
        (b"\x00", 400, "not HTTP"),
        (b"GET\r\n\r\n", 400, "begins like"),
        (b"GET /a b HTTP/1.1\r\n\r\n", 400, "begins like"),
        (b"GET  / HTTP/1.1\r\n\r\n", 400, "begins like"),
        (b"GET / HTTP/1.1 \r\n\r\n", 400, "begins like"),
        (b"GET /\xff HTTP/1.1\r\n\r\n", 400, "begins like"),
        (b"GET /\xc3\xa9 HTTP/1.1\r\n\r\n", 400, "begins like"),
        (b"GET / HTTP/11\r\n\r\n", 400, "begins like"),
        (b"GET / HTTP/1.x\r\n\r\n", 400, "begins like"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "use HTTP/1.1"),
        (b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505, "HTTP/1.2"),
        (b"GET / HTTP/2.0 \r\n\r\n", 400, "begins like"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "Host"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400, "Host"),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, "header"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400, "header"),
        (b"GET / HTTP/1.1\r\nHost: a\x00\r\n\r\n", 400, "header"),
        (b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400, "header"),
        (b"GET / HTTP/1.1\r\nHost: a\x7f\r\n\r\n", 400, "header"),
        (&many, 431, "100 headers"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /", 400, "no body"),
        (b"GET / HTTP/1.1\r\nHost: a\r\ncontent-length: 0, 5\r\n\r\n", 400, "no body"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "no body"),
        (&long, 431, "8192"),
        (&[b'\n'; MAX_HEAD_BYTES], 431, "8192"),
        (&[b'A'; MAX_HEAD_BYTES], 431, "8192"),
    ] {
        let (found, body) = refused(text);
        assert_eq!(found, status, "{}", String::from_utf8_lossy(text));
        assert!(body.contains(says), "{body}");
    }
}

#[test]
fn half_a_request_waits_for_the_rest() {
    for length in 0..GOOD.len() {
        assert_eq!(parse(&GOOD[..length], 0), ParseOutcome::Incomplete);
    }
}

#[test]
fn of_two_requests_the_first_one_is_read() {
    let both = [GOOD, b"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    let ParseOutcome::Request(first, length) = parse(&both, 0) else { panic!("a request") };
    assert_eq!(
        (first, length),
        (Request { method: "GET".into(), path: "/livez".into(), keep_alive: true }, GOOD.len())
    );
    assert_eq!(asked(&both[length..]).1, "/metrics");
}

fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"GET",
        b"HEAD",
        b" ",
        b"/livez",
        b"/",
        b"HTTP/1.1",
        b"HTTP/1.0",
        b"\r\n",
        b"\n",
        b"Host: a",
        b":",
        b"\t",
        b"\0",
        b"Connection: close",
        b"Content-Length: 0",
        b"http://",
        b"?",
    ];
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        proptest::collection::vec(proptest::sample::select(words), 0..30).prop_map(|words| words.concat()),
        proptest::collection::vec(any::<u8>(), 0..60).prop_map(|tail| [GOOD, &tail].concat()),
        (0..GOOD.len(), proptest::collection::vec(any::<u8>(), 1..3)).prop_map(|(at, junk)| [
            &GOOD[..at],
            &junk,
            &GOOD[at..]
        ]
        .concat()),
    ]
}

proptest! {
    /// The parser never panics, and the result does not depend on the pieces in which the bytes arrive.
    #[test]
    fn whatever_comes_in_whatever_pieces_is_the_same(text in garbage(), cuts in proptest::collection::vec(1_usize..40, 0..20)) {
        let whole = parse(&text, 0);
        let (mut scanned, mut end, mut cuts) = (0, 0, cuts.into_iter());
        loop {
            end = (end + cuts.next().unwrap_or(text.len())).min(text.len());
            let parsed = parse(&text[..end], scanned);
            if parsed != ParseOutcome::Incomplete || end == text.len() {
                prop_assert_eq!(parsed, whole);
                break;
            }
            scanned = end;
        }
    }

    #[test]
    fn nothing_is_longer_than_a_request_may_be(filler in proptest::collection::vec(any::<u8>(), MAX_HEAD_BYTES..MAX_HEAD_BYTES + 100)) {
        let endless = [b"GET / HTTP/1.1\r\nHost: a\r\n", filler.as_slice()].concat();
        prop_assert_ne!(parse(&endless, 0), ParseOutcome::Incomplete);
    }
}
