//! State of a group: offsets, and the members, generation and timers of the classic protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use grete_wire::messages::{ConsumerProtocolSubscription, JoinGroupRequestProtocol};
use grete_wire::{ErrorCode, Reader};

use super::consumer::ConsumerGroup;
use super::member::Member;
use super::offset_store::OffsetStore;
use crate::effects::group::GroupMetadata;
use crate::ids::Millis;

/// Protocol type of consumers.
pub(super) const CONSUMER_PROTOCOL: &str = "consumer";

/// State of a group. A deleted group, which Kafka calls `Dead`, no longer exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupState {
    /// No members; maybe offsets.
    Empty,
    /// The members are joining.
    PreparingRebalance,
    /// All members have joined; the leader is computing the assignment.
    CompletingRebalance,
    /// All members have their assignments, or can get them.
    Stable,
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Timer of the joining members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JoinTimer {
    pub(super) at: Millis,
    /// Delay of the first rebalance, which new members extend. `None`: the rebalance timeout.
    pub(super) initial: Option<InitialDelay>,
}

/// Delay of the first rebalance of an empty group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InitialDelay {
    /// Length of the current delay, in milliseconds.
    pub(super) delay_ms: i64,
    /// Rest of the rebalance timeout after the current delay, in milliseconds.
    pub(super) remaining_ms: i64,
}

/// Group of the classic protocol, unless `consumer` says otherwise.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: Arc<str>,
    pub(super) state: GroupState,
    /// State before the current one. `None`: the group is new or loaded.
    pub(super) previous: Option<GroupState>,
    pub(super) state_since: Millis,
    /// Generation id. 0: no generation has been complete.
    pub(super) generation: i32,
    /// Protocol type of the first member. `None`: a simple group, which only has offsets.
    pub(super) protocol_type: Option<Arc<str>>,
    pub(super) protocol: Option<Arc<str>>,
    pub(super) leader: Option<Arc<str>>,
    pub(super) members: BTreeMap<Arc<str>, Member>,
    /// Member ids by `group.instance.id`.
    pub(super) statics: BTreeMap<Arc<str>, Arc<str>>,
    /// Member ids that were assigned but not used yet (KIP-394), with their expiry.
    pub(super) pending: BTreeMap<Arc<str>, Millis>,
    /// Members of the current generation that have not sent SyncGroup yet.
    pub(super) pending_sync: BTreeSet<Arc<str>>,
    /// Topics of all members. `None`: unknown.
    pub(super) subscribed: Option<BTreeSet<String>>,
    /// Whether a member joined during the delay of the first rebalance.
    pub(super) new_member_added: bool,
    pub(super) join_timer: Option<JoinTimer>,
    /// Time until which all members must send SyncGroup.
    pub(super) sync_timer: Option<Millis>,
    pub(super) offsets: OffsetStore,
    /// Whether anything of the group was ever stored. A group whose first commit was refused is in memory only.
    pub(super) has_records: bool,
    /// Number of records in the group's partition when the group was created.
    pub(super) created_after: u64,
    /// Metadata that a restarted coordinator loads. `None`: nothing was stored.
    pub(super) stored: Option<GroupMetadata>,
    /// Membership of the consumer protocol. `None`: the group is of the classic protocol. Otherwise the classic state is
    /// that of a group without members.
    pub(super) consumer: Option<ConsumerGroup>,
}

impl Group {
    /// Creates an empty group.
    pub(super) fn new(id: Arc<str>, now: Millis) -> Self {
        Self {
            id,
            state: GroupState::Empty,
            previous: None,
            state_since: now,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            statics: BTreeMap::new(),
            pending: BTreeMap::new(),
            pending_sync: BTreeSet::new(),
            subscribed: None,
            new_member_added: false,
            join_timer: None,
            sync_timer: None,
            offsets: OffsetStore::default(),
            has_records: false,
            created_after: 0,
            stored: None,
            consumer: None,
        }
    }

    /// Returns whether the group has no members, so that it can be deleted, or get members of another protocol.
    pub(super) fn has_no_members(&self) -> bool {
        self.state == GroupState::Empty && self.consumer.as_ref().is_none_or(ConsumerGroup::is_empty)
    }

    /// Returns Kafka's name of the state.
    pub(super) fn state_name(&self) -> String {
        self.consumer.as_ref().map_or_else(|| self.state.to_string(), |consumer| consumer.state().to_owned())
    }

    pub(super) fn transition(&mut self, now: Millis, state: GroupState) {
        self.previous = Some(self.state);
        self.state = state;
        self.state_since = now;
    }

