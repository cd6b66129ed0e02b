//! Produce.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{
    BatchIndexAndErrorMessage, PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    ProduceResponseLeaderIdAndEpoch, ProduceResponseNodeEndpoint, TopicProduceData, TopicProduceResponse,
};

use crate::cluster::{Cluster, RequestContext};
use crate::ids::{BrokerId, TopicPartition};
use crate::log::{AppendError, check_request, transactional_producers};
use crate::message::{Request, Response};
use crate::topics::Partition;

/// Errors of a log whose response does not have the log start offset.
const WITHOUT_LOG_START: &[ErrorCode] = &[
    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode::CORRUPT_MESSAGE,
    ErrorCode::MESSAGE_TOO_LARGE,
    ErrorCode::RECORD_LIST_TOO_LARGE,
];

fn refused_partition(index: i32, error: AppendError) -> PartitionProduceResponse<'static> {
    let record_error = |(batch_index, message): (i32, Option<String>)| BatchIndexAndErrorMessage {
        batch_index,
        batch_index_error_message: message.map(Cow::Owned),
    };
    PartitionProduceResponse {
        index,
        error_code: error.code.0,
        base_offset: -1,
        record_errors: error.record_errors.into_iter().map(record_error).collect(),
        error_message: error.message.map(Cow::Owned),
        ..PartitionProduceResponse::default()
    }
}

