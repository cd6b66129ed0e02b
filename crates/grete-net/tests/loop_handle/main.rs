//! Tests of several threads that step one loop, against real sockets on loopback.

mod leading;
mod scripted_protocol;

use std::io::Read;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use grete_proto::time::{MILLI, SECOND};
use grete_wire::SegmentedBuf;
use scripted_protocol::{Gate, RunningLoop, ScriptState, echo, frame};
use socket2::SockRef;

/// Longer than any of these tests may take.
const NO_SLEEP_LIMIT: Duration = Duration::from_secs(600);

#[test]
fn a_callers_step_writes_on_its_own_thread() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    running.connect("127.0.0.1", echo().port());
    running.script.set(|state| {
        state.callers_only = true;
        state.out.push(frame(b"hello").into());
    });
    running.step_here();
    assert!(running.script.get(|state| state.out.is_empty()));
    running.script.wait(|state| !state.frames.is_empty());
    assert_eq!(running.script.get(|state| state.frames.clone()), [b"hello"]);
    running.finish();
}

/// Each step sets a deadline beyond the longest sleep, as a request timeout does.
#[test]
fn a_request_wakes_the_network_thread_once_for_its_response() {
    let running = RunningLoop::start(Duration::from_secs(10));
    running.connect("127.0.0.1", echo().port());
    let before = running.script.get(|state| (state.network_ticks, state.turns));
    let mut taken = 0;
    for number in 0..100_u8 {
        running.script.set(|state| {
            state.out.push(frame(&[number]).into());
            state.deadline_in = Some(30 * SECOND);
        });
        // The network thread reports that it sleeps a moment before it releases the lock. A caller that comes then
        // finds the lock taken, and the network thread does the step.
        taken += usize::from(!running.handle.step_here());
        running.script.wait(|state| state.frames.len() == usize::from(number) + 1 && state.asleep);
    }
    let after = running.script.get(|state| (state.network_ticks, state.turns));
    let (ticks, turns) = (after.0 - before.0, after.1 - before.1);
    assert!(ticks <= taken && turns <= 100 + taken, "{ticks} ticks in {turns} turns, {taken} times the lock was taken");
    running.finish();
}

#[test]
fn an_earlier_deadline_wakes_the_network_thread() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    let clock = running.clock;
    let ticks = running.script.get(|state| state.network_ticks);
    let start = clock.now();
    running.script.set(|state| state.deadline_in = Some(30 * MILLI));
    running.handle.step_here();
    // The protocol drops the deadline when it has passed.
    running.script.wait(|state| state.deadline_in.is_none() && state.deadline.is_none());
    assert!(clock.now() - start >= 30 * MILLI);
    let ticks = running.script.get(|state| state.network_ticks) - ticks;
    assert_eq!(ticks, 2, "one to read the deadline, one when it has passed");
    running.finish();
}

#[test]
fn max_sleep_is_kept_without_any_deadline() {
    let running = RunningLoop::start(Duration::from_millis(5));
    let ticks = running.script.get(|state| state.network_ticks);
    running.script.wait(|state| state.network_ticks > ticks + 3);
    running.finish();
}

#[test]
fn the_lock_holder_steps_for_callers_that_found_it_locked() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    let (hold, held) = Gate::new();
    running.script.set(|state| state.gate = Some(hold));
    running.handle.wake(); // the network thread steps, and blocks in the step
    held.wait_reached();
    let ticks = running.script.get(|state| state.network_ticks);
    assert!(!running.handle.step_here());
    assert!(!running.handle.step_here(), "and a caller is not made to wait");
    held.open();
    // One step of the network thread itself, and one for both callers.
    running.script.wait(|state| state.network_ticks == ticks + 2 && state.asleep);
    assert_eq!(running.script.get(|state| state.callers_ticks), 0);
    running.finish();
}

#[test]
fn a_step_request_just_before_the_network_thread_unlocks_is_found() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    let (hold, held) = Gate::new();
    let ticks = running.script.get(|state| {
        state.gate_before_unlock = Some(hold);
        state.network_ticks
    });
    running.handle.wake();
    held.wait_reached();
    assert!(!running.handle.step_here());
    held.open();
    running.script.wait(|state| state.network_ticks == ticks + 2 && state.asleep);
    running.finish();
}

