//! What an operation has to say of itself: whom it asks about each of its items, what, and how the answer is read.
//!
//! An errand knows nothing of time, retries, leaders or coordinators: that is the task's part, and the same for all.

use std::fmt;
use std::sync::Arc;

use grete_wire::WireError;
use grete_wire::api_key::ApiKey;
use grete_wire::error_code::ErrorCode;

use super::error::AdminError;
use super::operation::AdminReply;
use crate::cluster::Cluster;
use crate::ids::{NodeId, TopicPartition};
use crate::request::{Request, Response};

/// Who answers for an item.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'e> {
    /// Every broker can.
    Any,
    /// The controller. (A KRaft broker passes it on; a controller of ZooKeeper's time that is none any more says so.)
    Controller,
    /// That broker.
    Node(NodeId),
    /// The partition's leader.
    Leader(&'e TopicPartition),
    /// The group's coordinator.
    Coordinator(&'e Arc<str>),
}

/// What an answer says of one item.
#[derive(Debug)]
pub(super) enum Outcome<V> {
    /// That was all.
    Done(V),
    /// A code that is not `NONE`, and the broker's own words where it has any. The task knows which of them pass.
    Code(ErrorCode, Option<String>),
    /// Not as it is waited for; ask again later.
    NotYet(String),
    /// The errand has another question about it, at once.
    GoOn,
}

/// Outcomes by item.
pub(super) type Outcomes<V> = Vec<(usize, Outcome<V>)>;

/// One question about several items, which may be answered by several brokers.
pub(super) trait Errand: fmt::Debug + Send {
    /// What becomes of one item.
    type Value: fmt::Debug + Send;

    /// Which API it uses.
    fn api(&self) -> ApiKey;

    /// How many items there are.
    fn len(&self) -> usize;

    /// Who answers for this one.
    fn place(&self, item: usize) -> Place<'_>;

    /// Names it in errors: "group billing".
    fn subject(&self, item: usize) -> String;

    /// The request about all of `items`; those that do not fit into one request are taken out of the list.
    fn request(&self, items: &mut Vec<usize>, cluster: &Cluster, timeout_ms: i32) -> Request;

    /// Reads what `node` says. Items that are not spoken of are asked about again.
    fn read(
        &mut self,
        items: &[usize],
        node: NodeId,
        response: &Response,
        out: &mut Outcomes<Self::Value>,
    ) -> Result<(), WireError>;

    /// An attempt was not answered, and the next one is refused with this code: whether that says that the first one has
    /// done it (the topic exists, the group is gone).
    fn done_before(&self, _item: usize, _code: ErrorCode) -> Option<Self::Value> {
        None
    }

    /// The answer to the whole.
    fn reply(&self, results: Vec<Result<Self::Value, AdminError>>) -> AdminReply;
}

/// A code and what the broker adds to it, as an outcome; `value` if there is no error.
pub(super) fn outcome<V>(code: i16, message: Option<&str>, value: impl FnOnce() -> V) -> Outcome<V> {
    match ErrorCode(code) {
        ErrorCode::NONE => Outcome::Done(value()),
        code => Outcome::Code(code, message.filter(|message| !message.is_empty()).map(str::to_owned)),
    }
}
