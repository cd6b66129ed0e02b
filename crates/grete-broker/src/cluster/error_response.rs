//! Response that refuses a whole request with one error, in the places where each API has its errors.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::write_txn_markers::*;
use grete_wire::messages::*;

use super::{Cluster, RequestContext};
use crate::group;
use crate::message::{Request, Response};
use crate::transaction;

impl Cluster {
    /// Answers a request with an error.
    pub(super) fn refuse(&mut self, context: &RequestContext, request: &Request<'_>, error: ErrorCode) {
        let is_unanswered = matches!(request, Request::Produce(request) if request.acks == 0);
        match error_response(request, context.version, error) {
            Some(response) if !is_unanswered => self.reply(context, response),
            _ => self.effects.no_reply(context.id),
        }
    }
}

fn owned(text: &str) -> Cow<'static, str> {
    Cow::Owned(text.to_owned())
}

/// Returns the response. `None`: the API has no error in its response.
pub(super) fn error_response(request: &Request<'_>, version: i16, error: ErrorCode) -> Option<Response> {
    let error_code = error.0;
    let message = || Some(Cow::Borrowed(error.message()));
    Some(match request {
        Request::Produce(request) => Response::Produce(produce(request, error_code)),
        Request::Fetch(request) => Response::Fetch(fetch(request, error_code).into()),
        Request::ListOffsets(request) => Response::ListOffsets(list_offsets(request, error_code)),
        Request::OffsetForLeaderEpoch(request) => {
            Response::OffsetForLeaderEpoch(offset_for_leader_epoch(request, error_code))
        }
        Request::Metadata(request) => Response::Metadata(metadata(request, error_code)),
        Request::FindCoordinator(request) => Response::FindCoordinator(find_coordinator(request, version, error)),
        Request::ApiVersions(_) => {
            Response::ApiVersions(ApiVersionsResponse { error_code, ..ApiVersionsResponse::default() })
        }
        Request::CreateTopics(request) => {
            let topic = |topic: &CreatableTopic<'_>| CreatableTopicResult {
                name: owned(&topic.name),
                error_code,
                error_message: message(),
                ..CreatableTopicResult::default()
            };
            let topics = request.topics.iter().map(topic).collect();
            Response::CreateTopics(CreateTopicsResponse { topics, ..CreateTopicsResponse::default() })
        }
        Request::DeleteTopics(request) => {
            let result = |name: Option<&str>, topic_id| DeletableTopicResult {
                name: name.map(owned),
                topic_id,
                error_code,
                error_message: message(),
            };
            let named = request.topic_names.iter().map(|name| result(Some(name), 0));
            let listed = request.topics.iter().map(|topic| result(topic.name.as_deref(), topic.topic_id));
            let responses = named.chain(listed).collect();
            Response::DeleteTopics(DeleteTopicsResponse { responses, ..DeleteTopicsResponse::default() })
        }
        Request::CreatePartitions(request) => {
            let result = |topic: &CreatePartitionsTopic<'_>| CreatePartitionsTopicResult {
                name: owned(&topic.name),
                error_code,
                error_message: message(),
            };
            let results = request.topics.iter().map(result).collect();
            Response::CreatePartitions(CreatePartitionsResponse { results, ..CreatePartitionsResponse::default() })
        }
        Request::DeleteRecords(request) => Response::DeleteRecords(delete_records(request, error_code)),
        Request::InitProducerId(_) => {
            Response::InitProducerId(InitProducerIdResponse { error_code, ..InitProducerIdResponse::default() })
        }
        Request::AddPartitionsToTxn(request) => {
            let partitions = |topic: &AddPartitionsToTxnTopic<'_>| AddPartitionsToTxnTopicResult {
                name: owned(&topic.name),
                results_by_partition: topic
                    .partitions
                    .iter()
                    .map(|&partition_index| AddPartitionsToTxnPartitionResult {
                        partition_index,
                        partition_error_code: error_code,
                    })
                    .collect(),
            };
            let topics = request.v3_and_below_topics.iter().map(partitions).collect();
            Response::AddPartitionsToTxn(AddPartitionsToTxnResponse {
                error_code: if version >= 4 { error_code } else { 0 },
                results_by_topic_v3_and_below: topics,
                ..AddPartitionsToTxnResponse::default()
            })
        }
        Request::AddOffsetsToTxn(_) => {
            Response::AddOffsetsToTxn(AddOffsetsToTxnResponse { error_code, ..AddOffsetsToTxnResponse::default() })
        }
        Request::EndTxn(_) => Response::EndTxn(EndTxnResponse { error_code, ..EndTxnResponse::default() }),
        Request::TxnOffsetCommit(request) => {
            Response::TxnOffsetCommit(transaction::api::txn_offset_commit_response(request, |_, _| error))
        }
        Request::DescribeConfigs(request) => {
            let result = |resource: &DescribeConfigsResource<'_>| DescribeConfigsResult {
                error_code,
                error_message: message(),
                resource_type: resource.resource_type,
                resource_name: owned(&resource.resource_name),
                configs: Vec::new(),
            };
            let results = request.resources.iter().map(result).collect();
            Response::DescribeConfigs(DescribeConfigsResponse { results, ..DescribeConfigsResponse::default() })
        }
        Request::IncrementalAlterConfigs(request) => {
            let result = |resource: &IncrementalAlterConfigsRequestAlterConfigsResource<'_>| {
                IncrementalAlterConfigsResponseAlterConfigsResourceResponse {
                    error_code,
                    error_message: message(),
                    resource_type: resource.resource_type,
                    resource_name: owned(&resource.resource_name),
                }
            };
            let responses = request.resources.iter().map(result).collect();
            let response = IncrementalAlterConfigsResponse { responses, ..IncrementalAlterConfigsResponse::default() };
            Response::IncrementalAlterConfigs(response)
        }
        Request::DescribeCluster(_) => Response::DescribeCluster(DescribeClusterResponse {
            error_code,
            error_message: message(),
            ..DescribeClusterResponse::default()
        }),
        Request::DescribeTopicPartitions(request) => {
            let topic = |topic: &DescribeTopicPartitionsRequestTopicRequest<'_>| DescribeTopicPartitionsResponseTopic {
                error_code,
                name: Some(owned(&topic.name)),
                ..DescribeTopicPartitionsResponseTopic::default()
            };
            let topics = request.topics.iter().map(topic).collect();
            let response = DescribeTopicPartitionsResponse { topics, ..DescribeTopicPartitionsResponse::default() };
            Response::DescribeTopicPartitions(response)
        }
        Request::AlterConfigs(request) => {
            let result = |resource: &AlterConfigsRequestAlterConfigsResource<'_>| {
                AlterConfigsResponseAlterConfigsResourceResponse {
                    error_code,
                    error_message: message(),
                    resource_type: resource.resource_type,
                    resource_name: owned(&resource.resource_name),
                }
            };
            let responses = request.resources.iter().map(result).collect();
            Response::AlterConfigs(AlterConfigsResponse { responses, ..AlterConfigsResponse::default() })
        }
        Request::DescribeLogDirs(_) => {
            Response::DescribeLogDirs(DescribeLogDirsResponse { error_code, ..DescribeLogDirsResponse::default() })
        }
        Request::DescribeProducers(request) => {
            let partition = |&partition_index: &i32| describe_producers::PartitionResponse {
                partition_index,
                error_code,
                error_message: message(),
                ..describe_producers::PartitionResponse::default()
            };
            let topic = |topic: &describe_producers::TopicRequest<'_>| describe_producers::TopicResponse {
                name: owned(&topic.name),
                partitions: topic.partition_indexes.iter().map(partition).collect(),
            };
            let topics = request.topics.iter().map(topic).collect();
            Response::DescribeProducers(DescribeProducersResponse { topics, ..DescribeProducersResponse::default() })
        }
        Request::WriteTxnMarkers(request) => {
            let partition = |&partition_index: &i32| WritableTxnMarkerPartitionResult { partition_index, error_code };
            let topic = |topic: &WritableTxnMarkerTopic<'_>| WritableTxnMarkerTopicResult {
                name: owned(&topic.name),
                partitions: topic.partition_indexes.iter().map(partition).collect(),
            };
            let marker = |marker: &WritableTxnMarker<'_>| WritableTxnMarkerResult {
                producer_id: marker.producer_id,
                topics: marker.topics.iter().map(topic).collect(),
            };
            let markers = request.markers.iter().map(marker).collect();
            Response::WriteTxnMarkers(WriteTxnMarkersResponse { markers })
        }
        Request::DescribeTransactions(request) => {
            let state = |id: &Cow<'_, str>| describe_transactions::TransactionState {
                error_code,
                transactional_id: owned(id),
                ..describe_transactions::TransactionState::default()
            };
            let transaction_states = request.transactional_ids.iter().map(state).collect();
            let response = DescribeTransactionsResponse { transaction_states, ..Default::default() };
            Response::DescribeTransactions(response)
        }
        Request::DescribeAcls(_) => Response::DescribeAcls(DescribeAclsResponse {
            error_code,
            error_message: message(),
            ..DescribeAclsResponse::default()
        }),
        Request::CreateAcls(request) => {
            let result = |_: &AclCreation<'_>| AclCreationResult { error_code, error_message: message() };
            let results = request.creations.iter().map(result).collect();
            Response::CreateAcls(CreateAclsResponse { results, ..CreateAclsResponse::default() })
        }
        Request::DeleteAcls(request) => {
            let result = |_: &DeleteAclsFilter<'_>| DeleteAclsFilterResult {
                error_code,
                error_message: message(),
                matching_acls: Vec::new(),
            };
            let filter_results = request.filters.iter().map(result).collect();
            Response::DeleteAcls(DeleteAclsResponse { filter_results, ..DeleteAclsResponse::default() })
        }
        request => {
            return super::api::share::error_response(request, error)
                .or_else(|| group::api::error_response(version, request, error));
        }
    })
}

