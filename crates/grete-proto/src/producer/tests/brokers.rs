//! Simulated brokers: the metadata that each one knows, and responses without delay. Produce is in `produce_handler`.

use std::collections::{BTreeMap, BTreeSet};

use grete_wire::messages::*;
use grete_wire::{ApiKey, ErrorCode as E, Frame, Reader};

use super::log::Log;
use crate::cluster::test_cluster::{ReceivedRequest, api_versions, listed, no_login};
use crate::ids::{NodeId, TopicPartition};
use crate::time::Nanos;

/// Metadata of one broker, which may lag behind.
#[derive(Debug, Clone, Default)]
pub struct View {
    nodes: BTreeSet<NodeId>,
    /// Topic id, and leader and epoch of each partition.
    topics: BTreeMap<String, (u128, Vec<(NodeId, i32)>)>,
}

impl View {
    pub fn leader(&self, tp: &TopicPartition) -> Option<(NodeId, i32)> {
        let (_, partitions) = self.topics.get(&*tp.topic)?;
        partitions.get(usize::try_from(tp.partition).ok()?).copied().filter(|(leader, _)| *leader >= 0)
    }
}

/// Fault applied to one batch at its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// The batch is refused and not appended.
    Before(E),
    /// The batch is appended, and the response reports an error.
    After(E),
}

#[derive(Debug)]
pub struct Brokers {
    pub nodes: BTreeSet<NodeId>,
    /// Brokers that are down.
    pub down: BTreeSet<NodeId>,
    /// Brokers that hang until the given time, with open connections.
    pub hung: BTreeMap<NodeId, Nanos>,
    pub ids: BTreeMap<String, u128>,
    made: u128,
    pub logs: BTreeMap<TopicPartition, Log>,
    /// Logs of deleted topics.
    pub deleted: Vec<Log>,
    pub views: BTreeMap<NodeId, View>,
    /// Topics that the client is not authorized to write to.
    pub denied: BTreeSet<String>,
    /// Highest version per API, if lower than the client's; brokers in `new` support all versions.
    pub max_versions: BTreeMap<ApiKey, i16>,
    pub new: BTreeSet<NodeId>,
    /// NOT_LEADER_OR_FOLLOWER reports the leader (KIP-951).
    pub hints: bool,
    /// InitProducerId with an id raises its epoch, as for transactional ids (KIP-360). Kafka itself assigns a new id
    /// each time to a producer without transactional id.
    pub bumps: bool,
    /// Epoch of new producer ids.
    pub first_epoch: i16,
    pub producers: BTreeMap<i64, i16>,
    /// Error code of InitProducerId responses.
    pub init_error: Option<E>,
    /// Throttle time in produce responses, in milliseconds.
    pub throttle: i32,
    /// Faults applied to the next batches.
    pub mishaps: Vec<Mishap>,
}

impl Brokers {
    pub fn new(nodes: NodeId) -> Self {
        let mut this = Self {
            nodes: (1..=nodes).collect(),
            down: BTreeSet::new(),
            hung: BTreeMap::new(),
            ids: BTreeMap::new(),
            made: 0,
            logs: BTreeMap::new(),
            deleted: Vec::new(),
            views: BTreeMap::new(),
            denied: BTreeSet::new(),
            max_versions: BTreeMap::new(),
            new: BTreeSet::new(),
            hints: false,
            bumps: false,
            first_epoch: 0,
            producers: BTreeMap::new(),
            init_error: None,
            throttle: 0,
            mishaps: Vec::new(),
        };
        this.update_all_metadata();
        this
    }

    /// Creates a topic with its leaders spread over the live nodes.
    pub fn create(&mut self, topic: &str, partitions: i32) {
        self.made += 1;
        self.ids.insert(topic.to_owned(), 1000 + self.made);
        let leaders: Vec<NodeId> = self.nodes.difference(&self.down).copied().collect();
        for (partition, leader) in (0..partitions).zip(leaders.into_iter().cycle()) {
            let tp = TopicPartition::new(topic, partition);
            self.logs.insert(tp.clone(), Log::new(tp, leader));
        }
    }

