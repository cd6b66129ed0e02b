//! What the lock guards: the protocol, its sockets, and how long the network thread sleeps.

use std::collections::HashMap;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use grete_core::conn::CloseReason;
use grete_core::ids::ConnId;
use grete_core::time::Nanos;
use grete_wire::frame::FrameReader;
use grete_wire::slab::SlabPool;
use mio::{Events, Registry, Token};

use crate::clock::Clock;
use crate::fork::CloseInChild;
use crate::protocol::{NetAction, NetEvent, Protocol};
use crate::resolver::Resolver;
use crate::socket::{ReadEnd, Socket};

pub(crate) const WAKE: Token = Token(usize::MAX);

/// How often in a row whoever holds the lock steps for those who found it taken, before it looks at anything else.
pub(crate) const FAVOURS: usize = 8;

pub(crate) struct State<P> {
    _close_in_child: CloseInChild,
    /// A descriptor of its own for the same poll, which the network thread waits on meanwhile.
    registry: Registry,
    resolver: Resolver,
    sockets: HashMap<ConnId, Socket>,
    /// Sockets with more to read than their turn allowed.
    unread: Vec<(ConnId, bool)>,
    clock: Clock,
    slabs: SlabPool,
    max_frame_bytes: usize,
    longest_sleep: Option<Duration>,
    /// Until when the network thread sleeps. `None`: it is awake, or woken, and will look at the deadline before it sleeps.
    asleep_until: Option<Nanos>,
    protocol: P,
    actions: Vec<NetAction>,
    happened: Vec<NetEvent>,
    /// Takes turns with `happened`, so that neither is allocated anew.
    spare: Vec<NetEvent>,
}

impl<P: Protocol> State<P> {
    pub(crate) fn new(
        registry: Registry,
        resolver: Resolver,
        clock: Clock,
        slabs: SlabPool,
        max_frame_bytes: usize,
        protocol: P,
    ) -> Self {
        Self {
            _close_in_child: CloseInChild::new(registry.as_raw_fd()),
            registry,
            resolver,
            sockets: HashMap::new(),
            unread: Vec::new(),
            clock,
            slabs,
            max_frame_bytes,
            longest_sleep: None,
            asleep_until: None,
            protocol,
            actions: Vec::new(),
            happened: Vec::new(),
            spare: Vec::new(),
        }
    }

    pub(crate) fn set_longest_sleep(&mut self, longest: Duration) {
        self.longest_sleep = Some(longest);
    }

