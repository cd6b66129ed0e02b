//! Connection of a client: requests in, responses out.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use grete_sys::NotInherited;
use grete_wire::buffer_pool::BufferPool;
use grete_wire::write_buffer::WriteBuffer;
use grete_wire::{Frame, FrameReader, SegmentedBuf, WireError};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use socket2::SockRef;

use super::certified;
use super::tls::{self, TlsConfig, TlsRead};

/// Time that a client has to read the last responses of a connection that the broker closes.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(10);

/// Connection of a client.
#[derive(Debug)]
pub(super) struct Connection {
    stream: NotInherited<TcpStream>,
    token: Token,
    /// `None`: the connection is not encrypted.
    tls: Option<Box<rustls::ServerConnection>>,
    reader: FrameReader,
    unwritten: WriteBuffer,
    /// The kernel may have bytes to read. Registration is edge-triggered, so that this must be remembered.
    pub(super) readable: bool,
    /// The selector has reported the end of the stream or an error.
    pub(super) ended: bool,
    /// The machine has paused reading.
    pub(super) paused: bool,
    /// The connection is in the list of connections with work.
    pub(super) queued: bool,
    /// Bytes that the event loop counts for the connection in its sum.
    pub(super) counted_bytes: usize,
    /// The broker closes the connection: no more requests are read. The time by which the connection ends in any case.
    closing: Option<Instant>,
    /// All responses of a closing connection are written, and the client sees the end of the stream.
    finished: bool,
    wants_writable: bool,
    /// The certificate of the client was read.
    is_identified: bool,
}

/// Result of one read.
pub(super) enum ReadOutcome {
    /// This many bytes came.
    Bytes(usize),
    /// The kernel has no more bytes for now.
    Drained,
    /// The client has closed the connection, or the connection failed.
    Ended,
    /// Client and broker do not agree on an encrypted connection.
    Refused(rustls::Error),
}

impl Connection {
    /// Registers a new connection.
    pub(super) fn new(
        mut stream: NotInherited<TcpStream>,
        token: Token,
        registry: &Registry,
        pool: &BufferPool,
        max_request_bytes: usize,
        tls: Option<&TlsConfig>,
    ) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        registry.register(&mut *stream, token, Interest::READABLE)?;
        Ok(Self {
            stream,
            token,
            tls: tls.map(TlsConfig::accept).transpose()?.map(Box::new),
            reader: FrameReader::new(pool.clone(), max_request_bytes),
            unwritten: WriteBuffer::default(),
            readable: true,
            ended: false,
            paused: false,
            queued: false,
            counted_bytes: 0,
            closing: None,
            finished: false,
            wants_writable: false,
            is_identified: false,
        })
    }

    /// Returns the principal of the client's certificate, once after the handshake.
    pub(super) fn take_principal(&mut self) -> Option<String> {
        let tls = self.tls.as_ref().filter(|tls| !self.is_identified && !tls.is_handshaking())?;
        self.is_identified = true;
        certified::principal(tls)
    }

    /// Returns the next request that has arrived whole. An error is a defect of the client: close the connection.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>, WireError> {
        self.reader.next()
    }

    /// Returns whether requests may be handed out: the client reads its responses, and nothing else forbids it.
    pub(super) fn may_read(&self, pause_reading_bytes: usize) -> bool {
        !self.paused && self.closing.is_none() && self.unwritten.len() < pause_reading_bytes
    }

    /// Reads once from the kernel.
    ///
    /// A read that returns fewer bytes than its buffer holds has emptied the socket, and later bytes raise a new edge.
    /// The end of the stream may arrive together with the last bytes, so that a stream with an end is read on.
    pub(super) fn read(&mut self) -> ReadOutcome {
        if let Some(tls) = &mut self.tls {
            let mut filled = 0;
            let outcome = tls::read(tls, &mut *self.stream, self.reader.read_buf(), |n| filled = n);
            self.reader.advance(filled);
            return match outcome {
                TlsRead::Bytes(n) => ReadOutcome::Bytes(n),
                TlsRead::Drained => {
                    self.readable = false;
                    ReadOutcome::Drained
                }
                TlsRead::Ended => ReadOutcome::Ended,
                TlsRead::Refused(error) => ReadOutcome::Refused(error),
            };
        }
        let space = self.reader.read_buf();
        let offered = space.len();
        match self.stream.read(space) {
            Ok(0) => ReadOutcome::Ended,
            Ok(n) => {
                self.reader.advance(n);
                self.readable = n == offered || self.ended;
                ReadOutcome::Bytes(n)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                ReadOutcome::Drained
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => ReadOutcome::Bytes(0),
            Err(_) => ReadOutcome::Ended,
        }
    }

    /// Reads and forgets bytes of a closing connection. Returns whether the client has closed its side, too.
    ///
    /// A close with unread bytes would reset the connection, and the reset could overtake the last responses.
    pub(super) fn discard(&mut self) -> bool {
        let mut buffer = [0; 4096];
        for _ in 0..64 {
            match self.stream.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
        self.finished // a client that sends without an end is not waited for
    }

    /// Returns the number of bytes of responses that the client has not read.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.unwritten.len()
    }

    /// Returns the number of bytes in memory: of the request that has not arrived whole, and of unread responses.
    pub(super) fn held_bytes(&self) -> usize {
        self.reader.unfinished_bytes() + self.unwritten.len()
    }

    /// Queues `bytes` and writes as many as the kernel accepts.
    pub(super) fn write(&mut self, bytes: SegmentedBuf, registry: &Registry) -> io::Result<()> {
        if self.closing.is_some() {
            return Ok(());
        }
        self.unwritten.push(bytes);
        self.flush(registry)
    }

    /// Writes as many queued bytes as the kernel accepts.
    pub(super) fn flush(&mut self, registry: &Registry) -> io::Result<()> {
        let stream = NoSigpipe(SockRef::from(&*self.stream));
        let done = match &mut self.tls {
            None => self.unwritten.write_to(stream)?,
            Some(tls) => {
                if self.closing.is_some() && self.unwritten.is_empty() && !self.finished {
                    tls.send_close_notify();
                }
                tls::write_to(tls, &mut self.unwritten, stream)?
            }
        };
        // Writability is only requested while bytes wait, because each event costs a wake-up.
        if self.wants_writable == done {
            self.wants_writable = !done;
            let interest = if done { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
            registry.reregister(&mut *self.stream, self.token, interest)?;
        }
        if done && self.closing.is_some() && !self.finished {
            self.finished = true;
            self.stream.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }

    /// Begins to close the connection: the queued bytes are written, then the client sees the end of the stream.
    pub(super) fn close(&mut self, registry: &Registry) -> io::Result<()> {
        self.closing = self.closing.or_else(|| Instant::now().checked_add(CLOSING_TIMEOUT));
        self.flush(registry)
    }

    /// Returns the time by which a closing connection ends in any case; `None`: the connection is not closing.
    pub(super) fn closes_by(&self) -> Option<Instant> {
        self.closing
    }

    /// Returns whether TLS has bytes to write that answer what was read.
    pub(super) fn is_handshake_answered(&self) -> bool {
        !self.wants_writable && self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    pub(super) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

/// Writer that never raises SIGPIPE, however the program handles that signal.
struct NoSigpipe<'a>(SockRef<'a>);

impl Write for NoSigpipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_with_flags(bytes, libc::MSG_NOSIGNAL)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send_vectored_with_flags(slices, libc::MSG_NOSIGNAL)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