    /// Adds a partition to the topic.
    pub fn grow(&mut self, topic: &str) {
        let partition = self.logs.keys().filter(|tp| *tp.topic == *topic).count();
        let alive: Vec<NodeId> = self.nodes.difference(&self.down).copied().collect();
        if let Some(leader) = alive.get(partition % alive.len().max(1)).filter(|_| self.ids.contains_key(topic)) {
            let tp = TopicPartition::new(topic, i32::try_from(partition).unwrap());
            self.logs.insert(tp.clone(), Log::new(tp, *leader));
        }
    }

    pub fn delete(&mut self, topic: &str) {
        self.ids.remove(topic);
        let (gone, kept) = std::mem::take(&mut self.logs).into_iter().partition(|(tp, _)| *tp.topic == *topic);
        self.logs = kept;
        let gone: BTreeMap<_, Log> = gone;
        self.deleted.extend(gone.into_values());
    }

    /// Gives a broker the current metadata.
    pub fn update_metadata(&mut self, node: NodeId) {
        let topic = |(name, id): (&String, &u128)| {
            let partitions = self.logs.values().filter(|log| *log.tp.topic == **name);
            (name.clone(), (*id, partitions.map(|log| (log.leader, log.epoch)).collect()))
        };
        let view = View {
            nodes: self.nodes.difference(&self.down).copied().collect(),
            topics: self.ids.iter().map(topic).collect(),
        };
        self.views.insert(node, view);
    }

    pub fn update_all_metadata(&mut self) {
        for node in self.nodes.clone() {
            self.update_metadata(node);
        }
    }

    /// Returns the response to a request that needs no log.
    pub fn answer(&mut self, node: NodeId, asked: &ReceivedRequest) -> Frame {
        let r = &mut Reader::new(&asked.body);
        let version = asked.version;
        match asked.api {
            ApiKey::ApiVersions => {
                let all = BTreeMap::new();
                let answer = api_versions(if self.new.contains(&node) { &all } else { &self.max_versions });
                asked.encode_response(|version, out| answer.encode(version, out))
            }
            ApiKey::SaslHandshake => asked.encode_response(|version, out| no_login().encode(version, out)),
            ApiKey::Metadata => {
                let answer = self.metadata(node, &MetadataRequest::decode(version, r).unwrap());
                asked.encode_response(|version, out| answer.encode(version, out))
            }
            ApiKey::InitProducerId => {
                let answer = self.init_producer_id(version, &InitProducerIdRequest::decode(version, r).unwrap());
                asked.encode_response(|version, out| answer.encode(version, out))
            }
            api => panic!("{api} is nothing that a producer asks"),
        }
    }

