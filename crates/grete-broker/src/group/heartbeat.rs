//! ConsumerGroupHeartbeat: finds or makes the group of the consumer protocol, which handles the heartbeat.

use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::consumer::{ConsumerGroup, FindTopic, Refusal, check_heartbeat};
use super::state::Group;
use super::{GroupCoordinator, Requester};
use crate::effects::Effects;
use crate::ids::Millis;

type Response = ConsumerGroupHeartbeatResponse<'static>;

impl GroupCoordinator {
    /// Handles ConsumerGroupHeartbeat.
    ///
    /// # Errors
    /// The request is not valid, or the group does not accept the member.
    pub fn consumer_heartbeat(
        &mut self,
        now: Millis,
        requester: &Requester<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        find_topic: FindTopic<'_>,
        effects: &mut Effects,
    ) -> Result<Response, Refusal> {
        check_heartbeat(requester.version, request, &self.config.consumer.assignors)?;
        let group = request.group_id.as_ref();
        self.prepare_consumer_group(now, group, request.member_epoch == 0)?;
        let handled = self.with_group(now, group, effects, |group, ids, ctx| {
            let (id, has_records) = (Arc::clone(&group.id), group.has_records);
            let Some(consumer) = group.begin_consumer() else { return Err(not_consumer(&id)) };
            let member_id = match request.member_id.as_ref() {
                "" => ids.next_uuid(),
                id => Arc::from(id),
            };
            let response = consumer.heartbeat(ctx, requester, request, &member_id, find_topic);
            group.has_records = has_records || response.is_ok();
            response
        });
        handled.unwrap_or_else(|| Err(not_found(group)))
    }

    /// Creates the group of a member that joins, if there is none.
    fn prepare_consumer_group(&mut self, now: Millis, group: &str, joins: bool) -> Result<(), Refusal> {
        let Some(found) = self.groups.get(group) else {
            if !joins {
                return Err(not_found(group));
            }
            self.create(now, group);
            return Ok(());
        };
        if found.consumer.is_some() || joins && found.has_no_members() {
            return Ok(());
        }
        if !joins {
            return Err(not_consumer(group));
        }
        let message = format!(
            "Group {group} has members of the classic protocol, and these brokers do not convert it: stop those members \
             first, or join with group.protocol=classic."
        );
        Err(Refusal::new(ErrorCode::GROUP_ID_NOT_FOUND, message))
    }
}

fn not_found(group: &str) -> Refusal {
    Refusal::new(ErrorCode::GROUP_ID_NOT_FOUND, format!("Group {group} does not exist: join it with epoch 0."))
}

fn not_consumer(group: &str) -> Refusal {
    Refusal::new(ErrorCode::GROUP_ID_NOT_FOUND, format!("Group {group} is of the classic protocol."))
}

impl Group {
    /// Makes the group one of the consumer protocol, if it has no members of the classic one. `None`: it has some.
    fn begin_consumer(&mut self) -> Option<&mut ConsumerGroup> {
        if self.consumer.is_none() {
            if !self.has_no_members() {
                return None;
            }
            self.become_consumer();
        }
        self.consumer.as_mut()
    }

    /// Drops the membership of the classic protocol, and keeps the offsets.
    pub(in crate::group) fn become_consumer(&mut self) -> &mut ConsumerGroup {
        let offsets = std::mem::take(&mut self.offsets);
        let (has_records, created_after) = (self.has_records, self.created_after);
        let empty = Self::new(Arc::clone(&self.id), self.state_since);
        *self = Self { offsets, has_records, created_after, ..empty };
        let id = Arc::clone(&self.id);
        self.consumer.insert(ConsumerGroup::new(id))
    }
}
