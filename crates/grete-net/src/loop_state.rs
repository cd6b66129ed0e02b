//! State behind the loop's lock: the protocol, its sockets, and how long the network thread sleeps.

use std::collections::HashMap;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use grete_proto::connection::CloseReason;
use grete_proto::ids::ConnId;
use grete_proto::time::Nanos;
use grete_proto::transport::TransportAction;
use grete_wire::buffer_pool::BufferPool;
use grete_wire::frame::FrameReader;

use crate::clock::Clock;
use crate::kerberos::Worker;
use crate::protocol::{NetEvent, Protocol};
use crate::resolver::Resolver;
use crate::selectors::epoll::{EventBuffer, Readiness, Token};
use crate::selectors::{GATE, Selectors};
use crate::socket::{ReadOutcome, Socket, SocketError};
use crate::tls::TlsContext;

pub(crate) const WAKE: Token = Token(usize::MAX);

/// Maximum number of consecutive steps that the holder of the lock does for callers that found the lock taken.
pub(crate) const MAX_ASSISTED_STEPS: usize = 8;

pub(crate) struct LoopState<P> {
    selectors: Selectors,
    resolver: Resolver,
    kerberos: Worker,
    sockets: HashMap<ConnId, Socket>,
    /// Sockets whose read budget ran out before they were drained, and whether their streams have ended.
    partly_read: Vec<(ConnId, bool)>,
    clock: Clock,
    slabs: BufferPool,
    max_frame_bytes: usize,
    max_sleep: Option<Duration>,
    /// `None`: connections are not encrypted.
    tls: Option<TlsContext>,
    /// Time until which the network thread sleeps. `None`: the network thread is awake or has been woken, and will read
    /// the deadline before it sleeps.
    asleep_until: Option<Nanos>,
    protocol: P,
    actions: Vec<TransportAction>,
    pending_events: Vec<NetEvent>,
    /// Swapped with `pending_events`, so that neither vector is allocated again.
    spare_events: Vec<NetEvent>,
}

impl<P: Protocol> LoopState<P> {
    pub(crate) fn new(
        selectors: Selectors,
        resolver: Resolver,
        kerberos: Worker,
        clock: Clock,
        slabs: BufferPool,
        max_frame_bytes: usize,
        protocol: P,
    ) -> Self {
        Self {
            selectors,
            resolver,
            kerberos,
            sockets: HashMap::new(),
            partly_read: Vec::new(),
            clock,
            slabs,
            max_frame_bytes,
            max_sleep: None,
            tls: None,
            asleep_until: None,
            protocol,
            actions: Vec::new(),
            pending_events: Vec::new(),
            spare_events: Vec::new(),
        }
    }

    pub(crate) fn set_max_sleep(&mut self, longest: Duration) {
        self.max_sleep = Some(longest);
    }

    pub(crate) fn set_tls(&mut self, tls: Option<TlsContext>) {
        self.tls = tls;
    }

    /// Handles the events of a wait on the network thread, and those behind the gate. No event at all means that the
    /// time was up.
    pub(crate) fn handle_events(&mut self, events: &EventBuffer, behind_gate: &EventBuffer, wanted: &AtomicBool) {
        self.asleep_until = None;
        let sockets = events.iter().filter(|event| !matches!(event.token, WAKE | GATE));
        self.handle_sockets(sockets.chain(behind_gate.iter()));
        if events.is_empty() || events.has(WAKE) {
            for (conn, answer) in self.resolver.drain() {
                self.on_resolved(conn, answer);
            }
            let answers = self.kerberos.drain();
            self.pending_events.extend(answers.into_iter().map(|(conn, result)| NetEvent::Gss(conn, result)));
            self.process_pending();
            wanted.store(false, Ordering::SeqCst);
            self.tick();
        }
        self.step_for_waiters(wanted);
    }

