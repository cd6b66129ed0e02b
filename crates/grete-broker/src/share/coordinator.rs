//! Coordinator and leaders of share groups in one: groups with their settings, states of records, sessions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::list_groups::ListedGroup;
use grete_wire::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};

use super::config::{ShareGroupConfig, ShareGroupSettings};
use super::group::{Membership, ShareGroup, ShareRefusal, check_heartbeat};
use super::partition::SharePartition;
use super::session::{SessionKey, ShareSessions};
use crate::effects::share_group::{ShareChange, ShareGroupChange, StoredRange};
use crate::effects::{Change, Effects};
use crate::group::Requester;
use crate::group::consumer::FindTopic;
use crate::ids::{ConnId, Millis, TopicId};

/// Type of the groups, and of their protocol, in ListGroups.
const TYPE: &str = "share";

/// Leader epoch of a partition that no leader has used yet.
pub(super) const UNKNOWN_EPOCH: i32 = -1;

/// Partition of a topic, for one group.
pub type SharePartitionKey = (Arc<str>, TopicId, i32);

/// Share groups of a cluster.
#[derive(Debug)]
pub struct ShareCoordinator {
    config: ShareGroupConfig,
    pub(super) groups: BTreeMap<Arc<str>, ShareGroup>,
    /// Settings that differ from the brokers', by group.
    pub(super) overrides: BTreeMap<Arc<str>, BTreeMap<String, String>>,
    pub(super) partitions: BTreeMap<SharePartitionKey, SharePartition>,
    sessions: ShareSessions,
    /// End of the first lock of each partition that has locks.
    locks: BTreeSet<(Millis, SharePartitionKey)>,
    /// Whether groups were loaded whose sessions have not begun yet.
    pub(super) loading: bool,
}

impl ShareCoordinator {
    /// Creates a coordinator without groups.
    #[must_use]
    pub fn new(config: ShareGroupConfig) -> Self {
        Self {
            config,
            groups: BTreeMap::new(),
            overrides: BTreeMap::new(),
            partitions: BTreeMap::new(),
            sessions: ShareSessions::default(),
            locks: BTreeSet::new(),
            loading: false,
        }
    }

    /// Returns the brokers' settings.
    #[must_use]
    pub fn config(&self) -> &ShareGroupConfig {
        &self.config
    }

    /// Returns the sessions.
    pub fn sessions(&mut self) -> &mut ShareSessions {
        &mut self.sessions
    }

    /// Returns a group. `None`: there is no such group, or it is no share group.
    #[must_use]
    pub fn group(&self, group: &str) -> Option<&ShareGroup> {
        self.groups.get(group)
    }

