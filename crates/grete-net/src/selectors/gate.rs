//! Gate between the sockets and the selector of the network thread. What arrives behind a closed gate does not wake the
//! network thread.
//!
//! The kernel wakes the first selector in which a thread waits. So without a gate the network thread is woken for bytes
//! that arrive while the leader is awake: for a response that is faster than the caller, and for the second piece of a
//! Fetch response. A gate is closed in one of two ways:
//!
//! - **For one lead** ([`GateUse::EachLead`]). The leader closes and opens the gate: two system calls for each lead.
//! - **Kept closed over many leads** ([`GateUse::QuickLeads`]), if these follow each other within [`QUICK_LEADS`]. Then
//!   neither a lead nor an early response costs a system call or a wake-up. The network thread watches: it looks every
//!   [`WATCH_INTERVAL`] whether there was a lead since, and opens the gate otherwise. What arrives while no caller leads
//!   thus waits for at most two intervals. The gate is not kept closed while a caller sleeps beside the leader.
//!
//! One word has five bits, and counts leads above these:
//!
//! ```text
//! take    LED, and CLOSED or CLOSED | KEPT            not KEPT after FOLLOWED
//! follow  FOLLOWED; not LED: opens
//! leave   KEPT and not FOLLOWED: stays closed         not WATCHED: wakes the network thread, which then watches
//!         else: opens
//! watch   not KEPT: the network thread sleeps without limit
//!         KEPT: WATCHED, for an interval              no lead since: opens, or, while LED, leaves that to the leader
//! ```
//!
//! # Races
//!
//! - **The leader leaves the gate closed while the network thread begins to sleep.** Both change the one word. If
//!   `watch` is first, it has seen `KEPT` and set `WATCHED`; or it has not seen `KEPT`, and `leave` finds no `WATCHED` and
//!   wakes the network thread. If `leave` is first, `watch` sees `KEPT`.
//! - **The leader leaves while the network thread looks.** The number of leads is in the word, so a decision on an older
//!   number is not taken.
//! - **A caller begins to sleep beside the leader, which leaves.** The caller counts itself, then calls `follow`. The
//!   leader reads the count before it changes the word. If the leader did not see the caller, its `leave` comes after
//!   `follow` and sees `FOLLOWED`, or before it, and then `follow` opens the gate.
//! - **Two threads change the registration at once.** A thread changes the word first and the registration second. Only a
//!   leader closes, and until it leaves no other thread opens. So the kernel cannot have the gate closed for long while
//!   the word says that it is open. The reverse costs superfluous wake-ups until the gate is opened the next time.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use grete_proto::time::{MILLI, Nanos};
use grete_sys::EventFd;

use super::crowd::Crowd;
use super::epoll::{self, Epoll, EventBuffer, Interest, Token};
use super::leadership::LeadershipWord;

/// Token of the [`Gate`] in the selector of the network thread.
pub(crate) const GATE: Token = Token(usize::MAX - 2);
/// Time between the beginnings of two leads, up to which the gate stays closed from one to the next. It is a tenth of the
/// interval, so that watching costs one wake-up for at least ten leads.
const QUICK_LEADS: Nanos = MILLI / 2;
/// Time between two checks of the network thread of a gate that is kept closed.
const WATCH_INTERVAL: Nanos = 5 * MILLI;

const CLOSED: u32 = 1;
/// The gate stays closed after the lead.
const KEPT: u32 = 2;
/// The network thread checks the gate within an interval.
const WATCHED: u32 = 4;
const LED: u32 = 8;
/// A caller has begun to sleep beside the leader.
const FOLLOWED: u32 = 16;
/// Increment of the number of leads.
const LEAD: u32 = 32;

/// Leads for which the gate is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateUse {
    /// All: responses arrive in several pieces.
    EachLead,
    /// Those that follow each other quickly.
    QuickLeads,
}

