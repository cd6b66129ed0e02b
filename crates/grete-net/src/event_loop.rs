//! The loop: waits for sockets, for the next deadline or for a wake-up, steps the protocol, performs what it asks for.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use grete_core::conn::CloseReason;
use grete_core::ids::ConnId;
use grete_core::time::Nanos;
use grete_wire::Outbound;
use grete_wire::frame::{Frame, FrameReader};
use grete_wire::slab::SlabPool;
use mio::{Events, Poll, Token};

use crate::clock::Clock;
use crate::fork::CloseInChild;
use crate::resolver::Resolver;
use crate::socket::{ReadEnd, Socket};

const WAKE: Token = Token(usize::MAX);

/// What the loop tells the protocol.
#[derive(Debug)]
pub enum NetEvent {
    /// A deadline has passed, or somebody called [`Waker::wake`].
    Tick,
    /// The connection asked for is up.
    Connected(ConnId),
    /// A whole frame arrived.
    Frame(ConnId, Frame),
    /// The connection is gone, or was never made. Nothing further comes from it.
    Closed(ConnId, CloseReason),
}

/// What the protocol asks of the loop.
#[derive(Debug)]
pub enum NetAction {
    /// Resolve and connect; answered by `Connected` or `Closed`.
    Connect {
        /// Its name from now on.
        conn: ConnId,
        /// Host name or literal address.
        host: Arc<str>,
        /// TCP port.
        port: u16,
    },
    /// Write these bytes, in order.
    Write {
        /// To this connection.
        conn: ConnId,
        /// Whole frames.
        bytes: Outbound,
    },
    /// Drop the connection; not answered.
    Close {
        /// Which one.
        conn: ConnId,
    },
}

/// A sans-IO machine that the loop drives.
pub trait Protocol {
    /// One event; what is to be done is pushed to `actions`.
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<NetAction>);
    /// When to step with `Tick` at the latest.
    fn deadline(&self) -> Option<Nanos>;
    /// Whether the loop may end.
    fn is_finished(&self) -> bool;
}

/// Wakes the loop from any thread.
#[derive(Debug, Clone)]
pub struct Waker(Arc<mio::Waker>);

impl Waker {
    /// The loop steps the protocol with `Tick` soon. Cheap when the loop has not yet seen the last one.
    pub fn wake(&self) {
        // The only failure is a closed descriptor, which means that the loop has ended.
        let _ = self.0.wake();
    }
}

/// Sockets, resolver and poll of one client.
pub struct EventLoop<P> {
    _close_in_child: CloseInChild,
    poll: Poll,
    waker: Waker,
    resolver: Resolver,
    sockets: HashMap<ConnId, Socket>,
    /// Sockets with more to read than their turn allowed.
    unread: Vec<(ConnId, bool)>,
    clock: Clock,
    slabs: SlabPool,
    max_frame_bytes: usize,
    protocol: P,
}

impl<P: Protocol> EventLoop<P> {
    /// Opens the poll; connects nowhere. `max_frame_bytes` bounds what one response may be.
    ///
    /// # Errors
    /// What the kernel says, descriptors exhausted for one.
    pub fn new(
        clock: Clock,
        slabs: SlabPool,
        max_frame_bytes: usize,
        protocol: impl FnOnce(Waker) -> P,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let close_in_child = CloseInChild::new(poll.as_raw_fd());
        let waker = Waker(Arc::new(mio::Waker::new(poll.registry(), WAKE)?));
        Ok(Self {
            _close_in_child: close_in_child,
            poll,
            resolver: Resolver::new(waker.clone()),
            protocol: protocol(waker.clone()),
            waker,
            sockets: HashMap::new(),
            unread: Vec::new(),
            clock,
            slabs,
            max_frame_bytes,
        })
    }

