//! What one small request costs: a caller steps the loop and sleeps until the network thread has read the answer, against a
//! plain blocking socket. `taskset -c 0,1 cargo run --release -p grete-net --example round_trip`

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use grete_core::ids::ConnId;
use grete_core::time::{Nanos, SECOND};
use grete_net::futex::{wait_on, wake_on};
use grete_net::{Clock, EventLoop, NetAction, NetEvent, Protocol};
use grete_wire::slab::SlabPool;

const CONN: ConnId = ConnId(1);
const WARM: usize = 2_000;
const ROUNDS: usize = 50_000;
/// As long as a Produce request with one record of 100 bytes.
const BYTES: usize = 260;

/// What caller and network thread share.
#[derive(Default)]
struct Desk {
    out: Mutex<Option<Vec<u8>>>,
    /// Counts answers; the highest bit: somebody sleeps on it.
    word: AtomicU32,
    read_at: AtomicU64,
}

const WAITED: u32 = 1 << 31;

struct Asker {
    desk: Arc<Desk>,
    port: u16,
    deadline: Option<Nanos>,
    started: bool,
}

impl Asker {
    fn told(&self, now: Nanos) {
        self.desk.read_at.store(now, Ordering::Relaxed);
        let before = self.desk.word.load(Ordering::Relaxed);
        let before = self.desk.word.swap((before & !WAITED) + 1, Ordering::SeqCst);
        if before & WAITED != 0 {
            wake_on(&self.desk.word);
        }
    }
}

impl Protocol for Asker {
    fn step(&mut self, now: Nanos, event: NetEvent, actions: &mut Vec<NetAction>) {
        match event {
            NetEvent::Tick if !self.started => {
                self.started = true;
                actions.push(NetAction::Connect { conn: CONN, host: "127.0.0.1".into(), port: self.port });
            }
            NetEvent::Tick => {
                self.deadline = Some(now + 30 * SECOND);
                let out = self.desk.out.lock().expect("no panic elsewhere").take();
                actions.extend(out.map(|bytes| NetAction::Write { conn: CONN, bytes: bytes.into() }));
            }
            NetEvent::Connected(_) | NetEvent::Frame(..) => self.told(now),
            NetEvent::Closed(_, reason) => panic!("{reason:?}"),
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

fn request() -> Vec<u8> {
    let size = i32::try_from(BYTES).expect("small").to_be_bytes();
    [&size[..], &[7; BYTES]].concat()
}

fn show(what: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize] as f64 / 1e3;
    println!("{what:<34} p10 {:6.1}  p50 {:6.1}  p90 {:6.1}  p99 {:6.1} us", at(0.1), at(0.5), at(0.9), at(0.99));
}

fn plain() -> Vec<u64> {
    let mut stream = TcpStream::connect(echo()).expect("a peer");
    stream.set_nodelay(true).expect("an option");
    let mut answer = [0; BYTES + 4];
    let mut round = || {
        let start = Instant::now();
        stream.write_all(&request()).expect("a peer");
        stream.read_exact(&mut answer).expect("a peer");
        u64::try_from(start.elapsed().as_nanos()).expect("short")
    };
    (0..WARM).for_each(|_| {
        round();
    });
    (0..ROUNDS).map(|_| round()).collect()
}

fn through_the_loop() -> (Vec<u64>, Vec<u64>, usize) {
    let (desk, clock) = (Arc::new(Desk::default()), Clock::new());
    let asker = Asker { desk: Arc::clone(&desk), port: echo().port(), deadline: None, started: false };
    let event_loop = EventLoop::new(clock, SlabPool::new(1 << 20), 1 << 20, |_| asker).expect("a loop");
    let event_loop = event_loop.with_longest_sleep(Duration::from_secs(10));
    let remote = event_loop.remote();
    thread::spawn(move || event_loop.run());
    let wait = |seen: u32| {
        loop {
            let now = desk.word.load(Ordering::SeqCst);
            if now & !WAITED != seen {
                return clock.now();
            }
            if now & WAITED != 0
                || desk.word.compare_exchange(now, now | WAITED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
            {
                wait_on(&desk.word, seen | WAITED, None);
            }
        }
    };
    wait(0);
    let mut elsewhere = 0;
    let mut round = || {
        let start = clock.now();
        let seen = desk.word.load(Ordering::SeqCst) & !WAITED;
        *desk.out.lock().expect("no panic elsewhere") = Some(request());
        elsewhere += usize::from(!remote.step_here());
        let end = wait(seen);
        (end - start, end.saturating_sub(desk.read_at.load(Ordering::Relaxed)))
    };
    (0..WARM).for_each(|_| {
        round();
    });
    let (whole, woken) = (0..ROUNDS).map(|_| round()).unzip();
    (whole, woken, elsewhere)
}

fn main() {
    show("blocking socket, round trip", plain());
    let (whole, woken, elsewhere) = through_the_loop();
    show("step_here, round trip", whole);
    show("  of it: answer read to caller runs", woken);
    println!("  the lock was taken {elsewhere} times in {}", WARM + ROUNDS);
}