/// State machine of the gate; see the module.
#[derive(Debug, Default)]
struct GateWord<W: LeadershipWord>(W);

/// Task of a leader that leaves.
#[derive(Debug, PartialEq, Eq)]
enum Leave {
    Nothing,
    Open,
    WakeNetwork,
}

impl<W: LeadershipWord> GateWord<W> {
    /// Changes the word. Returns the word before and after.
    fn update(&self, change: impl Fn(u32) -> u32) -> (u32, u32) {
        let mut before = self.0.load();
        loop {
            let after = change(before);
            match self.0.compare_exchange(before, after) {
                Ok(_) => return (before, after),
                Err(now) => before = now,
            }
        }
    }

    /// Begins a lead. Returns whether the gate must be closed now.
    fn take(&self, keep: bool, gate_use: GateUse) -> bool {
        let (before, after) = self.update(|word| {
            if keep && word & FOLLOWED == 0 {
                return word | LED | KEPT | CLOSED;
            }
            let closed = if gate_use == GateUse::EachLead { CLOSED } else { 0 };
            word & !KEPT | LED | closed
        });
        before & CLOSED == 0 && after & CLOSED != 0
    }

    /// Ends a lead. `alone`: no caller sleeps beside the leader.
    fn leave(&self, alone: bool) -> Leave {
        let (before, after) = self.update(|word| {
            let left = word.wrapping_add(LEAD) & !(LED | FOLLOWED);
            if alone && word & (KEPT | FOLLOWED) == KEPT { left } else { left & !(CLOSED | KEPT | WATCHED) }
        });
        match after & (CLOSED | KEPT | WATCHED) {
            0 if before & CLOSED != 0 => Leave::Open,
            word if word & KEPT != 0 && word & WATCHED == 0 => Leave::WakeNetwork,
            _ => Leave::Nothing,
        }
    }

    /// Records that a caller sleeps beside the leader. Returns whether the gate must be opened now.
    fn follow(&self) -> bool {
        let (before, after) = self.update(|word| {
            let followed = word | FOLLOWED;
            if word & LED != 0 { followed } else { followed & !(CLOSED | KEPT | WATCHED) }
        });
        before & CLOSED != 0 && after & CLOSED == 0
    }

    /// Prepares a sleep of the network thread. `seen`: number of leads at the last look, if that was an interval ago.
    /// Returns whether the gate must be opened now, and the number of leads if the thread has to watch.
    fn watch(&self, seen: Option<u32>) -> (bool, Option<u32>) {
        let (before, after) = self.update(|word| {
            if word & KEPT == 0 {
                word & !WATCHED
            } else if seen != Some(word / LEAD) {
                word | WATCHED
            } else if word & LED != 0 {
                word & !(KEPT | WATCHED)
            } else {
                word & !(CLOSED | KEPT | WATCHED)
            }
        });
        (before & CLOSED != 0 && after & CLOSED == 0, (after & KEPT != 0).then_some(after / LEAD))
    }
}

/// Selector between the sockets and that of the network thread.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(super) sockets: Epoll,
    network: Arc<Epoll>,
    gate_use: GateUse,
    word: GateWord<AtomicU32>,
    /// Beginning of the last lead.
    led_at: AtomicU64,
}

/// Last look of the network thread at a gate that is kept closed.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: Option<u32>,
    at: Nanos,
}

impl Gate {
    /// Creates a gate, open, in the selector of the network thread.
    pub(super) fn new(network: Arc<Epoll>, gate_use: GateUse) -> io::Result<Self> {
        let sockets = Epoll::new()?;
        epoll::add(network.as_raw_fd(), sockets.as_raw_fd(), GATE, Interest::NESTED)?;
        Ok(Self { sockets, network, gate_use, word: GateWord::default(), led_at: AtomicU64::new(0) })
    }

