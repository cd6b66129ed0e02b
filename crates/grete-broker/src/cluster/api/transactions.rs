//! APIs of transactions: the coordinator decides, and the cluster writes the markers at once.

use std::collections::HashMap;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::write_txn_markers::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use grete_wire::messages::{
    DescribeTransactionsRequest, ListTransactionsRequest, TxnOffsetCommitRequest, WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
};
use grete_wire::records::EndTransactionMarker;

use crate::cluster::logs::PartitionKey;
use crate::cluster::{Cluster, RequestContext};
use crate::effects::group::CommittedOffset;
use crate::group::offsets::MemberClaim;
use crate::ids::TopicPartition;
use crate::log::{AppendChecks, first_sequence, transactional_producers};
use crate::message::{Request, Response};
use crate::transaction::{Marker, Producer, api};

/// First version of Produce whose partitions join the transaction by themselves (KIP-890).
const PRODUCE_ADDS_PARTITIONS: i16 = 12;

/// Version of `transaction.version` by which logs check markers. The stricter check of version 2 refuses markers that
/// another broker sends late; here the coordinator writes each marker in the step that decides.
const MARKER_VERSION: i16 = 1;

impl Cluster {
    pub(in crate::cluster) fn handle_transaction_request(&mut self, context: &RequestContext, request: Request<'_>) {
        let transactional_id = match &request {
            Request::InitProducerId(request) => request.transactional_id.as_deref(),
            Request::AddPartitionsToTxn(request) if context.version < 4 => {
                Some(&*request.v3_and_below_transactional_id)
            }
            Request::AddOffsetsToTxn(request) => Some(&*request.transactional_id),
            Request::EndTxn(request) => Some(&*request.transactional_id),
            _ => None,
        };
        if transactional_id.is_some_and(|id| self.coordinator(id) != Some(context.broker)) {
            return self.refuse(context, &request, ErrorCode::NOT_COORDINATOR);
        }
        match &request {
            Request::ListTransactions(request) => return self.list_transactions(context, request),
            Request::DescribeTransactions(request) => return self.describe_transactions(context, request),
            Request::WriteTxnMarkers(request) => return self.write_txn_markers(context, request),
            _ => {}
        }
        let (now, version, effects) = (self.now, context.version, &mut self.effects);
        let coordinator = &mut self.transactions;
        let (response, marker) = match &request {
            Request::InitProducerId(request) => {
                let (response, marker) = api::init_producer_id(coordinator, now, version, request, effects);
                (Response::InitProducerId(response), marker)
            }
            Request::AddPartitionsToTxn(request) => {
                let topics = &self.topics;
                let exists = |tp: &TopicPartition| {
                    topics.get(&tp.topic).is_some_and(|topic| topic.partition(tp.partition).is_some())
                };
                let response = api::add_partitions_to_txn(coordinator, now, version, request, exists, effects);
                (Response::AddPartitionsToTxn(response), None)
            }
            Request::AddOffsetsToTxn(request) => {
                (Response::AddOffsetsToTxn(api::add_offsets_to_txn(coordinator, now, version, request, effects)), None)
            }
            Request::EndTxn(request) => {
                let (response, marker) = api::end_txn(coordinator, now, version, request, effects);
                (Response::EndTxn(response), marker)
            }
            Request::TxnOffsetCommit(request) => {
                let response = self.commit_in_transaction(context, request);
                return self.reply(context, response);
            }
            _ => return,
        };
        if let Some(marker) = marker {
            self.write_marker(&marker);
        }
        self.reply(context, response);
    }

    fn list_transactions(&mut self, context: &RequestContext, request: &ListTransactionsRequest<'_>) {
        let is_coordinated = |id: &str| self.coordinator(id) == Some(context.broker);
        let response = api::list_transactions(&self.transactions, self.now, request, is_coordinated);
        self.reply(context, Response::ListTransactions(response));
    }

    fn describe_transactions(&mut self, context: &RequestContext, request: &DescribeTransactionsRequest<'_>) {
        let is_coordinated = |id: &str| self.coordinator(id) == Some(context.broker);
        let response = api::describe_transactions(&self.transactions, request, is_coordinated);
        self.reply(context, Response::DescribeTransactions(response));
    }

