//! Waiter list: the threads that sleep until there is a job, and the choice of the thread to wake.
//!
//! - One waiter is woken at a time. After it has taken its job, it wakes the next waiter if more lanes are ready. So a
//!   burst does not wake a herd, and a worker that finds its next job by itself leaves the others asleep.
//! - The last thread to fall asleep is woken first, because its stack and caches are warm.
//! - One thread keeps the nearest deadline (a retry, a tick, the end of a pause), and the others sleep without one. The
//!   first thread to fall asleep keeps the deadline, and it is the last to be woken for a job.

use std::thread::Thread;

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
    thread: Thread,
}

impl WaiterList {
    /// Adds the calling thread to the list. Returns its id in the list.
    pub(super) fn add(&mut self, pool: Pool, number: u32) -> u64 {
        self.last_id += 1;
        self.waiting.push(Waiter { id: self.last_id, pool, number, thread: std::thread::current() });
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
    pub(super) fn next_to_wake(&mut self, pool: Pool) -> Option<Thread> {
        let rising = self.pending_wakes.get_mut(index(pool)).filter(|rising| rising.is_none())?;
        let keeper = self.deadline_holder.map(|(id, _)| id);
        let of_pool = |sleeper: &Waiter| sleeper.pool == pool;
        let others = |sleeper: &Waiter| of_pool(sleeper) && Some(sleeper.id) != keeper;
        let at = self.waiting.iter().rposition(others).or_else(|| self.waiting.iter().rposition(of_pool))?;
        let sleeper = self.waiting.remove(at);
        *rising = Some(sleeper.id);
        self.deadline_holder.take_if(|(id, _)| *id == sleeper.id);
        Some(sleeper.thread)
    }

    /// Returns the threads to wake for jobs of these pools.
    pub(super) fn next_to_wake_each(&mut self, pools: impl Iterator<Item = Pool>) -> [Option<Thread>; Pool::ALL.len()] {
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
    pub(super) fn next_for_deadline(&self) -> Option<Thread> {
        self.waiting.last().map(|sleeper| sleeper.thread.clone())
    }

    /// Returns all sleeping threads.
    pub(super) fn all(&self) -> Vec<Thread> {
        self.waiting.iter().map(|sleeper| sleeper.thread.clone()).collect()
    }

    /// Returns the sleeping workers with a number above `count`.
    pub(super) fn numbered_above(&self, count: u32) -> Vec<Thread> {
        let above = self.waiting.iter().filter(|sleeper| sleeper.number > count);
        above.map(|sleeper| sleeper.thread.clone()).collect()
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
    pub(super) threads: [Option<Thread>; Pool::ALL.len()],
    pub(super) interruptible: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_waiter_is_woken_first_and_the_deadline_holder_last() {
        let mut sleepers = WaiterList::default();
        let [keeper, middle, last] = [1, 2, 3].map(|number| sleepers.add(Pool::Threads, number));
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
    fn pools_do_not_wake_each_other() {
        let mut sleepers = WaiterList::default();
        sleepers.add(Pool::EventLoop, 0);
        assert!(sleepers.next_to_wake(Pool::Threads).is_none());
        assert!(sleepers.next_to_wake(Pool::EventLoop).is_some());
    }

    #[test]
    fn those_above_the_count_are_found() {
        let mut sleepers = WaiterList::default();
        for number in 0..6 {
            sleepers.add(Pool::Threads, number);
        }
        assert_eq!(sleepers.numbered_above(3).len(), 2);
        assert_eq!(sleepers.all().len(), 6);
    }
}
