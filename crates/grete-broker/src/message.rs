//! Requests and responses that the broker supports, as one type each.

use grete_wire::fetch::SharedFetchResponse;
use grete_wire::messages::*;
use grete_wire::{ApiKey, Reader, SegmentedBuf, WireError};

/// Body of a response.
trait Body {
    fn append(&self, version: i16, out: &mut SegmentedBuf) -> Result<(), WireError>;
}

impl Body for SharedFetchResponse {
    fn append(&self, version: i16, out: &mut SegmentedBuf) -> Result<(), WireError> {
        self.encode(version, out)
    }
}

/// Implements [`Body`] for the responses without shared bytes.
macro_rules! append {
    (SharedFetchResponse) => {};
    ($response:ty) => {
        impl Body for $response {
            fn append(&self, version: i16, out: &mut SegmentedBuf) -> Result<(), WireError> {
                self.encode(version, out.tail())
            }
        }
    };
}

macro_rules! messages {
    ($($api:ident: $request:ident $(<$request_lifetime:lifetime>)?, $response:ident $(<$response_lifetime:lifetime>)?;)*) => {
        /// Decoded request. Strings and bytes borrow from the frame.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Request<'a> {
            $(#[doc = stringify!($api)] $api($request $(<$request_lifetime>)?),)*
        }

        /// Response before its encoding.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Response {
            $(#[doc = stringify!($api)] $api($response $(<$response_lifetime>)?),)*
        }

        /// APIs with a request and a response here. A broker answers a subset of them.
        pub const APIS: &[ApiKey] = &[$(ApiKey::$api,)*];

        impl<'a> Request<'a> {
            /// Decodes the body of a request.
            ///
            /// # Errors
            /// The API is not in [`APIS`], or the body is malformed in this version.
            pub fn decode(api: ApiKey, version: i16, r: &mut Reader<'a>) -> Result<Self, WireError> {
                match api {
                    $(ApiKey::$api => $request::decode(version, r).map(Self::$api),)*
                    #[allow(unreachable_patterns, reason = "every API has a row while the table is complete")]
                    _ => Err(WireError::UnknownApi { key: api.key() }),
                }
            }
        }

        $(append!($response $(<$response_lifetime>)?);)*

        impl Response {
            /// Returns the API of the response.
            #[must_use]
            pub fn api(&self) -> ApiKey {
                match self { $(Self::$api(_) => ApiKey::$api,)* }
            }

            /// Appends the body in this version.
            ///
            /// # Errors
            /// The version has no form for a value: a defect of the broker.
            pub fn encode(&self, version: i16, out: &mut SegmentedBuf) -> Result<(), WireError> {
                match self { $(Self::$api(body) => body.append(version, out),)* }
            }
        }
    };
}

