//! One TCP connection: addresses still to try, bytes still to write, the frame being read.

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use grete_wire::Outbound;
use grete_wire::error::WireError;
use grete_wire::frame::{Frame, FrameReader};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use socket2::SockRef;

use crate::fork::CloseInChild;
use crate::unwritten::Unwritten;

/// Bytes read from one socket before the others get their turn.
const READ_TURN: usize = 4 << 20;

pub(crate) struct Socket {
    stream: Option<(CloseInChild, TcpStream)>,
    /// Tried from the back.
    addresses: Vec<SocketAddr>,
    connected: bool,
    reader: FrameReader,
    unwritten: Unwritten,
    /// The kernel took less than we had: it is asked to tell when there is room.
    wants_room: bool,
}

/// What reading came to.
pub(crate) enum ReadEnd {
    /// The kernel has no more for now.
    Drained,
    /// There may be more; come back without waiting for an event.
    TurnOver,
    /// The peer has closed.
    Eof,
    Io(io::Error),
    Wire(WireError),
}

impl Socket {
    pub(crate) fn new(reader: FrameReader) -> Self {
        Self {
            stream: None,
            addresses: Vec::new(),
            connected: false,
            reader,
            unwritten: Unwritten::default(),
            wants_room: true,
        }
    }

    pub(crate) fn set_addresses(&mut self, mut addresses: Vec<SocketAddr>) {
        addresses.reverse();
        self.addresses = addresses;
    }

    /// Starts to connect to the next address. An error: none is left, the last one failed like this.
    pub(crate) fn try_next(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
        self.stream = None;
        while let Some(address) = self.addresses.pop() {
            match TcpStream::connect(address) {
                Ok(mut stream) => {
                    registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
                    self.wants_room = true;
                    self.stream = Some((CloseInChild::new(stream.as_raw_fd()), stream));
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    /// After a writability event while connecting: `Ok(true)` once connected, `Ok(false)` for "not yet".
    pub(crate) fn finish_connecting(&mut self, registry: &Registry, token: Token) -> io::Result<bool> {
        let Some((_, stream)) = &self.stream else { return Ok(false) };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => {
                stream.set_nodelay(true)?;
                SockRef::from(stream).set_keepalive(true)?;
                self.connected = true;
                self.watch_room(registry, token, false)?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads what is there, handing over each whole frame.
    ///
    /// Registration is edge-triggered. A read that fills less than it was offered has emptied the socket: whatever
    /// comes after it raises a new edge, so no further read is needed to see `WouldBlock`. The end of the stream is the
    /// exception: it may have arrived together with the last bytes, and then there is no other edge; the event says so
    /// (`ended`), and reading goes on until the end is seen.
    pub(crate) fn read(&mut self, ended: bool, mut on_frame: impl FnMut(Frame)) -> (usize, ReadEnd) {
        let Some((_, stream)) = &mut self.stream else { return (0, ReadEnd::Drained) };
        let mut total = 0;
        loop {
            let space = self.reader.space();
            let offered = space.len();
            let n = match stream.read(space) {
                Ok(0) => return (total, ReadEnd::Eof),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return (total, ReadEnd::Drained),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return (total, ReadEnd::Io(error)),
            };
            total += n;
            self.reader.filled(n);
            loop {
                match self.reader.next() {
                    Ok(Some(frame)) => on_frame(frame),
                    Ok(None) => break,
                    Err(error) => return (total, ReadEnd::Wire(error)),
                }
            }
            if n < offered && !ended {
                return (total, ReadEnd::Drained);
            }
            if total >= READ_TURN {
                return (total, ReadEnd::TurnOver);
            }
        }
    }

    /// Queues `bytes` and writes what the kernel takes.
    pub(crate) fn write(&mut self, bytes: Outbound, registry: &Registry, token: Token) -> io::Result<()> {
        self.unwritten.push(bytes);
        self.flush(registry, token)
    }

    /// Being told about room costs a wake-up for each acknowledged write, so it is asked for only while something waits.
    fn watch_room(&mut self, registry: &Registry, token: Token, wanted: bool) -> io::Result<()> {
        if self.wants_room == wanted {
            return Ok(());
        }
        self.wants_room = wanted;
        let Some((_, stream)) = &mut self.stream else { return Ok(()) };
        let interest = if wanted { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        registry.reregister(stream, token, interest)
    }

    /// Goes on writing after a writability event.
    pub(crate) fn flush(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        if !self.connected {
            return Ok(());
        }
        let Some((_, stream)) = &mut self.stream else { return Ok(()) };
        let done = self.unwritten.write_to(Quiet(SockRef::from(&*stream)))?;
        self.watch_room(registry, token, !done)
    }
}

/// Writes without SIGPIPE, whatever the program does with that signal: a broker that hangs up must not end the process.
struct Quiet<'a>(SockRef<'a>);

impl Write for Quiet<'_> {
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
