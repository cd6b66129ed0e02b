//! Scripted protocol: a sans-IO machine that follows a shared script and records what happened.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use grete_net::{Clock, EventLoop, GateUse, LoopHandle, NetEvent, Protocol, TransportAction, Waker};
use grete_proto::ids::ConnId;
use grete_proto::time::Nanos;
use grete_wire::SegmentedBuf;
use grete_wire::buffer_pool::BufferPool;

use crate::NO_SLEEP_LIMIT;

const CONN: ConnId = ConnId(1);
/// Upper limit for every wait: longer than any expected event takes.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Blocks a step: reports that it is reached, then waits until the test opens it.
pub struct Gate(mpsc::Sender<()>, mpsc::Receiver<()>);

/// The test's end of a [`Gate`].
pub struct GateControl(mpsc::Receiver<()>, mpsc::Sender<()>);

impl Gate {
    pub fn new() -> (Self, GateControl) {
        let ((begun, has_begun), (let_go, go_on)) = (mpsc::channel(), mpsc::channel());
        (Self(begun, go_on), GateControl(has_begun, let_go))
    }

    fn wait(self) {
        self.0.send(()).expect("the test waits");
        self.1.recv().expect("the test says when");
    }
}

impl GateControl {
    pub fn wait_reached(&self) {
        self.0.recv_timeout(TEST_TIMEOUT).expect("a step is blocked");
    }

    pub fn open(self) {
        self.1.send(()).expect("it waits");
    }
}

/// Instructions for the protocol, and a record of its steps.
#[derive(Default)]
pub struct ScriptState {
    pub connect: Option<(String, u16)>,
    pub out: Vec<SegmentedBuf>,
    /// Sets a deadline this far ahead, in nanoseconds.
    pub deadline_in: Option<Nanos>,
    pub finish: bool,
    pub panic: bool,
    /// Whether the end of the connection is expected.
    pub expect_end: bool,
    pub closed: bool,
    /// Whether only steps on callers' threads follow the instructions above.
    pub callers_only: bool,
    /// Blocks the next step.
    pub gate: Option<Gate>,
    /// Blocks the next call of `deadline`, which is the last call before the lock is released.
    pub gate_before_unlock: Option<Gate>,

    pub network_thread: Option<ThreadId>,
    pub network_ticks: usize,
    pub callers_ticks: usize,
    /// Frames that the network thread has read.
    pub network_frames: usize,
    /// Number of times the network thread prepared to sleep; `asleep`: it has not stepped since.
    pub turns: usize,
    pub asleep: bool,
    pub connected: bool,
    pub deadline: Option<Nanos>,
    pub frames: Vec<Vec<u8>>,
    pub finished: bool,
    pub ended: bool,
}

impl ScriptState {
    fn is_network_thread(&self) -> bool {
        self.network_thread == Some(thread::current().id())
    }
}

#[derive(Default)]
pub struct Script {
    state: Mutex<ScriptState>,
    changed: Condvar,
}

impl Script {
    fn lock(&self) -> MutexGuard<'_, ScriptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, set: impl FnOnce(&mut ScriptState)) {
        set(&mut self.lock());
        self.changed.notify_all();
    }

    pub fn get<T>(&self, get: impl FnOnce(&mut ScriptState) -> T) -> T {
        get(&mut self.lock())
    }

    /// Waits until the condition holds; fails the test after `TEST_TIMEOUT`.
    pub fn wait(&self, until: impl Fn(&ScriptState) -> bool) {
        let (guard, timeout) = self
            .changed
            .wait_timeout_while(self.lock(), TEST_TIMEOUT, |state| !until(state))
            .unwrap_or_else(PoisonError::into_inner);
        drop(guard);
        assert!(!timeout.timed_out(), "it has not happened");
    }
}

pub struct ScriptedProtocol(Arc<Script>, Waker);

