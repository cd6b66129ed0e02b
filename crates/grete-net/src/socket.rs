//! TCP connection: addresses still to try, bytes still to write, and the frame being read. TLS, if there is any, is
//! between the socket and both.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use grete_sys::NotInherited;
use grete_wire::SegmentedBuf;
use grete_wire::error::WireError;
use grete_wire::frame::{Frame, FrameReader};
use grete_wire::write_buffer::WriteBuffer;
use socket2::{Domain, SockRef, Type};

use grete_proto::tls_failure::TlsFailure;

use crate::selectors::Selectors;
use crate::selectors::epoll::Token;
use crate::tls::{TlsEnd, TlsStream};

/// Bytes to read from one socket before the other sockets get their turn.
const READ_BUDGET: usize = 4 << 20;

pub(crate) struct Socket {
    stream: Option<NotInherited<TcpStream>>,
    /// Remaining addresses, the next one last.
    addresses: Vec<SocketAddr>,
    connected: bool,
    reader: FrameReader,
    write_buffer: WriteBuffer,
    /// `None`: the connection is not encrypted.
    tls: Option<Box<TlsStream>>,
    /// Whether the socket is registered for writability, because the kernel accepted less than the write buffer held.
    wants_writable: bool,
}

/// Reason why reading stopped.
pub(crate) enum ReadOutcome {
    /// The kernel has no more bytes for now.
    Drained,
    /// There may be more bytes: read again without waiting for an event.
    BudgetSpent,
    /// The peer has closed the connection.
    Eof,
    Io(io::Error),
    Wire(WireError),
    /// The two sides do not agree on an encrypted connection.
    Tls(TlsFailure),
}

/// Reason why a socket can be used no more.
pub(crate) enum SocketError {
    Io(io::Error),
    Tls(TlsFailure),
}

impl From<io::Error> for SocketError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Socket {
    pub(crate) fn new(reader: FrameReader, tls: Option<TlsStream>) -> Self {
        Self {
            stream: None,
            addresses: Vec::new(),
            connected: false,
            reader,
            write_buffer: WriteBuffer::default(),
            tls: tls.map(Box::new),
            wants_writable: true,
        }
    }

    pub(crate) fn set_addresses(&mut self, mut addresses: Vec<SocketAddr>) {
        addresses.reverse();
        self.addresses = addresses;
    }