    /// A handle for other threads.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Runs until the protocol has finished.
    ///
    /// # Errors
    /// When the poll itself fails, which only a broken kernel or a stolen descriptor can cause.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut actions = Vec::new();
        let mut happened = Vec::new();
        self.step(NetEvent::Tick, &mut actions, &mut happened);
        while !self.protocol.is_finished() {
            let timeout = if self.unread.is_empty() {
                self.protocol.deadline().map(|deadline| self.clock.until(deadline))
            } else {
                Some(Duration::ZERO)
            };
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            let mut woken = events.is_empty();
            for event in &events {
                if event.token() == WAKE {
                    woken = true;
                    continue;
                }
                let conn = conn_of(event.token());
                if event.is_writable() {
                    self.writable(conn, &mut happened);
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    let ended = event.is_read_closed() || event.is_error();
                    self.readable(conn, ended, &mut happened);
                }
                self.settle(&mut actions, &mut happened);
            }
            for (conn, ended) in std::mem::take(&mut self.unread) {
                self.readable(conn, ended, &mut happened);
                self.settle(&mut actions, &mut happened);
            }
            if woken {
                for (conn, answer) in self.resolver.take() {
                    self.resolved(conn, answer, &mut happened);
                }
                happened.push(NetEvent::Tick);
                self.settle(&mut actions, &mut happened);
            }
        }
        Ok(())
    }

    /// Steps with all that happened until nothing more happens: performing an action may fail on the spot.
    fn settle(&mut self, actions: &mut Vec<NetAction>, happened: &mut Vec<NetEvent>) {
        while !happened.is_empty() {
            for event in std::mem::take(happened) {
                self.step(event, actions, happened);
            }
        }
    }

    fn step(&mut self, event: NetEvent, actions: &mut Vec<NetAction>, happened: &mut Vec<NetEvent>) {
        self.protocol.step(self.clock.now(), event, actions);
        for action in actions.drain(..) {
            match action {
                NetAction::Connect { conn, host, port } => {
                    let reader = FrameReader::new(self.slabs.clone(), self.max_frame_bytes);
                    self.sockets.insert(conn, Socket::new(reader));
                    if let Some(answer) = self.resolver.look_up(conn, &host, port) {
                        self.resolved(conn, answer, happened);
                    }
                }
                NetAction::Write { conn, bytes } => {
                    let registry = self.poll.registry();
                    let written =
                        self.sockets.get_mut(&conn).map(|socket| socket.write(bytes, registry, token_of(conn)));
                    if let Some(Err(error)) = written {
                        self.drop_socket(conn, CloseReason::Io(error.to_string().into()), happened);
                    }
                }
                NetAction::Close { conn } => {
                    self.sockets.remove(&conn);
                }
            }
        }
    }

    fn resolved(&mut self, conn: ConnId, answer: io::Result<Vec<std::net::SocketAddr>>, happened: &mut Vec<NetEvent>) {
        let Some(socket) = self.sockets.get_mut(&conn) else { return };
        let addresses = match answer {
            Ok(addresses) if !addresses.is_empty() => addresses,
            Ok(_) => return self.drop_socket(conn, CloseReason::Resolve("the name has no address".into()), happened),
            Err(error) => return self.drop_socket(conn, CloseReason::Resolve(error.to_string().into()), happened),
        };
        socket.set_addresses(addresses);
        if let Err(error) = socket.try_next(self.poll.registry(), token_of(conn)) {
            self.drop_socket(conn, CloseReason::Connect(error.to_string().into()), happened);
        }
    }

    fn writable(&mut self, conn: ConnId, happened: &mut Vec<NetEvent>) {
        let Some(socket) = self.sockets.get_mut(&conn) else { return };
        if socket.is_connected() {
            if let Err(error) = socket.flush(self.poll.registry(), token_of(conn)) {
                self.drop_socket(conn, CloseReason::Io(error.to_string().into()), happened);
            }
            return;
        }
        match socket.finish_connecting(self.poll.registry(), token_of(conn)) {
            Ok(true) => happened.push(NetEvent::Connected(conn)),
            Ok(false) => {}
            Err(error) => {
                // The next address, if the name has another one; the error of the last one is the one told.
                if socket.try_next(self.poll.registry(), token_of(conn)).is_err() {
                    self.drop_socket(conn, CloseReason::Connect(error.to_string().into()), happened);
                }
            }
        }
    }

    fn readable(&mut self, conn: ConnId, ended: bool, happened: &mut Vec<NetEvent>) {
        let Some(socket) = self.sockets.get_mut(&conn) else { return };
        if !socket.is_connected() {
            return;
        }
        let (_, end) = socket.read(ended, |frame| happened.push(NetEvent::Frame(conn, frame)));
        match end {
            ReadEnd::Drained => {}
            ReadEnd::TurnOver => self.unread.push((conn, ended)),
            ReadEnd::Eof => self.drop_socket(conn, CloseReason::Eof, happened),
            ReadEnd::Io(error) => self.drop_socket(conn, CloseReason::Io(error.to_string().into()), happened),
            ReadEnd::Wire(error) => self.drop_socket(conn, CloseReason::Wire(error), happened),
        }
    }

    fn drop_socket(&mut self, conn: ConnId, reason: CloseReason, happened: &mut Vec<NetEvent>) {
        if self.sockets.remove(&conn).is_some() {
            happened.push(NetEvent::Closed(conn, reason));
        }
    }
}

fn token_of(conn: ConnId) -> Token {
    Token(conn.0 as usize)
}

fn conn_of(token: Token) -> ConnId {
    ConnId(u32::try_from(token.0).unwrap_or(u32::MAX))
}
