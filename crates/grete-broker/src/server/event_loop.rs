//! Event loop of the server's thread.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use grete_sys::NotInherited;
use grete_wire::buffer_pool::BufferPool;
use mio::event::Event as Readiness;
use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::commands::Shared;
use super::connection::{Connection, ReadOutcome};
use super::listeners::{Listeners, MAX_LISTENERS};
use super::tls::TlsConfig;
use super::wall_clock::WallClock;
use super::{Limits, Machine, ServerConfig, compact};
use crate::cluster::{Action, Event};
use crate::ids::{BrokerId, ConnId};
use crate::journal::Journal;

const WAKE: Token = Token(usize::MAX);

/// Bytes to read from one connection before the others get their turn.
const READ_BUDGET: usize = 1 << 20;

/// Connections to accept from one listener before the connections get their turn.
const ACCEPT_BUDGET: usize = 64;

/// Pause of accepting when the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Idle buffers that are kept for requests, in bytes.
const POOL_BYTES: usize = 1 << 20;

/// Event loop: sockets, commands and time in, actions out.
pub(super) struct EventLoop<M> {
    poll: NotInherited<Poll>,
    shared: Arc<Shared<M>>,
    machine: M,
    journal: Option<Journal>,
    limits: Limits,
    tls: Option<TlsConfig>,
    listeners: Listeners,
    /// Listeners that may have more connections.
    accepting: Vec<usize>,
    /// Time before which no connection is accepted, because the process has no descriptor left.
    accept_after: Option<Instant>,
    connections: HashMap<ConnId, Connection>,
    next_conn: u64,
    /// The limit of connections has been logged, and no connection has ended since.
    full: bool,
    /// Sum of the bytes that connections hold in memory.
    held_bytes: usize,
    /// Connections that have something to read or to write.
    ready: VecDeque<ConnId>,
    /// Connections that ended, of which the machine has not been notified.
    ended: VecDeque<ConnId>,
    closing: usize,
    pool: BufferPool,
    clock: WallClock,
    actions: Vec<Action>,
    /// Reason why the server ends by itself.
    failure: Option<String>,
}

impl<M: Machine> EventLoop<M> {
    pub(super) fn new(
        config: ServerConfig,
        mut listeners: Listeners,
        journal: Option<Journal>,
        machine: M,
        shared: Arc<Shared<M>>,
    ) -> io::Result<Self> {
        let poll = NotInherited::create(Poll::new)?;
        // Edge-triggered: each signal is an event, even without a read in between.
        poll.registry().register(&mut SourceFd(&shared.wake_event().as_raw_fd()), WAKE, Interest::READABLE)?;
        listeners.register(poll.registry())?;
        Ok(Self {
            poll,
            shared,
            machine,
            journal,
            limits: config.limits,
            tls: config.tls,
            listeners,
            accepting: Vec::new(),
            accept_after: None,
            connections: HashMap::new(),
            next_conn: 1,
            full: false,
            held_bytes: 0,
            ready: VecDeque::new(),
            ended: VecDeque::new(),
            closing: 0,
            pool: BufferPool::new(POOL_BYTES),
            clock: WallClock::new(),
            actions: Vec::new(),
            failure: None,
        })
    }

    /// Changes the machine before the first turn, and stores the changes. A message says what is wrong.
    pub(super) fn prepare(&mut self, prepare: impl FnOnce(&mut M) -> Result<(), String>) -> Result<(), String> {
        self.step(Event::Tick);
        prepare(&mut self.machine)?;
        self.step(Event::Tick);
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Runs until a stop is requested or the journal fails.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let _end = EndOnPanic(&shared);
        self.run_turns();
        let failure = self.failure.take();
        // Sockets and the lock of the journal are released before a waiting thread is notified.
        drop(self);
        shared.end(failure);
    }

