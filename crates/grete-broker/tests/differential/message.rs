//! Requests to send, and responses as trees.

use std::fmt::Debug;

use grete_wire::messages::*;
use grete_wire::{ApiKey, KafkaRequest, Reader};

use crate::side::Learn;
use crate::tree::Tree;

/// Request to send.
#[derive(Debug, Clone)]
pub struct Ask {
    /// API.
    pub api: ApiKey,
    /// Version.
    pub version: i16,
    /// Encoded body.
    pub body: Vec<u8>,
    /// Request for a report.
    pub text: String,
    /// State that the response changes.
    pub learn: Learn,
}

/// Encodes a request. `None`: the version has no form for a field.
pub fn ask<R: KafkaRequest + Debug>(version: i16, request: &R) -> Option<Ask> {
    let mut body = Vec::new();
    request.encode_body(version, &mut body).ok()?;
    let text = Tree::of(request).to_string();
    Some(Ask { api: R::KEY, version, body, text, learn: Learn::Nothing })
}

/// Decodes a response.
pub fn decode(ask: &Ask, body: &[u8]) -> Tree {
    macro_rules! decode {
        ($($api:ident $request:ident),*) => {
            match ask.api {
                $(ApiKey::$api => {
                    let mut r = Reader::new(body);
                    let tree = <$request as KafkaRequest>::decode_response(ask.version, &mut r).map(|body| Tree::of(&body));
                    (tree, r.remaining())
                })*
                api => panic!("{api} has no decoder here"),
            }
        };
    }
    // ApiVersions in a version that the broker does not know is answered in version 0.
    if ask.api == ApiKey::ApiVersions && !ask.api.valid().contains(&ask.version) {
        return Tree::of(&ApiVersionsResponse::decode(0, &mut Reader::new(body)).expect("a response of version 0"));
    }
    let (tree, remaining) = decode!(
        Produce ProduceRequest, Fetch FetchRequest, ListOffsets ListOffsetsRequest, Metadata MetadataRequest,
        OffsetCommit OffsetCommitRequest, OffsetFetch OffsetFetchRequest, FindCoordinator FindCoordinatorRequest,
        JoinGroup JoinGroupRequest, Heartbeat HeartbeatRequest, LeaveGroup LeaveGroupRequest,
        SyncGroup SyncGroupRequest, DescribeGroups DescribeGroupsRequest, ListGroups ListGroupsRequest,
        ApiVersions ApiVersionsRequest, CreateTopics CreateTopicsRequest, DeleteTopics DeleteTopicsRequest,
        DeleteRecords DeleteRecordsRequest, InitProducerId InitProducerIdRequest,
        OffsetForLeaderEpoch OffsetForLeaderEpochRequest, AddPartitionsToTxn AddPartitionsToTxnRequest,
        AddOffsetsToTxn AddOffsetsToTxnRequest, EndTxn EndTxnRequest, TxnOffsetCommit TxnOffsetCommitRequest,
        DescribeConfigs DescribeConfigsRequest, AlterConfigs AlterConfigsRequest,
        DescribeLogDirs DescribeLogDirsRequest, CreatePartitions CreatePartitionsRequest,
        DeleteGroups DeleteGroupsRequest, IncrementalAlterConfigs IncrementalAlterConfigsRequest,
        OffsetDelete OffsetDeleteRequest, DescribeCluster DescribeClusterRequest,
        DescribeProducers DescribeProducersRequest, DescribeTransactions DescribeTransactionsRequest,
        ListTransactions ListTransactionsRequest, DescribeTopicPartitions DescribeTopicPartitionsRequest,
        ConsumerGroupHeartbeat ConsumerGroupHeartbeatRequest, ConsumerGroupDescribe ConsumerGroupDescribeRequest,
        ShareGroupHeartbeat ShareGroupHeartbeatRequest, ShareGroupDescribe ShareGroupDescribeRequest,
        ShareFetch ShareFetchRequest, ShareAcknowledge ShareAcknowledgeRequest,
        DescribeAcls DescribeAclsRequest, CreateAcls CreateAclsRequest, DeleteAcls DeleteAclsRequest
    );
    let tree = tree.unwrap_or_else(|error| panic!("{} version {}: {error}: {body:?}", ask.api, ask.version));
    assert_eq!(remaining, 0, "{} version {}: bytes after the response", ask.api, ask.version);
    tree
}
