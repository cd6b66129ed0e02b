//! Effects of a request: responses to send, and durable changes to store before them.

pub mod consumer_group;
pub mod group;
pub mod share_group;

use serde::{Deserialize, Serialize};

use self::group::GroupChange;
use self::share_group::ShareChange;
use crate::acl::AclChange;
use crate::ids::{RequestId, TopicId};
use crate::log::LogChange;
use crate::message::Response;
use crate::topics::TopicChange;
use crate::transaction::TransactionChange;

/// Change of the durable state. The driver stores the changes of a step before it sends the step's responses, and
/// replays them in the same order after a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// Change of the topics.
    Topic(TopicChange),
    /// Change of a partition's log.
    Log {
        /// Topic.
        topic: TopicId,
        /// Index of the partition.
        partition: i32,
        /// Change.
        change: LogChange,
    },
    /// Change of a group or of its offsets.
    Group(GroupChange),
    /// Change of the transaction coordinator.
    Transaction(TransactionChange),
    /// Change of the ACLs.
    Acl(AclChange),
    /// Change of a share group.
    Share(ShareChange),
}

/// Responses and changes of a step, in order.
#[derive(Debug, Default)]
pub struct Effects {
    /// Responses. Each request gets one at most.
    pub replies: Vec<(RequestId, Response)>,
    /// Requests that end without a response.
    pub unanswered: Vec<RequestId>,
    /// Changes of the durable state.
    pub changes: Vec<Change>,
    /// Lines for the log.
    pub log: Vec<String>,
}

impl Effects {
    /// Answers a request.
    pub fn reply(&mut self, request: RequestId, response: Response) {
        self.replies.push((request, response));
    }

    /// Ends a request that has no response.
    pub fn no_reply(&mut self, request: RequestId) {
        self.unanswered.push(request);
    }

    /// Stores a change.
    pub fn change(&mut self, change: Change) {
        self.changes.push(change);
    }
}

impl Extend<TransactionChange> for Effects {
    fn extend<T: IntoIterator<Item = TransactionChange>>(&mut self, changes: T) {
        self.changes.extend(changes.into_iter().map(Change::Transaction));
    }
}
