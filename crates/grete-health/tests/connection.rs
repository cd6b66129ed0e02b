//! Tests of one connection, with a scripted peer and the test's own clock.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use grete_health::probes::{
    Connection, FIRST_REQUEST_GRACE, KEEP_ALIVE_TIMEOUT, MAX_HEAD_BYTES, REQUEST_TIMEOUT, Request, Response, Stream,
};
use proptest::prelude::*;

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

/// Scripted peer: the pieces that it sends, and the bytes that it accepts.
#[derive(Debug, Default)]
struct Peer {
    sends: VecDeque<Vec<u8>>,
    hung_up: bool,
    /// Bytes that the peer accepts now.
    takes: usize,
    taken: Vec<u8>,
    finished: bool,
}

impl Read for Peer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(mut piece) = self.sends.pop_front() else {
            return if self.hung_up { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        };
        let count = piece.len().min(buffer.len());
        buffer[..count].copy_from_slice(&piece[..count]);
        let rest = piece.split_off(count);
        if !rest.is_empty() {
            self.sends.push_front(rest);
        }
        Ok(count)
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(!self.finished, "it had said that nothing more would come");
        let count = bytes.len().min(self.takes);
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.takes -= count;
        self.taken.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Peer {
    fn shutdown_write(&mut self) {
        self.finished = true;
    }
}

fn peer(pieces: &[&[u8]]) -> Peer {
    Peer { sends: pieces.iter().map(|piece| piece.to_vec()).collect(), takes: usize::MAX, ..Peer::default() }
}

fn echo(request: &Request) -> Response {
    Response { status: 200, content_type: "text/plain", body: request.path.clone().into_bytes() }
}

/// Steps the connection until it changes no more.
fn settle(connection: &mut Connection<Peer>, now: Instant) {
    for _ in 0..10_000 {
        let before = format!("{connection:?}");
        connection.step(now, &mut echo);
        if connection.is_closed() || (format!("{connection:?}") == before && !connection.has_buffered_request()) {
            return;
        }
    }
    panic!("the connection does not settle: {connection:?}");
}

/// Parses the responses as a strict client does; returns status and body of each.
fn answers(mut bytes: &[u8], heads: bool) -> Vec<(u16, String)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head") + 4;
        let head = str::from_utf8(&bytes[..end]).expect("ASCII");
        let status = head.strip_prefix("HTTP/1.1 ").expect(head)[..3].parse().expect("a status");
        let length = head.split("Content-Length: ").nth(1).expect("a length").split("\r\n").next().expect("a line");
        let length: usize = if heads { 0 } else { length.parse().expect("a number") };
        found.push((status, String::from_utf8(bytes[end..end + length].to_vec()).expect("UTF-8")));
        bytes = &bytes[end + length..];
    }
    found
}

#[test]
fn requests_are_answered_in_order_and_one_a_step() {
    let now = Instant::now();
    let three = [GET, b"\r\n", GET, b"GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /never"].concat();
    let mut connection = Connection::new(peer(&[&three]), now);
    connection.step(now, &mut echo);
    assert_eq!(answers(&connection.stream().taken, false).len(), 1);
    assert!(connection.has_buffered_request());
    settle(&mut connection, now);
    let taken = answers(&connection.stream().taken, false);
    assert_eq!(taken, [(200, "/a".into()), (200, "/a".into()), (200, "/b".into())]);
    assert!(connection.stream().finished && !connection.is_closed(), "it waits for the peer to hang up");
    connection.on_deadline(now);
    assert!(connection.is_closed());
}

#[test]
fn a_peer_that_hangs_up_between_requests_is_let_go() {
    let now = Instant::now();
    let mut connection = Connection::new(Peer { hung_up: true, ..peer(&[GET]) }, now);
    settle(&mut connection, now);
    assert!(connection.is_closed());
    assert_eq!(answers(&connection.stream().taken, false), [(200, "/a".into())]);
}

#[test]
fn an_incomplete_request_gets_400() {
    let now = Instant::now();
    let mut connection = Connection::new(Peer { hung_up: true, ..peer(&[b"GET /a"]) }, now);
    settle(&mut connection, now);
    let taken = answers(&connection.stream().taken, false);
    assert_eq!((taken.len(), taken[0].0), (1, 400));
    assert!(taken[0].1.contains("in its middle"));
}

