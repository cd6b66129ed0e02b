//! Tests of callers that lead: in each state of the lead, something else happens.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use grete_net::{CallerLoop, GateUse};
use grete_proto::time::MILLI;
use grete_sys::WakeReason;

use crate::NO_SLEEP_LIMIT;
use crate::scripted_protocol::{RunningLoop, TEST_TIMEOUT, echo, frame};

/// Longer than any of these waits may take.
const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

impl RunningLoop {
    fn lead_until(&self, is_over: impl Fn() -> bool) -> Option<WakeReason> {
        self.handle.lead_until(&is_over, LIMIT)
    }

    fn frames(&self) -> usize {
        self.script.get(|state| state.frames.len())
    }

    fn send(&self, body: &[u8]) {
        self.script.set(|state| state.out.push(frame(body).into()));
        self.step_here();
    }
}

/// Peer that writes when the test says so.
fn connected_peer(running: &RunningLoop) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    running.connect("127.0.0.1", listener.local_addr().expect("an address").port());
    listener.accept().expect("the loop connects").0
}

/// Waits until this thread of the process sleeps, as `/proc/self/task/<id>/stat` shows it.
fn wait_until_asleep(task: &Path) {
    let stat = Path::new("/proc").join(task).join("stat");
    let end = Instant::now() + TEST_TIMEOUT;
    loop {
        let stat = fs::read_to_string(&stat).expect("the thread lives");
        // The state follows the name, which is in parentheses.
        if stat.rsplit(')').next().is_some_and(|fields| fields.starts_with(" S")) {
            return;
        }
        assert!(Instant::now() < end, "the leader does not sleep: {stat}");
        thread::yield_now();
    }
}

/// The peer writes when the leader waits in the selector. The kernel adds a thread to the waiters under the lock under
/// which the thread has become a sleeper, so a peer that sees the sleeper finds the waiter.
#[test]
fn a_leader_reads_its_response_while_the_network_thread_sleeps() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    let mut peer = connected_peer(&running);
    let task = fs::read_link("/proc/thread-self").expect("procfs");
    let turns = running.script.get(|state| state.turns);
    let (checked, checks) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in 1..=100 {
                while checks.recv().expect("the leader checks") < number {}
                wait_until_asleep(&task);
                peer.write_all(&frame(b"hello")).expect("written");
            }
            // Stays open until the loop has ended.
            let _ = peer.read(&mut [0]);
        });
        for number in 1..=100 {
            let is_over = || {
                let over = running.frames() == number;
                // The last act before the leader sleeps. It never blocks.
                checked.send(if over { 0 } else { number }).expect("the peer listens");
                over
            };
            assert_eq!(running.lead_until(is_over), Some(WakeReason::Woken));
        }
        let (turns, read) = running.script.get(|state| (state.turns - turns, state.network_frames));
        assert_eq!((turns, read), (0, 0), "turns of the network thread, and frames that it has read");
        running.finish();
    });
}

#[test]
fn the_network_thread_reads_once_no_caller_leads() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    let mut peer = connected_peer(&running);
    for number in 1..=20 {
        let timeout = Some(Duration::from_millis(1));
        assert_eq!(running.handle.lead_until(&|| false, timeout), Some(WakeReason::TimedOut));
        peer.write_all(&frame(b"late")).expect("written");
        running.script.wait(|state| state.network_frames == number);
    }
    running.finish();
}

/// The peer writes at any time around the ends of waits: each frame is read, by either thread.
#[test]
fn nothing_is_lost_when_waits_end() {
    const FRAMES: usize = 2000;
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    let mut peer = connected_peer(&running);
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..FRAMES {
                peer.write_all(&frame(b"x")).expect("written");
                thread::sleep(Duration::from_micros((number % 7 * 30) as u64));
            }
            // Stays open until the loop has ended.
            let _ = peer.read(&mut [0]);
        });
        let mut leading = true;
        while running.frames() < FRAMES / 2 {
            let timeout = Some(Duration::from_millis(u64::from(leading)));
            let reason = running.handle.lead_until(&|| false, timeout);
            assert_eq!(reason, Some(WakeReason::TimedOut));
            leading = !leading;
        }
        running.script.wait(|state| state.frames.len() == FRAMES);
        running.finish();
    });
}

#[test]
fn one_caller_leads_at_a_time() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    let handle = running.handle.clone();
    let reason = running.lead_until(|| {
        assert_eq!(handle.lead_until(&|| true, LIMIT), None, "this thread leads");
        true
    });
    assert_eq!(reason, Some(WakeReason::Woken));
    assert_eq!(running.lead_until(|| true), Some(WakeReason::Woken), "the lead is free again");
    running.finish();
}

/// Another thread completes what the leader waits for.
#[test]
fn a_notification_ends_the_wait() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    thread::scope(|scope| {
        for number in 1..=200 {
            let running = &running;
            let ticked = move || running.script.get(|state| state.callers_ticks) >= number;
            let leader = scope.spawn(move || running.lead_until(ticked));
            running.step_here();
            assert_eq!(leader.join().expect("no panic"), Some(WakeReason::Woken));
        }
    });
    running.finish();
}

#[test]
fn timers_run_while_a_caller_leads() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    let clock = running.clock;
    let start = clock.now();
    running.script.set(|state| state.deadline_in = Some(30 * MILLI));
    running.step_here();
    let ticks = running.script.get(|state| state.network_ticks);
    let passed = || running.script.get(|state| state.deadline.is_none() && state.network_ticks > ticks);
    assert_eq!(running.lead_until(passed), Some(WakeReason::Woken));
    assert!(clock.now() - start >= 30 * MILLI);
    running.finish();
}