    fn run_turns(&mut self) {
        let mut events = Events::with_capacity(256);
        while self.failure.is_none() && !self.shared.is_stop_requested() {
            let sleep = self.next_sleep();
            match self.poll.poll(&mut events, sleep) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
                Err(error) => return self.fail(format!("waiting for sockets failed: {error}")),
                Ok(()) => {}
            }
            self.turn(&events);
        }
        for connection in self.connections.values_mut() {
            let _ = connection.flush(self.poll.registry());
        }
    }

    fn turn(&mut self, events: &Events) {
        for event in events {
            match event.token() {
                WAKE => {}
                Token(index) if index < MAX_LISTENERS => self.accepting.push(index),
                token => self.on_readiness(conn_of(token), event),
            }
        }
        self.accept_all();
        // Connections that queue themselves again wait for the next turn.
        for _ in 0..self.ready.len() {
            if let Some(conn) = self.ready.pop_front() {
                self.serve(conn);
                self.count_held(conn);
                self.report_ended();
            }
        }
        self.run_commands();
        self.end_closing();
        let now = self.clock.now();
        if self.machine.deadline().is_some_and(|deadline| deadline <= now) {
            self.step(Event::Tick);
        }
        if let Some(journal) = &mut self.journal {
            compact(journal, &self.machine, self.shared.log());
        }
    }

    /// Returns how long the thread may sleep; `None`: until an event.
    fn next_sleep(&mut self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let connections = if self.closing > 0 { Some(self.connections.values()) } else { None };
        let closing = connections.into_iter().flatten().filter_map(Connection::closes_by);
        let timer = closing.chain(self.accept_after.filter(|_| !self.accepting.is_empty())).min();
        let timer = timer.map(|time| time.saturating_duration_since(now));
        let present = self.clock.now();
        // Rounded up by the selector to whole milliseconds. At least one, so that a deadline which the machine does not
        // meet costs no processor.
        let deadline = self
            .machine
            .deadline()
            .map(|deadline| Duration::from_millis(u64::try_from(deadline.saturating_sub(present)).unwrap_or(0).max(1)));
        match (timer, deadline) {
            (Some(timer), Some(deadline)) => Some(timer.min(deadline)),
            (timer, deadline) => timer.or(deadline),
        }
    }

    fn accept_all(&mut self) {
        if self.accept_after.is_some_and(|time| Instant::now() < time) {
            return;
        }
        self.accept_after = None;
        for index in std::mem::take(&mut self.accepting) {
            self.accept(index);
        }
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPT_BUDGET {
            match self.listeners.accept(index) {
                Ok((broker, stream, peer)) => self.on_accepted(broker, stream, peer),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    // The client has gone in the meantime.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => {
                        self.log(&format!("no connection can be accepted: {error}; raise the limit of open files"));
                        self.accept_after = Instant::now().checked_add(ACCEPT_PAUSE);
                        return self.accepting.push(index);
                    }
                },
            }
        }
        self.accepting.push(index);
        self.accept_after = Some(Instant::now());
    }

    fn on_accepted(&mut self, broker: BrokerId, stream: NotInherited<TcpStream>, peer: SocketAddr) {
        if self.connections.len() >= self.limits.connections {
            if !std::mem::replace(&mut self.full, true) {
                self.log(&format!(
                    "{} connections are open, so further ones are closed at once",
                    self.connections.len()
                ));
            }
            return;
        }
        let conn = ConnId(self.next_conn);
        self.next_conn += 1;
        let registry = self.poll.registry();
        let (token, max_bytes) = (token_of(conn), self.limits.request_bytes);
        let Ok(connection) = Connection::new(stream, token, registry, &self.pool, max_bytes, self.tls.as_ref()) else {
            return; // the client has gone in the meantime
        };
        self.connections.insert(conn, connection);
        self.step(Event::Accepted { conn, broker, client_host: peer.ip().to_string().into() });
        self.enqueue(conn);
    }

    fn on_readiness(&mut self, conn: ConnId, event: &Readiness) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        connection.ended |= event.is_read_closed() || event.is_error();
        connection.readable |= event.is_readable() || connection.ended;
        self.enqueue(conn);
    }

    fn enqueue(&mut self, conn: ConnId) {
        if let Some(connection) = self.connections.get_mut(&conn)
            && !std::mem::replace(&mut connection.queued, true)
        {
            self.ready.push_back(conn);
        }
    }

    /// Writes, reads and steps for one connection, within the read budget.
    fn serve(&mut self, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        connection.queued = false;
        if connection.has_unwritten() && connection.flush(self.poll.registry()).is_err() {
            return self.lose(conn);
        }
        if connection.closes_by().is_some() {
            if connection.discard() {
                self.forget(conn);
            }
            return;
        }
        let mut total = 0;
        loop {
            if !self.hand_out_frames(conn) {
                return;
            }
            let Some(connection) = self.connections.get_mut(&conn) else { return };
            if !connection.readable {
                return;
            }
            if total >= READ_BUDGET {
                return self.enqueue(conn);
            }
            match connection.read() {
                ReadOutcome::Bytes(n) => total += n,
                ReadOutcome::Refused(error) => {
                    self.log(&format!("a connection is closed, because TLS failed: {error}"));
                    return self.lose(conn);
                }
                ReadOutcome::Drained => return,
                ReadOutcome::Ended => return self.lose(conn),
            }
            // The answers of the handshake of TLS: nothing else is written by a read.
            if connection.is_handshake_answered() && connection.flush(self.poll.registry()).is_err() {
                return self.lose(conn);
            }
        }
    }

    /// Steps the machine with all requests that have arrived whole. Returns whether more may be read.
    fn hand_out_frames(&mut self, conn: ConnId) -> bool {
        if let Some(principal) = self.connections.get_mut(&conn).and_then(Connection::take_principal) {
            self.step(Event::Identified { conn, principal: principal.into() });
        }
        loop {
            let Some(connection) = self.connections.get_mut(&conn) else { return false };
            if self.failure.is_some() || !connection.may_read(self.limits.pause_reading_bytes) {
                return false;
            }
            match connection.next_frame() {
                Ok(Some(frame)) => self.step(Event::Frame { conn, frame }),
                Ok(None) => return true,
                Err(error) => {
                    self.log(&format!("a connection is closed, because no request can be read: {error}"));
                    self.lose(conn);
                    return false;
                }
            }
        }
    }

    fn run_commands(&mut self) {
        for command in self.shared.take_commands() {
            let mut actions = std::mem::take(&mut self.actions);
            let now = self.clock.now();
            let reply = command(&mut self.machine, now, &mut actions);
            // The machine turns what the command changed into actions in a step.
            self.machine.step(now, Event::Tick, &mut actions);
            self.perform(&mut actions);
            self.actions = actions;
            if self.failure.is_some() {
                return; // without replies: the changes are not stored
            }
            reply();
        }
        self.report_ended();
    }

    /// Ends closing connections whose clients do not close their side.
    fn end_closing(&mut self) {
        if self.closing == 0 {
            return;
        }
        let now = Instant::now();
        let late = self.connections.iter().filter(|(_, connection)| connection.closes_by().is_some_and(|by| by <= now));
        for conn in late.map(|(&conn, _)| conn).collect::<Vec<_>>() {
            self.forget(conn);
        }
    }

    fn step(&mut self, event: Event) {
        self.step_once(event);
        self.report_ended();
    }

    fn report_ended(&mut self) {
        while let Some(conn) = self.ended.pop_front() {
            self.step_once(Event::Closed { conn });
        }
    }

    fn step_once(&mut self, event: Event) {
        if self.failure.is_some() {
            return;
        }
        let mut actions = std::mem::take(&mut self.actions);
        self.machine.step(self.clock.now(), event, &mut actions);
        self.perform(&mut actions);
        self.actions = actions;
    }

    /// Stores the changes of a step in one write, then performs the other actions in order.
    fn perform(&mut self, actions: &mut Vec<Action>) {
        if let Some(journal) = &mut self.journal {
            let changes = actions.iter().filter_map(|action| match action {
                Action::Persist(change) => Some(change),
                _ => None,
            });
            if let Err(error) = journal.append(changes) {
                actions.clear();
                return self.fail(error.to_string());
            }
        }
        for action in actions.drain(..) {
            self.perform_one(action);
        }
    }

    fn perform_one(&mut self, action: Action) {
        match action {
            Action::Persist(_) => {} // stored before
            Action::Write { conn, bytes } => {
                let Some(connection) = self.connections.get_mut(&conn) else { return };
                if connection.unwritten_bytes() > self.limits.unwritten_bytes {
                    let unwritten = connection.unwritten_bytes();
                    self.log(&format!("a connection is closed, because its client leaves {unwritten} bytes unread"));
                    self.lose(conn);
                } else if connection.write(bytes, self.poll.registry()).is_err() {
                    self.lose(conn);
                } else {
                    if connection.readable {
                        self.enqueue(conn); // the client may have read enough for the next request
                    }
                    self.count_held(conn);
                }
            }
            Action::Close { conn } => {
                let Some(connection) = self.connections.get_mut(&conn) else { return };
                self.closing += usize::from(connection.closes_by().is_none());
                if connection.close(self.poll.registry()).is_err() {
                    self.forget(conn);
                } else {
                    self.enqueue(conn);
                }
            }
            Action::PauseReading(conn) => {
                if let Some(connection) = self.connections.get_mut(&conn) {
                    connection.paused = true;
                }
            }
            Action::ResumeReading(conn) => {
                if let Some(connection) = self.connections.get_mut(&conn) {
                    connection.paused = false;
                    self.enqueue(conn);
                }
            }
            Action::StopListening(broker) => self.listeners.stop(broker),
            Action::Listen(broker) => {
                if let Err(error) = self.listeners.listen(broker, self.poll.registry()) {
                    self.log(&format!("broker {broker} cannot listen again: {error}"));
                }
            }
            Action::Log(line) => self.log(&line),
        }
    }

    /// Counts the bytes that a connection holds, and closes the connections with the most until the limit is kept.
    fn count_held(&mut self, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let held = connection.held_bytes();
        let counted = std::mem::replace(&mut connection.counted_bytes, held);
        self.held_bytes = (self.held_bytes + held).saturating_sub(counted);
        while self.held_bytes > self.limits.held_bytes {
            let largest = self.connections.iter().max_by_key(|(conn, connection)| (connection.counted_bytes, conn.0));
            let Some((&conn, bytes)) = largest.map(|(conn, connection)| (conn, connection.counted_bytes)) else {
                return;
            };
            self.log(&format!(
                "a connection with {bytes} bytes in memory is closed: all clients together send requests that do not \
                 end, or leave responses unread"
            ));
            self.lose(conn);
        }
    }

    /// Drops a connection that the client closed or that failed. The machine is notified after the present step.
    fn lose(&mut self, conn: ConnId) {
        if self.connections.get(&conn).is_some_and(|connection| connection.closes_by().is_none()) {
            self.ended.push_back(conn);
        }
        self.forget(conn);
    }

    /// Drops a connection of which the machine knows that it ends.
    fn forget(&mut self, conn: ConnId) {
        if let Some(connection) = self.connections.remove(&conn) {
            self.closing -= usize::from(connection.closes_by().is_some());
            self.full = false;
            self.held_bytes = self.held_bytes.saturating_sub(connection.counted_bytes);
        }
    }

    /// Ends the server: no response may be sent whose changes are not stored.
    fn fail(&mut self, reason: String) {
        self.log(&format!("{reason}; the brokers stop"));
        self.failure = Some(reason);
    }

    fn log(&self, line: &str) {
        self.shared.log().write(line);
    }
}

/// Ends the service when the thread ends by a panic, so that no caller waits for a result.
struct EndOnPanic<'a, M>(&'a Shared<M>);

impl<M> Drop for EndOnPanic<'_, M> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(Some("its thread has panicked; standard error says where. Report this defect of Grete".into()));
        }
    }
}

fn token_of(conn: ConnId) -> Token {
    Token(usize::try_from(conn.0).unwrap_or(usize::MAX / 2).saturating_add(MAX_LISTENERS))
}

fn conn_of(token: Token) -> ConnId {
    ConnId(token.0.saturating_sub(MAX_LISTENERS) as u64)
}