fn produce(request: &ProduceRequest<'_>, error_code: i16) -> ProduceResponse<'static> {
    let partition = |data: &PartitionProduceData<'_>| PartitionProduceResponse {
        index: data.index,
        error_code,
        base_offset: -1,
        ..PartitionProduceResponse::default()
    };
    let topic = |topic: &TopicProduceData<'_>| TopicProduceResponse {
        name: owned(&topic.name),
        topic_id: topic.topic_id,
        partition_responses: topic.partition_data.iter().map(partition).collect(),
    };
    ProduceResponse { responses: request.topic_data.iter().map(topic).collect(), ..ProduceResponse::default() }
}

fn fetch(request: &FetchRequest<'_>, error_code: i16) -> FetchResponse<'static> {
    let partition = |wanted: &FetchPartition| PartitionData {
        partition_index: wanted.partition,
        error_code,
        high_watermark: -1,
        aborted_transactions: None,
        records: Some(Cow::Borrowed(&[])),
        ..PartitionData::default()
    };
    let topic = |topic: &FetchTopic<'_>| FetchableTopicResponse {
        topic: owned(&topic.topic),
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(partition).collect(),
    };
    FetchResponse { error_code, responses: request.topics.iter().map(topic).collect(), ..FetchResponse::default() }
}

