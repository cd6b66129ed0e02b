//! Refusal of a heartbeat: an error code and what is wrong.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::ShareGroupHeartbeatResponse;

/// Error of a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareRefusal {
    /// Error code.
    pub code: ErrorCode,
    /// Text with what is wrong, then the cure.
    pub message: String,
}

impl ShareRefusal {
    /// Creates a refusal.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Returns the response.
    #[must_use]
    pub fn into_response(self) -> ShareGroupHeartbeatResponse<'static> {
        ShareGroupHeartbeatResponse {
            error_code: self.code.0,
            error_message: Some(Cow::Owned(self.message)),
            ..ShareGroupHeartbeatResponse::default()
        }
    }
}
