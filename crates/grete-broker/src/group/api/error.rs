//! Responses to requests that a broker refuses as a whole.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::offset_commit::OffsetCommitResponseTopic;
use grete_wire::messages::{
    ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatResponse, DeleteGroupsResponse, DescribeGroupsResponse,
    HeartbeatResponse, LeaveGroupResponse, ListGroupsResponse, OffsetCommitRequest, OffsetCommitResponse,
    OffsetDeleteResponse, OffsetFetchRequest, OffsetFetchResponse, SyncGroupResponse,
};

use super::admin::{deletion, describe_error};
use super::commit::answer;
use super::consumer::consumer_describe_error;
use super::fetch::{group_error, single_error};
use crate::group::context::join_error;
use crate::message::{Request, Response};

/// Builds the response to a request about groups that fails as a whole, for example with `NOT_COORDINATOR`. `None`: the
/// request is not about groups.
#[must_use]
pub fn error_response(version: i16, request: &Request<'_>, code: ErrorCode) -> Option<Response> {
    let error_code = code.0;
    Some(match request {
        Request::JoinGroup(request) => Response::JoinGroup(join_error(version, &request.member_id, code)),
        Request::SyncGroup(_) => Response::SyncGroup(SyncGroupResponse { error_code, ..SyncGroupResponse::default() }),
        Request::Heartbeat(_) => Response::Heartbeat(HeartbeatResponse { error_code, ..HeartbeatResponse::default() }),
        Request::LeaveGroup(_) => {
            Response::LeaveGroup(LeaveGroupResponse { error_code, ..LeaveGroupResponse::default() })
        }
        Request::OffsetCommit(request) => Response::OffsetCommit(commit_error(request, code)),
        Request::OffsetFetch(request) => Response::OffsetFetch(fetch_error(version, request, code)),
        Request::OffsetDelete(_) => {
            Response::OffsetDelete(OffsetDeleteResponse { error_code, ..OffsetDeleteResponse::default() })
        }
        Request::ListGroups(_) => {
            Response::ListGroups(ListGroupsResponse { error_code, ..ListGroupsResponse::default() })
        }
        Request::DescribeGroups(request) => {
            let groups = request.groups.iter().map(|group| describe_error(group, code)).collect();
            Response::DescribeGroups(DescribeGroupsResponse { groups, ..DescribeGroupsResponse::default() })
        }
        Request::ConsumerGroupHeartbeat(_) => Response::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatResponse {
            error_code,
            ..ConsumerGroupHeartbeatResponse::default()
        }),
        Request::ConsumerGroupDescribe(request) => {
            let groups = request.group_ids.iter().map(|group| consumer_describe_error(group, code, None)).collect();
            Response::ConsumerGroupDescribe(ConsumerGroupDescribeResponse {
                groups,
                ..ConsumerGroupDescribeResponse::default()
            })
        }
        Request::DeleteGroups(request) => {
            let results = request.groups_names.iter().map(|group| deletion(group, code)).collect();
            Response::DeleteGroups(DeleteGroupsResponse { results, ..DeleteGroupsResponse::default() })
        }
        _ => return None,
    })
}

fn commit_error(request: &OffsetCommitRequest<'_>, code: ErrorCode) -> OffsetCommitResponse<'static> {
    let topics = request.topics.iter().map(|topic| OffsetCommitResponseTopic {
        name: Cow::Owned(topic.name.to_string()),
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(|partition| answer(partition, code)).collect(),
    });
    OffsetCommitResponse { topics: topics.collect(), ..OffsetCommitResponse::default() }
}

fn fetch_error(version: i16, request: &OffsetFetchRequest<'_>, code: ErrorCode) -> OffsetFetchResponse<'static> {
    if request.groups.is_empty() {
        return single_error(version, request, code);
    }
    let groups = request.groups.iter().map(|group| group_error(&group.group_id, code)).collect();
    OffsetFetchResponse { groups, ..OffsetFetchResponse::default() }
}