    pub(super) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// Checks the member id and the instance id of a request.
    ///
    /// # Errors
    /// `FENCED_INSTANCE_ID`: another member uses the instance id. `UNKNOWN_MEMBER_ID`: the group has no such member.
    pub(super) fn validate_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.statics.get(instance_id) {
                None => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
                Some(current) if &**current != member_id => return Err(ErrorCode::FENCED_INSTANCE_ID),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(ErrorCode::UNKNOWN_MEMBER_ID) }
    }

    /// Returns whether a member with these protocols can join: all other members support one of them.
    pub(super) fn supports_protocols(&self, protocol_type: &str, protocols: &[JoinGroupRequestProtocol<'_>]) -> bool {
        if self.state == GroupState::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|protocol| self.members.values().all(|member| member.supports(&protocol.name)))
    }

    /// Elects the protocol with the most votes. Each member votes for its preferred one among those that all members
    /// support. `None`: the group is empty.
    pub(super) fn select_protocol(&self) -> Option<Arc<str>> {
        let mut votes: Vec<(&Arc<str>, usize)> = Vec::new();
        for member in self.members.values() {
            let common = |name: &str| self.members.values().all(|other| other.supports(name));
            let Some((name, _)) = member.protocols.iter().find(|(name, _)| common(name)) else { continue };
            match votes.iter_mut().find(|(candidate, _)| *candidate == name) {
                Some((_, count)) => *count += 1,
                None => votes.push((name, 1)),
            }
        }
        // The first one of several with the same number of votes.
        votes.iter().rev().max_by_key(|(_, count)| *count).map(|(name, _)| Arc::clone(name))
    }

    /// Returns whether all members and all assigned member ids have joined.
    pub(super) fn has_all_members_joined(&self) -> bool {
        self.pending.is_empty() && self.members.values().all(|member| member.join.is_some())
    }

    /// Returns the number of members that wait for the response to JoinGroup.
    pub(super) fn awaiting_join(&self) -> usize {
        self.members.values().filter(|member| member.join.is_some()).count()
    }

    /// Returns the longest rebalance timeout of the members, in milliseconds.
    pub(super) fn rebalance_timeout_ms(&self) -> i64 {
        self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0)
    }

    /// Reads the topics of all members from their subscriptions. `None`: another protocol type, or a malformed
    /// subscription.
    pub(super) fn compute_subscribed_topics(&self) -> Option<BTreeSet<String>> {
        if self.protocol_type.as_deref() != Some(CONSUMER_PROTOCOL) {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            let bytes = member.subscription(Some(self.protocol.as_deref()?));
            let mut r = Reader::new(&bytes);
            // All later versions begin with the fields of version 0.
            r.i16().ok()?;
            let subscription = ConsumerProtocolSubscription::decode(0, &mut r).ok()?;
            topics.extend(subscription.topics.into_iter().map(String::from));
        }
        Some(topics)
    }

    /// Returns whether the members may read the topic. Offsets of such topics are neither deleted nor expired.
    pub(super) fn is_subscribed_to(&self, topic: &str) -> bool {
        if let Some(consumer) = &self.consumer {
            return consumer.is_subscribed_to(topic);
        }
        match &self.subscribed {
            Some(topics) => topics.contains(topic),
            None => self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL),
        }
    }

    /// Returns the time of the group's next timer.
    pub(super) fn deadline(&self) -> Option<Millis> {
        let sessions = self.members.values().filter_map(|member| member.expires);
        let timers = self.join_timer.map(|timer| timer.at).into_iter().chain(self.sync_timer);
        let consumer = self.consumer.as_ref().and_then(ConsumerGroup::deadline);
        sessions.chain(self.pending.values().copied()).chain(timers).chain(consumer).min()
    }

    /// Returns the durable state of the group as of now.
    pub(super) fn to_metadata(&self) -> GroupMetadata {
        let protocol = self.protocol.as_deref();
        GroupMetadata {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            generation: self.generation,
            state_since: self.state_since,
            members: self.members.values().map(|member| member.to_metadata(protocol)).collect(),
        }
    }

    /// Replaces the membership by its durable state. Timers do not run yet.
    pub(super) fn load(&mut self, metadata: GroupMetadata) {
        self.consumer = None;
        self.state = if metadata.members.is_empty() { GroupState::Empty } else { GroupState::Stable };
        self.previous = None;
        self.state_since = metadata.state_since;
        self.generation = metadata.generation;
        self.protocol_type.clone_from(&metadata.protocol_type);
        self.protocol.clone_from(&metadata.protocol);
        self.leader.clone_from(&metadata.leader);
        (self.members, self.statics) = (BTreeMap::new(), BTreeMap::new());
        for stored in &metadata.members {
            let member = Member::from_metadata(stored, metadata.protocol.as_ref());
            if let Some(instance_id) = &member.instance_id {
                self.statics.insert(Arc::clone(instance_id), Arc::clone(&member.id));
            }
            self.members.insert(Arc::clone(&member.id), member);
        }
        (self.pending, self.pending_sync) = (BTreeMap::new(), BTreeSet::new());
        (self.new_member_added, self.join_timer, self.sync_timer) = (false, None, None);
        self.subscribed = self.compute_subscribed_topics();
        self.stored = Some(metadata);
    }
}