#[test]
fn the_end_of_a_stream_reaches_a_leader() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    let mut peer = connected_peer(&running);
    running.script.set(|state| state.expect_end = true);
    peer.write_all(&frame(b"last")).expect("written");
    peer.shutdown(Shutdown::Write).expect("an open stream");
    assert_eq!(running.lead_until(|| running.script.get(|state| state.closed)), Some(WakeReason::Woken));
    assert_eq!(running.frames(), 1);
    running.finish();
}

#[test]
fn a_step_of_a_leader_can_end_the_loop() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    let mut peer = connected_peer(&running);
    running.script.set(|state| {
        state.callers_only = true;
        state.finish = true;
    });
    peer.write_all(&frame(b"the end")).expect("written");
    // The network thread may read the frame, and does not end then.
    while !running.script.get(|state| state.finished) {
        let finished = || running.script.get(|state| state.finished);
        running.handle.lead_until(&finished, Some(Duration::from_millis(1)));
        running.handle.step_here();
    }
    let handle = running.handle.clone();
    running.join().expect("no panic");
    assert_eq!(handle.lead_until(&|| true, LIMIT), Some(WakeReason::Woken), "the lead is free");
}

#[test]
fn a_panic_of_a_leader_is_one_of_the_network_thread_and_ends_the_lead() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    let mut peer = connected_peer(&running);
    running.script.set(|state| {
        state.callers_only = true;
        state.panic = true;
    });
    let handle = running.handle.clone();
    let mut panicked = false;
    while !panicked {
        peer.write_all(&frame(b"x")).expect("written");
        let once = Some(Duration::from_millis(100));
        let frames = running.frames();
        let read = || running.frames() > frames;
        panicked = catch_unwind(AssertUnwindSafe(|| handle.lead_until(&read, once))).is_err();
    }
    assert!(running.join().is_err(), "the owner of the network thread gets the panic");
    assert_eq!(handle.lead_until(&|| true, LIMIT), Some(WakeReason::Woken), "the lead is free");
}

/// Threads that send and wait at once: one leads, the others sleep until the leader or the network thread wakes them.
#[test]
fn many_callers_wait_for_their_own_responses() {
    const THREADS: u8 = 8;
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    running.connect("127.0.0.1", echo().port());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let running = &running;
            scope.spawn(move || {
                for number in 0..500_u32 {
                    let message = [&[thread][..], &number.to_be_bytes()].concat();
                    running.script.set(|state| state.out.push(frame(&message).into()));
                    running.handle.step_here();
                    let arrived =
                        || running.script.get(|state| state.frames.iter().rev().any(|frame| *frame == message));
                    if running.lead_until(arrived).is_none() {
                        running.script.wait(|state| state.frames.iter().rev().any(|frame| *frame == message));
                    }
                    assert!(arrived());
                }
            });
        }
    });
    assert_eq!(running.frames(), usize::from(THREADS) * 500);
    running.finish();
}

/// Leads in quick succession keep the gate closed. The network thread opens it, also while no caller leads any more.
#[test]
fn what_arrives_after_quick_leads_is_read() {
    let running = RunningLoop::start_with_gate(GateUse::QuickLeads);
    let mut peer = connected_peer(&running);
    for number in 1..=20 {
        for _ in 0..100 {
            running.handle.lead_until(&|| false, Some(Duration::from_micros(1)));
        }
        peer.write_all(&frame(b"late")).expect("written");
        running.script.wait(|state| state.network_frames == number);
    }
    running.finish();
}

/// A caller that sleeps beside the leader gets its response without a further lead.
#[test]
fn what_arrives_for_a_follower_after_quick_leads_is_read() {
    let running = RunningLoop::start_with_gate(GateUse::QuickLeads);
    let peer = connected_peer(&running);
    for number in 1..=20 {
        for _ in 0..100 {
            running.handle.lead_until(&|| false, Some(Duration::from_micros(1)));
        }
        let sleep = || {
            (&peer).write_all(&frame(b"late")).expect("written");
            running.script.wait(|state| state.network_frames == number);
            WakeReason::Woken
        };
        assert_eq!(running.handle.sleep_beside(&sleep), WakeReason::Woken);
    }
    running.finish();
}

/// Responses that are faster than the caller: the leader reads almost all of them.
#[test]
fn quick_leads_leave_the_network_thread_asleep() {
    let running = RunningLoop::start_with_gate(GateUse::QuickLeads);
    running.connect("127.0.0.1", echo().port());
    let turns = running.script.get(|state| state.turns);
    // A loaded machine delays leads, which then are not quick, and wakes the network thread for each of them.
    let (start, mut last, mut slow) = (Instant::now(), None::<Instant>, 0);
    for number in 1..=1000 {
        running.send(b"hello");
        thread::sleep(Duration::from_micros(50)); // the echo is faster
        let now = Instant::now();
        slow += usize::from(last.replace(now).is_none_or(|last| now - last > Duration::from_micros(300)));
        assert_eq!(running.lead_until(|| running.frames() == number), Some(WakeReason::Woken));
    }
    let turns = running.script.get(|state| state.turns) - turns;
    // The network thread watches the gate every 5 ms.
    let watches = usize::try_from(start.elapsed().as_millis()).expect("a short test") / 5;
    let limit = 100 + 3 * slow + 2 * watches;
    assert!(turns < limit, "the network thread has stepped {turns} times; {slow} leads were slow, {watches} watches");
    running.finish();
}
