//! A machine that does what a board says, and writes on it what happened.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use grete_core::ids::ConnId;
use grete_core::time::Nanos;
use grete_net::{Clock, EventLoop, NetAction, NetEvent, Protocol, Remote};
use grete_wire::Outbound;
use grete_wire::slab::SlabPool;

const CONN: ConnId = ConnId(1);
/// Longer than anything takes here that happens at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// Says that it holds up, and waits until it shall no longer.
pub struct Hold(mpsc::Sender<()>, mpsc::Receiver<()>);

/// The test's end of a [`Hold`].
pub struct Held(mpsc::Receiver<()>, mpsc::Sender<()>);

impl Hold {
    pub fn new() -> (Self, Held) {
        let ((begun, has_begun), (let_go, go_on)) = (mpsc::channel(), mpsc::channel());
        (Self(begun, go_on), Held(has_begun, let_go))
    }

    fn wait(self) {
        self.0.send(()).expect("the test waits");
        self.1.recv().expect("the test says when");
    }
}

impl Held {
    pub fn begun(&self) {
        self.0.recv_timeout(PATIENCE).expect("somebody is held up");
    }

    pub fn let_go(self) {
        self.1.send(()).expect("it waits");
    }
}

/// What is to be done, and what was done.
#[derive(Default)]
pub struct State {
    pub connect: Option<(String, u16)>,
    pub out: Vec<Outbound>,
    /// Set a deadline so far ahead.
    pub deadline_in: Option<Nanos>,
    pub finish: bool,
    pub panic: bool,
    /// All of the above is for the threads of callers only.
    pub callers_only: bool,
    /// Holds up the next step.
    pub hold: Option<Hold>,
    /// Holds up the next one who asks for the deadline, which comes last before the lock is let go.
    pub hold_late: Option<Hold>,

    pub network_thread: Option<ThreadId>,
    pub network_ticks: usize,
    pub callers_ticks: usize,
    /// How often the network thread got ready to sleep, and whether it has not been up since.
    pub turns: usize,
    pub asleep: bool,
    pub connected: bool,
    pub deadline: Option<Nanos>,
    pub frames: Vec<Vec<u8>>,
    pub finished: bool,
    pub ended: bool,
}

impl State {
    fn is_network_thread(&self) -> bool {
        self.network_thread == Some(thread::current().id())
    }
}

#[derive(Default)]
pub struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, set: impl FnOnce(&mut State)) {
        set(&mut self.lock());
        self.changed.notify_all();
    }

    pub fn get<T>(&self, get: impl FnOnce(&mut State) -> T) -> T {
        get(&mut self.lock())
    }

    /// Fails the test when patience ends.
    pub fn wait(&self, until: impl Fn(&State) -> bool) {
        let (guard, waited) = self
            .changed
            .wait_timeout_while(self.lock(), PATIENCE, |state| !until(state))
            .unwrap_or_else(PoisonError::into_inner);
        drop(guard);
        assert!(!waited.timed_out(), "it has not happened");
    }
}

pub struct Machine(Arc<Board>);

impl Protocol for Machine {
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<NetAction>) {
        if let Some(hold) = self.0.get(|state| state.hold.take()) {
            hold.wait();
        }
        let mut state = self.0.lock();
        let state = &mut *state;
        // The first step is the network thread's.
        state.network_thread.get_or_insert_with(|| thread::current().id());
        let network = state.is_network_thread();
        state.asleep &= !network;
        match event {
            NetEvent::Tick if network => state.network_ticks += 1,
            NetEvent::Tick => state.callers_ticks += 1,
            NetEvent::Connected(_) => state.connected = true,
            NetEvent::Frame(_, frame) => state.frames.push(frame.to_vec()),
            NetEvent::Closed(_, reason) => panic!("closed: {reason:?}"),
        }
        if state.deadline.is_some_and(|deadline| deadline <= now) {
            state.deadline = None;
        }
        if !(network && state.callers_only) {
            assert!(!std::mem::take(&mut state.panic), "as the test wants it");
            if let Some((host, port)) = state.connect.take() {
                actions.push(NetAction::Connect { conn: CONN, host: host.into(), port });
            }
            actions.extend(state.out.drain(..).map(|bytes| NetAction::Write { conn: CONN, bytes }));
            if let Some(span) = state.deadline_in.take() {
                state.deadline = Some(now + span);
            }
            state.finished |= state.finish;
        }
        self.0.changed.notify_all();
    }

    fn deadline(&self) -> Option<Nanos> {
        let hold = self.0.get(|state| {
            let meant = !(state.callers_only && state.is_network_thread());
            if meant { state.hold_late.take() } else { None }
        });
        if let Some(hold) = hold {
            hold.wait();
        }
        let mut state = self.0.lock();
        if state.is_network_thread() {
            state.turns += 1;
            state.asleep = true;
            self.0.changed.notify_all();
        }
        state.deadline
    }

    fn is_finished(&self) -> bool {
        self.0.lock().finished
    }
}

/// The network thread has ended, well or not.
struct Ending(Arc<Board>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.set(|state| state.ended = true);
    }
}

/// A loop on a thread of its own.
pub struct Running {
    pub board: Arc<Board>,
    pub remote: Remote<Machine>,
    pub clock: Clock,
    thread: JoinHandle<io::Result<()>>,
}

impl Running {
    /// Started, and asleep.
    pub fn start(longest_sleep: Duration) -> Self {
        let (board, clock) = (Arc::new(Board::default()), Clock::new());
        let machine = Machine(Arc::clone(&board));
        let event_loop = EventLoop::new(clock, SlabPool::new(1 << 20), 64 << 20, |_| machine).expect("a loop");
        let event_loop = event_loop.with_longest_sleep(longest_sleep);
        let remote = event_loop.remote();
        let ending = Ending(Arc::clone(&board));
        let run = move || {
            let _ending = ending;
            event_loop.run()
        };
        let thread = thread::spawn(run);
        board.wait(|state| state.asleep);
        Self { board, remote, clock, thread }
    }

    /// On this thread, and nowhere else.
    pub fn step_here(&self) {
        // The network thread says that it sleeps a moment before it lets go of the lock.
        while !self.remote.step_here() {
            thread::yield_now();
        }
    }

    pub fn connect(&self, host: &str, port: u16) {
        self.board.set(|state| state.connect = Some((host.to_owned(), port)));
        self.remote.step_here();
        self.board.wait(|state| state.connected && state.asleep);
    }

    pub fn finish(self) {
        self.board.set(|state| {
            state.finish = true;
            state.callers_only = false;
        });
        self.remote.step_here();
        self.join().expect("no panic");
    }

    pub fn join(self) -> thread::Result<()> {
        self.board.wait(|state| state.ended);
        self.thread.join().map(|ended| ended.expect("no fault of the poll"))
    }
}

/// One client gets back what it sends.
pub fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut buffer = vec![0; 1 << 16];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
    });
    address
}

pub fn frame(body: &[u8]) -> Vec<u8> {
    let size = i32::try_from(body.len()).expect("a small body");
    [&size.to_be_bytes()[..], body].concat()
}
