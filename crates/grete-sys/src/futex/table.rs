//! Sleeps on words without futex(2): a table of sleeping threads by the addresses of their words. Each thread sleeps in
//! poll(2) on an event of its own.
//!
//! poll(2) ends when a signal arrives, as futex(2) does. A condition variable would go on sleeping, and Python's signal
//! handlers would wait.
//!
//! No wake-up is lost. A sleeper compares the word under its bucket's lock, and a waker takes that lock after it has
//! changed the word. If the waker has the lock first, the sleeper sees the new value; otherwise the waker finds the
//! sleeper in the bucket.
//!
//! The lock is held only while forks wait, so a child finds every bucket unlocked and whole. The sleepers in it are
//! threads of the parent, and the numbers of their descriptors may belong to other files in the child. So a child
//! empties a bucket before its first use.

use std::cell::RefCell;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::WakeReason;
use crate::event_fd::pipe::EventFd;
use crate::{fork, poll};

const BUCKETS: usize = 64;
static TABLE: [Mutex<Bucket>; BUCKETS] =
    [const { Mutex::new(Bucket { generation: 0, sleepers: Vec::new() }) }; BUCKETS];

/// Sleep of a thread that has no event, because descriptors are exhausted. The caller checks its condition again after
/// it.
const WITHOUT_EVENT: Duration = Duration::from_millis(1);

struct Bucket {
    /// Fork generation of the process that the sleepers belong to.
    generation: u32,
    sleepers: Vec<Sleeper>,
}

struct Sleeper {
    /// Address of the word.
    word: usize,
    event: Arc<EventFd>,
}

thread_local! {
    /// Event of this thread, and the fork generation that it was opened in.
    static EVENT: RefCell<Option<(u32, Arc<EventFd>)>> = const { RefCell::new(None) };
}

/// Sleeps while `word` equals `expected`; `timeout` `None` means without a limit. A thread that changes `word` must
/// call [`futex_wake_all`] if another thread may sleep on it.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> WakeReason {
    let Some(event) = own_event() else {
        std::thread::sleep(timeout.map_or(WITHOUT_EVENT, |timeout| timeout.min(WITHOUT_EVENT)));
        return WakeReason::Woken;
    };
    let address = word.as_ptr() as usize;
    let is_asleep = with_bucket(address, |sleepers| {
        let is_expected = word.load(Ordering::SeqCst) == expected;
        if is_expected {
            sleepers.push(Sleeper { word: address, event: Arc::clone(&event) });
        }
        is_expected
    });
    if !is_asleep {
        return WakeReason::Woken;
    }
    let mut fds = [libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
    let polled = poll::poll(&mut fds, timeout);
    // A waker removes the sleeper and signals its event under the lock. So a sleeper that is no longer there was woken,
    // whatever ended the poll, and its signal has arrived.
    let is_there = with_bucket(address, |sleepers| {
        let place = sleepers.iter().position(|sleeper| Arc::ptr_eq(&sleeper.event, &event));
        place.map(|place| sleepers.swap_remove(place)).is_some()
    });
    if !is_there {
        event.clear();
        return WakeReason::Woken;
    }
    match polled {
        Ok(0) => WakeReason::TimedOut,
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => WakeReason::Interrupted,
        _ => WakeReason::Woken,
    }
}

/// Wakes all threads that sleep on `word`.
pub fn futex_wake_all(word: &AtomicU32) {
    let address = word.as_ptr() as usize;
    with_bucket(address, |sleepers| {
        sleepers.extract_if(.., |sleeper| sleeper.word == address).for_each(|sleeper| sleeper.event.signal());
    });
}

/// Calls `act`, which must not block, with the sleepers of an address' bucket.
fn with_bucket<R>(address: usize, act: impl FnOnce(&mut Vec<Sleeper>) -> R) -> R {
    let generation = fork::generation(); // registers the fork handlers that the guard relies on
    let _hold = fork::hold_off();
    // Words are four bytes apart at least, and most lie in structs of some size.
    let bucket = &TABLE[(address >> 4) % BUCKETS];
    let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
    if bucket.generation != generation {
        bucket.generation = generation;
        bucket.sleepers.clear(); // closes nothing: a child owns none of the descriptors
    }
    act(&mut bucket.sleepers)
}

/// Returns the event of this thread; `None`: descriptors are exhausted.
fn own_event() -> Option<Arc<EventFd>> {
    let generation = fork::generation();
    let open = || EventFd::new().ok().map(Arc::new);
    let kept = EVENT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        match &*kept {
            Some((of, event)) if *of == generation => Some(Arc::clone(event)),
            _ => {
                let event = open()?;
                *kept = Some((generation, Arc::clone(&event)));
                Some(event)
            }
        }
    });
    // The thread is ending, and its event is closed.
    kept.unwrap_or_else(|_| open())
}