impl Cluster {
    pub(in crate::cluster) fn produce(&mut self, context: &RequestContext, request: &ProduceRequest<'_>) {
        let mut leaders = BTreeSet::new();
        let is_transactional = |records: &[u8]| !transactional_producers(records).is_empty();
        let mut batches = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
        if request.transactional_id.is_none()
            && batches.any(|data| data.records.as_deref().is_some_and(is_transactional))
        {
            let request = Request::Produce(request.clone());
            return self.refuse(context, &request, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
        }
        if self.transactional_producers(context, request) > 1 {
            return self.refuse_several_producers(context, request);
        }
        let mut responses = Vec::new();
        for topic in &request.topic_data {
            let mut partition_responses = Vec::new();
            for data in &topic.partition_data {
                let response = self.produce_partition(context, request, topic, data);
                if response.current_leader.leader_id >= 0 {
                    leaders.insert(response.current_leader.leader_id);
                }
                partition_responses.push(response);
            }
            responses.push(TopicProduceResponse {
                name: Cow::Owned(topic.name.to_string()),
                topic_id: topic.topic_id,
                partition_responses,
            });
        }
        if request.acks == 0 {
            return self.effects.no_reply(context.id);
        }
        let endpoint = |id: BrokerId| {
            self.live_broker(id).map(|broker| ProduceResponseNodeEndpoint {
                node_id: id,
                host: Cow::Owned(broker.host.to_string()),
                port: broker.port.into(),
                rack: Self::rack_of(broker).map(Cow::Owned),
            })
        };
        let node_endpoints =
            if context.version >= 10 { leaders.into_iter().filter_map(endpoint).collect() } else { Vec::new() };
        let response = ProduceResponse { responses, node_endpoints, ..ProduceResponse::default() };
        self.reply(context, Response::Produce(response));
    }

    /// Refuses all partitions of a request whose transactional batches are of several producers.
    fn refuse_several_producers(&mut self, context: &RequestContext, request: &ProduceRequest<'_>) {
        if request.acks == 0 {
            return self.effects.no_reply(context.id);
        }
        let refused = |data: &PartitionProduceData<'_>| {
            let error = AppendError {
                code: ErrorCode::INVALID_PRODUCER_ID_MAPPING,
                message: Some(
                    "the transactional batches have several producer ids; send one request for each".to_owned(),
                ),
                record_errors: Vec::new(),
            };
            refused_partition(data.index, error)
        };
        let topic = |topic: &TopicProduceData<'_>| TopicProduceResponse {
            name: Cow::Owned(topic.name.to_string()),
            topic_id: topic.topic_id,
            partition_responses: topic.partition_data.iter().map(refused).collect(),
        };
        let responses = request.topic_data.iter().map(topic).collect();
        self.reply(context, Response::Produce(ProduceResponse { responses, ..ProduceResponse::default() }));
    }

    /// Returns the number of different producers in the transactional batches of partitions that exist.
    fn transactional_producers(&self, context: &RequestContext, request: &ProduceRequest<'_>) -> usize {
        let mut producers = BTreeSet::new();
        for topic in &request.topic_data {
            let Some(found) = self.produced_topic(context, topic) else { continue };
            for data in &topic.partition_data {
                let records = data.records.as_deref().unwrap_or_default();
                if found.partition(data.index).is_none() || check_request(records, context.version).is_err() {
                    continue;
                }
                producers.extend(transactional_producers(records).into_iter().filter(|(id, _)| *id >= 0));
            }
        }
        producers.len()
    }

    fn produce_partition(
        &mut self,
        context: &RequestContext,
        request: &ProduceRequest<'_>,
        topic: &TopicProduceData<'_>,
        data: &PartitionProduceData<'_>,
    ) -> PartitionProduceResponse<'static> {
        let index = data.index;
        match self.append_partition(context, request, topic, data) {
            Ok(response) => response,
            Err(error) => {
                let code = error.code;
                let mut response = refused_partition(index, error);
                if code == ErrorCode::NOT_LEADER_OR_FOLLOWER && context.version >= 10 {
                    let found = self.produced_topic(context, topic).and_then(|found| found.partition(index));
                    if let Some(partition) = found {
                        response.current_leader = ProduceResponseLeaderIdAndEpoch {
                            leader_id: partition.leader.unwrap_or(-1),
                            leader_epoch: partition.leader_epoch,
                        };
                    }
                }
                response
            }
        }
    }

    fn produced_topic(&self, context: &RequestContext, topic: &TopicProduceData<'_>) -> Option<&crate::topics::Topic> {
        if context.version >= 13 { self.topics.by_id(topic.topic_id) } else { self.topics.get(&topic.name) }
    }

    fn produced_name(&self, context: &RequestContext, topic: &TopicProduceData<'_>) -> Arc<str> {
        self.produced_topic(context, topic).map_or_else(|| (&*topic.name).into(), |found| Arc::clone(&found.name))
    }

    fn append_partition(
        &mut self,
        context: &RequestContext,
        request: &ProduceRequest<'_>,
        topic: &TopicProduceData<'_>,
        data: &PartitionProduceData<'_>,
    ) -> Result<PartitionProduceResponse<'static>, AppendError> {
        let refused = |code: ErrorCode| AppendError { code, message: None, record_errors: Vec::new() };
        if let Some(code) = self.partition_fault(&self.produced_name(context, topic), data.index) {
            return Err(refused(code));
        }
        let missing =
            if context.version >= 13 { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
        let found = self.produced_topic(context, topic).ok_or_else(|| refused(missing))?;
        let partition = found.partition(data.index).ok_or_else(|| refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))?;
        self.check_leader(context, partition, -1).map_err(refused)?;
        let in_sync = partition.in_sync(&self.live).len();
        let needed = match found.config.overridden("min.insync.replicas") {
            Some(_) => found.config.number("min.insync.replicas"),
            None => i64::from(self.config.min_insync_replicas),
        };
        if request.acks == -1 && i64::try_from(in_sync).is_ok_and(|in_sync| in_sync < needed) {
            return Err(refused(ErrorCode::NOT_ENOUGH_REPLICAS));
        }
        let records = data.records.as_deref().unwrap_or_default();
        if self.log_bytes.saturating_add(records.len()) > self.config.max_bytes {
            let message = format!(
                "the records of all topics reach the memory limit of {} bytes: raise the limit or delete records",
                self.config.max_bytes
            );
            if !std::mem::replace(&mut self.is_memory_full, true) {
                self.effects.log.push(format!("a write was refused: {message} (--memory SIZE)"));
            }
            return Err(AppendError {
                code: ErrorCode::KAFKA_STORAGE_ERROR,
                message: Some(message),
                record_errors: Vec::new(),
            });
        }
        let (key, tp) = ((found.id, data.index), TopicPartition::new(Arc::clone(&found.name), data.index));
        // Small writes may still succeed beside large ones that are refused: no line for each of these.
        if self.log_bytes < self.config.max_bytes / 10 * 9 {
            self.is_memory_full = false;
        }
        let id = request.transactional_id.as_deref();
        check_request(records, context.version)?;
        if !(-1..=1).contains(&request.acks) {
            return Err(refused(ErrorCode::INVALID_REQUIRED_ACKS));
        }
        let checks = self.check_transaction(context.version, id, key, &tp, records).map_err(|code| {
            let not_added = "the transaction does not have the partition; add it with AddPartitionsToTxn first";
            let message = (code == ErrorCode::INVALID_TXN_STATE).then(|| not_added.to_owned());
            AppendError { message, ..refused(code) }
        })?;
        let appended = match self.append(key, records, checks) {
            Ok(appended) => appended,
            Err(error) if WITHOUT_LOG_START.contains(&error.code) => return Err(error),
            Err(error) => {
                let partition = self.produced_topic(context, topic).and_then(|found| found.partition(data.index));
                let log_start_offset = partition.map_or(-1, |partition| partition.log.log_start_offset());
                return Ok(PartitionProduceResponse { log_start_offset, ..refused_partition(data.index, error) });
            }
        };
        Ok(PartitionProduceResponse {
            index: data.index,
            base_offset: appended.base_offset,
            log_append_time_ms: appended.log_append_time,
            log_start_offset: appended.log_start_offset,
            ..PartitionProduceResponse::default()
        })
    }

    /// Returns an error if the broker does not lead the partition, or the client's leader epoch is not the current one
    /// (-1: the client does not know).
    pub(in crate::cluster) fn check_leader(
        &self,
        context: &RequestContext,
        partition: &Partition,
        leader_epoch: i32,
    ) -> Result<(), ErrorCode> {
        match leader_epoch {
            -1 => {}
            epoch if epoch < partition.leader_epoch => return Err(ErrorCode::FENCED_LEADER_EPOCH),
            epoch if epoch > partition.leader_epoch => return Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
            _ => {}
        }
        if partition.leader != Some(context.broker) {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        Ok(())
    }
}
