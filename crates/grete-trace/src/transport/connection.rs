//! Persistent connection to the agent.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use grete_sys::NotInherited;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::counters::SpanDropReason;
use crate::endpoint::AgentEndpoint;
use crate::transport::http_response;
use crate::transport::http_response::Response;

#[derive(Debug)]
struct OpenStream {
    stream: NotInherited<Socket>,
    /// Timeout of a single call, as last set on the socket.
    call_timeout: Duration,
}

#[derive(Debug)]
pub(crate) struct Connection {
    agent: AgentEndpoint,
    open: Option<OpenStream>,
    response: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(agent: AgentEndpoint) -> Self {
        Self { agent, open: None, response: Vec::new() }
    }

    /// Sends a request and reads its response, all within `timeout`.
    pub(crate) fn send_request(
        &mut self,
        head: &[u8],
        body: &[u8],
        timeout: Duration,
    ) -> Result<Response, SpanDropReason> {
        let deadline = Instant::now() + timeout;
        if self.open.is_some() {
            // An agent may have closed an idle connection, which is only detected now, and is no failure of the agent.
            match self.attempt(head, body, deadline) {
                Err(SpanDropReason::Unreachable) => {}
                answered => return answered,
            }
        }
        self.attempt(head, body, deadline)
    }

    fn attempt(&mut self, head: &[u8], body: &[u8], deadline: Instant) -> Result<Response, SpanDropReason> {
        // Taken out, so that every error ends the connection.
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.connect(deadline).map_err(|error| reason(&error))?,
        };
        let written = open.write(head, body, deadline);
        // An agent may respond and close before it has read all; then the response is used.
        let answer = match (written, self.read(&mut open, deadline)) {
            (_, Ok(answer)) => answer,
            (Err(error), _) => return Err(reason(&error)),
            (Ok(()), Err(reason)) => return Err(reason),
        };
        if answer.keep_alive {
            self.open = Some(open);
        }
        Ok(answer)
    }

    fn connect(&self, deadline: Instant) -> io::Result<OpenStream> {
        let stream = match &self.agent {
            AgentEndpoint::Unix { path } => {
                let stream = NotInherited::create(|| Socket::new(Domain::UNIX, Type::STREAM, None))?;
                // This timeout also applies to connect(2), if the listener's backlog is full.
                stream.set_write_timeout(Some(time_left(deadline)?))?;
                stream.connect(&SockAddr::unix(path)?)?;
                stream
            }
            AgentEndpoint::Tcp { host, port, .. } => {
                let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
                let mut addresses = (host.as_str(), *port).to_socket_addrs()?;
                let stream = loop {
                    let Some(address) = addresses.next() else { return Err(last) };
                    let open = || Socket::new(Domain::for_address(address), Type::STREAM, None);
                    let stream = NotInherited::create(open)?;
                    match stream.connect_timeout(&address.into(), time_left(deadline)?) {
                        Ok(()) => break stream,
                        Err(error) => last = error,
                    }
                };
                stream.set_tcp_nodelay(true)?;
                stream
            }
        };
        Ok(OpenStream { stream, call_timeout: Duration::ZERO })
    }

    fn read(&mut self, open: &mut OpenStream, deadline: Instant) -> Result<Response, SpanDropReason> {
        self.response.clear();
        let mut buffer = [0; 4096];
        loop {
            let count = open.read(&mut buffer, deadline).map_err(|error| reason(&error))?;
            if count == 0 && self.response.is_empty() {
                return Err(SpanDropReason::Unreachable);
            }
            self.response.extend_from_slice(buffer.get(..count).unwrap_or_default());
            let answer = http_response::parse(&self.response, count == 0)
                .map_err(|http_response::ParseError| SpanDropReason::InvalidResponse)?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
            if count == 0 || self.response.len() > http_response::MAX_RESPONSE_BYTES {
                return Err(SpanDropReason::InvalidResponse);
            }
        }
    }
}

fn reason(error: &io::Error) -> SpanDropReason {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => SpanDropReason::TimedOut,
        _ => SpanDropReason::Unreachable,
    }
}

/// Returns the time left; never zero, which would mean no timeout.
fn time_left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left.max(Duration::from_millis(1))) }
}

impl OpenStream {
    /// Sets the timeout of the next call to about the deadline, and at most a sixteenth later. The timeout of an
    /// earlier call is mostly good enough, and each change takes two system calls.
    fn set_timeouts(&mut self, deadline: Instant) -> io::Result<()> {
        let left = time_left(deadline)?;
        if self.call_timeout.abs_diff(left) > left / 16 {
            self.stream.set_read_timeout(Some(left))?;
            self.stream.set_write_timeout(Some(left))?;
            self.call_timeout = left;
        }
        Ok(())
    }

    /// Writes head and body at once: a head alone would be a packet of its own, and wake the agent for nothing.
    fn write(&mut self, head: &[u8], body: &[u8], deadline: Instant) -> io::Result<()> {
        let mut parts = [IoSlice::new(head), IoSlice::new(body)];
        let mut rest = &mut parts[..];
        IoSlice::advance_slices(&mut rest, 0); // skips empty parts
        while !rest.is_empty() {
            self.set_timeouts(deadline)?;
            match self.stream.write_vectored(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        loop {
            self.set_timeouts(deadline)?;
            match self.stream.read(buffer) {
                Err(error) if is_transient(&error) => {}
                done => return done,
            }
        }
    }
}

/// Returns whether the error may be transient, so that time may be left.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
}