    fn metadata(&self, node: NodeId, request: &MetadataRequest<'_>) -> MetadataResponse<'static> {
        let view = &self.views[&node];
        let topic = |name: &str| {
            let partition = |(index, &(leader_id, leader_epoch)): (i32, &(NodeId, i32))| MetadataResponsePartition {
                error_code: if leader_id < 0 { E::LEADER_NOT_AVAILABLE.0 } else { 0 },
                partition_index: index,
                leader_id,
                leader_epoch,
                ..Default::default()
            };
            let denied = self.denied.contains(name);
            let known = view.topics.get(name).filter(|_| !denied);
            let error = if denied { E::TOPIC_AUTHORIZATION_FAILED } else { E::UNKNOWN_TOPIC_OR_PARTITION };
            MetadataResponseTopic {
                error_code: known.map_or(error.0, |_| 0),
                name: Some(name.to_owned().into()),
                topic_id: known.map_or(0, |(id, _)| *id),
                partitions: known.map_or(Vec::new(), |(_, all)| (0..).zip(all).map(partition).collect()),
                ..Default::default()
            }
        };
        let names = request.topics.iter().flatten().filter_map(|topic| topic.name.as_deref());
        MetadataResponse {
            brokers: view.nodes.iter().map(listed).collect(),
            controller_id: view.nodes.first().copied().unwrap_or(-1),
            topics: names.map(topic).collect(),
            ..Default::default()
        }
    }

    fn init_producer_id(&mut self, version: i16, request: &InitProducerIdRequest<'_>) -> InitProducerIdResponse {
        assert_eq!(request.transactional_id, None);
        let refused = |code: E| InitProducerIdResponse {
            error_code: code.0,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        if let Some(code) = self.init_error {
            return refused(code);
        }
        let current = (request.producer_id, request.producer_epoch);
        if (current.0 == -1) != (current.1 == -1) {
            return refused(E::INVALID_REQUEST);
        }
        if self.bumps && current.0 >= 0 {
            match self.producers.get_mut(&current.0) {
                None => return refused(E::INVALID_PRODUCER_ID_MAPPING),
                Some(epoch) if *epoch != current.1 => {
                    return refused(if version < 4 { E::INVALID_PRODUCER_EPOCH } else { E::PRODUCER_FENCED });
                }
                // The last epoch is reserved for fencing: assign a new id instead.
                Some(epoch) if *epoch < i16::MAX - 1 => {
                    *epoch += 1;
                    let (producer_id, producer_epoch) = (current.0, *epoch);
                    return InitProducerIdResponse { producer_id, producer_epoch, ..Default::default() };
                }
                Some(_) => {}
            }
        }
        let producer_id = 4000 + self.producers.len() as i64;
        self.producers.insert(producer_id, self.first_epoch);
        InitProducerIdResponse { producer_id, producer_epoch: self.first_epoch, ..Default::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(brokers: &mut Brokers, version: i16, producer_id: i64, producer_epoch: i16) -> (i64, i16, E) {
        let request =
            InitProducerIdRequest { transactional_id: None, producer_id, producer_epoch, ..Default::default() };
        let answer = brokers.init_producer_id(version, &request);
        (answer.producer_id, answer.producer_epoch, E(answer.error_code))
    }

    #[test]
    fn kafka_gives_a_new_id_each_time() {
        let mut brokers = Brokers::new(1);
        assert_eq!(init(&mut brokers, 5, -1, -1), (4000, 0, E::NONE));
        assert_eq!(init(&mut brokers, 5, 4000, 0), (4001, 0, E::NONE));
        assert_eq!(init(&mut brokers, 5, 4000, -1), (-1, -1, E::INVALID_REQUEST));
    }

    #[test]
    fn brokers_that_bump_fence_who_is_late_and_give_a_new_id_when_epochs_run_out() {
        let mut brokers = Brokers { bumps: true, first_epoch: i16::MAX - 2, ..Brokers::new(1) };
        assert_eq!(init(&mut brokers, 5, -1, -1), (4000, i16::MAX - 2, E::NONE));
        assert_eq!(init(&mut brokers, 5, 4000, i16::MAX - 2), (4000, i16::MAX - 1, E::NONE));
        assert_eq!(init(&mut brokers, 5, 4000, i16::MAX - 2), (-1, -1, E::PRODUCER_FENCED));
        assert_eq!(init(&mut brokers, 3, 4000, i16::MAX - 2), (-1, -1, E::INVALID_PRODUCER_EPOCH));
        assert_eq!(init(&mut brokers, 5, 77, 0), (-1, -1, E::INVALID_PRODUCER_ID_MAPPING));
        assert_eq!(init(&mut brokers, 5, 4000, i16::MAX - 1), (4001, i16::MAX - 2, E::NONE));
    }

    #[test]
    fn a_broker_answers_from_what_it_has_heard() {
        let mut brokers = Brokers::new(2);
        brokers.create("orders", 2);
        brokers.update_metadata(1);
        let tp = TopicPartition::new("orders", 1);
        brokers.logs.get_mut(&tp).unwrap().elect(1, 0, 0, 0);
        brokers.update_metadata(2);
        assert_eq!(brokers.views[&1].leader(&tp), Some((2, 0)));
        assert_eq!(brokers.views[&2].leader(&tp), Some((1, 1)));
    }
}