#[test]
fn who_sends_byte_by_byte_has_no_more_time_than_others() {
    let start = Instant::now();
    let mut connection = Connection::new(Peer { takes: usize::MAX, ..Peer::default() }, start);
    assert_eq!(connection.deadline(), start + REQUEST_TIMEOUT);
    // The time for the second request begins with its first byte.
    let mut peer = peer(&[GET]);
    peer.sends.extend(GET[..GET.len() - 1].iter().map(|byte| vec![*byte]));
    let mut second = Connection::new(peer, start);
    second.step(start, &mut echo);
    assert_eq!(second.deadline(), start + KEEP_ALIVE_TIMEOUT);
    let mut now = start + Duration::from_secs(30);
    second.step(now, &mut echo);
    let due = second.deadline();
    assert_eq!(due, now + REQUEST_TIMEOUT);
    for _ in 1..GET.len() - 1 {
        now += Duration::from_millis(1);
        second.step(now, &mut echo);
        assert_eq!(second.deadline(), due);
    }
    second.on_deadline(now);
    settle(&mut second, now);
    let taken = answers(&second.stream().taken, false);
    assert_eq!(taken.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [200, 408]);
    // A peer that sent nothing gets no response.
    connection.on_deadline(start);
    assert!(connection.is_closed() && connection.stream().taken.is_empty());
}

#[test]
fn who_takes_no_answer_is_let_go_and_asked_no_more() {
    let now = Instant::now();
    let mut connection = Connection::new(Peer { takes: 10, ..peer(&[&GET.repeat(100)]) }, now);
    for _ in 0..1000 {
        connection.step(now, &mut echo);
    }
    assert!(connection.wants_write() && !connection.has_buffered_request());
    assert_eq!(connection.stream().taken.len(), 10);
    assert_eq!(connection.deadline(), now + REQUEST_TIMEOUT);
    assert!(connection.stream().sends.iter().map(Vec::len).sum::<usize>() < 100 * GET.len());
    connection.on_deadline(now + REQUEST_TIMEOUT);
    assert!(connection.is_closed());
}

#[test]
fn a_flood_after_a_refusal_is_thrown_away_up_to_a_point() {
    let now = Instant::now();
    let junk = vec![0; MAX_HEAD_BYTES];
    let mut connection = Connection::new(peer(&[junk.as_slice(); 200]), now);
    settle(&mut connection, now);
    assert!(connection.is_closed());
    assert_eq!(answers(&connection.stream().taken, false).len(), 1);
    assert!(connection.stream().sends.len() > 100, "reading has a limit");
}

#[test]
fn those_who_get_an_answer_stay_longest() {
    let now = Instant::now();
    let old = Connection::new(peer(&[]), now);
    let new = Connection::new(peer(&[]), now + Duration::from_secs(1));
    let mut idle = Connection::new(peer(&[GET]), now);
    idle.step(now, &mut echo);
    let mut writing = Connection::new(Peer { takes: 0, ..peer(&[GET]) }, now);
    writing.step(now, &mut echo);
    let at = now + Duration::from_secs(1) + FIRST_REQUEST_GRACE;
    let order = [&old, &new, &idle, &writing].map(|connection| connection.eviction_priority(at));
    assert!(order.is_sorted_by(|one, two| one > two), "{order:?}");
    // The first request of a new connection may be on the way.
    let at = now + Duration::from_secs(1);
    let order = [&old, &idle, &new, &writing].map(|connection| connection.eviction_priority(at));
    assert!(order.is_sorted_by(|one, two| one > two), "{order:?}");
}

proptest! {
    /// The connection ends, and its output is whole responses: for any input, in any pieces, accepted in any way.
    #[test]
    fn hostile_peers_get_answers_or_nothing(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just(GET.to_vec()),
                Just(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
                (1..GET.len()).prop_map(|at| GET[..at].to_vec()),
                proptest::collection::vec(any::<u8>(), 1..50),
            ],
            0..12,
        ),
        takes in proptest::collection::vec(0_usize..300, 0..60),
    ) {
        let now = Instant::now();
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let mut connection = Connection::new(Peer { hung_up: true, takes: 0, ..peer(&pieces) }, now);
        for more in takes {
            let before = connection.stream().taken.len();
            connection.step(now, &mut |request| Response { body: Vec::new(), ..echo(request) });
            prop_assert!(connection.stream().taken.len() >= before);
            if let Some(peer) = connection_peer(&mut connection) {
                peer.takes = more;
            }
        }
        for _ in 0..1000 {
            if let Some(peer) = connection_peer(&mut connection) {
                peer.takes = usize::MAX;
            }
            connection.step(now, &mut |request| Response { body: Vec::new(), ..echo(request) });
        }
        prop_assert!(connection.is_closed());
        for (status, _) in answers(&connection.stream().taken, false) {
            prop_assert!([200, 400, 431, 505].contains(&status));
        }
    }
}

/// Returns the peer, unless the connection is closed.
fn connection_peer(connection: &mut Connection<Peer>) -> Option<&mut Peer> {
    (!connection.is_closed()).then(|| connection.stream_mut())
}
