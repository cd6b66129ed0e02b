//! One connection to the agent, kept while it works.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::agent::Agent;
use crate::counters::Reason;
use crate::http::{self, Answer};
use crate::sys::{self, CloseInChild};

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug)]
struct Open {
    // Goes first: a child must not close a descriptor that is somebody else's by then.
    _guard: CloseInChild,
    stream: Stream,
    /// For how long a call waits, as the system was told last.
    waits: Duration,
}

#[derive(Debug)]
pub(crate) struct Connection {
    agent: Agent,
    open: Option<Open>,
    answer: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(agent: Agent) -> Self {
        Self { agent, open: None, answer: Vec::new() }
    }

    /// Sends a request and reads its answer, all within `timeout`.
    pub(crate) fn exchange(&mut self, head: &[u8], body: &[u8], timeout: Duration) -> Result<Answer, Reason> {
        let deadline = Instant::now() + timeout;
        if self.open.is_some() {
            // An agent may have closed an idle connection: that is seen only now, and says nothing about the agent.
            match self.attempt(head, body, deadline) {
                Err(Reason::Away) => {}
                answered => return answered,
            }
        }
        self.attempt(head, body, deadline)
    }

    fn attempt(&mut self, head: &[u8], body: &[u8], deadline: Instant) -> Result<Answer, Reason> {
        // Taken out, so that whatever fails ends the connection.
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.connect(deadline).map_err(|error| reason(&error))?,
        };
        let written = open.write(head, body, deadline);
        // Who has read enough answers and closes: the answer counts, then.
        let answer = match (written, self.read(&mut open, deadline)) {
            (_, Ok(answer)) => answer,
            (Err(error), _) => return Err(reason(&error)),
            (Ok(()), Err(reason)) => return Err(reason),
        };
        if answer.keep {
            self.open = Some(open);
        }
        Ok(answer)
    }

    fn connect(&self, deadline: Instant) -> io::Result<Open> {
        let stream = match &self.agent {
            Agent::Unix { path } => Stream::Unix(sys::connect_unix(path, left(deadline)?)?),
            Agent::Tcp { host, port, .. } => {
                let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
                let mut addresses = (host.as_str(), *port).to_socket_addrs()?;
                let stream = loop {
                    let Some(address) = addresses.next() else { return Err(last) };
                    match TcpStream::connect_timeout(&address, left(deadline)?) {
                        Ok(stream) => break stream,
                        Err(error) => last = error,
                    }
                };
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
        };
        let guard = match &stream {
            Stream::Tcp(stream) => CloseInChild::new(stream),
            Stream::Unix(stream) => CloseInChild::new(stream),
        };
        Ok(Open { _guard: guard, stream, waits: Duration::ZERO })
    }

    fn read(&mut self, open: &mut Open, deadline: Instant) -> Result<Answer, Reason> {
        self.answer.clear();
        let mut buffer = [0; 4096];
        loop {
            let count = open.read(&mut buffer, deadline).map_err(|error| reason(&error))?;
            if count == 0 && self.answer.is_empty() {
                return Err(Reason::Away);
            }
            self.answer.extend_from_slice(buffer.get(..count).unwrap_or_default());
            let answer = http::parse(&self.answer, count == 0).map_err(|http::Garbage| Reason::Garbled)?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
            if count == 0 || self.answer.len() > http::LONGEST {
                return Err(Reason::Garbled);
            }
        }
    }
}

fn reason(error: &io::Error) -> Reason {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Reason::Slow,
        _ => Reason::Away,
    }
}

/// Never zero, which would mean for ever.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left.max(Duration::from_millis(1))) }
}

impl Open {
    /// Has the next call wait until about the deadline, and at most a sixteenth longer: what was said for a call before it is
    /// mostly good enough, and each word is two system calls.
    fn wait_until(&mut self, deadline: Instant) -> io::Result<()> {
        let left = left(deadline)?;
        if self.waits.abs_diff(left) > left / 16 {
            match &self.stream {
                Stream::Tcp(stream) => {
                    stream.set_read_timeout(Some(left)).and_then(|()| stream.set_write_timeout(Some(left)))?;
                }
                Stream::Unix(stream) => {
                    stream.set_read_timeout(Some(left)).and_then(|()| stream.set_write_timeout(Some(left)))?;
                }
            }
            self.waits = left;
        }
        Ok(())
    }

    /// Both in one go: a head alone would be a packet, and wake the agent, for nothing.
    fn write(&mut self, head: &[u8], body: &[u8], deadline: Instant) -> io::Result<()> {
        let mut parts = [IoSlice::new(head), IoSlice::new(body)];
        let mut rest = &mut parts[..];
        IoSlice::advance_slices(&mut rest, 0); // leaves out what is empty
        while !rest.is_empty() {
            self.wait_until(deadline)?;
            let written = match &mut self.stream {
                Stream::Tcp(stream) => stream.write_vectored(rest),
                Stream::Unix(stream) => stream.write_vectored(rest),
            };
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if goes_on(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        loop {
            self.wait_until(deadline)?;
            let count = match &mut self.stream {
                Stream::Tcp(stream) => stream.read(buffer),
                Stream::Unix(stream) => stream.read(buffer),
            };
            match count {
                Err(error) if goes_on(&error) => {}
                done => return done,
            }
        }
    }
}

/// Whether there may be time left.
fn goes_on(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
}