    /// Starts connecting to the next address. Returns the error of the last address if none is left.
    pub(crate) fn connect_next(&mut self, selectors: &Selectors, token: Token) -> io::Result<()> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
        self.disconnect(selectors);
        while let Some(address) = self.addresses.pop() {
            match NotInherited::create(|| begin_connecting(address)) {
                Ok(stream) => {
                    selectors.watch_connecting(stream.as_raw_fd(), token)?;
                    self.wants_writable = true;
                    self.stream = Some(stream);
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Closes the connection. Its registrations end first: a child that has just been forked may still have a copy of
    /// the descriptor, with which the registrations would live on, and report the end of the stream again and again.
    pub(crate) fn disconnect(&mut self, selectors: &Selectors) {
        let Some(stream) = self.stream.take() else { return };
        if self.connected {
            selectors.forget(stream.as_raw_fd());
        } else {
            selectors.forget_connecting(stream.as_raw_fd());
        }
    }

    /// Returns whether the TCP connection is established.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Returns whether bytes of the application can be sent: the handshake of TLS is done, too.
    pub(crate) fn is_established(&self) -> bool {
        self.connected && self.tls.as_ref().is_none_or(|tls| tls.is_established())
    }

    /// Returns whether TLS has bytes to send that no caller has pushed, for example an answer of the handshake.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.wants_writable && self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Handles a writability event while connecting. Returns `Ok(true)` once connected and `Ok(false)` for "not yet".
    pub(crate) fn finish_connecting(&mut self, selectors: &Selectors, token: Token) -> io::Result<bool> {
        let Some(stream) = &self.stream else { return Ok(false) };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => {
                stream.set_nodelay(true)?;
                SockRef::from(&**stream).set_keepalive(true)?;
                self.connected = true;
                self.wants_writable = false;
                selectors.watch_connected(stream.as_raw_fd(), token)?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads the available bytes and passes each whole frame to `on_frame`. Returns the number of bytes read and
    /// the reason for stopping.
    ///
    /// Registration is level-triggered. A read that returns fewer bytes than its buffer holds has emptied the socket, so
    /// no further read is needed to see `WouldBlock`. What comes later is reported again, and so is the end of the
    /// stream. If the event has reported an error (`ended`), reading continues until the error is seen.
    pub(crate) fn read(&mut self, ended: bool, mut on_frame: impl FnMut(Frame)) -> (usize, ReadOutcome) {
        if self.tls.is_some() {
            return self.read_tls(ended, on_frame);
        }
        let Some(stream) = &mut self.stream else { return (0, ReadOutcome::Drained) };
        let mut total = 0;
        loop {
            let space = self.reader.read_buf();
            let offered = space.len();
            let n = match stream.read(space) {
                Ok(0) => return (total, ReadOutcome::Eof),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return (total, ReadOutcome::Drained),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return (total, ReadOutcome::Io(error)),
            };
            total += n;
            self.reader.advance(n);
            loop {
                match self.reader.next() {
                    Ok(Some(frame)) => on_frame(frame),
                    Ok(None) => break,
                    Err(error) => return (total, ReadOutcome::Wire(error)),
                }
            }
            if n < offered && !ended {
                return (total, ReadOutcome::Drained);
            }
            if total >= READ_BUDGET {
                return (total, ReadOutcome::BudgetSpent);
            }
        }
    }

    fn read_tls(&mut self, ended: bool, mut on_frame: impl FnMut(Frame)) -> (usize, ReadOutcome) {
        let (Some(stream), Some(tls)) = (&mut self.stream, &mut self.tls) else { return (0, ReadOutcome::Drained) };
        let reader = &mut self.reader;
        let mut broken = None;
        let mut total = 0;
        loop {
            let mut on_plain = |plain: &[u8]| {
                if broken.is_none() {
                    broken = feed(reader, plain, &mut on_frame).err();
                }
            };
            let (n, offered) = match tls.read(&mut **stream, &mut on_plain) {
                Ok((n, offered)) => (n, offered),
                Err(TlsEnd::Tls(failure)) => {
                    tls.write_alert(NoSigpipe(SockRef::from(&**stream)));
                    return (total, ReadOutcome::Tls(failure));
                }
                Err(TlsEnd::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    return (total, ReadOutcome::Drained);
                }
                Err(TlsEnd::Io(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(TlsEnd::Io(error)) => return (total, at_end(tls, ReadOutcome::Io(error))),
            };
            total += n;
            if let Some(error) = broken.take() {
                return (total, ReadOutcome::Wire(error));
            }
            if n == 0 || tls.has_ended() {
                return (total, at_end(tls, ReadOutcome::Eof));
            }
            if n < offered && !ended {
                return (total, ReadOutcome::Drained);
            }
            if total >= READ_BUDGET {
                return (total, ReadOutcome::BudgetSpent);
            }
        }
    }

    /// Queues `bytes` and writes as many as the kernel accepts.
    pub(crate) fn write(
        &mut self,
        bytes: SegmentedBuf,
        selectors: &Selectors,
        token: Token,
    ) -> Result<(), SocketError> {
        match &mut self.tls {
            Some(tls) => tls.push(bytes),
            None => self.write_buffer.push(bytes),
        }
        self.flush(selectors, token)
    }

    /// Registers for writability events only while bytes wait, because each event costs a wake-up per acknowledged
    /// write.
    fn update_write_interest(&mut self, selectors: &Selectors, token: Token, wanted: bool) -> io::Result<()> {
        if self.wants_writable == wanted {
            return Ok(());
        }
        self.wants_writable = wanted;
        let Some(stream) = &self.stream else { return Ok(()) };
        selectors.watch_writable(stream.as_raw_fd(), token, wanted)
    }

    /// Continues writing after a writability event.
    pub(crate) fn flush(&mut self, selectors: &Selectors, token: Token) -> Result<(), SocketError> {
        if !self.connected {
            return Ok(());
        }
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let sink = NoSigpipe(SockRef::from(&**stream));
        let done = match &mut self.tls {
            None => self.write_buffer.write_to(sink)?,
            Some(tls) => match tls.write_to(sink) {
                Ok(done) => done,
                Err(TlsEnd::Tls(failure)) => return Err(SocketError::Tls(failure)),
                Err(TlsEnd::Io(error)) => {
                    // A peer that has closed the connection resets it at a write, and its alert is still to be read.
                    let end = tls.read(&mut **stream, &mut |_| {});
                    return Err(match (end, tls.failure_at_end()) {
                        (Err(TlsEnd::Tls(failure)), _) | (_, Some(failure)) => SocketError::Tls(failure),
                        _ => error.into(),
                    });
                }
            },
        };
        Ok(self.update_write_interest(selectors, token, !done)?)
    }
}

/// Begins to connect without blocking. The socket becomes writable once it is connected or has failed.
fn begin_connecting(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, None)?; // close-on-exec
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Copies decrypted bytes into the buffer of the reader and takes the whole frames out.
fn feed(reader: &mut FrameReader, mut plain: &[u8], on_frame: &mut impl FnMut(Frame)) -> Result<(), WireError> {
    while !plain.is_empty() {
        let space = reader.read_buf();
        let n = space.len().min(plain.len());
        let (now, later) = plain.split_at(n);
        if let Some(space) = space.get_mut(..n) {
            space.copy_from_slice(now);
        }
        reader.advance(n);
        plain = later;
        while let Some(frame) = reader.next()? {
            on_frame(frame);
        }
    }
    Ok(())
}

/// Returns how the end of an encrypted stream counts: as a failure of TLS if the peer has not accepted the client.
fn at_end(tls: &TlsStream, end: ReadOutcome) -> ReadOutcome {
    tls.failure_at_end().map_or(end, ReadOutcome::Tls)
}

/// Writer that never raises SIGPIPE, however the program handles that signal. A broker that closes its connection must
/// not end the process.
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
