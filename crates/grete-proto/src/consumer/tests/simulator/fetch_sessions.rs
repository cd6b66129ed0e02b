//! Server side of Fetch. The sessions (KIP-227) are those of the embedded broker; in front of them stand checks of the
//! client, which a broker does not make.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grete_broker::fetch_session::{
    FetchSessions, FetchTopicKey, FetchedPartition, SessionUse, WantedPartition, WantedPartitions,
};
use grete_wire::ErrorCode as E;
use grete_wire::messages::fetch::{
    EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, PartitionData,
};

use super::partition_log::Log;
use crate::ids::{NodeId, TopicPartition};

/// Sessions of all brokers.
#[derive(Debug, Default)]
pub struct Sessions {
    of: BTreeMap<NodeId, FetchSessions>,
    /// Number of caches made so far: the seed of the next one, so that no session id is used twice.
    made: u64,
}

/// Broker metadata of topics.
#[derive(Debug)]
pub struct Topics<'a> {
    pub ids: &'a BTreeMap<String, u128>,
    /// Names by id, also of deleted topics.
    pub names: &'a BTreeMap<u128, String>,
    /// Topics without the permission to read.
    pub forbidden: &'a BTreeSet<String>,
}

/// Fetch whose session is resolved.
#[derive(Debug)]
pub struct PlannedFetch {
    node: NodeId,
    session: SessionUse,
    wanted: Arc<WantedPartitions>,
}

impl Sessions {
    /// Begins a request.
    ///
    /// # Errors
    /// The broker refuses the session.
    pub fn begin(&mut self, node: NodeId, version: i16, request: &FetchRequest<'_>) -> Result<PlannedFetch, E> {
        self.check_client(node, request);
        let (session, wanted) = self.of(node).begin(version, request, |_| None)?;
        Ok(PlannedFetch { node, session, wanted })
    }

    /// Fails if the client names a partition twice, or forgets a partition that the session does not have.
    fn check_client(&mut self, node: NodeId, request: &FetchRequest<'_>) {
        let mut named = BTreeSet::new();
        for topic in &request.topics {
            for wanted in &topic.partitions {
                let is_new = named.insert((topic.topic.to_string(), topic.topic_id, wanted.partition));
                assert!(is_new, "{} {:x} [{}] is named twice", topic.topic, topic.topic_id, wanted.partition);
            }
        }
        let Some(known) = self.of(node).partitions(request.session_id).filter(|_| request.session_epoch > 0) else {
            return;
        };
        for topic in &request.forgotten_topics_data {
            for partition in &topic.partitions {
                let is_known = known.iter().any(|(_, known)| {
                    (&*known.topic.name, known.topic.id, known.fetch.partition)
                        == (&*topic.topic, topic.topic_id, *partition)
                });
                let place = format!("{} {:x} [{partition}]", topic.topic, topic.topic_id);
                assert!(is_known, "{place} is forgotten without being known");
            }
        }
    }

    fn of(&mut self, node: NodeId) -> &mut FetchSessions {
        self.of.entry(node).or_insert_with(|| {
            self.made += 1;
            FetchSessions::new(self.made)
        })
    }

    /// Clears the broker's session cache.
    pub fn forget(&mut self, node: NodeId) {
        self.of.remove(&node);
    }

    /// Returns the response. `None`: there is nothing to report yet, so the broker delays the response. `at_end`: the
    /// delay is over.
    pub fn respond(
        &mut self,
        planned: &PlannedFetch,
        at_end: bool,
        version: i16,
        max_bytes: i32,
        logs: &mut BTreeMap<TopicPartition, Log>,
        topics: &Topics<'_>,
    ) -> Option<FetchResponse<'static>> {
        let mut left = usize::try_from(max_bytes).unwrap();
        let mut is_enough = at_end || planned.wanted.is_empty();
        let mut read_partitions = Vec::new();
        for (slot, wanted) in planned.wanted.iter() {
            let name = match wanted.topic.id {
                0 => wanted.topic.name.to_string(),
                id => topics.names.get(&id).cloned().unwrap_or_else(|| format!("?{id}")),
            };
            let tp = TopicPartition::new(name, wanted.fetch.partition);
            let data = read(planned.node, version, &tp, wanted, left, logs.get_mut(&tp), topics);
            let bytes = data.records.as_ref().map_or(0, |records| records.len());
            left = left.saturating_sub(bytes);
            is_enough |= bytes > 0 || data.error_code != 0;
            read_partitions.push((slot, data.into()));
        }
        if !is_enough {
            return None;
        }
        let wanted = Arc::clone(&planned.wanted);
        let (session_id, sent) = self.of(planned.node).respond(version, planned.session, wanted, read_partitions);
        let topic = |(topic, fetched): (FetchTopicKey, FetchedPartition)| FetchableTopicResponse {
            topic: topic.name.to_string().into(),
            topic_id: topic.id,
            partitions: vec![fetched.data],
        };
        Some(FetchResponse { session_id, responses: sent.into_iter().map(topic).collect(), ..FetchResponse::default() })
    }
}

fn read(
    node: NodeId,
    version: i16,
    tp: &TopicPartition,
    wanted: &WantedPartition,
    left: usize,
    log: Option<&mut Log>,
    topics: &Topics<'_>,
) -> PartitionData<'static> {
    let part = &wanted.fetch;
    let mut data = PartitionData {
        partition_index: tp.partition,
        high_watermark: -1,
        records: Some(Vec::new().into()),
        diverging_epoch: EpochEndOffset::default(),
        ..PartitionData::default()
    };
    let code = match &log {
        _ if wanted.topic.id != 0 && topics.ids.get(&*tp.topic) != Some(&wanted.topic.id) => E::UNKNOWN_TOPIC_ID,
        None => E::UNKNOWN_TOPIC_OR_PARTITION,
        _ if topics.forbidden.contains(&*tp.topic) => E::TOPIC_AUTHORIZATION_FAILED,
        Some(log) if log.leader != node => E::NOT_LEADER_OR_FOLLOWER,
        Some(log) if part.current_leader_epoch >= 0 && part.current_leader_epoch < log.epoch => E::FENCED_LEADER_EPOCH,
        Some(log) if part.current_leader_epoch > log.epoch => E::UNKNOWN_LEADER_EPOCH,
        Some(log) if part.fetch_offset < log.start || part.fetch_offset > log.end() => E::OFFSET_OUT_OF_RANGE,
        Some(_) => E::NONE,
    };
    data.error_code = code.0;
    let Some(log) = log else { return data };
    if code == E::NOT_LEADER_OR_FOLLOWER && version >= 12 {
        data.current_leader = LeaderIdAndEpoch { leader_id: log.leader, leader_epoch: log.epoch };
    }
    if code == E::NONE {
        data.high_watermark = log.end();
        data.last_stable_offset = log.end();
        data.log_start_offset = log.start;
        if left > 0 {
            data.records =
                Some(log.read(part.fetch_offset, left.min(part.partition_max_bytes.unsigned_abs() as usize)).into());
        }
    }
    data
}
