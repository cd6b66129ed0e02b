//! Members of a share group, and the partitions that they read.

mod assignor;
mod heartbeat;
mod refusal;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use heartbeat::{Membership, check_heartbeat};
pub use refusal::ShareRefusal;

use crate::effects::Change;
use crate::effects::Effects;
use crate::effects::consumer_group::{Partitions, SubscribedTopics};
use crate::effects::share_group::{ShareChange, ShareGroupChange, ShareMember};
use crate::ids::Millis;

/// Member epoch of a request by which a member leaves.
pub(super) const LEAVE_EPOCH: i32 = -1;

/// Members and assignments of a share group.
#[derive(Debug)]
pub struct ShareGroup {
    id: Arc<str>,
    /// Group epoch.
    epoch: i32,
    /// Group epoch of the assignment.
    target_epoch: i32,
    target: BTreeMap<Arc<str>, Partitions>,
    members: BTreeMap<Arc<str>, ShareMember>,
    /// Topics on which the epoch is based.
    topics: SubscribedTopics,
    /// Ends of the members' sessions.
    sessions: BTreeMap<Arc<str>, Millis>,
}

impl ShareGroup {
    /// Creates a group without members.
    #[must_use]
    pub fn new(id: Arc<str>) -> Self {
        Self {
            id,
            epoch: 0,
            target_epoch: 0,
            target: BTreeMap::new(),
            members: BTreeMap::new(),
            topics: SubscribedTopics::new(),
            sessions: BTreeMap::new(),
        }
    }

    /// Returns Kafka's name of the state.
    #[must_use]
    pub fn state(&self) -> &'static str {
        if self.members.is_empty() { "Empty" } else { "Stable" }
    }

    /// Returns the members by id.
    pub fn members(&self) -> impl Iterator<Item = &ShareMember> {
        self.members.values()
    }

    /// Returns group epoch and the epoch of the assignment.
    #[must_use]
    pub fn epochs(&self) -> (i32, i32) {
        (self.epoch, self.target_epoch)
    }

    /// Returns the time at which the first session ends. `None`: the group has no members.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        self.sessions.values().min().copied()
    }

    /// Removes the members whose session has ended. Returns them.
    pub fn expire(&mut self, now: Millis, effects: &mut Effects) -> Vec<Arc<str>> {
        let due = self.sessions.iter().filter(|(_, ends)| **ends <= now);
        let due: Vec<Arc<str>> = due.map(|(member, _)| Arc::clone(member)).collect();
        due.iter().for_each(|member| self.remove(member, effects));
        due
    }

    /// Begins the sessions of all members, after the group was loaded.
    pub fn begin_sessions(&mut self, ends: Millis) {
        self.sessions = self.members.keys().map(|member| (Arc::clone(member), ends)).collect();
    }

    /// Removes a member.
    pub fn remove(&mut self, member_id: &Arc<str>, effects: &mut Effects) {
        self.change(ShareGroupChange::MemberRemoved { member_id: Arc::clone(member_id) }, effects);
        self.change(ShareGroupChange::Epoch(self.epoch.saturating_add(1)), effects);
    }

    /// Applies a change of members or epoch.
    pub fn apply(&mut self, change: &ShareGroupChange) {
        match change {
            ShareGroupChange::Epoch(epoch) => self.epoch = *epoch,
            ShareGroupChange::Member(member) => {
                self.members.insert(Arc::clone(&member.member_id), member.clone());
            }
            ShareGroupChange::MemberRemoved { member_id } => {
                self.members.remove(member_id);
                self.sessions.remove(member_id);
                self.target.remove(member_id);
            }
            _ => {}
        }
    }

    /// Applies a change and stores it.
    fn change(&mut self, change: ShareGroupChange, effects: &mut Effects) {
        self.apply(&change);
        effects.change(Change::Share(ShareChange { group: Arc::clone(&self.id), change }));
    }
}
