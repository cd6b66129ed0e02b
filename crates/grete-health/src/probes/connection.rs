//! State machine of one HTTP connection. Requests are handled one after the other: the next one is parsed after the
//! response to the previous one is written.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use super::protocol::HttpProtocol;
use super::request::{MAX_HEAD_BYTES, Request};
use super::response::Response;

/// Time for a whole request, from its first byte (the first request: from the connection) to its last; and for writing
/// a response.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two requests. Prometheus scrapes four times a minute by default.
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(75);
/// Time for a new connection to send its first request before another one may have its descriptor.
pub const FIRST_REQUEST_GRACE: Duration = Duration::from_millis(100);
/// Time after the last response for the peer to hang up.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum bytes read and discarded after a refused request.
const MAX_DISCARDED_BYTES: usize = 256 << 10;

/// Non-blocking stream in both directions.
pub trait Stream: Read + Write {
    /// Shuts down the write side.
    fn shutdown_write(&mut self);
}

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No byte of the next request has arrived.
    Idle,
    /// Some bytes of the next request have arrived.
    Receiving,
    /// A response is being written; then the connection continues, or not.
    Responding {
        keep_alive: bool,
    },
    /// All responses are written. Closing now would make the kernel reset the connection if the peer has sent more than
    /// was read, and the peer might lose the response.
    Lingering {
        discarded: usize,
    },
    Closed,
}

/// Connection of one peer; see the module's head.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    state: State,
    deadline: Instant,
    /// End of the time in which the connection is not evicted, because its first request may be on the way.
    spared_until: Instant,
    http: HttpProtocol,
    response: Vec<u8>,
    written: usize,
}

impl<S: Stream> Connection<S> {
    /// Creates the state of a connection that was just accepted.
    pub fn new(stream: S, now: Instant) -> Self {
        Self {
            stream,
            state: State::Idle,
            deadline: now + REQUEST_TIMEOUT,
            spared_until: now + FIRST_REQUEST_GRACE,
            http: HttpProtocol::new(true),
            response: Vec::new(),
            written: 0,
        }
    }

    /// Returns the stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Returns the stream for changes.
    pub fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns whether the connection waits for writability, and not for readability.
    pub fn wants_write(&self) -> bool {
        matches!(self.state, State::Responding { .. })
    }

    /// Returns whether there is something to do at once, without waiting.
    pub fn has_buffered_request(&self) -> bool {
        self.http.has_unparsed() && !self.wants_write()
    }

    /// Returns whether the connection can be dropped.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Returns when [`Connection::on_deadline`] is due.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the end of the time in which the connection should not be evicted.
    pub fn spared_until(&self) -> Instant {
        self.spared_until
    }

    /// Returns the order of eviction: the greatest goes first. Connections without a response in progress go before the
    /// others, among them those whose first request is not on the way, and among these those that have had the most
    /// time.
    pub fn eviction_priority(&self, now: Instant) -> (bool, bool, std::cmp::Reverse<Instant>) {
        (!self.wants_write(), self.spared_until <= now, std::cmp::Reverse(self.deadline))
    }

    /// Does what can be done without waiting, and at most one request, so that no connection starves the others.
    pub fn step(&mut self, now: Instant, handler: &mut dyn FnMut(&Request) -> Response) {
        match self.state {
            State::Responding { .. } => self.write(now),
            State::Lingering { .. } => self.discard_input(),
            State::Idle | State::Receiving => {
                if self.has_buffered_request() || self.read(now) {
                    self.parse_buffered(now, handler);
                }
            }
            State::Closed => {}
        }
    }

    /// Handles the deadline.
    pub fn on_deadline(&mut self, now: Instant) {
        let refusal = if self.state == State::Receiving { self.http.on_timeout() } else { None };
        self.respond_or_close(refusal, now);
    }

    /// Reads the available bytes. Returns whether new bytes have to be parsed.
    fn read(&mut self, now: Instant) -> bool {
        let mut chunk = [0; MAX_HEAD_BYTES];
        // Never more than a request may have: the rest stays in the socket, and so with the peer.
        match self.stream.read(chunk.get_mut(..self.http.room()).unwrap_or_default()) {
            Ok(0) => {
                let refusal = self.http.on_eof();
                self.respond_or_close(refusal, now);
                false
            }
            Ok(count) => {
                self.http.feed(chunk.get(..count).unwrap_or_default());
                true
            }
            Err(error) => {
                self.on_io_error(&error);
                false
            }
        }
    }

    fn parse_buffered(&mut self, now: Instant, handler: &mut dyn FnMut(&Request) -> Response) {
        match self.http.next_request() {
            None => {
                if self.state == State::Idle {
                    self.state = State::Receiving;
                    // The time for the first request is running already.
                    self.deadline = self.deadline.min(now + REQUEST_TIMEOUT);
                }
            }
            Some(Ok(request)) => self.start_response(&handler(&request), now),
            Some(Err(refusal)) => self.start_response(&refusal, now),
        }
    }

    fn respond_or_close(&mut self, refusal: Option<Response>, now: Instant) {
        match refusal {
            Some(refusal) => self.start_response(&refusal, now),
            None => self.state = State::Closed,
        }
    }

    fn start_response(&mut self, response: &Response, now: Instant) {
        self.response.clear();
        self.written = 0;
        let Response { status, content_type, body } = response;
        let keep_alive = self.http.encode(*status, content_type, body, &mut self.response);
        self.state = State::Responding { keep_alive };
        self.deadline = now + REQUEST_TIMEOUT;
        self.spared_until = now;
        self.write(now);
    }

    fn write(&mut self, now: Instant) {
        while let Some(left) = self.response.get(self.written..).filter(|left| !left.is_empty()) {
            match self.stream.write(left) {
                Ok(0) => {
                    self.state = State::Closed;
                    return;
                }
                Ok(count) => self.written += count,
                Err(error) => return self.on_io_error(&error),
            }
        }
        if self.state == (State::Responding { keep_alive: true }) {
            self.state = State::Idle;
            self.deadline = now + KEEP_ALIVE_TIMEOUT;
            self.response = Vec::new(); // the response to a scrape is large
        } else {
            self.stream.shutdown_write();
            self.state = State::Lingering { discarded: 0 };
            self.deadline = now + LINGER_TIMEOUT;
            self.discard_input();
        }
    }

    fn discard_input(&mut self) {
        let mut chunk = [0; MAX_HEAD_BYTES];
        while let State::Lingering { discarded: thrown } = self.state {
            match self.stream.read(&mut chunk) {
                Ok(count) if count > 0 && thrown + count < MAX_DISCARDED_BYTES => {
                    self.state = State::Lingering { discarded: thrown + count }
                }
                Ok(_) => self.state = State::Closed,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.on_io_error(&error),
            }
        }
    }

    fn on_io_error(&mut self, error: &io::Error) {
        if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
            self.state = State::Closed;
        }
    }
}
