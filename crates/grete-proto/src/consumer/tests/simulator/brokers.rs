//! Immediate responses of brokers. Responses of the coordinator and long polls go through the simulator's clock.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use grete_wire::messages::*;
use grete_wire::{ApiKey, ErrorCode, Frame, Reader};

use super::fetch_sessions::Sessions;
use super::partition_log::Log;
use crate::cluster::test_cluster::{ReceivedRequest, api_versions, host, listed, no_login};
use crate::group::tests::coordinator::Coordinator;
use crate::ids::{NodeId, TopicPartition};

#[derive(Debug)]
pub struct Brokers {
    pub nodes: BTreeSet<NodeId>,
    /// Number of topics created so far.
    made: u128,
    /// Names of all topics, including deleted ones.
    pub names: BTreeMap<u128, String>,
    /// Nodes that refuse connections.
    pub down: BTreeSet<NodeId>,
    pub ids: BTreeMap<String, u128>,
    pub logs: BTreeMap<TopicPartition, Log>,
    pub sessions: Sessions,
    pub coordinator: Coordinator,
    pub max_versions: BTreeMap<ApiKey, i16>,
    /// Requests of these kinds are never answered.
    pub silent: BTreeSet<ApiKey>,
    /// Error for OffsetCommit, instead of storing the offset.
    pub commit_error: Option<ErrorCode>,
    /// Group-level error for OffsetFetch.
    pub fetch_error: Option<ErrorCode>,
    /// Requests for all topics fail.
    pub metadata_error: bool,
}

impl Brokers {
    pub fn new(nodes: NodeId) -> Self {
        Self {
            nodes: (1..=nodes).collect(),
            made: 0,
            names: BTreeMap::new(),
            down: BTreeSet::new(),
            ids: BTreeMap::new(),
            logs: BTreeMap::new(),
            sessions: Sessions::default(),
            coordinator: Coordinator::new(1, "billing"),
            max_versions: BTreeMap::new(),
            silent: BTreeSet::new(),
            commit_error: None,
            fetch_error: None,
            metadata_error: false,
        }
    }

    /// Creates a topic with its leaders spread over the nodes.
    pub fn create(&mut self, topic: &str, partitions: i32) {
        self.made += 1;
        let id = 1000 + self.made;
        self.ids.insert(topic.to_owned(), id);
        self.names.insert(id, topic.to_owned());
        self.coordinator.topics.insert(topic.to_owned(), id);
        let leaders = self.nodes.iter().copied().cycle();
        for (partition, leader) in (0..partitions).zip(leaders) {
            let tp = TopicPartition::new(topic, partition);
            self.logs.insert(tp.clone(), Log::with_incarnation(tp, leader, self.made));
        }
    }

    /// Deletes a topic with its records and its committed offsets, as Kafka does.
    pub fn delete(&mut self, topic: &str) {
        self.ids.remove(topic);
        self.coordinator.delete_topic(topic);
        self.logs.retain(|tp, _| *tp.topic != *topic);
    }

