//! Waiter list: the threads that sleep until there is a job, and the choice of the thread to wake.
//!
//! - One waiter is woken at a time. After it has taken its job, it wakes the next waiter if more lanes are ready. So a
//!   burst does not wake a herd, and a worker that finds its next job by itself leaves the others asleep.
//! - The last thread to fall asleep is woken first, because its stack and caches are warm.
//! - A thread that leads the client's loop takes what it has read itself, because it is awake. Other threads wake it last,
//!   so that it goes on leading.
//! - One thread keeps the nearest deadline (a retry, a tick, the end of a pause), and the others sleep without one. The
//!   first thread to fall asleep keeps the deadline, and it is the last to be woken for a job.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use grete_net::CallerLoop;
use grete_proto::dispatch::Pool;
use grete_proto::time::Nanos;

/// All sleeping threads of a dispatcher. Every access is under the dispatcher's lock, except the wake-up itself.
#[derive(Debug, Default)]
pub(super) struct WaiterList {
    waiting: Vec<Waiter>,
    last_id: u64,
    /// Ids of threads that were woken and are not up yet, by pool. Such a thread will look for jobs, so no other thread
    /// is woken for lanes that are ready now.
    pending_wakes: [Option<u64>; Pool::ALL.len()],
    deadline_holder: Option<(u64, Nanos)>,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    pool: Pool,
    /// Number of the worker.
    number: u32,
    sleep: Sleep,
}

/// Sleep of a thread, for the thread that ends the sleep.
#[derive(Debug, Clone)]
pub(super) struct Sleep {
    thread: Thread,
    /// Flag that ends a lead; `None`: the thread does not lead.
    lead_over: Option<Arc<AtomicBool>>,
}

impl Sleep {
    /// Wakes the thread. `event_loop`: the loop that it may lead. The flag is set first, so that a leader that is just
    /// waking up sees it; and a leader that could not lead is parked, so it is unparked in any case.
    pub(super) fn end(&self, event_loop: Option<&dyn CallerLoop>) {
        if let Some(over) = &self.lead_over {
            over.store(true, Ordering::Release);
            if let Some(event_loop) = event_loop {
                event_loop.notify_leader();
            }
        }
        self.thread.unpark();
    }

    fn is_own_lead(&self) -> bool {
        self.lead_over.is_some() && self.thread.id() == std::thread::current().id()
    }
}

impl WaiterList {
    /// Adds the calling thread to the list. `lead_over`: flag that ends its lead; `None`: it does not lead. Returns its id
    /// in the list.
    pub(super) fn add(&mut self, pool: Pool, number: u32, lead_over: Option<Arc<AtomicBool>>) -> u64 {
        self.last_id += 1;
        let sleep = Sleep { thread: std::thread::current(), lead_over };
        self.waiting.push(Waiter { id: self.last_id, pool, number, sleep });
        self.last_id
    }

    /// Removes a thread that is up again, woken or not.
    pub(super) fn remove(&mut self, id: u64) {
        self.waiting.retain(|sleeper| sleeper.id != id);
        for rising in &mut self.pending_wakes {
            rising.take_if(|rising| *rising == id);
        }
        self.deadline_holder.take_if(|(keeper, _)| *keeper == id);
    }

    /// Makes thread `id` keep this deadline.
    pub(super) fn hold_deadline(&mut self, id: u64, until: Nanos) {
        self.deadline_holder = Some((id, until));
    }

    /// Returns the deadline that a waiter keeps; `None`: none does.
    pub(super) fn held_deadline(&self) -> Option<Nanos> {
        self.deadline_holder.map(|(_, until)| until)
    }

    /// Returns the thread to wake for a job of this pool; `None`: no thread sleeps, or one is already waking up.
    pub(super) fn next_to_wake(&mut self, pool: Pool) -> Option<Sleep> {
        let rising = self.pending_wakes.get_mut(index(pool)).filter(|rising| rising.is_none())?;
        let keeper = self.deadline_holder.map(|(id, _)| id);
        let of_pool = |sleeper: &Waiter| sleeper.pool == pool;
        let others = |sleeper: &Waiter| of_pool(sleeper) && Some(sleeper.id) != keeper;
        let parked = |sleeper: &Waiter| others(sleeper) && sleeper.sleep.lead_over.is_none();
        let waiting = || self.waiting.iter();
        let at = waiting()
            .rposition(|sleeper| of_pool(sleeper) && sleeper.sleep.is_own_lead())
            .or_else(|| waiting().rposition(parked))
            .or_else(|| waiting().rposition(others))
            .or_else(|| waiting().rposition(of_pool))?;
        let sleeper = self.waiting.remove(at);
        *rising = Some(sleeper.id);
        self.deadline_holder.take_if(|(id, _)| *id == sleeper.id);
        Some(sleeper.sleep)
    }

