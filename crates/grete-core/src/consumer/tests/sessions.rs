//! The server's side of Fetch, with sessions (KIP-227).

use std::collections::BTreeMap;

use grete_wire::ErrorCode as E;
use grete_wire::messages::fetch_request::FetchRequest;
use grete_wire::messages::fetch_response::{
    EpochEndOffset, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, PartitionData,
};

use super::log::Log;
use crate::ids::{NodeId, TopicPartition};

#[derive(Debug, Clone, Copy)]
struct Part {
    offset: i64,
    leader_epoch: i32,
    max_bytes: i32,
    /// What the client was told last.
    high_watermark: i64,
}

#[derive(Debug)]
struct Session {
    node: NodeId,
    epoch: i32,
    parts: Vec<(TopicPartition, Part)>,
}

/// The sessions of all brokers; an id is never used twice.
#[derive(Debug, Default)]
pub struct Sessions {
    open: BTreeMap<i32, Session>,
    next: i32,
}

/// What a request came to.
#[derive(Debug)]
pub enum Taken {
    /// Answer from this session; the request was a full one.
    Session(i32, bool),
    /// Nothing to wait for.
    Refused(E),
    Closed,
}

impl Sessions {
    pub fn take(&mut self, node: NodeId, request: &FetchRequest<'_>, name: impl Fn(u128) -> String) -> Taken {
        let name = |topic: &str, id: u128| if id == 0 { topic.to_owned() } else { name(id) };
        let mut named = Vec::new();
        for topic in &request.topics {
            for p in &topic.partitions {
                let (offset, leader_epoch, max_bytes) = (p.fetch_offset, p.current_leader_epoch, p.partition_max_bytes);
                let tp = TopicPartition::new(name(&topic.topic, topic.topic_id), p.partition);
                assert!(!named.iter().any(|(other, _)| *other == tp), "{tp} is named twice");
                named.push((tp, Part { offset, leader_epoch, max_bytes, high_watermark: -2 }));
            }
        }
        if request.session_epoch < 0 {
            self.open.remove(&request.session_id);
            return Taken::Closed;
        }
        if request.session_epoch == 0 {
            self.open.remove(&request.session_id);
            self.next += 1;
            self.open.insert(self.next, Session { node, epoch: 1, parts: named });
            return Taken::Session(self.next, true);
        }
        let Some(session) = self.open.get_mut(&request.session_id).filter(|session| session.node == node) else {
            return Taken::Refused(E::FETCH_SESSION_ID_NOT_FOUND);
        };
        if session.epoch != request.session_epoch {
            return Taken::Refused(E::INVALID_FETCH_SESSION_EPOCH);
        }
        for (tp, part) in named {
            match session.parts.iter_mut().find(|(known, _)| *known == tp) {
                Some((_, known)) => *known = Part { high_watermark: known.high_watermark, ..part },
                None => session.parts.push((tp, part)),
            }
        }
        for topic in &request.forgotten_topics_data {
            for p in &topic.partitions {
                let tp = TopicPartition::new(name(&topic.topic, topic.topic_id), *p);
                let before = session.parts.len();
                session.parts.retain(|(known, _)| *known != tp);
                assert_eq!(session.parts.len() + 1, before, "{tp} is forgotten without being known");
            }
        }
        session.epoch += 1;
        Taken::Session(request.session_id, false)
    }

    /// The broker's cache of sessions is thrown away.
    pub fn forget(&mut self, node: NodeId) {
        self.open.retain(|_, session| session.node != node);
    }

    /// The answer, and whether it has any news: if not, a broker waits before it sends it.
    pub fn fill(
        &mut self,
        id: i32,
        full: bool,
        version: i16,
        max_bytes: i32,
        logs: &mut BTreeMap<TopicPartition, Log>,
        ids: &BTreeMap<String, u128>,
    ) -> (FetchResponse<'static>, bool) {
        let mut response = FetchResponse { session_id: id, ..FetchResponse::default() };
        let Some(session) = self.open.get_mut(&id) else {
            response.error_code = E::FETCH_SESSION_ID_NOT_FOUND.0;
            return (response, true);
        };
        let mut left = usize::try_from(max_bytes).unwrap();
        let mut any = false;
        for (tp, part) in &mut session.parts {
            let data = read(session.node, version, tp, part, left, logs.get_mut(tp));
            let bytes = data.records.as_ref().map_or(0, |records| records.len());
            left = left.saturating_sub(bytes);
            any |= bytes > 0 || data.error_code != 0;
            let news = bytes > 0 || data.error_code != 0 || part.high_watermark != data.high_watermark;
            part.high_watermark = data.high_watermark;
            if news || full {
                let by_id = version >= 13;
                response.responses.push(FetchableTopicResponse {
                    topic: if by_id { String::new().into() } else { tp.topic.to_string().into() },
                    topic_id: if by_id { ids.get(&*tp.topic).copied().unwrap_or(0) } else { 0 },
                    partitions: vec![data],
                });
            }
        }
        // Who was served goes to the end of the queue.
        let turn = usize::from(any && session.parts.len() > 1);
        session.parts.rotate_left(turn);
        (response, any)
    }
}

fn read(
    node: NodeId,
    version: i16,
    tp: &TopicPartition,
    part: &Part,
    left: usize,
    log: Option<&mut Log>,
) -> PartitionData<'static> {
    let mut data = PartitionData {
        partition_index: tp.partition,
        high_watermark: -1,
        records: Some(Vec::new().into()),
        diverging_epoch: EpochEndOffset::default(),
        ..PartitionData::default()
    };
    let code = match &log {
        None => E::UNKNOWN_TOPIC_OR_PARTITION,
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
