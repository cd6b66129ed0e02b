//! Responses to requests of share groups that a broker refuses as a whole.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::{
    AlterShareGroupOffsetsResponse, DeleteShareGroupOffsetsResponse, DescribeShareGroupOffsetsResponse,
    ShareAcknowledgeResponse, ShareFetchResponse, ShareGroupDescribeResponse, ShareGroupHeartbeatResponse,
};

use super::groups::describe_error;
use super::offsets::offsets_error;
use crate::message::{Request, Response};

/// Builds the response to a request of a share group that fails as a whole. `None`: the request is not of a share group.
#[must_use]
pub(in crate::cluster) fn error_response(request: &Request<'_>, error: ErrorCode) -> Option<Response> {
    let error_code = error.0;
    let error_message = Some(Cow::Borrowed(error.message()));
    Some(match request {
        Request::ShareGroupHeartbeat(_) => Response::ShareGroupHeartbeat(ShareGroupHeartbeatResponse {
            error_code,
            error_message,
            ..ShareGroupHeartbeatResponse::default()
        }),
        Request::ShareGroupDescribe(request) => {
            let groups = request.group_ids.iter().map(|id| describe_error(id, error, None)).collect();
            Response::ShareGroupDescribe(ShareGroupDescribeResponse { groups, ..Default::default() })
        }
        Request::ShareFetch(_) => {
            Response::ShareFetch(ShareFetchResponse { error_code, ..ShareFetchResponse::default() })
        }
        Request::ShareAcknowledge(_) => {
            Response::ShareAcknowledge(ShareAcknowledgeResponse { error_code, ..ShareAcknowledgeResponse::default() })
        }
        Request::DescribeShareGroupOffsets(request) => {
            let groups = request.groups.iter().map(|group| offsets_error(&group.group_id, error)).collect();
            let response = DescribeShareGroupOffsetsResponse { groups, ..Default::default() };
            Response::DescribeShareGroupOffsets(response)
        }
        Request::AlterShareGroupOffsets(_) => Response::AlterShareGroupOffsets(AlterShareGroupOffsetsResponse {
            error_code,
            error_message,
            ..AlterShareGroupOffsetsResponse::default()
        }),
        Request::DeleteShareGroupOffsets(_) => Response::DeleteShareGroupOffsets(DeleteShareGroupOffsetsResponse {
            error_code,
            error_message,
            ..DeleteShareGroupOffsetsResponse::default()
        }),
        _ => return None,
    })
}
