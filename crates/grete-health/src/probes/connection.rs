//! One connection: requests come in, one after the other, and each gets its answer before the next is looked at.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use super::answer::Answer;
use super::request::{MAX_HEAD, Parsed, Request, parse};

/// For a whole request, from its first byte (the first request: from the connection) to its last; and for taking an answer.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Between two requests. Prometheus asks four times a minute unless it is told otherwise.
pub const IDLE: Duration = Duration::from_secs(75);
/// After the last answer, for the peer to hang up.
const LINGER: Duration = Duration::from_secs(1);
/// What is thrown away of what follows a request that was refused.
const MOST_THROWN: usize = 256 << 10;

/// Both directions, without blocking.
pub trait Stream: Read + Write {
    /// Nothing more will be written.
    fn finish(&mut self);
}

/// What a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// No byte of the next request is there.
    Idle,
    /// Some are.
    Receiving,
    /// The answer goes out; then the connection goes on, or not.
    Answering {
        keep: bool,
    },
    /// Everything has been said. To close now would take back what the peer has not read yet, if it has sent more than was read.
    Lingering {
        thrown: usize,
    },
    Over,
}

/// See the file's head.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    at: At,
    deadline: Instant,
    received: Vec<u8>,
    /// So many bytes of these hold no end of a request.
    scanned: usize,
    /// There are bytes that nobody has looked at.
    unseen: bool,
    answer: Vec<u8>,
    written: usize,
}

impl<S: Stream> Connection<S> {
    /// Just accepted.
    pub fn new(stream: S, now: Instant) -> Self {
        Self {
            stream,
            at: At::Idle,
            deadline: now + PATIENCE,
            received: Vec::new(),
            scanned: 0,
            unseen: false,
            answer: Vec::new(),
            written: 0,
        }
    }

    /// What it was made with.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The same, to be changed.
    pub fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Whether it waits until it can write, and not until it can read.
    pub fn writes(&self) -> bool {
        matches!(self.at, At::Answering { .. })
    }

    /// Whether there is something to do at once.
    pub fn is_busy(&self) -> bool {
        self.unseen && !self.writes()
    }

    /// Whether it can be closed.
    pub fn is_over(&self) -> bool {
        self.at == At::Over
    }

    /// When [`Connection::late`] is due.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The greater, the sooner it has to make room for somebody else: those who have asked nothing go before those who get an
    /// answer, and among them those who have had most time.
    pub fn dispensable(&self) -> (bool, std::cmp::Reverse<Instant>) {
        (!self.writes(), std::cmp::Reverse(self.deadline))
    }

    /// Does what can be done without waiting, and at most one request, so that nobody keeps the others waiting.
    pub fn step(&mut self, now: Instant, answer: &mut dyn FnMut(&Request) -> Answer) {
        match self.at {
            At::Answering { .. } => self.write(now),
            At::Lingering { .. } => self.throw_away(),
            At::Idle | At::Receiving => {
                if self.is_busy() || self.read(now) {
                    self.look(now, answer);
                }
            }
            At::Over => {}
        }
    }

    /// Its time is over.
    pub fn late(&mut self, now: Instant) {
        if self.at == At::Receiving {
            self.refuse(&Answer::refusal(408, "the request was not complete in time"), now);
        } else {
            self.at = At::Over;
        }
    }

    /// Whether there is something new.
    fn read(&mut self, now: Instant) -> bool {
        let mut chunk = [0; MAX_HEAD];
        // Never more than a request may have: what follows it stays in the socket, and in the peer in the end.
        let room = MAX_HEAD.saturating_sub(self.received.len()).clamp(1, MAX_HEAD);
        match self.stream.read(chunk.get_mut(..room).unwrap_or_default()) {
            Ok(0) if self.at == At::Receiving => {
                self.refuse(&Answer::refusal(400, "the request ends in its middle"), now);
                false
            }
            // That is how load balancers look whether a port is open.
            Ok(0) => {
                self.at = At::Over;
                false
            }
            Ok(count) => {
                self.received.extend(chunk.iter().take(count));
                self.unseen = true;
                true
            }
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    fn look(&mut self, now: Instant, answer: &mut dyn FnMut(&Request) -> Answer) {
        self.unseen = false;
        match parse(&self.received, self.scanned) {
            Parsed::More => {
                self.scanned = self.received.len();
                if self.at == At::Idle {
                    self.at = At::Receiving;
                    // Of the first one the time runs already.
                    self.deadline = self.deadline.min(now + PATIENCE);
                }
            }
            Parsed::Request(request, length) => {
                self.received.drain(..length);
                self.scanned = 0;
                self.unseen = !self.received.is_empty();
                let found = answer(&request);
                self.begin(&found, request.method == "HEAD", request.keep, now);
            }
            Parsed::Refused(refusal) => self.refuse(&refusal, now),
        }
    }

    fn refuse(&mut self, refusal: &Answer, now: Instant) {
        self.begin(refusal, false, false, now);
    }

    fn begin(&mut self, answer: &Answer, head: bool, keep: bool, now: Instant) {
        self.answer.clear();
        self.written = 0;
        answer.encode(&mut self.answer, head, keep);
        if !keep {
            self.received.clear(); // nobody will look at it
            self.unseen = false;
        }
        self.at = At::Answering { keep };
        self.deadline = now + PATIENCE;
        self.write(now);
    }

    fn write(&mut self, now: Instant) {
        while let Some(left) = self.answer.get(self.written..).filter(|left| !left.is_empty()) {
            match self.stream.write(left) {
                Ok(0) => {
                    self.at = At::Over;
                    return;
                }
                Ok(count) => self.written += count,
                Err(error) => return self.fail(&error),
            }
        }
        if self.at == (At::Answering { keep: true }) {
            self.at = At::Idle;
            self.deadline = now + IDLE;
            self.answer = Vec::new(); // a scrape's answer is large
        } else {
            self.stream.finish();
            self.at = At::Lingering { thrown: 0 };
            self.deadline = now + LINGER;
            self.throw_away();
        }
    }

    fn throw_away(&mut self) {
        let mut chunk = [0; MAX_HEAD];
        while let At::Lingering { thrown } = self.at {
            match self.stream.read(&mut chunk) {
                Ok(count) if count > 0 && thrown + count < MOST_THROWN => {
                    self.at = At::Lingering { thrown: thrown + count }
                }
                Ok(_) => self.at = At::Over,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.fail(&error),
            }
        }
    }

    fn fail(&mut self, error: &io::Error) {
        if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
            self.at = At::Over;
        }
    }
}
