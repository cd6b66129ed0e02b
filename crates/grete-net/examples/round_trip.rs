//! Measures the cost of one small request. A caller steps the loop and sleeps until the network thread has read the
//! response; a plain blocking socket is the reference. Then several callers run at once. Run it with `taskset -c 0,1
//! cargo run --release -p grete-net --example round_trip`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use grete_net::{Clock, EventLoop, LoopHandle, NetEvent, Protocol, TransportAction};
use grete_proto::ids::ConnId;
use grete_proto::time::{Nanos, SECOND};
use grete_sys::futex::{futex_wait, futex_wake_all};
use grete_wire::buffer_pool::BufferPool;

const CONN: ConnId = ConnId(1);
const WARM: usize = 2_000;
const ROUNDS: usize = 50_000;
/// Size of a Produce request with one record of 100 bytes.
const BYTES: usize = 260;

/// Response state that one caller and the network thread share.
#[derive(Default)]
struct ResponseCell {
    /// Number of responses; the highest bit is set while a thread sleeps on this word.
    word: AtomicU32,
    read_at: AtomicU64,
}

const WAITER_BIT: u32 = 1 << 31;

impl ResponseCell {
    fn complete(&self, now: Nanos) {
        self.read_at.store(now, Ordering::Relaxed);
        let before = self.word.load(Ordering::Relaxed);
        // No other thread changes the count. A thread that sets the bit meanwhile is woken too.
        let before = self.word.swap((before & !WAITER_BIT) + 1, Ordering::SeqCst);
        if before & WAITER_BIT != 0 {
            futex_wake_all(&self.word);
        }
    }

    fn seen(&self) -> u32 {
        self.word.load(Ordering::SeqCst) & !WAITER_BIT
    }

    fn wait(&self, seen: u32) {
        loop {
            let now = self.word.load(Ordering::SeqCst);
            if now & !WAITER_BIT != seen {
                return;
            }
            let announced = now | WAITER_BIT;
            if self.word.compare_exchange(now, announced, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                futex_wait(&self.word, announced, None);
            }
        }
    }
}

struct SharedState {
    out: Mutex<Vec<Vec<u8>>>,
    connected: ResponseCell,
    cells: [ResponseCell; 8],
}

struct EchoClient {
    office: Arc<SharedState>,
    port: u16,
    deadline: Option<Nanos>,
    started: bool,
}

impl Protocol for EchoClient {
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<TransportAction>) {
        match event {
            NetEvent::Tick if !self.started => {
                self.started = true;
                actions.push(TransportAction::Connect { conn: CONN, host: "127.0.0.1".into(), port: self.port });
            }
            NetEvent::Tick => {
                self.deadline = Some(now + 30 * SECOND);
                let mut out = self.office.out.lock().expect("no panic elsewhere");
                actions.extend(out.drain(..).map(|bytes| TransportAction::Write { conn: CONN, bytes: bytes.into() }));
            }
            NetEvent::Connected(_) => self.office.connected.complete(now),
            NetEvent::Frame(_, frame) => self.office.cells[usize::from(frame[0])].complete(now),
            NetEvent::Closed(_, reason) => panic!("{reason:?}"),
            NetEvent::Gss(..) => panic!("no login was asked for"),
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    fn is_finished(&self) -> bool {
        false
    }
}

fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.set_nodelay(true).expect("an option");
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            stream.write_all(&buffer[..n]).expect("a client");
        }
    });
    address
}

fn request(caller: u8) -> Vec<u8> {
    let size = i32::try_from(BYTES).expect("small").to_be_bytes();
    [&size[..], &[caller; BYTES]].concat()
}

fn print_percentiles(what: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize] as f64 / 1e3;
    println!("{what:<34} p10 {:6.1}  p50 {:6.1}  p90 {:6.1}  p99 {:6.1} us", at(0.1), at(0.5), at(0.9), at(0.99));
}

fn measure_blocking_socket() -> Vec<u64> {
    let mut stream = TcpStream::connect(echo()).expect("a peer");
    stream.set_nodelay(true).expect("an option");
    let mut answer = [0; BYTES + 4];
    let mut round = || {
        let start = Instant::now();
        stream.write_all(&request(0)).expect("a peer");
        stream.read_exact(&mut answer).expect("a peer");
        u64::try_from(start.elapsed().as_nanos()).expect("short")
    };
    (0..WARM).for_each(|_| {
        round();
    });
    (0..ROUNDS).map(|_| round()).collect()
}

struct RunningLoop {
    office: Arc<SharedState>,
    handle: LoopHandle<EchoClient>,
    clock: Clock,
}

impl RunningLoop {
    fn start() -> Self {
        let (clock, connected) = (Clock::new(), ResponseCell::default());
        let office = Arc::new(SharedState { out: Mutex::default(), connected, cells: Default::default() });
        let asker = EchoClient { office: Arc::clone(&office), port: echo().port(), deadline: None, started: false };
        let event_loop = EventLoop::new(clock, BufferPool::new(1 << 20), 1 << 20, |_| asker).expect("a loop");
        let event_loop = event_loop.with_max_sleep(Duration::from_secs(10));
        let remote = event_loop.handle();
        thread::spawn(move || event_loop.run());
        office.connected.wait(0);
        Self { office, handle: remote, clock }
    }

    /// Returns the total time, the part of it after the response was read, and whether the caller wrote the request
    /// itself.
    fn round(&self, caller: u8) -> (u64, u64, bool) {
        let desk = &self.office.cells[usize::from(caller)];
        let start = self.clock.now();
        let seen = desk.seen();
        self.office.out.lock().expect("no panic elsewhere").push(request(caller));
        let here = self.handle.step_here();
        desk.wait(seen);
        let end = self.clock.now();
        (end - start, end.saturating_sub(desk.read_at.load(Ordering::Relaxed)), here)
    }
}

fn main() {
    print_percentiles("blocking socket, round trip", measure_blocking_socket());
    let one = RunningLoop::start();
    (0..WARM).for_each(|_| {
        one.round(0);
    });
    let rounds: Vec<_> = (0..ROUNDS).map(|_| one.round(0)).collect();
    print_percentiles("step_here, round trip", rounds.iter().map(|round| round.0).collect());
    print_percentiles("  of it: answer read to caller runs", rounds.iter().map(|round| round.1).collect());
    println!("  {} of {ROUNDS} requests found the lock taken", rounds.iter().filter(|round| !round.2).count());
    for callers in [1, 2, 4, 8] {
        let (many, start) = (RunningLoop::start(), Instant::now());
        let elsewhere: usize = thread::scope(|scope| {
            let rounds = |caller| (0..ROUNDS).filter(|_| !many.round(caller).2).count();
            let threads: Vec<_> = (0..callers).map(|caller| scope.spawn(move || rounds(caller))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        let total = ROUNDS * usize::from(callers);
        let rate = total as f64 / start.elapsed().as_secs_f64() / 1e3;
        println!("{callers} callers: {rate:6.1} thousand requests/s, {elsewhere} of {total} found the lock taken");
    }
}