    /// The network thread's turn: deals with what the poll brought. No event at all means that the time is up.
    pub(crate) fn turn(&mut self, events: &Events, wanted: &AtomicBool) {
        self.asleep_until = None;
        let mut woken = events.is_empty();
        for event in events {
            if event.token() == WAKE {
                woken = true;
                continue;
            }
            let conn = conn_of(event.token());
            if event.is_writable() {
                self.writable(conn);
            }
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                self.readable(conn, event.is_read_closed() || event.is_error());
            }
            self.settle();
        }
        for (conn, ended) in mem::take(&mut self.unread) {
            self.readable(conn, ended);
            self.settle();
        }
        if woken {
            for (conn, answer) in self.resolver.take() {
                self.resolved(conn, answer);
            }
            wanted.store(false, Ordering::SeqCst);
            self.tick();
        }
        self.do_favours(wanted);
    }

    /// Steps for those who found the lock taken.
    pub(crate) fn do_favours(&mut self, wanted: &AtomicBool) {
        for _ in 0..FAVOURS {
            if !wanted.swap(false, Ordering::SeqCst) {
                return;
            }
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.happened.push(NetEvent::Tick);
        self.settle();
    }

    /// How long the network thread may sleep now (`Some(None)`: until something happens); `None` if the loop may end.
    pub(crate) fn sleep(&mut self) -> Option<Option<Duration>> {
        if self.protocol.is_finished() {
            return None;
        }
        if !self.unread.is_empty() {
            return Some(Some(Duration::ZERO));
        }
        let now = self.clock.now();
        let longest = self.longest_sleep.and_then(|longest| u64::try_from(longest.as_nanos()).ok());
        let longest = longest.map_or(Nanos::MAX, |longest| now.saturating_add(longest));
        let until = self.protocol.deadline().map_or(longest, |deadline| deadline.min(longest));
        self.asleep_until = Some(until);
        Some((until < Nanos::MAX).then(|| Duration::from_nanos(until.saturating_sub(now))))
    }

    /// After a step on another thread: whether the network thread sleeps too long now. Says so once.
    pub(crate) fn oversleeps(&mut self) -> bool {
        let Some(until) = self.asleep_until else { return false };
        let oversleeps =
            self.protocol.is_finished() || self.protocol.deadline().is_some_and(|deadline| deadline < until);
        if oversleeps {
            self.asleep_until = None;
        }
        oversleeps
    }

    /// Steps with all that happened until nothing more happens: performing an action may fail on the spot.
    fn settle(&mut self) {
        while !self.happened.is_empty() {
            let mut happened = mem::replace(&mut self.happened, mem::take(&mut self.spare));
            for event in happened.drain(..) {
                self.step(event);
            }
            self.spare = happened;
        }
    }

    fn step(&mut self, event: NetEvent) {
        let mut actions = mem::take(&mut self.actions);
        self.protocol.step(self.clock.now(), event, &mut actions);
        for action in actions.drain(..) {
            match action {
                NetAction::Connect { conn, host, port } => {
                    let reader = FrameReader::new(self.slabs.clone(), self.max_frame_bytes);
                    self.sockets.insert(conn, Socket::new(reader));
                    if let Some(answer) = self.resolver.look_up(conn, &host, port) {
                        self.resolved(conn, answer);
                    }
                }
                NetAction::Write { conn, bytes } => {
                    let socket = self.sockets.get_mut(&conn);
                    let written = socket.map(|socket| socket.write(bytes, &self.registry, token_of(conn)));
                    if let Some(Err(error)) = written {
                        self.drop_socket(conn, CloseReason::Io(error.to_string().into()));
                    }
                }
                NetAction::Close { conn } => {
                    self.sockets.remove(&conn);
                }
            }
        }
        self.actions = actions;
    }

    fn resolved(&mut self, conn: ConnId, answer: io::Result<Vec<SocketAddr>>) {
        let Some(socket) = self.sockets.get_mut(&conn) else { return };
        let addresses = match answer {
            Ok(addresses) if !addresses.is_empty() => addresses,
            Ok(_) => return self.drop_socket(conn, CloseReason::Resolve("the name has no address".into())),
            Err(error) => return self.drop_socket(conn, CloseReason::Resolve(error.to_string().into())),
        };
        socket.set_addresses(addresses);
        if let Err(error) = socket.try_next(&self.registry, token_of(conn)) {
            self.drop_socket(conn, CloseReason::Connect(error.to_string().into()));
        }
    }

    fn writable(&mut self, conn: ConnId) {
        let Some(socket) = self.sockets.get_mut(&conn) else { return };
        if socket.is_connected() {
            if let Err(error) = socket.flush(&self.registry, token_of(conn)) {
                self.drop_socket(conn, CloseReason::Io(error.to_string().into()));
            }
            return;
        }
        match socket.finish_connecting(&self.registry, token_of(conn)) {
            Ok(true) => self.happened.push(NetEvent::Connected(conn)),
            Ok(false) => {}
            Err(error) => {
                // The next address, if the name has another one; the error of the last one is the one told.
                if socket.try_next(&self.registry, token_of(conn)).is_err() {
                    self.drop_socket(conn, CloseReason::Connect(error.to_string().into()));
                }
            }
        }
    }

    fn readable(&mut self, conn: ConnId, ended: bool) {
        let Some(socket) = self.sockets.get_mut(&conn) else { return };
        if !socket.is_connected() {
            return;
        }
        let happened = &mut self.happened;
        let (_, end) = socket.read(ended, |frame| happened.push(NetEvent::Frame(conn, frame)));
        match end {
            ReadEnd::Drained => {}
            ReadEnd::TurnOver => self.unread.push((conn, ended)),
            ReadEnd::Eof => self.drop_socket(conn, CloseReason::Eof),
            ReadEnd::Io(error) => self.drop_socket(conn, CloseReason::Io(error.to_string().into())),
            ReadEnd::Wire(error) => self.drop_socket(conn, CloseReason::Wire(error)),
        }
    }

    fn drop_socket(&mut self, conn: ConnId, reason: CloseReason) {
        if self.sockets.remove(&conn).is_some() {
            self.happened.push(NetEvent::Closed(conn, reason));
        }
    }
}

fn token_of(conn: ConnId) -> Token {
    Token(conn.0 as usize)
}

fn conn_of(token: Token) -> ConnId {
    ConnId(u32::try_from(token.0).unwrap_or(u32::MAX))
}
