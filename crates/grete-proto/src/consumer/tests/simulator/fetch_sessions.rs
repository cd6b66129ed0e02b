//! Server side of Fetch, with sessions (KIP-227).

use std::collections::{BTreeMap, BTreeSet};

use grete_wire::ErrorCode as E;
use grete_wire::messages::fetch::{
    EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, PartitionData,
};

use super::partition_log::Log;
use crate::ids::{NodeId, TopicPartition};

#[derive(Debug, Clone, Copy)]
struct SessionPartition {
    /// 0: the topic is identified by its name.
    topic_id: u128,
    offset: i64,
    leader_epoch: i32,
    max_bytes: i32,
    /// High watermark in the last response.
    high_watermark: i64,
}

#[derive(Debug)]
struct Session {
    node: NodeId,
    epoch: i32,
    parts: Vec<(TopicPartition, SessionPartition)>,
}

/// Sessions of all brokers; an id is never used twice.
#[derive(Debug, Default)]
pub struct Sessions {
    open: BTreeMap<i32, Session>,
    next: i32,
}

/// Broker metadata of topics.
#[derive(Debug)]
pub struct Topics<'a> {
    pub ids: &'a BTreeMap<String, u128>,
    /// Topics without the permission to read.
    pub forbidden: &'a BTreeSet<String>,
}

/// Result of a Fetch request.
#[derive(Debug)]
pub enum RequestOutcome {
    /// Respond from this session; true: the request was a full one.
    Session(i32, bool),
    /// Respond with an error at once.
    Refused(E),
    Closed,
}

impl Sessions {
    pub fn take(&mut self, node: NodeId, request: &FetchRequest<'_>, name: impl Fn(u128) -> String) -> RequestOutcome {
        let name = |topic: &str, id: u128| if id == 0 { topic.to_owned() } else { name(id) };
        let mut named = Vec::new();
        for topic in &request.topics {
            for p in &topic.partitions {
                let (offset, leader_epoch, max_bytes) = (p.fetch_offset, p.current_leader_epoch, p.partition_max_bytes);
                let tp = TopicPartition::new(name(&topic.topic, topic.topic_id), p.partition);
                let topic_id = topic.topic_id;
                let part = SessionPartition { topic_id, offset, leader_epoch, max_bytes, high_watermark: -2 };
                assert!(!named.iter().any(|known| is(known, &tp, topic_id)), "{tp} is named twice");
                named.push((tp, part));
            }
        }
        if request.session_epoch < 0 {
            self.open.remove(&request.session_id);
            return RequestOutcome::Closed;
        }
        if request.session_epoch == 0 {
            self.open.remove(&request.session_id);
            self.next += 1;
            self.open.insert(self.next, Session { node, epoch: 1, parts: named });
            return RequestOutcome::Session(self.next, true);
        }
        let Some(session) = self.open.get_mut(&request.session_id).filter(|session| session.node == node) else {
            return RequestOutcome::Refused(E::FETCH_SESSION_ID_NOT_FOUND);
        };
        if session.epoch != request.session_epoch {
            return RequestOutcome::Refused(E::INVALID_FETCH_SESSION_EPOCH);
        }
        for (tp, part) in named {
            match session.parts.iter_mut().find(|known| is(known, &tp, part.topic_id)) {
                Some((_, known)) => *known = SessionPartition { high_watermark: known.high_watermark, ..part },
                None => session.parts.push((tp, part)),
            }
        }
        for topic in &request.forgotten_topics_data {
            for p in &topic.partitions {
                let tp = TopicPartition::new(name(&topic.topic, topic.topic_id), *p);
                let before = session.parts.len();
                session.parts.retain(|known| !is(known, &tp, topic.topic_id));
                assert_eq!(session.parts.len() + 1, before, "{tp} is forgotten without being known");
            }
        }
        session.epoch += 1;
        RequestOutcome::Session(request.session_id, false)
    }

    /// Clears the broker's session cache.
    pub fn forget(&mut self, node: NodeId) {
        self.open.retain(|_, session| session.node != node);
    }

    /// Returns the response, and whether it has any news: without news, a broker delays the response.
    pub fn fill(
        &mut self,
        id: i32,
        full: bool,
        version: i16,
        max_bytes: i32,
        logs: &mut BTreeMap<TopicPartition, Log>,
        topics: &Topics<'_>,
    ) -> (FetchResponse<'static>, bool) {
        let mut response = FetchResponse { session_id: id, ..FetchResponse::default() };
        let Some(session) = self.open.get_mut(&id) else {
            response.error_code = E::FETCH_SESSION_ID_NOT_FOUND.0;
            return (response, true);
        };
        let mut left = usize::try_from(max_bytes).unwrap();
        let mut any = false;
        for (tp, part) in &mut session.parts {
            let data = read(session.node, version, tp, part, left, logs.get_mut(tp), topics);
            let bytes = data.records.as_ref().map_or(0, |records| records.len());
            left = left.saturating_sub(bytes);
            any |= bytes > 0 || data.error_code != 0;
            let news = bytes > 0 || data.error_code != 0 || part.high_watermark != data.high_watermark;
            part.high_watermark = data.high_watermark;
            if news || full {
                let by_id = version >= 13;
                response.responses.push(FetchableTopicResponse {
                    topic: if by_id { String::new().into() } else { tp.topic.to_string().into() },
                    topic_id: if by_id { part.topic_id } else { 0 },
                    partitions: vec![data],
                });
            }
        }
        // The partition that was served goes to the end of the queue.
        let turn = usize::from(any && session.parts.len() > 1);
        session.parts.rotate_left(turn);
        (response, any)
    }
}

fn is((known, part): &(TopicPartition, SessionPartition), tp: &TopicPartition, topic_id: u128) -> bool {
    known == tp && part.topic_id == topic_id
}

fn read(
    node: NodeId,
    version: i16,
    tp: &TopicPartition,
    part: &SessionPartition,
    left: usize,
    log: Option<&mut Log>,
    topics: &Topics<'_>,
) -> PartitionData<'static> {
    let mut data = PartitionData {
        partition_index: tp.partition,
        high_watermark: -1,
        records: Some(Vec::new().into()),
        diverging_epoch: EpochEndOffset::default(),
        ..PartitionData::default()
    };
    let code = match &log {
        _ if part.topic_id != 0 && topics.ids.get(&*tp.topic) != Some(&part.topic_id) => E::UNKNOWN_TOPIC_ID,
        None => E::UNKNOWN_TOPIC_OR_PARTITION,
        _ if topics.forbidden.contains(&*tp.topic) => E::TOPIC_AUTHORIZATION_FAILED,
        Some(log) if log.leader != node => E::NOT_LEADER_OR_FOLLOWER,
        Some(log) if part.leader_epoch >= 0 && part.leader_epoch < log.epoch => E::FENCED_LEADER_EPOCH,
        Some(log) if part.leader_epoch > log.epoch => E::UNKNOWN_LEADER_EPOCH,
        Some(log) if part.offset < log.start || part.offset > log.end() => E::OFFSET_OUT_OF_RANGE,
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
            data.records = Some(log.read(part.offset, left.min(part.max_bytes.unsigned_abs() as usize)).into());
        }
    }
    data
}