impl Protocol for ScriptedProtocol {
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<TransportAction>) {
        if let Some(hold) = self.0.get(|state| state.gate.take()) {
            hold.wait();
        }
        let mut state = self.0.lock();
        let state = &mut *state;
        // The first step is on the network thread.
        state.network_thread.get_or_insert_with(|| thread::current().id());
        let network = state.is_network_thread();
        state.asleep &= !network;
        match event {
            NetEvent::Tick if network => state.network_ticks += 1,
            NetEvent::Tick => state.callers_ticks += 1,
            NetEvent::Connected(_) => state.connected = true,
            NetEvent::Frame(_, frame) => {
                state.network_frames += usize::from(network);
                state.frames.push(frame.to_vec());
            }
            NetEvent::Closed(_, _) if state.expect_end => state.closed = true,
            NetEvent::Closed(_, reason) => panic!("closed: {reason:?}"),
            NetEvent::Gss(..) => panic!("no login was asked for"),
        }
        if state.deadline.is_some_and(|deadline| deadline <= now) {
            state.deadline = None;
        }
        if !(network && state.callers_only) {
            assert!(!std::mem::take(&mut state.panic), "as the test wants it");
            if let Some((host, port)) = state.connect.take() {
                actions.push(TransportAction::Connect { conn: CONN, host: host.into(), port });
            }
            actions.extend(state.out.drain(..).map(|bytes| TransportAction::Write { conn: CONN, bytes }));
            if let Some(span) = state.deadline_in.take() {
                state.deadline = Some(now + span);
            }
            state.finished |= state.finish;
        }
        self.0.changed.notify_all();
        self.1.notify_leader();
    }

    fn deadline(&self) -> Option<Nanos> {
        let hold = self.0.get(|state| {
            let meant = !(state.callers_only && state.is_network_thread());
            if meant { state.gate_before_unlock.take() } else { None }
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

/// Marks the network thread as ended when it returns or panics.
struct MarkEndedOnDrop(Arc<Script>);

impl Drop for MarkEndedOnDrop {
    fn drop(&mut self) {
        self.0.set(|state| state.ended = true);
    }
}

/// Event loop on a separate thread.
pub struct RunningLoop {
    pub script: Arc<Script>,
    pub handle: LoopHandle<ScriptedProtocol>,
    pub clock: Clock,
    thread: JoinHandle<io::Result<()>>,
}

impl RunningLoop {
    /// Starts the loop and waits until its network thread sleeps.
    pub fn start(max_sleep: Duration) -> Self {
        Self::start_loop(max_sleep, None)
    }

    pub fn start_with_gate(gate_use: GateUse) -> Self {
        Self::start_loop(NO_SLEEP_LIMIT, Some(gate_use))
    }

    fn start_loop(max_sleep: Duration, gate_use: Option<GateUse>) -> Self {
        let (script, clock) = (Arc::new(Script::default()), Clock::new());
        let machine = |waker| ScriptedProtocol(Arc::clone(&script), waker);
        let event_loop = EventLoop::new(clock, BufferPool::new(1 << 20), 64 << 20, machine).expect("a loop");
        let event_loop = event_loop.with_max_sleep(max_sleep);
        let event_loop = match gate_use {
            Some(gate_use) => event_loop.with_gate(gate_use).expect("a descriptor"),
            None => event_loop,
        };
        let handle = event_loop.handle();
        let guard = MarkEndedOnDrop(Arc::clone(&script));
        let run = move || {
            let _ending = guard;
            event_loop.run()
        };
        let thread = thread::spawn(run);
        script.wait(|state| state.asleep);
        Self { script, handle, clock, thread }
    }

    /// Steps on this thread, never on another one.
    pub fn step_here(&self) {
        // The network thread reports that it sleeps a moment before it releases the lock.
        while !self.handle.step_here() {
            thread::yield_now();
        }
    }

    pub fn connect(&self, host: &str, port: u16) {
        self.script.set(|state| state.connect = Some((host.to_owned(), port)));
        self.handle.step_here();
        self.script.wait(|state| state.connected && state.asleep);
    }

    pub fn finish(self) {
        self.script.set(|state| {
            state.finish = true;
            state.callers_only = false;
        });
        self.handle.step_here();
        self.join().expect("no panic");
    }

    pub fn join(self) -> thread::Result<()> {
        self.script.wait(|state| state.ended);
        self.thread.join().map(|ended| ended.expect("no fault of the poll"))
    }
}

/// Echo server for one client.
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