#[test]
fn a_step_request_just_before_a_caller_unlocks_is_found() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    let (hold, held) = Gate::new();
    running.script.set(|state| {
        state.callers_only = true;
        state.gate_before_unlock = Some(hold);
    });
    let ticks = |state: &ScriptState| state.callers_ticks + state.network_ticks;
    thread::scope(|scope| {
        scope.spawn(|| running.step_here());
        held.wait_reached();
        let before = running.script.get(|state| ticks(state));
        assert!(!running.handle.step_here());
        held.open();
        running.script.wait(|state| ticks(state) > before);
    });
    running.finish();
}

#[test]
fn steps_of_many_threads_lose_nothing_and_keep_their_order() {
    const THREADS: u8 = 4;
    const EACH: u32 = 1000;
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    running.connect("127.0.0.1", echo().port());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (board, remote) = (&running.script, running.handle.clone());
            scope.spawn(move || {
                for number in 0..EACH {
                    let message = [&[thread][..], &number.to_be_bytes()].concat();
                    board.set(|state| state.out.push(frame(&message).into()));
                    remote.step_here();
                    // Every second message is waited for: a lost step makes the test time out.
                    if number % 2 == 1 {
                        board.wait(|state| state.frames.iter().rev().any(|frame| *frame == message));
                    }
                }
            });
        }
    });
    let total = usize::from(THREADS) * EACH as usize;
    running.script.wait(|state| state.frames.len() == total);
    for thread in 0..THREADS {
        let numbers = |state: &mut ScriptState| -> Vec<Vec<u8>> {
            state.frames.iter().filter(|frame| frame[0] == thread).map(|frame| frame[1..].to_vec()).collect()
        };
        let expected: Vec<Vec<u8>> = (0..EACH).map(|number| number.to_be_bytes().to_vec()).collect();
        assert!(running.script.get(numbers) == expected, "thread {thread}: lost, twice, or out of order");
    }
    running.finish();
}

#[test]
fn segments_arrive_whole_through_a_small_window() {
    let message = |number: usize| {
        let mut message = SegmentedBuf::from(vec![number as u8; 1 + number * 7]);
        for size in [100_000, 600, 3, 150_000 + number] {
            message.push_shared(Arc::new((0..size).map(|at| (at * 31 + number) as u8).collect()));
            message.tail().extend_from_slice(&[0xEE; 3]);
        }
        message
    };
    let expected: Vec<u8> = (0..40).flat_map(|number| message(number).to_vec()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    SockRef::from(&listener).set_recv_buffer_size(4096).expect("a small buffer");
    let port = listener.local_addr().expect("an address").port();
    let size = expected.len();
    let reader = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let (mut all, mut piece) = (Vec::new(), vec![0; 1777]);
        while all.len() < size {
            match stream.read(&mut piece).expect("no fault") {
                0 => break,
                n => all.extend_from_slice(&piece[..n]),
            }
        }
        (all, stream) // open until the loop has ended
    });
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    running.connect("127.0.0.1", port);
    for number in 0..40 {
        running.script.set(|state| state.out.push(message(number)));
        running.handle.step_here();
    }
    let (read, _stream) = reader.join().expect("it has read");
    assert!(read == expected, "{} bytes of {size}, or not the same ones", read.len());
    running.finish();
}

#[test]
fn a_callers_thread_connects_without_help() {
    for host in ["127.0.0.1", "localhost"] {
        let running = RunningLoop::start(NO_SLEEP_LIMIT);
        running.script.set(|state| {
            state.callers_only = true;
            state.connect = Some((host.into(), echo().port()));
        });
        running.step_here();
        running.script.wait(|state| state.connected);
        running.finish();
    }
}

#[test]
fn a_callers_step_can_end_the_loop() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    running.script.set(|state| {
        state.callers_only = true;
        state.finish = true;
    });
    running.step_here();
    let remote = running.handle.clone();
    running.join().expect("no panic");
    assert!(!remote.step_here(), "there is nothing left to step");
}

#[test]
fn a_panic_on_a_callers_thread_is_one_of_the_network_thread_too() {
    let running = RunningLoop::start(NO_SLEEP_LIMIT);
    running.script.set(|state| {
        state.callers_only = true;
        state.panic = true;
    });
    let remote = running.handle.clone();
    assert!(catch_unwind(AssertUnwindSafe(|| running.step_here())).is_err());
    assert!(running.join().is_err(), "the owner of the network thread gets the panic");
    assert!(!remote.step_here(), "and later callers are not drawn into it");
}
