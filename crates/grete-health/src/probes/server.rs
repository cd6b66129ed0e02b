//! A thread that answers at some sockets, whatever the interpreter does.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::answer::Answer;
use super::connection::{Connection, Stream};
use super::doors::Doors;
use super::request::Request;
use crate::beat::Beat;
use crate::error::HealthError;
use crate::held::Held;
use crate::sys;
use crate::wait::Stop;

/// Open at a time. One more takes the place of one that has nothing to say.
pub const CONNECTIONS: usize = 64;
/// Taken in one after the other, before those that are there have their turn again.
const ACCEPTS: usize = 16;
/// When nobody can be let in, the listeners stay readable: asking again at once would only burn the CPU.
const NO_ROOM: Duration = Duration::from_secs(1);
const BEAT: Duration = Duration::from_secs(1);

/// Knows the answers. It is asked in the server's thread, and waits for nobody who waits for the interpreter.
pub trait Answers: Send + Sync {
    /// To one request.
    fn answer(&self, request: &Request) -> Answer;

    /// Once a second. `slept`: the process had no CPU for beats before this one.
    fn beat(&self, beat: Instant, slept: bool, now: Instant);
}

/// A thread "grete-probes".
#[derive(Debug)]
pub struct Server {
    stop: Arc<Stop>,
    doors: Arc<Doors>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Server {
    /// `listeners` are listening sockets; the server has its own duplicates.
    ///
    /// # Errors
    /// When the system has no descriptor or thread to give.
    pub fn start(listeners: &[RawFd], answers: Arc<dyn Answers>) -> Result<Self, HealthError> {
        let wrong = |error| HealthError::Os { what: "listening for probes", error };
        let doors = Arc::new(Doors::new(listeners.len() + CONNECTIONS));
        let listeners: Vec<Held<TcpListener>> = listeners
            .iter()
            .map(|fd| {
                let listener =
                    sys::duplicate_nonblocking(*fd).map(|file| TcpListener::from(std::os::fd::OwnedFd::from(file)))?;
                doors.opened(&listener);
                Held::new(listener)
            })
            .collect::<io::Result<_>>()
            .map_err(wrong)?;
        let stop = Arc::new(Stop::new()?);
        let loops = Loop {
            listeners,
            connections: Vec::new(),
            answers,
            doors: Arc::clone(&doors),
            beat: Beat::new(Instant::now(), BEAT),
            no_room_until: None,
        };
        let run = {
            let stop = Arc::clone(&stop);
            move || loops.run(&stop)
        };
        let thread = Builder::new().name("grete-probes".into()).spawn(run);
        let thread = thread.map_err(|error| HealthError::Os { what: "starting the probes' thread", error })?;
        Ok(Self { stop, doors, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the thread and waits for that, which is not for long; what is connected is cut off. A second call does nothing.
    pub fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.stop.stop();
            let _ = thread.join(); // a panic has been reported by its hook
        }
    }

    /// In a forked child, where there is no such thread: closes its copies of the descriptors. Takes no lock.
    pub fn abandon(&self) {
        self.doors.abandon();
    }
}

struct Loop {
    listeners: Vec<Held<TcpListener>>,
    connections: Vec<Connection<Peer>>,
    answers: Arc<dyn Answers>,
    doors: Arc<Doors>,
    beat: Beat,
    no_room_until: Option<Instant>,
}

impl Loop {
    fn run(mut self, stop: &Stop) {
        let mut fds = Vec::new();
        while let Some(woken) = self.wait(stop, &mut fds) {
            let now = Instant::now();
            if self.beat.due() <= now {
                let (beat, slept) = self.beat.take(now);
                // As in `advance`.
                let _ = catch_unwind(AssertUnwindSafe(|| self.answers.beat(beat, slept, now)));
            }
            self.advance(now, &woken.connections);
            if woken.listeners {
                self.accept(now);
            }
            if self.listeners.iter().all(|listener| listener.get().is_none()) {
                break; // somebody has closed what was not theirs
            }
        }
        for connection in &self.connections {
            connection.stream().forget(&self.doors);
        }
        for listener in self.listeners.iter().filter_map(Held::get) {
            self.doors.closes(listener);
        }
    }

    /// Until there is something to do; `None`: it is to stop.
    fn wait(&mut self, stop: &Stop, fds: &mut Vec<libc::pollfd>) -> Option<Woken> {
        let now = Instant::now();
        self.no_room_until = self.no_room_until.filter(|until| *until > now);
        fds.clear();
        fds.push(sys::watch(stop.as_fd(), libc::POLLIN));
        for listener in &self.listeners {
            // Without room nobody is let in.
            let open = listener.get().filter(|_| self.no_room_until.is_none());
            fds.push(sys::watch(open.map(AsFd::as_fd), libc::POLLIN));
        }
        for connection in &self.connections {
            let events = if connection.writes() { libc::POLLOUT } else { libc::POLLIN };
            fds.push(sys::watch(connection.stream().0.as_fd(), events));
        }
        let deadlines = self.connections.iter().map(Connection::deadline).chain(self.no_room_until);
        let due = deadlines.chain([self.beat.due()]).min().unwrap_or(now);
        let busy = self.connections.iter().any(Connection::is_busy);
        let left = if busy { Duration::ZERO } else { due.saturating_duration_since(now) };
        sys::poll_all(fds, left).ok()?;
        let mut woken = fds.iter().map(|fd| fd.revents != 0);
        if woken.next()? {
            return None;
        }
        let listeners = woken.by_ref().take(self.listeners.len()).fold(false, |any, one| any | one);
        Some(Woken { listeners, connections: woken.collect() })
    }

    fn advance(&mut self, now: Instant, woken: &[bool]) {
        let answers = &self.answers;
        let mut answer = |request: &Request| {
            // A fault in there must not leave the process without probes. Nothing is kept that it could leave half done.
            catch_unwind(AssertUnwindSafe(|| answers.answer(request)))
                .unwrap_or_else(|_| Answer::refusal(500, "finding the answer failed; standard error has more"))
        };
        for (connection, woken) in self.connections.iter_mut().zip(woken) {
            if *woken || connection.is_busy() {
                connection.step(now, &mut answer);
            }
            if connection.deadline() <= now {
                connection.late(now);
            }
        }
        self.connections.retain(|connection| {
            let stays = !connection.is_over() && connection.stream().0.get().is_some();
            if !stays {
                connection.stream().forget(&self.doors);
            }
            stays
        });
    }

    fn accept(&mut self, now: Instant) {
        for at in 0..self.listeners.len() {
            for _ in 0..ACCEPTS {
                let Some(listener) = self.listeners.get(at).and_then(Held::get) else { break };
                match listener.accept().and_then(|(peer, _)| Peer::new(peer)) {
                    Ok(peer) => self.meet(peer, now),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // It has gone before its turn came.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    // No descriptor is left, most likely. Those who are in have their turn before the next is let in.
                    Err(_) => {
                        if !self.make_room(0) {
                            self.no_room_until = Some(now + NO_ROOM);
                        }
                        break;
                    }
                }
            }
        }
    }

    fn meet(&mut self, peer: Peer, now: Instant) {
        self.make_room(CONNECTIONS - 1);
        if let Some(socket) = peer.0.get() {
            self.doors.opened(socket);
        }
        self.connections.push(Connection::new(peer, now));
    }

    /// Takes leave of one, unless there are at most so many; whether it has.
    fn make_room(&mut self, most: usize) -> bool {
        if self.connections.len() <= most {
            return false;
        }
        let whom = (0..self.connections.len()).max_by_key(|at| self.connections.get(*at).map(Connection::dispensable));
        if let Some(at) = whom {
            self.connections.swap_remove(at).stream().forget(&self.doors);
        }
        whom.is_some()
    }
}

struct Woken {
    listeners: bool,
    connections: Vec<bool>,
}

/// Who has connected.
struct Peer(Held<TcpStream>);

impl Peer {
    fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // An answer is one write; a second one must not wait for the first one's acknowledgement.
        socket.set_nodelay(true)?;
        Ok(Self(Held::new(socket)?))
    }

    fn socket(&self) -> io::Result<&TcpStream> {
        self.0.get().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// It is about to be closed. A child may hold it open: the peer is told all the same.
    fn forget(&self, doors: &Doors) {
        if let Some(socket) = self.0.get() {
            let _ = socket.shutdown(Shutdown::Both); // it may be gone
            doors.closes(socket);
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
    fn finish(&mut self) {
        if let Some(socket) = self.0.get() {
            let _ = socket.shutdown(Shutdown::Write); // it may be gone
        }
    }
}
