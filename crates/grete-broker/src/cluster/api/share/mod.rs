//! APIs of share groups (KIP-932).

mod acknowledge;
mod acquire;
mod fetch;
mod groups;
mod offsets;
mod refusal;
mod waiting;

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{share_acknowledge, share_fetch};

pub(in crate::cluster) use self::refusal::error_response;
pub(in crate::cluster) use self::waiting::WaitingShareFetch;
use crate::cluster::{Cluster, RequestContext};
use crate::ids::{BrokerId, TopicId};
use crate::message::Request;
use crate::share::SharePartitionKey;
use crate::share::session::SessionKey;

/// Acknowledgements of a partition in a request: first offset, last offset, types.
type AckEntry<'a> = (i64, i64, &'a [i8]);

/// Result of the acknowledgements of partitions, in the order of the request.
type AckResults = Vec<((TopicId, i32), Result<(), AckFailure>)>;

/// Refusal of a partition's acknowledgements. As in Kafka, those that have no valid form have no text.
#[derive(Debug, Clone, Copy)]
struct AckFailure {
    code: ErrorCode,
    has_text: bool,
}

impl AckFailure {
    fn text(self) -> Option<Cow<'static, str>> {
        self.has_text.then(|| Cow::Borrowed(self.code.message()))
    }
}

impl From<ErrorCode> for AckFailure {
    fn from(code: ErrorCode) -> Self {
        Self { code, has_text: true }
    }
}

impl Cluster {
    pub(in crate::cluster) fn handle_share_request(&mut self, context: &RequestContext, request: Request<'_>) {
        match &request {
            Request::ShareGroupHeartbeat(request) => self.share_group_heartbeat(context, request),
            Request::ShareGroupDescribe(request) => self.share_group_describe(context, request),
            Request::ShareFetch(request) => self.share_fetch(context, request),
            Request::ShareAcknowledge(request) => self.share_acknowledge(context, request),
            Request::DescribeShareGroupOffsets(request) => self.describe_share_group_offsets(context, request),
            Request::AlterShareGroupOffsets(request) => self.alter_share_group_offsets(context, request),
            Request::DeleteShareGroupOffsets(request) => self.delete_share_group_offsets(context, request),
            _ => self.effects.no_reply(context.id),
        }
    }

    /// Returns the key of the session of a request's member at this broker.
    ///
    /// # Errors
    /// `INVALID_REQUEST`: the group or the member is missing.
    fn session_key(
        &self,
        context: &RequestContext,
        group: Option<&str>,
        member: Option<&str>,
    ) -> Result<SessionKey, ErrorCode> {
        match (group, member) {
            (Some(group), Some(member)) if !group.is_empty() && !member.is_empty() => {
                Ok(SessionKey { broker: context.broker, group: group.into(), member: member.into() })
            }
            _ => Err(ErrorCode::INVALID_REQUEST),
        }
    }

    /// Returns the leader epoch and the log start offset of a partition that the client may read here.
    ///
    /// # Errors
    /// The partition does not exist, the client may not read the topic, or another broker leads the partition.
    fn readable(&self, context: &RequestContext, topic: TopicId, partition: i32) -> Result<(i32, i64), ErrorCode> {
        let found = self.topics.by_id(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?;
        if !self.may(context, crate::acl::Operation::Read, crate::acl::ResourceType::Topic, &found.name) {
            return Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
        }
        if let Some(error) = self.partition_fault(&found.name, partition) {
            return Err(error);
        }
        let led = found.partition(partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        self.check_leader(context, led, -1)?;
        Ok((led.leader_epoch, led.log.log_start_offset()))
    }

    /// Returns leader and leader epoch of a partition, for a client that asked another broker; -1 and -1: unknown.
    fn leader_of(&self, topic: TopicId, partition: i32) -> (BrokerId, i32) {
        let found = self.topics.by_id(topic).and_then(|topic| topic.partition(partition));
        found.map_or((-1, -1), |found| (found.leader.unwrap_or(-1), found.leader_epoch))
    }

    fn fetch_endpoints(&self, leaders: impl IntoIterator<Item = BrokerId>) -> Vec<share_fetch::NodeEndpoint<'static>> {
        let endpoint = |id: BrokerId| {
            self.live_broker(id).map(|broker| share_fetch::NodeEndpoint {
                node_id: id,
                host: Cow::Owned(broker.host.to_string()),
                port: broker.port.into(),
                rack: Self::rack_of(broker).map(Cow::Owned),
            })
        };
        leaders.into_iter().filter_map(endpoint).collect()
    }

    fn acknowledge_endpoints(
        &self,
        leaders: impl IntoIterator<Item = BrokerId>,
    ) -> Vec<share_acknowledge::NodeEndpoint<'static>> {
        let endpoint = |found: share_fetch::NodeEndpoint<'static>| share_acknowledge::NodeEndpoint {
            node_id: found.node_id,
            host: found.host,
            port: found.port,
            rack: found.rack,
        };
        self.fetch_endpoints(leaders).into_iter().map(endpoint).collect()
    }

    fn partition_key(session: &SessionKey, topic: TopicId, partition: i32) -> SharePartitionKey {
        (Arc::clone(&session.group), topic, partition)
    }
}
