//! Group membership of a client, as published for health checks and status reports.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use grete_proto::consumer::MembershipStatus;

use crate::published::Published;

/// Snapshot of a client's group membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// `group.id`; empty without a group.
    pub group: String,
    /// `stable`, `joining`, `revoking`, `assigned` (by hand), `left`, `failed` and so on.
    pub state: &'static str,
    /// Time of the last change of `state`.
    pub since: Instant,
    /// True if the client has its assignment and nothing is pending, or if its partitions were assigned by hand.
    pub ready: bool,
    /// Generation of the group; -1 outside a group.
    pub generation: i32,
    /// Number of assigned partitions.
    pub partitions: usize,
    /// `group.instance.id` of a static member.
    pub instance: Option<String>,
}

/// Identity of this client in its group, as a transaction commits offsets with it (KIP-447).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// `group.id`; empty without a group.
    pub group: String,
    /// Id of the member; empty: the client is no member.
    pub member_id: Arc<str>,
    /// Generation of the group; -1: the client is no member.
    pub generation: i32,
    /// `group.instance.id` of a static member.
    pub instance: Option<String>,
}

/// Membership that the network thread published last, with the time of the last change of its state.
pub(crate) struct PublishedMembership {
    last: Published<(MembershipStatus, Instant)>,
    /// Generation and id of the member.
    member: Published<(i32, Option<Arc<str>>)>,
    on_ready_change: OnceLock<ReadyCallback>,
}

/// Callback for changes of `ready`.
type ReadyCallback = Box<dyn Fn() + Send + Sync>;

impl fmt::Debug for PublishedMembership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PublishedMembership").field(&self.get()).finish()
    }
}

impl Default for PublishedMembership {
    fn default() -> Self {
        let standing = MembershipStatus { state: "unjoined", ready: false, generation: -1, partitions: 0 };
        Self {
            last: Published::new((standing, Instant::now())),
            member: Published::new((-1, None)),
            on_ready_change: OnceLock::new(),
        }
    }
}

impl PublishedMembership {
    pub(crate) fn publish(&self, standing: MembershipStatus) {
        let ready_changed = self.last.update(|(last, since)| {
            if last.state != standing.state {
                *since = Instant::now();
            }
            std::mem::replace(last, standing).ready != standing.ready
        });
        // After the update, because the callback reads the membership.
        if let Some(call) = self.on_ready_change.get().filter(|_| ready_changed) {
            call();
        }
    }

    pub(crate) fn publish_member(&self, generation: i32, member_id: &str) {
        self.member.publish((generation, Some(member_id.into())));
    }

    /// Returns generation and id of the member; -1 and empty: none.
    pub(crate) fn member(&self) -> (i32, Arc<str>) {
        let (generation, member_id) = self.member.get();
        (generation, member_id.unwrap_or_default())
    }

    /// Registers the callback; only the first one is used.
    pub(crate) fn on_ready_change(&self, call: ReadyCallback) {
        let _ = self.on_ready_change.set(call);
    }

    pub(crate) fn get(&self) -> (MembershipStatus, Instant) {
        self.last.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_the_last_change_of_state() {
        let membership = PublishedMembership::default();
        let stable = MembershipStatus { state: "stable", ready: true, generation: 3, partitions: 2 };
        membership.publish(stable);
        let (_, since) = membership.get();
        membership.publish(MembershipStatus { generation: 4, partitions: 1, ..stable });
        assert_eq!(membership.get(), (MembershipStatus { generation: 4, partitions: 1, ..stable }, since));
        membership.publish(MembershipStatus { state: "joining", ..stable });
        assert!(membership.get().1 >= since);
    }

    #[test]
    fn the_callback_runs_on_each_change_of_ready_and_may_read() {
        let membership = std::sync::Arc::new(PublishedMembership::default());
        let (sender, received) = std::sync::mpsc::channel();
        let there = std::sync::Arc::clone(&membership);
        membership.on_ready_change(Box::new(move || sender.send(there.get().0.ready).expect("a receiver")));
        let stable = MembershipStatus { state: "stable", ready: true, generation: 3, partitions: 2 };
        for standing in
            [stable, MembershipStatus { generation: 4, ..stable }, MembershipStatus { ready: false, ..stable }, stable]
        {
            membership.publish(standing);
        }
        assert_eq!(received.try_iter().collect::<Vec<_>>(), [true, false, true]);
    }
}
