//! Thread that serves the probes, also while the interpreter hangs.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::connection::{Connection, Stream};
use super::request::Request;
use super::response::Response;
use crate::checked_fd::CheckedFd;
use crate::error::HealthError;
use crate::stop_event::StopEvent;
use crate::sys;
use crate::thread_fds::ThreadFds;
use crate::ticker::Ticker;

/// Maximum number of open connections. One more evicts the connection that can best be spared.
pub const MAX_CONNECTIONS: usize = 64;
/// Maximum number of connections accepted in a row, before the open ones have their turn again.
const MAX_ACCEPTS: usize = 16;
/// Pause after accept failed for lack of resources. The listeners stay readable meanwhile, and trying at once would
/// only burn CPU.
const ACCEPT_BACKOFF: Duration = Duration::from_secs(1);
const TICK_INTERVAL: Duration = Duration::from_secs(1);

/// Produces the responses. The server's thread calls it, so an implementation must not wait for a thread that waits for
/// the interpreter.
pub trait RequestHandler: Send + Sync {
    /// Returns the response to one request.
    fn handle(&self, request: &Request) -> Response;

    /// Runs once a second. `slept`: the process had no CPU for at least one earlier tick.
    fn tick(&self, beat: Instant, slept: bool, now: Instant);
}

/// Thread "grete-probes" with its sockets.
#[derive(Debug)]
pub struct Server {
    stop: Arc<StopEvent>,
    thread_fds: Arc<ThreadFds>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Server {
    /// Starts the thread. `listeners` are listening sockets; the server duplicates them.
    ///
    /// # Errors
    /// [`HealthError::Os`] if the system has no descriptor or thread to give.
    pub fn start(listeners: &[RawFd], handler: Arc<dyn RequestHandler>) -> Result<Self, HealthError> {
        let wrong = |error| HealthError::Os { what: "listening for probes", error };
        let stop = Arc::new(StopEvent::new()?);
        let ends = stop.fds();
        let thread_fds = Arc::new(ThreadFds::new(ends.len() + listeners.len() + MAX_CONNECTIONS));
        ends.iter().for_each(|end| thread_fds.register(end));
        let listeners: Vec<CheckedFd<TcpListener>> = listeners
            .iter()
            .map(|fd| {
                let listener =
                    sys::duplicate_nonblocking(*fd).map(|file| TcpListener::from(std::os::fd::OwnedFd::from(file)))?;
                thread_fds.register(&listener);
                CheckedFd::new(listener)
            })
            .collect::<io::Result<_>>()
            .map_err(wrong)?;
        let server_loop = ServerLoop {
            listeners,
            connections: Vec::new(),
            handler,
            thread_fds: Arc::clone(&thread_fds),
            ticker: Ticker::new(Instant::now(), TICK_INTERVAL),
            accept_paused_until: None,
        };
        let run = {
            let stop = Arc::clone(&stop);
            move || server_loop.run(&stop)
        };
        let thread = Builder::new().name("grete-probes".into()).spawn(run);
        let thread = thread.map_err(|error| HealthError::Os { what: "starting the probes' thread", error })?;
        Ok(Self { stop, thread_fds, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the thread and joins it, which takes little time; open connections are cut off. Idempotent.
    pub fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.stop.set();
            let _ = thread.join(); // a panic has been reported by its hook
        }
    }

    /// Closes, in a forked child (which has no such thread), its copies of the descriptors. Takes no lock.
    pub fn close_in_child(&self) {
        self.thread_fds.close_in_child();
    }
}

struct ServerLoop {
    listeners: Vec<CheckedFd<TcpListener>>,
    connections: Vec<Connection<Peer>>,
    handler: Arc<dyn RequestHandler>,
    thread_fds: Arc<ThreadFds>,
    ticker: Ticker,
    accept_paused_until: Option<Instant>,
}

impl ServerLoop {
    fn run(mut self, stop: &StopEvent) {
        let mut fds = Vec::new();
        while let Some(woken) = self.wait(stop, &mut fds) {
            let now = Instant::now();
            if self.ticker.due() <= now {
                let (tick, slept) = self.ticker.tick(now);
                // Caught as in `advance`.
                let _ = catch_unwind(AssertUnwindSafe(|| self.handler.tick(tick, slept, now)));
            }
            self.step_connections(now, &woken.connections);
            if woken.listeners {
                self.accept(now);
            }
            if self.listeners.iter().all(|listener| listener.get().is_none()) {
                break; // other code has closed the listeners
            }
        }
        for connection in &self.connections {
            connection.stream().shutdown(&self.thread_fds);
        }
        for listener in self.listeners.iter().filter_map(CheckedFd::get) {
            self.thread_fds.unregister(listener);
        }
    }

    /// Waits until there is something to do; `None`: the server stops.
    fn wait(&mut self, stop: &StopEvent, fds: &mut Vec<libc::pollfd>) -> Option<PollResult> {
        let now = Instant::now();
        self.accept_paused_until = self.accept_paused_until.filter(|until| *until > now);
        fds.clear();
        fds.push(sys::pollfd(stop.as_fd(), libc::POLLIN));
        for listener in &self.listeners {
            // Without room for a connection, the listeners are not polled.
            let open = listener.get().filter(|_| self.accept_paused_until.is_none());
            fds.push(sys::pollfd(open.map(AsFd::as_fd), libc::POLLIN));
        }
        for connection in &self.connections {
            let events = if connection.wants_write() { libc::POLLOUT } else { libc::POLLIN };
            fds.push(sys::pollfd(connection.stream().0.as_fd(), events));
        }
        let deadlines = self.connections.iter().map(Connection::deadline).chain(self.accept_paused_until);
        let due = deadlines.chain([self.ticker.due()]).min().unwrap_or(now);
        let busy = self.connections.iter().any(Connection::has_buffered_request);
        let left = if busy { Duration::ZERO } else { due.saturating_duration_since(now) };
        sys::poll_all(fds, left).ok()?;
        let mut woken = fds.iter().map(|fd| fd.revents != 0);
        if woken.next()? {
            return None;
        }
        let listeners = woken.by_ref().take(self.listeners.len()).fold(false, |any, one| any | one);
        Some(PollResult { listeners, connections: woken.collect() })
    }

    fn step_connections(&mut self, now: Instant, woken: &[bool]) {
        let answers = &self.handler;
        let mut handler = |request: &Request| {
            // A panic of the handler must not leave the process without probes. The handler leaves no state half done
            // here.
            catch_unwind(AssertUnwindSafe(|| answers.handle(request)))
                .unwrap_or_else(|_| Response::error(500, "the probe handler failed; see standard error"))
        };
        for (connection, woken) in self.connections.iter_mut().zip(woken) {
            if *woken || connection.has_buffered_request() {
                connection.step(now, &mut handler);
            }
            if connection.deadline() <= now {
                connection.on_deadline(now);
            }
        }
        self.connections.retain(|connection| {
            let is_open = !connection.is_closed() && connection.stream().0.get().is_some();
            if !is_open {
                connection.stream().shutdown(&self.thread_fds);
            }
            is_open
        });
    }

    fn accept(&mut self, now: Instant) {
        for at in 0..self.listeners.len() {
            for _ in 0..MAX_ACCEPTS {
                let Some(listener) = self.listeners.get(at).and_then(CheckedFd::get) else { break };
                match listener.accept().and_then(|(peer, _)| Peer::new(peer)) {
                    Ok(peer) => self.add_connection(peer, now),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // The peer has gone before its connection was accepted.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    // Most likely no descriptor is left. accept looks for one before it looks for a peer, so it fails
                    // also if no peer waits. The open connections have their turn before the next one is accepted.
                    Err(_) => {
                        if sys::is_readable(listener.as_fd()) {
                            self.make_room(now);
                        }
                        break;
                    }
                }
            }
        }
    }

    fn add_connection(&mut self, peer: Peer, now: Instant) {
        if self.connections.len() >= MAX_CONNECTIONS
            && let Some(at) = self.victim(now)
        {
            self.evict(at);
        }
        if let Some(socket) = peer.0.get() {
            self.thread_fds.register(socket);
        }
        self.connections.push(Connection::new(peer, now));
    }

    /// Gets a descriptor for the next peer: evicts a connection, at once or when it has had the time for a request.
    fn make_room(&mut self, now: Instant) {
        let victim = self.victim(now).and_then(|at| Some((at, self.connections.get(at)?.spared_until())));
        match victim {
            Some((at, spared_until)) if spared_until <= now => self.evict(at),
            Some((_, spared_until)) => self.accept_paused_until = Some(spared_until),
            None => self.accept_paused_until = Some(now + ACCEPT_BACKOFF),
        }
    }

    /// Returns the connection that can best be spared; `None`: there is none.
    fn victim(&self, now: Instant) -> Option<usize> {
        let order = |at: &usize| self.connections.get(*at).map(|connection| connection.eviction_priority(now));
        (0..self.connections.len()).max_by_key(order)
    }

    fn evict(&mut self, at: usize) {
        self.connections.swap_remove(at).stream().shutdown(&self.thread_fds);
    }
}

struct PollResult {
    listeners: bool,
    connections: Vec<bool>,
}

/// Socket of a connected client.
struct Peer(CheckedFd<TcpStream>);

impl Peer {
    fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // A response is one write; a second response must not wait for the acknowledgement of the first.
        socket.set_nodelay(true)?;
        Ok(Self(CheckedFd::new(socket)?))
    }

    fn socket(&self) -> io::Result<&TcpStream> {
        self.0.get().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Shuts the connection down before it is closed. A forked child may hold a copy; the peer sees the end all the
    /// same.
    fn shutdown(&self, thread_fds: &ThreadFds) {
        if let Some(socket) = self.0.get() {
            let _ = socket.shutdown(Shutdown::Both); // the peer may be gone
            thread_fds.unregister(socket);
        }
    }
}

impl Read for Peer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket()?.read(buffer)
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Peer {
    fn shutdown_write(&mut self) {
        if let Some(socket) = self.0.get() {
            let _ = socket.shutdown(Shutdown::Write); // the peer may be gone
        }
    }
}
