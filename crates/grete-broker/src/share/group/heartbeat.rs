//! Heartbeat of a member of a share group.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::share_group_heartbeat::{Assignment, TopicPartitions};
use grete_wire::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};

use super::assignor::assign;
use super::{LEAVE_EPOCH, ShareGroup, ShareRefusal};
use crate::effects::Effects;
use crate::effects::consumer_group::{Partitions, SubscribedTopics};
use crate::effects::share_group::{ShareGroupChange, ShareMember};
use crate::group::Requester;
use crate::group::consumer::FindTopic;
use crate::ids::Millis;

/// Settings of a group's members.
#[derive(Debug, Clone, Copy)]
pub struct Membership {
    /// Time in milliseconds without a heartbeat after which a member is removed.
    pub session_timeout_ms: i32,
    /// Time in milliseconds between two heartbeats, which members get in each response.
    pub heartbeat_interval_ms: i32,
    /// Largest number of members.
    pub max_size: usize,
}

/// Checks the fields of a heartbeat.
///
/// # Errors
/// `INVALID_REQUEST`: a field is missing, empty or out of range.
pub fn check_heartbeat(request: &ShareGroupHeartbeatRequest<'_>) -> Result<(), ShareRefusal> {
    let invalid = |message: &str| Err(ShareRefusal::new(ErrorCode::INVALID_REQUEST, message));
    if request.member_id.is_empty() {
        return invalid("MemberId is empty: give the member's id.");
    }
    if request.group_id.is_empty() {
        return invalid("GroupId is empty: give the group's id.");
    }
    if request.rack_id.as_deref() == Some("") {
        return invalid("RackId is empty: give a rack, or null.");
    }
    if request.member_epoch < LEAVE_EPOCH {
        return invalid("MemberEpoch is less than -1: give the member's epoch, 0 to join, or -1 to leave.");
    }
    if request.member_epoch == 0 && request.subscribed_topic_names.as_ref().is_none_or(Vec::is_empty) {
        return invalid("SubscribedTopicNames is empty: give the topics when the member joins.");
    }
    Ok(())
}

impl ShareGroup {
    /// Handles a valid heartbeat.
    ///
    /// # Errors
    /// The group does not accept the member.
    pub fn heartbeat(
        &mut self,
        now: Millis,
        requester: &Requester<'_>,
        request: &ShareGroupHeartbeatRequest<'_>,
        membership: &Membership,
        find_topic: FindTopic<'_>,
        effects: &mut Effects,
    ) -> Result<ShareGroupHeartbeatResponse<'static>, ShareRefusal> {
        let member_id: Arc<str> = request.member_id.as_ref().into();
        let known = self.members.get(&member_id).cloned();
        let unknown = || {
            let message = format!("Group {} has no member {member_id}: join again with epoch 0.", self.id);
            ShareRefusal::new(ErrorCode::UNKNOWN_MEMBER_ID, message)
        };
        if request.member_epoch == LEAVE_EPOCH {
            known.ok_or_else(unknown)?;
            self.remove(&member_id, effects);
            return Ok(answer(&member_id, LEAVE_EPOCH, 0, None));
        }
        let before = match known {
            Some(member) if request.member_epoch == 0 => member,
            Some(member) => check_epoch(member, request.member_epoch)?,
            None if request.member_epoch != 0 => return Err(unknown()),
            None if self.members.len() >= membership.max_size => {
                let max = membership.max_size;
                let message = format!("The group has {max} members: see group.share.max.size.");
                return Err(ShareRefusal::new(ErrorCode::GROUP_MAX_SIZE_REACHED, message));
            }
            None => new_member(&member_id),
        };
        let is_new = !self.members.contains_key(&member_id);
        let mut member = before.clone();
        update(&mut member, requester, request);
        let is_changed = is_new || member.topics != before.topics;
        self.members.insert(Arc::clone(&member_id), member.clone());
        let topics = self.subscribed(find_topic);
        if is_changed || topics != self.topics {
            self.topics = topics;
            let epoch = self.epoch.saturating_add(1);
            effects.log.push(format!("share group {}: epoch {epoch} begins, {} members", self.id, self.members.len()));
            self.change(ShareGroupChange::Epoch(epoch), effects);
        }
        if self.target_epoch != self.epoch {
            self.target = assign(&self.members, &self.topics);
            self.target_epoch = self.epoch;
        }
        // Members share partitions, so that a member does not wait for others to give them up.
        member.assigned = self.target.get(&member_id).cloned().unwrap_or_default();
        if member.epoch != self.target_epoch {
            (member.previous_epoch, member.epoch) = (member.epoch, self.target_epoch);
        }
        if is_new || member != before {
            self.change(ShareGroupChange::Member(member.clone()), effects);
        }
        self.sessions.insert(Arc::clone(&member_id), now + Millis::from(membership.session_timeout_ms));
        let is_sent = request.subscribed_topic_names.is_some() || member.assigned != before.assigned;
        let assigned = is_sent.then_some(&member.assigned);
        Ok(answer(&member_id, member.epoch, membership.heartbeat_interval_ms, assigned))
    }

    /// Returns the topics that members subscribe to and that exist.
    fn subscribed(&self, find_topic: FindTopic<'_>) -> SubscribedTopics {
        let names: BTreeSet<&Arc<str>> = self.members.values().flat_map(|member| &member.topics).collect();
        let found = names.into_iter().filter_map(|name| Some((Arc::clone(name), find_topic(name)?)));
        found.collect()
    }
}