    /// Lists groups whose state and type are in the filters. The comparison ignores case; an empty filter matches all.
    #[must_use]
    pub fn list(&self, states: &[Cow<'_, str>], types: &[Cow<'_, str>]) -> Vec<ListedGroup<'static>> {
        let matches = |filter: &[Cow<'_, str>], name: &str| {
            filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(name))
        };
        let groups = self.groups.iter().filter(|(_, group)| matches(types, TYPE) && matches(states, group.state()));
        let listed = groups.map(|(id, group)| ListedGroup {
            group_id: Cow::Owned(id.to_string()),
            protocol_type: Cow::Borrowed(TYPE),
            group_state: Cow::Borrowed(group.state()),
            group_type: Cow::Borrowed(TYPE),
        });
        listed.collect()
    }

    /// Returns the settings of a group: its own, else the brokers'.
    #[must_use]
    pub fn settings(&self, group: &str) -> ShareGroupSettings {
        let mut settings = self.config.defaults.clone();
        for (name, value) in self.overrides.get(group).into_iter().flatten() {
            // The value was checked when it was set. Where the bounds are others since, the brokers' value holds.
            let _ = settings.set(&self.config, name, value);
        }
        settings
    }

    /// Returns the settings of a group that differ from the brokers', by name.
    #[must_use]
    pub fn overrides(&self, group: &str) -> BTreeMap<String, String> {
        self.overrides.get(group).cloned().unwrap_or_default()
    }

    /// Replaces the settings of a group that differ from the brokers'.
    pub fn configure(&mut self, group: &str, overrides: BTreeMap<String, String>, effects: &mut Effects) {
        let group: Arc<str> = group.into();
        let change = ShareGroupChange::Configured(overrides.clone().into_iter().collect());
        self.overrides.insert(Arc::clone(&group), overrides);
        effects.change(Change::Share(ShareChange { group, change }));
    }

    /// Returns the time of the next timer: the end of a member's session or of a lock. `None`: no timer runs.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        if self.loading {
            return Some(Millis::MIN);
        }
        let lock = self.locks.first().map(|(ends, _)| *ends);
        self.groups.values().filter_map(ShareGroup::deadline).chain(lock).min()
    }

    /// Removes members and locks whose time has come. Returns the partitions whose records are available again.
    pub fn tick(&mut self, now: Millis, effects: &mut Effects) -> Vec<(TopicId, i32)> {
        if std::mem::take(&mut self.loading) {
            let ids: Vec<Arc<str>> = self.groups.keys().cloned().collect();
            for id in ids {
                let timeout = Millis::from(self.settings(&id).session_timeout_ms);
                if let Some(group) = self.groups.get_mut(&id) {
                    group.begin_sessions(now.saturating_add(timeout));
                }
            }
        }
        for group in self.groups.values_mut() {
            group.expire(now, effects);
        }
        let mut freed = Vec::new();
        while let Some((_, key)) = self.locks.first().filter(|(ends, _)| *ends <= now).cloned() {
            let limit = self.settings(&key.0).delivery_count_limit;
            self.with_partition(&key, effects, |partition| ((), partition.expire(now, limit)));
            freed.push((key.1, key.2));
        }
        freed
    }

    /// Handles a heartbeat. A group is created by its first member.
    ///
    /// # Errors
    /// The request is not valid, or the group does not accept the member.
    pub fn heartbeat(
        &mut self,
        now: Millis,
        requester: &Requester<'_>,
        request: &ShareGroupHeartbeatRequest<'_>,
        find_topic: FindTopic<'_>,
        effects: &mut Effects,
    ) -> Result<ShareGroupHeartbeatResponse<'static>, ShareRefusal> {
        check_heartbeat(request)?;
        let id: Arc<str> = request.group_id.as_ref().into();
        if !self.groups.contains_key(&id) && request.member_epoch != 0 {
            let message = format!("Share group {id} not found.");
            return Err(ShareRefusal::new(ErrorCode::GROUP_ID_NOT_FOUND, message));
        }
        let settings = self.settings(&id);
        let membership = Membership {
            session_timeout_ms: settings.session_timeout_ms,
            heartbeat_interval_ms: settings.heartbeat_interval_ms,
            max_size: self.config.max_size,
        };
        let group = self.groups.entry(Arc::clone(&id)).or_insert_with(|| ShareGroup::new(id));
        group.heartbeat(now, requester, request, &membership, find_topic, effects)
    }

    /// Deletes a group with the states of its records.
    ///
    /// # Errors
    /// `GROUP_ID_NOT_FOUND`, or `NON_EMPTY_GROUP`: the group has members.
    pub fn delete_group(&mut self, group: &str, effects: &mut Effects) -> Result<(), ErrorCode> {
        let found = self.groups.get(group).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        if found.members().next().is_some() {
            return Err(ErrorCode::NON_EMPTY_GROUP);
        }
        self.forget_group(group);
        effects.change(Change::Share(ShareChange { group: group.into(), change: ShareGroupChange::Deleted }));
        Ok(())
    }

    /// Removes a group with the states of its records.
    pub(super) fn forget_group(&mut self, group: &str) {
        self.groups.remove(group);
        self.partitions.retain(|(of, _, _), _| **of != *group);
        self.locks.retain(|(_, (of, _, _))| **of != *group);
    }

    /// Removes a member as if its session had ended. Returns whether the group has such a member.
    pub fn expire_member(&mut self, group: &str, member: &str, effects: &mut Effects) -> bool {
        let Some(group) = self.groups.get_mut(group) else { return false };
        let Some(id) = group.members().find(|found| *found.member_id == *member).map(|found| found.member_id.clone())
        else {
            return false;
        };
        group.remove(&id, effects);
        true
    }

    /// Returns the state of a partition. `None`: the group has not read the partition yet.
    #[must_use]
    pub fn partition(&self, group: &str, topic: TopicId, partition: i32) -> Option<&SharePartition> {
        self.partitions.get(&(group.into(), topic, partition))
    }

    /// Begins to read a partition at an offset, if the group does not read it yet.
    pub fn begin_partition(
        &mut self,
        key: &SharePartitionKey,
        effects: &mut Effects,
        new: impl FnOnce() -> SharePartition,
    ) {
        if !self.partitions.contains_key(key) {
            let created = new();
            let start = created.start();
            self.partitions.insert(key.clone(), created);
            store(key, start, Vec::new(), effects);
        }
    }

    /// Changes the state of a partition, stores the ranges that changed, and keeps its timer. `None`: the group does not read
    /// the partition.
    pub fn with_partition<T>(
        &mut self,
        key: &SharePartitionKey,
        effects: &mut Effects,
        change: impl FnOnce(&mut SharePartition) -> (T, Vec<StoredRange>),
    ) -> Option<T> {
        let partition = self.partitions.get_mut(key)?;
        let before = partition.deadline();
        let (result, changed) = change(partition);
        let (after, start) = (partition.deadline(), partition.start());
        if !changed.is_empty() {
            store(key, start, changed, effects);
        }
        if before != after {
            if let Some(ends) = before {
                self.locks.remove(&(ends, key.clone()));
            }
            if let Some(ends) = after {
                self.locks.insert((ends, key.clone()));
            }
        }
        Some(result)
    }

    /// Gives back what the member of a session has of some partitions. Returns the partitions with records that are available
    /// again.
    pub fn release(
        &mut self,
        session: &SessionKey,
        is_released: impl Fn(TopicId, i32) -> bool,
        effects: &mut Effects,
    ) -> Vec<(TopicId, i32)> {
        let of_group = self.partitions.keys().filter(|key| key.0 == session.group && is_released(key.1, key.2));
        let keys: Vec<SharePartitionKey> = of_group.cloned().collect();
        let limit = self.settings(&session.group).delivery_count_limit;
        let mut freed = Vec::new();
        for key in keys {
            let release = |partition: &mut SharePartition| {
                let changed = partition.release_member(&session.member, limit);
                (!changed.is_empty(), changed)
            };
            if self.with_partition(&key, effects, release) == Some(true) {
                freed.push((key.1, key.2));
            }
        }
        freed
    }

    /// Ends the sessions of a connection. Returns them.
    pub fn disconnect(&mut self, conn: ConnId) -> Vec<SessionKey> {
        self.sessions.disconnect(conn)
    }

    /// Returns the partitions that a group has read.
    pub fn read_partitions(&self, group: &str) -> impl Iterator<Item = (TopicId, i32)> {
        let of_group = self.partitions.keys().filter(move |key| *key.0 == *group);
        of_group.map(|key| (key.1, key.2))
    }

    /// Lets a group read a partition from an offset on, whatever it has read.
    pub fn reset_partition(&mut self, key: &SharePartitionKey, start: i64, effects: &mut Effects) {
        self.remove_partition(key, effects);
        self.begin_partition(key, effects, || SharePartition::new(start.max(0), UNKNOWN_EPOCH));
    }

    /// Removes the states of a group's records of a topic.
    pub fn forget_offsets(&mut self, group: &str, topic: TopicId, effects: &mut Effects) {
        let of_topic = self.partitions.keys().filter(|key| *key.0 == *group && key.1 == topic);
        let keys: Vec<SharePartitionKey> = of_topic.cloned().collect();
        keys.iter().for_each(|key| self.remove_partition(key, effects));
    }

    /// Removes the states of a topic that was deleted.
    pub fn forget_topic(&mut self, topic: TopicId, effects: &mut Effects) {
        let keys: Vec<SharePartitionKey> = self.partitions.keys().filter(|key| key.1 == topic).cloned().collect();
        keys.iter().for_each(|key| self.remove_partition(key, effects));
    }

    /// Removes the state of a partition, and stores that.
    fn remove_partition(&mut self, key: &SharePartitionKey, effects: &mut Effects) {
        if self.partitions.contains_key(key) {
            self.forget_partition(key);
            let change = ShareGroupChange::PartitionDeleted { topic: key.1, partition: key.2 };
            effects.change(Change::Share(ShareChange { group: Arc::clone(&key.0), change }));
        }
    }

    /// Removes the state of a partition.
    pub(super) fn forget_partition(&mut self, key: &SharePartitionKey) {
        if let Some(ends) = self.partitions.remove(key).and_then(|partition| partition.deadline()) {
            self.locks.remove(&(ends, key.clone()));
        }
    }
}

fn store((group, topic, partition): &SharePartitionKey, start: i64, ranges: Vec<StoredRange>, effects: &mut Effects) {
    let change = ShareGroupChange::Partition { topic: *topic, partition: *partition, start, ranges };
    effects.change(Change::Share(ShareChange { group: Arc::clone(group), change }));
}