    fn set(&self, interest: Interest) {
        // Both descriptors are open and registered, so this cannot fail.
        let set = epoll::modify(self.network.as_raw_fd(), self.sockets.as_raw_fd(), GATE, interest);
        debug_assert!(set.is_ok(), "{set:?}");
    }

    fn open_if(&self, must_open: bool) {
        if must_open {
            self.set(Interest::NESTED);
        }
    }

    /// Begins a lead, until the guard is dropped. `waker`: wakes the network thread. `is_over`: the lead ends at once,
    /// because the network thread was faster; `None`: then the gate stays as it is.
    pub(super) fn take<'a>(
        &'a self,
        now: Nanos,
        is_over: bool,
        crowd: &'a Crowd,
        waker: &'a EventFd,
    ) -> Option<LedGate<'a>> {
        let last = self.led_at.swap(now, Ordering::Relaxed);
        let quick = now.saturating_sub(last) < QUICK_LEADS;
        // A consumer that reads a backlog leads quickly, too, and the network thread fetches the next records meanwhile.
        let keep = self.gate_use == GateUse::QuickLeads && quick && crowd.is_empty();
        if is_over && !keep {
            return None;
        }
        if self.word.take(keep, self.gate_use) {
            self.set(Interest::NOTHING);
        }
        Some(LedGate { gate: self, crowd, waker })
    }

    /// Prepares the sleep of a caller beside the leader. The crowd counts the caller before.
    pub(super) fn follow(&self) {
        self.open_if(self.word.follow());
    }

    /// Prepares a sleep of the network thread. Returns the longest time that it may sleep; `None`: no limit.
    pub(crate) fn watch(&self, watch: &mut Watch, now: Nanos) -> Option<Duration> {
        let is_due = watch.seen.is_none() || watch.at.saturating_add(WATCH_INTERVAL) <= now;
        let (open, leads) = self.word.watch(watch.seen.filter(|_| is_due));
        self.open_if(open);
        if is_due || leads.is_none() {
            *watch = Watch { seen: leads, at: now };
        }
        leads.map(|_| Duration::from_nanos(watch.at.saturating_add(WATCH_INTERVAL).saturating_sub(now)))
    }

    /// Finds the sockets that are ready, without waiting.
    pub(crate) fn find_ready(&self, buffer: &mut EventBuffer) -> io::Result<()> {
        self.sockets.wait(buffer, Some(Duration::ZERO))
    }
}

/// Guard of a lead, which ends also by a panic.
pub(crate) struct LedGate<'a> {
    gate: &'a Gate,
    crowd: &'a Crowd,
    waker: &'a EventFd,
}

impl Drop for LedGate<'_> {
    fn drop(&mut self) {
        match self.gate.word.leave(self.crowd.is_empty()) {
            Leave::Nothing => {}
            Leave::Open => self.gate.set(Interest::NESTED),
            Leave::WakeNetwork => self.waker.signal(),
        }
    }
}

#[cfg(test)]
mod tests {
    use loom::sync::atomic::{AtomicBool, AtomicU32 as Modelled};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::super::check_orders as check;
    use super::*;

    const QUICK: GateUse = GateUse::QuickLeads;

    #[test]
    fn a_gate_of_each_lead_is_opened_at_its_end() {
        let word = GateWord(AtomicU32::new(0));
        assert!(word.take(false, GateUse::EachLead));
        assert_eq!(word.watch(None), (false, None));
        assert_eq!(word.leave(true), Leave::Open);
        assert!(!word.take(false, QUICK));
        assert_eq!(word.leave(true), Leave::Nothing);
    }

    #[test]
    fn quick_leads_cost_nothing_while_the_gate_is_watched() {
        let word = GateWord(AtomicU32::new(0));
        assert!(word.take(true, QUICK));
        assert_eq!(word.leave(true), Leave::WakeNetwork);
        let (_, seen) = word.watch(None);
        for _ in 0..3 {
            assert!(!word.take(true, QUICK));
            assert_eq!(word.leave(true), Leave::Nothing);
        }
        let (open, seen) = (word.watch(seen).0, word.watch(None).1);
        assert!(!open && seen.is_some(), "there were leads");
        assert_eq!(word.watch(seen), (true, None), "there was none since");
    }