/// Checks the epoch of a heartbeat. The epoch before is valid, too: the response with the new one may be lost.
fn check_epoch(member: ShareMember, sent: i32) -> Result<ShareMember, ShareRefusal> {
    if sent == member.epoch || sent < member.epoch && sent == member.previous_epoch {
        return Ok(member);
    }
    let message = format!("The member sent epoch {sent}, and its epoch is {}: join again with epoch 0.", member.epoch);
    Err(ShareRefusal::new(ErrorCode::FENCED_MEMBER_EPOCH, message))
}

fn new_member(member_id: &Arc<str>) -> ShareMember {
    ShareMember {
        member_id: Arc::clone(member_id),
        rack_id: None,
        client_id: Arc::from(""),
        client_host: Arc::from(""),
        topics: BTreeSet::new(),
        epoch: 0,
        previous_epoch: 0,
        assigned: Partitions::new(),
    }
}

/// Takes over what a heartbeat says of its member. Null fields change nothing.
fn update(member: &mut ShareMember, requester: &Requester<'_>, request: &ShareGroupHeartbeatRequest<'_>) {
    (member.client_id, member.client_host) = (requester.client_id.into(), requester.client_host.into());
    if let Some(rack_id) = request.rack_id.as_deref() {
        member.rack_id = Some(rack_id.into());
    }
    if let Some(topics) = &request.subscribed_topic_names {
        member.topics = topics.iter().map(|topic| Arc::from(topic.as_ref())).collect();
    }
}

fn answer(
    member_id: &str,
    member_epoch: i32,
    heartbeat_interval_ms: i32,
    assigned: Option<&Partitions>,
) -> ShareGroupHeartbeatResponse<'static> {
    let assignment = assigned.map(|assigned| {
        let topic = |(topic_id, partitions): (&u128, &BTreeSet<i32>)| TopicPartitions {
            topic_id: *topic_id,
            partitions: partitions.iter().copied().collect(),
        };
        Assignment { topic_partitions: assigned.iter().map(topic).collect() }
    });
    ShareGroupHeartbeatResponse {
        member_id: Some(Cow::Owned(member_id.to_owned())),
        member_epoch,
        heartbeat_interval_ms,
        assignment,
        ..ShareGroupHeartbeatResponse::default()
    }
}
