//! What a client is to its group, for whoever watches over it.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use grete_core::consumer::Standing;

/// One look at a client's membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// `group.id`; empty without a group.
    pub group: String,
    /// `stable`, `joining`, `revoking`, `assigned` (by hand), `left`, `failed` and so on.
    pub state: &'static str,
    /// Since when the state is this one.
    pub since: Instant,
    /// In the group with its assignment taken in and nothing pending, or the partitions were given by hand.
    pub steady: bool,
    /// The group's generation; -1 outside of it.
    pub generation: i32,
    /// How many partitions the client has.
    pub partitions: usize,
    /// `group.instance.id` of a static member.
    pub instance: Option<String>,
}

/// The last word of the network thread about it. The lock is held for a copy and nothing else, so that whoever holds the
/// interpreter may look without waiting for anybody who wants it.
pub(crate) struct Told {
    last: Mutex<(Standing, Instant)>,
    turned: OnceLock<Turned>,
}

/// Called when a client has become steady, or is it no more.
type Turned = Box<dyn Fn() + Send + Sync>;

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Told").field(&self.look()).finish()
    }
}

impl Default for Told {
    fn default() -> Self {
        let standing = Standing { state: "unjoined", steady: false, generation: -1, partitions: 0 };
        Self { last: Mutex::new((standing, Instant::now())), turned: OnceLock::new() }
    }
}

impl Told {
    pub(crate) fn tell(&self, standing: Standing) {
        let mut told = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if told.0.state != standing.state {
            told.1 = Instant::now();
        }
        let turned = told.0.steady != standing.steady;
        told.0 = standing;
        drop(told); // whoever is called looks
        if let Some(call) = self.turned.get().filter(|_| turned) {
            call();
        }
    }

    /// The first one is called.
    pub(crate) fn when_turned(&self, call: Turned) {
        let _ = self.turned.set(call);
    }

    pub(crate) fn look(&self) -> (Standing, Instant) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_last_change_of_state() {
        let told = Told::default();
        let stable = Standing { state: "stable", steady: true, generation: 3, partitions: 2 };
        told.tell(stable);
        let (_, since) = told.look();
        told.tell(Standing { generation: 4, partitions: 1, ..stable });
        assert_eq!(told.look(), (Standing { generation: 4, partitions: 1, ..stable }, since));
        told.tell(Standing { state: "joining", ..stable });
        assert!(told.look().1 >= since);
    }

    #[test]
    fn whoever_wants_to_know_is_called_when_it_turns_steady_or_not_and_can_look() {
        let told = std::sync::Arc::new(Told::default());
        let (tell, heard) = std::sync::mpsc::channel();
        let there = std::sync::Arc::clone(&told);
        told.when_turned(Box::new(move || tell.send(there.look().0.steady).expect("somebody listens")));
        let stable = Standing { state: "stable", steady: true, generation: 3, partitions: 2 };
        for standing in [stable, Standing { generation: 4, ..stable }, Standing { steady: false, ..stable }, stable] {
            told.tell(standing);
        }
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [true, false, true]);
    }
}