    /// Writes markers that an administrator sends for transactions that no coordinator ends (KIP-664).
    fn write_txn_markers(&mut self, context: &RequestContext, request: &WriteTxnMarkersRequest<'_>) {
        let mut markers = Vec::new();
        for marker in &request.markers {
            let record = EndTransactionMarker {
                producer_id: marker.producer_id,
                producer_epoch: marker.producer_epoch,
                coordinator_epoch: marker.coordinator_epoch,
                commit: marker.transaction_result,
            };
            let mut topics = Vec::new();
            for topic in &marker.topics {
                let mut partitions = Vec::new();
                for &index in &topic.partition_indexes {
                    let error = self.write_marker_at_leader(context, &topic.name, index, &record);
                    partitions.push(WritableTxnMarkerPartitionResult { partition_index: index, error_code: error.0 });
                }
                topics.push(WritableTxnMarkerTopicResult { name: topic.name.to_string().into(), partitions });
            }
            markers.push(WritableTxnMarkerResult { producer_id: marker.producer_id, topics });
        }
        self.reply(context, Response::WriteTxnMarkers(WriteTxnMarkersResponse { markers }));
    }

    fn write_marker_at_leader(
        &mut self,
        context: &RequestContext,
        topic: &str,
        index: i32,
        record: &EndTransactionMarker,
    ) -> ErrorCode {
        let Some(found) = self.topics.get(topic) else { return ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
        let id = found.id;
        match found.partition(index) {
            None => return ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            Some(partition) if partition.leader != Some(context.broker) => {
                return ErrorCode::NOT_LEADER_OR_FOLLOWER;
            }
            Some(_) => {}
        }
        match self.append_marker((id, index), record) {
            None => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            Some(Err(error)) => error,
            Some(Ok(())) => ErrorCode::NONE,
        }
    }

    /// Appends a marker, and answers the fetches that it lets go on. `None`: there is no such log.
    fn append_marker(&mut self, key: PartitionKey, record: &EndTransactionMarker) -> Option<Result<(), ErrorCode>> {
        let now = self.now;
        let written = self.with_log(key, |log, config, epoch, _| {
            log.append_marker(now, epoch, record, MARKER_VERSION, config).map(|(_, change)| (Some(change), ()))
        });
        if written == Some(Ok(())) {
            self.complete_fetches(key.0, key.1, false);
        }
        written
    }

    /// Writes the marker of a transaction to all its partitions and groups, and completes the transaction.
    pub(in crate::cluster) fn write_marker(&mut self, marker: &Marker) {
        let now = self.now;
        let record = EndTransactionMarker {
            producer_id: marker.producer_id,
            producer_epoch: marker.producer_epoch,
            coordinator_epoch: marker.coordinator_epoch,
            commit: marker.commit,
        };
        for tp in &marker.partitions {
            // A topic that was deleted meanwhile needs no marker.
            let Some(id) = self.topics.get(&tp.topic).map(|topic| topic.id) else { continue };
            self.append_marker((id, tp.partition), &record);
        }
        if !marker.groups.is_empty() {
            self.groups.complete_transaction(marker.producer_id, marker.commit, &marker.groups, &mut self.effects);
        }
        self.transactions.complete(now, &marker.transactional_id, &mut self.effects);
    }

    fn commit_in_transaction(&mut self, context: &RequestContext, request: &TxnOffsetCommitRequest<'_>) -> Response {
        let failed =
            |error: ErrorCode| Response::TxnOffsetCommit(api::txn_offset_commit_response(request, |_, _| error));
        if self.coordinator(&request.group_id) != Some(context.broker) {
            return failed(ErrorCode::NOT_COORDINATOR);
        }
        let (now, version, effects) = (self.now, context.version, &mut self.effects);
        let mut offsets = Vec::new();
        for topic in &request.topics {
            let name: Arc<str> = (&*topic.name).into();
            for partition in &topic.partitions {
                let index = partition.partition_index;
                if self.topics.get(&name).is_some_and(|topic| topic.partition(index).is_some()) {
                    let offset = CommittedOffset {
                        offset: partition.committed_offset,
                        leader_epoch: partition.committed_leader_epoch,
                        metadata: partition.committed_metadata.as_deref().unwrap_or_default().into(),
                        committed_at: now,
                        expires_at: None,
                    };
                    offsets.push((TopicPartition::new(Arc::clone(&name), index), offset));
                }
            }
        }
        let claim = MemberClaim {
            group: &request.group_id,
            generation: request.generation_id,
            member_id: &request.member_id,
            instance_id: request.group_instance_id.as_deref(),
        };
        let known: Vec<TopicPartition> = offsets.iter().map(|(tp, _)| tp.clone()).collect();
        let codes_of = |known: Vec<TopicPartition>, codes: Vec<ErrorCode>| {
            let codes: HashMap<TopicPartition, ErrorCode> = known.into_iter().zip(codes).collect();
            let code_of = |topic: &str, partition: i32| {
                let code = codes.get(&TopicPartition::new(topic, partition)).copied();
                code.unwrap_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
            };
            Response::TxnOffsetCommit(api::txn_offset_commit_response(request, code_of))
        };
        // Unknown partitions alone do not involve the coordinators.
        if known.is_empty() {
            return codes_of(known, Vec::new());
        }
        if request.group_id.is_empty() {
            let errors = vec![ErrorCode::INVALID_GROUP_ID; known.len()];
            return codes_of(known, errors);
        }
        if let Err(error) = api::before_txn_offset_commit(&mut self.transactions, now, version, request, effects) {
            // As in Kafka, the coordinator is asked about the first commit of a transaction only.
            let producer = Producer { id: request.producer_id, epoch: request.producer_epoch };
            let is_begun = self.groups.has_transaction(&request.group_id, producer.id);
            if !(is_begun && self.transactions.has_ongoing(producer)) {
                let errors = vec![error; known.len()];
                return codes_of(known, errors);
            }
        }
        match self.groups.txn_commit(now, request.producer_id, &claim, offsets, effects) {
            Err(error) => {
                let errors = vec![error; known.len()];
                codes_of(known, errors)
            }
            Ok(codes) => codes_of(known, codes),
        }
    }

    /// Checks the transaction of a batch before its append, and returns what the log may take for granted.
    pub(in crate::cluster) fn check_transaction(
        &mut self,
        version: i16,
        transactional_id: Option<&str>,
        key: PartitionKey,
        partition: &TopicPartition,
        records: &[u8],
    ) -> Result<AppendChecks, ErrorCode> {
        // A batch without a producer id is no part of a transaction, whatever its attributes say.
        let producer = transactional_producers(records).into_iter().find(|(id, _)| *id >= 0);
        let mut checks = AppendChecks {
            produce_version: version,
            transaction_verified: false,
            epoch_bump: producer.is_some() && version >= PRODUCE_ADDS_PARTITIONS,
        };
        if let (Some((producer_id, epoch)), Some(id)) = (producer, transactional_id) {
            let producer = Producer { id: producer_id, epoch };
            // As in Kafka, the coordinator is asked about the first batch of a transaction only.
            let now = self.now;
            let begun = self.with_log(key, |log, _, _, _| {
                let is_begun = log.has_begun_transaction(producer_id, epoch);
                if !is_begun {
                    log.begin_verification(now, producer_id, epoch, first_sequence(records), checks.epoch_bump);
                }
                Ok::<_, ErrorCode>((None, is_begun))
            });
            if begun == Some(Ok(true)) {
                return Ok(checks);
            }
            let (now, effects) = (self.now, &mut self.effects);
            api::before_append(&mut self.transactions, now, version, id, producer, partition, effects)?;
            checks.transaction_verified = true;
        }
        Ok(checks)
    }

    /// Aborts the transactions that are open for too long.
    pub(in crate::cluster) fn expire_transactions(&mut self) {
        for marker in self.transactions.tick(self.now, &mut self.effects) {
            self.write_marker(&marker);
        }
    }
}
