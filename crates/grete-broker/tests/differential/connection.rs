//! Connection of a side: requests out, responses in, with a deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use grete_wire::frame::{encode_request, parse_response_header};

use crate::message::{Ask, decode};
use crate::tree::Tree;

/// `client.id` of all connections.
pub const CLIENT_ID: &str = "differ";

/// Outcome of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Response.
    Response(Tree),
    /// The broker closed the connection.
    Closed,
    /// No response within the deadline.
    None,
}

/// Connection with at most one request in progress.
#[derive(Debug)]
pub struct Connection {
    address: String,
    stream: Option<TcpStream>,
    received: Vec<u8>,
    correlation_id: i32,
}

impl Connection {
    /// Creates a connection that is opened by the first request.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), stream: None, received: Vec::new(), correlation_id: 0 }
    }

    /// Sends a request.
    pub fn send(&mut self, ask: &Ask) {
        self.correlation_id += 1;
        let body = |out: &mut grete_wire::SegmentedBuf| {
            out.tail().extend_from_slice(&ask.body);
            Ok(())
        };
        let request = encode_request(ask.api, ask.version, self.correlation_id, CLIENT_ID, ask.body.len() + 64, body)
            .expect("encodes");
        let bytes = request.to_vec();
        if self.stream.is_none() {
            let stream = TcpStream::connect(&self.address).expect("connects");
            stream.set_nodelay(true).expect("sets");
            self.stream = Some(stream);
        }
        // A broker that closed the connection is seen by the read.
        let _ = self.stream.as_mut().expect("open").write_all(&bytes);
    }

    /// Waits for the response to the last request.
    pub fn receive(&mut self, ask: &Ask, timeout: Duration) -> Answer {
        let end = Instant::now() + timeout;
        loop {
            if let Some(frame) = self.take_frame() {
                let (correlation_id, body) = parse_response_header(ask.api, ask.version, &frame).expect("a header");
                assert_eq!(correlation_id, self.correlation_id, "response to another request: {ask:?}");
                return Answer::Response(decode(ask, &frame[body..]));
            }
            let Some(stream) = &mut self.stream else { return Answer::Closed };
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_micros(500));
            stream.set_read_timeout(Some(left)).expect("sets");
            let mut chunk = [0; 16384];
            match stream.read(&mut chunk) {
                Ok(0) => self.close(),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if Instant::now() >= end {
                        return Answer::None;
                    }
                }
                Err(_) => self.close(),
            }
        }
    }

    /// Closes the connection; the next request opens a new one.
    pub fn close(&mut self) {
        self.stream = None;
        self.received.clear();
    }

    fn take_frame(&mut self) -> Option<Vec<u8>> {
        let size = u32::from_be_bytes(self.received.get(..4)?.try_into().ok()?) as usize;
        if self.received.len() < 4 + size {
            return None;
        }
        let frame = self.received[4..4 + size].to_vec();
        self.received.drain(..4 + size);
        Some(frame)
    }
}