fn list_offsets(request: &ListOffsetsRequest<'_>, error_code: i16) -> ListOffsetsResponse<'static> {
    let partition = |wanted: &ListOffsetsPartition| ListOffsetsPartitionResponse {
        partition_index: wanted.partition_index,
        error_code,
        ..ListOffsetsPartitionResponse::default()
    };
    let topic = |topic: &ListOffsetsTopic<'_>| ListOffsetsTopicResponse {
        name: owned(&topic.name),
        partitions: topic.partitions.iter().map(partition).collect(),
    };
    ListOffsetsResponse { topics: request.topics.iter().map(topic).collect(), ..ListOffsetsResponse::default() }
}

fn offset_for_leader_epoch(
    request: &OffsetForLeaderEpochRequest<'_>,
    error_code: i16,
) -> OffsetForLeaderEpochResponse<'static> {
    let partition = |wanted: &OffsetForLeaderPartition| OffsetForLeaderEpochResponseEpochEndOffset {
        partition: wanted.partition,
        error_code,
        ..OffsetForLeaderEpochResponseEpochEndOffset::default()
    };
    let topic = |topic: &OffsetForLeaderTopic<'_>| OffsetForLeaderTopicResult {
        topic: owned(&topic.topic),
        partitions: topic.partitions.iter().map(partition).collect(),
    };
    let topics = request.topics.iter().map(topic).collect();
    OffsetForLeaderEpochResponse { topics, ..OffsetForLeaderEpochResponse::default() }
}

fn metadata(request: &MetadataRequest<'_>, error_code: i16) -> MetadataResponse<'static> {
    let topic = |topic: &MetadataRequestTopic<'_>| MetadataResponseTopic {
        error_code,
        name: Some(owned(topic.name.as_deref().unwrap_or_default())),
        topic_id: topic.topic_id,
        ..MetadataResponseTopic::default()
    };
    let topics = request.topics.iter().flatten().map(topic).collect();
    MetadataResponse { topics, error_code, ..MetadataResponse::default() }
}

fn find_coordinator(
    request: &FindCoordinatorRequest<'_>,
    version: i16,
    error: ErrorCode,
) -> FindCoordinatorResponse<'static> {
    if version < 4 {
        return FindCoordinatorResponse {
            error_code: error.0,
            error_message: Some(Cow::Borrowed(error.message())),
            node_id: -1,
            port: -1,
            ..FindCoordinatorResponse::default()
        };
    }
    let coordinator = |key: &Cow<'_, str>| Coordinator {
        key: owned(key),
        node_id: -1,
        port: -1,
        error_code: error.0,
        error_message: Some(Cow::Borrowed(error.message())),
        ..Coordinator::default()
    };
    let coordinators = request.coordinator_keys.iter().map(coordinator).collect();
    FindCoordinatorResponse { coordinators, ..FindCoordinatorResponse::default() }
}

fn delete_records(request: &DeleteRecordsRequest<'_>, error_code: i16) -> DeleteRecordsResponse<'static> {
    let partition = |partition: &DeleteRecordsPartition| DeleteRecordsPartitionResult {
        partition_index: partition.partition_index,
        low_watermark: -1,
        error_code,
    };
    let topic = |topic: &DeleteRecordsTopic<'_>| DeleteRecordsTopicResult {
        name: owned(&topic.name),
        partitions: topic.partitions.iter().map(partition).collect(),
    };
    DeleteRecordsResponse { topics: request.topics.iter().map(topic).collect(), ..DeleteRecordsResponse::default() }
}
