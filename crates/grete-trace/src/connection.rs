//! One connection to the agent, kept while it works.

use std::io::{self, ErrorKind, Read, Write};
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
        let written = write(&mut open.stream, head, deadline).and_then(|()| write(&mut open.stream, body, deadline));
        // Who has read enough answers and closes: the answer counts, then.
        let answer = match (written, self.read(&mut open.stream, deadline)) {
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
        Ok(Open { _guard: guard, stream })
    }

    fn read(&mut self, stream: &mut Stream, deadline: Instant) -> Result<Answer, Reason> {
        self.answer.clear();
        let mut buffer = [0; 4096];
        loop {
            let count = read(stream, &mut buffer, deadline).map_err(|error| reason(&error))?;
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

fn write(stream: &mut Stream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = Some(left(deadline)?);
        let written = match stream {
            Stream::Tcp(stream) => stream.set_write_timeout(left).and_then(|()| stream.write(bytes)),
            Stream::Unix(stream) => stream.set_write_timeout(left).and_then(|()| stream.write(bytes)),
        };
        match written {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read(stream: &mut Stream, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
    loop {
        let left = Some(left(deadline)?);
        let count = match stream {
            Stream::Tcp(stream) => stream.set_read_timeout(left).and_then(|()| stream.read(buffer)),
            Stream::Unix(stream) => stream.set_read_timeout(left).and_then(|()| stream.read(buffer)),
        };
        match count {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