    /// Reads and writes the sockets that are ready, and steps the protocol with what they have.
    pub(crate) fn handle_sockets(&mut self, ready: impl Iterator<Item = Readiness>) {
        for Readiness { token, readable, writable, ended } in ready {
            let conn = conn_of(token);
            if writable {
                self.on_writable(conn);
            }
            if readable {
                self.on_readable(conn, ended);
            }
            self.process_pending();
        }
        for (conn, ended) in mem::take(&mut self.partly_read) {
            self.on_readable(conn, ended);
            self.process_pending();
        }
    }

    /// Steps for callers that found the lock taken.
    pub(crate) fn step_for_waiters(&mut self, wanted: &AtomicBool) {
        for _ in 0..MAX_ASSISTED_STEPS {
            if !wanted.swap(false, Ordering::SeqCst) {
                return;
            }
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.pending_events.push(NetEvent::Tick);
        self.process_pending();
    }

    /// Returns how long the network thread may sleep now (`Some(None)`: until an event), or `None` if the loop may end.
    pub(crate) fn next_sleep(&mut self) -> Option<Option<Duration>> {
        if self.protocol.is_finished() {
            return None;
        }
        if !self.partly_read.is_empty() {
            return Some(Some(Duration::ZERO));
        }
        let now = self.clock.now();
        let longest = self.max_sleep.and_then(|longest| u64::try_from(longest.as_nanos()).ok());
        let longest = longest.map_or(Nanos::MAX, |longest| now.saturating_add(longest));
        let until = self.protocol.deadline().map_or(longest, |deadline| deadline.min(longest));
        self.asleep_until = Some(until);
        Some((until < Nanos::MAX).then(|| Duration::from_nanos(until.saturating_sub(now))))
    }

    /// Returns whether the network thread sleeps too long, after a step on another thread. Returns true once per sleep.
    pub(crate) fn sleeps_past_deadline(&mut self) -> bool {
        let Some(until) = self.asleep_until else { return false };
        let oversleeps =
            self.protocol.is_finished() || self.protocol.deadline().is_some_and(|deadline| deadline < until);
        if oversleeps {
            self.asleep_until = None;
        }
        oversleeps
    }

    /// Returns whether a socket has more bytes than its turn allowed, which no selector reports.
    pub(crate) fn has_partly_read(&self) -> bool {
        !self.partly_read.is_empty()
    }

    /// Steps the protocol with all pending events until none is left. Performing an action may fail at once and add an
    /// event.
    fn process_pending(&mut self) {
        while !self.pending_events.is_empty() {
            let mut happened = mem::replace(&mut self.pending_events, mem::take(&mut self.spare_events));
            for event in happened.drain(..) {
                self.step(event);
            }
            self.spare_events = happened;
        }
    }

    fn step(&mut self, event: NetEvent) {
        let mut actions = mem::take(&mut self.actions);
        self.protocol.step(self.clock.now(), event, &mut actions);
        for action in actions.drain(..) {
            match action {
                TransportAction::Connect { conn, host, port } => {
                    let tls = match self.tls.as_mut().map(|tls| tls.connect(&host)).transpose() {
                        Ok(tls) => tls,
                        Err(failure) => {
                            self.pending_events.push(NetEvent::Closed(conn, failure.into()));
                            continue;
                        }
                    };
                    let reader = FrameReader::new(self.slabs.clone(), self.max_frame_bytes);
                    self.sockets.insert(conn, Socket::new(reader, tls));
                    if let Some(answer) = self.resolver.resolve(conn, &host, port) {
                        self.on_resolved(conn, answer);
                    }
                }
                TransportAction::Write { conn, bytes } => {
                    let socket = self.sockets.get_mut(&conn);
                    let written = socket.map(|socket| socket.write(bytes, &self.selectors, token_of(conn)));
                    if let Some(Err(error)) = written {
                        self.drop_socket(conn, error.into());
                    }
                }
                TransportAction::Gss { conn, host, call } => self.kerberos.call(conn, host, call),
                TransportAction::CloseConn(conn) => {
                    self.close_socket(conn);
                    self.kerberos.forget(conn);
                }
            }
        }
        self.actions = actions;
    }

    fn on_resolved(&mut self, conn: ConnId, result: io::Result<Vec<SocketAddr>>) {
        let Some(socket) = self.sockets.get_mut(&conn) else { return };
        let addresses = match result {
            Ok(addresses) if !addresses.is_empty() => addresses,
            Ok(_) => return self.drop_socket(conn, CloseReason::Resolve("the name has no address".into())),
            Err(error) => return self.drop_socket(conn, CloseReason::Resolve(error.to_string().into())),
        };
        socket.set_addresses(addresses);
        if let Err(error) = socket.connect_next(&self.selectors, token_of(conn)) {
            self.drop_socket(conn, CloseReason::Connect(error.to_string().into()));
        }
    }

    fn on_writable(&mut self, conn: ConnId) {
        let Some(socket) = self.sockets.get_mut(&conn) else { return };
        if socket.is_connected() {
            if let Err(error) = socket.flush(&self.selectors, token_of(conn)) {
                self.drop_socket(conn, error.into());
            }
            return;
        }
        match socket.finish_connecting(&self.selectors, token_of(conn)) {
            Ok(true) if socket.is_established() => self.pending_events.push(NetEvent::Connected(conn)),
            // The handshake of TLS begins. The protocol's deadline for connecting covers it, too.
            Ok(true) => {
                if let Err(error) = socket.flush(&self.selectors, token_of(conn)) {
                    self.drop_socket(conn, error.into());
                }
            }
            Ok(false) => {}
            Err(error) => {
                // Tries the next address of the host name, if there is one. The error of the last address is reported.
                if socket.connect_next(&self.selectors, token_of(conn)).is_err() {
                    self.drop_socket(conn, CloseReason::Connect(error.to_string().into()));
                }
            }
        }
    }

    fn on_readable(&mut self, conn: ConnId, ended: bool) {
        let Some(socket) = self.sockets.get_mut(&conn) else { return };
        if !socket.is_connected() {
            return;
        }
        let was_established = socket.is_established();
        let happened = &mut self.pending_events;
        let (_, end) = socket.read(ended, |frame| happened.push(NetEvent::Frame(conn, frame)));
        let usable = matches!(end, ReadOutcome::Drained | ReadOutcome::BudgetSpent);
        if usable
            && socket.has_unsent()
            && let Err(error) = socket.flush(&self.selectors, token_of(conn))
        {
            return self.drop_socket(conn, error.into());
        }
        // A broker sends nothing of its own before the first request, so no frame came before this event.
        if usable && !was_established && socket.is_established() {
            self.pending_events.push(NetEvent::Connected(conn));
        }
        match end {
            ReadOutcome::Drained => {}
            ReadOutcome::BudgetSpent => self.partly_read.push((conn, ended)),
            ReadOutcome::Eof => self.drop_socket(conn, CloseReason::Eof),
            ReadOutcome::Io(error) => self.drop_socket(conn, CloseReason::Io(error.to_string().into())),
            ReadOutcome::Wire(error) => self.drop_socket(conn, CloseReason::Wire(error)),
            ReadOutcome::Tls(failure) => self.drop_socket(conn, failure.into()),
        }
    }

    fn drop_socket(&mut self, conn: ConnId, reason: CloseReason) {
        if self.close_socket(conn) {
            self.kerberos.forget(conn);
            self.pending_events.push(NetEvent::Closed(conn, reason));
        }
    }

    /// Returns whether there was such a connection.
    fn close_socket(&mut self, conn: ConnId) -> bool {
        let socket = self.sockets.remove(&conn);
        socket.map(|mut socket| socket.disconnect(&self.selectors)).is_some()
    }
}

impl From<SocketError> for CloseReason {
    fn from(error: SocketError) -> Self {
        match error {
            SocketError::Io(error) => Self::Io(error.to_string().into()),
            SocketError::Tls(failure) => failure.into(),
        }
    }
}

fn token_of(conn: ConnId) -> Token {
    Token(conn.0 as usize)
}

fn conn_of(token: Token) -> ConnId {
    ConnId(u32::try_from(token.0).unwrap_or(u32::MAX))
}