messages! {
    Produce: ProduceRequest<'a>, ProduceResponse<'static>;
    Fetch: FetchRequest<'a>, SharedFetchResponse;
    ListOffsets: ListOffsetsRequest<'a>, ListOffsetsResponse<'static>;
    Metadata: MetadataRequest<'a>, MetadataResponse<'static>;
    OffsetCommit: OffsetCommitRequest<'a>, OffsetCommitResponse<'static>;
    OffsetFetch: OffsetFetchRequest<'a>, OffsetFetchResponse<'static>;
    FindCoordinator: FindCoordinatorRequest<'a>, FindCoordinatorResponse<'static>;
    JoinGroup: JoinGroupRequest<'a>, JoinGroupResponse<'static>;
    Heartbeat: HeartbeatRequest<'a>, HeartbeatResponse;
    LeaveGroup: LeaveGroupRequest<'a>, LeaveGroupResponse<'static>;
    SyncGroup: SyncGroupRequest<'a>, SyncGroupResponse<'static>;
    DescribeGroups: DescribeGroupsRequest<'a>, DescribeGroupsResponse<'static>;
    ConsumerGroupHeartbeat: ConsumerGroupHeartbeatRequest<'a>, ConsumerGroupHeartbeatResponse<'static>;
    ConsumerGroupDescribe: ConsumerGroupDescribeRequest<'a>, ConsumerGroupDescribeResponse<'static>;
    ShareGroupHeartbeat: ShareGroupHeartbeatRequest<'a>, ShareGroupHeartbeatResponse<'static>;
    ShareGroupDescribe: ShareGroupDescribeRequest<'a>, ShareGroupDescribeResponse<'static>;
    ShareFetch: ShareFetchRequest<'a>, ShareFetchResponse<'static>;
    ShareAcknowledge: ShareAcknowledgeRequest<'a>, ShareAcknowledgeResponse<'static>;
    DescribeShareGroupOffsets: DescribeShareGroupOffsetsRequest<'a>, DescribeShareGroupOffsetsResponse<'static>;
    AlterShareGroupOffsets: AlterShareGroupOffsetsRequest<'a>, AlterShareGroupOffsetsResponse<'static>;
    DeleteShareGroupOffsets: DeleteShareGroupOffsetsRequest<'a>, DeleteShareGroupOffsetsResponse<'static>;
    ListGroups: ListGroupsRequest<'a>, ListGroupsResponse<'static>;
    ApiVersions: ApiVersionsRequest<'a>, ApiVersionsResponse<'static>;
    SaslHandshake: SaslHandshakeRequest<'a>, SaslHandshakeResponse<'static>;
    SaslAuthenticate: SaslAuthenticateRequest<'a>, SaslAuthenticateResponse<'static>;
    CreateTopics: CreateTopicsRequest<'a>, CreateTopicsResponse<'static>;
    DeleteTopics: DeleteTopicsRequest<'a>, DeleteTopicsResponse<'static>;
    DeleteRecords: DeleteRecordsRequest<'a>, DeleteRecordsResponse<'static>;
    InitProducerId: InitProducerIdRequest<'a>, InitProducerIdResponse;
    OffsetForLeaderEpoch: OffsetForLeaderEpochRequest<'a>, OffsetForLeaderEpochResponse<'static>;
    AddPartitionsToTxn: AddPartitionsToTxnRequest<'a>, AddPartitionsToTxnResponse<'static>;
    AddOffsetsToTxn: AddOffsetsToTxnRequest<'a>, AddOffsetsToTxnResponse;
    EndTxn: EndTxnRequest<'a>, EndTxnResponse;
    TxnOffsetCommit: TxnOffsetCommitRequest<'a>, TxnOffsetCommitResponse<'static>;
    WriteTxnMarkers: WriteTxnMarkersRequest<'a>, WriteTxnMarkersResponse<'static>;
    DescribeAcls: DescribeAclsRequest<'a>, DescribeAclsResponse<'static>;
    CreateAcls: CreateAclsRequest<'a>, CreateAclsResponse<'static>;
    DeleteAcls: DeleteAclsRequest<'a>, DeleteAclsResponse<'static>;
    DescribeConfigs: DescribeConfigsRequest<'a>, DescribeConfigsResponse<'static>;
    AlterConfigs: AlterConfigsRequest<'a>, AlterConfigsResponse<'static>;
    DescribeLogDirs: DescribeLogDirsRequest<'a>, DescribeLogDirsResponse<'static>;
    CreatePartitions: CreatePartitionsRequest<'a>, CreatePartitionsResponse<'static>;
    DeleteGroups: DeleteGroupsRequest<'a>, DeleteGroupsResponse<'static>;
    IncrementalAlterConfigs: IncrementalAlterConfigsRequest<'a>, IncrementalAlterConfigsResponse<'static>;
    OffsetDelete: OffsetDeleteRequest<'a>, OffsetDeleteResponse<'static>;
    DescribeCluster: DescribeClusterRequest, DescribeClusterResponse<'static>;
    DescribeProducers: DescribeProducersRequest<'a>, DescribeProducersResponse<'static>;
    DescribeTransactions: DescribeTransactionsRequest<'a>, DescribeTransactionsResponse<'static>;
    ListTransactions: ListTransactionsRequest<'a>, ListTransactionsResponse<'static>;
    DescribeTopicPartitions: DescribeTopicPartitionsRequest<'a>, DescribeTopicPartitionsResponse<'static>;
}

impl Response {
    /// Returns the length of all records that are copied into the response, so that its buffer is allocated once.
    #[must_use]
    pub fn records_len(&self) -> usize {
        match self {
            Self::ShareFetch(response) => {
                let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
                partitions.map(|partition| partition.records.len()).sum()
            }
            _ => 0,
        }
    }
}