    #[test]
    fn a_lead_that_lasts_is_not_watched_and_opens_the_gate() {
        let word = GateWord(AtomicU32::new(0));
        word.take(true, QUICK);
        let (_, seen) = word.watch(None);
        assert_eq!(word.watch(seen), (false, None));
        assert_eq!(word.leave(true), Leave::Open);
    }

    #[test]
    fn a_gate_is_not_kept_closed_for_callers_that_sleep() {
        let word = GateWord(AtomicU32::new(0));
        word.take(true, QUICK);
        assert!(!word.follow(), "the leader opens it");
        assert_eq!(word.leave(true), Leave::Open);
        word.take(true, QUICK);
        assert_eq!(word.leave(false), Leave::Open);
        word.take(true, QUICK);
        word.leave(true);
        assert!(word.follow(), "no caller leads");
    }

    /// The gate as the kernel has it, with bytes behind it, and the network thread.
    struct Model {
        word: GateWord<Modelled>,
        followers: Modelled,
        open: Mutex<bool>,
        wake: Mutex<bool>,
        woken: Condvar,
        ended: AtomicBool,
    }

    impl Model {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                word: GateWord(Modelled::new(0)),
                followers: Modelled::new(0),
                open: Mutex::new(true),
                wake: Mutex::new(false),
                woken: Condvar::new(),
                ended: AtomicBool::new(false),
            })
        }

        fn wake(&self) {
            *self.wake.lock().unwrap() = true;
            self.woken.notify_one();
        }

        fn lead(&self) {
            if self.word.take(self.followers.load(Ordering::SeqCst) == 0, QUICK) {
                *self.open.lock().unwrap() = false;
            }
            match self.word.leave(self.followers.load(Ordering::SeqCst) == 0) {
                Leave::Nothing => {}
                Leave::Open => *self.open.lock().unwrap() = true,
                Leave::WakeNetwork => self.wake(),
            }
        }

        /// The network thread, until the end: it sleeps until it is woken, or for an interval if it watches.
        fn run_network(&self) {
            let mut seen = None;
            loop {
                let ended = self.ended.load(Ordering::SeqCst);
                let (open, leads) = self.word.watch(seen);
                if open {
                    *self.open.lock().unwrap() = true;
                }
                seen = leads;
                if leads.is_some() {
                    thread::yield_now(); // the interval passes
                    continue;
                }
                if ended {
                    return;
                }
                let mut wake = self.wake.lock().unwrap();
                while !*wake {
                    wake = self.woken.wait(wake).unwrap();
                }
                *wake = false;
            }
        }
    }

    /// However the last lead ends: once the network thread sleeps without a limit, the gate is open.
    #[test]
    fn a_gate_without_a_leader_is_watched_or_open() {
        check(|| {
            let model = Model::new();
            let network = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.run_network())
            };
            model.lead();
            model.lead();
            model.ended.store(true, Ordering::SeqCst);
            model.wake();
            network.join().expect("no panic");
            assert!(*model.open.lock().unwrap());
        });
    }

    /// No interval has to pass for a caller that sleeps beside the leader: once the leader has left, the gate is open.
    #[test]
    fn a_gate_is_open_for_a_follower() {
        check(|| {
            let model = Model::new();
            let leader = {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    model.lead();
                    model.lead();
                })
            };
            model.followers.fetch_add(1, Ordering::SeqCst);
            if model.word.follow() {
                *model.open.lock().unwrap() = true;
            }
            leader.join().expect("no panic");
            assert_eq!(model.word.0.load(Ordering::SeqCst) & CLOSED, 0);
            assert!(*model.open.lock().unwrap());
        });
    }
}