    /// Returns the threads to wake for jobs of these pools.
    pub(super) fn next_to_wake_each(&mut self, pools: impl Iterator<Item = Pool>) -> [Option<Sleep>; Pool::ALL.len()] {
        let mut threads = [const { None }; Pool::ALL.len()];
        for pool in pools {
            if let Some(place) = threads.get_mut(index(pool)) {
                *place = self.next_to_wake(pool);
            }
        }
        threads
    }

    /// Returns whether a thread was woken and is not up yet.
    pub(super) fn is_wake_pending(&self) -> bool {
        self.pending_wakes.iter().any(Option::is_some)
    }

    /// Returns the thread to wake so that it keeps a deadline that no thread keeps; `None`: no thread sleeps.
    pub(super) fn next_for_deadline(&self) -> Option<Sleep> {
        let parked = self.waiting.iter().rfind(|sleeper| sleeper.sleep.lead_over.is_none());
        parked.or(self.waiting.last()).map(|sleeper| sleeper.sleep.clone())
    }

    /// Returns all sleeping threads.
    pub(super) fn all(&self) -> Vec<Sleep> {
        self.waiting.iter().map(|sleeper| sleeper.sleep.clone()).collect()
    }

    /// Returns the sleeping workers with a number above `count`.
    pub(super) fn numbered_above(&self, count: u32) -> Vec<Sleep> {
        let above = self.waiting.iter().filter(|sleeper| sleeper.number > count);
        above.map(|sleeper| sleeper.sleep.clone()).collect()
    }
}

fn index(pool: Pool) -> usize {
    match pool {
        Pool::Threads => 0,
        Pool::EventLoop => 1,
    }
}

/// Threads to wake after the lock is released. A thread woken under the lock would block on it.
#[derive(Debug, Default)]
pub(super) struct WakeList {
    pub(super) threads: [Option<Sleep>; Pool::ALL.len()],
    pub(super) interruptible: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_waiter_is_woken_first_and_the_deadline_holder_last() {
        let mut sleepers = WaiterList::default();
        let [keeper, middle, last] = [1, 2, 3].map(|number| sleepers.add(Pool::Threads, number, None));
        sleepers.hold_deadline(keeper, 100);
        let mut order = Vec::new();
        for _ in 0..3 {
            assert!(sleepers.next_to_wake(Pool::Threads).is_some());
            assert!(sleepers.next_to_wake(Pool::Threads).is_none(), "one is on its way");
            let up = sleepers.pending_wakes[0].expect("it rises");
            order.push(up);
            sleepers.remove(up);
        }
        assert_eq!(order, [last, middle, keeper]);
        assert_eq!(sleepers.held_deadline(), None, "no thread is left to keep it");
        assert!(sleepers.next_to_wake(Pool::Threads).is_none());
    }

    #[test]
    fn a_leader_takes_what_it_has_read_and_is_woken_last_by_others() {
        let mut sleepers = WaiterList::default();
        sleepers.add(Pool::Threads, 1, None);
        let over: Arc<AtomicBool> = Arc::default();
        let leader = sleepers.add(Pool::Threads, 2, Some(Arc::clone(&over)));
        sleepers.add(Pool::Threads, 3, None);
        // Another thread has a job for the pool.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    let parked = sleepers.next_to_wake(Pool::Threads).expect("one sleeps");
                    assert!(parked.lead_over.is_none());
                    let up = sleepers.pending_wakes[0].expect("it rises");
                    sleepers.remove(up);
                }
            });
        });
        sleepers.add(Pool::Threads, 4, None);
        sleepers.next_to_wake(Pool::Threads).expect("the leader itself").end(None);
        assert!(over.load(Ordering::Acquire));
        assert_eq!(sleepers.pending_wakes[0], Some(leader));
    }

    #[test]
    fn pools_do_not_wake_each_other() {
        let mut sleepers = WaiterList::default();
        sleepers.add(Pool::EventLoop, 0, None);
        assert!(sleepers.next_to_wake(Pool::Threads).is_none());
        assert!(sleepers.next_to_wake(Pool::EventLoop).is_some());
    }

    #[test]
    fn those_above_the_count_are_found() {
        let mut sleepers = WaiterList::default();
        for number in 0..6 {
            sleepers.add(Pool::Threads, number, None);
        }
        assert_eq!(sleepers.numbered_above(3).len(), 2);
        assert_eq!(sleepers.all().len(), 6);
    }
}
