//! Refusal of a heartbeat: an error code and what is wrong.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::ConsumerGroupHeartbeatResponse;

/// Error of a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Error code.
    pub code: ErrorCode,
    /// Text with what is wrong, then the cure.
    pub message: String,
}

impl Refusal {
    pub(in crate::group) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn invalid(message: &str) -> Self {
        Self::new(ErrorCode::INVALID_REQUEST, message)
    }

    /// The epoch of the member is not the one that the coordinator knows.
    pub(super) fn fenced(sent: i32, known: i32) -> Self {
        let message = format!(
            "The member sent epoch {sent}, and its epoch is {known}: give up all partitions and join again with epoch 0."
        );
        Self::new(ErrorCode::FENCED_MEMBER_EPOCH, message)
    }

    pub(super) fn unknown_member(member_id: &str, group: &str) -> Self {
        let message = format!("Group {group} has no member {member_id}: join again with epoch 0.");
        Self::new(ErrorCode::UNKNOWN_MEMBER_ID, message)
    }

    /// Returns the response.
    #[must_use]
    pub fn into_response(self) -> ConsumerGroupHeartbeatResponse<'static> {
        ConsumerGroupHeartbeatResponse {
            error_code: self.code.0,
            error_message: Some(Cow::Owned(self.message)),
            ..ConsumerGroupHeartbeatResponse::default()
        }
    }
}
