//! ShareGroupHeartbeat and ShareGroupDescribe.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::share_group_describe::{Assignment, DescribedGroup, Member, TopicPartitions};
use grete_wire::messages::{ShareGroupDescribeRequest, ShareGroupDescribeResponse, ShareGroupHeartbeatRequest};

use crate::cluster::{Cluster, RequestContext};
use crate::effects::share_group::ShareMember;
use crate::group::Requester;
use crate::group::api::AUTHORIZED_OPERATIONS;
use crate::message::{Request, Response};
use crate::share::group::{ShareGroup, ShareRefusal};

/// Name of the only assignor.
const ASSIGNOR: &str = "simple";

impl Cluster {
    /// Returns the error of a broker that does not coordinate a group.
    pub(super) fn share_coordinator_error(&self, context: &RequestContext, group: &str) -> Option<ErrorCode> {
        (self.coordinator(group) != Some(context.broker)).then_some(ErrorCode::NOT_COORDINATOR)
    }

    pub(super) fn share_group_heartbeat(&mut self, context: &RequestContext, request: &ShareGroupHeartbeatRequest<'_>) {
        let group = &*request.group_id;
        if let Some(error) = self.share_coordinator_error(context, group) {
            return self.refuse(context, &Request::ShareGroupHeartbeat(request.clone()), error);
        }
        let requester = Requester {
            request: context.id,
            version: context.version,
            client_id: &context.client_id,
            client_host: &context.client_host,
        };
        let result = if self.groups.contains(group) {
            let message = format!("Group {group} is not a share group.");
            Err(ShareRefusal::new(ErrorCode::GROUP_ID_NOT_FOUND, message))
        } else {
            let find_topic = |name: &str| {
                let topic = self.topics.get(name)?;
                Some((topic.id, i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX)))
            };
            self.share.heartbeat(self.now, &requester, request, &find_topic, &mut self.effects)
        };
        let response = result.unwrap_or_else(ShareRefusal::into_response);
        self.reply(context, Response::ShareGroupHeartbeat(response));
    }

    pub(super) fn share_group_describe(&mut self, context: &RequestContext, request: &ShareGroupDescribeRequest<'_>) {
        let describe = |id: &Cow<'_, str>| {
            if let Some(error) = self.share_coordinator_error(context, id) {
                return describe_error(id, error, None);
            }
            let Some(group) = self.share.group(id) else {
                let message = format!("Group {id} not found.");
                return describe_error(id, ErrorCode::GROUP_ID_NOT_FOUND, Some(message));
            };
            let mut described = self.described_share_group(id, group);
            if request.include_authorized_operations {
                described.authorized_operations = AUTHORIZED_OPERATIONS;
            }
            described
        };
        let groups = request.group_ids.iter().map(describe).collect();
        let response = ShareGroupDescribeResponse { groups, ..ShareGroupDescribeResponse::default() };
        self.reply(context, Response::ShareGroupDescribe(response));
    }

    fn described_share_group(&self, id: &str, group: &ShareGroup) -> DescribedGroup<'static> {
        let owned = |text: &Arc<str>| Cow::<'static, str>::Owned(text.to_string());
        let member = |member: &ShareMember| {
            let topic = |(topic_id, partitions): (&u128, &std::collections::BTreeSet<i32>)| {
                let topic_name = owned(&self.topics.by_id(*topic_id)?.name);
                Some(TopicPartitions {
                    topic_id: *topic_id,
                    topic_name,
                    partitions: partitions.iter().copied().collect(),
                })
            };
            Member {
                member_id: owned(&member.member_id),
                rack_id: member.rack_id.as_ref().map(owned),
                member_epoch: member.epoch,
                client_id: owned(&member.client_id),
                client_host: Cow::Owned(format!("/{}", member.client_host)),
                subscribed_topic_names: member.topics.iter().map(owned).collect(),
                assignment: Assignment { topic_partitions: member.assigned.iter().filter_map(topic).collect() },
            }
        };
        let (group_epoch, assignment_epoch) = group.epochs();
        DescribedGroup {
            group_id: Cow::Owned(id.to_owned()),
            group_state: Cow::Borrowed(group.state()),
            group_epoch,
            assignment_epoch,
            assignor_name: Cow::Borrowed(ASSIGNOR),
            members: group.members().map(member).collect(),
            ..DescribedGroup::default()
        }
    }
}

/// Builds the response for a group that cannot be described.
pub(super) fn describe_error(id: &str, error: ErrorCode, message: Option<String>) -> DescribedGroup<'static> {
    DescribedGroup {
        group_id: Cow::Owned(id.to_owned()),
        error_code: error.0,
        error_message: message.map(Cow::Owned),
        ..DescribedGroup::default()
    }
}
