//! Tests of the event loop against real sockets on loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use grete_net::{Clock, EventLoop, NetEvent, Protocol, TransportAction};
use grete_proto::connection::CloseReason;
use grete_proto::ids::ConnId;
use grete_proto::time::{Nanos, SECOND};
use grete_wire::buffer_pool::BufferPool;

const CONN: ConnId = ConnId(1);

/// Connects, sends `send`, and records what arrives. Finishes when the connection ends, or at a deadline, which fails
/// the test.
struct Client {
    host: Arc<str>,
    port: u16,
    send: Vec<u8>,
    expect: usize,
    seen: Arc<Mutex<Seen>>,
    deadline: Option<Nanos>,
    started: bool,
    finished: bool,
}

#[derive(Default, Debug)]
struct Seen {
    frames: Vec<Vec<u8>>,
    connected: bool,
    closed: Option<CloseReason>,
    ticks: usize,
}

impl Protocol for Client {
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<TransportAction>) {
        let mut seen = self.seen.lock().expect("no panic elsewhere");
        match event {
            NetEvent::Tick if !self.started => {
                self.started = true;
                self.deadline = Some(now + 20 * SECOND);
                actions.push(TransportAction::Connect { conn: CONN, host: self.host.clone(), port: self.port });
            }
            NetEvent::Tick => {
                seen.ticks += 1;
                self.finished |= self.deadline.is_some_and(|deadline| deadline <= now);
            }
            NetEvent::Connected(_) => {
                seen.connected = true;
                actions.push(TransportAction::Write { conn: CONN, bytes: std::mem::take(&mut self.send).into() });
            }
            NetEvent::Frame(_, frame) => {
                seen.frames.push(frame.to_vec());
                if seen.frames.len() == self.expect {
                    actions.push(TransportAction::CloseConn(CONN));
                    self.finished = true;
                }
            }
            NetEvent::Gss(..) => panic!("no login was asked for"),
            NetEvent::Closed(_, reason) => {
                seen.closed = Some(reason);
                self.finished = true;
            }
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

fn frame(body: &[u8]) -> Vec<u8> {
    let size = i32::try_from(body.len()).expect("a small body");
    [&size.to_be_bytes()[..], body].concat()
}

fn run(host: &str, port: u16, send: Vec<u8>, expect: usize) -> Seen {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let client = Client {
        host: host.into(),
        port,
        send,
        expect,
        seen: Arc::clone(&seen),
        deadline: None,
        started: false,
        finished: false,
    };
    let event_loop = EventLoop::new(Clock::new(), BufferPool::new(1 << 20), 64 << 20, |_| client).expect("a loop");
    event_loop.run().expect("no fault of the poll");
    let mut seen = seen.lock().expect("no panic elsewhere");
    std::mem::take(&mut *seen)
}

fn serve(handler: impl FnOnce(std::net::TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || handler(listener.accept().expect("a client").0));
    address
}

#[test]
fn frames_of_all_sizes_come_back_whole() {
    let bodies: Vec<Vec<u8>> = [1, 100, 70_000, 3_000_000, 12_000_000].map(|n| vec![7; n]).into();
    let sent: Vec<u8> = bodies.iter().flat_map(|body| frame(body)).collect();
    let total = sent.len();
    let address = serve(move |mut stream| {
        let mut echo = vec![0; total];
        stream.read_exact(&mut echo).expect("all of it");
        stream.write_all(&echo).expect("all of it");
        // Stays open until the client closes.
        let _ = stream.read(&mut [0]);
    });
    let seen = run("localhost", address.port(), sent, bodies.len());
    assert!(seen.connected);
    assert!(seen.closed.is_none());
    assert_eq!(seen.frames.iter().map(Vec::len).collect::<Vec<_>>(), bodies.iter().map(Vec::len).collect::<Vec<_>>());
}

#[test]
fn the_end_of_the_stream_is_reported() {
    let address = serve(|mut stream| {
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(&[0, 0, 0, 9, 1]);
    });
    let seen = run("127.0.0.1", address.port(), frame(b"hello"), 1);
    assert_eq!(seen.closed, Some(CloseReason::Eof));
    assert!(seen.frames.is_empty());
}

#[test]
fn what_is_not_a_frame_is_reported() {
    let address = serve(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read(&mut [0]);
    });
    let seen = run("127.0.0.1", address.port(), frame(b"hello"), 1);
    assert!(matches!(seen.closed, Some(CloseReason::Wire(_))), "{seen:?}");
}

#[test]
fn refused_connections_and_unknown_host_names_are_reported() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let seen = run("127.0.0.1", free.port(), Vec::new(), 1);
    assert!(matches!(seen.closed, Some(CloseReason::Connect(_))), "{seen:?}");
    let seen = run("no-such-host.invalid", 9092, Vec::new(), 1);
    assert!(matches!(seen.closed, Some(CloseReason::Resolve(_))), "{seen:?}");
}
