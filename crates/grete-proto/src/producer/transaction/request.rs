//! Requests of the transaction manager.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::messages::add_partitions_to_txn::AddPartitionsToTxnTopic;
use grete_wire::messages::txn_offset_commit::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic};
use grete_wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, FindCoordinatorRequest, InitProducerIdRequest,
    TxnOffsetCommitRequest,
};

use super::coordinator::{GROUP_KEY, TRANSACTION_KEY};
use super::event::TransactionAction;
use super::response_class::RequestKind;
use super::{OffsetsCall, Pending, TransactionManager};
use crate::ids::ProducerIdAndEpoch;
use crate::ids::TopicPartition;
use crate::request::{Channel, OutboundRequest, Request, RequestOwner, Target, Token};
use crate::time::MILLI;

/// Last version of EndTxn that keeps the epoch, and of TxnOffsetCommit that does not add the group (KIP-890).
const LAST_EXPLICIT_VERSION: i16 = 4;

impl TransactionManager {
    /// Sends the request, or the lookup of its coordinator.
    pub(super) fn send(&mut self, kind: RequestKind, out: &mut Vec<TransactionAction>) {
        let (kind, target) = match (self.coordinator_of(kind), kind) {
            (Some(node), kind) => (kind, Target::Node(node)),
            (None, RequestKind::CommitOffsets) => (RequestKind::FindGroupCoordinator, Target::Any),
            (None, _) => (RequestKind::FindCoordinator, Target::Any),
        };
        let partitions = match kind {
            RequestKind::AddPartitions => std::mem::take(&mut self.contents.wanted),
            _ => Vec::new(),
        };
        let Some(request) = self.request(kind, &partitions) else { return };
        // From now on, the coordinator may have the transaction.
        self.contents.is_started |=
            matches!(kind, RequestKind::AddPartitions | RequestKind::AddOffsets | RequestKind::CommitOffsets);
        let token = Token { owner: RequestOwner::Transaction, id: self.next_token };
        self.next_token = self.next_token.wrapping_add(1);
        self.pending = Some(Pending { token: token.id, kind, partitions });
        let (channel, timeout) = (Channel::Control, self.request_timeout);
        out.push(TransactionAction::Send(OutboundRequest { target, channel, request, token, timeout }));
    }

    fn request(&self, kind: RequestKind, partitions: &[TopicPartition]) -> Option<Request> {
        let ProducerIdAndEpoch { id: producer_id, epoch: producer_epoch } =
            self.identity.unwrap_or(ProducerIdAndEpoch::NONE);
        let transactional_id = Cow::Owned(self.transactional_id.to_string());
        Some(match kind {
            RequestKind::FindCoordinator => find(TRANSACTION_KEY, self.coordinators.transactional_id()),
            RequestKind::FindGroupCoordinator => find(GROUP_KEY, &self.contents.offsets.front()?.group.group_id),
            // With a known id and epoch, the coordinator only raises the epoch of this producer (KIP-360), and refuses
            // if another one has taken over.
            RequestKind::InitProducerId => Request::from_message(InitProducerIdRequest {
                transactional_id: Some(transactional_id),
                transaction_timeout_ms: i32::try_from(self.timeout / MILLI).unwrap_or(i32::MAX),
                producer_id,
                producer_epoch,
            }),
            RequestKind::AddPartitions => Request::from_message(AddPartitionsToTxnRequest {
                v3_and_below_transactional_id: transactional_id,
                v3_and_below_producer_id: producer_id,
                v3_and_below_producer_epoch: producer_epoch,
                v3_and_below_topics: topics(partitions),
                ..Default::default()
            }),
            RequestKind::AddOffsets => Request::from_message(AddOffsetsToTxnRequest {
                transactional_id,
                producer_id,
                producer_epoch,
                group_id: Cow::Owned(self.contents.offsets.front()?.group.group_id.to_string()),
            }),
            RequestKind::CommitOffsets => {
                let OffsetsCall { group, offsets, .. } = self.contents.offsets.front()?;
                let mut topics: Vec<TxnOffsetCommitRequestTopic<'static>> = Vec::new();
                for offset in offsets {
                    let partition = TxnOffsetCommitRequestPartition {
                        partition_index: offset.tp.partition,
                        committed_offset: offset.position,
                        committed_leader_epoch: offset.leader_epoch,
                        committed_metadata: Some(Cow::Borrowed("")),
                    };
                    match topics.iter_mut().find(|topic| *topic.name == *offset.tp.topic) {
                        Some(topic) => topic.partitions.push(partition),
                        None => topics.push(TxnOffsetCommitRequestTopic {
                            name: Cow::Owned(offset.tp.topic.to_string()),
                            partitions: vec![partition],
                        }),
                    }
                }
                self.versioned(TxnOffsetCommitRequest {
                    transactional_id,
                    group_id: Cow::Owned(group.group_id.to_string()),
                    producer_id,
                    producer_epoch,
                    generation_id: group.generation,
                    member_id: Cow::Owned(group.member_id.to_string()),
                    group_instance_id: group.instance_id.as_ref().map(|id| Cow::Owned(id.to_string())),
                    topics,
                })
            }
            RequestKind::Commit | RequestKind::Abort => self.versioned(EndTxnRequest {
                transactional_id,
                producer_id,
                producer_epoch,
                committed: kind == RequestKind::Commit,
            }),
        })
    }

    /// Wraps a request whose newer versions belong to `transaction.version` 2.
    fn versioned(&self, body: impl crate::request::DynRequest + 'static) -> Request {
        if self.is_explicit() {
            Request::DynUpTo(Arc::new(body), LAST_EXPLICIT_VERSION)
        } else {
            Request::from_message(body)
        }
    }
}

fn find(key_type: i8, key: &str) -> Request {
    let keys = vec![Cow::Owned(key.to_owned())];
    Request::FindCoordinator(FindCoordinatorRequest { key_type, coordinator_keys: keys, ..Default::default() })
}

fn topics(partitions: &[TopicPartition]) -> Vec<AddPartitionsToTxnTopic<'static>> {
    let mut topics: Vec<AddPartitionsToTxnTopic<'static>> = Vec::new();
    for tp in partitions {
        match topics.iter_mut().find(|topic| *topic.name == *tp.topic) {
            Some(topic) => topic.partitions.push(tp.partition),
            None => topics.push(AddPartitionsToTxnTopic {
                name: Cow::Owned(tp.topic.to_string()),
                partitions: vec![tp.partition],
            }),
        }
    }
    topics
}
