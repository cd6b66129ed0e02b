//! APIs of groups: the coordinator answers, after a check that this broker is the group's coordinator.

use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::delete_groups::DeletableGroupResult;
use grete_wire::messages::list_groups::ListedGroup;

use crate::cluster::config::BrokerAddress;
use crate::cluster::placement::coordinator_of;
use crate::cluster::{Cluster, RequestContext};
use crate::group::Requester;
use crate::group::api::{
    Lookup, commit_offsets, consumer_heartbeat, delete_groups, delete_offsets, describe_consumer_groups,
    describe_groups, fetch_offsets, list_groups,
};
use crate::group::consumer::Refusal;
use crate::ids::{BrokerId, TopicId};
use crate::message::{Request, Response};
use crate::topics::Topics;

/// Level of `group.version` that allows the consumer protocol (KIP-848).
const CONSUMER_PROTOCOL_VERSION: i16 = 1;

/// Topics and coordinators, from the broker that answers.
struct View<'a> {
    broker: BrokerId,
    topics: &'a Topics,
    brokers: &'a [BrokerAddress],
    live: &'a BTreeSet<BrokerId>,
    coordinator_shift: usize,
}

impl Lookup for View<'_> {
    fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.topics.get(name).map(|topic| topic.id)
    }

    fn topic_name(&self, id: TopicId) -> Option<Arc<str>> {
        self.topics.by_id(id).map(|topic| Arc::clone(&topic.name))
    }

    fn partition_count(&self, topic: TopicId) -> i32 {
        let count = self.topics.by_id(topic).map_or(0, |topic| topic.partitions.len());
        i32::try_from(count).unwrap_or(i32::MAX)
    }

    fn has_partition(&self, topic: &str, partition: i32) -> bool {
        self.topics.get(topic).is_some_and(|topic| topic.partition(partition).is_some())
    }

    fn coordinator_error(&self, group: &str) -> Option<ErrorCode> {
        let coordinator = coordinator_of(group, self.brokers, self.live, self.coordinator_shift);
        (coordinator != Some(self.broker)).then_some(ErrorCode::NOT_COORDINATOR)
    }
}

impl Cluster {
    pub(in crate::cluster) fn handle_group_request(&mut self, context: &RequestContext, request: Request<'_>) {
        let share_error = self.refusal_of_share_group(&request);
        let view = View {
            broker: context.broker,
            topics: &self.topics,
            brokers: &self.config.brokers,
            live: &self.live,
            coordinator_shift: self.coordinator_shift,
        };
        let (now, version, groups, effects) = (self.now, context.version, &mut self.groups, &mut self.effects);
        let group = match &request {
            Request::JoinGroup(request) => Some(&*request.group_id),
            Request::SyncGroup(request) => Some(&*request.group_id),
            Request::Heartbeat(request) => Some(&*request.group_id),
            Request::LeaveGroup(request) => Some(&*request.group_id),
            Request::ConsumerGroupHeartbeat(request) => Some(&*request.group_id),
            _ => None,
        };
        let is_of_consumer_protocol =
            matches!(request, Request::ConsumerGroupHeartbeat(_) | Request::ConsumerGroupDescribe(_));
        if is_of_consumer_protocol && self.config.release.group_version() < CONSUMER_PROTOCOL_VERSION {
            return self.refuse(context, &request, ErrorCode::UNSUPPORTED_VERSION);
        }
        if let Some(error) = group.and_then(|group| view.coordinator_error(group)) {
            return self.refuse(context, &request, error);
        }
        if let Some(error) = share_error {
            if let Request::ConsumerGroupHeartbeat(request) = &request {
                let message = format!("Group {} is not a consumer group.", request.group_id);
                let response = Refusal { code: error, message }.into_response();
                return self.reply(context, Response::ConsumerGroupHeartbeat(response));
            }
            return self.refuse(context, &request, error);
        }
        let requester = Requester {
            request: context.id,
            version,
            client_id: &context.client_id,
            client_host: &context.client_host,
        };
        let response = match &request {
            Request::JoinGroup(request) => return groups.join(now, &requester, request, effects),
            Request::SyncGroup(request) => return groups.sync(now, &requester, request, effects),
            Request::Heartbeat(request) => return groups.heartbeat(now, &requester, request, effects),
            Request::LeaveGroup(request) => return groups.leave(now, &requester, request, effects),
            Request::ConsumerGroupHeartbeat(request) => {
                let response = consumer_heartbeat(groups, now, &requester, request, &view, effects);
                Response::ConsumerGroupHeartbeat(response)
            }
            Request::ConsumerGroupDescribe(request) => {
                Response::ConsumerGroupDescribe(describe_consumer_groups(groups, request, &view))
            }
            Request::OffsetCommit(request) => {
                Response::OffsetCommit(commit_offsets(groups, now, version, request, &view, effects))
            }
            Request::OffsetFetch(request) => Response::OffsetFetch(fetch_offsets(groups, version, request, &view)),
            Request::OffsetDelete(request) => Response::OffsetDelete(delete_offsets(groups, request, &view, effects)),
            Request::ListGroups(request) => {
                let mut response = list_groups(groups, request, &view);
                let listed = self.share.list(&request.states_filter, &request.types_filter);
                let coordinated = |group: &ListedGroup<'_>| view.coordinator_error(&group.group_id).is_none();
                response.groups.extend(listed.into_iter().filter(coordinated));
                Response::ListGroups(response)
            }
            Request::DescribeGroups(request) => {
                Response::DescribeGroups(describe_groups(groups, version, request, &view))
            }
            Request::DeleteGroups(request) => {
                let mut response = delete_groups(groups, request, &view, effects);
                let missing = |result: &&mut DeletableGroupResult<'_>| {
                    ErrorCode(result.error_code) == ErrorCode::GROUP_ID_NOT_FOUND
                };
                for result in response.results.iter_mut().filter(missing) {
                    let deleted = self.share.delete_group(&result.group_id, effects);
                    result.error_code = deleted.err().unwrap_or(ErrorCode::NONE).0;
                }
                Response::DeleteGroups(response)
            }
            _ => return,
        };
        self.reply(context, response);
    }

    /// Returns the error of a request of another protocol to a share group.
    fn refusal_of_share_group(&self, request: &Request<'_>) -> Option<ErrorCode> {
        let (group, error) = match request {
            Request::JoinGroup(request) => (&request.group_id, ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
            Request::ConsumerGroupHeartbeat(request) => (&request.group_id, ErrorCode::GROUP_ID_NOT_FOUND),
            Request::OffsetCommit(request) => (&request.group_id, ErrorCode::GROUP_ID_NOT_FOUND),
            _ => return None,
        };
        self.share.group(group).map(|_| error)
    }
}
