//! Who sleeps until there is work, and who is to be woken for what.
//!
//! - One sleeper is woken at a time. Once it has taken its job and more is ready, it wakes the next one: a burst wakes no
//!   herd, and a worker that finds its next job by itself leaves the others asleep.
//! - The last to fall asleep is the first to be woken: its stack and caches are warm.
//! - One thread keeps the nearest deadline (a retry, a tick, a pause that ends): the others sleep without one. Whoever
//!   goes to sleep first keeps it, and is the last to be woken for a job.

use std::thread::Thread;

use grete_core::dispatch::Pool;
use grete_core::time::Nanos;

/// All threads of a dispatcher that sleep. Everything here happens under the dispatcher's lock, except the waking itself.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    asleep: Vec<Sleeper>,
    last_id: u64,
    /// Woken and not yet up, by pool: it will look for work, so nobody else is woken for what is ready now.
    rising: [Option<u64>; Pool::ALL.len()],
    timekeeper: Option<(u64, Nanos)>,
}

#[derive(Debug)]
struct Sleeper {
    id: u64,
    pool: Pool,
    /// The worker's number.
    number: u32,
    thread: Thread,
}

impl Sleepers {
    /// The calling thread goes to sleep. Returns its name here.
    pub(super) fn add(&mut self, pool: Pool, number: u32) -> u64 {
        self.last_id += 1;
        self.asleep.push(Sleeper { id: self.last_id, pool, number, thread: std::thread::current() });
        self.last_id
    }

    /// It is up again, woken or not.
    pub(super) fn remove(&mut self, id: u64) {
        self.asleep.retain(|sleeper| sleeper.id != id);
        for rising in &mut self.rising {
            rising.take_if(|rising| *rising == id);
        }
        self.timekeeper.take_if(|(keeper, _)| *keeper == id);
    }

    /// Makes `id` keep this deadline.
    pub(super) fn keep_time(&mut self, id: u64, until: Nanos) {
        self.timekeeper = Some((id, until));
    }

    /// The deadline that a sleeper keeps.
    pub(super) fn kept(&self) -> Option<Nanos> {
        self.timekeeper.map(|(_, until)| until)
    }

    /// The one to wake for a job of this pool; `None` when none sleeps, or one is on its way already.
    pub(super) fn rouse(&mut self, pool: Pool) -> Option<Thread> {
        let rising = self.rising.get_mut(index(pool)).filter(|rising| rising.is_none())?;
        let keeper = self.timekeeper.map(|(id, _)| id);
        let of_pool = |sleeper: &Sleeper| sleeper.pool == pool;
        let others = |sleeper: &Sleeper| of_pool(sleeper) && Some(sleeper.id) != keeper;
        let at = self.asleep.iter().rposition(others).or_else(|| self.asleep.iter().rposition(of_pool))?;
        let sleeper = self.asleep.remove(at);
        *rising = Some(sleeper.id);
        self.timekeeper.take_if(|(id, _)| *id == sleeper.id);
        Some(sleeper.thread)
    }

    /// The ones to wake for jobs of these pools.
    pub(super) fn rouse_all(&mut self, pools: impl Iterator<Item = Pool>) -> [Option<Thread>; Pool::ALL.len()] {
        let mut threads = [const { None }; Pool::ALL.len()];
        for pool in pools {
            if let Some(place) = threads.get_mut(index(pool)) {
                *place = self.rouse(pool);
            }
        }
        threads
    }

    /// Whether somebody is woken and not yet up.
    pub(super) fn is_one_rising(&self) -> bool {
        self.rising.iter().any(Option::is_some)
    }

    /// The one to wake so that it keeps a deadline that nobody keeps; `None` when none sleeps.
    pub(super) fn rouse_for_time(&self) -> Option<Thread> {
        self.asleep.last().map(|sleeper| sleeper.thread.clone())
    }

    /// Everybody.
    pub(super) fn all(&self) -> Vec<Thread> {
        self.asleep.iter().map(|sleeper| sleeper.thread.clone()).collect()
    }

    /// Workers with a number above `count`.
    pub(super) fn above(&self, count: u32) -> Vec<Thread> {
        let above = self.asleep.iter().filter(|sleeper| sleeper.number > count);
        above.map(|sleeper| sleeper.thread.clone()).collect()
    }
}

fn index(pool: Pool) -> usize {
    match pool {
        Pool::Threads => 0,
        Pool::Loop => 1,
    }
}

/// Threads to wake once the lock is free: woken under it, they would run into it.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    pub(super) threads: [Option<Thread>; Pool::ALL.len()],
    pub(super) poller: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_sleep_is_woken_first_and_the_timekeeper_last() {
        let mut sleepers = Sleepers::default();
        let [keeper, middle, last] = [1, 2, 3].map(|number| sleepers.add(Pool::Threads, number));
        sleepers.keep_time(keeper, 100);
        let mut order = Vec::new();
        for _ in 0..3 {
            assert!(sleepers.rouse(Pool::Threads).is_some());
            assert!(sleepers.rouse(Pool::Threads).is_none(), "one is on its way");
            let up = sleepers.rising[0].expect("it rises");
            order.push(up);
            sleepers.remove(up);
        }
        assert_eq!(order, [last, middle, keeper]);
        assert_eq!(sleepers.kept(), None, "nobody is left to keep it");
        assert!(sleepers.rouse(Pool::Threads).is_none());
    }

    #[test]
    fn pools_do_not_wake_each_other() {
        let mut sleepers = Sleepers::default();
        sleepers.add(Pool::Loop, 0);
        assert!(sleepers.rouse(Pool::Threads).is_none());
        assert!(sleepers.rouse(Pool::Loop).is_some());
    }

    #[test]
    fn those_above_the_count_are_found() {
        let mut sleepers = Sleepers::default();
        for number in 0..6 {
            sleepers.add(Pool::Threads, number);
        }
        assert_eq!(sleepers.above(3).len(), 2);
        assert_eq!(sleepers.all().len(), 6);
    }
}
