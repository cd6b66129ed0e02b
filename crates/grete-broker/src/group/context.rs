//! Context of an event: time, configuration, and the responses and changes that the event causes.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{JoinGroupResponse, SyncGroupResponse};

use super::config::GroupConfig;
use super::member::Parked;
use crate::effects::group::GroupChange;
use crate::effects::{Change, Effects};
use crate::ids::Millis;
use crate::message::Response;

/// First version of JoinGroup whose response has a protocol type, and whose protocol name may be null.
const FIRST_VERSION_WITH_NULL_PROTOCOL: i16 = 7;

/// Context of an event of a group.
pub(super) struct Context<'a> {
    pub(super) now: Millis,
    pub(super) config: &'a GroupConfig,
    pub(super) effects: &'a mut Effects,
}

impl Context<'_> {
    /// Stores a change.
    pub(super) fn change(&mut self, change: GroupChange) {
        self.effects.change(Change::Group(change));
    }

    /// Answers JoinGroup.
    pub(super) fn reply_join(&mut self, to: Parked, response: JoinGroupResponse<'static>) {
        self.effects.reply(to.request, Response::JoinGroup(response));
    }

    /// Answers JoinGroup with an error. `member_id`: the id that the client may use from now on, or an empty string.
    pub(super) fn refuse_join(&mut self, to: Parked, member_id: &str, code: ErrorCode) {
        self.reply_join(to, join_error(to.version, member_id, code));
    }

    /// Answers SyncGroup.
    pub(super) fn reply_sync(&mut self, to: Parked, response: SyncGroupResponse<'static>) {
        self.effects.reply(to.request, Response::SyncGroup(response));
    }

    /// Answers SyncGroup with an error.
    pub(super) fn refuse_sync(&mut self, to: Parked, code: ErrorCode) {
        self.reply_sync(to, SyncGroupResponse { error_code: code.0, ..SyncGroupResponse::default() });
    }
}

/// Builds the response to a JoinGroup that is refused.
pub(super) fn join_error(version: i16, member_id: &str, code: ErrorCode) -> JoinGroupResponse<'static> {
    JoinGroupResponse {
        error_code: code.0,
        protocol_name: (version < FIRST_VERSION_WITH_NULL_PROTOCOL).then_some(Cow::Borrowed("")),
        member_id: Cow::Owned(member_id.to_owned()),
        ..JoinGroupResponse::default()
    }
}

/// Copies a shared string into a response.
pub(super) fn text(value: &Arc<str>) -> Cow<'static, str> {
    Cow::Owned(String::from(&**value))
}

/// Copies a shared string into a response. `None`: null.
pub(super) fn optional_text(value: Option<&Arc<str>>) -> Option<Cow<'static, str>> {
    value.map(text)
}