    /// Returns an immediate response; `None`: the request is for the coordinator, or a Fetch.
    pub fn answer(&self, node: NodeId, asked: &ReceivedRequest) -> Option<Frame> {
        let r = &mut Reader::new(&asked.body);
        let version = asked.version;
        Some(match asked.api {
            ApiKey::ApiVersions => {
                let answer = api_versions(&self.max_versions);
                asked.encode_response(|version, out| answer.encode(version, out))
            }
            ApiKey::SaslHandshake => asked.encode_response(|version, out| no_login().encode(version, out)),
            ApiKey::Metadata => {
                let answer = self.metadata(&MetadataRequest::decode(version, r).unwrap());
                asked.encode_response(|version, out| answer.encode(version, out))
            }
            ApiKey::FindCoordinator => {
                let request = FindCoordinatorRequest::decode(version, r).unwrap();
                let found = grete_wire::messages::Coordinator {
                    key: request.coordinator_keys[0].clone(),
                    node_id: self.coordinator.node,
                    host: Cow::Owned(host(self.coordinator.node)),
                    port: 9092,
                    ..Default::default()
                };
                let answer = FindCoordinatorResponse { coordinators: vec![found], ..Default::default() };
                asked.encode_response(|version, out| answer.encode(version, out))
            }
            ApiKey::ListOffsets => {
                let answer = self.list_offsets(node, &ListOffsetsRequest::decode(version, r).unwrap());
                asked.encode_response(|version, out| answer.encode(version, out))
            }
            ApiKey::OffsetForLeaderEpoch => {
                let answer = self.epoch_ends(&OffsetForLeaderEpochRequest::decode(version, r).unwrap());
                asked.encode_response(|version, out| answer.encode(version, out))
            }
            ApiKey::OffsetCommit if self.commit_error.is_some() => {
                let code = self.commit_error.unwrap_or_default().0;
                let answer = refuse(&OffsetCommitRequest::decode(version, r).unwrap(), code);
                asked.encode_response(|version, out| answer.encode(version, out))
            }
            ApiKey::OffsetFetch if self.fetch_error.is_some() => {
                let request = OffsetFetchRequest::decode(version, r).unwrap();
                let refused = |group: &OffsetFetchRequestGroup<'_>| OffsetFetchResponseGroup {
                    group_id: group.group_id.to_string().into(),
                    error_code: self.fetch_error.unwrap_or_default().0,
                    ..Default::default()
                };
                let groups = request.groups.iter().map(refused).collect();
                let answer = OffsetFetchResponse { groups, ..Default::default() };
                asked.encode_response(|version, out| answer.encode(version, out))
            }
            _ => return None,
        })
    }

    fn metadata(&self, request: &MetadataRequest<'_>) -> MetadataResponse<'static> {
        let topic = |name: &str| {
            let partition = |(tp, log): (&TopicPartition, &Log)| MetadataResponsePartition {
                partition_index: tp.partition,
                leader_id: log.leader,
                leader_epoch: log.epoch,
                ..Default::default()
            };
            let partitions = self.logs.iter().filter(|(tp, _)| *tp.topic == *name).map(partition);
            let known = self.ids.get(name);
            MetadataResponseTopic {
                error_code: known.map_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0, |_| 0),
                name: Some(name.to_owned().into()),
                topic_id: known.copied().unwrap_or(0),
                partitions: partitions.collect(),
                ..Default::default()
            }
        };
        let all: Vec<&str> = self.ids.keys().map(|name| &**name).collect();
        let names = match &request.topics {
            Some(topics) => topics.iter().filter_map(|topic| topic.name.as_deref()).collect(),
            None => all,
        };
        if self.metadata_error && request.topics.is_none() {
            return MetadataResponse { error_code: ErrorCode::UNKNOWN_SERVER_ERROR.0, ..Default::default() };
        }
        MetadataResponse {
            brokers: self.nodes.iter().map(listed).collect(),
            topics: names.into_iter().map(topic).collect(),
            ..Default::default()
        }
    }

    fn list_offsets(&self, node: NodeId, request: &ListOffsetsRequest<'_>) -> ListOffsetsResponse<'static> {
        let mut topics = Vec::new();
        for topic in &request.topics {
            let partitions = topic.partitions.iter().map(|p| {
                let log = self.logs.get(&TopicPartition::new(&*topic.name, p.partition_index));
                let (code, offset) = match log {
                    None => (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, -1),
                    _ if self.coordinator.forbidden.contains(&*topic.name) => {
                        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, -1)
                    }
                    Some(log) if log.leader != node => (ErrorCode::NOT_LEADER_OR_FOLLOWER, -1),
                    Some(log) => (ErrorCode::NONE, log.lookup(p.timestamp)),
                };
                let partition_index = p.partition_index;
                ListOffsetsPartitionResponse { partition_index, error_code: code.0, offset, ..Default::default() }
            });
            let name = Cow::Owned(topic.name.to_string());
            topics.push(ListOffsetsTopicResponse { name, partitions: partitions.collect() });
        }
        ListOffsetsResponse { topics, ..Default::default() }
    }

    fn epoch_ends(&self, request: &OffsetForLeaderEpochRequest<'_>) -> OffsetForLeaderEpochResponse<'static> {
        let mut topics = Vec::new();
        for topic in &request.topics {
            let partitions = topic.partitions.iter().map(|p| {
                let log = self.logs.get(&TopicPartition::new(&*topic.topic, p.partition));
                offset_for_leader_epoch::EpochEndOffset {
                    partition: p.partition,
                    leader_epoch: p.leader_epoch,
                    end_offset: log.map_or(-1, Log::end),
                    ..Default::default()
                }
            });
            let topic = Cow::Owned(topic.topic.to_string());
            topics.push(OffsetForLeaderTopicResult { topic, partitions: partitions.collect() });
        }
        OffsetForLeaderEpochResponse { topics, ..Default::default() }
    }
}

fn refuse(request: &OffsetCommitRequest<'_>, error_code: i16) -> OffsetCommitResponse<'static> {
    let mut topics = Vec::new();
    for topic in &request.topics {
        let partition = |p: &OffsetCommitRequestPartition| OffsetCommitResponsePartition {
            partition_index: p.partition_index,
            error_code,
        };
        let partitions = topic.partitions.iter().map(partition).collect();
        topics.push(OffsetCommitResponseTopic {
            name: Cow::Owned(topic.name.to_string()),
            topic_id: topic.topic_id,
            partitions,
        });
    }
    OffsetCommitResponse { topics, ..Default::default() }
}
